package nsys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// build runs the SQL of testdata files, one after the other, and then of the texts, and gives the database's path.
func build(t testing.TB, files []string, sql ...string) string {
	t.Helper()
	return buildPages(t, 4096, files, sql...)
}

func buildPages(t testing.TB, pageSize int, files []string, sql ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.sqlite")
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec(fmt.Sprintf("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA page_size=%d; BEGIN", pageSize)); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join("testdata", f))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Exec(string(b)); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	for _, s := range sql {
		if err := conn.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := errors.Join(conn.Exec("COMMIT"), conn.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// readFile reads a database as the program does and holds what comes out to its contract.
func readFile(t testing.TB, path string) (*timeline.Timeline, error) {
	t.Helper()
	in := ingest.NewFileInput(filepath.Base(path), path, nil)
	b := ingest.NewBuilder(in, Format.Name)
	err := Format.Read(context.Background(), in, b)
	b.SealSeries()
	b.TL.Problems = append(b.TL.Problems, in.Problems()...)
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Fatalf("%s: %v", path, verr)
	}
	return tl, err
}

func mustRead(t testing.TB, path string) *timeline.Timeline {
	t.Helper()
	tl, err := readFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}
