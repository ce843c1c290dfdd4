// Package ledger answers who owned each nanosecond of each GPU. It finds steps, classes names by the tables of rules/tables,
// sweeps the time line into owners, reduces one rank's spans to what outlives them, and divides collectives across ranks.
package ledger

import (
	"gpureport/ingest/timeline"
)

// Options are what the user may say in place of the files.
type Options struct {
	Steps string            // regular expression of step range names; "" is by the rules
	Set   map[string]string // workers, accumulate, save_every, log_every, eval_every, period
	// Window, if not empty, cuts the analysis to the whole steps inside it; without steps, to it.
	Window timeline.Interval
}

// Job is all ranks of one run after they met: ranks sorted by host, rank, path; collectives divided.
type Job struct {
	Ranks    []*timeline.Reduced
	GPUs     []GPURef // report order: by host, rank, index; position is the report's gpuN
	World    int      // stated world size; 0 unknown
	Missing  []int    // ranks of the world whose trace is not here
	Waits    []Wait   // by DurNS, longest first
	Culprits []Culprit
	Asides   []Aside     // other captures of these ranks at the same time, by rank, then path
	Ignored  []string    // paths of other runs in the same input that are not analysed
	Hosts    []HostClock // one a clock, the reference first; nil where no trace tells one
	Groups   []Group     // communicators, by name, then members
	Late     Lateness    // empty where no collective is shared by all ranks
	Chains   []Chain     // of the steps in which most was waited, at most six
	Problems []timeline.Problem
}

// GPURef names one GPU ledger of the job.
type GPURef struct {
	ID   string // gpu0, gpu1, ...
	Rank int    // position in Job.Ranks, not the rank's number
	GPU  int    // position in Reduced.GPUs
}

// Aside is a second capture of a rank, recorded at the same time by another profiler. Its ledger is not analysed.
type Aside struct {
	Of  int // position in Job.Ranks
	Red *timeline.Reduced
}

// Wait is what peers waited for one late rank, by what that rank was doing. Sums over all waiting GPUs.
type Wait struct {
	Culprit int // rank number; -1 it cannot be told
	Owner   timeline.Owner
	Sub     timeline.Sub
	DurNS   int64
	Conf    timeline.Confidence
}

// Culprit is how often a rank arrived last in the collectives that made others wait.
type Culprit struct {
	Rank   int
	Last   int64 // instances in which it arrived last
	Of     int64 // instances judged
	WaitNS int64 // what all others waited for it, exposed
}
