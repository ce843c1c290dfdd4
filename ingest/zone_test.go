package ingest

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// zoned is a trace that states the zone of its machine.
func zoned(path, host string, zone time.Duration, dur time.Duration) *timeline.Reduced {
	r := trace(t0, dur, 0, 1, activity, 0)
	r.Path, r.Process.Host, r.Process.Meta = path, host, map[string]string{zoneMeta: strconv.Itoa(int(zone / time.Second))}
	return r
}

func TestZoneAsTheExportStates(t *testing.T) {
	const h8 = 8 * time.Hour
	even := func(int, timeline.Time) float64 { return 1 }
	other := func(_ int, at timeline.Time) float64 { return 1 - activity(0, at) }
	for _, c := range []struct {
		what   string
		log    string // path
		host   string // that the log names
		zone   time.Duration
		n      int // seconds of log, the trace in its middle
		f      func(int, timeline.Time) float64
		traces []*timeline.Reduced
		opt    Options
		how    timeline.Placement
		want   time.Duration // offset
		says   string
	}{
		{"a long even log cannot tell by itself", "a/dmon.log", "", h8, 18000, even, []*timeline.Reduced{zoned("b/run.sqlite", "", h8, time.Minute)}, Options{}, timeline.Unplaced, 0, "at 11 zones"},
		{"the export of its folder can", "a/dmon.log", "", h8, 18000, even, []*timeline.Reduced{zoned("a/run.sqlite", "", h8, time.Minute)}, Options{},
			timeline.Recorded, -h8, "UTC+08:00 as a/run.sqlite of the same folder states; too few readings inside the traces, or too even"},
		{"activity agrees", "a/dmon.log", "", h8, 18000, activity, []*timeline.Reduced{zoned("a/run.sqlite", "", h8, time.Minute)}, Options{},
			timeline.Matched, -h8, "of the same folder states; activity agrees"},
		{"of the host it names", "a/dmon.log", "n1.cluster", h8, 18000, even, []*timeline.Reduced{zoned("b/run.sqlite", "N1", h8, time.Minute), zoned("a/x.sqlite", "n2", time.Hour, time.Minute)}, Options{},
			timeline.Recorded, -h8, "UTC+08:00 as b/run.sqlite of host n1.cluster states"},
		{"another host's of the same folder is not its", "a/dmon.log", "n1", h8, 18000, even, []*timeline.Reduced{zoned("a/x.sqlite", "n2", h8, time.Minute)}, Options{}, timeline.Unplaced, 0, "at 11 zones"},
		{"the only host of the input", "logs/dmon.log", "", h8, 18000, even, []*timeline.Reduced{zoned("nsys/r0.sqlite", "n1", h8, time.Minute), zoned("nsys/r1.sqlite", "n1", h8, time.Minute)}, Options{},
			timeline.Recorded, -h8, "of the only host that states one"},
		{"two exports of one folder disagree", "a/dmon.log", "", h8, 18000, even, []*timeline.Reduced{zoned("a/0.sqlite", "n1", h8, time.Minute), zoned("a/1.sqlite", "n2", time.Hour, time.Minute)}, Options{},
			timeline.Unplaced, 0, "several zones (UTC+01:00, UTC+08:00): none is used"},
		{"--tz wins", "a/dmon.log", "", 7 * time.Hour, 18000, even, []*timeline.Reduced{zoned("a/run.sqlite", "", h8, time.Minute)}, Options{TZ: "+7"}, timeline.Stated, -7 * time.Hour, "--tz +7"},
		{"a container in UTC beside it", "a/dmon.log", "", 0, 90, activity, []*timeline.Reduced{zoned("a/run.sqlite", "", h8, time.Minute)}, Options{},
			timeline.Matched, 0, "but there it does not overlap the traces, while at UTC+00:00 it does"},
		{"a container that shows nothing is not placed", "a/dmon.log", "", 0, 90, even, []*timeline.Reduced{zoned("a/run.sqlite", "", h8, time.Minute)}, Options{},
			timeline.Unplaced, 0, "but there it does not overlap the traces: not placed; state the zone with --tz"},
		{"of its host, but an hour earlier", "a/dmon.log", "n1", h8 + time.Hour, 90, even, []*timeline.Reduced{zoned("a/run.sqlite", "n1", h8, time.Minute)}, Options{},
			timeline.Recorded, -h8, "there it does not overlap the traces"},
		{"activity speaks against the folder", "a/dmon.log", "", h8, 90, other, []*timeline.Reduced{zoned("a/run.sqlite", "", h8, time.Minute)}, Options{},
			timeline.Unplaced, 0, "there its utilisation does not agree"},
		{"activity speaks against the host", "a/dmon.log", "n1", h8, 90, other, []*timeline.Reduced{zoned("a/run.sqlite", "n1", h8, time.Minute)}, Options{},
			timeline.Assumed, -h8, "there its utilisation does not agree"},
	} {
		base := &timeline.Timeline{}
		src := logSource(base, c.log, t0+30e9-timeline.Time(c.n/2)*1e9, c.n, c.zone, time.Second, c.f, 0)
		base.Sources[src].Host = c.host
		if strings.Contains(c.what, "even") || c.how == timeline.Recorded || c.how == timeline.Stated {
			for _, tr := range c.traces {
				tr.GPUs = trace(t0, time.Minute, 0, 1, even, 0).GPUs
			}
		}
		Place(base, c.traces, c.opt)
		k := base.Clocks[src]
		if k.How != c.how || !strings.Contains(k.Why, c.says) {
			t.Errorf("%s: %v: %s", c.what, k.How, k.Why)
		}
		near(t, c.what, k.Offset, c.want, 600*time.Millisecond)
	}
}

