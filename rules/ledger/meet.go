package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
)

const (
	// spreadMin is the difference of arrivals below which nobody was late: two kernels of one launch differ by so much.
	spreadMin = 10_000
	// inferMin is how many instances a single rank needs before it may divide.
	inferMin = 5
	// maxBlame is how often a wait is followed to the rank that the late rank waited for.
	maxBlame = 3
)

// Meet brings the reductions of one input together: it takes one run, puts its ranks on one clock, divides its collectives into waiting for a
// late rank and moving data, and says what late ranks were doing meanwhile. It changes the reductions of the run it takes and may be called
// again on them.
func Meet(reds []*timeline.Reduced, t *Tables, opt Options) *Job {
	for _, r := range reds {
		r.Shift(-r.Shifted)
		r.ShiftErrorNS, r.ShiftWhy = 0, ""
	}
	chosen, others := chooseRun(reds)
	j := newJob(chosen, others)
	m := &meeting{job: j, t: t}
	m.reset()
	m.clocks()
	m.match()
	m.align()
	m.instantiate()
	m.infer()
	m.fillGroups()
	m.divide()
	m.blame()
	m.culprits()
	m.lateness()
	m.problems()
	for _, a := range j.Asides {
		of := j.Ranks[a.Of]
		a.Red.Shift(of.Shifted)
		a.Red.ShiftErrorNS, a.Red.ShiftWhy = of.ShiftErrorNS, of.ShiftWhy
	}
	return j
}

// instance is one collective on all its ranks that can be compared.
type instance struct {
	set     int32 // in meeting.sets
	prev    int32 // instance before it of the same members; -1 none
	members []member
	culprit int           // index in members of the last to come; -1 that is not known
	latest  timeline.Time // when it came, on the reference clock
	first   timeline.Time
	full    bool // every member of the group is among them
	conf    timeline.Confidence
}

type meeting struct {
	job       *Job
	t         *Tables
	hosts     []string // by clock
	named     int      // of them by a host's name
	clock     []int    // by rank position
	fits      []clockFit
	sizes     []int // clocks of each connected part
	comms     []comm
	comm      [][]int32 // by rank and collective: communicator
	sets      []laneSet
	instances []instance
	groupOf   []int32         // by communicator: its place in Job.Groups
	inst      [][]int32       // by rank and collective: instance; -1 none
	place     [][]int32       // and place among its members
	waits     [][][]waitPiece // by rank and GPU, sorted
	apart     []refusal
}

// refusal is why collectives are not compared, and how many.
type refusal struct {
	why string
	n   int64
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
			var out []timeline.Segment
			for s := range g.Segments.All() {
				if s.Owner == timeline.CommPeerWait || s.Owner == timeline.CommTransfer {
					s.Owner, s.Sub = timeline.CommUndivided, timeline.SubNone
				}
				out = push(out, s, true)
			}
			g.Segments = timeline.PackSegments(out)
			account(g)
		}
	}
}

func (m *meeting) col(x member) *timeline.Collective {
	return &m.job.Ranks[x.rank].Collectives[x.col]
}

// problems says what was not matched and not compared, each once.
func (m *meeting) problems() {
	var unmatched int64
	groups := 0
	for i := range m.job.Groups {
		if n := m.job.Groups[i].Unmatched; n > 0 {
			unmatched += n
			groups++
		}
	}
	if unmatched > 0 {
		m.job.Problems = append(m.job.Problems, timeline.Problem{Code: "run/unmatched-collectives", Severity: timeline.Info, Count: unmatched,
			Message: fmt.Sprintf("collectives of %d %s have no counterpart in every trace of the group that is here: they are not divided by arrival", groups, plural(groups, "group", "groups"))})
	}
	sort.SliceStable(m.apart, func(a, b int) bool { return m.apart[a].why < m.apart[b].why })
	for _, a := range m.apart {
		m.job.Problems = append(m.job.Problems, timeline.Problem{Code: "run/clocks-differ", Severity: timeline.Info, Message: a.why, Count: a.n})
	}
}

