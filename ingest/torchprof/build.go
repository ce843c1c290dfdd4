package torchprof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// sink takes the results of the scanners in the order of the file.
type sink struct {
	in    *ingest.Input
	b     *timeline.Builder
	first int // spans that were in the builder before

	seen, ended, closed, cut bool
	fraction, legacy         bool
	launches                 bool // calls have launch geometry
	events                   uint32

	names  [][]timeline.StringID // of each scanner's names
	tracks [][]int32             // of each scanner's tracks, index in raw
	raw    []rawTrack
	rawIDs map[rawTrack]int32
	stats  []trackStats // by raw

	windows []timeline.Interval
	marks   []mark // name is ours
	threads map[threadKey]string
	faults  [nFaults]fault
	words   []string
	skipped skipped
	big     map[uint64]uint32 // links that need more than 32 bits
}

type trackStats struct {
	n [timeline.NSpanKinds]int64
}

type threadKey struct {
	pid, tid int64
	process  bool
}

func (k *sink) init(in *ingest.Input, b *timeline.Builder) {
	*k = sink{in: in, b: b, first: b.NSpans(), rawIDs: map[rawTrack]int32{}, threads: map[threadKey]string{}, big: map[uint64]uint32{}}
	k.workers(0)
}

// workers makes room for n new scanners, beside number 0.
func (k *sink) workers(n int) {
	if len(k.names) > 0 {
		k.names, k.tracks = k.names[:1], k.tracks[:1]
	}
	for len(k.names) < n+1 {
		k.names = append(k.names, []timeline.StringID{0})
		k.tracks = append(k.tracks, nil)
	}
}

// learn takes the new names and tracks of scanner w's result.
func (k *sink) learn(w int, r *result) {
	for _, s := range r.names {
		k.names[w] = append(k.names[w], k.b.TL.Names.IDOf(s))
	}
	for _, t := range r.tracks {
		id, ok := k.rawIDs[t]
		if !ok {
			id = int32(len(k.raw))
			k.rawIDs[t] = id
			k.raw = append(k.raw, t)
			k.stats = append(k.stats, trackStats{})
		}
		k.tracks[w] = append(k.tracks[w], id)
	}
}

// merge takes a result of scanner w of the bytes at offset at.
func (k *sink) merge(w int, r *result, at int64) {
	k.learn(w, r)
	names, tracks := k.names[w], k.tracks[w]
	base := int32(k.b.NSpans())
	for i := range r.recs {
		c := &r.recs[i]
		t := tracks[c.track]
		st := &k.stats[t]
		st.n[c.kind]++
		link := uint32(c.link)
		if c.link > 1<<32-1 {
			link = k.bigLink(c.link)
		}
		k.b.AddSpan(timeline.Span{Track: timeline.TrackID(t), Kind: c.kind, Start: timeline.Time(c.start),
			End: timeline.Time(c.start + c.dur), Name: names[c.name], Link: link, Row: k.events + c.row})
	}
	for _, c := range r.copies {
		c.Span += base
		k.b.AddCopy(c)
	}
	for _, c := range r.kernels {
		k.b.AddKernel(base+c.span, c.launch)
	}
	for _, c := range r.shapes {
		c.Span += base
		c.Dims, c.Types, c.Concrete = names[c.Dims], names[c.Types], names[c.Concrete]
		k.b.AddShape(c)
	}
	for _, c := range r.comms {
		c.Span += base
		for _, id := range []*timeline.StringID{&c.Collective, &c.DType, &c.Group, &c.GroupDesc, &c.GroupRanks, &c.InSplits, &c.OutSplits} {
			*id = names[*id]
		}
		k.b.AddComm(c)
	}
	for _, m := range r.marks {
		m.name, m.row = uint32(names[m.name]), k.events+m.row
		k.marks = append(k.marks, m)
	}
	k.windows = append(k.windows, r.windows...)
	for _, t := range r.threads {
		key := threadKey{t.pid, t.tid, t.process}
		if _, ok := k.threads[key]; ok || len(k.threads) < 4096 {
			k.threads[key] = t.name
		}
	}
	for i := range r.faults {
		if f := r.faults[i]; f.n > 0 {
			if k.faults[i].n == 0 {
				k.faults[i].off = at + f.off
			}
			k.faults[i].n += f.n
		}
	}
	for _, s := range r.words {
		if len(k.words) < 16 && !slices.Contains(k.words, s) {
			k.words = append(k.words, s)
		}
	}
	s := &k.skipped
	s.flows += r.skipped.flows
	s.metadata += r.skipped.metadata
	s.counters += r.skipped.counters
	s.memory += r.skipped.memory
	s.instants += r.skipped.instants
	s.ignored += r.skipped.ignored
	k.fraction = k.fraction || r.fraction
	k.legacy = k.legacy || r.legacy
	k.launches = k.launches || r.launches
	k.events += r.events
}

