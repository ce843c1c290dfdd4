package ledger

import (
	"fmt"
	"slices"
	"testing"

	"gpureport/ingest/timeline"
)

// All who waited for the late rank are told, not only the one that waited longest; of many the eight longest.
func TestAllWaiters(t *testing.T) {
	for _, n := range []int{4, 12} {
		var reds []*timeline.Reduced
		all := ""
		for r := range n {
			all += fmt.Sprint(map[bool]string{true: ",", false: ""}[r > 0], r)
		}
		for r := range n {
			text := fmt.Sprintf("proc p rank=%d world=%d host=a\n", r, n)
			for s := range 4 { // rank r comes r*10 us after the step's begin, the last one 500 us
				at := 10_000 * (s + 1)
				come := at + 10*r
				if r == n-1 {
					come = at + 500
				}
				text += fmt.Sprintf("p:main anno %dus..%dus ProfilerStep#%d\n", at-1000, at+8000, s)
				text += fmt.Sprintf("p:main api %dus..%dus cudaLaunchKernel link=%d\n", at-20, at-15, s+1)
				text += fmt.Sprintf("p:gpu0/s9 kernel %dus..%dus ncclKernel_AllReduce link=%d coll=allreduce n=1000 dtype=Float group=0 size=%d ranks=[%s] seq=%d\n", come, at+600, s+1, n, all, s)
			}
			reds = append(reds, rank(t, fmt.Sprintf("rank%02d.json", r), text))
		}
		j := meet(t, reds...)
		if len(j.Chains) == 0 {
			t.Fatalf("%d ranks: no chain", n)
		}
		for _, c := range j.Chains {
			var who []int
			for _, l := range append(slices.Clone(c.Links), c.Beside...) {
				if j.Ranks[l.Culprit].Process.Rank != n-1 {
					t.Errorf("%d ranks, step %d: %+v waits for another than the last", n, c.Step, l)
				}
				w := j.Ranks[l.Waiter].Process.Rank
				who = append(who, w)
				if want := int64(500-10*w) * 1000; int64(l.At.Dur()) != want {
					t.Errorf("%d ranks, step %d: rank %d waited %d ns, want %d", n, c.Step, w, l.At.Dur(), want)
				}
			}
			want := []int{0, 1, 2, 3, 4, 5, 6, 7}[:min(n-1, maxWaiters)]
			if !slices.Equal(who, want) {
				t.Errorf("%d ranks, step %d: told of ranks %v, want %v", n, c.Step, who, want)
			}
		}
	}
}
