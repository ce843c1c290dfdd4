package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/render"
)

var allFormats = []string{"html", "xlsx", "json", "md"}

// written analyses into a new folder and gives every output by its name.
func written(t *testing.T, args ...string) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if r := gpureport(append([]string{"analyze", "--format", strings.Join(allFormats, ","), "-o", dir}, args...)...); r.code != exitOK {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	out := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = b
	}
	if len(out) != len(allFormats) {
		t.Fatalf("%d files written, want %v: %v", len(out), allFormats, entries)
	}
	return out
}

func sameBytes(t *testing.T, what string, a, b map[string][]byte) {
	t.Helper()
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			i := 0
			for i < min(len(a[name]), len(b[name])) && a[name][i] == b[name][i] {
				i++
			}
			t.Errorf("%s: %s differs at byte %d: %.80q, then %.80q", what, name, i, a[name][i:], b[name][min(i, len(b[name])):])
		}
	}
}

func TestSameInputsSameBytes(t *testing.T) {
	for _, name := range []string{"uneven-work", "thermal-throttle"} {
		in := filepath.Join(fixtures, name, "in")
		first := written(t, in)
		sameBytes(t, name+", a second run", first, written(t, in))
		sameBytes(t, name+", with --memory 1GB", first, written(t, "--memory", "1GB", in))
	}
}

func TestArgumentOrderChangesNoByte(t *testing.T) {
	paths := slices.Concat(inputsOf(t, "uneven-work"), inputsOf(t, "samples-only"))
	first := written(t, paths...)
	back := slices.Clone(paths)
	slices.Reverse(back)
	sameBytes(t, "arguments backwards", first, written(t, back...))
}

// shifted is a trace whose clock is later by d.
func shifted(t *testing.T, from, dir string, d time.Duration) string {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`"baseTimeNanoseconds": (\d+)`).FindSubmatchIndex(b)
	if at == nil {
		t.Fatalf("%s has no baseTimeNanoseconds", from)
	}
	ns, err := strconv.ParseInt(string(b[at[2]:at[3]]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	b = slices.Concat(b[:at[2]], strconv.AppendInt(nil, ns+int64(d), 10), b[at[3]:])
	return write(t, dir, strings.TrimSuffix(filepath.Base(from), ".gz"), b)
}

// Shifting every clock alike moves window.start and nothing else.
func TestShiftedClocksChangeNoFact(t *testing.T) {
	for _, name := range []string{"late-rank", "no-marks", "checkpoint"} {
		var reps [2]*render.Report
		for i, d := range []time.Duration{0, time.Hour} {
			dir := t.TempDir()
			for _, p := range inputsOf(t, name) {
				shifted(t, p, dir, d)
			}
			reps[i], _ = analyzed(t, "--title", name, dir)
		}
		for _, rep := range reps {
			if rep.Window.Start == nil {
				t.Fatalf("%s: no wall time", name)
			}
		}
		a, errA := time.Parse(time.RFC3339Nano, *reps[0].Window.Start)
		b, errB := time.Parse(time.RFC3339Nano, *reps[1].Window.Start)
		if errA != nil || errB != nil || b.Sub(a) != time.Hour {
			t.Errorf("%s: windows start at %s and %s, want an hour between", name, *reps[0].Window.Start, *reps[1].Window.Start)
		}
		for _, rep := range reps {
			rep.Window.Start = nil
			for i := range rep.Inputs {
				rep.Inputs[i].SHA256 = ""
			}
		}
		if d := cmp.Diff(reps[0], reps[1]); d != "" {
			t.Errorf("%s: an hour later the report says something else (-now +later):\n%s", name, d)
		}
	}
}

// A log that was rotated in the middle of the run tells the same.
func TestLogCutInTwoGivesTheSameSeries(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(fixtures, "samples-only", "in", "dmon.log"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.SplitAfter(string(whole), "\n")
	head := strings.Join(rows[:2], "")
	if !strings.HasPrefix(rows[0], "#") || !strings.HasPrefix(rows[1], "#") {
		t.Fatalf("no heading: %q", head)
	}
	type key struct{ metric, subject string }
	seriesOf := func(dir string) (map[key][][2]float64, *render.Report) {
		rep, _ := analyzed(t, "--tz", "+00:00", dir)
		out := map[key][][2]float64{}
		start := int64(0)
		if rep.Window.Start != nil {
			at, err := time.Parse(time.RFC3339Nano, *rep.Window.Start)
			if err != nil {
				t.Fatal(err)
			}
			start = at.UnixNano() % int64(time.Hour*24)
		}
		for _, s := range rep.Series {
			k := key{s.Metric, s.Subject}
			for i := range s.AtNS {
				out[k] = append(out[k], [2]float64{float64(s.AtNS[i] + start), s.Value[i]})
			}
		}
		for k := range out {
			slices.SortFunc(out[k], func(a, b [2]float64) int { return int(a[0] - b[0]) })
		}
		return out, rep
	}
	one := t.TempDir()
	write(t, one, "dmon.log", whole)
	want, wantRep := seriesOf(one)
	if len(want) < 4*8 {
		t.Fatalf("only %d series", len(want))
	}
	for _, cut := range []int{4*70 + 2, 4*157 + 2, 4*200 + 3} { // the last one inside a cycle of the four GPUs
		two := t.TempDir()
		write(t, two, "dmon-1.log", []byte(strings.Join(rows[:cut], "")))
		write(t, two, "dmon-2.log", []byte(head+strings.Join(rows[cut:], "")))
		got, rep := seriesOf(two)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("cut before line %d (-whole +two):\n%.4000s", cut+1, d)
		}
		if rep.Verdict.Class != wantRep.Verdict.Class || len(rep.GPUs) != len(wantRep.GPUs) {
			t.Errorf("cut before line %d: %s of %d GPUs, the whole log gives %s of %d", cut+1, rep.Verdict.Class, len(rep.GPUs), wantRep.Verdict.Class, len(wantRep.GPUs))
		}
	}
}

// No input is changed, and an output folder among the inputs is not read back.
func TestInputsStayAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	for _, p := range slices.Concat(inputsOf(t, "late-rank"), inputsOf(t, "samples-only"), inputsOf(t, "hostile")) {
		copyTo(t, p, in, filepath.Base(p))
	}
	write(t, in, "notes.txt", []byte("batch size 64\n"))
	before := hashes(t, in)
	gpureport("inspect", in)
	if d := cmp.Diff(before, hashes(t, in)); d != "" {
		t.Errorf("inspect changed its inputs:\n%s", d)
	}
	out := filepath.Join(in, "out")
	var lists [3][]render.InputRow
	for i := range lists {
		if r := gpureport("analyze", "--format", strings.Join(allFormats, ","), "-o", out, in); r.code != exitOK {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		lists[i] = readReport(t, out).Inputs
	}
	if d := cmp.Diff(lists[0], lists[1]); d != "" {
		t.Errorf("the second run has other inputs:\n%s", d)
	}
	if d := cmp.Diff(lists[1], lists[2]); d != "" {
		t.Errorf("the third run has other inputs:\n%s", d)
	}
	if len(lists[0]) != len(before)-1 { // the folder itself is in before
		t.Errorf("%d inputs, want %d", len(lists[0]), len(before)-1)
	}
	after := hashes(t, in)
	for path := range after {
		if strings.HasPrefix(path, out) {
			delete(after, path)
		}
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("analyze changed its inputs:\n%s", d)
	}
}
