package xlsx

import (
	"fmt"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

	"gpureport/render"
)

// colors of the owners, light theme; the workbook has no dark one. Those of textured families only stand for their pattern: see patterns.
var colors = map[string]string{"compute": "77889B", "gap": "9AA7B5", "launch": "BA8B00", "sync": "6C0220", "python": "724719", "alloc": "E561C7", "h2d": "077A6E", "d2h": "5FA39B",
	"transfer": "5F2D9B", "undivided": "A58BC6", "unknown": "B4B9C1", "peer": "C0AEDB", "loader": "C94C0D", "pause": "394758"}

func findings(r *render.Report) *sheet {
	s := &sheet{name: "Findings", table: "Findings", none: "no finding", frozen: 2, special: map[int]string{0: "severity"}, columns: []column{
		{title: "Severity"}, {title: "Check"}, {title: "On"}, {title: "Rank", kind: count}, {title: "Confidence"}, {title: "Can return at most (% of step time)", kind: share, bar: true, width: 18},
		{title: "Same time as", kind: wrapped, width: 24}, {title: "Says", kind: wrapped, width: 60}, {title: "Do", kind: wrapped, width: 50}, {title: "Do not", kind: wrapped, width: 40},
		{title: "Numbers (base units)", kind: wrapped, width: 44}, {title: "Limits (base units)", kind: wrapped, width: 30}, {title: "Rows it rests on", kind: wrapped, width: 50}, {title: "Advice withheld", kind: wrapped, width: 40}}}
	order := map[string]int{"critical": 0, "high": 1, "medium": 2, "low": 3, "info": 4}
	for want := 0; want <= 4; want++ {
		for i := range r.Checks {
			c := &r.Checks[i]
			if c.Outcome != "finding" || c.Severity == nil || order[*c.Severity] != want {
				continue
			}
			var nums, lims, held []string
			for _, k := range sortedKeys(c.Numbers) {
				if v := c.Numbers[k]; v != nil {
					nums = append(nums, fmt.Sprintf("%s: %.6g", k, *v))
				}
			}
			for _, k := range sortedKeys(c.Limits) {
				lims = append(lims, fmt.Sprintf("%s: %.6g (%s)", k, c.Limits[k], c.LimitSources[k]))
			}
			for _, w := range c.Withheld {
				held = append(held, fmt.Sprintf("%s (%s: %s)", w.Say, w.Gate, w.Why))
			}
			s.rows = append(s.rows, []any{*c.Severity, c.ID, c.Subject.ID, intOr(c.Subject.Rank), strOr(c.Confidence), floatOr(c.RecoverableFrac), strings.Join(c.Overlaps, ", "), c.Says,
				strings.Join(c.Do, "\n"), strings.Join(c.Dont, "\n"), strings.Join(nums, "\n"), strings.Join(lims, "\n"), strings.Join(c.Refs, "\n"), strings.Join(held, "\n")})
		}
	}
	return s
}

func checklist(r *render.Report) *sheet {
	s := &sheet{name: "Checklist", table: "Checklist", none: "no check", frozen: 3, special: map[int]string{4: "outcome", 5: "severity"}, columns: []column{
		{title: "Stage"}, {title: "Order", kind: count}, {title: "Check"}, {title: "On"}, {title: "Outcome"}, {title: "Severity"}, {title: "Confidence"},
		{title: "Can return at most (% of step time)", kind: share, bar: true, width: 18}, {title: "Says", kind: wrapped, width: 60}, {title: "Would be answered by", kind: code, width: 60}}}
	n, last := 0, ""
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.ID != last {
			n++
			last = c.ID
		}
		var by []string
		seen := map[string]bool{}
		for _, m := range c.Missing {
			if m.Capture != "" && !seen[m.Capture] {
				seen[m.Capture] = true
				by = append(by, m.Capture)
			}
		}
		s.rows = append(s.rows, []any{c.Stage, n, c.ID, c.Subject.ID, strings.ReplaceAll(c.Outcome, "-", " "), strOr(c.Severity), strOr(c.Confidence), floatOr(c.RecoverableFrac), c.Says, strings.Join(by, "\n")})
	}
	return s
}

