package timeline

import (
	"time"

	"gpureport/ingest/unit"
)

// The metrics that readers of sampled logs give. One spelling each, whatever the maker called it.
var (
	SMBusy             = Metric{"sm_busy_frac", unit.Frac, WindowBefore, time.Second}  // share of the window with any kernel resident
	MemBusy            = Metric{"mem_busy_frac", unit.Frac, WindowBefore, time.Second} // share with device memory being read or written
	EncBusy            = Metric{"enc_busy_frac", unit.Frac, WindowBefore, time.Second}
	DecBusy            = Metric{"dec_busy_frac", unit.Frac, WindowBefore, time.Second}
	JpgBusy            = Metric{"jpg_busy_frac", unit.Frac, WindowBefore, time.Second}
	OfaBusy            = Metric{"ofa_busy_frac", unit.Frac, WindowBefore, time.Second}
	Power              = Metric{"power_w", unit.Watt, WindowBefore, time.Second}
	PowerLimit         = Metric{"power_limit_w", unit.Watt, Instant, 0} // the enforced limit
	PowerDefault       = Metric{"power_default_w", unit.Watt, Instant, 0}
	TempGPU            = Metric{"temp_gpu_c", unit.Celsius, Instant, 0}
	TempMem            = Metric{"temp_mem_c", unit.Celsius, Instant, 0}
	TempMargin         = Metric{"temp_margin_c", unit.Celsius, Instant, 0} // T.Limit: degrees left
	ClockSM            = Metric{"clock_sm_hz", unit.Hertz, Instant, 0}
	ClockSMMax         = Metric{"clock_sm_max_hz", unit.Hertz, Instant, 0}
	ClockMem           = Metric{"clock_mem_hz", unit.Hertz, Instant, 0}
	ClockMemMax        = Metric{"clock_mem_max_hz", unit.Hertz, Instant, 0}
	Reasons            = Metric{"clock_reasons", unit.Count, Instant, 0} // event reason bits, nvml.md section 4
	ViolPower          = Metric{"power_violation_frac", unit.Frac, WindowBefore, time.Second}
	ViolThermal        = Metric{"thermal_violation", unit.Flag, WindowBefore, time.Second}
	ThrottlePower      = Metric{"throttle_sw_power_s", unit.Second, RunningTotal, 0}
	ThrottleSWThermal  = Metric{"throttle_sw_thermal_s", unit.Second, RunningTotal, 0}
	ThrottleHWThermal  = Metric{"throttle_hw_thermal_s", unit.Second, RunningTotal, 0}
	ThrottlePowerBrake = Metric{"throttle_power_brake_s", unit.Second, RunningTotal, 0}
	ThrottleSyncBoost  = Metric{"throttle_sync_boost_s", unit.Second, RunningTotal, 0}
	MemUsed            = Metric{"mem_used_bytes", unit.Byte, Instant, 0}
	MemTotal           = Metric{"mem_total_bytes", unit.Byte, Instant, 0}
	Bar1Used           = Metric{"bar1_used_bytes", unit.Byte, Instant, 0}
	PCIeRx             = Metric{"pcie_h2d_bytes_per_s", unit.BytePerSecond, WindowBefore, 20 * time.Millisecond}
	PCIeTx             = Metric{"pcie_d2h_bytes_per_s", unit.BytePerSecond, WindowBefore, 20 * time.Millisecond}
	PCIeGen            = Metric{"pcie_gen_count", unit.Count, Instant, 0}
	PCIeGenMax         = Metric{"pcie_gen_max_count", unit.Count, Instant, 0}
	PCIeWidth          = Metric{"pcie_width_count", unit.Count, Instant, 0}
	PCIeWidthMax       = Metric{"pcie_width_max_count", unit.Count, Instant, 0}
	PCIeReplays        = Metric{"pcie_replays_count", unit.Count, RunningTotal, 0}
	ECCCorrected       = Metric{"ecc_corrected_count", unit.Count, RunningTotal, 0}
	ECCUncorrected     = Metric{"ecc_uncorrected_count", unit.Count, RunningTotal, 0}
	PState             = Metric{"pstate_count", unit.Count, Instant, 0}
	Fan                = Metric{"fan_frac", unit.Frac, Instant, 0}
)
