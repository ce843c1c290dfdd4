package html

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"gpureport/render"
	"gpureport/render/html/pagetest"
)

func open(t *testing.T, browser context.Context, sections []render.Section, l pagetest.Look) *pagetest.Tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	var b bytes.Buffer
	if err := Write(&b, sections, sampleMeta); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return pagetest.Open(t, browser, file, l)
}

func TestBrowser(t *testing.T) {
	b := pagetest.Start(t)
	for _, l := range []pagetest.Look{{Width: 1600, Height: 900}, {Width: 1600, Height: 900, Dark: true}, {Width: 390, Height: 844}, {Width: 390, Height: 844, Dark: true}} {
		name := fmt.Sprintf("full-%d-dark=%v", l.Width, l.Dark)
		t.Run(name, func(t *testing.T) {
			x := open(t, b, sampleSections(), l)
			for i, f := range pagetest.JS[[]float64](x, pagetest.Inked) {
				if f < 0.01 {
					t.Errorf("chart %d: %.4f of its pixels are drawn", i, f)
				}
			}
			if n := pagetest.JS[int](x, `window.gpureportCharts.length`); n != 5 {
				t.Errorf("%d charts, want 5", n)
			}
			if n := pagetest.JS[int](x, `window.gpureportCharts.filter(c => c.drawn && c.draws > 0 && c.boxes > 0).length`); n != 5 {
				t.Errorf("%d charts say that they are drawn, want 5", n)
			}
			if w := pagetest.JS[int](x, `document.documentElement.scrollWidth`); w > int(l.Width) {
				t.Errorf("page is %d wide in a window of %d", w, l.Width)
			}
			want := "rgb(255, 255, 255)"
			if l.Dark {
				want = "rgb(20, 23, 28)"
			}
			if got := pagetest.JS[string](x, `getComputedStyle(document.body).backgroundColor`); got != want {
				t.Errorf("page colour %s, want %s", got, want)
			}
			if l.Width == 1600 {
				if bottom := pagetest.JS[float64](x, `document.querySelector('.four').getBoundingClientRect().bottom`); bottom > 900 {
					t.Errorf("first screen ends at %.0f px of 900", bottom)
				}
			}
			for _, s := range []string{"verdict", "dips", "timeline", "ledger", "checklist", "kernels", "hardware", "plan", "inputs"} {
				x.Shot(name+"-"+s, "#"+s)
			}
			x.Shot(name+"-top", "main .head")
			x.Quiet()
		})
	}
	for n, s := range map[string]func() []render.Section{"samples": samplesOnly, "damaged": damaged, "none": noFindings} {
		t.Run(n, func(t *testing.T) {
			x := open(t, b, s(), pagetest.Look{Width: 1280, Height: 900})
			for i, f := range pagetest.JS[[]float64](x, pagetest.Inked) {
				if f < 0.005 {
					t.Errorf("chart %d: %.4f of its pixels are drawn", i, f)
				}
			}
			x.Shot(n, "main")
			x.Quiet()
		})
	}
}

