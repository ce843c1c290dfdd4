package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// A run of many GPUs stays a ticket's body: one line a rule, and a choice of GPUs.
func TestMarkdownOfMany(t *testing.T) {
	r := &Report{}
	for i := range 64 {
		id, rank, share, sev := fmt.Sprintf("gpu%d", i), i, 0.1+float64(i)/1000, "medium"
		r.GPUs = append(r.GPUs, GPU{ID: id, Rank: &rank})
		r.Ledger = append(r.Ledger, LedgerRow{GPU: id, Rank: &rank, WindowNS: 1e9, Steps: 10, Owners: map[string]int64{"compute": 9e8 - int64(i)*1e6, "host.launch": 1e8 + int64(i)*1e6}})
		r.Checks = append(r.Checks, Check{ID: "idle.launch-bound", Outcome: "finding", Severity: &sev, Subject: Subject{"gpu", id, &rank}, RecoverableFrac: &share, Says: "GPU " + id})
	}
	var b bytes.Buffer
	if err := WriteMarkdown(&b, r); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	if n := strings.Count(out, "`idle.launch-bound`"); n != 1 || !strings.Contains(out, "GPU 63, rank 63 and 63 more") {
		t.Errorf("%d lines of one rule:\n%s", n, out)
	}
	if n := strings.Count(out, "| GPU "); n > 20 || !strings.Contains(out, "others, mean") {
		t.Errorf("%d GPUs:\n%s", n, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if len([]rune(line)) > 200 {
			t.Errorf("a line of %d: %s", len([]rune(line)), line)
		}
	}
}
