package ledger

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// What the system shows of a thread: when it was off the CPU, what it waited in, samples of it while it ran. A gap in which the launching
// thread has neither an operator nor a call is divided by it: running, waiting for a lock that another thread held, or not scheduled.

const (
	maxFollow = 3         // threads that are followed from one that waits to the one that ends the wait
	lockTurns = 50_000    // between two waits for the interpreter lock that are turns of one
	minWait   = 5_000     // shorter waits explain nothing
	maxWakes  = 64        // waits that one signal may end
	maxReach  = 5_000_000 // a sample speaks of no more than that around it
)

// wait is a stretch in which a thread was in blocking calls.
type wait struct {
	timeline.Interval
	span        int32 // the first call
	waker       int32 // thread that ended it, -1 unknown
	lock        bool
	interpreter bool // as the interpreter lock is waited for
}

// osThread is one thread, beside hostThread.
type osThread struct {
	off     []int32 // spans off the CPU, in order, disjoint
	waits   []wait  // in order, disjoint
	samples []timeline.Time
	reach   timeline.Time // around a sample, in which the thread ran: three quarters of the usual distance between two
	pin     bool          // copies batches into pinned memory
}

// osView is all threads of the process; nil in the reducer where nothing was recorded.
type osView struct {
	threads  []osThread
	pins     []int // threads that pin
	waits    bool  // blocking calls were recorded
	switches bool
	sampled  bool
	words    map[timeline.StringID]offWord
	calls    map[timeline.StringID]waitCall
}

type waitCall struct{ lock, interpreter bool }

// offWord is what the name of a time off the CPU says.
type offWord uint8

const (
	offUnsaid    offWord = iota
	offPreempted         // it could have run
	offBlocked           // it gave up the CPU
)

// osPass gathers what the system shows of the threads of the process.
func (r *reducer) osPass() {
	v := &osView{threads: make([]osThread, len(r.threads)), words: map[timeline.StringID]offWord{}, calls: map[timeline.StringID]waitCall{}}
	byTrack := map[timeline.TrackID]int{}
	for i, h := range r.threads {
		byTrack[h.track] = i
		r.osThread(v, i)
	}
	m := &r.tl.Marks
	for i, k := range m.Kind {
		if k != timeline.MarkSample {
			continue
		}
		if t, ok := byTrack[m.Track[i]]; ok {
			v.threads[t].samples = append(v.threads[t].samples, m.At[i])
			v.sampled = true
		}
	}
	if !v.waits && !v.switches && !v.sampled {
		return
	}
	for i := range v.threads {
		o := &v.threads[i]
		o.reach = reach(o.samples)
		if o.pin = containsAny(strings.ToLower(r.tl.Tracks[r.threads[i].track].Name), r.t.waits.PinThreads); !o.pin {
			o.pin = r.pinRange(r.threads[i])
		}
		if o.pin {
			v.pins = append(v.pins, i)
		}
	}
	r.findWakers(v)
	r.os = v
	t := &r.red.Rank
	t.Switches, t.OSWaits, t.CPUSamples, t.PinThread = v.switches, v.waits, v.sampled, len(v.pins) > 0
}

// osThread gathers the times off the CPU and the waits of one thread.
func (r *reducer) osThread(v *osView, i int) {
	sp := &r.tl.Spans
	o := &v.threads[i]
	lo, hi := r.span[r.threads[i].track][0], r.span[r.threads[i].track][1]
	for s := lo; s < hi; s++ {
		switch sp.Kind[s] {
		case timeline.KindOffCPU:
			v.switches = true
			if n := len(o.off); sp.End[s] > sp.Start[s] && (n == 0 || sp.Start[s] >= sp.End[o.off[n-1]]) {
				o.off = append(o.off, s)
			}
		case timeline.KindOSWait:
			v.waits = true
			call, ok := v.calls[sp.Name[s]]
			if !ok {
				name := r.tl.Names.Get(sp.Name[s])
				call = waitCall{begins(name, r.t.waits.Lock), begins(name, r.t.waits.Interpreter)}
				v.calls[sp.Name[s]] = call
			}
			w := wait{Interval: timeline.Interval{Start: sp.Start[s], End: sp.End[s]}, span: s, waker: -1, lock: call.lock, interpreter: call.interpreter}
			if n := len(o.waits); n > 0 {
				last := &o.waits[n-1]
				if w.Start < last.End { // a call inside another
					continue
				}
				if last.interpreter && w.interpreter && w.Start-last.End <= lockTurns {
					last.End = w.End
					continue
				}
				if last.Dur() < minWait {
					o.waits = o.waits[:n-1]
				}
			}
			o.waits = append(o.waits, w)
		}
	}
}

