package facts

import (
	"io/fs"
	"math"
	"testing"

	"pgregory.net/rapid"

	"gpureport/ingest/timeline"
	"gpureport/rules"
	"gpureport/rules/ledger"
)

const (
	us = int64(1000)
	ms = 1000 * us
)

func loadTables(t testing.TB) *ledger.Tables {
	t.Helper()
	sub, err := fs.Sub(rules.FS, "tables")
	if err != nil {
		t.Fatal(err)
	}
	tab, err := ledger.LoadTables(sub)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

var h100 = timeline.Device{Name: "NVIDIA H100 80GB HBM3", Index: 0, Ordinal: 0, SMs: 132, CC: "9.0", Vendor: "nvidia", Memory: 85e9}

// handRank is one traced rank with one GPU, whose window is n steps of equal owners.
func handRank(rank int, dev timeline.Device, n int, step timeline.Owners) *timeline.Reduced {
	g := timeline.GPULedger{Device: dev}
	at := timeline.Time(0)
	r := &timeline.Reduced{Path: "rank.json", Process: timeline.Process{Rank: rank, Host: "a"}}
	for i := range n {
		g.Steps = append(g.Steps, timeline.StepRow{Start: at, Dur: step.Sum(), Owners: step})
		g.Owners.Add(&step)
		at += timeline.Time(step.Sum())
		r.Steps.Index = append(r.Steps.Index, int64(i))
	}
	g.Window = timeline.Interval{Start: 0, End: at}
	for o, ns := range g.Owners {
		if !gapOwner(timeline.Owner(o)) {
			g.Busy += ns
		}
	}
	r.Steps.How, r.Steps.Confidence = "ProfilerStep", timeline.Measured
	r.GPUs = []timeline.GPULedger{g}
	r.Rank.OptimizerNS, r.Rank.CastNS = -1, -1
	return r
}

func handInput(t testing.TB, ranks ...*timeline.Reduced) *Input {
	job := &ledger.Job{Ranks: ranks, World: len(ranks)}
	for i := range ranks {
		job.GPUs = append(job.GPUs, ledger.GPURef{ID: "gpu" + string(rune('0'+i)), Rank: i})
	}
	return &Input{Job: job, Base: &timeline.Timeline{}, Tables: loadTables(t)}
}

// readings adds a sampled log of gpu0 with one series a metric, a reading a second.
func readings(in *Input, of map[string][]float64, order ...timeline.Metric) {
	tl := in.Base
	tl.Sources = []timeline.Source{{Path: "query.csv", Format: "smiquery"}}
	tl.Clocks = []timeline.Clock{{How: timeline.Recorded}}
	tl.Devices = []timeline.Device{{Index: 0, Proc: -1}}
	tl.Tracks = []timeline.Track{{Kind: timeline.TrackGPU, Device: 0, Proc: -1}}
	for _, m := range order {
		s := timeline.Series{Metric: m}
		for i, v := range of[m.Name] {
			s.At, s.Value, s.Row = append(s.At, timeline.Time(i)*1e9), append(s.Value, v), append(s.Row, uint32(i))
		}
		tl.Series = append(tl.Series, s)
	}
	in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}}
}

// derive runs the whole catalogue and fails on a deriver's bug.
func derive(t testing.TB, in *Input) *Set {
	t.Helper()
	set, errs := Derive(in)
	for _, err := range errs {
		t.Error(err)
	}
	return set
}

// subject finds a subject by its name.
func subject(t testing.TB, s *Set, id string) int {
	t.Helper()
	for i := range s.Subjects {
		if s.Subjects[i].ID == id {
			return i
		}
	}
	t.Fatalf("no subject %s", id)
	return -1
}

// want holds a fact against a number; NaN wants it Missing.
func want(t testing.TB, s *Set, sub string, id ID, x float64) Value {
	t.Helper()
	v, need := s.Get(subject(t, s, sub), id)
	switch {
	case math.IsNaN(x) && need == nil:
		t.Errorf("%s of %s is %v, want it missing", id, sub, v.Num)
	case !math.IsNaN(x) && need != nil:
		t.Errorf("%s of %s is missing (%s), want %v", id, sub, need.Why, x)
	case !math.IsNaN(x) && math.Abs(v.Num-x) > 1e-6*math.Max(1, math.Abs(x)):
		t.Errorf("%s of %s is %v, want %v", id, sub, v.Num, x)
	}
	if need != nil && need.Why == "" {
		t.Errorf("%s of %s is missing without a reason", id, sub)
	}
	return v
}

var missing = math.NaN()

