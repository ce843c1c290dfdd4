package ingest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
)

// Card is one physical GPU as several sources know it.
type Card struct {
	Trace, GPU int                 // the trace and its device that drive it: index in traces and in Reduced.GPUs; -1 none
	Devices    []timeline.DeviceID // devices of the base timeline that are this card, one or more a log
	How        string              // how the trace's device and the logs' were found to be one; "" nothing to match
	Conf       timeline.Confidence // Measured by identity, Inferred by activity or number, Hint by convention
}

// Matching says which devices of different sources are the same card.
type Matching struct {
	Cards []Card // those of traces first, in their order, then those that only logs know, by device
	Notes []string
}

// Of gives the base devices of a trace's GPU; nil when they are not known.
func (m *Matching) Of(trace, gpu int) []timeline.DeviceID {
	for i := range m.Cards {
		if c := &m.Cards[i]; c.Trace == trace && c.GPU == gpu {
			return c.Devices
		}
	}
	return nil
}

// Unclaimed gives the cards that no trace drives, as far as is known.
func (m *Matching) Unclaimed() []Card {
	i := slices.IndexFunc(m.Cards, func(c Card) bool { return c.Trace < 0 })
	if i < 0 {
		return nil
	}
	return m.Cards[i:]
}

// Match finds which devices of the logs in base are the GPUs of the traces. Clocks must have been placed, for activity is compared. It
// writes Device.How on both sides, and completes a trace's device by what the logs know of it unless the match is only a convention.
func Match(base *timeline.Timeline, traces []*timeline.Reduced) *Matching {
	m := &matcher{base: base, traces: traces, curves: map[timeline.DeviceID]*logCurve{}}
	for _, c := range logCurves(base) {
		if base.Clocks[base.Sources[c.source].Clock].How != timeline.Unplaced {
			m.curves[c.dev] = c
		}
	}
	m.group()
	for t, r := range traces {
		for g := range r.GPUs {
			s := slot{trace: t, gpu: g, card: -1}
			if onUnixAxis(r) {
				s.curve = newBusyCurve(&r.GPUs[g].Bins)
			}
			m.slots = append(m.slots, s)
		}
	}
	m.twins()
	m.match()
	return m.result()
}

// twins sets aside repeated captures of one rank's device: they get the card of the first.
func (m *matcher) twins() {
	type key struct {
		host          string
		rank, ordinal int
	}
	first := map[key]int{}
	kept := m.slots[:0]
	for _, s := range m.slots {
		p := &m.traces[s.trace].Process
		k := key{p.Host, p.Rank, m.device(&s).Ordinal}
		if i, ok := first[k]; ok && p.Rank >= 0 {
			m.repeats = append(m.repeats, twin{s, i})
			continue
		}
		first[k] = len(kept)
		kept = append(kept, s)
	}
	m.slots = kept
}

// twin is a slot that shares the card of slot of.
type twin struct {
	slot
	of int
}

type slot struct {
	trace, gpu int
	curve      *busyCurve
	card       int
	how        string
	conf       timeline.Confidence
}

// logCard is one card as the logs know it.
type logCard struct {
	devices         []timeline.DeviceID
	uuid, bus, name string
	index           int
	memory          int64
	host            int // cards of one host have the same; by folder
	taken           bool
}

type matcher struct {
	base    *timeline.Timeline
	traces  []*timeline.Reduced
	curves  map[timeline.DeviceID]*logCurve
	cards   []logCard
	slots   []slot
	repeats []twin
	notes   []string
}

// group joins the devices of different logs that are one card.
func (m *matcher) group() {
	hosts := map[string]int{}
	for id := range m.base.Devices {
		d := &m.base.Devices[id]
		if !m.hasReadings(timeline.DeviceID(id)) {
			continue
		}
		dir := m.dir(d.Source)
		if i := m.joins(timeline.DeviceID(id), dir); i >= 0 {
			c := &m.cards[i]
			c.devices = append(c.devices, timeline.DeviceID(id))
			c.uuid, c.bus, c.name = cmp.Or(c.uuid, d.UUID), cmp.Or(c.bus, d.Bus), cmp.Or(c.name, d.Name)
			c.memory = cmp.Or(c.memory, d.Memory)
			if c.index < 0 {
				c.index = d.Index
			}
			continue
		}
		host, ok := hosts[dir]
		if !ok {
			host = len(hosts)
			hosts[dir] = host
		}
		m.cards = append(m.cards, logCard{devices: []timeline.DeviceID{timeline.DeviceID(id)}, uuid: d.UUID, bus: d.Bus, name: d.Name, index: d.Index, memory: d.Memory, host: host})
	}
	for i := range m.cards {
		if c := &m.cards[i]; len(c.devices) > 1 {
			how := "by index, and the logs lie in one folder (assumed one host)"
			if c.uuid != "" && m.allHave(c, func(d *timeline.Device) bool { return d.UUID == c.uuid }) {
				how = "by UUID"
			} else if c.bus != "" && m.allHave(c, func(d *timeline.Device) bool { return d.Bus == c.bus }) {
				how = "by PCI bus"
			}
			for _, id := range c.devices {
				m.base.Devices[id].How = how
			}
		}
	}
}

