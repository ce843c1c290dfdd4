package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// truth is want/truth.json: what is true of an incident, whoever reports on it.
type truth struct {
	Class        *string                     `json:"class"`
	Cause        *string                     `json:"cause"`
	CulpritRank  *int                        `json:"culprit_rank"`
	Fire         []string                    `json:"fire"`
	Silent       []string                    `json:"silent"`
	Steps        int                         `json:"steps"`
	WindowNS     map[string]int64            `json:"window_ns"`
	ClockOffFrac float64                     `json:"clock_off_frac"`
	OwnersNS     map[string]map[string]int64 `json:"owners_ns"`
	SideNS       map[string]map[string]int64 `json:"side_ns"`
	Waits        []struct {
		CulpritRank int   `json:"culprit_rank"`
		DurNS       int64 `json:"dur_ns"`
	} `json:"waits"`
}

func incidents(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(fixtures, "*", "want", "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(filepath.Dir(filepath.Dir(p))))
	}
	if len(names) < 18 {
		t.Fatalf("only %d incidents found: %v", len(names), names)
	}
	return names
}

// Every incident, whole: the verdict, the findings, the ledger against the truth, and the golden report.
func TestFixtures(t *testing.T) {
	for _, name := range incidents(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(filepath.Join(fixtures, name, "want", "truth.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want truth
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			rep, _ := analyzed(t, "--title", name, inputFolder(t, name))
			ledgersClose(t, rep)
			checkVerdict(t, rep, &want)
			checkFindings(t, rep, &want)
			checkOwners(t, rep, &want)
			golden(t, filepath.Join(fixtures, name, "want", "report.json"), reduced(t, rep, name == "hostile"), name)
		})
	}
}

