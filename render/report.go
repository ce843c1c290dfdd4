// Package render turns checks, facts, ledger and series into the report as data (report.json) and into sections made of blocks, from which
// the page, the workbook, the Markdown and the terminal summary are drawn. Everything that needs a sum is summed here.
package render

import (
	"encoding/json"
)

// Schema is the contract's name; it rises when a field changes or goes.
const Schema = "gpureport/1"

// Report is report.json. Times are integer nanoseconds; instants count from Window.Start; shares are fractions in [0,1]; what is not known is
// null. Every list is ordered.
type Report struct {
	Schema      string         `json:"schema"`
	Tool        Tool           `json:"tool"`
	Title       string         `json:"title"`
	Inputs      []InputRow     `json:"inputs"`
	Problems    []Problem      `json:"problems"`
	Clocks      []ClockRow     `json:"clocks"`
	Window      Window         `json:"window"`
	Verdict     Verdict        `json:"verdict"`
	GPUs        []GPU          `json:"gpus"`
	Ledger      []LedgerRow    `json:"ledger"`
	Waits       []WaitRow      `json:"waits"`
	StepLogs    []StepLog      `json:"step_logs,omitempty"` // by path, then rank
	Dips        []Dip          `json:"dips"`
	DipsCount   int            `json:"dips_count"` // all that were found; the largest are listed
	Intervals   []Intervals    `json:"intervals"`
	Steps       []Step         `json:"steps"`
	Kernels     []Kernel       `json:"kernels"`
	Collectives []Collective   `json:"collectives"`
	Copies      []Copy         `json:"copies"`
	Series      []Series       `json:"series"`
	Checks      []Check        `json:"checks"`
	CapturePlan []Capture      `json:"capture_plan"`
	StepMarks   []StepMarks    `json:"step_marks"`
	Said        []string       `json:"said"`       // what the user said in place of the files, as flags
	WorldSize   *int           `json:"world_size"` // ranks of the job as the traces state it
	Facts       []FactDoc      `json:"facts"`      // what the numbers of the checks mean, by id
	Machine     []State        `json:"machine"`
	Topology    []Topology     `json:"topology"`
	Events      []MachineEvent `json:"events"`
	Summaries   []Summary      `json:"summaries"`   // sums of a profiler where no trace gives a ledger
	EventsLeft  int64          `json:"events_left"` // events beyond those listed
	OffAxis     []OffAxis      `json:"off_axis,omitempty"`
	Hosts       []RankHost     `json:"hosts"`        // one a clock of the ranks' traces, the reference first; empty where none tells its host
	Groups      []RankGroup    `json:"groups"`       // communicators
	Lateness    Lateness       `json:"lateness"`     // no steps where no collective is shared by all ranks
	WhatIf      []WhatIf       `json:"what_if"`      // the largest fixes alone, pairs of the first three, all
	Chains      []WaitChain    `json:"chains"`       // of the steps in which most was waited, at most six
	SumErrorNS  int64          `json:"sum_error_ns"` // what owners missed their windows by, summed; 0 or a bug
	SlowSteps   *SlowSteps     `json:"slow_steps"`   // of the GPU whose slow steps stand out most; null where none do
}

// Tool names the program that made the report.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// InputRow is one file or archive member.
type InputRow struct {
	Path         string   `json:"path"`
	Format       string   `json:"format"`
	Bytes        int64    `json:"bytes"`
	SHA256       string   `json:"sha256"`
	Rows         int64    `json:"rows"`
	Clock        *string  `json:"clock"` // name in clocks
	Problems     int64    `json:"problems"`
	Used         bool     `json:"used"`
	Covers       *string  `json:"covers"`
	CoverageFrac *float64 `json:"coverage_frac"`
	Holes        []Span   `json:"holes"`
	Note         string   `json:"note"` // why it is not used, or the first characters of an unknown file
}

// Span is a stretch of time from the window's start.
type Span struct {
	StartNS int64 `json:"start_ns"`
	DurNS   int64 `json:"dur_ns"`
}

