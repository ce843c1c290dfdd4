package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// Four ranks of one host, two collectives, every number by hand. All times in us:
//
//	rank  loads    computes   all-reduce 1      gemm 2       all-reduce 2
//	0     0-100    105-305    306-1200          1201-1401    1402-2000
//	1     0-400    405-605    606-1200          1201-1401    1402-2000
//	2     0-700    705-905    906-1200          1201-1501    1502-2000
//	3     0-200    205-405    406-1200          1201-1301    1302-2000
//
// All-reduce 1: rank 2 comes last, at 906: the others wait 600, 300 and 500, and all move for 294. All-reduce 2: rank 2 again, at 1502: the others
// wait 100, 100 and 200, and all move for 498.
func TestFourRanksByHand(t *testing.T) {
	load := []int{100, 400, 700, 200}
	second := []int{200, 200, 300, 100}
	var reds []*timeline.Reduced
	for r := range 4 {
		var b strings.Builder
		l, s := load[r], 1201+second[r]
		fmt.Fprintf(&b, "proc p rank=%d world=4 host=a\np:gpu0/s7 kernel -10us..0us warm link=9\n", r)
		fmt.Fprintf(&b, "p:main anno 0us..%dus enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n", l)
		fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=1\np:gpu0/s7 kernel %dus..%dus sgemm link=1\n", l, l+5, l+5, l+205)
		fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=2\n", l+6, l+8)
		fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..1200us ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem) link=2 coll=allreduce n=1000 dtype=Float group=0 size=4 ranks=[0,1,2,3] seq=1\n", l+206)
		fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=3\np:gpu0/s7 kernel 1201us..%dus sgemm link=3\n", l+9, l+10, s)
		fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=4\n", l+11, l+12)
		fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..2000us ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem) link=4 coll=allreduce n=1000 dtype=Float group=0 size=4 ranks=[0,1,2,3] seq=2\n", s+1)
		reds = append(reds, rank(t, fmt.Sprintf("rank%d.json", r), b.String()))
	}
	j := meet(t, reds[3], reds[1], reds[0], reds[2])
	wantWait := [4][2]int64{{600_000, 100_000}, {300_000, 100_000}, {0, 0}, {500_000, 200_000}}
	move := [2]int64{294_000, 498_000}
	latest := [2]timeline.Time{906_000, 1_502_000}
	for r, red := range j.Ranks {
		if red.Process.Rank != r {
			t.Fatalf("rank %d at %d", red.Process.Rank, r)
		}
		for i := range red.Collectives {
			c := &red.Collectives[i]
			if c.PeerWaitNS != wantWait[r][i] || c.TransferNS != move[i] || c.ExposedWaitNS != wantWait[r][i] || c.ExposedTransferNS != move[i] ||
				c.Culprit != 2 || c.Latest != latest[i] || c.Split != timeline.Measured {
				t.Errorf("rank %d, all-reduce %d: %+v", r, i+1, c)
			}
		}
		g := &red.GPUs[0]
		if g.Owners[timeline.CommPeerWait] != wantWait[r][0]+wantWait[r][1] || g.Owners[timeline.CommTransfer] != move[0]+move[1] || g.Owners[timeline.CommUndivided] != 0 {
			t.Errorf("rank %d: %s", r, owned(g))
		}
	}
	// 1800 us were waited. Of the first 1400 rank 2's loader holds all: it computed as long as the others. Of the second, 100 and 100 and 200,
	// its longer gemm holds all.
	if got, want := waits(j), "2 host.dataloader 1400 measured, 2 compute 400 measured"; got != want {
		t.Errorf("waits %s\nwant  %s", got, want)
	}
	if want := (Culprit{Rank: 2, Last: 2, Of: 2, WaitNS: 1_800_000}); j.Culprits[0] != want {
		t.Errorf("%+v", j.Culprits)
	}
	if g := j.Groups; len(g) != 1 || g[0].Kind != WorldGroup || g[0].Matched != 2 || g[0].Unmatched != 0 || g[0].How != "seq" || fmt.Sprint(g[0].Here) != "[0 1 2 3]" || g[0].Hosts != 1 || g[0].Why != "" {
		t.Errorf("%+v", g)
	}
}

