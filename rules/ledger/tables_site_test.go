package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpureport/rules"
)

const siteGPUs = `gpus:
  - {id: X1, names: ["ACME X1"], sms: 100, cc: "9.9", fp32: 10, half: 500, gb: [64], bw: 1000, tdp: 400, boost_mhz: 1500, pcie: 5, conf: C}
  - {id: H100 PCIe, names: ["NVIDIA H100 PCIe", "Our H100"], sms: 114, cc: "9.0", fp32: 51, half: 700, gb: [80], bw: 2000, tdp: 310, boost_mhz: 1600, pcie: 5, conf: C}
`

func TestSiteTables(t *testing.T) {
	plain, err := LoadTables(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := LoadTables(rules.FS, SiteTable{"site/tables/gpus.yaml", []byte(siteGPUs)}, SiteTable{"site/tables/xids.yaml", []byte(`xids: [{code: 999, kind: note, means: "ours", act: "ask us"}]`)},
		SiteTable{"site/tables/kernels.yaml", []byte(`classes: [{class: matmul, any: ["acme_mm"]}]`)}, SiteTable{"site/tables/links.yaml", []byte("pcie: [{gen: 5, x16_gbs: 60}]\npcie_healthy_frac: 0.5\n")})
	if err != nil {
		t.Fatal(err)
	}
	if len(ours.GPUs) != len(plain.GPUs)+1 {
		t.Errorf("%d rows of GPUs, shipped are %d", len(ours.GPUs), len(plain.GPUs))
	}
	if m := ours.FindGPU("ACME X1", 64e9, 100, ""); m.GPU == nil || m.GPU.Half != 500e12 || m.GPU.BoostHz != 1500e6 {
		t.Errorf("the site's card: %+v", m)
	}
	if m := plain.FindGPU("ACME X1", 64e9, 100, ""); m.GPU != nil {
		t.Errorf("without the site: %+v", m)
	}
	for _, name := range []string{"NVIDIA H100 PCIe", "Our H100"} {
		if m := ours.FindGPU(name, 80e9, 114, "9.0"); m.GPU == nil || m.GPU.BoostHz != 1600e6 {
			t.Errorf("%s: the site's row does not stand: %+v", name, m)
		}
	}
	if x := ours.Xid(999); x.Means != "ours" || ours.Xid(79).Kind != "restart" {
		t.Errorf("%+v", x)
	}
	if c := ours.Kernel("void acme_mm_kernel()").Class; c != ClassMatmul {
		t.Errorf("the site's pattern gives %v", c)
	}
	if r := ours.Links.PCIe(5, 16); r != 60e9 || ours.Links.PCIeHealthy != 0.5 || ours.Links.PCIe(4, 16) != plain.Links.PCIe(4, 16) {
		t.Errorf("links %v", ours.Links.PCIeX16)
	}
}

func TestSiteTablesBroken(t *testing.T) {
	_, err := LoadTables(rules.FS, SiteTable{"site/tables/gpus.yaml", []byte("gpus:\n  - {id: X1, names: [\"NVIDIA H200\"], sms: 0, conf: C}\n")},
		SiteTable{"site/tables/gpu.yaml", []byte("a: 1\n")}, SiteTable{"site/tables/xids.yaml", []byte("xids:\n  - {code: 13}\n")}, SiteTable{"b/tables/links.yaml", []byte("# only\npice: []\n")})
	if err == nil {
		t.Fatal("broken tables were taken")
	}
	for _, want := range []string{
		"site/tables/gpus.yaml:2:5: a row needs id, sms",
		`site/tables/gpus.yaml:2:5: name "NVIDIA H200" also in tables/gpus.yaml:`,
		"site/tables/gpu.yaml:1:1: there is no such table: one of annotations.yaml calls.yaml",
		"site/tables/xids.yaml:2:5: an Xid needs a code, what it means",
		"b/tables/links.yaml:2:1: field pice not found",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestReadSiteTables(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"tables/gpus.yaml", "idle/share.yaml", "tables/README.md", "more/tables/xids.yml", ".git/tables/gpus.yaml"} {
		p := filepath.Join(dir, filepath.FromSlash(f))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("x: 1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"": "more/tables/xids.yml tables/gpus.yaml", "tables": "tables/gpus.yaml", "tables/gpus.yaml": "tables/gpus.yaml", "idle": ""} {
		got, err := ReadSiteTables([]string{filepath.Join(dir, filepath.FromSlash(path))})
		var names []string
		for _, s := range got {
			names = append(names, strings.TrimPrefix(s.Path, filepath.ToSlash(dir)+"/"))
		}
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("%q: %v, %v; want %s", path, names, err, want)
		}
	}
	if _, err := ReadSiteTables([]string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a path that is not there was read")
	}
}
