package render

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/facts"
)

// The owner that grows most leads, what stays is left out, and what shrinks has its sign.
func TestSlowTable(t *testing.T) {
	r := &Report{slow: &facts.SlowSteps{GPU: "gpu0", Rank: 0, Steps: 40, Slow: 4, Lines: []facts.SlowLine{
		{Owner: timeline.Compute, Median: 100e6, Slow: 100e6},
		{Owner: timeline.HostLaunch, Median: 10e6, Slow: 6e6},
		{Owner: timeline.HostDataloader, Median: 0, Slow: 64e6},
	}}}
	tab, ok := slowTable(r)
	if !ok || len(tab.Rows) != 2 {
		t.Fatalf("%v %+v", ok, tab.Rows)
	}
	plain := strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace
	if o, d := tab.Rows[0].Cells[0].Owner, plain(tab.Rows[0].Cells[3].Text); o != "host.dataloader" || !strings.HasPrefix(d, "64") {
		t.Errorf("first row: %s %s", o, d)
	}
	if d := plain(tab.Rows[1].Cells[3].Text); !strings.HasPrefix(d, "−4") {
		t.Errorf("second row: %s", d)
	}
	if lead := plain(tab.Lead); !strings.Contains(lead, "170 ms instead of 110 ms") {
		t.Error(lead)
	}
	if _, ok := slowTable(&Report{}); ok {
		t.Error("a table of nothing")
	}
}
