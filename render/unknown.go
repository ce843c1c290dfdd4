package render

import (
	"fmt"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/rules/facts"
)

// muchUnknown is the share of a GPU's window above which time without an owner is explained.
const muchUnknown = 0.1

// unknowns takes from the facts why time has no owner, for each GPU of whose window much has none.
func (b *builder) unknowns() {
	much := map[string]bool{}
	for i := range b.r.Ledger {
		l := &b.r.Ledger[i]
		much[l.GPU] = float64(l.Owners[timeline.UnknownOwner.String()]) > muchUnknown*float64(l.WindowNS)
	}
	for i, sub := range b.in.Facts.Of(facts.GPU) {
		if i >= len(b.r.GPUs) || !much[b.r.GPUs[i].ID] {
			continue
		}
		for id, to := range map[facts.ID]*string{"gpu.unknown_why": &b.r.GPUs[i].UnknownWhy, "gpu.unknown_says": &b.r.GPUs[i].UnknownSays} {
			if v, need := b.in.Facts.Get(sub, id); need == nil {
				*to = v.Text
			}
		}
	}
}

// unknownNotes are the reasons, once for all GPUs that share them.
func unknownNotes(r *Report) []Note {
	var out []Note
	var says []string
	who := map[string][]string{}
	for i := range r.GPUs {
		if g := &r.GPUs[i]; g.UnknownSays != "" {
			if who[g.UnknownSays] == nil {
				says = append(says, g.UnknownSays)
			}
			who[g.UnknownSays] = append(who[g.UnknownSays], gpuLabel(r, g.ID))
		}
	}
	for _, s := range says {
		names := who[s]
		what := strings.Join(names[:min(len(names), 4)], ", ")
		if n := len(names) - 4; n > 0 {
			what += fmt.Sprintf(" and %d more", n)
		}
		out = append(out, Note{Strong: "Without an owner, of " + what + ":", Text: s + "."})
	}
	return out
}

// unknownWhy says in a few words why most of it has no owner, by the GPU of whose window most has none.
func unknownWhy(r *Report) string {
	why, most := "the trace does not tell who held it", int64(0)
	for i := range r.Ledger {
		ns := r.Ledger[i].Owners[timeline.UnknownOwner.String()]
		for j := range r.GPUs {
			if g := &r.GPUs[j]; g.ID == r.Ledger[i].GPU && g.UnknownWhy != "" && ns > most {
				why, most = g.UnknownWhy, ns
			}
		}
	}
	return why
}
