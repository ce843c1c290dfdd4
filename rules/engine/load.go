package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

// Source is a site's rule file.
type Source struct {
	Path string // as errors name it; its last two parts are stage/name.yaml
	Data []byte
}

// Files of the shipped checklist inside the file system given to Load.
const (
	orderFile = "checklist.yaml"
	rulesDir  = "checklist"
	gatesFile = "gates.yaml"
)

// ReadSite reads the rule files of paths: files as named, folders walked. What lies in a folder named tables is left to ledger.ReadSiteTables.
func ReadSite(paths []string) ([]Source, error) {
	var out []Source
	for _, p := range paths {
		err := filepath.WalkDir(p, func(f string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && f != p && (e.Name() == "tables" || strings.HasPrefix(e.Name(), ".")):
				return fs.SkipDir
			case e.IsDir(), ledger.IsTable(f), f != p && path.Ext(f) != ".yaml" && path.Ext(f) != ".yml":
				return nil
			}
			if info, err := e.Info(); err == nil && info.Size() > maxFile {
				return fmt.Errorf("%s: the file has %d bytes, more than %d: a rule file is short; is this another file?", f, info.Size(), maxFile)
			}
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			out = append(out, Source{Path: filepath.ToSlash(f), Data: data})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
	}
	return out, nil
}

// Load reads the shipped checklist from fsys, lays the site's files over it, and checks every file against the declared facts.
// A site's rule replaces a shipped one of its id whole, or follows the rules of its stage. The error is an Errors with all there is.
func Load(fsys fs.FS, site []Source, decls []*facts.Decl) (*Rules, error) {
	var errs Errors
	rs := &Rules{Decls: decls, decls: map[facts.ID]*facts.Decl{}}
	ld := &loader{rs: rs, errs: &errs}
	for _, d := range decls {
		rs.decls[d.ID] = d
		ld.names = append(ld.names, string(d.ID))
	}
	sort.Strings(ld.names)
	shipped := ld.shipped(fsys)
	for _, id := range ld.order(fsys) {
		r, ok := shipped[id.s]
		if !ok {
			ld.orderDoc.at(id.n, "%s has no file: add %s/%s.yaml or drop the line", id.s, rulesDir, strings.Replace(id.s, ".", "/", 1))
			continue
		}
		if r.rule != nil {
			rs.List = append(rs.List, r.rule)
		}
		delete(shipped, id.s)
	}
	for _, p := range shipped {
		if ld.orderDoc != nil {
			errs = append(errs, &Error{p.path, 0, 0, "the rule has no place in " + orderFile + ": add the line - " + p.id})
		}
	}
	for _, src := range site {
		if r := ld.rule(src.Path, src.Data, false); r != nil {
			r.Site = true
			rs.put(r)
		}
	}
	ld.gates(fsys)
	ld.cross()
	if err := errs.orNil(); err != nil {
		return nil, err
	}
	return rs, nil
}

// put replaces a rule of the same id or appends to its stage.
func (rs *Rules) put(r *Rule) {
	at := len(rs.List)
	for i, have := range rs.List {
		if have.ID == r.ID {
			rs.List[i] = r
			return
		}
		if stageIndex(have.Stage) > stageIndex(r.Stage) && at == len(rs.List) {
			at = i
		}
	}
	rs.List = append(rs.List, nil)
	copy(rs.List[at+1:], rs.List[at:])
	rs.List[at] = r
}

func stageIndex(stage string) int {
	for i, s := range Stages {
		if s == stage {
			return i
		}
	}
	return len(Stages)
}

// loader holds what reading one rule needs of all the others.
type loader struct {
	rs       *Rules
	errs     *Errors
	names    []string // of facts, sorted
	orderDoc *doc
	checks   []func() // run when all rules and gates are known
}

// parsed is a shipped file; rule is nil when it has errors.
type parsed struct {
	id, path string
	rule     *Rule
}

// shipped reads checklist/stage/name.yaml, by the id their path says.
func (ld *loader) shipped(fsys fs.FS) map[string]parsed {
	out := map[string]parsed{}
	err := fs.WalkDir(fsys, rulesDir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if path.Ext(p) != ".yaml" {
			return nil
		}
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		short := strings.TrimPrefix(p, rulesDir+"/")
		id := strings.Replace(strings.TrimSuffix(short, ".yaml"), "/", ".", 1)
		out[id] = parsed{id, short, ld.rule(short, data, true)}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		*ld.errs = append(*ld.errs, &Error{rulesDir, 0, 0, err.Error()})
	}
	return out
}

// order reads checklist.yaml: a list of ids, stage by stage.
func (ld *loader) order(fsys fs.FS) []item {
	data, err := fs.ReadFile(fsys, orderFile)
	if err != nil {
		*ld.errs = append(*ld.errs, &Error{orderFile, 0, 0, err.Error()})
		return nil
	}
	d, root := openDoc(orderFile, data, ld.errs)
	if root == nil {
		return nil
	}
	ld.orderDoc = d
	if root.Kind != yaml.SequenceNode {
		d.at(root, "the checklist is %s, not a list: write one - stage.name a line", kindOf(root))
		return nil
	}
	var out []item
	seen := map[string]bool{}
	last := 0
	for _, n := range root.Content {
		id := d.text(n, "an id")
		if id == "" {
			continue
		}
		stage, _, _ := strings.Cut(id, ".")
		at := stageIndex(stage)
		switch {
		case seen[id]:
			d.at(n, "%s stands twice: keep one", id)
			continue
		case at == len(Stages):
			d.at(n, "unknown stage %s: %s", stage, hint(stage, Stages, "stages are "+strings.Join(Stages, ", ")))
			continue
		case at < last:
			d.at(n, "%s stands after a rule of stage %s: stages go %s", id, Stages[last], strings.Join(Stages, ", "))
		}
		last = max(last, at)
		seen[id] = true
		out = append(out, item{id, n})
	}
	return out
}

var (
	idForm    = regexp.MustCompile(`^[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*$`)
	limitForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// RuleKeys are the keys of a rule file in the order in which they are written.
var RuleKeys = []string{"id", "title", "per", "class", "when", "finding_if", "limits", "saving", "severity", "confidence", "says", "says_pass",
	"says_not_asked", "do", "dont", "gates", "looks_like", "overlaps", "covers", "cases"}

// rule reads one rule file; nil when it has errors.
func (ld *loader) rule(p string, data []byte, shipped bool) *Rule {
	before := len(*ld.errs)
	d, root := openDoc(p, data, ld.errs)
	if root == nil {
		return nil
	}
	f := d.fields(root, "the rule", RuleKeys...)
	if f == nil {
		return nil
	}
	r := &Rule{Path: p, ID: f.mustStr("id"), Title: f.mustStr("title")}
	ld.identity(f, r, shipped)
	r.Per = ld.per(f)
	if r.Class = f.str("class"); r.Class != "" && !known(ruleClasses, r.Class) {
		d.at(f.by["class"], "unknown class %s: %s", r.Class, hint(r.Class, ruleClasses, "classes are "+strings.Join(ruleClasses, ", ")))
	}
	r.Limits = readLimits(f)
	if r.Class == InsufficientEvidence && f.by["saving"] != nil {
		d.at(f.by["saving"], "a saving of class %s: it says that the inputs cannot tell, and saves nothing", r.Class)
	}
	s := &scope{per: r.Per, decls: ld.rs.decls, names: ld.names, limits: r.Limits, used: map[string]bool{}}
	if f.by["when"] != nil {
		r.When = s.cond(f, "when")
	}
	if f.need("finding_if") != nil {
		r.FindingIf = s.cond(f, "finding_if")
	}
	if t := f.str("saving"); t != "" {
		e, bad := s.compileExpr(t, unit.Frac)
		r.Saving = e
		d.faults(f.by["saving"], bad)
	}
	ld.severity(f, r)
	r.Confidence = confidence(f)
	r.Says = f.mustStr("says")
	r.says = s.template(f, "says", r.Says)
	r.SaysPass = f.str("says_pass")
	r.saysPass = s.template(f, "says_pass", r.SaysPass)
	if r.SaysNot = f.str("says_not_asked"); r.SaysNot != "" && r.When == nil {
		d.at(f.by["says_not_asked"], "says_not_asked without when: the rule is always asked")
	}
	r.saysNot = s.template(f, "says_not_asked", r.SaysNot)
	ld.advice(f, r, s)
	for _, it := range f.strs("dont") {
		r.Dont = append(r.Dont, it.s)
	}
	r.LooksLike = f.str("looks_like")
	ld.links(f, r)
	if r.Covers == nil && r.Saving != nil {
		r.Covers = savedOwners(r.Saving)
	}
	if r.Class != "" && r.Class != Straggler && known(r.Covers, "comm.peer-wait") {
		d.at(orElse(f.by["covers"], f.by["saving"], root), "a saving of class %s holds comm.peer-wait: what peers wait counts once, as straggler; leave it out", r.Class)
	}
	r.Cases = readCases(f, s)
	if r.When != nil || r.FindingIf != nil { // their limits were looked up
		for i, l := range r.Limits {
			if !s.used[l.Name] {
				d.at(f.by["limits"].Content[2*i], "limit %s is never used: compare something with it or drop it", l.Name)
			}
		}
	}
	if len(*ld.errs) > before {
		return nil
	}
	r.facts = r.listFacts()
	return r
}

func orElse(ns ...*yaml.Node) *yaml.Node {
	for _, n := range ns {
		if n != nil {
			return n
		}
	}
	return nil
}

// identity checks that the id is what the path says.
func (ld *loader) identity(f *fields, r *Rule, shipped bool) {
	n := f.by["id"]
	if r.ID == "" {
		return
	}
	if !idForm.MatchString(r.ID) {
		f.d.at(n, "id %q: write stage.name in lower case, with - between words", r.ID)
		return
	}
	r.Stage, _, _ = strings.Cut(r.ID, ".")
	if !known(Stages, r.Stage) {
		f.d.at(n, "unknown stage %s: %s", r.Stage, hint(r.Stage, Stages, "stages are "+strings.Join(Stages, ", ")))
		return
	}
	dir, base := path.Split(r.Path)
	name := strings.TrimSuffix(base, path.Ext(base))
	dir = path.Base(dir)
	// A site's file may lie anywhere, but a folder named like a stage means it.
	if name != r.Name() || (shipped || known(Stages, dir)) && dir != r.Stage {
		f.d.at(n, "id %s in file %s: name the file %s/%s.yaml or mend the id", r.ID, r.Path, r.Stage, r.Name())
	}
}

func (ld *loader) per(f *fields) facts.SubjectKind {
	s := f.mustStr("per")
	var names []string
	for k := facts.Run; k <= facts.GPU; k++ {
		if s == k.String() {
			return k
		}
		names = append(names, k.String())
	}
	if s != "" {
		f.d.at(f.by["per"], "unknown subject %s: write one of %s", s, strings.Join(names, ", "))
	}
	return facts.GPU // it sees everything, so that no further error follows from this one
}

// readLimits reads name: {value, unit, source}.
func readLimits(f *fields) []Limit {
	n := f.by["limits"]
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		f.d.at(n, "limits is %s, not a mapping: write name: {value: 5, unit: \"%%\", source: \"...\"}", kindOf(n))
		return nil
	}
	var out []Limit
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		l := Limit{Name: k.Value}
		if _, twice := limitOf(out, k.Value); twice {
			f.d.at(k, "limit %s stands twice: keep one", k.Value)
		}
		if !limitForm.MatchString(k.Value) || known([]string{"and", "or", "not", "in", "min", "max", "abs", "let", "if", "true", "false", "nil", "gpu", "rank", "host", "run"}, k.Value) {
			f.d.at(k, "limit name %q: write a lower-case word with _, none of the language's own words", k.Value)
		}
		if g := f.d.fields(v, "limit "+k.Value, "value", "unit", "source"); g != nil {
			l.read(g)
		}
		out = append(out, l)
	}
	return out
}

