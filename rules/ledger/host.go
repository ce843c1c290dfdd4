package ledger

import (
	"math"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
)

// hostThread is one thread of the process: the spans that say something about who held the time, and a clock that moves over them.
type hostThread struct {
	track    timeline.TrackID
	tid      int64
	ev       []int32    // spans, in the order of the track
	code     []evidence // of ev
	launches []int32    // calls for a kernel, in order
	syncs    []syncCall // by End
	nlaunch  int64      // launch calls that device ops name
	backward bool       // operators of backward ran on it

	// The clock; see at.
	next   int
	stack  []int32 // positions in ev of the open spans, outermost first
	bound  timeline.Time
	nextOp int // position of the next operator or API call, at or after next
}

type syncCall struct {
	end  timeline.Time
	span int32
}

// maxDepth bounds how many open spans are told apart; a hostile file may nest a million.
const maxDepth = 192

// breaks tells whether a span breaks a stretch: operators and API calls do; annotations, frames and the loading of modules do not.
func (h *hostThread) breaks(e int32, sp *timeline.Spans) bool {
	switch c := h.code[e]; {
	case c < evAlloc || c >= evNone:
		return false
	case c == evCompile:
		k := sp.Kind[h.ev[e]]
		return k == timeline.KindOp || k == timeline.KindAPI
	}
	return true
}

func (h *hostThread) rewind() {
	h.next, h.nextOp, h.stack, h.bound = 0, 0, h.stack[:0], math.MinInt64
}

// at moves the clock to t, which never goes back.
func (h *hostThread) at(t timeline.Time, sp *timeline.Spans) {
	keep := h.stack[:0]
	for _, e := range h.stack {
		end := sp.End[h.ev[e]]
		if end > t {
			keep = append(keep, e)
		} else if h.breaks(e, sp) {
			h.bound = max(h.bound, end)
		}
	}
	h.stack = keep
	for h.next < len(h.ev) && sp.Start[h.ev[h.next]] <= t {
		e := h.next
		h.next++
		s := h.ev[e]
		if sp.End[s] > t {
			if len(h.stack) < maxDepth {
				h.stack = append(h.stack, int32(e))
			}
			if h.breaks(int32(e), sp) {
				h.bound = max(h.bound, sp.Start[s])
			}
		} else if h.breaks(int32(e), sp) {
			h.bound = max(h.bound, sp.End[s])
		}
	}
}

// view is what a thread shows from an instant on.
type view struct {
	ev      evidence
	span    int32         // that decided it
	end     timeline.Time // until when nothing changes
	stretch int64         // ns of the whole stretch inside the innermost operator; only for evOp
}

// look moves the clock to x and says what the thread shows there, at most until b. An API call that lies in the gap for long is
// module loading or set-up that the driver did inside it.
func (h *hostThread) look(x, b timeline.Time, gap timeline.Interval, sp *timeline.Spans) view {
	h.at(x, sp)
	v := view{ev: evNone, span: -1, end: b}
	opEnd := timeline.Time(math.MaxInt64)
	for _, e := range h.stack {
		s := h.ev[e]
		c := h.code[e]
		end := sp.End[s]
		v.end = min(v.end, end)
		if h.breaks(e, sp) {
			opEnd = min(opEnd, end)
		}
		if c == evAPI && min(end, gap.End)-max(sp.Start[s], gap.Start) >= longCall {
			c = evCompile
		}
		if c == evCopyCall {
			c = evAPI
		}
		if c <= v.ev && c != evNone {
			v.ev, v.span = c, s
		}
	}
	if h.next < len(h.ev) {
		v.end = min(v.end, sp.Start[h.ev[h.next]])
	}
	if v.ev == evOp {
		h.nextOp = max(h.nextOp, h.next)
		for h.nextOp < len(h.ev) && !h.breaks(int32(h.nextOp), sp) {
			h.nextOp++
		}
		if h.nextOp < len(h.ev) {
			opEnd = min(opEnd, sp.Start[h.ev[h.nextOp]])
		}
		v.stretch = int64(opEnd - h.bound)
	}
	return v
}

// syncNear gives the last blocking call that ended within near of t; nil if none.
func (h *hostThread) syncNear(t, near timeline.Time) *syncCall {
	i := sort.Search(len(h.syncs), func(i int) bool { return h.syncs[i].end > t+near })
	if i == 0 || h.syncs[i-1].end < t-near {
		return nil
	}
	return &h.syncs[i-1]
}

