// Package timeline is the one store of everything that was recorded: spans, marks and sampled series on one clock,
// each with the row of the file it came from.
package timeline

import (
	"time"

	"gpureport/ingest/unit"
)

// Time is an instant on the reference clock, ns since Timeline.Epoch, maybe negative. A length is a time.Duration.
type Time int64

// Interval is half-open: Start is inside, End is not. Start == End is empty.
type Interval struct{ Start, End Time }

// Dur is the length of the interval.
func (iv Interval) Dur() time.Duration { return time.Duration(iv.End - iv.Start) }

// Empty tells whether the interval holds no instant.
func (iv Interval) Empty() bool { return iv.End <= iv.Start }

// Identifiers index the tables of one Timeline.
type (
	SourceID int32
	ClockID  int32
	DeviceID int32
	TrackID  int32
	StringID uint32
)

// Timeline is what was read of one or more sources.
type Timeline struct {
	Epoch    time.Time // wall instant of Time 0, UTC; zero if no source knows it. Placed sources use the Unix epoch
	Window   Interval  // what the spans and series cover
	Sources  []Source  // by SourceID, sorted by path: argument order never shows
	Clocks   []Clock   // by ClockID, one or more a source
	Devices  []Device  // by DeviceID
	Tracks   []Track   // by TrackID; a track belongs to one source
	Spans    Spans
	Marks    Marks
	Series   []Series
	Attrs    []Attr
	Links    []Link
	Totals   []Totals
	Counters []KernelCounters // by source, then in the file's order
	Names    Strings
	Problems []Problem
	Procs    []Process // one a process seen in a trace, by the order of first appearance
	Again    []int32   // by mark: the mark of another source that shows the same event, -1 none; empty until devices are matched
}

// Source is one input file or archive member.
type Source struct {
	Path     string // relative to the argument it was found under; logs.zip!/rank0.json in an archive
	Format   string // name of the format, "unknown" for none of ours
	Bytes    int64  // as stored on disk or in the archive
	SHA256   string // of the stored bytes, hex
	Rows     int64  // records read: lines, events
	Clock    ClockID
	Covers   string // what a reading covers: instant, window or total; "" for spans
	Coverage []Interval
	Used     bool
	Note     string // for a file that is not read: what it is and the one command that turns it into a read one
	Head     string // first printable characters of an unknown file
	Host     string // the machine it was recorded on, where the file says so; "" unknown
	// Watches lists the kinds of marks that the source would hold had they happened inside its Coverage: their absence is evidence.
	Watches []MarkKind
	Tables  []TableRows
	Asks    []string // checklist stages that it lets be asked about, where they are fewer than its format's; nil: its format's
}

// TableRows says where the row numbers of one of a source's tables begin, for sources of several tables: row number n belongs to the
// last table with First <= n and is row n-First of it. Sorted by First.
type TableRows struct {
	Name  string
	First uint32
}

// Process is one traced process; normally one rank.
type Process struct {
	Source    SourceID
	PID       int64
	Host      string // "" unknown
	Rank      int    // -1 unknown
	RankHow   string // where the number comes from: distributedInfo, metadata, collective args, file name
	WorldSize int    // 0 unknown
	Backend   string
	Recorded  Interval          // capture window if the file states it, else empty
	Meta      map[string]string // what else the file says of the run (torch version, nccl_version, with_stack ...)
	Groups    []ProcessGroup    // from distributedInfo.pg_config
}

// ProcessGroup is one communicator as the trace describes it.
type ProcessGroup struct {
	Name, Desc string
	Ranks      []int // empty: unknown or the whole world
	Size       int
}

// Device is a GPU or another accelerator as one or more sources know it.
type Device struct {
	UUID    string // "" unknown
	Bus     string // PCI bus id, normalised: dddd:bb:dd
	Name    string
	Index   int // NVML index if a source knows it, else the CUDA ordinal, else -1
	Ordinal int // CUDA ordinal inside its process, -1 unknown
	Source  SourceID
	Proc    int // index in Procs, -1 none
	SMs     int // 0 unknown
	Memory  int64
	CC      string // compute capability, "8.0"; "" unknown
	Vendor  string // nvidia, amd, other
	How     string // how it was matched with the devices of other sources; "" not matched
}

// Track is a thread, a stream or a sampled subject.
type Track struct {
	Source SourceID
	Table  StringID // traceEvents, or the name of the log's table; see Ref
	Kind   TrackKind
	Proc   int      // index in Procs; -1 none
	Device DeviceID // for streams and GPU series; -1 none
	Thread int64    // OS thread id or stream id; -1 unknown
	Name   string   // thread name if the file states it
}

// TrackKind says what a track is.
type TrackKind uint8

