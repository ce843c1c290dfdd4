package engine

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gpureport/rules/facts"

	"pgregory.net/rapid"
)

func TestSeverity(t *testing.T) {
	rs := mustLoad(t, folder(gateG9,
		"data.saved", simple("data.saved", "gpu", "gpu.busy_frac", "saving: gpu.copy_h2d_frac - gpu.host_sync_frac"),
		"data.stated", simple("data.stated", "gpu", "gpu.busy_frac", "saving: gpu.copy_h2d_frac - gpu.host_sync_frac\nseverity: high"),
		"hw.fault", simple("hw.fault", "gpu", "gpu.busy_frac", "saving: gpu.copy_h2d_frac - gpu.host_sync_frac\nseverity: critical")))
	for _, c := range []struct {
		h2d  float64 // negative: missing
		want string
	}{
		{0.9, "high 0.9|high 0.9|critical 0.9"}, {0.2, "high 0.2|high 0.2|critical 0.2"}, {0.19, "medium 0.19|medium 0.19|critical 0.19"},
		{0.05, "medium 0.05|medium 0.05|critical 0.05"}, {0.04, "low 0.04|low 0.04|critical 0.04"}, {0.03, "low 0.03|low 0.03|critical 0.03"},
		{0.02, "info 0.02|info 0.02|critical 0.02"}, {0, "info 0|info 0|critical 0"}, {-1, "low none|high none|critical none"},
	} {
		set := machine(1)
		set.Put(3, "gpu.busy_frac", val(0.5))
		set.Put(3, "gpu.host_sync_frac", val(0))
		if c.h2d >= 0 {
			set.Put(3, "gpu.copy_h2d_frac", val(c.h2d))
		}
		var got []string
		for _, ch := range rs.Evaluate(set) {
			got = append(got, ch.Severity.String()+" "+savingWords(ch.Saving))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%v: got %q want %q", c.h2d, got, c.want)
		}
	}
	set := machine(1) // below 0: clamped
	set.Put(3, "gpu.busy_frac", val(0.5))
	set.Put(3, "gpu.host_sync_frac", val(0.5))
	set.Put(3, "gpu.copy_h2d_frac", val(0.1))
	if s := rs.Evaluate(set)[0].Saving; s == nil || *s != 0 {
		t.Errorf("saving %v, want 0", s)
	}
}

func TestOutcomes(t *testing.T) {
	when := "when: run.gpus_count > few\nlimits: {few: {value: 1, unit: count, source: s}}\nseverity: low\nlooks_like: x"
	rs := mustLoad(t, folder(gateG9, "comm.asked", simple("comm.asked", "gpu", "gpu.busy_frac", when)))
	for _, c := range []struct {
		gpus, busy float64
		want, says string
	}{
		{2, 0.5, "finding", "S"}, {2, 0, "pass", "0\u00a0% (share of the window busy), limit 0\u00a0%"},
		{1, 0.5, "not-asked", "Not asked: 1 (GPUs of the run), limit 1"}, {1, -1, "not-asked", "Not asked: 1 (GPUs of the run), limit 1"},
		{-1, 0.5, "unknown", "Not answered: not derived"}, {2, -1, "unknown", "Not answered: not derived"},
		{-1, 0, "unknown", "Not answered: not derived"}, {-1, -1, "unknown", "Not answered: not derived"},
	} {
		set := machine(1)
		if c.gpus >= 0 {
			set.Put(0, "run.gpus_count", val(c.gpus))
		}
		if c.busy >= 0 {
			set.Put(3, "gpu.busy_frac", val(c.busy))
		}
		ch := rs.Evaluate(set)[0]
		if ch.Outcome.String() != c.want || ch.Says != c.says || (ch.Outcome == Unknown) != (len(ch.Missing) > 0) {
			t.Errorf("%v %v: got %s %q missing %v, want %s %q", c.gpus, c.busy, ch.Outcome, ch.Says, ch.Missing, c.want, c.says)
		}
		if ch.Outcome != Finding && (ch.Severity != NoSeverity || ch.Saving != nil || len(ch.Do)+len(ch.Withheld) > 0) {
			t.Errorf("%v %v: what is no finding has %+v", c.gpus, c.busy, ch)
		}
	}
}

