package ingest

import (
	"time"

	"gpureport/ingest/timeline"
)

// DateUnknown starts Clock.Why of a log that has times of day and no date; Place looks for its day.
const DateUnknown = "date unknown"

// WallStep says what a wall clock without a zone did between two rows.
type WallStep uint8

// Steps of a wall clock.
const (
	StepNone     WallStep = iota
	StepRepeated          // went back over an hour or half an hour it had shown: the end of summer time, mended
	StepBack              // went back: the row's true instant is unknown
	StepEarlier           // went back far: an earlier recording was appended
	StepHour              // jumped an hour ahead: summer time began, or nothing was recorded for an hour
	StepGap               // nothing for more than ten periods
)

const (
	wallSecond = timeline.Time(1e9)
	wallHour   = 3600 * wallSecond
)

// WallClock follows the stamps of a log whose clock states no zone and may jump.
type WallClock struct {
	shift, last timeline.Time
	started     bool
	steps       [16]timeline.Time // recent periods
	n           int
}

// Period is the usual distance of sampling cycles so far; 0 unknown.
func (w *WallClock) Period() timeline.Time {
	n := min(w.n, len(w.steps))
	if n == 0 {
		return 0
	}
	s := w.steps
	for i := 1; i < n; i++ {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	return s[n/2]
}

// At gives the instant of a row stamped stamp, on the log's own clock with the repeated hour of summer time unfolded.
func (w *WallClock) At(stamp timeline.Time) (at timeline.Time, step WallStep) {
	at = stamp + w.shift
	if !w.started {
		w.started, w.last = true, at
		return at, StepNone
	}
	d := at - w.last
	period := w.Period()
	slack := 2*period + 2*wallSecond
	switch {
	case d < -wallSecond:
		for _, h := range []timeline.Time{wallHour, wallHour / 2} {
			if back := d + h; back >= 0 && back <= slack && period > 0 {
				w.shift += h
				w.last = at + h
				return at + h, StepRepeated
			}
		}
		if d < -2*wallHour {
			w.last = at
			return at, StepEarlier
		}
		return at, StepBack
	case period > 0 && d > 10*period && d > 3*wallSecond:
		step = StepGap
		if over := d - wallHour; over >= 0 && over <= slack {
			step = StepHour
		}
	case d >= 5e6: // rows of one cycle lie closer
		w.steps[w.n%len(w.steps)] = d
		w.n++
	}
	w.last = max(w.last, at)
	return at, step
}

// Last is the instant of the last row; false before the first.
func (w *WallClock) Last() (timeline.Time, bool) { return w.last, w.started }

// ReportStep marks and reports a jump of the wall clock; false: the row's instant is not known, drop it.
func ReportStep(in *Input, b *timeline.Builder, format string, step WallStep, before, at timeline.Time, row uint64) bool {
	d := time.Duration(at - before)
	say, keep := "", true
	switch step {
	case StepGap:
		in.Report(format+"/gap", timeline.Info, row, "no rows for %v", d)
		return true
	case StepRepeated:
		say = "the clock repeats an hour it has shown, as at the end of summer time: rows after it are moved to follow on"
	case StepHour:
		say = "the clock jumps an hour ahead: summer time began, or nothing was recorded for an hour; times are kept as written"
	case StepEarlier:
		say = "rows are older than those above: an earlier recording was appended; they are put in order of time"
	case StepBack:
		say, keep = "the clock went back: rows until it catches up are dropped, for their true time is unknown", false
	}
	sev := timeline.Info
	if !keep {
		sev = timeline.DataLoss
	}
	in.Report(format+"/clock-step", sev, row, "%s", say)
	if keep || !b.HasMarkSince(timeline.MarkClockStep, at) {
		t := b.Track(timeline.Track{Source: in.Source, Proc: -1, Device: -1, Thread: -1, Name: "clock"})
		b.AddMark(timeline.MarkClockStep, t, at, say, uint32(row))
	}
	return keep
}
