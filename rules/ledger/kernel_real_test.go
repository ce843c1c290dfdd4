package ledger

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"gpureport/ingest"
	"gpureport/ingest/nsys"
	"gpureport/ingest/timeline"
)

// mostUnclassified is the share of a file's kernel time that names of no class may hold.
const mostUnclassified = 0.05

// foreign are files of which it cannot hold, and why.
var foreign = map[string]string{
	"kineto_h100_before_fix.json":        "written by hand: its one kernel is called Kernel",
	"rtx6000_old_schema_17tables.sqlite": "a data base engine's own kernels, which no library has",
}

func readExport(t testing.TB, path string) *timeline.Timeline {
	t.Helper()
	in := ingest.NewInput(path, func() (io.ReadCloser, error) { return os.Open(path) }, &ingest.Options{Jobs: 1})
	b := ingest.NewBuilder(in, nsys.Format.Name)
	if err := nsys.Format.Read(context.Background(), in, b); err != nil {
		t.Skip(err)
	}
	return b.Finish()
}

// Of the kernel time of real traces little is left without a class.
func TestRealKernelNames(t *testing.T) {
	dir := dataDir(t)
	var files []string
	for _, p := range []string{"kineto/*.json*", "kineto-multirank/*/*.json*", "nsys-sqlite/*.sqlite"} {
		m, _ := filepath.Glob(filepath.Join(dir, p))
		files = append(files, m...)
	}
	if len(files) == 0 {
		t.Fatal("no traces in the folder")
	}
	tab := tables(t)
	for _, f := range files {
		base := filepath.Base(f)
		t.Run(base, func(t *testing.T) {
			var tl *timeline.Timeline
			if filepath.Ext(f) == ".sqlite" {
				tl = readExport(t, f)
			} else {
				tl = readTrace(t, f)
			}
			var all, other int64
			by := map[string]int64{}
			for i, k := range tl.Spans.Kind {
				if k != timeline.KindKernel {
					continue
				}
				d := int64(tl.Spans.End[i] - tl.Spans.Start[i])
				name := tl.Names.Get(tl.Spans.Name[i])
				all += d
				if tab.Kernel(name).Class == ClassOther {
					other += d
					by[name] += d
				}
			}
			if all == 0 {
				t.Skip("no kernels")
			}
			share := float64(other) / float64(all)
			t.Logf("unclassified %.1f %% of %.3f ms", 100*share, float64(all)/1e6)
			var names []string
			for n := range by {
				names = append(names, n)
			}
			sort.Slice(names, func(i, j int) bool { return by[names[i]] > by[names[j]] })
			for i, n := range names {
				if i < 8 {
					t.Logf("  %5.1f %% %.220s", 100*float64(by[n])/float64(all), n)
				}
			}
			if why, ok := foreign[base]; share > mostUnclassified && !ok {
				t.Errorf("%.1f %% of the kernel time has no class", 100*share)
			} else if ok {
				t.Log("more than that is allowed: " + why)
			}
		})
	}
}
