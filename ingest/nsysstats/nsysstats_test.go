package nsysstats

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

func readText(t testing.TB, name, text string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput(name, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, nil)
	b := ingest.NewBuilder(in, "nsys-stats")
	err := read(context.Background(), in, b)
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%s: %v", name, verr)
	}
	return tl, in.Problems(), err
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "nsys-stats/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

var whats = [...]string{"other", "kernels", "copy time", "copy size", "calls", "ranges", "os waits"}

// sumsOf prints "kernels: name n=2 sum=10 med=5 min=4 max=6 row3".
func sumsOf(tl *timeline.Timeline) []string {
	var out []string
	for _, t := range tl.Totals {
		if len(t.Rows) == 0 {
			out = append(out, whats[t.What]+": none")
		}
		for _, r := range t.Rows {
			out = append(out, fmt.Sprintf("%s: %s n=%d sum=%d med=%d min=%d max=%d row%d", whats[t.What], r.Name, r.Count, r.Sum, r.Median, r.Min, r.Max, r.Row))
		}
	}
	return out
}

// spansOf prints the spans in order of track: "stream gpu0 NVIDIA A100/7: kernel gemm 100+50 link 3 row2".
func spansOf(tl *timeline.Timeline) []string {
	kinds := map[timeline.SpanKind]string{timeline.KindKernel: "kernel", timeline.KindMemcpy: "copy", timeline.KindMemset: "fill", timeline.KindAPI: "call", timeline.KindOp: "op", timeline.KindAnnotation: "range"}
	s := &tl.Spans
	var out []string
	for i := range s.Len() {
		tr := &tl.Tracks[s.Track[i]]
		where := fmt.Sprintf("thread %d/%d", tr.Proc, tr.Thread)
		if tr.Kind == timeline.TrackStream {
			d := &tl.Devices[tr.Device]
			where = fmt.Sprintf("stream gpu%d %s/%d", d.Ordinal, d.Name, tr.Thread)
		}
		line := fmt.Sprintf("%s: %s %s %d+%d link %d row%d", where, kinds[s.Kind[i]], tl.Names.Get(s.Name[i]), s.Start[i], s.End[i]-s.Start[i], s.Link[i], s.Row[i])
		for _, k := range s.Kernels {
			if int(k.Span) == i {
				l := s.Launches[k.Launch]
				line += fmt.Sprintf(" grid %v block %v", l.Grid, l.Block)
			}
		}
		for _, c := range s.Copies {
			if int(c.Span) == i {
				line += fmt.Sprintf(" dir %d mem %d>%d bytes %d", c.Kind, c.Src, c.Dst, c.Bytes)
			}
		}
		out = append(out, line)
	}
	return out
}

const kernText = `
NOTICE: Existing SQLite export found: run.sqlite
        It is assumed file was previously exported from: run.nsys-rep
        Consider using --force-export=true if needed.

Processing [run.sqlite] with [/opt/nvidia/nsight-systems/2024.4.2/host-linux-x64/reports/cuda_gpu_kern_sum.py]... 

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)                 Name               
 --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  ----------------------------------
     75.8    4,361,845,774        975  4473688.0  4477428.5   4390159   4512497      12741.9  void at::f<float, (int)4>(int, in…
     24.2      193,326,715      8,670    22298.4    23120.5      2464     28448       5222.0  add                               

Processing [run.sqlite] with [/opt/reports/cuda_gpu_mem_time_sum.py]... 
SKIPPED: run.sqlite does not contain GPU memory data.

Processing [run.sqlite] with [/opt/reports/osrt_sum.py]... 

 ** OS Runtime Summary (osrt_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)   Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ------
    100.0              500          2     250.0     250.0       200       300         50.0  futex
`

