package ledger

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
)

func segEnd(s *timeline.Segment) timeline.Time { return s.Start + timeline.Time(s.Dur) }

// push appends a segment, or lengthens the last one if it goes on with the same owner.
func push(out []timeline.Segment, s timeline.Segment, sameRow bool) []timeline.Segment {
	if s.Dur <= 0 {
		return out
	}
	if n := len(out); n > 0 {
		l := &out[n-1]
		if l.Owner == s.Owner && l.Sub == s.Sub && segEnd(l) == s.Start && (!sameRow || l.Row == s.Row) {
			l.Dur += s.Dur
			return out
		}
	}
	return append(out, s)
}

// segStream gives segments one after the other, disjoint and in order; not ok at the end.
type segStream func() (s timeline.Segment, ok bool)

func streamOf(segs []timeline.Segment) segStream {
	i := 0
	return func() (timeline.Segment, bool) {
		if i == len(segs) {
			return timeline.Segment{}, false
		}
		i++
		return segs[i-1], true
	}
}

// under fills b into the holes of a; both are sorted and disjoint in themselves. What a covers stays a's.
func under(a, b []timeline.Segment) []timeline.Segment {
	if len(b) == 0 {
		return a
	}
	if len(a) == 0 {
		return b
	}
	out := make([]timeline.Segment, 0, len(a)+len(b)+len(b)/2)
	next := newOverlay(streamOf(a), streamOf(b)).next
	for s, ok := next(); ok; s, ok = next() {
		out = append(out, s)
	}
	return out
}

// overlay is under as a stream.
type overlay struct {
	a, b       segStream
	sa, sb     timeline.Segment // that a and b give next
	hasA, hasB bool
	inside     bool          // sb is being filled in: all of it before cur is dealt with
	cur        timeline.Time // in sb
	last       timeline.Time // end of what is out already
}

func newOverlay(a, b segStream) *overlay {
	u := &overlay{a: a, b: b, last: math.MinInt64}
	u.sa, u.hasA = a()
	u.sb, u.hasB = b()
	return u
}

func (u *overlay) take() (timeline.Segment, bool) {
	s, ok := u.sa, u.hasA
	if ok {
		u.last = segEnd(&s)
		u.sa, u.hasA = u.a()
	}
	return s, ok
}

func (u *overlay) piece(end timeline.Time) timeline.Segment {
	return timeline.Segment{Start: u.cur, Dur: int64(end - u.cur), Row: u.sb.Row, Owner: u.sb.Owner, Sub: u.sb.Sub}
}

func (u *overlay) next() (timeline.Segment, bool) {
	for u.hasB {
		if !u.inside {
			if u.hasA && segEnd(&u.sa) <= u.sb.Start {
				return u.take()
			}
			u.inside, u.cur = true, max(u.sb.Start, u.last)
		}
		end := segEnd(&u.sb)
		if u.hasA && u.sa.Start < end {
			if u.sa.Start > u.cur {
				s := u.piece(u.sa.Start)
				u.cur = u.sa.Start
				return s, true
			}
			u.cur = max(u.cur, segEnd(&u.sa))
			return u.take()
		}
		s := u.piece(end)
		u.inside = false
		u.sb, u.hasB = u.b()
		if s.Dur > 0 {
			u.last = end
			return s, true
		}
	}
	return u.take()
}

var classSub = [nClasses]timeline.Sub{ClassMatmul: timeline.SubMatmul, ClassConv: timeline.SubConv, ClassAttention: timeline.SubAttention,
	ClassElementwise: timeline.SubElementwise, ClassReduce: timeline.SubReduce, ClassNorm: timeline.SubNorm, ClassOptimizer: timeline.SubOptimizer,
	ClassCopyCast: timeline.SubCopyCast, ClassMemset: timeline.SubMemset, ClassOther: timeline.SubOther}

// busySegments gives who owns the time in which the device does something: compute, under it communication, under it copies.
func (r *reducer) busySegments(d *device) segStream {
	var some [layerD2H + 1]bool
	for i := range d.ops {
		some[d.ops[i].layer] = true
	}
	out := r.pile(d, func(l layer) bool { return l == layerCompute }, r.computeSub, false)
	if some[layerComm] {
		out = newOverlay(out, r.pile(d, func(l layer) bool { return l == layerComm }, func(*devOp) (timeline.Owner, timeline.Sub) {
			return timeline.CommUndivided, timeline.SubNone
		}, true)).next
	}
	if some[layerH2D] || some[layerD2H] {
		out = newOverlay(out, r.pile(d, func(l layer) bool { return l >= layerH2D }, r.copyOwner, true)).next
	}
	return out
}

