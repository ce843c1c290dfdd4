package engine

import (
	"fmt"
	"strings"
	"testing"

	"gpureport/rules/facts"
)

// simple is a rule that fires on one fact above 0.
func simple(id, per, fact, more string) string {
	return fmt.Sprintf("id: %s\ntitle: t\nper: %s\nfinding_if: %s > 0\nconfidence: measured\nsays: s\n%s\n", id, per, fact, more)
}

func TestGates(t *testing.T) {
	const sev = "severity: low"
	advice := func(gates string) string {
		return simple("step.advice", "gpu", "gpu.busy_frac", "severity: medium\ndo: [act]\ngates: ["+gates+"]")
	}
	gates := `- {id: G1, title: t, why: "cores are busy", allow_if: gpu.host_dataloader_frac >= wait, limits: {wait: {value: 5, unit: "%", source: s}},
   needs_silent: [hw.cores], measured: true, capture: C6}
- {id: G2, title: t, why: "not small", needs_fired: [shape.small], adds: "mind convergence"}
- {id: G4, title: t, why: "never so", never: true}
- {id: G8, title: t, why: "no evidence", needs_any: [hw.cores, shape.small], capture: C3}
- {id: G12, title: t, why: "no such rule", needs_silent: [hw.nowhere]}
`
	fs := func(g string) *Rules {
		return mustLoad(t, folder(gates, "step.advice", advice(g), "shape.small", simple("shape.small", "rank", "rank.host_busy_frac", sev),
			"hw.cores", simple("hw.cores", "host", "host.threads_count", sev)))
	}
	for _, c := range []struct {
		name, gates string
		facts       map[facts.ID]float64
		conf        facts.Confidence // of the dataloader fact
		do          string
		withheld    string // gate: why (capture)
	}{
		{"open", "G1", map[facts.ID]float64{"gpu.host_dataloader_frac": 0.1, "host.threads_count": 0}, confMeasured, "act", ""},
		{"closed by the condition", "G1", map[facts.ID]float64{"gpu.host_dataloader_frac": 0.01, "host.threads_count": 0}, confMeasured, "", "G1: cores are busy ()"},
		{"closed by a rule that fired", "G1", map[facts.ID]float64{"gpu.host_dataloader_frac": 0.1, "host.threads_count": 9}, confMeasured, "", "G1: cores are busy ()"},
		{"unknown rule outcome", "G1", map[facts.ID]float64{"gpu.host_dataloader_frac": 0.1}, confMeasured, "", "G1: cores are busy; not known: hw.cores was not answered (C4)"},
		{"unknown condition", "G1", map[facts.ID]float64{"host.threads_count": 0}, confMeasured, "", "G1: cores are busy; not known: not derived (C4)"},
		{"closed beats unknown", "G1", map[facts.ID]float64{"gpu.host_dataloader_frac": 0.01}, confMeasured, "", "G1: cores are busy ()"},
		{"not measured", "G1", map[facts.ID]float64{"gpu.host_dataloader_frac": 0.1, "host.threads_count": 0}, confInferred, "",
			"G1: cores are busy; not known: it is not measured, only inferred (C6)"},
		{"fired, and what it adds", "G2", map[facts.ID]float64{"rank.host_busy_frac": 1}, 0, "act; mind convergence", ""},
		{"not fired", "G2", map[facts.ID]float64{"rank.host_busy_frac": 0}, 0, "", "G2: not small ()"},
		{"never", "G4", nil, 0, "", "G4: never so ()"},
		{"one of two fired, the other unknown", "G8", map[facts.ID]float64{"rank.host_busy_frac": 1}, 0, "act", ""},
		{"none of two fired", "G8", map[facts.ID]float64{"rank.host_busy_frac": 0, "host.threads_count": 0}, 0, "", "G8: no evidence ()"},
		{"one silent, one unknown", "G8", map[facts.ID]float64{"host.threads_count": 0}, 0, "", "G8: no evidence; not known: shape.small was not answered (C4)"},
		{"rule that is not there", "G12", nil, 0, "", "G12: no such rule; not known: not judged: this checklist has no rule hw.nowhere ()"},
		{"two gates, the closed one is named", "G2, G4", nil, 0, "", "G4: never so ()"},
	} {
		rs := fs(c.gates)
		set := machine(1)
		set.Put(3, "gpu.busy_frac", val(0.5))
		for id, x := range c.facts {
			v := val(x)
			if id == "gpu.host_dataloader_frac" {
				v.Conf = c.conf
			}
			set.Put(map[string]int{"host": 1, "rank": 2, "gpu": 3}[strings.SplitN(string(id), ".", 2)[0]], id, v)
		}
		ch := rs.Evaluate(set)[0]
		var do, held []string
		for _, d := range ch.Do {
			do = append(do, d.Say)
		}
		for _, w := range ch.Withheld {
			held = append(held, fmt.Sprintf("%s: %s (%s)", w.Gate, w.Why, w.Capture))
		}
		if strings.Join(do, "|") != c.do || strings.Join(held, "|") != c.withheld {
			t.Errorf("%s: do %q withheld %q, want %q and %q", c.name, do, held, c.do, c.withheld)
		}
	}
}

