package facts

import (
	"fmt"
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// minSteps is how many steps a spread needs; minPeriodSteps how many make a period more than inferred.
const (
	minSteps       = 20
	minPeriodSteps = 100
)

func stepDecl(id ID, u unit.Unit, lo, hi float64, doc string) *Decl {
	return &Decl{ID: id, Doc: doc, Unit: u, Per: Rank, Min: lo, Max: hi, Capture: "C4"}
}

var (
	runSteps = &Decl{ID: "run.steps_min_count", Doc: "Fewest complete steps of any rank, of its trace or of its training loop's log; 0 without either.", Unit: unit.Count, Per: Run, Max: 1e9, Capture: "C4"}

	rankMarked = stepDecl("rank.step_marks_flag", unit.Flag, 0, 1, "Whether the steps come from marks: the profiler's own, or ranges that the training loop put around them.")
	rankHow    = stepDecl("rank.step_how", unit.Text, 0, 0, "How the steps were found.")

	rankFirst      = stepDecl("rank.step_first_frac", unit.Frac, 0, 1e9, "Duration of the first recorded step out of the median of the analysed ones.")
	rankWarm       = stepDecl("rank.warmup_steps_count", unit.Count, 0, 1e9, "Recorded steps before the first that lies within 10 % of the median.")
	rankWarmExtra  = stepDecl("rank.warmup_extra_s", unit.Second, 0, 1e7, "Time above the median in those first steps, once a run.")
	rankFirstOwner = stepDecl("rank.step_first_owner", unit.Text, 0, 0, "Ledger owner, compute aside, that held most of the first recorded step.")

	rankCV      = stepDecl("rank.step_robust_cv_frac", unit.Frac, 0, 1e6, "1.4826 x median absolute deviation of the steps out of their median.")
	rankCVLeast = stepDecl("rank.step_robust_cv_least_frac", unit.Frac, 0, 1e6, "What that spread is at least in the run that these steps are a sample of, with 95 % confidence, without what one step takes longer and the next shorter.")
	rankJitter  = stepDecl("rank.step_save_jitter_frac", unit.Frac, 0, 1, "Step time above the 10th percentile, out of all step time.")
	rankSlowOwn = stepDecl("rank.step_slow_owner", unit.Text, 0, 0, "Ledger owner that grows most from the median steps to the slowest tenth.")
	rankSlowBy  = stepDecl("rank.step_slow_owner_s", unit.Second, 0, 1e7, "By how much that owner grows, a step.")

	rankOutliers = stepDecl("rank.step_outliers_count", unit.Count, 0, 1e9, "Steps above median + 5 x 1.4826 x MAD and above 1.2 x median, a lasting shift taken off first.")
	rankLost     = stepDecl("rank.step_lost_outliers_frac", unit.Frac, 0, 1, "Time of those steps above the median, out of all step time.")

	rankPeriod     = stepDecl("rank.step_period_count", unit.Count, 2, 1e9, "Steps from one slow step to the next, best of 2 to a quarter of the steps; of a log of every n-th step a multiple of n, which a part of may be the true one.")
	rankPeriodSays = stepDecl("rank.step_period_says", unit.Text, 0, 0, "The period: a number of steps, or a time where it is time that repeats.")
	rankEta        = stepDecl("rank.step_period_eta2_frac", unit.Frac, 0, 1, "Share of the variance of step time that the place in that period explains, less what chance gives to as many places; in a period of time, what being one of its slow steps explains.")
	rankEtaChance  = stepDecl("rank.step_period_chance_frac", unit.Frac, 0, 1, "99th percentile of the same share over shuffled steps.")
	rankExcess     = stepDecl("rank.step_periodic_excess_frac", unit.Frac, 0, 1e6, "Median of the slowest place in the period above the median of the other places, out of it.")
	rankSavePeriod = stepDecl("rank.step_save_periodic_frac", unit.Frac, 0, 1, "Step time by which the places of the period lie above their median, out of all step time.")
	rankMatch      = stepDecl("rank.step_period_match", unit.Text, 0, 0, "Intervals of the run, as the user states them, that equal the period.")

	rankDrift     = stepDecl("rank.step_drift_frac", unit.Frac, -1e6, 1e6, "Theil-Sen slope of step time x number of steps, out of the median, a lasting shift taken off first.")
	rankDriftP    = stepDecl("rank.step_drift_p_frac", unit.Frac, 0, 1, "Two-sided p of Mann-Kendall's trend test, on block medians where neighbouring steps resemble each other.")
	rankSaveDrift = stepDecl("rank.step_save_drift_frac", unit.Frac, 0, 1, "Step time that the drift had added by the end, out of the step time there.")
)

// StepStats asks whether step time is stable: spread, outliers, period, drift, warm-up. It reads the steps of the rank's busiest
// GPU. Missing without steps; spread, outliers, period and drift below 20 of them. From 20 to 99 steps a period is inferred: the
// test against shuffled steps guards it.
var StepStats = &Deriver{Name: "step-stats", After: []*Deriver{LedgerShares},
	Gives: []*Decl{runSteps, rankMarked, rankHow, rankFirst, rankWarm, rankWarmExtra, rankFirstOwner, rankCV, rankCVLeast, rankJitter, rankSlowOwn, rankSlowBy,
		rankOutliers, rankLost, rankPeriod, rankPeriodSays, rankEta, rankEtaChance, rankExcess, rankSavePeriod, rankMatch, rankDrift, rankDriftP, rankSaveDrift},
	Run: func(p *Pass) {
		least := -1
		logs := stepLogs(p.Input)
		p.eachRank(func(sub int, r *timeline.Reduced) {
			x, s := stepDurs(r), p.seriesOfSteps(logs, r)
			if least < 0 || len(s.x) < least {
				least = len(s.x)
			}
			if len(x) == 0 && s.log != nil {
				p.Set(rankHow, sub, Value{Text: "lines of the training loop's own log", Cover: 1, Conf: timeline.Measured})
				p.Set(rankMarked, sub, measured(1))
			} else {
				p.marksOf(sub, r, len(x))
			}
			p.warmupOf(sub, r, x)
			p.spreadOf(sub, s)
		})
		p.Set(runSteps, 0, measured(float64(max(least, 0))))
	}}

var howWords = map[string]string{
	"ProfilerStep": "found by the profiler's step marks", "step-range": "found by the ranges that the training loop put around them", "annotation": "found by a repeating annotation",
	"kernel-sequence": "found by the repeating sequence of kernels",
	"none":            "none was found, so the ledger runs from the first to the last device operation",
}

func (p *Pass) marksOf(sub int, r *timeline.Reduced, n int) {
	how := r.Steps.How
	if how == "" || n == 0 {
		how = "none"
	}
	text, ok := howWords[how]
	if !ok {
		text = how
	}
	if r.Steps.Name != "" && (how == "annotation" || how == "step-range") {
		text += " (" + r.Steps.Name + ")"
	}
	p.Set(rankHow, sub, Value{Text: text, Cover: 1, Conf: timeline.Measured})
	flag := 0.0
	if how == "ProfilerStep" || how == "step-range" {
		flag = 1
	}
	p.Set(rankMarked, sub, measured(flag))
}

// counted is a number and what it counts: 1 step, 2 steps.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func stepConf(r *timeline.Reduced) Confidence { return max(r.Steps.Confidence, timeline.Hint) }

func (p *Pass) warmupOf(sub int, r *timeline.Reduced, x []float64) {
	all := []*Decl{rankFirst, rankWarm, rankWarmExtra}
	med := median(x)
	switch {
	case len(x) == 0 || len(r.Steps.All) == 0:
		p.missAll(sub, noSteps, all...)
	case len(r.Steps.All) < 4:
		p.missAll(sub, fmt.Sprintf("only %s in the recording", counted(len(r.Steps.All), "step")), all...)
	case med <= 0:
		p.missAll(sub, "the steps have no length", all...)
	default:
		v := Value{Cover: 1, Conf: stepConf(r)}
		v.Num = r.Steps.All[0].Seconds() / med
		p.Set(rankFirst, sub, v)
		n, extra := 0, 0.0
		for n < len(r.Steps.All) && r.Steps.All[n].Seconds() > 1.1*med {
			extra += r.Steps.All[n].Seconds() - med
			n++
		}
		v.Num = float64(n)
		p.Set(rankWarm, sub, v)
		v.Num = extra
		p.Set(rankWarmExtra, sub, v)
	}
	best := timeline.Compute
	for o := timeline.Compute + 1; o < timeline.NOwners; o++ {
		if r.Steps.FirstOwners[o] > 0 && (best == timeline.Compute || r.Steps.FirstOwners[o] > r.Steps.FirstOwners[best]) {
			best = o
		}
	}
	if best == timeline.Compute {
		p.Miss(rankFirstOwner, sub, "the ledger of the first recorded step is not known")
	} else {
		p.Set(rankFirstOwner, sub, Value{Text: best.String(), Cover: 1, Conf: stepConf(r)})
	}
}

func (p *Pass) spreadOf(sub int, s stepSeries) {
	if s.why != "" {
		p.missAll(sub, s.why, rankCV, rankCVLeast, rankJitter, rankSlowOwn, rankSlowBy, rankOutliers, rankLost, rankPeriod, rankPeriodSays, rankEta, rankEtaChance, rankExcess,
			rankSavePeriod, rankMatch, rankDrift, rankDriftP, rankSaveDrift)
		return
	}
	x := s.x
	byLen := byLength(x)
	v := Value{Cover: 1, Conf: s.conf, Refs: s.refs(byLen[len(byLen)-min(maxRefs, len(byLen)):]), NRefs: len(x)}
	num := func(f float64) Value { o := v; o.Num = f; return o }

	sum := 0.0
	for _, f := range x {
		sum += f
	}
	p.Set(rankCV, sub, num(ledger.RobustCV(x)))
	p.Set(rankCVLeast, sub, num(ledger.RobustCVLeast(x)))
	low, above := quantile(x, 0.1), 0.0
	for _, f := range x {
		above += max(0, f-low)
	}
	p.Set(rankJitter, sub, num(above/sum))
	switch l := mainGPU(s.red); {
	case s.gpu != nil:
		p.slowOwner(sub, s.gpu, byLen, v)
	case l != nil && len(l.Steps) >= minSteps && slowBy(stepDurs(s.red)) < slowBy(x)/2:
		p.missAll(sub, "no traced step is as slow as those of the log are", rankSlowOwn, rankSlowBy)
	case l != nil && len(l.Steps) >= minSteps:
		p.slowOwner(sub, l, byLength(stepDurs(s.red)), Value{Cover: 1, Conf: stepConf(s.red)})
	default:
		p.missAll(sub, "which owner grows is known for traced steps only", rankSlowOwn, rankSlowBy)
	}

	level := s.level()
	out, lost := ledger.Outliers(level)
	o := v
	o.Refs, o.NRefs = s.refs(out), len(out)
	o.Num = float64(len(out))
	p.Set(rankOutliers, sub, o)
	o.Num = lost
	p.Set(rankLost, sub, o)

	p.periodOf(sub, s, level, v)

	drift, pv := ledger.Trend(level)
	p.Set(rankDrift, sub, num(drift))
	p.Set(rankDriftP, sub, num(pv))
	p.Set(rankSaveDrift, sub, num(max(0, drift)/(1+max(0, drift))))
}

// byLength gives the indices of x from the shortest to the longest.
func byLength(x []float64) []int {
	out := make([]int, len(x))
	for i := range out {
		out[i] = i
	}
	sort.SliceStable(out, func(i, j int) bool { return x[out[i]] < x[out[j]] })
	return out
}

// slowBy is how much longer the slowest tenth takes than the median.
func slowBy(x []float64) float64 { return quantile(x, 0.95)/median(x) - 1 }

// slowOwner compares the mean ledger of the slowest tenth with that of the middle fifth.
func (p *Pass) slowOwner(sub int, l *timeline.GPULedger, byLen []int, v Value) {
	n := len(byLen)
	tenth := max(1, n/10)
	meanOf := func(steps []int, o timeline.Owner) float64 {
		t := int64(0)
		for _, i := range steps {
			t += l.Steps[i].Owners[o]
		}
		return float64(t) / float64(len(steps)) / 1e9
	}
	slow, mid := byLen[n-tenth:], byLen[n/2-tenth:n/2+tenth]
	best, grow := timeline.NOwners, 0.0
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		if d := meanOf(slow, o) - meanOf(mid, o); d > grow {
			best, grow = o, d
		}
	}
	if best == timeline.NOwners {
		p.missAll(sub, "no owner grows in the slow steps", rankSlowOwn, rankSlowBy)
		return
	}
	v.Text = best.String()
	p.Set(rankSlowOwn, sub, v)
	v.Text, v.Num = "", grow
	p.Set(rankSlowBy, sub, v)
}

