package render

import (
	"cmp"
	"fmt"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// State is what a source states of a GPU or a host: a limit, a capability, a setting, a version. Of several statements the latest.
type State struct {
	Subject string   `json:"subject"` // gpu0; a host's name; "host" where it has none
	Name    string   `json:"name"`
	Value   *float64 `json:"value"` // null for words
	Text    string   `json:"text"`
	Unit    string   `json:"unit"` // text for words
	Path    string   `json:"path"`
	Row     uint32   `json:"row"`
}

// Topology is a matrix of how the parts of a host are joined. Cells holds the maker's words; "" where none is given.
type Topology struct {
	Path  string     `json:"path"`  // the first file that tells it
	Host  string     `json:"host"`  // "" not told
	Parts []string   `json:"parts"` // GPU0, GPU1, NIC0
	Cells [][]string `json:"cells"` // [row][column], both in the order of Parts
}

// MachineEvent is something that a log of the machine holds at an instant.
type MachineEvent struct {
	AtNS    *int64 `json:"at_ns"` // null where the log's clock is not placed
	Subject string `json:"subject"`
	Kind    string `json:"kind"` // xid, sxid, gpu-lost, oom, other
	Code    int32  `json:"code"` // 0 none
	Text    string `json:"text"`
	Path    string `json:"path"`
	Row     uint32 `json:"row"`
	Count   int64  `json:"count"` // alike ones in a row

	Also []string `json:"also,omitempty"` // where other logs hold the same event
}

// Limits on what is kept of the machine.
const (
	maxEvents = 500
	maxAlso   = 12 // places of one event
	maxParts  = 64 // of a matrix
	maxStates = 4000
)

func (b *builder) machine() {
	b.states()
	b.topology()
	b.events()
}

// subjectOf names what a track speaks of; "" for parts that the report has no row for.
func (b *builder) subjectOf(t timeline.TrackID) string {
	tr := &b.base.Tracks[t]
	switch {
	case tr.Device >= 0:
		if id := b.owner[tr.Device]; id != "" {
			return id
		}
		d := &b.base.Devices[tr.Device]
		switch {
		case d.Bus != "":
			return "GPU at " + d.Bus
		case d.Index >= 0:
			return fmt.Sprintf("GPU %d of %s", d.Index, b.base.Sources[tr.Source].Path)
		}
		return "a GPU"
	case tr.Kind == timeline.TrackHostReadings, tr.Kind == timeline.TrackOther:
		if h := b.base.Sources[tr.Source].Host; h != "" {
			return h
		}
		return "host"
	}
	return ""
}

func (b *builder) states() {
	type key struct{ subject, name string }
	at := map[key]int{}
	when := map[key]timeline.Time{}
	for i := range b.base.Attrs {
		a := &b.base.Attrs[i]
		if k := b.base.Tracks[a.Track].Kind; k == timeline.TrackProcess {
			continue // of whom there are many
		}
		s := b.subjectOf(a.Track)
		if s == "" {
			continue
		}
		row := State{Subject: s, Name: a.Name, Text: clean(a.Text), Unit: string(a.Unit), Path: b.base.Sources[b.base.Tracks[a.Track].Source].Path, Row: a.Row}
		if a.Unit != unit.Text {
			v := a.Value
			row.Value = &v
		}
		k := key{s, a.Name}
		j, seen := at[k]
		switch {
		case !seen && len(b.r.Machine) < maxStates:
			at[k], when[k] = len(b.r.Machine), a.At
			b.r.Machine = append(b.r.Machine, row)
		case seen && a.At >= when[k]:
			b.r.Machine[j], when[k] = row, a.At
		}
	}
	order := map[string]int{}
	for i := range b.r.GPUs {
		order[b.r.GPUs[i].ID] = i + 1
	}
	sort.SliceStable(b.r.Machine, func(i, j int) bool {
		x, y := &b.r.Machine[i], &b.r.Machine[j]
		a, c := order[x.Subject], order[y.Subject]
		switch {
		case (a > 0) != (c > 0):
			return a == 0 // hosts before GPUs
		case a != c:
			return a < c
		case x.Subject != y.Subject:
			return x.Subject < y.Subject
		}
		return x.Name < y.Name
	})
}

func (b *builder) topology() {
	// Each rank's log tells its own row: files of one format from one host are one matrix, unless they contradict each other.
	type whose struct{ format, host string }
	type told struct {
		source int
		links  []timeline.Link
	}
	var all []told
	at := map[whose]int{}
	for i := range b.base.Sources {
		src := &b.base.Sources[i]
		t := told{source: i}
		for _, l := range b.base.Links {
			if l.Source == timeline.SourceID(i) && l.B != "" {
				t.links = append(t.links, l)
			}
		}
		key := whose{src.Format, src.Host}
		if k, ok := at[key]; ok && src.Host != "" && agree(all[k].links, t.links) {
			all[k].links = append(all[k].links, t.links...)
			continue
		}
		at[key] = len(all)
		all = append(all, t)
	}
	for _, x := range all {
		var t Topology
		at := map[string]int{}
		part := func(s string) {
			if _, ok := at[s]; !ok {
				at[s] = len(t.Parts)
				t.Parts = append(t.Parts, s)
			}
		}
		links := x.links
		for _, l := range links {
			part(l.A)
		}
		for _, l := range links {
			part(l.B)
		}
		if len(t.Parts) < 2 || len(t.Parts) > maxParts {
			continue
		}
		t.Path, t.Host = b.base.Sources[x.source].Path, clean(b.base.Sources[x.source].Host)
		t.Cells = make([][]string, len(t.Parts))
		for k := range t.Cells {
			t.Cells[k] = make([]string, len(t.Parts))
		}
		for _, l := range links {
			t.Cells[at[l.A]][at[l.B]] = clean(l.Kind)
		}
		b.r.Topology = append(b.r.Topology, t)
	}
}

// agree tells whether two lists of links say the same where both speak.
func agree(a, b []timeline.Link) bool {
	kind := map[[2]string]string{}
	for _, l := range a {
		kind[[2]string{l.A, l.B}] = l.Kind
	}
	for _, l := range b {
		if k, ok := kind[[2]string{l.A, l.B}]; ok && k != l.Kind {
			return false
		}
	}
	return true
}

var eventKinds = map[timeline.MarkKind]string{
	timeline.MarkXid: "xid", timeline.MarkSXid: "sxid", timeline.MarkGPULost: "gpu-lost", timeline.MarkOOM: "oom", timeline.MarkOutput: "other", timeline.MarkClockStep: "clock-step",
}

func (b *builder) events() {
	m := &b.base.Marks
	also := map[int][]string{} // rows of other logs that hold the same event
	for i := range m.At {
		if lead := b.base.Lead(i); lead != i {
			also[lead] = append(also[lead], fmt.Sprintf("%s:%d", b.base.Sources[b.base.Tracks[m.Track[i]].Source].Path, m.Row[i]))
		}
	}
	for i := range m.At {
		kind, ok := eventKinds[m.Kind[i]]
		if !ok || b.base.Lead(i) != i {
			continue
		}
		src := &b.base.Sources[b.base.Tracks[m.Track[i]].Source]
		e := MachineEvent{Subject: b.subjectOf(m.Track[i]), Kind: kind, Code: m.Code[i], Text: clean(b.base.Names.Get(m.Name[i])), Path: src.Path, Row: m.Row[i], Count: 1, Also: also[i]}
		if m.Kind[i] == timeline.MarkXid && b.in.In.Tables != nil {
			if x := b.in.In.Tables.Xid(m.Code[i]); x.Kind != ledger.XidUnlisted {
				e.Text = x.Means + ": " + x.Act
			}
		}
		if b.base.Clocks[src.Clock].How != timeline.Unplaced {
			at := b.rel(m.At[i])
			e.AtNS = &at
		}
		if n := len(b.r.Events); n > 0 {
			if last := &b.r.Events[n-1]; last.Subject == e.Subject && last.Kind == e.Kind && last.Code == e.Code && last.Text == e.Text && last.Path == e.Path {
				last.Count++
				last.Also = append(last.Also, e.Also[:min(len(e.Also), max(0, maxAlso-len(last.Also)))]...)
				continue
			}
		}
		if len(b.r.Events) == maxEvents {
			b.r.EventsLeft++
			continue
		}
		b.r.Events = append(b.r.Events, e)
	}
}

// machineBlocks are the tables of the hardware section that no curve can show: events, links, what the cards and hosts state.
func machineBlocks(r *Report) []Block {
	var out []Block
	if t, ok := eventsTable(r); ok {
		out = append(out, t)
	}
	if t, ok := offAxisTable(r); ok {
		out = append(out, t)
	}
	for i := range r.Topology {
		out = append(out, topologyBlock(&r.Topology[i], len(r.Topology) > 1))
	}
	if t, ok := cardsTable(r); ok {
		out = append(out, t)
	}
	if t, ok := hostsTable(r); ok {
		out = append(out, t)
	}
	return out
}

var eventWords = map[string]string{"xid": "Xid", "sxid": "NVSwitch error", "gpu-lost": "GPU lost", "oom": "out of memory", "other": "kernel log", "clock-step": "clock stepped"}

func eventWord(e *MachineEvent) string {
	w := eventWords[e.Kind]
	if e.Code != 0 {
		w = fmt.Sprintf("%s %d", w, e.Code)
	}
	return w
}

func eventsTable(r *Report) (Table, bool) {
	if len(r.Events) == 0 {
		return Table{}, false
	}
	t := Table{ID: "event-table", Title: "Events", Shown: 20, Columns: []Column{{Title: "At", Num: true}, {Title: "What"}, {Title: "Of"}, {Title: "It says, and what it calls for", Wide: true}, {Title: "Times", Num: true, More: true}, {Title: "Where", More: true}}}
	for i := range r.Events {
		e := &r.Events[i]
		at := Cell{Text: "unknown", Dashed: true, Title: "the log’s clock is not placed"}
		if e.AtNS != nil {
			at = Cell{Text: Dur(float64(*e.AtNS), 4)}
			if *e.AtNS < 0 || *e.AtNS > r.Window.DurNS {
				at.Weak, at.Title = true, "outside the window: context only"
			}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{at, {Text: eventWord(e), Strong: e.Kind == "xid" || e.Kind == "sxid" || e.Kind == "gpu-lost"}, {Text: subjectWord(r, e.Subject)}, {Text: e.Text},
			{Text: Count(e.Count)}, whereCell(e)}})
	}
	if r.EventsLeft > 0 {
		t.Foot = fmt.Sprintf("%s more are in the files.", Count(r.EventsLeft))
	}
	return t, true
}

