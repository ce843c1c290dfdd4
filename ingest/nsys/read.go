package nsys

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// The tables of events.
const (
	tKernel     = "CUPTI_ACTIVITY_KIND_KERNEL"
	tRuntime    = "CUPTI_ACTIVITY_KIND_RUNTIME"
	tMemcpy     = "CUPTI_ACTIVITY_KIND_MEMCPY"
	tMemset     = "CUPTI_ACTIVITY_KIND_MEMSET"
	tSync       = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
	tGraph      = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
	tOverhead   = "CUPTI_ACTIVITY_KIND_OVERHEAD"
	tProfiler   = "PROFILER_OVERHEAD"
	tNVTX       = "NVTX_EVENTS"
	tOSRT       = "OSRT_API"
	tCUDNN      = "CUDNN_EVENTS"
	tCUBLAS     = "CUBLAS_EVENTS"
	tSched      = "SCHED_EVENTS"
	tSamples    = "COMPOSITE_EVENTS"
	tMemory     = "CUDA_GPU_MEMORY_USAGE_EVENTS"
	tNIC        = "NET_NIC_METRIC"
	tMetrics    = "GPU_METRICS"
	tDiagnostic = "DIAGNOSTIC_EVENT"
	tStrings    = "StringIds"
)

const (
	year = 365 * 24 * 3600 * int64(1e9)
	day  = 24 * 3600 * int64(1e9)
)

// anyProc stands for the process of rows that name none.
const anyProc = -1

// processOf gives the part of a global thread number that names the process.
func processOf(globalTid int64) int64 { return globalTid &^ 0xFFFFFF }

func pidOf(globalPid int64) int64 { return globalPid >> 24 & 0xFFFFFF }

// rawTrack is a thread or a stream as the file names it. Spans carry its number until finish.
type rawTrack struct {
	stream bool
	proc   int64 // globalPid, anyProc
	device int32
	id     int64 // thread or stream
}

type reader struct {
	ctx context.Context
	in  *ingest.Input
	b   *timeline.Builder
	db  *db
	m   meta

	strings map[int64]string
	apis    idNames
	names   idNames

	raw    []rawTrack
	rawIDs map[rawTrack]timeline.TrackID
	stats  [][timeline.NSpanKinds]int64 // of raw
	last   [2]struct {
		key rawTrack
		id  timeline.TrackID
	}
	links map[int64]uint32 // correlations that need more than 32 bits
	minAt int64            // earliest start of a span, session time
	maxAt int64            // latest end of a span, session time
	open  []openRange
	marks []mark
	rows  int64

	copies  map[[3]int64]copyKind
	comms   comms
	metrics metricSet
	graphs  map[int64]timeline.StringID

	cpuSamples  []cpuSample
	allocations map[memoryKey][]allocation
}

// openRange is a span without an end.
type openRange struct {
	span  timeline.Span
	shape timeline.StringID
}

