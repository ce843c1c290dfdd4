package render

import (
	"slices"
	"testing"

	"gpureport/rules/engine"
)

// What stands first among the findings is what the verdict speaks of and advises first; one that says why stands ahead of one that says that time is
// lost, also where it says so of the whole run.
func TestOneOrderOfFindings(t *testing.T) {
	r := &Report{}
	in := &Input{}
	add := func(id, kind, subject, severity string, saving float64) {
		rule := &engine.Rule{ID: id, Class: engine.Communication}
		in.Checks = append(in.Checks, engine.Check{Rule: rule, Outcome: engine.Finding})
		r.Checks = append(r.Checks, Check{ID: id, Stage: "comm", Outcome: "finding", Severity: &severity, RecoverableFrac: &saving, Subject: Subject{Kind: kind, ID: subject},
			Says: "of " + id, Do: []string{"Mend " + id}})
	}
	add("comm.exposed", "gpu", "gpu0", "high", 0.5)
	add("comm.exposed", "gpu", "gpu1", "high", 0.45)
	add("comm.ddp-tail", "gpu", "gpu0", "high", 0.4)
	add("comm.socket-fallback", "run", "run", "high", 0.3)
	add("comm.latency-bound", "gpu", "gpu0", "medium", 0.1)
	b := &builder{in: in, r: r, asks: map[string]string{}}
	v := engine.Verdict{Class: engine.Communication, Culprit: -1, Evidence: []string{"comm.exposed", "comm.ddp-tail", "comm.socket-fallback", "comm.latency-bound"}}
	if top := r.Top(); top.ID != "comm.socket-fallback" || b.top(v) != top {
		t.Errorf("%s stands first, the verdict speaks of %s", top.ID, b.top(v).ID)
	}
	if do, _ := b.advice(v); !slices.Equal(do, []string{"Mend comm.socket-fallback", "Mend comm.ddp-tail"}) {
		t.Errorf("it advises %q", do)
	}
	// One that claims less than half of the time does not say why all of it is lost.
	small := 0.2
	r.Checks[3].RecoverableFrac = &small
	if do, _ := b.advice(v); r.Top().ID != "comm.ddp-tail" || !slices.Equal(do[:1], []string{"Mend comm.ddp-tail"}) {
		t.Errorf("%s, %q", r.Top().ID, do)
	}
}