// whereCell is the row of an event, and of how many other logs' rows hold it too.
func whereCell(e *MachineEvent) Cell {
	c := Cell{Text: fmt.Sprintf("%s:%d", Middle(e.Path, 40), e.Row), Code: true, Title: e.Path}
	if n := len(e.Also); n > 0 {
		c.Text += fmt.Sprintf(" (+%d)", n)
		c.Title += ", also " + strings.Join(e.Also, ", ")
	}
	return c
}

func subjectWord(r *Report, s string) string {
	for i := range r.GPUs {
		if r.GPUs[i].ID == s {
			return gpuLabel(r, s)
		}
	}
	return s
}

// nearness orders the words of a matrix from near to far; NVLinks are nearest.
var nearness = map[string]int{"X": 0, "PIX": 2, "PXB": 3, "PHB": 4, "NODE": 5, "SYS": 6}

var linkWords = []struct{ word, means string }{
	{"NV#", "that many NVLinks"}, {"PIX", "one PCIe switch"}, {"PXB", "several PCIe switches"}, {"PHB", "the CPU’s host bridge"}, {"NODE", "between host bridges of one NUMA node"}, {"SYS", "between NUMA nodes"},
}

func topologyBlock(t *Topology, several bool) Matrix {
	m := Matrix{ID: "topology", Title: "How the cards are joined", Parts: t.Parts}
	if several {
		m.Title += ", " + Middle(cmp.Or(t.Host, t.Path), 48)
		m.ID = ""
	}
	seen := map[string]bool{}
	for _, row := range t.Cells {
		var cells []MatrixCell
		for _, w := range row {
			c := MatrixCell{Text: w, Level: -1}
			switch {
			case strings.HasPrefix(w, "NV"):
				c.Level = 1
				seen["NV#"] = true
			default:
				if n, ok := nearness[w]; ok {
					c.Level = n
					seen[w] = true
				}
			}
			cells = append(cells, c)
		}
		m.Cells = append(m.Cells, cells)
	}
	for _, l := range linkWords {
		if seen[l.word] {
			m.Legend = append(m.Legend, l.word+": "+l.means)
		}
	}
	return m
}

