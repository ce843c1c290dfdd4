package ingest

import (
	"math"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

const t0 = timeline.Time(1_784_016_000e9) // 2026-07-14T08:00:00Z

// activity is a made-up utilisation that repeats nowhere: another level every three seconds.
func activity(gpu int, at timeline.Time) float64 {
	x := uint64(at/3e9)*0x9e3779b97f4a7c15 + uint64(gpu)*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x%101) / 100
}

// trace records GPUs for dur from start in bins of 50 ms.
func trace(start timeline.Time, dur time.Duration, rank, world int, f func(gpu int, at timeline.Time) float64, gpus ...int) *timeline.Reduced {
	r := &timeline.Reduced{Path: "rank.json", Process: timeline.Process{Rank: rank, WorldSize: world}, Recorded: timeline.Interval{Start: start, End: start + timeline.Time(dur)}}
	for i, g := range gpus {
		b := timeline.BusyBins{Start: start, Bin: 50 * time.Millisecond}
		for k := range int(dur / b.Bin) {
			b.Busy = append(b.Busy, float32(f(g, start+timeline.Time(k)*50e6)))
		}
		r.GPUs = append(r.GPUs, timeline.GPULedger{Device: timeline.Device{Index: -1, Ordinal: i, Proc: 0}, Bins: b})
	}
	return r
}

// logSource adds a log to base: GPUs sampled once a second from start, its stamps moved by zone and cut to grain.
func logSource(base *timeline.Timeline, path string, start timeline.Time, n int, zone, grain time.Duration, f func(gpu int, at timeline.Time) float64, gpus ...int) timeline.SourceID {
	src := timeline.SourceID(len(base.Sources))
	base.Clocks = append(base.Clocks, timeline.Clock{Name: path, Step: grain, Error: 2 * time.Second, Wall: true, Why: "zone not stated"})
	base.Sources = append(base.Sources, timeline.Source{Path: path, Format: "dmon", Used: true, Clock: timeline.ClockID(src)})
	for _, g := range gpus {
		dev := timeline.DeviceID(len(base.Devices))
		base.Devices = append(base.Devices, timeline.Device{Index: g, Ordinal: -1, Proc: -1, Source: src})
		base.Tracks = append(base.Tracks, timeline.Track{Source: src, Kind: timeline.TrackGPU, Device: dev, Proc: -1, Thread: -1})
		s := timeline.Series{Metric: timeline.SMBusy, Track: timeline.TrackID(len(base.Tracks) - 1)}
		for i := range n {
			at := start + timeline.Time(i)*1e9
			mean := 0.0
			for k := range 20 { // the reading looks back over a second
				mean += f(g, at-timeline.Time(k)*50e6) / 20
			}
			stamp := (at + timeline.Time(zone)) / timeline.Time(grain) * timeline.Time(grain)
			s.At, s.Value, s.Row = append(s.At, stamp), append(s.Value, math.Round(mean*100)/100), append(s.Row, uint32(i+1))
		}
		base.Series = append(base.Series, s)
	}
	base.Sources[src].Coverage = base.CoverageOf(src, 0)
	return src
}

func near(t *testing.T, what string, got, want, within time.Duration) {
	t.Helper()
	if d := got - want; d > within || d < -within {
		t.Errorf("%s: %v, want %v within %v", what, got, want, within)
	}
}

func TestPlaceByOverlap(t *testing.T) {
	base := &timeline.Timeline{}
	// 90 s of log in UTC+08:00 around 40 s of trace: whole hours away nothing overlaps.
	src := logSource(base, "dmon.log", t0-20e9, 90, 8*time.Hour, time.Second, activity, 0)
	first := base.Series[0].At[0]
	Place(base, []*timeline.Reduced{trace(t0, 40*time.Second, 0, 1, activity, 0)}, Options{})
	c := base.Clocks[src]
	if c.How != timeline.Matched || !strings.Contains(c.Why, "UTC+08:00") || !strings.Contains(c.Why, "activity agrees") {
		t.Fatalf("%+v", c)
	}
	near(t, "offset", c.Offset, -8*time.Hour, 600*time.Millisecond)
	if c.Error != time.Second {
		t.Errorf("error %v", c.Error)
	}
	if got := time.Duration(base.Series[0].At[0] - first); got != c.Offset {
		t.Errorf("readings moved by %v, clock says %v", got, c.Offset)
	}
	if cov := base.Sources[src].Coverage; len(cov) != 1 || cov[0].Start != base.Series[0].At[0]-1e9 {
		t.Errorf("coverage %v", cov)
	}
	if base.Window.Start > t0 || base.Window.End < t0+40e9 || base.Epoch.Unix() != 0 {
		t.Errorf("window %v, epoch %v", base.Window, base.Epoch)
	}
}

