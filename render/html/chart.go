package html

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"

	"gpureport/ingest/timeline"
	"gpureport/render"
)

// chartView is one canvas, its data and the same readings as tables.
type chartView struct {
	ID     string
	Kind   string // key of the drawing in the page's script
	Role   string
	Alt    string
	Height int
	Data   json.RawMessage
	Tables []render.Table
	wire   any
}

// option is the chart's frame: one grid, a linear x axis in seconds or steps, pixels on y, and one custom series a lane kind. The script adds
// the drawing of each series by its name.
func option(endX float64, zoom bool, series ...string) map[string]any {
	c := charts.NewCustom()
	global := []charts.GlobalOpts{
		charts.WithAnimation(false),
		charts.WithGridOpts(opts.Grid{Left: "128", Right: "64", Top: "22", Bottom: "0"}),
		charts.WithXAxisOpts(opts.XAxis{Type: "value", Min: 0, Max: endX, Show: opts.Bool(false)}),
		charts.WithYAxisOpts(opts.YAxis{Type: "value", Min: 0, Max: 1, Show: opts.Bool(false)}),
	}
	if zoom {
		global = append(global, charts.WithDataZoomOpts(
			opts.DataZoom{Type: "inside", XAxisIndex: 0, FilterMode: "none"}, opts.DataZoom{Type: "slider", XAxisIndex: 0, FilterMode: "none"}))
	}
	c.SetGlobalOptions(global...)
	for _, s := range series {
		c.AddSeries(s, []opts.CustomData{{Value: []float64{0, 0}}})
	}
	c.Validate()
	o := c.JSON()
	for _, k := range []string{"title", "legend", "tooltip", "toolbox", "color"} {
		delete(o, k) // components that the page's build does not have
	}
	return o
}

type wireMark struct {
	ID     string  `json:"id,omitempty"`
	Start  float64 `json:"s"`
	End    float64 `json:"e"`
	Label  string  `json:"l"`
	Family int     `json:"f"` // -1: an outline
}

type wireLimit struct {
	Value float64 `json:"v"`
	Label string  `json:"l"`
}

type wireCurve struct {
	Name  string    `json:"n"`
	Odd   bool      `json:"odd,omitempty"`
	At    []float64 `json:"t"`
	Value []float64 `json:"v"`
	Low   []float64 `json:"lo,omitempty"`
	High  []float64 `json:"hi,omitempty"`
}

type wireLane struct {
	Title  string      `json:"title"`
	Sub    []string    `json:"sub"`
	Unit   string      `json:"unit"`
	Min    float64     `json:"min"`
	Max    float64     `json:"max"`
	Covers string      `json:"covers"`
	Window float64     `json:"w"`
	Error  float64     `json:"err"`
	Curves []wireCurve `json:"curves"`
	Limits []wireLimit `json:"limits"`
	Hatch  []wireMark  `json:"hatch"`
	Dips   []wireMark  `json:"dips,omitempty"`
}

// wireRow is one ledger row. Steps are columns of whole microseconds, each start counted from the start before; shares in 1/10000. Intervals
// are triples of tenths of a microsecond: gap since the end before, length, owner.
type wireRow struct {
	Name   string      `json:"n"`
	Late   bool        `json:"late,omitempty"`
	Index  []int64     `json:"i"`
	Start  []int64     `json:"s"`
	Dur    []int64     `json:"d"`
	Owners []wireStack `json:"o"`
	Ivals  []int64     `json:"iv"`
	Hole   []wireMark  `json:"hole"`
	ivals  []render.IntervalBox
}

type wireStack struct {
	Owner int     `json:"o"`
	Frac  []int64 `json:"v"`
}

type wireTimeline struct {
	Option  map[string]any `json:"option"`
	Start   float64        `json:"start"`
	End     float64        `json:"end"`
	Events  []wireMark     `json:"events"`
	Missing []string       `json:"missing"`
	Lanes   []wireLane     `json:"lanes"`
	Rows    []wireRow      `json:"rows"`
	Dips    []wireMark     `json:"dips"`
	NoTrace string         `json:"noTrace"`
	Slow    *[2]float64    `json:"slow"`
	Median  *[2]float64    `json:"median"`
}

