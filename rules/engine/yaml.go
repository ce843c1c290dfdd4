package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// maxFile bounds a rule file. The longest shipped one is a tenth of it.
const maxFile = 64 << 10

// doc is one YAML file while it is read. It keeps the text, because a node knows only where it starts.
type doc struct {
	path  string
	lines [][]rune
	errs  *Errors
}

func (d *doc) fail(line, col int, format string, args ...any) {
	*d.errs = append(*d.errs, &Error{Path: d.path, Line: line, Col: col, Msg: fmt.Sprintf(format, args...)})
}

// at reports an error at the start of a node.
func (d *doc) at(n *yaml.Node, format string, args ...any) { d.fail(n.Line, n.Column, format, args...) }

// in reports an error at rune off of a scalar's value.
func (d *doc) in(n *yaml.Node, off int, format string, args ...any) {
	line, col := d.place(n, off)
	d.fail(line, col, format, args...)
}

// place finds rune off of a scalar's value in the file. A scalar may be folded over lines, so it counts what is not white space.
func (d *doc) place(n *yaml.Node, off int) (line, col int) {
	line, col = n.Line, n.Column
	switch n.Style {
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		col++
	case yaml.LiteralStyle, yaml.FoldedStyle:
		line, col = line+1, 1
	}
	left := 0
	for i, r := range []rune(n.Value) {
		if i == off {
			break
		}
		if !unicode.IsSpace(r) {
			left++
		}
	}
	for l := line; l <= len(d.lines); l++ {
		c := 1
		if l == line {
			c = col
		}
		for ; c <= len(d.lines[l-1]); c++ {
			if unicode.IsSpace(d.lines[l-1][c-1]) {
				continue
			}
			if left == 0 {
				return l, c
			}
			left--
		}
	}
	return n.Line, n.Column
}

var yamlLine = regexp.MustCompile(`line (\d+): (.*)`)

// openDoc parses the one YAML document of a file. It gives nil, with the errors noted, when there is nothing to read on with.
func openDoc(path string, data []byte, errs *Errors) (*doc, *yaml.Node) {
	d := &doc{path: path, errs: errs}
	if len(data) > maxFile {
		d.fail(0, 0, "the file has %d bytes, more than %d: a rule file is short; is this another file?", len(data), maxFile)
		return d, nil
	}
	for _, l := range strings.Split(string(data), "\n") {
		d.lines = append(d.lines, []rune(strings.TrimSuffix(l, "\r")))
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root, next yaml.Node
	switch err := dec.Decode(&root); {
	case errors.Is(err, io.EOF):
		d.fail(1, 1, "the file is empty: write a rule or remove the file")
		return d, nil
	case err != nil:
		d.syntax(err)
		return d, nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		d.fail(next.Line, next.Column, "a second document: one rule a file; move it to a file of its own")
		return d, nil
	case !errors.Is(err, io.EOF):
		d.syntax(err)
		return d, nil
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 || root.Content[0].Line == 0 {
		d.fail(1, 1, "the file is empty: write a rule or remove the file")
		return d, nil
	}
	if n := aliasIn(root.Content[0]); n != nil {
		d.at(n, "an anchor or alias: write the value out; rules are read one by one")
		return d, nil
	}
	return d, root.Content[0]
}

// syntax reports a YAML error. The parser may name the line before the true one, so both are shown.
func (d *doc) syntax(err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = m[2]
	}
	var near []string
	for l := line; l <= line+1 && l <= len(d.lines) && l >= 1; l++ {
		text := []rune(strings.TrimSpace(string(d.lines[l-1])))
		if len(text) > 60 {
			text = append(text[:60:60], '…')
		}
		if len(text) > 0 {
			near = append(near, strconv.Quote(string(text)))
		}
	}
	d.fail(line, 1, "not YAML: %s near %s: quote texts that hold a colon or a brace", msg, strings.Join(near, " or "))
}

func aliasIn(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return n
	}
	for _, c := range n.Content {
		if a := aliasIn(c); a != nil {
			return a
		}
	}
	return nil
}

// fields is a mapping with known keys.
type fields struct {
	d    *doc
	n    *yaml.Node
	what string
	by   map[string]*yaml.Node
}

// fields reads a mapping and reports what is no mapping, unknown and repeated keys. It gives nil for what is no mapping.
func (d *doc) fields(n *yaml.Node, what string, keys ...string) *fields {
	if n.Kind != yaml.MappingNode {
		d.at(n, "%s is %s, not a mapping: write key: value lines (%s)", what, kindOf(n), strings.Join(keys, ", "))
		return nil
	}
	f := &fields{d: d, n: n, what: what, by: map[string]*yaml.Node{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case !known(keys, k.Value):
			d.at(k, "unknown key %s in %s: %s", k.Value, what, hint(k.Value, keys, "known are "+strings.Join(keys, ", ")))
		case f.by[k.Value] != nil:
			d.at(k, "key %s stands twice in %s: keep one", k.Value, what)
		default:
			f.by[k.Value] = v
		}
	}
	return f
}

func known(list []string, s string) bool {
	for _, k := range list {
		if k == s {
			return true
		}
	}
	return false
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	case "!!str":
		return "a text"
	}
	return "a " + strings.TrimLeft(n.ShortTag(), "!")
}

// need gives the node of a key and reports its absence.
func (f *fields) need(key string) *yaml.Node {
	n := f.by[key]
	if n == nil {
		f.d.at(f.n, "%s has no %s: add the line %s: ...", f.what, key, key)
	}
	return n
}

// text reads a text that is not blank; "" with the error noted otherwise.
func (d *doc) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.at(n, "%s is %s, not a text: put it in quotes", what, kindOf(n))
		return ""
	}
	if strings.TrimSpace(n.Value) == "" {
		d.at(n, "%s is blank: write it or drop the key", what)
		return ""
	}
	return n.Value
}

// str reads an optional text.
func (f *fields) str(key string) string {
	if n := f.by[key]; n != nil {
		return f.d.text(n, key)
	}
	return ""
}

// mustStr reads a required text.
func (f *fields) mustStr(key string) string {
	if n := f.need(key); n != nil {
		return f.d.text(n, key)
	}
	return ""
}

// item is a text of a list with its place.
type item struct {
	s string
	n *yaml.Node
}

// strs reads an optional list of texts.
func (f *fields) strs(key string) []item {
	var out []item
	for _, n := range f.list(key) {
		if s := f.d.text(n, "an entry of "+key); s != "" {
			out = append(out, item{s, n})
		}
	}
	return out
}

// list reads an optional list.
func (f *fields) list(key string) []*yaml.Node {
	n := f.by[key]
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.d.at(n, "%s is %s, not a list: write %s: [..., ...]", key, kindOf(n), key)
		return nil
	}
	return n.Content
}

// flag reads an optional boolean.
func (f *fields) flag(key string) bool {
	n := f.by[key]
	if n == nil {
		return false
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		f.d.at(n, "%s is %s, not true or false", key, kindOf(n))
		return false
	}
	return n.Value == "true"
}

// number reads a finite number.
func (d *doc) number(n *yaml.Node, what string) (float64, bool) {
	var v float64
	if n.Kind != yaml.ScalarNode || (n.ShortTag() != "!!int" && n.ShortTag() != "!!float") || n.Decode(&v) != nil {
		d.at(n, "%s is %s, not a number: write digits without a unit", what, kindOf(n))
		return 0, false
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		d.at(n, "%s is not finite: leave it out, or write the number that is meant", what)
		return 0, false
	}
	return v, true
}
