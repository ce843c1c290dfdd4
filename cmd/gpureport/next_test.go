package main

import (
	"path/filepath"
	"slices"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// What says why the time is lost is what is to be mended: its advice stands first, and it is not told as the next limiter of the same time.
func TestReasonComesFirst(t *testing.T) {
	for _, c := range []struct{ fixture, rule string }{
		{"narrow-link", "hw.pcie-link"}, {"far-socket", "hw.numa"}, {"hot-rank", "hw.thermal"}, {"decode-cpu", "data.decode-cpu"}, {"socket-fallback", "comm.socket-fallback"},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			t.Parallel()
			rep, _ := analyzed(t, filepath.Join(fixtures, c.fixture, "in"))
			i := slices.IndexFunc(rep.Checks, func(k render.Check) bool { return k.ID == c.rule && k.Outcome == "finding" })
			if i < 0 || len(rep.Verdict.Do) == 0 || !slices.Contains(rep.Checks[i].Do, rep.Verdict.Do[0]) {
				t.Errorf("first to do: %q, which is not what %s says", rep.Verdict.Do, c.rule)
			}
			if next := rep.Verdict.Next; next != nil {
				t.Errorf("next is %s", *next)
			}
			for _, w := range rep.WhatIf {
				if w.StepAfterNS <= 0 {
					t.Errorf("without %v nothing is left of a step", w.Fix)
				}
			}
		})
	}
}

// Steps that a log alone holds are not cleared by the ledger of others: where they lose more than anything that was traced, nobody is named, and nobody is
// said to be free of blame.
func TestSlowStepsOfALogAlone(t *testing.T) {
	for _, c := range []struct{ run, class, rule string }{
		{"stalls-inside-epochs", "insufficient-evidence", "step.periodic"},
		{"scattered", "insufficient-evidence", "step.robust-cv"},
		{"slow-and-quick-again", "insufficient-evidence", "step.robust-cv"},
		{"three-steps-and-log", "compute-bound", ""},
	} {
		t.Run(c.run, func(t *testing.T) {
			t.Parallel()
			all := sim.PairsHost()
			i := slices.IndexFunc(all, func(k *sim.Case) bool { return k.No == c.run })
			rep := reportOnce(t, c.run, all[i].Build)
			if rep.Verdict.Class != c.class || c.rule != "" && !slices.Equal(rep.Verdict.Evidence, []string{c.rule}) {
				t.Errorf("%s by %v: %s", rep.Verdict.Class, rep.Verdict.Evidence, rep.Verdict.Sentence)
			}
			t.Log(rep.Verdict.Sentence)
		})
	}
}
