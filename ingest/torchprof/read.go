package torchprof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

const (
	firstBlock, blockSize = 64 << 10, 1 << 20
	// maxMeta bounds one top-level value; pg_config of a large job is some MB.
	maxMeta = 64 << 20
)

// block is a piece of the input; off is the byte offset of its start.
type block struct {
	b   []byte
	off int64
}

// blocks cuts the input in pieces that end, if possible, between two events. The cuts depend on the bytes alone, so the
// result is the same for any number of workers.
type blocks struct {
	r    io.Reader
	rest []byte
	off  int64 // of the next block
	free chan []byte
	err  error // what ended the input, nil at a plain end
	done bool
}

// next gives the next block; ok false at the end.
func (s *blocks) next() (blk block, ok bool) {
	var buf []byte
	select {
	case buf = <-s.free:
	default:
	}
	size := blockSize
	if s.off == 0 {
		size = firstBlock
	}
	if need := len(s.rest) + size; cap(buf) < need {
		buf = make([]byte, 0, need)
	}
	buf = append(buf[:0], s.rest...)
	s.rest = s.rest[:0]
	if !s.done {
		var err error
		if buf, err = readUpTo(s.r, buf, size); err != nil {
			s.done = true
			if err != io.EOF {
				s.err = err
			}
		}
	}
	if len(buf) == 0 {
		return block{}, false
	}
	if !s.done {
		cut := lastBorder(buf)
		s.rest = append(s.rest, buf[cut:]...)
		buf = buf[:cut]
	}
	blk = block{buf, s.off}
	s.off += int64(len(buf))
	return blk, true
}

// readUpTo appends n bytes to buf, fewer only with an error. Unlike io.ReadFull it keeps the error of a damaged gzip apart
// from a plain end.
func readUpTo(r io.Reader, buf []byte, n int) ([]byte, error) {
	end := len(buf) + n
	for idle := 0; len(buf) < end; {
		m, err := r.Read(buf[len(buf):end])
		buf = buf[:len(buf)+m]
		if err != nil {
			return buf, err
		}
		if idle++; m > 0 {
			idle = 0
		} else if idle > 100 {
			return buf, io.ErrNoProgress
		}
	}
	return buf, nil
}

func (s *blocks) recycle(b []byte) {
	select {
	case s.free <- b[:0]:
	default:
	}
}

// lastBorder gives the place after the last comma in d that looks as if it stood between two events; len(d) if there is
// none nearby.
func lastBorder(d []byte) int {
	end := len(d)
	for range 256 {
		i := bytes.LastIndexByte(d[max(0, len(d)-256<<10):end], '}')
		if i < 0 {
			break
		}
		i += max(0, len(d)-256<<10)
		end = i
		k := blanks(d, i+1)
		if k >= len(d) || d[k] != ',' {
			continue
		}
		cut := k + 1
		k = blanks(d, cut)
		if k >= len(d) || d[k] != '{' {
			continue
		}
		if k = blanks(d, k+1); k < len(d) && d[k] == '"' {
			return cut
		}
	}
	return len(d)
}

// reader reads one file.
type reader struct {
	ctx  context.Context
	in   *ingest.Input
	src  *blocks
	win  []byte // bytes at hand
	pos  int    // next of them
	off  int64  // offset of win[0]
	eof  bool
	jobs int

	scan *scanner // of this goroutine
	sink sink
	meta meta
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	rc, err := in.Open()
	if err != nil {
		return err
	}
	defer rc.Close()
	r := &reader{ctx: ctx, in: in, jobs: 1, scan: newScanner()}
	if in.Opt != nil {
		r.jobs = in.Opt.Jobs
	}
	if r.jobs <= 0 {
		r.jobs = runtime.GOMAXPROCS(0)
	}
	r.src = &blocks{r: rc, free: make(chan []byte, 2*r.jobs+4)}
	r.sink.init(in, b)
	if err := r.file(); err != nil {
		return err
	}
	if e := r.src.err; e != nil {
		if r.sink.events == 0 && !errors.Is(e, io.ErrUnexpectedEOF) {
			return e
		}
		in.Report("torchprof/truncated", timeline.DataLoss, uint64(r.src.off), "the input ends at byte %d: %v; what came before is kept: copy the file again", r.src.off, e)
	}
	return r.sink.finish(&r.meta)
}

