package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// kernelLog adds a log that covers [from, to) seconds and would have shown Xids.
func (b *bench) kernelLog(how timeline.Placement, from, to int) timeline.SourceID {
	src := b.source("dmesg.txt", "kernlog", how)
	s := &b.in.Base.Sources[src]
	s.Used, s.Watches = true, []timeline.MarkKind{timeline.MarkXid, timeline.MarkSXid}
	s.Coverage = []timeline.Interval{{Start: timeline.Time(from) * 1e9, End: timeline.Time(to) * 1e9}}
	return src
}

// track gives the track of a GPU in a source.
func (b *bench) track(src timeline.SourceID, d timeline.DeviceID) timeline.TrackID {
	b.in.Base.Tracks = append(b.in.Base.Tracks, timeline.Track{Source: src, Kind: timeline.TrackGPU, Proc: -1, Device: d})
	return timeline.TrackID(len(b.in.Base.Tracks) - 1)
}

func (b *bench) attr(t timeline.TrackID, name, text string, value float64, u unit.Unit) {
	b.in.Base.Attrs = append(b.in.Base.Attrs, timeline.Attr{Track: t, Name: name, Text: text, Value: value, Unit: u, Row: 7})
}

func TestXids(t *testing.T) {
	b := newBench()
	for i := range 2 {
		b.series(b.device(i, a100, ""), timeline.SMBusy, 1, flat(100, 1)...)
	}
	b.in.Window = timeline.Interval{Start: 0, End: 100e9}
	src := b.kernelLog(timeline.Recorded, 0, 50)
	tr := b.track(src, 1)
	m := &b.in.Base.Marks
	m.Append(timeline.MarkXid, tr, 10e9, 31, 0, 3)
	m.Append(timeline.MarkXid, tr, 12e9, 79, 0, 4)
	m.Append(timeline.MarkXid, tr, 13e9, 74, 0, 5)
	m.Append(timeline.MarkXid, tr, 14e9, 45, 0, 6)
	m.Append(timeline.MarkXid, tr, 15e9, 31, 0, 8)
	m.Append(timeline.MarkXid, tr, 500e9, 48, 0, 9) // after the recording
	g := b.derive(t)
	g.num("gpu0", gpuXids, 0)
	g.text("gpu0", gpuXidKind, "none")
	if v := g.value("gpu0", gpuXids); v.Cover != 0.5 {
		t.Errorf("the log covers %v of the window, want half", v.Cover)
	}
	g.num("gpu1", gpuXids, 2)
	g.num("gpu1", gpuXidLink, 1)
	g.num("gpu1", gpuXidApp, 2)
	g.text("gpu1", gpuXidKind, "restart")
	g.text("gpu1", gpuXidText, "Xid 31 (memory page fault) 2 times at +10.0 s, Xid 45 (preemptive cleanup) at +14.0 s, Xid 74 (NVLink error) at +13.0 s, Xid 79 (the GPU has fallen off the bus) at +12.0 s")
	if v := g.value("gpu1", gpuXids); v.NRefs != 2 || v.Refs[0].String() != "dmesg.txt:4" {
		t.Errorf("refs %v", v.Refs)
	}
	g.num("run", runSXids, 0)
}

func TestXidsWithoutALog(t *testing.T) {
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, flat(10, 1)...)
	b.in.Window = timeline.Interval{Start: 0, End: 10e9}
	g := b.derive(t)
	g.missing("gpu0", gpuXids, "no kernel log")
	g.missing("run", runSXids, "no kernel log")

	src := b.kernelLog(timeline.Unplaced, 0, 10)
	b.in.Base.Marks.Append(timeline.MarkXid, b.track(src, 0), 5e9, 79, 0, 3)
	b.derive(t).missing("gpu0", gpuXids, "cannot be told")

	b.in.Base.Clocks[b.in.Base.Sources[src].Clock].How = timeline.Recorded
	b.in.Base.Sources[src].Coverage = []timeline.Interval{{Start: 20e9, End: 30e9}}
	b.in.Base.Marks = timeline.Marks{}
	b.derive(t).missing("gpu0", gpuXids, "nothing of the time")
}

