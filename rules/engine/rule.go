package engine

import (
	"strings"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
)

// Stages of the checklist, in order.
var Stages = []string{"step", "idle", "data", "kernel", "comm", "shape", "hw"}

// Verdict classes, in the order that settles ties: the upper one wins.
const (
	DataPipeline         = "data-pipeline"
	Transfer             = "transfer"
	HostBound            = "host-bound"
	Interruption         = "interruption"
	Communication        = "communication"
	Straggler            = "straggler"
	Hardware             = "hardware"
	ComputeInefficient   = "compute-inefficient"
	ComputeBound         = "compute-bound"
	InsufficientEvidence = "insufficient-evidence"
)

// Causes of a straggler beside the classes.
const (
	UnevenWork   = "uneven-work"
	UnknownCause = "unknown"
)

// Classes lists the verdict classes in the order of the table.
var Classes = []string{DataPipeline, Transfer, HostBound, Interruption, Communication, Straggler, Hardware, ComputeInefficient,
	ComputeBound, InsufficientEvidence}

// savingClasses are those a rule's saving may count for.
var savingClasses = Classes[:8]

// ruleClasses are those a rule may name: one of insufficient-evidence saves nothing, its finding is that the inputs cannot tell.
var ruleClasses = append(append([]string(nil), savingClasses...), InsufficientEvidence)

// owners are the ledger's. They are spelt here because a rule sees facts, not the time line; a test compares.
var owners = []string{"compute", "comm.peer-wait", "comm.transfer", "comm.undivided", "copy.h2d", "copy.d2h", "gap.switch",
	"gap.queued-stall", "host.dataloader", "host.launch", "host.sync", "host.cpu-op", "host.python", "host.allocator", "host.compile",
	"host.checkpoint", "host.validation", "host.logging", "host.profiler", "host.descheduled", "unknown"}

// Limit is a threshold with its source.
type Limit struct {
	Name   string
	Value  float64   // in Unit, the base unit
	Unit   unit.Unit // base
	Stated string    // as the file says it: 50 %
	Source string
}

// Do is one thing a rule advises.
type Do struct {
	Say     string
	Gates   []string   // gate ids that must allow it: the rule's and its own
	Capture string     // recipe id; the advice is to record this. "" other advice
	Where   []Where    // given only where all hold
	Lacks   []facts.ID // given only where one of these is missing: what is among the inputs is not to be recorded
}

// Where restricts advice to some values of a text fact, which no condition may judge.
type Where struct {
	Fact facts.ID
	Is   []string
}

// Case is a rule's own test.
type Case struct {
	Facts    []CaseFact // in file order
	Want     Outcome
	Saving   *float64 // nil: not compared
	Severity Severity // NoSeverity: not compared
	Line     int
}

// CaseFact is one fact of a case; facts that are not named are missing.
type CaseFact struct {
	ID    facts.ID
	Value facts.Value
}

// Rule is one loaded rule file.
type Rule struct {
	ID         string
	Stage      string
	Title      string
	Path       string // as errors name it
	Site       bool   // from the user, not shipped
	Per        facts.SubjectKind
	Class      string // verdict class its saving counts for; "" none
	When       *Cond  // nil: always asked
	FindingIf  *Cond
	Limits     []Limit // in file order
	Saving     *Expr   // share of step time; nil: cannot be computed
	Severity   Severity
	Confidence facts.Confidence
	Says       string // template of the finding's sentence
	SaysPass   string // template; "" is made from the condition
	SaysNot    string // template, where the rule is not asked; "" is made from the condition
	Do         []Do
	Dont       []string
	Gates      []string
	LooksLike  string // what else looks the same, and what tells them apart
	Overlaps   []string
	Covers     []string // ledger owners whose time the saving claims
	Cases      []Case

	says, saysPass, saysNot []piece
	facts                   []facts.ID // that it names, in order of appearance
}

// Name is the part of the id after the stage.
func (r *Rule) Name() string {
	_, name, _ := strings.Cut(r.ID, ".")
	return name
}

// Limit gives a limit by name.
func (r *Rule) Limit(name string) (Limit, bool) { return limitOf(r.Limits, name) }

func limitOf(ls []Limit, name string) (Limit, bool) {
	for _, l := range ls {
		if l.Name == name {
			return l, true
		}
	}
	return Limit{}, false
}

// Rules are all loaded rules in the order of the report.
type Rules struct {
	List  []*Rule
	Gates []*Gate // in file order
	Decls []*facts.Decl

	decls map[facts.ID]*facts.Decl
}

// Rule gives a rule by id, nil if there is none.
func (rs *Rules) Rule(id string) *Rule {
	for _, r := range rs.List {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Only gives the rules that keep says yes to, with the same gates and facts.
func (rs *Rules) Only(keep func(*Rule) bool) *Rules {
	out := *rs
	out.List = nil
	for _, r := range rs.List {
		if keep(r) {
			out.List = append(out.List, r)
		}
	}
	return &out
}

// Gate gives a gate by id, nil if there is none.
func (rs *Rules) Gate(id string) *Gate {
	for _, g := range rs.Gates {
		if g.ID == id {
			return g
		}
	}
	return nil
}
