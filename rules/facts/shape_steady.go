package facts

import (
	"fmt"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const perHundred = ", for 100 steps of the analysed ones after the recording's first."

var (
	rankRecompiles = &Decl{ID: "rank.recompiles_count", Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C14",
		Doc: "Compilations of 1 ms and more that begin once the run is warm" + perHundred}
	rankRecompileTime = &Decl{ID: "rank.recompile_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C14",
		Doc: "Host time of those compilations, out of the host's analysed window."}
	rankConvShapes = &Decl{ID: "rank.conv_new_shapes_count", Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C4",
		Doc: "Shapes that convolutions see for the first time" + perHundred}
	rankConvTrials = &Decl{ID: "rank.conv_trials_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Host time in convolutions that tried one algorithm after the other once the run is warm, out of the host's analysed window."}
	rankPhases = &Decl{ID: "rank.model_phases_flag", Unit: unit.Flag, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Whether ranges of the trace name what one of several models, or one of several modes of a model, does in turn: rollout, reward, generator."}
	rankPhaseAll = &Decl{ID: "rank.model_phase_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time inside such ranges, out of the host's analysed window."}
	rankPhaseMost = &Decl{ID: "rank.model_phase_most_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Time of the longest of these phases, out of the host's analysed window."}
	rankPhaseSays = &Decl{ID: "rank.model_phases_says", Unit: unit.Text, Per: Rank, Capture: "C4",
		Doc: "These phases and their shares, longest first."}
)

// Steady: what does a run still do that only warm-up should? It compiles, it meets new shapes, and tries algorithms for them. From
// operators, ranges and frames whose names are compilation, recorded shapes of convolutions, and convolutions that launched many kernels.
// Missing without steps, operators or shapes.
var Steady = &Deriver{
	Name:  "steady",
	Gives: []*Decl{rankRecompiles, rankRecompileTime, rankConvShapes, rankConvTrials, rankPhases, rankPhaseAll, rankPhaseMost, rankPhaseSays},
	Run:   func(p *Pass) { p.eachRank(p.steadyOf) },
}

func (p *Pass) steadyOf(sub int, r *timeline.Reduced) {
	t := &r.Rank
	conv := false
	for i := range r.GPUs {
		for _, k := range r.GPUs[i].Kernels {
			conv = conv || k.Class == "conv"
		}
	}
	say := func(d *Decl, num float64, rows []uint32) {
		refs, n := rowRefs(r, rows)
		p.Set(d, sub, Value{Num: num, Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
	}
	each := 0.0
	if t.SteadySteps > 0 {
		each = 100 / float64(t.SteadySteps)
	}
	switch {
	case len(r.GPUs) == 0 || t.HostWindowNS <= 0:
		p.missAll(sub, "the trace holds no device operation in its window", rankRecompiles, rankRecompileTime, rankConvShapes, rankConvTrials)
	case t.SteadySteps == 0:
		p.missAll(sub, "no step after the first was recorded", rankRecompiles, rankRecompileTime, rankConvShapes, rankConvTrials)
	case !t.Operators && !t.StackFrames:
		p.missAll(sub, "operators, whose names tell compilation and convolutions, were not recorded", rankRecompiles, rankRecompileTime, rankConvShapes, rankConvTrials)
	default:
		say(rankRecompiles, float64(t.Recompiles)*each, t.RecompileRows)
		say(rankRecompileTime, min(1, float64(t.RecompileNS)/float64(t.HostWindowNS)), t.RecompileRows)
		say(rankConvTrials, min(1, float64(t.ConvTrialNS)/float64(t.HostWindowNS)), nil)
		if conv && !t.Convs {
			p.Miss(rankConvShapes, sub, "the shapes of convolutions were not recorded")
		} else {
			say(rankConvShapes, float64(t.ConvNewShapes)*each, t.ConvShapeRows)
		}
	}
	if len(r.GPUs) == 0 || t.HostWindowNS <= 0 {
		p.missAll(sub, "the trace holds no device operation in its window", rankPhases, rankPhaseAll, rankPhaseMost, rankPhaseSays)
		return
	}
	if len(t.ModelPhases) == 0 {
		say(rankPhases, 0, nil)
		p.missAll(sub, "no range of the trace names a phase of a model", rankPhaseAll, rankPhaseMost, rankPhaseSays)
		return
	}
	say(rankPhases, 1, t.ModelPhaseRows)
	var sum int64
	var parts []string
	for _, x := range t.ModelPhases {
		sum += x.NS
		parts = append(parts, fmt.Sprintf("%s %.0f %%", x.Name, 100*min(1, float64(x.NS)/float64(t.HostWindowNS))))
	}
	say(rankPhaseAll, min(1, float64(sum)/float64(t.HostWindowNS)), t.ModelPhaseRows)
	say(rankPhaseMost, min(1, float64(t.ModelPhases[0].NS)/float64(t.HostWindowNS)), t.ModelPhaseRows)
	refs, n := rowRefs(r, t.ModelPhaseRows)
	p.Set(rankPhaseSays, sub, Value{Text: strings.Join(parts, ", "), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
}
