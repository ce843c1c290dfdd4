package timeline

import (
	"cmp"
	"runtime/debug"
	"slices"
)

// Builder collects what one source gives and turns it into a Timeline. The zero value is ready for use; not safe for
// concurrent use. Readers fill TL's tables directly, except spans, which go through AddSpan, and side rows in numbers, which
// have their own methods too; those in TL.Spans count as well.
type Builder struct {
	TL Timeline

	chunks  []*SpanChunk
	n       int
	copies  sideRows[Copy]
	kernels sideRows[KernelArgs]
	comms   sideRows[Comm]
	shapes  sideRows[Shape]
	tracks  map[trackKey]TrackID

	launches map[Launch]int32
	recent   [256]recentLaunch // what the map need not be asked for
}

const (
	chunkBits = 15
	chunkSize = 1 << chunkBits
	chunkMask = chunkSize - 1
)

// Span is one row of Spans.
type Span struct {
	Track      TrackID
	Kind       SpanKind
	Start, End Time
	Name       StringID
	Link, Row  uint32
}

// SpanChunk is a stretch of the spans added so far, in the order of adding; all columns have the same length.
// Each column is let go on its own while Finish copies it, so that the peak stays near one copy.
type SpanChunk struct {
	Track      []TrackID
	Kind       []SpanKind
	Start, End []Time
	Name       []StringID
	Link, Row  []uint32
}

type trackKey struct {
	source SourceID
	table  StringID
	kind   TrackKind
	proc   int
	device DeviceID
	thread int64
	name   string
}

// Source gives the source of id and makes room for it if the caller has not.
func (b *Builder) Source(id SourceID) *Source {
	for len(b.TL.Sources) <= int(id) {
		b.TL.Sources = append(b.TL.Sources, Source{})
	}
	return &b.TL.Sources[id]
}

// AddClock adds a clock and makes it the source's.
func (b *Builder) AddClock(src SourceID, c Clock) ClockID {
	b.TL.Clocks = append(b.TL.Clocks, c)
	id := ClockID(len(b.TL.Clocks) - 1)
	b.Source(src).Clock = id
	return id
}

// AddProc adds a process and gives its index in Procs.
func (b *Builder) AddProc(p Process) int {
	b.TL.Procs = append(b.TL.Procs, p)
	return len(b.TL.Procs) - 1
}

// AddDevice adds a device.
func (b *Builder) AddDevice(d Device) DeviceID {
	b.TL.Devices = append(b.TL.Devices, d)
	return DeviceID(len(b.TL.Devices) - 1)
}

// Track finds the track of t's source, table, kind, process, device and thread (and name, if the thread is -1) or adds it.
func (b *Builder) Track(t Track) TrackID {
	k := trackKey{source: t.Source, table: t.Table, kind: t.Kind, proc: t.Proc, device: t.Device, thread: t.Thread}
	if t.Thread == -1 {
		k.name = t.Name
	}
	if id, ok := b.tracks[k]; ok {
		return id
	}
	if b.tracks == nil {
		b.tracks = make(map[trackKey]TrackID)
	}
	b.TL.Tracks = append(b.TL.Tracks, t)
	id := TrackID(len(b.TL.Tracks) - 1)
	b.tracks[k] = id
	return id
}

// AddSpan adds a span and gives its number, which side rows use as Span; Finish renumbers both.
func (b *Builder) AddSpan(s Span) int32 {
	if b.n&chunkMask == 0 {
		n := chunkSize
		if b.n == 0 {
			n = 64 // most timelines are small: the first chunk grows
		}
		b.chunks = append(b.chunks, newChunk(n))
	}
	c := b.chunks[len(b.chunks)-1]
	c.Track = append(c.Track, s.Track)
	c.Kind = append(c.Kind, s.Kind)
	c.Start = append(c.Start, s.Start)
	c.End = append(c.End, s.End)
	c.Name = append(c.Name, s.Name)
	c.Link = append(c.Link, s.Link)
	c.Row = append(c.Row, s.Row)
	b.n++
	return int32(b.n - 1)
}

func newChunk(n int) *SpanChunk {
	return &SpanChunk{
		Track: make([]TrackID, 0, n), Kind: make([]SpanKind, 0, n), Start: make([]Time, 0, n), End: make([]Time, 0, n),
		Name: make([]StringID, 0, n), Link: make([]uint32, 0, n), Row: make([]uint32, 0, n),
	}
}

// NSpans is the number of spans added so far.
func (b *Builder) NSpans() int { return b.n }

