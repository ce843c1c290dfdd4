package facts

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// noAxis is why nothing about gaps, steps and their owners follows from a profiler's sums.
const noAxis = "a summary has no time axis"

const (
	ofKernelTime = " share of the kernel time that a profiler's summary lists, by kernel names; kernels that run at once are added up, and the whole recording counts."
	ofDeviceTime = " share of the time of kernels, copies and fills that a profiler's summaries list; what runs at once is added up."
	ofCallTime   = " share of the host time in CUDA calls that a profiler's summary lists, over all threads."
)

// shortKernel is the mean length under which the kernels of a name count as short.
const shortKernel = 10_000

var (
	sumFlag = &Decl{ID: "run.summary_flag", Unit: unit.Flag, Per: Run, Max: 1, Capture: "C15",
		Doc: "Whether a profiler's sums without a time axis are all that is known of the work: 1 where no trace gives a ledger and such tables are there."}
	sumKernels = &Decl{ID: "run.summary_kernels_s", Unit: unit.Second, Per: Run, Max: 1e9, Capture: "C15",
		Doc: "Kernel time that a profiler's summary lists; kernels that run at once are added up."}
	sumMatmul      = summaryShare("run.summary_matmul_frac", "Matrix products'"+ofKernelTime)
	sumConv        = summaryShare("run.summary_conv_frac", "Convolutions'"+ofKernelTime)
	sumAttention   = summaryShare("run.summary_attention_frac", "Fused attention kernels'"+ofKernelTime)
	sumElementwise = summaryShare("run.summary_elementwise_frac", "Elementwise kernels'"+ofKernelTime)
	sumReduce      = summaryShare("run.summary_reduce_norm_frac", "Reductions' and normalisations'"+ofKernelTime)
	sumOptimizer   = summaryShare("run.summary_optimizer_frac", "Optimizer kernels'"+ofKernelTime)
	sumCopies      = summaryShare("run.summary_copy_kernels_frac", "Copies' inside the GPU and casts'"+ofKernelTime)
	sumComm        = summaryShare("run.summary_comm_frac", "Collectives'"+ofKernelTime)
	sumOther       = summaryShare("run.summary_unclassified_frac", "Kernels' whose name fits no class"+ofKernelTime)
	sumTCUnused    = summaryShare("run.summary_tc_unused_frac", "Matrix products' and convolutions' without tensor cores"+ofKernelTime)
	sumShort       = summaryShare("run.summary_short_frac", "Kernels whose name lasts less than 10 us on average, out of all kernels that a profiler's summary lists, collectives left out.")
	sumShortTime   = summaryShare("run.summary_short_time_frac", "Kernels' whose name lasts less than 10 us on average"+ofKernelTime)
	sumH2D         = summaryShare("run.summary_h2d_frac", "Copies' from host to GPU"+ofDeviceTime)
	sumD2H         = summaryShare("run.summary_d2h_frac", "Copies' from GPU to host"+ofDeviceTime)
	sumPageable    = summaryShare("run.summary_h2d_pageable_frac", "Time of copies from pageable memory out of those from host to GPU that a profiler's summary lists, where their names say the memory.")
	sumH2DRate     = &Decl{ID: "run.summary_h2d_bytes_per_s", Unit: unit.BytePerSecond, Per: Run, Max: 1e15, Capture: "C15",
		Doc: "Bytes over time of all copies from host to GPU that a profiler's summaries list: small copies cost their latency, so it may be far below the link."}
	sumCalls = &Decl{ID: "run.summary_calls_s", Unit: unit.Second, Per: Run, Max: 1e9, Capture: "C15",
		Doc: "Host time in CUDA calls that a profiler's summary lists, over all threads."}
	sumSync   = summaryShare("run.summary_sync_frac", "Waits' for the GPU and blocking copies'"+ofCallTime)
	sumAlloc  = summaryShare("run.summary_alloc_frac", "The driver's allocator's"+ofCallTime)
	sumLaunch = summaryShare("run.summary_launch_frac", "Launches'"+ofCallTime)
)

