//go:build cgo && linux

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// openNVML loads the driver's library: until then its symbols stay unresolved, so that a machine without it runs all other commands.
func openNVML() (Driver, error) { return newNVML(nvml.New()) }

func newNVML(lib nvml.Interface) (Driver, error) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, errors.New("libnvidia-ml.so.1 is not on this machine: there is no NVIDIA driver, or the container was started without it")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, errors.New("the NVIDIA driver is not loaded")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, errors.New("the driver was upgraded while loaded: its library and its kernel module differ; reboot or reload the module")
	default:
		return nil, fmt.Errorf("NVML does not start: %s", Code(ret))
	}
	return &nvmlDriver{lib: lib}, nil
}

type nvmlDriver struct {
	lib   nvml.Interface
	devs  []*nvmlDevice
	set   nvml.EventSet
	xids  bool
	tried bool
}

func (d *nvmlDriver) Version() (driver, lib string, cuda int) {
	driver, _ = d.lib.SystemGetDriverVersion()
	lib, _ = d.lib.SystemGetNVMLVersion()
	cuda, _ = d.lib.SystemGetCudaDriverVersion()
	return driver, lib, cuda
}

func (d *nvmlDriver) Count() (int, Code) {
	n, ret := d.lib.DeviceGetCount()
	return n, Code(ret)
}

func (d *nvmlDriver) Device(i int) (Device, Code) {
	dev, ret := d.lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return nil, Code(ret)
	}
	n := &nvmlDevice{d: d, dev: dev, index: i}
	d.devs = append(d.devs, n)
	return n, OK
}

// Xids tells whether every device took the registration.
func (d *nvmlDriver) Xids() bool { return d.xids }

// Wait registers for Xids and their kin at its first call.
func (d *nvmlDriver) Wait(limit time.Duration) (e Event, ok, ready bool) {
	if !d.tried {
		d.tried = true
		set, ret := d.lib.EventSetCreate()
		if ret != nvml.SUCCESS {
			return e, false, false
		}
		any, all := false, true
		for _, n := range d.devs {
			kinds, ret := n.dev.GetSupportedEventTypes()
			if ret != nvml.SUCCESS {
				kinds = nvml.EventTypeXidCriticalError
			}
			want := kinds & (nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | 0x400 | 0x800 | 0x1000 | 0x2000 | 0x4000)
			ok := n.dev.RegisterEvents(want, set) == nvml.SUCCESS
			any, all = any || ok, all && ok && want&nvml.EventTypeXidCriticalError != 0
		}
		if !any {
			_ = set.Free()
			return e, false, false
		}
		d.set, d.xids = set, all
	}
	if d.set == nil {
		return e, false, false
	}
	if limit == 0 {
		return e, false, true
	}
	data, ret := d.set.Wait(uint32(limit / time.Millisecond))
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_TIMEOUT:
		return e, false, true
	case nvml.ERROR_GPU_IS_LOST:
		time.Sleep(limit) // it says so at once, and again
		return e, false, true
	default:
		return e, false, false
	}
	e = Event{Index: -1, Type: data.EventType, Data: int64(data.EventData)}
	for _, n := range d.devs {
		if n.dev == data.Device {
			e.Index = n.index
		}
	}
	return e, true, true
}

func (d *nvmlDriver) Close() {
	if d.set != nil {
		_ = d.set.Free()
	}
	for _, n := range d.devs {
		for _, s := range n.gpm {
			if s != nil {
				_ = s.Free()
			}
		}
	}
	_ = d.lib.Shutdown()
}

type nvmlDevice struct {
	d     *nvmlDriver
	dev   nvml.Device
	index int
	gpm   [2]nvml.GpmSample // the last sample and room for the next
	have  bool              // gpm[0] holds a sample
	raw   []nvml.FieldValue
	v1    bool // only the older memory call is there
}

func num[T int | uint32 | int32 | uint64 | nvml.Pstates | nvml.EnableState | nvml.ComputeMode | nvml.GpuVirtualizationMode | nvml.GpuTopologyLevel | nvml.GpuP2PStatus | nvml.IntNvLinkDeviceType](v T, ret nvml.Return) (Values, Code) {
	return Values{int64(v)}, Code(ret)
}

func pair[T int | uint32 | nvml.EnableState](a, b T, ret nvml.Return) (Values, Code) {
	return Values{int64(a), int64(b)}, Code(ret)
}