// pile gives the time that ops of some layers take, each instant to the op that began first.
func (r *reducer) pile(d *device, want func(layer) bool, sub func(*devOp) (timeline.Owner, timeline.Sub), sameRow bool) segStream {
	sp := &r.tl.Spans
	i, cur := 0, timeline.Time(math.MinInt64)
	var two [2]timeline.Segment // the one that may still grow, and the next
	out := two[:0]
	return func() (timeline.Segment, bool) {
		for i < len(d.ops) {
			op := &d.ops[i]
			i++
			if !want(op.layer) || sp.End[op.span] <= cur {
				continue
			}
			s := max(sp.Start[op.span], cur)
			o, u := sub(op)
			out = push(out, timeline.Segment{Start: s, Dur: int64(sp.End[op.span] - s), Row: sp.Row[op.span], Owner: o, Sub: u}, sameRow)
			cur = sp.End[op.span]
			if len(out) == 2 {
				done := out[0]
				out = append(out[:0], out[1])
				return done, true
			}
		}
		if len(out) == 0 {
			return timeline.Segment{}, false
		}
		done := out[0]
		out = out[:0]
		return done, true
	}
}

func (r *reducer) computeSub(op *devOp) (timeline.Owner, timeline.Sub) {
	if op.rec >= 0 {
		switch f := r.aroundOf(op.rec).flags; {
		case f&recCheckpoint != 0:
			return timeline.Compute, timeline.SubCheckpoint
		case f&recValidation != 0:
			return timeline.Compute, timeline.SubValidation
		}
	}
	return timeline.Compute, classSub[op.class]
}

func (r *reducer) copyOwner(op *devOp) (timeline.Owner, timeline.Sub) {
	if op.rec >= 0 {
		switch f := r.aroundOf(op.rec).flags; {
		case f&recCheckpoint != 0:
			return timeline.HostCheckpoint, timeline.SubNone
		case f&recValidation != 0:
			return timeline.HostValidation, timeline.SubNone
		case f&recLogging != 0:
			return timeline.HostLogging, timeline.SubNone
		}
	}
	sub := timeline.SubNone
	if c := r.copyOf(op.span); c != nil {
		sub = memSub(hostSide(c))
	}
	if op.layer == layerH2D {
		return timeline.CopyH2D, sub
	}
	return timeline.CopyD2H, sub
}

func memSub(m timeline.MemKind) timeline.Sub {
	switch m {
	case timeline.MemPageable:
		return timeline.SubPageable
	case timeline.MemPinned:
		return timeline.SubPinned
	case timeline.MemUnknown:
		return timeline.SubNone
	}
	return timeline.SubOther
}

func (r *reducer) copyOf(span int32) *timeline.Copy {
	c := r.tl.Spans.Copies
	i := sort.Search(len(c), func(i int) bool { return c[i].Span >= span })
	if i < len(c) && c[i].Span == span {
		return &c[i]
	}
	return nil
}

func (r *reducer) commOf(span int32) *timeline.Comm {
	c := r.tl.Spans.Comms
	i := sort.Search(len(c), func(i int) bool { return c[i].Span >= span })
	if i < len(c) && c[i].Span == span {
		return &c[i]
	}
	return nil
}

// gapper attributes the idle gaps of one device, in order of time.
type gapper struct {
	r      *reducer
	out    []timeline.Segment
	order  []int // threads to ask, the launching one first
	over   int   // next of reducer.profiler
	load   int   // next of reducer.loading
	rest   int   // next of reducer.restarts
	refill timeline.Time
	gap    timeline.Interval
	lazy   bool // modules are being loaded, the profiler says
	lazyOf int32
}

// sweep gives segments that tile [lo, hi): the busy ones and, in every gap, who held it.
func (r *reducer) sweep(d *device, lo, hi timeline.Time) []timeline.Segment {
	sp := &r.tl.Spans
	for _, h := range r.threads {
		h.rewind()
	}
	pieces, cur := 0, lo
	for i := range d.ops {
		if end := sp.End[d.ops[i].span]; end > cur {
			pieces, cur = pieces+1, end
		}
	}
	g := &gapper{r: r, out: make([]timeline.Segment, 0, 2*pieces+16), refill: math.MinInt64}
	next := r.busySegments(d)
	busy, more := next()
	flush := func(to timeline.Time) {
		for more && busy.Start < to {
			g.out = append(g.out, busy)
			busy, more = next()
		}
	}
	cur = lo
	var prev *devOp // whose end opens the gap
	for i := range d.ops {
		op := &d.ops[i]
		if sp.End[op.span] <= sp.Start[op.span] {
			continue
		}
		if sp.Start[op.span] > cur {
			flush(cur)
			g.attribute(timeline.Interval{Start: cur, End: sp.Start[op.span]}, op, prev)
		}
		if sp.End[op.span] > cur {
			cur, prev = sp.End[op.span], op
		}
	}
	flush(hi)
	if cur < hi {
		g.attribute(timeline.Interval{Start: cur, End: hi}, nil, prev)
	}
	return g.out
}

