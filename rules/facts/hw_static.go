package facts

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// attr gives what the sources state of a card under a name: of several statements the latest.
func (p *Pass) attr(c *Card, name string) (timeline.Attr, bool) {
	return p.attrWhere(name, func(tr *timeline.Track) bool { return tr.Kind == timeline.TrackGPU && has(c.Devices, tr.Device) })
}

func (p *Pass) attrWhere(name string, mine func(*timeline.Track) bool) (best timeline.Attr, ok bool) {
	for i := range p.Base.Attrs {
		a := &p.Base.Attrs[i]
		if a.Name == name && mine(&p.Base.Tracks[a.Track]) && (!ok || a.At >= best.At) {
			best, ok = *a, true
		}
	}
	return best, ok
}

func (p *Pass) attrRef(a *timeline.Attr) []Ref {
	tr := p.Base.Tracks[a.Track]
	return []Ref{{Path: p.Base.Sources[tr.Source].Path, Table: p.Base.Names.Get(tr.Table), Row: uint64(a.Row)}}
}

func (p *Pass) markRef(i int) Ref {
	tr := p.Base.Tracks[p.Base.Marks.Track[i]]
	return Ref{Path: p.Base.Sources[tr.Source].Path, Table: p.Base.Names.Get(tr.Table), Row: uint64(p.Base.Marks.Row[i])}
}

