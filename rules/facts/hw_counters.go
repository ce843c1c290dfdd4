package facts

import (
	"sort"

	"gpureport/ingest/timeline"
)

// rise is how far a running total of a card rose inside the window.
type rise struct {
	Value
	seconds  float64 // between the first and the last reading; 0 where that is not known
	readings int     // 0: no source counts it
	last     float64
}

// rose looks at the source that tells most. Where none has two readings, those of several files of one format count together: a state that
// was saved twice, a file each. Files without a time are taken in the order of their counts, as a counter rises by itself.
func (p *Pass) rose(c *Card, m timeline.Metric) rise {
	s := p.series(c, m)
	if s == nil {
		return rise{}
	}
	if len(s.At) > 1 {
		n, at := growth(s)
		out := rise{Value: p.sampled(s, n), seconds: float64(s.At[len(s.At)-1]-s.At[0]) / 1e9, readings: len(s.At), last: s.Value[len(s.Value)-1]}
		out.Refs, out.NRefs = p.refsAt(s, at)
		return out
	}
	format := func(s *timeline.Series) string { return p.Base.Sources[p.Base.Tracks[s.Track].Source].Format }
	var all []timeline.Series
	timed := true
	for i := range p.Base.Series {
		x := &p.Base.Series[i]
		if x.Metric.Name != m.Name || !has(c.Devices, p.Base.Tracks[x.Track].Device) || format(x) != format(s) {
			continue
		}
		if cut := cutSeries(p.Input, x); len(cut.At) == 1 {
			all = append(all, cut)
			timed = timed && placed(p.Base, x)
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		if timed {
			return all[i].At[0] < all[j].At[0]
		}
		return all[i].Value[0] < all[j].Value[0]
	})
	out := rise{Value: Value{Cover: 1, Conf: timeline.Measured}, readings: len(all), last: all[len(all)-1].Value[0]}
	if timed {
		out.seconds = float64(all[len(all)-1].At[0]-all[0].At[0]) / 1e9
	} else {
		out.Conf = timeline.Inferred
	}
	for i := 1; i < len(all); i++ {
		if d := all[i].Value[0] - all[i-1].Value[0]; d > 0 {
			out.Num += d
			refs, _ := p.refsAt(&all[i], []int{0})
			out.NRefs++
			if len(out.Refs) < maxRefs {
				out.Refs = append(out.Refs, refs...)
			}
		}
	}
	return out
}
