package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

func TestPageableSaving(t *testing.T) {
	// Ten steps of 100 ms, in each 16 MB from pageable memory in 4 ms; of those, and of the driver's staging, the GPU waits for 5 ms.
	job := func(dev timeline.Device, exposed int64) *Input {
		r := handRank(0, dev, 10, timeline.Owners{timeline.Compute: 100*ms - exposed, timeline.CopyH2D: exposed})
		g := &r.GPUs[0]
		g.Subs[timeline.CopyH2D] = []timeline.SubNS{{Sub: timeline.SubPageable, NS: 10 * exposed}}
		g.Copies = []timeline.CopyRow{{Kind: timeline.DirH2D, Memory: timeline.MemPageable, Count: 10, Bytes: 160e6, Dur: 40 * ms}}
		return handInput(t, r)
	}
	const pinned = 16e6 / (63e9 * 0.88) // s a step over Gen5 x16
	want(t, derive(t, job(h100, 5*ms)), "gpu0", "gpu.save_pageable_frac", 0.05-pinned/0.1)
	// A quarter of the copies shows.
	want(t, derive(t, job(h100, ms)), "gpu0", "gpu.save_pageable_frac", 0.01-pinned/0.1/4)
	// Of which link it has nobody knows.
	want(t, derive(t, job(timeline.Device{Name: "unheard of"}, 5*ms)), "gpu0", "gpu.save_pageable_frac", 0.05)
	// It cannot return less than nothing: the link is as slow as the copies are.
	in := job(h100, 5*ms)
	readings(in, map[string][]float64{timeline.PCIeGenMax.Name: {3, 3, 3}, timeline.PCIeWidthMax.Name: {1, 1, 1}}, timeline.PCIeGenMax, timeline.PCIeWidthMax)
	want(t, derive(t, in), "gpu0", "gpu.save_pageable_frac", 0)
	in = job(h100, 5*ms)
	in.Job.Ranks[0].GPUs[0].Subs[timeline.CopyH2D] = nil // which memory is not recorded
	want(t, derive(t, in), "gpu0", "gpu.save_pageable_frac", missing)
}
