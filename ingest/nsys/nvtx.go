package nsys

import (
	"bytes"
	"strconv"

	"gpureport/ingest/timeline"
)

type eventKind uint8

const (
	markEvent eventKind = iota + 1
	threadEvent
	rangeEvent
)

const maxMarks = 1 << 16

// nvtx reads ranges, marks and thread names.
func (r *reader) nvtx() error {
	names := &r.b.TL.Names
	dropped := int64(0)
	columns, text := []string{"start", "end", "eventType", "text", "textId", "globalTid", "jsonText", "jsonTextId"}, []string{"text", "jsonText"}
	err := r.db.scanMany(tNVTX, columns, text, func(w *row) {
		kind := r.m.ranges[w.num(2)]
		if kind == 0 {
			return // domains, categories, names of CUDA objects
		}
		text := w.raw(3)
		if len(text) == 0 {
			if id, ok := w.int(4); ok && id != 0 {
				text = []byte(r.strings[id])
			}
		}
		if i := bytes.IndexByte(text, 0); i >= 0 {
			r.in.Report("nsys/damaged-text", timeline.DataLoss, w.id, "%s rowid %d: a text with NUL bytes in it, as a lost page leaves them: what follows is cut off; copy the file again", tNVTX, w.id)
			text = text[:i]
		}
		if kind == threadEvent {
			if g := w.num(5); g > 0 && len(r.m.threads) < maxThreads {
				r.m.threads[g] = shorten(string(text))
			}
			return
		}
		track := r.thread(w, 5)
		if kind == markEvent {
			at, ok := w.int(0)
			if !ok || at < r.m.lo || at > r.m.hi {
				return
			}
			if len(r.marks) >= maxMarks {
				dropped++
				return
			}
			r.rows++
			r.marks = append(r.marks, mark{track, timeline.Time(at + r.m.epoch), names.IDOf(shorten(string(text))), w.n})
			return
		}
		start, end, open, ok := r.times(tNVTX, w)
		if !ok {
			return
		}
		name, sizes, op := operator(text)
		s := timeline.Span{Track: track, Kind: timeline.KindAnnotation, Start: timeline.Time(start), End: timeline.Time(end), Row: w.n}
		if op {
			s.Kind = timeline.KindOp
		}
		if len(name) > maxName {
			name = name[:maxName]
		}
		s.Name = names.ID(bytes.ToValidUTF8(name, []byte("\uFFFD")))
		dims := timeline.StringID(0)
		if len(sizes) > 0 && len(sizes) <= maxName {
			dims = names.ID(sizes)
		}
		if open {
			r.open = append(r.open, openRange{s, dims})
			return
		}
		i := r.add(s)
		if dims != 0 {
			r.b.AddShape(timeline.Shape{Span: i, Dims: dims})
		}
		if bytes.HasPrefix(name, []byte("nccl")) {
			json := w.raw(6)
			if len(json) == 0 {
				if id, ok := w.int(7); ok && id != 0 {
					json = []byte(r.strings[id])
				}
			}
			r.comms.add(r, i, s, string(name), json)
		}
	})
	r.in.ReportN(dropped, "nsys/too-many-marks", timeline.Info, 0, "marks beyond the first %d: not kept", maxMarks)
	return err
}

var (
	seqWord, idWord, sizesWord = []byte(", seq = "), []byte(", op_id = "), []byte(", sizes = [")
	// Beginnings of what is an operator even without a number, and of what is none though PyTorch wrote it.
	opHeads   = [][]byte{[]byte("aten::"), []byte("torch::"), []byte("c10d::"), []byte("prim::"), []byte("prims::"), []byte("autograd::"), []byte("torch.ops.")}
	annoHeads = [][]byte{[]byte("ProfilerStep#"), []byte("enumerate(DataLoader)#"), []byte("Optimizer."), []byte("nccl:"), []byte("gloo:"), []byte("FSDP::"), []byte("DDP::")}
)

