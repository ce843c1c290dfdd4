package main

import (
	"archive/zip"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"gpureport/render"
	"gpureport/render/xlsx"
)

var sheetNames = []string{"Summary", "Findings", "Checklist", "Ledger", "Steps", "Kernels", "Collectives", "Ranks", "Hardware", "Inputs"}

// textColumns are those whose cells are words; every other column holds numbers or nothing.
var textColumns = map[string]bool{"Severity": true, "Check": true, "On": true, "Confidence": true, "Same time as": true, "Says": true, "Do": true, "Do not": true, "Numbers (base units)": true,
	"Limits (base units)": true, "Rows it rests on": true, "Advice withheld": true, "Stage": true, "Outcome": true, "Would be answered by": true, "GPU": true, "Host": true, "Name": true,
	"Kernel or copy": true, "Full name": true, "Kind": true, "Class": true, "Tensor cores": true, "Launched by": true, "Collective": true, "Group": true, "Divided": true, "Reading": true,
	"Unit": true, "UTC": true, "Covers": true, "File": true, "Format": true, "Used": true, "Clock placed": true, "By what": true, "First problems": true, "Note": true, "SHA-256": true,
	"Group kind": true, "Across hosts": true, "Judged": true, "Trace": true, "Late: known or why not": true, "Clock": true, "Type": true, "Against the part": true}

// plainNumbers count things or stand beside a column with their unit; every other number has its unit in the heading.
var plainNumbers = map[string]bool{"Rank": true, "Order": true, "Steps": true, "Step": true, "Calls": true, "Rows": true, "Problems": true, "Value": true, "Group members": true}

// The workbook of a whole run, as a spreadsheet reads it.
func TestWorkbooks(t *testing.T) {
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			r := gpureport("analyze", "--title", p.name, "--format", "xlsx,json", "-o", dir, pageInputs(t, p.name))
			if r.code != exitOK {
				t.Fatalf("exit %d: %s", r.code, r.stderr)
			}
			rep, path := readReport(t, dir), filepath.Join(dir, "report.xlsx")
			f, err := excelize.OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := f.GetSheetList(); !slices.Equal(got, sheetNames) {
				t.Fatalf("sheets %q, want %q", got, sheetNames)
			}
			if f.GetActiveSheetIndex() != 0 {
				t.Error("the workbook does not open on Summary")
			}
			for _, s := range sheetNames[1:] {
				sheetIsATable(t, f, s)
			}
			ledgerRowsSum(t, f, rep)
			if n := len(cellsOf(t, f, "Checklist")) - 1; n != len(rep.Checks) {
				t.Errorf("Checklist has %d rows, the report %d checks", n, len(rep.Checks))
			}
			rankRows(t, f, rep)
			partsAreSafe(t, path, rep)
			if p.name == "hostile" {
				for _, name := range []string{hostileKernel, `=HYPERLINK("http://example.invalid","x")`} {
					cellIsText(t, f, "Kernels", name)
				}
				cellIsText(t, f, "Inputs", hostileFile)
			}
		})
	}
}

// rankRows holds the sheet of ranks to a row a rank, its lateness as in the report.
func rankRows(t *testing.T, f *excelize.File, rep *render.Report) {
	t.Helper()
	rows := cellsOf(t, f, "Ranks")
	if len(rep.StepMarks) == 0 {
		return
	}
	if len(rows)-1 != len(rep.StepMarks) {
		t.Fatalf("Ranks has %d rows, the report %d ranks", len(rows)-1, len(rep.StepMarks))
	}
	late, last := slices.Index(rows[0], "Late, median (ms)"), slices.Index(rows[0], "Last to arrive (steps)")
	for i := range rep.Lateness.Rows {
		l := &rep.Lateness.Rows[i]
		if l.MedianNS == nil {
			continue
		}
		if got, err := strconv.ParseFloat(rows[i+1][late], 64); err != nil || math.Abs(got-float64(*l.MedianNS)/1e6) > 1e-9 {
			t.Errorf("Ranks row %d: late %q, want %d ns", i+2, rows[i+1][late], *l.MedianNS)
		}
		if got := rows[i+1][last]; got != strconv.Itoa(l.Last) {
			t.Errorf("Ranks row %d: last to arrive %q, want %d", i+2, got, l.Last)
		}
	}
}

