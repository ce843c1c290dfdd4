package ledger

import (
	"fmt"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/timeline/timelinetest"
)

// unnumbered is a rank that states no number; its collectives are of the groups given. Times in us.
func unnumbered(t *testing.T, path string, pid int, at int, groups ...string) *timeline.Reduced {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "proc p world=4 host=a pid=%d\n", pid)
	for i := range 6 {
		g := groups[i%len(groups)]
		fmt.Fprintf(&b, "p:main api %dus..%dus cudaLaunchKernel link=%d\n", at+100*i, at+100*i+2, i+1)
		fmt.Fprintf(&b, "p:gpu0/s9 kernel %dus..%dus ncclDevKernel_AllReduce link=%d coll=allreduce n=%d dtype=Float group=g%s size=%d ranks=%s seq=%d\n",
			at+100*i+5, at+100*i+60, i+1, 10+i, strings.NewReplacer("[", "", ",", "", "]", "").Replace(g), 1+strings.Count(g, ","), g, i/len(groups))
	}
	return rank(t, path, b.String())
}

func numbers(j *Job) string {
	var out []string
	for _, r := range j.Ranks {
		out = append(out, fmt.Sprintf("%d %s", r.Process.Rank, r.Process.RankHow))
	}
	return strings.Join(out, ", ")
}

// A rank that states no number is the only one that all its groups have in common.
func TestRankByGroups(t *testing.T) {
	j := meet(t,
		unnumbered(t, "w/a.json", 11, 0, "[0,1]", "[0,2]"), unnumbered(t, "w/b.json", 12, 0, "[0,1]", "[1,3]"),
		unnumbered(t, "w/c.json", 13, 0, "[2,3]", "[0,2]"), unnumbered(t, "w/d.json", 14, 0, "[2,3]", "[1,3]"))
	if got, want := numbers(j), "0 members of its groups, 1 members of its groups, 2 members of its groups, 3 members of its groups"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if len(j.Missing) != 0 || len(j.Groups) != 4 || j.Groups[0].Matched != 3 {
		t.Errorf("missing %v, groups %+v", j.Missing, j.Groups)
	}
	// One that is known leaves the other.
	known := unnumbered(t, "w/a.json", 11, 0, "[0,1]")
	known.Process.Rank, known.Process.RankHow = 1, "distributedInfo"
	j = meet(t, known, unnumbered(t, "w/b.json", 12, 0, "[0,1]"))
	if got, want := numbers(j), "0 members of its groups, 1 distributedInfo"; got != want {
		t.Errorf("%s", got)
	}
	if fmt.Sprint(j.Missing) != "[2 3]" {
		t.Errorf("missing %v", j.Missing)
	}
}

// Numbers in names count where they count the ranks, one each; what does not, such as process numbers, counts nothing.
func TestRankByNames(t *testing.T) {
	all := "[0,1,2,3]"
	mk := func(names ...string) *Job {
		var reds []*timeline.Reduced
		for i, n := range names {
			reds = append(reds, unnumbered(t, n, 20+i, 0, all))
		}
		return meet(t, reds...)
	}
	if got, want := numbers(mk("w/job7-3.json", "w/job7-0.json", "w/job7-2.json", "w/job7-1.json")), "0 file name, 1 file name, 2 file name, 3 file name"; got != want {
		t.Errorf("%s", got)
	}
	if got := numbers(mk("w/node_20.json", "w/node_21.json")); got != "-1 , -1 " {
		t.Errorf("process numbers: %s", got)
	}
	if got := numbers(mk("w/x0.json", "w/y1.json")); got != "-1 , -1 " {
		t.Errorf("names that are not alike: %s", got)
	}
	j := mk("w/t-1.json", "w/t-3.json")
	if got := numbers(j); got != "1 file name, 3 file name" || fmt.Sprint(j.Missing) != "[0 2]" {
		t.Errorf("%s, missing %v", got, j.Missing)
	}
}

// One file of many ranks is many ranks, and one rank of a larger job is handled as such.
func TestMergedFileAndSingleRank(t *testing.T) {
	var b strings.Builder
	for r := range 3 {
		fmt.Fprintf(&b, "proc p%d rank=%d world=3 host=a pid=%d\n", r, r, 100+r)
	}
	for r := range 3 {
		start := 100 + 40*r
		fmt.Fprintf(&b, "p%d:main api 10us..12us cudaLaunchKernel link=1\np%d:gpu%d/s9 kernel %dus..300us ncclDevKernel_AllReduce link=1 coll=allreduce n=10 dtype=Float group=0 size=3 ranks=[0,1,2] seq=0\n", r, r, r, start)
	}
	tl := timelinetest.Parse(b.String())
	reds, err := Reduce(tl, tables(t), Options{})
	if err != nil || len(reds) != 3 {
		t.Fatalf("%d reductions, %v", len(reds), err)
	}
	j := meet(t, reds...)
	if len(j.Ranks) != 3 || len(j.Missing) != 0 || j.Ranks[0].Collectives[0].PeerWaitNS != 80_000 || j.Ranks[0].Collectives[0].Culprit != 2 {
		t.Errorf("%+v", j.Ranks[0].Collectives)
	}
	j = meet(t, reds[1])
	if len(j.Ranks) != 1 || fmt.Sprint(j.Missing) != "[0 2]" || j.Ranks[0].Collectives[0].Split != timeline.NoConfidence || len(j.Culprits) != 0 || j.Groups[0].Why == "" {
		t.Errorf("missing %v, %+v, %+v", j.Missing, j.Ranks[0].Collectives, j.Groups)
	}
}
