package facts

import (
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	runSpread = &Decl{ID: "run.rank_own_spread_frac", Doc: "Own time of the slowest rank above the ranks' median, out of that median; own time is the step without waiting for peers.",
		Unit: unit.Frac, Per: Run, Max: 1e6, Capture: "C4"}
	runSlowest = &Decl{ID: "run.rank_own_slowest", Doc: "The rank with the longest own time.", Unit: unit.Text, Per: Run, Capture: "C4"}
	runSpreadT = &Decl{ID: "run.save_rank_spread_frac", Doc: "Own time of the slowest rank above the ranks' median, out of step time.",
		Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4"}
	rankOwn = &Decl{ID: "rank.own_p50_s", Doc: "Median over the steps of the step without waiting for peers, on the busiest GPU of the rank.",
		Unit: unit.Second, Per: Rank, Max: 1e7, Capture: "C4"}
)

// RankSpread asks whether one rank needs longer for its own part of the step. Step totals are equal in synchronous training, so they
// say nothing; the own part is the step less its peer-wait. Missing with one rank, without steps, or where more than a twentieth of a
// rank's step is communication that could not be divided.
var RankSpread = &Deriver{Name: "rank-spread", After: []*Deriver{LedgerShares}, Gives: []*Decl{runSpread, runSlowest, runSpreadT, rankOwn}, Run: func(p *Pass) {
	var own, total []float64
	var names []string
	conf := timeline.Measured
	why := ""
	p.eachRank(func(sub int, r *timeline.Reduced) {
		l := mainGPU(r)
		if l == nil || len(l.Steps) == 0 {
			p.Miss(rankOwn, sub, noSteps)
			why = "a rank's trace has no steps"
			return
		}
		if 20*l.Owners[timeline.CommUndivided] > int64(l.Window.Dur()) {
			p.Miss(rankOwn, sub, "its communication could not be divided into waiting and transfer")
			why = "a rank's communication could not be divided into waiting and transfer"
			return
		}
		x, t := make([]float64, len(l.Steps)), make([]float64, len(l.Steps))
		for i, s := range l.Steps {
			x[i], t[i] = float64(s.Dur-s.Owners[timeline.CommPeerWait])/1e9, float64(s.Dur)/1e9
		}
		c := min(stepConf(r), splitConfidence(r))
		if len(l.Steps) < 5 { // one odd step would name a rank
			c = timeline.Hint
		}
		conf = min(conf, c)
		p.Set(rankOwn, sub, Value{Num: median(x), Cover: 1, Conf: c})
		own, total, names = append(own, median(x)), append(total, median(t)), append(names, inWords(p.Facts.Subjects[sub]))
	})
	switch {
	case len(p.Job.Ranks) == 0:
		why = noTrace
	case len(p.Job.Ranks) == 1:
		why = "only one rank was traced, so there is nothing to compare with"
	case why == "" && (median(own) <= 0 || median(total) <= 0):
		why = "the steps have no length"
	}
	if why != "" {
		p.missAll(0, why, runSpread, runSlowest, runSpreadT)
		return
	}
	most := argMax(own)
	over := own[most] - median(own)
	v := Value{Cover: 1, Conf: conf}
	v.Num = over / median(own)
	p.Set(runSpread, 0, v)
	v.Num = min(1, over/median(total))
	p.Set(runSpreadT, 0, v)
	p.Set(runSlowest, 0, Value{Text: names[most], Cover: 1, Conf: conf})
}}

// inWords names a subject in a text fact: rank 5, GPU 0; a process without a number by its id.
func inWords(s Subject) string {
	for _, w := range []struct{ prefix, word string }{{"rank", "rank "}, {"gpu", "GPU "}} {
		if n, ok := strings.CutPrefix(s.ID, w.prefix); ok {
			return w.word + n
		}
	}
	return s.ID
}
