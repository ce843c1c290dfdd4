package ledger

import (
	"cmp"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"gpureport/ingest/timeline"
)

type waitKey struct {
	culprit int
	owner   timeline.Owner
	sub     timeline.Sub
	conf    timeline.Confidence
}

// blame says, for every piece of waiting, what held the late rank. While the others wait it is often computing already: what made it late lies
// before. So its time since all were together is set against the waiting rank's time since then; both began at one instant, so the excess of
// the late rank's owners is what it came late by. Where nothing exceeds, what it did meanwhile stands.
func (m *meeting) blame() {
	all := m.newBlamer()
	sum := map[waitKey]int64{}
	var mu sync.Mutex
	sideBySide(len(m.waits), func(next func() (int, bool)) {
		b := all.again()
		mine := map[waitKey]int64{}
		for ri, ok := next(); ok; ri, ok = next() {
			for gi := range m.waits[ri] {
				for _, p := range m.waits[ri][gi] {
					b.piece(ri, p, mine)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for k, d := range mine {
			sum[k] += d
		}
	})
	for k, d := range sum {
		m.job.Waits = append(m.job.Waits, Wait{Culprit: k.culprit, Owner: k.owner, Sub: k.sub, DurNS: d, Conf: k.conf})
	}
	sort.Slice(m.job.Waits, func(i, j int) bool {
		a, b := &m.job.Waits[i], &m.job.Waits[j]
		switch {
		case a.DurNS != b.DurNS:
			return a.DurNS > b.DurNS
		case a.Culprit != b.Culprit:
			return a.Culprit < b.Culprit
		case a.Owner != b.Owner:
			return a.Owner < b.Owner
		case a.Sub != b.Sub:
			return a.Sub < b.Sub
		}
		return a.Conf < b.Conf
	})
	m.chains(all)
}

// sideBySide calls work on as many CPUs as there are, each with a next that hands out 0 to n-1 once.
func sideBySide(n int, work func(next func() (int, bool))) {
	var at atomic.Int64
	next := func() (int, bool) {
		i := int(at.Add(1)) - 1
		return i, i < n
	}
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() { work(next) })
	}
	wg.Wait()
}

// queued is how soon after the collective before a rank's next one begins when it had been queued behind it: the rank had come long ago.
const queued = 20_000

// weight is a share of a wait, in ns of the late rank's excess.
type weight struct {
	key waitKey
	ns  int64
}

type blamer struct {
	m     *meeting
	begin []timeline.Time      // by instance: where the window of the late rank begins, on the reference clock
	root  []int32              // by instance: the one at whose end all were together; -1 none
	memo  map[deepKey][]weight // of ranks that a late rank waited for
	sums  [][]gpuSums          // by rank and GPU
	lead  []*timeline.Owners   // by instance: what the late rank did since all were together, where that is not cut
}

type deepKey struct {
	rank, col int32
	depth     int8
}

// gpuSums makes the sum over any stretch of a ledger quick.
type gpuSums struct {
	cum  []timeline.Owners // owners of the segments before each of their blocks
	same map[int32]*waitSum
}

// waitSum is the waits of one communicator on one GPU: their places among the GPU's waits, and their length before each.
type waitSum struct {
	at  []int32
	cum []int64
}

// again is a blamer of the same meeting that may work beside it.
func (b *blamer) again() *blamer {
	c := *b
	c.memo, c.lead = map[deepKey][]weight{}, make([]*timeline.Owners, len(b.lead))
	return &c
}

func (m *meeting) newBlamer() *blamer {
	b := &blamer{m: m, begin: make([]timeline.Time, len(m.instances)), root: make([]int32, len(m.instances)), memo: map[deepKey][]weight{}, sums: make([][]gpuSums, len(m.job.Ranks)), lead: make([]*timeline.Owners, len(m.instances))}
	for k := range m.instances {
		in := &m.instances[k]
		// All were together when the instance before ended, unless this one was queued behind it on the rank that came first: then that rank
		// has waited through both, and the stretch goes on.
		if in.culprit >= 0 {
			x := in.members[in.culprit]
			b.begin[k] = m.common(int(x.rank), m.job.Ranks[x.rank].GPUs[m.col(x).GPU].Window.Start)
		}
		b.root[k] = in.prev
		if in.prev < 0 {
			continue
		}
		first := 0
		for i, x := range in.members {
			if m.come(x) < m.come(in.members[first]) {
				first = i
			}
		}
		if m.col(in.members[first]).Start-m.col(m.instances[in.prev].members[first]).End <= queued {
			b.root[k] = b.root[in.prev]
		}
	}
	for ri, r := range m.job.Ranks {
		b.sums[ri] = make([]gpuSums, len(r.GPUs))
		for gi := range r.GPUs {
			s := &b.sums[ri][gi]
			segs := &r.GPUs[gi].Segments
			var all timeline.Owners
			s.cum = make([]timeline.Owners, segs.Blocks())
			for k := range s.cum {
				s.cum[k] = all
				for g := range segs.Block(k) {
					all[g.Owner] += g.Dur
				}
			}
			s.same = map[int32]*waitSum{}
			for k, p := range m.waits[ri][gi] {
				w := s.same[m.comm[ri][p.col]]
				if w == nil {
					w = &waitSum{cum: []int64{0}}
					s.same[m.comm[ri][p.col]] = w
				}
				w.at = append(w.at, int32(k))
				w.cum = append(w.cum, w.cum[len(w.cum)-1]+int64(p.Dur()))
			}
		}
	}
	return b
}

// held sums a GPU's ledger over iv.
func (b *blamer) held(ri, gi int, iv timeline.Interval) (out timeline.Owners) {
	if iv.Empty() {
		return
	}
	segs := &b.m.job.Ranks[ri].GPUs[gi].Segments
	if segs.Len() == 0 {
		return
	}
	add := func(block int) {
		for s := range segs.Block(block) {
			if s.Start >= iv.End {
				return
			}
			if d := min(segEnd(&s), iv.End) - max(s.Start, iv.Start); d > 0 {
				out[s.Owner] += int64(d)
			}
		}
	}
	lo, hi := segs.BlockAt(iv.Start), segs.BlockAt(iv.End-1)
	add(lo)
	if hi == lo {
		return
	}
	cum := b.sums[ri][gi].cum // of the whole blocks between
	for o := range out {
		out[o] += cum[hi][o] - cum[lo+1][o]
	}
	add(hi)
	return
}

// waited is how long a GPU waited for one communicator inside iv.
func (b *blamer) waited(ri, gi int, comm int32, iv timeline.Interval) int64 {
	w := b.sums[ri][gi].same[comm]
	if w == nil || iv.Empty() {
		return 0
	}
	waits := b.m.waits[ri][gi]
	k := sort.Search(len(w.at), func(i int) bool { return waits[w.at[i]].End > iv.Start })
	end := sort.Search(len(w.at), func(i int) bool { return waits[w.at[i]].Start >= iv.End })
	if k >= end {
		return 0
	}
	ns := w.cum[end] - w.cum[k]
	ns -= int64(max(0, iv.Start-waits[w.at[k]].Start))
	ns -= int64(max(0, waits[w.at[end-1]].End-iv.End))
	return ns
}

// origin is where the stretch before an instance begins for a member: when all were together, or, cut, where the rank's window begins.
type origin struct {
	at  timeline.Time
	cut bool
}

func (b *blamer) origin(k int32, i int) origin {
	m := b.m
	x := m.instances[k].members[i]
	start := m.job.Ranks[x.rank].GPUs[m.col(x).GPU].Window.Start
	root := b.root[k]
	if root < 0 {
		return origin{start, true}
	}
	end := m.col(m.instances[root].members[i]).End
	return origin{max(start, end), end < start}
}

// own sums a member's ledger from an instant until it came. Waiting for the same communicator evens out between its ranks: only what another
// one held up can have made this rank late.
func (b *blamer) own(x member, from timeline.Time) timeline.Owners {
	c := b.m.col(x)
	iv := timeline.Interval{Start: from, End: c.Start}
	own := b.held(int(x.rank), c.GPU, iv)
	own[timeline.CommPeerWait] -= b.waited(int(x.rank), c.GPU, b.m.comm[x.rank][x.col], iv)
	return own
}

// pair gives the owners of a waiting member and of the late one over the same stretch. Where the window of one begins after all were together,
// what the other did before that is left out: nothing is known to hold against it.
func (b *blamer) pair(k int32, i int) (mine, theirs timeline.Owners) {
	m := b.m
	in := &m.instances[k]
	x, y := in.members[i], in.members[in.culprit]
	fx, fy := b.origin(k, i), b.origin(k, in.culprit)
	if fx.cut || fy.cut {
		from := max(m.common(int(x.rank), fx.at), m.common(int(y.rank), fy.at))
		fx.at, fy.at = m.local(int(x.rank), from), m.local(int(y.rank), from)
	}
	if fx.cut || fy.cut {
		return b.own(x, fx.at), b.own(y, fy.at)
	}
	if b.lead[k] == nil {
		own := b.own(y, fy.at)
		b.lead[k] = &own
	}
	return b.own(x, fx.at), *b.lead[k]
}

// late is the instance of a collective of which a late rank is known, and the place among its members; ok false: there is none.
func (b *blamer) late(ri, col int) (k int32, i int, ok bool) {
	k = b.m.inst[ri][col]
	if k < 0 || b.m.instances[k].culprit < 0 {
		return -1, 0, false
	}
	return k, int(b.m.place[ri][col]), true
}

// unseen gives how much of a piece of waiting of rank ri lies before the late rank's window, where nothing of it is known.
func (b *blamer) unseen(ri int, p waitPiece) (ns int64, key waitKey) {
	k, _, ok := b.late(ri, p.col)
	if !ok {
		return 0, waitKey{}
	}
	m := b.m
	start := m.local(ri, b.begin[k])
	if start <= p.Start {
		return 0, waitKey{}
	}
	in := &m.instances[k]
	return int64(min(start, p.End) - p.Start), waitKey{m.job.Ranks[in.members[in.culprit].rank].Process.Rank, timeline.UnknownOwner, timeline.SubNone, in.conf}
}

// piece books a piece of waiting of rank ri, to the nanosecond.
func (b *blamer) piece(ri int, p waitPiece, sum map[waitKey]int64) {
	if ns, key := b.unseen(ri, p); ns > 0 {
		sum[key] += ns
		if p.Start += timeline.Time(ns); p.Empty() {
			return
		}
	}
	w := b.weights(ri, p.col, 1)
	var total int64
	for _, x := range w {
		total += x.ns
	}
	if total == 0 {
		for _, x := range b.meanwhile(ri, p) {
			sum[x.key] += x.ns
		}
		return
	}
	left := int64(p.Dur())
	for i, x := range w {
		d := int64(float64(p.Dur()) * (float64(x.ns) / float64(total)))
		if i == len(w)-1 || d > left {
			d = left
		}
		sum[x.key] += d
		left -= d
	}
}

// weights gives what rank ri's wait in one of its collectives is made of, longest first; none where the late rank has no excess.
func (b *blamer) weights(ri, col, depth int) []weight {
	k, i, ok := b.late(ri, col)
	if !ok || b.m.instances[k].culprit == i {
		return nil
	}
	memo := deepKey{int32(ri), int32(col), int8(depth)}
	if depth > 1 {
		if w, ok := b.memo[memo]; ok {
			return w
		}
	}
	in := &b.m.instances[k]
	x := in.members[in.culprit]
	num := b.m.job.Ranks[x.rank].Process.Rank
	mine, theirs := b.pair(k, i)
	var out []weight
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		over := theirs[o] - mine[o]
		switch {
		case over <= 0:
		case o == timeline.CommPeerWait && depth < maxBlame:
			out = b.passOn(x, over, depth, waitKey{num, o, timeline.SubNone, in.conf}, out)
		default:
			out = addWeight(out, weight{waitKey{num, o, timeline.SubNone, in.conf}, over})
		}
	}
	sortWeights(out)
	if depth > 1 {
		b.memo[memo] = out
	}
	return out
}

