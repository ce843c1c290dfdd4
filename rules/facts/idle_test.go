package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

func TestLedgerShares(t *testing.T) {
	b := newBench()
	l := steps(10, 0.1, func(int) owned { return owned{timeline.HostDataloader: 0.03, timeline.CommPeerWait: 0.01} })
	l.Subs[timeline.Compute] = []timeline.SubNS{{Sub: timeline.SubMatmul, NS: 300e6}, {Sub: timeline.SubValidation, NS: 50e6}}
	r := b.rank(0, "a", l)
	r.HostBusy = make([]int64, 10)
	r.NextNS = make([]int64, 10)
	for i := range r.HostBusy {
		r.HostBusy[i], r.NextNS[i] = 80e6, 50e6
	}
	r.Collectives = []timeline.Collective{{ExposedNS: 5, Split: timeline.Inferred}, {ExposedNS: 0, Split: timeline.NoConfidence}}
	g := b.derive(t)
	g.num("run", runGPUs, 1)
	g.missing("run", runWorld, "no trace states")
	r.Collectives = nil
	b.derive(t).num("run", runWorld, 1)
	g.num("gpu0", gpuOwner[timeline.HostDataloader], 0.3)
	g.num("gpu0", gpuOwner[timeline.Compute], 0.6)
	g.num("gpu0", gpuBusy, 0.7)
	g.num("gpu0", gpuValidation, 0.05)
	g.num("gpu0", gpuClockBound, 0.3)
	g.num("rank0", rankStepP50, 0.1)
	g.num("rank0", rankHostBusy, 0.8)
	g.num("rank0", rankNext, 0.5)
	if v := g.value("gpu0", gpuOwner[timeline.CommPeerWait]); v.Conf != timeline.Inferred {
		t.Errorf("peer-wait split from one rank is %v", v.Conf)
	}
	v := g.value("gpu0", gpuOwner[timeline.HostDataloader])
	if v.NRefs != 10 || len(v.Refs) != maxRefs || v.Refs[0].String() != "rank0.json: traceEvents[3]" {
		t.Errorf("refs %v of %d", v.Refs, v.NRefs)
	}
	// A GPU's rule sees what its rank has.
	if v, need := g.set.Get(g.sub("gpu0"), rankHostBusy.ID); need != nil || v.Num != 0.8 {
		t.Errorf("gpu0 sees rank.host_busy_frac as %v, %v", v, need)
	}
}

func TestSavingsAreCapped(t *testing.T) {
	for name, c := range map[string]struct {
		loader, sync, host, next float64 // seconds of a 0.1 s step
		noHost                   bool
		saveLoader, saveSync     float64
	}{
		"the host is free":            {0.03, 0.02, 0.04, 0.03, false, 0.3, 0.2},
		"the host works all the time": {0.01, 0.02, 0.1, 0.01, false, 0.1, 0},
		"GPU busy bounds both":        {0.03, 0.02, 0.01, 0.01, false, 0.3, 0.2},
		"the loader is the host":      {0.05, 0, 0.09, 0.05, false, 0.5, 0},
		"no host side":                {0.03, 0.02, 0, 0, true, 0.3, -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			r := b.rank(0, "a", steps(20, 0.1, func(int) owned { return owned{timeline.HostDataloader: c.loader, timeline.HostSync: c.sync} }))
			for range 20 {
				if !c.noHost {
					r.HostBusy, r.NextNS = append(r.HostBusy, int64(c.host*1e9)), append(r.NextNS, int64(c.next*1e9))
				}
			}
			g := b.derive(t)
			g.num("gpu0", gpuSaveLoader, c.saveLoader)
			if c.saveSync < 0 {
				g.missing("gpu0", gpuSaveSync, "how long the host works")
				if v := g.value("gpu0", gpuSaveLoader); v.Conf != timeline.Inferred {
					t.Errorf("a bound without the host's side is %v", v.Conf)
				}
			} else {
				g.num("gpu0", gpuSaveSync, c.saveSync)
			}
		})
	}
}

