package facts

import (
	"math"
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// pauseLeast is how long a hole must be to count as a pause.
const pauseLeast = 50e6 // ns

var (
	gpuPause      = &Decl{ID: "gpu.pause_frac", Doc: "Share of the window in holes of 50 ms and more in which the driving process did nothing that was recorded.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuPauseCount = &Decl{ID: "gpu.pause_count", Doc: "Holes of 50 ms and more in which the driving process did nothing that was recorded.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C4"}
	gpuPauseMax   = &Decl{ID: "gpu.pause_max_s", Doc: "The longest of those holes; 0 where there is none.", Unit: unit.Second, Per: GPU, Max: 1e6, Capture: "C4"}
	gpuPauseSave  = &Decl{ID: "gpu.pause_save_frac", Doc: "Share of the window idle in such holes or in collections that Python stacks show, whichever is more: the two may be the same time.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	runPauseLost  = &Decl{ID: "run.pause_lost_frac", Doc: "Step time that such holes hold up, out of all step time: of each step the rank that stood longest counts. At least that much where not every rank was recorded.", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4"}
	runPauseTurns = &Decl{ID: "run.pause_rotates_flag", Doc: "Whether such holes come on several ranks in turn, no rank having three quarters of them, and without a period.", Unit: unit.Flag, Per: Run, Max: 1, Capture: "C4"}
)

// Pauses asks for isolated long holes without a span, and whether they move from rank to rank, as collections of the interpreter do.
// Missing without a ledger; the turning needs several ranks.
var Pauses = &Deriver{Name: "pauses", After: []*Deriver{MainThread}, Gives: []*Decl{gpuPause, gpuPauseCount, gpuPauseMax, gpuPauseSave, runPauseLost, runPauseTurns}, Run: func(p *Pass) {
	type hole struct {
		at   timeline.Time
		rank int
	}
	var holes []hole
	held, took := map[int64]int64{}, map[int64]int64{} // ns of each step, by its number: the longest hole of a rank, and the longest step
	ranks := map[*timeline.Reduced]int{}
	p.eachGPU(func(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced) {
		if l == nil || l.Window.Empty() {
			why := noTrace
			if r != nil && r.NoLedger != "" {
				why = r.NoLedger
			}
			p.missAll(sub, why, gpuPause, gpuPauseCount, gpuPauseMax, gpuPauseSave)
			return
		}
		if _, ok := ranks[r]; !ok {
			ranks[r] = len(ranks)
		}
		var sum, longest int64
		v := Value{Cover: 1, Conf: timeline.Inferred}
		n, step := 0, 0
		mine := make([]int64, len(l.Steps))
		for _, first := range pythonRuns(&l.Segments) {
			from, row, dur := first.Start, first.Row, first.Dur
			n++
			sum += dur
			longest = max(longest, dur)
			holes = append(holes, hole{from, ranks[r]})
			for step < len(l.Steps) && from >= l.Steps[step].Start+timeline.Time(l.Steps[step].Dur) {
				step++
			}
			if step < len(l.Steps) {
				mine[step] += dur
			}
			if row > 0 {
				v.NRefs++
				if len(v.Refs) < maxRefs {
					v.Refs = append(v.Refs, traceRef(r.Path, row))
				}
			}
		}
		for i, ns := range mine {
			if i < len(r.Steps.Index) {
				k := r.Steps.Index[i]
				held[k], took[k] = max(held[k], ns), max(took[k], l.Steps[i].Dur)
			}
		}
		v.Num = float64(sum) / float64(l.Window.Dur())
		p.Set(gpuPause, sub, v)
		p.Set(gpuPauseSave, sub, v)
		if gc, ok := p.Get(gpuCollect, sub); ok && gc.Num > v.Num {
			p.Set(gpuPauseSave, sub, gc)
		}
		v.Num = float64(n)
		p.Set(gpuPauseCount, sub, v)
		v.Num = float64(longest) / 1e9
		p.Set(gpuPauseMax, sub, v)
	})
	var lost, all int64
	for k, ns := range took {
		lost, all = lost+min(held[k], ns), all+ns
	}
	switch {
	case len(ranks) == 0:
		p.Miss(runPauseLost, 0, noTrace)
	case all == 0:
		p.Miss(runPauseLost, 0, noSteps)
	default:
		p.Set(runPauseLost, 0, Value{Num: float64(lost) / float64(all), Cover: 1, Conf: timeline.Inferred})
	}
	switch {
	case len(ranks) == 0:
		p.Miss(runPauseTurns, 0, noTrace)
		return
	case len(ranks) < 2:
		p.Miss(runPauseTurns, 0, "one rank was recorded: whether its pauses move to others cannot be seen")
		return
	}
	sort.SliceStable(holes, func(i, j int) bool { return holes[i].at < holes[j].at })
	per := make([]int, len(ranks))
	most := 0
	var gaps []float64
	for i, h := range holes {
		per[h.rank]++
		most = max(most, per[h.rank])
		if i > 0 {
			gaps = append(gaps, float64(h.at-holes[i-1].at))
		}
	}
	v := Value{Cover: 1, Conf: timeline.Inferred}
	if len(holes) >= 2 && float64(most) < 0.75*float64(len(holes)) && !regular(gaps) {
		v.Num = 1
	}
	p.Set(runPauseTurns, 0, v)
}}

// regular tells whether at least three distances lie within a tenth of their mean.
func regular(gaps []float64) bool {
	if len(gaps) < 3 {
		return false
	}
	m := mean(gaps)
	for _, g := range gaps {
		if math.Abs(g-m) > m/10 {
			return false
		}
	}
	return true
}

var (
	gpuBeatStep  = &Decl{ID: "gpu.beat_step_s", Doc: "Median step time of the rank that drives the GPU, as the sampler met it.", Unit: unit.Second, Per: GPU, Max: 1e6, Capture: "C4"}
	gpuBeat      = &Decl{ID: "gpu.beat_period_s", Doc: "Period at which a step of this length seems to come back when it is read at the sampler's interval.", Unit: unit.Second, Per: GPU, Max: 1e9, Capture: "C4"}
	gpuBeatMatch = &Decl{ID: "gpu.beat_match_frac", Doc: "Distance of the sampled curve's period from that beat, out of the beat.", Unit: unit.Frac, Per: GPU, Max: 1e9, Capture: "C1"}
	gpuUtilRise  = &Decl{ID: "gpu.util_rise_ratio_count", Doc: "Mean utilisation of the last third of the samples over that of the first.", Unit: unit.Count, Per: GPU, Max: 1e6, Capture: "C1"}
)

// Beat asks what a sampler of this interval makes of steps of this length: a period below two intervals comes back as another one. A beat of
// more than the whole recording, or of a step longer than two intervals, is Missing: there is nothing to mistake.
var Beat = &Deriver{Name: "beat", After: []*Deriver{SampledUtil, Sawtooth, StepStats}, Gives: []*Decl{gpuBeatStep, gpuBeat, gpuBeatMatch, gpuUtilRise}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, r *timeline.Reduced) {
		p.utilRise(sub, c)
		miss := func(why string) { p.missAll(sub, why, gpuBeatStep, gpuBeat, gpuBeatMatch) }
		gap, ok := p.Get(gpuSpacing, sub)
		if !ok || gap.Num <= 0 {
			miss(p.noMetric(c, "utilisation often enough"))
			return
		}
		if r == nil {
			miss(noTrace + ", so the step time is not known")
			return
		}
		var durs []float64
		for _, d := range r.Steps.All {
			durs = append(durs, d.Seconds())
		}
		if len(durs) < 3 {
			miss("fewer than three steps are known")
			return
		}
		step := median(durs)
		if step <= 0 || step >= 2*gap.Num {
			miss("a step takes two sampling intervals or more: the sampler sees it as it is")
			return
		}
		f := math.Abs(1/step - math.Round(gap.Num/step)/gap.Num)
		s := p.series(c, timeline.SMBusy)
		length := float64(s.At[len(s.At)-1]-s.At[0]) / 1e9
		if f*length < 1 {
			miss("the beat of step time and sampling interval is longer than the recording")
			return
		}
		v := Value{Num: step, Cover: gap.Cover, Conf: timeline.Inferred}
		p.Set(gpuBeatStep, sub, v)
		v.Num = 1 / f
		p.Set(gpuBeat, sub, v)
		period, ok := p.Get(gpuWavePeriod, sub)
		if !ok {
			p.Miss(gpuBeatMatch, sub, "the sampled curve has no period")
			return
		}
		v.Num = math.Abs(period.Num-1/f) * f
		p.Set(gpuBeatMatch, sub, v)
	})
}}

