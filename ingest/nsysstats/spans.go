package nsysstats

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

const (
	maxProcs   = 64
	maxTracks  = 1 << 16
	maxCorrs   = 1 << 20
	longest    = int64(10 * 365 * 24 * time.Hour)
	maxBytes   = 1 << 46
	execOffset = 1 << 31 // links of cuda_kern_exec_trace, which states no CorrId
)

// rawTrack is a thread or a stream as a table names it, by table: finish sees what two tables say twice.
type rawTrack struct {
	from   report // gpuTrace and execTrace have streams; execTrace threads too, by stream false
	stream bool
	device int32 // in spans.devices
	pid    int64 // -1 not said
	id     int64 // thread or stream, -1 not said
}

type device struct {
	name    string
	ordinal int // -1 not said
}

// spans gathers the traces.
type spans struct {
	r       *reader
	raw     []rawTrack
	ids     map[rawTrack]timeline.TrackID
	last    timeline.TrackID
	count   []int64
	devices []device
	byCell  map[string]int32
	threads map[[2]int64]string
	seen    [projTrace + 1]bool
	dirs    map[string]copyOp
	execs   uint32 // links given
	byStart map[execKey]uint32
}

// execKey finds a kernel of cuda_kern_exec_trace in cuda_gpu_trace.
type execKey struct {
	device     int32
	start, dur int64
}

func (s *spans) init(r *reader) {
	s.r, s.ids, s.byCell, s.threads, s.last = r, map[rawTrack]timeline.TrackID{}, map[string]int32{}, map[[2]int64]string{}, -1
	s.dirs = map[string]copyOp{}
}

func (s *spans) begin(h *header) {
	if h.report >= gpuTrace {
		s.seen[h.report] = true
	}
}

func (s *spans) track(k rawTrack) (timeline.TrackID, bool) {
	if s.last >= 0 && s.raw[s.last] == k {
		return s.last, true
	}
	id, ok := s.ids[k]
	if !ok {
		if len(s.raw) >= maxTracks {
			return 0, false
		}
		id = timeline.TrackID(len(s.raw))
		s.ids[k], s.raw, s.count = id, append(s.raw, k), append(s.count, 0)
	}
	s.last = id
	return id, true
}

func (s *spans) add(sp timeline.Span) int32 {
	s.count[sp.Track]++
	return s.r.b.AddSpan(sp)
}

// times reads an interval of the session.
func (s *spans) times(row [][]byte, h *header, start, dur cell) (from, to int64, ok bool) {
	from, ok = h.ns(row, start)
	d, dok := h.ns(row, dur)
	if !dok && dur == cDur {
		var end int64
		if end, dok = h.ns(row, cEnd); dok {
			d = end - from
		}
	}
	if !ok || !dok || from < -longest || from > longest || d < 0 || d > longest {
		return 0, 0, false
	}
	return from, from + d, true
}

// number is a pid, a thread or a stream; -1 not said.
func number(row [][]byte, h *header, c cell) int64 {
	if n, ok := h.count(row, c); ok && n >= 0 {
		return n
	}
	return -1
}

func (s *spans) row(r *reader, h *header, at uint32) bool {
	switch h.report {
	case gpuTrace:
		return s.deviceRow(r, h, at)
	case execTrace:
		return s.execRow(r, h, at)
	case apiTrace:
		from, to, ok := s.times(r.row, h, cStart, cDur)
		return s.hostRow(r, h, at, from, to, ok)
	case rangeTrace:
		from, to, ok := s.times(r.row, h, cStart, cDur)
		return s.hostRow(r, h, at, from, to, ok)
	}
	if len(h.text(r.row, cOrigStart)) == 0 && len(h.text(r.row, cName)) == 0 {
		return true // the sum of all ranges of a thread, which is none
	}
	from, to, ok := s.times(r.row, h, cOrigStart, cOrigDur)
	return s.hostRow(r, h, at, from, to, ok)
}