func TestNoSubject(t *testing.T) {
	rs := mustLoad(t, folder(gateG9, "data.h2d-pageable", pageable))
	set := facts.NewSet([]facts.Subject{{Kind: facts.Run, ID: "run", Rank: -1, Up: -1}}, decls())
	cs := rs.Evaluate(set)
	if len(cs) != 1 || cs[0].Outcome != Unknown || cs[0].Subject.Kind != facts.Run || len(cs[0].Missing) != 2 ||
		cs[0].Says != "Not answered: no gpu is in the input" {
		t.Errorf("%+v", cs)
	}
}

func TestEvidence(t *testing.T) {
	rs := mustLoad(t, folder(gateG9, "data.h2d-pageable", pageable))
	set := machine(1)
	refs := func(from int) (out []facts.Ref) {
		for i := range 6 {
			out = append(out, facts.Ref{Path: "t.json", Row: uint64(from + i)})
		}
		return out
	}
	set.Put(3, "gpu.h2d_pageable_frac", facts.Value{Num: 0.9, Conf: confMeasured, Refs: refs(0), NRefs: 60})
	set.Put(3, "gpu.copy_h2d_frac", facts.Value{Num: 0.1, Conf: confHint, Refs: refs(3), NRefs: 7})
	c := rs.Evaluate(set)[0]
	if c.NRefs != 67 || len(c.Refs) != 8 || c.Refs[7].Row != 7 || c.Confidence != confHint || c.Severity != Info {
		t.Errorf("%+v", c)
	}
	if len(c.Numbers) != 2 || c.Numbers[0].Fact != "gpu.h2d_pageable_frac" || c.Numbers[1].Value.Num != 0.1 {
		t.Errorf("numbers %+v", c.Numbers)
	}
}

// covering is a rule per kind whose saving is fact and claims owners.
func covering(id, per, class, fact, covers string) string {
	return simple(id, per, fact, "class: "+class+"\nsaving: "+fact+"\ncovers: ["+covers+"]")
}