func TestSums(t *testing.T) {
	const newKern = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
	for _, c := range []struct {
		what, name, text string
		want             []string
		problems         string
	}{
		{"new CSV", "x.csv", newKern + "60.0,6000,3,2000.0,1900.5,1000,3000,12.5,\"void f<a, b>(int, \"\"x\"\")\"\n40.0,4000,2,2000.0,2000.0,1000,3000,0.0,g\n",
			[]string{`kernels: void f<a, b>(int, "x") n=3 sum=6000 med=1901 min=1000 max=3000 row2`, "kernels: g n=2 sum=4000 med=2000 min=1000 max=3000 row3"}, "no-time-axis@1*1"},
		{"BOM and CRLF", "x.csv", "\xef\xbb\xbf" + strings.ReplaceAll(newKern+"100.0,6000,3,2000.0,1900.5,1000,3000,12.5,g\n", "\n", "\r\n"),
			[]string{"kernels: g n=3 sum=6000 med=1901 min=1000 max=3000 row2"}, "no-time-axis@1*1"},
		{"tabs", "x.tsv", strings.ReplaceAll(newKern+"100.0,6000,3,2000.0,1900.5,1000,3000,12.5,g\n", ",", "\t"),
			[]string{"kernels: g n=3 sum=6000 med=1901 min=1000 max=3000 row2"}, "no-time-axis@1*1"},
		{"old names of columns", "x.csv", "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n100.0,6000,3,2000.0,1000,3000,g\n",
			[]string{"kernels: g n=3 sum=6000 med=-1 min=1000 max=3000 row2"}, "no-time-axis@1*1"},
		{"no space before units", "x.csv", "Time(%),Total Time(us),Instances,Avg(us),Med(us),Min(us),Max(us),StdDev(us),Name\n100.0,6.5,3,2.0,1.9005,1,3,0,g\n",
			[]string{"kernels: g n=3 sum=6500 med=1901 min=1000 max=3000 row2"}, "no-time-axis@1*1"},
		{"ms", "x.csv", strings.ReplaceAll(newKern, "(ns)", "(ms)") + "100.0,6.000001,3,2.0,1.9,1,3.5,0,g\n",
			[]string{"kernels: g n=3 sum=6000001 med=1900000 min=1000000 max=3500000 row2"}, "no-time-axis@1*1"},
		{"s, usec and a µ", "x.csv", "Time(%),Total Time (sec),Instances,Avg (usec),Med (µs),Min (nsec),Max (s),StdDev (ns),Name\n100.0,6,3,2.0,1.9,1,3.5,0,g\n",
			[]string{"kernels: g n=3 sum=6000000000 med=1900 min=1 max=3500000000 row2"}, "no-time-axis@1*1"},
		{"by grid and block", "x.csv", "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name\n100.0,6,3,2,2,1,3,0,   1    1    1, 128    1    1,g\n",
			[]string{"kernels: g n=3 sum=6 med=2 min=1 max=3 row2"}, "no-time-axis@1*1"},
		{"a name with commas that nobody quoted", "x.csv", newKern + "60.0,6000,3,2000.0,1900.0,1000,3000,12.5,f<a,b>(int)\n",
			[]string{"kernels: f<a,b>(int) n=3 sum=6000 med=1900 min=1000 max=3000 row2"}, "no-time-axis@1*1"},
		{"copies", "x.csv", "Processing [r.sqlite] with [/r/reports/cuda_gpu_mem_time_sum.py]... \nTime (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n100.0,60,3,20,20,10,30,0,[CUDA memcpy Host-to-Device]\n\n" +
			"Processing [r.sqlite] with [/r/reports/cuda_gpu_mem_size_sum.py]... \nTotal (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n8.389,2,4.194,4.194,4.194,4.194,0,[CUDA memcpy Host-to-Device]\n",
			[]string{"copy time: [CUDA memcpy Host-to-Device] n=3 sum=60 med=20 min=10 max=30 row3", "copy size: [CUDA memcpy Host-to-Device] n=2 sum=8389000 med=4194000 min=4194000 max=4194000 row7"}, "no-time-axis@2*1"},
		{"2020", "x.txt", "CUDA Memory Operation Statistics (by size in KiB):\n\n    Total     Operations   Average    Minimum     Maximum        Operation     \n -----------  ----------  ----------  ---------  ----------  ------------------\n    1024.000           2     512.000    512.000     512.000  [CUDA memcpy HtoD]\n\n" +
			"CUDA API Statistics:\n\n Time(%)  Total Time (ns)  Num Calls    Average     Minimum    Maximum        Name    \n -------  ---------------  ---------  -----------  ---------  ---------  ------------\n   100.0        900000000          3  300000000.0       1000  800000000  cudaMalloc\n",
			[]string{"copy size: [CUDA memcpy HtoD] n=2 sum=1048576 med=-1 min=524288 max=524288 row5", "calls: cudaMalloc n=3 sum=900000000 med=-1 min=1000 max=800000000 row11"}, "no-time-axis@3*1"},
		{"a heading that was moved", "x.txt", "Time (%)  Total Time (ns)  Num Calls  Name\n -------  ---------------  ---------  -----------------------\n   100.0              900          3  cudaMalloc\n",
			[]string{"calls: cudaMalloc n=3 sum=900 med=-1 min=-1 max=-1 row3"}, "no-time-axis@1*1"},
		{"calls of CUDA by their names", "x.csv", "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n90.0,9,1,9,9,9,9,0,cudaLaunchKernel\n10.0,1,1,1,1,1,1,0,cuCtxSynchronize\n",
			[]string{"calls: cudaLaunchKernel n=1 sum=9 med=9 min=9 max=9 row2", "calls: cuCtxSynchronize n=1 sum=1 med=1 min=1 max=1 row3"}, "no-time-axis@1*1"},
		{"calls of the system by their names", "x.csv", "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n90.0,9,1,9,9,9,9,0,pthread_cond_wait\n",
			[]string{"os waits: pthread_cond_wait n=1 sum=9 med=9 min=9 max=9 row2"}, "no-time-axis@1*1"},
		{"calls of the system by the file's name", "run_osrt_sum.csv", "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n90.0,9,1,9,9,9,9,0,cudaLaunchKernel\n",
			[]string{"os waits: cudaLaunchKernel n=1 sum=9 med=9 min=9 max=9 row2"}, "no-time-axis@1*1"},
		{"by category, and the same kernels again", "x.csv", "Processing [r.sqlite] with [/r/reports/cuda_gpu_sum.py]... \nTime (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation\n90.0,9,1,9,9,9,9,0,CUDA_KERNEL,g\n10.0,1,1,1,1,1,1,0,MEMORY_OPER,[CUDA memset]\n\nProcessing [r.sqlite] with [/r/reports/cuda_gpu_kern_sum.py]... \n" + newKern + "100.0,9,1,9,9,9,9,0,g\n",
			[]string{"kernels: g n=1 sum=9 med=9 min=9 max=9 row8", "copy time: [CUDA memset] n=1 sum=1 med=1 min=1 max=1 row4"}, "no-time-axis@2*1 second-table@2*1"},
		{"by category, and no kernel", "x.csv", "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation\n100.0,1,1,1,1,1,1,0,MEMORY_OPER,[CUDA memset]\n",
			[]string{"kernels: none", "copy time: [CUDA memset] n=1 sum=1 med=1 min=1 max=1 row2"}, "no-time-axis@1*1"},
		{"ranges", "x.csv", "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n90.0,9,1,9,9,9,9,0,PushPop,:step\n10.0,1,1,1,1,1,1,0,PushPop,NCCL:ncclAllReduce\n",
			[]string{"ranges: step n=1 sum=9 med=9 min=9 max=9 row2", "ranges: ncclAllReduce n=1 sum=1 med=1 min=1 max=1 row3"}, "no-time-axis@1*1"},
		{"kernels of nested ranges count once", "x.csv", "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Kernel Name\n" +
			":layer,PushPop,1,1,4,4,40,10,10,10,10,0,gemm\n:step,PushPop,1,1,2,4,40,10,10,10,10,0,gemm\n:step,PushPop,1,1,2,2,5,2,2,2,3,0,add\n",
			[]string{"kernels: gemm n=4 sum=40 med=10 min=10 max=10 row3", "kernels: add n=2 sum=5 med=2 min=2 max=3 row4"}, "no-time-axis@1*1 one-range@1*1"},
		{"other reports are counted", "x.csv", "Processing [r.sqlite] with [/r/reports/openmp_sum.py]... \nTime (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n90.0,9,1,9,9,9,9,0,parallel\n",
			nil, "not-stored@2*1"},
		{"text, several tables", "x.txt", kernText,
			[]string{"kernels: void at::f<float, (int)4>(int, in… n=975 sum=4361845774 med=4477429 min=4390159 max=4512497 row12", "kernels: add n=8670 sum=193326715 med=23121 min=2464 max=28448 row13",
				"os waits: futex n=2 sum=500 med=250 min=200 max=300 row24"}, "skipped-report@0*1 no-time-axis@10*1"},
		{"another recording", "x.txt", "Processing [a.sqlite] with [/r/reports/cuda_gpu_kern_sum.py]... \n" + newKern + "100.0,9,1,9,9,9,9,0,g\n\nProcessing [b.sqlite] with [/r/reports/cuda_gpu_kern_sum.py]... \n" + newKern + "100.0,5,1,9,9,9,9,0,h\n",
			[]string{"kernels: g n=1 sum=9 med=9 min=9 max=9 row3"}, "no-time-axis@2*1 not-stored@2*1 second-recording@6*1"},
		{"bad and short rows", "x.csv", newKern + "60.0,x,3,2000.0,1900.5,1000,3000,12.5,g\n60.0,3\n60.0,6000,3,2000.0,1900.5,1000,3000,12.5,h\n60.0,60",
			[]string{"kernels: h n=3 sum=6000 med=1901 min=1000 max=3000 row4"}, "no-time-axis@1*1 bad-row@2*1 short-row@3*1 truncated@5*1"},
		{"a name over two lines", "x.csv", "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n90.0,9,1,9,9,9,9,0,PushPop,\"a\nb\"\n10.0,1,1,1,1,1,1,0,PushPop,c\n",
			[]string{"ranges: a\nb n=1 sum=9 med=9 min=9 max=9 row2", "ranges: c n=1 sum=1 med=1 min=1 max=1 row4"}, "no-time-axis@1*1"},
		{"a program spoke first", "x.log", "loss 2.5\nGenerating '/tmp/r.qdstrm'\n[1/2] [====100%] r.nsys-rep\n" + newKern + "100.0,9,1,9,9,9,9,0,g\n",
			[]string{"kernels: g n=1 sum=9 med=9 min=9 max=9 row5"}, "other-line@1*1 no-time-axis@4*1"},
	} {
		tl, ps, err := readText(t, c.name, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, sumsOf(tl)); d != "" {
			t.Errorf("%s: -want +got\n%s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %s, want %s", c.what, got, c.problems)
		}
		if tl.Spans.Len() != 0 || len(c.want) > 0 && tl.Sampled() == nil {
			t.Errorf("%s: %d spans, totals outlive them: %v", c.what, tl.Spans.Len(), tl.Sampled() != nil)
		}
		if !recognised(c.name, c.text) {
			t.Errorf("%s: not recognised", c.what)
		}
	}
}

