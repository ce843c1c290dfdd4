package facts

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// edges is a loop of epochs of 100 steps of 0.1 s whose first step takes 10 s from the second epoch on, ending at 10, 30 and 50 s (steps of
// the epoch's start: 20, 40), beside a host whose processes were read each second for a minute.
func edges() (*bench, func(pid int64, from, to int, start float64) timeline.TrackID) {
	b := logged(300, func(i int) float64 {
		if i%100 == 0 && i > 0 {
			return 10.1
		}
		return 0.1
	}, map[timeline.Metric]func(int) float64{timeline.StepEpoch: func(i int) float64 { return float64(i / 100) }})
	src := b.source("host.gpurec.jsonl", "gpureport-record", timeline.Recorded)
	b.in.Base.Sources[0].Host, b.in.Base.Sources[src].Host = "node1", "node1"
	proc := func(pid int64, from, to int, start float64) timeline.TrackID {
		tl := b.in.Base
		name := "pt_data_worker"
		if pid == 100 {
			name = "python"
		}
		tl.Tracks = append(tl.Tracks, timeline.Track{Source: src, Kind: timeline.TrackProcess, Name: name, Thread: pid, Proc: -1, Device: -1})
		id := timeline.TrackID(len(tl.Tracks) - 1)
		s := timeline.Series{Metric: timeline.ProcCPU, Track: id}
		for i := from; i <= to; i++ {
			s.At, s.Value, s.Row = append(s.At, timeline.Time(i)*1e9), append(s.Value, 0.3), append(s.Row, uint32(i))
		}
		tl.Series = append(tl.Series, s)
		if start >= 0 {
			tl.Attrs = append(tl.Attrs, timeline.Attr{Track: id, Name: timeline.AttrProcStart, Value: 7200 + start, Unit: unit.Second, At: timeline.Time(start * 1e9), Row: 7})
		}
		return id
	}
	b.attr(proc(100, 0, 60, 0.5), timeline.AttrProcGPU, "0", 0, unit.Text)
	return b, proc
}

func TestWorkersMadeAnew(t *testing.T) {
	b, proc := edges()
	for w := range int64(4) {
		proc(101+w, 1, 10, 0.9)
		proc(201+w, 12, 30, 10.5)
		proc(301+w, 31, 50, 30.5)
	}
	g := b.derive(t)
	g.num("loop", rankEdges, 2)
	g.num("loop", rankRespawn, 1)
	// From 10.5 s to 20.1 s, when the first step is done, less a step, of the 20 s from the last step of the epoch before to the last of this one.
	g.about("loop", rankSpawn, (20.1-10.5-0.1)/20, 1e-3)
	if s := g.value("loop", rankSpawned).Text; !strings.HasPrefix(s, "processes 101, 102, 103, 104 before, processes 201, 202, 203, 204 behind it, the first one started 9.6 s before") {
		t.Error(s)
	}
	if c := g.value("loop", rankRespawn).Conf; c != timeline.Inferred {
		t.Errorf("whose children they are is not known: %v", c)
	}
	g.num("node1", hostWorkers, 4) // at one time
	g.num("node1", hostWanted, 6)
}

func TestWorkersThatStay(t *testing.T) {
	b, proc := edges()
	for w := range int64(4) {
		proc(101+w, 1, 60, 0.9)
	}
	proc(900, 19, 20, 18.5) // the workers of evaluation live between two epochs
	proc(901, 39, 40, 38.5)
	g := b.derive(t)
	g.num("loop", rankRespawn, 0)
	g.num("loop", rankSpawn, 0)
	g.missing("loop", rankSpawned, "the same on both sides")
}

// An evaluation of 9 s lies before the new workers' start: what they cost is the rest.
func TestEvaluationBeforeNewWorkers(t *testing.T) {
	b, proc := edges()
	w := proc(101, 1, 30, 0.9)
	b.in.Base.Attrs = append(b.in.Base.Attrs, timeline.Attr{Track: w, Name: timeline.AttrProcStart, Value: 7219.8, Unit: unit.Second, At: 19.8e9, Row: 8}) // the pid was given again
	g := b.derive(t)
	g.num("loop", rankRespawn, 1)
	g.about("loop", rankSpawn, 0.2/20, 1e-3)
}

// Without a stated start the first reading stands for it.
func TestWorkersOfUnknownStart(t *testing.T) {
	b, proc := edges()
	proc(101, 1, 10, -1)
	proc(201, 11, 30, -1)
	g := b.derive(t)
	g.num("loop", rankRespawn, 1)
	g.about("loop", rankSpawn, 9.0/20, 1e-3)
	if c := g.value("loop", rankSpawn).Conf; c != timeline.Inferred {
		t.Errorf("confidence %v", c)
	}
}

func TestChildrenOfTheRank(t *testing.T) {
	b, proc := edges()
	r := b.rank(0, "node1", steps(4, 0.1, func(int) owned { return nil }))
	r.Process.PID = 100
	for w := range int64(2) {
		b.attr(proc(101+w, 1, 60, 0.9), timeline.AttrProcParent, "", 100, unit.Count)
		b.attr(proc(501+w, 1, 10, 0.9), timeline.AttrProcParent, "", 400, unit.Count) // another job makes its own anew
		b.attr(proc(601+w, 11, 60, 10.5), timeline.AttrProcParent, "", 400, unit.Count)
	}
	g := b.derive(t)
	g.num("rank0", rankRespawn, 0)
	if c := g.value("rank0", rankRespawn).Conf; c != timeline.Measured {
		t.Errorf("confidence %v", c)
	}
}