func TestZoneWithoutTraces(t *testing.T) {
	base := &timeline.Timeline{}
	src := logSource(base, "n/dmon.log", t0, 90, 8*time.Hour, time.Second, activity, 0)
	rec := logSource(base, "n/rec.jsonl", t0, 90, 0, time.Second, activity, 0)
	base.Clocks[rec].How, base.Clocks[rec].Zoned = timeline.Recorded, true
	base.Tracks = append(base.Tracks, timeline.Track{Source: rec, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1})
	base.Attrs = append(base.Attrs, timeline.Attr{Track: timeline.TrackID(len(base.Tracks) - 1), Name: timeline.AttrZone, Value: 8 * 3600})
	Place(base, nil, Options{})
	if c := base.Clocks[src]; c.How != timeline.Recorded || c.Offset != -8*time.Hour || !strings.Contains(c.Why, "n/rec.jsonl of the same folder states") {
		t.Errorf("%+v", c)
	}
}

// wallLog adds a log whose stamps go through a wall clock that changes by an hour at change, UTC.
func wallLog(t *testing.T, start timeline.Time, n int, zone, by time.Duration, change timeline.Time) (*timeline.Timeline, *Input) {
	t.Helper()
	in := NewInput("n/dmon.log", func() (io.ReadCloser, error) { return nil, io.EOF }, nil)
	b := NewBuilder(in, "dmon")
	b.AddClock(0, timeline.Clock{Name: "n/dmon.log", Step: time.Second, Error: 2 * time.Second, Wall: true, Why: "zone not stated"})
	tr := b.GPUTrack(timeline.Device{Index: 0, Ordinal: -1, Proc: -1}, "GPU 0")
	s := b.SeriesOf(timeline.SMBusy, tr)
	w := &WallClock{}
	for i := range n {
		at := start + timeline.Time(i)*5e9
		z := zone
		if at >= change {
			z += by
		}
		stamp := (at + timeline.Time(z)) / 1e9 * 1e9
		before, _ := w.Last()
		got, step := w.At(stamp)
		if step != StepNone && !ReportStep(in, b, "dmon", step, before, got, uint64(i+1)) {
			continue
		}
		b.Reading(s, got, activity(0, at), uint32(i+1))
	}
	tl := b.Finish()
	return tl, in
}

