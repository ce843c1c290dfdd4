// Package xlsx draws the report's data as a workbook: real tables with filters, numbers as numbers with units in the heading, native
// charts, and no cell that a spreadsheet would run as a formula. It computes nothing beyond changing ns into ms.
package xlsx

import (
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"

	"gpureport/ingest/timeline"
	"gpureport/render"
)

// maxText is what a cell holds; longer text is cut with a mark, for the library would cut it silently.
const maxText = 32000

// maxRows keeps a sheet inside the format's limit of 1 048 576 rows.
const maxRows = 1_000_000

type kind uint8

const (
	text kind = iota
	wrapped
	count
	ms
	share
	secs
	number // general, up to 3 decimals
	code
)

type column struct {
	title string
	kind  kind
	width float64 // 0: from the content
	bar   bool    // data bars
}

type sheet struct {
	name    string
	table   string // table name
	frozen  int    // id columns that stay in view
	columns []column
	rows    [][]any // nil is an empty cell
	chart   func(f *excelize.File, s *sheet) error
	special map[int]string // column -> "outcome" or "severity"
	none    string         // what the one row says when there is none
}

// formats of numbers; exactly none is a bare 0.
const (
	countFormat = "#,##0"
	msFormat    = "#,##0.000;-#,##0.000;0"
	shareFormat = "0.0%"
)

type styles struct{ head, text, wrap, count, ms, share, secs, number, code int }

// Write writes the workbook. The same report gives the same bytes.
func Write(w io.Writer, r *render.Report) error {
	f := excelize.NewFile()
	defer f.Close()
	if err := f.SetDocProps(&excelize.DocProperties{Title: safe(r.Title), Creator: "gpureport", Created: "2000-01-01T00:00:00Z", Modified: "2000-01-01T00:00:00Z"}); err != nil {
		return fmt.Errorf("workbook: %w", err)
	}
	if err := f.SetDefaultFont("Calibri"); err != nil {
		return fmt.Errorf("workbook: %w", err)
	}
	st, err := makeStyles(f)
	if err != nil {
		return fmt.Errorf("workbook: %w", err)
	}
	sheets := []*sheet{findings(r), checklist(r), ledger(r), steps(r), kernels(r), collectives(r), ranks(r), hardware(r), inputs(r)}
	if err := f.SetSheetName("Sheet1", "Summary"); err != nil {
		return fmt.Errorf("workbook: %w", err)
	}
	for _, s := range sheets {
		if _, err := f.NewSheet(s.name); err != nil {
			return fmt.Errorf("workbook: sheet %s: %w", s.name, err)
		}
	}
	if err := onPaper(f, "Summary", false); err != nil {
		return fmt.Errorf("workbook: sheet Summary: %w", err)
	}
	for _, s := range sheets {
		if err := onPaper(f, s.name, true); err != nil {
			return fmt.Errorf("workbook: sheet %s: %w", s.name, err)
		}
		if err := s.write(f, st); err != nil {
			return fmt.Errorf("workbook: sheet %s: %w", s.name, err)
		}
	}
	if err := summary(f, r, sheets[2]); err != nil {
		return fmt.Errorf("workbook: sheet Summary: %w", err)
	}
	f.SetActiveSheet(0)
	return writeSorted(w, f)
}

// onPaper prints a sheet across, all columns on one page, the heading on each.
func onPaper(f *excelize.File, sheet string, headed bool) error {
	across, a4, one, any := "landscape", 9, 1, 0
	if err := f.SetSheetProps(sheet, &excelize.SheetPropsOptions{FitToPage: ptr(true)}); err != nil {
		return err
	}
	if err := f.SetPageLayout(sheet, &excelize.PageLayoutOptions{Orientation: &across, Size: &a4, FitToWidth: &one, FitToHeight: &any}); err != nil {
		return err
	}
	if !headed {
		return nil
	}
	return f.SetDefinedName(&excelize.DefinedName{Name: "_xlnm.Print_Titles", RefersTo: sheet + "!$1:$1", Scope: sheet})
}

func makeStyles(f *excelize.File) (st styles, err error) {
	mk := func(s *excelize.Style) int {
		if err != nil {
			return 0
		}
		var id int
		id, err = f.NewStyle(s)
		return id
	}
	top := &excelize.Alignment{Horizontal: "left", Vertical: "top", Indent: 1}
	num := func(f string) *excelize.Style {
		return &excelize.Style{CustomNumFmt: &f, Alignment: &excelize.Alignment{Horizontal: "right", Vertical: "top"}}
	}
	st.head = mk(&excelize.Style{Font: &excelize.Font{Bold: true, Color: "FFFFFF", Family: "Calibri", Size: 11}, Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"2F3844"}},
		Alignment: &excelize.Alignment{WrapText: true, Horizontal: "left", Vertical: "bottom", Indent: 1}})
	st.text = mk(&excelize.Style{Alignment: top})
	st.wrap = mk(&excelize.Style{Alignment: &excelize.Alignment{WrapText: true, Horizontal: "left", Vertical: "top", Indent: 1}})
	st.count, st.ms, st.share, st.secs, st.number = mk(num(countFormat)), mk(num(msFormat)), mk(num(shareFormat)), mk(num(msFormat)), mk(num("#,##0.###"))
	st.code = mk(&excelize.Style{Font: &excelize.Font{Family: "Consolas", Size: 10}, Alignment: &excelize.Alignment{WrapText: true, Horizontal: "left", Vertical: "top", Indent: 1}})
	return st, err
}