// launchAfter is when the thread first calls for a kernel at or after t.
func (h *hostThread) launchAfter(t timeline.Time, sp *timeline.Spans) timeline.Time {
	i := sort.Search(len(h.launches), func(i int) bool { return sp.Start[h.launches[i]] >= t })
	if i == len(h.launches) {
		return math.MaxInt64
	}
	return sp.Start[h.launches[i]]
}

// launchRec is one launch call that device ops name.
type launchRec struct {
	span int32 // the call
	op   int32 // innermost operator around it, -1 none
	mm   int32 // innermost matrix product or convolution around it, -1 none
	in   int32 // in reducer.around
}

// around is what launches in a row share.
type around struct {
	thread int32 // in reducer.threads
	comm   int32 // row of Spans.Comms of an operator around them, -1 none
	opt    int32 // Optimizer.step around them, -1 none
	coll   int32 // innermost range or operator around them that names a collective, -1 none
	flags  recFlags
}

// launchIn gives the number of what is around a launch.
func (r *reducer) launchIn(a around) int32 {
	if n := len(r.around); n == 0 || r.around[n-1] != a {
		r.around = append(r.around, a)
	}
	return int32(len(r.around) - 1)
}

func (r *reducer) aroundOf(rec int32) *around { return &r.around[r.recs[rec].in] }

type recFlags uint8

const (
	recCheckpoint recFlags = 1 << iota
	recValidation
	recLogging
	recCast // inside aten::to and its kin
	recBackward
	recLayout
)

// links joins correlation numbers with launch calls: dense where the numbers are, sorted where they are scattered.
type links struct {
	base  uint32
	dense []int32  // 0: no device op has it; -1: no call seen; else record+1
	keys  []uint32 // sorted, when dense is nil
	vals  []int32
	n     int // different links
}

func newLinks(wanted []uint32) *links {
	l := &links{}
	if len(wanted) == 0 {
		return l
	}
	lo, hi := slices.Min(wanted), slices.Max(wanted)
	if span := uint64(hi-lo) + 1; span <= 8*uint64(len(wanted))+4096 {
		l.base = lo
		l.dense = make([]int32, span)
		for _, w := range wanted {
			if l.dense[w-lo] == 0 {
				l.n++
			}
			l.dense[w-lo] = -1
		}
		return l
	}
	slices.Sort(wanted)
	l.keys = slices.Clip(slices.Compact(wanted))
	l.vals, l.n = make([]int32, len(l.keys)), len(l.keys)
	for i := range l.vals {
		l.vals[i] = -1
	}
	return l
}

// slot gives the place of a link's record number, nil if no device op has the link.
func (l *links) slot(link uint32) *int32 {
	if link == 0 {
		return nil
	}
	if l.dense != nil {
		if link < l.base || uint64(link-l.base) >= uint64(len(l.dense)) || l.dense[link-l.base] == 0 {
			return nil
		}
		return &l.dense[link-l.base]
	}
	if i, ok := slices.BinarySearch(l.keys, link); ok {
		return &l.vals[i]
	}
	return nil
}

// rec gives the record of a link, -1 if no launch call was seen.
func (l *links) rec(link uint32) int32 {
	p := l.slot(link)
	switch {
	case p == nil || *p == -1:
		return -1
	case l.dense != nil:
		return *p - 1
	}
	return *p
}

func (l *links) set(p *int32, rec int32) {
	if l.dense != nil {
		rec++
	}
	*p = rec
}

// open is one open span while a thread's spans are walked in order.
type open struct {
	end          timeline.Time
	op, mm, comm int32
	opt, coll    int32
	flags        recFlags
}

// markSpan is a span that may mark steps.
type markSpan struct {
	span   int32
	thread int32
}

