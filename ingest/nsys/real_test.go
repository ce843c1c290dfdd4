package nsys

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
)

// ask runs a query in the sqlite3 program, which shares nothing with the reader. Rows come as lines, cells parted by |.
func ask(t *testing.T, path, sql string) []string {
	t.Helper()
	out, err := exec.Command("sqlite3", "file:"+path+"?mode=ro&immutable=1", sql).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", sql, err, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func number1(t *testing.T, path, sql string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(ask(t, path, sql)[0], 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Real exports against queries of another program: names and numbers of GPUs, kernels, calls and ranges, and when each GPU was busy.
func TestRealExports(t *testing.T) {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: no real exports")
	}
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("no sqlite3 program to compare with")
	}
	files, err := filepath.Glob(filepath.Join(dir, "nsys-sqlite", "*.sqlite"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			tl := mustRead(t, path)
			tables := ask(t, path, "SELECT name FROM sqlite_master WHERE type='table'")
			has := func(table string) bool { return slices.Contains(tables, table) }
			count := func(table, where string) int64 {
				if !has(table) {
					return 0
				}
				return number1(t, path, "SELECT count(*) FROM "+table+" WHERE "+where)
			}
			kinds := map[timeline.SpanKind]int64{}
			for i, k := range tl.Spans.Kind {
				kinds[k]++
				if name := tl.Names.Get(tl.Spans.Name[i]); name == "" || strings.Contains(name, "not recorded") {
					t.Fatalf("span %d has the name %q", i, name)
				}
			}
			for _, c := range []struct {
				what string
				got  int64
				want int64
			}{
				{"kernels", kinds[timeline.KindKernel], count(tKernel, "1")},
				{"copies", kinds[timeline.KindMemcpy], count(tMemcpy, "1")},
				{"fills", kinds[timeline.KindMemset], count(tMemset, "1")},
				{"calls", kinds[timeline.KindAPI], count(tRuntime, "1")},
				{"waits", kinds[timeline.KindSync], count(tSync, "1")},
				{"ranges", kinds[timeline.KindAnnotation] + kinds[timeline.KindOp], count(tNVTX, "eventType IN (59,60)")},
			} {
				if c.got != c.want {
					t.Errorf("%d %s, the file has %d", c.got, c.what, c.want)
				}
			}
			for _, p := range tl.Problems {
				if p.Severity > timeline.Info && p.Code != "nsys/no-kernels" && p.Code != "nsys/dropped-events" {
					t.Errorf("%s: %s", p.Code, p.Message)
				}
			}
			var names []string
			for _, d := range tl.Devices {
				names = append(names, d.Name)
			}
			if has("TARGET_INFO_GPU") {
				for _, want := range ask(t, path, "SELECT DISTINCT name FROM TARGET_INFO_GPU") {
					if !slices.Contains(names, want) {
						t.Errorf("GPUs %q, the file has %s", names, want)
					}
				}
			}
			busy(t, tl, path, has)
			uuids(t, tl, path, has)
		})
	}
}

// busy compares the union of device work of each process and device with one that the other program computes with window functions.
func busy(t *testing.T, tl *timeline.Timeline, path string, has func(string) bool) {
	t.Helper()
	var parts []string
	for _, table := range []string{tKernel, tMemcpy, tMemset, tGraph} {
		if !has(table) || number1(t, path, "SELECT count(*) FROM "+table) == 0 {
			continue
		}
		pid := "-1"
		if n := number1(t, path, "SELECT count(*) FROM pragma_table_info('"+table+"') WHERE name='globalPid'"); n > 0 {
			pid = "((globalPid >> 24) & 0xFFFFFF)"
		}
		parts = append(parts, fmt.Sprintf(`SELECT %s AS pid, deviceId AS dev, start AS a, "end" AS b FROM %s`, pid, table))
	}
	if len(parts) == 0 {
		return
	}
	sql := "WITH ops AS (" + strings.Join(parts, " UNION ALL ") + `),
	m AS (SELECT pid, dev, a, b, max(b) OVER (PARTITION BY pid, dev ORDER BY a, b DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM ops)
	SELECT pid, dev, sum(max(0, b - max(a, coalesce(before, a)))) FROM m GROUP BY pid, dev ORDER BY pid, dev`
	var want []string
	for _, line := range ask(t, path, sql) {
		want = append(want, strings.TrimPrefix(line, "-1|"))
	}
	type key struct {
		proc int
		dev  timeline.DeviceID
	}
	ivs := map[key][]timeline.Interval{}
	for i, k := range tl.Spans.Kind {
		if k.IsDeviceOp() {
			tr := tl.Tracks[tl.Spans.Track[i]]
			ivs[key{tr.Proc, tr.Device}] = append(ivs[key{tr.Proc, tr.Device}], timeline.Interval{Start: tl.Spans.Start[i], End: tl.Spans.End[i]})
		}
	}
	var got []string
	for k, list := range ivs {
		timeline.SortIntervals(list)
		line := fmt.Sprintf("%d|%d|%d", tl.Procs[k.proc].PID, tl.Devices[k.dev].Ordinal, timeline.Len(timeline.Union(list)).Nanoseconds())
		if !strings.Contains(sql, "globalPid") {
			_, line, _ = strings.Cut(line, "|")
		}
		got = append(got, line)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("busy (pid, device, ns): %q, want %q", got, want)
	}
}

// uuids compares the identity of each working device by a join of the other program.
func uuids(t *testing.T, tl *timeline.Timeline, path string, has func(string) bool) {
	t.Helper()
	if !has("TARGET_INFO_CUDA_DEVICE") || !has(tKernel) {
		return
	}
	want := ask(t, path, `SELECT DISTINCT d.pid, d.cudaId, g.uuid, g.name, g.smCount, g.totalMemory FROM TARGET_INFO_CUDA_DEVICE d JOIN TARGET_INFO_GPU g ON g.id=d.gpuId
		WHERE EXISTS (SELECT 1 FROM `+tKernel+` k WHERE k.deviceId=d.cudaId AND ((k.globalPid >> 24) & 0xFFFFFF)=d.pid) ORDER BY 1, 2`)
	var got []string
	for i, d := range tl.Devices {
		works := slices.ContainsFunc(tl.Tracks, func(tr timeline.Track) bool {
			return tr.Device == timeline.DeviceID(i) && tr.Kind == timeline.TrackStream
		})
		if line := fmt.Sprintf("%d|%d|%s|%s|%d|%d", tl.Procs[max(d.Proc, 0)].PID, d.Ordinal, strings.TrimPrefix(d.UUID, "GPU-"), d.Name, d.SMs, d.Memory); works && slices.Contains(want, line) {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("devices %q, want %q of %+v", got, want, tl.Devices)
	}
}
