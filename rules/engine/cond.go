package engine

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
)

// Note: the parser is expr's, the arithmetic is ours. A condition holds nothing but numbers, and a walk over them can say which
// division was by zero; the library's machine would carry the Inf on into a comparison.

// truth has three values.
type truth uint8

const (
	unknownTruth truth = iota
	no
	yes
)

func (t truth) outcome() Outcome { return [...]Outcome{Unknown, Pass, Finding}[t] }

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// Kleene's tables.
func (t truth) and(u truth) truth {
	switch {
	case t == no || u == no:
		return no
	case t == yes && u == yes:
		return yes
	}
	return unknownTruth
}

func (t truth) or(u truth) truth { return t.not().and(u.not()).not() }

func (t truth) not() truth { return [...]truth{unknownTruth, yes, no}[t] }

// Cond is a condition: comparisons joined by and, or, not in three values.
type Cond struct {
	Text   string
	root   *branch
	leaves []*leaf // in the order of the text
}

// Expr is a number computed from facts and limits.
type Expr struct {
	Text string
	root *num
}

// branch is a node of the three-valued part.
type branch struct {
	op   string // and, or, not; "" is a leaf
	kids []*branch
	leaf *leaf
}

// leaf is one comparison, or a flag standing alone.
type leaf struct {
	text        string
	op          string // a comparison; "" is a flag, in left
	left, right *num
	facts       []facts.ID
}

// num is a node of the arithmetic part.
type num struct {
	op    string // fact, limit, const, neg, + - * /, min, max, abs
	text  string
	unit  unit.Unit // base; "" fits any: it is 0
	fact  facts.ID
	limit string
	value float64 // of limit and const
	kids  []*num
}

// scope is what the names of an expression may mean.
type scope struct {
	per    facts.SubjectKind
	decls  map[facts.ID]*facts.Decl
	names  []string // of decls, sorted
	limits []Limit
	used   map[string]bool // limits that were named
}

// fault is an error at a rune of an expression's text.
type fault struct {
	off int
	msg string
}

type compiler struct {
	*scope
	text   string
	one    bool // the number 1 may stand: the whole of a share
	leaves []*leaf
	seen   []facts.ID // of the leaf or expression being read
	faults []fault
}

func (c *compiler) fail(off int, format string, args ...any) {
	c.faults = append(c.faults, fault{off, fmt.Sprintf(format, args...)})
}

// compileCond reads a condition.
func (s *scope) compileCond(text string) (*Cond, []fault) {
	c := &compiler{scope: s, text: text}
	root := c.parse()
	if root == nil {
		return nil, c.faults
	}
	b := c.branch(root)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return &Cond{Text: text, root: b, leaves: c.leaves}, nil
}

// compileExpr reads a number of unit want.
func (s *scope) compileExpr(text string, want unit.Unit) (*Expr, []fault) {
	c := &compiler{scope: s, text: text, one: true}
	root := c.parse()
	if root == nil {
		return nil, c.faults
	}
	n := c.num(root)
	if n != nil && n.unit != want && n.unit != "" {
		from, _ := extent(root)
		c.fail(from, "%s is %s, not %s: divide by what it is a share of", n.text, unitWords(n.unit), unitWords(want))
	}
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return &Expr{Text: text, root: n}, nil
}

const allowed = "it may hold fact names, limits, < <= > >= == !=, + - * /, min, max, abs, parentheses, and, or, not"

