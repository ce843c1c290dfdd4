// Package engine loads, checks and evaluates rules over facts, and decides the run's verdict from the checks.
package engine

import (
	"gpureport/rules/facts"
)

// Outcome of a check. What is forgotten cannot pass.
type Outcome uint8

// Outcomes in this order.
const (
	Unknown Outcome = iota
	NotAsked
	Pass
	Finding
)

func (o Outcome) String() string { return [...]string{"unknown", "not-asked", "pass", "finding"}[o] }

// Severity of a finding.
type Severity uint8

// Severities, mildest first. NoSeverity belongs to everything but findings.
const (
	NoSeverity Severity = iota
	Info
	Low
	Medium
	High
	Critical
)

func (s Severity) String() string {
	return [...]string{"", "info", "low", "medium", "high", "critical"}[s]
}

// Clause is one comparison of a condition with its numbers filled in.
type Clause struct {
	Text    string  // as written in the rule
	Outcome Outcome // Finding: true, Pass: false, Unknown
	Facts   []facts.ID
}

// Advice is one thing to do.
type Advice struct {
	Say     string
	Capture string // recipe id when the advice is to record something; "" otherwise
}

// Withheld is advice that a gate did not let through, and the capture that would open it; Capture "" when the gate is closed by what was measured.
// Gate is "hint" for advice that a mere hint may not give.
type Withheld struct {
	Say, Gate, Why, Capture string
}

// Number is a fact's value as a check saw it.
type Number struct {
	Fact  facts.ID
	Value facts.Value
}

// Check is one rule on one subject. The verdict is the run's, one for all of them.
type Check struct {
	Rule       *Rule
	Subject    facts.Subject
	Outcome    Outcome
	Severity   Severity
	Confidence facts.Confidence
	Clauses    []Clause
	Saving     *float64 // recoverable share of step time [0,1]; nil: cannot be computed or not a finding
	Says       string   // the sentence, facts filled in; for Unknown: what is missing; for Pass: value and limit
	Do         []Advice
	Dont       []string
	Withheld   []Withheld
	Numbers    []Number // facts the rule names, in order of appearance
	Overlaps   []string // ids of findings whose saving is the same time
	Missing    []facts.Need
	Refs       []facts.Ref
	NRefs      int
}

// Verdict is the run's.
type Verdict struct {
	Class       string
	Cause       string // "" none
	Culprit     int    // rank number, -1 none
	Confidence  facts.Confidence
	Recoverable *float64 // share of step time; nil unknown
	Evidence    []string // rule ids it rests on
	Owner       string   // the ledger owner family it speaks of, for the sentence; "" none
	Next        string   // class with the next largest share after this one's fix; "" none
	NextFrac    float64
	Why         string // of insufficient-evidence: the reason in words; "" that nobody can be told to have held the time
}