func TestEveryFactIsSetOrMissed(t *testing.T) {
	empty := handRank(0, timeline.Device{Index: -1, Ordinal: -1}, 0, timeline.Owners{})
	none := &timeline.Reduced{Path: "host.json", Process: timeline.Process{Rank: -1}}
	logs := &Input{Job: &ledger.Job{}, Base: &timeline.Timeline{}, Tables: loadTables(t)}
	readings(logs, map[string][]float64{"sm_busy_frac": {0.1, 0.9}}, timeline.SMBusy)
	noTables := handInput(t, handRank(0, h100, 3, timeline.Owners{timeline.Compute: 5 * ms}))
	noTables.Tables = nil
	onlyHost := handInput(t)
	onlyHost.Job.Ranks = []*timeline.Reduced{none}
	for _, in := range []*Input{
		{Job: &ledger.Job{}, Base: &timeline.Timeline{}},
		handInput(t, empty), onlyHost, logs, noTables,
		handInput(t, handRank(0, h100, 12, timeline.Owners{timeline.Compute: 5 * ms, timeline.CommUndivided: ms})),
	} {
		derive(t, in)
	}
}

// TestNoFactOutOfRange: whatever a reduced rank holds, every fact stays inside its legal range.
func TestNoFactOutOfRange(t *testing.T) {
	tab := loadTables(t)
	rapid.Check(t, func(rt *rapid.T) {
		n := func(name string, hi int64) int64 { return rapid.Int64Range(0, hi).Draw(rt, name) }
		var ranks []*timeline.Reduced
		for i := range rapid.IntRange(1, 3).Draw(rt, "ranks") {
			var step timeline.Owners
			for o := range step {
				step[o] = n("owner", 20*ms)
			}
			step[timeline.Compute]++
			steps := rapid.IntRange(1, 12).Draw(rt, "steps")
			r := handRank(i, rapid.SampledFrom([]timeline.Device{h100, {Name: "Tesla T4", CC: "7.5"}, {Name: "?"}}).Draw(rt, "device"), steps, step)
			g := &r.GPUs[0]
			left := g.Owners[timeline.Compute]
			for _, sub := range []timeline.Sub{timeline.SubMatmul, timeline.SubConv, timeline.SubOptimizer, timeline.SubCopyCast} {
				ns := n("sub", left)
				left -= ns
				g.Subs[timeline.Compute] = append(g.Subs[timeline.Compute], timeline.SubNS{Sub: sub, NS: ns})
			}
			for range rapid.IntRange(0, 4).Draw(rt, "kernels") {
				k := timeline.KernelRow{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name"), Class: rapid.SampledFrom([]string{"matmul", "conv", "optimizer", "comm"}).Draw(rt, "class"),
					Count: 1 + n("count", 1000), Dur: n("dur", 1000*ms), TensorCore: int8(rapid.IntRange(-1, 1).Draw(rt, "tc")), DType: rapid.SampledFrom([]string{"", "fp32", "bf16"}).Draw(rt, "dtype")}
				k.Short, k.SmallGrid = n("short", k.Count), n("grid", k.Count+1)-1
				k.ShortDur = min(k.Dur, 10*us*k.Short)
				g.Kernels = append(g.Kernels, k)
			}
			for range rapid.IntRange(0, 3).Draw(rt, "copies") {
				g.Copies = append(g.Copies, timeline.CopyRow{Kind: timeline.DirH2D, Memory: rapid.SampledFrom([]timeline.MemKind{timeline.MemUnknown, timeline.MemPageable, timeline.MemPinned}).Draw(rt, "memory"),
					Count: 1 + n("copies", 100), Bytes: n("bytes", 1e12), Dur: n("dur", 100*ms), BigCount: n("big", 9), BigBytes: n("big bytes", 1e12), BigDur: n("big dur", 10*ms)})
			}
			for range rapid.IntRange(0, 12).Draw(rt, "collectives") {
				c := reduce(n("at", int64(g.Window.End)), n("wait", ms), n("transfer", ms), n("size", 1<<31)-1,
					rapid.SampledFrom([]timeline.Confidence{timeline.NoConfidence, timeline.Inferred, timeline.Measured}).Draw(rt, "split"))
				c.OnCompute, c.GroupSize = rapid.Bool().Draw(rt, "on compute"), rapid.IntRange(0, 9).Draw(rt, "group")
				r.Collectives = append(r.Collectives, c)
			}
			t := &r.Rank
			t.MatmulNS, t.CastNS, t.ChainNS, t.OptimizerNS = n("matmul", 1000*ms), n("cast", 1000*ms)-1, n("chain", 1000*ms), n("optimizer", 1000*ms)-1
			t.MatmulShapedNS, t.Shapes, t.Operators = n("shaped", t.MatmulNS), true, true
			t.Chains = n("chains", 10)
			t.ChainKernels = t.Chains * 3
			for range rapid.IntRange(0, 3).Draw(rt, "products") {
				t.Matmuls = append(t.Matmuls, timeline.MatmulRow{M: n("m", 9000), N: n("n", 9000), K: n("k", 9000), Batch: n("batch", 3), DType: rapid.SampledFrom([]string{"bf16", "fp32", ""}).Draw(rt, "type"),
					TensorCore: int8(rapid.IntRange(-1, 1).Draw(rt, "units")), Count: 1 + n("n", 100), Dur: n("time", 1000*ms)})
			}
			for range steps {
				r.HostBusy = append(r.HostBusy, n("host", 400*ms))
			}
			ranks = append(ranks, r)
		}
		job := &ledger.Job{Ranks: ranks, World: rapid.IntRange(0, 16).Draw(rt, "world")}
		for i := range ranks {
			job.GPUs = append(job.GPUs, ledger.GPURef{ID: "gpu" + string(rune('0'+i)), Rank: i})
			last := n("last", 20)
			job.Culprits = append(job.Culprits, ledger.Culprit{Rank: i, Last: last, Of: max(last, 1), WaitNS: n("waited", ms)})
			job.Waits = append(job.Waits, ledger.Wait{Culprit: i, Owner: timeline.Owner(n("held", int64(timeline.NOwners)-1)), DurNS: n("wait", ms), Conf: timeline.Measured})
		}
		_, errs := Derive(&Input{Job: job, Base: &timeline.Timeline{}, Tables: tab})
		for _, err := range errs {
			rt.Error(err)
		}
	})
}

