//go:build cgo && linux

package recorder_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"gpureport/ingest/recorder"
	"gpureport/ingest/timeline"
)

// faults are the calls of one mock GPU that fail, by method.
type faults map[string]nvml.Return

// wire gives a mock GPU the readings that the ready-made machines lack. Counters rise by one a sample.
func wire(d *server.Device, s *server.Server, f faults) {
	var tick uint64
	i := uint64(d.Index)
	ret := func(name string) nvml.Return { return f[name] }
	u32 := func(name string, v uint32) func() (uint32, nvml.Return) {
		return func() (uint32, nvml.Return) { return v, ret(name) }
	}
	whole := func(name string, v int) func() (int, nvml.Return) {
		return func() (int, nvml.Return) { return v, ret(name) }
	}
	state := func(name string, v nvml.EnableState) func() (nvml.EnableState, nvml.Return) {
		return func() (nvml.EnableState, nvml.Return) { return v, ret(name) }
	}
	clock := func(name string, v ...uint32) func(nvml.ClockType) (uint32, nvml.Return) {
		return func(t nvml.ClockType) (uint32, nvml.Return) { return v[t], ret(name) }
	}
	window := func(name string, v uint32) func() (uint32, uint32, nvml.Return) {
		return func() (uint32, uint32, nvml.Return) { return v, 167000, ret(name) }
	}
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		tick++
		return nvml.Utilization{Gpu: uint32(90 + i), Memory: 41}, ret("GetUtilizationRates")
	}
	d.GetEncoderUtilizationFunc = window("GetEncoderUtilization", 1)
	d.GetDecoderUtilizationFunc = window("GetDecoderUtilization", 2)
	d.GetJpgUtilizationFunc = window("GetJpgUtilization", 3)
	d.GetOfaUtilizationFunc = window("GetOfaUtilization", 4)
	d.GetClockInfoFunc = clock("GetClockInfo", 1700, 1755, 2619, 1545)
	d.GetMaxClockInfoFunc = clock("GetMaxClockInfo", 1980, 1981, 2619, 1545)
	d.GetApplicationsClockFunc = clock("GetApplicationsClock", 1600, 1601, 2619, 1500)
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0x24, ret("GetCurrentClocksEventReasons") }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0x25, ret("GetCurrentClocksThrottleReasons") }
	d.GetSupportedClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0x1ff, ret("GetSupportedClocksEventReasons") }
	d.GetSupportedClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0x1fe, ret("GetSupportedClocksThrottleReasons") }
	d.GetPerformanceStateFunc = func() (nvml.Pstates, nvml.Return) { return nvml.PSTATE_2, ret("GetPerformanceState") }
	d.GetPowerUsageFunc = u32("GetPowerUsage", 688120)
	d.GetEnforcedPowerLimitFunc = u32("GetEnforcedPowerLimit", 650000)
	d.GetPowerManagementDefaultLimitFunc = u32("GetPowerManagementDefaultLimit", 700000)
	d.GetPowerManagementLimitConstraintsFunc = func() (uint32, uint32, nvml.Return) {
		return 200000, 700000, ret("GetPowerManagementLimitConstraints")
	}
	d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 1<<53 + tick, ret("GetTotalEnergyConsumption") }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 63, ret("GetTemperature") }
	d.GetMarginTemperatureFunc = func() (nvml.MarginTemperature, nvml.Return) {
		return nvml.MarginTemperature{MarginTemperature: -3}, ret("GetMarginTemperature")
	}
	d.GetTemperatureThresholdFunc = func(k nvml.TemperatureThresholds) (uint32, nvml.Return) {
		return []uint32{98, 95, 105, 93}[k], ret("GetTemperatureThreshold")
	}
	d.GetPcieThroughputFunc = func(k nvml.PcieUtilCounter) (uint32, nvml.Return) {
		return 1000 + uint32(k), ret("GetPcieThroughput")
	}
	d.GetCurrPcieLinkGenerationFunc = whole("GetCurrPcieLinkGeneration", 4)
	d.GetCurrPcieLinkWidthFunc = whole("GetCurrPcieLinkWidth", 8)
	d.GetMaxPcieLinkGenerationFunc = whole("GetMaxPcieLinkGeneration", 5)
	d.GetMaxPcieLinkWidthFunc = whole("GetMaxPcieLinkWidth", 16)
	d.GetGpuMaxPcieLinkGenerationFunc = whole("GetGpuMaxPcieLinkGeneration", 5)
	d.GetPcieReplayCounterFunc = whole("GetPcieReplayCounter", 7)
	d.GetNvLinkStateFunc = func(l int) (nvml.EnableState, nvml.Return) {
		if l >= 18 {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return nvml.EnableState(min(l, 1)), ret("GetNvLinkState")
	}
	d.GetNvLinkVersionFunc = func(int) (uint32, nvml.Return) { return 4, ret("GetNvLinkVersion") }
	d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		return nvml.NVLINK_DEVICE_TYPE_SWITCH, ret("GetNvLinkRemoteDeviceType")
	}
	d.GetNvLinkRemotePciInfoFunc = func(l int) (nvml.PciInfo, nvml.Return) {
		return pci(fmt.Sprintf("00000000:A%d:00.0", l%4)), ret("GetNvLinkRemotePciInfo")
	}
	d.GetNvLinkErrorCounterFunc = func(l int, k nvml.NvLinkErrorCounter) (uint64, nvml.Return) {
		if l == 3 && k == nvml.NVLINK_ERROR_DL_CRC_FLIT {
			return 5, ret("GetNvLinkErrorCounter")
		}
		return 0, ret("GetNvLinkErrorCounter")
	}
	d.GetTotalEccErrorsFunc = func(t nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
		return uint64(t)*10 + uint64(c), ret("GetTotalEccErrors")
	}
	d.GetMemoryErrorCounterFunc = func(t nvml.MemoryErrorType, c nvml.EccCounterType, where nvml.MemoryLocation) (uint64, nvml.Return) {
		return uint64(t)*100 + uint64(c)*10 + uint64(where), ret("GetMemoryErrorCounter")
	}
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 3, 4, true, false, ret("GetRemappedRows") }
	d.GetRetiredPagesPendingStatusFunc = state("GetRetiredPagesPendingStatus", 1)
	d.GetRetiredPagesFunc = func(c nvml.PageRetirementCause) ([]uint64, nvml.Return) {
		return make([]uint64, 2+int(c)), ret("GetRetiredPages")
	}
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: d.MemoryInfo.Total, Reserved: 500 << 20, Used: 30 << 30}, ret("GetMemoryInfo_v2")
	}
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: d.MemoryInfo.Total, Used: 31 << 30}, ret("GetMemoryInfo")
	}
	d.GetBAR1MemoryInfoFunc = func() (nvml.BAR1Memory, nvml.Return) {
		return nvml.BAR1Memory{Bar1Total: 128 << 30, Bar1Used: 5 << 20}, ret("GetBAR1MemoryInfo")
	}
	d.GetFanSpeedFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetPersistenceModeFunc = state("GetPersistenceMode", 1)
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) {
		return nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, ret("GetComputeMode")
	}
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) { return 1, 1, ret("GetEccMode") }
	d.GetVirtualizationModeFunc = func() (nvml.GpuVirtualizationMode, nvml.Return) { return 1, ret("GetVirtualizationMode") }
	d.GetMemoryBusWidthFunc = u32("GetMemoryBusWidth", 5120)
	d.GetNumaNodeIdFunc = whole("GetNumaNodeId", d.Index/4)
	d.GetViolationStatusFunc = func(p nvml.PerfPolicyType) (nvml.ViolationTime, nvml.Return) {
		return nvml.ViolationTime{ReferenceTime: 1, ViolationTime: uint64(p)*1e9 + tick}, ret("GetViolationStatus")
	}
	d.GetTopologyCommonAncestorFunc = func(o nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		if o.(*server.Device).Index/4 == d.Index/4 {
			return nvml.TOPOLOGY_NODE, ret("GetTopologyCommonAncestor")
		}
		return nvml.TOPOLOGY_SYSTEM, ret("GetTopologyCommonAncestor")
	}
	d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return 0, ret("GetP2PStatus")
	}
	d.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
		return nvml.GpuFabricInfo{State: 3}, ret("GetGpuFabricInfo")
	}
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		return pci(fmt.Sprintf("00000000:%02X:00.0", 0x1b+d.Index)), ret("GetPciInfo")
	}
	d.GetVbiosVersionFunc = func() (string, nvml.Return) { return "96.00.5E.00.01", ret("GetVbiosVersion") }
	d.GetSerialFunc = func() (string, nvml.Return) { return "165", ret("GetSerial") }
	d.GetCpuAffinityWithinScopeFunc = func(n int, _ nvml.AffinityScope) ([]uint, nvml.Return) {
		mask := make([]uint, (n+63)/64)
		mask[0], mask[1] = 0xf, 1<<63|3
		return mask, ret("GetCpuAffinityWithinScope")
	}
	process := func(name string, ps ...nvml.ProcessInfo) func() ([]nvml.ProcessInfo, nvml.Return) {
		return func() ([]nvml.ProcessInfo, nvml.Return) { return ps, ret(name) }
	}
	d.GetComputeRunningProcessesFunc = process("GetComputeRunningProcesses", nvml.ProcessInfo{Pid: uint32(900 + i), UsedGpuMemory: 20 << 30}, nvml.ProcessInfo{Pid: 7, UsedGpuMemory: math.MaxUint64})
	d.GetGraphicsRunningProcessesFunc = process("GetGraphicsRunningProcesses")
	d.GetMPSComputeRunningProcessesFunc = process("GetMPSComputeRunningProcesses")
	d.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		return []nvml.ProcessUtilizationSample{{Pid: uint32(900 + i), TimeStamp: 10, SmUtil: 77, MemUtil: 12}}, ret("GetProcessUtilization")
	}
	d.GetSamplesFunc = func(t nvml.SamplingType, _ uint64) (nvml.ValueType, []nvml.Sample, nvml.Return) {
		now := uint64(time.Now().UnixMicro())
		return nvml.VALUE_TYPE_UNSIGNED_INT, []nvml.Sample{{TimeStamp: now - 50000, SampleValue: [8]byte{60}}, {TimeStamp: now, SampleValue: [8]byte{61}}}, ret("GetSamples")
	}
	d.GetFieldValuesFunc = func(fs []nvml.FieldValue) nvml.Return {
		for k := range fs {
			fieldOf(&fs[k], tick, f)
		}
		return ret("GetFieldValues")
	}
	d.GpmQueryDeviceSupportFunc = func() (nvml.GpmSupport, nvml.Return) {
		return nvml.GpmSupport{IsSupportedDevice: 1}, ret("GpmQueryDeviceSupport")
	}
	d.GpmSampleGetFunc = func(nvml.GpmSample) nvml.Return { return ret("GpmSampleGet") }
	d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0x1f, ret("GetSupportedEventTypes") }
	d.RegisterEventsFunc = func(kinds uint64, _ nvml.EventSet) nvml.Return {
		if kinds&nvml.EventTypeXidCriticalError == 0 {
			panic("nobody asked for Xids")
		}
		return ret("RegisterEvents")
	}
	for name, fn := range map[string]*func() (string, nvml.Return){"GetUUID": &d.GetUUIDFunc, "GetName": &d.GetNameFunc} {
		was := *fn
		*fn = func() (string, nvml.Return) {
			v, _ := was()
			return v, ret(name)
		}
	}
}

