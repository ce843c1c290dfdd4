package nsys

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

const epoch = 1780000000000000000

// dump tells all that a timeline holds, a line each thing, times from the session's start.
func dump(tl *timeline.Timeline) string {
	var out strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	name := tl.Names.Get
	base := timeline.Time(0)
	if len(tl.Clocks) > 0 && tl.Clocks[0].Wall {
		base = epoch
	}
	for _, x := range tl.Procs {
		p("proc %d host %q rank %d %q recorded %d..%d meta %v", x.PID, x.Host, x.Rank, x.RankHow, x.Recorded.Start-base, x.Recorded.End-base, x.Meta)
	}
	for _, d := range tl.Devices {
		p("device %q %s %s proc %d ordinal %d sms %d memory %d cc %s", d.Name, d.UUID, d.Bus, d.Proc, d.Ordinal, d.SMs, d.Memory, d.CC)
	}
	s := &tl.Spans
	track := func(id timeline.TrackID) string {
		t := &tl.Tracks[id]
		switch t.Kind {
		case timeline.TrackHost:
			return fmt.Sprintf("p%d/t%d(%s)", t.Proc, t.Thread, t.Name)
		case timeline.TrackStream:
			return fmt.Sprintf("p%d/gpu%d/s%d", t.Proc, tl.Devices[t.Device].Ordinal, t.Thread)
		}
		return fmt.Sprintf("other p%d %s", t.Proc, t.Name)
	}
	ci, ki, mi, si := 0, 0, 0, 0
	for i := range s.Start {
		more := ""
		if ci < len(s.Copies) && int(s.Copies[ci].Span) == i {
			c := s.Copies[ci]
			more += fmt.Sprintf(" copy %d %d>%d %d bytes", c.Kind, c.Src, c.Dst, c.Bytes)
			ci++
		}
		if ki < len(s.Kernels) && int(s.Kernels[ki].Span) == i {
			k := s.Launches[s.Kernels[ki].Launch]
			more += fmt.Sprintf(" grid %v block %v node %d", k.Grid, k.Block, k.GraphNode)
			ki++
		}
		if mi < len(s.Comms) && int(s.Comms[mi].Span) == i {
			c := s.Comms[mi]
			more += fmt.Sprintf(" comm %s %s in %d out %d group %s size %d rank %d", name(c.Collective), name(c.DType), c.InElems, c.OutElems, name(c.Group), c.GroupSize, c.Rank)
			mi++
		}
		if si < len(s.Shapes) && int(s.Shapes[si].Span) == i {
			more += " dims " + name(s.Shapes[si].Dims)
			si++
		}
		p("%s %d %d..%d %s link %d %s%s", track(s.Track[i]), s.Kind[i], s.Start[i]-base, s.End[i]-base, name(s.Name[i]), s.Link[i], tl.SpanRef(i), more)
	}
	for i, at := range tl.Marks.At {
		p("mark %s %d %s", track(tl.Marks.Track[i]), at-base, name(tl.Marks.Name[i]))
	}
	for _, x := range tl.Series {
		t := &tl.Tracks[x.Track]
		p("series %s of %s device %d: %v %v", x.Metric.Name, t.Name, t.Device, x.At, x.Value)
	}
	return out.String()
}

func problems(tl *timeline.Timeline) string {
	var out strings.Builder
	for _, p := range tl.Problems {
		fmt.Fprintf(&out, "%s %s %d x%d %s\n", p.Code, p.Severity, p.Row, p.Count, p.Message)
	}
	return out.String()
}

