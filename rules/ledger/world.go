package ledger

import (
	"math"

	"gpureport/ingest/timeline"
)

// HostClock says how far the clock of one host was found from that of the others, by the ends of the collectives they share. Clocks are
// compared only where a run has more than one.
type HostClock struct {
	Host       string // as the trace states it or its file is named; "" the ranks tell none
	Ranks      []int  // positions in Job.Ranks, ascending
	OffsetNS   int64  // this host's clock less the reference, at the middle of what was compared; it is taken off before anything is compared
	DriftPPM   float64
	ResidualNS int64  // 1.4826 times the median absolute deviation that is left; differences of arrival below three times it are not said
	Instances  int64  // collectives it rests on; 0 for the reference host and for one that shares none
	Refused    string // why nothing between this host and the others is compared; "" it is
}

// GroupKind is what a communicator is for.
type GroupKind uint8

// Kinds of groups. UnknownGroup is the zero value.
const (
	UnknownGroup GroupKind = iota
	WorldGroup
	DataGroup
	ShardGroup
	TensorGroup
	PipelineGroup
	ExpertGroup
)

func (k GroupKind) String() string {
	return [...]string{"", "world", "data", "sharded", "tensor", "pipeline", "expert"}[k]
}

// Group is one communicator of the run.
type Group struct {
	Name, Desc string
	Kind       GroupKind
	Size       int    // stated members; 0 unknown
	Ranks      []int  // numbers of its members, ascending; nil unknown
	Here       []int  // positions in Job.Ranks of the members whose trace is here
	Hosts      int    // hosts its members here are on
	Matched    int64  // instances matched on every member that is here
	Unmatched  int64  // collectives of a member that were matched with no other's
	How        string // "seq", "order", "overlap" or "": how they were matched
	Why        string // why its collectives are not divided; "" they are
}

// NotLate marks a step of a rank whose arrival is not known.
const NotLate = math.MinInt64

// Lateness is when ranks came to the first collective of each step that all of them share, after the first rank to come.
type Lateness struct {
	Steps   []int64   // step numbers, ascending
	NS      [][]int64 // by position in Job.Ranks and step; NotLate unknown
	ErrorNS int64     // three times the largest residual between the clocks compared; differences below it are not drawn and not said
}

// Link is one rank that waited for another, in a chain of who waited for whom.
type Link struct {
	Waiter, Culprit int // positions in Job.Ranks
	Group           int // in Job.Groups; -1 unknown
	Primitive       string
	At              timeline.Interval // the wait, on the reference clock
	Owner           timeline.Owner    // what the culprit was late by
	Sub             timeline.Sub
	OwnerNS         int64 // of the wait, by that owner
	Row             uint32
}

// Chain is the longest waits of one step, each link's culprit waited on by the one before: for drawing.
type Chain struct {
	Step   int64
	Links  []Link
	Beside []Link // the others that waited where the first link did, longest first
}
