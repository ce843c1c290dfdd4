package facts

import (
	"math"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// part adds readings of a host, a CPU, a disk or a process, from second 1 on, one a second.
func (b *bench) part(kind timeline.TrackKind, name string, number int64, m timeline.Metric, values ...float64) timeline.TrackID {
	tl := b.in.Base
	var id timeline.TrackID = -1
	for i := range tl.Tracks {
		if t := &tl.Tracks[i]; t.Kind == kind && t.Name == name && t.Thread == number {
			id = timeline.TrackID(i)
		}
	}
	if id < 0 {
		tl.Tracks = append(tl.Tracks, timeline.Track{Kind: kind, Name: name, Thread: number, Proc: -1, Device: -1})
		id = timeline.TrackID(len(tl.Tracks) - 1)
	}
	s := timeline.Series{Metric: m, Track: id}
	for i, v := range values {
		s.At, s.Value, s.Row = append(s.At, timeline.Time(i+1)*1e9), append(s.Value, v), append(s.Row, uint32(i+2))
	}
	tl.Series = append(tl.Series, s)
	return id
}

func (b *bench) whole(m timeline.Metric, values ...float64) timeline.TrackID {
	return b.part(timeline.TrackHostReadings, "", -1, m, values...)
}

func TestHostLoad(t *testing.T) {
	b := newBench()
	b.in.Base.Sources[0].Host = "node1"
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, flat(10, 1)...)
	h := b.whole(timeline.CPUBusy, 0.2, 0.4)
	b.whole(timeline.CPUSystem, 0.1, 0.3)
	b.whole(timeline.CPUIOWait, append(flat(19, 0), 0.4)...)
	b.whole(timeline.RunQueue, 2, 8, 12, 3)
	b.whole(timeline.Blocked, 0, 0, 0, 5)
	b.whole(timeline.Throttled, 0.5, 0.1)
	b.whole(timeline.CPUQuota, 6, 6)
	b.attr(h, timeline.AttrHostCPUs, "", 8, unit.Count)
	b.part(timeline.TrackCPU, "", 0, timeline.CPUBusy, 0.95, 0.93)
	b.part(timeline.TrackCPU, "", 1, timeline.CPUBusy, 0.1, 0.1)
	for _, d := range []struct {
		name        string
		busy, await float64
		read        []float64
	}{{"sda", 0.3, 0.001, flat(9, 1e6)}, {"nvme0n1", 0.97, 0.02, []float64{9e8, 9e8, 9e8, 5e8, 5e8, 5e8, 1e8, 1e8, 1e8}}, {"nvme0n1p2", 0.9, 0.02, flat(9, 9e8)}} {
		b.part(timeline.TrackDisk, d.name, -1, timeline.DiskBusy, d.busy, d.busy)
		b.part(timeline.TrackDisk, d.name, -1, timeline.DiskAwaitRd, d.await)
		b.part(timeline.TrackDisk, d.name, -1, timeline.DiskRead, d.read...)
	}
	main := b.part(timeline.TrackProcess, "python", 100, timeline.ProcCPU, 1, 1)
	b.attr(main, timeline.AttrProcGPU, "0", 0, unit.Text)
	for i, cpu := range []float64{1, 0.95, 0.3, 0.01} { // the last one hardly runs: no worker
		b.part(timeline.TrackProcess, "python", int64(101+i), timeline.ProcCPU, cpu, cpu)
		b.part(timeline.TrackProcess, "python", int64(101+i), timeline.ProcBlocked, 0.2*float64(i))
		b.part(timeline.TrackProcess, "python", int64(101+i), timeline.ProcThreads, 8)
	}
	b.part(timeline.TrackProcess, "sshd", 7, timeline.ProcCPU, 1, 1)
	g := b.derive(t)
	g.num("node1", hostCPUs, 8)
	g.num("node1", hostBusy, 0.3)
	g.num("node1", hostSystem, 0.2)
	g.num("node1", hostIOWait, 0.02)
	g.num("node1", hostCrowded, 0.25) // 8 tasks on 8 CPUs are not too many
	g.num("node1", hostQueue, 25.0/4/8)
	g.num("node1", hostBlocked, 0.25)
	g.num("node1", hostThrottle, 0.3)
	g.num("node1", hostQuota, 6)
	g.num("node1", hostOneFull, 1)
	g.text("node1", hostDiskName, "nvme0n1")
	g.num("node1", hostDisk, 0.97)
	g.num("node1", hostAwait, 0.02)
	g.num("node1", hostReads, 1e6+5e8) // the partition is part of its disk
	g.num("node1", hostWorkers, 3)
	g.num("node1", hostWorkCPU, 2.0/3)
	g.num("node1", hostWorkIO, 0.2)
	g.num("node1", hostThreads, 24.0/6) // by the CPUs that the quota allows
	g.num("node1", hostWanted, 5)
	g.missing("node1", hostPSICPU, "no source of this host holds pressure on CPUs")
	g.about("node1", hostReadFall, 1-(1e6+1e8+9e8)/(1e6+9e8+9e8), 1e-9)
}