func (st *styles) of(k kind) int {
	return [...]int{st.text, st.wrap, st.count, st.ms, st.share, st.secs, st.number, st.code}[k]
}

func (s *sheet) write(f *excelize.File, st styles) error {
	if len(s.rows) > maxRows {
		s.rows = s.rows[:maxRows]
	}
	drawn := len(s.rows) > 0
	if !drawn { // a table needs a row
		s.rows = [][]any{make([]any, len(s.columns))}
		s.rows[0][0] = s.none
	}
	last := len(s.rows) + 1
	// Conditional formats and charts go before the first streamed row, or they are lost.
	if err := s.formats(f, last); err != nil {
		return err
	}
	if s.chart != nil && drawn {
		if err := s.chart(f, s); err != nil {
			return err
		}
	}
	sw, err := f.NewStreamWriter(s.name)
	if err != nil {
		return err
	}
	widths := make([]float64, len(s.columns))
	for i, c := range s.columns {
		widths[i] = s.width(i, c)
		if err := sw.SetColWidth(i+1, i+1, widths[i]); err != nil {
			return err
		}
	}
	pane := &excelize.Panes{Freeze: true, XSplit: s.frozen, YSplit: 1, TopLeftCell: cell(s.frozen+1, 2), ActivePane: "bottomRight"}
	if s.frozen == 0 {
		pane.ActivePane = "bottomLeft"
	}
	if err := sw.SetPanes(pane); err != nil {
		return err
	}
	head := make([]any, len(s.columns))
	lines := 2
	for i, c := range s.columns {
		head[i] = excelize.Cell{StyleID: st.head, Value: c.title}
		lines = max(lines, wrappedLines(c.title, widths[i]-4)) // the filter's button takes its part
	}
	if err := sw.SetRow("A1", head, excelize.RowOpts{Height: float64(lines)*lineHeight + 2}); err != nil {
		return err
	}
	vals := make([]any, len(s.columns))
	for r, row := range s.rows {
		lines := 1
		for i, c := range s.columns {
			vals[i] = value(row[i], st.of(c.kind))
			if t, ok := row[i].(string); ok && (c.kind == wrapped || c.kind == code) && drawn {
				fit := 1.1 // most letters are narrower than the digit a width counts
				if c.kind == code {
					fit = 0.92
				}
				lines = max(lines, wrappedLines(t, (widths[i]-2)*fit))
			}
		}
		var opts []excelize.RowOpts
		if lines > 1 {
			opts = []excelize.RowOpts{{Height: float64(min(lines, maxLines)) * lineHeight}}
		}
		if err := sw.SetRow(cell(1, r+2), vals, opts...); err != nil {
			return err
		}
	}
	off := false
	if err := sw.AddTable(&excelize.Table{Range: "A1:" + cell(len(s.columns), last), Name: s.table, StyleName: "TableStyleLight1", ShowRowStripes: &off}); err != nil {
		return err
	}
	return sw.Flush()
}

const (
	lineHeight = 15 // points
	maxLines   = 16 // of a row; longer text is in the cell all the same
)

// wrappedLines is how many lines a text takes in a column of that many characters.
func wrappedLines(s string, width float64) int {
	w, n := max(int(width), 4), 0
	for line := range strings.SplitSeq(s, "\n") {
		n++
		used := 0
		for word := range strings.FieldsSeq(line) {
			k := utf8.RuneCountInString(word)
			if used > 0 && used+1+k > w {
				n++
				used = 0
			}
			if used > 0 {
				used++
			}
			used += k
			for used > w { // a word longer than the line
				n++
				used -= w
			}
		}
	}
	return n
}

// value makes a cell that no spreadsheet runs: text is typed text, numbers are finite.
func value(v any, style int) excelize.Cell {
	switch x := v.(type) {
	case nil:
		return excelize.Cell{StyleID: style}
	case string:
		if x == "" {
			return excelize.Cell{StyleID: style}
		}
		return excelize.Cell{StyleID: style, Value: safe(x)}
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return excelize.Cell{StyleID: style}
		}
	}
	return excelize.Cell{StyleID: style, Value: v}
}

