package timeline

import (
	"cmp"
	"slices"
	"time"
)

// The algebra below works on sets of instants kept as []Interval: sorted by Start, not empty, not touching. Union makes
// such a set out of any intervals sorted by Start; the others want sets and give sets. All are linear and leave their
// arguments as they are.

// SortIntervals sorts in place by Start, then End.
func SortIntervals(ivs []Interval) {
	slices.SortFunc(ivs, func(x, y Interval) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.End, y.End))
	})
}

// Union joins intervals that overlap or touch. They must be sorted by Start.
func Union(sorted []Interval) []Interval {
	var out []Interval
	for _, iv := range sorted {
		if iv.Empty() {
			continue
		}
		if n := len(out); n > 0 && iv.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, iv.End)
			continue
		}
		out = append(out, iv)
	}
	return out
}

// Intersect gives the instants in both sets.
func Intersect(a, b []Interval) []Interval {
	var out []Interval
	for i, j := 0, 0; i < len(a) && j < len(b); {
		iv := Interval{max(a[i].Start, b[j].Start), min(a[i].End, b[j].End)}
		if !iv.Empty() {
			out = append(out, iv)
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	return out
}

// Subtract gives the instants of a that are not in b.
func Subtract(a, b []Interval) []Interval {
	var out []Interval
	j := 0
	for _, iv := range a {
		for j < len(b) && b[j].End <= iv.Start {
			j++
		}
		at := iv.Start
		for k := j; k < len(b) && b[k].Start < iv.End; k++ {
			if at < b[k].Start {
				out = append(out, Interval{at, b[k].Start})
			}
			at = max(at, b[k].End)
		}
		if at < iv.End {
			out = append(out, Interval{at, iv.End})
		}
	}
	return out
}

// Clip gives the instants of the set inside win.
func Clip(ivs []Interval, win Interval) []Interval {
	var out []Interval
	for _, iv := range ivs {
		if iv.Start >= win.End {
			break
		}
		iv = Interval{max(iv.Start, win.Start), min(iv.End, win.End)}
		if !iv.Empty() {
			out = append(out, iv)
		}
	}
	return out
}

// Len is the sum of the lengths.
func Len(ivs []Interval) time.Duration {
	var d time.Duration
	for _, iv := range ivs {
		d += iv.Dur()
	}
	return d
}
