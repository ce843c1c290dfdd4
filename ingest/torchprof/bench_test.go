//go:build unix

package torchprof

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"gpureport/ingest"

	"github.com/go-json-experiment/json/jsontext"
)

// Figures, one run on 2 cores, Go 1.26.8, December 2026 (this machine is noisy: compare the ratios).
//
//	BenchmarkRead       1196 MB a CPU second, one worker
//	BenchmarkRead2      2070 MB a second, 1100 MB a CPU second, two workers
//	BenchmarkReadToken   590 MB a CPU second, a bare loop over the tokens: the reader is 2.0 times as fast
//
// The program on a generated trace of 1.08 GB (3.6 million events, 2.3 million of them stored), of three runs each by /usr/bin/time -v, page
// cache warm: reading alone with its checksum (inspect) 1.9 s wall, 0.29 GB peak; analyze with all outputs 2.6 s wall, 1.4 times the
// reading, 0.41 GB peak, 0.38 of the file. The same as .gz (83 MB): 2.4 s and 3.2 s, 0.41 GB. The page has 1.2 MB.
// Eight ranks of 20 MB each: 0.5 s and 0.7 s, 0.09 GB.

var bigTrace []byte

func big(tb testing.TB) []byte {
	if bigTrace == nil {
		bigTrace = simulated(tb, 64<<20)
	}
	return bigTrace
}

// cpu gives the processor time of the whole process, which a busy machine disturbs less than the wall clock.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perCPU reports bytes per second of processor time since start.
func perCPU(b *testing.B, size int, start time.Duration) {
	if d := cpu() - start; d > 0 {
		b.ReportMetric(float64(size)*float64(b.N)/1e6/d.Seconds(), "MB/cpu-s")
	}
}

func benchRead(b *testing.B, jobs int) {
	data := big(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	defer func() { perCPU(b, len(data), start) }()
	for b.Loop() {
		in := ingest.NewInput("rank0.json", opener(data), &ingest.Options{Jobs: jobs})
		bl := ingest.NewBuilder(in, Format.Name)
		if err := Format.Read(context.Background(), in, bl); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead is the whole reader on one worker, without the final sort; compare with BenchmarkReadToken.
func BenchmarkRead(b *testing.B) {
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	benchRead(b, 1)
}

func BenchmarkRead2(b *testing.B) { benchRead(b, 2) }

// BenchmarkReadToken is a bare loop over the tokens of the same bytes, through the buffer that suits it best.
func BenchmarkReadToken(b *testing.B) {
	data := big(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	defer func() { perCPU(b, len(data), start) }()
	for b.Loop() {
		d := jsontext.NewDecoder(bufio.NewReaderSize(bytes.NewReader(data), 1<<20), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		for {
			if _, err := d.ReadToken(); err != nil {
				if err == io.EOF {
					break
				}
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkScan is the scanner alone, in blocks.
func BenchmarkScan(b *testing.B) {
	data := big(b)
	data = data[bytes.Index(data, eventsKey)+len(eventsKey)+3:]
	b.SetBytes(int64(len(data)))
	b.ResetTimer()
	start := cpu()
	defer func() { perCPU(b, len(data), start) }()
	for b.Loop() {
		s, res := newScanner(), result{}
		for d := data; len(d) > 0 && !res.ended; d = d[res.consumed:] {
			s.scan(d[:min(len(d), blockSize)], false, &res)
		}
	}
}

// BenchmarkFinish is the sort into columns.
func BenchmarkFinish(b *testing.B) {
	data := big(b)
	b.SetBytes(int64(len(data)))
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		in := ingest.NewInput("rank0.json", opener(data), &ingest.Options{Jobs: 1})
		bl := ingest.NewBuilder(in, Format.Name)
		if err := Format.Read(context.Background(), in, bl); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		bl.Finish()
	}
}
