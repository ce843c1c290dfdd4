package facts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const (
	sameClock  = 0.95 // of its peers' clock: healthy cards of one node differ by this much
	sameLimit  = 0.95
	sameLink   = 0.99 // another generation or width is a half or less
	heatShare  = 0.05 // of the readings under load, as hw.thermal judges the driver's cut
	farCPUs    = 0.99 // as hw.numa
	hotter     = 10.0 // degrees over its peers that are worth a word
	busierHost = 0.25 // of all its CPUs that another host is busier by
	// sureClock is how surely a log must be placed for "the same seconds" to mean anything.
	sureClock = 5 * time.Second
)

var (
	runCardFlag = &Decl{ID: "run.culprit_card_flag", Unit: unit.Flag, Per: Run, Max: 1, Capture: "C2",
		Doc: "Whether readings of the late rank's GPU, beside those of its peers in the same seconds, show a fault that holds it up: clocks cut, a lower power limit, a slower PCIe link, an Xid or a memory error."}
	runCardRuledOut = &Decl{ID: "run.culprit_card_ruled_out_flag", Unit: unit.Flag, Per: Run, Max: 1, Capture: "C2",
		Doc: "Whether the readings of the late rank's GPU were there and equal its peers' in the same seconds, so that its card is not what makes it late."}
	runCardSays = &Decl{ID: "run.culprit_card_says", Unit: unit.Text, Per: Run, Capture: "C2",
		Doc: "What the readings of the late rank's GPU say beside those of its peers in the same seconds."}
	runCardClock = &Decl{ID: "run.culprit_clock_vs_peers_frac", Unit: unit.Frac, Per: Run, Max: 100, Capture: "C2",
		Doc: "SM clock of the late rank's GPU under load, out of the median of its peers' in the same seconds."}
)

// LateCard asks what the sampled logs say of the late rank's GPU in the seconds of the traced steps. Missing where no one rank is late, or
// where its card was not sampled in those seconds.
var LateCard = &Deriver{Name: "late-card", After: []*Deriver{Straggler}, Gives: []*Decl{runCardFlag, runCardRuledOut, runCardSays, runCardClock}, Run: func(p *Pass) {
	all := []*Decl{runCardFlag, runCardRuledOut, runCardSays, runCardClock}
	culprit, ok := p.Get(runCulprit, 0)
	if !ok {
		_, need := p.Facts.Get(0, runCulprit.ID)
		p.missAll(0, need.Why, all...)
		return
	}
	l := cardOfLate(p, int(culprit.Num))
	if l.Why != "" {
		p.missAll(0, l.Why, all...)
		return
	}
	v := Value{Cover: 1, Refs: l.Refs, NRefs: l.NRefs, Conf: l.Conf}
	flag := func(d *Decl, on bool) {
		v := v
		if on {
			v.Num = 1
		}
		p.Set(d, 0, v)
	}
	flag(runCardFlag, l.Cause != "")
	flag(runCardRuledOut, l.RuledOut)
	text := v
	text.Text = l.Says
	p.Set(runCardSays, 0, text)
	if l.Clock > 0 {
		v.Num = min(100, l.Clock)
		p.Set(runCardClock, 0, v)
	} else {
		p.Miss(runCardClock, 0, "no SM clock of it and of a peer of its model was read under load in those seconds")
	}
}}

// lateCard is what the readings of a late rank's GPU say beside those of its peers in the same seconds.
type lateCard struct {
	Why      string  // not "": nothing is known, and why
	Cause    string  // causeHardware where a reading shows a fault of the card, its power or its link; else ""
	Slows    string  // what the fault slows: causeCompute, causeTransfer; "" where Cause is "" or anything may follow from it
	RuledOut bool    // clocks were compared, nothing is worse than its peers', and the log is surely of those seconds
	Clock    float64 // SM clock under load out of its peers'; 0 unknown
	Says     string  // one sentence: which reading
	Conf     Confidence
	Refs     []Ref
	NRefs    int
}