// EachChunk shows the spans added so far in order, to be changed in place. A span whose Track is set to -1 is dropped by
// Finish together with its side rows.
func (b *Builder) EachChunk(f func(first int, c *SpanChunk)) {
	for i, c := range b.chunks {
		f(i<<chunkBits, c)
	}
}

// SpanAt is span i as added.
func (b *Builder) SpanAt(i int32) Span {
	c, j := b.chunks[i>>chunkBits], i&chunkMask
	return Span{c.Track[j], c.Kind[j], c.Start[j], c.End[j], c.Name[j], c.Link[j], c.Row[j]}
}

// Finish sorts what was added, sets Window and gives the Timeline. The Builder must not be used afterwards.
func (b *Builder) Finish() *Timeline {
	tl := &b.TL
	if b.n == 0 && tl.Spans.Len() > 0 { // columns that were filled without AddSpan
		s := &tl.Spans
		for i := range s.Start {
			b.AddSpan(Span{s.Track[i], s.Kind[i], s.Start[i], s.End[i], s.Name[i], s.Link[i], s.Row[i]})
		}
	}
	b.finishSpans()
	tl.Marks.Sort()
	slices.SortStableFunc(tl.Problems, func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.Path, y.Path), cmp.Compare(x.Row, y.Row), cmp.Compare(x.Code, y.Code))
	})
	tl.Window = cover(tl)
	b.chunks, b.tracks, b.launches = nil, nil, nil
	return tl
}

// finishSpans gathers the chunks into sorted columns, one column at a time.
func (b *Builder) finishSpans() {
	s := &b.TL.Spans
	order := b.order()
	GiveBack(b.n)
	runs := runsOf(order)
	s.Track = gather(b.chunks, order, runs, func(c *SpanChunk) *[]TrackID { return &c.Track })
	s.Kind = gather(b.chunks, order, runs, func(c *SpanChunk) *[]SpanKind { return &c.Kind })
	s.Start = gather(b.chunks, order, runs, func(c *SpanChunk) *[]Time { return &c.Start })
	s.End = gather(b.chunks, order, runs, func(c *SpanChunk) *[]Time { return &c.End })
	GiveBack(b.n)
	s.Name = gather(b.chunks, order, runs, func(c *SpanChunk) *[]StringID { return &c.Name })
	s.Link = gather(b.chunks, order, runs, func(c *SpanChunk) *[]uint32 { return &c.Link })
	s.Row = gather(b.chunks, order, runs, func(c *SpanChunk) *[]uint32 { return &c.Row })
	b.chunks = nil
	row := make([]int32, b.n) // of a side table by span, +1
	s.Copies = finishSide(s.Copies, &b.copies, order, row, func(r *Copy) *int32 { return &r.Span })
	s.Kernels = finishSide(s.Kernels, &b.kernels, order, row, func(r *KernelArgs) *int32 { return &r.Span })
	s.Comms = finishSide(s.Comms, &b.comms, order, row, func(r *Comm) *int32 { return &r.Span })
	s.Shapes = finishSide(s.Shapes, &b.shapes, order, row, func(r *Shape) *int32 { return &r.Span })
}

// GiveBack returns to the system what a timeline of so many spans has let go, if they are many: their columns are so long that what lies
// between them fits no other and would stay taken. It costs some milliseconds.
func GiveBack(spans int) {
	const many = 1 << 20
	if spans >= many {
		debug.FreeOSMemory()
	}
}

// sideRows is a list that grows without copying what it has.
type sideRows[T any] struct {
	parts [][]T
	n     int
}

// All parts but the first have sidePart rows.
const sideFirst, sidePart = 16, 1 << 12

func (s *sideRows[T]) add(r T) {
	if last := len(s.parts) - 1; last >= 0 && len(s.parts[last]) < cap(s.parts[last]) {
		s.parts[last] = append(s.parts[last], r)
	} else {
		n := sidePart
		if s.n == 0 {
			n = sideFirst
		}
		s.parts = append(s.parts, append(make([]T, 0, n), r))
	}
	s.n++
}

func (s *sideRows[T]) at(k int) T {
	if k < sideFirst {
		return s.parts[0][k]
	}
	k -= sideFirst
	return s.parts[1+k/sidePart][k%sidePart]
}

func (s *sideRows[T]) each(direct []T, f func(*T)) {
	for i := range direct {
		f(&direct[i])
	}
	for _, p := range s.parts {
		for i := range p {
			f(&p[i])
		}
	}
}

