package main

import (
	"slices"
	"strings"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// PairsData's runs hold as public cases do.
func TestPairsOfData(t *testing.T) {
	for _, c := range sim.PairsData() {
		t.Run(c.No, func(t *testing.T) {
			t.Parallel()
			rep := reportOnce(t, c.No, c.Build)
			if wrong := misses(c, rep); len(wrong) > 0 {
				t.Errorf("%s\n%s", strings.Join(wrong, "\n  "), listFindings(rep))
			}
			for i := range rep.Checks { // a look-alike is answered: nobody looked is no pass
				if k := &rep.Checks[i]; slices.Contains(c.Silent, k.ID) && k.Outcome != "pass" {
					t.Errorf("%s is %s: %s", k.ID, k.Outcome, outcomeOf(rep, k.ID))
				}
			}
		})
	}
}

// crossPairs are the pairs of public cases that test the rules against each other, whatever section they stand in: a rule is above info in the
// one and no finding, or information alone, in the other. The evidence that decides is named; it is what the rule's sentence must rest on.
var crossPairs = []struct{ one, other, rule, evidence string }{
	// 3 / 10: what a period of slow steps is made of.
	{"3", "10", "data.worker-throughput", "the loader owns the excess time of slow steps"},
	{"3", "10d", "data.worker-throughput", "the loader owns the excess time of slow steps"},
	{"10", "3", "comm.no-sync-accum", "the same buckets are reduced in every micro-batch"},
	{"10d", "3", "comm.no-sync-accum", "the same buckets are reduced in every micro-batch"},
	// 8 / N2, N6: a sync that drains, or that only waits.
	{"8", "N2", "idle.host-sync", "the queue is empty behind the sync"},
	{"8", "N6", "idle.host-sync", "the queue is empty behind the sync, and the host has nothing else to do"},
	// 12 / 17: a late rank that stands, or that computes more.
	{"12", "17", "idle.gc-pause", "holes on the late rank"},
	{"17", "12", "shape.rank-tokens", "the late rank has more tokens"},
	// 17 / 26, 29: more work, or slower hardware.
	{"17", "26", "shape.rank-tokens", "tokens differ between ranks"},
	{"17", "29", "shape.rank-tokens", "tokens differ between ranks"},
	{"26", "17", "hw.power-misconfig", "the limit is below the default"},
	{"29", "17", "hw.thermal", "clock reasons of heat"},
	{"29", "17", "step.drift", "step time rises with the heat"},
	// 18 / 30: busy with collectives, or idle between launches.
	{"18", "30", "comm.on-compute-stream", "collectives on the stream that computes"},
	{"18", "30", "comm.exposed", "collectives with nothing beside them"},
	{"30", "18", "idle.launch-bound", "the queue is empty while the host launches"},
	{"30", "18", "kernel.tiny", "kernels shorter than a launch"},
	// 20 / 35: the share decides, not the form.
	{"35", "20b", "kernel.optimizer-share", "the optimizer's share of the step"},
	// 24, 34 / N1: a link under load, or at rest.
	{"24", "N1", "hw.pcie-link", "utilisation in the same sample"},
	{"34", "N1", "hw.pcie-link", "utilisation in the same sample"},
	// 26 / N3: a cap that costs, or not.
	{"26", "N3", "hw.power-cap", "the clock under the cap, and that kernels compute"},
	// 4 / 25: two hosts held up by storage, or by the way to the adapter.
	{"4", "25", "data.storage", "the loader's gap"},
	{"4", "25", "hw.iowait", "dips with iowait before them"},
	{"25", "4", "comm.nic-affinity", "adapter and GPU are far apart"},
	{"25", "4", "comm.low-busbw", "the transfer part of collectives"},
	// 13 / 29: gaps that grow, or kernels.
	{"13", "29", "idle.gc-pause", "holes on one rank after the other, kernels as before"},
	{"29", "13", "hw.thermal", "kernels slow down as the clock is cut"},
}

func TestCrossPairsOfCases(t *testing.T) {
	all := map[string]*sim.Case{}
	for _, c := range slices.Concat(sim.CasesAB(), sim.CasesCD()) {
		all[c.No] = c
	}
	report := func(t *testing.T, no string) *render.Report {
		t.Helper()
		c := all[no]
		if c == nil {
			t.Fatalf("there is no case %s", no)
		}
		return reportOnce(t, "case "+no, c.Build)
	}
	above := func(rep *render.Report, rule string) bool {
		return slices.ContainsFunc(rep.Checks, func(k render.Check) bool { return k.ID == rule && k.Outcome == "finding" && severityOf(&k) > 0 })
	}
	for _, p := range crossPairs {
		one, other := report(t, p.one), report(t, p.other)
		if !above(one, p.rule) {
			t.Errorf("%s / %s (%s): %s is no finding in %s: %s", p.one, p.other, p.evidence, p.rule, p.one, outcomeOf(one, p.rule))
		}
		if above(other, p.rule) {
			t.Errorf("%s / %s (%s): %s is a finding in %s: %s", p.one, p.other, p.evidence, p.rule, p.other, outcomeOf(other, p.rule))
		}
	}
	// A late rank's cause is told apart, too.
	for no, want := range map[string]string{"12": "host-bound", "17": "uneven-work"} {
		if v := report(t, no).Verdict; v.Class != "straggler" || v.Cause == nil || *v.Cause != want {
			got := "unknown"
			if v.Cause != nil {
				got = *v.Cause
			}
			t.Errorf("case %s is %s by %s, not a straggler by %s: %s", no, v.Class, got, want, v.Sentence)
		}
	}
}

// The verdict says where input costs its time, and not that steps wait for a batch where none does.
func TestVerdictOfInputBesideTheLoader(t *testing.T) {
	for _, c := range sim.PairsData() {
		words := map[string]string{"workers-anew": "other worker processes", "tokens-inline": "turned text into tokens", "tokens-in-workers": "for its next batch"}[c.No]
		if words == "" {
			continue
		}
		if v := reportOf(t, c.Build()).Verdict; v.Class != "data-pipeline" || !strings.Contains(v.Sentence, words) {
			t.Errorf("%s: %s: %q, want %q in it", c.No, v.Class, v.Sentence, words)
		}
	}
}

// A vocabulary of 50257 is worth padding, and no more than the 4 % that it gave: the rule is answered, and at most low.
func TestOddVocabularyPromisesLittle(t *testing.T) {
	k := slices.IndexFunc(sim.CasesCD(), func(c *sim.Case) bool { return c.No == "N4" })
	rep := reportOnce(t, "case N4", sim.CasesCD()[k].Build)
	asked := false
	for i := range rep.Checks {
		c := &rep.Checks[i]
		if c.ID != "shape.misaligned" {
			continue
		}
		asked = true
		if c.Outcome == "unknown" || c.Outcome == "finding" && (severityOf(c) > 1 || savingOf(c) > 0.05) {
			t.Errorf("%s is %s of severity %d and promises %.3f: %s", c.ID, c.Outcome, severityOf(c), savingOf(c), outcomeOf(rep, c.ID))
		}
	}
	if !asked {
		t.Error("shape.misaligned was not asked")
	}
}