func addWeight(w []weight, x weight) []weight {
	for i := range w {
		if w[i].key == x.key {
			w[i].ns += x.ns
			return w
		}
	}
	return append(w, x)
}

// passOn books ns that the late rank x itself waited to the ranks it waited for, by its last waits before it came. Where those cannot be told,
// they stay its own.
func (b *blamer) passOn(x member, ns int64, depth int, own waitKey, out []weight) []weight {
	m := b.m
	ri := int(x.rank)
	c := m.col(x)
	comm := m.comm[ri][x.col]
	waits := m.waits[ri][c.GPU]
	var parts []weight
	var total int64
	left := ns
	for k := sort.Search(len(waits), func(i int) bool { return waits[i].Start >= c.Start }) - 1; k >= 0 && left > 0; k-- {
		q := waits[k]
		if m.comm[ri][q.col] == comm {
			continue
		}
		if unseen, key := b.unseen(ri, q); unseen > 0 {
			n := min(unseen, left)
			key.conf = min(key.conf, own.conf)
			parts = addWeight(parts, weight{key, n})
			total += n
			left -= n
			q.Start += timeline.Time(unseen)
		}
		w := b.weights(ri, q.col, depth+1)
		var of int64
		for _, y := range w {
			of += y.ns
		}
		d := min(int64(q.Dur()), left)
		left -= d
		for _, y := range w {
			n := int64(float64(d) * (float64(y.ns) / float64(of)))
			y.key.conf = min(y.key.conf, own.conf)
			parts = addWeight(parts, weight{y.key, n})
			total += n
		}
	}
	if total == 0 {
		return addWeight(out, weight{own, ns})
	}
	for _, y := range parts {
		out = addWeight(out, weight{y.key, int64(float64(ns) * (float64(y.ns) / float64(total)))})
	}
	return out
}

