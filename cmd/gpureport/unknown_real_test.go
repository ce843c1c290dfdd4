package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
	"gpureport/render"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

// mostUnexplained is the share of a GPU's window above which time without an owner needs a reason that the report shows.
const mostUnexplained = 0.10

// unknownWords are what the reason must speak of, by where most of the unknown time is from.
var unknownWords = map[timeline.Sub]string{
	timeline.SubMissingEvents: "device events are missing",
	timeline.SubUncorrelated:  "no launch call",
	timeline.SubLag:           "long after",
	timeline.SubNoOperators:   "neither operators nor CPU samples",
	timeline.SubNone:          "nothing",
}

// realReport analyses a file or folder as the program does.
func realReport(t *testing.T, path string) (*render.Report, *ledger.Job) {
	t.Helper()
	tables, rs, err := loadRules(nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := ingest.Options{Jobs: 1, As: map[string]string{}, Set: map[string]string{}}
	set, err := ingest.OpenContext(context.Background(), []string{path}, formats.List, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	j := &job{set: set, tables: tables, opt: opt, lopt: ledger.Options{}}
	in, wall, err := j.read(context.Background(), "", "", progress{})
	if err != nil {
		t.Fatal(err)
	}
	fset, bugs := facts.Derive(in)
	for _, b := range bugs {
		t.Errorf("%s: %v", path, b)
	}
	checks := rs.Evaluate(fset)
	return render.Build(&render.Input{Version: "test", Title: filepath.Base(path), In: in, Facts: fset, Checks: checks,
		Verdict: engine.Decide(checks, engine.InputOf(fset)), Wall: wall}), in.Job
}

// ledgerNotes are what the page says under the ledger.
func ledgerNotes(r *render.Report) []string {
	var out []string
	for _, s := range render.Sections(r) {
		for _, b := range s.Blocks {
			if l, ok := b.(render.LedgerBars); ok {
				for _, n := range l.Notes {
					out = append(out, n.Strong+" "+n.Text)
				}
			}
		}
	}
	return out
}

// Of every real trace: where more than a tenth of a GPU's window has no owner, the page says why, and what recording would tell.
func TestRealUnknownHasAReason(t *testing.T) {
	dir, files := dataFiles(t)
	jobs, traces, above := map[string]bool{}, 0, 0
	for _, f := range files {
		if !isTrace(wantFormat(f)) {
			continue
		}
		if strings.HasPrefix(f, "kineto-multirank/") {
			f = filepath.Dir(f)
		}
		if jobs[f] {
			continue
		}
		jobs[f] = true
		t.Run(f, func(t *testing.T) {
			r, job := realReport(t, filepath.Join(dir, f))
			traces++
			for i, ref := range job.GPUs {
				g := &job.Ranks[ref.Rank].GPUs[ref.GPU]
				share := float64(g.Owners[timeline.UnknownOwner]) / float64(max(1, g.Window.Dur()))
				if share <= mostUnexplained {
					continue
				}
				above++
				most := timeline.SubNS{NS: -1}
				for _, s := range g.Subs[timeline.UnknownOwner] {
					if s.NS > most.NS {
						most = s
					}
				}
				var said string
				for _, note := range ledgerNotes(r) {
					if strings.Contains(note, unknownWords[most.Sub]) && strings.Contains(note, fmt.Sprintf("GPU %d,", i)) {
						said = note
					}
				}
				name := fmt.Sprintf("GPU %d: %.1f %% of the window without an owner", i, 100*share)
				switch {
				case said == "":
					t.Errorf("%s, and the page gives no reason that says %q: %q", name, unknownWords[most.Sub], ledgerNotes(r))
				case !strings.Contains(said, "record"):
					t.Errorf("%s, and the page does not say what to record: %q", name, said)
				default:
					t.Logf("%s: %s", name, said)
				}
			}
		})
	}
	if traces < 40 || above < 4 {
		t.Errorf("only %d jobs, %d GPUs with much unknown time: the folder has more", traces, above)
	}
}
