package facts

import (
	"slices"
	"testing"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// every gives a metric other windows than its usual ones.
func every(m timeline.Metric, w time.Duration) timeline.Metric {
	m.Window = w
	return m
}

// Readings of the trace's own file: 10 steps of 100 ms from 1 s on, of which 30 ms idle and 20 ms an exposed collective.
func counterBench(b *bench) (timeline.DeviceID, timeline.SourceID) {
	b.rank(0, "a", steps(10, 0.1, func(int) owned { return owned{timeline.HostLaunch: 0.03, timeline.CommTransfer: 0.02} }))
	src := b.source("rank0.json", "nsys", timeline.Recorded)
	d := b.deviceOf(src, 0, "", "GPU-0")
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d}}
	return d, src
}

func TestCounters(t *testing.T) {
	b := newBench()
	d, _ := counterBench(b)
	// A step in owner order: 50 ms compute, 30 ms launch, 20 ms transfer; readings of 10 ms.
	step := func(sm, comm float64) (out []float64) {
		for i := range 10 {
			switch {
			case i < 5:
				out = append(out, sm)
			case i < 8:
				out = append(out, 0)
			default:
				out = append(out, comm)
			}
		}
		return out
	}
	var sm, dram []float64
	for range 10 {
		sm, dram = append(sm, step(0.85, 0.1)...), append(dram, step(0.6, 0.3)...)
	}
	b.seriesAt(d, every(timeline.SMActive, 10*time.Millisecond), 1.01, 0.01, sm...)
	b.seriesAt(d, every(timeline.DRAMActive, 10*time.Millisecond), 1.01, 0.01, dram...)
	g := b.derive(t)
	g.about("gpu0", gpuSMActive, 0.445, 1e-6)
	g.about("gpu0", gpuSMActiveBusy, 0.85, 1e-6)
	g.about("gpu0", gpuDRAMActiveBusy, 0.6, 1e-6)
	g.about("gpu0", gpuCountersCover, 1, 1e-6)
	g.num("gpu0", gpuResident, 0.7)
	g.num("gpu0", gpuFilled, 1)
	g.num("gpu0", gpuTensorUsed, 0)
	g.missing("gpu0", gpuTensorActive, "no log of this GPU (nsys) holds tensor activity")
	if v := g.value("gpu0", gpuSMActiveBusy); v.Conf != timeline.Measured || v.NRefs != 100 || len(v.Refs) != maxRefs {
		t.Errorf("%+v", v)
	}
}

// Kernels far shorter than a reading: what stands still between them does not count.
func TestCountersOfShortKernels(t *testing.T) {
	b := newBench()
	b.rank(0, "a", steps(1000, 0.001, func(int) owned { return owned{timeline.HostLaunch: 0.0006} }))
	d := b.deviceOf(b.source("rank0.json", "nsys", timeline.Recorded), 0, "", "GPU-0")
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d}}
	b.seriesAt(d, every(timeline.SMActive, 10*time.Millisecond), 1.01, 0.01, flat(100, 0.2)...)
	g := b.derive(t)
	g.about("gpu0", gpuSMActive, 0.2, 1e-9)
	g.about("gpu0", gpuSMActiveBusy, 0.5, 1e-9)
	g.num("gpu0", gpuFilled, 0)
}

