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

// Unequal tokens return what the rank that is late for them costs; where nobody is named, no more than was waited.
func TestTokensSaveWhatLatenessCosts(t *testing.T) {
	tokens := func(in *Input) *Input {
		for i, r := range in.Job.Ranks {
			r.Rank.Shapes, r.Rank.Matmuls = true, []timeline.MatmulRow{{M: 8192, N: 4096, K: 4096, DType: "bf16", TensorCore: 1, Count: 100, Dur: 500 * ms}}
			r.Rank.TokensOf = "embedding"
			for range r.Steps.Index {
				r.Rank.StepTokens = append(r.Rank.StepTokens, 8192)
			}
			if i == 2 {
				r.Rank.Matmuls[0].M = 12288
				for k := range r.Rank.StepTokens {
					r.Rank.StepTokens[k] = 12288
				}
			}
		}
		in.Job.Waits[0].Owner = timeline.Compute
		return in
	}
	late := timeline.Owners{timeline.Compute: 95 * ms, timeline.CommTransfer: 5 * ms}
	s := derive(t, tokens(lateJob(t, late)))
	if v, _ := s.Get(0, "run.culprit_cause"); v.Text != causeUneven {
		t.Fatalf("cause %q", v.Text)
	}
	want(t, s, "run", "run.save_late_frac", 0.24) // spread, three of four ranks return 32 of 100
	want(t, s, "run", "run.rank_tokens_wait_frac", 0.24)
	in := tokens(lateJob(t, late))
	in.Job.Culprits, in.Job.Waits[0].Culprit = nil, -1
	want(t, derive(t, in), "run", "run.rank_tokens_wait_frac", 0.21)
}
