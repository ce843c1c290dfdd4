package ledger

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// findSteps finds the marks of the process's steps and, for each device, when its part of each step ended.
func (r *reducer) findSteps() {
	s := &r.red.Steps
	s.How = "none"
	for _, try := range []func() bool{r.userSteps, r.profilerSteps, r.namedSteps, r.optimizerSteps, r.loaderSteps} {
		if !try() {
			continue
		}
		r.hostEnds()
		if r.empty() {
			r.red.Notes = append(r.red.Notes, fmt.Sprintf("no device op was launched inside the steps named %s: they are not used", s.Name))
			*s = timeline.StepMarks{How: "none"}
			r.host, r.index = nil, nil
			continue
		}
		r.dropEmpty()
		r.dropEdges()
		break
	}
	if s.How == "none" && len(r.devices) > 0 {
		r.periodSteps()
	}
	if s.How != "none" {
		r.cutSteps()
	}
	if s.How == "none" {
		for _, d := range r.devices {
			d.ends = nil
		}
		return
	}
	for k := r.first; k < r.last; k++ {
		s.Index = append(s.Index, r.index[k])
		if r.host != nil {
			s.Host = append(s.Host, r.host[k])
		}
	}
	if d := r.biggest(); d != nil {
		for k := 0; k+1 < len(d.ends); k++ {
			s.All = append(s.All, time.Duration(d.ends[k+1]-d.ends[k]))
		}
		if r.first > 0 && !r.wasCut {
			s.First = timeline.Interval{Start: d.ends[0], End: d.ends[1]}
		}
	}
}

// cutSteps keeps the whole steps inside the window that the user asked for.
func (r *reducer) cutSteps() {
	w := r.opt.Window
	if w.Empty() {
		return
	}
	step := func(k int) timeline.Interval { // as the host or, without marks, the device has it
		if d := r.biggest(); d != nil {
			return timeline.Interval{Start: d.ends[k], End: d.ends[k+1]}
		}
		return r.host[k]
	}
	st := &r.red.Steps
	first, last := r.first, r.last
	for r.first < r.last && step(r.first).Start < w.Start {
		r.first++
	}
	for r.last > r.first && step(r.last-1).End > w.End {
		r.last--
	}
	if n := (r.first - first) + (last - r.last); n > 0 {
		st.Dropped = append(st.Dropped, fmt.Sprintf("%d %s outside the window asked for", n, plural(n, "step", "steps")))
	}
	if r.first == r.last {
		*st = timeline.StepMarks{How: "none", Dropped: st.Dropped}
		r.red.Notes = append(r.red.Notes, "no whole step lies in the window asked for")
		r.host, r.index, r.first, r.last = nil, nil, 0, 0
	}
	r.wasCut = true
}

// biggest is the device with most ops.
func (r *reducer) biggest() *device {
	var top *device
	for _, d := range r.devices {
		if top == nil || len(d.ops) > len(top.ops) {
			top = d
		}
	}
	return top
}

// empty tells whether no device did anything inside the steps.
func (r *reducer) empty() bool {
	if len(r.devices) == 0 {
		return false
	}
	for _, d := range r.devices {
		if d.ends[len(d.ends)-1] > d.ends[0] {
			return false
		}
	}
	return true
}

// outermost keeps the marks of the thread that has most of them, in order, without those inside others.
func (r *reducer) outermost(marks []markSpan) []int32 {
	count := make([]int, len(r.threads))
	for _, m := range marks {
		count[m.thread]++
	}
	thread := 0
	for i, c := range count {
		if c > count[thread] {
			thread = i
		}
	}
	sp := &r.tl.Spans
	var out []int32
	var end timeline.Time
	for _, m := range marks {
		if int(m.thread) != thread || sp.End[m.span] <= sp.Start[m.span] || (len(out) > 0 && sp.End[m.span] <= end) {
			continue
		}
		out = append(out, m.span)
		end = sp.End[m.span]
	}
	return out
}

// ranges takes each mark as one step.
func (r *reducer) ranges(marks []markSpan, how, name string, conf timeline.Confidence) bool {
	spans := r.outermost(marks)
	if len(spans) == 0 {
		return false
	}
	sp := &r.tl.Spans
	r.host, r.index = nil, nil
	for i, s := range spans {
		iv := timeline.Interval{Start: sp.Start[s], End: sp.End[s]}
		if i > 0 {
			iv.Start = max(iv.Start, r.host[i-1].End) // files in whole microseconds overlap by one
		}
		r.host = append(r.host, iv)
		idx := int64(i)
		if _, num, ok := strings.Cut(r.tl.Names.Get(sp.Name[s]), "#"); ok {
			if v, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64); err == nil {
				idx = v
			}
		}
		r.index = append(r.index, idx)
	}
	st := &r.red.Steps
	st.How, st.Name, st.Confidence = how, name, conf
	return true
}

