package timeline

import "time"

// Reduced is what outlives one trace file's spans: steps, ledgers, tables, collectives. A file of several processes gives one
// Reduced a process. All times are on the file's own clock until placed; ns, integer.
type Reduced struct {
	Path        string // Source.Path of the trace
	Process     Process
	GPUs        []GPULedger // devices with at least one device op, by ordinal
	Steps       StepMarks
	HostBusy    []int64 // ns a step (same index as Steps.Index): host busy without sync waits; nil unknown
	NextNS      []int64 // ns a step inside the loader's next() on the main thread
	Rank        RankTables
	Collectives []Collective // in order of start, all GPUs
	Exposed     []Interval   // exposed pieces of collectives; Collective.Exposed0/N index it
	Recorded    Interval     // first to last event of the process
	Problems    []Problem
	Notes       []string // what looked odd while reducing: clock suspect, no launches, dropped events
	NoLedger    string   // why no GPU has a ledger; "" when one has

	// Filled by the meeting, where the clock of its host was found to differ from the others'.
	Shifted      Time   // already added to every time here; Shift keeps it
	ShiftErrorNS int64  // the true difference lies within Shifted +/- this
	ShiftWhy     string // the evidence
}

// StepMarks says how a process's steps were found.
type StepMarks struct {
	How         string          // ProfilerStep, step-range, annotation, kernel-sequence, none
	Name        string          // the mark's name pattern, for the report
	Confidence  Confidence      // Measured for ProfilerStep, Inferred else
	Index       []int64         // number of each analysed step (k of ProfilerStep#k, else 0..)
	Host        []Interval      // host interval of each analysed step; empty slice where found on the device
	Dropped     []string        // which recorded steps are not analysed, and why
	First       Interval        // the first recorded step if it was dropped, for warm-up; else empty
	FirstOwners Owners          // its ledger if known
	All         []time.Duration // GPU duration of every recorded step in order, the dropped ones included
}

// Confidence of a number or a check. The lowest wins.
type Confidence uint8

// Confidences, lowest first. NoConfidence is the zero value.
const (
	NoConfidence Confidence = iota
	Hint
	Inferred
	Measured
)

func (c Confidence) String() string { return [...]string{"", "hint", "inferred", "measured"}[c] }

// Segment is a piece of one GPU's window with one owner. Segments of a ledger are contiguous, ordered and cover the window.
type Segment struct {
	Start Time
	Dur   int64  // ns
	Row   uint32 // event that decided it: the kernel, the API call, the annotation; 0 none
	Owner Owner
	Sub   Sub
}

// Sub is a finer owner, for tables and sentences.
type Sub uint8

// Sub-owners.
const (
	SubNone Sub = iota
	SubMatmul
	SubConv
	SubAttention
	SubElementwise
	SubReduce
	SubNorm
	SubOptimizer
	SubCopyCast
	SubMemset
	SubValidation
	SubCheckpoint
	SubPageable
	SubPinned
	SubUncorrelated   // unknown: the op that closes the gap has no launch
	SubLag            // unknown: the launch returned long before the op began
	SubMissingEvents  // unknown: device events are missing
	SubPipelineBubble // peer-wait in send/recv
	SubNoOperators    // unknown: neither operators nor CPU samples were recorded, so what the thread did between its calls is not known
	SubRefill         // host.sync: launching again after a sync drained the queue
	SubOnCPU          // host.python, host.dataloader: the thread ran, as context switches or CPU samples show
	SubLock           // host.python: the launching thread waited for a lock that another thread of its process held while it ran
	SubPin            // host.python: the same, and that thread is the one that copies batches into pinned memory
	SubOther
)

// StepRow is one analysed step of one GPU: [Start, Start+Dur) with its owners, which sum to Dur.
type StepRow struct {
	Start  Time
	Dur    int64
	Owners Owners
	Side   Side
}

// Side holds the side meters in ns; they never enter a sum.
type Side struct{ HiddenComm, HiddenCopy, HiddenNext int64 }

// GPULedger is the ledger of one device as one process drove it.
type GPULedger struct {
	Device       Device
	Window       Interval         // analysed: whole steps, or first to last device op when there are none
	Owners       Owners           // sums to Window
	Subs         [NOwners][]SubNS // finer split, sorted by Sub
	Side         Side
	Steps        []StepRow   // contiguous, tile Window; empty without steps
	Segments     Segments    // tile Window
	Busy         int64       // ns of Window with any device op: union over streams
	Ops          int64       // device ops in Window
	Order        []Owner     // owners by their median start in a step
	Bins         BusyBins    // utilisation of the whole recording, for matching with sampled logs
	SumError     int64       // ns that owners missed the window by; 0 or a bug
	Kernels      []KernelRow // by total time, longest first, then name
	Copies       []CopyRow
	Late         int64 // device ops that began before their launch call (clock)
	Uncorrelated int64
	Idle         Interval   // longest idle gap
	Phases       []PhaseRun // of the stream that computes most, over the whole recording; empty where backward was not seen
	Work         WorkTable
}

