package ledger

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/torchprof"
)

// dataDir is the folder of real files, which are not part of the repository.
func dataDir(t testing.TB) string {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: no real traces to read")
	}
	return dir
}

func readTrace(t testing.TB, path string) *timeline.Timeline {
	t.Helper()
	open := func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil || !strings.HasSuffix(path, ".gz") {
			return f, err
		}
		return gzip.NewReader(f)
	}
	in := ingest.NewInput(filepath.Base(path), open, &ingest.Options{Jobs: 1})
	b := ingest.NewBuilder(in, torchprof.Format.Name)
	if err := torchprof.Format.Read(context.Background(), in, b); err != nil {
		t.Fatal(err)
	}
	return b.Finish()
}

func reduceTrace(t testing.TB, path string) []*timeline.Reduced {
	t.Helper()
	reds, err := Reduce(readTrace(t, path), tables(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return reds
}

// checkLedger holds the promises of every ledger: sums, tiles, order.
func checkLedger(t testing.TB, red *timeline.Reduced) {
	t.Helper()
	for i := range red.GPUs {
		g := &red.GPUs[i]
		if g.SumError != 0 {
			t.Errorf("gpu %d: owners miss the window by %d ns", i, g.SumError)
		}
		at := g.Window.Start
		var owners timeline.Owners
		for s := range g.Segments.All() {
			if s.Start != at || s.Dur <= 0 {
				t.Fatalf("gpu %d: segment at %d (%d ns) where %d was wanted", i, s.Start, s.Dur, at)
			}
			at += timeline.Time(s.Dur)
			owners[s.Owner] += s.Dur
		}
		if g.Segments.Len() > 0 && at != g.Window.End || g.Window.End < g.Window.Start {
			t.Errorf("gpu %d: segments end at %d, window %v", i, at, g.Window)
		}
		if owners != g.Owners || owners.Sum() != int64(g.Window.Dur()) {
			t.Errorf("gpu %d: owners %v, segments say %v", i, g.Owners, owners)
		}
		if len(g.Steps) > 0 {
			at = g.Window.Start
			var sum timeline.Owners
			for _, s := range g.Steps {
				if s.Start != at || s.Dur <= 0 || s.Owners.Sum() != s.Dur {
					t.Errorf("gpu %d: step at %d of %d ns has owners of %d, want a step at %d", i, s.Start, s.Dur, s.Owners.Sum(), at)
				}
				at += timeline.Time(s.Dur)
				sum.Add(&s.Owners)
			}
			if at != g.Window.End || sum != g.Owners {
				t.Errorf("gpu %d: steps end at %d, window %v", i, at, g.Window)
			}
		}
		var subs timeline.Owners
		for o, list := range g.Subs {
			for _, s := range list {
				subs[o] += s.NS
			}
		}
		if subs != g.Owners {
			t.Errorf("gpu %d: finer owners %v, owners %v", i, subs, g.Owners)
		}
	}
	for i := range red.Collectives {
		c := &red.Collectives[i]
		var ns int64
		for _, iv := range red.Exposed[c.Exposed0 : c.Exposed0+c.ExposedN] {
			if iv.Start < c.Start || iv.End > c.End || iv.Empty() {
				t.Errorf("collective %d: exposed %v outside [%d, %d)", i, iv, c.Start, c.End)
			}
			ns += int64(iv.Dur())
		}
		if ns != c.ExposedNS {
			t.Errorf("collective %d: exposed %d, pieces %d", i, c.ExposedNS, ns)
		}
	}
}

func share(g *timeline.GPULedger, o timeline.Owner) float64 {
	return float64(g.Owners[o]) / float64(max(1, g.Window.Dur()))
}

func describe(red *timeline.Reduced) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s rank %d/%d steps %s %d dropped %v main %d busyhost %v\n", red.Path, red.Process.Rank, red.Process.WorldSize, red.Steps.How, len(red.Steps.Index), red.Steps.Dropped, red.Rank.MainThread, red.HostBusy)
	for i := range red.GPUs {
		g := &red.GPUs[i]
		fmt.Fprintf(&b, "  gpu %d %s window %v ops %d busy %.1f%% late %d uncorr %d order %v\n   ", g.Device.Ordinal, g.Device.Name, g.Window.Dur(), g.Ops, 100*float64(g.Busy)/float64(max(1, g.Window.Dur())), g.Late, g.Uncorrelated, g.Order)
		for o, v := range g.Owners {
			if v != 0 {
				fmt.Fprintf(&b, " %s %.1f%%", timeline.Owner(o), 100*share(g, timeline.Owner(o)))
			}
		}
		b.WriteString("\n")
	}
	for _, n := range red.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	return b.String()
}

func TestRealTraces(t *testing.T) {
	dir := dataDir(t)
	var files []string
	for _, p := range []string{"kineto/*.json*", "kineto-multirank/*/*.json*", "kineto-synthetic/*.json*"} {
		m, _ := filepath.Glob(filepath.Join(dir, p))
		files = append(files, m...)
	}
	if len(files) == 0 {
		t.Fatal("no traces in the folder")
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			for _, red := range reduceTrace(t, f) {
				checkLedger(t, red)
				t.Log(describe(red))
			}
		})
	}
}

