// Package html draws the report page: one self-contained file made of the sections of package render. It draws block kinds and computes
// nothing but positions; what the page cannot hold is dropped in a stated order and said.
package html

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpureport/render"
	"gpureport/templates"
)

// MaxBytes is the largest page; MaxData is the largest sum of its charts' data.
const (
	MaxBytes = 3_000_000
	MaxData  = 1_600_000
)

// Meta is what the page says about itself.
type Meta struct {
	Title   string
	Version string
	Footer  string
	Lang    string // en or zh; "" is en
}

// limits say how much of the sections a page holds. Each level is tried after the one before did not fit.
type limits struct {
	data      int // bytes of chart data
	tableRows int
	barRows   int
	repeats   int // rows of one rule and outcome other than finding
	findings  int // findings of one rule
}

const noLimit = math.MaxInt

var levels = []limits{
	{MaxData, noLimit, noLimit, noLimit, noLimit},
	{MaxData, 200, 64, noLimit, noLimit},
	{MaxData, 200, 64, 8, noLimit},
	{MaxData, 200, 64, 8, 50},
	{MaxData / 2, 50, 32, 2, 10},
	{MaxData / 8, 20, 16, 1, 3},
}

// Write draws the page.
func Write(w io.Writer, sections []render.Section, meta Meta) error {
	sections = cleanSections(sections)
	meta.Title, meta.Version, meta.Footer = cleanText(meta.Title, 300, false), cleanText(meta.Version, 100, false), cleanText(meta.Footer, textRunes, false)
	if meta.Title == "" {
		meta.Title = "gpureport"
	}
	var page bytes.Buffer
	for _, lim := range levels {
		page.Reset()
		if err := draw(&page, sections, meta, lim); err != nil {
			return fmt.Errorf("page: %w", err)
		}
		if page.Len() <= MaxBytes {
			break
		}
	}
	if page.Len() > MaxBytes {
		return fmt.Errorf("page: %d bytes after every cut, at most %d: too many sections", page.Len(), MaxBytes)
	}
	_, err := w.Write(page.Bytes())
	return err
}

// view is what the page template reads.
type view struct {
	Meta
	Lang     string
	CSP      string
	Style    template.CSS
	ECharts  template.JS
	App      template.JS
	Words    json.RawMessage
	Facts    []string
	Rail     []railItem
	Notes    []render.Note
	Sections []sectionView
}

type railItem struct {
	ID, Text, Count string
	Rule            bool // a hairline above
}

type sectionView struct {
	render.Section
	First  bool
	Blocks []blockView
}

// blockView is a block and what its partial needs beside it.
type blockView struct {
	Kind     string
	B        render.Block
	Title    string
	Key      []keyItem
	Sure     []sureWord
	PlanID   string
	Chart    *chartView
	Lanes    []laneView
	HasSlow  bool
	FirstDip string
	Filters  []filter
	Heat     *heatData
	Line     string // path of the expected speed
}

type keyItem struct{ Owner, Name string }

type sureWord struct {
	Word string
	Now  bool
}

type filter struct {
	Key, Text string
	N         int
}

type laneView struct {
	Title string
	Sub   []string
	Chart *chartView
}

// drawer builds the view of one page.
type drawer struct {
	tr         func(string) string
	lim        limits
	planID     string            // section that holds the commands
	plan       map[string]string // anchor of each command
	timelineID string            // section that holds the time line
	charts     []*chartView
	cut        map[string]bool // what was left out, by its English words
}