// finishSide gives the rows in the new order of their spans, with the new numbers. Of two rows of one span the later one
// stays; a row without span goes, and so does one of a dropped span. row is room for one number a span, all 0, and is left so.
func finishSide[T any](direct []T, s *sideRows[T], order []uint32, row []int32, span func(*T) *int32) []T {
	if len(direct)+s.n == 0 {
		return nil
	}
	n := int32(0)
	s.each(direct, func(r *T) {
		n++
		if p := *span(r); p >= 0 && int(p) < len(row) {
			row[p] = n
		}
	})
	out := make([]T, 0, n)
	for i, p := range order {
		if k := int(row[p]) - 1; k >= 0 {
			var r T
			if k < len(direct) {
				r = direct[k]
			} else {
				r = s.at(k - len(direct))
			}
			*span(&r) = int32(i)
			out = append(out, r)
		}
	}
	clear(row)
	*s = sideRows[T]{}
	return out
}

// AddCopy, AddComm and AddShape add side rows; Span is the number that AddSpan gave.
func (b *Builder) AddCopy(r Copy) { b.copies.add(r) }

// AddKernel says how kernel span was launched.
func (b *Builder) AddKernel(span int32, l Launch) {
	b.kernels.add(KernelArgs{Span: span, Launch: b.launch(l)})
}

type recentLaunch struct {
	launch Launch
	n      int32 // +1
}

// maxLaunches bounds the launches that are told apart: a file in which all differ would pay for the map and win nothing.
const maxLaunches = 1 << 16

// launch gives the number of a launch.
func (b *Builder) launch(l Launch) int32 {
	h := uint32(l.Grid[0])*0x9E3779B1 ^ uint32(l.Grid[1])*0x85EBCA6B ^ uint32(l.Grid[2])*0xC2B2AE35 ^ uint32(l.Block[0])*0x27D4EB2F ^ uint32(l.GraphNode)*0x165667B1
	r := &b.recent[h>>24]
	if r.n > 0 && r.launch == l {
		return r.n - 1
	}
	n, ok := b.launches[l]
	if !ok {
		n = int32(len(b.TL.Spans.Launches))
		b.TL.Spans.Launches = append(b.TL.Spans.Launches, l)
		if b.launches == nil {
			b.launches = map[Launch]int32{}
		}
		if len(b.launches) < maxLaunches {
			b.launches[l] = n
		}
	}
	*r = recentLaunch{l, n + 1}
	return n
}

// AddComm is like AddCopy.
func (b *Builder) AddComm(r Comm) { b.comms.add(r) }

// AddShape is like AddCopy.
func (b *Builder) AddShape(r Shape) { b.shapes.add(r) }

// EachCopy and EachComm show the side rows so far, to be changed in place; one whose Span is set to -1 is dropped by Finish.
func (b *Builder) EachCopy(f func(*Copy)) { b.copies.each(b.TL.Spans.Copies, f) }

// EachKernel shows the launches of kernels so far; one that is not kept goes.
func (b *Builder) EachKernel(f func(span int32, l Launch) (keep bool)) {
	b.kernels.each(b.TL.Spans.Kernels, func(r *KernelArgs) {
		if r.Span >= 0 && !f(r.Span, b.TL.Spans.Launches[r.Launch]) {
			r.Span = -1
		}
	})
}

// EachComm is like EachCopy.
func (b *Builder) EachComm(f func(*Comm)) { b.comms.each(b.TL.Spans.Comms, f) }

// order gives the numbers of the kept spans in the order of Spans: a counting sort by track, then each track by itself.
func (b *Builder) order() []uint32 {
	var count []int
	kept := 0
	for _, c := range b.chunks {
		for _, t := range c.Track {
			if t < 0 {
				continue
			}
			for int(t) >= len(count) {
				count = append(count, 0)
			}
			count[t]++
			kept++
		}
	}
	next := make([]int, len(count))
	sum := 0
	for t, n := range count {
		next[t] = sum
		sum += n
	}
	order := make([]uint32, kept)
	for ci, c := range b.chunks {
		for j, t := range c.Track {
			if t < 0 {
				continue
			}
			order[next[t]] = uint32(ci<<chunkBits + j)
			next[t]++
		}
	}
	type key struct {
		start Time
		i     uint32
	}
	end := func(i uint32) Time { return b.chunks[i>>chunkBits].End[i&chunkMask] }
	row := func(i uint32) uint32 { return b.chunks[i>>chunkBits].Row[i&chunkMask] }
	less := func(x, y key) int {
		if x.start != y.start {
			return cmp.Compare(x.start, y.start)
		}
		return cmp.Or(cmp.Compare(end(y.i), end(x.i)), cmp.Compare(row(x.i), row(y.i)), cmp.Compare(x.i, y.i))
	}
	start := func(i uint32) Time { return b.chunks[i>>chunkBits].Start[i&chunkMask] }
	after := func(x, y uint32) bool { // x comes after y
		if sx, sy := start(x), start(y); sx != sy {
			return sx > sy
		}
		return less(key{0, x}, key{0, y}) > 0
	}
	var keys []key
	var room []uint32
	var runs []int
	at := 0
	for _, n := range count {
		part := order[at : at+n]
		at += n
		// Files often hold a track as a few tables or stretches that are each in order.
		runs = append(runs[:0], 0)
		for j := 1; j < len(part) && len(runs) <= maxRuns; j++ {
			if after(part[j-1], part[j]) {
				runs = append(runs, j)
			}
		}
		if len(runs) <= maxRuns {
			if len(runs) > 1 {
				room = slices.Grow(room[:0], n)[:n]
				mergeRuns(part, room, append(runs, n), after)
			}
			continue
		}
		keys = slices.Grow(keys[:0], n)
		for _, i := range part {
			keys = append(keys, key{start(i), i})
		}
		slices.SortFunc(keys, less)
		for j, k := range keys {
			part[j] = k.i
		}
	}
	return order
}