func TestECC(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	b.series(d, timeline.SMBusy, 1, flat(10, 1)...)
	b.in.Window = timeline.Interval{Start: 0, End: 20e9}
	g := b.derive(t)
	g.missing("gpu0", gpuRemapPending, "row remaps")
	g.missing("gpu0", gpuRecovery, "needs a reset")
	b.seriesAt(d, timeline.RemapPending, 90, 1, 1) // a dump taken after the window: the state outlives it
	b.series(d, timeline.RemapFailed, 1, 0, 0)
	b.series(d, timeline.ECCUncorrected, 1, 40, 43, 43) // of the card's life: 3 of them now
	b.attr(b.track(0, d), timeline.AttrRecovery, "None", 0, unit.Text)
	g = b.derive(t)
	g.num("gpu0", gpuRemapPending, 1)
	g.num("gpu0", gpuRemapFailed, 0)
	g.num("gpu0", gpuECC, 3)
	g.num("gpu0", gpuRecovery, 0)
	b.in.Base.Attrs[0].Text = "Drain P2P"
	b.derive(t).num("gpu0", gpuRecovery, 1)
	b.series(d, timeline.ECCVolSRAMUnc, 1, 1)
	b.series(d, timeline.ECCVolDRAMUnc, 1, 4)
	b.derive(t).num("gpu0", gpuECC, 5)

	b = newBench()
	b.series(b.device(0, a100, ""), timeline.ECCUncorrected, 1, 7)
	b.derive(t).missing("gpu0", gpuECC, "whole life (7)")

	// A threshold that the driver does not print is one that the part does not have; where no state of the memory is known it is missing.
	b = newBench()
	d = b.device(0, a100, "")
	b.series(d, timeline.SMBusy, 1, flat(10, 1)...)
	b.derive(t).missing("gpu0", gpuSRAM, "SRAM")
	b.series(d, timeline.RemapFailed, 1, 0, 0)
	b.derive(t).num("gpu0", gpuSRAM, 0)
	b.attr(b.track(0, d), timeline.AttrSRAMThreshold, "", 1, unit.Flag)
	b.derive(t).num("gpu0", gpuSRAM, 1)
	b.attr(b.track(0, d), timeline.AttrDrain, "", 0, unit.Flag)
	b.derive(t).num("gpu0", gpuRecovery, 0)
	b.in.Base.Attrs[1].Value = 1
	b.derive(t).num("gpu0", gpuRecovery, 1)
}

func TestPowerLimitOfPeers(t *testing.T) {
	b := newBench()
	for i, w := range []float64{400, 400, 250} {
		b.series(b.device(i, a100, ""), timeline.PowerLimit, 1, flat(5, w)...)
	}
	d := b.device(3, "Tesla T4", "") // another model has its own limit; only a dump states it
	b.series(d, timeline.SMBusy, 1, flat(5, 1)...)
	b.attr(b.track(0, d), timeline.AttrPowerLimit, "", 70, unit.Watt)
	g := b.derive(t)
	g.num("gpu0", gpuLimitPeers, 1)
	g.num("gpu2", gpuLimitPeers, 0.625)
	g.num("gpu3", gpuLimitPeers, 1)
}

func TestReplays(t *testing.T) {
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.PCIeReplays, 10, 7, 7, 27, 5, 6) // 20 more, a reset, 1 more
	b.series(b.device(1, a100, ""), timeline.PCIeReplays, 10, 900)
	g := b.derive(t)
	g.num("gpu0", gpuReplays, 21)
	g.num("gpu0", gpuReplayRate, 21.0/40)
	g.missing("gpu1", gpuReplays, "record it twice")
}

func TestNVLink(t *testing.T) {
	b := newBench()
	for i, up := range []float64{12, 11} {
		d := b.device(i, a100, "")
		b.series(d, timeline.NVLinkUp, 1, 12, up)
		b.series(d, timeline.NVLinkErrors, 1, 100, 100+float64(i))
	}
	pcie := b.device(2, "Tesla T4", "")
	b.series(pcie, timeline.SMBusy, 1, flat(3, 1)...)
	for a := range 3 {
		for c := range 3 {
			if a != c {
				n := int32(12)
				if a == 1 || c == 1 {
					n = 6
				}
				b.in.Base.Links = append(b.in.Base.Links, timeline.Link{A: gpuName(a), B: gpuName(c), Kind: "NV", Count: n, Row: uint32(a + 2)})
			}
		}
	}
	g := b.derive(t)
	g.num("gpu0", gpuNVDown, 0)
	g.num("gpu1", gpuNVDown, 1)
	g.num("gpu1", gpuNVUp, 11)
	g.num("gpu0", gpuNVErrors, 0)
	g.num("gpu1", gpuNVErrors, 1)
	g.num("gpu0", gpuNVTopo, 1)
	g.num("gpu1", gpuNVTopo, 12.0/18)
	g.num("gpu2", gpuNVExpect, 0) // a board without NVLink is whole without one
	g.num("gpu2", gpuNVDown, 0)
	g.missing("gpu0", gpuSaveNVLink, "trace")
}

