package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

// lcsLen is the length of a longest common subsequence, the slow way.
func lcsLen(a, b []int32) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diag := 0
		for k, y := range b {
			up := row[k+1]
			if x == y {
				row[k+1] = diag + 1
			} else {
				row[k+1] = max(up, row[k])
			}
			diag = up
		}
	}
	return row[len(b)]
}

func checkPairs(t *testing.T, a, b []int32, pairs []pairing) {
	t.Helper()
	pa, pb := int32(-1), int32(-1)
	for _, p := range pairs {
		if p.a <= pa || p.b <= pb || a[p.a] != b[p.b] {
			t.Fatalf("pair %v after %d, %d", p, pa, pb)
		}
		pa, pb = p.a, p.b
	}
}

func TestDiff(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		mk := func(n int) []int32 {
			s := make([]int32, n)
			for i := range s {
				s[i] = rnd.Int32N(4)
			}
			return s
		}
		a, b := mk(rnd.IntN(30)), mk(rnd.IntN(30))
		got := diff(a, b)
		checkPairs(t, a, b, got)
		if want := lcsLen(a, b); len(got) != want {
			t.Fatalf("%v %v: %d pairs, want %d", a, b, len(got), want)
		}
	}
	if len(diff([]int32{-1, 5, -1}, []int32{-1, 5, -1})) != 1 {
		t.Error("a word that is not known is like none")
	}
	// Long sequences with losses here and there: nearly everything is paired, and soon.
	const n = 100_000
	var a, b []int32
	for i := range n {
		w := int32(i%97) + 1000*int32(rnd.IntN(8))
		if rnd.IntN(500) != 0 {
			a = append(a, w)
		}
		if rnd.IntN(500) != 0 {
			b = append(b, w)
		}
	}
	got := diff(a, b)
	checkPairs(t, a, b, got)
	if len(got) < n-5*n/500 {
		t.Errorf("%d of %d are paired", len(got), n)
	}
}

// ordered makes two ranks of two hosts with the same collectives, without numbers; drop leaves some out on the second.
func ordered(t *testing.T, steps int, off int64, marks bool, drop func(step, i int) bool) (a, b *timeline.Reduced) {
	rnd := rand.New(rand.NewPCG(11, 12))
	var text [2]strings.Builder
	for r := range text {
		fmt.Fprintf(&text[r], "proc p rank=%d world=2 host=h%d\n", r, r)
	}
	at, link := int64(1_000_000_000), 0
	for s := range steps {
		from := at
		for i := range 3 {
			link++
			start := at + rnd.Int64N(300_000)
			end := at + 1_000_000 + rnd.Int64N(800_000)
			for r := range text {
				o := int64(r) * off
				if r == 1 && drop(s, i) {
					continue
				}
				fmt.Fprintf(&text[r], "p:main api %dns..%dns cudaLaunchKernel link=%d\n", start+o-9000, start+o-5000, link)
				fmt.Fprintf(&text[r], "p:gpu0/s9 kernel %dns..%dns ncclDevKernel_AllReduce_Sum_f32_RING_LL link=%d coll=allreduce n=%d dtype=Float group=0 size=2 ranks=[0,1]\n",
					start+o+int64(r)*50_000, end+o, link, 1000*(i+1))
			}
			at = end + 20_000
		}
		if marks {
			for r := range text {
				fmt.Fprintf(&text[r], "p:main anno %dns..%dns ProfilerStep#%d\n", from-20_000+int64(r)*off, at-20_001+int64(r)*off, s)
			}
		}
	}
	return rank(t, "rank0.json", text[0].String()), rank(t, "rank1.json", text[1].String())
}

// Without numbers collectives are matched by their order, wherever each recording begins and whatever is lost, with clocks 150 ms apart.
func TestMatchByOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		marks bool
		lost  int // of the second rank
		drop  func(step, i int) bool
		how   string
	}{
		{"all", false, 0, func(int, int) bool { return false }, "order"},
		{"began a step later", false, 3, func(s, _ int) bool { return s == 0 }, "overlap"},
		{"began in the middle of a step, ended early", false, 7, func(s, i int) bool { return s == 0 || s == 1 && i == 0 || s == 19 }, "overlap"},
		{"lost one in the middle", false, 1, func(s, i int) bool { return s == 9 && i == 1 }, "overlap"},
		{"lost a whole step", true, 3, func(s, _ int) bool { return s == 9 }, "overlap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := ordered(t, 20, 150_000_000, c.marks, c.drop)
			j := meet(t, a, b)
			g := j.Groups[0]
			if len(j.Groups) != 1 || g.How != c.how || g.Matched < int64(60-c.lost-6) || g.Unmatched > int64(c.lost+12) {
				t.Errorf("%+v", j.Groups)
			}
			if !c.marks && (g.Matched != int64(60-c.lost) || g.Unmatched != int64(c.lost)) {
				t.Errorf("matched %d, unmatched %d, want %d and %d", g.Matched, g.Unmatched, 60-c.lost, c.lost)
			}
			if j.Hosts[1].OffsetNS != 150_000_000 || j.Hosts[1].ResidualNS != 0 {
				t.Errorf("%+v", j.Hosts)
			}
			n := 0
			for i := range a.Collectives {
				if x := &a.Collectives[i]; x.Split == timeline.Measured {
					n++
					if x.PeerWaitNS != 50_000 || x.Culprit != 1 {
						t.Fatalf("collective %d: %+v", i, x)
					}
				}
			}
			if n != int(g.Matched) {
				t.Errorf("%d divided of %d", n, g.Matched)
			}
			said := int64(0)
			for _, p := range j.Problems {
				if p.Code == "run/unmatched-collectives" {
					said = p.Count
				}
			}
			if said != g.Unmatched {
				t.Errorf("said %d of %d", said, g.Unmatched)
			}
		})
	}
}

