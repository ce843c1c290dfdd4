package html

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/render"
	"gpureport/templates"
)

func pageOf(t *testing.T, s []render.Section) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, s, sampleMeta); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var states = []struct {
	name string
	make func() []render.Section
}{{"full", sampleSections}, {"samples", samplesOnly}, {"damaged", damaged}, {"none", noFindings}, {"hostile", hostile}, {"empty", func() []render.Section { return nil }}}

var idRE = regexp.MustCompile(` id="([^"]*)"`)

func TestPageIsWhole(t *testing.T) {
	for _, s := range states {
		p := pageOf(t, s.make())
		if len(p) > MaxBytes {
			t.Errorf("%s: %d bytes", s.name, len(p))
		}
		if p != pageOf(t, s.make()) {
			t.Errorf("%s: two drawings differ", s.name)
		}
		seen := map[string]bool{}
		for _, m := range idRE.FindAllStringSubmatch(p, -1) {
			if seen[m[1]] {
				t.Errorf("%s: id %q twice", s.name, m[1])
			}
			seen[m[1]] = true
		}
		// Links of the page lead to something on the page.
		for _, m := range regexp.MustCompile(` href="#([^"]*)"`).FindAllStringSubmatch(p, -1) {
			if s.name != "hostile" && !seen[m[1]] && !strings.HasPrefix(m[1], "command-") && m[1] != "inputs" {
				t.Errorf("%s: link to #%s leads nowhere", s.name, m[1])
			}
		}
		for _, bad := range []string{"http://", "https://", "//cdn", "url(http"} {
			body := strings.ReplaceAll(strings.ReplaceAll(p, "http://www.w3.org/", ""), "http:%2F%2Fwww.w3.org", "")
			if i := strings.Index(body, bad); i >= 0 {
				t.Errorf("%s: page names a remote place: %.80q", s.name, body[i:])
			}
		}
		if strings.Contains(p, "ZgotmplZ") {
			t.Errorf("%s: the template refused a value", s.name)
		}
	}
}

func TestEveryCheckHasItsRow(t *testing.T) {
	p := pageOf(t, sampleSections())
	for _, st := range sampleChecklist().Stages {
		if !strings.Contains(p, `id="`+st.ID+`"`) {
			t.Errorf("stage %s has no heading", st.ID)
		}
		for _, r := range append(st.Rows, st.FoldedRows...) {
			i := strings.Index(p, `id="`+r.Anchor+`"`)
			if i < 0 {
				t.Errorf("%s has no row", r.ID)
				continue
			}
			row := p[i:]
			if j := strings.Index(row[1:], `data-outcome=`); j > 0 {
				row = row[:j]
			}
			for _, want := range []string{r.ID, r.Says, r.Tag} {
				if !strings.Contains(row, html.EscapeString(want)) {
					t.Errorf("row of %s does not say %q", r.ID, want)
				}
			}
			for _, m := range r.Missing {
				if !strings.Contains(html.UnescapeString(row), m.Command) {
					t.Errorf("unknown %s has no command", r.ID)
				}
			}
		}
	}
}

func TestHostileNamesStayText(t *testing.T) {
	p := pageOf(t, hostile())
	for _, bad := range []string{"<img", "<svg onload", "<!--<script", `href="javascript`, "\u202e", "\x00", "\x1b", "onload=alert(1)>"} {
		if i := strings.Index(strings.ToLower(p), bad); i >= 0 {
			t.Errorf("page holds %q: %.120q", bad, p[max(0, i-40):])
		}
	}
	if n := strings.Count(p, "</script>"); n != 2+strings.Count(p, `<script type="application/json"`) {
		t.Errorf("%d script ends", n)
	}
	for _, m := range regexp.MustCompile(`(?s)<script type="application/json" id="[^"]*">(.*?)</script>`).FindAllStringSubmatch(p, -1) {
		if !json.Valid([]byte(m[1])) {
			t.Errorf("chart data is not JSON: %.100q", m[1])
		}
	}
	if !strings.Contains(p, "=HYPERLINK(&#34;x&#34;)") || !strings.Contains(p, "مرحبا") {
		t.Error("names are not shown as text")
	}
}

