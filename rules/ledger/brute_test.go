package ledger

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/timeline/timelinetest"
)

// This file computes the whole ledger a second time, from its definition and not from the code: for each stretch of time in which no event
// begins or ends it looks at all events. It is slow and plain, and shares nothing with the package but the words for owners.

// ns is a time in nanoseconds, us one of the drawing of a trace, in microseconds.
type (
	ns = int
	us = int
)

// ev is one event of a made-up trace: a device op has a stream, a host span a thread.
type ev struct {
	rank        int
	gpu, stream int
	thread      string
	kind        string // of timelinetest's text
	s, e        ns
	name        string
	link        int
	mem         string
	coll        string // key=value pairs of a collective
	seq         int
	group       string
	row         string // owner of an instant inside it, of a call
}

func (x *ev) device() bool      { return x.stream > 0 }
func (x *ev) at(t ns) bool      { return x.s <= t && t < x.e }
func (x *ev) is(k string) bool  { return x.kind == k }
func (x *ev) has(w string) bool { return strings.Contains(x.name, w) }
func (x *ev) comm() bool        { return x.kind == "kernel" && strings.HasPrefix(x.name, "nccl") }
func (x *ev) copies() bool      { return x.kind == "h2d" || x.kind == "d2h" }
func (x *ev) next() bool {
	return (x.kind == "anno" || x.kind == "op") && x.has("enumerate(DataLoader)#")
}
func (x *ev) instance() string { return fmt.Sprint(x.group, " ", x.seq) }
func (x *ev) line() string {
	track := x.thread
	if x.device() {
		track = fmt.Sprintf("gpu%d/s%d", x.gpu, x.stream)
	}
	s := fmt.Sprintf("r%d:%s %s %dns..%dns %s", x.rank, track, x.kind, x.s, x.e, x.name)
	if x.link > 0 {
		s += fmt.Sprintf(" link=%d", x.link)
	}
	if x.mem != "" {
		s += " mem=" + x.mem
	}
	return s + x.coll
}

func textOf(evs []ev, rank, world int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "proc r%d rank=%d world=%d host=a backend=nccl\n", rank, rank, world)
	for i := range evs {
		if evs[i].rank == rank {
			b.WriteString(evs[i].line() + "\n")
		}
	}
	return b.String()
}

// brute is one process's events and what follows from them for all of its GPUs.
type brute struct {
	evs      []ev
	ops      []*ev // on devices
	host     []*ev
	latest   map[string]ns // of a collective by group and number: when its last rank came; nil where only one rank is known
	calls    map[int]*ev   // launch call by link
	of       map[int][]*ev
	threads  []string // that launch
	main     string
	operator bool // operators were recorded
	restarts []ev // inferred restarts of the loader
	all      []ev // host steps with device time
	steps    []ev // of these the analysed ones
}

func newBrute(evs []ev) *brute {
	b := &brute{evs: evs, calls: map[int]*ev{}, of: map[int][]*ev{}}
	for i := range evs {
		x := &evs[i]
		if x.device() {
			b.ops = append(b.ops, x)
			if x.link > 0 {
				b.of[x.link] = append(b.of[x.link], x)
			}
			continue
		}
		b.host = append(b.host, x)
		b.operator = b.operator || x.is("op")
		if x.is("api") && x.link > 0 {
			b.calls[x.link] = x
		}
	}
	// Launching threads, the one with most launches first; the definition gives no order.
	launched := map[string]int{}
	for i := range evs {
		x := &evs[i]
		if !x.device() && !slices.Contains(b.threads, x.thread) {
			b.threads = append(b.threads, x.thread)
		}
		if x.is("api") && len(b.of[x.link]) > 0 {
			launched[x.thread]++
		}
	}
	b.threads = slices.DeleteFunc(b.threads, func(th string) bool { return launched[th] == 0 })
	slices.SortStableFunc(b.threads, func(x, y string) int { return launched[y] - launched[x] })
	// The main thread is the one of the marks, which are all on this one here, else of the process's number if it launches, else the one
	// that launches most.
	b.main = "main"
	marked := slices.ContainsFunc(b.host, func(x *ev) bool {
		return x.next() || x.has("ProfilerStep#") || x.has("Optimizer.step#")
	})
	if !marked && launched["main"] == 0 && len(b.threads) > 0 {
		b.main = b.threads[0]
	}
	for _, x := range b.host {
		x.row = b.callRow(x)
	}
	b.restart()
	b.findSteps()
	return b
}

