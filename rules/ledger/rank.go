package ledger

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
)

// elemSize is the bytes of one element by the profiler's word for the type.
func (t *Tables) elemSize(dtype string) (int64, bool) {
	n, ok := t.elem[strings.ToLower(dtype)]
	return n, ok
}

// parseRanks reads "[0, 1, 2]"; nil for anything else, an abbreviated list too.
func parseRanks(s string) []int {
	s = strings.TrimSpace(s)
	if len(s) < 3 || s[0] != '[' || s[len(s)-1] != ']' {
		return nil
	}
	var out []int
	for _, f := range strings.Split(s[1:len(s)-1], ",") {
		v, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || v < 0 {
			return nil
		}
		out = append(out, v)
	}
	return out
}

const keepRows = 4

// inWindow tells whether an op counts for the tables of a ledger.
func (r *reducer) inWindow(op *devOp, g *timeline.GPULedger) bool {
	start := r.tl.Spans.Start[op.span]
	return start >= g.Window.Start && start < g.Window.End
}

// kernelTable groups the kernels of the window by name and class, and gathers what the rank's tables say of kernels.
func (r *reducer) kernelTable(d *device, g *timeline.GPULedger) {
	sp := &r.tl.Spans
	t := &r.red.Rank
	type group struct {
		row  timeline.KernelRow
		name timeline.StringID
		ops  map[timeline.StringID]int64
		n    int64
		at   int64 // offset in durs
		last timeline.StringID
		lops int64
	}
	id := map[uint64]int32{}
	var groups []*group
	of := make([]int32, 0, len(d.ops)) // group of each kernel in the window
	lastKey, lastID := ^uint64(0), int32(0)
	sms := uint32(max(0, g.Device.SMs))
	chains := make([]chain, len(d.streams))
	for i := range d.ops {
		op := &d.ops[i]
		if sp.Kind[op.span] != timeline.KindKernel || !r.inWindow(op, g) {
			continue
		}
		name := sp.Name[op.span]
		key := uint64(name)<<8 | uint64(op.class)
		if key != lastKey {
			gi, ok := id[key]
			if !ok {
				gi = int32(len(groups))
				id[key] = gi
				k := r.n.kernelOf(name)
				gr := &group{name: name, ops: map[timeline.StringID]int64{}}
				gr.row = timeline.KernelRow{Name: r.tl.Names.Get(name), Class: op.class.String(), TensorCore: k.TensorCore, DType: k.DType}
				switch op.class {
				case ClassMatmul, ClassConv, ClassAttention:
				default:
					gr.row.TensorCore = 0
				}
				if sms == 0 {
					gr.row.SmallGrid = -1
				}
				groups = append(groups, gr)
			}
			lastKey, lastID = key, gi
		}
		gr := groups[lastID]
		of = append(of, lastID)
		dur := int64(sp.End[op.span] - sp.Start[op.span])
		gr.n++
		gr.row.Count++
		gr.row.Dur += dur
		if dur < 10_000 {
			gr.row.Short++
			gr.row.ShortDur += dur
		}
		if op.grid == 0 {
			gr.row.SmallGrid = -1
		} else if gr.row.SmallGrid >= 0 && op.grid < sms {
			gr.row.SmallGrid++
		}
		if len(gr.row.Rows) < keepRows {
			gr.row.Rows = append(gr.row.Rows, sp.Row[op.span])
		}
		var opName timeline.StringID
		if op.rec >= 0 && r.recs[op.rec].op >= 0 {
			opName = sp.Name[r.recs[op.rec].op]
		}
		if opName == gr.last {
			gr.lops++
		} else {
			if gr.last != 0 {
				gr.ops[gr.last] += gr.lops
			}
			gr.last, gr.lops = opName, 1
		}
		if op.class == ClassMatmul {
			t.MatmulNS += dur
			r.matmul(op, dur)
		}
		if r.isCast(op) {
			t.CastNS += dur
		}
		chains[op.stream].add(op, dur, t)
	}
	for i := range d.ops {
		op := &d.ops[i]
		if sp.Kind[op.span] == timeline.KindMemcpy && op.layer == layerCompute && r.inWindow(op, g) && r.isCast(op) {
			t.CastNS += int64(sp.End[op.span] - sp.Start[op.span])
		}
	}
	for i := range chains {
		chains[i].close(t)
	}
	var at int64
	for _, gr := range groups {
		gr.at = at
		at += gr.n
		gr.n = 0
	}
	durs := make([]int64, at)
	k := 0
	for i := range d.ops {
		op := &d.ops[i]
		if sp.Kind[op.span] != timeline.KindKernel || !r.inWindow(op, g) {
			continue
		}
		gr := groups[of[k]]
		k++
		durs[gr.at+gr.n] = int64(sp.End[op.span] - sp.Start[op.span])
		gr.n++
	}
	for _, gr := range groups {
		part := durs[gr.at : gr.at+gr.n]
		slices.Sort(part)
		gr.row.Median = part[len(part)/2]
		if gr.last != 0 {
			gr.ops[gr.last] += gr.lops
		}
		var best timeline.StringID
		for name, n := range gr.ops {
			if b := gr.ops[best]; best == 0 || n > b || (n == b && r.tl.Names.Get(name) < r.tl.Names.Get(best)) {
				best = name
			}
		}
		gr.row.Op = r.tl.Names.Get(best)
		g.Kernels = append(g.Kernels, gr.row)
	}
	sort.SliceStable(g.Kernels, func(i, j int) bool {
		a, b := &g.Kernels[i], &g.Kernels[j]
		if a.Dur != b.Dur {
			return a.Dur > b.Dur
		}
		if a.Name != b.Name {
			return a.Name < b.Name
		}
		return a.Class < b.Class
	})
}