func TestBrowserTimeLine(t *testing.T) {
	b := pagetest.Start(t)
	x := open(t, b, sampleSections(), pagetest.Look{Width: 1600, Height: 1200})
	pagetest.JS[bool](x, `(window.tl = window.gpureportCharts.find(c => c.kind === 'timeline')) !== undefined`)
	view := func() []float64 { return pagetest.JS[[]float64](x, `tl.view`) }
	settle := func() { time.Sleep(150 * time.Millisecond) }
	if v := view(); v[0] != 0 || v[1] < 50.5 {
		t.Errorf("view at the start %v", v)
	}
	if l := pagetest.JS[string](x, `tl.level`); l != "steps" {
		t.Errorf("level of the whole run %q, want steps", l)
	}
	pagetest.JS[bool](x, `(document.querySelector('[data-go=slow]').click(), true)`)
	settle()
	if v := view(); v[1]-v[0] > 5 || v[0] > 24.6 || v[1] < 26 {
		t.Errorf("view of the slowest step %v", v)
	}
	pagetest.JS[bool](x, `(tl.look(5.5, 7.3), true)`)
	settle()
	if l := pagetest.JS[string](x, `tl.level`); l != "intervals" {
		t.Errorf("level at 1.8 s %q, want intervals", l)
	}
	// Pointing: the tooltip names the owner and stays off the row under the pointer.
	pagetest.JS[bool](x, `(tl.el.scrollIntoView({block: 'center'}), tl.hover(tl.X(5.98), tl.rowsY + 26 * 2 + 11), true)`)
	text := pagetest.JS[string](x, `document.getElementById('tip').textContent`)
	for _, want := range []string{"GPU 2, rank 2", "step 14", "Waiting for a peer", "GPU 5, rank 5, same step: DataLoader"} {
		if !strings.Contains(text, want) {
			t.Errorf("tooltip %q does not say %q", text, want)
		}
	}
	if over := pagetest.JS[bool](x, `(() => { const t = document.getElementById('tip').getBoundingClientRect(), e = tl.el.getBoundingClientRect(), y = e.top + tl.rowsY + 52; return t.bottom > y && t.top < y + 22; })()`); over {
		t.Error("tooltip covers the row under the pointer")
	}
	x.Shot("timeline-zoom", "#timeline")
	// Keys: the whole run, a dip, a step, another GPU.
	key := func(k string, shift bool) {
		pagetest.JS[bool](x, fmt.Sprintf(`(tl.el.focus(), tl.el.dispatchEvent(new KeyboardEvent('keydown', {key: %q, shiftKey: %v, bubbles: true})), true)`, k, shift))
		settle()
	}
	key("0", false)
	if v := view(); v[1]-v[0] < 50 {
		t.Errorf("view after 0: %v", v)
	}
	key("n", false)
	if v := view(); v[1]-v[0] > 5 {
		t.Errorf("view after n: %v", v)
	}
	if s := pagetest.JS[string](x, `document.getElementById('live').textContent`); !strings.Contains(s, "held by") {
		t.Errorf("live region after n: %q", s)
	}
	key("0", false)
	key("ArrowRight", false)
	key("ArrowRight", false)
	if s := pagetest.JS[string](x, `document.getElementById('live').textContent`); !strings.Contains(s, "GPU 5, rank 5, step 1") {
		t.Errorf("live region after two arrows: %q", s)
	}
	key("ArrowDown", true)
	if s := pagetest.JS[string](x, `document.getElementById('live').textContent`); !strings.Contains(s, "GPU 6, rank 6, step 1") {
		t.Errorf("live region after shift and arrow: %q", s)
	}
	key("+", false)
	if v := view(); v[1]-v[0] > 26 {
		t.Errorf("view after +: %v", v)
	}
	// The wheel scrolls the page; with Ctrl it zooms.
	wheel := func(ctrl bool) bool {
		return pagetest.JS[bool](x, fmt.Sprintf(`(() => { const c = tl.el.querySelector('canvas'), r = c.getBoundingClientRect();
			const e = new WheelEvent('wheel', {deltaY: -120, ctrlKey: %v, clientX: r.left + 600, clientY: r.top + 200, bubbles: true, cancelable: true});
			c.dispatchEvent(e); return e.defaultPrevented; })()`, ctrl))
	}
	key("0", false)
	if wheel(false) {
		t.Error("the wheel alone is taken from the page")
	}
	settle()
	if v := view(); v[1]-v[0] < 50 {
		t.Errorf("the wheel alone zoomed to %v", v)
	}
	wheel(true)
	settle()
	if v := view(); v[1]-v[0] > 49 {
		t.Errorf("Ctrl and wheel left the view at %v", v)
	}
	// The theme switch recolours the canvas.
	before := pagetest.JS[string](x, `tl.el.querySelector('canvas').toDataURL()`)
	pagetest.JS[bool](x, `(document.querySelector('[data-set=dark]').click(), true)`)
	settle()
	if pagetest.JS[string](x, `tl.el.querySelector('canvas').toDataURL()`) == before {
		t.Error("canvas did not follow the theme")
	}
	// A rank is chosen in the step chart.
	pagetest.JS[bool](x, `(document.querySelector('[data-rank="5"]').click(), true)`)
	settle()
	if s := pagetest.JS[string](x, `document.querySelector('.shead h3').textContent`); !strings.Contains(s, "rank 5") {
		t.Errorf("step chart is titled %q", s)
	}
	// Filters hide rows, not stages.
	pagetest.JS[bool](x, `(document.querySelector('[data-filter=unknown]').click(), true)`)
	if n := pagetest.JS[int](x, `[...document.querySelectorAll('.check')].filter(e => e.offsetParent).length`); n != 21 {
		t.Errorf("%d rows under the filter unknown, want 21", n)
	}
	if n := pagetest.JS[int](x, `[...document.querySelectorAll('.stage')].filter(e => e.offsetParent).length`); n != 7 {
		t.Errorf("%d stages under a filter, want 7", n)
	}
	x.Quiet()
}

