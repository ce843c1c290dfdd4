package facts

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

// tieBench is one GPU with 20 steps of 1 s from second 1 on, all of it computing, 60 % in matrix products, and a log once a second.
func tieBench(bits, hz []float64) *bench {
	b := newBench()
	l := steps(20, 1, func(int) owned { return nil })
	l.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 12e9}, {Sub: timeline.SubElementwise, NS: 8e9}}
	b.rank(0, "a", l)
	d := b.device(0, a100, "")
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d}}
	b.series(d, timeline.SMBusy, 1, flat(30, 1)...)
	if bits != nil {
		b.seriesAt(d, timeline.Reasons, 1.5, 1, bits...)
	}
	b.seriesAt(d, timeline.ClockSM, 1.5, 1, hz...)
	return b
}

func runs(parts ...[2]float64) (out []float64) {
	for _, p := range parts {
		out = append(out, flat(int(p[0]), p[1])...)
	}
	return out
}

// Steps 5 to 9 were cut by heat to half the clock: each lost half of the 60 % that follow it.
func TestThrottledSteps(t *testing.T) {
	b := tieBench(runs([2]float64{5, 0}, [2]float64{5, reasonHWThermal | 0x8}, [2]float64{20, 0}), runs([2]float64{5, 1.4e9}, [2]float64{5, 0.7e9}, [2]float64{20, 1.4e9}))
	g := b.derive(t)
	g.num("gpu0", tieHeat.count, 5)
	g.num("gpu0", tieHeat.frac, 5*0.3/20)
	g.num("gpu0", tieHeat.each, 5*0.3/20)
	g.num("gpu0", gpuSaveHeat, 5*0.3/20)
	g.num("gpu0", tieAny.count, 5)
	g.num("gpu0", tieBrake.count, 0)
	g.num("gpu0", tieCap.count, 0)
	g.text("gpu0", tieHeat.says, "it slowed 5 of 20 analysed steps, by at most 300 ms a step against its own readings that nothing cut (1400 MHz): only kernels that follow the clock count, 60 % of the computing time")
	g.text("gpu0", tieBrake.says, "none of the 20 analysed steps was slowed by it")
	v := g.value("gpu0", tieHeat.count)
	if v.NRefs != 5 || v.Refs[0].String() != "smi.csv:7" || v.Conf != timeline.Inferred {
		t.Errorf("%+v", v)
	}
}

// The driver's counters say what samples miss: the clock is read between the cuts, and each step is cut for a quarter of its time.
func TestThrottledStepsByCounters(t *testing.T) {
	b := tieBench(flat(30, 0), flat(30, 1.4e9))
	for _, m := range []timeline.Metric{timeline.ThrottleSWThermal, timeline.ThrottleHWThermal} {
		total := make([]float64, 30)
		for i := range total {
			if m == timeline.ThrottleHWThermal {
				total[i] = 100 + 0.25*float64(min(i, 10))
			}
		}
		b.series(0, m, 1, total...)
	}
	g := b.derive(t)
	g.num("gpu0", tieHeat.count, 10)
	if v := g.value("gpu0", tieHeat.count); v.Conf != timeline.Measured {
		t.Errorf("%+v", v)
	}
	g.missing("gpu0", tieHeat.frac, "never read while it was cut") // at no reading was the clock low
	g.text("gpu0", tieHeat.says, "it cut 10 of 20 analysed steps for 25 % of their time, at what cost is not known: the SM clock was never read in that time")
}

// dmon's power violations are a share of each second.
func TestCappedStepsByDmon(t *testing.T) {
	b := tieBench(nil, flat(30, 1.128e9))
	b.series(0, timeline.ViolPower, 1, append(flat(11, 1), flat(19, 0)...)...)
	g := b.derive(t)
	g.num("gpu0", tieCap.count, 10)
	g.about("gpu0", tieCap.frac, 0.5*0.6*(1-1.128/1.41), 1e-6)
	if v := g.value("gpu0", tieCap.says); !strings.Contains(v.Text, "the data sheet's clock (1410 MHz)") {
		t.Errorf("%s", v.Text)
	}
	g.missing("gpu0", tieBrake.count, "holds clock event reasons")
}

func TestThrottledStepsNeedTheirClock(t *testing.T) {
	b := tieBench(runs([2]float64{5, 0}, [2]float64{5, reasonHWThermal}, [2]float64{20, 0}), runs([2]float64{5, 1.4e9}, [2]float64{5, 0.7e9}, [2]float64{20, 1.4e9}))
	// Within half a second and half a reading: the two steps at each edge may be either.
	b.in.Base.Clocks[0].Error = 0.5e9
	g := b.derive(t)
	g.num("gpu0", tieHeat.count, 3)
	if v := g.value("gpu0", tieHeat.says); !strings.HasSuffix(v.Text, "of 4 more the readings do not tell") {
		t.Errorf("%s", v.Text)
	}
	b.in.Base.Clocks[0].Error = 1.2e9
	g = b.derive(t)
	g.missing("gpu0", tieHeat.count, "the log is placed to 1.2 s and a step takes 1 s")
	g.text("gpu0", tieHeat.says, "which steps it slowed is not known: the log is placed to 1.2 s and a step takes 1 s; inside the trace it cut the clocks in 5 of 20 readings under load")
	if v := g.value("gpu0", gpuSaveHeat); v.Num <= 0 {
		t.Errorf("the whole window's share is %v", v.Num)
	}
	b.in.Base.Clocks[0].How = timeline.Unplaced
	b.derive(t).missing("gpu0", tieHeat.frac, "cannot be told")
}

// A log that ended before the steps says nothing of them.
func TestThrottledStepsElsewhere(t *testing.T) {
	b := tieBench(flat(4, 0), flat(4, 1.4e9))
	b.derive(t).missing("gpu0", tieHeat.count, "decides 4 of the 20")
}

func TestThrottledStepsWithoutClocks(t *testing.T) {
	b := tieBench(flat(30, reasonSWThermal), nil)
	g := b.derive(t)
	g.num("gpu0", tieHeat.count, 20)
	g.missing("gpu0", tieHeat.frac, "holds the SM clock")
}
