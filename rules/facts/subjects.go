package facts

import (
	"fmt"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// Card is one GPU of the report: one that a trace drove, or, where there is no trace, one that the logs speak of.
type Card struct {
	ID      string // gpu0, gpu1, ... in report order
	Host    string // "" unknown
	Rank    int    // number of the rank that drives it, -1 none or unknown
	Index   int    // NVML index, else CUDA ordinal, else -1
	Name    string // "" unknown
	UUID    string // "" unknown
	Trace   int    // position in Job.GPUs, -1 none
	Devices []timeline.DeviceID
}

// Cards lists the GPUs of the report in its order: those of the traces; without any, those of the logs by host and index.
func Cards(in *Input) []Card {
	var out []Card
	if in.Job != nil && len(in.Job.GPUs) > 0 {
		for i, g := range in.Job.GPUs {
			r := in.Job.Ranks[g.Rank]
			dev := r.GPUs[g.GPU].Device
			c := Card{ID: g.ID, Host: r.Process.Host, Rank: r.Process.Rank, Index: dev.Index, Name: dev.Name, UUID: dev.UUID, Trace: i,
				Devices: in.Logs[g.ID]}
			if c.Index < 0 {
				c.Index = dev.Ordinal
			}
			out = append(out, c)
		}
		return out
	}
	if len(in.Logs) > 0 {
		ids := make([]string, 0, len(in.Logs))
		for id := range in.Logs {
			ids = append(ids, id)
		}
		sort.Slice(ids, func(i, j int) bool {
			if len(ids[i]) != len(ids[j]) {
				return len(ids[i]) < len(ids[j]) // gpu9 before gpu10
			}
			return ids[i] < ids[j]
		})
		for _, id := range ids {
			c := loggedCard(in.Base, in.Logs[id])
			c.ID = id
			out = append(out, c)
		}
		return out
	}
	for _, devs := range sameCards(in.Base) {
		out = append(out, loggedCard(in.Base, devs))
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		if a.Host != b.Host {
			return a.Host < b.Host
		}
		if a.Index != b.Index {
			return a.Index < b.Index
		}
		return a.UUID < b.UUID
	})
	for i := range out {
		out[i].ID = fmt.Sprintf("gpu%d", i)
	}
	return out
}

func loggedCard(tl *timeline.Timeline, devs []timeline.DeviceID) Card {
	c := Card{Rank: -1, Index: -1, Trace: -1, Devices: devs}
	for _, id := range devs {
		d := &tl.Devices[id]
		if c.Index < 0 {
			c.Index = d.Index
		}
		if len(d.Name) > len(c.Name) {
			c.Name = d.Name
		}
		if c.UUID == "" {
			c.UUID = d.UUID
		}
		if c.Host == "" && d.Proc >= 0 && d.Proc < len(tl.Procs) {
			c.Host = tl.Procs[d.Proc].Host
		}
	}
	return c
}

// sameCards groups the logged devices that have readings: by UUID, by bus, else by index across sources. Two that claim one index
// but give the same metric of the same format at the same time are two cards on two hosts.
func sameCards(tl *timeline.Timeline) [][]timeline.DeviceID {
	type metricSpan struct {
		name, format string
		iv           timeline.Interval
	}
	read := map[timeline.DeviceID][]metricSpan{}
	for i := range tl.Series {
		s := &tl.Series[i]
		tr := tl.Tracks[s.Track]
		if tr.Kind != timeline.TrackGPU || tr.Device < 0 || len(s.At) == 0 {
			continue
		}
		read[tr.Device] = append(read[tr.Device],
			metricSpan{s.Metric.Name, tl.Sources[tr.Source].Format, timeline.Interval{Start: s.At[0], End: s.At[len(s.At)-1]}})
	}
	for i := range tl.Marks.At {
		tr := tl.Tracks[tl.Marks.Track[i]]
		if tr.Kind == timeline.TrackGPU && tr.Device >= 0 && read[tr.Device] == nil {
			read[tr.Device] = []metricSpan{{name: "mark", iv: timeline.Interval{Start: tl.Marks.At[i], End: tl.Marks.At[i]}}}
		}
	}
	clash := func(a, b timeline.DeviceID) bool {
		for _, x := range read[a] {
			for _, y := range read[b] {
				if x.name == y.name && x.format == y.format && x.iv.Start <= y.iv.End && y.iv.Start <= x.iv.End {
					return true
				}
			}
		}
		return false
	}
	same := func(a, b timeline.DeviceID) bool {
		x, y := &tl.Devices[a], &tl.Devices[b]
		if x.UUID != "" && y.UUID != "" {
			return x.UUID == y.UUID
		}
		if x.Bus != "" && y.Bus != "" && x.Bus != y.Bus {
			return false
		}
		return x.Index >= 0 && x.Index == y.Index && x.Source != y.Source && !clash(a, b)
	}
	var groups [][]timeline.DeviceID
next:
	for i := range tl.Devices {
		id := timeline.DeviceID(i)
		if read[id] == nil {
			continue
		}
		for g := range groups {
			all := true
			for _, other := range groups[g] {
				all = all && same(id, other)
			}
			if all {
				groups[g] = append(groups[g], id)
				continue next
			}
		}
		groups = append(groups, []timeline.DeviceID{id})
	}
	return groups
}

