package ledger

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
)

const (
	// spreadMin is the difference of arrivals below which nobody was late: two kernels of one launch differ by so much.
	spreadMin = 10_000
	// clockMax is how far apart the ends of symmetric collectives may lie, systematically, on one clock.
	clockMax = 100_000
	// inferMin is how many instances a single rank needs before it may divide.
	inferMin = 5
	// maxBlame is how often a wait is followed to the rank that the late rank waited for.
	maxBlame = 3
)

// Meet brings the reductions of one input together: it takes one run, divides its collectives into waiting for a late rank and moving
// data, and says what late ranks were doing meanwhile. It changes the reductions of the run it takes and may be called again on them.
func Meet(reds []*timeline.Reduced, t *Tables, opt Options) *Job {
	chosen, others := chooseRun(reds)
	j := newJob(chosen, others)
	m := &meeting{job: j, t: t}
	m.reset()
	m.clocks()
	m.match()
	m.infer()
	m.divide()
	m.blame()
	m.culprits()
	return j
}

// member is one collective of one rank, in the making of an instance.
type member struct {
	rank int // position in Job.Ranks
	col  int // index in Collectives
}

// instance is one collective on all its ranks.
type instance struct {
	members []member
	culprit int // index in members of the last to arrive
	latest  timeline.Time
	first   timeline.Time
}

type meeting struct {
	job       *Job
	t         *Tables
	domain    []int // clock of each rank; ranks of one domain may be compared
	refused   map[string]int64
	keys      map[groupID]string
	instances []instance
	waits     [][][]waitPiece // by rank and GPU, sorted
}

// waitPiece is a piece of a GPU's window that waited for a late rank, and which collective waited.
type waitPiece struct {
	timeline.Interval
	col int
}

// reset takes back what an earlier meeting divided.
func (m *meeting) reset() {
	for _, r := range m.job.Ranks {
		for i := range r.Collectives {
			c := &r.Collectives[i]
			c.Split, c.PeerWaitNS, c.TransferNS, c.ExposedWaitNS, c.ExposedTransferNS, c.Culprit, c.Latest = 0, 0, 0, 0, 0, -1, 0
		}
		for gi := range r.GPUs {
			g := &r.GPUs[gi]
			if g.Owners[timeline.CommPeerWait] == 0 && g.Owners[timeline.CommTransfer] == 0 {
				continue
			}
			out := g.Segments[:0]
			for _, s := range g.Segments {
				if s.Owner == timeline.CommPeerWait || s.Owner == timeline.CommTransfer {
					s.Owner, s.Sub = timeline.CommUndivided, timeline.SubNone
				}
				out = push(out, s, true)
			}
			g.Segments = out
			account(g)
		}
	}
	m.refused, m.keys = map[string]int64{}, map[groupID]string{}
}

func (m *meeting) col(x member) *timeline.Collective {
	return &m.job.Ranks[x.rank].Collectives[x.col]
}

// traceHandler is how tensorboard_trace_handler names files: host, process, time.
var traceHandler = regexp.MustCompile(`^(.+)_\d+\.\d{10,}\.pt\.trace\.json`)

// clocks gives each rank its clock: one a host, by what the file states or is named. Ranks that tell no host share one.
func (m *meeting) clocks() {
	id := map[string]int{}
	for _, r := range m.job.Ranks {
		h := r.Process.Host
		if h == "" {
			if f := traceHandler.FindStringSubmatch(path.Base(r.Path)); f != nil {
				h = f[1]
			}
		}
		if _, ok := id[h]; !ok {
			id[h] = len(id)
		}
		m.domain = append(m.domain, id[h])
	}
}

// groupID tells communicators of one rank apart without reading their ranks again.
type groupID struct {
	name, desc string
	first      *int
	n, size    int
}

// groupKey names a communicator so that its members agree on it.
func (m *meeting) groupKey(c *timeline.Collective) string {
	id := groupID{name: c.Group, desc: c.GroupDesc, n: len(c.GroupRanks), size: c.GroupSize}
	if id.n > 0 {
		id.first = &c.GroupRanks[0]
	}
	if k, ok := m.keys[id]; ok {
		return k
	}
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
	m.keys[id] = b.String()
	return m.keys[id]
}

