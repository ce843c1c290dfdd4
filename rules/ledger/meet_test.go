package ledger

import (
	"fmt"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/timeline/timelinetest"
)

// rank makes the trace of one rank of a file of its own.
func rank(t testing.TB, path, text string) *timeline.Reduced {
	t.Helper()
	tl := timelinetest.Parse(text)
	tl.Sources[0].Path = path
	reds, err := Reduce(tl, tables(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(reds) != 1 {
		t.Fatalf("%d reductions", len(reds))
	}
	return reds[0]
}

func meet(t testing.TB, reds ...*timeline.Reduced) *Job {
	t.Helper()
	j := Meet(reds, tables(t), Options{})
	for _, r := range j.Ranks {
		checkLedger(t, r)
	}
	return j
}

func waits(j *Job) string {
	var out []string
	for _, w := range j.Waits {
		out = append(out, fmt.Sprintf("%d %s %d %s", w.Culprit, w.Owner, w.DurNS/1000, w.Conf))
	}
	return strings.Join(out, ", ")
}

// late makes a rank that loads for some time, computes, and reduces with the others. Times in us.
func late(r, world, load int, extra string) string {
	c := load + 100
	return fmt.Sprintf(`
proc p rank=%d world=%d host=a backend=nccl
p:main anno 0us..%dus enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
p:main api %dus..%dus cudaLaunchKernel link=1
p:gpu%d/s7 kernel -10us..0us warm link=9
p:gpu%d/s7 kernel %dus..%dus sgemm link=1
p:main api %dus..%dus cudaLaunchKernel link=2
p:gpu%d/s9 kernel %dus..1500us ncclDevKernel_AllReduce_Sum_f32_RING_LL link=2 coll=allreduce n=1000 dtype=Float group=0 size=%d ranks=%s seq=1
%s`, r, world, load, load, load+5, r, r, load+5, c, load+6, load+10, r, c+1, world, ranksText(world), extra)
}

func ranksText(n int) string {
	var s []string
	for i := range n {
		s = append(s, fmt.Sprint(i))
	}
	return "[" + strings.Join(s, ",") + "]"
}

func TestMeetTwoRanks(t *testing.T) {
	reds := []*timeline.Reduced{rank(t, "rank1.json", late(1, 2, 1000, "")), rank(t, "rank0.json", late(0, 2, 200, ""))}
	j := meet(t, reds...)
	if len(j.Ranks) != 2 || j.Ranks[0].Process.Rank != 0 || len(j.Missing) != 0 || j.World != 2 || j.GPUs[1].ID != "gpu1" {
		t.Fatalf("%+v", j)
	}
	a, b := &j.Ranks[0].GPUs[0], &j.Ranks[1].GPUs[0]
	// Rank 0 arrives at 301 us, rank 1 at 1101 us, both end at 1500 us.
	if a.Owners[timeline.CommPeerWait] != 800_000 || a.Owners[timeline.CommTransfer] != 399_000 || a.Owners[timeline.CommUndivided] != 0 {
		t.Errorf("rank 0: %s", owned(a))
	}
	if b.Owners[timeline.CommPeerWait] != 0 || b.Owners[timeline.CommTransfer] != 399_000 {
		t.Errorf("rank 1: %s", owned(b))
	}
	// Over [301, 1101) rank 1 was loading until 1000 and computing then; but both computed as long, and rank 1 loaded 800 us longer.
	if got, want := waits(j), "1 host.dataloader 800 measured"; got != want {
		t.Errorf("waits %s\nwant  %s", got, want)
	}
	if len(j.Culprits) != 2 || j.Culprits[0] != (Culprit{Rank: 1, Last: 1, Of: 1, WaitNS: 800_000}) {
		t.Errorf("%+v", j.Culprits)
	}
	c := &j.Ranks[0].Collectives[0]
	if c.Split != timeline.Measured || c.PeerWaitNS != 800_000 || c.TransferNS != 399_000 || c.ExposedWaitNS != 800_000 || c.Culprit != 1 || c.Latest != 1_101_000 {
		t.Errorf("%+v", c)
	}
	// Meeting again changes nothing.
	first := owned(a) + waits(j)
	k := meet(t, reds...)
	if again := owned(&k.Ranks[0].GPUs[0]) + waits(k); again != first {
		t.Errorf("again %s\nfirst %s", again, first)
	}
}

func TestMeetMissingRank(t *testing.T) {
	j := meet(t, rank(t, "rank0.json", late(0, 3, 200, "")), rank(t, "rank1.json", late(1, 3, 1000, "")))
	if fmt.Sprint(j.Missing) != "[2]" {
		t.Errorf("missing %v", j.Missing)
	}
	// Rank 1 came 800 us after rank 0: the wait was no shorter, the transfer no longer than what is left. Rank 2 may have come later still.
	if g := &j.Ranks[0].GPUs[0]; g.Owners[timeline.CommPeerWait] != 800_000 || g.Owners[timeline.CommTransfer] != 399_000 {
		t.Errorf("with a member absent the latest of the others is a bound: %s", owned(g))
	}
	if c := &j.Ranks[0].Collectives[0]; c.Split != timeline.Inferred || c.Culprit != -1 || c.Latest != 1_101_000 {
		t.Errorf("%+v", c)
	}
	if got, want := waits(j), "-1 unknown 800 inferred"; got != want {
		t.Errorf("waits %s, want %s", got, want)
	}
	if len(j.Problems) == 0 || j.Problems[0].Code != "run/missing-ranks" || len(j.Culprits) != 0 {
		t.Errorf("%+v", j.Problems)
	}
}

// Hidden communication is nobody's time: only exposed waiting is charged.
func TestMeetExposedOnly(t *testing.T) {
	hide := "p:main api 310us..312us cudaLaunchKernel link=5\np:gpu0/s7 kernel 400us..700us sgemm link=5"
	j := meet(t, rank(t, "rank0.json", late(0, 2, 200, hide)), rank(t, "rank1.json", late(1, 2, 1000, "")))
	g := &j.Ranks[0].GPUs[0]
	c := &j.Ranks[0].Collectives[0]
	if g.Owners[timeline.CommPeerWait] != 500_000 || c.PeerWaitNS != 800_000 || c.ExposedWaitNS != 500_000 || c.ExposedTransferNS != 399_000 || g.Side.HiddenComm != 300_000 {
		t.Errorf("%s %+v", owned(g), c)
	}
	var sum int64
	for _, w := range j.Waits {
		sum += w.DurNS
	}
	if sum != 500_000 {
		t.Errorf("waits sum to %d", sum)
	}
}

// The late rank itself waited for a third one in another group: the blame goes on to that one.
func TestMeetRecursion(t *testing.T) {
	mk := func(r, load, first, second int) string {
		// Group 1 is {1,2}, group 0 is {0,1}.
		var b strings.Builder
		fmt.Fprintf(&b, "proc p rank=%d world=3 host=a\np:gpu0/s7 kernel -10us..0us warm link=9\n", r)
		fmt.Fprintf(&b, "p:main anno 0us..%dus load_checkpoint\np:main api %dus..%dus cudaLaunchKernel link=1\n", load, load, load+2)
		if first > 0 {
			fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..1010us ncclKernel_AllReduce link=1 coll=allreduce n=10 dtype=Float group=1 size=2 ranks=[1,2] seq=1\n", first)
		}
		if second > 0 {
			fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=2\n", load+3, load+4)
			fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..1100us ncclKernel_AllReduce link=2 coll=allreduce n=10 dtype=Float group=0 size=2 ranks=[0,1] seq=1\n", second)
		}
		return b.String()
	}
	j := meet(t, rank(t, "rank0.json", mk(0, 98, 0, 100)), rank(t, "rank1.json", mk(1, 48, 50, 1012)), rank(t, "rank2.json", mk(2, 998, 1000, 0)))
	// Rank 1 waits 950 us for rank 2, which loaded a checkpoint 950 us longer. Rank 0 waits for rank 1 over [100, 1012), 912 us: since both
	// began, rank 1 has 950 us of waiting for rank 2, 10 us of transfer and 2 us of gaps more than rank 0, which share those 912 us.
	var direct int64
	for _, w := range j.Waits {
		if w.Culprit == 2 && w.Owner == timeline.HostCheckpoint {
			direct += w.DurNS
		}
		if w.Owner == timeline.CommPeerWait {
			t.Errorf("not followed: %+v", w)
		}
	}
	if want := int64(950_000 + 912_000*950/962); direct/1000 != want/1000 {
		t.Errorf("blamed on rank 2's checkpoint: %d, want %d\n%s", direct, want, waits(j))
	}
}

// Without sequence numbers instances go by order; a rank whose recording misses the first one is aligned by the time they share.
func TestMeetByOrder(t *testing.T) {
	mk := func(r int, starts, ends []int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "proc p rank=%d world=2 host=a\n", r)
		for i := range starts {
			fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", starts[i]-5, starts[i]-2, i+1)
			fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..%dus ncclKernel_AllReduce link=%d coll=allreduce n=%d dtype=Float group=0 size=2 ranks=[0,1]\n", starts[i], ends[i], i+1, 100)
		}
		return b.String()
	}
	j := meet(t, rank(t, "rank0.json", mk(0, []int{100, 300, 500}, []int{200, 400, 600})), rank(t, "rank1.json", mk(1, []int{350, 510}, []int{400, 600})))
	c := j.Ranks[0].Collectives
	if c[0].Split != timeline.NoConfidence || c[1].PeerWaitNS != 50_000 || c[2].PeerWaitNS != 10_000 || c[1].Culprit != 1 {
		t.Errorf("%+v", c)
	}
	if d := j.Ranks[1].Collectives; d[0].PeerWaitNS != 0 || d[1].TransferNS != 90_000 {
		t.Errorf("%+v", d)
	}
}

// One rank alone: what takes longer than the quick ones of its size waited, charged at the start; too few instances stay undivided.
func TestInferred(t *testing.T) {
	mk := func(durs []int, n func(i int) int) string {
		var b strings.Builder
		b.WriteString("proc p rank=0 world=8 host=a\n")
		at := 10
		for i, d := range durs {
			fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", at-5, at-2, i+1)
			fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..%dus ncclKernel_AllReduce link=%d coll=allreduce n=%d dtype=Float group=0 size=8\n", at, at+d, i+1, n(i))
			at += d + 20
		}
		return b.String()
	}
	same := func(int) int { return 1000 }
	j := meet(t, rank(t, "rank0.json", mk([]int{100, 100, 250, 100, 400}, same)))
	c := j.Ranks[0].Collectives
	if c[2].PeerWaitNS != 150_000 || c[2].TransferNS != 100_000 || c[2].Split != timeline.Inferred || c[2].Culprit != -1 || c[0].PeerWaitNS != 0 {
		t.Errorf("%+v", c[2])
	}
	g := &j.Ranks[0].GPUs[0]
	if g.Owners[timeline.CommPeerWait] != 450_000 || g.Owners[timeline.CommTransfer] != 500_000 {
		t.Errorf("%s", owned(g))
	}
	if waits(j) != "-1 unknown 450 inferred" || len(j.Culprits) != 0 {
		t.Errorf("%s", waits(j))
	}
	// A bucket that is late in every step is bounded by what larger messages take.
	j = meet(t, rank(t, "rank0.json", mk([]int{900, 100, 900, 100, 900, 100}, func(i int) int { return 1000 + i%2*1000 })))
	if c := j.Ranks[0].Collectives[0]; c.TransferNS != 125_000 || c.PeerWaitNS != 775_000 {
		t.Errorf("%+v", c)
	}
	// Nor may it move slower than smaller messages, a quarter allowed.
	j = meet(t, rank(t, "rank0.json", mk([]int{900, 100, 900, 100, 900, 100}, func(i int) int { return 2000 - i%2*1000 })))
	if c := j.Ranks[0].Collectives[0]; c.TransferNS != 250_000 {
		t.Errorf("%+v", c)
	}
	j = meet(t, rank(t, "rank0.json", mk([]int{100, 100, 100, 400}, same)))
	if g := &j.Ranks[0].GPUs[0]; g.Owners[timeline.CommUndivided] != 700_000 {
		t.Errorf("four instances are too few: %s", owned(g))
	}
}

// Where sizes are not recorded, a kernel's grid and its place in the step tell sizes apart: a long message is no late one.
func TestInferredWithoutBytes(t *testing.T) {
	mk := func(marks bool, steps int, durs func(step int) []int, grids ...int) *timeline.Reduced {
		var b strings.Builder
		b.WriteString("proc p rank=0 world=8 host=a\n")
		at, link := 10, 0
		for s := range steps {
			from := at
			for i, d := range durs(s) {
				link++
				fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", at-5, at-2, link)
				fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..%dus ncclKernel_AllReduce_RING_LL_Sum_float link=%d grid=%d,1,1\n", at, at+d, link, grids[i])
				at += d + 20
			}
			if marks {
				fmt.Fprintf(&b, "p:main anno %dus..%dus ProfilerStep#%d\n", from-6, at-7, s)
			}
		}
		return rank(t, "rank0.json", b.String())
	}
	total := func(j *Job) (wait, move, undivided int64) {
		o := &j.Ranks[0].GPUs[0].Owners
		return o[timeline.CommPeerWait] / 1000, o[timeline.CommTransfer] / 1000, o[timeline.CommUndivided] / 1000
	}
	// A small one of grid 7 and two large ones of grid 24 a step, all as quick as they can be but one.
	three := func(s int) []int {
		if s == 3 {
			return []int{20, 900, 300}
		}
		return []int{20, 500, 300}
	}
	j := meet(t, mk(true, 6, three, 7, 24, 24))
	if w, m, u := total(j); w != 400 || m != 5*820 || u != 0 {
		t.Errorf("waits %d, transfers %d, undivided %d", w, m, u)
	}
	// Without steps nothing tells the two sizes of grid 24 apart; grid 7 is one size.
	j = meet(t, mk(false, 6, func(s int) []int { return []int{20, 500, 300}[:3-s%4/3] }, 7, 24, 24))
	if w, m, u := total(j); j.Ranks[0].Steps.How != "none" || w != 0 || m != 6*20 || u != 5*800+500 {
		t.Errorf("no steps: waits %d, transfers %d, undivided %d", w, m, u)
	}
	// Nor do steps with different numbers of them.
	j = meet(t, mk(true, 7, func(s int) []int { return []int{20, 500, 300}[:3-s%2] }, 7, 24, 24))
	if w, m, u := total(j); w != 0 || u == 0 || m != 6*20 {
		t.Errorf("uneven steps: waits %d, transfers %d, undivided %d", w, m, u)
	}
}

// Clocks of different hosts are not compared, and of one host only where the ends agree.
func TestClocks(t *testing.T) {
	b := strings.Replace(late(1, 2, 1000, ""), "host=a", "host=b", 1)
	j := meet(t, rank(t, "rank0.json", late(0, 2, 200, "")), rank(t, "rank1.json", b))
	if g := &j.Ranks[0].GPUs[0]; g.Owners[timeline.CommUndivided] != 1_199_000 {
		t.Errorf("%s", owned(g))
	}
	if p := j.Problems[len(j.Problems)-1]; p.Code != "run/clocks-differ" || p.Count != 1 {
		t.Errorf("%+v", j.Problems)
	}
	shifted := rank(t, "rank1.json", late(1, 2, 1000, ""))
	for i := range shifted.Collectives {
		shifted.Collectives[i].Start += 150_000
		shifted.Collectives[i].End += 150_000
	}
	j = Meet([]*timeline.Reduced{rank(t, "rank0.json", late(0, 2, 200, "")), shifted}, tables(t), Options{})
	if c := j.Ranks[0].Collectives[0]; c.Split != timeline.NoConfidence {
		t.Errorf("ends lie 150 us apart: %+v", c)
	}
}

func TestRuns(t *testing.T) {
	at := func(text string, by timeline.Time, path string) *timeline.Reduced {
		tl := timelinetest.Parse(text)
		tl.Sources[0].Path = path
		for i := range tl.Spans.Start {
			tl.Spans.Start[i] += by
			tl.Spans.End[i] += by
		}
		reds, err := Reduce(tl, tables(t), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return reds[0]
	}
	single := "proc p rank=0 world=1 pid=7\np:main api 0us..5us cudaLaunchKernel link=1\np:gpu0/s7 kernel 6us..9us sgemm link=1\n"
	j := meet(t,
		at(single, 0, "b/single.json"),
		at(late(0, 2, 200, ""), 0, "b/rank0.json"), at(late(1, 2, 1000, ""), 0, "b/rank1.json"),
		at(late(0, 2, 200, ""), 1e12, "c/rank0.json"),
		at(late(0, 2, 200, ""), 0, "d/copy.json"))
	var paths []string
	for _, r := range j.Ranks {
		paths = append(paths, r.Path)
	}
	if fmt.Sprint(paths) != "[b/rank0.json b/rank1.json]" || fmt.Sprint(j.Ignored) != "[b/single.json c/rank0.json d/copy.json]" {
		t.Errorf("%v, ignored %v", paths, j.Ignored)
	}
	codes := map[string]int{}
	for _, p := range j.Problems {
		codes[p.Code]++
	}
	if codes["run/other-run"] != 2 || codes["run/duplicate-rank"] != 1 {
		t.Errorf("%v", codes)
	}
	// Two single-GPU recordings in one folder are two runs, whatever their names; the one with more steps wins.
	j = meet(t, at(single, 0, "w0.json"), at(threeSteps, 5e9, "w1.json"))
	if len(j.Ranks) != 1 || j.Ranks[0].Path != "w1.json" {
		t.Errorf("%+v", j.Ignored)
	}
	if j := Meet(nil, tables(t), Options{}); j == nil || len(j.Ranks) != 0 {
		t.Error("no traces")
	}
}

// A pipeline's receiver waits for its sender.
func TestSendRecv(t *testing.T) {
	mk := func(r, start int, src, dst int) string {
		return fmt.Sprintf("proc p rank=%d world=2 host=a\np:main api 0us..5us cudaLaunchKernel link=1\np:gpu0/s9 kernel %dus..500us ncclDevKernel_SendRecv link=1 coll=%s n=10 dtype=Float group=0 size=2 ranks=[0,1] src=%d dst=%d\n",
			r, start, map[bool]string{true: "send", false: "recv"}[dst >= 0], src, dst)
	}
	j := meet(t, rank(t, "rank0.json", mk(0, 300, -1, 1)), rank(t, "rank1.json", mk(1, 10, 0, -1)))
	g := &j.Ranks[1].GPUs[0]
	if got := owned(g); !strings.Contains(got, "comm.peer-wait 290µs [bubble 290µs]") {
		t.Errorf("%s", got)
	}
}

// Two buckets: rank 0 waits for the first, and its second is queued behind it. Rank 1, late by its loader, computes while rank 0 waits for the
// second bucket: its loader is to blame for both waits.
func TestMeetQueuedBucket(t *testing.T) {
	mk := func(r, load int) string {
		var b strings.Builder
		at := load + 2
		fmt.Fprintf(&b, "proc p rank=%d world=2 host=a\np:gpu0/s7 kernel -10us..0us warm link=9\n", r)
		fmt.Fprintf(&b, "p:main anno 0us..%dus enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n", load)
		for i := range 4 { // four kernels of 100 us; a bucket after the second and the fourth
			fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", load+i/2, load+i/2+1, i+1)
			fmt.Fprintf(&b, "p:gpu0/s7 kernel %dus..%dus gemm link=%d\n", at+100*i, at+100*(i+1), i+1)
		}
		first, second := at+200, at+400
		if load < 500 { // rank 0: its second bucket begins when the first has ended, on both, at 802+50
			second = 852
		}
		for i, s := range []int{first, second} {
			end := []int{852, 1052}[i]
			fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", load+5+i, load+6+i, 20+i)
			fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..%dus ncclKernel_AllReduce link=%d coll=allreduce n=10 dtype=Float group=0 size=2 ranks=[0,1] seq=%d\n", s, end, 20+i, i+1)
		}
		return b.String()
	}
	j := meet(t, rank(t, "rank0.json", mk(0, 10)), rank(t, "rank1.json", mk(1, 600)))
	// Rank 0 waits from 412, when its kernels end, to 802 for the first bucket, and from 852 to 1002 for the second.
	if got, want := waits(j), "1 host.dataloader 540 measured"; got != want {
		t.Errorf("waits %s\nwant  %s", got, want)
	}
}

// The late rank's window begins after the others have waited for a while: what held it before is not known, whatever it does later, and the
// others' time before is not held against it.
func TestMeetLateWindow(t *testing.T) {
	mk := func(r, begin, load int) string {
		c := begin + load + 100
		return fmt.Sprintf(`
proc p rank=%d world=2 host=a
p:main anno %dus..3000us ProfilerStep#1
p:main op %dus..%dus aten::empty
p:main anno %dus..%dus enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
p:main api %dus..%dus cudaLaunchKernel link=1
p:gpu0/s7 kernel %dus..%dus sgemm link=1
p:main api %dus..%dus cudaLaunchKernel link=2
p:gpu0/s9 kernel %dus..2000us ncclDevKernel_AllReduce_Sum_f32_RING_LL link=2 coll=allreduce n=1000 dtype=Float group=0 size=2 ranks=[0,1] seq=1
`, r, begin, begin, begin+1, begin, begin+load, begin+load, begin+load+5, begin+load+5, c, begin+load+6, begin+load+10, c+1)
	}
	// Rank 0 loads 10 us from 0 on and waits from 111; rank 1's step begins at 1000 and loads 60 us: it comes at 1161.
	j := meet(t, rank(t, "rank0.json", mk(0, 0, 10)), rank(t, "rank1.json", mk(1, 1000, 60)))
	var sum, unseen int64
	for _, w := range j.Waits {
		sum += w.DurNS
		if w.Owner == timeline.UnknownOwner && w.Culprit == 1 {
			unseen += w.DurNS
		}
		if w.Owner == timeline.HostDataloader && w.DurNS > 161_000 {
			t.Errorf("the loader is charged for more than the late rank's window shows: %s", waits(j))
		}
	}
	if sum != 1_050_000 || unseen != 889_000 {
		t.Errorf("waits %s: sum %d, before the late rank's window %d", waits(j), sum, unseen)
	}
}
