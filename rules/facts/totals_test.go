package facts

import (
	"math"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

// totals adds a table of sums; of a name that ends in *n the count is n.
func (b *bench) totals(path string, what timeline.TotalsOf, rows ...timeline.TotalRow) {
	src := timeline.SourceID(-1)
	for i := range b.in.Base.Sources {
		if b.in.Base.Sources[i].Path == path {
			src = timeline.SourceID(i)
		}
	}
	if src < 0 {
		src = b.source(path, "nsys-stats", timeline.Unplaced)
	}
	b.in.Base.Totals = append(b.in.Base.Totals, timeline.Totals{Source: src, What: what, Rows: rows})
}

func sumRow(name string, count, sum int64, row uint32) timeline.TotalRow {
	return timeline.TotalRow{Name: name, Count: count, Sum: sum, Median: -1, Min: -1, Max: -1, Row: row}
}

func allSums(b *bench) *bench {
	b.totals("run_cuda_gpu_kern_sum.csv", timeline.TotalKernels,
		sumRow("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 100, 40e9, 2),
		sumRow("forward/ampere_sgemm_128x64_tn", 50, 20e9, 3),
		sumRow("attention_softmax/vectorized_elementwise_kernel", 2_000_000, 10e9, 4),
		sumRow("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 500, 30e9, 5))
	b.totals("run_cuda_gpu_mem_time_sum.csv", timeline.TotalCopyTime, sumRow("[CUDA memcpy Host-to-Device]", 10, 20e9, 2), sumRow("[CUDA memcpy DtoH]", 10, 5e9, 3), sumRow("[CUDA memset]", 10, 0, 4))
	b.totals("run_cuda_gpu_mem_size_sum.csv", timeline.TotalCopySize, sumRow("[CUDA memcpy HtoD]", 10, 60e9, 2))
	b.totals("run_cuda_api_sum.csv", timeline.TotalCalls, sumRow("cudaStreamSynchronize", 10, 6e9, 2), sumRow("cudaMalloc", 10, 1e9, 3), sumRow("cudaLaunchKernel", 10, 2e9, 4), sumRow("cudaGetDevice", 10, 1e9, 5))
	return b
}

func TestTotals(t *testing.T) {
	s := derive(t, allSums(newBench()).in)
	for id, num := range map[ID]float64{
		"run.summary_flag": 1, "run.summary_kernels_s": 100, "run.summary_matmul_frac": 0.6, "run.summary_elementwise_frac": 0.1, "run.summary_comm_frac": 0.3, "run.summary_attention_frac": 0,
		"run.summary_tc_unused_frac": 0.2, "run.summary_short_frac": 2_000_000. / 2_000_150, "run.summary_short_time_frac": 0.1, "run.summary_h2d_frac": 0.16, "run.summary_d2h_frac": 0.04,
		"run.summary_h2d_bytes_per_s": 3e9, "run.summary_calls_s": 10, "run.summary_sync_frac": 0.6, "run.summary_alloc_frac": 0.1, "run.summary_launch_frac": 0.2,
	} {
		want(t, s, "run", id, num)
	}
	sum := 0.0
	for _, d := range sumClasses {
		v, _ := s.Get(0, d.ID)
		sum += v.Num
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("classes hold %v of the kernel time", sum)
	}
	v, _ := s.Get(0, "run.summary_tc_unused_frac")
	if v.NRefs != 1 || v.Refs[0] != (Ref{Path: "run_cuda_gpu_kern_sum.csv", Row: 3}) {
		t.Errorf("rows %v", v.Refs)
	}
	if _, need := s.Get(0, "run.summary_h2d_pageable_frac"); need == nil || !strings.Contains(need.Why, "pageable or pinned") {
		t.Errorf("pageable: %+v", need)
	}
	// What only a trace tells waits for the recording, what a log tells for the log.
	if _, need := s.Get(0, "run.window_s"); need == nil || need.Why != noAxis || need.Capture != "C15" {
		t.Errorf("window: %+v", need)
	}
	for _, c := range []struct {
		d        *Decl
		why, cap string
	}{{gpuMatmul, noAxis, "C15"}, {s.Decl("gpu.sm_busy_mean_frac"), "no gpu is in the input", "C1"}} {
		if c.d == nil {
			continue
		}
		if need := s.NoSubject(c.d, GPU); need.Why != c.why || need.Capture != c.cap {
			t.Errorf("%s: %+v", c.d.ID, need)
		}
	}
}

func TestPageableByName(t *testing.T) {
	b := newBench()
	b.totals("x.csv", timeline.TotalCopyTime, sumRow("[CUDA memcpy HtoD Pageable]", 1, 30, 2), sumRow("[CUDA memcpy HtoD Pinned]", 1, 10, 3))
	s := derive(t, b.in)
	want(t, s, "run", "run.summary_h2d_pageable_frac", 0.75)
	if _, need := s.Get(0, "run.summary_h2d_frac"); need == nil || !strings.Contains(need.Why, "no summary of kernels") {
		t.Errorf("%+v", need)
	}
}

// A table of all device work that holds copies alone says that no kernel ran.
func TestTotalsWithoutKernels(t *testing.T) {
	b := newBench()
	b.totals("x.csv", timeline.TotalKernels)
	b.totals("x.csv", timeline.TotalCopyTime, sumRow("[CUDA memcpy HtoD]", 1, 30, 2), sumRow("[CUDA memcpy DtoH]", 1, 10, 3))
	s := derive(t, b.in)
	want(t, s, "run", "run.summary_kernels_s", 0)
	want(t, s, "run", "run.summary_h2d_frac", 0.75)
	if _, need := s.Get(0, "run.summary_matmul_frac"); need == nil || !strings.Contains(need.Why, "no kernel time") {
		t.Errorf("%+v", need)
	}
}

// TestTotalsGiveWayToLedgers: with a trace, sums say nothing.
func TestTotalsGiveWayToLedgers(t *testing.T) {
	b := allSums(newBench())
	b.rank(0, "a", steps(30, 0.1, func(i int) owned { return owned{timeline.Compute: 0.06, timeline.HostLaunch: 0.04} }))
	s := derive(t, b.in)
	want(t, s, "run", "run.summary_flag", 0)
	if _, need := s.Get(0, "run.summary_kernels_s"); need == nil || !strings.Contains(need.Why, "a trace gives a ledger") {
		t.Errorf("%+v", need)
	}
	want(t, derive(t, newBench().in), "run", "run.summary_flag", 0)
}

func TestSummariesOfOneRecording(t *testing.T) {
	b := newBench()
	b.totals("a_cuda_gpu_kern_sum.csv", timeline.TotalKernels, sumRow("k", 1, 10, 2))
	b.totals("a_cuda_api_sum.csv", timeline.TotalCalls, sumRow("cudaMalloc", 1, 1, 2))
	b.totals("b_cuda_gpu_kern_sum.csv", timeline.TotalKernels, sumRow("k", 1, 30, 2))
	b.totals("b_nvtx_kern_sum.csv", timeline.TotalKernels, sumRow("k", 1, 20, 2))
	b.totals("mem.csv", timeline.TotalCopyTime, sumRow("[CUDA memset]", 1, 1, 2))
	var got []string
	for _, s := range Summaries(b.in) {
		got = append(got, s.Path)
	}
	if g := strings.Join(got, " "); g != "b_cuda_gpu_kern_sum.csv mem.csv" {
		t.Errorf("%s: calls of the other recording do not belong to these kernels", g)
	}
	for p, w := range map[string]string{"d/run_cuda_gpu_kern_sum.csv": "d/run", "run_gpukernsum.csv.gz": "./run", "2.7b_train_step_cuda_gpu_kern_sum_nvtx.txt": "./2.7b_train_step__nvtx", "cuda_api_sum.csv": "./"} {
		if g := recordingOf(p); g != w {
			t.Errorf("%s: %s, want %s", p, g, w)
		}
	}
}

// TestAbsurdTotals: sums beyond all time stay finite and in range.
func TestAbsurdTotals(t *testing.T) {
	b := newBench()
	var rows []timeline.TotalRow
	for range 30 {
		rows = append(rows, sumRow("gemm_f32", 1, mostTotal, 2))
	}
	for what := timeline.TotalOther; what <= timeline.TotalOSWaits; what++ {
		b.totals("x.csv", what, rows...)
	}
	s := derive(t, b.in)
	want(t, s, "run", "run.summary_kernels_s", 1e9)
}
