package nsys

import (
	"cmp"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
)

const maxAllocations = 1 << 20 // events kept; a longer capture keeps its beginning

// allocation is one event of device memory.
type allocation struct {
	at    int64 // session time
	bytes int64 // negative: freed
	row   uint32
}

type memoryKey struct {
	proc   int64
	device int32
}

// memory reads what a process allocates and frees on its GPUs: the level of what it holds, and each change of it. Only device memory
// counts: pinned and managed memory is the host's too. Memory that was allocated before the recording shows when it is freed.
func (r *reader) memory() error {
	if r.db.tables[tMemory] == nil {
		return nil
	}
	kept, bad := 0, int64(0)
	by := map[memoryKey][]allocation{}
	columns := []string{"start", "bytes", "memKind", "globalPid", "deviceId", "memoryOperationType"}
	err := r.db.scanNumbers(tMemory, columns, func(w *row) {
		at, ok := w.int(0)
		n, ok2 := w.int(1)
		dev := w.num(4)
		if !ok || !ok2 || at < r.m.lo || at > r.m.hi || n < 0 || n > 1<<46 || dev < 0 || dev > 1<<10 {
			bad++
			return
		}
		if kind, ok := w.int(2); ok && r.m.memKinds[kind] != timeline.MemDevice {
			return
		}
		op := r.m.memOps[w.num(5)]
		if op == 0 || n == 0 {
			return
		}
		if kept++; kept > maxAllocations {
			return
		}
		r.rows++
		k := memoryKey{processOf(w.num(3)), int32(dev)}
		by[k] = append(by[k], allocation{at, op * n, w.n})
	})
	r.in.ReportN(bad, "nsys/bad-value", timeline.DataLoss, 0, "%s: times and sizes that cannot be: the rows are left out", tMemory)
	r.in.ReportN(int64(max(0, kept-maxAllocations)), "nsys/too-many-allocations", timeline.Info, 0, "%s: events beyond the first %d: not kept", tMemory, maxAllocations)
	r.allocations = by
	return err
}

// placeMemory makes the series of the GPUs that the processes drive; device gives them.
func (r *reader) placeMemory(device func(proc int64, ordinal int32) (timeline.DeviceID, int, bool)) {
	tl := &r.b.TL
	keys := make([]memoryKey, 0, len(r.allocations))
	for k := range r.allocations {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b memoryKey) int { return cmp.Or(cmp.Compare(a.proc, b.proc), cmp.Compare(a.device, b.device)) })
	for _, k := range keys {
		id, proc, ok := device(k.proc, k.device)
		if !ok {
			continue
		}
		list := r.allocations[k]
		slices.SortStableFunc(list, func(a, b allocation) int { return cmp.Compare(a.at, b.at) })
		level, lowest := int64(0), int64(0)
		for _, a := range list {
			level += a.bytes
			lowest = min(lowest, level)
		}
		level = -lowest // so much was there before
		s := timeline.Series{Metric: timeline.MemAllocated}
		s.Track = r.b.Track(timeline.Track{Source: r.in.Source, Table: tl.Names.IDOf(tMemory), Kind: timeline.TrackGPU, Proc: proc, Device: id, Thread: -1, Name: "allocations"})
		for _, a := range list {
			level += a.bytes
			at := timeline.Time(a.at + r.m.epoch)
			if n := len(s.At); n > 0 && s.At[n-1] == at {
				s.Value[n-1] = float64(level)
				continue
			}
			s.At, s.Value, s.Row = append(s.At, at), append(s.Value, float64(level)), append(s.Row, a.row)
		}
		tl.Series = append(tl.Series, s)
	}
	r.allocations = nil
}

// memoryEnums reads which number is an allocation (1) and which a release (-1).
func (r *reader) memoryEnums() error {
	r.m.memOps = map[int64]int64{0: 1, 1: -1}
	return r.db.scan("ENUM_CUDA_DEV_MEM_EVENT_OPER", []string{"id", "name"}, func(w *row) {
		id, ok := w.int(0)
		if !ok {
			return
		}
		switch name := w.text(1); {
		case strings.HasSuffix(name, "DEALLOCATION"):
			r.m.memOps[id] = -1
		case strings.HasSuffix(name, "ALLOCATION"):
			r.m.memOps[id] = 1
		default:
			delete(r.m.memOps, id)
		}
	})
}
