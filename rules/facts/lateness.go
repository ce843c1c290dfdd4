package facts

import (
	"fmt"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

var (
	runCulpritLate = &Decl{ID: "run.culprit_late_p50_s", Unit: unit.Second, Per: Run, Max: 1e6, Capture: "C4",
		Doc: "Median over the steps of how long after the first rank the late one came to the first collective of the step that all share; true to run.clock_error_s."}
	runClockError = &Decl{ID: "run.clock_error_s", Unit: unit.Second, Per: Run, Max: 1e6, Capture: "C4",
		Doc: "Difference between two ranks' arrivals below which nothing is said: three times what is left between the clocks of hosts once their difference is taken off; 0 on one clock."}
	runCulpritSays = &Decl{ID: "run.culprit_says", Unit: unit.Text, Per: Run, Capture: "C4",
		Doc: "Who is late: how often it came last, by how much, and what its own ledger was in meanwhile; or why nobody is named."}
	rankLate = &Decl{ID: "rank.late_p50_s", Unit: unit.Second, Per: Rank, Max: 1e6, Capture: "C4",
		Doc: "Median over the steps of how long after the first rank this one came to the first collective of the step that all share; true to run.clock_error_s."}
	rankLateFrac = &Decl{ID: "rank.late_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Share of the steps in which the rank came later than the middle of all ranks by more than run.clock_error_s and 2 % of a step."}
	rankLastFrac = &Decl{ID: "rank.last_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Share of the steps in which the rank was the last to come to the first collective that all share, and surely so."}
)

// LateRanks asks how late each rank comes to the first collective of a step that all of them share. Missing with one rank, where no
// collective is shared by all, or where the clocks of hosts cannot be compared.
var LateRanks = &Deriver{Name: "late-ranks", After: []*Deriver{Straggler}, Gives: []*Decl{runCulpritLate, runClockError, runCulpritSays, rankLate, rankLateFrac, rankLastFrac}, Run: func(p *Pass) {
	lateRanks(p)
	whoIsLate(p)
}}

func lateRanks(p *Pass) {
	l := &p.Job.Late
	why := ""
	switch {
	case len(p.Job.Ranks) == 0:
		why = noTrace
	case len(p.Job.Ranks) < 2:
		why = "only one rank's trace is here"
	case len(l.Steps) == 0 || len(l.NS) != len(p.Job.Ranks):
		if why = clocksRefused(p.Job); why == "" {
			why = "no collective of a step is shared by all ranks that are here"
		}
	}
	if why != "" {
		p.missAll(0, why, runCulpritLate, runClockError)
		p.eachRank(func(sub int, _ *timeline.Reduced) { p.missAll(sub, why, rankLate, rankLateFrac, rankLastFrac) })
		return
	}
	conf := timeline.Measured
	if len(p.Job.Missing) > 0 || len(l.Steps) < 5 {
		conf = timeline.Inferred
	}
	p.Set(runClockError, 0, Value{Num: float64(l.ErrorNS) / 1e9, Cover: 1, Conf: conf})
	last, late, of := make([]int, len(l.NS)), make([]int, len(l.NS)), make([]int, len(l.NS))
	floor := max(l.ErrorNS, int64(lateStep*medianStep(p.Job)))
	for s := range l.Steps {
		var all []float64
		first, second, who := int64(-1), int64(-1), -1 // the latest two
		for r := range l.NS {
			ns := l.NS[r][s]
			if ns == ledger.NotLate {
				continue
			}
			of[r]++
			all = append(all, float64(ns))
			if ns > first {
				first, second, who = ns, first, r
			} else if ns > second {
				second = ns
			}
		}
		if who >= 0 && second >= 0 && first-second > l.ErrorNS {
			last[who]++
		}
		mid := int64(median(all))
		for r := range l.NS {
			if ns := l.NS[r][s]; ns != ledger.NotLate && ns-mid > floor {
				late[r]++
			}
		}
	}
	culprit, named := p.Get(runCulprit, 0)
	set := false
	r := 0
	p.eachRank(func(sub int, red *timeline.Reduced) {
		i := r
		r++
		if of[i] == 0 {
			p.missAll(sub, "no step shows when it came to a collective that all share", rankLate, rankLateFrac, rankLastFrac)
			return
		}
		var ns []float64
		for _, x := range l.NS[i] {
			if x != ledger.NotLate {
				ns = append(ns, float64(x))
			}
		}
		v := Value{Num: median(ns) / 1e9, Cover: float64(of[i]) / float64(len(l.Steps)), Conf: conf}
		p.Set(rankLate, sub, v)
		if named && int(culprit.Num) == red.Process.Rank && !set {
			p.Set(runCulpritLate, 0, v)
			set = true
		}
		v.Num = float64(late[i]) / float64(of[i])
		p.Set(rankLateFrac, sub, v)
		v.Num = float64(last[i]) / float64(of[i])
		p.Set(rankLastFrac, sub, v)
	})
	if !set {
		why := "no step shows when the late rank came"
		if !named {
			_, need := p.Facts.Get(0, runCulprit.ID)
			why = need.Why
		}
		p.Miss(runCulpritLate, 0, why)
	}
}

// whoIsLate puts into words what is known of the late rank.
func whoIsLate(p *Pass) {
	v, ok := p.Get(runCulprit, 0)
	if !ok {
		_, need := p.Facts.Get(0, runCulprit.ID)
		if len(p.Job.Ranks) < 2 {
			p.Miss(runCulpritSays, 0, need.Why)
			return
		}
		p.Set(runCulpritSays, 0, Value{Text: "nobody is named: " + need.Why, Cover: 1, Conf: timeline.Inferred})
		return
	}
	rank := int(v.Num)
	text := fmt.Sprintf("rank %d", rank)
	for _, r := range p.Job.Ranks {
		if r.Process.Rank == rank && r.Process.Host != "" && len(p.Job.Hosts) > 1 {
			text += " of host " + r.Process.Host
		}
	}
	if share, ok := p.Get(runCulpritShare, 0); ok {
		text += fmt.Sprintf(", last in %.0f %% of them", 100*share.Num)
	}
	if late, ok := p.Get(runCulpritLate, 0); ok {
		text += fmt.Sprintf(", %.2f ms after the first at the first collective of a step", 1e3*late.Num)
		if e, ok := p.Get(runClockError, 0); ok && e.Num > 0 {
			text += fmt.Sprintf(" (true to %.3f ms)", 1e3*e.Num)
		}
	}
	var by timeline.Owners
	var all int64
	for _, w := range p.Job.Waits {
		if w.Culprit == rank {
			by[w.Owner] += w.DurNS
			all += w.DurNS
		}
	}
	most := timeline.UnknownOwner
	for o := range by {
		if by[o] > by[most] {
			most = timeline.Owner(o)
		}
	}
	if most != timeline.UnknownOwner && all > 0 {
		text += fmt.Sprintf("; its ledger has more %s than theirs (%.0f %% of what it came late by)", most, 100*float64(by[most])/float64(all))
	}
	p.Set(runCulpritSays, 0, Value{Text: text, Cover: 1, Conf: v.Conf})
}

// medianStep is the median length of a step over all GPUs, ns.
func medianStep(job *ledger.Job) float64 {
	var all []float64
	for _, r := range job.Ranks {
		if g := mainGPU(r); g != nil {
			for i := range g.Steps {
				all = append(all, float64(g.Steps[i].Dur))
			}
		}
	}
	return median(all)
}

// clocksRefused says why ranks of several hosts are not compared; "" where they are.
func clocksRefused(job *ledger.Job) string {
	for i := range job.Hosts {
		if h := &job.Hosts[i]; h.Refused != "" && len(job.Hosts) > 1 {
			name := h.Host
			if name == "" {
				name = "(not named)"
			}
			return fmt.Sprintf("ranks are not compared with those of host %s: %s", name, h.Refused)
		}
	}
	return ""
}

// JobOwners is the ledger of the job: the owners of all GPUs, in which what was waited for a late rank stands with what held that rank. What
// cannot be charged to anybody's owner stays peer-wait. It sums to the windows of all GPUs.
func JobOwners(job *ledger.Job) timeline.Owners {
	var out timeline.Owners
	for _, r := range job.Ranks {
		for gi := range r.GPUs {
			for o, ns := range r.GPUs[gi].Owners {
				out[o] += ns
			}
		}
	}
	for _, w := range job.Waits {
		if w.Culprit < 0 || w.Owner == timeline.UnknownOwner || w.Owner == timeline.CommPeerWait {
			continue
		}
		ns := min(w.DurNS, out[timeline.CommPeerWait])
		out[timeline.CommPeerWait] -= ns
		out[w.Owner] += ns
	}
	return out
}
