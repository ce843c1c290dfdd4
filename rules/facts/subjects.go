package facts

import (
	"cmp"
	"fmt"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// Card is one GPU of the report: one that a trace drove, or one that only logs speak of.
type Card struct {
	ID      string // gpu0, gpu1, ... in report order
	Host    string // "" unknown
	Rank    int    // number of the rank that drives it, -1 none or unknown
	Index   int    // NVML index, else CUDA ordinal, else -1
	Name    string // "" unknown
	UUID    string // "" unknown
	Trace   int    // position in Job.GPUs, -1 none
	Devices []timeline.DeviceID
	Unused  bool // no trace drives it, others are driven by some, and nothing shows it at work
}

// Cards lists the GPUs of the report in its order: those of the traces, then those that only logs know, by the number of their id. Where
// Input.Logs is nil nobody has matched devices: then each that has readings is a GPU, if no trace has any.
func Cards(in *Input) []Card {
	var out []Card
	traced := map[string]bool{}
	if in.Job != nil {
		for i, g := range in.Job.GPUs {
			r := in.Job.Ranks[g.Rank]
			dev := r.GPUs[g.GPU].Device
			c := Card{ID: g.ID, Host: r.Process.Host, Rank: r.Process.Rank, Index: dev.Index, Name: dev.Name, UUID: dev.UUID, Trace: i,
				Devices: in.Logs[g.ID]}
			if c.Index < 0 {
				c.Index = dev.Ordinal
			}
			traced[g.ID] = true
			out = append(out, c)
		}
	}
	var ids []string
	for id := range in.Logs {
		if !traced[id] {
			ids = append(ids, id)
		}
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
		c.Unused = len(traced) > 0 && !works(in, &c)
		out = append(out, c)
	}
	if in.Logs == nil && len(out) == 0 {
		seen := map[timeline.DeviceID]bool{}
		for i := range in.Base.Series {
			if d := in.Base.Tracks[in.Base.Series[i].Track].Device; d >= 0 && !seen[d] {
				seen[d] = true
				c := loggedCard(in.Base, []timeline.DeviceID{d})
				c.ID = fmt.Sprintf("gpu%d", len(out))
				out = append(out, c)
			}
		}
	}
	return out
}

// works tells whether the readings of a card show it at work: more than one in twenty with 10 % utilisation or more.
func works(in *Input, c *Card) bool {
	s := cardSeries(in, c, timeline.SMBusy)
	if s == nil {
		return false
	}
	n := 0
	for _, v := range s.Value {
		if v >= utilLow {
			n++
		}
	}
	return 20*n > len(s.Value)
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
		if c.Host == "" && d.Source >= 0 && int(d.Source) < len(tl.Sources) {
			c.Host = tl.Sources[d.Source].Host
		}
		if c.Host == "" && d.Proc >= 0 && d.Proc < len(tl.Procs) {
			c.Host = tl.Procs[d.Proc].Host
		}
	}
	return c
}

// Subjects lists what facts speak about: the run, hosts by name, ranks in the order of Job.Ranks (without traces those of the step logs), GPUs in the order of Cards.
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
	if len(in.Job.Ranks) == 0 {
		for _, l := range stepLogs(in) {
			id := fmt.Sprintf("rank%d", l.rank)
			if l.rank < 0 {
				id = "loop"
			}
			if used[id]++; used[id] > 1 {
				id = fmt.Sprintf("%s#%d", id, used[id])
			}
			out = append(out, Subject{Kind: Rank, ID: id, Rank: l.rank, Up: 0})
		}
	}
	for _, c := range cards {
		up := hosts[c.Host] // the run where no host is known
		if c.Trace >= 0 {
			up = firstRank + in.Job.GPUs[c.Trace].Rank
		}
		s := Subject{Kind: GPU, ID: c.ID, Rank: c.Rank, Up: up}
		if c.Unused {
			s.Unused = "no trace drives it, and no log shows it at work"
		}
		out = append(out, s)
	}
	return out
}

// eachRank calls f for every rank with its subject; a rank that only its step log shows has an empty reduction.
func (p *Pass) eachRank(f func(sub int, r *timeline.Reduced)) {
	subs := p.Facts.Of(Rank)
	for i, r := range p.Job.Ranks {
		f(subs[i], r)
	}
	if len(subs) > len(p.Job.Ranks) {
		for i, l := range stepLogs(p.Input) {
			f(subs[i], loopOf(l))
		}
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

// series gives the readings of one metric of a card inside the run's window: of several sources the one with most, finer ones than one a
// second not counted, so that a profiler's seconds do not hide a log's minutes. nil: none.
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
		if cut := cutSeries(in, s); len(cut.At) > 0 && (best == nil || tellsMore(cut.At, best.At)) {
			best = &cut
		}
	}
	return best
}

// tellsMore compares two sources of one metric: by readings, at most one a second of the time they span; then by all.
func tellsMore(a, b []timeline.Time) bool {
	seconds := func(at []timeline.Time) int { return min(len(at), int((at[len(at)-1]-at[0])/1e9)+1) }
	return cmp.Or(cmp.Compare(seconds(a), seconds(b)), cmp.Compare(len(a), len(b))) > 0
}

func has(list []timeline.DeviceID, id timeline.DeviceID) bool {
	for _, d := range list {
		if d == id {
			return true
		}
	}
	return false
}

// lasting are the metrics whose single reading still speaks of the run when it was taken before or after it: limits, and what errors left.
var lasting = map[string]bool{
	timeline.PowerLimit.Name: true, timeline.PowerDefault.Name: true, timeline.ClockSMMax.Name: true, timeline.ClockMemMax.Name: true,
	timeline.PCIeGenMax.Name: true, timeline.PCIeWidthMax.Name: true, timeline.MemTotal.Name: true, timeline.NVLinkUp.Name: true,
	timeline.RemapPending.Name: true, timeline.RemapFailed.Name: true, timeline.RemapCorr.Name: true, timeline.RemapUncorr.Name: true,
	timeline.RetirePending.Name: true, timeline.RetiredSingle.Name: true, timeline.RetiredDouble.Name: true,
	timeline.ECCCorrected.Name: true, timeline.ECCUncorrected.Name: true,
}

// cutSeries keeps the readings inside Input.Window; one whose clock is not placed is kept whole, and so is a snapshot of what lasts.
func cutSeries(in *Input, s *timeline.Series) timeline.Series {
	out := *s
	if in.Window.Empty() || !placed(in.Base, s) || len(s.At) == 1 && lasting[s.Metric.Name] {
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
