package nsys

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest/timeline"
)

// hostSQL is an export of one process that drives a GPU and one that does not.
const hostSQL = `CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1,'gemm'),(2,'cudaLaunchKernel'),(3,'pthread_cond_timedwait'),(4,'/usr/bin/python3.12'),(5,'_PyEval_EvalFrameDefault'),(6,'0x7f00'),(7,'/home/ann/secret/libcuda.so.570'),(8,'[Unknown]');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500,900,0,7,5,(9<<24),1);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, correlationId INTEGER, globalTid INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,110,5,(9<<24)|9,2);
CREATE TABLE OSRT_API (start INTEGER, "end" INTEGER, globalTid INTEGER, nameId INTEGER);
INSERT INTO OSRT_API VALUES (200,300,(9<<24)|9,3);
CREATE TABLE ENUM_SAMPLING_THREAD_STATE (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_SAMPLING_THREAD_STATE VALUES (0,'Unknown',''),(3,'Running',''),(1,'Interruptible',''),(5,'Terminated','');
CREATE TABLE ENUM_SCHEDULING_THREAD_BLOCK (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_SCHEDULING_THREAD_BLOCK VALUES (0,'NonBlocked',''),(6,'Mutex','');
CREATE TABLE SCHED_EVENTS (start INTEGER, cpu INTEGER, isSchedIn INTEGER, globalTid INTEGER, threadState INTEGER, threadBlock INTEGER);
CREATE TABLE COMPOSITE_EVENTS (id INTEGER PRIMARY KEY, start INTEGER, cpu INTEGER, threadState INTEGER, globalTid INTEGER, cpuCycles INTEGER);
CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, stackDepth INTEGER);
`

// off lists the times off the CPU, thread by thread.
func off(tl *timeline.Timeline) string {
	var out strings.Builder
	s := &tl.Spans
	for i, k := range s.Kind {
		if k == timeline.KindOffCPU {
			fmt.Fprintf(&out, "%d: %d..%d %s\n", tl.Tracks[s.Track[i]].Thread, s.Start[i], s.End[i], tl.Names.Get(s.Name[i]))
		}
	}
	return out.String()
}