func (r *reducer) userSteps() bool {
	return r.ranges(r.userMarks, "annotation", r.opt.Steps, timeline.Inferred)
}

func (r *reducer) profilerSteps() bool {
	return r.ranges(r.stepMarks, "ProfilerStep", "ProfilerStep#", timeline.Measured)
}

// namedSteps takes ranges that are named after steps; they count by the number in their names if those rise.
func (r *reducer) namedSteps() bool {
	spans := r.outermost(r.nameMarks)
	if len(spans) < 2 {
		return false
	}
	sp := &r.tl.Spans
	name := r.tl.Names.Get(sp.Name[spans[0]])
	if i := strings.IndexAny(name, "0123456789"); i > 0 {
		name = strings.TrimRight(name[:i], " _#:=-")
	}
	if !r.ranges(r.nameMarks, "step-range", name, timeline.Measured) {
		return false
	}
	var index []int64
	for i, s := range spans {
		v, ok := firstNumber(r.tl.Names.Get(sp.Name[s]))
		if !ok || i > 0 && v <= index[i-1] {
			return true
		}
		index = append(index, v)
	}
	r.index = index
	return true
}

// firstNumber reads the first digits of a name.
func firstNumber(s string) (int64, bool) {
	i := strings.IndexAny(s, "0123456789")
	if i < 0 {
		return 0, false
	}
	j := i
	for j < len(s) && s[j] >= '0' && s[j] <= '9' {
		j++
	}
	v, err := strconv.ParseInt(s[i:j], 10, 64)
	return v, err == nil
}

// between takes the time between successive marks as steps.
func (r *reducer) between(at []timeline.Time, name string) bool {
	if len(at) < 2 {
		return false
	}
	r.host, r.index = nil, nil
	for i := 0; i+1 < len(at); i++ {
		r.host = append(r.host, timeline.Interval{Start: at[i], End: at[i+1]})
		r.index = append(r.index, int64(i))
	}
	st := &r.red.Steps
	st.How, st.Name, st.Confidence = "annotation", name, timeline.Inferred
	return true
}

// optimizerSteps goes from end to end of the rarest Optimizer.step that is there twice: of two optimizers the rarer one
// closes the step.
func (r *reducer) optimizerSteps() bool {
	sp := &r.tl.Spans
	counts := map[timeline.StringID]int{}
	var order []timeline.StringID
	for _, m := range r.optMarks {
		if counts[sp.Name[m.span]] == 0 {
			order = append(order, sp.Name[m.span])
		}
		counts[sp.Name[m.span]]++
	}
	best := timeline.StringID(0)
	for _, id := range order {
		if c := counts[id]; c >= 2 && (best == 0 || c < counts[best]) {
			best = id
		}
	}
	if best == 0 {
		return false
	}
	var marks []markSpan
	for _, m := range r.optMarks {
		if sp.Name[m.span] == best {
			marks = append(marks, m)
		}
	}
	var at []timeline.Time
	for _, s := range r.outermost(marks) {
		at = append(at, sp.End[s])
	}
	return r.between(at, r.tl.Names.Get(best))
}

func (r *reducer) loaderSteps() bool {
	sp := &r.tl.Spans
	var at []timeline.Time
	name := ""
	for _, s := range r.outermost(r.loadMarks) {
		at = append(at, sp.Start[s])
		name = r.tl.Names.Get(sp.Name[s])
	}
	return r.between(at, name)
}

