package render

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

func ledgerSection(r *Report) (Section, bool) {
	s := Section{ID: "ledger", Title: "Ledger"}
	if len(r.Ledger) == 0 {
		if len(r.GPUs) == 0 && len(r.Series) == 0 {
			return Section{}, false
		}
		s.Lead = "There is no ledger: no trace with GPU activity was given."
		return s, true
	}
	scale, steps := ledgerScale(r)
	unitNS, unit := 1e6, "ms"
	if scale >= 1e10 {
		unitNS, unit = 1e9, "s"
	} else if scale < 1e6 {
		unitNS, unit = 1e3, "µs"
	}
	step := pow10for(scale / unitNS)
	lb := LedgerBars{ScaleLabel: "Step, 0 to " + Dur(scale, 3)}
	total := 0
	for _, l := range r.Ledger {
		total = max(total, l.Steps)
	}
	if steps {
		s.Lead = fmt.Sprintf("Every nanosecond of every GPU has one owner. %s, mean of a step, in %s. Each row sums to its step, and the steps to the window.", nSteps(total), unit)
	} else {
		lb.ScaleLabel = "Window, 0 to " + Dur(scale, 3)
		s.Lead = fmt.Sprintf("Every nanosecond of every GPU has one owner. No steps were found, so one ledger runs from the first to the last device operation, in %s.", unit)
	}
	hidden := false
	for i := range r.Ledger {
		hidden = hidden || r.Ledger[i].Side.HiddenComm > 0
	}
	if hidden {
		s.Lead += " Hidden communication ran under compute and is no part of the sum."
	}
	var fams []int
	for f, fam := range Families {
		for i := range r.Ledger {
			if famNS(&r.Ledger[i], fam) > 0 {
				fams = append(fams, f)
				break
			}
		}
	}
	for _, f := range fams {
		lb.Columns = append(lb.Columns, Column{Title: Families[f].Short, Owners: []string{Families[f].Owners[0].String()}, Num: true, More: f != 0 && !busiest(r, fams, f)})
	}
	if hidden {
		lb.Columns = append(lb.Columns, Column{Title: "Hidden comm.", Num: true, More: true})
	}
	rows, others := drawn(r)
	if len(others) > 0 {
		s.Lead += fmt.Sprintf(" %d of %d GPUs are drawn: those to blame, the extremes of each owner and a typical one; the workbook has all.", len(rows), len(r.Ledger))
	}
	for k := 0; k < len(rows)+min(len(others), 1); k++ {
		var l *LedgerRow
		if k < len(rows) {
			l = &r.Ledger[rows[k]]
		} else {
			mean := meanRow(r, others)
			l = &mean
		}
		b := r.bar(l, scale, "waits for a peer")
		b.ID, b.Name = l.GPU, gpuLabel(r, l.GPU)
		if l.GPU == "" {
			b.Name = othersName(len(others))
		}
		if l.Rank != nil && r.Verdict.CulpritRank != nil && *l.Rank == *r.Verdict.CulpritRank {
			b.Bold, b.Sub = true, "late"
		}
		for j := range b.Segs {
			b.Segs[j].Label, b.Segs[j].Short = "", ""
		}
		parts := make([]float64, len(fams))
		for k, f := range fams {
			parts[k] = float64(famNS(l, Families[f])) / perStep(l) / unitNS
		}
		for k, v := range largestRemainder(parts, step) {
			c := Cell{Text: fixed(v, step), Weak: parts[k] < 0.01*float64(l.WindowNS)/perStep(l)/unitNS}
			if famNS(l, Families[fams[k]]) == 0 {
				c.Text = "0"
			} else if v == 0 {
				c.Text = "<" + fixed(step, step)
			}
			b.Cells = append(b.Cells, c)
		}
		if hidden {
			b.Cells = append(b.Cells, Cell{Text: aligned(float64(l.Side.HiddenComm)/perStep(l)/unitNS, step), Weak: true})
		}
		b.Alt = b.Name + ": " + b.Alt
		lb.Bars = append(lb.Bars, b)
	}
	if u := r.shareOf(timeline.UnknownOwner); u > 0.1 {
		lb.Notes = append(lb.Notes, Note{Strong: fmt.Sprintf("Unknown holds %s of the window.", Pct(u)), Text: "Causes whose shares are closer together than that are not ranked."})
	}
	lb.Notes = append(lb.Notes, unknownNotes(r)...)
	if u := r.shareOf(timeline.CommUndivided); u > 0.1 {
		lb.Notes = append(lb.Notes, Note{Strong: fmt.Sprintf("Communication of %s is not divided.", Pct(u)), Text: "Waiting for a late rank and transferring look the same from these files: record every rank."})
	}
	s.Blocks = append(s.Blocks, lb)
	if t, ok := whatIfTable(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	if t, ok := waitsTable(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	if c, ok := stepChart(r); ok {
		s.Blocks = append(s.Blocks, c)
	}
	if t, ok := slowTable(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	if t, ok := stepsHow(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	return s, true
}

// busiest keeps a column visible on narrow screens: the largest families besides compute.
func busiest(r *Report, fams []int, f int) bool {
	sum := func(f int) (n int64) {
		for i := range r.Ledger {
			n += famNS(&r.Ledger[i], Families[f])
		}
		return
	}
	mine, larger := sum(f), 0
	for _, g := range fams {
		if g != 0 && sum(g) > mine {
			larger++
		}
	}
	return larger < 2
}

func famNS(l *LedgerRow, f Family) int64 {
	var n int64
	for _, o := range f.Owners {
		n += l.Owners[o.String()]
	}
	return n
}

// pow10for is the last shown digit of a column whose largest value is v.
func pow10for(v float64) float64 {
	switch {
	case v >= 1000:
		return 1
	case v >= 10:
		return 0.1
	case v >= 1:
		return 0.01
	}
	return 0.001
}

func fixed(v, step float64) string {
	d := 0
	for s := step; s < 0.999; s *= 10 {
		d++
	}
	s := fmt.Sprintf("%.*f", d, v)
	whole, frac, ok := strings.Cut(s, ".")
	whole = group(whole, "\u202f")
	if ok {
		return whole + "." + frac
	}
	return whole
}

// aligned is a number of a column whose last shown digit is step; exactly none is a bare 0.
func aligned(v, step float64) string {
	switch {
	case v == 0:
		return "0"
	case v < step/2:
		return "<" + fixed(step, step)
	}
	return fixed(v, step)
}

func waitsTable(r *Report) (Table, bool) {
	if len(r.Waits) == 0 {
		return Table{}, false
	}
	var sum int64
	for _, w := range r.Waits {
		sum += w.DurNS
	}
	gpus := int64(max(len(r.Ledger), 1))
	steps := int64(1)
	for i := range r.Ledger {
		steps = max(steps, int64(r.Ledger[i].Steps))
	}
	t := Table{ID: "waits", Title: "What the peers’ wait was made of", Lead: "The owner on the late rank, over the part of its time the others waited for.",
		Columns: []Column{{Title: "Late rank"}, {Title: "was in"}, {Title: "ms a step and GPU", Num: true}, {Title: "Share of the wait", Num: true}, {Title: "", Bar: true, Wide: true, More: true}}}
	step := pow10for(float64(r.Waits[0].DurNS) / float64(gpus*steps) / 1e6)
	var rest, shown int64
	for i, w := range r.Waits {
		if i >= 6 || w.DurNS*200 < sum {
			rest += w.DurNS
			continue
		}
		shown++
		name := "rotating"
		if w.CulpritRank != nil {
			name = fmt.Sprintf("Rank %d", *w.CulpritRank)
		}
		o, _ := timeline.ParseOwner(w.Owner)
		f := float64(w.DurNS) / float64(sum)
		t.Rows = append(t.Rows, Row{Bold: i == 0, Cells: []Cell{{Text: name, Strong: i == 0}, {Text: OwnerWord(o), Owner: w.Owner},
			{Text: aligned(float64(w.DurNS)/float64(gpus*steps)/1e6, step)}, {Text: Pct1(f)}, {Bar: f, BarOwner: w.Owner}}})
	}
	if rest > 0 {
		f := float64(rest) / float64(sum)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: "Others", Weak: true}, {Text: ""}, {Text: aligned(float64(rest)/float64(gpus*steps)/1e6, step)}, {Text: Pct1(f)}, {Bar: f}}})
	}
	return t, shown > 0
}

