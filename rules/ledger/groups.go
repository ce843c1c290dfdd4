package ledger

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

// fillGroups lists the communicators, by name, then members, and says what each is for.
func (m *meeting) fillGroups() {
	order := make([]int, len(m.comms))
	for i := range order {
		order[i] = i
	}
	groups := make([]Group, len(m.comms))
	for i := range m.comms {
		groups[i] = m.group(i)
	}
	sort.SliceStable(order, func(a, b int) bool {
		x, y := &groups[order[a]], &groups[order[b]]
		return cmp.Or(compareNames(x.Name, y.Name), slices.Compare(x.Ranks, y.Ranks), cmp.Compare(x.Size, y.Size), cmp.Compare(x.Desc, y.Desc)) < 0
	})
	to := make([]int32, len(order))
	for at, i := range order {
		m.job.Groups = append(m.job.Groups, groups[i])
		to[i] = int32(at)
	}
	m.groupOf = to
}

// compareNames sorts numbers by value, before words.
func compareNames(a, b string) int {
	x, xok := small(a)
	y, yok := small(b)
	switch {
	case xok && yok:
		return cmp.Compare(x, y)
	case xok:
		return -1
	case yok:
		return 1
	}
	return strings.Compare(a, b)
}

func small(s string) (int, bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

func (m *meeting) group(i int) Group {
	cm := &m.comms[i]
	c := cm.first
	g := Group{Name: c.Group, Desc: c.GroupDesc, Size: c.GroupSize, Why: cm.why}
	g.Ranks = slices.Clone(c.GroupRanks)
	slices.Sort(g.Ranks)
	here := map[int]bool{}
	used := map[string]int{}
	for _, si := range cm.sets {
		s := &m.sets[si]
		total := 0
		for _, l := range s.lanes {
			here[l.rank] = true
			total += len(l.cols)
			used[m.job.Ranks[l.rank].Collectives[l.cols[0]].Primitive] += len(l.cols)
		}
		if len(s.lanes) < 2 {
			continue
		}
		g.Matched += int64(len(s.rows))
		g.Unmatched += int64(total - len(s.rows)*len(s.lanes))
		if len(s.rows) > 0 {
			g.How = s.how
		}
	}
	hosts := map[int]bool{}
	for ri := range m.job.Ranks {
		if here[ri] {
			g.Here = append(g.Here, ri)
			hosts[m.clock[ri]] = true
		}
	}
	g.Hosts = len(hosts)
	for _, si := range cm.sets {
		if lanes := m.sets[si].lanes; len(lanes) > 0 { // the members of a group use it alike
			for _, ci := range lanes[0].cols {
				used[m.job.Ranks[lanes[0].rank].Collectives[ci].Primitive]++
			}
		}
	}
	world := m.world()
	g.Kind = kindOf(&g, used, world)
	if g.Why == "" {
		switch {
		case g.Size == 1 || len(g.Ranks) == 1:
			g.Why = "it has one member"
		case len(g.Here) == 1 && len(m.sets[cm.sets[0]].lanes) < 2:
			g.Why = "of its members only one rank's trace is here"
		case m.crowdedGroup(cm):
			g.Why = "several groups of this name and size, whose members no trace tells, cannot be told apart"
		case g.Size == 0 && len(g.Ranks) == 0 && !m.anyComplete(cm):
			g.Why = "neither its size nor its members are stated, so nothing tells whether all are here"
		case g.Matched == 0:
			g.Why = "no collective of one rank has a counterpart in the others' traces"
		}
	}
	return g
}

func (m *meeting) crowdedGroup(cm *comm) bool {
	return slices.ContainsFunc(cm.sets, func(si int) bool { return m.crowded(&m.sets[si]) })
}

func (m *meeting) anyComplete(cm *comm) bool {
	return slices.ContainsFunc(cm.sets, func(si int) bool { return m.sets[si].complete })
}

// world is the number of ranks of the run: stated, else what is here.
func (m *meeting) world() int {
	w := max(m.job.World, len(m.job.Ranks))
	for i := range m.comms {
		w = max(w, m.comms[i].first.GroupSize)
	}
	return w
}

// kindWords are words of names and descriptions of groups, the first that fits. A word stands between signs, digits or changes of case.
var kindWords = []struct {
	kind  GroupKind
	words []string
}{
	{ExpertGroup, []string{"expert", "ep", "moe", "etp"}},
	{PipelineGroup, []string{"pipeline", "pp", "pipe", "embedding"}},
	{TensorGroup, []string{"tensor", "tp", "model", "mp", "sequence", "sp", "context", "cp"}},
	{ShardGroup, []string{"fsdp", "shard", "sharded", "zero", "hsdp"}},
	{DataGroup, []string{"data", "dp", "ddp", "replicate", "replica"}},
	{WorldGroup, []string{"default", "world"}},
}

// kindOf tells what a group is for: as it is described, else by what is done in it, else by where its members lie: in a row they split tensors,
// at equal distances they hold copies.
func kindOf(g *Group, used map[string]int, world int) GroupKind {
	words := wordsOf(g.Desc + " " + g.Name)
	for _, k := range kindWords {
		for _, w := range words {
			if slices.Contains(k.words, w) && !(k.kind == WorldGroup && world > 0 && g.Size > 0 && g.Size != world) {
				// Copies that are sharded: described as data, used to gather and scatter.
				if k.kind == DataGroup && shards(used) {
					return ShardGroup
				}
				if k.kind == WorldGroup && shards(used) {
					return ShardGroup
				}
				return k.kind
			}
		}
	}
	size := max(g.Size, len(g.Ranks))
	total := 0
	for _, n := range used {
		total += n
	}
	switch {
	case total == 0 || size == 1:
		return UnknownGroup
	case 2*used["send-recv"] > total:
		return PipelineGroup
	case shards(used) && !inRow(g.Ranks, world):
		return ShardGroup
	case world > 1 && (size == world || size == 0 && len(g.Here) == world):
		return WorldGroup
	case 2*used["all-to-all"] > total:
		return ExpertGroup
	case len(g.Ranks) < 2:
		return UnknownGroup
	case inRow(g.Ranks, world):
		return TensorGroup
	case strided(g.Ranks):
		return DataGroup
	}
	return UnknownGroup
}

// shards tells that a group mostly gathers and scatters.
func shards(used map[string]int) bool {
	total := 0
	for _, n := range used {
		total += n
	}
	return used["all-gather"] > 0 && used["reduce-scatter"] > 0 && 2*(used["all-gather"]+used["reduce-scatter"]) > total
}

// inRow tells that ranks are neighbours, and not all.
func inRow(r []int, world int) bool {
	return len(r) > 1 && len(r) < world && r[len(r)-1]-r[0] == len(r)-1
}

// strided tells that ranks lie at equal distances.
func strided(r []int) bool {
	if len(r) < 2 || r[1]-r[0] < 2 {
		return false
	}
	for i := 2; i < len(r); i++ {
		if r[i]-r[i-1] != r[1]-r[0] {
			return false
		}
	}
	return true
}

// wordsOf cuts a name into lower case words.
func wordsOf(s string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	lower := false
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z':
			b.WriteRune(c)
			lower = true
			continue
		case c >= 'A' && c <= 'Z':
			if lower {
				flush()
			}
			b.WriteRune(c)
		default:
			flush()
		}
		lower = false
	}
	flush()
	return out
}

