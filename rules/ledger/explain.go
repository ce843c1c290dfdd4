package ledger

import (
	"fmt"

	"gpureport/ingest/timeline"
)

// Explain says in plain lines who owned the time of each GPU, who was waited for and what was left out: for tests and debugging.
func Explain(j *Job) []string {
	var out []string
	say := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	for _, ref := range j.GPUs {
		r := j.Ranks[ref.Rank]
		g := &r.GPUs[ref.GPU]
		say("%s rank %d %s: %d steps (%s), window %v, busy %.1f %%", ref.ID, r.Process.Rank, r.Path, len(g.Steps), r.Steps.How, g.Window.Dur(), percent(g.Busy, g))
		for o, v := range g.Owners {
			if v != 0 {
				say("  %-16s %6.2f %%", timeline.Owner(o), percent(v, g))
			}
		}
	}
	kinds := map[string]*[4]int64{} // count, inferred, measured, undivided
	var order []string
	for _, r := range j.Ranks {
		for i := range r.Collectives {
			c := &r.Collectives[i]
			k := kinds[c.Primitive]
			if k == nil {
				k = &[4]int64{}
				kinds[c.Primitive] = k
				order = append(order, c.Primitive)
			}
			k[0]++
			switch c.Split {
			case timeline.Inferred:
				k[1]++
			case timeline.Measured:
				k[2]++
			default:
				k[3]++
			}
		}
	}
	for _, p := range order {
		k := kinds[p]
		say("%s: %d, split by all ranks %d, inferred %d, undivided %d", p, k[0], k[2], k[1], k[3])
	}
	for _, w := range j.Waits {
		say("waited %.3f ms for rank %d in %s (%s)", float64(w.DurNS)/1e6, w.Culprit, w.Owner, w.Conf)
	}
	for _, c := range j.Culprits {
		say("rank %d last in %d of %d, waited for %.3f ms", c.Rank, c.Last, c.Of, float64(c.WaitNS)/1e6)
	}
	for _, p := range j.Problems {
		say("%s: %s", p.Code, p.Message)
	}
	return out
}

func percent(ns int64, g *timeline.GPULedger) float64 {
	return 100 * float64(ns) / float64(max(1, g.Window.Dur()))
}