// stepRefs names the first decided row of each step, in time order.
func stepRefs(l *timeline.GPULedger, path string, steps []int) (out []Ref) {
	steps = append([]int(nil), steps...)
	sort.Ints(steps)
	for _, i := range steps {
		if row := firstRow(l, l.Steps[i]); row != 0 {
			out = append(out, traceRef(path, row))
		}
	}
	return out
}

func firstRow(l *timeline.GPULedger, s timeline.StepRow) uint32 {
	for g := range l.Segments.From(s.Start) {
		if g.Start >= s.Start+timeline.Time(s.Dur) {
			break
		}
		if g.Start >= s.Start && g.Row != 0 {
			return g.Row
		}
	}
	return 0
}

func (p *Pass) periodOf(sub int, s stepSeries, x []float64, v Value) {
	const explains = 0.5 // of the variance: enough to look no further
	per := ledger.Period(x)
	if per.K == 0 || per.Eta2 < explains || per.Eta2 <= per.Threshold {
		if r := s.repeats(); r.seconds > 0 {
			p.periodInTime(sub, s, r, v)
			return
		}
		if s.every() > 1 {
			p.missAll(sub, fmt.Sprintf("the training loop logs every %d steps: what repeats within them cannot be seen, and nothing longer repeats", s.every()),
				rankPeriod, rankPeriodSays, rankEta, rankEtaChance, rankExcess, rankSavePeriod, rankMatch)
			return
		}
	}
	if per.K == 0 {
		p.missAll(sub, "the steps do not differ by their place in any period", rankPeriod, rankPeriodSays, rankExcess, rankSavePeriod, rankMatch)
		v.Num = 0
		p.Set(rankEta, sub, v)
		p.Set(rankEtaChance, sub, v)
		return
	}
	if len(x) < minPeriodSteps {
		v.Conf = min(v.Conf, timeline.Inferred)
	}
	num := func(f float64) Value { o := v; o.Num = f; return o }
	steps := float64(per.K * max(1, s.every()))
	p.Set(rankPeriod, sub, num(steps))
	says := v
	says.Text = fmt.Sprintf("%.0f steps", steps)
	p.Set(rankPeriodSays, sub, says)
	p.Set(rankEta, sub, num(per.Eta2))
	p.Set(rankEtaChance, sub, num(max(0, per.Threshold)))
	p.Set(rankExcess, sub, num(max(0, per.Excess)))
	p.Set(rankSavePeriod, sub, num(per.Lost))
	var names []string
	for _, iv := range intervals {
		if n, ok := stated(p.Input.Set, iv.key); ok && n == steps {
			names = append(names, iv.name)
		}
	}
	if s.log.epochLength() == steps {
		names = append(names, "epoch")
	}
	if len(names) > 0 {
		v.Text = join(names, ", ")
		p.Set(rankMatch, sub, v)
	} else {
		p.Miss(rankMatch, sub, "neither an interval that --set states nor a logged epoch equals the period")
	}
}
