package render

import (
	"bytes"
	"strings"
	"testing"
)

func whatIfReport() *Report {
	late := 1
	half := 0.2
	return &Report{
		GPUs:    []GPU{{ID: "gpu0"}, {ID: "gpu1", Rank: &late}},
		Ledger:  []LedgerRow{{GPU: "gpu0", WindowNS: 2e9, Steps: 10, Owners: map[string]int64{"compute": 2e9}}, {GPU: "gpu1", WindowNS: 2e9, Steps: 10, Owners: map[string]int64{"compute": 2e9}}},
		Checks:  []Check{{ID: "idle.launch-bound", Title: "Launches are slow", Outcome: "finding"}, {ID: "data.zero-workers", Title: "No workers", Outcome: "finding"}},
		Verdict: Verdict{RecoverableFrac: &half},
		WhatIf: []WhatIf{
			{Fix: []string{"data.zero-workers"}, Same: []string{"idle.dataloader-wait", "data.worker-throughput"}, StepBeforeNS: 200e6, StepAfterNS: 140e6, SavingFrac: .3, NextLimiter: "host.launch", GPU: "gpu1", Rank: &late},
			{Fix: []string{"idle.launch-bound"}, StepBeforeNS: 200e6, StepAfterNS: 180e6, SavingFrac: .1, NextLimiter: "host-bound", GPU: "gpu0", Capped: true},
			{Fix: []string{"idle.launch-bound", "data.zero-workers"}, StepBeforeNS: 200e6, StepAfterNS: 120e6, SavingFrac: .4, NextLimiter: "compute", GPU: "gpu0"},
		},
	}
}

func TestWhatIfTable(t *testing.T) {
	r := whatIfReport()
	tab, ok := whatIfTable(r)
	if !ok {
		t.Fatal("no table")
	}
	var got []string
	for _, row := range tab.Rows {
		var cells []string
		for _, c := range row.Cells {
			cells = append(cells, c.Text)
		}
		got = append(got, strings.Join(cells, "|"))
	}
	want := "A|No workers|140\u202fms|30\u202f%||Launch and operators, GPU 1, rank 1\nB|Launches are slow|180\u202fms|10\u202f%*||The host’s own work, GPU 0\nA and B|both|120\u202fms|40\u202f%||Compute, GPU 0"
	if g := strings.ReplaceAll(strings.Join(got, "\n"), nbsp, "\u202f"); g != want {
		t.Errorf("got\n%s\nwant\n%s", g, want)
	}
	if tab.Rows[2].Cells[4].Bar != .6 {
		t.Errorf("bar of %g, 120 of 200 ms are left", tab.Rows[2].Cells[4].Bar)
	}
	if tab.Foot == "" || !strings.Contains(tab.Lead, "slowest rank") {
		t.Errorf("foot %q, lead %q: nothing says why less than the findings', and more than the verdict's share", tab.Foot, tab.Lead)
	}
	if want := "A is also the time of idle.dataloader-wait and data.worker-throughput: it is not saved twice."; !strings.Contains(tab.Foot, want) {
		t.Errorf("foot %q lacks %q", tab.Foot, want)
	}
	if _, ok := whatIfTable(&Report{}); ok {
		t.Error("a table of nothing")
	}
	var b bytes.Buffer
	if err := WriteTerminal(&b, r, TerminalOptions{}); err != nil || !strings.Contains(strings.Join(strings.Fields(b.String()), " "), "Without idle.launch-bound and data.zero-workers it would be 120 ms or more") {
		t.Error(err, b.String())
	}
	b.Reset()
	if err := WriteMarkdown(&b, r); err != nil || !strings.Contains(b.String(), "| A and B | both | 120") {
		t.Error(err, b.String())
	}
}