func (n *nvmlDevice) Call(c Call, arg int) (Values, Code) {
	dev := n.dev
	switch c {
	case CallUtilization:
		u, ret := dev.GetUtilizationRates()
		return Values{int64(u.Gpu), int64(u.Memory)}, Code(ret)
	case CallEncoder:
		return pair(dev.GetEncoderUtilization())
	case CallDecoder:
		return pair(dev.GetDecoderUtilization())
	case CallJpg:
		return pair(dev.GetJpgUtilization())
	case CallOfa:
		return pair(dev.GetOfaUtilization())
	case CallClock:
		return num(dev.GetClockInfo(nvml.ClockType(arg)))
	case CallMaxClock:
		return num(dev.GetMaxClockInfo(nvml.ClockType(arg)))
	case CallAppClock:
		return num(dev.GetApplicationsClock(nvml.ClockType(arg)))
	case CallReasons:
		v, ret := dev.GetCurrentClocksEventReasons()
		if ret == nvml.ERROR_FUNCTION_NOT_FOUND { // the older name
			v, ret = dev.GetCurrentClocksThrottleReasons()
		}
		return num(v, ret)
	case CallReasonsKnown:
		v, ret := dev.GetSupportedClocksEventReasons()
		if ret == nvml.ERROR_FUNCTION_NOT_FOUND {
			v, ret = dev.GetSupportedClocksThrottleReasons()
		}
		return num(v, ret)
	case CallPState:
		return num(dev.GetPerformanceState())
	case CallPower:
		return num(dev.GetPowerUsage())
	case CallPowerEnforced:
		return num(dev.GetEnforcedPowerLimit())
	case CallPowerDefault:
		return num(dev.GetPowerManagementDefaultLimit())
	case CallPowerRange:
		return pair(dev.GetPowerManagementLimitConstraints())
	case CallEnergy:
		return num(dev.GetTotalEnergyConsumption())
	case CallTemperature:
		return num(dev.GetTemperature(nvml.TEMPERATURE_GPU))
	case CallMargin:
		m, ret := dev.GetMarginTemperature()
		return num(m.MarginTemperature, ret)
	case CallThreshold:
		return num(dev.GetTemperatureThreshold(nvml.TemperatureThresholds(arg)))
	case CallPCIeThroughput:
		return num(dev.GetPcieThroughput(nvml.PcieUtilCounter(arg)))
	case CallPCIeGen:
		return num(dev.GetCurrPcieLinkGeneration())
	case CallPCIeWidth:
		return num(dev.GetCurrPcieLinkWidth())
	case CallPCIeGenMax:
		return num(dev.GetMaxPcieLinkGeneration())
	case CallPCIeWidthMax:
		return num(dev.GetMaxPcieLinkWidth())
	case CallPCIeGenDevice:
		return num(dev.GetGpuMaxPcieLinkGeneration())
	case CallPCIeReplays:
		return num(dev.GetPcieReplayCounter())
	case CallNVLinkState:
		return num(dev.GetNvLinkState(arg))
	case CallNVLinkVersion:
		return num(dev.GetNvLinkVersion(arg))
	case CallNVLinkRemoteType:
		return num(dev.GetNvLinkRemoteDeviceType(arg))
	case CallNVLinkErrors:
		return num(dev.GetNvLinkErrorCounter(arg/8, nvlinkCounters[arg%8]))
	case CallECC:
		return num(dev.GetTotalEccErrors(nvml.MemoryErrorType(arg%2), nvml.EccCounterType(arg/2)))
	case CallECCPlace:
		return num(dev.GetMemoryErrorCounter(nvml.MemoryErrorType(arg%2), nvml.EccCounterType(arg%4/2), nvml.MemoryLocation(arg/4)))
	case CallRemapped:
		corr, unc, pending, failed, ret := dev.GetRemappedRows()
		return Values{int64(corr), int64(unc), bit(pending), bit(failed)}, Code(ret)
	case CallRetirePending:
		return num(dev.GetRetiredPagesPendingStatus())
	case CallRetired:
		pages, ret := dev.GetRetiredPages(nvml.PageRetirementCause(arg))
		return Values{int64(len(pages))}, Code(ret)
	case CallMemory:
		return n.memory()
	case CallBAR1:
		b, ret := dev.GetBAR1MemoryInfo()
		return Values{int64(b.Bar1Total), int64(b.Bar1Used)}, Code(ret)
	case CallFan:
		return num(dev.GetFanSpeed())
	case CallMIG:
		return pair(dev.GetMigMode())
	case CallPersistence:
		return num(dev.GetPersistenceMode())
	case CallComputeMode:
		return num(dev.GetComputeMode())
	case CallECCMode:
		return pair(dev.GetEccMode())
	case CallVirtual:
		return num(dev.GetVirtualizationMode())
	case CallMinor:
		return num(dev.GetMinorNumber())
	case CallCapability:
		return pair(dev.GetCudaComputeCapability())
	case CallBusWidth:
		return num(dev.GetMemoryBusWidth())
	case CallNUMANode:
		return num(dev.GetNumaNodeId())
	case CallViolation:
		v, ret := dev.GetViolationStatus(nvml.PerfPolicyType(arg))
		return Values{int64(v.ReferenceTime), int64(v.ViolationTime)}, Code(ret)
	case CallAncestor:
		if p := n.peer(arg); p != nil {
			return num(dev.GetTopologyCommonAncestor(p))
		}
	case CallP2P:
		if p := n.peer(arg / 8); p != nil {
			return num(dev.GetP2PStatus(p, nvml.GpuP2PCapsIndex(arg%8)))
		}
	case CallFabric:
		f, ret := dev.GetGpuFabricInfo()
		return Values{int64(f.State), int64(f.Status)}, Code(ret)
	case CallGPM:
		s, ret := dev.GpmQueryDeviceSupport()
		return num(s.IsSupportedDevice, ret)
	}
	return Values{}, NotSupported
}

