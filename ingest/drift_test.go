package ingest

import (
	"math"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// A log of two hours whose clock runs off by so many ppm, beside three traces of it.
func TestDrift(t *testing.T) {
	const n = 7200
	for _, ppm := range []float64{0, 400, -400, 2500} {
		base := &timeline.Timeline{}
		src := logSource(base, "dmon.log", t0, n, 0, time.Second, activity, 0)
		s := &base.Series[0]
		for i := range s.At { // the log's clock stands right at its middle
			true_ := t0 + timeline.Time(i)*1e9
			s.At[i] = (true_ + timeline.Time(ppm/1e6*float64(true_-t0-n/2*1e9))) / 1e9 * 1e9
		}
		var trs []*timeline.Reduced
		for _, at := range []timeline.Time{300e9, 2700e9, 4500e9, 6600e9} {
			trs = append(trs, trace(t0+at, 90*time.Second, 0, 1, activity, 0))
		}
		Place(base, trs, Options{TZ: "Z"})
		c := base.Clocks[src]
		worst := time.Duration(0)
		for i, at := range s.At {
			worst = max(worst, time.Duration(math.Abs(float64(at-t0-timeline.Time(i)*1e9))))
		}
		switch {
		case ppm == 0:
			if !strings.Contains(c.Why, "no drift is seen") || c.Error > time.Second+200*time.Millisecond || worst > 1300*time.Millisecond {
				t.Errorf("no drift: %v off: %+v", worst, c)
			}
		case math.Abs(ppm) > 1000:
			if strings.Contains(c.Why, "taken out") {
				t.Errorf("%v ppm is no clock: %+v", ppm, c)
			}
		default:
			if !strings.Contains(c.Why, "ppm is taken out") || worst > 1500*time.Millisecond {
				t.Errorf("%v ppm: %v off: %+v", ppm, worst, c)
			}
		}
	}
}

// Ten minutes are too short to see one.
func TestNoDriftInAShortLog(t *testing.T) {
	base := &timeline.Timeline{}
	src := logSource(base, "dmon.log", t0-20e9, 590, 0, time.Second, activity, 0)
	Place(base, []*timeline.Reduced{trace(t0, 500*time.Second, 0, 1, activity, 0)}, Options{TZ: "Z"})
	if c := base.Clocks[src]; strings.Contains(c.Why, "drift") || c.Error != time.Second {
		t.Errorf("%+v", c)
	}
}

func TestSlide(t *testing.T) {
	for _, c := range []struct {
		what string
		f    func(int, timeline.Time) float64
		opt  Options
		how  timeline.Placement
		says string
	}{
		{"nobody says how far its rows are apart", activity, Options{}, timeline.Unplaced, "no stamps"},
		{"the user does", activity, Options{Set: map[string]string{"period": "1"}}, timeline.Matched, "by activity alone, correlation"},
		{"it fits twice", func(g int, at timeline.Time) float64 { return activity(g, (at-t0)%100e9) }, Options{Set: map[string]string{"period": "1"}}, timeline.Unplaced, "and as well from"},
		{"it fits nowhere", func(g int, at timeline.Time) float64 { return activity(g+1, at) }, Options{Set: map[string]string{"period": "1"}}, timeline.Unplaced, "no stamps"},
	} {
		base := &timeline.Timeline{}
		src := logSource(base, "dmon.log", t0-300e9, 900, 0, time.Millisecond, c.f, 0)
		base.Clocks[src] = timeline.Clock{Name: "dmon.log", Why: "no stamps; shown on an axis of its own"}
		s := &base.Series[0]
		for i := range s.At {
			s.At[i] = timeline.Time(i) * 1e9
		}
		f := activity
		if c.how == timeline.Unplaced && c.says == "and as well from" {
			f = c.f
		}
		Place(base, []*timeline.Reduced{trace(t0, time.Minute, 0, 1, f, 0)}, c.opt)
		k := base.Clocks[src]
		if k.How != c.how || !strings.Contains(k.Why, c.says) {
			t.Errorf("%s: %+v", c.what, k)
		}
		if c.how == timeline.Matched {
			near(t, c.what, time.Duration(s.At[0]), time.Duration(t0-300e9), 500*time.Millisecond)
		}
	}
}
