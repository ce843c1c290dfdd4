package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

// made is a run made by hand: ranks load, compute and reduce, as often as there are steps; everyone ends when the last has come and the data
// have moved. Times in ns.
type made struct {
	ranks, steps, perHost int
	step                  int64 // length of a step
	load                  func(r, step int) int64
	clock                 func(host int, t int64) int64
	jitter                func() int64 // of ends
	seq                   bool
}

func (d *made) reds(t testing.TB) []*timeline.Reduced {
	if d.clock == nil {
		d.clock = func(_ int, t int64) int64 { return t }
	}
	if d.jitter == nil {
		d.jitter = func() int64 { return 0 }
	}
	const compute, transfer, pause = 2_000_000, 1_000_000, 50_000
	text := make([]strings.Builder, d.ranks)
	at := make([]int64, d.ranks)
	for r := range d.ranks {
		fmt.Fprintf(&text[r], "proc p rank=%d world=%d host=h%d backend=nccl\n", r, d.ranks, r/d.perHost)
		at[r] = 1_000_000_000
	}
	link := 0
	for s := range d.steps {
		came := make([]int64, d.ranks)
		last := int64(0)
		for r := range d.ranks {
			if d.step > 0 {
				at[r] = max(at[r], 1_000_000_000+int64(s)*d.step)
			}
			came[r] = at[r] + d.load(r, s) + compute + 10_000
			last = max(last, came[r])
		}
		for r := range d.ranks {
			c := func(t int64) int64 { return d.clock(r/d.perHost, t) }
			load := at[r] + d.load(r, s)
			end := last + transfer
			w := &text[r]
			fmt.Fprintf(w, "p:main anno %dns..%dns ProfilerStep#%d\n", c(at[r]), c(end+pause/2), s+5)
			fmt.Fprintf(w, "p:main anno %dns..%dns enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n", c(at[r]+1000), c(load))
			fmt.Fprintf(w, "p:main api %dns..%dns cudaLaunchKernel link=%d\n", c(load), c(load+4000), link+1)
			fmt.Fprintf(w, "p:gpu0/s7 kernel %dns..%dns sgemm link=%d\n", c(load+5000), c(load+5000+compute), link+1)
			fmt.Fprintf(w, "p:main api %dns..%dns cudaLaunchKernel link=%d\n", c(load+5000), c(load+8000), link+2)
			seq := ""
			if d.seq {
				seq = fmt.Sprintf(" seq=%d", s+1)
			}
			fmt.Fprintf(w, "p:gpu0/s9 kernel %dns..%dns ncclDevKernel_AllReduce_Sum_f32_RING_LL link=%d coll=allreduce n=1000 dtype=Float group=0 size=%d ranks=%s%s\n",
				c(came[r]), c(end)+d.jitter(), link+2, d.ranks, ranksText(d.ranks), seq)
			fmt.Fprintf(w, "p:main api %dns..%dns cudaStreamSynchronize\n", c(load+9000), c(end+5000))
			at[r] = end + pause
		}
		link += 2
	}
	var reds []*timeline.Reduced
	for r := range d.ranks {
		reds = append(reds, rank(t, fmt.Sprintf("rank%d.json", r), text[r].String()))
	}
	return reds
}

// rankFiveLate loads 3 ms longer on rank 5 than elsewhere, a little differently in each step.
func rankFiveLate(r, step int) int64 {
	ns := int64(200_000 + (r*7919+step*104729)%60_000)
	if r == 5 {
		ns += 3_000_000 + int64(step%7)*100_000
	}
	return ns
}