// lane is the collectives of one group on one GPU of one rank, in order.
type lane struct {
	rank int
	cols []int32
}

type laneKey struct {
	group string
	gpu   int
}

// match finds the instances whose every member is here and divides them.
func (m *meeting) match() {
	groups := map[string][]lane{}
	var order []string
	for ri, r := range m.job.Ranks {
		last := map[laneKey]int{} // position of the lane of this rank and GPU
		for ci := range r.Collectives {
			c := &r.Collectives[ci]
			key := m.groupKey(c)
			if c.Primitive == "send-recv" {
				lo, hi := min(r.Process.Rank, c.Peer), max(r.Process.Rank, c.Peer)
				if lo < 0 {
					continue
				}
				key = fmt.Sprintf("p2p %s %d %d", c.Group, lo, hi)
			}
			at := laneKey{key, c.GPU}
			i, ok := last[at]
			if !ok {
				if groups[key] == nil {
					order = append(order, key)
				}
				i = len(groups[key])
				groups[key] = append(groups[key], lane{rank: ri})
				last[at] = i
			}
			groups[key][i].cols = append(groups[key][i].cols, int32(ci))
		}
	}
	for _, key := range order {
		lanes := groups[key]
		if m.complete(lanes) {
			m.align(lanes)
		}
	}
	// What cannot be compared is said once.
	var keys []string
	for k := range m.refused {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		m.job.Problems = append(m.job.Problems, timeline.Problem{Code: "run/clocks-differ", Severity: timeline.Info, Message: k, Count: m.refused[k]})
	}
}

// complete tells whether every member of a group is among the lanes.
func (m *meeting) complete(lanes []lane) bool {
	if len(lanes) < 2 {
		return false
	}
	c := m.col(member{lanes[0].rank, int(lanes[0].cols[0])})
	if c.Primitive == "send-recv" {
		return true // the pair is the group
	}
	if c.GroupRanks != nil {
		have := map[int]bool{}
		for _, l := range lanes {
			have[m.job.Ranks[l.rank].Process.Rank] = true
		}
		for _, r := range c.GroupRanks {
			if !have[r] {
				return false
			}
		}
		return len(lanes) == len(c.GroupRanks)
	}
	if c.GroupSize > 0 {
		return len(lanes) == c.GroupSize
	}
	// Nothing says how large the group is: the whole world, if it is known and here.
	return m.job.World > 0 && len(lanes) == m.job.World && len(m.job.Missing) == 0
}

// align matches the instances of one group over its ranks.
func (m *meeting) align(lanes []lane) {
	base := m.bySeq(lanes)
	if base == nil {
		base = m.byOrder(lanes)
	}
	var found []instance
	for _, in := range base {
		if inst, ok := m.instance(in); ok {
			found = append(found, inst)
		}
	}
	if len(found) == 0 {
		return
	}
	if why := m.comparable(lanes, found); why != "" {
		m.refused[why] += int64(len(found))
		return
	}
	m.instances = append(m.instances, found...)
}

// bySeq matches by sequence number; nil where some collective has none.
func (m *meeting) bySeq(lanes []lane) [][]member {
	type key struct {
		seq int64
		nth int // several kernels may carry one number
	}
	var order []key
	by := map[key][]member{}
	for _, l := range lanes {
		nth := map[int64]int{}
		for _, ci := range l.cols {
			c := m.col(member{l.rank, int(ci)})
			if c.Seq < 0 {
				return nil
			}
			k := key{c.Seq, nth[c.Seq]}
			nth[c.Seq]++
			if by[k] == nil {
				order = append(order, k)
			}
			by[k] = append(by[k], member{l.rank, int(ci)})
		}
	}
	out := [][]member{}
	for _, k := range order {
		if len(by[k]) == len(lanes) {
			out = append(out, by[k])
		}
	}
	return out
}

