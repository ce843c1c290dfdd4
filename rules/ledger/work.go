package ledger

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
)

const (
	mostRows      = 2000
	attentionNear = 6  // kernels between a softmax and the products on both its sides
	longestSeq    = 16 // kernels of a sequence
	keptSeqs      = 20
	compareMin    = 5_000 // ns: a shorter kernel's time is its launch's
	compareEach   = 3     // kernels on each side of a comparison
)

// work gathers what the kernels of the window tell of their work.
func (r *reducer) work(d *device, g *timeline.GPULedger) {
	w := &g.Work
	sms := uint32(max(0, g.Device.SMs))
	if sms == 0 {
		if m := r.t.FindGPU(g.Device.Name, g.Device.Memory, 0, g.Device.CC); m.GPU != nil {
			sms = uint32(float64(m.GPU.SMs) * m.SMFrac)
		}
	}
	r.shaped(d, g)
	r.grids(d, g, sms)
	r.underComm(d, g)
	r.recomputed(d, g)
	for stream := range d.streams {
		r.inARow(d, g, stream)
	}
	slices.SortStableFunc(w.Sequences, func(a, b timeline.SequenceRow) int {
		return cmp.Or(cmp.Compare(b.Saved, a.Saved), cmp.Compare(a.Row, b.Row))
	})
	w.Sequences = w.Sequences[:min(len(w.Sequences), keptSeqs)]
}

func keep(rows *[]uint32, row uint32) {
	if len(*rows) < keepRows {
		*rows = append(*rows, row)
	}
}

// kernels calls f for each kernel of the window that is no collective.
func (r *reducer) kernels(d *device, g *timeline.GPULedger, f func(op *devOp, dur int64)) {
	sp := &r.tl.Spans
	for i := range d.ops {
		op := &d.ops[i]
		if sp.Kind[op.span] == timeline.KindKernel && op.class != ClassComm && r.inWindow(op, g) {
			f(op, int64(sp.End[op.span]-sp.Start[op.span]))
		}
	}
}

// opOf is the operator whose shapes speak for a kernel: the convolution around it, else the innermost operator. -1: none.
func (r *reducer) opOf(op *devOp) int32 {
	if op.rec < 0 {
		return -1
	}
	rec := &r.recs[op.rec]
	if op.class == ClassConv && rec.mm >= 0 {
		return rec.mm
	}
	return rec.op
}

// shaped groups what is no matrix product by operator, shapes and types, with its arithmetic and the bytes it must move.
func (r *reducer) shaped(d *device, g *timeline.GPULedger) {
	type key struct {
		op, dims, types, conc timeline.StringID
		flop                  float64 // where it does not follow from the rest
	}
	sp, w := &r.tl.Spans, &g.Work
	convs := r.convByBackward()
	by := map[key]*workGroup{}
	var order []*workGroup
	r.kernels(d, g, func(op *devOp, dur int64) {
		w.Launches++
		product := op.class == ClassConv || op.class == ClassAttention
		if product {
			w.ProductT += dur
		}
		if op.class == ClassMatmul || op.class == ClassOptimizer {
			return
		}
		s := r.opOf(op)
		if s < 0 {
			return
		}
		sh := r.shapeOf(s)
		if sh == nil {
			return
		}
		if !product && r.multiplies(sp.Name[s]) {
			return // what goes before and after a product: its shapes are not theirs
		}
		k := key{sp.Name[s], sh.Dims, sh.Types, sh.Concrete, convs[s]}
		gr, ok := by[k]
		if !ok {
			gr = r.shapeWork(k.op, sh, op.class, k.flop)
			by[k] = gr
			if gr != nil {
				gr.row.Row = sp.Row[op.span]
				order = append(order, gr)
			}
		}
		if gr == nil || (gr.row.Kind != "memory") != product {
			return
		}
		if gr.last != s {
			gr.row.Count++
			gr.last = s
		}
		gr.row.Dur += dur
		gr.kernels[kernelKey{sp.Name[op.span], op.class}] += dur
		switch r.n.kernelOf(sp.Name[op.span]).TensorCore {
		case 1:
			gr.tensor += dur
		case -1:
			gr.plain += dur
		}
		if product {
			w.ShapedT += dur
		}
	})
	did := kernelsDid{}
	for _, gr := range order {
		switch {
		case gr.tensor > gr.plain:
			gr.row.TensorCore = 1
		case gr.plain > 0:
			gr.row.TensorCore = -1
		}
		w.Rows = append(w.Rows, gr.row)
		did.add(r.tl, gr.kernels, gr.row.Dur, float64(gr.row.Count)*gr.row.FLOP, float64(gr.row.Count)*gr.row.Bytes, gr.row.DType)
	}
	did.tell(*g)
	slices.SortStableFunc(w.Rows, func(a, b timeline.WorkRow) int {
		return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Row, b.Row))
	})
	w.Rows = w.Rows[:min(len(w.Rows), mostRows)]
}