// operator takes apart what emit_nvtx writes: "aten::mm, seq = 5, op_id = 12, sizes = [[2, 3], [3, 4]], input_op_ids = ...". A range that
// is no operator keeps its text, less such a tail.
func operator(text []byte) (name, sizes []byte, op bool) {
	name = text
	tail := false
	seq := bytes.Index(text, seqWord)
	for _, at := range []int{seq, bytes.Index(text, idWord), bytes.Index(text, sizesWord)} {
		if at > 0 && at < len(name) {
			name, tail = text[:at], true
		}
	}
	if tail {
		if i := bytes.Index(text[len(name):], sizesWord); i >= 0 {
			sizes = brackets(text[len(name)+i+len(sizesWord)-1:])
		}
	}
	for _, h := range annoHeads {
		if bytes.HasPrefix(name, h) {
			return name, nil, false
		}
	}
	for _, h := range opHeads {
		if bytes.HasPrefix(name, h) {
			return name, sizes, true
		}
	}
	if !tail {
		return name, nil, false
	}
	// A name of the user's own (record_function) has a tail as well; operators are identifiers with a namespace, functions of autograd,
	// and operators in place.
	op = seq > 0 || string(name) == "record_param_comms" || identifier(name) && (bytes.Contains(name, []byte("::")) || bytes.Contains(name, []byte("Backward")) || name[len(name)-1] == '_')
	return name, sizes, op
}

func identifier(b []byte) bool {
	for _, c := range b {
		if c != '_' && c != ':' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(b) > 0
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

// comms gathers what NCCL's ranges say of collectives and communicators.
type comms struct {
	groups map[groupKey]group
}

type groupKey struct {
	proc int64
	id   timeline.StringID // communicator
}

type group struct{ rank, size int64 }

// maxRanks is more than any communicator has: what states more is damaged.
const maxRanks = 1_000_000

// add reads the payload of a range: {"NCCL communicator ID":7,"Message size [bytes]":24,"Reduction operation":"Sum"}.
func (c *comms) add(r *reader, i int32, s timeline.Span, name string, json []byte) {
	id, ok := field(json, `"NCCL communicator ID":`)
	if !ok {
		return
	}
	if c.groups == nil {
		c.groups = map[groupKey]group{}
	}
	names := &r.b.TL.Names
	comm := names.IDOf(id)
	if size, ok := number(json, `"No. of ranks":`); ok {
		if rank, ok := number(json, `"Rank":`); ok && size > 0 && size < 1<<24 && rank < size && len(c.groups) < 1<<16 {
			c.groups[groupKey{r.raw[s.Track].proc, comm}] = group{rank, size}
		}
		return
	}
	n, ok := number(json, `"Message size [bytes]":`)
	if !ok || n > 1<<46 {
		return
	}
	row := timeline.Comm{Span: i, Collective: names.IDOf(name), DType: names.IDOf("byte"), InElems: n, OutElems: n, Group: comm, Rank: -1, Src: -1, Dst: -1, Seq: -1}
	if peer, ok := number(json, `"Peer rank":`); ok && peer < 1<<24 {
		switch name {
		case "ncclSend":
			row.Dst = int32(peer)
		case "ncclRecv":
			row.Src = int32(peer)
		}
	}
	r.b.AddComm(row)
}

// field gives the digits behind a key.
func field(json []byte, key string) (string, bool) {
	i := bytes.Index(json, []byte(key))
	if i < 0 {
		return "", false
	}
	b := bytes.TrimLeft(json[i+len(key):], " ")
	n := 0
	for n < len(b) && n < 20 && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return string(b[:n]), n > 0
}

func number(json []byte, key string) (int64, bool) {
	s, ok := field(json, key)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}

// finish completes the collectives by the size of their communicator, and what one side of them counts.
func (c *comms) finish(r *reader) {
	names := &r.b.TL.Names
	r.b.EachComm(func(row *timeline.Comm) {
		s := r.b.SpanAt(row.Span)
		g, ok := c.groups[groupKey{r.raw[s.Track].proc, row.Group}]
		n := int64(-1)
		if ok = ok && g.size <= maxRanks; ok {
			row.GroupSize, row.Rank = int32(g.size), int32(g.rank)
			n = g.size
		}
		total := int64(-1)
		if n > 0 && row.InElems <= 1<<46/n {
			total = row.InElems * n
		}
		switch names.Get(row.Collective) { // the size is that of one rank's part
		case "ncclAllGather":
			row.OutElems = total
		case "ncclReduceScatter":
			row.InElems = total
		}
	})
}

// rank gives the rank in the biggest communicator of a process.
func (c *comms) rank(proc int64) (rank int, ok bool) {
	best, clear := group{-1, 1}, true
	for k, g := range c.groups {
		switch {
		case k.proc != proc:
		case g.size > best.size:
			best, clear = g, true
		case g.size == best.size && g.rank != best.rank:
			clear = false // several of one size that disagree
		}
	}
	return int(best.rank), clear && best.rank >= 0
}