func (g *gapper) emit(a, b timeline.Time, o timeline.Owner, u timeline.Sub, row uint32) {
	g.out = push(g.out, timeline.Segment{Start: a, Dur: int64(b - a), Row: row, Owner: o, Sub: u}, false)
}

func (g *gapper) row(span int32) uint32 {
	if span < 0 {
		return 0
	}
	return g.r.tl.Spans.Row[span]
}

// attribute says who held the gap that op n closes; n is nil for the end of the recording.
func (g *gapper) attribute(gap timeline.Interval, n, prev *devOp) {
	r, sp := g.r, &g.r.tl.Spans
	g.gap = gap
	if n == nil || n.rec < 0 {
		switch {
		case n == nil && r.main >= 0:
			g.host(r.main, gap.Start, gap.End)
		case n != nil && gap.End-gap.Start <= switchGap:
			g.emit(gap.Start, gap.End, timeline.GapSwitch, timeline.SubNone, g.row(n.span))
		default:
			row := uint32(0)
			if n != nil {
				row = g.row(n.span)
			}
			g.emit(gap.Start, gap.End, timeline.UnknownOwner, timeline.SubUncorrelated, row)
		}
		return
	}
	rec := &r.recs[n.rec]
	l1 := sp.End[rec.span]
	if l1 <= gap.Start {
		switch row := g.row(n.span); {
		case gap.End-gap.Start <= switchGap:
			g.emit(gap.Start, gap.End, timeline.GapSwitch, timeline.SubNone, row)
		case prev != nil && prev.rec == n.rec && gap.End-gap.Start > graphGap:
			g.emit(gap.Start, gap.End, timeline.UnknownOwner, timeline.SubMissingEvents, row)
		default:
			g.emit(gap.Start, gap.End, timeline.GapQueuedStall, timeline.SubNone, row)
		}
		return
	}
	if prev != nil {
		g.drained(int(r.around[rec.in].thread)) // else nothing ran before that a sync could have waited for
	}
	g.host(int(r.around[rec.in].thread), gap.Start, min(l1, gap.End))
	if l1 < gap.End {
		lag := min(l1+startLag, gap.End)
		g.emit(l1, lag, timeline.HostLaunch, timeline.SubNone, g.row(rec.span))
		g.emit(lag, gap.End, timeline.UnknownOwner, timeline.SubLag, g.row(n.span))
	}
}

// drained sets until when this gap is the refill of a queue that a sync emptied: a blocking call on the launching or the main
// thread ended near the gap's start, and no kernel was launched since.
func (g *gapper) drained(thread int) {
	r := g.r
	for _, t := range [2]int{thread, r.main} {
		if t < 0 {
			continue
		}
		s := r.threads[t].syncNear(g.gap.Start, syncNearby)
		if s == nil {
			continue
		}
		till := r.threads[t].launchAfter(s.end, &r.tl.Spans)
		if t != thread {
			till = min(till, r.threads[thread].launchAfter(s.end, &r.tl.Spans))
		}
		g.refill = max(g.refill, till)
		return
	}
}

// host cuts [a, b) by what the launching thread was doing, then by what it waits for.
func (g *gapper) host(thread int, a, b timeline.Time) {
	r := g.r
	g.order = append(g.order[:0], thread)
	if r.main >= 0 && r.main != thread {
		g.order = append(g.order, r.main)
	}
	for _, t := range r.others {
		if t != thread {
			g.order = append(g.order, t)
		}
	}
	// The profiler's own work that belongs to no thread comes first.
	for a < b {
		end := b
		p := spell(r.profiler, &g.over, a, &end)
		l := spell(r.loading, &g.load, a, &end)
		if g.lazy = l != nil; g.lazy {
			g.lazyOf = l.span
		}
		if p != nil {
			g.emit(a, end, timeline.HostProfiler, timeline.SubNone, g.row(p.span))
		} else {
			g.ask(0, a, end)
		}
		a = end
	}
}

// stretch is a stretch of time and the span that it comes from.
type stretch struct {
	timeline.Interval
	span int32
}