// What a kernel did is held against the part: a product of 1e12 operations in 2 ms runs at half of 989 TFLOP/s, a kernel that moves 3.35 GB in
// 2 ms at half of the memory's 3.35 TB/s.
func TestKernelsAgainstThePart(t *testing.T) {
	r := handRank(0, h100, 2, timeline.Owners{timeline.Compute: 50 * ms})
	r.Rank.Shapes = true
	r.GPUs[0].Kernels = []timeline.KernelRow{
		{Name: "gemm", Class: "matmul", Count: 1, Dur: 4 * ms, TensorCore: 1, Shaped: 2 * ms, FLOP: 0.989e12, Bytes: 3.35e7, WorkType: "bf16"},
		{Name: "add", Class: "elementwise", Count: 1, Dur: 2 * ms, Shaped: 2 * ms, Bytes: 3.35e9, WorkType: "bf16"},
		{Name: "wrong", Class: "matmul", Count: 1, Dur: ms, TensorCore: 1, Shaped: ms, FLOP: 5e12, WorkType: "bf16"},
		{Name: "unseen", Class: "matmul", Count: 1, Dur: 100, TensorCore: 1},
	}
	in := &Input{Job: &ledger.Job{Ranks: []*timeline.Reduced{r}, GPUs: []ledger.GPURef{{ID: "gpu0"}}}, Base: &timeline.Timeline{}, Tables: loadTables(t)}
	lines := KernelTable(in, 10)
	near := func(got, want float64) bool { return math.Abs(got-want) <= 0.01*want }
	if l := lines[0]; l.Shaped != 2*ms || !near(l.FlopRate, 494.5e12) || !near(l.OfPeak, 0.5) || !near(l.OfBW, 0.005) || l.WorkType != "bf16" {
		t.Errorf("%+v", l)
	}
	if l := lines[1]; !near(l.ByteRate, 1.675e12) || !near(l.OfBW, 0.5) || l.OfPeak != 0 || !near(l.PartRate, 3.35e12) {
		t.Errorf("%+v", l)
	}
	if l := lines[2]; l.OfPeak != 0 || l.FlopRate == 0 {
		t.Errorf("five times the peak says that the type is wrong: %+v", l)
	}
	if l := lines[3]; l.OfPeak != 0 || l.OfBW != 0 || l.Shaped != 0 {
		t.Errorf("%+v", l)
	}
}

