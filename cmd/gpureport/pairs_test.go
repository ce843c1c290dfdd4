package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/render"
	"gpureport/rules"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
)

// pair is a whole run in which a rule finds something, and one that looks like it in which the rule is answered and passes. A run's name is
// "case N" of the public ones, "fixture NAME", or its name among sim's other lists; a "NAME gpu1" speaks of one subject. Where a rule tells what
// is alike, both is that rule: it finds something in both.
type pair struct{ rule, fires, silent, both, alike string }

// unpaired are the rules that have no such pair, with the reason.
var unpaired = map[string]string{}

// pairRuns are the runs that were made for pairs.
func pairRuns() []*sim.Case { return slices.Concat(sim.PairsHost(), sim.PairsCard(), sim.PairsData()) }

// The table of pairs holds, and has each rule that is shipped.
func TestPairs(t *testing.T) {
	rs, err := engine.Load(rules.FS, nil, facts.Decls())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("rows", func(t *testing.T) {
		for _, p := range pairs {
			t.Run(p.rule+" "+p.fires+" "+p.silent, func(t *testing.T) {
				t.Parallel()
				if p.fires == p.silent || p.alike == "" {
					t.Error("a run is no look-alike of itself, and what is alike must be said")
				}
				if is := answersOf(t, p.fires, p.rule); len(is["finding"]) == 0 {
					t.Errorf("no finding in %s: %v", p.fires, is)
				}
				if is := answersOf(t, p.silent, p.rule); len(is["pass"]) == 0 || len(is["finding"]) > 0 || len(is["unknown"]) > 0 {
					t.Errorf("%s does not pass: %v", p.silent, is)
				}
				for _, name := range []string{p.fires, p.silent} {
					if is := answersOf(t, name, p.both); p.both != "" && len(is["finding"]) == 0 {
						t.Errorf("%s is no finding in %s, so the runs are not alike: %v", p.both, name, is)
					}
				}
			})
		}
	})
	for _, r := range rs.List {
		paired := slices.ContainsFunc(pairs, func(p pair) bool { return p.rule == r.ID })
		switch why := unpaired[r.ID]; {
		case !paired && why == "":
			t.Errorf("%s is in no pair of runs", r.ID)
		case paired && why != "":
			t.Errorf("%s is paired, and said not to be: %s", r.ID, why)
		}
	}
	known := func(id string) bool {
		return slices.ContainsFunc(rs.List, func(r *engine.Rule) bool { return r.ID == id })
	}
	for _, p := range pairs {
		if !known(p.rule) {
			t.Errorf("%s: no such rule", p.rule)
		}
	}
	var runs []string
	for _, p := range pairs {
		runs = append(runs, p.fires, p.silent)
	}
	for _, name := range incidents(t) {
		if name != "hostile" { // which keeps the whole report
			runs = append(runs, "fixture "+name)
		}
	}
	for id := range unpaired {
		if !known(id) {
			t.Errorf("%s: no such rule", id)
		}
		seen := map[string]string{}
		for _, name := range runs {
			is := answersOf(t, name, id)
			if len(is["finding"]) > 0 {
				seen["finding"] = name
			} else if len(is["pass"]) > 0 && len(is["unknown"]) == 0 {
				seen["pass"] = name
			}
		}
		if len(seen) == 2 {
			t.Errorf("%s finds something in %s and passes in %s: pair it", id, seen["finding"], seen["pass"])
		}
	}
}

// Each run that was made for a pair says what it must, and what it must not say is answered and passes.
func TestPairRuns(t *testing.T) {
	for _, c := range pairRuns() {
		t.Run(c.No, func(t *testing.T) {
			t.Parallel()
			rep := reportOnce(t, c.No, c.Build)
			for _, s := range c.Fire {
				if is := outcomesOf(rep, s); len(is["finding"]) == 0 {
					t.Errorf("%s is no finding: %v", s, is)
				}
			}
			for _, s := range c.Silent {
				if is := outcomesOf(rep, s); len(is["pass"]) == 0 || len(is["finding"]) > 0 || len(is["unknown"]) > 0 {
					t.Errorf("%s does not pass: %v", s, is)
				}
			}
			if t.Failed() || testing.Verbose() {
				t.Log(listFindings(rep))
			}
		})
	}
}

