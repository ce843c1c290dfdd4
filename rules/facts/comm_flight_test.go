package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// flight adds the dump of one rank: what it says of its groups and of what had not ended.
func flight(in *Input, rank int, groups, pending []string) {
	b := in.Base
	b.Clocks = append(b.Clocks, timeline.Clock{})
	b.Sources = append(b.Sources, timeline.Source{Path: "fr.json", Format: "flight-recorder", Clock: timeline.ClockID(len(b.Clocks) - 1)})
	src := timeline.SourceID(len(b.Sources) - 1)
	b.Procs = append(b.Procs, timeline.Process{Source: src, Rank: rank})
	b.Tracks = append(b.Tracks, timeline.Track{Source: src, Kind: timeline.TrackOther, Proc: len(b.Procs) - 1, Device: -1})
	t := timeline.TrackID(len(b.Tracks) - 1)
	for _, g := range groups {
		b.Attrs = append(b.Attrs, timeline.Attr{Track: t, Name: timeline.AttrFlightGroup, Text: g, Unit: unit.Text, Row: 5})
	}
	for _, g := range pending {
		b.Attrs = append(b.Attrs, timeline.Attr{Track: t, Name: timeline.AttrFlightPending, Text: g, Unit: unit.Text, Row: 6})
	}
}

func TestFlight(t *testing.T) {
	in := handInput(t, exposed(0))
	want(t, derive(t, in), "run", "run.stuck_collectives_count", missing)
	flight(in, 0, []string{"41 42 42 default_pg", "7 7 7 tp 0"}, []string{"42 started nccl:all_reduce default_pg"})
	flight(in, 1, []string{"41 41 41 default_pg"}, nil)
	flight(in, 2, []string{"41 42 43 default_pg"}, []string{"42 started nccl:all_reduce default_pg", "43 scheduled nccl:_all_gather_base default_pg"})
	s := derive(t, in)
	want(t, s, "run", "run.stuck_collectives_count", 2)
	if v, need := s.Get(0, "run.stuck_collective"); need != nil || v.Text != "collective 42 nccl:all_reduce of group default_pg: ranks 0, 2 wait, not come: 1 (last came to 41)" {
		t.Errorf("%q %v", v.Text, need)
	}

	in = handInput(t, exposed(0))
	flight(in, 0, []string{"41 41 41 default_pg"}, nil)
	s = derive(t, in)
	want(t, s, "run", "run.stuck_collectives_count", 0)
	if _, need := s.Get(0, "run.stuck_collective"); need == nil {
		t.Error("nothing is stuck")
	}
}
