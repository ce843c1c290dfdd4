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

// readings adds what lies in the file of a trace: series of its GPUs, on their own clock.
func readings(base *timeline.Timeline, path string, devices ...timeline.Device) (timeline.SourceID, []timeline.DeviceID) {
	src := timeline.SourceID(len(base.Sources))
	base.Clocks = append(base.Clocks, timeline.Clock{Name: path, Wall: true, Zoned: true, How: timeline.Recorded})
	base.Sources = append(base.Sources, timeline.Source{Path: path, Format: "nsys", Used: true, Clock: timeline.ClockID(src)})
	var ids []timeline.DeviceID
	for _, d := range devices {
		d.Source, d.Proc = src, -1
		ids = append(ids, timeline.DeviceID(len(base.Devices)))
		base.Devices = append(base.Devices, d)
		base.Tracks = append(base.Tracks, timeline.Track{Source: src, Kind: timeline.TrackGPU, Device: ids[len(ids)-1], Proc: -1, Thread: -1})
		base.Series = append(base.Series, timeline.Series{Metric: timeline.ClockSM, Track: timeline.TrackID(len(base.Tracks) - 1), At: []timeline.Time{t0, t0 + 1e7}, Value: []float64{1e9, 1e9}, Row: []uint32{1, 2}})
	}
	return src, ids
}

func TestMatchSameFile(t *testing.T) {
	free := timeline.Device{Index: -1, Ordinal: -1}
	with := func(f func(d *timeline.Device)) timeline.Device { d := free; f(&d); return d }
	for _, c := range []struct {
		what string
		own  []timeline.Device
		gpu  func(i int, d *timeline.Device)
		gpus int
		want []int // own device of each GPU of the trace; -1 none
	}{
		{"the only one", []timeline.Device{free}, nil, 1, []int{0}},
		{"one of two is nobody's", []timeline.Device{free}, nil, 2, []int{-1, -1}},
		{"by UUID", []timeline.Device{with(func(d *timeline.Device) { d.UUID = "GPU-b" }), with(func(d *timeline.Device) { d.UUID = "GPU-a" })},
			func(i int, d *timeline.Device) { d.UUID = []string{"GPU-a", "GPU-b"}[i] }, 2, []int{1, 0}},
		{"by ordinal", []timeline.Device{with(func(d *timeline.Device) { d.Ordinal = 1 }), with(func(d *timeline.Device) { d.Ordinal = 0 })}, nil, 2, []int{1, 0}},
		{"another UUID is another GPU", []timeline.Device{with(func(d *timeline.Device) { d.UUID = "GPU-b" })},
			func(i int, d *timeline.Device) { d.UUID = "GPU-a" }, 1, []int{-1}},
	} {
		base := &timeline.Timeline{}
		_, ids := readings(base, "run.sqlite", c.own...)
		gpus := make([]int, c.gpus)
		tr := trace(t0, time.Second, 0, 1, flat, gpus...)
		tr.Path = "run.sqlite"
		for i := range tr.GPUs {
			if c.gpu != nil {
				c.gpu(i, &tr.GPUs[i].Device)
			}
		}
		m := Match(base, []*timeline.Reduced{tr})
		for i, want := range c.want {
			got := m.Of(0, i)
			if want < 0 {
				if len(got) != 0 {
					t.Errorf("%s: GPU %d has %v", c.what, i, got)
				}
				continue
			}
			if len(got) != 1 || got[0] != ids[want] || base.Devices[got[0]].How != "same file" || tr.GPUs[i].Device.How != "same file" {
				t.Errorf("%s: GPU %d: %v, %q", c.what, i, got, tr.GPUs[i].Device.How)
			}
		}
	}
}

