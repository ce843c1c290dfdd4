package facts

import (
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

const tensorLeft = " What stays is what the part's peak there and its memory need for the recorded shapes, at the best rate that real products reach; " +
	"without shapes, as near to that peak as the products come to FP32's now. Other kernels gain nothing."

var (
	gpuSaveTensor = &Decl{ID: "gpu.save_tensor_cores_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the analysed window that matrix products and convolutions beside the tensor cores would return at most if they ran on them." + tensorLeft}
	gpuSaveTF32 = &Decl{ID: "gpu.save_tf32_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the analysed window that FP32 matrix products and convolutions beside the tensor cores would return at most in TF32." + tensorLeft}
)

// TensorSaving: what would the products that run beside the tensor cores return on them? Their share of the window, less the share that they
// still take there: by FLOP and bytes of the recorded shapes, each product held by the slower of the two; of the rest by the peaks alone.
// Missing where the share is, or the part has no peaks in the table.
var TensorSaving = &Deriver{
	Name:  "tensor-saving",
	After: []*Deriver{KernelMix},
	Gives: []*Decl{gpuSaveTensor, gpuSaveTF32},
	Run: func(p *Pass) {
		p.eachGPU(func(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
			p.tensorSaving(gpuSaveTensor, gpuTCUnused, false, sub, c, g, r)
			p.tensorSaving(gpuSaveTF32, gpuTCUnusedFP32, true, sub, c, g, r)
		})
	},
}

func (p *Pass) tensorSaving(d, of *Decl, only32 bool, sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	v, ok := p.Get(of, sub)
	ratio, known := p.Get(gpuTF32Ratio, sub)
	switch {
	case !ok:
		p.Miss(d, sub, p.why(of, sub))
		return
	case !known:
		p.Miss(d, sub, p.why(gpuTF32Ratio, sub))
		return
	}
	m, _ := p.part(c, g) // known, as the peaks are
	clock, _ := p.clockRatio(c, m.GPU)
	left, shaped := tensorLeftOf(r, m, clock, only32)
	v.Num *= float64(g.Busy) / float64(g.Window.Dur()) * max(0, 1-shaped*left-(1-shaped)*ratio.Num)
	p.Set(d, sub, v)
}

// why is the reason for which a fact is missing.
func (p *Pass) why(d *Decl, sub int) string {
	if _, need := p.Facts.Get(sub, d.ID); need != nil {
		return need.Why
	}
	return noTrace
}

// tensorLeftOf gives the share of their time that a rank's products of known shape beside the tensor cores would still take on them, and the share that
// those are of all such products' time.
func tensorLeftOf(r *timeline.Reduced, m ledger.GPUMatch, clock float64, only32 bool) (left, shaped float64) {
	achievable := m.GPU.Achievable
	if achievable == 0 {
		achievable = matmulBest
	}
	// A product of FP32 becomes TF32, and half precision where the part has none.
	peak := func(dtype string) (rate, size float64) {
		switch {
		case dtype != "fp32":
			return m.GPU.Peak(dtype), timeline.ElemBytes(dtype)
		case m.GPU.TF32 > 0:
			return m.GPU.TF32, timeline.ElemBytes("tf32")
		}
		return m.GPU.Half, timeline.ElemBytes("fp16")
	}
	var took, would float64
	for i := range r.Rank.Matmuls {
		x := &r.Rank.Matmuls[i]
		rate, size := peak(x.DType)
		if x.TensorCore >= 0 || x.Dur <= 0 || rate == 0 || size == 0 || only32 && x.DType != "fp32" {
			continue
		}
		s := float64(x.Count) * max(x.FLOP()/(rate*m.SMFrac*achievable*clock), size*x.Elements()/(m.GPU.BW*m.BWFrac))
		took += float64(x.Dur)
		would += min(float64(x.Dur), 1e9*s)
	}
	var all float64
	for i := range r.GPUs {
		for j := range r.GPUs[i].Kernels {
			k := &r.GPUs[i].Kernels[j]
			if (k.Class == "matmul" || k.Class == "conv") && k.TensorCore < 0 && k.DType != "fp64" && (!only32 || k.DType == "fp32" || k.DType == "") {
				all += float64(k.Dur)
			}
		}
	}
	if took == 0 || all == 0 {
		return 0, 0
	}
	return would / took, min(1, took/all)
}
