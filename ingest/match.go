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
	Cards []Card // those of traces first, in their order, then those that only logs know, by host and index
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
// Readings that lie in a trace's own file, or in that of an aside of it, are those of its GPU. What cannot be told becomes a problem of base.
func Match(base *timeline.Timeline, traces []*timeline.Reduced, asides ...Aside) *Matching {
	m := &matcher{base: base, traces: traces, curves: map[timeline.DeviceID]*logCurve{}, own: map[timeline.DeviceID]bool{}}
	for _, c := range logCurves(base) {
		if base.Clocks[base.Sources[c.source].Clock].How != timeline.Unplaced {
			m.curves[c.dev] = c
		}
	}
	m.look()
	for t, r := range traces {
		for g := range r.GPUs {
			s := slot{trace: t, gpu: g, card: -1}
			if onUnixAxis(r) {
				s.curve = newBusyCurve(&r.GPUs[g].Bins)
			}
			m.slots = append(m.slots, s)
		}
	}
	m.sameFile(asides)
	m.group()
	m.twins()
	m.match()
	m.oneEvent()
	out := m.result()
	for _, n := range out.Notes {
		base.Problems = append(base.Problems, timeline.Problem{Code: "ingest/gpu-match", Severity: timeline.Info, Message: n, Count: 1})
	}
	return out
}

// look finds what is known of each device beside its identity, and on which machine each source was recorded.
func (m *matcher) look() {
	b := m.base
	m.knows = make([]knowledge, len(b.Devices))
	note := func(t timeline.TrackID, k knowledge) {
		if d := b.Tracks[t].Device; d >= 0 && b.Sources[b.Tracks[t].Source].Used { // that of another run is not spoken of
			m.knows[d] |= k
		}
	}
	for i := range b.Series {
		note(b.Series[i].Track, inventory)
	}
	for i := range b.Attrs {
		note(b.Attrs[i].Track, inventory)
	}
	for _, t := range b.Marks.Track {
		note(t, events)
	}
	m.hosts = make([]string, len(b.Sources))
	names := map[string][]string{} // by folder
	add := func(dir, host string) {
		if h := hostKey(host); h != "" && !slices.Contains(names[dir], h) {
			names[dir] = append(names[dir], h)
		}
	}
	for i := range b.Sources {
		m.hosts[i] = hostKey(b.Sources[i].Host)
		add(m.dir(timeline.SourceID(i)), m.hosts[i])
	}
	for i := range b.Procs {
		p := &b.Procs[i]
		if h := hostKey(p.Host); h != "" {
			m.hosts[p.Source] = cmp.Or(m.hosts[p.Source], h)
			add(m.dir(p.Source), h)
		}
	}
	for _, r := range m.traces {
		add(path.Dir(r.Path), r.Process.Host)
	}
	m.machine = func(host, dir string) string {
		switch {
		case host != "":
			return "host " + host
		case len(names[dir]) == 1:
			return "host " + names[dir][0]
		}
		return "folder " + dir
	}
}

// knowledge is what a source tells of a device.
type knowledge uint8

const (
	inventory knowledge = 1 << iota // readings or properties: such a source lists all GPUs it sees
	events                          // only what happened on it
)

// hostKey makes names of one host equal.
func hostKey(h string) string {
	h, _, _ = strings.Cut(strings.ToLower(h), ".")
	return h
}

