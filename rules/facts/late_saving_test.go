package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

// lateJob is four ranks of which rank 2 is late by 30 of 100 ms: the others wait for it, and see transfers too that its lateness uncovers.
func lateJob(t *testing.T, late timeline.Owners) *Input {
	var ranks []*timeline.Reduced
	for i := range 4 {
		o := timeline.Owners{timeline.Compute: 63 * ms, timeline.CommPeerWait: 28 * ms, timeline.CommTransfer: 9 * ms}
		if i == 2 {
			o = late
		}
		ranks = append(ranks, handRank(i, h100, 10, o))
	}
	in := handInput(t, ranks...)
	in.Job.Waits = []ledger.Wait{{Culprit: 2, Owner: timeline.HostDataloader, DurNS: 840 * ms, Conf: timeline.Measured}}
	in.Job.Culprits = []ledger.Culprit{{Rank: 2, Last: 30, Of: 30, WaitNS: 840 * ms}}
	return in
}

func TestLateSaving(t *testing.T) {
	// Its loader mended, all are as fast as the others were: 100 ms less what those were held longer in collectives than it was.
	s := derive(t, lateJob(t, timeline.Owners{timeline.Compute: 63 * ms, timeline.HostDataloader: 30 * ms, timeline.CommTransfer: 7 * ms}))
	want(t, s, "run", "run.peer_wait_frac", 0.21)
	if v := want(t, s, "run", "run.save_late_frac", 0.30); v.Conf != timeline.Measured {
		t.Errorf("it is %v", v.Conf)
	}
	// Nobody can be named: the mean wait is all that is known.
	in := lateJob(t, timeline.Owners{timeline.Compute: 63 * ms, timeline.HostDataloader: 30 * ms, timeline.CommTransfer: 7 * ms})
	in.Job.Culprits = nil
	in.Job.Waits[0].Culprit = -1
	want(t, derive(t, in), "run", "run.save_late_frac", 0.21)
	// One that waits nearly as little as the late rank would be the next to hold all up.
	in = lateJob(t, timeline.Owners{timeline.Compute: 63 * ms, timeline.HostDataloader: 30 * ms, timeline.CommTransfer: 7 * ms})
	in.Job.Ranks[3] = handRank(3, h100, 10, timeline.Owners{timeline.Compute: 88 * ms, timeline.CommPeerWait: 5 * ms, timeline.CommTransfer: 7 * ms})
	want(t, derive(t, in), "run", "run.save_late_frac", (2*28+5)/400.)
	// No trace says nothing.
	want(t, derive(t, handInput(t)), "run", "run.save_late_frac", missing)
}