// hostPass walks every host thread once: evidence, launches with what is around them, marks.
func (r *reducer) hostPass() {
	sp := &r.tl.Spans
	for ti := range r.tl.Tracks {
		tr := &r.tl.Tracks[ti]
		if !r.mine(tr) || tr.Kind == timeline.TrackStream || tr.Kind == timeline.TrackGPU || tr.Kind == timeline.TrackHostReadings {
			continue
		}
		lo, hi := r.span[ti][0], r.span[ti][1]
		if lo == hi {
			continue
		}
		if tr.Kind != timeline.TrackHost || onlyOverhead(sp.Kind[lo:hi]) {
			for s := lo; s < hi; s++ {
				if sp.Kind[s] == timeline.KindOverhead {
					r.overhead = append(r.overhead, s)
				}
			}
			if tr.Kind != timeline.TrackHost {
				continue
			}
		}
		r.threadPass(timeline.TrackID(ti), tr.Thread, lo, hi)
	}
	for _, h := range r.threads {
		slices.SortStableFunc(h.syncs, func(a, b syncCall) int {
			switch {
			case a.end < b.end:
				return -1
			case a.end > b.end:
				return 1
			}
			return 0
		})
	}
	slices.SortStableFunc(r.overhead, func(a, b int32) int {
		switch {
		case sp.Start[a] < sp.Start[b]:
			return -1
		case sp.Start[a] > sp.Start[b]:
			return 1
		}
		return 0
	})
	for _, s := range r.overhead {
		list := &r.profiler
		if r.n.hostOf(sp.Name[s]).flags&flagOverhead != 0 {
			list = &r.loading
		}
		iv := timeline.Interval{Start: sp.Start[s], End: sp.End[s]}
		if n := len(*list); n > 0 {
			iv.Start = max(iv.Start, (*list)[n-1].End)
		}
		if !iv.Empty() {
			*list = append(*list, stretch{iv, s})
		}
	}
}

// onlyOverhead tells whether a thread shows the profiler's work and, beside it, at most that it waited and when it ran.
func onlyOverhead(kinds []timeline.SpanKind) bool {
	some := false
	for _, k := range kinds {
		switch k {
		case timeline.KindOverhead:
			some = true
		case timeline.KindOSWait, timeline.KindOffCPU:
		default:
			return false
		}
	}
	return some
}

func (r *reducer) threadPass(track timeline.TrackID, tid int64, lo, hi int32) {
	sp := &r.tl.Spans
	h := &hostThread{track: track, tid: tid}
	ti := int32(len(r.threads))
	r.threads = append(r.threads, h)
	comm := sort.Search(len(sp.Comms), func(i int) bool { return sp.Comms[i].Span >= lo })
	var stack []open
	top := open{op: -1, mm: -1, comm: -1, opt: -1, coll: -1}
	n := 0
	for s := lo; s < hi; s++ {
		if k := sp.Kind[s]; k != timeline.KindPython && k != timeline.KindGPUAnno && k != timeline.KindSync && k != timeline.KindOther && k != timeline.KindOSWait && k != timeline.KindOffCPU {
			n++
		}
	}
	h.ev = make([]int32, 0, n)
	h.code = make([]evidence, 0, n)
	for s := lo; s < hi; s++ {
		kind := sp.Kind[s]
		if kind == timeline.KindGPUAnno || kind == timeline.KindSync || kind == timeline.KindOther || kind == timeline.KindOSWait || kind == timeline.KindOffCPU || kind.IsDeviceOp() {
			continue
		}
		start, end := sp.Start[s], sp.End[s]
		r.recorded.Start, r.recorded.End = min(r.recorded.Start, start), max(r.recorded.End, end)
		for len(stack) > 0 && stack[len(stack)-1].end <= start {
			stack = stack[:len(stack)-1]
		}
		cur := top
		if len(stack) > 0 {
			cur = stack[len(stack)-1]
		}
		var info *hostInfo
		if kind == timeline.KindPython {
			info = r.n.frameOf(sp.Name[s])
		} else {
			info = r.n.hostOf(sp.Name[s])
		}
		code := evidenceOf(kind, info)
		switch kind {
		case timeline.KindPython:
			r.frames = true
		case timeline.KindAPI:
			if slot := r.link.slot(sp.Link[s]); slot != nil && r.link.rec(sp.Link[s]) < 0 {
				h.nlaunch++
				r.link.set(slot, int32(len(r.recs)))
				r.recs = append(r.recs, launchRec{span: s, op: cur.op, mm: cur.mm, in: r.launchIn(around{thread: ti, comm: cur.comm, opt: cur.opt, coll: cur.coll, flags: cur.flags})})
			}
			switch info.call {
			case callSync:
				h.syncs = append(h.syncs, syncCall{end, s})
			case callCopy, callBlockingCopy:
				code = r.copyCall(sp.Link[s], info.call)
				if code == evSync || code == evStaging {
					h.syncs = append(h.syncs, syncCall{end, s})
				}
			case callLaunch:
				h.launches = append(h.launches, s)
			}
		case timeline.KindOp:
			r.ops = true
			if code == evOp {
				cur.op = s
			}
			if info.flags&(flagMatmul|flagConv) != 0 {
				cur.mm = s
			}
			if info.flags&flagCastAlways != 0 {
				cur.flags |= recCast
			}
			if info.flags&flagLayout != 0 {
				cur.flags |= recLayout
			}
		}
		if info.flags&flagBackward != 0 && (kind == timeline.KindOp || kind == timeline.KindAnnotation) {
			cur.flags |= recBackward
			h.backward = h.backward || kind == timeline.KindOp
		}
		for comm < len(sp.Comms) && sp.Comms[comm].Span < s {
			comm++
		}
		if comm < len(sp.Comms) && sp.Comms[comm].Span == s {
			cur.comm = int32(comm)
		}
		if kind == timeline.KindAnnotation || kind == timeline.KindOp {
			m := markSpan{s, ti}
			if info.flags&flagColl != 0 {
				cur.coll = s
			}
			if info.flags&flagStep != 0 {
				r.stepMarks = append(r.stepMarks, m)
			}
			if kind == timeline.KindAnnotation && info.flags&flagStepName != 0 {
				r.nameMarks = append(r.nameMarks, m)
			}
			if info.flags&flagOptimizer != 0 {
				r.optMarks = append(r.optMarks, m)
				cur.opt = s
			}
			if info.flags&flagLoader != 0 {
				r.loadMarks = append(r.loadMarks, m)
			}
			if r.stepRE != nil && r.stepRE.MatchString(r.tl.Names.Get(sp.Name[s])) {
				r.userMarks = append(r.userMarks, m)
			}
		}
		if kind == timeline.KindAnnotation {
			switch code {
			case evCheckpoint:
				cur.flags |= recCheckpoint
			case evValidation:
				cur.flags |= recValidation
			case evLogging:
				cur.flags |= recLogging
			}
			if info.flags&(flagStep|flagStepName|flagMark) == 0 {
				r.annos = append(r.annos, s)
			}
		}
		if code != evNone && end > start {
			h.ev = append(h.ev, s)
			h.code = append(h.code, code)
		}
		if kind != timeline.KindAPI && kind != timeline.KindOverhead && end > start {
			cur.end = end
			stack = append(stack, cur)
		}
	}
}