func TestTablesClose(t *testing.T) {
	tab := loadTables(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := handRank(0, h100, 2, timeline.Owners{timeline.Compute: 50 * ms})
		g := &r.GPUs[0]
		var count, dur int64
		for i := range rapid.IntRange(0, 30).Draw(rt, "kernels") {
			k := timeline.KernelRow{Name: rapid.StringMatching("[a-c]{1,3}").Draw(rt, "name"), Class: "matmul",
				Count: rapid.Int64Range(1, 1e6).Draw(rt, "count"), Dur: rapid.Int64Range(0, 1e12).Draw(rt, "dur"), Median: int64(i)}
			g.Kernels = append(g.Kernels, k)
			count += k.Count
			dur += k.Dur
		}
		in := &Input{Job: &ledger.Job{Ranks: []*timeline.Reduced{r}, GPUs: []ledger.GPURef{{ID: "gpu0"}}}, Base: &timeline.Timeline{}, Tables: tab}
		keep := rapid.IntRange(0, 40).Draw(rt, "keep")
		lines := KernelTable(in, keep)
		for i, l := range lines {
			count -= l.Count
			dur -= l.Dur
			if i > 0 && l.Name != Others && l.Dur > lines[i-1].Dur {
				rt.Fatalf("line %d is longer than the one before it", i)
			}
		}
		if count != 0 || dur != 0 {
			rt.Fatalf("the kernel table misses %d launches and %d ns", count, dur)
		}
		if len(lines) > keep+1 {
			rt.Fatalf("%d lines, want %d and one for the rest", len(lines), keep)
		}

		var wait, total int64
		for range rapid.IntRange(0, 40).Draw(rt, "collectives") {
			start := rapid.Int64Range(-10*ms, 110*ms).Draw(rt, "start")
			d := rapid.Int64Range(0, 20*ms).Draw(rt, "length")
			c := timeline.Collective{Start: timeline.Time(start), End: timeline.Time(start + d), Primitive: rapid.SampledFrom([]string{"all-reduce", "barrier"}).Draw(rt, "primitive"),
				Bytes: rapid.Int64Range(-1, 3).Draw(rt, "bytes"), GroupSize: 2, Split: rapid.SampledFrom([]timeline.Confidence{timeline.NoConfidence, timeline.Inferred, timeline.Measured}).Draw(rt, "split")}
			if c.Split != timeline.NoConfidence {
				c.PeerWaitNS = rapid.Int64Range(0, d).Draw(rt, "wait")
				c.TransferNS = d - c.PeerWaitNS
			}
			r.Collectives = append(r.Collectives, c)
			if start >= 0 && start < 100*ms {
				total += d
				wait += c.PeerWaitNS
			}
		}
		for _, l := range CollectiveTable(in) {
			if l.Dur != l.Transfer+l.PeerWait+l.Undivided {
				rt.Fatalf("%+v does not close", l)
			}
			total -= l.Dur
			wait -= l.PeerWait
		}
		if total != 0 || wait != 0 {
			rt.Fatalf("the collective table misses %d ns, %d of them waits", total, wait)
		}
	})
}

func TestCollectiveTable(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 100 * ms})
	for i := range 4 {
		at := timeline.Time(int64(i) * 10 * ms)
		r.Collectives = append(r.Collectives, timeline.Collective{Start: at, End: at + timeline.Time(3*ms), Primitive: "all-reduce", Bytes: 64 << 20, GroupSize: 4,
			Split: timeline.Measured, PeerWaitNS: ms, TransferNS: 2 * ms})
	}
	lines := CollectiveTable(handInput(t, r))
	if len(lines) != 1 {
		t.Fatalf("%d lines, want 1", len(lines))
	}
	l := lines[0]
	if l.Count != 4 || l.Dur != 12*ms || l.Transfer != 8*ms || l.PeerWait != 4*ms {
		t.Errorf("line is %+v", l)
	}
	if bw := 1.5 * float64(4*64<<20) / 8e-3; math.Abs(l.BusBW-bw) > 1 {
		t.Errorf("busbw %v, want %v: an all-reduce of 4 moves 2*3/4 of its bytes over each link", l.BusBW, bw)
	}
}

func TestCopyTable(t *testing.T) {
	r := handRank(2, h100, 1, timeline.Owners{timeline.Compute: ms})
	r.GPUs[0].Copies = []timeline.CopyRow{
		{Kind: timeline.DirD2H, Memory: timeline.MemPageable, Count: 1, Bytes: 4, Dur: 2},
		{Kind: timeline.DirH2D, Memory: timeline.MemPinned, Count: 3, Bytes: 30, Dur: 9, Exposed: 5},
	}
	lines := CopyTable(handInput(t, r))
	if len(lines) != 2 || lines[0] != (CopyLine{GPU: "gpu0", Rank: 2, Kind: "h2d", Memory: "pinned", Count: 3, Bytes: 30, Dur: 9, Exposed: 5}) || lines[1].Kind != "d2h" {
		t.Errorf("lines are %+v", lines)
	}
}
