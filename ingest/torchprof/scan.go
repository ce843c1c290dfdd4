package torchprof

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpureport/ingest/timeline"
)

// rec is one event that makes a span. Name and track are numbers of the scanner's own tables; start has no base added.
type rec struct {
	start, dur       int64
	link             uint64
	name, track, row uint32
	kind             timeline.SpanKind
}

// rawTrack is what the file says of where an event ran.
type rawTrack struct {
	place    place
	pid, tid int64  // device and stream for onStream; -1 unknown
	name     string // of a thread that is no number
}

// mark is an instant; name as in rec.
type mark struct {
	at        int64
	name, row uint32
	pid       int64
}

// threadName is what an M event says.
type threadName struct {
	pid, tid int64
	process  bool
	name     string
}

// fault is one kind of defect, counted; off is the byte offset of the first in the buffer.
type fault struct {
	n, off int64
}

type faultKind int

// Defects and the like, in the order of their reports.
const (
	fBadEvent faultKind = iota
	fNotEvent
	fNoTime
	fNoDur
	fNegative
	fAbsurd
	fZeroKernel
	fPhase
	fCategory
	fOldCUDA
	nFaults
)

// kernelArgs is how the kernel of record span was launched.
type kernelArgs struct {
	span   int32
	launch timeline.Launch
}

// skipped counts what is read and not stored.
type skipped struct {
	flows, metadata, counters, memory, instants, ignored int64
}

// result is what scan found in one buffer. Numbers of names and tracks are the scanner's, side rows' Span is the index
// in recs.
type result struct {
	recs    []rec
	copies  []timeline.Copy
	kernels []kernelArgs
	comms   []timeline.Comm // StringIDs are the scanner's
	shapes  []timeline.Shape
	marks   []mark
	windows []timeline.Interval // of Trace events, no base added
	threads []threadName
	names   []string   // new since the last result of the same scanner
	tracks  []rawTrack // likewise

	events   uint32 // all of them, those that gave nothing too
	consumed int    // bytes dealt with; the rest needs what follows
	ended    bool   // the array was closed
	cut      bool   // the input ends inside an event, at consumed
	fraction bool   // a stamp has a fraction
	legacy   bool
	launches bool // a call has the launch geometry
	faults   [nFaults]fault
	words    []string // what the first unknown phases and categories were
	skipped  skipped
}

func (r *result) reset() {
	*r = result{recs: r.recs[:0], copies: r.copies[:0], kernels: r.kernels[:0], comms: r.comms[:0], shapes: r.shapes[:0],
		marks: r.marks[:0], windows: r.windows[:0], threads: r.threads[:0], names: r.names[:0], tracks: r.tracks[:0]}
}

func (r *result) fault(k faultKind, off int) {
	f := &r.faults[k]
	if f.n == 0 {
		f.off = int64(off)
	}
	f.n++
}

// word keeps the first few unknown words of each scanner's buffer for the message.
func (r *result) word(kind string, w []byte) {
	if len(r.words) >= 8 || len(w) > 64 {
		return
	}
	s := kind + " " + strings.ToValidUTF8(string(w), "\uFFFD")
	for _, have := range r.words {
		if have == s {
			return
		}
	}
	r.words = append(r.words, s)
}

const (
	// maxEvent bounds one event: a longer one is damage that swallowed its neighbours.
	maxEvent = 4 << 20
	// maxWaste bounds how often such a one is looked for, so that a hostile file costs no square of its size.
	maxWaste = 256
	// Shapes are kept as texts; a longer one, or more of them in all, is left out.
	maxShape, maxShapes = 4 << 10, 48 << 20
	// maxTracks bounds threads and streams of one scanner; the rest of them share one.
	maxTracks = 1 << 16
)

// scanner turns a buffer of the event array into recs. One a worker: its tables of names and tracks grow with the file.
type scanner struct {
	ev  event
	arg args
	res *result

	cache  []cached
	ids    map[string]uint32
	keys   []string // by number, as in ids
	shapes int      // bytes of shape texts kept

	trackIDs  map[trackKey]uint32
	lastKey   [3]trackKey
	lastTrack [3]uint32
	lastCat   namedCategory
	cats      map[string]namedCategory
	scratch   []byte
	waste     int
}

type cached struct {
	s  string
	id uint32
}

const cacheBits = 12

type namedCategory struct {
	text string // as in the file
	category
}

type trackKey struct {
	place    place
	pid, tid int64
	name     uint32
}

