package ledger

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
)

// devOp is one device op of one device, of which there are millions. Ops are sorted by start, then by the order of the file.
type devOp struct {
	span   int32  // its times are there
	rec    int32  // in reducer.recs, -1 no launch call
	grid   uint32 // blocks, saturated; 0 unknown
	stream uint16 // in device.streams
	class  Class
	layer  layer
}

// layer is what a device op may own, highest first.
type layer uint8

const (
	layerCompute layer = iota
	layerComm
	layerH2D
	layerD2H
)

// device is one device as the process drove it.
type device struct {
	id      timeline.DeviceID
	ops     []devOp
	streams []int64
	head    int // ops of the head without a launch: launched before the recording
	ends    []timeline.Time
}

// reducer holds one process while it is reduced.
type reducer struct {
	tl   *timeline.Timeline
	t    *Tables
	n    *names
	opt  Options
	proc int
	p    *timeline.Process
	red  *timeline.Reduced
	span [][2]int32 // spans of each track
	sole bool       // no other process of the file comes after: what nothing asks for any more is let go

	devices   []*device
	link      *links
	recs      []launchRec
	around    []around // that recs name
	nconv     []uint8  // convolution kernels that a record launched, saturated; by record, nil where there are none
	copyLinks []copyLink
	staged    []stagedCopy // by call

	threads  []*hostThread
	os       *osView   // what the system shows of threads; nil: nothing
	main     int       // -1 none
	others   []int     // further launching threads, most launches first
	overhead []int32   // overhead spans on no host thread, by start
	profiler []stretch // of them: when the profiler worked
	loading  []stretch // of them: when modules were loaded
	stepRE   *regexp.Regexp
	recorded timeline.Interval
	ops      bool // operators were recorded
	frames   bool

	stepMarks, nameMarks, optMarks, loadMarks, userMarks []markSpan
	annos                                                []int32
	restarts                                             []timeline.Interval // the loader's workers are being started again

	host    []timeline.Interval // host interval of every recorded step
	index   []int64
	cuts    []timeline.Time // step ends on the device, where found there
	first   int             // analysed steps are [first, last)
	last    int
	exposed []timeline.Interval
	mm      map[mmKey]*mmGroup
	groups  map[timeline.StringID][]int
	wasCut  bool // by the window that the user asked for
	mmOrder []*mmGroup
	busy    []timeline.Interval // of the biggest device, made when asked for
}

// Reduce turns the spans of one trace file into what outlives them: one Reduced a process that was recorded. The error is a wrong
// --steps; a damaged or empty trace gives a Reduced that says so in its Notes.
func Reduce(tl *timeline.Timeline, t *Tables, opt Options) ([]*timeline.Reduced, error) {
	var re *regexp.Regexp
	if opt.Steps != "" {
		var err error
		if re, err = regexp.Compile(opt.Steps); err != nil {
			return nil, fmt.Errorf("--steps: %w", err)
		}
	}
	own := *tl // its columns are let go one by one; a caller that keeps his timeline keeps his columns
	tl = &own
	if tl.Spans.Len() == 0 && len(tl.Totals) > 0 {
		return nil, nil // sums of a recording: no process is seen in them
	}
	spans := tl.Spans.Len()
	timeline.GiveBack(spans)
	span := trackSpans(tl)
	n := newNames(t, tl)
	procs := len(tl.Procs)
	var out []*timeline.Reduced
	for i := 0; i < max(procs, 1); i++ {
		p := &timeline.Process{Rank: -1}
		if procs > 0 {
			p = &tl.Procs[i]
		}
		r := &reducer{tl: tl, t: t, n: n, opt: opt, proc: i, p: p, span: span, sole: i >= procs-1, stepRE: re, main: -1}
		if red := r.run(); red != nil {
			out = append(out, red)
		}
	}
	own.Spans = timeline.Spans{}
	timeline.GiveBack(spans)
	return out, nil
}

// trackSpans gives the stretch of spans of each track; they are sorted by track.
func trackSpans(tl *timeline.Timeline) [][2]int32 {
	out := make([][2]int32, len(tl.Tracks))
	for lo := 0; lo < tl.Spans.Len(); {
		t := tl.Spans.Track[lo]
		hi := lo + sort.Search(tl.Spans.Len()-lo, func(i int) bool { return tl.Spans.Track[lo+i] > t })
		out[t] = [2]int32{int32(lo), int32(hi)}
		lo = hi
	}
	return out
}

