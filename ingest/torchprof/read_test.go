package torchprof

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

func readBytes(data []byte, path string, jobs int) (*timeline.Timeline, []timeline.Problem, error) {
	in := ingest.NewInput(path, opener(data), &ingest.Options{Jobs: jobs})
	b := ingest.NewBuilder(in, Format.Name)
	if err := Format.Read(context.Background(), in, b); err != nil {
		return nil, in.Problems(), err
	}
	tl := b.Finish()
	if err := tl.Validate(); err != nil {
		return nil, in.Problems(), fmt.Errorf("invalid: %w", err)
	}
	return tl, in.Problems(), nil
}

func opener(b []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

func mustRead(t *testing.T, text string) (*timeline.Timeline, []timeline.Problem) {
	t.Helper()
	tl, problems, err := readBytes([]byte(text), "trace.json", 1)
	if err != nil {
		t.Fatal(err)
	}
	return tl, problems
}

var kindNames = [...]string{"other", "kernel", "memcpy", "memset", "api", "op", "anno", "gpuanno", "sync", "overhead", "python"}

// dump writes the spans by row, one a line: row, track, kind, start..end, name, link, side rows.
func dump(tl *timeline.Timeline) string {
	type line struct {
		row  uint32
		text string
	}
	var lines []line
	sp, get := &tl.Spans, tl.Names.Get
	side := map[int32]string{}
	for _, c := range sp.Copies {
		side[c.Span] += fmt.Sprintf(" copy=%d,%d,%d,%d", c.Kind, c.Src, c.Dst, c.Bytes)
	}
	for _, c := range sp.Kernels {
		l := sp.Launches[c.Launch]
		side[c.Span] += fmt.Sprintf(" launch=%v%v,%d", l.Grid, l.Block, l.GraphNode)
	}
	for _, c := range sp.Comms {
		side[c.Span] += fmt.Sprintf(" comm=%s,%s,%d,%d,%s,%s,%d,%s,%d,%d,%d,%d,%s,%s", get(c.Collective), get(c.DType), c.InElems, c.OutElems, get(c.Group), get(c.GroupDesc), c.GroupSize, get(c.GroupRanks), c.Rank, c.Src, c.Dst, c.Seq, get(c.InSplits), get(c.OutSplits))
	}
	for _, c := range sp.Shapes {
		side[c.Span] += fmt.Sprintf(" shape=%s,%s,%s", get(c.Dims), get(c.Types), get(c.Concrete))
	}
	for i := range sp.Len() {
		tr := tl.Tracks[sp.Track[i]]
		where := fmt.Sprintf("p%d/t%d", tl.Procs[tr.Proc].PID, tr.Thread)
		if tr.Kind == timeline.TrackStream {
			where = fmt.Sprintf("p%d/gpu%d/s%d", tl.Procs[tr.Proc].PID, tl.Devices[tr.Device].Ordinal, tr.Thread)
		} else if tr.Kind == timeline.TrackOther {
			where = fmt.Sprintf("p%d/other %s", tl.Procs[tr.Proc].PID, tr.Name)
		}
		lines = append(lines, line{sp.Row[i], fmt.Sprintf("%d %s %s %d..%d %s link=%d%s", sp.Row[i], where, kindNames[sp.Kind[i]], sp.Start[i], sp.End[i], get(sp.Name[i]), sp.Link[i], side[int32(i)])})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return int(a.row) - int(b.row) })
	var out []string
	for _, l := range lines {
		out = append(out, l.text)
	}
	return strings.Join(out, "\n")
}

