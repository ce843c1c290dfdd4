package engine

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestSchemaKeys holds the schema against the keys that Load knows.
func TestSchemaKeys(t *testing.T) {
	var s struct{ Properties map[string]any }
	if err := json.Unmarshal(Schema(decls()), &s); err != nil {
		t.Fatal(err)
	}
	for _, k := range RuleKeys {
		if s.Properties[k] == nil {
			t.Errorf("the schema has no %s", k)
		}
	}
	if len(s.Properties) != len(RuleKeys) {
		t.Errorf("the schema has %d keys, Load knows %d", len(s.Properties), len(RuleKeys))
	}
}

// TestReadme loads the example of rules/README.md and looks up each key in its table.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "```yaml\n")
	example, rest, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md has no example")
	}
	for _, f := range Test(mustLoad(t, folder(gateG9, "data.h2d-pageable", example))) {
		t.Error(f)
	}
	for _, k := range RuleKeys {
		if !strings.Contains(rest, "`"+k+"`") {
			t.Errorf("README.md does not explain %s", k)
		}
	}
}

func TestMarkdown(t *testing.T) {
	rs := mustLoad(t, folder(gateG9, "data.h2d-pageable", pageable))
	got := string(MarkdownRule(rs, rs.List[0]))
	want := `### data.h2d-pageable

Copies to the GPU start in pageable memory. Per gpu, measured, counts for ` + "`transfer`" + `.

- finding if ` + "`gpu.h2d_pageable_frac > pageable and gpu.copy_h2d_frac > exposed`" + `
- ` + "`pageable`" + ` = 50 % (judgement: more than half of the bytes, so it is the main path)
- ` + "`exposed`" + ` = 3 % (TF input-pipeline analyzer: below 3 % of the step, nothing)
- saving at most ` + "`gpu.copy_h2d_frac`" + `
- claims the time of copy.h2d
- says: {gpu} waited {gpu.copy_h2d_frac} of the window for copies, {gpu.h2d_pageable_frac} of their bytes from pageable memory
- do: pin_memory=True in the loader, then non_blocking=True (gate G9)
- do not: tensor.pin_memory() inline: it can be slower than the plain copy
- recorded by: C4 (a PyTorch trace of every rank)
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := len(rs.Only(func(r *Rule) bool { return r.Site }).List); n != 0 || len(rs.List) != 1 {
		t.Errorf("only the site's: %d rules", n)
	}
	if all := string(Markdown(rs)); !strings.Contains(all, "\n## Stage 3: Loader and copies\n\n### data.h2d-pageable\n") || !strings.Contains(all, "\n| G9 | Removing syncs | `min(") {
		t.Error(all)
	}
}
