package engine

import (
	"fmt"
	"strings"

	"gpureport/rules/facts"
)

var stageTitles = map[string]string{"step": "Is the step time stable", "idle": "Compute or gaps", "data": "Loader and copies",
	"kernel": "Kernel efficiency", "comm": "Collectives", "shape": "Batch, shapes, precision", "hw": "Hardware and host"}

// Markdown describes every rule and gate: the text of RULES.md.
func Markdown(rs *Rules) []byte {
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	w("# Rules\n\nEvery rule of the checklist, in the order of the report. Made by `go generate ./...` from `rules/checklist`; do not edit.\n")
	w("How a rule is written: [README.md](README.md). Facts: [FACTS.md](FACTS.md).\n\n")
	w("| rule | asks | per | class | confidence |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range rs.List {
		w("| [`%s`](#%s) | %s | %s | %s | %s |\n", r.ID, anchor(r.ID), cell(r.Title), r.Per, r.Class, r.Confidence)
	}
	for i, stage := range Stages {
		w("\n## Stage %d: %s\n", i+1, stageTitles[stage])
		n := 0
		for _, r := range rs.List {
			if r.Stage == stage {
				rs.ruleMarkdown(w, r)
				n++
			}
		}
		if n == 0 {
			w("\nNo rule.\n")
		}
	}
	w("\n## Gates\n\nThe do-not rules. Advice that names one is withheld unless the gate is known to be open.\n\n")
	w("| gate | blocks | opens if | because |\n| --- | --- | --- | --- |\n")
	for _, g := range rs.Gates {
		w("| %s | %s | %s | %s |\n", g.ID, cell(g.Title), cell(g.opens()), cell(g.Why))
	}
	return []byte(b.String())
}

// MarkdownRule describes one rule.
func MarkdownRule(rs *Rules, r *Rule) []byte {
	var b strings.Builder
	rs.ruleMarkdown(func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }, r)
	return []byte(strings.TrimPrefix(b.String(), "\n"))
}

func (rs *Rules) ruleMarkdown(w func(string, ...any), r *Rule) {
	w("\n### %s\n\n%s. Per %s, %s", r.ID, strings.TrimSuffix(r.Title, "."), r.Per, r.Confidence)
	if r.Class != "" {
		w(", counts for `%s`", r.Class)
	}
	w(".\n\n")
	if r.When != nil {
		w("- asked when `%s`\n", oneLine(r.When.Text))
	}
	w("- finding if `%s`\n", oneLine(r.FindingIf.Text))
	for _, l := range r.Limits {
		w("- `%s` = %s (%s)\n", l.Name, l.Stated, l.Source)
	}
	if r.Saving != nil {
		w("- saving at most `%s`\n", oneLine(r.Saving.Text))
	}
	if r.Severity != NoSeverity {
		w("- severity %s", r.Severity)
		if r.Saving != nil && r.Severity != Critical {
			w(" where no saving can be computed")
		}
		w("\n")
	}
	if len(r.Covers) > 0 {
		w("- claims the time of %s\n", strings.Join(r.Covers, ", "))
	}
	if len(r.Overlaps) > 0 {
		w("- same time as %s\n", strings.Join(r.Overlaps, ", "))
	}
	w("- says: %s\n", oneLine(r.Says))
	if r.SaysNot != "" {
		w("- not asked: %s\n", oneLine(r.SaysNot))
	}
	if r.LooksLike != "" {
		w("- looks the same: %s\n", oneLine(r.LooksLike))
	}
	for _, d := range r.Do {
		w("- do: %s%s", oneLine(d.Say), ifAny(" (gate ", d.Gates, ")"))
		for _, x := range d.Where {
			w(" (where `%s` is %s)", x.Fact, strings.Join(x.Is, " or "))
		}
		for i, id := range d.Lacks {
			w("%s`%s`%s", map[bool]string{true: " (without ", false: " or "}[i == 0], id, map[bool]string{true: ")"}[i == len(d.Lacks)-1])
		}
		w("\n")
	}
	for _, d := range r.Dont {
		w("- do not: %s\n", oneLine(d))
	}
	var captures []string
	for _, id := range r.facts {
		if c := rs.decls[id].Capture; !known(captures, c) {
			captures = append(captures, c)
		}
	}
	for i, id := range captures {
		if rec, ok := facts.RecipeOf(id); ok {
			captures[i] = id + " (" + rec.Title + ")"
		}
	}
	w("- recorded by: %s\n", strings.Join(captures, ", "))
}

func (g *Gate) opens() string {
	if g.Never {
		return "never"
	}
	if g.Cap {
		return "no advice names it; it caps totals"
	}
	var out []string
	if g.AllowIf != nil {
		s := "`" + oneLine(g.AllowIf.Text) + "`"
		for _, l := range g.Limits {
			s += fmt.Sprintf(", `%s` = %s", l.Name, l.Stated)
		}
		out = append(out, s)
	}
	if len(g.NeedsFired) > 0 {
		out = append(out, "found: "+strings.Join(g.NeedsFired, ", "))
	}
	if len(g.NeedsAny) > 0 {
		out = append(out, "found one of: "+strings.Join(g.NeedsAny, ", "))
	}
	if len(g.NeedsSilent) > 0 {
		out = append(out, "answered and not found: "+strings.Join(g.NeedsSilent, ", "))
	}
	if g.Measured {
		out = append(out, "all of it measured")
	}
	return strings.Join(out, "; ")
}

func ifAny(before string, list []string, after string) string {
	if len(list) == 0 {
		return ""
	}
	return before + strings.Join(list, ", ") + after
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func cell(s string) string { return strings.ReplaceAll(oneLine(s), "|", `\|`) }

// anchor is what a heading of this text is called in a link.
func anchor(s string) string { return strings.ReplaceAll(s, ".", "") }