type mark struct {
	track timeline.TrackID
	at    timeline.Time
	name  timeline.StringID
	row   uint32
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) (err error) {
	path, done, err := in.File(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	d, err := openDB(ctx, in, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if d.tables[tStrings] == nil && d.tables["META_DATA_EXPORT"] == nil && d.tables["TARGET_INFO_GPU"] == nil && d.tables[tKernel] == nil && d.tables[tNVTX] == nil {
		return errors.New("an SQLite database that is not from Nsight Systems: it has none of its tables")
	}
	r := &reader{ctx: ctx, in: in, b: b, db: d, strings: map[int64]string{}, rawIDs: map[rawTrack]timeline.TrackID{}, copies: map[[3]int64]copyKind{}, graphs: map[int64]timeline.StringID{}, minAt: math.MaxInt64}
	r.last[0].id, r.last[1].id = -1, -1
	for _, step := range []func() error{
		r.readMeta, r.readStrings, r.runtime, r.kernels, r.graphTraces, r.memcpys, r.memsets, r.syncs, r.overheads, r.osrt, r.libraries, r.nvtx, r.memory, r.sched, r.samples, r.gpuMetrics, r.diagnostics,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	r.finish()
	return nil
}

// readStrings keeps the texts of the file by number. What refers to them is read later.
func (r *reader) readStrings() error {
	var top int64
	err := r.db.scan(tStrings, []string{"id", "value"}, func(w *row) {
		id, ok := w.int(0)
		if !ok {
			return
		}
		b := w.raw(1)
		if i := strings.IndexByte(string(b), 0); i >= 0 {
			r.in.Report("nsys/damaged-text", timeline.DataLoss, w.id, "StringIds rowid %d: a text with NUL bytes in it, as a lost page leaves them: what follows is cut off; copy the file again", w.id)
			b = b[:i]
		}
		r.strings[id] = string(b)
		top = max(top, id)
	})
	if r.db.tables[tStrings] == nil {
		r.in.Report("nsys/missing-table", timeline.DataLoss, 0, "no table StringIds: kernels and calls have no names; export again with: nsys export --type sqlite -o run.sqlite run.nsys-rep")
	}
	r.apis.init(top)
	r.names.init(top)
	return err
}

// idNames maps the file's text numbers to ours.
type idNames struct {
	dense  []timeline.StringID // 0: not seen
	sparse map[int64]timeline.StringID
}

func (n *idNames) init(top int64) {
	if top < 1<<22 {
		n.dense = make([]timeline.StringID, top+1)
	}
	n.sparse = map[int64]timeline.StringID{}
}

func (n *idNames) get(r *reader, id int64, form func(string) string) timeline.StringID {
	if uint64(id) < uint64(len(n.dense)) {
		if s := n.dense[id]; s != 0 {
			return s
		}
	} else if s, ok := n.sparse[id]; ok {
		return s
	}
	text, ok := r.strings[id]
	if !ok {
		text = "(name not recorded)"
	}
	if form != nil {
		text = form(text)
	}
	s := r.b.TL.Names.IDOf(shorten(text))
	if uint64(id) < uint64(len(n.dense)) {
		n.dense[id] = s
	} else if len(n.sparse) < 1<<20 {
		n.sparse[id] = s
	}
	return s
}

// name gives our number of a text of the file.
func (r *reader) name(id int64) timeline.StringID { return r.names.get(r, id, nil) }

const maxName = 8192

func shorten(s string) string {
	if len(s) > maxName {
		s = s[:maxName]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

var version = regexp.MustCompile(`(_ptsz|_ptds)?_v\d+(_ptsz|_ptds)?$`)

// apiName takes the version off a call: cudaLaunchKernel_v7000.
func apiName(s string) string { return version.ReplaceAllString(s, "") }

// track gives the number of a raw track, made when new.
func (r *reader) track(k rawTrack) timeline.TrackID {
	side := 0
	if k.stream {
		side = 1
	}
	if l := &r.last[side]; l.id >= 0 && l.key == k {
		return l.id
	}
	id, ok := r.rawIDs[k]
	if !ok {
		id = timeline.TrackID(len(r.raw))
		r.rawIDs[k] = id
		r.raw = append(r.raw, k)
		r.stats = append(r.stats, [timeline.NSpanKinds]int64{})
	}
	r.last[side].key, r.last[side].id = k, id
	return id
}

// thread gives the track of a thread by column i; 0 and NULL are the thread of nobody.
func (r *reader) thread(w *row, i int) timeline.TrackID {
	g := w.num(i)
	if g <= 0 {
		return r.track(rawTrack{proc: anyProc, device: -1, id: -1})
	}
	return r.track(rawTrack{proc: processOf(g), device: -1, id: g & 0xFFFFFF})
}

// times reads start and end, which must lie in the capture. An end that is not there is open.
func (r *reader) times(table string, w *row) (start, end int64, open, ok bool) {
	start, ok = w.int(0)
	if !ok || start < r.m.lo || start > r.m.hi {
		r.in.Report("nsys/bad-time", timeline.DataLoss, w.id, "%s rowid %d: start is not a time of this capture: the row is left out", table, w.id)
		return 0, 0, false, false
	}
	end, ok = w.int(1)
	switch {
	case !ok:
		return start, start, true, true
	case end < r.m.lo || end > r.m.hi:
		r.in.Report("nsys/bad-time", timeline.DataLoss, w.id, "%s rowid %d: end is not a time of this capture: the row is left out", table, w.id)
		return 0, 0, false, false
	case end < start:
		r.in.Report("nsys/negative-duration", timeline.DataLoss, w.id, "%s rowid %d: ends before it starts: the row is left out", table, w.id)
		return 0, 0, false, false
	}
	return start, end, false, true
}

func (r *reader) add(s timeline.Span) int32 {
	r.stats[s.Track][s.Kind]++
	r.rows++
	r.minAt = min(r.minAt, int64(s.Start))
	if e := int64(s.End); e > r.maxAt {
		r.maxAt = e
	}
	s.Start += timeline.Time(r.m.epoch)
	s.End += timeline.Time(r.m.epoch)
	return r.b.AddSpan(s)
}

// link gives the number that joins a call and what it launched.
func (r *reader) link(correlation int64) uint32 {
	if uint64(correlation) <= math.MaxUint32-1<<20 {
		return uint32(correlation)
	}
	if correlation < 0 {
		return 0
	}
	id, ok := r.links[correlation]
	if !ok {
		if len(r.links) >= 1<<20-1 {
			return 0
		}
		if r.links == nil {
			r.links = map[int64]uint32{}
		}
		id = math.MaxUint32 - uint32(len(r.links))
		r.links[correlation] = id
	}
	return id
}

// runtime reads the calls of both runtime and driver.
func (r *reader) runtime() error { return r.hostCalls(tRuntime, timeline.KindAPI, &r.apis, apiName) }

// hostCalls reads a table of calls on threads.
func (r *reader) hostCalls(table string, kind timeline.SpanKind, names *idNames, form func(string) string) error {
	return r.db.scanNumbers(table, []string{"start", "end", "globalTid", "nameId", "correlationId"}, func(w *row) {
		start, end, open, ok := r.times(table, w)
		if !ok {
			return
		}
		s := timeline.Span{Track: r.thread(w, 2), Kind: kind, Start: timeline.Time(start), End: timeline.Time(end), Name: names.get(r, w.num(3), form), Row: w.n}
		if kind == timeline.KindAPI {
			s.Link = r.link(w.num(4))
		}
		if open {
			r.open = append(r.open, openRange{span: s})
			return
		}
		r.add(s)
	})
}

func (r *reader) overheads() error {
	for _, t := range []string{tOverhead, tProfiler} {
		if err := r.hostCalls(t, timeline.KindOverhead, &r.names, nil); err != nil {
			return err
		}
	}
	return nil
}

// osrt reads blocking calls of the system.
func (r *reader) osrt() error { return r.hostCalls(tOSRT, timeline.KindOSWait, &r.names, nil) }

func (r *reader) libraries() error {
	for _, t := range []string{tCUBLAS, tCUDNN} {
		if err := r.hostCalls(t, timeline.KindAnnotation, &r.apis, apiName); err != nil {
			return err
		}
	}
	return nil
}

// finishOpen ends what was still open at the end of the capture.
func (r *reader) finishOpen() {
	end := timeline.Time(max(r.m.duration, r.maxAt))
	for _, o := range r.open {
		o.span.End = max(end, o.span.Start)
		i := r.add(o.span)
		if o.shape != 0 {
			r.b.AddShape(timeline.Shape{Span: i, Dims: o.shape})
		}
	}
	if n := len(r.open); n > 0 {
		r.in.ReportN(int64(n), "nsys/open-range", timeline.Info, 0, "ranges and calls without an end, still open when the recording stopped: taken to end there, %s", span(int64(end)))
	}
}

func span(ns int64) string { return fmt.Sprintf("%.3f s after the session's start", float64(ns)/1e9) }
