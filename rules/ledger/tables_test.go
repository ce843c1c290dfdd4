package ledger

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"gpureport/rules"
)

func tables(t testing.TB) *Tables {
	t.Helper()
	tab, err := LoadTables(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestFindGPU(t *testing.T) {
	tab := tables(t)
	for _, c := range []struct {
		name string
		mem  int64
		sms  int
		cc   string
		want string
	}{
		{"NVIDIA A100-PG509-200", 42505273344, 108, "8.0", "A100-SXM4-40GB"},
		{"NVIDIA A100 80GB PCIe", 0, 0, "", "A100-PCIE-80GB"},
		{"NVIDIA H100 80GB HBM3", 0, 132, "9.0", "H100 SXM"},
		{"NVIDIA H200", 150e9, 132, "9.0", "H200 SXM"},
		{"NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20e9, 42, "8.0", "A100-SXM4-40GB"},
		{"NVIDIA GeForce RTX 3090 Ti", 25e9, 84, "8.6", ""},
		{"NVIDIA GeForce RTX 4090 D", 25e9, 114, "8.9", ""},
		{"NVIDIA GeForce RTX 2080 SUPER", 8e9, 48, "7.5", ""},
		{"AMD Radeon Graphics", 68702699520, 104, "9.0", "MI250 GCD"},
		{"AMD Instinct MI300X", 206e9, 304, "", "MI300X"},
		{"NVIDIA A100-SXM...", 42.5e9, 0, "", "A100-SXM4-40GB"},
		{"NVIDIA A100-SXM...", 0, 0, "", ""},
		{"", 42.5e9, 108, "8.0", "ambiguous"},
	} {
		m := tab.FindGPU(c.name, c.mem, c.sms, c.cc)
		got := ""
		if m.GPU != nil {
			got = m.GPU.ID
		} else if m.Ambiguous != nil {
			got = "ambiguous"
		}
		if got != c.want {
			t.Errorf("%q %d: got %q, want %q", c.name, c.mem, got, c.want)
		}
	}
	m := tab.FindGPU("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20e9, 42, "8.0")
	if m.SMFrac < 0.38 || m.SMFrac > 0.39 || m.BWFrac != 0.5 {
		t.Errorf("MIG 3g.20gb: SMs %v, bandwidth %v; want 42/108 and 1/2", m.SMFrac, m.BWFrac)
	}
}

func TestLinksAndReasons(t *testing.T) {
	tab := tables(t)
	if got := tab.Links.PCIe(4, 8); got != 15.75e9 {
		t.Errorf("gen 4 x8: %v", got)
	}
	if r, ok := tab.Links.Expect("H200 SXM", 1, 64<<20); !ok || r != 347e9 {
		t.Errorf("H200 at 64 MiB: %v %v", r, ok)
	}
	if _, ok := tab.Links.Expect("H200 SXM", 1, 1024); ok {
		t.Error("nobody measured 1 KiB")
	}
	if f, ok := tab.BusFactor("all-reduce", 8); !ok || f != 1.75 {
		t.Errorf("all-reduce of 8: %v", f)
	}
	if f, _ := tab.BusFactor("all-gather", 4); f != 0.75 {
		t.Errorf("all-gather of 4: %v", f)
	}
	if got := strings.Join(tab.ReasonBits(0x204), " "); got != "sw_power_cap 0x200" {
		t.Error(got)
	}
}

func TestLoadErrors(t *testing.T) {
	m := fstest.MapFS{}
	for _, n := range []string{"kernels", "collectives", "annotations", "calls", "gpus", "links", "reasons"} {
		b, err := fs.ReadFile(rules.FS, "tables/"+n+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		m[n+".yaml"] = &fstest.MapFile{Data: b}
	}
	m["kernels.yaml"] = &fstest.MapFile{Data: []byte("classes:\n  - {class: gemm, any: [a]}\n  - {class: conv, re: '['}\n  - {class: conv, ani: [x]}\n")}
	m["reasons.yaml"] = &fstest.MapFile{Data: []byte("reasons:\n  - {bit: 3, name: x}\n")}
	_, err := LoadTables(m)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"tables/kernels.yaml:2: unknown class \"gemm\"", "tables/kernels.yaml:3: re:", "tables/kernels.yaml:4: unknown key ani", "tables/reasons.yaml:2: a reason needs one bit"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
	if _, err := LoadTables(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), "tables/gpus.yaml:1:") {
		t.Errorf("empty folder: %v", err)
	}
}