// bigLink gives a 32-bit number to a correlation that has none, from the top down.
func (k *sink) bigLink(v uint64) uint32 {
	id, ok := k.big[v]
	if !ok {
		id = ^uint32(0) - uint32(len(k.big))
		k.big[v] = id
	}
	return id
}

// absolute parts stamps that count from the Unix epoch from those that count from a base or from the start of the profile.
const absolute = 1e16 // ns: April 1970

// finish turns what was gathered into the tables of the timeline.
func (k *sink) finish(m *meta) error {
	b := k.b
	table := b.TL.Names.IDOf("traceEvents")
	k.report()
	base, wall := k.place(m.base)
	k.clampEnds()

	procs := k.processes()
	first := len(b.TL.Procs)
	for _, pid := range procs.pids {
		b.AddProc(timeline.Process{Source: k.in.Source, PID: pid, Rank: -1, Meta: map[string]string{}})
	}
	rocm := k.isROCm(m)
	k.assignTracks(table, procs, first, rocm, m)
	k.moveLaunches()
	k.placeMarks(table, first)
	k.describe(m, first, len(procs.pids))

	step := time.Microsecond
	if k.fraction {
		step = time.Nanosecond
	}
	clock := timeline.Clock{Name: k.in.Path, Step: step, Wall: wall, Zoned: wall}
	if wall {
		clock.How = timeline.Recorded
		clock.Why = "stamps are Unix time"
		if m.base > 0 && base {
			clock.Why = "stamps count from baseTimeNanoseconds, Unix time"
		}
		b.TL.Epoch = time.Unix(0, 0).UTC()
	} else if b.NSpans() > k.first {
		clock.Why = "stamps are relative and the file has no baseTimeNanoseconds"
		k.in.Report("torchprof/no-base", timeline.Info, 0, "stamps are relative and there is no baseTimeNanoseconds: the trace cannot be placed by itself; record with torch 2.4 or later")
	}
	b.AddClock(k.in.Source, clock)
	b.Source(k.in.Source).Rows = int64(k.events)
	return nil
}

