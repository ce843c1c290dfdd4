package nsys

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
)

const (
	tChains    = "SAMPLING_CALLCHAINS"
	maxSamples = 1 << 20 // more are thinned out: every second one is kept, then every fourth, ...
	maxFrames  = 1 << 16 // different names of frames
)

// cpuSample is one row of COMPOSITE_EVENTS.
type cpuSample struct {
	id    int64
	at    int64 // session time
	track timeline.TrackID
	row   uint32
	depth int32 // of the frame in name; none yet: math.MaxInt32
	name  timeline.StringID
}

type frameKey struct{ symbol, module int64 }

// samples reads CPU samples of the threads that drive a GPU, each with the innermost frame whose module is known. Frames are names of
// functions and base names of modules: "PyObject_Call (python3.12)", "libcuda.so.570.124.06" where the function has no name.
func (r *reader) samples() error {
	if r.db.tables[tSamples] == nil {
		return nil
	}
	want := r.drivers()
	var list []cpuSample
	stride, n, other := int64(1), int64(0), int64(0)
	err := r.db.scanNumbers(tSamples, []string{"start", "id", "globalTid", "threadState"}, func(w *row) {
		at, ok := w.int(0)
		g := w.num(2)
		if !ok || at < r.m.lo || at > r.m.hi || g <= 0 {
			return
		}
		if !want[processOf(g)] {
			other++
			return
		}
		if s := r.m.states[w.num(3)]; w.num(3) != 0 && s != "Running" && s != "" {
			return // taken of a thread that did not run
		}
		r.rows++
		if n++; (n-1)%stride != 0 {
			return
		}
		if len(list) == maxSamples {
			for i := range maxSamples / 2 {
				list[i] = list[2*i]
			}
			list = list[:maxSamples/2]
			stride *= 2
			if (n-1)%stride != 0 {
				return
			}
		}
		list = append(list, cpuSample{id: w.num(1), at: at, track: r.track(rawTrack{proc: processOf(g), device: -1, id: g & 0xFFFFFF}), row: w.n, depth: math.MaxInt32})
	})
	if err != nil {
		return err
	}
	r.in.ReportN(other, "nsys/other-processes", timeline.Info, 0, "context switches and CPU samples of processes that drive no GPU: not kept")
	if stride > 1 {
		r.in.Report("nsys/thinned-samples", timeline.Info, 0, "%s: %d CPU samples: one in %d is kept", tSamples, n, stride)
	}
	if err := r.frames(list); err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b cpuSample) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.row, b.row)) })
	r.cpuSamples = list
	return nil
}

// frames names the samples by their call chains.
func (r *reader) frames(list []cpuSample) error {
	byID := func(a cpuSample, id int64) int { return cmp.Compare(a.id, id) }
	if !slices.IsSortedFunc(list, func(a, b cpuSample) int { return cmp.Compare(a.id, b.id) }) {
		slices.SortStableFunc(list, func(a, b cpuSample) int { return cmp.Compare(a.id, b.id) })
	}
	names := map[frameKey]timeline.StringID{}
	at := 0
	return r.db.scanNumbers(tChains, []string{"id", "symbol", "module", "unresolved", "stackDepth"}, func(w *row) {
		id := w.num(0)
		for at < len(list) && list[at].id < id {
			at++
		}
		i := at
		if i == len(list) || list[i].id != id || i > 0 && list[i-1].id == id { // chains that are not in the order of the samples
			ok := false
			if i, ok = slices.BinarySearchFunc(list, id, byID); !ok {
				return
			}
		}
		s := &list[i]
		depth := w.num(4)
		if depth < 0 || depth >= int64(s.depth) {
			return
		}
		key := frameKey{w.num(1), w.num(2)}
		if w.num(3) != 0 {
			key.symbol = 0 // an address, which says nothing
		}
		name, ok := names[key]
		if !ok {
			if text := r.frame(key); text != "" {
				name = r.b.TL.Names.IDOf(text)
			}
			if len(names) < maxFrames {
				names[key] = name
			}
		}
		if name != 0 {
			s.depth, s.name = int32(min(depth, math.MaxInt32-1)), name
		}
	})
}

// frame is the text of a frame; "" where its module is not known.
func (r *reader) frame(k frameKey) string {
	module := path.Base(strings.ReplaceAll(r.strings[k.module], `\`, "/"))
	if module == "." || module == "/" || strings.EqualFold(module, "[unknown]") {
		return ""
	}
	symbol := r.strings[k.symbol]
	if k.symbol == 0 || symbol == "" || strings.HasPrefix(symbol, "0x") || strings.EqualFold(symbol, "[unknown]") {
		return shorten(module)
	}
	if i := strings.LastIndexAny(symbol, `/\`); i >= 0 && !strings.ContainsAny(symbol, "(<") {
		symbol = symbol[i+1:]
	}
	const maxSymbol = 200
	return shorten(symbol[:min(len(symbol), maxSymbol)] + " (" + module + ")")
}

// placeSamples gives the samples their threads, for which ids has the tracks.
func (r *reader) placeSamples(ids []timeline.TrackID) {
	ms := &r.b.TL.Marks
	for i := range r.cpuSamples {
		s := &r.cpuSamples[i]
		ms.Append(timeline.MarkSample, ids[s.track], timeline.Time(s.at+r.m.epoch), 0, s.name, s.row)
	}
	r.cpuSamples = nil
}