func newScanner() *scanner {
	s := &scanner{cache: make([]cached, 1<<cacheBits), ids: map[string]uint32{}, trackIDs: map[trackKey]uint32{}, cats: map[string]namedCategory{}, keys: []string{""}}
	for i := range s.lastTrack {
		s.lastTrack[i] = ^uint32(0)
	}
	return s
}

// event holds the members of the event at hand, as they are in the buffer.
type event struct {
	ph               byte
	long             bool // ph has more than one letter
	flow             bool // skipped whole
	hasPh, hasCat    bool
	parsedArgs       bool
	cat              category
	name             []byte // escapes not resolved
	pid, tid         int64
	pidText, tidText []byte // where they are no numbers
	ts, dur          number
	args             []byte
}

// args holds the arguments we know.
type args struct {
	device, stream    int64
	hasDevice         bool
	hasStream         bool
	link              int64
	bytes             int64
	grid, block       [3]int32
	node              int64
	kind              []byte
	dims, types, conc []byte
	hasComm           bool // comm was reset for this event
	comm              commArgs
}

// commArgs are the arguments of collectives, apart because few events have them.
type commArgs struct {
	collective         []byte
	dtype, group, desc []byte
	ranks              []byte
	inSplit, outSplit  []byte
	inElems, outElems  int64
	groupSize          int64
	rank, src, dst     int64
	seq                int64
}

// scan reads the events in d, which starts between two events. With final, nothing follows d.
func (s *scanner) scan(d []byte, final bool, res *result) {
	s.res = res
	res.reset()
	i := 0
	for {
		for i < len(d) && (d[i] <= ' ' || d[i] == ',') {
			i++
		}
		if i == len(d) {
			res.consumed = i
			return
		}
		next := bad
		switch d[i] {
		case ']':
			res.ended, res.consumed = true, i+1
			return
		case '{':
			if next = s.event(d, i); next > 0 {
				res.events++
				i = next
				continue
			}
		default:
			if next = skipValue(d, i); next > 0 && !colon(d, next) {
				res.fault(fNotEvent, i)
				res.events++
				i = next
				continue
			}
		}
		if next == more && !final && len(d)-i < maxEvent {
			res.consumed = i
			return
		}
		j := -1
		if next != more || s.waste < maxWaste {
			j = resync(d, i+1)
		}
		if next == more {
			s.waste++
		}
		switch {
		case j >= 0:
		case final:
			if j = tailKey(d, i); j >= 0 {
				if d[i] == '{' {
					res.fault(fBadEvent, i)
					res.events++
				}
				res.ended, res.consumed = true, j
				return
			}
			if next == more {
				res.cut, res.consumed = true, i
				return
			}
			j = len(d)
		case len(d)-i < maxEvent:
			res.consumed = i // the next event may be in what follows
			return
		default:
			j = len(d)
		}
		res.fault(fBadEvent, i)
		res.events++
		i = j
	}
}

// colon tells whether a colon follows, so that what was skipped was a key: the array was never closed.
func colon(d []byte, i int) bool {
	i = blanks(d, i)
	return i < len(d) && d[i] == ':'
}

