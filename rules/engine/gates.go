package engine

import (
	"fmt"
	"io/fs"
	"strings"

	"gopkg.in/yaml.v3"

	"gpureport/rules/facts"
)

// Gate is a do-not rule: it withholds advice unless what it asks for is known to hold.
type Gate struct {
	ID          string
	Title       string // the advice it blocks
	AllowIf     *Cond  // nil: true
	Limits      []Limit
	NeedsFired  []string // rules that must have found something where the advice applies
	NeedsAny    []string // of these one must have
	NeedsSilent []string // rules that must not have, and must have been answered
	Measured    bool     // what it rests on must be measured
	Never       bool     // it never opens
	Cap         bool     // it bounds sums of savings and gates no advice
	Adds        string   // what the advice must state when it is let through
	Why         string   // why the advice is blocked
	Capture     string   // recipe id that would open it; "" none
}

// gates reads gates.yaml.
func (ld *loader) gates(fsys fs.FS) {
	data, err := fs.ReadFile(fsys, gatesFile)
	if err != nil {
		*ld.errs = append(*ld.errs, &Error{gatesFile, 0, 0, err.Error()})
		return
	}
	d, root := openDoc(gatesFile, data, ld.errs)
	if root == nil {
		return
	}
	if root.Kind != yaml.SequenceNode {
		d.at(root, "the gates are %s, not a list: write - id: G1 ...", kindOf(root))
		return
	}
	for _, n := range root.Content {
		f := d.fields(n, "the gate", "id", "title", "allow_if", "limits", "needs_fired", "needs_any", "needs_silent", "measured", "never", "cap",
			"adds", "why", "capture")
		if f == nil {
			continue
		}
		g := &Gate{ID: f.mustStr("id"), Title: f.mustStr("title"), Why: f.mustStr("why"), Adds: f.str("adds"), Capture: f.str("capture"),
			Measured: f.flag("measured"), Never: f.flag("never"), Cap: f.flag("cap")}
		g.Limits = readLimits(f)
		s := &scope{per: facts.GPU, decls: ld.rs.decls, names: ld.names, limits: g.Limits, used: map[string]bool{}}
		if f.by["allow_if"] != nil {
			g.AllowIf = s.cond(f, "allow_if")
		}
		for key, list := range map[string]*[]string{"needs_fired": &g.NeedsFired, "needs_any": &g.NeedsAny, "needs_silent": &g.NeedsSilent} {
			for _, it := range f.strs(key) {
				if !idForm.MatchString(it.s) {
					d.at(it.n, "%q is no rule id: write stage.name", it.s)
				}
				*list = append(*list, it.s)
			}
		}
		if _, ok := facts.RecipeOf(g.Capture); g.Capture != "" && !ok {
			d.at(f.by["capture"], "unknown capture %s: write C1 to %s", g.Capture, lastRecipe())
		}
		asks := f.by["allow_if"] != nil || len(g.NeedsFired)+len(g.NeedsAny)+len(g.NeedsSilent) > 0
		if asks == (g.Never || g.Cap) {
			d.at(n, "gate %s: write either what opens it (allow_if, needs_...), or never: true, or cap: true", g.ID)
		}
		if ld.rs.Gate(g.ID) != nil {
			d.at(n, "gate %s stands twice: keep one", g.ID)
			continue
		}
		ld.rs.Gates = append(ld.rs.Gates, g)
	}
}

// lastRecipe is the id of the last capture recipe, for errors.
func lastRecipe() string { return facts.Recipes[len(facts.Recipes)-1].ID }

// gating judges gates from finished checks.
type gating struct {
	rs     *Rules
	set    *facts.Set
	byRule map[string][]placed
	memo   map[gateAt]judgement
}

// placed is a check with the index of its subject.
type placed struct {
	sub   int
	check *Check
}

type gateAt struct {
	gate string
	sub  int
}

// judgement says whether a gate is open for a subject, and if not why.
type judgement struct {
	t       truth
	why     string
	capture string
}

// judge tells whether advice on subject sub passes gate g.
func (gt *gating) judge(g *Gate, sub int) judgement {
	key := gateAt{g.ID, sub}
	if j, ok := gt.memo[key]; ok {
		return j
	}
	j := gt.decide(g, sub)
	gt.memo[key] = j
	return j
}

func (gt *gating) decide(g *Gate, sub int) judgement {
	if g.Never {
		return judgement{t: no, why: g.Why}
	}
	parts := []judgement{}
	if g.AllowIf != nil {
		parts = append(parts, gt.condition(g, sub))
	}
	for _, id := range g.NeedsFired {
		parts = append(parts, gt.fired(id, sub, g.Measured))
	}
	if len(g.NeedsAny) > 0 {
		any := judgement{t: no}
		for _, id := range g.NeedsAny {
			any = better(any, gt.fired(id, sub, g.Measured))
		}
		parts = append(parts, any)
	}
	for _, id := range g.NeedsSilent {
		j := gt.fired(id, sub, false)
		j.t = j.t.not()
		if j.t == no {
			j.why = id + " found something"
		}
		parts = append(parts, j)
	}
	// A closed part decides: no capture helps then. Otherwise the first unknown part does.
	out := judgement{t: yes}
	for _, p := range parts {
		if p.t == no {
			return judgement{t: no, why: g.Why}
		}
		if p.t == unknownTruth && out.t == yes {
			out = p
		}
	}
	if out.t == unknownTruth {
		out.why = g.Why + "; not known: " + out.why
		if out.capture == "" {
			out.capture = g.Capture
		}
	}
	return out
}

