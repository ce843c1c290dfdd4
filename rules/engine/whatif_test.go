package engine

import (
	"fmt"
	"strings"
	"testing"

	"gpureport/rules/facts"
)

// The sums are done by hand beside each case, in hundredths of a step.
func TestWhatIfs(t *testing.T) {
	const none = -1
	type owned map[string][]float64 // by fact, of each GPU
	for _, c := range []struct {
		name    string
		facts   owned
		found   []found
		culprit int
		cause   string
		want    []string // fixes: saving, next owner @GPU, capped
	}{
		{"two gaps of one GPU", owned{"compute": {.5}, "busy": {.5}, "host_dataloader": {.3}, "host_launch": {.2}, "host_busy": {.7}, "next": {.3}},
			[]found{{DataPipeline, []float64{none, .3}, "host.dataloader", 0, false}, {HostBound, []float64{none, .2}, "host.launch", 0, false}}, none, "",
			// loader: 100-30, at least busy 50 and host 70-30; launch: 100-20, at least host 70-20; both: 100-50
			[]string{"r0: 0.300 host.launch @0", "r1: 0.200 host.dataloader @0", "r0 r1: 0.500 compute @0"}},
		{"the host is next", owned{"compute": {.5}, "busy": {.5}, "host_dataloader": {.4}, "host_busy": {.95}, "next": {.2}},
			[]found{{DataPipeline, []float64{none, .4}, "host.dataloader", 0, false}}, none, "",
			// the host's own work is 95-20 = 75: 25 at most
			[]string{"r0: 0.250 host @0 capped"}},
		{"never below what the GPU computes", owned{"compute": {.7}, "busy": {1}, "comm_transfer": {.3}},
			[]found{{Communication, []float64{none, .4}, "comm.transfer", 0, false}}, none, "",
			[]string{"r0: 0.300 compute @0 capped"}},
		{"cheaper kernels go below that", owned{"compute": {.9}, "busy": {.9}, "host_python": {.1}},
			[]found{{ComputeInefficient, []float64{none, .4}, "compute", 0, false}, {HostBound, []float64{none, .1}, "host.python", 0, false}}, none, "",
			// together 50: python's 10 leave the 90 that compute, kernels take 40 off those
			[]string{"r0: 0.400 host.python @0", "r1: 0.100 compute @0", "r0 r1: 0.500 compute @0"}},
		{"findings of one time are one fix", owned{"compute": {.6}, "busy": {.6}, "host_dataloader": {.4}},
			[]found{{DataPipeline, []float64{none, .4}, "host.dataloader", 0, false}, {DataPipeline, []float64{none, .4}, "host.dataloader", 0, false}}, none, "",
			[]string{"r1: 0.400 compute @0 same r0"}},
		{"a hint is no fix", owned{"compute": {.6}, "busy": {.6}, "host_dataloader": {.4}},
			[]found{{DataPipeline, []float64{none, .4}, "host.dataloader", confHint, false}}, none, "", nil},
		{"the others set the step", owned{"compute": {.5, .5}, "busy": {.7, .7}, "host_launch": {.3, .1}, "comm_peer_wait": {0, .1}, "comm_transfer": {.2, .2}},
			[]found{{HostBound, []float64{.3, none}, "host.launch", 0, false}}, none, "",
			// GPU 0: 100-30 = 70; GPU 1 waited 10, so its own time is 90
			[]string{"r0: 0.100 comm.transfer @1 capped"}},
		{"GPUs that share nothing", owned{"compute": {.7, .7}, "busy": {.7, .7}, "host_launch": {.3, .3}},
			[]found{{HostBound, []float64{.3, none}, "host.launch", 0, false}}, none, "",
			[]string{"r0: 0.150 host.launch @1"}}, // the mean of 30 and 0
		{"a late rank and what makes it late are one fix", owned{"compute": {.6, .6, .6, .6}, "busy": {1, 1, 1, .7}, "comm_peer_wait": {.3, .3, .3, 0},
			"comm_transfer": {.1, .1, .1, .1}, "host_dataloader": {0, 0, 0, .3}},
			[]found{{Straggler, []float64{.3}, "comm.peer-wait", 0, false}, {DataPipeline, []float64{none, none, none, .3}, "host.dataloader", 0, false},
				{Communication, []float64{.1, .1, .1, .1}, "comm.transfer", 0, false}}, 3, DataPipeline,
			// lateness: all ranks' own time is 70, which the late one reaches too; transfer: own times less 10, the late one's is 90; both: 60
			[]string{"r0: 0.300 comm.transfer @0 same r1", "r2: 0.100 host.dataloader @3", "r0 r2: 0.400 compute @0"}},
		{"transfers that lateness brings to light go with it", owned{"compute": {.63, .63, .63, .63}, "busy": {1, 1, 1, .7}, "comm_peer_wait": {.28, .28, .28, 0},
			"comm_transfer": {.09, .09, .09, .01}, "host_dataloader": {0, 0, 0, .36}},
			[]found{{Straggler, []float64{.36}, "comm.peer-wait", 0, false}}, 3, DataPipeline,
			// the promise is the step's: all need 64 then, the peers too, whose 8 of transfers hide again
			[]string{"r0: 0.360 compute @0"}},
		{"a card that makes its rank late has no second fault", owned{"compute": {.75, .98}, "busy": {1, 1}, "comm_peer_wait": {.2, 0}, "comm_transfer": {.05, .02}},
			[]found{{Straggler, []float64{.23}, "comm.peer-wait", 0, false}, {Hardware, []float64{none, .23}, "", 0, false}, {ComputeInefficient, []float64{none, .25}, "compute", 0, false}}, 1, Hardware,
			[]string{"r0: 0.230 compute @0 same r1 r2"}},
		{"what the verdict speaks of comes before what holds other ranks too", owned{"compute": {.5, .5, .5, .5}, "busy": {1, 1, 1, 1}, "comm_peer_wait": {.3, .3, .3, 0}, "copy_h2d": {.1, .1, .1, .4}, "comm_transfer": {.1, .1, .1, .1}},
			[]found{{Straggler, []float64{.3}, "comm.peer-wait", 0, false}, {Transfer, []float64{.1, .1, .1, .4}, "copy.h2d", 0, false}}, 3, Transfer,
			[]string{"r0: 0.300 comm.transfer @0 same r1"}},
		{"of about one size the later one, and none of next to nothing", owned{"compute": {.5}, "busy": {.5}, "host_dataloader": {.401}, "host_launch": {.004}},
			[]found{{DataPipeline, []float64{none, .401}, "host.dataloader", 0, false}, {DataPipeline, []float64{none, .4}, "host.dataloader", 0, false}, {HostBound, []float64{none, .004}, "host.launch", 0, false}}, none, "",
			[]string{"r1: 0.400 compute @0 same r0"}},
		{"nobody can be faster than the second latest", owned{"compute": {.6, .6, .6}, "busy": {1, 1, .7}, "comm_peer_wait": {.3, .1, 0}, "host_dataloader": {.1, .3, .4}},
			[]found{{Straggler, []float64{.13}, "comm.peer-wait", 0, false}}, 2, DataPipeline,
			// rank 2 could come 13 earlier, but rank 1 needs 90
			[]string{"r0: 0.100 host.dataloader @1 capped"}},
		{"waiting for now one, now another", owned{"compute": {.7, .7}, "busy": {1, 1}, "comm_peer_wait": {.2, .2}, "comm_transfer": {.1, .1}},
			[]found{{Straggler, []float64{.2}, "comm.peer-wait", 0, false}}, none, "",
			[]string{"r0: 0.200 comm.transfer @0"}},
		{"three fixes: pairs, then all", owned{"compute": {.4}, "busy": {.5}, "host_dataloader": {.3}, "host_launch": {.2}, "copy_h2d": {.1}},
			[]found{{DataPipeline, []float64{none, .3}, "host.dataloader", 0, false}, {HostBound, []float64{none, .2}, "host.launch", 0, false},
				{Transfer, []float64{none, .1}, "copy.h2d", 0, false}}, none, "",
			[]string{"r0: 0.300 host.launch @0", "r1: 0.200 host.dataloader @0", "r2: 0.100 host.dataloader @0", "r0 r1: 0.500 copy.h2d @0", "r0 r2: 0.400 host.launch @0",
				"r1 r2: 0.300 host.dataloader @0", "r0 r1 r2: 0.600 compute @0"}},
	} {
		n := len(c.facts["compute"])
		set := machine(n)
		gpus := set.Of(facts.GPU)
		for id, vs := range c.facts {
			for i, v := range vs {
				switch id {
				case "host_busy", "next":
					set.Put(set.Subjects[gpus[i]].Up, facts.ID("rank."+id+"_frac"), val(v))
				default:
					set.Put(gpus[i], facts.ID("gpu."+id+"_frac"), val(v))
				}
			}
		}
		if c.culprit >= 0 {
			set.Put(0, factCulprit, val(float64(c.culprit)))
			set.Put(0, factCause, facts.Value{Text: c.cause})
		}
		for i := range c.found { // a list of one would be the run's
			if s := c.found[i].saving; n == 1 && len(s) == 2 {
				c.found[i].saving = s[1:]
			}
		}
		checks := checksOf(set, c.found)
		if n == 1 {
			for i := range checks {
				checks[i].Subject = set.Subjects[gpus[0]]
			}
		}
		var got []string
		for _, w := range WhatIfs(checks, InputOf(set), set) {
			g := -1
			for i, sub := range gpus {
				if sub == w.GPU {
					g = i
				}
			}
			s := fmt.Sprintf("%s: %.3f %s @%d", strings.ReplaceAll(strings.Join(w.Fix, " "), "idle.", ""), w.Frac, w.Next, g)
			if w.Capped {
				s += " capped"
			}
			if len(w.Same) > 0 {
				s += " same " + strings.ReplaceAll(strings.Join(w.Same, " "), "idle.", "")
			}
			got = append(got, s)
		}
		if a, b := strings.Join(got, "\n"), strings.Join(c.want, "\n"); a != b {
			t.Errorf("%s\n got\n%s\nwant\n%s", c.name, a, b)
		}
	}
}

