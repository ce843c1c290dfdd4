package render

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
)

const maxStepDots = 800

func (b *builder) stepLogs() {
	base := b.base
	for i := range base.Series {
		s := &base.Series[i]
		tr := &base.Tracks[s.Track]
		if tr.Kind != timeline.TrackSteps || s.Metric.Name != timeline.StepTime.Name || len(s.At) == 0 {
			continue
		}
		row := StepLog{Path: base.Sources[tr.Source].Path, Every: 1, Lines: len(s.At)}
		if tr.Thread >= 0 {
			rank := int(tr.Thread)
			row.Rank = &rank
		}
		var number []float64
		for k := range base.Series {
			if o := &base.Series[k]; o.Track == s.Track && o.Metric.Name == timeline.StepNumber.Name && slices.Equal(o.At, s.At) {
				number = o.Value
			}
		}
		for _, a := range base.Attrs {
			if a.Track == s.Track && a.Name == timeline.AttrStepEvery {
				row.Every = int(a.Value)
			}
		}
		placed := base.Clocks[base.Sources[tr.Source].Clock].How != timeline.Unplaced || !b.placedAny()
		for _, k := range extremes(s.Value, maxPoints) {
			n := float64(k)
			if number != nil {
				n = number[k]
			}
			row.Step, row.DurNS, row.Row = append(row.Step, n), append(row.DurNS, int64(math.Round(s.Value[k]*1e9))), append(row.Row, s.Row[k])
			if placed {
				row.AtNS = append(row.AtNS, b.rel(s.At[k]))
			}
		}
		b.r.StepLogs = append(b.r.StepLogs, row)
	}
	sort.SliceStable(b.r.StepLogs, func(i, j int) bool {
		x, y := &b.r.StepLogs[i], &b.r.StepLogs[j]
		if x.Path != y.Path {
			return x.Path < y.Path
		}
		return y.Rank != nil && (x.Rank == nil || *x.Rank < *y.Rank)
	})
}

// extremes gives the places of at most n values: the lowest and the highest of each of n/2 stretches.
func extremes(v []float64, n int) (out []int) {
	if len(v) <= n {
		for i := range v {
			out = append(out, i)
		}
		return out
	}
	for k := range n / 2 {
		from, to := k*len(v)/(n/2), (k+1)*len(v)/(n/2)
		lo, hi := from, from
		for i := from; i < to; i++ {
			if v[i] < v[lo] {
				lo = i
			}
			if v[i] > v[hi] {
				hi = i
			}
		}
		out = append(out, min(lo, hi))
		if lo != hi {
			out = append(out, max(lo, hi))
		}
	}
	return out
}

// stepsSection draws the step times of training loops' own logs.
func stepsSection(r *Report) (Section, bool) {
	if len(r.StepLogs) == 0 {
		return Section{}, false
	}
	s := Section{ID: "steps", Title: "Step times", Lead: "What the training loop logged of its own steps: how long each took. Whose time it was, only a trace of some of them can say."}
	const shown = 8
	for i := range r.StepLogs[:min(shown, len(r.StepLogs))] {
		s.Blocks = append(s.Blocks, stepDots(r, i))
	}
	if n := len(r.StepLogs) - shown; n > 0 {
		s.Blocks = append(s.Blocks, Prose{fmt.Sprintf("Logs of %d more ranks are in the JSON file.", n)})
	}
	return s, true
}

func stepDots(r *Report, i int) Dots {
	l := &r.StepLogs[i]
	sec := make([]float64, len(l.DurNS))
	for k, d := range l.DurNS {
		sec[k] = float64(d) / 1e9
	}
	sorted := slices.Clone(sec)
	slices.Sort(sorted)
	mid, p99 := sorted[len(sorted)/2], sorted[(len(sorted)-1)*99/100]
	unit, scale := "s", 1.0
	if mid < 1 {
		unit, scale = "ms", 1e3
	}
	top := niceMax(1.1 * p99 * scale)
	from, to := slices.Min(l.Step), slices.Max(l.Step)
	if to == from {
		to = from + 1
	}
	who := l.Path
	if l.Rank != nil {
		who = fmt.Sprintf("rank %d, %s", *l.Rank, l.Path)
	}
	each := "a dot is a step"
	if l.Every > 1 {
		each = fmt.Sprintf("a dot is the mean of %d steps", l.Every)
	}
	d := Dots{ID: fmt.Sprintf("step-times-%d", i+1), Title: "Step time, " + clean(who), Unit: unit, Plain: true, Legend: []string{each, "", "above the axis", ""}}
	above := 0
	for _, k := range extremes(sec, maxStepDots) {
		y := sec[k] * scale / top
		dot := Dot{At: (l.Step[k] - from) / (to - from), Value: min(1, y), Tip: fmt.Sprintf("step %.0f: %s, line %d", l.Step[k], Dur(sec[k]*1e9, 3), l.Row[k])}
		if y > 1 {
			dot.Weak = true
			above++
		}
		d.Dots = append(d.Dots, dot)
	}
	if above == 0 {
		d.Legend[2] = ""
	}
	for _, f := range []float64{0, 0.25, 0.5, 0.75, 1} {
		d.XTicks = append(d.XTicks, DotTick{f, fmt.Sprintf("step %.0f", from+f*(to-from))})
	}
	for _, f := range []float64{0, 0.5, 1} {
		d.YTicks = append(d.YTicks, DotTick{f, trimZero(digits(f*top, 3, ""))})
	}
	longest := sorted[len(sorted)-1]
	d.Alt = fmt.Sprintf("Step times of %d logged lines, steps %.0f to %.0f: median %s, longest %s.", l.Lines, from, to, Dur(mid*1e9, 3), Dur(longest*1e9, 3))
	d.Foot = fmt.Sprintf("Median %s, longest %s, %s lines.", Dur(mid*1e9, 3), Dur(longest*1e9, 3), Count(int64(l.Lines)))
	if above > 0 {
		d.Foot += fmt.Sprintf(" The axis ends above the 99th percentile; %d lie above it and are drawn on its edge.", above)
	}
	return d
}
