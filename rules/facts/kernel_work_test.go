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

func TestShortNames(t *testing.T) {
	for name, want := range map[string]string{
		"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(cutlass_80::Params)":                                                                          "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_...",
		"void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(T1::Params)":                                                                                                          "cutlass_80_simt_sgemm_128x128_8x4_nn_align1",
		"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)":                                                               "vectorized_elementwise_kernel of add",
		"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::CUDAFunctor_add<float> >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)>(int)": "elementwise_kernel of add",
		"void <unnamed>::elementwise_kernel_with_index<int, at::native::arange_cuda_out(const c10::Scalar &)::[lambda() (instance 1)]>(T1, T2)":                                                  "elementwise_kernel_with_index of arange",
		"ampere_sgemm_128x64_nn": "ampere_sgemm_128x64_nn",
		"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1> >(int, at::native::FillFunctor<float>)":                                       "vectorized_elementwise_kernel of fill",
		"void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, at::detail::Array<char*, 3> >(int)":      "vectorized_elementwise_kernel of mul",
		"void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar)::{lambda()#1}>(int)":                         "vectorized_elementwise_kernel of clamp",
		"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)":                                                              "unrolled_elementwise_kernel of copy",
		"void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}>(int)":                                        "vectorized_elementwise_kernel of gelu",
		"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::(anonymous namespace)::where_kernel_impl(at::TensorIterator&)>>(int)":                            "elementwise_kernel of where",
		"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)> > >(x)": "reduce_kernel of sum",
		"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >(x)":                                           "reduce_kernel of mean",
		"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >(int)":                                                                        "vectorized_elementwise_kernel of add",
		"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<2>>>(flash::Params)":                                                                                        "flash::enable_sm90_or_later",
	} {
		if got := short(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
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
	near("gpu.memory_bound_frac", 8/(float64(x.Dur)/1e6+18))
	for id, text := range map[ID]string{
		"gpu.mfu_says":      "989 TFLOP/s, the dense BF16 peak of H100 SXM at 1830 MHz",
		"gpu.roofline_says": "80 % of peak, the best that real products reach on this part, at 1830 MHz, the clock behind the peak, as no clock was recorded; 2680 GB/s of memory, 80 % of its peak",
	} {
		if v, need := s.Get(subject(t, s, "gpu0"), id); need != nil || v.Text != text {
			t.Errorf("%s reads %q (%v)", id, v.Text, need)
		}
	}

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