// sameFile gives each slot the devices of its own file: by UUID, PCI bus or CUDA ordinal, or because there is but one of both. In the file of
// an aside, the process is the same.
func (m *matcher) sameFile(asides []Aside) {
	in := func(file string, how string, slots []*slot) {
		var devs []timeline.DeviceID
		for id := range m.base.Devices {
			if m.knows[id]&inventory != 0 && m.base.Sources[m.base.Devices[id].Source].Path == file {
				devs = append(devs, timeline.DeviceID(id))
			}
		}
		take := func(s *slot, id timeline.DeviceID) {
			if slices.Contains(s.own, id) {
				return
			}
			s.own = append(s.own, id)
			m.own[id] = true
			d, o := m.device(s), &m.base.Devices[id]
			o.How = how
			d.UUID, d.Bus, d.Name, d.Memory = cmp.Or(d.UUID, o.UUID), cmp.Or(d.Bus, o.Bus), cmp.Or(d.Name, o.Name), cmp.Or(d.Memory, o.Memory)
		}
		for _, ok := range []func(d, o *timeline.Device) bool{
			func(d, o *timeline.Device) bool { return d.UUID != "" && d.UUID == o.UUID },
			func(d, o *timeline.Device) bool { return d.Bus != "" && d.Bus == o.Bus },
			func(d, o *timeline.Device) bool { return o.Ordinal >= 0 && d.Ordinal == o.Ordinal },
			func(d, o *timeline.Device) bool { return len(devs) == 1 && len(slots) == 1 },
		} {
			for _, s := range slots {
				for _, id := range devs {
					if d, o := m.device(s), &m.base.Devices[id]; len(s.own) == 0 && ok(d, o) && agrees(d, o) {
						take(s, id)
					}
				}
			}
		}
	}
	slotsOf := func(ok func(trace int) bool) (out []*slot) {
		for i := range m.slots {
			if ok(m.slots[i].trace) {
				out = append(out, &m.slots[i])
			}
		}
		return out
	}
	var files []string
	for _, r := range m.traces {
		if !slices.Contains(files, r.Path) {
			files = append(files, r.Path)
			in(r.Path, "same file", slotsOf(func(t int) bool { return m.traces[t].Path == r.Path }))
		}
	}
	// Ordinals mean the same in every capture of a process. A file of several processes is asked once for each.
	for _, a := range asides {
		slots := slotsOf(func(t int) bool { return t == a.Of })
		kept := make([][]timeline.DeviceID, len(slots))
		for i, s := range slots {
			kept[i], s.own = s.own, nil
		}
		in(a.Red.Path, "same process", slots)
		for i, s := range slots {
			s.own = append(kept[i], s.own...)
		}
	}
}

// agrees tells that nothing known of two devices speaks against their being one.
func agrees(a, b *timeline.Device) bool {
	return sameName(a.Name, b.Name) && (a.UUID == "" || b.UUID == "" || a.UUID == b.UUID) && (a.Bus == "" || b.Bus == "" || a.Bus == b.Bus)
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
	own        []timeline.DeviceID // of its own file
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
	host            string // as a log names it; "" none does
	machine         string // equal for cards of one machine: by host name, else by folder
	listed          bool   // a source that lists GPUs has it, not only one of events
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

	own     map[timeline.DeviceID]bool // lies in the file of the trace whose GPU it is
	knows   []knowledge                // by device
	hosts   []string                   // by source: the host it names
	machine func(host, dir string) string
}

