package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// layer of each package: imports go to strictly lower layers, and never from one tower to the other. Only cmd sees both.
var layer = []struct {
	prefix string
	tower  string // meaning, measuring, base, data, cmd, fixtures
	level  int
}{
	{"gpureport/cmd/", "cmd", 100},
	{"gpureport/render/html/pagetest", "meaning", 55},
	{"gpureport/render/html", "meaning", 60},
	{"gpureport/render/xlsx", "meaning", 60},
	{"gpureport/render", "meaning", 50},
	{"gpureport/rules/engine", "meaning", 40},
	{"gpureport/rules/facts", "meaning", 30},
	{"gpureport/rules/ledger", "meaning", 20},
	{"gpureport/rules", "data", 0},
	{"gpureport/templates", "data", 0},
	{"gpureport/ingest/formats", "measuring", 60},
	{"gpureport/ingest/timeline/timelinetest", "base", 15},
	{"gpureport/ingest/timeline", "base", 10},
	{"gpureport/ingest/unit", "base", 5},
	{"gpureport/ingest/recorder", "measuring", 30},
	{"gpureport/ingest/ingesttest", "measuring", 45},
	{"gpureport/ingest/", "measuring", 50}, // a format each
	{"gpureport/ingest", "measuring", 40},
	{"gpureport/fixtures/", "fixtures", 0},
}

func place(pkg string) (tower string, level int) {
	for _, l := range layer {
		if pkg == l.prefix || strings.HasSuffix(l.prefix, "/") && strings.HasPrefix(pkg, l.prefix) || strings.HasPrefix(pkg, l.prefix+"/") {
			return l.tower, l.level
		}
	}
	return "", -1
}

func TestImportsGoDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "gpureport/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	seen := 0
	for dec.More() {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		seen++
		tower, level := place(p.ImportPath)
		if level < 0 {
			t.Errorf("%s: no place in the drawing of the README: add it to the towers or move it", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, "gpureport/") {
				continue
			}
			to, l := place(imp)
			switch {
			case strings.HasSuffix(imp, "test"):
				t.Errorf("%s imports %s: only tests do", p.ImportPath, imp)
			case tower == "fixtures" && to == "fixtures":
			case tower == "fixtures":
				t.Errorf("%s imports %s: the simulator's truth is its own", p.ImportPath, imp)
			case to == "fixtures":
				t.Errorf("%s imports %s: only tests read fixtures", p.ImportPath, imp)
			case tower == "data":
				t.Errorf("%s imports %s: embedded files import nothing", p.ImportPath, imp)
			case tower == "cmd" || to == "data":
			case to != "base" && to != tower:
				t.Errorf("%s imports %s: across the towers", p.ImportPath, imp)
			case tower == to && l >= level:
				t.Errorf("%s imports %s: imports go down", p.ImportPath, imp)
			}
			if p.ImportPath == "gpureport/rules/engine" && imp == "gpureport/ingest/timeline" {
				t.Errorf("%s imports %s: a rule sees facts, not events", p.ImportPath, imp)
			}
			if strings.HasPrefix(p.ImportPath, "gpureport/render/") && imp == "gpureport/rules/facts" {
				t.Errorf("%s imports %s: a page does no sums", p.ImportPath, imp)
			}
		}
	}
	if seen < 15 {
		t.Errorf("go list found %d packages, want all of them", seen)
	}
}