// hostRow reads a call or a range.
func (s *spans) hostRow(r *reader, h *header, at uint32, from, to int64, ok bool) bool {
	if !ok {
		r.badRow(uint64(at), "its start or duration is no time of a recording")
		return false
	}
	pid, tid := number(r.row, h, cPID), number(r.row, h, cTID)
	track, ok := s.track(rawTrack{from: h.report, device: -1, pid: pid, id: tid})
	if !ok {
		r.badRow(uint64(at), "more threads than a recording has")
		return false
	}
	if name := h.text(r.row, cThread); len(name) > 0 && tid >= 0 && len(s.threads) < maxTracks {
		if _, known := s.threads[[2]int64{pid, tid}]; !known {
			s.threads[[2]int64{pid, tid}] = string(bytes.ToValidUTF8(name[:min(len(name), 256)], []byte("\uFFFD")))
		}
	}
	sp := timeline.Span{Track: track, Kind: timeline.KindAPI, Start: timeline.Time(from), End: timeline.Time(to), Row: at}
	name := h.text(r.row, cName)
	if h.report == apiTrace {
		sp.Name, sp.Link = s.name(apiName(name)), corr(r.row, h)
		s.add(sp)
		return true
	}
	name, sizes, op := operator(rangeName(name))
	sp.Kind, sp.Name = timeline.KindAnnotation, s.name(name)
	if op {
		sp.Kind = timeline.KindOp
	}
	i := s.add(sp)
	if len(sizes) > 0 && len(sizes) <= maxName {
		r.b.AddShape(timeline.Shape{Span: i, Dims: r.b.TL.Names.ID(sizes)})
	}
	return true
}

func (s *spans) name(b []byte) timeline.StringID {
	return s.r.b.TL.Names.ID(bytes.ToValidUTF8(b[:min(len(b), maxName)], []byte("\uFFFD")))
}

func corr(row [][]byte, h *header) uint32 {
	if n, ok := h.count(row, cCorr); ok && n > 0 && n < execOffset {
		return uint32(n)
	}
	return 0
}

var version = regexp.MustCompile(`(_ptsz|_ptds)?_v\d+(_ptsz|_ptds)?$`)

// apiName takes the version off a call.
func apiName(b []byte) []byte {
	if bytes.Contains(b, []byte("_v")) {
		return version.ReplaceAll(b, nil)
	}
	return b
}

// kernelName takes off the range that reports with nvtx-name put before it: no kernel's own name has a slash before its arguments.
func kernelName(b []byte) []byte {
	end := len(b)
	if i := bytes.IndexAny(b, "<("); i >= 0 {
		end = i
	}
	if i := bytes.LastIndexByte(b[:end], '/'); i >= 0 && i+1 < len(b) {
		return b[i+1:]
	}
	return b
}

// deviceOf finds the device of a cell: "NVIDIA RTX A4500 (0)".
func (s *spans) deviceOf(b []byte) int32 {
	if d, ok := s.byCell[string(b)]; ok {
		return d
	}
	name, ordinal := string(bytes.ToValidUTF8(b[:min(len(b), 256)], []byte("\uFFFD"))), -1
	if i := strings.LastIndexByte(name, '('); i >= 0 && strings.HasSuffix(name, ")") {
		if n, err := strconv.Atoi(name[i+1 : len(name)-1]); err == nil && n >= 0 && n < ingest.MaxGPUs {
			name, ordinal = strings.TrimSpace(name[:i]), n
		}
	}
	d := s.findDevice(name, ordinal)
	if d >= 0 {
		s.byCell[string(b)] = d
	}
	return d
}

func (s *spans) findDevice(name string, ordinal int) int32 {
	for i := range s.devices {
		d := &s.devices[i]
		if ordinal >= 0 && d.ordinal == ordinal || ordinal < 0 && d.ordinal < 0 && d.name == name {
			if d.name == "" {
				d.name = name
			}
			return int32(i)
		}
	}
	if len(s.devices) >= ingest.MaxGPUs {
		return -1
	}
	s.devices = append(s.devices, device{name, ordinal})
	return int32(len(s.devices) - 1)
}

// copyOp is what the name of a memory operation says.
type copyOp struct {
	kind timeline.SpanKind // KindKernel: it is none
	word string
	dir  timeline.CopyKind
}

