package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// told is a run of the matrix whose truth is what it must and must not be found to be: a public case, or one of a pair that looks alike.
type told struct {
	list, name, source string
	c                  *sim.Case
	strict             bool // what must be silent must be no finding at all; else none above info
	draw               func(n int) []sim.File
}

const publicCases = "public cases"

// toldRuns are all of them, in the order of their lists.
func toldRuns() (out []*told) {
	for _, l := range sim.CaseKinds {
		for i, c := range l.List() {
			x := &told{list: l.Word, name: c.No, source: c.Source, c: c, strict: c.Source == "", draw: func(n int) []sim.File { return sim.DrawCase(l.List, i, n) }}
			if c.Source != "" {
				x.list = publicCases
			}
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b *told) int { return cmp.Compare(b2i(a.source == ""), b2i(b.source == "")) })
	for _, s := range sim.Schedules() {
		out = append(out, &told{list: "places of communication", name: s.Name, c: &sim.Case{Fire: s.Fire, Silent: s.Silent}, strict: true, draw: s.Draw})
	}
	for _, s := range sim.KernelRuns() {
		out = append(out, &told{list: "kernels and shapes", name: s.Name, c: &sim.Case{Fire: s.Fire, Silent: s.Silent}, strict: true, draw: s.Draw})
	}
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// drawTold draws the runs, n of each from the first on, each whole and, where a log of samples is beside something else, by the samples alone.
func drawTold(t *testing.T, runs []*told, first, n int) []*judged {
	t.Helper()
	var mu sync.Mutex
	var out []*judged
	t.Run("told", func(t *testing.T) {
		for _, x := range runs {
			for i := first; i < first+n; i++ {
				t.Run(fmt.Sprintf("%s/%s/%d", x.list, x.name, i), func(t *testing.T) {
					t.Parallel()
					files := x.draw(i)
					js := []*judged{x.judge(reportOf(t, files), i, "all")}
					if samples := samplesOf(files); x.source != "" && len(samples) > 0 && len(samples) < len(files) {
						js = append(js, x.judge(reportOf(t, samples), i, "samples"))
					}
					mu.Lock()
					out = append(out, js...)
					mu.Unlock()
				})
			}
		}
	})
	order := map[string]int{}
	for i, x := range toldRuns() {
		order[x.list+"\n"+x.name] = i
	}
	slices.SortFunc(out, func(a, b *judged) int {
		return cmp.Or(cmp.Compare(order[a.list+"\n"+a.kind], order[b.list+"\n"+b.kind]), cmp.Compare(a.input, b.input), cmp.Compare(a.draw, b.draw))
	})
	return out
}

// judge holds a report against what is told of the run. Samples alone must find a fault or ask for the recording that would.
func (x *told) judge(rep *render.Report, n int, input string) *judged {
	c := x.c
	j := &judged{list: x.list, kind: x.name, source: x.source, input: input, draw: n, sound: len(c.Fire) == 0, got: rep.Verdict.Class}
	found := func(s string, bad bool) (best *render.Check) {
		id, subject, one := strings.Cut(s, " ")
		for i := range rep.Checks {
			k := &rep.Checks[i]
			if (k.ID != id && id != "*") || k.Outcome != "finding" || one && k.Subject.ID != subject || bad && !x.strict && severityOf(k) == 0 {
				continue
			}
			if best == nil || savingOf(k) > savingOf(best) {
				best = k
			}
		}
		return best
	}
	for _, s := range c.Fire {
		j.fire = append(j.fire, s)
		asked := func(p render.Capture) bool { return slices.Contains(p.Answers, s) }
		if found(s, false) == nil && !(input == "samples" && slices.ContainsFunc(rep.CapturePlan, asked)) {
			j.missed = append(j.missed, s)
		}
	}
	for _, s := range c.Silent {
		j.silent = append(j.silent, s)
		if k := found(s, true); k != nil {
			j.forbidden = append(j.forbidden, k.ID)
		}
	}
	if input != "all" {
		j.forbidden = slices.Compact(j.forbidden)
		return j
	}
	if c.Class != "" || len(c.Not) > 0 {
		j.asked, j.want = true, c.Class
		j.right = !slices.Contains(c.Not, j.got) && (c.Class == "" || c.Class == j.got)
		if !j.right {
			j.detail = j.got
			if c.Class != "" {
				j.detail += " for " + c.Class
			}
		}
	}
	if c.Saves[1] > 0 && len(c.Fire) > 0 {
		if k := found(c.Fire[0], false); k != nil {
			j.saves, j.promised = true, savingOf(k)
			j.saving = min(max(j.promised, float64(c.Saves[0])/100), float64(c.Saves[1])/100)
		}
	}
	return j
}

// holds says what of a run does not; "" nothing. A drawn run is no longer quite the one that was measured: its saving has the slack of any other.
func (j *judged) holds() string {
	var out []string
	if len(j.missed) > 0 {
		out = append(out, "misses "+strings.Join(j.missed, ", "))
	}
	if len(j.forbidden) > 0 {
		out = append(out, "raises "+strings.Join(j.forbidden, ", "))
	}
	if j.asked && !j.right {
		out = append(out, "verdict "+j.detail)
	}
	if j.saves && math.Abs(j.promised-j.saving) > j.slack() {
		out = append(out, fmt.Sprintf("promises %.0f %%, measured %.0f %%", 100*j.promised, 100*j.saving))
	}
	if len(out) > 0 && j.input != "all" {
		out[0] = "by " + j.input + " " + out[0]
	}
	return strings.Join(out, "; ")
}

// slack is by how much a saving may be off.
func (j *judged) slack() float64 {
	if j.source != "" && j.draw == 0 {
		return 0.005 // the range that was measured is meant
	}
	return goalSaving
}

// toldText are the tables of cases and pairs.
func toldText(p func(string, ...any), js []*judged) {
	list := ""
	for from := 0; from < len(js); {
		to := from
		for to < len(js) && js[to].list == js[from].list && js[to].kind == js[from].kind {
			to++
		}
		if js[from].list != list {
			list = js[from].list
			if list == publicCases {
				p("\n## Public cases\n\nReports of slow runs that others published, rebuilt from the numbers that their authors gave. Each must be found to be what its author found in the end, and must not be put down to what it was " +
					"taken for; where the author measured a gain the first finding must promise as much, in draw 0 within the range that was measured. Samples alone must find a fault, or ask for the recording that does.\n\n")
				p("| number | source | held | what did not |\n| --- | --- | ---: | --- |\n")
			} else {
				p("\n## Pairs: %s\n\nRuns with one fault, and runs that look like it and have none.\n\n| run | held | what did not |\n| --- | ---: | --- |\n", list)
			}
		}
		held := 0
		not := map[string]int{}
		for _, j := range js[from:to] {
			if s := j.holds(); s != "" {
				not[s]++
			} else {
				held++
			}
		}
		source := ""
		if js[from].source != "" {
			source = " " + js[from].source + " |"
		}
		p("| %s |%s %d of %d | %s |\n", js[from].kind, source, held, to-from, counted(not))
		from = to
	}
}