func TestBrowserHostile(t *testing.T) {
	b := pagetest.Start(t)
	x := open(t, b, hostile(), pagetest.Look{Width: 390, Height: 844})
	if n := pagetest.JS[int](x, `document.querySelectorAll('img, iframe, object, embed, link, [onerror], [onload], svg').length`); n != 0 {
		t.Errorf("%d elements came out of names", n)
	}
	if n := pagetest.JS[int](x, `document.querySelectorAll('script:not([type])').length`); n != 2 {
		t.Errorf("%d scripts, want 2", n)
	}
	pagetest.JS[bool](x, `(() => { const c = window.gpureportCharts.find(c => c.kind === 'timeline'); c.hover(c.X(3), c.rowsY + 5); return true; })()`)
	if s := pagetest.JS[string](x, `document.getElementById('tip').textContent`); !strings.Contains(s, evil[0]) {
		t.Errorf("tooltip does not show the name as text: %q", s)
	}
	if n := pagetest.JS[int](x, `document.getElementById('tip').querySelectorAll('img, script').length`); n != 0 {
		t.Error("tooltip made elements of a name")
	}
	if w := pagetest.JS[int](x, `document.documentElement.scrollWidth`); w > 390 {
		t.Errorf("page is %d wide in a window of 390", w)
	}
	for i, f := range pagetest.JS[[]float64](x, pagetest.Inked) {
		if f < 0.005 {
			t.Errorf("chart %d: %.4f of its pixels are drawn", i, f)
		}
	}
	if pagetest.JS[bool](x, `!!document.querySelector('a[href^="javascript:"]')`) {
		t.Error("a link runs script")
	}
	x.Shot("hostile", "main")
	x.Quiet()
}

func TestBrowserPrint(t *testing.T) {
	b := pagetest.Start(t)
	x := open(t, b, sampleSections(), pagetest.Look{Width: 1600, Height: 900, Dark: true})
	pdf, err := chromedp.Run(x.Ctx, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground()))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(pdf, []byte("%PDF")) || len(pdf) < 50_000 {
		t.Errorf("print gave %d bytes", len(pdf))
	}
	pagetest.Keep(t, "print.pdf", pdf)
	// The same on screen: paper's width, print's rules.
	if _, err := chromedp.Call(x.Ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(x.Ctx, chromedp.EmulateViewport(695, 1000)); err != nil {
		t.Fatal(err)
	}
	pagetest.JS[bool](x, `(dispatchEvent(new Event('beforeprint')), true)`)
	if n := pagetest.JS[int](x, `document.querySelectorAll('details.o-finding:not([open])').length`); n != 0 {
		t.Errorf("%d findings are folded in print", n)
	}
	if w := pagetest.JS[float64](x, `document.querySelector('.chart').clientWidth`); w > 700 {
		t.Errorf("charts are %.0f px wide in print", w)
	}
	if c := pagetest.JS[string](x, `getComputedStyle(document.body).backgroundColor`); c != "rgb(255, 255, 255)" {
		t.Errorf("paper is %s", c)
	}
	x.Shot("print", "main")
	x.Shot("print-verdict", "#verdict")
	x.Shot("print-timeline", "#timeline")
	x.Shot("print-checklist", ".stage:nth-of-type(3)")
	pagetest.JS[bool](x, `(dispatchEvent(new Event('afterprint')), true)`)
	x.Quiet()
}

func TestBrowserWithoutScript(t *testing.T) {
	b := pagetest.Start(t)
	x := open(t, b, sampleSections(), pagetest.Look{Width: 1600, Height: 900, NoScript: true})
	out, err := chromedp.Run(x.Ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	pagetest.Keep(t, "no-script.png", out)
	text, err := chromedp.Run(x.Ctx, chromedp.Text("#checklist"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range stageIDs {
		if !strings.Contains(text, id+".bad") {
			t.Errorf("checklist without script lacks %s.bad", id)
		}
	}
}