// mine tells whether a track belongs to the process; with one process, tracks of no process do too.
func (r *reducer) mine(tr *timeline.Track) bool {
	return tr.Proc == r.proc || (tr.Proc < 0 && len(r.tl.Procs) <= 1)
}

// eachShape gives the shapes of the process's own spans, a track after the other.
func (r *reducer) eachShape(f func(s int32, sh *timeline.Shape)) {
	all := r.tl.Spans.Shapes
	for id := range r.tl.Tracks {
		if !r.mine(&r.tl.Tracks[id]) {
			continue
		}
		from, to := r.span[id][0], r.span[id][1]
		for k := sort.Search(len(all), func(k int) bool { return all[k].Span >= from }); k < len(all) && all[k].Span < to; k++ {
			f(all[k].Span, &all[k])
		}
	}
}

func (r *reducer) run() *timeline.Reduced {
	r.red = &timeline.Reduced{Process: *r.p}
	if int(r.p.Source) < len(r.tl.Sources) {
		r.red.Path = r.tl.Sources[r.p.Source].Path
	}
	r.recorded = timeline.Interval{Start: math.MaxInt64, End: math.MinInt64}
	r.collect()
	r.hostPass()
	r.osPass()
	if r.recorded.Start > r.recorded.End {
		r.recorded = timeline.Interval{}
	}
	r.red.Recorded = r.recorded
	if len(r.threads) == 0 && len(r.devices) == 0 {
		if len(r.tl.Procs) > 1 {
			return nil // a process that the file only names
		}
		r.red.Notes = append(r.red.Notes, "the trace holds no spans")
		return r.red
	}
	for _, d := range r.devices {
		r.join(d)
	}
	r.stage()
	r.link, r.copyLinks = nil, nil
	if r.sole {
		sp := &r.tl.Spans
		sp.Link, sp.Kernels, sp.Launches = nil, nil, nil
		timeline.GiveBack(sp.Len())
	}
	r.setMain()
	r.convTrials()
	r.findRestarts()
	r.findSteps()
	if r.sole {
		r.tl.Spans.Track = nil
	}
	timeline.GiveBack(r.tl.Spans.Len())
	for _, d := range r.devices {
		r.ledger(d)
	}
	r.red.Exposed = slices.Clone(r.exposed) // what is kept of a rank has no room to grow
	r.sortCollectives()
	r.red.Collectives = slices.Clone(r.red.Collectives)
	r.rankTables()
	r.osTables()
	r.notes()
	return r.red
}