// inputFolder is the in/ of an incident; where that holds SQL text, a folder with the databases it makes and the other files.
func inputFolder(t testing.TB, name string) string {
	t.Helper()
	in := filepath.Join(fixtures, name, "in")
	texts, err := filepath.Glob(filepath.Join(in, "*.sql.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) == 0 {
		return in
	}
	dir := t.TempDir()
	for _, p := range texts {
		sql, err := sim.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		database(t, filepath.Join(dir, strings.TrimSuffix(filepath.Base(p), ".sql.gz")+".sqlite"), string(sql))
	}
	for _, p := range inputsOf(t, name) {
		if !strings.HasSuffix(p, ".sql.gz") {
			copyTo(t, p, dir, filepath.Base(p))
		}
	}
	return dir
}

func checkVerdict(t *testing.T, rep *render.Report, want *truth) {
	v := &rep.Verdict
	if want.Class != nil && v.Class != *want.Class {
		t.Errorf("verdict %s, the truth is %s", v.Class, *want.Class)
	}
	if want.Class == nil {
		return // an incident that is about something else
	}
	if d := cmp.Diff(want.Cause, v.Cause); d != "" {
		t.Errorf("cause (-truth +verdict):\n%s", d)
	}
	if d := cmp.Diff(want.CulpritRank, v.CulpritRank); d != "" {
		t.Errorf("culprit rank (-truth +verdict):\n%s", d)
	}
	if v.Sentence == "" {
		t.Error("the verdict has no sentence")
	}
}

func checkFindings(t *testing.T, rep *render.Report, want *truth) {
	found := map[string]bool{}
	known := map[string]bool{}
	for i := range rep.Checks {
		c := &rep.Checks[i]
		known[c.ID] = true
		if c.Outcome != "finding" {
			continue
		}
		found[c.ID] = true
		if slices.Contains(want.Silent, c.ID) {
			t.Errorf("%s %s is a finding and must not be: %s", c.ID, c.Subject.ID, c.Says)
		}
	}
	for _, id := range want.Fire {
		if !found[id] {
			t.Errorf("%s is no finding and must be", id)
		}
	}
	for _, id := range slices.Concat(want.Fire, want.Silent) {
		if !known[id] {
			t.Errorf("truth.json speaks of %s, which is no rule of the checklist", id)
		}
	}
}

// checkOwners compares the ledger with the simulator's: 0.2 % of the window is what a boundary read from the trace may be off.
func checkOwners(t *testing.T, rep *render.Report, want *truth) {
	seen := map[string]bool{}
	for _, l := range rep.Ledger {
		rank := "0"
		if l.Rank != nil {
			rank = strconv.Itoa(*l.Rank)
		}
		seen[rank] = true
		truth, ok := want.OwnersNS[rank]
		if !ok {
			t.Errorf("the truth knows no rank %s", rank)
			continue
		}
		slack := l.WindowNS / 500
		if d := l.WindowNS - want.WindowNS[rank]; d > slack || d < -slack {
			t.Errorf("rank %s: window of %d ns, the truth is %d ns", rank, l.WindowNS, want.WindowNS[rank])
		}
		if l.Steps != want.Steps {
			t.Errorf("rank %s: %d steps, the truth is %d", rank, l.Steps, want.Steps)
		}
		for o := range truth {
			if _, ok := l.Owners[o]; !ok {
				t.Errorf("rank %s: no owner %s in the report", rank, o)
			}
		}
		for o, ns := range l.Owners {
			if d := ns - truth[o]; d > slack || d < -slack {
				t.Errorf("rank %s: %s has %d ns, the truth is %d ns (%.2f %% of the window off)", rank, o, ns, truth[o], 100*float64(d)/float64(l.WindowNS))
			}
		}
		for what, ns := range map[string]int64{"hidden_comm": l.Side.HiddenComm, "hidden_copy": l.Side.HiddenCopy, "hidden_next": l.Side.HiddenNext} {
			if d := ns - want.SideNS[rank][what]; d > slack || d < -slack {
				t.Errorf("rank %s: %s is %d ns, the truth is %d ns", rank, what, ns, want.SideNS[rank][what])
			}
		}
	}
	for rank := range want.OwnersNS {
		if !seen[rank] {
			t.Errorf("the report has no ledger of rank %s", rank)
		}
	}
	waits := map[int]int64{}
	for _, w := range rep.Waits {
		if w.CulpritRank != nil {
			waits[*w.CulpritRank] += w.DurNS
		}
	}
	for _, w := range want.Waits {
		slack := w.DurNS / 500
		for _, ns := range want.WindowNS {
			slack = max(slack, int64(want.ClockOffFrac*float64(ns)))
		}
		if d := waits[w.CulpritRank] - w.DurNS; d > slack || d < -slack {
			t.Errorf("peers waited %d ns for rank %d, the truth is %d ns", waits[w.CulpritRank], w.CulpritRank, w.DurNS)
		}
	}
}

// reduced is the part of a report that a golden file keeps, one list item a line; whole keeps all of it. The tool's version is left out.
func reduced(t *testing.T, rep *render.Report, whole bool) []byte {
	t.Helper()
	rep.Tool.Version = ""
	if whole {
		return lines(t, rep)
	}
	type verdict struct {
		Class           string   `json:"class"`
		Cause           *string  `json:"cause"`
		CulpritRank     *int     `json:"culprit_rank"`
		Confidence      string   `json:"confidence"`
		RecoverableFrac *float64 `json:"recoverable_frac"`
		Sentence        string   `json:"sentence"`
		Lead            string   `json:"lead"`
		Evidence        []string `json:"evidence"`
		Next            *string  `json:"next"`
		Do              []string `json:"do"`
		Dont            []string `json:"dont"`
	}
	type ledger struct {
		GPU      string           `json:"gpu"`
		Rank     *int             `json:"rank"`
		WindowNS int64            `json:"window_ns"`
		Steps    int              `json:"steps"`
		Owners   map[string]int64 `json:"owners"` // those above 0
	}
	type finding struct {
		ID         string   `json:"id"`
		Subject    string   `json:"subject"`
		Severity   *string  `json:"severity"`
		Confidence *string  `json:"confidence"`
		Saving     *float64 `json:"recoverable_frac"`
		Says       string   `json:"says"`
		Overlaps   []string `json:"overlaps"`
	}
	v := &rep.Verdict
	out := struct {
		Schema   string              `json:"schema"`
		Verdict  verdict             `json:"verdict"`
		Ledger   []ledger            `json:"ledger"`
		Waits    []render.WaitRow    `json:"waits"`
		Problems []render.Problem    `json:"problems"`
		Findings []finding           `json:"findings"`
		Checks   [][]string          `json:"checks"` // of the others: id, then each outcome with its subjects
		Marks    []render.StepMarks  `json:"step_marks"`
		Plan     map[string][]string `json:"capture_plan"` // title: rules it answers
	}{Schema: rep.Schema, Waits: rep.Waits, Problems: rep.Problems, Marks: rep.StepMarks, Plan: map[string][]string{}, Verdict: verdict{v.Class, v.Cause, v.CulpritRank, v.Confidence, v.RecoverableFrac, v.Sentence, v.Lead, v.Evidence, v.Next, v.Do, v.Dont}}
	for _, l := range rep.Ledger {
		row := ledger{l.GPU, l.Rank, l.WindowNS, l.Steps, map[string]int64{}}
		for o, ns := range l.Owners {
			if ns != 0 {
				row.Owners[o] = ns
			}
		}
		out.Ledger = append(out.Ledger, row)
	}
	for i := range rep.Checks {
		c := &rep.Checks[i]
		if c.Outcome == "finding" {
			out.Findings = append(out.Findings, finding{c.ID, c.Subject.ID, c.Severity, c.Confidence, c.RecoverableFrac, c.Says, c.Overlaps})
		} else {
			n := len(out.Checks) - 1
			if n < 0 || out.Checks[n][0] != c.ID {
				out.Checks = append(out.Checks, []string{c.ID})
				n++
			}
			row := &out.Checks[n]
			if k := slices.IndexFunc(*row, func(x string) bool { return strings.HasPrefix(x, c.Outcome+": ") }); k >= 0 {
				(*row)[k] += " " + c.Subject.ID
			} else {
				*row = append(*row, c.Outcome+": "+c.Subject.ID)
			}
		}
	}
	for _, c := range rep.CapturePlan {
		out.Plan[c.Title+" ("+c.Where+")"] = c.Answers
	}
	return lines(t, out)
}

// lines writes v as JSON with a line for each field and for each item of a list at the top.
func lines(t *testing.T, v any) []byte {
	t.Helper()
	var flat bytes.Buffer
	enc := json.NewEncoder(&flat)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(flat.Bytes()))
	var b bytes.Buffer
	token := func() json.Token {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	raw := func() string {
		var m json.RawMessage
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		return string(m)
	}
	token() // {
	b.WriteString("{")
	for sep := "\n"; dec.More(); sep = ",\n" {
		fmt.Fprintf(&b, "%s%q: ", sep, token())
		item := raw()
		if !strings.HasPrefix(item, "[") && len(item) < 160 || item == "[]" {
			b.WriteString(item)
			continue
		}
		b.WriteString(spread(t, item))
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

// spread breaks one list or object over lines, an item a line.
func spread(t *testing.T, text string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	first, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	open, ok := first.(json.Delim)
	if !ok {
		return text
	}
	var b strings.Builder
	b.WriteString(open.String())
	for sep := "\n "; dec.More(); sep = ",\n " {
		b.WriteString(sep)
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%q: ", key)
		}
		var m json.RawMessage
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		b.Write(m)
	}
	if open == '{' {
		return b.String() + "\n}"
	}
	return b.String() + "\n]"
}

// golden compares with a file byte for byte, or writes it with -update.
func golden(t *testing.T, path string, got []byte, name string) {
	t.Helper()
	if n := bytes.Count(got, []byte("\n")); n > 500 {
		t.Errorf("%s would have %d lines: a golden over 500 lines wants a smaller fixture", path, n)
	}
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: write it with go test ./cmd/gpureport -run %s -update, and read it", err, t.Name())
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s: not what it was; if it is better, write it with -update and say in the commit which checks moved, and why (-golden +got):\n%s",
			name, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")))
	}
}
