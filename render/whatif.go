package render

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
)

// WhatIf is the step without what some findings hold: ceilings, of which those of more than one fix are no sums.
type WhatIf struct {
	Fix          []string `json:"fix"`  // rule ids in checklist order
	Same         []string `json:"same"` // of one fix: other findings of the same time, which count no more
	StepBeforeNS int64    `json:"step_before_ns"`
	StepAfterNS  int64    `json:"step_after_ns"` // at least
	SavingFrac   float64  `json:"saving_frac"`   // at most
	NextLimiter  string   `json:"next_limiter"`  // ledger owner, or host-bound where the host's own work is what is left
	GPU          string   `json:"gpu"`           // whose ledger that is: the GPU that then sets the step
	Rank         *int     `json:"rank"`
	Capped       bool     `json:"capped"` // the findings alone come to more: what is left of the step does not give it
}

// whatIfs says what the fixes would leave of a step, where there is a ledger that blames.
func (b *builder) whatIfs() {
	if b.in.Verdict.Class == engine.InsufficientEvidence {
		return
	}
	step, _ := b.r.meanStep()
	for _, w := range engine.WhatIfs(b.in.Checks, engine.InputOf(b.in.Facts), b.in.Facts) {
		row := WhatIf{Fix: w.Fix, Same: append([]string{}, w.Same...), StepBeforeNS: int64(math.Round(step)), StepAfterNS: int64(math.Round(step * (1 - w.Frac))), SavingFrac: w.Frac,
			NextLimiter: w.Next, Capped: w.Capped}
		if w.Next == "host" {
			row.NextLimiter = engine.HostBound
		}
		if w.GPU >= 0 {
			s := b.in.Facts.Subjects[w.GPU]
			row.GPU = s.ID
			if s.Rank >= 0 {
				row.Rank = &s.Rank
			}
		}
		b.r.WhatIf = append(b.r.WhatIf, row)
	}
}

// fixNames gives each rule that is fixed alone a letter, in order.
func fixNames(r *Report) map[string]string {
	out := map[string]string{}
	for i := range r.WhatIf {
		if w := &r.WhatIf[i]; len(w.Fix) == 1 {
			out[w.Fix[0]] = string(rune('A' + len(out)))
		}
	}
	return out
}

// FixName is "A", "A and B" or "A to D" for a row of what_if.
func FixName(r *Report, w *WhatIf) string {
	names := fixNames(r)
	n := len(w.Fix)
	if n > 2 && n == len(names) {
		return "A to " + string(rune('A'+n-1))
	}
	var l []string
	for _, id := range w.Fix {
		l = append(l, names[id])
	}
	slices.Sort(l)
	return strings.Join(l, " and ")
}

// FixText says what a row of what_if takes away.
func FixText(r *Report, w *WhatIf) string {
	switch {
	case len(w.Fix) == 2:
		return "both"
	case len(w.Fix) > 2:
		return "all together"
	}
	if c := r.check(w.Fix[0]); c != nil {
		return c.Title
	}
	return w.Fix[0]
}

// andList is "a, b and c".
func andList(l []string) string {
	if len(l) < 2 {
		return strings.Join(l, "")
	}
	return strings.Join(l[:len(l)-1], ", ") + " and " + l[len(l)-1]
}

func (r *Report) check(id string) *Check {
	for i := range r.Checks {
		if r.Checks[i].ID == id {
			return &r.Checks[i]
		}
	}
	return nil
}

// LimiterWord is a next limiter in words.
func LimiterWord(w *WhatIf) string {
	if o, ok := timeline.ParseOwner(w.NextLimiter); ok {
		return OwnerWord(o)
	}
	return "The host’s own work"
}

// whatIfTable is what the step would be without the largest findings.
func whatIfTable(r *Report) (Table, bool) {
	if len(r.WhatIf) == 0 {
		return Table{}, false
	}
	_, steps := r.meanStep()
	before := Dur(float64(r.WhatIf[0].StepBeforeNS), 3)
	what := "step"
	if !steps {
		what = "window"
	}
	t := Table{ID: "what-if", Title: "What if", Lead: fmt.Sprintf("How short a %s of %s could get at best, with the time of a finding gone. Time that two findings claim counts once, and what GPU and host still have to do stays.", what, before),
		Columns: []Column{{Title: ""}, {Title: "Without", Wide: true}, {Title: upperFirst(what) + " at least", Num: true}, {Title: "Returns at most", Num: true}, {Title: "", Bar: true, More: true}, {Title: "Then the most is", More: true}}}
	if f := r.Verdict.RecoverableFrac; f != nil && len(r.Ledger) > 1 && slices.ContainsFunc(r.WhatIf, func(w WhatIf) bool { return len(w.Fix) == 1 && w.SavingFrac > *f+.01 }) {
		t.Lead += " The slowest rank sets it, so it can shorten by more than the verdict’s share, a mean over the GPUs."
	}
	capped := false
	var foot []string
	for i := range r.WhatIf {
		w := &r.WhatIf[i]
		saves := Pct(w.SavingFrac)
		if w.Capped {
			saves += "*"
			capped = true
		}
		owner := w.NextLimiter
		if _, ok := timeline.ParseOwner(owner); !ok {
			owner = ""
		}
		next := LimiterWord(w)
		if len(r.Ledger) > 1 {
			next += ", " + gpuLabel(r, w.GPU)
		}
		text := Cell{Text: FixText(r, w)}
		if len(w.Fix) == 1 {
			text.Title = w.Fix[0]
		}
		if len(w.Same) > 0 {
			foot = append(foot, fmt.Sprintf("%s is also the time of %s: it is not saved twice.", FixName(r, w), andList(w.Same)))
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: FixName(r, w), Strong: len(w.Fix) == 1}, text, {Text: Dur(float64(w.StepAfterNS), 3), Strong: true}, {Text: saves},
			{Bar: float64(w.StepAfterNS) / float64(max(w.StepBeforeNS, 1)), BarOwner: "compute"}, {Text: next, Owner: owner}}})
	}
	if capped {
		foot = append(foot, "* The findings claim more, but another rank, the GPU or the host needs the rest.")
	}
	t.Foot = strings.Join(foot, " ")
	return t, true
}
