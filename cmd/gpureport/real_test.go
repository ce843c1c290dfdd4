package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

// family is a column of owners in fixtures/REAL.md.
type family struct {
	head   string
	owners []timeline.Owner
}

var families = []family{
	{"compute", []timeline.Owner{timeline.Compute}},
	{"comm", []timeline.Owner{timeline.CommPeerWait, timeline.CommTransfer, timeline.CommUndivided}},
	{"copy", []timeline.Owner{timeline.CopyH2D, timeline.CopyD2H}},
	{"gap", []timeline.Owner{timeline.GapSwitch, timeline.GapQueuedStall}},
	{"loader", []timeline.Owner{timeline.HostDataloader}},
	{"launch", []timeline.Owner{timeline.HostLaunch}},
	{"sync", []timeline.Owner{timeline.HostSync}},
	{"cpu-op", []timeline.Owner{timeline.HostCPUOp}},
	{"python", []timeline.Owner{timeline.HostPython}},
	{"host rest", []timeline.Owner{timeline.HostAllocator, timeline.HostCompile, timeline.HostCheckpoint, timeline.HostValidation, timeline.HostLogging, timeline.HostProfiler, timeline.HostDescheduled}},
	{"unknown", []timeline.Owner{timeline.UnknownOwner}},
}

var subWords = map[timeline.Sub]string{timeline.SubUncorrelated: "no launch call", timeline.SubLag: "launched long before it began", timeline.SubMissingEvents: "device events missing", timeline.SubNoOperators: "no operators were recorded",
	timeline.SubNone: "nothing on the host explains it"}

// fixtures/REAL.md: what the program says of every real trace, a line a GPU. Written by
//
//	GPUREPORT_DATA=DIR go test ./cmd/gpureport -run TestReal -update
func TestReal(t *testing.T) {
	dir, files := dataFiles(t)
	var b bytes.Buffer
	fmt.Fprint(&b, `# Real traces

What the program says of public traces of other people's runs, which are not part of this repository: a line a GPU. Shares are of the
analysed window, in percent; owners that have no column of their own are summed under "host rest" and named in the notes when they hold
5 % or more. Written by `+"`go test ./cmd/gpureport -run TestReal -update`"+` with the folder of traces in GPUREPORT_DATA; a test finds it stale.

`)
	heads := []string{"trace", "verdict", "steps", "window", "busy"}
	for _, f := range families {
		heads = append(heads, f.head)
	}
	heads = append(heads, "notes")
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	jobs := map[string]bool{}
	shares := map[string][]float64{}
	for _, f := range files {
		if !isTrace(wantFormat(f)) {
			continue
		}
		if strings.HasPrefix(f, "kineto-multirank/") { // the ranks of one job meet
			f = filepath.Dir(f)
		}
		if jobs[f] {
			continue
		}
		jobs[f] = true
		realRows(t, &b, dir, f, shares)
	}
	golden := filepath.Join(fixtures, "REAL.md")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, b.Bytes()) {
		t.Errorf("%s is stale: write it with -update and read what moved (-file +now):\n%s", golden, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")))
	}

	// The known story of one model with and without workers.
	loader := slices.IndexFunc(families, func(f family) bool { return f.head == "loader" })
	for _, k := range []struct {
		trace string
		share float64
		off   float64
	}{{"kineto/kineto018_resnet50_workers0.pt.trace.json.gz", 32, 3}, {"kineto/kineto018_resnet50_workers4.pt.trace.json.gz", 0.4, 0.4}} {
		got, ok := shares[k.trace]
		if !ok {
			t.Errorf("%s is not among the traces", k.trace)
			continue
		}
		if d := got[loader] - k.share; d > k.off || d < -k.off {
			t.Errorf("%s: its loader held %.1f %%, known are about %.1f %%", k.trace, got[loader], k.share)
		}
	}
}

// isTrace tells whether a format is read one rank at a time.
func isTrace(name string) bool {
	i := slices.IndexFunc(formats.List, func(f ingest.Format) bool { return f.Name == name })
	return i >= 0 && formats.List[i].Bulk
}

