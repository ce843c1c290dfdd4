package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// ledger makes the ledger of one device.
func (r *reducer) ledger(d *device) {
	sp := &r.tl.Spans
	g := timeline.GPULedger{Device: r.dev(d.id)}
	gpu := len(r.red.GPUs)
	maxEnd := sp.End[d.ops[0].span]
	for i := range d.ops {
		maxEnd = max(maxEnd, sp.End[d.ops[i].span])
	}
	if d.ends != nil {
		g.Window = timeline.Interval{Start: d.ends[r.first], End: d.ends[r.last]}
		for k := r.first; k < r.last; k++ {
			if d.ends[k+1] == d.ends[k] {
				g.Steps = nil // the process works on another device in that step: this one has no steps of its own
				r.red.Notes = append(r.red.Notes, fmt.Sprintf("device %d did nothing in step %d: its window is not cut into steps", g.Device.Ordinal, r.index[k]))
				break
			}
			g.Steps = append(g.Steps, timeline.StepRow{Start: d.ends[k], Dur: int64(d.ends[k+1] - d.ends[k])})
		}
	} else {
		g.Window = timeline.Interval{Start: sp.Start[d.ops[0].span], End: maxEnd}
		if w := r.opt.Window; !w.Empty() {
			g.Window.Start, g.Window.End = max(g.Window.Start, w.Start), min(g.Window.End, w.End)
			if g.Window.Empty() {
				g.Window.End = g.Window.Start
			}
		}
	}
	lo, hi := min(sp.Start[d.ops[0].span], g.Window.Start), max(maxEnd, g.Window.End)
	if d.ends != nil {
		lo = min(lo, d.ends[0])
	}
	segs := r.sweep(d, lo, hi)
	timeline.GiveBack(len(d.ops))
	r.missing(segs, &g)
	if !r.red.Steps.First.Empty() && d == r.biggest() {
		first := r.red.Steps.First
		for i := range segs {
			if s := &segs[i]; s.Start < first.End {
				r.red.Steps.FirstOwners[s.Owner] += max(0, int64(min(segEnd(s), first.End)-max(s.Start, first.Start)))
			}
		}
	}
	g.Segments = timeline.PackSegments(cut(segs, g.Window))
	account(&g)
	r.deviceTotals(d, &g)
	r.kernelTable(d, &g)
	r.work(d, &g)
	r.copyTable(d, &g)
	r.collectives(d, &g, gpu)
	r.red.GPUs = append(r.red.GPUs, g)
}

// missing relabels stalls of queued work where they are too many to be true: device events are missing, and nobody is to blame.
func (r *reducer) missing(segs []timeline.Segment, g *timeline.GPULedger) {
	var stall int64
	for i := range segs {
		s := &segs[i]
		if s.Owner == timeline.GapQueuedStall || (s.Owner == timeline.UnknownOwner && s.Sub == timeline.SubMissingEvents) {
			a, b := max(s.Start, g.Window.Start), min(segEnd(s), g.Window.End)
			stall += max(0, int64(b-a))
		}
	}
	if w := int64(g.Window.Dur()); stall*20 <= w {
		return
	}
	for i := range segs {
		if s := &segs[i]; s.Owner == timeline.GapQueuedStall {
			s.Owner, s.Sub = timeline.UnknownOwner, timeline.SubMissingEvents
		}
	}
	r.red.Notes = append(r.red.Notes, "device events are missing: work was queued while the trace shows an idle GPU for more than 5 % of the window (CUDA graphs with an old CUPTI, or dropped buffers); nobody is blamed for that time")
}

// cut gives the segments inside win. It copies where that lets much go, else it changes segs.
func cut(segs []timeline.Segment, win timeline.Interval) []timeline.Segment {
	if win.Empty() {
		return nil
	}
	i, _ := slices.BinarySearchFunc(segs, win.Start, func(s timeline.Segment, t timeline.Time) int {
		if segEnd(&s) <= t {
			return -1
		}
		return 1
	})
	j := i
	for j < len(segs) && segs[j].Start < win.End {
		j++
	}
	out := segs[i:j]
	if 4*len(out) < 3*cap(segs) {
		out = slices.Clone(out)
	}
	if len(out) > 0 {
		if f := &out[0]; f.Start < win.Start {
			f.Dur -= int64(win.Start - f.Start)
			f.Start = win.Start
		}
		if l := &out[len(out)-1]; segEnd(l) > win.End {
			l.Dur -= int64(segEnd(l) - win.End)
		}
	}
	return out[:len(out):len(out)]
}

