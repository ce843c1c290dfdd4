package render

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/rules/facts"
)

// slowSteps takes the ledger of the slowest tenth of steps beside that of the median ones.
func (b *builder) slowSteps() {
	if s, ok := facts.SlowLedger(b.in.In); ok {
		out := &SlowSteps{GPU: s.GPU, Steps: s.Steps, Slow: s.Slow, Owners: []SlowLine{}}
		for _, l := range s.Lines {
			out.Owners = append(out.Owners, SlowLine{Owner: l.Owner.String(), MedianNS: math.Round(l.Median), SlowNS: math.Round(l.Slow)})
		}
		b.r.SlowSteps = out
	}
}

// slowTable says which owners grow from the median steps to the slow ones, the most first.
func slowTable(r *Report) (Table, bool) {
	if r.SlowSteps == nil {
		return Table{}, false
	}
	s := r.SlowSteps
	lines := slices.Clone(s.Owners)
	sort.SliceStable(lines, func(i, j int) bool {
		return lines[i].SlowNS-lines[i].MedianNS > lines[j].SlowNS-lines[j].MedianNS
	})
	var slow, usual float64
	for _, l := range lines {
		slow, usual = slow+l.SlowNS, usual+l.MedianNS
	}
	unit, scale := "ms", 1e6
	if slow >= 1e10 {
		unit, scale = "s", 1e9
	} else if slow < 1e6 {
		unit, scale = "µs", 1e3
	}
	step := pow10for(slow / scale)
	t := Table{ID: "slow-steps", Title: "What slow steps are longer by", Shown: 8,
		Lead: fmt.Sprintf("The slowest tenth of the %d steps of %s, %d of them, beside those around the median: %s instead of %s. What grows most makes the steps unsteady.",
			s.Steps, gpuLabel(r, s.GPU), s.Slow, Dur(slow, 3), Dur(usual, 3)),
		Columns: []Column{{Title: "Owner"}, {Title: "Median step, " + unit, Num: true, More: true}, {Title: "Slow step, " + unit, Num: true, More: true}, {Title: "Longer by, " + unit, Num: true}, {Title: "", Bar: true, Wide: true, More: true}}}
	for _, l := range lines {
		d := l.SlowNS - l.MedianNS
		if math.Abs(d) < 0.01*(slow-usual) {
			continue
		}
		o, _ := timeline.ParseOwner(l.Owner)
		cell := Cell{Text: aligned(d/scale, step)}
		if d < 0 {
			cell = Cell{Text: "−" + aligned(-d/scale, step), Weak: true}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: OwnerWord(o), Owner: l.Owner}, {Text: aligned(l.MedianNS/scale, step)}, {Text: aligned(l.SlowNS/scale, step)},
			cell, {Bar: max(0, min(1, d/(slow-usual))), BarOwner: l.Owner}}})
	}
	capRows(&t, "owners")
	return t, len(t.Rows) > 0
}