// Problem is a located, counted fault of an input.
type Problem struct {
	Code     string  `json:"code"`
	Severity string  `json:"severity"`
	Path     string  `json:"path"`
	Row      *uint64 `json:"row"`
	Message  string  `json:"message"`
	Count    int64   `json:"count"`
}

// ClockRow says how a clock was placed. Offset and error are null when it was not.
type ClockRow struct {
	Name     string `json:"name"`
	OffsetNS *int64 `json:"offset_ns"`
	ErrorNS  *int64 `json:"error_ns"`
	How      string `json:"how"`
	Why      string `json:"why"`
}

// Window is all that the inputs cover, cut by --from and --to.
type Window struct {
	Start *string `json:"start"` // RFC 3339, UTC; null when no source knows wall time
	DurNS int64   `json:"dur_ns"`
}

// Verdict is the run's one answer.
type Verdict struct {
	Class           string   `json:"class"`
	Cause           *string  `json:"cause"`
	CulpritRank     *int     `json:"culprit_rank"`
	Sentence        string   `json:"sentence"`
	Lead            string   `json:"lead"` // the second sentence: corrects the wrong reading that the curve invites; may be ""
	Confidence      string   `json:"confidence"`
	RecoverableFrac *float64 `json:"recoverable_frac"`
	Evidence        []string `json:"evidence"`
	Next            *string  `json:"next"` // what would limit after the fix
	Do              []string `json:"do"`   // at most two
	Dont            []string `json:"dont"`
	RecordFor       *int     `json:"record_for"` // the item of do that record belongs to; null: it stands for itself
	Record          *Capture `json:"record"`     // the next command: what would tell most about this verdict; null when nothing is missing
}

// GPU is one device of the report.
type GPU struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Host     *string   `json:"host"`
	Rank     *int      `json:"rank"`
	UUID     *string   `json:"uuid"`
	Index    *int      `json:"index"`
	Match    *string   `json:"match"`    // how its sampled log was found
	Activity *Activity `json:"activity"` // what its kernels used of the card; null where no counters were sampled
	Work     *Work     `json:"work"`     // what its kernels did, by shapes; null where no trace is of it

	// Why much of its window has no owner, and what to record so that it has one; absent where nearly all has.
	UnknownWhy  string `json:"unknown_why,omitempty"`
	UnknownSays string `json:"unknown_says,omitempty"`
}

// LedgerRow is one GPU's ledger; owners sum to WindowNS.
type LedgerRow struct {
	GPU      string           `json:"gpu"`
	Rank     *int             `json:"rank"`
	WindowNS int64            `json:"window_ns"`
	StartNS  int64            `json:"start_ns"`
	Steps    int              `json:"steps"`
	Owners   map[string]int64 `json:"owners"` // every owner, also those with 0
	Side     Side             `json:"side"`
	Order    []string         `json:"order"`
	BusyNS   int64            `json:"busy_ns"`
}

// Side meters never enter a sum.
type Side struct {
	HiddenComm int64 `json:"hidden_comm"`
	HiddenCopy int64 `json:"hidden_copy"`
	HiddenNext int64 `json:"hidden_next"`
}

// StepLog is what a training loop logged of its own steps, thinned as series are.
type StepLog struct {
	Rank  *int      `json:"rank"` // null where the log does not state it
	Path  string    `json:"path"`
	Every int       `json:"every"` // steps that a line stands for
	Lines int       `json:"lines"` // before thinning
	Step  []float64 `json:"step"`  // as the log numbers them, else lines from 0
	DurNS []int64   `json:"dur_ns"`
	AtNS  []int64   `json:"at_ns"` // ends, from window.start; null where the log's clock is not placed beside the rest
	Row   []uint32  `json:"row"`
}

// WaitRow is what peers waited, by the late rank and what held it.
type WaitRow struct {
	CulpritRank *int   `json:"culprit_rank"`
	Owner       string `json:"owner"`
	DurNS       int64  `json:"dur_ns"`
}