// A fix of all findings never returns less than one of them, and never more than the step.
func TestWhatIfsGrow(t *testing.T) {
	for seed := range 200 {
		next := uint32(seed*2654435761 + 1)
		rnd := func() float64 { next = next*1664525 + 1013904223; return float64(next>>8) / (1 << 24) }
		set := machine(2)
		for _, g := range set.Of(facts.GPU) {
			left := 1.0
			for _, id := range []string{"compute", "comm_peer_wait", "comm_transfer", "host_dataloader", "host_launch"} {
				v := left * rnd()
				left -= v
				set.Put(g, facts.ID("gpu."+id+"_frac"), val(v))
			}
			set.Put(g, factBusy, val(1-left))
		}
		var fs []found
		for i, class := range []string{DataPipeline, HostBound, Communication, Straggler} {
			covers := []string{"host.dataloader", "host.launch", "comm.transfer", "comm.peer-wait"}[i]
			sv := []float64{rnd() / 2, rnd() / 2}
			if class == Straggler {
				sv = sv[:1]
			}
			fs = append(fs, found{class, sv, covers, 0, false})
		}
		ws := WhatIfs(checksOf(set, fs), InputOf(set), set)
		for _, a := range ws {
			if a.Frac < 0 || a.Frac > 1 {
				t.Fatalf("seed %d: %+v", seed, a)
			}
			for _, b := range ws {
				within := true
				for _, id := range a.Fix {
					within = within && known(b.Fix, id)
				}
				if within && b.Frac < a.Frac-1e-9 {
					t.Errorf("seed %d: %v returns %.4f, %v %.4f", seed, a.Fix, a.Frac, b.Fix, b.Frac)
				}
			}
		}
	}
}

