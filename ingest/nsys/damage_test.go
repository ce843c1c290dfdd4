package nsys

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gpureport/ingest/timeline"
)

// fill adds n kernels with their calls to the first process of modern.sql, and n ranges around them if wanted.
func fill(t testing.TB, path string, n int, ranges bool) {
	t.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(sql string) {
		t.Helper()
		if err := conn.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN")
	series := fmt.Sprintf("WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM k WHERE i<%d-1) ", n)
	exec(series + `INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 30000000+i*10000, 30000000+i*10000+4000, 0, (1<<56)|(1001<<24)|1001, 1000+i, 3, 0, 0 FROM k`)
	exec(series + `INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 30005000+i*10000, 30005000+i*10000+6000, 0, 1, 0, 7, 1000+i, (1<<56)|(1001<<24), 1, 2, 2, 1, 32, 16, 1, 1, 128, 1, 1, NULL FROM k`)
	if ranges {
		exec(series + `INSERT INTO NVTX_EVENTS(start,end,eventType,text,globalTid) SELECT 30000000+i*10000, 30000000+i*10000+9000, 59, 'layer '||(i%50), (1<<56)|(1001<<24)|1001 FROM k`)
	}
	exec("UPDATE ANALYSIS_DETAILS SET duration = max(duration, 40000000+" + fmt.Sprint(n) + "*10000)")
	exec("COMMIT")
}

const pageSize = 1024

// sample is an export of over 200 pages, among them text that lies on pages of its own.
func sample(t testing.TB) []byte {
	t.Helper()
	path := buildPages(t, pageSize, []string{"modern.sql"}, "UPDATE StringIds SET value='void long_kernel<"+strings.Repeat("int, ", 1000)+">()' WHERE id=1")
	fill(t, path, 1500, true)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 200*pageSize {
		t.Fatalf("%d pages only", len(b)/pageSize)
	}
	return b
}

func write(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.sqlite")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tells is whether a read of damaged bytes owned up to it: an error, or a problem that costs data.
func tells(tl *timeline.Timeline, err error) bool {
	if err != nil {
		return true
	}
	for _, p := range tl.Problems {
		if p.Severity >= timeline.DataLoss && (strings.HasPrefix(p.Code, "nsys/damaged") || strings.HasPrefix(p.Code, "nsys/bad") || p.Code == "nsys/missing-table") {
			return true
		}
	}
	return false
}

// Each of the first 200 pages zeroed in turn: either nothing changes, or a problem says that something is lost; and what lies on
// other pages stays.
func TestEachPageZeroed(t *testing.T) {
	whole := sample(t)
	full := mustRead(t, write(t, whole))
	want, spans := dump(full), full.Spans.Len()
	changed := 0
	for page := range 200 {
		b := bytes.Clone(whole)
		clear(b[page*pageSize : (page+1)*pageSize])
		tl, err := readFile(t, write(t, b))
		if err != nil {
			if page > 0 && !strings.Contains(err.Error(), "schema") { // its first page: nothing says where tables lie
				t.Errorf("page %d: %v", page+1, err)
			}
			continue
		}
		if dump(tl) != want {
			changed++
			if !tells(tl, err) {
				t.Errorf("page %d: other things are read, and no problem says so:\n%s", page+1, problems(tl))
			}
		}
		if got := tl.Spans.Len(); strings.Contains(problems(tl), "nsys/damaged-table") && got < spans/4 {
			t.Errorf("page %d: %d of %d spans are left:\n%s", page+1, got, spans, problems(tl))
		}
	}
	if changed < 100 {
		t.Errorf("only %d pages made a difference", changed)
	}
}

// A page in the middle of a table costs its own rows and no others.
func TestRowsBehindALostPage(t *testing.T) {
	whole := sample(t)
	full := mustRead(t, write(t, whole))
	lost := 0
	for page := 60; page < 200; page += 10 {
		b := bytes.Clone(whole)
		clear(b[page*pageSize : (page+1)*pageSize])
		tl := mustRead(t, write(t, b))
		n := full.Spans.Len() - tl.Spans.Len()
		if n == 0 {
			continue
		}
		lost++
		if n > 60 && strings.Contains(problems(tl), "rows after rowid") {
			t.Errorf("page %d: %d rows are gone; a page holds about 20\n%s", page+1, n, problems(tl))
		}
	}
	if lost < 5 {
		t.Errorf("only %d pages held rows", lost)
	}
}

func TestTruncated(t *testing.T) {
	whole := sample(t)
	for _, n := range []int{0, 10, 100, 1000, pageSize, 3*pageSize + 7, len(whole) / 3, len(whole) / 2, len(whole) - 3*pageSize, len(whole) - 1} {
		tl, err := readFile(t, write(t, whole[:n]))
		if !tells(tl, err) && dump(tl) != dump(mustRead(t, write(t, whole))) {
			t.Errorf("%d of %d bytes: no problem says that the file is cut\n%s", n, len(whole), problems(tl))
		}
		if n > len(whole)/2 && (err != nil || tl.Spans.Len() < 1000) {
			t.Errorf("%d of %d bytes: %v, %d spans", n, len(whole), err, tl.Spans.Len())
		}
	}
}

// Bytes changed at random never break the reader, and never give a timeline that is none.
func TestBytesChanged(t *testing.T) {
	whole := sample(t)
	rng := rand.New(rand.NewPCG(3, 14))
	for round := range 120 {
		b := bytes.Clone(whole)
		limit := len(b)
		if round%2 == 0 {
			limit = 40 * pageSize // the schema and the small tables
		}
		for range 1 + rng.IntN(30) {
			b[100+rng.IntN(limit-100)] = byte(rng.IntN(256))
		}
		_, _ = readFile(t, write(t, b)) // holds it to Validate
	}
}

// Things in the schema that are no tables are never run.
func TestHostileSchema(t *testing.T) {
	path := build(t, []string{"modern.sql"},
		"DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
		"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE k(start) AS (SELECT 0 UNION ALL SELECT start+1 FROM k) SELECT start, start AS end FROM k",
		`CREATE TABLE "x"" y" (a); INSERT INTO "x"" y" VALUES (1)`)
	tl := mustRead(t, path)
	if !strings.Contains(problems(tl), "happened: kernels, cuDNN") {
		t.Error(problems(tl))
	}
}

func FuzzRead(f *testing.F) {
	small, err := os.ReadFile(build(f, []string{"y2020.sql"}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(0, []byte{})            // whole
	f.Add(100, make([]byte, 300)) // the schema's page
	f.Add(4096, []byte{0x05})     // a leaf that says it is none
	f.Add(5*4096+8, []byte{99})   // cells that lie elsewhere
	f.Fuzz(func(t *testing.T, at int, with []byte) {
		b := bytes.Clone(small)
		if at < 0 || at >= len(b) {
			return
		}
		copy(b[at:], with)
		_, _ = readFile(t, write(t, b))
	})
}
