package facts

import (
	"math"
	"testing"

	"gpureport/ingest/timeline"
)

func TestKernelWork(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 80 * ms, timeline.HostLaunch: 20 * ms})
	g := &r.GPUs[0]
	// Kernels on two streams at once: 160 ms of them in 80 ms of compute.
	g.Kernels = []timeline.KernelRow{
		{Name: "gemm", Class: "matmul", Count: 10, Dur: 150 * ms},
		{Name: "mystery", Class: "other", Count: 1, Dur: 10 * ms},
		{Name: "ncclDevKernel", Class: "comm", Count: 1, Dur: 40 * ms},
	}
	r.Rank.Operators = true
	g.Work = timeline.WorkTable{LayoutNS: 16 * ms, UnfusedNS: 32 * ms, GridNS: 160 * ms, SmallNS: 8 * ms, WaveKernel: "gemm", WaveNS: 40 * ms, WaveLT: 10 * ms,
		CommSeen: true, OverlapNS: 20 * ms, ComparedNS: 12 * ms, AloneNS: 10 * ms, RecomputeNS: 48 * ms, Launches: 100,
		Sequences: []timeline.SequenceRow{{Names: []string{"void at::native::a<int>(float*)", "b"}, Count: 30, Saved: 30}}, SequencesSaved: 40}
	s := derive(t, handInput(t, r))
	want(t, s, "gpu0", "gpu.kernel_unclassified_frac", 0.05)
	want(t, s, "gpu0", "gpu.layout_frac", 0.1)
	want(t, s, "gpu0", "gpu.unfused_attention_frac", 0.2)
	want(t, s, "gpu0", "gpu.small_grid_time_frac", 0.05)
	want(t, s, "gpu0", "gpu.wave_time_frac", 0.2)
	want(t, s, "gpu0", "gpu.wave_waste_frac", 0.25)
	want(t, s, "gpu0", "gpu.contention_time_frac", 0.1)
	want(t, s, "gpu0", "gpu.contention_slower_frac", 0.2)
	want(t, s, "gpu0", "gpu.contention_lost_frac", 0.01)
	want(t, s, "gpu0", "gpu.recompute_frac", 0.3)
	want(t, s, "gpu0", "gpu.fusable_launches_frac", 0.4)
	if v, need := s.Get(subject(t, s, "gpu0"), "gpu.fusable_says"); need != nil || v.Text != "a, b, 30 times" {
		t.Errorf("the row of kernels reads %q (%v)", v.Text, need)
	}
	// What was not recorded is missing, never 0.
	g.Work = timeline.WorkTable{OverlapNS: 20 * ms, ComparedNS: ms, AloneNS: ms}
	r.Rank.Operators = false
	s = derive(t, handInput(t, r))
	for _, id := range []ID{"gpu.small_grid_time_frac", "gpu.wave_waste_frac", "gpu.contention_slower_frac", "gpu.recompute_frac", "gpu.fusable_launches_frac", "gpu.l2_hit_frac"} {
		want(t, s, "gpu0", id, missing)
	}
}

func TestMFU(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 100 * ms})
	r.Rank.Shapes = true
	x := product(8192, 20, 0.6)
	r.Rank.Matmuls = []timeline.MatmulRow{x}
	r.Rank.MatmulNS, r.Rank.MatmulShapedNS = x.Dur, x.Dur
	g := &r.GPUs[0]
	const attention = 1e12
	g.Work = timeline.WorkTable{ProductT: 10 * ms, ShapedT: 10 * ms, Rows: []timeline.WorkRow{
		{Kind: "attention", DType: "bf16", TensorCore: 1, FLOP: attention, Bytes: 1e6, Count: 5, Dur: 10 * ms},
		{Kind: "memory", DType: "bf16", Bytes: 3.35e12 * 0.8 * 1e-3, Count: 4, Dur: 8 * ms}, // half of what memory gives
	}}
	g.Kernels = []timeline.KernelRow{{Name: "all", Class: "matmul", Count: 1, Dur: x.Dur + 18*ms}}
	s := derive(t, handInput(t, r))
	near := func(id ID, x float64) {
		t.Helper()
		if v, need := s.Get(subject(t, s, "gpu0"), id); need != nil || math.Abs(v.Num-x) > 1e-3*math.Abs(x) {
			t.Errorf("%s is %v (%v), want %v", id, v.Num, need, x)
		}
	}
	flop := 20*2*math.Pow(8192, 3) + 5*attention
	near("gpu.achieved_flop_per_s", flop/0.1)
	near("gpu.step_flop_count", flop)
	near("gpu.mfu_frac", flop/0.1/989e12)
	near("gpu.flop_known_frac", 1)
	need := flop/(989e12*0.8) + 4e-3
	near("gpu.roofline_frac", need/(float64(x.Dur)/1e9+18e-3))
	near("gpu.roofline_time_frac", 1)

	// Without the shapes of most of it nothing is said.
	r.Rank.MatmulShapedNS = x.Dur / 4
	s = derive(t, handInput(t, r))
	if x.Dur/4+10*ms >= (x.Dur+10*ms)/2 {
		t.Fatal("the case is wrong")
	}
	want(t, s, "gpu0", "gpu.mfu_frac", missing)
}

func TestSteady(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 100 * ms})
	r.Rank.Operators, r.Rank.SteadySteps, r.Rank.HostWindowNS = true, 25, 200*ms
	r.Rank.Recompiles, r.Rank.RecompileNS, r.Rank.Convs, r.Rank.ConvNewShapes, r.Rank.ConvTrialNS = 2, 20*ms, true, 3, 10*ms
	r.Rank.ModelPhases = []timeline.PhaseShare{{Name: "rollout", NS: 100 * ms}, {Name: "reward", NS: 40 * ms}}
	s := derive(t, handInput(t, r))
	want(t, s, "rank0", "rank.recompiles_count", 8)
	want(t, s, "rank0", "rank.recompile_frac", 0.1)
	want(t, s, "rank0", "rank.conv_new_shapes_count", 12)
	want(t, s, "rank0", "rank.conv_trials_frac", 0.05)
	want(t, s, "rank0", "rank.model_phase_frac", 0.7)
	want(t, s, "rank0", "rank.model_phase_most_frac", 0.5)
	r.Rank.SteadySteps, r.Rank.ModelPhases = 0, nil
	s = derive(t, handInput(t, r))
	want(t, s, "rank0", "rank.recompiles_count", missing)
	want(t, s, "rank0", "rank.conv_new_shapes_count", missing)
	want(t, s, "rank0", "rank.model_phases_flag", 0)
	want(t, s, "rank0", "rank.model_phase_frac", missing)
}