func TestModern(t *testing.T) {
	tl := mustRead(t, build(t, []string{"modern.sql"}))
	want := strings.TrimLeft(`
proc 1001 host "gpu-a" rank -1 "" recorded 0..100000000 meta map[driver_version:595.71.05 not_recorded:cuDNN calls, network readings nsys_version:2026.3.1.157 process_name:python3 schema_version:3.27.0 traced:Cuda, NvtxEvents tz_offset_s:28800]
proc 1002 host "gpu-a" rank 3 "NCCL communicator" recorded 0..100000000 meta map[driver_version:595.71.05 not_recorded:cuDNN calls, network readings nsys_version:2026.3.1.157 schema_version:3.27.0 traced:Cuda, NvtxEvents tz_offset_s:28800]
device "NVIDIA A100-SXM4-40GB" GPU-a006f2d1-96c7-5d65-1b04-4e95876f9792 0000:3b:00 proc 0 ordinal 0 sms 108 memory 42404806656 cc 8.0
device "NVIDIA A100-SXM4-40GB" GPU-b116f2d1-96c7-5d65-1b04-4e95876f9792 0000:17:00 proc 1 ordinal 0 sms 108 memory 42404806656 cc 8.0
other p-1 process 1000, 1000 (torchrun) 4 50000..60000 cudaMalloc link 1 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[8]
other p-1 process 1000, 1000 (torchrun) 0 6000000..6100000 CUPTI Buffer flush link 0 run.sqlite: PROFILER_OVERHEAD[2]
p0/t1001(pt_main_thread) 12 2..30010000 off CPU link 0 run.sqlite: SCHED_EVENTS[2]
p0/t1001(pt_main_thread) 6 900000..9500000 step 1 link 0 run.sqlite: NVTX_EVENTS[2]
p0/t1001(pt_main_thread) 5 950000..1030000 aten::addmm link 0 run.sqlite: NVTX_EVENTS[3] dims [[768], [2, 768], [768, 768]]
p0/t1001(pt_main_thread) 6 995000..1015000 cublasGemmEx link 0 run.sqlite: CUBLAS_EVENTS[1]
p0/t1001(pt_main_thread) 4 1000000..1010000 cudaLaunchKernel link 7 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[1]
p0/t1001(pt_main_thread) 9 1001000..1005000 Lazy Function Loading link 0 run.sqlite: CUPTI_ACTIVITY_KIND_OVERHEAD[1]
p0/t1001(pt_main_thread) 4 2000000..2005000 cudaMemcpyAsync link 8 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[3]
p0/t1001(pt_main_thread) 4 4000000..4005000 cudaGraphLaunch link 10 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[5]
p0/t1001(pt_main_thread) 4 5000000..9000000 cudaStreamSynchronize link 11 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[6]
p0/t1001(pt_main_thread) 9 6000000..6100000 CUPTI Buffer flush link 0 run.sqlite: PROFILER_OVERHEAD[1]
p0/t1001(pt_main_thread) 11 10000000..11000000 poll link 0 run.sqlite: OSRT_API[1]
p0/t1001(pt_main_thread) 6 12000000..100000000 still open link 0 run.sqlite: NVTX_EVENTS[4]
p0/t1050(loader) 4 3000000..3005000 cuLaunchKernelEx link 9 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[4]
p1/t1002() 4 1100000..1120000 cudaLaunchKernel link 7 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[2]
p1/t1002() 6 15000000..15001000 ncclCommInitRank link 0 run.sqlite: NVTX_EVENTS[7]
p1/t1002() 6 19990000..20015000 ncclAllReduce link 0 run.sqlite: NVTX_EVENTS[8] comm ncclAllReduce byte in 1179648 out 1179648 group 77 size 4 rank 3
p1/t1002() 4 20000000..20010000 cudaLaunchKernel link 12 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[7]
p1/t1002() 6 30000000..30010000 ncclAllGather link 0 run.sqlite: NVTX_EVENTS[9] comm ncclAllGather byte in 512 out 2048 group 77 size 4 rank 3
p0/gpu0/s-1 8 5000000..5100000 Context Sync link 11 run.sqlite: CUPTI_ACTIVITY_KIND_SYNCHRONIZATION[2]
p0/gpu0/s7 1 1020000..1050000 void at::native::vectorized_elementwise_kernel<4, float>(int) link 7 run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL[1] grid [16 2 1] block [128 1 1] node 0
p0/gpu0/s7 2 2010000..2030000 Memcpy HtoD (Pageable -> Device) link 8 run.sqlite: CUPTI_ACTIVITY_KIND_MEMCPY[1] copy 1 1>3 4096 bytes
p0/gpu0/s7 3 2040000..2041000 Memset (Device) link 0 run.sqlite: CUPTI_ACTIVITY_KIND_MEMSET[1] copy 0 0>3 384 bytes
p0/gpu0/s7 1 3010000..3040000 void at::native::vectorized_elementwise_kernel<4, float>(int) link 9 run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL[4] grid [4 1 1] block [32 1 1] node 99
p0/gpu0/s7 1 4010000..4900000 [CUDA graph 3] link 10 run.sqlite: CUPTI_ACTIVITY_KIND_GRAPH_TRACE[1]
p0/gpu0/s7 8 5000000..8990000 Stream Sync link 11 run.sqlite: CUPTI_ACTIVITY_KIND_SYNCHRONIZATION[1]
p1/gpu0/s7 1 1130000..1190000 void at::native::vectorized_elementwise_kernel<4, float>(int) link 7 run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL[2] grid [8 1 1] block [64 1 1] node 0
p1/gpu0/s20 1 20020000..20090000 ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>) link 12 run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL[3] grid [24 1 1] block [544 1 1] node 0
mark p0/t1001(pt_main_thread) 1 
mark p0/t1001(pt_main_thread) 13000000 epoch begins
series mem_allocated_bytes of allocations device 0: [1780000000000000001] [4096]
series sm_active_frac of metrics of GPU 0 device 0: [1780000000001000000 1780000000002000000 1780000000011000000] [0.1 0.3 0.9]
series clock_sm_hz of metrics of GPU 0 device 0: [1780000000001000000] [2.33e+09]
series sm_active_frac of metrics of GPU 1 device 1: [1780000000001000000] [0.5]
`, "\n")
	got := strings.ReplaceAll(dump(tl), "2.330000000", "2.33")
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
	c := tl.Clocks[tl.Sources[0].Clock]
	if !c.Wall || !c.Zoned || c.Step != time.Nanosecond || c.How != timeline.Recorded || tl.Epoch.IsZero() {
		t.Errorf("clock %+v", c)
	}
	if tl.Sources[0].Rows != 38 {
		t.Errorf("%d rows", tl.Sources[0].Rows)
	}
	wantP := `nsys/bad-metric data-loss 0 x1 GPU_METRICS: readings that no GPU can have; left out
nsys/not-recorded info 0 x1 not in the file, so not recorded or none happened: cuDNN calls, network readings
nsys/open-range info 0 x1 ranges and calls without an end, still open when the recording stopped: taken to end there, 0.100 s after the session's start
nsys/unknown-metric info 0 x1 GPU metrics that are not kept: Odd Counter
nsys/whole-graphs info 0 x1 graph launches recorded as one interval each: what ran inside is not known; record with --cuda-graph-trace=node
nsys/diagnostic info 2 x1 DIAGNOSTIC_EVENT: nsys itself says: Not all NVTX events might have been collected, (...) in (...)
nsys/dropped-events data-loss 3 x1 DIAGNOSTIC_EVENT: nsys itself says: Some CUDA events were lost: 12 dropped.
`
	if diff := cmp.Diff(wantP, problems(tl)); diff != "" {
		t.Error(diff)
	}
}