// cardOfLate looks up the card of the rank that is late. Peers are the other cards of its model that a traced rank drives. Where the log is
// placed within five seconds the readings of the traced window and five seconds around it count, else all of the log, which rules nothing out.
func cardOfLate(p *Pass, culprit int) lateCard {
	cards := Cards(p.Input)
	late := -1
	for i := range cards {
		if c := &cards[i]; c.Trace >= 0 {
			g := p.Job.GPUs[c.Trace]
			if r := p.Job.Ranks[g.Rank]; r.Process.Rank == culprit && &r.GPUs[g.GPU] == mainGPU(r) {
				late = i
				break
			}
		}
	}
	if late < 0 {
		return lateCard{Why: fmt.Sprintf("no GPU of rank %d is known", culprit)}
	}
	l := cardLook{p: p, c: &cards[late], out: lateCard{Conf: timeline.Measured}}
	for i := range cards {
		if c := &cards[i]; i != late && c.Trace >= 0 && p.Job.GPUs[c.Trace].Rank != p.Job.GPUs[l.c.Trace].Rank && (c.Name == l.c.Name || c.Name == "" || l.c.Name == "") {
			l.peers = append(l.peers, c)
		}
	}
	l.window()
	l.errors()
	l.clocks()
	l.reasons()
	l.limit()
	l.link()
	l.beside()
	return l.sentence(culprit)
}

// cardLook compares one card with its peers.
type cardLook struct {
	p     *Pass
	c     *Card
	peers []*Card
	near  timeline.Interval // readings inside count; empty: all of them
	out   lateCard
	worse []string // what is a fault
	odd   []string // what differs and is none
	equal []string
	open  bool // something differs that could hold the card up and is not proven to
}

// window sets which readings count.
func (l *cardLook) window() {
	g := l.p.Job.GPUs[l.c.Trace]
	w := l.p.Job.Ranks[g.Rank].GPUs[g.GPU].Window
	if w.Empty() {
		l.out.Conf = timeline.Inferred
		return
	}
	sure := func(c *Card) bool {
		for _, m := range []timeline.Metric{timeline.SMBusy, timeline.ClockSM} {
			if s := l.p.series(c, m); s != nil && (!placed(l.p.Base, s) || l.p.clockError(s) > sureClock) {
				return false
			}
		}
		return true
	}
	if !sure(l.c) {
		l.out.Conf = timeline.Inferred // the whole log speaks, for nobody knows which part of it is of the steps
		return
	}
	l.peers = slices.DeleteFunc(l.peers, func(c *Card) bool { return !sure(c) })
	l.near = timeline.Interval{Start: w.Start - around, End: w.End + around}
}

// clockError is how far off the readings of s may be placed.
func (p *Pass) clockError(s *timeline.Series) time.Duration {
	return p.Base.Clocks[p.Base.Sources[p.Base.Tracks[s.Track].Source].Clock].Error
}

// loaded is the load of a card in the seconds that count.
func (l *cardLook) loaded(c *Card) load {
	ld := l.p.loadOf(c)
	if ld.util == nil || l.near.Empty() {
		return ld
	}
	ld.n = 0
	for i, at := range ld.util.At {
		ld.on[i] = ld.on[i] && at >= l.near.Start && at <= l.near.End
		if ld.on[i] {
			ld.n++
		}
	}
	return ld
}

// read gives the readings of a metric under load in the seconds that count: indices into the series.
func (l *cardLook) read(c *Card, m timeline.Metric) (*timeline.Series, []int) {
	s := l.p.series(c, m)
	ld := l.loaded(c)
	if s == nil || ld.n == 0 {
		return nil, nil
	}
	return s, l.p.under(ld, s)
}

// usual gives the median of a metric under load, 0 false without minLoad readings.
func (l *cardLook) usual(c *Card, m timeline.Metric) (float64, bool) {
	s, at := l.read(c, m)
	if len(at) < minLoad {
		return 0, false
	}
	x := make([]float64, len(at))
	for i, j := range at {
		x[i] = s.Value[j]
	}
	return median(x), true
}

// ofPeers is the median over the peers that have a number.
func (l *cardLook) ofPeers(of func(*Card) (float64, bool)) (float64, bool) {
	var x []float64
	for _, c := range l.peers {
		if v, ok := of(c); ok {
			x = append(x, v)
		}
	}
	return median(x), len(x) > 0
}

