package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

// A rank that pauses long in four of ten steps holds the others up longest, and yet is not late in most of them.
func TestAFewLongPausesAreNotLateEachStep(t *testing.T) {
	jobOf := func(of func(rank, step int) int64) *ledger.Job {
		j := &ledger.Job{}
		for k := range 4 {
			g := timeline.GPULedger{Ops: 100}
			r := &timeline.Reduced{Process: timeline.Process{Rank: k}}
			for i := range 10 {
				s := timeline.StepRow{Dur: 20e6}
				s.Owners[timeline.Compute] = of(k, i)
				s.Owners[timeline.CommPeerWait] = s.Dur - of(k, i)
				g.Steps = append(g.Steps, s)
				r.Steps.Index = append(r.Steps.Index, int64(i))
			}
			r.GPUs = []timeline.GPULedger{g}
			j.Ranks = append(j.Ranks, r)
		}
		return j
	}
	for _, c := range []struct {
		name string
		of   func(rank, step int) int64
		want float64
	}{
		{"pauses of four steps", func(k, i int) int64 {
			if k == 2 && i%5 < 2 {
				return 20e6
			}
			return 10e6 + int64(k)*1000
		}, 0.4},
		{"late each step", func(k, i int) int64 {
			if k == 2 {
				return 14e6 + int64(i%3)*1e6
			}
			return 10e6
		}, 1},
	} {
		if got, ok := lateInSteps(jobOf(c.of), 2); !ok || got != c.want {
			t.Errorf("%s: %v %v, want %v", c.name, got, ok, c.want)
		}
	}
	j := jobOf(func(int, int) int64 { return 10e6 })
	j.Ranks[1].Steps.Index[3] = 99
	if _, ok := lateInSteps(j, 2); ok {
		t.Error("steps that differ were compared")
	}
}