type wireLaneChart struct {
	Option map[string]any `json:"option"`
	Start  float64        `json:"start"`
	End    float64        `json:"end"`
	Lane   wireLane       `json:"lane"`
}

type wireSeries struct {
	Name   string      `json:"n"`
	Late   bool        `json:"late,omitempty"`
	Median *float64    `json:"median"`
	Index  []int64     `json:"i"`
	Owners []stepStack `json:"o"`
	Cut    []wireCut   `json:"cut"`
}

type stepStack struct {
	Owner int       `json:"o"`
	Value []float64 `json:"v"`
}

type wireCut struct {
	At    int    `json:"at"`
	Label string `json:"l"`
}

type wireSteps struct {
	Option map[string]any `json:"option"`
	Unit   string         `json:"unit"`
	Max    float64        `json:"max"`
	Show   int            `json:"show"`
	Ranks  []wireSeries   `json:"ranks"`
}

// wireWords gives the script its words and the palette by number.
func (d *drawer) wireWords() any {
	type fam struct {
		Key  string `json:"k"`
		Name string `json:"n"`
	}
	type own struct {
		Name   string `json:"n"`
		Family int    `json:"f"`
	}
	out := struct {
		Families []fam             `json:"families"`
		Owners   []own             `json:"owners"`
		Words    map[string]string `json:"words"`
	}{Words: map[string]string{}}
	for _, f := range render.Families {
		out.Families = append(out.Families, fam{f.Key, d.tr(f.Label)})
	}
	for o := range timeline.NOwners {
		out.Owners = append(out.Owners, own{o.String(), familyOf[o]})
	}
	for _, w := range []string{"Copied", "Selected: copy it with the keyboard", "Expand all", "Fold all", "Events", "Who held the GPU", "held by", "step",
		"same step", "no analysed step", "Step by step", "to", "Whole run", "median", "Dip", "not read", "steps"} {
		out.Words[w] = d.tr(w)
	}
	return out
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// round keeps six significant digits: more than a pixel can show.
func round(f float64) float64 {
	if !finite(f) || f == 0 {
		return 0
	}
	p := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(f))))
	if !finite(p) || p == 0 {
		return f
	}
	r := math.Round(f*p) / p
	if !finite(r) {
		return f
	}
	return r
}

// micro rounds seconds to whole microseconds.
func micro(f float64) float64 {
	if !finite(f) {
		return 0
	}
	return math.Round(f*1e6) / 1e6
}

func (d *drawer) addChart(kind, role, alt string, height int, wire any, tables ...render.Table) *chartView {
	c := &chartView{ID: "chart-" + strconv.Itoa(len(d.charts)+1), Kind: kind, Role: role, Alt: alt, Height: height, wire: wire, Tables: tables}
	d.charts = append(d.charts, c)
	return c
}

func marks(in []render.Event, from float64) []wireMark {
	out := []wireMark{}
	for _, e := range in {
		f := -1
		if e.Owner != "" {
			f = familyByOwner(e.Owner)
		}
		if finite(e.StartS) && finite(e.EndS) {
			out = append(out, wireMark{Start: micro(e.StartS - from), End: micro(e.EndS - from), Label: e.Label, Family: f})
		}
	}
	return out
}

func dipMarks(in []render.DipMark, from float64) []wireMark {
	out := []wireMark{}
	for _, m := range in {
		owner := m.Owner
		if owner == "" {
			owner = timeline.UnknownOwner.String()
		}
		if finite(m.StartS) && finite(m.EndS) {
			out = append(out, wireMark{m.ID, micro(m.StartS - from), micro(m.EndS - from), m.Label, familyByOwner(owner)})
		}
	}
	return out
}

// maxPoints is the most points of one curve; a longer one keeps the lowest and the highest of each stretch, so that a dip survives.
const maxPoints = 4000