func recognised(name, text string) bool {
	return recognise(ingest.Head{Name: name, Raw: []byte(text), Text: []byte(strings.TrimPrefix(text, "\xef\xbb\xbf"))})
}

const (
	gpuHead  = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
	apiHead  = "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
	execHead = "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
	nvtxHead = "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,RangeStack,NameTree\n"
	projHead = "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl,NumChild,RangeId,ParentId,RangeStack\n"
	aCopy    = "100,50,7,,,,,,,,,,4.194,6337.593,Pageable,Device,NVIDIA RTX A4500 (1),1,,13,[CUDA memcpy Host-to-Device]\n"
	aKernel  = "200,70,8,4096,1,2,256,1,1,16,0.000,0.000,,,,,NVIDIA RTX A4500 (1),1,,7,\"step/void f<int, 4>(int, float)\"\n"
	aFill    = "300,10,9,,,,,,,,,,0.001,1.0,Device,,NVIDIA RTX A4500 (1),1,,7,[CUDA memset]\n"
	aCall    = "150,20,cudaLaunchKernel_v7000,0,8,41,42,20,python3\n"
)

func TestSpans(t *testing.T) {
	copyLine := "stream gpu1 NVIDIA RTX A4500/13: copy Memcpy HtoD (Pageable -> Device) 100+50 link 7 row2 dir 1 mem 1>3 bytes 4194000"
	kernelLine := "stream gpu1 NVIDIA RTX A4500/7: kernel void f<int, 4>(int, float) 200+70 link 8 row3 grid [4096 1 2] block [256 1 1]"
	fillLine := "stream gpu1 NVIDIA RTX A4500/7: fill Memset (Device) 300+10 link 9 row4 dir 0 mem 0>3 bytes 1000"
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"device work alone", gpuHead + aCopy + aKernel + aFill, []string{kernelLine, fillLine, copyLine}, "no-calls@1*1"},
		{"before green contexts, in us, other units", "Start (us),Duration (us),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (byte),DymSMem (byte),Bytes (KiB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n" +
			"0.1,0.05,7,,,,,,,,,,2,1,Pinned,Device,GPU,1,13,[CUDA memcpy HtoD]\n0.2,0.0705,8,1,1,1,32,1,1,16,0,0,,,,,GPU,1,13,g\n",
			[]string{"stream gpu-1 GPU/13: copy Memcpy HtoD (Pinned -> Device) 100+50 link 7 row2 dir 1 mem 2>3 bytes 2048", "stream gpu-1 GPU/13: kernel g 200+71 link 8 row3 grid [1 1 1] block [32 1 1]"}, "no-calls@1*1"},
		{"joined with calls in one file", gpuHead + aCopy + aKernel + aFill + "\nProcessing [r.sqlite] with [/r/reports/cuda_api_trace.py]... \n" + apiHead + aCall,
			[]string{kernelLine, fillLine, copyLine, "thread 0/42: call cudaLaunchKernel 150+20 link 8 row8"}, ""},
		{"calls alone", apiHead + aCall, []string{"thread 0/42: call cudaLaunchKernel 150+20 link 8 row2"}, "no-device-work@1*1"},
		{"launches and their kernels", execHead + "150,20,,,200,70,120,41,42,1,cudaLaunchKernel, 4096    1    2, 256    1    1,\"f(int, int)\"\n",
			[]string{"stream gpu1 /-1: kernel f(int, int) 200+70 link 2147483649 row2 grid [4096 1 2] block [256 1 1]", "thread 0/42: call cudaLaunchKernel 150+20 link 2147483649 row2"}, ""},
		{"launches give the kernels of another table their calls", gpuHead + aCopy + aKernel + aFill + "\n" + execHead + "150,20,,,200,70,120,41,42,1,cudaLaunchKernel, 1 1 1, 1 1 1,f\n",
			[]string{strings.Replace(kernelLine, "link 8", "link 2147483649", 1), fillLine, copyLine, "thread 0/42: call cudaLaunchKernel 150+20 link 2147483649 row7"}, ""},
		{"launches say nothing new beside both", gpuHead + aKernel + "\n" + apiHead + aCall + "\n" + execHead + "150,20,,,200,70,120,41,42,1,cudaLaunchKernel, 1 1 1, 1 1 1,f\n",
			[]string{strings.Replace(kernelLine, "row3", "row2", 1), "thread 0/42: call cudaLaunchKernel 150+20 link 8 row5"}, ""},
		{"ranges and operators", nvtxHead + "10,90,80,0,80,:step 12,5,6,0,0,1,,:1,:step 12\n20,30,10,0,10,\":aten::mm, seq = 5, op_id = 12, sizes = [[2, 3], [3, 4]]\",5,6,1,0,2,1,:1:2,--x\n40,50,10,0,10,NCCL:ncclAllReduce,5,6,1,0,3,1,:1:3,--y\n",
			[]string{"thread 0/6: range step 12 10+80 link 0 row2", "thread 0/6: op aten::mm 20+10 link 0 row3", "thread 0/6: range ncclAllReduce 40+10 link 0 row4"}, "no-device-work@1*1"},
		{"projected ranges as they were on the host", projHead + ",10,90,,,,5,6,164,,0,,,\nstep,100,90,10,80,PushPop,5,6,2,0,0,2,,:2\n",
			[]string{"thread 0/6: range step 10+80 link 0 row3"}, "no-device-work@1*1"},
		{"projected ranges beside the ranges", nvtxHead + "10,90,80,0,80,step,5,6,0,0,1,,:1,step\n\n" + projHead + "step,100,90,10,80,PushPop,5,6,2,0,0,2,,:2\n",
			[]string{"thread 0/6: range step 10+80 link 0 row2"}, "no-device-work@1*1"},
		{"rows that cannot be", gpuHead + aKernel + strings.Replace(aKernel, "200,70", "200,-70", 1) + strings.Replace(aKernel, "200,70", "2e30,70", 1) + "1,2,3\n",
			[]string{strings.Replace(kernelLine, "row3", "row2", 1)}, "no-calls@1*1 bad-row@3*2 short-row@5*1"},
		{"columns", "Processing [r.sqlite] with [/r/reports/cuda_gpu_trace.py]... \n\n ** CUDA GPU Trace (cuda_gpu_trace):\n\n" +
			" Start (ns)  Duration (ns)  CorrId  GrdX  GrdY  GrdZ  BlkX  BlkY  BlkZ  Reg/Trd  StcSMem (MB)  DymSMem (MB)  Bytes (MB)  Throughput (MB/s)  SrcMemKd  DstMemKd         Device         Ctx  GreenCtx  Strm           Name           \n" +
			" ----------  -------------  ------  ----  ----  ----  ----  ----  ----  -------  ------------  ------------  ----------  -----------------  --------  --------  --------------------  ---  --------  ----  ------------------------\n" +
			"        200             70       8  4096     1     2   256     1     1       16         0.000         0.000                                                     NVIDIA RTX A4500 (1)    1               7  void f<int, 4>(int, flo…\n",
			[]string{strings.Replace(strings.Replace(kernelLine, "row3", "row7", 1), "float)", "flo…", 1)}, "no-calls@5*1"},
	} {
		tl, ps, err := readText(t, "x.csv", c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		got := spansOf(tl)
		slicesSort(got, c.want)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %s, want %s", c.what, got, c.problems)
		}
		if c := tl.Clocks[0]; c.How != timeline.Unplaced || c.Why == "" {
			t.Errorf("clock %+v", c)
		}
		if !recognised("x.csv", c.text) {
			t.Errorf("%s: not recognised", c.what)
		}
	}
}