// copyCall says what being inside a copy call means.
func (r *reducer) copyCall(link uint32, call callKind) evidence {
	c, ok := slices.BinarySearchFunc(r.copyLinks, link, func(a copyLink, l uint32) int {
		switch {
		case a.link < l:
			return -1
		case a.link > l:
			return 1
		}
		return 0
	})
	if !ok || link == 0 {
		if call == callBlockingCopy {
			return evSync
		}
		return evCopyCall
	}
	k := &r.copyLinks[c]
	switch {
	case k.dir == timeline.DirH2D && (k.mem == timeline.MemPageable || call == callBlockingCopy):
		return evStaging
	case k.dir == timeline.DirD2H && k.mem == timeline.MemPageable, call == callBlockingCopy:
		return evSync
	}
	return evCopyCall
}

type copyLink struct {
	link uint32
	dir  timeline.CopyKind
	mem  timeline.MemKind
}

// The numbers of knowledge/time-ledger.md, sections 2 and 3.
const (
	switchGap  = 5_000      // a kernel already queued follows within it
	startLag   = 5_000      // from the launch's return to the start on an empty queue
	graphGap   = 50_000     // between two ops of one graph launch, longer means missing events
	syncNearby = 20_000     // a sync that ended so near to the gap's start drained the queue
	longOp     = 100_000    // a stretch inside one operator from which the operator itself is to blame
	longCall   = 1_000_000  // an API call that fills so much of a gap does more than launch
	restartMin = 10_000_000 // stretch without spans, and the next() after it, of a restarted loader
)

// setMain picks the thread whose time the step is.
func (r *reducer) setMain() {
	r.main = -1
	best := func(marks []markSpan) int {
		count := make([]int, len(r.threads))
		top := -1
		for _, m := range marks {
			count[m.thread]++
		}
		for i, c := range count {
			if c > 0 && (top < 0 || c > count[top]) {
				top = i
			}
		}
		return top
	}
	for _, marks := range [][]markSpan{r.userMarks, r.stepMarks, r.nameMarks, r.loadMarks, r.optMarks} {
		if t := best(marks); t >= 0 {
			r.main = t
			break
		}
	}
	if r.main < 0 {
		for i, h := range r.threads {
			if h.tid == r.p.PID && h.nlaunch > 0 {
				r.main = i
			}
		}
	}
	order := make([]int, len(r.threads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(r.threads[b].nlaunch - r.threads[a].nlaunch) })
	if r.main < 0 && len(order) > 0 {
		r.main = order[0]
	}
	const maxFallback = 6
	for _, i := range order {
		if i != r.main && r.threads[i].nlaunch > 0 && len(r.others) < maxFallback {
			r.others = append(r.others, i)
		}
	}
}
