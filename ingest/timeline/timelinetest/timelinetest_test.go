package timelinetest

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

func TestParse(t *testing.T) {
	tl := Parse(`
		# a copy, a kernel, their calls
		main anno 0ms..10ms ProfilerStep#3
		main api 0.5us..6us cudaLaunchKernel link=5
		autograd op 1ms..2ms MmBackward0 dims=[[8,16],[16,4]] types=["float","float"]
		gpu0/s7 kernel 0ms..3ms void gemm<float, 4>(int) link=5 grid=8,2,1 block=256,1,1
		gpu0/s7 h2d 3ms..4ms bytes=1048576 mem=pageable
		gpu0/s9 kernel 1ms..2ms ncclDevKernel_AllReduce coll=allreduce n=1024 dtype=Float group=0 size=8 ranks=[0,1] seq=3
		overhead overhead 4ms..5ms Buffer_Flush
		main mark 2ms Iteration Start: PyTorch Profiler
	`)
	s := &tl.Spans
	if s.Len() != 7 || len(s.Copies) != 1 || len(s.Kernels) != 1 || len(s.Comms) != 1 || len(s.Shapes) != 1 || len(tl.Marks.At) != 1 {
		t.Fatalf("%d spans, %+v", s.Len(), s)
	}
	if got := tl.Window; got != (timeline.Interval{Start: 0, End: 10e6}) {
		t.Errorf("window %v", got)
	}
	byName := map[string]int{}
	for i := range s.Len() {
		byName[tl.Names.Get(s.Name[i])] = i
	}
	k, ok := byName["void gemm<float, 4>(int)"]
	if !ok || s.Link[k] != 5 || s.Row[k] != 3 || s.Kernels[0].Span != int32(k) || s.Launches[s.Kernels[0].Launch].Grid != [3]int32{8, 2, 1} {
		t.Errorf("kernel %d: %v", k, s.Kernels)
	}
	c, ok := byName["Memcpy HtoD (Pageable -> Device)"]
	if !ok || s.Copies[0] != (timeline.Copy{Span: int32(c), Kind: timeline.DirH2D, Src: timeline.MemPageable, Dst: timeline.MemDevice, Bytes: 1048576}) {
		t.Errorf("copy %d: %+v", c, s.Copies)
	}
	if a := byName["cudaLaunchKernel"]; s.Start[a] != 500 || tl.Tracks[s.Track[a]].Thread != PID {
		t.Errorf("call starts at %d on %+v", s.Start[a], tl.Tracks[s.Track[a]])
	}
	if o := byName["Buffer_Flush"]; tl.Tracks[s.Track[o]].Thread != -1 {
		t.Errorf("overhead on %+v", tl.Tracks[s.Track[o]])
	}
	if got := tl.Names.Get(s.Shapes[0].Dims); got != "[[8, 16], [16, 4]]" {
		t.Errorf("dims %s", got)
	}
}

func TestParseProcesses(t *testing.T) {
	tl := Parse(`
		proc r0 rank=0 world=2 host=a
		proc r1 rank=1 world=2 host=b
		device r1:gpu0 name=NVIDIA_A100 sms=108 cc=8.0
		group r1 0 ranks=0,1 desc=default_pg size=2
		r0:gpu0/s7 kernel 0ms..1ms k
		r1:gpu0/s7 kernel 0ms..1ms k
		r1:main op 0ms..1ms aten::mm`)
	if len(tl.Procs) != 2 || tl.Procs[1].Rank != 1 || len(tl.Procs[1].Groups[0].Ranks) != 2 || len(tl.Devices) != 2 {
		t.Fatalf("%+v %+v", tl.Procs, tl.Devices)
	}
	if d := tl.Devices[0]; d.Proc != 1 || d.Name != "NVIDIA A100" || d.SMs != 108 {
		t.Errorf("device %+v", d)
	}
}

func TestParsePanicsWithTheLine(t *testing.T) {
	for _, text := range []string{"main op", "main nokind 0ms..1ms x", "gpu0 kernel 0ms..1ms x", "main op 2ms..1ms x", "main op 0ms..1ms x bytes=1", "q:main op 0ms..1ms x", "main op 0ms..1ms x link=z"} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.Contains(s, "line 1: "+text) {
					t.Errorf("%q: panic %q", text, s)
				}
			}()
			Parse(text)
		}()
	}
}