// The clocks of two hosts lie up to 200 ms apart and drift by 50 ppm: who was late, by what and how long is as it is without.
func TestHostClocks(t *testing.T) {
	for _, c := range []struct {
		name  string
		off   int64
		ppm   float64
		seq   bool
		step  int64
		steps int
	}{
		{"small", 1_300_000, 0, true, 0, 12},
		{"ahead", 200_000_000, 0, true, 0, 12},
		{"behind", -200_000_000, 0, false, 0, 12},
		{"drift", 150_000_000, 50, true, 500_000_000, 60},
		{"drift, no numbers", -80_000_000, -50, false, 400_000_000, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			mk := func(clock func(int, int64) int64) []*timeline.Reduced {
				return (&made{ranks: 8, steps: c.steps, perHost: 4, step: c.step, load: rankFiveLate, clock: clock, seq: c.seq, jitter: func() int64 { return rnd.Int64N(4001) - 2000 }}).reds(t)
			}
			plain := meet(t, mk(nil)...)
			mid := 1_000_000_000 + int64(c.steps)*max(c.step, 6_000_000)/2
			skewed := func(h int, at int64) int64 {
				if h == 0 {
					return at
				}
				return at + c.off + int64(c.ppm*1e-6*float64(at-mid))
			}
			reds := mk(skewed)
			j := meet(t, reds...)
			if len(j.Hosts) != 2 || j.Hosts[0].Host != "h0" || j.Hosts[0].OffsetNS != 0 || j.Hosts[1].Refused != "" {
				t.Fatalf("%+v", j.Hosts)
			}
			h := j.Hosts[1]
			if h.ResidualNS <= 0 || h.ResidualNS > 5_000 || h.Instances < 10 {
				t.Errorf("residual %d over %d", h.ResidualNS, h.Instances)
			}
			// The offset holds at the middle of what was compared, near mid.
			if d := h.OffsetNS - c.off; max(d, -d) > h.ResidualNS+int64(max(c.ppm, -c.ppm)*1e-6*float64(c.steps)*10e6)+int64(max(c.ppm, -c.ppm)*1e-6*float64(c.step)) {
				t.Errorf("offset %d, true %d, residual %d", h.OffsetNS, c.off, h.ResidualNS)
			}
			if d := h.DriftPPM - c.ppm; max(d, -d) > 0.5 {
				t.Errorf("drift %f, true %f", h.DriftPPM, c.ppm)
			}
			// Instants on the reference clock are as they were.
			for ri := range j.Ranks {
				for ci := range j.Ranks[ri].Collectives {
					a, b := &j.Ranks[ri].Collectives[ci], &plain.Ranks[ri].Collectives[ci]
					if a.Culprit != b.Culprit || a.Split != b.Split {
						t.Fatalf("rank %d collective %d: culprit %d %s, without skew %d %s", ri, ci, a.Culprit, a.Split, b.Culprit, b.Split)
					}
					if d := a.PeerWaitNS - b.PeerWaitNS; max(d, -d) > 3*h.ResidualNS+200 {
						t.Fatalf("rank %d collective %d waits %d, without skew %d", ri, ci, a.PeerWaitNS, b.PeerWaitNS)
					}
				}
			}
			if len(j.Culprits) == 0 || j.Culprits[0].Rank != 5 || j.Culprits[0].Last != plain.Culprits[0].Last || j.Culprits[0].Of != plain.Culprits[0].Of {
				t.Errorf("culprits %+v, without skew %+v", j.Culprits, plain.Culprits)
			}
			if j.Waits[0].Culprit != 5 || j.Waits[0].Owner != timeline.HostDataloader || j.Waits[0].Conf != timeline.Measured {
				t.Errorf("%s", waits(j))
			}
			if len(j.Late.Steps) < c.steps-3 || j.Late.ErrorNS != 3*h.ResidualNS {
				t.Fatalf("late in %d steps, error %d", len(j.Late.Steps), j.Late.ErrorNS)
			}
			for k := range j.Late.Steps {
				for ri := range j.Ranks {
					if d := j.Late.NS[ri][k] - plain.Late.NS[ri][k]; max(d, -d) > 3*h.ResidualNS+200 {
						t.Fatalf("step %d rank %d came %d after the first, without skew %d", j.Late.Steps[k], ri, j.Late.NS[ri][k], plain.Late.NS[ri][k])
					}
				}
			}
			// Reductions of the second host are drawn on the clock of the first; another meeting finds the same.
			first := j.Ranks[6].Shifted
			if first != -timeline.Time(h.OffsetNS) || j.Ranks[0].Shifted != 0 || j.Ranks[6].ShiftErrorNS != 3*h.ResidualNS || j.Ranks[6].ShiftWhy == "" {
				t.Errorf("shifted %d", first)
			}
			again := meet(t, reds...)
			if again.Ranks[6].Shifted != first || waits(again) != waits(j) || fmt.Sprint(again.Hosts) != fmt.Sprint(j.Hosts) || fmt.Sprint(again.Late) != fmt.Sprint(j.Late) {
				t.Errorf("met again: %v", again.Hosts)
			}
		})
	}
}