// A GPU's own readings and the logs of it are one card: its file tells the UUID, the query log the index, dmon only that.
func TestMatchThroughTheFile(t *testing.T) {
	base := &timeline.Timeline{}
	_, own := readings(base, "n/run.sqlite", timeline.Device{UUID: "GPU-b", Bus: "0000:3b:00", Index: -1, Ordinal: -1}, timeline.Device{UUID: "GPU-a", Bus: "0000:18:00", Index: -1, Ordinal: -1})
	q := logSource(base, "n/query.csv", t0-20e9, 90, 0, time.Second, activity, 0, 1)
	dm := logSource(base, "n/dmon.log", t0-20e9, 90, 0, time.Second, activity, 0, 1)
	base.Sources[q].Format = "smiquery"
	base.Clocks[q].How, base.Clocks[dm].How = timeline.Stated, timeline.Stated
	base.Devices[own[1]+1].UUID, base.Devices[own[1]+2].UUID = "GPU-a", "GPU-b"
	tr := trace(t0, time.Second, 0, 1, flat, 0)
	tr.Path, tr.GPUs[0].Device.Bus = "n/run.sqlite", "0000:3b:00"
	m := Match(base, []*timeline.Reduced{tr})
	if got := m.Of(0, 0); len(got) != 3 || got[0] != own[1]+2 || got[1] != own[1]+4 || got[2] != own[0] {
		t.Fatalf("%v: %+v", got, m.Cards)
	}
	if d := tr.GPUs[0].Device; d.UUID != "GPU-b" || d.Index != 1 || d.How != "by UUID" || base.Devices[own[0]].How != "same file" {
		t.Errorf("%+v", d)
	}
	if u := m.Unclaimed(); len(u) != 1 || len(u[0].Devices) != 3 || u[0].Devices[0] != own[1] {
		t.Errorf("%+v", u)
	}
}

func TestMatchInTheOrderOfBuses(t *testing.T) {
	for _, names := range [][]string{{"", ""}, {"", "NVIDIA H100"}} {
		base := placedLogs(flat, 0, 1, 2)
		base.Devices[1].Name = names[1]
		_, own := readings(base, "run.sqlite", timeline.Device{UUID: "GPU-c", Bus: "0000:86:00", Index: -1, Ordinal: -1}, timeline.Device{UUID: "GPU-a", Bus: "0000:18:00", Name: "NVIDIA A100", Index: -1, Ordinal: -1})
		tr := trace(t0, time.Second, 0, 1, flat, 0)
		tr.Path, tr.GPUs[0].Device.Bus, tr.GPUs[0].Device.Name = "other.sqlite", "0000:3b:00", "NVIDIA A100"
		m := Match(base, []*timeline.Reduced{tr})
		got := m.Of(0, 0)
		if names[1] != "" {
			if len(got) != 0 || len(m.Notes) != 1 {
				t.Errorf("another model: %v %v", got, m.Notes)
			}
			continue
		}
		if len(got) != 1 || got[0] != 1 || tr.GPUs[0].Device.Index != 1 || !strings.HasPrefix(tr.GPUs[0].Device.How, "by number") {
			t.Errorf("%v %+v", got, tr.GPUs[0].Device)
		}
		u := m.Unclaimed()
		if len(u) != 2 || len(u[0].Devices) != 2 || u[0].Devices[0] != 0 || u[0].Devices[1] != own[1] || u[1].Devices[1] != own[0] {
			t.Errorf("%+v", u)
		}
	}
}

// A log of events names one GPU of many: which of them is not told by that.
func TestMatchOfEventsNeedsIdentity(t *testing.T) {
	base := &timeline.Timeline{}
	k := kernelLog(base, "dmesg.txt", "", false, event{79, t0})
	base.Devices = append(base.Devices, timeline.Device{Bus: "0000:3b:00", Index: -1, Ordinal: -1, Proc: -1, Source: k})
	base.Tracks[0].Device, base.Tracks[0].Kind = 0, timeline.TrackGPU
	tr := trace(t0, time.Second, -1, 0, flat, 0)
	if m := Match(base, []*timeline.Reduced{tr}); m.Of(0, 0) != nil || len(m.Unclaimed()) != 1 {
		t.Errorf("%+v", m.Cards)
	}
	tr.GPUs[0].Device.Bus = "0000:3b:00"
	if m := Match(base, []*timeline.Reduced{tr}); len(m.Of(0, 0)) != 1 || tr.GPUs[0].Device.How != "by PCI bus" {
		t.Errorf("%+v", m.Cards)
	}
}

