package timeline

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFinishOrder adds spans in any order, more than a chunk of them, drops some, and wants the rest sorted with their
// side rows.
func TestFinishOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Builder
		b.TL.Sources = []Source{{}}
		nTracks := rapid.IntRange(1, 4).Draw(t, "tracks")
		for i := range nTracks {
			b.Track(Track{Proc: -1, Device: -1, Thread: int64(i)})
		}
		type row struct {
			s     Span
			bytes int64
		}
		n := rapid.SampledFrom([]int{0, 1, 7, 63, 64, 65, chunkSize + 3}).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		next := func(n uint64) uint64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return seed >> 33 % n
		}
		var want []row
		for i := range n {
			start := Time(next(50))
			s := Span{Track: TrackID(next(uint64(nTracks))), Kind: KindMemcpy, Start: start, End: start + Time(next(5)), Row: uint32(i), Link: uint32(next(9))}
			p := b.AddSpan(s)
			r := row{s, -2}
			if next(2) == 0 {
				r.bytes = int64(i)
				b.AddCopy(Copy{Span: p, Bytes: int64(i)})
			}
			if next(10) == 0 {
				b.EachChunk(func(first int, c *SpanChunk) {
					if j := int(p) - first; j >= 0 && j < len(c.Track) {
						c.Track[j] = -1
					}
				})
				continue
			}
			want = append(want, r)
		}
		slices.SortFunc(want, func(x, y row) int {
			return cmp.Or(cmp.Compare(x.s.Track, y.s.Track), cmp.Compare(x.s.Start, y.s.Start), cmp.Compare(y.s.End, x.s.End), cmp.Compare(x.s.Row, y.s.Row))
		})
		tl := b.Finish()
		if err := tl.Validate(); err != nil {
			t.Fatal(err)
		}
		s := &tl.Spans
		if s.Len() != len(want) {
			t.Fatalf("%d spans, want %d", s.Len(), len(want))
		}
		k := 0
		for i, w := range want {
			if got := (Span{s.Track[i], s.Kind[i], s.Start[i], s.End[i], s.Name[i], s.Link[i], s.Row[i]}); got != w.s {
				t.Fatalf("span %d is %+v, want %+v", i, got, w.s)
			}
			if w.bytes < 0 {
				continue
			}
			if c := s.Copies[k]; c.Span != int32(i) || c.Bytes != w.bytes {
				t.Fatalf("copy %d is %+v, want span %d with %d bytes", k, c, i, w.bytes)
			}
			k++
		}
		if k != len(s.Copies) {
			t.Fatalf("%d copies, want %d", len(s.Copies), k)
		}
	})
}

func TestSideRowsAddedEitherWay(t *testing.T) {
	var b Builder
	b.TL.Sources = []Source{{}}
	tr := b.Track(Track{Proc: -1, Device: -1})
	for i := range 3 {
		p := b.AddSpan(Span{Track: tr, Kind: KindKernel, Start: Time(10 - i), End: 20, Row: uint32(i)})
		l := Launch{GraphNode: uint64(i + 1)}
		if i == 1 {
			b.TL.Spans.Launches = append(b.TL.Spans.Launches, l)
			b.TL.Spans.Kernels = append(b.TL.Spans.Kernels, KernelArgs{Span: p, Launch: int32(len(b.TL.Spans.Launches) - 1)})
		} else {
			b.AddKernel(p, l)
		}
	}
	b.EachKernel(func(_ int32, l Launch) bool { return l.GraphNode != 3 })
	tl := b.Finish()
	k, l := tl.Spans.Kernels, tl.Spans.Launches
	if len(k) != 2 || k[0].Span != 1 || l[k[0].Launch].GraphNode != 2 || k[1].Span != 2 || l[k[1].Launch].GraphNode != 1 {
		t.Errorf("%+v %+v", k, l)
	}
	if tl.Window != (Interval{8, 20}) {
		t.Errorf("window %v", tl.Window)
	}
}

func TestTrackIsFoundAgain(t *testing.T) {
	var b Builder
	a := b.Track(Track{Kind: TrackHost, Thread: 7, Name: "x"})
	if got := b.Track(Track{Kind: TrackHost, Thread: 7, Name: "y"}); got != a {
		t.Error("the same thread is two tracks")
	}
	if b.Track(Track{Kind: TrackHost, Thread: -1, Name: "x"}) == b.Track(Track{Kind: TrackHost, Thread: -1, Name: "y"}) {
		t.Error("nameless threads of two names are one track")
	}
}

func TestValidateFindsWhatIsWrong(t *testing.T) {
	good := func() *Timeline {
		var b Builder
		b.TL.Sources = []Source{{}}
		tr := b.Track(Track{Proc: -1, Device: -1})
		b.AddSpan(Span{Track: tr, Kind: KindKernel, Start: 1, End: 3})
		p := b.AddSpan(Span{Track: tr, Kind: KindMemcpy, Start: 2, End: 3, Row: 1})
		b.AddCopy(Copy{Span: p, Bytes: 1})
		return b.Finish()
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Timeline){
		"ends":            func(tl *Timeline) { tl.Spans.End[1] = 1 },
		"not in order":    func(tl *Timeline) { tl.Spans.Start[0] = 3 },
		"track 9 of 1":    func(tl *Timeline) { tl.Spans.Track[1] = 9 },
		"columns":         func(tl *Timeline) { tl.Spans.Row = tl.Spans.Row[:1] },
		"name 5 of 1":     func(tl *Timeline) { tl.Spans.Name[0] = 5 },
		"outside":         func(tl *Timeline) { tl.Window.End = 2 },
		"copy 0: span 7":  func(tl *Timeline) { tl.Spans.Copies[0].Span = 7 },
		"copy 0: {Span:0": func(tl *Timeline) { tl.Spans.Copies[0].Span = 0 },
		"kind 200":        func(tl *Timeline) { tl.Spans.Kind[0] = 200 },
		"process 4 of 0":  func(tl *Timeline) { tl.Tracks[0].Proc = 4 },
		"source 3 of 1":   func(tl *Timeline) { tl.Tracks[0].Source = 3 },
		"mark 0: track 2": func(tl *Timeline) {
			tl.Marks = Marks{[]TrackID{2}, []MarkKind{0}, []Time{1}, []int32{0}, []StringID{0}, []uint32{0}}
		},
		"series 0 x: track": func(tl *Timeline) { tl.Series = []Series{{Metric: Metric{Name: "x"}, Track: 8}} },
	} {
		tl := good()
		spoil(tl)
		if err := tl.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
