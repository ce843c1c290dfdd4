package engine

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
)

func testScope(per facts.SubjectKind) *scope {
	s := &scope{per: per, decls: map[facts.ID]*facts.Decl{}, used: map[string]bool{}, limits: []Limit{
		{Name: "share", Value: 0.5, Unit: unit.Frac}, {Name: "slow", Value: 2, Unit: unit.Second}, {Name: "hot", Value: 80, Unit: unit.Celsius},
		{Name: "few", Value: 4, Unit: unit.Count}}}
	for _, d := range decls() {
		s.decls[d.ID] = d
		s.names = append(s.names, string(d.ID))
	}
	sort.Strings(s.names)
	return s
}

func TestKleene(t *testing.T) {
	const u = unknownTruth
	for _, c := range []struct{ a, b, and, or truth }{
		{no, no, no, no}, {no, u, no, u}, {no, yes, no, yes},
		{u, no, no, u}, {u, u, u, u}, {u, yes, u, yes},
		{yes, no, no, yes}, {yes, u, u, yes}, {yes, yes, yes, yes},
	} {
		if got := c.a.and(c.b); got != c.and {
			t.Errorf("%v and %v = %v", c.a, c.b, got)
		}
		if got := c.a.or(c.b); got != c.or {
			t.Errorf("%v or %v = %v", c.a, c.b, got)
		}
	}
	if yes.not() != no || no.not() != yes || u.not() != u {
		t.Error("not")
	}
}

// TestConditions judges conditions over gpu0 with pageable 0.6, h2d 0.1, busy 0, temp 90, mig true, step 1 s; the rest missing.
func TestConditions(t *testing.T) {
	set := machine(1)
	set.Put(3, "gpu.h2d_pageable_frac", val(0.6))
	set.Put(3, "gpu.copy_h2d_frac", val(0.1))
	set.Put(3, "gpu.busy_frac", val(0))
	set.Put(3, "gpu.temp_max_c", val(90))
	set.Put(3, "gpu.mig_flag", val(1))
	set.Put(2, "rank.step_p50_s", val(1))
	for _, c := range []struct {
		text    string
		want    truth
		missing string // facts, and why where it is no absence
	}{
		{"gpu.h2d_pageable_frac > share", yes, ""},
		{"gpu.h2d_pageable_frac < share", no, ""},
		{"gpu.h2d_pageable_frac >= share and rank.step_p50_s <= slow", yes, ""},
		{"gpu.host_sync_frac > share", unknownTruth, "gpu.host_sync_frac"},
		{"gpu.host_sync_frac > share and gpu.copy_h2d_frac > share", no, ""},
		{"gpu.host_sync_frac > share or gpu.h2d_pageable_frac > share", yes, ""},
		{"gpu.host_sync_frac > share or gpu.copy_h2d_frac > share", unknownTruth, "gpu.host_sync_frac"},
		{"(gpu.host_sync_frac > share and gpu.copy_h2d_frac > share) or gpu.host_launch_frac > share", unknownTruth, "gpu.host_launch_frac"},
		{"not (gpu.copy_h2d_frac > share)", yes, ""},
		{"not (gpu.host_sync_frac > share)", unknownTruth, "gpu.host_sync_frac"},
		{"gpu.mig_flag and not (gpu.temp_max_c < hot)", yes, ""},
		{"gpu.copy_h2d_frac / gpu.busy_frac > share", unknownTruth, "gpu.copy_h2d_frac division by zero: gpu.busy_frac is 0"},
		{"gpu.h2d_pageable_frac / (gpu.copy_h2d_frac - gpu.copy_h2d_frac) > 0", unknownTruth,
			"gpu.h2d_pageable_frac division by zero: gpu.copy_h2d_frac - gpu.copy_h2d_frac is 0"},
		{"share / (gpu.copy_h2d_frac / gpu.busy_frac) < share", unknownTruth, "gpu.copy_h2d_frac division by zero: gpu.busy_frac is 0"},
		{"min(gpu.h2d_pageable_frac, gpu.copy_h2d_frac) * rank.step_p50_s < slow", yes, ""},
		{"abs(gpu.copy_h2d_frac - gpu.h2d_pageable_frac) >= share", yes, ""},
		{"-gpu.copy_h2d_frac < 0 and gpu.busy_frac == 0 and gpu.copy_h2d_frac != 0", yes, ""},
		{"max(gpu.copy_h2d_frac, gpu.host_sync_frac) > 0", unknownTruth, "gpu.host_sync_frac"},
		{"gpu.h2d_pageable_frac > share\n  or gpu.host_sync_frac > share", yes, ""},
	} {
		cond, bad := testScope(facts.GPU).compileCond(c.text)
		if bad != nil {
			t.Errorf("%s: %v", c.text, bad)
			continue
		}
		got, _, needs := cond.eval(view{set, 3})
		var miss []string
		for _, n := range needs {
			s := string(n.Fact)
			if strings.Contains(n.Why, "zero") {
				s += " " + n.Why
			}
			miss = append(miss, s)
		}
		if got != c.want || strings.Join(miss, ",") != c.missing {
			t.Errorf("%s: got %v %q, want %v %q", c.text, got, miss, c.want, c.missing)
		}
	}
}