func (m *matcher) allHave(c *logCard, ok func(*timeline.Device) bool) bool {
	return !slices.ContainsFunc(c.devices, func(id timeline.DeviceID) bool { return !ok(&m.base.Devices[id]) })
}

func (m *matcher) dir(src timeline.SourceID) string { return path.Dir(m.base.Sources[src].Path) }

func (m *matcher) hasReadings(id timeline.DeviceID) bool {
	return slices.ContainsFunc(m.base.Series, func(s timeline.Series) bool { return m.base.Tracks[s.Track].Device == id })
}

// joins finds the card that device id is: by UUID wherever it was recorded; by bus or index only beside logs of the same folder, for
// each host counts its own. Two logs of one kind at the same time are two hosts' unless identity says otherwise.
func (m *matcher) joins(id timeline.DeviceID, dir string) int {
	d := &m.base.Devices[id]
	for i := range m.cards {
		if c := &m.cards[i]; d.UUID != "" && c.uuid == d.UUID {
			return i
		}
	}
	found := -1
	for i := range m.cards {
		c := &m.cards[i]
		if d.UUID != "" && c.uuid != "" || d.Bus != "" && c.bus != "" && d.Bus != c.bus || !sameName(d.Name, c.name) {
			continue
		}
		sameBus := d.Bus != "" && d.Bus == c.bus
		sameIndex := d.Index >= 0 && d.Index == c.index
		if !sameBus && !sameIndex || m.dir(m.base.Devices[c.devices[0]].Source) != dir || m.clash(id, c) {
			continue
		}
		if found >= 0 {
			return -1 // two hosts' logs in one folder: nobody knows which
		}
		found = i
	}
	return found
}

// clash: the same source twice, or two logs of one format that cover the same time, or activity that contradicts.
func (m *matcher) clash(id timeline.DeviceID, c *logCard) bool {
	d := &m.base.Devices[id]
	for _, o := range c.devices {
		od := &m.base.Devices[o]
		if od.Source == d.Source {
			return true
		}
		a, b := &m.base.Sources[od.Source], &m.base.Sources[d.Source]
		if a.Format == b.Format && overlap(a.Coverage, b.Coverage) {
			return true
		}
		ca, cb := m.curves[o], m.curves[id]
		if ca != nil && cb != nil && apart(ca, cb) {
			return true
		}
	}
	return false
}

func overlap(a, b []timeline.Interval) bool { return len(timeline.Intersect(a, b)) > 0 }

// apart tells that two utilisation curves show different GPUs: their means over the common time differ by more than a quarter.
func apart(a, b *logCurve) bool {
	from, to := max(a.at[0], b.at[0]), min(a.at[len(a.at)-1], b.at[len(b.at)-1])
	mean := func(c *logCurve) (float64, int) {
		s, n := 0.0, 0
		for i, t := range c.at {
			if t >= from && t <= to {
				s += c.value[i]
				n++
			}
		}
		return s / float64(max(n, 1)), n
	}
	ma, na := mean(a)
	mb, nb := mean(b)
	return na >= minPairs && nb >= minPairs && (ma-mb > 0.25 || mb-ma > 0.25)
}

func plainName(s string) string {
	s = strings.ToLower(s)
	for _, p := range []string{"nvidia ", "geforce ", "tesla "} {
		s = strings.TrimPrefix(s, p)
	}
	return strings.Join(strings.Fields(s), " ")
}

// sameName holds where either is unknown.
func sameName(a, b string) bool { return a == "" || b == "" || plainName(a) == plainName(b) }

func (m *matcher) device(s *slot) *timeline.Device { return &m.traces[s.trace].GPUs[s.gpu].Device }

// fits tells whether nothing known forbids that slot s is card c.
func (m *matcher) fits(s *slot, c *logCard) bool {
	d := m.device(s)
	return sameName(d.Name, c.name) && !(d.UUID != "" && c.uuid != "" && d.UUID != c.uuid) && !(d.Bus != "" && c.bus != "" && d.Bus != c.bus)
}

