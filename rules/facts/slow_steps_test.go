package facts

import (
	"math"
	"testing"

	"gpureport/ingest/timeline"
)

// 40 steps of 100 ms of compute, every tenth with 60 ms of loader: the slowest tenth takes 60 ms longer, all of it the loader's.
func TestSlowLedger(t *testing.T) {
	b := newBench()
	b.rank(0, "n", steps(40, 0.1, func(i int) owned {
		if i%10 == 0 {
			return owned{timeline.Compute: 0.1, timeline.HostDataloader: 0.06}
		}
		return owned{timeline.Compute: 0.1}
	}))
	b.rank(1, "n", steps(40, 0.1, func(int) owned { return owned{timeline.Compute: 0.1} }))
	s, ok := SlowLedger(b.in)
	if !ok || s.Rank != 0 || s.Steps != 40 || s.Slow != 4 {
		t.Fatalf("%+v %v", s, ok)
	}
	var longer float64
	for _, l := range s.Lines {
		d := l.Slow - l.Median
		longer += d
		if want := map[timeline.Owner]float64{timeline.HostDataloader: 60e6}[l.Owner]; math.Abs(d-want) > 1 {
			t.Errorf("%s grows by %.0f ns, want %.0f", l.Owner, d, want)
		}
	}
	if math.Abs(longer-60e6) > 1 {
		t.Errorf("slow steps are %.0f ns longer", longer)
	}
	// Even steps and few steps have no such ledger.
	b = newBench()
	b.rank(0, "n", steps(40, 0.1, func(int) owned { return owned{timeline.Compute: 0.1} }))
	b.rank(1, "n", steps(19, 0.1, func(i int) owned { return owned{timeline.Compute: 0.1 * float64(1+i)} }))
	if s, ok := SlowLedger(b.in); ok {
		t.Errorf("%+v", s)
	}
}