// Subjects lists what facts speak about: the run, hosts by name, ranks in the order of Job.Ranks, GPUs in the order of Cards.
func Subjects(in *Input) []Subject {
	out := []Subject{{Kind: Run, ID: "run", Rank: -1, Up: -1}}
	cards := Cards(in)
	hosts := map[string]int{}
	var names []string
	note := func(h string) {
		if _, ok := hosts[h]; !ok && h != "" {
			hosts[h] = 0
			names = append(names, h)
		}
	}
	for _, r := range in.Job.Ranks {
		note(r.Process.Host)
	}
	for _, c := range cards {
		note(c.Host)
	}
	// What a host's own readings say is of the run's machines: where nobody else names any, the run is on the one that they name.
	stated, unnamed := sourceHosts(in.Base)
	sole := len(names) == 0
	for _, h := range stated {
		note(h)
	}
	if unnamed && len(names) == 0 {
		note(soleHost)
	}
	sort.Strings(names)
	for _, h := range names {
		hosts[h] = len(out)
		out = append(out, Subject{Kind: Host, ID: h, Rank: -1, Up: 0})
	}
	if sole && len(names) == 1 {
		hosts[""] = hosts[names[0]]
	}
	firstRank := len(out)
	used := map[string]int{}
	for i, r := range in.Job.Ranks {
		id := fmt.Sprintf("rank%d", r.Process.Rank)
		if r.Process.Rank < 0 {
			id = fmt.Sprintf("process%d", i)
		}
		if used[id]++; used[id] > 1 {
			id = fmt.Sprintf("%s#%d", id, used[id])
		}
		out = append(out, Subject{Kind: Rank, ID: id, Rank: r.Process.Rank, Up: hosts[r.Process.Host]})
	}
	for _, c := range cards {
		up := hosts[c.Host] // the run where no host is known
		if c.Trace >= 0 {
			up = firstRank + in.Job.GPUs[c.Trace].Rank
		}
		out = append(out, Subject{Kind: GPU, ID: c.ID, Rank: c.Rank, Up: up})
	}
	return out
}

// eachRank calls f for every rank with its subject.
func (p *Pass) eachRank(f func(sub int, r *timeline.Reduced)) {
	for i, sub := range p.Facts.Of(Rank) {
		f(sub, p.Job.Ranks[i])
	}
}

// eachGPU calls f for every GPU with its subject; l and r are nil for a GPU that only logs know.
func (p *Pass) eachGPU(f func(sub int, c *Card, l *timeline.GPULedger, r *timeline.Reduced)) {
	cards := Cards(p.Input)
	for i, sub := range p.Facts.Of(GPU) {
		c := &cards[i]
		if c.Trace < 0 {
			f(sub, c, nil, nil)
			continue
		}
		g := p.Job.GPUs[c.Trace]
		r := p.Job.Ranks[g.Rank]
		f(sub, c, &r.GPUs[g.GPU], r)
	}
}

// missAll misses each of ds for sub for one reason.
func (p *Pass) missAll(sub int, why string, ds ...*Decl) {
	for _, d := range ds {
		p.Miss(d, sub, why)
	}
}

// series gives the readings of one metric of a card inside the run's window: of several sources the one with most. nil: none.
func (p *Pass) series(c *Card, m timeline.Metric) *timeline.Series {
	return cardSeries(p.Input, c, m)
}

func cardSeries(in *Input, c *Card, m timeline.Metric) *timeline.Series {
	var best *timeline.Series
	for i := range in.Base.Series {
		s := &in.Base.Series[i]
		if s.Metric.Name != m.Name || !has(c.Devices, in.Base.Tracks[s.Track].Device) {
			continue
		}
		if cut := cutSeries(in, s); len(cut.At) > 0 && (best == nil || len(cut.At) > len(best.At)) {
			best = &cut
		}
	}
	return best
}

func has(list []timeline.DeviceID, id timeline.DeviceID) bool {
	for _, d := range list {
		if d == id {
			return true
		}
	}
	return false
}

// cutSeries keeps the readings inside Input.Window; one whose clock is not placed is kept whole.
func cutSeries(in *Input, s *timeline.Series) timeline.Series {
	out := *s
	if in.Window.Empty() || !placed(in.Base, s) {
		return out
	}
	lo := sort.Search(len(s.At), func(i int) bool { return s.At[i] >= in.Window.Start })
	hi := sort.Search(len(s.At), func(i int) bool { return s.At[i] > in.Window.End }) // a reading at the end speaks of the time before it
	out.At, out.Value, out.Row = s.At[lo:hi], s.Value[lo:hi], s.Row[lo:hi]
	return out
}

// placed tells whether the source's time can be compared with that of the others.
func placed(tl *timeline.Timeline, s *timeline.Series) bool {
	clock := tl.Sources[tl.Tracks[s.Track].Source].Clock
	return clock >= 0 && int(clock) < len(tl.Clocks) && tl.Clocks[clock].How != timeline.Unplaced
}

// traceTable is the table of event numbers in a trace's refs.
const traceTable = "traceEvents"

func traceRef(path string, row uint32) Ref {
	return Ref{Path: path, Table: traceTable, Row: uint64(row)}
}

// maxRefs is how many rows a value names.
const maxRefs = 5

const noTrace = "no PyTorch trace was given"

// ownerFact is the fact name of a ledger owner: gpu.host_cpu_op_frac.
func ownerFact(o timeline.Owner) ID {
	return ID("gpu." + strings.NewReplacer(".", "_", "-", "_").Replace(o.String()) + "_frac")
}
