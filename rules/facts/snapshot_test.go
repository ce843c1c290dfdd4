package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

// TestSnapshot: one reading of each metric, as nvidia-smi -q gives, says what is set and nothing about the run.
func TestSnapshot(t *testing.T) {
	b := newBench()
	d := b.device(0, "", "")
	b.series(d, timeline.SMBusy, 1, 0)
	b.series(d, timeline.Power, 1, 26)
	b.series(d, timeline.ClockSM, 1, 300e6)
	b.series(d, timeline.ClockSMMax, 1, 1980e6)
	b.series(d, timeline.PowerLimit, 1, 300)
	b.series(d, timeline.PowerDefault, 1, 400)
	b.series(d, timeline.PCIeGen, 1, 1)
	b.series(d, timeline.PCIeGenMax, 1, 5)
	b.series(d, timeline.PCIeWidth, 1, 16)
	b.series(d, timeline.PCIeWidthMax, 1, 16)
	b.series(d, timeline.Reasons, 1, 0x41)
	g := b.derive(t)
	g.num("gpu0", gpuSamples, 1)
	g.num("gpu0", gpuPowerLimit, 0.75)
	for _, d := range []*Decl{gpuUtil, gpuUtilLow, gpuUtilFull, gpuPower} {
		g.missing("gpu0", d, "holds 1 samples")
	}
	for _, d := range []*Decl{gpuLinkLow, gpuClock, gpuHWThermal} {
		g.missing("gpu0", d, "under load")
	}
	g.missing("gpu0", gpuLost, "for a moment only")
}

// TestSnapshotBesideTheRun: limits that were printed before the log began hold for it; its temperature then does not.
func TestSnapshotBesideTheRun(t *testing.T) {
	b := newBench()
	d := b.device(0, "", "")
	b.series(d, timeline.PowerLimit, 1, 300)
	b.series(d, timeline.PowerDefault, 1, 400)
	b.series(d, timeline.TempGPU, 1, 99)
	b.in.Window = timeline.Interval{Start: 1000e9, End: 1100e9}
	g := b.derive(t)
	g.num("gpu0", gpuPowerLimit, 0.75)
	g.missing("gpu0", gpuTempMax, "GPU temperature")
}
