package ingest

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	blockSize  = 256 << 10
	blockCount = 8
	// A stream that grows to more than bombRatio times its stored size, and past bombFloor, is refused: real traces reach some 30.
	bombRatio = 2000
	bombFloor = 1 << 30
)

// ErrBomb ends the reading of a stream that unpacks out of all proportion.
var ErrBomb = errors.New("unpacks to more than 2000 times its size: unpack it by hand if it is meant so")

type block struct {
	buf  []byte
	n    int
	refs atomic.Int32
}

// blocks keeps those of finished files for the next one.
var blocks = sync.Pool{New: func() any { return &block{buf: make([]byte, blockSize)} }}

// hashedReader reads r ahead in a goroutine of its own and hashes the bytes in a second one, so that neither costs the consumer time.
// After Close, or at the end, the sum covers all of r: what the consumer left unread is read for the hash alone.
type hashedReader struct {
	blocks chan *block // to the consumer
	free   chan *block
	cur    *block
	off    int
	err    error
	closed chan struct{}
	once   sync.Once
	done   chan struct{}

	readErr error // set before blocks is closed
	size    int64
	sum     string
}

func newHashedReader(ctx context.Context, r io.ReadCloser) *hashedReader {
	h := &hashedReader{blocks: make(chan *block, blockCount), free: make(chan *block, blockCount), closed: make(chan struct{}), done: make(chan struct{})}
	for range blockCount {
		h.free <- blocks.Get().(*block)
	}
	toHash := make(chan *block, blockCount)
	go func() { // hash
		sum := sha256.New()
		for b := range toHash {
			sum.Write(b.buf[:b.n])
			h.size += int64(b.n)
			h.release(b)
		}
		h.sum = hex.EncodeToString(sum.Sum(nil))
		close(h.done)
	}()
	go func() { // read
		var err error
		consumer := true
		for err == nil {
			if err = ctx.Err(); err != nil {
				break
			}
			b := <-h.free
			b.n, err = io.ReadFull(r, b.buf)
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			if b.n == 0 {
				h.free <- b
				break
			}
			b.refs.Store(1)
			if consumer {
				b.refs.Store(2)
				select {
				case h.blocks <- b:
				case <-h.closed:
					consumer = false
					b.refs.Store(1)
				}
			}
			toHash <- b
		}
		h.readErr = err
		close(h.blocks)
		close(toHash)
		_ = r.Close()
	}()
	return h
}

func (h *hashedReader) release(b *block) {
	if b.refs.Add(-1) == 0 {
		h.free <- b
	}
}

func (h *hashedReader) Read(p []byte) (int, error) {
	for h.cur == nil || h.off == h.cur.n {
		if h.cur != nil {
			h.release(h.cur)
			h.cur = nil
		}
		if h.err != nil {
			return 0, h.err
		}
		b, ok := <-h.blocks
		if !ok {
			h.err = h.readErr
			continue
		}
		h.cur, h.off = b, 0
	}
	n := copy(p, h.cur.buf[h.off:h.cur.n])
	h.off += n
	return n, nil
}

// Close lets the consumer's blocks go; the hash runs on to the end of the file.
func (h *hashedReader) Close() error {
	h.once.Do(func() {
		close(h.closed)
		if h.cur != nil {
			h.release(h.cur)
			h.cur = nil
		}
		h.err = io.ErrClosedPipe
		for b := range h.blocks {
			h.release(b)
		}
	})
	return nil
}

// Sum waits for the end of the file and gives its hash and size; call it after Close. The blocks are let go: a set of many files is kept.
func (h *hashedReader) Sum() (sum string, size int64, err error) {
	<-h.done
	for len(h.free) > 0 {
		blocks.Put(<-h.free)
	}
	if h.readErr != io.EOF {
		return "", h.size, h.readErr
	}
	return h.sum, h.size, nil
}

// codecOf names the compression of a stream by its first bytes; "" none.
func codecOf(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		return "gzip"
	case bytes.HasPrefix(b, []byte("\x28\xb5\x2f\xfd")):
		return "zstd"
	case len(b) > 3 && bytes.HasPrefix(b, []byte("BZh")) && b[3] >= '1' && b[3] <= '9':
		return "bzip2"
	}
	return ""
}

// decoded is a stream without its compression layers.
type decoded struct {
	*bufio.Reader
	close  []func() error
	layers []string
}

func (d *decoded) Close() error {
	var err error
	for i := len(d.close) - 1; i >= 0; i-- {
		err = errors.Join(err, d.close[i]())
	}
	return err
}

// decode takes the compression layers off r, at most depth of them. It closes r with the result.
func decode(r io.ReadCloser, stored int64, depth int) (*decoded, error) {
	d := &decoded{Reader: bufio.NewReaderSize(r, HeadSize), close: []func() error{r.Close}}
	for {
		head, _ := d.Peek(8)
		codec := codecOf(head)
		if codec == "" {
			return d, nil
		}
		if len(d.layers) >= depth {
			return d, fmt.Errorf("%s inside %s: more than %d layers", codec, strings.Join(d.layers, " inside "), depth)
		}
		var in io.Reader
		switch codec {
		case "gzip":
			z, err := gzip.NewReader(d.Reader) // many members are one stream
			if err != nil {
				return d, err
			}
			in = z
		case "zstd":
			z, err := zstd.NewReader(d.Reader, zstd.WithDecoderMaxMemory(512<<20), zstd.WithDecoderMaxWindow(128<<20))
			if err != nil {
				return d, err
			}
			d.close = append(d.close, func() error { z.Close(); return nil })
			in = z
		case "bzip2":
			in = bzip2.NewReader(d.Reader)
		}
		d.layers = append(d.layers, codec)
		d.Reader = bufio.NewReaderSize(&bounded{r: in, left: max(bombFloor, stored*bombRatio)}, HeadSize)
	}
}

type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrBomb
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}
