package facts

import (
	"math"
	"testing"

	"gpureport/ingest/timeline"
)

func TestKernelMix(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 80 * ms, timeline.CommTransfer: 20 * ms, timeline.HostLaunch: 100 * ms})
	g := &r.GPUs[0]
	g.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 60 * ms}, {Sub: timeline.SubElementwise, NS: 5 * ms},
		{Sub: timeline.SubOptimizer, NS: 4 * ms}, {Sub: timeline.SubCopyCast, NS: 8 * ms}, {Sub: timeline.SubMemset, NS: 3 * ms}}
	// Kernels on two streams at once: 144 ms of them in 80 ms of compute.
	g.Kernels = []timeline.KernelRow{
		{Name: "gemm", Class: "matmul", Count: 100, Dur: 96 * ms, TensorCore: 1, DType: "bf16", Rows: []uint32{1}},
		{Name: "ampere_sgemm", Class: "matmul", Count: 10, Dur: 32 * ms, TensorCore: -1, DType: "fp32", Rows: []uint32{2}},
		{Name: "adam", Class: "optimizer", Count: 10, Dur: 8 * ms},
		{Name: "add", Class: "elementwise", Count: 880, Dur: 8 * ms, Short: 880, ShortDur: 8 * ms},
		{Name: "ncclDevKernel", Class: "comm", Count: 7, Dur: 500 * ms, Short: 7},
	}
	g.Copies = []timeline.CopyRow{{Kind: timeline.DirD2D, Memory: timeline.MemDevice, Count: 3, Dur: 12 * ms}}
	r.Rank.OptimizerNS = 30 * ms
	s := derive(t, handInput(t, r))
	want(t, s, "gpu0", "gpu.kernels_count", 1000)
	want(t, s, "gpu0", "gpu.matmul_frac", 0.6)
	want(t, s, "gpu0", "gpu.optimizer_kernels_frac", 0.04)
	want(t, s, "gpu0", "gpu.copy_kernels_frac", 0.11)
	want(t, s, "gpu0", "gpu.conv_frac", 0)
	sum := 0.0
	for _, id := range []ID{"matmul", "conv", "attention", "elementwise", "reduce_norm", "optimizer_kernels", "copy_kernels", "unclassified"} {
		v, _ := s.Get(subject(t, s, "gpu0"), "gpu."+id+"_frac")
		sum += v.Num
	}
	if math.Abs(sum-0.8) > 1e-9 {
		t.Errorf("classes hold %v of the busy time, want what computing holds, 0.8", sum)
	}
	want(t, s, "gpu0", "gpu.tensor_core_unused_frac", 0.6*32/128)
	want(t, s, "gpu0", "gpu.fp32_matmul_frac", 0.6*32/128)
	want(t, s, "gpu0", "gpu.fp32_of_tf32_frac", 67/494.5)
	want(t, s, "gpu0", "gpu.tiny_kernels_frac", 0.88)
	want(t, s, "gpu0", "gpu.tiny_cost_frac", 0.5+0.4*8/144)
	want(t, s, "rank0", "rank.optimizer_frac", 0.15)
}

func TestSaveKernels(t *testing.T) {
	for _, c := range []struct {
		name            string
		compute, launch int64 // ms of a 100 ms step
		host            int64 // ms; -1 not recorded
		want            float64
	}{
		{"the GPU is full, the host waits for room in its queue", 98, 2, 99, 0.98},
		{"the GPU waits for its host", 40, 60, 95, 0.05},
		{"the host has time left", 40, 60, 30, 0.4},
		{"the host was not recorded", 40, 60, -1, 0.4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := handRank(0, h100, 4, timeline.Owners{timeline.Compute: c.compute * ms, timeline.HostLaunch: c.launch * ms})
			for range 4 {
				if c.host >= 0 {
					r.HostBusy = append(r.HostBusy, c.host*ms)
				}
			}
			want(t, derive(t, handInput(t, r)), "gpu0", "gpu.save_kernels_frac", c.want)
		})
	}
}