// eventKeys begin an event in any writer seen.
var eventKeys = []string{"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}

// resync gives the next place at or after i where an event seems to start: a brace after a comma or an opening bracket,
// followed by a key of events. It covers both the one-line and the indented writers.
func resync(d []byte, i int) int {
	for {
		j := bytes.IndexByte(d[min(i, len(d)):], '{')
		if j < 0 {
			return -1
		}
		at := i + j
		i = at + 1
		k := at - 1
		for k >= 0 && d[k] <= ' ' {
			k--
		}
		if k < 0 || d[k] != ',' && d[k] != '[' && d[k] != '}' {
			continue
		}
		k = blanks(d, at+1)
		if k >= len(d) || d[k] != '"' {
			continue
		}
		for _, key := range eventKeys {
			if end := k + 1 + len(key); end < len(d) && d[end] == '"' && string(d[k+1:end]) == key && colon(d, end+1) {
				return at
			}
		}
	}
}

// tailKeys follow the events in files whose array we could not see closed.
var tailKeys = []string{`"displayTimeUnit"`, `"baseTimeNanoseconds"`, `"traceName"`, `"distributedInfo"`, `"deviceProperties"`, `"schemaVersion"`}

func tailKey(d []byte, i int) int {
	first := -1
	for _, key := range tailKeys {
		if j := bytes.Index(d[i:], []byte(key)); j >= 0 && (first < 0 || i+j < first) {
			first = i + j
		}
	}
	return first
}

// event reads the event at i and gives the index after it.
func (s *scanner) event(d []byte, i int) int {
	start := i
	e := &s.ev
	*e = event{pid: -1, tid: -1}
	if i = s.header(d, i+1); i < 0 {
		return i
	}
	if e.flow {
		return i
	}
	for {
		for i < len(d) && (d[i] <= ' ' || d[i] == ',') {
			i++
		}
		if i >= len(d) {
			return more
		}
		if d[i] == '}' {
			i++
			break
		}
		if d[i] != '"' {
			return bad
		}
		i++
		k := stringEnd(d, i)
		if k < 0 {
			return k
		}
		key := d[i:k]
		if len(key) > 4 && bytes.IndexByte(key, '\\') >= 0 {
			key = unescape(key)
		}
		i = k + 1
		if i < len(d) && d[i] != ':' {
			i = blanks(d, i)
		}
		if i >= len(d) {
			return more
		}
		if d[i] != ':' {
			return bad
		}
		i++
		if i < len(d) && d[i] == ' ' {
			i++
		}
		if i < len(d) && d[i] <= ' ' {
			i = blanks(d, i)
		}
		if i >= len(d) {
			return more
		}
		if i = s.member(d, i, key); i < 0 {
			return i
		}
		if e.ph == 's' || e.ph == 'f' {
			if j := flowEnd(d, i); j > 0 {
				s.res.skipped.flows++
				return j
			}
		}
	}
	s.emit(start)
	return i
}

// header reads the members that come first, as long as they come in the order and spelling of the profiler's own writer. It
// gives the index after the last value read; event goes on there in the general way.
func (s *scanner) header(d []byte, i int) int {
	e := &s.ev
	i = blanks(d, i)
	const first = `"ph": "X"`
	if i+len(first) > len(d) || string(d[i:i+7]) != first[:7] || d[i+8] != '"' || d[i+7] == '\\' {
		return i
	}
	e.hasPh, e.ph = true, d[i+7]
	i += len(first)
	switch e.ph {
	case 'X':
	case 's', 'f':
		if j := flowEnd(d, i); j > 0 {
			s.res.skipped.flows++
			e.flow = true
			return j
		}
		return i
	default:
		return i
	}
	j := after(d, i, `"cat": "`)
	if j < 0 {
		return i
	}
	if i = s.member(d, j-1, keyCat); i < 0 {
		return i
	}
	if j = after(d, i, `"name": "`); j < 0 {
		return i
	}
	if i = s.member(d, j-1, keyName); i < 0 {
		return i
	}
	if j = after(d, i, `"pid": `); j < 0 {
		return i
	}
	if e.pid, e.pidText, i = identity(d, j); i < 0 {
		return i
	}
	if j = after(d, i, `"tid": `); j < 0 {
		return i
	}
	if e.tid, e.tidText, i = identity(d, j); i < 0 {
		return i
	}
	if j = after(d, i, `"ts": `); j < 0 {
		return i
	}
	if e.ts, i = micros(d, j); i < 0 {
		return i
	}
	if j = after(d, i, `"dur": `); j < 0 {
		return i
	}
	if e.dur, i = micros(d, j); i < 0 {
		return i
	}
	if j = after(d, i, `"args": {`); j < 0 {
		return i
	}
	return s.member(d, j-1, keyArgs)
}

var keyCat, keyName, keyArgs = []byte("cat"), []byte("name"), []byte("args")

// after gives the index after a comma and what must follow it, -1 if something else does.
func after(d []byte, i int, want string) int {
	if i >= len(d) || d[i] != ',' {
		return -1
	}
	i++
	if i < len(d) && d[i] == ' ' {
		i++
	}
	if i < len(d) && d[i] <= ' ' {
		i = blanks(d, i)
	}
	if end := i + len(want); end <= len(d) && string(d[i:end]) == want {
		return end
	}
	return -1
}

// flowEnd gives the index after a flow event of which i is past the phase: nothing of it is stored. Without a brace or an
// escape, and with whole strings only, the next closing brace ends it. 0: read it the long way.
func flowEnd(d []byte, i int) int {
	j := bytes.IndexByte(d[i:min(len(d), i+512)], '}')
	if j < 0 {
		return 0
	}
	body := d[i : i+j]
	quotes := 0
	for len(body) >= 8 {
		w := binary.LittleEndian.Uint64(body)
		if hasByte(w, '{') || hasByte(w, '\\') || hasByte(w, '[') {
			return 0
		}
		quotes += countQuotes(w)
		body = body[8:]
	}
	for _, c := range body {
		switch c {
		case '{', '\\', '[':
			return 0
		case '"':
			quotes++
		}
	}
	if quotes%2 != 0 {
		return 0
	}
	return i + j + 1
}

func hasByte(w uint64, c uint64) bool {
	w ^= c * ones
	return (w-ones)&^w&highs != 0
}

// countQuotes counts exactly, unlike a borrow-based test.
func countQuotes(w uint64) int {
	w ^= quotes
	t := w&^highs + ^uint64(highs)
	return bits.OnesCount64(^(t | w | ^uint64(highs)))
}

// member reads the value of key at i.
func (s *scanner) member(d []byte, i int, key []byte) int {
	e := &s.ev
	switch string(key) {
	case "ph":
		if d[i] == '"' {
			if i+2 < len(d) && d[i+2] == '"' && d[i+1] != '\\' {
				e.hasPh, e.ph, e.long = true, d[i+1], false
				return i + 3
			}
			j := stringEnd(d, i+1)
			if j < 0 {
				return j
			}
			e.hasPh, e.ph, e.long = j > i+1, d[i+1], j > i+2
			return j + 1
		}
	case "cat":
		if d[i] == '"' {
			j := stringEnd(d, i+1)
			if j < 0 {
				return j
			}
			if text := d[i+1 : j]; string(text) != s.lastCat.text {
				s.lastCat = s.category(text)
			}
			e.cat, e.hasCat = s.lastCat.category, true
			return j + 1
		}
	case "name":
		if d[i] == '"' {
			j := stringEnd(d, i+1)
			if j < 0 {
				return j
			}
			e.name = d[i+1 : j]
			return j + 1
		}
		e.name = nil
	case "ts":
		e.ts, i = micros(d, i)
		return i
	case "dur":
		e.dur, i = micros(d, i)
		return i
	case "pid":
		e.pid, e.pidText, i = identity(d, i)
		return i
	case "tid":
		e.tid, e.tidText, i = identity(d, i)
		return i
	case "args":
		e.args, e.parsedArgs = nil, false
		if d[i] != '{' {
			break
		}
		if e.hasCat && e.ph == 'X' && e.cat.args != noArgs {
			e.parsedArgs = true
			return s.arguments(d, i, e.cat.args)
		}
		j := skipNested(d, i)
		if j > 0 {
			e.args = d[i:j]
		}
		return j
	}
	return skipValue(d, i)
}

// category finds what a cat means; categories are few, and a file that has many of its own is not remembered.
func (s *scanner) category(text []byte) namedCategory {
	c, ok := s.cats[string(text)]
	if !ok {
		c = namedCategory{string(text), categoryOf(unescape(text))}
		if len(s.cats) < 256 {
			s.cats[c.text] = c
		}
	}
	return c
}

// identity reads a pid or tid: a number, a text that ends in one, or a text.
func identity(d []byte, i int) (int64, []byte, int) {
	v, ok, j := integer(d, i)
	if j < 0 || ok {
		return v, nil, j
	}
	if d[i] == '"' {
		return -1, d[i+1 : j-1], j
	}
	return -1, nil, j
}

// arguments reads the object at i for what mode wants and gives the index after it.
func (s *scanner) arguments(d []byte, i int, mode argsMode) int {
	a := &s.arg
	a.device, a.stream, a.hasDevice, a.hasStream, a.link, a.bytes = -1, -1, false, false, 0, -1
	a.grid, a.block, a.node, a.kind = [3]int32{}, [3]int32{}, 0, nil
	a.dims, a.types, a.conc, a.hasComm = nil, nil, nil, false
	i++
	for {
		for i < len(d) && (d[i] <= ' ' || d[i] == ',') {
			i++
		}
		if i >= len(d) {
			return more
		}
		if d[i] == '}' {
			return i + 1
		}
		if d[i] != '"' {
			return bad
		}
		i++
		k := stringEnd(d, i)
		if k < 0 {
			return k
		}
		key := d[i:k]
		i = k + 1
		if i < len(d) && d[i] != ':' {
			i = blanks(d, i)
		}
		if i >= len(d) {
			return more
		}
		if d[i] != ':' {
			return bad
		}
		i++
		if i < len(d) && d[i] == ' ' {
			i++
		}
		if i < len(d) && d[i] <= ' ' {
			i = blanks(d, i)
		}
		if i >= len(d) {
			return more
		}
		if len(key) > 0 && wanted[mode][key[0]]>>(len(key)&31)&1 != 0 {
			i = s.argument(d, i, key)
		} else if class[d[i]] == plain {
			i = skipBare(d, i)
		} else {
			i = skipValue(d, i)
		}
		if i < 0 {
			return i
		}
	}
}

// argumentsOf are the arguments that a mode reads. Nobody writes their names with escapes.
var argumentsOf = [...][]string{
	deviceArgs: append([]string{"device", "stream", "correlation", "bytes", "grid", "block", "graph node id", "kind"}, commNames...),
	apiArgs:    {"correlation", "bytes", "size", "grid", "block"},
	opArgs:     append([]string{"Input Dims", "Input dims", "Input type", "Concrete Inputs"}, commNames...),
}

var commNames = []string{"Collective name", "dtype", "In msg nelems", "Out msg nelems", "In split size", "Out split size", "Group size",
	"Process Group Name", "Process Group Description", "Process Group Ranks", "Rank", "Src Rank", "Dst Rank", "Seq"}

// wanted has the lengths, as bits, of the arguments that a mode reads, by their first letter: most others fall here.
var wanted = func() (w [len(argumentsOf)][256]uint32) {
	for mode, names := range argumentsOf {
		for _, n := range names {
			w[mode][n[0]] |= 1 << len(n)
		}
	}
	return w
}()

func (s *scanner) argument(d []byte, i int, key []byte) int {
	a := &s.arg
	switch string(key) {
	case "device":
		a.device, a.hasDevice, i = integer(d, i)
	case "stream":
		a.stream, a.hasStream, i = integer(d, i)
	case "correlation":
		a.link, _, i = integer(d, i)
	case "bytes", "size":
		a.bytes, i = count(d, i)
	case "grid":
		a.grid, i = dims(d, i)
	case "block":
		a.block, i = dims(d, i)
	case "graph node id":
		a.node, _, i = integer(d, i)
	case "kind":
		a.kind, i = text(d, i)
	case "Input Dims", "Input dims":
		a.dims, i = raw(d, i)
	case "Input type":
		a.types, i = raw(d, i)
	case "Concrete Inputs":
		a.conc, i = raw(d, i)
	default:
		return s.commArgument(d, i, key)
	}
	return i
}

func (s *scanner) commArgument(d []byte, i int, key []byte) int {
	a := &s.arg.comm
	if !s.arg.hasComm {
		s.arg.hasComm = true
		*a = commArgs{inElems: -1, outElems: -1, rank: -1, src: -1, dst: -1, seq: -1}
	}
	switch string(key) {
	case "Collective name":
		a.collective, i = text(d, i)
	case "dtype":
		a.dtype, i = text(d, i)
	case "In msg nelems":
		a.inElems, i = count(d, i)
	case "Out msg nelems":
		a.outElems, i = count(d, i)
	case "In split size":
		a.inSplit, i = text(d, i)
	case "Out split size":
		a.outSplit, i = text(d, i)
	case "Group size":
		a.groupSize, i = count(d, i)
	case "Process Group Name":
		a.group, i = text(d, i)
	case "Process Group Description":
		a.desc, i = text(d, i)
	case "Process Group Ranks":
		a.ranks, i = text(d, i)
	case "Rank":
		a.rank, i = count(d, i)
	case "Src Rank":
		a.src, i = count(d, i)
	case "Dst Rank":
		a.dst, i = count(d, i)
	case "Seq":
		a.seq, i = count(d, i)
	default:
		return skipValue(d, i)
	}
	return i
}

// count reads a number that is never negative; -1 if it is, or is none.
func count(d []byte, i int) (int64, int) {
	v, ok, j := integer(d, i)
	if !ok || v < 0 {
		v = -1
	}
	return v, j
}

// raw is the value as written.
func raw(d []byte, i int) ([]byte, int) {
	j := skipValue(d, i)
	if j < 0 {
		return nil, j
	}
	return d[i:j], j
}

// text is a string without its quotes, or another value as written.
func text(d []byte, i int) ([]byte, int) {
	v, j := raw(d, i)
	if j > 0 && v[0] == '"' {
		v = v[1 : len(v)-1]
	}
	return v, j
}

var (
	memoryName    = []byte("[memory]")
	iterationName = []byte("Iteration Start")
	windowEndName = []byte("Record Window End")
	cpuFunctions  = []byte("CPU functions")
	cudaFunctions = []byte("CUDA functions")
	commOp        = []byte("record_param_comms")
)

// emit turns the event at hand into a rec, a mark or a count. off is where it starts, for problems.
func (s *scanner) emit(off int) {
	e, r := &s.ev, s.res
	if e.long || !e.hasPh {
		e.ph = 0
	}
	switch e.ph {
	case 'X':
		s.complete(off)
	case 's', 'f', 't':
		r.skipped.flows++
	case 'M':
		r.skipped.metadata++
		s.metadata()
	case 'C':
		r.skipped.counters++
	case 'i', 'I', 'R', 'P':
		switch {
		case bytes.HasPrefix(e.name, memoryName):
			r.skipped.memory++
		case e.ts.ok && (bytes.HasPrefix(e.name, iterationName) || bytes.HasPrefix(e.name, windowEndName)):
			r.fraction = r.fraction || e.ts.frac
			r.marks = append(r.marks, mark{at: e.ts.v, name: s.name(e.name), row: r.events, pid: e.pid})
		default:
			r.skipped.instants++
		}
	default:
		r.fault(fPhase, off)
		if e.ph == 0 {
			r.word("phase", nil)
		} else {
			r.word("phase", []byte{e.ph})
		}
	}
}

func (s *scanner) metadata() {
	e := &s.ev
	process := false
	switch string(e.name) {
	case "thread_name":
	case "process_name":
		process = true
	default:
		return
	}
	i := bytes.Index(e.args, []byte(`"name"`))
	if i < 0 || len(s.res.threads) >= 4096 {
		return
	}
	i = blanks(e.args, i+len(`"name"`))
	if i >= len(e.args) || e.args[i] != ':' {
		return
	}
	v, j := text(e.args, blanks(e.args, i+1))
	if j < 0 || len(v) == 0 || len(v) > 256 || bytes.HasPrefix(v, []byte("stream ")) {
		return
	}
	s.res.threads = append(s.res.threads, threadName{e.pid, e.tid, process, strings.TrimSpace(decode(v))})
}

// longest is beyond any capture; the clamp of Finish is finer.
const longest = 1e17

// complete handles an X event.
func (s *scanner) complete(off int) {
	e, r := &s.ev, s.res
	cat := e.cat
	if !e.hasCat {
		cat = category{timeline.KindOther, onOther, noArgs, unknownCat}
		if bytes.Equal(e.pidText, cpuFunctions) {
			r.legacy = true
			cat = category{timeline.KindOp, onHost, noArgs, ordinary}
		} else if bytes.Equal(e.pidText, cudaFunctions) {
			r.legacy = true
			r.fault(fOldCUDA, off)
			return
		}
	}
	if cat.role == ignored {
		r.skipped.ignored++
		return
	}
	if !e.ts.ok || e.ts.v > 8e18 || e.ts.v < -8e18 {
		r.fault(fNoTime, off)
		return
	}
	r.fraction = r.fraction || e.ts.frac || e.dur.frac
	dur := e.dur.v
	switch {
	case !e.dur.ok && dur == 0:
		r.fault(fNoDur, off)
		dur = 0
	case dur < 0:
		r.fault(fNegative, off)
		dur = 0
	case dur > longest:
		r.fault(fAbsurd, off)
		dur = 0
	}
	switch cat.role {
	case traceWindow:
		r.windows = append(r.windows, timeline.Interval{Start: timeline.Time(e.ts.v), End: timeline.Time(e.ts.v + dur)})
		return
	case unknownCat:
		r.fault(fCategory, off)
		r.word("category", []byte(s.catText()))
	case oldOperator:
		if isAnnotation(e.name) {
			cat.kind, cat.args = timeline.KindAnnotation, noArgs
		}
	}
	if cat.kind.IsDeviceOp() && e.ts.v == 0 && dur == 0 {
		r.fault(fZeroKernel, off)
		return
	}
	if cat.args != noArgs && !e.parsedArgs {
		if e.args != nil {
			s.arguments(e.args, 0, cat.args)
		} else {
			s.arguments(noArguments, 0, cat.args)
		}
	}
	a := &s.arg
	rc := rec{start: e.ts.v, dur: dur, name: s.name(e.name), row: r.events, kind: cat.kind}
	switch cat.place {
	case onStream:
		dev, stream := e.pid, e.tid
		if a.hasDevice {
			dev = a.device
		}
		if a.hasStream {
			stream = a.stream
		} else if cat.kind == timeline.KindSync && stream >= 1e6 {
			stream -= 1e6 // where Stream Sync sits since 2026-04
		}
		rc.track = s.track(onStream, max(dev, -1), max(stream, -1), nil)
	default:
		tid := e.tid
		if cat.kind == timeline.KindOverhead && e.pid == -1 {
			tid = -1
		}
		rc.track = s.track(cat.place, e.pid, tid, e.tidText)
	}
	if cat.args == deviceArgs || cat.args == apiArgs {
		if a.link > 0 {
			rc.link = uint64(a.link)
		}
	}
	n := int32(len(r.recs))
	r.recs = append(r.recs, rc)
	s.side(n, cat)
}

var noArguments = []byte("{}")

// catText is the category's text, "" where the event has none.
func (s *scanner) catText() string {
	if !s.ev.hasCat {
		return ""
	}
	return s.lastCat.text
}

// side adds the side rows of rec n.
func (s *scanner) side(n int32, cat category) {
	r, a, e := s.res, &s.arg, &s.ev
	launch := a.grid != [3]int32{} || a.block != [3]int32{}
	switch {
	case cat.kind == timeline.KindKernel:
		if launch || a.node > 0 {
			r.kernels = append(r.kernels, kernelArgs{n, timeline.Launch{Grid: a.grid, Block: a.block, GraphNode: uint64(max(a.node, 0))}})
		}
	case cat.kind == timeline.KindMemcpy || cat.kind == timeline.KindMemset:
		c := copyOf(e.name)
		c.Span, c.Bytes = n, a.bytes
		if c.Kind == timeline.DirUnknown && len(a.kind) == 4 {
			c.Kind = direction(a.kind[0], a.kind[3])
		}
		if cat.kind == timeline.KindMemset {
			c.Kind = timeline.DirUnknown
		}
		r.copies = append(r.copies, c)
	case cat.args == apiArgs && launch: // ROCm keeps the launch here; finish moves it to the kernel
		r.launches = true
		r.kernels = append(r.kernels, kernelArgs{n, timeline.Launch{Grid: a.grid, Block: a.block}})
	case cat.args == apiArgs && a.bytes >= 0 && bytes.Contains(e.name, []byte("Mem")):
		r.copies = append(r.copies, timeline.Copy{Span: n, Bytes: a.bytes})
	case cat.args == opArgs && cat.kind == timeline.KindOp && (a.dims != nil || a.types != nil):
		s.shape(n)
	}
	if !a.hasComm {
		return
	}
	if c := &a.comm; len(c.collective) > 0 && (cat.kind == timeline.KindKernel || cat.kind == timeline.KindOp && bytes.Equal(e.name, commOp)) {
		id := func(b []byte) timeline.StringID { return timeline.StringID(s.name(b)) }
		r.comms = append(r.comms, timeline.Comm{Span: n, Collective: id(c.collective), DType: id(c.dtype), InElems: c.inElems,
			OutElems: c.outElems, GroupSize: groupSize(c.groupSize), Group: id(c.group), GroupDesc: id(c.desc),
			GroupRanks: id(c.ranks), Rank: small(c.rank), Src: small(c.src), Dst: small(c.dst), Seq: c.seq,
			InSplits: id(c.inSplit), OutSplits: id(c.outSplit)})
	}
}

// groupSize is the stated number of ranks, 0 where it cannot be one.
func groupSize(v int64) int32 {
	if v < 0 || v > maxWorld {
		return 0
	}
	return int32(v)
}

func small(v int64) int32 {
	if v > 1<<31-1 {
		return -1
	}
	return int32(v)
}

// shape adds the shapes of rec n, unless they hold no number at all.
func (s *scanner) shape(n int32) {
	a := &s.arg
	if !hasDigit(a.dims) || s.shapes > maxShapes {
		return
	}
	s.res.shapes = append(s.res.shapes, timeline.Shape{Span: n, Dims: s.list(a.dims), Types: s.list(a.types), Concrete: s.list(a.conc)})
}

func hasDigit(b []byte) bool {
	for _, c := range b {
		if c-'0' <= 9 {
			return true
		}
	}
	return false
}

// list interns a JSON list in one spelling, a blank after each comma and none elsewhere.
func (s *scanner) list(b []byte) timeline.StringID {
	if len(b) == 0 || len(b) > maxShape {
		return 0
	}
	before := len(s.keys)
	out := b
	if !spaced(b) {
		out = s.scratch[:0]
		for i := 0; i < len(b); i++ {
			switch c := b[i]; {
			case c == '"':
				j := stringEnd(b, i+1)
				if j < 0 {
					j = len(b) - 1
				}
				out = append(out, b[i:j+1]...)
				i = j
			case c <= ' ':
			case c == ',':
				out = append(out, ',', ' ')
			default:
				out = append(out, c)
			}
		}
		s.scratch = out
	}
	id := s.intern(out, false)
	if len(s.keys) > before {
		s.shapes += len(out)
	}
	return timeline.StringID(id)
}

// spaced tells whether b is spelt the usual way already, as far as it is cheap to see.
func spaced(b []byte) bool {
	if bytes.IndexByte(b, '\n') >= 0 {
		return false
	}
	i := bytes.IndexByte(b, ',')
	return i < 0 || i+1 < len(b) && b[i+1] == ' '
}

// name interns a string as it stands between its quotes.
func (s *scanner) name(b []byte) uint32 { return s.intern(b, true) }

// intern gives the number of b, resolving escapes if it is text. The cache in front of the map answers nearly always.
func (s *scanner) intern(b []byte, text bool) uint32 {
	n := len(b)
	if n == 0 {
		return 0
	}
	h := uint64(n) * 0x9e3779b97f4a7c15
	if n >= 8 {
		h ^= binary.LittleEndian.Uint64(b) * 0xff51afd7ed558ccd
		h = (h<<29 | h>>35) ^ binary.LittleEndian.Uint64(b[n-8:])*0xc4ceb9fe1a85ec53
		h = (h<<29 | h>>35) ^ binary.LittleEndian.Uint64(b[(n-8)/2:])*0x94d049bb133111eb
	} else {
		for _, c := range b {
			h = (h ^ uint64(c)) * 0x100000001b3
		}
	}
	c := &s.cache[(h^h>>31)*0x9e3779b97f4a7c15>>(64-cacheBits)]
	if c.s == string(b) {
		return c.id
	}
	id, ok := s.ids[string(b)]
	if !ok {
		key := string(b)
		id = uint32(len(s.keys))
		s.keys = append(s.keys, key)
		s.ids[key] = id
		value := key
		if text && !clean(b) {
			value = decode(b)
		} else if !text && !utf8.Valid(b) {
			value = strings.ToValidUTF8(key, "\uFFFD")
		}
		s.res.names = append(s.res.names, value)
	}
	c.s, c.id = s.keys[id], id
	return id
}

// clean tells whether b stands for itself.
func clean(b []byte) bool { return bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) }

