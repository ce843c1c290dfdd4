package render

import (
	"fmt"
	"io"
	"strings"
)

// alikeFindings is how many GPUs a rule may have found something on for each to get its line.
const alikeFindings = 4

// WriteMarkdown writes report.md, a ticket's body: verdict, cost, findings, what to do, what was not seen.
func WriteMarkdown(w io.Writer, r *Report) error {
	var b strings.Builder
	v := &r.Verdict
	fmt.Fprintf(&b, "# %s\n\n", md(v.Sentence))
	fmt.Fprintf(&b, "Verdict: **%s**", v.Class)
	if v.Cause != nil {
		fmt.Fprintf(&b, ", cause **%s**", *v.Cause)
	}
	if v.CulpritRank != nil {
		fmt.Fprintf(&b, ", rank %d", *v.CulpritRank)
	}
	fmt.Fprintf(&b, " (%s). %s\n\n", v.Confidence, md(v.Lead))
	fmt.Fprintf(&b, "%s. %s\n\n", md(r.Title), md(strings.Join(headerFacts(r), ", ")))
	if v.RecoverableFrac != nil {
		step, _ := r.meanStep()
		fmt.Fprintf(&b, "At most %s of the run can return (%s of %s).\n\n", Pct(*v.RecoverableFrac), Dur(*v.RecoverableFrac*step, 2), Dur(step, 3))
	}
	if len(r.Ledger) > 0 {
		b.WriteString("| GPU | " + "largest owners of its time |\n| --- | --- |\n")
		rows, others := drawn(r) // of many, those to blame, the extremes and a typical one
		for _, i := range rows {
			fmt.Fprintf(&b, "| %s | %s |\n", md(gpuLabel(r, r.Ledger[i].GPU)), md(ownerLine(r, &r.Ledger[i])))
		}
		if len(others) > 0 {
			mean := meanRow(r, others)
			fmt.Fprintf(&b, "| %s | %s |\n", md(othersName(len(others))), md(ownerLine(r, &mean)))
		}
		b.WriteString("\n")
	}
	idx := findingsBySaving(r)
	same := sameTime(r)
	if len(idx) > 0 {
		b.WriteString("## Findings\n\n| severity | check | on | says | at most | confidence |\n| --- | --- | --- | --- | --- | --- |\n")
		of := map[string]int{}
		for _, i := range idx {
			of[r.Checks[i].ID]++
		}
		told := map[string]int{}
		rows, left := 0, 0
		for _, i := range idx {
			c := &r.Checks[i]
			on := subjectLabel(r, c)
			if told[c.ID]++; of[c.ID] > alikeFindings { // the first is the worst
				if told[c.ID] > 1 {
					continue
				}
				on = fmt.Sprintf("%s and %d more", on, of[c.ID]-1)
			}
			if rows == 40 {
				left++
				continue
			}
			rows++
			s := "unknown"
			if c.RecoverableFrac != nil {
				s = Pct(*c.RecoverableFrac)
				if same[i] {
					s = "same " + s
				}
			}
			conf := ""
			if c.Confidence != nil {
				conf = *c.Confidence
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s |\n", severity(c), c.ID, md(on), md(c.Says), s, conf)
		}
		if left > 0 {
			fmt.Fprintf(&b, "\n%d more in the report.\n", left)
		}
		b.WriteString("\n")
	}
	if len(r.WhatIf) > 0 {
		b.WriteString("## What if\n\n| | without | step at least | returns at most | then the most is |\n| --- | --- | --- | --- | --- |\n")
		for i := range r.WhatIf {
			w := &r.WhatIf[i]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", FixName(r, w), md(FixText(r, w)), Dur(float64(w.StepAfterNS), 3), Pct(w.SavingFrac), md(LimiterWord(w)))
		}
		b.WriteString("\n")
	}
	if len(v.Do)+len(v.Dont) > 0 {
		b.WriteString("## Next\n\n")
		for _, s := range v.Do {
			fmt.Fprintf(&b, "- %s\n", md(s))
		}
		for _, s := range v.Dont {
			fmt.Fprintf(&b, "- Do not: %s\n", md(s))
		}
		b.WriteString("\n")
	}
	n := 0
	rules := ruleOutcomes(r)
	for _, o := range rules {
		if o.Outcome == "unknown" {
			n++
		}
	}
	fmt.Fprintf(&b, "## Not seen\n\n%d of %d checks are unknown: nobody looked, so they are not passed.\n\n", n, len(rules))
	for i, c := range r.CapturePlan {
		fmt.Fprintf(&b, "%d. %s (%s; answers %d). %s\n\n```\n%s\n```\n\n", i+1, md(c.Title), md(c.Where), len(c.Answers), md(c.Note), strings.ReplaceAll(c.Command, "```", "'''"))
	}
	fmt.Fprintf(&b, "## Inputs\n\n")
	for i := range r.Inputs {
		in := &r.Inputs[i]
		if i == 40 {
			fmt.Fprintf(&b, "- %d more\n", len(r.Inputs)-i)
			break
		}
		used := ""
		if !in.Used {
			used = ", not used"
		}
		fmt.Fprintf(&b, "- %s: %s, %s%s\n", md(in.Path), in.Format, Bytes(float64(in.Bytes)), used)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// md makes a text from a file harmless in Markdown: no markup, no HTML, one line.
func md(s string) string {
	s = clean2(s)
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "|", `\|`, "#", `\#`, "!", `\!`).Replace(s)
}

func clean2(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }
