package html

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"gpureport/render"
)

// GPUREPORT_BROWSER=required makes a missing browser a failure; GPUREPORT_SHOTS names a folder that gets pictures of the pages.

func browserPath(t *testing.T) string {
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(n); err == nil {
			return p
		}
	}
	if os.Getenv("GPUREPORT_BROWSER") == "required" {
		t.Fatal("no browser in PATH, and GPUREPORT_BROWSER=required")
	}
	t.Skip("no browser in PATH: the page is not tried in one")
	return ""
}

// startBrowser gives a browser that reaches no network.
func startBrowser(t *testing.T) context.Context {
	path := browserPath(t)
	ctx, stop := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(stop)
	dir, err := os.MkdirTemp("", "gpureport-browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 50 { // the browser's children may still write
			if os.RemoveAll(dir) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.WSURLReadTimeout(time.Minute)}
	ctx, stopAlloc := chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stopAlloc)
	return ctx
}

// tab is an opened page with what it said and asked for.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	console  []string
}

type look struct {
	width, height int64
	dark          bool
	noScript      bool
}

func open(t *testing.T, browser context.Context, sections []render.Section, l look) *tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	var b bytes.Buffer
	if err := Write(&b, sections, sampleMeta); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	x := &tab{T: t, ctx: ctx}
	page := (&url.URL{Scheme: "file", Path: file}).String()
	if err := chromedp.Listen(ctx, func(ev any) {
		if r, ok := ev.(*network.EventRequestWillBeSent); ok && r.Request.URL != page && !strings.HasPrefix(r.Request.URL, "data:") {
			x.mu.Lock()
			x.requests = append(x.requests, r.Request.URL)
			x.mu.Unlock()
		}
	}); err != nil {
		t.Fatal(err)
	}
	said := chromedp.Console(ctx)
	go func() {
		for m, err := range said {
			if err != nil {
				return
			}
			x.mu.Lock()
			x.console = append(x.console, fmt.Sprintf("%v: %s", m.Type, m.Text))
			x.mu.Unlock()
		}
	}()
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		t.Fatal(err)
	}
	if l.noScript {
		if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(l.width, l.height), chromedp.Navigate(page)); err != nil {
		t.Fatal(err)
	}
	if !l.noScript {
		for i := 0; ; i++ {
			if js[string](x, `document.documentElement.dataset.ready || ''`) == "yes" {
				break
			}
			if i == 100 {
				t.Fatalf("page did not get ready; console: %q", x.said())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return x
}

func js[T any](x *tab, expr string) T {
	x.Helper()
	v, err := chromedp.Run(x.ctx, chromedp.Evaluate[T](expr))
	if err != nil {
		x.Fatalf("%s: %v", expr, err)
	}
	return v
}

func (x *tab) said() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.console...)
}

// quiet fails if the page asked for anything or the console holds anything.
func (x *tab) quiet() {
	x.Helper()
	time.Sleep(100 * time.Millisecond)
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.requests) > 0 {
		x.Errorf("requests left the page: %q", x.requests)
	}
	if len(x.console) > 0 {
		x.Errorf("console: %q", x.console)
	}
}

