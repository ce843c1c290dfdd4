package smitopo

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

const matrix = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
	"GPU0\t X \tNV18\tPIX\t0-19,40-59\t0\t\tN/A\n" +
	"GPU1\tNV18\t X \tSYS\t20-39\t1\t\t9\n" +
	"NIC0\tPIX\tSYS\t X \t\t\t\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"

func links(tl *timeline.Timeline) string {
	var out []string
	for _, l := range tl.Links {
		out = append(out, fmt.Sprintf("%s>%s %s %d row%d", l.A, l.B, l.Kind, l.Count, l.Row))
	}
	return strings.Join(out, "; ")
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		links      string
		want       []string
		problems   string
	}{
		{"tabs, escapes, adapters", matrix,
			"GPU0>GPU1 NV18 18 row2; GPU0>mlx5_0 PIX 0 row2; GPU1>GPU0 NV18 18 row3; GPU1>mlx5_0 SYS 0 row3; mlx5_0>GPU0 PIX 0 row4; mlx5_0>GPU1 SYS 0 row4",
			[]string{"GPU 0: cpu_affinity=0-19,40-59", "GPU 0: numa_node=0", "GPU 1: cpu_affinity=20-39", "GPU 1: gpu_numa_node=9", "GPU 1: numa_node=1"}, ""},
		{"old adapters without a legend", "        GPU0    mlx5_0  CPU Affinity\nGPU0     X      SOC     0-7\nmlx5_0  SOC      X\n", "GPU0>mlx5_0 SOC 0 row2; mlx5_0>GPU0 SOC 0 row3",
			[]string{"GPU 0: cpu_affinity=0-7"}, ""},
		{"no NUMA", "  GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 N/A\n", "", []string{"GPU 0: cpu_affinity=0-7", "GPU 0: numa_node=-1"}, ""},
		{"several nodes", "  GPU0 CPU Affinity NUMA Affinity\nGPU0 X N/A 0-1\n", "", nil, "several-nodes@2*1"},
		{"peer access", "  GPU0 GPU1\nGPU0 X OK\nGPU1 CNS X\n", "", []string{"GPU 0: p2p_access=X OK", "GPU 1: p2p_access=CNS X"}, ""},
		{"PCIe alone below the first", matrix + "\n\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n",
			"GPU0>GPU1 NV18 18 row2; GPU0>mlx5_0 PIX 0 row2; GPU1>GPU0 NV18 18 row3; GPU1>mlx5_0 SYS 0 row3; mlx5_0>GPU0 PIX 0 row4; mlx5_0>GPU1 SYS 0 row4",
			[]string{"GPU 0: cpu_affinity=0-19,40-59", "GPU 0: numa_node=0", "GPU 1: cpu_affinity=20-39", "GPU 1: gpu_numa_node=9", "GPU 1: numa_node=1"}, ""},
		{"cut in a cell", "  GPU0 GPU1 CPU Affinity\nGPU0 X NV1", "", nil, "unterminated-row@2*1"},
		{"cut in the affinity", "  GPU0 GPU1 CPU Affinity\nGPU0 X NV12 0-2", "GPU0>GPU1 NV12 12 row2", nil, "unterminated-row@2*1"},
		{"short row", "  GPU0 GPU1 CPU Affinity\nGPU0 X\nGPU1 NV12 X 0-7\n", "GPU1>GPU0 NV12 12 row3", []string{"GPU 1: cpu_affinity=0-7"}, "short-row@2*1"},
		{"a cell of no kind", "  GPU0 GPU1\nGPU0 X banana\n", "", nil, "bad-cell@2*1"},
		{"two hosts", "a: \tGPU0\tGPU1\na: GPU0\t X \tNV4\na: GPU1\tNV4\t X\nb: \tGPU0\tGPU1\nb: GPU0\t X \tPHB\nb: GPU1\tPHB\t X\n", "GPU0>GPU1 NV4 4 row2; GPU1>GPU0 NV4 4 row3", nil, "several-hosts@1*1"},
	} {
		tl, ps, err := of.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := links(tl); got != c.links {
			t.Errorf("%s: links %s, want %s", c.what, got, c.links)
		}
		if d := cmp.Diff(c.want, ingesttest.Shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := of.Codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
		for i, d := range tl.Devices {
			if d.Index < 0 || d.UUID != "" || tl.Tracks[i].Kind != timeline.TrackGPU {
				t.Errorf("%s: %+v", c.what, d)
			}
		}
		if k := tl.Clocks[0]; k.Wall || k.Why == "" {
			t.Errorf("%s: %+v", c.what, k)
		}
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "\tGPU0\tGPU1\n", "ERROR: Option -m is missing its value. Please run 'nvidia-smi -h' for help.\n"} {
		if _, _, err := of.Read(t, text); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

// TestRealMatrices holds numbers read off the files by hand.
func TestRealMatrices(t *testing.T) {
	for _, c := range []struct {
		name        string
		gpus, links int
		has         string // one link
		want        []string
	}{
		{"a800x8_nics.txt", 8, 132, "GPU7>mlx5_3 PIX 0 row9", []string{"GPU 0: cpu_affinity=0-31,64-95", "GPU 0: numa_node=0", "GPU 4: cpu_affinity=32-63,96-127", "GPU 7: numa_node=1"}},
		{"mleng_topo_0.txt", 2, 2, "GPU0>GPU1 NV2 2 row2", []string{"GPU 1: cpu_affinity=0-23", "GPU 1: numa_node=-1"}},
		{"mleng_topo_2.txt", 8, 56, "GPU0>GPU7 NV12 12 row2", []string{"GPU 3: cpu_affinity=0-23", "GPU 4: cpu_affinity=24-47", "GPU 4: numa_node=1"}},
		{"linux-h100-80gb-hbm3__590.48.01__capabilities.txt", 1, 0, "", []string{"GPU 0: cpu_affinity=0-19", "GPU 0: numa_node=0"}},
		{"linux-l40s__595.80__capabilities.txt", 1, 0, "", []string{"GPU 0: cpu_affinity=0-7"}},
		{"linux-rtx-2080-super__595.71.05__capabilities.txt", 1, 0, "", []string{"GPU 0: cpu_affinity=0-23"}},
		{"linux-rtx-4080-super__595.71.05__capabilities.txt", 1, 0, "", []string{"GPU 0: cpu_affinity=0-15"}},
	} {
		tl, ps, err := of.Read(t, ingesttest.Real(t, "topo", c.name))
		if err != nil || len(ps) > 0 || len(tl.Devices) != c.gpus || len(tl.Links) != c.links || !strings.Contains(links(tl), c.has) {
			t.Errorf("%s: %v, %v, %d GPUs, %d links: %s", c.name, err, ps, len(tl.Devices), len(tl.Links), links(tl))
		}
		ingesttest.Has(t, tl, c.want...)
	}
	if _, _, err := of.Read(t, ingesttest.Real(t, "topo", "windows-rtx-2080-super__591.86__capabilities.txt")); err == nil || !strings.Contains(err.Error(), "Linux") {
		t.Errorf("Windows: %v", err)
	}
}

func TestCutAnywhere(t *testing.T) { of.CutAnywhere(t, matrix) }

func FuzzRead(f *testing.F) {
	f.Add([]byte(matrix))                                             // plain
	f.Add([]byte("  GPU0 GPU0 GPU NUMA ID\nGPU0 X X X X X\n"))        // columns twice, cells too many
	f.Add([]byte("  GPU0 CPU\nGPU0 X\nGPU9999 X\n"))                  // a heading that is cut, an unknown row
	f.Add([]byte("  GPU0\nGPU0\nGPU0 NV999999999999999\n"))           // a count that is too large
	f.Add([]byte("\tGPU0\r\nGPU0\t\x1b[4m\t\r\n\x1b[0m"))             // escapes that end nothing
	f.Add([]byte("  GPU0 NIC0\nNIC0: x\nNIC0 X X\n  NIC0: \xff\xfe")) // legend before the matrix
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
