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

// dmesg -T and the journal of one host hold the same Xid: it is one event, and both rows are shown.
func TestOneXidInTwoLogsCountsOnce(t *testing.T) {
	const xid = "NVRM: Xid (PCI:0000:3b:00): 31, pid=51877, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f1d_5a000000."
	rep, _ := analyzed(t, "--title", "run", beside(t, "xid-31", nil, map[string]string{
		"dmesg-T.txt": "[Tue May 12 05:40:00 2026] usb 1-1: new device\n[Tue May 12 06:00:19 2026] " + xid + "\n[Tue May 12 06:20:00 2026] usb 1-2: new device\n",
	}))
	alone, _ := analyzed(t, "--title", "run", inputFolder(t, "xid-31"))
	if len(rep.GPUs) != len(alone.GPUs) {
		t.Errorf("%d GPUs, without the second log %d", len(rep.GPUs), len(alone.GPUs))
	}
	var events []render.MachineEvent
	for _, e := range rep.Events {
		if e.Kind == "xid" {
			events = append(events, e)
		}
	}
	if len(events) != 1 || events[0].Count != 1 || events[0].Path != "dmesg.txt" || len(events[0].Also) != 1 || events[0].Also[0] != "dmesg-T.txt:2" {
		t.Errorf("%+v", events)
	}
	c, one := checkOf(t, rep, "hw.xid-application", ""), checkOf(t, alone, "hw.xid-application", "")
	if c.Says != one.Says || c.Outcome != one.Outcome {
		t.Errorf("%s: %s\nwithout the second log %s: %s", c.Outcome, c.Says, one.Outcome, one.Says)
	}
	if c.NRefs != one.NRefs+1 && c.NRefs > 0 {
		t.Errorf("refs %v, without the second log %v", c.Refs, one.Refs)
	}
}

func TestInspectOfOneReadingAndOfCardsByBus(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "dmesg.txt", []byte("2026-07-14T08:10:00.000000+00:00 node7 kernel: NVRM: Xid (PCI:0000:3b:00): 94, pid=4711, name=python, x\n"))
	r := gpureport("inspect", dir)
	for _, want := range []string{"  covers    one reading\n", "  GPUs      GPU 0000:3b:00\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in:\n%s", want, r.stdout)
		}
	}
}

// Inputs whose formats are read and that cannot be are not said to be of formats that are not.
func TestNothingReadSaysWhatHappened(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "query.csv", []byte("timestamp, index, power.draw [W]\n"))
	r := gpureport("analyze", "-o", t.TempDir(), dir)
	if r.code != exitUse || !strings.Contains(r.stderr, "query.csv: a header and no row that can be read") || !strings.Contains(r.stderr, "the inputs are in formats that are read, but nothing in them could be") {
		t.Errorf("exit %d:\n%s", r.code, r.stderr)
	}
	write(t, dir, "notes.txt", []byte("batch size 64\n"))
	if r := gpureport("analyze", "-o", t.TempDir(), dir); !strings.Contains(r.stderr, "of 2 inputs 1 is in a format that is read, but nothing in it could be") {
		t.Errorf("exit %d:\n%s", r.code, r.stderr)
	}
}

// A log without times beside a trace is judged and cannot be drawn: its readings are listed.
func TestLogWithoutTimesIsListed(t *testing.T) {
	rep, _ := analyzed(t, "--title", "run", beside(t, "remap-pending", []string{"query.csv"}, map[string]string{"query.csv": "index, power.draw [W]\n0, 610 W\n0, 630 W\n0, 600 W\n"}))
	for _, o := range rep.OffAxis {
		if o.Path == "query.csv" && o.Metric == "power_w" && o.N == 3 && o.Median == 610 && o.Min == 600 && o.Max == 630 && o.Why != "" {
			for _, s := range rep.Series {
				if s.Path == "query.csv" {
					t.Errorf("%s is drawn, at %v", s.Metric, s.AtNS)
				}
			}
			return
		}
	}
	t.Errorf("%+v", rep.OffAxis)
}
