package facts

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// stepLog is what a training loop logged of its steps: one of its own, or of each n-th the mean since the line before.
type stepLog struct {
	track  timeline.TrackID
	path   string
	rank   int       // -1 not stated
	sec    []float64 // a step, s
	at     []timeline.Time
	number []float64 // steps as the log numbers them; nil where lines differ
	epoch  []float64 // nil where lines do not state it
	tokens []float64
	row    []uint32
	every  int
	placed bool
}

// stepLogs lists the step logs of the input by path, then rank.
func stepLogs(in *Input) []*stepLog {
	var out []*stepLog
	for i := range in.Base.Series {
		s := &in.Base.Series[i]
		if s.Metric.Name != timeline.StepTime.Name || len(s.At) < 2 {
			continue
		}
		tr := in.Base.Tracks[s.Track]
		l := &stepLog{track: s.Track, path: in.Base.Sources[tr.Source].Path, rank: int(tr.Thread), sec: s.Value, at: s.At, row: s.Row, every: 1, placed: placed(in.Base, s)}
		same := func(m timeline.Metric) []float64 {
			for k := range in.Base.Series {
				if o := &in.Base.Series[k]; o.Track == s.Track && o.Metric.Name == m.Name && slices.Equal(o.At, s.At) {
					return o.Value
				}
			}
			return nil
		}
		l.number, l.epoch, l.tokens = same(timeline.StepNumber), same(timeline.StepEpoch), same(timeline.StepTokens)
		for _, a := range in.Base.Attrs {
			if a.Track == s.Track && a.Name == timeline.AttrStepEvery {
				l.every = int(a.Value)
			}
		}
		out = append(out, l)
	}
	sort.SliceStable(out, func(i, j int) bool {
		return out[i].path < out[j].path || out[i].path == out[j].path && out[i].rank < out[j].rank
	})
	return out
}

// logOf is the step log that speaks for a traced rank: its own, else the only one that states no rank; nil none.
func logOf(logs []*stepLog, rank int) *stepLog {
	var nobodys []*stepLog
	for _, l := range logs {
		if l.rank == rank && rank >= 0 {
			return l
		}
		if l.rank < 0 {
			nobodys = append(nobodys, l)
		}
	}
	if len(nobodys) == 1 {
		return nobodys[0]
	}
	return nil
}

// loopOf is a rank that only its step log shows, as a reduction without anything in it.
func loopOf(l *stepLog) *timeline.Reduced {
	return &timeline.Reduced{Path: l.path, Process: timeline.Process{Rank: l.rank}, NoLedger: noTrace}
}

// refs names lines of the log.
func (l *stepLog) refs(at []int) (out []Ref) {
	at = slices.Clone(at)
	sort.Ints(at)
	for _, i := range at[:min(len(at), maxRefs)] {
		out = append(out, Ref{Path: l.path, Row: uint64(l.row[i])})
	}
	return out
}

// effect is how much of the variance of step time the number of tokens explains, and the step times without it.
func (l *stepLog) effect() (r2 float64, without []float64) {
	if l.tokens == nil {
		return 0, nil
	}
	n := float64(len(l.sec))
	var mx, my float64
	for i := range l.sec {
		mx += l.tokens[i] / n
		my += l.sec[i] / n
	}
	var sxx, sxy, syy float64
	for i := range l.sec {
		dx, dy := l.tokens[i]-mx, l.sec[i]-my
		sxx, sxy, syy = sxx+dx*dx, sxy+dx*dy, syy+dy*dy
	}
	if sxx == 0 || syy == 0 {
		return 0, nil
	}
	slope := sxy / sxx
	without = make([]float64, len(l.sec))
	for i := range l.sec {
		without[i] = max(0, l.sec[i]-slope*(l.tokens[i]-mx))
	}
	return min(1, sxy*sxy/(sxx*syy)), without
}

func loggedDecl(id ID, u unit.Unit, lo, hi float64, doc string) *Decl {
	return &Decl{ID: id, Doc: doc, Unit: u, Per: Rank, Min: lo, Max: hi, Capture: "C17"}
}

// fewTokens is the share of variance from which step times are judged without what their tokens explain.
const fewTokens = 0.5

