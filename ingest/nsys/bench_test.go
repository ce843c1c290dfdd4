//go:build unix

package nsys

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gpureport/ingest"
)

// Figures of 2 busy cores, Go 1.26.8, December 2026: the ratios are what counts.
//
//	BenchmarkRead of 1 million kernels and as many calls: 1.0 to 1.4 times the time of a bare scan, 1.0 to 1.5 times its processor time
//	                 5 million: 0.9 to 1.2 times, 1.1 to 1.2 times; 37 bytes an event, whatever the size
//
// The program on such exports, on those of the simulator, and on those of the simulator with its ranges, all outputs, by /usr/bin/time -v,
// page cache warm; peaks in GB:
//
//	1 million kernels and calls    3 s   0.25   0.22   0.26 (3.3 million events)
//	2.5 million                    7 s   0.57   0.50   0.61 (8.3 million events)
//	5 million                     12 s   1.10   0.96   1.19 (16.7 million events): 102 to 110, 96 and 71 bytes an event

// benchRows is how many kernels and calls the benchmark's export has of each; GPUREPORT_NSYS_ROWS says another number, and
// GPUREPORT_NSYS_EXPORT a file that the export stays in.
const benchRows = 200_000

// BenchmarkRead compares reading an export into the store with a bare scan of the same columns by the same driver, one after the other in
// every round, and tells the memory of the timeline an event. Ratios are medians of the rounds.
func BenchmarkRead(b *testing.B) {
	n := benchRows
	if s := os.Getenv("GPUREPORT_NSYS_ROWS"); s != "" {
		v, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		n = v
	}
	path := build(b, []string{"modern.sql"}, "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY")
	fill(b, path, n, false)
	if keep := os.Getenv("GPUREPORT_NSYS_EXPORT"); keep != "" {
		if err := os.Rename(path, keep); err != nil {
			b.Fatal(err)
		}
		path = keep
	}
	var reads []time.Duration
	var times, cpus []float64
	var bytes, peak uint64
	for b.Loop() {
		start, cpu := time.Now(), used(b)
		rows := bareScan(b, path)
		bare, bareCPU := time.Since(start), used(b)-cpu
		if rows < int64(2*n) {
			b.Fatalf("%d rows", rows)
		}
		var m0, m1, m2 runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m0)
		start, cpu = time.Now(), used(b)
		in := ingest.NewFileInput(filepath.Base(path), path, nil)
		bld := ingest.NewBuilder(in, Format.Name)
		if err := Format.Read(context.Background(), in, bld); err != nil {
			b.Fatal(err)
		}
		tl := bld.Finish()
		read, readCPU := time.Since(start), used(b)-cpu
		reads = append(reads, read)
		times, cpus = append(times, read.Seconds()/bare.Seconds()), append(cpus, readCPU.Seconds()/bareCPU.Seconds())
		runtime.ReadMemStats(&m1)
		peak = m1.Sys
		runtime.GC()
		runtime.ReadMemStats(&m2)
		bytes = (m2.HeapAlloc - m0.HeapAlloc) / uint64(tl.Spans.Len())
		if tl.Spans.Len() < 2*n {
			b.Fatalf("%d spans", tl.Spans.Len())
		}
	}
	slices.Sort(reads)
	slices.Sort(times)
	slices.Sort(cpus)
	half := len(reads) / 2
	b.ReportMetric(float64(2*n)/reads[half].Seconds(), "events/s")
	b.ReportMetric(times[half], "x-bare-scan")
	b.ReportMetric(cpus[half], "x-bare-scan-cpu")
	b.ReportMetric(float64(bytes), "bytes/event")
	b.ReportMetric(float64(peak)/(1<<20), "MiB-of-the-system")
}

// used is the processor time of the program so far: what a busy machine does not change.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func bareScan(b *testing.B, path string) (rows int64) {
	b.Helper()
	conn, err := sqlite3.OpenFlags("file:"+path+"?mode=ro&immutable=1", sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for _, q := range []struct {
		sql  string
		text int // columns of text at the end
	}{
		{`SELECT rowid, start, "end", globalTid, nameId, correlationId FROM ` + tRuntime, 0},
		{`SELECT rowid, start, "end", deviceId, streamId, correlationId, globalPid, demangledName, gridX, gridY, gridZ, blockX, blockY, blockZ, graphNodeId FROM ` + tKernel, 0},
		{`SELECT rowid, start, "end", eventType, textId, globalTid, jsonText, jsonTextId, text FROM ` + tNVTX, 1},
	} {
		s, _, err := conn.Prepare(q.sql)
		if err != nil {
			b.Fatal(err)
		}
		n := s.ColumnCount()
		var sum int64
		for s.Step() {
			rows++
			for i := range n - q.text {
				sum += s.ColumnInt64(i)
			}
			for i := n - q.text; i < n; i++ {
				sum += int64(len(s.ColumnRawText(i)))
			}
		}
		if err := s.Close(); err != nil || sum == 0 {
			b.Fatal(err, sum)
		}
	}
	return rows
}