// A second's reading around a shorter trace says what the run does, not what the trace's window did.
func TestCountersOfAnotherLog(t *testing.T) {
	run := func(how timeline.Placement, from float64, values ...float64) got {
		b := newBench()
		b.rank(0, "a", steps(10, 0.1, func(int) owned { return owned{timeline.HostLaunch: 0.02} }))
		d := b.deviceOf(b.source("dcgm.txt", "dcgmi", how), 0, "", "GPU-0")
		b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d}}
		b.seriesAt(d, timeline.DRAMActive, from, 1, values...)
		return b.derive(t)
	}
	g := run(timeline.Stated, 0.3, 0.1, 0.1, 0.56, 0.1, 0.1) // the third at 2.3 s, of 1.3 s to 2.3 s
	g.about("gpu0", gpuDRAMActiveBusy, 0.7, 1e-9)
	if v := g.value("gpu0", gpuDRAMActiveBusy); v.Conf != timeline.Inferred {
		t.Errorf("confidence %v", v.Conf)
	}
	run(timeline.Unplaced, 0.3, 0.1, 0.1, 0.56).missing("gpu0", gpuDRAMActive, "cannot be placed in time")
	run(timeline.Stated, 9, 0.1, 0.1).missing("gpu0", gpuDRAMActive, "cover 0 % of the analysed window")
}

// Readings that always hold an exposed collective say nothing of computing.
func TestCountersUnderCommunication(t *testing.T) {
	b := newBench()
	d, _ := counterBench(b)
	b.seriesAt(d, every(timeline.SMActive, 200*time.Millisecond), 1.2, 0.2, flat(5, 0.4)...)
	g := b.derive(t)
	g.about("gpu0", gpuSMActive, 0.4, 1e-9)
	g.missing("gpu0", gpuSMActiveBusy, "every reading, over 200ms each, also covers exposed collectives")
}

func TestCountersWithoutTrace(t *testing.T) {
	b := newBench()
	d := b.device(0, "", "")
	b.series(d, timeline.SMBusy, 1, 1, 1, 1, 0.95, 0.1, 0)
	b.series(d, timeline.SMActive, 1, 0.3, 0.3, 0.2, 0.4, 0.1, 0)
	b.series(d, timeline.TensorActive, 1, 0, 0)
	g := b.derive(t)
	g.about("gpu0", gpuSMActive, 1.3/6, 1e-9)
	g.about("gpu0", gpuSMActiveBusy, 0.3, 1e-9)
	g.about("gpu0", gpuResident, 4.05/6, 1e-9)
	g.missing("gpu0", gpuTensorActiveBusy, "only 2 readings")
	g.missing("gpu0", gpuDRAMActive, "(smiquery) holds memory activity")
	if v := g.value("gpu0", gpuSMActiveBusy); v.Conf != timeline.Inferred {
		t.Errorf("confidence %v", v.Conf)
	}
}

// Names say that the products run beside the tensor cores; a pipe that is busier than all else could make it says that they mislead.
// Where names do not tell, a pipe that stands still does.
func TestTensorActivityAgainstNames(t *testing.T) {
	run := func(core int8, active float64) got {
		b := newBench()
		l := steps(10, 0.1, func(int) owned { return nil })
		l.Device.CC = "8.0"
		l.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 8e8}, {Sub: timeline.SubElementwise, NS: 2e8}}
		l.Kernels = []timeline.KernelRow{{Name: "gemm", Class: "matmul", Count: 10, Dur: 8e8, TensorCore: core, Rows: []uint32{7}}, {Name: "add", Class: "elementwise", Count: 10, Dur: 2e8}}
		b.rank(0, "a", l)
		d := b.deviceOf(b.source("rank0.json", "nsys", timeline.Recorded), 0, "", "GPU-0")
		b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d}}
		b.seriesAt(d, every(timeline.TensorActive, 10*time.Millisecond), 1.01, 0.01, flat(100, active)...)
		return b.derive(t)
	}
	g := run(-1, 0.4)
	g.num("gpu0", gpuTCUnused, 0.8)
	g.num("gpu0", gpuTensorUsed, 1)
	g = run(-1, 0)
	g.num("gpu0", gpuTCUnused, 0.8)
	g.num("gpu0", gpuTensorUsed, 0)
	g = run(1, 0.4)
	g.num("gpu0", gpuTCUnused, 0)
	g.num("gpu0", gpuTensorUsed, 0)
	run(0, 0.4).missing("gpu0", gpuTCUnused, "do not tell which units")
	g = run(0, 0)
	g.num("gpu0", gpuTCUnused, 0.8)
	if v := g.value("gpu0", gpuTCUnused); v.NRefs != 1 {
		t.Errorf("%+v", v)
	}
}

