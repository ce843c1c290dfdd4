package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// pendingAB are cases that the rules cannot hold yet, by why; one that holds is a failure of the table.
var pendingAB = map[string]string{}

// special is what a report of the public case must keep beside its findings.
var special = map[string]func(rep *render.Report) []string{
	"31": func(rep *render.Report) []string { return advises(rep, "idle.allocator", "peak memory rises") },
	"16": func(rep *render.Report) []string { return advises(rep, "idle.checkpoint", "staging") },
	"N5": func(rep *render.Report) (wrong []string) {
		for i := range rep.Checks {
			if c := &rep.Checks[i]; c.ID == "kernel.optimizer-share" && c.Outcome == "finding" && savingOf(c) > 0.005 {
				wrong = append(wrong, fmt.Sprintf("kernel.optimizer-share promises %.3f: %s", savingOf(c), c.Says))
			}
		}
		return wrong
	},
	"N8": func(rep *render.Report) (wrong []string) {
		for i := range rep.Checks {
			for _, d := range rep.Checks[i].Do {
				if strings.Contains(d, "empty_cache") && !strings.HasPrefix(d, "Drop empty_cache()") {
					wrong = append(wrong, rep.Checks[i].ID+" advises "+d)
				}
			}
		}
		return wrong
	},
}

func nothingAboveInfo(rep *render.Report) (wrong []string) {
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.Outcome == "finding" && severityOf(c) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s is above info: %s", c.ID, c.Subject.ID, c.Says))
		}
	}
	return wrong
}

// advises: a finding says that much about what to do.
func advises(rep *render.Report, id, words string) []string {
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.ID == id && c.Outcome == "finding" && strings.Contains(strings.Join(append(slices.Clone(c.Do), c.Dont...), "\n"), words) {
			return nil
		}
	}
	return []string{id + " does not say " + words}
}

// TestCasesAB runs every public case of input, storage and host whole.
func TestCasesAB(t *testing.T) {
	for _, c := range sim.CasesAB() {
		t.Run(c.No, func(t *testing.T) {
			t.Parallel()
			rep := reportOnce(t, "case "+c.No, c.Build)
			wrong := misses(c, rep)
			if f := special[c.No]; f != nil {
				wrong = append(wrong, f(rep)...)
			}
			why, pending := pendingAB[c.No]
			switch {
			case pending && len(wrong) == 0:
				t.Errorf("it holds: strike it from the pending ones (%s)", why)
			case pending:
				t.Logf("pending: %s\n  %s", why, strings.Join(wrong, "\n  "))
			case len(wrong) > 0:
				t.Errorf("%s", strings.Join(wrong, "\n  "))
			}
			if t.Failed() || testing.Verbose() {
				t.Log(listFindings(rep))
			}
		})
	}
}

func severityOf(c *render.Check) int {
	if c.Severity == nil {
		return 0
	}
	return slices.Index(bands, *c.Severity)
}

func savingOf(c *render.Check) float64 {
	if c.RecoverableFrac == nil {
		return 0
	}
	return *c.RecoverableFrac
}

