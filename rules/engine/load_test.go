package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpureport/ingest/unit"
)

// spoilt is the example rule with one text replaced.
func spoilt(t *testing.T, old, new string) string {
	t.Helper()
	if !strings.Contains(pageable, old) {
		t.Fatalf("the example does not hold %q", old)
	}
	return strings.Replace(pageable, old, new, 1)
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       string // without data/h2d-pageable.yaml, in front of each line
	}{
		{"misspelt fact", spoilt(t, "gpu.copy_h2d_frac > exposed", "gpu.copy_h2d_fraq > exposed"),
			":5:50: unknown fact gpu.copy_h2d_fraq: did you mean gpu.copy_h2d_frac?"},
		{"all at once, by position", spoilt(t, "per: gpu", "per: card") + "colour: red\nwhy: x\n",
			":3:6: unknown subject card: write one of run, host, rank, gpu\n" +
				":19:1: unknown key colour in the rule: known are id, title, per, class, when, finding_if, limits, saving, severity, confidence, says, " +
				"says_pass, says_not_asked, do, dont, gates, looks_like, overlaps, covers, cases\n" +
				":20:1: unknown key why in the rule: did you mean when?"},
		{"key twice", pageable + "per: run\n", ":19:1: key per stands twice in the rule: keep one"},
		{"bad type", spoilt(t, "title: Copies to the GPU start in pageable memory", "title: [a]"), ":2:8: title is a list, not a text: put it in quotes"},
		{"number as a text", spoilt(t, "title: Copies to the GPU start in pageable memory", "title: 5"), ":2:8: title is a number, not a text: put it in quotes"},
		{"blank", spoilt(t, "title: Copies to the GPU start in pageable memory", `title: " "`), ":2:8: title is blank: write it or drop the key"},
		{"where of no text", spoilt(t, `do: ["pin_memory=True in the loader, then non_blocking=True"]`, `do: [{say: x, where: {gpu.mig_flag: [a]}}]`), ":12:23: gpu.mig_flag is no text: judge it in when or finding_if"},
		{"where without values", spoilt(t, `do: ["pin_memory=True in the loader, then non_blocking=True"]`, `do: [{say: x, where: {gpu.name: a}}]`), ":12:33: gpu.name is a text: write a list of values"},
		{"lacks of no fact", spoilt(t, `do: ["pin_memory=True in the loader, then non_blocking=True"]`, `do: [{say: x, capture: C2, lacks: [gpu.temp_max]}]`), ":12:35: unknown fact gpu.temp_max: did you mean gpu.temp_max_c?"},
		{"where is no mapping", spoilt(t, `do: ["pin_memory=True in the loader, then non_blocking=True"]`, `do: [{say: x, where: [a]}]`), ":12:22: where is a list: write {fact: [value, ...]}"},
		{"not asked without when", pageable + "says_not_asked: x\n", ":19:17: says_not_asked without when: the rule is always asked"},
		{"a saving that cannot tell", spoilt(t, "class: transfer ", "class: insufficient-evidence "), ":9:9: a saving of class insufficient-evidence: it says that the inputs cannot tell, and saves nothing"},
		{"nothing", spoilt(t, "title: Copies to the GPU start in pageable memory", "title:"), ":2:7: title is nothing, not a text: put it in quotes"},
		{"list as a text", spoilt(t, `dont: ["tensor.pin_memory() inline: it can be slower than the plain copy"]`, "dont: nothing"), ":13:7: dont is a text, not a list: write dont: [..., ...]"},
		{"no rule", "- a\n- b\n", ":1:1: the rule is a list, not a mapping: write key: value lines (" + strings.Join(RuleKeys, ", ") + ")"},
		{"empty", "", ":1:1: the file is empty: write a rule or remove the file"},
		{"only a comment", "# nothing\n", ":1:1: the file is empty: write a rule or remove the file"},
		{"two documents", pageable + "---\nid: data.other\n", ":19:1: a second document: one rule a file; move it to a file of its own"},
		{"anchor", spoilt(t, "per: gpu", "per: &p gpu"), ":3:6: an anchor or alias: write the value out; rules are read one by one"},
		{"no yaml", spoilt(t, `says: "{gpu} waited`, `says: {gpu} waited`),
			`:10:1: not YAML: did not find expected key near "confidence: measured" or "says: {gpu} waited {gpu.copy_h2d_frac} of the window for cop…": ` +
				"quote texts that hold a colon or a brace"},
		{"too long", pageable + strings.Repeat("# filler\n", 8000), ": the file has 73283 bytes, more than 65536: a rule file is short; is this another file?"},
		{"id of another file", spoilt(t, "id: data.h2d-pageable ", "id: data.h2d-blocking "),
			":1:5: id data.h2d-blocking in file data/h2d-pageable.yaml: name the file data/h2d-blocking.yaml or mend the id"},
		{"unknown stage", spoilt(t, "id: data.h2d-pageable ", "id: date.h2d-pageable "), ":1:5: unknown stage date: did you mean data?"},
		{"bad id", spoilt(t, "id: data.h2d-pageable ", "id: data.H2D_pageable "), `:1:5: id "data.H2D_pageable": write stage.name in lower case, with - between words`},
		{"unknown class", spoilt(t, "class: transfer", "class: copies"), ":4:8: unknown class copies: classes are data-pipeline, transfer, host-bound, interruption, communication, " +
			"straggler, hardware, compute-inefficient, insufficient-evidence"},
		{"class no rule may have", spoilt(t, "class: transfer", "class: compute-bound"), ":4:8: unknown class compute-bound: classes are data-pipeline, transfer, host-bound, interruption, " +
			"communication, straggler, hardware, compute-inefficient, insufficient-evidence"},
		{"bare number", spoilt(t, "> exposed", "> 0.03 + exposed"), ":5:70: bare number 0.03: give it a name, unit and source in limits"},
		{"folded condition", spoilt(t, "finding_if: gpu.h2d_pageable_frac > pageable and gpu.copy_h2d_frac > exposed",
			"finding_if: >\n  gpu.h2d_pageable_frac > pageable\n  and gpu.copy_fraq > exposed"), ":7:7: unknown fact gpu.copy_fraq: gpureport rules facts lists them"},
		{"quoted condition over lines", spoilt(t, "finding_if: gpu.h2d_pageable_frac > pageable and gpu.copy_h2d_frac > exposed",
			"finding_if: 'gpu.h2d_pageable_frac > pageable and\n    gpu.copy_h2d_frac > exposd'"), ":6:25: unknown limit exposd: did you mean exposed?"},
		{"units", spoilt(t, `exposed:  {value: 3, unit: "%"`, `exposed:  {value: 3, unit: ms`), ":5:50: gpu.copy_h2d_frac is a share and exposed is a time: compare like with like"},
		{"unknown unit", spoilt(t, `exposed:  {value: 3, unit: "%"`, `exposed:  {value: 3, unit: percent`),
			":8:30: unknown unit percent: known are " + strings.Join(limitUnits, ", ")},
		{"limit without source", spoilt(t, `, source: "TF input-pipeline analyzer: below 3 % of the step, nothing"`, ""), ":8:13: limit exposed has no source: add the line source: ..."},
		{"limit of words", spoilt(t, "value: 50", "value: half"), ":7:21: value is a text, not a number: write digits without a unit"},
		{"limit not finite", spoilt(t, "value: 50", "value: .inf"), ":7:21: value is not finite: leave it out, or write the number that is meant"},
		{"limit name", spoilt(t, "limits:\n", "limits:\n  max: {value: 1, unit: count, source: x}\n"), ":7:3: limit max is never used: compare something with it or drop it\n" +
			`:7:3: limit name "max": write a lower-case word with _, none of the language's own words`},
		{"limit twice", spoilt(t, "  exposed:", "  pageable:"), ":5:70: unknown limit exposed: add it to limits; a fact's name holds a dot\n:8:3: limit pageable stands twice: keep one"},
		{"saving of a time", spoilt(t, "saving: gpu.copy_h2d_frac", "saving: rank.step_p50_s"), ":9:9: rank.step_p50_s is a time, not a share: divide by what it is a share of"},
		{"saving of peer-wait", spoilt(t, "saving: gpu.copy_h2d_frac", "saving: gpu.comm_peer_wait_frac"),
			":9:9: a saving of class transfer holds comm.peer-wait: what peers wait counts once, as straggler; leave it out"},
		{"neither saving nor severity", spoilt(t, "saving: gpu.copy_h2d_frac ", "#"), ":1:1: the rule has neither saving nor severity: say what a fix returns, or how grave it is"},
		{"severity", spoilt(t, "confidence: measured", "confidence: measured\nseverity: grave"), ":11:11: unknown severity grave: write one of info, low, medium, high, critical"},
		{"critical", spoilt(t, "confidence: measured", "confidence: measured\nseverity: critical"), ":11:11: severity critical in stage data: it is for faults of hardware; write a saving"},
		{"confidence", spoilt(t, "confidence: measured", "confidence: sure"), ":10:13: unknown confidence sure: write one of hint, inferred, measured"},
		{"hint that acts", spoilt(t, "confidence: measured", "confidence: hint"),
			`:12:6: a hint asks for a capture and nothing else: say what to record ("Record ..."), or {say: "...", capture: C4}`},
		{"says a wrong fact", spoilt(t, "{gpu.h2d_pageable_frac} of", "{gpu.h2d_pageable} of"), ":11:68: unknown fact gpu.h2d_pageable: did you mean gpu.h2d_pageable_frac?"},
		{"says nothing known", spoilt(t, "{gpu} waited", "{card} waited"), ":11:9: {card} is nothing: write {fact}, {gpu}, {rank}, {host} or the name of a limit"},
		{"says a wrong limit", spoilt(t, "{gpu} waited", "{limit:exposd} waited"), ":11:9: unknown limit exposd: did you mean exposed?"},
		{"says an open brace", spoilt(t, "{gpu} waited", "{gpu waited"), ":11:8: { without }: close the name"},
		{"unknown gate", spoilt(t, "gates: [G9]", "gates: [G99]"), ":14:9: unknown gate G99: gates are G9"},
		{"unknown capture", spoilt(t, `do: ["pin_memory=True in the loader, then non_blocking=True"]`, `do: [{say: x, capture: C99}]`), ":12:24: unknown capture C99: write C1 to " + lastRecipe()},
		{"unknown owner", pageable + "covers: [copy.h2h]\n", ":19:10: unknown ledger owner copy.h2h: did you mean copy.h2d?"},
		{"unknown rule", pageable + "overlaps: [data.h2d-blocking, data.h2d-pageable]\n", ":19:12: unknown rule data.h2d-blocking: gpureport rules list names them\n:19:31: data.h2d-pageable overlaps itself: drop it"},
		{"case out of range", spoilt(t, "{gpu.h2d_pageable_frac: 0.1}", "{gpu.h2d_pageable_frac: 10}"), ":17:37: gpu.h2d_pageable_frac is 10, outside its range 0 to 1: facts are in base units (frac)"},
		{"case of a wrong fact", spoilt(t, "{gpu.h2d_pageable_frac: 0.1}", "{gpu.h2d_pagable_frac: 0.1}"), ":17:14: unknown fact gpu.h2d_pagable_frac: did you mean gpu.h2d_pageable_frac?"},
		{"case of a wrong outcome", spoilt(t, "want: pass", "want: ok"), ":17:49: unknown outcome ok: write finding, pass, unknown or not-asked"},
		{"missing keys", "id: data.h2d-pageable\n", ":1:1: the rule has neither saving nor severity: say what a fix returns, or how grave it is\n" +
			":1:1: the rule has no confidence: add the line confidence: ...\n:1:1: the rule has no finding_if: add the line finding_if: ...\n" +
			":1:1: the rule has no per: add the line per: ...\n:1:1: the rule has no says: add the line says: ...\n:1:1: the rule has no title: add the line title: ..."},
	} {
		_, err := Load(folder(gateG9, "data.h2d-pageable", c.file), nil, decls())
		if err == nil {
			t.Errorf("%s: it loaded", c.name)
			continue
		}
		got := strings.ReplaceAll("\n"+err.Error(), "\ndata/h2d-pageable.yaml:", "\n:")[1:]
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		var es Errors
		if !errors.As(err, &es) {
			t.Errorf("%s: the error is %T", c.name, err)
		}
	}
}