// byOrder matches by order: directly where the sequences of (primitive, bytes) are equal, else along the time they share, as the
// members of one collective must run at the same time. Each rank is aligned with the first one; instances missing on any are dropped.
func (m *meeting) byOrder(lanes []lane) [][]member {
	ref := lanes[0]
	n := len(ref.cols)
	out := make([][]member, n)
	for i, ci := range ref.cols {
		out[i] = append(out[i], member{ref.rank, int(ci)})
	}
	same := func(a, b *timeline.Collective) bool { return a.Primitive == b.Primitive && a.Bytes == b.Bytes }
	meets := func(a, b *timeline.Collective) bool { return a.Start < b.End && b.Start < a.End }
	for _, l := range lanes[1:] {
		equal := len(l.cols) == n
		for i := 0; equal && i < n; i++ {
			equal = same(m.col(member{ref.rank, int(ref.cols[i])}), m.col(member{l.rank, int(l.cols[i])}))
		}
		if equal {
			// Recordings that began a step apart have equal sequences too: then the pairs do not run together.
			apart := 0
			for i := 0; i < n; i++ {
				if !meets(m.col(member{ref.rank, int(ref.cols[i])}), m.col(member{l.rank, int(l.cols[i])})) {
					apart++
				}
			}
			if 2*apart <= n {
				for i := 0; i < n; i++ {
					out[i] = append(out[i], member{l.rank, int(l.cols[i])})
				}
				continue
			}
		}
		for i, k := 0, 0; i < n && k < len(l.cols); {
			a, b := m.col(member{ref.rank, int(ref.cols[i])}), m.col(member{l.rank, int(l.cols[k])})
			switch {
			case meets(a, b) && same(a, b):
				out[i] = append(out[i], member{l.rank, int(l.cols[k])})
				i++
				k++
			case a.End <= b.End:
				i++
			default:
				k++
			}
		}
	}
	full := out[:0]
	for _, in := range out {
		if len(in) == len(lanes) {
			full = append(full, in)
		}
	}
	return full
}

// instance makes an instance of members whose kernels agree; not ok where they cannot be one collective.
func (m *meeting) instance(members []member) (instance, bool) {
	in := instance{members: members, first: math.MaxInt64, latest: math.MinInt64}
	c0 := m.col(members[0])
	end := timeline.Time(math.MaxInt64)
	for i, x := range members {
		c := m.col(x)
		if c.Primitive != c0.Primitive {
			return in, false
		}
		if c.Start > in.latest || (c.Start == in.latest && m.job.Ranks[x.rank].Process.Rank < m.job.Ranks[members[in.culprit].rank].Process.Rank) {
			in.latest, in.culprit = c.Start, i
		}
		in.first = min(in.first, c.Start)
		end = min(end, c.End)
	}
	if !m.t.Symmetric(c0.Primitive) && c0.Primitive != "send-recv" {
		return in, false
	}
	// Nobody can finish before the last one came.
	return in, end >= in.latest-clockMax
}

// comparable says why the clocks of the lanes' ranks may not be compared; "" if they may. Ends tell: nobody can finish before the last
// rank has arrived, so on one clock the members of symmetric collectives end together.
func (m *meeting) comparable(lanes []lane, found []instance) string {
	dom := m.domain[lanes[0].rank]
	for _, l := range lanes[1:] {
		if m.domain[l.rank] != dom {
			return "collectives between hosts are not divided: the clocks of their hosts may differ by more than the waits"
		}
	}
	off := map[int][]int64{}
	for _, in := range found {
		if m.col(in.members[0]).Primitive == "send-recv" {
			continue
		}
		ends := make([]int64, len(in.members))
		for i, x := range in.members {
			ends[i] = int64(m.col(x).End)
		}
		mid := median(slices.Clone(ends))
		for i, x := range in.members {
			off[x.rank] = append(off[x.rank], ends[i]-mid)
		}
	}
	lo, hi, rho := int64(math.MaxInt64), int64(math.MinInt64), int64(0)
	for _, l := range lanes {
		d := off[l.rank]
		if len(d) == 0 {
			continue
		}
		o := median(slices.Clone(d))
		lo, hi = min(lo, o), max(hi, o)
		dev := make([]int64, len(d))
		for i, v := range d {
			dev[i] = max(v-o, o-v)
		}
		rho = max(rho, median(dev)*14826/10000)
	}
	if hi > lo && hi-lo > max(clockMax, 3*rho) {
		return "collectives are not divided: the clocks of the ranks differ, their kernels end apart by more than 100 us each time"
	}
	return ""
}