func summaryShare(id ID, doc string) *Decl {
	return &Decl{ID: id, Unit: unit.Frac, Per: Run, Max: 1, Capture: "C15", Doc: doc}
}

var (
	sumClasses = []*Decl{sumMatmul, sumConv, sumAttention, sumElementwise, sumReduce, sumOptimizer, sumCopies, sumComm, sumOther}
	sumOfCalls = []*Decl{sumSync, sumAlloc, sumLaunch}
	sumAll     = append(append([]*Decl{sumKernels, sumTCUnused, sumShort, sumShortTime, sumH2D, sumD2H, sumPageable, sumH2DRate, sumCalls}, sumClasses...), sumOfCalls...)
)

// Totals: what do a profiler's sums say where no trace was given? Shares of kernel time by the names of kernels, of device time by kind of
// copy, of the host's time in CUDA calls by call. Missing where a trace gives a ledger, which says more, and where the table is not there.
var Totals = &Deriver{
	Name:  "totals",
	Gives: append([]*Decl{sumFlag}, sumAll...),
	Run:   func(p *Pass) { p.totals() },
}

func (p *Pass) totals() {
	run := p.Facts.Of(Run)[0]
	tables := Summaries(p.Input)
	if len(tables) == 0 {
		p.Set(sumFlag, run, Value{Cover: 1, Conf: timeline.Measured})
		why := "no summary of a profiler was given"
		if len(p.Base.Totals) > 0 {
			why = "a trace gives a ledger, which says more than sums"
		}
		p.missAll(run, why, sumAll...)
		return
	}
	p.Set(sumFlag, run, Value{Num: 1, Cover: 1, Conf: timeline.Measured})
	of := map[timeline.TotalsOf]*Summary{}
	for i := range tables {
		of[tables[i].What] = &tables[i]
	}
	kernels := p.totalKernels(run, of[timeline.TotalKernels])
	p.totalCopies(run, kernels, of[timeline.TotalCopyTime], of[timeline.TotalCopySize])
	p.totalCalls(run, of[timeline.TotalCalls])
}

// mostTotal bounds sums: more is nothing that a recording holds.
const mostTotal = 1_000_000_000_000_000_000

func plus(a, b int64) int64 { return min(a+min(b, mostTotal), mostTotal) }

// share sets d to part of whole, by the rows it rests on.
func (p *Pass) share(d *Decl, run int, s *Summary, part, whole int64, rows []int) {
	p.rowsSay(d, run, s, float64(part)/float64(whole), rows)
}

func (p *Pass) rowsSay(d *Decl, run int, s *Summary, num float64, rows []int) {
	v := Value{Num: num, Cover: 1, NRefs: len(rows), Conf: timeline.Inferred}
	for _, i := range rows[:min(len(rows), maxRefs)] {
		v.Refs = append(v.Refs, Ref{Path: s.Path, Row: uint64(s.Rows[i].Row)})
	}
	p.Set(d, run, v)
}

