package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// run is the ranks that belong together.
type run struct {
	reds   []*timeline.Reduced
	dup    []*timeline.Reduced // the same rank again
	asides []aside             // other captures of its ranks at the same time
}

// aside is a capture of the rank that of has, recorded at the same time.
type aside struct{ red, of *timeline.Reduced }

// chooseRun groups the reductions into runs and takes the one with most ranks, then most steps, then most device ops, then the first
// by path. Another run may be a second capture of the same ranks at the same time, by another profiler: then the one with the richer
// ledger is taken, and the other stands aside. The ranks come back sorted by host, rank (unknown last) and path.
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
		// Of several runs that it may belong to, the one of its file, then one whose names differ in numbers only, then the first.
		at, liking := -1, -1
		for i := range runs {
			switch joins(&runs[i], r) {
			case belongs:
				if l := likes(runs[i].reds[0], r); l > liking {
					at, liking = i, l
				}
			case sameAgain:
				runs[i].dup = append(runs[i].dup, r)
				continue next
			}
		}
		if at >= 0 {
			runs[at].reds = append(runs[at].reds, r)
			continue
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
	for i := range runs {
		if i != best && richer(&runs[i], &runs[best]) {
			best = i
		}
	}
	chosen := runs[best]
	numberRanks(chosen.reds)
	others := slices.Delete(runs, best, best+1)
	for i := range others {
		o := &others[i]
		var rest []*timeline.Reduced
		for _, x := range o.reds {
			if k := slices.IndexFunc(chosen.reds, func(y *timeline.Reduced) bool { return sameCapture(y, x) }); k >= 0 {
				chosen.asides = append(chosen.asides, aside{x, chosen.reds[k]})
			} else {
				rest = append(rest, x)
			}
		}
		o.reds = rest
	}
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
	return chosen, others
}

// likes is how near the names of two captures are: 2 one file, 1 equal but for numbers.
func likes(a, x *timeline.Reduced) int {
	switch {
	case a.Path == x.Path && a.Path != "":
		return 2
	case path.Dir(a.Path) == path.Dir(x.Path) && digitless(path.Base(a.Path)) == digitless(path.Base(x.Path)):
		return 1
	}
	return 0
}

const (
	sameActivity = 0.8 // correlation from which two captures show one GPU
	lagReach     = 2000 * time.Millisecond
	clocksApart  = timeline.Time(time.Second)
	enoughSteps  = 10 // of more of them none makes a ledger richer
)

// sameCapture tells whether x is another capture of what y captured: the same rank, recorded at the same time. The process number must
// be the same, or the activity of the GPU, for a container may count processes by itself; and where nothing else says that the hosts are
// one, activity must not speak against it.
func sameCapture(y, x *timeline.Reduced) bool {
	p, q := &y.Process, &x.Process
	if p.Rank >= 0 && q.Rank >= 0 && p.Rank != q.Rank || p.WorldSize > 0 && q.WorldSize > 0 && p.WorldSize != q.WorldSize || y.Path == x.Path {
		return false
	}
	named := p.Host != "" && q.Host != ""
	if named && !sameHost(p.Host, q.Host) {
		return false
	}
	both := min(y.Recorded.End, x.Recorded.End) - max(y.Recorded.Start, x.Recorded.Start)
	if both <= 0 || 2*both < min(y.Recorded.End-y.Recorded.Start, x.Recorded.End-x.Recorded.Start) {
		return false
	}
	lag, told := lagOf(y, x)
	if p.PID > 0 && p.PID == q.PID {
		return named || !told || lag.R >= sameActivity
	}
	return told && lag.R >= sameActivity
}

// lagOf compares the activity of a GPU that both captures know by the same ordinal.
func lagOf(y, x *timeline.Reduced) (timeline.Lag, bool) {
	for i := range y.GPUs {
		for j := range x.GPUs {
			a, b := &y.GPUs[i], &x.GPUs[j]
			if a.Device.Ordinal != b.Device.Ordinal {
				continue
			}
			if l, ok := timeline.LagOf(&a.Bins, &b.Bins, lagReach); ok {
				return l, true
			}
		}
	}
	return timeline.Lag{}, false
}

// sameHost compares host names, of which one may have its domain behind it.
func sameHost(a, b string) bool {
	x, _, long := strings.Cut(strings.ToLower(a), ".")
	y, _, also := strings.Cut(strings.ToLower(b), ".")
	return strings.EqualFold(a, b) || x == y && !(long && also)
}

