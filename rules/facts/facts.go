// Package facts is the catalogue of everything a rule may ask: each fact is declared and derived in one file, with its unit, its legal
// range and the command that would have recorded it.
package facts

import (
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// ID is a fact's name: gpu.idle_frac.
type ID string

// Ref is a row a claim rests on.
type Ref = timeline.Ref

// Confidence of a value.
type Confidence = timeline.Confidence

// SubjectKind says what a fact or a rule is about.
type SubjectKind uint8

// Kinds of subjects, from the widest to the narrowest.
const (
	Run SubjectKind = iota
	Host
	Rank
	GPU
)

func (k SubjectKind) String() string { return [...]string{"run", "host", "rank", "gpu"}[k] }

// Subject is one thing that facts speak about.
type Subject struct {
	Kind SubjectKind
	ID   string // run; host name; rank2; gpu0
	Rank int    // its rank's number, -1 none or unknown
	Up   int    // index of the subject that holds it in Set.Subjects; -1 for the run

	// Unused says why a GPU that only logs know takes no part in the run: only what is found or passed about its hardware is told.
	Unused string
}

// Decl declares a fact. ID, Doc, Unit, Per and Capture are required; a test refuses blanks.
type Decl struct {
	ID       ID
	Doc      string // one sentence: of what, over what, out of what
	Unit     unit.Unit
	Per      SubjectKind
	Min, Max float64 // legal range, inclusive; outside is a bug in the deriver
	Capture  string  // recipe id of captures.go: the command that would have measured it
}

// Value is a fact of one subject.
type Value struct {
	Num   float64 // finite, in Decl.Unit
	Text  string  // for Text facts
	Cover float64 // fraction [0,1] of the window the inputs cover
	Refs  []Ref   // first few rows, in time order
	NRefs int     // how many there were
	Conf  Confidence
}

// Need says why a value is absent and which command would have given it.
type Need struct {
	Fact    ID
	Why     string
	Capture string // recipe id
}

// Deriver computes facts from reductions and series; it never sees spans.
type Deriver struct {
	Name  string
	After []*Deriver // whose results it uses; acyclic
	Gives []*Decl
	Run   func(*Pass) // must Set or Miss every Decl for every subject; silence is a bug
}

// Input is everything derivers may read.
type Input struct {
	Job    *ledger.Job        // never nil; without traces it has no ranks
	Base   *timeline.Timeline // sampled logs with clocks placed and devices matched; never nil
	Window timeline.Interval
	Tables *ledger.Tables
	Set    map[string]string // the user's word: workers, accumulate, save_every, ...
	// Logs gives for each report GPU the devices of Base that are the same card; see ingest.Match.
	Logs map[string][]timeline.DeviceID
}