// hostEnds sets each device's step ends: ends[0] is where the first step begins, ends[k+1] the end of step k, never falling.
func (r *reducer) hostEnds() {
	sp := &r.tl.Spans
	for _, d := range r.devices {
		ends := make([]timeline.Time, len(r.host)+1)
		seen := make([]bool, len(ends))
		k := 0
		put := func(i int, end timeline.Time) {
			if !seen[i] || end > ends[i] {
				ends[i], seen[i] = end, true
			}
		}
		for i := range d.ops {
			op := &d.ops[i]
			if op.rec < 0 {
				if i < d.head {
					put(0, sp.End[op.span])
				}
				continue
			}
			l0 := sp.Start[r.recs[op.rec].span]
			if l0 < r.host[k].Start || l0 >= r.host[k].End {
				j, ok := slices.BinarySearchFunc(r.host, l0, func(iv timeline.Interval, t timeline.Time) int {
					switch {
					case iv.End <= t:
						return -1
					case iv.Start > t:
						return 1
					}
					return 0
				})
				if !ok {
					if l0 < r.host[0].Start {
						put(0, sp.End[op.span])
					}
					continue
				}
				k = j
			}
			put(k+1, sp.End[op.span])
		}
		if !seen[0] || ends[0] < r.host[0].Start {
			ends[0] = r.host[0].Start
		}
		for i := 1; i < len(ends); i++ {
			ends[i] = max(ends[i], ends[i-1])
			if !seen[i] {
				ends[i] = ends[i-1]
			}
		}
		d.ends = ends
	}
}

// dropEmpty leaves out the steps that have no length on any device: no op was launched in them, so none of the GPU's time is theirs. What
// the host did in one between others belongs to the step after it, whose GPU step begins where the one before ended.
func (r *reducer) dropEmpty() {
	if len(r.devices) == 0 {
		return
	}
	var keep []int
	for k := range r.index {
		for _, d := range r.devices {
			if d.ends[k+1] > d.ends[k] {
				keep = append(keep, k)
				break
			}
		}
	}
	if len(keep) == len(r.index) {
		return
	}
	var host []timeline.Interval
	var index, gone []int64
	k := 0
	for _, at := range keep {
		from := at
		for ; k < at; k++ {
			gone = append(gone, r.index[k])
			if len(index) > 0 {
				from = min(from, k)
			}
		}
		index = append(index, r.index[at])
		if r.host != nil {
			host = append(host, timeline.Interval{Start: r.host[from].Start, End: r.host[at].End})
		}
		k++
	}
	gone = append(gone, r.index[k:]...)
	st := &r.red.Steps
	st.Dropped = append(st.Dropped, fmt.Sprintf("%s %s: no device op was launched inside, so no time of the GPU is spent there", plural(len(gone), "step", "steps"), list(gone)))
	r.host, r.index = host, index
	if r.host != nil {
		r.hostEnds()
		return
	}
	for _, d := range r.devices {
		ends := []timeline.Time{d.ends[keep[0]]}
		for _, at := range keep {
			ends = append(ends, d.ends[at+1])
		}
		d.ends = ends
	}
}

// dropEdges decides which recorded steps are analysed.
func (r *reducer) dropEdges() {
	st := &r.red.Steps
	r.first, r.last = 0, len(r.host)
	if rec := r.p.Recorded; !rec.Empty() && r.last > 1 && r.host[r.last-1].End > rec.End {
		r.last--
		st.Dropped = append(st.Dropped, fmt.Sprintf("step %d: the recording ended inside it", r.index[r.last]))
	}
	if r.last-r.first >= 3 && !r.launchedBefore(r.host[0].Start) {
		st.Dropped = append(st.Dropped, fmt.Sprintf("step %d: the first one recorded, where the profiler started and the step before is not known", r.index[0]))
		r.first = 1
	} else if r.last > r.first && !r.launchedBefore(r.host[0].Start) {
		r.red.Notes = append(r.red.Notes, fmt.Sprintf("step %d is the first one recorded and is kept, as fewer than three were: it carries the profiler's start", r.index[0]))
	}
}

// launchedBefore tells whether a device op was launched before t: then the step before is known.
func (r *reducer) launchedBefore(t timeline.Time) bool {
	sp := &r.tl.Spans
	for i := range r.recs {
		if sp.Start[r.recs[i].span] < t {
			return true
		}
	}
	return false
}