// Ends that jitter by 300 us tell nothing of clocks: nobody is named across hosts, and it says why.
func TestHostClocksRefused(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	late := func(r, step int) int64 { return 100_000 + int64((r*31+step*17)%9)*90_000 }
	reds := (&made{ranks: 8, steps: 30, perHost: 4, load: late, seq: true,
		clock:  func(h int, t int64) int64 { return t + int64(h)*70_000_000 },
		jitter: func() int64 { return rnd.Int64N(600_001) - 300_000 }}).reds(t)
	j := meet(t, reds...)
	if len(j.Hosts) != 2 || !strings.Contains(j.Hosts[1].Refused, "more than 100 us") {
		t.Fatalf("%+v", j.Hosts)
	}
	for _, r := range j.Ranks {
		for i := range r.Collectives {
			c := &r.Collectives[i]
			if c.Split == timeline.Measured {
				t.Fatalf("divided: %+v", c)
			}
			if c.Culprit >= 0 && c.Culprit/4 != r.Process.Rank/4 {
				t.Fatalf("rank %d names rank %d of the other host", r.Process.Rank, c.Culprit)
			}
		}
	}
	found := false
	for _, p := range j.Problems {
		found = found || p.Code == "run/clocks-differ" && strings.Contains(p.Message, "h1") && p.Count > 0
	}
	if !found || len(j.Late.Steps) != 0 || j.Groups[0].Why == "" {
		t.Errorf("%+v %+v", j.Problems, j.Late)
	}
	// A residual of 15 us is more than a fifth of waits of some 60.
	rnd = rand.New(rand.NewPCG(5, 6))
	small := func(r, step int) int64 { return 100_000 + int64((r*31+step*17)%9)*10_000 }
	j = meet(t, (&made{ranks: 8, steps: 40, perHost: 4, load: small, seq: true, jitter: func() int64 { return rnd.Int64N(80_001) - 40_000 }}).reds(t)...)
	if len(j.Hosts) != 2 || !(j.Hosts[1].ResidualNS < clockMax) || strings.Contains(j.Hosts[1].Refused, "than 100 us") {
		t.Errorf("%+v", j.Hosts)
	}
	for _, r := range j.Ranks {
		for i := range r.Collectives {
			if c := &r.Collectives[i]; c.Culprit >= 0 && c.Split == timeline.Measured {
				t.Fatalf("rank %d names %d across hosts within the error %d: %+v", r.Process.Rank, c.Culprit, 3*j.Hosts[1].ResidualNS, c)
			}
		}
	}
	// Ranks that came within the error of each other are together: nothing waited.
	rnd = rand.New(rand.NewPCG(7, 8))
	j = meet(t, (&made{ranks: 4, steps: 20, perHost: 2, load: func(int, int) int64 { return 100_000 }, seq: true, jitter: func() int64 { return rnd.Int64N(10_001) - 5_000 }}).reds(t)...)
	if len(j.Waits) != 0 || len(j.Culprits) != 0 || j.Ranks[0].Collectives[3].Split != timeline.Measured || j.Ranks[0].Collectives[3].Culprit != -1 {
		t.Errorf("%s %+v", waits(j), j.Culprits)
	}
}