func TestPlaceFindsALag(t *testing.T) {
	base := &timeline.Timeline{}
	late := 2700 * time.Millisecond // the log's machine was late
	src := logSource(base, "dmon.log", t0-20e9, 90, -late, time.Second, activity, 0)
	Place(base, []*timeline.Reduced{trace(t0, 60*time.Second, 0, 1, activity, 0)}, Options{TZ: "Z"})
	c := base.Clocks[src]
	if c.How != timeline.Stated {
		t.Fatalf("%+v", c)
	}
	near(t, "offset", c.Offset, late, 700*time.Millisecond)
}

func TestPlaceRefusesAPeriodicPattern(t *testing.T) {
	base := &timeline.Timeline{}
	wave := func(_ int, at timeline.Time) float64 { return 0.5 + 0.5*math.Sin(2*math.Pi*float64(at-t0)/4e9) }
	src := logSource(base, "dmon.log", t0-20e9, 90, 0, time.Second, wave, 0)
	Place(base, []*timeline.Reduced{trace(t0, 40*time.Second, 0, 1, wave, 0)}, Options{TZ: "+00:00"})
	if c := base.Clocks[src]; c.Offset != 0 || c.Error != 2*time.Second || !strings.Contains(c.Why, "not refined") {
		t.Errorf("a shift of one period is as good, yet %+v", c)
	}
}

func TestPlaceSeveralZones(t *testing.T) {
	// Five hours of log: nine zones overlap. Only activity can tell.
	for _, c := range []struct {
		what string
		dur  time.Duration
		f    func(int, timeline.Time) float64
		how  timeline.Placement
	}{
		{"activity decides", 60 * time.Second, activity, timeline.Matched},
		{"flat activity does not", 60 * time.Second, func(int, timeline.Time) float64 { return 1 }, timeline.Unplaced},
		{"a short trace does not", 3 * time.Second, activity, timeline.Unplaced},
	} {
		base := &timeline.Timeline{}
		src := logSource(base, "dmon.log", t0-9000e9, 18000, 5*time.Hour+30*time.Minute, time.Second, c.f, 0)
		before := base.Series[0].At[0]
		Place(base, []*timeline.Reduced{trace(t0, c.dur, 0, 1, c.f, 0)}, Options{})
		k := base.Clocks[src]
		if k.How != c.how {
			t.Errorf("%s: %+v", c.what, k)
			continue
		}
		if c.how == timeline.Unplaced {
			if base.Series[0].At[0] != before || !strings.Contains(k.Why, "--tz") {
				t.Errorf("%s: %+v", c.what, k)
			}
			continue
		}
		near(t, c.what, k.Offset, -(5*time.Hour + 30*time.Minute), 600*time.Millisecond)
		if want := time.Second + 18000*time.Second/1e6*50; k.Error < want-time.Millisecond || k.Error > want+time.Millisecond {
			t.Errorf("%s: error %v, want %v: drift of 50 ppm over five hours", c.what, k.Error, want)
		}
	}
}

func TestPlaceOtherwise(t *testing.T) {
	tr := []*timeline.Reduced{trace(t0, 40*time.Second, 0, 1, activity, 0)}
	place := func(zone time.Duration, start timeline.Time, opt Options, traces []*timeline.Reduced, change func(*timeline.Clock)) (timeline.Clock, timeline.Time) {
		base := &timeline.Timeline{}
		src := logSource(base, "dmon.log", start, 90, zone, time.Second, activity, 0)
		if change != nil {
			change(&base.Clocks[src])
		}
		before := base.Series[0].At[0]
		Place(base, traces, opt)
		return base.Clocks[src], base.Series[0].At[0] - before
	}
	if c, moved := place(8*time.Hour, t0-20e9, Options{}, nil, nil); c.How != timeline.Assumed || moved != 0 || !strings.Contains(c.Why, "as if its clock were UTC") {
		t.Errorf("no trace: %+v", c)
	}
	if c, moved := place(8*time.Hour, t0-20e9, Options{TZ: "+8"}, nil, nil); c.How != timeline.Stated || moved != -8*3600e9 {
		t.Errorf("no trace, --tz: %+v, %v", c, moved)
	}
	if c, moved := place(8*time.Hour, t0-20e9, Options{}, []*timeline.Reduced{trace(0, 40*time.Second, 0, 1, activity, 0)}, nil); c.How != timeline.Unplaced || moved != 0 || !strings.Contains(c.Why, "axis of its own") {
		t.Errorf("a trace without epoch: %+v", c)
	}
	if c, moved := place(0, t0-40*24*3600e9, Options{}, tr, nil); c.How != timeline.Unplaced || moved != 0 || !strings.Contains(c.Why, "at no zone") {
		t.Errorf("another month: %+v", c)
	}
	if c, moved := place(0, t0-20e9, Options{}, tr, func(c *timeline.Clock) { c.Wall = false }); c.How != timeline.Unplaced || moved != 0 {
		t.Errorf("no wall clock: %+v", c)
	}
	if c, moved := place(0, t0-20e9, Options{TZ: "+08:00"}, tr, func(c *timeline.Clock) { c.Zoned, c.How = true, timeline.Recorded }); c.How != timeline.Recorded || moved != 0 {
		t.Errorf("it states its zone: %+v", c)
	}
	// Of the same minute but of another run: the only zone that overlaps does not agree.
	base := &timeline.Timeline{}
	src := logSource(base, "dmon.log", t0-20e9, 90, 8*time.Hour, time.Second, func(_ int, at timeline.Time) float64 {
		return math.Round(math.Mod(float64(at-t0)/1e9*0.618, 1))
	}, 0)
	Place(base, tr, Options{})
	if c := base.Clocks[src]; c.How == timeline.Matched && strings.Contains(c.Why, "activity agrees") {
		t.Errorf("another run's log agrees: %+v", c)
	}
}