func stepChart(r *Report) (StepChart, bool) {
	c := StepChart{Unit: "ms"}
	by := map[string][]*Step{}
	for i := range r.Steps {
		by[r.Steps[i].GPU] = append(by[r.Steps[i].GPU], &r.Steps[i])
	}
	var all []float64
	for i := range r.Steps {
		all = append(all, float64(r.Steps[i].DurNS)/1e6)
	}
	if len(all) == 0 {
		return c, false
	}
	sort.Float64s(all)
	scale := 1.0
	if all[len(all)/2] >= 1e4 {
		c.Unit, scale = "s", 1e-3
	}
	c.AxisMax = niceMax(all[(len(all)-1)*99/100] * 1.1 * scale)
	typical, odd := typicalRows(r)
	rows, _ := drawn(r)
	for _, i := range rows {
		l := &r.Ledger[i]
		steps := by[l.GPU]
		if len(steps) == 0 {
			continue
		}
		if i == typical {
			c.Show = len(c.Ranks)
		}
		ss := StepSeries{Name: rowName(r, l), Late: i == odd}
		keep := steps
		if len(steps) > 400 {
			keep = slowestOfBins(steps, 400)
			c.Note = fmt.Sprintf("The slowest step of each of 400 equal bins of %s steps.", Count(int64(len(steps))))
		}
		var durs []float64
		for _, st := range steps {
			durs = append(durs, float64(st.DurNS)/1e6*scale)
		}
		sort.Float64s(durs)
		ss.Median = round4(durs[len(durs)/2])
		for k, st := range keep {
			ss.Index = append(ss.Index, st.Index)
			if d := float64(st.DurNS) / 1e6 * scale; d > c.AxisMax {
				ss.Cut = append(ss.Cut, CutMark{k, Dur(float64(st.DurNS), 3)})
			}
		}
		for o := timeline.Owner(0); o < timeline.NOwners; o++ {
			st := StepStack{Owner: o.String()}
			any := false
			for _, s := range keep {
				v := float64(s.Owners[o.String()]) / 1e6 * scale
				any = any || v > 0
				st.Value = append(st.Value, round4(v))
			}
			if any {
				ss.Owners = append(ss.Owners, st)
			}
		}
		c.Ranks = append(c.Ranks, ss)
		if len(c.Ranks) == 16 {
			break
		}
	}
	return c, len(c.Ranks) > 0
}

