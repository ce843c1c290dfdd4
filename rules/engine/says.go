package engine

import (
	"fmt"
	"slices"
	"strings"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
)

// piece is a stretch of a sentence: plain text, a subject, a fact or a limit.
type piece struct {
	plain   string
	subject string // gpu, rank, host
	fact    facts.ID
	limit   string
}

// compileSays cuts a template. Positions are runes of the text.
func (s *scope) compileSays(text string) ([]piece, []fault) {
	var out []piece
	var bad []fault
	rest, off := []rune(text), 0
	for len(rest) > 0 {
		i := indexRune(rest, '{')
		if j := indexRune(rest, '}'); j >= 0 && (i < 0 || j < i) {
			return nil, append(bad, fault{off + j, "} without {: write {fact}, {gpu}, {rank}, {host} or {limit:name}"})
		}
		if i < 0 {
			return append(out, piece{plain: string(rest)}), bad
		}
		if i > 0 {
			out = append(out, piece{plain: string(rest[:i])})
		}
		j := indexRune(rest, '}')
		if k := indexRune(rest[i+1:], '{'); j < 0 || k >= 0 && i+1+k < j {
			return nil, append(bad, fault{off + i, "{ without }: close the name"})
		}
		p, msg := s.piece(string(rest[i+1 : j]))
		if msg != "" {
			bad = append(bad, fault{off + i + 1, msg})
		}
		out = append(out, p)
		rest, off = rest[j+1:], off+j+1
	}
	return out, bad
}

func indexRune(rs []rune, r rune) int {
	for i, x := range rs {
		if x == r {
			return i
		}
	}
	return -1
}

var subjectKinds = map[string]facts.SubjectKind{"gpu": facts.GPU, "rank": facts.Rank, "host": facts.Host}

func (s *scope) piece(name string) (piece, string) {
	if k, ok := subjectKinds[name]; ok {
		if k > s.per {
			return piece{}, fmt.Sprintf("{%s} in a rule per %s: it sees its subject and what holds it", name, s.per)
		}
		return piece{subject: name}, ""
	}
	l, stated := strings.CutPrefix(name, "limit:")
	if _, isLimit := limitOf(s.limits, l); stated || isLimit {
		if !isLimit {
			var names []string
			for _, l := range s.limits {
				names = append(names, l.Name)
			}
			return piece{}, fmt.Sprintf("unknown limit %s: %s", l, hint(l, names, "add it to limits"))
		}
		s.used[l] = true
		return piece{limit: l}, ""
	}
	if !strings.Contains(name, ".") {
		return piece{}, fmt.Sprintf("{%s} is nothing: write {fact}, {gpu}, {rank}, {host} or the name of a limit", name)
	}
	if _, msg := s.see(facts.ID(name)); msg != "" {
		return piece{}, msg
	}
	return piece{fact: facts.ID(name)}, ""
}

// fill writes a sentence for a subject. A fact that is missing is the word unknown.
func (rs *Rules) fill(ps []piece, r *Rule, v view) string {
	var b strings.Builder
	for _, p := range ps {
		switch {
		case p.subject != "":
			b.WriteString(subjectName(v, subjectKinds[p.subject]))
		case p.limit != "":
			l, _ := r.Limit(p.limit)
			b.WriteString(Format(l.Value, l.Unit))
		case p.fact != "":
			val, need := v.get(p.fact)
			switch d := rs.decls[p.fact]; {
			case need != nil:
				b.WriteString("unknown")
			case d.Unit == unit.Text:
				b.WriteString(val.Text)
			default:
				b.WriteString(Format(val.Num, d.Unit))
			}
		default:
			b.WriteString(p.plain)
		}
	}
	return UpperFirst(b.String())
}

// subjectName names the subject of kind k that v is about or that holds it.
func subjectName(v view, k facts.SubjectKind) string {
	for i := v.sub; i >= 0; i = v.set.Subjects[i].Up {
		if s := v.set.Subjects[i]; s.Kind == k {
			return SubjectWords(s)
		}
	}
	return "an unknown " + k.String()
}

// SubjectWords names a subject in a sentence: GPU 0, rank 2, process 0, the host's name, the run.
func SubjectWords(s facts.Subject) string {
	switch s.Kind {
	case facts.Run:
		return "the run"
	case facts.GPU:
		if n, ok := strings.CutPrefix(s.ID, "gpu"); ok {
			return "GPU " + n
		}
	case facts.Rank:
		if s.Rank >= 0 {
			return fmt.Sprintf("rank %d", s.Rank)
		}
		if n, ok := strings.CutPrefix(s.ID, "process"); ok {
			return "process " + n
		}
	}
	return s.ID
}

// describe says a condition's comparisons of one truth with their values and limits; all judged ones if none has it.
func (rs *Rules) describe(c *Cond, t truth, v view) string {
	var some, all []string
	for _, l := range c.leaves {
		got, _ := l.eval(v)
		if got == unknownTruth {
			continue
		}
		s := rs.leafWords(l, v)
		all = append(all, s)
		if got == t {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		some = all
	}
	return strings.Join(some, "; ")
}

// leafWords is: value (what it is), limit value.
func (rs *Rules) leafWords(l *leaf, v view) string {
	if l.op == "" {
		x, _ := l.left.eval(v)
		return Format(x, unit.Flag) + " (" + rs.numWords(l.left) + ")"
	}
	left, right := l.left, l.right
	if !left.hasFact() {
		left, right = right, left
	}
	a, _ := left.eval(v)
	b, _ := right.eval(v)
	u := left.unit
	if u == "" {
		u = right.unit
	}
	word := "limit"
	if right.hasFact() {
		word = "against"
	}
	return fmt.Sprintf("%s (%s), %s %s", Format(a, u), rs.numWords(left), word, Format(b, u))
}

func (n *num) hasFact() bool { return len(n.facts(nil)) > 0 }

// numWords is a fact's own sentence, or an expression as written.
func (rs *Rules) numWords(n *num) string {
	if n.op == "fact" {
		return LowerFirst(strings.TrimSuffix(rs.decls[n.fact].Doc, "."))
	}
	return n.text
}

// unanswered says which inputs are missing, two reasons at most.
func unanswered(needs []facts.Need) string {
	var whys []string
	for _, n := range needs {
		if !slices.Contains(whys, n.Why) {
			whys = append(whys, n.Why)
		}
	}
	var out []string
	for i, why := range whys {
		if i == 2 {
			out = append(out, fmt.Sprintf("and %d more", len(whys)-2))
			break
		}
		out = append(out, why)
	}
	if len(out) == 0 {
		return "Not answered: nothing says why"
	}
	return "Not answered: " + strings.Join(out, "; ")
}
