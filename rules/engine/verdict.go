package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
)

// Facts the verdict itself asks for.
const (
	factCompute  facts.ID = "gpu.compute_frac"
	factUnknown  facts.ID = "gpu.unknown_frac"
	factPeerWait facts.ID = "gpu.comm_peer_wait_frac"
	factCulprit  facts.ID = "run.culprit_rank_count" // the rank's number
	factCause    facts.ID = "run.culprit_cause"
	factSlow     facts.ID = "rank.step_slow_owner" // who holds the slow steps
)

const (
	verdictFloor = 0.05 // of step time: below it nothing is to blame
	tie          = 1e-9 // shares nearer than this are equal
	unknownFloor = 0.10 // of the window: above it owner unknown may outweigh every cause
)

// VerdictInput is what the verdict needs beside the checks.
type VerdictInput struct {
	HasLedger   bool
	UnknownFrac float64            // owner unknown, share of the window, mean over the GPUs
	ComputeFrac float64            // owner compute, mean over the GPUs
	Families    map[string]float64 // by class: the time of its owners, share of the window, mean over the GPUs
	CapFrac     float64            // step time that is not compute on the slowest rank, gate G10; 1 where it is not known
	Culprit     int                // number of the late rank; -1 it changes, or cannot be told
	Cause       string             // what held it; "" not known
	Subjects    []facts.Subject
	GPUs        []int           // subjects the means go over: GPUs with a ledger, all if none has one
	PeerWait    map[int]float64 // by GPU subject; absent where not known
	Held        map[int]bool    // by rank subject: a ledger says who holds its slow steps
}

// InputOf collects the verdict's input from the facts.
func InputOf(set *facts.Set) VerdictInput {
	in := VerdictInput{Culprit: -1, CapFrac: 1, Subjects: set.Subjects, PeerWait: map[int]float64{}, Families: map[string]float64{}, Held: map[int]bool{}}
	for _, rank := range set.Of(facts.Rank) {
		_, need := set.Get(rank, factSlow)
		in.Held[rank] = need == nil
	}
	all := set.Of(facts.GPU)
	for _, g := range all {
		if _, need := set.Get(g, factCompute); need == nil {
			in.GPUs = append(in.GPUs, g)
		}
	}
	in.HasLedger = len(in.GPUs) > 0
	if !in.HasLedger {
		in.GPUs = all
	}
	least := math.Inf(1)
	for _, g := range in.GPUs {
		c, need := set.Get(g, factCompute)
		if need != nil {
			continue
		}
		in.ComputeFrac += c.Num / float64(len(in.GPUs))
		if u, need := set.Get(g, factUnknown); need == nil {
			in.UnknownFrac += u.Num / float64(len(in.GPUs))
		}
		for _, f := range families {
			for _, o := range f.owners {
				if v, need := set.Get(g, ownerFact(o)); need == nil {
					in.Families[f.class] += v.Num / float64(len(in.GPUs))
				}
			}
		}
		wait, need := set.Get(g, factPeerWait)
		if need == nil {
			in.PeerWait[g] = wait.Num
		}
		// The slowest rank waits least for its peers; of equals the one that computes most.
		if rest := 1 - c.Num; wait.Num < least || wait.Num == least && rest < in.CapFrac {
			least, in.CapFrac = wait.Num, rest
		}
	}
	for _, run := range set.Of(facts.Run) {
		if v, need := set.Get(run, factCulprit); need == nil {
			in.Culprit = int(math.Round(v.Num))
		}
		if v, need := set.Get(run, factCause); need == nil {
			in.Cause = v.Text
		}
	}
	return in
}

// families are the owners whose time a class could return.
var families = []struct {
	class, what string
	owners      []string
}{
	{DataPipeline, "waiting for the next batch", []string{"host.dataloader"}},
	{Transfer, "copies between host and GPU", []string{"copy.h2d", "copy.d2h"}},
	{HostBound, "waiting for the host", []string{"host.launch", "host.sync", "host.cpu-op", "host.python", "host.allocator", "host.compile", "host.descheduled"}},
	{Interruption, "checkpoints, validation and logging", []string{"host.checkpoint", "host.validation", "host.logging"}},
	{Communication, "collectives that nothing hides", []string{"comm.transfer", "comm.undivided"}},
	{Straggler, "waiting for a late rank", []string{"comm.peer-wait"}},
}