// Sends and receives are matched by direction: a stage that sends twice before it receives meets one that receives, answers, and receives.
func TestMatchBothWays(t *testing.T) {
	type op struct {
		dir        string
		start, end int
	}
	mk := func(r int, ops []op) *timeline.Reduced {
		var b strings.Builder
		fmt.Fprintf(&b, "proc p rank=%d world=2 host=a\n", r)
		for i, o := range ops {
			src, dst := 1-r, -1
			if o.dir == "send" {
				src, dst = -1, 1-r
			}
			fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", o.start-4, o.start-2, i+1)
			fmt.Fprintf(&b, "p:gpu0/s%d kernel %dus..%dus ncclDevKernel_SendRecv link=%d coll=%s n=10 dtype=Float group=3 size=2 ranks=[0,1] src=%d dst=%d\n",
				9+i, o.start, o.end, i+1, o.dir, src, dst)
		}
		return rank(t, fmt.Sprintf("rank%d.json", r), b.String())
	}
	j := meet(t, mk(0, []op{{"send", 100, 220}, {"send", 300, 420}, {"recv", 310, 720}}), mk(1, []op{{"recv", 200, 220}, {"send", 700, 720}, {"recv", 400, 420}}))
	var got []string
	for _, r := range j.Ranks {
		for i := range r.Collectives {
			c := &r.Collectives[i]
			got = append(got, fmt.Sprintf("%d:%d@%d waits %d for %d", r.Process.Rank, c.Dir, c.Start/1000, c.PeerWaitNS/1000, c.Culprit))
		}
	}
	want := "0:1@100 waits 100 for 1; 0:1@300 waits 100 for 1; 0:-1@310 waits 390 for 1; 1:-1@200 waits 0 for 1; 1:-1@400 waits 0 for 1; 1:1@700 waits 0 for 1"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
	if g := j.Groups[0]; g.Kind != PipelineGroup || g.Matched != 3 || g.Unmatched != 0 {
		t.Errorf("%+v", g)
	}
}

func TestGroupKinds(t *testing.T) {
	row := func(from, n, by int) []int {
		var out []int
		for i := range n {
			out = append(out, from+i*by)
		}
		return out
	}
	for _, c := range []struct {
		name, desc string
		ranks      []int
		used       map[string]int
		want       GroupKind
	}{
		{"0", "default_pg", row(0, 16, 1), map[string]int{"all-reduce": 9}, WorldGroup},
		{"3", "DATA_PARALLEL_GROUP", row(0, 4, 4), map[string]int{"all-reduce": 9}, DataGroup},
		{"4", "TENSOR_MODEL_PARALLEL_GROUP", row(0, 4, 1), map[string]int{"all-reduce": 9}, TensorGroup},
		{"5", "PIPELINE_MODEL_PARALLEL_GROUP", row(0, 4, 4), map[string]int{"send-recv": 9}, PipelineGroup},
		{"6", "EXPERT_MODEL_PARALLEL_GROUP", row(0, 4, 1), map[string]int{"all-to-all": 9}, ExpertGroup},
		{"7", "mesh_dp", row(0, 4, 4), map[string]int{"all-reduce": 9}, DataGroup},
		{"8", "mesh_dp_shard", row(0, 4, 4), map[string]int{"all-gather": 9}, ShardGroup},
		{"9", "mesh_tp", row(0, 4, 1), map[string]int{"all-reduce": 9}, TensorGroup},
		{"10", "fsdp", row(0, 16, 1), map[string]int{"all-gather": 9}, ShardGroup},
		{"11", "", row(0, 4, 1), map[string]int{"all-reduce": 9}, TensorGroup},
		{"12", "", row(1, 4, 4), map[string]int{"all-reduce": 9}, DataGroup},
		{"13", "", row(0, 16, 1), map[string]int{"all-reduce": 9}, WorldGroup},
		{"14", "", row(0, 16, 1), map[string]int{"all-gather": 9, "reduce-scatter": 4}, ShardGroup},
		{"15", "", row(0, 2, 8), map[string]int{"send-recv": 9}, PipelineGroup},
		{"16", "", row(0, 8, 2), map[string]int{"all-to-all": 9, "all-reduce": 1}, ExpertGroup},
		{"17", "", []int{0, 3, 4}, map[string]int{"all-reduce": 9}, UnknownGroup},
		{"18", "undefined", nil, map[string]int{"all-reduce": 9}, UnknownGroup},
		{"19", "default_pg", row(0, 16, 1), map[string]int{"all-gather": 9, "reduce-scatter": 4}, ShardGroup},
		{"deeper", "example", nil, map[string]int{"all-reduce": 9}, UnknownGroup},
	} {
		g := Group{Name: c.name, Desc: c.desc, Ranks: c.ranks, Size: len(c.ranks)}
		if got := kindOf(&g, c.used, 16); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.desc, got, c.want)
		}
	}
}