// shot leaves a picture of an element, or of the whole page.
func (x *tab) shot(name, sel string) {
	x.Helper()
	dir := os.Getenv("GPUREPORT_SHOTS")
	if dir == "" {
		return
	}
	r := js[[]float64](x, fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.left + scrollX, r.top + scrollY, r.width, r.height]; })()`, sel))
	out, err := chromedp.Call(x.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true), Clip: &page.Viewport{X: r[0], Y: r[1], Width: r[2], Height: r[3], Scale: 1}})
	if err != nil {
		x.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), out.Data, 0o644); err != nil {
		x.Fatal(err)
	}
}

// inked counts pixels of each canvas that are not the page's colour.
const inked = `window.gpureportCharts.map(c => {
	const k = c.el.querySelector('canvas'), d = k.getContext('2d').getImageData(0, 0, k.width, k.height).data;
	let n = 0;
	for (let i = 3; i < d.length; i += 4) if (d[i] > 0) n++;
	return n / (d.length / 4);
})`

func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	for _, l := range []look{{1600, 900, false, false}, {1600, 900, true, false}, {390, 844, false, false}, {390, 844, true, false}} {
		name := fmt.Sprintf("full-%d-dark=%v", l.width, l.dark)
		t.Run(name, func(t *testing.T) {
			x := open(t, b, sampleSections(), l)
			for i, f := range js[[]float64](x, inked) {
				if f < 0.01 {
					t.Errorf("chart %d: %.4f of its pixels are drawn", i, f)
				}
			}
			if n := js[int](x, `window.gpureportCharts.length`); n != 5 {
				t.Errorf("%d charts, want 5", n)
			}
			if n := js[int](x, `window.gpureportCharts.filter(c => c.drawn && c.draws > 0 && c.boxes > 0).length`); n != 5 {
				t.Errorf("%d charts say that they are drawn, want 5", n)
			}
			if w := js[int](x, `document.documentElement.scrollWidth`); w > int(l.width) {
				t.Errorf("page is %d wide in a window of %d", w, l.width)
			}
			want := "rgb(255, 255, 255)"
			if l.dark {
				want = "rgb(20, 23, 28)"
			}
			if got := js[string](x, `getComputedStyle(document.body).backgroundColor`); got != want {
				t.Errorf("page colour %s, want %s", got, want)
			}
			if l.width == 1600 {
				if bottom := js[float64](x, `document.querySelector('.four').getBoundingClientRect().bottom`); bottom > 900 {
					t.Errorf("first screen ends at %.0f px of 900", bottom)
				}
			}
			for _, s := range []string{"verdict", "dips", "timeline", "ledger", "checklist", "kernels", "hardware", "plan", "inputs"} {
				x.shot(name+"-"+s, "#"+s)
			}
			x.shot(name+"-top", "main .head")
			x.quiet()
		})
	}
	for n, s := range map[string]func() []render.Section{"samples": samplesOnly, "damaged": damaged, "none": noFindings} {
		t.Run(n, func(t *testing.T) {
			x := open(t, b, s(), look{width: 1280, height: 900})
			for i, f := range js[[]float64](x, inked) {
				if f < 0.005 {
					t.Errorf("chart %d: %.4f of its pixels are drawn", i, f)
				}
			}
			x.shot(n, "main")
			x.quiet()
		})
	}
}

func TestBrowserTimeLine(t *testing.T) {
	b := startBrowser(t)
	x := open(t, b, sampleSections(), look{width: 1600, height: 1200})
	js[bool](x, `(window.tl = window.gpureportCharts.find(c => c.kind === 'timeline')) !== undefined`)
	view := func() []float64 { return js[[]float64](x, `tl.view`) }
	settle := func() { time.Sleep(150 * time.Millisecond) }
	if v := view(); v[0] != 0 || v[1] < 50.5 {
		t.Errorf("view at the start %v", v)
	}
	if l := js[string](x, `tl.level`); l != "steps" {
		t.Errorf("level of the whole run %q, want steps", l)
	}
	js[bool](x, `(document.querySelector('[data-go=slow]').click(), true)`)
	settle()
	if v := view(); v[1]-v[0] > 5 || v[0] > 24.6 || v[1] < 26 {
		t.Errorf("view of the slowest step %v", v)
	}
	js[bool](x, `(tl.look(5.5, 7.3), true)`)
	settle()
	if l := js[string](x, `tl.level`); l != "intervals" {
		t.Errorf("level at 1.8 s %q, want intervals", l)
	}
	// Pointing: the tooltip names the owner and stays off the row under the pointer.
	js[bool](x, `(tl.el.scrollIntoView({block: 'center'}), tl.hover(tl.X(5.98), tl.rowsY + 26 * 2 + 11), true)`)
	text := js[string](x, `document.getElementById('tip').textContent`)
	for _, want := range []string{"GPU 2, rank 2", "step 14", "Waiting for a peer", "GPU 5, rank 5, same step: DataLoader"} {
		if !strings.Contains(text, want) {
			t.Errorf("tooltip %q does not say %q", text, want)
		}
	}
	if over := js[bool](x, `(() => { const t = document.getElementById('tip').getBoundingClientRect(), e = tl.el.getBoundingClientRect(), y = e.top + tl.rowsY + 52; return t.bottom > y && t.top < y + 22; })()`); over {
		t.Error("tooltip covers the row under the pointer")
	}
	x.shot("timeline-zoom", "#timeline")
	// Keys: the whole run, a dip, a step, another GPU.
	key := func(k string, shift bool) {
		js[bool](x, fmt.Sprintf(`(tl.el.focus(), tl.el.dispatchEvent(new KeyboardEvent('keydown', {key: %q, shiftKey: %v, bubbles: true})), true)`, k, shift))
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
	if s := js[string](x, `document.getElementById('live').textContent`); !strings.Contains(s, "held by") {
		t.Errorf("live region after n: %q", s)
	}
	key("0", false)
	key("ArrowRight", false)
	key("ArrowRight", false)
	if s := js[string](x, `document.getElementById('live').textContent`); !strings.Contains(s, "GPU 5, rank 5, step 1") {
		t.Errorf("live region after two arrows: %q", s)
	}
	key("ArrowDown", true)
	if s := js[string](x, `document.getElementById('live').textContent`); !strings.Contains(s, "GPU 6, rank 6, step 1") {
		t.Errorf("live region after shift and arrow: %q", s)
	}
	key("+", false)
	if v := view(); v[1]-v[0] > 26 {
		t.Errorf("view after +: %v", v)
	}
	// The wheel scrolls the page; with Ctrl it zooms.
	wheel := func(ctrl bool) bool {
		return js[bool](x, fmt.Sprintf(`(() => { const c = tl.el.querySelector('canvas'), r = c.getBoundingClientRect();
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
	before := js[string](x, `tl.el.querySelector('canvas').toDataURL()`)
	js[bool](x, `(document.querySelector('[data-set=dark]').click(), true)`)
	settle()
	if js[string](x, `tl.el.querySelector('canvas').toDataURL()`) == before {
		t.Error("canvas did not follow the theme")
	}
	// A rank is chosen in the step chart.
	js[bool](x, `(document.querySelector('[data-rank="5"]').click(), true)`)
	settle()
	if s := js[string](x, `document.querySelector('.shead h3').textContent`); !strings.Contains(s, "rank 5") {
		t.Errorf("step chart is titled %q", s)
	}
	// Filters hide rows, not stages.
	js[bool](x, `(document.querySelector('[data-filter=unknown]').click(), true)`)
	if n := js[int](x, `[...document.querySelectorAll('.check')].filter(e => e.offsetParent).length`); n != 21 {
		t.Errorf("%d rows under the filter unknown, want 21", n)
	}
	if n := js[int](x, `[...document.querySelectorAll('.stage')].filter(e => e.offsetParent).length`); n != 7 {
		t.Errorf("%d stages under a filter, want 7", n)
	}
	x.quiet()
}

func TestBrowserHostile(t *testing.T) {
	b := startBrowser(t)
	x := open(t, b, hostile(), look{width: 390, height: 844})
	if n := js[int](x, `document.querySelectorAll('img, iframe, object, embed, link, [onerror], [onload], svg').length`); n != 0 {
		t.Errorf("%d elements came out of names", n)
	}
	if n := js[int](x, `document.querySelectorAll('script:not([type])').length`); n != 2 {
		t.Errorf("%d scripts, want 2", n)
	}
	js[bool](x, `(() => { const c = window.gpureportCharts.find(c => c.kind === 'timeline'); c.hover(c.X(3), c.rowsY + 5); return true; })()`)
	if s := js[string](x, `document.getElementById('tip').textContent`); !strings.Contains(s, evil[0]) {
		t.Errorf("tooltip does not show the name as text: %q", s)
	}
	if n := js[int](x, `document.getElementById('tip').querySelectorAll('img, script').length`); n != 0 {
		t.Error("tooltip made elements of a name")
	}
	if w := js[int](x, `document.documentElement.scrollWidth`); w > 390 {
		t.Errorf("page is %d wide in a window of 390", w)
	}
	for i, f := range js[[]float64](x, inked) {
		if f < 0.005 {
			t.Errorf("chart %d: %.4f of its pixels are drawn", i, f)
		}
	}
	if js[bool](x, `!!document.querySelector('a[href^="javascript:"]')`) {
		t.Error("a link runs script")
	}
	x.shot("hostile", "main")
	x.quiet()
}

func TestBrowserPrint(t *testing.T) {
	b := startBrowser(t)
	x := open(t, b, sampleSections(), look{width: 1600, height: 900, dark: true})
	pdf, err := chromedp.Run(x.ctx, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground()))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(pdf, []byte("%PDF")) || len(pdf) < 50_000 {
		t.Errorf("print gave %d bytes", len(pdf))
	}
	if dir := os.Getenv("GPUREPORT_SHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "print.pdf"), pdf, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The same on screen: paper's width, print's rules.
	if _, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(x.ctx, chromedp.EmulateViewport(695, 1000)); err != nil {
		t.Fatal(err)
	}
	js[bool](x, `(dispatchEvent(new Event('beforeprint')), true)`)
	if n := js[int](x, `document.querySelectorAll('details.o-finding:not([open])').length`); n != 0 {
		t.Errorf("%d findings are folded in print", n)
	}
	if w := js[float64](x, `document.querySelector('.chart').clientWidth`); w > 700 {
		t.Errorf("charts are %.0f px wide in print", w)
	}
	if c := js[string](x, `getComputedStyle(document.body).backgroundColor`); c != "rgb(255, 255, 255)" {
		t.Errorf("paper is %s", c)
	}
	x.shot("print", "main")
	x.shot("print-verdict", "#verdict")
	x.shot("print-timeline", "#timeline")
	x.shot("print-checklist", ".stage:nth-of-type(3)")
	js[bool](x, `(dispatchEvent(new Event('afterprint')), true)`)
	x.quiet()
}

func TestBrowserWithoutScript(t *testing.T) {
	b := startBrowser(t)
	x := open(t, b, sampleSections(), look{width: 1600, height: 900, noScript: true})
	out, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("GPUREPORT_SHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "no-script.png"), out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := chromedp.Run(x.ctx, chromedp.Text("#checklist"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range stageIDs {
		if !strings.Contains(text, id+".bad") {
			t.Errorf("checklist without script lacks %s.bad", id)
		}
	}
}