// grid is eight ranks: tensor groups {0,1} {2,3} {4,5} {6,7}, data groups {0,2} {1,3} {4,6} {5,7}, pipeline stages {0,1,2,3} and {4,5,6,7}. In each
// step the first stage works, reduces over tensors, sends to the second stage; that one works, reduces over tensors; then the data groups reduce.
// Rank 1's loader is slow: rank 0 waits for it over tensors, ranks 4 and 5 wait for ranks 0 and 1 over the pipeline, 2 and 3 wait for 0 and 1 over
// data.
func grid(t *testing.T, steps int, slow int64) []*timeline.Reduced {
	text := make([]strings.Builder, 8)
	link := make([]int, 8)
	busy := make([]int64, 8) // until when
	for r := range text {
		fmt.Fprintf(&text[r], "proc p rank=%d world=8 host=a\n", r)
	}
	work := func(r int, ns int64) {
		link[r]++
		fmt.Fprintf(&text[r], "p:main api %dns..%dns cudaLaunchKernel link=%d\n", busy[r], busy[r]+4000, link[r])
		fmt.Fprintf(&text[r], "p:gpu0/s7 kernel %dns..%dns sgemm link=%d\n", busy[r]+5000, busy[r]+ns, link[r])
		busy[r] += ns
	}
	coll := func(name, args string, move int64, ranks ...int) {
		last := int64(0)
		for _, r := range ranks {
			last = max(last, busy[r])
		}
		for _, r := range ranks {
			link[r]++
			fmt.Fprintf(&text[r], "p:main api %dns..%dns cudaLaunchKernel link=%d\n", busy[r]-3000, busy[r]-1000, link[r])
			a := strings.ReplaceAll(args, "SELF", fmt.Sprint(r))
			if strings.HasPrefix(name, "p2p") {
				if r == ranks[0] {
					a += fmt.Sprintf(" coll=send src=-1 dst=%d", ranks[1])
				} else {
					a += fmt.Sprintf(" coll=recv src=%d dst=-1", ranks[0])
				}
			}
			fmt.Fprintf(&text[r], "p:gpu0/s9 kernel %dns..%dns ncclDevKernel_%s link=%d n=100 dtype=Float %s\n", busy[r], last+move, name, link[r], a)
			busy[r] = last + move + 10_000
		}
	}
	for s := range steps {
		from := make([]int64, 8)
		for r := range 8 {
			from[r] = busy[r]
			load := int64(100_000)
			if r == 1 {
				load += slow
			}
			fmt.Fprintf(&text[r], "p:main anno %dns..%dns enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n", busy[r], busy[r]+load)
			busy[r] += load
			if r < 4 {
				work(r, 1_000_000)
			}
		}
		for r := 0; r < 4; r += 2 {
			coll("AllReduce_Sum", fmt.Sprintf("coll=allreduce group=%d desc=TENSOR_MODEL_PARALLEL_GROUP size=2 ranks=[%d,%d] seq=%d", 10+r, r, r+1, s), 100_000, r, r+1)
		}
		for r := range 4 {
			coll("p2p_SendRecv", fmt.Sprintf("group=%d desc=PIPELINE_MODEL_PARALLEL_GROUP size=2 ranks=[%d,%d] seq=%d", 30+r, r, r+4, s), 50_000, r, r+4)
		}
		for r := 4; r < 8; r++ {
			work(r, 1_000_000)
		}
		for r := 4; r < 8; r += 2 {
			coll("AllReduce_Sum", fmt.Sprintf("coll=allreduce group=%d desc=TENSOR_MODEL_PARALLEL_GROUP size=2 ranks=[%d,%d] seq=%d", 10+r, r, r+1, s), 100_000, r, r+1)
		}
		for _, r := range []int{0, 1, 4, 5} {
			coll("AllReduce_Sum", fmt.Sprintf("coll=allreduce group=%d desc=DATA_PARALLEL_GROUP size=2 ranks=[%d,%d] seq=%d", 20+r, r, r+2, s), 200_000, r, r+2)
		}
		for r := range 8 {
			fmt.Fprintf(&text[r], "p:main anno %dns..%dns ProfilerStep#%d\n", from[r], busy[r]-1, s)
		}
		// Everyone begins the next step together.
		last := int64(0)
		for r := range 8 {
			last = max(last, busy[r])
		}
		for r := range 8 {
			busy[r] = last + 50_000
		}
	}
	var reds []*timeline.Reduced
	for r := range text {
		reds = append(reds, rank(t, fmt.Sprintf("rank%d.json", r), text[r].String()))
	}
	return reds
}

