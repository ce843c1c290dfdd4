package ingest

import (
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// What was read of a host whose clock was 120 ms ahead follows its traces: their own readings, and the logs that name the host or lie beside them.
func TestPlaceFollowsHosts(t *testing.T) {
	base := &timeline.Timeline{}
	own := logSource(base, "b/rank1.json", t0, 60, 0, time.Millisecond, activity, 1)
	named := logSource(base, "logs/nvml.jsonl", t0, 60, 0, time.Millisecond, activity, 1)
	beside := logSource(base, "b/query.csv", t0-20e9, 90, 2*time.Hour, time.Millisecond, activity, 1)
	other := logSource(base, "a/record.jsonl", t0, 60, 0, time.Millisecond, activity, 0)
	strange := logSource(base, "logs/none.jsonl", t0, 60, 0, time.Millisecond, activity, 0)
	base.Sources[named].Host, base.Sources[other].Host = "node-b.cluster", "node-a"
	for _, s := range []timeline.SourceID{own, named, other, strange} {
		base.Clocks[s].Zoned, base.Clocks[s].How, base.Clocks[s].Error, base.Clocks[s].Why = true, timeline.Recorded, time.Millisecond, "states UTC"
	}
	at := func(s timeline.SourceID) timeline.Time {
		for i := range base.Series {
			if base.Tracks[base.Series[i].Track].Source == s {
				return base.Series[i].At[0]
			}
		}
		return 0
	}
	before := map[timeline.SourceID]timeline.Time{}
	for _, s := range []timeline.SourceID{own, named, beside, other, strange} {
		before[s] = at(s)
	}
	a := trace(t0, 60*time.Second, 0, 2, activity, 0)
	a.Path, a.Process.Host = "a/rank0.json", "node-a"
	b := trace(t0+120e6, 60*time.Second, 1, 2, activity, 1)
	b.Path, b.Process.Host = "b/rank1.json", "node-b"
	b.Shift(-120e6)
	b.ShiftErrorNS, b.ShiftWhy = 30_000, "the ends of 40 collectives"
	Place(base, []*timeline.Reduced{a, b}, Options{})
	for _, c := range []struct {
		src    timeline.SourceID
		by     time.Duration
		within time.Duration
		how    timeline.Placement
		says   string
	}{
		{own, -120 * time.Millisecond, 0, timeline.Matched, "the ends of 40 collectives"},
		{named, -120 * time.Millisecond, 0, timeline.Matched, "traces of its host"},
		{beside, -2*time.Hour - 120*time.Millisecond, 600 * time.Millisecond, timeline.Matched, "traces in its folder"},
		{other, 0, 0, timeline.Recorded, "states UTC"},
		{strange, 0, 0, timeline.Recorded, "states UTC"},
	} {
		cl := base.Clocks[c.src]
		near(t, base.Sources[c.src].Path, time.Duration(at(c.src)-before[c.src]), c.by, c.within)
		if cl.Offset != time.Duration(at(c.src)-before[c.src]) || cl.How != c.how || !strings.Contains(cl.Why, c.says) {
			t.Errorf("%s: %+v", base.Sources[c.src].Path, cl)
		}
	}
	if e := base.Clocks[own].Error; e != time.Millisecond+30*time.Microsecond {
		t.Errorf("error %v", e)
	}
}
