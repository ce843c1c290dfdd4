package facts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// tie is what the facts say of one kind of throttling and the traced steps.
type tie struct {
	word     string // what cut the clocks, for sentences
	mask     uint64
	counters [][]timeline.Metric // the driver's running totals that together are the kind, best set first
	viol     *timeline.Metric    // dmon's column
	free     uint64              // reasons that a healthy clock must be free of
	atSpec   bool                // no healthy clock lies above the data sheet's: what a card boosts to without load is no measure

	count, frac, each, says *Decl
}

func tieOf(name, word string, mask uint64) tie {
	say := func(what string) string { return fmt.Sprintf(what, word) }
	return tie{word: word, mask: mask,
		count: &Decl{ID: ID("gpu." + name + "_steps_count"), Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C2",
			Doc: say("Analysed steps in which %s cut the clocks for 1 %% of the step or more, of those that readings decide.")},
		frac: &Decl{ID: ID("gpu." + name + "_cost_frac"), Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C2",
			Doc: say("Time that the analysed steps lost because %s cut the clocks, out of their time: compute time x share in kernels that follow the clock x clock lost while cut.")},
		each: &Decl{ID: ID("gpu." + name + "_cost_per_step_s"), Unit: unit.Second, Per: GPU, Max: 1e6, Capture: "C2",
			Doc: say("Mean time that an analysed step lost because %s cut the clocks.")},
		says: &Decl{ID: ID("gpu." + name + "_cost_says"), Unit: unit.Text, Per: GPU, Capture: "C2",
			Doc: say("Which analysed steps were slowed because %s cut the clocks and by how much, or why that is not known step by step.")},
	}
}

var (
	tieHeat  = tieOf("thermal", "heat", reasonSWThermal|reasonHWThermal)
	tieBrake = tieOf("power_brake", "an outside signal", reasonPowerBrake)
	tieCap   = tieOf("power_cap", "the power limit", reasonPowerCap)
	tieAny   = tieOf("throttle", "any limit", reasonCut)
)

// ThrottleSteps joins the throttling of the logs to the analysed steps: of each step the share in which the clocks were cut, exact where the
// driver counts it, else by the readings nearest to it, and the time that cost. A step that readings do not decide, within half their spacing
// and the error of the log's clock, counts on neither side. Missing where a step is shorter than the log is surely placed: then shares of the
// whole log are all there is.
var ThrottleSteps = &Deriver{Name: "throttle-steps", After: []*Deriver{Throttle, LedgerShares}, Gives: tieDecls(), Run: func(p *Pass) {
	peers := p.peerClocks()
	p.eachGPU(func(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced) {
		for _, t := range ties() {
			p.tieSteps(sub, c, l, r, &t, peers)
		}
	})
}}

func ties() []tie {
	heat, brake, powerCap, all := tieHeat, tieBrake, tieCap, tieAny
	heat.counters = [][]timeline.Metric{{timeline.ThrottleSWThermal, timeline.ThrottleHWThermal}, {timeline.ThrottleThermal}}
	heat.viol, heat.free = &timeline.ViolThermal, reasonSWThermal|reasonHWThermal|reasonPowerBrake
	brake.counters, brake.free = [][]timeline.Metric{{timeline.ThrottlePowerBrake}}, heat.free
	powerCap.counters, powerCap.viol, powerCap.free, powerCap.atSpec = [][]timeline.Metric{{timeline.ThrottlePower}}, &timeline.ViolPower, reasonCut, true
	for _, h := range heat.counters {
		all.counters = append(all.counters, append([]timeline.Metric{timeline.ThrottlePower, timeline.ThrottlePowerBrake}, h...))
	}
	all.free, all.atSpec = reasonCut, true
	return []tie{heat, brake, powerCap, all}
}

func tieDecls() (out []*Decl) {
	for _, t := range []tie{tieHeat, tieBrake, tieCap, tieAny} {
		out = append(out, t.count, t.frac, t.each, t.says)
	}
	return out
}

