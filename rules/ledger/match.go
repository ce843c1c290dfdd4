package ledger

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
)

// member is one collective of one rank, in the making of an instance.
type member struct {
	rank int32 // position in Job.Ranks
	col  int32 // index in Collectives
}

// lane is the collectives of one communicator on one GPU of one rank, in order.
type lane struct {
	rank, gpu int
	cols      []int32
}

// laneSet is the lanes whose collectives are each other's: those of a communicator, or of one direction between two ranks of it.
type laneSet struct {
	group    int // in meeting.comms, later in Job.Groups
	p2p      bool
	src, dst int // of p2p: by direction, or the lower and the higher where that is not known
	directed bool
	lanes    []lane
	complete bool       // every member is among the lanes
	rows     [][]member // collectives matched on all lanes, in the order of the lanes
	how      string
}

// comm is one communicator, in the making of a Group.
type comm struct {
	key   string
	first *timeline.Collective
	sets  []int
	why   string // why its collectives are not compared
}

// groupID tells communicators of one rank apart without reading their ranks again.
type groupID struct {
	name, desc string
	first      *int
	n, size    int
}

func idOf(c *timeline.Collective) groupID {
	id := groupID{name: c.Group, desc: c.GroupDesc, n: len(c.GroupRanks), size: c.GroupSize}
	if id.n > 0 {
		id.first = &c.GroupRanks[0]
	}
	return id
}

// groupKey names a communicator so that its members agree on it.
func groupKey(c *timeline.Collective) string {
	var b strings.Builder
	b.WriteString(c.Group)
	b.WriteByte(0)
	for _, r := range c.GroupRanks {
		b.WriteString(strconv.Itoa(r))
		b.WriteByte(',')
	}
	if c.GroupRanks == nil {
		b.WriteString(strconv.Itoa(c.GroupSize))
		b.WriteString(c.GroupDesc)
	}
	return b.String()
}

// lanesOf sorts all collectives into communicators and lanes.
func (m *meeting) lanesOf() {
	byKey := map[string]int{}
	type setKey struct {
		group, src, dst int
		p2p, directed   bool
	}
	bySet := map[setKey]int{}
	m.comm = make([][]int32, len(m.job.Ranks))
	for ri, r := range m.job.Ranks {
		m.comm[ri] = make([]int32, len(r.Collectives))
		ids := map[groupID]int{}
		lastID, last := groupID{n: -1}, 0
		type laneKey struct{ set, gpu int }
		at := map[laneKey]int{}
		for ci := range r.Collectives {
			c := &r.Collectives[ci]
			if id := idOf(c); id != lastID {
				g, ok := ids[id]
				if !ok {
					key := groupKey(c)
					if g, ok = byKey[key]; !ok {
						g = len(m.comms)
						byKey[key] = g
						m.comms = append(m.comms, comm{key: key, first: c})
					}
					ids[id] = g
				}
				lastID, last = id, g
			}
			m.comm[ri][ci] = int32(last)
			k := setKey{group: last}
			if c.Primitive == "send-recv" {
				me := r.Process.Rank
				if me < 0 || c.Peer < 0 || me == c.Peer {
					continue
				}
				k.p2p, k.directed = true, c.Dir != 0
				k.src, k.dst = min(me, c.Peer), max(me, c.Peer)
				if c.Dir > 0 {
					k.src, k.dst = me, c.Peer
				} else if c.Dir < 0 {
					k.src, k.dst = c.Peer, me
				}
			}
			s, ok := bySet[k]
			if !ok {
				s = len(m.sets)
				bySet[k] = s
				m.sets = append(m.sets, laneSet{group: last, p2p: k.p2p, src: k.src, dst: k.dst, directed: k.directed})
				m.comms[last].sets = append(m.comms[last].sets, s)
			}
			l, ok := at[laneKey{s, c.GPU}]
			if !ok {
				l = len(m.sets[s].lanes)
				at[laneKey{s, c.GPU}] = l
				m.sets[s].lanes = append(m.sets[s].lanes, lane{rank: ri, gpu: c.GPU})
			}
			ln := &m.sets[s].lanes[l]
			ln.cols = append(ln.cols, int32(ci))
		}
	}
}

// match finds which collectives of the ranks are one, without looking at their clocks where it can.
func (m *meeting) match() {
	m.lanesOf()
	for i := range m.sets {
		s := &m.sets[i]
		s.complete = m.complete(s)
		if len(s.lanes) < 2 || m.crowded(s) {
			continue
		}
		if s.rows, s.how = m.bySeq(s), "seq"; len(s.rows) == 0 {
			s.rows, s.how = m.byOrder(s)
		}
	}
}