func draw(w io.Writer, sections []render.Section, meta Meta, lim limits) error {
	d := &drawer{tr: func(s string) string { return s }, lim: lim, cut: map[string]bool{}, plan: map[string]string{}}
	if meta.Lang == "zh" {
		d.tr = func(s string) string {
			if t, ok := zh[s]; ok {
				return t
			}
			return s
		}
	}
	for _, s := range sections {
		for _, b := range s.Blocks {
			switch b := b.(type) {
			case render.Commands:
				d.planID = s.ID
				for _, c := range b.Items {
					if _, ok := d.plan[c.Command]; !ok && c.ID != "" {
						d.plan[c.Command] = "#" + c.ID
					}
				}
			case render.TimeLine:
				d.timelineID = s.ID
			}
		}
	}
	v := view{Meta: meta, Lang: meta.Lang, Style: template.CSS(styleSheet()), ECharts: template.JS(templates.ECharts), App: template.JS(templates.App)}
	if v.Lang == "" {
		v.Lang = "en"
	}
	v.CSP = policy(templates.ECharts, templates.App)
	for _, s := range sections {
		sv := sectionView{Section: s}
		for _, b := range s.Blocks {
			if f, ok := b.(render.FirstScreen); ok {
				sv.First = true
				v.Facts = f.Facts
			}
			bv, err := d.block(b)
			if err != nil {
				return err
			}
			if bv.Kind != "" {
				sv.Blocks = append(sv.Blocks, bv)
			}
		}
		v.Sections = append(v.Sections, sv)
		v.Rail = append(v.Rail, d.rail(s, len(v.Rail) > 0 && wasChecklist(sections, s.ID))...)
	}
	if err := d.fillData(); err != nil {
		return err
	}
	v.Notes = d.notes()
	words, err := json.Marshal(d.wireWords())
	if err != nil {
		return err
	}
	v.Words = words
	t, err := template.New("page.html.tmpl").Funcs(d.funcs()).ParseFS(templates.Pages, "page.html.tmpl", "blocks.html.tmpl")
	if err != nil {
		return err
	}
	return t.Execute(w, v)
}

// policy allows the page's own two scripts by their hashes and nothing from outside.
func policy(scripts ...string) string {
	var b strings.Builder
	b.WriteString("default-src 'none'; script-src")
	for _, s := range scripts {
		h := sha256.Sum256([]byte(s))
		b.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(h[:]) + "'")
	}
	b.WriteString("; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'")
	return b.String()
}

// wasChecklist reports whether the section before id holds the checklist.
func wasChecklist(sections []render.Section, id string) bool {
	for i, s := range sections {
		if s.ID != id || i == 0 {
			continue
		}
		for _, b := range sections[i-1].Blocks {
			if _, ok := b.(render.Checklist); ok {
				return true
			}
		}
	}
	return false
}

func (d *drawer) rail(s render.Section, rule bool) []railItem {
	if s.Rail == "-" {
		return nil
	}
	it := railItem{ID: s.ID, Text: s.Rail, Count: s.Count, Rule: rule}
	if it.Text == "" {
		it.Text = s.Title
	}
	if it.Text == "" {
		it.Text = d.tr("Verdict")
	}
	items := []railItem{it}
	for _, b := range s.Blocks {
		c, ok := b.(render.Checklist)
		if !ok {
			continue
		}
		for i, st := range c.Stages {
			n := 0
			for _, o := range st.Cells {
				if o == "finding" {
					n++
				}
			}
			count := "–"
			if n > 0 {
				count = strconv.Itoa(n)
			}
			items = append(items, railItem{ID: st.ID, Text: fmt.Sprintf("%d %s", st.N, st.Title), Count: count, Rule: i == 0})
		}
	}
	return items
}

// cuts in the order in which the page names them.
var cutWords = []string{"true intervals (zoom stops at the steps)", "rows of GPUs that are neither late nor odd", "steps that are not among the slowest",
	"long tables after their first 200 rows", "passes and unknowns that repeat one rule"}

func (d *drawer) notes() []render.Note {
	var said []string
	for _, w := range cutWords {
		if d.cut[w] {
			said = append(said, d.tr(w))
		}
	}
	if len(said) == 0 {
		return nil
	}
	return []render.Note{{Strong: d.tr("Left out so that the page stays small:"), Text: strings.Join(said, ", ") + "; " + d.tr("report.json has them all") + "."}}
}

