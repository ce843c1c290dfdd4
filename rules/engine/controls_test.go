package engine_test

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

const ms = int64(1e6)

// control is one GPU's run of equal steps, with what samples of a second show beside it.
type control struct {
	step     timeline.Owners
	hostBusy int64 // of a step, ns
	kernels  []timeline.KernelRow
	matmuls  []timeline.MatmulRow
	rank     func(*timeline.RankTables)
	samples  []sampled
}

type sampled struct {
	metric timeline.Metric
	value  []float64
}

func (c *control) checks(t *testing.T) ([]engine.Check, engine.Verdict) {
	t.Helper()
	const n = 30
	tables, err := ledger.LoadTables(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	g := timeline.GPULedger{Device: timeline.Device{Index: 0, Name: "NVIDIA A100-SXM4-80GB", CC: "8.0", SMs: 108}, Ops: n * 100, Kernels: c.kernels}
	r := &timeline.Reduced{Path: "rank0.json", Process: timeline.Process{Rank: 0, Host: "a"}, Steps: timeline.StepMarks{How: "ProfilerStep", Confidence: timeline.Measured}}
	r.Rank.Operators, r.Rank.Shapes, r.Rank.OptimizerNS = true, true, -1
	for i := range n {
		g.Steps = append(g.Steps, timeline.StepRow{Start: g.Window.End, Dur: c.step.Sum(), Owners: c.step})
		g.Owners.Add(&c.step)
		g.Window.End += timeline.Time(c.step.Sum())
		r.Steps.Index = append(r.Steps.Index, int64(i))
		r.HostBusy, r.NextNS = append(r.HostBusy, c.hostBusy), append(r.NextNS, 0)
	}
	for _, o := range []timeline.Owner{timeline.Compute, timeline.CopyH2D, timeline.CopyD2H, timeline.CommTransfer, timeline.CommPeerWait} {
		g.Busy += g.Owners[o]
	}
	if v := g.Owners[timeline.CopyH2D]; v > 0 {
		g.Subs[timeline.CopyH2D] = []timeline.SubNS{{Sub: timeline.SubPinned, NS: v}}
		g.Copies = []timeline.CopyRow{{Kind: timeline.DirH2D, Memory: timeline.MemPinned, Count: n, Bytes: 1 << 30, Dur: v, Exposed: v}}
	}
	r.Rank.Matmuls = c.matmuls
	for _, m := range c.matmuls {
		r.Rank.MatmulNS += m.Dur
		r.Rank.MatmulShapedNS += m.Dur
	}
	if c.rank != nil {
		c.rank(&r.Rank)
	}
	r.GPUs = []timeline.GPULedger{g}
	in := &facts.Input{Job: &ledger.Job{Ranks: []*timeline.Reduced{r}, World: 1, GPUs: []ledger.GPURef{{ID: "gpu0"}}}, Base: &timeline.Timeline{}, Tables: tables}
	if len(c.samples) > 0 {
		tl := in.Base
		tl.Sources = []timeline.Source{{Path: "query.csv", Format: "smiquery", Used: true}}
		tl.Clocks = []timeline.Clock{{How: timeline.Recorded}}
		tl.Devices = []timeline.Device{{Index: 0, Proc: -1, Name: "NVIDIA A100-SXM4-80GB"}}
		tl.Tracks = []timeline.Track{{Kind: timeline.TrackGPU, Device: 0, Proc: -1}}
		for _, x := range c.samples {
			s := timeline.Series{Metric: x.metric}
			for i, v := range x.value {
				s.At, s.Value, s.Row = append(s.At, timeline.Time(i)*1e9), append(s.Value, v), append(s.Row, uint32(i+2))
			}
			tl.Series = append(tl.Series, s)
		}
		in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}}
	}
	set, bugs := facts.Derive(in)
	for _, b := range bugs {
		t.Error(b)
	}
	checks := shipped(t).Evaluate(set)
	return checks, engine.Decide(checks, engine.InputOf(set))
}

