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
	StepNone         WallStep = iota
	StepRepeated              // went back over an hour it had shown: the end of summer time, mended
	StepRepeatedHalf          // the same by half an hour, as on Lord Howe Island
	StepBack                  // went back: the row's true instant is unknown
	StepEarlier               // went back far: an earlier recording was appended
	StepHour                  // jumped an hour ahead: nothing was recorded for an hour, or perhaps summer time began
	StepSkipped               // jumped over a whole hour of a Sunday or Friday night: summer time began, mended
	StepGap                   // nothing for more than ten periods
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

// At gives the instant of a row stamped stamp, on the log's own clock as it ran when the log began: the repeated and the skipped hour of
// summer time are unfolded.
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
				if h < wallHour {
					return at + h, StepRepeatedHalf
				}
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
			if skipsHour(w.last-w.shift, stamp, slack) {
				w.shift -= wallHour
				w.last = at - wallHour
				return w.last, StepSkipped
			}
		}
	case d >= 5e6: // rows of one cycle lie closer
		w.steps[w.n%len(w.steps)] = d
		w.n++
	}
	w.last = max(w.last, at)
	return at, step
}

// skipsHour tells whether the stamps before and after a jump leave out one whole hour of the clock, in a night in which clocks are changed:
// somewhere between midnight and four of a Sunday or a Friday. A hole in a log that begins and ends just there is not to be expected.
func skipsHour(before, after, slack timeline.Time) bool {
	edge := before/wallHour + 1 // the hour left out
	if edge*wallHour-before > slack || after-(edge+1)*wallHour > slack || after < (edge+1)*wallHour {
		return false
	}
	hour, weekday := edge%24, edge/24%7 // the epoch's first day was a Thursday
	if hour > 3 {
		return false
	}
	if before < 3650*24*wallHour { // no date, so no weekday
		return hour > 0
	}
	return weekday == 1 || weekday == 3
}

// Last is the instant of the last row; false before the first.
func (w *WallClock) Last() (timeline.Time, bool) { return w.last, w.started }

// ReportStep marks and reports a jump of the wall clock; false: the row's instant is not known, drop it. The mark's code is by how many
// seconds the clock's distance from UTC changed, where that was mended.
func ReportStep(in *Input, b *timeline.Builder, format string, step WallStep, before, at timeline.Time, row uint64) bool {
	d := time.Duration(at - before)
	say, keep, change := "", true, int32(0)
	switch step {
	case StepGap:
		in.Report(format+"/gap", timeline.Info, row, "no rows for %v", d)
		return true
	case StepRepeated:
		say = "the clock repeats an hour it has shown, as at the end of summer time: rows after it are moved to follow on"
		change = -3600
	case StepRepeatedHalf:
		say = "the clock repeats half an hour it has shown, as at the end of summer time: rows after it are moved to follow on"
		change = -1800
	case StepSkipped:
		say = "the clock leaves out one whole hour of the night, as at the beginning of summer time: rows after it are moved to follow on"
		change = 3600
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
		b.AddEvent(timeline.MarkClockStep, t, at, change, say, uint32(row))
	}
	return keep
}