// crowded tells that more lanes share a name than the group has members: several groups of one name, which nothing tells apart.
func (m *meeting) crowded(s *laneSet) bool {
	size := m.comms[s.group].first.GroupSize
	return !s.p2p && size > 0 && len(s.lanes) > size
}

// complete tells whether every member of a group is among the lanes.
func (m *meeting) complete(s *laneSet) bool {
	if len(s.lanes) < 2 {
		return false
	}
	if s.p2p {
		return true // the pair is the group
	}
	c := m.comms[s.group].first
	if c.GroupRanks != nil {
		have := map[int]bool{}
		for _, l := range s.lanes {
			have[m.job.Ranks[l.rank].Process.Rank] = true
		}
		for _, r := range c.GroupRanks {
			if !have[r] {
				return false
			}
		}
		return len(s.lanes) == len(c.GroupRanks)
	}
	if c.GroupSize > 0 {
		return len(s.lanes) == c.GroupSize
	}
	// Nothing says how large the group is: the whole world, if it is known and here.
	return m.job.World > 0 && len(s.lanes) == m.job.World && len(m.job.Missing) == 0
}

// seqKey is a collective's number; several kernels may carry one.
type seqKey struct {
	seq int64
	nth int32
	col int32
}

func (k seqKey) compare(o seqKey) int {
	return cmp.Or(cmp.Compare(k.seq, o.seq), cmp.Compare(k.nth, o.nth))
}

// bySeq matches by sequence number; nil where some collective has none.
func (m *meeting) bySeq(s *laneSet) [][]member {
	keys := make([][]seqKey, len(s.lanes))
	for i, l := range s.lanes {
		cols := m.job.Ranks[l.rank].Collectives
		ks := make([]seqKey, len(l.cols))
		for k, ci := range l.cols {
			if cols[ci].Seq < 0 {
				return nil
			}
			ks[k] = seqKey{seq: cols[ci].Seq, col: ci}
		}
		byNumber := func(a, b seqKey) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.col, b.col)) }
		if !slices.IsSortedFunc(ks, byNumber) {
			slices.SortFunc(ks, byNumber)
		}
		for k := 1; k < len(ks); k++ {
			if ks[k].seq == ks[k-1].seq {
				ks[k].nth = ks[k-1].nth + 1
			}
		}
		keys[i] = ks
	}
	at := make([]int, len(keys))
	var rows [][]member
next:
	for at[0] < len(keys[0]) {
		want := keys[0][at[0]]
		row := make([]member, 0, len(keys))
		for i := range keys {
			for at[i] < len(keys[i]) && keys[i][at[i]].compare(want) < 0 {
				at[i]++
			}
			if at[i] == len(keys[i]) {
				break next
			}
			if keys[i][at[i]].compare(want) > 0 {
				at[0]++
				continue next
			}
			row = append(row, member{int32(s.lanes[i].rank), keys[i][at[i]].col})
		}
		at[0]++
		if m.onePrimitive(row) {
			rows = append(rows, row)
		}
	}
	sort.SliceStable(rows, func(a, b int) bool { return rows[a][0].col < rows[b][0].col })
	return rows
}

func (m *meeting) onePrimitive(row []member) bool {
	p := m.col(row[0]).Primitive
	for _, x := range row[1:] {
		if m.col(x).Primitive != p {
			return false
		}
	}
	return true
}

// byOrder matches by order: the sequences of (primitive, bytes) of each rank are aligned with those of the rank that has fewest; what is
// missing on any is dropped. how is order where they are equal, else overlap where they had to be shifted or aligned.
func (m *meeting) byOrder(s *laneSet) (rows [][]member, how string) {
	how = "order"
	base := 0
	for i := range s.lanes {
		if len(s.lanes[i].cols) < len(s.lanes[base].cols) {
			base = i
		}
	}
	words := map[word]int32{}
	ref := m.textOf(&s.lanes[base], words)
	n := len(ref.words)
	part := make([][]int32, len(s.lanes)) // by lane: for each of the reference's its collective, or -1
	for i := range s.lanes {
		part[i] = make([]int32, n)
		if i == base {
			copy(part[i], s.lanes[i].cols)
			continue
		}
		txt := m.textOf(&s.lanes[i], words)
		pairs, same := m.alignTexts(ref, txt, m.clock[s.lanes[base].rank] == m.clock[s.lanes[i].rank])
		if !same {
			how = "overlap"
		}
		for k := range part[i] {
			part[i][k] = -1
		}
		for _, p := range pairs {
			part[i][p.a] = s.lanes[i].cols[p.b]
		}
	}
next:
	for k := range n {
		row := make([]member, len(s.lanes))
		for i := range s.lanes {
			if part[i][k] < 0 {
				continue next
			}
			row[i] = member{int32(s.lanes[i].rank), part[i][k]}
		}
		rows = append(rows, row)
	}
	return rows, how
}

