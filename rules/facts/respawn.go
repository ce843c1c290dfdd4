package facts

import (
	"cmp"
	"fmt"
	"slices"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

func respawnDecl(id ID, u unit.Unit, most float64, doc string) *Decl {
	return &Decl{ID: id, Doc: doc, Unit: u, Per: Rank, Max: most, Capture: "C18"}
}

var (
	rankRespawn = respawnDecl("rank.epoch_respawn_frac", unit.Frac, 1, "Share of the epoch edges, with processes recorded in the middle of the epochs on both sides, over which most of the loader's workers are other processes.")
	rankSpawn   = respawnDecl("rank.epoch_spawn_frac", unit.Frac, 1, "Time from the start of the first new worker to the end of the epoch's first step, less a usual step, out of an epoch's time: median over those edges; 0 where workers stay.")
	rankSpawned = respawnDecl("rank.epoch_workers", unit.Text, 0, "The loader's workers on both sides of the first such edge, and when the first new one was started.")
)

// Respawn asks whether a loader makes its workers anew for each epoch. The training loop's log says where an epoch ends; a recording of the
// host's processes, which of them lived in the middle of the epoch before and of the one behind it. A recording by gpureport says
// whose children they are and when each was started; one without that counts what looks like a worker, from its first reading on. Without
// processes a trace over an edge tells, whose Python frames start workers after the first step: then the whole stall is theirs, Inferred.
// Missing where one of the two is, where their clocks cannot be compared, or where no worker was seen on both sides of an edge.
var Respawn = &Deriver{Name: "respawn", After: []*Deriver{HostLoad, StepLevels}, Gives: []*Decl{rankRespawn, rankSpawn, rankSpawned}, Run: func(p *Pass) {
	logs := stepLogs(p.Input)
	p.eachRank(func(sub int, r *timeline.Reduced) {
		w := &r.Rank.WorkerStarts
		edge, known := p.Get(rankEdgeFrac, sub)
		switch why, capture := p.respawnOf(sub, logs, r); {
		case why == "":
		case w.Calls > 0 && known:
			v := Value{Num: 1, Cover: 1, Conf: timeline.Inferred}
			v.Refs, v.NRefs = rowRefs(r, w.Rows)
			p.Set(rankRespawn, sub, v)
			v.Num = edge.Num
			p.Set(rankSpawn, sub, v)
			v.Num, v.Text = 0, fmt.Sprintf("by Python frames the main thread started %s of the loader in traced steps", counted(int(w.Calls), "worker"))
			p.Set(rankSpawned, sub, v)
		default:
			for _, d := range []*Decl{rankRespawn, rankSpawn, rankSpawned} {
				p.Miss(d, sub, why)
				p.Facts.vals[sub][d.ID].need.Capture = capture // without epochs to look at, processes would tell nothing
			}
		}
	})
}}

// life is one process that looks like a worker.
type life struct {
	pid         int64
	start, last timeline.Time
	born        bool // start is stated; else it is the first reading
	ref         Ref
}

// lives gives the workers of a rank on a host, by start, and from when to when processes were read.
func (p *Pass) lives(host int, r *timeline.Reduced) (out []life, conf Confidence, read timeline.Interval) {
	procs, workers, _, _ := p.loaders(host)
	parent := map[timeline.TrackID]int64{}
	starts := map[timeline.TrackID][]*timeline.Attr{}
	childs := map[timeline.TrackID]bool{}
	for i := range p.Base.Attrs {
		a := &p.Base.Attrs[i]
		switch a.Name {
		case timeline.AttrProcParent:
			parent[a.Track] = int64(a.Value)
		case timeline.AttrProcStart:
			starts[a.Track] = append(starts[a.Track], a)
		}
	}
	known := false
	for i := range workers {
		if t := workers[i].track; r.Process.PID > 0 && parent[t] == r.Process.PID {
			childs[t], known = true, true
		}
	}
	conf = timeline.Measured
	if !known {
		conf = timeline.Inferred // all workers of the host stand for those of the rank
	}
	for i := range procs {
		if s := &procs[i].s; placed(p.Base, s) {
			if read.Empty() {
				read = timeline.Interval{Start: s.At[0], End: s.At[len(s.At)-1]}
			}
			read.Start, read.End = min(read.Start, s.At[0]), max(read.End, s.At[len(s.At)-1])
		}
	}
	for i := range workers {
		w := &workers[i]
		if known && !childs[w.track] || !placed(p.Base, &w.s) {
			continue
		}
		path := p.Base.Sources[p.Base.Tracks[w.track].Source].Path
		at := w.s.At
		list := starts[w.track]
		slices.SortStableFunc(list, func(a, b *timeline.Attr) int { return cmp.Compare(a.At, b.At) })
		if len(list) == 0 {
			out = append(out, life{w.thread, at[0], at[len(at)-1], false, Ref{Path: path, Row: uint64(w.s.Row[0])}})
			continue
		}
		for k, a := range list { // one pid may have been given to several in turn
			l := life{w.thread, a.At, a.At, true, Ref{Path: path, Row: uint64(a.Row)}}
			for _, t := range at {
				if t >= l.start && (k+1 == len(list) || t < list[k+1].At) {
					l.last = t
				}
			}
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b life) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)) })
	return out, conf, read
}