var (
	rankLogged      = loggedDecl("rank.step_log_steps_count", unit.Count, 0, 1e9, "Lines with a step's time in the training loop's own log.")
	rankEvery       = loggedDecl("rank.step_log_every_count", unit.Count, 1, 1e9, "Steps that one line of that log stands for.")
	rankTokenEffect = loggedDecl("rank.step_tokens_r2_frac", unit.Frac, 0, 1, "Share of the variance of step time that the logged number of tokens explains; from a half on step times are judged without it.")

	rankModes     = loggedDecl("rank.step_modes_d_frac", unit.Frac, 0, 1e6, "Ashman's D of the two groups that 2-means finds in the step times: the halves of a bell have 2.7, those of an even spread 3.5.")
	rankModeMinor = loggedDecl("rank.step_modes_minor_frac", unit.Frac, 0, 0.5, "Share of the steps in the smaller of those groups.")
	rankModeSlow  = loggedDecl("rank.step_modes_slow_frac", unit.Frac, 0, 1, "Share of the steps in the slower of those groups.")
	rankModeRatio = loggedDecl("rank.step_modes_ratio_frac", unit.Frac, 1, 1e6, "Mean of the slower group out of that of the quicker one.")
	rankModeSave  = loggedDecl("rank.step_save_modes_frac", unit.Frac, 0, 1, "Step time of the slower group above the quicker one's mean, out of all step time.")
	rankModeOwner = stepDecl("rank.step_modes_owner", unit.Text, 0, 0, "Ledger owner that grows most from the quicker group to the slower one.")

	rankShift     = loggedDecl("rank.step_shift_frac", unit.Frac, -1, 1e6, "Largest lasting change of step time: the new level out of the old one, less 1; 0 none, or a straight line fits the steps better.")
	rankShiftAt   = loggedDecl("rank.step_shift_at_count", unit.Count, 0, 1e12, "First step of the new level.")
	rankShiftSave = loggedDecl("rank.step_save_shift_frac", unit.Frac, 0, 1, "Step time above the level before a rise, out of all step time.")
	rankShiftWith = stepDecl("rank.step_shift_event", unit.Text, 0, 0, "What the logs show within a step, or the clocks' errors, of the change.")

	rankEdges     = loggedDecl("rank.epoch_edges_count", unit.Count, 0, 1e9, "Epoch edges in the training loop's log with steps on both sides.")
	rankEdgeSteps = loggedDecl("rank.epoch_edge_steps_count", unit.Count, 0, 1e9, "Extra time of the first step of an epoch, or before it, in steps: median over the edges.")
	rankEdgeFrac  = loggedDecl("rank.epoch_edge_frac", unit.Frac, 0, 1, "The same out of an epoch's time.")
	rankEpochOne  = loggedDecl("rank.first_epoch_frac", unit.Frac, 0, 1e6, "Median step of the first epoch, warm-up left out, out of that of the next.")

	rankPeriodS   = loggedDecl("rank.step_period_s", unit.Second, 0, 1e9, "Time from one slow step to the next where it is time that repeats and not a number of steps.")
	rankPeriodHow = loggedDecl("rank.step_period_kind", unit.Text, 0, 0, "Whether slow steps repeat by a number of steps or by time, as their distances show.")
)

// StepLevels asks for two speeds, lasting shifts, epoch edges and periods in time. It reads the training loop's own log where one is given that
// has more steps than the trace, else the steps of the trace. Epochs are known from the log alone. Missing below 20 steps, two speeds too.
var StepLevels = &Deriver{Name: "step-levels", After: []*Deriver{StepStats},
	Gives: []*Decl{rankLogged, rankEvery, rankTokenEffect, rankModes, rankModeMinor, rankModeSlow, rankModeRatio, rankModeSave, rankModeOwner,
		rankShift, rankShiftAt, rankShiftSave, rankShiftWith, rankEdges, rankEdgeSteps, rankEdgeFrac, rankEpochOne, rankPeriodS, rankPeriodHow},
	Run: func(p *Pass) {
		logs := stepLogs(p.Input)
		p.eachRank(func(sub int, r *timeline.Reduced) {
			p.levelsOf(sub, p.seriesOfSteps(logs, r))
			p.epochsOf(sub, logs, r)
		})
	}}