// fill adds a block to the window.
func (r *reader) fill() bool {
	if r.eof {
		return false
	}
	blk, ok := r.src.next()
	if !ok {
		r.eof = true
		return false
	}
	if r.pos == len(r.win) {
		r.win, r.off, r.pos = blk.b, blk.off, 0
		return true
	}
	r.win = append(r.win[r.pos:], blk.b...)
	r.off += int64(r.pos)
	r.pos = 0
	r.src.recycle(blk.b)
	return true
}

// peek gives the next byte that is no blank; false at the end.
func (r *reader) peek() (byte, bool) {
	for {
		r.pos = blanks(r.win, r.pos)
		if r.pos < len(r.win) {
			return r.win[r.pos], true
		}
		if !r.fill() {
			return 0, false
		}
	}
}

// value gives the value at the position and moves behind it. Valid until the next call.
func (r *reader) value() ([]byte, error) {
	for {
		j := skipValue(r.win, r.pos)
		if j == more && r.eof && r.pos < len(r.win) && class[r.win[r.pos]] == plain {
			j = len(r.win)
		}
		if j > 0 {
			v := r.win[r.pos:j]
			r.pos = j
			return v, nil
		}
		if j == bad {
			return nil, fmt.Errorf("byte %d: not JSON", r.at())
		}
		if len(r.win)-r.pos > maxMeta {
			return nil, fmt.Errorf("byte %d: a value of more than %d MiB outside traceEvents", r.at(), maxMeta>>20)
		}
		if !r.fill() {
			return nil, io.ErrUnexpectedEOF
		}
	}
}

func (r *reader) at() int64 { return r.off + int64(r.pos) }

var bom = []byte("\xef\xbb\xbf")

func (r *reader) file() error {
	r.fill()
	if bytes.HasPrefix(r.win, bom) {
		r.pos = len(bom)
	}
	c, ok := r.peek()
	if !ok {
		return errors.New("empty: record again")
	}
	switch c {
	case '[':
		r.pos++
		if err := r.events(); err != nil {
			return err
		}
		if !r.sink.ended { // the closing bracket is optional in a bare array
			if r.sink.cut {
				r.truncated()
			}
			break
		}
		r.sink.closed = true
	case '{':
		r.pos++
		if err := r.object(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("byte %d: starts with %q, a trace with { or [", r.at(), c)
	}
	if !r.sink.seen {
		return errors.New("no traceEvents: not a profiler trace, or cut before the first event")
	}
	if c, ok := r.peek(); ok && r.sink.closed {
		r.in.Report("torchprof/trailing-bytes", timeline.Info, uint64(r.at()), "byte %d: %q after the end of the trace; not read", r.at(), c)
	}
	return nil
}

// object reads the members of the top level, in whatever order.
func (r *reader) object() error {
	for {
		c, ok := r.peek()
		switch {
		case !ok:
			r.truncated()
			return nil
		case c == ',':
			r.pos++
			continue
		case c == '}':
			r.pos++
			r.sink.closed = true
			return nil
		}
		key, err := "", error(nil)
		if c == '"' {
			var v []byte
			if v, err = r.value(); err == nil {
				key = decode(v[1 : len(v)-1])
				if c, ok = r.peek(); ok && c == ':' {
					r.pos++
					c, ok = r.peek()
				} else if ok {
					err = fmt.Errorf("byte %d: no colon after %q", r.at(), key)
				}
				if !ok {
					err = io.ErrUnexpectedEOF
				}
			}
		} else {
			err = fmt.Errorf("byte %d: %q where a key should be", r.at(), c)
		}
		if err == nil && key == "traceEvents" && c == '[' {
			r.pos++
			if err := r.events(); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			var v []byte
			if v, err = r.value(); err == nil {
				r.meta.add(key, v)
				continue
			}
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			r.truncated()
			return nil
		}
		if r.sink.seen { // damage behind the events costs no event
			r.in.Report("torchprof/bad-metadata", timeline.Info, uint64(r.at()), "%v; the rest of the file is not read", err)
			return nil
		}
		if !r.seekEvents() {
			return err
		}
		r.in.Report("torchprof/bad-metadata", timeline.Info, uint64(r.at()), "%v; read on at traceEvents", err)
	}
}

func (r *reader) truncated() {
	if r.src.err != nil { // said once, with its reason
		return
	}
	r.in.Report("torchprof/truncated", timeline.DataLoss, uint64(r.off+int64(len(r.win))), "the file ends at byte %d before the trace does: the writer was killed or the disk was full; complete events are kept", r.off+int64(len(r.win)))
}

var eventsKey = []byte(`"traceEvents"`)

// seekEvents moves to the key traceEvents, whatever stands before it.
func (r *reader) seekEvents() bool {
	for {
		if i := bytes.Index(r.win[r.pos:], eventsKey); i >= 0 {
			r.pos += i
			return true
		}
		r.pos = max(r.pos, len(r.win)-len(eventsKey))
		if !r.fill() {
			return false
		}
	}
}

// job is a block on its way through a worker.
type job struct {
	block
	res  result
	done chan struct{}
	w    int
}

// events reads the array whose bracket was passed, and leaves the window behind its end.
func (r *reader) events() error {
	r.sink.seen, r.sink.ended = true, false
	if r.jobs > 1 {
		return r.parallel()
	}
	var res result
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		r.scan.scan(r.win[r.pos:], r.eof, &res)
		r.sink.merge(0, &res, r.at())
		r.pos += res.consumed
		if res.ended {
			r.sink.ended = true
			return nil
		}
		if r.eof {
			r.pos = len(r.win)
			r.sink.cut = res.cut
			return nil
		}
		if r.pos == len(r.win) {
			r.src.recycle(r.win)
		}
		r.fill()
	}
}