func TestTensorCores(t *testing.T) {
	kernels := func(tc int8) []timeline.KernelRow {
		return []timeline.KernelRow{{Name: "a", Class: "conv", Count: 1, Dur: 6 * ms, TensorCore: tc, DType: "fp32"}, {Name: "b", Class: "norm", Count: 1, Dur: 4 * ms}}
	}
	for _, c := range []struct {
		name         string
		dev          timeline.Device
		tc           int8
		unused, fp32 float64
	}{
		{"A100", timeline.Device{Name: "NVIDIA A100-SXM4-40GB", CC: "8.0", Vendor: "nvidia"}, -1, 0.6, 0.6},
		{"A100 with tensor cores", timeline.Device{Name: "NVIDIA A100-SXM4-40GB", CC: "8.0"}, 1, 0, 0},
		{"names do not tell", timeline.Device{Name: "NVIDIA A100-SXM4-40GB", CC: "8.0"}, 0, missing, missing},
		{"V100 has no TF32", timeline.Device{Name: "Tesla V100-SXM2-16GB", CC: "7.0"}, -1, 0.6, 0},
		{"P100 has no tensor cores", timeline.Device{Name: "Tesla P100-SXM2-16GB", CC: "6.0"}, -1, 0, 0},
		{"AMD has matrix cores", timeline.Device{Name: "AMD Instinct MI300X", Vendor: "amd"}, -1, 0.6, 0},
		{"AMD, used", timeline.Device{Name: "AMD Instinct MI300X", Vendor: "amd"}, 1, 0, 0},
		{"AMD, names do not tell", timeline.Device{Name: "AMD Instinct MI300X", Vendor: "amd"}, 0, missing, missing},
		{"AMD, not in the table", timeline.Device{Name: "AMD Radeon", Vendor: "amd"}, -1, missing, missing},
		{"nobody knows the part", timeline.Device{Name: "Something"}, -1, missing, missing},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := handRank(0, c.dev, 1, timeline.Owners{timeline.Compute: 10 * ms})
			r.GPUs[0].Kernels = kernels(c.tc)
			r.GPUs[0].Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubConv, NS: 6 * ms}, {Sub: timeline.SubNorm, NS: 4 * ms}}
			s := derive(t, handInput(t, r))
			want(t, s, "gpu0", "gpu.tensor_core_unused_frac", c.unused)
			want(t, s, "gpu0", "gpu.fp32_matmul_frac", c.fp32)
		})
	}
}

// product is n products of side^3 in bf16 at a share of an H100's peak.
func product(side, n int64, share float64) timeline.MatmulRow {
	flop := 2 * float64(side) * float64(side) * float64(side)
	return timeline.MatmulRow{Op: "aten::mm", M: side, N: side, K: side, DType: "bf16", TensorCore: 1, Count: n,
		Dur: int64(math.Round(float64(n) * flop / (989e12 * share) * 1e9)), Row: uint32(side)}
}

func TestGemm(t *testing.T) {
	big, tiny := product(4096, 100, 0.4), product(256, 100, 0.05)
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 100 * ms})
	r.Rank.Shapes = true
	r.Rank.Matmuls = []timeline.MatmulRow{big, tiny, {Op: "aten::mv", M: 8192, N: 1, K: 8192, DType: "bf16", TensorCore: 1, Count: 1, Dur: 30 * us}}
	r.Rank.MatmulNS = big.Dur + tiny.Dur + 30*us
	r.Rank.MatmulShapedNS = r.Rank.MatmulNS
	in := handInput(t, r)
	s := derive(t, in)
	near := func(id ID, x float64) Value {
		t.Helper()
		v, need := s.Get(subject(t, s, "rank0"), id)
		if need != nil || math.Abs(v.Num-x) > 1e-3 {
			t.Errorf("%s is %v (%v), want %v", id, v.Num, need, x)
		}
		return v
	}
	if v := near("rank.gemm_peak_frac", 0.4); v.Conf != timeline.Inferred {
		t.Errorf("without a clock the rate is %v", v.Conf)
	}
	near("rank.gemm_of_achievable_frac", 0.5) // 80 % is the best that was measured
	near("rank.gemm_judged_frac", float64(big.Dur)/float64(r.Rank.MatmulNS))
	near("rank.gemm_judged_time_frac", float64(big.Dur)/float64(100*ms))

	// At half the clock the same rate is twice as good.
	readings(in, map[string][]float64{"clock_sm_hz": {1980e6, 915e6, 915e6}, "sm_busy_frac": {0, 1, 1}}, timeline.ClockSM, timeline.SMBusy)
	s = derive(t, in)
	if v := near("rank.gemm_peak_frac", 0.8); v.Conf != timeline.Measured {
		t.Errorf("with a clock the rate is %v", v.Conf)
	}
	in.Logs = nil

	r.Rank.Matmuls[0] = product(4096, 100, 1.4)
	s = derive(t, in)
	want(t, s, "rank0", "rank.gemm_peak_frac", missing) // faster than the part: the table is wrong

	r.Rank.Matmuls = r.Rank.Matmuls[1:]
	s = derive(t, in)
	near("rank.gemm_judged_frac", 0)
	want(t, s, "rank0", "rank.gemm_of_achievable_frac", missing)

	r.Rank.Shapes = false
	want(t, derive(t, in), "rank0", "rank.gemm_judged_frac", missing)
}

