package facts

import (
	"fmt"
	"sort"
)

// Catalogue lists every deriver, one a line. Order is for the reader; Derive runs each after those it names in After.
var Catalogue = []*Deriver{
	// Subjects and the time ledger.
	RunShape,
	LedgerShares,
	// Stage step.
	StepStats,
	StepLevels,
	RankSpread,
	// Stage idle.
	IdleSavings,
	LaunchSaving,
	// Sampled logs, stages idle and hw.
	SampledUtil,
	Sawtooth,
	CrossGPU,
	Beat,
	Pauses,
	MainThread,
	// The host, stages data and hw.
	HostLoad,
	SystemView,
	Respawn,
	CoSignals,
	// Stage hw.
	Throttle,
	ThrottleSteps,
	Clocks,
	PCIeLink,
	GPULost,
	Xids,
	ECC,
	PowerLimit,
	Replays,
	NVLink,
	NUMA,
	SharedGPU,
	GPUSlow,
	// Stage data.
	Loader,
	Copies,
	PageableSaving,
	// Stage kernel.
	KernelMix,
	TensorSaving,
	KernelWork,
	MeasuredKernels,
	MFU,
	UnknownReasons,
	Counters,
	Gemm,
	// Sums of a profiler where no trace is.
	Totals,
	// Stage comm.
	Comm,
	CommSpeed,
	CommSaving,
	CommPhases,
	CommPaths,
	Flight,
	Ports,
	Straggler,
	LateSaving,
	LateRanks,
	LateCard,
	// Stage shape.
	Shapes,
	Steady,
	Tokens,
}

// Decls gives every declared fact, by ID.
func Decls() []*Decl {
	var out []*Decl
	for _, d := range Catalogue {
		out = append(out, d.Gives...)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// Derive computes every fact of the catalogue. The errors are bugs of derivers: a fact left unsaid, or a value out of its legal
// range; such facts are Missing in the set.
func Derive(in *Input) (*Set, []error) {
	set := NewSet(Subjects(in), Decls())
	p := &Pass{Input: in, Facts: set}
	for _, d := range inOrder(Catalogue) {
		d.Run(p)
		for _, decl := range d.Gives {
			for _, sub := range set.Of(decl.Per) {
				if set.Missing(sub, decl.ID) {
					p.Errs = append(p.Errs, fmt.Errorf("deriver %s: %s of %s: neither set nor missed", d.Name, decl.ID, set.Subjects[sub].ID))
					p.Miss(decl, sub, "it was not derived; report this as a bug")
				}
			}
		}
	}
	p.blameSummaries()
	return set, p.Errs
}

// inOrder puts each deriver after those it depends on and keeps the list's order else. It panics on a cycle and on a dependency
// that is not in the list.
func inOrder(list []*Deriver) []*Deriver {
	listed := map[*Deriver]bool{}
	for _, d := range list {
		listed[d] = true
	}
	const open, done = 1, 2
	state := map[*Deriver]int{}
	var out []*Deriver
	var visit func(d *Deriver)
	visit = func(d *Deriver) {
		if !listed[d] {
			panic("deriver not in the catalogue: " + d.Name)
		}
		switch state[d] {
		case done:
			return
		case open:
			panic("derivers depend on each other in a circle: " + d.Name)
		}
		state[d] = open
		for _, before := range d.After {
			visit(before)
		}
		state[d] = done
		out = append(out, d)
	}
	for _, d := range list {
		visit(d)
	}
	return out
}
