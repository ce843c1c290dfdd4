package ncu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
	"gpureport/ingest/timeline"
)

var of = ingesttest.Reader{Format: Format}

const (
	details = `"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"` + "\n"
	older   = `"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","Section Name","Metric Name","Metric Unit","Metric Value"` + "\n"
	raw     = `"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum","lts__t_sector_hit_rate.pct","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","launch__grid_size"` + "\n" +
		`"","","","","","","","","","","","us","%","%",""` + "\n"
	summary = `"Process ID","Kernel Name","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"` + "\n"
)

// metric is a row of page details.
func metric(id int, kernel, section, name, unit, value string) string {
	return fmt.Sprintf(`"%d","77","python3.12","gpu-a","%s","1","7","(128, 1, 1)","(264, 1, 1)","0","9.0","%s","%s","%s","%s","","","","",""`+"\n", id, kernel, section, name, unit, value)
}

func shown(tl *timeline.Timeline) []string {
	var out []string
	for _, k := range tl.Counters {
		out = append(out, fmt.Sprintf("%s cc%s n=%d l2=%.4g dram=%.4g row%d", k.Name, k.CC, k.Launches, k.L2Hit, k.DRAM, k.Row))
	}
	return out
}

func TestRead(t *testing.T) {
	mem, sol := "Memory Workload Analysis", "GPU Speed Of Light Throughput"
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"a launch by labels", details + metric(0, "gemm", sol, "DRAM Throughput", "%", "22.50") + metric(0, "gemm", sol, "Duration", "us", "1,600.25") + metric(0, "gemm", mem, "L2 Hit Rate", "%", "81.24") + metric(0, "gemm", mem, "Mem Busy", "%", "40"),
			[]string{"gemm cc9.0 n=1 l2=0.8124 dram=0.225 row2"}, ""},
		{"launches count by their lengths", details + metric(0, "gemm", sol, "Duration", "us", "3") + metric(0, "gemm", mem, "L2 Hit Rate", "%", "80") + metric(1, "gemm", sol, "Duration", "ns", "1,000") + metric(1, "gemm", mem, "L2 Hit Rate", "%", "40"),
			[]string{"gemm cc9.0 n=2 l2=0.7 dram=-1 row2"}, ""},
		{"ncu and the program speak", "==PROF== Connected to process 77\nstep 1 loss 2.5\n==PROF== Profiling \"gemm\" - 0: 0%....100% - 40 passes\n" + details + metric(0, "gemm", mem, "L2 Hit Rate", "%", "5") + "==PROF== Disconnected from process 77\n",
			[]string{"gemm cc9.0 n=1 l2=0.05 dram=-1 row5"}, ""},
		{"older, by counters", older + `"0","77","python3","h","void f<T1>(int)","2023-Jun-01 10:00:00","1","7","Command line profiler metrics","lts__t_sector_hit_rate.pct","%","66.00"` + "\n" +
			`"0","77","python3","h","void f<T1>(int)","2023-Jun-01 10:00:00","1","7","Command line profiler metrics","gpu__time_duration.sum","nsecond","10,196,000"` + "\n",
			[]string{"void f<T1>(int) cc n=1 l2=0.66 dram=-1 row2"}, ""},
		{"page raw", raw + `"0","77","p","h","a","1","7","(1, 1, 1)","(2, 1, 1)","0","8.0","10.5","97.03","3.5","2"` + "\n" + `"1","77","p","h","b","1","7","(1, 1, 1)","(2, 1, 1)","0","8.0","10.5","n/a","80.1","2"` + "\n",
			[]string{"a cc8.0 n=1 l2=0.9703 dram=0.035 row3", "b cc8.0 n=1 l2=-1 dram=0.801 row4"}, ""},
		{"summed over launches", summary + `"1","k","2","GPU Speed Of Light Throughput","DRAM Throughput","%","5","15","10"` + "\n",
			[]string{"k cc n=2 l2=-1 dram=0.1 row2"}, ""},
		{"two processes with the same numbers", details + metric(0, "a", mem, "L2 Hit Rate", "%", "10") + strings.Replace(metric(0, "a", mem, "L2 Hit Rate", "%", "30"), `"77"`, `"78"`, 1),
			[]string{"a cc9.0 n=2 l2=0.2 dram=-1 row2"}, ""},
		{"a rule of several lines", details + `"0","77","p","h","a","1","7","","","0","9.0","Memory Workload Analysis","","","","L2","OPT","Only 10.7 of` + "\n" + `32 bytes, see ""docs""","global","34.6"` + "\n" + metric(0, "a", mem, "L2 Hit Rate", "%", "10"),
			[]string{"a cc9.0 n=1 l2=0.1 dram=-1 row4"}, ""},
		{"rounded over the whole", details + metric(0, "a", mem, "L2 Hit Rate", "%", "101.3"), []string{"a cc9.0 n=1 l2=1 dram=-1 row2"}, ""},
		{"no such number", details + metric(0, "a", mem, "L2 Hit Rate", "%", "71,20") + metric(0, "a", sol, "DRAM Throughput", "byte", "3") + metric(0, "a", sol, "Duration", "cycle", "3"), nil, "no-counters@1*1 bad-value@2*3"},
		{"other counters", details + metric(0, "a", mem, "Mem Busy", "%", "71"), nil, "no-counters@1*1"},
		{"short and stray rows", details + "\"0\",\"77\"\nloss 2.5\nloss 2.4\n" + metric(0, "a", mem, "L2 Hit Rate", "%", "1"), []string{"a cc9.0 n=1 l2=0.01 dram=-1 row5"}, "short-row@2*1 stray-line@3*1"},
		{"cut in the last row", details + metric(0, "a", mem, "L2 Hit Rate", "%", "1") + strings.TrimSpace(metric(1, "a", mem, "L2 Hit Rate", "%", "99")), []string{"a cc9.0 n=1 l2=0.01 dram=-1 row2"}, "unterminated-row@3*1"},
	} {
		tl, ps, err := of.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, shown(tl)); d != "" {
			t.Errorf("%s: -want +got\n%s", c.what, d)
		}
		if got := of.Codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
		if !recognise(ingest.Head{Text: []byte(c.text)}) {
			t.Errorf("%s: not recognised", c.what)
		}
	}
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]bool{
		details: true, older: true, raw: true, summary: true,
		"NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Kernel Name\n": false,
		"API Start (ns),API Dur (ns),Queue Start (ns),Kernel Name\n":                                                                 false,
		`"ID","Kernel Name","Time"` + "\n": false,
		"Kernel Name: gemm\n":              false,
		"":                                 false,
	} {
		if got := recognise(ingest.Head{Text: []byte(text)}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "==ERROR== no kernels were profiled\n", details} {
		if _, _, err := of.Read(t, text); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

func TestCutAnywhere(t *testing.T) {
	of.CutAnywhere(t, details+metric(0, "gemm", "GPU Speed Of Light Throughput", "Duration", "us", "3")+metric(0, "gemm", "Memory Workload Analysis", "L2 Hit Rate", "%", "80"))
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(details + metric(0, "a", "Memory Workload Analysis", "L2 Hit Rate", "%", "80"))) // plain
	f.Add([]byte(raw + `"0","","","","","","","","","","","1e300","-1","1e400",""` + "\n"))       // numbers out of range
	f.Add([]byte("\"ID\",\"Kernel Name\",\"a__b\"\n\"\n\"\"\",\n"))                               // quotes that do not close
	f.Add([]byte("\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n,,\n\"a\",\"L2 Hit Rate\",\"5\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) { _, _, _ = of.Read(t, string(data)) })
}