// chain follows elementwise kernels of equal size in a row on one stream.
type chain struct {
	grid uint32
	n    int64
	dur  int64
}

func (c *chain) close(t *timeline.RankTables) {
	if c.n >= 3 {
		t.Chains++
		t.ChainKernels += c.n
		t.ChainNS += c.dur
	}
	*c = chain{}
}

func (c *chain) add(op *devOp, dur int64, t *timeline.RankTables) {
	if op.class != ClassElementwise || op.grid == 0 {
		c.close(t)
		return
	}
	if op.grid != c.grid {
		c.close(t)
	}
	c.grid = op.grid
	c.n++
	c.dur += dur
}

// isCast tells whether a kernel or device copy converts a type: inside aten::to and its kin, or aten::copy_ between types.
func (r *reducer) isCast(op *devOp) bool {
	if op.rec < 0 {
		return false
	}
	rec := &r.recs[op.rec]
	if op.class != ClassCopyCast {
		return false
	}
	if r.around[rec.in].flags&recCast != 0 {
		return true
	}
	if rec.op < 0 || r.n.hostOf(r.tl.Spans.Name[rec.op]).flags&flagCast == 0 {
		return false
	}
	sh := r.shapeOf(rec.op)
	if sh == nil {
		return false
	}
	types := parseStrings(r.tl.Names.Get(sh.Types))
	return len(types) >= 2 && types[0] != "" && types[1] != "" && types[0] != types[1]
}

func (r *reducer) shapeOf(span int32) *timeline.Shape {
	s := r.tl.Spans.Shapes
	i := sort.Search(len(s), func(i int) bool { return s[i].Span >= span })
	if i < len(s) && s[i].Span == span {
		return &s[i]
	}
	return nil
}

// parseStrings reads a flat JSON list of strings; what is no string is "".
func parseStrings(s string) []string {
	var out []string
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			j := strings.IndexByte(s[i+1:], '"')
			if j < 0 {
				return out
			}
			out = append(out, s[i+1:i+1+j])
			i += j + 1
		}
	}
	return out
}

