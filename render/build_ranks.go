package render

import (
	"slices"

	"gpureport/rules/ledger"
)

const (
	maxLateCells  = 200_000 // ranks times steps of lateness that report.json lists
	maxChainLinks = 64      // of one chain
)

// RankHost is one host of the run and how far its clock was found from the reference: the first host's.
type RankHost struct {
	Name      string  `json:"name"` // "" the ranks tell none
	Ranks     []int   `json:"ranks"`
	OffsetNS  *int64  `json:"offset_ns"` // its clock less the reference; null: not compared
	ErrorNS   *int64  `json:"error_ns"`  // of the offset; three times it is the least difference that is said
	DriftPPM  float64 `json:"drift_ppm"`
	Instances int64   `json:"instances"` // collectives the offset rests on
	Refused   string  `json:"refused"`   // why this clock is not compared; "" it is
}

// RankGroup is one communicator.
type RankGroup struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`       // world, data, sharded, tensor, pipeline, expert; "" not known
	Size      *int   `json:"size"`       // members as stated; null not known
	RanksHere []int  `json:"ranks_here"` // members whose trace was given
	Hosts     int    `json:"hosts"`      // that those are on
	Matched   int64  `json:"matched"`    // collectives found on every member that is here
	Unmatched int64  `json:"unmatched"`
	How       string `json:"how"` // by what they were matched: seq, order, overlap or ""
	Why       string `json:"why"` // why its collectives are not divided; "" they are
}

// Lateness says when each rank came to the first collective of each step that all ranks share.
type Lateness struct {
	Steps     []int64   `json:"steps"`
	StepsLeft int       `json:"steps_left"` // steps beyond those listed; of each equal bin of steps the one with the latest rank is listed
	ErrorNS   int64     `json:"error_ns"`   // three times the error of the clocks compared: a smaller difference is none
	Judged    int       `json:"judged"`     // steps, listed or not, in which at least two ranks' arrivals are known
	Rows      []LateRow `json:"rows"`       // by host, rank
}

// LateRow is one rank.
type LateRow struct {
	Rank     *int     `json:"rank"`
	GPU      string   `json:"gpu"` // its first, "" none
	Host     string   `json:"host"`
	AtNS     []*int64 `json:"at_ns"`     // after the first rank to come, by step; null not known
	MedianNS *int64   `json:"median_ns"` // over all steps
	Last     int      `json:"last"`      // steps in which it came last, by more than error_ns
	LastFrac *float64 `json:"last_frac"` // of judged
}

// WaitChain is who waited for whom in one of the steps with the longest waits, each late rank waited on by the links before it.
type WaitChain struct {
	Step  int64      `json:"step"`
	Links []WaitLink `json:"links"`
}

// WaitLink is one rank that waited. Owner held the late rank for OwnerNS of the wait.
type WaitLink struct {
	WaiterRank  *int   `json:"waiter_rank"`
	CulpritRank *int   `json:"culprit_rank"`
	Group       string `json:"group"`
	Primitive   string `json:"primitive"`
	StartNS     int64  `json:"start_ns"`
	DurNS       int64  `json:"dur_ns"`
	Owner       string `json:"owner"`
	OwnerNS     int64  `json:"owner_ns"`
}

// ranks fills how the ranks met: their clocks, groups, arrivals and waits.
func (b *builder) ranks() {
	j, r := b.job, b.r
	number := func(pos int) *int {
		if pos < 0 || pos >= len(j.Ranks) {
			return nil
		}
		return rankOf(&j.Ranks[pos].Process)
	}
	numbers := func(at []int) []int {
		out := []int{}
		for _, pos := range at {
			if n := number(pos); n != nil {
				out = append(out, *n)
			}
		}
		return out
	}
	for i := range j.Hosts {
		h := &j.Hosts[i]
		row := RankHost{Name: clean(h.Host), Ranks: numbers(h.Ranks), DriftPPM: h.DriftPPM, Instances: h.Instances, Refused: clean(h.Refused)}
		if h.Refused == "" {
			o, e := h.OffsetNS, h.ResidualNS
			row.OffsetNS, row.ErrorNS = &o, &e
		}
		r.Hosts = append(r.Hosts, row)
	}
	for i := range j.Groups {
		g := &j.Groups[i]
		row := RankGroup{Name: clean(g.Name), Kind: g.Kind.String(), RanksHere: numbers(g.Here), Hosts: g.Hosts, Matched: g.Matched, Unmatched: g.Unmatched, How: g.How, Why: clean(g.Why)}
		if g.Size > 0 {
			n := g.Size
			row.Size = &n
		}
		r.Groups = append(r.Groups, row)
	}
	for i := range j.Chains {
		c := WaitChain{Step: j.Chains[i].Step}
		links := slices.Concat(j.Chains[i].Links, j.Chains[i].Beside)
		for _, l := range links[:min(len(links), maxChainLinks)] {
			w := WaitLink{WaiterRank: number(l.Waiter), CulpritRank: number(l.Culprit), Primitive: l.Primitive, StartNS: b.rel(l.At.Start), DurNS: int64(l.At.Dur()), Owner: l.Owner.String(), OwnerNS: l.OwnerNS}
			if l.Group >= 0 && l.Group < len(j.Groups) {
				w.Group = clean(j.Groups[l.Group].Name)
			}
			c.Links = append(c.Links, w)
		}
		r.Chains = append(r.Chains, c)
	}
	b.lateness()
}

func (b *builder) lateness() {
	j := b.job
	late, l := &j.Late, &b.r.Lateness
	if len(late.Steps) == 0 || len(late.NS) != len(j.Ranks) {
		return
	}
	l.ErrorNS = late.ErrorNS
	host := make([]string, len(j.Ranks))
	for i := range j.Hosts {
		for _, pos := range j.Hosts[i].Ranks {
			if pos >= 0 && pos < len(host) {
				host[pos] = clean(j.Hosts[i].Host)
			}
		}
	}
	gpu := make([]string, len(j.Ranks))
	for _, g := range j.GPUs {
		if gpu[g.Rank] == "" {
			gpu[g.Rank] = g.ID
		}
	}
	last := make([]int, len(j.Ranks))
	most := make([]int64, len(late.Steps))
	for s := range late.Steps {
		known, at := 0, -1
		for pos := range late.NS {
			v := late.NS[pos][s]
			if v == ledger.NotLate {
				continue
			}
			known++
			if at < 0 || v > late.NS[at][s] {
				at = pos
			}
		}
		if known < 2 {
			continue
		}
		l.Judged++
		if most[s] = late.NS[at][s]; most[s] > late.ErrorNS {
			last[at]++
		}
	}
	keep := keptSteps(most, max(1, maxLateCells/len(j.Ranks)))
	l.StepsLeft = len(late.Steps) - len(keep)
	for _, s := range keep {
		l.Steps = append(l.Steps, late.Steps[s])
	}
	for pos, red := range j.Ranks {
		row := LateRow{Rank: rankOf(&red.Process), GPU: gpu[pos], Host: host[pos], AtNS: make([]*int64, 0, len(keep)), Last: last[pos]}
		for _, s := range keep {
			row.AtNS = append(row.AtNS, knownLate(late.NS[pos][s]))
		}
		var all []int64
		for _, v := range late.NS[pos] {
			if v != ledger.NotLate {
				all = append(all, v)
			}
		}
		if len(all) > 0 {
			slices.Sort(all)
			row.MedianNS = &all[len(all)/2]
		}
		if l.Judged > 0 {
			f := float64(last[pos]) / float64(l.Judged)
			row.LastFrac = &f
		}
		l.Rows = append(l.Rows, row)
	}
}

func knownLate(v int64) *int64 {
	if v == ledger.NotLate {
		return nil
	}
	return &v
}

// keptSteps gives n steps at most: of each equal bin the one with the latest rank.
func keptSteps(most []int64, n int) []int {
	var out []int
	n = min(n, len(most))
	for k := range n {
		s, e := k*len(most)/n, (k+1)*len(most)/n
		best := s
		for i := s + 1; i < e; i++ {
			if most[i] > most[best] {
				best = i
			}
		}
		out = append(out, best)
	}
	return out
}