// sheetRange is an absolute reference to the first n rows below the heading of a column; sheetRows to n rows after the first so many.
func sheetRange(sheet string, col, n int) string { return sheetRows(sheet, col, 0, n) }

func sheetRows(sheet string, col, first, n int) string {
	a, _ := excelize.CoordinatesToCellName(col, first+2, true)
	b, _ := excelize.CoordinatesToCellName(col, first+n+1, true)
	return sheet + "!" + a + ":" + b
}

func sheetCell(sheet string, col, row int) string {
	a, _ := excelize.CoordinatesToCellName(col, row, true)
	return sheet + "!" + a
}

const ledgerOwner0 = 8 // first owner column of Ledger, 1-based

func ledger(r *render.Report) *sheet {
	s := &sheet{name: "Ledger", table: "Ledger", none: "no trace with GPU activity was given", frozen: 2, columns: []column{{title: "GPU"}, {title: "Rank", kind: count}, {title: "Host"}, {title: "Name"}, {title: "Steps", kind: count},
		{title: "Window (ms)", kind: ms}, {title: "Step, mean (ms)", kind: ms}}}
	owners := ownerColumns(r)
	for _, o := range owners {
		s.columns = append(s.columns, column{title: o + " (ms)", kind: ms, bar: o == "comm.peer-wait" || o == "host.dataloader"})
	}
	for _, o := range owners {
		s.columns = append(s.columns, column{title: o + " (ms a step)", kind: ms})
	}
	s.columns = append(s.columns, column{title: "busy (ms)", kind: ms}, column{title: "hidden communication (ms)", kind: ms}, column{title: "hidden copies (ms)", kind: ms}, column{title: "hidden next() (ms)", kind: ms})
	by := map[string]*render.GPU{}
	for i := range r.GPUs {
		by[r.GPUs[i].ID] = &r.GPUs[i]
	}
	for i := range r.Ledger {
		l := &r.Ledger[i]
		g := by[l.GPU]
		row := []any{l.GPU, intOr(l.Rank), nil, nil, l.Steps, nsToMS(l.WindowNS), nil}
		if g != nil {
			row[2], row[3] = strOr(g.Host), g.Name
		}
		per := 1.0
		if l.Steps > 0 {
			per = float64(l.Steps)
			row[6] = nsToMS(l.WindowNS) / per
		}
		for _, o := range owners {
			row = append(row, nsToMS(l.Owners[o]))
		}
		for _, o := range owners {
			row = append(row, nsToMS(l.Owners[o])/per)
		}
		row = append(row, nsToMS(l.BusyNS), nsToMS(l.Side.HiddenComm), nsToMS(l.Side.HiddenCopy), nsToMS(l.Side.HiddenNext))
		s.rows = append(s.rows, row)
	}
	return s
}

func title(s string) excelize.ChartTitle {
	return excelize.ChartTitle{Paragraph: []excelize.RichTextRun{{Text: s, Font: &excelize.Font{Bold: true, Size: 11, Color: "14171C"}}}}
}

// small print of the charts, in the page's ink.
var (
	small  = excelize.Font{Family: "Calibri", Size: 9, Color: "454D59"}
	legend = excelize.ChartLegend{Position: "bottom", Font: &small}
)

func axis(reverse bool) excelize.ChartAxis {
	return excelize.ChartAxis{Font: small, ReverseOrder: reverse}
}

func solid(owner string) excelize.Fill {
	return excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{colors[render.FamilyOf(owner).Key]}}
}

