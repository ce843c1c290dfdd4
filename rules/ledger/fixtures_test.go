package ledger

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"gpureport/ingest/timeline"
)

// The simulated incidents know who owned each nanosecond: the ledgers must say the same.
func TestIncidents(t *testing.T) {
	files, err := filepath.Glob("../../fixtures/*/want/truth.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no incidents: %v", err)
	}
	for _, f := range files {
		dir := filepath.Dir(filepath.Dir(f))
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var truth struct {
				Off     float64                     `json:"clock_off_frac"`
				Steps   int                         `json:"steps"`
				Windows map[string]int64            `json:"window_ns"`
				Owners  map[string]map[string]int64 `json:"owners_ns"`
				Side    map[string]struct {
					Comm int64 `json:"hidden_comm"`
					Copy int64 `json:"hidden_copy"`
					Next int64 `json:"hidden_next"`
				} `json:"side_ns"`
				Waits []struct {
					Culprit int   `json:"culprit_rank"`
					Dur     int64 `json:"dur_ns"`
				} `json:"waits"`
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &truth); err != nil {
				t.Fatal(err)
			}
			if len(truth.Owners) == 0 {
				t.Skip("the incident has no trace")
			}
			var reds []*timeline.Reduced
			for _, p := range []string{"*.json", "*.json.gz"} {
				m, _ := filepath.Glob(filepath.Join(dir, "in", p))
				for _, path := range m {
					reds = append(reds, reduceTrace(t, path)...)
				}
			}
			if len(reds) == 0 {
				t.Skip("recorded with another tool: cmd/gpureport reads it")
			}
			j := Meet(reds, tables(t), Options{})
			if len(j.GPUs) != len(truth.Owners) {
				t.Fatalf("%d GPUs, truth has %d", len(j.GPUs), len(truth.Owners))
			}
			near := func(a, b int64, key string) bool {
				slack := int64(truth.Off * float64(truth.Windows[key]))
				return a-b <= slack && b-a <= slack
			}
			for _, ref := range j.GPUs {
				r := j.Ranks[ref.Rank]
				checkLedger(t, r)
				g := &r.GPUs[ref.GPU]
				key := strconv.Itoa(max(0, r.Process.Rank))
				if len(g.Steps) != truth.Steps || !near(int64(g.Window.Dur()), truth.Windows[key], key) {
					t.Errorf("rank %s: %d steps in %d ns, truth %d in %d", key, len(g.Steps), g.Window.Dur(), truth.Steps, truth.Windows[key])
				}
				for o, v := range g.Owners {
					if want := truth.Owners[key][timeline.Owner(o).String()]; !near(v, want, key) {
						t.Errorf("rank %s: %s %d ns, truth %d", key, timeline.Owner(o), v, want)
					}
				}
				s := truth.Side[key]
				if !near(g.Side.HiddenComm, s.Comm, key) || !near(g.Side.HiddenCopy, s.Copy, key) || !near(g.Side.HiddenNext, s.Next, key) {
					t.Errorf("rank %s: side %+v, truth %+v", key, g.Side, s)
				}
			}
			got := map[int]int64{}
			for _, w := range j.Waits {
				got[w.Culprit] += w.DurNS
			}
			if truth.Waits != nil {
				for _, w := range truth.Waits {
					if !near(got[w.Culprit], w.Dur, "0") {
						t.Errorf("waits for rank %d: %d ns, truth %d", w.Culprit, got[w.Culprit], w.Dur)
					}
					delete(got, w.Culprit)
				}
				for k, d := range got {
					if near(d, 0, "0") {
						delete(got, k)
					}
				}
				if len(got) > 0 {
					t.Errorf("further waits %v", got)
				}
			}
		})
	}
}