// richer tells whether a captured every rank of b at the same time, and its ledgers say more: they are of as many ranks, of enough steps,
// know operators, are of more steps, leave less unknown, in this order.
func richer(a, b *run) bool {
	for _, y := range b.reds {
		if len(y.GPUs) > 0 && !slices.ContainsFunc(a.reds, func(x *timeline.Reduced) bool { return sameCapture(y, x) }) {
			return false
		}
	}
	score := func(r *run) [5]int64 {
		var ranks, steps, ops, known int64
		ops = 1
		for _, x := range r.reds {
			if len(x.GPUs) > 0 {
				ranks++
			}
			steps = max(steps, int64(len(x.Steps.Index)))
			if !x.Rank.Operators {
				ops = 0
			}
			var unknown, window int64
			for i := range x.GPUs {
				unknown += x.GPUs[i].Owners[timeline.UnknownOwner]
				window += int64(x.GPUs[i].Window.Dur())
			}
			if window > 0 {
				known += 100 - 100*unknown/window
			}
		}
		return [5]int64{ranks, min(steps, enoughSteps), ops, steps, known}
	}
	x, y := score(a), score(b)
	return slices.Compare(x[:], y[:]) > 0
}

// borrow fills in what another capture of the same process knows of it and of its GPUs.
func borrow(to, from *timeline.Reduced) {
	p, q := &to.Process, &from.Process
	p.Host = cmp.Or(p.Host, q.Host)
	p.WorldSize = cmp.Or(p.WorldSize, q.WorldSize)
	if p.Rank < 0 && q.Rank >= 0 {
		p.Rank, p.RankHow = q.Rank, q.RankHow
	}
	for i := range to.GPUs {
		for j := range from.GPUs {
			d, o := &to.GPUs[i].Device, &from.GPUs[j].Device
			if d.Ordinal != o.Ordinal || d.UUID != "" && o.UUID != "" && d.UUID != o.UUID {
				continue
			}
			d.UUID, d.Bus, d.Name, d.CC = cmp.Or(d.UUID, o.UUID), cmp.Or(d.Bus, o.Bus), cmp.Or(d.Name, o.Name), cmp.Or(d.CC, o.CC)
			d.SMs, d.Memory = cmp.Or(d.SMs, o.SMs), cmp.Or(d.Memory, o.Memory)
		}
	}
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
			if again(m, x) {
				return sameAgain
			}
		}
		if m.Process.Rank < 0 && x.Process.Rank < 0 && again(m, x) && !m.Recorded.Empty() {
			return sameAgain
		}
	}
	if taken || wa != wx || wa == 1 || (a.Process.WorldSize > 0 && len(r.reds) >= a.Process.WorldSize) {
		return apart
	}
	overlap := false
	for _, m := range r.reds {
		// The clocks of two hosts may differ by more than a short recording lasts.
		slack := timeline.Time(0)
		if p, q := hostOf(m), hostOf(x); wa > 1 && p != "" && q != "" && !sameHost(p, q) && sameKinds(m, x) {
			slack = clocksApart
		}
		overlap = overlap || (m.Recorded.Start < x.Recorded.End+slack && x.Recorded.Start < m.Recorded.End+slack)
	}
	if len(a.GPUs) > 0 && len(x.GPUs) > 0 {
		if p, q := a.GPUs[0].Device.Name, x.GPUs[0].Device.Name; p != "" && q != "" && p != q && !overlap {
			return apart
		}
	}
	named := likes(a, x) > 0
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

// again tells whether x is the recording m once more, and not that of another profiler.
func again(m, x *timeline.Reduced) bool {
	return m.Process.PID == x.Process.PID && m.Process.Host == x.Process.Host && m.Recorded == x.Recorded && maps.Equal(m.Process.Meta, x.Process.Meta)
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

// sameKinds tells whether two ranks issued collectives of the same primitives and sizes, in whatever order.
func sameKinds(a, b *timeline.Reduced) bool {
	type kind struct {
		primitive string
		bytes     int64
	}
	kinds := func(r *timeline.Reduced) map[kind]bool {
		out := map[kind]bool{}
		for i := range r.Collectives {
			out[kind{r.Collectives[i].Primitive, r.Collectives[i].Bytes}] = true
		}
		return out
	}
	x, y := kinds(a), kinds(b)
	return len(x) > 0 && maps.Equal(x, y)
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
	for _, a := range chosen.asides {
		borrow(a.of, a.red)
		j.Asides = append(j.Asides, Aside{Of: slices.Index(j.Ranks, a.of), Red: a.red})
	}
	sort.SliceStable(j.Asides, func(a, b int) bool {
		x, y := &j.Asides[a], &j.Asides[b]
		return x.Of < y.Of || x.Of == y.Of && x.Red.Path < y.Red.Path
	})
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
		for _, g := range membersOf(r) {
			for _, m := range g {
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
	aside := map[string]bool{}
	for _, a := range j.Asides {
		if aside[a.Red.Path] {
			continue
		}
		aside[a.Red.Path] = true
		problem("run/second-capture", timeline.Info, a.Red.Path, "recorded at the same time as %s, of the same process: the time ledger is that of %s, which says more; the other's readings are used",
			j.Ranks[a.Of].Path, j.Ranks[a.Of].Path)
	}
	for _, o := range others {
		for _, d := range slices.Concat(o.reds, o.dup) {
			if !contains(j.Ignored, d.Path) && !aside[d.Path] {
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