func TestHostWithoutReadings(t *testing.T) {
	b := newBench()
	b.rank(0, "node1", steps(4, 10, func(int) owned { return owned{timeline.Compute: 10} }))
	g := b.derive(t)
	g.missing("node1", hostBusy, "nothing of the host was recorded")
	g.missing("gpu0", gpuIORho, "")
}

func TestHostsKeepTheirReadings(t *testing.T) {
	b := newBench()
	b.in.Base.Sources[0].Host = "node1"
	b.rank(0, "node1", steps(4, 10, func(int) owned { return owned{timeline.Compute: 10} }))
	b.rank(1, "node2", steps(4, 10, func(int) owned { return owned{timeline.Compute: 10} }))
	b.whole(timeline.CPUBusy, 0.5, 0.5)
	g := b.derive(t)
	g.num("node1", hostBusy, 0.5)
	g.missing("node2", hostBusy, "no source of this host")
	b.in.Base.Sources[0].Host = "" // nobody says whose: with two hosts it is nobody's
	g = b.derive(t)
	g.missing("node1", hostBusy, "no source of this host")
}

func TestHostOfNobody(t *testing.T) {
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, flat(10, 1)...)
	b.whole(timeline.CPUBusy, 0.5, 0.5)
	g := b.derive(t)
	g.num(soleHost, hostBusy, 0.5)
	if v, need := g.set.Get(g.sub("gpu0"), hostBusy.ID); need != nil || v.Num != 0.5 {
		t.Errorf("the GPU does not see its host: %v %v", v, need)
	}
}

func TestCoSignals(t *testing.T) {
	const n, period = 120, 12
	util, io, noise := make([]float64, n), make([]float64, n), make([]float64, n)
	seed := uint32(7)
	for i := range n {
		util[i], io[i] = 0.95, 0.01
		if i%period < 3 {
			util[i] = 0.1
		}
		if (i+2)%period < 3 { // two samples before the dip
			io[i] = 0.5
		}
		seed = seed*1664525 + 1013904223
		noise[i] = float64(seed>>8) / (1 << 24)
	}
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, util...)
	b.whole(timeline.CPUIOWait, io...)
	b.whole(timeline.CPUBusy, noise...)
	g := b.derive(t)
	g.about("gpu0", gpuIORho, 1, 1e-9)
	g.num("gpu0", gpuIOLag, 2)
	if v := g.value("gpu0", gpuIONoise); v.Num <= 3/math.Sqrt(n) || v.Num >= 1 {
		t.Errorf("smooth curves count for fewer samples: noise %v", v.Num)
	}
	g.text("gpu0", gpuSignals, "iowait rises 2 s before the dips (correlation 1.00)")
}

// What a curve wobbles by while nothing happens must not hide the dips that it shares with another one.
func TestCoSignalsBesideWobble(t *testing.T) {
	const n, period = 240, 25
	var util, io, wobble, other []float64
	for i := range n {
		u, w := 0.97+0.02*noise(i), 0.005+0.005*noise(i+5000)
		if i%period >= 12 && i%period < 17 {
			u = 0.12 + 0.08*noise(i)
		}
		if i%period >= 10 && i%period < 15 {
			w = 0.28 + 0.06*noise(i+5000)
		}
		util, io, wobble, other = append(util, u), append(io, w), append(wobble, 0.97+0.02*noise(i+9000)), append(other, 0.005+0.005*noise(i+7000))
	}
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, util...)
	b.whole(timeline.CPUIOWait, io...)
	g := b.derive(t)
	if v := g.value("gpu0", gpuIORho); v.Num < 0.9 {
		t.Errorf("dips two samples behind iowait: correlation %.2f", v.Num)
	}
	g.num("gpu0", gpuIOLag, 2)
	b = newBench()
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, wobble...)
	b.whole(timeline.CPUIOWait, other...)
	g = b.derive(t)
	if v, noise := g.value("gpu0", gpuIORho), g.value("gpu0", gpuIONoise); math.Abs(v.Num) > 0.25 || math.Abs(v.Num) > noise.Num+0.1 {
		t.Errorf("two wobbles: correlation %.2f, by chance %.2f", v.Num, noise.Num)
	}
}