func TestIdleLeavesShortGapsOut(t *testing.T) {
	l := timeline.GPULedger{Window: timeline.Interval{End: 100_000}, Busy: 80_000}
	at := timeline.Time(0)
	add := func(o timeline.Owner, ns int64) {
		l.Segments.Add(timeline.Segment{Start: at, Dur: ns, Owner: o})
		l.Owners[o] += ns
		at += timeline.Time(ns)
	}
	add(timeline.Compute, 50_000)
	add(timeline.GapSwitch, 4_000) // short
	add(timeline.Compute, 30_000)
	add(timeline.HostLaunch, 3_000) // 3 + 13 us: one long gap of two owners
	add(timeline.HostPython, 13_000)
	b := newBench()
	b.rank(0, "a", l)
	g := b.derive(t)
	g.num("gpu0", gpuIdle, 0.16)
	g.num("gpu0", gpuHostBound, 0.16)
}

func TestCheckpointShareIsOfItsInterval(t *testing.T) {
	b := newBench()
	b.rank(0, "a", steps(20, 0.1, func(i int) owned {
		if i == 10 {
			return owned{timeline.HostCheckpoint: 1}
		}
		return nil
	}))
	g := b.derive(t)
	g.about("gpu0", gpuCheckpointAll, 1/2.9, 1e-9)
	b.in.Set = map[string]string{"save_every": "100"}
	g = b.derive(t)
	g.about("gpu0", gpuCheckpointAll, 1.0/11, 1e-9)
}

func TestHostCalls(t *testing.T) {
	b := newBench()
	r := b.rank(0, "a", steps(11, 0.1, func(int) owned { return nil }))
	r.Rank = timeline.RankTables{SyncCalls: 22, SyncNS: 550e6, AllocCalls: 30, OverheadNS: 110e6,
		Calls: []timeline.CallRow{{Name: "cudaMalloc", Rows: []uint32{7, 9}}}}
	g := b.derive(t)
	g.num("rank0", rankSyncCalls, 2)
	g.num("rank0", rankSyncIn, 0.5)
	g.num("rank0", rankOverhead, 0.1)
	g.num("rank0", rankAllocCalls, 3)
	g.num("rank0", rankOpsPerStep, 100)
	if v := g.value("rank0", rankAllocCalls); len(v.Refs) != 2 || v.Refs[1].Row != 9 {
		t.Errorf("refs %v", v.Refs)
	}
}

// How much there is to judge, and a world that only a collective's group states.
func TestRunShape(t *testing.T) {
	b := newBench()
	l := steps(4, 0.1, func(int) owned { return nil })
	r := b.rank(0, "a", l)
	r.Process.Backend = "nccl"
	g := b.derive(t)
	g.num("run", runOps, 400)
	g.num("run", runWindow, 0.4)
	g.missing("run", runWorld, "no trace states")
	r.Collectives = []timeline.Collective{{GroupSize: 8, Bytes: -1, Step: -1}}
	b.derive(t).num("run", runWorld, 8)
	newBench().derive(t).missing("run", runOps, "no PyTorch trace")
}

// Python and CPU operators are not "0 %" where nobody recorded operators.
func TestNoOperatorsRecorded(t *testing.T) {
	b := newBench()
	r := b.rank(0, "a", steps(4, 0.1, func(int) owned { return owned{timeline.HostLaunch: 0.02, timeline.UnknownOwner: 0.03} }))
	r.Rank.Operators = false
	g := b.derive(t)
	g.missing("gpu0", gpuOwner[timeline.HostPython], "neither operators nor CPU samples")
	g.missing("gpu0", gpuOwner[timeline.HostCPUOp], "neither operators nor CPU samples")
	g.num("gpu0", gpuOwner[timeline.HostLaunch], 0.2)
	r.Rank.Operators = true
	b.derive(t).num("gpu0", gpuOwner[timeline.HostPython], 0)
}

func TestAnUnusedGPUIsNoIdleGPU(t *testing.T) {
	b := newBench()
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, flat(60, 1)...)
	b.series(b.device(1, a100, ""), timeline.SMBusy, 1, flat(60, 0)...)
	g := b.derive(t)
	g.num("gpu0", gpuIdle, 0)
	g.missing("gpu1", gpuIdle, "does not use it")

	b = newBench() // where no other GPU worked, the run's stood still
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, flat(60, 0)...)
	b.derive(t).num("gpu0", gpuIdle, 1)
}
