package facts

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// lateBench is four ranks on one host, rank 2 late, each card sampled once a second around the traced window [1 s, 11 s).
func lateBench() *bench {
	b := newBench()
	b.in.Logs = map[string][]timeline.DeviceID{}
	for i := range 4 {
		b.rank(i, "a", steps(100, 0.1, func(int) owned { return owned{timeline.CommPeerWait: 0.02} }))
		d := b.device(i, a100, "")
		b.in.Logs[b.in.Job.GPUs[i].ID] = []timeline.DeviceID{d}
		b.series(d, timeline.SMBusy, 1, flat(30, 1)...)
	}
	b.in.Job.Culprits = []ledger.Culprit{{Rank: 2, Last: 95, Of: 100, WaitNS: 5e9}}
	b.in.Window = timeline.Interval{Start: 0, End: 31e9}
	return b
}

func (b *bench) all(m timeline.Metric, of func(gpu int) []float64) {
	for i := range 4 {
		b.series(timeline.DeviceID(i), m, 1, of(i)...)
	}
}

func only2(n int, late, other float64) func(int) []float64 {
	return func(i int) []float64 {
		if i == 2 {
			return flat(n, late)
		}
		return flat(n, other)
	}
}

func look(b *bench) lateCard {
	p := &Pass{Input: b.in, Facts: NewSet(Subjects(b.in), Decls())}
	return cardOfLate(p, 2)
}

func TestLateCardCutForHeat(t *testing.T) {
	b := lateBench()
	b.all(timeline.ClockSM, only2(30, 0.94e9, 1.41e9))
	b.all(timeline.Reasons, only2(30, reasonHWThermal, 0))
	l := look(b)
	if l.Cause != causeHardware || l.Slows != causeCompute || l.RuledOut || l.Conf != timeline.Measured {
		t.Errorf("%+v", l)
	}
	for _, words := range []string{"GPU 2 of rank 2", "940 MHz against 1410 MHz", "heat cut its clocks in 100 %"} {
		if !strings.Contains(l.Says, words) {
			t.Errorf("says %q, want %q", l.Says, words)
		}
	}
	if l.NRefs == 0 || len(l.Refs) == 0 || l.Refs[0].Path != "smi.csv" {
		t.Errorf("refs %v of %d", l.Refs, l.NRefs)
	}
	g := b.derive(t)
	g.num("run", runCardFlag, 1)
	g.num("run", runCardRuledOut, 0)
	g.num("run", runCardClock, 0.94/1.41)
}

func TestLateCardLikeItsPeers(t *testing.T) {
	b := lateBench()
	b.all(timeline.ClockSM, only2(30, 1.395e9, 1.41e9))
	b.all(timeline.Reasons, only2(30, 0, 0))
	b.all(timeline.PowerLimit, only2(30, 400, 400))
	g := b.derive(t)
	g.num("run", runCardFlag, 0)
	g.num("run", runCardRuledOut, 1)
	if v := g.value("run", runCardSays); !strings.Contains(v.Text, "reads like its peers") || !strings.Contains(v.Text, "400 W") {
		t.Errorf("says %q", v.Text)
	}
}

// Heat that came after the traced seconds held nobody up in them.
func TestLateCardOtherSeconds(t *testing.T) {
	b := lateBench()
	b.all(timeline.ClockSM, func(i int) []float64 {
		if i == 2 {
			return append(flat(16, 1.41e9), flat(14, 0.7e9)...)
		}
		return flat(30, 1.41e9)
	})
	if l := look(b); !l.RuledOut || l.Cause != "" {
		t.Errorf("%+v", l)
	}
	// Nobody knows which seconds the log is of: it may blame, and clears nothing.
	b.in.Base.Clocks[0].How = timeline.Unplaced
	if l := look(b); l.RuledOut || l.Conf != timeline.Inferred {
		t.Errorf("%+v", l)
	}
	b.in.Base.Clocks[0].How, b.in.Base.Clocks[0].Error = timeline.Assumed, 3600e9
	if l := look(b); l.RuledOut {
		t.Errorf("an hour's error clears: %+v", l)
	}
}

// A card that works while the others spin draws more power: a clock that the power limit takes from it is no fault.
func TestLateCardAtItsPowerLimit(t *testing.T) {
	b := lateBench()
	b.all(timeline.ClockSM, only2(30, 1.2e9, 1.41e9))
	b.all(timeline.Reasons, only2(30, reasonPowerCap, 0))
	if l := look(b); l.Cause != "" || l.RuledOut || !strings.Contains(l.Says, "neither blames nor clears") {
		t.Errorf("%+v", l)
	}
	b.all(timeline.PowerLimit, only2(30, 250, 400))
	if l := look(b); l.Cause != causeHardware || !strings.Contains(l.Says, "250 W against 400 W") {
		t.Errorf("%+v", l)
	}
}

func TestLateCardLink(t *testing.T) {
	b := lateBench()
	b.all(timeline.ClockSM, only2(30, 1.41e9, 1.41e9))
	b.all(timeline.PCIeGen, only2(30, 1, 4))
	b.all(timeline.PCIeWidth, only2(30, 16, 16))
	if l := look(b); l.Cause != causeHardware || l.Slows != causeTransfer || !strings.Contains(l.Says, "Gen1 x16") {
		t.Errorf("%+v", l)
	}
}

func TestLateCardXid(t *testing.T) {
	b := lateBench()
	b.all(timeline.ClockSM, only2(30, 1.41e9, 1.41e9))
	src := b.kernelLog(timeline.Recorded, 0, 31)
	tr := b.track(src, 2)
	m := &b.in.Base.Marks
	m.Track, m.Kind, m.At, m.Code, m.Name, m.Row = append(m.Track, tr), append(m.Kind, timeline.MarkXid), append(m.At, 5e9), append(m.Code, 74), append(m.Name, 0), append(m.Row, 3)
	if l := look(b); l.Cause != causeHardware || l.Slows != "" || !strings.Contains(l.Says, "Xid 74") {
		t.Errorf("%+v", l)
	}
}

// The far socket is a setting and not a fault of the card: it is said, and the card is cleared.
func TestLateCardFarSocket(t *testing.T) {
	b := lateBench()
	b.all(timeline.ClockSM, only2(30, 1.41e9, 1.41e9))
	for i := range 4 {
		b.in.Job.Ranks[i].Process.PID = int64(100 + i)
		d := timeline.DeviceID(i)
		b.attr(b.track(0, d), timeline.AttrCPUAffinity, "0-15", 0, unit.Text)
		cpus := "0-15"
		if i == 2 {
			cpus = "16-31"
		}
		b.attr(b.part(timeline.TrackProcess, "python", int64(100+i), timeline.ProcCPU, 1), timeline.AttrProcCPUs, cpus, 0, unit.Text)
	}
	if l := look(b); !l.RuledOut || !strings.Contains(l.Says, "another socket") {
		t.Errorf("%+v", l)
	}
}

func TestLateCardUnknown(t *testing.T) {
	b := newBench()
	for i := range 4 {
		b.rank(i, "a", steps(100, 0.1, func(int) owned { return owned{timeline.CommPeerWait: 0.02} }))
	}
	b.in.Job.Culprits = []ledger.Culprit{{Rank: 2, Last: 95, Of: 100, WaitNS: 5e9}}
	b.derive(t).missing("run", runCardFlag, "no sampled log of this GPU")
	b.in.Job.Culprits = nil
	b.derive(t).missing("run", runCardSays, "no collective")
}