var copyWords = []struct {
	in   []string
	word string
	dir  timeline.CopyKind
}{
	{[]string{"htod", "host-to-device", "host to device"}, "HtoD", timeline.DirH2D}, {[]string{"dtoh", "device-to-host", "device to host"}, "DtoH", timeline.DirD2H},
	{[]string{"htoa", "host-to-array"}, "HtoA", timeline.DirH2D}, {[]string{"atoh", "array-to-host"}, "AtoH", timeline.DirD2H},
	{[]string{"dtod", "device-to-device", "device to device"}, "DtoD", timeline.DirD2D}, {[]string{"atoa", "array-to-array"}, "AtoA", timeline.DirD2D},
	{[]string{"atod", "array-to-device"}, "AtoD", timeline.DirD2D}, {[]string{"dtoa", "device-to-array"}, "DtoA", timeline.DirD2D},
	{[]string{"htoh", "host-to-host"}, "HtoH", timeline.DirH2H}, {[]string{"ptop", "peer-to-peer"}, "PtoP", timeline.DirP2P},
}

// memoryOp reads "[CUDA memcpy Host-to-Device]"; the names of kernels are in no brackets.
func memoryOp(name string) copyOp {
	low := strings.ToLower(name)
	switch {
	case !strings.HasPrefix(low, "["):
		return copyOp{kind: timeline.KindKernel}
	case strings.Contains(low, "memset"):
		return copyOp{kind: timeline.KindMemset}
	case !strings.Contains(low, "memcpy"):
		return copyOp{kind: timeline.KindKernel}
	}
	for _, w := range copyWords {
		if slices.ContainsFunc(w.in, func(x string) bool { return strings.Contains(low, x) }) {
			return copyOp{timeline.KindMemcpy, w.word, w.dir}
		}
	}
	return copyOp{kind: timeline.KindMemcpy, word: "Unknown"}
}

var memoryKinds = map[string]timeline.MemKind{"pageable": timeline.MemPageable, "pinned": timeline.MemPinned, "device": timeline.MemDevice, "array": timeline.MemDevice,
	"managed": timeline.MemManaged, "device static": timeline.MemDevice, "managed static": timeline.MemManaged}

var memoryWords = [...]string{timeline.MemUnknown: "Unknown", timeline.MemPageable: "Pageable", timeline.MemPinned: "Pinned", timeline.MemDevice: "Device", timeline.MemManaged: "Managed"}

func (s *spans) deviceRow(r *reader, h *header, at uint32) bool {
	from, to, ok := s.times(r.row, h, cStart, cDur)
	if !ok {
		r.badRow(uint64(at), "its start or duration is no time of a recording")
		return false
	}
	dev := s.deviceOf(h.text(r.row, cDevice))
	if dev < 0 {
		r.badRow(uint64(at), "more GPUs than a recording has")
		return false
	}
	track, ok := s.track(rawTrack{from: gpuTrace, stream: true, device: dev, pid: -1, id: number(r.row, h, cStream)})
	if !ok {
		r.badRow(uint64(at), "more streams than a recording has")
		return false
	}
	sp := timeline.Span{Track: track, Kind: timeline.KindKernel, Start: timeline.Time(from), End: timeline.Time(to), Link: corr(r.row, h), Row: at}
	name := h.text(r.row, cName)
	op := copyOp{kind: timeline.KindKernel}
	if len(name) > 0 && name[0] == '[' {
		if op, ok = s.dirs[string(name)]; !ok {
			op = memoryOp(string(name))
			if len(s.dirs) < 1<<10 {
				s.dirs[string(name)] = op
			}
		}
	}
	if sp.Kind = op.kind; op.kind == timeline.KindKernel {
		sp.Name = s.name(kernelName(name))
		s.kernelArgs(r, h, s.add(sp))
		return true
	}
	c := timeline.Copy{Kind: op.dir, Src: memoryKinds[strings.ToLower(string(h.text(r.row, cSrc)))], Dst: memoryKinds[strings.ToLower(string(h.text(r.row, cDst)))], Bytes: -1}
	if n, ok := h.value(r.row, cBytes); ok && n >= 0 && n <= maxBytes {
		c.Bytes = n
	}
	// Named as the PyTorch profiler does.
	if op.kind == timeline.KindMemset {
		c.Src, c.Dst = timeline.MemUnknown, max(c.Src, c.Dst)
		sp.Name = r.b.TL.Names.IDOf("Memset (" + memoryWords[c.Dst] + ")")
	} else {
		sp.Name = r.b.TL.Names.IDOf("Memcpy " + op.word + " (" + memoryWords[c.Src] + " -> " + memoryWords[c.Dst] + ")")
	}
	c.Span = s.add(sp)
	r.b.AddCopy(c)
	return true
}