func TestOverlaps(t *testing.T) {
	rs := mustLoad(t, folder(gateG9,
		"idle.a", covering("idle.a", "gpu", "host-bound", "gpu.host_sync_frac", "host.sync, host.launch"),
		"idle.b", covering("idle.b", "gpu", "host-bound", "gpu.host_launch_frac", "host.launch"),
		"idle.c", simple("idle.c", "gpu", "gpu.host_dataloader_frac", "class: data-pipeline\nsaving: gpu.host_dataloader_frac"), // owner by its name
		"data.d", covering("data.d", "rank", "data-pipeline", "rank.host_busy_frac", "host.dataloader"),
		"data.e", simple("data.e", "gpu", "gpu.busy_frac", "class: transfer\nsaving: gpu.copy_h2d_frac\ncovers: [copy.h2d]\noverlaps: [idle.a]")))
	set := machine(2)
	for g := 4; g < 6; g++ {
		set.Put(g, "gpu.host_sync_frac", val(0.1))
		set.Put(g, "gpu.host_dataloader_frac", val(0.2))
		set.Put(g, "gpu.busy_frac", val(0.2))
		set.Put(g, "gpu.copy_h2d_frac", val(0.2))
	}
	set.Put(4, "gpu.host_launch_frac", val(0.1)) // idle.b fires on gpu0 alone
	set.Put(3, "rank.host_busy_frac", val(0.3))  // data.d on rank1 alone
	var got []string
	for _, c := range rs.Evaluate(set) {
		if c.Outcome == Finding {
			got = append(got, fmt.Sprint(c.Rule.ID, " ", c.Subject.ID, " ", c.Overlaps))
		}
	}
	want := `idle.a gpu0 [idle.b data.e]
idle.a gpu1 [data.e]
idle.b gpu0 [idle.a]
idle.c gpu0 []
idle.c gpu1 [data.d]
data.d rank1 [idle.c]
data.e gpu0 [idle.a]
data.e gpu1 [idle.a]`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestMonotone takes facts away: an outcome stays or turns unknown, never pass to finding or back.
func TestMonotone(t *testing.T) {
	ids := []facts.ID{"gpu.h2d_pageable_frac", "gpu.copy_h2d_frac", "gpu.host_sync_frac", "gpu.busy_frac"}
	rapid.Check(t, func(t *rapid.T) {
		var expr func(depth int) string
		expr = func(depth int) string {
			id := string(rapid.SampledFrom(ids).Draw(t, "fact"))
			op := rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!="}).Draw(t, "op")
			arith := rapid.SampledFrom([]string{"%s", "%s / gpu.busy_frac", "max(%s, gpu.host_sync_frac)", "(%s - gpu.copy_h2d_frac) * half"}).Draw(t, "arith")
			leaf := fmt.Sprintf(arith, id) + " " + op + " half"
			if depth == 0 {
				return leaf
			}
			switch rapid.IntRange(0, 3).Draw(t, "join") {
			case 0:
				return "(" + expr(depth-1) + " and " + expr(depth-1) + ")"
			case 1:
				return "(" + expr(depth-1) + " or " + expr(depth-1) + ")"
			case 2:
				return "not (" + expr(depth-1) + ")"
			}
			return leaf
		}
		text := simple("step.x", "gpu", "gpu.busy_frac", `severity: low
limits: {half: {value: 50, unit: "%", source: s}}`)
		text = strings.Replace(text, "finding_if: gpu.busy_frac > 0", "when: "+expr(1)+"\nfinding_if: "+expr(3), 1)
		rs, err := Load(folder(gateG9, "step.x", text), nil, decls())
		if err != nil {
			t.Fatal(err)
		}
		all, some := machine(1), machine(1)
		for _, id := range ids {
			v := val(rapid.SampledFrom([]float64{0, 0.2, 0.5, 1}).Draw(t, string(id)))
			if rapid.IntRange(0, 4).Draw(t, "known") == 0 {
				continue
			}
			all.Put(3, id, v)
			if rapid.Bool().Draw(t, "keep") {
				some.Put(3, id, v)
			}
		}
		a, b := rs.Evaluate(all)[0].Outcome, rs.Evaluate(some)[0].Outcome
		if b != a && b != Unknown {
			t.Fatalf("%s: %s became %s", text, a, b)
		}
	})
}

func TestDeterministic(t *testing.T) {
	rs := mustLoad(t, folder(gateG9, "idle.a", covering("idle.a", "gpu", "host-bound", "gpu.host_sync_frac", "host.sync"), "data.h2d-pageable", pageable))
	set := machine(3)
	for g := 5; g < 8; g++ {
		set.Put(g, "gpu.host_sync_frac", val(0.1))
		set.Put(g, "gpu.h2d_pageable_frac", val(0.9))
		set.Put(g, "gpu.copy_h2d_frac", val(0.1))
		set.Put(g, "gpu.compute_frac", val(0.1))
	}
	first := rs.Evaluate(set)
	var order []string
	for _, c := range first {
		order = append(order, c.Rule.ID+" "+c.Subject.ID)
	}
	if want := "idle.a gpu0,idle.a gpu1,idle.a gpu2,data.h2d-pageable gpu0,data.h2d-pageable gpu1,data.h2d-pageable gpu2"; strings.Join(order, ",") != want {
		t.Errorf("order %v", order)
	}
	for range 20 {
		again := rs.Evaluate(set)
		if !reflect.DeepEqual(first, again) || !reflect.DeepEqual(Decide(first, InputOf(set)), Decide(again, InputOf(set))) {
			t.Fatal("two evaluations differ")
		}
	}
}

// What a rule is asked by does not make its finding less sure.
func TestWhenKeepsConfidence(t *testing.T) {
	rs := mustLoad(t, folder(gateG9, "comm.asked", simple("comm.asked", "gpu", "gpu.busy_frac", "when: run.gpus_count > few\nlimits: {few: {value: 1, unit: count, source: s}}\nseverity: low")))
	set := machine(1)
	for i, s := range set.Subjects {
		switch s.Kind {
		case facts.Run:
			set.Put(i, "run.gpus_count", facts.Value{Num: 4, Conf: confInferred, Cover: 1})
		case facts.GPU:
			set.Put(i, "gpu.busy_frac", facts.Value{Num: 0.5, Conf: confMeasured, Cover: 1})
		}
	}
	if cs := rs.Evaluate(set); cs[0].Outcome != Finding || cs[0].Confidence != confMeasured {
		t.Errorf("%v %v", cs[0].Outcome, cs[0].Confidence)
	}
}
