package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpureport/ingest"
	"gpureport/render"
)

// reports runs analyze and gives every output and what the terminal showed but for the folder's name.
func reports(t *testing.T, args ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"analyze", "--format", "html,xlsx,json,md", "-o", dir}, args...), &stdout, &stderr)
	out := map[string]string{"exit": strconv.Itoa(code), "terminal": strings.ReplaceAll(stdout.String(), dir, "DIR"), "stderr": stderr.String()}
	for _, k := range []string{"html", "xlsx", "json", "md"} {
		b, err := os.ReadFile(filepath.Join(dir, "report."+k))
		if err != nil && code == 0 {
			t.Fatal(err)
		}
		out[k] = string(b)
	}
	return out
}

func digestInto(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append([]string{"digest", "-o", dir}, args...), &stdout, &stderr); code != exitOK {
		t.Fatalf("digest %v: exit %d: %s", args, code, stderr.String())
	}
	return stdout.String()
}

func sameReports(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for _, k := range []string{"exit", "stderr", "json", "md", "html", "xlsx", "terminal"} {
		if want[k] == got[k] {
			continue
		}
		at := 0
		for at < min(len(want[k]), len(got[k])) && want[k][at] == got[k][at] {
			at++
		}
		around := func(s string) string { return s[max(0, min(at-200, len(s))):min(at+200, len(s))] }
		t.Errorf("%s: %s differs at byte %d\n--- of the inputs:\n%s\n--- of the digests:\n%s", what, k, at, around(want[k]), around(got[k]))
		return
	}
}

// The report of the digests of an input has the bytes of the report of the input, however they were made and in whatever order they come.
func TestDigestsGiveTheSameReport(t *testing.T) {
	for _, name := range incidents(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := inputFolder(t, name)
			want := reports(t, in)
			one := filepath.Join(t.TempDir(), "one")
			digestInto(t, one, in)
			sameReports(t, "one folder", want, reports(t, one))
			two := filepath.Join(t.TempDir(), "two")
			digestInto(t, two, in, "--part", "2/2")
			digestInto(t, two, in, "--part", "1/2")
			a, err := filepath.Glob(filepath.Join(one, "*"))
			if err != nil || len(a) == 0 {
				t.Fatal(a, err)
			}
			b, _ := filepath.Glob(filepath.Join(two, "*"))
			if len(a) != len(b) {
				t.Fatalf("%d digests of the whole and %d of its parts", len(a), len(b))
			}
			for i := range a {
				x, _ := os.ReadFile(a[i])
				y, err := os.ReadFile(b[i])
				if err != nil || filepath.Base(a[i]) != filepath.Base(b[i]) || !bytes.Equal(x, y) {
					t.Errorf("%s: made in parts, it differs", a[i])
				}
			}
			slices.Reverse(b)
			sameReports(t, "files in reverse", want, reports(t, b...))
		})
	}
}

func TestDigestsBesideTracesCountOnce(t *testing.T) {
	in := inputFolder(t, "late-rank")
	dir := t.TempDir()
	digestInto(t, dir, in)
	rep, _ := analyzed(t, "--title", "x", dir, in)
	if len(rep.Inputs) != 4 || len(rep.Ledger) != 4 {
		t.Errorf("%d inputs and %d ledgers of four ranks", len(rep.Inputs), len(rep.Ledger))
	}
	n := 0
	for _, p := range rep.Problems {
		if p.Code == "digest/counted-once" {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d problems of four traces that are there twice", n)
	}
	// Half as digests, half as traces.
	half := filepath.Join(t.TempDir(), "half")
	digestInto(t, half, in, "--part", "1/2")
	want := reports(t, "--title", "x", in)
	sameReports(t, "mixed", want, reports(t, "--title", "x", filepath.Join(in, "rank3.json.gz"), half, filepath.Join(in, "rank1.json.gz")))
}

func TestDigestRefusals(t *testing.T) {
	in := inputFolder(t, "late-rank")
	dir := t.TempDir()
	digestInto(t, dir, in, "--set", "workers=2")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"analyze", dir, "-o", t.TempDir()}, "--set workers=2 and this run has (none)"},
		{[]string{"analyze", dir, "-o", t.TempDir(), "--set", "workers=2", "--steps", "x"}, "--steps (none) and this run has x"},
		{[]string{"analyze", dir, "-o", t.TempDir(), "--set", "workers=2", "--from", "1"}, "cannot be cut"},
		{[]string{"digest", in}, "-o DIR"},
		{[]string{"digest", in, "-o", dir, "--part", "3/2"}, "not I/N"},
		{[]string{"digest", filepath.Join(in, "..", "README.md"), "-o", t.TempDir()}, "nothing could be digested"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), c.args, &stdout, &stderr); code != exitUse || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: exit %d, %q: want exit 2 and %q", c.args, code, stderr.String(), c.want)
		}
	}
}

// A digest that was cut is an input that could not be read; the others are analysed.
func TestDamagedDigest(t *testing.T) {
	in := inputFolder(t, "late-rank")
	dir := t.TempDir()
	digestInto(t, dir, in)
	names, _ := filepath.Glob(filepath.Join(dir, "*"+ingest.DigestExt))
	b, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{len(b) - 4, len(b) / 2, 40} {
		if err := os.WriteFile(names[1], b[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		rep, _ := analyzed(t, dir)
		if len(rep.Ledger) != 3 {
			t.Errorf("cut to %d bytes: %d ledgers of three whole digests", n, len(rep.Ledger))
		}
		if !slices.ContainsFunc(rep.Inputs, func(i render.InputRow) bool { return !i.Used }) {
			t.Errorf("cut to %d bytes: no input is marked as not used", n)
		}
	}
}

// Real jobs of several ranks: the report of the digests has the bytes of the report of the traces.
func TestDigestsOfRealRanks(t *testing.T) {
	data := dataDir(t)
	for _, set := range []string{"kineto-multirank/dlrm8", "nsys-sqlite/rtx3090x2_ddp_overlap.sqlite"} {
		in, dir := filepath.Join(data, set), t.TempDir()
		digestInto(t, dir, in)
		sameReports(t, set, reports(t, in), reports(t, dir))
	}
}
