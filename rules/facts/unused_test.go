package facts

import (
	"fmt"
	"testing"

	"gpureport/ingest/timeline"
)

// Beside traces, a GPU that only logs know takes part in the run only where they show it at work; an idle one is late for nothing.
func TestUnusedGPUs(t *testing.T) {
	b := newBench()
	b.rank(0, "n1", steps(1, 0.1, func(int) owned { return nil }))
	b.in.Logs = map[string][]timeline.DeviceID{}
	for i, v := range []float64{1, 0.9, 0} {
		d := b.device(i, "A", "")
		b.series(d, timeline.SMBusy, 1, flat(80, v)...)
		b.in.Logs[fmt.Sprintf("gpu%d", i)] = []timeline.DeviceID{d}
	}
	b.in.Logs["gpu3"] = []timeline.DeviceID{b.device(3, "A", "")} // known by its properties alone
	cards := Cards(b.in)
	if len(cards) != 4 || cards[0].Unused || cards[1].Unused || !cards[2].Unused || !cards[3].Unused {
		t.Errorf("%+v", cards)
	}
	g := b.derive(t)
	g.text("run", runLateName, "none")
	g.missing("gpu1", gpuOwner[timeline.Compute], "no trace of a process on this GPU was given")
	b.in.Job.GPUs, b.in.Job.Ranks = nil, nil // logs alone: nobody says which are used
	for _, c := range Cards(b.in) {
		if c.Unused {
			t.Errorf("%+v", c)
		}
	}
	b.derive(t).missing("gpu1", gpuOwner[timeline.Compute], noTrace)
}