// parseDims reads "[[8, 128], [128, 64], []]" into the shapes of the inputs; deeper lists (tensor lists) give a nil shape.
func parseDims(s string) [][]int64 {
	var out [][]int64
	depth := 0
	var cur []int64
	num, has, bad := int64(0), false, false
	flush := func() {
		if has {
			cur = append(cur, num)
		}
		num, has = 0, false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '[':
			if depth++; depth == 2 {
				cur, bad = []int64{}, false
			} else if depth > 2 {
				bad = true
			}
		case c == ']':
			if depth == 2 {
				flush()
				if bad {
					cur = nil
				}
				out = append(out, cur)
			}
			num, has = 0, false
			depth--
		case c == ',':
			if depth == 2 {
				flush()
			}
		case c >= '0' && c <= '9' && depth == 2:
			if num < 1<<40 {
				num = num*10 + int64(c-'0')
			}
			has = true
		}
	}
	return out
}

type mmKey struct{ op, dims, types timeline.StringID }

// product is M, N, K and batch of a matrix product by its operator and input shapes; ok is false where they do not fit.
func product(op string, in [][]int64) (m, n, k, batch int64, ok bool) {
	at := func(i, rank int) []int64 {
		if i < len(in) && len(in[i]) == rank {
			return in[i]
		}
		return nil
	}
	two := func(a, b []int64) bool { return a != nil && b != nil }
	switch op {
	case "aten::mm", "aten::_scaled_mm":
		if a, b := at(0, 2), at(1, 2); two(a, b) && a[1] == b[0] {
			return a[0], b[1], a[1], 1, true
		}
	case "aten::addmm", "aten::addmm_", "aten::_addmm_activation":
		if a, b := at(1, 2), at(2, 2); two(a, b) && a[1] == b[0] {
			return a[0], b[1], a[1], 1, true
		}
	case "aten::bmm":
		if a, b := at(0, 3), at(1, 3); two(a, b) && a[2] == b[1] && a[0] == b[0] {
			return a[1], b[2], a[2], a[0], true
		}
	case "aten::baddbmm", "aten::addbmm":
		if a, b := at(1, 3), at(2, 3); two(a, b) && a[2] == b[1] && a[0] == b[0] {
			return a[1], b[2], a[2], a[0], true
		}
	case "aten::linear":
		if len(in) > 1 && len(in[0]) >= 1 && len(in[1]) == 2 && in[0][len(in[0])-1] == in[1][1] {
			m := int64(1)
			for _, v := range in[0][:len(in[0])-1] {
				m *= v
			}
			return m, in[1][0], in[1][1], 1, true
		}
	case "aten::matmul":
		if len(in) > 1 && len(in[0]) >= 2 && len(in[1]) >= 2 {
			a, b := in[0], in[1]
			la, lb := len(a), len(b)
			if a[la-1] != b[lb-2] {
				return 0, 0, 0, 0, false
			}
			batch = int64(1)
			if lb == 2 { // folded into the rows
				rows := int64(1)
				for _, v := range a[:la-1] {
					rows *= v
				}
				return rows, b[1], a[la-1], 1, true
			}
			if la != lb {
				return 0, 0, 0, 0, false
			}
			for i, v := range a[:la-2] {
				batch *= max(v, b[i])
			}
			return a[la-2], b[lb-1], a[la-1], batch, true
		}
	}
	return 0, 0, 0, 0, false
}

var torchTypes = map[string]string{"float": "fp32", "double": "fp64", "c10::half": "fp16", "half": "fp16", "c10::bfloat16": "bf16", "bfloat16": "bf16",
	"c10::float8_e4m3fn": "fp8", "c10::float8_e5m2": "fp8", "c10::float8_e4m3fnuz": "fp8", "c10::float8_e5m2fnuz": "fp8", "signed char": "int8", "int": "int32", "long int": "int64", "c10::complex<float>": "complex64"}

