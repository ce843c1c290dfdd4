package nsys

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
)

// switchEvent is one row of SCHED_EVENTS. It packs what is needed: captures hold millions of them.
type switchEvent struct {
	at    int64 // session time
	row   uint32
	state uint8 // threadState, 0 not said
	block uint8 // threadBlock, 0 not said
	in    bool
}

// noBlock are the words of threadBlock that name no reason.
var noBlock = []string{"", "unknown", "nonblocked"}

// terminated is the word of a thread that ended: it is off the CPU for good, and nobody waits for it.
const terminated = "Terminated"

// drivers gives the processes whose threads are worth following: those with device work, else those that call CUDA.
func (r *reader) drivers() map[int64]bool {
	device, calls := map[int64]bool{}, map[int64]bool{}
	nobody := false
	for i, t := range r.raw {
		n := &r.stats[i]
		switch {
		case n[timeline.KindKernel]+n[timeline.KindMemcpy]+n[timeline.KindMemset] > 0 && t.proc == anyProc:
			nobody = true
		case n[timeline.KindKernel]+n[timeline.KindMemcpy]+n[timeline.KindMemset] > 0:
			device[t.proc] = true
		case n[timeline.KindAPI] > 0 && t.proc != anyProc:
			calls[t.proc] = true
		}
	}
	if nobody { // older exports do not say whose the kernels are
		if p := r.busiest(func(k timeline.SpanKind) bool { return k == timeline.KindAPI }); p != anyProc {
			device[p] = true
		}
	}
	if len(device) > 0 {
		return device
	}
	return calls
}

// sched turns context switches into the times in which a thread was off the CPU: from a switch out to the thread's next switch in. Only
// threads of processes that drive a GPU are kept. The rows come in no order, those of a thread included. A thread first seen switching in
// was off before; one last seen switching out stays off. Both reach no further than the other events of the file.
func (r *reader) sched() error {
	if r.db.tables[tSched] == nil {
		return nil
	}
	want := r.drivers()
	threads := map[int64][]switchEvent{}
	lo, hi := r.minAt, r.maxAt
	alone := lo == math.MaxInt64 // the file holds nothing else
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	bad, other := int64(0), int64(0)
	err := r.db.scanNumbers(tSched, []string{"start", "isSchedIn", "globalTid", "threadState", "threadBlock"}, func(w *row) {
		at, ok := w.int(0)
		if !ok || at < r.m.lo || at > r.m.hi {
			bad++
			return
		}
		g := w.num(2)
		if g <= 0 || !want[processOf(g)] {
			other++
			return
		}
		r.rows++
		first, last = min(first, at), max(last, at)
		threads[g] = append(threads[g], switchEvent{at: at, row: w.n, in: w.num(1) != 0, state: small(w.num(3)), block: small(w.num(4))})
	})
	r.in.ReportN(bad, "nsys/bad-time", timeline.DataLoss, 0, "%s: start is not a time of this capture: the rows are left out", tSched)
	if alone {
		lo, hi = first, last
	}
	names := map[[2]uint8]timeline.StringID{}
	lost := int64(0)
	for _, g := range slices.Sorted(maps.Keys(threads)) {
		lost += r.offCPU(g, threads[g], names, lo, hi)
		delete(threads, g)
	}
	r.in.ReportN(lost, "nsys/lost-switches", timeline.DataLoss, 0, "%s: two switches of a thread in one direction follow each other, so one between them is lost: the time between is taken as running", tSched)
	r.in.ReportN(other, "nsys/other-processes", timeline.Info, 0, "context switches and CPU samples of processes that drive no GPU: not kept")
	return err
}

func small(v int64) uint8 {
	if v < 0 || v > 255 {
		return 0
	}
	return uint8(v)
}

// offCPU adds the spans of one thread and gives how many switches are missing between its events. Open ends reach to lo and hi.
func (r *reader) offCPU(thread int64, ev []switchEvent, names map[[2]uint8]timeline.StringID, lo, hi int64) (lost int64) {
	if !slices.IsSortedFunc(ev, func(a, b switchEvent) int { return cmp.Compare(a.at, b.at) }) {
		slices.SortStableFunc(ev, func(a, b switchEvent) int { return cmp.Compare(a.at, b.at) })
	}
	track := r.track(rawTrack{proc: processOf(thread), device: -1, id: thread & 0xFFFFFF})
	add := func(start, end int64, e *switchEvent, name timeline.StringID) {
		if end > start {
			r.rows-- // counted when it was read
			r.add(timeline.Span{Track: track, Kind: timeline.KindOffCPU, Start: timeline.Time(start), End: timeline.Time(end), Name: name, Row: e.row})
		}
	}
	unsaid := r.offName(names, 0, 0)
	for i := range ev {
		e := &ev[i]
		switch {
		case e.in && i == 0:
			add(lo, e.at, e, unsaid)
		case e.in:
			if out := &ev[i-1]; !out.in {
				add(out.at, e.at, out, r.offName(names, out.state, out.block))
			} else {
				lost++
			}
		case i+1 == len(ev):
			if r.m.states[int64(e.state)] != terminated {
				add(e.at, hi, e, r.offName(names, e.state, e.block))
			}
		case !ev[i+1].in:
			lost++
		}
	}
	return lost
}

// offName says why a thread was off the CPU, by the words of the file: Interruptible, Waiting: Mutex.
func (r *reader) offName(names map[[2]uint8]timeline.StringID, state, block uint8) timeline.StringID {
	key := [2]uint8{state, block}
	id, ok := names[key]
	if !ok {
		word := r.m.states[int64(state)]
		if state == 0 || word == "" || strings.EqualFold(word, "unknown") {
			word = "off CPU"
		}
		if b := r.m.blocks[int64(block)]; !slices.Contains(noBlock, strings.ToLower(b)) {
			word += ": " + b
		}
		id = r.b.TL.Names.IDOf(shorten(word))
		names[key] = id
	}
	return id
}

// schedWords are the numbers of threadState where the file has no table of them.
var schedWords = []string{"Unknown", "Running", "Interruptible", "Uninterruptible", "Stopped", terminated, "Unscheduled", "Waiting", "OSRuntime", "Initialized", "Transition"}

// schedEnums reads the words of threadState and threadBlock.
func (r *reader) schedEnums() error {
	m := &r.m
	m.states, m.blocks = map[int64]string{}, map[int64]string{}
	read := func(table string, into map[int64]string) error {
		return r.db.scan(table, []string{"id", "name"}, func(w *row) {
			if id, ok := w.int(0); ok && len(into) < 256 {
				into[id] = clean(w.text(1))
			}
		})
	}
	if err := firstError(read("ENUM_SAMPLING_THREAD_STATE", m.states), read("ENUM_SCHEDULING_THREAD_BLOCK", m.blocks)); err != nil {
		return err
	}
	if len(m.states) == 0 {
		for i, w := range schedWords {
			m.states[int64(i)] = w
		}
	}
	return nil
}
