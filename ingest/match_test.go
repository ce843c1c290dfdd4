package ingest

import (
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

func placedLogs(f func(int, timeline.Time) float64, gpus ...int) *timeline.Timeline {
	base := &timeline.Timeline{}
	src := logSource(base, "dmon.log", t0-20e9, 90, 0, time.Millisecond, f, gpus...)
	base.Clocks[src].How = timeline.Stated
	return base
}

func flat(int, timeline.Time) float64 { return 0.9 }

func TestMatchByActivity(t *testing.T) {
	// Rank 3 sees its GPU as device 0; the log calls it GPU 3.
	base := placedLogs(activity, 0, 1, 2, 3)
	var trs []*timeline.Reduced
	for _, g := range []int{3, 1} {
		trs = append(trs, trace(t0, 60*time.Second, g, 8, activity, g))
	}
	m := Match(base, trs)
	for i, want := range []timeline.DeviceID{3, 1} {
		got := m.Of(i, 0)
		if len(got) != 1 || got[0] != want {
			t.Fatalf("trace %d: %v, want %d: %+v", i, got, want, m)
		}
		if d := trs[i].GPUs[0].Device; d.Index != int(want) || !strings.HasPrefix(d.How, "by activity, correlation ") || base.Devices[want].How != d.How {
			t.Errorf("%+v", d)
		}
	}
	if u := m.Unclaimed(); len(u) != 2 || u[0].Devices[0] != 0 || u[1].Devices[0] != 2 {
		t.Errorf("unclaimed %+v", u)
	}
	if m.Of(7, 0) != nil {
		t.Error("a trace that is not there has a card")
	}
}

func TestMatchByNumber(t *testing.T) {
	for _, c := range []struct {
		what  string
		gpus  []int // of the log
		trs   []*timeline.Reduced
		want  []int // index in the log for each trace's first GPU, -1 none
		how   string
		index bool // the trace's device takes the log's number
	}{
		{"one and one", []int{5}, []*timeline.Reduced{trace(t0, time.Second, -1, 0, flat, 0)}, []int{0}, "the only GPU", true},
		{"one and one of many ranks", []int{5}, []*timeline.Reduced{trace(t0, time.Second, 3, 8, flat, 0)}, []int{0}, "assumed: the only GPU", false},
		{"one and two", []int{0, 1}, []*timeline.Reduced{trace(t0, time.Second, -1, 0, flat, 0)}, []int{-1}, "", false},
		{"all ranks see device 0", []int{0, 1}, []*timeline.Reduced{trace(t0, time.Second, 1, 2, flat, 0), trace(t0, time.Second, 0, 2, flat, 0)}, []int{1, 0}, "assumed: rank = GPU index", false},
		{"one rank of two", []int{0, 1}, []*timeline.Reduced{trace(t0, time.Second, 1, 2, flat, 0)}, []int{1}, "assumed: rank = GPU index", false},
		{"world of two nodes", []int{0, 1}, []*timeline.Reduced{trace(t0, time.Second, 1, 4, flat, 0)}, []int{-1}, "", false},
		{"no rank", []int{0, 1}, []*timeline.Reduced{trace(t0, time.Second, -1, 2, flat, 0)}, []int{-1}, "", false},
	} {
		base := placedLogs(flat, c.gpus...)
		m := Match(base, c.trs)
		for i, want := range c.want {
			got := m.Of(i, 0)
			d := c.trs[i].GPUs[0].Device
			if want < 0 {
				if len(got) != 0 || d.How != "" || len(m.Notes) == 0 {
					t.Errorf("%s: %v %q %v", c.what, got, d.How, m.Notes)
				}
				continue
			}
			if len(got) != 1 || int(got[0]) != want || !strings.HasPrefix(d.How, c.how) {
				t.Errorf("%s: trace %d: %v, want %d: %q", c.what, i, got, want, d.How)
			}
			if (d.Index >= 0) != c.index {
				t.Errorf("%s: index %d", c.what, d.Index)
			}
		}
	}
}

func TestMatchOrdinals(t *testing.T) {
	base := placedLogs(flat, 0, 1, 2, 3)
	tr := trace(t0, time.Second, -1, 0, flat, 0, 1, 2, 3) // one process drives four
	m := Match(base, []*timeline.Reduced{tr})
	for g := range 4 {
		if got := m.Of(0, g); len(got) != 1 || int(got[0]) != g || !strings.HasPrefix(tr.GPUs[g].Device.How, "by number") {
			t.Errorf("GPU %d: %v %q", g, got, tr.GPUs[g].Device.How)
		}
	}
}

func TestMatchActivityOverrulesNumbers(t *testing.T) {
	busyOne := func(gpu int, at timeline.Time) float64 {
		if gpu == 1 {
			return 0
		}
		return activity(gpu, at)
	}
	base := placedLogs(busyOne, 0, 1)
	tr := trace(t0, 60*time.Second, 1, 2, activity, 0) // rank 1 of 2, but GPU 1 of the log sleeps
	m := Match(base, []*timeline.Reduced{tr})
	if got := m.Of(0, 0); len(got) != 1 || got[0] != 0 {
		t.Errorf("%v %q", got, tr.GPUs[0].Device.How)
	}
}

func TestMatchByUUIDAndAcrossLogs(t *testing.T) {
	base := &timeline.Timeline{}
	logSource(base, "n1/dmon.log", t0-20e9, 90, 0, time.Second, activity, 0, 1)
	q := logSource(base, "n1/query.csv", t0-20e9, 90, 0, time.Second, activity, 0, 1)
	logSource(base, "n2/dmon.log", t0-20e9, 90, 0, time.Second, activity, 0, 1)
	base.Sources[q].Format = "smiquery"
	for i := range base.Clocks {
		base.Clocks[i].How = timeline.Stated
	}
	base.Devices[3].UUID, base.Devices[3].Bus, base.Devices[3].Name = "GPU-b", "0000:18:00", "NVIDIA H100"
	tr := trace(t0, time.Second, 5, 16, flat, 0)
	tr.GPUs[0].Device.UUID = "GPU-b"
	m := Match(base, []*timeline.Reduced{tr})
	if got := m.Of(0, 0); len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Fatalf("%v %+v", got, m)
	}
	if d := tr.GPUs[0].Device; d.How != "by UUID" || d.Index != 1 || d.Bus != "0000:18:00" {
		t.Errorf("%+v", d)
	}
	u := m.Unclaimed() // GPU 0 of n1 from both logs, GPUs 0 and 1 of n2
	if len(u) != 3 || len(u[0].Devices) != 2 || !strings.Contains(u[0].How, "by index") || len(u[1].Devices) != 1 || len(u[2].Devices) != 1 {
		t.Errorf("%+v", u)
	}
}