func codes(problems []timeline.Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%s %s %d", strings.TrimPrefix(p.Code, "torchprof/"), p.Severity, p.Count))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

const (
	mm     = `{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":10,"ts":100,"dur":5}`
	mmDump = "p10/t10 op 100000..105000 aten::mm link=0"
)

// TestVariants has one small trace a variant of the format and a defect, with all that must come of it.
func TestVariants(t *testing.T) {
	wrap := func(events string) string { return `{"schemaVersion": 1, "traceEvents": [` + events + `]}` }
	noBase := "no-base info 1"
	for _, c := range []struct {
		name, text, want, problems string
	}{
		{"object form", wrap(mm), "0 " + mmDump, noBase},
		{"newline before the brace", "\n" + wrap(mm), "0 " + mmDump, noBase},
		{"byte order mark", "\xef\xbb\xbf" + wrap(mm), "0 " + mmDump, noBase},
		{"bare array", "[" + mm + "]", "0 " + mmDump, noBase},
		{"bare array not closed", "[" + mm + ",", "0 " + mmDump, noBase},
		{"absolute integer stamps", wrap(`{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1695835542514261,"dur":104}`),
			"0 p1/t1 op 1695835542514261000..1695835542514365000 a link=0", ""},
		{"absolute stamps of 16 digits and a fraction", wrap(`{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1711964646123456.789,"dur":0.001}`),
			"0 p1/t1 op 1711964646123456789..1711964646123456790 a link=0", ""},
		{"relative stamps, base before", `{"baseTimeNanoseconds": 1711964646000000000, "traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":4458676522690.655,"dur":156.777}]}`,
			"0 p1/t1 op 1716423322522690655..1716423322522847432 a link=0", ""},
		{"relative stamps, base after", `{"traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":4458676522690.655,"dur":156.777}], "displayTimeUnit": "ms", "baseTimeNanoseconds": 1711964646000000000}`,
			"0 p1/t1 op 1716423322522690655..1716423322522847432 a link=0", ""},
		{"absolute stamps and a base: not added twice", `{"baseTimeNanoseconds": 1711964646000000000, "traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1716423322522690.655,"dur":1}]}`,
			"0 p1/t1 op 1716423322522690655..1716423322522691655 a link=0", ""},
		{"stamps as strings, exponents, long fractions", wrap(
			`{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":"1711964646123456.789","dur":"2"},` +
				`{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1.711964646123456789e15,"dur":1e-3},` +
				`{"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":1,"ts":1711964646123456.7885,"dur":0.0004999},` +
				`{"ph":"X","cat":"cpu_op","name":"d","pid":1,"tid":1,"ts":1711964646123456.7894999999999999999999,"dur":1.0000000000}`),
			"0 p1/t1 op 1711964646123456789..1711964646123458789 a link=0\n" +
				"1 p1/t1 op 1711964646123456789..1711964646123456790 b link=0\n" +
				"2 p1/t1 op 1711964646123456789..1711964646123456789 c link=0\n" +
				"3 p1/t1 op 1711964646123456789..1711964646123457789 d link=0", ""},
		{"keys in any order, args first", wrap(`{"args":{"correlation":7,"stream":3,"device":0,"grid":[2,1,1],"block":[64,1,1]},"dur":2,"ts":1,"tid":9,"pid":5,"name":"k","cat":"kernel","ph":"X"},` + mm),
			"0 p10/gpu0/s3 kernel 1000..3000 k link=7 launch=[2 1 1][64 1 1],0\n1 " + mmDump, noBase},
		{"duplicate keys: the last wins", wrap(`{"ph":"X","cat":"kernel","name":"a","name":"k","pid":0,"tid":7,"ts":1,"ts":2,"dur":2,"args":{"stream":1,"stream":8,"correlation":1,"correlation":2}},` + mm),
			"0 p10/gpu0/s8 kernel 2000..4000 k link=2\n1 " + mmDump, noBase},
		{"2021: old categories, text ids, annotations as operators", wrap(
			`{"ph":"X","cat":"Operator","name":"ProfilerStep#2","pid":25,"tid":"25","ts":100,"dur":50,"args":{"Input dims":[]}},` +
				`{"ph":"X","cat":"Operator","name":"aten::mm","pid":25,"tid":"26","ts":101,"dur":5,"args":{"Input dims":[[2,3],[3,4]],"Input type":["float","float"]}},` +
				`{"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":25,"tid":"25","ts":102,"dur":2,"args":{"cbid":41,"correlation":34417,"external id":537}},` +
				`{"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":103,"dur":4,"args":{"correlation":34417,"grid":[50,1,1],"block":[256,1,1]}},` +
				`{"ph":"X","cat":"Memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":"stream 7","ts":108,"dur":4,"args":{"device":0,"stream":7,"bytes":19267584}},` +
				`{"ph":"X","cat":"Memset","name":"Memset (Device)","pid":0,"tid":"stream 7","ts":113,"dur":1,"args":{"bytes":64}},` +
				`{"ph":"f","id":34417,"pid":0,"tid":"stream 7","ts":103,"cat":"async","name":"launch","bp":"e"},` +
				`{"ph":"X","cat":"Trace","ts":99,"dur":60,"pid":"Traces","tid":"PyTorch Profiler","name":"PyTorch Profiler (0)","args":{"Op count":0}}`),
			"0 p25/t25 anno 100000..150000 ProfilerStep#2 link=0\n" +
				"1 p25/t26 op 101000..106000 aten::mm link=0 shape=[[2, 3], [3, 4]],[\"float\", \"float\"],\n" +
				"2 p25/t25 api 102000..104000 cudaLaunchKernel link=34417\n" +
				"3 p25/gpu0/s7 kernel 103000..107000 k link=34417 launch=[50 1 1][256 1 1],0\n" +
				"4 p25/gpu0/s7 memcpy 108000..112000 Memcpy HtoD (Pageable -> Device) link=0 copy=1,1,3,19267584\n" +
				"5 p25/gpu0/s7 memset 113000..114000 Memset (Device) link=0 copy=0,0,3,64", noBase},
		{"categories in any case", wrap(`{"ph":"X","cat":"gpu_user_Annotation","name":"g","pid":0,"tid":7,"ts":1,"dur":1},{"ph":"X","cat":"CPU_OP","name":"o","pid":3,"tid":3,"ts":1,"dur":1},{"ph":"X","cat":"user_Annotation","name":"u","pid":3,"tid":3,"ts":1,"dur":1}`),
			"0 p3/gpu0/s7 gpuanno 1000..2000 g link=0\n1 p3/t3 op 1000..2000 o link=0\n2 p3/t3 anno 1000..2000 u link=0", noBase},
		{"waits, events, the profiler's own work", wrap(mm + `,` +
			`{"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":0,"tid":1000007,"ts":1,"dur":2,"args":{"cuda_sync_kind":"Stream Sync","stream":7,"correlation":15,"device":0}},` +
			`{"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":0,"tid":1000007,"ts":4,"dur":2,"args":{}},` +
			`{"ph":"X","cat":"cuda_sync","name":"Context Sync","pid":0,"tid":-1,"ts":7,"dur":2,"args":{"stream":4294967295,"device":0}},` +
			`{"ph":"X","cat":"cuda_event","name":"cudaEventRecord","pid":0,"tid":7,"ts":9,"dur":1},` +
			`{"ph":"X","cat":"overhead","name":"Buffer Flush","pid":-1,"tid":0,"ts":3,"dur":1},` +
			`{"ph":"X","cat":"overhead","name":"Resource","pid":10,"tid":10,"ts":5,"dur":1}`),
			"0 " + mmDump + "\n1 p10/gpu0/s7 sync 1000..3000 Stream Sync link=15\n2 p10/gpu0/s7 sync 4000..6000 Stream Sync link=0\n" +
				"3 p10/gpu0/s-1 sync 7000..9000 Context Sync link=0\n5 p10/t-1 overhead 3000..4000 Buffer Flush link=0\n6 p10/t10 overhead 5000..6000 Resource link=0", noBase},
		{"ROCm: launch and size on the call, device numbers by appearance", `{"hip_runtime_version":60443483,"deviceProperties":[{"id":0,"name":"AMD Instinct MI300X","numSms":304}],"traceEvents":[` +
			`{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":5,"tid":5,"ts":1,"dur":1,"args":{"correlation":11,"grid":[1,40,1],"block":[256,1,1],"kernel":"k"}},` +
			`{"ph":"X","cat":"cuda_runtime","name":"hipMemcpyWithStream","pid":5,"tid":5,"ts":2,"dur":1,"args":{"correlation":12,"size":"2560","kind":"1"}},` +
			`{"ph":"X","cat":"kernel","name":"k","pid":9,"tid":0,"ts":3,"dur":1,"args":{"device":9,"stream":0,"correlation":11,"kind":"Dispatch Kernel"}},` +
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Host -> Device)","pid":9,"tid":0,"ts":5,"dur":1,"args":{"device":9,"stream":0,"correlation":12,"kind":"HtoD"}}]}`,
			"0 p5/t5 api 1000..2000 hipLaunchKernel link=11\n1 p5/t5 api 2000..3000 hipMemcpyWithStream link=12\n" +
				"2 p5/gpu0/s0 kernel 3000..4000 k link=11 launch=[1 40 1][256 1 1],0\n3 p5/gpu0/s0 memcpy 5000..6000 Memcpy HtoD (Host -> Device) link=12 copy=1,0,3,2560", noBase},
		{"copies", wrap(mm + `,` +
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pinned)","pid":0,"tid":7,"ts":1,"dur":1,"args":{"bytes":8}},` +
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD (Device -> Device)","pid":0,"tid":7,"ts":2,"dur":1,"args":{"bytes":8}},` +
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy PtoP (Device -> Device)","pid":0,"tid":7,"ts":3,"dur":1,"args":{"bytes":8,"fromDevice":0,"toDevice":1}},` +
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoA (Managed -> Array)","pid":0,"tid":7,"ts":4,"dur":1},` +
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoH (Pageable -> Pinned)","pid":0,"tid":7,"ts":5,"dur":1},` +
			`{"ph":"X","cat":"gpu_memcpy","name":"copy","pid":0,"tid":7,"ts":6,"dur":1,"args":{"kind":"DtoH"}}`),
			"0 " + mmDump + "\n1 p10/gpu0/s7 memcpy 1000..2000 Memcpy DtoH (Device -> Pinned) link=0 copy=2,3,2,8\n" +
				"2 p10/gpu0/s7 memcpy 2000..3000 Memcpy DtoD (Device -> Device) link=0 copy=3,3,3,8\n3 p10/gpu0/s7 memcpy 3000..4000 Memcpy PtoP (Device -> Device) link=0 copy=4,3,3,8\n" +
				"4 p10/gpu0/s7 memcpy 4000..5000 Memcpy HtoA (Managed -> Array) link=0 copy=1,4,3,-1\n5 p10/gpu0/s7 memcpy 5000..6000 Memcpy HtoH (Pageable -> Pinned) link=0 copy=5,1,2,-1\n" +
				"6 p10/gpu0/s7 memcpy 6000..7000 copy link=0 copy=2,0,0,-1", noBase},
		{"collective on the kernel and on the operator", wrap(
			`{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Collective name":"allreduce","dtype":"Float","In msg nelems":10,"Out msg nelems":20,"Process Group Name":"0","Process Group Description":"default_pg","Group size":2,"Process Group Ranks":"[0, 1]","Rank":1,"Seq":5,"In split size":"[]"}},` +
				`{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":9,"ts":2,"dur":1,"args":{"stream":9,"Collective name":"send","dtype":"BFloat16","In msg nelems":3,"Src Rank":0,"Dst Rank":3,"graph node id":42}},` +
				`{"ph":"X","cat":"cpu_op","name":"c10d::allreduce_","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Collective name":"allreduce"}}`),
			"0 p1/t1 op 1000..2000 record_param_comms link=0 comm=allreduce,Float,10,20,0,default_pg,2,[0, 1],1,-1,-1,5,[],\n" +
				"1 p1/gpu0/s9 kernel 2000..3000 ncclDevKernel_SendRecv link=0 launch=[0 0 0][0 0 0],42 comm=send,BFloat16,3,-1,,,0,,-1,0,3,-1,,\n" +
				"2 p1/t1 op 1000..2000 c10d::allreduce_ link=0", noBase},
		{"shapes in one spelling", wrap(`{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Input Dims":[
	[8,16],
	[]
	],"Input type":["float","a, b"],"Concrete Inputs":["", "0"]}},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Input Dims":[[], []],"Input type":["",""]}}`),
			`0 p1/t1 op 1000..2000 a link=0 shape=[[8, 16], []],["float", "a, b"],["", "0"]` + "\n1 p1/t1 op 1000..2000 b link=0", noBase},
		{"other accelerators", wrap(mm + `,` +
			`{"ph":"X","cat":"mtia_runtime","name":"runFunction","pid":10,"tid":10,"ts":1,"dur":1,"args":{"correlation":4}},` +
			`{"ph":"X","cat":"mtia_ccp_events","name":"dma_request","pid":9,"tid":801,"ts":2,"dur":1},` +
			`{"ph":"X","cat":"xpu_runtime","name":"zeCommandListAppendLaunchKernel","pid":10,"tid":10,"ts":3,"dur":1},` +
			`{"ph":"X","cat":"cuda_profiler_range","name":"r","pid":0,"tid":"x","ts":4,"dur":1},` +
			`{"ph":"X","cat":"critical_path","name":"c","pid":10,"tid":10,"ts":5,"dur":1},` +
			`{"ph":"C","cat":"hardware_counters","name":"h","pid":"GPU 0 Counters","ts":5,"args":{"v":1}}`),
			"0 " + mmDump + "\n1 p10/t10 api 1000..2000 runFunction link=4\n2 p10/other 9/801 other 2000..3000 dma_request link=0\n3 p10/t10 api 3000..4000 zeCommandListAppendLaunchKernel link=0\n" +
				"4 p10/other x other 4000..5000 r link=0\n5 p10/other 10/10 other 5000..6000 c link=0", noBase + ", unknown-category info 3"},
		{"python frames of pid 0 belong to the process", wrap(mm + `,{"ph":"X","cat":"python_function","name":"threading.py(973): _bootstrap","pid":0,"tid":0,"ts":1,"dur":200,"args":{"Python parent id":null}}`),
			"0 " + mmDump + "\n1 p10/t0 python 1000..201000 threading.py(973): _bootstrap link=0", noBase},
		{"INVALID and unknown names are kept", wrap(mm + `,{"ph":"X","cat":"cuda_runtime","name":"INVALID","pid":10,"tid":10,"ts":1,"dur":1,"args":{"cbid":0,"correlation":3}},{"ph":"X","cat":"kernel","name":"unknown","pid":0,"tid":7,"ts":1,"dur":1}`),
			"0 " + mmDump + "\n1 p10/t10 api 1000..2000 INVALID link=3\n2 p10/gpu0/s7 kernel 1000..2000 unknown link=0", noBase},
		{"one call, many kernels of a graph", wrap(`{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":10,"tid":10,"ts":1,"dur":1,"args":{"correlation":3}},{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":2,"dur":1,"args":{"correlation":3,"graph node id":1}},{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":3,"dur":1,"args":{"correlation":3,"graph node id":2}}`),
			"0 p10/t10 api 1000..2000 cudaGraphLaunch link=3\n1 p10/gpu0/s7 kernel 2000..3000 a link=3 launch=[0 0 0][0 0 0],1\n2 p10/gpu0/s7 kernel 3000..4000 b link=3 launch=[0 0 0][0 0 0],2", noBase},
		{"a correlation of more than 32 bits", wrap(`{"ph":"X","cat":"cuda_runtime","name":"c","pid":10,"tid":10,"ts":1,"dur":1,"args":{"correlation":4294967300}},{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":2,"dur":1,"args":{"correlation":4294967300}}`),
			"0 p10/t10 api 1000..2000 c link=4294967295\n1 p10/gpu0/s7 kernel 2000..3000 a link=4294967295", noBase},
		{"legacy autograd list", `[{"name": "mm", "ph": "X", "ts": 1.5, "dur": 2.25, "tid": 1, "pid": "CPU functions", "args": {}}, {"name": "mm", "ph": "X", "ts": 2, "dur": 1, "tid": 1, "pid": "CUDA functions", "args": {}}, ]`,
			"0 p-1/t1 op 1500..3750 mm link=0", "legacy-autograd info 1, legacy-cuda info 1, " + noBase},
		{"escapes, control characters, bad UTF-8", wrap("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\\u00e9\\ud83d\\ude00\\q\\\"\\\\ \x01\xff\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}"),
			"0 p1/t1 op 1000..2000 aé😀\\q\"\\ \x01\uFFFD link=0", noBase},
		{"a key written with escapes", wrap(`{"\u0070h":"X","cat":"cpu_op","na\u006de":"a","pid":1,"tid":1,"ts":1,"dur":1}`), "0 p1/t1 op 1000..2000 a link=0", noBase},

		{"truncated inside an event", `{"schemaVersion":1,"traceEvents":[` + mm + `,{"ph":"X","cat":"cpu_op","na`, "0 " + mmDump, noBase + ", truncated data-loss 1"},
		{"truncated after an event", `{"schemaVersion":1,"traceEvents":[` + mm, "0 " + mmDump, noBase + ", truncated data-loss 1"},
		{"truncated after the array", `{"schemaVersion":1,"traceEvents":[` + mm + `],"traceN`, "0 " + mmDump, noBase + ", truncated data-loss 1"},
		{"trailing commas", `{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":10,"ts":100,"dur":5,"args":{"Ev Idx":0,},},],}`, "0 " + mmDump, noBase},
		{"missing quote", wrap("\n  {\n" + `"ph":"X","cat":"cpu_op","name:"bad","pid":1,"tid":1,"ts":1,"dur":1` + "\n  },\n  " + mm), "1 " + mmDump, "bad-event data-loss 1, damaged error 1, " + noBase},
		{"Windows path", wrap(`{"ph":"X","cat":"python_function","name":"C:\Users\x\train.py(3): step","pid":10,"tid":10,"ts":1,"dur":1},` + mm),
			`0 p10/t10 python 1000..2000 C:\Users\x` + "\train.py(3): step link=0\n1 " + mmDump, noBase},
		{"unescaped quotes in a name", wrap(mm + ",\n  {\n" + `    "ph": "X", "cat": "user_annotation", "name": "say "hi" there", "pid": 10, "tid": 10, "ts": 1, "dur": 1, "args": {"x": 1}` + "\n  },\n  " + mm), "0 " + mmDump + "\n2 " + mmDump, "bad-event data-loss 1, damaged error 1, " + noBase},
		{"damage on one line", wrap(mm + `,{"ph":"X","cat":"cpu_op" "args":{]},` + mm + `,{"ph":"X",` + mm), "0 " + mmDump + "\n2 " + mmDump + "\n4 " + mmDump, "bad-event data-loss 2, damaged error 1, " + noBase},
		{"the last event is damaged, the base stands behind it", `{"traceEvents": [` + mm + `,{"ph":"X","cat":"cpu_op","name":"a"b"}],"displayTimeUnit":"ms","baseTimeNanoseconds": 1711964646000000000}`,
			"0 p10/t10 op 1711964646000100000..1711964646000105000 aten::mm link=0", "bad-event data-loss 1, damaged error 1"},
		{"the array is never closed", `{"traceEvents": [` + mm + `,"baseTimeNanoseconds": 1711964646000000000}`, "0 p10/t10 op 1711964646000100000..1711964646000105000 aten::mm link=0", ""},
		{"missing comma", wrap(mm + "\n" + mm), "0 " + mmDump + "\n1 " + mmDump, noBase},
		{"bare inf and nan in args", wrap(`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"blocks per SM": inf,"warps per SM": -inf,"x": NaN,"y": Infinity,"z":"inf","bytes":nan,"stream": 7,"correlation": inf}},` + mm),
			"0 p10/gpu0/s7 kernel 1000..2000 k link=0\n1 " + mmDump, noBase},
		{"durations: negative, NaN, absent, wrapped", wrap(`{"ph":"X","cat":"cpu_op","name":"n","pid":1,"tid":1,"ts":10,"dur":-1},{"ph":"X","cat":"cpu_op","name":"q","pid":1,"tid":1,"ts":11,"dur":NaN},{"ph":"X","cat":"cpu_op","name":"m","pid":1,"tid":1,"ts":12},` +
			`{"ph":"X","cat":"cpu_op","name":"w","pid":1,"tid":1,"ts":13,"dur":18446744073709551},{"ph":"X","cat":"cpu_op","name":"v","pid":1,"tid":1,"ts":14,"dur":4294967295},{"ph":"X","cat":"cpu_op","name":"z","pid":1,"tid":1,"ts":15,"dur":1}`),
			"0 p1/t1 op 10000..10000 n link=0\n1 p1/t1 op 11000..11000 q link=0\n2 p1/t1 op 12000..12000 m link=0\n3 p1/t1 op 13000..13000 w link=0\n4 p1/t1 op 14000..14000 v link=0\n5 p1/t1 op 15000..16000 z link=0",
			"absurd-duration data-loss 2, negative-duration info 1, " + "no-base info 1, no-duration info 2"},
		{"kernels without times, events without ts", wrap(mm + `,{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":0,"dur":0},{"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"dur":3},{"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":null,"dur":3}`),
			"0 " + mmDump, noBase + ", no-time data-loss 2, zero-kernel data-loss 1"},
		{"ts 0 far from the others", `{"baseTimeNanoseconds":1711964646000000000,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"z","pid":10,"tid":10,"ts":0,"dur":3},{"ph":"X","cat":"cpu_op","name":"a","pid":10,"tid":10,"ts":4458676522690.655,"dur":1}]}`,
			"1 p10/t10 op 1716423322522690655..1716423322522691655 a link=0", "zero-time data-loss 1"},
		{"other phases", wrap(mm + `,{"ph":"B","name":"x","ts":1,"pid":1,"tid":1},{"ph":"E","ts":2,"pid":1,"tid":1},{"name":"x"},{"ph":"i","s":"t","name":"[memory]","ts":1,"args":{"Bytes":4}},null,7`), "0 " + mmDump, noBase + ", not-event info 2, unknown-phase info 3"},
		{"no events", wrap(""), "", "no-events data-loss 1"},
		{"something behind the end", wrap(mm) + "\n{}", "0 " + mmDump, noBase + ", trailing-bytes info 1"},
		{"damage before traceEvents", `{"schemaVersion": 1, "x": [}, "traceEvents": [` + mm + `]}`, "0 " + mmDump, "bad-metadata info 1, " + noBase},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl, problems := mustRead(t, c.text)
			if diff := cmp.Diff(c.want, dump(tl)); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
			if got := codes(problems); got != c.problems {
				t.Errorf("problems\n got %s\nwant %s\n%+v", got, c.problems, problems)
			}
			two, _, err := readBytes([]byte(c.text), "trace.json", 2)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(dump(tl), dump(two)); diff != "" {
				t.Errorf("two workers (-one +two):\n%s", diff)
			}
		})
	}
}