// grids tells how well grids fill the part, and which tiled product loses most to its last wave.
func (r *reducer) grids(d *device, g *timeline.GPULedger, sms uint32) {
	if sms == 0 {
		return
	}
	type wave struct {
		ns, lost int64
		rows     []uint32
	}
	sp, w := &r.tl.Spans, &g.Work
	waves := map[timeline.StringID]*wave{}
	var order []timeline.StringID
	r.kernels(d, g, func(op *devOp, dur int64) {
		if op.grid == 0 {
			return
		}
		w.GridNS += dur
		if op.grid < sms {
			w.SmallNS += dur
			keep(&w.SmallRows, sp.Row[op.span])
			return
		}
		name := sp.Name[op.span]
		if op.grid == sms || !r.n.kernelOf(name).Tiled {
			return
		}
		x := waves[name]
		if x == nil {
			x = &wave{}
			waves[name] = x
			order = append(order, name)
		}
		full := (uint64(op.grid) + uint64(sms) - 1) / uint64(sms) * uint64(sms)
		x.ns += dur
		x.lost += int64(float64(dur) * (1 - float64(op.grid)/float64(full)))
		keep(&x.rows, sp.Row[op.span])
	})
	for _, name := range order {
		x, text := waves[name], r.tl.Names.Get(name)
		if x.lost > w.WaveLT || x.lost == w.WaveLT && (w.WaveKernel == "" || text < w.WaveKernel) {
			w.WaveKernel, w.WaveNS, w.WaveLT, w.WaveRows = text, x.ns, x.lost, x.rows
		}
	}
}

// underComm compares kernels that ran under a collective with the same ones, by name, grid and shapes, that ran alone.
func (r *reducer) underComm(d *device, g *timeline.GPULedger) {
	type key struct {
		name, dims timeline.StringID
		grid       uint32
	}
	type pair struct {
		with, alone []int64
		rows        []uint32
	}
	sp, w := &r.tl.Spans, &g.Work
	var comm []timeline.Interval
	for i := range d.ops {
		if op := &d.ops[i]; op.class == ClassComm && sp.End[op.span] > sp.Start[op.span] {
			comm = append(comm, timeline.Interval{Start: sp.Start[op.span], End: sp.End[op.span]})
		}
	}
	comm = timeline.Union(comm)
	if w.CommSeen = len(comm) > 0; !w.CommSeen {
		return
	}
	by := map[key]*pair{}
	var order []*pair
	next := 0
	r.kernels(d, g, func(op *devOp, dur int64) {
		a, b := sp.Start[op.span], sp.End[op.span]
		for next < len(comm) && comm[next].End <= a {
			next++
		}
		if dur < compareMin {
			return
		}
		var under int64
		for i := next; i < len(comm) && comm[i].Start < b; i++ {
			under += int64(min(b, comm[i].End) - max(a, comm[i].Start))
		}
		if under > 0 && 2*under < dur {
			return
		}
		k := key{name: sp.Name[op.span], grid: op.grid}
		s := r.opOf(op)
		if op.class == ClassMatmul && op.rec >= 0 && r.recs[op.rec].mm >= 0 {
			s = r.recs[op.rec].mm
		}
		if s >= 0 {
			if sh := r.shapeOf(s); sh != nil {
				k.dims = sh.Dims
			}
		}
		p := by[k]
		if p == nil {
			p = &pair{}
			by[k] = p
			order = append(order, p)
		}
		if under == 0 {
			p.alone = append(p.alone, dur)
			return
		}
		w.OverlapNS += dur
		p.with = append(p.with, dur)
		keep(&p.rows, sp.Row[op.span])
	})
	var worst float64
	for _, p := range order {
		if len(p.with) < compareEach || len(p.alone) < compareEach {
			continue
		}
		slices.Sort(p.with)
		slices.Sort(p.alone)
		with, alone := p.with[len(p.with)/2], p.alone[len(p.alone)/2]
		var sum int64
		for _, v := range p.with {
			sum += v
		}
		w.ComparedNS += sum
		w.AloneNS += int64(float64(sum) * float64(alone) / float64(with))
		if lost := float64(sum) * (1 - float64(alone)/float64(with)); lost > worst {
			worst, w.OverlapRows = lost, p.rows
		}
	}
}

// recomputed finds operators of forward inside backward, with kernels that forward launched too.
func (r *reducer) recomputed(d *device, g *timeline.GPULedger) {
	sp, w := &r.tl.Spans, &g.Work
	forward := map[timeline.StringID]bool{}
	r.kernels(d, g, func(op *devOp, _ int64) {
		if r.phaseOf(op) == timeline.Forward {
			forward[sp.Name[op.span]] = true
		}
	})
	r.kernels(d, g, func(op *devOp, dur int64) {
		if r.phaseOf(op) != timeline.Backward {
			return
		}
		w.BackwardNS += dur
		s := r.opOf(op)
		if s >= 0 && forward[sp.Name[op.span]] && r.n.hostOf(sp.Name[s]).flags&flagForward != 0 {
			w.RecomputeNS += dur
			keep(&w.RecomputeRows, sp.Row[op.span])
		}
	})
}

