package render

import (
	"fmt"
	"math"
	"sort"

	"gpureport/rules/facts"
)

// slowSteps takes the ledger of the slowest tenth of steps beside that of the median ones.
func (b *builder) slowSteps() {
	if s, ok := facts.SlowLedger(b.in.In); ok {
		b.r.slow = &s
	}
}

// slowTable says which owners grow from the median steps to the slow ones, the most first.
func slowTable(r *Report) (Table, bool) {
	if r.slow == nil {
		return Table{}, false
	}
	s := r.slow
	lines := append([]facts.SlowLine(nil), s.Lines...)
	sort.SliceStable(lines, func(i, j int) bool {
		return lines[i].Slow-lines[i].Median > lines[j].Slow-lines[j].Median
	})
	var slow, usual float64
	for _, l := range lines {
		slow, usual = slow+l.Slow, usual+l.Median
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
		d := l.Slow - l.Median
		if math.Abs(d) < 0.01*(slow-usual) {
			continue
		}
		cell := Cell{Text: aligned(d/scale, step)}
		if d < 0 {
			cell = Cell{Text: "−" + aligned(-d/scale, step), Weak: true}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: OwnerWord(l.Owner), Owner: l.Owner.String()}, {Text: aligned(l.Median/scale, step)}, {Text: aligned(l.Slow/scale, step)},
			cell, {Bar: max(0, min(1, d/(slow-usual))), BarOwner: l.Owner.String()}}})
	}
	capRows(&t, "owners")
	return t, len(t.Rows) > 0
}
