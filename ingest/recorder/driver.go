package recorder

import (
	"strconv"
	"time"
)

// Code is a return code of NVML.
type Code int

// Return codes that the recorder tells apart.
const (
	OK               Code = 0
	NotSupported     Code = 3
	NoPermission     Code = 4
	NotFound         Code = 6
	DriverNotLoaded  Code = 9
	Timeout          Code = 10
	LibraryNotFound  Code = 12
	FunctionNotFound Code = 13
	GPULost          Code = 15
	ResetRequired    Code = 16
	VersionOfLibrary Code = 18
	NoData           Code = 21
	VersionMismatch  Code = 25
	Deprecated       Code = 26
	NotReady         Code = 27
	UnknownError     Code = 999
)

var codeNames = map[Code]string{0: "SUCCESS", 1: "UNINITIALIZED", 2: "INVALID_ARGUMENT", 3: "NOT_SUPPORTED", 4: "NO_PERMISSION", 5: "ALREADY_INITIALIZED", 6: "NOT_FOUND",
	7: "INSUFFICIENT_SIZE", 8: "INSUFFICIENT_POWER", 9: "DRIVER_NOT_LOADED", 10: "TIMEOUT", 11: "IRQ_ISSUE", 12: "LIBRARY_NOT_FOUND", 13: "FUNCTION_NOT_FOUND",
	14: "CORRUPTED_INFOROM", 15: "GPU_IS_LOST", 16: "RESET_REQUIRED", 17: "OPERATING_SYSTEM", 18: "LIB_RM_VERSION_MISMATCH", 19: "IN_USE", 20: "MEMORY", 21: "NO_DATA",
	22: "VGPU_ECC_NOT_SUPPORTED", 23: "INSUFFICIENT_RESOURCES", 24: "FREQ_NOT_SUPPORTED", 25: "ARGUMENT_VERSION_MISMATCH", 26: "DEPRECATED", 27: "NOT_READY",
	28: "GPU_NOT_FOUND", 29: "INVALID_STATE", 999: "UNKNOWN"}

func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return "code " + strconv.Itoa(int(c))
}

// absent: not available here for the whole run; the call is not made again.
func (c Code) absent() bool {
	return c == NotSupported || c == NoPermission || c == FunctionNotFound || c == VersionMismatch || c == Deprecated || c == 2
}

// lost: the GPU answers nobody any more.
func (c Code) lost() bool { return c == GPULost || c == ResetRequired }

// later: nothing to say this time.
func (c Code) later() bool { return c == NoData || c == NotReady || c == NotFound }

// Call is a call of NVML that gives up to four integers; its argument is the link, clock, threshold, policy or peer it is about. The
// values are in NVML's own units; the comment says what they are.
type Call uint8

// The calls that are made.
const (
	CallUtilization      Call = iota // gpu %, memory %
	CallEncoder                      // %
	CallDecoder                      // %
	CallJpg                          // %
	CallOfa                          // %
	CallClock                        // MHz; arg 0 graphics, 1 SM, 2 memory, 3 video
	CallMaxClock                     // MHz; arg as CallClock
	CallAppClock                     // MHz; arg as CallClock
	CallReasons                      // mask
	CallReasonsKnown                 // mask of those that the part can report
	CallPState                       // 0 to 15, 32 unknown
	CallPower                        // mW
	CallPowerEnforced                // mW
	CallPowerDefault                 // mW
	CallPowerRange                   // min mW, max mW
	CallEnergy                       // mJ since the driver was loaded
	CallTemperature                  // C
	CallMargin                       // C to the limit
	CallThreshold                    // C; arg 0 shutdown, 1 slowdown, 2 memory max, 3 GPU max
	CallPCIeThroughput               // KB/s; arg 0 tx, 1 rx; the call itself measures for 20 ms
	CallPCIeGen                      // generation
	CallPCIeWidth                    // lanes
	CallPCIeGenMax                   // generation, of the card in this slot
	CallPCIeWidthMax                 // lanes
	CallPCIeGenDevice                // generation, of the card alone
	CallPCIeReplays                  // count
	CallNVLinkState                  // 0, 1; arg link
	CallNVLinkVersion                // version; arg link
	CallNVLinkRemoteType             // 0 GPU, 1 NPU, 2 switch, 255 unknown; arg link
	CallNVLinkErrors                 // count; arg link*8 + counter: 0 replay, 1 recovery, 2 CRC flit, 3 CRC data
	CallECC                          // count; arg 0 corrected volatile, 1 uncorrected volatile, 2 corrected aggregate, 3 uncorrected aggregate
	CallECCPlace                     // count; arg location*4 + as CallECC
	CallRemapped                     // corrected, uncorrected, pending, failure
	CallRetirePending                // 0, 1
	CallRetired                      // pages; arg 0 single-bit, 1 double-bit
	CallMemory                       // total B, used B, reserved B, free B; reserved is -1 where the driver counts it as used
	CallBAR1                         // total B, used B
	CallFan                          // %
	CallMIG                          // current, pending
	CallPersistence                  // 0, 1
	CallComputeMode                  // 0 default, 2 prohibited, 3 exclusive process
	CallECCMode                      // current, pending
	CallVirtual                      // 0 none, 1 pass-through, 2 vGPU, 3 host vGPU, 4 host vSGA
	CallMinor                        // number of /dev/nvidiaN
	CallCapability                   // major, minor
	CallBusWidth                     // bits
	CallNUMANode                     // node
	CallViolation                    // reference us, violation ns; arg policy 0 power, 1 thermal, 2 sync boost, 3 board limit, 4 low utilisation, 5 reliability
	CallAncestor                     // level; arg index of the other GPU
	CallP2P                          // status; arg index of the other GPU *8 + capability
	CallFabric                       // state: 0 unsupported, 1 not started, 2 in progress, 3 completed; then the status code
	CallGPM                          // 0, 1: the part has GPM
	nCalls
)