func (d *drawer) block(b render.Block) (blockView, error) {
	v := blockView{B: b}
	switch b := b.(type) {
	case render.FirstScreen:
		v.Kind, v.PlanID = "first", d.planID
		for _, w := range []string{"measured", "inferred", "hint"} {
			v.Sure = append(v.Sure, sureWord{d.tr(w), w == b.Sure})
		}
		v.Key = d.key(ownersOfBars(b.Hero))
		if b.HeroCurve != nil {
			v.Chart = d.heroChart(*b.HeroCurve)
		}
	case render.Table:
		v.Kind, v.B = "table", d.table(b)
	case render.LedgerBars:
		v.Kind = "ledger"
		if len(b.Bars) > d.lim.barRows {
			var bars []render.Bar
			for i, x := range b.Bars {
				if i < d.lim.barRows || x.Bold && len(bars) < 2*d.lim.barRows {
					bars = append(bars, x)
				}
			}
			b.Bars = bars
			d.cut[cutWords[1]] = true
		}
		v.B = b
	case render.StepChart:
		if len(b.Ranks) == 0 {
			return blockView{}, nil
		}
		if b.Show < 0 || b.Show >= len(b.Ranks) {
			b.Show = 0
		}
		v.Kind, v.B, v.Chart = "steps", b, d.stepChart(b)
		v.Title = d.tr("Step by step") + ", " + b.Ranks[b.Show].Name
	case render.TimeLine:
		v.Kind, v.Key, v.Chart = "timeline", d.key(b.Legend), d.timeLine(b)
		v.HasSlow = b.SlowestStep[1] > b.SlowestStep[0]
		if len(b.Dips) > 0 {
			v.FirstDip = b.Dips[0].Label
		}
	case render.Checklist:
		v.Kind, v.B, v.Filters = "checklist", d.checklist(b), d.filters(b)
	case render.Commands:
		v.Kind = "commands"
	case render.Lanes:
		v.Kind = "lanes"
		for _, l := range b.Lanes {
			v.Lanes = append(v.Lanes, laneView{laneTitle(l), l.Sub, d.laneChart("lane", l, b.StartS, b.EndS)})
		}
	case render.Matrix:
		v.Kind = "matrix"
	case render.HeatMap:
		v.Kind, v.Heat = "heat", heatView(b)
	case render.WaitCharts:
		v.Kind, v.Key = "waits", d.key(b.Legend)
	case render.Dots:
		v.Kind, v.Line = "dots", dotLines(b.Lines)
	case render.NoteBlock:
		v.Kind = "note"
	case render.Prose:
		v.Kind = "prose"
	default:
		return v, fmt.Errorf("no drawing for block %T", b)
	}
	return v, nil
}

func laneTitle(l render.Lane) string {
	if l.Unit == "" {
		return l.Title
	}
	return l.Title + ", " + l.Unit
}

// table cuts long tables when the page would be too big.
func (d *drawer) table(t render.Table) render.Table {
	if len(t.Rows) > d.lim.tableRows {
		t.Rows = t.Rows[:d.lim.tableRows]
		d.cut[cutWords[3]] = true
	}
	return t
}

// checklist leaves out rows that repeat a rule on further subjects when the page would be too big; every rule keeps its first rows.
func (d *drawer) checklist(c render.Checklist) render.Checklist {
	seen := map[[2]string]int{}
	keep := func(rows []render.CheckRow) []render.CheckRow {
		var out []render.CheckRow
		for _, r := range rows {
			k := [2]string{r.ID, r.Outcome}
			seen[k]++
			most := d.lim.repeats
			if r.Outcome == "finding" {
				most = d.lim.findings
			}
			if seen[k] > most {
				d.cut[cutWords[4]] = true
				continue
			}
			out = append(out, r)
		}
		return out
	}
	out := render.Checklist{Stages: slices.Clone(c.Stages)}
	for i := range out.Stages {
		s := &out.Stages[i]
		s.Rows, s.FoldedRows = keep(s.Rows), keep(s.FoldedRows)
		if d.lim.repeats != noLimit && len(s.Cells) > 200 {
			s.Cells = s.Cells[:200]
		}
	}
	return out
}

func (d *drawer) filters(c render.Checklist) []filter {
	fs := []filter{{"finding", d.tr("Findings"), 0}, {"unknown", d.tr("Unknown"), 0}, {"pass", d.tr("Pass"), 0}, {"not-asked", d.tr("Not asked"), 0}}
	for _, s := range c.Stages {
		for _, o := range s.Cells {
			for i := range fs {
				if fs[i].Key == o {
					fs[i].N++
				}
			}
		}
	}
	return fs
}

func ownersOfBars(bars []render.Bar) []string {
	var out []string
	for _, b := range bars {
		for _, s := range b.Segs {
			out = append(out, s.Owner)
		}
	}
	return out
}

// key names the families of owners once each, in palette order.
func (d *drawer) key(owners []string) []keyItem {
	has := make([]bool, len(render.Families))
	for _, o := range owners {
		has[familyByOwner(o)] = true
	}
	var out []keyItem
	for i, f := range render.Families {
		if has[i] {
			out = append(out, keyItem{f.Owners[0].String(), d.tr(f.Label)})
		}
	}
	return out
}