func (l *cardLook) blame(slows string, says string) {
	if l.out.Cause == "" {
		l.out.Cause, l.out.Slows = causeHardware, slows
	} else if l.out.Slows != slows {
		l.out.Slows = ""
	}
	l.worse = append(l.worse, says)
}

func (l *cardLook) refer(s *timeline.Series, at []int) {
	refs, n := l.p.refsAt(s, at)
	l.out.NRefs += n
	for _, r := range refs {
		if len(l.out.Refs) < maxRefs {
			l.out.Refs = append(l.out.Refs, r)
		}
	}
}

func mhz(hz float64) string { return fmt.Sprintf("%.0f MHz", hz/1e6) }

// clocks compares the SM and the memory clock. A low SM clock is a fault of the card only where its reasons say what cut it, or none was
// read: a card that works while its peers spin in a collective draws more power, and a power limit then takes clock from it alone.
func (l *cardLook) clocks() {
	mine, ok := l.usual(l.c, timeline.ClockSM)
	theirs, has := l.ofPeers(func(c *Card) (float64, bool) { return l.usual(c, timeline.ClockSM) })
	if ok && has && theirs > 0 {
		l.out.Clock = mine / theirs
		s, at := l.read(l.c, timeline.ClockSM)
		l.refer(s, at)
		says := fmt.Sprintf("its SM clock under load was %s against %s", mhz(mine), mhz(theirs))
		capped, known := l.share(l.c, reasonPowerCap)
		switch {
		case l.out.Clock >= sameClock:
			l.equal = append(l.equal, says)
		case known && capped >= 0.5 && l.heat(l.c) < heatShare:
			l.odd, l.open = append(l.odd, says+", held by its power limit"), true
		default:
			l.blame(causeCompute, says)
		}
	}
	mem, ok := l.usual(l.c, timeline.ClockMem)
	if theirs, has := l.ofPeers(func(c *Card) (float64, bool) { return l.usual(c, timeline.ClockMem) }); ok && has && mem < sameClock*theirs {
		l.blame(causeCompute, fmt.Sprintf("its memory clock was %s against %s", mhz(mem), mhz(theirs)))
	}
}

// share is how many of the readings under load name a reason.
func (l *cardLook) share(c *Card, mask uint64) (float64, bool) {
	s, at := l.read(c, timeline.Reasons)
	if len(at) < minLoad {
		return 0, false
	}
	n := 0
	for _, j := range at {
		if uint64(math.Round(s.Value[j]))&mask != 0 {
			n++
		}
	}
	return float64(n) / float64(len(at)), true
}

// heat is the share of the time under load in which heat or a brake cut the clocks: by the driver's counters, else by the reason bits.
func (l *cardLook) heat(c *Card) float64 {
	most, _ := l.share(c, reasonSWThermal|reasonHWThermal|reasonPowerBrake)
	for _, m := range []timeline.Metric{timeline.ThrottleSWThermal, timeline.ThrottleHWThermal, timeline.ThrottlePowerBrake} {
		if s := l.p.series(c, m); s != nil {
			if v, ok := l.p.counterShare(l.loaded(c), s); ok {
				most = max(most, v.Num)
			}
		}
	}
	return most
}

func (l *cardLook) reasons() {
	mine := l.heat(l.c)
	theirs, _ := l.ofPeers(func(c *Card) (float64, bool) { return l.heat(c), true })
	var why []string
	for _, r := range []struct {
		mask uint64
		word string
	}{{reasonSWThermal | reasonHWThermal, "heat"}, {reasonPowerBrake, "an outside signal"}} {
		if n, ok := l.share(l.c, r.mask); ok && n > 0 {
			why = append(why, r.word)
		}
	}
	if len(why) == 0 {
		why = []string{"heat or an outside signal"}
	}
	switch s, at := l.read(l.c, timeline.Reasons); {
	case mine >= heatShare && mine > 2*theirs:
		if s != nil {
			l.refer(s, at)
		}
		l.blame(causeCompute, fmt.Sprintf("%s cut its clocks in %.0f %% of the time under load against %.0f %%", strings.Join(why, " and "), 100*mine, 100*theirs))
	case mine >= heatShare:
		l.odd = append(l.odd, fmt.Sprintf("%s cut its clocks in %.0f %% of the time under load, its peers' as often", strings.Join(why, " and "), 100*mine))
	case len(at) >= minLoad:
		l.equal = append(l.equal, "neither heat nor a brake cut it")
	}
}

