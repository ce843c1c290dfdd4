package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

func TestCopies(t *testing.T) {
	r := handRank(0, h100, 10, timeline.Owners{timeline.Compute: 80 * ms, timeline.CopyH2D: 20 * ms})
	g := &r.GPUs[0]
	g.Subs[timeline.CopyH2D] = []timeline.SubNS{{Sub: timeline.SubPageable, NS: 150 * ms}, {Sub: timeline.SubPinned, NS: 50 * ms}}
	g.Copies = []timeline.CopyRow{
		{Kind: timeline.DirH2D, Memory: timeline.MemPageable, Count: 10, Bytes: 600e6, Dur: 160 * ms, Exposed: 150 * ms, Rows: []uint32{7, 3}},
		{Kind: timeline.DirH2D, Memory: timeline.MemPinned, Count: 10, Bytes: 400e6, Dur: 60 * ms, BigBytes: 315e6, BigDur: 10 * ms, BigCount: 8},
		{Kind: timeline.DirD2H, Memory: timeline.MemPageable, Count: 1, Bytes: 1e12},
	}
	r.HostBusy = make([]int64, 10)
	for i := range r.HostBusy {
		r.HostBusy[i] = 97 * ms
	}
	s := derive(t, handInput(t, r))
	if v := want(t, s, "gpu0", "gpu.h2d_pageable_frac", 0.6); v.NRefs != 2 || v.Refs[0].Row != 3 {
		t.Errorf("rows are %v", v.Refs)
	}
	want(t, s, "gpu0", "gpu.h2d_mean_bytes", 50e6)
	want(t, s, "gpu0", "gpu.h2d_pageable_exposed_frac", 0.15)
	want(t, s, "gpu0", "gpu.h2d_pinned_exposed_frac", 0.05)
	want(t, s, "gpu0", "gpu.h2d_pinned_bytes_per_s", 31.5e9)
	want(t, s, "gpu0", "gpu.h2d_link_bytes_per_s", 63e9)
	if v := want(t, s, "gpu0", "gpu.h2d_link_use_frac", 0.5); v.Conf != timeline.Inferred {
		t.Errorf("a link from the table is %v", v.Conf)
	}
	// The host is busy for 97 % of the step: hiding 5 % of copies returns no more than 3 %.
	want(t, s, "gpu0", "gpu.h2d_blocking_saving_frac", 0.03)
}

// Where the host's side of the steps is not recorded the GPU alone bounds what hiding copies returns: no step is shorter than its copies.
func TestCopiesWithoutHost(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 4 * ms, timeline.CopyH2D: 95 * ms, timeline.GapSwitch: ms})
	r.GPUs[0].Subs[timeline.CopyH2D] = []timeline.SubNS{{Sub: timeline.SubPinned, NS: 95 * ms}}
	s := derive(t, handInput(t, r))
	if v := want(t, s, "gpu0", "gpu.h2d_blocking_saving_frac", 0.05); v.Conf != timeline.Inferred {
		t.Errorf("%v", v.Conf)
	}
}

func TestCopiesSampledLink(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: ms})
	r.GPUs[0].Copies = []timeline.CopyRow{{Kind: timeline.DirH2D, Memory: timeline.MemPinned, Count: 9, Bytes: 9e6, BigCount: 3, BigBytes: 12e6, BigDur: ms}}
	in := handInput(t, r)
	readings(in, map[string][]float64{"pcie_gen_max_count": {4, 4}, "pcie_width_max_count": {8, 8}}, timeline.PCIeGenMax, timeline.PCIeWidthMax)
	s := derive(t, in)
	want(t, s, "gpu0", "gpu.h2d_link_bytes_per_s", 15.75e9)
	if v := want(t, s, "gpu0", "gpu.h2d_link_use_frac", 12/15.75); v.Conf != timeline.Measured {
		t.Errorf("a sampled link is %v", v.Conf)
	}
	// Faster than the link: the link is not what it was taken for.
	r.GPUs[0].Copies[0].BigBytes = 60e6
	want(t, derive(t, in), "gpu0", "gpu.h2d_link_use_frac", missing)
	// Two copies show no speed.
	r.GPUs[0].Copies[0].BigCount = 2
	want(t, derive(t, in), "gpu0", "gpu.h2d_pinned_bytes_per_s", missing)
}

func TestCopiesUnknownMemory(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: ms, timeline.CopyH2D: ms})
	r.GPUs[0].Copies = []timeline.CopyRow{{Kind: timeline.DirH2D, Memory: timeline.MemUnknown, Count: 9, Bytes: 9e6}}
	s := derive(t, handInput(t, r))
	for _, id := range []ID{"gpu.h2d_pageable_frac", "gpu.h2d_pageable_exposed_frac", "gpu.h2d_pinned_exposed_frac", "gpu.h2d_blocking_saving_frac"} {
		want(t, s, "gpu0", id, missing)
	}
	want(t, s, "gpu0", "gpu.copy_h2d_frac", 0.5)
}

// loads gives a rank the loader waits of each step, in ms of a 100 ms step.
func loads(waits ...int64) *timeline.Reduced {
	r := handRank(0, h100, len(waits), timeline.Owners{timeline.Compute: 100 * ms})
	for i, w := range waits {
		r.GPUs[0].Steps[i].Owners[timeline.HostDataloader] = w * ms
	}
	r.Rank.Loader.Name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
	return r
}

func TestLoaderPattern(t *testing.T) {
	for _, c := range []struct {
		name          string
		waits         []int64
		n, quiet, per float64
	}{
		{"every fourth step", []int64{0, 0, 0, 90, 0, 0, 0, 95, 0, 0, 0, 85, 0, 0, 0, 91}, 4, 3. / 16, 4},
		{"once, at an epoch's start", []int64{0, 0, 0, 0, 0, 0, 0, 900, 0, 0, 0, 0, 0, 0, 0, 0}, 1, 0.5, missing},
		{"never", make([]int64, 16), 0, 1, missing},
		{"always alike", []int64{50, 50, 50, 50, 50, 50, 50, 50, 50, 50}, 10, 0, missing},
		{"too few steps", []int64{0, 0, 90, 0, 0, 90}, missing, missing, missing},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := derive(t, handInput(t, loads(c.waits...)))
			want(t, s, "rank0", "rank.loader_single_flag", 0)
			want(t, s, "rank0", "rank.loader_waits_count", c.n)
			want(t, s, "rank0", "rank.loader_quiet_frac", c.quiet)
			want(t, s, "rank0", "rank.loader_period_count", c.per)
			want(t, s, "rank0", "rank.loader_workers_flag", missing)
		})
	}
}

func TestLoaderWorkers(t *testing.T) {
	in := handInput(t, loads(0, 90, 0, 95, 0, 85, 0, 91, 0, 90))
	for workers, flag := range map[string]float64{"2": 1, "8": 0, "many": missing} {
		in.Set = map[string]string{"workers": workers}
		want(t, derive(t, in), "rank0", "rank.loader_workers_flag", flag)
	}
}

func TestLoaderOfAnotherKind(t *testing.T) {
	r := loads(1, 1, 1)
	r.Rank.Loader.Name = ""
	want(t, derive(t, handInput(t, r)), "rank0", "rank.loader_single_flag", missing)
	r.Rank.Loader.Name, r.Rank.Loader.Single = "x", true
	want(t, derive(t, handInput(t, r)), "rank0", "rank.loader_single_flag", 1)
}