// matmul books a matrix product kernel with the shape of the operator that launched it.
func (r *reducer) matmul(op *devOp, dur int64) {
	if op.rec < 0 || r.recs[op.rec].mm < 0 {
		return
	}
	sp := &r.tl.Spans
	mm := r.recs[op.rec].mm
	sh := r.shapeOf(mm)
	if sh == nil || r.n.hostOf(sp.Name[mm]).flags&flagMatmul == 0 {
		return
	}
	key := mmKey{sp.Name[mm], sh.Dims, sh.Types}
	g, ok := r.mm[key]
	if !ok {
		name := r.tl.Names.Get(key.op)
		m, n, k, b, fits := product(name, parseDims(r.tl.Names.Get(sh.Dims)))
		if fits {
			typ := ""
			first := 0
			if strings.Contains(name, "add") {
				first = 1
			}
			if ts := parseStrings(r.tl.Names.Get(sh.Types)); first < len(ts) {
				typ = torchTypes[strings.ToLower(ts[first])]
			}
			g = &mmGroup{row: timeline.MatmulRow{Op: name, M: m, N: n, K: k, Batch: b, DType: typ, Row: sp.Row[op.span]}, kernels: kernelTimes{}, last: -1}
		}
		if r.mm == nil {
			r.mm = map[mmKey]*mmGroup{}
		}
		r.mm[key] = g
		if g != nil {
			r.mmOrder = append(r.mmOrder, g)
		}
	}
	if g == nil {
		return
	}
	if g.last != mm { // split-K and its kin launch several kernels for one product
		g.row.Count++
		g.last = mm
	}
	g.row.Dur += dur
	g.kernels[kernelKey{sp.Name[op.span], op.class}] += dur
	r.red.Rank.MatmulShapedNS += dur
}

type mmGroup struct {
	row     timeline.MatmulRow
	kernels kernelTimes
	last    int32
}

// copyTable groups the host-device and device-device copies of the window by direction and host memory.
func (r *reducer) copyTable(d *device, g *timeline.GPULedger) {
	const big = 1 << 20
	sp := &r.tl.Spans
	type best struct {
		bytes int64
		row   uint32
	}
	rows := map[[2]uint8]*timeline.CopyRow{}
	largest := map[[2]uint8][]best{}
	for i := range d.ops {
		op := &d.ops[i]
		if sp.Kind[op.span] != timeline.KindMemcpy || !r.inWindow(op, g) {
			continue
		}
		c := r.copyOf(op.span)
		if c == nil {
			c = &timeline.Copy{Bytes: -1}
		}
		key := [2]uint8{uint8(c.Kind), uint8(hostSide(c))}
		row := rows[key]
		if row == nil {
			row = &timeline.CopyRow{Kind: c.Kind, Memory: hostSide(c)}
			rows[key] = row
		}
		dur := int64(sp.End[op.span] - sp.Start[op.span])
		row.Count++
		row.Dur += dur
		row.Bytes += max(0, c.Bytes)
		if c.Bytes >= big {
			row.BigCount++
			row.BigBytes += c.Bytes
			row.BigDur += dur
		}
		l := append(largest[key], best{c.Bytes, sp.Row[op.span]})
		sort.SliceStable(l, func(i, j int) bool { return l[i].bytes > l[j].bytes })
		largest[key] = l[:min(len(l), keepRows)]
	}
	for s := range g.Segments.All() {
		if s.Owner != timeline.CopyH2D && s.Owner != timeline.CopyD2H {
			continue
		}
		kind := timeline.DirH2D
		if s.Owner == timeline.CopyD2H {
			kind = timeline.DirD2H
		}
		mem := timeline.MemUnknown
		switch s.Sub {
		case timeline.SubPageable:
			mem = timeline.MemPageable
		case timeline.SubPinned:
			mem = timeline.MemPinned
		case timeline.SubOther:
			mem = timeline.MemManaged
		}
		key := [2]uint8{uint8(kind), uint8(mem)}
		row := rows[key]
		if row == nil {
			row = &timeline.CopyRow{Kind: kind, Memory: mem}
			rows[key] = row
		}
		row.Exposed += s.Dur
	}
	for k := 0; k < 256; k++ {
		for m := 0; m < 16; m++ {
			key := [2]uint8{uint8(k), uint8(m)}
			if row := rows[key]; row != nil {
				for _, b := range largest[key] {
					row.Rows = append(row.Rows, b.row)
				}
				g.Copies = append(g.Copies, *row)
			}
		}
		if k > int(timeline.DirH2H) {
			break
		}
	}
}

