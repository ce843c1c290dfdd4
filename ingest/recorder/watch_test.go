//go:build linux

package recorder_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/recorder"
	"gpureport/ingest/timeline"
)

// A capture without Xids says that there were none only where the driver had promised to tell those of every GPU.
func TestSilenceIsEvidenceWhereXidsWereWatched(t *testing.T) {
	for _, mute := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "host.gpurec.jsonl")
		d := newFake(2)
		d.mute = mute
		start := time.Now().UnixNano()
		if _, err := recorder.Run(context.Background(), recorder.Options{Path: path, Period: recorder.MinPeriod, Duration: 700 * time.Millisecond, Driver: d, Tool: "test"}); err != nil {
			t.Fatal(err)
		}
		end := time.Now().UnixNano()
		src := &readBack(t, path).Sources[0]
		if got := slices.Contains(src.Watches, timeline.MarkXid); got == mute {
			t.Errorf("mute %v: watches Xids %v", mute, got)
		}
		if mute {
			continue
		}
		const slack = 200e6
		if len(src.Coverage) != 1 || int64(src.Coverage[0].Start) < start-slack || int64(src.Coverage[0].End) > end+slack || src.Coverage[0].Dur() < 100*time.Millisecond {
			t.Errorf("covers %v, recorded [%d, %d)", src.Coverage, start, end)
		}
		if hdr := records(t, path)[0]; hdr["xids"] != true || !strings.HasPrefix(hdr["schema"].(string), "gpureport") {
			t.Errorf("%v", hdr)
		}
	}
}
