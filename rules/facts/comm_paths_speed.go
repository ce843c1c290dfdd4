package facts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

var (
	commInside = &Decl{ID: "gpu.comm_inside_of_expected_frac", Unit: unit.Frac, Per: GPU, Max: 3, Capture: "C8",
		Doc: "As gpu.comm_busbw_of_expected_frac, of the collectives whose ranks sit in one host."}
	commInsideJudged = &Decl{ID: "gpu.comm_inside_judged_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "As gpu.comm_judged_frac, of the collectives whose ranks sit in one host."}
	commBetween = &Decl{ID: "gpu.comm_between_of_expected_frac", Unit: unit.Frac, Per: GPU, Max: 3, Capture: "C8",
		Doc: "As gpu.comm_busbw_of_expected_frac, of the collectives that cross hosts, held against the adapters that NCCL's log names."}
	commBetweenJudged = &Decl{ID: "gpu.comm_between_judged_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "As gpu.comm_judged_frac, of the collectives that cross hosts."}
	runBetweenJudged = &Decl{ID: "run.comm_between_judged_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "Mean of gpu.comm_between_judged_frac over the GPUs of the traces."}
	commWorst = &Decl{ID: "gpu.comm_slowest_of_expected_frac", Unit: unit.Frac, Per: GPU, Max: 3, Capture: "C8",
		Doc: "Bus bandwidth out of the expected one for the class of collectives that is farthest below it: one group, one primitive, sizes within a factor of four."}
	commWorstText = &Decl{ID: "gpu.comm_slowest", Unit: unit.Text, Per: GPU, Capture: "C8",
		Doc: "That class in words: primitive, sizes, group, both speeds."}
	runSlowPair = &Decl{ID: "run.slow_pair", Unit: unit.Text, Per: Run, Capture: "C8",
		Doc: "The pair of ranks whose transfers are slowest beside those of other pairs of its kind: two-rank groups inside a host or across hosts, sizes within a factor of four."}
	runSlowPairFrac = &Decl{ID: "run.slow_pair_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "Bandwidth of that pair out of the median of all pairs of its kind; at least three are compared."}
)

const minPairs = 3 // pairs of one kind from which one is called slow

// CommSpeed: how fast is each class of collectives for its sizes, inside a host and across hosts, and is one pair slower than the others?
// Transfer time only, sizes in powers of four. Missing: sizes or the division are not known, the part is in no table, no log names the
// adapters, or fewer than five collectives of a class or three pairs of a kind.
var CommSpeed = &Deriver{Name: "comm-speed", Gives: []*Decl{commInside, commInsideJudged, commBetween, commBetweenJudged, commWorst, commWorstText, runBetweenJudged, runSlowPair, runSlowPairFrac},
	Run: func(p *Pass) {
		hosts := newHostMap(p.Job)
		p.eachGPU(func(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) { p.speedOf(sub, c, g, r, hosts) })
		p.betweenJudged()
		p.slowPair(hosts)
	}}

func (p *Pass) betweenJudged() {
	sum, n, conf, why := 0.0, 0.0, timeline.Measured, noTrace
	p.eachGPU(func(sub int, c *Card, g *timeline.GPULedger, _ *timeline.Reduced) {
		if g == nil || g.Window.Empty() {
			return
		}
		v, need := p.Facts.Get(sub, commBetweenJudged.ID)
		if need != nil {
			why, n = need.Why, math.NaN()
			return
		}
		sum += v.Num
		n++
		conf = min(conf, v.Conf)
	})
	if n > 0 {
		p.Set(runBetweenJudged, 0, Value{Num: sum / n, Cover: 1, Conf: conf})
	} else {
		p.Miss(runBetweenJudged, 0, why)
	}
}

// sizeClass is collectives of one group and primitive, sizes from 4^n up to 4^(n+1).
type sizeClass struct {
	group, primitive string
	power            int
	ranks            int
	oneHost          bool
}

type sizeSum struct {
	n                     int
	moved, took, expected float64 // bytes, s, s
	low, high             int64   // sizes
	conf                  Confidence
	rows                  []uint32
}

// power4 is the largest n with 4^n <= bytes.
func power4(bytes int64) int {
	n := 0
	for ; bytes >= 4; bytes /= 4 {
		n++
	}
	return n
}

func (p *Pass) speedOf(sub int, card *Card, g *timeline.GPULedger, r *timeline.Reduced, hosts *hostMap) {
	if g == nil || g.Window.Empty() {
		p.missAll(sub, noLedger(g), commInside, commInsideJudged, commBetween, commBetweenJudged, commWorst, commWorstText)
		return
	}
	type side struct {
		own              float64
		n                int
		expected, actual float64
		conf             Confidence
		why              string
		rows             []uint32
	}
	sides := [2]side{{conf: timeline.Measured}, {conf: timeline.Measured}} // inside, across
	classes := map[sizeClass]*sizeSum{}
	var order []sizeClass
	var all, blind float64
	known := map[busClass]wire{}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g || !inWindow(r, c) {
			continue
		}
		all += float64(ownExposed(c))
		if c.Bytes < 0 || c.GroupSize == 0 || c.Split == timeline.NoConfidence {
			blind += float64(ownExposed(c))
		}
		if !p.judged(c) {
			continue
		}
		one, hostConf := hosts.one(r, c)
		s := &sides[1]
		if one {
			s = &sides[0]
		}
		s.own += float64(ownExposed(c))
		k := busClassOf(c, one)
		w, ok := known[k]
		if !ok {
			w = p.expected(card, g, r, c, one)
			known[k] = w
		}
		if w.small || w.rate <= 0 {
			s.why = cmp.Or(w.why, "its collectives are too small to reach the speed of the link")
			continue
		}
		f, ok := linkTables(p.Input).BusFactor(c.Primitive, c.GroupSize)
		if !ok {
			continue
		}
		moved, took := f*float64(c.Bytes), float64(c.TransferNS)/1e9
		conf := min(w.conf, hostConf)
		if c.Split < timeline.Measured {
			conf = timeline.Hint
		}
		s.n++
		s.expected += moved / w.rate
		s.actual += took
		s.conf = min(s.conf, conf)
		s.rows = append(s.rows, c.Row)
		z := sizeClass{c.Group, c.Primitive, power4(c.Bytes), c.GroupSize, one}
		t := classes[z]
		if t == nil {
			t = &sizeSum{low: c.Bytes, high: c.Bytes, conf: conf}
			classes[z] = t
			order = append(order, z)
		}
		t.n++
		t.moved += moved
		t.took += took
		t.expected += moved / w.rate
		t.low, t.high = min(t.low, c.Bytes), max(t.high, c.Bytes)
		t.conf = min(t.conf, conf)
		t.rows = append(t.rows, c.Row)
	}
	share := float64(g.Owners[timeline.CommTransfer]) / float64(g.Window.Dur())
	for i, d := range [2][2]*Decl{{commInsideJudged, commInside}, {commBetweenJudged, commBetween}} {
		s := &sides[i]
		switch {
		case 2*blind > all:
			p.Miss(d[0], sub, "for most collectives size or group is not stated, or waiting and transfer could not be divided")
		case all > 0:
			p.Set(d[0], sub, measured(min(1, s.own/all*share)))
		default:
			p.Set(d[0], sub, measured(0))
		}
		switch {
		case s.n < minJudged:
			p.Miss(d[1], sub, cmp.Or(s.why, fmt.Sprintf("fewer than %d collectives of 1 MiB or more could be divided into waiting and transfer", minJudged)))
		case s.expected/s.actual > d[1].Max:
			p.Miss(d[1], sub, "collectives ran faster than the link assumed for this GPU can carry, so the assumption is wrong")
		default:
			refs, _ := rowRefs(r, s.rows)
			p.Set(d[1], sub, Value{Num: s.expected / s.actual, Cover: 1, Refs: refs, NRefs: s.n, Conf: s.conf})
		}
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, b := classes[order[i]], classes[order[j]]
		return a.expected/a.took < b.expected/b.took
	})
	for _, z := range order {
		t := classes[z]
		if t.n < minJudged || t.expected/t.took > commWorst.Max {
			continue
		}
		refs, n := rowRefs(r, t.rows)
		v := Value{Num: t.expected / t.took, Cover: 1, Refs: refs, NRefs: n, Conf: t.conf}
		p.Set(commWorst, sub, v)
		v.Num, v.Text = 0, fmt.Sprintf("%s of %s%s: %s of %s expected", z.primitive, sizes(t.low, t.high), groupWord(z.group), gbs(t.moved/t.took), gbs(t.moved/t.expected))
		p.Set(commWorstText, sub, v)
		return
	}
	p.missAll(sub, cmp.Or(sides[0].why, sides[1].why, fmt.Sprintf("no class of collectives has %d whose transfer is known", minJudged)), commWorst, commWorstText)
}

// judged tells whether a collective's transfer says something of a link.
func (p *Pass) judged(c *timeline.Collective) bool {
	return c.GroupSize >= 2 && linkTables(p.Input).Symmetric(c.Primitive) && c.Bytes >= judgedBytes && c.Split != timeline.NoConfidence && c.TransferNS > 0
}

func groupWord(g string) string {
	if g == "" {
		return ""
	}
	return " in group " + g
}

func gbs(rate float64) string { return three(rate/1e9) + " GB/s" }

// three is a number in three digits, or in as many as it has before the point.
func three(v float64) string {
	if math.Abs(v) >= 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func sizes(low, high int64) string {
	word := func(n int64) string {
		switch {
		case n >= 1<<30:
			return three(float64(n)/(1<<30)) + " GiB"
		case n >= 1<<20:
			return three(float64(n)/(1<<20)) + " MiB"
		}
		return three(float64(n)/(1<<10)) + " KiB"
	}
	if a, b := word(low), word(high); a != b {
		return a + " to " + b
	}
	return word(low)
}

// wire is what a healthy collective reaches: busbw in bytes/s, 0 not known. small: its time is latency, so that it is not judged.
type wire struct {
	rate  float64
	small bool
	conf  Confidence
	why   string // why it is not known or not judged
}

// expected gives the busbw that a healthy collective of its size reaches: by a benchmark of the same ranks among the inputs, inside a host
// by the part's curve or link, across hosts by the adapters.
func (p *Pass) expected(card *Card, g *timeline.GPULedger, r *timeline.Reduced, c *timeline.Collective, oneHost bool) wire {
	f, ok := linkTables(p.Input).BusFactor(c.Primitive, c.GroupSize)
	if !ok || c.Bytes <= 0 {
		return wire{why: "for its kind or size no speed is expected"}
	}
	if c.GroupSize == p.Job.World || p.Job.World == 0 && c.GroupSize == len(p.Job.Ranks) {
		if rate, low := p.benched(c.Primitive, c.GroupSize, c.Bytes); rate > 0 {
			return wire{rate: rate, small: low, conf: timeline.Inferred}
		}
	}
	if oneHost {
		return p.expectedInside(card, g, c.Bytes, c.GroupSize, f)
	}
	return p.expectedAcross(r, c, f)
}

// expectedInside: parts with NVLink switches are held against the curve measured for their kind, brought down to what a ring reaches, or,
// where nobody measured one, against the model of their link; other boards against PCIe.
func (p *Pass) expectedInside(c *Card, g *timeline.GPULedger, bytes int64, ranks int, factor float64) wire {
	m, why := p.part(c, g)
	if why != "" {
		return wire{why: why}
	}
	links := &p.Tables.Links
	// A board with a bridge has NVLink to one neighbour only: its ring runs over PCIe.
	if m.GPU.NVLink == 0 || m.GPU.NVLinks == 0 {
		link, conf, why := p.hostLink(c, g)
		switch {
		case why != "":
			return wire{why: why}
		case bytes >= pcieJudged:
			return wire{rate: link * links.RingFrac, conf: min(conf, timeline.Inferred)}
		}
		return modelled(links, "pcie", "", link, factor*float64(bytes))
	}
	if m.GPU.CC == "7.0" && ranks < 8 {
		return wire{why: "how many NVLinks join these GPUs depends on the machine: this part has no NVLink switch"}
	}
	ring := m.GPU.NVLink / 2 * links.RingFrac
	if top, ok := links.Expect(m.GPU.ID, 1, 1<<50); ok {
		r, ok := links.Expect(m.GPU.ID, 1, bytes)
		if !ok {
			return wire{small: true, why: tooSmall}
		}
		return wire{rate: r * min(1, ring/top), conf: timeline.Measured, small: bytes < judgedBytes}
	}
	if bytes >= nvlinkJudged {
		return wire{rate: ring, conf: timeline.Inferred}
	}
	return modelled(links, "nvlink", m.GPU.CC, m.GPU.NVLink/2, factor*float64(bytes))
}

const tooSmall = "its collectives are too small to reach the speed of the link"

func modelled(links *ledger.Links, kind, cc string, link, moved float64) wire {
	m, ok := links.Model(kind, cc)
	if !ok {
		return wire{why: "nobody has measured what its link reaches at the sizes of these collectives"}
	}
	rate, small := m.BusBW(moved, link)
	w := wire{rate: rate, small: small, conf: timeline.Inferred}
	if small {
		w.why = tooSmall
	}
	return w
}

// expectedAcross holds a collective against the adapters of one host that its ranks there can use: one a rank at most.
func (p *Pass) expectedAcross(r *timeline.Reduced, c *timeline.Collective, factor float64) wire {
	net := p.fabric()
	if net.why != "" {
		return wire{why: net.why}
	}
	hosts := 0
	for i := range p.Job.Groups {
		if q := &p.Job.Groups[i]; q.Name == c.Group && q.Size == c.GroupSize && len(q.Here) == q.Size && q.Hosts > 1 && slices.Contains(q.Ranks, r.Process.Rank) {
			hosts = q.Hosts
		}
	}
	if hosts == 0 && c.GroupSize == net.ranks {
		hosts = net.hosts
	}
	if hosts < 2 {
		return wire{why: "how its ranks lie on hosts is not known"}
	}
	members := max(1, c.GroupSize/hosts)
	link := net.rate * float64(min(net.adapters, members))
	if c.Primitive == "all-to-all" { // what stays inside the host is none of the adapters' business
		link = link / float64(members) * float64(c.GroupSize-1) / float64(c.GroupSize-members)
	}
	return modelled(&p.Tables.Links, "host", "", link, factor*float64(c.Bytes))
}

// fabric is the network between hosts as NCCL's log tells it.
type fabric struct {
	rate         float64 // of one adapter, bytes/s, the slowest
	adapters     int     // of one host, the fewest
	hosts, ranks int     // of the job, where every rank's host is known
	why          string
}

func (p *Pass) fabric() fabric {
	l := p.ncclLog()
	out := fabric{hosts: len(l.hosts), ranks: len(l.of), why: "its collectives cross hosts, and no input states the speed of the network between them"}
	if p.Tables == nil {
		return out
	}
	for _, h := range l.hosts {
		net := h.attr[timeline.AttrNCCLNetwork].Text
		speed, n := h.attr[timeline.AttrNCCLSpeed].Value, len(strings.Fields(h.attr[timeline.AttrNCCLAdapters].Text))
		switch {
		case net == "Socket":
			return fabric{why: "its collectives cross hosts over TCP, and no input states the speed of that network"}
		case speed <= 0 || n == 0:
			continue // one host's log may stand for all
		}
		if out.rate == 0 || speed < out.rate {
			out.rate = speed
		}
		if out.adapters == 0 || n < out.adapters {
			out.adapters = n
		}
		out.why = ""
	}
	return out
}

// benched gives busbw of a size from a benchmark's table of as many ranks among the inputs; low where the size is below the table's.
func (p *Pass) benched(primitive string, ranks int, bytes int64) (rate float64, low bool) {
	head := fmt.Sprintf("%s %d: ", primitive, ranks)
	for i := range p.Base.Attrs {
		a := &p.Base.Attrs[i]
		rows, ok := strings.CutPrefix(a.Text, head)
		if a.Name != timeline.AttrNCCLBench || !ok {
			continue
		}
		var size, bw []float64
		for _, f := range strings.Fields(rows) {
			s, b, _ := strings.Cut(f, "=")
			x, err := strconv.ParseFloat(s, 64)
			y, err2 := strconv.ParseFloat(b, 64)
			if err == nil && err2 == nil && y > 0 && (len(size) == 0 || x > size[len(size)-1]) {
				size, bw = append(size, x), append(bw, y)
			}
		}
		x, n := float64(bytes), len(size)
		switch {
		case n == 0 || x < size[0]:
			return 0, true
		case x >= size[n-1]:
			return bw[n-1], false
		}
		j := sort.SearchFloat64s(size, x)
		if size[j] == x {
			return bw[j], false
		}
		return bw[j-1] + (x-size[j-1])/(size[j]-size[j-1])*(bw[j]-bw[j-1]), false
	}
	return 0, false
}

// slowPair compares pairs of ranks: groups of two, and sends, by the sizes and whether they cross hosts.
func (p *Pass) slowPair(hosts *hostMap) {
	type kind struct {
		primitive string
		power     int
		oneHost   bool
	}
	type pairOf struct {
		kind
		a, b int
	}
	type sum struct {
		bytes, took float64
		n           int
		conf        Confidence
		refs        []Ref
	}
	pairs := map[pairOf]*sum{}
	for _, r := range p.Job.Ranks {
		me := r.Process.Rank
		for i := range r.Collectives {
			c := &r.Collectives[i]
			if me < 0 || !inWindow(r, c) || c.Bytes < judgedBytes || c.Split == timeline.NoConfidence || c.TransferNS <= 0 {
				continue
			}
			other := -1
			switch {
			case c.Primitive == "send-recv" && c.Peer >= 0:
				other = c.Peer
			case c.GroupSize == 2 && len(c.GroupRanks) == 2 && slices.Contains(c.GroupRanks, me):
				other = c.GroupRanks[0] + c.GroupRanks[1] - me
			}
			if other < 0 || other == me {
				continue
			}
			one, conf := hosts.one(r, c)
			if c.Primitive == "send-recv" {
				a, b := hosts.named[me], hosts.named[other]
				if a == "" || b == "" {
					continue
				}
				one, conf = a == b, timeline.Measured
			}
			k := pairOf{kind{c.Primitive, power4(c.Bytes), one}, min(me, other), max(me, other)}
			s := pairs[k]
			if s == nil {
				s = &sum{conf: conf}
				pairs[k] = s
			}
			s.n++
			s.bytes += float64(c.Bytes)
			s.took += float64(c.TransferNS) / 1e9
			if s.conf = min(s.conf, conf); c.Split < timeline.Measured {
				s.conf = timeline.Hint
			}
			if len(s.refs) < maxRefs {
				s.refs = append(s.refs, traceRef(r.Path, c.Row))
			}
		}
	}
	var order []pairOf
	for k, s := range pairs {
		if s.n >= minJudged {
			order = append(order, k)
		}
	}
	slices.SortFunc(order, func(x, y pairOf) int {
		return cmp.Or(cmp.Compare(x.primitive, y.primitive), cmp.Compare(x.power, y.power), cmp.Compare(strconv.FormatBool(x.oneHost), strconv.FormatBool(y.oneHost)),
			cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	worst, middle, found := pairOf{}, 0.0, false
	least := 2.0
	for i := 0; i < len(order); {
		j := i
		var rates []float64
		for ; j < len(order) && order[j].kind == order[i].kind; j++ {
			rates = append(rates, pairs[order[j]].bytes/pairs[order[j]].took)
		}
		if j-i >= minPairs {
			mid := median(slices.Clone(rates))
			for n, rate := range rates {
				if rate/mid < least {
					least, worst, middle, found = rate/mid, order[i+n], mid, true
				}
			}
		}
		i = j
	}
	if !found {
		why := "fewer than three pairs of ranks of one kind exchange messages of 1 MiB or more whose transfer is known"
		p.missAll(0, why, runSlowPair, runSlowPairFrac)
		return
	}
	s := pairs[worst]
	v := Value{Num: min(1, least), Cover: 1, Refs: s.refs, NRefs: s.n, Conf: s.conf}
	p.Set(runSlowPairFrac, 0, v)
	where := "across hosts"
	if worst.oneHost {
		where = "inside a host"
	}
	v.Num, v.Text = 0, fmt.Sprintf("ranks %d and %d, %s %s: %s, other pairs %s", worst.a, worst.b, worst.primitive, where, gbs(s.bytes/s.took), gbs(middle))
	p.Set(runSlowPair, 0, v)
}
