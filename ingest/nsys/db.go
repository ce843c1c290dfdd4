package nsys

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

const (
	maxText   = 16 << 20 // bytes of one cell; a longer one is damage
	maxBreaks = 2000     // damaged places of one table that are read past
)

// db is an open export: what tables it has, and scans that survive damage.
type db struct {
	in     *ingest.Input
	ctx    context.Context
	uri    string
	conn   *sqlite3.Conn
	pager  *pager // nil: the driver reads all
	tables map[string]*table
	order  []*table // by name
	rows   uint64   // of the tables that got their row numbers
}

// table is one table of the file.
type table struct {
	name    string
	columns map[string]string // lower case to the file's spelling
	noRowid bool
	root    int64 // page; 0 where it is not for the pager
	last    int64 // greatest rowid, or a bound of it
	base    uint32
	read    int64 // rows read
	found   bool  // its row numbers are in Source.Tables
}

func (t *table) has(column string) bool {
	if t == nil {
		return false
	}
	_, ok := t.columns[strings.ToLower(column)]
	return ok
}

// openDB opens the file at path, which nothing here changes.
func openDB(ctx context.Context, in *ingest.Input, path string) (*db, error) {
	for _, ext := range []string{"-wal", "-journal"} {
		if info, err := os.Stat(path + ext); err == nil && info.Size() > 0 {
			in.Report("nsys/unmerged"+ext, timeline.DataLoss, 0, "there is a %s%s beside the file with changes that are not in it: it is left alone; export again, and wait until nsys is done", filepath.Base(in.Path), ext)
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &db{in: in, ctx: ctx, uri: "file:" + (&url.URL{Path: filepath.ToSlash(abs)}).EscapedPath() + "?mode=ro&immutable=1", tables: map[string]*table{}}
	if err := d.connect(); err != nil {
		return nil, err
	}
	if err := d.schema(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.pager = openPager(abs)
	return d, nil
}

func (d *db) connect() error {
	conn, err := sqlite3.OpenFlags(d.uri, sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return err
	}
	conn.SetInterrupt(d.ctx)
	conn.Limit(sqlite3.LIMIT_LENGTH, maxText)
	// A damaged row of the schema must not hide the others, and nothing in the schema may run.
	if err := conn.Exec("PRAGMA writable_schema=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"); err != nil {
		return errors.Join(err, conn.Close())
	}
	d.conn = conn
	return nil
}

func (d *db) close() error {
	var err error
	if d.pager != nil {
		err = d.pager.close()
	}
	d.pager = nil
	return errors.Join(err, d.disconnect())
}

func (d *db) disconnect() error {
	if d.conn == nil {
		return nil
	}
	err := d.conn.Close()
	d.conn = nil
	return err
}

// schema lists the tables. Views and virtual tables are none: they may run anything.
func (d *db) schema() error {
	type entry struct {
		name, sql string
		root      int64
	}
	var entries []entry
	err := d.query("SELECT name, sql, rootpage FROM sqlite_master WHERE type='table'", func(s *sqlite3.Stmt) {
		entries = append(entries, entry{s.ColumnText(0), s.ColumnText(1), s.ColumnInt64(2)})
	})
	if err != nil {
		if d.ctx.Err() != nil || len(entries) == 0 {
			return fmt.Errorf("the schema cannot be read: %w: copy the file again", err)
		}
		d.in.Report("nsys/damaged-schema", timeline.DataLoss, 0, "sqlite_master: %v: tables behind it are lost; copy the file again", err)
	}
	named := map[string]int{}
	for _, e := range entries {
		named[strings.ToLower(e.name)]++
	}
	for _, e := range entries {
		up := strings.ToUpper(e.sql)
		if e.name == "" || d.tables[e.name] != nil || strings.HasPrefix(strings.TrimSpace(up), "CREATE VIRTUAL") {
			continue
		}
		t := &table{name: e.name, columns: map[string]string{}, noRowid: strings.Contains(up, "WITHOUT ROWID")}
		err := d.query("PRAGMA table_info("+quote(e.name)+")", func(s *sqlite3.Stmt) {
			t.columns[strings.ToLower(s.ColumnText(1))] = s.ColumnText(1)
		})
		if err != nil || len(t.columns) == 0 {
			if d.ctx.Err() != nil {
				return d.ctx.Err()
			}
			d.in.Report("nsys/damaged-schema", timeline.DataLoss, 0, "sqlite_master: the columns of %s cannot be read: it is left out; copy the file again", clean(e.name))
			continue
		}
		if !t.noRowid && named[strings.ToLower(e.name)] == 1 {
			t.root = e.root
		}
		d.tables[e.name] = t
		d.order = append(d.order, t)
	}
	slices.SortFunc(d.order, func(a, b *table) int { return strings.Compare(a.name, b.name) })
	return nil
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// query runs a small query.
func (d *db) query(sql string, f func(*sqlite3.Stmt)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	s, _, err := d.conn.Prepare(sql)
	if err != nil {
		return err
	}
	defer s.Close()
	for s.Step() {
		f(s)
	}
	return s.Err()
}

// row is the current row of a scan. Columns are counted as they were asked for; one that the table lacks is NULL.
type row struct {
	s    *sqlite3.Stmt // nil: v, null and t have what is in it
	v    []int64
	null uint64 // bit i: column i is no number
	t    [][]byte
	id   uint64
	n    uint32 // row number among all tables
}

// int gives column i; not ok for NULL, text that is no number, and a BLOB.
func (r *row) int(i int) (int64, bool) {
	if r.s == nil {
		return r.v[i], r.null>>i&1 == 0
	}
	v := r.s.ColumnInt64(i + 1)
	if v != 0 {
		return v, true
	}
	return 0, r.isZero(i)
}

func (r *row) isZero(i int) bool {
	switch r.s.ColumnType(i + 1) {
	case sqlite3.INTEGER:
		return true
	case sqlite3.FLOAT:
		return r.s.ColumnFloat(i+1) == 0
	case sqlite3.TEXT:
		return strings.Trim(string(r.s.ColumnRawText(i+1)), " 0") == "" && len(r.s.ColumnRawText(i+1)) > 0
	}
	return false
}

// num gives column i, and 0 for what is no number.
func (r *row) num(i int) int64 {
	if r.s == nil {
		return r.v[i]
	}
	return r.s.ColumnInt64(i + 1)
}

// raw gives the text of column i until the next row; nil for NULL.
func (r *row) raw(i int) []byte {
	if r.s == nil {
		return r.t[i]
	}
	return r.s.ColumnRawText(i + 1)
}

func (r *row) text(i int) string { return r.s.ColumnText(i + 1) }

// scan reads the columns of a table in the order of the file. At a damaged place it goes on behind it, as near as can be found, and
// reports what lies between. It fails only when the context ends.
func (d *db) scan(name string, columns []string, f func(r *row)) error {
	return d.scanPlan(name, columns, nil, f)
}

// scanMany is scan for tables of very many rows. All columns but those of text are read as numbers, and only as such.
func (d *db) scanMany(name string, columns, text []string, f func(r *row)) error {
	t := d.tables[name]
	if t == nil {
		return nil
	}
	return d.scanPlan(name, columns, d.plan(t, columns, text), f)
}

// plan says how the pager reads the columns of a table; nil where it cannot.
func (d *db) plan(t *table, columns, text []string) *plan {
	if d.pager == nil || t.root < 2 || t.root > int64(d.pager.pages) || len(columns) > 64 || len(text) > 0 && !d.pager.utf8 {
		return nil
	}
	p := &plan{k: len(columns), none: 1<<len(columns) - 1}
	at, plain := 0, true
	err := d.query("PRAGMA table_xinfo("+quote(t.name)+")", func(s *sqlite3.Stmt) {
		place := int8(-1)
		for i, c := range columns {
			if strings.EqualFold(c, s.ColumnText(1)) {
				if place >= 0 || p.none>>i&1 == 0 || s.ColumnInt64(5) != 0 { // the primary key may be the rowid, which no record holds
					plain = false
				}
				place = int8(i)
				p.none &^= 1 << i
			}
		}
		if s.ColumnInt64(0) != int64(at) || s.ColumnInt64(6) != 0 { // generated columns
			plain = false
		}
		at++
		p.place = append(p.place, place)
	})
	if err != nil || !plain {
		return nil
	}
	for i, c := range columns {
		if slices.Contains(text, c) {
			p.text |= 1 << i
		}
	}
	for len(p.place) > 0 && p.place[len(p.place)-1] < 0 {
		p.place = p.place[:len(p.place)-1]
	}
	return p
}

// scanPages reads a table by the pager and keeps after at the last row read. Rows that are not plain are left to the driver; an error says
// that the driver has to go on behind that row.
func (d *db) scanPages(t *table, sel string, pl *plan, f func(r *row), after *int64) error {
	p := d.pager
	var l leafRows
	var r row
	left := p.pages
	return p.walk(uint32(t.root), 0, &left, func(page []byte) error {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if !l.ids(p, page, *after) {
			return errNotPlain
		}
		n := len(l.id)
		if n == 0 {
			return nil
		}
		if !l.read(page, pl) {
			last := l.id[n-1]
			if err := d.scanFrom(t, sel, *after, last, f, after); err != nil || *after != last {
				return errNotPlain
			}
			return nil
		}
		for i := range n {
			*after = l.id[i]
			r.id = uint64(max(l.id[i], 0))
			r.n = uint32(min(uint64(t.base)+r.id, math.MaxUint32))
			r.v, r.null = l.v[i*pl.k:(i+1)*pl.k], l.null[i]
			if pl.text != 0 {
				r.t = l.text[i*pl.k : (i+1)*pl.k]
			}
			t.read++
			f(&r)
		}
		return nil
	})
}

// scanPlan is scan; a plan lets the pager read what is plain.
func (d *db) scanPlan(name string, columns []string, pl *plan, f func(r *row)) error {
	t := d.tables[name]
	if t == nil {
		return nil
	}
	sel := "rowid"
	if t.noRowid {
		sel = "NULL"
	}
	for _, c := range columns {
		if own, ok := t.columns[strings.ToLower(c)]; ok {
			sel += ", " + quote(own)
		} else {
			sel += ", NULL"
		}
	}
	sel = "SELECT " + sel + " FROM " + quote(t.name)
	if !t.noRowid {
		d.number(t)
	}
	after, breaks := int64(math.MinInt64), 0
	if pl != nil {
		if d.scanPages(t, sel, pl, f, &after) == nil {
			return nil
		}
		// The driver reads the table again: only then does it come to the damage as it would have, and in the order of the file.
		if known, all := after, f; known != math.MinInt64 {
			f = func(r *row) {
				if after > known {
					all(r)
				}
			}
		}
		after = math.MinInt64
	}
	for {
		err := d.scanFrom(t, sel, after, math.MaxInt64, f, &after)
		if err == nil {
			return nil
		}
		if d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		breaks++
		next, ok := int64(0), false
		if !t.noRowid && breaks < maxBreaks {
			next, ok = d.resume(t, sel, after)
		}
		first := "its beginning"
		if after != math.MinInt64 {
			first = fmt.Sprintf("rowid %d", after)
		}
		if !ok {
			d.in.Report("nsys/damaged-table", timeline.DataLoss, uint64(max(after, 0)), "%s: %s: all rows after %s are lost; copy the file again", t.name, plain(err), first)
			return nil
		}
		d.in.Report("nsys/damaged-table", timeline.DataLoss, uint64(max(after, 0)), "%s: %s: rows after %s up to rowid %d are lost; copy the file again", t.name, plain(err), first, next)
		after = next
	}
}

// block is a stretch of rows of numbers.
type block struct {
	v    []int64 // row after row
	null []uint64
	id   []uint64
	n    []uint32
}

const (
	blockRows  = 1024
	blockCount = 4
)

// asked are the columns of which it matters whether they are there; the others count as 0 where they are not.
var asked = []string{"start", "end", "globalPid", "bytes", "copyKind", "srcKind", "dstKind", "memKind", "timestamp", "value"}

// scanNumbers is scan for columns of numbers: the rows are read ahead in a goroutine of their own.
func (d *db) scanNumbers(name string, columns []string, f func(r *row)) error {
	if d.tables[name] == nil {
		return nil
	}
	k := len(columns)
	ask := uint64(0)
	for i, c := range columns {
		if slices.Contains(asked, c) {
			ask |= 1 << i
		}
	}
	full, free, stop := make(chan *block, blockCount), make(chan *block, blockCount), make(chan struct{})
	for range blockCount {
		free <- &block{v: make([]int64, 0, k*blockRows), null: make([]uint64, 0, blockRows), id: make([]uint64, 0, blockRows), n: make([]uint32, 0, blockRows)}
	}
	var err error
	go func() {
		defer close(full)
		var b *block
		send := func() {
			select {
			case full <- b:
			case <-stop:
			}
			b = nil
		}
		err = d.scanMany(name, columns, nil, func(r *row) {
			if b == nil {
				select {
				case b = <-free:
				case <-stop:
					return // the consumer broke down: only the end is waited for
				}
				b.v, b.null, b.id, b.n = b.v[:0], b.null[:0], b.id[:0], b.n[:0]
			}
			if r.s == nil {
				b.v = append(b.v, r.v...)
				b.null, b.id, b.n = append(b.null, r.null&ask), append(b.id, r.id), append(b.n, r.n)
				if len(b.n) == blockRows {
					send()
				}
				return
			}
			null := uint64(0)
			for i := range k {
				v := r.s.ColumnInt64(i + 1)
				if v == 0 && ask>>i&1 != 0 && !r.isZero(i) {
					null |= 1 << i
				}
				b.v = append(b.v, v)
			}
			b.null, b.id, b.n = append(b.null, null), append(b.id, r.id), append(b.n, r.n)
			if len(b.n) == blockRows {
				send()
			}
		})
		if b != nil {
			send()
		}
	}()
	defer func() {
		close(stop)
		for range full { // the connection is the goroutine's until it ends
		}
	}()
	var w row // one for all: it would be allocated for each
	for b := range full {
		for i := range b.n {
			w.v, w.null, w.id, w.n = b.v[i*k:(i+1)*k:(i+1)*k], b.null[i], b.id[i], b.n[i]
			f(&w)
		}
		free <- b
	}
	return err
}

// plain takes the driver's name off an error.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "sqlite3: ") }

// number gives a table its stretch of row numbers.
func (d *db) number(t *table) {
	if t.found {
		return
	}
	t.found = true
	last := int64(math.MaxUint32)
	if err := d.query("SELECT max(rowid) FROM "+quote(t.name), func(s *sqlite3.Stmt) { last = s.ColumnInt64(0) }); err != nil {
		last = math.MaxUint32 / 64
	}
	t.last = max(last, 0)
	t.base = uint32(min(d.rows, math.MaxUint32))
	d.rows = min(d.rows+uint64(t.last)+1, math.MaxUint32)
}

var errOrder = errors.New("rows are not in order")

// scanFrom reads the rows after a rowid up to another and keeps after at the last one read.
func (d *db) scanFrom(t *table, sel string, from, to int64, f func(r *row), after *int64) (err error) {
	defer func() {
		if r := recover(); r != nil { // the driver panics when it runs out of memory
			err = fmt.Errorf("%v", r)
			_ = d.disconnect()
			if cerr := d.connect(); cerr != nil {
				err = cerr
			}
		}
	}()
	if d.conn == nil {
		return errors.New("the file cannot be opened again")
	}
	var bounds []string
	if from != math.MinInt64 {
		bounds = append(bounds, fmt.Sprintf("rowid > %d", from))
	}
	if to != math.MaxInt64 {
		bounds = append(bounds, fmt.Sprintf("rowid <= %d", to))
	}
	if len(bounds) > 0 {
		sel += " WHERE " + strings.Join(bounds, " AND ")
	}
	s, _, err := d.conn.Prepare(sel)
	if err != nil {
		return err
	}
	defer s.Close()
	r := row{s: s}
	for s.Step() {
		if !t.noRowid {
			id := s.ColumnInt64(0)
			if id <= *after && *after != math.MinInt64 {
				return errOrder // a page that is in the tree twice
			}
			*after = id
			r.id = uint64(max(id, 0))
		} else {
			r.id++
		}
		r.n = uint32(min(uint64(t.base)+r.id, math.MaxUint32))
		t.read++
		f(&r)
	}
	return s.Err()
}

// resume finds the nearest rowid from which the rows after it can be read. It steps further and further and then halves its way back.
func (d *db) resume(t *table, sel string, after int64) (int64, bool) {
	ok := func(x int64) (readable bool) {
		defer func() {
			if recover() != nil {
				readable = false
			}
		}()
		s, _, err := d.conn.Prepare(sel + " WHERE rowid > ?1")
		if err != nil {
			return false
		}
		defer s.Close()
		if s.BindInt64(1, x) != nil {
			return false
		}
		more := s.Step()
		return s.Err() == nil && (!more || s.ColumnInt64(0) > x)
	}
	if d.conn == nil {
		return 0, false
	}
	if after == math.MinInt64 {
		after = -1
		if ok(after) { // rows below 0 only
			return after, true
		}
	}
	bad, good := after, int64(-1)
	for step := int64(1); bad < t.last; step *= 2 {
		x := min(bad+step, t.last)
		if ok(x) {
			good = x
			break
		}
		bad = x
		if step > 1<<40 {
			return 0, false
		}
	}
	if good < 0 {
		return 0, false
	}
	for good-bad > 1 {
		if mid := bad + (good-bad)/2; ok(mid) {
			good = mid
		} else {
			bad = mid
		}
	}
	if good >= t.last {
		return 0, false
	}
	return good, true
}