// group joins the devices of different logs that are one card. Those whose identity is best known come first, so that each finds them.
func (m *matcher) group() {
	var ids []timeline.DeviceID
	for id := range m.base.Devices {
		if m.knows[id] != 0 && !m.own[timeline.DeviceID(id)] {
			ids = append(ids, timeline.DeviceID(id))
		}
	}
	known := func(id timeline.DeviceID) int {
		d, n := &m.base.Devices[id], 0
		for i, ok := range []bool{m.index(id) >= 0, d.Bus != "", d.UUID != ""} {
			if ok {
				n += 1 << i
			}
		}
		return -n
	}
	slices.SortStableFunc(ids, func(a, b timeline.DeviceID) int { return cmp.Compare(known(a), known(b)) })
	for _, id := range ids {
		d := &m.base.Devices[id]
		if i := m.joins(id); i >= 0 {
			c := &m.cards[i]
			c.devices = append(c.devices, id)
			c.uuid, c.bus, c.name = cmp.Or(c.uuid, d.UUID), cmp.Or(c.bus, d.Bus), cmp.Or(c.name, d.Name)
			c.memory, c.host = cmp.Or(c.memory, d.Memory), cmp.Or(c.host, m.hosts[d.Source])
			c.listed = c.listed || m.knows[id]&inventory != 0
			if c.index < 0 {
				c.index = m.index(id)
			}
			continue
		}
		m.cards = append(m.cards, logCard{devices: []timeline.DeviceID{id}, uuid: d.UUID, bus: d.Bus, name: d.Name, index: m.index(id), memory: d.Memory,
			host: m.hosts[d.Source], machine: m.machineOf(d.Source), listed: m.knows[id]&inventory != 0})
	}
	for i := range m.cards {
		slices.Sort(m.cards[i].devices)
	}
	slices.SortStableFunc(m.cards, func(a, b logCard) int {
		return cmp.Or(cmp.Compare(a.machine, b.machine), cmp.Compare(a.index, b.index), cmp.Compare(a.uuid, b.uuid), cmp.Compare(a.devices[0], b.devices[0]))
	})
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

func (m *matcher) machineOf(src timeline.SourceID) string {
	return m.machine(m.hosts[src], m.dir(src))
}

// index is a device's NVML index; a number that counts the devices of a process is none.
func (m *matcher) index(id timeline.DeviceID) int {
	if d := &m.base.Devices[id]; d.Ordinal < 0 {
		return d.Index
	}
	return -1
}

// joins finds the card that device id is: by UUID wherever it was recorded; by bus or index only beside logs of the same machine, for
// each host counts its own. Two logs of one kind at the same time are two hosts' unless identity says otherwise.
func (m *matcher) joins(id timeline.DeviceID) int {
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
		sameIndex := m.index(id) >= 0 && m.index(id) == c.index
		if !sameBus && !sameIndex || c.machine != m.machineOf(d.Source) || m.clash(id, c) {
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
		// Of one host's kernel there are often several logs, dmesg and journal; they list no GPUs.
		oneKernel := (m.knows[o]|m.knows[id])&inventory == 0 && m.hosts[od.Source]+m.hosts[d.Source] != ""
		if a.Format == b.Format && m.sameTime(o, id) && !oneKernel {
			return true
		}
		ca, cb := m.curves[o], m.curves[id]
		if ca != nil && cb != nil && apart(ca, cb) {
			return true
		}
	}
	return false
}

// sameTime tells whether the readings of two devices cover the same time; of those without readings, whether their files do. A log that
// was cut in two inside a cycle covers that cycle twice, and no device of it.
func (m *matcher) sameTime(a, b timeline.DeviceID) bool {
	x, y := m.readings(a), m.readings(b)
	if x.Empty() || y.Empty() {
		s := m.base.Sources
		return len(timeline.Intersect(s[m.base.Devices[a].Source].Coverage, s[m.base.Devices[b].Source].Coverage)) > 0
	}
	return x.Start < y.End && y.Start < x.End
}

// readings is from a device's first reading to its last.
func (m *matcher) readings(id timeline.DeviceID) (iv timeline.Interval) {
	for i := range m.base.Series {
		s := &m.base.Series[i]
		if m.base.Tracks[s.Track].Device != id || len(s.At) == 0 {
			continue
		}
		if one := (timeline.Interval{Start: s.At[0], End: s.At[len(s.At)-1] + 1}); iv.Empty() {
			iv = one
		} else {
			iv.Start, iv.End = min(iv.Start, one.Start), max(iv.End, one.End)
		}
	}
	return iv
}

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
	if h := hostKey(m.traces[s.trace].Process.Host); h != "" && c.host != "" && h != c.host && (d.UUID == "" || d.UUID != c.uuid) {
		return false
	}
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
			case s.card < 0 && d.Bus != "" && d.Bus == k.bus && (m.oneHost() || m.slotMachine(s) == k.machine) && m.fits(s, k):
				m.take(s, c, timeline.Measured, "by PCI bus")
			}
		}
	}
	// Each folder that holds both is a host of its own; else all logs and traces are looked at together.
	for _, part := range m.parts() {
		m.byPCIOrder(part)
		m.byActivity(part)
		m.byNumber(part)
	}
}

func (m *matcher) oneHost() bool {
	return !slices.ContainsFunc(m.cards, func(c logCard) bool { return c.machine != m.cards[0].machine })
}

func (m *matcher) slotMachine(s *slot) string {
	r := m.traces[s.trace]
	return m.machine(hostKey(r.Process.Host), path.Dir(r.Path))
}