var (
	gpuXids = &Decl{ID: "gpu.xid_hardware_count", Doc: "Xids of the GPU inside the window that speak of broken hardware or firmware, by rules/tables/xids.yaml; one that only follows a peer's link is left out.",
		Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C3"}
	gpuXidApp = &Decl{ID: "gpu.xid_application_count", Doc: "Xids of the GPU inside the window that an application's own fault usually causes.",
		Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C3"}
	gpuXidLink = &Decl{ID: "gpu.xid_nvlink_count", Doc: "Xids of the GPU inside the window that speak of its NVLinks.",
		Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C3"}
	gpuXidText = &Decl{ID: "gpu.xid_text", Doc: "The Xids of the GPU inside the window: number, meaning, how often, when first.", Unit: unit.Text, Per: GPU, Capture: "C3"}
	gpuXidKind = &Decl{ID: "gpu.xid_kind", Doc: "What the gravest Xid inside the window calls for: restart, reset, memory, nvlink, vendor, application, note.",
		Unit: unit.Text, Per: GPU, Capture: "C3"}
	gpuXidAct = &Decl{ID: "gpu.xid_action", Doc: "What the gravest Xid inside the window calls for, in words.", Unit: unit.Text, Per: GPU, Capture: "C3"}
	runSXids  = &Decl{ID: "run.sxid_count", Doc: "Errors of NVSwitches (SXid) that the kernel logged inside the window.", Unit: unit.Count, Per: Run, Max: 1e9, Capture: "C3"}
)

// gravest orders the kinds of Xids.
var gravest = []string{"restart", "memory", "nvlink", "reset", "vendor", "app", ledger.XidUnlisted, "note", "ignore"}

// Xids asks what the kernel logged of each GPU inside the window. A log whose clock cannot be placed says that something happened, not
// when: that counts where nothing else has a time, else it is Missing. Without a source that would have shown Xids: Missing.
var Xids = &Deriver{Name: "xids", Gives: []*Decl{gpuXids, gpuXidApp, gpuXidLink, gpuXidText, gpuXidKind, gpuXidAct, runSXids}, Run: func(p *Pass) {
	watched, why := p.watched(timeline.MarkXid)
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) { p.xidsOf(sub, c, watched, why) })
	p.sxids()
}}

// watched tells whether some source that would have shown events of a kind covers the window, and how much of it.
func (p *Pass) watched(kind timeline.MarkKind) (cover float64, why string) {
	why = "no kernel log was given"
	var parts []timeline.Interval
	for i := range p.Base.Sources {
		s := &p.Base.Sources[i]
		if !s.Used || !slices.Contains(s.Watches, kind) {
			continue
		}
		if p.Base.Clocks[s.Clock].How == timeline.Unplaced && !p.Window.Empty() {
			why = fmt.Sprintf("when the entries of %s were written cannot be told: %s", s.Path, p.Base.Clocks[s.Clock].Why)
			continue
		}
		if p.Window.Empty() {
			return 1, ""
		}
		parts = append(parts, s.Coverage...)
	}
	if len(parts) == 0 {
		return 0, why
	}
	if cover = p.coverOf(parts); cover == 0 {
		return 0, "the kernel log says nothing of the time of the recording"
	}
	return cover, ""
}

// coverOf is the share of the window that the parts cover together.
func (p *Pass) coverOf(parts []timeline.Interval) float64 {
	sort.Slice(parts, func(i, j int) bool { return parts[i].Start < parts[j].Start })
	var sum, upto = timeline.Time(0), p.Window.Start
	for _, iv := range parts {
		a, b := max(iv.Start, upto), min(iv.End, p.Window.End)
		if b > a {
			sum += b - a
			upto = b
		}
	}
	return min(1, float64(sum)/float64(p.Window.Dur()))
}

// inWindow tells whether a mark lies in the window; where there is none, and where its clock is not placed, everything does not: only
// the former counts.
func (p *Pass) inWindow(i int) bool {
	if p.Window.Empty() {
		return true
	}
	src := &p.Base.Sources[p.Base.Tracks[p.Base.Marks.Track[i]].Source]
	at := p.Base.Marks.At[i]
	return p.Base.Clocks[src.Clock].How != timeline.Unplaced && at >= p.Window.Start && at <= p.Window.End
}

// countMark counts the event of mark i once, whatever the number of logs that hold it, and refers to each of them.
func (p *Pass) countMark(v *Value, i int) {
	if p.Base.Lead(i) == i {
		v.Num++
	}
	v.NRefs++
	if len(v.Refs) < maxRefs {
		v.Refs = append(v.Refs, p.markRef(i))
	}
}

// Of NVLink 5: the link's own card logs the one, and its peers the other behind it (marin-community/marin#9086).
const (
	xidLinkDown = 149
	xidPeerLost = 145
	xidTogether = timeline.Time(60e9)
)

// behindPeer tells whether the Xid of mark i is the echo of another card's link that went down: no fault of the card that logged it.
func (p *Pass) behindPeer(c *Card, i int) bool {
	m := &p.Base.Marks
	if m.Code[i] != xidPeerLost {
		return false
	}
	for k := range m.At {
		d := p.Base.Tracks[m.Track[k]].Device
		if m.Kind[k] == timeline.MarkXid && m.Code[k] == xidLinkDown && d >= 0 && !has(c.Devices, d) && max(m.At[k]-m.At[i], m.At[i]-m.At[k]) <= xidTogether {
			return true
		}
	}
	return false
}

func (p *Pass) xidsOf(sub int, c *Card, cover float64, why string) {
	type seen struct {
		x     ledger.Xid
		n     int
		first timeline.Time
	}
	var list []seen
	var hard, app, link Value
	m := &p.Base.Marks
	for i := range m.At {
		tr := p.Base.Tracks[m.Track[i]]
		if m.Kind[i] != timeline.MarkXid || tr.Device < 0 || !has(c.Devices, tr.Device) || !p.inWindow(p.Base.Lead(i)) {
			continue
		}
		x := p.Tables.Xid(m.Code[i])
		switch {
		case p.behindPeer(c, i):
		case x.Hardware():
			p.countMark(&hard, i)
			if x.Kind == "nvlink" {
				p.countMark(&link, i)
			}
		case x.Kind == "app":
			p.countMark(&app, i)
		}
		if p.Base.Lead(i) != i { // another log of the same event: a row more to show
			continue
		}
		k := sort.Search(len(list), func(k int) bool { return list[k].x.Code >= x.Code })
		if k == len(list) || list[k].x.Code != x.Code {
			list = append(list[:k], append([]seen{{x: x, first: m.At[i]}}, list[k:]...)...)
		}
		list[k].n++
	}
	all := []*Decl{gpuXids, gpuXidApp, gpuXidLink, gpuXidText, gpuXidKind, gpuXidAct}
	if len(list) == 0 && why != "" {
		p.missAll(sub, why, all...)
		return
	}
	cover = max(cover, 1e-9)
	for _, f := range []struct {
		d *Decl
		v Value
	}{{gpuXids, hard}, {gpuXidApp, app}, {gpuXidLink, link}} {
		f.v.Cover, f.v.Conf = cover, timeline.Measured
		p.Set(f.d, sub, f.v)
	}
	text, kind, act := "none", "none", "nothing"
	if len(list) > 0 {
		worst := list[0]
		var words []string
		for _, s := range list {
			if slices.Index(gravest, s.x.Kind) < slices.Index(gravest, worst.x.Kind) {
				worst = s
			}
			w := fmt.Sprintf("Xid %d (%s)", s.x.Code, s.x.Means)
			if s.n > 1 {
				w += fmt.Sprintf(" %d times", s.n)
			}
			if !p.Window.Empty() {
				w += fmt.Sprintf(" at +%.1f s", float64(s.first-p.Window.Start)/1e9)
			}
			words = append(words, w)
		}
		text, kind, act = strings.Join(words, ", "), worst.x.Kind, worst.x.Act
		if kind == "app" {
			kind = "application"
		}
	}
	p.Set(gpuXidText, sub, Value{Text: text, Cover: cover, Conf: timeline.Measured})
	p.Set(gpuXidKind, sub, Value{Text: kind, Cover: cover, Conf: timeline.Measured})
	p.Set(gpuXidAct, sub, Value{Text: act, Cover: cover, Conf: timeline.Measured})
}

func (p *Pass) sxids() {
	cover, why := p.watched(timeline.MarkSXid)
	v := Value{Cover: max(cover, 1e-9), Conf: timeline.Measured}
	for i := range p.Base.Marks.At {
		if p.Base.Marks.Kind[i] == timeline.MarkSXid && p.inWindow(p.Base.Lead(i)) {
			p.countMark(&v, i)
		}
	}
	if v.Num == 0 && why != "" {
		p.Miss(runSXids, 0, why)
		return
	}
	p.Set(runSXids, 0, v)
}

var (
	gpuRemapPending = &Decl{ID: "gpu.remap_pending_flag", Doc: "Whether a row remap or page retirement of the GPU's memory waits for a reset.", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C3"}
	gpuRemapFailed  = &Decl{ID: "gpu.remap_failed_flag", Doc: "Whether a row of the GPU's memory could not be remapped.", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C3"}
	gpuSRAM         = &Decl{ID: "gpu.sram_threshold_flag", Doc: "Whether the driver says that errors of the GPU's SRAM passed its threshold; no where it states other errors of the memory and not this.", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C3"}
	gpuECC          = &Decl{ID: "gpu.ecc_uncorrected_count", Doc: "Uncorrected memory errors of the GPU since its driver was loaded; where only the total of the card's life is recorded, how far it rose inside the window.", Unit: unit.Count, Per: GPU, Max: 1e15, Capture: "C3"}
	gpuRecovery     = &Decl{ID: "gpu.reset_required_flag", Doc: "Whether the driver says that the GPU needs a reset, a reboot or a drain.", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C3"}
)

// ECC asks whether the GPU's memory broke: remaps that wait or failed, uncorrected errors, a recovery action that the driver asks for.
// Correctable errors are never asked: they explain no slow step. Missing where no source states them.
var ECC = &Deriver{Name: "ecc", Gives: []*Decl{gpuRemapPending, gpuRemapFailed, gpuSRAM, gpuECC, gpuRecovery}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		p.highest(gpuRemapPending, sub, c, "row remaps", timeline.RemapPending, timeline.RetirePending)
		p.highest(gpuRemapFailed, sub, c, "row remaps", timeline.RemapFailed)
		p.uncorrected(sub, c)
		p.sramThreshold(sub, c)
		v, ok := Value{Cover: 1, Conf: timeline.Measured}, false
		for _, name := range []string{timeline.AttrResetRequired, timeline.AttrDrain} {
			if a, has := p.attr(c, name); has {
				ok = true
				if a.Value > 0 || strings.EqualFold(a.Text, "yes") {
					v.Num, v.Refs, v.NRefs = 1, p.attrRef(&a), 1
				}
			}
		}
		if a, has := p.attr(c, timeline.AttrRecovery); has {
			ok = true
			if !strings.EqualFold(a.Text, "none") {
				v.Num, v.Refs, v.NRefs = 1, p.attrRef(&a), 1
			}
		}
		if !ok {
			p.Miss(gpuRecovery, sub, p.noMetric(c, "whether it needs a reset"))
			return
		}
		p.Set(gpuRecovery, sub, v)
	})
}}

// state gives the readings of a metric inside the window, or else all there are: a state outlives its reading, so a dump taken before
// or after the window still tells of it.
func (p *Pass) state(c *Card, m timeline.Metric) *timeline.Series {
	if s := p.series(c, m); s != nil {
		return s
	}
	var best *timeline.Series
	for i := range p.Base.Series {
		s := &p.Base.Series[i]
		if s.Metric.Name == m.Name && has(c.Devices, p.Base.Tracks[s.Track].Device) && len(s.At) > 0 && (best == nil || len(s.At) > len(best.At)) {
			best = s
		}
	}
	return best
}

// uncorrected counts the errors since the driver was loaded. The total of a card's life tells of them only where it rises: those of last year
// explain nothing.
func (p *Pass) uncorrected(sub int, c *Card) {
	v := Value{Cover: 1, Conf: timeline.Measured}
	known := false
	add := func(s *timeline.Series) {
		if s == nil {
			return
		}
		i := argMax(s.Value)
		refs, _ := p.refsAt(s, []int{i})
		v.Num += s.Value[i]
		v.Refs, v.NRefs, known = append(v.Refs, refs...), v.NRefs+1, true
	}
	if add(p.state(c, timeline.ECCVolUnc)); !known {
		add(p.state(c, timeline.ECCVolSRAMUnc))
		add(p.state(c, timeline.ECCVolDRAMUnc))
	}
	if !known {
		switch r := p.rose(c, timeline.ECCUncorrected); r.readings {
		case 0:
			p.Miss(gpuECC, sub, p.noMetric(c, "uncorrected memory errors"))
			return
		case 1:
			p.Miss(gpuECC, sub, fmt.Sprintf("one reading of the card's whole life (%.0f): when they happened is not known", r.last))
			return
		default:
			v = r.Value
		}
	}
	v.Num = min(v.Num, gpuECC.Max)
	p.Set(gpuECC, sub, v)
}

// sramThreshold tells whether the threshold of SRAM errors was passed. Older parts have none and their drivers print none.
func (p *Pass) sramThreshold(sub int, c *Card) {
	v := Value{Cover: 1, Conf: timeline.Measured}
	if a, has := p.attr(c, timeline.AttrSRAMThreshold); has {
		if a.Value > 0 {
			v.Num, v.Refs, v.NRefs = 1, p.attrRef(&a), 1
		}
		p.Set(gpuSRAM, sub, v)
		return
	}
	for _, d := range []*Decl{gpuRemapPending, gpuRemapFailed, gpuECC} {
		if _, ok := p.Get(d, sub); ok {
			p.Set(gpuSRAM, sub, v)
			return
		}
	}
	p.Miss(gpuSRAM, sub, p.noMetric(c, "errors of its SRAM"))
}

// highest sets d to the highest reading of the metrics.
func (p *Pass) highest(d *Decl, sub int, c *Card, what string, metrics ...timeline.Metric) {
	var best *Value
	for _, m := range metrics {
		s := p.state(c, m)
		if s == nil {
			continue
		}
		i := argMax(s.Value)
		v := p.sampled(s, min(s.Value[i], d.Max))
		v.Refs, v.NRefs = p.refsAt(s, []int{i})
		if best == nil || v.Num > best.Num {
			best = &v
		}
	}
	if best == nil {
		p.Miss(d, sub, p.noMetric(c, what))
		return
	}
	best.Conf = timeline.Measured
	p.Set(d, sub, *best)
}

var (
	gpuLimitPeers = &Decl{ID: "gpu.power_limit_vs_peers_frac", Doc: "Enforced power limit out of the highest of the GPUs of its model; 1 where it is the only one.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C2"}
	gpuReplays    = &Decl{ID: "gpu.pcie_replays_count", Doc: "PCIe replays inside the window: how far their counter rose.", Unit: unit.Count, Per: GPU, Max: 1e12, Capture: "C3"}
	gpuReplayRate = &Decl{ID: "gpu.pcie_replays_hz", Doc: "PCIe replays a second over the time between the first and the last reading of their counter.", Unit: unit.Hertz, Per: GPU, Max: 1e9, Capture: "C3"}
	gpuOthers     = &Decl{ID: "gpu.processes_count", Doc: "Most compute processes seen on the GPU at one time.", Unit: unit.Count, Per: GPU, Max: 1e6, Capture: "C3"}
	gpuTenants    = &Decl{ID: "gpu.other_processes_count", Doc: "Most compute processes on the GPU at one time, beyond those that the traces drive; beyond one where there is no trace.", Unit: unit.Count, Per: GPU, Max: 1e6, Capture: "C3"}
	gpuTenantTime = &Decl{ID: "gpu.other_processes_frac", Doc: "Share of the readings of its processes in which the GPU had other compute processes than those that the traces drive; of a single snapshot that one reading.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C3"}
	gpuTenantSays = &Decl{ID: "gpu.other_processes_says", Doc: "In how many readings the GPU had other compute processes, or that a single snapshot is all there is.", Unit: unit.Text, Per: GPU, Capture: "C3"}
	gpuMIG        = &Decl{ID: "gpu.mig_flag", Doc: "Whether the GPU is cut into MIG instances.", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C3"}
)

// PowerLimit compares the enforced limits of the GPUs of one model.
var PowerLimit = &Deriver{Name: "power-limit", Gives: []*Decl{gpuLimitPeers}, Run: func(p *Pass) {
	type card struct {
		sub   int
		name  string
		v     Value
		watts float64
	}
	var list []card
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		w, v, ok := p.powerLimit(c)
		if !ok {
			p.Miss(gpuLimitPeers, sub, p.noMetric(c, "the power limit"))
			return
		}
		list = append(list, card{sub, c.Name, v, w})
	})
	for _, a := range list {
		most := a.watts
		for _, b := range list {
			if b.name == a.name {
				most = max(most, b.watts)
			}
		}
		a.v.Num = a.watts / most
		p.Set(gpuLimitPeers, a.sub, a.v)
	}
}}

// powerLimit is the lowest enforced limit of a card, from its readings or from what a dump states.
func (p *Pass) powerLimit(c *Card) (watts float64, v Value, ok bool) {
	if s := p.series(c, timeline.PowerLimit); s != nil {
		i := argMin(s.Value)
		v = p.sampled(s, s.Value[i])
		v.Refs, v.NRefs = p.refsAt(s, []int{i})
		return s.Value[i], v, s.Value[i] > 0
	}
	if a, has := p.attr(c, timeline.AttrPowerLimit); has && a.Value > 0 {
		return a.Value, Value{Num: a.Value, Cover: 1, Conf: timeline.Measured, Refs: p.attrRef(&a), NRefs: 1}, true
	}
	return 0, v, false
}

// Replays asks how often the PCIe link had to send again. One reading tells nothing: the counter is older than the run.
var Replays = &Deriver{Name: "pcie-replays", Gives: []*Decl{gpuReplays, gpuReplayRate}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		r := p.rose(c, timeline.PCIeReplays)
		switch {
		case r.readings == 0:
			p.missAll(sub, p.noMetric(c, "PCIe replays"), gpuReplays, gpuReplayRate)
			return
		case r.readings == 1:
			p.missAll(sub, "one reading of the counter, which counts since the last reset: record it twice", gpuReplays, gpuReplayRate)
			return
		}
		v := r.Value
		p.Set(gpuReplays, sub, v)
		if r.seconds <= 0 {
			p.Miss(gpuReplayRate, sub, "how much time lies between the readings of the counter is not known")
			return
		}
		v.Num /= r.seconds
		p.Set(gpuReplayRate, sub, v)
	})
}}

