package ingest

import (
	"math"
	"sort"

	"gpureport/ingest/timeline"
)

const (
	minPairs  = 8    // fewer readings inside a trace prove nothing
	minSpread = 0.03 // standard deviation under which a curve is flat
	unixFloor = timeline.Time(1e18)
)

// busyCurve is the utilisation of a device as a trace shows it, with running sums so that any window's mean is cheap.
type busyCurve struct {
	start, bin timeline.Time
	sum        []float64 // sum[i] is busy bins before i
}

func newBusyCurve(b *timeline.BusyBins) *busyCurve {
	if b = b.AtWork(); len(b.Busy) == 0 || b.Bin <= 0 {
		return nil
	}
	c := &busyCurve{start: b.Start, bin: timeline.Time(b.Bin), sum: make([]float64, len(b.Busy)+1)}
	for i, v := range b.Busy {
		c.sum[i+1] = c.sum[i] + float64(v)
	}
	return c
}

func (c *busyCurve) end() timeline.Time { return c.start + timeline.Time(len(c.sum)-1)*c.bin }

// until is the integral, in bins, from the start to t.
func (c *busyCurve) until(t timeline.Time) float64 {
	d := t - c.start
	i := int(d / c.bin)
	if i >= len(c.sum)-1 {
		return c.sum[len(c.sum)-1]
	}
	return c.sum[i] + (c.sum[i+1]-c.sum[i])*float64(d%c.bin)/float64(c.bin)
}

// mean is the busy share of [from, to); ok is false when the curve does not cover it.
func (c *busyCurve) mean(from, to timeline.Time) (float64, bool) {
	if from < c.start || to > c.end() || to <= from {
		return 0, false
	}
	return (c.until(to) - c.until(from)) * float64(c.bin) / float64(to-from), true
}

// logCurve is sampled utilisation; each reading looks back over window.
type logCurve struct {
	at     []timeline.Time
	value  []float64
	window timeline.Time
	dev    timeline.DeviceID
	source timeline.SourceID
}

// agreement is how well two curves fit.
type agreement struct {
	r     float64 // correlation
	pairs int
	flat  bool // one of them hardly moves: r says nothing
	off   float64
}

func (a agreement) told() bool { return a.pairs >= minPairs && !a.flat }

// agree compares the log, moved by delta, with the trace.
func (l *logCurve) agree(c *busyCurve, delta timeline.Time) agreement {
	return l.agreeIn(c, delta, timeline.Interval{Start: c.start, End: c.end()})
}

// agreeIn is agree for the part of the trace in iv.
func (l *logCurve) agreeIn(c *busyCurve, delta timeline.Time, iv timeline.Interval) agreement {
	iv.Start, iv.End = max(iv.Start, c.start), min(iv.End, c.end())
	lo := sort.Search(len(l.at), func(i int) bool { return l.at[i]+delta-l.window >= iv.Start })
	hi := sort.Search(len(l.at), func(i int) bool { return l.at[i]+delta > iv.End })
	stride := max(1, (hi-lo)/4000)
	var n, sx, sy, sxx, syy, sxy, off float64
	for i := lo; i < hi; i += stride {
		t := l.at[i] + delta
		y, ok := c.mean(t-l.window, t)
		if !ok {
			continue
		}
		x := l.value[i]
		n++
		sx, sy = sx+x, sy+y
		sxx, syy, sxy = sxx+x*x, syy+y*y, sxy+x*y
		off += math.Abs(x - y)
	}
	if n == 0 {
		return agreement{}
	}
	vx, vy := sxx/n-sx/n*sx/n, syy/n-sy/n*sy/n
	// A log that stands still where the trace moves does not agree; where the trace stands still nothing can be told.
	a := agreement{pairs: int(n), off: off / n, flat: vy < minSpread*minSpread}
	if !a.flat && vx >= minSpread*minSpread {
		a.r = (sxy/n - sx/n*sy/n) / math.Sqrt(vx*vy)
	}
	return a
}

// logCurves gives the utilisation curves of base, by device.
func logCurves(base *timeline.Timeline) []*logCurve {
	var out []*logCurve
	for i := range base.Series {
		s := &base.Series[i]
		tr := &base.Tracks[s.Track]
		if s.Metric.Name != timeline.SMBusy.Name || tr.Device < 0 {
			continue
		}
		c := &logCurve{at: s.At, value: s.Value, dev: tr.Device, source: tr.Source, window: 1e9}
		if p := medianPeriod(s.At); p > 0 && p < c.window {
			c.window = max(p, 166e6) // the driver's own window is 1/6 s to 1 s
		}
		out = append(out, c)
	}
	return out
}

func medianPeriod(at []timeline.Time) timeline.Time {
	if len(at) < 2 {
		return 0
	}
	d := make([]timeline.Time, 0, len(at)-1)
	for i := 1; i < len(at); i++ {
		d = append(d, at[i]-at[i-1])
	}
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return d[len(d)/2]
}

// onUnixAxis tells whether a trace knows its wall time: everything recorded lies after 2001.
func onUnixAxis(r *timeline.Reduced) bool {
	iv := traceSpan(r)
	return !iv.Empty() && iv.Start > unixFloor
}

func traceSpan(r *timeline.Reduced) timeline.Interval {
	iv := r.Recorded
	for i := range r.GPUs {
		if c := newBusyCurve(&r.GPUs[i].Bins); c != nil {
			if iv.Empty() {
				iv = timeline.Interval{Start: c.start, End: c.end()}
			}
			iv.Start, iv.End = min(iv.Start, c.start), max(iv.End, c.end())
		}
	}
	return iv
}