// parse lets the library parse, after the letters that could mean more than a comparison were refused.
func (c *compiler) parse() ast.Node {
	prev := rune(0)
	for i, r := range []rune(c.text) {
		ok := r == ' ' || r == '\n' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.()<>=!+-*/,", r)
		switch {
		case r == '%':
			c.fail(i, "a percent sign in a condition: put the number in limits, with its unit")
			return nil
		case r == '&' || r == '|':
			c.fail(i, "%q in a condition: write and, or", r)
			return nil
		case !ok:
			c.fail(i, "%q in a condition: %s", r, allowed)
			return nil
		case prev == '/' && (r == '/' || r == '*'), prev == '*' && r == '*', prev == '.' && r == '.':
			c.fail(i-1, "%q in a condition: %s", string(prev)+string(r), allowed)
			return nil
		}
		prev = r
	}
	tree, err := parser.Parse(c.text)
	if err != nil {
		off, msg := 0, err.Error()
		var fe *file.Error
		if errors.As(err, &fe) {
			off, msg = fe.From, fe.Message
		}
		if msg == "unexpected token EOF" {
			msg = "it ends too early"
		}
		c.fail(off, "not a condition: %s: %s", LowerFirst(msg), allowed)
		return nil
	}
	return tree.Node
}

// branch reads the and/or/not part.
func (c *compiler) branch(n ast.Node) *branch {
	switch n := n.(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "or":
			l, r := c.branch(n.Left), c.branch(n.Right)
			return &branch{op: n.Operator, kids: []*branch{l, r}}
		case "&&": // the letters are refused, so the parser made it
			c.fail(n.Location().From, "two comparisons in a row: write a < b and b < c")
			return nil
		case "<", "<=", ">", ">=", "==", "!=":
			return c.compare(n)
		}
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			return &branch{op: "not", kids: []*branch{c.branch(n.Node)}}
		}
	case *ast.MemberNode:
		c.seen = nil
		l := c.num(n)
		if l == nil {
			return nil
		}
		if l.unit != unit.Flag {
			from, _ := extent(n)
			c.fail(from, "%s is %s, not true or false: compare it with a limit", l.text, unitWords(l.unit))
			return nil
		}
		return c.leaf(&leaf{text: l.text, left: l, facts: c.seen})
	}
	from, _ := extent(n)
	c.fail(from, "%s is no comparison: %s", c.words(n), allowed)
	return nil
}

func (c *compiler) leaf(l *leaf) *branch {
	c.leaves = append(c.leaves, l)
	return &branch{leaf: l}
}

func (c *compiler) compare(n *ast.BinaryNode) *branch {
	c.seen = nil
	l, r := c.num(n.Left), c.num(n.Right)
	if l == nil || r == nil {
		return nil
	}
	from, _ := extent(n)
	for _, s := range []*num{l, r} {
		if s.unit == unit.Flag {
			c.fail(from, "%s is true or false already: write it alone, or not %s", s.text, s.text)
			return nil
		}
	}
	if l.unit != r.unit && l.unit != "" && r.unit != "" {
		c.fail(from, "%s is %s and %s is %s: compare like with like", l.text, unitWords(l.unit), r.text, unitWords(r.unit))
		return nil
	}
	if len(c.seen) == 0 {
		c.fail(from, "%s names no fact: a condition asks something of the run", c.words(n))
		return nil
	}
	return c.leaf(&leaf{text: c.words(n), op: n.Operator, left: l, right: r, facts: c.seen})
}

// num reads the arithmetic part; nil after an error.
func (c *compiler) num(n ast.Node) *num {
	from, _ := extent(n)
	out := &num{text: c.words(n)}
	switch n := n.(type) {
	case *ast.IntegerNode:
		return c.constant(from, out, float64(n.Value))
	case *ast.FloatNode:
		return c.constant(from, out, n.Value)
	case *ast.IdentifierNode:
		return c.limitName(from, out, n.Value)
	case *ast.MemberNode:
		id, ok := dotted(n)
		if !ok {
			break
		}
		return c.factName(from, out, facts.ID(id))
	case *ast.UnaryNode:
		if n.Operator != "-" {
			c.fail(from, "%s before a number: write not (a > b)", n.Operator)
			return nil
		}
		return c.arith(from, out, "neg", n.Node)
	case *ast.BinaryNode:
		switch n.Operator {
		case "+", "-", "*", "/":
			return c.arith(from, out, n.Operator, n.Left, n.Right)
		}
	case *ast.BuiltinNode:
		want := map[string]int{"min": 2, "max": 2, "abs": 1}[n.Name]
		if want > 0 && len(n.Arguments) != want {
			c.fail(from, "%s takes %d of them, not %d", n.Name, want, len(n.Arguments))
			return nil
		}
		if want > 0 {
			return c.arith(from, out, n.Name, n.Arguments...)
		}
		c.fail(from, "%s() in a condition: %s", n.Name, allowed)
		return nil
	case *ast.CallNode:
		c.fail(from, "a call in a condition: %s", allowed)
		return nil
	}
	c.fail(from, "%s is no number: %s", out.text, allowed)
	return nil
}