// maxRuns is how many runs of a track are merged; more are sorted.
const maxRuns = 32

// mergeRuns sorts part, which consists of sorted runs that end at bounds[1:], with room of the same length.
func mergeRuns(part, room []uint32, bounds []int, after func(x, y uint32) bool) {
	from, to := part, room
	for len(bounds) > 2 {
		next := bounds[:1]
		for k := 0; k+1 < len(bounds); k += 2 {
			lo, mid := bounds[k], bounds[k+1]
			hi := bounds[min(k+2, len(bounds)-1)]
			i, j := lo, mid
			for o := lo; o < hi; o++ {
				if j >= hi || i < mid && !after(from[i], from[j]) {
					to[o] = from[i]
					i++
				} else {
					to[o] = from[j]
					j++
				}
			}
			next = append(next, hi)
		}
		bounds = next
		from, to = to, from
	}
	if &from[0] != &part[0] {
		copy(part, from)
	}
}

// runsOf gives where in order the spans stop being as they were added, or lie in another chunk; nil where they are too mixed for stretches
// to be worth it.
func runsOf(order []uint32) []uint32 {
	var runs []uint32
	for i := 1; i < len(order); i++ {
		if p := order[i]; p != order[i-1]+1 || p&chunkMask == 0 {
			if len(runs) > len(order)/minRun {
				return nil
			}
			runs = append(runs, uint32(i))
		}
	}
	return append(runs, uint32(len(order)))
}

// minRun is how long runs must be on average to be copied as such.
const minRun = 8

// gather gives one column of all chunks in order.
func gather[T any](chunks []*SpanChunk, order, runs []uint32, col func(*SpanChunk) *[]T) []T {
	cols := make([][]T, len(chunks))
	for i, c := range chunks {
		cols[i], *col(c) = *col(c), nil
	}
	out := make([]T, len(order))
	if len(order) == 0 {
		return out
	}
	if runs == nil {
		for i, p := range order {
			out[i] = cols[p>>chunkBits][p&chunkMask]
		}
		return out
	}
	from := 0
	for _, to := range runs {
		p := order[from]
		copy(out[from:to], cols[p>>chunkBits][p&chunkMask:])
		from = int(to)
	}
	return out
}

// Sort puts the marks in order of time; equal ones stay as they are.
func (m *Marks) Sort() {
	if slices.IsSorted(m.At) {
		return
	}
	order := make([]int, len(m.At))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(m.At[x], m.At[y]) })
	permute(&m.Track, order)
	permute(&m.Kind, order)
	permute(&m.At, order)
	permute(&m.Code, order)
	permute(&m.Name, order)
	permute(&m.Row, order)
}

func permute[T any](col *[]T, order []int) {
	out := make([]T, len(order))
	for i, p := range order {
		out[i] = (*col)[p]
	}
	*col = out
}

// cover is the hull of the spans and the series; a reading over a window starts when its window does.
func cover(tl *Timeline) Interval {
	var iv Interval
	first := true
	add := func(start, end Time) {
		if first {
			iv, first = Interval{start, end}, false
			return
		}
		iv.Start, iv.End = min(iv.Start, start), max(iv.End, end)
	}
	for i, start := range tl.Spans.Start {
		add(start, tl.Spans.End[i])
	}
	for i := range tl.Series {
		s := &tl.Series[i]
		if len(s.At) == 0 {
			continue
		}
		start := s.At[0]
		if s.Metric.Covers == WindowBefore {
			start -= Time(s.Metric.Window)
		}
		add(start, s.At[len(s.At)-1])
	}
	return iv
}