// place adds the base to relative stamps and drops spans that cannot belong to the others.
func (k *sink) place(base int64) (added, wall bool) {
	if base < 0 || base > 4e18 {
		base = 0
	}
	var nRel, nAbs, nZero int64
	lowest := int64(1<<63 - 1) // relative, not zero
	k.each(func(c *timeline.SpanChunk, j int) {
		switch s := int64(c.Start[j]); {
		case s >= absolute:
			nAbs++
		case s == 0:
			nZero++
		default:
			nRel++
			lowest = min(lowest, s)
		}
	})
	dropZero := nZero > 0 && nRel+nAbs > 0 && (nRel == 0 || lowest > int64(time.Hour))
	mixed := base == 0 && nAbs > 0 && nRel+nZero > 0
	dropRel := mixed && nAbs >= nRel
	dropAbs := mixed && !dropRel
	var zeros, strays int64
	k.each(func(c *timeline.SpanChunk, j int) {
		s := int64(c.Start[j])
		switch {
		case s == 0 && dropZero:
			zeros++
			c.Track[j] = -1
		case s >= absolute && dropAbs, s < absolute && dropRel:
			strays++
			c.Track[j] = -1
		case s < absolute:
			c.Start[j] += timeline.Time(base)
			c.End[j] += timeline.Time(base)
		}
	})
	k.in.ReportN(zeros, "torchprof/zero-time", timeline.DataLoss, 0, "events at ts 0, far from the others; left out")
	k.in.ReportN(strays, "torchprof/mixed-time", timeline.DataLoss, 0, "some stamps count from the Unix epoch and some do not; the fewer are left out: merge traces after they were placed")
	for i := range k.windows {
		if w := &k.windows[i]; w.Start < absolute {
			w.Start += timeline.Time(base)
			w.End += timeline.Time(base)
		}
	}
	for i := range k.marks {
		if m := &k.marks[i]; m.at < absolute {
			m.at += base
		}
	}
	return base > 0 && nRel+nZero > 0, nAbs > 0 && !dropAbs || base > 0
}

// each visits the spans of this file that are not dropped.
func (k *sink) each(f func(c *timeline.SpanChunk, j int)) {
	k.b.EachChunk(func(first int, c *timeline.SpanChunk) {
		for j := max(0, k.first-first); j < len(c.Track); j++ {
			if c.Track[j] >= 0 {
				f(c, j)
			}
		}
	})
}

// clampEnds takes the length from spans that end far behind everything else: wrapped durations.
func (k *sink) clampEnds() {
	lo, hi := timeline.Time(1<<63-1), timeline.Time(-1<<63)
	k.each(func(c *timeline.SpanChunk, j int) { lo, hi = min(lo, c.Start[j]), max(hi, c.Start[j]) })
	if lo > hi {
		return
	}
	limit := hi + max(10*min(hi-lo, 1e17), timeline.Time(time.Hour))
	n := int64(0)
	k.each(func(c *timeline.SpanChunk, j int) {
		if c.End[j] > limit || c.End[j] < c.Start[j] {
			c.End[j] = c.Start[j]
			n++
		}
	})
	k.in.ReportN(n, "torchprof/absurd-duration", timeline.DataLoss, 0, "an event ends far behind all others; its length is taken as 0")
}

// processes are the pids that did work of their own, by first appearance.
type processes struct {
	pids []int64
	main int // index of the busiest
}

// maxProcs bounds the processes of one file; a merged one has as many as a host has GPUs.
const maxProcs = 64

func (p *processes) index(pid int64) int {
	if i := slices.Index(p.pids, pid); i >= 0 {
		return i
	}
	return p.main
}

// processes wants API calls or operators of a process; python frames of pid 0 and the profiler's own work have none and
// go to the busiest one.
func (k *sink) processes() *processes {
	type work struct{ calls, any int64 }
	byPID := map[int64]*work{}
	var order []int64
	for i, t := range k.raw {
		if t.place != onHost {
			continue
		}
		w := byPID[t.pid]
		if w == nil {
			w = &work{}
			byPID[t.pid] = w
			order = append(order, t.pid)
		}
		n := &k.stats[i].n
		w.calls += n[timeline.KindAPI] + n[timeline.KindOp]
		w.any += n[timeline.KindAPI] + n[timeline.KindOp] + n[timeline.KindAnnotation] + n[timeline.KindPython]
	}
	p := &processes{}
	best := int64(0)
	for _, pid := range order {
		if w := byPID[pid]; w.calls > 0 && len(p.pids) < maxProcs {
			if w.calls > best {
				best, p.main = w.calls, len(p.pids)
			}
			p.pids = append(p.pids, pid)
		}
	}
	if len(p.pids) == 0 { // no call and no operator: the one with most annotations and frames
		pid := int64(-1)
		for _, q := range order {
			if w := byPID[q]; w.any > best {
				best, pid = w.any, q
			}
		}
		p.pids = []int64{pid}
	}
	return p
}

