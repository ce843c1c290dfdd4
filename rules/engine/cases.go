package engine

import (
	"fmt"
	"math"

	"gopkg.in/yaml.v3"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
)

// readCases reads the rule's own tests.
func readCases(f *fields, s *scope) []Case {
	var out []Case
	for _, n := range f.list("cases") {
		g := f.d.fields(n, "a case", "facts", "want", "saving", "severity")
		if g == nil {
			continue
		}
		c := Case{Line: n.Line, Facts: caseFacts(g, s)}
		want := g.mustStr("want")
		ok := false
		for o := Unknown; o <= Finding; o++ {
			if o.String() == want {
				c.Want, ok = o, true
			}
		}
		if want != "" && !ok {
			f.d.at(g.by["want"], "unknown outcome %s: write finding, pass, unknown or not-asked", want)
		}
		if v := g.by["saving"]; v != nil {
			if x, ok := f.d.number(v, "saving"); ok {
				c.Saving = &x
			}
		}
		if t := g.str("severity"); t != "" {
			for i, name := range severities {
				if name == t {
					c.Severity = Info + Severity(i)
				}
			}
			if c.Severity == NoSeverity {
				f.d.at(g.by["severity"], "unknown severity %s", t)
			}
		}
		out = append(out, c)
	}
	return out
}

// caseFacts reads fact: value, in base units and inside the legal range.
func caseFacts(g *fields, s *scope) []CaseFact {
	n := g.need("facts")
	if n == nil {
		return nil
	}
	d := g.d
	if n.Kind != yaml.MappingNode {
		d.at(n, "facts is %s, not a mapping: write {gpu.idle_frac: 0.3}, or {} for none", kindOf(n))
		return nil
	}
	var out []CaseFact
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		decl, msg := s.see(facts.ID(k.Value))
		if msg != "" {
			d.at(k, "%s", msg)
			continue
		}
		for _, have := range out {
			if have.ID == decl.ID {
				d.at(k, "fact %s stands twice: keep one", k.Value)
			}
		}
		val := facts.Value{Cover: 1, Conf: confMeasured}
		switch {
		case decl.Unit == unit.Text:
			val.Text = d.text(v, k.Value)
		case decl.Unit == unit.Flag && v.ShortTag() == "!!bool":
			if v.Value == "true" {
				val.Num = 1
			}
		default:
			x, ok := d.number(v, k.Value)
			if ok && (x < decl.Min || x > decl.Max) {
				d.at(v, "%s is %v, outside its range %v to %v: facts are in base units (%s)", k.Value, x, decl.Min, decl.Max, decl.Unit)
			}
			val.Num = x
		}
		out = append(out, CaseFact{decl.ID, val})
	}
	return out
}

// Failure is a rule that does not do what its cases say.
type Failure struct {
	Rule string
	Path string
	Line int // of the case; 0 the rule as a whole
	Msg  string
}

func (f Failure) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Msg
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Msg)
}

// Test runs the cases of every rule. Each rule needs a finding, a pass and an unknown; one with when a not-asked as well.
func Test(rs *Rules) []Failure {
	var out []Failure
	for _, r := range rs.List {
		out = append(out, rs.testRule(r)...)
	}
	return out
}

func (rs *Rules) testRule(r *Rule) []Failure {
	var out []Failure
	fail := func(line int, format string, args ...any) {
		out = append(out, Failure{r.ID, r.Path, line, fmt.Sprintf(format, args...)})
	}
	need := []Outcome{Finding, Pass, Unknown}
	if r.When != nil {
		need = append(need, NotAsked)
	}
	for _, o := range need {
		found := false
		for _, c := range r.Cases {
			found = found || c.Want == o
		}
		if !found {
			fail(0, "no case wants %s: add one", o)
		}
	}
	for _, c := range r.Cases {
		got := rs.runCase(r, c)
		switch {
		case got.Outcome != c.Want:
			fail(c.Line, "got %s, want %s: %s", got.Outcome, c.Want, got.Says)
		case c.Saving != nil && (got.Saving == nil || math.Abs(*got.Saving-*c.Saving) > 5e-4):
			fail(c.Line, "got saving %s, want %v", savingWords(got.Saving), *c.Saving)
		case c.Severity != NoSeverity && got.Severity != c.Severity:
			fail(c.Line, "got severity %s, want %s", got.Severity, c.Severity)
		}
	}
	return out
}

func savingWords(s *float64) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprint(*s)
}

// runCase evaluates a rule on one run of one host, rank and GPU that has the case's facts and no others.
func (rs *Rules) runCase(r *Rule, c Case) Check {
	set := facts.NewSet(caseSubjects, rs.Decls)
	for _, f := range c.Facts {
		set.Put(int(rs.decls[f.ID].Per), f.ID, f.Value)
	}
	return rs.check(r, view{set, int(r.Per)})
}

// caseSubjects stand at the index of their kind.
var caseSubjects = []facts.Subject{
	{Kind: facts.Run, ID: "run", Rank: -1, Up: -1},
	{Kind: facts.Host, ID: "host0", Rank: -1, Up: 0},
	{Kind: facts.Rank, ID: "rank0", Rank: 0, Up: 1},
	{Kind: facts.GPU, ID: "gpu0", Rank: 0, Up: 2},
}