func (l *Limit) read(g *fields) {
	value, u := g.need("value"), g.mustStr("unit")
	l.Source = g.mustStr("source")
	if value == nil {
		return
	}
	v, ok := g.d.number(value, "value")
	if !ok || u == "" {
		return
	}
	base, bu, err := unit.ToBase(v, unit.Unit(u))
	if err != nil || bu == unit.Text || bu == unit.Flag {
		g.d.at(g.by["unit"], "unknown unit %s: known are %s", u, strings.Join(limitUnits, ", "))
		return
	}
	l.Value, l.Unit, l.Stated = base, bu, value.Value+" "+u
}

// limitUnits are the spellings an error offers; a test holds them against package unit.
var limitUnits = []string{"%", "frac", "count", "s", "ms", "us", "ns", "min", "bytes", "KiB", "MiB", "GiB", "bytes_per_s", "MB/s", "GB/s",
	"w", "j", "c", "hz", "MHz", "flop_per_s", "TFLOP/s"}

func (d *doc) faults(n *yaml.Node, bad []fault) {
	for _, b := range bad {
		d.in(n, b.off, "%s", b.msg)
	}
}

func (s *scope) cond(f *fields, key string) *Cond {
	t := f.str(key)
	if t == "" {
		return nil
	}
	c, bad := s.compileCond(t)
	f.d.faults(f.by[key], bad)
	return c
}

