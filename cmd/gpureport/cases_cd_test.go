package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// pendingCD are cases, or parts of them, that the rules cannot hold yet, by what fails; one that holds is a failure of the table.
var pendingCD = map[string]string{}

// TestCasesCD runs every public case of communication, hardware and host whole, and again with nothing but its samples.
func TestCasesCD(t *testing.T) {
	for _, c := range sim.CasesCD() {
		t.Run(c.No, func(t *testing.T) {
			t.Parallel()
			files := c.Build()
			rep := reportOnce(t, "case "+c.No, func() []sim.File { return files })
			caseHeld(t, c.No, caseWrong(c, rep))
			if samples := samplesOf(files); len(samples) > 0 && len(samples) < len(files) {
				caseHeld(t, c.No+" samples", caseBySamples(c, rep, reportOf(t, samples)))
			}
			if testing.Verbose() {
				t.Log(listFindings(rep))
			}
		})
	}
}

// caseHeld fails where something of a case does not hold and is not pending, or is pending and holds.
func caseHeld(t *testing.T, name string, wrong []string) {
	t.Helper()
	why, pending := pendingCD[name]
	switch {
	case pending && len(wrong) == 0:
		t.Errorf("%s holds: strike it from the pending ones (%s)", name, why)
	case pending:
		t.Logf("%s is pending: %s\n  %s", name, why, strings.Join(wrong, "\n  "))
	case len(wrong) > 0:
		t.Errorf("%s:\n  %s", name, strings.Join(wrong, "\n  "))
	}
}

// pairsCD are cases that look alike, of which a rule must be a finding in the one and silent in the other.
var pairsCD = []struct{ rule, one, other string }{
	{"comm.on-compute-stream", "18", "10"},
	{"shape.rank-tokens", "17", "22"},
	{"hw.power-misconfig", "26", "17"},
	{"hw.thermal", "29", "17"},
	{"comm.straggler-wait", "17", "26"},
	{"hw.pcie-link", "24", "N1"},
	{"hw.pcie-link", "34", "N1"},
	{"hw.pcie-link", "34", "34b"},
	{"hw.pcie-link", "34", "34c"},
	{"comm.nic-affinity", "25", "22"},
	{"comm.topology", "22", "25"},
	{"kernel.optimizer-share", "35", "20b"},
	{"step.drift", "29", "18"},
	{"hw.thermal", "29", "26"},
	{"hw.power-cap", "26", "N3"},
	{"hw.nvlink", "28", "34"},
}

// What tells two cases apart is one rule, above info in the one and no finding, or information alone, in the other.
func TestPairsOfCases(t *testing.T) {
	report := func(no string) *render.Report {
		k := slices.IndexFunc(sim.CasesCD(), func(c *sim.Case) bool { return c.No == no })
		if k < 0 {
			t.Fatalf("there is no case %s", no)
		}
		return reportOnce(t, "case "+no, sim.CasesCD()[k].Build)
	}
	above := func(no, rule string) bool {
		return slices.ContainsFunc(report(no).Checks, func(c render.Check) bool { return c.ID == rule && c.Outcome == "finding" && severityOf(&c) > 0 })
	}
	for _, p := range pairsCD {
		if !above(p.one, p.rule) {
			t.Errorf("%s / %s: %s is no finding in %s: %s", p.one, p.other, p.rule, p.one, outcomeOf(report(p.one), p.rule))
		}
		if above(p.other, p.rule) {
			t.Errorf("%s / %s: %s is a finding in %s: %s", p.one, p.other, p.rule, p.other, outcomeOf(report(p.other), p.rule))
		}
	}
}

// reportOf analyses inputs that the simulator made, databases too.
func reportOf(t *testing.T, files []sim.File) *render.Report {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		if base, ok := strings.CutSuffix(f.Path, ".sql"); ok {
			database(t, filepath.Join(dir, base+".sqlite"), string(f.Data))
			continue
		}
		data, err := f.Pack()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rep, _ := analyzed(t, dir)
	if rep.SumErrorNS != 0 {
		t.Errorf("the ledgers miss their windows by %d ns", rep.SumErrorNS)
	}
	return rep
}