// word is what two collectives must share to be one.
type word struct {
	primitive string
	bytes     int64
	step      int64 // number of the step, where the profiler numbers them; -1
}

// text is a lane as words, for aligning.
type text struct {
	words, steps []int32 // without and with the step's number
	ends         []timeline.Time
	starts       []timeline.Time
}

func (m *meeting) textOf(l *lane, words map[word]int32) text {
	r := m.job.Ranks[l.rank]
	t := text{words: make([]int32, len(l.cols)), steps: make([]int32, len(l.cols)), ends: make([]timeline.Time, len(l.cols)), starts: make([]timeline.Time, len(l.cols))}
	id := func(w word) int32 {
		v, ok := words[w]
		if !ok {
			v = int32(len(words))
			words[w] = v
		}
		return v
	}
	for i, ci := range l.cols {
		c := &r.Collectives[ci]
		w := word{c.Primitive, c.Bytes, -1}
		t.words[i], t.steps[i] = id(w), -1
		if k, ok := numbered(r, c); ok {
			w.step = k
			t.steps[i] = id(w)
		}
		t.starts[i], t.ends[i] = c.Start, c.End
	}
	return t
}

// numbered is the profiler's own number of the step that holds a collective.
func numbered(r *timeline.Reduced, c *timeline.Collective) (int64, bool) {
	if r.Steps.How != "ProfilerStep" || c.Step < 0 || int(c.Step) >= len(r.Steps.Index) {
		return 0, false
	}
	return r.Steps.Index[c.Step], true
}

// pairing is one word of a and its like in b.
type pairing struct{ a, b int32 }

// alignment is a way to pair two lanes, and what the ends of its pairs say for it.
type alignment struct {
	pairs  []pairing
	offset int64 // median of the ends' differences
	dev    int64 // what four fifths of them deviate from it at most
}

func (m *meeting) judge(a, b text, pairs []pairing) alignment {
	const look = 256
	n := min(len(pairs), look)
	t, d := make([]timeline.Time, n), make([]int64, n)
	for k := range n {
		p := pairs[k*len(pairs)/n]
		t[k], d[k] = a.ends[p.a], int64(b.ends[p.b]-a.ends[p.a])
	}
	al := alignment{pairs: pairs}
	if n == 0 {
		return al
	}
	// What two clocks drift apart is no sign of a wrong pairing: one that is wrong by a step jumps with the steps' lengths.
	if l := t[n-1] - t[0]; l > driftFrom && n > 3 {
		slopes := make([]float64, 0, n/2)
		for k := range n / 2 {
			if far := t[k+n/2] - t[k]; far > 0 {
				slopes = append(slopes, float64(d[k+n/2]-d[k])/float64(far))
			}
		}
		slices.Sort(slopes)
		if len(slopes) > 0 && math.Abs(slopes[len(slopes)/2]) < driftMost {
			for k := range d {
				d[k] -= int64(slopes[len(slopes)/2] * float64(t[k]-t[0]-l/2))
			}
		}
	}
	al.offset = median(d)
	for i := range d {
		d[i] = max(d[i]-al.offset, al.offset-d[i])
	}
	slices.Sort(d)
	al.dev = d[(n-1)*4/5] // not the median: half of the pairs may be wrong by a step
	return al
}

// cost is how far apart the ends of an alignment's pairs are, by powers of four. On one clock the ends of what is one fall together; on two they
// lie apart, but equally far.
func (al *alignment) cost(oneClock bool) int {
	ns := al.dev
	if oneClock {
		ns += max(al.offset, -al.offset)
	}
	return bits.Len64(uint64(max(ns, 20_000))) / 2
}