// fusable are the classes whose kernels a compiler makes one of.
func fusable(c Class) bool {
	return c == ClassElementwise || c == ClassNorm || c == ClassReduce || c == ClassCopyCast
}

// inARow looks at the order of kernels on one stream: attention in pieces, layout changes, and rows of kernels that could be one.
func (r *reducer) inARow(d *device, g *timeline.GPULedger, stream int) {
	sp, w := &r.tl.Spans, &g.Work
	var ops []*devOp
	r.kernels(d, g, func(op *devOp, dur int64) {
		if int(op.stream) != stream {
			return
		}
		ops = append(ops, op)
		inside := op.class == ClassCopyCast && op.rec >= 0 && r.aroundOf(op.rec).flags&recLayout != 0
		if inside || r.n.kernelOf(sp.Name[op.span]).Layout {
			w.LayoutNS += dur
			keep(&w.LayoutRows, sp.Row[op.span])
		}
	})
	r.attentionPieces(ops, w)
	r.sequences(ops, w)
}

// attentionPieces finds products on both sides of a softmax. A loss's softmax is a log-softmax, and a router's has no product behind it
// that multiplies batches.
func (r *reducer) attentionPieces(ops []*devOp, w *timeline.WorkTable) {
	sp := &r.tl.Spans
	batched := func(op *devOp) bool {
		if op.class != ClassMatmul {
			return false
		}
		if op.rec < 0 || !r.ops {
			return !r.ops
		}
		if mm := r.recs[op.rec].mm; mm >= 0 {
			name := r.tl.Names.Get(sp.Name[mm])
			return strings.Contains(name, "bmm") || name == "aten::matmul"
		}
		return false
	}
	taken := 0
	for i, op := range ops {
		if op.class != ClassReduce || !softmax(r.tl.Names.Get(sp.Name[op.span])) {
			continue
		}
		lo, hi := i-1, i+1
		for lo >= taken && i-lo <= attentionNear && ops[lo].class != ClassMatmul {
			lo--
		}
		for hi < len(ops) && hi-i <= attentionNear && ops[hi].class != ClassMatmul {
			hi++
		}
		if lo < taken || hi >= len(ops) || !batched(ops[lo]) || !batched(ops[hi]) {
			continue
		}
		// Backward multiplies twice on each side.
		if strings.Contains(strings.ToLower(r.tl.Names.Get(sp.Name[op.span])), "backward") {
			if lo-1 >= taken && batched(ops[lo-1]) {
				lo--
			}
			if hi+1 < len(ops) && batched(ops[hi+1]) {
				hi++
			}
		}
		for _, x := range ops[lo : hi+1] {
			w.UnfusedNS += int64(sp.End[x.span] - sp.Start[x.span])
		}
		w.Unfused++
		keep(&w.UnfusedRows, sp.Row[op.span])
		taken = hi + 1
	}
}

func softmax(name string) bool {
	low := strings.ToLower(name)
	return strings.Contains(low, "softmax") && !strings.Contains(low, "logsoftmax") && !strings.Contains(low, "log_softmax") && !strings.Contains(low, "topk")
}

// sequences counts rows of kernels between others that could be one kernel.
func (r *reducer) sequences(ops []*devOp, w *timeline.WorkTable) {
	type seq struct {
		first, n   int
		count, dur int64
	}
	sp := &r.tl.Spans
	fuses := func(op *devOp) bool { return fusable(op.class) && r.n.kernelOf(sp.Name[op.span]).Fusable }
	by := map[string]*seq{}
	var order []*seq
	var key []byte
	for i := 0; i < len(ops); {
		if !fuses(ops[i]) {
			i++
			continue
		}
		j := i
		key = key[:0]
		var dur int64
		for j < len(ops) && j-i < longestSeq && fuses(ops[j]) {
			key = strconv.AppendUint(append(key, ' '), uint64(sp.Name[ops[j].span]), 36)
			dur += int64(sp.End[ops[j].span] - sp.Start[ops[j].span])
			j++
		}
		if j-i >= 2 {
			s := by[string(key)]
			if s == nil {
				s = &seq{first: i, n: j - i}
				by[string(key)] = s
				order = append(order, s)
			}
			s.count++
			s.dur += dur
		}
		i = j
	}
	for _, s := range order {
		if s.count < 2 {
			continue
		}
		row := timeline.SequenceRow{Count: s.count, Dur: s.dur, Saved: s.count * int64(s.n-1), Row: sp.Row[ops[s.first].span]}
		for _, op := range ops[s.first : s.first+s.n] {
			row.Names = append(row.Names, r.tl.Names.Get(sp.Name[op.span]))
		}
		w.Sequences = append(w.Sequences, row)
		w.SequencesSaved += row.Saved
		w.SequencesKernNS += row.Dur
	}
}