// A trace over an edge whose frames start workers tells as much, where no processes were recorded.
func TestWorkersThatFramesStart(t *testing.T) {
	b, _ := edges()
	r := b.rank(0, "node1", steps(4, 0.1, func(int) owned { return nil }))
	r.Rank.StackFrames, r.Rank.WorkerStarts = true, timeline.Held{Calls: 4, Name: "multiprocessing/popen_fork.py(62): _launch", Rows: []uint32{9}}
	g := b.derive(t)
	g.num("rank0", rankRespawn, 1)
	g.num("rank0", rankSpawn, g.value("rank0", rankEdgeFrac).Num)
	g.text("rank0", rankSpawned, "by Python frames the main thread started 4 workers of the loader in traced steps")
	if v := g.value("rank0", rankRespawn); v.Conf != timeline.Inferred || len(v.Refs) != 1 {
		t.Errorf("%+v", v)
	}
}

func TestWorkersThatCannotBeJudged(t *testing.T) {
	b, _ := edges()
	b.derive(t).missing("loop", rankRespawn, "no process that looks like a DataLoader worker")
	b, proc := edges()
	proc(101, 1, 10, 0.9)
	b.derive(t).missing("loop", rankRespawn, "no epoch edge has workers")
	b.in.Base.Clocks[0].How = timeline.Unplaced
	b.derive(t).missing("loop", rankRespawn, "no clock that is placed")
	b = logged(200, func(int) float64 { return 0.1 }, map[timeline.Metric]func(int) float64{timeline.StepEpoch: func(i int) float64 { return float64(i / 100) }})
	g := b.derive(t)
	g.missing("loop", rankRespawn, "which host")
	if _, need := g.set.Get(g.sub("loop"), rankRespawn.ID); need.Capture != "C18" {
		t.Errorf("it asks for %s", need.Capture)
	}
	b = newBench()
	b.rank(0, "node1", steps(4, 0.1, func(int) owned { return nil }))
	g = b.derive(t)
	g.missing("rank0", rankRespawn, "no log of the training loop")
	if _, need := g.set.Get(g.sub("rank0"), rankRespawn.ID); need.Capture != "C17" { // processes would tell nothing yet
		t.Errorf("it asks for %s", need.Capture)
	}
}

func TestMainThreadByName(t *testing.T) {
	b := newBench()
	l := steps(10, 1, func(i int) owned { return owned{timeline.HostPython: 0.3} })
	r := b.rank(0, "node1", l)
	g := b.derive(t)
	g.missing("gpu0", gpuTokenize, "no Python stacks")
	g.missing("gpu0", gpuCollect, "holes of 50 ms")
	r.Rank.StackFrames = true
	g = b.derive(t)
	g.num("gpu0", gpuTokenize, 0)
	g.num("gpu0", gpuCollect, 0)
	g.num("gpu0", gpuPauseSave, 0.3)
	r.Rank.Tokenize = timeline.Held{Name: "tokenize_batch", Calls: 10, NS: 3e9, MaxNS: 3e8, GapNS: []int64{2e9}}
	r.Rank.Collect = timeline.Held{Name: "<built-in function collect>", Calls: 5, NS: 4e9, MaxNS: 1e9, GapNS: []int64{4e9}}
	g = b.derive(t)
	g.num("gpu0", gpuTokenize, 0.2)
	g.text("gpu0", gpuTokenizeName, "tokenize_batch")
	g.num("gpu0", gpuCollect, 0.4)
	g.num("gpu0", gpuCollectCount, 5)
	g.num("gpu0", gpuCollectMax, 1)
	g.num("gpu0", gpuPauseSave, 0.4)
	r.Rank.Tokenize.Name = "encode"
	if c := b.derive(t).value("gpu0", gpuTokenize).Conf; c != timeline.Inferred {
		t.Errorf("confidence %v", c)
	}
	b = newBench()
	b.rank(0, "node1", steps(10, 1, func(i int) owned { return owned{timeline.HostPython: 0.03} }))
	g = b.derive(t)
	g.num("gpu0", gpuCollect, 0)
	g.missing("gpu0", gpuCollectCount, "no Python stacks")
}

// Of each step the rank that stands longest holds up all; steps are told apart by their numbers.
func TestWhatPausesHoldUp(t *testing.T) {
	b := newBench()
	at := func(rank int) func(int) owned {
		return func(i int) owned {
			if i%4 == rank || i == 5 {
				return owned{timeline.HostPython: 0.1 * float64(rank+1)}
			}
			return nil
		}
	}
	for r := range 2 {
		b.rank(r, "node1", steps(12, 1, at(r)))
	}
	// Rank 0 in steps 0 4 8 and 5, rank 1 in steps 1 5 9: 3 x 0.1 + 3 x 0.2 of 12.
	b.derive(t).num("run", runPauseLost, 0.9/12)
	newBench().derive(t).missing("run", runPauseLost, noTrace)
}