// part is the slots and cards that may belong together.
type part struct{ slots, cards []int }

// parts splits slots and cards by machine where every slot's machine has cards. A card of which only events are known takes no part: that a
// log of events names one GPU does not mean that there is one.
func (m *matcher) parts() []part {
	by := map[string]*part{}
	var order []string
	all := part{}
	for c := range m.cards {
		if !m.cards[c].listed {
			continue
		}
		k := m.cards[c].machine
		if by[k] == nil {
			by[k] = &part{}
			order = append(order, k)
		}
		by[k].cards = append(by[k].cards, c)
		all.cards = append(all.cards, c)
	}
	split := len(order) > 1
	for i := range m.slots {
		all.slots = append(all.slots, i)
		if p := by[m.slotMachine(&m.slots[i])]; p != nil {
			p.slots = append(p.slots, i)
		} else {
			split = false
		}
	}
	if split {
		slices.Sort(order)
		var out []part
		for _, k := range order {
			out = append(out, *by[k])
		}
		return out
	}
	if len(order) > 1 {
		m.notes = append(m.notes, fmt.Sprintf("logs are of %d hosts or folders and traces of others: which is whose cannot be told by that", len(order)))
	}
	return []part{all}
}

// byPCIOrder joins GPUs whose PCI bus is known with those of which only the NVML index is: NVML counts in the order of buses. Only where
// there are as many of both on one machine, and the indices leave none out.
func (m *matcher) byPCIOrder(p part) {
	var buses []string
	slots, cards := map[string][]int{}, map[string]int{}
	for _, i := range p.slots {
		s := &m.slots[i]
		switch d := m.device(s); {
		case s.card >= 0:
		case d.Bus == "" || m.slotMachine(s) != m.slotMachine(&m.slots[p.slots[0]]):
			return
		default:
			slots[d.Bus] = append(slots[d.Bus], i)
			buses = append(buses, d.Bus)
		}
	}
	var indexed []int
	for _, k := range p.cards {
		switch c := &m.cards[k]; {
		case c.machine != m.cards[p.cards[0]].machine:
			return
		case c.taken:
		case c.index >= 0 && c.bus == "" && c.uuid == "":
			indexed = append(indexed, k)
		case c.index < 0 && c.bus != "":
			cards[c.bus] = k
			buses = append(buses, c.bus)
		default:
			return
		}
	}
	slices.Sort(buses)
	buses = slices.Compact(buses)
	slices.SortFunc(indexed, func(a, b int) int { return cmp.Compare(m.cards[a].index, m.cards[b].index) })
	if len(buses) == 0 || len(buses) != len(indexed) {
		return
	}
	for i, k := range indexed {
		c := &m.cards[k]
		if c.index != i {
			return
		}
		for _, j := range slots[buses[i]] {
			if s := &m.slots[j]; !m.fits(s, c) || m.contradicted(s, c) {
				return
			}
		}
		if j, ok := cards[buses[i]]; ok && !sameName(m.cards[j].name, c.name) {
			return
		}
	}
	const how = "by number: as many PCI buses as NVML indices, which follow their order"
	for i, k := range indexed {
		c := &m.cards[k]
		if j, ok := cards[buses[i]]; ok {
			o := &m.cards[j]
			c.devices, c.uuid, c.bus, c.name, c.memory = append(c.devices, o.devices...), o.uuid, o.bus, cmp.Or(c.name, o.name), cmp.Or(c.memory, o.memory)
			slices.Sort(c.devices)
			o.taken, o.devices = true, nil // it is the other now
			for _, id := range c.devices {
				m.base.Devices[id].How = how
			}
		}
		for _, j := range slots[buses[i]] {
			m.take(&m.slots[j], k, timeline.Inferred, how)
		}
	}
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
		if len(s.own) > 0 && s.card < 0 {
			card.How, card.Conf = m.base.Devices[s.own[0]].How, timeline.Measured
			m.device(s).How = card.How
		}
		if s.card >= 0 {
			c := &m.cards[s.card]
			card.Devices = slices.Clone(c.devices)
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
		card.Devices = append(card.Devices, s.own...)
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
