package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two hosts in two zones, and no log states either: each log lies on its own host's axis, and each rank has its own host's card.
func TestLogsOfTwoHostsInTwoZones(t *testing.T) {
	const name = "two-zones"
	rep, _ := analyzed(t, "--title", name, inputFolder(t, name))
	for dir, east := range map[string]time.Duration{"gpu-a/": 8 * time.Hour, "gpu-b/": -5 * time.Hour} {
		for file, how := range map[string]string{"query.csv.gz": "matched", "dmon.log.gz": "matched", "dmesg.txt": "assumed"} {
			c := clockOf(t, rep, dir+file)
			if c.How != how || c.OffsetNS == nil || time.Duration(*c.OffsetNS) != -east {
				t.Errorf("%+v, want it %s at %v", c, how, -east)
			}
		}
	}
	seen := map[string]bool{}
	for _, g := range rep.GPUs {
		if g.Rank == nil || g.Index == nil || g.UUID == nil || g.Host == nil || g.Match == nil || !strings.HasPrefix(*g.Match, "by number") {
			t.Fatalf("%+v", g)
		}
		if want := []string{"gpu-a", "gpu-b"}[*g.Rank/2]; *g.Host != want || *g.Index != *g.Rank%2 {
			t.Errorf("rank %d has GPU %d of %s, want GPU %d of %s", *g.Rank, *g.Index, *g.Host, *g.Rank%2, want)
		}
		seen[*g.UUID] = true
	}
	if len(rep.GPUs) != 4 || len(seen) != 4 {
		t.Errorf("%d GPUs with %d identities", len(rep.GPUs), len(seen))
	}
	logs := map[string]bool{} // whose readings each host's GPUs have
	for _, s := range rep.Series {
		i := strings.Index("gpu0gpu1gpu2gpu3", s.Subject) / 4
		if s.Subject != "" && i >= 0 && !strings.HasPrefix(s.Path, []string{"gpu-a/", "gpu-b/"}[i/2]) {
			t.Errorf("%s has readings of %s", s.Subject, s.Path)
		}
		logs[s.Path] = true
	}
	for _, path := range []string{"gpu-a/query.csv.gz", "gpu-a/dmon.log.gz", "gpu-b/query.csv.gz", "gpu-b/dmon.log.gz"} {
		if !logs[path] {
			t.Errorf("no readings of %s", path)
		}
	}
}

// Nor do the order of the folders and the zone of this machine change a byte of that.
func TestTwoZonesAnywhere(t *testing.T) {
	in := inputFolder(t, "two-zones")
	a, b := filepath.Join(in, "gpu-a"), filepath.Join(in, "gpu-b")
	var first []byte
	for _, c := range []struct {
		tz  string
		dir []string
	}{{"UTC", []string{a, b}}, {"Asia/Shanghai", []string{b, a}}, {"America/New_York", []string{a, b}}} {
		t.Setenv("TZ", c.tz)
		if l, err := time.LoadLocation(c.tz); err == nil {
			defer func(old *time.Location) { time.Local = old }(time.Local)
			time.Local = l
		}
		out := t.TempDir()
		if r := gpureport(append([]string{"analyze", "--format", "json", "-o", out, "--title", "run"}, c.dir...)...); r.code != exitOK {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		got, err := os.ReadFile(filepath.Join(out, "report.json"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if !bytes.Equal(first, got) {
			t.Errorf("TZ=%s: other bytes than with UTC", c.tz)
		}
	}
}