// median of v, which it sorts; the lower of two.
func median(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[(len(v)-1)/2]
}

// split books one collective as divided at t: waiting before, moving after.
func split(c *timeline.Collective, at timeline.Time, conf timeline.Confidence, exposed []timeline.Interval) {
	at = min(max(at, c.Start), c.End)
	c.Split = conf
	c.PeerWaitNS, c.TransferNS = int64(at-c.Start), int64(c.End-at)
	c.ExposedWaitNS, c.ExposedTransferNS = 0, 0
	for _, iv := range exposed[c.Exposed0 : c.Exposed0+c.ExposedN] {
		w := max(0, int64(min(iv.End, at)-iv.Start))
		c.ExposedWaitNS += w
		c.ExposedTransferNS += int64(iv.Dur()) - w
	}
}

// sizeKey is what durations are compared over.
type sizeKey struct {
	primitive, group string
	// Where the size is not recorded:
	name string
	grid uint32
	gpu  int
}

// infer divides what one rank shows alone: for its size, a collective that takes longer than the quick ones of its kind waited.
func (m *meeting) infer() {
	for _, in := range m.instances {
		for _, x := range in.members {
			c := m.col(x)
			split(c, in.latest, timeline.Measured, m.job.Ranks[x.rank].Exposed)
			c.Culprit, c.Latest = m.job.Ranks[in.members[in.culprit].rank].Process.Rank, in.latest
		}
	}
	for _, r := range m.job.Ranks {
		by := map[sizeKey][]int{}
		var order []sizeKey
		for i := range r.Collectives {
			c := &r.Collectives[i]
			if c.Split != timeline.NoConfidence || !m.t.Symmetric(c.Primitive) || c.GroupSize == 1 {
				continue
			}
			k := sizeKey{primitive: c.Primitive, group: m.groupKey(c)}
			if c.Bytes < 0 {
				k.name, k.grid, k.gpu = c.Name, c.Grid, c.GPU
			}
			if by[k] == nil {
				order = append(order, k)
			}
			by[k] = append(by[k], i)
		}
		for _, k := range order {
			switch cols := by[k]; {
			case len(cols) < inferMin:
			case k.name == "":
				inferKind(r, cols)
			default:
				for _, same := range sameSize(r, k.gpu, cols) {
					inferKind(r, same)
				}
			}
		}
	}
}

// sameSize parts collectives of one kernel and grid, whose sizes are not recorded, into those that must be of one size: one grid serves many
// sizes, and a size taken for another's would make a wait of its transfer. The n-th of each step is of one size where every step has as many
// of them. Else they are one size if most take about as long as the quickest do; otherwise none is known.
func sameSize(r *timeline.Reduced, gpu int, cols []int) [][]int {
	steps := len(r.GPUs[gpu].Steps)
	count := make([]int, steps)
	var places [][]int
	for _, i := range cols {
		s := r.Collectives[i].Step
		if s < 0 {
			continue
		}
		if count[s] == len(places) {
			places = append(places, nil)
		}
		places[count[s]] = append(places[count[s]], i)
		count[s]++
	}
	if steps >= inferMin && slices.Min(count) == len(places) {
		return places
	}
	durs := make([]int64, len(cols))
	for k, i := range cols {
		durs[k] = int64(r.Collectives[i].End - r.Collectives[i].Start)
	}
	if mid := median(durs); 4*mid <= 5*durs[(len(durs)-1)/10] {
		return [][]int{cols}
	}
	return nil
}