// restart finds stretches of 10 ms and more without a span on the main thread that end at a multi-worker next() which then lasts 10 ms
// and twice its median.
func (b *brute) restart() {
	var durs []ns
	for _, x := range b.host {
		if x.next() && x.has("_MultiProcessing") {
			durs = append(durs, x.e-x.s)
		}
	}
	sort.Ints(durs)
	for _, x := range b.host {
		if !x.next() || !x.has("_MultiProcessing") || x.thread != "main" || x.e-x.s < 10_000_000 || 2*durs[len(durs)/2] > x.e-x.s {
			continue
		}
		last, any := ns(0), false
		for _, y := range b.host {
			if y.thread == "main" && y != x && y.s < x.s {
				any = true
				last = max(last, y.e)
			}
		}
		if any && x.s-last >= 10_000_000 {
			b.restarts = append(b.restarts, ev{thread: "main", kind: "anno", s: last, e: x.s, name: x.name})
		}
	}
}

// findSteps finds the host's steps: marks, else from end to end of the rarest optimizer, else from start to start of next().
func (b *brute) findSteps() {
	// Of marks inside one another the outer one counts; the definition does not say.
	outer := func(x *ev, like func(*ev) bool) bool {
		return like(x) && !slices.ContainsFunc(b.host, func(y *ev) bool { return y != x && like(y) && y.s <= x.s && x.e <= y.e })
	}
	var marks []ev
	optim := map[string][]ns{}
	var nexts []ns
	for _, x := range b.host {
		switch {
		case x.has("ProfilerStep#"):
			marks = append(marks, *x)
		case outer(x, func(y *ev) bool { return y.has("Optimizer.step#") && y.name == x.name }):
			optim[x.name] = append(optim[x.name], x.e)
		case outer(x, (*ev).next):
			nexts = append(nexts, x.s)
		}
	}
	adam, sgd := optim["Optimizer.step#Adam.step"], optim["Optimizer.step#SGD.step"]
	slices.Sort(adam)
	slices.Sort(sgd)
	// Of two as rare the one that comes first; the definition does not say.
	if len(sgd) > 1 && (len(adam) < 2 || len(sgd) < len(adam) || len(sgd) == len(adam) && sgd[0] < adam[0]) {
		adam = sgd
	}
	between := func(cuts []ns) (all []ev) {
		slices.Sort(cuts)
		for i := 1; i < len(cuts); i++ {
			all = append(all, ev{s: cuts[i-1], e: cuts[i]})
		}
		return all
	}
	for _, all := range [][]ev{marks, between(adam), between(nexts)} {
		slices.SortFunc(all, func(x, y ev) int { return cmp.Compare(x.s, y.s) })
		if b.take(all); len(b.all) > 0 {
			break // marks inside which nothing was launched are no marks
		}
	}
}

// take looks which of the host's steps are analysed.
func (b *brute) take(all []ev) {
	// A step without any device time is none: what its host did belongs to the step after it.
	var full []ev
	for i, k := 0, 0; i < len(all); i++ {
		if slices.ContainsFunc(b.gpus(), func(gpu int) bool { return b.end(gpu, all, i) > b.end(gpu, all, i-1) }) {
			st := all[i]
			if len(full) > 0 {
				st.s = all[k].s
			}
			full, k = append(full, st), i+1
		}
	}
	b.all = full
	b.steps = full
	// The first recorded step is dropped as the one before is not known; where work was launched before it, it is.
	if len(full) > 2 && !slices.ContainsFunc(b.ops, func(x *ev) bool { l := b.calls[x.link]; return l != nil && l.s < full[0].s }) {
		b.steps = full[1:]
	}
}

func (b *brute) gpus() (ids []int) {
	for _, x := range b.ops {
		if !slices.Contains(ids, x.gpu) {
			ids = append(ids, x.gpu)
		}
	}
	return ids
}

// end is E_k of a GPU: the latest end of what was launched in steps 0 to k, or before them; for k = -1 not before the first step begins.
func (b *brute) end(gpu int, steps []ev, k int) ns {
	e := steps[0].s
	firstLaunched := ns(1 << 50)
	for _, x := range b.ops {
		if x.gpu == gpu && b.calls[x.link] != nil {
			firstLaunched = min(firstLaunched, x.s)
		}
	}
	for _, x := range b.ops {
		l := b.calls[x.link]
		if x.gpu != gpu {
			continue
		}
		switch {
		case l == nil && firstLaunched < 1<<50 && x.s < firstLaunched, l != nil && l.s < steps[0].s:
			e = max(e, x.e)
		case l != nil && slices.ContainsFunc(steps[:k+1], func(st ev) bool { return st.at(l.s) }):
			e = max(e, x.e)
		}
	}
	return e
}

// window is the analysed window of one GPU; ok is false where it ran nothing.
func (b *brute) window(gpu int) (w0, w1 ns, ok bool) {
	if n := len(b.all); n > 0 {
		w0, w1 = b.end(gpu, b.all, n-len(b.steps)-1), b.end(gpu, b.all, n-1)
		return w0, w1, w1 > w0
	}
	for _, x := range b.ops {
		if x.gpu == gpu {
			if !ok {
				w0, w1, ok = x.s, x.e, true
			}
			w0, w1 = min(w0, x.s), max(w1, x.e)
		}
	}
	return w0, w1, ok
}

