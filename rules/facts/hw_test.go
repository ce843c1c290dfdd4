package facts

import (
	"math"
	"testing"

	"gpureport/ingest/timeline"
)

const a100 = "NVIDIA A100-SXM4-80GB" // 1410 MHz in the table

func TestThrottleByBits(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	util := append(flat(50, 1), flat(50, 0)...)
	bits := flat(100, 0)
	for i := range 10 {
		bits[i] = reasonHWThermal | 0x8
	}
	for i := 10; i < 30; i++ {
		bits[i] = reasonPowerCap
	}
	for i := 50; i < 100; i++ {
		bits[i] = reasonIdle | reasonSWThermal // idle samples do not count
	}
	b.series(d, timeline.SMBusy, 1, util...)
	b.series(d, timeline.Reasons, 1, bits...)
	g := b.derive(t)
	g.num("gpu0", gpuLoad, 50)
	g.num("gpu0", gpuHWThermal, 0.2)
	g.num("gpu0", gpuPowerCap, 0.4)
	g.num("gpu0", gpuSWThermal, 0)
	g.num("gpu0", gpuThrottled, 0.6)
	if v := g.value("gpu0", gpuHWThermal); v.NRefs != 10 || v.Refs[0].Row != 2 || v.Conf != timeline.Measured {
		t.Errorf("value %+v", v)
	}
}

func TestThrottleByCounters(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	b.series(d, timeline.SMBusy, 1, flat(11, 1)...)
	b.series(d, timeline.Reasons, 1, flat(11, 0)...) // between samples nothing shows
	total := make([]float64, 11)
	for i := range total {
		total[i] = 100 + 0.25*float64(i)
	}
	b.series(d, timeline.ThrottleHWThermal, 1, total...)
	g := b.derive(t)
	g.num("gpu0", gpuHWThermal, 0.25)
	g.num("gpu0", gpuSWThermal, 0)
}

func TestThrottleByDmon(t *testing.T) {
	b := newBench()
	for i, heat := range []float64{0, 1} {
		d := b.device(i, a100, "")
		b.series(d, timeline.SMBusy, 1, flat(10, 1)...)
		b.series(d, timeline.ViolPower, 1, flat(10, 0.6)...)
		b.series(d, timeline.ViolThermal, 1, flat(10, heat)...)
	}
	g := b.derive(t)
	g.num("gpu0", gpuPowerCap, 0.6)
	g.num("gpu0", gpuHWThermal, 0)
	if v := g.value("gpu0", gpuPowerCap); v.Conf != timeline.Inferred {
		t.Errorf("dmon's violations are %v", v.Conf)
	}
	g.missing("gpu1", gpuHWThermal, "do not tell the driver from the hardware")
	g.missing("gpu0", gpuPowerBrake, "holds clock event reasons")
}

func TestThrottleWithoutLoad(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	b.series(d, timeline.SMBusy, 1, flat(10, 0.3)...)
	b.series(d, timeline.Reasons, 1, flat(10, reasonPowerCap)...)
	b.derive(t).missing("gpu0", gpuPowerCap, "under load")
}

func TestClocks(t *testing.T) {
	b := newBench()
	for i, hz := range []float64{1.41e9, 0.94e9, 1.41e9} {
		d := b.device(i, a100, "")
		b.series(d, timeline.SMBusy, 1, append(flat(20, 1), flat(20, 0)...)...)
		b.series(d, timeline.ClockSM, 1, append(flat(20, hz), flat(20, 2.1e8)...)...)
		b.series(d, timeline.ClockSMMax, 1, flat(40, 1.41e9)...)
		bits := flat(40, 0)
		if i == 1 {
			bits = flat(40, reasonHWThermal)
		}
		b.series(d, timeline.Reasons, 1, bits...)
	}
	g := b.derive(t)
	g.num("gpu1", gpuClock, 0.94e9)
	g.num("gpu1", gpuPeers, 0.94/1.41)
	g.num("gpu1", gpuVsSpec, 0.94/1.41)
	g.num("gpu1", gpuVsMax, 0.94/1.41)
	g.num("gpu1", gpuHotClock, 0.94/1.41)
	g.text("gpu1", gpuHealthyFrom, "the other GPUs of its model")
	g.text("gpu0", gpuHealthyFrom, "its own samples that nothing throttled")
	g.missing("gpu0", gpuHotClock, "no sample under load was throttled")
	g.missing("gpu1", gpuSaveHeat, noTrace)

	// With a trace the loss has a size: 60 % of the window follows the clock, which lost a third.
	for i := range 3 {
		l := steps(20, 0.1, func(int) owned { return nil })
		l.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 1200e6}, {Sub: timeline.SubElementwise, NS: 800e6}}
		b.rank(i, "a", l)
	}
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}, "gpu1": {1}, "gpu2": {2}}
	g = b.derive(t)
	g.num("gpu1", gpuSaveHeat, 0.6*(1-0.94/1.41))
	g.num("gpu1", gpuSaveBrake, 0)
	g.num("gpu0", gpuSaveHeat, 0)
	g.num("gpu1", gpuSaveCap, 0) // heat took its clock, not the power limit
	g.num("gpu0", gpuSaveCap, 0)
	g.num("gpu0", gpuSaveLocked, 0)
}