// recompileMin is the shortest compilation that counts: cache look-ups are shorter.
const recompileMin = 1_000_000

// steadyTables counts what only warm-up may do: compile, and meet new shapes.
func (r *reducer) steadyTables(win timeline.Interval, steady timeline.Time, steps int) {
	sp, t := &r.tl.Spans, &r.red.Rank
	t.HostWindowNS = int64(win.Dur())
	if t.SteadySteps = int64(steps); steady > win.Start && steps > 0 {
		t.SteadySteps--
	}
	in := func(s int32) bool { return sp.Start[s] >= steady && sp.Start[s] < win.End }
	for _, h := range r.threads {
		end := timeline.Time(-1 << 62)
		for i, s := range h.ev {
			if h.code[i] != evCompile || sp.Start[s] < end || !in(s) || sp.End[s]-sp.Start[s] < recompileMin {
				continue
			}
			flags := r.n.hostOf
			if sp.Kind[s] == timeline.KindPython {
				flags = r.n.frameOf
			}
			if sp.Kind[s] == timeline.KindOverhead || flags(sp.Name[s]).flags&flagCompile == 0 {
				continue // a trial of algorithms, a module
			}
			end = sp.End[s]
			t.Recompiles++
			t.RecompileNS += int64(sp.End[s] - sp.Start[s])
			keep(&t.RecompileRows, sp.Row[s])
		}
	}
	seen := map[string]bool{}
	forward := func(s int32) bool {
		return r.n.hostOf(sp.Name[s]).flags&flagConv != 0 && !strings.Contains(r.tl.Names.Get(sp.Name[s]), "backward")
	}
	r.eachShape(func(s int32, sh *timeline.Shape) {
		if sp.Start[s] >= win.End || !forward(s) {
			return
		}
		k := firstTwo(r.tl.Names.Get(sh.Dims))
		if k == "" {
			return
		}
		t.Convs = true
		if !in(s) {
			seen[k] = true
		}
	})
	r.eachShape(func(s int32, sh *timeline.Shape) {
		if !in(s) || !forward(s) {
			return
		}
		if k := firstTwo(r.tl.Names.Get(sh.Dims)); k != "" && !seen[k] {
			seen[k] = true
			t.ConvNewShapes++
			keep(&t.ConvShapeRows, sp.Row[s])
		}
	})
	for _, h := range r.threads {
		for i, s := range h.ev {
			if h.code[i] == evCompile && sp.Kind[s] == timeline.KindOp && in(s) && r.n.hostOf(sp.Name[s]).flags&flagConv != 0 {
				t.ConvTrialNS += int64(sp.End[s] - sp.Start[s])
			}
		}
	}
	r.modelPhases(win)
}

// firstTwo is the text of the first two shapes of a list: of a convolution its input and its weights.
func firstTwo(dims string) string {
	n := 0
	for i := range len(dims) {
		if dims[i] == ']' {
			if n++; n == 2 {
				return dims[:i]
			}
		}
	}
	return ""
}

// modelPhases sums the main thread's ranges that name what one of several models does in turn; of nested ones the outermost.
func (r *reducer) modelPhases(win timeline.Interval) {
	if r.main < 0 {
		return
	}
	sp, t := &r.tl.Spans, &r.red.Rank
	lo, hi := r.span[r.threads[r.main].track][0], r.span[r.threads[r.main].track][1]
	sums := map[string]int64{}
	end := timeline.Time(-1 << 62)
	for _, s := range r.annos {
		if s < lo || s >= hi || sp.Start[s] < max(win.Start, end) || sp.Start[s] >= win.End {
			continue
		}
		name := r.tl.Names.Get(sp.Name[s])
		if len(name) > 64 {
			continue
		}
		words := splitWords(name)
		for _, want := range r.t.modelPhase {
			if hasWords(words, want) {
				sums[strings.Join(want, " ")] += int64(min(sp.End[s], win.End) - sp.Start[s])
				end = sp.End[s]
				keep(&t.ModelPhaseRows, sp.Row[s])
				break
			}
		}
	}
	for name, ns := range sums {
		t.ModelPhases = append(t.ModelPhases, timeline.PhaseShare{Name: name, NS: ns})
	}
	sort.Slice(t.ModelPhases, func(i, j int) bool {
		a, b := t.ModelPhases[i], t.ModelPhases[j]
		return a.NS > b.NS || a.NS == b.NS && a.Name < b.Name
	})
}
