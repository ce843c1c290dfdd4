package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// root is the program's own module.
const root = "../.."

// ruleSchema is what gpureport rules schema prints.
func ruleSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	cmd := exec.Command("go", "run", "./cmd/gpureport", "rules", "schema")
	cmd.Dir = root
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rule.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("rule.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var data any
	if err := yaml.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	return s.Validate(data)
}

// TestRuleSchema checks every shipped rule and what rules init writes against the schema, by a validator that is not ours, and that the
// schema refuses what Load refuses: unknown keys at every level, words out of a list, a rule without saving and severity.
func TestRuleSchema(t *testing.T) {
	s := ruleSchema(t)
	files, err := filepath.Glob(root + "/rules/checklist/*/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d rule files, %v", len(files), err)
	}
	mine := filepath.Join(t.TempDir(), "mine")
	cmd := exec.Command("go", "run", "./cmd/gpureport", "rules", "init", mine)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	started, err := filepath.Glob(mine + "/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, f := range started {
		if filepath.Base(filepath.Dir(f)) != "tables" {
			files, examples = append(files, f), examples+1
		}
	}
	if examples == 0 {
		t.Errorf("rules init writes no rule: %q", started)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, string(text)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}

	good := `id: hw.xid
title: t
per: gpu
finding_if: gpu.xid_hardware_count > few
limits:
  few: {value: 1, unit: count, source: "judgement"}
severity: critical
confidence: measured
says: "{gpu} is broken"
do:
  - "Restart it"
  - {say: "Record it", capture: C3, gates: [G8], where: {gpu.xid_kind: [reset]}}
dont: ["Wait"]
cases:
  - {facts: {gpu.xid_hardware_count: 2}, want: finding, severity: critical}
`
	if err := validate(t, s, good); err != nil {
		t.Fatalf("the model of a rule is refused: %v", err)
	}
	for _, c := range []struct{ what, old, new string }{
		{"an unknown key", "title: t\n", "title: t\nnote: x\n"},
		{"a misspelt key", "dont: [", "don't: ["},
		{"an unknown key of a limit", "unit: count,", "unit: count, why: x,"},
		{"an unknown unit", "unit: count", "unit: furlong"},
		{"a limit without a source", `, source: "judgement"`, ""},
		{"an unknown key of an advice", "capture: C3,", "recipe: C3,"},
		{"an advice without words", `say: "Record it", `, ""},
		{"an unknown key of a case", "want: finding,", "want: finding, sees: x,"},
		{"an unknown fact of a case", "{gpu.xid_hardware_count: 2}", "{gpu.xid_hardware_cnt: 2}"},
		{"an unknown outcome", "want: finding", "want: found"},
		{"an unknown subject", "per: gpu", "per: card"},
		{"an unknown severity", "severity: critical\nconf", "severity: fatal\nconf"},
		{"an unknown confidence", "confidence: measured", "confidence: sure"},
		{"an id without a stage", "id: hw.xid", "id: xid"},
		{"neither saving nor severity", "severity: critical\n", ""},
		{"no sentence", "says: \"{gpu} is broken\"\n", ""},
		{"an empty advice", `"Restart it"`, `""`},
		{"a class that is none", "per: gpu\n", "per: gpu\nclass: slow\n"},
		{"an owner that is none", "per: gpu\n", "per: gpu\ncovers: [host.sleep]\n"},
	} {
		bad := strings.Replace(good, c.old, c.new, 1)
		if bad == good {
			t.Fatalf("%s: nothing was changed", c.what)
		}
		if validate(t, s, bad) == nil {
			t.Errorf("%s is let through", c.what)
		}
	}
}