// Phase is the part of a training step that launched a device op.
type Phase uint8

// Phases of a step. After is what lies between the last gradient and the optimizer.
const (
	NoPhase Phase = iota
	Forward
	Backward
	After
	Optimizer
)

// PhaseRun is kernels in a row that one phase launched: [Start, End), on the device.
type PhaseRun struct {
	Phase      Phase
	Start, End Time
}

// SubNS is time of one sub-owner.
type SubNS struct {
	Sub Sub
	NS  int64
}

// BusyBins is the busy share of a device in equal bins from Start.
type BusyBins struct {
	Start Time
	Bin   time.Duration
	Busy  []float32 // [0,1]
}

// KernelRow is all launches of one kernel name and class inside the window.
type KernelRow struct {
	Name       string
	Class      string // matmul, conv, attention, elementwise, reduce, norm, optimizer, copy-cast, comm, memset, other
	Count      int64
	Dur        int64  // ns, sum of durations
	Median     int64  // ns
	TensorCore int8   // 1 yes, 0 cannot be told, -1 no
	DType      string // by name or shape: fp32, tf32, bf16, fp16, fp8 ...; "" unknown
	Op         string // operator that launched most of it; "" unknown
	SmallGrid  int64  // launches with fewer blocks than the part has SMs; -1 unknown
	Short      int64  // launches under 10 us
	ShortDur   int64
	Rows       []uint32 // first few

	// What its launches did whose operator tells it by recorded shapes, an operator's work shared out by time among its kernels.
	Shaped      int64   // ns of those launches
	FLOP, Bytes float64 // of them; bytes: inputs and output once
	WorkType    string  // of most of that time, by the operator's inputs; "" unknown
}

// CopyRow is all copies of one direction and memory kind inside the window.
type CopyRow struct {
	Kind             CopyKind
	Memory           MemKind // the host side
	Count            int64
	Bytes            int64
	Dur              int64 // ns, sum
	Exposed          int64 // ns owned by copies of this row in the ledger
	BigBytes, BigDur int64 // of copies of at least 1 MiB, for bandwidth
	BigCount         int64
	Rows             []uint32 // largest few
}

// RankTables are totals of one process inside its analysed window.
type RankTables struct {
	Calls                    []CallRow // host API calls and operators by name, longest total first; at most 200
	Loader                   LoaderStats
	OptimizerNS              int64 // ns of device ops launched inside Optimizer.step plus the gaps there; -1: no Optimizer.step mark
	OptimizerRows            []uint32
	Matmuls                  []MatmulRow // matrix products whose shapes are known, longest first; at most 2000
	MatmulNS, MatmulShapedNS int64       // device ns of matmul kernels: all, and with known shapes
	CastNS                   int64       // device ns of cast kernels and copies launched by aten::to/_to_copy/copy_ between types; -1 no operators recorded
	ChainNS                  int64       // device ns of elementwise kernels in chains (>=3 in a row of equal size on one stream)
	ChainKernels, Chains     int64
	StackFrames              bool // Python frames were recorded
	Shapes                   bool // input shapes were recorded
	SyncEvents               bool // cuda_sync events were recorded
	Operators                bool // cpu_op events were recorded
	GraphLaunches            int64
	SyncCalls                int64 // blocking calls in the window
	SyncNS                   int64 // ns of them
	ItemCalls                int64 // aten::item and its kin
	AllocCalls, AllocNS      int64 // allocator calls after the first analysed step
	CompileNS                int64
	MainThread               int64
	OverheadNS               int64 // profiler overhead inside the window, union
	ConvTrials               int64

	// What the system shows of the process, from context switches, blocking calls and CPU samples.
	Switches, OSWaits, CPUSamples bool
	PinThread                     bool  // a thread that copies batches into pinned memory was seen
	PreemptedNS                   int64 // the main thread off the CPU, and nothing it waited for
	Preemptions                   int64
	PreemptedRows                 []uint32
	Frame                         string // in which it was sampled most while the GPU waited for Python; "" not known
	FrameTop, FrameSamples        int64  // samples in Frame, and all of them

	MemoryEvents              bool // allocations of device memory were recorded
	MemoryAllocs, MemoryFrees int64
	MemoryAllocBytes          int64 // after the first analysed step

	SteadySteps    int64 // analysed steps after the first of the recording; 0: no steps
	Recompiles     int64 // compilations of 1 ms and more that begin in them
	RecompileNS    int64 // ns of the host
	RecompileRows  []uint32
	Convs          bool  // convolutions with recorded shapes ran
	ConvNewShapes  int64 // shapes of convolutions seen in them for the first time
	ConvTrialNS    int64 // ns of the host in convolutions that tried algorithms, in them
	ConvShapeRows  []uint32
	ModelPhases    []PhaseShare // longest first, then name
	ModelPhaseRows []uint32
	HostWindowNS   int64

	UnusedNS   int64    // ns of the window in which DDP looked for unused parameters, union
	UnusedRows []uint32 // the first few

	// Tokens of each analysed step (same index as Steps.Index), as input shapes tell; nil unknown. Equal TokensOf compare.
	StepTokens []int64
	TokensOf   string // what they are counted by
	// Tokens of padded batches that attention was given without the padding: what it was given, and with it; both 0: not seen.
	TokensReal, TokensPadded int64
	PaddingRows              []uint32

	Tokenize     Held // turning text into tokens
	Collect      Held // collecting garbage, as Python frames and ranges show it
	WorkerStarts Held // starting processes inside the loader, after the first analysed step
}

