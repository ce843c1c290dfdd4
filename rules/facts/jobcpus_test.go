package facts

import (
	"fmt"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// shared is a host of 64 CPUs on which ranks with given CPUs used and waited for, each may run on cpus; the host's queue holds 30 tasks.
func shared(ranks int, cpus func(int) string, used, waited float64) *bench {
	b := newBench()
	b.in.Base.Sources[0].Host = "node1"
	b.series(b.device(0, a100, ""), timeline.SMBusy, 1, flat(10, 1)...)
	h := b.whole(timeline.CPUBusy, 0.2, 0.4)
	b.attr(h, timeline.AttrHostCPUs, "", 64, unit.Count)
	b.whole(timeline.RunQueue, 30, 30, 30, 30)
	for r := range ranks {
		t := b.part(timeline.TrackProcess, "python", int64(100+r), timeline.ProcCPU, used, used, used, 0.01)
		b.part(timeline.TrackProcess, "python", int64(100+r), timeline.ProcRunWait, waited, waited, waited, 0)
		b.attr(t, timeline.AttrProcGPU, fmt.Sprint(r), 0, unit.Text)
		if set := cpus(r); set != "" {
			b.attr(t, timeline.AttrProcCPUs, set, 0, unit.Text)
		}
	}
	return b
}

func TestRunQueueOfTheJob(t *testing.T) {
	two := func(int) string { return "0-1" }
	g := shared(8, two, 0.25, 0.7).derive(t)
	g.num("node1", hostQuota, 2)
	g.num("node1", hostCrowded, 0.75) // not in the last reading
	g.num("node1", hostQueue, (3*8*0.95+8*0.01)/4/2)

	g = shared(8, two, 0.2, 0).derive(t) // nobody waits: what others run on the host's other CPUs is nothing to it
	g.num("node1", hostQuota, 2)
	g.num("node1", hostCrowded, 0)
	g.num("node1", hostQueue, (3*1.6+0.08)/4/2)

	g = shared(8, func(r int) string { return fmt.Sprintf("%d-%d", 8*r, 8*r+7) }, 0.25, 0.7).derive(t) // each rank its own part of all
	g.missing("node1", hostQuota, "quota of its control group")
	g.num("node1", hostCrowded, 0)
	g.num("node1", hostQueue, 30.0/64)

	g = shared(8, func(r int) string { // of one rank nobody says where it may run
		if r == 3 {
			return ""
		}
		return "0-1"
	}, 0.25, 0.7).derive(t)
	g.missing("node1", hostQuota, "")
	g.num("node1", hostCrowded, 0)

	b := shared(8, two, 0.25, 0.7)
	b.whole(timeline.CPUQuota, 1.5, 1.5) // the control group allows less
	b.derive(t).num("node1", hostQuota, 1.5)
	b = shared(8, func(int) string { return "0-63" }, 0.25, 0.7)
	b.whole(timeline.CPUQuota, 4, 4)
	g = b.derive(t)
	g.num("node1", hostQuota, 4)
	g.num("node1", hostCrowded, 0.75)
}
