package facts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	runStuck = &Decl{ID: "run.stuck_collectives_count", Unit: unit.Count, Per: Run, Max: 1e9, Capture: "C16",
		Doc: "Collectives that dumps of the flight recorder show as enqueued and not completed, each group and number once."}
	runStuckText = &Decl{ID: "run.stuck_collective", Unit: unit.Text, Per: Run, Capture: "C16",
		Doc: "The first collective that did not end, and the ranks that had not come to it when they were dumped."}
)

// Flight: which collective did not end, and who had not come to it? Of each group the lowest number that some rank had enqueued and not
// completed is held against what the other ranks had enqueued last. A number that rank dumps of different moments disagree on by more than
// what they were dumped apart cannot be told from a run that goes on: the report says numbers, not blame. Missing: no dump.
var Flight = &Deriver{Name: "flight-recorder", Gives: []*Decl{runStuck, runStuckText}, Run: func(p *Pass) {
	type last struct {
		rank, completed, enqueued int
		ref                       []Ref
	}
	groups := map[string][]last{}
	ops := map[string]string{} // "number group" to operation
	seen := false
	for i := range p.Base.Attrs {
		a := &p.Base.Attrs[i]
		tr := &p.Base.Tracks[a.Track]
		if a.Name != timeline.AttrFlightGroup && a.Name != timeline.AttrFlightPending {
			continue
		}
		seen = true
		f := strings.SplitN(a.Text, " ", 4)
		if len(f) < 4 {
			continue
		}
		if a.Name == timeline.AttrFlightPending {
			ops[f[0]+" "+f[3]] = f[2]
			continue
		}
		done, err := strconv.Atoi(f[0])
		came, err2 := strconv.Atoi(f[2])
		if err == nil && err2 == nil && tr.Proc >= 0 && tr.Proc < len(p.Base.Procs) {
			groups[f[3]] = append(groups[f[3]], last{p.Base.Procs[tr.Proc].Rank, done, came, p.attrRef(a)})
		}
	}
	if !seen {
		p.missAll(0, "no dump of the flight recorder was given", runStuck, runStuckText)
		return
	}
	var names []string
	for g := range groups {
		names = append(names, g)
	}
	slices.Sort(names)
	count, words := 0, []string(nil)
	var refs []Ref
	for _, g := range names {
		ranks := groups[g]
		slices.SortStableFunc(ranks, func(a, b last) int { return a.rank - b.rank })
		stuck, most := -1, -1
		for _, r := range ranks {
			if r.enqueued > r.completed && r.completed >= 0 && (stuck < 0 || r.completed+1 < stuck) {
				stuck = r.completed + 1
			}
			most = max(most, r.enqueued)
		}
		if stuck < 0 {
			continue
		}
		count += most - stuck + 1
		var behind, waiting []string
		for _, r := range ranks {
			name := strconv.Itoa(r.rank)
			if r.rank < 0 {
				name = "unknown"
			}
			switch {
			case r.enqueued < stuck:
				behind = append(behind, fmt.Sprintf("%s (last came to %d)", name, r.enqueued))
			case r.completed < stuck:
				waiting = append(waiting, name)
			}
			refs = append(refs, r.ref...)
		}
		text := fmt.Sprintf("collective %d", stuck)
		if op := ops[fmt.Sprintf("%d %s", stuck, g)]; op != "" {
			text += " " + op
		}
		text += fmt.Sprintf(" of group %s: ranks %s wait", g, strings.Join(waiting, ", "))
		if len(behind) > 0 {
			text += ", not come: " + strings.Join(behind, ", ")
		} else {
			text += ", every rank whose dump is here had come"
		}
		words = append(words, text)
	}
	v := refValue(float64(count), refs)
	p.Set(runStuck, 0, v)
	if len(words) == 0 {
		p.Miss(runStuckText, 0, "every collective of the dumps had ended")
		return
	}
	v.Num, v.Text = 0, strings.Join(words, "; ")
	p.Set(runStuckText, 0, v)
}}