// CallRow is one host name's total.
type CallRow struct {
	Name  string
	Kind  SpanKind
	Count int64
	Dur   int64 // ns, sum
	Max   int64
	Rows  []uint32
}

// LoaderStats is the data loader as the trace shows it.
type LoaderStats struct {
	Name    string // the longest next() annotation name; "" none seen
	Single  bool   // _SingleProcessDataLoaderIter
	Calls   int64
	Dur     int64    // ns inside next(), analysed window
	Exposed int64    // ns of GPU gaps it owned
	Rows    []uint32 // the longest few
}

// MatmulRow groups matrix products of one shape and type.
type MatmulRow struct {
	Op             string // aten::mm, aten::addmm, ...
	M, N, K, Batch int64
	DType          string // of the inputs: fp32, bf16, ...
	Kernel         string // commonest kernel name
	TensorCore     int8
	Count          int64
	Dur            int64 // ns on the device
	Row            uint32
}

// FLOP is what one product takes: a multiplication and an addition for each element of each sum.
func (m *MatmulRow) FLOP() float64 {
	return 2 * float64(m.M) * float64(m.N) * float64(m.K) * float64(max(1, m.Batch))
}

// Bytes is what one product must read and write at least: both inputs and the output once. 0: the size of its elements is not known.
func (m *MatmulRow) Bytes() float64 {
	return ElemBytes(m.DType) * m.Elements()
}

// Elements is how many numbers both inputs and the output of one product have.
func (m *MatmulRow) Elements() float64 {
	a, b, c := float64(m.M), float64(m.N), float64(m.K)
	return float64(max(1, m.Batch)) * (a*c + c*b + a*b)
}

// ElemBytes is the size of an element by a type's name in MatmulRow.DType; 0 unknown.
func ElemBytes(dtype string) float64 {
	switch dtype {
	case "fp64":
		return 8
	case "fp32", "tf32":
		return 4
	case "fp16", "bf16":
		return 2
	case "fp8", "int8":
		return 1
	}
	return 0
}

// Collective is one communication kernel of one rank. After the meeting of all ranks its exposed time is divided.
type Collective struct {
	GPU                int // index in GPUs
	Start, End         Time
	Name               string // kernel name
	Primitive          string // all-reduce, all-gather, reduce-scatter, broadcast, reduce, send-recv, all-to-all, barrier, other, unknown
	DType              string
	Bytes              int64  // payload by the busbw convention; -1 unknown
	Group              string // process group name, "" unknown
	GroupDesc          string
	GroupSize          int    // 0 unknown
	GroupRanks         []int  // nil unknown
	Seq                int64  // -1 unknown
	Grid               uint32 // blocks of the kernel, saturated; 0 unknown
	Peer               int    // rank on the other side of send or recv; -1 unknown or none
	Dir                int8   // of send-recv: 1 sends to Peer, -1 receives from it; 0 unknown or both
	Step               int32  // analysed step that holds its start; -1 outside the window
	Exposed0, ExposedN int32  // its pieces in Reduced.Exposed
	ExposedNS          int64
	Stream             int64
	OnCompute          bool // runs on the stream that has most compute
	Row                uint32
	Phase              Phase // that launched it; NoPhase unknown

	// How an all-to-all shares out what its rank sends.
	Splits             int32 // members that the sizes are known of; 0 unknown
	SplitMax, SplitSum int64 // elements: the largest and all; equal parts where none are stated

	// Filled by the meeting.
	Split                            Confidence // NoConfidence: undivided; Inferred: from one rank; Measured: all ranks were there
	PeerWaitNS, TransferNS           int64      // of the whole kernel, not only its exposed part
	ExposedWaitNS, ExposedTransferNS int64
	Culprit                          int  // rank that arrived last; -1 unknown
	Latest                           Time // when it arrived; reference clock of this rank
}
