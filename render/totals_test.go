package render

import (
	"fmt"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

// reportOfSums is the report on tables of sums alone.
func reportOfSums(t *testing.T, totals ...timeline.Totals) *Report {
	t.Helper()
	tables, err := ledger.LoadTables(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := engine.Load(rules.FS, nil, facts.Decls())
	if err != nil {
		t.Fatal(err)
	}
	base := &timeline.Timeline{Sources: []timeline.Source{{Path: "sums.csv", Format: "nsys-stats", Used: true, Rows: 3}},
		Clocks: []timeline.Clock{{Name: "sums.csv", Why: "a summary has no time axis"}}, Totals: totals}
	in := &facts.Input{Job: &ledger.Job{}, Base: base, Tables: tables}
	set, bugs := facts.Derive(in)
	if len(bugs) > 0 {
		t.Fatal(bugs)
	}
	checks := rs.Evaluate(set)
	return Build(&Input{Title: "t", In: in, Facts: set, Checks: checks, Verdict: engine.Decide(checks, engine.InputOf(set))})
}

func total(name string, count, sum int64) timeline.TotalRow {
	return timeline.TotalRow{Name: name, Count: count, Sum: sum, Median: -1, Min: -1, Max: -1, Row: 2}
}

func TestSumsAlone(t *testing.T) {
	kernels := timeline.Totals{What: timeline.TotalKernels, Rows: []timeline.TotalRow{total("add_elementwise_kernel", -1, 1e9), total("ampere_sgemm_128x64_tn", 10, 3e9)}}
	calls := timeline.Totals{What: timeline.TotalCalls, Rows: []timeline.TotalRow{total("cudaStreamSynchronize", 7, 4e8), total("cudaLaunchKernel", 9, 1e8)}}
	const head = "Sums without a time axis cannot say who held the time"
	for _, c := range []struct {
		name, sentence string
		totals         []timeline.Totals
		tables         string
	}{
		{"kernels", head + "; of 4.00 s of kernel time 75 % went to matrix products, and products without tensor cores hold 75 %.", []timeline.Totals{kernels, calls},
			"sum-kernels ampere_sgemm_128x64_tn|matmul|10|–|3000||75.0 %|no add_elementwise_kernel|elementwise|–|–|1000||25.0 %|–; sum-calls cudaStreamSynchronize|sync|7|–|400.0||80.0 % cudaLaunchKernel|launch|9|–|100.0||20.0 %"},
		{"calls", head + "; of 500 ms of host time in CUDA calls 80 % was waiting for the GPU.", []timeline.Totals{calls}, "sum-calls cudaStreamSynchronize|sync|7|–|400.0||80.0 % cudaLaunchKernel|launch|9|–|100.0||20.0 %"},
		{"ranges", head + ", and no summary of kernels or calls is among them.", []timeline.Totals{{What: timeline.TotalRanges, Rows: []timeline.TotalRow{total("step", 4, 5e3)}}}, "sum-ranges step|4|–|5.00||100.0 %"},
	} {
		r := reportOfSums(t, c.totals...)
		space := strings.NewReplacer("\u00a0", " ", "\u202f", "")
		if got := space.Replace(r.Verdict.Sentence); got != c.sentence || r.Verdict.Class != "insufficient-evidence" {
			t.Errorf("%s: %s: %q", c.name, r.Verdict.Class, got)
		}
		if p := r.CapturePlan[0]; p.Command != "nsys export --type sqlite -o run.sqlite run.nsys-rep" || len(p.Answers) < 20 || c.name != "ranges" && r.Verdict.Record.Command != p.Command {
			t.Errorf("%s: record %+v, first of the plan %+v", c.name, r.Verdict.Record, p)
		}
		var tables []string
		for _, s := range Sections(r) {
			for _, b := range s.Blocks {
				tb, ok := b.(Table)
				if !ok || s.ID != "kernels" {
					continue
				}
				line := tb.ID
				for _, row := range tb.Rows {
					var cells []string
					for _, x := range row.Cells {
						cells = append(cells, x.Text)
					}
					line += " " + strings.Join(cells, "|")
					if len(cells) != len(tb.Columns) {
						t.Errorf("%s: %d cells under %d headings", c.name, len(cells), len(tb.Columns))
					}
				}
				tables = append(tables, line)
			}
		}
		if got := space.Replace(strings.Join(tables, "; ")); got != c.tables {
			t.Errorf("%s: %s", c.name, got)
		}
		for i := range r.Checks {
			if x := &r.Checks[i]; x.Outcome == "finding" && x.RecoverableFrac != nil {
				t.Errorf("%s: %s promises %v", c.name, x.ID, *x.RecoverableFrac)
			}
		}
	}
}

// TestManySums: the table keeps the longest and says how many it leaves out; shares are of all rows.
func TestManySums(t *testing.T) {
	var rows []timeline.TotalRow
	for i := range maxKernels + 50 {
		rows = append(rows, total(fmt.Sprintf("k%d", i), 1, 1e6))
	}
	r := reportOfSums(t, timeline.Totals{What: timeline.TotalKernels, Rows: rows})
	s := &r.Summaries[0]
	if len(s.Rows) != maxKernels || s.Left != 50 {
		t.Fatalf("%d rows, %d left", len(s.Rows), s.Left)
	}
	tb := summaryTable(s)
	if tb.Foot != "50 shorter rows are not listed." || tb.Rows[0].Cells[6].Text != "0.4\u00a0%" {
		t.Errorf("%q, %q", tb.Foot, tb.Rows[0].Cells[6].Text)
	}
}