func TestScriptsMatchThePolicy(t *testing.T) {
	p := pageOf(t, noFindings())
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(p)[1])
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "script-src 'unsafe-inline'") {
		t.Errorf("policy %s", policy)
	}
	scripts := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(p, -1)
	if len(scripts) != 2 {
		t.Fatalf("%d scripts, want 2", len(scripts))
	}
	for i, s := range scripts {
		h := sha256.Sum256([]byte(s[1]))
		if !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(h[:])+"'") {
			t.Errorf("script %d is not the one the policy allows", i)
		}
	}
	for _, s := range []string{templates.App, templates.ECharts} {
		if strings.Contains(strings.ToLower(s), "</script") || strings.Contains(s, "<!--") {
			t.Error("a script holds a tag that would end it")
		}
	}
}

func TestEveryOwnerHasAFill(t *testing.T) {
	if len(fills) != len(render.Families) {
		t.Fatalf("%d fills for %d families", len(fills), len(render.Families))
	}
	css := styleSheet()
	for i, f := range fills {
		if f.key != render.Families[i].Key {
			t.Errorf("fill %d is %s, family is %s", i, f.key, render.Families[i].Key)
		}
		for _, want := range []string{".f-" + f.key + "{", "--h-" + f.key + ":" + f.light, "--h-" + f.key + ":" + f.dark} {
			if !strings.Contains(css, want) {
				t.Errorf("style has no %s", want)
			}
		}
	}
	for o := range timeline.NOwners {
		if k := familyByOwner(o.String()); !strings.Contains(css, ".f-"+fills[k].key+"{") {
			t.Errorf("%s has no fill", o)
		}
	}
}

func TestBudgetDropsInOrder(t *testing.T) {
	tl := sampleTimeline()
	tl.Rows = sampleRows(40, 2000, -1, 0)
	for i := range tl.Rows {
		for _, s := range tl.Rows[i].Steps {
			for k := range 20 {
				tl.Rows[i].Intervals = append(tl.Rows[i].Intervals, render.IntervalBox{StartS: s.StartS + float64(k)*1e-3, DurS: 1e-3, Owner: k % 5})
			}
		}
	}
	tl.EndS = 900
	s := []render.Section{{ID: "verdict", Blocks: []render.Block{sampleFirst()}}, {ID: "timeline", Title: "Time line", Blocks: []render.Block{tl}}}
	p := pageOf(t, s)
	if len(p) > MaxBytes {
		t.Errorf("%d bytes", len(p))
	}
	m := regexp.MustCompile(`(?s)id="chart-1-data">(.*?)</script>`).FindStringSubmatch(p)
	var w wireTimeline
	if err := json.Unmarshal([]byte(m[1]), &w); err != nil {
		t.Fatal(err)
	}
	if len(m[1]) > MaxData {
		t.Errorf("%d bytes of chart data", len(m[1]))
	}
	late := false
	for _, r := range w.Rows {
		late = late || r.Late
	}
	if !late || len(w.Rows) == 0 || len(w.Rows) >= 40 {
		t.Errorf("%d rows are left, late one among them: %v", len(w.Rows), late)
	}
	for _, want := range []string{"Left out so that the page stays small:", "true intervals", "rows of GPUs"} {
		if !strings.Contains(p, want) {
			t.Errorf("page does not say %q", want)
		}
	}
}

func TestWindowOfTheSlowestStepIsKeptLongest(t *testing.T) {
	tl := sampleTimeline()
	d := &drawer{tr: func(s string) string { return s }, lim: levels[0], cut: map[string]bool{}}
	w := d.timeLine(tl).wire.(*wireTimeline)
	d.intervals(w, 2000)
	if !d.cut[cutWords[0]] {
		t.Fatal("2000 bytes held every interval")
	}
	kept := 0
	for _, r := range w.Rows {
		at := int64(0)
		for i := 0; i < len(r.Ivals); i += 3 {
			at += r.Ivals[i]
			if s := float64(at) / 1e7; s < w.Slow[0]-0.05 || s > w.Slow[1]+0.05 {
				t.Errorf("interval at %.3f s is kept, the slowest step is %v", s, *w.Slow)
			}
			at += r.Ivals[i+1]
			kept++
		}
	}
	if kept == 0 {
		t.Error("no interval of the slowest step is kept")
	}
}