// What the others wait for the late rank, and what holds it, is one time; the same trouble on another rank is its own.
func TestLateRanksTimeIsOneTime(t *testing.T) {
	rule := func(id, class, fact string) string {
		return "id: " + id + "\ntitle: T\nper: gpu\nclass: " + class + "\nfinding_if: gpu." + fact + "_frac > 0\nsaving: gpu." + fact + "_frac\nconfidence: measured\nsays: s\ncases: []\n"
	}
	rs := mustLoad(t, folder(gateG9, "idle.loader", rule("idle.loader", DataPipeline, "host_dataloader"), "idle.launch", rule("idle.launch", HostBound, "host_launch"),
		"comm.late", rule("comm.late", Straggler, "comm_peer_wait"), "comm.spread", strings.Replace(rule("comm.spread", "", "comm_peer_wait"), "class: \n", "overlaps: [comm.late]\n", 1)))
	set := machine(2)
	for i, g := range set.Of(facts.GPU) {
		set.Put(g, "gpu.comm_peer_wait_frac", val([]float64{.3, 0}[i]))
		set.Put(g, "gpu.host_dataloader_frac", val([]float64{.1, .3}[i]))
		set.Put(g, "gpu.host_launch_frac", val(.1))
	}
	set.Put(0, factCulprit, val(1))
	set.Put(0, factCause, facts.Value{Text: DataPipeline})
	got := ""
	for _, c := range rs.Evaluate(set) {
		if c.Outcome == Finding {
			got += fmt.Sprintln(c.Rule.ID, c.Subject.ID, c.Overlaps)
		}
	}
	if want := "idle.loader gpu0 []\nidle.loader gpu1 [comm.late comm.spread]\nidle.launch gpu0 []\nidle.launch gpu1 []\ncomm.late gpu0 [idle.loader comm.spread]\ncomm.spread gpu0 [idle.loader comm.late]\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
