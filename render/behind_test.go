package render

import (
	"slices"
	"testing"

	"gpureport/rules"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
)

// A rule that says why another's time is lost claims the same time: otherwise both savings would be added.
func TestBehindIsTheSameTime(t *testing.T) {
	rs, err := engine.Load(rules.FS, nil, facts.Decls())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]*engine.Rule{}
	for _, r := range rs.List {
		by[r.ID] = r
	}
	for lost, whys := range behind {
		for _, why := range whys {
			a, b := by[lost], by[why]
			switch {
			case a == nil || b == nil:
				t.Errorf("%s, %s: no such rule", lost, why)
			case a.Saving == nil || b.Saving == nil:
			case slices.Contains(a.Overlaps, why) || slices.Contains(b.Overlaps, lost):
			case slices.ContainsFunc(a.Covers, func(o string) bool { return slices.Contains(b.Covers, o) }):
			case a.Class == "straggler" || b.Class == "straggler" || lost == "step.rank-spread": // what a late rank costs is told once, whoever tells it
			default:
				t.Errorf("%s is why %s loses its time, and their savings add", why, lost)
			}
		}
	}
}
