package torchprof

import "testing"

func TestRankOfName(t *testing.T) {
	for _, c := range []struct {
		path string
		pid  int64
		rank int // -1 none
	}{
		{"run/rank3.json", 900, 3},
		{"run/trace_rank_12.json.gz", 900, 12},
		{"run/Rank-7/trace.json", 900, 7},
		{"run/step_5.json", 900, 5},
		{"run/job-3.json", 900, 3},
		{"run/job-3.pt.trace.json.gz", 900, 3},
		{"run/trace-4.json", 900, 4},
		{"run/node_900.json", 900, -1},                         // the process
		{"run/node_4242.1700000000000.pt.trace.json", 900, -1}, // host, process, time
		{"run/libkineto_activities_4242.json", 900, -1},
		{"run/job_170000000.json", 900, -1}, // a date
		{"run/trace.json", 900, -1},
	} {
		got, ok := rankOfName(c.path, c.pid)
		if !ok {
			got = -1
		}
		if got != c.rank {
			t.Errorf("%s of process %d: %d, want %d", c.path, c.pid, got, c.rank)
		}
	}
}