// ownerFact is the fact that holds an owner's share.
func ownerFact(owner string) facts.ID {
	return facts.ID("gpu." + strings.NewReplacer(".", "_", "-", "_").Replace(owner) + "_frac")
}

// ClassShare is what fixes of one class could return.
type ClassShare struct {
	Class      string
	Frac       float64 // of step time, mean over the GPUs
	Confidence facts.Confidence
	Owner      string   // the ledger owner its largest saving claims; "" none
	Evidence   []string // rule ids in checklist order
}

// shares gives each class's share in the order of the classes, those without findings left out, of findings of at least the given
// confidence. Per GPU, disjoint savings add and overlapping ones count once; gate G10 caps what owners of the ledger
// hold beside compute; then the mean over the GPUs.
func (in *VerdictInput) shares(checks []Check, least facts.Confidence) []ClassShare {
	at := in.findings(checks, least)
	cause := in.cause(checks)
	var out []ClassShare
	for _, class := range savingClasses {
		cs := ClassShare{Class: class, Confidence: confMeasured}
		owner := map[string]float64{}
		for _, g := range in.GPUs {
			var cl []claim
			for sub := g; sub >= 0; sub = in.Subjects[sub].Up {
				for _, c := range at[sub] {
					if c.Rule.Class == class {
						cl = append(cl, claim{c, *c.Saving})
					}
				}
			}
			sum, chosen := disjointSum(cl)
			if class == cause {
				sum = math.Max(0, sum-in.countedOnPeers(g))
			}
			free := 0.0 // of time that is in no ledger: between epochs, or lost inside compute
			for _, c := range chosen {
				if len(c.check.Rule.Covers) == 0 {
					free += c.value
				}
			}
			free = math.Min(free, sum)
			cs.Frac += math.Min(1, free+math.Min(sum-free, in.cap(class, cause))) / float64(len(in.GPUs))
			for _, c := range chosen {
				cs.Confidence = min(cs.Confidence, c.check.Confidence)
				for _, o := range c.check.Rule.Covers[:min(1, len(c.check.Rule.Covers))] {
					owner[o] += c.value
				}
			}
		}
		for _, o := range owners {
			if owner[o] > owner[cs.Owner] {
				cs.Owner = o
			}
		}
		for i := range checks {
			c := &checks[i]
			if c.Outcome == Finding && c.Saving != nil && c.Rule.Class == class && c.Confidence >= least && !known(cs.Evidence, c.Rule.ID) {
				cs.Evidence = append(cs.Evidence, c.Rule.ID)
			}
		}
		if len(cs.Evidence) > 0 {
			out = append(out, cs)
		}
	}
	return out
}

// findings groups findings with a saving by subject.
func (in *VerdictInput) findings(checks []Check, least facts.Confidence) map[int][]*Check {
	index := map[facts.Subject]int{}
	for i, s := range in.Subjects {
		index[s] = i
	}
	out := map[int][]*Check{}
	for i := range checks {
		c := &checks[i]
		if sub, ok := index[c.Subject]; ok && c.Outcome == Finding && c.Saving != nil && c.Confidence >= least {
			out[sub] = append(out[sub], c)
		}
	}
	return out
}

// cap is gate G10's: no fix returns more than the slowest rank spends outside compute. It does not bind what makes compute itself
// shorter: cheaper kernels, higher clocks, validation done less often, work moved off a late rank.
func (in *VerdictInput) cap(class, cause string) float64 {
	switch class {
	case ComputeInefficient, Hardware, Interruption:
		return 1
	case Straggler:
		if cause == "" || cause == Hardware || cause == UnevenWork || cause == UnknownCause || cause == ComputeInefficient {
			return 1
		}
	}
	return math.Max(0, in.CapFrac)
}