// Throttling that began after the trace costs the traced steps nothing.
func TestClockLossIsOfTheTracedWindow(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	b.series(d, timeline.SMBusy, 1, flat(200, 1)...)
	b.series(d, timeline.ClockSM, 1, append(flat(100, 1.41e9), flat(100, 0.705e9)...)...)
	b.series(d, timeline.Reasons, 1, append(flat(100, 0), flat(100, reasonSWThermal)...)...)
	l := steps(20, 0.1, func(int) owned { return nil })
	l.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 2e9}}
	b.rank(0, "a", l)
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}}
	b.derive(t).num("gpu0", gpuSaveHeat, 0)
	b.in.Base.Clocks[0].How = timeline.Unplaced // nobody knows when: the whole log speaks
	b.derive(t).num("gpu0", gpuSaveHeat, 0.25)
}

func TestSnapshotsProveNothing(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	b.series(d, timeline.SMBusy, 1, 1, 1, 0, 0)
	b.series(d, timeline.Reasons, 1, flat(4, reasonHWThermal)...)
	b.series(d, timeline.ClockSM, 1, flat(4, 1e9)...)
	b.series(d, timeline.PCIeGen, 1, flat(4, 1)...)
	b.series(d, timeline.PCIeWidth, 1, flat(4, 16)...)
	g := b.derive(t)
	for _, f := range []*Decl{gpuHWThermal, gpuClock, gpuLinkLow} {
		g.missing("gpu0", f, "only 2 of the samples show the GPU under load")
	}
}

func TestClockOfUnknownPart(t *testing.T) {
	b := newBench()
	d := b.device(0, "Some Accelerator", "")
	b.series(d, timeline.SMBusy, 1, flat(20, 1)...)
	b.series(d, timeline.ClockSM, 1, flat(20, 1e9)...)
	g := b.derive(t)
	g.missing("gpu0", gpuVsSpec, "no entry for Some Accelerator")
	g.num("gpu0", gpuPeers, 1)
	g.missing("gpu0", gpuSaveCap, noTrace)
	g.missing("gpu0", gpuVsMax, "the highest SM clock")
}

func TestPCIeLink(t *testing.T) {
	b := newBench()
	add := func(i int, util, gen []float64, width float64) {
		d := b.device(i, a100, "")
		n := len(util)
		b.series(d, timeline.SMBusy, 1, util...)
		b.series(d, timeline.PCIeGen, 1, gen...)
		b.series(d, timeline.PCIeWidth, 1, flat(n, width)...)
		b.series(d, timeline.PCIeGenMax, 1, flat(n, 4)...)
		b.series(d, timeline.PCIeWidthMax, 1, flat(n, 16)...)
	}
	busy, idle := flat(10, 1), flat(10, 0)
	add(0, append(busy, idle...), append(flat(10, 4), flat(10, 1)...), 16) // drops only when idle
	add(1, busy, flat(10, 2), 16)                                          // stuck
	add(2, idle, flat(10, 1), 16)                                          // never under load
	g := b.derive(t)
	g.num("gpu0", gpuLinkLow, 0)
	g.num("gpu0", gpuLinkFrac, 1)
	g.num("gpu1", gpuLinkLow, 1)
	g.num("gpu1", gpuLinkSamples, 10)
	g.num("gpu1", gpuLinkFrac, 8/31.5)
	g.num("gpu1", gpuLinkPeer, 8/31.5)
	g.text("gpu1", gpuLinkText, "Gen2 x16 of Gen4 x16")
	g.missing("gpu2", gpuLinkLow, "no sample shows the GPU under load")
	g.missing("gpu1", gpuSaveLink, noTrace)

	b.rank(0, "a", steps(10, 0.1, func(int) owned { return owned{timeline.CopyH2D: 0.02} }))
	b.rank(1, "a", steps(10, 0.1, func(int) owned { return owned{timeline.CopyH2D: 0.02, timeline.CopyD2H: 0.01} }))
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}, "gpu1": {1}}
	g = b.derive(t)
	g.num("gpu0", gpuSaveLink, 0)
	g.num("gpu1", gpuSaveLink, 0.3*(1-8/31.5))
}