func (m *meeting) refuse(why string, n int64) {
	for i := range m.apart {
		if m.apart[i].why == why {
			m.apart[i].n += n
			return
		}
	}
	m.apart = append(m.apart, refusal{why, n})
}

// instantiate makes instances of what was matched, as far as the clocks of its ranks may be compared.
func (m *meeting) instantiate() {
	m.inst, m.place = make([][]int32, len(m.job.Ranks)), make([][]int32, len(m.job.Ranks))
	for ri, r := range m.job.Ranks {
		m.inst[ri], m.place[ri] = make([]int32, len(r.Collectives)), make([]int32, len(r.Collectives))
		for i := range m.inst[ri] {
			m.inst[ri][i] = -1
		}
	}
	for si := range m.sets {
		s := &m.sets[si]
		if len(s.rows) == 0 || !m.divisible(s) {
			continue
		}
		parts := m.parts(s)
		if len(parts) > 1 {
			why := m.whyApart(s)
			m.refuse(why, int64(len(s.rows)))
			m.comms[s.group].why = why
		}
		for _, at := range parts {
			if len(at) < 2 {
				continue
			}
			full := s.complete && len(parts) == 1
			var found []instance
			for _, row := range s.rows {
				members := row
				if len(at) < len(row) {
					members = make([]member, len(at))
					for i, k := range at {
						members[i] = row[k]
					}
				}
				if in, ok := m.instance(members, full, s); ok {
					in.set = int32(si)
					found = append(found, in)
				}
			}
			if why := m.comparable(s, at, found); why != "" {
				m.refuse(why, int64(len(found)))
				m.comms[s.group].why = why
				continue
			}
			prev := int32(-1)
			for _, in := range found {
				k := int32(len(m.instances))
				in.prev, prev = prev, k
				for i, x := range in.members {
					m.inst[x.rank][x.col], m.place[x.rank][x.col] = k, int32(i)
				}
				m.instances = append(m.instances, in)
			}
		}
	}
}

// divisible: of a group of which neither members nor size is known nothing tells that its lanes are of one group.
func (m *meeting) divisible(s *laneSet) bool {
	c := m.comms[s.group].first
	return s.complete || s.p2p || c.GroupRanks != nil || c.GroupSize > 0
}

// parts are the lanes of a set by clocks that may be compared.
func (m *meeting) parts(s *laneSet) [][]int {
	var out [][]int
next:
	for i, l := range s.lanes {
		for k := range out {
			if m.together(m.clock[l.rank], m.clock[s.lanes[out[k][0]].rank]) {
				out[k] = append(out[k], i)
				continue next
			}
		}
		out = append(out, []int{i})
	}
	return out
}

func (m *meeting) whyApart(s *laneSet) string {
	for _, l := range s.lanes {
		if f := &m.fits[m.clock[l.rank]]; f.refused != "" {
			return fmt.Sprintf("collectives between host %s and others are not compared: %s", quoted(m.hosts[m.clock[l.rank]]), f.refused)
		}
	}
	return "collectives between hosts are not compared: the clocks of their hosts may differ by more than the waits"
}

func quoted(host string) string {
	if host == "" {
		return "(not named)"
	}
	return host
}

// instance makes an instance of members whose kernels agree; not ok where they cannot be one collective.
func (m *meeting) instance(members []member, full bool, s *laneSet) (instance, bool) {
	in := instance{members: members, first: math.MaxInt64, latest: math.MinInt64, full: full, prev: -1, conf: timeline.Inferred}
	if full {
		in.conf = timeline.Measured
	}
	c0 := m.col(members[0])
	if !m.t.Symmetric(c0.Primitive) && c0.Primitive != "send-recv" {
		return in, false
	}
	end := timeline.Time(math.MaxInt64)
	for i, x := range members {
		c := m.col(x)
		if c.Primitive != c0.Primitive {
			return in, false
		}
		a := m.come(x)
		if a > in.latest || a == in.latest && m.job.Ranks[x.rank].Process.Rank < m.job.Ranks[members[in.culprit].rank].Process.Rank {
			in.latest, in.culprit = a, i
		}
		in.first = min(in.first, a)
		if c.Dir <= 0 || c.Primitive != "send-recv" { // what is small is sent without waiting for who receives it
			end = min(end, m.common(int(x.rank), c.End))
		}
	}
	// Nobody can finish before the last one came.
	clock := m.clock[members[in.culprit].rank]
	widest := timeline.Time(0)
	for _, x := range members {
		widest = max(widest, m.errorOf(m.clock[x.rank], clock))
	}
	if end < in.latest-clockMax-widest {
		return in, false
	}
	if widest > 0 {
		// Who came within the error of another clock may have been the last as well.
		for _, x := range members {
			if k := m.clock[x.rank]; k != clock && in.latest-m.come(x) < m.errorOf(k, clock) {
				in.culprit = -1
				break
			}
		}
	}
	return in, true
}