// totalKernels gives the kernel time; -1 where no summary would list it.
func (p *Pass) totalKernels(run int, s *Summary) (total int64) {
	all := append([]*Decl{sumKernels, sumTCUnused, sumShort, sumShortTime}, sumClasses...)
	if s == nil {
		p.missAll(run, "no summary of kernels is among the tables (report cuda_gpu_kern_sum)", all...)
		return -1
	}
	var count, short, shortNS, told, untold, unused int64
	byClass := map[*Decl]int64{}
	rows := map[*Decl][]int{}
	var every []int
	note := func(d *Decl, i int) { rows[d] = append(rows[d], i) }
	for i := range s.Rows {
		r := &s.Rows[i]
		total = plus(total, r.Sum)
		every = append(every, i)
		d := sumClassOf(r.Class)
		byClass[d] = plus(byClass[d], r.Sum)
		note(d, i)
		if r.Class != "comm" && r.Count > 0 {
			count = plus(count, r.Count)
			if r.Sum/r.Count < shortKernel {
				short = plus(short, r.Count)
				shortNS = plus(shortNS, r.Sum)
				note(sumShort, i)
			}
		}
		if r.Class == "matmul" || r.Class == "conv" {
			switch {
			case r.DType == "fp64":
			case r.TensorCore == 0:
				untold = plus(untold, r.Sum)
			default:
				told = plus(told, r.Sum)
				if r.TensorCore < 0 {
					unused = plus(unused, r.Sum)
					note(sumTCUnused, i)
				}
			}
		}
	}
	if total <= 0 {
		p.rowsSay(sumKernels, run, s, 0, every)
		p.missAll(run, "the summary lists no kernel time", all[1:]...)
		return 0
	}
	p.share(sumKernels, run, s, total, 1e9, every)
	for _, d := range sumClasses {
		p.share(d, run, s, byClass[d], total, rows[d])
	}
	if untold > told {
		p.Miss(sumTCUnused, run, fmt.Sprintf("the names of most matrix products and convolutions (%.0f %% of their time) do not tell which units they use", 100*float64(untold)/float64(plus(told, untold))))
	} else {
		p.share(sumTCUnused, run, s, unused, total, rows[sumTCUnused])
	}
	if count == 0 {
		p.missAll(run, "the summary does not say how often its kernels ran", sumShort, sumShortTime)
	} else {
		p.share(sumShort, run, s, short, count, rows[sumShort])
		p.share(sumShortTime, run, s, shortNS, total, rows[sumShort])
	}
	return total
}

func sumClassOf(class string) *Decl {
	switch class {
	case "matmul":
		return sumMatmul
	case "conv":
		return sumConv
	case "attention":
		return sumAttention
	case "elementwise":
		return sumElementwise
	case "reduce", "norm":
		return sumReduce
	case "optimizer":
		return sumOptimizer
	case "copy-cast", "memset":
		return sumCopies
	case "comm":
		return sumComm
	}
	return sumOther
}

func (p *Pass) totalCopies(run int, kernels int64, times, sizes *Summary) {
	all := []*Decl{sumH2D, sumD2H, sumPageable, sumH2DRate}
	if times == nil {
		p.missAll(run, "no summary of copies is among the tables (report cuda_gpu_mem_time_sum)", all...)
		return
	}
	ns := map[string]int64{}
	rows := map[string][]int{}
	var total, pageable, kinds int64
	for i := range times.Rows {
		r := &times.Rows[i]
		total = plus(total, r.Sum)
		ns[r.Class] = plus(ns[r.Class], r.Sum)
		rows[r.Class] = append(rows[r.Class], i)
		if low := strings.ToLower(r.Name); r.Class == "h2d" && (strings.Contains(low, "pageable") || strings.Contains(low, "pinned")) {
			kinds = plus(kinds, r.Sum)
			if strings.Contains(low, "pageable") {
				pageable = plus(pageable, r.Sum)
			}
		}
	}
	if kernels < 0 || plus(kernels, total) == 0 {
		p.missAll(run, "no summary of kernels is among the tables to set the copies against (report cuda_gpu_kern_sum)", sumH2D, sumD2H)
	} else {
		p.share(sumH2D, run, times, ns["h2d"], plus(kernels, total), rows["h2d"])
		p.share(sumD2H, run, times, ns["d2h"], plus(kernels, total), rows["d2h"])
	}
	if kinds > 0 && 2*kinds >= ns["h2d"] {
		p.share(sumPageable, run, times, pageable, kinds, rows["h2d"])
	} else {
		p.Miss(sumPageable, run, "the names of the copies do not say whether their host memory is pageable or pinned")
	}
	var bytes int64
	if sizes != nil {
		for i := range sizes.Rows {
			if sizes.Rows[i].Class == "h2d" {
				bytes = plus(bytes, sizes.Rows[i].Sum)
			}
		}
	}
	switch {
	case ns["h2d"] <= 0:
		p.Miss(sumH2DRate, run, "the summary lists no copy from host to GPU")
	case bytes <= 0:
		p.Miss(sumH2DRate, run, "no summary of the copies' sizes is among the tables (report cuda_gpu_mem_size_sum)")
	default:
		if rate := float64(bytes) / (float64(ns["h2d"]) / 1e9); rate > sumH2DRate.Max {
			p.Miss(sumH2DRate, run, "the summaries of times and sizes do not fit each other")
		} else {
			p.rowsSay(sumH2DRate, run, times, rate, rows["h2d"])
		}
	}
}

