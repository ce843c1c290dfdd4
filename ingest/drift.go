package ingest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

const (
	lagWindow  = timeline.Time(60e9) // shortest part of a log that is held against the traces by itself
	lagParts   = 12
	lagPairs   = 30   // readings of a part
	lagNeed    = 3    // parts that must agree clearly
	slopeMax   = 1e-3 // a clock that runs off faster is no clock
	slideAgree = 0.9  // of thousands of shifts some agree by chance
	slideMost  = 200_000
)

// line is how a log's clock runs against the traces': at reading t it lies by mid + slope*(t-at) before them.
type line struct {
	at    timeline.Time // middle of the parts, on the traces' axis before the correction
	from  timeline.Time // first and last part
	to    timeline.Time
	mid   timeline.Time
	slope float64 // 0: no more than can be seen
	parts int
	left  time.Duration // what a part is off the line by, median
}

func (l *line) String() string {
	if l.slope == 0 {
		return fmt.Sprintf("activity agrees at %d places over %v, moved by %+.2f s, and no drift is seen", l.parts, time.Duration(l.to-l.from).Round(time.Minute), float64(l.mid)/1e9)
	}
	return fmt.Sprintf("activity agrees at %d places over %v, moved by %+.2f s in their middle, and a drift of %+.0f ppm is taken out", l.parts,
		time.Duration(l.to-l.from).Round(time.Minute), float64(l.mid)/1e9, l.slope*1e6)
}

// beyond is what drift may add where the log, moved by delta, reaches beyond the parts that were compared.
func (l *line) beyond(iv timeline.Interval, delta timeline.Time) time.Duration {
	out := max(l.from-(iv.Start+delta), iv.End+delta-l.to, 0)
	return l.left + time.Duration(float64(out)*driftPPM/1e6)
}

// lagLine looks where in the traces the log's activity agrees, part by part, and lays a line through the lags. Not ok where the traces and
// the log have less than ten minutes between the first and the last such part, or the lags make no line.
func (p *placer) lagLine(src timeline.SourceID, delta timeline.Time) (l line, ok bool) {
	iv := p.span(src)
	if iv.Dur() <= driftAfter || len(p.curves) == 0 {
		return l, false
	}
	lo, hi := timeline.Time(math.MaxInt64), timeline.Time(math.MinInt64)
	for _, c := range p.curves {
		if a, b := max(c.start, iv.Start+delta), min(c.end(), iv.End+delta); a < b {
			lo, hi = min(lo, a), max(hi, b)
		}
	}
	if hi-lo <= timeline.Time(driftAfter) {
		return l, false
	}
	width := max(lagWindow, (hi-lo)/lagParts)
	for _, c := range p.logs {
		if c.source == src {
			width = max(width, lagPairs*medianPeriod(c.at))
		}
	}
	reach, step := reachOf(p.clock(src))
	var at, lags []float64
	for a := lo; a < hi; a += width {
		part := timeline.Interval{Start: a, End: min(a+width, hi)}
		if f := p.fitIn(src, delta, reach, step, part); f.clear && f.pairs >= lagPairs/2 {
			at, lags = append(at, float64(part.Start+part.End-2*lo)/2), append(lags, float64(f.lag))
		}
	}
	n := len(at)
	if n < lagNeed || at[n-1]-at[0] < float64(driftAfter) {
		return l, false
	}
	var slopes []float64
	for i := range at {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (lags[j]-lags[i])/(at[j]-at[i]))
		}
	}
	l.slope = middle(slopes)
	if math.Abs(l.slope) > slopeMax {
		return l, false
	}
	if math.Abs(l.slope)*(at[n-1]-at[0]) < 2*float64(step) {
		l.slope = 0
	}
	centre := (at[0] + at[n-1]) / 2
	var base, off []float64
	for i := range at {
		base = append(base, lags[i]-l.slope*(at[i]-centre))
	}
	mid := middle(base)
	for _, b := range base {
		off = append(off, math.Abs(b-mid))
	}
	l.left = time.Duration(middle(off))
	if timeline.Time(l.left) > 2*step {
		return l, false
	}
	l.at, l.from, l.to = lo+timeline.Time(centre), lo+timeline.Time(at[0]), lo+timeline.Time(at[n-1])
	l.mid, l.parts = timeline.Time(mid), n
	return l, true
}

// middle is the median of v, which it sorts; the mean of the two in the middle.
func middle(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// stretch takes a line's slope out of src's stamps, which delta puts on the traces' axis.
func (p *placer) stretch(src timeline.SourceID, l line, delta timeline.Time) {
	p.shift(src, func(t timeline.Time) timeline.Time { return timeline.Time(l.slope * float64(t+delta-l.at)) })
}

// slide places a log without any stamp, of which the user states the period, where its activity is that of the traces. Refused where two
// places fit.
func (p *placer) slide(src timeline.SourceID) {
	c := p.clock(src)
	iv := p.span(src)
	if _, ok := p.opt.Set["period"]; !ok || len(p.curves) == 0 || iv.Empty() {
		return
	}
	var period timeline.Time
	for _, l := range p.logs {
		if l.source == src {
			period = max(period, medianPeriod(l.at))
		}
	}
	lo, hi := timeline.Time(math.MaxInt64), timeline.Time(math.MinInt64)
	for _, b := range p.curves {
		lo, hi = min(lo, b.start), max(hi, b.end())
	}
	from, to := lo-iv.End, hi-iv.Start
	step := period / 4
	if period == 0 || (to-from)/step > slideMost {
		return
	}
	type place struct {
		delta timeline.Time
		r     float64
		pairs int
	}
	var places []place
	best := place{r: -2}
	for d := from; d <= to; d += step {
		f := p.at(src, d, everything)
		if !f.told || f.pairs < lagPairs {
			continue
		}
		at := place{d, f.r, f.pairs}
		if places = append(places, at); at.r > best.r {
			best = at
		}
	}
	if best.r < slideAgree {
		return
	}
	for i, o := range places {
		peak := (i == 0 || places[i-1].r <= o.r) && (i+1 == len(places) || places[i+1].r <= o.r)
		if peak && o.r > best.r-agreeClear && abs(o.delta-best.delta) > 2*period {
			c.Why = joinWhy(c.Why, fmt.Sprintf("its activity fits that of the traces from %s and as well from %s: not placed", utc(iv.Start+best.delta), utc(iv.Start+o.delta)))
			return
		}
	}
	c.How, c.Error = timeline.Matched, max(c.Error, time.Duration(period), time.Second)+p.drift(src)
	c.Why = joinWhy(fmt.Sprintf("by activity alone, correlation %.2f over %d readings", best.r, best.pairs), strings.Replace(c.Why, "; shown on an axis of its own", "", 1))
	p.move(src, best.delta)
}
