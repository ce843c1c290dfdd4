package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

func TestKernelKeys(t *testing.T) {
	for _, c := range []struct{ trace, ncu, function string }{
		{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cublas", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cublas", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cublas"},
		{"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
			"void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)", "vectorized_elementwise_kernel"},
		{"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, true>(float*)", "void at::native::<unnamed>::cunn_SoftMaxForward<(int)8, float, (bool)1>(T1 *)", "cunn_SoftMaxForward"},
		{"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align8>(cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align8::Params)",
			"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align8>(T1::Params)", "Kernel2"},
	} {
		if a, b := kernelKey(c.trace), kernelKey(c.ncu); a != b {
			t.Errorf("%q and %q", a, b)
		}
		if got := functionOf(kernelKey(c.trace)); got != c.function {
			t.Errorf("function %q, want %q", got, c.function)
		}
	}
}

// countersBeside is a trace of products, attention and pointwise kernels on an A100, and what was counted beside it.
func countersBeside(counters ...timeline.KernelCounters) *bench {
	b := newBench()
	l := steps(20, 0.1, func(int) owned { return nil })
	l.Device.CC = "8.0"
	l.Kernels = []timeline.KernelRow{{Name: "gemm_a", Class: "matmul", Dur: 1e9}, {Name: "void cutlass::Kernel2<b>(P)", Class: "matmul", Dur: 0.4e9}, {Name: "void cutlass::Kernel2<c>(P)", Class: "matmul", Dur: 0.2e9},
		{Name: "void f::add<4>(int)", Class: "elementwise", Dur: 0.4e9}}
	b.rank(0, "a", l)
	src := b.source("ncu.csv", "ncu", timeline.Unplaced)
	for i := range counters {
		counters[i].Source = src
		counters[i].Row = uint32(i + 2)
	}
	b.in.Base.Counters = counters
	return b
}

func TestL2OfMeasuredKernels(t *testing.T) {
	b := countersBeside(timeline.KernelCounters{Name: "gemm_a", CC: "8.0", Launches: 3, L2Hit: 0.8, DRAM: 0.2}, timeline.KernelCounters{Name: "void cutlass::Kernel2<b>(T1::P)", Launches: 1, L2Hit: 0.3, DRAM: 0.5},
		timeline.KernelCounters{Name: "void f::add<(int)4>(int)", Launches: 1, L2Hit: 0.02, DRAM: 0.9})
	g := b.derive(t)
	g.about("gpu0", gpuL2, (1*0.8+0.4*0.3)/1.4, 1e-9) // the pointwise kernel reads each byte once, and Kernel2<c> was not measured
	g.about("gpu0", gpuL2Time, 0.7, 1e-9)
	g.about("gpu0", gpuDRAMActiveBusy, (1*0.2+0.4*0.5+0.4*0.9)/1.8, 1e-9)
	if v := g.value("gpu0", gpuL2); v.NRefs != 2 || v.Refs[0].Path != "ncu.csv" || v.Refs[0].Row != 2 || v.Conf != timeline.Inferred {
		t.Errorf("%+v", v)
	}

	// Functions alone, as ncu prints them where it is told so.
	g = countersBeside(timeline.KernelCounters{Name: "Kernel2", Launches: 1, L2Hit: 0.5, DRAM: -1}).derive(t)
	g.about("gpu0", gpuL2, 0.5, 1e-9)
	g.about("gpu0", gpuL2Time, 0.3, 1e-9)
	g.missing("gpu0", gpuDRAMActiveBusy, "0 %")

	// Another part, and kernels that read each byte once, say nothing.
	g = countersBeside(timeline.KernelCounters{Name: "gemm_a", CC: "9.0", Launches: 1, L2Hit: 0.5, DRAM: 0.5}, timeline.KernelCounters{Name: "void f::add<4>(int)", Launches: 1, L2Hit: 0.02, DRAM: 0.9}).derive(t)
	g.missing("gpu0", gpuL2, "read each byte once")
	g.missing("gpu0", gpuDRAMActiveBusy, "20 %")
	g = countersBeside().derive(t)
	g.missing("gpu0", gpuL2, "only Nsight Compute")
}