func (c *compiler) constant(from int, out *num, v float64) *num {
	out.op, out.value = "const", v
	switch {
	case v == 0:
		return out
	case v == 1 && c.one:
		out.unit = unit.Frac
		return out
	}
	c.fail(from, "bare number %s: give it a name, unit and source in limits", out.text)
	return nil
}

func (c *compiler) limitName(from int, out *num, name string) *num {
	l, ok := limitOf(c.limits, name)
	if !ok {
		var names []string
		for _, l := range c.limits {
			names = append(names, l.Name)
		}
		c.fail(from, "unknown limit %s: %s", name, hint(name, names, "add it to limits; a fact's name holds a dot"))
		return nil
	}
	c.used[name] = true
	out.op, out.limit, out.value, out.unit = "limit", name, l.Value, l.Unit
	return out
}

func (c *compiler) factName(from int, out *num, id facts.ID) *num {
	d, msg := c.see(id)
	if msg != "" {
		c.fail(from, "%s", msg)
		return nil
	}
	if d.Unit == unit.Text {
		c.fail(from, "%s is a text: texts are shown in says, never judged", id)
		return nil
	}
	out.op, out.fact, out.unit = "fact", id, d.Unit
	c.seen = addID(c.seen, id)
	return out
}

// see finds a fact that the rule's subject can see; a message otherwise.
func (s *scope) see(id facts.ID) (*facts.Decl, string) {
	d := s.decls[id]
	if d == nil {
		return nil, fmt.Sprintf("unknown fact %s: %s", id, hint(string(id), s.names, "gpureport rules facts lists them"))
	}
	if d.Per > s.per {
		return nil, fmt.Sprintf("%s is of one %s and the rule is per %s: a rule sees its subject and what holds it; write per: %s",
			id, d.Per, s.per, d.Per)
	}
	return d, ""
}

func addID(list []facts.ID, id facts.ID) []facts.ID {
	for _, x := range list {
		if x == id {
			return list
		}
	}
	return append(list, id)
}

func (c *compiler) arith(from int, out *num, op string, args ...ast.Node) *num {
	out.op = op
	for _, a := range args {
		k := c.num(a)
		if k == nil {
			return nil
		}
		if k.unit == unit.Flag {
			c.fail(from, "%s is true or false: it cannot be reckoned with", k.text)
			return nil
		}
		out.kids = append(out.kids, k)
	}
	out.unit = out.kids[0].unit
	if len(out.kids) == 1 {
		return out
	}
	a, b := out.kids[0], out.kids[1]
	var ok bool
	switch op {
	case "*":
		out.unit, ok = product(a.unit, b.unit)
	case "/":
		out.unit, ok = quotient(a.unit, b.unit)
	default:
		ok = a.unit == b.unit || a.unit == "" || b.unit == ""
		if a.unit == "" {
			out.unit = b.unit
		}
	}
	if !ok {
		c.fail(from, "%s: %s is %s and %s is %s: no unit comes of it", out.text, a.text, unitWords(a.unit), b.text, unitWords(b.unit))
		return nil
	}
	return out
}