// hostWindow is the host's part of the analysed window: the host's steps, else the hull of the devices' windows.
func (r *reducer) hostWindow() timeline.Interval {
	if len(r.red.Steps.Host) > 0 {
		return timeline.Interval{Start: r.red.Steps.Host[0].Start, End: r.red.Steps.Host[len(r.red.Steps.Host)-1].End}
	}
	if len(r.red.GPUs) == 0 {
		return r.recorded
	}
	w := r.red.GPUs[0].Window
	if u := r.opt.Window; !u.Empty() {
		return w
	}
	for _, g := range r.red.GPUs[1:] {
		w.Start, w.End = min(w.Start, g.Window.Start), max(w.End, g.Window.End)
	}
	if r.red.Steps.How == "none" {
		w.Start = min(w.Start, r.recorded.Start)
		w.End = max(w.End, r.recorded.End)
	}
	return w
}

// hostSteps is the host interval of each analysed step; where steps were found on the device, from the launch of one step's first
// op to that of the next.
func (r *reducer) hostSteps() []timeline.Interval {
	if len(r.red.Steps.Host) > 0 || r.red.Steps.How == "none" {
		return r.red.Steps.Host
	}
	d := r.biggest()
	if d == nil {
		return nil
	}
	sp := &r.tl.Spans
	var at []timeline.Time
	k := r.first
	for i := range d.ops {
		op := &d.ops[i]
		for k <= r.last && op.rec >= 0 && sp.Start[op.span] >= d.ends[k] {
			at = append(at, sp.Start[r.recs[op.rec].span])
			k++
		}
	}
	if k == r.last && len(at) > 0 {
		at = append(at, r.recorded.End)
	}
	if len(at) != r.last-r.first+1 {
		return nil
	}
	var out []timeline.Interval
	for i := 0; i+1 < len(at); i++ {
		out = append(out, timeline.Interval{Start: at[i], End: max(at[i], at[i+1])})
	}
	return out
}

// rankTables fills the totals of the process.
func (r *reducer) rankTables() {
	sp := &r.tl.Spans
	t := &r.red.Rank
	t.StackFrames, t.Operators, t.Shapes = r.frames, r.ops, len(sp.Shapes) > 0
	for _, k := range sp.Kind {
		if k == timeline.KindSync {
			t.SyncEvents = true
			break
		}
	}
	if !r.ops {
		t.CastNS = -1
	}
	if r.main >= 0 {
		t.MainThread = r.threads[r.main].tid
	}
	win := r.hostWindow()
	steps := r.hostSteps()
	steady := win.Start // after the first analysed step
	if len(steps) > 1 {
		steady = steps[0].End
	}
	if r.first > 0 {
		steady = win.Start
	}
	r.calls(win, steady)
	r.loader(win)
	r.optimizer()
	r.matmuls()
	r.perStepHost(steps)
	r.unusedSearch(win)
	r.steadyTables(win, steady, len(steps))
	r.tokens(win, steps)
	r.heldTables(win, steady)
}

type nameTotal struct {
	row  timeline.CallRow
	name timeline.StringID
}