// stepSeries is the steps that a rank is judged by: its log's or its trace's.
type stepSeries struct {
	x    []float64 // s, without what tokens explain
	raw  []float64
	log  *stepLog // nil: of the trace
	red  *timeline.Reduced
	gpu  *timeline.GPULedger // of the trace; nil where x is the log's
	conf Confidence
	why  string // "" the steps are enough
}

func (p *Pass) seriesOfSteps(logs []*stepLog, r *timeline.Reduced) stepSeries {
	s := stepSeries{red: r, conf: stepConf(r)}
	x := stepDurs(r)
	if l := logOf(logs, r.Process.Rank); l != nil && len(l.sec) > len(x) {
		s.log, s.raw, s.x, s.conf = l, l.sec, l.sec, timeline.Measured
		if l.every > 1 {
			s.conf = timeline.Inferred
		}
		if r2, without := l.effect(); r2 >= fewTokens {
			s.x = without
		}
	} else {
		s.raw, s.x, s.gpu = x, x, mainGPU(r)
	}
	switch n := len(s.x); {
	case n == 0:
		s.why = noSteps
	case n < minSteps && s.log != nil:
		s.why = fmt.Sprintf("only %s in the training loop's log: this needs %d", counted(n, "step"), minSteps)
	case n < minSteps:
		s.why = fmt.Sprintf("only %s in the recording: this needs %d", counted(n, "complete step"), minSteps)
	case median(s.x) <= 0:
		s.why = "the steps have no length"
	}
	return s
}

// refs names the rows of steps.
func (s *stepSeries) refs(at []int) []Ref {
	if s.log != nil {
		return s.log.refs(at)
	}
	return stepRefs(s.gpu, s.red.Path, at[:min(len(at), maxRefs)])
}

// step is the number of step i.
func (s *stepSeries) step(i int) float64 {
	switch {
	case s.log != nil && s.log.number != nil:
		return s.log.number[i]
	case s.log == nil && i < len(s.red.Steps.Index):
		return max(0, float64(s.red.Steps.Index[i]))
	}
	return float64(i)
}

// start is when step i began; false unknown.
func (s *stepSeries) start(i int) (timeline.Time, bool) {
	if s.log != nil {
		return s.log.at[i] - timeline.Time(s.log.sec[i]*1e9), s.log.placed
	}
	return s.gpu.Steps[i].Start, true
}

func (p *Pass) levelsOf(sub int, s stepSeries) {
	v := Value{Cover: 1, Conf: s.conf}
	num := func(f float64) Value { o := v; o.Num = f; return o }
	if s.log != nil {
		p.Set(rankLogged, sub, num(float64(len(s.log.sec))))
		p.Set(rankEvery, sub, num(float64(s.log.every)))
	} else {
		p.missAll(sub, "no log of the training loop was given that has more steps than the trace", rankLogged, rankEvery)
	}
	switch {
	case s.log == nil || s.log.tokens == nil:
		p.Miss(rankTokenEffect, sub, "no log of the training loop states the tokens of each step")
	case s.why != "":
		p.Miss(rankTokenEffect, sub, s.why)
	default:
		r2, _ := s.log.effect()
		p.Set(rankTokenEffect, sub, num(r2))
	}
	if s.why != "" {
		p.missAll(sub, s.why, rankModes, rankModeMinor, rankModeSlow, rankModeRatio, rankModeSave, rankModeOwner, rankShift, rankShiftAt, rankShiftSave, rankShiftWith, rankPeriodS, rankPeriodHow)
		return
	}
	p.modesOf(sub, s, v)
	p.shiftOf(sub, s, v)
	p.repeatsOf(sub, s, v)
}

