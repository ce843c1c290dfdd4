package ledger

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// run is the ranks that belong together.
type run struct {
	reds []*timeline.Reduced
	dup  []*timeline.Reduced // the same rank again
}

// chooseRun groups the reductions into runs and takes the one with most ranks, then most steps, then most device ops, then the first
// by path. The ranks come back sorted by host, rank (unknown last) and path.
func chooseRun(reds []*timeline.Reduced) (run, []run) {
	in := slices.Clone(reds)
	sort.SliceStable(in, func(i, j int) bool {
		if in[i].Path != in[j].Path {
			return in[i].Path < in[j].Path
		}
		return in[i].Process.PID < in[j].Process.PID
	})
	var runs []run
next:
	for _, r := range in {
		for i := range runs {
			switch joins(&runs[i], r) {
			case belongs:
				runs[i].reds = append(runs[i].reds, r)
				continue next
			case sameAgain:
				runs[i].dup = append(runs[i].dup, r)
				continue next
			}
		}
		runs = append(runs, run{reds: []*timeline.Reduced{r}})
	}
	if len(runs) == 0 {
		return run{}, nil
	}
	size := func(r *run) (ranks, steps int, ops int64) {
		for _, x := range r.reds {
			if len(x.GPUs) > 0 {
				ranks++
			}
			steps = max(steps, len(x.Steps.Index))
			for i := range x.GPUs {
				ops += x.GPUs[i].Ops
			}
		}
		return
	}
	best := 0
	for i := range runs {
		ra, sa, oa := size(&runs[i])
		rb, sb, ob := size(&runs[best])
		if ra > rb || (ra == rb && (sa > sb || (sa == sb && oa > ob))) {
			best = i
		}
	}
	chosen := runs[best]
	sort.SliceStable(chosen.reds, func(i, j int) bool {
		a, b := chosen.reds[i], chosen.reds[j]
		if a.Process.Host != b.Process.Host {
			return a.Process.Host < b.Process.Host
		}
		if x, y := a.Process.Rank, b.Process.Rank; x != y {
			return y < 0 || (x >= 0 && x < y)
		}
		if a.Path != b.Path {
			return a.Path < b.Path
		}
		return a.Process.PID < b.Process.PID
	})
	return chosen, slices.Delete(runs, best, best+1)
}

type relation uint8

const (
	apart relation = iota
	belongs
	sameAgain
)

// joins tells whether a reduction is one more rank of a run. Ranks belong together when they are of one file, or when they state the same
// world (or none), are different ranks, and their recordings overlap, their collectives are alike, or their names differ only in numbers.
func joins(r *run, x *timeline.Reduced) relation {
	a := r.reds[0]
	if a.Path == x.Path && a.Path != "" {
		return belongs
	}
	wa, wx := worldOf(a), worldOf(x)
	taken := false
	for _, m := range r.reds {
		if m.Process.Rank >= 0 && m.Process.Rank == x.Process.Rank {
			taken = true
			if m.Process.PID == x.Process.PID && m.Process.Host == x.Process.Host && m.Recorded == x.Recorded {
				return sameAgain
			}
		}
		if m.Process.Rank < 0 && x.Process.Rank < 0 && m.Process.PID == x.Process.PID && m.Process.Host == x.Process.Host && m.Recorded == x.Recorded && !m.Recorded.Empty() {
			return sameAgain
		}
	}
	if taken || wa != wx || wa == 1 || (a.Process.WorldSize > 0 && len(r.reds) >= a.Process.WorldSize) {
		return apart
	}
	overlap := false
	for _, m := range r.reds {
		overlap = overlap || (m.Recorded.Start < x.Recorded.End && x.Recorded.Start < m.Recorded.End)
	}
	if len(a.GPUs) > 0 && len(x.GPUs) > 0 {
		if p, q := a.GPUs[0].Device.Name, x.GPUs[0].Device.Name; p != "" && q != "" && p != q && !overlap {
			return apart
		}
	}
	named := path.Dir(a.Path) == path.Dir(x.Path) && digitless(path.Base(a.Path)) == digitless(path.Base(x.Path))
	switch {
	case wa > 1:
		if overlap || named || (path.Dir(a.Path) == path.Dir(x.Path) && alike(a, x)) {
			return belongs
		}
	case len(a.Collectives) > 0 && len(x.Collectives) > 0:
		if overlap && (named || alike(a, x)) {
			return belongs
		}
	}
	return apart
}