func pci(bus string) (p nvml.PciInfo) {
	for i, c := range []byte(bus) {
		p.BusId[i] = int8(c)
	}
	return p
}

// fieldOf answers a field value, each in the type that the driver gives it.
func fieldOf(f *nvml.FieldValue, tick uint64, fail faults) {
	f.NvmlReturn = uint32(fail[fmt.Sprintf("field %d", f.FieldId)])
	u64 := func(v uint64) {
		f.ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)
		binary.NativeEndian.PutUint64(f.Value[:], v)
	}
	u32 := func(v uint32) {
		f.ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_INT)
		binary.NativeEndian.PutUint32(f.Value[:], v)
	}
	switch f.FieldId {
	case nvml.FI_DEV_MEMORY_TEMP:
		u32(74)
	case nvml.FI_DEV_NVLINK_LINK_COUNT:
		u32(18)
	case nvml.FI_DEV_NVLINK_GET_SPEED:
		u32(26562)
	case nvml.FI_DEV_POWER_AVERAGE:
		u32(680000)
	case nvml.FI_DEV_POWER_INSTANT:
		u32(690000)
	case nvml.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, nvml.FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, nvml.FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT:
		f.ValueType = uint32(nvml.VALUE_TYPE_SIGNED_INT)
		v := int32(-2)
		binary.NativeEndian.PutUint32(f.Value[:], uint32(v))
	case nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
		if f.ScopeId != math.MaxUint32 {
			f.NvmlReturn = uint32(nvml.ERROR_INVALID_ARGUMENT)
		}
		u64(1<<45 + tick*uint64(f.FieldId)) // KiB: past 2^53 in bytes
	case nvml.FI_DEV_GET_GPU_RECOVERY_ACTION:
		u32(1)
	case 75:
		f.ValueType = uint32(nvml.VALUE_TYPE_DOUBLE)
		binary.NativeEndian.PutUint64(f.Value[:], math.Float64bits(75e9))
	case nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN:
		u64(math.MaxUint64) // no counter holds this: it must not become a negative number
	default:
		u64(uint64(f.FieldId) * 1e9)
	}
}