const (
	cutStep    = 0.01 // of a step, from which on it was cut
	undecided  = 0.5  // of a step that may or may not have been cut
	decidedMin = 0.5  // of the steps that must be decided
)

// held is a curve as pieces of time that one reading each speaks for.
type held struct {
	s     *timeline.Series
	iv    []timeline.Interval // by start, not overlapping; holes are nobody's
	value []float64
	row   []int
	exact bool // value is a mean over the piece, not one instant's
}

// in sums value x time over iv, and how much of iv the pieces cover.
func (h *held) in(iv timeline.Interval) (sum, covered float64) {
	for i := h.from(iv.Start); i < len(h.iv) && h.iv[i].Start < iv.End; i++ {
		d := float64(min(h.iv[i].End, iv.End) - max(h.iv[i].Start, iv.Start))
		sum += h.value[i] * d
		covered += d
	}
	return sum, covered
}

// from is the first piece that ends after t.
func (h *held) from(t timeline.Time) int {
	return sort.Search(len(h.iv), func(i int) bool { return h.iv[i].End > t })
}

// nearest lets each reading speak for the time up to the middle between it and its neighbours, at most a spacing away.
func nearest(s *timeline.Series, keep []int, value func(j int) float64) *held {
	h := &held{s: s}
	reach := timeline.Time(max(spacing(s), time.Millisecond))
	for _, j := range keep {
		iv := timeline.Interval{Start: s.At[j] - reach/2, End: s.At[j] + reach/2}
		if j > 0 && s.At[j]-s.At[j-1] <= 2*reach {
			iv.Start = s.At[j-1] + (s.At[j]-s.At[j-1])/2
		}
		if j+1 < len(s.At) && s.At[j+1]-s.At[j] <= 2*reach {
			iv.End = s.At[j] + (s.At[j+1]-s.At[j])/2
		}
		h.iv, h.value, h.row = append(h.iv, iv), append(h.value, value(j)), append(h.row, j)
	}
	return h
}

// rises gives a running total's share of each time between two readings.
func rises(s *timeline.Series) *held {
	h := &held{s: s, exact: true}
	for j := 1; j < len(s.At); j++ {
		d, t := s.Value[j]-s.Value[j-1], float64(s.At[j]-s.At[j-1])/1e9
		if d < 0 || t <= 0 { // the counter was reset
			continue
		}
		h.iv, h.value, h.row = append(h.iv, timeline.Interval{Start: s.At[j-1], End: s.At[j]}), append(h.value, min(1, d/t)), append(h.row, j)
	}
	return h
}

// windows lets each reading speak for the time since the one before.
func windows(s *timeline.Series) *held {
	h := &held{s: s, exact: true}
	step := timeline.Time(spacing(s))
	for j := range s.At {
		h.iv, h.value, h.row = append(h.iv, timeline.Interval{Start: since(s, j, step), End: s.At[j]}), append(h.value, min(1, max(0, s.Value[j]))), append(h.row, j)
	}
	return h
}

