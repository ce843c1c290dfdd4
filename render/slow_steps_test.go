package render

import (
	"strings"
	"testing"
)

// The owner that grows most leads, what stays is left out, and what shrinks has its sign.
func TestSlowTable(t *testing.T) {
	r := &Report{SlowSteps: &SlowSteps{GPU: "gpu0", Steps: 40, Slow: 4, Owners: []SlowLine{
		{Owner: "compute", MedianNS: 100e6, SlowNS: 100e6},
		{Owner: "host.launch", MedianNS: 10e6, SlowNS: 6e6},
		{Owner: "host.dataloader", MedianNS: 0, SlowNS: 64e6},
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