// lateness says when ranks came to the first collective of each step of the largest group; of several such groups each rank is compared within
// its own.
func (m *meeting) lateness() {
	size := 0
	for i := range m.sets {
		if s := &m.sets[i]; !s.p2p && len(s.lanes) > size && m.divides(s) {
			size = len(s.lanes)
		}
	}
	if size < 2 {
		return
	}
	type first struct {
		step int64
		k    int32
	}
	var firsts []first
	seen := map[[2]int64]int32{} // group and step -> instance
	for k := range m.instances {
		in := &m.instances[k]
		s := &m.sets[in.set]
		if s.p2p || len(s.lanes) != size || len(in.members) != size {
			continue
		}
		step, ok := m.stepOf(in)
		if !ok {
			continue
		}
		key := [2]int64{int64(in.set), step}
		if old, ok := seen[key]; !ok || m.instances[old].first > in.first {
			seen[key] = int32(k)
		}
	}
	for key, k := range seen {
		firsts = append(firsts, first{key[1], k})
	}
	sort.Slice(firsts, func(a, b int) bool {
		return cmp.Or(cmp.Compare(firsts[a].step, firsts[b].step), cmp.Compare(firsts[a].k, firsts[b].k)) < 0
	})
	l := &m.job.Late
	for _, f := range firsts {
		if n := len(l.Steps); n == 0 || l.Steps[n-1] != f.step {
			l.Steps = append(l.Steps, f.step)
		}
	}
	l.NS = make([][]int64, len(m.job.Ranks))
	for ri := range l.NS {
		l.NS[ri] = make([]int64, len(l.Steps))
		for i := range l.NS[ri] {
			l.NS[ri][i] = NotLate
		}
	}
	rho := int64(0)
	at := -1
	for _, f := range firsts {
		if at < 0 || l.Steps[at] != f.step {
			at++
		}
		in := &m.instances[f.k]
		for _, x := range in.members {
			// A rank with several GPUs comes with the first of them.
			ns := int64(m.come(x) - in.first)
			if old := l.NS[x.rank][at]; old == NotLate || ns < old {
				l.NS[x.rank][at] = ns
			}
			if m.clock[x.rank] != m.clock[in.members[0].rank] {
				rho = max(rho, m.fits[m.clock[x.rank]].rho, m.fits[m.clock[in.members[0].rank]].rho)
			}
		}
	}
	l.ErrorNS = 3 * rho
	if len(l.Steps) == 0 {
		*l = Lateness{}
	}
}