// TestGateOfWiderAdvice judges a gate about GPUs for advice to the run: one GPU where it holds is enough.
// Advice for some values of a text fact is given there alone; a fact that is missing reads unknown. Advice to record facts is given where one lacks.
func TestAdviceWhere(t *testing.T) {
	file := `id: data.loader
title: The loader waits
per: run
when: run.gpus_count > 0
finding_if: run.culprit_rank_count >= 0
severity: low
confidence: measured
says: late
says_not_asked: "Asked only of a run with GPUs"
do:
  - {say: "Balance the work", where: {run.culprit_cause: [uneven-work, compute]}}
  - {say: "Record it", where: {run.culprit_cause: [unknown]}}
  - {say: "Record the GPUs", capture: C2, lacks: [run.gpus_count, run.culprit_cause]}
  - "Look at it"
`
	rs := mustLoad(t, folder(gateG9, "data.loader", file))
	for _, c := range []struct{ cause, want string }{
		{"uneven-work", "Balance the work|Look at it"}, {"compute", "Balance the work|Look at it"}, {"hardware", "Look at it"}, {"", "Record it|Record the GPUs|Look at it"},
	} {
		set := machine(1)
		set.Put(0, "run.gpus_count", val(1))
		set.Put(0, factCulprit, val(1))
		if c.cause != "" {
			set.Put(0, factCause, facts.Value{Text: c.cause, Conf: confMeasured})
		}
		var got []string
		for _, a := range rs.Evaluate(set)[0].Do {
			got = append(got, a.Say)
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%q: %s, want %s", c.cause, s, c.want)
		}
	}
	set := machine(1)
	set.Put(0, "run.gpus_count", val(0))
	if c := rs.Evaluate(set)[0]; c.Outcome != NotAsked || c.Says != "Asked only of a run with GPUs" {
		t.Errorf("%+v", c)
	}
}

func TestGateOfWiderAdvice(t *testing.T) {
	gates := `- {id: G1, title: t, why: w, allow_if: gpu.host_dataloader_frac >= wait, limits: {wait: {value: 5, unit: "%", source: s}}}` + "\n"
	rs := mustLoad(t, folder(gates, "step.advice", simple("step.advice", "run", "run.gpus_count", "severity: low\ndo: [act]\ngates: [G1]")))
	for _, c := range []struct {
		gpu  []float64 // negative: missing
		open bool
		why  string
	}{{[]float64{0.01, 0.2}, true, ""}, {[]float64{0.01, -1}, false, "w; not known: not derived"}, {[]float64{0.01, 0.01}, false, "w"}} {
		set := machine(2)
		set.Put(0, "run.gpus_count", val(2))
		for i, x := range c.gpu {
			if x >= 0 {
				set.Put(4+i, "gpu.host_dataloader_frac", val(x))
			}
		}
		ch := rs.Evaluate(set)[0]
		if open := len(ch.Do) == 1; open != c.open || !open && ch.Withheld[0].Why != c.why {
			t.Errorf("%v: do %v withheld %v", c.gpu, ch.Do, ch.Withheld)
		}
	}
}

// TestHint lets a hint ask for nothing but a capture, and keeps it at info.
func TestHint(t *testing.T) {
	rs := mustLoad(t, folder(gateG9,
		"step.weak", simple("step.weak", "gpu", "gpu.busy_frac", "severity: high\ndo: [act, {say: look, capture: C7}]"),
		"step.none", simple("step.none", "gpu", "gpu.busy_frac", "severity: high\ndo: [act]"),
		"step.born", strings.Replace(simple("step.born", "gpu", "gpu.busy_frac", "severity: high\ndo: [\"Record every rank\"]"), "measured", "hint", 1)))
	set := machine(1)
	set.Put(3, "gpu.busy_frac", facts.Value{Num: 0.5, Conf: confHint})
	var got []string
	for _, c := range rs.Evaluate(set) {
		s := fmt.Sprintf("%s %s %s:", c.Rule.ID, c.Severity, c.Confidence)
		for _, d := range c.Do {
			s += " do " + d.Say + "/" + d.Capture
		}
		for _, w := range c.Withheld {
			s += " held " + w.Say + "/" + w.Gate + "/" + w.Capture
		}
		got = append(got, s)
	}
	want := `step.weak info hint: do look/C7 held act/hint/C7
step.none info hint: do record a PyTorch trace of every rank/C4 held act/hint/C4
step.born info hint: do Record every rank/`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
