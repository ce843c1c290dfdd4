package render

import (
	"strings"
	"testing"
)

func counterReport() *Report {
	sm, dram, one := 0.96, 0.05, 0.5
	r := &Report{Window: Window{DurNS: 10e9}, GPUs: []GPU{{ID: "gpu0", Activity: &Activity{SM: &sm, SMComputing: &sm, DRAM: &dram, Cover: &one}}, {ID: "gpu1"}}}
	r.Ledger = []LedgerRow{{GPU: "gpu0", StartNS: 8e9, WindowNS: 1e9, Owners: map[string]int64{"compute": 1e9}}}
	add := func(metric, subject string, values ...float64) {
		s := Series{Metric: metric, Subject: subject, Covers: "window", WindowNS: 1e6, Path: "run.sqlite"}
		for i, v := range values {
			s.AtNS, s.Value = append(s.AtNS, int64(79e8+float64(i)*5e8)), append(s.Value, v)
		}
		r.Series = append(r.Series, s)
	}
	add("net_tx_bytes_per_s", "mlx5_1:1", 0, 0, 0)
	add("clock_sm_hz", "gpu0", 1.98e9, 1.98e9, 1.98e9)
	add("dram_active_frac", "gpu0", 0.1, 0, 0.05)
	add("sm_active_frac", "gpu0", 1, 0.9, 0.98)
	add("net_tx_bytes_per_s", "mlx5_0:1", 1e9, 2e9, 0)
	return r
}

// Counters stand where utilisation stands, the network stands next to the ledger rows; what was not sampled is no empty lane.
func TestCounterLanes(t *testing.T) {
	s, ok := timeLineSection(counterReport())
	if !ok {
		t.Fatal("no time line")
	}
	tl := s.Blocks[0].(TimeLine)
	var titles []string
	for _, l := range tl.Lanes {
		titles = append(titles, l.Title)
	}
	if got := strings.Join(titles, ", "); got != "SMs in use, DRAM, SM clock, Net out" {
		t.Errorf("lanes %s", got)
	}
	if got := strings.Join(tl.Missing, ", "); strings.Contains(got, "Tensor") || !strings.Contains(got, "Utilisation: not recorded") {
		t.Errorf("missing %s", got)
	}
	net := tl.Lanes[3]
	names := net.Curves[0].Name
	for _, c := range net.Curves[1:] {
		names += ", " + c.Name
	}
	if !strings.Contains(names, "mlx5_0:1") || net.Table == nil || net.Table.Columns[1].Title != "Port" {
		t.Errorf("ports %s, table %+v", names, net.Table.Columns)
	}
	// The recording begins 7.899 s before the first thing that is drawn.
	if tl.StartS < 7.898 || tl.StartS > 7.9 || tl.EndS != 9 {
		t.Errorf("axis from %g to %g", tl.StartS, tl.EndS)
	}
	hw, _ := hardwareSection(counterReport())
	if l := hw.Blocks[0].(Lanes); l.StartS < 7.898 || l.EndS != 8.9 {
		t.Errorf("hardware from %g to %g", l.StartS, l.EndS)
	}
}

func TestActivityTable(t *testing.T) {
	tab, ok := activityTable(counterReport())
	if !ok || len(tab.Rows) != 1 {
		t.Fatalf("%+v", tab.Rows)
	}
	var cells []string
	for _, c := range tab.Rows[0].Cells {
		cells = append(cells, c.Text)
	}
	if got, want := strings.Join(cells, "|"), "GPU"+nbsp+"0|96.0|unknown|unknown|96.0|unknown|5.0|50"+nbsp+"%"; got != want {
		t.Errorf("row %q, want %q", got, want)
	}
	if _, ok := activityTable(&Report{GPUs: []GPU{{ID: "gpu0"}}}); ok {
		t.Error("a table without counters")
	}
}