// isROCm tells by the runtime the file names, or else by the names of the calls.
func (k *sink) isROCm(m *meta) bool {
	if m.rocm || m.cuda {
		return m.rocm
	}
	rocm := false
	n := 0
	k.each(func(c *timeline.SpanChunk, j int) {
		if n < 64 && c.Kind[j] == timeline.KindAPI {
			n++
			rocm = rocm || strings.HasPrefix(k.b.TL.Names.Get(c.Name[j]), "hip")
		}
	})
	return rocm
}

type procDevice struct {
	proc   int
	device int64
}

// assignTracks replaces raw tracks by those of the timeline and makes the devices.
func (k *sink) assignTracks(table timeline.StringID, procs *processes, first int, rocm bool, m *meta) {
	owner := k.owners(procs)
	devices := map[procDevice]timeline.DeviceID{}
	count := map[int]int{} // devices of a process so far
	device := func(proc int, raw int64) timeline.DeviceID {
		key := procDevice{proc, raw}
		if id, ok := devices[key]; ok {
			return id
		}
		if len(devices) >= ingest.MaxGPUs {
			k.in.Report("torchprof/many-devices", timeline.DataLoss, 0, "device %d is one more than the %d that one file may have: its work is dropped", raw, ingest.MaxGPUs)
			return -1
		}
		ordinal := int(max(raw, -1))
		if rocm && raw >= 0 { // raw counts the agents, processors among them: take the order of appearance
			ordinal = count[proc]
			k.b.TL.Procs[first+proc].Meta[fmt.Sprintf("device_%d_in_file", ordinal)] = fmt.Sprint(raw)
		}
		count[proc]++
		d := m.device(ordinal)
		if d.Vendor == "" && rocm {
			d.Vendor = "amd"
		}
		d.Index, d.Ordinal, d.Source, d.Proc = ordinal, ordinal, k.in.Source, first+proc
		id := k.b.AddDevice(d)
		devices[key] = id
		return id
	}
	track := func(raw int32, proc int) timeline.TrackID {
		t := k.raw[raw]
		tr := timeline.Track{Source: k.in.Source, Table: table, Proc: first + proc, Device: -1, Thread: t.tid, Name: t.name}
		switch t.place {
		case onHost:
			tr.Kind = timeline.TrackHost
			if name, ok := k.threads[threadKey{t.pid, t.tid, false}]; ok && t.name == "" {
				tr.Name = name
			}
		case onStream:
			if tr.Device = device(proc, t.pid); tr.Device < 0 {
				tr.Kind = timeline.TrackOther
				break
			}
			tr.Kind = timeline.TrackStream
		default:
			tr.Kind = timeline.TrackOther
			if tr.Name == "" {
				tr.Name = fmt.Sprintf("%d/%d", t.pid, t.tid)
			}
		}
		return k.b.Track(tr)
	}
	// Devices with work come first, then those of waits and annotations alone.
	for _, work := range []bool{true, false} {
		for i, t := range k.raw {
			if n := &k.stats[i].n; t.place == onStream && (n[timeline.KindKernel]+n[timeline.KindMemcpy]+n[timeline.KindMemset] > 0) == work && owner.one(int32(i)) >= 0 {
				device(owner.one(int32(i)), t.pid)
			}
		}
	}
	type assigned struct {
		raw  int32
		proc int
	}
	ids := map[assigned]timeline.TrackID{}
	direct := make([]timeline.TrackID, len(k.raw)) // where the process does not depend on the span
	for i := range direct {
		direct[i] = -1
		if p := owner.one(int32(i)); p >= 0 && (k.stats[i] != trackStats{}) {
			direct[i] = track(int32(i), p)
		}
	}
	k.each(func(c *timeline.SpanChunk, j int) {
		raw := int32(c.Track[j])
		if direct[raw] >= 0 {
			c.Track[j] = direct[raw]
			return
		}
		key := assigned{raw, owner.of(raw, c.Link[j])}
		id, ok := ids[key]
		if !ok {
			id = track(raw, key.proc)
			ids[key] = id
		}
		c.Track[j] = id
	})
}