// inferKind divides the collectives of one kind and group by the time that their size needs at most.
func inferKind(r *timeline.Reduced, cols []int) {
	type size struct {
		bytes int64
		durs  []int64
		d     float64
	}
	idx := map[int64]int{}
	var sizes []size
	for _, i := range cols {
		c := &r.Collectives[i]
		k, ok := idx[c.Bytes]
		if !ok {
			k = len(sizes)
			idx[c.Bytes] = k
			sizes = append(sizes, size{bytes: c.Bytes})
		}
		sizes[k].durs = append(sizes[k].durs, int64(c.End-c.Start))
	}
	sort.Slice(sizes, func(a, b int) bool { return sizes[a].bytes < sizes[b].bytes })
	for i := range sizes {
		slices.Sort(sizes[i].durs)
		sizes[i].d = float64(sizes[i].durs[(len(sizes[i].durs)-1)/10])
	}
	// A larger message takes no less time and moves at no lower rate, a quarter allowed.
	best := make([]float64, len(sizes))
	up := math.Inf(1)
	for i := len(sizes) - 1; i >= 0; i-- {
		up = min(up, sizes[i].d)
		best[i] = min(sizes[i].d, 1.25*up)
	}
	rate := math.Inf(1) // least ns a byte of smaller messages
	for i := range sizes {
		if b := float64(sizes[i].bytes); b > 0 {
			best[i] = min(best[i], 1.25*rate*b)
			rate = min(rate, sizes[i].d/b)
		}
	}
	lim := map[int64]int64{}
	for i := range sizes {
		lim[sizes[i].bytes] = int64(best[i])
	}
	for _, i := range cols {
		c := &r.Collectives[i]
		move := min(int64(c.End-c.Start), lim[c.Bytes])
		split(c, c.End-timeline.Time(move), timeline.Inferred, r.Exposed)
	}
}

// divide rewrites the communication of every ledger: waiting wins over moving, moving over what is not divided.
func (m *meeting) divide() {
	m.waits = make([][][]waitPiece, len(m.job.Ranks))
	for ri, r := range m.job.Ranks {
		m.waits[ri] = make([][]waitPiece, len(r.GPUs))
		byGPU := make([][]int, len(r.GPUs))
		for i := range r.Collectives {
			if c := &r.Collectives[i]; c.Split != timeline.NoConfidence {
				byGPU[c.GPU] = append(byGPU[c.GPU], i)
			}
		}
		for gi := range r.GPUs {
			if len(byGPU[gi]) == 0 {
				continue
			}
			g := &r.GPUs[gi]
			wait := make([]timeline.Segment, 0, len(byGPU[gi]))
			move := make([]timeline.Segment, 0, len(byGPU[gi]))
			which := make([]int, 0, len(byGPU[gi])) // collective of each wait segment
			wEnd, mEnd := timeline.Time(math.MinInt64), timeline.Time(math.MinInt64)
			for _, i := range byGPU[gi] {
				c := &r.Collectives[i]
				at := c.Start + timeline.Time(c.PeerWaitNS)
				sub := timeline.SubNone
				if c.Primitive == "send-recv" {
					sub = timeline.SubPipelineBubble
				}
				if a := max(c.Start, wEnd); a < at {
					wait = append(wait, timeline.Segment{Start: a, Dur: int64(at - a), Row: c.Row, Owner: timeline.CommPeerWait, Sub: sub})
					which = append(which, i)
					wEnd = at
				}
			}
			// Moves begin at the split points, which need not be in order.
			moves := slices.Clone(byGPU[gi])
			start := func(i int) timeline.Time { return r.Collectives[i].Start + timeline.Time(r.Collectives[i].PeerWaitNS) }
			sort.SliceStable(moves, func(a, b int) bool { return start(moves[a]) < start(moves[b]) })
			for _, i := range moves {
				c := &r.Collectives[i]
				if a := max(start(i), mEnd); a < c.End {
					move = append(move, timeline.Segment{Start: a, Dur: int64(c.End - a), Row: c.Row, Owner: timeline.CommTransfer})
					mEnd = c.End
				}
			}
			m.waits[ri][gi] = rewrite(g, under(wait, move), which)
			account(g)
		}
	}
}