func (s *spans) kernelArgs(r *reader, h *header, span int32) {
	var a timeline.Launch
	for k := range 3 {
		g, b := number(r.row, h, cGridX+cell(k)), number(r.row, h, cBlockX+cell(k))
		if g < 0 || g > 1<<31-1 || b < 0 || b > 1<<20 {
			return
		}
		a.Grid[k], a.Block[k] = int32(g), int32(b)
	}
	if a.Grid[0] > 0 {
		r.b.AddKernel(span, a)
	}
}

// execRow reads a launch call and its kernel.
func (s *spans) execRow(r *reader, h *header, at uint32) bool {
	from, to, ok := s.times(r.row, h, cAPIStart, cAPIDur)
	kfrom, kto, kok := s.times(r.row, h, cKernelStart, cKernelDur)
	if !ok && !kok {
		r.badRow(uint64(at), "its start or duration is no time of a recording")
		return false
	}
	s.execs++
	link := uint32(execOffset) + s.execs
	pid, tid := number(r.row, h, cPID), number(r.row, h, cTID)
	if ok {
		track, fits := s.track(rawTrack{from: execTrace, device: -1, pid: pid, id: tid})
		if !fits {
			r.badRow(uint64(at), "more threads than a recording has")
			return false
		}
		s.add(timeline.Span{Track: track, Kind: timeline.KindAPI, Start: timeline.Time(from), End: timeline.Time(to), Name: s.name(apiName(h.text(r.row, cAPIName))), Link: link, Row: at})
	}
	if !kok {
		return true
	}
	dev := int32(-1)
	if n := number(r.row, h, cDeviceID); n < ingest.MaxGPUs {
		dev = s.findDevice("", int(n))
	}
	if dev < 0 {
		r.badRow(uint64(at), "more GPUs than a recording has")
		return false
	}
	track, fits := s.track(rawTrack{from: execTrace, stream: true, device: dev, pid: pid, id: -1})
	if !fits {
		r.badRow(uint64(at), "more streams than a recording has")
		return false
	}
	i := s.add(timeline.Span{Track: track, Kind: timeline.KindKernel, Start: timeline.Time(kfrom), End: timeline.Time(kto), Name: s.name(kernelName(h.text(r.row, cKernelName))), Link: link, Row: at})
	var a timeline.Launch
	if dims(h.text(r.row, cGrid), &a.Grid) && dims(h.text(r.row, cBlock), &a.Block) && a.Grid[0] > 0 {
		r.b.AddKernel(i, a)
	}
	return true
}

// dims reads " 148    1    1".
func dims(b []byte, to *[3]int32) bool {
	f := bytes.Fields(b)
	if len(f) != 3 {
		return false
	}
	for i := range f {
		n, err := strconv.ParseInt(string(f[i]), 10, 32)
		if err != nil || n < 0 {
			return false
		}
		to[i] = int32(n)
	}
	return true
}

// finish turns raw tracks into those of the timeline.
func (s *spans) finish() {
	r := s.r
	s.dropDoubles()
	procs := s.processes()
	procOf := s.drivers(procs)
	for _, pid := range procs {
		r.b.AddProc(s.process(pid, len(procs)))
	}
	order := make([]int, len(s.devices))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := s.devices[a], s.devices[b]
		return cmp.Or(cmp.Compare(procOf[a], procOf[b]), cmp.Compare(x.ordinal, y.ordinal), cmp.Compare(x.name, y.name))
	})
	devices := make([]timeline.DeviceID, len(s.devices))
	for _, i := range order {
		d := s.devices[i]
		devices[i] = r.b.AddDevice(timeline.Device{Name: d.name, Index: d.ordinal, Ordinal: d.ordinal, Source: r.in.Source, Proc: procOf[i], Vendor: "nvidia"})
	}
	ids := make([]timeline.TrackID, len(s.raw))
	for _, i := range s.trackOrder() {
		t := s.raw[i]
		if s.count[i] == 0 {
			ids[i] = -1
			continue
		}
		tr := timeline.Track{Source: r.in.Source, Proc: slices.Index(procs, t.pid), Device: -1, Thread: t.id}
		switch {
		case t.stream:
			tr.Kind, tr.Device, tr.Proc = timeline.TrackStream, devices[t.device], procOf[t.device]
			if t.id < 0 {
				tr.Name = "no stream"
			}
		case tr.Proc >= 0 && t.id >= 0:
			tr.Kind, tr.Name = timeline.TrackHost, s.threads[[2]int64{t.pid, t.id}]
		case tr.Proc >= 0:
			tr.Kind, tr.Name = timeline.TrackHost, "no thread"
		default:
			tr.Kind, tr.Name, tr.Thread = timeline.TrackOther, fmt.Sprintf("process %d, %d", t.pid, t.id), -1
		}
		ids[i] = r.b.Track(tr)
	}
	r.b.EachChunk(func(_ int, c *timeline.SpanChunk) {
		for j, t := range c.Track {
			c.Track[j] = ids[t]
		}
	})
}