func (d *drawer) lane(l render.Lane, from float64) wireLane {
	w := wireLane{Title: l.Title, Sub: l.Sub, Unit: l.Unit, Min: round(l.Min), Max: round(l.Max), Covers: l.Covers, Window: micro(l.WindowS), Error: micro(l.ErrorS),
		Curves: []wireCurve{}, Limits: []wireLimit{}, Hatch: marks(l.Hatch, from), Dips: dipMarks(l.Dips, from)}
	if !(w.Max > w.Min) {
		w.Max = w.Min + 1
	}
	for _, c := range l.Curves {
		w.Curves = append(w.Curves, curve(c, from))
	}
	for _, x := range l.Limits {
		if finite(x.Value) {
			w.Limits = append(w.Limits, wireLimit{round(x.Value), x.Label})
		}
	}
	return w
}

func curve(c render.Curve, from float64) wireCurve {
	band := len(c.Low) == len(c.AtS) && len(c.High) == len(c.AtS)
	var keep []int
	for i := range min(len(c.AtS), len(c.Value)) {
		if finite(c.AtS[i]) && finite(c.Value[i]) && (!band || finite(c.Low[i]) && finite(c.High[i])) {
			keep = append(keep, i)
		}
	}
	keep = lowHigh(c, keep, band, maxPoints)
	out := wireCurve{Name: c.Name, Odd: c.Odd, At: make([]float64, 0, len(keep)), Value: make([]float64, 0, len(keep))}
	for _, i := range keep {
		out.At = append(out.At, micro(c.AtS[i]-from))
		out.Value = append(out.Value, round(c.Value[i]))
		if band {
			out.Low, out.High = append(out.Low, round(c.Low[i])), append(out.High, round(c.High[i]))
		}
	}
	return out
}

// lowHigh keeps at most n of the points: of each stretch the lowest and the highest.
func lowHigh(c render.Curve, keep []int, band bool, n int) []int {
	if len(keep) <= n {
		return keep
	}
	low, high := c.Value, c.Value
	if band {
		low, high = c.Low, c.High
	}
	var out []int
	for b := range n / 2 {
		part := keep[b*len(keep)/(n/2) : (b+1)*len(keep)/(n/2)]
		if len(part) == 0 {
			continue
		}
		lo, hi := part[0], part[0]
		for _, i := range part {
			if low[i] < low[lo] {
				lo = i
			}
			if high[i] > high[hi] {
				hi = i
			}
		}
		out = append(out, min(lo, hi))
		if lo != hi {
			out = append(out, max(lo, hi))
		}
	}
	return out
}

func laneTables(lanes ...render.Lane) []render.Table {
	var out []render.Table
	for _, l := range lanes {
		if l.Table != nil {
			t := *l.Table
			t.ID = ""
			if t.Title == "" {
				t.Title = laneTitle(l)
			}
			if len(t.Rows) > tableRows {
				t.Rows = t.Rows[:tableRows]
			}
			out = append(out, t)
		}
	}
	return out
}

// tableRows is how much of a chart is also given as a table.
const tableRows = 200

func laneAlt(l render.Lane) string {
	var names []string
	for _, c := range l.Curves {
		names = append(names, c.Name)
	}
	alt := laneTitle(l)
	if len(l.Sub) > 0 {
		alt += " (" + strings.Join(l.Sub, ", ") + ")"
	}
	if len(names) > 0 {
		alt += ": " + strings.Join(names, ", ")
	}
	return cutMiddle(alt, 400)
}

func (d *drawer) laneChart(kind string, l render.Lane, start, end float64) *chartView {
	if !(end > start) {
		end = start + 1
	}
	w := &wireLaneChart{Option: option(end-start, false, "lane"), Start: round(start), End: round(end), Lane: d.lane(l, start)}
	height := 84 + 34
	if kind == "hero" {
		height = 104 + 56
	}
	return d.addChart(kind, "img", laneAlt(l), height, w, laneTables(l)...)
}