func (p *Pass) modesOf(sub int, s stepSeries, v Value) {
	num := func(f float64) Value { o := v; o.Num = f; return o }
	s.x = s.steady()
	d, minor, ratio := ledger.TwoModes(s.x)
	// The cut that TwoModes took lies in the largest of the two-means splits: between the means.
	cut := cutOf(s.x, minor)
	var fast, slow []int
	var sum, above, meanFast float64
	for i, f := range s.x {
		sum += f
		if f <= cut {
			fast = append(fast, i)
			meanFast += f
		} else {
			slow = append(slow, i)
		}
	}
	if len(fast) > 0 {
		meanFast /= float64(len(fast))
	}
	for _, i := range slow {
		above += s.x[i] - meanFast
	}
	v.Refs, v.NRefs = s.refs(slow), len(slow)
	p.Set(rankModes, sub, num(min(d, 1e6)))
	p.Set(rankModeMinor, sub, num(minor))
	p.Set(rankModeSlow, sub, num(float64(len(slow))/float64(len(s.x))))
	p.Set(rankModeRatio, sub, num(max(1, ratio)))
	p.Set(rankModeSave, sub, num(min(1, above/sum)))
	if s.gpu == nil || len(slow) == 0 || len(fast) == 0 {
		p.Miss(rankModeOwner, sub, "which owner grows is known for traced steps only")
		return
	}
	if o, _ := grows(s.gpu, fast, slow); o < timeline.NOwners {
		v.Text = o.String()
		p.Set(rankModeOwner, sub, v)
		return
	}
	p.Miss(rankModeOwner, sub, "no owner grows from the quicker steps to the slower ones")
}

// cutOf is the value below or at which a share of v lies that is minor or its rest: the one that leaves the greater jump above it.
func cutOf(v []float64, minor float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	n := len(s)
	k := int(math.Round(minor * float64(n)))
	best, jump := s[n-1], -1.0
	for _, c := range []int{k, n - k} {
		if c >= 1 && c < n && s[c]-s[c-1] > jump {
			best, jump = s[c-1], s[c]-s[c-1]
		}
	}
	return best
}

// grows is the owner whose mean a step is most above in the steps b over the steps a, and by how many seconds; NOwners none.
func grows(l *timeline.GPULedger, a, b []int) (timeline.Owner, float64) {
	meanOf := func(steps []int, o timeline.Owner) float64 {
		t := int64(0)
		for _, i := range steps {
			t += l.Steps[i].Owners[o]
		}
		return float64(t) / float64(len(steps)) / 1e9
	}
	best, by := timeline.NOwners, 0.0
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		if d := meanOf(b, o) - meanOf(a, o); d > by {
			best, by = o, d
		}
	}
	return best, by
}

// lasts tells whether step time stays on the far side of a change: no stretch between two changes before it lies nearer to the new level, and
// none after it nearer to the old one.
func lasts(x []float64, shifts []ledger.Shift, i int) bool {
	at := shifts[i].At
	before, after := median(x[:at]), median(x[at:])
	if i > 0 {
		before = median(x[shifts[i-1].At:at])
	}
	if i+1 < len(shifts) {
		after = median(x[at:shifts[i+1].At])
	}
	middle, from := (before+after)/2, 0
	for k := 0; k <= len(shifts); k++ {
		to := len(x)
		if k < len(shifts) {
			to = shifts[k].At
		}
		if above := median(x[from:to]) > middle; above != ((k > i) == (after > before)) {
			return false
		}
		from = to
	}
	return true
}

// shift is the largest lasting change of level, false where there is none. A slope looks like a stair of shifts: where a straight line lies
// nearer to the steps than two levels do, it is one.
func (s *stepSeries) shift() (ledger.Shift, bool) {
	shifts := ledger.Shifts(s.x)
	best := -1
	for i, c := range shifts {
		if (best < 0 || math.Abs(c.Change) > math.Abs(shifts[best].Change)) && lasts(s.x, shifts, i) {
			best = i
		}
	}
	if best < 0 {
		return ledger.Shift{}, false
	}
	c := shifts[best]
	before, after := median(s.x[:c.At]), median(s.x[c.At:])
	rise, _ := ledger.Trend(s.x)
	slope := rise * median(s.x) / float64(len(s.x))
	flat := make([]float64, len(s.x))
	for i, f := range s.x {
		flat[i] = f - slope*float64(i)
	}
	base := median(flat)
	var levels, line float64
	for i, f := range s.x {
		level := before
		if i >= c.At {
			level = after
		}
		levels += math.Abs(f - level)
		line += math.Abs(flat[i] - base)
	}
	c.Change = after/before - 1
	return c, levels <= line
}