// divides tells whether some instance of a set is compared.
func (m *meeting) divides(s *laneSet) bool {
	for _, row := range s.rows {
		if k := m.inst[row[0].rank][row[0].col]; k >= 0 && len(m.instances[k].members) == len(s.lanes) {
			return true
		}
	}
	return false
}

// stepOf is the step of an instance, if its members that are inside their window agree on it.
func (m *meeting) stepOf(in *instance) (int64, bool) {
	step, ok := int64(0), false
	for _, x := range in.members {
		c := m.col(x)
		r := m.job.Ranks[x.rank]
		if c.Step < 0 || int(c.Step) >= len(r.Steps.Index) {
			return 0, false
		}
		k := r.Steps.Index[c.Step]
		if ok && k != step {
			return 0, false
		}
		step, ok = k, true
	}
	return step, ok
}

// chains follows the longest wait of each of the six steps in which most was waited, from who waited to who was late, to whom that one had
// waited for.
func (m *meeting) chains(b *blamer) {
	const most = 6
	type worst struct {
		ns   int64
		ri   int
		gpu  int
		at   int
		wait int64
	}
	by := map[int64]*worst{}
	for ri, r := range m.job.Ranks {
		for gi := range m.waits[ri] {
			for k, p := range m.waits[ri][gi] {
				c := &r.Collectives[p.col]
				inst, i, ok := b.late(ri, p.col)
				if !ok || m.instances[inst].culprit == i || c.Step < 0 || int(c.Step) >= len(r.Steps.Index) {
					continue
				}
				step := r.Steps.Index[c.Step]
				w := by[step]
				if w == nil {
					w = &worst{}
					by[step] = w
				}
				w.ns += int64(p.Dur())
				if int64(p.Dur()) > w.wait {
					w.wait, w.ri, w.gpu, w.at = int64(p.Dur()), ri, gi, k
				}
			}
		}
	}
	steps := make([]int64, 0, len(by))
	for s := range by {
		steps = append(steps, s)
	}
	sort.Slice(steps, func(i, j int) bool {
		return cmp.Or(cmp.Compare(by[steps[j]].ns, by[steps[i]].ns), cmp.Compare(steps[i], steps[j])) < 0
	})
	steps = steps[:min(len(steps), most)]
	slices.Sort(steps)
	for _, s := range steps {
		w := by[s]
		p := m.waits[w.ri][w.gpu][w.at]
		if c := (Chain{Step: s, Links: m.follow(b, w.ri, p), Beside: m.beside(b, w.ri, p)}); len(c.Links) > 0 {
			m.job.Chains = append(m.job.Chains, c)
		}
	}
}

