package engine_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
)

// maxAdvice is how long an advice may be: the first screen shows two of them.
const maxAdvice = 420

var (
	// looks begins advice that changes nothing, so it costs nothing to say.
	looks = regexp.MustCompile(`^(Read|Compare|Record|Follow) `)
	costs = regexp.MustCompile(`(^|[.;:] |on the GPU )(Costs|it costs|costs) `)
	vague = regexp.MustCompile(`(?i)^(optimi[sz]e|consider|check|improve|tune|ensure|investigate)\b`)
	// never is what a report does not say, and what only its makers know by these names.
	never   = regexp.MustCompile(`(?i)\b(optimal|seems|may want to|please|simply)\b|!( |$)|\bC[0-9]{1,2}\b|time-ledger|checklist`)
	idWords = regexp.MustCompile(`(^|[^a-z._/-])((step|idle|data|kernel|comm|shape|hw)\.[a-z0-9]+(-[a-z0-9]+)*)($|[^a-z0-9_(.-]|\.( |$))`)
	gateID  = regexp.MustCompile(`\bG[0-9]{1,2}\b`)
)

// behind says which gate must hold back advice of that wording. G5 and G4 never open.
var behind = []struct{ gate, words string }{
	{"G1", `(?i)\b(raise|add|more) (num_)?(loader )?workers|\b(raise|larger|higher) prefetch`},
	{"G2", `(?i)\b(larger|bigger) (micro-)?batch\b|\braise the batch`},
	{"G3", `(?i)\b(fused|foreach) (implementation|optimizer)|\bfused=True`},
	{"G5", `NCCL_(ALGO|PROTO|BUFFSIZE|NTHREADS|MIN_|MAX_|P2P_|SHM_|TREE_|LL_)`},
	{"G6", `(?i)\bfaster (network|link|NVLink)|more bandwidth`},
	{"G7", `(?i)^compile the|\bcuda graphs?\b.*\b(capture|launch)|capture (it|the step) in`},
	{"G8", `(?i)\b(replace|exchange) (the|a|this) (gpu|card)\b|\bRMA\b`},
	{"G9", `\.item\(\)|\.cpu\(\)`},
	{"G11", `(?i)\braise the power limit`},
}

// valuesOf are what the text facts may say that advice is chosen by.
var valuesOf = map[facts.ID][]string{
	"run.culprit_cause":     {engine.DataPipeline, engine.HostBound, engine.Transfer, engine.Interruption, engine.Communication, engine.Hardware, engine.UnevenWork, engine.UnknownCause},
	"gpu.python_state":      {"running", "waiting for a lock", "unknown"},
	"rank.step_slow_owner":  ownerNames(),
	"rank.step_modes_owner": ownerNames(),
	"gpu.xid_kind":          {"restart", "reset", "memory", "nvlink", "vendor", "application", "note"},
}

func ownerNames() (out []string) {
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		out = append(out, o.String())
	}
	return out
}

// silentFor gives the values for which a rule whose every advice is chosen by one fact has none, and values that a fact never has.
func silentFor(r *engine.Rule) (none, odd []string) {
	var by facts.ID
	all := true // every advice is chosen by one fact, the same
	given := map[string]bool{}
	for _, d := range r.Do {
		all = all && len(d.Where) == 1 && (by == "" || d.Where[0].Fact == by)
		for _, w := range d.Where {
			by = w.Fact
			for _, v := range w.Is {
				given[v] = given[v] || len(d.Lacks) == 0
				if !slices.Contains(valuesOf[w.Fact], v) {
					odd = append(odd, string(w.Fact)+" "+v)
				}
			}
		}
	}
	if all {
		for _, v := range valuesOf[by] {
			if !given[v] {
				none = append(none, v)
			}
		}
	}
	return none, odd
}

// TestAdvice holds what rules/README.md asks of advice over every shipped rule.
func TestAdvice(t *testing.T) {
	rs := shipped(t)
	for _, r := range rs.List {
		wrong := func(format string, args ...any) { t.Errorf("%s: %s", r.Path, fmt.Sprintf(format, args...)) }
		if r.Saving != nil && (len(r.Do) == 0 || len(r.Dont) == 0) {
			wrong("it promises a saving and lacks do or dont")
		}
		if none, odd := silentFor(r); len(none)+len(odd) > 0 {
			wrong("it advises nothing where the fact says %v, and something where it says %v, which it never does", none, odd)
		}
		for _, l := range r.Limits {
			if l.Source == "" || never.MatchString(l.Source) {
				wrong("limit %s has the source %q, which its reader cannot look up", l.Name, l.Source)
			}
		}
		texts := append([]string{r.LooksLike}, r.Dont...)
		for _, d := range r.Do {
			texts = append(texts, d.Say)
			if n := utf8.RuneCountInString(d.Say); n > maxAdvice {
				wrong("%d letters, more than %d: %s", n, maxAdvice, d.Say)
			}
			if vague.MatchString(d.Say) {
				wrong("it does not say what to change: %s", d.Say)
			}
			if d.Capture == "" && !looks.MatchString(d.Say) && !costs.MatchString(d.Say) {
				wrong("it does not say what it costs: %s", d.Say)
			}
			for _, b := range behind {
				if regexp.MustCompile(b.words).MatchString(d.Say) && d.Capture == "" && !looks.MatchString(d.Say) && !slices.Contains(d.Gates, b.gate) {
					wrong("it goes past gate %s: %s", b.gate, d.Say)
				}
			}
		}
		for _, s := range texts {
			if strings.ContainsAny(s, "{}") {
				wrong("facts are not filled in here: %s", s)
			}
			if w := never.FindString(s); w != "" {
				wrong("it says %q: %s", w, s)
			}
			for _, m := range idWords.FindAllStringSubmatch(s, -1) {
				if _, owner := timeline.ParseOwner(m[2]); rs.Rule(m[2]) == nil && !owner {
					wrong("it names %s, which is no rule: %s", m[2], s)
				}
			}
			for _, id := range gateID.FindAllString(s, -1) {
				if rs.Gate(id) == nil {
					wrong("it names %s, which is no gate: %s", id, s)
				}
			}
		}
	}
}

