package engine

import (
	"cmp"
	"math"
	"slices"

	"gpureport/rules/facts"
)

// Facts that bound what a fix can return.
const (
	factBusy     facts.ID = "gpu.busy_frac"
	factHostBusy facts.ID = "rank.host_busy_frac"
	factNext     facts.ID = "rank.next_frac"
)

// WhatIf is what the step would be without the time that some findings hold: a ceiling, as fixes rarely return all of it.
type WhatIf struct {
	Fix    []string // rule ids in checklist order; no two claim the same time
	Same   []string // of one fix: other findings of the same time, in checklist order; mended with it
	Frac   float64  // of step time: the most that is returned
	Next   string   // ledger owner that holds most of what is left, of the rank that then sets the step; "compute", or "host" where its work is what is left
	Capped bool     // the findings' own savings come to more
	GPU    int      // subject whose ledger that is
}

const (
	maxFixes = 5     // how many fixes are looked at
	worthRow = 0.005 // of step time: less is no fix
)

// WhatIfs gives the largest fixes alone, each pair of the first three, and all of them. Findings of the same time are one fix, that of the
// largest; hints are none.
//
// A rank's own time is the step without what it waits for its peers. A fix takes what its findings save off it, but no more than leaves what
// the GPU computes, nor, where it closes gaps, what GPU and host are busy with: those would be the next to hold the step. Ranks that share collectives
// are as fast as the slowest of them; others are on their own, and the mean counts.
func WhatIfs(checks []Check, in VerdictInput, set *facts.Set) []WhatIf {
	if !in.HasLedger {
		return nil
	}
	m := model{in: in, set: set, at: in.findings(checks, confInferred), cause: in.cause(checks)}
	for _, g := range in.GPUs {
		m.shared = m.shared || m.num(g, factPeerWait) > 0 || m.num(g, ownerFact("comm.transfer")) > 0 || m.num(g, ownerFact("comm.undivided")) > 0
	}
	place, rules := map[string]int{}, map[string]*Rule{}
	var ids []string
	for i := range checks {
		c := &checks[i]
		if c.Outcome == Finding && c.Saving != nil && *c.Saving > 0 && c.Confidence >= confInferred && known(savingClasses, c.Rule.Class) && rules[c.Rule.ID] == nil {
			place[c.Rule.ID], rules[c.Rule.ID] = i, c.Rule
			ids = append(ids, c.Rule.ID)
		}
	}
	mended := m.in.mended(checks, m.cause)
	all := ids
	ids = nil
	for _, id := range all {
		if !mended[id] {
			ids = append(ids, id)
		}
	}
	alone := map[string]WhatIf{}
	for _, id := range ids {
		alone[id] = m.without(id)
	}
	// What the verdict says of the late rank first, then by size; of one size, the later one is more to the point: data says why, where idle only
	// notices.
	straggler := Decide(checks, in).Class == Straggler
	rank := func(id string) (first, percent float64) {
		if straggler && rules[id].Class == Straggler {
			first = 1
		}
		return first, math.Round(100 * alone[id].Frac)
	}
	slices.SortFunc(ids, func(a, b string) int {
		x, n := rank(a)
		y, m := rank(b)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(m, n), cmp.Compare(place[b], place[a]))
	})
	var picks []string
	for _, id := range ids {
		same := func(p string) bool { return m.same(rules[p], rules[id]) }
		if alone[id].Frac >= worthRow && len(picks) < maxFixes && !slices.ContainsFunc(picks, same) {
			picks = append(picks, id)
		}
	}
	var out []WhatIf
	for _, pick := range picks {
		w := alone[pick]
		for _, id := range all {
			if !known(picks, id) && (m.same(rules[pick], rules[id]) || mended[id] && rules[pick].Class == Straggler) {
				w.Same = append(w.Same, id)
			}
		}
		out = append(out, w)
	}
	sorted := func(fix ...string) []string {
		slices.SortFunc(fix, func(a, b string) int { return cmp.Compare(place[a], place[b]) })
		return fix
	}
	first := picks[:min(3, len(picks))]
	for i := range first {
		for j := i + 1; j < len(first); j++ {
			out = append(out, m.without(sorted(first[i], first[j])...))
		}
	}
	if len(picks) > 2 {
		out = append(out, m.without(sorted(slices.Clone(picks)...)...))
	}
	return out
}

// model is the run as its ledgers show it, to take time out of.
type model struct {
	in     VerdictInput
	set    *facts.Set
	at     map[int][]*Check // findings by subject
	cause  string
	shared bool // the ranks are held together by collectives
}

func (m *model) num(sub int, id facts.ID) float64 {
	v, need := m.set.Get(sub, id)
	if need != nil {
		return 0
	}
	return v.Num
}

// same tells whether two fixes are one: they claim the same time, or one mends the late rank and the other what makes it late.
func (m *model) same(a, b *Rule) bool {
	late := func(a, b *Rule) bool {
		return a.Class == Straggler && (b.Class == Straggler || m.in.Culprit >= 0 && b.Class == m.cause)
	}
	return sameTime(a, b) || late(a, b) || late(b, a)
}

// left is what a fix leaves of one GPU's step.
type left struct {
	frac   float64 // of the step before: the GPU's own time
	saved  float64 // off it
	capped bool
	host   bool               // its host's work is what is left
	owners map[string]float64 // what is left of each owner's share
}