// products of two units that are a unit of ours.
var products = [][3]unit.Unit{
	{unit.BytePerSecond, unit.Second, unit.Byte},
	{unit.Watt, unit.Second, unit.Joule},
	{unit.Hertz, unit.Second, unit.Count},
}

func plain(u unit.Unit) bool { return u == unit.Frac || u == unit.Count || u == "" }

func product(a, b unit.Unit) (unit.Unit, bool) {
	switch {
	case a == unit.Count && plain(b), b == unit.Count && plain(a):
		return unit.Count, true
	case plain(a):
		return b, true
	case plain(b):
		return a, true
	}
	for _, p := range products {
		if a == p[0] && b == p[1] || a == p[1] && b == p[0] {
			return p[2], true
		}
	}
	return "", false
}

func quotient(a, b unit.Unit) (unit.Unit, bool) {
	switch {
	case a == b:
		return unit.Frac, true
	case plain(b):
		return a, true
	case a == "":
		return "", true
	}
	for _, p := range products {
		if a == p[2] && b == p[1] {
			return p[0], true
		}
		if a == p[2] && b == p[0] {
			return p[1], true
		}
	}
	return "", false
}

var unitNames = map[unit.Unit]string{unit.Second: "a time", unit.Byte: "a number of bytes", unit.BytePerSecond: "a byte rate",
	unit.Watt: "a power", unit.Joule: "an energy", unit.Celsius: "a temperature", unit.Hertz: "a frequency", unit.Frac: "a share",
	unit.Count: "a count", unit.FlopPerSecond: "an arithmetic rate", unit.Flag: "true or false", unit.Text: "a text", "": "a number"}

func unitWords(u unit.Unit) string { return unitNames[u] }

// dotted gives gpu.busy_frac of a chain of members.
func dotted(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return n.Value, true
	case *ast.MemberNode:
		p, ok := n.Property.(*ast.StringNode)
		if !ok {
			return "", false
		}
		head, ok := dotted(n.Node)
		return head + "." + p.Value, ok
	}
	return "", false
}

// extent gives the runes [from, to) of a node without the parentheses around it.
func extent(n ast.Node) (from, to int) {
	loc := n.Location()
	from, to = loc.From, loc.To
	widen := func(k ast.Node) {
		f, t := extent(k)
		from, to = min(from, f), max(to, t)
	}
	switch n := n.(type) {
	case *ast.MemberNode:
		widen(n.Node)
	case *ast.UnaryNode:
		widen(n.Node)
	case *ast.BinaryNode:
		widen(n.Left)
		widen(n.Right)
	case *ast.BuiltinNode:
		for _, k := range n.Arguments {
			widen(k)
		}
	case *ast.CallNode:
		for _, k := range n.Arguments {
			widen(k)
		}
	}
	return from, to
}

// words gives a node's text as written, with every parenthesis it needs.
func (c *compiler) words(n ast.Node) string {
	from, to := extent(n)
	from, to = max(from, 0), min(to, len(c.text))
	if from >= to {
		return c.text
	}
	open, missing := 0, 0
	for _, r := range c.text[from:to] {
		switch {
		case r == '(':
			open++
		case r == ')' && open > 0:
			open--
		case r == ')':
			missing++
		}
	}
	for ; open > 0; open-- {
		i := strings.IndexByte(c.text[to:], ')')
		if i < 0 {
			break
		}
		to += i + 1
	}
	for ; missing > 0; missing-- {
		i := strings.LastIndexByte(c.text[:from], '(')
		if i < 0 {
			break
		}
		from = i
	}
	return strings.Join(strings.Fields(c.text[from:to]), " ")
}

// view is the facts as one subject sees them.
type view struct {
	set *facts.Set
	sub int
}

func (v view) get(id facts.ID) (facts.Value, *facts.Need) { return v.set.Get(v.sub, id) }