func (m *matcher) take(s *slot, card int, conf timeline.Confidence, how string) {
	s.card, s.conf, s.how = card, conf, how
	m.cards[card].taken = true
}

func (m *matcher) match() {
	if len(m.cards) == 0 || len(m.slots) == 0 {
		return
	}
	for i := range m.slots {
		s := &m.slots[i]
		d := m.device(s)
		for c := range m.cards {
			switch k := &m.cards[c]; {
			case d.UUID != "" && d.UUID == k.uuid:
				m.take(s, c, timeline.Measured, "by UUID")
			case s.card < 0 && d.Bus != "" && d.Bus == k.bus && m.oneHost():
				m.take(s, c, timeline.Measured, "by PCI bus")
			}
		}
	}
	// Each folder that holds both is a host of its own; else all logs and traces are looked at together.
	for _, part := range m.parts() {
		m.byActivity(part)
		m.byNumber(part)
	}
}

func (m *matcher) oneHost() bool {
	return !slices.ContainsFunc(m.cards, func(c logCard) bool { return c.host != 0 })
}

// part is the slots and cards that may belong together.
type part struct{ slots, cards []int }

func (m *matcher) parts() []part {
	slotDir := func(i int) string { return path.Dir(m.traces[m.slots[i].trace].Path) }
	cardDir := func(c int) string { return m.dir(m.base.Devices[m.cards[c].devices[0]].Source) }
	split := !m.oneHost()
	dirs := map[string]*part{}
	var order []string
	for c := range m.cards {
		d := cardDir(c)
		if dirs[d] == nil {
			dirs[d] = &part{}
			order = append(order, d)
		}
		dirs[d].cards = append(dirs[d].cards, c)
	}
	all := part{}
	for i := range m.slots {
		all.slots = append(all.slots, i)
		if p := dirs[slotDir(i)]; p != nil {
			p.slots = append(p.slots, i)
		} else {
			split = false
		}
	}
	if split {
		slices.Sort(order)
		var out []part
		for _, d := range order {
			out = append(out, *dirs[d])
		}
		return out
	}
	for c := range m.cards {
		all.cards = append(all.cards, c)
	}
	if len(order) > 1 {
		m.notes = append(m.notes, fmt.Sprintf("logs lie in %d folders and traces elsewhere: which host is whose cannot be told by folder", len(order)))
	}
	return []part{all}
}

// byActivity gives a slot the card whose utilisation follows it, if that is each other's best by a clear margin.
func (m *matcher) byActivity(p part) {
	r := m.agreements(p)
	for a, i := range p.slots {
		s := &m.slots[i]
		if s.card >= 0 {
			continue
		}
		best, second := -1, -2.0
		for b := range p.cards {
			if r[a][b] == nil || m.cards[p.cards[b]].taken {
				continue
			}
			switch {
			case best < 0 || r[a][b].r > r[a][best].r:
				if best >= 0 {
					second = max(second, r[a][best].r)
				}
				best = b
			default:
				second = max(second, r[a][b].r)
			}
		}
		if best < 0 || r[a][best].r < agreeEnough || r[a][best].r-second < agreeClear {
			continue
		}
		mutual := true
		for a2 := range p.slots {
			if a2 != a && r[a2][best] != nil && m.slots[p.slots[a2]].card < 0 && r[a2][best].r > r[a][best].r-agreeClear {
				mutual = false
			}
		}
		if mutual {
			m.take(s, p.cards[best], timeline.Inferred, fmt.Sprintf("by activity, correlation %.2f over %d readings", r[a][best].r, r[a][best].pairs))
		}
	}
}

func (m *matcher) agreements(p part) [][]*agreement {
	out := make([][]*agreement, len(p.slots))
	for a, i := range p.slots {
		out[a] = make([]*agreement, len(p.cards))
		s := &m.slots[i]
		if s.curve == nil {
			continue
		}
		for b, c := range p.cards {
			if !m.fits(s, &m.cards[c]) {
				continue
			}
			for _, dev := range m.cards[c].devices {
				if l := m.curves[dev]; l != nil {
					if g := l.agree(s.curve, 0); g.told() && (out[a][b] == nil || g.pairs > out[a][b].pairs) {
						out[a][b] = &g
					}
				}
			}
		}
	}
	return out
}