// tdView is a cell with its column.
type tdView struct {
	Column render.Column
	Cell   render.Cell
}

type trView struct {
	Row   render.Row
	Cells []tdView
}

func pairCells(cols []render.Column, cells []render.Cell) []tdView {
	out := make([]tdView, 0, len(cols))
	for i, c := range cols {
		v := tdView{Column: c}
		if i < len(cells) {
			v.Cell = cells[i]
		}
		out = append(out, v)
	}
	return out
}

func trViews(t render.Table, rows []render.Row) []trView {
	out := make([]trView, 0, len(rows))
	for _, r := range rows {
		out = append(out, trView{r, pairCells(t.Columns, r.Cells)})
	}
	return out
}

func shownRows(t render.Table) int {
	if t.Shown <= 0 || t.Shown > len(t.Rows) {
		return len(t.Rows)
	}
	return t.Shown
}

func colClass(c render.Column) string {
	cls := "txt"
	switch {
	case c.Bar:
		cls = "bc"
	case c.Num:
		cls = "num"
	}
	if c.Wide {
		cls += " wide"
	}
	if c.More {
		cls += " more"
	}
	return cls
}

func (d *drawer) funcs() template.FuncMap {
	return template.FuncMap{
		"w": d.tr,
		"fam": func(owner string) string {
			if owner == "" { // a share of nobody's time
				return "plain"
			}
			return fills[familyByOwner(owner)].key
		},
		"pct":        func(f float64) template.CSS { return template.CSS(strconv.FormatFloat(100*clamp(f), 'f', 3, 64) + "%") },
		"thin":       func(f float64) bool { return !(f >= 0.004) },
		"plan":       d.planLink,
		"nb":         strings.NewReplacer("GPU ", "GPU\u00a0", "rank ", "rank\u00a0").Replace,
		"head":       func(t render.Table) []trView { return trViews(t, t.Rows[:shownRows(t)]) },
		"tail":       func(t render.Table) []trView { return trViews(t, t.Rows[shownRows(t):]) },
		"pair":       pairCells,
		"thclass":    colClass,
		"lines":      func(s string) []string { return strings.Split(s, ", ") },
		"timelineID": func() string { return d.timelineID },
		"hasMore": func(cs []render.Column) bool {
			return slices.ContainsFunc(cs, func(c render.Column) bool { return c.More })
		},
		"tdclass": func(c render.Column, x render.Cell) string {
			cls := colClass(c)
			if x.Weak {
				cls += " weak"
			}
			if x.Strong {
				cls += " strong"
			}
			if longWord(x.Text) {
				cls += " long"
			}
			return cls
		},
		"few": func(t render.Table) bool {
			return len(t.Columns) <= 5 && len(t.Columns) > 0 && t.Columns[len(t.Columns)-1].Bar
		},
		"gap": func(s string) string { // no space before a text that goes on with a stop
			if strings.HasPrefix(s, ":") || strings.HasPrefix(s, ",") || strings.HasPrefix(s, ".") {
				return ""
			}
			return " "
		},
		"tagclass": func(r render.CheckRow) string {
			if r.Outcome != "finding" {
				return r.Outcome
			}
			word, _, _ := strings.Cut(r.Tag, " ")
			if word == "critical" || word == "high" || word == "medium" || word == "low" || word == "info" || word == "waived" {
				return word
			}
			return "medium"
		},
		"foldable": func(r render.CheckRow) bool {
			return len(r.Numbers)+len(r.Do)+len(r.Dont)+len(r.Withheld)+len(r.Refs)+len(r.Missing)+len(r.Subjects) > 0 || r.SavingText != "" || r.LooksLike != ""
		},
	}
}

// longWord reports whether a text holds a word that would widen its column too much.
func longWord(s string) bool {
	for w := range strings.FieldsSeq(s) {
		if len(w) > 26 {
			return true
		}
	}
	return false
}

// planLink gives the anchor that stands in place of a command; "" to show the command.
func (d *drawer) planLink(cmd string) string {
	if strings.HasPrefix(cmd, "#") {
		return cmd
	}
	return ""
}

// clamp keeps a share drawable: what is not finite is nothing.
func clamp(f float64) float64 {
	if !(f > 0) {
		return 0
	}
	return min(f, 1)
}
