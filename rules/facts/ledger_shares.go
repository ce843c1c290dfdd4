package facts

import (
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// How the run looks: what there is to judge.
var (
	runGPUs   = &Decl{ID: "run.gpus_count", Doc: "GPUs of the report.", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C4"}
	runRanks  = &Decl{ID: "run.ranks_count", Doc: "Training processes whose trace was given.", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C4"}
	runWorld  = &Decl{ID: "run.world_count", Doc: "World size that the traces state, else at least the largest group of a collective; 1 where the only trace knows neither ranks nor collectives.", Unit: unit.Count, Per: Run, Min: 1, Max: 1e6, Capture: "C4"}
	runOps    = &Decl{ID: "run.device_ops_count", Doc: "Device operations in the analysed window of the GPU that has most.", Unit: unit.Count, Per: Run, Max: 1e12, Capture: "C4"}
	runWindow = &Decl{ID: "run.window_s", Doc: "Length of the analysed window of the GPU that has most device operations.", Unit: unit.Second, Per: Run, Max: 1e9, Capture: "C4"}
	runLedger = &Decl{ID: "run.ledgers_count", Doc: "GPUs of the report that have a time ledger.", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C4"}
)

// RunShape asks what was given: GPUs, ranks, world size, and how much the GPUs did.
var RunShape = &Deriver{Name: "run-shape", Gives: []*Decl{runGPUs, runRanks, runWorld, runLedger, runOps, runWindow}, Run: func(p *Pass) {
	p.Set(runGPUs, 0, Value{Num: float64(len(p.Facts.Of(GPU))), Cover: 1, Conf: timeline.Measured})
	p.Set(runRanks, 0, Value{Num: float64(len(p.Job.Ranks)), Cover: 1, Conf: timeline.Measured})
	p.Set(runLedger, 0, Value{Num: float64(len(p.Job.GPUs)), Cover: 1, Conf: timeline.Measured})
	var most *timeline.GPULedger
	for _, ref := range p.Job.GPUs {
		if g := &p.Job.Ranks[ref.Rank].GPUs[ref.GPU]; most == nil || g.Ops > most.Ops {
			most = g
		}
	}
	if most == nil {
		p.missAll(0, noLedgers(p), runOps, runWindow)
	} else {
		p.Set(runOps, 0, measured(float64(most.Ops)))
		p.Set(runWindow, 0, measured(most.Window.Dur().Seconds()))
	}
	group := 0 // the largest that a collective states
	for _, r := range p.Job.Ranks {
		for i := range r.Collectives {
			group = max(group, r.Collectives[i].GroupSize)
		}
	}
	if p.Job.World > 0 {
		p.Set(runWorld, 0, Value{Num: float64(p.Job.World), Cover: 1, Conf: timeline.Measured})
	} else if group > 1 {
		p.Set(runWorld, 0, measured(float64(group))) // at least: that there are others is certain
	} else if len(p.Job.Ranks) == 0 {
		p.Miss(runWorld, 0, noTrace)
	} else if r := p.Job.Ranks[0]; len(p.Job.Ranks) == 1 && len(r.Collectives) == 0 && r.Process.Backend == "" && r.Process.Rank <= 0 {
		p.Set(runWorld, 0, Value{Num: 1, Cover: 1, Conf: timeline.Inferred})
	} else {
		p.Miss(runWorld, 0, "no trace states the world size")
	}
}}

func noLedgers(p *Pass) string {
	if len(p.Job.Ranks) == 0 {
		return noTrace
	}
	return "the trace holds no device operation"
}

// gpuOwner has the share of each ledger owner, by owner.
var gpuOwner = func() (out [timeline.NOwners]*Decl) {
	doc := [timeline.NOwners]string{
		timeline.Compute:         "with a computing kernel on any stream",
		timeline.GapSwitch:       "in gaps of at most 5 us before an operation that was already queued",
		timeline.GapQueuedStall:  "in which the next operation was queued and yet did not start",
		timeline.HostLaunch:      "idle while the launching thread was launching: in API calls or short operators",
		timeline.HostSync:        "idle because a blocking call had drained the queue",
		timeline.HostPython:      "idle while the launching thread had no operator and no API call",
		timeline.HostCPUOp:       "idle under a stretch of at least 100 us inside one CPU operator",
		timeline.HostDescheduled: "idle while the launching thread was off the CPU with nothing to wait for",
		timeline.HostAllocator:   "idle in memory allocation or release calls",
		timeline.HostCompile:     "idle in compilation, module loading or algorithm trials",
		timeline.CopyH2D:         "with nothing but a host-to-device copy running, or the host staging one",
		timeline.CopyD2H:         "with nothing but a device-to-host copy running",
		timeline.CommTransfer:    "in exposed collectives after every rank had arrived",
		timeline.CommUndivided:   "in exposed collectives whose wait and transfer cannot be told apart",
		timeline.UnknownOwner:    "whose owner the trace cannot tell",
		timeline.CommPeerWait:    "in exposed collectives before the last rank had arrived",
		timeline.HostDataloader:  "idle while the host waited for the next batch",
		timeline.HostCheckpoint:  "held by saving a checkpoint",
		timeline.HostValidation:  "idle or copying inside validation",
		timeline.HostLogging:     "held by logging",
		timeline.HostProfiler:    "idle under the profiler's own work",
	}
	for o := range out {
		out[o] = &Decl{ID: ownerFact(timeline.Owner(o)), Doc: "Share of the GPU's analysed window " + doc[o] + ".",
			Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	}
	out[timeline.HostDescheduled].Capture = "C5"
	return out
}()

var (
	gpuBusy = &Decl{ID: "gpu.busy_frac", Doc: "Share of the GPU's analysed window with any device operation running, union over its streams.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuWindow = &Decl{ID: "gpu.window_s", Doc: "Length of the GPU's analysed window: its complete steps, or first to last device operation.",
		Unit: unit.Second, Per: GPU, Max: 1e9, Capture: "C4"}
	gpuMissingEvents = &Decl{ID: "gpu.missing_events_frac",
		Doc:  "Share of the GPU's analysed window where device events are missing: long holes between operations of one graph launch, and all holes with work queued where they are more than 5 %.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C5"}
	gpuValidation = &Decl{ID: "gpu.validation_compute_frac", Doc: "Share of the GPU's analysed window computing inside validation.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuCheckpoint = &Decl{ID: "gpu.checkpoint_compute_frac", Doc: "Share of the GPU's analysed window computing inside a checkpoint.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}

	rankSteps = &Decl{ID: "rank.steps_count", Doc: "Complete steps analysed, warm-up left out; 0 where no step could be found.",
		Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C4"}
	rankStepP50 = &Decl{ID: "rank.step_p50_s", Doc: "Median duration of the analysed steps, on the busiest GPU of the rank.",
		Unit: unit.Second, Per: Rank, Max: 1e7, Capture: "C4"}
	rankHostBusy = &Decl{ID: "rank.host_busy_frac", Doc: "Host time busy without sync waits, out of step time, over all analysed steps.",
		Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4"}
	rankNext = &Decl{ID: "rank.next_frac", Doc: "Time of the main thread inside the loader's next(), out of step time, over all analysed steps.",
		Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4"}
)

// LedgerShares asks who held each GPU's time: the owners of its ledger over its window, and the step and host times of its rank.
// Peer-wait and transfer are inferred where a collective was split from one rank alone. Misses say that there is no trace, no step,
// no host time, or, for Python and CPU operators, that no operators were recorded. Python is inferred
// unless context switches or CPU samples show that the thread ran.
var LedgerShares = &Deriver{
	Name: "ledger-shares",
	Gives: append(append([]*Decl{}, gpuOwner[:]...), gpuBusy, gpuWindow, gpuMissingEvents, gpuValidation, gpuCheckpoint,
		rankSteps, rankStepP50, rankHostBusy, rankNext),
	Run: func(p *Pass) {
		p.eachGPU(func(sub int, _ *Card, l *timeline.GPULedger, r *timeline.Reduced) {
			switch {
			case l == nil:
				p.missAll(sub, noTrace, gpuOwner[:]...)
				p.missAll(sub, noTrace, gpuBusy, gpuWindow, gpuMissingEvents, gpuValidation, gpuCheckpoint)
			case l.Window.Empty():
				p.missAll(sub, "the trace holds no device operation in its window", gpuOwner[:]...)
				p.missAll(sub, "the trace holds no device operation in its window", gpuBusy, gpuWindow, gpuMissingEvents, gpuValidation, gpuCheckpoint)
			default:
				p.ledgerOf(sub, l, r)
			}
		})
		p.eachRank(p.stepTimesOf)
	},
}

func (p *Pass) ledgerOf(sub int, l *timeline.GPULedger, r *timeline.Reduced) {
	w := float64(l.Window.Dur())
	refs, n := ownerRefs(l, r.Path)
	for o := range gpuOwner {
		owner := timeline.Owner(o)
		if (owner == timeline.HostPython || owner == timeline.HostCPUOp) && !r.Rank.Operators && l.Owners[o] == 0 {
			p.Miss(gpuOwner[o], sub, noOperators)
			continue
		}
		if owner == timeline.HostDescheduled && !r.Rank.Switches {
			p.Miss(gpuOwner[o], sub, noSwitches)
			continue
		}
		v := Value{Num: float64(l.Owners[o]) / w, Cover: 1, Refs: refs[o], NRefs: n[o], Conf: timeline.Measured}
		if owner == timeline.HostPython && 2*unseenPython(l) > l.Owners[o] {
			v.Conf = timeline.Inferred
		}
		if owner == timeline.CommPeerWait || owner == timeline.CommTransfer {
			v.Conf = splitConfidence(r)
		}
		p.Set(gpuOwner[o], sub, v)
	}
	p.Set(gpuBusy, sub, measured(float64(l.Busy)/w))
	p.Set(gpuWindow, sub, measured(l.Window.Dur().Seconds()))
	p.Set(gpuMissingEvents, sub, measured(float64(subNS(l, timeline.UnknownOwner, timeline.SubMissingEvents))/w))
	p.Set(gpuValidation, sub, measured(float64(subNS(l, timeline.Compute, timeline.SubValidation))/w))
	p.Set(gpuCheckpoint, sub, measured(float64(subNS(l, timeline.Compute, timeline.SubCheckpoint))/w))
}

func measured(x float64) Value { return Value{Num: x, Cover: 1, Conf: timeline.Measured} }

// unseenPython is the time of host.python in which nothing shows that the thread ran or waited for one that did.
func unseenPython(l *timeline.GPULedger) int64 {
	return subNS(l, timeline.HostPython, timeline.SubNone)
}

func subNS(l *timeline.GPULedger, o timeline.Owner, s timeline.Sub) int64 {
	for _, x := range l.Subs[o] {
		if x.Sub == s {
			return x.NS
		}
	}
	return 0
}

// splitConfidence is the lowest confidence with which the rank's exposed collectives were divided.
func splitConfidence(r *timeline.Reduced) Confidence {
	conf := timeline.Measured
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if c.ExposedNS > 0 && c.Split != timeline.NoConfidence {
			conf = min(conf, c.Split)
		}
	}
	return conf
}

// ownerRefs gives the rows behind the longest segments of each owner, in time order, and how many segments there were.
func ownerRefs(l *timeline.GPULedger, path string) (refs [timeline.NOwners][]Ref, n [timeline.NOwners]int) {
	var top [timeline.NOwners][]timeline.Segment
	for s := range l.Segments.All() {
		if s.Row == 0 {
			continue
		}
		n[s.Owner]++
		t := top[s.Owner]
		switch {
		case len(t) < maxRefs:
			t = append(t, s)
		case s.Dur > t[maxRefs-1].Dur:
			t[maxRefs-1] = s
		default:
			continue
		}
		for i := len(t) - 1; i > 0 && t[i].Dur > t[i-1].Dur; i-- {
			t[i], t[i-1] = t[i-1], t[i]
		}
		top[s.Owner] = t
	}
	for o, t := range top {
		sort.SliceStable(t, func(i, j int) bool { return t[i].Start < t[j].Start })
		for _, s := range t {
			if ref := traceRef(path, s.Row); len(refs[o]) == 0 || refs[o][len(refs[o])-1] != ref {
				refs[o] = append(refs[o], ref)
			}
		}
	}
	return refs, n
}

// mainGPU is the rank's busiest GPU ledger; nil if it drove none.
func mainGPU(r *timeline.Reduced) *timeline.GPULedger {
	var best *timeline.GPULedger
	for i := range r.GPUs {
		if best == nil || r.GPUs[i].Busy > best.Busy {
			best = &r.GPUs[i]
		}
	}
	return best
}

// stepDurs gives the analysed steps' durations in seconds on the rank's busiest GPU.
func stepDurs(r *timeline.Reduced) []float64 {
	l := mainGPU(r)
	if l == nil {
		return nil
	}
	out := make([]float64, len(l.Steps))
	for i := range l.Steps {
		out[i] = float64(l.Steps[i].Dur) / 1e9
	}
	return out
}

const noOperators = "neither operators nor CPU samples were recorded: what the host did between its calls is not known"

const noSteps = "no steps were found in the trace"

func (p *Pass) stepTimesOf(sub int, r *timeline.Reduced) {
	durs := stepDurs(r)
	v := measured(float64(len(durs)))
	v.Conf = timeline.Measured
	p.Set(rankSteps, sub, v)
	if len(durs) == 0 {
		p.missAll(sub, noSteps, rankStepP50, rankHostBusy, rankNext)
		return
	}
	conf := max(r.Steps.Confidence, timeline.Hint)
	p.Set(rankStepP50, sub, Value{Num: median(durs), Cover: 1, Conf: conf})
	share := func(d *Decl, ns []int64, why string) {
		if len(ns) == 0 {
			p.Miss(d, sub, why)
			return
		}
		var part, whole int64
		for i := range min(len(ns), len(durs)) {
			part += ns[i]
			whole += mainGPU(r).Steps[i].Dur
		}
		if whole <= 0 {
			p.Miss(d, sub, "the analysed steps have no length")
			return
		}
		// The host's steps are not exactly the GPU's, so the ratio can pass 1 a little.
		p.Set(d, sub, Value{Num: min(1, float64(part)/float64(whole)), Cover: 1, Conf: conf})
	}
	share(rankHostBusy, r.HostBusy, "the host's side of the steps is not in the trace")
	share(rankNext, r.NextNS, "the host's side of the steps is not in the trace")
}

// median of a list that it leaves as it is; 0 for none.
func median(x []float64) float64 {
	s := append([]float64(nil), x...)
	sort.Float64s(s)
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