// owners says whose a device span is: the process whose call has its correlation, else whoever drives most of the device.
type owners struct {
	k      *sink
	procs  *processes
	links  []map[uint32]bool // by process; nil with one process
	driver map[int64]int     // by raw device
}

func (k *sink) owners(procs *processes) *owners {
	o := &owners{k: k, procs: procs}
	if len(procs.pids) == 1 {
		return o
	}
	o.links = make([]map[uint32]bool, len(procs.pids))
	for i := range o.links {
		o.links[i] = map[uint32]bool{}
	}
	k.each(func(c *timeline.SpanChunk, j int) {
		if c.Kind[j] == timeline.KindAPI && c.Link[j] != 0 {
			o.links[procs.index(k.raw[c.Track[j]].pid)][c.Link[j]] = true
		}
	})
	votes := map[int64][]int64{}
	k.each(func(c *timeline.SpanChunk, j int) {
		t := k.raw[c.Track[j]]
		if t.place != onStream {
			return
		}
		v := votes[t.pid]
		if v == nil {
			v = make([]int64, len(procs.pids))
			votes[t.pid] = v
		}
		if p := o.only(c.Link[j]); p >= 0 {
			v[p] += 1 << 20
		} else {
			for p, links := range o.links {
				if links[c.Link[j]] {
					v[p]++
				}
			}
		}
	})
	o.driver = map[int64]int{}
	for _, dev := range slices.Sorted(maps.Keys(votes)) {
		best := procs.main
		for p, n := range votes[dev] {
			if n > votes[dev][best] {
				best = p
			}
		}
		o.driver[dev] = best
	}
	return o
}

// only gives the one process that has the link, -1 if none or several have.
func (o *owners) only(link uint32) int {
	found := -1
	if link == 0 {
		return found
	}
	for p, links := range o.links {
		if links[link] {
			if found >= 0 {
				return -1
			}
			found = p
		}
	}
	return found
}

// one gives the process of a raw track whose spans all have the same, else -1.
func (o *owners) one(raw int32) int {
	t := o.k.raw[raw]
	switch {
	case t.place == onHost:
		return o.procs.index(t.pid)
	case o.links == nil || t.place != onStream:
		return o.procs.main
	}
	return -1
}

func (o *owners) of(raw int32, link uint32) int {
	if p := o.only(link); p >= 0 {
		return p
	}
	return o.driver[o.k.raw[raw].pid]
}

// moveLaunches moves the launch geometry and the sizes that ROCm keeps on the call to the device op of the same link.
func (k *sink) moveLaunches() {
	type key struct {
		proc int
		link uint32
	}
	// of gives what a side row belongs to; false for those of other files and of dropped spans.
	of := func(i int32) (key, timeline.SpanKind, bool) {
		if int(i) < k.first {
			return key{}, 0, false
		}
		s := k.b.SpanAt(i)
		if s.Track < 0 {
			return key{}, 0, false
		}
		return key{k.b.TL.Tracks[s.Track].Proc, s.Link}, s.Kind, true
	}
	sizes := map[key]int64{}
	k.b.EachCopy(func(c *timeline.Copy) {
		if at, kind, ok := of(c.Span); ok && kind == timeline.KindAPI {
			sizes[at] = c.Bytes
			c.Span = -1
		}
	})
	if len(sizes) > 0 {
		k.b.EachCopy(func(c *timeline.Copy) {
			if at, _, ok := of(max(c.Span, 0)); ok && c.Span >= 0 && c.Bytes < 0 && at.link != 0 {
				if n, ok := sizes[at]; ok {
					c.Bytes = n
				}
			}
		})
	}
	if !k.launches {
		return
	}
	launches := map[key]timeline.Launch{}
	has := map[int32]bool{}
	k.b.EachKernel(func(span int32, l timeline.Launch) bool {
		if at, kind, ok := of(span); ok && kind == timeline.KindAPI {
			launches[at] = l
			return false
		}
		has[span] = true
		return true
	})
	k.b.EachChunk(func(first int, c *timeline.SpanChunk) {
		for j := max(0, k.first-first); j < len(c.Track); j++ {
			i := int32(first + j)
			if c.Track[j] < 0 || c.Kind[j] != timeline.KindKernel || c.Link[j] == 0 || has[i] {
				continue
			}
			if l, ok := launches[key{k.b.TL.Tracks[c.Track[j]].Proc, c.Link[j]}]; ok {
				k.b.AddKernel(i, l)
			}
		}
	})
}

