package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpureport/render"
	"gpureport/render/html/pagetest"
)

// hostileNames are what the incident hostile is made of: a kernel's name and the file's.
const (
	hostileKernel = `</script><img src=x onerror=alert(1)>`
	hostileFile   = `=HYPERLINK("x").json`
)

// pages are the reports that are looked at, with what each has to draw.
var pages = []struct {
	name   string
	wide   []bool   // at 1600 px: dark or not
	narrow []bool   // at 390 px
	charts []string // kinds that must be there
}{
	{"late-rank", []bool{false, true}, []bool{false, true}, []string{"timeline", "steps"}},
	{"samples-only", []bool{false}, []bool{true}, []string{"hero", "timeline", "lane"}},
	{"thermal-throttle", []bool{true}, []bool{false}, []string{"timeline", "steps", "lane"}},
	{"two-zones", []bool{false}, []bool{true}, []string{"timeline", "steps", "lane"}}, // everything was recorded: nothing is missing
	{"checkpoint", []bool{false}, nil, []string{"timeline", "steps"}},
	{"uneven-work", []bool{true}, nil, []string{"timeline", "steps"}}, // long advice
	{"xid-79", []bool{false}, []bool{true}, []string{"hero", "timeline", "lane"}},
	{"healthy-ddp", []bool{false}, nil, []string{"timeline", "steps"}},
	{"hostile", []bool{false}, []bool{true}, []string{"timeline", "steps"}},
	{"damaged", []bool{true}, []bool{false}, []string{"timeline", "steps"}},
}

// pageInputs gives the folder of an incident; damaged is late-rank with one rank's trace cut in the middle.
func pageInputs(t *testing.T, name string) string {
	if name != "damaged" {
		return filepath.Join(fixtures, name, "in")
	}
	dir := t.TempDir()
	for i, path := range inputsOf(t, "late-rank") {
		copyTo(t, path, dir, filepath.Base(path))
		if i != 3 {
			continue
		}
		whole := unpacked(t, path)
		write(t, dir, filepath.Base(path), packed(t, whole[:len(whole)*2/3]))
	}
	return dir
}

func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func packed(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The page of a whole run, opened from disk in a browser that reaches no network.
func TestPages(t *testing.T) {
	browser := pagetest.Start(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			r := gpureport("analyze", "--title", p.name, "--format", "html,json", "-o", dir, pageInputs(t, p.name))
			if r.code != exitOK {
				t.Fatalf("exit %d: %s", r.code, r.stderr)
			}
			rep, file := readReport(t, dir), filepath.Join(dir, "report.html")
			for _, dark := range p.wide {
				x := lookAt(t, browser, p.name, file, pagetest.Look{Width: 1600, Height: 900, Dark: dark}, p.charts)
				if bottom := pagetest.JS[float64](x, `document.querySelector('.four').getBoundingClientRect().bottom`); bottom > 900 {
					t.Errorf("first screen ends at %.0f px of 900", bottom)
				}
				checksHaveRows(x, rep)
				if p.name == "hostile" {
					showsNamesAsText(x)
				}
				x.Quiet()
			}
			for _, dark := range p.narrow {
				x := lookAt(t, browser, p.name, file, pagetest.Look{Width: 390, Height: 844, Dark: dark}, p.charts)
				if w := pagetest.JS[int](x, `document.documentElement.scrollWidth`); w > 390 {
					t.Errorf("page is %d wide in a window of 390", w)
				}
				if p.name == "hostile" {
					showsNamesAsText(x)
				}
				// Opened up it is as narrow.
				pagetest.JS[bool](x, `(document.querySelectorAll('details').forEach(d => { d.open = true; }), document.querySelectorAll('input[type=checkbox]').forEach(b => { b.checked = true; }), true)`)
				if w := pagetest.JS[int](x, `document.documentElement.scrollWidth`); w > 390 {
					t.Errorf("page with all details open is %d wide in a window of 390", w)
				}
				x.Quiet()
			}
			if p.name == "damaged" && !rowHas(rep, "rank3") {
				t.Error("no problem tells of the cut trace")
			}
		})
	}
}

func rowHas(rep *render.Report, path string) bool {
	return slices.ContainsFunc(rep.Problems, func(p render.Problem) bool { return strings.Contains(p.Path, path) })
}