func steps(r *render.Report) *sheet {
	s := &sheet{name: "Steps", table: "Steps", none: "no step was found", frozen: 3, columns: []column{{title: "GPU"}, {title: "Rank", kind: count}, {title: "Step", kind: count}, {title: "Start (s)", kind: secs}, {title: "Duration (ms)", kind: ms}}}
	owners := ownerColumns(r)
	for _, o := range owners {
		s.columns = append(s.columns, column{title: o + " (ms)", kind: ms, bar: o == "comm.peer-wait" || o == "host.dataloader"})
	}
	shown, first, n := "", 0, 0 // the late rank's GPU, else the first one
	for i := range r.Ledger {
		if l := &r.Ledger[i]; l.Rank != nil && r.Verdict.CulpritRank != nil && *l.Rank == *r.Verdict.CulpritRank {
			shown = l.GPU
		}
	}
	for i := range r.Steps {
		st := &r.Steps[i]
		if shown == "" {
			shown = st.GPU
		}
		row := []any{st.GPU, intOr(st.Rank), st.Index, sinceStart(st.StartNS), nsToMS(st.DurNS)}
		for _, o := range owners {
			row = append(row, nsToMS(st.Owners[o]))
		}
		s.rows = append(s.rows, row)
		if st.GPU == shown {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	s.chart = func(f *excelize.File, s *sheet) error {
		n := min(n, 400)
		if n == 0 {
			return nil
		}
		c := &excelize.Chart{Type: excelize.ColStacked, Dimension: excelize.ChartDimension{Width: 900, Height: 340}, Title: title("What each step of " + shown + " was spent on, ms"),
			Legend: legend, XAxis: axis(false), YAxis: axis(false), GapWidth: ptr(uint(10)), Overlap: ptr(100)}
		for i, o := range owners {
			c.Series = append(c.Series, excelize.ChartSeries{Name: sheetCell("Steps", 6+i, 1), Categories: sheetRows("Steps", 3, first, n), Values: sheetRows("Steps", 6+i, first, n), Fill: solid(o)})
		}
		return f.AddChart("Steps", cell(len(s.columns)+2, 2), c)
	}
	return s
}

func ptr[T any](v T) *T { return &v }

func kernels(r *render.Report) *sheet {
	s := &sheet{name: "Kernels", table: "Kernels", none: "no kernel was recorded", frozen: 2, columns: []column{{title: "GPU"}, {title: "Kernel or copy"}, {title: "Full name", width: 36}, {title: "Kind"}, {title: "Rank", kind: count}, {title: "Class"}, {title: "Calls", kind: count},
		{title: "Total (ms)", kind: ms, bar: true}, {title: "Median (µs)", kind: ms}, {title: "Tensor cores"}, {title: "Launched by", width: 30}, {title: "Size (bytes)", kind: count}, {title: "Exposed (ms)", kind: ms}, {title: "Speed of copies of at least 1 MiB (bytes/s)", kind: count, width: 18},
		{title: "Of known shapes (ms)", kind: ms}, {title: "Type"}, {title: "Arithmetic (FLOP/s)", kind: count, width: 16}, {title: "Of the part's peak (%)", kind: share}, {title: "Memory (bytes/s)", kind: count, width: 16}, {title: "Of the part's bandwidth (%)", kind: share}, {title: "Against the part", width: 18}}}
	for i := range r.Kernels {
		k := &r.Kernels[i]
		var shaped any
		if k.ShapedNS != nil {
			shaped = nsToMS(*k.ShapedNS)
		}
		row := []any{k.GPU, render.Middle(render.KernelName(k.Name), 48), k.Name, "kernel", intOr(k.Rank), k.Class, k.Count, nsToMS(k.DurNS), nil, nil, strOr(k.Op), nil, nil, nil,
			shaped, strOr(k.Type), floatOr(k.FlopRate), floatOr(k.OfPeak), floatOr(k.ByteRate), floatOr(k.OfMemory), render.AgainstPart(k)}
		if k.MedianNS != nil {
			row[8] = float64(*k.MedianNS) / 1e3
		}
		switch {
		case k.Tensor != nil && *k.Tensor:
			row[9] = "yes"
		case k.Tensor != nil:
			row[9] = "no"
		case k.Class == "matmul" || k.Class == "conv" || k.Class == "attention":
			row[9] = "unknown: the name does not tell"
		}
		s.rows = append(s.rows, row)
	}
	for i := range r.Copies {
		c := &r.Copies[i]
		s.rows = append(s.rows, []any{c.GPU, "copy " + c.Kind + ", " + c.Memory, nil, "copy", intOr(c.Rank), c.Kind, c.Count, nsToMS(c.DurNS), nil, nil, nil, c.Bytes, nsToMS(c.ExposedNS), floatOr(c.BW), nil, nil, nil, nil, nil, nil, nil})
	}
	s.chart = func(f *excelize.File, s *sheet) error {
		n := 0
		for n < min(20, len(r.Kernels)) && r.Kernels[n].GPU == r.Kernels[0].GPU && r.Kernels[n].Name != "(others)" {
			n++
		}
		if n == 0 {
			return nil
		}
		return f.AddChart("Kernels", cell(len(s.columns)+2, 2), &excelize.Chart{Type: excelize.Bar, Dimension: excelize.ChartDimension{Width: 940, Height: uint(100 + 24*n)},
			Title: title("Longest kernels of " + r.Kernels[0].GPU + ", ms in the window"), Legend: excelize.ChartLegend{Position: "none"}, YAxis: axis(false), XAxis: axis(true), VaryColors: ptr(false), GapWidth: ptr(uint(40)),
			Series: []excelize.ChartSeries{{Name: sheetCell("Kernels", 8, 1), Categories: sheetRange("Kernels", 2, n), Values: sheetRange("Kernels", 8, n), Fill: solid("compute")}}})
	}
	return s
}

func hardware(r *render.Report) *sheet {
	s := &sheet{name: "Hardware", table: "Hardware", none: "no sampled log was given", frozen: 2, columns: []column{{title: "GPU"}, {title: "Reading"}, {title: "Unit"}, {title: "At (s from window start)", kind: secs, width: 14}, {title: "UTC"}, {title: "Value", kind: number}, {title: "Covers"}, {title: "File", width: 40}}}
	var start time.Time
	if r.Window.Start != nil {
		start, _ = time.Parse(time.RFC3339Nano, *r.Window.Start)
	}
	type clock struct{ first, n int }
	var clocks []clock
	for i := range r.Series {
		se := &r.Series[i]
		if se.Metric == "clock_sm_hz" && len(clocks) < len(inks) && len(se.AtNS) > 0 {
			clocks = append(clocks, clock{len(s.rows), len(se.AtNS)})
		}
		for k := range se.AtNS {
			row := []any{se.Subject, se.Metric, se.Unit, sinceStart(se.AtNS[k]), nil, se.Value[k], se.Covers, se.Path}
			if !start.IsZero() {
				row[4] = start.Add(time.Duration(se.AtNS[k])).UTC().Format("2006-01-02T15:04:05.000Z")
			}
			s.rows = append(s.rows, row)
		}
	}
	s.chart = func(f *excelize.File, s *sheet) error {
		c := &excelize.Chart{Type: excelize.Scatter, Dimension: excelize.ChartDimension{Width: 820, Height: 340}, Title: title("SM clock, MHz, by seconds from the window's start"),
			Legend: excelize.ChartLegend{Position: "none"}, XAxis: axis(false), YAxis: axis(false)}
		if len(clocks) > 1 {
			c.Legend = legend
		}
		c.YAxis.NumFmt = excelize.ChartNumFmt{CustomNumFmt: "#,##0,,"} // Hz in the cells
		for i, k := range clocks {
			if k.first+k.n > maxRows {
				break
			}
			c.Series = append(c.Series, excelize.ChartSeries{Name: sheetCell("Hardware", 1, k.first+2), Categories: sheetRows("Hardware", 4, k.first, k.n), Values: sheetRows("Hardware", 6, k.first, k.n),
				Marker: excelize.ChartMarker{Symbol: "circle", Size: 4, Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{inks[i]}}}, Line: excelize.LineOptions{Type: excelize.LineNone}})
		}
		if len(c.Series) == 0 {
			return nil
		}
		return f.AddChart("Hardware", cell(len(s.columns)+2, 2), c)
	}
	return s
}

// inks tell GPUs apart: hues belong to owners.
var inks = []string{"14171C", "626B78", "8A929E", "C3CAD3", "454D59", "A7AEB9", "2F3844", "777F8B"}

func inputs(r *render.Report) *sheet {
	s := &sheet{name: "Inputs", table: "Inputs", none: "no input", frozen: 1, columns: []column{{title: "File", width: 50}, {title: "Format"}, {title: "Used"}, {title: "Size (bytes)", kind: count}, {title: "Rows", kind: count}, {title: "Covers the window (%)", kind: share},
		{title: "Clock placed"}, {title: "Clock offset (s)", kind: secs}, {title: "Clock error (s)", kind: secs}, {title: "By what", kind: wrapped, width: 50}, {title: "Problems", kind: count}, {title: "First problems", kind: wrapped, width: 60}, {title: "Note", kind: wrapped, width: 50}, {title: "SHA-256", kind: wrapped, width: 38}}}
	for i := range r.Inputs {
		in := &r.Inputs[i]
		row := []any{in.Path, in.Format, map[bool]string{true: "yes", false: "no"}[in.Used], in.Bytes, in.Rows, floatOr(in.CoverageFrac), nil, nil, nil, nil, in.Problems, nil, in.Note, in.SHA256}
		if in.Clock != nil {
			for k := range r.Clocks {
				c := &r.Clocks[k]
				if c.Name != *in.Clock {
					continue
				}
				row[6], row[9] = c.How, c.Why
				if c.OffsetNS != nil {
					row[7], row[8] = float64(*c.OffsetNS)/1e9, float64(*c.ErrorNS)/1e9
				}
			}
		}
		var ps []string
		for k := range r.Problems {
			p := &r.Problems[k]
			if p.Path == in.Path && len(ps) < 5 {
				at := ""
				if p.Row != nil {
					at = fmt.Sprintf(":%d", *p.Row)
				}
				ps = append(ps, fmt.Sprintf("%s%s %s (%d)", p.Code, at, p.Message, p.Count))
			}
		}
		row[11] = strings.Join(ps, "\n")
		s.rows = append(s.rows, row)
	}
	return s
}

// summary is written cell by cell: it is small and carries a chart.
func summary(f *excelize.File, r *render.Report, led *sheet) error {
	const sh = "Summary"
	off := false
	if err := f.SetSheetView(sh, 0, &excelize.ViewOptions{ShowGridLines: &off}); err != nil {
		return err
	}
	for i, w := range []float64{26, 24, 18, 90} {
		c, _ := excelize.ColumnNumberToName(i + 1)
		if err := f.SetColWidth(sh, c, c, w); err != nil {
			return err
		}
	}
	big, err := f.NewStyle(&excelize.Style{Font: &excelize.Font{Family: "Calibri", Bold: true, Size: 14}})
	if err != nil {
		return err
	}
	mid, err := f.NewStyle(&excelize.Style{Font: &excelize.Font{Family: "Calibri", Bold: true, Size: 12}})
	if err != nil {
		return err
	}
	style := func(format string) int {
		id, e := f.NewStyle(&excelize.Style{CustomNumFmt: &format, Alignment: &excelize.Alignment{Horizontal: "right"}})
		if e != nil && err == nil {
			err = e
		}
		return id
	}
	msS, shS, ctS := style(msFormat), style(shareFormat), style(countFormat)
	if err != nil {
		return err
	}
	row := 0
	put := func(label string, v any, st int, unit string) {
		row++
		set := func(col int, v any) {
			if v != nil && err == nil {
				if s, ok := v.(string); ok {
					err = f.SetCellStr(sh, cell(col, row), safe(s))
				} else {
					err = f.SetCellValue(sh, cell(col, row), v)
				}
			}
		}
		set(1, label)
		set(2, v)
		if unit != "" {
			set(3, " "+unit)
		}
		if st != 0 && err == nil {
			err = f.SetCellStyle(sh, cell(2, row), cell(2, row), st)
		}
	}
	put(r.Title, nil, 0, "")
	put(r.Verdict.Sentence, nil, 0, "")
	if err := f.SetCellStyle(sh, "A1", "A1", big); err != nil {
		return err
	}
	if err := f.SetCellStyle(sh, "A2", "A2", mid); err != nil {
		return err
	}
	row++
	v := &r.Verdict
	put("Verdict", v.Class, 0, "")
	if v.Cause != nil {
		put("Cause", *v.Cause, 0, "")
	}
	if v.CulpritRank != nil {
		put("Culprit rank", *v.CulpritRank, ctS, "")
	}
	put("Confidence", v.Confidence, 0, "")
	nsteps, window := 0, int64(0)
	for i := range r.Ledger {
		if r.Ledger[i].Steps > nsteps {
			nsteps = r.Ledger[i].Steps
		}
		window = max(window, r.Ledger[i].WindowNS)
	}
	if nsteps > 0 {
		put("Step, mean of "+r.Ledger[0].GPU, nsToMS(r.Ledger[0].WindowNS)/float64(max(r.Ledger[0].Steps, 1)), msS, "ms")
	}
	if v.RecoverableFrac != nil {
		put("Can return at most", *v.RecoverableFrac, shS, "of the run")
	} else {
		put("Can return at most", nil, 0, "unknown")
	}
	put("Steps", nsteps, ctS, "")
	put("Window of the ledger", float64(window)/1e9, msS, "s")
	put("All inputs cover", float64(r.Window.DurNS)/1e9, msS, "s")
	n := map[string]int{}
	for i := range r.Checks {
		n[r.Checks[i].Outcome]++
	}
	put("Checks: finding", n["finding"], ctS, "rule and subject")
	put("Checks: unknown", n["unknown"], ctS, "not pass")
	put("Checks: pass", n["pass"], ctS, "")
	put("Checks: not asked", n["not-asked"], ctS, "")
	bars := min(len(r.Ledger), 32)
	height := 160 + 26*bars
	if len(r.Ledger) > 0 {
		row = max(row, 4+height/20) // the chart stands above
	}
	row++
	for i, d := range v.Do {
		put(map[bool]string{true: "Do next", false: ""}[i == 0], d, 0, "")
	}
	for i, d := range v.Dont {
		put(map[bool]string{true: "Do not", false: ""}[i == 0], d, 0, "")
	}
	if len(r.WhatIf) > 0 {
		row++
		put("What if: the step at least, ms", nil, 0, "")
		for i := range r.WhatIf {
			w := &r.WhatIf[i]
			put(render.FixName(r, w)+": "+render.FixText(r, w), nsToMS(w.StepAfterNS), msS, fmt.Sprintf("ms, returns at most %s; then: %s", render.Pct(w.SavingFrac), render.LimiterWord(w)))
		}
	}
	if err != nil {
		return err
	}
	if len(r.Ledger) == 0 {
		return nil
	}
	owners := ownerColumns(r)
	c := &excelize.Chart{Type: excelize.BarStacked, Dimension: excelize.ChartDimension{Width: 820, Height: uint(height)}, Title: title("What a mean step was spent on, ms by GPU"),
		Legend: legend, XAxis: axis(true), YAxis: axis(false), GapWidth: ptr(uint(40)), Overlap: ptr(100),
		Format: excelize.GraphicOptions{OffsetX: 4}}
	if nsteps == 0 {
		c.Title = title("What the window was spent on, ms by GPU")
	}
	for i, o := range owners {
		col := ledgerOwner0 + len(owners) + i
		c.Series = append(c.Series, excelize.ChartSeries{Name: sheetCell("Ledger", ledgerOwner0+i, 1), Categories: sheetRange("Ledger", 1, bars), Values: sheetRange("Ledger", col, bars), Fill: solid(o)})
	}
	return f.AddChart(sh, "D4", c)
}