func (l *cardLook) limit() {
	watts := func(c *Card) (float64, bool) { w, _, ok := l.p.powerLimit(c); return w, ok }
	mine, v, ok := l.p.powerLimit(l.c)
	theirs, has := l.ofPeers(watts)
	switch {
	case !ok || !has:
	case mine < sameLimit*theirs:
		l.out.Refs, l.out.NRefs = append(l.out.Refs, v.Refs...), l.out.NRefs+v.NRefs
		l.blame(causeCompute, fmt.Sprintf("its power limit is %.0f W against %.0f W", mine, theirs))
	default:
		l.equal = append(l.equal, fmt.Sprintf("its power limit is theirs, %.0f W", mine))
	}
}

// link compares generation and width of the PCIe link under load.
func (l *cardLook) link() {
	if l.p.Tables == nil {
		return
	}
	rate := func(c *Card) (float64, bool) {
		gen, ok := l.usual(c, timeline.PCIeGen)
		width, ok2 := l.usual(c, timeline.PCIeWidth)
		return l.p.Tables.Links.PCIe(int(gen), int(width)), ok && ok2
	}
	mine, ok := rate(l.c)
	theirs, has := l.ofPeers(rate)
	if !ok || !has || mine <= 0 || theirs <= 0 {
		return
	}
	gen, _ := l.usual(l.c, timeline.PCIeGen)
	width, _ := l.usual(l.c, timeline.PCIeWidth)
	if mine >= sameLink*theirs {
		l.equal = append(l.equal, fmt.Sprintf("its PCIe link ran at Gen%.0f x%.0f like theirs", gen, width))
		return
	}
	s, at := l.read(l.c, timeline.PCIeGen)
	l.refer(s, at)
	l.blame(causeTransfer, fmt.Sprintf("its PCIe link ran at Gen%.0f x%.0f, at %.0f %% of theirs", gen, width, 100*mine/theirs))
}

// errors looks for what the kernel logged of the card and for uncorrected memory errors that rose.
func (l *cardLook) errors() {
	m := &l.p.Base.Marks
	var codes []string
	for i := range m.At {
		tr := &l.p.Base.Tracks[m.Track[i]]
		if m.Kind[i] != timeline.MarkXid && m.Kind[i] != timeline.MarkGPULost || tr.Device < 0 || !has(l.c.Devices, tr.Device) || !l.p.inWindow(l.p.Base.Lead(i)) {
			continue
		}
		word := "it was lost"
		if m.Kind[i] == timeline.MarkXid {
			if l.p.Tables == nil {
				continue
			}
			x := l.p.Tables.Xid(m.Code[i])
			if !x.Hardware() {
				continue
			}
			word = fmt.Sprintf("Xid %d (%s)", x.Code, x.Means)
		}
		if len(codes) == 0 || codes[len(codes)-1] != word {
			codes = append(codes, word)
		}
		if l.out.NRefs++; len(l.out.Refs) < maxRefs {
			l.out.Refs = append(l.out.Refs, l.p.markRef(i))
		}
	}
	if len(codes) > 0 {
		l.blame("", "its log holds "+strings.Join(codes[:min(len(codes), 3)], ", "))
	}
	for _, metric := range []timeline.Metric{timeline.ECCVolUnc, timeline.ECCUncorrected} {
		if s := l.p.series(l.c, metric); s != nil {
			if rise, at := growth(s); rise > 0 {
				l.refer(s, at)
				l.blame("", fmt.Sprintf("%.0f uncorrected memory errors came in the window", rise))
				return
			}
		}
	}
}

