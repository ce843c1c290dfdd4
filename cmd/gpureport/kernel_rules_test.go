package main

import (
	"slices"
	"testing"

	"gpureport/fixtures/sim"
)

// Each rule that looks into kernels and shapes fires in a whole run that has the fault, and is silent, and answered, in the run that looks
// like it.
func TestKernelRuns(t *testing.T) {
	for _, s := range sim.KernelRuns() {
		t.Run(s.Name, func(t *testing.T) {
			rep := reportOnce(t, s.Name, s.Files)
			fired := map[string]bool{}
			for _, c := range rep.Checks {
				if !slices.Contains(s.Fire, c.ID) && !slices.Contains(s.Silent, c.ID) {
					continue
				}
				switch {
				case c.Outcome == "finding" && slices.Contains(s.Silent, c.ID):
					t.Errorf("%s of %s is a finding: %s", c.ID, c.Subject.ID, c.Says)
				case c.Outcome == "finding":
					fired[c.ID] = true
					if c.RecoverableFrac != nil && *c.RecoverableFrac <= 0 {
						t.Errorf("%s of %s saves nothing: %s", c.ID, c.Subject.ID, c.Says)
					}
				case c.Outcome == "unknown":
					t.Errorf("%s of %s is not answered: %+v", c.ID, c.Subject.ID, c.Missing)
				}
				t.Log(c.ID, c.Subject.ID, c.Outcome, c.Says)
			}
			for _, id := range s.Fire {
				if !fired[id] {
					t.Errorf("%s found nothing", id)
				}
			}
		})
	}
}