// TestClauseText keeps each comparison as the rule writes it.
func TestClauseText(t *testing.T) {
	cond, bad := testScope(facts.GPU).compileCond("((gpu.copy_h2d_frac + gpu.busy_frac) * share > min(share, gpu.busy_frac)) and not (share < (gpu.busy_frac)) or gpu.mig_flag")
	if bad != nil {
		t.Fatal(bad)
	}
	var got []string
	for _, l := range cond.leaves {
		got = append(got, l.text)
	}
	want := []string{"(gpu.copy_h2d_frac + gpu.busy_frac) * share > min(share, gpu.busy_frac)", "share < (gpu.busy_frac)", "gpu.mig_flag"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestConditionErrors(t *testing.T) {
	const holds = "it may hold fact names, limits, < <= > >= == !=, + - * /, min, max, abs, parentheses, and, or, not"
	for _, c := range []struct {
		per  facts.SubjectKind
		text string
		want string // offset: message, joined by newlines
	}{
		{facts.GPU, "gpu.copy_h2d_fraq > share", "0: unknown fact gpu.copy_h2d_fraq: did you mean gpu.copy_h2d_frac?"},
		{facts.GPU, "gpu.copy_h2d_fraq > share and gpu.zzz < shares",
			"0: unknown fact gpu.copy_h2d_fraq: did you mean gpu.copy_h2d_frac?\n30: unknown fact gpu.zzz: gpureport rules facts lists them\n40: unknown limit shares: did you mean share?"},
		{facts.GPU, "gpu.busy_frac > 0.3", "16: bare number 0.3: give it a name, unit and source in limits"},
		{facts.GPU, "gpu.busy_frac > 1", "16: bare number 1: give it a name, unit and source in limits"},
		{facts.GPU, "gpu.busy_frac > 30%", "18: a percent sign in a condition: put the number in limits, with its unit"},
		{facts.GPU, "gpu.busy_frac > slow", "0: gpu.busy_frac is a share and slow is a time: compare like with like"},
		{facts.GPU, "gpu.busy_frac + rank.step_p50_s > share", "0: gpu.busy_frac + rank.step_p50_s: gpu.busy_frac is a share and rank.step_p50_s is a time: no unit comes of it"},
		{facts.GPU, "gpu.temp_max_c * rank.step_p50_s > share", "0: gpu.temp_max_c * rank.step_p50_s: gpu.temp_max_c is a temperature and rank.step_p50_s is a time: no unit comes of it"},
		{facts.Rank, "gpu.busy_frac > share", "0: gpu.busy_frac is of one gpu and the rule is per rank: a rule sees its subject and what holds it; write per: gpu"},
		{facts.GPU, "gpu.name == share", "0: gpu.name is a text: texts are shown in says, never judged"},
		{facts.GPU, "gpu.mig_flag == 0", "0: gpu.mig_flag is true or false already: write it alone, or not gpu.mig_flag"},
		{facts.GPU, "gpu.mig_flag + gpu.busy_frac > share", "0: gpu.mig_flag is true or false: it cannot be reckoned with"},
		{facts.GPU, "gpu.busy_frac", "0: gpu.busy_frac is a share, not true or false: compare it with a limit"},
		{facts.GPU, "0 < gpu.busy_frac < share", "18: two comparisons in a row: write a < b and b < c"},
		{facts.GPU, "not gpu.busy_frac > share", "0: not before a number: write not (a > b)"},
		{facts.GPU, "share > few", "0: share is a share and few is a count: compare like with like"},
		{facts.GPU, "share > share", "0: share > share names no fact: a condition asks something of the run"},
		{facts.GPU, "gpu.busy_frac > share && gpu.mig_flag", "22: '&' in a condition: write and, or"},
		{facts.GPU, "gpu.busy_frac > share ? gpu.mig_flag : gpu.mig_flag", "22: '?' in a condition: " + holds},
		{facts.GPU, `gpu.name == "x"`, `12: '"' in a condition: ` + holds},
		{facts.GPU, "gpu.busy_frac ** share > share", `14: "**" in a condition: ` + holds},
		{facts.GPU, "gpu.busy_frac > share // why", `22: "//" in a condition: ` + holds},
		{facts.GPU, "gpu.busy_frac..few > share", `13: ".." in a condition: ` + holds},
		{facts.GPU, "now() > share", "0: now() in a condition: " + holds},
		{facts.GPU, "len(gpu.busy_frac) > few", "0: len() in a condition: " + holds},
		{facts.GPU, "sqrt(gpu.busy_frac) > share", "0: a call in a condition: " + holds},
		{facts.GPU, "gpu.busy_frac.abs() > share", "14: a call in a condition: " + holds},
		{facts.GPU, "min(gpu.busy_frac) > share", "0: min takes 2 of them, not 1"},
		{facts.GPU, "gpu.busy_frac in share", "0: gpu.busy_frac in share is no comparison: " + holds},
		{facts.GPU, "let x = share; x > share", "13: ';' in a condition: " + holds},
		{facts.GPU, "gpu.busy_frac >", "14: not a condition: it ends too early: " + holds},
		{facts.GPU, "(gpu.busy_frac > share", "21: not a condition: it ends too early: " + holds},
		{facts.GPU, "true", "0: true is no comparison: " + holds},
		{facts.GPU, "gpu > share", "0: unknown limit gpu: add it to limits; a fact's name holds a dot"},
		{facts.GPU, "all(gpu, gpu.busy_frac) > share", "0: all() in a condition: " + holds},
		{facts.GPU, "(gpu.busy_frac > share) > share", "1: gpu.busy_frac > share is no number: " + holds},
	} {
		_, bad := testScope(c.per).compileCond(c.text)
		var got []string
		for _, b := range bad {
			got = append(got, fmt.Sprintf("%d: %s", b.off, b.msg))
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, strings.Join(got, "\n"), c.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		a, b     unit.Unit
		mul, div unit.Unit
		noM, noD bool
	}{
		{a: unit.Frac, b: unit.Frac, mul: unit.Frac, div: unit.Frac},
		{a: unit.Count, b: unit.Count, mul: unit.Count, div: unit.Frac},
		{a: unit.Second, b: unit.Frac, mul: unit.Second, div: unit.Second},
		{a: unit.Second, b: unit.Count, mul: unit.Second, div: unit.Second},
		{a: unit.BytePerSecond, b: unit.Second, mul: unit.Byte, noD: true},
		{a: unit.Byte, b: unit.Second, noM: true, div: unit.BytePerSecond},
		{a: unit.Byte, b: unit.BytePerSecond, noM: true, div: unit.Second},
		{a: unit.Joule, b: unit.Watt, noM: true, div: unit.Second},
		{a: unit.Count, b: unit.Second, mul: unit.Second, div: unit.Hertz},
		{a: unit.Watt, b: unit.Celsius, noM: true, noD: true},
		{a: unit.Frac, b: unit.Second, mul: unit.Second, noD: true},
	} {
		if u, ok := product(c.a, c.b); ok == c.noM || ok && u != c.mul {
			t.Errorf("%s*%s = %s %v", c.a, c.b, u, ok)
		}
		if u, ok := quotient(c.a, c.b); ok == c.noD || ok && u != c.div {
			t.Errorf("%s/%s = %s %v", c.a, c.b, u, ok)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		v    float64
		u    unit.Unit
		want string
	}{
		{0, unit.Frac, "0 %"}, {0.0005, unit.Frac, "<0.1 %"}, {0.04123, unit.Frac, "4.1 %"}, {0.0996, unit.Frac, "10 %"}, {0.31, unit.Frac, "31 %"},
		{0.09949, unit.Frac, "9.9 %"}, {1.3, unit.Frac, "130 %"}, {-0.02, unit.Frac, "-2.0 %"}, {-0.0004, unit.Frac, ">-0.1 %"},
		{0.0912, unit.Second, "91 ms"}, {0.0020, unit.Second, "2.0 ms"}, {0.9996, unit.Second, "1.0 s"}, {1.93, unit.Second, "1.9 s"},
		{0.148, unit.Second, "150 ms"}, {41, unit.Second, "41 s"}, {300, unit.Second, "300 s"}, {1800, unit.Second, "30 min"}, {5e-6, unit.Second, "5.0 µs"},
		{3e-9, unit.Second, "3.0 ns"}, {0, unit.Second, "0 s"},
		{123456, unit.Byte, "120 kB"}, {25e9, unit.BytePerSecond, "25 GB/s"}, {512, unit.Byte, "510 bytes"}, {3.12e14, unit.FlopPerSecond, "310 TFLOP/s"},
		{347, unit.Watt, "347 W"}, {1.755e9, unit.Hertz, "1755 MHz"}, {83.4, unit.Celsius, "83 °C"},
		{1480, unit.Count, "1480"}, {1.337, unit.Count, "1.3"}, {12.4, unit.Count, "12"}, {0, unit.Count, "0"}, {1, unit.Flag, "yes"}, {0, unit.Flag, "no"},
	} {
		if got := strings.ReplaceAll(Format(c.v, c.u), nbsp, " "); got != c.want {
			t.Errorf("%v %s: got %q, want %q", c.v, c.u, got, c.want)
		}
	}
}
