package nsys

import (
	"fmt"
	"strings"

	"gpureport/ingest/timeline"
)

// Column numbers that the tables of device work share.
const (
	cStart = iota
	cEnd
	cDevice
	cStream
	cCorrelation
	cProc
	cFirst // of the table's own columns
)

var deviceColumns = []string{"start", "end", "deviceId", "streamId", "correlationId", "globalPid"}

const noStream = 1<<32 - 1

// deviceSpan reads what every row of device work has.
func (r *reader) deviceSpan(table string, w *row, kind timeline.SpanKind) (timeline.Span, bool) {
	start, end, open, ok := r.times(table, w)
	if !ok {
		return timeline.Span{}, false
	}
	if open {
		r.in.Report("nsys/bad-time", timeline.DataLoss, w.id, "%s rowid %d: end is not a time of this capture: the row is left out", table, w.id)
		return timeline.Span{}, false
	}
	dev, stream := w.num(cDevice), w.num(cStream)
	if dev < 0 || dev > 1<<10 || stream < 0 || stream > noStream {
		r.in.Report("nsys/bad-value", timeline.DataLoss, w.id, "%s rowid %d: no device %d or stream %d can be: the row is left out", table, w.id, dev, stream)
		return timeline.Span{}, false
	}
	if stream == noStream {
		stream = -1
	}
	proc := int64(anyProc)
	if p := w.num(cProc); p > 0 {
		proc = processOf(p)
	} else if _, known := w.int(cProc); known {
		proc = 0
	}
	return timeline.Span{Track: r.track(rawTrack{stream: true, proc: proc, device: int32(dev), id: stream}), Kind: kind, Start: timeline.Time(start), End: timeline.Time(end),
		Link: r.link(w.num(cCorrelation)), Row: w.n}, true
}