// rewrite gives the undivided communication of a ledger to the layers, and says which pieces are waits. which names the collective of each
// wait in layers, in order.
func rewrite(g *timeline.GPULedger, layers []timeline.Segment, which []int) []waitPiece {
	var pieces []waitPiece
	out := make([]timeline.Segment, 0, len(g.Segments)+len(layers))
	k, w := 0, 0 // w: waits before layers[k]
	for _, s := range g.Segments {
		if s.Owner != timeline.CommUndivided {
			out = append(out, s)
			continue
		}
		at, end := s.Start, segEnd(&s)
		for k < len(layers) && segEnd(&layers[k]) <= at {
			if layers[k].Owner == timeline.CommPeerWait {
				w++
			}
			k++
		}
		wi := w
		for i := k; at < end; i++ {
			if i == len(layers) || layers[i].Start >= end {
				out = push(out, timeline.Segment{Start: at, Dur: int64(end - at), Row: s.Row, Owner: s.Owner, Sub: s.Sub}, true)
				break
			}
			l := &layers[i]
			if l.Start > at {
				out = push(out, timeline.Segment{Start: at, Dur: int64(l.Start - at), Row: s.Row, Owner: s.Owner, Sub: s.Sub}, true)
				at = l.Start
			}
			to := min(segEnd(l), end)
			out = push(out, timeline.Segment{Start: at, Dur: int64(to - at), Row: l.Row, Owner: l.Owner, Sub: l.Sub}, true)
			if l.Owner == timeline.CommPeerWait {
				pieces = append(pieces, waitPiece{timeline.Interval{Start: at, End: to}, which[wi]})
				wi++
			}
			at = to
		}
	}
	g.Segments = slices.Clip(out)
	return pieces
}

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
	b := &blamer{m: m, late: map[[2]int][2]int{}, memo: map[[2]int][]weight{}, since: make([][]timeline.Owners, len(m.instances)), from: make([][]origin, len(m.instances))}
	last := map[string]int{} // communicator and its members -> its instance before
	for k := range m.instances {
		in := &m.instances[k]
		key := m.col(in.members[0]).Group
		for _, x := range in.members {
			key += "," + strconv.Itoa(x.rank)
		}
		prev, ok := last[key]
		if !ok {
			prev = -1
		}
		last[key] = k
		b.sum(k, prev)
		for i, x := range in.members {
			b.late[[2]int{x.rank, x.col}] = [2]int{k, i}
		}
	}
	sum := map[waitKey]int64{}
	for ri := range m.waits {
		for gi := range m.waits[ri] {
			for _, p := range m.waits[ri][gi] {
				b.piece(ri, p, sum)
			}
		}
	}
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
	late  map[[2]int][2]int // (rank position, collective) -> instance and place among its members
	memo  map[[2]int][]weight
	since [][]timeline.Owners // by instance and member: owners from when all were together to the member's arrival
	from  [][]origin          // by instance and member: where since begins
}

// origin is where a sum of owners begins: when all were together, or, cut, where the rank's window begins.
type origin struct {
	at  timeline.Time
	cut bool
}

// sum fills since for instance k. All were together when the instance before ended, unless this one was queued behind it on the rank that
// came first: then that rank has waited through both, and the sum goes on.
func (b *blamer) sum(k, prev int) {
	m := b.m
	in := &m.instances[k]
	b.since[k] = make([]timeline.Owners, len(in.members))
	b.from[k] = make([]origin, len(in.members))
	first := 0
	for i, x := range in.members {
		if m.col(x).Start < m.col(in.members[first]).Start {
			first = i
		}
	}
	goesOn := prev >= 0 && m.col(in.members[first]).Start-m.col(m.instances[prev].members[first]).End <= queued
	for i, x := range in.members {
		c := m.col(x)
		start := m.job.Ranks[x.rank].GPUs[c.GPU].Window.Start
		iv := timeline.Interval{Start: start, End: c.Start}
		b.from[k][i] = origin{start, true}
		if prev >= 0 {
			p := m.col(m.instances[prev].members[i])
			iv.Start = max(start, p.End)
			b.from[k][i] = origin{iv.Start, p.End < start}
			if goesOn {
				b.since[k][i], b.from[k][i] = b.since[prev][i], b.from[prev][i]
				iv.Start = max(start, p.Start)
			}
		}
		own := b.own(x, iv)
		b.since[k][i].Add(&own)
	}
}