func slicesSort(lists ...[]string) {
	for _, l := range lists {
		slices.Sort(l)
	}
}

// TestProcesses: each GPU belongs to the process whose calls its kernels name.
func TestProcesses(t *testing.T) {
	text := gpuHead + strings.ReplaceAll(aKernel, ",8,4096", ",8,4096") + strings.ReplaceAll(strings.Replace(aKernel, ",8,", ",80,", 1), "(1)", "(0)") + "\n" + apiHead + aCall + "150,20,cudaLaunchKernel,0,80,31,32,20,python3\n"
	tl, ps, err := readText(t, "rank3_trace.csv", text)
	if err != nil || len(ps) != 0 {
		t.Fatal(err, ps)
	}
	var got []string
	for _, d := range tl.Devices {
		got = append(got, fmt.Sprintf("gpu%d of pid %d", d.Ordinal, tl.Procs[d.Proc].PID))
	}
	if d := cmp.Diff([]string{"gpu0 of pid 31", "gpu1 of pid 41"}, got); d != "" {
		t.Error(d)
	}
	tl, _, _ = readText(t, "rank3_trace.csv", apiHead+aCall)
	if p := tl.Procs[0]; p.Rank != 3 || p.RankHow != "file name" || p.PID != 41 {
		t.Errorf("%+v", p)
	}
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]bool{
		"timestamp, index, utilization.gpu [%]\n2026/07/14 08:12:53.123, 0, 12 %\n": false,
		"index,name\n1,bob\n":          false,
		"step,loss,lr\n1,2,3\n":        false,
		"Time,Total,Name\n1,2,3":       false,
		"Start,Duration,Name\n1,2,3\n": false,
		"Total,Count,Name\n1,2,3\n":    false,
		"time (s),total time (s)\n":    false,
		"Name,Start,End\n":             false,
		"# gpu pwr\n# Idx W\n0 50\n":   false,
		strings.Repeat("x\n", 50) + "Time (%),Total Time (ns),Instances,Name\n": false,
		"Processing [12/40] with [cuda]\n":                                      false,
		"Processing [r.sqlite] with [cuda_gpu_trace.py]... \n":                  true,
		" ** CUDA API Summary (cuda_api_sum):\n":                                true,
		" ** OS Runtime Summary (osrt_sum):\n":                                  true,
		"** Results:\n":                                                         false,
		"\"Time (%)\",\"Total Time (ns)\",\"Instances\"\n":                      true,
		"Start (ns),End (ns),Duration (ns),DurChild (ns)\n":                     true,
	} {
		if got := recognised("x.csv", text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestAsks(t *testing.T) {
	kern := "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n90.0,9,1,9,9,9,9,0,g\n\n"
	calls := "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n90.0,9,1,9,cudaMalloc\n\n"
	for text, want := range map[string]string{kern: "kernel", calls: "idle", kern + calls: "idle kernel", apiHead + aCall: "step", gpuHead + aCopy + "\n" + kern: "all", "Total (MB),Count,Avg (MB),Operation\n1,1,1,[CUDA memset]\n": ""} {
		tl, _, err := readText(t, "x.csv", text)
		got := strings.Join(tl.Sources[0].Asks, " ")
		if tl.Sources[0].Asks == nil {
			got = "all"
		}
		if err != nil || got != want {
			t.Errorf("%q: %s, want %s, %v", text, got, want, err)
		}
		if host := strings.HasPrefix(text, apiHead); host != (len(tl.Procs) > 0 && tl.Procs[0].Meta["no_device_work"] != "") {
			t.Errorf("%q: %+v", text, tl.Procs)
		}
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "Processing [r.sqlite] with [/r/reports/cuda_gpu_kern_sum.py]... \nSKIPPED: r.sqlite does not contain CUDA kernel data.\n"} {
		if _, _, err := readText(t, "x.csv", text); err == nil || !strings.Contains(err.Error(), "no table") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestCutAnywhere: a file that was cut gives the rows before the cut as the whole gives them; only the last may lack the end of its name.
func TestCutAnywhere(t *testing.T) {
	all := gpuHead + aCopy + aKernel + aFill + "\nProcessing [r.sqlite] with [/r/reports/cuda_api_trace.py]... \n" + apiHead + aCall + "\n" + strings.TrimPrefix(kernText, "\n")
	all = strings.ReplaceAll(all, "run.sqlite", "r.sqlite")
	whole, _, err := readText(t, "x.csv", all)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[uint32]bool{}
	for _, r := range whole.Spans.Row {
		rows[r] = true
	}
	for _, x := range whole.Totals {
		for _, r := range x.Rows {
			rows[r.Row] = true
		}
	}
	if len(rows) != 7 {
		t.Fatalf("%d rows in the whole file", len(rows))
	}
	for i := range 200 {
		cut := len(all) * i / 200
		tl, _, err := readText(t, "x.csv", all[:cut])
		if err != nil {
			continue // before the first table
		}
		last := uint32(strings.Count(all[:cut], "\n"))
		n := 0
		for _, r := range tl.Spans.Row {
			if r <= last {
				n++
			}
		}
		for _, x := range tl.Totals {
			for _, r := range x.Rows {
				if r.Row <= last {
					n++
				}
			}
		}
		want := 0
		for r := range rows {
			if r <= last {
				want++
			}
		}
		if n != want {
			t.Errorf("cut at %d: %d of %d whole rows", cut, n, want)
		}
	}
}

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		text   string
		places int
		want   int64
		ok     bool
	}{
		{"1331082.1", 0, 1331082, true}, {"1331082.5", 0, 1331083, true}, {"1.5", 6, 1500000, true}, {"4,361,845,774", 0, 4361845774, true}, {"-3", 3, -3000, true},
		{"0.0000000004", 9, 0, true}, {"0.0000000005", 9, 1, true}, {"1.2e+09", 0, 1200000000, true}, {"", 0, 0, false}, {"-", 0, 0, false}, {".", 0, 0, false},
		{"12x", 0, 0, false}, {"99999999999999999999", 0, 0, false}, {"9999999999", 9, 0, false}, {"1.2.3", 0, 0, false}, {"1e999", 0, 0, false}, {"16.123456789012345678901", 9, 16123456789, true},
	} {
		if got, ok := decimal([]byte(c.text), c.places); got != c.want || ok != c.ok {
			t.Errorf("%q of %d places: %d, %v", c.text, c.places, got, ok)
		}
	}
}

func TestRealFiles(t *testing.T) {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	open := func(name string) (*ingest.Set, *timeline.Timeline) {
		t.Helper()
		s, err := ingest.Open([]string{filepath.Join(dir, "nsys-stats", name)}, []ingest.Format{Format}, ingest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		tl, err := s.ReadBulk(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := tl.Validate(); err != nil {
			t.Error(err)
		}
		return s, tl
	}
	for _, c := range []struct {
		name               string
		rows               int
		first, last        string
		sum, count, median int64 // of all rows; of the first
	}{
		{"cuda_gpu_kern_sum_train_step.txt", 52, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_ex…",
			"void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<unsigned int, (int)4, void …", 29009177465, 145772, 1151029},
		{"cuda_gpu_kern_sum_forward_nvtx.txt", 17, "forward/sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_ali…",
			"distribution_elementwise_grid_stride_kernel", 9593395281, 27482, 4477428},
	} {
		s, tl := open(c.name)
		if len(tl.Totals) != 1 || tl.Totals[0].What != timeline.TotalKernels || len(tl.Totals[0].Rows) != c.rows || tl.Spans.Len() != 0 {
			t.Fatalf("%s: %+v", c.name, sumsOf(tl))
		}
		rows := tl.Totals[0].Rows
		var sum, count int64
		for _, r := range rows {
			sum += r.Sum
			count += r.Count
			if r.Median < r.Min || r.Median > r.Max || r.Count <= 0 || r.Sum < r.Count*r.Min || r.Sum > r.Count*r.Max {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
		if sum != c.sum || count != c.count || rows[0].Median != c.median || rows[0].Name != c.first || rows[len(rows)-1].Name != c.last {
			t.Errorf("%s: sum %d, count %d, %+v, %q", c.name, sum, count, rows[0], rows[len(rows)-1].Name)
		}
		if got := codes(s.Files[0].Problems); got != "no-time-axis@10*1" {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	s, tl := open("nvtx_pushpop_trace_proc0.csv.gz")
	if n := tl.Spans.Len(); n != 27891 || tl.Sources[0].Rows != 27891 {
		t.Errorf("%d ranges", n)
	}
	sp := &tl.Spans
	if d := time64(sp.Start[0], sp.End[0]); tl.Names.Get(sp.Name[0]) != "TSL:XlaDumpHloModule:#module=jit__psum,program_id=1#" || d != [2]int64{26940649047, 26940822025} || sp.Row[0] != 2 {
		t.Errorf("first range %v %q row %d", d, tl.Names.Get(sp.Name[0]), sp.Row[0])
	}
	var reduce int
	for i := range sp.Start {
		if tl.Names.Get(sp.Name[i]) == "ncclAllReduce" {
			reduce++
		}
	}
	if reduce != 50 || tl.Procs[0].PID != 215733 || len(tl.Procs) != 1 {
		t.Errorf("%d all-reduces, %+v", reduce, tl.Procs)
	}
	if got := codes(s.Files[0].Problems); got != "no-device-work@1*1" {
		t.Errorf("%s", got)
	}
}

func time64(a, b timeline.Time) [2]int64 { return [2]int64{int64(a), int64(b)} }

func FuzzRead(f *testing.F) {
	for _, s := range []string{kernText, gpuHead + aCopy + aKernel + aFill, apiHead + aCall, execHead + "150,20,,,200,70,120,41,42,1,cudaLaunchKernel, 1 1 1, 1 1 1,f\n",
		nvtxHead + "10,90,80,0,80,:step 12,5,6,0,0,1,,:1,:step 12\n", projHead + ",10,90,,,,5,6,164,,0,,,\n",
		gpuHead + "\"1\",\"", gpuHead + "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,(99999999999),18,19,20,[CUDA memcpy\n",
		" a  b  c\n - - -\n", "Time (%)  Total Time (ns)  Num Calls  Name\n --- --- --- ---\n…………\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := ingest.NewInput("x.csv", func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, nil)
		b := ingest.NewBuilder(in, "nsys-stats")
		_ = read(context.Background(), in, b)
		if err := b.Finish().Validate(); err != nil {
			t.Error(err)
		}
	})
}