func (p *Pass) totalCalls(run int, s *Summary) {
	var total int64
	ns := map[string]int64{}
	rows := map[string][]int{}
	if s != nil {
		for i := range s.Rows {
			r := &s.Rows[i]
			total = plus(total, r.Sum)
			ns[r.Class] = plus(ns[r.Class], r.Sum)
			rows[r.Class] = append(rows[r.Class], i)
			rows[""] = append(rows[""], i)
		}
	}
	if total <= 0 {
		p.missAll(run, "no summary of CUDA calls is among the tables (report cuda_api_sum)", append([]*Decl{sumCalls}, sumOfCalls...)...)
		return
	}
	p.share(sumCalls, run, s, total, 1e9, rows[""])
	p.share(sumSync, run, s, ns[ledger.CallSync], total, rows[ledger.CallSync])
	p.share(sumAlloc, run, s, ns[ledger.CallAlloc], total, rows[ledger.CallAlloc])
	p.share(sumLaunch, run, s, ns[ledger.CallLaunch], total, rows[ledger.CallLaunch])
}

// Summary is one table of sums of the recording that the report speaks of.
type Summary struct {
	What timeline.TotalsOf
	Path string
	Rows []SummaryLine // in the file's order, longest first as nsys writes them
	More int           // tables of the same kind that are not shown: other recordings'
}

// SummaryLine is one name of a summary.
type SummaryLine struct {
	timeline.TotalRow
	Class      string // of kernels their class, of copies h2d, d2h, d2d, p2p, h2h, fill, of calls that of ledger.Tables.Call; else ""
	TensorCore int8   // of matrix products: 1 yes, 0 cannot be told, -1 no
	DType      string
}

// reportInName is what nsys adds to the base of a file's name, in any of its spellings.
var reportInName = regexp.MustCompile(`(?i)(cuda|nvtx|osrt)_[a-z_]*?(sum|trace)|gpukern(gb)?sum|gpumem(time|size)sum|gpusum|cudaapisum|nvtx(pp|kern)?sum|osrtsum`)

// recordingOf is a file's path less the report in its name.
func recordingOf(p string) string {
	name := path.Base(p)
	for _, ext := range []string{".gz", ".zst", ".bz2", ".csv", ".tsv", ".txt", ".log"} {
		name = strings.TrimSuffix(name, ext)
	}
	return path.Dir(p) + "/" + strings.Trim(reportInName.ReplaceAllString(name, ""), "_-.")
}

// Summaries gives the tables of sums, one a kind, of the one recording with most kernel time; of a kind that it lacks, the table that is the
// only one of its kind. Nothing where a trace gives a ledger.
func Summaries(in *Input) []Summary {
	if in.Base == nil || len(in.Base.Totals) == 0 {
		return nil
	}
	for _, g := range in.Job.GPUs {
		if !in.Job.Ranks[g.Rank].GPUs[g.GPU].Window.Empty() {
			return nil
		}
	}
	sum := func(t *timeline.Totals) (n int64) {
		for i := range t.Rows {
			n = plus(n, t.Rows[i].Sum)
		}
		return n
	}
	group := func(t *timeline.Totals) string { return recordingOf(in.Base.Sources[t.Source].Path) }
	totals := in.Base.Totals
	main, most, withKernels := "", int64(-1), map[string]bool{}
	for i := range totals {
		t := &totals[i]
		n := int64(0)
		if t.What == timeline.TotalKernels {
			n = sum(t)
			withKernels[group(t)] = true
		}
		if n > most {
			main, most = group(t), n
		}
	}
	var out []Summary
	for what := timeline.TotalOther; what <= timeline.TotalOSWaits; what++ {
		var own, other []*timeline.Totals
		for i := range totals {
			switch t := &totals[i]; {
			case t.What != what:
			case group(t) == main:
				own = append(own, t)
			default:
				other = append(other, t)
			}
		}
		var best *timeline.Totals
		for _, t := range own { // the same kernels in two files of one recording: by range a part of them
			if best == nil || sum(t) > sum(best) {
				best = t
			}
		}
		if best == nil && len(other) == 1 && !withKernels[group(other[0])] {
			best, other = other[0], nil
		}
		if best != nil {
			out = append(out, in.summary(best, len(other)))
		}
	}
	return out
}

