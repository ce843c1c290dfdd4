package facts

import (
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// minGap is the length up to which a gap is the hardware's own switch from one operation to the next: queued neighbours on one
// stream of an A100 start 1.2 us (p50) and 4.5 us (p99) apart.
const minGap = 5000 // ns

var (
	gpuIdle = &Decl{ID: "gpu.idle_frac", Doc: "Share of the GPU's analysed window in gaps longer than 5 us with no device operation on any stream; " +
		"from sampled logs alone, the share of samples below 10 % utilisation.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveLoader = &Decl{ID: "gpu.save_dataloader_frac",
		Doc:  "Step time that a faster loader could return at most: the wait for data, but no more than what GPU work and the rest of the host leave.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveSync = &Decl{ID: "gpu.save_sync_frac",
		Doc:  "Step time that removing blocking calls could return at most: their gaps, but no more than what GPU work and host work leave.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuHostBound = &Decl{ID: "gpu.host_bound_frac", Doc: "Share of the GPU's analysed window idle for its host: launches, syncs, Python, CPU operators, " +
		"allocator, compilation, a descheduled thread.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuCheckpointAll = &Decl{ID: "gpu.checkpoint_frac", Doc: "Share of the GPU's time that checkpoints took, the pause and the work on the GPU inside it: " +
		"of the interval between them if --set save_every states it, else of the analysed window.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuEvalLog = &Decl{ID: "gpu.eval_log_frac", Doc: "Share of the GPU's time that validation and logging took, the pauses and the work on the GPU inside them: " +
		"of the interval between them if --set eval_every and log_every state it, else of the analysed window.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	rankAllocCalls = &Decl{ID: "rank.alloc_calls_per_step_count", Doc: "Allocator calls (cudaMalloc, cudaFree and their kin), or allocations and releases that the profiler saw, per step after the first analysed step.",
		Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C4"}
	rankSyncCalls = &Decl{ID: "rank.sync_calls_per_step_count", Doc: "Blocking calls per analysed step.", Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C4"}
	rankSyncIn    = &Decl{ID: "rank.sync_frac", Doc: "Host time inside blocking calls, out of the analysed window; most of it may be plain waiting for GPU work.",
		Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4"}
	rankOverhead = &Decl{ID: "rank.profiler_overhead_frac", Doc: "Time of the profiler's own work on the host, out of the analysed window.",
		Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4"}
	rankOpsPerStep = &Decl{ID: "rank.ops_per_step_count", Doc: "Device operations per analysed step, on the busiest GPU of the rank.",
		Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C4"}
)

// IdleSavings asks what a fix of each gap owner could return. T is step time, B the GPU's busy share, H the host's busy share
// without sync waits; a fix of the loader saves min(X, T-max(B, H-next)), of syncs min(X, T-max(B, H)), time-ledger section 3.
// Without the host's side of the steps the loader's saving is bounded by the busy GPU alone and inferred; that of syncs is Missing.
var IdleSavings = &Deriver{
	Name:  "idle-savings",
	After: []*Deriver{LedgerShares, SampledUtil},
	Gives: []*Decl{gpuIdle, gpuSaveLoader, gpuSaveSync, gpuHostBound, gpuCheckpointAll, gpuEvalLog,
		rankAllocCalls, rankSyncCalls, rankSyncIn, rankOverhead, rankOpsPerStep},
	Run: func(p *Pass) {
		p.eachGPU(p.idleOf)
		p.eachRank(p.hostCallsOf)
	},
}

// othersWork tells whether another GPU was traced, or was seen at work.
func (p *Pass) othersWork(sub int) bool {
	for _, other := range p.Facts.Of(GPU) {
		if _, ok := p.Get(gpuBusy, other); ok && other != sub {
			return true
		}
		if low, ok := p.Get(gpuUtilLow, other); ok && other != sub && low.Num < 1 {
			return true
		}
	}
	return false
}

func (p *Pass) idleOf(sub int, _ *Card, l *timeline.GPULedger, _ *timeline.Reduced) {
	busyV, ok := p.Get(gpuBusy, sub)
	if !ok {
		why := noTrace
		if l != nil {
			why = "the trace holds no device operation in its window"
		}
		p.missAll(sub, why, gpuSaveLoader, gpuSaveSync, gpuHostBound, gpuCheckpointAll, gpuEvalLog)
		if n, ok := p.Get(gpuSamples, sub); ok && n.Num < minSamples {
			p.Miss(gpuIdle, sub, why+", and "+tooFew(int(n.Num)))
		} else if low, ok := p.Get(gpuUtilLow, sub); ok && low.Num == 1 && p.othersWork(sub) {
			p.Miss(gpuIdle, sub, "nothing ran on it while it was sampled, and others did the work: the run does not use it, as far as is known")
		} else if ok {
			low.Conf = timeline.Hint
			p.Set(gpuIdle, sub, low)
		} else {
			p.Miss(gpuIdle, sub, why)
		}
		return
	}
	w := float64(l.Window.Dur())
	p.Set(gpuIdle, sub, measured(max(0, float64(int64(l.Window.Dur())-l.Busy-shortGaps(l))/w)))

	share := func(o timeline.Owner) Value { v, _ := p.Get(gpuOwner[o], sub); return v }
	sum := func(owners ...timeline.Owner) (s float64) {
		for _, o := range owners {
			s += share(o).Num
		}
		return s
	}
	busy := busyV.Num
	host, hostOK := p.Get(rankHostBusy, sub)
	next, nextOK := p.Get(rankNext, sub)

	loader := share(timeline.HostDataloader)
	if hostOK && nextOK {
		loader.Num = min(loader.Num, max(0, 1-max(busy, host.Num-next.Num)))
		loader.Conf = min(loader.Conf, host.Conf)
	} else {
		loader.Num = min(loader.Num, 1-busy)
		loader.Conf = timeline.Inferred
	}
	p.Set(gpuSaveLoader, sub, loader)

	sync := share(timeline.HostSync)
	if hostOK {
		sync.Num = min(sync.Num, max(0, 1-max(busy, host.Num)))
		sync.Conf = min(sync.Conf, host.Conf)
		p.Set(gpuSaveSync, sub, sync)
	} else {
		p.Miss(gpuSaveSync, sub, "the trace does not show how long the host works in a step")
	}
	p.Set(gpuHostBound, sub, measured(sum(timeline.HostLaunch, timeline.HostSync, timeline.HostPython, timeline.HostCPUOp,
		timeline.HostDescheduled, timeline.HostAllocator, timeline.HostCompile)))

	work := func(d *Decl) float64 { v, _ := p.Get(d, sub); return v.Num * w }
	hold := func(o timeline.Owner) float64 { return float64(l.Owners[o]) }
	ck := share(timeline.HostCheckpoint)
	ck.Num, ck.Conf = p.ofInterval(l, timeline.HostCheckpoint, hold(timeline.HostCheckpoint)+work(gpuCheckpoint), "save_every")
	p.Set(gpuCheckpointAll, sub, ck)
	ev, lg := share(timeline.HostValidation), share(timeline.HostLogging)
	ev.Refs = append(append([]Ref(nil), ev.Refs...), lg.Refs...)
	ev.NRefs += lg.NRefs
	ev.Num, ev.Conf = p.ofInterval(l, timeline.HostValidation, hold(timeline.HostValidation)+work(gpuValidation), "eval_every")
	lg.Num, lg.Conf = p.ofInterval(l, timeline.HostLogging, hold(timeline.HostLogging), "log_every")
	ev.Num, ev.Conf = min(1, ev.Num+lg.Num), min(ev.Conf, lg.Conf)
	p.Set(gpuEvalLog, sub, ev)
}

// ofInterval is the share that interruptions of ns in all take: of the window, or, where the user states every how many steps they
// come, of that interval. A capture around one save would else charge the whole run for it.
func (p *Pass) ofInterval(l *timeline.GPULedger, o timeline.Owner, ns float64, key string) (float64, Confidence) {
	every, ok := stated(p.Input.Set, key)
	n := 0.0
	durs := make([]float64, len(l.Steps))
	for i := range l.Steps {
		durs[i] = float64(l.Steps[i].Dur)
		if l.Steps[i].Owners[o] > 0 {
			n++
		}
	}
	if step := median(durs); ok && n > 0 && step > 0 {
		return ns / n / (every*step + ns/n), timeline.Inferred
	}
	return min(1, ns/float64(l.Window.Dur())), timeline.Measured
}

// shortGaps is the time in ns of gaps of at most minGap, whoever owns them.
func shortGaps(l *timeline.GPULedger) (ns int64) {
	var gap int64
	flush := func() {
		if gap <= minGap {
			ns += gap
		}
		gap = 0
	}
	for s := range l.Segments.All() {
		if gapOwner(s.Owner) {
			gap += s.Dur
		} else {
			flush()
		}
	}
	flush()
	return ns
}

// gapOwner tells whether an owner holds time in which the device had nothing to run.
func gapOwner(o timeline.Owner) bool {
	switch o {
	case timeline.Compute, timeline.CommPeerWait, timeline.CommTransfer, timeline.CommUndivided, timeline.CopyH2D, timeline.CopyD2H:
		return false
	}
	return true
}

func (p *Pass) hostCallsOf(sub int, r *timeline.Reduced) {
	l := mainGPU(r)
	if l == nil || l.Window.Empty() {
		p.missAll(sub, "the trace holds no device operation", rankAllocCalls, rankSyncCalls, rankSyncIn, rankOverhead, rankOpsPerStep)
		return
	}
	w := float64(l.Window.Dur())
	p.Set(rankSyncIn, sub, measured(min(1, float64(r.Rank.SyncNS)/w)))
	p.Set(rankOverhead, sub, measured(min(1, float64(r.Rank.OverheadNS)/w)))
	n := float64(len(l.Steps))
	if n == 0 {
		p.missAll(sub, noSteps, rankAllocCalls, rankSyncCalls, rankOpsPerStep)
		return
	}
	p.Set(rankSyncCalls, sub, measured(float64(r.Rank.SyncCalls)/n))
	p.Set(rankOpsPerStep, sub, measured(float64(l.Ops)/n))
	if n < 2 {
		p.Miss(rankAllocCalls, sub, "only one step was analysed, and allocation is normal in the first")
		return
	}
	calls := max(r.Rank.AllocCalls, r.Rank.MemoryAllocs+r.Rank.MemoryFrees) // a trace may hold either
	p.Set(rankAllocCalls, sub, Value{Num: float64(calls) / (n - 1), Cover: 1, Conf: timeline.Measured, Refs: callRefs(r, "cudaMalloc", "cudaFree")})
}

// callRefs gives the first rows of the named host calls.
func callRefs(r *timeline.Reduced, names ...string) (out []Ref) {
	for _, c := range r.Rank.Calls {
		for _, name := range names {
			if c.Name != name {
				continue
			}
			for _, row := range c.Rows {
				if len(out) < maxRefs {
					out = append(out, traceRef(r.Path, row))
				}
			}
		}
	}
	return out
}
