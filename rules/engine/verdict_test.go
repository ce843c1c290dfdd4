package engine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpureport/rules/facts"
)

// found is a finding: class, its saving on each GPU, and what it claims.
type found struct {
	class  string
	saving []float64 // by GPU; one value alone is the run's; negative: none there
	covers string
	conf   facts.Confidence // 0: measured
	fault  bool             // critical
}

// checksOf makes the findings' checks, one rule each, on a machine of n GPUs.
func checksOf(set *facts.Set, fs []found) []Check {
	var out []Check
	gpus := set.Of(facts.GPU)
	for i, f := range fs {
		r := &Rule{ID: fmt.Sprintf("idle.r%d", i), Stage: "idle", Class: f.class}
		if f.covers != "" {
			r.Covers = strings.Split(f.covers, " ")
		}
		c := Check{Rule: r, Outcome: Finding, Confidence: confMeasured}
		if f.conf != 0 {
			c.Confidence = f.conf
		}
		if f.fault {
			c.Severity = Critical
		}
		if len(f.saving) == 1 {
			x := f.saving[0]
			c.Subject, c.Saving = set.Subjects[0], &x
			out = append(out, c)
			continue
		}
		for g, x := range f.saving {
			if x < 0 {
				continue
			}
			x, c := x, c
			c.Subject = set.Subjects[gpus[g]]
			if c.Saving = &x; f.fault && x == 0 {
				c.Saving = nil
			}
			out = append(out, c)
		}
	}
	return out
}