// meanwhile is what the late rank did during a piece of waiting; what lies outside its window is unknown.
func (b *blamer) meanwhile(ri int, p waitPiece) []weight {
	m := b.m
	k, _, ok := b.late(ri, p.col)
	if !ok {
		return []weight{{waitKey{-1, timeline.UnknownOwner, timeline.SubNone, m.job.Ranks[ri].Collectives[p.col].Split}, int64(p.Dur())}}
	}
	in := &m.instances[k]
	x := in.members[in.culprit]
	num := m.job.Ranks[x.rank].Process.Rank
	start := m.local(int(x.rank), m.common(ri, p.Start))
	own := b.held(int(x.rank), m.col(x).GPU, timeline.Interval{Start: start, End: start + timeline.Time(p.Dur())})
	own[timeline.UnknownOwner] += int64(p.Dur()) - own.Sum()
	var out []weight
	for o, ns := range own {
		if ns > 0 {
			out = append(out, weight{waitKey{num, timeline.Owner(o), timeline.SubNone, in.conf}, ns})
		}
	}
	return out
}

func sortWeights(w []weight) {
	slices.SortFunc(w, func(a, c weight) int {
		return cmp.Or(cmp.Compare(c.ns, a.ns), cmp.Compare(a.key.culprit, c.key.culprit), cmp.Compare(a.key.owner, c.key.owner),
			cmp.Compare(a.key.sub, c.key.sub), cmp.Compare(a.key.conf, c.key.conf))
	})
}

// culprits counts who arrived last where others waited for it.
func (m *meeting) culprits() {
	by := map[int]*Culprit{}
	get := func(rank int) *Culprit {
		if by[rank] == nil {
			by[rank] = &Culprit{Rank: rank}
		}
		return by[rank]
	}
	for k := range m.instances {
		in := &m.instances[k]
		if in.culprit < 0 || in.latest-in.first < spreadMin {
			continue
		}
		var wait int64
		for _, x := range in.members {
			wait += m.col(x).ExposedWaitNS
		}
		if wait == 0 {
			continue
		}
		for i, x := range in.members {
			c := get(m.job.Ranks[x.rank].Process.Rank)
			c.Of++
			if i == in.culprit {
				c.Last++
				c.WaitNS += wait
			}
		}
	}
	for _, c := range by {
		m.job.Culprits = append(m.job.Culprits, *c)
	}
	sort.Slice(m.job.Culprits, func(i, j int) bool {
		a, b := &m.job.Culprits[i], &m.job.Culprits[j]
		if a.WaitNS != b.WaitNS {
			return a.WaitNS > b.WaitNS
		}
		return a.Rank < b.Rank
	})
}
