package timeline

import (
	"math"
	"slices"

	"gpureport/ingest/unit"
)

// SeriesOf gives the index in TL.Series of the metric on the track, made when new. Readers keep it: the search is linear.
func (b *Builder) SeriesOf(m Metric, t TrackID) int {
	for i := range b.TL.Series {
		if s := &b.TL.Series[i]; s.Track == t && s.Metric.Name == m.Name {
			return i
		}
	}
	b.TL.Series = append(b.TL.Series, Series{Metric: m, Track: t})
	return len(b.TL.Series) - 1
}

// Reading appends one reading to series s. It refuses a value that is not finite, and a stamp equal to the last one: the first reading
// of an instant stands. A stamp before the last one is kept, SealSeries puts it in its place.
func (b *Builder) Reading(s int, at Time, value float64, row uint32) bool {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return false
	}
	sr := &b.TL.Series[s]
	if n := len(sr.At); n > 0 && sr.At[n-1] == at {
		return false
	}
	sr.At = append(sr.At, at)
	sr.Value = append(sr.Value, value)
	sr.Row = append(sr.Row, row)
	return true
}

// GPUTrack makes a device and the track of its sampled readings.
func (b *Builder) GPUTrack(d Device, name string) TrackID {
	return b.Track(Track{Source: d.Source, Kind: TrackGPU, Proc: -1, Device: b.AddDevice(d), Thread: -1, Name: name})
}

// AddMark adds something that happened at an instant.
func (b *Builder) AddMark(kind MarkKind, t TrackID, at Time, name string, row uint32) {
	b.AddEvent(kind, t, at, 0, name, row)
}

// AddEvent is AddMark for events that have a number.
func (b *Builder) AddEvent(kind MarkKind, t TrackID, at Time, code int32, name string, row uint32) {
	b.TL.Marks.Append(kind, t, at, code, b.TL.Names.IDOf(name), row)
}

// Append adds one mark.
func (m *Marks) Append(kind MarkKind, t TrackID, at Time, code int32, name StringID, row uint32) {
	m.Track, m.Kind, m.At = append(m.Track, t), append(m.Kind, kind), append(m.At, at)
	m.Code, m.Name, m.Row = append(m.Code, code), append(m.Name, name), append(m.Row, row)
}

// AddAttr adds what the file states of a subject: words.
func (b *Builder) AddAttr(t TrackID, name, text string, at Time, row uint32) {
	b.TL.Attrs = append(b.TL.Attrs, Attr{Track: t, Name: name, Text: text, Unit: unit.Text, At: at, Row: row})
}

// AddNumber adds what the file states of a subject: a number in u's base unit. One that is not finite is refused.
func (b *Builder) AddNumber(t TrackID, name string, value float64, u unit.Unit, at Time, row uint32) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		b.TL.Attrs = append(b.TL.Attrs, Attr{Track: t, Name: name, Value: value, Unit: u, At: at, Row: row})
	}
}

// Sampled gives what outlives the spans of tl: its sampled series and attributes with their tracks and devices, links, totals and counters.
// Marks go with the spans. nil when there is nothing. It shares no memory with the spans.
func (tl *Timeline) Sampled() *Timeline {
	keep := make([]bool, len(tl.Tracks))
	for i := range tl.Series {
		keep[tl.Series[i].Track] = true
	}
	for i := range tl.Attrs {
		keep[tl.Attrs[i].Track] = true
	}
	if len(tl.Series) == 0 && len(tl.Attrs) == 0 && len(tl.Links) == 0 && len(tl.Totals) == 0 && len(tl.Counters) == 0 {
		return nil
	}
	out := &Timeline{Epoch: tl.Epoch, Sources: tl.Sources, Clocks: tl.Clocks, Series: slices.Clone(tl.Series), Attrs: slices.Clone(tl.Attrs), Links: tl.Links, Totals: tl.Totals, Counters: tl.Counters}
	device := map[DeviceID]DeviceID{-1: -1}
	track := make([]TrackID, len(tl.Tracks))
	for i, t := range tl.Tracks {
		if !keep[i] {
			continue
		}
		if _, ok := device[t.Device]; !ok {
			device[t.Device] = DeviceID(len(out.Devices))
			d := tl.Devices[t.Device]
			d.Proc = -1
			out.Devices = append(out.Devices, d)
		}
		t.Device, t.Proc, t.Table = device[t.Device], -1, out.Names.IDOf(tl.Names.Get(t.Table))
		track[i] = TrackID(len(out.Tracks))
		out.Tracks = append(out.Tracks, t)
	}
	for i := range out.Series {
		out.Series[i].Track = track[out.Series[i].Track]
	}
	for i := range out.Attrs {
		out.Attrs[i].Track = track[out.Attrs[i].Track]
	}
	return out
}

