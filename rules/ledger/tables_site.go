package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// SiteTable is one table file of a site, laid over the shipped one of its name.
type SiteTable struct {
	Path string // as given and walked, slashes
	Data []byte
}

const maxSiteTable = 1 << 20

// ReadSiteTables reads the table files of the paths of --rules: the .yaml files that lie directly in a folder named tables, at any depth.
func ReadSiteTables(paths []string) ([]SiteTable, error) {
	var out []SiteTable
	for _, p := range paths {
		err := filepath.WalkDir(p, func(f string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && f != p && strings.HasPrefix(e.Name(), "."):
				return fs.SkipDir
			case e.IsDir() || !IsTable(f):
				return nil
			}
			if info, err := e.Info(); err == nil && info.Size() > maxSiteTable {
				return fmt.Errorf("%s: the file has %d bytes, more than %d: a table is short; is this another file?", f, info.Size(), maxSiteTable)
			}
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			out = append(out, SiteTable{filepath.ToSlash(f), data})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
	}
	return out, nil
}

// IsTable tells whether a file of a site is a table and no rule: it lies in a folder named tables.
func IsTable(file string) bool {
	abs, err := filepath.Abs(file)
	ext := path.Ext(file)
	return err == nil && (ext == ".yaml" || ext == ".yml") && filepath.Base(filepath.Dir(abs)) == "tables"
}

// tableFiles are the tables that there are.
var tableFiles = []string{"annotations.yaml", "calls.yaml", "collectives.yaml", "gpus.yaml", "kernels.yaml", "links.yaml", "reasons.yaml", "waits.yaml", "xids.yaml"}

// Where a node of a site's file stands is kept in its line: which file, which column, which line. Shipped files are file 0.
const (
	placeBits = 20
	placeMask = 1<<placeBits - 1
)

func (l *loader) placeOf(file string, line int) string {
	if k := line >> (2 * placeBits); k > 0 && k <= len(l.site) {
		return fmt.Sprintf("%s:%d:%d", l.site[k-1].Path, line&placeMask, line>>placeBits&placeMask)
	}
	return fmt.Sprintf("%s:%d", path.Join("tables", file), line)
}

func mark(n *yaml.Node, file int) {
	n.Line = (file+1)<<(2*placeBits) | min(n.Column, placeMask)<<placeBits | min(n.Line, placeMask)
	for _, c := range n.Content {
		mark(c, file)
	}
}

// strange reports the site's files that are no table of ours.
func (l *loader) strange() {
	for i, s := range l.site {
		if name := tableName(s.Path); !slices.Contains(tableFiles, name) {
			l.fail(name, (i+1)<<(2*placeBits)|1<<placeBits|1, "there is no such table: one of %s", strings.Join(tableFiles, " "))
		}
	}
}

func tableName(p string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path.Base(p), ".yaml"), ".yml") + ".yaml"
}

// layered lays the site's files of a name over the shipped text and decodes what comes of it into v; false: no such file is there. Rows with an
// id (a GPU's id, an Xid's code, a reason's bit, a link's generation) replace the shipped row of that id or follow the shipped ones; patterns come
// before the shipped ones, for the first that fits wins; a single value replaces the shipped one.
func (l *loader) layered(name string, shipped []byte, v any) bool {
	var root *yaml.Node
	for i, s := range l.site {
		if tableName(s.Path) != name {
			continue
		}
		if root == nil {
			var doc yaml.Node
			if err := yaml.Unmarshal(shipped, &doc); err != nil || len(doc.Content) == 0 {
				return false // said without the site's files
			}
			root = doc.Content[0]
		}
		dec := yaml.NewDecoder(strings.NewReader(string(s.Data)))
		dec.KnownFields(true)
		var doc yaml.Node
		if err := dec.Decode(reflect.New(reflect.TypeOf(v).Elem()).Interface()); err != nil {
			l.failAt(name, i, err)
			continue
		}
		if err := yaml.Unmarshal(s.Data, &doc); err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
			continue // decoded above: an empty file adds nothing
		}
		mark(&doc, i)
		layOver(root, doc.Content[0])
	}
	if root == nil {
		return false
	}
	if err := root.Decode(v); err != nil {
		l.yamlErr(name, err)
	}
	return true
}

// failAt reports the faults of one file of the site, whose lines are its own.
func (l *loader) failAt(name string, file int, err error) {
	n := len(l.errs)
	l.yamlErr(name, err)
	for i := n; i < len(l.errs); i++ {
		l.errs[i].line |= (file+1)<<(2*placeBits) | 1<<placeBits
	}
}

func (l *loader) yamlErr(name string, err error) {
	var te *yaml.TypeError
	msgs := []string{err.Error()}
	if errors.As(err, &te) {
		msgs = te.Errors
	}
	for _, m := range msgs {
		l.yamlFault(name, m)
	}
}

func layOver(base, over *yaml.Node) {
	for i := 0; i+1 < len(over.Content); i += 2 {
		key, val := over.Content[i], over.Content[i+1]
		at := slices.IndexFunc(base.Content, func(n *yaml.Node) bool { return n.Value == key.Value })
		for at >= 0 && at%2 != 0 { // a value that reads like the key
			next := slices.IndexFunc(base.Content[at+1:], func(n *yaml.Node) bool { return n.Value == key.Value })
			if next < 0 {
				at = -1
				break
			}
			at += 1 + next
		}
		switch {
		case at < 0:
			base.Content = append(base.Content, key, val)
		case val.Kind == yaml.MappingNode && base.Content[at+1].Kind == yaml.MappingNode:
			layOver(base.Content[at+1], val)
		case val.Kind == yaml.SequenceNode && base.Content[at+1].Kind == yaml.SequenceNode:
			layRows(base.Content[at+1], val)
		default:
			base.Content[at+1] = val
		}
	}
}

func layRows(base, over *yaml.Node) {
	var first []*yaml.Node
	for _, n := range over.Content {
		id := rowID(n)
		switch at := slices.IndexFunc(base.Content, func(b *yaml.Node) bool { return id != "" && rowID(b) == id }); {
		case at >= 0:
			base.Content[at] = n
		case id == "" && n.Kind == yaml.MappingNode:
			first = append(first, n)
		default:
			base.Content = append(base.Content, n)
		}
	}
	base.Content = slices.Concat(first, base.Content)
}

// rowID is what a row is known by; "" where rows are patterns. Texts are known by themselves.
func rowID(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i].Value; k {
		case "id", "code", "bit", "gen":
			return k + "=" + n.Content[i+1].Value
		}
	}
	return ""
}