// What a run of the host's side was made for leads its report, but for what steps show of it.
func TestPairRunsLead(t *testing.T) {
	for _, c := range sim.PairsHost() {
		t.Run(c.No, func(t *testing.T) {
			t.Parallel()
			if wrong := misses(c, reportOnce(t, c.No, c.Build)); len(wrong) > 0 {
				t.Errorf("%s", strings.Join(wrong, "\n  "))
			}
		})
	}
}

// wholeRuns are the runs that are made anew, by name; fixtures are read from their goldens, which TestFixtures holds true.
var wholeRuns = sync.OnceValue(func() map[string]func() []sim.File {
	out := map[string]func() []sim.File{}
	add := func(name string, build func() []sim.File) {
		if _, ok := out[name]; ok {
			panic("two runs are named " + name)
		}
		out[name] = build
	}
	for _, c := range slices.Concat(sim.CasesAB(), sim.CasesCD()) {
		add("case "+c.No, c.Build)
	}
	for _, c := range pairRuns() {
		add(c.No, c.Build)
	}
	for _, s := range sim.Schedules() {
		add(s.Name, s.Files)
	}
	for _, k := range sim.KernelRuns() {
		add(k.Name, k.Files)
	}
	return out
})

// onceReport is made by the first test that asks for it.
type onceReport struct {
	once sync.Once
	rep  *render.Report
}

var onceReports sync.Map // of *onceReport, by name

// reportOnce is the report of what the simulator made, for all tests that look at it.
func reportOnce(t *testing.T, name string, build func() []sim.File) *render.Report {
	t.Helper()
	r, _ := onceReports.LoadOrStore(name, new(onceReport))
	o := r.(*onceReport)
	o.once.Do(func() { o.rep = reportOf(t, build()) })
	if o.rep == nil {
		t.Fatalf("%s could not be analysed", name)
	}
	return o.rep
}

// answersOf gives what a rule said in a run, by outcome.
func answersOf(t *testing.T, run, rule string) map[string][]string {
	t.Helper()
	if name, ok := strings.CutPrefix(run, "fixture "); ok {
		return goldenOf(t, name)[rule]
	}
	build, ok := wholeRuns()[run]
	if !ok {
		name, subject, _ := strings.Cut(run, " ")
		if build, ok = wholeRuns()[name]; !ok {
			t.Fatalf("there is no run %s", run)
		}
		run, rule = name, rule+" "+subject
	}
	return outcomesOf(reportOnce(t, run, build), rule)
}

// outcomesOf gives what a rule said of its subjects, or of the one named behind it, by outcome.
func outcomesOf(rep *render.Report, rule string) map[string][]string {
	out := map[string][]string{}
	id, subject, _ := strings.Cut(rule, " ")
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.ID == id && (subject == "" || c.Subject.ID == subject) {
			out[c.Outcome] = append(out[c.Outcome], c.Subject.ID+": "+c.Says)
		}
	}
	return out
}

var goldens sync.Map // of map[string]map[string][]string, by fixture

