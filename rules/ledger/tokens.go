package ledger

import (
	"fmt"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// unusedSearch sums the time in which DDP walked the graph for parameters that get no gradient.
func (r *reducer) unusedSearch(win timeline.Interval) {
	sp, t := &r.tl.Spans, &r.red.Rank
	var in []timeline.Interval
	for _, h := range r.threads {
		for s := r.span[h.track][0]; s < r.span[h.track][1]; s++ {
			if k := sp.Kind[s]; k != timeline.KindOp && k != timeline.KindAnnotation || sp.Start[s] < win.Start || sp.Start[s] >= win.End ||
				r.n.hostOf(sp.Name[s]).flags&flagUnused == 0 {
				continue
			}
			in = append(in, timeline.Interval{Start: sp.Start[s], End: sp.End[s]})
			if len(t.UnusedRows) < keepRows {
				t.UnusedRows = append(t.UnusedRows, sp.Row[s])
			}
		}
	}
	timeline.SortIntervals(in)
	t.UnusedNS = int64(timeline.Len(timeline.Clip(timeline.Union(in), win)))
}

type tokenKey struct{ kind, a, b int64 }

// tokenSource is one place that a batch's tokens pass: a table of embeddings, or the weight of a linear layer.
type tokenSource struct {
	of    string
	steps []int64
	total int64
	work  float64
}

// tokens counts what each step's batches hold, by the shapes of what an embedding looks up; without embeddings by the rows of the linear
// layer with most work, a figure that only compares ranks. Where attention is given packed rows, as a [tokens, heads, size] query beside
// the bounds of its sequences, those are the tokens without padding.
func (r *reducer) tokens(win timeline.Interval, steps []timeline.Interval) {
	sp, t := &r.tl.Spans, &r.red.Rank
	if len(sp.Shapes) == 0 || len(steps) == 0 {
		return
	}
	const mostSources = 256
	by := map[tokenKey]*tokenSource{}
	var order [2][]*tokenSource // embeddings, linear layers
	parsed := map[timeline.StringID][][]int64{}
	var packed, calls, padded, looks int64
	r.eachShape(func(_ int32, sh *timeline.Shape) {
		at := sp.Start[sh.Span]
		if at < win.Start || at >= win.End {
			return
		}
		name := r.tl.Names.Get(sp.Name[sh.Span])
		kind := 1
		switch {
		case name == "aten::embedding":
			kind = 0
		case name == "aten::linear" || name == "aten::addmm":
		case strings.Contains(name, "varlen_forward") || name == "aten::_flash_attention_forward":
			kind = 2
		default:
			return
		}
		dims, ok := parsed[sh.Dims]
		if !ok {
			dims = parseDims(r.tl.Names.Get(sh.Dims))
			parsed[sh.Dims] = dims
		}
		var n int64
		var key tokenKey
		work := 0.0
		switch kind {
		case 0:
			if len(dims) < 2 || len(dims[0]) != 2 || len(dims[1]) == 0 {
				return
			}
			n = product1(dims[1])
			key = tokenKey{0, dims[0][0], dims[0][1]}
			work = float64(n)
			if len(dims[1]) == 2 && dims[1][0] > 1 && n > 0 {
				padded, looks = padded+n, looks+1
			}
		case 1:
			m, nn, k, _, fits := product(name, dims)
			if !fits {
				return
			}
			n = m
			key = tokenKey{1, nn, k}
			work = float64(m) * float64(nn) * float64(k)
		case 2:
			if len(dims) > 3 && len(dims[0]) == 3 && len(dims[3]) == 1 && dims[3][0] > 1 {
				packed, calls = packed+dims[0][0], calls+1
				if len(t.PaddingRows) < keepRows {
					t.PaddingRows = append(t.PaddingRows, sp.Row[sh.Span])
				}
			}
			return
		}
		k := sort.Search(len(steps), func(i int) bool { return steps[i].End > at })
		if k == len(steps) || at < steps[k].Start || n <= 0 {
			return
		}
		s := by[key]
		if s == nil {
			if len(by) >= mostSources {
				return
			}
			s = &tokenSource{of: fmt.Sprintf("%s %dx%d", [2]string{"embedding", "linear"}[kind], key.a, key.b), steps: make([]int64, len(steps))}
			by[key] = s
			order[kind] = append(order[kind], s)
		}
		s.steps[k] += n
		s.total += n
		s.work += work
	})
	for _, list := range order {
		var best *tokenSource
		for _, s := range list {
			if best == nil || s.work > best.work {
				best = s
			}
		}
		if best != nil {
			t.StepTokens, t.TokensOf = best.steps, best.of
			break
		}
	}
	// Per call both are one batch's tokens; attention is called once a layer, so the means compare.
	if calls > 0 && looks > 0 && packed/calls <= padded/looks {
		t.TokensReal, t.TokensPadded = packed/calls, padded/looks
	} else {
		t.PaddingRows = nil
	}
}

func product1(d []int64) int64 {
	n := int64(1)
	for _, v := range d {
		if v <= 0 || n > 1<<40/max(v, 1) {
			return 0
		}
		n *= v
	}
	return n
}