func TestGPULost(t *testing.T) {
	b := newBench()
	for i := range 2 {
		b.series(b.device(i, a100, ""), timeline.SMBusy, 1, flat(5, 1)...)
	}
	tl := b.in.Base
	for i := range 3 {
		tl.Marks.At = append(tl.Marks.At, timeline.Time(10+i))
		tl.Marks.Track = append(tl.Marks.Track, 1)
		tl.Marks.Kind = append(tl.Marks.Kind, []timeline.MarkKind{timeline.MarkGPULost, timeline.MarkGPULost, timeline.MarkReadFailed}[i])
		tl.Marks.Name = append(tl.Marks.Name, 0)
		tl.Marks.Row = append(tl.Marks.Row, uint32(90+i))
	}
	g := b.derive(t)
	g.num("gpu0", gpuLost, 0)
	g.num("gpu1", gpuLost, 2)
	if v := g.value("gpu1", gpuLost); v.Refs[0].String() != "smi.csv:90" {
		t.Errorf("refs %v", v.Refs)
	}
}

func TestGPUSlow(t *testing.T) {
	b := newBench()
	row := func(name string, count, median int64) timeline.KernelRow {
		return timeline.KernelRow{Name: name, Class: "matmul", Count: count, Median: median, Dur: count * median, Rows: []uint32{5}}
	}
	for i, slow := range []int64{100, 100, 140} {
		l := steps(10, 0.1, func(int) owned { return nil })
		l.Kernels = []timeline.KernelRow{row("gemm", 1000, slow*1000), row("mine"+string(rune('a'+i)), 100, 1000),
			row("other count", 100*int64(i+1), 2000), {Name: "nccl", Class: "comm", Count: 10, Median: 1e6, Dur: 1e9}}
		b.rank(i, "a", l)
	}
	g := b.derive(t)
	g.num("gpu0", gpuScore, 1)
	g.num("gpu2", gpuScore, 100.0/140)
	g.num("gpu2", gpuSaveSlow, 40.0/140)
	if v := g.value("gpu2", gpuScored); v.Num < 0.9 || v.Num >= 1 {
		t.Errorf("compared %v", v.Num)
	}
	if v := g.value("gpu2", gpuScore); v.Conf != timeline.Hint || len(v.Refs) != 1 {
		t.Errorf("score %+v", v)
	}
	// With shapes only equal products count: gpu1 is slower at them, gpu2 has others.
	for i, r := range b.in.Job.Ranks {
		m := timeline.MatmulRow{Op: "aten::mm", M: 8192, N: 2048, K: 2048, DType: "bf16", Count: 1000, Dur: 1000 * []int64{100e3, 125e3, 140e3}[i], Row: 9}
		if i == 2 {
			m.M = 10240
		}
		r.Rank.Matmuls = []timeline.MatmulRow{m}
	}
	g = b.derive(t)
	g.num("gpu0", gpuScore, 1)
	g.num("gpu1", gpuScore, 0.8)
	g.missing("gpu2", gpuScore, "other shapes")
	if v := g.value("gpu1", gpuScore); v.Conf != timeline.Measured || v.Refs[0].Row != 9 {
		t.Errorf("score %+v", v)
	}
	one := newBench()
	one.rank(0, "a", b.in.Job.Ranks[0].GPUs[0])
	one.derive(t).missing("gpu0", gpuScore, "only one GPU")
}

func TestPairedTakesTheNearest(t *testing.T) {
	b := newBench()
	d := b.device(0, "", "")
	other := b.deviceOf(b.source("x.log", "dmon", timeline.Unplaced), 0, "", "")
	b.seriesAt(d, timeline.SMBusy, 1, 1, 1, 1, 1)
	b.seriesAt(d, timeline.ClockSM, 1.4, 1, 1, math.NaN(), math.NaN(), 1)
	b.seriesAt(other, timeline.Power, 1, 1, 1, 1, 1)
	p := &Pass{Input: b.in}
	s := b.in.Base.Series
	if got := p.paired(&s[0], &s[1]); got[0] != 0 || got[1] != 0 || got[2] != 0 && got[2] != 1 {
		t.Errorf("paired %v", got)
	}
	for _, j := range p.paired(&s[0], &s[2]) {
		if j >= 0 {
			t.Error("paired with a log whose clock nobody placed")
		}
	}
}

func TestHotPeersAreNoMeasureOfHealth(t *testing.T) {
	b := newBench()
	for i := range 2 {
		d := b.device(i, a100, "")
		b.series(d, timeline.SMBusy, 1, flat(20, 1)...)
		b.series(d, timeline.ClockSM, 1, flat(20, 1128e6)...)
		b.series(d, timeline.Reasons, 1, flat(20, reasonHWThermal)...)
	}
	g := b.derive(t)
	g.text("gpu0", gpuHealthyFrom, "the data sheet")
	g.about("gpu0", gpuHotClock, 0.8, 1e-9) // of 1410 MHz, not of the other hot card's clock
}