func (s *spans) trackOrder() []int {
	order := make([]int, len(s.raw))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &s.raw[a], &s.raw[b]
		return cmp.Or(cmp.Compare(x.pid, y.pid), cmp.Compare(x.device, y.device), cmp.Compare(x.id, y.id), cmp.Compare(x.from, y.from))
	})
	return order
}

// dropDoubles lets go what cuda_kern_exec_trace and nvtx_gpu_proj_trace say a second time, and joins calls known from the first alone with
// kernels of cuda_gpu_trace, by their start.
func (s *spans) dropDoubles() {
	gone := func(t rawTrack) bool {
		switch t.from {
		case execTrace:
			return t.stream && s.seen[gpuTrace] || !t.stream && s.seen[apiTrace]
		case projTrace:
			return s.seen[rangeTrace]
		}
		return false
	}
	if s.seen[execTrace] && s.seen[gpuTrace] && !s.seen[apiTrace] {
		s.byStart = map[execKey]uint32{}
		s.r.b.EachChunk(func(_ int, c *timeline.SpanChunk) {
			for j, t := range c.Track {
				if raw := s.raw[t]; raw.from == execTrace && raw.stream && len(s.byStart) < maxCorrs {
					s.byStart[execKey{raw.device, int64(c.Start[j]), int64(c.End[j] - c.Start[j])}] = c.Link[j]
				}
			}
		})
		s.r.b.EachChunk(func(_ int, c *timeline.SpanChunk) {
			for j, t := range c.Track {
				if raw := s.raw[t]; raw.from == gpuTrace {
					if l := s.byStart[execKey{raw.device, int64(c.Start[j]), int64(c.End[j] - c.Start[j])}]; l != 0 {
						c.Link[j] = l
					}
				}
			}
		})
	}
	for i, t := range s.raw {
		if gone(t) {
			s.count[i] = 0
		}
	}
}

// processes gives the pids that count as ranks: those that called CUDA, else those with ranges, else one that nobody names.
func (s *spans) processes() []int64 {
	for _, want := range [][]report{{apiTrace, execTrace}, {rangeTrace, projTrace}} {
		pids := map[int64]int64{}
		for i, t := range s.raw {
			if !t.stream && s.count[i] > 0 && slices.Contains(want, t.from) {
				pids[t.pid] += s.count[i]
			}
		}
		out := slices.Sorted(maps.Keys(pids))
		if len(out) > maxProcs {
			s.r.in.ReportN(int64(len(out)-maxProcs), "nsys-stats/too-many-processes", timeline.DataLoss, 0, "more than %d processes: the others are left out", maxProcs)
			slices.SortStableFunc(out, func(a, b int64) int { return cmp.Compare(pids[b], pids[a]) })
			out = out[:maxProcs]
			slices.Sort(out)
		}
		if len(out) > 0 {
			return out
		}
	}
	return []int64{-1}
}