// account computes all that follows from segments: owners and their finer split, of the window and of each step, the order of owners,
// the longest gap and the error of the sum.
func account(g *timeline.GPULedger) {
	const bins = 1024
	var subs [timeline.NOwners][timeline.SubOther + 1]int64
	var hist [timeline.NOwners][]int32
	g.Owners = timeline.Owners{}
	for i := range g.Steps {
		g.Steps[i].Owners = timeline.Owners{}
	}
	k := 0
	tile := g.Window.Start
	broken := int64(0)
	for s := range g.Segments.All() {
		if s.Start != tile {
			broken += int64(s.Start - tile)
		}
		tile = segEnd(&s)
		g.Owners[s.Owner] += s.Dur
		subs[s.Owner][s.Sub] += s.Dur
		at, end := s.Start, segEnd(&s)
		for k < len(g.Steps) && at < end {
			st := &g.Steps[k]
			stop := st.Start + timeline.Time(st.Dur)
			if at >= stop {
				k++
				continue
			}
			to := min(end, stop)
			st.Owners[s.Owner] += int64(to - at)
			if hist[s.Owner] == nil {
				hist[s.Owner] = make([]int32, bins)
			}
			hist[s.Owner][int64(at-st.Start)*(bins-1)/max(st.Dur, 1)]++
			at = to
		}
	}
	if broken == 0 {
		broken = int64(g.Window.End - tile)
	}
	g.SumError = int64(g.Window.Dur()) - g.Owners.Sum()
	if g.SumError == 0 {
		g.SumError = broken
	}
	for i := range g.Steps {
		if e := g.Steps[i].Dur - g.Steps[i].Owners.Sum(); e != 0 && g.SumError == 0 {
			g.SumError = e
		}
	}
	for o := range subs {
		g.Subs[o] = nil
		for u, v := range subs[o] {
			if v != 0 {
				g.Subs[o] = append(g.Subs[o], timeline.SubNS{Sub: timeline.Sub(u), NS: v})
			}
		}
	}
	g.Order = order(&hist)
}

// order sorts the owners that occur by the median of where in a step they begin.
func order(hist *[timeline.NOwners][]int32) []timeline.Owner {
	var out []timeline.Owner
	var med [timeline.NOwners]int
	for o, h := range hist {
		if h == nil {
			continue
		}
		var n, c int64
		for _, v := range h {
			n += int64(v)
		}
		for i, v := range h {
			if c += int64(v); 2*c >= n {
				med[o] = i
				break
			}
		}
		out = append(out, timeline.Owner(o))
	}
	slices.SortStableFunc(out, func(a, b timeline.Owner) int { return med[a] - med[b] })
	return out
}

// perStep adds the lengths of ivs inside the window to total and inside each step to what at gives. ivs are sorted and disjoint.
func perStep(g *timeline.GPULedger, ivs []timeline.Interval, total *int64, at func(*timeline.StepRow) *int64) {
	k := 0
	for _, iv := range ivs {
		a, b := max(iv.Start, g.Window.Start), min(iv.End, g.Window.End)
		if a >= b {
			continue
		}
		*total += int64(b - a)
		for k < len(g.Steps) && a < b {
			st := &g.Steps[k]
			stop := st.Start + timeline.Time(st.Dur)
			if a >= stop {
				k++
				continue
			}
			to := min(b, stop)
			*at(st) += int64(to - a)
			a = to
		}
	}
}