func TestRealRanks(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(dataDir(t), "kineto-multirank/dlrm8/*"))
	var reds []*timeline.Reduced
	for _, f := range files {
		reds = append(reds, reduceTrace(t, f)...)
	}
	job := Meet(reds, tables(t), Options{})
	if len(job.Ranks) != 8 || len(job.Missing) != 0 || len(job.GPUs) != 8 {
		t.Fatalf("%d ranks, %d GPUs, missing %v", len(job.Ranks), len(job.GPUs), job.Missing)
	}
	for i, r := range job.Ranks {
		checkLedger(t, r)
		if r.Process.Rank != i {
			t.Errorf("rank %d at %d", r.Process.Rank, i)
		}
	}
	for _, l := range Explain(job) {
		t.Log(l)
	}
}

// The shares that a prototype of the rules measured on public traces.
func TestRealShares(t *testing.T) {
	dir := dataDir(t)
	for _, c := range []struct {
		file string
		want map[timeline.Owner]float64 // percent
	}{
		{"hta_a100_nccl_meta_rank0of2.json.gz", map[timeline.Owner]float64{timeline.HostLaunch: 63.7, timeline.Compute: 17.7, timeline.HostPython: 11.1, timeline.CommUndivided: 6.6, timeline.HostCPUOp: 0.7, timeline.UnknownOwner: 0}},
		{"hta_a100_alexnet_cuda_sync.json.gz", map[timeline.Owner]float64{timeline.HostAllocator: 65.7, timeline.HostCompile: 29.4, timeline.Compute: 0.1}},
		{"kineto018_resnet50_workers0.pt.trace.json.gz", map[timeline.Owner]float64{timeline.HostDataloader: 32.3}},
		{"kineto018_resnet50_workers4.pt.trace.json.gz", map[timeline.Owner]float64{timeline.HostDataloader: 0.4}},
		{"hta_a100_rank0of16.json.gz", map[timeline.Owner]float64{timeline.UnknownOwner: 62.1}},
	} {
		g := &reduceTrace(t, filepath.Join(dir, "kineto", c.file))[0].GPUs[0]
		for o, want := range c.want {
			if got := 100 * share(g, o); got < want-0.06 || got > want+0.06 {
				t.Errorf("%s: %s %.2f %%, want %.1f", c.file, o, got, want)
			}
		}
	}
	// Of the small trace that holds a two rank job's first rank, at most 3.9 % is transfer: the rest of 6.6 % waited.
	j := Meet(reduceTrace(t, filepath.Join(dir, "kineto/hta_a100_nccl_meta_rank0of2.json.gz")), tables(t), Options{})
	g := &j.Ranks[0].GPUs[0]
	if got := 100 * share(g, timeline.CommTransfer); got < 3.85 || got > 3.95 {
		t.Errorf("transfer %.2f %%, want 3.9", got)
	}
	if fmt.Sprint(j.Missing) != "[1]" {
		t.Errorf("missing %v", j.Missing)
	}
}
