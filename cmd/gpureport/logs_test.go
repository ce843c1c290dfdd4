package main

import (
	"path/filepath"
	"strings"
	"testing"

	"gpureport/render"
)

// beside copies an incident's inputs, all but those left out, and adds files.
func beside(t *testing.T, name string, leaveOut []string, add map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range inputsOf(t, name) {
		base, out := filepath.Base(p), false
		for _, x := range leaveOut {
			out = out || x == base
		}
		if !out {
			copyTo(t, p, dir, base)
		}
	}
	for file, text := range add {
		write(t, dir, file, []byte(text))
	}
	return dir
}

func checkOf(t *testing.T, rep *render.Report, id, subject string) *render.Check {
	t.Helper()
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.ID == id && (subject == "" || c.Subject.ID == subject) {
			return c
		}
	}
	t.Fatalf("no check %s of %q", id, subject)
	return nil
}

// The rows that wait for a reset, as --query-remapped-rows lists them, are judged as those of nvidia-smi -q are.
func TestRemappedRowsQueryIsJudged(t *testing.T) {
	const head = "gpu_uuid, gpu_bus_id, remapped_rows.correctable, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure, " +
		"remapped_rows.histogram.max, remapped_rows.histogram.high, remapped_rows.histogram.partial, remapped_rows.histogram.low, remapped_rows.histogram.none\n"
	const card = "GPU-6b0c51f2-90d4-4c55-8c1e-3f6f2a7d9e10, 00000000:3B:00.0, "
	for row, want := range map[string]string{"0, 1, Yes, No, 639, 1, 0, 0, 0\n": "finding", "0, 1, No, Yes, 639, 0, 0, 0, 1\n": "finding", "0, 1, No, No, 639, 1, 0, 0, 0\n": "unknown"} {
		rep, _ := analyzed(t, "--title", "run", beside(t, "remap-pending", []string{"smi-q.txt"}, map[string]string{"rows.csv": head + card + row}))
		c := checkOf(t, rep, "hw.ecc", "")
		if c.Outcome != want {
			t.Errorf("%q: %s, want %s: %s", row, c.Outcome, want, c.Says)
		}
		if want != "finding" {
			continue
		}
		if len(c.Refs) == 0 || !strings.HasPrefix(c.Refs[0], "rows.csv") {
			t.Errorf("%q: no reference to the row: %+v", row, c.Refs)
		}
		if rep.Verdict.Class == "" {
			t.Error("no verdict")
		}
	}
}
