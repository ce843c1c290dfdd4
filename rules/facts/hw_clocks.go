package facts

import (
	"fmt"
	"math"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// Clock event reason bits of the driver.
const (
	reasonIdle       = 0x1
	reasonAppClocks  = 0x2
	reasonPowerCap   = 0x4
	reasonSyncBoost  = 0x10
	reasonSWThermal  = 0x20
	reasonHWThermal  = 0x40
	reasonPowerBrake = 0x80
	// reasonCut are those that lower clocks. 0x8 (hardware slowdown) comes with 0x40 or 0x80, or alone at a change of P-state.
	reasonCut = reasonPowerCap | reasonSyncBoost | reasonSWThermal | reasonHWThermal | reasonPowerBrake
	reasonHot = reasonSWThermal | reasonHWThermal | reasonPowerBrake // heat or a brake
)

func throttleDecl(id ID, what string) *Decl {
	return &Decl{ID: id, Doc: "Share of the time under load (utilisation of 50 % or more) in which " + what + ".", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C2"}
}

var (
	gpuPowerCap   = throttleDecl("gpu.throttle_power_frac", "the power limit lowered clocks (reason 0x4)")
	gpuSWThermal  = throttleDecl("gpu.throttle_sw_thermal_frac", "the driver lowered clocks for heat (reason 0x20)")
	gpuHWThermal  = throttleDecl("gpu.throttle_hw_thermal_frac", "the hardware cut clocks for heat (reason 0x40)")
	gpuPowerBrake = throttleDecl("gpu.throttle_power_brake_frac", "an outside signal cut clocks (reason 0x80)")
	gpuThrottled  = throttleDecl("gpu.throttle_any_frac", "any limit lowered clocks (reasons 0x4, 0x10, 0x20, 0x40, 0x80)")
	gpuAppClocks  = throttleDecl("gpu.app_clocks_frac", "clocks were held by a setting (reason 0x2)")
	gpuLoad       = &Decl{ID: "gpu.load_samples_count", Doc: "Utilisation samples of 50 % or more.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C2"}
)

// Throttle asks for how much of the time under load each reason cut the clocks. Best evidence first: the driver's counters, its
// reason bits in the same samples as the utilisation, then dmon's violation columns, which do not tell software from hardware heat
// and so answer that only when they never rise. Misses say which column no log holds.
var Throttle = &Deriver{Name: "throttle",
	Gives: []*Decl{gpuPowerCap, gpuSWThermal, gpuHWThermal, gpuPowerBrake, gpuThrottled, gpuAppClocks, gpuLoad},
	Run:   func(p *Pass) { p.eachGPU(p.throttleOf) }}

// minLoad is how many samples under load a statement about them needs: a snapshot proves nothing.
const minLoad = 3

func tooIdle(n int) string {
	if n == 0 {
		return "no sample shows the GPU under load (50 % utilisation or more)"
	}
	return fmt.Sprintf("only %d of the samples show the GPU under load (50 %% utilisation or more): this needs %d", n, minLoad)
}

// load is the readings under load of one card.
type load struct {
	util *timeline.Series
	on   []bool // by reading of util
	n    int
}

// loadOf marks the readings of 50 % utilisation and more.
func (p *Pass) loadOf(c *Card) load {
	l := load{util: p.series(c, timeline.SMBusy)}
	if l.util == nil {
		return l
	}
	l.on = make([]bool, len(l.util.Value))
	for i, v := range l.util.Value {
		if v >= utilLoad {
			l.on[i] = true
			l.n++
		}
	}
	return l
}

// under gives the readings of s beside those under load: indices into s.
func (p *Pass) under(l load, s *timeline.Series) []int {
	var out []int
	last := -1
	for i, j := range p.paired(l.util, s) {
		if j >= 0 && l.on[i] && j != last {
			out = append(out, j)
			last = j
		}
	}
	return out
}

func (p *Pass) throttleOf(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
	all := []*Decl{gpuPowerCap, gpuSWThermal, gpuHWThermal, gpuPowerBrake, gpuThrottled, gpuAppClocks}
	l := p.loadOf(c)
	if l.util == nil {
		p.missAll(sub, p.noMetric(c, "utilisation"), append(all, gpuLoad)...)
		return
	}
	p.Set(gpuLoad, sub, p.sampled(l.util, float64(l.n)))
	if l.n < minLoad {
		p.missAll(sub, tooIdle(l.n), all...)
		return
	}
	bits := p.series(c, timeline.Reasons)
	var under []int
	if bits != nil {
		under = p.under(l, bits)
	}
	byBit := func(mask uint64) (Value, bool) {
		if len(under) == 0 {
			return Value{}, false
		}
		var rows []int
		for _, j := range under {
			if uint64(math.Round(bits.Value[j]))&mask != 0 {
				rows = append(rows, j)
			}
		}
		v := Value{Num: float64(len(rows)) / float64(len(under)), Cover: p.cover(bits), Conf: timeline.Measured}
		v.Refs, v.NRefs = p.refsAt(bits, rows)
		return v, true
	}
	noBits := p.noMetric(c, "clock event reasons")
	if bits != nil && len(under) == 0 {
		noBits = "no reading of clock event reasons lies beside a sample under load"
	}
	one := func(d *Decl, mask uint64, counter *timeline.Metric, fall func() (Value, string)) {
		if counter != nil {
			if v, ok := p.counterShare(l, p.series(c, *counter)); ok {
				p.Set(d, sub, v)
				return
			}
		}
		if v, ok := byBit(mask); ok {
			p.Set(d, sub, v)
			return
		}
		if fall != nil {
			v, why := fall()
			if why == "" {
				p.Set(d, sub, v)
				return
			}
			p.Miss(d, sub, noBits+why)
			return
		}
		p.Miss(d, sub, noBits)
	}
	one(gpuPowerCap, reasonPowerCap, &timeline.ThrottlePower, func() (Value, string) {
		s := p.series(c, timeline.ViolPower)
		if s == nil {
			return Value{}, ", nor power violations"
		}
		at := p.under(l, s)
		if len(at) == 0 {
			return Value{}, ", and no power violation reading lies beside a sample under load"
		}
		sum := 0.0
		for _, j := range at {
			sum += min(1, max(0, s.Value[j]))
		}
		v := p.sampled(s, sum/float64(len(at)))
		v.Conf = timeline.Inferred
		return v, ""
	})
	// A thermal violation says heat, not who cut; none at all rules both out.
	noHeat := func() (Value, string) {
		s := p.series(c, timeline.ViolThermal)
		if s == nil {
			return Value{}, ", nor thermal violations"
		}
		at := p.under(l, s)
		if len(at) == 0 {
			return Value{}, ", and no thermal violation reading lies beside a sample under load"
		}
		for _, j := range at {
			if s.Value[j] > 0 {
				return Value{}, "; its thermal violations do not tell the driver from the hardware"
			}
		}
		v := p.sampled(s, 0)
		v.Conf = timeline.Inferred
		return v, ""
	}
	one(gpuSWThermal, reasonSWThermal, &timeline.ThrottleSWThermal, noHeat)
	one(gpuHWThermal, reasonHWThermal, &timeline.ThrottleHWThermal, noHeat)
	one(gpuPowerBrake, reasonPowerBrake, &timeline.ThrottlePowerBrake, nil)
	one(gpuThrottled, reasonCut, nil, nil)
	one(gpuAppClocks, reasonAppClocks, nil, nil)
}

// counterShare is the rise of a running total over the time between readings, both only where the later reading is under load.
func (p *Pass) counterShare(l load, s *timeline.Series) (Value, bool) {
	if s == nil {
		return Value{}, false
	}
	var up, span float64
	var rows []int
	for _, j := range p.under(l, s) {
		if j == 0 {
			continue
		}
		d, t := s.Value[j]-s.Value[j-1], float64(s.At[j]-s.At[j-1])/1e9
		if d < 0 { // the counter was reset
			continue
		}
		up += min(d, t)
		span += t
		if d > 0 {
			rows = append(rows, j)
		}
	}
	if span <= 0 {
		return Value{}, false
	}
	v := Value{Num: up / span, Cover: p.cover(s), Conf: timeline.Measured}
	v.Refs, v.NRefs = p.refsAt(s, rows)
	return v, true
}

var (
	gpuClock = &Decl{ID: "gpu.clock_load_hz", Doc: "Median SM clock of the samples under load.", Unit: unit.Hertz, Per: GPU, Max: 1e11, Capture: "C2"}
	gpuPeers = &Decl{ID: "gpu.clock_vs_peers_frac", Doc: "SM clock under load out of the median of the other GPUs of its model under load; 1 where it is the only GPU.",
		Unit: unit.Frac, Per: GPU, Max: 100, Capture: "C2"}
	gpuVsSpec = &Decl{ID: "gpu.clock_vs_spec_frac", Doc: "SM clock under load out of the clock behind the data sheet's compute figures.",
		Unit: unit.Frac, Per: GPU, Max: 100, Capture: "C2"}
	gpuVsMax = &Decl{ID: "gpu.clock_vs_max_frac", Doc: "SM clock under load out of the highest clock the device reports.",
		Unit: unit.Frac, Per: GPU, Max: 100, Capture: "C2"}
	gpuClockSpread = &Decl{ID: "gpu.clock_spread_frac", Doc: "Range from the 5th to the 95th percentile of the SM clock under load, out of its median.",
		Unit: unit.Frac, Per: GPU, Max: 100, Capture: "C2"}
	gpuHotClock = &Decl{ID: "gpu.clock_throttled_frac", Doc: "Mean SM clock of the throttled samples under load out of the healthy clock: the same card's before, " +
		"else its peers', else the data sheet's.", Unit: unit.Frac, Per: GPU, Max: 100, Capture: "C2"}
	gpuHealthyFrom = &Decl{ID: "gpu.clock_healthy_from", Doc: "Where the healthy clock comes from: own samples, peers, data sheet.", Unit: unit.Text, Per: GPU, Capture: "C2"}
	gpuClockBound  = &Decl{ID: "gpu.clock_bound_frac", Doc: "Share of the GPU's analysed window in matrix, convolution and attention kernels, whose speed follows the SM clock.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveHeat = &Decl{ID: "gpu.save_thermal_frac", Doc: "Step time that healthy clocks could return at most where heat cut them: gpu.thermal_cost_frac where the log tells it step by step, else clock-bound share x clock lost, around the traced window if the log covers it.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveBrake = &Decl{ID: "gpu.save_power_brake_frac", Doc: "Step time that healthy clocks could return at most where an outside signal cut them: gpu.power_brake_cost_frac where the log tells it step by step.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveCap = &Decl{ID: "gpu.save_power_cap_frac", Doc: "Step time that a healthy clock could return at most: gpu.power_cap_cost_frac where the log tells it step by step, else clock-bound share x clock lost against peers, else the data sheet.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuSaveLocked = &Decl{ID: "gpu.save_clock_locked_frac", Doc: "Step time that an unlocked clock could return at most: clock-bound share x clock lost against the data sheet, " +
		"else the device's maximum.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
)

// Clocks asks how far the SM clock under load lies below what is healthy, and what that costs. Only matrix, convolution and
// attention kernels follow the clock; without a trace their share is not known and no cost is said.
var Clocks = &Deriver{Name: "clocks", After: []*Deriver{Throttle, ThrottleSteps, LedgerShares},
	Gives: []*Decl{gpuClock, gpuPeers, gpuVsSpec, gpuVsMax, gpuClockSpread, gpuHotClock, gpuHealthyFrom, gpuClockBound,
		gpuSaveHeat, gpuSaveBrake, gpuSaveCap, gpuSaveLocked},
	Run: func(p *Pass) {
		peers := p.peerClocks()
		p.eachGPU(func(sub int, c *Card, l *timeline.GPULedger, _ *timeline.Reduced) { p.clocksOf(sub, c, l, peers) })
	}}

// peerClock is the median clock under load of one logged card.
type peerClock struct {
	name    string
	devs    []timeline.DeviceID
	clock   float64
	healthy float64 // of the samples that neither heat nor a brake cut; 0 fewer than three
	uncut   float64 // of the samples that no limit cut; 0 fewer than three
}

// isPeer tells whether it is another card of the same model.
func (o *peerClock) isPeer(c *Card) bool {
	return (o.name == c.Name || o.name == "" || c.Name == "") && !(len(o.devs) > 0 && has(c.Devices, o.devs[0]))
}

// free is its clock where none of the reasons cut it.
func (o *peerClock) free(mask uint64) float64 {
	if mask == reasonCut {
		return o.uncut
	}
	return o.healthy
}

// peerClocks gives the clocks of all cards, those that no trace drives included.
func (p *Pass) peerClocks() (out []peerClock) {
	for _, c := range Cards(p.Input) {
		if f, ok := p.clockUnderLoad(&c); ok {
			o := peerClock{name: c.Name, devs: c.Devices, clock: median(f)}
			s := p.series(&c, timeline.ClockSM)
			if h := p.freeSamples(&c, s, reasonHot); len(h) >= minLoad {
				o.healthy = median(h)
			}
			if h := p.freeSamples(&c, s, reasonCut); len(h) >= minLoad {
				o.uncut = median(h)
			}
			out = append(out, o)
		}
	}
	return out
}

func (p *Pass) clockUnderLoad(c *Card) ([]float64, bool) {
	l := p.loadOf(c)
	s := p.series(c, timeline.ClockSM)
	if l.n < minLoad || s == nil {
		return nil, false
	}
	var f []float64
	for _, j := range p.under(l, s) {
		if s.Value[j] > 0 {
			f = append(f, s.Value[j])
		}
	}
	return f, len(f) >= minLoad
}

func (p *Pass) clocksOf(sub int, c *Card, l *timeline.GPULedger, peers []peerClock) {
	// The share of kernels that follow the clock comes from the trace alone.
	if v, ok := p.Get(gpuOwner[timeline.Compute], sub); ok {
		p.Set(gpuClockBound, sub, Value{Num: min(v.Num, float64(clockBoundNS(l))/float64(l.Window.Dur())), Cover: 1, Conf: timeline.Measured})
	} else {
		p.Miss(gpuClockBound, sub, noTrace)
	}
	saves := []*Decl{gpuSaveHeat, gpuSaveBrake, gpuSaveCap, gpuSaveLocked}
	f, ok := p.clockUnderLoad(c)
	if !ok {
		why := p.noMetric(c, "the SM clock")
		if p.series(c, timeline.SMBusy) == nil {
			why = p.noMetric(c, "utilisation")
		} else if p.series(c, timeline.ClockSM) != nil {
			why = tooIdle(p.loadOf(c).n)
			if p.loadOf(c).n >= minLoad {
				why = "no SM clock reading lies beside the samples under load"
			}
		}
		p.missAll(sub, why, gpuClock, gpuPeers, gpuVsSpec, gpuVsMax, gpuClockSpread, gpuHotClock, gpuHealthyFrom)
		p.missAll(sub, why, saves...)
		return
	}
	s := p.series(c, timeline.ClockSM)
	clock := median(f)
	p.Set(gpuClock, sub, p.sampled(s, clock))
	p.Set(gpuClockSpread, sub, p.sampled(s, (quantile(f, 0.95)-quantile(f, 0.05))/clock))

	ref := func(d *Decl, base float64, why string) (float64, bool) {
		if base <= 0 {
			p.Miss(d, sub, why)
			return 0, false
		}
		p.Set(d, sub, p.sampled(s, clock/base))
		return base, true
	}
	var others, healthyOthers []float64
	for _, o := range peers {
		if o.isPeer(c) {
			others = append(others, o.clock)
			if o.healthy > 0 {
				healthyOthers = append(healthyOthers, o.healthy)
			}
		}
	}
	peer, peerOK := ref(gpuPeers, median(others), "no other GPU of its model was logged under load")
	if !peerOK && len(p.Facts.Of(GPU)) == 1 { // nothing will ever be there to compare with
		p.Set(gpuPeers, sub, p.sampled(s, 1))
	}
	specHz, specWhy := p.specClock(c)
	spec, specOK := ref(gpuVsSpec, specHz, specWhy)
	top := 0.0
	if m := p.series(c, timeline.ClockSMMax); m != nil {
		top = m.Value[argMax(m.Value)]
	}
	limit, limitOK := ref(gpuVsMax, top, p.noMetric(c, "the highest SM clock"))

	healthy, from, why := p.healthyClock(c, s, median(healthyOthers), spec)
	if healthy > 0 {
		p.Set(gpuHealthyFrom, sub, Value{Text: from, Cover: 1, Conf: timeline.Measured})
	} else {
		p.Miss(gpuHealthyFrom, sub, why)
	}
	hot := p.throttledClock(c, s, reasonHot)
	switch {
	case hot == 0 && p.series(c, timeline.Reasons) == nil:
		p.Miss(gpuHotClock, sub, p.noMetric(c, "clock event reasons"))
	case hot == 0:
		p.Miss(gpuHotClock, sub, "no sample under load was throttled")
	case healthy <= 0:
		p.Miss(gpuHotClock, sub, why)
	default:
		p.Set(gpuHotClock, sub, p.sampled(s, hot/healthy))
	}

	bound, ok := p.Get(gpuClockBound, sub)
	if !ok {
		p.missAll(sub, noTrace+", so the share of kernels that follow the clock is not known", saves...)
		return
	}
	cost := func(d *Decl, lost float64) {
		v := p.sampled(s, min(1, max(0, bound.Num*lost)))
		v.Conf = timeline.Inferred // the clock is sampled, the share is the trace's
		p.Set(d, sub, v)
	}
	cut := func(d *Decl, mask uint64, byStep *Decl, shares ...*Decl) {
		if v, ok := p.Get(byStep, sub); ok {
			p.Set(d, sub, v)
			return
		}
		total := 0.0
		for _, sh := range shares {
			v, ok := p.Get(sh, sub)
			if !ok {
				p.Miss(d, sub, p.noMetric(c, "clock event reasons"))
				return
			}
			total += v.Num
		}
		switch {
		case total == 0:
			cost(d, 0)
		case p.throttledClock(c, s, mask) == 0:
			p.Miss(d, sub, "no SM clock reading lies beside a throttled sample")
		case healthy <= 0:
			p.Miss(d, sub, why)
		default:
			cost(d, p.clockLost(c, s, mask, healthy, l.Window))
		}
	}
	cut(gpuSaveHeat, reasonSWThermal|reasonHWThermal, tieHeat.frac, gpuSWThermal, gpuHWThermal)
	cut(gpuSaveBrake, reasonPowerBrake, tieBrake.frac, gpuPowerBrake)
	byStep, known := p.Get(tieCap.frac, sub)
	switch {
	case known:
		p.Set(gpuSaveCap, sub, byStep)
	case peerOK:
		cost(gpuSaveCap, 1-clock/max(clock, peer))
	case specOK:
		cost(gpuSaveCap, 1-clock/max(clock, spec))
	default:
		p.Miss(gpuSaveCap, sub, specWhy+", and no other GPU of its model was logged under load")
	}
	switch {
	case specOK:
		cost(gpuSaveLocked, 1-clock/max(clock, spec))
	case limitOK:
		cost(gpuSaveLocked, 1-clock/max(clock, limit))
	default:
		p.Miss(gpuSaveLocked, sub, specWhy+", and "+p.noMetric(c, "the highest SM clock"))
	}
}

// healthyClock is the clock the card would hold: the median of its own samples under load that no heat or brake cut, if there are at
// least three, else that of such samples of its peers, else the data sheet's. Peers that are cut too are no measure of health.
func (p *Pass) healthyClock(c *Card, s *timeline.Series, peer, spec float64) (hz float64, from, why string) {
	if f := p.freeSamples(c, s, reasonHot); len(f) >= minLoad {
		return median(f), "its own samples that nothing throttled", ""
	}
	switch {
	case peer > 0:
		return peer, "the other GPUs of its model", ""
	case spec > 0:
		return spec, "the data sheet", ""
	}
	return 0, "", "neither healthy samples, nor peers, nor a data sheet entry give a healthy clock"
}

// freeSamples are the clocks under load that none of the reasons cut; none where no reasons were read.
func (p *Pass) freeSamples(c *Card, s *timeline.Series, mask uint64) (f []float64) {
	bits := p.series(c, timeline.Reasons)
	if bits == nil || s == nil {
		return nil
	}
	beside := p.paired(s, bits)
	for _, j := range p.under(p.loadOf(c), s) {
		if k := beside[j]; k >= 0 && uint64(math.Round(bits.Value[k]))&mask == 0 {
			f = append(f, s.Value[j])
		}
	}
	return f
}

// throttledClock is the mean clock of the samples under load with any of the reasons; 0 if there is none.
func (p *Pass) throttledClock(c *Card, s *timeline.Series, mask uint64) float64 {
	bits := p.series(c, timeline.Reasons)
	if bits == nil {
		return 0
	}
	beside := p.paired(s, bits)
	var f []float64
	for _, j := range p.under(p.loadOf(c), s) {
		if k := beside[j]; k >= 0 && uint64(math.Round(bits.Value[k]))&mask != 0 {
			f = append(f, s.Value[j])
		}
	}
	if len(f) == 0 {
		return 0
	}
	return mean(f)
}

// around is how far from the traced window a clock reading may lie to speak of it: traces last seconds, logs read once a second.
const around = timeline.Time(5e9)

// clockLost is the mean share of the healthy clock that the reasons took, over the samples under load: of those inside the traced window if
// the log shows at least three there, else of those around it, for throttling comes and goes, else of the whole log.
func (p *Pass) clockLost(c *Card, s *timeline.Series, mask uint64, healthy float64, traced timeline.Interval) float64 {
	bits := p.series(c, timeline.Reasons)
	beside := p.paired(s, bits)
	var all, near, inside []float64
	for _, j := range p.under(p.loadOf(c), s) {
		k := beside[j]
		if k < 0 {
			continue
		}
		lost := 0.0
		if uint64(math.Round(bits.Value[k]))&mask != 0 {
			lost = max(0, 1-s.Value[j]/healthy)
		}
		all = append(all, lost)
		if placed(p.Base, s) && s.At[j] >= traced.Start-around && s.At[j] <= traced.End+around {
			near = append(near, lost)
			if s.At[j] >= traced.Start && s.At[j] <= traced.End {
				inside = append(inside, lost)
			}
		}
	}
	switch {
	case len(inside) >= minLoad:
		return mean(inside)
	case len(near) >= minLoad:
		return mean(near)
	case len(all) > 0:
		return mean(all)
	}
	return 0
}

// specClock is the clock behind the data sheet's compute figures.
func (p *Pass) specClock(c *Card) (hz float64, why string) {
	g, why := p.model(c)
	switch {
	case g == nil:
		return 0, why
	case g.BoostHz <= 0:
		return 0, "the GPU table states no clock for " + g.ID
	}
	return g.BoostHz, ""
}

// model is the card's row in the table of GPUs; nil with the reason.
func (p *Pass) model(c *Card) (*ledger.GPU, string) {
	if c.Name == "" {
		return nil, "no log names the GPU's model"
	}
	if p.Tables == nil {
		return nil, "no table of GPUs was loaded"
	}
	var memory int64
	sms, cc := 0, ""
	note := func(d *timeline.Device) {
		memory, sms = max(memory, d.Memory), max(sms, d.SMs)
		if cc == "" {
			cc = d.CC
		}
	}
	for _, id := range c.Devices {
		note(&p.Base.Devices[id])
	}
	if c.Trace >= 0 {
		g := p.Job.GPUs[c.Trace]
		note(&p.Job.Ranks[g.Rank].GPUs[g.GPU].Device)
	}
	m := p.Tables.FindGPU(c.Name, memory, sms, cc)
	switch {
	case m.GPU != nil:
		return m.GPU, ""
	case len(m.Ambiguous) > 0:
		return nil, fmt.Sprintf("%s may be one of %s", c.Name, join(m.Ambiguous, ", "))
	}
	return nil, fmt.Sprintf("the GPU table has no entry for %s", c.Name)
}
