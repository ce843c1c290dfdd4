package timeline

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawSegments(t *rapid.T) []Segment {
	at := Time(rapid.Int64Range(-1<<61, 1<<61).Draw(t, "start"))
	n := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(segmentsBlock-2, 2*segmentsBlock+3)).Draw(t, "n")
	gaps := rapid.Bool().Draw(t, "gaps")
	var out []Segment
	for range n {
		if gaps && rapid.IntRange(0, 9).Draw(t, "gap?") == 0 {
			at += Time(rapid.Int64Range(1, 1<<40).Draw(t, "gap"))
		}
		g := Segment{Start: at, Dur: rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 1<<40)).Draw(t, "dur"),
			Row: rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32()).Draw(t, "row"), Owner: Owner(rapid.IntRange(0, int(NOwners)-1).Draw(t, "owner")),
			Sub: Sub(rapid.IntRange(0, int(SubOther)).Draw(t, "sub"))}
		out = append(out, g)
		at += Time(g.Dur)
	}
	return out
}

// What is packed is what comes out again, from any instant on, moved and appended to.
func TestSegmentsKeepTheirList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawSegments(t)
		s := PackSegments(list)
		if s.Len() != len(list) || !slices.Equal(s.List(), list) {
			t.Fatalf("%d of %d segments came out, or others", s.Len(), len(list))
		}
		var blocks []Segment
		for k := range s.Blocks() {
			for g := range s.Block(k) {
				blocks = append(blocks, g)
			}
		}
		if !slices.Equal(blocks, list) {
			t.Fatal("the blocks are not the list")
		}
		from := Time(math.MinInt64)
		if len(list) > 0 {
			g := rapid.SampledFrom(list).Draw(t, "near")
			from = g.Start + Time(rapid.Int64Range(-2, g.Dur+2).Draw(t, "off"))
		}
		want := list
		for len(want) > 0 && want[0].Start+Time(want[0].Dur) <= from {
			want = want[1:]
		}
		if got := slices.Collect(s.From(from)); !slices.Equal(got, want) {
			t.Fatalf("from %d: %d segments, want %d", from, len(got), len(want))
		}
		for g := range s.From(from) { // an early end is kept
			if g != want[0] {
				t.Fatalf("%v, want %v", g, want[0])
			}
			break
		}
		by := Time(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "by"))
		s.Shift(by)
		moved := slices.Clone(list)
		for i := range moved {
			moved[i].Start += by
		}
		if len(moved) > 0 {
			g := moved[len(moved)-1]
			g.Start += Time(g.Dur)
			s.Add(g)
			moved = append(moved, g)
		}
		if !slices.Equal(s.List(), moved) || !s.Equal(PackSegments(moved)) {
			t.Fatal("moved and appended to, it is another list")
		}
		var back Segments
		if err := Unpack(Pack(s), &back); err != nil || !back.Equal(s) {
			t.Fatalf("a digest gives another list: %v", err)
		}
	})
}

func TestSegmentsEqual(t *testing.T) {
	a := []Segment{{Start: 5, Dur: 3, Row: 7, Owner: HostSync}, {Start: 8, Dur: 1, Owner: Compute, Sub: SubConv}}
	for i := range a {
		for _, change := range []func(*Segment){func(g *Segment) { g.Dur++ }, func(g *Segment) { g.Row++ }, func(g *Segment) { g.Owner = CopyH2D }, func(g *Segment) { g.Sub = SubNorm }} {
			b := slices.Clone(a)
			change(&b[i])
			x, y := PackSegments(a), PackSegments(b)
			if x.Equal(y) {
				t.Errorf("%v equals %v", a, b)
			}
		}
	}
	if x, y := PackSegments(a), PackSegments(a[:1]); x.Equal(y) {
		t.Error("a list equals its begin")
	}
}

// A ledger of any size takes a few bytes a segment.
func TestSegmentsAreSmall(t *testing.T) {
	var list []Segment
	at := Time(1_700_000_000_000_000_000)
	for i := range 10_000 {
		g := Segment{Start: at, Dur: int64(2000 + i*7919%60_000), Row: uint32(100_000 + 3*i), Owner: Owner(1 + i%5)}
		at += Time(g.Dur)
		list = append(list, g)
	}
	s := PackSegments(list)
	if n := cap(s.data) + 16*cap(s.blocks); n > 7*len(list) {
		t.Errorf("%d bytes of %d segments", n, len(list))
	}
}