func TestVerdict(t *testing.T) {
	four := func(x float64) []float64 { return []float64{x, x, x, x} }
	const none = -1
	for _, c := range []struct {
		name    string
		found   []found
		compute []float64 // by GPU; nil: no ledger
		unknown float64
		wait    []float64 // peer-wait by GPU
		culprit int
		cause   string
		want    string // class[/cause/culprit] share confidence; evidence; next share
	}{
		{"data-pipeline", []found{{DataPipeline, four(0.3), "host.dataloader", 0, false}}, four(0.6), 0, nil, none, "", "data-pipeline 0.300 measured; idle.r0;"},
		{"time between epochs, which no ledger holds", []found{{DataPipeline, four(0.4), "", 0, false}, {DataPipeline, four(0.1), "host.dataloader", 0, false}}, four(0.98), 0, nil, none, "",
			"data-pipeline 0.420 measured; idle.r0 idle.r1;"},
		{"transfer", []found{{Transfer, four(0.1), "copy.h2d", 0, false}}, four(0.6), 0, nil, none, "", "transfer 0.100 measured; idle.r0;"},
		{"host-bound", []found{{HostBound, four(0.1), "host.launch", 0, false}}, four(0.6), 0, nil, none, "", "host-bound 0.100 measured; idle.r0;"},
		{"interruption", []found{{Interruption, four(0.1), "host.checkpoint", 0, false}}, four(0.6), 0, nil, none, "", "interruption 0.100 measured; idle.r0;"},
		{"communication", []found{{Communication, four(0.1), "comm.transfer", 0, false}}, four(0.6), 0, nil, none, "", "communication 0.100 measured; idle.r0;"},
		{"compute-inefficient, not capped", []found{{ComputeInefficient, four(0.3), "compute", 0, false}}, four(0.95), 0, nil, none, "",
			"compute-inefficient 0.300 measured; idle.r0;"},
		{"straggler", []found{{Straggler, []float64{0.2, 0.2, 0.2, 0}, "comm.peer-wait", 0, false}}, four(0.6), 0, []float64{0.2, 0.2, 0.2, 0}, 3, DataPipeline,
			"straggler/data-pipeline/3 0.150 measured; idle.r0;"},
		{"rotating straggler", []found{{Straggler, four(0.2), "comm.peer-wait", 0, false}}, four(0.6), 0, four(0.2), none, "",
			"straggler/unknown/-1 0.200 measured; idle.r0;"},
		{"hardware by cost", []found{{Hardware, four(0.2), "", 0, false}, {HostBound, four(0.1), "host.launch", 0, false}}, four(0.8), 0, nil, none, "",
			"hardware 0.200 measured; idle.r0; host-bound 0.100"},
		{"hardware by cost needs no ledger", []found{{Hardware, four(0.2), "", 0, false}}, nil, 0, nil, none, "", "hardware 0.200 measured; idle.r0;"},
		{"a cheap throttle is not the verdict", []found{{Hardware, four(0.04), "", 0, false}}, four(0.96), 0, nil, none, "", "compute-bound 0.000 inferred; ; hardware 0.040"},
		{"proven fault", []found{{Hardware, []float64{0, none, none, none}, "", 0, true}, {DataPipeline, four(0.4), "host.dataloader", 0, false}}, four(0.5), 0, nil, none, "",
			"hardware nil measured; idle.r0; data-pipeline 0.400"},
		{"proven fault without a ledger", []found{{Hardware, []float64{0, none, none, none}, "", 0, true}}, nil, 0, nil, none, "", "hardware nil measured; idle.r0;"},
		{"a fault that is not proven", []found{{Hardware, []float64{0, none, none, none}, "", confInferred, true}, {DataPipeline, four(0.4), "host.dataloader", 0, false}},
			four(0.5), 0, nil, none, "", "data-pipeline 0.400 measured; idle.r1;"},
		{"fault on the late rank alone", []found{{Hardware, []float64{none, none, none, 0}, "", 0, true}, {Straggler, []float64{0.2, 0.2, 0.2, 0}, "comm.peer-wait", 0, false}},
			four(0.7), 0, []float64{0.2, 0.2, 0.2, 0}, 3, UnknownCause, "straggler/hardware/3 0.150 measured; idle.r0 idle.r1;"},
		{"throttle on the late rank alone", []found{{Hardware, []float64{none, none, none, 0.2}, "", 0, false}, {Straggler, []float64{0.2, 0.2, 0.2, 0}, "comm.peer-wait", 0, false}},
			[]float64{0.7, 0.7, 0.7, 0.9}, 0, []float64{0.2, 0.2, 0.2, 0}, 3, UnknownCause, "straggler/hardware/3 0.150 measured; idle.r1;"},
		{"the card of the late rank is not the next limiter", []found{{Hardware, []float64{none, none, none, 0.4}, "", 0, false}, {Straggler, []float64{0.2, 0.2, 0.2, 0}, "comm.peer-wait", 0, false},
			{ComputeInefficient, []float64{none, none, none, 0.4}, "compute", 0, false}}, four(0.6), 0, []float64{0.2, 0.2, 0.2, 0}, 3, Hardware, "straggler/hardware/3 0.150 measured; idle.r1;"},
		{"kernels of all ranks are", []found{{Hardware, []float64{none, none, none, 0.4}, "", 0, false}, {Straggler, []float64{0.2, 0.2, 0.2, 0}, "comm.peer-wait", 0, false},
			{ComputeInefficient, four(0.1), "compute", 0, false}}, four(0.6), 0, []float64{0.2, 0.2, 0.2, 0}, 3, Hardware, "straggler/hardware/3 0.150 measured; idle.r1; compute-inefficient 0.100"},
		{"transfers that hide again are not the next limiter", []found{{Straggler, []float64{0.3}, "comm.peer-wait", 0, false}, {Communication, []float64{0.1, 0.1, 0.1, none}, "comm.transfer", 0, false}},
			four(0.6), 0, []float64{0.22, 0.22, 0.22, 0}, 3, DataPipeline, "straggler/data-pipeline/3 0.300 measured; idle.r0;"},
		{"transfers that stay are", []found{{Straggler, []float64{0.22}, "comm.peer-wait", 0, false}, {Communication, []float64{0.1, 0.1, 0.1, none}, "comm.transfer", 0, false}},
			four(0.6), 0, []float64{0.22, 0.22, 0.22, 0}, 3, DataPipeline, "straggler/data-pipeline/3 0.220 measured; idle.r0; communication 0.075"},
		{"fault beside a late rank with another cause", []found{{Hardware, []float64{0, none, none, none}, "", 0, true}, {Straggler, []float64{0.2, 0.2, 0.2, 0}, "comm.peer-wait", 0, false}},
			four(0.7), 0, []float64{0.2, 0.2, 0.2, 0}, 3, DataPipeline, "hardware nil measured; idle.r0; straggler 0.150"},
		{"no ledger", []found{{"", four(0.5), "", confHint, false}}, nil, 0, nil, none, "", "insufficient-evidence nil hint; idle.r0;"},
		{"nothing at all", nil, nil, 0, nil, none, "", "insufficient-evidence nil hint; ;"},
		{"owner unknown above all", []found{{DataPipeline, four(0.2), "host.dataloader", 0, false}}, four(0.5), 0.25, nil, none, "", "insufficient-evidence nil hint; idle.r0;"},
		{"owner unknown below the largest", []found{{DataPipeline, four(0.2), "host.dataloader", 0, false}}, four(0.5), 0.15, nil, none, "", "data-pipeline 0.200 measured; idle.r0;"},
		{"owner unknown as large as the largest", []found{{DataPipeline, four(0.2), "host.dataloader", 0, false}}, four(0.5), 0.2, nil, none, "", "data-pipeline 0.200 measured; idle.r0;"},
		{"owner unknown at 10 %", nil, four(0.9), 0.1, nil, none, "", "compute-bound 0.000 inferred; ;"},
		{"owner unknown above 10 %", nil, four(0.8), 0.11, nil, none, "", "insufficient-evidence nil hint; ;"},
		{"at the floor", []found{{HostBound, four(0.05), "host.launch", 0, false}}, four(0.9), 0, nil, none, "", "host-bound 0.050 measured; idle.r0;"},
		{"below the floor", []found{{HostBound, four(0.049), "host.launch", 0, false}}, four(0.9), 0, nil, none, "", "compute-bound 0.000 inferred; ; host-bound 0.049"},
		{"mean over the GPUs", []found{{HostBound, []float64{0.16, none, none, none}, "host.launch", 0, false}}, four(0.8), 0, nil, none, "", "compute-bound 0.000 inferred; ; host-bound 0.040"},
		{"disjoint add", []found{{HostBound, four(0.03), "host.launch", 0, false}, {HostBound, four(0.03), "host.sync", 0, false}}, four(0.9), 0, nil, none, "",
			"host-bound 0.060 measured; idle.r0 idle.r1;"},
		{"overlapping count once", []found{{HostBound, four(0.03), "host.launch", 0, false}, {HostBound, four(0.04), "host.launch host.sync", 0, false}}, four(0.9), 0, nil, none, "",
			"compute-bound 0.000 inferred; ; host-bound 0.040"},
		{"two disjoint beat the one that overlaps both", []found{{HostBound, four(0.1), "host.launch host.sync", 0, false}, {HostBound, four(0.06), "host.launch", 0, false},
			{HostBound, four(0.07), "host.sync", 0, false}}, four(0.8), 0, nil, none, "", "host-bound 0.130 measured; idle.r0 idle.r1 idle.r2;"},
		{"run and GPU meet", []found{{Straggler, []float64{0.1}, "comm.peer-wait", 0, false}, {Straggler, four(0.12), "comm.peer-wait", 0, false}}, four(0.8), 0, nil, none, "",
			"straggler/unknown/-1 0.120 measured; idle.r0 idle.r1;"},
		{"G10 caps", []found{{HostBound, four(0.4), "host.launch", 0, false}, {HostBound, four(0.3), "host.sync", 0, false}}, four(0.55), 0, nil, none, "",
			"host-bound 0.450 measured; idle.r0 idle.r1;"},
		{"G10 of the slowest rank", []found{{HostBound, four(0.5), "host.launch", 0, false}}, []float64{0.2, 0.2, 0.2, 0.7}, 0, []float64{0.3, 0.3, 0.3, 0}, none, "",
			"host-bound 0.300 measured; idle.r0;"},
		{"tie of data-pipeline and transfer", []found{{Transfer, four(0.1), "copy.h2d", 0, false}, {DataPipeline, four(0.1), "host.dataloader", 0, false}}, four(0.8), 0, nil, none, "",
			"data-pipeline 0.100 measured; idle.r1; transfer 0.100"},
		{"tie of transfer and host-bound", []found{{HostBound, four(0.1), "host.sync", 0, false}, {Transfer, four(0.1), "copy.h2d", 0, false}}, four(0.8), 0, nil, none, "",
			"transfer 0.100 measured; idle.r1; host-bound 0.100"},
		{"tie of host-bound and interruption", []found{{Interruption, four(0.1), "host.logging", 0, false}, {HostBound, four(0.1), "host.sync", 0, false}}, four(0.8), 0, nil, none, "",
			"host-bound 0.100 measured; idle.r1; interruption 0.100"},
		{"tie of interruption and communication", []found{{Communication, four(0.1), "comm.transfer", 0, false}, {Interruption, four(0.1), "host.logging", 0, false}}, four(0.8), 0, nil, none, "",
			"interruption 0.100 measured; idle.r1; communication 0.100"},
		{"tie of communication and straggler", []found{{Straggler, four(0.1), "comm.peer-wait", 0, false}, {Communication, four(0.1), "comm.transfer", 0, false}}, four(0.8), 0, nil, none, "",
			"communication 0.100 measured; idle.r1; straggler 0.100"},
		{"tie of straggler and hardware", []found{{Hardware, four(0.1), "", 0, false}, {Straggler, four(0.1), "comm.peer-wait", 0, false}}, four(0.8), 0, nil, none, "",
			"straggler/unknown/-1 0.100 measured; idle.r1; hardware 0.100"},
		{"tie of hardware and compute-inefficient", []found{{ComputeInefficient, four(0.1), "compute", 0, false}, {Hardware, four(0.1), "", 0, false}}, four(0.8), 0, nil, none, "",
			"hardware 0.100 measured; idle.r1; compute-inefficient 0.100"},
		{"tie that rounding would break", []found{{Transfer, []float64{0.1, 0.2, 0.3, 0}, "copy.h2d", 0, false}, {DataPipeline, []float64{0.3, 0.1, 0.2, 0}, "host.dataloader", 0, false}},
			four(0.6), 0, nil, none, "", "data-pipeline 0.150 measured; idle.r1; transfer 0.150"},
		{"late loader of one of two ranks counts once", []found{{Straggler, []float64{0.3, 0}, "comm.peer-wait", 0, false}, {DataPipeline, []float64{none, 0.3}, "host.dataloader", 0, false}},
			[]float64{0.6, 0.6}, 0, []float64{0.3, 0}, 1, DataPipeline, "straggler/data-pipeline/1 0.150 measured; idle.r0;"},
		{"slow loader everywhere, slower on one", []found{{Straggler, []float64{0.1, 0.1, 0.1, 0}, "comm.peer-wait", 0, false}, {DataPipeline, []float64{0.2, 0.2, 0.2, 0.3}, "host.dataloader", 0, false}},
			four(0.6), 0, []float64{0.1, 0.1, 0.1, 0}, 3, DataPipeline, "data-pipeline 0.200 measured; idle.r1; straggler 0.075"},
		{"uneven work is not capped by the late rank's compute", []found{{Straggler, []float64{0.3, 0.3, 0.3, 0}, "comm.peer-wait", 0, false}}, []float64{0.6, 0.6, 0.6, 0.9}, 0,
			[]float64{0.3, 0.3, 0.3, 0}, 3, UnevenWork, "straggler/uneven-work/3 0.225 measured; idle.r0;"},
		{"a cause nobody knows", []found{{Straggler, four(0.2), "comm.peer-wait", 0, false}}, four(0.6), 0, nil, 3, "bad luck", "straggler/unknown/3 0.200 measured; idle.r0;"},
		{"hint", []found{{Communication, four(0.2), "comm.transfer", confHint, false}}, four(0.6), 0, nil, none, "", "communication 0.200 hint; idle.r0;"},
		{"inferred", []found{{Straggler, four(0.2), "comm.peer-wait", confInferred, false}}, four(0.6), 0, nil, none, "", "straggler/unknown/-1 0.200 inferred; idle.r0;"},
		{"a small hint beside a measured cause", []found{{HostBound, four(0.2), "host.launch", 0, false}, {HostBound, four(0.02), "host.python", confHint, false}}, four(0.6), 0, nil, none, "",
			"host-bound 0.220 measured; idle.r0 idle.r1;"},
		{"a hint that decides", []found{{HostBound, four(0.1), "host.launch", 0, false}, {HostBound, four(0.1), "host.python", confHint, false}, {Transfer, four(0.15), "copy.h2d", 0, false}},
			four(0.6), 0, nil, none, "", "host-bound 0.200 hint; idle.r0 idle.r1; transfer 0.150"},
		{"most time with owners of no class", nil, four(0.3), 0, nil, none, "", "compute-bound 0.000 hint; ;"},
	} {
		n := max(len(c.compute), 4)
		if len(c.compute) == 2 {
			n = 2
		}
		set := machine(n)
		for i, g := range set.Of(facts.GPU) {
			if c.compute != nil {
				set.Put(g, factCompute, val(c.compute[i]))
				set.Put(g, factUnknown, val(c.unknown))
			}
			if c.wait != nil {
				set.Put(g, factPeerWait, val(c.wait[i]))
			}
		}
		if c.culprit >= 0 {
			set.Put(0, factCulprit, val(float64(c.culprit)))
		}
		if c.cause != "" {
			set.Put(0, factCause, facts.Value{Text: c.cause})
		}
		v := Decide(checksOf(set, c.found), InputOf(set))
		got := v.Class
		if v.Class == Straggler {
			got += fmt.Sprintf("/%s/%d", v.Cause, v.Culprit)
		} else if v.Cause != "" || v.Culprit != -1 {
			got += " with a culprit"
		}
		if v.Recoverable == nil {
			got += " nil"
		} else {
			got += fmt.Sprintf(" %.3f", *v.Recoverable)
		}
		got += " " + v.Confidence.String() + "; " + strings.Join(v.Evidence, " ") + ";"
		if v.Next != "" {
			got += fmt.Sprintf(" %s %.3f", v.Next, v.NextFrac)
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestMeansOverLedgers leaves GPUs that only a log knows out of the means.
func TestMeansOverLedgers(t *testing.T) {
	set := machine(4)
	set.Put(6, factCompute, val(0.6))
	v := Decide(checksOf(set, []found{{HostBound, []float64{0.2, -1, -1, -1}, "host.launch", 0, false}}), InputOf(set))
	if v.Class != HostBound || math.Abs(*v.Recoverable-0.2) > 1e-12 || v.Owner != "host.launch" {
		t.Errorf("%+v", v)
	}
}

// The next limiter is what is left when the fix has been made: a finding of another class that claims the same time is none, but for the part of it that the fix
// does not return.
func TestNextIsWhatIsLeft(t *testing.T) {
	for _, c := range []struct {
		link float64
		same bool
		want string
		frac float64
	}{
		{0.55, true, "", 0},
		{0.55, false, Hardware, 0.55},
		{0.10, false, Hardware, 0.10},
	} {
		set := machine(1)
		set.Put(set.Of(facts.GPU)[0], factCompute, val(0.3))
		checks := checksOf(set, []found{{Transfer, []float64{0.6}, "copy.h2d", 0, false}, {Hardware, []float64{c.link}, "", 0, false}})
		if c.same {
			checks[0].Overlaps, checks[1].Overlaps = []string{checks[1].Rule.ID}, []string{checks[0].Rule.ID}
		}
		v := Decide(checks, InputOf(set))
		if v.Class != Transfer || v.Next != c.want || math.Abs(v.NextFrac-c.frac) > 1e-12 {
			t.Errorf("%+v: %s, then %q for %.3f", c, v.Class, v.Next, v.NextFrac)
		}
	}
}

// Samples alone that prove the hardware held the clock down are a verdict; where a ledger can weigh the cut, its cost decides.
func TestCutProvenBySamples(t *testing.T) {
	check := func(sev Severity, conf facts.Confidence) []Check {
		return []Check{{Rule: &Rule{ID: "hw.thermal", Stage: "hw", Class: Hardware}, Subject: facts.Subject{Kind: facts.GPU, ID: "gpu0", Rank: -1}, Outcome: Finding, Severity: sev, Confidence: conf}}
	}
	for _, c := range []struct {
		name   string
		checks []Check
		ledger bool
		want   string
	}{
		{"proven", check(High, confMeasured), false, Hardware},
		{"mild", check(Medium, confMeasured), false, InsufficientEvidence},
		{"not measured", check(High, confInferred), false, InsufficientEvidence},
		{"weighed by a ledger", check(High, confMeasured), true, ComputeBound},
	} {
		v := Decide(c.checks, VerdictInput{Culprit: -1, HasLedger: c.ledger, ComputeFrac: 0.95, CapFrac: 1})
		if v.Class != c.want || c.want == Hardware && (v.Recoverable != nil || v.Confidence != confMeasured || len(v.Evidence) != 1) {
			t.Errorf("%s: got %+v, want %s", c.name, v, c.want)
		}
	}
}

// Time that nobody judged is not computing: where a class holds more than computing does, nothing of it was found and a rule of it could not
// be answered, the verdict blames nobody and clears nobody.
func TestUnjudgedTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		copies  float64
		compute float64
		outcome Outcome
		want    string
	}{
		{"copies, not answered", 0.95, 0.04, Unknown, InsufficientEvidence},
		{"copies, cleared", 0.95, 0.04, Pass, ComputeBound},
		{"more computing than copies", 0.3, 0.6, Unknown, ComputeBound},
		{"as much", 0.3, 0.3, Unknown, InsufficientEvidence},
		{"little of both", 0.04, 0.03, Unknown, ComputeBound},
	} {
		set := machine(2)
		for _, g := range set.Of(facts.GPU) {
			set.Put(g, factCompute, val(c.compute))
			set.Put(g, factUnknown, val(0))
			set.Put(g, "gpu.copy_h2d_frac", val(c.copies))
		}
		rule := &Rule{ID: "data.r", Stage: "data", Class: Transfer}
		other := &Rule{ID: "idle.r", Stage: "idle", Class: HostBound}
		checks := []Check{{Rule: rule, Subject: set.Subjects[set.Of(facts.GPU)[0]], Outcome: c.outcome}, {Rule: other, Outcome: Unknown}}
		v := Decide(checks, InputOf(set))
		if v.Class != c.want || (v.Why != "") != (c.want == InsufficientEvidence) {
			t.Errorf("%s: %+v, want %s", c.name, v, c.want)
		}
		if c.want == InsufficientEvidence && c.copies == 0.95 && !strings.HasPrefix(v.Why, "Copies between host and GPU took 95") {
			t.Errorf("%s: %s", c.name, v.Why)
		}
	}
}

// A finding that the inputs cannot tell makes that the verdict, whatever else was found; only proven faults and cuts come before it.
func TestInconclusive(t *testing.T) {
	set := machine(1)
	g := set.Of(facts.GPU)[0]
	set.Put(g, factCompute, val(1))
	checks := checksOf(set, []found{{ComputeInefficient, []float64{0.9}, "compute", 0, false}})
	checks = append(checks, Check{Rule: &Rule{ID: "step.r", Stage: "step", Class: InsufficientEvidence}, Subject: set.Subjects[0], Outcome: Finding, Says: "Too little", Confidence: confMeasured})
	v := Decide(checks, InputOf(set))
	if v.Class != InsufficientEvidence || v.Why != "Too little" || fmt.Sprint(v.Evidence) != "[step.r]" || v.Recoverable != nil {
		t.Errorf("%+v", v)
	}
	cut := Check{Rule: &Rule{ID: "hw.thermal", Stage: "hw", Class: Hardware}, Subject: set.Subjects[g], Outcome: Finding, Severity: High, Confidence: confMeasured}
	if v := Decide(append(checks, cut), InputOf(set)); v.Class != Hardware {
		t.Errorf("%+v", v)
	}
}