// drivers gives for each device the process that drove it: by cuda_kern_exec_trace, which says it, or by most CorrIds of its kernels.
func (s *spans) drivers(procs []int64) []int {
	out := make([]int, len(s.devices))
	if len(procs) == 1 {
		return out
	}
	votes := make([][]int64, len(s.devices))
	for i := range votes {
		votes[i] = make([]int64, len(procs))
	}
	caller := map[uint32]int32{} // of each link: process + 1, -1 several
	s.r.b.EachChunk(func(_ int, c *timeline.SpanChunk) {
		for j, t := range c.Track {
			if raw := s.raw[t]; raw.from == apiTrace && c.Link[j] != 0 {
				p := int32(slices.Index(procs, raw.pid)) + 1
				if old := caller[c.Link[j]]; old == 0 && len(caller) < maxCorrs {
					caller[c.Link[j]] = p
				} else if old != 0 && old != p {
					caller[c.Link[j]] = -1
				}
			}
		}
	})
	s.r.b.EachChunk(func(_ int, c *timeline.SpanChunk) {
		for j, t := range c.Track {
			raw := s.raw[t]
			if !raw.stream {
				continue
			}
			if p := slices.Index(procs, raw.pid); p >= 0 {
				votes[raw.device][p]++
			} else if p := caller[c.Link[j]]; p > 0 {
				votes[raw.device][p-1]++
			}
		}
	})
	split := false
	for i, v := range votes {
		best := 0
		for p := range v {
			if v[p] > v[best] {
				best = p
			}
		}
		out[i] = best
		for p := range v {
			split = split || p != best && v[p]*10 > v[best]
		}
	}
	if split {
		s.r.in.Report("nsys-stats/shared-device", timeline.DataLoss, 0, "several processes launched work on one device number: these tables do not say whether that is one GPU; each number counts for the process with most; answer with: %s", export)
	}
	return out
}

var rankInName = regexp.MustCompile(`(?i)rank[_.-]?(\d{1,6})(?:[^0-9]|$)`)

func (s *spans) process(pid int64, n int) timeline.Process {
	p := timeline.Process{Source: s.r.in.Source, PID: pid, Rank: -1, Meta: map[string]string{}}
	if !s.seen[gpuTrace] && !s.seen[execTrace] {
		p.Meta["no_device_work"] = "these tables hold what the host did; the device's work is another report of nsys stats (cuda_gpu_trace), and a database of the recording has both"
	}
	if n == 1 {
		for _, name := range []string{path.Base(s.r.in.Path), path.Base(path.Dir(s.r.in.Path))} {
			if m := rankInName.FindStringSubmatch(name); m != nil {
				if v, err := strconv.Atoi(m[1]); err == nil && v < 1<<16 {
					p.Rank, p.RankHow = v, "file name"
					break
				}
			}
		}
	}
	return p
}

// rangeName takes off the domain that names nothing: ":step 12" is of the default domain.
func rangeName(b []byte) []byte {
	if rest, ok := bytes.CutPrefix(b, []byte(":")); ok {
		return rest
	}
	if rest, ok := bytes.CutPrefix(b, []byte("NCCL:")); ok {
		return rest
	}
	return b
}

var opHeads = [][]byte{[]byte("aten::"), []byte("torch::"), []byte("c10d::"), []byte("prim::"), []byte("prims::"), []byte("autograd::"), []byte("torch.ops.")}

// operator takes apart what emit_nvtx writes: "aten::mm, seq = 5, op_id = 12, sizes = [[2, 3], [3, 4]]".
func operator(text []byte) (name, sizes []byte, op bool) {
	name = text
	seq := bytes.Index(text, []byte(", seq = "))
	size := bytes.Index(text, []byte(", sizes = ["))
	for _, at := range []int{seq, bytes.Index(text, []byte(", op_id = ")), size} {
		if at > 0 && at < len(name) {
			name = text[:at]
		}
	}
	if len(name) == len(text) && !slices.ContainsFunc(opHeads, func(h []byte) bool { return bytes.HasPrefix(text, h) }) {
		return text, nil, false
	}
	for _, h := range [][]byte{[]byte("ProfilerStep#"), []byte("enumerate(DataLoader)#"), []byte("Optimizer.")} {
		if bytes.HasPrefix(name, h) {
			return name, nil, false
		}
	}
	op = seq > 0 || slices.ContainsFunc(opHeads, func(h []byte) bool { return bytes.HasPrefix(name, h) })
	if op && size > 0 {
		sizes = brackets(text[size+len(", sizes = "):])
	}
	return name, sizes, op
}

// brackets gives the list that b begins with; nil if it does not end.
func brackets(b []byte) []byte {
	depth := 0
	for i, c := range b {
		switch c {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return b[:i+1]
			}
		}
	}
	return nil
}