func (r *reader) kernels() error {
	t := r.db.tables[tKernel]
	name := "demangledName"
	for _, c := range []string{"mangledName", "shortName", "demangledName"} {
		if t.has(c) {
			name = c
		}
	}
	columns := append(append([]string{}, deviceColumns...), name, "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "graphNodeId")
	return r.db.scanNumbers(tKernel, columns, func(w *row) {
		s, ok := r.deviceSpan(tKernel, w, timeline.KindKernel)
		if !ok {
			return
		}
		s.Name = r.name(w.num(cFirst))
		i := r.add(s)
		var a timeline.Launch
		for k := range 3 {
			g, b := w.num(cFirst+1+k), w.num(cFirst+4+k)
			if g < 0 || g > 1<<31-1 || b < 0 || b > 1<<20 {
				r.in.Report("nsys/bad-value", timeline.DataLoss, w.id, "%s rowid %d: no grid %d or block %d can be: left out", tKernel, w.id, g, b)
				return
			}
			a.Grid[k], a.Block[k] = int32(g), int32(b)
		}
		if node := w.num(cFirst + 7); node > 0 {
			a.GraphNode = uint64(node)
		}
		if a.Grid[0] > 0 || a.GraphNode > 0 {
			r.b.AddKernel(i, a)
		}
	})
}

// graphTraces reads graph launches that were recorded as a whole; their kernels are in no table.
func (r *reader) graphTraces() error {
	n := int64(0)
	err := r.db.scanNumbers(tGraph, append(append([]string{}, deviceColumns...), "graphId"), func(w *row) {
		s, ok := r.deviceSpan(tGraph, w, timeline.KindKernel)
		if !ok {
			return
		}
		n++
		id := w.num(cFirst)
		name, ok := r.graphs[id]
		if !ok {
			name = r.b.TL.Names.IDOf(fmt.Sprintf("[CUDA graph %d]", id))
			if len(r.graphs) < 1<<16 {
				r.graphs[id] = name
			}
		}
		s.Name = name
		r.add(s)
	})
	r.in.ReportN(n, "nsys/whole-graphs", timeline.Info, 0, "graph launches recorded as one interval each: what ran inside is not known; record with --cuda-graph-trace=node")
	return err
}

// copyKind is what a memcpy's numbers mean.
type copyKind struct {
	name timeline.StringID
	copy timeline.Copy
}

func (r *reader) memcpys() error {
	return r.db.scanNumbers(tMemcpy, append(append([]string{}, deviceColumns...), "bytes", "copyKind", "srcKind", "dstKind"), func(w *row) {
		s, ok := r.deviceSpan(tMemcpy, w, timeline.KindMemcpy)
		if !ok {
			return
		}
		key := [3]int64{-1, -1, -1}
		for k := range key {
			if v, ok := w.int(cFirst + 1 + k); ok {
				key[k] = v
			}
		}
		c, ok := r.copies[key]
		if !ok {
			c = r.newCopy(key)
			if len(r.copies) < 1<<12 {
				r.copies[key] = c
			}
		}
		s.Name = c.name
		c.copy.Span = r.add(s)
		c.copy.Bytes = r.bytes(tMemcpy, w, cFirst)
		r.b.AddCopy(c.copy)
	})
}

// bytes reads a size; one that no memory has is unknown.
func (r *reader) bytes(table string, w *row, i int) int64 {
	n, ok := w.int(i)
	if !ok {
		return -1
	}
	if n < 0 || n > 1<<46 {
		r.in.Report("nsys/bad-value", timeline.DataLoss, w.id, "%s rowid %d: %d bytes cannot be: taken as unknown", table, w.id, n)
		return -1
	}
	return n
}

var memoryWords = [...]string{timeline.MemUnknown: "Unknown", timeline.MemPageable: "Pageable", timeline.MemPinned: "Pinned", timeline.MemDevice: "Device", timeline.MemManaged: "Managed"}

// newCopy names a copy as the PyTorch profiler does: Memcpy HtoD (Pinned -> Device).
func (r *reader) newCopy(key [3]int64) copyKind {
	k, ok := r.m.copyOps[key[0]]
	if !ok {
		k = copyOp{word: "Unknown"}
	}
	c := copyKind{copy: timeline.Copy{Kind: k.dir, Src: r.m.memKinds[key[1]], Dst: r.m.memKinds[key[2]]}}
	c.name = r.b.TL.Names.IDOf(fmt.Sprintf("Memcpy %s (%s -> %s)", k.word, memoryWords[c.copy.Src], memoryWords[c.copy.Dst]))
	return c
}

func (r *reader) memsets() error {
	return r.db.scanNumbers(tMemset, append(append([]string{}, deviceColumns...), "bytes", "memKind"), func(w *row) {
		s, ok := r.deviceSpan(tMemset, w, timeline.KindMemset)
		if !ok {
			return
		}
		c := timeline.Copy{Bytes: r.bytes(tMemset, w, cFirst)}
		if k, ok := w.int(cFirst + 1); ok {
			c.Dst = r.m.memKinds[k]
		}
		s.Name = r.b.TL.Names.IDOf("Memset (" + memoryWords[c.Dst] + ")")
		c.Span = r.add(s)
		r.b.AddCopy(c)
	})
}

// syncs reads the device's view of waits.
func (r *reader) syncs() error {
	return r.db.scanNumbers(tSync, append(append([]string{}, deviceColumns...), "syncType"), func(w *row) {
		s, ok := r.deviceSpan(tSync, w, timeline.KindSync)
		if !ok {
			return
		}
		word, ok := r.m.syncTypes[w.num(cFirst)]
		if !ok {
			word = "Sync"
		}
		s.Name = r.b.TL.Names.IDOf(word)
		r.add(s)
	})
}

// copyOp is a value of copyKind.
type copyOp struct {
	word string
	dir  timeline.CopyKind
}

// The meaning of the numbers by the names that the file's own tables give them.
var (
	copyWords = map[string]copyOp{
		"HTOD": {"HtoD", timeline.DirH2D}, "DTOH": {"DtoH", timeline.DirD2H}, "HTOA": {"HtoA", timeline.DirH2D}, "ATOH": {"AtoH", timeline.DirD2H},
		"ATOA": {"AtoA", timeline.DirD2D}, "ATOD": {"AtoD", timeline.DirD2D}, "DTOA": {"DtoA", timeline.DirD2D}, "DTOD": {"DtoD", timeline.DirD2D},
		"HTOH": {"HtoH", timeline.DirH2H}, "PTOP": {"PtoP", timeline.DirP2P},
		"UVM_HTOD": {"HtoD", timeline.DirH2D}, "UVM_DTOH": {"DtoH", timeline.DirD2H}, "UVM_DTOD": {"DtoD", timeline.DirD2D},
	}
	memWords = map[string]timeline.MemKind{
		"PAGEABLE": timeline.MemPageable, "PINNED": timeline.MemPinned, "DEVICE": timeline.MemDevice, "ARRAY": timeline.MemDevice,
		"MANAGED": timeline.MemManaged, "DEVICE_STATIC": timeline.MemDevice, "MANAGED_STATIC": timeline.MemManaged,
	}
	syncWords = map[string]string{"EVENT_SYNCHRONIZE": "Event Sync", "STREAM_WAIT_EVENT": "Stream Wait Event", "STREAM_SYNCHRONIZE": "Stream Sync", "CONTEXT_SYNCHRONIZE": "Context Sync"}
)

// The numbers where the file has no such tables.
func (m *meta) defaults() {
	m.copyOps = map[int64]copyOp{}
	for i, w := range []string{1: "HTOD", 2: "DTOH", 3: "HTOA", 4: "ATOH", 5: "ATOA", 6: "ATOD", 7: "DTOA", 8: "DTOD", 9: "HTOH", 10: "PTOP", 11: "UVM_HTOD", 12: "UVM_DTOH", 13: "UVM_DTOD"} {
		if w != "" {
			m.copyOps[int64(i)] = copyWords[w]
		}
	}
	m.memKinds = map[int64]timeline.MemKind{}
	for i, w := range []string{"PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC"} {
		m.memKinds[int64(i)] = memWords[w]
	}
	m.syncTypes = map[int64]string{1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
	m.ranges = map[int64]eventKind{34: markEvent, 39: threadEvent, 59: rangeEvent, 60: rangeEvent, 70: rangeEvent, 71: rangeEvent}
	m.severities = map[int64]string{1: "info", 2: "warning", 3: "error"}
}

// enums replaces the numbers by those that the file states.
func (r *reader) enums() error {
	m := &r.m
	m.defaults()
	read := func(table string, f func(id int64, name string)) error {
		return r.db.scan(table, []string{"id", "name"}, func(w *row) {
			if id, ok := w.int(0); ok {
				f(id, strings.ToUpper(w.text(1)))
			}
		})
	}
	after := func(name, mark string) string {
		if i := strings.LastIndex(name, mark); i >= 0 {
			return name[i+len(mark):]
		}
		return name
	}
	return firstError(
		read("ENUM_CUDA_MEMCPY_OPER", func(id int64, name string) {
			if op, ok := copyWords[after(name, "KIND_")]; ok {
				m.copyOps[id] = op
			} else {
				delete(m.copyOps, id)
			}
		}),
		read("ENUM_CUDA_MEM_KIND", func(id int64, name string) { m.memKinds[id] = memWords[after(name, "KIND_")] }),
		read("ENUM_CUPTI_SYNC_TYPE", func(id int64, name string) {
			if w, ok := syncWords[after(name, "TYPE_")]; ok {
				m.syncTypes[id] = w
			} else {
				delete(m.syncTypes, id)
			}
		}),
		read("ENUM_DIAGNOSTIC_SEVERITY_LEVEL", func(id int64, name string) { m.severities[id] = strings.ToLower(name) }),
		read("ENUM_NSYS_EVENT_TYPE", func(id int64, name string) {
			delete(m.ranges, id)
			switch name {
			case "NVTXMARK":
				m.ranges[id] = markEvent
			case "NVTXTHREAD":
				m.ranges[id] = threadEvent
			case "NVTXPUSHPOPRANGE", "NVTXSTARTENDRANGE", "NVTXTPUSHPOPRANGE", "NVTXTSTARTENDRANGE":
				m.ranges[id] = rangeEvent
			}
		}),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
