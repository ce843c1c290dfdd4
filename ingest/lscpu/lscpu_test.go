package lscpu

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

func readText(t testing.TB, f *ingest.Format, text string) ([]string, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("x.txt", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, nil)
	b := ingest.NewBuilder(in, f.Name)
	err := f.Read(context.Background(), in, b)
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	var out []string
	for _, a := range tl.Attrs {
		if tl.Tracks[a.Track].Kind != timeline.TrackHostReadings {
			t.Errorf("%s is not the host's", a.Name)
		}
		v := a.Text
		if v == "" {
			v = fmt.Sprintf("%.10g", a.Value)
		}
		out = append(out, fmt.Sprintf("%s %s row%d", a.Name, v, a.Row))
	}
	return out, in.Problems(), err
}

func head(text string) ingest.Head {
	return ingest.Head{Name: "x", Raw: []byte(text), Text: []byte(text)}
}

const lscpu = `Architecture:                            x86_64
CPU op-mode(s):                          32-bit, 64-bit
CPU(s):                                  128
On-line CPU(s) list:                     0-119
Off-line CPU(s) list:                    120-127
Model name:                              AMD EPYC 7763 64-Core Processor
Thread(s) per core:                      1
Socket(s):                               2
NUMA node(s):                            3
NUMA node0 CPU(s):                       0-31,64-95
NUMA node1 CPU(s):                       32-63,96-119
NUMA node2 CPU(s):                       
Vulnerability Mds:                       Not affected
`

const german = "Architektur:   x86_64\nCPU(s):        8\nListe der Online-CPU(s):  0-7\nModellname:   Intel(R) Xeon(R)\nSockel:   1\nNUMA-Knoten:   1\nNUMA-Knoten0 CPU(s):   0-7\nBogoMIPS: 4\n"

const js = `{
   "lscpu": [
      {"field": "Architecture:", "data": "x86_64"},
      {"field": "CPU(s):", "data": "4", "children": [{"field": "On-line CPU(s) list:", "data": "0,1,3"}]},
      {"field": "Model name:", "data": "AMD EPYC"},
      {"field": "NUMA:", "data": null, "children": [{"field": "NUMA node(s):", "data": "1"}, {"field": "NUMA node0 CPU(s):", "data": "0,1,3"}]}
   ]
}
`

const hardware = `available: 3 nodes (0-2)
node 0 cpus: 0 1 2 3 8 9 10 11
node 0 size: 1000 MB
node 0 free: 4573 MB
node 1 cpus: 4 5 6 7
node 1 size: 1000 MB
node 1 free: 4573 MB
node 2 cpus:
node 2 size: 97280 MB
node distances:
node   0   1   2
  0:  10  20  80
`

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what   string
		f      *ingest.Format
		text   string
		want   []string
		unread bool
	}{
		{"lscpu", &Format, lscpu, []string{"cpu_model AMD EPYC 7763 64-Core Processor row6", "sockets_count 2 row8", "cpus_count 120 row4", "numa_nodes_count 2 row1", "numa_cpus 0:0-31,64-95 1:32-63,96-119 row1"}, false},
		{"German", &Format, german, []string{"cpu_model Intel(R) Xeon(R) row4", "sockets_count 1 row5", "cpus_count 8 row3", "numa_nodes_count 1 row1", "numa_cpus 0:0-7 row1"}, false},
		{"JSON", &Format, js, []string{"cpu_model AMD EPYC row4", "cpus_count 3 row3", "numa_nodes_count 1 row1", "numa_cpus 0:0-1,3 row1"}, false},
		{"numactl -H", &NUMA, hardware, []string{"cpus_count 12 row1", "memory_bytes 2097152000 row6", "numa_nodes_count 2 row1", "numa_cpus 0:0-3,8-11 1:4-7 row1"}, false},
		{"numactl -s", &NUMA, "policy: default\npreferred node: current\nphyscpubind: 0 1 2 16 \ncpubind: 0 \nnodebind: 0 \nmembind: 0 \n", []string{"cpu_set 0-2,16 row3"}, false},
		{"numactl, cut in a list", &NUMA, "available: 1 nodes (0)\nnode 0 cpus: 0 1", nil, true},
		{"nothing known", &Format, "a: b\n", nil, true},
		{"broken JSON", &Format, `{"lscpu": [`, nil, true},
	} {
		got, _, err := readText(t, c.f, c.text)
		if (err != nil) != c.unread {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if c.unread {
			continue
		}
		if a, b := recognise(head(c.text)), recogniseNUMA([]byte(c.text)); a != (c.f == &Format) || b != (c.f == &NUMA) {
			t.Errorf("%s: recognised as lscpu %v, as numactl %v", c.what, a, b)
		}
	}
	for _, text := range []string{"", "name: value\nother: value\n", "policy: default\n", "CPU(s)\n", `{"traceEvents": []}`} {
		if recognise(head(text)) || recogniseNUMA([]byte(text)) {
			t.Errorf("%q is recognised", text)
		}
	}
	_, ps, _ := readText(t, &Format, "Architecture: x\nCPU(s): 2\nNUMA node0 CPU(s): a-b\n")
	if len(ps) != 1 || ps[0].Code != "lscpu/bad-list" || ps[0].Row != 3 {
		t.Errorf("%v", ps)
	}
}

func TestCPUList(t *testing.T) {
	for _, c := range []struct {
		in, want string
		ok       bool
		n        int
	}{
		{"", "", true, 0}, {"0", "0", true, 1}, {"0 1 2", "0-2", true, 3}, {"0-3,8-11", "0-3,8-11", true, 8}, {"3,1,2", "1-3", true, 3}, {"0-5,3-9", "0-9", true, 10},
		{"5-3", "", false, 0}, {"x", "", false, 0}, {"-1", "", false, 0}, {"0-99999999", "", false, 0},
	} {
		got, ok := cpuList(c.in)
		if got != c.want || ok != c.ok || ok && count(got) != c.n {
			t.Errorf("%q: %q %v, %d CPUs", c.in, got, ok, count(got))
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{lscpu, german, js, hardware} {
		f.Add([]byte(s))
		f.Add([]byte(s[:len(s)*2/3]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		recognise(head(string(data)))
		recogniseNUMA(data)
		_, _, _ = readText(t, &Format, string(data))
		_, _, _ = readText(t, &NUMA, string(data))
	})
}