// pinRange tells whether the ranges of a thread say that it pins batches. The thread that launches does not.
func (r *reducer) pinRange(h *hostThread) bool {
	if h.nlaunch > 0 {
		return false
	}
	sp := &r.tl.Spans
	const look = 1000 // a thread that pins does nothing else
	lo, hi := r.span[h.track][0], r.span[h.track][1]
	for s, n := lo, 0; s < hi && n < look; s++ {
		if sp.Kind[s] == timeline.KindAnnotation || sp.Kind[s] == timeline.KindOp {
			n++
			if r.n.hostOf(sp.Name[s]).flags&flagPin != 0 {
				return true
			}
		}
	}
	return false
}

// findWakers finds who ended each wait for a lock: of the process's other threads the one whose call, range or other blocking call
// ended last within syncNearby before it.
func (r *reducer) findWakers(v *osView) {
	type wake struct {
		at     timeline.Time
		from   timeline.Time // when the waker's activity ended
		thread int32
		wait   int32
		waker  int32
	}
	var wakes []wake
	for t := range v.threads {
		for i := range v.threads[t].waits {
			if w := &v.threads[t].waits[i]; w.lock && w.Dur() >= minWait {
				wakes = append(wakes, wake{at: w.End, thread: int32(t), wait: int32(i), waker: -1})
			}
		}
	}
	if len(wakes) == 0 {
		return
	}
	slices.SortStableFunc(wakes, func(a, b wake) int { return cmp.Compare(a.at, b.at) })
	sp := &r.tl.Spans
	for t, h := range r.threads {
		lo, hi := r.span[h.track][0], r.span[h.track][1]
		for s := lo; s < hi; s++ {
			switch sp.Kind[s] {
			case timeline.KindAPI, timeline.KindOp, timeline.KindAnnotation:
			case timeline.KindOSWait:
				if v.calls[sp.Name[s]].lock {
					continue // it was woken itself
				}
			default:
				continue
			}
			end := sp.End[s]
			j := sort.Search(len(wakes), func(j int) bool { return wakes[j].at >= end })
			for n := 0; j < len(wakes) && wakes[j].at-end <= syncNearby && n < maxWakes; j, n = j+1, n+1 {
				if w := &wakes[j]; int(w.thread) != t && (w.waker < 0 || end > w.from) {
					w.waker, w.from = int32(t), end
				}
			}
		}
	}
	for i := range wakes {
		w := &wakes[i]
		v.threads[w.thread].waits[w.wait].waker = w.waker
	}
}

// osState is what a thread did at an instant.
type osState uint8

const (
	osUnknown   osState = iota
	osRunning           // on the CPU
	osWaiting           // in a blocking call
	osPreempted         // off the CPU though it could have run, as the file says
	osIdle              // off the CPU, and no wait was recorded that explains it
	osBlocked           // off the CPU by its own will, in no recorded call
)

// word reads the name of a time off the CPU.
func (v *osView) word(r *reducer, name timeline.StringID) offWord {
	w, ok := v.words[name]
	if !ok {
		text, _, _ := strings.Cut(r.tl.Names.Get(name), ":")
		switch strings.ToLower(text) {
		case "off cpu", "unknown", "unscheduled", "":
		case "running", "runnable", "ready", "standby":
			w = offPreempted
		default:
			w = offBlocked
		}
		v.words[name] = w
	}
	return w
}

