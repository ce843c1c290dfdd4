package torchprof

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// dataDir is the folder of real files, which are not part of the repository.
func dataDir(t *testing.T) string {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: no real traces to read")
	}
	return dir
}

func openFile(path string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil || !strings.HasSuffix(path, ".gz") {
			return f, err
		}
		return gzip.NewReader(f)
	}
}

func readFile(t *testing.T, path string, jobs int) (*timeline.Timeline, []timeline.Problem) {
	t.Helper()
	in := ingest.NewInput(filepath.Base(path), openFile(path), &ingest.Options{Jobs: jobs})
	b := ingest.NewBuilder(in, Format.Name)
	if err := Format.Read(context.Background(), in, b); err != nil {
		t.Fatal(err)
	}
	tl := b.Finish()
	if err := tl.Validate(); err != nil {
		t.Fatal(err)
	}
	return tl, in.Problems()
}

func headOf(t *testing.T, path string) ingest.Head {
	t.Helper()
	rc, err := openFile(path)()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	raw := make([]byte, ingest.HeadSize)
	n, _ := io.ReadFull(rc, raw)
	return ingest.Head{Name: strings.TrimSuffix(filepath.Base(path), ".gz"), Raw: raw[:n], Text: raw[:n]}
}

var manifestRow = regexp.MustCompile("^\\| `(kineto[^`]*)` \\|.* (?:object|array) form, (\\d+) events, (\\d+) kernels, (\\d+) ProfilerStep.*?(\\d+) DataLoader")

// TestRealCounts holds every real trace to the counts that the manifest states.
func TestRealCounts(t *testing.T) {
	dir := dataDir(t)
	manifest, err := os.ReadFile(filepath.Join(dir, "MANIFEST.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range strings.Split(string(manifest), "\n") {
		m := manifestRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n++
		t.Run(filepath.Base(m[1]), func(t *testing.T) {
			path := filepath.Join(dir, m[1])
			if !recognise(headOf(t, path)) {
				t.Error("not recognised")
			}
			tl, problems := readFile(t, path, 1)
			want := func(what string, got int64, s string) {
				if w, _ := strconv.ParseInt(s, 10, 64); got != w {
					t.Errorf("%d %s, manifest says %s", got, what, s)
				}
			}
			want("events", tl.Sources[0].Rows, m[2])
			var kernels, steps, loaders int64
			for i, k := range tl.Spans.Kind {
				name := tl.Names.Get(tl.Spans.Name[i])
				switch {
				case k == timeline.KindKernel:
					kernels++
				case k == timeline.KindAnnotation && strings.HasPrefix(name, "ProfilerStep"):
					steps++
				case k == timeline.KindAnnotation && strings.Contains(name, "DataLoader"):
					loaders++
				}
			}
			want("kernels", kernels, m[3])
			t.Logf("%d spans %d tracks %d copies %d kernel args %d collectives %d shapes %d marks steps %d (%s) loaders %d (%s)", tl.Spans.Len(), len(tl.Tracks), len(tl.Spans.Copies), len(tl.Spans.Kernels), len(tl.Spans.Comms), len(tl.Spans.Shapes), len(tl.Marks.At), steps, m[4], loaders, m[5])
			for _, p := range tl.Procs {
				t.Logf("proc %d host %q rank %d by %q of %d %s groups %d recorded %v meta %v", p.PID, p.Host, p.Rank, p.RankHow, p.WorldSize, p.Backend, len(p.Groups), p.Recorded.Dur(), p.Meta)
			}
			for _, d := range tl.Devices {
				t.Logf("device %+v", d)
			}
			t.Logf("window %v clock %+v", tl.Window.Dur(), tl.Clocks[0])
			for _, p := range problems {
				t.Logf("problem %+v", p)
			}
		})
	}
	if n < 30 {
		t.Errorf("%d traces in the manifest", n)
	}
}

func TestRealOthersAreNotOurs(t *testing.T) {
	dir := dataDir(t)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		ours := strings.HasPrefix(rel, "kineto") || strings.HasPrefix(rel, "derived-odd"+string(filepath.Separator)) && strings.Contains(rel, ".json")
		if got := recognise(headOf(t, path)); got != ours {
			t.Errorf("%s: recognised %v", rel, got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRealRanks reads the eight files of one job.
func TestRealRanks(t *testing.T) {
	dir := dataDir(t)
	for rank := range 8 {
		tl, problems := readFile(t, filepath.Join(dir, "kineto-multirank", "dlrm8", fmt.Sprintf("worker%d.pt.trace.json.gz", rank)), 2)
		if p := tl.Procs; len(p) != 1 || p[0].Rank != rank || p[0].WorldSize != 8 || len(problems) != 0 {
			t.Errorf("rank %d: %+v %v", rank, p, problems)
		}
		if d := tl.Devices; len(d) != 1 || d[0].Ordinal != rank {
			t.Errorf("rank %d: devices %+v", rank, d)
		}
	}
}

// TestRealDamage reads the damaged copies; the counts were found in their text by hand.
func TestRealDamage(t *testing.T) {
	dir := dataDir(t)
	for _, c := range []struct {
		file, problems string
		rows           int64
	}{
		{"nan_and_negative_dur.json", "no-duration info 1", 71},
		{"truncated_gzip.json.gz", "truncated data-loss 1", 60},
		{"truncated_mid_event.json", "truncated data-loss 1", 123},
	} {
		tl, problems := readFile(t, filepath.Join(dir, "derived-odd", c.file), 2)
		t.Logf("%s: %d rows, %d spans, %s", c.file, tl.Sources[0].Rows, tl.Spans.Len(), codes(problems))
		if got := codes(problems); got != c.problems {
			t.Errorf("%s: %s, want %s", c.file, got, c.problems)
		}
		if tl.Sources[0].Rows != c.rows || tl.Spans.Len() == 0 {
			t.Errorf("%s: %d rows, %d spans", c.file, tl.Sources[0].Rows, tl.Spans.Len())
		}
	}
}
