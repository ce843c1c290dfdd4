package facts

import (
	"fmt"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
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
)

// MFU: how much of the part's arithmetic does the run use? FLOP of matrix products, convolutions and fused attention from recorded shapes;
// bytes of everything else from the sizes of its inputs, each once, and an output as large as the largest. Missing: shapes of most products
// not recorded, part not in the table, a process with several GPUs.
var MFU = &Deriver{
	Name:  "mfu",
	After: []*Deriver{LedgerShares},
	Gives: []*Decl{gpuMFU, gpuFlopRate, gpuFlopStep, gpuFlopShaped, gpuRoofline, gpuRoofTime},
	Run:   func(p *Pass) { p.eachGPU(p.mfuOf) },
}

func (p *Pass) mfuOf(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	all := []*Decl{gpuMFU, gpuFlopRate, gpuFlopStep, gpuFlopShaped, gpuRoofline, gpuRoofTime}
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
		p.missAll(sub, "no matrix product, convolution or fused attention ran in the window", gpuMFU, gpuFlopRate, gpuFlopStep, gpuFlopShaped)
	} else {
		p.Set(gpuFlopShaped, sub, measured(min(1, float64(known)/float64(products))))
	}
	m, why := p.part(c, g)
	byType := map[string]float64{}
	flop := 0.0
	var rows []uint32
	for i := range r.Rank.Matmuls {
		x := &r.Rank.Matmuls[i]
		f := matmulFLOP(x) * float64(x.Count)
		flop += f
		byType[matmulType(x)] += f
		rows = append(rows, x.Row)
	}
	for i := range w.Rows {
		x := &w.Rows[i]
		if x.Kind != "memory" {
			flop += x.FLOP * float64(x.Count)
			byType[workType(x)] += x.FLOP * float64(x.Count)
			rows = append(rows, x.Row)
		}
	}
	seconds := g.Window.Dur().Seconds()
	switch {
	case products == 0:
	case float64(known) < mostShaped*float64(products) || flop <= 0:
		p.missAll(sub, "the shapes of most matrix products, convolutions and attention kernels were not recorded, or do not tell their arithmetic", gpuMFU, gpuFlopRate, gpuFlopStep)
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
		for _, t := range []string{"fp8", "bf16", "fp16", "tf32", "fp32"} { // an order, so that the answer is one
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
			p.Miss(gpuMFU, sub, why)
		case byType[most] == 0 || peak == 0:
			p.Miss(gpuMFU, sub, "the GPU table gives no peak for the type of most products, or their type was not recorded")
		case flop/seconds/peak > wrongTable:
			p.Miss(gpuMFU, sub, fmt.Sprintf("products ran at %.0f %% of the %s peak that the table gives for %s, so its row or their type is wrong", 100*flop/seconds/peak, most, m.GPU.ID))
		default:
			v.Num = flop / seconds / peak
			p.Set(gpuMFU, sub, v)
		}
	}
	if why != "" {
		p.missAll(sub, why, gpuRoofline, gpuRoofTime)
		return
	}
	clock, conf := p.clockRatio(c, m.GPU)
	achievable := m.GPU.Achievable
	if achievable == 0 {
		achievable = matmulBest
	}
	bw := m.GPU.BW * m.BWFrac * bandwidthBest
	var need, took float64
	count := func(peak, flop, bytes float64, calls, dur int64) {
		if calls <= 0 || dur/calls < roofMin || bw <= 0 || flop > 0 && peak <= 0 {
			return
		}
		t := bytes / bw * 1e9
		if flop > 0 {
			t = max(t, flop/(peak*m.SMFrac*achievable*clock)*1e9)
		}
		need += min(t*float64(calls), float64(dur)) // faster than the roof: found in the cache
		took += float64(dur)
	}
	for i := range r.Rank.Matmuls {
		x := &r.Rank.Matmuls[i]
		e := elemBytes(x.DType)
		count(m.GPU.Peak(matmulType(x)), matmulFLOP(x), e*float64(max(1, x.Batch))*(float64(x.M)*float64(x.K)+float64(x.K)*float64(x.N)+float64(x.M)*float64(x.N)), x.Count, x.Dur)
	}
	for i := range w.Rows {
		x := &w.Rows[i]
		count(m.GPU.Peak(workType(x)), x.FLOP, x.Bytes, x.Count, x.Dur)
	}
	var kernels int64
	for i := range g.Kernels {
		if k := &g.Kernels[i]; k.Class != "comm" && k.Class != "memset" {
			kernels += k.Dur
		}
	}
	if took == 0 || kernels == 0 {
		p.missAll(sub, "no operator of known shapes took 10 us and more", gpuRoofline, gpuRoofTime)
		return
	}
	p.Set(gpuRoofline, sub, Value{Num: min(1, need/took), Cover: min(1, took/float64(kernels)), Conf: conf})
	p.Set(gpuRoofTime, sub, measured(min(1, took/float64(kernels))))
}

// workType is the type whose peak bounds a convolution or attention: fp32 on tensor cores is TF32.
func workType(x *timeline.WorkRow) string {
	if x.DType == "fp32" && x.TensorCore > 0 {
		return "tf32"
	}
	return x.DType
}