// state says what thread t did from x on, until when (at most b), in which wait and off the CPU by which span (-1 none).
func (r *reducer) state(t int, x, b timeline.Time) (st osState, w *wait, off int32, end timeline.Time) {
	sp := &r.tl.Spans
	v := r.os
	o := &v.threads[t]
	off, end = -1, b
	i := sort.Search(len(o.off), func(i int) bool { return sp.End[o.off[i]] > x })
	if i < len(o.off) {
		if s := o.off[i]; sp.Start[s] <= x {
			off = s
			end = min(end, sp.End[s])
		} else {
			end = min(end, sp.Start[s])
		}
	}
	j := sort.Search(len(o.waits), func(j int) bool { return o.waits[j].End > x })
	if j < len(o.waits) {
		if c := &o.waits[j]; c.Start <= x {
			w = c
		} else {
			end = min(end, c.Start)
		}
	}
	switch {
	case w != nil && w.lock: // the moments between its turns are part of it
		return osWaiting, w, off, min(b, w.End)
	case w != nil && (off >= 0 || len(o.off) == 0):
		return osWaiting, w, off, min(end, w.End)
	case off >= 0:
		switch v.word(r, sp.Name[off]) {
		case offPreempted:
			return osPreempted, nil, off, end
		case offBlocked:
			return osBlocked, nil, off, end
		}
		if v.waits {
			return osIdle, nil, off, end // a wait would have been recorded
		}
		return osUnknown, nil, off, end
	case len(o.off) > 0:
		if w != nil {
			end = min(end, w.End)
		}
		return osRunning, w, -1, end
	}
	k := sort.Search(len(o.samples), func(k int) bool { return o.samples[k] > x })
	switch {
	case k > 0 && o.samples[k-1]+o.reach > x:
		return osRunning, nil, -1, min(end, o.samples[k-1]+o.reach)
	case k == len(o.samples):
	case o.samples[k]-o.reach <= x:
		return osRunning, nil, -1, min(end, o.samples[k]+o.reach)
	default:
		end = min(end, o.samples[k]-o.reach)
	}
	return osUnknown, nil, -1, end
}

// reach is three quarters of the median distance of samples, so that those of a thread that runs on meet.
func reach(at []timeline.Time) timeline.Time {
	if len(at) < 2 {
		return 0
	}
	d := make([]timeline.Time, len(at)-1)
	for i := range d {
		d[i] = at[i+1] - at[i]
	}
	slices.Sort(d)
	return min(d[len(d)/2]*3/4, maxReach)
}

// idle gives [a, b), in which no thread that launches shows anything, the owner that the system's view names.
func (g *gapper) idle(a, b timeline.Time) {
	for a < b {
		o, u, row, end := g.follow(g.order[0], a, b, 0)
		g.emit(a, end, o, u, row)
		a = end
	}
}

// follow says who holds the time from x on, asking thread t and those it waits for.
func (g *gapper) follow(t int, x, b timeline.Time, depth int) (timeline.Owner, timeline.Sub, uint32, timeline.Time) {
	r := g.r
	st, w, off, end := r.state(t, x, b)
	switch st {
	case osRunning:
		return timeline.HostPython, timeline.SubOnCPU, 0, end
	case osPreempted:
		return timeline.HostDescheduled, timeline.SubNone, g.row(off), end
	case osIdle:
		if t == r.main || r.main < 0 {
			return timeline.HostDescheduled, timeline.SubNone, g.row(off), end
		} // another thread may wait for work in a call that began before the recording
	case osWaiting:
		row := g.row(w.span)
		if !w.lock {
			if r.os.threads[t].pin {
				return timeline.HostDataloader, timeline.SubNone, row, end // it waits for a worker
			}
			break
		}
		o, u, at, to, ok := g.lock(t, w, x, end, depth)
		if end = to; ok {
			if at == 0 {
				at = row
			}
			return o, u, at, end
		}
	}
	if (st == osWaiting || st == osIdle) && t != r.main && r.main >= 0 && depth < maxFollow {
		return g.follow(r.main, x, end, depth+1) // whose time the step is
	}
	o, u := g.unseen()
	return o, u, 0, end
}

// lock follows the wait of a thread for a lock to the thread that ended it; end is until when that holds, or until when it is worth no other try.
func (g *gapper) lock(of int, w *wait, x, b timeline.Time, depth int) (o timeline.Owner, u timeline.Sub, row uint32, end timeline.Time, ok bool) {
	r := g.r
	end = b
	if w.waker < 0 {
		if !w.interpreter {
			return 0, 0, 0, end, false
		}
		for _, p := range r.os.pins {
			st, _, _, to := r.state(p, x, end)
			if end = to; st == osRunning {
				return timeline.HostPython, timeline.SubPin, 0, end, true
			}
		}
		return 0, 0, 0, end, false
	}
	if depth >= maxFollow {
		return 0, 0, 0, end, false
	}
	t := int(w.waker)
	pin := r.os.threads[t].pin
	if pin && of != r.main && r.main >= 0 {
		return 0, 0, 0, end, false // it hands batches to the main thread alone
	}
	v := r.threads[t].look(x, b, g.gap, &r.tl.Spans)
	if v.ev != evNone && !pin {
		o, u = g.owner(v)
		return o, u, g.row(v.span), min(v.end, b), true
	}
	if pin && !w.interpreter {
		return timeline.HostDataloader, timeline.SubNone, 0, b, true // the queue of finished batches
	}
	o, u, row, end = g.follow(t, x, min(v.end, b), depth+1)
	switch {
	case o != timeline.HostPython || u == timeline.SubNone:
	case pin:
		u = timeline.SubPin
	case u == timeline.SubOnCPU:
		u = timeline.SubLock
	}
	return o, u, row, end, true
}