// own sums a member's ledger over iv. Waiting for the same communicator evens out between its ranks: only what another one held up can have
// made this rank late.
func (b *blamer) own(x member, iv timeline.Interval) timeline.Owners {
	c := b.m.col(x)
	own := heldIn(&b.m.job.Ranks[x.rank].GPUs[c.GPU], iv)
	b.m.through(x.rank, c.GPU, iv, func(q waitPiece) {
		if b.m.job.Ranks[x.rank].Collectives[q.col].Group == c.Group {
			own[timeline.CommPeerWait] -= int64(q.Dur())
		}
	})
	return own
}

// pair gives the owners of a waiting member and of the late one over the same stretch. Where the window of one begins after all were together,
// what the other did before that is left out: nothing is known to hold against it.
func (b *blamer) pair(side [2]int) (mine, theirs timeline.Owners) {
	k, v, c := side[0], side[1], b.m.instances[side[0]].culprit
	in := &b.m.instances[k]
	mine, theirs = b.since[k][v], b.since[k][c]
	fv, fc := b.from[k][v], b.from[k][c]
	if !fv.cut && !fc.cut {
		return mine, theirs
	}
	less := func(o *timeline.Owners, i int, to timeline.Time) {
		early := b.own(in.members[i], timeline.Interval{Start: b.from[k][i].at, End: min(to, b.m.col(in.members[i]).Start)})
		for w := range early {
			o[w] -= early[w]
		}
	}
	if fv.at < fc.at {
		less(&mine, v, fc.at)
	} else if fc.at < fv.at {
		less(&theirs, c, fv.at)
	}
	return mine, theirs
}

// unseen gives how much of a piece of waiting of rank ri lies before the late rank's window, where nothing of it is known, and that rank's number.
func (b *blamer) unseen(ri int, p waitPiece) (ns int64, num int) {
	side, ok := b.late[[2]int{ri, p.col}]
	if !ok {
		return 0, -1
	}
	in := &b.m.instances[side[0]]
	x := in.members[in.culprit]
	r := b.m.job.Ranks[x.rank]
	start := r.GPUs[b.m.col(x).GPU].Window.Start
	return max(0, int64(min(start, p.End)-p.Start)), r.Process.Rank
}

// piece books a piece of waiting of rank ri, to the nanosecond.
func (b *blamer) piece(ri int, p waitPiece, sum map[waitKey]int64) {
	if ns, num := b.unseen(ri, p); ns > 0 {
		sum[waitKey{num, timeline.UnknownOwner, timeline.SubNone, timeline.Measured}] += ns
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
	if w, ok := b.memo[[2]int{ri, col}]; ok {
		return w
	}
	side, ok := b.late[[2]int{ri, col}]
	if !ok {
		return nil
	}
	in := &b.m.instances[side[0]]
	if in.culprit == side[1] {
		return nil
	}
	x := in.members[in.culprit]
	num := b.m.job.Ranks[x.rank].Process.Rank
	mine, theirs := b.pair(side)
	sum := map[waitKey]int64{}
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		over := theirs[o] - mine[o]
		switch {
		case over <= 0:
		case o == timeline.CommPeerWait && depth < maxBlame:
			b.passOn(x, over, depth, num, sum)
		default:
			sum[waitKey{num, o, timeline.SubNone, timeline.Measured}] += over
		}
	}
	out := make([]weight, 0, len(sum))
	for k, ns := range sum {
		out = append(out, weight{k, ns})
	}
	sortWeights(out)
	if depth == 1 {
		b.memo[[2]int{ri, col}] = out
	}
	return out
}