// Kinds of tracks.
const (
	TrackOther        TrackKind = iota
	TrackHost                   // a host thread
	TrackStream                 // a device stream
	TrackGPU                    // sampled readings of a GPU
	TrackHostReadings           // sampled readings of a whole host
	TrackCPU                    // sampled readings of one CPU of a host; Thread is its number
	TrackNIC                    // sampled readings of a network port; Name is the maker's: mlx5_0:1, eth0
	TrackDisk                   // sampled readings of a disk; Name: nvme0n1
	TrackProcess                // sampled readings of an OS process; Thread is its pid, Name its command without arguments
	TrackSteps                  // the training loop's own log; Thread is the rank, -1 unknown
)

// SpanKind is the class of a span by its category in the source, never by its name.
type SpanKind uint8

// Kinds of spans.
const (
	KindOther      SpanKind = iota
	KindKernel              // device kernel
	KindMemcpy              // device copy; see Spans.Copies
	KindMemset              // device memory fill
	KindAPI                 // runtime or driver call on the host
	KindOp                  // framework operator on the host (cpu_op)
	KindAnnotation          // user annotation on the host
	KindGPUAnno             // projection of an annotation on a stream; not a device op
	KindSync                // cuda_sync, device side view of a wait; not a device op
	KindOverhead            // the profiler's own work
	KindPython              // interpreter frame
	KindOSWait              // blocking call of the system on the host, by its name: read, poll, pthread_cond_wait; says nothing of the GPU
	KindOffCPU              // the thread was not running, from the switch out to the next switch in; Name says why, where the file does
	NSpanKinds              // how many there are
)

// IsDeviceOp tells whether the kind occupies the device.
func (k SpanKind) IsDeviceOp() bool { return k == KindKernel || k == KindMemcpy || k == KindMemset }

// Spans is one slice a column; row i of each is the same span. Sorted by Track, Start, longer first, Row.
// What only some kinds have sits in small tables beside it, sorted by Span.
type Spans struct {
	Track      []TrackID
	Kind       []SpanKind
	Start, End []Time // [Start, End)
	Name       []StringID
	Link       []uint32 // launch <-> device op; 0 is none; unique within (source, process)
	Row        []uint32 // row in Track.Table of Track.Source: event number for traces

	Copies   []Copy
	Kernels  []KernelArgs
	Launches []Launch // each kind of launch about once: millions of kernels have a few hundred
	Comms    []Comm
	Shapes   []Shape
}

// Len is the number of spans.
func (s *Spans) Len() int { return len(s.Start) }

// CopyKind is the direction of a copy.
type CopyKind uint8

// Directions of copies.
const (
	DirUnknown CopyKind = iota
	DirH2D
	DirD2H
	DirD2D
	DirP2P
	DirH2H
)

// MemKind is the kind of the host side memory of a copy.
type MemKind uint8

// Kinds of memory.
const (
	MemUnknown MemKind = iota
	MemPageable
	MemPinned
	MemDevice
	MemManaged
)

// Copy has the arguments of a memcpy or memset span.
type Copy struct {
	Span     int32
	Kind     CopyKind
	Src, Dst MemKind
	Bytes    int64 // -1 unknown
}

// KernelArgs names the launch of a kernel span, where recorded.
type KernelArgs struct {
	Span   int32
	Launch int32 // in Spans.Launches
}

// Launch is how a kernel was launched.
type Launch struct {
	Grid, Block [3]int32 // 0 unknown
	GraphNode   uint64   // 0 none
}

// Comm has the collective arguments of a kernel or an operator span.
type Comm struct {
	Span                int32
	Collective          StringID // maker's word: allreduce, _allgather_base, ...
	DType               StringID
	InElems, OutElems   int64 // -1 unknown
	GroupSize           int32 // 0 unknown
	Group, GroupDesc    StringID
	GroupRanks          StringID // as written, "[0, 1]"
	Rank                int32    // -1 unknown
	Src, Dst            int32    // peers of send and recv; -1 none
	Seq                 int64    // -1 unknown
	InSplits, OutSplits StringID
}

// Shape has the recorded input shapes of an operator span, as written in the file.
type Shape struct {
	Span     int32
	Dims     StringID // "[[8, 128], [128, 64]]"
	Types    StringID // `["float", "float"]`
	Concrete StringID
}

// Marks are things at an instant, one slice a column, sorted by At.
type Marks struct {
	Track []TrackID
	Kind  []MarkKind
	At    []Time
	Code  []int32    // number of the event: of an Xid or SXid; 0 none
	Name  []StringID // what the file says
	Row   []uint32
}

// MarkKind says what kind of event a mark is.
type MarkKind uint8

// Kinds of marks.
const (
	MarkOther      MarkKind = iota
	MarkGPULost             // the GPU fell off the bus or needs a reset
	MarkReadFailed          // a reading failed: an observation in its own right
	MarkClockStep           // the log's wall clock jumped
	MarkIteration           // "Iteration Start" and its kin
	MarkXid                 // the driver logged an Xid; Code is its number
	MarkSXid                // an NVSwitch error; Code is its number
	MarkOOM                 // the kernel killed a process for memory
	MarkSample              // a CPU sample of the track's thread: it ran at this instant; Name is the innermost frame that is known
	MarkOutput              // anything else that a log holds and a reader may want to see beside the steps
)