// TestUnknownNamesCapture asks every rule of an input in which nothing is known: each must say what to record.
func TestUnknownNamesCapture(t *testing.T) {
	set := facts.NewSet([]facts.Subject{{Kind: facts.Run, ID: "run", Rank: -1, Up: -1}, {Kind: facts.Host, ID: "node01", Rank: -1},
		{Kind: facts.Rank, ID: "rank0", Rank: 0, Up: 1}, {Kind: facts.GPU, ID: "gpu0", Rank: 0, Up: 2}}, facts.Decls())
	asked := 0
	for _, c := range shipped(t).Evaluate(set) {
		if c.Outcome != engine.Unknown {
			t.Errorf("%s: %s though nothing is known", c.Rule.ID, c.Outcome)
			continue
		}
		asked++
		if len(c.Missing) == 0 {
			t.Errorf("%s names nothing that is missing", c.Rule.ID)
		}
		for _, m := range c.Missing {
			if _, ok := facts.RecipeOf(m.Capture); !ok || m.Why == "" {
				t.Errorf("%s: %s is missing (%q), and capture %q is none", c.Rule.ID, m.Fact, m.Why, m.Capture)
			}
		}
	}
	if asked == 0 {
		t.Error("no rule was asked")
	}
}

// A faster network is not advised for messages that do not use the one there is, nor where that one runs below what it can carry.
func TestFasterNetwork(t *testing.T) {
	rs := shipped(t)
	ask := func(extra map[facts.ID]float64) (given bool) {
		set := facts.NewSet([]facts.Subject{{Kind: facts.Run, ID: "run", Rank: -1, Up: -1}, {Kind: facts.Host, ID: "node01", Rank: -1},
			{Kind: facts.Rank, ID: "rank0", Rank: 0, Up: 1}, {Kind: facts.GPU, ID: "gpu0", Rank: 0, Up: 2}}, facts.Decls())
		for id, v := range map[facts.ID]float64{"run.ranks_count": 8, "run.world_count": 8, "run.gpus_count": 8, "run.peer_wait_frac": 0} {
			set.Put(0, id, facts.Value{Num: v, Cover: 1, Conf: timeline.Measured})
		}
		for id, v := range map[facts.ID]float64{"gpu.comm_own_frac": 0.2, "gpu.comm_exposed_frac": 0.2, "gpu.comm_transfer_frac": 0.2, "gpu.comm_peer_wait_frac": 0,
			"gpu.comm_small_exposed_frac": 0, "gpu.comm_small_frac": 0, "gpu.comm_judged_frac": 0.2, "gpu.comm_busbw_of_expected_frac": 0.95} {
			if x, ok := extra[id]; ok {
				v = x
			}
			set.Put(3, id, facts.Value{Num: v, Cover: 1, Conf: timeline.Measured})
		}
		seen := false
		for _, c := range rs.Evaluate(set) {
			if c.Rule.ID != "comm.exposed" {
				continue
			}
			seen = c.Outcome == engine.Finding
			for _, d := range c.Do {
				given = given || strings.Contains(d.Say, "faster network")
			}
		}
		if !seen {
			t.Fatal("comm.exposed found nothing")
		}
		return given
	}
	for _, c := range []struct {
		name  string
		extra map[facts.ID]float64
		want  bool
	}{
		{"large messages at the link's speed", nil, true},
		{"small messages", map[facts.ID]float64{"gpu.comm_small_exposed_frac": 0.15, "gpu.comm_small_frac": 0.75}, false},
		{"a link far below its speed", map[facts.ID]float64{"gpu.comm_busbw_of_expected_frac": 0.3}, false},
	} {
		if got := ask(c.extra); got != c.want {
			t.Errorf("%s: a faster network is advised: %v, want %v", c.name, got, c.want)
		}
	}
}
