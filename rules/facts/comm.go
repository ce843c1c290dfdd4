package facts

import (
	"cmp"
	"fmt"
	"slices"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

const (
	smallOneHost   = 1 << 20  // bytes: below it a collective inside one host takes the same time whatever its size
	smallManyHosts = 16 << 20 // the same across hosts
	judgedBytes    = 1 << 20  // smaller collectives say nothing about a link
	minJudged      = 5        // collectives of one kind that must be there before the link is judged
	// oneHostGPUs is how many ranks are taken to sit in one host where no trace names its host.
	oneHostGPUs = 8
	// busbwOfLink is the part of the expected speed from which a transfer length found on one rank is believed.
	busbwOfLink = 0.75
)

var (
	commExposed = &Decl{ID: "gpu.comm_exposed_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in which a collective ran and nothing else: waiting for a peer, transfer and undivided."}
	commOwn = &Decl{ID: "gpu.comm_own_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in exposed collectives without the time that waited for a late rank: transfer and undivided. " +
			"From one rank it is an upper bound, and a hint unless the transfer runs at the speed of the link."}
	commHidden = &Decl{ID: "gpu.comm_hidden_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Collective time under which computation ran, out of all collective time of the GPU's analysed window."}
	commSmall = &Decl{ID: "gpu.comm_small_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Exposed collective time, peer waits left out, in messages too small for the link's speed to matter (under 1 MiB inside a host, " +
			"under 16 MiB across hosts), out of all of it whose size is known."}
	commSmallExposed = &Decl{ID: "gpu.comm_small_exposed_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in exposed collectives under 1 MiB inside a host, under 16 MiB across hosts, peer waits left out."}
	commSmallPerStep = &Decl{ID: "gpu.comm_small_per_step_count", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C4",
		Doc: "Collectives under 1 MiB inside a host, under 16 MiB across hosts, per analysed step."}
	commOnCompute = &Decl{ID: "gpu.comm_on_compute_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in exposed collectives that ran on the stream that holds most of the computation."}
	commOnComputeOwn = &Decl{ID: "gpu.comm_on_compute_own_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "The same without the time that waited for a late rank."}
	commBusbw = &Decl{ID: "gpu.comm_busbw_bytes_per_s", Unit: unit.BytePerSecond, Per: GPU, Max: 1e30, Capture: "C8",
		Doc: "Bus bandwidth (nccl-tests' definition, transfer time only) of the GPU's largest collectives of one size."}
	commBusbwSize = &Decl{ID: "gpu.comm_busbw_message_bytes", Unit: unit.Byte, Per: GPU, Max: 1e20, Capture: "C4",
		Doc: "Size of the collectives that gpu.comm_busbw_bytes_per_s speaks of."}
	commOfExpected = &Decl{ID: "gpu.comm_busbw_of_expected_frac", Unit: unit.Frac, Per: GPU, Max: 3, Capture: "C8",
		Doc: "Time that the GPU's collectives of 1 MiB or more would take at the speed a healthy link of its kind reaches for their sizes, out of the " +
			"time their transfers took. From one rank a lower bound, and a hint."}
	commJudged = &Decl{ID: "gpu.comm_judged_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window in the exposed transfer of collectives of 1 MiB or more."}
)

// Comm: how much communication is exposed, what of it is its own transfer, and is that as fast as the link allows for its size?
// Shares come from the ledger; sizes weigh them by the exposed time of each collective without its peer wait. Bus bandwidth takes
// transfer time only and is held against the size curve of the link. Missing: no trace; for sizes, where the trace does not state
// them; for the link, across hosts and for parts that are not in the GPU table.
var Comm = &Deriver{
	Name: "comm",
	Gives: []*Decl{commExposed, commOwn, commHidden, commSmall, commSmallExposed, commSmallPerStep, commOnCompute, commOnComputeOwn,
		commBusbw, commBusbwSize, commOfExpected, commJudged},
	Run: func(p *Pass) {
		hosts := newHostMap(p.Job)
		p.eachGPU(func(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) { p.commOf(sub, c, g, r, hosts) })
	},
}

// isSmall tells whether a collective's time is latency, not bytes.
func isSmall(c *timeline.Collective, oneHost bool) bool {
	if oneHost {
		return c.Bytes < smallOneHost
	}
	return c.Bytes < smallManyHosts
}

func (p *Pass) commOf(sub int, card *Card, g *timeline.GPULedger, r *timeline.Reduced, hosts *hostMap) {
	if g == nil || g.Window.Empty() {
		p.missAll(sub, noLedger(g), commExposed, commOwn, commHidden, commSmall, commSmallExposed, commSmallPerStep, commOnCompute,
			commOnComputeOwn, commBusbw, commBusbwSize, commOfExpected, commJudged)
		return
	}
	w := float64(g.Window.Dur())
	own := g.Owners[timeline.CommTransfer] + g.Owners[timeline.CommUndivided]
	exposed := own + g.Owners[timeline.CommPeerWait]
	var sum struct {
		n, measured, inferred, undivided int64 // own exposed ns by how it was divided
		sized, small, smallN             int64
		onCompute, onComputeOwn, exposed int64
		rows, smallRows, computeRows     []uint32
	}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g || !inWindow(r, c) {
			continue
		}
		sum.n++
		ns := ownExposed(c)
		sum.exposed += c.ExposedNS
		switch c.Split {
		case timeline.Measured:
			sum.measured += ns
		case timeline.NoConfidence:
			sum.undivided += ns
		default:
			sum.inferred += ns
		}
		if c.ExposedNS > 0 && len(sum.rows) < maxRefs {
			sum.rows = append(sum.rows, c.Row)
		}
		if c.OnCompute {
			sum.onCompute += c.ExposedNS
			sum.onComputeOwn += ns
			sum.computeRows = append(sum.computeRows, c.Row)
		}
		if c.Bytes < 0 {
			continue
		}
		sum.sized += ns
		if oneHost, _ := hosts.one(r, c); isSmall(c, oneHost) {
			sum.small += ns
			sum.smallN++
			sum.smallRows = append(sum.smallRows, c.Row)
		}
	}
	refs, _ := rowRefs(r, sum.rows)
	p.Set(commExposed, sub, Value{Num: float64(exposed) / w, Cover: 1, Refs: refs, NRefs: int(sum.n), Conf: timeline.Measured})
	if all := exposed + g.Side.HiddenComm; all > 0 {
		p.Set(commHidden, sub, measured(float64(g.Side.HiddenComm)/float64(all)))
	} else {
		p.Miss(commHidden, sub, "no collective ran in the window")
	}

	// Pieces of two collectives may lie on each other, so their sums only weigh the ledger's shares.
	total := sum.measured + sum.inferred + sum.undivided
	ofExpected, speedConf := p.busSpeed(sub, card, g, r, hosts)
	conf := ownConfidence(sum.measured, sum.undivided, total, speedConf != timeline.NoConfidence && ofExpected >= busbwOfLink)
	weigh := func(part, whole, ledger int64) float64 {
		if whole <= 0 {
			return 0
		}
		return float64(part) / float64(whole) * float64(ledger) / w
	}
	p.Set(commOwn, sub, Value{Num: float64(own) / w, Cover: 1, Refs: refs, NRefs: int(sum.n), Conf: conf})
	crefs, cn := rowRefs(r, sum.computeRows)
	p.Set(commOnCompute, sub, Value{Num: weigh(sum.onCompute, sum.exposed, exposed), Cover: 1, Refs: crefs, NRefs: cn, Conf: timeline.Measured})
	p.Set(commOnComputeOwn, sub, Value{Num: weigh(sum.onComputeOwn, total, own), Cover: 1, Refs: crefs, NRefs: cn, Conf: conf})

	srefs, sn := rowRefs(r, sum.smallRows)
	switch {
	case sum.n > 0 && 2*sum.sized < total:
		p.missAll(sub, "the trace does not state the size of most collectives; older PyTorch does not write it", commSmall, commSmallExposed, commSmallPerStep)
	default:
		p.Set(commSmallExposed, sub, Value{Num: weigh(sum.small, total, own), Cover: 1, Refs: srefs, NRefs: sn, Conf: conf})
		if sum.sized > 0 {
			p.Set(commSmall, sub, Value{Num: float64(sum.small) / float64(sum.sized), Cover: float64(sum.sized) / float64(total),
				Refs: srefs, NRefs: sn, Conf: conf})
		} else {
			p.Miss(commSmall, sub, "no exposed collective is there to judge")
		}
		if n := len(g.Steps); n > 0 {
			p.Set(commSmallPerStep, sub, Value{Num: float64(sum.smallN) / float64(n), Cover: 1, Refs: srefs, NRefs: sn, Conf: timeline.Measured})
		} else {
			p.Miss(commSmallPerStep, sub, noSteps)
		}
	}
}

// ownExposed is the exposed time of a collective without what waited for a late rank.
func ownExposed(c *timeline.Collective) int64 {
	if c.Split == timeline.NoConfidence {
		return c.ExposedNS
	}
	return max(0, c.ExposedNS-c.ExposedWaitNS)
}

// ownConfidence says how far transfer time is to be believed. One rank cannot tell a slow network from a peer that is always late, so
// its split is a hint, unless the transfers it found are as fast as the link can be.
func ownConfidence(measured, undivided, total int64, fast bool) Confidence {
	switch {
	case total == 0 || 10*measured >= 9*total:
		return timeline.Measured
	case 2*measured >= total, fast && 10*undivided <= total:
		return timeline.Inferred
	}
	return timeline.Hint
}

// hostMap knows which ranks share a host. It remembers its answers: a rank has few groups and many collectives.
type hostMap struct {
	job   *ledger.Job
	named map[int]string // by rank number
	known map[groupKey]hostAnswer
}

type groupKey struct {
	r           *timeline.Reduced
	group       string
	size, n     int
	first, last int
}

type hostAnswer struct {
	one  bool
	conf Confidence
}

func newHostMap(job *ledger.Job) *hostMap {
	h := &hostMap{job: job, named: map[int]string{}, known: map[groupKey]hostAnswer{}}
	for _, r := range job.Ranks {
		if r.Process.Rank >= 0 && r.Process.Host != "" {
			h.named[r.Process.Rank] = r.Process.Host
		}
	}
	return h
}

// one tells whether all ranks of a collective sit in one host, and how sure that is. Without host names a job of up to oneHostGPUs
// ranks is taken to.
func (h *hostMap) one(r *timeline.Reduced, c *timeline.Collective) (bool, Confidence) {
	k := groupKey{r: r, group: c.Group, size: c.GroupSize, n: len(c.GroupRanks)}
	if k.n > 0 {
		k.first, k.last = c.GroupRanks[0], c.GroupRanks[k.n-1]
	}
	a, ok := h.known[k]
	if !ok {
		a.one, a.conf = h.look(r, c)
		h.known[k] = a
	}
	return a.one, a.conf
}

func (h *hostMap) look(r *timeline.Reduced, c *timeline.Collective) (bool, Confidence) {
	size := c.GroupSize
	if size == 0 {
		size = h.job.World
	}
	members := c.GroupRanks
	if members == nil && size == len(h.job.Ranks) {
		for _, x := range h.job.Ranks {
			members = append(members, x.Process.Rank)
		}
	}
	seen := 0
	for _, m := range members {
		if host := h.named[m]; host != "" {
			if r.Process.Host != "" && host != r.Process.Host {
				return false, timeline.Measured
			}
			seen++
		}
	}
	if size > 0 && seen == size {
		return true, timeline.Measured
	}
	if size > 0 && size <= oneHostGPUs && h.job.World <= oneHostGPUs {
		return true, timeline.Inferred
	}
	return false, timeline.Inferred
}

// busClass is collectives that a healthy link would take equally long for.
type busClass struct {
	primitive string
	bytes     int64
	ranks     int
	oneHost   bool
	group     string // across hosts alone: groups of one size may lie on more hosts or fewer
}

func busClassOf(c *timeline.Collective, oneHost bool) busClass {
	k := busClass{primitive: c.Primitive, bytes: c.Bytes, ranks: c.GroupSize, oneHost: oneHost}
	if !oneHost {
		k.group = c.Group
	}
	return k
}

type busTotal struct {
	n, dur, own int64 // own: exposed ns without peer waits
	inferred    bool
	conf        Confidence // of the host
	one         *timeline.Collective
	rows        []uint32
}

// busSpeed sets the facts about the speed of the GPU's collectives and gives the share of the expected speed; NoConfidence: not known.
func (p *Pass) busSpeed(sub int, card *Card, g *timeline.GPULedger, r *timeline.Reduced, hosts *hostMap) (float64, Confidence) {
	by := map[busClass]*busTotal{}
	var order []busClass
	var all, blind int64
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g || !inWindow(r, c) {
			continue
		}
		all += ownExposed(c)
		if c.Bytes < 0 || c.GroupSize == 0 || c.Split == timeline.NoConfidence {
			blind += ownExposed(c)
		}
		// What has no end that all ranks share, as a broadcast, has no measured transfer.
		if !p.judged(c) {
			continue
		}
		one, conf := hosts.one(r, c)
		k := busClassOf(c, one)
		t := by[k]
		if t == nil {
			t = &busTotal{conf: conf, one: c}
			by[k] = t
			order = append(order, k)
		}
		t.n++
		t.dur += c.TransferNS
		t.own += ownExposed(c)
		t.inferred = t.inferred || c.Split < timeline.Measured
		t.conf = min(t.conf, conf)
		if len(t.rows) < maxRefs {
			t.rows = append(t.rows, c.Row)
		}
	}
	slices.SortFunc(order, func(a, b busClass) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.primitive, b.primitive), cmp.Compare(b.ranks, a.ranks), cmp.Compare(fmt.Sprint(a.oneHost), fmt.Sprint(b.oneHost)), cmp.Compare(a.group, b.group))
	})
	var judgedOwn, judged, expected, actual float64 // ns, count, s, s
	conf, why, largest := timeline.Measured, "", false
	var rows []uint32
	for _, k := range order {
		t := by[k]
		judgedOwn += float64(t.own)
		f, ok := linkTables(p.Input).BusFactor(k.primitive, k.ranks)
		if !ok {
			continue
		}
		moved, took := f*float64(k.bytes)*float64(t.n), float64(t.dur)/1e9
		if t.n >= minJudged && !largest {
			largest = true
			refs, _ := rowRefs(r, t.rows)
			v := Value{Num: moved / took, Cover: 1, Refs: refs, NRefs: int(t.n), Conf: timeline.Measured}
			if t.inferred {
				v.Conf = timeline.Hint
			}
			p.Set(commBusbw, sub, v)
			v.Num, v.Conf = float64(k.bytes), timeline.Measured
			p.Set(commBusbwSize, sub, v)
		}
		w := p.expected(card, g, r, t.one, k.oneHost)
		if w.small || w.rate <= 0 {
			why = w.why
			continue
		}
		speed, linkConf := w.rate, w.conf
		judged += float64(t.n)
		expected += moved / speed
		actual += took
		conf = min(conf, t.conf, linkConf)
		if t.inferred {
			conf = timeline.Hint
		}
		rows = append(rows, t.rows...)
	}
	w := float64(g.Window.Dur())
	if 2*blind > all {
		p.Miss(commJudged, sub, "for most collectives size or group is not stated, or waiting and transfer could not be divided")
	} else if all > 0 {
		p.Set(commJudged, sub, measured(judgedOwn/float64(all)*float64(g.Owners[timeline.CommTransfer])/w))
	} else {
		p.Set(commJudged, sub, measured(0))
	}
	few := fmt.Sprintf("fewer than %d collectives of 1 MiB or more could be divided into waiting and transfer", minJudged)
	if !largest {
		p.missAll(sub, few, commBusbw, commBusbwSize)
	}
	switch {
	case judged < minJudged && why != "":
		p.Miss(commOfExpected, sub, why)
	case judged < minJudged:
		p.Miss(commOfExpected, sub, few)
	case expected/actual > commOfExpected.Max:
		p.Miss(commOfExpected, sub, "collectives ran faster than the link assumed for this GPU can carry, so the assumption is wrong")
	default:
		refs, _ := rowRefs(r, rows)
		p.Set(commOfExpected, sub, Value{Num: expected / actual, Cover: 1, Refs: refs, NRefs: int(judged), Conf: conf})
		return expected / actual, conf
	}
	return 0, timeline.NoConfidence
}