// calls totals host calls, operators and annotations by name, and the classes of calls.
func (r *reducer) calls(win timeline.Interval, steady timeline.Time) {
	sp := &r.tl.Spans
	t := &r.red.Rank
	kinds := []timeline.SpanKind{timeline.KindAPI, timeline.KindOp, timeline.KindAnnotation} // frames are too many to be of use
	idx := make([][]int32, len(kinds))
	var totals []nameTotal
	var over, compile []timeline.Interval
	for _, s := range r.overhead {
		iv := timeline.Interval{Start: sp.Start[s], End: sp.End[s]}
		if r.n.hostOf(sp.Name[s]).flags&flagOverhead != 0 {
			compile = append(compile, iv)
		} else {
			over = append(over, iv)
		}
	}
	for _, h := range r.threads {
		lo, hi := r.span[h.track][0], r.span[h.track][1]
		item := timeline.Time(-1 << 62)
		for s := lo; s < hi; s++ {
			start, end := sp.Start[s], sp.End[s]
			if start < win.Start || start >= win.End {
				continue
			}
			kind := sp.Kind[s]
			ki := slices.Index(kinds, kind)
			if ki < 0 {
				continue
			}
			info := r.n.hostOf(sp.Name[s])
			dur := int64(end - start)
			switch {
			case kind == timeline.KindAPI:
				if info.flags&flagGraph != 0 {
					t.GraphLaunches++
				}
				if info.call == callAlloc && start >= steady {
					t.AllocCalls++
					t.AllocNS += dur
				}
			case kind == timeline.KindOp && info.flags&flagItem != 0:
				if start >= item { // outermost only: aten::item calls _local_scalar_dense
					t.ItemCalls++
					item = end
				}
			}
			if info.flags&flagStep != 0 {
				continue
			}
			if idx[ki] == nil {
				idx[ki] = make([]int32, r.tl.Names.Len())
			}
			p := &idx[ki][sp.Name[s]]
			if *p == 0 {
				totals = append(totals, nameTotal{timeline.CallRow{Kind: kind}, sp.Name[s]})
				*p = int32(len(totals))
			}
			row := &totals[*p-1].row
			row.Count++
			row.Dur += dur
			row.Max = max(row.Max, dur)
			if len(row.Rows) < keepRows {
				row.Rows = append(row.Rows, sp.Row[s])
			}
		}
		for i, e := range h.ev {
			switch iv := (timeline.Interval{Start: sp.Start[e], End: sp.End[e]}); h.code[i] {
			case evProfiler:
				over = append(over, iv)
			case evCompile:
				compile = append(compile, iv)
			}
		}
		for _, c := range h.syncs {
			if s := sp.Start[c.span]; s >= win.Start && s < win.End {
				t.SyncCalls++
				t.SyncNS += int64(c.end - s)
			}
		}
	}
	timeline.SortIntervals(over)
	timeline.SortIntervals(compile)
	t.OverheadNS = int64(timeline.Len(timeline.Clip(timeline.Union(over), win)))
	t.CompileNS = int64(timeline.Len(timeline.Clip(timeline.Union(compile), win)))
	for i := range totals {
		totals[i].row.Name = r.tl.Names.Get(totals[i].name)
	}
	sort.Slice(totals, func(i, j int) bool {
		a, b := &totals[i].row, &totals[j].row
		if a.Dur != b.Dur {
			return a.Dur > b.Dur
		}
		if a.Name != b.Name {
			return a.Name < b.Name
		}
		return a.Kind < b.Kind
	})
	const most = 200
	for i := range totals[:min(len(totals), most)] {
		t.Calls = append(t.Calls, totals[i].row)
	}
}