// samplesOf are the logs of nvidia-smi's readings.
func samplesOf(files []sim.File) (out []sim.File) {
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".csv") || strings.HasSuffix(f.Path, "dmon.log") {
			out = append(out, f)
		}
	}
	return out
}

var bands = []string{"info", "low", "medium", "high", "critical"}

// caseWrong says what of a case a report misses.
func caseWrong(c *sim.Case, rep *render.Report) (wrong []string) {
	for _, id := range c.Fire {
		if !slices.ContainsFunc(rep.Checks, func(k render.Check) bool { return k.ID == id && k.Outcome == "finding" }) {
			wrong = append(wrong, id+" is no finding: "+outcomeOf(rep, id))
		}
	}
	// A hint is information and no more: nothing may stand above it but information.
	hint := func(id string) bool {
		return slices.ContainsFunc(rep.Checks, func(k render.Check) bool {
			return k.ID == id && k.Outcome == "finding" && k.Confidence != nil && *k.Confidence == "hint"
		})
	}
	if top := rep.Top(); len(c.Fire) > 0 && top != nil && top.ID != c.Fire[0] && !(severityOf(top) == 0 && hint(c.Fire[0])) {
		wrong = append(wrong, fmt.Sprintf("the top finding is %s %s (%s, %.3f), not %s", top.ID, top.Subject.ID, bands[severityOf(top)], savingOf(top), c.Fire[0]))
	}
	if top := rep.Top(); c.Saves[1] > 0 && top != nil {
		if s := 100 * savingOf(top); s < float64(c.Saves[0]) || s > float64(c.Saves[1]) {
			wrong = append(wrong, fmt.Sprintf("%s promises %.1f %%, measured were %d to %d", top.ID, s, c.Saves[0], c.Saves[1]))
		}
	}
	if c.Class != "" && rep.Verdict.Class != c.Class {
		wrong = append(wrong, "the verdict is "+rep.Verdict.Class+", not "+c.Class)
	}
	return append(wrong, caseQuiet(c, rep)...)
}

// caseQuiet says what a report says and must not.
func caseQuiet(c *sim.Case, rep *render.Report) (wrong []string) {
	for i := range rep.Checks {
		k := &rep.Checks[i]
		if k.Outcome != "finding" {
			continue
		}
		silent := slices.ContainsFunc(c.Silent, func(s string) bool {
			id, subject, one := strings.Cut(s, " ")
			return k.ID == id && (!one || k.Subject.ID == subject)
		})
		acts := severityOf(k) > 0 || slices.ContainsFunc(k.Do, func(d string) bool { return slices.Contains(rep.Verdict.Do, d) })
		if silent && acts {
			wrong = append(wrong, fmt.Sprintf("%s of %s must be silent and is a finding (%s): %s", k.ID, k.Subject.ID, bands[severityOf(k)], k.Says))
		}
		for _, d := range k.Do {
			for _, w := range c.Never {
				if strings.Contains(strings.ToLower(d), w) {
					wrong = append(wrong, fmt.Sprintf("%s advises %q, which holds %q", k.ID, d, w))
				}
			}
		}
	}
	for _, d := range rep.Verdict.Do {
		for _, w := range c.Never {
			if strings.Contains(strings.ToLower(d), w) {
				wrong = append(wrong, fmt.Sprintf("the verdict advises %q, which holds %q", d, w))
			}
		}
	}
	if slices.Contains(c.Not, rep.Verdict.Class) {
		wrong = append(wrong, "the verdict is "+rep.Verdict.Class)
	}
	return wrong
}

// caseBySamples: a rule that was measured and must fire is a finding still, or asks for a recording; what is silent stays so.
func caseBySamples(c *sim.Case, whole, rep *render.Report) (wrong []string) {
	for _, id := range c.Fire {
		fired := slices.ContainsFunc(rep.Checks, func(k render.Check) bool { return k.ID == id && k.Outcome == "finding" })
		asked := slices.ContainsFunc(rep.CapturePlan, func(p render.Capture) bool { return slices.Contains(p.Answers, id) })
		if !fired && !asked {
			wrong = append(wrong, id+" neither fires nor is asked for: "+outcomeOf(rep, id))
		}
	}
	return append(wrong, caseQuiet(c, rep)...)
}
