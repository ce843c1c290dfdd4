package render

import (
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

// What was not recorded is told by what there is, not by the tool that recorded it.
func TestUnseenAsksTheReadings(t *testing.T) {
	series := func(ms ...timeline.Metric) (out []Series) {
		for _, m := range ms {
			out = append(out, Series{Metric: m.Name})
		}
		return out
	}
	for _, c := range []struct {
		format    string
		series    []Series
		want, not string
	}{
		{"smi-q", series(timeline.ClockSM, timeline.Power, timeline.TempGPU, timeline.PCIeGen), "No clock reasons.", "power"},
		{"gpureport-record", series(timeline.ClockSM, timeline.Power, timeline.TempGPU, timeline.Reasons, timeline.PCIeGen), "", "No clock"},
		{"dcgmi-dmon", series(timeline.Power), "No clocks or temperatures. No clock reasons or link state.", "power"},
		{"torchprof", nil, "No clocks, power or temperatures.", "reasons"},
		{"dmon", series(timeline.SMBusy), "No clocks, power or temperatures.", "reasons"},
	} {
		got := unseenText(&Report{Inputs: []InputRow{{Format: c.format, Used: true}}, Series: c.series})
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: %q, want %q and not %q", c.format, got, c.want, c.not)
		}
	}
}