func cellsOf(t *testing.T, f *excelize.File, sheet string) [][]string {
	t.Helper()
	rows, err := f.GetRows(sheet, excelize.Options{RawCellValue: true})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// sheetIsATable holds a sheet to the rules of the workbook: one table with filters over all of it, heading frozen, units in headings,
// numbers as numbers.
func sheetIsATable(t *testing.T, f *excelize.File, sheet string) {
	t.Helper()
	rows := cellsOf(t, f, sheet)
	if len(rows) < 2 {
		t.Errorf("%s has %d rows", sheet, len(rows))
		return
	}
	head := rows[0]
	last, err := excelize.CoordinatesToCellName(len(head), len(rows))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := f.GetTables(sheet)
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) != 1 || tables[0].Range != "A1:"+last {
		t.Errorf("%s has tables %+v, want one over A1:%s", sheet, tables, last)
	} else if h := tables[0].ShowHeaderRow; h != nil && !*h {
		t.Errorf("%s: the table hides its heading and its filters", sheet)
	}
	panes, err := f.GetPanes(sheet)
	if err != nil {
		t.Fatal(err)
	}
	if !panes.Freeze || panes.YSplit != 1 || panes.XSplit < 1 {
		t.Errorf("%s: panes %+v, want the heading and the names frozen", sheet, panes)
	}
	seen := map[string]bool{}
	for i, h := range head {
		if h == "" || seen[h] {
			t.Errorf("%s: heading %d is %q", sheet, i+1, h)
		}
		seen[h] = true
		if !textColumns[h] && !plainNumbers[h] && !strings.Contains(h, "(") {
			t.Errorf("%s: heading %q has no unit", sheet, h)
		}
	}
	none := len(rows) == 2 && len(rows[1]) == 1 // only the words that there is nothing
	for r := 1; r < len(rows) && r < 400 && !none; r++ {
		for c := range head {
			name, err := excelize.CoordinatesToCellName(c+1, r+1)
			if err != nil {
				t.Fatal(err)
			}
			v, err := f.GetCellValue(sheet, name, excelize.Options{RawCellValue: true})
			if err != nil {
				t.Fatal(err)
			}
			if v == "" {
				continue
			}
			typ, err := f.GetCellType(sheet, name)
			if err != nil {
				t.Fatal(err)
			}
			isText := typ == excelize.CellTypeInlineString || typ == excelize.CellTypeSharedString
			if textColumns[head[c]] != isText {
				t.Errorf("%s!%s, %s: %q is of type %v", sheet, name, head[c], v, typ)
			}
			if _, err := strconv.ParseFloat(v, 64); !isText && err != nil {
				t.Errorf("%s!%s, %s: %q is no number", sheet, name, head[c], v)
			}
		}
	}
}

// ledgerRowsSum adds up each row's owners: they are the window, to what the digits of a cell hold.
func ledgerRowsSum(t *testing.T, f *excelize.File, rep *render.Report) {
	t.Helper()
	rows := cellsOf(t, f, "Ledger")
	if len(rep.Ledger) == 0 {
		return
	}
	if len(rows)-1 != len(rep.Ledger) {
		t.Fatalf("Ledger has %d rows, the report %d", len(rows)-1, len(rep.Ledger))
	}
	owners := 0
	for r, row := range rows[1:] {
		sum, window, n := 0.0, 0.0, 0
		for i, h := range rows[0] {
			v, err := strconv.ParseFloat(row[i], 64)
			name, ms := strings.CutSuffix(h, " (ms)")
			_, isOwner := rep.Ledger[r].Owners[name]
			switch {
			case h == "Window (ms)" && err == nil:
				window = v
			case ms && isOwner && err == nil:
				sum += v
				n++
			}
		}
		if d := math.Abs(sum - window); d > 1e-6*float64(n) || window == 0 {
			t.Errorf("Ledger row %d: owners sum to %.9f ms of %.9f ms", r+2, sum, window)
		}
		owners = n
	}
	if owners < 2 {
		t.Errorf("Ledger has %d owner columns", owners)
	}
}

