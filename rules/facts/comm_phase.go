package facts

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// bucketBytes is what DistributedDataParallel gathers before it reduces, unless told otherwise.
const bucketBytes = 25 << 20

var (
	gradReduces = &Decl{ID: "gpu.grad_reduces_count", Unit: unit.Count, Per: GPU, Max: 1e6, Capture: "C4",
		Doc: "Backward passes of one optimizer step that reduced the same gradient bucket, mean over the buckets by their bytes, median over the optimizer steps. " +
			"Groups that also reduce in forward, that gather weights in forward, or that are named after tensor, pipeline or expert parallelism are left out."}
	gradPasses = &Decl{ID: "gpu.backward_passes_count", Unit: unit.Count, Per: GPU, Max: 1e6, Capture: "C4",
		Doc: "Backward passes per optimizer step, median; the user's accumulate where it is given."}
	gradRepeat = &Decl{ID: "gpu.grad_repeat_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in exposed gradient reduces, waits for a late rank left out, that one reduce per optimizer step would not need."}
	commTail = &Decl{ID: "gpu.comm_tail_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in gradient reduces that were exposed between the last kernel of backward and the optimizer's first, waits for a late rank left out; by the median optimizer step."}
	commTailExcess = &Decl{ID: "gpu.comm_tail_excess_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "The same without what cannot be hidden: each step, the transfer of its shortest reduce there, of one over 25 MiB that part of it."}
	shardGather = &Decl{ID: "gpu.shard_gather_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in exposed all-gathers of forward and backward, waits for a late rank left out, in groups that do not also reduce activations in forward."}
	commUneven = &Decl{ID: "gpu.comm_step_p95_over_p50_frac", Unit: unit.Frac, Per: GPU, Max: 1e6, Capture: "C4",
		Doc: "Transfer time of a step's collectives at the 95th percentile of the steps above the median step's, out of that; the same collectives at the same place in the step are compared, and the waits for late ranks are left out."}
	commUnevenSave = &Decl{ID: "gpu.comm_uneven_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window by which exposed transfers were longer than the median transfer of the same collective at the same place in the step."}
	pipeWait = &Decl{ID: "gpu.pipeline_wait_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in exposed sends and receives, waiting for the other side included."}
	pipeIdeal = &Decl{ID: "gpu.pipeline_ideal_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "The bubble that p stages and m micro-batches a step cannot avoid without interleaving, out of the step: (p-1)/(m+p-1)."}
	pipeExcess = &Decl{ID: "gpu.pipeline_excess_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "gpu.pipeline_wait_frac above gpu.pipeline_ideal_frac; 0 where it is below."}
	a2aExposed = &Decl{ID: "gpu.a2a_exposed_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in exposed all-to-alls, waits included: the rank that gets least waits for the one that gets most."}
	a2aUneven = &Decl{ID: "gpu.a2a_split_over_mean_frac", Unit: unit.Frac, Per: GPU, Max: 1e6, Capture: "C4",
		Doc: "Largest part that an all-to-all of the rank sends to one member above the mean part, out of that; of all of them together."}
	rankUnused = &Decl{ID: "rank.ddp_unused_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Share of the host's analysed window in which DistributedDataParallel looked for parameters without a gradient."}
	rankUnusedSave = &Decl{ID: "rank.ddp_unused_idle_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "The same, at most the share of the window in which the rank's GPU waited for launches, CPU operators or Python."}
)

// CommPhases asks at which place of the step communication is exposed. The phase of a collective is that of its launch: inside Optimizer.step,
// inside an operator of backward or on autograd's thread, between the two, else forward. Missing where backward cannot be seen, as in a
// recording without CPU operators, and where splits, groups or the number of micro-batches are not stated. Sums over collectives are bounded
// by the ledger, as two of them may be exposed at once.
var CommPhases = &Deriver{
	Name: "comm-phases",
	Gives: []*Decl{gradReduces, gradPasses, gradRepeat, commTail, commTailExcess, shardGather, commUneven, commUnevenSave, pipeWait, pipeIdeal,
		pipeExcess, a2aExposed, a2aUneven, rankUnused, rankUnusedSave},
	Run: func(p *Pass) {
		stages := newStages(p)
		p.eachGPU(func(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) { p.phasesOf(sub, g, r, stages) })
		p.eachRank(p.unusedOf)
	},
}

// commGroup is what the collectives of one process group do in which phase.
type commGroup struct {
	fwdReduced, bwdReduced int64 // bytes
	fwdGathered            int64
	named                  bool // after a kind of parallelism that communicates each micro-batch
	index                  []int
}

// perBatch tells whether the group reduces activations, which it must each micro-batch.
func (g *commGroup) perBatch() bool {
	return g.named || g.fwdReduced > 0 && 10*g.fwdReduced >= g.bwdReduced
}

// gradients tells whether the group's reduces are of gradients that every rank holds whole.
func (g *commGroup) gradients() bool {
	return !g.perBatch() && (g.fwdGathered == 0 || 10*g.fwdGathered < g.bwdReduced)
}

func reduces(c *timeline.Collective) bool {
	return c.Primitive == "all-reduce" || c.Primitive == "reduce-scatter"
}

// commGroups sorts the collectives of a GPU by process group.
func commGroups(g *timeline.GPULedger, r *timeline.Reduced) map[string]*commGroup {
	out := map[string]*commGroup{}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g {
			continue
		}
		x := out[c.Group]
		if x == nil {
			x = &commGroup{}
			desc := strings.ToLower(c.GroupDesc)
			for _, w := range []string{"tensor", "pipeline", "expert", "context", "sequence"} {
				x.named = x.named || strings.Contains(desc, w)
			}
			switch desc {
			case "tp", "pp", "ep", "cp", "mesh_tp", "mesh_pp", "mesh_ep", "mesh_cp":
				x.named = true
			}
			out[c.Group] = x
		}
		x.index = append(x.index, i)
		n := max(1, c.Bytes)
		switch {
		case reduces(c) && c.Phase == timeline.Forward:
			x.fwdReduced += n
		case reduces(c) && (c.Phase == timeline.Backward || c.Phase == timeline.After):
			x.bwdReduced += n
		case c.Primitive == "all-gather" && c.Phase == timeline.Forward:
			x.fwdGathered += n
		}
	}
	return out
}

// parts is exposed time of some collectives, and how it was divided.
type parts struct {
	own, measured, undivided int64
	rows                     []uint32
}

func (x *parts) add(c *timeline.Collective, ns int64) {
	if ns <= 0 {
		return
	}
	x.own += ns
	switch c.Split {
	case timeline.Measured:
		x.measured += ns
	case timeline.NoConfidence:
		x.undivided += ns
	}
	x.rows = append(x.rows, c.Row)
}

// value is num as a fact that rests on these parts.
func (x *parts) value(r *timeline.Reduced, num float64) Value {
	refs, n := rowRefs(r, x.rows)
	return Value{Num: num, Cover: 1, Refs: refs, NRefs: n, Conf: ownConfidence(x.measured, x.undivided, x.own, false)}
}

const (
	noBackward = "the recording does not show which kernels backward launched: it holds no CPU operators"
	noOptimize = "the recording does not show where the optimizer runs: no Optimizer.step range was seen after a backward"
)

func (p *Pass) phasesOf(sub int, g *timeline.GPULedger, r *timeline.Reduced, stages *stages) {
	if g == nil || g.Window.Empty() {
		p.missAll(sub, noLedger(g), gradReduces, gradPasses, gradRepeat, commTail, commTailExcess, shardGather, commUneven, commUnevenSave,
			pipeWait, pipeIdeal, pipeExcess, a2aExposed, a2aUneven)
		return
	}
	w := float64(g.Window.Dur())
	groups := commGroups(g, r)
	limit := g.Owners[timeline.CommTransfer] + g.Owners[timeline.CommUndivided]
	share := func(ns, most int64) float64 { return float64(max(0, min(ns, most))) / w }

	none := true
	for i := range r.Collectives {
		none = none && (&r.GPUs[r.Collectives[i].GPU] != g || !inWindow(r, &r.Collectives[i]))
	}
	switch {
	case none:
		for _, d := range []*Decl{gradReduces, gradRepeat, commTail, commTailExcess, shardGather} {
			p.Set(d, sub, measured(0))
		}
		if n := passesOf(p, optimizerSteps(g)); n > 0 {
			p.Set(gradPasses, sub, measured(n))
		} else {
			p.Miss(gradPasses, sub, noOptimize)
		}
	case len(g.Phases) == 0:
		p.missAll(sub, noBackward, gradReduces, gradPasses, gradRepeat, commTail, commTailExcess, shardGather)
	default:
		p.gradientsOf(sub, g, r, groups, share, limit)
		var x parts
		for _, gr := range groups {
			if gr.perBatch() {
				continue
			}
			for _, i := range gr.index {
				if c := &r.Collectives[i]; c.Primitive == "all-gather" && (c.Phase == timeline.Forward || c.Phase == timeline.Backward) && inWindow(r, c) {
					x.add(c, ownExposed(c))
				}
			}
		}
		p.Set(shardGather, sub, x.value(r, share(x.own, limit)))
	}
	p.unevenOf(sub, g, r, share, limit)
	p.pipelineOf(sub, g, r, stages, share)
	p.allToAllOf(sub, g, r, share)
}

// optStep is one optimizer step: the backward passes before it, and where the optimizer begins.
type optStep struct {
	passes []timeline.Interval // [Start, the next pass's Start)
	end    timeline.Time       // of the last backward kernel
	opt    timeline.Time       // start of the optimizer's first
}

// optimizerSteps cuts the phases of a GPU at its optimizer runs; a backward that no optimizer follows is left out, and so is the first where
// the recording began inside it.
func optimizerSteps(g *timeline.GPULedger) []optStep {
	var out []optStep
	var cur optStep
	for _, ph := range g.Phases {
		switch ph.Phase {
		case timeline.Backward:
			if n := len(cur.passes); n > 0 {
				cur.passes[n-1].End = ph.Start
			}
			cur.passes = append(cur.passes, timeline.Interval{Start: ph.Start, End: ph.End})
			cur.end = ph.End
		case timeline.Optimizer:
			if n := len(cur.passes); n > 0 {
				cur.passes[n-1].End = ph.Start
				cur.opt = ph.Start
				if cur.end >= g.Window.Start && cur.opt <= g.Window.End {
					out = append(out, cur)
				}
			}
			cur = optStep{}
		}
	}
	return out
}

func passesOf(p *Pass, steps []optStep) float64 {
	if n, err := strconv.Atoi(p.Input.Set["accumulate"]); err == nil && n > 0 {
		return float64(n)
	}
	var x []float64
	for _, s := range steps {
		x = append(x, float64(len(s.passes)))
	}
	if len(x) == 0 {
		return 0
	}
	return median(x)
}

type bucketKey struct {
	group, primitive string
	bytes            int64
}

// gradientsOf counts in how many passes of an optimizer step each bucket is reduced, and what is exposed behind the last pass.
func (p *Pass) gradientsOf(sub int, g *timeline.GPULedger, r *timeline.Reduced, groups map[string]*commGroup, share func(ns, most int64) float64, limit int64) {
	all := []*Decl{gradReduces, gradPasses, gradRepeat, commTail, commTailExcess}
	steps := optimizerSteps(g)
	if len(steps) == 0 {
		p.missAll(sub, noOptimize, all...)
		return
	}
	passes := passesOf(p, steps)
	p.Set(gradPasses, sub, measured(passes))
	var grads []int // in order of start
	var batch int
	for _, gr := range groups {
		for _, i := range gr.index {
			c := &r.Collectives[i]
			if !reduces(c) || c.Phase != timeline.Backward && c.Phase != timeline.After {
				continue
			}
			if gr.perBatch() {
				batch++
				continue
			}
			grads = append(grads, i)
		}
	}
	slices.Sort(grads)
	var counts []float64
	var tail, repeat parts
	var tails, excess []float64 // ns, by optimizer step
	lo := 0
	for _, s := range steps {
		seen := map[bucketKey]map[int]bool{}
		for lo < len(grads) && r.Collectives[grads[lo]].Start < s.passes[0].Start {
			lo++
		}
		shortest, left := int64(-1), int64(0)
		for k := lo; k < len(grads) && r.Collectives[grads[k]].Start < s.opt; k++ {
			c := &r.Collectives[grads[k]]
			if gr := groups[c.Group]; gr.gradients() {
				pass := sort.Search(len(s.passes), func(i int) bool { return s.passes[i].Start > c.Start }) - 1
				key := bucketKey{c.Group, c.Primitive, c.Bytes}
				if seen[key] == nil {
					seen[key] = map[int]bool{}
				}
				seen[key][pass] = true
				repeat.add(c, ownExposed(c))
			}
			behind := exposedIn(r, c, s.end, s.opt)
			if behind <= 0 {
				continue
			}
			tail.add(c, behind)
			left += behind
			need := c.TransferNS
			if c.Split == timeline.NoConfidence {
				need = int64(c.End - c.Start)
			}
			if c.Bytes > bucketBytes {
				need = int64(float64(need) * bucketBytes / float64(c.Bytes))
			}
			if need = min(need, behind); shortest < 0 || need < shortest {
				shortest = need
			}
		}
		tails, excess = append(tails, float64(left)), append(excess, float64(left-max(0, shortest)))
		var n, bytes float64
		for key, in := range seen {
			b := float64(max(1, key.bytes))
			n, bytes = n+b*float64(len(in)), bytes+b
		}
		if bytes > 0 {
			counts = append(counts, n/bytes)
		}
	}
	// The median step, so that one slow transfer is not taken for the order of the buckets.
	usual := func(x []float64) float64 { return share(int64(median(x)*float64(len(x))), limit) }
	p.Set(commTail, sub, tail.value(r, usual(tails)))
	p.Set(commTailExcess, sub, tail.value(r, usual(excess)))
	n := 0.0
	if len(counts) > 0 {
		n = median(counts)
	}
	v := repeat.value(r, n)
	v.Conf = timeline.Measured
	p.Set(gradReduces, sub, v)
	saved := 0.0
	if n > 1 {
		saved = share(repeat.own, limit) * (n - 1) / n
	}
	p.Set(gradRepeat, sub, repeat.value(r, saved))
}

// exposedIn is the exposed time of a collective inside [a, b), without its share of waiting for a late rank.
func exposedIn(r *timeline.Reduced, c *timeline.Collective, a, b timeline.Time) int64 {
	var in int64
	for _, iv := range r.Exposed[c.Exposed0 : c.Exposed0+c.ExposedN] {
		in += max(0, int64(min(iv.End, b)-max(iv.Start, a)))
	}
	if c.Split == timeline.NoConfidence || in == 0 {
		return in
	}
	// What waits comes first: the transfer ends the kernel.
	moves := c.End - timeline.Time(c.TransferNS)
	return min(in, max(0, int64(min(c.End, b)-max(moves, a))))
}

// unevenOf compares the transfers of one collective at one place in the step over the steps. Only a division that all ranks show counts: a
// single rank takes the shortest for the transfer, and sees no difference.
func (p *Pass) unevenOf(sub int, g *timeline.GPULedger, r *timeline.Reduced, share func(ns, most int64) float64, limit int64) {
	const minSteps = 10
	type place struct {
		key bucketKey
		n   int
	}
	by := map[place][]int{}
	var order []place
	count := map[bucketKey]int{}
	step := int32(-1)
	divided, any := 0, 0
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g || c.Step < 0 || c.Primitive == "send-recv" {
			continue
		}
		any++
		if c.Step != step {
			step = c.Step
			clear(count)
		}
		k := bucketKey{c.Group, c.Primitive, c.Bytes}
		at := place{k, count[k]}
		count[k]++
		if c.Split != timeline.Measured {
			continue
		}
		divided++
		if by[at] == nil {
			order = append(order, at)
		}
		by[at] = append(by[at], i)
	}
	switch {
	case any == 0:
		p.Set(commUneven, sub, measured(0))
		p.Set(commUnevenSave, sub, measured(0))
		return
	case 10*divided < 9*any:
		p.missAll(sub, "how long transfers took is not known for most collectives: it needs the traces of all ranks of a group", commUneven, commUnevenSave)
		return
	case len(g.Steps) < minSteps:
		p.missAll(sub, "fewer than 10 steps were recorded", commUneven, commUnevenSave)
		return
	}
	took, usual := make([]float64, len(g.Steps)), make([]float64, len(g.Steps))
	var x parts
	var compared int
	for _, at := range order {
		list := by[at]
		if 2*len(list) < len(g.Steps) {
			continue
		}
		compared++
		durs := make([]float64, len(list))
		for k, i := range list {
			durs[k] = float64(r.Collectives[i].TransferNS)
		}
		mid := median(durs)
		for k, i := range list {
			c := &r.Collectives[i]
			if int(c.Step) < len(took) {
				took[c.Step] += durs[k]
				usual[c.Step] += mid
			}
			x.add(c, min(int64(durs[k]-mid), c.ExposedTransferNS))
		}
	}
	var ratio []float64
	for i := range took {
		if usual[i] > 0 {
			ratio = append(ratio, took[i]/usual[i])
		}
	}
	if compared == 0 || len(ratio) < minSteps || median(ratio) <= 0 {
		p.missAll(sub, "no collective comes back at the same place in most steps", commUneven, commUnevenSave)
		return
	}
	v := x.value(r, max(0, quantile(ratio, 0.95)/median(ratio)-1))
	v.Conf = timeline.Measured
	p.Set(commUneven, sub, v)
	v.Num = share(x.own, limit)
	p.Set(commUnevenSave, sub, v)
}

// stages finds pipelines: ranks that send to one another.
type stages struct {
	size map[int]int // by rank; nil where not every rank is there
}

func newStages(p *Pass) *stages {
	s := &stages{}
	if p.Job == nil || len(p.Job.Missing) > 0 || p.Job.World > 0 && p.Job.World != len(p.Job.Ranks) {
		return s
	}
	up := map[int]int{}
	var find func(x int) int
	find = func(x int) int {
		if y, ok := up[x]; ok && y != x {
			up[x] = find(y)
			return up[x]
		}
		return x
	}
	for _, r := range p.Job.Ranks {
		if r.Process.Rank < 0 {
			return s
		}
		up[r.Process.Rank] = find(r.Process.Rank)
		for i := range r.Collectives {
			if c := &r.Collectives[i]; c.Primitive == "send-recv" && c.Peer >= 0 {
				up[find(c.Peer)] = find(r.Process.Rank)
			}
		}
	}
	s.size = map[int]int{}
	count := map[int]int{}
	for _, r := range p.Job.Ranks {
		count[find(r.Process.Rank)]++
	}
	for _, r := range p.Job.Ranks {
		s.size[r.Process.Rank] = count[find(r.Process.Rank)]
	}
	return s
}

func (p *Pass) pipelineOf(sub int, g *timeline.GPULedger, r *timeline.Reduced, st *stages, share func(ns, most int64) float64) {
	type peer struct {
		step int32
		peer int
		dir  int8
	}
	var x parts
	var all, group int
	sends := map[peer]int{}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g || c.Primitive != "send-recv" || !inWindow(r, c) || !strings.Contains(strings.ToLower(c.Name), "nccl") && c.Group == "" {
			continue
		}
		all++
		x.add(c, c.ExposedNS)
		if c.GroupSize > 1 && (p.Job.World == 0 || c.GroupSize < p.Job.World) {
			group = max(group, c.GroupSize)
		}
		if c.Step >= 0 && c.Peer >= 0 && c.Dir != 0 {
			sends[peer{c.Step, c.Peer, c.Dir}]++
		}
	}
	v := x.value(r, share(x.own, g.Owners[timeline.CommPeerWait]+g.Owners[timeline.CommTransfer]+g.Owners[timeline.CommUndivided]))
	v.Conf = timeline.Measured // waiting included: nothing is divided
	p.Set(pipeWait, sub, v)
	if all == 0 {
		p.missAll(sub, "no send or receive ran in the window", pipeIdeal)
		p.Set(pipeExcess, sub, measured(0))
		return
	}
	stages := st.size[r.Process.Rank]
	if stages < 2 {
		stages = group
	}
	most := map[int32]int{}
	for k, n := range sends {
		most[k.step] = max(most[k.step], n)
	}
	var per []float64
	for _, n := range most {
		per = append(per, float64(n))
	}
	m := 0.0
	if len(per) > 0 {
		m = median(per)
	} else {
		m = passesOf(p, optimizerSteps(g))
	}
	switch {
	case stages < 2:
		p.missAll(sub, "how many stages the pipeline has is not stated, and not every rank was traced", pipeIdeal, pipeExcess)
	case m < 1:
		p.missAll(sub, "how many micro-batches a step has is not known: neither peers nor backward passes were recorded", pipeIdeal, pipeExcess)
	default:
		ideal := float64(stages-1) / (m + float64(stages-1))
		p.Set(pipeIdeal, sub, Value{Num: ideal, Cover: 1, Conf: timeline.Inferred})
		v.Num, v.Conf = max(0, v.Num-ideal), timeline.Inferred
		p.Set(pipeExcess, sub, v)
	}
}

func (p *Pass) allToAllOf(sub int, g *timeline.GPULedger, r *timeline.Reduced, share func(ns, most int64) float64) {
	var x parts
	var n, known int
	var most, mean float64
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g || c.Primitive != "all-to-all" || !inWindow(r, c) {
			continue
		}
		n++
		x.add(c, c.ExposedNS)
		if c.Splits > 1 && c.SplitSum > 0 {
			known++
			most += float64(c.SplitMax)
			mean += float64(c.SplitSum) / float64(c.Splits)
		}
	}
	v := x.value(r, share(x.own, g.Owners[timeline.CommPeerWait]+g.Owners[timeline.CommTransfer]+g.Owners[timeline.CommUndivided]))
	v.Conf = timeline.Measured
	p.Set(a2aExposed, sub, v)
	switch {
	case n == 0:
		p.Miss(a2aUneven, sub, "no all-to-all ran in the window")
	case 2*known < n:
		p.Miss(a2aUneven, sub, "the sizes of the parts are not recorded: only PyTorch's profiler states them, and shortens lists of more than 30")
	default:
		v.Num, v.Cover = max(0, most/mean-1), float64(known)/float64(n)
		p.Set(a2aUneven, sub, v)
	}
}

func (p *Pass) unusedOf(sub int, r *timeline.Reduced) {
	g := mainGPU(r)
	switch {
	case !r.Rank.Operators:
		p.missAll(sub, "CPU operators were not recorded", rankUnused, rankUnusedSave)
		return
	case g == nil || g.Window.Empty():
		p.missAll(sub, noLedger(g), rankUnused, rankUnusedSave)
		return
	}
	w := float64(g.Window.Dur())
	refs, n := rowRefs(r, r.Rank.UnusedRows)
	v := Value{Num: min(1, float64(r.Rank.UnusedNS)/w), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured}
	p.Set(rankUnused, sub, v)
	idle := g.Owners[timeline.HostLaunch] + g.Owners[timeline.HostCPUOp] + g.Owners[timeline.HostPython]
	v.Num = min(v.Num, float64(idle)/w)
	p.Set(rankUnusedSave, sub, v)
}
