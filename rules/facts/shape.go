package facts

import (
	"fmt"
	"slices"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// thinDim is the size under which a dimension makes a product a vector's, not a matrix's: alignment is not what bounds it.
const thinDim = 64

var (
	rankMisaligned = &Decl{ID: "rank.matmul_misaligned_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time of matrix products with a dimension whose bytes are no multiple of 16 (of 128 from compute capability 8.0 on), out of the time of those with known shapes."}
	rankMatmulShare = &Decl{ID: "rank.matmul_time_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time of matrix product kernels, out of the analysed window of the rank's GPUs."}
	rankCast = &Decl{ID: "rank.cast_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time of kernels that copy a tensor into another type, out of the busy time of the rank's GPUs."}
	rankChain = &Decl{ID: "rank.elementwise_chain_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time of elementwise kernels that follow each other on equally large data, three or more in a row, out of the busy time of the rank's GPUs."}
	rankChainGain = &Decl{ID: "rank.elementwise_fusable_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "What fusing each such chain into one kernel leaves out: 1 - chains / kernels in chains."}
	rankChainLen = &Decl{ID: "rank.elementwise_chain_count", Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C4",
		Doc: "Kernels of such a chain, mean."}
	gpuSmallGrid = &Decl{ID: "gpu.small_grid_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Kernels with fewer blocks than the part has SMs, out of all kernels of the GPU's analysed window whose grid is known, collectives left out."}
	gpuMemUsed = &Decl{ID: "gpu.mem_used_max_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C2",
		Doc: "Most device memory in use in any sample, out of the device's memory."}
	gpuMemSays = &Decl{ID: "gpu.mem_used_says", Unit: unit.Text, Per: GPU, Capture: "C2",
		Doc: "How many readings gpu.mem_used_max_frac is the most of: a snapshot does not tell the most that a step takes."}
)

// Shapes: do the shapes, types and sizes of the work suit the part? From recorded input shapes, the operators that launched kernels,
// and launch geometry. Missing where shapes, operators or grids were not recorded; memory use needs a sampled log.
var Shapes = &Deriver{
	Name:  "shapes",
	Gives: []*Decl{rankMisaligned, rankMatmulShare, rankCast, rankChain, rankChainGain, rankChainLen, gpuSmallGrid, gpuMemUsed, gpuMemSays},
	Run: func(p *Pass) {
		p.eachRank(p.shapesOf)
		p.eachGPU(p.gridsOf)
	},
}

func (p *Pass) shapesOf(sub int, r *timeline.Reduced) {
	var window, busy int64
	for i := range r.GPUs {
		window += int64(r.GPUs[i].Window.Dur())
		busy += r.GPUs[i].Busy
	}
	if window <= 0 || busy <= 0 {
		p.missAll(sub, "the trace holds no device operation in its window", rankMisaligned, rankMatmulShare, rankCast, rankChain, rankChainGain, rankChainLen)
		return
	}
	p.Set(rankMatmulShare, sub, measured(min(1, float64(r.Rank.MatmulNS)/float64(window))))
	p.misalignedOf(sub, r)
	if r.Rank.CastNS < 0 || !r.Rank.Operators {
		p.Miss(rankCast, sub, "the operators that launched the kernels were not recorded")
	} else {
		p.Set(rankCast, sub, measured(min(1, float64(r.Rank.CastNS)/float64(busy))))
	}
	p.Set(rankChain, sub, measured(min(1, float64(r.Rank.ChainNS)/float64(busy))))
	if r.Rank.ChainKernels <= 0 || r.Rank.Chains <= 0 {
		p.missAll(sub, "no chain of elementwise kernels ran in the window", rankChainGain, rankChainLen)
		return
	}
	p.Set(rankChainGain, sub, measured(max(0, 1-float64(r.Rank.Chains)/float64(r.Rank.ChainKernels))))
	p.Set(rankChainLen, sub, measured(float64(r.Rank.ChainKernels)/float64(r.Rank.Chains)))
}

func (p *Pass) misalignedOf(sub int, r *timeline.Reduced) {
	g := mainGPU(r)
	switch {
	case r.Rank.MatmulNS == 0:
		p.Set(rankMisaligned, sub, measured(0))
		return
	case !r.Rank.Shapes || 2*r.Rank.MatmulShapedNS < r.Rank.MatmulNS:
		p.Miss(rankMisaligned, sub, "the shapes of most matrix products were not recorded")
		return
	}
	if g.Device.Vendor == "amd" {
		p.Miss(rankMisaligned, sub, "what alignment this maker's parts want is not known here")
		return
	}
	cc := capability(g.Device.CC)
	if cc == 0 && p.Tables != nil {
		if m := p.Tables.FindGPU(g.Device.Name, g.Device.Memory, g.Device.SMs, ""); m.GPU != nil {
			cc = capability(m.GPU.CC)
		}
	}
	if cc == 0 {
		p.Miss(rankMisaligned, sub, "the part's compute capability is not known, and with it the alignment it wants")
		return
	}
	grain := 16.0
	if cc >= 80 {
		grain = 128
	}
	var all, off int64
	var rows []uint32
	for i := range r.Rank.Matmuls {
		x := &r.Rank.Matmuls[i]
		elem := timeline.ElemBytes(x.DType)
		if elem == 0 {
			continue
		}
		all += x.Dur
		// Alignment is what tensor cores want; products on plain cores have shape.fp32-matmul.
		if x.TensorCore < 0 || min(x.M, x.N, x.K) < thinDim {
			continue
		}
		step := int64(grain / elem)
		if step > 0 && (x.M%step != 0 || x.N%step != 0 || x.K%step != 0) {
			off += x.Dur
			rows = append(rows, x.Row)
		}
	}
	if all == 0 {
		p.Miss(rankMisaligned, sub, "the types of the matrix products were not recorded")
		return
	}
	refs, n := rowRefs(r, rows)
	p.Set(rankMisaligned, sub, Value{Num: float64(off) / float64(all), Cover: min(1, float64(all)/float64(r.Rank.MatmulNS)),
		Refs: refs, NRefs: n, Conf: timeline.Measured})
}

func (p *Pass) gridsOf(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	if g == nil || g.Window.Empty() {
		p.Miss(gpuSmallGrid, sub, noLedger(g))
	} else {
		var all, small int64
		var rows []uint32
		for i := range g.Kernels {
			k := &g.Kernels[i]
			if k.Class == "comm" || k.Class == "memset" || k.SmallGrid < 0 {
				continue
			}
			all += k.Count
			small += k.SmallGrid
			if 2*k.SmallGrid > k.Count {
				rows = append(rows, k.Rows...)
			}
		}
		if all == 0 {
			p.Miss(gpuSmallGrid, sub, "the trace does not record how many blocks its kernels have, or how many SMs the part has")
		} else {
			refs, n := rowRefs(r, rows)
			p.Set(gpuSmallGrid, sub, Value{Num: float64(small) / float64(all), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
		}
	}
	used := p.series(c, timeline.MemUsed)
	if used == nil {
		p.missAll(sub, p.noMetric(c, "memory use"), gpuMemUsed, gpuMemSays)
		return
	}
	size := 0.0
	if t := p.series(c, timeline.MemTotal); t != nil {
		size = slices.Max(t.Value)
	} else if g != nil {
		size = float64(g.Device.Memory)
	}
	if size <= 0 {
		p.missAll(sub, "no input says how much memory the device has", gpuMemUsed, gpuMemSays)
		return
	}
	at := argMax(used.Value)
	v := p.sampled(used, min(1, used.Value[at]/size))
	v.Refs = []Ref{p.Base.SeriesRef(used, at)}
	says := fmt.Sprintf("of %d readings", len(used.At))
	if len(used.At) < minLoad { // memory is taken and given back within a step
		v.Conf = timeline.Inferred
		says = "of one snapshot, which does not tell the most that a step takes"
	}
	p.Set(gpuMemUsed, sub, v)
	v.Text = says
	p.Set(gpuMemSays, sub, v)
}