func TestOffCPU(t *testing.T) {
	for _, c := range []struct{ what, rows, want string }{
		{"between a switch out and the next switch in", "(200,0,0,(9<<24)|9,1,6),(250,0,1,(9<<24)|9,0,NULL)", "9: 200..250 Interruptible: Mutex\n"},
		{"rows in any order", "(250,0,1,(9<<24)|9,0,0),(400,0,0,(9<<24)|9,3,0),(200,0,0,(9<<24)|9,1,0),(450,0,1,(9<<24)|9,0,0)",
			"9: 200..250 Interruptible\n9: 400..450 Running\n"},
		{"first seen switching in: off since the first event of the file", "(150,0,1,(9<<24)|9,0,0)", "9: 100..150 off CPU\n"},
		{"last seen switching out: off to the last event of the file", "(700,0,0,(9<<24)|9,1,0)", "9: 700..900 Interruptible\n"},
		{"an ended thread is not waited for", "(700,0,0,(9<<24)|9,5,0)", ""},
		{"open ends never turn round", "(1000,0,0,(9<<24)|9,0,0),(50,0,1,(9<<24)|9,0,0)", ""},
		{"a state that is not in the table", "(200,0,0,(9<<24)|9,77,0),(250,0,1,(9<<24)|9,0,NULL)", "9: 200..250 off CPU\n"},
		{"lost switches are not filled in", "(200,0,0,(9<<24)|9,1,0),(230,0,0,(9<<24)|9,1,0),(250,0,1,(9<<24)|9,0,0),(260,0,1,(9<<24)|9,0,0)",
			"9: 230..250 Interruptible\n"},
		{"threads by themselves", "(200,0,0,(9<<24)|9,1,0),(210,0,0,(9<<24)|11,1,0),(220,0,1,(9<<24)|9,0,0),(230,0,1,(9<<24)|11,0,0)",
			"9: 200..220 Interruptible\n11: 210..230 Interruptible\n"},
		{"processes without a GPU are left out", "(200,0,0,(8<<24)|8,1,0),(220,0,1,(8<<24)|8,0,0)", ""},
		{"times that cannot be", "(-999999999999999999,0,0,(9<<24)|9,1,0),(220,0,1,(9<<24)|9,0,0)", "9: 100..220 off CPU\n"},
	} {
		tl := mustRead(t, build(t, nil, hostSQL+"INSERT INTO SCHED_EVENTS VALUES "+c.rows))
		if diff := cmp.Diff(c.want, off(tl)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
		if lost := strings.Contains(problems(tl), "nsys/lost-switches data-loss 0 x2"); lost != strings.HasPrefix(c.what, "lost") {
			t.Errorf("%s: %s", c.what, problems(tl))
		}
		if tl.Window != (timeline.Interval{Start: 100, End: 900}) {
			t.Errorf("%s: the window became %v", c.what, tl.Window)
		}
	}
}

// A file of 2020 has no states, no enumerations and no process in its kernels.
func TestOffCPUOf2020(t *testing.T) {
	tl := mustRead(t, build(t, []string{"y2020.sql"}, `CREATE TABLE IF NOT EXISTS SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL, globalTid INTEGER);
INSERT INTO SCHED_EVENTS SELECT 1500, 1, 0, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid=1; INSERT INTO SCHED_EVENTS SELECT 1700, 1, 1, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid=1`))
	if got := off(tl); got != "2142: 1500..1700 off CPU\n" {
		t.Error(got)
	}
}

// Each sample has the innermost frame whose module is known, a function without a name is its module's, and no folder comes through.
func TestCPUSamples(t *testing.T) {
	tl := mustRead(t, build(t, nil, hostSQL+`INSERT INTO COMPOSITE_EVENTS VALUES (1,300,0,3,(9<<24)|9,1),(2,200,0,0,(9<<24)|9,1),(3,400,0,3,(9<<24)|12,1),(4,450,0,3,(8<<24)|8,1),(5,460,0,1,(9<<24)|9,1),(6,470,0,3,(9<<24)|9,1);
INSERT INTO SAMPLING_CALLCHAINS VALUES (3,6,7,1,0),(3,5,4,0,1),(1,5,4,0,1),(1,8,8,1,0),(6,8,8,1,0),(2,5,4,0,0),(2,6,7,1,1)`))
	var got strings.Builder
	for i, at := range tl.Marks.At {
		if tl.Marks.Kind[i] == timeline.MarkSample {
			fmt.Fprintf(&got, "%d: %d %s\n", tl.Tracks[tl.Marks.Track[i]].Thread, at, tl.Names.Get(tl.Marks.Name[i]))
		}
	}
	want := `9: 200 _PyEval_EvalFrameDefault (python3.12)
9: 300 _PyEval_EvalFrameDefault (python3.12)
12: 400 libcuda.so.570
9: 470 
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	for i := range tl.Names.Len() {
		if s := tl.Names.Get(timeline.StringID(i)); strings.Contains(s, "/") {
			t.Errorf("the name %q has a folder in it", s)
		}
	}
}

// Device memory held by each process on each of its GPUs; what is released without having been allocated was there before.
func TestAllocations(t *testing.T) {
	const table = `CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER);
INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES `
	tl := mustRead(t, build(t, nil, hostSQL+table+`(600,(9<<24),0,100,2,1),(150,(9<<24),0,40,2,0),(150,(9<<24),0,5,2,0),(700,(9<<24),0,7,1,0),(800,(9<<24),0,-7,2,0),(850,(9<<24),3,9,2,0),(860,(9<<24),0,9,2,7)`))
	var got []string
	for _, s := range tl.Series {
		tr := tl.Tracks[s.Track]
		got = append(got, fmt.Sprintf("%s gpu%d proc %d %v %v", s.Metric.Name, tl.Devices[tr.Device].Ordinal, tr.Proc, s.At, s.Value))
	}
	if want := []string{"mem_allocated_bytes gpu0 proc 0 [150 600] [100 0]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(problems(tl), "nsys/bad-value data-loss 0 x1") {
		t.Error(problems(tl))
	}
}

// Real exports: time off the CPU of each thread between its own switches, and samples by thread, against queries of another program.
func TestRealHostSide(t *testing.T) {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: no real exports")
	}
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("no sqlite3 program to compare with")
	}
	for _, f := range []string{"t4_power_iteration.sqlite", "rtx6000_old_schema_17tables.sqlite", "rtx4060_runtime_no_kernels.sqlite"} {
		t.Run(f, func(t *testing.T) {
			path := filepath.Join(dir, "nsys-sqlite", f)
			tl := mustRead(t, path)
			// The sum over switches in that follow a switch out of the same thread; the earliest stamps, before which an open end is not counted.
			want := ask(t, path, `WITH s AS (SELECT globalTid & 0xFFFFFF AS tid, start, isSchedIn, lag(start) OVER w AS was, lag(isSchedIn) OVER w AS wasIn FROM SCHED_EVENTS
	WINDOW w AS (PARTITION BY globalTid ORDER BY start))
	SELECT tid, sum(start-was), count(*) FROM s WHERE isSchedIn=1 AND wasIn=0 GROUP BY tid ORDER BY tid`)
			epoch := int64(0)
			if number1(t, path, "SELECT count(*) FROM sqlite_master WHERE name='TARGET_INFO_SESSION_START_TIME'") > 0 {
				epoch = number1(t, path, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
			}
			isIn, lastIn := map[uint64]int64{}, map[int64]int64{}
			for _, line := range ask(t, path, `SELECT rowid, isSchedIn, globalTid & 0xFFFFFF, start FROM SCHED_EVENTS`) {
				var row uint64
				var in, tid, at int64
				if _, err := fmt.Sscanf(line, "%d|%d|%d|%d", &row, &in, &tid, &at); err != nil {
					t.Fatal(line, err)
				}
				if isIn[row] = in; in == 1 {
					lastIn[tid] = max(lastIn[tid], at)
				}
			}
			sum, count := map[int64]int64{}, map[int64]int64{}
			var tids []int64
			s := &tl.Spans
			open := int64(0)
			for i, k := range s.Kind {
				if k != timeline.KindOffCPU {
					continue
				}
				tid := tl.Tracks[s.Track[i]].Thread
				in, ok := isIn[tl.SpanRef(i).Row]
				if !ok {
					t.Fatalf("span %d names a row that is not in the file", i)
				}
				start := int64(s.Start[i])
				if in == 1 || start-epoch > lastIn[tid] {
					open++ // before the thread was first seen, or after it was last seen
					continue
				}
				if count[tid] == 0 {
					tids = append(tids, tid)
				}
				sum[tid] += int64(s.End[i]) - start
				count[tid]++
			}
			slices.Sort(tids)
			var got []string
			for _, tid := range tids {
				got = append(got, fmt.Sprintf("%d|%d|%d", tid, sum[tid], count[tid]))
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
				t.Error(diff)
			}
			t.Logf("%d threads, %d open ends", len(got), open)
			samples := map[int64]int64{}
			for i, k := range tl.Marks.Kind {
				if k == timeline.MarkSample {
					samples[tl.Tracks[tl.Marks.Track[i]].Thread]++
				}
			}
			for _, line := range ask(t, path, "SELECT globalTid & 0xFFFFFF, count(*) FROM COMPOSITE_EVENTS GROUP BY 1") {
				var tid, n int64
				fmt.Sscanf(line, "%d|%d", &tid, &n)
				if samples[tid] != n {
					t.Errorf("thread %d: %d samples, the file has %d", tid, samples[tid], n)
				}
			}
		})
	}
}