// without takes what the findings of some rules save out of the ledgers.
func (m *model) without(fix ...string) WhatIf {
	out := WhatIf{Fix: fix, GPU: -1}
	var slow left // of the rank that then sets the step
	sum, most, straggler := 0.0, 0.0, 0.0
	n := float64(len(m.in.GPUs))
	for _, g := range m.in.GPUs {
		l, late := m.rest(g, fix)
		straggler = max(straggler, late)
		most = max(most, l.saved)
		sum += l.saved / n
		out.Capped = out.Capped || l.capped
		if out.GPU < 0 || l.frac > slow.frac+tie {
			slow, out.GPU = l, g
		}
	}
	if !m.shared {
		out.Frac = sum
	} else {
		out.Frac = max(0, 1-slow.frac)
		if limit := most + straggler; out.Frac > limit {
			out.Frac = limit
		} else if out.Frac < limit-worthRow { // peers differ a little
			out.Capped = true
		}
	}
	out.Next = m.next(slow, 1-out.Frac, straggler > 0)
	return out
}

// rest takes the savings off one GPU's own time; late is by how much a late rank would come earlier.
func (m *model) rest(g int, fix []string) (l left, late float64) {
	in := &m.in
	wait := 0.0
	if m.shared {
		wait = in.PeerWait[g]
	}
	var cl []claim
	for sub := g; sub >= 0; sub = in.Subjects[sub].Up {
		for _, c := range m.at[sub] {
			if !known(fix, c.Rule.ID) || !known(savingClasses, c.Rule.Class) {
				continue
			}
			if c.Rule.Class == Straggler {
				late = max(late, *c.Saving)
			} else {
				cl = append(cl, claim{c, *c.Saving})
			}
		}
	}
	compute := m.num(g, factCompute)
	l.owners = map[string]float64{}
	for _, o := range owners {
		l.owners[o] = m.num(g, ownerFact(o))
	}
	if !m.shared {
		l.owners["comm.peer-wait"] = 0
	}
	if late > 0 && in.Culprit >= 0 && in.Subjects[g].Rank != in.Culprit {
		// Transfers that the late rank brought to light hide again.
		if gone := min(late, m.held(g)-m.culpritHeld()); gone > wait {
			take(l.owners, gone-wait, []string{"comm.transfer", "comm.undivided"})
			wait = gone
		}
	}
	_, chosen := disjointSum(cl)
	gaps, free, kernels, relief := 0.0, 0.0, 0.0, 0.0
	for _, c := range chosen {
		switch class := c.check.Rule.Class; {
		case class == DataPipeline:
			gaps += c.value
			relief = max(relief, m.num(g, factNext))
		case class == HostBound:
			gaps += c.value
			if !known(c.check.Rule.Covers, "host.sync") { // the host's own work holds no waits
				relief += c.value
			}
		case in.cap(class, m.cause) == 1:
			kernels += c.value
		default:
			free += c.value
		}
		take(l.owners, c.value, covers(c.check.Rule))
	}
	// What closes a gap leaves what GPU and host have to do in the step.
	if gaps > 0 {
		host := m.num(g, factHostBusy) - relief
		if room := max(0, 1-max(m.num(g, factBusy), host)); gaps > room+tie {
			l.capped, l.host = true, host > m.num(g, factBusy)
			gaps = room
		}
	}
	if room := max(0, 1-compute-wait); gaps+free > room+tie {
		l.capped = true
		free = room - gaps
	}
	l.saved = min(gaps+free+kernels, 1-wait)
	l.frac = 1 - wait - l.saved
	if late == 0 {
		return l, 0
	}
	switch {
	case in.Culprit < 0: // now one, now another: what each waits on average is what each is late
		l.frac = min(l.frac, 1-late-l.saved)
	case in.Subjects[g].Rank == in.Culprit:
		floor := 0.0
		if in.cap(Straggler, m.cause) < 1 {
			floor = compute
		}
		l.frac = max(floor, l.frac-late)
		take(l.owners, late, covers(&Rule{Class: m.cause}))
	}
	l.owners["comm.peer-wait"] = 0
	return l, late
}

// held is a GPU's time in collectives that nothing hides.
func (m *model) held(g int) float64 {
	return m.in.PeerWait[g] + m.num(g, ownerFact("comm.transfer")) + m.num(g, ownerFact("comm.undivided"))
}

// culpritHeld is the late rank's.
func (m *model) culpritHeld() float64 {
	least := 1.0
	for _, g := range m.in.GPUs {
		if m.in.Subjects[g].Rank == m.in.Culprit {
			least = min(least, m.held(g))
		}
	}
	return least
}

// covers are the owners whose time a rule's saving is.
func covers(r *Rule) []string {
	if len(r.Covers) > 0 {
		return r.Covers
	}
	for _, f := range families {
		if f.class == r.Class {
			return f.owners
		}
	}
	return []string{"compute"}
}

// take lowers owners by x in all.
func take(owners map[string]float64, x float64, from []string) {
	for _, o := range from {
		part := min(x, owners[o])
		owners[o] -= part
		x -= part
	}
}

// next is the owner that holds most of what is left beside computing, if that is worth a look; a rank that nobody waits for waits for nobody.
func (m *model) next(l left, step float64, mended bool) string {
	if l.host {
		return "host"
	}
	best := ""
	for _, o := range owners {
		if o == "compute" || o == "comm.peer-wait" && (mended || m.in.Culprit >= 0) {
			continue
		}
		if l.owners[o] > l.owners[best]+tie {
			best = o
		}
	}
	if best == "" || l.owners[best] < verdictFloor*step-tie {
		return "compute"
	}
	return best
}