// level gives the steps without the largest lasting shift: what drifts apart from it.
func (s *stepSeries) level() []float64 {
	c, ok := s.shift()
	if !ok {
		return s.x
	}
	out := slices.Clone(s.x)
	by := median(s.x[c.At:]) - median(s.x[:c.At])
	for i := c.At; i < len(out); i++ {
		out[i] = max(0, out[i]-by)
	}
	return out
}

// steady gives the steps without the largest lasting shift and without a drift that is more than chance: an even spread looks like two speeds.
func (s *stepSeries) steady() []float64 {
	x := slices.Clone(s.level())
	const chance, least = 0.01, 0.05
	if rise, p := ledger.Trend(x); p < chance && math.Abs(rise) >= least {
		slope := rise * median(x) / float64(len(x))
		for i := range x {
			x[i] = max(0, x[i]-slope*(float64(i)-float64(len(x)-1)/2))
		}
	}
	return x
}

func (p *Pass) shiftOf(sub int, s stepSeries, v Value) {
	num := func(f float64) Value { o := v; o.Num = f; return o }
	c, ok := s.shift()
	if !ok {
		p.Set(rankShift, sub, num(0))
		p.Set(rankShiftSave, sub, num(0))
		p.missAll(sub, "step time has no lasting change", rankShiftAt, rankShiftWith)
		return
	}
	level, sum, above := median(s.x[:c.At]), 0.0, 0.0
	for i, f := range s.x {
		sum += f
		if i >= c.At {
			above += f - level
		}
	}
	v.Refs, v.NRefs = s.refs([]int{c.At}), 1
	p.Set(rankShift, sub, num(max(-1, c.Change)))
	p.Set(rankShiftAt, sub, num(s.step(c.At)))
	p.Set(rankShiftSave, sub, num(min(1, max(0, above/sum))))
	if at, ok := s.start(c.At); !ok {
		p.Miss(rankShiftWith, sub, "the training loop's log has no clock that is placed, so nothing can be put beside it")
	} else if with, refs := p.eventsNear(at, timeline.Time(2e9*median(s.x)*float64(max(1, s.every())))); len(with) > 0 {
		v.Text, v.Refs, v.NRefs = join(with, ", "), refs, len(refs)
		p.Set(rankShiftWith, sub, v)
	} else {
		p.Miss(rankShiftWith, sub, "no log shows an event within a step of the change")
	}
}

func (s *stepSeries) every() int {
	if s.log != nil {
		return s.log.every
	}
	return 1
}

// eventsNear names what the logs show around an instant: events, and readings that change their level there.
func (p *Pass) eventsNear(at, slack timeline.Time) (says []string, refs []Ref) {
	b := p.Input.Base
	slackOf := func(src timeline.SourceID) (timeline.Time, bool) {
		c := &b.Clocks[b.Sources[src].Clock]
		return slack + timeline.Time(c.Error), c.How != timeline.Unplaced
	}
	add := func(text string, r Ref) {
		if !slices.Contains(says, text) && len(says) < 4 {
			says, refs = append(says, text), append(refs, r)
		}
	}
	for i := range b.Marks.At {
		tr := &b.Tracks[b.Marks.Track[i]]
		near, ok := slackOf(tr.Source)
		if d := b.Marks.At[i] - at; !ok || d > near || d < -near {
			continue
		}
		add(strings.TrimSpace(b.Names.Get(b.Marks.Name[i])), Ref{Path: b.Sources[tr.Source].Path, Row: uint64(b.Marks.Row[i])})
	}
	for i := range b.Series {
		s := &b.Series[i]
		word := map[string]string{timeline.Reasons.Name: "clock event reasons", timeline.PowerLimit.Name: "the power limit", timeline.PCIeGen.Name: "the PCIe generation", timeline.PCIeWidth.Name: "the PCIe width"}[s.Metric.Name]
		if word == "" {
			continue
		}
		src := b.Tracks[s.Track].Source
		near, ok := slackOf(src)
		if !ok {
			continue
		}
		k := sort.Search(len(s.At), func(i int) bool { return s.At[i] >= at-near })
		for ; k < len(s.At) && s.At[k] <= at+near; k++ {
			if k > 0 && s.Value[k] != s.Value[k-1] {
				add(word+" changed", Ref{Path: b.Sources[src].Path, Row: uint64(s.Row[k])})
				break
			}
		}
	}
	return says, refs
}

