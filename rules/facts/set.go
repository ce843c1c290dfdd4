package facts

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"gpureport/ingest/unit"
)

// Set holds the facts of one run. Subjects come in the order run, hosts, ranks, gpus.
type Set struct {
	Subjects []Subject
	Decls    []*Decl // by ID
	byID     map[ID]*Decl
	vals     []map[ID]entry // by subject

	summaries bool // sums without a time axis stand in for traces
}

type entry struct {
	v    Value
	need *Need
}

// NewSet makes an empty set over subjects and declarations. It panics on two declarations of one ID.
func NewSet(subjects []Subject, decls []*Decl) *Set {
	s := &Set{Subjects: subjects, byID: map[ID]*Decl{}, vals: make([]map[ID]entry, len(subjects))}
	for _, d := range decls {
		if s.byID[d.ID] != nil {
			panic("fact declared twice: " + string(d.ID))
		}
		s.byID[d.ID] = d
		s.Decls = append(s.Decls, d)
	}
	sort.Slice(s.Decls, func(i, j int) bool { return s.Decls[i].ID < s.Decls[j].ID })
	for i := range s.vals {
		s.vals[i] = map[ID]entry{}
	}
	return s
}

// Decl gives a declaration, nil if there is none.
func (s *Set) Decl(id ID) *Decl { return s.byID[id] }

// Of gives the indices of the subjects of one kind, in order.
func (s *Set) Of(k SubjectKind) []int {
	var out []int
	for i, sub := range s.Subjects {
		if sub.Kind == k {
			out = append(out, i)
		}
	}
	return out
}

// holder walks from sub upwards to the subject of kind k; -1 if there is none.
func (s *Set) holder(sub int, k SubjectKind) int {
	for sub >= 0 {
		if s.Subjects[sub].Kind == k {
			return sub
		}
		sub = s.Subjects[sub].Up
	}
	return -1
}

// Get gives a fact as subject sub sees it: its own, or that of what holds it. Need is nil exactly when the value is there.
func (s *Set) Get(sub int, id ID) (Value, *Need) {
	d := s.byID[id]
	if d == nil {
		return Value{}, &Need{Fact: id, Why: "no such fact"}
	}
	h := s.holder(sub, d.Per)
	if h < 0 {
		return Value{}, &Need{Fact: id, Why: fmt.Sprintf("no %s is known for it", d.Per), Capture: d.Capture}
	}
	e, ok := s.vals[h][id]
	if !ok {
		return Value{}, &Need{Fact: id, Why: "not derived", Capture: d.Capture}
	}
	return e.v, e.need
}

// Pass is what a deriver gets: its input and the set to fill.
type Pass struct {
	*Input
	Facts *Set
	Errs  []error // values out of their legal range: bugs of the deriver
}

// Set gives fact d of subject sub its value.
func (p *Pass) Set(d *Decl, sub int, v Value) {
	if d.Unit != unit.Text && (math.IsNaN(v.Num) || math.IsInf(v.Num, 0) || v.Num < d.Min || v.Num > d.Max) {
		p.Errs = append(p.Errs, fmt.Errorf("%s of %s: value %v outside [%v, %v]", d.ID, p.Facts.Subjects[sub].ID, v.Num, d.Min, d.Max))
		p.Miss(d, sub, "the computed value was out of its legal range; report this as a bug")
		return
	}
	v.Refs = p.inTables(v.Refs)
	p.Facts.vals[sub][d.ID] = entry{v: v}
}

// inTables finds the table of each trace row whose file has several: row numbers count through all of them.
func (p *Pass) inTables(refs []Ref) []Ref {
	cloned := false
	for i, ref := range refs {
		if ref.Table != traceTable {
			continue
		}
		for j := range p.Base.Sources {
			if src := &p.Base.Sources[j]; src.Path == ref.Path && len(src.Tables) > 0 {
				if !cloned {
					refs, cloned = slices.Clone(refs), true
				}
				refs[i] = src.Ref(ref.Table, uint32(ref.Row))
			}
		}
	}
	return refs
}

// Miss says why subject sub has no value of d.
func (p *Pass) Miss(d *Decl, sub int, why string) {
	if why == noTrace && len(p.Job.GPUs) > 0 && p.Facts.Subjects[sub].Kind == GPU {
		why = "no trace of a process on this GPU was given"
	}
	p.Facts.vals[sub][d.ID] = entry{need: &Need{Fact: d.ID, Why: why, Capture: d.Capture}}
}

// Get gives a fact set before, by this deriver or by one it comes after.
func (p *Pass) Get(d *Decl, sub int) (Value, bool) {
	v, need := p.Facts.Get(sub, d.ID)
	return v, need == nil
}

// Missing tells whether a deriver left d of sub unsaid.
func (s *Set) Missing(sub int, id ID) bool { _, ok := s.vals[sub][id]; return !ok }

// Put sets a value without a deriver, for rule cases and tests.
func (s *Set) Put(sub int, id ID, v Value) { s.vals[sub][id] = entry{v: v} }