// beside adds what differs and is no fault of the card: heat that cuts nothing, the socket of its process, a busier host.
func (l *cardLook) beside() {
	if t, ok := l.usual(l.c, timeline.TempGPU); ok {
		if theirs, has := l.ofPeers(func(c *Card) (float64, bool) { return l.usual(c, timeline.TempGPU) }); has && t >= theirs+hotter {
			l.odd = append(l.odd, fmt.Sprintf("it was at %.0f °C against %.0f °C", t, theirs))
		}
	}
	far := func(c *Card) (float64, bool) {
		near, _, ok := l.p.nearCPUs(c)
		set, _, ok2 := l.p.processCPUs(c, l.p.Job.Ranks[l.p.Job.GPUs[c.Trace].Rank])
		if !ok || !ok2 {
			return 0, false
		}
		n := 0
		for cpu := range set {
			if !near[cpu] {
				n++
			}
		}
		return float64(n) / float64(len(set)), true
	}
	if mine, ok := far(l.c); ok && mine >= farCPUs {
		if theirs, has := l.ofPeers(far); !has || theirs < farCPUs {
			l.odd = append(l.odd, "its process may only run on CPUs of another socket than the GPU's")
		}
	}
	rx, ok := l.usual(l.c, timeline.PCIeRx)
	if theirs, has := l.ofPeers(func(c *Card) (float64, bool) { return l.usual(c, timeline.PCIeRx) }); ok && has && theirs > 1e8 && 2*rx < theirs {
		l.odd = append(l.odd, fmt.Sprintf("%.1f GB/s came to it over PCIe against %.1f GB/s", rx/1e9, theirs/1e9))
	}
	busy := func(c *Card) (float64, bool) {
		host := l.p.Facts.holder(l.subject(c), Host)
		if host < 0 || host == l.p.Facts.holder(l.subject(l.c), Host) && c != l.c {
			return 0, false
		}
		s := l.p.whole(host, timeline.CPUBusy)
		if s == nil {
			return 0, false
		}
		var x []float64
		for i, at := range s.At {
			if l.near.Empty() || at >= l.near.Start && at <= l.near.End {
				x = append(x, s.Value[i])
			}
		}
		return median(x), len(x) > 0
	}
	mine, ok := busy(l.c)
	if theirs, has := l.ofPeers(busy); ok && has && mine >= theirs+busierHost {
		l.odd = append(l.odd, fmt.Sprintf("the CPUs of its host were %.0f %% busy against %.0f %%", 100*mine, 100*theirs))
	}
}

func (l *cardLook) subject(c *Card) int {
	for _, sub := range l.p.Facts.Of(GPU) {
		if l.p.Facts.Subjects[sub].ID == c.ID {
			return sub
		}
	}
	return -1
}

func (l *cardLook) sentence(culprit int) lateCard {
	out := l.out
	name := fmt.Sprintf("%s of rank %d", inWords(Subject{ID: l.c.ID}), culprit)
	when := "in the seconds of the steps"
	if l.near.Empty() {
		when = "over the whole log, which cannot be placed on the steps"
	}
	out.RuledOut = out.Cause == "" && out.Clock > 0 && !l.open && !l.near.Empty()
	with := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return "; " + strings.Join(list, ", ")
	}
	switch {
	case out.Cause != "":
		out.Says = fmt.Sprintf("%s, beside its peers %s: %s%s", name, when, strings.Join(l.worse, ", "), with(l.odd))
	case out.RuledOut:
		out.Says = fmt.Sprintf("%s reads like its peers %s: %s%s", name, when, strings.Join(l.equal, ", "), with(l.odd))
	case len(l.equal)+len(l.odd) > 0:
		out.Says = fmt.Sprintf("%s, beside its peers %s: %s; that neither blames nor clears it", name, when, strings.Join(append(l.odd, l.equal...), ", "))
	default:
		out.Why = l.p.noneNear(l.c, l.near, len(l.peers))
	}
	return out
}

// noneNear says why nothing of a card could be compared.
func (p *Pass) noneNear(c *Card, near timeline.Interval, peers int) string {
	s := p.series(c, timeline.SMBusy)
	switch {
	case s == nil:
		return p.noMetric(c, "utilisation")
	case peers == 0:
		return "no other traced GPU of its model is there to compare it with"
	case !near.Empty() && (s.At[0] > near.End || s.At[len(s.At)-1] < near.Start):
		return "the log of the late rank's GPU is of other seconds than the traced steps"
	}
	return fmt.Sprintf("fewer than %d readings show the late rank's GPU and a peer under load in the seconds of the traced steps", minLoad)
}