func TestMatchByNamedHosts(t *testing.T) {
	base := &timeline.Timeline{}
	a := logSource(base, "logs/a.log", t0-20e9, 90, 0, time.Millisecond, activity, 0)
	b := logSource(base, "logs/b.log", t0-20e9, 90, 0, time.Millisecond, activity, 0)
	base.Sources[a].Host, base.Sources[b].Host = "n2.cluster", "n1.cluster"
	base.Devices[0].Bus, base.Devices[1].Bus = "0000:18:00", "0000:18:00"
	one, two := trace(t0, time.Second, 0, 2, flat, 0), trace(t0, time.Second, 1, 2, flat, 0)
	one.Process.Host, two.Process.Host = "n1", "n2"
	one.GPUs[0].Device.Bus, two.GPUs[0].Device.Bus = "0000:18:00", "0000:18:00"
	m := Match(base, []*timeline.Reduced{one, two})
	if x, y := m.Of(0, 0), m.Of(1, 0); len(x) != 1 || x[0] != 1 || len(y) != 1 || y[0] != 0 || one.GPUs[0].Device.How != "by PCI bus" {
		t.Errorf("%v %v %+v", x, y, m.Cards)
	}
}

// A device that is known by its bus alone finds the card of the log that knows bus and UUID, whichever comes first.
func TestGroupByWhatIsKnown(t *testing.T) {
	base := &timeline.Timeline{}
	logSource(base, "a.log", t0, 90, 0, time.Second, activity, 1)
	logSource(base, "b.log", t0, 90, 0, time.Second, activity, 1)
	logSource(base, "c.log", t0, 90, 0, time.Second, activity, 1)
	for i, f := range []string{"a", "b", "c"} {
		base.Sources[i].Format = f
	}
	base.Devices[0] = timeline.Device{Bus: "0000:3b:00", Index: -1, Ordinal: -1, Proc: -1, Source: 0}
	base.Devices[2].Bus, base.Devices[2].UUID = "0000:3b:00", "GPU-b"
	if m := Match(base, nil); len(m.Cards) != 1 || len(m.Cards[0].Devices) != 3 {
		t.Errorf("%+v", m.Cards)
	}
}

// Two logs of one kind at one time are of two hosts, whatever their folder: their GPUs of one number are two.
func TestMatchLogsAlone(t *testing.T) {
	base := &timeline.Timeline{}
	q := logSource(base, "b.csv", t0, 90, 0, time.Second, flat, 1, 0)
	logSource(base, "c.log", t0, 90, 0, time.Second, flat, 1)
	logSource(base, "d.log", t0, 90, 0, time.Second, flat, 1)
	base.Sources[q].Format = "smiquery"
	base.Devices[0].UUID, base.Devices[1].UUID = "GPU-1", "GPU-0"
	u := Match(base, nil).Unclaimed()
	if len(u) != 3 || u[0].Devices[0] != 1 || len(u[1].Devices) != 1 || u[1].Devices[0] != 3 || len(u[2].Devices) != 2 {
		t.Errorf("%+v", u)
	}
}

// What a kernel log, which names its host, says of one GPU does not move it behind the others.
func TestEventsLeaveTheOrder(t *testing.T) {
	base := placedLogs(flat, 0, 1, 2)
	for i := range base.Devices {
		base.Devices[i].Bus = []string{"0000:18:00", "0000:3b:00", "0000:86:00"}[i]
	}
	k := kernelLog(base, "dmesg.txt", "n1", false, event{79, t0})
	base.Devices = append(base.Devices, timeline.Device{Bus: "0000:3b:00", Index: -1, Ordinal: -1, Proc: -1, Source: k})
	base.Tracks[len(base.Tracks)-1].Device = 3
	u := Match(base, nil).Unclaimed()
	if len(u) != 3 || len(u[1].Devices) != 2 || u[1].Devices[0] != 1 || u[2].Devices[0] != 2 {
		t.Errorf("%+v", u)
	}
}
