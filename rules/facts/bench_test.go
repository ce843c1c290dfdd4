package facts

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules"
	"gpureport/rules/ledger"
)

// bench builds inputs by hand.
type bench struct{ in *Input }

func newBench() *bench {
	tables, err := ledger.LoadTables(rules.FS)
	if err != nil {
		panic(err)
	}
	base := &timeline.Timeline{Sources: []timeline.Source{{Path: "smi.csv", Format: "smiquery", Used: true}},
		Clocks: []timeline.Clock{{Name: "smi.csv", How: timeline.Stated}}}
	return &bench{&Input{Job: &ledger.Job{}, Base: base, Tables: tables}}
}

func (b *bench) source(path, format string, how timeline.Placement) timeline.SourceID {
	b.in.Base.Clocks = append(b.in.Base.Clocks, timeline.Clock{Name: path, How: how})
	b.in.Base.Sources = append(b.in.Base.Sources, timeline.Source{Path: path, Format: format, Clock: timeline.ClockID(len(b.in.Base.Clocks) - 1)})
	return timeline.SourceID(len(b.in.Base.Sources) - 1)
}

func (b *bench) device(index int, name, uuid string) timeline.DeviceID {
	return b.deviceOf(0, index, name, uuid)
}

func (b *bench) deviceOf(src timeline.SourceID, index int, name, uuid string) timeline.DeviceID {
	b.in.Base.Devices = append(b.in.Base.Devices, timeline.Device{Index: index, Ordinal: -1, Name: name, UUID: uuid, Proc: -1, Source: src})
	return timeline.DeviceID(len(b.in.Base.Devices) - 1)
}

// series adds readings from second 1 on, spacing seconds apart; NaN is a reading that was not taken.
func (b *bench) series(d timeline.DeviceID, m timeline.Metric, spacing float64, values ...float64) {
	b.seriesAt(d, m, 1, spacing, values...)
}

func (b *bench) seriesAt(d timeline.DeviceID, m timeline.Metric, from, spacing float64, values ...float64) {
	tl := b.in.Base
	tl.Tracks = append(tl.Tracks, timeline.Track{Source: tl.Devices[d].Source, Kind: timeline.TrackGPU, Proc: -1, Device: d})
	s := timeline.Series{Metric: m, Track: timeline.TrackID(len(tl.Tracks) - 1)}
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		s.At = append(s.At, timeline.Time((from+float64(i)*spacing)*1e9))
		s.Value = append(s.Value, v)
		s.Row = append(s.Row, uint32(i+2))
	}
	tl.Series = append(tl.Series, s)
}

func flat(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// square is a square curve: of each period the first duty share is low.
func square(n, period int, duty, high, low float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = high
		if float64(i%period) < duty*float64(period) {
			out[i] = low
		}
	}
	return out
}

// owned is seconds by owner.
type owned map[timeline.Owner]float64

// steps makes a ledger of n steps of dur seconds; of each step the owners stand in owner order, the rest is compute.
func steps(n int, dur float64, of func(i int) owned) timeline.GPULedger {
	l := timeline.GPULedger{Device: timeline.Device{Index: -1, Name: "NVIDIA A100-SXM4-80GB"}}
	at := timeline.Time(1e9)
	l.Window.Start = at
	row := uint32(1)
	for i := range n {
		o := of(i)
		s := timeline.StepRow{Start: at, Dur: int64(math.Round(dur * 1e9))}
		total := int64(0)
		for owner, sec := range o {
			s.Owners[owner] = int64(math.Round(sec * 1e9))
			total += s.Owners[owner]
		}
		if total > s.Dur {
			s.Dur = total
		}
		s.Owners[timeline.Compute] += s.Dur - total
		for owner, ns := range s.Owners {
			if ns == 0 {
				continue
			}
			l.Segments.Add(timeline.Segment{Start: at, Dur: ns, Row: row, Owner: timeline.Owner(owner)})
			at += timeline.Time(ns)
			row++
			if !gapOwner(timeline.Owner(owner)) {
				l.Busy += ns
			}
		}
		l.Owners.Add(&s.Owners)
		l.Steps = append(l.Steps, s)
	}
	l.Window.End = at
	l.Ops = int64(n) * 100
	return l
}

// rank adds a process that drove the given ledger.
func (b *bench) rank(number int, host string, l timeline.GPULedger) *timeline.Reduced {
	r := &timeline.Reduced{Path: fmt.Sprintf("rank%d.json", number), Process: timeline.Process{Rank: number, Host: host}, GPUs: []timeline.GPULedger{l}, Rank: timeline.RankTables{Operators: true}}
	if len(l.Steps) > 0 {
		r.Steps = timeline.StepMarks{How: "ProfilerStep", Confidence: timeline.Measured}
		for i, s := range l.Steps {
			r.Steps.Index = append(r.Steps.Index, int64(i))
			r.Steps.All = append(r.Steps.All, timeline.Interval{End: timeline.Time(s.Dur)}.Dur())
		}
	}
	b.in.Job.Ranks = append(b.in.Job.Ranks, r)
	b.in.Job.GPUs = append(b.in.Job.GPUs, ledger.GPURef{ID: fmt.Sprintf("gpu%d", len(b.in.Job.GPUs)), Rank: len(b.in.Job.Ranks) - 1})
	return r
}

// got reads facts back.
type got struct {
	t   *testing.T
	set *Set
}

func (b *bench) derive(t *testing.T) got {
	t.Helper()
	set, errs := Derive(b.in)
	for _, err := range errs {
		t.Error(err)
	}
	return got{t, set}
}

func (g got) sub(id string) int {
	g.t.Helper()
	for i, s := range g.set.Subjects {
		if s.ID == id {
			return i
		}
	}
	g.t.Fatalf("no subject %s", id)
	return -1
}

func (g got) value(id string, d *Decl) Value {
	g.t.Helper()
	v, need := g.set.Get(g.sub(id), d.ID)
	if need != nil {
		g.t.Fatalf("%s of %s is missing: %s", d.ID, id, need.Why)
	}
	return v
}

// num asserts a number.
func (g got) num(id string, d *Decl, want float64) {
	g.t.Helper()
	if v := g.value(id, d); math.Abs(v.Num-want) > 1e-6*(1+math.Abs(want)) {
		g.t.Errorf("%s of %s is %v, want %v", d.ID, id, v.Num, want)
	}
}

// about asserts a number within tol.
func (g got) about(id string, d *Decl, want, tol float64) {
	g.t.Helper()
	if v := g.value(id, d); math.Abs(v.Num-want) > tol {
		g.t.Errorf("%s of %s is %v, want %v within %v", d.ID, id, v.Num, want, tol)
	}
}

func (g got) text(id string, d *Decl, want string) {
	g.t.Helper()
	if v := g.value(id, d); v.Text != want {
		g.t.Errorf("%s of %s is %q, want %q", d.ID, id, v.Text, want)
	}
}

// missing asserts that a fact is absent and says why.
func (g got) missing(id string, d *Decl, words string) {
	g.t.Helper()
	v, need := g.set.Get(g.sub(id), d.ID)
	switch {
	case need == nil:
		g.t.Errorf("%s of %s is %v, want it missing", d.ID, id, v.Num)
	case !strings.Contains(need.Why, words):
		g.t.Errorf("%s of %s is missing with %q, want words %q", d.ID, id, need.Why, words)
	}
}