// passOn books ns that the late rank x itself waited to the ranks it waited for, by its last waits before it came.
func (b *blamer) passOn(x member, ns int64, depth, num int, sum map[waitKey]int64) {
	c := b.m.col(x)
	waits := b.m.waits[x.rank][c.GPU]
	var parts []weight
	var total int64
	left := ns
	for k := sort.Search(len(waits), func(i int) bool { return waits[i].Start >= c.Start }) - 1; k >= 0 && left > 0; k-- {
		q := waits[k]
		if b.m.job.Ranks[x.rank].Collectives[q.col].Group == c.Group {
			continue
		}
		if unseen, late := b.unseen(x.rank, q); unseen > 0 {
			n := min(unseen, left)
			parts = append(parts, weight{waitKey{late, timeline.UnknownOwner, timeline.SubNone, timeline.Measured}, n})
			total += n
			left -= n
			q.Start += timeline.Time(unseen)
		}
		w := b.weights(x.rank, q.col, depth+1)
		var of int64
		for _, y := range w {
			of += y.ns
		}
		d := min(int64(q.Dur()), left)
		left -= d
		for _, y := range w {
			n := int64(float64(d) * (float64(y.ns) / float64(of)))
			parts = append(parts, weight{y.key, n})
			total += n
		}
	}
	if total == 0 {
		sum[waitKey{num, timeline.CommPeerWait, timeline.SubNone, timeline.Measured}] += ns
		return
	}
	for _, y := range parts {
		sum[y.key] += int64(float64(ns) * (float64(y.ns) / float64(total)))
	}
}

// heldIn sums a GPU's ledger over iv.
func heldIn(g *timeline.GPULedger, iv timeline.Interval) (out timeline.Owners) {
	segs := g.Segments
	for k := sort.Search(len(segs), func(i int) bool { return segEnd(&segs[i]) > iv.Start }); k < len(segs) && segs[k].Start < iv.End; k++ {
		s := &segs[k]
		out[s.Owner] += int64(min(segEnd(s), iv.End) - max(s.Start, iv.Start))
	}
	return out
}

// meanwhile is what the late rank did during a piece of waiting; what lies outside its window is unknown.
func (b *blamer) meanwhile(ri int, p waitPiece) []weight {
	side, ok := b.late[[2]int{ri, p.col}]
	if !ok {
		return []weight{{waitKey{-1, timeline.UnknownOwner, timeline.SubNone, b.m.job.Ranks[ri].Collectives[p.col].Split}, int64(p.Dur())}}
	}
	in := &b.m.instances[side[0]]
	x := in.members[in.culprit]
	num := b.m.job.Ranks[x.rank].Process.Rank
	own := heldIn(&b.m.job.Ranks[x.rank].GPUs[b.m.col(x).GPU], p.Interval)
	own[timeline.UnknownOwner] += int64(p.Dur()) - own.Sum()
	var out []weight
	for o, ns := range own {
		if ns > 0 {
			out = append(out, weight{waitKey{num, timeline.Owner(o), timeline.SubNone, timeline.Measured}, ns})
		}
	}
	return out
}

func sortWeights(w []weight) {
	sort.Slice(w, func(i, j int) bool {
		a, c := &w[i], &w[j]
		switch {
		case a.ns != c.ns:
			return a.ns > c.ns
		case a.key.culprit != c.key.culprit:
			return a.key.culprit < c.key.culprit
		case a.key.owner != c.key.owner:
			return a.key.owner < c.key.owner
		case a.key.sub != c.key.sub:
			return a.key.sub < c.key.sub
		}
		return a.key.conf < c.key.conf
	})
}

// through gives the waits of one GPU inside iv, cut to it; together they cover a piece that the ledger calls waiting.
func (m *meeting) through(ri, gi int, iv timeline.Interval, f func(waitPiece)) {
	w := m.waits[ri][gi]
	for k := sort.Search(len(w), func(i int) bool { return w[i].End > iv.Start }); k < len(w) && w[k].Start < iv.End; k++ {
		p := w[k]
		p.Start, p.End = max(p.Start, iv.Start), min(p.End, iv.End)
		f(p)
	}
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
	for _, in := range m.instances {
		var wait int64
		for _, x := range in.members {
			wait += m.col(x).ExposedWaitNS
		}
		if wait == 0 || in.latest-in.first < spreadMin {
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
