package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

// diagnosis is what is said of an input, without drawing it.
type diagnosis struct {
	in      *facts.Input
	facts   *facts.Set
	checks  []engine.Check
	verdict engine.Verdict
}

func diagnose(t testing.TB, dir string) *diagnosis {
	t.Helper()
	opt, err := new(inputFlags).options()
	if err != nil {
		t.Fatal(err)
	}
	tables, rs, err := loadRules(nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := ingest.OpenContext(context.Background(), []string{dir}, formats.List, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	j := &job{set: set, tables: tables, opt: opt, lopt: ledger.Options{Set: opt.Set}}
	in, _, err := j.read(context.Background(), "", "", progressTo(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	d := &diagnosis{in: in}
	var bugs []error
	d.facts, bugs = facts.Derive(in)
	for _, b := range bugs {
		t.Error(b)
	}
	d.checks = rs.Evaluate(d.facts)
	d.verdict = engine.Decide(d.checks, engine.InputOf(d.facts))
	return d
}

// num is a fact of the run; ok false: it is missing, and why.
func (d *diagnosis) num(id facts.ID) (v float64, why string, ok bool) {
	x, need := d.facts.Get(d.facts.Of(facts.Run)[0], id)
	if need != nil {
		return 0, need.Why, false
	}
	return x.Num, x.Text, true
}

func (d *diagnosis) describe() string {
	s := fmt.Sprintf("%s, cause %q, culprit %d", d.verdict.Class, d.verdict.Cause, d.verdict.Culprit)
	for _, id := range []facts.ID{"run.peer_wait_frac", "run.culprit_rank_count", "run.culprit_share_frac", "run.culprit_cause", "run.culprit_cause_frac", "run.culprit_late_p50_s", "run.clock_error_s"} {
		v, why, ok := d.num(id)
		s += fmt.Sprintf("\n  %s: %v %v %s", id, ok, v, why)
	}
	for _, h := range d.in.Job.Hosts {
		s += fmt.Sprintf("\n  host %s offset %d drift %.1f residual %d of %d: %s", h.Host, h.OffsetNS, h.DriftPPM, h.ResidualNS, h.Instances, h.Refused)
	}
	for i, w := range d.in.Job.Waits {
		if i < 4 {
			s += fmt.Sprintf("\n  waited for %d %v: %d", w.Culprit, w.Owner, w.DurNS)
		}
	}
	for i, w := range d.in.Job.Culprits {
		if i < 3 {
			s += fmt.Sprintf("\n  last %d: %d of %d, %d", w.Rank, w.Last, w.Of, w.WaitNS)
		}
	}
	for _, p := range d.in.Job.Problems {
		s += "\n  " + p.Code + ": " + p.Message
	}
	return s
}

// draws is how many jobs of a kind are drawn: all of them where GPUREPORT_FULL is set.
func draws(few int) int {
	if os.Getenv("GPUREPORT_FULL") != "" {
		return 20
	}
	return few
}

// Whoever is late in a job of many ranks on hosts whose clocks differ is named with what held it; nobody is where nobody is.
func TestLateRankOfMany(t *testing.T) {
	for _, size := range []struct{ ranks, hosts, tensor, draws int }{{8, 2, 0, draws(20)}, {64, 8, 0, draws(2)}, {8, 2, 4, draws(5)}, {64, 8, 8, draws(1)}} {
		for _, kind := range sim.LateKinds {
			for n := range size.draws {
				name := fmt.Sprintf("%d/%s/%d", size.ranks, kind, n)
				if size.tensor > 0 {
					name = fmt.Sprintf("%d by %d/%s/%d", size.ranks, size.tensor, kind, n)
				}
				t.Run(name, func(t *testing.T) {
					dir := t.TempDir()
					truth, err := sim.Many(dir, sim.ManyOptions{Kind: kind, Seed: uint64(7000 + n), Ranks: size.ranks, Hosts: size.hosts, Tensor: size.tensor})
					if err != nil {
						t.Fatal(err)
					}
					d := diagnose(t, dir)
					d.judge(t, truth)
				})
			}
		}
	}
}

// judge holds a diagnosis against the truth.
func (d *diagnosis) judge(t *testing.T, truth *sim.ManyTruth) {
	t.Helper()
	bad := false
	fail := func(format string, args ...any) { t.Helper(); bad = true; t.Errorf(format, args...) }
	v := d.verdict
	if truth.Class != "" && (v.Class != truth.Class || v.Cause != truth.Cause) {
		fail("verdict %s, cause %q; want %s, %s", v.Class, v.Cause, truth.Class, truth.Cause)
	}
	if truth.Class == "" && v.Class == "straggler" {
		fail("nobody is late, and the verdict is straggler")
	}
	if v.Culprit != truth.Culprit {
		fail("culprit %d, want %d", v.Culprit, truth.Culprit)
	}
	if rank, _, ok := d.num("run.culprit_rank_count"); ok != (truth.Culprit >= 0) || ok && int(rank) != truth.Culprit {
		fail("rank %v is named: %v; want %d", rank, ok, truth.Culprit)
	}
	if truth.LateNS > 0 && truth.Culprit >= 0 {
		late, why, ok := d.num("run.culprit_late_p50_s")
		err, _, _ := d.num("run.clock_error_s")
		want := truth.Late(truth.Culprit, d.in.Job.Late.Steps)
		if off := abs(late*1e9 - float64(want)); !ok || len(d.in.Job.Late.Steps) < 15 || off > max(0.05*float64(want), err*1e9) {
			fail("lateness %.0f ns over %d steps (%s), want %d within 5 %% or %.0f ns", late*1e9, len(d.in.Job.Late.Steps), why, want, err*1e9)
		}
	}
	if bad {
		t.Log(d.describe())
	}
}

func abs(x float64) float64 { return max(x, -x) }

// With ranks missing the late one is still named if it is there and its lateness shows, and nobody else ever is; one rank alone names nobody.
func TestLateRankWithRanksMissing(t *testing.T) {
	named := 0
	for n, c := range []struct {
		kind    string
		missing int // beside or with the culprit
		with    bool
	}{{sim.LateLoader, 1, false}, {sim.LateLoader, 3, false}, {sim.LateHost, 1, false}, {sim.LateTokens, 3, false}, {sim.LateLoader, 1, true}, {sim.LateHost, 3, true}, {sim.LateLoader, 7, false}, {sim.LateNone, 3, false}} {
		t.Run(fmt.Sprintf("%s/%d/%v", c.kind, c.missing, c.with), func(t *testing.T) {
			dir := t.TempDir()
			truth, err := sim.Many(dir, sim.ManyOptions{Kind: c.kind, Seed: uint64(8000 + n), Ranks: 8, Hosts: 2})
			if err != nil {
				t.Fatal(err)
			}
			gone := 0
			remove := func(rank int) {
				if err := os.Remove(filepath.Join(dir, filepath.FromSlash(truth.Files[rank][0]))); err != nil {
					t.Fatal(err)
				}
				gone++
			}
			if c.with {
				remove(truth.Culprit)
			}
			for i := 0; gone < c.missing; i++ {
				if i != truth.Culprit {
					remove(i)
				}
			}
			d := diagnose(t, dir)
			rank, why, ok := d.num("run.culprit_rank_count")
			switch {
			case ok && (c.with || c.missing == 7 || int(rank) != truth.Culprit):
				t.Errorf("rank %v is named\n%s", rank, d.describe())
			case !ok && why == "":
				t.Error("nobody is named, and nothing says why")
			case ok:
				named++
				if d.verdict.Cause != truth.Cause {
					t.Errorf("cause %s, want %s\n%s", d.verdict.Cause, truth.Cause, d.describe())
				}
			}
			if d.verdict.Culprit >= 0 != ok {
				t.Errorf("the verdict's culprit is %d\n%s", d.verdict.Culprit, d.describe())
			}
			if c.missing == 7 && d.verdict.Confidence > timeline.Inferred {
				t.Errorf("one rank alone, and the verdict is %v", d.verdict.Confidence)
			}
			if !ok {
				t.Log(why)
			}
		})
	}
	if named == 0 {
		t.Error("no late rank was named in any draw")
	}
}