// safe keeps control characters out of a cell and cuts what it cannot hold, with a mark.
func safe(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < 0x20 && r != '\n' || r == 0x7f || r >= 0xfffe && r <= 0xffff {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxText {
		cut := maxText
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + " … (cut)"
	}
	return s
}

func (s *sheet) width(i int, c column) float64 {
	if c.width > 0 && s.filled(i) {
		return c.width
	}
	w := 8
	for _, word := range strings.Fields(c.title) {
		w = max(w, utf8.RuneCountInString(word)+5)
	}
	w = max(w, utf8.RuneCountInString(c.title)/2+6)
	for k, row := range s.rows {
		if k == 400 {
			break
		}
		switch v := row[i].(type) {
		case string:
			if k == 0 && v == s.none {
				continue
			}
			w = max(w, utf8.RuneCountInString(v)+3)
		case float64, int64, int:
			digits := fmt.Sprintf("%.0f", toFloat(v))
			n := len(digits) + (len(digits)-1)/3
			if c.kind != count {
				n += 4
			}
			w = max(w, n+2)
		}
	}
	return float64(min(w, 60))
}

// filled reports whether a column has anything in it.
func (s *sheet) filled(i int) bool {
	for _, row := range s.rows {
		if row[i] != nil && row[i] != "" {
			return true
		}
	}
	return false
}

func toFloat(v any) float64 {
	switch x := v.(type) {
	case float64:
		return x
	case int64:
		return float64(x)
	case int:
		return float64(x)
	}
	return 0
}

func cell(col, row int) string {
	c, _ := excelize.CoordinatesToCellName(col, row)
	return c
}

func (s *sheet) formats(f *excelize.File, last int) error {
	if last < 2 {
		return nil
	}
	for i, c := range s.columns {
		rng := cell(i+1, 2) + ":" + cell(i+1, last)
		if c.bar {
			bar := excelize.ConditionalFormatOptions{Type: "data_bar", Criteria: "=", MinType: "num", MinValue: "0", MaxType: "max", BarColor: "#C3CAD3", BarSolid: true}
			if c.kind == share { // a bar of a share is out of the whole
				bar.MaxType, bar.MaxValue = "num", "1"
			}
			if err := f.SetConditionalFormat(s.name, rng, []excelize.ConditionalFormatOptions{bar}); err != nil {
				return err
			}
		}
		var opts []excelize.ConditionalFormatOptions
		add := func(word string, st *excelize.Style) error {
			id, err := f.NewConditionalStyle(st)
			if err != nil {
				return err
			}
			opts = append(opts, excelize.ConditionalFormatOptions{Type: "cell", Criteria: "==", Format: &id, Value: `"` + word + `"`})
			return nil
		}
		switch s.special[i] {
		case "outcome":
			if err := add("unknown", &excelize.Style{Fill: excelize.Fill{Type: "pattern", Pattern: 14, Color: []string{"C3CAD3"}}}); err != nil {
				return err
			}
			if err := add("finding", &excelize.Style{Font: &excelize.Font{Bold: true}}); err != nil {
				return err
			}
		case "severity":
			if err := add("critical", &excelize.Style{Font: &excelize.Font{Color: "FFFFFF", Bold: true}, Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"B3001B"}}}); err != nil {
				return err
			}
			if err := add("high", &excelize.Style{Font: &excelize.Font{Color: "FFFFFF", Bold: true}, Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"14171C"}}}); err != nil {
				return err
			}
			for _, o := range [][2]string{{"medium", "14171C"}, {"low", "8A929E"}} {
				var b []excelize.Border
				for _, side := range []string{"left", "right", "top", "bottom"} {
					b = append(b, excelize.Border{Type: side, Color: o[1], Style: 1})
				}
				if err := add(o[0], &excelize.Style{Border: b}); err != nil {
					return err
				}
			}
		}
		if len(opts) > 0 {
			if err := f.SetConditionalFormat(s.name, rng, opts); err != nil {
				return err
			}
		}
	}
	return nil
}

func nsToMS(ns int64) float64 { return float64(ns) / 1e6 }

func intOr(p *int) any {
	if p == nil {
		return nil
	}
	return *p
}

func floatOr(p *float64) any {
	if p == nil {
		return nil
	}
	return *p
}

func strOr(p *string) any {
	if p == nil {
		return nil
	}
	return *p
}

// sinceStart turns ns into seconds from the window's start.
func sinceStart(ns int64) float64 { return float64(ns) / 1e9 }

// ownerColumns are the owners that occur anywhere, in palette order.
func ownerColumns(r *render.Report) []string {
	var out []string
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		for i := range r.Ledger {
			if r.Ledger[i].Owners[o.String()] > 0 {
				out = append(out, o.String())
				break
			}
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
