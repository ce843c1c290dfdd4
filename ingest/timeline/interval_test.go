package timeline

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const span = 40 // instants of the brute-force model

// bits is the model: which of the first instants a list of intervals holds.
func bits(ivs []Interval) (b [span]bool) {
	for _, iv := range ivs {
		for t := max(iv.Start, 0); t < min(iv.End, span); t++ {
			b[t] = true
		}
	}
	return b
}

func drawIntervals(t *rapid.T, name string) []Interval {
	ivs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Interval {
		start := rapid.IntRange(0, span-1).Draw(t, "start")
		return Interval{Time(start), Time(start + rapid.IntRange(0, 8).Draw(t, "len"))}
	}), 0, 12).Draw(t, name)
	for i := range ivs {
		ivs[i].End = min(ivs[i].End, span)
	}
	SortIntervals(ivs)
	return ivs
}

// isSet is what the algebra promises: sorted, not empty, not overlapping.
func isSet(ivs []Interval, touching bool) bool {
	for i, iv := range ivs {
		if iv.Empty() || i > 0 && (iv.Start < ivs[i-1].End || !touching && iv.Start == ivs[i-1].End) {
			return false
		}
	}
	return true
}

func TestIntervalAlgebra(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ra, rb := drawIntervals(t, "a"), drawIntervals(t, "b")
		a, b := Union(ra), Union(rb)
		if !isSet(a, false) || bits(a) != bits(ra) {
			t.Fatalf("union of %v is %v", ra, a)
		}
		if !slices.Equal(Union(a), a) {
			t.Fatalf("union of %v is not idempotent", a)
		}
		ba, bb := bits(a), bits(b)
		both, only := Intersect(a, b), Subtract(a, b)
		var wantBoth, wantOnly [span]bool
		n := 0
		for i := range span {
			wantBoth[i], wantOnly[i] = ba[i] && bb[i], ba[i] && !bb[i]
			if ba[i] {
				n++
			}
		}
		if !isSet(both, true) || bits(both) != wantBoth {
			t.Fatalf("%v and %v meet in %v", a, b, both)
		}
		if !isSet(only, true) || bits(only) != wantOnly {
			t.Fatalf("%v without %v is %v", a, b, only)
		}
		if Len(a) != Len(both)+Len(only) || int(Len(a)) != n {
			t.Fatalf("%v: %d of %d and %d", a, Len(a), Len(both), Len(only))
		}
		lo := Time(rapid.IntRange(0, span).Draw(t, "lo"))
		win := Interval{lo, lo + Time(rapid.IntRange(0, 20).Draw(t, "len"))}
		if got, want := Clip(a, win), Intersect(a, Union([]Interval{win})); !slices.Equal(got, want) {
			t.Fatalf("%v clipped to %v is %v, want %v", a, win, got, want)
		}
	})
}
