package facts

import (
	"fmt"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const (
	minLoaderSteps = 8    // fewer steps do not show a pattern
	waitedFrom     = 0.02 // of the mean step: from here on a step waited for its batch
	periodEta      = 0.5  // share of the variation that a period must explain
	minPeriods     = 4
)

var (
	loaderSingle = &Decl{ID: "rank.loader_single_flag", Unit: unit.Flag, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Whether batches are made in the training process itself (num_workers=0), by the name of the loader's iterator."}
	loaderWaits = &Decl{ID: "rank.loader_waits_count", Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C4",
		Doc: "Analysed steps in which the GPU waited for its batch for 2 % of the mean step or more."}
	loaderQuiet = &Decl{ID: "rank.loader_quiet_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Longest run of analysed steps without a wait for a batch, out of all of them: near 1 the waits are one event, as at the start of an epoch."}
	loaderPeriod = &Decl{ID: "rank.loader_period_count", Unit: unit.Count, Per: Rank, Min: 2, Max: 256, Capture: "C4",
		Doc: "Number of steps after which the wait for a batch comes again; with workers that are too slow it is their number."}
	loaderWorkers = &Decl{ID: "rank.loader_workers_flag", Unit: unit.Flag, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Whether the period of the waits is the number of workers that the user stated (--set workers=N)."}
)

// Loader: how are batches made, and do the waits for them come again and again? Iterator names tell worker processes from loading in
// the training process; the pattern is read from the loader's gaps of each analysed step, less the time in which the main thread is known
// to have run inside next(), which is none of the workers'. Missing without loader events or with fewer than 8 steps; the period where
// none explains half of the variation over at least 4 rounds.
var Loader = &Deriver{
	Name:  "loader",
	Gives: []*Decl{loaderSingle, loaderWaits, loaderQuiet, loaderPeriod, loaderWorkers},
	Run:   func(p *Pass) { p.eachRank(p.loaderOf) },
}

func (p *Pass) loaderOf(sub int, r *timeline.Reduced) {
	refs, n := rowRefs(r, r.Rank.Loader.Rows)
	if r.Rank.Loader.Name == "" {
		p.Miss(loaderSingle, sub, "the trace has no events of a PyTorch DataLoader: another loader, or host activity was not recorded")
	} else {
		v := Value{Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured}
		if r.Rank.Loader.Single {
			v.Num = 1
		}
		p.Set(loaderSingle, sub, v)
	}
	g := mainGPU(r)
	if g == nil || len(g.Steps) < minLoaderSteps {
		have := 0
		if g != nil {
			have = len(g.Steps)
		}
		p.missAll(sub, fmt.Sprintf("%s analysed; a pattern of waits needs %d", counted(have, "step"), minLoaderSteps), loaderWaits, loaderQuiet, loaderPeriod, loaderWorkers)
		return
	}
	x := make([]float64, len(g.Steps))
	mean := float64(g.Window.Dur()) / float64(len(x))
	waits, quiet, run := 0, 0, 0
	ran := make([]int64, len(g.Steps))
	if !r.Rank.Loader.Single {
		ran = ranInNext(g)
	}
	for i := range g.Steps {
		x[i] = float64(g.Steps[i].Owners[timeline.HostDataloader] - ran[i])
		if x[i] >= waitedFrom*mean {
			waits++
			run = 0
		} else {
			run++
			quiet = max(quiet, run)
		}
	}
	p.Set(loaderWaits, sub, Value{Num: float64(waits), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
	p.Set(loaderQuiet, sub, Value{Num: float64(quiet) / float64(len(x)), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
	k := 0
	if waits > 0 && waits < len(x) {
		k = waitPeriod(x)
	}
	if k == 0 {
		why := "the waits for a batch come in no regular number of steps"
		p.missAll(sub, why, loaderPeriod, loaderWorkers)
		return
	}
	p.Set(loaderPeriod, sub, Value{Num: float64(k), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Inferred})
	var workers int
	if _, err := fmt.Sscanf(p.Input.Set["workers"], "%d", &workers); err != nil {
		p.Miss(loaderWorkers, sub, "the number of workers is not known; state it with --set workers=N")
		return
	}
	v := Value{Cover: 1, Conf: timeline.Measured}
	if workers == k {
		v.Num = 1
	}
	p.Set(loaderWorkers, sub, v)
}

// ranInNext gives, for each step, the time charged to the loader in which the main thread ran and waited for no worker.
func ranInNext(g *timeline.GPULedger) []int64 {
	out := make([]int64, len(g.Steps))
	k := 0
	for s := range g.Segments.All() {
		if s.Owner != timeline.HostDataloader || s.Sub != timeline.SubOnCPU {
			continue
		}
		at, end := s.Start, s.Start+timeline.Time(s.Dur)
		for k < len(g.Steps) && at < end {
			stop := g.Steps[k].Start + timeline.Time(g.Steps[k].Dur)
			if at >= stop {
				k++
				continue
			}
			to := min(end, stop)
			out[k] += int64(to - at)
			at = to
		}
	}
	return out
}

// waitPeriod is the smallest k whose classes (index mod k) explain at least periodEta of the variation of x, and nearly as much as the
// best does; 0: none. A multiple of the true period explains no less, so the smallest of the good ones is taken.
func waitPeriod(x []float64) int {
	top := min(256, len(x)/minPeriods)
	eta := make([]float64, top+1)
	best := 0.0
	for k := 2; k <= top; k++ {
		eta[k] = explained(x, k)
		best = max(best, eta[k])
	}
	for k := 2; k <= top; k++ {
		if eta[k] >= periodEta && eta[k] >= 0.9*best {
			return k
		}
	}
	return 0
}

// explained is eta squared of x over the classes index mod k, with the share that k classes explain by chance taken off.
func explained(x []float64, k int) float64 {
	m := mean(x)
	total, between := 0.0, 0.0
	for _, v := range x {
		total += (v - m) * (v - m)
	}
	if total == 0 {
		return 0
	}
	for c := range k {
		s, n := 0.0, 0.0
		for i := c; i < len(x); i += k {
			s += x[i]
			n++
		}
		between += n * (s/n - m) * (s/n - m)
	}
	chance := float64(k-1) / float64(len(x)-1)
	return max(0, (between/total-chance)/(1-chance))
}