// lookAt opens a page and holds against it what is true of every page at every width: its charts are there, drawn, in ink.
func lookAt(t *testing.T, browser context.Context, name, file string, l pagetest.Look, charts []string) *pagetest.Tab {
	t.Helper()
	x := pagetest.Open(t, browser, file, l)
	kinds := pagetest.JS[[]string](x, `window.gpureportCharts.map(c => c.kind)`)
	for _, k := range charts {
		if !slices.Contains(kinds, k) {
			t.Errorf("no chart of kind %s among %q", k, kinds)
		}
	}
	if n := pagetest.JS[int](x, `document.querySelectorAll('.chart').length`); n != len(kinds) {
		t.Errorf("%d charts started, the page has %d", len(kinds), n)
	}
	if not := pagetest.JS[[]string](x, `window.gpureportCharts.filter(c => !(c.drawn && c.draws > 0 && c.boxes > 0)).map(c => c.kind + ' ' + c.el.getAttribute('aria-label'))`); len(not) > 0 {
		t.Errorf("charts that do not say that they are drawn: %q", not)
	}
	for i, f := range pagetest.JS[[]float64](x, pagetest.Inked) {
		if f < 0.005 {
			t.Errorf("chart %d, %s: %.4f of its pixels are drawn", i, kinds[i], f)
		}
	}
	want := map[bool]string{false: "rgb(255, 255, 255)", true: "rgb(20, 23, 28)"}[l.Dark]
	if got := pagetest.JS[string](x, `getComputedStyle(document.body).backgroundColor`); got != want {
		t.Errorf("page colour %s, want %s", got, want)
	}
	shot := fmt.Sprintf("page-%s-%d-%s", name, l.Width, map[bool]string{false: "light", true: "dark"}[l.Dark])
	if l.Width < 1000 {
		x.ShotCut(shot, "body", 2400)
	} else {
		x.Shot(shot, "body")
	}
	return x
}

// checksHaveRows holds the checklist against the report: each rule has one row, each unknown the commands that would answer it.
func checksHaveRows(x *pagetest.Tab, rep *render.Report) {
	x.Helper()
	type row struct {
		Outcome string   `json:"outcome"`
		Code    []string `json:"code"`
	}
	rows := pagetest.JS[map[string][]row](x, `(() => { const out = {};
		for (const e of document.querySelectorAll('.check')) {
			const id = e.querySelector('.cid').firstChild.textContent.trim();
			(out[id] = out[id] || []).push({outcome: e.dataset.outcome, code: [...e.querySelectorAll('.cmd code')].map(c => c.textContent)});
		}
		return out; })()`)
	rules := map[string]bool{}
	for i := range rep.Checks {
		c := &rep.Checks[i]
		rules[c.ID] = true
		got := rows[c.ID]
		if len(got) != 1 {
			x.Errorf("%s has %d rows, want 1", c.ID, len(got))
			continue
		}
		if c.Outcome != "unknown" || got[0].Outcome != "unknown" {
			continue
		}
		if len(c.Missing) == 0 {
			x.Errorf("%s %s is unknown and misses nothing", c.ID, c.Subject.ID)
		}
		for _, m := range c.Missing {
			if m.Capture != "" && len(got[0].Code) == 0 {
				x.Errorf("%s %s: no command on the page, the report has %q", c.ID, c.Subject.ID, m.Capture)
			}
		}
	}
	if dead := pagetest.JS[[]string](x, `[...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !h.startsWith('#') || !document.getElementById(h.slice(1)))`); len(dead) > 0 {
		x.Errorf("links that lead nowhere: %q", dead)
	}
	if len(rows) != len(rules) {
		x.Errorf("%d rules have rows, the report has %d", len(rows), len(rules))
	}
}

// showsNamesAsText looks for the names of a hostile trace: each is there as text, and none made an element or opened a dialog. Tooltips and
// the tables of charts are opened first.
func showsNamesAsText(x *pagetest.Tab) {
	x.Helper()
	pagetest.JS[bool](x, `(document.querySelectorAll('.astable').forEach(d => { d.open = true; }), true)`)
	for _, name := range []string{hostileKernel, hostileFile} {
		if n := pagetest.JS[int](x, fmt.Sprintf(`(s => [...document.querySelectorAll('main td, main th, main code')].filter(e => e.textContent.includes(s)).length)(%q)`, name)); n == 0 {
			x.Errorf("%s is nowhere on the page", name)
		}
	}
	pagetest.JS[bool](x, `(() => { for (const c of window.gpureportCharts) {
			if (!c.hover) continue;
			const r = c.el.getBoundingClientRect();
			for (let px = 4; px < r.width; px += 40) for (let py = 4; py < r.height; py += 11) c.hover(px, py);
		} return true; })()`)
	if n := pagetest.JS[int](x, `document.querySelectorAll('img, iframe, object, embed, link, svg, base, form, [onerror], [onload], [onclick]').length`); n != 0 {
		x.Errorf("%d elements came out of names", n)
	}
	if n := pagetest.JS[int](x, `document.querySelectorAll('script:not([type])').length`); n != 2 {
		x.Errorf("%d scripts, want 2", n)
	}
	if n := pagetest.JS[int](x, `[...document.querySelectorAll('a')].filter(a => !a.getAttribute('href').startsWith('#')).length`); n != 0 {
		x.Errorf("%d links lead out of the page", n)
	}
}