// misses says what of a case a report misses, and what it says and must not.
func misses(c *sim.Case, rep *render.Report) (wrong []string) {
	var first *render.Check
	for n, id := range c.Fire {
		found := false
		for i := range rep.Checks {
			if k := &rep.Checks[i]; k.ID == id && k.Outcome == "finding" {
				found = true
				if n == 0 && (first == nil || savingOf(k) > savingOf(first)) {
					first = k
				}
			}
		}
		if !found {
			wrong = append(wrong, id+" is no finding: "+outcomeOf(rep, id))
		}
	}
	for i := range rep.Checks {
		k := &rep.Checks[i]
		if k.Outcome != "finding" {
			continue
		}
		// What the case names beside it, and the steps' unrest, which has no owner, may stand above the first one.
		if first != nil && !slices.Contains(c.Fire, k.ID) && !strings.HasPrefix(k.ID, "step.") && (severityOf(k) > severityOf(first) || severityOf(k) == severityOf(first) && savingOf(k) > savingOf(first)+0.01) {
			wrong = append(wrong, fmt.Sprintf("%s of %s (severity %d, %.3f) stands above %s (severity %d, %.3f): %s", k.ID, k.Subject.ID, severityOf(k), savingOf(k), first.ID, severityOf(first), savingOf(first), k.Says))
		}
		if slices.Contains(c.Silent, k.ID) && severityOf(k) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s must be silent: %s", k.ID, k.Subject.ID, k.Says))
		}
		for _, w := range c.Never {
			for _, d := range k.Do {
				if strings.Contains(strings.ToLower(d), w) {
					wrong = append(wrong, fmt.Sprintf("%s advises %q, which holds %q", k.ID, d, w))
				}
			}
		}
	}
	if slices.Contains(c.Silent, "*") {
		wrong = append(wrong, nothingAboveInfo(rep)...)
	}
	for _, d := range rep.Verdict.Do {
		for _, w := range c.Never {
			if strings.Contains(strings.ToLower(d), w) {
				wrong = append(wrong, fmt.Sprintf("the verdict advises %q, which holds %q", d, w))
			}
		}
	}
	if first != nil && c.Saves[1] > 0 {
		if s := 100 * savingOf(first); s < float64(c.Saves[0]) || s > float64(c.Saves[1]) {
			wrong = append(wrong, fmt.Sprintf("%s promises %.1f %%, not %d to %d", first.ID, s, c.Saves[0], c.Saves[1]))
		}
	}
	if c.Class != "" && rep.Verdict.Class != c.Class {
		wrong = append(wrong, "the verdict is "+rep.Verdict.Class+", not "+c.Class)
	}
	return wrong
}

func outcomeOf(rep *render.Report, id string) string {
	var all []string
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.ID == id {
			s := c.Outcome + ": " + c.Says
			for _, m := range c.Missing {
				s += fmt.Sprintf(" [%s: %s]", m.Fact, m.Why)
			}
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return "not asked of any subject"
	}
	return strings.Join(all, " | ")
}

func listFindings(rep *render.Report) string {
	s := "verdict " + rep.Verdict.Class + ": " + rep.Verdict.Sentence
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.Outcome == "finding" {
			s += fmt.Sprintf("\n  %s %s %s %.3f: %s", c.ID, c.Subject.ID, bands[severityOf(c)], savingOf(c), c.Says)
		}
	}
	return s
}

// Pairs of reports that look alike: what fires in one of them must not be what the other is put down to.
func TestCasePairsAB(t *testing.T) {
	all := map[string]*sim.Case{}
	for _, c := range sim.CasesAB() {
		all[c.No] = c
	}
	for _, p := range []struct{ fires, not, rule string }{
		{"8", "N2", "idle.host-sync"},
		{"8", "N6", "idle.host-sync"},
		{"37", "37b", "idle.host-sync"},
		{"6", "N7", "data.thread-oversub"},
		{"21", "20", "kernel.optimizer-share"},
		{"3", "7", "data.worker-throughput"},
		{"12", "9", "idle.gc-pause"},
		{"30", "8", "idle.launch-bound"},
	} {
		t.Run(p.fires+" and "+p.not, func(t *testing.T) {
			t.Parallel()
			for _, no := range []string{p.fires, p.not} {
				rep := reportOnce(t, "case "+no, all[no].Build)
				fires := slices.ContainsFunc(rep.Checks, func(k render.Check) bool {
					return k.ID == p.rule && k.Outcome == "finding" && (no == p.fires || severityOf(&k) > 0)
				})
				if fires != (no == p.fires) {
					t.Errorf("%s fires in %s: %v; %s", p.rule, no, fires, outcomeOf(rep, p.rule))
				}
			}
		})
	}
}
