package facts

import (
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuScore = &Decl{ID: "gpu.kernel_score_frac", Doc: "Speed on the kernels that other GPUs of its model run as often: best median duration out of its own, " +
		"weighted by its time in them; 1 is the best GPU.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuScored = &Decl{ID: "gpu.kernel_score_time_frac", Doc: "Share of its computing kernels' time that could be compared with other GPUs.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveSlow = &Decl{ID: "gpu.save_slow_frac", Doc: "Step time that the best GPU's kernel speed could return at most.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
)

// GPUSlow asks whether one GPU takes longer for the same work. Kernels compare by name and class where the counts differ by at most
// 5 %, so that unequal numbers of calls stay out; unequal input sizes under one name cannot be told from a trace without shapes,
// which makes the score inferred. Missing with one GPU, or where less than a fifth of the kernel time could be compared.
var GPUSlow = &Deriver{Name: "gpu-slow", After: []*Deriver{LedgerShares}, Gives: []*Decl{gpuScore, gpuScored, gpuSaveSlow}, Run: func(p *Pass) {
	type key struct{ model, name, class string }
	type seen struct{ count, median int64 }
	all := map[key][]seen{}
	p.eachGPU(func(_ int, c *Card, l *timeline.GPULedger, _ *timeline.Reduced) {
		if l == nil {
			return
		}
		for _, k := range l.Kernels {
			if comparable(k) {
				all[key{c.Name, k.Name, k.Class}] = append(all[key{c.Name, k.Name, k.Class}], seen{k.Count, k.Median})
			}
		}
	})
	p.eachGPU(func(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced) {
		if l == nil {
			p.missAll(sub, noTrace, gpuScore, gpuScored, gpuSaveSlow)
			return
		}
		var total, compared, asBest float64
		type lost struct {
			ns  float64
			row uint32
		}
		var worst []lost
		for _, k := range l.Kernels {
			if !comparable(k) {
				continue
			}
			total += float64(k.Dur)
			best, peers := k.Median, 0
			for _, o := range all[key{c.Name, k.Name, k.Class}] {
				if near(o.count, k.Count) {
					best = min(best, o.median)
					peers++
				}
			}
			if peers < 2 { // itself alone
				continue
			}
			compared += float64(k.Dur)
			ratio := float64(best) / float64(k.Median)
			asBest += float64(k.Dur) * ratio
			if len(k.Rows) > 0 && ratio < 1 {
				worst = append(worst, lost{float64(k.Dur) * (1 - ratio), k.Rows[0]})
			}
		}
		if total == 0 {
			p.missAll(sub, "the trace holds no computing kernel", gpuScore, gpuScored, gpuSaveSlow)
			return
		}
		p.Set(gpuScored, sub, measured(compared/total))
		if compared < 0.2*total {
			why := "its kernels have no like on another GPU of its model"
			if len(p.Job.GPUs) == 1 {
				why = "only one GPU was traced, so there is nothing to compare with"
			}
			p.missAll(sub, why, gpuScore, gpuSaveSlow)
			return
		}
		sort.SliceStable(worst, func(i, j int) bool { return worst[i].ns > worst[j].ns })
		v := Value{Num: asBest / compared, Cover: compared / total, Conf: timeline.Inferred, NRefs: len(worst)}
		for _, w := range worst[:min(len(worst), maxRefs)] {
			v.Refs = append(v.Refs, traceRef(r.Path, w.row))
		}
		sort.Slice(v.Refs, func(i, j int) bool { return v.Refs[i].Row < v.Refs[j].Row })
		p.Set(gpuScore, sub, v)
		compute, ok := p.Get(gpuOwner[timeline.Compute], sub)
		if !ok {
			p.Miss(gpuSaveSlow, sub, "the trace holds no device operation in its window")
			return
		}
		v.Num = compute.Num * (1 - v.Num)
		p.Set(gpuSaveSlow, sub, v)
	})
}}

func comparable(k timeline.KernelRow) bool {
	return k.Class != "comm" && k.Class != "memset" && k.Count > 0 && k.Median > 0
}

func near(a, b int64) bool {
	d := a - b
	if d < 0 {
		d = -d
	}
	return 20*d <= max(a, b)
}