// cuts gives the curves whose sum is the throttled share: the driver's counters, its reason bits, dmon's columns.
func (p *Pass) cuts(c *Card, t *tie) []*held {
	for _, set := range t.counters {
		var out []*held
		for _, m := range set {
			if s := p.series(c, m); s != nil && len(s.At) > 1 {
				out = append(out, rises(s))
			}
		}
		if len(out) == len(set) {
			return out
		}
	}
	if s := p.series(c, timeline.Reasons); s != nil && len(s.At) > 1 {
		return []*held{nearest(s, indices(len(s.At)), func(j int) float64 {
			if uint64(math.Round(s.Value[j]))&t.mask != 0 {
				return 1
			}
			return 0
		})}
	}
	if t.viol != nil {
		if s := p.series(c, *t.viol); s != nil && len(s.At) > 1 {
			return []*held{windows(s)}
		}
	}
	return nil
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// apart is how far a log and a trace may be out of step.
func (p *Pass) apart(s *timeline.Series, path string) time.Duration {
	src := &p.Base.Sources[p.Base.Tracks[s.Track].Source]
	if src.Path == path {
		return 0
	}
	err := p.Base.Clocks[src.Clock].Error
	for i := range p.Base.Sources {
		if t := &p.Base.Sources[i]; t.Path == path && int(t.Clock) < len(p.Base.Clocks) {
			err += p.Base.Clocks[t.Clock].Error
		}
	}
	return err
}

// freeClock is the clock of the card when none of the tie's limits cuts it: its own, else its peers', else the data sheet's.
func (p *Pass) freeClock(c *Card, s *timeline.Series, t *tie, peers []peerClock) (hz float64, from, why string) {
	spec, _ := p.specClock(c)
	var others []float64
	for _, o := range peers {
		if o.isPeer(c) && o.free(t.free) > 0 {
			others = append(others, o.free(t.free))
		}
	}
	own := p.freeSamples(c, s, t.free)
	switch {
	case len(own) >= minLoad:
		hz, from = median(own), "its own readings that nothing cut"
	case len(others) > 0:
		hz, from = median(others), "its peers' clock"
	case spec > 0:
		return spec, "the data sheet's clock", ""
	default:
		return 0, "", "neither its own readings, nor peers, nor a data sheet entry give a healthy clock"
	}
	if t.atSpec && spec > 0 && hz > spec {
		hz, from = spec, "the data sheet's clock"
	}
	return hz, from, ""
}

// cutInside says how often the clocks were cut while the trace ran, where readings enough lie inside it: the whole log may say otherwise.
func (p *Pass) cutInside(c *Card, l *timeline.GPULedger, mask uint64) string {
	bits := p.series(c, timeline.Reasons)
	if l == nil || l.Window.Empty() || bits == nil || !placed(p.Base, bits) {
		return ""
	}
	n, cut := 0, 0
	for _, j := range p.under(p.loadOf(c), bits) {
		if bits.At[j] < l.Window.Start || bits.At[j] > l.Window.End {
			continue
		}
		n++
		if uint64(math.Round(bits.Value[j]))&mask != 0 {
			cut++
		}
	}
	if n < minLoad {
		return ""
	}
	return fmt.Sprintf("; inside the trace it cut the clocks in %d of %d readings under load", cut, n)
}

func (p *Pass) tieSteps(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced, t *tie, peers []peerClock) {
	miss := func(why string) {
		p.missAll(sub, why, t.count, t.frac, t.each)
		if why == noTrace {
			why = "no trace shows them"
		}
		p.Set(t.says, sub, Value{Text: "which steps it slowed is not known: " + why + p.cutInside(c, l, t.mask), Cover: 1, Conf: timeline.Measured})
	}
	if l == nil {
		miss(noTrace)
		return
	}
	if len(l.Steps) == 0 {
		miss("the trace shows no steps")
		return
	}
	curves := p.cuts(c, t)
	if curves == nil {
		miss(p.noMetric(c, "clock event reasons"))
		return
	}
	step := usualStep(l)
	var err, reach time.Duration
	for _, h := range curves {
		if !placed(p.Base, h.s) {
			miss("when the log was written cannot be told")
			return
		}
		err = max(err, p.apart(h.s, r.Path))
		if reach = max(reach, err); !h.exact {
			reach = max(reach, err+spacing(h.s)/2)
		}
	}
	if err > step {
		miss(fmt.Sprintf("the log is placed to %s and a step takes %s", seconds(err), seconds(step)))
		return
	}
	clock := p.series(c, timeline.ClockSM)
	var clocks *held
	if clock != nil && placed(p.Base, clock) && p.apart(clock, r.Path) <= step {
		clocks = nearest(clock, p.under(p.loadOf(c), clock), func(j int) float64 { return clock.Value[j] })
	}
	j := joined{shift: timeline.Time(reach), curves: curves, clocks: clocks}
	healthy, from, why := 0.0, "", p.noMetric(c, "the SM clock")
	if clock != nil {
		healthy, from, why = p.freeClock(c, clock, t, peers)
	}
	bound := clockBound(l)
	j.run(l, healthy, bound)
	if n := len(l.Steps); float64(j.decided) < decidedMin*float64(n) {
		miss(fmt.Sprintf("the log decides %d of the %d analysed steps", j.decided, n))
		return
	}
	v := Value{Cover: float64(j.decided) / float64(len(l.Steps)), Conf: timeline.Inferred}
	if j.exact() {
		v.Conf = timeline.Measured
	}
	v.Refs, v.NRefs = p.refsAt(j.hit, j.rows)
	v.Num = float64(j.cut)
	p.Set(t.count, sub, v)
	says := v
	v.Conf = timeline.Inferred // the clock is sampled
	switch {
	case j.cut == 0:
		v.Num = 0
		p.Set(t.frac, sub, v)
		p.Set(t.each, sub, v)
		says.Text = fmt.Sprintf("none of the %d analysed steps was slowed by it", j.decided)
	case healthy <= 0:
		p.missAll(sub, why, t.frac, t.each)
		says.Text = fmt.Sprintf("it cut %d of %d analysed steps, at what cost is not known: %s", j.cut, j.decided, why)
	case j.known == 0:
		p.missAll(sub, "no SM clock reading under load lies at the steps that were cut", t.frac, t.each)
		says.Text = fmt.Sprintf("it cut %d of %d analysed steps, at what cost is not known: no SM clock was read beside them", j.cut, j.decided)
	case j.lost == 0 && j.exact() && j.cutShare() < undecided:
		p.missAll(sub, "the SM clock was never read while it was cut: only the driver's counters show that", t.frac, t.each)
		says.Text = fmt.Sprintf("it cut %d of %d analysed steps for %.3g %% of their time, at what cost is not known: the SM clock was never read in that time", j.cut, j.decided, 100*j.cutShare())
	default:
		v.Num = min(1, j.lost/j.total)
		p.Set(t.frac, sub, v)
		v.Num = j.lost / float64(j.decided) / 1e9
		p.Set(t.each, sub, v)
		says.Text = fmt.Sprintf("it slowed %d of %d analysed steps, by at most %s a step against %s (%.0f MHz): only kernels that follow the clock count, %.0f %% of the computing time",
			j.cut, j.decided, seconds(time.Duration(j.lost/float64(j.cut))), from, healthy/1e6, 100*bound)
	}
	if n := len(l.Steps) - j.decided; n > 0 {
		says.Text += fmt.Sprintf("; of %d more the readings do not tell", n)
	}
	p.Set(t.says, sub, says)
}

// joined is the join of the cuts of one kind with the steps of one GPU.
type joined struct {
	shift  timeline.Time // a cut may lie this much earlier or later than it is placed
	curves []*held
	clocks *held // nil unknown

	decided, cut, known int
	total, lost         float64 // ns of the decided steps
	cutNS, inCut        float64 // ns that were cut, and ns of the steps that were
	hit                 *timeline.Series
	rows                []int // readings of hit that show a cut, in the steps
}

func (j *joined) exact() bool {
	return !slices.ContainsFunc(j.curves, func(h *held) bool { return !h.exact })
}

// share is how much of iv was cut; ok is false where half of it or more has no reading.
func (j *joined) share(iv timeline.Interval) (x float64, ok bool) {
	for _, h := range j.curves {
		sum, covered := h.in(iv)
		if 2*covered < float64(iv.Dur()) || covered == 0 {
			return 0, false
		}
		x += sum / covered
	}
	return min(1, x), true
}

// cutShare is how much of the steps that were cut was cut.
func (j *joined) cutShare() float64 { return j.cutNS / j.inCut }

func (j *joined) run(l *timeline.GPULedger, healthy, bound float64) {
	seen := map[int]bool{}
	for i := range l.Steps {
		s := &l.Steps[i]
		iv := timeline.Interval{Start: s.Start, End: s.Start + timeline.Time(s.Dur)}
		share, ok := j.share(iv)
		early, ok1 := j.share(timeline.Interval{Start: iv.Start - j.shift, End: iv.End - j.shift})
		late, ok2 := j.share(timeline.Interval{Start: iv.Start + j.shift, End: iv.End + j.shift})
		if !ok || ok1 && math.Abs(early-share) > undecided || ok2 && math.Abs(late-share) > undecided {
			continue
		}
		j.decided++
		j.total += float64(s.Dur)
		if share < cutStep {
			continue
		}
		j.cut++
		j.cutNS += share * float64(s.Dur)
		j.inCut += float64(s.Dur)
		for _, h := range j.curves {
			for k := h.from(iv.Start); k < len(h.iv) && h.iv[k].Start < iv.End; k++ {
				if h.value[k] > 0 && (j.hit == nil || j.hit == h.s) && !seen[h.row[k]] {
					j.hit, seen[h.row[k]] = h.s, true
					j.rows = append(j.rows, h.row[k])
				}
			}
		}
		if lost, ok := j.clockLost(iv, healthy); ok {
			j.known++
			j.lost += lost * float64(s.Owners[timeline.Compute]) * bound
		}
	}
	slices.SortFunc(j.rows, cmp.Compare[int])
}

// clockLost is the mean share of the healthy clock that is missing in iv while it was cut: never more than the share that was cut.
func (j *joined) clockLost(iv timeline.Interval, healthy float64) (lost float64, ok bool) {
	if j.clocks == nil || healthy <= 0 {
		return 0, false
	}
	var sum, covered float64
	for k := j.clocks.from(iv.Start); k < len(j.clocks.iv) && j.clocks.iv[k].Start < iv.End; k++ {
		piece := timeline.Interval{Start: max(iv.Start, j.clocks.iv[k].Start), End: min(iv.End, j.clocks.iv[k].End)}
		share, ok := j.share(piece)
		if !ok {
			continue
		}
		d := float64(piece.Dur())
		covered += d
		sum += d * min(share, max(0, 1-j.clocks.value[k]/healthy))
	}
	if covered == 0 {
		return 0, false
	}
	return sum / covered, true
}

// clockBound is the share of a GPU's computing time in kernels whose speed follows the SM clock.
func clockBound(l *timeline.GPULedger) float64 {
	if l.Owners[timeline.Compute] <= 0 {
		return 0
	}
	return min(1, float64(clockBoundNS(l))/float64(l.Owners[timeline.Compute]))
}

// clockBoundNS is the time of matrix, convolution and attention kernels.
func clockBoundNS(l *timeline.GPULedger) int64 {
	return subNS(l, timeline.Compute, timeline.SubMatmul) + subNS(l, timeline.Compute, timeline.SubConv) + subNS(l, timeline.Compute, timeline.SubAttention)
}

// usualStep is the median length of the analysed steps.
func usualStep(l *timeline.GPULedger) time.Duration {
	x := make([]float64, len(l.Steps))
	for i := range l.Steps {
		x[i] = float64(l.Steps[i].Dur)
	}
	return time.Duration(median(x))
}

// seconds writes a length with two digits.
func seconds(d time.Duration) string {
	s := d.Seconds()
	for _, u := range []struct {
		at   float64
		word string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}} {
		if s >= u.at || u.word == "us" {
			x := fmt.Sprintf("%.3g", s/u.at)
			if strings.Contains(x, "e") {
				x = fmt.Sprintf("%.0f", s/u.at)
			}
			return x + " " + u.word
		}
	}
	return ""
}