// nvlinkCounters in the order of CallNVLinkErrors.
var nvlinkCounters = [8]nvml.NvLinkErrorCounter{nvml.NVLINK_ERROR_DL_REPLAY, nvml.NVLINK_ERROR_DL_RECOVERY, nvml.NVLINK_ERROR_DL_CRC_FLIT, nvml.NVLINK_ERROR_DL_CRC_DATA}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (n *nvmlDevice) peer(i int) nvml.Device {
	for _, p := range n.d.devs {
		if p.index == i {
			return p.dev
		}
	}
	return nil
}

// memory asks the newer call, which keeps the driver's own share apart.
func (n *nvmlDevice) memory() (Values, Code) {
	if !n.v1 {
		m, ret := n.dev.GetMemoryInfo_v2()
		if !Code(ret).absent() {
			return Values{int64(m.Total), int64(m.Used), int64(m.Reserved), int64(m.Free)}, Code(ret)
		}
		n.v1 = true
	}
	m, ret := n.dev.GetMemoryInfo()
	return Values{int64(m.Total), int64(m.Used), -1, int64(m.Free)}, Code(ret)
}

func (n *nvmlDevice) Text(c TextCall, arg int) (string, Code) {
	text := func(s string, ret nvml.Return) (string, Code) { return s, Code(ret) }
	switch c {
	case TextName:
		return text(n.dev.GetName())
	case TextUUID:
		return text(n.dev.GetUUID())
	case TextSerial:
		return text(n.dev.GetSerial())
	case TextVBIOS:
		return text(n.dev.GetVbiosVersion())
	case TextBus:
		p, ret := n.dev.GetPciInfo()
		return busID(p), Code(ret)
	case TextRemote:
		p, ret := n.dev.GetNvLinkRemotePciInfo(arg)
		return busID(p), Code(ret)
	case TextCPUs:
		words, ret := n.dev.GetCpuAffinityWithinScope(max(runtime.NumCPU(), 1024), nvml.AFFINITY_SCOPE_NODE)
		return cpuList(words), Code(ret)
	}
	return "", NotSupported
}

func busID(p nvml.PciInfo) string {
	if s := int8s(p.BusId[:]); s != "" {
		return strings.ToLower(s)
	}
	return strings.ToLower(int8s(p.BusIdLegacy[:]))
}