// countedOnPeers is what the late rank's peers waited for it: time that counts once, as straggler, and so not again as what the late
// rank did meanwhile.
func (in *VerdictInput) countedOnPeers(gpu int) float64 {
	if in.Culprit < 0 || in.Subjects[gpu].Rank != in.Culprit {
		return 0
	}
	sum, n := 0.0, 0
	for _, g := range in.GPUs {
		if w, ok := in.PeerWait[g]; ok && in.Subjects[g].Rank != in.Culprit {
			sum += w
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// cause is what held the late rank: as the facts say, or hardware where it computed longer and its GPU alone has a hardware finding.
// "" if nobody was late.
func (in *VerdictInput) cause(checks []Check) string {
	late := in.Culprit >= 0
	for i := range checks {
		late = late || checks[i].Outcome == Finding && checks[i].Rule.Class == Straggler
	}
	if !late {
		return ""
	}
	cause := in.Cause
	if cause != UnevenWork && !known(savingClasses, cause) {
		cause = UnknownCause
	}
	if cause == UnknownCause && in.Culprit >= 0 {
		on, off := 0, 0
		for i := range checks {
			if c := &checks[i]; c.Outcome == Finding && c.Rule.Class == Hardware && c.Confidence > confHint {
				if c.Subject.Kind >= facts.Rank && c.Subject.Rank == in.Culprit {
					on++
				} else {
					off++
				}
			}
		}
		if on > 0 && off == 0 {
			cause = Hardware
		}
	}
	return cause
}

// Decide gives the run's verdict.
func Decide(checks []Check, in VerdictInput) Verdict {
	shares := in.shares(checks, confHint)
	cause := in.cause(checks)
	best := largest(shares, "")
	straggler := shareOf(shares, Straggler)

	if faults := provenFaults(checks); len(faults) > 0 {
		if in.onCulprit(faults) && cause == Hardware && reaches(straggler.Frac) {
			v := in.of(straggler, shares, checks, cause)
			v.Evidence = merge(checks, v.Evidence, ids(faults))
			return v
		}
		v := in.of(shareOf(shares, Hardware), shares, checks, cause)
		v.Class, v.Confidence = Hardware, confMeasured
		v.Evidence = merge(checks, v.Evidence, ids(faults))
		if shareOf(shares, Hardware).Class == "" {
			v.Recoverable = nil // a fault has no price
		}
		return v
	}
	if best.Class == Hardware && reaches(best.Frac) {
		return in.of(best, shares, checks, cause)
	}
	tooLittle := inconclusive(checks)
	if cuts := measuredCuts(checks); (!in.HasLedger || tooLittle != nil) && len(cuts) > 0 {
		return Verdict{Class: Hardware, Culprit: -1, Confidence: confMeasured, Evidence: ids(cuts)}
	}
	if in.HasLedger && tooLittle != nil {
		return Verdict{Class: InsufficientEvidence, Culprit: -1, Confidence: confHint, Evidence: []string{tooLittle.Rule.ID}, Why: tooLittle.Says}
	}
	if !in.HasLedger || in.UnknownFrac > unknownFloor+tie && in.UnknownFrac > best.Frac+tie {
		v := Verdict{Class: InsufficientEvidence, Culprit: -1, Confidence: confHint, Evidence: firstFindings(checks)}
		if in.HasLedger {
			v.Owner = "unknown"
		}
		return v
	}
	if c := in.unheld(checks); c != nil && *c.Saving > best.Frac+tie {
		return Verdict{Class: InsufficientEvidence, Culprit: -1, Confidence: confHint, Evidence: []string{c.Rule.ID}, Why: c.Says}
	}
	if reaches(best.Frac) {
		return in.of(best, shares, checks, cause)
	}
	if why, owner := in.unjudged(checks); why != "" {
		return Verdict{Class: InsufficientEvidence, Culprit: -1, Confidence: confHint, Evidence: firstFindings(checks), Owner: owner, Why: why}
	}
	return in.computeBound(best, checks)
}

// inconclusive is the first finding that says that the inputs cannot tell.
func inconclusive(checks []Check) *Check {
	for i := range checks {
		if c := &checks[i]; c.Outcome == Finding && c.Rule.Class == InsufficientEvidence {
			return c
		}
	}
	return nil
}

// unheld is the finding of the largest loss in steps that a log alone holds, and no finding that names a holder claims: the ledger of other steps
// cannot say that nothing is to blame. nil if there is none.
func (in *VerdictInput) unheld(checks []Check) *Check {
	named := map[string]bool{}
	for i := range checks {
		if c := &checks[i]; c.Outcome == Finding && c.Rule.Class != "" {
			for _, id := range c.Overlaps {
				named[id] = true
			}
		}
	}
	var worst *Check
	for i := range checks {
		c := &checks[i]
		if c.Outcome != Finding || c.Rule.Stage != "step" || c.Rule.Class != "" || c.Saving == nil || !reaches(*c.Saving) || named[c.Rule.ID] {
			continue
		}
		sub := slices.IndexFunc(in.Subjects, func(s facts.Subject) bool { return s == c.Subject })
		if held, rank := in.Held[sub]; !rank || held {
			continue
		}
		if worst == nil || *c.Saving > *worst.Saving {
			worst = c
		}
	}
	return worst
}

// unjudged says which owners hold more than computing does and are neither blamed nor cleared, as a rule of their class was not answered and
// none found anything: then nobody may call the GPU compute-bound. "" if there are none.
func (in *VerdictInput) unjudged(checks []Check) (why, owner string) {
	for _, f := range families {
		share := in.Families[f.class]
		if !reaches(share) || share < in.ComputeFrac-tie {
			continue
		}
		found, unknown := false, false
		for i := range checks {
			if c := &checks[i]; c.Rule.Class == f.class {
				found = found || c.Outcome == Finding
				unknown = unknown || c.Outcome == Unknown
			}
		}
		if unknown && !found {
			return fmt.Sprintf("%s took %s of the window, computing %s, and whether a fix returns any of it could not be judged", UpperFirst(f.what),
				Format(share, unit.Frac), Format(in.ComputeFrac, unit.Frac)), f.owners[0]
		}
	}
	return "", ""
}

// measuredCuts are the throttles of stage hw that the samples alone prove: the hardware itself held the clock down, whatever that cost.
// They decide only where no ledger can weigh them.
func measuredCuts(checks []Check) []*Check {
	var out []*Check
	for i := range checks {
		c := &checks[i]
		if c.Outcome == Finding && c.Rule.Class == Hardware && c.Confidence == confMeasured && c.Severity >= High {
			out = append(out, c)
		}
	}
	return out
}

// of is the verdict that names a class.
func (in *VerdictInput) of(cs ClassShare, shares []ClassShare, checks []Check, cause string) Verdict {
	frac := cs.Frac
	v := Verdict{Class: cs.Class, Culprit: -1, Confidence: in.sure(cs, shares, checks), Recoverable: &frac, Evidence: cs.Evidence, Owner: cs.Owner}
	if cs.Class == Straggler {
		v.Culprit, v.Cause = in.Culprit, cause
		v.Owner = "comm.peer-wait"
	}
	rest := in.shares(without(checks, cs.Class), confHint)
	if cs.Class == Straggler {
		rest = in.afterLateness(shares, checks, cause, frac)
	}
	if next := largest(rest, cs.Class); next.Frac > 0 && next.Frac >= verdictFloor*(1-frac)-tie {
		v.Next, v.NextFrac = next.Class, next.Frac
	}
	return v
}

// without are the checks with what the findings of a class return taken from others that claim the same time.
func without(checks []Check, class string) []Check {
	type at struct{ id, subject string }
	gone := map[at]float64{}
	for i := range checks {
		if c := &checks[i]; c.Outcome == Finding && c.Rule.Class == class && c.Saving != nil {
			gone[at{c.Rule.ID, c.Subject.ID}] = *c.Saving
		}
	}
	out := slices.Clone(checks)
	for i := range out {
		c := &out[i]
		if c.Outcome != Finding || c.Rule.Class == class || c.Saving == nil {
			continue
		}
		left := *c.Saving
		for _, id := range c.Overlaps {
			for _, sub := range []string{c.Subject.ID, "run"} {
				left = min(left, *c.Saving-gone[at{id, sub}])
			}
		}
		left = max(0, left)
		c.Saving = &left
	}
	return out
}

// afterLateness are the shares that are left when the late rank is mended: without the findings of what made it late, and without the transfers that
// its peers had in sight only because they waited.
func (in *VerdictInput) afterLateness(shares []ClassShare, checks []Check, cause string, late float64) []ClassShare {
	mended := in.mended(checks, cause)
	hidden := 0.0
	for _, g := range in.GPUs {
		if w, ok := in.PeerWait[g]; ok && in.Culprit >= 0 && in.Subjects[g].Rank != in.Culprit {
			hidden += max(0, late-w) / float64(len(in.GPUs))
		}
	}
	var out []ClassShare
	for _, s := range shares {
		left := slices.DeleteFunc(slices.Clone(s.Evidence), func(id string) bool { return mended[id] })
		if len(left) == 0 {
			continue
		}
		if s.Class == Communication {
			s.Frac = max(0, s.Frac-hidden)
		}
		out = append(out, s)
	}
	return out
}

// sure is the highest confidence whose findings alone give the same verdict: a hint that adds a little does not make a measured cause
// a hint.
func (in *VerdictInput) sure(cs ClassShare, all []ClassShare, checks []Check) facts.Confidence {
	for level := confMeasured; level > confHint; level-- {
		some := shareOf(in.shares(checks, level), cs.Class)
		rival := largest(all, cs.Class)
		if reaches(some.Frac) && (some.Frac > rival.Frac+tie || some.Frac > rival.Frac-tie && classIndex(cs.Class) < classIndex(rival.Class)) {
			return level
		}
	}
	return cs.Confidence
}

// computeBound is the verdict that blames nothing. It is as sure as the GPU was seen busy and its kernels judged.
func (in *VerdictInput) computeBound(best ClassShare, checks []Check) Verdict {
	zero := 0.0
	v := Verdict{Class: ComputeBound, Culprit: -1, Confidence: confInferred, Recoverable: &zero, Owner: "compute"}
	if best.Frac > 0 {
		v.Next, v.NextFrac = best.Class, best.Frac
	}
	for i := range checks {
		c := &checks[i]
		if c.Outcome != Pass {
			continue
		}
		if c.Rule.Class == ComputeInefficient && c.Confidence == confMeasured {
			v.Confidence = confMeasured
		}
		if (c.Rule.Stage == "idle" || c.Rule.Class == ComputeInefficient) && c.Rule.Saving != nil && !known(v.Evidence, c.Rule.ID) {
			v.Evidence = append(v.Evidence, c.Rule.ID)
		}
	}
	if in.ComputeFrac < 0.5 {
		v.Confidence = confHint // most of the time is with owners that no class counts
	}
	return v
}

func reaches(share float64) bool { return share >= verdictFloor-tie }

// largest is the class with the largest share but one; of equals the upper one of the table.
func largest(shares []ClassShare, but string) ClassShare {
	var best ClassShare
	for _, s := range shares {
		if s.Class != but && s.Frac > best.Frac+tie {
			best = s
		}
	}
	return best
}

func shareOf(shares []ClassShare, class string) ClassShare {
	for _, s := range shares {
		if s.Class == class {
			return s
		}
	}
	return ClassShare{}
}

func classIndex(class string) int {
	for i, c := range Classes {
		if c == class {
			return i
		}
	}
	return len(Classes)
}

// provenFaults are the measured critical findings of class hardware.
func provenFaults(checks []Check) []*Check {
	var out []*Check
	for i := range checks {
		if c := &checks[i]; c.Outcome == Finding && c.Rule.Class == Hardware && c.Severity == Critical && c.Confidence == confMeasured {
			out = append(out, c)
		}
	}
	return out
}

func (in *VerdictInput) onCulprit(cs []*Check) bool {
	for _, c := range cs {
		if in.Culprit < 0 || c.Subject.Kind < facts.Rank || c.Subject.Rank != in.Culprit {
			return false
		}
	}
	return true
}

func ids(cs []*Check) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c.Rule.ID)
	}
	return out
}

// merge joins lists of rule ids, each id once, in the order of the checks.
func merge(checks []Check, lists ...[]string) []string {
	var out []string
	for i := range checks {
		id := checks[i].Rule.ID
		for _, l := range lists {
			if known(l, id) && !known(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// firstFindings names what was found.
func firstFindings(checks []Check) []string {
	var out []string
	for i := range checks {
		if checks[i].Outcome == Finding && !known(out, checks[i].Rule.ID) {
			out = append(out, checks[i].Rule.ID)
		}
	}
	return out
}