func TestChecklistErrors(t *testing.T) {
	fs := folder(gateG9, "data.h2d-pageable", pageable)
	fs["checklist.yaml"].Data = []byte("- hw.xid\n- data.h2d-pageable\n- data.h2d-pageable\n- nowhere.x\n")
	fs["checklist/step/lost.yaml"] = fs["checklist/data/h2d-pageable.yaml"]
	_, err := Load(fs, nil, decls())
	want := `checklist.yaml:1:3: hw.xid has no file: add checklist/hw/xid.yaml or drop the line
checklist.yaml:2:3: data.h2d-pageable stands after a rule of stage hw: stages go step, idle, data, kernel, comm, shape, hw
checklist.yaml:3:3: data.h2d-pageable stands twice: keep one
checklist.yaml:4:3: unknown stage nowhere: stages are step, idle, data, kernel, comm, shape, hw
step/lost.yaml: the rule has no place in checklist.yaml: add the line - step.lost
step/lost.yaml:1:5: id data.h2d-pageable in file step/lost.yaml: name the file data/h2d-pageable.yaml or mend the id`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestGateErrors(t *testing.T) {
	fs := folder(`- id: G1
  title: x
  why: y
  alow_if: gpu.busy_frac > 0
- id: G2
  title: x
  never: true
  needs_fired: [Hw.xid]
  why: y
- id: G2
  title: x
  allow_if: gpu.zzz > 0
  why: y
  capture: C0
`, "data.h2d-pageable", spoilt(t, "gates: [G9]", "gates: [G2]"))
	_, err := Load(fs, nil, decls())
	want := `gates.yaml:1:3: gate G1: write either what opens it (allow_if, needs_...), or never: true, or cap: true
gates.yaml:4:3: unknown key alow_if in the gate: did you mean allow_if?
gates.yaml:5:3: gate G2: write either what opens it (allow_if, needs_...), or never: true, or cap: true
gates.yaml:8:17: "Hw.xid" is no rule id: write stage.name
gates.yaml:10:3: gate G2 stands twice: keep one
gates.yaml:12:13: unknown fact gpu.zzz: gpureport rules facts lists them
gates.yaml:14:12: unknown capture C0: write C1 to ` + lastRecipe()
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestSite lays a site's files over the checklist: one replaces, one joins its stage.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("data/h2d-pageable.yaml", spoilt(t, "value: 50", "value: 70"))
	put("step/ours.yaml", spoilt(t, "id: data.h2d-pageable ", "id: step.ours "))
	put("tables/gpus.yaml", "- not a rule\n")
	put("README.md", "not a rule\n")
	site, err := ReadSite([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	idle := spoilt(t, "id: data.h2d-pageable ", "id: idle.first ")
	rs := mustLoad(t, folder(gateG9, "idle.first", idle, "data.h2d-pageable", pageable), site...)
	var got []string
	for _, r := range rs.List {
		got = append(got, r.ID)
	}
	if strings.Join(got, " ") != "step.ours idle.first data.h2d-pageable" {
		t.Errorf("order %v", got)
	}
	if l, _ := rs.Rule("data.h2d-pageable").Limit("pageable"); l.Value != 0.7 || !rs.Rule("data.h2d-pageable").Site || rs.Rule("idle.first").Site {
		t.Errorf("the site's rule does not stand: %+v", l)
	}
	if _, err := ReadSite([]string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a path that is not there was read")
	}
	put("hw/wrong.yaml", pageable)
	site, _ = ReadSite([]string{filepath.Join(dir, "hw")})
	_, err = Load(folder(gateG9, "idle.first", idle), site, decls())
	if want := dir + "/hw/wrong.yaml:1:5: id data.h2d-pageable in file " + dir + "/hw/wrong.yaml: name the file data/h2d-pageable.yaml or mend the id"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestCases(t *testing.T) {
	bad := spoilt(t, "{facts: {gpu.h2d_pageable_frac: 0.1}, want: pass}", "{facts: {gpu.h2d_pageable_frac: 0.9, gpu.copy_h2d_frac: 0.25}, want: finding, saving: 0.2, severity: low}")
	bad = strings.Replace(bad, "gpu.copy_h2d_frac: 0.08}", "gpu.copy_h2d_frac: 0.02}", 1)
	bad = strings.Replace(bad, "finding_if:", "when: run.gpus_count > 0\nfinding_if:", 1)
	bad = strings.ReplaceAll(bad, "{facts: {", "{facts: {run.gpus_count: 2, ")
	rs := mustLoad(t, folder(gateG9, "data.h2d-pageable", bad))
	var got []string
	for _, f := range Test(rs) {
		got = append(got, strings.ReplaceAll(f.String(), nbsp, " "))
	}
	want := `data/h2d-pageable.yaml: no case wants pass: add one
data/h2d-pageable.yaml: no case wants not-asked: add one
data/h2d-pageable.yaml:17: got pass, want finding: 2.0 % (share of the window held by host-to-device copies), limit 3.0 %
data/h2d-pageable.yaml:18: got saving 0.25, want 0.2`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestLimitUnitsAreUnits(t *testing.T) {
	for _, u := range limitUnits {
		if _, ok := unit.Base(unit.Unit(u)); !ok {
			t.Errorf("package unit does not know %s", u)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(pageable)
	f.Add("id: [")
	f.Add("id: &a *a\n")
	f.Add("finding_if: ((((\n")
	f.Add("cases: [{facts: {a: {b: c}}}]\nlimits: {x: [1]}\ndo: [{say: 1}, [2]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		rs, err := Load(folder(gateG9, "data.h2d-pageable", text), nil, decls())
		if err != nil {
			return
		}
		Test(rs)
		Markdown(rs)
		rs.Evaluate(machine(1))
	})
}