// growth sums how far a counter rose; where it fell it was reset. at are the readings that rose.
func growth(s *timeline.Series) (rise float64, at []int) {
	for i := 1; i < len(s.Value); i++ {
		if d := s.Value[i] - s.Value[i-1]; d > 0 {
			rise += d
			at = append(at, i)
		}
	}
	return rise, at
}

// SharedGPU asks who else computes on the card, and in how many of the readings. One snapshot tells of a moment and is inferred.
var SharedGPU = &Deriver{Name: "shared-gpu", Gives: []*Decl{gpuOthers, gpuTenants, gpuTenantTime, gpuTenantSays, gpuMIG}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		if s := p.state(c, timeline.GPUProcesses); s != nil {
			i := argMax(s.Value)
			v := p.sampled(s, s.Value[i])
			v.Conf = timeline.Measured
			v.Refs, v.NRefs = p.refsAt(s, []int{i})
			p.Set(gpuOthers, sub, v)
			mine := float64(max(1, p.drivers(c)))
			v.Num = max(0, v.Num-mine)
			p.Set(gpuTenants, sub, v)
			with := p.shareOf(s, func(_ int, n float64) bool { return n > mine })
			says := fmt.Sprintf("in %d of %d readings", with.NRefs, len(s.At))
			if len(s.At) < minLoad {
				with.Conf = timeline.Inferred
				says += ": what one snapshot shows may have lasted for a moment"
			}
			p.Set(gpuTenantTime, sub, with)
			with.Text = says
			p.Set(gpuTenantSays, sub, with)
		} else {
			p.missAll(sub, p.noMetric(c, "the processes on it"), gpuOthers, gpuTenants, gpuTenantTime, gpuTenantSays)
		}
		if a, ok := p.attr(c, timeline.AttrMIG); ok {
			v := Value{Cover: 1, Conf: timeline.Measured, Refs: p.attrRef(&a), NRefs: 1}
			if strings.EqualFold(a.Text, "enabled") {
				v.Num = 1
			}
			p.Set(gpuMIG, sub, v)
		} else {
			p.Miss(gpuMIG, sub, p.noMetric(c, "its MIG mode"))
		}
	})
}}

// drivers counts the traced processes that drive a card.
func (p *Pass) drivers(c *Card) (n int) {
	if c.Trace < 0 {
		return 0
	}
	for _, g := range p.Job.GPUs {
		for _, d := range p.Logs[g.ID] {
			if has(c.Devices, d) {
				n++
				break
			}
		}
	}
	return max(n, 1)
}
