package engine

import (
	"fmt"
	"slices"
	"testing"

	"gpureport/ingest/unit"
	"gpureport/rules"
	"gpureport/rules/facts"
)

// A rule's cases must notice when the rule is changed: each limit moved up and down (by a quarter; one of whole things by one), each
// comparison turned round, each flag negated, each and and or exchanged, what a fix returns computed otherwise, another severity.
func TestCasesNoticeChanges(t *testing.T) {
	rs, err := Load(rules.FS, nil, facts.Decls())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range rs.List {
		for _, m := range mutants(r) {
			n++
			m.do()
			caught := len(rs.testRule(r)) > 0
			m.undo()
			if !caught {
				t.Errorf("%s: no case notices %s", r.Path, m.what)
			}
		}
		if f := rs.testRule(r); len(f) > 0 {
			t.Fatalf("a change was not undone: %v", f)
		}
	}
	t.Logf("%d changes of %d rules", n, len(rs.List))
}

// mutant is one change of a rule.
type mutant struct {
	what     string
	do, undo func()
}

func mutants(r *Rule) []mutant {
	var out []mutant
	nums := map[string][]*num{} // by limit
	gather := func(n *num) {
		if n != nil {
			walkNum(n, func(n *num) {
				if n.op == "limit" {
					nums[n.limit] = append(nums[n.limit], n)
				}
			})
		}
	}
	whole := map[string]bool{} // limits that stand alone on one side of a comparison of counts
	for _, c := range []*Cond{r.When, r.FindingIf} {
		if c == nil {
			continue
		}
		for _, l := range c.leaves {
			gather(l.left)
			gather(l.right)
			if l.op != "" && l.right.op == "limit" && l.left.op == "fact" && l.left.unit == unit.Count {
				whole[l.right.limit] = true
			}
			if turned := map[string]string{">": "<", ">=": "<", "<": ">", "<=": ">", "==": "!=", "!=": "=="}[l.op]; turned != "" {
				was := l.op
				out = append(out, mutant{fmt.Sprintf("%s with %s in place of %s", l.text, turned, was), func() { l.op = turned }, func() { l.op = was }})
			}
		}
		out = append(out, joins(c.root, c.Text)...)
	}
	if r.Saving != nil {
		gather(r.Saving.root)
		out = append(out, sums(r.Saving.root, r.Saving.Text)...)
	}
	for _, l := range r.Limits {
		set := func(v float64) {
			for _, n := range nums[l.Name] {
				n.value = v
			}
		}
		if len(nums[l.Name]) == 0 || l.Value == 0 {
			continue
		}
		for _, v := range moved(l.Value, whole[l.Name]) {
			out = append(out, mutant{fmt.Sprintf("the limit %s at %v in place of %v", l.Name, v, l.Value), func() { set(v) }, func() { set(l.Value) }})
		}
	}
	if was := r.Severity; was != NoSeverity && r.Confidence != confHint { // a hint is info whatever it says
		other := Info
		if was == Info {
			other = Medium
		}
		out = append(out, mutant{fmt.Sprintf("severity %s in place of %s", other, was), func() { r.Severity = other }, func() { r.Severity = was }})
	}
	return out
}

func moved(v float64, whole bool) []float64 {
	if whole && v == float64(int64(v)) {
		return []float64{v + 1, v - 1}
	}
	return []float64{v * 1.25, v * 0.8}
}

func joins(b *branch, text string) []mutant {
	var out []mutant
	if b.op == "" && b.leaf.op == "" {
		was := *b
		out = append(out, mutant{"not " + b.leaf.text, func() { *b = branch{op: "not", kids: []*branch{{leaf: was.leaf}}} }, func() { *b = was }})
	}
	if other := map[string]string{"and": "or", "or": "and"}[b.op]; other != "" {
		was := b.op
		out = append(out, mutant{fmt.Sprintf("an %s in place of an %s in %s", other, was, text), func() { b.op = other }, func() { b.op = was }})
	}
	for _, k := range slices.Clone(b.kids) {
		out = append(out, joins(k, text)...)
	}
	return out
}

// sums are the changes of arithmetic: each operation exchanged, each left out for one of its sides.
func sums(n *num, text string) []mutant {
	var out []mutant
	if other := map[string]string{"+": "-", "-": "+", "*": "/", "/": "*", "min": "max", "max": "min"}[n.op]; other != "" {
		was := *n
		out = append(out, mutant{fmt.Sprintf("%s in place of %s in the saving %s", other, was.op, text), func() { n.op = other }, func() { *n = was }})
		for _, k := range was.kids {
			out = append(out, mutant{fmt.Sprintf("%s alone in place of %s in the saving %s", k.text, was.op, text), func() { *n = *k }, func() { *n = was }})
		}
	}
	for _, k := range slices.Clone(n.kids) {
		out = append(out, sums(k, text)...)
	}
	return out
}

func walkNum(n *num, f func(*num)) {
	f(n)
	for _, k := range n.kids {
		walkNum(k, f)
	}
}