func (in *Input) summary(t *timeline.Totals, more int) Summary {
	s := Summary{What: t.What, Path: in.Base.Sources[t.Source].Path, More: more, Rows: make([]SummaryLine, len(t.Rows))}
	for i, row := range t.Rows {
		l := SummaryLine{TotalRow: row}
		switch t.What {
		case timeline.TotalKernels:
			k := in.Tables.Kernel(bareKernel(row.Name))
			l.Class, l.DType = k.Class.String(), k.DType
			if l.Class == "matmul" || l.Class == "conv" {
				l.TensorCore = k.TensorCore
			}
		case timeline.TotalCopyTime, timeline.TotalCopySize:
			l.Class = copyClass(row.Name)
		case timeline.TotalCalls:
			l.Class = in.Tables.Call(row.Name)
		}
		s.Rows[i] = l
	}
	return s
}

// bareKernel takes off the range that nsys stats puts before a kernel's name when asked to (forward/elementwise_kernel): the range's words are
// none of the kernel's, and no kernel's own name has a slash before its arguments.
func bareKernel(name string) string {
	end := len(name)
	if i := strings.IndexAny(name, "<("); i >= 0 {
		end = i
	}
	if i := strings.LastIndexByte(name[:end], '/'); i >= 0 {
		return name[i+1:]
	}
	return name
}

// copyClass is the direction of "[CUDA memcpy Host-to-Device]" or "[CUDA memcpy HtoD]".
func copyClass(name string) string {
	low := strings.NewReplacer("host", "h", "device", "d", "array", "d", "peer", "p", "-to-", "to", " to ", "to", "atod", "dtod", "dtoa", "dtod", "htoa", "htod", "atoh", "dtoh").Replace(strings.ToLower(name))
	for _, w := range []struct{ in, class string }{{"htod", "h2d"}, {"dtoh", "d2h"}, {"dtod", "d2d"}, {"ptop", "p2p"}, {"htoh", "h2h"}, {"memset", "fill"}} {
		if strings.Contains(low, w.in) {
			return w.class
		}
	}
	return "unknown"
}

// blameSummaries says of what only a trace could have told that a summary cannot: what is missing is in the recording that the sums were
// made of.
func (p *Pass) blameSummaries() {
	if len(p.Job.Ranks) > 0 || len(Summaries(p.Input)) == 0 {
		return
	}
	p.Facts.summaries = true
	for _, vals := range p.Facts.vals {
		for id, e := range vals {
			if e.need != nil && ofTrace(p.Facts.byID[id]) {
				vals[id] = entry{need: &Need{Fact: id, Why: noAxis, Capture: "C15"}}
			}
		}
	}
}

// ofTrace tells whether a trace would have told the fact.
func ofTrace(d *Decl) bool { return d.Capture == "C4" || d.Capture == "C5" }

// NoSubject is why a rule of a kind of subject that the input has none of does not know d.
func (s *Set) NoSubject(d *Decl, kind SubjectKind) Need {
	if s.summaries && ofTrace(d) {
		return Need{Fact: d.ID, Why: noAxis, Capture: "C15"}
	}
	return Need{Fact: d.ID, Why: fmt.Sprintf("no %s is in the input", kind), Capture: d.Capture}
}
