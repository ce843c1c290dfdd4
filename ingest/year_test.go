package ingest

import (
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

func unixAt(s string) timeline.Time {
	t, err := time.Parse("2006-01-02T15:04:05", s)
	if err != nil {
		panic(err)
	}
	return timeline.Time(t.UnixNano())
}

// yearless is a log of one event, or none, that states no year.
func yearless(from, to string, at ...string) *timeline.Timeline {
	base := &timeline.Timeline{
		Sources: []timeline.Source{{Path: "n/messages", Coverage: []timeline.Interval{{Start: unixAt(from), End: unixAt(to)}}}},
		Clocks:  []timeline.Clock{{Name: "n/messages", Wall: true, Step: time.Second, Error: 2 * time.Second, Why: YearUnknown + ": syslog"}},
		Tracks:  []timeline.Track{{Kind: timeline.TrackHostReadings, Proc: -1, Device: -1}},
	}
	for _, s := range at {
		base.Marks.Append(timeline.MarkXid, 0, unixAt(s), 79, 0, 1)
	}
	return base
}

func TestYears(t *testing.T) {
	trace := func(from, to string) []*timeline.Reduced {
		return []*timeline.Reduced{{Path: "n/rank0.json", Recorded: timeline.Interval{Start: unixAt(from), End: unixAt(to)}}}
	}
	for _, c := range []struct {
		what, from, to, event string
		traces                []*timeline.Reduced
		want                  string // of the event, or of the coverage where there is none
		why                   string
	}{
		{"year of the trace", "2000-07-14T08:00:00", "2000-07-14T09:00:00", "2000-07-14T08:30:00", trace("2026-07-14T08:10:00", "2026-07-14T08:50:00"), "2026-07-14T08:30:00", "year 2026"},
		{"no event", "2000-07-14T08:00:00", "2000-07-14T09:00:00", "", trace("2026-07-14T08:10:00", "2026-07-14T08:50:00"), "2026-07-14T08:00:00", "year 2026"},
		{"past a new year", "2000-12-31T23:00:00", "2001-01-01T02:00:00", "2001-01-01T01:00:00", trace("2026-01-01T00:30:00", "2026-01-01T01:30:00"), "2026-01-01T01:00:00", "year 2025"},
		{"over a leap day that was none", "2000-02-01T00:00:00", "2000-04-01T00:00:00", "2000-03-15T12:00:00", trace("2026-03-15T11:00:00", "2026-03-15T13:00:00"), "2026-03-15T12:00:00", "year 2026"},
		{"far from every trace", "2000-07-14T08:00:00", "2000-07-14T09:00:00", "2000-07-14T08:30:00", trace("2026-09-14T08:10:00", "2026-09-14T08:50:00"), "2000-07-14T08:30:00", "0 years fit"},
		{"nothing else", "2000-07-14T08:00:00", "2000-07-14T09:00:00", "2000-07-14T08:30:00", nil, "2000-07-14T08:30:00", "0 years fit"},
	} {
		var at []string
		if c.event != "" {
			at = []string{c.event}
		}
		base := yearless(c.from, c.to, at...)
		p := &placer{base: base, zoneOf: map[string]timeline.Time{}}
		for _, tr := range c.traces {
			p.spans = append(p.spans, tr.Recorded)
		}
		p.years()
		got := base.Sources[0].Coverage[0].Start
		if c.event != "" {
			got = base.Marks.At[0]
		}
		if got != unixAt(c.want) || !strings.Contains(base.Clocks[0].Why, c.why) {
			t.Errorf("%s: %s, want %s; %s", c.what, time.Unix(0, int64(got)).UTC().Format(time.RFC3339), c.want, base.Clocks[0].Why)
		}
		// The whole way: a log whose year is not known is put nowhere.
		base = yearless(c.from, c.to, at...)
		Place(base, c.traces, Options{TZ: "+00:00"})
		if placed := base.Clocks[0].How != timeline.Unplaced; placed != strings.HasPrefix(c.why, "year") {
			t.Errorf("%s: placed %v: %+v", c.what, placed, base.Clocks[0])
		}
	}
}