// worldOf is the stated world size, else that of the largest group named in a collective; 0 unknown.
func worldOf(r *timeline.Reduced) int {
	if r.Process.WorldSize > 0 {
		return r.Process.WorldSize
	}
	w := 0
	for i := range r.Collectives {
		w = max(w, r.Collectives[i].GroupSize)
	}
	return w
}

// alike tells whether two ranks issued the same collectives: the first 64 have equal primitives and sizes.
func alike(a, b *timeline.Reduced) bool {
	const look = 64
	n := min(len(a.Collectives), len(b.Collectives), look)
	if n < 3 {
		return false
	}
	known := 0
	for i := range n {
		x, y := &a.Collectives[i], &b.Collectives[i]
		if x.Primitive != y.Primitive || x.Bytes != y.Bytes {
			return false
		}
		if x.Bytes > 0 {
			known++
		}
	}
	return known >= 3
}

// digitless replaces each run of digits by one #: names of one job's ranks are then equal.
func digitless(s string) string {
	var b strings.Builder
	was := false
	for _, c := range s {
		if c >= '0' && c <= '9' {
			if !was {
				b.WriteByte('#')
			}
			was = true
			continue
		}
		was = false
		b.WriteRune(c)
	}
	return b.String()
}

// newJob lists ranks, GPUs, what is missing and what is not analysed.
func newJob(chosen run, others []run) *Job {
	j := &Job{Ranks: chosen.reds}
	problem := func(code string, sev timeline.Severity, p, format string, a ...any) {
		j.Problems = append(j.Problems, timeline.Problem{Code: code, Severity: sev, Path: p, Message: fmt.Sprintf(format, a...), Count: 1})
	}
	for _, r := range j.Ranks {
		j.World = max(j.World, r.Process.WorldSize)
	}
	for ri, r := range j.Ranks {
		for gi := range r.GPUs {
			j.GPUs = append(j.GPUs, GPURef{ID: fmt.Sprintf("gpu%d", len(j.GPUs)), Rank: ri, GPU: gi})
		}
	}
	have := map[int]bool{}
	unnumbered := 0
	for _, r := range j.Ranks {
		if r.Process.Rank >= 0 {
			have[r.Process.Rank] = true
		} else {
			unnumbered++
		}
	}
	want := map[int]bool{}
	for k := range j.World {
		want[k] = true
	}
	for _, r := range j.Ranks {
		for i := range r.Collectives {
			for _, m := range r.Collectives[i].GroupRanks {
				want[m] = true
			}
		}
	}
	if unnumbered == 0 {
		for k := range want {
			if !have[k] {
				j.Missing = append(j.Missing, k)
			}
		}
		sort.Ints(j.Missing)
	}
	switch {
	case len(j.Missing) > 0:
		problem("run/missing-ranks", timeline.Info, "", "traces of %d of %d ranks are here; missing: %s", len(j.Ranks), len(want), list(j.Missing))
	case unnumbered > 0 && j.World > len(j.Ranks):
		problem("run/missing-ranks", timeline.Info, "", "traces of %d of %d ranks are here, and some do not state their number", len(j.Ranks), j.World)
	}
	for _, d := range chosen.dup {
		j.Ignored = append(j.Ignored, d.Path)
		problem("run/duplicate-rank", timeline.Info, d.Path, "the same recording of rank %d is in another file: it is counted once", d.Process.Rank)
	}
	for _, o := range others {
		for _, d := range append(o.reds, o.dup...) {
			if !contains(j.Ignored, d.Path) {
				j.Ignored = append(j.Ignored, d.Path)
				problem("run/other-run", timeline.Info, d.Path, "belongs to another run: only the run with most ranks, then most steps, is analysed; give its files alone to see it")
			}
		}
	}
	sort.Strings(j.Ignored)
	return j
}

// list prints numbers, the first few of many.
func list[T int | int64](v []T) string {
	const show = 16
	var b strings.Builder
	for i, x := range v {
		if i == show {
			fmt.Fprintf(&b, " and %d more", len(v)-show)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, x)
	}
	return b.String()
}

// plural picks the word that goes with n.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
