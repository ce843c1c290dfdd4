// Package ingest finds, recognises and opens inputs, places their clocks on one axis and matches the devices of different sources.
// It knows no format by name.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"gpureport/ingest/timeline"
)

// MaxGPUs bounds the GPUs of one file: more than any host or merged file has, and less than what an absurd one may claim.
const MaxGPUs = 1024

// HeadSize is how much of the decoded text a recogniser may see.
const HeadSize = 64 << 10

// Format is one input format. A recogniser says yes or no from the head and never tries to parse.
type Format struct {
	Name      string
	Doc       string // one line for the README and inspect: what writes it
	Recognise func(h Head) bool
	// Read reads the file into b. nil: the format is recognised and named, but not read.
	Read func(ctx context.Context, in *Input, b *timeline.Builder) error
	// Convert is the one command that turns an unread format into a read one; required when Read is nil.
	Convert string
	// Split finds the outputs of other tools that the file is made of: it calls part with the name and the text of each, in order. A part
	// whose format is read becomes a file of its own, named file!/part like the member of an archive; Read then reads what is left.
	Split func(r io.Reader, part func(name string, text io.Reader) error) error
	// Bulk formats hold one rank's spans each: they are read one at a time, reduced and let go.
	Bulk bool
	// Asks says what it lets be asked, for inspect: checklist stages.
	Asks []string
}

// Head is what a recogniser sees.
type Head struct {
	Name string // base name without .gz or .zst
	Raw  []byte // first bytes after decompression, as they are
	Text []byte // Raw without BOM, UTF-16 decoded, ANSI escapes and leading blank lines stripped; empty for binary content
}

// Input is one file or archive member while it is read.
type Input struct {
	Path   string // Source.Path
	Source timeline.SourceID
	Size   int64 // decoded size where known, else -1
	Opt    *Options

	open func() (io.ReadCloser, error)
	file string // where the decoded bytes lie on disk as they are; "" in an archive or compressed

	mu       sync.Mutex
	problems []timeline.Problem // one a code, in order of first report
}

// NewInput makes an input of its own, source 0, for readers' tests and for programs that have no Set.
func NewInput(path string, open func() (io.ReadCloser, error), opt *Options) *Input {
	if opt == nil {
		opt = &Options{}
	}
	return &Input{Path: path, Size: -1, Opt: opt, open: open}
}

// NewFileInput is NewInput for a file that lies on disk, not compressed.
func NewFileInput(path, file string, opt *Options) *Input {
	in := NewInput(path, func() (io.ReadCloser, error) { return os.Open(file) }, opt)
	in.file = file
	return in
}

// NewBuilder gives a builder whose only source is in, ready for Format.Read.
func NewBuilder(in *Input, format string) *timeline.Builder {
	b := &timeline.Builder{}
	b.TL.Sources = make([]timeline.Source, in.Source+1)
	b.TL.Sources[in.Source] = timeline.Source{Path: in.Path, Format: format}
	return b
}

// Open gives the decoded byte stream of the input (decompressed, otherwise as stored). It may be called again for another pass.
func (in *Input) Open() (io.ReadCloser, error) { return in.open() }

// File gives the decoded input as a file, for formats that must jump about in it: the stored file itself where it is one, else a
// temporary copy, which done removes. A stream that breaks off leaves a copy of what came before it, and a problem.
func (in *Input) File(ctx context.Context) (path string, done func() error, err error) {
	if in.file != "" {
		return in.file, func() error { return nil }, nil
	}
	r, err := in.Open()
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	f, err := os.CreateTemp("", "gpureport-*.tmp")
	if err != nil {
		return "", nil, err
	}
	done = func() error { return os.Remove(f.Name()) }
	out := &fileWriter{f: f}
	_, err = io.Copy(out, &ctxReader{ctx, r})
	if cerr := f.Close(); out.err == nil {
		out.err = cerr
	}
	switch {
	case out.err != nil:
		return "", nil, errors.Join(fmt.Errorf("no room to unpack it: %w", out.err), done())
	case ctx.Err() != nil:
		return "", nil, errors.Join(ctx.Err(), done())
	case err != nil:
		in.Report("ingest/damaged-file", timeline.DataLoss, 0, "%v: what lies before it is read", err)
	}
	return f.Name(), done, nil
}

// fileWriter tells an error of the disk from one of the stream.
type fileWriter struct {
	f   *os.File
	err error
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.err = err
	return n, err
}

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Report counts a problem under its code and keeps the place and words of its first row. Safe for concurrent use.
func (in *Input) Report(code string, sev timeline.Severity, row uint64, format string, args ...any) {
	in.ReportN(1, code, sev, row, format, args...)
}

// ReportN is Report for n rows at once, of which row is the first; nothing for n < 1.
func (in *Input) ReportN(n int64, code string, sev timeline.Severity, row uint64, format string, args ...any) {
	if n < 1 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range in.problems {
		p := &in.problems[i]
		if p.Code != code {
			continue
		}
		p.Count += n
		p.Severity = max(p.Severity, sev)
		if row < p.Row { // workers report out of order
			p.Row, p.Message = row, fmt.Sprintf(format, args...)
		}
		return
	}
	in.problems = append(in.problems, timeline.Problem{Code: code, Severity: sev, Path: in.Path, Row: row, Message: fmt.Sprintf(format, args...), Count: n})
}

// Problems gives what was reported so far, sorted by row, then code.
func (in *Input) Problems() []timeline.Problem {
	in.mu.Lock()
	defer in.mu.Unlock()
	ps := slices.Clone(in.problems)
	slices.SortFunc(ps, func(a, b timeline.Problem) int { return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Code, b.Code)) })
	return ps
}

// Options are what the user says about the inputs.
type Options struct {
	TZ     string            // --tz: offset of clocks that state no zone, "+08:00"; "" not said
	As     map[string]string // --as FORMAT=GLOB
	Set    map[string]string // --set
	Jobs   int               // workers a file may use; 0: number of CPUs
	Memory int64             // budget in bytes; 0: default
	Said   Said              // what digests must agree with; a zero Version: anything will do
	// NoDigests leaves digests among the files alone: they are the outcome of an earlier run.
	NoDigests bool
}