// track gives the number of a track.
func (s *scanner) track(p place, pid, tid int64, name []byte) uint32 {
	k := trackKey{place: p, pid: pid, tid: tid}
	if len(name) > 0 {
		k.name = s.name(name)
	}
	if s.lastKey[p] == k && s.lastTrack[p] != ^uint32(0) {
		return s.lastTrack[p]
	}
	id, ok := s.trackIDs[k]
	if !ok && len(s.trackIDs) >= maxTracks && (tid != -1 || pid != -1 || k.name != 0) {
		return s.track(p, -1, -1, nil)
	}
	if !ok {
		id = uint32(len(s.trackIDs))
		s.trackIDs[k] = id
		s.res.tracks = append(s.res.tracks, rawTrack{p, pid, tid, decode(name)})
	}
	s.lastKey[p], s.lastTrack[p] = k, id
	return id
}

// unescape resolves the escapes of b; an unknown one stands for itself, as unescaped Windows paths have it.
func unescape(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' || i+1 == len(b) {
			out = append(out, c)
			continue
		}
		i++
		switch b[i] {
		case '"', '\\', '/':
			out = append(out, b[i])
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, n := escapedRune(b[i-1:])
			if n == 0 {
				out = append(out, '\\', 'u')
				continue
			}
			out = utf8.AppendRune(out, r)
			i += n - 2
		default:
			out = append(out, '\\', b[i])
		}
	}
	return out
}

// escapedRune reads \uXXXX, two of them for a surrogate pair, and gives its length; 0 if it is none.
func escapedRune(b []byte) (rune, int) {
	hex := func(b []byte) (rune, bool) {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(string(b[2:6]), 16, 32)
		return rune(v), err == nil
	}
	r, ok := hex(b)
	if !ok {
		return 0, 0
	}
	if r >= 0xd800 && r < 0xdc00 {
		if lo, ok := hex(b[6:]); ok && lo >= 0xdc00 && lo < 0xe000 {
			return (r-0xd800)<<10 + (lo - 0xdc00) + 0x10000, 12
		}
	}
	if r >= 0xd800 && r < 0xe000 {
		r = utf8.RuneError
	}
	return r, 6
}

// decode is the text that b stands for, in valid UTF-8.
func decode(b []byte) string { return strings.ToValidUTF8(string(unescape(b)), "\uFFFD") }