func TestUnusable(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "empty"}, {" \n", "empty"}, {"hello", "starts with"}, {`{"schemaVersion":1}`, "no traceEvents"}, {`{"traceEvents": 3}`, "no traceEvents"}, {`{"a": }`, "not JSON"},
	} {
		if _, _, err := readBytes([]byte(c.text), "t.json", 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestProcesses(t *testing.T) {
	call := func(pid, link int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":%d,"tid":%d,"ts":%d,"dur":1,"args":{"correlation":%d}}`, pid, pid, link, link)
	}
	kernel := func(dev, link int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"k","pid":%d,"tid":7,"ts":%d,"dur":1,"args":{"device":%d,"stream":7,"correlation":%d}}`, dev, link+100, dev, link)
	}
	tl, _ := mustRead(t, `{"schemaVersion":1,"distributedInfo":{"rank":3,"world_size":4},"traceEvents":[`+strings.Join([]string{
		call(20, 1), call(20, 2), call(10, 11), call(10, 12), call(10, 2),
		kernel(0, 1), kernel(0, 1), kernel(1, 11), kernel(1, 12), kernel(0, 2), kernel(1, 99), kernel(0, 11),
		`{"ph":"X","cat":"python_function","name":"f","pid":0,"tid":0,"ts":1,"dur":1}`}, ",")+`]}`)
	want := `0 p20/t20 api 1000..2000 cudaLaunchKernel link=1
1 p20/t20 api 2000..3000 cudaLaunchKernel link=2
2 p10/t10 api 11000..12000 cudaLaunchKernel link=11
3 p10/t10 api 12000..13000 cudaLaunchKernel link=12
4 p10/t10 api 2000..3000 cudaLaunchKernel link=2
5 p20/gpu0/s7 kernel 101000..102000 k link=1
6 p20/gpu0/s7 kernel 101000..102000 k link=1
7 p10/gpu1/s7 kernel 111000..112000 k link=11
8 p10/gpu1/s7 kernel 112000..113000 k link=12
9 p20/gpu0/s7 kernel 102000..103000 k link=2
10 p10/gpu1/s7 kernel 199000..200000 k link=99
11 p10/gpu0/s7 kernel 111000..112000 k link=11
12 p10/t0 python 1000..2000 f link=0`
	if diff := cmp.Diff(want, dump(tl)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, p := range tl.Procs {
		if p.Rank != -1 || p.WorldSize != 4 {
			t.Errorf("%+v: a rank stated once is neither process's", p)
		}
	}
	if len(tl.Devices) != 3 { // device 0 is driven by both
		t.Errorf("%+v", tl.Devices)
	}
}

func TestRankAndHost(t *testing.T) {
	comm := func(rank, size int, desc string) string {
		return fmt.Sprintf(`{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":7,"tid":7,"ts":1,"dur":1,"args":{"Collective name":"allreduce","Rank":%d,"Group size":%d,"Process Group Description":%q}}`, rank, size, desc)
	}
	op := `{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":7,"ts":1,"dur":1}`
	for _, c := range []struct {
		path, head, events string
		rank               int
		how, host          string
	}{
		{"rank3.json", `"distributedInfo":{"backend":"nccl","rank":1,"world_size":8},`, op, 1, "distributedInfo", ""},
		{"rank3.json", `"rank": 2,`, op, 2, "metadata", ""},
		{"rank3.json", `"metadata": {"rank": 5},`, op, 5, "metadata", ""},
		{"rank3.json", `"distributedInfo":{"backend":"nccl"},`, comm(4, 8, "default_pg"), 4, "collective args", ""},
		{"rank3.json", `"distributedInfo":{"world_size":8},`, comm(0, 2, "tp") + "," + comm(4, 8, ""), 4, "collective args", ""},
		{"x.json", "", comm(4, 8, "default_pg") + "," + comm(5, 8, "default_pg"), -1, "", ""},
		{"rank3.json", "", op, 3, "file name", ""},
		{"a/trace_rank_12.json.gz", "", op, 12, "file name", ""},
		{"job-rank-7.json", "", op, 7, "file name", ""},
		{"x_4.json", "", op, 4, "file name", ""},
		{"rank_2/steps.json", "", op, 2, "file name", ""},
		{"libkineto_activities_1074.json", "", op, -1, "", ""},
		{"trace_20240102.json", "", op, -1, "", ""},
		{"node01_7.1694128201545.pt.trace.json", "", op, -1, "", "node01"},
		{"my_node_7.1694128201545.pt.trace.json.gz", "", op, -1, "", "my_node"},
		{"node01_8.1694128201545.pt.trace.json", `"host_name":"n2",`, op, -1, "", "n2"},
		{"node01_8.1694128201545.pt.trace.json", "", op, -1, "", ""},
	} {
		tl, _, err := readBytes([]byte(`{`+c.head+`"schemaVersion":1,"traceEvents":[`+c.events+`]}`), c.path, 1)
		if err != nil {
			t.Fatal(err)
		}
		if p := tl.Procs[0]; p.Rank != c.rank || p.RankHow != c.how || p.Host != c.host {
			t.Errorf("%s %s: rank %d by %q host %q, want %d by %q host %q", c.path, c.head, p.Rank, p.RankHow, p.Host, c.rank, c.how, c.host)
		}
	}
}

func TestMetadata(t *testing.T) {
	tl, problems := mustRead(t, `{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA A100","totalGlobalMem":85,"computeMajor":8,"computeMinor":0,"numSms":108},{"id":1,"name":"Tesla V100","numSms":80}],
		"distributedInfo":{"backend":"nccl","rank":1,"world_size":4,"pg_config":[{"pg_name":"0","pg_desc":"default_pg","pg_size":4,"ranks":[0,1,2,3]},{"pg_name":"1","ranks":"[0, 2]"},{"pg_name":"2","pg_size":9,"ranks":"[0, ...]"}],"nccl_version":"2.21.5"},
		"AWS_SECRET_ACCESS_KEY":"x","MY_ENV":"x","hf_token":"x","workdir":"x","data":"/home/u/x","CUDA_MODULE_LOADING":"LAZY","with_stack":1,"long":"`+strings.Repeat("x", 500)+`",
		"WARNING":["WARNING:2024-11-11 10:02:56 1:1 A.cpp:9] Dropped 12 activities"],"INFO":["INFO:x"],"traceName":"/home/u/t.json",
		"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":7,"ts":5,"dur":1},{"ph":"X","cat":"kernel","name":"k","pid":1,"tid":7,"ts":5.25,"dur":1},
		{"ph":"M","name":"thread_name","pid":7,"tid":7,"ts":0,"args":{"name":"thread 7 (python)"}},{"ph":"M","name":"thread_name","pid":7,"tid":7,"ts":0,"args":{"name":"main loop"}},
		{"ph":"X","cat":"Trace","ts":1,"dur":9,"pid":"Spans","tid":"PyTorch Profiler","name":"PyTorch Profiler (0)"},
		{"name":"Record Window End","ph":"i","s":"g","pid":"","tid":"","ts":11},{"name":"Iteration Start: PyTorch Profiler","ph":"i","s":"g","pid":"Traces","tid":"Trace PyTorch Profiler","ts":1}]}`)
	p := tl.Procs[0]
	wantMeta := map[string]string{"CUDA_MODULE_LOADING": "LAZY", "with_stack": "1", "nccl_version": "2.21.5", "devices_visible": "2", "device_name": "NVIDIA A100",
		"not_stored": "flow 0, metadata 2, counter 0, memory 0, instant 0, event record 0"}
	if diff := cmp.Diff(wantMeta, p.Meta); diff != "" {
		t.Errorf("meta -want +got:\n%s", diff)
	}
	wantGroups := []timeline.ProcessGroup{{Name: "0", Desc: "default_pg", Ranks: []int{0, 1, 2, 3}, Size: 4}, {Name: "1", Ranks: []int{0, 2}, Size: 2}, {Name: "2", Size: 9}}
	if diff := cmp.Diff(wantGroups, p.Groups); diff != "" {
		t.Errorf("groups -want +got:\n%s", diff)
	}
	if p.Recorded != (timeline.Interval{Start: 1000, End: 10000}) || p.Backend != "nccl" || p.WorldSize != 4 {
		t.Errorf("%+v", p)
	}
	if d := tl.Devices[0]; len(tl.Devices) != 1 || d.Ordinal != 1 || d.Name != "Tesla V100" || d.SMs != 80 || d.Vendor != "nvidia" {
		t.Errorf("devices %+v", tl.Devices)
	}
	if m := tl.Marks; len(m.At) != 2 || m.At[0] != 1000 || m.Kind[0] != timeline.MarkIteration || m.Kind[1] != timeline.MarkOther || m.Row[0] != 6 {
		t.Errorf("marks %+v", m)
	}
	named := false
	for _, tr := range tl.Tracks {
		named = named || tr.Name == "main loop"
	}
	if !named {
		t.Errorf("no thread takes its last name: %+v", tl.Tracks)
	}
	if got := codes(problems); got != "dropped-events data-loss 1, no-base info 1" {
		t.Error(got)
	}
	if c := tl.Clocks[0]; c.Wall || c.Step != 1 || !tl.Epoch.IsZero() {
		t.Errorf("clock %+v epoch %v", c, tl.Epoch)
	}
}

// smallTrace is a trace of a few events whose forms differ.
func smallTrace() (text string, ends []int) {
	var b strings.Builder
	b.WriteString("\n{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n")
	for i := range 12 {
		fmt.Fprintf(&b, "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k<%d>\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %d.125, \"dur\": 1,\n    \"args\": {\n      \"stream\": 7, \"grid\": [%d, 1, 1], \"block\": [32, 1, 1]\n    }\n  }", i, 10*i, i+1)
		ends = append(ends, b.Len())
		b.WriteString(",\n")
	}
	b.WriteString("  {\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"last\",\"pid\":3,\"tid\":3,\"ts\":500,\"dur\":1}")
	ends = append(ends, b.Len())
	b.WriteString("\n  ],\n  \"traceName\": \"t.json\",\n  \"displayTimeUnit\": \"ms\"\n}\n")
	return b.String(), ends
}

// TestCut cuts a trace at every byte from the first event on: every event that is complete before the cut is kept.
func TestCut(t *testing.T) {
	text, ends := smallTrace()
	whole, _ := mustRead(t, text)
	lines := strings.Split(strings.ReplaceAll(dump(whole), "p3/", "p/"), "\n")
	for cut := strings.Index(text, "[") + 1; cut < len(text); cut++ {
		n := 0
		for n < len(ends) && ends[n] <= cut {
			n++
		}
		tl, problems := mustRead(t, text[:cut])
		got := strings.ReplaceAll(strings.ReplaceAll(dump(tl), "p3/", "p/"), "p-1/", "p/")
		if want := strings.Join(lines[:n], "\n"); got != want {
			t.Fatalf("cut at %d:\n%s\nwant\n%s", cut, got, want)
		}
		if cut < len(text)-2 && !strings.Contains(codes(problems), "truncated data-loss 1") {
			t.Fatalf("cut at %d: %s", cut, codes(problems))
		}
	}
}

// TestGzipCut reads a gzip stream that ends early: the decoder's error is a problem, not the end of the trace.
func TestGzipCut(t *testing.T) {
	text, _ := smallTrace()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	for range 400 {
		_, _ = io.WriteString(w, text)
	}
	_ = w.Close()
	half := buf.Bytes()[:buf.Len()/2]
	open := func() (io.ReadCloser, error) { return gzip.NewReader(bytes.NewReader(half)) }
	in := ingest.NewInput("t.json", open, &ingest.Options{Jobs: 2})
	b := ingest.NewBuilder(in, Format.Name)
	if err := Format.Read(context.Background(), in, b); err != nil {
		t.Fatal(err)
	}
	if got := codes(in.Problems()); !strings.Contains(got, "truncated data-loss") || b.NSpans() != 13 {
		t.Errorf("%d spans, %s", b.NSpans(), got)
	}
}

func TestRecognise(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"\n{\n  \"schemaVersion\": 1,", true},
		{`{"traceEvents": [{"ph": "X", "cat": "cpu_op"`, true},
		{`{"traceEvents": [{"ph": "X", "cat":"Kernel",`, true},
		{`{"traceEvents": [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "/device:GPU:0"}}`, false},
		{`{"distributedInfo": {"rank": 1}, "traceEvents": [`, true},
		{`{"baseTimeNanoseconds": 1, "x": 2`, true},
		{`{"schema": "1.1.1-chakra", "nodes": [], "traceName": "x"}`, false},
		{`{"schema":"gpureport.record","schemaVersion":1}`, false},
		{`[{"name": "mm", "ph": "X", "ts": 1, "pid": "CPU functions"`, true},
		{`[{"ph": "X", "cat": "Operator", "name": "x", "ts": 12`, true},
		{`[{"ph": "X", "name": "aten::empty", "ts": "1704161511420306.491", "cat": "cpu_op"`, false},
		{`[1, 2, 3]`, false}, {`# gpu sm mem`, false}, {``, false}, {`{"viztracer_metadata": {}, "traceEvents": [{"cat": "kernel"`, false},
	} {
		if got := recognise(ingest.Head{Raw: []byte(c.text), Text: []byte(c.text)}); got != c.want {
			t.Errorf("%s: %v", c.text, got)
		}
	}
}