func TestPlaceTimeOfDay(t *testing.T) {
	base := &timeline.Timeline{}
	src := logSource(base, "dmon.log", t0-20e9, 90, 8*time.Hour, time.Second, activity, 0)
	s := &base.Series[0]
	d := s.At[0] / day * day
	for i := range s.At {
		s.At[i] -= d
	}
	base.Clocks[src].Why = DateUnknown + ": dmon ran with -o T"
	Place(base, []*timeline.Reduced{trace(t0, 40*time.Second, 0, 1, activity, 0)}, Options{})
	c := base.Clocks[src]
	if c.How != timeline.Matched || !strings.Contains(c.Why, "date taken from the traces") {
		t.Fatalf("%+v", c)
	}
	near(t, "first reading", time.Duration(s.At[0]), time.Duration(t0-20e9), time.Second)
}

func TestPlaceByANeighbour(t *testing.T) {
	base := &timeline.Timeline{}
	logSource(base, "n/dmon.log", t0-20e9, 90, 8*time.Hour, time.Second, activity, 0)
	long := logSource(base, "n/long.log", t0-9000e9, 18000, 8*time.Hour, time.Second, func(int, timeline.Time) float64 { return 1 }, 0)
	far := logSource(base, "m/long.log", t0-9000e9, 18000, 8*time.Hour, time.Second, func(int, timeline.Time) float64 { return 1 }, 0)
	Place(base, []*timeline.Reduced{trace(t0, 40*time.Second, 0, 1, activity, 0)}, Options{})
	if c := base.Clocks[long]; c.How != timeline.Assumed || c.Offset != -8*time.Hour {
		t.Errorf("neighbour: %+v", c)
	}
	if c := base.Clocks[far]; c.How != timeline.Unplaced {
		t.Errorf("another folder: %+v", c)
	}
}

// A dump taken seconds before or behind the traces overlaps them at no zone; where a neighbour tells the zone it lies there. One of another day does not.
func TestPlaceBesideTheTraces(t *testing.T) {
	for _, c := range []struct {
		from time.Duration // of the traces' end
		want timeline.Placement
	}{{500 * time.Millisecond, timeline.Assumed}, {20 * time.Minute, timeline.Assumed}, {26 * time.Hour, timeline.Unplaced}} {
		base := &timeline.Timeline{}
		logSource(base, "run/query.csv", t0-20e9, 90, 8*time.Hour, time.Second, activity, 0)
		end := t0 + timeline.Time(40*time.Second)
		src := logSource(base, "run/smi-q.txt", end+timeline.Time(c.from), 1, 8*time.Hour, time.Millisecond, activity, 0)
		Place(base, []*timeline.Reduced{trace(t0, 40*time.Second, 0, 1, activity, 0)}, Options{})
		clock := base.Clocks[src]
		if clock.How != c.want {
			t.Errorf("%v behind the traces: %+v", c.from, clock)
		}
		if clock.How == timeline.Assumed {
			near(t, "place", time.Duration(base.Series[1].At[0]-end), c.from, time.Second)
			if !strings.Contains(clock.Why, "as for another log of the same folder") || strings.Contains(clock.Why, "wrong") {
				t.Error(clock.Why)
			}
		}
	}
}

func TestParseTZ(t *testing.T) {
	for s, want := range map[string]time.Duration{"+08:00": 8 * time.Hour, "-0330": -3*time.Hour - 30*time.Minute, "+8": 8 * time.Hour, "Z": 0, "utc": 0, "+05:45": 5*time.Hour + 45*time.Minute} {
		if got, err := ParseTZ(s); err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "8", "Asia/Shanghai", "+15:00", "+08:60", "08:00"} {
		if got, err := ParseTZ(s); err == nil {
			t.Errorf("%q gives %v", s, got)
		}
	}
}

func TestWallClockPeriod(t *testing.T) {
	w := &WallClock{}
	for i := range 10 {
		w.At(timeline.Time(i) * 5e9)
		w.At(timeline.Time(i)*5e9 + 2e6) // the next GPU of the cycle
	}
	if got := w.Period(); got < 49e8 || got > 5e9 {
		t.Errorf("period %v", time.Duration(got))
	}
}