func TestTensorDataPipeline(t *testing.T) {
	const steps = 8
	j := meet(t, grid(t, steps, 2_000_000)...)
	kinds := map[GroupKind]int{}
	for i := range j.Groups {
		g := &j.Groups[i]
		kinds[g.Kind]++
		if g.Matched != steps || g.Unmatched != 0 || len(g.Here) != 2 || g.Why != "" {
			t.Errorf("%+v", g)
		}
	}
	if len(j.Groups) != 12 || kinds[TensorGroup] != 4 || kinds[DataGroup] != 4 || kinds[PipelineGroup] != 4 {
		t.Errorf("%v", kinds)
	}
	// Rank 1's loader is to blame for what was waited more than without, through up to three groups; a part of each wait is owned by the idle end of
	// the first stage's steps, which nothing explains.
	waited := func(j *Job) (sum, blamed int64) {
		for _, w := range j.Waits {
			sum += w.DurNS
			if w.Culprit == 1 && w.Owner == timeline.HostDataloader {
				blamed += w.DurNS
			}
		}
		return
	}
	k := meet(t, grid(t, steps, 0)...)
	sum, blamed := waited(j)
	even, none := waited(k)
	if sum-even < 4*(steps-1)*1_900_000 || blamed < (sum-even)*17/20 || none > 100_000 {
		t.Errorf("%d of %d blamed on rank 1's loader, evenly %d of %d\n%s\n%s", blamed, sum, none, even, waits(j), waits(k))
	}
	if len(j.Chains) == 0 || len(j.Chains) > 6 {
		t.Fatalf("%d chains", len(j.Chains))
	}
	for _, c := range j.Chains {
		last := c.Links[len(c.Links)-1]
		if j.Ranks[last.Culprit].Process.Rank != 1 || last.Owner != timeline.HostDataloader || last.OwnerNS <= 0 || last.OwnerNS > int64(last.At.Dur()) {
			t.Errorf("step %d: %+v", c.Step, c.Links)
		}
		for i, l := range c.Links {
			if i > 0 && c.Links[i-1].Culprit != l.Waiter || l.At.Empty() || l.Group < 0 {
				t.Errorf("step %d link %d: %+v", c.Step, i, c.Links)
			}
		}
	}
}

// A member is missing: the latest of those who are here bounds the wait, its size says the rest, and who is named did not wait itself.
func TestPartlyPresentGroup(t *testing.T) {
	// Three ranks, of which rank 2's trace is missing. An all-reduce takes 100 us once all came. Times in us after the step's begin:
	//	step  0    1    2    3    4    5    6    7
	//	r0    0    0    0    0    0    0    0    0
	//	r1    50   50   50   50   50   400  50   0
	//	r2    0    0    0    0    0    0    900  0
	r1 := []int64{50, 50, 50, 50, 50, 400, 50, 0}
	r2 := []int64{0, 0, 0, 0, 0, 0, 900, 0}
	mk := func(r int, come []int64) *timeline.Reduced {
		var b strings.Builder
		fmt.Fprintf(&b, "proc p rank=%d world=3 host=a\n", r)
		for s := range r1 {
			at := int64(10_000 * (s + 1))
			end := at + max(0, r1[s], r2[s]) + 100
			fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", at-20, at-15, s+1)
			fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..%dus ncclKernel_AllReduce link=%d coll=allreduce n=1000 dtype=Float group=0 size=3 ranks=[0,1,2] seq=%d\n", at+come[s], end, s+1, s)
		}
		return rank(t, fmt.Sprintf("rank%d.json", r), b.String())
	}
	j := meet(t, mk(0, make([]int64, len(r1))), mk(1, r1))
	for s := range r1 {
		a, b := &j.Ranks[0].Collectives[s], &j.Ranks[1].Collectives[s]
		last := max(0, r1[s], r2[s])
		if a.Split != timeline.Inferred || a.PeerWaitNS != 1000*last || a.TransferNS != 100_000 || b.PeerWaitNS != 1000*(last-r1[s]) {
			t.Errorf("step %d: rank 0 waits %d and moves %d, rank 1 waits %d; want %d and 100, %d", s, a.PeerWaitNS/1000, a.TransferNS/1000, b.PeerWaitNS/1000, last, last-r1[s])
		}
		want := 1
		switch s {
		case 6: // rank 2 was the last, and its trace is not here
			want = -1
		case 7: // all came together: a tie is the lower rank's
			want = 0
		}
		if a.Culprit != want || b.Culprit != want {
			t.Errorf("step %d: culprits %d and %d, want %d", s, a.Culprit, b.Culprit, want)
		}
	}
	// The first of the repeating steps is not analysed: its wait is not exposed in the window.
	if len(j.Culprits) != 2 || j.Culprits[0].Rank != 1 || j.Culprits[0].Last != 5 || j.Culprits[0].WaitNS != 600_000 {
		t.Errorf("%+v", j.Culprits)
	}
	for _, w := range j.Waits {
		if w.Conf != timeline.Inferred {
			t.Errorf("%+v", w)
		}
	}
	// Where nothing says how large the group is, nothing is divided.
	blank := mk(0, make([]int64, len(r1)))
	other := mk(1, r1)
	for _, r := range []*timeline.Reduced{blank, other} {
		r.Process.WorldSize = 0
		for i := range r.Collectives {
			c := &r.Collectives[i]
			c.Group, c.GroupRanks, c.GroupSize, c.Seq, c.Bytes = "", nil, 0, -1, -1
		}
	}
	j = meet(t, blank, other)
	if len(j.Ranks) == 2 {
		if c := &j.Ranks[0].Collectives[0]; c.Split == timeline.Measured {
			t.Errorf("%+v", c)
		}
	}
}

