package engine

import (
	"sort"

	"gpureport/rules/facts"
)

// sameTime tells whether two rules' savings claim the same time where their subjects meet.
func sameTime(a, b *Rule) bool {
	if a.ID == b.ID || known(a.Overlaps, b.ID) || known(b.Overlaps, a.ID) {
		return true
	}
	for _, o := range a.Covers {
		if known(b.Covers, o) {
			return true
		}
	}
	return false
}

// overlaps fills Overlaps of the findings that have a saving: those on the same subject, or on one that holds the other.
func (rs *Rules) overlaps(set *facts.Set, checks []Check, subs []int) {
	at := map[int][]int{} // subject -> findings
	for i := range checks {
		if checks[i].Outcome == Finding && checks[i].Saving != nil {
			at[subs[i]] = append(at[subs[i]], i)
		}
	}
	place := map[string]int{}
	for i, r := range rs.List {
		place[r.ID] = i
	}
	add := func(i, j int) {
		id := checks[j].Rule.ID
		if !known(checks[i].Overlaps, id) {
			checks[i].Overlaps = append(checks[i].Overlaps, id)
		}
	}
	for i := range checks {
		if checks[i].Outcome != Finding || checks[i].Saving == nil {
			continue
		}
		for sub := subs[i]; sub >= 0; sub = set.Subjects[sub].Up {
			for _, j := range at[sub] {
				if i != j && checks[i].Rule != checks[j].Rule && sameTime(checks[i].Rule, checks[j].Rule) {
					add(i, j)
					add(j, i)
				}
			}
		}
	}
	in := InputOf(set)
	cause := in.cause(checks)
	for i := range checks {
		if late := &checks[i]; late.Outcome == Finding && late.Saving != nil && tellsLateness(late.Rule, checks) {
			for j := range checks {
				if c := &checks[j]; i != j && c.Outcome == Finding && c.Saving != nil && in.ofLateRank(c, cause) {
					add(i, j)
					add(j, i)
				}
			}
		}
	}
	for i := range checks {
		ids := checks[i].Overlaps
		sort.Slice(ids, func(a, b int) bool { return place[ids[a]] < place[ids[b]] })
	}
}

// tellsLateness tells whether a rule's saving is what a late rank costs: by its class, or as that of a rule of that class, where it counts for none.
func tellsLateness(r *Rule, checks []Check) bool {
	if r.Class != "" {
		return r.Class == Straggler
	}
	for i := range checks {
		if o := checks[i].Rule; o.Class == Straggler && (known(r.Overlaps, o.ID) || known(o.Overlaps, r.ID)) {
			return true
		}
	}
	return false
}

// ofLateRank tells whether a finding on the late rank is of what makes it late: its saving is then the same time as what the others wait. A card that
// runs slower does so in its kernels too.
func (in *VerdictInput) ofLateRank(c *Check, cause string) bool {
	if in.Culprit < 0 || c.Subject.Kind < facts.Rank || c.Subject.Rank != in.Culprit {
		return false
	}
	return c.Rule.Class != "" && (c.Rule.Class == cause || cause == Hardware && c.Rule.Class == ComputeInefficient)
}

// mended are the rules that found nothing but what makes the late rank late, where its lateness is a finding too: who mends that has mended these.
func (in *VerdictInput) mended(checks []Check, cause string) map[string]bool {
	out := map[string]bool{}
	lateness := false
	for i := range checks {
		if c := &checks[i]; c.Outcome == Finding {
			lateness = lateness || c.Rule.Class == Straggler && c.Saving != nil
			if _, seen := out[c.Rule.ID]; !seen || !in.ofLateRank(c, cause) {
				out[c.Rule.ID] = in.ofLateRank(c, cause)
			}
		}
	}
	if !lateness {
		return map[string]bool{}
	}
	return out
}

// claim is a saving on one GPU.
type claim struct {
	check *Check
	value float64
}

// disjointSum is the largest sum of claims of which no two are the same time, and which they are: disjoint savings add,
// overlapping ones count once.
func disjointSum(cs []claim) (float64, []claim) {
	if len(cs) == 0 {
		return 0, nil
	}
	// The claim with the most overlaps is either out, or in and its overlaps out. Without overlaps all are in.
	most, at := 0, -1
	for i := range cs {
		n := 0
		for j := range cs {
			if i != j && sameTime(cs[i].check.Rule, cs[j].check.Rule) {
				n++
			}
		}
		if n > most {
			most, at = n, i
		}
	}
	if at < 0 {
		sum := 0.0
		for _, c := range cs {
			sum += c.value
		}
		return sum, cs
	}
	var without, rest []claim
	for i, c := range cs {
		if i != at {
			without = append(without, c)
			if !sameTime(cs[at].check.Rule, c.check.Rule) {
				rest = append(rest, c)
			}
		}
	}
	out, outList := disjointSum(without)
	in, inList := disjointSum(rest)
	if in += cs[at].value; in >= out {
		return in, append([]claim{cs[at]}, inList...)
	}
	return out, outList
}
