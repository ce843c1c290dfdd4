package main

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

// A snapshot taken an hour before the log, and a log without times, do not stretch the window.
func TestWindowOfLogs(t *testing.T) {
	const s = timeline.Time(1e9)
	at := func(x ...timeline.Time) []timeline.Time { return x }
	for _, c := range []struct {
		what                  string
		log, snapshot, untied []timeline.Time
		ranks                 int
		want                  timeline.Interval
	}{
		{"all of them", at(5000*s, 5060*s), at(100 * s), at(0, 10*s), 0, timeline.Interval{Start: 5000 * s, End: 5060*s + 1}},
		{"a snapshot and a log without times", nil, at(100 * s), at(0, 10*s), 0, timeline.Interval{Start: 100 * s, End: 100*s + 1}},
		{"a log without times", nil, nil, at(0, 10*s), 0, timeline.Interval{End: 10*s + 1}},
		{"a log without times beside a trace", nil, nil, at(0, 10*s), 1, timeline.Interval{}},
		{"nothing", nil, nil, nil, 0, timeline.Interval{}},
	} {
		base := &timeline.Timeline{}
		for i, stamps := range [][]timeline.Time{c.log, c.snapshot, c.untied} {
			how := timeline.Assumed
			if i == 2 {
				how = timeline.Unplaced
			}
			base.Clocks = append(base.Clocks, timeline.Clock{How: how})
			base.Sources = append(base.Sources, timeline.Source{Used: true, Clock: timeline.ClockID(i)})
			base.Tracks = append(base.Tracks, timeline.Track{Source: timeline.SourceID(i)})
			if stamps != nil {
				base.Series = append(base.Series, timeline.Series{Metric: timeline.TempGPU, Track: timeline.TrackID(i), At: stamps, Value: make([]float64, len(stamps))})
			}
		}
		job := &ledger.Job{}
		for range c.ranks {
			job.Ranks = append(job.Ranks, &timeline.Reduced{})
		}
		if got := windowOf(base, job); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}