func checkOf(t *testing.T, checks []engine.Check, id string) *engine.Check {
	t.Helper()
	for i := range checks {
		if checks[i].Rule.ID == id {
			return &checks[i]
		}
	}
	t.Fatalf("no rule %s", id)
	return nil
}

func constant(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// The negative controls of the known cases: what must stay quiet, or may not promise a gain.
func TestControls(t *testing.T) {
	t.Run("N1: an idle GPU lowers its link by design", func(t *testing.T) {
		link := func(util float64) []sampled {
			return []sampled{{timeline.SMBusy, constant(120, util)}, {timeline.PCIeGen, constant(120, 1)}, {timeline.PCIeGenMax, constant(120, 4)},
				{timeline.PCIeWidth, constant(120, 16)}, {timeline.PCIeWidthMax, constant(120, 16)}}
		}
		work := timeline.Owners{timeline.Compute: 100 * ms}
		idle, _ := (&control{step: work, samples: link(0)}).checks(t)
		if c := checkOf(t, idle, "hw.pcie-link"); c.Outcome != engine.Unknown || !strings.Contains(c.Says, "idle") {
			t.Errorf("idle: %s, %s", c.Outcome, c.Says)
		}
		busy, _ := (&control{step: work, samples: link(0.9)}).checks(t)
		if c := checkOf(t, busy, "hw.pcie-link"); c.Outcome != engine.Finding {
			t.Errorf("under load: %s, %s", c.Outcome, c.Says)
		}
	})
	t.Run("N2: a wait that only moves saves nothing", func(t *testing.T) {
		step := timeline.Owners{timeline.Compute: 80 * ms, timeline.CopyH2D: 8 * ms, timeline.HostSync: 8 * ms, timeline.HostLaunch: 4 * ms}
		moved, v := (&control{step: step, hostBusy: 98 * ms}).checks(t) // the host is as busy as the step is long
		for _, id := range []string{"data.h2d-blocking", "idle.host-sync"} {
			if c := checkOf(t, moved, id); c.Outcome != engine.Pass {
				t.Errorf("%s: %s, %s", id, c.Outcome, c.Says)
			}
		}
		if v.Class == engine.Transfer || v.Class == engine.HostBound {
			t.Errorf("verdict %+v", v)
		}
		free, _ := (&control{step: step, hostBusy: 40 * ms}).checks(t)
		for _, id := range []string{"data.h2d-blocking", "idle.host-sync"} {
			if c := checkOf(t, free, id); c.Outcome != engine.Finding || c.Saving == nil || *c.Saving > 0.0801 {
				t.Errorf("%s with a free host: %s, %s", id, c.Outcome, c.Says)
			}
		}
	})
	t.Run("N3: a power cap may be noted and is not raised", func(t *testing.T) {
		cap := []sampled{{timeline.SMBusy, constant(168, 1)}, {timeline.Power, constant(168, 315)}, {timeline.PowerLimit, constant(168, 315)},
			{timeline.Reasons, constant(168, 4)}, {timeline.ClockSM, constant(168, 0.9e9)}, {timeline.ClockSMMax, constant(168, 1.41e9)}}
		checks, _ := (&control{step: timeline.Owners{timeline.Compute: 100 * ms}, samples: cap}).checks(t)
		if c := checkOf(t, checks, "hw.power-cap"); c.Outcome != engine.Finding || len(c.Withheld) == 0 {
			t.Errorf("%s: %s, withheld %v", c.Outcome, c.Says, c.Withheld)
		}
		for i := range checks {
			c := &checks[i]
			for _, a := range c.Do {
				if s := strings.ToLower(a.Say); strings.Contains(s, "power limit") && (strings.Contains(s, "raise") || strings.Contains(s, "restore")) {
					t.Errorf("%s advises: %s", c.Rule.ID, a.Say)
				}
			}
		}
	})
	t.Run("N4: padding to the tensor cores is a small matter", func(t *testing.T) {
		checks, _ := (&control{step: timeline.Owners{timeline.Compute: 100 * ms},
			kernels: []timeline.KernelRow{{Name: "ampere_bf16_s16816gemm_bf16_128x64", Class: "matmul", Count: 300, Dur: 2900 * ms, TensorCore: 1, DType: "bf16"}},
			matmuls: []timeline.MatmulRow{{Op: "aten::mm", M: 8192, N: 50257, K: 768, Batch: 1, DType: "bf16", Count: 30, Dur: 2900 * ms, TensorCore: 1}}}).checks(t)
		if c := checkOf(t, checks, "shape.misaligned"); c.Outcome != engine.Finding || c.Severity > engine.Low {
			t.Errorf("%s %s: %s", c.Outcome, c.Severity, c.Says)
		}
	})
	t.Run("N5: a shorter optimizer kernel that is launched later gains nothing", func(t *testing.T) {
		step := timeline.Owners{timeline.Compute: 40 * ms, timeline.HostLaunch: 60 * ms}
		checks, v := (&control{step: step, hostBusy: 100 * ms, kernels: []timeline.KernelRow{{Name: "multi_tensor_apply_kernel", Class: "optimizer", Count: 300, Dur: 600 * ms}},
			rank: func(t *timeline.RankTables) { t.OptimizerNS = 900 * ms }}).checks(t)
		if c := checkOf(t, checks, "kernel.optimizer-share"); c.Outcome == engine.Finding && (c.Saving == nil || *c.Saving > 0) {
			t.Errorf("%s, saving %v", c.Says, *c.Saving)
		}
		if v.Class != engine.HostBound {
			t.Errorf("verdict %+v", v)
		}
	})
	t.Run("N6: what is not explained stays unknown", func(t *testing.T) {
		step := timeline.Owners{timeline.Compute: 12 * ms, timeline.HostSync: 4 * ms, timeline.UnknownOwner: 84 * ms}
		checks, v := (&control{step: step, hostBusy: 20 * ms}).checks(t)
		if c := checkOf(t, checks, "idle.host-sync"); c.Outcome != engine.Finding || *c.Saving > 0.0401 {
			t.Errorf("%s", c.Says)
		}
		if v.Class != engine.InsufficientEvidence {
			t.Errorf("verdict %+v", v)
		}
	})
	t.Run("N7: fewer threads are advised only where the loader is waited for", func(t *testing.T) {
		checks, _ := (&control{step: timeline.Owners{timeline.Compute: 99 * ms, timeline.HostDataloader: ms}, hostBusy: 50 * ms}).checks(t)
		for i := range checks {
			if c := &checks[i]; c.Outcome == engine.Finding && (c.Rule.Class == engine.DataPipeline || c.Rule.ID == "data.thread-oversub") {
				t.Errorf("%s: %s", c.Rule.ID, c.Says)
			}
		}
	})
	t.Run("N8: emptying the cache is no speed-up", func(t *testing.T) {
		for _, r := range shipped(t).List {
			for _, do := range r.Do {
				if s := strings.ToLower(do.Say); strings.Contains(s, "empty_cache") && !strings.HasPrefix(s, "drop ") {
					t.Errorf("%s advises: %s", r.ID, do.Say)
				}
			}
		}
		checks, _ := (&control{step: timeline.Owners{timeline.Compute: 60 * ms, timeline.HostAllocator: 40 * ms}, hostBusy: 50 * ms}).checks(t)
		c := checkOf(t, checks, "idle.allocator")
		if c.Outcome != engine.Finding || !strings.Contains(strings.Join(c.Dont, " "), "empty_cache") {
			t.Errorf("%s: %v", c.Outcome, c.Dont)
		}
	})
}