// HasMarkSince tells whether a mark of the kind lies at or after at.
func (b *Builder) HasMarkSince(kind MarkKind, at Time) bool {
	m := &b.TL.Marks
	for i := len(m.At) - 1; i >= 0; i-- {
		if m.Kind[i] == kind && m.At[i] >= at {
			return true
		}
	}
	return false
}

// SealSeries makes every series strictly rising: it sorts the few that are not, drops later readings of an instant that has one, and
// drops series without readings. It gives how many readings it dropped and the row of the first of them in the file.
func (b *Builder) SealSeries() (dropped int, first uint32) {
	kept := b.TL.Series[:0]
	for i := range b.TL.Series {
		s := b.TL.Series[i]
		if len(s.At) == 0 {
			continue
		}
		if !rising(s.At) {
			n, row := s.sort()
			if n > 0 && (dropped == 0 || row < first) {
				first = row
			}
			dropped += n
		}
		kept = append(kept, s)
	}
	b.TL.Series = kept
	return dropped, first
}

func rising(at []Time) bool {
	for i := 1; i < len(at); i++ {
		if at[i] <= at[i-1] {
			return false
		}
	}
	return true
}

func (s *Series) sort() (dropped int, first uint32) {
	order := make([]int, len(s.At))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case s.At[a] < s.At[b]:
			return -1
		case s.At[a] > s.At[b]:
			return 1
		}
		return 0
	})
	at, value, row := make([]Time, 0, len(order)), make([]float64, 0, len(order)), make([]uint32, 0, len(order))
	for _, i := range order {
		if n := len(at); n > 0 && at[n-1] == s.At[i] {
			if dropped == 0 || s.Row[i] < first {
				first = s.Row[i]
			}
			dropped++
			continue
		}
		at, value, row = append(at, s.At[i]), append(value, s.Value[i]), append(row, s.Row[i])
	}
	s.At, s.Value, s.Row = at, value, row
	return dropped, first
}

// CoverageOf gives the stretches of source src in which readings of its series follow one another, at most gap apart. With gap 0 it is
// two and a half times the median distance, and never under 2 s. Each stretch is closed by 1 ns, so that the last reading lies inside.
func (tl *Timeline) CoverageOf(src SourceID, gap Time) []Interval {
	var at []Time
	var window Time
	for i := range tl.Series {
		if s := &tl.Series[i]; tl.Tracks[s.Track].Source == src {
			at = append(at, s.At...)
			if s.Metric.Covers == WindowBefore {
				window = max(window, Time(s.Metric.Window))
			}
		}
	}
	if len(at) == 0 {
		return nil
	}
	slices.Sort(at)
	at = slices.Compact(at)
	if gap == 0 {
		gap = 2e9
		if d := medianStep(at); d*5/2 > gap {
			gap = d * 5 / 2
		}
	}
	var out []Interval
	start := at[0] - window
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] > gap {
			out = append(out, Interval{start, at[i-1] + 1})
			start = max(at[i]-window, at[i-1]+1)
		}
	}
	return append(out, Interval{start, at[len(at)-1] + 1})
}

// medianStep leaves out steps under 5 ms: they lie between the rows of one sampling cycle, not between cycles.
func medianStep(at []Time) Time {
	var d []Time
	for i := 1; i < len(at); i++ {
		if s := at[i] - at[i-1]; s >= 5e6 {
			d = append(d, s)
		}
	}
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}