// tally is nanoseconds by owner; unknown and refill with the finer owner.
type tally map[string]ns

// ledger decides the owner of each elementary interval of one GPU's window: nothing begins, ends or passes a limit inside one.
func (b *brute) ledger(gpu int) (own, side tally, w0, w1 ns, ok bool) {
	own, side = tally{}, tally{}
	w0, w1, ok = b.window(gpu)
	var ops []*ev
	for _, x := range b.ops {
		if x.gpu == gpu {
			ops = append(ops, x)
		}
	}
	cuts := []ns{w0, w1}
	for i := range b.evs {
		cuts = append(cuts, b.evs[i].s, b.evs[i].e, b.evs[i].e+5_000)
		if at, ok := b.latest[b.evs[i].instance()]; ok {
			cuts = append(cuts, at)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var stalls ns
	for i, t := range cuts {
		if t < w0 || t >= w1 {
			continue
		}
		d := cuts[i+1] - t
		o := b.owner(ops, t, d, side)
		own[o] += d
		if o == "gap.queued-stall" || o == "unknown missing" {
			stalls += d
		}
	}
	if stalls*20 > w1-w0 {
		own["unknown missing"] += own["gap.queued-stall"]
		delete(own, "gap.queued-stall")
	}
	return own, side, w0, w1, ok
}

func (b *brute) owner(ops []*ev, t, d ns, side tally) string {
	var compute, comm, anyCopy, waits bool
	copied := ""
	var first *ev
	for _, x := range ops {
		if !x.at(t) {
			continue
		}
		switch {
		case x.comm():
			comm = true
			waits = waits || t < b.latest[x.instance()]
		case x.copies():
			anyCopy = true
			// Two copies at once: the definition does not say which; the one that began first.
			if first == nil || x.s < first.s {
				first, copied = x, b.copyOwner(x)
			}
		default:
			compute = true
		}
	}
	if comm && compute {
		side["comm"] += d
	}
	if anyCopy && (comm || compute) {
		side["copy"] += d
	}
	if comm || compute || anyCopy {
		for _, x := range b.host {
			if x.next() && x.thread == "main" && x.at(t) {
				side["next"] += d
				break
			}
		}
	}
	switch {
	case compute:
		return "compute"
	case comm && b.latest == nil:
		return "comm.undivided"
	case comm && waits:
		return "comm.peer-wait"
	case comm:
		return "comm.transfer"
	case anyCopy:
		return copied
	}
	return b.gap(ops, t)
}

// word is the interruption that an annotation names.
func (x *ev) word() string {
	if x.is("anno") {
		switch x.name {
		case "save_checkpoint":
			return "host.checkpoint"
		case "validation":
			return "host.validation"
		case "log metrics":
			return "host.logging"
		}
	}
	return ""
}

func (b *brute) copyOwner(x *ev) string {
	if l := b.calls[x.link]; l != nil {
		best := ""
		for _, y := range b.host {
			if w := y.word(); w != "" && y.thread == l.thread && y.at(l.s) && rowOf[w] < rowOf[best] {
				best = w
			}
		}
		if best != "" {
			return best
		}
	}
	return "copy." + x.kind
}

// gap finds the owner of an instant at which nothing runs.
func (b *brute) gap(ops []*ev, t ns) string {
	var g0, g1 ns
	var n, prev *ev
	for _, x := range ops {
		if x.s > t && (n == nil || x.s < g1) {
			g1, n = x.s, x
		}
		if x.e <= t && (prev == nil || x.e > g0) {
			g0, prev = x.e, x
		}
	}
	if n == nil {
		return "nothing follows"
	}
	if prev == nil {
		g0 = -1 << 50 // nothing ran before
	}
	l := b.calls[n.link]
	if g1-g0 <= 5_000 && (l == nil || l.e <= g0) {
		return "gap.switch"
	}
	switch {
	case l == nil:
		return "unknown uncorrelated"
	case l.e <= g0:
		if prev != nil && prev.link == n.link && g1-g0 > 50_000 {
			return "unknown missing"
		}
		return "gap.queued-stall"
	case t >= max(l.e, g0):
		if t < max(l.e, g0)+5_000 {
			return "host.launch"
		}
		return "unknown lag"
	}
	return b.slice(ops, l.thread, t, g0, g1)
}

// rowOf is the order of precedence of the slice table. Of two words of row 2 the one that the row names first wins.
var rowOf = map[string]int{"host.profiler": 1, "host.checkpoint": 2, "host.validation": 3, "host.logging": 4, "host.dataloader": 5, "host.allocator": 6,
	"host.compile": 7, "copy.h2d": 8, "host.sync": 9, "host.sync refill": 10, "host.launch": 11, "host.cpu-op": 12, "": 99}

func (b *brute) slice(ops []*ev, T string, t, g0, g1 ns) string {
	// Rule (i): the launching thread, else the main one, else the others that launch.
	best := ""
	for _, th := range append([]string{T, b.main}, b.threads...) {
		if best = b.shows(th, t, g0, g1); best != "" {
			break
		}
	}
	// Overhead on no thread holds everybody.
	for _, x := range b.host {
		if b.nobody(x.thread) && x.at(t) {
			o := "host.profiler"
			if x.has("Lazy") {
				o = "host.compile"
			}
			if rowOf[o] < rowOf[best] {
				best = o
			}
		}
	}
	if rowOf[best] > rowOf["host.sync"] && b.refill(ops, T, t) {
		return "host.sync refill"
	}
	switch {
	case best != "":
		return best
	case !b.operator:
		return "unknown no operators"
	}
	return "host.python"
}

// refill: a sync on T ended within 20 us of the start of an idle gap, and since then no kernel was launched. The definition says "a sync
// on T" and leaves open that the main thread's counts where T had none, and that a call that stages a copy to the device is one too, as
// it waits for what its stream has queued.
func (b *brute) refill(ops []*ev, T string, t ns) bool {
	for _, y := range ops { // some gap begins at the end of y
		if y.e > t || slices.ContainsFunc(ops, func(z *ev) bool { return z.at(y.e) }) {
			continue
		}
		closes := b.closer(ops, y.e)
		if closes == nil {
			continue
		}
		for _, th := range []string{closes.thread, b.main} {
			var last *ev
			for _, x := range b.host {
				if c := x.row; x.thread == th && (c == "host.sync" || c == "copy.h2d") && x.e <= y.e+20_000 && x.e >= y.e-20_000 && (last == nil || x.e > last.e) {
					last = x
				}
			}
			if last == nil {
				continue
			}
			if !slices.ContainsFunc(b.host, func(z *ev) bool {
				return (z.thread == th || z.thread == closes.thread) && b.launches(z) && z.s >= last.e && z.s <= t
			}) {
				return true
			}
			break
		}
	}
	return false
}

// closer is the launch of the op that ends the gap that begins at g0, if it was still to come.
func (b *brute) closer(ops []*ev, g0 ns) *ev {
	var n *ev
	for _, x := range ops {
		if x.s > g0 && (n == nil || x.s < n.s) {
			n = x
		}
	}
	if n == nil || b.calls[n.link] == nil || b.calls[n.link].e <= g0 {
		return nil
	}
	return b.calls[n.link]
}

// nobody tells whether a thread is none of the program's: the definition names thread -1; one that shows nothing but the profiler's work
// is taken for the profiler's own.
func (b *brute) nobody(th string) bool {
	return !slices.ContainsFunc(b.host, func(x *ev) bool { return x.thread == th && !x.is("overhead") })
}

func (b *brute) launches(x *ev) bool {
	return x.is("api") && (x.name == "cudaLaunchKernel" || x.name == "cudaGraphLaunch")
}

// callRow says what a call is: row 4, 5, 6 or 7.
func (b *brute) callRow(x *ev) string {
	if !x.is("api") {
		return ""
	}
	var kind, mem string
	for _, y := range b.of[x.link] {
		if x.link > 0 {
			kind, mem = y.kind, y.mem
		}
	}
	switch {
	case x.name == "cudaMalloc" || x.name == "cudaFree" || x.name == "cudaHostAlloc":
		return "host.allocator"
	case x.name == "cuModuleLoadData":
		return "host.compile"
	case x.has("Synchronize"):
		return "host.sync"
	case kind == "h2d" && (mem == "pageable" || x.name == "cudaMemcpy"):
		return "copy.h2d"
	case x.name == "cudaMemcpy", kind == "d2h" && mem == "pageable":
		return "host.sync"
	case x.has("cudaMemcpy"):
		return "host.launch"
	}
	return "host.launch"
}

// shows is the best row that a thread's spans give at an instant; "" none.
func (b *brute) shows(th string, t, g0, g1 ns) string {
	best := ""
	take := func(o string) {
		if rowOf[o] < rowOf[best] {
			best = o
		}
	}
	var op *ev
	inCall := false
	for _, x := range b.host {
		if x.thread != th || !x.at(t) {
			continue
		}
		switch {
		case x.is("overhead") && x.has("Lazy"):
			take("host.compile")
		case x.is("overhead"):
			take("host.profiler")
		case x.word() != "":
			take(x.word())
		case x.next() || x.is("python") && x.has("queue.py"):
			take("host.dataloader")
		case x.is("api"):
			inCall = true
			take(x.row)
			// A call of 1 ms inside a gap: as much of it as lies in the gap.
			if x.row == "host.launch" && !x.has("cudaMemcpy") && min(x.e, g1)-max(x.s, g0) >= 1_000_000 {
				take("host.compile")
			}
		case (x.is("op") || x.is("anno")) && x.has("torchdynamo"):
			take("host.compile")
		case x.is("op"):
			if op == nil || x.e-x.s < op.e-op.s {
				op = x
			}
		}
	}
	for i := range b.restarts {
		if x := &b.restarts[i]; x.thread == th && x.at(t) {
			take("host.dataloader")
		}
	}
	if op != nil && !inCall {
		// The stretch: as far as the same operator is the innermost one and no call is open.
		from, to := op.s, op.e
		for _, x := range b.host {
			if x.thread != th || !x.is("api") && !(x.is("op") && x.s >= op.s && x.e <= op.e && x != op) {
				continue
			}
			if x.e <= t {
				from = max(from, x.e)
			} else if x.s > t {
				to = min(to, x.s)
			}
		}
		if to-from >= 100_000 {
			take("host.cpu-op")
		} else {
			take("host.launch")
		}
	}
	return best
}

// --- random traces ---

type gen struct {
	*rand.Rand
	grid  us
	evs   []ev
	link  int
	start map[[2]int]bool // no two ops of a GPU start, or end, at once: which one closes or opens a gap is not defined
	end   map[[2]int]bool
	gpus  int
	next  string
	optim bool
	big   bool
}

func (g *gen) snap(v us) us               { return v / g.grid * g.grid }
func (g *gen) one(n int) bool             { return g.IntN(n) == 0 }
func (g *gen) len(n us) us                { return max(g.grid, g.snap(1+g.IntN(n))) }
func (g *gen) pick(list ...string) string { return list[g.IntN(len(list))] }

// dur is mostly short, at times about a limit of the definition, rarely long.
func (g *gen) dur() us {
	switch g.IntN(10) {
	case 0:
		return g.len(400)
	case 1:
		return g.snap(90 + g.IntN(25))
	case 2:
		if g.big {
			return g.len(25_000)
		}
		return g.len(1300)
	case 3, 4:
		return g.len(8)
	}
	return g.len(60)
}

// fill puts spans on a thread, properly nested, into [from, to).
func (g *gen) fill(th string, from, to us, depth int) {
	p := from
	for range 12 {
		if !g.one(4) {
			if g.one(3) {
				p += g.dur()
			} else {
				p += g.len(15)
			}
		}
		d := g.dur()
		if depth == 0 {
			d = d*2 + g.len(200)
		}
		if p+d > to {
			return
		}
		g.span(th, p, p+d, depth)
		p += d
		if g.one(10) {
			return
		}
	}
}

func (g *gen) span(th string, s, e us, depth int) {
	add := func(kind, name string) {
		g.evs = append(g.evs, ev{thread: th, kind: kind, s: s, e: e, name: name})
	}
	k := g.IntN(100)
	if depth >= 3 && k < 60 {
		k = 60 + g.IntN(40)
	}
	switch {
	case k < 26:
		add("op", g.pick("aten::add", "aten::empty", "aten::conv2d", "aten::log"))
		g.fill(th, s, e, depth+1)
	case k < 36:
		add("anno", g.pick("my range", "forward", "save_checkpoint", "validation", "log metrics", "CheckpointFunction"))
		g.fill(th, s, e, depth+1)
	case k < 41 && th == "main" && g.next != "":
		add("anno", g.next)
		g.fill(th, s, e, depth+2)
	case k < 44 && th == "main" && g.optim:
		add("anno", g.pick("Optimizer.step#Adam.step", "Optimizer.step#SGD.step"))
		g.fill(th, s, e, depth+1)
	case k < 47:
		add("python", g.pick("train.py(3): step", "queue.py(3): get"))
		g.fill(th, s, e, depth+1)
	case k < 49:
		add("op", "torchdynamo compile")
	case k < 51:
		add("overhead", g.pick("Buffer Flush", "Lazy Function Loading"))
	case k < 56:
		add("api", g.pick("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventRecord"))
	case k < 59:
		add("api", g.pick("cudaMalloc", "cudaFree", "cudaHostAlloc", "cuModuleLoadData"))
	case k < 62:
		add("api", g.pick("cudaLaunchKernel", "cudaMemcpyAsync"))
	default:
		g.launch(th, s, e)
	}
}

// launch adds a call and what it started.
func (g *gen) launch(th string, s, e us) {
	g.link++
	x := ev{thread: th, kind: "api", s: s, e: e, link: g.link, name: "cudaLaunchKernel"}
	n := 1
	kind := g.pick("kernel", "kernel", "kernel", "kernel", "kernel", "comm", "h2d", "d2h", "d2d", "memset")
	switch {
	case kind == "h2d" || kind == "d2h" || kind == "d2d":
		x.name = g.pick("cudaMemcpyAsync", "cudaMemcpyAsync", "cudaMemcpy")
	case kind == "memset":
		x.name = "cudaMemsetAsync"
		x.e = min(e, s+g.snap(500)+g.grid)
	case g.one(8):
		x.name, n = "cudaGraphLaunch", 1+g.IntN(4)
	}
	g.evs = append(g.evs, x)
	gpu := g.IntN(g.gpus)
	at := e
	switch g.IntN(8) {
	case 0:
		at = s + g.snap(g.IntN(e-s+1))
	case 1:
		at = e + g.snap(g.IntN(400))
	case 2:
		at = max(s-g.len(10), 0)
	default:
		at = e + g.snap(g.IntN(9))
	}
	for range n {
		g.op(gpu, kind, at, g.link)
		at = g.evs[len(g.evs)-1].e + g.snap(g.IntN(80))
	}
}

func (g *gen) op(gpu int, kind string, at us, link int) {
	x := ev{gpu: gpu, stream: 7 + g.IntN(3), kind: kind, link: link}
	switch kind {
	case "kernel":
		x.name = fmt.Sprintf("sgemm_%d", len(g.evs))
	case "comm":
		x.kind, x.name = "kernel", fmt.Sprintf("ncclDevKernel_AllReduce_Sum_f32_RING_LL_%d", len(g.evs))
		x.coll = " coll=allreduce n=7 dtype=Float group=0 size=1"
	case "h2d", "d2h":
		x.mem = g.pick("pageable", "pinned")
	}
	for g.start[[2]int{gpu, at}] {
		at += g.grid
	}
	d := g.dur()
	for g.end[[2]int{gpu, at + d}] {
		d += g.grid
	}
	g.start[[2]int{gpu, at}], g.end[[2]int{gpu, at + d}] = true, true
	x.s, x.e = at, at+d
	g.evs = append(g.evs, x)
}

func newGen(seed uint64) *gen {
	return &gen{Rand: rand.New(rand.NewPCG(seed, 7)), grid: 1, start: map[[2]int]bool{}, end: map[[2]int]bool{}, gpus: 1}
}

func randomEvents(seed uint64) []ev {
	g := newGen(seed)
	span := us(500 + g.IntN(2500))
	if g.one(6) {
		g.grid, g.big, span = 5, true, 40_000
	}
	if g.one(5) {
		g.gpus = 2
	}
	g.draw(span)
	return g.toNS(g.evs)
}

// draw makes the events of one process.
func (g *gen) draw(span us) {
	switch g.IntN(4) {
	case 0:
		g.next = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
	case 1, 2:
		g.next = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
	}
	g.optim = g.one(3)
	if g.one(2) { // steps
		at := us(100)
		if g.one(2) {
			g.fill("main", 0, at, 0)
		}
		for k := range 1 + g.IntN(5) {
			d := g.snap(100+g.IntN(span/2)) + g.grid
			g.evs = append(g.evs, ev{thread: "main", kind: "anno", s: at, e: at + d, name: fmt.Sprintf("ProfilerStep#%d", k+3)})
			g.fill("main", at, at+d, 0)
			at += d
			if g.one(4) {
				at += g.len(30)
			}
		}
		span = at
		if g.one(2) {
			g.fill("main", at, at+200, 0)
		}
	} else {
		third := g.len(span / 3)
		for at := us(0); at < span; at += third {
			g.fill("main", at, at+third, 0)
		}
	}
	if g.big && strings.Contains(g.next, "_Multi") { // about what tells that the loader was started again
		last := span
		for _, x := range g.evs {
			if x.thread == "main" {
				last = max(last, x.e)
			}
		}
		last += g.snap(9_980 + g.IntN(40))
		d := g.snap(9_980 + g.IntN(40))
		g.evs = append(g.evs, ev{thread: "main", kind: "anno", s: last, e: last + d, name: g.next})
		g.launch("main", last+d, last+d+10)
		span = last + d + 10
	}
	if g.one(2) {
		g.fill("autograd", g.len(200), span, 0)
	}
	if g.one(5) {
		g.fill("other", g.len(200), span, 0)
	}
	if g.one(5) {
		g.evs = append(g.evs, ev{thread: "overhead", kind: "overhead", s: g.snap(span / 3), e: g.snap(span/3) + g.dur(), name: g.pick("Activity Buffer Request", "Lazy Function Loading")})
	}
	for range g.IntN(3) { // no launch in the file
		g.op(g.IntN(g.gpus), "kernel", g.snap(g.IntN(span)), 9000+g.IntN(3))
	}
}

// toNS makes nanoseconds of microseconds, crooked ones at times: what coincides still does, and what is nested is.
func (g *gen) toNS(evs []ev) []ev {
	crooked := g.one(2)
	for i := range evs {
		for _, t := range []*int{&evs[i].s, &evs[i].e} {
			off := 0
			if crooked {
				off = int(uint64(*t+7) * 2_654_435_761 % 1000)
			}
			*t = *t*1000 + off
		}
	}
	return evs
}

// differ is what the two computations disagree on; "" nothing.
func differ(tab *Tables, evs []ev, seen map[string]int) string {
	red, err := Reduce(timelinetest.Parse(textOf(evs, 0, 1)), tab, Options{})
	if err != nil {
		return err.Error()
	}
	return differRank(red[0], newBrute(evs), seen)
}

func differRank(red *timeline.Reduced, b *brute, seen map[string]int) string {
	var out []string
	for gi := range red.GPUs {
		l := &red.GPUs[gi]
		at := fmt.Sprintf("rank %d gpu%d: ", red.Process.Rank, l.Device.Ordinal)
		own, side, w0, w1, ok := b.ledger(l.Device.Ordinal)
		if !ok {
			if l.Window.Dur() != 0 {
				out = append(out, fmt.Sprintf("%swindow %v, brute: none", at, l.Window))
			}
			continue
		}
		if l.Window.Start != timeline.Time(w0) || l.Window.End != timeline.Time(w1) {
			out = append(out, fmt.Sprintf("%swindow %v..%v, brute %d..%d ns; steps %s %v", at, l.Window.Start, l.Window.End, w0, w1, red.Steps.How, red.Steps.Index))
			continue
		}
		got := tallyOf(l)
		for k := range own {
			seen[k]++
		}
		if len(b.restarts) > 0 {
			seen["restart"]++
		}
		for _, k := range keysOf(got, own) {
			if got[k] != own[k] {
				out = append(out, fmt.Sprintf("%s%s is %d, brute %d ns", at, k, got[k], own[k]))
			}
		}
		if want := (timeline.Side{HiddenComm: int64(side["comm"]), HiddenCopy: int64(side["copy"]), HiddenNext: int64(side["next"])}); l.Side != want {
			out = append(out, fmt.Sprintf("%sside %v, brute %v", at, l.Side, want))
		}
	}
	return strings.Join(out, "\n")
}

// randomJob draws the traces of all ranks of a job, which meet in all-reduces of all of them and, at times, of the first two.
func randomJob(seed uint64) (evs []ev, world int) {
	g := newGen(seed + 1<<32)
	world = 2 + g.IntN(3)
	ranks := make([]*gen, world)
	at := make([][2]us, world) // when the rank's stream of each group is free
	for r := range ranks {
		ranks[r] = newGen(seed*8 + uint64(r) + 1<<40)
		ranks[r].draw(600 + g.IntN(800))
		for i := range ranks[r].evs {
			x := &ranks[r].evs[i]
			if x.comm() { // those have no peer
				x.name, x.coll = fmt.Sprintf("sgemm_%d", i), ""
			}
		}
		at[r] = [2]us{g.IntN(300), g.IntN(300)}
	}
	for i := range 1 + g.IntN(6) {
		group, members := 0, world
		if world > 2 && g.one(3) {
			group, members = 1, 2
		}
		starts, latest := make([]us, members), us(0)
		for r := range members {
			starts[r] = ranks[r].free(at[r][group]+g.IntN(250), ranks[r].start)
			latest = max(latest, starts[r])
		}
		end := latest + 1 + g.IntN(150)
		for r := range members {
			rg := ranks[r]
			e := rg.free(end+g.IntN(20), rg.end)
			rg.evs = append(rg.evs, ev{thread: "comm", kind: "api", s: max(starts[r]-12, 0), e: max(starts[r]-7, 1), name: "cudaLaunchKernel", link: 5000 + i},
				ev{stream: 20 + group, kind: "kernel", s: starts[r], e: e, link: 5000 + i, group: fmt.Sprint(group), seq: i + 1,
					name: fmt.Sprintf("ncclDevKernel_AllReduce_Sum_f32_RING_LL_%d", i),
					coll: fmt.Sprintf(" coll=allreduce n=1000 dtype=Float group=%d size=%d ranks=%s seq=%d", group, members, ranksText(members), i+1)})
			at[r][group] = e
		}
	}
	for r, rg := range ranks {
		for _, x := range rg.evs {
			x.rank = r
			evs = append(evs, x)
		}
	}
	return g.toNS(evs), world
}

// free is an instant at or after t at which no op begins, or ends, yet.
func (g *gen) free(t us, taken map[[2]int]bool) us {
	for taken[[2]int{0, t}] {
		t++
	}
	taken[[2]int{0, t}] = true
	return t
}

func differJob(tab *Tables, evs []ev, world int, seen map[string]int) string {
	var reds []*timeline.Reduced
	for r := range world {
		tl := timelinetest.Parse(textOf(evs, r, world))
		tl.Sources[0].Path = fmt.Sprintf("rank%d.json", r)
		got, err := Reduce(tl, tab, Options{})
		if err != nil {
			return err.Error()
		}
		reds = append(reds, got...)
	}
	j := Meet(reds, tab, Options{})
	// Waiting ends when the last rank of the collective has come.
	latest := map[string]ns{}
	for i := range evs {
		if x := &evs[i]; x.seq > 0 {
			latest[x.instance()] = max(latest[x.instance()], x.s)
		}
	}
	var out []string
	for _, red := range j.Ranks {
		b := newBrute(slices.DeleteFunc(slices.Clone(evs), func(x ev) bool { return x.rank != red.Process.Rank }))
		b.latest = latest
		if d := differRank(red, b, seen); d != "" {
			out = append(out, d)
		}
	}
	return strings.Join(out, "\n")
}

// The ledgers of a job whose ranks are all here, computed twice: who waits, who moves.
func TestBruteJob(t *testing.T) {
	tab := tables(t)
	failed := 0
	seen := map[string]int{}
	for seed := range uint64(500) {
		evs, world := randomJob(seed)
		d := differJob(tab, evs, world, seen)
		if d == "" {
			continue
		}
		whole := func(less []ev) bool { // a collective goes with all of its ranks, and every rank keeps one
			n, here := map[string]int{}, map[int]bool{}
			for i := range evs {
				if evs[i].seq > 0 {
					n[evs[i].instance()]++
				}
			}
			for i := range less {
				if less[i].seq > 0 {
					n[less[i].instance()]--
					here[less[i].rank] = true
				}
			}
			for _, left := range n {
				if left != 0 {
					return false
				}
			}
			return len(here) == world
		}
		evs = shrink(evs, func(less []ev) bool { return whole(less) && differJob(tab, less, world, seen) != "" })
		text := ""
		for r := range world {
			text += textOf(evs, r, world)
		}
		t.Errorf("seed %d:\n%s\n%s", seed, differJob(tab, evs, world, seen), text)
		if failed++; failed == 2 {
			break
		}
	}
	for _, k := range []string{"comm.peer-wait", "comm.transfer"} {
		if seen[k] < 100 {
			t.Errorf("%s was on %d GPUs only", k, seen[k])
		}
	}
}

func keysOf(a, b tally) []string {
	var keys []string
	for _, m := range []tally{a, b} {
		for k := range m {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// tallyOf words a ledger as brute does.
func tallyOf(l *timeline.GPULedger) tally {
	t := tally{}
	for o, v := range l.Owners {
		name, rest := timeline.Owner(o).String(), v
		for _, u := range l.Subs[o] {
			if n := subName(u.Sub); n != "" && (name == "unknown" || u.Sub == timeline.SubRefill) && u.NS > 0 {
				t[name+" "+n] += ns(u.NS)
				rest -= u.NS
			}
		}
		if rest > 0 {
			t[name] += ns(rest)
		}
	}
	return t
}

func shrink(evs []ev, bad func([]ev) bool) []ev {
	for again := true; again; {
		again = false
		for i := 0; i < len(evs); i++ {
			less := slices.Delete(slices.Clone(evs), i, i+1)
			if bad(less) {
				evs, again = less, true
				i--
			}
		}
	}
	return evs
}

// The whole ledger of a process, computed twice.
func TestBruteLedger(t *testing.T) {
	tab := tables(t)
	n, failed := uint64(1000), 0
	seen := map[string]int{} // traces with time of an owner
	for seed := range n {
		evs := randomEvents(seed)
		if differ(tab, evs, seen) == "" {
			continue
		}
		evs = shrink(evs, func(less []ev) bool { return len(less) > 0 && differ(tab, less, seen) != "" })
		t.Errorf("seed %d:\n%s\n%s", seed, differ(tab, evs, seen), textOf(evs, 0, 1))
		if failed++; failed == 4 {
			break
		}
	}
	for _, k := range []string{"compute", "comm.undivided", "copy.h2d", "copy.d2h", "gap.switch", "gap.queued-stall", "host.dataloader", "host.launch", "host.sync",
		"host.sync refill", "host.cpu-op", "host.python", "host.allocator", "host.compile", "host.checkpoint", "host.validation", "host.logging", "host.profiler",
		"unknown lag", "unknown missing", "unknown uncorrelated", "unknown no operators", "restart"} {
		if seen[k] < 10 {
			t.Errorf("%s was in %d traces only: the two hardly met", k, seen[k])
		}
	}
}