// maxWaiters is how many of those that waited in one collective are told.
const maxWaiters = 8

// beside makes the links of the others that waited in the collective of one wait, the longest waits.
func (m *meeting) beside(b *blamer, ri int, p waitPiece) []Link {
	k, _, ok := b.late(ri, p.col)
	if !ok {
		return nil
	}
	type wait struct {
		ri int
		p  waitPiece
	}
	var others []wait
	for _, x := range m.instances[k].members {
		if int(x.rank) == ri {
			continue
		}
		best := -1
		waits := m.waits[x.rank][m.col(x).GPU]
		for q := range waits {
			if waits[q].col == int(x.col) && (best < 0 || waits[q].Dur() > waits[best].Dur()) {
				best = q
			}
		}
		if best >= 0 {
			others = append(others, wait{int(x.rank), waits[best]})
		}
	}
	sort.SliceStable(others, func(i, j int) bool {
		return cmp.Or(cmp.Compare(others[j].p.Dur(), others[i].p.Dur()), cmp.Compare(others[i].ri, others[j].ri)) < 0
	})
	var links []Link
	for _, w := range others {
		if l, _, ok := m.link(b, w.ri, w.p); ok && len(links) < maxWaiters-1 {
			links = append(links, l)
		}
	}
	return links
}

// link is one wait with what held the rank that was waited for; k is the collective's instance. ok is false where the waiting rank itself came last.
func (m *meeting) link(b *blamer, ri int, p waitPiece) (link Link, k int32, ok bool) {
	k, i, ok := b.late(ri, p.col)
	if !ok || m.instances[k].culprit == i {
		return link, k, false
	}
	in := &m.instances[k]
	c := &m.job.Ranks[ri].Collectives[p.col]
	mine, theirs := b.pair(k, i)
	link = Link{Waiter: ri, Culprit: int(in.members[in.culprit].rank), Group: int(m.groupOf[m.sets[in.set].group]), Primitive: c.Primitive, Row: c.Row,
		At: timeline.Interval{Start: m.common(ri, p.Start), End: m.common(ri, p.End)}}
	var over timeline.Owners
	var total int64
	for o := range over {
		if over[o] = max(0, theirs[o]-mine[o]); over[o] > over[link.Owner] {
			link.Owner = timeline.Owner(o)
		}
		total += over[o]
	}
	if total == 0 {
		for _, w := range b.meanwhile(ri, p) {
			over[w.key.owner] = w.ns
			total += w.ns
			if w.ns > over[link.Owner] || over[link.Owner] == 0 {
				link.Owner = w.key.owner
			}
		}
	}
	if total > 0 {
		link.OwnerNS = int64(float64(p.Dur()) * (float64(over[link.Owner]) / float64(total)))
	}
	return link, k, true
}

// follow makes the links from one wait on.
func (m *meeting) follow(b *blamer, ri int, p waitPiece) []Link {
	var links []Link
	for len(links) < maxBlame {
		link, k, ok := m.link(b, ri, p)
		if !ok {
			break
		}
		in := &m.instances[k]
		x := in.members[in.culprit]
		links = append(links, link)
		if link.Owner != timeline.CommPeerWait {
			break
		}
		// The longest wait of the late rank for another group since all were together.
		from := b.origin(k, in.culprit).at
		cc := m.col(x)
		waits := m.waits[x.rank][cc.GPU]
		best := -1
		for q := sort.Search(len(waits), func(i int) bool { return waits[i].End > from }); q < len(waits) && waits[q].Start < cc.Start; q++ {
			if m.comm[x.rank][waits[q].col] != m.comm[x.rank][x.col] && (best < 0 || waits[q].Dur() > waits[best].Dur()) {
				best = q
			}
		}
		if best < 0 {
			break
		}
		ri, p = int(x.rank), waits[best]
	}
	return links
}