func TestSpearman(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
		ok   bool
	}{
		{[]float64{1, 2, 3, 4}, []float64{1, 10, 100, 1000}, 1, true},
		{[]float64{1, 2, 3, 4}, []float64{9, 7, 5, 3}, -1, true},
		{[]float64{1, 2, 3, 4, 5}, []float64{2, 1, 4, 3, 5}, 0.8, true}, // 1 - 6*4/(5*24)
		{[]float64{1, 1, 2, 2}, []float64{1, 2, 1, 2}, 0, true},
		{[]float64{1, 1, 1}, []float64{1, 2, 3}, 0, false},
	} {
		if got, ok := spearman(c.x, c.y); ok != c.ok || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("spearman(%v, %v) = %v, %v", c.x, c.y, got, ok)
		}
	}
}

func TestPauses(t *testing.T) {
	const ms = int64(1e6)
	ledger := func(holes ...int64) timeline.GPULedger {
		l := timeline.GPULedger{Window: timeline.Interval{End: timeline.Time(1000 * ms)}}
		at := int64(0)
		add := func(d int64, o timeline.Owner, row uint32) {
			if d > 0 {
				l.Segments.Add(timeline.Segment{Start: timeline.Time(at), Dur: d, Owner: o, Row: row})
				l.Owners[o] += d
				at += d
			}
		}
		for _, h := range holes {
			add(h*ms-at, timeline.Compute, 1)
			add(60*ms, timeline.HostPython, 9)
			add(20*ms, timeline.HostPython, 10)
		}
		add(1000*ms-at, timeline.Compute, 1)
		return l
	}
	b := newBench()
	b.rank(0, "n", ledger(100, 700))
	b.rank(1, "n", ledger(450))
	g := b.derive(t)
	g.num("gpu0", gpuPause, 0.16)
	g.num("gpu0", gpuPauseCount, 2)
	g.num("gpu0", gpuPauseMax, 0.08)
	g.num("run", runPauseTurns, 1)

	b = newBench() // one rank has them all
	b.rank(0, "n", ledger(100, 300, 450, 700))
	b.rank(1, "n", ledger())
	b.derive(t).num("run", runPauseTurns, 0)

	b = newBench() // every 200 ms, whoever it is
	b.rank(0, "n", ledger(100, 500))
	b.rank(1, "n", ledger(300, 700))
	b.derive(t).num("run", runPauseTurns, 0)

	b = newBench()
	b.rank(0, "n", ledger(100))
	b.derive(t).missing("run", runPauseTurns, "one rank")
}

func TestBeat(t *testing.T) {
	b := newBench()
	d := b.device(0, a100, "")
	util := make([]float64, 120) // a step of 0.9 s with one dip in it, read every second: the dip comes back every 9 s
	for i := range util {
		util[i] = 0.95
		if i%9 == 0 {
			util[i] = 0.2
		}
	}
	b.series(d, timeline.SMBusy, 1, util...)
	r := b.rank(0, "n", steps(4, 0.9, func(int) owned { return owned{timeline.Compute: 0.9} }))
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {d}}
	g := b.derive(t)
	g.about("gpu0", gpuBeat, 9, 1e-6)
	g.num("gpu0", gpuWavePeriod, 9)
	g.about("gpu0", gpuBeatMatch, 0, 1e-6)
	for i := range r.Steps.All {
		r.Steps.All[i] = 5e9
	}
	b.derive(t).missing("gpu0", gpuBeat, "sees it as it is")
}

func TestUtilRise(t *testing.T) {
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, append(flat(30, 0.4), flat(30, 0.8)...)...)
	b.series(b.device(1, a100, ""), timeline.SMBusy, 1, flat(60, 0)...)
	g := b.derive(t)
	g.num("gpu0", gpuUtilRise, 2)
	g.missing("gpu1", gpuUtilRise, "nothing ran")
}
