//go:build unix

package nsys

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gpureport/ingest"
)

// benchRows is how many kernels and calls the benchmark's export has of each; GPUREPORT_NSYS_ROWS says another number.
const benchRows = 200_000

// BenchmarkRead compares reading an export into the store with a bare scan of the same columns by the same driver, and tells the
// memory of the timeline an event.
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
	var bare, read, bareCPU, readCPU time.Duration
	var bytes uint64
	var peak uint64
	for b.Loop() {
		start, cpu := time.Now(), used(b)
		rows := bareScan(b, path)
		bare, bareCPU = bare+time.Since(start), bareCPU+used(b)-cpu
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
		read, readCPU = read+time.Since(start), readCPU+used(b)-cpu
		runtime.ReadMemStats(&m1)
		peak = m1.Sys
		runtime.GC()
		runtime.ReadMemStats(&m2)
		bytes = (m2.HeapAlloc - m0.HeapAlloc) / uint64(tl.Spans.Len())
		if tl.Spans.Len() < 2*n {
			b.Fatalf("%d spans", tl.Spans.Len())
		}
	}
	b.ReportMetric(float64(2*n)*float64(b.N)/read.Seconds(), "events/s")
	b.ReportMetric(read.Seconds()/bare.Seconds(), "x-bare-scan")
	b.ReportMetric(readCPU.Seconds()/bareCPU.Seconds(), "x-bare-scan-cpu")
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