// heroChart draws the utilisation lane over all that its curves and marks cover.
func (d *drawer) heroChart(l render.Lane) *chartView {
	start, end := math.Inf(1), math.Inf(-1)
	for _, c := range l.Curves {
		for _, t := range c.AtS {
			if finite(t) {
				start, end = min(start, t-l.WindowS), max(end, t)
			}
		}
	}
	if !finite(start) || !finite(end) {
		start, end = 0, 1
	}
	return d.laneChart("hero", l, max(0, start), end)
}

func (d *drawer) stepChart(b render.StepChart) *chartView {
	w := &wireSteps{Unit: b.Unit, Max: round(b.AxisMax), Show: b.Show}
	steps := 0
	for _, r := range b.Ranks {
		s := wireSeries{Name: r.Name, Late: r.Late, Index: r.Index, Cut: []wireCut{}, Owners: []stepStack{}}
		if r.Median > 0 && finite(r.Median) {
			m := round(r.Median)
			s.Median = &m
		}
		for _, c := range r.Cut {
			s.Cut = append(s.Cut, wireCut(c))
		}
		for _, o := range r.Owners {
			own, ok := timeline.ParseOwner(o.Owner)
			if !ok {
				own = timeline.UnknownOwner
			}
			vs := make([]float64, len(r.Index))
			for i := range min(len(vs), len(o.Value)) {
				vs[i] = max(0, round(o.Value[i]))
			}
			s.Owners = append(s.Owners, stepStack{int(own), vs})
		}
		slices.SortStableFunc(s.Owners, func(a, b stepStack) int { return a.Owner - b.Owner })
		steps = max(steps, len(r.Index))
		w.Ranks = append(w.Ranks, s)
	}
	if !(w.Max > 0) {
		w.Max = 1
	}
	w.Option = option(float64(max(steps, 1)), false, "steps")
	shown := b.Ranks[b.Show]
	return d.addChart("steps", "img", fmt.Sprintf("%s, %d %s, %s", shown.Name, len(shown.Index), d.tr("steps"), b.Unit), 210, w, d.stepsTable(b.Unit, shown))
}

