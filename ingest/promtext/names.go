package promtext

import (
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// target says what a gauge gives. Of several for one metric in one scrape the lowest rank counts.
type target = ingest.DCGMField

func gauge(m timeline.Metric, scale, lo, hi float64) target {
	return target{Metric: m, Scale: scale, Lo: lo, Hi: hi}
}

func ranked(rank int, t target) target { t.Rank = rank; return t }

const big = 1e18

// smi are the gauges of nvidia_gpu_exporter, behind nvidia_smi_; they are in base units.
var smi = map[string]target{
	"utilization_gpu_ratio": gauge(timeline.SMBusy, 1, 0, 1), "utilization_memory_ratio": gauge(timeline.MemBusy, 1, 0, 1),
	"utilization_encoder_ratio": gauge(timeline.EncBusy, 1, 0, 1), "utilization_decoder_ratio": gauge(timeline.DecBusy, 1, 0, 1),
	"utilization_jpeg_ratio": gauge(timeline.JpgBusy, 1, 0, 1), "utilization_ofa_ratio": gauge(timeline.OfaBusy, 1, 0, 1),
	"power_draw_watts": gauge(timeline.Power, 1, 0, 20000), "power_draw_average_watts": ranked(1, gauge(timeline.Power, 1, 0, 20000)),
	"power_draw_instant_watts": gauge(timeline.PowerInstant, 1, 0, 20000), "enforced_power_limit_watts": gauge(timeline.PowerLimit, 1, 0, 20000),
	"power_limit_watts": ranked(1, gauge(timeline.PowerLimit, 1, 0, 20000)), "power_default_limit_watts": gauge(timeline.PowerDefault, 1, 0, 20000),
	"temperature_gpu": gauge(timeline.TempGPU, 1, -50, 200), "temperature_memory": gauge(timeline.TempMem, 1, -50, 200),
	"temperature_gpu_tlimit": gauge(timeline.TempMargin, 1, -200, 200), "clocks_current_sm_clock_hz": gauge(timeline.ClockSM, 1, 0, 1e11),
	"clocks_current_graphics_clock_hz": ranked(1, gauge(timeline.ClockSM, 1, 0, 1e11)), "clocks_current_memory_clock_hz": gauge(timeline.ClockMem, 1, 0, 1e11),
	"clocks_current_video_clock_hz": gauge(timeline.ClockVideo, 1, 0, 1e11), "clocks_max_sm_clock_hz": gauge(timeline.ClockSMMax, 1, 0, 1e11),
	"clocks_max_graphics_clock_hz": ranked(1, gauge(timeline.ClockSMMax, 1, 0, 1e11)), "clocks_max_memory_clock_hz": gauge(timeline.ClockMemMax, 1, 0, 1e11),
	"memory_used_bytes": gauge(timeline.MemUsed, 1, 0, big), "memory_total_bytes": gauge(timeline.MemTotal, 1, 0, big), "memory_reserved_bytes": gauge(timeline.MemReserved, 1, 0, big),
	"pcie_link_gen_current": gauge(timeline.PCIeGen, 1, 0, 16), "pcie_link_gen_gpucurrent": ranked(1, gauge(timeline.PCIeGen, 1, 0, 16)),
	"pcie_link_gen_max": gauge(timeline.PCIeGenMax, 1, 0, 16), "pcie_link_width_current": gauge(timeline.PCIeWidth, 1, 0, 64), "pcie_link_width_max": gauge(timeline.PCIeWidthMax, 1, 0, 64),
	"pcie_throughput_rx_bytes_per_second": gauge(timeline.PCIeRx, 1, 0, 130e9), "pcie_throughput_tx_bytes_per_second": gauge(timeline.PCIeTx, 1, 0, 130e9),
	"ecc_errors_corrected_aggregate_total": gauge(timeline.ECCCorrected, 1, 0, 1e15), "ecc_errors_corrected_volatile_total": ranked(1, gauge(timeline.ECCCorrected, 1, 0, 1e15)),
	"ecc_errors_uncorrected_aggregate_total": gauge(timeline.ECCUncorrected, 1, 0, 1e15), "ecc_errors_uncorrected_volatile_total": gauge(timeline.ECCVolUnc, 1, 0, 1e15),
	"remapped_rows_correctable": gauge(timeline.RemapCorr, 1, 0, 1e9), "remapped_rows_uncorrectable": gauge(timeline.RemapUncorr, 1, 0, 1e9),
	"remapped_rows_pending": gauge(timeline.RemapPending, 1, 0, 1), "remapped_rows_failure": gauge(timeline.RemapFailed, 1, 0, 1), "retired_pages_pending": gauge(timeline.RetirePending, 1, 0, 1),
	"fan_speed_ratio": gauge(timeline.Fan, 1, 0, 2), "pstate": gauge(timeline.PState, 1, 0, 32), "energy_joules_total": gauge(timeline.Energy, 1, 0, big),
	"clocks_event_reasons_active": gauge(timeline.Reasons, 1, 0, 1<<52), "compute_apps": gauge(timeline.GPUProcesses, 1, 0, 1e6),
	"clocks_event_reasons_counters_sw_power_cap_seconds":            gauge(timeline.ThrottlePower, 1, 0, big),
	"clocks_event_reasons_counters_sw_thermal_slowdown_seconds":     gauge(timeline.ThrottleSWThermal, 1, 0, big),
	"clocks_event_reasons_counters_hw_thermal_slowdown_seconds":     gauge(timeline.ThrottleHWThermal, 1, 0, big),
	"clocks_event_reasons_counters_hw_power_brake_slowdown_seconds": gauge(timeline.ThrottlePowerBrake, 1, 0, big),
	"clocks_event_reasons_counters_sync_boost_seconds":              gauge(timeline.ThrottleSyncBoost, 1, 0, big),
}

// gpuGauges are those of an older exporter, behind nvidia_gpu_.
var gpuGauges = map[string]target{
	"duty_cycle": gauge(timeline.SMBusy, .01, 0, 100), "memory_used_bytes": gauge(timeline.MemUsed, 1, 0, big), "memory_total_bytes": gauge(timeline.MemTotal, 1, 0, big),
	"power_usage_milliwatts": gauge(timeline.Power, 1e-3, 0, 2e7), "temperature_celsius": gauge(timeline.TempGPU, 1, -50, 200), "fanspeed_percent": gauge(timeline.Fan, .01, 0, 200),
}

// hostGauges are those of node_exporter that speak of the whole host.
var hostGauges = map[string]target{
	"node_load1": gauge(timeline.Load1, 1, 0, 1e9), "node_procs_running": gauge(timeline.RunQueue, 1, 0, 1e9), "node_procs_blocked": gauge(timeline.Blocked, 1, 0, 1e9),
	"node_memory_MemAvailable_bytes": gauge(timeline.MemFree, 1, 0, big), "node_memory_Cached_bytes": gauge(timeline.PageCache, 1, 0, big),
}

// counter is a total whose growth over the time between two scrapes is what counts.
type counter struct {
	kind  timeline.TrackKind
	by    []string // labels that name the part
	what  string   // of a quantity that is put together below; "" the rate itself
	gives timeline.Metric
	scale float64
	hi    float64
}

func rate(kind timeline.TrackKind, m timeline.Metric, scale, hi float64, by ...string) counter {
	m.Covers, m.Window = timeline.WindowBefore, time.Second
	return counter{kind: kind, by: by, gives: m, scale: scale, hi: hi}
}

func part(kind timeline.TrackKind, what string, by ...string) counter {
	return counter{kind: kind, by: by, what: what, scale: 1, hi: big}
}

const page = 4096

var counters = map[string]counter{
	"node_context_switches_total":                rate(timeline.TrackHostReadings, timeline.CtxSwitches, 1, 1e10),
	"node_vmstat_pswpin":                         rate(timeline.TrackHostReadings, timeline.SwapIn, page, 1e12),
	"node_vmstat_pswpout":                        rate(timeline.TrackHostReadings, timeline.SwapOut, page, 1e12),
	"node_pressure_cpu_waiting_seconds_total":    rate(timeline.TrackHostReadings, timeline.PSICPU, 1, 1),
	"node_pressure_io_waiting_seconds_total":     rate(timeline.TrackHostReadings, timeline.PSIIO, 1, 1),
	"node_pressure_memory_waiting_seconds_total": rate(timeline.TrackHostReadings, timeline.PSIMem, 1, 1),

	"node_disk_read_bytes_total":               rate(timeline.TrackDisk, timeline.DiskRead, 1, 1e12, "device"),
	"node_disk_written_bytes_total":            rate(timeline.TrackDisk, timeline.DiskWrite, 1, 1e12, "device"),
	"node_disk_io_time_seconds_total":          rate(timeline.TrackDisk, timeline.DiskBusy, 1, 1, "device"),
	"node_disk_io_time_weighted_seconds_total": rate(timeline.TrackDisk, timeline.DiskQueue, 1, 1e6, "device"),
	"node_disk_reads_completed_total":          part(timeline.TrackDisk, "reads", "device"),
	"node_disk_writes_completed_total":         part(timeline.TrackDisk, "writes", "device"),
	"node_disk_read_time_seconds_total":        part(timeline.TrackDisk, "read time", "device"),
	"node_disk_write_time_seconds_total":       part(timeline.TrackDisk, "write time", "device"),

	"node_network_receive_bytes_total":  rate(timeline.TrackNIC, timeline.NetRx, 1, 1e12, "device"),
	"node_network_transmit_bytes_total": rate(timeline.TrackNIC, timeline.NetTx, 1, 1e12, "device"),

	"node_infiniband_port_data_received_bytes_total":    rate(timeline.TrackNIC, timeline.NetRx, 1, 1e12, "device", "port"),
	"node_infiniband_port_data_transmitted_bytes_total": rate(timeline.TrackNIC, timeline.NetTx, 1, 1e12, "device", "port"),
	"node_infiniband_port_transmit_wait_total":          rate(timeline.TrackNIC, timeline.NetWait, 1, 1e12, "device", "port"),

	"node_cpu_seconds_total": part(timeline.TrackCPU, "cpu", "cpu"),
}

// partGauges are gauges of a part of the host.
var partGauges = map[string]struct {
	counter
	target
}{
	"node_network_receive_errs_total":  {part(timeline.TrackNIC, "", "device"), adds(gauge(timeline.NetErrors, 1, 0, big))},
	"node_network_receive_drop_total":  {part(timeline.TrackNIC, "", "device"), adds(gauge(timeline.NetErrors, 1, 0, big))},
	"node_network_transmit_errs_total": {part(timeline.TrackNIC, "", "device"), adds(gauge(timeline.NetErrors, 1, 0, big))},
	"node_network_transmit_drop_total": {part(timeline.TrackNIC, "", "device"), adds(gauge(timeline.NetErrors, 1, 0, big))},
	"node_network_up":                  {part(timeline.TrackNIC, "", "device"), gauge(timeline.NetState, 1, 0, 1)},
	"node_network_speed_bytes":         {part(timeline.TrackNIC, "", "device"), gauge(timeline.NetSpeed, 1, 1, 1e12)},

	"node_infiniband_rate_bytes_per_second":      {part(timeline.TrackNIC, "", "device", "port"), gauge(timeline.NetSpeed, 1, 1, 1e12)},
	"node_infiniband_symbol_error_total":         {part(timeline.TrackNIC, "", "device", "port"), adds(gauge(timeline.NetErrors, 1, 0, big))},
	"node_infiniband_port_errors_received_total": {part(timeline.TrackNIC, "", "device", "port"), adds(gauge(timeline.NetErrors, 1, 0, big))},
}

func adds(t target) target { t.Add = true; return t }