// unseen is the owner of time of which nothing at all is known.
func (g *gapper) unseen() (timeline.Owner, timeline.Sub) {
	if !g.r.ops { // an operator may be what ran: that there is none says nothing
		return timeline.UnknownOwner, timeline.SubNoOperators
	}
	return timeline.HostPython, timeline.SubNone
}

// inNext cuts [a, b), in which thread t was in the loader's next(), into running and waiting.
func (g *gapper) inNext(t int, a, b timeline.Time, row uint32) {
	for a < b {
		st, _, _, end := g.r.state(t, a, b)
		u := timeline.SubNone
		if st == osRunning {
			u = timeline.SubOnCPU
		}
		g.emit(a, end, timeline.HostDataloader, u, row)
		a = end
	}
}

// osTables sums up what the system shows of the main thread in the analysed window, and of device memory.
func (r *reducer) osTables() {
	t := &r.red.Rank
	r.memoryTable()
	if r.os == nil || r.main < 0 {
		return
	}
	sp := &r.tl.Spans
	win := r.hostWindow()
	for _, s := range r.os.threads[r.main].off {
		a, b := max(sp.Start[s], win.Start), min(sp.End[s], win.End)
		for n := 0; a < b; n++ {
			st, _, _, end := r.state(r.main, a, b)
			if st == osPreempted || st == osIdle {
				t.PreemptedNS += int64(end - a)
				if n == 0 {
					t.Preemptions++
				}
				if len(t.PreemptedRows) < keepRows {
					t.PreemptedRows = append(t.PreemptedRows, sp.Row[s])
				}
			}
			a = end
		}
	}
	r.topFrame()
}

// topFrame finds the frame in which the main thread was sampled most while the GPU waited for Python.
func (r *reducer) topFrame() {
	if !r.os.sampled || len(r.red.GPUs) == 0 {
		return
	}
	best := r.biggest()
	gi := slices.Index(r.devices, best)
	if gi < 0 || gi >= len(r.red.GPUs) {
		return
	}
	segs := r.red.GPUs[gi].Segments.List()
	m := &r.tl.Marks
	count := map[timeline.StringID]int64{}
	k := 0
	for i, kind := range m.Kind {
		if kind != timeline.MarkSample || m.Track[i] != r.threads[r.main].track {
			continue
		}
		for k < len(segs) && segEnd(&segs[k]) <= m.At[i] {
			k++
		}
		if k < len(segs) && segs[k].Start <= m.At[i] && segs[k].Owner == timeline.HostPython {
			r.red.Rank.FrameSamples++
			count[m.Name[i]]++
		}
	}
	top := timeline.StringID(0)
	for id, n := range count {
		if c := count[top]; id != 0 && (top == 0 || n > c || n == c && r.tl.Names.Get(id) < r.tl.Names.Get(top)) {
			top = id
		}
	}
	if top != 0 {
		r.red.Rank.Frame, r.red.Rank.FrameTop = r.tl.Names.Get(top), count[top]
	}
}

// memoryTable counts the allocations and releases of device memory behind the first analysed step.
func (r *reducer) memoryTable() {
	t := &r.red.Rank
	win := r.hostWindow()
	from := win.Start
	if steps := r.hostSteps(); len(steps) > 1 && r.first == 0 {
		from = steps[0].End
	}
	for i := range r.tl.Series {
		s := &r.tl.Series[i]
		if s.Metric.Name != timeline.MemAllocated.Name || r.tl.Tracks[s.Track].Proc != r.proc {
			continue
		}
		t.MemoryEvents = true
		for j := 1; j < len(s.At); j++ {
			if s.At[j] < from || s.At[j] >= win.End {
				continue
			}
			switch d := s.Value[j] - s.Value[j-1]; {
			case d > 0:
				t.MemoryAllocs++
				t.MemoryAllocBytes += int64(d)
			case d < 0:
				t.MemoryFrees++
			}
		}
	}
}