func realRows(t *testing.T, b *bytes.Buffer, dir, path string, shares map[string][]float64) {
	t.Helper()
	tables, rs, err := loadRules(nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := ingest.Options{Jobs: 1, As: map[string]string{}, Set: map[string]string{}}
	set, err := ingest.OpenContext(context.Background(), []string{filepath.Join(dir, path)}, formats.List, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	j := &job{set: set, tables: tables, opt: opt, lopt: ledger.Options{}}
	in, _, err := j.read(context.Background(), "", "", progress{})
	if err != nil {
		t.Fatal(err)
	}
	fset, bugs := facts.Derive(in)
	for _, bug := range bugs {
		t.Errorf("%s: %v", path, bug)
	}
	checks := rs.Evaluate(fset)
	v := engine.Decide(checks, engine.InputOf(fset))
	verdict := fmt.Sprint(v.Class)
	if v.Class == "straggler" && v.Cause != "" {
		verdict += ", " + fmt.Sprint(v.Cause)
	}
	cell := func(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
	row := func(cells ...string) {
		for i := range cells {
			cells[i] = cell(cells[i])
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	problems := map[string]int64{}
	var codes []string
	for _, p := range in.Base.Problems {
		if problems[p.Code] == 0 {
			codes = append(codes, p.Code)
		}
		problems[p.Code] += p.Count
	}
	slices.Sort(codes)
	for i, c := range codes {
		codes[i] = fmt.Sprintf("%s ×%d", c, problems[c])
	}
	if len(in.Job.GPUs) == 0 {
		notes := []string{"no device operations"}
		for _, r := range in.Job.Ranks {
			notes = append(notes, r.Notes...)
		}
		blank := slices.Repeat([]string{""}, len(families)+3)
		row(slices.Concat([]string{path, verdict}, blank, []string{strings.Join(append(notes, codes...), "; ")})...)
		return
	}
	for i, ref := range in.Job.GPUs {
		r := in.Job.Ranks[ref.Rank]
		g := &r.GPUs[ref.GPU]
		pct := func(ns int64) float64 { return 100 * float64(ns) / float64(max(1, g.Window.Dur())) }
		name := path
		if len(in.Job.GPUs) > 1 {
			name += fmt.Sprintf(", rank %d, device %d", r.Process.Rank, g.Device.Ordinal)
		}
		how := "none"
		if len(g.Steps) > 0 {
			how = fmt.Sprintf("%d %s", len(g.Steps), r.Steps.How)
			if r.Steps.How != "ProfilerStep" && r.Steps.Name != "" {
				how += " " + r.Steps.Name
			}
		}
		cells := []string{name, verdict, how, fmt.Sprintf("%.3f ms", float64(g.Window.Dur())/1e6), fmt.Sprintf("%.1f", pct(g.Busy))}
		var notes []string
		var list []float64
		for _, f := range families {
			var ns int64
			for _, o := range f.owners {
				ns += g.Owners[o]
				if f.head == "host rest" && pct(g.Owners[o]) >= 5 {
					notes = append(notes, fmt.Sprintf("%s %.1f", o, pct(g.Owners[o])))
				}
			}
			list = append(list, pct(ns))
			cells = append(cells, fmt.Sprintf("%.1f", pct(ns)))
		}
		if i == 0 {
			shares[path] = list
		}
		if u := pct(g.Owners[timeline.UnknownOwner]); u > 10 {
			var why []string
			for _, s := range g.Subs[timeline.UnknownOwner] {
				word, ok := subWords[s.Sub]
				if !ok {
					word = fmt.Sprintf("sub-owner %d", s.Sub)
				}
				why = append(why, fmt.Sprintf("%s %.1f", word, pct(s.NS)))
			}
			notes = append(notes, "unknown: "+strings.Join(why, ", "))
		}
		if o := pct(g.Owners[timeline.GapQueuedStall]); o >= 3 {
			notes = append(notes, fmt.Sprintf("gap.queued-stall %.1f", o))
		}
		if g.SumError != 0 {
			t.Errorf("%s: owners miss the window by %d ns", name, g.SumError)
		}
		if g.Late > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d operations began before their launch", g.Late, g.Ops))
		}
		if g.Uncorrelated > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d operations have no launch", g.Uncorrelated, g.Ops))
		}
		notes = append(notes, r.Notes...)
		if i == 0 {
			notes = append(notes, codes...)
		}
		row(append(cells, strings.Join(notes, "; "))...)
	}
}
