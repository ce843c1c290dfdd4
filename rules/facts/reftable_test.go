package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

// A row of a file of several tables is shown in its own table; rows of traces stay event numbers.
func TestRefsFindTheirTable(t *testing.T) {
	base := &timeline.Timeline{Sources: []timeline.Source{
		{Path: "a.json"},
		{Path: "run.sqlite", Tables: []timeline.TableRows{{Name: "KERNEL", First: 0}, {Name: "RUNTIME", First: 100}}},
	}}
	p := &Pass{Input: &Input{Base: base}}
	in := []Ref{traceRef("a.json", 105), traceRef("run.sqlite", 7), traceRef("run.sqlite", 100), traceRef("run.sqlite", 105), {Path: "run.sqlite", Table: "GPU_METRICS", Row: 3}}
	want := []string{"a.json: traceEvents[105]", "run.sqlite: KERNEL[7]", "run.sqlite: RUNTIME[0]", "run.sqlite: RUNTIME[5]", "run.sqlite: GPU_METRICS[3]"}
	for i, r := range p.inTables(in) {
		if r.String() != want[i] {
			t.Errorf("%s, want %s", r, want[i])
		}
	}
	if in[1].Table != traceTable {
		t.Error("the list that another fact may share was changed")
	}
}