func TestPorts(t *testing.T) {
	b := newBench()
	r := b.rank(0, "a", steps(10, 0.1, func(int) owned { return nil }))
	src := b.source("rank0.json", "nsys", timeline.Unplaced) // its own clock is the trace's too
	b.in.Base.Sources[src].Host = "a"
	port := func(name string, m timeline.Metric, values ...float64) {
		tl := b.in.Base
		at := slices.IndexFunc(tl.Tracks, func(t timeline.Track) bool { return t.Name == name })
		if at < 0 {
			at = len(tl.Tracks)
			tl.Tracks = append(tl.Tracks, timeline.Track{Source: src, Kind: timeline.TrackNIC, Proc: -1, Device: -1, Name: name})
		}
		s := timeline.Series{Metric: every(m, 100*time.Millisecond), Track: timeline.TrackID(at)}
		for i, v := range values {
			s.At, s.Value, s.Row = append(s.At, timeline.Time(1.1e9+float64(i)*1e8)), append(s.Value, v), append(s.Row, uint32(i+1))
		}
		tl.Series = append(tl.Series, s)
	}
	port("mlx5_0:1", timeline.NetTx, 0, 8e9, 10e9, 0)
	port("mlx5_1:1", timeline.NetTx, 20e9, 1e9, 0, 0)
	port("mlx5_0:1", timeline.NetRx, 0, 0, 0, 0)
	g := b.derive(t)
	g.num("a", hostPorts, 2)
	g.num("a", hostTxPeak, 20e9)
	g.num("a", hostRxPeak, 0)
	g.missing("a", hostTxComm, "no collective ran")
	r.Collectives = []timeline.Collective{{Start: 1.1e9, End: 1.25e9}, {Start: 1.15e9, End: 1.25e9}} // all of the second reading, half of the third
	g = b.derive(t)
	g.about("a", hostTxComm, (8e9*1+10e9*0.5)/1.5, 1)
	g.num("a", hostRxComm, 0)
	if v := g.value("a", hostTxPeak); len(v.Refs) != 1 || v.Refs[0].Row != 1 {
		t.Errorf("%+v", v)
	}
	none := newBench()
	none.rank(0, "a", steps(2, 0.1, func(int) owned { return nil }))
	none.derive(t).missing("a", hostPorts, "no network port")
}

// A profiler's thousand clocks of one second do not stand for a log's minute.
func TestFineReadingsDoNotHideALog(t *testing.T) {
	b := newBench()
	d := b.device(0, "", "")
	fine := b.deviceOf(b.source("run.sqlite", "nsys", timeline.Recorded), 0, "", "")
	b.series(d, timeline.SMBusy, 1, flat(60, 1)...)
	b.series(d, timeline.ClockSM, 1, flat(60, 1.2e9)...)
	b.seriesAt(fine, timeline.ClockGPC, 30, 0.001, flat(1000, 1.9e9)...)
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d, fine}}
	b.derive(t).num("gpu0", gpuClock, 1.2e9)
}

// Facts of counters are shares; nothing here may pass 1 whatever the readings are.
func TestCountersStayShares(t *testing.T) {
	for _, m := range counterMetrics {
		if m.metric.Unit != unit.Frac || m.whole.Max != 1 || m.own.Max != 1 {
			t.Errorf("%s", m.metric.Name)
		}
	}
	b := newBench()
	d, _ := counterBench(b)
	b.seriesAt(d, every(timeline.SMActive, 10*time.Millisecond), 1.01, 0.01, flat(100, 1)...) // busy though the ledger is idle: another process
	b.derive(t).num("gpu0", gpuSMActiveBusy, 1)
}
