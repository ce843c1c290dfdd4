package engine_test

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
)

// A GPU that takes no part in the run has its hardware told, and nothing else: it is neither idle nor unseen.
func TestUnusedGPUIsAskedAboutHardwareOnly(t *testing.T) {
	rs := shipped(t)
	set := facts.NewSet([]facts.Subject{{Kind: facts.Run, ID: "run", Rank: -1, Up: -1}, {Kind: facts.GPU, ID: "gpu0", Rank: -1}, {Kind: facts.GPU, ID: "gpu1", Rank: -1, Unused: "no trace drives it"}}, facts.Decls())
	for _, sub := range set.Of(facts.GPU) {
		set.Put(sub, "gpu.idle_frac", facts.Value{Num: 1, Cover: 1, Conf: timeline.Measured})
		set.Put(sub, "gpu.lost_count", facts.Value{Num: 1, Cover: 1, Conf: timeline.Measured})
	}
	want := map[string]engine.Outcome{"idle.share gpu0": engine.Finding, "idle.share gpu1": engine.NotAsked, "hw.gpu-lost gpu0": engine.Finding, "hw.gpu-lost gpu1": engine.Finding,
		"hw.thermal gpu0": engine.Unknown, "hw.thermal gpu1": engine.NotAsked, "idle.host-sync gpu0": engine.Unknown, "idle.host-sync gpu1": engine.NotAsked}
	seen := 0
	for _, c := range rs.Evaluate(set) {
		o, ok := want[c.Rule.ID+" "+c.Subject.ID]
		if !ok {
			continue
		}
		if seen++; c.Outcome != o || o == engine.NotAsked && c.Says != "Not asked: no trace drives it" {
			t.Errorf("%s %s: %v: %s", c.Rule.ID, c.Subject.ID, c.Outcome, c.Says)
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d checks seen", seen, len(want))
	}
}