func (s *scope) template(f *fields, key, text string) []piece {
	if text == "" {
		return nil
	}
	ps, bad := s.compileSays(text)
	f.d.faults(f.by[key], bad)
	return ps
}

var severities = []string{"info", "low", "medium", "high", "critical"}

// severity reads the stated one. Critical is for faults of hardware or results, not for time.
func (ld *loader) severity(f *fields, r *Rule) {
	t := f.str("severity")
	n := f.by["severity"]
	for i, s := range severities {
		if s == t {
			r.Severity = Info + Severity(i)
		}
	}
	switch {
	case t != "" && r.Severity == NoSeverity:
		f.d.at(n, "unknown severity %s: write one of %s", t, strings.Join(severities, ", "))
	case r.Severity == Critical && r.Stage != "hw" && r.Class != Hardware:
		f.d.at(n, "severity critical in stage %s: it is for faults of hardware; write a saving", r.Stage)
	case n == nil && f.by["saving"] == nil:
		f.d.at(f.n, "the rule has neither saving nor severity: say what a fix returns, or how grave it is")
	}
}

var confidences = []string{"hint", "inferred", "measured"}

func confidence(f *fields) facts.Confidence {
	t := f.mustStr("confidence")
	for i, s := range confidences {
		if s == t {
			return confHint + facts.Confidence(i)
		}
	}
	if t != "" {
		f.d.at(f.by["confidence"], "unknown confidence %s: write one of %s", t, strings.Join(confidences, ", "))
	}
	return 0
}