// union gives when any op of some layers ran.
func (r *reducer) union(d *device, want func(layer) bool) []timeline.Interval {
	sp := &r.tl.Spans
	n, end := 0, timeline.Time(math.MinInt64) // how many there will be: they are too many to grow into
	for i := range d.ops {
		op := &d.ops[i]
		if !want(op.layer) || sp.End[op.span] <= sp.Start[op.span] {
			continue
		}
		if n == 0 || sp.Start[op.span] > end {
			n++
		}
		end = max(end, sp.End[op.span])
	}
	if n == 0 {
		return nil
	}
	out := make([]timeline.Interval, 0, n)
	for i := range d.ops {
		op := &d.ops[i]
		if !want(op.layer) || sp.End[op.span] <= sp.Start[op.span] {
			continue
		}
		if n := len(out); n > 0 && sp.Start[op.span] <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, sp.End[op.span])
			continue
		}
		out = append(out, timeline.Interval{Start: sp.Start[op.span], End: sp.End[op.span]})
	}
	return out
}

// deviceTotals computes busy time, side meters, bins and counts of the device.
func (r *reducer) deviceTotals(d *device, g *timeline.GPULedger) {
	sp := &r.tl.Spans
	busy := r.union(d, func(layer) bool { return true })
	if comm := r.union(d, func(l layer) bool { return l == layerComm }); len(comm) > 0 {
		compute := r.union(d, func(l layer) bool { return l == layerCompute })
		perStep(g, timeline.Intersect(comm, compute), &g.Side.HiddenComm, func(s *timeline.StepRow) *int64 { return &s.Side.HiddenComm })
	}
	if copies := r.union(d, func(l layer) bool { return l >= layerH2D }); len(copies) > 0 {
		upper := r.union(d, func(l layer) bool { return l <= layerComm })
		perStep(g, timeline.Intersect(copies, upper), &g.Side.HiddenCopy, func(s *timeline.StepRow) *int64 { return &s.Side.HiddenCopy })
	}
	if next := r.nextIntervals(); len(next) > 0 {
		perStep(g, timeline.Intersect(next, busy), &g.Side.HiddenNext, func(s *timeline.StepRow) *int64 { return &s.Side.HiddenNext })
	}
	at := g.Window.Start
	gap := func(to timeline.Time) {
		if to-at > g.Idle.End-g.Idle.Start {
			g.Idle = timeline.Interval{Start: at, End: to}
		}
	}
	for _, iv := range busy {
		if a, b := max(iv.Start, g.Window.Start), min(iv.End, g.Window.End); a < b {
			gap(a)
			at = b
			g.Busy += int64(b - a)
		}
	}
	gap(g.Window.End)
	for i := range d.ops {
		op := &d.ops[i]
		if sp.Start[op.span] < g.Window.Start || sp.Start[op.span] >= g.Window.End {
			continue
		}
		g.Ops++
		if op.rec < 0 {
			g.Uncorrelated++
		} else if sp.Start[op.span] < sp.Start[r.recs[op.rec].span] {
			g.Late++
		}
	}
	g.Bins = bins(busy, r.recorded)
}

// bins gives the busy share in equal bins of the recording: the finest of 1, 2, 5, 10 ... ms that needs at most 8192.
func bins(busy []timeline.Interval, rec timeline.Interval) timeline.BusyBins {
	const most = 8192
	w := timeline.Time(time.Millisecond)
	for i := 0; (rec.End-rec.Start)/w >= most; i++ {
		w = w * timeline.Time([3]int{2, 5, 2}[i%3])
		if i%3 == 1 {
			w /= 2
		}
	}
	n := int((rec.End-rec.Start)/w) + 1
	ns := make([]int64, n)
	for _, iv := range busy {
		for a := iv.Start; a < iv.End; {
			b := int((a - rec.Start) / w)
			stop := min(iv.End, rec.Start+timeline.Time(b+1)*w)
			ns[b] += int64(stop - a)
			a = stop
		}
	}
	out := timeline.BusyBins{Start: rec.Start, Bin: time.Duration(w), Busy: make([]float32, n)}
	for i, v := range ns {
		width := min(w, rec.End-rec.Start-timeline.Time(i)*w) // the last bin is shorter
		if width > 0 {
			out.Busy[i] = float32(float64(v) / float64(width))
		}
	}
	return out
}

// nextIntervals gives when the main thread was inside the loader's next(), validation's left out: those waits have their own owner.
func (r *reducer) nextIntervals() []timeline.Interval {
	if r.main < 0 {
		return nil
	}
	sp := &r.tl.Spans
	var out []timeline.Interval
	for _, m := range r.loadMarks {
		if int(m.thread) == r.main && sp.End[m.span] > sp.Start[m.span] {
			out = append(out, timeline.Interval{Start: sp.Start[m.span], End: sp.End[m.span]})
		}
	}
	return timeline.Union(out)
}