func TestShapes(t *testing.T) {
	r := handRank(0, h100, 2, timeline.Owners{timeline.Compute: 50 * ms})
	r.Rank.Shapes, r.Rank.Operators = true, true
	r.Rank.MatmulNS, r.Rank.MatmulShapedNS = 40*ms, 40*ms
	r.Rank.Matmuls = []timeline.MatmulRow{
		{M: 4096, N: 50257, K: 1024, DType: "bf16", TensorCore: 1, Dur: 10 * ms, Row: 5},
		{M: 4096, N: 1024, K: 1024, DType: "bf16", TensorCore: 1, Dur: 20 * ms},
		{M: 4095, N: 1, K: 1024, DType: "bf16", TensorCore: 1, Dur: 5 * ms},     // a vector
		{M: 4095, N: 1024, K: 1024, DType: "fp32", TensorCore: -1, Dur: 5 * ms}, // plain cores
	}
	r.Rank.CastNS, r.Rank.ChainNS, r.Rank.Chains, r.Rank.ChainKernels = 10*ms, 30*ms, 5, 20
	r.GPUs[0].Kernels = []timeline.KernelRow{
		{Name: "a", Class: "matmul", Count: 60, Dur: ms, SmallGrid: 45},
		{Name: "b", Class: "elementwise", Count: 40, Dur: ms, SmallGrid: 0},
		{Name: "c", Class: "elementwise", Count: 40, Dur: ms, SmallGrid: -1},
	}
	in := handInput(t, r)
	readings(in, map[string][]float64{"mem_used_bytes": {10e9, 34e9, 20e9}}, timeline.MemUsed)
	s := derive(t, in)
	if v := want(t, s, "rank0", "rank.matmul_misaligned_frac", 0.25); len(v.Refs) != 1 || v.Refs[0].Row != 5 {
		t.Errorf("rows are %v", v.Refs)
	}
	want(t, s, "rank0", "rank.matmul_time_frac", 0.4)
	want(t, s, "rank0", "rank.cast_frac", 0.1)
	want(t, s, "rank0", "rank.elementwise_chain_frac", 0.3)
	want(t, s, "rank0", "rank.elementwise_fusable_frac", 0.75)
	want(t, s, "rank0", "rank.elementwise_chain_count", 4)
	want(t, s, "gpu0", "gpu.small_grid_frac", 0.45)
	if v := want(t, s, "gpu0", "gpu.mem_used_max_frac", 0.4); v.Conf != timeline.Measured {
		t.Errorf("of three readings it is %v", v.Conf)
	}

	// 16 bytes are enough for older parts: 1000 halfs are no multiple of 64, but of 8.
	for cc, off := range map[string]float64{"7.0": 0, "8.0": 1} {
		r.GPUs[0].Device.CC = cc
		r.Rank.Matmuls = []timeline.MatmulRow{{M: 1000, N: 1000, K: 1000, DType: "fp16", TensorCore: 1, Dur: 40 * ms}}
		want(t, derive(t, in), "rank0", "rank.matmul_misaligned_frac", off)
	}
	r.Rank.Operators, r.Rank.Shapes = false, false
	s = derive(t, in)
	want(t, s, "rank0", "rank.cast_frac", missing)
	want(t, s, "rank0", "rank.matmul_misaligned_frac", missing)
}