// advice reads do: texts, or {say, gates, capture, where, lacks}.
func (ld *loader) advice(f *fields, r *Rule, s *scope) {
	for _, it := range f.strs("gates") {
		r.Gates = append(r.Gates, it.s)
		ld.gateExists(f.d, it)
	}
	for _, n := range f.list("do") {
		do := Do{Gates: append([]string(nil), r.Gates...)}
		if n.Kind == yaml.MappingNode {
			g := f.d.fields(n, "an entry of do", "say", "gates", "capture", "where", "lacks")
			do.Say = g.mustStr("say")
			for _, it := range g.strs("gates") {
				ld.gateExists(f.d, it)
				if !known(do.Gates, it.s) {
					do.Gates = append(do.Gates, it.s)
				}
			}
			do.Where = s.wheres(g)
			for _, it := range g.strs("lacks") {
				if _, msg := s.see(facts.ID(it.s)); msg != "" {
					g.d.at(g.by["lacks"], "%s", msg)
				}
				do.Lacks = append(do.Lacks, facts.ID(it.s))
			}
			if do.Capture = g.str("capture"); do.Capture != "" {
				do.Gates = nil // to look is always allowed
				if _, ok := facts.RecipeOf(do.Capture); !ok {
					f.d.at(g.by["capture"], "unknown capture %s: write C1 to %s", do.Capture, lastRecipe())
				}
			}
		} else {
			do.Say = f.d.text(n, "an entry of do")
		}
		if r.Confidence == confHint && !do.records() && do.Say != "" {
			f.d.at(n, "a hint asks for a capture and nothing else: say what to record (\"Record ...\"), or {say: \"...\", capture: C4}")
		}
		r.Do = append(r.Do, do)
	}
}