// placeMarks stores the instants that were kept.
func (k *sink) placeMarks(table timeline.StringID, first int) {
	if len(k.marks) == 0 {
		return
	}
	tr := k.b.Track(timeline.Track{Source: k.in.Source, Table: table, Kind: timeline.TrackOther, Proc: first, Device: -1, Thread: -1, Name: "profiler"})
	ms := &k.b.TL.Marks
	for _, m := range k.marks {
		kind := timeline.MarkOther
		if strings.HasPrefix(k.b.TL.Names.Get(timeline.StringID(m.name)), "Iteration Start") {
			kind = timeline.MarkIteration
		}
		ms.Append(kind, tr, timeline.Time(m.at), 0, timeline.StringID(m.name), m.row)
	}
}

// report turns the counted defects into problems.
func (k *sink) report() {
	said := func(kind string) string {
		var w []string
		for _, s := range k.words {
			if rest, ok := strings.CutPrefix(s, kind+" "); ok {
				w = append(w, fmt.Sprintf("%q", rest))
			}
		}
		slices.Sort(w)
		return strings.Join(w, ", ")
	}
	for i, p := range [nFaults]struct {
		code string
		sev  timeline.Severity
		say  string
	}{
		fBadEvent:   {"bad-event", timeline.DataLoss, "not JSON; the event is lost, read on at the next one"},
		fNotEvent:   {"not-event", timeline.Info, "traceEvents holds something that is no object; left out"},
		fNoTime:     {"no-time", timeline.DataLoss, "an event without a usable ts; left out"},
		fNoDur:      {"no-duration", timeline.Info, "an event without a usable dur; taken as 0"},
		fNegative:   {"negative-duration", timeline.Info, "dur is negative; taken as 0"},
		fAbsurd:     {"absurd-duration", timeline.DataLoss, "dur is longer than three years; taken as 0"},
		fZeroKernel: {"zero-kernel", timeline.DataLoss, "a device event with ts 0 and dur 0: the profiler lost its times; left out"},
		fPhase:      {"unknown-phase", timeline.Info, "phases that do not come from the profiler; not read: " + said("phase")},
		fCategory:   {"unknown-category", timeline.Info, "categories that no rule reads; kept: " + said("category")},
		fOldCUDA:    {"legacy-cuda", timeline.Info, "the device half of a legacy autograd export; left out, it is no device time: record with torch.profiler"},
	} {
		if f := k.faults[i]; f.n > 0 {
			k.in.ReportN(f.n, "torchprof/"+p.code, p.sev, uint64(f.off), "byte %d: %s", f.off, p.say)
		}
	}
	if n := k.faults[fBadEvent].n; n*100 > int64(k.events) {
		k.in.Report("torchprof/damaged", timeline.Error, uint64(k.faults[fBadEvent].off), "the file is damaged: %d of %d events cannot be read; export it again", n, k.events)
	}
	if k.legacy {
		k.in.Report("torchprof/legacy-autograd", timeline.Info, 0, "an export of the legacy autograd profiler: operators only, times relative to the profile; record with torch.profiler")
	}
	if k.seen && k.events == 0 {
		k.in.Report("torchprof/no-events", timeline.DataLoss, 0, "traceEvents is empty")
	}
}

// sortedKeys is for maps whose order would show.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