// collectives lists the communication ops of a device with the pieces of them that nothing hid.
func (r *reducer) collectives(d *device, g *timeline.GPULedger, gpu int) {
	sp := &r.tl.Spans
	compute := make([]int64, len(d.streams))
	for i := range d.ops {
		if d.ops[i].layer == layerCompute {
			compute[d.ops[i].stream] += int64(sp.End[d.ops[i].span] - sp.Start[d.ops[i].span])
		}
	}
	main := 0
	for i, v := range compute {
		if v > compute[main] {
			main = i
		}
	}
	g.Phases = r.phases(d, main)
	var launches []phaseLaunch
	var hide []timeline.Interval
	made := false
	step, lo := 0, 0
	// Collectives overlap a few deep; a file in which all do may not cost more than its ops allow.
	budget := 16*len(d.ops) + 4096
	for i := range d.ops {
		op := &d.ops[i]
		if op.layer != layerComm {
			continue
		}
		if !made {
			hide, made = r.union(d, func(l layer) bool { return l == layerCompute }), true
			launches = r.launchesOf(d, main)
		}
		c := r.collective(op)
		if len(g.Phases) > 0 {
			c.Phase = r.phaseOfComm(op, launches)
		}
		c.GPU, c.Stream, c.OnCompute = gpu, d.streams[op.stream], int(op.stream) == main && compute[main] > 0
		c.Step = -1
		for step < len(g.Steps) && g.Steps[step].Start+timeline.Time(g.Steps[step].Dur) <= sp.Start[op.span] {
			step++
		}
		if step < len(g.Steps) && sp.Start[op.span] >= g.Steps[step].Start {
			c.Step = int32(step)
		}
		c.Exposed0 = int32(len(r.exposed))
		a, b := max(sp.Start[op.span], g.Window.Start), min(sp.End[op.span], g.Window.End)
		for lo < len(hide) && hide[lo].End <= sp.Start[op.span] {
			lo++
		}
		for j := lo; a < b && budget > 0; j++ {
			budget--
			if j == len(hide) || hide[j].Start >= b {
				r.exposed = append(r.exposed, timeline.Interval{Start: a, End: b})
				break
			}
			if hide[j].Start > a {
				r.exposed = append(r.exposed, timeline.Interval{Start: a, End: hide[j].Start})
			}
			a = max(a, hide[j].End)
		}
		c.ExposedN = int32(len(r.exposed)) - c.Exposed0
		for _, iv := range r.exposed[c.Exposed0:] {
			c.ExposedNS += int64(iv.Dur())
		}
		c.Row = sp.Row[op.span]
		r.red.Collectives = append(r.red.Collectives, c)
	}
	if budget <= 0 {
		r.red.Notes = append(r.red.Notes, "too many collectives run at once: how much of the later ones was exposed is not computed")
	}
}

// sortCollectives puts the collectives of all devices in order of start.
func (r *reducer) sortCollectives() {
	slices.SortStableFunc(r.red.Collectives, func(a, b timeline.Collective) int {
		switch {
		case a.Start != b.Start:
			if a.Start < b.Start {
				return -1
			}
			return 1
		case a.GPU != b.GPU:
			return a.GPU - b.GPU
		}
		return int(int64(a.Row) - int64(b.Row))
	})
}

// collRange takes the primitive from the range or operator that launched a collective, which knows all-to-all from send and recv, and
// the bytes from the recorded shape of its input where the arguments do not tell.
func (r *reducer) collRange(c *timeline.Collective, rec *launchRec, bytes bool) {
	sp := &r.tl.Spans
	if p := r.t.Primitive(r.tl.Names.Get(sp.Name[r.around[rec.in].coll])); p != "unknown" && p != "other" {
		c.Primitive = p
	}
	if !bytes || rec.op < 0 || r.n.hostOf(sp.Name[rec.op]).flags&flagParams == 0 {
		return
	}
	sh := r.shapeOf(rec.op)
	if sh == nil || r.t.payload[c.Primitive] == "out" {
		return
	}
	dims, types := parseDims(r.tl.Names.Get(sh.Dims)), parseStrings(r.tl.Names.Get(sh.Types))
	if len(dims) == 0 || len(dims[0]) == 0 || len(types) == 0 {
		return
	}
	size, ok := r.t.elemSize(strings.TrimPrefix(types[0], "c10::"))
	n := int64(1)
	for _, d := range dims[0] {
		if n *= d; n > 1<<50 {
			return
		}
	}
	if ok && n > 0 {
		c.Bytes, c.DType = n*size, types[0]
	}
}

