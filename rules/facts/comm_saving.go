package facts

import (
	"slices"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuSaveComm = &Decl{ID: "gpu.save_comm_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "The most that one fix returns of gpu.comm_own_frac: what can hide behind computing that covers no collective yet, what a way as fast as a healthy one for these sizes returns, " +
			"or a half, by sending half of the bytes. All of it where sizes or ways are not known."}
	gpuUncovered = &Decl{ID: "gpu.compute_uncovered_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
		Doc: "Share of the GPU's analysed window computing with no collective beside it: what more of its collectives could hide behind at most."}
	runSaveNetwork = &Decl{ID: "run.save_network_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "What a healthy network between hosts returns at most of run.comm_between_judged_frac: less what stays at the speed of the adapters that NCCL's log names, else of adapters as fast as " +
			"the GPUs' own links to their host. All of it where neither is known."}
)

// CommSaving asks what the exposed transfers of a GPU can return. They do not vanish: hidden they need computing to hide behind, and on a better
// way they still take what its speed makes of their bytes. Missing where the exposed time itself is.
var CommSaving = &Deriver{
	Name:  "comm-saving",
	After: []*Deriver{Comm, CommSpeed, LedgerShares},
	Gives: []*Decl{gpuSaveComm, gpuUncovered, runSaveNetwork},
	Run: func(p *Pass) {
		hosts := newHostMap(p.Job)
		left, n := 0.0, 0.0 // of the transfers between hosts, on a healthy network
		p.eachGPU(func(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
			v, ok := p.Get(commOwn, sub)
			if !ok {
				p.missAll(sub, p.why(commOwn, sub), gpuSaveComm, gpuUncovered)
				return
			}
			stay, between := p.transfersLeft(c, g, r, hosts)
			if share, ok := p.Get(commBetweenJudged, sub); ok {
				left, n = left+share.Num*between, n+1
			}
			free := float64(g.Owners[timeline.Compute]-g.Side.HiddenComm) / float64(g.Window.Dur())
			p.Set(gpuUncovered, sub, Value{Num: max(0, free), Cover: v.Cover, Conf: v.Conf})
			v.Num = min(v.Num, max(free, v.Num*(1-stay), v.Num/2))
			p.Set(gpuSaveComm, sub, v)
		})
		v, ok := p.Get(runBetweenJudged, 0)
		if !ok {
			p.Miss(runSaveNetwork, 0, p.why(runBetweenJudged, 0))
			return
		}
		v.Num = max(0, v.Num-left/max(n, 1))
		p.Set(runSaveNetwork, 0, v)
	},
}

// transfersLeft gives the share of a GPU's exposed transfers that stays on a healthy way: of all, and of those between hosts that say something of
// the network. What is not known counts as nothing.
func (p *Pass) transfersLeft(card *Card, g *timeline.GPULedger, r *timeline.Reduced, hosts *hostMap) (all, between float64) {
	var own, stay, ownBetween, stayBetween float64
	known := map[busClass]float64{}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		if &r.GPUs[c.GPU] != g || !inWindow(r, c) {
			continue
		}
		ns := float64(ownExposed(c))
		own += ns
		if c.Bytes < 0 || c.GroupSize < 2 || c.Split == timeline.NoConfidence || c.TransferNS <= 0 {
			continue
		}
		one, _ := hosts.one(r, c)
		k := busClassOf(c, one)
		healthy, ok := known[k]
		if !ok {
			healthy = p.healthyTime(card, g, r, c, one)
			known[k] = healthy
		}
		part := min(1, healthy*1e9/float64(c.TransferNS))
		stay += ns * part
		if !one && p.judged(c) {
			ownBetween, stayBetween = ownBetween+ns, stayBetween+ns*part
		}
	}
	if own > 0 {
		all = stay / own
	}
	if ownBetween > 0 {
		between = stayBetween / ownBetween
	}
	return all, between
}

// healthyTime is the seconds that a collective takes on a healthy way; 0 not known. Between hosts whose network no input tells that is one of adapters
// as fast as the GPUs' own links: a collective reaches an adapter through them.
func (p *Pass) healthyTime(card *Card, g *timeline.GPULedger, r *timeline.Reduced, c *timeline.Collective, oneHost bool) float64 {
	f, ok := linkTables(p.Input).BusFactor(c.Primitive, c.GroupSize)
	if !ok {
		return 0
	}
	moved := f * float64(c.Bytes)
	w := p.expected(card, g, r, c, oneHost)
	if w.rate <= 0 && !oneHost && p.Tables != nil {
		link, _, why := p.hostLink(card, g)
		if n := p.hostsOf(r, c); why == "" && n > 1 {
			w = modelled(&p.Tables.Links, "host", "", link*float64(max(1, c.GroupSize/n)), moved)
		}
	}
	if w.rate <= 0 {
		return 0
	}
	return moved / w.rate
}

// hostsOf counts the hosts that a collective's ranks lie on; 0 not known.
func (p *Pass) hostsOf(r *timeline.Reduced, c *timeline.Collective) int {
	for i := range p.Job.Groups {
		if q := &p.Job.Groups[i]; q.Name == c.Group && q.Size == c.GroupSize && len(q.Here) == q.Size && q.Hosts > 1 && slices.Contains(q.Ranks, r.Process.Rank) {
			return q.Hosts
		}
	}
	if l := p.ncclLog(); c.GroupSize == len(l.of) {
		return len(l.hosts)
	}
	return 0
}
