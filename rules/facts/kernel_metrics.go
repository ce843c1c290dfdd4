package facts

import (
	"fmt"
	"sort"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const (
	// countersCover is the part of the analysed window that the readings must cover before they speak for it.
	countersCover = 0.5
	// commAside is the part of a reading's busy time that exposed collectives may take: they use few SMs and move little.
	commAside = 0.1
	// residentFull is the utilisation from which a sample counts as busy throughout.
	residentFull = 0.9
	// tensorNone is the tensor activity below which the pipe was not used, and tensorSlack how far activity may pass what names allow.
	tensorNone, tensorSlack = 0.01, 0.05
	// filledSMs is the share of SMs that counts as a filled GPU.
	filledSMs = 0.8
)

func counterDecl(id ID, doc string) *Decl {
	return &Decl{ID: id, Doc: doc, Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C10"}
}

const (
	overWindow = ", over the GPU's analysed window, else over the log."
	overBusy   = ", over the time in which a kernel ran, readings with exposed collectives left out; without a trace over samples of 90 % utilisation or more."
)

var (
	gpuSMActive         = counterDecl("gpu.sm_active_frac", "Mean share of the SMs with a warp resident"+overWindow)
	gpuTensorActive     = counterDecl("gpu.tensor_active_frac", "Share of cycles in which the tensor pipe was busy"+overWindow)
	gpuDRAMActive       = counterDecl("gpu.dram_active_frac", "Share of cycles in which device memory moved data"+overWindow)
	gpuSMActiveBusy     = counterDecl("gpu.sm_active_busy_frac", "Mean share of the SMs with a warp resident"+overBusy)
	gpuTensorActiveBusy = counterDecl("gpu.tensor_active_busy_frac", "Share of cycles in which the tensor pipe was busy"+overBusy)
	gpuDRAMActiveBusy   = counterDecl("gpu.dram_active_busy_frac", "Share of cycles in which device memory moved data"+overBusy)
	gpuCountersCover    = counterDecl("gpu.counters_cover_frac", "Share of the GPU's analysed window, else of the log's, that readings of SM, tensor or memory activity cover.")
	gpuResident         = &Decl{ID: "gpu.resident_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1",
		Doc: "Share of time with any kernel or copy on the GPU: of its analysed window by the trace, else by the engine's activity, else by sampled utilisation."}
	gpuTensorUsed = &Decl{ID: "gpu.tensor_used_flag", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C10",
		Doc: "Whether measured tensor activity is more than kernel names allow, so that the names mislead; no where it was not measured."}
	gpuFilled = &Decl{ID: "gpu.filled_flag", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C10",
		Doc: "Whether measured activity shows 80 % of the SMs or more in use while kernels ran; no where it was not measured."}
)

// counterMetrics are the activities with the facts they give.
var counterMetrics = []struct {
	metric     timeline.Metric
	what       string
	whole, own *Decl
}{
	{timeline.SMActive, "SM activity", gpuSMActive, gpuSMActiveBusy},
	{timeline.TensorActive, "tensor activity", gpuTensorActive, gpuTensorActiveBusy},
	{timeline.DRAMActive, "memory activity", gpuDRAMActive, gpuDRAMActiveBusy},
}

// Counters: how much of the GPU did its kernels use? Means of the counters that Nsight Systems, DCGM and NVML sample, over the analysed
// window and over computing time: the sum of all readings without exposed collectives over the computing time that the ledger has in
// them, for a counter stands still while nothing runs. Missing: no such readings, or they cover less than half of the window.
var Counters = &Deriver{Name: "counters", After: []*Deriver{LedgerShares, SampledUtil, KernelMix},
	Gives: []*Decl{gpuSMActive, gpuTensorActive, gpuDRAMActive, gpuSMActiveBusy, gpuTensorActiveBusy, gpuDRAMActiveBusy, gpuCountersCover, gpuResident, gpuTensorUsed, gpuFilled},
	Run:   func(p *Pass) { p.eachGPU(p.countersOf) }}

func (p *Pass) countersOf(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced) {
	if l != nil && l.Window.Empty() {
		l = nil
	}
	p.residentOf(sub, c, l)
	cover, why := -1.0, ""
	for _, m := range counterMetrics {
		if l == nil {
			p.loggedCounter(sub, c, m.metric, m.what, m.whole, m.own)
			if s := p.series(c, m.metric); s != nil {
				cover = max(cover, p.cover(s))
			}
			continue
		}
		got, no := p.profiled(c, l, r, m.metric, m.what)
		if no != "" {
			p.missAll(sub, no, m.whole, m.own)
			if m.own == gpuDRAMActiveBusy {
				switch v, less := p.dramMeasured(l); {
				case less == "":
					p.Set(m.own, sub, v)
				case len(p.Base.Counters) > 0:
					p.Miss(m.own, sub, no+"; "+less)
				}
			}
			if why == "" {
				why = no
			}
			cover = max(cover, got.cover)
			continue
		}
		cover = max(cover, got.cover)
		v := Value{Num: got.mean, Cover: got.cover, Conf: got.conf}
		v.Refs, v.NRefs = p.refsAt(got.series, got.rows)
		v.NRefs = got.n
		p.Set(m.whole, sub, v)
		if got.why != "" {
			p.Miss(m.own, sub, got.why)
			continue
		}
		v.Num = got.busy
		p.Set(m.own, sub, v)
	}
	if cover < 0 {
		p.Miss(gpuCountersCover, sub, p.noMetric(c, "SM, tensor or memory activity"))
	} else {
		p.Set(gpuCountersCover, sub, measured(cover))
	}
	p.counterFlags(sub)
}

// counterFlags say where measured activity contradicts what names and launch shapes tell. A rule without readings stays as it is.
func (p *Pass) counterFlags(sub int) {
	flag := func(d *Decl, yes bool, conf Confidence) {
		v := Value{Cover: 1, Conf: conf}
		if yes {
			v.Num = 1
		}
		p.Set(d, sub, v)
	}
	used, conf := false, timeline.Measured
	if t, ok := p.Get(gpuTensorActiveBusy, sub); ok {
		if beside, ok := p.Get(gpuTCUnused, sub); ok {
			// What else may have used the pipe: the other products, attention, and kernels of no known class.
			may := -beside.Num
			for _, d := range []*Decl{gpuMatmul, gpuConv, gpuAttention, gpuOther} {
				v, _ := p.Get(d, sub)
				may += v.Num
			}
			used, conf = t.Num > may+tensorSlack, t.Conf
		}
	}
	flag(gpuTensorUsed, used, conf)
	sm, ok := p.Get(gpuSMActiveBusy, sub)
	if !ok {
		sm.Conf = timeline.Measured
	}
	flag(gpuFilled, ok && sm.Num >= filledSMs, sm.Conf)
}

func (p *Pass) residentOf(sub int, c *Card, l *timeline.GPULedger) {
	if l != nil {
		p.Set(gpuResident, sub, measured(float64(l.Busy)/float64(l.Window.Dur())))
		return
	}
	for _, m := range []timeline.Metric{timeline.GRActive, timeline.SMBusy} {
		if s := p.series(c, m); s != nil {
			p.Set(gpuResident, sub, p.sampled(s, min(1, mean(s.Value))))
			return
		}
	}
	p.Miss(gpuResident, sub, noTrace+", and "+p.noMetric(c, "utilisation"))
}

// loggedCounter speaks of a GPU that no trace drove.
func (p *Pass) loggedCounter(sub int, c *Card, m timeline.Metric, what string, whole, own *Decl) {
	s := p.series(c, m)
	if s == nil {
		p.missAll(sub, p.noMetric(c, what), whole, own)
		return
	}
	p.Set(whole, sub, p.sampled(s, min(1, mean(s.Value))))
	util := p.series(c, timeline.GRActive)
	if util == nil {
		util = p.series(c, timeline.SMBusy)
	}
	if util == nil {
		p.Miss(own, sub, p.noMetric(c, "utilisation"))
		return
	}
	var rows []int
	sum := 0.0
	for i, j := range p.paired(util, s) {
		if j >= 0 && util.Value[i] >= residentFull && (len(rows) == 0 || rows[len(rows)-1] != j) {
			rows = append(rows, j)
			sum += s.Value[j]
		}
	}
	if len(rows) < minLoad {
		p.Miss(own, sub, fmt.Sprintf("only %d readings of %s lie beside a sample of 90 %% utilisation or more: this needs %d", len(rows), what, minLoad))
		return
	}
	v := p.sampled(s, min(1, sum/float64(len(rows))))
	v.Refs, v.NRefs = p.refsAt(s, rows)
	v.Conf = timeline.Inferred // what kernels these were is not known
	p.Set(own, sub, v)
}

// profile is what the readings of one counter say of a traced window.
type profile struct {
	series     *timeline.Series
	mean, busy float64
	cover      float64 // of the window
	why        string  // busy is not known
	rows       []int   // the first ones
	n          int
	conf       Confidence
}

// profiled holds the readings of a counter against the ledger. Of several sources the one that covers most of the window counts, then the
// one with most readings.
func (p *Pass) profiled(c *Card, l *timeline.GPULedger, r *timeline.Reduced, m timeline.Metric, what string) (profile, string) {
	best, seen := profile{cover: -1}, false
	var sums *ledgerSums
	for i := range p.Base.Series {
		s := &p.Base.Series[i]
		if s.Metric.Name != m.Name || !has(c.Devices, p.Base.Tracks[s.Track].Device) {
			continue
		}
		seen = true
		own := p.Base.Sources[p.Base.Tracks[s.Track].Source].Path == r.Path
		if !own && !placed(p.Base, s) {
			continue
		}
		if sums == nil {
			sums = sumLedger(l)
		}
		got := sums.hold(s, own)
		if got.cover > best.cover || got.cover == best.cover && got.n > best.n {
			best = got
		}
	}
	switch {
	case !seen:
		return best, p.noMetric(c, what)
	case best.cover < 0:
		return best, "the readings of " + what + " cannot be placed in time beside the trace"
	case best.cover < countersCover:
		return best, fmt.Sprintf("the readings of %s cover %.0f %% of the analysed window, which is too little to speak for it", what, 100*best.cover)
	}
	return best, ""
}

// ledgerSums has running sums of computing and exposed communication time over a ledger, so that any window of it is cheap.
type ledgerSums struct {
	l             *timeline.GPULedger
	segs          []timeline.Segment
	compute, comm []int64 // before each segment
}

func sumLedger(l *timeline.GPULedger) *ledgerSums {
	s := &ledgerSums{l: l, segs: l.Segments.List(), compute: make([]int64, l.Segments.Len()+1), comm: make([]int64, l.Segments.Len()+1)}
	for i, g := range s.segs {
		s.compute[i+1], s.comm[i+1] = s.compute[i], s.comm[i]
		switch g.Owner {
		case timeline.Compute:
			s.compute[i+1] += g.Dur
		case timeline.CommTransfer, timeline.CommUndivided, timeline.CommPeerWait:
			s.comm[i+1] += g.Dur
		}
	}
	return s
}

// before gives the computing and communication time from the window's start to t.
func (s *ledgerSums) before(t timeline.Time) (compute, comm int64) {
	g := s.segs
	i := sort.Search(len(g), func(i int) bool { return g[i].Start >= t })
	compute, comm = s.compute[i], s.comm[i]
	if i > 0 {
		if over := int64(g[i-1].Start) + g[i-1].Dur - int64(t); over > 0 {
			if s.compute[i] > s.compute[i-1] {
				compute -= over
			}
			if s.comm[i] > s.comm[i-1] {
				comm -= over
			}
		}
	}
	return compute, comm
}

// hold lays readings over the ledger; own tells that both are of one file, so of one clock. A reading counts if half of it, or half of
// the window, lies in the other.
func (s *ledgerSums) hold(sr *timeline.Series, own bool) profile {
	w := s.l.Window
	out := profile{series: sr, conf: timeline.Measured}
	long := max(sr.Metric.Window, time.Nanosecond)
	var covered, weighted, weight, active, ran, mixed float64
	var last timeline.Time
	for i := sort.Search(len(sr.At), func(i int) bool { return sr.At[i] > w.Start }); i < len(sr.At); i++ {
		from, to := max(sr.At[i]-timeline.Time(long), w.Start), min(sr.At[i], w.End)
		if sr.At[i]-timeline.Time(long) >= w.End {
			break
		}
		n := int64(to - from)
		if n <= 0 || 2*n < min(int64(long), int64(w.Dur())) {
			continue
		}
		covered += float64(to - max(from, last))
		last = to
		weighted += sr.Value[i] * float64(n)
		weight += float64(n)
		if len(out.rows) < maxRefs {
			out.rows = append(out.rows, i)
		}
		out.n++
		c0, m0 := s.before(from)
		c1, m1 := s.before(to)
		compute, comm := float64(c1-c0), float64(m1-m0)
		switch {
		case compute <= 0:
		case comm > commAside*(compute+comm):
			mixed++
		default:
			active += sr.Value[i] * float64(n)
			ran += compute + comm
		}
	}
	out.cover = min(1, covered/float64(w.Dur()))
	if weight > 0 {
		out.mean = min(1, weighted/weight)
	}
	switch {
	case ran > 0:
		out.busy = min(1, active/ran)
	case mixed > 0:
		out.why = fmt.Sprintf("every reading, over %s each, also covers exposed collectives", long.Round(time.Microsecond))
	default:
		out.why = "nothing was computed while the readings were taken"
	}
	if !own || out.n < 3 {
		out.conf = timeline.Inferred // about the same time, not the same
	}
	return out
}

// tensorIdle tells whether the tensor pipe of a traced GPU was measured and stood still while it computed.
func (p *Pass) tensorIdle(c *Card, l *timeline.GPULedger, r *timeline.Reduced) bool {
	got, why := p.profiled(c, l, r, timeline.TensorActive, "")
	return why == "" && got.why == "" && got.busy < tensorNone
}
