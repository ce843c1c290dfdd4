package nsys

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpureport/ingest"
)

// scanned reads all columns of all tables, those of text by name as text, the others as numbers.
func scanned(t *testing.T, path string, pager bool) (rows map[string][]string, plain int, probs string) {
	t.Helper()
	in := ingest.NewFileInput(filepath.Base(path), path, nil)
	d, err := openDB(context.Background(), in, path)
	if err != nil {
		return nil, 0, err.Error()
	}
	defer d.close()
	rows = map[string][]string{}
	for _, tb := range d.order {
		var columns, text []string
		for _, own := range tb.columns {
			columns = append(columns, own)
		}
		slices.Sort(columns)
		columns = append(columns, "no such column")
		for _, c := range columns {
			if l := strings.ToLower(c); l == "text" || l == "jsontext" || l == "value" || strings.Contains(l, "name") && !strings.Contains(l, "id") {
				text = append(text, c)
			}
		}
		var pl *plan
		if pager {
			if pl = d.plan(tb, columns, text); pl != nil {
				plain++
			}
		}
		err := d.scanPlan(tb.name, columns, pl, func(r *row) {
			s := fmt.Sprint(r.id, r.n)
			for i, c := range columns {
				if slices.Contains(text, c) {
					s += fmt.Sprintf(" %q", r.raw(i))
				} else {
					v, ok := r.int(i)
					s += fmt.Sprint(" ", v, ok)
				}
			}
			rows[tb.name] = append(rows[tb.name], s)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range in.Problems() {
		probs += p.Code + " " + p.Message + "\n"
	}
	return rows, plain, probs
}

func differs(a, b map[string][]string) string {
	for name, x := range a {
		y := b[name]
		for i := range max(len(x), len(y)) {
			if i >= len(x) || i >= len(y) || x[i] != y[i] {
				return fmt.Sprintf("%s: row %d of %d and %d", name, i, len(x), len(y))
			}
		}
	}
	return ""
}

// What the pager reads is what the driver reads, whatever is in the tables and however large the pages are.
func TestPagesAreReadAsTheDriverDoes(t *testing.T) {
	long := strings.Repeat("long ", 40_000)
	for _, size := range []int{512, 1024, 4096, 65536} {
		path := buildPages(t, size, []string{"modern.sql"},
			"CREATE TABLE odd (a INTEGER, b REAL, text TEXT, c, d INT DEFAULT 7)",
			"INSERT INTO odd VALUES (1, 2, 'x', '12', NULL), (-1, 2.5, '', x'3132', 0), (NULL, NULL, NULL, NULL, 1), (9223372036854775807, -9223372036854775807, 5, 1e300, -128)",
			"INSERT INTO odd(rowid, a, text) VALUES (-5, 5, 'below'), (5000000000, 32768, '"+long+"'), (5000000001, -8388608, 'after')",
			"WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM k WHERE i<62) INSERT INTO odd(a, text) SELECT -(1<<i), substr('"+long[:200]+"', 1, i*3) FROM k",
			"ALTER TABLE odd ADD COLUMN e INTEGER DEFAULT 99",
			"INSERT INTO odd(a, e) VALUES (1, 2)",
			"CREATE TABLE own (id INTEGER PRIMARY KEY, a INTEGER)", "INSERT INTO own VALUES (7, 8), (9, 10)",
			"CREATE TABLE made (a INTEGER, twice INTEGER AS (a*2), b INTEGER)", "INSERT INTO made(a, b) VALUES (1, 2), (3, 4)",
			"CREATE TABLE keyed (a INTEGER, b INTEGER, PRIMARY KEY (b)) WITHOUT ROWID", "INSERT INTO keyed VALUES (1, 2), (3, 4)",
			"CREATE TABLE gone (a INTEGER, b INTEGER, c INTEGER)", "INSERT INTO gone VALUES (1, 2, 3)", "ALTER TABLE gone DROP COLUMN b", "INSERT INTO gone VALUES (4, 6)",
			"CREATE TABLE empty (a INTEGER)",
		)
		fill(t, path, 3000, true)
		got, plain, probs := scanned(t, path, true)
		want, _, wantProbs := scanned(t, path, false)
		if d := differs(want, got); d != "" || len(got) != len(want) {
			t.Errorf("pages of %d: %s", size, d)
		}
		if probs != wantProbs || strings.Contains(probs, "damaged") {
			t.Errorf("pages of %d: problems\n%s\nwant\n%s", size, probs, wantProbs)
		}
		if plain < 10 || len(want["odd"]) != 71 || len(want["CUPTI_ACTIVITY_KIND_KERNEL"]) < 3000 {
			t.Errorf("pages of %d: %d tables for the pager, %d odd rows, %d kernels", size, plain, len(want["odd"]), len(want["CUPTI_ACTIVITY_KIND_KERNEL"]))
		}
	}
}

// Of a damaged file the pager gives what the driver gives, or a problem says that rows are lost.
func TestDamagedPagesAreReadAsTheDriverDoes(t *testing.T) {
	whole := sample(t)
	rng := rand.New(rand.NewPCG(27, 18))
	same, other := 0, 0
	for round := range 150 {
		b := bytes.Clone(whole)
		switch round % 3 {
		case 0: // a page is lost
			at := (1 + rng.IntN(len(b)/pageSize-1)) * pageSize
			clear(b[at : at+pageSize])
		case 1: // a page lies where another was
			from, to := rng.IntN(len(b)/pageSize), 1+rng.IntN(len(b)/pageSize-1)
			copy(b[to*pageSize:(to+1)*pageSize], whole[from*pageSize:])
		default:
			for range 1 + rng.IntN(20) {
				b[100+rng.IntN(len(b)-100)] = byte(rng.IntN(256))
			}
		}
		path := write(t, b)
		got, _, probs := scanned(t, path, true)
		want, _, wantProbs := scanned(t, path, false)
		if d := differs(want, got); d == "" && probs == wantProbs {
			same++
		} else if other++; !strings.Contains(probs, "nsys/damaged") {
			t.Errorf("round %d: %s, and no problem says so\n%s\nthe driver's:\n%s", round, d, probs, wantProbs)
		}
		os.Remove(path)
	}
	if same < 130 {
		t.Errorf("%d damaged files are read as the driver reads them, %d are not", same, other)
	}
}