// respawnOf judges a rank by the processes that were recorded, or says why it cannot.
func (p *Pass) respawnOf(sub int, logs []*stepLog, r *timeline.Reduced) (why, capture string) {
	l := logOf(logs, r.Process.Rank)
	if l == nil || l.epoch == nil {
		return "no log of the training loop states the epoch of each step", "C17"
	}
	if !l.placed {
		return "the training loop's log has no clock that is placed, so processes cannot be put beside it", "C17"
	}
	from := l.epochs()
	if len(from) < 3 {
		return "the log of the training loop has one epoch only", "C17"
	}
	host := p.hostAbove(sub)
	if host < 0 {
		return "which host the rank ran on is not known", "C18"
	}
	workers, conf, read := p.lives(host, r)
	switch {
	case read.Empty():
		return p.noHost("processes with times"), "C18"
	case len(workers) == 0:
		return "no process that looks like a DataLoader worker of this rank was recorded", "C18"
	}
	alive := func(at timeline.Time) (out []life) {
		for _, w := range workers {
			if w.start <= at && at <= w.last {
				out = append(out, w)
			}
		}
		return out
	}
	middle := func(k int) timeline.Time { return l.at[from[k]] + (l.at[from[k+1]-1]-l.at[from[k]])/2 }
	judged, anew := 0, 0
	var share []float64
	text := ""
	v := Value{Cover: 1, Conf: conf}
	for k := 1; k+1 < len(from); k++ {
		a, b := middle(k-1), middle(k)
		if a < read.Start || b > read.End {
			continue
		}
		before, after := alive(a), alive(b)
		if len(before) == 0 || len(after) == 0 {
			continue
		}
		judged++
		var fresh []life
		for _, w := range after {
			if !slices.ContainsFunc(before, func(o life) bool { return o.pid == w.pid && o.start == w.start }) {
				fresh = append(fresh, w)
			}
		}
		if kept := len(after) - len(fresh); 2*len(fresh) <= len(after) || 2*kept >= len(before) {
			continue
		}
		anew++
		edge := from[k]
		usual := median(l.sec[edge+1:max(edge+2, from[k+1])]) * float64(l.every)
		late := max(0, float64(l.at[edge]-fresh[0].start)/1e9-usual)
		epoch := float64(l.at[from[k+1]-1]-l.at[edge-1]) / 1e9
		if epoch > 0 {
			share = append(share, min(1, late/epoch))
		}
		if !fresh[0].born {
			v.Conf = min(v.Conf, timeline.Inferred)
		}
		for _, w := range fresh[:min(len(fresh), maxRefs-min(maxRefs, len(v.Refs)))] {
			v.Refs = append(v.Refs, w.ref)
		}
		v.NRefs += len(fresh)
		if text == "" {
			text = fmt.Sprintf("%s before, %s behind it, the first one started %.3g s before the epoch's first step was done", pids(before), pids(fresh), float64(l.at[edge]-fresh[0].start)/1e9)
		}
	}
	if judged == 0 {
		return "no epoch edge has workers of the loader recorded in the middle of the epochs on both sides", "C18"
	}
	v.Num = float64(anew) / float64(judged)
	p.Set(rankRespawn, sub, v)
	v.Num = 0
	if len(share) > 0 {
		v.Num = median(share)
	}
	p.Set(rankSpawn, sub, v)
	if text == "" {
		p.Miss(rankSpawned, sub, "the loader's workers are the same on both sides of an epoch's edge")
		return "", ""
	}
	v.Num, v.Text = 0, text
	p.Set(rankSpawned, sub, v)
	return "", ""
}

// pids names processes, the first ones by number.
func pids(list []life) string {
	s := ""
	for i, w := range list[:min(len(list), 4)] {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(w.pid)
	}
	if n := len(list) - 4; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	if len(list) == 1 {
		return "process " + s
	}
	return "processes " + s
}

// epochs gives the first line of each epoch, and the end of the last.
func (l *stepLog) epochs() (from []int) {
	for i := range l.epoch {
		if i == 0 || l.epoch[i] != l.epoch[i-1] {
			from = append(from, i)
		}
	}
	return append(from, len(l.epoch))
}

// hostAbove is the host of a subject: its holder, else the only one; -1 not known.
func (p *Pass) hostAbove(sub int) int {
	if h := p.Facts.holder(sub, Host); h >= 0 {
		return h
	}
	if hosts := p.Facts.Of(Host); len(hosts) == 1 {
		return hosts[0]
	}
	return -1
}
