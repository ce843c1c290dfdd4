package timeline

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Tracks that consist of few sorted runs are merged, others sorted; the order is the same.
func TestOrderOfRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		b := &Builder{}
		runs := 1 + round
		for run := range runs {
			at := Time(rng.IntN(50))
			for range rng.IntN(200) {
				b.AddSpan(Span{Track: TrackID(rng.IntN(2)), Start: at, End: at + Time(rng.IntN(5)), Row: uint32(run)})
				at += Time(rng.IntN(4))
			}
		}
		b.TL.Sources = []Source{{}}
		b.TL.Tracks = make([]Track, 2)
		for i := range b.TL.Tracks {
			b.TL.Tracks[i] = Track{Proc: -1, Device: -1}
		}
		var want []Span
		for i := range b.NSpans() {
			want = append(want, b.SpanAt(int32(i)))
		}
		slices.SortStableFunc(want, func(x, y Span) int {
			s := Spans{Track: []TrackID{x.Track, y.Track}, Start: []Time{x.Start, y.Start}, End: []Time{x.End, y.End}, Row: []uint32{x.Row, y.Row}}
			return spanOrder(&s, 0, 1)
		})
		s := b.Finish().Spans
		for i, w := range want {
			if got := (Span{s.Track[i], s.Kind[i], s.Start[i], s.End[i], s.Name[i], s.Link[i], s.Row[i]}); got != w {
				t.Fatalf("%d runs: span %d is %+v, want %+v", runs, i, got, w)
			}
		}
	}
}
