package ingest

import (
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

type event struct {
	code int32
	at   timeline.Time
}

// kernelLog adds a log of numbered events; boot: its stamps count from the host's boot.
func kernelLog(base *timeline.Timeline, path, host string, boot bool, events ...event) timeline.SourceID {
	src := timeline.SourceID(len(base.Sources))
	c := timeline.Clock{Name: path, Step: time.Microsecond, Boot: boot}
	if !boot {
		c.Wall, c.Zoned, c.How = true, true, timeline.Recorded
	}
	base.Clocks = append(base.Clocks, c)
	base.Sources = append(base.Sources, timeline.Source{Path: path, Format: "kernellog", Host: host, Used: true, Clock: timeline.ClockID(src)})
	base.Tracks = append(base.Tracks, timeline.Track{Source: src, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1})
	for i, e := range events {
		base.Marks.Append(timeline.MarkXid, timeline.TrackID(len(base.Tracks)-1), e.at, e.code, 0, uint32(i+1))
	}
	return src
}

func stateBoot(base *timeline.Timeline, src timeline.SourceID, at timeline.Time) {
	base.Tracks = append(base.Tracks, timeline.Track{Source: src, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1})
	base.Attrs = append(base.Attrs, timeline.Attr{Track: timeline.TrackID(len(base.Tracks) - 1), Name: timeline.AttrHostBoot, Value: float64(at / 1e9), Unit: unit.Second})
}

func TestPlaceFromBoot(t *testing.T) {
	boot := t0 - 86400e9
	for _, c := range []struct {
		what string
		with func(base *timeline.Timeline)
		how  timeline.Placement
		want timeline.Time // offset
		says string
	}{
		{"nobody says", func(*timeline.Timeline) {}, timeline.Unplaced, 0, "no input states when that was"},
		{"the recorder of its folder does", func(b *timeline.Timeline) {
			stateBoot(b, logSource(b, "n/rec.jsonl", t0, 60, 0, time.Millisecond, flat, 0), boot)
		}, timeline.Recorded, boot, "stamps count from boot, at 2026-07-13T08:00:00Z as n/rec.jsonl of the same folder states"},
		{"twice, a second apart", func(b *timeline.Timeline) {
			stateBoot(b, logSource(b, "n/rec.jsonl", t0, 60, 0, time.Millisecond, flat, 0), boot)
			stateBoot(b, logSource(b, "n/rec2.jsonl", t0, 60, 0, time.Millisecond, flat, 0), boot+1e9)
		}, timeline.Recorded, boot, "n/rec.jsonl"},
		{"its host's, wherever that lies", func(b *timeline.Timeline) {
			a := logSource(b, "x/rec.jsonl", t0, 60, 0, time.Millisecond, flat, 0)
			b.Sources[a].Host = "n1.cluster"
			stateBoot(b, a, boot)
			o := logSource(b, "n/rec.jsonl", t0, 60, 0, time.Millisecond, flat, 0)
			b.Sources[o].Host = "n2"
			stateBoot(b, o, boot-500e9)
		}, timeline.Recorded, boot, "x/rec.jsonl of the same host"},
		{"two boots, one of which meets the run", func(b *timeline.Timeline) {
			stateBoot(b, logSource(b, "n/rec.jsonl", t0, 60, 0, time.Millisecond, flat, 0), boot)
			stateBoot(b, logSource(b, "n/old.jsonl", t0, 60, 0, time.Millisecond, flat, 0), boot-400*86400e9)
		}, timeline.Recorded, boot, "the only one after which it meets the rest"},
		{"two boots that both fit", func(b *timeline.Timeline) {
			stateBoot(b, logSource(b, "n/rec.jsonl", t0, 60, 0, time.Millisecond, flat, 0), boot)
			stateBoot(b, logSource(b, "n/old.jsonl", t0, 60, 0, time.Millisecond, flat, 0), boot-30e9)
		}, timeline.Unplaced, 0, "the inputs state several: 2026-07-13T07:59:30Z (n/old.jsonl), 2026-07-13T08:00:00Z (n/rec.jsonl)"},
		{"the same events in the journal", func(b *timeline.Timeline) {
			kernelLog(b, "n/journal.json", "", false, event{31, t0 + 10e9}, event{79, t0 + 17e9}, event{43, t0 + 40e9})
		}, timeline.Matched, boot, "3 of its 4 events are those of n/journal.json"},
		{"the same events at two times", func(b *timeline.Timeline) {
			kernelLog(b, "n/journal.json", "", false, event{31, t0 + 10e9}, event{79, t0 + 17e9}, event{31, t0 + 110e9}, event{79, t0 + 117e9})
		}, timeline.Unplaced, 0, "2 of its events fit those of other logs if that was at 2026-07-13T08:00:00Z, and as many if at 2026-07-13T08:01:40Z: not placed"},
		{"one event is none", func(b *timeline.Timeline) { kernelLog(b, "n/journal.json", "", false, event{79, t0 + 17e9}) }, timeline.Unplaced, 0, "no input states"},
	} {
		base := &timeline.Timeline{}
		src := kernelLog(base, "n/dmesg.txt", "n1", true, event{13, 5e9}, event{31, 86410e9}, event{79, 86417e9}, event{43, 86440e9 + 2e8})
		c.with(base)
		for i := range base.Clocks {
			if k := &base.Clocks[i]; !k.Boot {
				k.How, k.Zoned = timeline.Recorded, true
			}
		}
		Place(base, []*timeline.Reduced{trace(t0, time.Minute, 0, 1, activity, 0)}, Options{})
		k := base.Clocks[src]
		if k.How != c.how || !strings.Contains(k.Why, c.says) || k.How != timeline.Unplaced && k.Error < time.Second {
			t.Errorf("%s: %+v", c.what, k)
		}
		near(t, c.what, k.Offset, time.Duration(c.want), 500*time.Millisecond)
		for i, tr := range base.Marks.Track {
			if base.Tracks[tr].Source == src && base.Marks.Code[i] == 79 {
				near(t, c.what+": the mark", time.Duration(base.Marks.At[i]-86417e9), k.Offset, 0)
			}
		}
	}
}