// Hosts that share no group are compared through one that shares a group with both.
func TestHostClocksChained(t *testing.T) {
	// Ranks 0, 1, 2 on hosts h0, h1, h2, whose clocks are 0, +30 and -50 ms; group a is {0,1}, group b is {1,2}.
	off := []int64{0, 30_000_000, -50_000_000}
	text := make([]strings.Builder, 3)
	for r := range 3 {
		fmt.Fprintf(&text[r], "proc p rank=%d world=3 host=h%d\n", r, r)
	}
	coll := func(r, link int, start, end int64, group, ranks string, seq int) {
		fmt.Fprintf(&text[r], "p:main api %dns..%dns cudaLaunchKernel link=%d\n", start+off[r]-9000, start+off[r]-5000, link)
		fmt.Fprintf(&text[r], "p:gpu0/s9 kernel %dns..%dns ncclDevKernel_AllReduce_Sum_f32_RING_LL link=%d coll=allreduce n=1000 dtype=Float group=%s size=2 ranks=%s seq=%d\n",
			start+off[r], end+off[r], link, group, ranks, seq)
	}
	for s := range 10 {
		at := int64(1_000_000_000 + s*10_000_000)
		// Rank 2 comes 4 ms late to group b, rank 1 therefore 5 ms late to group a.
		coll(1, 2*s+1, at, at+5_000_000, "b", "[1,2]", s)
		coll(2, 2*s+1, at+4_000_000, at+5_000_000, "b", "[1,2]", s)
		coll(0, 2*s+2, at+100_000, at+6_000_000, "a", "[0,1]", s)
		coll(1, 2*s+2, at+5_100_000, at+6_000_000, "a", "[0,1]", s)
	}
	j := meet(t, rank(t, "r0.json", text[0].String()), rank(t, "r1.json", text[1].String()), rank(t, "r2.json", text[2].String()))
	if len(j.Hosts) != 3 || j.Hosts[1].OffsetNS != off[1] || j.Hosts[2].OffsetNS != off[2] {
		t.Fatalf("%+v", j.Hosts)
	}
	if c := j.Ranks[1].Collectives[0]; c.PeerWaitNS != 4_000_000 || c.Culprit != 2 || c.Split != timeline.Measured {
		t.Errorf("%+v", c)
	}
	if c := j.Ranks[0].Collectives[0]; c.PeerWaitNS != 5_000_000 || c.Culprit != 1 || c.Start != 1_000_100_000 {
		t.Errorf("%+v", c)
	}
	for i := range j.Ranks {
		for k := range j.Ranks[i].Collectives {
			if c := &j.Ranks[i].Collectives[k]; c.End != timeline.Time(1_000_000_000+(k/2)*10_000_000+5_000_000) && c.End != timeline.Time(1_000_000_000+k*10_000_000+5_000_000) && c.End%10_000_000 != 6_000_000 {
				t.Errorf("rank %d ends at %d", i, c.End)
			}
		}
	}
}

// Ranks that tell no host share a clock unless their ends say otherwise.
func TestHostsUnknown(t *testing.T) {
	mk := func(off int64) []*timeline.Reduced {
		reds := (&made{ranks: 4, steps: 12, perHost: 2, load: rankFiveLate, seq: true, clock: func(h int, t int64) int64 { return t + int64(h)*off }}).reds(t)
		for _, r := range reds {
			r.Process.Host = ""
		}
		return reds
	}
	j := meet(t, mk(40_000)...)
	if len(j.Hosts) != 0 || j.Ranks[3].Shifted != 0 {
		t.Errorf("40 us apart: %+v", j.Hosts)
	}
	j = meet(t, mk(900_000)...)
	if len(j.Hosts) != 4 || j.Hosts[1].OffsetNS != 0 || j.Hosts[2].OffsetNS != 900_000 || j.Hosts[3].OffsetNS != 900_000 || j.Ranks[3].Shifted != -900_000 {
		t.Errorf("900 us apart: %+v", j.Hosts)
	}
	// The name of a file tells the host as well.
	reds := mk(900_000)
	for i, r := range reds {
		r.Path = fmt.Sprintf("node%d_%d.1700000000000.pt.trace.json", i/2, 100+i)
	}
	if j = meet(t, reds...); len(j.Hosts) != 2 || j.Hosts[1].Host != "node1" || j.Hosts[1].OffsetNS != 900_000 || fmt.Sprint(j.Hosts[1].Ranks) != "[2 3]" {
		t.Errorf("by names: %+v", j.Hosts)
	}
}