var callNames = [nCalls]string{"GetUtilizationRates", "GetEncoderUtilization", "GetDecoderUtilization", "GetJpgUtilization", "GetOfaUtilization", "GetClockInfo", "GetMaxClockInfo",
	"GetApplicationsClock", "GetCurrentClocksEventReasons", "GetSupportedClocksEventReasons", "GetPerformanceState", "GetPowerUsage", "GetEnforcedPowerLimit",
	"GetPowerManagementDefaultLimit", "GetPowerManagementLimitConstraints", "GetTotalEnergyConsumption", "GetTemperature", "GetMarginTemperature", "GetTemperatureThreshold",
	"GetPcieThroughput", "GetCurrPcieLinkGeneration", "GetCurrPcieLinkWidth", "GetMaxPcieLinkGeneration", "GetMaxPcieLinkWidth", "GetGpuMaxPcieLinkGeneration",
	"GetPcieReplayCounter", "GetNvLinkState", "GetNvLinkVersion", "GetNvLinkRemoteDeviceType", "GetNvLinkErrorCounter", "GetTotalEccErrors", "GetMemoryErrorCounter",
	"GetRemappedRows", "GetRetiredPagesPendingStatus", "GetRetiredPages", "GetMemoryInfo", "GetBAR1MemoryInfo", "GetFanSpeed", "GetMigMode", "GetPersistenceMode",
	"GetComputeMode", "GetEccMode", "GetVirtualizationMode", "GetMinorNumber", "GetCudaComputeCapability", "GetMemoryBusWidth", "GetNumaNodeId", "GetViolationStatus",
	"GetTopologyCommonAncestor", "GetP2PStatus", "GetGpuFabricInfo", "GpmQueryDeviceSupport"}

func (c Call) String() string { return callNames[c] }

// TextCall is a call of NVML that gives a text.
type TextCall uint8

// The text calls that are made.
const (
	TextName TextCall = iota
	TextUUID
	TextBus    // PCI bus id
	TextSerial // only where asked for
	TextVBIOS
	TextCPUs   // CPUs near the GPU, "0-31,64-95"
	TextRemote // PCI bus id of the other end; arg link
	nTextCalls
)

// Values are what a call gave; those it does not give are 0.
type Values [4]int64

// Field is one element of a batch of field values, nvml.md section 3.
type Field struct {
	ID, Scope uint32
	Value     int64
	Code      Code
}

// GPUProcess is a process that uses a GPU.
type GPUProcess struct {
	PID   int64
	Bytes int64 // of device memory; -1 unknown
	Kind  byte  // 'C' compute, 'G' graphics, 'M' through MPS
}

// GPUProcessUse is the utilisation of one process, %.
type GPUProcessUse struct {
	PID, StampUs, SM, Mem int64
}

// Sample is an element of the driver's ring buffer.
type Sample struct{ UnixUs, Value int64 }

// Event is something that the driver tells by itself.
type Event struct {
	Index int    // of the GPU; -1 unknown
	Type  uint64 // event type bits: 0x8 is an Xid
	Data  int64  // the Xid
}

// Driver is what the recorder wants of NVML. It is small so that tests and builds without cgo have another one.
type Driver interface {
	Version() (driver, nvml string, cuda int)
	Count() (int, Code)
	Device(i int) (Device, Code)
	// Wait waits for an event of any device, at most d; ok is false when none came. ready is false where events cannot be had.
	Wait(d time.Duration) (e Event, ok, ready bool)
	// Xids tells whether Wait tells the Xids of every device; it is asked after a first Wait.
	Xids() bool
	Close()
}

// Device is one GPU. Its methods are called from one goroutine at a time, but for CallPCIeThroughput, which has its own.
type Device interface {
	Call(c Call, arg int) (Values, Code)
	Text(c TextCall, arg int) (string, Code)
	// Fields fills in Value and Code of each element.
	Fields(fs []Field) Code
	Processes() ([]GPUProcess, Code)
	ProcessUse(sinceUs int64) ([]GPUProcessUse, Code)
	// Samples gives the utilisation readings that the driver kept since then.
	Samples(sinceUs int64) ([]Sample, Code)
	// GPM gives the metrics' means since the call before it, NaN for one that failed; NotReady at the first call.
	GPM(ids []int, out []float64) Code
}
