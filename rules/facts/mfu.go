package facts

import (
	"fmt"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

const (
	bandwidthBest = 0.8    // of the table's bandwidth: what kernels reach in practice (DCGM user guide)
	roofMin       = 10_000 // ns: a shorter call's time is its launch's
	mostShaped    = 0.5    // share of the products' time that must have known shapes
)

var (
	gpuMFU = &Decl{ID: "gpu.mfu_frac", Unit: unit.Frac, Per: GPU, Max: 2, Capture: "C4",
		Doc: "Arithmetic of matrix products, convolutions and attention of known shapes, out of what the part's peak for the type of most of it does in the whole analysed window; at least, where shapes are missing. What is computed again in backward counts."}
	gpuFlopRate = &Decl{ID: "gpu.achieved_flop_per_s", Unit: unit.FlopPerSecond, Per: GPU, Max: 1e18, Capture: "C4",
		Doc: "The same arithmetic over the analysed window's length."}
	gpuFlopStep = &Decl{ID: "gpu.step_flop_count", Unit: unit.Count, Per: GPU, Max: 1e21, Capture: "C4",
		Doc: "The same arithmetic of one step, mean, in floating-point operations."}
	gpuFlopShaped = &Decl{ID: "gpu.flop_known_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of the products whose arithmetic is known from shapes, out of the time of all matrix products, convolutions and attention kernels."}
	gpuRoofline = &Decl{ID: "gpu.roofline_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time that operators of known shapes and 10 us and more need at the achievable rate of arithmetic at the clock it ran, or of memory (80 % of the table's) where that is longer, out of the time they took."}
	gpuRoofTime = &Decl{ID: "gpu.roofline_time_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of those operators, out of the summed time of the GPU's kernels but collectives."}
	gpuMemoryBound = &Decl{ID: "gpu.memory_bound_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of those that memory bounds, because moving their data takes longer at these rates than their arithmetic, out of the time of them all."}
	gpuMFUSays = &Decl{ID: "gpu.mfu_says", Unit: unit.Text, Per: GPU, Capture: "C4",
		Doc: "What gpu.mfu_frac is out of: the type, the peak rate, the part and the clock behind it."}
	gpuRoofSays = &Decl{ID: "gpu.roofline_says", Unit: unit.Text, Per: GPU, Capture: "C2",
		Doc: "What gpu.roofline_frac is held against: the achievable share of the peak and where it is from, the clock, the rate of memory."}
)

// MFU: how much of the part's arithmetic does the run use? FLOP of matrix products, convolutions and fused attention from recorded shapes;
// bytes of everything else from the sizes of its inputs, each once, and an output as large as the largest. Missing: shapes of most products
// not recorded, part not in the table, a process with several GPUs.
var MFU = &Deriver{
	Name:  "mfu",
	After: []*Deriver{LedgerShares},
	Gives: []*Decl{gpuMFU, gpuFlopRate, gpuFlopStep, gpuFlopShaped, gpuRoofline, gpuRoofTime, gpuMemoryBound, gpuMFUSays, gpuRoofSays},
	Run:   func(p *Pass) { p.eachGPU(p.mfuOf) },
}

func (p *Pass) mfuOf(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	all := []*Decl{gpuMFU, gpuFlopRate, gpuFlopStep, gpuFlopShaped, gpuRoofline, gpuRoofTime, gpuMemoryBound, gpuMFUSays, gpuRoofSays}
	switch {
	case g == nil || g.Window.Empty():
		p.missAll(sub, noLedger(g), all...)
		return
	case len(r.GPUs) != 1:
		p.missAll(sub, "the process drove several GPUs, and its shapes do not say which", all...)
		return
	case !r.Rank.Shapes:
		p.missAll(sub, "input shapes were not recorded", all...)
		return
	}
	w := &g.Work
	products := r.Rank.MatmulNS + w.ProductT
	known := r.Rank.MatmulShapedNS + w.ShapedT
	if products == 0 {
		p.missAll(sub, "no matrix product, convolution or fused attention ran in the window", gpuMFU, gpuFlopRate, gpuFlopStep, gpuFlopShaped, gpuMFUSays)
	} else {
		p.Set(gpuFlopShaped, sub, measured(min(1, float64(known)/float64(products))))
	}
	m, why := p.part(c, g)
	byType := map[string]float64{}
	flop := 0.0
	var rows []uint32
	for i := range r.Rank.Matmuls {
		x := &r.Rank.Matmuls[i]
		f := x.FLOP() * float64(x.Count)
		flop += f
		byType[matmulType(x, g.Device.Vendor)] += f
		rows = append(rows, x.Row)
	}
	for i := range w.Rows {
		x := &w.Rows[i]
		if x.Kind != "memory" {
			flop += x.FLOP * float64(x.Count)
			byType[workType(x, g.Device.Vendor)] += x.FLOP * float64(x.Count)
			rows = append(rows, x.Row)
		}
	}
	seconds := g.Window.Dur().Seconds()
	switch {
	case products == 0:
	case float64(known) < mostShaped*float64(products) || flop <= 0:
		p.missAll(sub, "the shapes of most matrix products, convolutions and attention kernels were not recorded, or do not tell their arithmetic", gpuMFU, gpuFlopRate, gpuFlopStep, gpuMFUSays)
	default:
		refs, n := rowRefs(r, rows)
		v := Value{Num: flop / seconds, Cover: min(1, float64(known)/float64(products)), Refs: refs, NRefs: n, Conf: timeline.Measured}
		p.Set(gpuFlopRate, sub, v)
		if v.Num = flop / float64(max(1, len(g.Steps))); len(g.Steps) > 0 {
			p.Set(gpuFlopStep, sub, v)
		} else {
			p.Miss(gpuFlopStep, sub, "the window is not cut into steps")
		}
		most := ""
		for _, t := range []string{"fp8", "bf16", "fp16", "tf32", "fp32-matrix", "fp32"} { // an order, so that the answer is one
			if byType[t] > byType[most] || most == "" {
				most = t
			}
		}
		peak := 0.0
		if why == "" {
			peak = m.GPU.Peak(most) * m.SMFrac
		}
		switch {
		case why != "":
			p.missAll(sub, why, gpuMFU, gpuMFUSays)
		case byType[most] == 0 || peak == 0:
			p.missAll(sub, "the GPU table gives no peak for the type of most products, or their type was not recorded", gpuMFU, gpuMFUSays)
		case flop/seconds/peak > wrongTable:
			p.missAll(sub, fmt.Sprintf("products ran at %.0f %% of the %s peak that the table gives for %s, so its row or their type is wrong", 100*flop/seconds/peak, most, m.GPU.ID), gpuMFU, gpuMFUSays)
		default:
			v.Num = flop / seconds / peak
			p.Set(gpuMFU, sub, v)
			p.Set(gpuMFUSays, sub, Value{Text: peakSays(most, peak, m), Cover: 1, Conf: timeline.Measured})
		}
	}
	if why != "" {
		p.missAll(sub, why, gpuRoofline, gpuRoofTime, gpuMemoryBound, gpuRoofSays)
		return
	}
	clock, conf := p.clockRatio(c, m.GPU)
	achievable := m.GPU.Achievable
	if achievable == 0 {
		achievable = matmulBest
	}
	bw := m.GPU.BW * m.BWFrac * bandwidthBest
	var need, took, memory float64
	count := func(peak, flop, bytes float64, calls, dur int64) {
		if calls <= 0 || dur/calls < roofMin || bw <= 0 || flop > 0 && peak <= 0 {
			return
		}
		t := bytes / bw * 1e9
		if arithmetic := flop / (peak * m.SMFrac * achievable * clock) * 1e9; flop > 0 && arithmetic >= t {
			t = arithmetic
		} else {
			memory += float64(dur)
		}
		need += min(t*float64(calls), float64(dur)) // faster than the roof: found in the cache
		took += float64(dur)
	}
	for i := range r.Rank.Matmuls {
		x := &r.Rank.Matmuls[i]
		count(m.GPU.Peak(matmulType(x, m.GPU.Vendor)), x.FLOP(), x.Bytes(), x.Count, x.Dur)
	}
	for i := range w.Rows {
		x := &w.Rows[i]
		count(m.GPU.Peak(workType(x, m.GPU.Vendor)), x.FLOP, x.Bytes, x.Count, x.Dur)
	}
	var kernels int64
	for i := range g.Kernels {
		if k := &g.Kernels[i]; k.Class != "comm" && k.Class != "memset" {
			kernels += k.Dur
		}
	}
	if took == 0 || kernels == 0 {
		p.missAll(sub, "no operator of known shapes took 10 us and more", gpuRoofline, gpuRoofTime, gpuMemoryBound, gpuRoofSays)
		return
	}
	p.Set(gpuRoofline, sub, Value{Num: min(1, need/took), Cover: min(1, took/float64(kernels)), Conf: conf})
	p.Set(gpuRoofTime, sub, measured(min(1, took/float64(kernels))))
	p.Set(gpuMemoryBound, sub, Value{Num: min(1, memory/took), Cover: min(1, took/float64(kernels)), Conf: conf})
	p.Set(gpuRoofSays, sub, Value{Text: roofSays(m, clock, conf), Cover: 1, Conf: conf})
}

// workType is the type whose peak bounds a convolution or attention, as for a matrix product.
func workType(x *timeline.WorkRow, vendor string) string {
	if x.DType == "fp32" && x.TensorCore > 0 {
		return matmulType(&timeline.MatmulRow{DType: x.DType, TensorCore: x.TensorCore}, vendor)
	}
	return x.DType
}

// typeSays names a type as its makers do.
func typeSays(dtype string) string {
	if dtype == "fp32-matrix" {
		return "FP32 on matrix cores"
	}
	return strings.ToUpper(dtype)
}

// peakSays names a peak rate: 19.5 TFLOP/s, the dense FP32 peak of A100-SXM4-40GB at 1410 MHz.
func peakSays(dtype string, peak float64, m ledger.GPUMatch) string {
	s := fmt.Sprintf("%.4g TFLOP/s, the dense %s peak of %s", peak/1e12, typeSays(dtype), m.GPU.ID)
	if m.GPU.BoostHz > 0 {
		s += fmt.Sprintf(" at %.0f MHz", m.GPU.BoostHz/1e6)
	}
	if m.SMFrac < 1 {
		s += fmt.Sprintf(", for %.0f %% of its SMs", 100*m.SMFrac)
	}
	return s
}

// roofSays names what operators are held against.
func roofSays(m ledger.GPUMatch, clock float64, conf Confidence) string {
	share, source := m.GPU.Achievable, "the best that real products reach on this part"
	if share == 0 {
		share, source = matmulBest, "what real products reach where nobody measured this part"
	}
	s := fmt.Sprintf("%.0f %% of peak, %s, ", 100*share, source)
	switch {
	case conf == timeline.Measured:
		s += fmt.Sprintf("at %.0f MHz, its clock under load", clock*m.GPU.BoostHz/1e6)
	case m.GPU.BoostHz > 0:
		s += fmt.Sprintf("at %.0f MHz, the clock behind the peak, as no clock was recorded", m.GPU.BoostHz/1e6)
	default:
		s += "at the clock behind the peak"
	}
	return s + fmt.Sprintf("; %.0f GB/s of memory, %.0f %% of its peak", m.GPU.BW*m.BWFrac*bandwidthBest/1e9, 100*bandwidthBest)
}