func TestWireKeepsTheTime(t *testing.T) {
	d := &drawer{tr: func(s string) string { return s }, lim: levels[0], cut: map[string]bool{}}
	src := render.GPURow{Steps: []render.StepBox{{Index: 7, StartS: 10.5, DurS: 0.25, Owners: []int{compute, peerWait}, Fracs: []float64{0.75, 0.25}}, {Index: 8, StartS: 10.75, DurS: 0.5, Owners: []int{compute}, Fracs: []float64{1}}},
		Intervals: []render.IntervalBox{{StartS: 10.5, DurS: 0.1, Owner: compute}, {StartS: 10.6, DurS: 0.0875, Owner: compute}, {StartS: 10.6875, DurS: 0.0625, Owner: peerWait}}}
	r := d.row(src, 10)
	if r.Start[0] != 500_000 || r.Start[1] != 250_000 || r.Dur[0] != 250_000 || r.Index[1] != 8 {
		t.Errorf("steps %v %v %v", r.Start, r.Dur, r.Index)
	}
	for _, o := range r.Owners {
		want := map[int][]int64{compute: {7500, 10000}, peerWait: {2500, 0}}[o.Owner]
		if fmt.Sprint(o.Frac) != fmt.Sprint(want) {
			t.Errorf("owner %d: %v, want %v", o.Owner, o.Frac, want)
		}
	}
	if got := fmt.Sprint(tenths(r.ivals)); got != "[5000000 1875000 0 0 625000 15]" {
		t.Errorf("intervals %s: neighbours of one owner are to be joined", got)
	}
}

func TestADipSurvivesThinning(t *testing.T) {
	c := render.Curve{Name: "GPU 0"}
	for i := range 50_000 {
		v := 97.0
		if i == 31_234 {
			v = 2
		}
		c.AtS, c.Value = append(c.AtS, float64(i)), append(c.Value, v)
	}
	w := curve(c, 0)
	if len(w.At) > maxPoints {
		t.Errorf("%d points", len(w.At))
	}
	found := false
	for i, v := range w.Value {
		found = found || v == 2 && w.At[i] == 31_234
		if i > 0 && w.At[i] <= w.At[i-1] {
			t.Fatalf("points out of order at %d", i)
		}
	}
	if !found {
		t.Error("the one low reading is gone")
	}
}

func TestHugeInputStaysSmall(t *testing.T) {
	c := sampleChecklist()
	for i := range c.Stages {
		s := &c.Stages[i]
		rows := s.Rows
		for range 400 {
			for _, r := range rows {
				r.Anchor = ""
				s.Rows = append(s.Rows, r)
				s.Cells = append(s.Cells, r.Outcome)
			}
		}
	}
	led := sampleLedger()
	l := led[1].(render.LedgerBars)
	for i := range 2000 {
		b := l.Bars[0]
		b.ID = fmt.Sprintf("gpu-%d", 100+i)
		l.Bars = append(l.Bars, b)
	}
	led[1] = l
	long := render.Table{Title: "Kernels", Columns: []render.Column{{Title: "Kernel"}}}
	for range 20_000 {
		long.Rows = append(long.Rows, render.Row{Cells: []render.Cell{{Text: strings.Repeat("gemm_", 400)}}})
	}
	p := pageOf(t, []render.Section{{ID: "verdict", Blocks: []render.Block{sampleFirst()}}, {ID: "ledger", Title: "Ledger", Blocks: led}, {ID: "checklist", Title: "Checklist", Blocks: []render.Block{c}}, {ID: "kernels", Title: "Kernels", Blocks: []render.Block{long}}})
	if len(p) > MaxBytes {
		t.Errorf("%d bytes", len(p))
	}
	if !strings.Contains(p, "Left out so that the page stays small:") {
		t.Error("the page does not say what it left out")
	}
	for _, id := range stageIDs {
		if !strings.Contains(p, `id="`+id+`.bad"`) || !strings.Contains(p, `id="`+id+`.good-0"`) {
			t.Errorf("stage %s lost a rule", id)
		}
	}
}

func TestChinesePage(t *testing.T) {
	var b bytes.Buffer
	m := sampleMeta
	m.Lang = "zh"
	if err := Write(&b, sampleSections(), m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<html lang="zh">`, "下一步", "没有看到"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}