// collect gathers the device ops of each device, with their class and layer, and the links they want.
func (r *reducer) collect() {
	sp := &r.tl.Spans
	byDev := map[timeline.DeviceID]*device{}
	runs := map[timeline.DeviceID][]int{}
	total, perDev := 0, map[timeline.DeviceID]int{}
	for ti := range r.tl.Tracks {
		if tr := &r.tl.Tracks[ti]; tr.Kind == timeline.TrackStream && r.mine(tr) {
			n := countOps(sp.Kind[r.span[ti][0]:r.span[ti][1]])
			total += n
			perDev[tr.Device] += n
		}
	}
	wanted := make([]uint32, 0, total)
	for ti := range r.tl.Tracks {
		tr := &r.tl.Tracks[ti]
		if tr.Kind != timeline.TrackStream || !r.mine(tr) {
			continue
		}
		lo, hi := r.span[ti][0], r.span[ti][1]
		if countOps(sp.Kind[lo:hi]) == 0 {
			continue
		}
		d := byDev[tr.Device]
		if d == nil {
			d = &device{id: tr.Device, ops: make([]devOp, 0, perDev[tr.Device])}
			byDev[tr.Device] = d
			r.devices = append(r.devices, d)
		}
		stream := uint16(min(len(d.streams), math.MaxUint16))
		if len(d.streams) <= math.MaxUint16 {
			d.streams = append(d.streams, tr.Thread)
		}
		runs[tr.Device] = append(runs[tr.Device], len(d.ops))
		ci := sort.Search(len(sp.Copies), func(i int) bool { return sp.Copies[i].Span >= lo })
		mi := sort.Search(len(sp.Comms), func(i int) bool { return sp.Comms[i].Span >= lo })
		ki := sort.Search(len(sp.Kernels), func(i int) bool { return sp.Kernels[i].Span >= lo })
		for s := lo; s < hi; s++ {
			if !sp.Kind[s].IsDeviceOp() {
				continue
			}
			op := devOp{span: s, rec: -1, stream: stream}
			r.recorded.Start, r.recorded.End = min(r.recorded.Start, sp.Start[s]), max(r.recorded.End, sp.End[s])
			if sp.Link[s] != 0 {
				wanted = append(wanted, sp.Link[s])
			}
			switch sp.Kind[s] {
			case timeline.KindKernel:
				for mi < len(sp.Comms) && sp.Comms[mi].Span < s {
					mi++
				}
				k := r.n.kernelOf(sp.Name[s])
				op.class = k.Class
				if k.Comm || (mi < len(sp.Comms) && sp.Comms[mi].Span == s) {
					op.class, op.layer = ClassComm, layerComm
				}
				for ki < len(sp.Kernels) && sp.Kernels[ki].Span < s {
					ki++
				}
				if ki < len(sp.Kernels) && sp.Kernels[ki].Span == s {
					op.grid = blocks(sp.Launches[sp.Kernels[ki].Launch].Grid)
				}
			case timeline.KindMemset:
				op.class = ClassMemset
			case timeline.KindMemcpy:
				for ci < len(sp.Copies) && sp.Copies[ci].Span < s {
					ci++
				}
				op.class = ClassCopyCast
				if ci < len(sp.Copies) && sp.Copies[ci].Span == s {
					c := &sp.Copies[ci]
					mem := hostSide(c)
					switch c.Kind {
					case timeline.DirH2D:
						op.layer = layerH2D
					case timeline.DirD2H:
						op.layer = layerD2H
					case timeline.DirP2P:
						op.class, op.layer = ClassComm, layerComm
					}
					if sp.Link[s] != 0 {
						r.copyLinks = append(r.copyLinks, copyLink{sp.Link[s], c.Kind, mem})
					}
				}
			}
			d.ops = append(d.ops, op)
		}
	}
	sort.Slice(r.devices, func(i, j int) bool {
		a, b := r.dev(r.devices[i].id), r.dev(r.devices[j].id)
		if a.Ordinal != b.Ordinal {
			return a.Ordinal < b.Ordinal
		}
		return r.devices[i].id < r.devices[j].id
	})
	for _, d := range r.devices {
		d.ops = mergeRuns(sp, d.ops, runs[d.id])
	}
	slices.SortStableFunc(r.copyLinks, func(a, b copyLink) int {
		switch {
		case a.link < b.link:
			return -1
		case a.link > b.link:
			return 1
		}
		return 0
	})
	r.link = newLinks(wanted)
	r.recs = make([]launchRec, 0, r.link.n)
}

func countOps(kinds []timeline.SpanKind) int {
	n := 0
	for _, k := range kinds {
		if k.IsDeviceOp() {
			n++
		}
	}
	return n
}

func (r *reducer) dev(id timeline.DeviceID) timeline.Device {
	if id < 0 || int(id) >= len(r.tl.Devices) {
		return timeline.Device{Index: -1, Ordinal: -1, Proc: r.proc}
	}
	return r.tl.Devices[id]
}

func hostSide(c *timeline.Copy) timeline.MemKind {
	switch c.Kind {
	case timeline.DirH2D:
		return c.Src
	case timeline.DirD2H:
		return c.Dst
	}
	return timeline.MemUnknown
}

// blocks is the number of blocks of a grid, saturated; 0 unknown.
func blocks(g [3]int32) uint32 {
	n := uint64(1)
	for _, v := range g {
		if v <= 0 {
			return 0
		}
		n = min(n*uint64(v), math.MaxUint32)
	}
	return uint32(n)
}

func before(sp *timeline.Spans, a, b int32) bool {
	if x, y := sp.Start[a], sp.Start[b]; x != y {
		return x < y
	}
	if x, y := sp.End[a], sp.End[b]; x != y {
		return x > y
	}
	return a < b
}