func gpuName(i int) string { return "GPU" + string(rune('0'+i)) }

func TestNUMA(t *testing.T) {
	b := newBench()
	for i := range 3 {
		d := b.device(i, a100, "")
		b.series(d, timeline.SMBusy, 1, flat(3, 1)...)
		b.attr(b.track(0, d), timeline.AttrNUMANode, "", float64(i%2), unit.Count)
	}
	tl := b.in.Base
	tl.Tracks = append(tl.Tracks, timeline.Track{Kind: timeline.TrackHostReadings, Proc: -1, Device: -1})
	b.attr(timeline.TrackID(len(tl.Tracks)-1), timeline.AttrHostNUMACPUs, "0:0-3,8-11 1:4-7", 0, unit.Text)
	for i, cpus := range []string{"0-1", "0-3", "0-11"} {
		tl.Tracks = append(tl.Tracks, timeline.Track{Kind: timeline.TrackProcess, Thread: int64(100 + i), Proc: -1, Device: -1})
		p := timeline.TrackID(len(tl.Tracks) - 1)
		b.attr(p, timeline.AttrProcGPU, string(rune('0'+i)), 0, unit.Text)
		b.attr(p, timeline.AttrProcCPUs, cpus, 0, unit.Text)
	}
	g := b.derive(t)
	g.num("gpu0", gpuRemote, 0)
	g.num("gpu1", gpuRemote, 1)
	g.num("gpu2", gpuRemote, 4.0/12) // may run anywhere
	g.text("gpu1", gpuNUMANode, "node 1, CPUs 4-7")
	g.text("gpu1", gpuUnbound, "0-3")
}

func TestNUMAByTheTracedProcess(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	b.series(d, timeline.SMBusy, 1, flat(3, 1)...)
	b.attr(b.track(0, d), timeline.AttrCPUAffinity, "0-7", 0, unit.Text)
	r := b.rank(0, "node1", steps(4, 10, func(int) owned { return owned{timeline.Compute: 10} }))
	r.Process.PID = 4242
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d}}
	b.derive(t).missing("gpu0", gpuRemote, "was not recorded")
	for _, p := range []struct {
		pid  int64
		cpus string
	}{{17, "0-3"}, {4242, "8-15"}} {
		b.in.Base.Tracks = append(b.in.Base.Tracks, timeline.Track{Kind: timeline.TrackProcess, Thread: p.pid, Proc: -1, Device: -1})
		b.attr(timeline.TrackID(len(b.in.Base.Tracks)-1), timeline.AttrProcCPUs, p.cpus, 0, unit.Text)
	}
	b.derive(t).num("gpu0", gpuRemote, 1)
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]int{"0-3,8": 5, "5": 1, "": 0, "3-1": 0, "0-99999999": 0, "a": 0, "0-1, 4-5": 4} {
		if got := len(parseCPUs(text)); got != want {
			t.Errorf("%q: %d CPUs, want %d", text, got, want)
		}
	}
}

func TestSharedGPU(t *testing.T) {
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.GPUProcesses, 1, 1, 3, 1)
	b.series(b.device(1, a100, ""), timeline.GPUProcesses, 1, 0, 1)
	b.attr(b.track(0, 1), timeline.AttrMIG, "Enabled", 0, unit.Text)
	g := b.derive(t)
	g.num("gpu0", gpuOthers, 3)
	g.num("gpu0", gpuTenants, 2)
	g.num("gpu0", gpuTenantTime, 1.0/3)
	g.text("gpu0", gpuTenantSays, "in 1 of 3 readings")
	g.num("gpu1", gpuTenants, 0)
	g.num("gpu1", gpuTenantTime, 0)
	g.text("gpu1", gpuTenantSays, "in 0 of 2 readings: what one snapshot shows may have lasted for a moment")
	if v := g.value("gpu1", gpuTenantTime); v.Conf != timeline.Inferred {
		t.Errorf("a snapshot is %v", v.Conf)
	}
	g.num("gpu1", gpuMIG, 1)
	g.missing("gpu0", gpuMIG, "MIG")
}