// until is when a member's wait ends, on its own reduction's clock: when the last came, or its own start where that is within the error.
func (m *meeting) until(in *instance, last int, x member) timeline.Time {
	c := m.col(x)
	if a, b := m.clock[x.rank], m.clock[in.members[last].rank]; a != b && in.latest-m.come(x) < m.errorOf(a, b) {
		return c.Start
	}
	return min(max(m.local(int(x.rank), in.latest), c.Start), c.End)
}

// lastOf is the member that came last, be it within the error or not.
func (m *meeting) lastOf(in *instance) int {
	if in.culprit >= 0 {
		return in.culprit
	}
	for i, x := range in.members {
		if m.come(x) == in.latest {
			return i
		}
	}
	return 0
}

// comparable says why the clocks of the lanes' ranks may not be compared after all; "" if they may. Ends tell: nobody can finish before the
// last rank has arrived, so on one clock the members of symmetric collectives end together.
func (m *meeting) comparable(s *laneSet, at []int, found []instance) string {
	if s.p2p || len(found) == 0 {
		return ""
	}
	const look = 500
	n := min(len(found), look)
	off := make([][]int64, len(at))
	ends := make([]int64, len(at))
	sorted := make([]int64, len(at))
	for k := range n {
		in := &found[k*len(found)/n]
		for i, x := range in.members {
			ends[i] = int64(m.common(int(x.rank), m.col(x).End))
		}
		copy(sorted, ends)
		mid := median(sorted)
		for i := range ends {
			off[i] = append(off[i], ends[i]-mid)
		}
	}
	lo, hi, rho := int64(math.MaxInt64), int64(math.MinInt64), int64(0)
	for _, d := range off {
		o := median(slices.Clone(d))
		lo, hi = min(lo, o), max(hi, o)
		for i, v := range d {
			d[i] = max(v-o, o-v)
		}
		rho = max(rho, median(d)*14826/10000)
	}
	if hi > lo && hi-lo > max(clockMax, 3*rho) {
		return "collectives are not divided: the clocks of the ranks differ, their kernels end apart by more than 100 us each time"
	}
	return ""
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

// divide rewrites the communication of every ledger: waiting wins over moving, moving over what is not divided.
func (m *meeting) divide() {
	m.waits = make([][][]waitPiece, len(m.job.Ranks))
	sideBySide(len(m.job.Ranks), func(next func() (int, bool)) {
		for ri, ok := next(); ok; ri, ok = next() {
			m.divideRank(ri, m.job.Ranks[ri])
		}
	})
}

func (m *meeting) divideRank(ri int, r *timeline.Reduced) {
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
		slices.SortStableFunc(moves, func(a, b int) int { return cmp.Compare(start(a), start(b)) })
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

// rewrite gives the undivided communication of a ledger to the layers, and says which pieces are waits. which names the collective of each
// wait in layers, in order.
func rewrite(g *timeline.GPULedger, layers []timeline.Segment, which []int) []waitPiece {
	var pieces []waitPiece
	out := make([]timeline.Segment, 0, g.Segments.Len()+len(layers))
	k, w := 0, 0 // w: waits before layers[k]
	for s := range g.Segments.All() {
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
	g.Segments = timeline.PackSegments(out)
	return pieces
}