// loader sums up the loader's next() calls of the main thread.
func (r *reducer) loader(win timeline.Interval) {
	sp := &r.tl.Spans
	l := &r.red.Rank.Loader
	by := map[timeline.StringID]int64{}
	var long []int32
	for _, m := range r.loadMarks {
		s := m.span
		if int(m.thread) != r.main || sp.Start[s] < win.Start || sp.Start[s] >= win.End {
			continue
		}
		l.Calls++
		l.Dur += int64(sp.End[s] - sp.Start[s])
		by[sp.Name[s]] += int64(sp.End[s] - sp.Start[s])
		long = append(long, s)
	}
	best := timeline.StringID(0)
	for id, d := range by {
		if b := by[best]; best == 0 || d > b || (d == b && r.tl.Names.Get(id) < r.tl.Names.Get(best)) {
			best = id
		}
	}
	l.Name = r.tl.Names.Get(best)
	if best != 0 {
		l.Single = r.n.hostOf(best).flags&flagSingle != 0
	}
	sort.SliceStable(long, func(i, j int) bool {
		return sp.End[long[i]]-sp.Start[long[i]] > sp.End[long[j]]-sp.Start[long[j]]
	})
	for _, s := range long[:min(len(long), keepRows)] {
		l.Rows = append(l.Rows, sp.Row[s])
	}
	for i := range r.red.GPUs {
		l.Exposed += r.red.GPUs[i].Owners[timeline.HostDataloader]
	}
}

// optimizer sums the device time of ops launched inside Optimizer.step and of the gaps between two of them.
func (r *reducer) optimizer() {
	t := &r.red.Rank
	t.OptimizerNS = -1
	if len(r.optMarks) == 0 {
		return
	}
	t.OptimizerNS = 0
	sp := &r.tl.Spans
	for gi, d := range r.devices {
		win := r.red.GPUs[gi].Window
		cur := win.Start
		was := int32(-1)
		for i := range d.ops {
			op := &d.ops[i]
			opt := int32(-1)
			if op.rec >= 0 {
				opt = r.aroundOf(op.rec).opt
			}
			a, b := max(sp.Start[op.span], cur), min(sp.End[op.span], win.End)
			if opt >= 0 && a < b {
				if opt == was && a > cur {
					t.OptimizerNS += int64(a - cur)
				}
				t.OptimizerNS += int64(b - a)
			}
			if b > cur {
				cur, was = b, opt
			}
		}
	}
	for _, m := range r.optMarks {
		if len(t.OptimizerRows) < keepRows {
			t.OptimizerRows = append(t.OptimizerRows, sp.Row[m.span])
		}
	}
}

func (r *reducer) matmuls() {
	const most = 2000
	rows := make([]timeline.MatmulRow, 0, len(r.mmOrder))
	did := kernelsDid{}
	for _, g := range r.mmOrder {
		best := timeline.StringID(0)
		var longest int64
		for k, d := range g.kernels {
			if best == 0 || d > longest || d == longest && r.tl.Names.Get(k.name) < r.tl.Names.Get(best) {
				best, longest = k.name, d
			}
		}
		g.row.Kernel = r.tl.Names.Get(best)
		k := r.n.kernelOf(best)
		g.row.TensorCore = k.TensorCore
		if g.row.DType == "" || g.row.DType == "fp32" && k.DType == "tf32" {
			g.row.DType = k.DType
		}
		rows = append(rows, g.row)
		did.add(r.tl, g.kernels, g.row.Dur, float64(g.row.Count)*g.row.FLOP(), float64(g.row.Count)*g.row.Bytes(), g.row.DType)
	}
	did.tell(r.red.GPUs...)
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := &rows[i], &rows[j]
		if a.Dur != b.Dur {
			return a.Dur > b.Dur
		}
		return a.Row < b.Row
	})
	r.red.Rank.Matmuls = rows[:min(len(rows), most)]
}

