package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gpureport/ingest/timeline"
	"gpureport/ingest/timeline/timelinetest"
)

// randomTrace draws a small trace: streams with overlapping ops of all layers, launches before, after or without their ops, nested and
// ragged host spans on three threads, marks now and then. Times are whole us from 0.
func randomTrace(r *rapid.T, rank, world int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "proc p rank=%d world=%d host=a\n", rank, world)
	threads := []string{"main", "autograd", "other"}
	kinds := []string{"kernel sgemm", "kernel vectorized_elementwise_kernel", "kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL", "h2d", "d2h", "d2d", "memset"}
	calls := []string{"cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch", "cudaMemcpy"}
	n := rapid.IntRange(1, 25).Draw(r, "ops")
	for i := range n {
		gpu := rapid.IntRange(0, 1).Draw(r, "gpu") * rapid.IntRange(0, 1).Draw(r, "second")
		at := rapid.IntRange(0, 1500).Draw(r, "at")
		dur := rapid.IntRange(0, 120).Draw(r, "dur")
		kind := rapid.SampledFrom(kinds).Draw(r, "kind")
		word, name, _ := strings.Cut(kind, " ")
		link := i + 1
		if rapid.IntRange(0, 9).Draw(r, "shared") == 0 {
			link = max(1, i)
		}
		extra := ""
		if word == "h2d" || word == "d2h" {
			extra = " mem=" + rapid.SampledFrom([]string{"pageable", "pinned"}).Draw(r, "mem")
		}
		if strings.HasPrefix(name, "nccl") {
			extra = fmt.Sprintf(" coll=allreduce n=%d dtype=Float group=0 size=%d", rapid.IntRange(1, 3).Draw(r, "n"), world)
		}
		fmt.Fprintf(&b, "p:gpu%d/s%d %s %dus..%dus %s link=%d%s\n", gpu, rapid.IntRange(7, 9).Draw(r, "stream"), word, at, at+dur, name, link, extra)
		if rapid.IntRange(0, 9).Draw(r, "launched") > 0 {
			l := at - rapid.IntRange(-20, 200).Draw(r, "lead")
			fmt.Fprintf(&b, "p:%s api %dus..%dus %s link=%d\n", rapid.SampledFrom(threads).Draw(r, "thread"), l, l+rapid.IntRange(0, 60).Draw(r, "call"), rapid.SampledFrom(calls).Draw(r, "name"), link)
		}
	}
	spans := []string{"op aten::add", "op aten::item", "op aten::cudnn_convolution", "anno validation", "anno save_checkpoint", "anno enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
		"anno Optimizer.step#Adam.step", "api cudaStreamSynchronize", "api cudaMalloc", "api cuModuleLoadData", "overhead Buffer Flush", "python queue.py(3): get"}
	for range rapid.IntRange(0, 20).Draw(r, "spans") {
		at := rapid.IntRange(-50, 1500).Draw(r, "at")
		kind, name, _ := strings.Cut(rapid.SampledFrom(spans).Draw(r, "span"), " ")
		fmt.Fprintf(&b, "p:%s %s %dus..%dus %s\n", rapid.SampledFrom(threads).Draw(r, "thread"), kind, at, at+rapid.IntRange(0, 400).Draw(r, "dur"), name)
	}
	if rapid.Bool().Draw(r, "marks") {
		at := rapid.IntRange(-50, 200).Draw(r, "first")
		for k := range rapid.IntRange(1, 5).Draw(r, "steps") {
			d := rapid.IntRange(1, 500).Draw(r, "step")
			fmt.Fprintf(&b, "p:main anno %dus..%dus ProfilerStep#%d\n", at, at+d, k+3)
			at += d
		}
	}
	return b.String()
}

func shift(tl *timeline.Timeline, by timeline.Time) *timeline.Timeline {
	for i := range tl.Spans.Start {
		tl.Spans.Start[i] += by
		tl.Spans.End[i] += by
	}
	return tl
}