// periodSteps finds the steps in the sequence of kernels of the busiest stream.
func (r *reducer) periodSteps() {
	d := r.biggest()
	sp := &r.tl.Spans
	count := make([]int, len(d.streams))
	for i := range d.ops {
		if d.ops[i].layer == layerCompute && sp.Kind[d.ops[i].span] == timeline.KindKernel {
			count[d.ops[i].stream]++
		}
	}
	stream := 0
	for i, c := range count {
		if c > count[stream] {
			stream = i
		}
	}
	ofStream := func(op *devOp) bool { return int(op.stream) == stream && sp.Kind[op.span] == timeline.KindKernel }
	n := 0
	for i := range d.ops {
		if ofStream(&d.ops[i]) {
			n++
		}
	}
	at := make([]int32, 0, n) // ops of the sequence
	for i := range d.ops {
		if ofStream(&d.ops[i]) {
			at = append(at, int32(i))
		}
	}
	seq := make([]uint64, len(at))
	for i, o := range at {
		seq[i] = uint64(sp.Name[d.ops[o].span])<<32 | uint64(d.ops[o].grid)
	}
	p := period(seq)
	if p == 0 {
		return
	}
	// Cut at the longest gap.
	gaps := make([]int64, p)
	for i := 1; i < len(at); i++ {
		gaps[i%p] += max(0, int64(sp.Start[d.ops[at[i]].span]-sp.End[d.ops[at[i-1]].span]))
	}
	phase := 0
	for i, g := range gaps {
		if g > gaps[phase] {
			phase = i
		}
	}
	slack := min(max(8, p/50), p/4)
	cuts := append(make([]int, 0, len(seq)/p+2), phase)
	for {
		next := cuts[len(cuts)-1] + p
		if next > len(seq) {
			break
		}
		if next < len(seq) {
			for off := 0; off <= slack; off++ { // a step may have a kernel more or less
				if next+off < len(seq) && seq[next+off] == seq[phase] {
					next += off
					break
				}
				if seq[next-off] == seq[phase] {
					next -= off
					break
				}
			}
		}
		cuts = append(cuts, next)
	}
	if len(cuts) < 3 {
		return
	}
	in := r.container(d, at, cuts)
	if in.layers {
		r.red.Notes = append(r.red.Notes, fmt.Sprintf("a sequence of %d %s repeats %d times inside one %s: layers, not steps", p, plural(p, "kernel", "kernels"), len(cuts)-1, in.what))
		return
	}
	times := cutTimes(sp, d, at, cuts)
	for _, dd := range r.devices {
		dd.ends = times
	}
	r.cuts = times
	st := &r.red.Steps
	st.How, st.Name, st.Confidence = "kernel-sequence", fmt.Sprintf("%d %s of stream %d", p, plural(p, "kernel", "kernels"), d.streams[stream]), timeline.Inferred
	r.index = nil
	for i := range cuts[1:] {
		r.index = append(r.index, int64(i))
	}
	if in.what != "" {
		r.red.Notes = append(r.red.Notes, fmt.Sprintf("steps were found by a sequence of %d %s, and all of them lie inside one %s: if that is one step, they are its layers", p, plural(p, "kernel", "kernels"), in.what))
	}
	r.dropEmpty()
	r.first, r.last = 0, len(r.index)
	if cuts[0] == 0 && r.last >= 3 {
		r.first = 1
		st.Dropped = append(st.Dropped, fmt.Sprintf("step %d: the first one recorded: the step before is not known", r.index[0]))
	}
	r.dropWarm()
}

// warmFactor is how many times as long as the median of the others the first step found by its kernels must be to be warm-up.
const warmFactor = 3

// dropWarm leaves out a first step that took several times as long as the others: what found it cannot tell warm-up from a step, as the
// profiler's schedule does.
func (r *reducer) dropWarm() {
	d := r.biggest()
	if r.last-r.first < 4 {
		return
	}
	var rest []int64
	for k := r.first + 1; k < r.last; k++ {
		rest = append(rest, int64(d.ends[k+1]-d.ends[k]))
	}
	first, med := int64(d.ends[r.first+1]-d.ends[r.first]), median(rest)
	if first <= warmFactor*med {
		return
	}
	st := &r.red.Steps
	st.Dropped = append(st.Dropped, fmt.Sprintf("step %d: warm-up, %.0f times as long as the median of the others", r.index[r.first], float64(first)/float64(max(1, med))))
	r.first++
}