// repeats is how far apart slow steps are, by number and by time.
type repeats struct {
	slow    []int
	steps   float64 // apart; 0: not at equal numbers
	seconds float64 // apart; 0: not at equal times
	why     string  // neither; "" one of them
}

// repeats tells whether slow steps repeat by number or by time: by what varies less from one to the next.
func (s *stepSeries) repeats() repeats {
	slow, _ := ledger.Outliers(s.raw)
	const least = 5
	if len(slow) < least {
		return repeats{why: "fewer than five slow steps"}
	}
	var bySteps, byTime []float64
	for i := 1; i < len(slow); i++ {
		bySteps = append(bySteps, s.step(slow[i])-s.step(slow[i-1]))
		t := 0.0
		for _, f := range s.raw[slow[i-1]+1 : slow[i]+1] {
			t += f * float64(s.every())
		}
		byTime = append(byTime, t)
	}
	const steady = 0.1
	spreadOf := func(x []float64) float64 {
		m := median(x)
		if m <= 0 {
			return math.Inf(1)
		}
		d := make([]float64, len(x))
		for i := range x {
			d[i] = math.Abs(x[i]-m) / m
		}
		return quantile(d, 0.75)
	}
	n, t := spreadOf(bySteps), spreadOf(byTime)
	switch {
	case min(n, t) > steady:
		return repeats{why: "slow steps come neither at equal numbers nor at equal times"}
	case median(bySteps) < 2:
		return repeats{why: "slow steps follow one another"}
	case t < n/2 && t < steady:
		return repeats{slow: slow, seconds: median(byTime)}
	}
	return repeats{slow: slow, steps: median(bySteps)}
}

func (p *Pass) repeatsOf(sub int, s stepSeries, v Value) {
	r := s.repeats()
	v.Refs, v.NRefs = s.refs(r.slow), len(r.slow)
	switch {
	case r.why != "":
		p.missAll(sub, r.why, rankPeriodS, rankPeriodHow)
	case r.seconds > 0:
		v.Text = fmt.Sprintf("by time, every %.3g s", r.seconds)
		p.Set(rankPeriodHow, sub, v)
		v.Text, v.Num = "", r.seconds
		p.Set(rankPeriodS, sub, v)
	default:
		v.Text = fmt.Sprintf("by number, every %.0f steps", r.steps)
		p.Set(rankPeriodHow, sub, v)
		p.Miss(rankPeriodS, sub, "slow steps repeat by number and not by time")
	}
}

// periodInTime says of slow steps that come at equal times what periodOf says of those at equal numbers.
func (p *Pass) periodInTime(sub int, s stepSeries, r repeats, v Value) {
	in := map[int]bool{}
	for _, i := range r.slow {
		in[i] = true
	}
	var slow, rest []float64
	sum, mean := 0.0, 0.0
	for i, f := range s.raw {
		sum += f
		if in[i] {
			slow = append(slow, f)
		} else {
			rest = append(rest, f)
		}
	}
	mean = sum / float64(len(s.raw))
	between, total, above := 0.0, 0.0, 0.0
	usual := median(rest)
	for _, f := range s.raw {
		total += (f - mean) * (f - mean)
	}
	for _, side := range [][]float64{slow, rest} {
		m := 0.0
		for _, f := range side {
			m += f / float64(len(side))
		}
		between += float64(len(side)) * (m - mean) * (m - mean)
	}
	for _, f := range slow {
		above += f - usual
	}
	v.Refs, v.NRefs = s.refs(r.slow), len(r.slow)
	num := func(f float64) Value { o := v; o.Num = f; return o }
	p.Miss(rankPeriod, sub, "slow steps repeat by time and not by number")
	p.Set(rankEta, sub, num(min(1, between/total)))
	p.Set(rankEtaChance, sub, num(0))
	p.Set(rankExcess, sub, num(max(0, median(slow)/usual-1)))
	p.Set(rankSavePeriod, sub, num(min(1, max(0, above)/sum)))
	v.Text = fmt.Sprintf("%.3g s", r.seconds)
	p.Set(rankPeriodSays, sub, v)
	if v.Text = matchInterval(p.Input.Set, r.seconds/(mean*float64(s.every()))); v.Text != "" {
		p.Set(rankMatch, sub, v)
	} else {
		p.Miss(rankMatch, sub, "no interval that --set states is about as long")
	}
}