func TestZoneAcrossTheChangeOfClocks(t *testing.T) {
	europe := func(month time.Month, day int) timeline.Time {
		return timeline.Time(time.Date(2026, month, day, 1, 0, 0, 0, time.UTC).UnixNano())
	}
	for _, c := range []struct {
		what   string
		change timeline.Time
		zone   time.Duration // before
		by     time.Duration
		at     timeline.Time // of the trace, from the change
		says   string
	}{
		{"summer time begins, trace before", europe(3, 29), time.Hour, time.Hour, -4000e9, "leaves out one whole hour"},
		{"summer time begins, trace after", europe(3, 29), time.Hour, time.Hour, 4000e9, "leaves out one whole hour"},
		{"summer time ends, trace before", europe(10, 25), 2 * time.Hour, -time.Hour, -4000e9, "repeats an hour"},
		{"summer time ends, trace after", europe(10, 25), 2 * time.Hour, -time.Hour, 4000e9, "repeats an hour"},
	} {
		start := c.change - 9000e9 + 2e9
		base, in := wallLog(t, start, 3600, c.zone, c.by, c.change)
		tr := trace(c.change+c.at, time.Minute, 0, 1, func(int, timeline.Time) float64 { return 1 }, 0)
		tr.Path = "n/run.sqlite"
		z := c.zone
		if c.at > 0 {
			z += c.by
		}
		tr.Process.Meta = map[string]string{zoneMeta: strconv.Itoa(int(z / time.Second))}
		if ps := in.Problems(); len(ps) != 1 || !strings.Contains(ps[0].Message, c.says) {
			t.Errorf("%s: %v", c.what, ps)
		}
		Place(base, []*timeline.Reduced{tr}, Options{})
		k := base.Clocks[0]
		if k.How != timeline.Recorded || k.Offset != -c.zone {
			t.Errorf("%s: %+v", c.what, k)
		}
		s := &base.Series[0]
		if len(s.At) != 3600 {
			t.Fatalf("%s: %d readings", c.what, len(s.At))
		}
		for i, at := range s.At {
			if d := at - (start + timeline.Time(i)*5e9); d > 1e9 || d < -1e9 {
				t.Fatalf("%s: reading %d is %v off", c.what, i, time.Duration(d))
			}
		}
	}
}

// A hole of an hour is a hole, unless it leaves out one whole hour of such a night.
func TestWallClockHole(t *testing.T) {
	for _, c := range []struct {
		last, next string
		want       WallStep
	}{
		{"2026-03-29T01:59:55Z", "2026-03-29T03:00:00Z", StepSkipped}, // Berlin
		{"2026-03-08T01:59:55Z", "2026-03-08T03:00:00Z", StepSkipped}, // New York
		{"2026-03-27T01:59:55Z", "2026-03-27T03:00:00Z", StepSkipped}, // Jerusalem, a Friday
		{"2026-03-28T01:59:55Z", "2026-03-28T03:00:00Z", StepHour},    // a Saturday
		{"2026-03-29T01:30:00Z", "2026-03-29T02:30:05Z", StepHour},
		{"2026-03-29T12:59:55Z", "2026-03-29T14:00:00Z", StepHour},
		{"2026-03-29T01:59:55Z", "2026-03-29T04:00:00Z", StepGap},
	} {
		w := &WallClock{}
		parse := func(s string) timeline.Time {
			x, err := time.Parse(time.RFC3339, s)
			if err != nil {
				t.Fatal(err)
			}
			return timeline.Time(x.UnixNano())
		}
		last, next := parse(c.last), parse(c.next)
		for i := range 20 {
			w.At(last - timeline.Time(19-i)*5e9)
		}
		at, step := w.At(next)
		want := next
		if c.want == StepSkipped {
			want -= 3600e9
		}
		if step != c.want || at != want {
			t.Errorf("%s to %s: step %d at %v", c.last, c.next, step, time.Duration(at-last))
		}
	}
}
