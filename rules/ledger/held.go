package ledger

import (
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// What the main thread is seen to do itself, by the names of its operators, ranges and Python frames: turn text into tokens, collect
// garbage, start the loader's workers.

// tokenizes tells whether a range or an operator is named after turning text into tokens. "encode" alone is a word for many things: a
// span that launches kernels is none of it, which the caller sees.
func (t *Tables) tokenizes(name, low string) bool {
	if startsAny(low, t.marks) || strings.HasPrefix(low, "aten::") || containsAny(low, t.tokNot) {
		return false
	}
	words := splitWords(name)
	for _, w := range t.tokenWords {
		if hasWords(words, w) {
			return true
		}
	}
	return false
}

// tokenFrame is the same of a Python frame. What moves tokens to a device stands in the same module and is none of it.
func (t *Tables) tokenFrame(low string) bool {
	return containsAny(low, t.tokFrames) && !containsAny(low, t.tokFrNot) && !strings.HasSuffix(low, "): to")
}

// startsWorker tells whether a Python frame starts a process: all words stand in it.
func (t *Tables) startsWorker(low string) bool {
	for _, w := range t.starts {
		if !strings.Contains(low, w) {
			return false
		}
	}
	return len(t.starts) > 0
}

// heldFrame gives the flags of a Python frame's name.
func (t *Tables) heldFrame(low string) (flags uint32) {
	if t.tokenFrame(low) {
		flags |= flagTokens
	}
	if containsAny(low, t.gcSpans) {
		flags |= flagCollect
	}
	if t.startsWorker(low) {
		flags |= flagWorker
	}
	return flags
}

// heldTables fills what the main thread did itself; a loader is expected to start its workers before steady.
func (r *reducer) heldTables(win timeline.Interval, steady timeline.Time) {
	if r.main < 0 {
		return
	}
	sp, t := &r.tl.Spans, &r.red.Rank
	h := r.threads[r.main]
	sorts := []struct {
		flags uint32
		to    *timeline.Held
		spans []int32
		until timeline.Time
	}{{flagTokens, &t.Tokenize, nil, win.Start}, {flagCollect, &t.Collect, nil, win.Start}, {flagWorker, &t.WorkerStarts, nil, steady}}
	inLoader := win.Start // until when the last frame of the loader is open
	for s := r.span[h.track][0]; s < r.span[h.track][1]; s++ {
		var info *hostInfo
		switch sp.Kind[s] {
		case timeline.KindPython:
			info = r.n.frameOf(sp.Name[s])
		case timeline.KindOp, timeline.KindAnnotation:
			info = r.n.hostOf(sp.Name[s])
		default:
			continue
		}
		if sp.Start[s] >= win.End {
			break
		}
		if info.flags&(flagLoaderPy|flagLoader) != 0 {
			inLoader = max(inLoader, sp.End[s])
		}
		for k := range sorts {
			x := &sorts[k]
			switch {
			case info.flags&x.flags == 0 || sp.Start[s] < x.until || sp.End[s] <= sp.Start[s]:
			case x.flags == flagWorker && sp.Start[s] >= inLoader: // a process of something else
			case x.flags == flagTokens && h.launchAfter(sp.Start[s], sp) < sp.End[s]: // a model's own work
			default:
				x.spans, x.until = append(x.spans, s), sp.End[s]
			}
		}
	}
	for k := range sorts {
		r.held(sorts[k].spans, sorts[k].to)
	}
}

// held sums up spans in order that do not overlap.
func (r *reducer) held(spans []int32, to *timeline.Held) {
	if len(spans) == 0 {
		return
	}
	sp := &r.tl.Spans
	by := map[timeline.StringID]int64{}
	ivs := make([]timeline.Interval, 0, len(spans))
	for _, s := range spans {
		d := int64(sp.End[s] - sp.Start[s])
		to.Calls++
		to.NS += d
		to.MaxNS = max(to.MaxNS, d)
		by[sp.Name[s]] += d
		ivs = append(ivs, timeline.Interval{Start: sp.Start[s], End: sp.End[s]})
	}
	best := sp.Name[spans[0]]
	for id, d := range by {
		if b := by[best]; d > b || d == b && r.tl.Names.Get(id) < r.tl.Names.Get(best) {
			best = id
		}
	}
	to.Name = r.tl.Names.Get(best)
	to.GapNS = make([]int64, len(r.red.GPUs))
	for gi := range r.red.GPUs {
		i := 0
		for s := range r.red.GPUs[gi].Segments.All() {
			if !hostsGap(s.Owner) {
				continue
			}
			end := segEnd(&s)
			for i < len(ivs) && ivs[i].End <= s.Start {
				i++
			}
			for k := i; k < len(ivs) && ivs[k].Start < end; k++ {
				to.GapNS[gi] += int64(min(end, ivs[k].End) - max(s.Start, ivs[k].Start))
			}
		}
	}
	long := slices.Clone(spans)
	sort.SliceStable(long, func(i, j int) bool { return sp.End[long[i]]-sp.Start[long[i]] > sp.End[long[j]]-sp.Start[long[j]] })
	for _, s := range long[:min(len(long), keepRows)] {
		to.Rows = append(to.Rows, sp.Row[s])
	}
}

// hostsGap tells whether an owner's time is the GPU waiting for what its host does, or for nobody known.
func hostsGap(o timeline.Owner) bool {
	switch o {
	case timeline.Compute, timeline.GapSwitch, timeline.GapQueuedStall, timeline.CopyH2D, timeline.CopyD2H, timeline.CommTransfer, timeline.CommUndivided,
		timeline.CommPeerWait, timeline.HostProfiler, timeline.HostDescheduled:
		return false
	}
	return true
}
