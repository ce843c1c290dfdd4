package facts

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var update = flag.Bool("update", false, "rewrite ../FACTS.md")

func TestFactsMarkdown(t *testing.T) {
	const path = "../FACTS.md"
	want := Markdown()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("FACTS.md is stale: run go generate ./rules/facts")
	}
}

func TestDeclsAreWhole(t *testing.T) {
	form := regexp.MustCompile(`^(run|host|rank|gpu)\.[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := map[ID]bool{}
	for _, d := range Decls() {
		subject, _, _ := strings.Cut(string(d.ID), ".")
		switch {
		case !form.MatchString(string(d.ID)):
			t.Errorf("%s: a fact is subject.quantity_unit", d.ID)
		case subject != d.Per.String():
			t.Errorf("%s: named for a %s, declared per %s", d.ID, subject, d.Per)
		case seen[d.ID]:
			t.Errorf("%s is declared twice", d.ID)
		case !strings.HasSuffix(strings.TrimSpace(d.Doc), "."):
			t.Errorf("%s: its doc is no sentence: %q", d.ID, d.Doc)
		case d.Unit != unit.Text && !strings.HasSuffix(string(d.ID), "_"+string(d.Unit)):
			t.Errorf("%s: its name does not end in its unit %s", d.ID, d.Unit)
		case d.Unit != unit.Text && !(d.Min < d.Max):
			t.Errorf("%s: no legal range", d.ID)
		}
		if base, ok := unit.Base(d.Unit); !ok || base != d.Unit {
			t.Errorf("%s: %q is no base unit", d.ID, d.Unit)
		}
		if _, ok := RecipeOf(d.Capture); !ok {
			t.Errorf("%s: no capture recipe %q", d.ID, d.Capture)
		}
		seen[d.ID] = true
	}
}

func TestRecipesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Recipes {
		if r.ID == "" || r.Command == "" || r.Where == "" || r.Title == "" || seen[r.ID] {
			t.Errorf("recipe %+v is blank somewhere or stands twice", r)
		}
		seen[r.ID] = true
	}
	if len(Recipes) != 18 {
		t.Errorf("%d recipes, C1 to C18 are 18", len(Recipes))
	}
}

func TestOrderFollowsDependencies(t *testing.T) {
	a := &Deriver{Name: "a"}
	b := &Deriver{Name: "b", After: []*Deriver{a}}
	c := &Deriver{Name: "c"}
	var got []string
	for _, d := range inOrder([]*Deriver{b, c, a}) {
		got = append(got, d.Name)
	}
	if strings.Join(got, " ") != "a b c" {
		t.Errorf("order %v, want a b c", got)
	}
	a.After = []*Deriver{b}
	for name, list := range map[string][]*Deriver{"circle": {a, b}, "not listed": {b}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			inOrder(list)
		}()
	}
}

// TestEveryFactIsSaid runs the whole catalogue over inputs of every kind: no fact may be silent or out of its range, and every
// absence has words.
func TestEveryFactIsSaid(t *testing.T) {
	trace := func() *bench {
		b := newBench()
		b.rank(0, "a", steps(30, 0.1, func(i int) owned { return owned{timeline.Compute: 0.06, timeline.HostLaunch: 0.04} }))
		b.rank(1, "a", steps(30, 0.1, func(i int) owned { return owned{timeline.Compute: 0.05, timeline.CommPeerWait: 0.05} }))
		return b
	}
	logs := func(b *bench) *bench {
		for i := range 2 {
			d := b.device(i, "NVIDIA A100-SXM4-80GB", "")
			b.series(d, timeline.SMBusy, 1, square(120, 10, 0.3, 0.9, 0.1)...)
			b.series(d, timeline.Power, 1, flat(120, 200)...)
			b.series(d, timeline.PowerLimit, 1, flat(120, 400)...)
			b.series(d, timeline.PowerDefault, 1, flat(120, 400)...)
			b.series(d, timeline.ClockSM, 1, flat(120, 1.4e9)...)
			b.series(d, timeline.Reasons, 1, flat(120, 4)...)
			b.series(d, timeline.PCIeGen, 1, flat(120, 4)...)
			b.series(d, timeline.PCIeWidth, 1, flat(120, 16)...)
			b.series(d, timeline.TempGPU, 1, flat(120, 66)...)
		}
		return b
	}
	both := logs(trace())
	both.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}, "gpu1": {1}}
	empty := newBench()
	empty.rank(-1, "", timeline.GPULedger{})
	for name, b := range map[string]*bench{"nothing": newBench(), "trace": trace(), "logs": logs(newBench()), "both": both, "empty ledger": empty} {
		set, errs := Derive(b.in)
		for _, err := range errs {
			t.Errorf("%s: %v", name, err)
		}
		for i, sub := range set.Subjects {
			for _, d := range set.Decls {
				if d.Per != sub.Kind {
					continue
				}
				v, need := set.Get(i, d.ID)
				switch {
				case need != nil && strings.TrimSpace(need.Why) == "":
					t.Errorf("%s: %s of %s is missing without a word", name, d.ID, sub.ID)
				case need != nil && need.Capture == "":
					t.Errorf("%s: %s of %s is missing without a capture", name, d.ID, sub.ID)
				case need == nil && v.Conf == timeline.NoConfidence:
					t.Errorf("%s: %s of %s has no confidence", name, d.ID, sub.ID)
				case need == nil && (v.Cover < 0 || v.Cover > 1):
					t.Errorf("%s: %s of %s covers %v", name, d.ID, sub.ID, v.Cover)
				case need == nil && d.Unit == unit.Text && v.Text == "":
					t.Errorf("%s: %s of %s is an empty text", name, d.ID, sub.ID)
				}
			}
		}
	}
}