func TestPropertyLedger(t *testing.T) {
	tab := tables(t)
	rapid.Check(t, func(r *rapid.T) {
		text := randomTrace(r, 0, 4)
		tl := timelinetest.Parse(text)
		reds, err := Reduce(tl, tab, Options{})
		if err != nil {
			r.Fatal(err)
		}
		for _, red := range reds {
			checkRapid(r, red)
			for i := range red.GPUs {
				naive(r, tl, &red.GPUs[i])
			}
		}
		// Shifting time shifts the ledger and changes nothing else.
		const by = 1_700_000_000_000_000_123
		moved, err := Reduce(shift(timelinetest.Parse(text), by), tab, Options{})
		if err != nil {
			r.Fatal(err)
		}
		for k, red := range reds {
			for i := range red.GPUs {
				a, b := &red.GPUs[i], &moved[k].GPUs[i]
				if a.Owners != b.Owners || a.Busy != b.Busy || a.Side != b.Side || a.Window.Start+by != b.Window.Start || !cmp.Equal(a.Kernels, b.Kernels) || !cmp.Equal(a.Copies, b.Copies) || a.Segments.Len() != b.Segments.Len() {
					r.Fatalf("shifted: %v, was %v", b.Owners, a.Owners)
				}
			}
			if !cmp.Equal(red.Rank, moved[k].Rank) || !cmp.Equal(red.HostBusy, moved[k].HostBusy) {
				r.Fatalf("shifted tables: %s", cmp.Diff(red.Rank, moved[k].Rank))
			}
		}
	})
}

// checkRapid runs checkLedger's promises under rapid.
func checkRapid(r *rapid.T, red *timeline.Reduced) {
	rec := &recorder{TB: nil}
	checkLedger(rec, red)
	if len(rec.errs) > 0 {
		r.Fatal(strings.Join(rec.errs, "\n"))
	}
}

// recorder is a testing.TB that keeps errors, so that a property can shrink its case.
type recorder struct {
	testing.TB
	errs []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(f string, a ...any) {
	r.errs = append(r.errs, fmt.Sprintf(f, a...))
}
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...) }

// naive recomputes what layers own, microsecond by microsecond, from the spans alone.
func naive(r *rapid.T, tl *timeline.Timeline, g *timeline.GPULedger) {
	sp := &tl.Spans
	copies := map[int32]timeline.CopyKind{}
	for _, c := range sp.Copies {
		copies[c.Span] = c.Kind
	}
	var busy, compute, comm, copied, hidden int64
	for at := g.Window.Start; at < g.Window.End; at += 1000 {
		var c, n, h bool
		for i := range sp.Start {
			tr := &tl.Tracks[sp.Track[i]]
			if !sp.Kind[i].IsDeviceOp() || tl.Devices[tr.Device].Ordinal != g.Device.Ordinal || sp.Start[i] > at || sp.End[i] <= at {
				continue
			}
			switch k := copies[int32(i)]; {
			case strings.HasPrefix(tl.Names.Get(sp.Name[i]), "nccl"):
				n = true
			case k == timeline.DirH2D || k == timeline.DirD2H:
				h = true
			default:
				c = true
			}
		}
		switch {
		case c:
			compute += 1000
			if n {
				hidden += 1000
			}
		case n:
			comm += 1000
		case h:
			copied += 1000
		}
		if c || n || h {
			busy += 1000
		}
	}
	if g.Busy != busy || g.Owners[timeline.Compute] != compute || g.Owners[timeline.CommUndivided] != comm || g.Side.HiddenComm != hidden {
		r.Fatalf("busy %d compute %d comm %d hidden %d, naively %d %d %d %d", g.Busy, g.Owners[timeline.Compute], g.Owners[timeline.CommUndivided], g.Side.HiddenComm, busy, compute, comm, hidden)
	}
	idle := int64(g.Window.Dur()) - busy // what is owned while nothing runs
	rest := g.Owners.Sum() - compute - comm - copied
	if rest != idle {
		r.Fatalf("gaps own %d, idle is %d", rest, idle)
	}
	for _, v := range g.Bins.Busy {
		if v < 0 || v > 1.000001 {
			r.Fatalf("bin %v", v)
		}
	}
}

