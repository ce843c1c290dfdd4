package render

import (
	"slices"
	"strconv"

	"gpureport/ingest/timeline"
)

// OffAxis sums up the readings of a log whose clock could not be placed: rules judge them, and no axis can show when they were.
type OffAxis struct {
	Subject string  `json:"subject"`
	Metric  string  `json:"metric"`
	Unit    string  `json:"unit"`
	Path    string  `json:"path"`
	Why     string  `json:"why"`
	N       int     `json:"readings"`
	SpanNS  int64   `json:"span_ns"` // from the first to the last, on the log's own clock
	Min     float64 `json:"min"`
	Median  float64 `json:"median"`
	Max     float64 `json:"max"`
}

// maxOffAxis bounds the list.
const maxOffAxis = 200

// offAxis lists a series whose source has no place on the axis; false: it has one.
func (b *builder) offAxis(s *timeline.Series, row *Series) bool {
	src := &b.base.Sources[b.base.Tracks[s.Track].Source]
	c := &b.base.Clocks[src.Clock]
	if c.How != timeline.Unplaced || b.w.Empty() || len(s.At) == 0 || !src.Used || !b.placedAny() {
		return false
	}
	if len(b.r.OffAxis) < maxOffAxis {
		v := slices.Clone(s.Value)
		slices.Sort(v)
		b.r.OffAxis = append(b.r.OffAxis, OffAxis{Subject: row.Subject, Metric: row.Metric, Unit: row.Unit, Path: row.Path, Why: clean(c.Why), N: len(v),
			SpanNS: int64(s.At[len(s.At)-1] - s.At[0]), Min: v[0], Median: (v[(len(v)-1)/2] + v[len(v)/2]) / 2, Max: v[len(v)-1]})
	}
	return true
}

// placedAny tells whether a trace or a log of a placed clock is there, so that the axis is theirs.
func (b *builder) placedAny() bool {
	if len(b.job.Ranks) > 0 {
		return true
	}
	for i := range b.base.Series {
		src := &b.base.Sources[b.base.Tracks[b.base.Series[i].Track].Source]
		if src.Used && b.base.Clocks[src.Clock].How != timeline.Unplaced {
			return true
		}
	}
	return false
}

// offAxisHardware counts the readings of clocks, power and temperatures that no axis shows.
func offAxisHardware(r *Report) (n int) {
	for i := range r.OffAxis {
		switch r.OffAxis[i].Metric {
		case timeline.ClockSM.Name, timeline.Power.Name, timeline.TempGPU.Name:
			n += r.OffAxis[i].N
		}
	}
	return n
}

// offAxisTable is what the hardware section says of logs that no curve can show.
func offAxisTable(r *Report) (Table, bool) {
	t := Table{ID: "off-axis-table", Title: "Readings without a place in time", Shown: 16, Columns: []Column{{Title: "Of"}, {Title: "Reading"}, {Title: "Median", Num: true}, {Title: "Lowest", Num: true},
		{Title: "Highest", Num: true}, {Title: "Readings", Num: true, More: true}, {Title: "Over", Num: true, More: true}, {Title: "File", More: true}},
		Foot: "The clocks of these logs could not be placed beside the traces: their readings are judged, and not drawn."}
	for i := range r.OffAxis {
		o := &r.OffAxis[i]
		over := Dur(float64(o.SpanNS), 3)
		if o.N == 1 {
			over = "one reading"
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: subjectWord(r, o.Subject)}, {Text: o.Metric, Code: true}, {Text: short(o.Median)}, {Text: short(o.Min)}, {Text: short(o.Max)},
			{Text: Count(int64(o.N))}, {Text: over}, {Text: Middle(o.Path, 40), Code: true, Title: o.Path + ": " + o.Why}}})
	}
	return t, len(t.Rows) > 0
}

// short prints a number with four digits that count.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
