package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

// A state that was saved twice, a file each, says as much as a log with two readings; other formats may count otherwise and stay aside.
func TestCountersOverFiles(t *testing.T) {
	b := newBench()
	b.in.Logs = map[string][]timeline.DeviceID{}
	one := func(format string, how timeline.Placement, m timeline.Metric, at, value float64) {
		src := b.source(format+".txt", format, how)
		d := b.deviceOf(src, 0, a100, "GPU-0")
		b.seriesAt(d, m, at, 1, value)
		b.in.Logs["gpu0"] = append(b.in.Logs["gpu0"], d)
	}
	one("smi-q", timeline.Stated, timeline.PCIeReplays, 70, 1397)
	one("smi-q", timeline.Stated, timeline.PCIeReplays, 10, 812)
	one("smi-q", timeline.Stated, timeline.ECCUncorrected, 10, 4)
	one("smi-q", timeline.Stated, timeline.ECCUncorrected, 70, 4)
	one("other", timeline.Stated, timeline.ECCUncorrected, 80, 9)
	one("nvlink", timeline.Unplaced, timeline.NVLinkErrors, 0, 540)
	one("nvlink", timeline.Unplaced, timeline.NVLinkErrors, 0, 505)
	g := b.derive(t)
	g.num("gpu0", gpuReplays, 585)
	g.num("gpu0", gpuReplayRate, 585.0/60)
	g.num("gpu0", gpuECC, 0)
	g.num("gpu0", gpuNVErrors, 35)
}

func TestCounterWithoutTime(t *testing.T) {
	b := newBench()
	for _, n := range []float64{900, 812} {
		b.seriesAt(b.deviceOf(b.source("q.txt", "smi-q", timeline.Unplaced), 0, a100, "GPU-0"), timeline.PCIeReplays, 0, 1, n)
	}
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0, 1}}
	g := b.derive(t)
	g.num("gpu0", gpuReplays, 88)
	g.missing("gpu0", gpuReplayRate, "not known")
}

// What heat took of a trace that lasts for many readings is told by those inside it, and so is the clock that its products ran at.
func TestClocksInsideLongTraces(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	cut := append(append(flat(4, 1.41e9), flat(8, 0.705e9)...), flat(100, 1.41e9)...)
	bits := append(append(flat(4, 0), flat(8, reasonSWThermal)...), flat(100, 0)...)
	b.series(d, timeline.SMBusy, 1, flat(112, 1)...)
	b.series(d, timeline.ClockSM, 1, cut...)
	b.series(d, timeline.Reasons, 1, bits...)
	b.in.Base.Clocks[0].Error = 1e9 // which steps were slowed cannot be told
	l := steps(24, 0.5, func(int) owned { return nil })
	l.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 12e9}}
	b.rank(0, "a", l)
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}}
	b.derive(t).about("gpu0", gpuSaveHeat, 8.0/12*0.5, 0.03)

	p := &Pass{Input: b.in}
	if ratio, conf := p.clockRatio(&Cards(b.in)[0], &ledger.GPU{BoostHz: 1.41e9}); ratio > 0.72 || ratio < 0.65 || conf != timeline.Measured {
		t.Errorf("clock ratio %.3f, %v", ratio, conf)
	}
	b.in.Base.Clocks[0].How = timeline.Unplaced // nobody knows which readings are of the trace
	if ratio, _ := p.clockRatio(&Cards(b.in)[0], &ledger.GPU{BoostHz: 1.41e9}); ratio != 1 {
		t.Errorf("clock ratio %.3f", ratio)
	}
}