// parallel is events with several workers. Each scans blocks on its own; a block's result counts only if everything
// before it came out even at the block's start, else the block is scanned again here, behind what was left over.
func (r *reader) parallel() error {
	r.sink.workers(r.jobs)
	work := make(chan *job, 2*r.jobs)
	var wg sync.WaitGroup
	for w := 1; w <= r.jobs; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s := newScanner()
			for j := range work {
				j.w = w
				s.scan(j.b, false, &j.res)
				j.done <- struct{}{}
			}
		}()
	}
	stop := sync.OnceFunc(func() { close(work); wg.Wait() })
	defer stop()

	var queue, idle []*job
	send := func(b block) {
		var j *job
		if n := len(idle); n > 0 {
			j, idle = idle[n-1], idle[:n-1]
		} else {
			j = &job{done: make(chan struct{}, 1)}
		}
		j.block = b
		queue = append(queue, j)
		work <- j
	}
	var own result
	first := block{r.win[r.pos:], r.at()}
	if len(first.b) > 0 {
		send(first)
	}
	var left []byte // what the last block left over, and where it starts
	leftAt := first.off
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		for !r.eof && len(queue) < 2*r.jobs {
			blk, ok := r.src.next()
			if !ok {
				r.eof = true
				break
			}
			send(blk)
		}
		if len(queue) == 0 {
			// The end: what is left is scanned once more, now knowing that nothing follows.
			r.scan.scan(left, true, &own)
			r.sink.merge(0, &own, leftAt)
			r.win, r.off, r.pos = left, leftAt, own.consumed
			if r.sink.ended = own.ended; !own.ended {
				r.pos = len(left)
				r.sink.cut = own.cut
			}
			return nil
		}
		j := queue[0]
		queue = queue[1:]
		<-j.done
		d, at, res := j.b, j.off, &j.res
		if len(left) > 0 {
			r.sink.learn(j.w, &j.res)
			d, at = append(left, j.b...), leftAt
			res = &own
			r.scan.scan(d, false, res)
			r.sink.merge(0, res, at)
		} else {
			r.sink.merge(j.w, res, at)
		}
		if res.ended {
			r.sink.ended = true
			stop()
			win := bytes.Clone(d[res.consumed:])
			for _, q := range queue {
				win = append(win, q.b...)
			}
			r.win, r.off, r.pos = win, at+int64(res.consumed), 0
			return nil
		}
		left, leftAt = bytes.Clone(d[res.consumed:]), at+int64(res.consumed)
		r.src.recycle(j.b)
		j.b = nil
		idle = append(idle, j)
	}
}

// lenient decodes v into dst; nothing is lost but v if it does not fit.
func lenient(v []byte, dst any) bool { return json.Unmarshal(v, dst) == nil }
