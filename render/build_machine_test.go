package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

// machineInput is two cards and a host: a matrix, what they state, and a log with Xids.
func machineInput(t *testing.T) *Input {
	t.Helper()
	tables, err := ledger.LoadTables(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	b := &timeline.Builder{}
	b.AddClock(0, timeline.Clock{Name: "smi.txt", How: timeline.Recorded, Zoned: true, Wall: true})
	b.AddClock(1, timeline.Clock{Name: "dmesg.txt", Why: "stamps count from boot"})
	*b.Source(0) = timeline.Source{Path: "smi.txt", Format: "smiq", Used: true, Host: "node1"}
	*b.Source(1) = timeline.Source{Path: "dmesg.txt", Format: "kernlog", Used: true, Clock: 1, Host: "node1"}
	var gpus []timeline.TrackID
	for i := range 2 {
		tr := b.GPUTrack(timeline.Device{Index: i, Ordinal: -1, Proc: -1, Name: "NVIDIA A100-SXM4-80GB", Bus: []string{"0000:3b:00", "0000:af:00"}[i]}, "")
		gpus = append(gpus, tr)
		for s := range 4 {
			b.Reading(b.SeriesOf(timeline.SMBusy, tr), timeline.Time(s)*1e9, 1, uint32(s+1))
		}
		b.AddNumber(tr, timeline.AttrPowerLimit, 400, unit.Watt, 5, 3)
		b.AddNumber(tr, timeline.AttrPowerLimit, 300, unit.Watt, 9, 4) // later: it stands
		b.AddAttr(tr, timeline.AttrECC, []string{"Enabled", "Disabled"}[i], 0, 5)
	}
	host := b.Track(timeline.Track{Source: 0, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1})
	b.AddNumber(host, timeline.AttrHostCPUs, 64, unit.Count, 0, 1)
	for i := range 2 {
		for j := range 2 {
			kind := "X"
			if i != j {
				kind = "NV12"
			}
			b.TL.Links = append(b.TL.Links, timeline.Link{A: []string{"GPU0", "GPU1"}[i], B: []string{"GPU0", "GPU1"}[j], Kind: kind, Count: 12, Row: uint32(i + 1)})
		}
	}
	boot := b.Track(timeline.Track{Source: 1, Kind: timeline.TrackGPU, Proc: -1, Device: b.TL.Tracks[gpus[1]].Device, Thread: -1})
	b.AddEvent(timeline.MarkXid, gpus[0], 2e9, 79, "NVRM: Xid", 8)
	b.AddEvent(timeline.MarkXid, gpus[0], 2e9, 79, "NVRM: Xid", 9)
	b.AddEvent(timeline.MarkXid, boot, 3e9, 31, "NVRM: Xid", 10)
	tl := b.Finish()
	in := &facts.Input{Job: &ledger.Job{}, Base: tl, Tables: tables, Window: timeline.Interval{Start: 0, End: 4e9}}
	set, errs := facts.Derive(in)
	for _, e := range errs {
		t.Error(e)
	}
	return &Input{In: in, Facts: set, Verdict: engine.Verdict{Culprit: -1}}
}

// Each rank's log holds the row of its own card: one matrix a host, and not one a file; a file that says otherwise stays apart.
func TestTopologyOfAHost(t *testing.T) {
	in := machineInput(t)
	tl := in.In.Base
	tl.Links = nil
	add := func(path, host, a, b, kind string) {
		id := timeline.SourceID(len(tl.Sources))
		tl.Sources = append(tl.Sources, timeline.Source{Path: path, Format: "nccl-log", Used: true, Host: host})
		tl.Links = append(tl.Links, timeline.Link{Source: id, A: a, B: b, Kind: kind})
	}
	add("rank0.log", "n1", "GPU0", "NIC0", "PIX")
	add("rank1.log", "n1", "GPU1", "NIC0", "SYS")
	add("rank2.log", "n2", "GPU0", "NIC0", "NODE")
	add("old.log", "n1", "GPU1", "NIC0", "PXB")
	add("nobody0.log", "", "GPU0", "NIC0", "PIX")
	add("nobody1.log", "", "GPU1", "NIC0", "PIX")
	r := Build(in)
	var got []string
	for i := range r.Topology {
		m := topologyBlock(&r.Topology[i], true)
		got = append(got, m.Title+": "+strings.Join(m.Parts, " "))
	}
	const how = "How the cards are joined, "
	want := []string{how + "n1: GPU0 GPU1 NIC0", how + "n2: GPU0 NIC0", how + "n1: GPU1 NIC0", how + "nobody0.log: GPU0 NIC0", how + "nobody1.log: GPU1 NIC0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if c := r.Topology[0].Cells; c[0][2] != "PIX" || c[1][2] != "SYS" {
		t.Errorf("cells %v", c)
	}
}

func TestHardwareOffAxis(t *testing.T) {
	r := &Report{OffAxis: []OffAxis{{Metric: "clock_sm_hz", N: 3}}}
	s, _ := hardwareSection(r)
	if strings.Contains(s.Lead, "No clock") || !strings.Contains(s.Lead, "is judged") {
		t.Errorf("readings that no axis shows were recorded: %s", s.Lead)
	}
	if s, _ = hardwareSection(&Report{}); !strings.Contains(s.Lead, "No clock") {
		t.Errorf("nothing was recorded: %s", s.Lead)
	}
}

func TestMachine(t *testing.T) {
	r := Build(machineInput(t))
	if len(r.Machine) != 5 || r.Machine[0].Subject != "node1" || *r.Machine[0].Value != 64 {
		t.Fatalf("states %+v", r.Machine)
	}
	for _, s := range r.Machine {
		if s.Name == timeline.AttrPowerLimit && (*s.Value != 300 || s.Row != 4) {
			t.Errorf("the later statement stands: %+v", s)
		}
	}
	if len(r.Topology) != 1 || r.Topology[0].Cells[0][1] != "NV12" || r.Topology[0].Cells[1][1] != "X" {
		t.Errorf("topology %+v", r.Topology)
	}
	if len(r.Events) != 2 {
		t.Fatalf("events %+v", r.Events)
	}
	if e := r.Events[0]; e.Subject != "gpu0" || e.Code != 79 || e.Count != 2 || *e.AtNS != 2e9 || e.Row != 8 {
		t.Errorf("event %+v", e)
	}
	if e := r.Events[1]; e.AtNS != nil {
		t.Errorf("an event of a clock that is not placed has an instant: %+v", e)
	}
	s, _ := hardwareSection(r)
	kinds := map[string]int{}
	for _, b := range s.Blocks {
		switch b := b.(type) {
		case Table:
			kinds[b.ID] = len(b.Rows)
		case Matrix:
			kinds["matrix"] = len(b.Cells)
			if b.Cells[0][1].Level != 1 || b.Cells[0][0].Level != 0 || len(b.Legend) != 1 {
				t.Errorf("matrix %+v", b)
			}
		}
	}
	if kinds["event-table"] != 2 || kinds["matrix"] != 2 || kinds["card-table"] != 2 || kinds["host-table"] != 1 {
		t.Errorf("blocks %v", kinds)
	}
}