// wheres reads where: {fact: [values]}, of text facts that the rule may see.
func (s *scope) wheres(g *fields) []Where {
	n := g.by["where"]
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		g.d.at(n, "where is %s: write {fact: [value, ...]}", kindOf(n))
		return nil
	}
	var out []Where
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		w := Where{Fact: facts.ID(k.Value)}
		switch d, msg := s.see(w.Fact); {
		case msg != "":
			g.d.at(k, "%s", msg)
		case d.Unit != unit.Text:
			g.d.at(k, "%s is no text: judge it in when or finding_if", w.Fact)
		case v.Kind != yaml.SequenceNode || len(v.Content) == 0:
			g.d.at(v, "%s is %s: write a list of values", w.Fact, kindOf(v))
		}
		if v.Kind == yaml.SequenceNode {
			for _, x := range v.Content {
				w.Is = append(w.Is, g.d.text(x, "a value of "+k.Value))
			}
		}
		out = append(out, w)
	}
	return out
}

// records tells whether the advice is to record something, which is all a hint may ask.
func (d Do) records() bool { return d.Capture != "" || strings.HasPrefix(d.Say, "Record ") }

// gateExists checks a gate's name once the gates are read.
func (ld *loader) gateExists(d *doc, it item) {
	ld.checks = append(ld.checks, func() {
		g := ld.rs.Gate(it.s)
		var names []string
		for _, g := range ld.rs.Gates {
			if !g.Cap {
				names = append(names, g.ID)
			}
		}
		switch {
		case g == nil:
			d.at(it.n, "unknown gate %s: gates are %s", it.s, strings.Join(names, ", "))
		case g.Cap:
			d.at(it.n, "%s caps sums of savings and gates no advice: drop it", it.s)
		}
	})
}

// links reads what the rule says of others.
func (ld *loader) links(f *fields, r *Rule) {
	for _, it := range f.strs("overlaps") {
		r.Overlaps = append(r.Overlaps, it.s)
		ld.ruleExists(f.d, it, r)
	}
	for _, it := range f.strs("covers") {
		if !known(owners, it.s) {
			f.d.at(it.n, "unknown ledger owner %s: %s", it.s, hint(it.s, owners, "owners are "+strings.Join(owners, ", ")))
		}
		r.Covers = append(r.Covers, it.s)
	}
}

func (ld *loader) ruleExists(d *doc, it item, self *Rule) {
	ld.checks = append(ld.checks, func() {
		var ids []string
		for _, r := range ld.rs.List {
			ids = append(ids, r.ID)
		}
		switch {
		case it.s == self.ID:
			d.at(it.n, "%s overlaps itself: drop it", it.s)
		case !known(ids, it.s):
			d.at(it.n, "unknown rule %s: %s", it.s, hint(it.s, ids, "gpureport rules list names them"))
		}
	})
}

func (ld *loader) cross() {
	for _, check := range ld.checks {
		check()
	}
}

func (r *Rule) listFacts() []facts.ID {
	var out []facts.ID
	add := func(ids []facts.ID) {
		for _, id := range ids {
			out = addID(out, id)
		}
	}
	if r.When != nil {
		add(r.When.Facts())
	}
	add(r.FindingIf.Facts())
	if r.Saving != nil {
		add(r.Saving.Facts())
	}
	for _, ps := range [][]piece{r.says, r.saysPass, r.saysNot} {
		for _, p := range ps {
			if p.fact != "" {
				out = addID(out, p.fact)
			}
		}
	}
	return out
}

// savedOwners finds the owners whose share a saving names, as in gpu.copy_h2d_frac. Compute is left out: it stands in savings as what
// remains.
func savedOwners(e *Expr) []string {
	var out []string
	for _, o := range owners {
		id := ownerFact(o)
		for _, f := range e.Facts() {
			if f == id && o != "compute" {
				out = append(out, o)
			}
		}
	}
	return out
}
