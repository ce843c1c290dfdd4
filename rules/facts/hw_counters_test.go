package facts

import (
	"testing"

	"gpureport/ingest/timeline"
)

// A state that was saved twice, a file each, says as much as a log with two readings; other formats may count otherwise and stay aside.
func TestCountersOverFiles(t *testing.T) {
	b := newBench()
	b.in.Logs = map[string][]timeline.DeviceID{}
	one := func(format string, how timeline.Placement, m timeline.Metric, at, value float64) {
		src := b.source(format+".txt", format, how)
		d := b.deviceOf(src, 0, a100, "GPU-0")
		b.seriesAt(d, m, at, 1, value)
		b.in.Logs["gpu0"] = append(b.in.Logs["gpu0"], d)
	}
	one("smi-q", timeline.Stated, timeline.PCIeReplays, 70, 1397)
	one("smi-q", timeline.Stated, timeline.PCIeReplays, 10, 812)
	one("smi-q", timeline.Stated, timeline.ECCUncorrected, 10, 4)
	one("smi-q", timeline.Stated, timeline.ECCUncorrected, 70, 4)
	one("other", timeline.Stated, timeline.ECCUncorrected, 80, 9)
	one("nvlink", timeline.Unplaced, timeline.NVLinkErrors, 0, 540)
	one("nvlink", timeline.Unplaced, timeline.NVLinkErrors, 0, 505)
	g := b.derive(t)
	g.num("gpu0", gpuReplays, 585)
	g.num("gpu0", gpuReplayRate, 585.0/60)
	g.num("gpu0", gpuECC, 0)
	g.num("gpu0", gpuNVErrors, 35)
}

func TestCounterWithoutTime(t *testing.T) {
	b := newBench()
	for _, n := range []float64{900, 812} {
		b.seriesAt(b.deviceOf(b.source("q.txt", "smi-q", timeline.Unplaced), 0, a100, "GPU-0"), timeline.PCIeReplays, 0, 1, n)
	}
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0, 1}}
	g := b.derive(t)
	g.num("gpu0", gpuReplays, 88)
	g.missing("gpu0", gpuReplayRate, "not known")
}