// cardStates are the columns of the cards' table, where some card states it.
var cardStates = []struct{ name, title string }{
	{timeline.AttrPowerLimit, "Power limit"}, {timeline.AttrPowerDefault, "Default"}, {timeline.AttrPCIeGenMax, "PCIe gen at most"}, {timeline.AttrPCIeWidthMax, "Lanes at most"},
	{timeline.AttrNVLinks, "NVLinks"}, {timeline.AttrNUMANode, "NUMA node"}, {timeline.AttrCPUAffinity, "CPUs near it"}, {timeline.AttrECC, "ECC"}, {timeline.AttrMIG, "MIG"}, {timeline.AttrRecovery, "Recovery"},
	{timeline.AttrPersistence, "Persistence"}, {timeline.AttrVBIOS, "VBIOS"},
}

// cardsTable has a row a card, or one for all that state the same.
func cardsTable(r *Report) (Table, bool) {
	of := map[string]map[string]*State{}
	for i := range r.Machine {
		s := &r.Machine[i]
		if of[s.Subject] == nil {
			of[s.Subject] = map[string]*State{}
		}
		of[s.Subject][s.Name] = s
	}
	t := Table{ID: "card-table", Title: "What the cards state", Shown: 16, Columns: []Column{{Title: "GPU"}}}
	var names []string
	for _, c := range cardStates {
		for i := range r.GPUs {
			if of[r.GPUs[i].ID][c.name] != nil {
				names = append(names, c.name)
				t.Columns = append(t.Columns, Column{Title: c.title, Num: strings.HasSuffix(c.name, "_w") || strings.HasSuffix(c.name, "_count"), More: len(names) > 3})
				break
			}
		}
	}
	if len(names) == 0 {
		return Table{}, false
	}
	type group struct {
		gpus  []string
		cells []Cell
	}
	var groups []group
	for i := range r.GPUs {
		id := r.GPUs[i].ID
		if of[id] == nil {
			continue
		}
		var cells []Cell
		key := ""
		for _, n := range names {
			c := Cell{Text: "–", Weak: true, Title: "not stated"}
			if s := of[id][n]; s != nil {
				c = Cell{Text: stateText(s)}
			}
			cells = append(cells, c)
			key += "\x00" + c.Text
		}
		found := false
		for k := range groups {
			same := ""
			for _, c := range groups[k].cells {
				same += "\x00" + c.Text
			}
			if same == key {
				groups[k].gpus = append(groups[k].gpus, id)
				found = true
			}
		}
		if !found {
			groups = append(groups, group{[]string{id}, cells})
		}
	}
	for _, g := range groups {
		name := gpuLabel(r, g.gpus[0])
		switch n := len(g.gpus); {
		case n == len(r.GPUs) && n > 1:
			name = fmt.Sprintf("all %d GPUs", n)
		case n > 4:
			name += fmt.Sprintf(" and %d more", n-1)
		case n > 1:
			for _, id := range g.gpus[1:] {
				name += ", " + gpuLabel(r, id)
			}
		}
		t.Rows = append(t.Rows, Row{Cells: append([]Cell{{Text: name}}, g.cells...)})
	}
	capRows(&t, "kinds of cards")
	return t, true
}