// Dip is a drop of the sampled curves with who held it.
type Dip struct {
	ID       string           `json:"id"`
	GPUs     []string         `json:"gpus"`
	StartNS  int64            `json:"start_ns"`
	DurNS    int64            `json:"dur_ns"`
	FromFrac float64          `json:"from_frac"`
	ToFrac   float64          `json:"to_frac"`
	Owners   map[string]int64 `json:"owners"`
	Refs     []string         `json:"refs"`
}

// Intervals is a kept window of one GPU's ledger, interval by interval.
type Intervals struct {
	GPU     string        `json:"gpu"`
	StartNS int64         `json:"start_ns"`
	DurNS   int64         `json:"dur_ns"`
	Why     string        `json:"why"`
	Rows    []IntervalRow `json:"rows"`
}

// IntervalRow is [start_ns, dur_ns, owner].
type IntervalRow struct {
	StartNS, DurNS int64
	Owner          string
}

// MarshalJSON writes the row as an array.
func (r IntervalRow) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]any{r.StartNS, r.DurNS, r.Owner})
}

// UnmarshalJSON is the inverse.
func (r *IntervalRow) UnmarshalJSON(b []byte) error {
	v := [3]any{&r.StartNS, &r.DurNS, &r.Owner}
	return json.Unmarshal(b, &v)
}

// Step is one analysed step of one GPU.
type Step struct {
	GPU     string           `json:"gpu"`
	Rank    *int             `json:"rank"`
	Index   int64            `json:"index"`
	StartNS int64            `json:"start_ns"`
	DurNS   int64            `json:"dur_ns"`
	Owners  map[string]int64 `json:"owners"` // those above 0
}

// StepMarks says how a rank's steps were found.
type StepMarks struct {
	Rank       *int     `json:"rank"`
	Path       string   `json:"path"`
	How        string   `json:"how"`
	Confidence string   `json:"confidence"`
	Steps      int      `json:"steps"`
	Dropped    []string `json:"dropped"`
}

// SlowSteps sets the slowest tenth of a GPU's steps beside those around the median.
type SlowSteps struct {
	GPU    string     `json:"gpu"`
	Steps  int        `json:"steps"` // analysed
	Slow   int        `json:"slow"`  // of them the slowest tenth
	Owners []SlowLine `json:"owners"`
}

// SlowLine is one owner's mean time in a step, ns.
type SlowLine struct {
	Owner    string  `json:"owner"`
	MedianNS float64 `json:"median_ns"`
	SlowNS   float64 `json:"slow_ns"`
}

// Kernel is a row of the kernel table: the 200 longest of a GPU and (others).
type Kernel struct {
	GPU      string  `json:"gpu"`
	Rank     *int    `json:"rank"`
	Name     string  `json:"name"`
	Class    string  `json:"class"`
	Count    int64   `json:"count"`
	DurNS    int64   `json:"dur_ns"`
	MedianNS *int64  `json:"median_ns"`
	Tensor   *bool   `json:"tensor_core"`
	Op       *string `json:"op"`

	// What it did by the recorded shapes of the operators that launched it; null where they do not tell.
	ShapedNS *int64   `json:"shaped_ns"` // of dur_ns: whose work is known; null: no shapes were recorded
	Type     *string  `json:"type"`
	FlopRate *float64 `json:"flop_per_s"`
	ByteRate *float64 `json:"bytes_per_s"`       // inputs and output once
	OfPeak   *float64 `json:"of_peak_frac"`      // of the part's peak for the type, at the clock it ran
	OfMemory *float64 `json:"of_bandwidth_frac"` // of the part's memory bandwidth
}