// spell gives the stretch that holds a, nil if none does, and pulls end in to where that changes. next is the caller's place in list.
func spell(list []stretch, next *int, a timeline.Time, end *timeline.Time) *stretch {
	for *next < len(list) && list[*next].End <= a {
		*next++
	}
	if *next == len(list) {
		return nil
	}
	s := &list[*next]
	if s.Start > a {
		*end = min(*end, s.Start)
		return nil
	}
	*end = min(*end, s.End)
	return s
}

// ask takes what thread order[i] shows over [a, b), and where it shows nothing asks the next.
func (g *gapper) ask(i int, a, b timeline.Time) {
	if i == len(g.order) {
		g.slice(a, b, view{ev: evNone, span: -1}, i)
		return
	}
	sp := &g.r.tl.Spans
	h := g.r.threads[g.order[i]]
	for a < b {
		v := h.look(a, b, g.gap, sp)
		end := min(v.end, b)
		switch {
		case v.ev != evNone:
			g.slice(a, end, v, i)
		case g.order[i] == g.r.main:
			g.restart(i, a, end)
		default:
			g.ask(i+1, a, end)
		}
		a = end
	}
}

// restart gives [a, b) to the loader where its workers are being started again, else asks the next thread.
func (g *gapper) restart(i int, a, b timeline.Time) {
	rs := g.r.restarts
	for g.rest < len(rs) && rs[g.rest].End <= a {
		g.rest++
	}
	for k := g.rest; a < b; k++ {
		if k == len(rs) || rs[k].Start >= b {
			g.ask(i+1, a, b)
			return
		}
		if rs[k].Start > a {
			g.ask(i+1, a, rs[k].Start)
			a = rs[k].Start
		}
		end := min(rs[k].End, b)
		g.slice(a, end, view{ev: evLoader, span: -1}, i)
		a = end
	}
}

// slice gives [a, b) the owner that the evidence names, which thread order[i] shows.
func (g *gapper) slice(a, b timeline.Time, v view, i int) {
	if g.lazy && v.ev > evCompile {
		v.ev, v.span = evCompile, g.lazyOf
	}
	if v.ev > evSync && a < g.refill {
		end := min(b, g.refill)
		g.emit(a, end, timeline.HostSync, timeline.SubRefill, g.row(v.span))
		a = end
		if a == b {
			return
		}
	}
	if g.r.os != nil {
		switch {
		case v.ev == evNone:
			g.idle(a, b)
			return
		case v.ev == evLoader && v.span >= 0:
			g.inNext(g.order[i], a, b, g.row(v.span))
			return
		}
	}
	o, u := g.owner(v)
	g.emit(a, b, o, u, g.row(v.span))
}

// owner is whom the evidence names.
func (g *gapper) owner(v view) (timeline.Owner, timeline.Sub) {
	o, u := timeline.HostPython, timeline.SubNone
	switch v.ev {
	case evNone:
		return g.unseen()
	case evProfiler:
		o = timeline.HostProfiler
	case evCheckpoint:
		o = timeline.HostCheckpoint
	case evValidation:
		o = timeline.HostValidation
	case evLogging:
		o = timeline.HostLogging
	case evLoader:
		o = timeline.HostDataloader
	case evAlloc:
		o = timeline.HostAllocator
	case evCompile:
		o = timeline.HostCompile
	case evStaging:
		o, u = timeline.CopyH2D, g.stagingSub(v.span)
	case evSync:
		o = timeline.HostSync
	case evAPI, evCopyCall:
		o = timeline.HostLaunch
	case evOp:
		o = timeline.HostLaunch
		if v.stretch >= longOp {
			o = timeline.HostCPUOp
		}
	}
	return o, u
}

// stagingSub is the memory of the copy that a blocking copy call stages.
func (g *gapper) stagingSub(call int32) timeline.Sub {
	st := g.r.staged
	if i, ok := slices.BinarySearchFunc(st, call, func(a stagedCopy, c int32) int { return cmp.Compare(a.call, c) }); ok {
		return st[i].mem
	}
	return timeline.SubPageable
}

// stagedCopy is the memory of the copy that a blocking copy call stages.
type stagedCopy struct {
	call int32
	mem  timeline.Sub
}

// stage notes what the blocking copy calls stage.
func (r *reducer) stage() {
	for _, h := range r.threads {
		for i, code := range h.code {
			if code != evStaging {
				continue
			}
			link := r.tl.Spans.Link[h.ev[i]]
			if c, ok := slices.BinarySearchFunc(r.copyLinks, link, func(a copyLink, l uint32) int { return cmp.Compare(a.link, l) }); ok {
				r.staged = append(r.staged, stagedCopy{h.ev[i], memSub(r.copyLinks[c].mem)})
			}
		}
	}
}
