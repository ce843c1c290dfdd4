package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The command line, as people use it. Beside testscript's own commands there are:
//
//	exits CODE gpureport ARGS...   run it and want this exit code
//	field FILE PATH VALUE          a field of a JSON file; PATH is keys and indices, joined by dots; len of a list
//	pack FILE INPUT...             a .zip or .tar.gz of files, under their base names
func TestScript(t *testing.T) {
	dir, err := filepath.Abs(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("FIXTURES", dir)
			env.Setenv("NO_COLOR", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "field": field, "pack": pack},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ee *exec.ExitError
		if !errors.As(err, &ee) {
			ts.Fatalf("%v", err)
		}
		got = ee.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit %d, want %d", got, want)
	}
}

func field(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: field FILE PATH VALUE")
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for _, key := range strings.Split(args[1], ".") {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				ts.Fatalf("%s: no %s", args[1], key)
			}
			v = next
		case []any:
			if key == "len" {
				v = json.Number(strconv.Itoa(len(at)))
				continue
			}
			i, err := strconv.Atoi(key)
			ts.Check(err)
			if i >= len(at) {
				ts.Fatalf("%s: only %d items", args[1], len(at))
			}
			v = at[i]
		default:
			ts.Fatalf("%s: nothing below %v", args[1], v)
		}
	}
	got := fmt.Sprint(v)
	if (got == args[2]) == neg {
		ts.Fatalf("%s is %q, want %q (not: %v)", args[1], got, args[2], neg)
	}
}

func pack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: pack FILE INPUT...")
	}
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	isZip := strings.HasSuffix(args[0], ".zip")
	for _, name := range args[1:] {
		data, err := os.ReadFile(ts.MkAbs(name))
		ts.Check(err)
		if isZip {
			w, err := zw.Create(filepath.Base(name))
			ts.Check(err)
			_, err = w.Write(data)
			ts.Check(err)
			continue
		}
		ts.Check(tw.WriteHeader(&tar.Header{Name: filepath.Base(name), Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}))
		_, err = tw.Write(data)
		ts.Check(err)
	}
	if isZip {
		ts.Check(zw.Close())
	} else {
		ts.Check(tw.Close())
		ts.Check(gz.Close())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

var (
	fence   = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	command = regexp.MustCompile(`(?m)^\$ (gpureport\b.*)$`)
)

// Every "$ gpureport" block of README.md runs as it stands, from the repository's root, and prints what stands below it. A line "..." in
// a block stands for any lines.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	abs, err := filepath.Abs(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(abs, filepath.Join(dir, "fixtures")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(string(b), -1) {
		cmds := command.FindAllStringSubmatchIndex(block[1], -1)
		for i, at := range cmds {
			line := block[1][at[2]:at[3]]
			end := len(block[1])
			if i+1 < len(cmds) {
				end = cmds[i+1][0]
			}
			want := strings.Trim(block[1][at[1]:end], "\n")
			args, err := splitArgs(line)
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			ran++
			got := gpureport(args[1:]...)
			if got.code == exitUse {
				t.Errorf("$ %s: exit 2: %s", line, got.stderr)
				continue
			}
			if want == "" {
				continue
			}
			var re strings.Builder
			re.WriteString(`\A`)
			for _, l := range strings.Split(want, "\n") {
				if strings.TrimSpace(l) == "..." {
					re.WriteString(`(?:.*\n)*?`)
					continue
				}
				re.WriteString(regexp.QuoteMeta(strings.TrimRight(l, " ")) + ` *\n`)
			}
			re.WriteString(`\n*\z`)
			if !regexp.MustCompile(re.String()).MatchString(got.stdout) {
				t.Errorf("$ %s prints\n%s\nREADME.md says\n%s", line, got.stdout, want)
			}
		}
	}
	if ran == 0 {
		t.Error("README.md holds no block with $ gpureport")
	}
}

// splitArgs splits a command line at spaces, with single and double quotes.
func splitArgs(line string) ([]string, error) {
	var args []string
	var cur strings.Builder
	var quote rune
	in := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && r == ' ':
			if in {
				args = append(args, cur.String())
			}
			cur.Reset()
			in = false
		case quote == 0 && strings.ContainsRune("|&;<>$`#", r):
			return nil, fmt.Errorf("%q is for a shell", r)
		default:
			cur.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote does not end")
	}
	if in {
		args = append(args, cur.String())
	}
	return args, nil
}