// Covers says what a reading speaks about.
type Covers uint8

// What a reading covers.
const (
	Instant      Covers = iota
	WindowBefore        // mean or share over Window up to the stamp
	RunningTotal        // counter since long ago: use differences
)

func (c Covers) String() string { return [...]string{"instant", "window", "total"}[c] }

// Metric names a sampled quantity.
type Metric struct {
	Name   string // sm_busy_frac, power_w, clock_sm_hz ...; see the list in metrics.go
	Unit   unit.Unit
	Covers Covers
	Window time.Duration // for WindowBefore; the shortest that the maker states
}

// Series is one metric of one subject from one source.
type Series struct {
	Metric Metric
	Track  TrackID
	At     []Time    // strictly rising; a reading that was not taken is absent, never 0 or NaN
	Value  []float64 // in Metric.Unit, finite
	Row    []uint32
}

// Attr is what a source states of a subject once, or seldom: a limit, a capability, a setting, a version. The names are in attrs.go.
type Attr struct {
	Track TrackID // whose it is: a GPU, a host, a port, a process
	Name  string
	Text  string  // for Unit Text; else ""
	Value float64 // in Unit, finite
	Unit  unit.Unit
	At    Time // when it was read, on the source's clock; 0 where the file has no time
	Row   uint32
}

// Link says how two parts of one host are joined, as a topology matrix or a link status does.
type Link struct {
	Source SourceID
	A, B   string // GPU0, NIC1, or the maker's name of the port; A is the row, B the column
	Kind   string // the maker's word: NV18, PIX, PXB, PHB, NODE, SYS
	Count  int32  // NVLinks of NV#; 0 else
	Row    uint32
}

// Totals is a table of sums that a profiler made of a recording, without a time axis: nsys stats' summaries.
type Totals struct {
	Source SourceID
	What   TotalsOf
	Rows   []TotalRow // in the file's order
}

// TotalsOf says what the rows of a Totals are sums of.
type TotalsOf uint8

// Kinds of summaries.
const (
	TotalOther    TotalsOf = iota
	TotalKernels           // device time by kernel name
	TotalCopyTime          // device time by kind of copy
	TotalCopySize          // bytes by kind of copy
	TotalCalls             // host time by runtime or driver call
	TotalRanges            // host time by NVTX range
	TotalOSWaits           // host time by blocking system call, over all threads
)

// TotalRow is one name of a summary. What the file does not say is -1.
type TotalRow struct {
	Name                  string
	Count                 int64
	Sum, Median, Min, Max int64 // ns, or bytes for sizes; concurrent ones are added up
	Row                   uint32
}

// KernelCounters is what a profiler of single kernels counted in the launches of one, mean by their lengths. Such a run is none of the
// recorded one: it repeats each launch, with caches emptied and clocks held unless told otherwise.
type KernelCounters struct {
	Source   SourceID
	Name     string
	CC       string // compute capability of the part, "9.0"; "" not stated
	Launches int64
	L2Hit    float64 // [0,1] of the L2 cache's sectors that were found there; -1 not counted
	DRAM     float64 // [0,1] of the device memory's peak rate; -1 not counted
	Row      uint32  // of the first launch
}

// Placement says how a clock was placed.
type Placement uint8

// Ways to place a clock. Unplaced is the zero value: nobody knows where the source lies.
const (
	Unplaced  Placement = iota
	Reference           // this clock is the axis
	Recorded            // the source states its zone
	Stated              // the user said so
	Matched             // found by comparing what both saw
	Assumed
)

func (p Placement) String() string {
	return [...]string{"unplaced", "reference", "recorded", "stated", "matched", "assumed"}[p]
}

// Clock says how a source's time was placed on the reference clock, and how sure that is.
type Clock struct {
	Name   string
	Step   time.Duration // grain: 1s for dmon, 1ns for nsys
	Offset time.Duration // reference instant = source instant + Offset
	Error  time.Duration // true offset lies within Offset +/- Error; 0 for the reference clock
	How    Placement
	Why    string // the evidence, shown in the report
	// Zoned tells that the source states UTC or a zone; Wall that it states a wall clock at all (zone perhaps unknown).
	Zoned, Wall bool
	Boot        bool // stamps count from the host's boot, as in dmesg; Wall is false
}

// Ref is a row a claim rests on. It prints as smi.log:17 or trace.json: traceEvents[182]; see Timeline.RefString.
type Ref struct {
	Path  string // Source.Path
	Table string // "" for line-oriented files
	Row   uint64
}

// Severity of a problem of the capture.
type Severity uint8

// Capture severities.
const (
	Info Severity = iota
	DataLoss
	Error
)

func (s Severity) String() string { return [...]string{"info", "data-loss", "error"}[s] }

// Problem is a bad row or a bad part of a source, counted and located.
type Problem struct {
	Code     string // format/noun: dmon/short-row
	Severity Severity
	Path     string
	Row      uint64 // first one: line, event number or byte offset, as the message says
	Message  string // what and how to mend, of the first one
	Count    int64
}