func int8s(s []int8) string {
	var b strings.Builder
	for _, c := range s {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// cpuList turns a mask of words into "0-31,64-95".
func cpuList(words []uint) string {
	var out []string
	for cpu, n := 0, len(words)*64; cpu < n; cpu++ {
		if words[cpu/64]>>(cpu%64)&1 == 0 {
			continue
		}
		first := cpu
		for cpu+1 < n && words[(cpu+1)/64]>>((cpu+1)%64)&1 == 1 {
			cpu++
		}
		if s := strconv.Itoa(first); cpu > first {
			out = append(out, s+"-"+strconv.Itoa(cpu))
		} else {
			out = append(out, s)
		}
	}
	return strings.Join(out, ",")
}

func (n *nvmlDevice) Fields(fs []Field) Code {
	if len(fs) == 0 {
		return OK
	}
	n.raw = n.raw[:0]
	for _, f := range fs {
		n.raw = append(n.raw, nvml.FieldValue{FieldId: f.ID, ScopeId: f.Scope})
	}
	if ret := n.dev.GetFieldValues(n.raw); ret != nvml.SUCCESS {
		return Code(ret)
	}
	for i := range fs {
		fs[i].Code = Code(n.raw[i].NvmlReturn)
		if fs[i].Code == OK {
			var ok bool
			if fs[i].Value, ok = fieldValue(&n.raw[i]); !ok {
				fs[i].Code = UnknownError
			}
		}
	}
	return OK
}

// fieldValue reads the union of a field by its tag. A count past int64 is refused.
func fieldValue(f *nvml.FieldValue) (int64, bool) {
	return unionValue(nvml.ValueType(f.ValueType), f.Value)
}

func unionValue(t nvml.ValueType, b [8]byte) (int64, bool) {
	u := binary.NativeEndian.Uint64(b[:])
	switch t {
	case nvml.VALUE_TYPE_DOUBLE:
		v := math.Float64frombits(u)
		return int64(math.Round(v)), v > -1e18 && v < 1e18
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return int64(binary.NativeEndian.Uint32(b[:4])), true
	case nvml.VALUE_TYPE_SIGNED_INT:
		return int64(int32(binary.NativeEndian.Uint32(b[:4]))), true
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return int64(binary.NativeEndian.Uint16(b[:2])), true
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return int64(u), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return int64(u), u <= math.MaxInt64
	}
	return 0, false
}

func (n *nvmlDevice) Processes() ([]GPUProcess, Code) {
	var out []GPUProcess
	add := func(ps []nvml.ProcessInfo, kind byte) {
		for _, p := range ps {
			b := int64(-1)
			if p.UsedGpuMemory <= math.MaxInt64 { // all ones: unknown
				b = int64(p.UsedGpuMemory)
			}
			out = append(out, GPUProcess{PID: int64(p.Pid), Bytes: b, Kind: kind})
		}
	}
	ps, ret := n.dev.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return nil, Code(ret)
	}
	add(ps, 'C')
	if ps, ret := n.dev.GetGraphicsRunningProcesses(); ret == nvml.SUCCESS {
		add(ps, 'G')
	}
	if ps, ret := n.dev.GetMPSComputeRunningProcesses(); ret == nvml.SUCCESS {
		add(ps, 'M')
	}
	return out, OK
}

func (n *nvmlDevice) ProcessUse(sinceUs int64) ([]GPUProcessUse, Code) {
	us, ret := n.dev.GetProcessUtilization(uint64(sinceUs))
	var out []GPUProcessUse
	for _, u := range us {
		out = append(out, GPUProcessUse{PID: int64(u.Pid), StampUs: int64(u.TimeStamp), SM: int64(u.SmUtil), Mem: int64(u.MemUtil)})
	}
	return out, Code(ret)
}

func (n *nvmlDevice) Samples(sinceUs int64) ([]Sample, Code) {
	t, ss, ret := n.dev.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, uint64(sinceUs))
	var out []Sample
	for _, s := range ss {
		if v, ok := unionValue(t, s.SampleValue); ok {
			out = append(out, Sample{UnixUs: int64(s.TimeStamp), Value: v})
		}
	}
	return out, Code(ret)
}

func (n *nvmlDevice) GPM(ids []int, out []float64) Code {
	for i := range n.gpm {
		if n.gpm[i] == nil {
			s, ret := n.d.lib.GpmSampleAlloc()
			if ret != nvml.SUCCESS {
				return Code(ret)
			}
			n.gpm[i] = s
		}
	}
	if ret := n.dev.GpmSampleGet(n.gpm[1]); ret != nvml.SUCCESS {
		return Code(ret)
	}
	n.gpm[0], n.gpm[1] = n.gpm[1], n.gpm[0] // now [0] is the new one, [1] the one before
	if !n.have {
		n.have = true
		return NotReady
	}
	get := nvml.GpmMetricsGetType{NumMetrics: uint32(len(ids)), Sample1: n.gpm[1], Sample2: n.gpm[0]}
	for i, id := range ids {
		get.Metrics[i].MetricId = uint32(id)
	}
	if ret := n.d.lib.GpmMetricsGet(&get); ret != nvml.SUCCESS {
		return Code(ret)
	}
	for i := range ids {
		out[i] = math.NaN()
		if get.Metrics[i].NvmlReturn == uint32(nvml.SUCCESS) {
			out[i] = get.Metrics[i].Value
		}
	}
	return OK
}