// before tells whether an alignment is better than another. Repeating steps may fit at every shift: of those that fit alike the clocks that
// differ least are meant, else the one of more pairs.
func (al *alignment) before(o *alignment, oneClock bool) bool {
	const near = 1_000_000
	if c, k := al.cost(oneClock), o.cost(oneClock); c != k {
		return c < k
	}
	if x, y := max(al.offset, -al.offset), max(o.offset, -o.offset); max(x-y, y-x) > near {
		return x < y
	}
	return len(al.pairs) > len(o.pairs)
}

// driftMost is the largest drift between two hosts' clocks that is believed.
const driftMost = 500e-6

// alignTexts pairs two lanes. same: they are equal, word by word, and were paired so.
func (m *meeting) alignTexts(a, b text, oneClock bool) (pairs []pairing, same bool) {
	equal := slices.Equal(a.words, b.words)
	if equal {
		al := m.judge(a, b, straight(0, 0, len(a.words)))
		if off := max(al.offset, -al.offset); al.dev <= clockMax && (!oneClock || off <= clockMax) {
			return al.pairs, true
		}
	}
	var all []alignment
	if whole(a.steps) > 0 && whole(b.steps) > 0 {
		all = append(all, m.judge(a, b, diff(a.steps, b.steps)))
	}
	for _, lag := range lags(a, b) {
		lo, hi := max(0, -lag), min(len(a.words), len(b.words)-lag)
		all = append(all, m.judge(a, b, straight(lo, lo+lag, hi-lo)))
	}
	all = append(all, m.judge(a, b, diff(a.words, b.words)))
	most := 0
	for i := range all {
		most = max(most, len(all[i].pairs))
	}
	best := -1
	for i := range all {
		if 2*len(all[i].pairs) >= most && len(all[i].pairs) > 0 && (best < 0 || all[i].before(&all[best], oneClock)) {
			best = i
		}
	}
	if best < 0 {
		return nil, false
	}
	p := all[best].pairs
	return p, equal && len(p) == len(a.words) && p[0] == pairing{}
}

// whole counts the words that are numbered.
func whole(w []int32) int {
	n := 0
	for _, x := range w {
		if x >= 0 {
			n++
		}
	}
	return n
}

func straight(a, b, n int) []pairing {
	out := make([]pairing, max(0, n))
	for i := range out {
		out[i] = pairing{int32(a + i), int32(b + i)}
	}
	return out
}

// lags are the shifts at which two sequences agree wherever both are, over half of the shorter at least: b[i+lag] is a[i]. Of many the few
// at which the ends fall nearest.
func lags(a, b text) []int {
	const most = 32
	n, k := len(a.words), len(b.words)
	least := max(2, min(n, k)/2)
	if min(n, k) < least {
		return nil
	}
	var out []int
	for i, z := range common(b.words, a.words) { // b from its start, in a from i: lag -i
		if n-i >= least && k >= least && int(z) == min(k, n-i) {
			out = append(out, -i)
		}
	}
	for i, z := range common(a.words, b.words) {
		if i > 0 && k-i >= least && int(z) == min(n, k-i) {
			out = append(out, i)
		}
	}
	if len(out) > most {
		apart := func(lag int) int64 {
			lo, hi := max(0, -lag), min(n, k-lag)
			mid := (lo + hi) / 2
			d := int64(b.ends[mid+lag] - a.ends[mid])
			return max(d, -d)
		}
		sort.SliceStable(out, func(x, y int) bool { return apart(out[x]) < apart(out[y]) })
		out = out[:most]
	}
	return out
}

// common gives for each place of t how much of p, from its start, stands there: the Z function.
func common(p, t []int32) []int32 {
	s := make([]int32, 0, len(p)+1+len(t))
	s = append(append(append(s, p...), -2), t...)
	z := make([]int32, len(s))
	l, r := 0, 0
	for i := 1; i < len(s); i++ {
		k := 0
		if i < r {
			k = min(r-i, int(z[i-l]))
		}
		for i+k < len(s) && s[k] == s[i+k] {
			k++
		}
		if i+k > r {
			l, r = i, i+k
		}
		z[i] = int32(k)
	}
	return z[len(p)+1:]
}

