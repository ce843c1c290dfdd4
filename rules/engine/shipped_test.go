package engine_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"gpureport/rules"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
)

//go:generate go test -count=1 -run ^TestRulesMarkdown$ . -update

var update = flag.Bool("update", false, "rewrite ../RULES.md")

func shipped(t *testing.T) *engine.Rules {
	t.Helper()
	rs, err := engine.Load(rules.FS, nil, facts.Decls())
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// TestShipped loads every shipped rule and runs its cases.
func TestShipped(t *testing.T) {
	rs := shipped(t)
	for _, f := range engine.Test(rs) {
		t.Error(f)
	}
	for _, g := range rs.Gates {
		for _, ids := range [][]string{g.NeedsFired, g.NeedsAny, g.NeedsSilent} {
			for _, id := range ids {
				if rs.Rule(id) == nil {
					t.Logf("gate %s names %s, which is not in the checklist: it counts as unknown", g.ID, id)
				}
			}
		}
	}
}

// TestRulesMarkdown keeps RULES.md fresh; go generate ./... writes it.
func TestRulesMarkdown(t *testing.T) {
	const path = "../RULES.md"
	want := engine.Markdown(shipped(t))
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
		t.Error("RULES.md is stale: run go generate ./rules/engine")
	}
}