// ranksOf reads the ranks of a group, each text once.
func (r *reducer) ranksOf(id timeline.StringID) []int {
	if r.groups == nil {
		r.groups = map[timeline.StringID][]int{}
	}
	v, ok := r.groups[id]
	if !ok {
		v = parseRanks(r.tl.Names.Get(id))
		r.groups[id] = v
	}
	return v
}

// collective reads one communication op: its own arguments, else those of the operator that launched it, else its name.
func (r *reducer) collective(op *devOp) timeline.Collective {
	tl, sp := r.tl, &r.tl.Spans
	c := timeline.Collective{Start: sp.Start[op.span], End: sp.End[op.span], Name: tl.Names.Get(tl.Spans.Name[op.span]), Primitive: "unknown", Bytes: -1, Seq: -1, Grid: op.grid, Peer: -1, Culprit: -1}
	if tl.Spans.Kind[op.span] == timeline.KindMemcpy {
		c.Primitive = "send-recv"
		if k := r.copyOf(op.span); k != nil {
			c.Bytes = k.Bytes
		}
		return c
	}
	k := r.n.kernelOf(tl.Spans.Name[op.span])
	if k.Comm {
		c.Primitive, c.DType = k.Primitive, k.DType
	}
	a := r.commOf(op.span)
	if a == nil && op.rec >= 0 && r.aroundOf(op.rec).comm >= 0 {
		a = &tl.Spans.Comms[r.aroundOf(op.rec).comm]
	}
	if op.rec >= 0 && r.aroundOf(op.rec).coll >= 0 {
		r.collRange(&c, &r.recs[op.rec], a == nil)
	}
	if a == nil {
		return c
	}
	if p := r.t.Primitive(tl.Names.Get(a.Collective)); p != "unknown" {
		c.Primitive = p
	}
	if d := tl.Names.Get(a.DType); d != "" {
		c.DType = d
	}
	c.Group, c.GroupDesc, c.GroupSize, c.Seq = tl.Names.Get(a.Group), tl.Names.Get(a.GroupDesc), int(a.GroupSize), a.Seq
	c.GroupRanks = r.ranksOf(a.GroupRanks)
	if c.GroupRanks == nil || (c.GroupSize > 0 && len(c.GroupRanks) != c.GroupSize) {
		c.GroupRanks = nil // abbreviated with "..." in large groups
		for i := range r.p.Groups {
			if g := &r.p.Groups[i]; g.Name == c.Group && c.Group != "" && len(g.Ranks) > 0 && (c.GroupSize == 0 || len(g.Ranks) == c.GroupSize) {
				c.GroupRanks = g.Ranks
			}
		}
	}
	if c.GroupSize == 0 {
		c.GroupSize = len(c.GroupRanks)
	}
	if c.Primitive == "send-recv" {
		switch {
		case a.Dst >= 0 && (a.Src < 0 || int(a.Src) == r.p.Rank):
			c.Peer, c.Dir = int(a.Dst), 1
		case a.Src >= 0:
			c.Peer, c.Dir = int(a.Src), -1
		}
	}
	if c.Primitive == "all-to-all" {
		splits(&c, tl.Names.Get(a.InSplits), a.InElems)
	}
	n := a.InElems
	switch r.t.payload[c.Primitive] {
	case "out":
		n = a.OutElems
	case "in":
	default:
		n = max(a.InElems, a.OutElems)
	}
	if size, ok := r.t.elemSize(c.DType); ok && n >= 0 && n <= math.MaxInt64/16 {
		c.Bytes = n * size
	}
	return c
}
