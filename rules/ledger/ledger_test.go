package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/timeline/timelinetest"
)

func reduce(t testing.TB, text string) []*timeline.Reduced {
	t.Helper()
	return reduceOpt(t, text, Options{})
}

func reduceOpt(t testing.TB, text string, opt Options) []*timeline.Reduced {
	t.Helper()
	reds, err := Reduce(timelinetest.Parse(text), tables(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reds {
		checkLedger(t, r)
	}
	return reds
}

// owned prints the owners of a ledger with their time, in palette order, finer owners in brackets.
func owned(g *timeline.GPULedger) string {
	var out []string
	for o, v := range g.Owners {
		if v == 0 {
			continue
		}
		s := fmt.Sprintf("%s %v", timeline.Owner(o), time.Duration(v))
		for _, u := range g.Subs[o] {
			if u.Sub != timeline.SubNone && timeline.Owner(o) != timeline.Compute {
				s += fmt.Sprintf(" [%s %v]", subName(u.Sub), time.Duration(u.NS))
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func subName(s timeline.Sub) string {
	return map[timeline.Sub]string{timeline.SubPageable: "pageable", timeline.SubPinned: "pinned", timeline.SubUncorrelated: "uncorrelated",
		timeline.SubLag: "lag", timeline.SubMissingEvents: "missing", timeline.SubPipelineBubble: "bubble", timeline.SubRefill: "refill", timeline.SubNoOperators: "no operators",
		timeline.SubOnCPU: "on CPU", timeline.SubLock: "lock", timeline.SubPin: "pin"}[s]
}

// Every row of the table of gaps, and every owner that a single process can have. The first kernel runs 0..100 us and opens the gap.
func TestGapOwners(t *testing.T) {
	const head = "main op -40us..-39us aten::empty\nmain api -20us..-10us cudaLaunchKernel link=1\ngpu0/s7 kernel 0us..100us sgemm link=1\n"
	for _, c := range []struct{ name, text, want string }{
		{"row a: no launch call", "gpu0/s7 kernel 150us..200us sgemm link=9",
			"compute 150µs, unknown 50µs [uncorrelated 50µs]"},
		{"switch: no launch call, short", "gpu0/s7 kernel 104us..200us sgemm link=9", "compute 196µs, gap.switch 4µs"},
		{"switch: queued, short", "main api 10us..20us cudaLaunchKernel link=2\ngpu0/s7 kernel 105us..200us sgemm link=2",
			"compute 195µs, gap.switch 5µs"},
		{"short but still launching is no switch", "main api 90us..102us cudaLaunchKernel link=2\ngpu0/s7 kernel 104us..200us sgemm link=2",
			"compute 196µs, host.launch 4µs"},
		{"row c and d: tail of launch latency, then lag", "main api 90us..110us cudaLaunchKernel link=2\ngpu0/s7 kernel 130us..200us sgemm link=2",
			"compute 170µs, host.launch 15µs, unknown 15µs [lag 15µs]"},
		{"slice 1: the profiler's work on the thread", "main overhead 100us..140us Buffer Flush\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.python 50µs, host.profiler 40µs"},
		{"slice 1: the profiler's work on no thread", "overhead overhead 110us..140us Activity Buffer Request\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.python 60µs, host.profiler 30µs"},
		{"slice 5: lazy loading is not the profiler's", "overhead overhead 110us..140us Lazy Function Loading\nmain api 105us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 67µs, host.python 5µs, host.compile 30µs"},
		{"slice 2: checkpoint", "main anno 90us..190us save_checkpoint\nmain op 110us..120us aten::copy_\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.checkpoint 90µs"},
		{"slice 2: validation beats the loader", "main anno 90us..190us validation\nmain anno 100us..180us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.validation 90µs"},
		{"slice 2: logging", "main anno 90us..190us log metrics\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.logging 90µs"},
		{"slice 2: an operator is no annotation", "main op 100us..190us aten::log\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 102µs"},
		{"slice 2: recompute is no checkpoint", "main anno 100us..190us CheckpointFunction\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.python 90µs"},
		{"slice 3: loader", "main anno 100us..190us enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__\nmain op 110us..180us aten::stack\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.dataloader 90µs"},
		{"slice 3: loader of 2021, an operator", "main op 100us..190us enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.dataloader 90µs"},
		{"slice 4: allocator before sync", "main api 100us..190us cudaFree\nmain api 110us..180us cudaDeviceSynchronize\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.allocator 90µs"},
		{"slice 5: module load", "main api 100us..190us cuModuleLoadData\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.compile 90µs"},
		{"slice 5: a call of a millisecond", "main api 100us..2100us cudaLaunchKernel link=2\ngpu0/s7 kernel 2101us..2200us sgemm link=2",
			"compute 199µs, host.launch 1µs, host.compile 2ms"},
		{"slice 5: a long copy call is none", "main api 100us..2100us cudaMemcpyAsync link=2\ngpu0/s7 d2h 2101us..2200us mem=pinned link=2",
			"compute 100µs, host.launch 2.001ms, copy.d2h 99µs [pinned 99µs]"},
		{"slice 6a: staging of a pageable copy", "main api 100us..190us cudaMemcpyAsync link=2\ngpu0/s7 h2d 150us..180us mem=pageable bytes=1000 link=2\nmain api 190us..200us cudaLaunchKernel link=3\ngpu0/s7 kernel 202us..300us sgemm link=3",
			"compute 198µs, host.launch 12µs, copy.h2d 90µs [pageable 90µs]"},
		{"slice 6b: sync, then the refill", "main api 50us..104us cudaStreamSynchronize\nmain op 110us..150us aten::add\nmain api 150us..160us cudaLaunchKernel link=2\ngpu0/s7 kernel 162us..300us sgemm link=2",
			"compute 238µs, host.launch 12µs, host.sync 50µs [refill 46µs]"},
		{"slice 6b: the refill goes on behind a copy", "main api 50us..104us cudaStreamSynchronize\nmain api 110us..115us cudaMemcpyAsync link=3\ngpu0/s7 h2d 117us..130us mem=pinned link=3\nmain op 135us..150us aten::add\nmain api 150us..160us cudaLaunchKernel link=2\ngpu0/s7 kernel 162us..300us sgemm link=2",
			"compute 238µs, host.launch 14µs, host.sync 35µs [refill 31µs], copy.h2d 13µs [pinned 13µs]"},
		{"slice 6b: a sync that ended long before drained nothing", "main api 10us..70us cudaStreamSynchronize\nmain api 150us..160us cudaLaunchKernel link=2\ngpu0/s7 kernel 162us..300us sgemm link=2",
			"compute 238µs, host.launch 12µs, host.python 50µs"},
		{"slice 6b: the loader comes before the refill", "main api 50us..104us cudaStreamSynchronize\nmain anno 104us..150us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\nmain api 150us..160us cudaLaunchKernel link=2\ngpu0/s7 kernel 162us..300us sgemm link=2",
			"compute 238µs, host.launch 12µs, host.sync 4µs, host.dataloader 46µs"},
		{"slice 7: short operators", "main op 100us..190us aten::add\nmain op 120us..180us aten::empty\nmain api 185us..195us cudaLaunchKernel link=2\ngpu0/s7 kernel 197us..300us sgemm link=2",
			"compute 203µs, host.launch 97µs"},
		{"slice 8: a long stretch inside one operator, not clipped to the gap", "main op 30us..180us aten::sort\nmain api 185us..195us cudaLaunchKernel link=2\ngpu0/s7 kernel 197us..300us sgemm link=2",
			"compute 203µs, host.launch 12µs, host.python 5µs, host.cpu-op 80µs"},
		{"slice 8: the loading of a module does not break a stretch", "main op 100us..240us aten::sort\nmain overhead 120us..150us Lazy Function Loading\nmain api 240us..250us cudaLaunchKernel link=2\ngpu0/s7 kernel 252us..300us sgemm link=2",
			"compute 148µs, host.launch 12µs, host.cpu-op 110µs, host.compile 30µs"},
		{"slice 7: a long operator whose children break it", "main op 30us..180us aten::conv2d\nmain op 60us..110us aten::empty\nmain api 150us..160us cudaEventRecord\nmain api 185us..195us cudaLaunchKernel link=2\ngpu0/s7 kernel 197us..300us sgemm link=2",
			"compute 203µs, host.launch 92µs, host.python 5µs"},
		{"slice 9: nothing but frames and marks", "main anno -30us..400us ProfilerStepLike\nmain python 100us..190us train.py(3): step\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 12µs, host.python 90µs"},
		{"thread rule: the launching thread waits for the main one", "autograd api 190us..200us cudaLaunchKernel link=2\nmain op 110us..150us aten::add\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 198µs, host.launch 52µs, host.python 50µs"},
		{"thread rule: the main thread waits for backward", "autograd api 20us..30us cudaLaunchKernel link=5\nautograd op 110us..150us AddBackward0\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 101us..102us sgemm link=5\ngpu0/s7 kernel 202us..300us sgemm link=2",
			"compute 199µs, gap.switch 1µs, host.launch 52µs, host.python 48µs"},
		{"negative lead: the call begins after its kernel", "main op 100us..160us aten::add\nmain api 155us..165us cudaLaunchKernel link=2\ngpu0/s7 kernel 150us..300us sgemm link=2",
			"compute 250µs, host.launch 50µs"},
		{"streams: a gap is where no stream works", "main api 10us..20us cudaLaunchKernel link=2\ngpu0/s9 kernel 80us..140us sgemm link=2\nmain api 30us..40us cudaLaunchKernel link=3\ngpu0/s7 kernel 144us..200us sgemm link=3",
			"compute 196µs, gap.switch 4µs"},
		{"precedence: compute over communication over copies", "main api 10us..20us cudaLaunchKernel link=2\nmain api 30us..40us cudaMemcpyAsync link=3\nmain api 41us..42us cudaMemcpyAsync link=4\ngpu0/s9 kernel 50us..150us ncclDevKernel_AllReduce_Sum_f32_RING_LL link=2\ngpu0/s11 h2d 90us..180us mem=pinned link=3\ngpu0/s11 d2d 180us..200us link=4",
			"compute 120µs, copy.h2d 30µs [pinned 30µs], comm.undivided 50µs"},
		{"a copy launched while saving is the checkpoint's", "main anno 100us..300us checkpoint\nmain api 110us..120us cudaMemcpyAsync link=2\ngpu0/s7 d2h 125us..200us mem=pinned link=2",
			"compute 100µs, host.launch 5µs, host.checkpoint 95µs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			red := reduce(t, head+c.text)[0]
			if got := owned(&red.GPUs[0]); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Where no device op ran before, no sync drained the queue, however near to the window's start one ended.
func TestRefillNeedsWork(t *testing.T) {
	red := reduce(t, "main anno 100us..1000us ProfilerStep#3\nmain api 105us..110us cudaDeviceSynchronize\nmain op 120us..130us aten::empty\n"+
		"main api 180us..190us cudaLaunchKernel link=1\ngpu0/s7 kernel 192us..300us sgemm link=1\n")[0]
	if got, want := owned(&red.GPUs[0]), "compute 108µs, host.launch 22µs, host.sync 5µs, host.python 65µs"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// That the launching thread had no operator says that it ran Python only where operators were recorded.
func TestNoOperators(t *testing.T) {
	text := "main api -20us..-10us cudaLaunchKernel link=1\ngpu0/s7 kernel 0us..100us sgemm link=1\n" +
		"main anno 100us..190us my range\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2\n"
	red := reduce(t, text)[0]
	if got, want := owned(&red.GPUs[0]), "compute 198µs, host.launch 12µs, unknown 90µs [no operators 90µs]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !strings.Contains(strings.Join(red.Notes, " "), "neither operators nor CPU samples") {
		t.Errorf("notes %q", red.Notes)
	}
	red = reduce(t, text+"main op 290us..295us aten::empty\n")[0]
	if got, want := owned(&red.GPUs[0]), "compute 198µs, host.launch 12µs, host.python 90µs"; got != want || len(red.Notes) != 0 {
		t.Errorf("got %s, want %s; notes %q", got, want, red.Notes)
	}
}

// A stall of queued work is rare; above 5 % of the window it means that device events are missing.
func TestQueuedStall(t *testing.T) {
	head := "main api -30us..-20us cudaLaunchKernel link=1\nmain api -20us..-10us cudaLaunchKernel link=2\ngpu0/s7 kernel 0us..1000us sgemm link=1\n"
	red := reduce(t, head+"gpu0/s7 kernel 1040us..2000us sgemm link=2")[0]
	if got, want := owned(&red.GPUs[0]), "compute 1.96ms, gap.queued-stall 40µs"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	red = reduce(t, head+"gpu0/s7 kernel 1400us..2000us sgemm link=2")[0]
	if got, want := owned(&red.GPUs[0]), "compute 1.6ms, unknown 400µs [missing 400µs]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(red.Notes) == 0 || !strings.Contains(red.Notes[0], "device events are missing") {
		t.Errorf("notes %q", red.Notes)
	}
	// One graph launch, many kernels: a long hole inside it is missing events, a short one a stall.
	graph := "main api -30us..-20us cudaGraphLaunch link=1\ngpu0/s7 kernel 0us..1000us sgemm link=1\ngpu0/s7 kernel 1051us..2000us sgemm link=1\ngpu0/s7 kernel 2030us..3000us sgemm link=1"
	red = reduce(t, graph)[0]
	if got, want := owned(&red.GPUs[0]), "compute 2.919ms, gap.queued-stall 30µs, unknown 51µs [missing 51µs]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if red.Rank.GraphLaunches != 1 {
		t.Errorf("%d graph launches", red.Rank.GraphLaunches)
	}
}

// A restarted loader leaves a stretch without spans before its first, long next().
func TestLoaderRestart(t *testing.T) {
	var b strings.Builder
	next := "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
	at := 0
	for i := range 4 { // ms
		wait, stretch := 1, 0
		if i == 3 {
			wait, stretch = 20, 30
		}
		at += stretch
		fmt.Fprintf(&b, "main anno %dms..%dms %s\n", at, at+wait, next)
		at += wait
		fmt.Fprintf(&b, "main api %dms..%d.01ms cudaLaunchKernel link=%d\ngpu0/s7 kernel %d.012ms..%d.9ms sgemm link=%d\n", at, at, i+1, at, at, i+1)
		at++
	}
	fmt.Fprintf(&b, "main anno %dms..%dms %s\n", at, at+1, next)
	red := reduce(t, b.String())[0]
	if red.Steps.How != "annotation" || fmt.Sprint(red.Steps.Index) != "[1 2 3]" {
		t.Fatalf("steps %+v", red.Steps)
	}
	// Two waits of 1 ms, the stretch from the last call's end at 5.01 ms, of which 0.89 ms are hidden, and the long next().
	g := &red.GPUs[0]
	if got := g.Owners[timeline.HostDataloader]; got != 1e6+1e6+30.1e6+20e6 {
		t.Errorf("loader %v: %s", time.Duration(got), owned(g))
	}
	if red.Rank.Loader.Single || red.Rank.Loader.Name != next {
		t.Errorf("loader %+v", red.Rank.Loader)
	}
}

const threeSteps = `
proc r rank=0 world=1
device r:gpu0 name=A100 sms=108 cc=8.0 memory=1000
r:main anno 0ms..10ms ProfilerStep#5
r:main anno 10ms..20ms ProfilerStep#6
r:main anno 20ms..30ms ProfilerStep#7
r:main anno 30ms..40ms ProfilerStep#8
r:main api 1ms..1.01ms cudaLaunchKernel link=1
r:main api 11ms..11.01ms cudaLaunchKernel link=2
r:main api 21ms..21.01ms cudaLaunchKernel link=3
r:main api 31ms..31.01ms cudaLaunchKernel link=4
r:gpu0/s7 kernel 0.5ms..1ms orphan link=99
r:gpu0/s7 kernel 2ms..9ms sgemm link=1
r:gpu0/s7 kernel 12ms..21.5ms sgemm link=2
r:gpu0/s7 kernel 22ms..29ms sgemm link=3
r:gpu0/s7 kernel 32ms..41ms sgemm link=4
`

func TestProfilerSteps(t *testing.T) {
	red := reduce(t, threeSteps)[0]
	st := &red.Steps
	if st.How != "ProfilerStep" || fmt.Sprint(st.Index) != "[6 7 8]" || st.Confidence != timeline.Measured || len(st.Dropped) != 1 {
		t.Fatalf("%+v", st)
	}
	g := &red.GPUs[0]
	ms := func(v float64) timeline.Time { return timeline.Time(v * 1e6) }
	if g.Window != (timeline.Interval{Start: ms(9), End: ms(41)}) {
		t.Errorf("window %v", g.Window)
	}
	var ends []timeline.Time
	for _, s := range g.Steps {
		ends = append(ends, s.Start+timeline.Time(s.Dur))
	}
	// The step ends with its last kernel, so the gap before the first kernel is charged to the step that it starts.
	if fmt.Sprint(ends) != fmt.Sprint([]timeline.Time{ms(21.5), ms(29), ms(41)}) {
		t.Errorf("step ends %v", ends)
	}
	if fmt.Sprint(st.All) != "[8ms 12.5ms 7.5ms 12ms]" {
		t.Errorf("all %v: the head orphan ended at 1 ms, where step 5 begins", st.All)
	}
	if st.First != (timeline.Interval{Start: ms(1), End: ms(9)}) || st.FirstOwners.Sum() != 8e6 || st.FirstOwners[timeline.Compute] != 7e6 {
		t.Errorf("first %v %v", st.First, st.FirstOwners)
	}
	if len(red.HostBusy) != 3 || red.HostBusy[0] != 10e6 || red.NextNS[0] != 0 {
		t.Errorf("host %v next %v", red.HostBusy, red.NextNS)
	}
	if g.Busy != int64(9.5e6+7e6+9e6) || g.Ops != 3 || g.Uncorrelated != 0 || g.Idle != (timeline.Interval{Start: ms(9), End: ms(12)}) {
		t.Errorf("busy %d ops %d idle %v", g.Busy, g.Ops, g.Idle)
	}
	// Two recorded steps: none is dropped, and the first begins where its host step does or the orphans end.
	two := strings.ReplaceAll(strings.ReplaceAll(threeSteps, "r:main anno 20ms..30ms ProfilerStep#7\n", ""), "r:main anno 30ms..40ms ProfilerStep#8\n", "")
	red = reduce(t, two)[0]
	if fmt.Sprint(red.Steps.Index) != "[5 6]" || red.GPUs[0].Window != (timeline.Interval{Start: ms(1), End: ms(21.5)}) || len(red.Notes) == 0 {
		t.Errorf("%+v %v %v", red.Steps, red.GPUs[0].Window, red.Notes)
	}
	// The user's window keeps whole steps only.
	red = reduceOpt(t, threeSteps, Options{Window: timeline.Interval{Start: ms(20), End: ms(35)}})[0]
	if fmt.Sprint(red.Steps.Index) != "[7]" {
		t.Errorf("cut: %+v", red.Steps)
	}
}

// A step in which no device op was launched has no time of the GPU: at the edges and between others it is left out, and said.
func TestEmptySteps(t *testing.T) {
	const text = `
main anno 0ms..10ms ProfilerStep#1
main anno 10ms..20ms ProfilerStep#2
main anno 20ms..30ms ProfilerStep#3
main anno 30ms..40ms ProfilerStep#4
main anno 40ms..50ms ProfilerStep#5
main anno 50ms..60ms ProfilerStep#6
main op 12ms..13ms aten::add
main api 11ms..11.01ms cudaLaunchKernel link=1
gpu0/s7 kernel 12ms..19ms sgemm link=1
main api 31ms..31.01ms cudaLaunchKernel link=2
gpu0/s7 kernel 32ms..39ms sgemm link=2
main api 41ms..41.01ms cudaLaunchKernel link=3
gpu0/s7 kernel 42ms..49ms sgemm link=3
`
	red := reduce(t, text)[0]
	st, g := &red.Steps, &red.GPUs[0]
	if fmt.Sprint(st.Index) != "[4 5]" || len(g.Steps) != 2 || len(st.Dropped) != 2 || !strings.Contains(st.Dropped[0], "steps 1, 3, 6: no device op") {
		t.Fatalf("%+v\n%+v", st, g.Steps)
	}
	// Step 4 holds the time from step 2's last kernel on: the GPU's gap, and the host's step 3.
	if g.Steps[0].Start != 19e6 || g.Steps[0].Dur != 20e6 || fmt.Sprint(red.HostBusy) != "[20000000 10000000]" || fmt.Sprint(st.All) != "[9ms 20ms 10ms]" {
		t.Errorf("%+v host %v all %v", g.Steps, red.HostBusy, st.All)
	}
	// One step with work between two without: its GPU step begins with its host step.
	red = reduce(t, "main anno 0ms..10ms ProfilerStep#1\nmain anno 10ms..20ms ProfilerStep#2\nmain anno 20ms..30ms ProfilerStep#3\nmain api 11ms..11.01ms cudaLaunchKernel link=1\ngpu0/s7 kernel 12ms..19ms sgemm link=1\n")[0]
	if g := &red.GPUs[0]; fmt.Sprint(red.Steps.Index) != "[2]" || g.Window != (timeline.Interval{Start: 10e6, End: 19e6}) {
		t.Errorf("%+v %v", red.Steps, g.Window)
	}
	// A second device that rests in one step is not cut into steps; the first one is.
	red = reduce(t, text+"main api 11.1ms..11.2ms cudaLaunchKernel link=4\ngpu1/s7 kernel 12ms..19ms sgemm link=4\nmain api 41.1ms..41.2ms cudaLaunchKernel link=5\ngpu1/s7 kernel 42ms..49.5ms sgemm link=5\n")[0]
	if len(red.GPUs[0].Steps) != 2 || len(red.GPUs[1].Steps) != 0 || red.GPUs[1].Window.Dur() != 30.5e6 {
		t.Errorf("%+v\n%+v", red.GPUs[0].Steps, red.GPUs[1].Steps)
	}
}

func TestOtherSteps(t *testing.T) {
	gen := func(n int, f func(i int, at int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i, i*10))
		}
		return b.String()
	}
	kernels := func(i, at int) string {
		return fmt.Sprintf("main api %dms..%d.01ms cudaLaunchKernel link=%d\ngpu0/s7 kernel %d.1ms..%d.5ms sgemm link=%d\n", at+1, at+1, i+1, at+1, at+1, i+1)
	}
	red := reduce(t, gen(4, func(i, at int) string {
		s := kernels(i, at) + fmt.Sprintf("main anno %dms..%dms Optimizer.step#Adam.step\n", at+2, at+3)
		if i%2 == 0 { // the rarer of two optimizers closes the step
			s += fmt.Sprintf("main anno %dms..%dms Optimizer.step#SGD.step\n", at+4, at+5)
		}
		return s
	}))[0]
	if red.Steps.How != "annotation" || red.Steps.Name != "Optimizer.step#SGD.step" || len(red.Steps.Index) != 1 || red.Steps.Confidence != timeline.Inferred {
		t.Errorf("optimizer: %+v", red.Steps)
	}
	red = reduceOpt(t, gen(4, func(i, at int) string {
		return kernels(i, at) + fmt.Sprintf("main anno %dms..%dms iter %d\nmain anno %dms..%dms ProfilerStep#%d\n", at, at+9, i, at, at+9, i)
	}), Options{Steps: "^iter "})[0]
	if red.Steps.How != "annotation" || red.Steps.Name != "^iter " {
		t.Errorf("user: %+v", red.Steps)
	}
	if _, err := Reduce(timelinetest.Parse(threeSteps), tables(t), Options{Steps: "("}); err == nil || !strings.Contains(err.Error(), "--steps") {
		t.Errorf("bad expression: %v", err)
	}
}

// Without marks the steps come from the sequence of kernels; a layer that repeats inside one annotation is none.
func TestKernelSequence(t *testing.T) {
	build := func(anno string) string {
		var b strings.Builder
		at, link := 0, 0
		k := func(name string, gap int) {
			link++
			at += gap
			fmt.Fprintf(&b, "main api %dus..%dus cudaLaunchKernel link=%d\ngpu0/s7 kernel %dus..%dus %s link=%d grid=4,1,1\n", at-8, at-3, link, at, at+20, name, link)
			at += 20
		}
		for range 6 {
			k("embedding", 300)
			for range 5 {
				k("sgemm", 3)
				k("softmax", 3)
			}
			k("loss", 3)
		}
		if anno != "" {
			fmt.Fprintf(&b, "main anno 0us..%dus %s\n", at+10, anno)
		}
		return b.String()
	}
	red := reduce(t, build(""))[0]
	st := &red.Steps
	if st.How != "kernel-sequence" || !strings.HasPrefix(st.Name, "12 kernels") {
		t.Fatalf("%+v", st)
	}
	if n := len(st.Index); n != 5 {
		t.Errorf("%d steps: the first of six has no step before", n)
	}
	for _, s := range red.GPUs[0].Steps {
		if s.Owners[timeline.Compute] != 12*20_000 || s.Dur != 300_000+11*3_000+12*20_000 {
			t.Errorf("step %+v", s)
		}
	}
	red = reduce(t, build("generate"))[0]
	if red.Steps.How != "none" || !strings.Contains(strings.Join(red.Notes, " "), "layers, not steps") {
		t.Errorf("%+v %v", red.Steps, red.Notes)
	}
}

// What repeats inside one forward, one operator or one range is layers; a loop over steps encloses its steps as well.
func TestContainers(t *testing.T) {
	build := func(repeats int, first int, more func(end int) string) *timeline.Reduced {
		var b strings.Builder
		at, link := 50, 0
		for i := range repeats {
			for j, name := range []string{"embedding", "sgemm", "softmax", "loss"} {
				link++
				d := 20
				if i == 0 && j == 3 {
					d = first
				}
				fmt.Fprintf(&b, "main op %dus..%dus aten::mm\nmain api %dus..%dus cudaLaunchKernel link=%d\ngpu0/s7 kernel %dus..%dus %s link=%d grid=4,1,1\n",
					at-9, at-2, at-8, at-3, link, at, at+d, name, link)
				at += d + 10
				if j == 3 {
					at += 300
				}
			}
		}
		return reduce(t, b.String()+more(at))[0]
	}
	for _, c := range []struct {
		name  string
		more  func(end int) string
		steps bool
		note  string
	}{
		{"nothing around", func(int) string { return "" }, true, ""},
		{"one forward", func(end int) string { return fmt.Sprintf("main python 30us..%dus model.py(343): forward\n", end) }, false, "inside one call (model.py(343): forward): layers"},
		{"a module", func(end int) string { return fmt.Sprintf("main python 30us..%dus nn.Module: GPT_0\n", end) }, false, "layers"},
		{"two forwards of four layers", func(end int) string {
			return fmt.Sprintf("main python 30us..%dus model.py(343): forward\nmain python %dus..%dus model.py(343): forward\n", end/2, end/2+1, end)
		}, false, "layers"},
		{"an operator", func(end int) string { return fmt.Sprintf("main op 30us..%dus MyLayers\n", end) }, false, "inside one operator"},
		{"ranges over four each", func(end int) string {
			return fmt.Sprintf("main anno 30us..%dus forward pass\nmain anno %dus..%dus forward pass\n", end/2, end/2+1, end)
		}, false, "inside one annotation"},
		{"the program's loop", func(end int) string {
			return fmt.Sprintf("main python 1us..%dus train.py(3): <module>\nmain python 2us..%dus train.py(9): main\nmain op 0us..1us aten::empty\n", end+50, end+49)
		}, true, ""},
		{"forward of each repeat", func(end int) string {
			var b strings.Builder
			for i := range 8 {
				fmt.Fprintf(&b, "main python %dus..%dus nn.Module: GPT_0\n", 40+420*i, 200+420*i)
			}
			return b.String()
		}, true, ""},
		{"a function that may be both", func(end int) string {
			return fmt.Sprintf("main op 0us..1us aten::empty\nmain python 40us..%dus run.py(9): work\nmain op %dus..%dus aten::empty\n", end, end+300, end+301)
		}, true, "if that is one step"},
	} {
		t.Run(c.name, func(t *testing.T) {
			red := build(8, 20, c.more)
			if got := red.Steps.How == "kernel-sequence"; got != c.steps {
				t.Errorf("steps %+v, notes %q", red.Steps, red.Notes)
			}
			if notes := strings.Join(red.Notes, "; "); !strings.Contains(notes, c.note) || (c.note == "" && notes != "") {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
	// A first repeat far longer than the others is warm-up: the first one recorded, or, where a copy stands before it, the second.
	red := build(8, 5000, func(int) string { return "" })
	if fmt.Sprint(red.Steps.Index) != "[1 2 3 4 5 6 7]" {
		t.Errorf("%+v", red.Steps)
	}
	red = build(20, 5000, func(int) string {
		return "main op 1us..9us aten::zeros\nmain api 2us..8us cudaLaunchKernel link=900\ngpu0/s7 kernel 10us..12us fill link=900\n"
	})
	if len(red.Steps.Index) != 19 || red.Steps.Index[0] != 1 || len(red.Steps.Dropped) != 1 || !strings.Contains(red.Steps.Dropped[0], "warm-up, 12 times") {
		t.Errorf("%+v", red.Steps)
	}
}

func TestPeriod(t *testing.T) {
	rep := func(s string, n int) []uint64 {
		var out []uint64
		for range n {
			for _, c := range s {
				out = append(out, uint64(c))
			}
		}
		return out
	}
	for _, c := range []struct {
		seq  []uint64
		want int
	}{
		{rep("abcabd", 5), 6},
		{rep("aaab", 10), 4},
		{rep("ab", 2), 0},
		{append(rep("ab", 20), rep("xyz", 20)...), 0},
		{rep("a", 100), 1},
		{rep("abcdefgh", 3), 8},
	} {
		if got := period(c.seq); got != c.want {
			t.Errorf("%v: %d, want %d", c.seq[:6], got, c.want)
		}
	}
	noisy := rep("abcdefghij", 40)
	noisy[203] = 'z'
	noisy[77] = 'y'
	if got := period(noisy); got != 10 {
		t.Errorf("two odd kernels: %d", got)
	}
}

func TestTables(t *testing.T) {
	red := reduce(t, `
device gpu0 name=A100 sms=108 cc=8.0
main anno 0ms..10ms ProfilerStep#1
main op 0.10ms..0.20ms aten::linear dims=[[8,16],[32,16],[32]] types=["float","float","float"]
main op 0.11ms..0.19ms aten::addmm dims=[[32],[8,16],[16,32]] types=["float","float","float"]
main api 0.12ms..0.13ms cudaLaunchKernel link=1
gpu0/s7 kernel 0.2ms..0.3ms ampere_sgemm_32x32_sliced1x4_tn link=1 grid=4,1,1
main op 0.30ms..0.40ms aten::to
main op 0.31ms..0.39ms aten::copy_ dims=[[8],[8]] types=["c10::BFloat16","float"]
main api 0.32ms..0.33ms cudaLaunchKernel link=2
gpu0/s7 kernel 0.4ms..0.5ms void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda> link=2 grid=200,1,1
main anno 0.5ms..0.9ms Optimizer.step#AdamW.step
main api 0.51ms..0.52ms cudaLaunchKernel link=3
gpu0/s7 kernel 0.6ms..0.605ms void at::native::vectorized_elementwise_kernel<4> link=3 grid=8,1,1
main api 0.53ms..0.54ms cudaLaunchKernel link=4
gpu0/s7 kernel 0.607ms..0.612ms void at::native::vectorized_elementwise_kernel<4> link=4 grid=8,1,1
main api 1.0ms..1.01ms cudaLaunchKernel link=5
main api 1.02ms..1.03ms cudaLaunchKernel link=6
main api 1.04ms..1.05ms cudaLaunchKernel link=7
gpu0/s7 kernel 1.1ms..1.104ms void at::native::vectorized_elementwise_kernel<8> link=5 grid=8,1,1
gpu0/s7 kernel 1.105ms..1.109ms void at::native::vectorized_elementwise_kernel<8> link=6 grid=8,1,1
gpu0/s7 kernel 1.110ms..1.114ms void at::native::vectorized_elementwise_kernel<8> link=7 grid=8,1,1
main op 1.2ms..1.4ms aten::item
main op 1.21ms..1.39ms aten::_local_scalar_dense
main api 1.22ms..1.23ms cudaMemcpyAsync link=8
gpu0/s7 d2h 1.25ms..1.26ms mem=pageable bytes=4 link=8
main api 1.24ms..1.30ms cudaStreamSynchronize
main api 1.5ms..1.6ms cudaMemcpyAsync link=9
gpu0/s7 h2d 1.7ms..1.8ms mem=pinned bytes=2097152 link=9
main op 2.0ms..2.1ms aten::conv2d
main op 2.01ms..2.09ms aten::cudnn_convolution dims=[[1,3,8,8],[8,3,3,3]] types=["float","float"]
main api 2.02ms..2.03ms cudaLaunchKernel link=10
gpu0/s7 kernel 2.1ms..2.2ms ampere_s16816gemm_fp16 link=10 grid=500,1,1
`)[0]
	g, r := &red.GPUs[0], &red.Rank
	rows := map[string]timeline.KernelRow{}
	for _, k := range g.Kernels {
		rows[k.Class] = k
	}
	if k := rows["matmul"]; k.TensorCore != -1 || k.DType != "fp32" || k.Op != "aten::addmm" || k.Count != 1 || k.SmallGrid != 1 || k.Median != 100_000 {
		t.Errorf("matmul %+v", k)
	}
	// [8,16] x [16,32] of four bytes each: two operations for each of 8*32*16, and (128 + 512 + 256) elements once.
	if k := rows["matmul"]; k.Shaped != 100_000 || k.FLOP != 2*8*32*16 || k.Bytes != 4*(128+512+256) || k.WorkType != "fp32" {
		t.Errorf("matmul did %g FLOP and %g bytes of %q in %d ns", k.FLOP, k.Bytes, k.WorkType, k.Shaped)
	}
	if k := rows["elementwise"]; k.Shaped != 0 || k.FLOP != 0 {
		t.Errorf("kernels of unknown shapes did %g FLOP in %d ns", k.FLOP, k.Shaped)
	}
	if k := rows["copy-cast"]; k.Shaped != 100_000 || k.Bytes != 8*2+8*4 {
		t.Errorf("a copy of 8 elements from 4 to 2 bytes moves %g bytes in %d ns", k.Bytes, k.Shaped)
	}
	if k := rows["conv"]; k.TensorCore != 1 || k.DType != "fp16" || k.SmallGrid != 0 {
		t.Errorf("a gemm under a convolution is conv: %+v", k)
	}
	if k := rows["optimizer"]; k.Count != 2 || k.Short != 2 || k.ShortDur != 10_000 {
		t.Errorf("optimizer %+v", k)
	}
	if len(r.Matmuls) != 1 || r.MatmulNS != 100_000 || r.MatmulShapedNS != 100_000 {
		t.Fatalf("matmuls %+v", r)
	}
	if m := r.Matmuls[0]; m.Op != "aten::addmm" || m.M != 8 || m.N != 32 || m.K != 16 || m.Batch != 1 || m.DType != "fp32" || m.TensorCore != -1 {
		t.Errorf("matmul %+v", m)
	}
	if r.CastNS != 100_000 {
		t.Errorf("casts %d", r.CastNS)
	}
	if r.Chains != 1 || r.ChainKernels != 3 || r.ChainNS != 12_000 {
		t.Errorf("chains %d of %d kernels, %d ns", r.Chains, r.ChainKernels, r.ChainNS)
	}
	if r.OptimizerNS != 12_000 {
		t.Errorf("optimizer %d: two kernels and the gap between", r.OptimizerNS)
	}
	if r.ItemCalls != 1 || r.SyncCalls != 2 || r.SyncNS != 70_000 {
		t.Errorf("items %d syncs %d %d", r.ItemCalls, r.SyncCalls, r.SyncNS)
	}
	if len(g.Copies) != 2 || g.Copies[0].Kind != timeline.DirH2D || g.Copies[0].BigBytes != 2097152 || g.Copies[0].Exposed != 100_000 || g.Copies[1].Memory != timeline.MemPageable {
		t.Errorf("copies %+v", g.Copies)
	}
	if red.HostBusy[0] != 10_000_000-70_000 {
		t.Errorf("host busy %d", red.HostBusy[0])
	}
	if !r.Shapes || !r.Operators || r.StackFrames || r.SyncEvents || r.MainThread != timelinetest.PID {
		t.Errorf("flags %+v", r)
	}
	var sum int64
	for _, c := range g.Copies {
		sum += c.Exposed
	}
	if sum != g.Owners[timeline.CopyH2D]+g.Owners[timeline.CopyD2H] {
		t.Errorf("copies expose %d, the ledger says %d", sum, g.Owners[timeline.CopyH2D]+g.Owners[timeline.CopyD2H])
	}
}

// Repeated trials of convolution algorithms are compilation.
func TestConvTrials(t *testing.T) {
	var b strings.Builder
	b.WriteString("main op 0us..1000us aten::cudnn_convolution\n")
	for i := range 10 {
		fmt.Fprintf(&b, "main api %dus..%dus cudaLaunchKernel link=%d\ngpu0/s7 kernel %dus..%dus sm80_xmma_fprop_implicit_gemm link=%d\n", i*100, i*100+10, i+1, i*100+12, i*100+50, i+1)
	}
	red := reduce(t, b.String())[0]
	if red.Rank.ConvTrials != 10 || red.GPUs[0].Owners[timeline.HostCompile] == 0 || red.GPUs[0].Owners[timeline.HostCPUOp] != 0 {
		t.Errorf("trials %d: %s", red.Rank.ConvTrials, owned(&red.GPUs[0]))
	}
}

func TestNoDevice(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"main op 0us..10us aten::add", "host events only"},
		{"main api 0us..10us cudaLaunchKernel link=1", "runtime calls but no device events"},
	} {
		red := reduce(t, c.text)[0]
		if len(red.GPUs) != 0 || !strings.Contains(strings.Join(red.Notes, " "), c.want) {
			t.Errorf("%q: %v", c.text, red.Notes)
		}
	}
	reds, err := Reduce(&timeline.Timeline{}, tables(t), Options{})
	if err != nil || len(reds) != 1 || len(reds[0].Notes) == 0 {
		t.Errorf("an empty timeline: %v %v", reds, err)
	}
}

// HIP names and categories are treated as CUDA's.
func TestROCm(t *testing.T) {
	red := reduce(t, `
main api 0us..10us hipLaunchKernel link=1
gpu0/s7 kernel 12us..100us Cijk_Alik_Bljk_BBS_BH_MT64x64x64_MI16x16x16 link=1
main api 50us..104us hipDeviceSynchronize
main api 120us..130us hipMemcpyWithStream link=2
gpu0/s7 h2d 122us..128us bytes=100 link=2
main api 140us..150us hipExtModuleLaunchKernel link=3
gpu0/s7 kernel 151us..200us ncclDevKernel_Generic(ncclDevKernelArgsStorage) link=3
`)[0]
	g := &red.GPUs[0]
	if got, want := owned(g), "compute 88µs, host.launch 11µs, host.sync 30µs [refill 26µs], copy.h2d 10µs, comm.undivided 49µs"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(red.Collectives) != 1 || red.Collectives[0].Primitive != "unknown" {
		t.Errorf("a generic kernel hides its primitive: %+v", red.Collectives)
	}
	if g.Kernels[0].Class != "matmul" || g.Kernels[0].TensorCore != 1 || g.Kernels[0].DType != "bf16" {
		t.Errorf("%+v", g.Kernels[0])
	}
}

func TestCollectiveArgs(t *testing.T) {
	red := reduce(t, `
proc a rank=0 world=2
a:main api 0us..10us cudaLaunchKernel link=1
a:gpu0/s7 kernel 12us..100us sgemm link=1
a:main op 13us..30us record_param_comms coll=_allgather_base in=10 out=20 dtype=BFloat16 group=0 size=2 ranks=[0,1] seq=4
a:main api 20us..25us cudaLaunchKernel link=2
a:gpu0/s9 kernel 60us..150us ncclDevKernel_AllGather_RING_LL link=2
a:main anno 30us..40us nccl:all_to_all
a:main api 32us..35us cudaLaunchKernel link=3
a:gpu0/s9 kernel 160us..170us ncclDevKernel_SendRecv link=3
`)[0]
	c := red.Collectives[0]
	if c.Primitive != "all-gather" || c.Bytes != 40 || c.Group != "0" || c.GroupSize != 2 || fmt.Sprint(c.GroupRanks) != "[0 1]" || c.Seq != 4 || c.ExposedNS != 50_000 || c.OnCompute {
		t.Errorf("%+v", c)
	}
	if red.Collectives[1].Primitive != "all-to-all" {
		t.Errorf("the annotation tells all-to-all from send and recv: %+v", red.Collectives[1])
	}
	if g := &red.GPUs[0]; g.Side.HiddenComm != 40_000 {
		t.Errorf("hidden %d", g.Side.HiddenComm)
	}
}

func TestNames(t *testing.T) {
	tab := tables(t)
	for name, want := range map[string]string{
		"ampere_sgemm_128x64_tn": "matmul -1 fp32",
		"ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn":           "matmul 1 fp16",
		"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn":                        "matmul 1 bf16",
		"volta_fp16_s884gemm_fp16_64x64":                                        "matmul 1 fp16",
		"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64>":            "matmul 1 tf32",
		"void cutlass::Kernel<cutlass_80_simt_sgemm_128x64>":                    "matmul -1 fp32",
		"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32":                  "matmul 1 tf32",
		"nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT":                             "matmul 1 fp16",
		"void gemv2T_kernel_val<int, float>":                                    "matmul -1 fp32",
		"void cublasLt::splitKreduce_kernel<32, 16, int, float>":                "matmul 0 fp32",
		"void pytorch_flash::flash_fwd_kernel<cutlass::bfloat16_t>":             "attention 1 bf16",
		"fmha_cutlassF_f16_aligned_64x64_rf_sm80":                               "attention 1 fp16",
		"ampere_scudnn_128x64_relu_medium_nn_v1":                                "conv -1 fp32",
		"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>":                          "norm 0 fp32",
		"void cudnn::ops::nchwToNhwcKernel<float>":                              "copy-cast 0 fp32",
		"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<x>":  "optimizer 0 ",
		"triton_poi_fused_add_gelu_0":                                           "elementwise 0 ",
		"triton_red_fused__softmax_3":                                           "reduce 0 ",
		"triton_per_fused_native_layer_norm_2":                                  "norm 0 ",
		"void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>": "elementwise 0 fp32",
		"void at::native::reduce_kernel<512, 1, float>":                         "reduce 0 fp32",
		"void (anonymous namespace)::ncclKernel_AllReduce_RING_LL_Sum_float()":  "comm all-reduce",
		"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevComm*)":            "comm reduce-scatter",
		"ncclSymkDevKernel_AllGather_ST":                                        "comm all-gather",
		"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>":               "comm all-reduce",
		"deep_ep::intranode::dispatch":                                          "comm all-to-all",
		"ncclKernel_Generic":                                                    "comm unknown",
		"":                                                                      "other 0 ",
		"Kernel":                                                                "other 0 ",
	} {
		k := tab.Kernel(name)
		got := fmt.Sprintf("%s %d %s", k.Class, k.TensorCore, k.DType)
		if k.Comm {
			got = "comm " + k.Primitive
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for word, want := range map[string]evidence{
		"save_checkpoint": evCheckpoint, "saveCheckpoint": evCheckpoint, "model.state_dict()": evCheckpoint, "CKPT": evCheckpoint,
		"validation": evValidation, "run_evaluation": evValidation, "TestEpoch": evValidation, "log_metrics": evLogging, "wandb.log": evLogging,
		"HTTPLogger": evLogging, "logits": evNone, "latest": evNone, "CheckpointFunction": evNone, "dialog": evNone, "forward": evNone,
		"ProfilerStep#1": evNone, "login": evNone, "contest": evNone, "log_softmax": evNone, "save_for_backward": evNone,
	} {
		if got := tab.annoWord(word); got != want {
			t.Errorf("%s: %d, want %d", word, got, want)
		}
	}
	for word, want := range map[string]string{"allreduce": "all-reduce", "_reduce_scatter_base": "reduce-scatter", "_allgather_base": "all-gather",
		"all_to_allv": "all-to-all", "broadcast": "broadcast", "reduce": "reduce", "send": "send-recv", "barrier": "barrier", "": "unknown", "nccl:send 0->1": "send-recv"} {
		if got := tab.Primitive(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

// Hostile files: nesting without end, and collectives that all run at once. The ledger closes, and the work is bounded.
func TestHostile(t *testing.T) {
	var b strings.Builder
	for i := range 600 {
		fmt.Fprintf(&b, "main op %dus..%dus aten::add\n", i, 2000-i)
	}
	b.WriteString("main api 900us..910us cudaLaunchKernel link=1\ngpu0/s7 kernel 0us..100us sgemm link=7\ngpu0/s7 kernel 912us..1000us sgemm link=1\n")
	red := reduce(t, b.String())[0]
	if g := &red.GPUs[0]; g.Owners[timeline.HostLaunch] < 12_000 || g.Owners[timeline.HostPython] != 0 {
		t.Errorf("%s", owned(g))
	}
	b.Reset()
	for i := range 300 {
		fmt.Fprintf(&b, "gpu0/s%d kernel 0us..10000us ncclDevKernel_AllReduce\ngpu0/s7 kernel %dus..%dus sgemm%d\n", 100+i, 30*i, 30*i+10, i)
	}
	red = reduce(t, b.String())[0]
	g := &red.GPUs[0]
	if g.Owners[timeline.Compute] != 3_000_000 || g.Owners[timeline.CommUndivided] != 7_000_000 {
		t.Errorf("%s", owned(g))
	}
	if n := len(red.Exposed); n > 16*600+4096 {
		t.Errorf("%d exposed pieces", n)
	}
	if !strings.Contains(strings.Join(red.Notes, " "), "too many collectives") {
		t.Errorf("%v", red.Notes)
	}
	checkLedger(t, meet(t, red).Ranks[0])
}

// Correlation numbers may be scattered over their whole range.
func TestScatteredLinks(t *testing.T) {
	red := reduce(t, `
main api 0us..5us cudaLaunchKernel link=4000000000
gpu0/s7 kernel 6us..10us sgemm link=4000000000
main api 20us..25us cudaLaunchKernel link=3
gpu0/s7 kernel 26us..30us sgemm link=3
gpu0/s7 kernel 31us..32us sgemm link=77
main op 40us..41us aten::empty
`)[0]
	if g := &red.GPUs[0]; owned(g) != "compute 9µs, gap.switch 1µs, host.launch 6µs, host.python 10µs" || g.Uncorrelated != 1 {
		t.Errorf("%s, %d without launch", owned(g), g.Uncorrelated)
	}
}