// Nothing of environments, command lines, users and programs' output comes through, whatever is shown.
func TestSecretsStayInside(t *testing.T) {
	tl := mustRead(t, build(t, []string{"modern.sql"}))
	all := fmt.Sprintf("%+v", tl) + dump(tl) + problems(tl)
	for i := range tl.Names.Len() {
		all += tl.Names.Get(timeline.StringID(i)) + "\n"
	}
	if i := strings.Index(all, "hunter2"); i >= 0 {
		t.Errorf("...%s...", all[max(0, i-200):min(len(all), i+50)])
	}
	if !strings.Contains(all, "gpu-a") {
		t.Error("the host's name is missing: the test looks at nothing")
	}
}

func TestExportOf2020(t *testing.T) {
	tl := mustRead(t, build(t, []string{"y2020.sql"}))
	want := strings.TrimLeft(`
device "Quadro RTX 6000" GPU-c070aa13-b875-bb58-5cc2-76fab9cb8819 0000:3b:00 proc 0 ordinal 0 sms 72 memory 25396838400 cc 7.5
p0/t2142() 4 1000..2000 cudaLaunchKernel link 48 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[1]
p0/t2142() 4 3000..9000 cudaMemcpy link 49 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[2]
p0/t2152() 11 100..900 poll link 0 run.sqlite: OSRT_API[1]
p0/gpu0/s7 1 2500..2900 void k<float>(float*) link 48 run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL[1] grid [40 1 1] block [128 1 1] node 0
p0/gpu0/s7 2 4000..8000 Memcpy DtoH (Device -> Pinned) link 49 run.sqlite: CUPTI_ACTIVITY_KIND_MEMCPY[1] copy 2 3>2 3812 bytes
`, "\n")
	_, got, _ := strings.Cut(dump(tl), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	c := tl.Clocks[tl.Sources[0].Clock]
	if c.Wall || c.Zoned || c.How != timeline.Unplaced || !tl.Epoch.IsZero() {
		t.Errorf("clock %+v of a file that states no time", c)
	}
	if !strings.Contains(problems(tl), "nsys/no-session-start") {
		t.Error(problems(tl))
	}
}

// Kernel and call tables that lack the process, as small tools write them, still meet.
func TestTablesWithoutProcess(t *testing.T) {
	tl := mustRead(t, build(t, nil, `CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1,'gemm'),(2,'cudaLaunchKernel');
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0,'NVIDIA H100 80GB HBM3');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, shortName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0,100,0,7,5,1);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, correlationId INTEGER, globalTid INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (-30,-5,5,1,2);`))
	_, got, _ := strings.Cut(dump(tl), "\n")
	want := `device "NVIDIA H100 80GB HBM3"   proc 0 ordinal 0 sms 0 memory 0 cc 
p0/t1() 4 -30..-5 cudaLaunchKernel link 5 run.sqlite: CUPTI_ACTIVITY_KIND_RUNTIME[1]
p0/gpu0/s7 1 0..100 gemm link 5 run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL[1]
`
	if diff := cmp.Diff(want, got); diff != "" || len(tl.Procs) != 1 {
		t.Errorf("%d processes\n%s", len(tl.Procs), diff)
	}
}

// The file's own tables of numbers win over what is usual.
func TestEnumsOfTheFile(t *testing.T) {
	tl := mustRead(t, build(t, []string{"modern.sql"},
		"UPDATE ENUM_CUDA_MEMCPY_OPER SET id=id+100; INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1,'CUDA_MEMCPY_KIND_DTOH','Device-to-Host')",
		"UPDATE ENUM_CUDA_MEM_KIND SET id=5-id",
		"CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER, name TEXT); INSERT INTO ENUM_CUPTI_SYNC_TYPE VALUES (3,'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE')",
		"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET srcKind=3, dstKind=4",
		"UPDATE ENUM_NSYS_EVENT_TYPE SET id=id+500; UPDATE NVTX_EVENTS SET eventType=eventType+500"))
	got := dump(tl)
	for _, want := range []string{"Memcpy DtoH (Device -> Pinned) link 8", "copy 2 3>2 4096 bytes", " Event Sync link 11", "p0/t1001(pt_main_thread) 6 900000..9500000 step 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// With each table gone the rest is read, and either nothing changes or the file's problems say what is not there.
func TestEachTableDropped(t *testing.T) {
	full := mustRead(t, build(t, []string{"modern.sql"}))
	for _, table := range tablesOf(t, build(t, []string{"modern.sql"})) {
		path := build(t, []string{"modern.sql"}, "DROP TABLE "+table)
		tl, err := readFile(t, path)
		if err != nil {
			t.Errorf("without %s: %v", table, err)
			continue
		}
		if dump(tl) != dump(full) && problems(tl) == problems(full) {
			t.Errorf("without %s other things are read, and no problem says so", table)
		}
		if strings.HasPrefix(table, "CUPTI_ACTIVITY_KIND_") && len(tl.Spans.Start) == 0 {
			t.Errorf("without %s nothing is left", table)
		}
	}
}

func tablesOf(t testing.TB, path string) []string {
	t.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, _, err := conn.Prepare("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []string
	for s.Step() {
		out = append(out, s.ColumnText(0))
	}
	if len(out) < 5 {
		t.Fatalf("tables %v", out)
	}
	return out
}

// Values that cannot be are left out and counted; the rows around them stay.
func TestImpossibleValues(t *testing.T) {
	const kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,streamId,correlationId,globalPid,demangledName,shortName,gridX,gridY,gridZ,blockX,blockY,blockZ) VALUES "
	gpid := ",(1<<56)|(1001<<24),1,2,"
	tl := mustRead(t, build(t, []string{"modern.sql"},
		kernel+"(9000,8000,0,7,20"+gpid+"1,1,1,1,1,1)",
		kernel+"(9223372036854775807,9223372036854775807,0,7,20"+gpid+"1,1,1,1,1,1)",
		kernel+"(-9223372036854775808,8000,0,7,20"+gpid+"1,1,1,1,1,1)",
		kernel+"(9000,9100,-3,7,20"+gpid+"1,1,1,1,1,1)",
		kernel+"(9000,9100,0,-7,20"+gpid+"1,1,1,1,1,1)",
		kernel+"('soon',9100,0,7,20"+gpid+"1,1,1,1,1,1)",
		kernel+"(9000,9200,0,7,-1"+gpid+"99999999999,1,1,1,1,1)",
		kernel+"('9000','9300',0,7,20"+gpid+"1,1,1,1,1,1)",
		"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (9000,9400,0,1,7,0,(1<<56)|(1001<<24),-5,77,77,77)"))
	got, said := dump(tl), problems(tl)
	for _, want := range []string{" 1 9000..9200 ", " 1 9000..9300 ", " 2 9000..9400 Memcpy Unknown (Unknown -> Unknown) link 0", "copy 0 0>0 -1 bytes"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, want := range []string{"nsys/bad-time data-loss 6 x3 ", "nsys/negative-duration data-loss 5 x1 ", "nsys/bad-value data-loss 2 x4 "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if n := strings.Count(got, "gpu0/s7 1 "); n != 6 {
		t.Errorf("%d kernels, want 4 and 2\n%s", n, got)
	}
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"cudaLaunchKernel_v7000": "cudaLaunchKernel", "cudaMemcpyAsync_ptsz_v7000": "cudaMemcpyAsync", "cudaMemcpy_v3020_ptds": "cudaMemcpy",
		"cuMemcpyHtoD_v2": "cuMemcpyHtoD", "cuLaunchKernel": "cuLaunchKernel", "cudaFoo_vendor": "cudaFoo_vendor",
	} {
		if got := apiName(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for _, c := range []struct {
		in, name, sizes string
		op              bool
	}{
		{"aten::mm, seq = 5, op_id = 12", "aten::mm", "", true},
		{"aten::mm", "aten::mm", "", true},
		{"aten::mm, op_id = 12, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]", "aten::mm", "[[2, 3], [3, 4]]", true},
		{"aten::mm, op_id = 12, sizes = [[2, 3]", "aten::mm", "", true}, // cut
		{"AddBackward0, seq = 10293, op_id = 102680", "AddBackward0", "", true},
		{"detach_, op_id = 317160", "detach_", "", true},
		{"record_param_comms, op_id = 3", "record_param_comms", "", true},
		{"train_step, op_id = 3", "train_step", "", false},
		{"ProfilerStep#7, op_id = 3", "ProfilerStep#7", "", false},
		{"Optimizer.step#SGD.step, op_id = 9", "Optimizer.step#SGD.step", "", false},
		{"nccl:all_reduce, op_id = 9", "nccl:all_reduce", "", false},
		{"step 12", "step 12", "", false},
		{"load, then save", "load, then save", "", false},
		{"", "", "", false},
	} {
		name, sizes, op := operator([]byte(c.in))
		if string(name) != c.name || string(sizes) != c.sizes || op != c.op {
			t.Errorf("%q: %q %q %v", c.in, name, sizes, op)
		}
	}
	for in, want := range map[string]string{"0000:3B:00.0": "0000:3b:00", "00000000:17:00.0": "0000:17:00", "": "", "hunter2": ""} {
		if got := normalBus(in); got != want {
			t.Errorf("bus %q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"a006f2d1-96c7-5d65-1b04-4e95876f9792": "GPU-a006f2d1-96c7-5d65-1b04-4e95876f9792", "GPU-a006f2d1-96c7-5d65-1b04-4e95876f9792": "GPU-a006f2d1-96c7-5d65-1b04-4e95876f9792",
		"00000000-0000-0000-0000-000000000000": "", "x": "",
	} {
		if got := normalUUID(in); got != want {
			t.Errorf("UUID %q: %q, want %q", in, got, want)
		}
	}
}

func TestRankOfFileName(t *testing.T) {
	path := build(t, []string{"y2020.sql"})
	for name, want := range map[string]int{"rank7.sqlite": 7, "run.sqlite": -1, "job_rank_12_of_16.sqlite": 12, "host3/run1.sqlite": -1, "rank5/run.sqlite": 5} {
		in := ingest.NewFileInput(name, path, nil)
		b := ingest.NewBuilder(in, Format.Name)
		if err := Format.Read(context.Background(), in, b); err != nil {
			t.Fatal(err)
		}
		if got := b.TL.Procs[0].Rank; got != want {
			t.Errorf("%s: rank %d, want %d", name, got, want)
		}
	}
}

// Through the walk of the inputs: as it lies, packed, and in an archive; and what is no export is said to be none.
func TestFromTheWalk(t *testing.T) {
	path := build(t, []string{"modern.sql"})
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(build(t, nil, "CREATE TABLE people(name TEXT)"))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"a.sqlite": raw, "b.sqlite.gz": z.Bytes(), "cut.sqlite.gz": z.Bytes()[:z.Len()-z.Len()/4], "odd ?#%41.sqlite": append(bytes.Clone(raw), 0), "other.db": other} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.sqlite-wal"), []byte("not merged"), 0o600); err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := listing(t, dir)
	set, err := ingest.Open([]string{dir}, []ingest.Format{Format}, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := dump(mustRead(t, path))
	for i, f := range set.Files {
		if f.Format == nil {
			if f.Source.Path != "other.db" && f.Source.Path != "a.sqlite-wal" {
				t.Errorf("%s is not recognised", f.Source.Path)
			}
			continue
		}
		tl, err := set.ReadBulk(context.Background(), i)
		if f.Source.Path == "cut.sqlite.gz" {
			if err == nil && !strings.Contains(problems(tl), "ingest/damaged-file") {
				t.Errorf("a cut file without a problem: %s", problems(tl))
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(dump(tl), f.Source.Path+":", "run.sqlite:"); got != want {
			t.Errorf("%s: %s", f.Source.Path, cmp.Diff(want, got))
		}
		if f.Source.SHA256 == "" {
			t.Errorf("%s has no hash", f.Source.Path)
		}
		if wal := strings.Contains(problems(tl), "nsys/unmerged-wal"); wal != (f.Source.Path == "a.sqlite") {
			t.Errorf("%s: warned of a log that is not merged: %v", f.Source.Path, wal)
		}
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the folder was changed:\n%s\n%s", before, after)
	}
	if left := listing(t, temp); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if _, err := readFile(t, filepath.Join(dir, "other.db")); err == nil || !strings.Contains(err.Error(), "not from Nsight Systems") {
		t.Errorf("a foreign database: %v", err)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return out.String()
}
