package facts

import (
	"cmp"
	"fmt"
	"slices"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// Causes of a late rank. They are the verdict's classes and two of their own.
const (
	causeData          = "data-pipeline"
	causeTransfer      = "transfer"
	causeHost          = "host-bound"
	causeInterruption  = "interruption"
	causeCommunication = "communication"
	causeHardware      = "hardware"
	causeUneven        = "uneven-work"
	causeUnknown       = "unknown"
	causeCompute       = "compute" // of the ledger; becomes hardware, uneven-work or unknown
)

const (
	persistentShare  = 0.5  // of the collectives that made others wait, and
	persistentFactor = 3    // times what chance would give, but
	persistentMost   = 0.8  // never more than this: with two ranks chance gives a half
	mainCause        = 0.5  // of what held the late rank: less than half names no cause
	lateStep         = 0.02 // of a step that others must have waited for it to count
	sameWork         = 0.03
	moreTime         = 0.05 // from here on two GPUs of one kind differ by more than healthy ones do
)

var (
	runPeerWait = &Decl{ID: "run.peer_wait_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "Share of their analysed windows in which GPUs did nothing but wait for a late rank, mean over the GPUs. From one rank a lower bound."}
	runPeerWaitOf = &Decl{ID: "run.peer_wait_of_exposed_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "Time waiting for a late rank, out of all exposed collective time, over all GPUs."}
	runCulprit = &Decl{ID: "run.culprit_rank_count", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C4",
		Doc: "Number of the rank that was last in at least half of the collectives that made others wait, three times what chance gives (at most 80 %)."}
	runCulpritShare = &Decl{ID: "run.culprit_share_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "How often the rank that others waited for longest arrived last, out of the collectives that made others wait."}
	runPersistent = &Decl{ID: "run.culprit_persistent_flag", Unit: unit.Flag, Per: Run, Max: 1, Capture: "C4",
		Doc: "Whether it is the same rank that is late: run.culprit_rank_count names it."}
	runCause = &Decl{ID: "run.culprit_cause", Unit: unit.Text, Per: Run, Capture: "C4",
		Doc: "What held the late rank while others waited: data-pipeline, host-bound, transfer, interruption, communication, hardware, uneven-work or unknown."}
	runCauseShare = &Decl{ID: "run.culprit_cause_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "How much of what held the late rank is what run.culprit_cause says, out of all of it."}
	runLoaderSkew = &Decl{ID: "run.loader_skew_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "Share of their analysed windows in which GPUs waited for a rank that was late because of its own loader, mean over the GPUs."}
	runRanksMissing = &Decl{ID: "run.ranks_missing_count", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C4",
		Doc: "Ranks of the job whose trace was not given: the stated world, or the largest group of a collective, less the ranks found."}
)

// Straggler: how much of the exposed communication is waiting for a rank that is late, is it always the same one, and what held it?
// Persistent or rotating by how often each rank arrived last. What held a persistent culprit is what its ledger has more of than the
// median of the others: a rank that loses time to its loader is late at the next collective, while it computes, so the owners of that
// moment do not name the cause. Of a rotating one the same step by step, for the rank that waited least. More compute is hardware where equal work took
// longer, uneven-work where it did more, else unknown. Missing: no trace, nothing exposed, one rank alone, or nobody stands out.
var Straggler = &Deriver{
	Name:  "straggler",
	After: []*Deriver{LedgerShares},
	Gives: []*Decl{runPeerWait, runPeerWaitOf, runCulprit, runCulpritShare, runPersistent, runCause, runCauseShare, runLoaderSkew, runRanksMissing},
	Run:   stragglers,
}

func stragglers(p *Pass) {
	missingRanks(p)
	if len(p.Job.GPUs) == 0 {
		p.missAll(0, noTrace, runPeerWait, runPeerWaitOf, runCulprit, runCulpritShare, runPersistent, runCause, runCauseShare, runLoaderSkew)
		return
	}
	var window, wait, undivided, exposed int64
	conf := timeline.Measured
	var refs []Ref
	nrefs := 0
	p.eachGPU(func(_ int, _ *Card, g *timeline.GPULedger, r *timeline.Reduced) {
		if g == nil {
			return
		}
		window += int64(g.Window.Dur())
		wait += g.Owners[timeline.CommPeerWait]
		undivided += g.Owners[timeline.CommUndivided]
		exposed += g.Owners[timeline.CommPeerWait] + g.Owners[timeline.CommTransfer] + g.Owners[timeline.CommUndivided]
		conf = min(conf, splitConfidence(r))
	})
	refs, nrefs = longestWaits(p.Job)
	if window <= 0 {
		p.missAll(0, "the traces hold no device operation", runPeerWait, runPeerWaitOf, runCulprit, runCulpritShare, runPersistent, runCause, runCauseShare, runLoaderSkew)
		return
	}
	waitFrac := float64(wait) / float64(window)
	switch {
	case undivided > 0 && wait == 0 && 2*undivided > exposed:
		p.missAll(0, "the exposed collectives could not be divided into waiting and transfer: too few of them, and not every rank's trace is here",
			runPeerWait, runPeerWaitOf)
	default:
		p.Set(runPeerWait, 0, Value{Num: waitFrac, Cover: 1, Refs: refs, NRefs: nrefs, Conf: conf})
		if exposed > 0 {
			p.Set(runPeerWaitOf, 0, Value{Num: float64(wait) / float64(exposed), Cover: 1, Refs: refs, NRefs: nrefs, Conf: conf})
		} else {
			p.Miss(runPeerWaitOf, 0, "no collective was exposed")
		}
	}
	culprit := nameCulprit(p, conf, refs, nrefs)
	causeOf(p, culprit, wait, undivided, window, refs, nrefs)
}

func missingRanks(p *Pass) {
	if len(p.Job.Ranks) == 0 {
		p.Miss(runRanksMissing, 0, noTrace)
		return
	}
	world, collectives := p.Job.World, 0
	for _, r := range p.Job.Ranks {
		collectives += len(r.Collectives)
		for i := range r.Collectives {
			world = max(world, r.Collectives[i].GroupSize)
		}
	}
	if world == 0 && collectives == 0 {
		p.Set(runRanksMissing, 0, measured(0)) // nothing in them speaks of another rank
		return
	}
	if world == 0 {
		p.Miss(runRanksMissing, 0, "no trace states how many ranks the job has")
		return
	}
	missing := max(world-len(p.Job.Ranks), len(p.Job.Missing))
	// One process may drive all GPUs of a group by itself; then no trace is missing.
	if len(p.Job.Ranks) == 1 && p.Job.World <= 1 && len(p.Job.Ranks[0].GPUs) >= world {
		missing = 0
	}
	p.Set(runRanksMissing, 0, measured(float64(max(0, missing))))
}

// nameCulprit sets who is late; -1: nobody can be named. It is whom the others' waiting leads back to: a rank that waited itself for another
// only passes it on.
func nameCulprit(p *Pass, conf Confidence, refs []Ref, nrefs int) int {
	blamed := map[int]int64{}
	var all, told int64
	for _, w := range p.Job.Waits {
		all += w.DurNS
		if w.Culprit >= 0 {
			blamed[w.Culprit] += w.DurNS
			told += w.DurNS
		}
	}
	why := ""
	var top *ledger.Culprit
	for i := range p.Job.Culprits {
		c := &p.Job.Culprits[i]
		if c.Rank < 0 || c.Of <= 0 {
			continue
		}
		if top == nil || cmp.Or(cmp.Compare(blamed[c.Rank], blamed[top.Rank]), cmp.Compare(c.WaitNS, top.WaitNS), cmp.Compare(top.Rank, c.Rank)) > 0 {
			top = c
		}
	}
	missing, _ := p.Get(runRanksMissing, 0)
	refused := clocksRefused(p.Job)
	switch {
	case len(p.Job.Ranks) < 2:
		why = "only one rank's trace is here, and who is late shows in the traces of all"
	case refused != "":
		why = refused
	case top == nil && missing.Num > 0:
		why = fmt.Sprintf("%.0f of the ranks have no trace here, and those that have one waited as long as one another: the late one may be among the missing", missing.Num)
	case top == nil:
		why = "no collective in which every rank is seen made another wait"
	case missing.Num > 0 && 2*told < all:
		why = fmt.Sprintf("most of what was waited leads to none of the ranks that are here: the late one may have no trace here, as %.0f of the ranks", missing.Num)
	}
	if why != "" {
		p.missAll(0, why, runCulprit, runCulpritShare, runPersistent)
		return -1
	}
	share := min(1, float64(top.Last)/float64(top.Of))
	v := Value{Num: share, Cover: 1, Refs: refs, NRefs: nrefs, Conf: conf}
	p.Set(runCulpritShare, 0, v)
	often, known := lateInSteps(p.Job, top.Rank)
	if known && often < persistentShare && share >= persistentFrom(len(p.Job.Ranks)) {
		v.Num = 0
		p.Set(runPersistent, 0, v)
		p.Miss(runCulprit, 0, fmt.Sprintf("the late rank changes: rank %d, for which the others waited longest, took longer than they did in %.0f %% of the steps", top.Rank, 100*often))
		return -1
	}
	if share < persistentFrom(len(p.Job.Ranks)) || 2*blamed[top.Rank] < told {
		v.Num = 0
		p.Set(runPersistent, 0, v)
		p.Miss(runCulprit, 0, fmt.Sprintf("the late rank changes: rank %d, for which the others waited longest, was last in %.0f %% of the collectives", top.Rank, 100*share))
		return -1
	}
	v.Num = 1
	p.Set(runPersistent, 0, v)
	v.Num = float64(top.Rank)
	p.Set(runCulprit, 0, v)
	return top.Rank
}

// lateInSteps is in how many of the steps a rank took longer for its own part than the others, out of all: by a quarter at least of what it
// takes longer in the mean, so that a few long pauses are not taken for one that is late each time. Not known where ranks have other steps.
func lateInSteps(job *ledger.Job, rank int) (often float64, known bool) {
	var mine []float64
	var others [][]float64
	var index []int64
	for _, r := range job.Ranks {
		g := mainGPU(r)
		if g == nil || len(g.Steps) == 0 || len(g.Steps) != len(r.Steps.Index) || index != nil && !slices.Equal(index, r.Steps.Index) {
			return 0, false
		}
		index = r.Steps.Index
		own := make([]float64, len(g.Steps))
		for i := range g.Steps {
			own[i] = float64(g.Steps[i].Dur - g.Steps[i].Owners[timeline.CommPeerWait])
		}
		if r.Process.Rank == rank {
			mine = own
		} else {
			others = append(others, own)
		}
	}
	if mine == nil || len(others) == 0 {
		return 0, false
	}
	more := make([]float64, len(mine))
	mean := 0.0
	at := make([]float64, len(others))
	for i := range mine {
		for k := range others {
			at[k] = others[k][i]
		}
		more[i] = mine[i] - median(at)
		mean += more[i] / float64(len(mine))
	}
	if mean <= 0 {
		return 0, false
	}
	n := 0
	for _, d := range more {
		if d > mean/4 {
			n++
		}
	}
	return float64(n) / float64(len(more)), true
}

// persistentFrom is how often a rank of n must be last to be called the late one.
func persistentFrom(n int) float64 {
	return max(persistentShare, min(persistentFactor/float64(n), persistentMost))
}

// causeOf sets what held the late rank, and how much was waited for loaders.
func causeOf(p *Pass, culprit int, wait, undivided, window int64, refs []Ref, nrefs int) {
	missing, ok := p.Get(runRanksMissing, 0)
	alone := len(p.Job.Ranks) < 2 && (!ok || missing.Num > 0)
	switch {
	case alone:
		p.missAll(0, "only one rank's trace is here; what held a late one shows in its own trace", runCause, runCauseShare, runLoaderSkew)
		return
	case wait == 0 && undivided > 0:
		p.missAll(0, "the exposed collectives could not be divided into waiting and transfer", runCause, runCauseShare, runLoaderSkew)
		return
	case wait == 0:
		p.missAll(0, "no GPU was seen waiting for a late rank", runCause, runCauseShare)
		p.Set(runLoaderSkew, 0, measured(0))
		return
	}
	var charged classSums
	var known, seen int64 // seen: while the late rank's own ledger tells what it did
	conf := timeline.Measured
	for _, w := range p.Job.Waits {
		if w.Culprit < 0 || culprit >= 0 && w.Culprit != culprit {
			continue
		}
		charged.add(ownerCause(w.Owner), w.DurNS)
		known += w.DurNS
		if w.Owner != timeline.UnknownOwner {
			seen += w.DurNS
		}
		if w.Conf != timeline.NoConfidence {
			conf = min(conf, w.Conf)
		}
	}
	var sums classSums
	if culprit >= 0 {
		sums = excess(p.Job, culprit)
	} else {
		sums = stepExcess(p.Job)
		conf = min(conf, timeline.Inferred)
	}
	if len(sums) == 0 {
		sums = charged
	}
	if culprit >= 0 {
		sums = sums.behindLoader(p.Job, culprit)
	}
	if known == 0 || len(sums) == 0 {
		p.missAll(0, "which rank was late could not be told for any wait", runCause, runCauseShare, runLoaderSkew)
		return
	}
	// The others waited as long as they did, whatever the late rank's loader took; what held it before its window is not known.
	loader := float64(seen) * sums.share(causeData)
	p.Set(runLoaderSkew, 0, Value{Num: min(1, loader/float64(window)), Cover: 1, Refs: refs, NRefs: nrefs, Conf: conf})
	cause, share := sums.largest()
	switch {
	case share < mainCause:
		cause = causeUnknown
	case cause == causeCompute && culprit >= 0:
		if cause = computeCause(p, culprit); cause == causeUnknown && slowedCard(p, culprit, causeCompute) {
			cause = causeHardware
		}
	case cause == causeTransfer && culprit >= 0 && slowedCard(p, culprit, causeTransfer):
		cause = causeHardware
	case cause == causeCompute:
		if cause = causeUnknown; tokensTell(p.Job.Ranks) {
			cause = causeUneven
		}
	}
	p.Set(runCause, 0, Value{Text: cause, Cover: 1, Refs: refs, NRefs: nrefs, Conf: conf})
	p.Set(runCauseShare, 0, Value{Num: share, Cover: 1, Refs: refs, NRefs: nrefs, Conf: conf})
}

// classSums holds ns by cause; order of first appearance.
type classSums []struct {
	cause string
	ns    int64
}

func (s *classSums) add(cause string, ns int64) {
	if ns <= 0 {
		return
	}
	for i := range *s {
		if (*s)[i].cause == cause {
			(*s)[i].ns += ns
			return
		}
	}
	*s = append(*s, struct {
		cause string
		ns    int64
	}{cause, ns})
}

// behindLoader gives to the loader what a host seems to hold the late rank with, where its thread stood in next() for at least half as long
// beyond the other ranks: what the thread does after the batch has come would have been hidden had it come in time.
func (s classSums) behindLoader(job *ledger.Job, culprit int) classSums {
	host := s.of(causeHost)
	if host == 0 {
		return s
	}
	var mine float64
	var others []float64
	for _, r := range job.Ranks {
		if len(r.NextNS) == 0 {
			return s
		}
		x := make([]float64, len(r.NextNS))
		for i, ns := range r.NextNS {
			x[i] = float64(ns)
		}
		if r.Process.Rank == culprit {
			mine = median(x)
		} else {
			others = append(others, median(x))
		}
	}
	if len(others) == 0 || mine-median(others) < mainCause*float64(s.total()) {
		return s
	}
	var out classSums
	for _, x := range s {
		if x.cause == causeHost {
			x.cause = causeData
		}
		out.add(x.cause, x.ns)
	}
	return out
}

// slowedCard tells whether the readings of the late rank's card show a fault that slows what made it late.
func slowedCard(p *Pass, culprit int, what string) bool {
	l := cardOfLate(p, culprit)
	return l.Cause == causeHardware && (l.Slows == what || l.Slows == "")
}

func (s classSums) of(cause string) int64 {
	for _, x := range s {
		if x.cause == cause {
			return x.ns
		}
	}
	return 0
}

func (s classSums) total() (t int64) {
	for _, x := range s {
		t += x.ns
	}
	return t
}

func (s classSums) share(cause string) float64 {
	if t := s.total(); t > 0 {
		return float64(s.of(cause)) / float64(t)
	}
	return 0
}

// largest gives the cause with most time and its share; a tie goes to the name that sorts first.
func (s classSums) largest() (string, float64) {
	best, ns := causeUnknown, int64(0)
	for _, x := range s {
		if x.ns > ns || x.ns == ns && x.cause < best {
			best, ns = x.cause, x.ns
		}
	}
	return best, s.share(best)
}

// ownerCause is the class that a ledger owner's time counts for.
func ownerCause(o timeline.Owner) string {
	switch o {
	case timeline.Compute, timeline.GapSwitch:
		return causeCompute
	case timeline.HostDataloader:
		return causeData
	case timeline.CopyH2D, timeline.CopyD2H:
		return causeTransfer
	case timeline.HostLaunch, timeline.HostSync, timeline.HostPython, timeline.HostCPUOp, timeline.HostDescheduled, timeline.HostAllocator, timeline.HostCompile:
		return causeHost
	case timeline.HostCheckpoint, timeline.HostValidation, timeline.HostLogging:
		return causeInterruption
	case timeline.CommTransfer, timeline.CommUndivided:
		return causeCommunication
	}
	return causeUnknown
}

// excess is what a rank's ledger has more of than the median of the other ranks, ns a step by cause; empty where the rank or others
// are not there. Communication is left out: a late rank has less of it because it is late.
func excess(job *ledger.Job, culprit int) classSums {
	c, others := ledgersOf(job, culprit)
	if c == nil {
		return nil
	}
	var mine timeline.Owners
	theirs := make([]timeline.Owners, len(others))
	for o := range timeline.NOwners {
		mine[o] = int64(perStep(c, c.Owners[o]))
		for i, g := range others {
			theirs[i][o] = int64(perStep(g, g.Owners[o]))
		}
	}
	return moreThan(&mine, theirs)
}

// stepExcess is the same for a late rank that changes: in each step that all ranks have, that of the rank which waited least for its
// peers, where the others did wait.
func stepExcess(job *ledger.Job) classSums {
	var out classSums
	var gpus []*timeline.GPULedger
	var index []int64
	for _, r := range job.Ranks {
		g := mainGPU(r)
		if g == nil || len(g.Steps) == 0 || len(g.Steps) != len(r.Steps.Index) {
			return nil
		}
		if index == nil {
			index = r.Steps.Index
		}
		if !slices.Equal(index, r.Steps.Index) {
			return nil
		}
		gpus = append(gpus, g)
	}
	for s := range index {
		late, most := 0, int64(0)
		for i, g := range gpus {
			w := g.Steps[s].Owners[timeline.CommPeerWait]
			if w < gpus[late].Steps[s].Owners[timeline.CommPeerWait] {
				late = i
			}
			most = max(most, w)
		}
		mine := gpus[late].Steps[s].Owners
		if float64(most-mine[timeline.CommPeerWait]) < lateStep*float64(gpus[late].Steps[s].Dur) {
			continue
		}
		var theirs []timeline.Owners
		for i, g := range gpus {
			if i != late {
				theirs = append(theirs, g.Steps[s].Owners)
			}
		}
		for _, x := range moreThan(&mine, theirs) {
			out.add(x.cause, x.ns)
		}
	}
	return out
}

// moreThan is what mine has more of than the median of theirs, by cause, communication and what is under half a percent left out.
func moreThan(mine *timeline.Owners, theirs []timeline.Owners) classSums {
	var out classSums
	if len(theirs) == 0 {
		return nil
	}
	whole := float64(mine.Sum())
	for o := range timeline.NOwners {
		if isComm(o) {
			continue
		}
		usual := make([]float64, len(theirs))
		for i := range theirs {
			usual[i] = float64(theirs[i][o])
		}
		if more := float64(mine[o]) - median(usual); more > 0.005*whole {
			out.add(ownerCause(o), int64(more))
		}
	}
	return out
}

func isComm(o timeline.Owner) bool {
	return o == timeline.CommPeerWait || o == timeline.CommTransfer || o == timeline.CommUndivided
}

// perStep is ns of a ledger a step; of the whole window where there are no steps.
func perStep(g *timeline.GPULedger, ns int64) float64 {
	return float64(ns) / float64(max(1, len(g.Steps)))
}

// ledgersOf gives the busiest GPU of the rank of a number, and of each other rank that has one.
func ledgersOf(job *ledger.Job, rank int) (*timeline.GPULedger, []*timeline.GPULedger) {
	var c *timeline.GPULedger
	var others []*timeline.GPULedger
	for _, r := range job.Ranks {
		g := mainGPU(r)
		switch {
		case g == nil || g.Window.Empty():
		case r.Process.Rank == rank && c == nil:
			c = g
		default:
			others = append(others, g)
		}
	}
	return c, others
}

// computeCause tells why a late rank computed longer: it did more, or the same took longer.
func computeCause(p *Pass, culprit int) string {
	c, others := ledgersOf(p.Job, culprit)
	if c == nil || len(others) == 0 {
		return causeUnknown
	}
	// Work by the shapes of matrix products, where every rank recorded them.
	flops := func(r *timeline.Reduced) float64 {
		var f float64
		for _, m := range r.Rank.Matmuls {
			f += m.FLOP() * float64(m.Count)
		}
		return f / float64(max(1, len(mainGPU(r).Steps)))
	}
	var mine float64
	var theirs []float64
	shaped := true
	for _, r := range p.Job.Ranks {
		if mainGPU(r) == nil {
			continue
		}
		f := flops(r)
		shaped = shaped && r.Rank.Shapes && f > 0
		if r.Process.Rank == culprit {
			mine = f
		} else {
			theirs = append(theirs, f)
		}
	}
	equal := false
	if shaped && len(theirs) > 0 {
		switch usual := median(theirs); {
		case mine > usual*(1+sameWork):
			if slower, ok := slowerForWork(p.Job, culprit, flops); ok && slower >= 1+moreTime {
				return causeUnknown // more work, and more time for as much of it: which of the two is not told
			}
			return causeUneven
		case mine >= usual*(1-sameWork):
			equal = true
		}
	}
	// More launches are more work whatever they compute.
	count := func(g *timeline.GPULedger) float64 {
		var n int64
		for _, k := range g.Kernels {
			if k.Class != "comm" {
				n += k.Count
			}
		}
		return perStep(g, n)
	}
	var counts []float64
	for _, g := range others {
		counts = append(counts, count(g))
	}
	if usual := median(counts); usual > 0 && count(c) > usual*(1+moreTime) {
		return causeUneven
	}
	ratio, ok := sameKernels(c, others, func(*timeline.KernelRow) bool { return true })
	if !ok || ratio < 1+moreTime {
		return causeUnknown
	}
	if equal {
		return causeHardware
	}
	// Without shapes: the optimizer's kernels work on parameters, whose sizes the batch does not change.
	if opt, ok := sameKernels(c, others, func(k *timeline.KernelRow) bool { return k.Class == "optimizer" }); ok && opt >= 1+moreTime {
		return causeHardware
	}
	return causeUnknown
}

// slowerForWork is the time a rank's matrix products took for as much work, out of the median of the others'.
func slowerForWork(job *ledger.Job, culprit int, flops func(*timeline.Reduced) float64) (float64, bool) {
	var mine float64
	var others []float64
	for _, r := range job.Ranks {
		g := mainGPU(r)
		if g == nil || r.Rank.MatmulShapedNS <= 0 || flops(r) <= 0 {
			continue
		}
		x := perStep(g, r.Rank.MatmulShapedNS) / flops(r)
		if r.Process.Rank == culprit {
			mine = x
		} else {
			others = append(others, x)
		}
	}
	if mine <= 0 || len(others) == 0 {
		return 0, false
	}
	return mine / median(others), true
}

// sameKernels compares kernels of equal name and equal count a step with the median of the other GPUs: the time they took here over
// the time they took there.
func sameKernels(c *timeline.GPULedger, others []*timeline.GPULedger, use func(*timeline.KernelRow) bool) (float64, bool) {
	type key struct{ name, class string }
	theirs := make([]map[key]*timeline.KernelRow, len(others))
	for i, g := range others {
		theirs[i] = map[key]*timeline.KernelRow{}
		for j := range g.Kernels {
			k := &g.Kernels[j]
			theirs[i][key{k.Name, k.Class}] = k
		}
	}
	var here, there float64
	for i := range c.Kernels {
		k := &c.Kernels[i]
		if k.Class == "comm" || k.Count == 0 || !use(k) {
			continue
		}
		var durs []float64
		for j, g := range others {
			o := theirs[j][key{k.Name, k.Class}]
			if o != nil && o.Count > 0 && o.Count*int64(max(1, len(c.Steps))) == k.Count*int64(max(1, len(g.Steps))) {
				durs = append(durs, float64(o.Dur)/float64(o.Count))
			}
		}
		if len(durs) == 0 || 2*len(durs) < len(others) {
			continue
		}
		here += float64(k.Dur)
		there += median(durs) * float64(k.Count)
	}
	if there <= 0 {
		return 0, false
	}
	return here / there, true
}

// longestWaits gives the rows of the collectives that waited longest for a late rank, and how many waited.
func longestWaits(job *ledger.Job) ([]Ref, int) {
	type row struct {
		ref Ref
		ns  int64
	}
	var all []row
	for _, r := range job.Ranks {
		for i := range r.Collectives {
			if c := &r.Collectives[i]; c.ExposedWaitNS > 0 {
				all = append(all, row{traceRef(r.Path, c.Row), c.ExposedWaitNS})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Compare(b.ns, a.ns) })
	var out []Ref
	for _, x := range all[:min(len(all), maxRefs)] {
		out = append(out, x.ref)
	}
	return out, len(all)
}
