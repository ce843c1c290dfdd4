// Package ingesttest reads texts in tests of formats and prints what came of them, a line a reading.
package ingesttest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Reader is a format under test.
type Reader struct{ ingest.Format }

// Read reads a text; what comes of it must be sound.
func (f Reader) Read(t testing.TB, text string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("x.log", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, nil)
	b := ingest.NewBuilder(in, f.Name)
	err := f.Format.Read(context.Background(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	return tl, in.Problems(), err
}

// Shown prints readings and attributes as "GPU 0: power_w 60@08:12:53" and "GPU 0: mig_mode=enabled", by track in the order of their making.
func Shown(tl *timeline.Timeline) []string {
	var out []string
	for id, tr := range tl.Tracks {
		var of []string
		for i := range tl.Series {
			s := &tl.Series[i]
			for j := range s.At {
				if s.Track == timeline.TrackID(id) {
					of = append(of, fmt.Sprintf("%s: %s %.13g@%s", tr.Name, s.Metric.Name, s.Value[j], stamp(s.At[j])))
				}
			}
		}
		for _, a := range tl.Attrs {
			switch {
			case a.Track != timeline.TrackID(id):
			case a.Unit == unit.Text:
				of = append(of, tr.Name+": "+a.Name+"="+a.Text)
			default:
				of = append(of, fmt.Sprintf("%s: %s=%.13g", tr.Name, a.Name, a.Value))
			}
		}
		slices.Sort(of)
		out = append(out, of...)
	}
	return out
}

func stamp(at timeline.Time) string {
	if at < 1e17 {
		return time.Duration(at).String()
	}
	return time.Unix(0, int64(at)).UTC().Format("15:04:05.999")
}

// Codes prints problems as "short-row@3*2": code without the format, first row, count.
func (f Reader) Codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, f.Name+"/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

// Real gives the text of a real file, by its folder and name; the test is skipped aloud without them.
func Real(t testing.TB, folder, name string) string {
	t.Helper()
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	b, err := os.ReadFile(filepath.Join(dir, folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Has tells which of the wanted lines are not shown.
func Has(t *testing.T, tl *timeline.Timeline, want ...string) {
	t.Helper()
	got := Shown(tl)
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no %q", w)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

// CutAnywhere cuts a text at 200 places: nothing of it may crash, and no value may be shown that the whole does not have.
func (f Reader) CutAnywhere(t *testing.T, text string) {
	t.Helper()
	whole, _, err := f.Read(t, text)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, s := range Shown(whole) {
		all[s] = true
	}
	for k := range 200 {
		tl, _, _ := f.Read(t, text[:len(text)*k/200])
		for _, s := range Shown(tl) {
			if !all[s] {
				t.Fatalf("cut at %d of 200: %s", k, s)
			}
		}
	}
}
