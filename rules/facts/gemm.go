package facts

import (
	"fmt"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

const (
	bigFLOP        = 1e9   // a product that does less is not judged
	bigTime        = 10e-6 // s at the peak rate: a shorter one is ruled by its launch and its last wave
	tileSide       = 128   // a common tile: fewer tiles than SMs leave SMs empty whatever the kernel does
	matmulBest     = 0.75  // of the peak, where nobody measured the part
	wrongTable     = 1.1   // of the peak: above it the assumed peak is wrong
	clockUnderLoad = 0.5   // utilisation from which a clock sample speaks of work
)

var (
	gemmEff = &Decl{ID: "rank.gemm_peak_frac", Unit: unit.Frac, Per: Rank, Max: 2, Capture: "C4",
		Doc: "Rate of the large, compute-bound matrix products, out of the part's peak for their types at the clock it ran."}
	gemmOf = &Decl{ID: "rank.gemm_of_achievable_frac", Unit: unit.Frac, Per: Rank, Max: 3, Capture: "C4",
		Doc: "The same out of the best rate that real matrix products reach on the part: measured where the GPU table says so, else 75 % of peak."}
	gemmJudged = &Decl{ID: "rank.gemm_judged_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time of the matrix products that are large enough to be judged (1 GFLOP, 10 us at peak, a tile for each SM, above the roofline's ridge), out of the time of all matrix products."}
	gemmTime = &Decl{ID: "rank.gemm_judged_time_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "The same out of the analysed window, on the busiest GPU of the rank."}
)

// Gemm: do the large matrix products run near what the part can do? FLOP from recorded shapes over device time, against the peak of
// their type scaled by the sampled clock; small, thin and memory-bound products are left out, because their roof is another. Without
// clock samples the value is inferred: a slow clock looks the same. Missing: shapes not recorded, part not in the table.
var Gemm = &Deriver{
	Name:  "gemm",
	After: []*Deriver{LedgerShares},
	Gives: []*Decl{gemmEff, gemmOf, gemmJudged, gemmTime},
	Run: func(p *Pass) {
		cards := Cards(p.Input)
		p.eachRank(func(sub int, r *timeline.Reduced) { p.gemmOf(sub, r, cardOf(p, cards, r)) })
	},
}

// cardOf gives the card of a rank's busiest GPU; nil if it drove none.
func cardOf(p *Pass, cards []Card, r *timeline.Reduced) *Card {
	g := mainGPU(r)
	for i := range cards {
		if cards[i].Trace < 0 || g == nil {
			continue
		}
		ref := p.Job.GPUs[cards[i].Trace]
		if x := p.Job.Ranks[ref.Rank]; x == r && &x.GPUs[ref.GPU] == g {
			return &cards[i]
		}
	}
	return nil
}

// matmulType is the type whose peak bounds a product: an fp32 product on NVIDIA's tensor cores is TF32, AMD's matrix cores multiply FP32
// as it is. "" cannot be told.
func matmulType(m *timeline.MatmulRow, vendor string) string {
	switch {
	case m.DType == "fp32" && m.TensorCore > 0 && vendor == "amd":
		return "fp32-matrix"
	case m.DType == "fp32" && m.TensorCore > 0:
		return "tf32"
	case m.DType == "fp32" && m.TensorCore < 0, m.DType == "tf32" && m.TensorCore >= 0:
		return m.DType
	case m.DType != "fp32" && m.DType != "tf32" && m.TensorCore >= 0:
		return m.DType
	}
	return ""
}

func (p *Pass) gemmOf(sub int, r *timeline.Reduced, c *Card) {
	all := []*Decl{gemmEff, gemmOf, gemmJudged, gemmTime}
	g := mainGPU(r)
	if g == nil || g.Window.Empty() || c == nil {
		p.missAll(sub, "the trace holds no device operation in its window", all...)
		return
	}
	if r.Rank.MatmulNS == 0 {
		p.missAll(sub, "no matrix product ran in the window", gemmEff, gemmOf)
		p.Set(gemmJudged, sub, measured(0))
		p.Set(gemmTime, sub, measured(0))
		return
	}
	if !r.Rank.Shapes || 2*r.Rank.MatmulShapedNS < r.Rank.MatmulNS {
		p.missAll(sub, "the shapes of most matrix products were not recorded", all...)
		return
	}
	m, why := p.part(c, g)
	if why != "" {
		p.missAll(sub, why, all...)
		return
	}
	var flop, bound, best float64 // FLOP; FLOP that fit into their time at peak, and at the achievable rate
	var ns int64
	clock, conf := p.clockRatio(c, m.GPU)
	achievable := m.GPU.Achievable
	if achievable == 0 {
		achievable = matmulBest
	}
	var rows []uint32
	for i := range r.Rank.Matmuls {
		x := &r.Rank.Matmuls[i]
		peak, ok := judgeable(x, m)
		if !ok || x.Dur <= 0 {
			continue
		}
		s := float64(x.Dur) / 1e9
		flop += x.FLOP() * float64(x.Count)
		bound += peak * clock * s
		best += peak * clock * achievable * s
		ns += x.Dur
		rows = append(rows, x.Row)
	}
	refs, n := rowRefs(r, rows)
	cover := float64(r.Rank.MatmulShapedNS) / float64(r.Rank.MatmulNS)
	p.Set(gemmJudged, sub, Value{Num: min(1, float64(ns)/float64(r.Rank.MatmulNS)), Cover: min(1, cover), Refs: refs, NRefs: n, Conf: timeline.Measured})
	p.Set(gemmTime, sub, Value{Num: min(1, float64(ns)/float64(g.Window.Dur()), float64(g.Owners[timeline.Compute])/float64(g.Window.Dur())),
		Cover: min(1, cover), Refs: refs, NRefs: n, Conf: timeline.Measured})
	switch {
	case ns == 0:
		p.missAll(sub, "every matrix product of known shape is too small or too thin to be held against the part's peak", gemmEff, gemmOf)
	case flop/bound > wrongTable:
		p.missAll(sub, fmt.Sprintf("matrix products ran at %.0f %% of the peak that the table gives for %s, so its row or their type is wrong",
			100*flop/bound, m.GPU.ID), gemmEff, gemmOf)
	default:
		p.Set(gemmEff, sub, Value{Num: flop / bound, Cover: min(1, cover), Refs: refs, NRefs: n, Conf: conf})
		p.Set(gemmOf, sub, Value{Num: flop / best, Cover: min(1, cover), Refs: refs, NRefs: n, Conf: conf})
	}
}

// judgeable gives the peak rate that bounds a product; ok is false for one that the peak does not bound.
func judgeable(x *timeline.MatmulRow, m ledger.GPUMatch) (peak float64, ok bool) {
	dtype := matmulType(x, m.GPU.Vendor)
	if dtype == "" {
		return 0, false
	}
	peak = m.GPU.Peak(dtype) * m.SMFrac
	elem := timeline.ElemBytes(dtype)
	if peak == 0 || elem == 0 {
		return 0, false
	}
	flop, bytes := x.FLOP(), elem*x.Elements()
	tiles := float64((x.M+tileSide-1)/tileSide) * float64((x.N+tileSide-1)/tileSide) * float64(max(1, x.Batch))
	switch {
	case flop < bigFLOP, flop/peak < bigTime, tiles < float64(m.GPU.SMs)*m.SMFrac:
		return 0, false
	case flop/bytes < peak/(m.GPU.BW*m.BWFrac):
		return 0, false // bound by memory
	}
	return peak, true
}

// clockRatio is the SM clock under load over the clock behind the table's peaks: the mean of the readings inside the traced window where at
// least three are, else the median of all; 1 and Inferred where it was not sampled.
func (p *Pass) clockRatio(c *Card, gpu *ledger.GPU) (float64, Confidence) {
	clock := p.series(c, timeline.ClockSM)
	if clock == nil || gpu.BoostHz == 0 {
		return 1, timeline.Inferred
	}
	var traced timeline.Interval
	if c.Trace >= 0 && placed(p.Base, clock) {
		ref := p.Job.GPUs[c.Trace]
		traced = p.Job.Ranks[ref.Rank].GPUs[ref.GPU].Window
	}
	var use, inside []float64
	note := func(j int) {
		use = append(use, clock.Value[j])
		if clock.At[j] >= traced.Start && clock.At[j] <= traced.End && !traced.Empty() {
			inside = append(inside, clock.Value[j])
		}
	}
	if util := p.series(c, timeline.SMBusy); util != nil {
		for i, j := range p.paired(util, clock) {
			if j >= 0 && util.Value[i] >= clockUnderLoad {
				note(j)
			}
		}
	} else {
		for j := range clock.Value {
			note(j)
		}
	}
	switch {
	case len(use) == 0:
		return 1, timeline.Inferred
	case len(inside) >= minLoad:
		return mean(inside) / gpu.BoostHz, timeline.Measured
	}
	return median(use) / gpu.BoostHz, timeline.Measured
}