func TestTwoHostsInOneFolder(t *testing.T) {
	base := &timeline.Timeline{}
	logSource(base, "dmon-a.log", t0, 90, 0, time.Second, activity, 0)
	logSource(base, "dmon-b.log", t0, 90, 0, time.Second, activity, 0)
	logSource(base, "dmon-a2.log", t0+1000e9, 90, 0, time.Second, activity, 0) // later: of a or of b?
	m := Match(base, nil)
	if len(m.Cards) != 3 {
		t.Errorf("%+v", m.Cards)
	}
}

func TestMatchRepeatedCaptures(t *testing.T) {
	base := placedLogs(activity, 0, 1)
	a, b := trace(t0, 30*time.Second, 1, 2, activity, 1), trace(t0+30e9, 30*time.Second, 1, 2, activity, 1)
	m := Match(base, []*timeline.Reduced{a, b})
	if x, y := m.Of(0, 0), m.Of(1, 0); len(x) != 1 || len(y) != 1 || x[0] != 1 || y[0] != 1 {
		t.Errorf("%v %v", x, y)
	}
}

func TestNamesForbid(t *testing.T) {
	base := placedLogs(flat, 0)
	base.Devices[0].Name = "NVIDIA H100 80GB HBM3"
	tr := trace(t0, time.Second, -1, 0, flat, 0)
	tr.GPUs[0].Device.Name = "NVIDIA A100-SXM4-80GB"
	if m := Match(base, []*timeline.Reduced{tr}); m.Of(0, 0) != nil {
		t.Errorf("%+v", m.Cards)
	}
	tr.GPUs[0].Device.Name = "H100 80GB HBM3"
	if m := Match(base, []*timeline.Reduced{tr}); m.Of(0, 0) == nil {
		t.Error("the same name in another spelling")
	}
}
