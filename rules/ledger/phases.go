package ledger

import (
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// phaseOf says which part of the step launched an op: backward by the operator around the launch or by autograd's own thread, the
// optimizer by its mark. Everything else is Forward until phases looks at what follows.
func (r *reducer) phaseOf(op *devOp) timeline.Phase {
	if op.rec < 0 {
		return timeline.NoPhase
	}
	a := r.aroundOf(op.rec)
	switch {
	case a.opt >= 0 || op.class == ClassOptimizer:
		return timeline.Optimizer
	case a.flags&recBackward != 0, int(a.thread) != r.main && r.threads[a.thread].backward:
		return timeline.Backward
	}
	return timeline.Forward
}

// phases gives the runs of kernels of one phase on one stream, which are in the order of their launches. What comes between backward and
// the optimizer is After. Nothing is given where no backward was seen: then what is no optimizer could be either.
func (r *reducer) phases(d *device, stream int) []timeline.PhaseRun {
	sp := &r.tl.Spans
	var runs []timeline.PhaseRun
	seen := false
	for i := range d.ops {
		op := &d.ops[i]
		if int(op.stream) != stream || op.layer != layerCompute || sp.Kind[op.span] != timeline.KindKernel {
			continue
		}
		ph := r.phaseOf(op)
		if ph == timeline.NoPhase {
			continue
		}
		seen = seen || ph == timeline.Backward
		if n := len(runs); n > 0 && runs[n-1].Phase == ph {
			runs[n-1].End = max(runs[n-1].End, sp.End[op.span])
			continue
		}
		runs = append(runs, timeline.PhaseRun{Phase: ph, Start: sp.Start[op.span], End: sp.End[op.span]})
	}
	if !seen {
		return nil
	}
	for i := 1; i+1 < len(runs); i++ {
		if runs[i].Phase == timeline.Forward && runs[i-1].Phase == timeline.Backward && runs[i+1].Phase == timeline.Optimizer {
			runs[i].Phase = timeline.After
		}
	}
	return runs
}

// phaseOfComm is the phase of a collective. One that neither backward nor the optimizer launched is After where it was launched between
// the last backward and the optimizer, which the host's order tells.
func (r *reducer) phaseOfComm(op *devOp, launches []phaseLaunch) timeline.Phase {
	ph := r.phaseOf(op)
	if ph != timeline.Forward {
		return ph
	}
	at := r.tl.Spans.Start[r.recs[op.rec].span]
	i := sort.Search(len(launches), func(i int) bool { return launches[i].at > at })
	if i > 0 && i < len(launches) && between(launches[i-1].phase, launches[i].phase) {
		return timeline.After
	}
	return ph
}

func between(a, b timeline.Phase) bool {
	return (a == timeline.Backward || a == timeline.After) && (b == timeline.Optimizer || b == timeline.After)
}

// phaseLaunch is when the host first launched a run of one phase.
type phaseLaunch struct {
	at    timeline.Time
	phase timeline.Phase
}

// launchesOf gives the first and the last launch of each run of one phase on a stream, by time.
func (r *reducer) launchesOf(d *device, stream int) []phaseLaunch {
	sp := &r.tl.Spans
	var out []phaseLaunch
	same := false // the last two are of one run
	for i := range d.ops {
		op := &d.ops[i]
		if int(op.stream) != stream || op.layer != layerCompute || op.rec < 0 || sp.Kind[op.span] != timeline.KindKernel {
			continue
		}
		l := phaseLaunch{sp.Start[r.recs[op.rec].span], r.phaseOf(op)}
		n := len(out)
		switch {
		case n > 0 && out[n-1].at > l.at: // another thread's
		case n > 0 && out[n-1].phase == l.phase && same:
			out[n-1] = l
		default:
			same = n > 0 && out[n-1].phase == l.phase
			out = append(out, l)
		}
	}
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && out[j].phase == out[i].phase {
			j++
		}
		if i > 0 && j < len(out) && out[i].phase == timeline.Forward && out[i-1].phase == timeline.Backward && out[j].phase == timeline.Optimizer {
			for k := i; k < j; k++ {
				out[k].phase = timeline.After
			}
		}
		i = j
	}
	return out
}

// splits reads how an all-to-all shares out what its rank sends. An empty list is equal parts; an abbreviated one is not known.
func splits(c *timeline.Collective, text string, elems int64) {
	text = strings.TrimSpace(text)
	n := int64(c.GroupSize)
	switch {
	case text == "[]" && n > 0 && elems > 0:
		c.Splits, c.SplitMax, c.SplitSum = int32(n), (elems+n-1)/n, elems
	case len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']':
		var got int32
		var most, sum int64
		for _, f := range parseRanks(text) {
			got++
			most, sum = max(most, int64(f)), sum+int64(f)
		}
		if got > 0 && (n == 0 || n == int64(got)) {
			c.Splits, c.SplitMax, c.SplitSum = got, most, sum
		}
	}
}