// byNumber matches what is left where the numbers leave one way to do it.
func (m *matcher) byNumber(p part) {
	var slots, cards []int
	for _, i := range p.slots {
		if m.slots[i].card < 0 {
			slots = append(slots, i)
		}
	}
	for _, c := range p.cards {
		if !m.cards[c].taken {
			cards = append(cards, c)
		}
	}
	if len(slots) == 0 || len(cards) == 0 {
		return
	}
	procs := map[int]bool{}
	world, ordinals := 0, map[int]bool{}
	distinct := true // each slot has an ordinal of its own
	for _, i := range p.slots {
		s := &m.slots[i]
		procs[s.trace] = true
		world = max(world, m.traces[s.trace].Process.WorldSize)
		o := m.device(s).Ordinal
		if o < 0 || ordinals[o] {
			distinct = false
		}
		ordinals[o] = true
	}
	byIndex := func(index int) int {
		found := -1
		for _, c := range cards {
			if m.cards[c].index == index && !m.cards[c].taken {
				if found >= 0 {
					return -1
				}
				found = c
			}
		}
		return found
	}
	try := func(i, c int, conf timeline.Confidence, how string) bool {
		s := &m.slots[i]
		if c < 0 || !m.fits(s, &m.cards[c]) || m.contradicted(s, &m.cards[c]) {
			return false
		}
		m.take(s, c, conf, how)
		return true
	}
	switch {
	case len(p.slots) == 1 && len(p.cards) == 1 && world <= 1:
		try(slots[0], cards[0], timeline.Inferred, "the only GPU in the trace and in the logs")
	case len(p.slots) == 1 && len(p.cards) == 1:
		try(slots[0], cards[0], timeline.Hint, fmt.Sprintf("assumed: the only GPU in the trace and in the logs, though the run had %d ranks", world))
	case distinct && len(p.slots) == len(p.cards) && len(p.slots) > 1:
		for _, i := range slots {
			try(i, byIndex(m.device(&m.slots[i]).Ordinal), timeline.Inferred, "by number: as many GPUs in the traces as in the logs, CUDA ordinal = NVML index")
		}
	case len(procs) == len(p.slots) && world == len(p.cards) && world > 1:
		// The usual trap: each rank sees its GPU as device 0. Launchers give rank r of a host its r-th GPU, but need not.
		for _, i := range slots {
			if rank := m.traces[m.slots[i].trace].Process.Rank; rank >= 0 {
				try(i, byIndex(rank), timeline.Hint, fmt.Sprintf("assumed: rank = GPU index, for the %d ranks of the run are as many as the GPUs in the logs", world))
			}
		}
	}
	left := 0
	for _, i := range slots {
		if m.slots[i].card < 0 {
			left++
		}
	}
	if left > 0 {
		m.notes = append(m.notes, fmt.Sprintf("%d GPUs of the traces cannot be told among the %d of the logs: neither identity, activity nor number decides; record UUIDs with --query-gpu=index,uuid,...", left, len(p.cards)))
	}
}

// contradicted tells that activity speaks against s being c.
func (m *matcher) contradicted(s *slot, c *logCard) bool {
	if s.curve == nil {
		return false
	}
	for _, dev := range c.devices {
		if l := m.curves[dev]; l != nil {
			if a := l.agree(s.curve, 0); a.pairs >= minPairs && a.off > 0.35 && (a.flat || a.r < agreeNone) {
				return true
			}
		}
	}
	return false
}

func (m *matcher) result() *Matching {
	out := &Matching{Notes: m.notes}
	for _, t := range m.repeats {
		o := m.slots[t.of]
		t.card, t.how, t.conf = o.card, o.how, o.conf
		m.slots = append(m.slots, t.slot)
	}
	slices.SortStableFunc(m.slots, func(a, b slot) int { return cmp.Or(cmp.Compare(a.trace, b.trace), cmp.Compare(a.gpu, b.gpu)) })
	for i := range m.slots {
		s := &m.slots[i]
		card := Card{Trace: s.trace, GPU: s.gpu, How: s.how, Conf: s.conf}
		if s.card >= 0 {
			c := &m.cards[s.card]
			card.Devices = c.devices
			d := m.device(s)
			d.How = s.how
			for _, id := range c.devices {
				m.base.Devices[id].How = s.how
			}
			if s.conf > timeline.Hint {
				d.UUID, d.Bus, d.Name = cmp.Or(d.UUID, c.uuid), cmp.Or(d.Bus, c.bus), cmp.Or(d.Name, c.name)
				d.Memory = cmp.Or(d.Memory, c.memory)
				if c.index >= 0 {
					d.Index = c.index
				}
			}
		}
		out.Cards = append(out.Cards, card)
	}
	for i := range m.cards {
		if c := &m.cards[i]; !c.taken {
			card := Card{Trace: -1, GPU: -1, Devices: c.devices}
			if len(c.devices) > 1 {
				card.How, card.Conf = m.base.Devices[c.devices[0]].How, timeline.Inferred
			}
			out.Cards = append(out.Cards, card)
		}
	}
	return out
}