// partsAreSafe reads the parts themselves: well-formed, no formula in any cell, no link out, and the charts that the report has data for.
func partsAreSafe(t *testing.T, path string, rep *render.Report) {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	charts := 0
	for _, p := range z.File {
		if strings.HasPrefix(p.Name, "xl/charts/chart") {
			charts++
		}
		if strings.Contains(p.Name, "external") || strings.Contains(p.Name, "vba") {
			t.Errorf("part %s", p.Name)
		}
		src, err := p.Open()
		if err != nil {
			t.Fatal(err)
		}
		dec := xml.NewDecoder(src)
		for {
			tok, err := dec.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			e, ok := tok.(xml.StartElement)
			if !ok {
				continue
			}
			sheet := strings.HasPrefix(p.Name, "xl/worksheets/")
			if sheet && (e.Name.Local == "hyperlink" || e.Name.Local == "f" && e.Name.Space == "http://schemas.openxmlformats.org/spreadsheetml/2006/main") {
				t.Errorf("%s holds a %s", p.Name, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "TargetMode" && a.Value == "External" {
					t.Errorf("%s leads out of the workbook", p.Name)
				}
			}
		}
		src.Close()
	}
	want := 0
	for _, has := range []bool{len(rep.Ledger) > 0, len(rep.Steps) > 0, len(rep.Kernels) > 0,
		slices.ContainsFunc(rep.Lateness.Rows, func(l render.LateRow) bool { return l.MedianNS != nil }), slices.ContainsFunc(rep.Series, func(s render.Series) bool { return s.Metric == "clock_sm_hz" })} {
		if has {
			want++
		}
	}
	if charts != want {
		t.Errorf("%d charts, want %d", charts, want)
	}
}

// cellIsText finds a cell with exactly this text, typed as text.
func cellIsText(t *testing.T, f *excelize.File, sheet, want string) {
	t.Helper()
	found, err := f.SearchSheet(sheet, want)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Errorf("%s: no cell holds %s", sheet, want)
	}
	for _, c := range found {
		if typ, err := f.GetCellType(sheet, c); err != nil || typ != excelize.CellTypeInlineString && typ != excelize.CellTypeSharedString {
			t.Errorf("%s!%s: type %v (%v), want text", sheet, c, typ, err)
		}
		if form, err := f.GetCellFormula(sheet, c); err != nil || form != "" {
			t.Errorf("%s!%s runs %q (%v)", sheet, c, form, err)
		}
	}
}

// A cell holds 32 767 characters; what is longer is cut, and says so.
func TestWorkbookCutsLongText(t *testing.T) {
	rep, _ := analyzed(t, inputsOf(t, "item-sync")...)
	rep.Kernels[0].Name = strings.Repeat("ж", 40_000)
	rep.Inputs[0].Note = strings.Repeat("long ", 10_000)
	path := filepath.Join(t.TempDir(), "report.xlsx")
	var b strings.Builder
	if err := xlsx.Write(&b, rep); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(path), "report.xlsx", []byte(b.String()))
	f, err := excelize.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []struct{ sheet, heading string }{{"Kernels", "Full name"}, {"Inputs", "Note"}} {
		rows := cellsOf(t, f, at.sheet)
		v := rows[1][slices.Index(rows[0], at.heading)]
		if n := len([]rune(v)); n > 32_767 || n < 10_000 || !strings.HasSuffix(v, "(cut)") {
			t.Errorf("%s, %s: %d characters that end %q", at.sheet, at.heading, n, fmt.Sprintf("%.20s", v[max(0, len(v)-20):]))
		}
	}
}
