package engine_test

import (
	"slices"
	"testing"
)

// Rules that claim one owner alone promise alike: a promise of one of them is that of the verdict, and not larger than what another knows to be left.
func TestLaunchesArePromisedAlike(t *testing.T) {
	n := 0
	for _, r := range shipped(t).List {
		if !slices.Equal(r.Covers, []string{"host.launch"}) {
			continue
		}
		n++
		if r.Saving == nil || r.Saving.Text != "gpu.save_launch_frac" {
			t.Errorf("%s promises %v", r.ID, r.Saving)
		}
	}
	if n < 3 {
		t.Errorf("%d rules claim host.launch", n)
	}
}
