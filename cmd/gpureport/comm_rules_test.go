package main

import (
	"slices"
	"strings"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// Each rule that looks at the place of communication in the step, or at what batches hold, fires in a whole run that has the fault, and is
// silent, and answered, in the run that looks like it.
func TestPlacesOfCommunication(t *testing.T) {
	for _, s := range sim.Schedules() {
		t.Run(s.Name, func(t *testing.T) {
			rep := reportOnce(t, s.Name, s.Files)
			fired := map[string]bool{}
			for _, c := range rep.Checks {
				if !slices.Contains(s.Fire, c.ID) && !slices.Contains(s.Silent, c.ID) {
					continue
				}
				switch {
				case c.Outcome == "finding":
					fired[c.ID] = true
					if slices.Contains(s.Silent, c.ID) {
						t.Errorf("%s of %s is a finding: %s", c.ID, c.Subject.ID, c.Says)
					}
					if c.RecoverableFrac == nil || *c.RecoverableFrac <= 0 {
						t.Errorf("%s of %s saves nothing: %s", c.ID, c.Subject.ID, c.Says)
					}
				case c.Outcome == "unknown" && !slices.Contains(notTold, c.ID):
					t.Errorf("%s of %s is not answered: %+v", c.ID, c.Subject.ID, c.Missing)
				}
				if testing.Verbose() && (slices.Contains(s.Fire, c.ID) || c.Outcome == "finding") {
					t.Log(c.ID, c.Subject.ID, c.Outcome, c.Says)
				}
			}
			for _, id := range s.Fire {
				if !fired[id] {
					t.Errorf("%s found nothing", id)
				}
			}
			if strings.Contains(s.Name, "packed") && !slices.ContainsFunc(rep.Checks, func(c render.Check) bool { return c.ID == "shape.padding" && c.Outcome == "pass" }) {
				t.Error("shape.padding has no answer where lengths are known")
			}
		})
	}
}

// notTold are the rules whose facts most schedules do not record.
var notTold = []string{"shape.padding", "shape.rank-tokens"}
