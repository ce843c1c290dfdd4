package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

func incident(t testing.TB, name string) *sim.Incident {
	t.Helper()
	all := sim.Incidents()
	i := slices.IndexFunc(all, func(in *sim.Incident) bool { return in.Name == name })
	if i < 0 {
		t.Fatalf("no incident %s", name)
	}
	return all[i]
}

func clockOf(t testing.TB, rep *render.Report, name string) render.ClockRow {
	t.Helper()
	i := slices.IndexFunc(rep.Clocks, func(c render.ClockRow) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no clock %s", name)
	}
	return rep.Clocks[i]
}

// The run of nsys-and-logs, recorded by the PyTorch profiler too: traces, export and logs lie on one axis, and each GPU is one.
func TestNsysKinetoAndLogsOnOneAxis(t *testing.T) {
	in := incident(t, "nsys-and-logs")
	dir := inputFolder(t, in.Name)
	alone, _ := analyzed(t, "--title", "run", dir)
	traces, err := in.KinetoTraces()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rank0.json", "rank1.json"} {
		write(t, dir, name, traces[name])
	}
	rep, _ := analyzed(t, "--title", "run", dir)
	ledgersClose(t, rep)
	sameLedgers(t, alone, rep)
	if rep.Verdict.Class != alone.Verdict.Class {
		t.Errorf("verdict %s, of the export alone %s", rep.Verdict.Class, alone.Verdict.Class)
	}
	for name, says := range map[string]string{
		"dmon.log":   "UTC+08:00 as run.sqlite of the same folder states; activity agrees, correlation 1.00",
		"query.csv":  "UTC+08:00 as run.sqlite of the same folder states; activity agrees, correlation 1.00",
		"run.sqlite": ".json of the same process, correlation 1.00: 0.0 ms apart, which is known to 5.0 ms",
	} {
		c := clockOf(t, rep, name)
		if !strings.Contains(c.Why, says) || c.OffsetNS == nil || c.ErrorNS == nil || *c.ErrorNS <= 0 || *c.ErrorNS > 2e9 {
			t.Errorf("%s: %+v", name, c)
			continue
		}
		want := -8 * time.Hour
		if name == "run.sqlite" {
			want = 0
		}
		if d := time.Duration(*c.OffsetNS) - want; math.Abs(float64(d)) > 1e9 {
			t.Errorf("%s: offset %v, want %v", name, time.Duration(*c.OffsetNS), want)
		}
	}
	if len(rep.GPUs) != 3 || len(rep.Ledger) != 2 {
		t.Fatalf("%d GPUs, %d ledgers", len(rep.GPUs), len(rep.Ledger))
	}
	for i, g := range rep.GPUs {
		if g.Index == nil || *g.Index != i || g.UUID == nil || g.Match == nil || (g.Rank == nil) != (i == 2) {
			t.Errorf("%+v", g)
		}
		if i < 2 && *g.Match != "by UUID" {
			t.Errorf("%s was matched %s", g.ID, *g.Match)
		}
	}
	paths := map[string]bool{} // whose readings are GPU 0's
	for _, s := range rep.Series {
		if s.Subject == "gpu0" {
			paths[s.Path] = true
		}
	}
	if !paths["dmon.log"] || !paths["query.csv"] {
		t.Errorf("GPU 0 has readings of %v", paths)
	}
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.Subject.ID == "gpu2" && c.Outcome != "not-asked" && c.Outcome != "pass" {
			t.Errorf("%s of a GPU that nobody uses: %s: %s", c.ID, c.Outcome, c.Says)
		}
	}
	for _, x := range rep.Inputs {
		if !x.Used || (x.Path == "run.sqlite") != strings.Contains(x.Note, "a second capture") {
			t.Errorf("%+v", x)
		}
	}
}

// Where the machine that writes the report stands changes no byte.
func TestZoneOfThisMachineIsNotAsked(t *testing.T) {
	dir := inputFolder(t, "nsys-and-logs")
	var first []byte
	for _, tz := range []string{"UTC", "America/St_Johns", "Asia/Shanghai"} {
		t.Setenv("TZ", tz)
		if l, err := time.LoadLocation(tz); err == nil {
			defer func(old *time.Location) { time.Local = old }(time.Local)
			time.Local = l
		}
		out := t.TempDir()
		if r := gpureport("analyze", "--format", "json", "-o", out, "--title", "run", dir); r.code != exitOK {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		b, err := os.ReadFile(filepath.Join(out, "report.json"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(first, b) {
			t.Errorf("TZ=%s: other bytes than with UTC", tz)
		}
	}
}

// A process that two profilers recorded: at the same time it is one rank, at another time it is another run.
func TestTwoCapturesOfOneProcess(t *testing.T) {
	const epoch = "1778565597500000000" // of the session
	in := incident(t, "checkpoint")
	files, err := in.NsysSQL(sim.NsysOptions{OneFile: true})
	if err != nil {
		t.Fatal(err)
	}
	sql := files["run.sql"]
	if !strings.Contains(sql, epoch) {
		t.Fatal("the export states no session start that this test knows")
	}
	alone, _ := analyzed(t, "--title", "run", filepath.Join(fixtures, in.Name, "in"))
	start, _ := strconv.ParseInt(epoch, 10, 64)
	for _, c := range []struct {
		what    string
		late    time.Duration // of the export's clock
		note    string
		why     string // of its clock
		problem string
		moved   time.Duration
	}{
		{"one clock", 0, "a second capture of a process that gpu-a_41200.pt.trace.json.gz shows too", "0.0 ms apart", "run/second-capture", 0},
		{"clocks that differ", 300 * time.Millisecond, "a second capture", "moved by -300.0 ms onto the clock of gpu-a_41200.pt.trace.json.gz", "ingest/clocks-differ", -300 * time.Millisecond},
		{"an hour later", time.Hour, "another run", "", "run/other-run", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			for _, p := range inputsOf(t, in.Name) {
				copyTo(t, p, dir, filepath.Base(p))
			}
			database(t, filepath.Join(dir, "run.sqlite"), strings.ReplaceAll(sql, epoch, strconv.FormatInt(start+int64(c.late), 10)))
			rep, _ := analyzed(t, "--title", "run", dir)
			ledgersClose(t, rep)
			if d := cmp.Diff(alone.Ledger[0].Owners, rep.Ledger[0].Owners); d != "" || len(rep.Ledger) != 1 || rep.Verdict.Class != alone.Verdict.Class {
				t.Errorf("%d ledgers, verdict %s:\n%s", len(rep.Ledger), rep.Verdict.Class, d)
			}
			i := slices.IndexFunc(rep.Inputs, func(x render.InputRow) bool { return x.Path == "run.sqlite" })
			if x := rep.Inputs[i]; !strings.Contains(x.Note, c.note) || x.Used != (c.late < time.Minute) {
				t.Errorf("%+v", x)
			}
			k := clockOf(t, rep, "run.sqlite")
			if d := time.Duration(*k.OffsetNS) - c.moved; !strings.Contains(k.Why, c.why) || d.Abs() > 2*time.Millisecond {
				t.Errorf("%+v", k)
			}
			if !slices.ContainsFunc(rep.Problems, func(p render.Problem) bool { return p.Code == c.problem && p.Path == "run.sqlite" }) {
				t.Errorf("no problem %s: %+v", c.problem, rep.Problems)
			}
			if g := rep.GPUs[0]; c.late < time.Minute && g.UUID == nil {
				t.Errorf("the export knows the UUID, and the GPU has none: %+v", g)
			}
		})
	}
}