// Collective is a group of equal collectives of one rank.
type Collective struct {
	Rank       *int     `json:"rank"`
	Group      string   `json:"group"`
	Primitive  string   `json:"primitive"`
	Bytes      *int64   `json:"bytes"`
	Count      int64    `json:"count"`
	DurNS      int64    `json:"dur_ns"`
	TransferNS *int64   `json:"transfer_ns"`
	PeerWaitNS *int64   `json:"peer_wait_ns"`
	ExposedNS  int64    `json:"exposed_ns"`
	BusBW      *float64 `json:"busbw_bytes_per_s"`
	AlgBW      *float64 `json:"algbw_bytes_per_s"`
	Expected   *float64 `json:"expected_bytes_per_s"` // busbw of a healthy one of its size; null not known
	TooSmall   bool     `json:"too_small"`            // its time is latency: it does not judge a link
	Across     *bool    `json:"across_hosts"`         // null not known
	Split      string   `json:"split"`                // measured, inferred or undivided
}

// Copy is all copies of one direction and memory kind of one GPU.
type Copy struct {
	GPU       string   `json:"gpu"`
	Rank      *int     `json:"rank"`
	Kind      string   `json:"kind"`   // h2d, d2h, d2d, p2p, h2h, unknown
	Memory    string   `json:"memory"` // pageable, pinned, device, managed, unknown
	Count     int64    `json:"count"`
	Bytes     int64    `json:"bytes"`
	DurNS     int64    `json:"dur_ns"`
	ExposedNS int64    `json:"exposed_ns"`
	BW        *float64 `json:"bytes_per_s"` // of copies of at least 1 MiB
}

// Series keeps dips and peaks of a sampled quantity in at most 2000 points.
type Series struct {
	Metric   string    `json:"metric"`
	Unit     string    `json:"unit"`
	Subject  string    `json:"subject"`
	Path     string    `json:"path"`
	Covers   string    `json:"covers"`
	WindowNS int64     `json:"window_ns"`
	Clock    string    `json:"clock"`
	AtNS     []int64   `json:"at_ns"`
	Value    []float64 `json:"value"`
}

// Subject of a check.
type Subject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Rank *int   `json:"rank"`
}

// Check is one rule on one subject.
type Check struct {
	ID              string              `json:"id"`
	Stage           string              `json:"stage"`
	Title           string              `json:"title"`
	Outcome         string              `json:"outcome"`
	Severity        *string             `json:"severity"`
	Confidence      *string             `json:"confidence"`
	Subject         Subject             `json:"subject"`
	RecoverableFrac *float64            `json:"recoverable_frac"`
	Says            string              `json:"says"`
	Do              []string            `json:"do"`
	Dont            []string            `json:"dont"`
	Numbers         map[string]*float64 `json:"numbers"`
	Limits          map[string]float64  `json:"limits"`
	LimitSources    map[string]string   `json:"limit_sources"`
	Clauses         []Clause            `json:"clauses"`
	Overlaps        []string            `json:"overlaps"`
	Withheld        []Withheld          `json:"withheld"`
	Refs            []string            `json:"refs"`
	NRefs           int                 `json:"refs_count"`
	Missing         []Missing           `json:"missing"`
	LooksLike       string              `json:"looks_like"`
	Waived          *string             `json:"waived"`
}

// Withheld is advice a gate did not let through.
type Withheld struct {
	Say     string `json:"say"`
	Gate    string `json:"gate"`
	Why     string `json:"why"`
	Capture string `json:"capture"`
}

// Missing is what an unknown is for.
type Missing struct {
	Fact    string `json:"fact"`
	Why     string `json:"why"`
	Capture string `json:"capture"`
}

// Capture is one command of the plan.
type Capture struct {
	Command string   `json:"command"`
	Where   string   `json:"where"`
	Title   string   `json:"title"`
	Note    string   `json:"note"`
	Answers []string `json:"answers"`
}

// Clause is one comparison of a check's condition and how it came out: true, false or unknown.
type Clause struct {
	Text string `json:"text"`
	Is   string `json:"is"`
}

// FactDoc says what a fact is.
type FactDoc struct {
	ID   string `json:"id"`
	Unit string `json:"unit"`
	Doc  string `json:"doc"`
}
