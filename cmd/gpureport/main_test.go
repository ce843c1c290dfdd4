package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpureport/render"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpureport": main})
}

const fixtures = "../../fixtures"

// ran is what one run of the program printed and returned.
type ran struct {
	code           int
	stdout, stderr string
}

// gpureport runs the program in this process.
func gpureport(args ...string) ran {
	var out, errs bytes.Buffer
	code := run(context.Background(), args, &out, &errs)
	return ran{code, out.String(), errs.String()}
}

// analyzed analyses paths into a folder of its own and reads the report it wrote.
func analyzed(t testing.TB, args ...string) (*render.Report, ran) {
	t.Helper()
	dir := t.TempDir()
	r := gpureport(append([]string{"analyze", "--format", "json", "-o", dir}, args...)...)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("analyze %s: exit %d, stderr: %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return readReport(t, dir), r
}

func readReport(t testing.TB, dir string) *render.Report {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	rep := new(render.Report)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(rep); err != nil {
		t.Fatalf("report.json: %v", err)
	}
	return rep
}

// hashes gives the SHA-256 of every file below dir by its path, symbolic links and folders by their kind.
func hashes(t testing.TB, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			sums[path] = d.Type().String()
			return nil
		}
		b, err := os.ReadFile(path)
		sums[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// copyTo copies a file and gives the copy's path.
func copyTo(t testing.TB, from, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, dir, name, b)
}

func write(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// inputsOf gives the files of an incident.
func inputsOf(t testing.TB, incident string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(fixtures, incident, "in", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no inputs (%v)", incident, err)
	}
	return paths
}

// ledgersClose holds the first promise: every ledger and every step sums to its window, to the nanosecond.
func ledgersClose(t testing.TB, rep *render.Report) {
	t.Helper()
	if rep.SumErrorNS != 0 {
		t.Errorf("sum_error_ns is %d", rep.SumErrorNS)
	}
	steps := map[string]int{}
	for _, s := range rep.Steps {
		steps[s.GPU]++
		if got := total(s.Owners); got != s.DurNS || s.DurNS <= 0 {
			t.Errorf("%s step %d: owners sum to %d ns, it lasts %d ns", s.GPU, s.Index, got, s.DurNS)
		}
	}
	for _, l := range rep.Ledger {
		if got := total(l.Owners); got != l.WindowNS || l.WindowNS < 0 {
			t.Errorf("%s: owners sum to %d ns, the window is %d ns", l.GPU, got, l.WindowNS)
		}
		for o, ns := range l.Owners {
			if ns < 0 {
				t.Errorf("%s: owner %s has %d ns", l.GPU, o, ns)
			}
		}
		if l.BusyNS < 0 || l.BusyNS > l.WindowNS {
			t.Errorf("%s: busy %d ns of %d ns", l.GPU, l.BusyNS, l.WindowNS)
		}
		if steps[l.GPU] != l.Steps {
			t.Errorf("%s: %d steps listed, its ledger says %d", l.GPU, steps[l.GPU], l.Steps)
		}
	}
	// A drawn window is chosen on one GPU and may reach past what was analysed of another.
	for _, w := range rep.Intervals {
		from, to := w.StartNS, w.StartNS+w.DurNS
		if i := slices.IndexFunc(rep.Ledger, func(l render.LedgerRow) bool { return l.GPU == w.GPU }); i >= 0 {
			l := &rep.Ledger[i]
			from, to = max(from, l.StartNS), min(to, l.StartNS+l.WindowNS)
		}
		for _, r := range w.Rows {
			if r.StartNS != from || r.DurNS <= 0 {
				t.Errorf("%s: %s: interval [%d, +%d) where one at %d was wanted", w.GPU, w.Why, r.StartNS, r.DurNS, from)
			}
			from = r.StartNS + r.DurNS
		}
		if from != to {
			t.Errorf("%s: %s: intervals end at %d ns, want %d ns", w.GPU, w.Why, from, to)
		}
	}
}

func total(owners map[string]int64) (sum int64) {
	for _, ns := range owners {
		sum += ns
	}
	return sum
}