func stateText(s *State) string {
	if s.Value == nil {
		if s.Text == "" {
			return "–"
		}
		return Middle(s.Text, 60)
	}
	switch unit.Unit(s.Unit) {
	case unit.Watt:
		return fmt.Sprintf("%.0f%sW", *s.Value, nbsp)
	case unit.Celsius:
		return fmt.Sprintf("%.0f%s°C", *s.Value, nbsp)
	case unit.Hertz:
		return fmt.Sprintf("%.0f%sMHz", *s.Value/1e6, nbsp)
	case unit.Byte:
		return Bytes(*s.Value)
	case unit.BytePerSecond:
		return fmt.Sprintf("%.1f%sGB/s", *s.Value/1e9, nbsp)
	}
	return fmt.Sprintf("%g", *s.Value)
}

var hostStates = []struct{ name, title string }{
	{timeline.AttrHostCPUs, "CPUs"}, {timeline.AttrHostSockets, "Sockets"}, {timeline.AttrHostNUMANodes, "NUMA nodes"}, {timeline.AttrHostNUMACPUs, "CPUs by node"}, {timeline.AttrHostCPUModel, "CPU model"},
	{timeline.AttrHostMemory, "Memory"}, {timeline.AttrCPUQuota, "CPU quota"}, {timeline.AttrCPUSet, "CPUs allowed"}, {timeline.AttrDriver, "Driver"}, {timeline.AttrCUDA, "CUDA"}, {timeline.AttrHostKernel, "Kernel"}, {timeline.AttrHostOS, "System"},
}

func hostsTable(r *Report) (Table, bool) {
	isGPU := map[string]bool{}
	for i := range r.GPUs {
		isGPU[r.GPUs[i].ID] = true
	}
	t := Table{ID: "host-table", Title: "What the hosts state", Shown: 24, Columns: []Column{{Title: "Host"}, {Title: "What"}, {Title: "States", Wide: true}}}
	var hosts []string
	of := map[string]map[string]*State{}
	for i := range r.Machine {
		s := &r.Machine[i]
		if isGPU[s.Subject] {
			continue
		}
		if of[s.Subject] == nil {
			of[s.Subject] = map[string]*State{}
			hosts = append(hosts, s.Subject)
		}
		of[s.Subject][s.Name] = s
	}
	for _, h := range hosts {
		for _, c := range hostStates {
			if s := of[h][c.name]; s != nil {
				t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: h}, {Text: c.title, Weak: true}, {Text: stateText(s)}}})
			}
		}
	}
	if len(t.Rows) == 0 {
		return Table{}, false
	}
	capRows(&t, "lines")
	return t, true
}