// better keeps the judgement nearer to true.
func better(a, b judgement) judgement {
	if a.t == yes || b.t == no || a.t == unknownTruth && b.t == unknownTruth {
		return a
	}
	return b
}

// condition judges allow_if where the advice applies: on the subject, or, for advice wider than what the condition asks about, on
// any of the subjects below it.
func (gt *gating) condition(g *Gate, sub int) judgement {
	deepest := facts.Run
	for _, id := range g.AllowIf.Facts() {
		deepest = max(deepest, gt.rs.decls[id].Per)
	}
	if gt.set.Subjects[sub].Kind >= deepest {
		return gt.conditionAt(g, sub)
	}
	out := judgement{t: unknownTruth, why: fmt.Sprintf("no %s is known", deepest)}
	first := true
	for _, below := range gt.set.Of(deepest) {
		if !gt.holds(sub, below) {
			continue
		}
		j := gt.conditionAt(g, below)
		if first {
			out, first = j, false
		} else {
			out = better(out, j)
		}
	}
	return out
}

func (gt *gating) conditionAt(g *Gate, sub int) judgement {
	v := view{gt.set, sub}
	t, _, needs := g.AllowIf.eval(v)
	j := judgement{t: t}
	switch {
	case t == unknownTruth && len(needs) > 0:
		j.why, j.capture = needs[0].Why, needs[0].Capture
	case t == yes && g.Measured && v.confidence(g.AllowIf.Facts()) < confMeasured:
		j = judgement{t: unknownTruth, why: "it is not measured, only " + v.confidence(g.AllowIf.Facts()).String()}
	}
	return j
}

// confidence is the lowest of the facts that are there.
func (v view) confidence(ids []facts.ID) facts.Confidence {
	c := confMeasured
	for _, id := range ids {
		if val, need := v.get(id); need == nil {
			c = min(c, val.Conf)
		}
	}
	return c
}

// holds tells whether subject up is sub or holds it.
func (gt *gating) holds(up, sub int) bool {
	for ; sub >= 0; sub = gt.set.Subjects[sub].Up {
		if sub == up {
			return true
		}
	}
	return false
}

// fired tells whether a rule found something on sub, on what holds it or on what it holds.
func (gt *gating) fired(id string, sub int, measured bool) judgement {
	out := judgement{t: unknownTruth, why: "not judged: this checklist has no rule " + id}
	first := true
	for _, p := range gt.byRule[id] {
		if !gt.holds(p.sub, sub) && !gt.holds(sub, p.sub) {
			continue
		}
		j := judgement{t: no, why: id + " found nothing"}
		switch p.check.Outcome {
		case Finding:
			j = judgement{t: yes}
			if measured && p.check.Confidence < confMeasured {
				j = judgement{t: unknownTruth, why: fmt.Sprintf("%s is not measured, only %s", id, p.check.Confidence)}
			}
		case Unknown:
			j = judgement{t: unknownTruth, why: id + " was not answered"}
			if len(p.check.Missing) > 0 {
				j.capture = p.check.Missing[0].Capture
			}
		}
		if first {
			out, first = j, false
		} else {
			out = better(out, j)
		}
	}
	return out
}

// advise fills Do and Withheld of a finding.
func (gt *gating) advise(c *Check, sub int) {
	for _, do := range c.Rule.Do {
		if !do.applies(view{gt.set, sub}) {
			continue
		}
		if c.Confidence == confHint && !do.records() {
			c.Withheld = append(c.Withheld, Withheld{Say: do.Say, Gate: "hint",
				Why: "what was seen is a hint; it asks for a capture and nothing else", Capture: c.Rule.settles()})
			continue
		}
		say := do.Say
		var closed *Withheld
		for _, id := range do.Gates {
			g := gt.rs.Gate(id)
			j := gt.judge(g, sub)
			switch {
			case j.t == yes && g.Adds != "":
				say += "; " + g.Adds
			case j.t == no && (closed == nil || closed.Capture != ""), j.t == unknownTruth && closed == nil:
				closed = &Withheld{Say: do.Say, Gate: id, Why: j.why}
				if j.t == unknownTruth {
					closed.Capture = j.capture
				}
			}
		}
		if closed != nil {
			c.Withheld = append(c.Withheld, *closed)
			continue
		}
		c.Do = append(c.Do, Advice{Say: say, Capture: do.Capture})
	}
	if c.Confidence == confHint && len(c.Do) == 0 {
		id := c.Rule.settles()
		recipe, _ := facts.RecipeOf(id)
		c.Do = []Advice{{Say: "record " + strings.TrimSpace(recipe.Title), Capture: id}}
	}
}

// applies tells whether the text facts are what the advice is for, where one that is missing reads unknown, and whether what it asks for is not there.
func (d *Do) applies(v view) bool {
	for _, w := range d.Where {
		val, need := v.get(w.Fact)
		if need != nil {
			val.Text = UnknownCause
		}
		if !known(w.Is, val.Text) {
			return false
		}
	}
	for _, id := range d.Lacks {
		if _, need := v.get(id); need != nil {
			return true
		}
	}
	return len(d.Lacks) == 0
}

// settles is the recipe that would make a hint more than one: the rule's own, else a trace of every rank.
func (r *Rule) settles() string {
	for _, do := range r.Do {
		if do.Capture != "" {
			return do.Capture
		}
	}
	return "C4"
}