// large is many ranks with as many collectives a step, in tensor groups of eight and data groups across, made without a trace.
func large(ranks, steps, per int) []*timeline.Reduced {
	const step, tensor = 100_000_000, 8
	groups := map[string][]int{}
	for r := range ranks {
		a, b := fmt.Sprint("tp", r/tensor), fmt.Sprint("dp", r%tensor)
		groups[a], groups[b] = append(groups[a], r), append(groups[b], r)
	}
	var reds []*timeline.Reduced
	for r := range ranks {
		red := &timeline.Reduced{Path: fmt.Sprintf("rank%d.json", r), Process: timeline.Process{Rank: r, WorldSize: ranks, Host: fmt.Sprintf("h%03d", r/8), Meta: map[string]string{}}}
		g := timeline.GPULedger{Window: timeline.Interval{Start: 0, End: timeline.Time(steps * step)}}
		red.Steps.How = "ProfilerStep"
		at := timeline.Time(0)
		seg := func(to timeline.Time, o timeline.Owner) {
			if to > at {
				g.Segments.Add(timeline.Segment{Start: at, Dur: int64(to - at), Owner: o})
				at = to
			}
		}
		for s := range steps {
			red.Steps.Index = append(red.Steps.Index, int64(s))
			g.Steps = append(g.Steps, timeline.StepRow{Start: timeline.Time(s * step), Dur: step})
			for i := range per {
				slot := timeline.Time(s*step + i*step/per)
				late := timeline.Time((r*7919 + s*104729 + i*1299709) % 100_000)
				if r == 77 {
					late += 200_000
				}
				end := slot + 500_000
				c := timeline.Collective{Start: slot + 100_000 + late, End: end, Name: "nccl", Primitive: "all-reduce", Bytes: 4096, Seq: int64(s*per + i), Peer: -1, Culprit: -1, Step: int32(s)}
				if i%2 == 0 {
					c.Group, c.GroupRanks = fmt.Sprint("tp", r/tensor), groups[fmt.Sprint("tp", r/tensor)]
				} else {
					c.Group, c.GroupRanks = fmt.Sprint("dp", r%tensor), groups[fmt.Sprint("dp", r%tensor)]
				}
				c.GroupSize = len(c.GroupRanks)
				seg(c.Start, timeline.Compute)
				seg(end, timeline.CommUndivided)
				c.Exposed0, c.ExposedN, c.ExposedNS = int32(len(red.Exposed)), 1, int64(end-c.Start)
				red.Exposed = append(red.Exposed, timeline.Interval{Start: c.Start, End: end})
				red.Collectives = append(red.Collectives, c)
			}
			seg(timeline.Time((s+1)*step), timeline.Compute)
		}
		account(&g)
		red.GPUs = []timeline.GPULedger{g}
		red.Recorded = g.Window
		reds = append(reds, red)
	}
	return reds
}

// The meeting of many ranks is not quadratic: each collective is looked at a bounded number of times.
func TestMeetLarge(t *testing.T) {
	reds := large(128, 10, 20)
	begin := time.Now()
	j := Meet(reds, tables(t), Options{})
	t.Logf("128 ranks, 25600 collectives: %v", time.Since(begin))
	if len(j.Ranks) != 128 || len(j.Groups) != 16+8 || j.Culprits[0].Rank != 77 || len(j.Hosts) != 16 || len(j.Late.Steps) != 10 || len(j.Chains) != 6 {
		t.Errorf("%d ranks, %d groups, %d hosts, culprits %v, %d late, %d chains", len(j.Ranks), len(j.Groups), len(j.Hosts), j.Culprits[:1], len(j.Late.Steps), len(j.Chains))
	}
	for _, r := range j.Ranks {
		checkLedger(t, r)
	}
}

func BenchmarkMeet(b *testing.B) {
	tab := tables(b)
	reds := large(512, 20, 100)
	b.ResetTimer()
	for b.Loop() {
		Meet(reds, tab, Options{})
	}
}