// cutTimes gives where each step ends: at the beginning of the longest time without any device op between the kernels on both sides of
// the cut, as a copy may close a step or open the next.
func cutTimes(sp *timeline.Spans, d *device, at []int32, cuts []int) []timeline.Time {
	times := make([]timeline.Time, len(cuts))
	end := sp.Start[d.ops[0].span] // running maximum
	o := 0
	to := func(i int) {
		for ; o < i; o++ {
			end = max(end, sp.End[d.ops[o].span])
		}
	}
	for i, c := range cuts {
		switch {
		case c == 0:
			times[i] = sp.Start[d.ops[at[0]].span]
		case c == len(at):
			to(int(at[c-1]) + 1)
			for o < len(d.ops) && sp.Start[d.ops[o].span]-end <= switchGap { // what was queued behind the last kernel
				to(o + 1)
			}
			times[i] = end
		default:
			to(int(at[c-1]) + 1)
			times[i] = sp.Start[d.ops[at[c]].span]
			longest := timeline.Time(0)
			for k := int(at[c-1]) + 1; k <= int(at[c]); k++ {
				if gap := sp.Start[d.ops[k].span] - end; gap > longest {
					longest, times[i] = gap, end
				}
				to(k + 1)
			}
		}
		if i > 0 {
			times[i] = max(times[i], times[i-1])
		}
	}
	return times
}

// container is what repeats of a sequence of kernels were launched in.
type container struct {
	what   string // with its name; "" nothing
	layers bool   // what it holds is no step
}

// minInside is how many repeats in a row make a span their container.
const minInside = 3

// container looks for host spans that hold several repeats each, and most of them together. An operator, or a frame of a module's forward or
// of one training step, never holds steps, and a range of the user's holds its own parts: their repeats are layers. A function that begins and
// ends within the recording and does little else may be a step or a loop over steps: that cannot be told.
func (r *reducer) container(d *device, at []int32, cuts []int) container {
	sp := &r.tl.Spans
	var repeats []timeline.Interval // from the first launch of each to its last
	threads := map[int32]bool{}
	for i := range cuts[1:] {
		var iv timeline.Interval
		for _, o := range at[cuts[i]:cuts[i+1]] {
			if d.ops[o].rec < 0 {
				continue
			}
			rec := &r.recs[d.ops[o].rec]
			threads[r.around[rec.in].thread] = true
			l := sp.Start[rec.span]
			if iv.End == 0 {
				iv = timeline.Interval{Start: l, End: l + 1}
			}
			iv.Start, iv.End = min(iv.Start, l), max(iv.End, l+1)
		}
		if iv.End > iv.Start {
			repeats = append(repeats, iv)
		}
	}
	timeline.SortIntervals(repeats)
	if len(repeats) < minInside {
		return container{}
	}
	for i := 1; i < len(repeats); i++ {
		repeats[i].End = max(repeats[i].End, repeats[i-1].End)
	}
	inside := func(s int32) (from, to int) {
		from = sort.Search(len(repeats), func(i int) bool { return repeats[i].Start >= sp.Start[s] })
		to = sort.Search(len(repeats), func(i int) bool { return repeats[i].End > sp.End[s] })
		return from, max(from, to)
	}
	kinds := [3]struct {
		what    string
		track   timeline.TrackID
		n, done int // repeats held by spans of the track so far; all of them lie before done
	}{{what: "annotation"}, {what: "operator"}, {what: "call"}}
	covers := func(kind int, s int32) bool { // and with the spans of its thread before more than half of all
		from, to := inside(s)
		if to-from < minInside {
			return false
		}
		k := &kinds[kind]
		if k.track != sp.Track[s] {
			k.track, k.n, k.done = sp.Track[s], 0, 0
		}
		k.n += max(0, to-max(from, k.done))
		k.done = max(k.done, to)
		return 2*k.n > len(repeats)
	}
	for _, a := range r.annos {
		if covers(0, a) {
			return container{what: kinds[0].what + " (" + r.shortName(a) + ")", layers: true}
		}
	}
	var loop int32 = -1 // the innermost function around all of them
	for ti, h := range r.threads {
		if !threads[int32(ti)] {
			continue
		}
		for s := r.span[h.track][0]; s < r.span[h.track][1]; s++ {
			switch sp.Kind[s] {
			case timeline.KindOp:
				if info := r.n.hostOf(sp.Name[s]); info.flags&(flagStep|flagMark) == 0 && evidenceOf(timeline.KindOp, info) == evOp && covers(1, s) {
					return container{what: kinds[1].what + " (" + r.shortName(s) + ")", layers: true}
				}
			case timeline.KindPython:
				if r.n.frameOf(sp.Name[s]).flags&flagInStep != 0 {
					if covers(2, s) {
						return container{what: kinds[2].what + " (" + r.shortName(s) + ")", layers: true}
					}
				} else if from, to := inside(s); from == 0 && to == len(repeats) {
					loop = s
				}
			}
		}
	}
	if loop < 0 {
		return container{}
	}
	// A function on the stack when the recording began or ended is the program's loop.
	edge := (r.recorded.End - r.recorded.Start) / 100
	span, held := sp.End[loop]-sp.Start[loop], repeats[len(repeats)-1].End-repeats[0].Start
	if sp.Start[loop]-r.recorded.Start < edge || r.recorded.End-sp.End[loop] < edge || 2*span > 3*held {
		return container{}
	}
	return container{what: kinds[2].what + " (" + r.shortName(loop) + ")"}
}

