package engine

import (
	"testing"

	"gpureport/ingest/timeline"
)

// TestNamesOfTheTimeline holds what is spelt again here against its source.
func TestNamesOfTheTimeline(t *testing.T) {
	if len(owners) != int(timeline.NOwners) {
		t.Errorf("%d owners, the ledger has %d", len(owners), timeline.NOwners)
	}
	for _, o := range owners {
		if _, ok := timeline.ParseOwner(o); !ok {
			t.Errorf("the ledger has no owner %s", o)
		}
	}
	if confHint != timeline.Hint || confInferred != timeline.Inferred || confMeasured != timeline.Measured {
		t.Error("confidences differ from the time line's")
	}
}