// epochLength is how many steps each epoch has by the log; 0 unknown or not the same.
func (l *stepLog) epochLength() float64 {
	if l == nil || l.epoch == nil || l.number == nil {
		return 0
	}
	at, length := -1.0, 0.0 // where the epoch before began
	for i := 1; i < len(l.epoch); i++ {
		if l.epoch[i] == l.epoch[i-1] {
			continue
		}
		if n := l.number[i] - at; at >= 0 && n > 0 {
			if length != 0 && n != length {
				return 0
			}
			length = n
		}
		at = l.number[i]
	}
	return length
}

func (p *Pass) epochsOf(sub int, logs []*stepLog, r *timeline.Reduced) {
	all := []*Decl{rankEdges, rankEdgeSteps, rankEdgeFrac, rankEpochOne}
	l := logOf(logs, r.Process.Rank)
	if l == nil || l.epoch == nil {
		p.missAll(sub, "no log of the training loop states the epoch of each step", all...)
		return
	}
	var from []int // first line of each epoch
	for i := range l.epoch {
		if i == 0 || l.epoch[i] != l.epoch[i-1] {
			from = append(from, i)
		}
	}
	if len(from) < 2 {
		p.missAll(sub, "the log of the training loop has one epoch only", all...)
		return
	}
	conf := timeline.Measured
	if l.every > 1 {
		conf = timeline.Inferred
	}
	from = append(from, len(l.sec))
	var extra, share []float64
	var edges []int
	for k := 1; k+1 < len(from); k++ {
		a, b := from[k], from[k+1]
		if b-a < 4 || a-from[k-1] < 4 {
			continue
		}
		usual := median(l.sec[a+1 : b])
		if usual <= 0 {
			continue
		}
		gap := (l.sec[a] - usual) * float64(l.every)
		if l.placedOrClocked() {
			// Where lines have a clock, what lies between the last line of one epoch and the first of the next counts, whatever the loop calls a step.
			gap = max(gap, float64(l.at[a]-l.at[a-1])/1e9-usual*float64(l.every))
		}
		gap = max(0, gap)
		whole := gap
		for _, f := range l.sec[a+1 : b] {
			whole += f * float64(l.every)
		}
		extra, share, edges = append(extra, gap/usual), append(share, gap/(whole+usual*float64(l.every))), append(edges, a)
	}
	v := Value{Cover: 1, Conf: conf, Refs: l.refs(edges), NRefs: len(edges)}
	num := func(f float64) Value { o := v; o.Num = f; return o }
	if len(edges) == 0 {
		p.missAll(sub, "no epoch edge has four logged steps on both sides", rankEdges, rankEdgeSteps, rankEdgeFrac)
	} else {
		p.Set(rankEdges, sub, num(float64(len(edges))))
		p.Set(rankEdgeSteps, sub, num(median(extra)))
		p.Set(rankEdgeFrac, sub, num(min(1, median(share))))
	}
	first, next := l.sec[from[0]:from[1]], l.sec[from[1]:from[2]]
	if len(first) < minSteps || len(next) < minSteps {
		p.Miss(rankEpochOne, sub, fmt.Sprintf("this needs %d logged steps in each of the first two epochs", minSteps))
		return
	}
	warm := max(1, len(first)/10)
	p.Set(rankEpochOne, sub, num(median(first[warm:])/max(1e-12, median(next[1:]))))
}

// placedOrClocked tells whether the log's stamps are a clock's, not sums of its own steps.
func (l *stepLog) placedOrClocked() bool {
	if l.placed {
		return true
	}
	for i := 1; i < len(l.at); i++ {
		if d := float64(l.at[i]-l.at[i-1]) / 1e9; math.Abs(d-l.sec[i]*float64(l.every)) > 1e-6 {
			return true
		}
	}
	return false
}
