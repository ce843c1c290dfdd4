package ledger

import (
	"slices"
	"testing"

	"gpureport/ingest/timeline"
)

// Two profilers may record a process at once: its ranks are counted once, by the capture that says more.
func TestCapturesAtTheSameTime(t *testing.T) {
	const ms = timeline.Time(1e6)
	capture := func(path, by string, rank, world int, pid int64, start, end timeline.Time, steps int, operators bool) *timeline.Reduced {
		r := &timeline.Reduced{Path: path, Process: timeline.Process{Rank: rank, WorldSize: world, PID: pid, Host: "n1", Meta: map[string]string{"by": by}},
			Recorded: timeline.Interval{Start: start, End: end}}
		r.Steps.Index = make([]int64, steps)
		r.Rank.Operators = operators
		b := timeline.BusyBins{Start: start, Bin: 1e6}
		for at := start; at < end; at += ms {
			x := uint64(at/ms) * 0x9e3779b97f4a7c15
			x = (x ^ x>>31) * 0xbf58476d1ce4e5b9
			b.Busy = append(b.Busy, float32((x^x>>29)%11)/10)
		}
		r.GPUs = []timeline.GPULedger{{Window: r.Recorded, Ops: 10, Bins: b}}
		return r
	}
	start, end := 1000*ms, 2000*ms
	t.Run("the one that knows operators", func(t *testing.T) {
		k, n := capture("rank0.json", "kineto", -1, 0, 7, start, end, 20, true), capture("a.sqlite", "nsys", -1, 0, 7, start-100*ms, end, 40, false)
		n.GPUs[0].Device.UUID = "GPU-a"
		j := Meet([]*timeline.Reduced{n, k}, &Tables{}, Options{})
		if len(j.Ranks) != 1 || j.Ranks[0] != k || len(j.Asides) != 1 || j.Asides[0].Red != n || j.Asides[0].Of != 0 || len(j.Ignored) != 0 || k.GPUs[0].Device.UUID != "GPU-a" {
			t.Errorf("%+v", j)
		}
		if len(j.Problems) != 1 || j.Problems[0].Code != "run/second-capture" || j.Problems[0].Path != "a.sqlite" {
			t.Errorf("%+v", j.Problems)
		}
	})
	t.Run("unless it has hardly a step", func(t *testing.T) {
		k, n := capture("rank0.json", "kineto", -1, 0, 7, start, end, 2, true), capture("a.sqlite", "nsys", -1, 0, 7, start-100*ms, end, 40, false)
		if j := Meet([]*timeline.Reduced{k, n}, &Tables{}, Options{}); len(j.Ranks) != 1 || j.Ranks[0] != n || len(j.Asides) != 1 {
			t.Errorf("%+v", j)
		}
	})
	t.Run("a trace of one rank beside an export of all", func(t *testing.T) {
		reds := []*timeline.Reduced{capture("rank0.json", "kineto", 0, 3, 70, start, end, 20, true)}
		for i := range 3 {
			reds = append(reds, capture("run.sqlite", "nsys", i, 3, 70+int64(i), start, end, 20, false))
		}
		j := Meet(reds, &Tables{}, Options{})
		if len(j.Ranks) != 3 || len(j.Asides) != 1 || j.Asides[0].Red != reds[0] || len(j.Missing) != 0 {
			t.Errorf("%+v", j)
		}
		for _, r := range j.Ranks {
			if r.Path != "run.sqlite" {
				t.Errorf("rank %d is of %s", r.Process.Rank, r.Path)
			}
		}
	})
	t.Run("a container counts its processes by itself", func(t *testing.T) {
		k, n := capture("rank0.json", "kineto", 0, 1, 7, start, end, 20, true), capture("a.sqlite", "nsys", 0, 1, 40007, start, end, 20, false)
		if j := Meet([]*timeline.Reduced{k, n}, &Tables{}, Options{}); len(j.Asides) != 1 || len(j.Ignored) != 0 {
			t.Errorf("%+v", j)
		}
	})
	for what, n := range map[string]*timeline.Reduced{
		"at another time": capture("a.sqlite", "nsys", 0, 1, 7, end+1000*ms, end+2000*ms, 10, false),
		"another process doing its work": func() *timeline.Reduced {
			r := capture("a.sqlite", "nsys", 0, 1, 8, start, end, 10, false)
			slices.Reverse(r.GPUs[0].Bins.Busy)
			return r
		}(),
		"another rank's": capture("a.sqlite", "nsys", 1, 1, 7, start, end, 10, false),
	} {
		t.Run(what, func(t *testing.T) {
			k := capture("rank0.json", "kineto", 0, 1, 7, start, end, 20, true)
			if j := Meet([]*timeline.Reduced{n, k}, &Tables{}, Options{}); len(j.Ranks) != 1 || j.Ranks[0] != k || len(j.Asides) != 0 || len(j.Ignored) != 1 {
				t.Errorf("%+v", j)
			}
		})
	}
}

// Short recordings of one job, on hosts whose clocks differ by more than they last, are one run; those of one host a second later are not.
func TestHostsWhoseClocksDiffer(t *testing.T) {
	capture := func(host string, rank int, start timeline.Time, bytes int64) *timeline.Reduced {
		r := &timeline.Reduced{Path: host + "/r" + string(rune('a'+rank)), Process: timeline.Process{Rank: rank, WorldSize: 2, PID: int64(rank + 1), Host: host},
			Recorded: timeline.Interval{Start: start, End: start + 80e6}}
		r.GPUs = []timeline.GPULedger{{Window: r.Recorded, Ops: 10}}
		r.Collectives = []timeline.Collective{{Primitive: "all-reduce", Bytes: bytes, Start: start, End: start + 1e6}}
		return r
	}
	for _, c := range []struct {
		what  string
		other *timeline.Reduced
		ranks int
	}{
		{"clocks 300 ms apart", capture("n2", 1, 300e6, 8), 2},
		{"other collectives", capture("n2", 1, 300e6, 16), 1},
		{"two seconds later", capture("n2", 1, 2e9, 8), 1},
		{"one host", capture("n1", 1, 300e6, 8), 1},
	} {
		c.other.Path = "elsewhere/trace"
		if j := Meet([]*timeline.Reduced{capture("n1", 0, 0, 8), c.other}, &Tables{}, Options{}); len(j.Ranks) != c.ranks {
			t.Errorf("%s: %d ranks, want %d", c.what, len(j.Ranks), c.ranks)
		}
	}
}