// eval computes n; why is set when it cannot be.
func (n *num) eval(v view) (x float64, why string) {
	switch n.op {
	case "const", "limit":
		return n.value, ""
	case "fact":
		val, need := v.get(n.fact)
		if need != nil {
			return 0, need.Why
		}
		x = val.Num
	default:
		var k [2]float64
		for i, kid := range n.kids {
			if k[i], why = kid.eval(v); why != "" {
				return 0, why
			}
		}
		switch n.op {
		case "neg":
			x = -k[0]
		case "+":
			x = k[0] + k[1]
		case "-":
			x = k[0] - k[1]
		case "*":
			x = k[0] * k[1]
		case "/":
			if k[1] == 0 {
				return 0, "division by zero: " + n.kids[1].text + " is 0"
			}
			x = k[0] / k[1]
		case "min":
			x = math.Min(k[0], k[1])
		case "max":
			x = math.Max(k[0], k[1])
		case "abs":
			x = math.Abs(k[0])
		}
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, n.text + " is not a finite number"
	}
	return x, ""
}

// needs lists what of ids is missing.
func (v view) needs(ids []facts.ID) []facts.Need {
	var out []facts.Need
	for _, id := range ids {
		if _, need := v.get(id); need != nil {
			out = append(out, *need)
		}
	}
	return out
}

// eval judges one comparison. Absence is decided first: a fact that is not there has no value to compare.
func (l *leaf) eval(v view) (truth, []facts.Need) {
	if needs := v.needs(l.facts); len(needs) > 0 {
		return unknownTruth, needs
	}
	a, why := l.left.eval(v)
	b := 0.0
	if why == "" && l.op != "" {
		b, why = l.right.eval(v)
	}
	if why != "" {
		return unknownTruth, []facts.Need{{Fact: l.facts[0], Why: why}}
	}
	switch l.op {
	case "":
		return truthOf(a != 0), nil
	case "<":
		return truthOf(a < b), nil
	case "<=":
		return truthOf(a <= b), nil
	case ">":
		return truthOf(a > b), nil
	case ">=":
		return truthOf(a >= b), nil
	case "==":
		return truthOf(a == b), nil
	}
	return truthOf(a != b), nil
}

// eval judges a condition: its truth, each comparison, and what is missing when the truth is unknown.
func (c *Cond) eval(v view) (truth, []Clause, []facts.Need) {
	var clauses []Clause
	t, needs := c.root.eval(v, &clauses)
	return t, clauses, needs
}

func (b *branch) eval(v view, clauses *[]Clause) (truth, []facts.Need) {
	if b.leaf != nil {
		t, needs := b.leaf.eval(v)
		*clauses = append(*clauses, Clause{Text: b.leaf.text, Outcome: t.outcome(), Facts: b.leaf.facts})
		return t, needs
	}
	t, needs := b.kids[0].eval(v, clauses)
	if b.op == "not" {
		return t.not(), needs
	}
	u, more := b.kids[1].eval(v, clauses)
	if b.op == "and" {
		t = t.and(u)
	} else {
		t = t.or(u)
	}
	if t != unknownTruth {
		return t, nil // what is missing did not matter
	}
	return t, addNeeds(needs, more)
}

func addNeeds(a, b []facts.Need) []facts.Need {
next:
	for _, n := range b {
		for _, have := range a {
			if have == n {
				continue next
			}
		}
		a = append(a, n)
	}
	return a
}

// facts lists the facts of the tree in order.
func (n *num) facts(out []facts.ID) []facts.ID {
	if n.op == "fact" {
		return addID(out, n.fact)
	}
	for _, k := range n.kids {
		out = k.facts(out)
	}
	return out
}

// Facts lists the facts a condition names, in order of appearance.
func (c *Cond) Facts() []facts.ID {
	var out []facts.ID
	for _, l := range c.leaves {
		for _, id := range l.facts {
			out = addID(out, id)
		}
	}
	return out
}

// Facts lists the facts an expression names, in order of appearance.
func (e *Expr) Facts() []facts.ID { return e.root.facts(nil) }