// pythonRuns are the stretches of pauseLeast and more that Python held: the first segment of each, with the length of all.
func pythonRuns(segs *timeline.Segments) (out []timeline.Segment) {
	var run timeline.Segment
	flush := func() {
		if run.Dur >= pauseLeast && run.Owner == timeline.HostPython {
			out = append(out, run)
		}
		run = timeline.Segment{}
	}
	for s := range segs.All() {
		switch {
		case s.Owner != timeline.HostPython:
			flush()
		case run.Owner != timeline.HostPython:
			run = s
		default:
			run.Dur += s.Dur
		}
	}
	flush()
	return out
}

func (p *Pass) utilRise(sub int, c *Card) {
	s := p.series(c, timeline.SMBusy)
	switch {
	case s == nil:
		p.Miss(gpuUtilRise, sub, p.noMetric(c, "utilisation"))
	case len(s.Value) < minSamples:
		p.Miss(gpuUtilRise, sub, tooFew(len(s.Value)))
	default:
		k := len(s.Value) / 3
		first, last := mean(s.Value[:k]), mean(s.Value[len(s.Value)-k:])
		if first <= 0 {
			p.Miss(gpuUtilRise, sub, "nothing ran in the first third of the samples")
			return
		}
		p.Set(gpuUtilRise, sub, p.sampled(s, min(gpuUtilRise.Max, last/first)))
	}
}