func TestPropertyMeet(t *testing.T) {
	tab := tables(t)
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(r, "ranks")
		mk := func(seed []string) []*timeline.Reduced {
			var reds []*timeline.Reduced
			for i, text := range seed {
				tl := timelinetest.Parse(text)
				tl.Sources[0].Path = fmt.Sprintf("rank%d.json", i)
				got, err := Reduce(tl, tab, Options{})
				if err != nil {
					r.Fatal(err)
				}
				reds = append(reds, got...)
			}
			return reds
		}
		var seed []string
		for i := range n {
			seed = append(seed, randomTrace(r, i, n))
		}
		reds := mk(seed)
		before := map[string]int64{}
		for _, red := range reds {
			for gi := range red.GPUs {
				before[fmt.Sprint(red.Path, gi)] = red.GPUs[gi].Owners[timeline.CommUndivided]
			}
		}
		j := Meet(reds, tab, Options{})
		var waited, told int64
		for _, red := range j.Ranks {
			checkRapid(r, red)
			for gi := range red.GPUs {
				o := &red.GPUs[gi].Owners
				if got := o[timeline.CommUndivided] + o[timeline.CommPeerWait] + o[timeline.CommTransfer]; got != before[fmt.Sprint(red.Path, gi)] {
					r.Fatalf("%s: communication was %d, is %d", red.Path, before[fmt.Sprint(red.Path, gi)], got)
				}
				waited += o[timeline.CommPeerWait]
			}
			for i := range red.Collectives {
				c := &red.Collectives[i]
				if c.Split != timeline.NoConfidence && (c.PeerWaitNS+c.TransferNS != int64(c.End-c.Start) || c.ExposedWaitNS+c.ExposedTransferNS != c.ExposedNS || c.PeerWaitNS < 0 || c.TransferNS < 0) {
					r.Fatalf("%+v", c)
				}
			}
		}
		for _, w := range j.Waits {
			told += w.DurNS
		}
		if told != waited {
			r.Fatalf("waits tell of %d, ledgers wait %d", told, waited)
		}
		// The order of the arguments shows nowhere, and meeting again changes nothing.
		again := mk(seed)
		for i, k := 0, len(again)-1; i < k; i, k = i+1, k-1 {
			again[i], again[k] = again[k], again[i]
		}
		k := Meet(again, tab, Options{})
		if d := cmp.Diff(j, k); d != "" {
			r.Fatalf("order shows: %s", d)
		}
		if d := cmp.Diff(j.Waits, Meet(again, tab, Options{}).Waits); d != "" {
			r.Fatalf("meeting again: %s", d)
		}
	})
}

// A long trace is read in time linear in its spans: a large multiple of the work must not be a larger multiple of the time. This is a
// benchmark, as timings decide no test.
func BenchmarkReduce(b *testing.B) {
	tab := tables(b)
	tl := bigTrace(400_000)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		reds, err := Reduce(tl, tab, Options{})
		if err != nil || len(reds) != 1 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(tl.Spans.Len()), "ns/span")
}

// bigTrace has n kernels on two streams, each with a call inside an operator inside another one, in steps of 2000.
func bigTrace(n int) *timeline.Timeline {
	var b timeline.Builder
	b.TL.Sources = []timeline.Source{{Path: "big.json"}}
	b.AddClock(0, timeline.Clock{Name: "big"})
	p := b.AddProc(timeline.Process{PID: 1, Rank: 0})
	d := b.AddDevice(timeline.Device{Index: 0, Ordinal: 0, Proc: p, SMs: 108})
	main := b.Track(timeline.Track{Kind: timeline.TrackHost, Proc: p, Device: -1, Thread: 1})
	var streams [2]timeline.TrackID
	for i := range streams {
		streams[i] = b.Track(timeline.Track{Kind: timeline.TrackStream, Proc: p, Device: d, Thread: int64(7 + i)})
	}
	names := make([]timeline.StringID, 40)
	for i := range names {
		names[i] = b.TL.Names.IDOf(fmt.Sprintf("void at::native::vectorized_elementwise_kernel<%d, at::native::AddFunctor<float>>", i))
	}
	op, inner, call := b.TL.Names.IDOf("aten::linear"), b.TL.Names.IDOf("aten::addmm"), b.TL.Names.IDOf("cudaLaunchKernel")
	row := uint32(0)
	add := func(s timeline.Span) { row++; s.Row = row; b.AddSpan(s) }
	at := timeline.Time(0)
	for i := range n {
		if i%2000 == 0 {
			add(timeline.Span{Track: main, Kind: timeline.KindAnnotation, Start: at, End: at + 2000*12_000, Name: b.TL.Names.IDOf(fmt.Sprintf("ProfilerStep#%d", i/2000))})
		}
		link := uint32(i + 1)
		add(timeline.Span{Track: main, Kind: timeline.KindOp, Start: at, End: at + 11_000, Name: op})
		add(timeline.Span{Track: main, Kind: timeline.KindOp, Start: at + 1_000, End: at + 10_000, Name: inner})
		add(timeline.Span{Track: main, Kind: timeline.KindAPI, Start: at + 4_000, End: at + 8_000, Name: call, Link: link})
		add(timeline.Span{Track: streams[i%2], Kind: timeline.KindKernel, Start: at + 10_000, End: at + 16_000 + timeline.Time(i%7)*1000, Name: names[i%len(names)], Link: link})
		at += 12_000
	}
	return b.Finish()
}
