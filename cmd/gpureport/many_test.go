package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A page over hundreds of GPUs stays a page: a choice of rows, every table bounded, under its size.
func TestManyGPUsPage(t *testing.T) {
	var b strings.Builder
	const gpus = 200
	b.WriteString(`{"schemaVersion":1,"traceEvents":[`)
	for i := range gpus * 30 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"ph":"X","cat":"kernel","name":"k%d","pid":%d,"tid":7,"ts":%d,"dur":%d,"args":{"device":%d,"stream":7,"correlation":%d}}`, i, i%gpus, 1000+i*20, 10+i%7, i%gpus, i)
	}
	b.WriteString("]}")
	in := filepath.Join(t.TempDir(), "many.json")
	if err := os.WriteFile(in, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if r := gpureport("analyze", "-o", out, in); r.code != exitOK {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > 3_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	for _, want := range []string{"others, mean", "GPUs are drawn", "of 200 GPUs; the workbook has all"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if r := readReport(t, out); len(r.Ledger) != gpus || r.SumErrorNS != 0 {
		t.Errorf("%d ledgers, error %d ns", len(r.Ledger), r.SumErrorNS)
	}
}
