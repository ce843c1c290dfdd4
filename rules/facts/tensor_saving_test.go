package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

// tensorRank computes 100 ms a step, 80 of them in FP32 products beside the tensor cores of an H100.
func tensorRank(rows ...timeline.MatmulRow) *timeline.Reduced {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 100 * ms, timeline.HostPython: 100 * ms})
	g := &r.GPUs[0]
	g.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 80 * ms}, {Sub: timeline.SubElementwise, NS: 20 * ms}}
	g.Kernels = []timeline.KernelRow{{Name: "ampere_sgemm_128x64_tn", Class: "matmul", Count: 10, Dur: 80 * ms, TensorCore: -1, DType: "fp32"},
		{Name: "add", Class: "elementwise", Count: 10, Dur: 20 * ms}}
	r.Rank.Matmuls = rows
	return r
}

func TestTensorSaving(t *testing.T) {
	const flop, bytes = 494.5e12 * 0.80, 3350e9 // TF32 of real products, and memory, a second
	big := timeline.MatmulRow{Op: "aten::mm", M: 8192, N: 8192, K: 8192, DType: "fp32", TensorCore: -1, Count: 4, Dur: 80 * ms}
	thin := timeline.MatmulRow{Op: "aten::mm", M: 65536, N: 8, K: 8192, DType: "fp32", TensorCore: -1, Count: 40, Dur: 40 * ms}
	half := big
	half.Count, half.Dur = 2, 40*ms
	bigS, thinS := 4*2*8192.*8192*8192/flop, 40*4*(65536*8192.+8192*8+65536*8)/bytes
	for _, c := range []struct {
		name string
		rows []timeline.MatmulRow
		left float64 // seconds of the 80 ms
	}{
		{"without shapes by the peaks", nil, 0.08 * 67 / 494.5},
		{"by their arithmetic", []timeline.MatmulRow{big}, bigS},
		{"a thin product waits for memory whatever multiplies", []timeline.MatmulRow{half, thin}, bigS/2 + thinS},
		{"half of them have shapes", []timeline.MatmulRow{half}, bigS/2 + 0.04*67/494.5},
		{"what is no slower returns nothing", []timeline.MatmulRow{{Op: "aten::mm", M: 8192, N: 8192, K: 8192, DType: "fp32", TensorCore: -1, Count: 400, Dur: 80 * ms}}, 0.08},
		{"one on tensor cores is none of them", []timeline.MatmulRow{{Op: "aten::mm", M: 8192, N: 8192, K: 8192, DType: "bf16", TensorCore: 1, Count: 4, Dur: 9 * ms}}, 0.08 * 67 / 494.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := derive(t, handInput(t, tensorRank(c.rows...)))
			want(t, s, "gpu0", "gpu.save_tf32_frac", (0.08-c.left)/0.2)
			want(t, s, "gpu0", "gpu.save_tensor_cores_frac", (0.08-c.left)/0.2)
		})
	}
	// Half precision beside the tensor cores is none of TF32's.
	r := tensorRank()
	r.GPUs[0].Kernels[0].DType = "fp16"
	s := derive(t, handInput(t, r))
	want(t, s, "gpu0", "gpu.save_tf32_frac", 0)
	want(t, s, "gpu0", "gpu.save_tensor_cores_frac", 0.4*(1-67/494.5))
	// Which peaks the part has is not known.
	r = tensorRank()
	r.GPUs[0].Device.Name, r.GPUs[0].Device.Memory, r.GPUs[0].Device.SMs = "unheard of", 0, 0
	want(t, derive(t, handInput(t, r)), "gpu0", "gpu.save_tf32_frac", missing)
}
