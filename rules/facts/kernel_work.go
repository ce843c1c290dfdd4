package facts

import (
	"fmt"
	"regexp"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const ofBusyTime = " out of the GPU's busy time in its analysed window; of kernels that run at once one counts."

var (
	gpuUnclassified = &Decl{ID: "gpu.kernel_unclassified_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of kernels whose name fits no class, out of the summed time of all kernels of the GPU's analysed window."}
	gpuLayout = &Decl{ID: "gpu.layout_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of kernels that only change the order of a tensor in memory, by their names or because contiguous() or reshape() launched them," + ofBusyTime}
	gpuUnfused = &Decl{ID: "gpu.unfused_attention_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of attention in pieces, a batched product, softmax and a batched product in a row on one stream with what lies between," + ofBusyTime}
	gpuSmallTime = &Decl{ID: "gpu.small_grid_time_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of kernels with fewer blocks than the part has SMs, collectives left out," + ofBusyTime}
	gpuWaveTime = &Decl{ID: "gpu.wave_time_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of the kernel that loses most to its last wave, of tiled products and convolutions with more blocks than SMs, out of the analysed window."}
	gpuWaveWaste = &Decl{ID: "gpu.wave_waste_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C11",
		Doc: "What that kernel's last wave leaves empty: 1 - blocks / (waves * SMs), weighted by time. One block an SM is assumed; how many fit was not recorded."}
	gpuWaveSays = &Decl{ID: "gpu.wave_says", Unit: unit.Text, Per: GPU, Capture: "C4",
		Doc: "Name of the kernel that gpu.wave_time_frac speaks of."}
	gpuUnderComm = &Decl{ID: "gpu.contention_time_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of kernels of 5 us and more that ran half or more under a collective, out of the analysed window."}
	gpuSlower = &Decl{ID: "gpu.contention_slower_frac", Unit: unit.Frac, Per: GPU, Min: -1, Max: 1e3, Capture: "C4",
		Doc: "How much longer those kernels took than the same ones (name, grid, shapes) alone, by medians of three and more: 0.2 is 1.2 times as long."}
	gpuContentionLost = &Decl{ID: "gpu.contention_lost_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "What the same kernels would take less alone, out of the analysed window."}
	gpuRecompute = &Decl{ID: "gpu.recompute_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Time of operators of forward that backward launched, with kernels that forward launched too; at least: what gradients use as well is not told apart," + ofBusyTime}
	gpuFusable = &Decl{ID: "gpu.fusable_launches_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Launches that one kernel in place of each repeated row of elementwise, reducing, norm and copying kernels would leave out, out of all launches of kernels but collectives."}
	gpuFusableSays = &Decl{ID: "gpu.fusable_says", Unit: unit.Text, Per: GPU, Capture: "C4",
		Doc: "The repeated row of kernels that would leave out most launches."}
)

// KernelWork: what do kernels do beside their class? Layout changes, attention in pieces, grids that leave SMs empty, kernels slowed by
// collectives, forward computed again in backward, rows of kernels that could be one. By names, operators, launch geometry and order, each
// kernel with its part of the ledger's compute time. Missing where grids or operators were not recorded.
var KernelWork = &Deriver{
	Name:  "kernel-work",
	After: []*Deriver{LedgerShares},
	Gives: []*Decl{gpuUnclassified, gpuLayout, gpuUnfused, gpuSmallTime, gpuWaveTime, gpuWaveWaste, gpuWaveSays, gpuUnderComm, gpuSlower, gpuContentionLost,
		gpuRecompute, gpuFusable, gpuFusableSays},
	Run: func(p *Pass) { p.eachGPU(p.kernelWork) },
}

func (p *Pass) kernelWork(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	all := []*Decl{gpuUnclassified, gpuLayout, gpuUnfused, gpuSmallTime, gpuWaveTime, gpuWaveWaste, gpuWaveSays, gpuUnderComm, gpuSlower, gpuContentionLost,
		gpuRecompute, gpuFusable, gpuFusableSays}
	if g == nil || g.Window.Empty() || g.Busy <= 0 {
		p.missAll(sub, noLedger(g), all...)
		return
	}
	var kernels, work, other int64 // summed time of all kernels, of those that are no collectives, of no class
	var rows []uint32
	for i := range g.Kernels {
		k := &g.Kernels[i]
		kernels += k.Dur
		if k.Class != "comm" && k.Class != "memset" {
			work += k.Dur
		}
		if k.Class == "other" {
			other += k.Dur
			rows = append(rows, k.Rows...)
		}
	}
	if kernels == 0 {
		p.missAll(sub, "no kernel ran in the window", all...)
		return
	}
	w := &g.Work
	say := func(d *Decl, num float64, conf Confidence, rows []uint32) {
		refs, n := rowRefs(r, rows)
		p.Set(d, sub, Value{Num: num, Cover: 1, Refs: refs, NRefs: n, Conf: conf})
	}
	window := float64(g.Window.Dur())
	// Kernels' part of the ledger's compute time.
	part := func(ns int64) float64 {
		if work <= 0 {
			return 0
		}
		return min(1, float64(ns)/float64(work)) * float64(g.Owners[timeline.Compute])
	}
	ofBusy := func(ns int64) float64 { return min(1, part(ns)/float64(g.Busy)) }
	byOps := timeline.Measured
	if !r.Rank.Operators {
		byOps = timeline.Inferred
	}
	say(gpuUnclassified, float64(other)/float64(kernels), timeline.Measured, rows)
	say(gpuLayout, ofBusy(w.LayoutNS), timeline.Measured, w.LayoutRows)
	say(gpuUnfused, ofBusy(w.UnfusedNS), byOps, w.UnfusedRows)
	if w.GridNS == 0 {
		p.missAll(sub, "the trace does not record how many blocks its kernels have, or how many SMs the part has", gpuSmallTime, gpuWaveTime, gpuWaveWaste, gpuWaveSays)
	} else {
		say(gpuSmallTime, ofBusy(w.SmallNS), timeline.Measured, w.SmallRows)
		say(gpuWaveTime, min(1, part(w.WaveNS)/window), timeline.Inferred, w.WaveRows)
		if w.WaveNS == 0 {
			p.missAll(sub, "no tiled product has more blocks than the part has SMs", gpuWaveWaste, gpuWaveSays)
		} else {
			say(gpuWaveWaste, min(1, float64(w.WaveLT)/float64(w.WaveNS)), timeline.Inferred, w.WaveRows)
			p.Set(gpuWaveSays, sub, Value{Text: short(w.WaveKernel), Cover: 1, Conf: timeline.Measured})
		}
	}
	say(gpuUnderComm, min(1, part(w.OverlapNS)/window), timeline.Measured, w.OverlapRows)
	switch {
	case w.OverlapNS == 0:
		p.missAll(sub, "no kernel of 5 us and more ran half under a collective", gpuSlower, gpuContentionLost)
	case 5*w.ComparedNS < w.OverlapNS || w.AloneNS <= 0:
		p.missAll(sub, "most kernels that ran under a collective have no like that ran alone", gpuSlower, gpuContentionLost)
	default:
		say(gpuSlower, max(-1, float64(w.ComparedNS)/float64(w.AloneNS)-1), timeline.Measured, w.OverlapRows)
		say(gpuContentionLost, min(1, part(max(0, w.ComparedNS-w.AloneNS))/window), timeline.Measured, w.OverlapRows)
	}
	if !r.Rank.Operators {
		p.Miss(gpuRecompute, sub, "the operators that launched the kernels were not recorded")
	} else {
		say(gpuRecompute, ofBusy(w.RecomputeNS), timeline.Measured, w.RecomputeRows)
	}
	if w.Launches == 0 {
		p.missAll(sub, "no kernel but collectives ran in the window", gpuFusable, gpuFusableSays)
		return
	}
	say(gpuFusable, float64(w.SequencesSaved)/float64(w.Launches), timeline.Measured, nil)
	if len(w.Sequences) == 0 {
		p.Miss(gpuFusableSays, sub, "no row of such kernels repeats")
		return
	}
	s := &w.Sequences[0]
	var names []string
	for _, n := range s.Names[:min(len(s.Names), 3)] {
		names = append(names, short(n))
	}
	text := strings.Join(names, ", ")
	if n := len(s.Names) - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	refs, n := rowRefs(r, []uint32{s.Row})
	p.Set(gpuFusableSays, sub, Value{Text: fmt.Sprintf("%s, %d times", text, s.Count), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
}

// functors are the ways in which PyTorch names what an elementwise or reducing kernel is given to do.
var functors = regexp.MustCompile(`(?:CUDAFunctor(?:OnSelf)?_|launch_)(\w+)|(\w+?)(?:Functor|_functor|Ops|CUDAKernelImpl|_kernel_cuda|_cuda_kernel|_kernel_impl|_cuda_out|_impl)\b`)

// functor is what such a kernel does, by its template arguments; "" not told.
func functor(args string) string {
	for _, m := range functors.FindAllStringSubmatch(args, -1) {
		what := strings.ToLower(m[1] + m[2])
		if what == "binary" || what == "aunary" || what == "bunary" || what == "gpu" || what == "gpu_kernel" || what == "gpu_kernel_impl" || what == "reduce" {
			continue // what it is called with comes behind
		}
		for _, cut := range []string{"direct_", "bfloat16_", "bfloat16tofloat32_", "float8_", "_scalar", "_tensor", "_kernel"} {
			what = strings.ReplaceAll(what, cut, "")
		}
		return what
	}
	return ""
}

// wrappers are kernels of libraries that run what their first template argument names.
var wrappers = map[string]bool{"Kernel": true, "Kernel2": true, "device_kernel": true, "cutlass_cudnn_infer::Kernel": true, "cutlass_cudnn_train::Kernel": true,
	"cutlass_cudnn::Kernel": true, "cutlass__5x_cudnn::Kernel": true}

// short is a kernel's name without its template arguments and parameters, which are most of it.
func short(name string) string {
	name = strings.TrimPrefix(name, "void ")
	for _, s := range []string{"at::native::", "(anonymous namespace)::", "<unnamed>::", "cutlass::"} {
		name = strings.ReplaceAll(name, s, "")
	}
	if i := strings.IndexByte(name, '<'); i > 0 && wrappers[name[:i]] { // the kernel is what it is given
		name = strings.TrimPrefix(name[i+1:], "cutlass::")
		if j := strings.IndexAny(name, ",<>("); j > 0 {
			name = name[:j]
		}
	}
	if i := strings.IndexAny(name, "<("); i > 0 {
		base := name[:i]
		if strings.Contains(base, "elementwise_kernel") || strings.HasSuffix(base, "reduce_kernel") || strings.Contains(base, "multi_tensor_apply") {
			if what := functor(name[i:]); what != "" {
				base += " of " + what
			}
		}
		name = base
	}
	if len(name) > 60 {
		name = name[:57] + "..."
	}
	return name
}