// mergeRuns sorts ops that consist of sorted runs beginning at starts (one a stream): pairwise, so n log(streams).
func mergeRuns(sp *timeline.Spans, ops []devOp, starts []int) []devOp {
	if len(starts) < 2 {
		return ops
	}
	ends := append(append([]int(nil), starts[1:]...), len(ops))
	buf := make([]devOp, len(ops))
	for len(starts) > 1 {
		var ns, ne []int
		for i := 0; i < len(starts); i += 2 {
			lo, mid := starts[i], ends[i]
			if i+1 == len(starts) {
				copy(buf[lo:mid], ops[lo:mid])
				ns, ne = append(ns, lo), append(ne, mid)
				continue
			}
			hi := ends[i+1]
			a, b, o := lo, mid, lo
			for a < mid && b < hi {
				if before(sp, ops[b].span, ops[a].span) {
					buf[o] = ops[b]
					b++
				} else {
					buf[o] = ops[a]
					a++
				}
				o++
			}
			o += copy(buf[o:], ops[a:mid])
			copy(buf[o:], ops[b:hi])
			ns, ne = append(ns, lo), append(ne, hi)
		}
		ops, buf = buf, ops
		starts, ends = ns, ne
	}
	return ops
}

// join gives each op its launch record, and convolution and optimizer kernels their class by where they were launched.
func (r *reducer) join(d *device) {
	sp := &r.tl.Spans
	d.head = -1
	for i := range d.ops {
		op := &d.ops[i]
		op.rec = r.link.rec(sp.Link[op.span])
		if op.rec < 0 {
			continue
		}
		if d.head < 0 {
			d.head = i
		}
		rec := &r.recs[op.rec]
		if sp.Kind[op.span] != timeline.KindKernel || op.layer == layerComm {
			continue
		}
		if rec.mm >= 0 && r.n.hostOf(sp.Name[rec.mm]).flags&flagConv != 0 {
			if op.class == ClassMatmul {
				op.class = ClassConv
			}
			if op.class == ClassConv {
				if r.nconv == nil {
					r.nconv = make([]uint8, len(r.recs))
				}
				if n := &r.nconv[op.rec]; *n < math.MaxUint8 {
					*n++
				}
			}
		}
		if r.around[rec.in].opt >= 0 && r.t.inOpt[op.class] {
			op.class = ClassOptimizer
		}
	}
	if d.head < 0 {
		d.head = len(d.ops) // nothing has a launch
	}
}

// convTrials finds convolution operators that tried one algorithm after the other; being inside one is compilation.
func (r *reducer) convTrials() {
	n := 0
	for i := 0; i < len(r.nconv); {
		j, sum, thread := i, 0, r.aroundOf(int32(i)).thread
		for j < len(r.recs) && r.recs[j].mm == r.recs[i].mm && r.aroundOf(int32(j)).thread == thread {
			sum += int(r.nconv[j])
			j++
		}
		if mm := r.recs[i].mm; mm >= 0 && sum >= r.t.calls.ConvTrials {
			n += sum
			h := r.threads[thread]
			if k, ok := slices.BinarySearch(h.ev, mm); ok {
				h.code[k] = evCompile
			}
		}
		i = j
	}
	r.red.Rank.ConvTrials = int64(n)
}

// findRestarts infers that a multi-worker loader was started again: a long stretch without spans on the main thread, ended by a
// next() that is long too, as live workers would have had that batch ready.
func (r *reducer) findRestarts() {
	if r.main < 0 {
		return
	}
	sp := &r.tl.Spans
	var durs []int64
	for _, m := range r.loadMarks {
		if int(m.thread) == r.main && r.n.hostOf(sp.Name[m.span]).flags&flagMulti != 0 {
			durs = append(durs, int64(sp.End[m.span]-sp.Start[m.span]))
		}
	}
	if len(durs) == 0 {
		return
	}
	slices.Sort(durs)
	med := durs[len(durs)/2]
	h := r.threads[r.main]
	last := timeline.Time(math.MaxInt64)
	for _, s := range h.ev {
		d := int64(sp.End[s] - sp.Start[s])
		if r.n.hostOf(sp.Name[s]).flags&flagMulti != 0 && last != math.MaxInt64 && sp.Start[s]-last >= restartMin && d >= restartMin && d >= 2*med {
			r.restarts = append(r.restarts, timeline.Interval{Start: last, End: sp.Start[s]})
		}
		if last == math.MaxInt64 || sp.End[s] > last {
			last = sp.End[s]
		}
	}
}
