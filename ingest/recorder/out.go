package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// out is the file that is written, and its parts. Every batch is one write call of whole records, flushed through the compressor, so that
// what a killed recorder leaves behind ends with a whole batch, or inside the last one at worst.
type out struct {
	path   string // of the first part
	rotate int64  // a part that has so many bytes is the last to grow; 0 never
	head   func(part int) []byte
	tail   func(part int) []byte // the last record of a part, before the next one

	part    int
	name    string // of the current part
	f       *os.File
	enc     encoder // nil: plain
	buf     bytes.Buffer
	size    int64 // bytes of whole batches in the current part
	stored  int64 // bytes of all parts
	raw     int64 // before compression
	records int64
	broken  error // no more can be written
}

type encoder interface {
	io.Writer
	Flush() error
	Close() error
}

// create makes the first part and writes its head.
func create(path string, rotate int64, head, tail func(part int) []byte) (*out, error) {
	o := &out{path: path, rotate: rotate, head: head, tail: tail}
	if err := o.next(); err != nil {
		return nil, err
	}
	return o, nil
}

// partName gives run.002.jsonl.zst for the second part of run.jsonl.zst.
func partName(path string, part int) string {
	if part == 1 {
		return path
	}
	rest, ext := path, ""
	for _, e := range []string{".gz", ".zst", ".jsonl"} {
		if r, ok := strings.CutSuffix(rest, e); ok {
			rest, ext = r, e+ext
		}
	}
	return fmt.Sprintf("%s.%03d%s", rest, part, ext)
}

func (o *out) next() error {
	if o.part > 0 {
		if err := o.put(o.tail(o.part + 1)); err != nil {
			return err
		}
	}
	if err := o.finishPart(); err != nil {
		return err
	}
	o.part++
	o.name = partName(o.path, o.part)
	f, err := os.OpenFile(o.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s: it is there already, and a recording is never overwritten: name another with -o", o.name)
	}
	if err != nil {
		return err
	}
	o.f, o.size = f, 0
	o.buf.Reset()
	switch {
	case strings.HasSuffix(o.name, ".gz"):
		o.enc, err = gzip.NewWriterLevel(&o.buf, gzip.BestSpeed)
	case strings.HasSuffix(o.name, ".zst"):
		o.enc, err = zstd.NewWriter(&o.buf, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	}
	if err != nil {
		return err
	}
	return o.put(o.head(o.part))
}

// write appends whole records.
func (o *out) write(batch []byte) error {
	if o.broken != nil || len(batch) == 0 {
		return o.broken
	}
	return o.put(batch)
}

// full tells whether the part is to end with the next batch.
func (o *out) full() bool { return o.rotate > 0 && o.size >= o.rotate }

// turn begins the next part.
func (o *out) turn() error {
	if o.broken != nil {
		return o.broken
	}
	if err := o.next(); err != nil {
		return o.fail(err)
	}
	return nil
}

func (o *out) put(batch []byte) error {
	o.raw += int64(len(batch))
	o.records += int64(bytes.Count(batch, []byte("\n")))
	if o.enc == nil {
		return o.store(batch)
	}
	if _, err := o.enc.Write(batch); err != nil {
		return o.fail(err)
	}
	if err := o.enc.Flush(); err != nil {
		return o.fail(err)
	}
	return o.store(o.buf.Bytes())
}

// store writes to the file. What a full disk took of a batch is cut off again: the file ends with the batch before.
func (o *out) store(b []byte) error {
	n, err := o.f.Write(b)
	o.buf.Reset()
	if err != nil {
		if n > 0 {
			_ = o.f.Truncate(o.size) // at worst a torn last line stays, which readers accept
		}
		return o.fail(err)
	}
	o.size += int64(n)
	o.stored += int64(n)
	return nil
}

func (o *out) fail(err error) error {
	if o.broken == nil {
		what := err
		var pe *os.PathError
		if errors.As(err, &pe) {
			what = pe.Err
		}
		o.broken = fmt.Errorf("%s: %w: the recording ends here, and what was written before can be read; make room, or name another disk with -o", o.name, what)
	}
	return o.broken
}

// finishPart ends the stream of the current part.
func (o *out) finishPart() error {
	if o.f == nil {
		return nil
	}
	var err error
	if o.enc != nil && o.broken == nil {
		if err = o.enc.Close(); err == nil {
			err = o.store(o.buf.Bytes())
		}
	}
	o.enc = nil
	if cerr := o.f.Close(); err == nil && cerr != nil {
		err = o.fail(cerr)
	}
	o.f = nil
	return err
}

// close ends the file.
func (o *out) close() error {
	err := o.finishPart()
	if o.broken != nil {
		return o.broken
	}
	return err
}