// perStepHost gives, for each analysed step, the host's time without waits for the GPU, and its time inside next().
func (r *reducer) perStepHost(steps []timeline.Interval) {
	if len(steps) == 0 || r.main < 0 {
		return
	}
	sp := &r.tl.Spans
	var waits []timeline.Interval
	for i, h := range r.threads {
		if i != r.main && h.nlaunch == 0 {
			continue
		}
		for _, c := range h.syncs {
			waits = append(waits, timeline.Interval{Start: sp.Start[c.span], End: c.end})
		}
		// A launch call that lasts a millisecond while the GPU works waits for room in the queue.
		for j, e := range h.ev {
			if h.code[j] == evAPI && sp.End[e]-sp.Start[e] >= longCall && r.n.hostOf(sp.Name[e]).call == callLaunch {
				waits = append(waits, r.busyDuring(timeline.Interval{Start: sp.Start[e], End: sp.End[e]})...)
			}
		}
	}
	timeline.SortIntervals(waits)
	waits = timeline.Union(waits)
	next := r.nextIntervals()
	inside := func(ivs []timeline.Interval, k *int, st timeline.Interval) int64 {
		for *k < len(ivs) && ivs[*k].End <= st.Start {
			*k++
		}
		var sum int64
		for i := *k; i < len(ivs) && ivs[i].Start < st.End; i++ {
			sum += int64(min(ivs[i].End, st.End) - max(ivs[i].Start, st.Start))
		}
		return sum
	}
	wi, ni := 0, 0
	for _, st := range steps {
		r.red.HostBusy = append(r.red.HostBusy, int64(st.Dur())-inside(waits, &wi, st))
		r.red.NextNS = append(r.red.NextNS, inside(next, &ni, st))
	}
}

// busyDuring gives when the biggest device worked inside iv.
func (r *reducer) busyDuring(iv timeline.Interval) []timeline.Interval {
	if r.busy == nil {
		if d := r.biggest(); d != nil {
			r.busy = r.union(d, func(layer) bool { return true })
		}
	}
	i := sort.Search(len(r.busy), func(i int) bool { return r.busy[i].End > iv.Start })
	var out []timeline.Interval
	for ; i < len(r.busy) && r.busy[i].Start < iv.End; i++ {
		out = append(out, timeline.Interval{Start: max(r.busy[i].Start, iv.Start), End: min(r.busy[i].End, iv.End)})
	}
	return out
}

// notes says what looked odd.
func (r *reducer) notes() {
	note := func(format string, a ...any) { r.red.Notes = append(r.red.Notes, fmt.Sprintf(format, a...)) }
	if len(r.devices) == 0 {
		calls, ours := 0, 0
		for _, c := range r.red.Rank.Calls {
			if c.Kind == timeline.KindAPI {
				calls++
				if strings.HasPrefix(c.Name, "cu") || strings.HasPrefix(c.Name, "hip") {
					ours++
				}
			}
		}
		other := calls > 0 && ours == 0
		for i := range r.tl.Devices {
			if d := &r.tl.Devices[i]; d.Vendor == "other" {
				other = true
			}
		}
		switch {
		case r.p.Meta["no_device_work"] != "":
			r.red.NoLedger = r.p.Meta["no_device_work"]
		case other:
			r.red.NoLedger = "the trace is of an accelerator whose device events are not read: there is no time ledger"
		case calls > 0:
			r.red.NoLedger = "the trace has runtime calls but no device events: the profiler could not record the GPU (no CUPTI, or another profiler held it)"
		default:
			r.red.NoLedger = "the trace holds host events only: it was recorded without the GPU"
		}
		note("%s", r.red.NoLedger)
	}
	for i := range r.red.GPUs {
		g := &r.red.GPUs[i]
		if g.SumError != 0 {
			note("internal error: the ledger of device %d misses its window by %d ns", g.Device.Ordinal, g.SumError)
		}
		if launched := g.Ops - g.Uncorrelated; g.Late*100 > launched {
			note("%d of %d device ops began before their launch call: the clocks of host and device do not agree", g.Late, launched)
		}
		for _, s := range g.Subs[timeline.UnknownOwner] {
			if s.Sub == timeline.SubNoOperators && s.NS > 0 {
				note("neither operators nor CPU samples were recorded: what the launching thread did between its calls is not known (%.1f %% of device %d's window)",
					percent(s.NS, g), g.Device.Ordinal)
			}
		}
		if g.Ops > 0 && g.Uncorrelated == g.Ops {
			note("no device op of device %d has a launch call: gaps cannot be attributed", g.Device.Ordinal)
		}
	}
}
