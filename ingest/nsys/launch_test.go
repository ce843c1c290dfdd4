package nsys

import "testing"

// Rank and world come from what torchrun leaves in the environment, whole, and from nothing else in it.
func TestLaunchVariables(t *testing.T) {
	for _, c := range []struct {
		name        string
		vars        []string
		rank, world int
		ok          bool
	}{
		{"torchrun", []string{`RANK="3"`, `LOCAL_RANK="1"`, `WORLD_SIZE="4"`}, 3, 4, true},
		{"no quotes", []string{"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1"}, 0, 1, true},
		{"around the launcher: a cluster's own variables count nodes", []string{`RANK="1"`, `WORLD_SIZE="2"`}, 0, 0, false},
		{"two processes that disagree", []string{`RANK="0"`, `LOCAL_RANK="0"`, `WORLD_SIZE="2"`, `RANK="1"`, `LOCAL_RANK="1"`}, 0, 0, false},
		{"a rank outside of its world", []string{`RANK="4"`, `LOCAL_RANK="0"`, `WORLD_SIZE="4"`}, 0, 0, false},
		{"words", []string{`RANK="three"`, `LOCAL_RANK="0"`, `WORLD_SIZE="4"`, `GROUP_RANK="3"`}, 0, 0, false},
		{"nothing", nil, 0, 0, false},
	} {
		m := meta{launch: map[string]int{}}
		for _, v := range c.vars {
			m.addLaunch(v)
		}
		rank, world, ok := m.launched()
		if ok != c.ok || ok && (rank != c.rank || world != c.world) {
			t.Errorf("%s: rank %d of %d, %v", c.name, rank, world, ok)
		}
	}
}