// goldenOf reads the outcomes by rule from the golden report of a fixture.
func goldenOf(t *testing.T, name string) map[string]map[string][]string {
	t.Helper()
	if g, ok := goldens.Load(name); ok {
		return g.(map[string]map[string][]string)
	}
	b, err := os.ReadFile(filepath.Join(fixtures, name, "want", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rep struct {
		Findings []struct{ ID, Subject, Says string }
		Checks   [][]string // of the others: id, then each outcome with its subjects
	}
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out := map[string]map[string][]string{}
	put := func(id, outcome, says string) {
		if out[id] == nil {
			out[id] = map[string][]string{}
		}
		out[id][outcome] = append(out[id][outcome], says)
	}
	for _, f := range rep.Findings {
		put(f.ID, "finding", fmt.Sprintf("%s: %s", f.Subject, f.Says))
	}
	for _, row := range rep.Checks {
		for _, cell := range row[1:] {
			outcome, subjects, _ := strings.Cut(cell, ": ")
			put(row[0], outcome, subjects)
		}
	}
	goldens.Store(name, out)
	return out
}

// pairs are in the order of the checklist.
var pairs = []pair{
	{"step.recording-short", "cut-short", "three-steps", "", "hardly a step is recorded; there is work enough in the second one to tell who holds the time"},
	{"step.insufficient", "three-steps", "three-steps-and-log", "", "the same trace of three steps; the loop's own log holds 300"},
	{"step.no-markers", "fixture no-marks", "fixture item-sync", "idle.host-sync", "the same loop that reads its loss; the second one calls prof.step()"},
	{"step.warmup", "case 15", "case 14", "idle.compile", "compilation and trials in the first steps; in the second run they go on, and the first step is like the others"},
	{"step.robust-cv", "scattered", "lengths-vary", "", "steps that vary by a third and more; in the second run the logged tokens explain it"},
	{"step.outliers", "slow-stretch", "scattered", "", "many steps take half as long again as others; in the second run all lengths between are there, and none is rare"},
	{"step.periodic", "case 3", "slow-batches-at-random", "data.worker-throughput", "one batch in eight is slow; in the second run not each eighth"},
	{"step.drift", "case 29", "slow-and-quick-again", "step.robust-cv", "steps get slower over minutes; in the second run they get quicker again"},
	{"step.bimodal", "slow-stretch", "scattered", "", "steps of 0.4 s and of half as much again; in the second run there is no gap between"},
	{"step.changepoint", "case 4", "slow-stretch", "", "from one step to the next all get slower; in the second run it passes"},
	{"step.epoch-boundary", "case 7", "stalls-inside-epochs", "step.outliers", "10 s every hundred steps; in the second run in the middle of the epochs"},
	{"step.first-epoch", "case 5", "first-steps-slow", "", "the first epoch takes longer by far; in the second run for its first steps alone"},
	{"step.rank-spread", "fixture slow-gpu", "slow-by-turns", "comm.straggler-wait", "ranks wait for one that computes longer; in the second run it is another one each step"},

	{"idle.share", "fixture loader-starved", "fixture hidden-loader", "", "the host stands in next() for most of the step; in the second run the GPU works meanwhile"},
	{"idle.dataloader-wait", "fixture loader-starved", "fixture hidden-loader", "", "the host stands in next() for most of the step; in the second run the GPU works meanwhile"},
	{"idle.launch-bound", "case 30", "case 8", "idle.share", "the GPU waits for launches; in the second run because a read had drained its queue"},
	{"idle.host-sync", "case 8", "case N6", "idle.share", "a number is read in each step, and the GPU is empty behind it; in the second run the host has as much to do without it"},
	{"idle.cpu-op", "other-host-work", "fixture zero-workers", "idle.share", "the GPU waits while the host works in an operator; in the second run that is the loader's"},
	{"idle.python", "fixture nsys-python-hole", "fixture nsys-descheduled", "idle.share", "a hole of 12 ms in each step without operator or call; in the second run the thread has no CPU"},
	{"idle.gc-pause", "case 12", "one-rank-pauses", "idle.python", "pauses of a fifth of a second without anything recorded; in the second run of one rank alone"},
	{"idle.allocator", "case 36", "allocates-at-first", "", "the GPU waits for cudaMalloc; in the second run in the first steps alone"},
	{"idle.checkpoint", "case 9", "validates", "step.outliers", "one step in which the training stands for seconds; in the second run for validation"},
	{"idle.eval-log", "validates", "case 9", "step.outliers", "one step in which the training stands for seconds; in the second run for a checkpoint"},
	{"idle.compile", "compiles-on", "compiled-code", "idle.share", "15 ms in every fifth step in a range of the compiler; in the second run it is what runs compiled code"},
	{"idle.queued-stall", "queued-and-waiting", "launched-late", "", "the same hole before the same kernel; in the second run the kernel is launched at its end"},
	{"idle.profiler", "profiler-writes", "profiler-writes-once", "", "the profiler flushes its buffers while the host should launch; in the second run twice"},
	{"idle.util-not-work", "case 23", "full-at-two-thirds", "", "utilisation is full, and power far below the limit; in the second run it is what work that waits for memory draws"},
	{"idle.sawtooth", "fixture samples-only", "dips-apart", "idle.share", "the GPUs stand for seconds again and again; in the second run without a period"},
	{"idle.sampling-beat", "sampled-in-step", "stands-every-nine", "idle.sawtooth", "the sampled curve swings every 9 s; in the second run the training stands that often"},
	{"idle.cross-gpu", "fixture samples-only", "dips-apart", "idle.share", "four GPUs of a host dip; in the second run each at times of its own"},
	{"idle.summary-calls", "sums-of-launches", "sums-of-copies", "", "sums of the same kernels, and of seconds in calls; in the second run they wait for the GPU"},

	{"data.worker-throughput", "case 3", "case 7", "step.outliers", "workers do not have a batch in time; in the second run once an epoch, when they are made"},
	{"data.epoch-respawn", "workers-anew", "workers-stay", "step.epoch-boundary", "10 s pass between two epochs; in the second run the workers are those of before"},
	{"data.zero-workers", "fixture zero-workers", "fixture loader-starved", "idle.dataloader-wait", "the GPU waits in next() in each step; in the second run for worker processes"},
	{"data.decode-cpu", "decodes", "reads-a-share", "data.worker-throughput", "the GPU waits for workers; in the second run they wait for a network share, and their CPUs idle"},
	{"data.storage", "reads-a-share", "decodes", "data.worker-throughput", "the GPU waits for workers, and the host's disk is calm; in the second run the workers decode"},
	{"data.cold-cache", "case 5", "speeds-up-and-reads-on", "idle.cross-gpu", "the GPUs are low at first and full later; in the second run the disk is read as much as before"},
	{"data.thread-oversub", "case 6", "case N7", "", "threads for many times the CPUs, and a full run queue; in the second run batches are there in time"},
	{"data.cpu-quota", "fixture cpu-quota", "fixture decode-cpu", "idle.dataloader-wait", "the GPU waits for workers that want more CPU; in the second run no quota holds them"},
	{"data.tokenize-inline", "tokens-inline", "tokens-in-workers", "idle.share", "the GPU waits for 40 ms of each step until text is tokens; in the second run workers turn it"},
	{"data.pin-gil", "fixture nsys-pin-gil", "fixture nsys-python-hole", "idle.python", "the launching thread does nothing that is recorded for 12 ms of a step; in the second run it runs Python itself"},
	{"data.main-collate", "fixture nsys-main-collate", "nsys-loader-waits", "idle.dataloader-wait", "the GPU waits while the main thread is in next(); in the second run the thread waits, too"},
	{"data.copy-bound", "fixture narrow-link", "fixture numa-rank", "data.h2d-blocking", "copies to the GPU hold it up in each step; in the second run it computes for longer"},
	{"data.h2d-pageable", "fixture pageable", "copies-in-sight", "", "copies to the GPU with nothing beside them; in the second run from pinned memory"},
	{"data.h2d-blocking", "copies-in-sight", "fixture pageable", "", "copies to the GPU with nothing beside them; in the second run from pageable memory, which nothing hides"},
	{"data.h2d-bandwidth", "fixture narrow-link", "copies-in-sight", "data.h2d-blocking", "pinned copies with nothing beside them; in the second run as fast as the link is"},
	{"data.rank-skew", "fixture late-rank", "case 2", "idle.dataloader-wait", "the loader makes ranks late; in the second run all alike"},
	{"data.summary-copies", "sums-of-copies", "sums-of-launches", "", "sums of the same kernels; in the second run copies are a fiftieth of them"},

	{"kernel.mix", "both-compute", "only-reduces gpu1", "", "GPUs are busy all the time; in the second run one of them in collectives alone"},
	{"kernel.tensor-core-unused", "fp32-plain-cores", "fp32-as-tf32", "", "products of FP32 tensors; in the second run on tensor cores"},
	{"kernel.sm-active", "few-blocks", "one-block-an-sm", "", "streaming kernels fill the step; in the second run they have a block for each SM"},
	{"kernel.memory-bound", "fixture nsys-memory-bound", "fixture nsys-memory-burst", "", "kernels at the memory's full speed; in the second run for a small part of the step"},
	{"kernel.tiny", "short-kernels-late", "short-kernels-queued", "", "two hundred kernels of 4 us; in the second run they are queued when their turn comes"},
	{"kernel.gemm-eff", "products-slow", "products-thin", "", "products far below the part's peak; in the second run they are thin, and the memory is their limit"},
	{"kernel.layout", "layouts-change", "types-change", "kernel.copies", "kernels that only move values around; in the second run for another type"},
	{"kernel.attention", "attention-in-pieces", "attention-fused", "", "a softmax between products; in the second run a router's, beside fused attention"},
	{"kernel.optimizer-share", "case 35", "case 20b", "", "an optimizer that goes through its tensors in lists; in the second run it is a fortieth of the step"},
	{"kernel.occupancy", "grids-small", "grids-large", "", "long kernels of pointwise work; in the second run with blocks for all SMs"},
	{"kernel.l2", "cache-missed", "cache-found", "", "products that Nsight Compute measured; in the second run they find what they read again, and a pointwise kernel does not"},
	{"kernel.copies", "copies-on-card", "copies-from-host", "", "copies take much of the busy time; in the second run from the host"},
	{"kernel.comm-contention", "beside-collectives-slower", "beside-collectives", "comm.exposed", "products run beside collectives; in the second run hardly slower than alone"},
	{"kernel.summary-mix", "sums-plain-cores", "sums-copies-only", "", "sums of what the GPU did; in the second run it did nothing but copy"},
	{"kernel.summary-tensor-core", "sums-plain-cores", "sums-tensor-cores", "", "sums in which products lead; in the second run on tensor cores"},
	{"kernel.summary-tiny", "sums-plain-cores", "sums-tensor-cores", "", "sums of the same kernels; in the second run pointwise ones are fewer and longer"},

	{"comm.exposed", "fixture exposed-allreduce", "case 17", "", "collectives fill a third of the step; in the second run they wait for a rank with more tokens"},
	{"comm.straggler-wait", "case 17", "fixture exposed-allreduce", "", "collectives fill a third of the step; in the second run they move data"},
	{"comm.low-busbw", "fabric-slow", "pcie-ceiling", "comm.exposed", "reduces with nothing beside them take far longer than NVLink would; in the second run that is all that PCIe can"},
	{"comm.latency-bound", "small-messages", "small-message-late", "", "messages of 64 KiB hold the GPU up; in the second run they wait for a late rank"},
	{"comm.no-sync-accum", "sync-every-micro-batch", "tensor-every-micro-batch", "comm.exposed", "all-reduces in each of four micro-batches; in the second run of activations, which the next layer needs"},
	{"comm.ddp-tail", "tail", "tail-one-bucket", "comm.exposed", "reduces behind backward; in the second run the last bucket alone, which nothing can hide"},
	{"comm.ddp-unused", "unused-search", "other-host-work", "idle.cpu-op", "4 ms of host work before backward; in the second run not DDP's search"},
	{"comm.fsdp-allgather", "sharded-without-prefetch", "sharded-with-prefetch", "comm.exposed", "weights are gathered before each layer; in the second run while the one before computes"},
	{"comm.on-compute-stream", "case 18", "sharded-without-prefetch", "comm.fsdp-allgather", "all-gathers are in sight before each layer; in the second run on a stream of their own"},
	{"comm.topology", "case 22", "pcie-ceiling", "comm.exposed", "four boards without NVLink reduce slowly; in the second run they reach each other, and PCIe allows no more"},
	{"comm.nic-affinity", "case 25", "fabric-slow", "comm.low-busbw", "transfers between two hosts stay far below their adapters' rate; in the second run GPU and adapter are near each other"},
	{"comm.socket-fallback", "fixture socket-fallback", "case 25", "comm.exposed", "transfers between two hosts are slow; in the second run they go over InfiniBand"},
	{"comm.intermittent", "slow-at-times", "late-at-times", "comm.exposed", "in every fifth step collectives take three times as long; in the second run because a rank is late"},
	{"comm.rank-missing", "fixture missing-ranks", "fixture two-hosts", "comm.straggler-wait", "a rank of two hosts is late; in the second run the trace of each is there"},
	{"comm.pipeline-bubble", "pipeline-uneven", "pipeline-even", "comm.straggler-wait", "stages of a pipeline wait for each other; in the second run no longer than they must"},
	{"comm.a2a-imbalance", "experts-hot", "experts-paused", "comm.exposed", "all-to-alls of experts take long; in the second run a rank comes late to them, and their parts are even"},

	{"shape.misaligned", "vocabulary-odd", "vocabulary-padded", "", "a product with the vocabulary as its dimension; in the second run padded by 47"},
	{"shape.wave", "wave-of-eight-blocks", "wave-split", "", "products of 140 blocks on 132 SMs; in the second run of a kernel that splits its inner dimension"},
	{"shape.batch-too-small", "small-batch", "small-kernels-memory-full", "idle.launch-bound", "hundreds of kernels of a few blocks; in the second run there is no memory for more samples"},
	{"shape.batch-headroom", "waves-full", "grids-leave-room", "", "a GPU that is always busy, with products near its peak; in the second run kernels of few blocks leave room"},
	{"shape.padding", "padded", "packed", "", "rows of 1024 tokens; in the second run nearly all are real"},
	{"shape.rank-tokens", "tokens-uneven", "slow-by-turns", "comm.straggler-wait", "ranks wait for one that computes longer, another one each step; in the second run it has no more tokens"},
	{"shape.dynamic-recompile", "compiles-on", "compiled-once", "", "15 ms of compilation; in the second run before the first step alone"},
	{"shape.cudnn-varying", "shapes-tried", "shapes-vary", "", "a convolution meets another size in each step; in the second run nothing is tried for it"},
	{"shape.fp32-matmul", "fp32-plain-cores", "fp32-as-tf32", "", "products of FP32 tensors; in the second run on tensor cores"},
	{"shape.amp-casts", "types-change", "layouts-change", "kernel.copies", "kernels that only move values around; in the second run to another layout"},
	{"shape.unfused-elementwise", "pointwise-in-a-row", "pointwise-between-products", "", "eighteen pointwise operators a step; in the second run a product lies between them"},
	{"shape.recompute", "forward-again", "forward-once", "", "forward and backward of three layers; in the second run forward runs once"},
	{"shape.phase-mix", "phases-named", "one-phase", "", "ranges name phases of a model; in the second run one of them is nearly all there is"},

	{"hw.thermal", "hot-and-cut", "warm", "", "a card near its limit of heat; in the second run nothing cuts it"},
	{"hw.power-cap", "clock-under-cap", "fixture capped-memory-bound", "", "the power limit is in force all the time; in the second run the kernels wait for memory, and the clock is near the usual"},
	{"hw.power-misconfig", "one-limit-lower", "limits-equal", "", "four cards under load; in the second run all may draw what is the default"},
	{"hw.power-brake", "rack-brake", "change-of-state", "", "the hardware's slowdown bit shows; in the second run in two readings at a change of state"},
	{"hw.clock-locked", "clock-set-low", "clock-of-data-sheet", "", "the clock stands still below the most it can; in the second run where this part's stands"},
	{"hw.gpu-slow", "fixture slow-gpu", "case 17", "comm.straggler-wait", "ranks wait for one that computes for longer; in the second run it has more tokens"},
	{"hw.gpu-lost", "lost", "readings-fail", "", "readings of one GPU fail; in the second run two of them, without a word of why"},
	{"hw.xid", "fixture xid-79", "fixture xid-31", "", "the kernel's log holds an Xid; in the second run one that the application made"},
	{"hw.xid-application", "fixture xid-31", "fixture xid-79", "", "the kernel's log holds an Xid; in the second run one of the hardware"},
	{"hw.ecc", "memory-broken", "memory-corrected", "", "counters of the memory's errors are not zero; in the second run all were corrected"},
	{"hw.pcie-link", "fixture narrow-link", "link-sleeps-between", "", "the link is seen at a lower generation; in the second run while there is nothing to do"},
	{"hw.pcie-replay", "replays-rise", "replays-of-old", "", "hundreds of replays of the link; in the second run all of them old"},
	{"hw.nvlink", "links-recover", "links-recovered-once", "", "the counter of recoveries is high; in the second run it does not move"},
	{"hw.numa", "far-and-copies", "far-and-idle", "", "the process runs on the far socket; in the second run there is nothing that it holds up"},
	{"hw.cpu-cores", "thread-without-cpu", "thread-in-python", "idle.share", "the launching thread launches nothing for 12 ms of a step; in the second run it runs Python"},
	{"hw.iowait", "disk-before-dips", "disk-after-dips", "idle.sawtooth", "the CPUs wait for a disk around each dip; in the second run behind it"},
	{"hw.shared-gpu", "second-tenant", "evaluation-looks-in", "", "another process computes on the card; in the second run for four seconds of two minutes"},
}