func (d *drawer) stepsTable(unit string, r render.StepSeries) render.Table {
	t := render.Table{Columns: []render.Column{{Title: d.tr("step"), Num: true}}}
	for i, o := range r.Owners {
		t.Columns = append(t.Columns, render.Column{Title: d.tr(render.FamilyOf(o.Owner).Label) + ", " + unit, Owners: []string{o.Owner}, Num: true, More: i > 1})
	}
	for i := range min(len(r.Index), tableRows) {
		row := render.Row{Cells: []render.Cell{{Text: strconv.FormatInt(r.Index[i], 10)}}}
		for _, o := range r.Owners {
			text := ""
			if i < len(o.Value) && finite(o.Value[i]) {
				text = strconv.FormatFloat(round(o.Value[i]), 'g', 4, 64)
			}
			row.Cells = append(row.Cells, render.Cell{Text: text})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (d *drawer) timeLine(b render.TimeLine) *chartView {
	if !(b.EndS > b.StartS) {
		b.EndS = b.StartS + 1
	}
	from := b.StartS
	w := &wireTimeline{Option: option(b.EndS-from, true, "frame", "lanes", "rows", "front"), Start: round(from), End: round(b.EndS), Missing: append([]string{}, b.Missing...),
		Events: marks(b.Events, from), Dips: dipMarks(b.Dips, from), NoTrace: b.NoTrace, Rows: []wireRow{}, Lanes: []wireLane{},
		Slow: stretch(b.SlowestStep, from), Median: stretch(b.MedianStep, from)}
	for _, l := range b.Lanes {
		w.Lanes = append(w.Lanes, d.lane(l, from))
	}
	for _, r := range b.Rows {
		w.Rows = append(w.Rows, d.row(r, from))
	}
	alt := fmt.Sprintf("%s: %.6g to %.6g s, %d GPUs. Arrow keys move a step, shift and arrows a GPU, plus and minus zoom, 0 shows the whole run, n and p go to the next and previous dip.",
		d.tr("Who held the GPU"), b.StartS, b.EndS, len(b.Rows))
	height := 22 + 40 + 14*len(b.Missing) + 56*len(b.Lanes) + 64 + 26*max(1, len(b.Rows)) + 70
	tables := laneTables(b.Lanes...)
	if t, ok := d.rowsTable(b); ok {
		tables = append(tables, t)
	}
	return d.addChart("timeline", "application", alt, height, w, tables...)
}

func stretch(s [2]float64, from float64) *[2]float64 {
	if !(s[1] > s[0]) || !finite(s[0]) || !finite(s[1]) {
		return nil
	}
	return &[2]float64{micro(s[0] - from), micro(s[1] - from)}
}

// maxSteps is the most steps of one row; a longer row keeps the slowest of each stretch.
const maxSteps = 6000

func (d *drawer) row(r render.GPURow, from float64) wireRow {
	w := wireRow{Name: r.Name, Late: r.Late, Hole: marks(r.Hole, from), Index: []int64{}, Start: []int64{}, Dur: []int64{}, Owners: []wireStack{}, Ivals: []int64{}}
	steps := make([]render.StepBox, 0, len(r.Steps))
	for _, s := range r.Steps {
		if finite(s.StartS) && finite(s.DurS) && s.DurS > 0 {
			steps = append(steps, s)
		}
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].StartS < steps[j].StartS })
	if len(steps) > maxSteps {
		d.cut[cutWords[2]] = true
		var kept []render.StepBox
		for b := range maxSteps {
			part := steps[b*len(steps)/maxSteps : (b+1)*len(steps)/maxSteps]
			kept = append(kept, slices.MaxFunc(part, func(a, b render.StepBox) int {
				switch {
				case a.DurS > b.DurS:
					return 1
				case a.DurS < b.DurS:
					return -1
				}
				return 0
			}))
		}
		steps = kept
	}
	var fracs [timeline.NOwners][]int64
	last := int64(0)
	for i, s := range steps {
		start := int64(math.Round((s.StartS - from) * 1e6))
		w.Index, w.Start, w.Dur = append(w.Index, s.Index), append(w.Start, start-last), append(w.Dur, int64(math.Round(s.DurS*1e6)))
		last = start
		for j := range min(len(s.Owners), len(s.Fracs)) {
			o := s.Owners[j]
			if o < 0 || o >= int(timeline.NOwners) {
				o = int(timeline.UnknownOwner)
			}
			if fracs[o] == nil {
				fracs[o] = make([]int64, len(steps))
			}
			fracs[o][i] += int64(math.Round(clamp(s.Fracs[j]) * 1e4))
		}
	}
	for o, f := range fracs {
		if f != nil {
			w.Owners = append(w.Owners, wireStack{o, f})
		}
	}
	for _, v := range r.Intervals {
		v.StartS -= from
		if !finite(v.StartS) || !finite(v.DurS) || v.DurS <= 0 {
			continue
		}
		if v.Owner < 0 || v.Owner >= int(timeline.NOwners) {
			v.Owner = int(timeline.UnknownOwner)
		}
		w.ivals = append(w.ivals, v)
	}
	sort.SliceStable(w.ivals, func(i, j int) bool { return w.ivals[i].StartS < w.ivals[j].StartS })
	w.ivals = join(w.ivals)
	return w
}

// join makes one of neighbours that touch and have one owner.
func join(in []render.IntervalBox) []render.IntervalBox {
	var out []render.IntervalBox
	for _, v := range in {
		if n := len(out); n > 0 && out[n-1].Owner == v.Owner && v.StartS-(out[n-1].StartS+out[n-1].DurS) < 0.5e-7 {
			out[n-1].DurS = v.StartS + v.DurS - out[n-1].StartS
			continue
		}
		out = append(out, v)
	}
	return out
}

func tenths(in []render.IntervalBox) []int64 {
	out := make([]int64, 0, 3*len(in))
	last := int64(0)
	for _, v := range in {
		s, e := int64(math.Round(v.StartS*1e7)), int64(math.Round((v.StartS+v.DurS)*1e7))
		if e <= s {
			continue
		}
		out = append(out, s-last, e-s, int64(v.Owner))
		last = e
	}
	return out
}

func (d *drawer) rowsTable(b render.TimeLine) (render.Table, bool) {
	t := render.Table{Title: d.tr("Who held the GPU"), Columns: []render.Column{{Title: d.tr("GPU")}, {Title: d.tr("step"), Num: true},
		{Title: d.tr("At, s"), Num: true, More: true}, {Title: d.tr("Took, ms"), Num: true}, {Title: d.tr("Owners"), Wide: true}}}
	for _, r := range b.Rows {
		for _, s := range r.Steps {
			if len(t.Rows) == tableRows {
				return t, true
			}
			var own []string
			for j := range min(len(s.Owners), len(s.Fracs)) {
				if o := s.Owners[j]; o >= 0 && o < int(timeline.NOwners) && s.Fracs[j] >= 0.001 {
					own = append(own, fmt.Sprintf("%s %.1f\u00a0%%", timeline.Owner(o), 100*clamp(s.Fracs[j])))
				}
			}
			t.Rows = append(t.Rows, render.Row{Cells: []render.Cell{{Text: r.Name}, {Text: strconv.FormatInt(s.Index, 10)},
				{Text: strconv.FormatFloat(micro(s.StartS), 'f', 3, 64)}, {Text: strconv.FormatFloat(1e3*micro(s.DurS), 'f', 3, 64)}, {Text: strings.Join(own, ", "), Weak: true}}})
		}
	}
	return t, len(t.Rows) > 0
}

// fillData writes the charts' data within the budget: true intervals go first, then rows of GPUs, then points of curves.
func (d *drawer) fillData() error {
	var lines []*wireTimeline
	var steps []*wireSteps
	base := 0
	for _, c := range d.charts {
		switch w := c.wire.(type) {
		case *wireTimeline:
			lines = append(lines, w)
		case *wireSteps:
			steps = append(steps, w)
		}
	}
	size := func(v any) (int, error) {
		b, err := json.Marshal(v)
		return len(b), err
	}
	// Everything but rows and intervals has to stay.
	for _, w := range lines {
		rows := w.Rows
		w.Rows = []wireRow{}
		n, err := size(w)
		if err != nil {
			return err
		}
		w.Rows = rows
		base += n
	}
	for _, c := range d.charts {
		if w, ok := c.wire.(*wireLaneChart); ok {
			n, err := size(w)
			if err != nil {
				return err
			}
			base += n
		}
	}
	left := d.lim.data - base
	if left < d.lim.data/4 { // the readings alone are too many: thin them to half of the budget
		d.thin(d.lim.data/2, base)
		left = d.lim.data / 2
	}
	for _, w := range steps {
		kept := w.Ranks[:0:0]
		show := w.Show
		for pass := range 2 { // the shown and the late first
			for i, r := range w.Ranks {
				if first := i == show || r.Late; first != (pass == 0) {
					continue
				}
				n, err := size(r)
				if err != nil {
					return err
				}
				if n > left/2 && len(kept) > 0 {
					d.cut[cutWords[1]] = true
					continue
				}
				left -= n
				r.Index = slices.Clone(r.Index)
				kept = append(kept, r)
			}
		}
		if len(kept) == len(w.Ranks) {
			continue
		}
		for i, r := range kept {
			if r.Name == w.Ranks[show].Name {
				w.Show = i
			}
		}
		w.Ranks = kept
	}
	for _, w := range lines {
		kept := make([]bool, len(w.Rows))
		n := 0
		for pass := range 2 {
			for i := range w.Rows {
				r := &w.Rows[i]
				if r.Late != (pass == 0) {
					continue
				}
				s, err := size(r)
				if err != nil {
					return err
				}
				if s > left && n > 0 {
					d.cut[cutWords[1]] = true
					continue
				}
				left -= s
				kept[i] = true
				n++
			}
		}
		var rows []wireRow
		for i, r := range w.Rows {
			if kept[i] {
				rows = append(rows, r)
			}
		}
		if rows != nil {
			w.Rows = rows
		}
	}
	for _, w := range lines {
		left = d.intervals(w, left)
	}
	for _, c := range d.charts {
		b, err := json.Marshal(c.wire)
		if err != nil {
			return err
		}
		c.Data = b
	}
	return nil
}

// thin keeps fewer points of every curve.
func (d *drawer) thin(want, have int) {
	if have <= want {
		return
	}
	each := func(l *wireLane) {
		for i := range l.Curves {
			c := &l.Curves[i]
			n := max(20, len(c.At)*want/have/2*2)
			rc := render.Curve{Name: c.Name, Odd: c.Odd, AtS: c.At, Value: c.Value, Low: c.Low, High: c.High}
			all := make([]int, len(c.At))
			for j := range all {
				all[j] = j
			}
			keep := lowHigh(rc, all, len(c.Low) > 0, n)
			out := wireCurve{Name: c.Name, Odd: c.Odd}
			for _, j := range keep {
				out.At, out.Value = append(out.At, c.At[j]), append(out.Value, c.Value[j])
				if len(c.Low) > 0 {
					out.Low, out.High = append(out.Low, c.Low[j]), append(out.High, c.High[j])
				}
			}
			*c = out
		}
	}
	for _, c := range d.charts {
		switch w := c.wire.(type) {
		case *wireTimeline:
			for i := range w.Lanes {
				each(&w.Lanes[i])
			}
		case *wireLaneChart:
			each(&w.Lane)
		}
	}
}

// intervals keeps whole windows of true intervals while they fit: the slowest step's, the median step's, the dips', then by time.
func (d *drawer) intervals(w *wireTimeline, left int) int {
	type window struct{ s, e float64 }
	var spans []window
	for _, r := range w.Rows {
		for _, v := range r.ivals {
			spans = append(spans, window{v.StartS, v.StartS + v.DurS})
		}
	}
	if len(spans) == 0 {
		return left
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].s < spans[j].s })
	windows := spans[:1:1]
	for _, s := range spans[1:] {
		if l := &windows[len(windows)-1]; s.s <= l.e+1e-3 {
			l.e = max(l.e, s.e)
		} else {
			windows = append(windows, s)
		}
	}
	rank := func(x window) int {
		over := func(s, e float64) bool { return s < x.e && e > x.s }
		switch {
		case w.Slow != nil && over(w.Slow[0], w.Slow[1]):
			return 0
		case w.Median != nil && over(w.Median[0], w.Median[1]):
			return 1
		case slices.ContainsFunc(w.Dips, func(m wireMark) bool { return over(m.Start, m.End) }):
			return 2
		}
		return 3
	}
	sort.SliceStable(windows, func(i, j int) bool { return rank(windows[i]) < rank(windows[j]) })
	kept := make([][]render.IntervalBox, len(w.Rows))
	for _, x := range windows {
		n := 0
		part := make([][]render.IntervalBox, len(w.Rows))
		for i, r := range w.Rows {
			a := sort.Search(len(r.ivals), func(k int) bool { return r.ivals[k].StartS >= x.s })
			b := sort.Search(len(r.ivals), func(k int) bool { return r.ivals[k].StartS >= x.e })
			part[i] = r.ivals[a:b]
			for _, v := range tenths(part[i]) {
				n += len(strconv.FormatInt(v, 10)) + 1
			}
			n += 12 // the gap before a window is longer than the one counted
		}
		if n > left {
			d.cut[cutWords[0]] = true
			continue
		}
		left -= n
		for i := range kept {
			kept[i] = append(kept[i], part[i]...)
		}
	}
	for i := range w.Rows {
		sort.SliceStable(kept[i], func(a, b int) bool { return kept[i][a].StartS < kept[i][b].StartS })
		w.Rows[i].Ivals = tenths(kept[i])
	}
	return left
}
