package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

func TestLaunchSaving(t *testing.T) {
	// 200 kernels of 3 us in a step of 2 ms; between two of them the GPU takes 1.2 us by itself, however early they are launched.
	step := timeline.Owners{timeline.Compute: 600_000, timeline.HostLaunch: 1_400_000}
	r := handRank(0, h100, 10, step)
	r.GPUs[0].Ops = 2000
	want(t, derive(t, handInput(t, r)), "gpu0", "gpu.save_launch_frac", 0.7-200*1200/2e6)
	// What is switched between already is not taken off again.
	r = handRank(0, h100, 10, timeline.Owners{timeline.Compute: 600_000, timeline.HostLaunch: 1_200_000, timeline.GapSwitch: 200_000})
	r.GPUs[0].Ops = 2000
	want(t, derive(t, handInput(t, r)), "gpu0", "gpu.save_launch_frac", 0.6-40_000/2e6)
	// A long gap before one of few kernels is all launching.
	r = handRank(0, h100, 10, timeline.Owners{timeline.Compute: 80 * ms, timeline.HostLaunch: 20 * ms})
	r.GPUs[0].Ops = 20
	want(t, derive(t, handInput(t, r)), "gpu0", "gpu.save_launch_frac", 0.2-2*1200/100e6)
}