func slowestOfBins(steps []*Step, n int) []*Step {
	out := make([]*Step, 0, n)
	for k := 0; k < n; k++ {
		s, e := k*len(steps)/n, (k+1)*len(steps)/n
		best := s
		for i := s; i < e; i++ {
			if steps[i].DurNS > steps[best].DurNS {
				best = i
			}
		}
		out = append(out, steps[best])
	}
	return out
}

func stepsHow(r *Report) (Table, bool) {
	if len(r.StepMarks) == 0 {
		return Table{}, false
	}
	t := Table{ID: "step-marks", Title: "How the steps were found", Shown: 4, Columns: []Column{{Title: "Trace"}, {Title: "Steps from"}, {Title: "Confidence"}, {Title: "Steps", Num: true}, {Title: "Not analysed", Wide: true, More: true}}}
	for _, m := range r.StepMarks {
		how := map[string]string{"none": "no marks and no repeating sequence", "kernel-sequence": "the repeating kernel sequence", "annotation": "annotations"}[m.How]
		if how == "" {
			how = m.How
		}
		d := strings.Join(m.Dropped, "; ")
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: Middle(m.Path, 48), Title: m.Path}, {Text: how}, {Text: m.Confidence}, {Text: itoa(m.Steps)}, {Text: Middle(d, 160), Title: Middle(d, 600), Weak: true}}})
	}
	capRows(&t, "traces")
	if !slices.ContainsFunc(r.StepMarks, func(m StepMarks) bool { return len(m.Dropped) > 0 }) {
		t.Columns = t.Columns[:len(t.Columns)-1]
		for i := range t.Rows {
			t.Rows[i].Cells = t.Rows[i].Cells[:len(t.Columns)]
		}
	}
	return t, true
}
