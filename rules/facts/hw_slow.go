package facts

import (
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuScore = &Decl{ID: "gpu.kernel_score_frac", Doc: "Speed at the same work as other GPUs of its model, out of the best GPU's; each GPU against the median, weighted by its time. " +
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
	same := map[workKey][]work{}
	for _, sub := range p.Facts.Of(GPU) {
		for _, w := range works[sub] {
			same[w.key] = append(same[w.key], w)
		}
	}
	speeds := map[int]speed{}
	best := map[string]float64{} // by model
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		s := speedOf(works[sub], same, shaped[sub])
		speeds[sub] = s
		if s.compared >= minCompared*total[sub] && s.compared > 0 {
			best[c.Name] = max(best[c.Name], s.rel)
		}
	})
	p.eachGPU(func(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced) {
		switch {
		case l == nil:
			p.missAll(sub, noTrace, gpuScore, gpuScored, gpuSaveSlow)
		case total[sub] == 0:
			p.missAll(sub, "the trace holds no computing kernel", gpuScore, gpuScored, gpuSaveSlow)
		default:
			p.scoreOf(sub, r.Path, speeds[sub], best[c.Name], total[sub], shaped[sub])
		}
	})
}}

// speed is how one GPU does the work it shares with others.
type speed struct {
	rel      float64 // time that the median GPU would take for it out of its own
	compared float64 // ns of its own time that could be compared
	worst    []lost  // where it loses to the median, most first
}

type lost struct {
	ns  float64
	row uint32
}

// speedOf compares with the median of all GPUs that do the same, not with the best of each: the best of many short kernels is noise.
func speedOf(works []work, same map[workKey][]work, shaped bool) (s speed) {
	asMedian := 0.0
	for _, w := range works {
		var each []float64
		for _, o := range same[w.key] {
			if shaped || near(o.count, w.count) {
				each = append(each, o.each)
			}
		}
		if len(each) < 2 { // itself alone
			continue
		}
		m := median(each)
		s.compared += w.dur
		asMedian += w.dur * m / w.each
		if w.row != 0 && m < w.each {
			s.worst = append(s.worst, lost{w.dur * (1 - m/w.each), w.row})
		}
	}
	if s.compared > 0 {
		s.rel = asMedian / s.compared
	}
	sort.SliceStable(s.worst, func(i, j int) bool { return s.worst[i].ns > s.worst[j].ns })
	return s
}

func (p *Pass) scoreOf(sub int, path string, s speed, best, total float64, shaped bool) {
	p.Set(gpuScored, sub, measured(min(1, s.compared/total)))
	if s.compared < minCompared*total || best <= 0 {
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
	v := Value{Num: min(1, s.rel/best), Cover: min(1, s.compared/total), Conf: timeline.Hint, NRefs: len(s.worst)}
	if shaped {
		v.Conf = timeline.Measured
	}
	for _, w := range s.worst[:min(len(s.worst), maxRefs)] {
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
