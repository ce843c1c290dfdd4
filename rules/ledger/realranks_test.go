package ledger

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

// counted is what a plain walk over a trace finds of its communication kernels: none of our readers has a part in it.
type counted struct {
	rank, world int
	kernels     int
	byGroup     map[string]int // by name and members
}

var commName = regexp.MustCompile(`(?i)nccl.*kernel|rccl|cross_device_reduce`)

func countTrace(t *testing.T, path string) counted {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	var doc struct {
		Info struct {
			Rank  *int `json:"rank"`
			World int  `json:"world_size"`
		} `json:"distributedInfo"`
		Events []struct {
			Cat  string         `json:"cat"`
			Name string         `json:"name"`
			Args map[string]any `json:"args"`
		} `json:"traceEvents"`
	}
	if err := json.NewDecoder(in).Decode(&doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	c := counted{rank: -1, world: doc.Info.World, byGroup: map[string]int{}}
	if doc.Info.Rank != nil {
		c.rank = *doc.Info.Rank
	}
	for _, e := range doc.Events {
		if !strings.EqualFold(e.Cat, "kernel") || !commName.MatchString(e.Name) {
			continue
		}
		c.kernels++
		name, _ := e.Args["Process Group Name"].(string)
		members, _ := e.Args["Process Group Ranks"].(string)
		if name == "" {
			members, name = "[]", "(none)"
		}
		if members != "" && !strings.Contains(members, "...") {
			c.byGroup[name+" "+strings.ReplaceAll(members, " ", "")]++
		}
	}
	return c
}

// Ranks, groups and collectives of real traces are as many as a plain count says: names of both generations of NCCL, and of RCCL.
func TestRealCollectivesCounted(t *testing.T) {
	dir := dataDir(t)
	files, _ := filepath.Glob(filepath.Join(dir, "kineto/*rank*of*.json*"))
	if len(files) < 4 {
		t.Fatalf("%d traces of single ranks in the folder", len(files))
	}
	old, modern, rccl := 0, 0, 0
	for _, f := range files {
		want := countTrace(t, f)
		reds := reduceTrace(t, f)
		got := counted{rank: -1, byGroup: map[string]int{}}
		groups := map[string]bool{}
		for _, r := range reds {
			got.rank, got.world = r.Process.Rank, max(got.world, r.Process.WorldSize)
			for i := range r.Collectives {
				c := &r.Collectives[i]
				if !commName.MatchString(c.Name) {
					continue
				}
				got.kernels++
				switch {
				case strings.HasPrefix(c.Name, "ncclDevKernel_Generic"):
					rccl++
				case strings.HasPrefix(c.Name, "ncclDevKernel"):
					modern++
				case strings.HasPrefix(c.Name, "ncclKernel"):
					old++
				}
				if c.Primitive == "unknown" && c.Name != "" && !strings.Contains(c.Name, "Generic") {
					t.Errorf("%s: no primitive for %s", filepath.Base(f), c.Name)
				}
				groups[groupKey(c)] = true
			}
		}
		if got.kernels != want.kernels || got.rank != want.rank || want.world > 0 && got.world != want.world {
			t.Errorf("%s: %d collectives of rank %d of %d, a plain count says %d of rank %d of %d", filepath.Base(f), got.kernels, got.rank, got.world, want.kernels, want.rank, want.world)
		}
		if len(want.byGroup) > 0 && len(groups) != len(want.byGroup) {
			t.Errorf("%s: %d groups, a plain count says %v", filepath.Base(f), len(groups), want.byGroup)
		}
		job := Meet(reds, tables(t), Options{})
		if want.kernels > 0 && want.world > 1 && len(job.Missing) != want.world-1 {
			t.Errorf("%s: %d of %d ranks are missing", filepath.Base(f), len(job.Missing), want.world)
		}
		for i := range job.Groups {
			if g := &job.Groups[i]; g.Why == "" || g.Matched != 0 || g.Unmatched != 0 {
				t.Errorf("%s: a single rank's group is matched: %+v", filepath.Base(f), g)
			}
		}
		t.Logf("%s: %d collectives, %d groups", filepath.Base(f), got.kernels, len(job.Groups))
	}
	if old == 0 || modern == 0 || rccl == 0 {
		t.Errorf("names of the first generation %d, of the second %d, of RCCL %d", old, modern, rccl)
	}
}

// Eight ranks of one job: as many collectives on each as a plain count says, all matched, and nobody ends before the last came.
func TestRealRanksMatched(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(dataDir(t), "kineto-multirank/dlrm8/*"))
	var reds []*timeline.Reduced
	total, ranks := 0, map[int]bool{}
	for _, f := range files {
		c := countTrace(t, f)
		total += c.kernels
		ranks[c.rank] = true
		reds = append(reds, reduceTrace(t, f)...)
	}
	job := Meet(reds, tables(t), Options{})
	have := 0
	for _, r := range job.Ranks {
		checkLedger(t, r)
		for i := range r.Collectives {
			if commName.MatchString(r.Collectives[i].Name) {
				have++
			}
		}
	}
	if len(job.Ranks) != len(ranks) || have != total {
		t.Errorf("%d ranks and %d collectives, a plain count says %d and %d", len(job.Ranks), have, len(ranks), total)
	}
	var matched, unmatched int64
	for i := range job.Groups {
		g := &job.Groups[i]
		t.Logf("%+v", *g)
		matched, unmatched = matched+g.Matched*int64(len(g.Here)), unmatched+g.Unmatched
	}
	t.Logf("%d collectives, %d matched, %d not; hosts %+v; problems %+v", total, matched, unmatched, job.Hosts, job.Problems)
	if matched+unmatched != int64(total) || matched < int64(total)*9/10 {
		t.Errorf("%d matched and %d not of %d", matched, unmatched, total)
	}
	measured := 0
	for ri, r := range job.Ranks {
		for i := range r.Collectives {
			c := &r.Collectives[i]
			if c.Split != timeline.Measured {
				continue
			}
			measured++
			if c.PeerWaitNS+c.TransferNS != int64(c.End-c.Start) || c.Latest > c.End+clockMax {
				t.Errorf("rank %d collective %d: %+v", ri, i, c)
			}
		}
	}
	t.Logf("%d measured; culprits %+v; late %+v; chains %d", measured, job.Culprits, job.Late, len(job.Chains))
}