// diff pairs two sequences by a longest common subsequence: equal ends first, then between anchors that stand once in each. Where they
// differ by more than a bounded search can mend between two anchors, nothing is paired there. A word below 0 is like none.
func diff(a, b []int32) []pairing {
	var out []pairing
	type span struct{ a0, a1, b0, b1 int }
	work := func(s span) {
		for s.a0 < s.a1 && s.b0 < s.b1 && a[s.a0] == b[s.b0] && a[s.a0] >= 0 {
			out = append(out, pairing{int32(s.a0), int32(s.b0)})
			s.a0++
			s.b0++
		}
		tail := 0
		for s.a0 < s.a1 && s.b0 < s.b1 && a[s.a1-1] == b[s.b1-1] && a[s.a1-1] >= 0 {
			s.a1--
			s.b1--
			tail++
		}
		out = append(out, myers(a[s.a0:s.a1], b[s.b0:s.b1], s.a0, s.b0)...)
		out = append(out, straight(s.a1, s.b1, tail)...)
	}
	at := span{0, 0, 0, 0}
	for _, p := range anchors(a, b) {
		at.a1, at.b1 = int(p.a), int(p.b)
		work(at)
		out = append(out, p)
		at.a0, at.b0 = int(p.a)+1, int(p.b)+1
	}
	at.a1, at.b1 = len(a), len(b)
	work(at)
	return out
}

// anchors are the runs of eight words that stand once in each sequence, in an order that both share; none for short sequences.
func anchors(a, b []int32) []pairing {
	const run = 8
	if min(len(a), len(b)) < 4*run {
		return nil
	}
	type place struct{ at, n int32 }
	index := func(s []int32) map[[run]int32]place {
		m := make(map[[run]int32]place, len(s))
		for i := 0; i+run <= len(s); i++ {
			k := [run]int32(s[i : i+run])
			p := m[k]
			m[k] = place{int32(i), p.n + 1}
		}
		return m
	}
	ib := index(b)
	ia := index(a)
	var once []pairing
	for i := 0; i+run <= len(a); i++ {
		k := [run]int32(a[i : i+run])
		if p, q := ia[k], ib[k]; p.n == 1 && q.n == 1 && a[i] >= 0 {
			once = append(once, pairing{int32(i), q.at})
		}
	}
	// The longest rising chain of them.
	var tails []int
	prev := make([]int, len(once))
	for i, p := range once {
		k := sort.Search(len(tails), func(j int) bool { return once[tails[j]].b >= p.b })
		prev[i] = -1
		if k > 0 {
			prev[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	if len(tails) == 0 {
		return nil
	}
	chain := make([]pairing, len(tails))
	for i, k := tails[len(tails)-1], len(tails)-1; k >= 0; k-- {
		chain[k] = once[i]
		i = prev[i]
	}
	return chain
}

// myers is the greedy shortest edit script, bounded: its equal words are paired. a0 and b0 are added to the places.
func myers(a, b []int32, a0, b0 int) []pairing {
	const bound = 400
	n, k := len(a), len(b)
	if n == 0 || k == 0 || max(n-k, k-n) > bound {
		return nil
	}
	top := min(n+k, bound)
	v := make([]int32, 2*top+2)
	var trace [][]int32
	for d := 0; d <= top; d++ {
		trace = append(trace, slices.Clone(v[top-d:top+d+1]))
		for q := -d; q <= d; q += 2 {
			var x int
			if down(q, d, v[max(0, top+q-1)], v[min(len(v)-1, top+q+1)]) {
				x = int(v[top+q+1])
			} else {
				x = int(v[top+q-1]) + 1
			}
			for x < n && x-q < k && a[x] == b[x-q] && a[x] >= 0 {
				x++
			}
			v[top+q] = int32(x)
			if x >= n && x-q >= k {
				return unwind(trace, d, n, k, a0, b0)
			}
		}
	}
	return nil
}

// down tells whether the furthest path to diagonal q in round d comes from the one above, given how far its neighbours are.
func down(q, d int, below, above int32) bool { return q == -d || q != d && below < above }

// unwind walks an edit script back; trace[d] is the furthest places before round d, for the diagonals -d to d.
func unwind(trace [][]int32, d, x, y, a0, b0 int) []pairing {
	var out []pairing
	for ; d >= 0; d-- {
		px, py := 0, 0
		if d > 0 {
			v, q := trace[d], x-y
			from := q - 1
			if down(q, d, v[max(0, q+d-1)], v[min(len(v)-1, q+d+1)]) {
				from = q + 1
			}
			px = int(v[from+d])
			py = px - from
		}
		for x > px && y > py {
			x--
			y--
			out = append(out, pairing{int32(a0 + x), int32(b0 + y)})
		}
		x, y = px, py
	}
	slices.Reverse(out)
	return out
}
