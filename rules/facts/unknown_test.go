package facts

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

func TestUnknownReasons(t *testing.T) {
	r := handRank(0, h100, 1, timeline.Owners{timeline.Compute: 50 * ms, timeline.UnknownOwner: 50 * ms})
	g := &r.GPUs[0]
	g.Subs[timeline.UnknownOwner] = []timeline.SubNS{{Sub: timeline.SubUncorrelated, NS: 15 * ms}, {Sub: timeline.SubLag, NS: ms / 2}, {Sub: timeline.SubNoOperators, NS: 34 * ms}}
	s := derive(t, handInput(t, r))
	gpu := subject(t, s, "gpu0")
	why, _ := s.Get(gpu, "gpu.unknown_why")
	says, _ := s.Get(gpu, "gpu.unknown_says")
	if !strings.HasPrefix(why.Text, "neither operators nor CPU samples were recorded") {
		t.Errorf("most is unknown because %q", why.Text)
	}
	if !strings.HasPrefix(says.Text, "34 %: neither operators") || !strings.Contains(says.Text, "; 15 %: the operations that end the gaps have no launch call") || strings.Contains(says.Text, "long after") {
		t.Errorf("reasons: %q", says.Text)
	}
	g.Owners = timeline.Owners{timeline.Compute: 100 * ms}
	g.Subs[timeline.UnknownOwner] = nil
	s = derive(t, handInput(t, r))
	want(t, s, "gpu0", "gpu.unknown_why", missing)
	want(t, s, "gpu0", "gpu.unknown_says", missing)
}

// Every sub-owner that the ledger gives unknown time has its reason.
func TestEveryUnknownHasAReason(t *testing.T) {
	for _, sub := range []timeline.Sub{timeline.SubNone, timeline.SubUncorrelated, timeline.SubLag, timeline.SubMissingEvents, timeline.SubNoOperators} {
		l := &timeline.GPULedger{Window: timeline.Interval{End: 100}}
		l.Subs[timeline.UnknownOwner] = []timeline.SubNS{{Sub: sub, NS: 40}}
		if why, says := unknownSays(l); why == "" || !strings.HasPrefix(says, "40 %: ") || !strings.Contains(says, "record ") {
			t.Errorf("sub-owner %d: %q", sub, says)
		}
	}
}