// TestManyThreads keeps the spans of a hostile file and bounds its tracks.
func TestManyThreads(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"schemaVersion":1,"traceEvents":[`)
	const n = maxTracks + 5000
	for i := range n {
		fmt.Fprintf(&b, `{"ph":"X","cat":"cuda_runtime","name":"a","pid":%d,"tid":%d,"ts":1,"dur":1,"args":{"correlation":%d}},`, i, i, i)
	}
	b.WriteString("]}")
	tl, _ := mustRead(t, b.String())
	if tl.Spans.Len() != n || len(tl.Tracks) > maxTracks+3 || len(tl.Procs) > maxProcs {
		t.Errorf("%d spans, %d tracks, %d processes", tl.Spans.Len(), len(tl.Tracks), len(tl.Procs))
	}
}

// A group or a world of more ranks than any job has is damage, not a size.
func TestAbsurdWorld(t *testing.T) {
	for in, want := range map[int64]int32{0: 0, 8: 8, -1: 0, 2147483648: 0, 1_000_000: 1_000_000, 1_000_001: 0} {
		if got := groupSize(in); got != want {
			t.Errorf("group size %d became %d, want %d", in, got, want)
		}
	}
	var m meta
	m.addDistributed([]byte(`{"backend":"nccl","rank":0,"world_size":2147483648}`))
	if m.world != 0 || m.rank != 0 || !m.hasRank {
		t.Errorf("%+v", m)
	}
}