// shortName is the name of a span, cut where it is long.
func (r *reducer) shortName(span int32) string {
	const most = 80
	name := strings.ToValidUTF8(r.tl.Names.Get(r.tl.Spans.Name[span]), "?")
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most]) + "..."
	}
	return name
}

// period finds the smallest lag at which seq agrees with itself in 98 % of its places, that fits three times and holds every symbol
// seen three times or more; 0 if there is none. Candidates are the distances between the rarest symbols, so the work is linear.
func period(seq []uint64) int {
	n := len(seq)
	if n < 6 {
		return 0
	}
	id := make(map[uint64]int32)
	sym := make([]int32, n)
	var count []int32
	for i, v := range seq {
		s, ok := id[v]
		if !ok {
			s = int32(len(count))
			id[v] = s
			count = append(count, 0)
		}
		sym[i] = s
		count[s]++
	}
	var often []int32 // symbols seen three times or more, rarest first
	for s, c := range count {
		if c >= 3 {
			often = append(often, int32(s))
		}
	}
	if len(often) == 0 {
		return 0
	}
	slices.SortStableFunc(often, func(a, b int32) int { return int(count[a] - count[b]) })
	const rare, maxPos, maxLag = 24, 4096, 6
	rank := make([]int32, len(count))
	for i := range rank {
		rank[i] = -1
	}
	for i, s := range often[:min(rare, len(often))] {
		rank[s] = int32(i)
	}
	pos := make([][]int32, min(rare, len(often)))
	for i, s := range sym {
		if k := rank[s]; k >= 0 && len(pos[k]) < maxPos {
			pos[k] = append(pos[k], int32(i))
		}
	}
	var cands []int32
	for _, ps := range pos {
		for m := 1; m <= maxLag && m < len(ps); m++ {
			diffs := make([]int32, 0, len(ps)-m)
			for i := 0; i+m < len(ps); i++ {
				diffs = append(diffs, ps[i+m]-ps[i])
			}
			cands = append(cands, mode(diffs))
		}
	}
	slices.Sort(cands)
	cands = slices.Compact(cands)
	for _, c := range cands {
		p := int(c)
		if p < 1 || 3*p > n || !agrees(sym, p) {
			continue
		}
		if holds(sym, p, often, len(count)) {
			return p
		}
	}
	return 0
}

func mode(v []int32) int32 {
	slices.Sort(v)
	best, bestN := v[0], 0
	for i := 0; i < len(v); {
		j := i
		for j < len(v) && v[j] == v[i] {
			j++
		}
		if j-i > bestN {
			best, bestN = v[i], j-i
		}
		i = j
	}
	return best
}

func agrees(sym []int32, p int) bool {
	n := len(sym) - p
	bad, allowed := 0, n/50
	// A coarse look first: most candidates fail it.
	if stride := n / 2048; stride > 1 {
		miss, looked := 0, 0
		for i := 0; i < n; i += stride {
			looked++
			if sym[i] != sym[i+p] {
				miss++
			}
		}
		if miss*20 > looked {
			return false
		}
	}
	for i := 0; i < n; i++ {
		if sym[i] != sym[i+p] {
			if bad++; bad > allowed {
				return false
			}
		}
	}
	return true
}

// holds tells whether periods have every symbol that is seen often: most of seven spread over the sequence, as single ones may have
// an odd kernel.
func holds(sym []int32, p int, often []int32, symbols int) bool {
	const look = 7
	seen := make([]int, symbols)
	n := len(sym) / p
	full, looked := 0, 0
	for k := range min(look, n) {
		from := k * n / min(look, n) * p
		looked++
		for _, s := range sym[from : from+p] {
			seen[s] = looked
		}
		ok := true
		for _, s := range often {
			ok = ok && seen[s] == looked
		}
		if ok {
			full++
		}
	}
	return 2*full > looked
}
