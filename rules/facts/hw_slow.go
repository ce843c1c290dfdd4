package facts

import (
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuScore = &Decl{ID: "gpu.kernel_score_frac", Doc: "Speed at the same work as other GPUs of its model: best time out of its own, weighted by its time; 1 is the best GPU. " +
		"By matrix products of equal shape; a hint by kernel name where shapes were not recorded.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuScored = &Decl{ID: "gpu.kernel_score_time_frac", Doc: "Share of its computing kernels' time that could be compared with other GPUs.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveSlow = &Decl{ID: "gpu.save_slow_frac", Doc: "Step time that the best GPU's speed at the same work could return at most.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
)

// minCompared is the share of the computing time that a comparison must rest on.
const minCompared = 0.2

// GPUSlow asks whether one GPU takes longer for the same work. Where shapes were recorded it compares the mean time of matrix products
// of one shape and type; a rank with other shapes has other work, and is not judged. Without shapes it compares kernels by name
// where the counts differ by at most 5 %, a hint: unequal inputs look the same. Missing with one GPU, or where less than a fifth of
// the computing time could be compared.
var GPUSlow = &Deriver{Name: "gpu-slow", After: []*Deriver{LedgerShares}, Gives: []*Decl{gpuScore, gpuScored, gpuSaveSlow}, Run: func(p *Pass) {
	works := map[int][]work{} // by subject
	shaped := map[int]bool{}
	total := map[int]float64{}
	withShapes := 0
	p.eachGPU(func(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced) {
		if l == nil {
			return
		}
		for _, k := range l.Kernels {
			if isWork(k) {
				total[sub] += float64(k.Dur)
			}
		}
		if works[sub] = shapedWork(c, r); ns(works[sub]) >= minCompared*total[sub] && total[sub] > 0 {
			shaped[sub] = true
			withShapes++
		}
	})
	p.eachGPU(func(sub int, c *Card, l *timeline.GPULedger, _ *timeline.Reduced) {
		if l != nil && (withShapes < 2 || !shaped[sub]) {
			works[sub], shaped[sub] = namedWork(c, l), false
		}
	})
	best := map[workKey][]work{}
	for _, sub := range p.Facts.Of(GPU) {
		for _, w := range works[sub] {
			best[w.key] = append(best[w.key], w)
		}
	}
	p.eachGPU(func(sub int, _ *Card, l *timeline.GPULedger, r *timeline.Reduced) {
		switch {
		case l == nil:
			p.missAll(sub, noTrace, gpuScore, gpuScored, gpuSaveSlow)
		case total[sub] == 0:
			p.missAll(sub, "the trace holds no computing kernel", gpuScore, gpuScored, gpuSaveSlow)
		default:
			p.scoreOf(sub, r.Path, works[sub], best, total[sub], shaped[sub])
		}
	})
}}

func (p *Pass) scoreOf(sub int, path string, works []work, best map[workKey][]work, total float64, shaped bool) {
	var compared, asBest float64
	type lost struct {
		ns  float64
		row uint32
	}
	var worst []lost
	for _, w := range works {
		least, peers := w.each, 0
		for _, o := range best[w.key] {
			if shaped || near(o.count, w.count) {
				least = min(least, o.each)
				peers++
			}
		}
		if peers < 2 { // itself alone
			continue
		}
		compared += w.dur
		asBest += w.dur * least / w.each
		if w.row != 0 && least < w.each {
			worst = append(worst, lost{w.dur * (1 - least/w.each), w.row})
		}
	}
	p.Set(gpuScored, sub, measured(min(1, compared/total)))
	if compared < minCompared*total {
		why := "its kernels have no like on another GPU of its model"
		switch {
		case len(p.Job.GPUs) == 1:
			why = "only one GPU was traced, so there is nothing to compare with"
		case shaped:
			why = "its matrix products have other shapes than those of the other GPUs, so there is no equal work to compare"
		}
		p.missAll(sub, why, gpuScore, gpuSaveSlow)
		return
	}
	sort.SliceStable(worst, func(i, j int) bool { return worst[i].ns > worst[j].ns })
	v := Value{Num: asBest / compared, Cover: min(1, compared/total), Conf: timeline.Hint, NRefs: len(worst)}
	if shaped {
		v.Conf = timeline.Measured
	}
	for _, w := range worst[:min(len(worst), maxRefs)] {
		v.Refs = append(v.Refs, traceRef(path, w.row))
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
}

// workKey names equal work: a kernel by name and class, or a matrix product by shape and type.
type workKey struct {
	model, name, class string
	m, n, k, batch     int64
}

// work is all of one GPU's calls of equal work.
type work struct {
	key   workKey
	count int64
	each  float64 // ns a call
	dur   float64 // ns of all calls
	row   uint32  // 0 unknown
}

func ns(ws []work) (sum float64) {
	for _, w := range ws {
		sum += w.dur
	}
	return sum
}

// shapedWork gives the matrix products with known shapes of a process that drove one GPU; of several they cannot be told apart.
func shapedWork(c *Card, r *timeline.Reduced) (out []work) {
	if len(r.GPUs) != 1 {
		return nil
	}
	for _, m := range r.Rank.Matmuls {
		if m.Count > 0 && m.Dur > 0 {
			out = append(out, work{workKey{c.Name, m.Op, m.DType, m.M, m.N, m.K, m.Batch}, m.Count, float64(m.Dur) / float64(m.Count), float64(m.Dur), m.Row})
		}
	}
	return out
}

func namedWork(c *Card, l *timeline.GPULedger) (out []work) {
	for _, k := range l.Kernels {
		if !isWork(k) {
			continue
		}
		w := work{workKey{model: c.Name, name: k.Name, class: k.Class}, k.Count, float64(k.Median), float64(k.Dur), 0}
		if len(k.Rows) > 0 {
			w.row = k.Rows[0]
		}
		out = append(out, w)
	}
	return out
}

func isWork(k timeline.KernelRow) bool {
	return k.Class != "comm" && k.Class != "memset" && k.Count > 0 && k.Median > 0
}

func near(a, b int64) bool {
	d := a - b
	if d < 0 {
		d = -d
	}
	return 20*d <= max(a, b)
}
