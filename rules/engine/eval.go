package engine

import (
	"math"

	"gpureport/rules/facts"
)

// Confidences, by their names in package facts; the type's own package is none a rule may know.
const (
	confHint facts.Confidence = 1 + iota
	confInferred
	confMeasured
)

// maxRefs is how many rows a check keeps.
const maxRefs = 8

// Evaluate asks every rule of every subject of its kind: in checklist order, then by subject. A rule that has no subject is
// unknown of the run.
func (rs *Rules) Evaluate(set *facts.Set) []Check {
	var out []Check
	var subs []int
	for _, r := range rs.List {
		of := set.Of(r.Per)
		for _, sub := range of {
			out = append(out, rs.check(r, view{set, sub}))
			subs = append(subs, sub)
		}
		if len(of) == 0 {
			c, sub := rs.subjectless(r, set)
			out = append(out, c)
			subs = append(subs, sub)
		}
	}
	gt := &gating{rs: rs, set: set, byRule: map[string][]placed{}, memo: map[gateAt]judgement{}}
	for i := range out {
		gt.byRule[out[i].Rule.ID] = append(gt.byRule[out[i].Rule.ID], placed{subs[i], &out[i]})
	}
	for i := range out {
		if out[i].Outcome == Finding {
			gt.advise(&out[i], subs[i])
		}
	}
	rs.overlaps(set, out, subs)
	return out
}

// subjectless is the check of a rule whose kind of subject is not in the input.
func (rs *Rules) subjectless(r *Rule, set *facts.Set) (Check, int) {
	c := Check{Rule: r, Subject: facts.Subject{Kind: facts.Run, ID: "run", Rank: -1, Up: -1}, Confidence: r.Confidence}
	sub := -1
	if runs := set.Of(facts.Run); len(runs) > 0 {
		sub = runs[0]
		c.Subject = set.Subjects[sub]
	}
	for _, id := range r.FindingIf.Facts() {
		if d := rs.decls[id]; d.Per == r.Per {
			c.Missing = append(c.Missing, set.NoSubject(d, r.Per))
		}
	}
	if len(c.Missing) == 0 {
		c.Missing = []facts.Need{set.NoSubject(rs.decls[r.facts[0]], r.Per)}
	}
	c.Says = unanswered(c.Missing)
	return c, sub
}

// check asks one rule of one subject. Gates and overlaps need the other checks and come later.
func (rs *Rules) check(r *Rule, v view) Check {
	c := Check{Rule: r, Subject: v.set.Subjects[v.sub], Confidence: r.Confidence}
	if c.Subject.Unused != "" && r.Stage != "hw" {
		return c.unused()
	}
	asked := yes
	var whenClauses []Clause
	var whenNeeds []facts.Need
	var used []facts.ID
	if r.When != nil {
		asked, whenClauses, whenNeeds = r.When.eval(v)
		used = r.When.Facts()
	}
	if asked == no {
		c.Outcome, c.Clauses = NotAsked, whenClauses
		if c.Says = rs.fill(r.saysNot, r, v); c.Says == "" {
			c.Says = "Not asked: " + rs.describe(r.When, no, v)
		}
	} else {
		if asked == yes {
			used = nil // they decided that it is asked, not what came of it
		}
		t, clauses, needs := r.FindingIf.eval(v)
		for _, id := range r.FindingIf.Facts() {
			used = addID(used, id)
		}
		c.Clauses = clauses
		if asked == unknownTruth {
			t = unknownTruth
			c.Clauses = append(whenClauses, clauses...)
			needs = addNeeds(whenNeeds, needs)
		}
		c.Outcome = t.outcome()
		switch c.Outcome {
		case Unknown:
			if c.Subject.Unused != "" {
				return c.unused()
			}
			c.Missing = needs
			c.Says = unanswered(needs)
		case Pass:
			if c.Says = rs.fill(r.saysPass, r, v); c.Says == "" {
				c.Says = rs.describe(r.FindingIf, no, v)
			}
		case Finding:
			used = c.finding(used, v)
			c.Says = rs.fill(r.says, r, v)
			c.Dont = r.Dont
		}
	}
	c.evidence(used, v)
	if c.Outcome == Finding && c.Confidence == confHint {
		c.Severity = Info
	}
	for _, id := range r.facts {
		if val, need := v.get(id); need == nil {
			c.Numbers = append(c.Numbers, Number{id, val})
		}
	}
	return c
}

// unused is the check on a GPU that takes no part in the run.
func (c *Check) unused() Check {
	return Check{Rule: c.Rule, Subject: c.Subject, Confidence: c.Confidence, Outcome: NotAsked, Says: "Not asked: " + c.Subject.Unused}
}

// finding fills saving and severity, and adds the saving's facts to those used.
func (c *Check) finding(used []facts.ID, v view) []facts.ID {
	r := c.Rule
	c.Severity = Low // its cost is unknown, and the rule does not say how grave it is
	if r.Severity != NoSeverity {
		c.Severity = r.Severity
	}
	if r.Saving == nil {
		return used
	}
	x, why := r.Saving.root.eval(v)
	if why != "" {
		return used
	}
	x = math.Max(0, math.Min(1, x))
	c.Saving = &x
	if r.Severity != Critical {
		c.Severity = Band(x)
	}
	for _, id := range r.Saving.Facts() {
		used = addID(used, id)
	}
	return used
}

// Band is the severity of a recoverable share of step time.
func Band(share float64) Severity {
	switch {
	case share >= 0.20:
		return High
	case share >= 0.05:
		return Medium
	case share >= 0.03:
		return Low
	}
	return Info
}

// evidence fills the confidence and the rows from the facts used.
func (c *Check) evidence(used []facts.ID, v view) {
	seen := map[facts.Ref]bool{}
	for _, id := range used {
		val, need := v.get(id)
		if need != nil {
			continue
		}
		c.Confidence = min(c.Confidence, val.Conf)
		c.NRefs += val.NRefs
		for _, ref := range val.Refs {
			if !seen[ref] && len(c.Refs) < maxRefs {
				seen[ref] = true
				c.Refs = append(c.Refs, ref)
			}
		}
	}
}
