package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpureport/render"
)

// A file that was cut while it was written: whatever the place, no panic, exit 0 or 2, and every row before the cut is kept.
func TestCutFiles(t *testing.T) {
	head := func(path string, n int) []byte {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for range n {
			i := bytes.IndexByte(b[at:], '\n')
			if i < 0 {
				t.Fatalf("%s has fewer than %d lines", path, n)
			}
			at += i + 1
		}
		return b[:at]
	}
	trace, err := os.ReadFile(inputsOf(t, "hostile")[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		format, name string
		data         []byte
		ends         []int // where each row ends
	}{
		{"torchprof", "trace.json", trace, eventEnds(t, trace)},
		{"dmon", "dmon.log", head(filepath.Join(fixtures, "samples-only", "in", "dmon.log"), 42), lineEnds(head(filepath.Join(fixtures, "samples-only", "in", "dmon.log"), 42), "#")},
		{"smiquery", "query.csv", head(filepath.Join(fixtures, "thermal-throttle", "in", "query.csv"), 40), lineEnds(head(filepath.Join(fixtures, "thermal-throttle", "in", "query.csv"), 40), "timestamp")},
	} {
		t.Run(f.format, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			last, read := int64(0), 0
			cuts := 200
			if testing.Short() {
				cuts = 40
			}
			for k := range cuts + 1 {
				at := len(f.data) * k / cuts
				path := write(t, dir, f.name, f.data[:at])
				out := filepath.Join(dir, "out")
				r := gpureport("analyze", "--format", "json", "-o", out, path)
				var rows int64
				switch r.code {
				case exitOK:
					rep := readReport(t, out)
					ledgersClose(t, rep)
					rows = rowsOf(t, rep, f.format)
					read++
				case exitUse:
					if !strings.Contains(r.stderr, "nothing could be analysed") {
						t.Errorf("cut at %d: %s", at, r.stderr)
					}
				default:
					t.Fatalf("cut at %d: exit %d: %s", at, r.code, r.stderr)
				}
				if rows < last {
					t.Errorf("cut at %d: %d rows, an earlier cut gave %d", at, rows, last)
				}
				last = rows
				whole, _ := slices.BinarySearch(f.ends, at+1)
				if r.code == exitOK && rows < int64(whole) {
					t.Errorf("cut at %d: %d rows, %d lie before the cut", at, rows, whole)
				}
				if rows > int64(whole)+1 {
					t.Errorf("cut at %d: %d rows, only %d lie before the cut", at, rows, whole)
				}
			}
			if last != int64(len(f.ends)) {
				t.Errorf("the whole file has %d rows, want %d", last, len(f.ends))
			}
			if read < cuts*9/10 {
				t.Errorf("only %d of %d cuts were read", read, cuts)
			}
		})
	}
}

func rowsOf(t *testing.T, rep *render.Report, format string) int64 {
	t.Helper()
	if len(rep.Inputs) != 1 || rep.Inputs[0].Format != format {
		t.Fatalf("inputs %+v, want one %s", rep.Inputs, format)
	}
	return rep.Inputs[0].Rows
}

// lineEnds gives the offset behind each line that is no heading.
func lineEnds(b []byte, heading string) (ends []int) {
	at := 0
	for _, l := range strings.SplitAfter(string(b), "\n") {
		at += len(l)
		if l != "" && !strings.HasPrefix(l, heading) {
			ends = append(ends, at)
		}
	}
	return ends
}

// eventEnds gives the offset behind each event of a trace.
func eventEnds(t *testing.T, b []byte) (ends []int) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	token := func() json.Token {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	token() // {
	for dec.More() {
		key := token()
		if key != "traceEvents" {
			var skip json.RawMessage
			if err := dec.Decode(&skip); err != nil {
				t.Fatal(fmt.Errorf("%v: %w", key, err))
			}
			continue
		}
		token() // [
		for dec.More() {
			var ev json.RawMessage
			if err := dec.Decode(&ev); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, int(dec.InputOffset()))
		}
		token() // ]
	}
	return ends
}