// mockMachine wires all GPUs of a ready-made machine; f are the faults of each.
func mockMachine(s *server.Server, f ...faults) (*server.Server, chan nvml.EventData) {
	for i, d := range s.Devices {
		var own faults
		if i < len(f) {
			own = f[i]
		}
		wire(d.(*server.Device), s, own)
	}
	events := make(chan nvml.EventData, 4)
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{FreeFunc: func() nvml.Return { return 0 }, WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			select {
			case e := <-events:
				return e, 0
			case <-time.After(time.Duration(ms) * time.Millisecond):
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		}}, 0
	}
	s.GpmSampleAllocFunc = func() (nvml.GpmSample, nvml.Return) {
		return &mock.GpmSample{FreeFunc: func() nvml.Return { return 0 }}, 0
	}
	s.GpmMetricsGetFunc = func(g *nvml.GpmMetricsGetType) nvml.Return {
		if g.Sample1 == g.Sample2 {
			panic("a mean over no time")
		}
		for k := range g.Metrics[:g.NumMetrics] {
			m := &g.Metrics[k]
			m.Value = float64(m.MetricId)
			if m.MetricId == 11 {
				m.NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			}
		}
		return 0
	}
	return s, events
}

func recordMock(t *testing.T, s *server.Server, ticks int64, at func(int64)) (*timeline.Timeline, recorder.Summary, []map[string]any) {
	t.Helper()
	d, err := recorder.NewNVML(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.jsonl.gz")
	sum, err := run(t, recorder.Options{Path: path, Driver: d, Period: 200 * time.Millisecond}, ticks, at)
	if err != nil {
		t.Fatal(err)
	}
	return readBack(t, path), sum, records(t, path)
}

// wantGPU are the readings of a mock GPU that do not change.
var wantGPU = map[string]float64{"mem_busy_frac": .41, "clock_sm_hz": 1755e6, "clock_mem_hz": 2619e6, "clock_video_hz": 1545e6, "clock_reasons": 0x24, "pstate_count": 2, "power_w": 688.12,
	"power_instant_w": 690, "temp_gpu_c": 63, "temp_mem_c": 74, "temp_margin_c": -3, "mem_used_bytes": 30 << 30, "mem_reserved_bytes": 500 << 20, "pcie_gen_count": 4, "pcie_width_count": 8,
	"pcie_replays_count": 7, "nvlink_up_count": 17, "nvlink_errors_count": 5, "ecc_corrected_count": 1, "ecc_uncorrected_count": 11, "ecc_aggregate_dram_corrected_count": 12,
	"ecc_aggregate_dram_uncorrected_count": 112, "ecc_aggregate_sram_corrected_count": 17, "ecc_aggregate_sram_uncorrected_count": 117, "remapped_corrected_count": 3,
	"remapped_uncorrected_count": 4, "remap_pending": 1, "remap_failed": 0, "retire_pending": 1, "retired_single_bit_count": 2, "retired_double_bit_count": 3, "power_limit_w": 650,
	"bar1_used_bytes": 5 << 20, "gpu_processes_count": 2, "enc_busy_frac": .01, "dec_busy_frac": .02, "jpg_busy_frac": .03, "ofa_busy_frac": .04, "gr_active_frac": .01, "sm_active_frac": .02,
	"sm_occupancy_frac": .03, "tensor_active_frac": .05, "dram_active_frac": .1, "fp32_active_frac": .12, "fp16_active_frac": .13, "integer_active_frac": .04, "throttle_sw_power_s": 74,
	"throttle_thermal_s": 75, "throttle_sync_boost_s": 76, "throttle_board_s": 77, "throttle_low_use_s": 78, "throttle_reliability_s": 79, "throttle_sw_thermal_s": 269,
	"throttle_hw_thermal_s": 270, "pcie_errors_count": 359e9, "pcie_corrected_count": 173e9, "pcie_h2d_bytes_per_s": 0, "pcie_d2h_bytes_per_s": 0}

func checkGPU(t *testing.T, base *timeline.Timeline, i int, except ...string) {
	t.Helper()
	for metric, want := range wantGPU {
		if slices.Contains(except, metric) {
			continue
		}
		s := seriesOf(base, i, metric)
		if s == nil {
			t.Errorf("GPU %d: no %s", i, metric)
			continue
		}
		for _, v := range s.Value {
			if math.Abs(v-want) > 1e-9*math.Abs(want) {
				t.Errorf("GPU %d %s: %v, want %v", i, metric, v, want)
				break
			}
		}
	}
}

// Eight GPUs of go-nvml's machines, every reading.
func TestMockMachines(t *testing.T) {
	for _, m := range []struct {
		name  string
		new   func() *server.Server
		model string
		cc    string
	}{{"dgxa100", dgxa100.New, "A100", "8.0"}, {"dgxh100", dgxh100.New, "H100", "9.0"}} {
		s, events := mockMachine(m.new())
		base, sum, rs := recordMock(t, s, 8, func(n int64) {
			if n == 2 {
				events <- nvml.EventData{Device: s.Devices[6], EventType: nvml.EventTypeXidCriticalError, EventData: 94}
			}
		})
		if sum.GPUs != 8 || len(base.Devices) != 8 {
			t.Fatalf("%s: %d GPUs, %d devices", m.name, sum.GPUs, len(base.Devices))
		}
		for i := range 8 {
			checkGPU(t, base, i)
			dev, mock := base.Devices[i], s.Devices[i].(*server.Device)
			if dev.UUID != mock.UUID || !strings.Contains(dev.Name, m.model) || dev.CC != m.cc || dev.Bus != fmt.Sprintf("0000:%02x:00", 0x1b+i) || dev.Memory != int64(mock.MemoryInfo.Total) {
				t.Errorf("%s: device %+v", m.name, dev)
			}
			if s := seriesOf(base, i, "sm_busy_frac"); s == nil || s.Value[0] != float64(90+i)/100 {
				t.Errorf("GPU %d: utilisation %+v", i, s)
			}
			for _, gone := range []string{"throttle_power_brake_s", "fp64_active_frac", "fan_frac"} { // what cannot be, failed, or is not supported
				if s := seriesOf(base, i, gone); s != nil {
					t.Errorf("GPU %d: %s is %v", i, gone, s.Value)
				}
			}
			attrs := map[string]any{}
			for _, a := range base.Attrs {
				if tr := base.Tracks[a.Track]; tr.Kind == timeline.TrackGPU && base.Devices[tr.Device].Index == i {
					attrs[a.Name] = a.Value
					if a.Text != "" {
						attrs[a.Name] = a.Text
					}
				}
			}
			for name, want := range map[string]any{timeline.AttrCPUAffinity: "0-3,64-65,127", timeline.AttrVBIOS: "96.00.5E.00.01", timeline.AttrClockSMMax: 1981e6, timeline.AttrClockApp: 1601e6,
				timeline.AttrPowerDefault: 700.0, timeline.AttrPowerMin: 200.0, timeline.AttrTempSlowdown: 95.0, timeline.AttrMarginSlowdown: -2.0, timeline.AttrPCIeGenMax: 5.0,
				timeline.AttrPCIeWidthMax: 16.0, timeline.AttrPCIeGenDevice: 5.0, timeline.AttrNVLinks: 18.0, timeline.AttrNVLinkSpeed: 26562e6, timeline.AttrNUMANode: float64(i / 4),
				timeline.AttrMIG: "disabled", timeline.AttrECC: "enabled", timeline.AttrPersistence: "enabled", timeline.AttrComputeMode: "exclusive process", timeline.AttrVirtual: "pass-through",
				timeline.AttrRecovery: "Reset", timeline.AttrFabric: "completed", timeline.AttrPowerLimit: 650.0} {
				if attrs[name] != want {
					t.Errorf("GPU %d %s: %v, want %v", i, name, attrs[name], want)
				}
			}
		}
		// The driver's counters of KiB past 2^53 bytes: 138 KiB a sample.
		var tx []int64
		for _, r := range rs {
			if r["k"] == "g" && fmt.Sprint(r["i"]) == "2" {
				var v int64
				_, _ = fmt.Sscan(fmt.Sprint(r["nv"].([]any)[0]), &v)
				tx = append(tx, v)
			}
		}
		for k := 1; k < len(tx); k++ {
			if tx[k]-tx[k-1] != 138<<10 || tx[k] < 1<<55 {
				t.Errorf("NVLink bytes %v", tx)
				break
			}
		}
		xid := false
		for i, k := range base.Marks.Kind {
			xid = xid || k == timeline.MarkXid && base.Marks.Code[i] == 94 && base.Devices[base.Tracks[base.Marks.Track[i]].Device].Index == 6
		}
		if !xid {
			t.Error("the Xid of GPU 6 is lost")
		}
		mem, use := 0, 0
		for i := range base.Series {
			s := &base.Series[i]
			tr := base.Tracks[s.Track]
			switch {
			case s.Metric.Name == "proc_gpu_mem_bytes" && tr.Thread >= 900 && s.Value[0] == 20<<30:
				mem++
			case s.Metric.Name == "proc_gpu_mem_bytes":
				t.Errorf("memory of process %d: %v, and it is unknown", tr.Thread, s.Value)
			case s.Metric.Name == "proc_sm_busy_frac" && tr.Thread >= 900 && s.Value[0] == .77:
				use++
			}
		}
		if mem != 8 || use != 8 {
			t.Errorf("%d processes with memory, %d with utilisation, want 8", mem, use)
		}
		if hdr := rs[0]; hdr["driver"] != s.DriverVersion || hdr["nvml"] != s.NvmlVersion || hdr["cuda"] == nil {
			t.Errorf("header %v", hdr)
		}
	}
}

// Each GPU of a machine has one call that fails; older names and calls take over where there are any.
func TestMockFaults(t *testing.T) {
	for _, c := range []struct {
		call   string
		ret    nvml.Return
		gone   []string           // metrics that are absent then
		instad map[string]float64 // and those that come from elsewhere
	}{
		{"GetUtilizationRates", nvml.ERROR_NOT_SUPPORTED, []string{"sm_busy_frac", "mem_busy_frac"}, nil},
		{"GetMemoryInfo_v2", nvml.ERROR_ARGUMENT_VERSION_MISMATCH, []string{"mem_reserved_bytes"}, map[string]float64{"mem_used_bytes": 31 << 30}},
		{"GetMemoryInfo_v2", nvml.ERROR_FUNCTION_NOT_FOUND, []string{"mem_reserved_bytes"}, map[string]float64{"mem_used_bytes": 31 << 30}},
		{"GetCurrentClocksEventReasons", nvml.ERROR_FUNCTION_NOT_FOUND, nil, map[string]float64{"clock_reasons": 0x25}},
		{"field 74", nvml.ERROR_NOT_SUPPORTED, nil, map[string]float64{"throttle_sw_power_s": -1}}, // by GetViolationStatus, which counts ticks
		{"field 197", nvml.ERROR_NOT_SUPPORTED, nil, map[string]float64{"pcie_d2h_bytes_per_s": 1e6, "pcie_h2d_bytes_per_s": 1.001e6}},
		{"GetFieldValues", nvml.ERROR_FUNCTION_NOT_FOUND, []string{"temp_mem_c", "power_instant_w", "throttle_sw_thermal_s", "throttle_hw_thermal_s", "pcie_errors_count", "pcie_corrected_count"},
			map[string]float64{"throttle_sw_power_s": -1, "throttle_thermal_s": -1, "throttle_sync_boost_s": -1, "throttle_board_s": -1, "throttle_low_use_s": -1, "throttle_reliability_s": -1,
				"pcie_d2h_bytes_per_s": -1, "pcie_h2d_bytes_per_s": -1}},
		{"GpmSampleGet", nvml.ERROR_NOT_SUPPORTED, []string{"gr_active_frac", "sm_active_frac", "sm_occupancy_frac", "tensor_active_frac", "dram_active_frac", "fp32_active_frac", "fp16_active_frac",
			"integer_active_frac"}, nil},
		{"GetPowerUsage", nvml.ERROR_NOT_SUPPORTED, nil, map[string]float64{"power_w": 680}}, // the field's mean of a second
		{"GetTemperature", nvml.ERROR_UNKNOWN, []string{"temp_gpu_c"}, nil},
		{"GetMarginTemperature", nvml.ERROR_ARGUMENT_VERSION_MISMATCH, []string{"temp_margin_c"}, nil},
		{"GetRemappedRows", nvml.ERROR_NOT_SUPPORTED, []string{"remapped_corrected_count", "remapped_uncorrected_count", "remap_pending", "remap_failed"}, nil},
		{"GetNvLinkState", nvml.ERROR_NOT_SUPPORTED, []string{"nvlink_up_count", "nvlink_errors_count"}, nil},
		{"GetComputeRunningProcesses", nvml.ERROR_NO_PERMISSION, []string{"gpu_processes_count"}, nil},
		{"RegisterEvents", nvml.ERROR_NOT_SUPPORTED, nil, nil},
		{"GetUUID", nvml.ERROR_UNKNOWN, nil, nil},
	} {
		s, _ := mockMachine(dgxh100.New(), nil, faults{c.call: c.ret})
		base, _, _ := recordMock(t, s, 6, nil)
		checkGPU(t, base, 0)
		except := slices.Clone(c.gone)
		for m := range c.instad {
			except = append(except, m)
		}
		checkGPU(t, base, 1, except...)
		for _, m := range c.gone {
			if s := seriesOf(base, 1, m); s != nil {
				t.Errorf("%s fails with %v, and %s is %v", c.call, c.ret, m, s.Value)
			}
		}
		for m, want := range c.instad {
			if s := seriesOf(base, 1, m); s == nil || want >= 0 && s.Value[0] != want {
				t.Errorf("%s fails with %v: %s is %+v, want %v", c.call, c.ret, m, s, want)
			}
		}
	}
}

// A GPU is lost while others are read; another cannot be opened at all; a driver that does not start says why.
func TestMockLost(t *testing.T) {
	lost := faults{}
	s, _ := mockMachine(dgxh100.New(), nil, nil, nil)
	was := s.DeviceGetHandleByIndexFunc
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 7 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return was(i)
	}
	gone := s.Devices[2].(*server.Device)
	fine := gone.GetUtilizationRatesFunc
	n := 0
	gone.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		if n++; n > 3 {
			return nvml.Utilization{}, nvml.ERROR_GPU_IS_LOST
		}
		return fine()
	}
	gone.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		if n > 3 {
			return nvml.Memory_v2{}, nvml.ERROR_GPU_IS_LOST
		}
		return nvml.Memory_v2{}, lost["none"]
	}
	base, sum, _ := recordMock(t, s, 8, nil)
	if sum.GPUs != 7 {
		t.Errorf("%d GPUs", sum.GPUs)
	}
	lostAt := map[int]int{}
	for i, k := range base.Marks.Kind {
		if k == timeline.MarkGPULost {
			lostAt[base.Devices[base.Tracks[base.Marks.Track[i]].Device].Index]++
		}
	}
	if len(lostAt) != 2 || lostAt[2] != 1 || lostAt[7] != 1 {
		t.Errorf("lost %v", lostAt)
	}
	if s := seriesOf(base, 2, "sm_busy_frac"); s == nil || len(s.Value) != 3 {
		t.Errorf("the lost GPU: %+v", s)
	}
	if s := seriesOf(base, 3, "sm_busy_frac"); s == nil || len(s.Value) < 8 {
		t.Errorf("its neighbour: %+v", s)
	}
	for ret, want := range map[nvml.Return]string{nvml.ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1", nvml.ERROR_DRIVER_NOT_LOADED: "not loaded", nvml.ERROR_LIB_RM_VERSION_MISMATCH: "upgraded",
		nvml.ERROR_UNKNOWN: "UNKNOWN"} {
		s := dgxh100.New()
		s.InitFunc = func() nvml.Return { return ret }
		if _, err := recorder.NewNVML(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Init gives %v: %v", ret, err)
		}
	}
}
