package smiq

import (
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// use says what becomes of a value.
type use uint8

const (
	useReading use = iota
	useLimit       // a number that the report states once: an attribute, and a reading where sampled logs have the metric too
	useWord
	useMode // a word in lower case
	useFlag // Yes or No: an attribute
	useYes  // Yes or No: a reading
	useBit  // Active or Not Active
	useECC  // an error counter: summed by memory and kind
	useUUID
	useName
)

// field is one value below a GPU: where it stands in both spellings of the report and what it becomes.
type field struct {
	text, xml string // path below the GPU, in lower case
	use       use
	metrics   []timeline.Metric // the first reading of a metric in a report stands
	attr      string
	unit      unit.Unit // base unit of attr
	lo, hi    float64   // in the base unit
	bit       uint64
	ecc       eccKind
}

const big = 1e18

func reading(text, xml string, lo, hi float64, m ...timeline.Metric) field {
	return field{text: text, xml: xml, use: useReading, lo: lo, hi: hi, metrics: m}
}

func limit(text, xml, attr string, u unit.Unit, lo, hi float64, m ...timeline.Metric) field {
	return field{text: text, xml: xml, use: useLimit, attr: attr, unit: u, lo: lo, hi: hi, metrics: m}
}

func word(text, xml, attr string) field { return field{text: text, xml: xml, use: useWord, attr: attr} }
func mode(text, xml, attr string) field { return field{text: text, xml: xml, use: useMode, attr: attr} }
func flag(text, xml, attr string) field { return field{text: text, xml: xml, use: useFlag, attr: attr} }

func yes(text, xml string, m timeline.Metric) field {
	return field{text: text, xml: xml, use: useYes, metrics: []timeline.Metric{m}}
}

func bit(text, xml string, mask uint64) field {
	return field{text: "clocks event reasons/" + text, xml: "clocks_event_reasons/clocks_event_reason_" + xml, use: useBit, bit: mask}
}

// eccKind says what an error counter counts.
type eccKind struct {
	life      bool // since the card was made, not since the driver was loaded
	corrected bool
	memory    memory
}

type memory uint8

const (
	sram memory = iota
	dram
	allMemory
	nMemories
)

// eccMetrics are the sums by what they count.
var eccMetrics = map[eccKind]timeline.Metric{
	{false, true, sram}: timeline.ECCVolSRAMCorr, {false, false, sram}: timeline.ECCVolSRAMUnc,
	{false, true, dram}: timeline.ECCVolDRAMCorr, {false, false, dram}: timeline.ECCVolDRAMUnc,
	{true, true, sram}: timeline.ECCAggSRAMCorr, {true, false, sram}: timeline.ECCAggSRAMUnc,
	{true, true, dram}: timeline.ECCAggDRAMCorr, {true, false, dram}: timeline.ECCAggDRAMUnc,
	{false, false, allMemory}: timeline.ECCVolUnc, {true, true, allMemory}: timeline.ECCCorrected, {true, false, allMemory}: timeline.ECCUncorrected,
}

func ecc(text, xml string, life, corrected bool, m memory) field {
	return field{text: "ecc errors/" + text, xml: "ecc_errors/" + xml, use: useECC, hi: big, ecc: eccKind{life, corrected, m}}
}

// fields is everything that is read of a GPU. Paths that are not here (inforom, encoder sessions, supported clocks, MIG devices, samples
// of -d) are passed over. GPU clocks: graphics and SM clock are one on every part seen. Power limit: what is enforced, which may be lower
// than what was requested. PCIe generation: that of the link, not of the device.
var fields = []field{
	{text: "gpu uuid", xml: "uuid", use: useUUID},
	{text: "product name", xml: "product_name", use: useName},
	word("product architecture", "product_architecture", timeline.AttrArchitecture),
	mode("persistence mode", "persistence_mode", timeline.AttrPersistence),
	word("addressing mode", "addressing_mode", timeline.AttrAddressing),
	mode("mig mode/current", "mig_mode/current_mig", timeline.AttrMIG),
	word("driver model/current", "driver_model/current_dm", timeline.AttrDriverModel),
	word("vbios version", "vbios_version", timeline.AttrVBIOS),
	word("gpu virtualization mode/virtualization mode", "gpu_virtualization_mode/virtualization_mode", timeline.AttrVirtual),
	mode("gpu c2c mode", "c2c_mode", timeline.AttrC2C),
	word("gsp firmware version", "gsp_firmware_version", timeline.AttrGSP),
	word("gpu recovery action", "gpu_recovery_action", timeline.AttrRecovery),
	flag("gpu reset status/reset required", "gpu_reset_status/reset_required", timeline.AttrResetRequired),
	flag("gpu reset status/drain and reset recommended", "gpu_reset_status/drain_and_reset_recommended", timeline.AttrDrain),

	limit("pci/gpu link info/pcie generation/max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen", timeline.AttrPCIeGenMax, unit.Count, 1, 16, timeline.PCIeGenMax),
	reading("pci/gpu link info/pcie generation/current", "pci/pci_gpu_link_info/pcie_gen/current_link_gen", 1, 16, timeline.PCIeGen),
	reading("pci/gpu link info/pcie generation/device current", "pci/pci_gpu_link_info/pcie_gen/device_current_link_gen", 1, 16, timeline.PCIeGen),
	limit("pci/gpu link info/pcie generation/device max", "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", timeline.AttrPCIeGenDevice, unit.Count, 1, 16),
	limit("pci/gpu link info/pcie generation/host max", "pci/pci_gpu_link_info/pcie_gen/max_host_link_gen", timeline.AttrPCIeGenHost, unit.Count, 1, 16),
	limit("pci/gpu link info/link width/max", "pci/pci_gpu_link_info/link_widths/max_link_width", timeline.AttrPCIeWidthMax, unit.Count, 1, 64, timeline.PCIeWidthMax),
	reading("pci/gpu link info/link width/current", "pci/pci_gpu_link_info/link_widths/current_link_width", 1, 64, timeline.PCIeWidth),
	reading("pci/replays since reset", "pci/replay_counter", 0, big, timeline.PCIeReplays),
	reading("pci/tx throughput", "pci/tx_util", 0, 1.3e11, timeline.PCIeTx),
	reading("pci/rx throughput", "pci/rx_util", 0, 1.3e11, timeline.PCIeRx),

	reading("fan speed", "fan_speed", 0, 2, timeline.Fan),
	reading("performance state", "performance_state", 0, 32, timeline.PState),

	bit("idle", "gpu_idle", 0x1), bit("applications clocks setting", "applications_clocks_setting", 0x2), bit("sw power cap", "sw_power_cap", 0x4),
	bit("hw slowdown", "hw_slowdown", 0x8), bit("sync boost", "sync_boost", 0x10), bit("sw thermal slowdown", "sw_thermal_slowdown", 0x20),
	bit("hw slowdown/hw thermal slowdown", "hw_thermal_slowdown", 0x40), bit("hw slowdown/hw power brake slowdown", "hw_power_brake_slowdown", 0x80),
	bit("display clock setting", "display_clocks_setting", 0x100), bit("hw thermal slowdown", "hw_thermal_slowdown", 0x40),
	bit("hw power brake slowdown", "hw_power_brake_slowdown", 0x80),
	reading("clocks event reasons counters/sw power capping", "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_power_cap", 0, big, timeline.ThrottlePower),
	reading("clocks event reasons counters/sync boost", "clocks_event_reasons_counters/clocks_event_reasons_counters_sync_boost", 0, big, timeline.ThrottleSyncBoost),
	reading("clocks event reasons counters/sw thermal slowdown", "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_therm_slowdown", 0, big, timeline.ThrottleSWThermal),
	reading("clocks event reasons counters/hw thermal slowdown", "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown", 0, big, timeline.ThrottleHWThermal),
	reading("clocks event reasons counters/hw power braking", "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_power_brake", 0, big, timeline.ThrottlePowerBrake),

	reading("fb memory usage/total", "fb_memory_usage/total", 0, big, timeline.MemTotal),
	reading("fb memory usage/reserved", "fb_memory_usage/reserved", 0, big, timeline.MemReserved),
	reading("fb memory usage/used", "fb_memory_usage/used", 0, big, timeline.MemUsed),
	reading("bar1 memory usage/used", "bar1_memory_usage/used", 0, big, timeline.Bar1Used),
	mode("compute mode", "compute_mode", timeline.AttrComputeMode),

	reading("utilization/gpu", "utilization/gpu_util", 0, 1, timeline.SMBusy),
	reading("utilization/memory", "utilization/memory_util", 0, 1, timeline.MemBusy),
	reading("utilization/encoder", "utilization/encoder_util", 0, 1, timeline.EncBusy),
	reading("utilization/decoder", "utilization/decoder_util", 0, 1, timeline.DecBusy),
	reading("utilization/jpeg", "utilization/jpeg_util", 0, 1, timeline.JpgBusy),
	reading("utilization/ofa", "utilization/ofa_util", 0, 1, timeline.OfaBusy),

	mode("ecc mode/current", "ecc_mode/current_ecc", timeline.AttrECC),
	ecc("volatile/sram correctable", "volatile/sram_correctable", false, true, sram),
	ecc("volatile/sram uncorrectable", "volatile/sram_uncorrectable", false, false, sram),
	ecc("volatile/sram uncorrectable parity", "volatile/sram_uncorrectable_parity", false, false, sram),
	ecc("volatile/sram uncorrectable sec-ded", "volatile/sram_uncorrectable_secded", false, false, sram),
	ecc("volatile/dram correctable", "volatile/dram_correctable", false, true, dram),
	ecc("volatile/dram uncorrectable", "volatile/dram_uncorrectable", false, false, dram),
	ecc("aggregate/sram correctable", "aggregate/sram_correctable", true, true, sram),
	ecc("aggregate/sram uncorrectable", "aggregate/sram_uncorrectable", true, false, sram),
	ecc("aggregate/sram uncorrectable parity", "aggregate/sram_uncorrectable_parity", true, false, sram),
	ecc("aggregate/sram uncorrectable sec-ded", "aggregate/sram_uncorrectable_secded", true, false, sram),
	ecc("aggregate/dram correctable", "aggregate/dram_correctable", true, true, dram),
	ecc("aggregate/dram uncorrectable", "aggregate/dram_uncorrectable", true, false, dram),
	ecc("volatile/double bit/total", "volatile/double_bit/total", false, false, allMemory), // before Turing
	ecc("aggregate/single bit/total", "aggregate/single_bit/total", true, true, allMemory),
	ecc("aggregate/double bit/total", "aggregate/double_bit/total", true, false, allMemory),
	flag("ecc errors/aggregate/sram threshold exceeded", "ecc_errors/aggregate/sram_threshold_exceeded", timeline.AttrSRAMThreshold),
	flag("ecc errors/channel repair pending", "ecc_errors/channel_repair_pending", timeline.AttrChannelRepair),
	flag("ecc errors/tpc repair pending", "ecc_errors/tpc_repair_pending", timeline.AttrTPCRepair),
	flag("ecc errors/unrepairable memory", "ecc_errors/unrepairable_memory", timeline.AttrUnrepairable),

	reading("retired pages/single bit ecc", "retired_pages/multiple_single_bit_retirement/retired_count", 0, big, timeline.RetiredSingle),
	reading("retired pages/double bit ecc", "retired_pages/double_bit_retirement/retired_count", 0, big, timeline.RetiredDouble),
	yes("retired pages/pending page blacklist", "retired_pages/pending_blacklist", timeline.RetirePending),
	yes("retired pages/pending", "retired_pages/pending", timeline.RetirePending),
	yes("retired pages/pending retirement", "retired_pages/pending_retirement", timeline.RetirePending),
	reading("remapped rows/correctable error", "remapped_rows/remapped_row_corr", 0, big, timeline.RemapCorr),
	reading("remapped rows/uncorrectable error", "remapped_rows/remapped_row_unc", 0, big, timeline.RemapUncorr),
	yes("remapped rows/pending", "remapped_rows/remapped_row_pending", timeline.RemapPending),
	yes("remapped rows/remapping failure occurred", "remapped_rows/remapped_row_failure", timeline.RemapFailed),
	limit("remapped rows/bank remap availability histogram/low", "remapped_rows/row_remapper_histogram/row_remapper_histogram_low", timeline.AttrRemapBanksLow, unit.Count, 0, big),
	limit("remapped rows/bank remap availability histogram/none", "remapped_rows/row_remapper_histogram/row_remapper_histogram_none", timeline.AttrRemapBanksNone, unit.Count, 0, big),

	reading("temperature/gpu current temp", "temperature/gpu_temp", -50, 200, timeline.TempGPU),
	reading("temperature/gpu t.limit temp", "temperature/gpu_temp_tlimit", -200, 200, timeline.TempMargin),
	reading("temperature/memory current temp", "temperature/memory_temp", -50, 200, timeline.TempMem),
	limit("temperature/gpu shutdown temp", "temperature/gpu_temp_max_threshold", timeline.AttrTempShutdown, unit.Celsius, 0, 200),
	limit("temperature/gpu slowdown temp", "temperature/gpu_temp_slow_threshold", timeline.AttrTempSlowdown, unit.Celsius, 0, 200),
	limit("temperature/gpu max operating temp", "temperature/gpu_temp_max_gpu_threshold", timeline.AttrTempMaxOp, unit.Celsius, 0, 200),
	limit("temperature/memory max operating temp", "temperature/gpu_temp_max_mem_threshold", timeline.AttrTempMemMaxOp, unit.Celsius, 0, 200),
	limit("temperature/gpu target temperature", "temperature/gpu_target_temperature", timeline.AttrTempTarget, unit.Celsius, 0, 200),
	limit("temperature/gpu shutdown t.limit temp", "temperature/gpu_temp_max_tlimit_threshold", timeline.AttrMarginShutdown, unit.Celsius, -200, 200),
	limit("temperature/gpu slowdown t.limit temp", "temperature/gpu_temp_slow_tlimit_threshold", timeline.AttrMarginSlowdown, unit.Celsius, -200, 200),
	limit("temperature/gpu max operating t.limit temp", "temperature/gpu_temp_max_gpu_tlimit_threshold", timeline.AttrMarginMaxOp, unit.Celsius, -200, 200),
	limit("temperature/memory max operating t.limit temp", "temperature/gpu_temp_max_mem_tlimit_threshold", timeline.AttrMarginMem, unit.Celsius, -200, 200),

	reading("gpu power readings/power draw", "gpu_power_readings/power_draw", 0, 20000, timeline.Power),
	reading("gpu power readings/average power draw", "gpu_power_readings/average_power_draw", 0, 20000, timeline.Power),
	reading("gpu power readings/instantaneous power draw", "gpu_power_readings/instant_power_draw", 0, 20000, timeline.Power, timeline.PowerInstant),
	limit("gpu power readings/current power limit", "gpu_power_readings/current_power_limit", timeline.AttrPowerLimit, unit.Watt, 0, 20000, timeline.PowerLimit),
	limit("gpu power readings/enforced power limit", "gpu_power_readings/enforced_power_limit", timeline.AttrPowerLimit, unit.Watt, 0, 20000, timeline.PowerLimit),
	limit("gpu power readings/requested power limit", "gpu_power_readings/requested_power_limit", timeline.AttrPowerRequested, unit.Watt, 0, 20000),
	limit("gpu power readings/power limit", "gpu_power_readings/power_limit", timeline.AttrPowerRequested, unit.Watt, 0, 20000),
	limit("gpu power readings/default power limit", "gpu_power_readings/default_power_limit", timeline.AttrPowerDefault, unit.Watt, 0, 20000, timeline.PowerDefault),
	limit("gpu power readings/min power limit", "gpu_power_readings/min_power_limit", timeline.AttrPowerMin, unit.Watt, 0, 20000),
	limit("gpu power readings/max power limit", "gpu_power_readings/max_power_limit", timeline.AttrPowerMax, unit.Watt, 0, 20000),
	reading("gpu memory power readings/average power draw", "gpu_memory_power_readings/average_power_draw", 0, 20000, timeline.PowerMem),
	word("workload power profiles/enforced profiles", "power_profiles/power_profile_enforced_profiles", timeline.AttrPowerProfile),

	reading("clocks/sm", "clocks/sm_clock", 0, 1e11, timeline.ClockSM),
	reading("clocks/memory", "clocks/mem_clock", 0, 1e11, timeline.ClockMem),
	reading("clocks/video", "clocks/video_clock", 0, 1e11, timeline.ClockVideo),
	limit("applications clocks/graphics", "applications_clocks/graphics_clock", timeline.AttrClockApp, unit.Hertz, 0, 1e11),
	limit("applications clocks/memory", "applications_clocks/mem_clock", timeline.AttrClockAppMem, unit.Hertz, 0, 1e11),
	limit("default applications clocks/graphics", "default_applications_clocks/graphics_clock", timeline.AttrClockAppDefault, unit.Hertz, 0, 1e11),
	limit("default applications clocks/memory", "default_applications_clocks/mem_clock", timeline.AttrClockAppDefaultMem, unit.Hertz, 0, 1e11),
	limit("max clocks/sm", "max_clocks/sm_clock", timeline.AttrClockSMMax, unit.Hertz, 0, 1e11, timeline.ClockSMMax),
	limit("max clocks/memory", "max_clocks/mem_clock", timeline.AttrClockMemMax, unit.Hertz, 0, 1e11, timeline.ClockMemMax),
	limit("max customer boost clocks/graphics", "max_customer_boost_clocks/graphics_clock", timeline.AttrClockBoost, unit.Hertz, 0, 1e11),

	word("fabric/state", "fabric/state", timeline.AttrFabric),
	word("fabric/status", "fabric/status", timeline.AttrFabricStatus),
	word("fabric/health/summary", "fabric/health/summary", timeline.AttrFabricHealth),
}

var byText, byXML = index()

func index() (text, xml map[string]*field) {
	text, xml = map[string]*field{}, map[string]*field{}
	for i := range fields {
		f := &fields[i]
		text[f.text] = f
		if _, ok := xml[f.xml]; !ok {
			xml[f.xml] = f
		}
	}
	return text, xml
}

// renamed are the beginnings of paths that older drivers (before R535) spell otherwise.
var renamed = []struct{ old, now string }{
	{"clocks throttle reasons/", "clocks event reasons/"}, {"power readings/", "gpu power readings/"},
	{"clocks_throttle_reasons/clocks_throttle_reason_", "clocks_event_reasons/clocks_event_reason_"}, {"power_readings/", "gpu_power_readings/"},
}

func fieldOf(table map[string]*field, path string) *field {
	for _, r := range renamed {
		if rest, ok := strings.CutPrefix(path, r.old); ok {
			path = r.now + rest
			break
		}
	}
	return table[path]
}
