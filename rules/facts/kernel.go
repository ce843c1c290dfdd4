package facts

import (
	"fmt"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const classShare = " of the GPU's busy time in its analysed window; of kernels that run at once one counts, and none inside validation or a checkpoint."

var (
	gpuKernels = &Decl{ID: "gpu.kernels_count", Unit: unit.Count, Per: GPU, Max: 1e12, Capture: "C4",
		Doc: "Kernels that ran in the GPU's analysed window, collectives left out."}
	gpuMatmul      = kernelShare("gpu.matmul_frac", "Matrix products'")
	gpuConv        = kernelShare("gpu.conv_frac", "Convolutions'")
	gpuAttention   = kernelShare("gpu.attention_frac", "Fused attention kernels'")
	gpuElementwise = kernelShare("gpu.elementwise_frac", "Elementwise kernels'")
	gpuReduce      = kernelShare("gpu.reduce_norm_frac", "Reductions' and normalisations'")
	gpuOptimizer   = kernelShare("gpu.optimizer_kernels_frac", "Optimizer kernels'")
	gpuCopies      = kernelShare("gpu.copy_kernels_frac", "Copies' inside the GPU, casts' and fills'")
	gpuOther       = kernelShare("gpu.unclassified_frac", "Kernels' whose name fits no class")
	gpuTCUnused    = &Decl{ID: "gpu.tensor_core_unused_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share, by kernel names, of matrix products and convolutions that ran without the tensor cores the part has," + classShare}
	gpuTCUnusedFP32 = &Decl{ID: "gpu.fp32_matmul_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of FP32 matrix products and convolutions without tensor cores on a part that could run them in TF32," + classShare}
	gpuTF32Ratio = &Decl{ID: "gpu.fp32_of_tf32_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "The part's FP32 peak out of its peak on tensor cores for the same data: TF32 where it has it, else half precision."}
	gpuTiny = &Decl{ID: "gpu.tiny_kernels_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Kernels shorter than 10 us, out of all kernels of the GPU's analysed window, collectives left out."}
	gpuTinyCost = &Decl{ID: "gpu.tiny_cost_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in kernels shorter than 10 us and in gaps in which its host was launching."}
	gpuSaveKernels = &Decl{ID: "gpu.save_kernels_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Step time that cheaper kernels could return at most: computing time; on a GPU that waits for its host no more than the host's own work leaves."}
	rankOptimizer = &Decl{ID: "rank.optimizer_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time of device operations launched inside Optimizer.step and of the gaps between them, out of the analysed window of the rank's GPUs."}
)

func kernelShare(id ID, of string) *Decl {
	return &Decl{ID: id, Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4", Doc: of + " share" + classShare}
}

// KernelMix: what does the GPU do while it computes, and does it use the units it has? Classes as the ledger split its compute time;
// within matrix products and convolutions by kernel name, each kernel with its part of the summed time. Missing: no trace; for tensor
// cores, where names of most products do not tell, or the part is not known.
var KernelMix = &Deriver{
	Name:  "kernel-mix",
	After: []*Deriver{LedgerShares, IdleSavings},
	Gives: []*Decl{gpuKernels, gpuSaveKernels, gpuMatmul, gpuConv, gpuAttention, gpuElementwise, gpuReduce, gpuOptimizer, gpuCopies, gpuOther,
		gpuTCUnused, gpuTCUnusedFP32, gpuTF32Ratio, gpuTiny, gpuTinyCost, rankOptimizer},
	Run: func(p *Pass) {
		p.eachGPU(p.kernelsOf)
		p.eachRank(p.optimizerOf)
	},
}

// classSubs are the ledger's sub-owners of compute behind each class share.
var classSubs = []struct {
	decl *Decl
	subs []timeline.Sub
}{
	{gpuMatmul, []timeline.Sub{timeline.SubMatmul}},
	{gpuConv, []timeline.Sub{timeline.SubConv}},
	{gpuAttention, []timeline.Sub{timeline.SubAttention}},
	{gpuElementwise, []timeline.Sub{timeline.SubElementwise}},
	{gpuReduce, []timeline.Sub{timeline.SubReduce, timeline.SubNorm}},
	{gpuOptimizer, []timeline.Sub{timeline.SubOptimizer}},
	{gpuCopies, []timeline.Sub{timeline.SubCopyCast, timeline.SubMemset}},
	{gpuOther, []timeline.Sub{timeline.SubOther, timeline.SubNone}},
}

// classOf gives the share that a kernel class counts for.
func classOf(class string) *Decl {
	switch class {
	case "matmul":
		return gpuMatmul
	case "conv":
		return gpuConv
	case "attention":
		return gpuAttention
	case "elementwise":
		return gpuElementwise
	case "reduce", "norm":
		return gpuReduce
	case "optimizer":
		return gpuOptimizer
	case "copy-cast", "memset":
		return gpuCopies
	}
	return gpuOther
}

func (p *Pass) kernelsOf(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	shares := []*Decl{gpuMatmul, gpuConv, gpuAttention, gpuElementwise, gpuReduce, gpuOptimizer, gpuCopies, gpuOther}
	if g == nil || g.Window.Empty() {
		p.missAll(sub, noLedger(g), shares...)
		p.missAll(sub, noLedger(g), gpuKernels, gpuSaveKernels, gpuTCUnused, gpuTCUnusedFP32, gpuTF32Ratio, gpuTiny, gpuTinyCost)
		return
	}
	rows := map[*Decl][]uint32{}
	var count, short, total, shortNS int64
	for i := range g.Kernels {
		k := &g.Kernels[i]
		if k.Class == "comm" || k.Class == "memset" {
			continue
		}
		rows[classOf(k.Class)] = append(rows[classOf(k.Class)], k.Rows...)
		count += k.Count
		short += k.Short
		total += k.Dur
		shortNS += k.ShortDur
	}
	for _, cp := range g.Copies {
		if cp.Kind == timeline.DirD2D {
			rows[gpuCopies] = append(rows[gpuCopies], cp.Rows...)
		}
	}
	if g.Busy <= 0 {
		p.missAll(sub, "the GPU did nothing in its window", shares...)
	} else {
		for _, c := range classSubs {
			ns := int64(0)
			for _, x := range c.subs {
				ns += subNS(g, timeline.Compute, x)
			}
			refs, n := rowRefs(r, rows[c.decl])
			p.Set(c.decl, sub, Value{Num: float64(ns) / float64(g.Busy), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
		}
	}
	p.Set(gpuKernels, sub, measured(float64(count)))
	w := float64(g.Window.Dur())
	if count == 0 {
		p.missAll(sub, "no kernel but collectives ran in the window", gpuTiny, gpuTinyCost)
	} else {
		p.Set(gpuTiny, sub, measured(float64(short)/float64(count)))
		cost := float64(g.Owners[timeline.HostLaunch])
		if total > 0 {
			cost += float64(g.Owners[timeline.Compute]) * float64(shortNS) / float64(total)
		}
		p.Set(gpuTinyCost, sub, measured(min(1, cost/w)))
	}
	p.saveKernels(sub, g)
	p.tensorCoresOf(sub, c, g, r)
}

// hostBoundFrom is the share of idle time due to the host from which a shorter kernel only makes the next gap longer. Below it the host
// runs ahead, and its time may be waiting in a launch call for room in the queue.
const hostBoundFrom = 0.03

func (p *Pass) saveKernels(sub int, g *timeline.GPULedger) {
	v := measured(float64(g.Owners[timeline.Compute]) / float64(g.Window.Dur()))
	bound, ok := p.Get(gpuHostBound, sub)
	host, hostOK := p.Get(rankHostBusy, sub)
	if ok && hostOK && bound.Num >= hostBoundFrom && 1-host.Num < v.Num {
		v.Num, v.Conf = max(0, 1-host.Num), host.Conf
	}
	p.Set(gpuSaveKernels, sub, v)
}

// capability reads "8.0" as 80; 0 unknown.
func capability(cc string) int {
	major, minor, _ := strings.Cut(cc, ".")
	a, err := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	if err != nil {
		return 0
	}
	return 10*a + b
}

func (p *Pass) tensorCoresOf(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	m, why := p.part(c, g)
	fp32, best := 0.0, 0.0
	if why == "" {
		fp32, best = m.GPU.FP32, max(m.GPU.TF32, 0)
		if best == 0 {
			best = m.GPU.Half
		}
	}
	if why != "" {
		p.Miss(gpuTF32Ratio, sub, why)
	} else if fp32 == 0 || best == 0 {
		p.Miss(gpuTF32Ratio, sub, "the GPU table gives no peak for "+m.GPU.ID)
	} else {
		p.Set(gpuTF32Ratio, sub, measured(min(1, fp32/best)))
	}

	cc := capability(g.Device.CC)
	if cc == 0 && why == "" {
		cc = capability(m.GPU.CC)
	}
	amd := g.Device.Vendor == "amd" || why == "" && m.GPU.Vendor == "amd"
	switch {
	case amd && why != "":
		p.missAll(sub, "whether this part has matrix cores is not known: "+why, gpuTCUnused, gpuTCUnusedFP32)
		return
	case amd: // every part of this maker in the table has matrix cores, and they do FP32 too
		cc = 70
	}
	switch {
	case cc == 0:
		p.missAll(sub, "which units this part has is not known: "+why, gpuTCUnused, gpuTCUnusedFP32)
		return
	case g.Busy <= 0:
		p.missAll(sub, "the GPU did nothing in its window", gpuTCUnused, gpuTCUnusedFP32)
		return
	}
	var unused, unused32, told, untold int64
	var rows, rows32 []uint32
	for i := range g.Kernels {
		k := &g.Kernels[i]
		if k.Class != "matmul" && k.Class != "conv" || k.DType == "fp64" {
			continue
		}
		if k.TensorCore == 0 {
			untold += k.Dur
			continue
		}
		told += k.Dur
		if k.TensorCore < 0 {
			unused += k.Dur
			rows = append(rows, k.Rows...)
			if k.DType == "fp32" || k.DType == "" {
				unused32 += k.Dur
				rows32 = append(rows32, k.Rows...)
			}
		}
	}
	if untold > told && p.tensorIdle(c, g, r) { // names do not tell, the counter does
		for i := range g.Kernels {
			if k := &g.Kernels[i]; (k.Class == "matmul" || k.Class == "conv") && k.DType != "fp64" && k.TensorCore == 0 {
				unused += k.Dur
				rows = append(rows, k.Rows...)
			}
		}
		told, untold = told+untold, 0
	}
	if untold > told {
		p.missAll(sub, fmt.Sprintf("the names of most matrix products and convolutions (%.0f %% of their time) do not tell which units they use",
			100*float64(untold)/float64(told+untold)), gpuTCUnused, gpuTCUnusedFP32)
		return
	}
	cover := 1.0
	if told > 0 {
		cover = float64(told) / float64(told+untold)
	}
	if cc < 70 {
		unused, rows = 0, nil // the part has none
	}
	if cc < 80 {
		unused32, rows32 = 0, nil // no TF32
	}
	// The products' share of the ledger, and of it the part of those kernels.
	ofBusy := func(ns int64) float64 {
		if told == 0 {
			return 0
		}
		products := subNS(g, timeline.Compute, timeline.SubMatmul) + subNS(g, timeline.Compute, timeline.SubConv)
		return float64(products) / float64(g.Busy) * float64(ns) / float64(told+untold)
	}
	refs, n := rowRefs(r, rows)
	p.Set(gpuTCUnused, sub, Value{Num: ofBusy(unused), Cover: cover, Refs: refs, NRefs: n, Conf: timeline.Measured})
	refs, n = rowRefs(r, rows32)
	p.Set(gpuTCUnusedFP32, sub, Value{Num: ofBusy(unused32), Cover: cover, Refs: refs, NRefs: n, Conf: timeline.Measured})
}

func (p *Pass) optimizerOf(sub int, r *timeline.Reduced) {
	w := int64(0)
	for i := range r.GPUs {
		w += int64(r.GPUs[i].Window.Dur())
	}
	switch {
	case w <= 0:
		p.Miss(rankOptimizer, sub, "the trace holds no device operation in its window")
	case r.Rank.OptimizerNS < 0:
		p.Miss(rankOptimizer, sub, "the trace has no Optimizer.step range: the host's operators were not recorded, or the optimizer is not PyTorch's")
	default:
		refs, n := rowRefs(r, r.Rank.OptimizerRows)
		p.Set(rankOptimizer, sub, Value{Num: min(1, float64(r.Rank.OptimizerNS)/float64(w)), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
	}
}
