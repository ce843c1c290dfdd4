// Package pagetest opens report pages in a browser that reaches no network and remembers what they say and ask for. Tests alone import it.
//
// GPUREPORT_BROWSER=required makes a missing browser a failure; GPUREPORT_SHOTS names a folder that gets pictures of the pages.
package pagetest

import (
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
)

func browserPath(t testing.TB) string {
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

// Start gives a browser that reaches no network. It ends with the test.
func Start(t testing.TB) context.Context {
	t.Helper()
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
	ctx, closeAll := chromedp.NewContext(ctx) // pages are its tabs
	t.Cleanup(closeAll)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// Look is how a page is looked at.
type Look struct {
	Width, Height int64
	Dark          bool
	NoScript      bool
}

// Tab is an opened page with what it said and asked for.
type Tab struct {
	testing.TB
	Ctx context.Context

	mu       sync.Mutex
	requests []string
	console  []string
	dialogs  []string
}

// Open opens the file in a new tab and waits until its charts are drawn. The tab closes with the test.
func Open(t testing.TB, browser context.Context, file string, l Look) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	x := &Tab{TB: t, Ctx: ctx}
	self := (&url.URL{Scheme: "file", Path: file}).String()
	if err := chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			if e.Request.URL != self && !strings.HasPrefix(e.Request.URL, "data:") {
				x.note(&x.requests, e.Request.URL)
			}
		case *page.EventJavascriptDialogOpening:
			x.note(&x.dialogs, e.Message)
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
			x.note(&x.console, fmt.Sprintf("%v: %s", m.Type, m.Text))
		}
	}()
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		t.Fatal(err)
	}
	if l.NoScript {
		if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(l.Width, l.Height), chromedp.Navigate(self)); err != nil {
		t.Fatal(err)
	}
	if !l.NoScript {
		for i := 0; ; i++ {
			if JS[string](x, `document.documentElement.dataset.ready || ''`) == "yes" {
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

func (x *Tab) note(list *[]string, s string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*list = append(*list, s)
}

func (x *Tab) said() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.console...)
}

// JS gives the value of an expression in the page.
func JS[T any](x *Tab, expr string) T {
	x.Helper()
	v, err := chromedp.Run(x.Ctx, chromedp.Evaluate[T](expr))
	if err != nil {
		x.Fatalf("%s: %v", expr, err)
	}
	return v
}

// Quiet fails if the page asked for anything, opened a dialog, or the console holds anything.
func (x *Tab) Quiet() {
	x.Helper()
	time.Sleep(100 * time.Millisecond)
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.requests) > 0 {
		x.Errorf("requests left the page: %q", x.requests)
	}
	if len(x.dialogs) > 0 {
		x.Errorf("the page opened dialogs: %q", x.dialogs)
	}
	if len(x.console) > 0 {
		x.Errorf("console: %q", x.console)
	}
}

// Shot leaves a picture of an element, whole.
func (x *Tab) Shot(name, sel string) {
	x.Helper()
	x.ShotCut(name, sel, 0)
}

// ShotCut leaves a picture of the upper part of an element, at most most pixels high; 0 is all of it.
func (x *Tab) ShotCut(name, sel string, most float64) {
	x.Helper()
	if os.Getenv("GPUREPORT_SHOTS") == "" {
		return
	}
	r := JS[[]float64](x, fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.left + scrollX, r.top + scrollY, r.width, r.height]; })()`, sel))
	if most > 0 {
		r[3] = min(r[3], most)
	}
	out, err := chromedp.Call(x.Ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true), Clip: &page.Viewport{X: r[0], Y: r[1], Width: r[2], Height: r[3], Scale: 1}})
	if err != nil {
		x.Fatal(err)
	}
	Keep(x, name+".png", out.Data)
}

// Keep leaves a file in the folder of pictures, if there is one.
func Keep(t testing.TB, name string, data []byte) {
	t.Helper()
	dir := os.Getenv("GPUREPORT_SHOTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Inked gives the share of each chart's pixels that are not the page's colour.
const Inked = `window.gpureportCharts.map(c => {
	const k = c.el.querySelector('canvas'), d = k.getContext('2d').getImageData(0, 0, k.width, k.height).data;
	let n = 0;
	for (let i = 3; i < d.length; i += 4) if (d[i] > 0) n++;
	return n / (d.length / 4);
})`
