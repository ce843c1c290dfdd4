package ingest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"gpureport/ingest/timeline"
)

// A digest file stands for one input: of a trace it holds what outlives its spans, of a log that is read its bytes, of any other file what
// is known of it. It is one zstd stream of a line of text, the packed digestHead with its length, and the rest.
const (
	DigestFormat = "gpureport-digest"
	DigestExt    = ".gpureport-digest.zst"
	digestMagic  = "gpureport digest 1 "
	// A digest that grows to more than digestRatio times its stored size, and past digestFloor, is none.
	digestRatio = 200
	digestFloor = 64 << 20
	maxHead     = 64 << 20
)

// Said is what changes reductions: digests that differ in it from the run that reads them are refused.
type Said struct {
	Version string   // of the program
	Steps   string   // --steps
	Set     []string // --set, sorted
	Tables  string   // names the site's tables; "" for none
}

type digestKind uint8

const (
	digestKnown digestKind = iota // nothing follows
	digestBytes                   // the stored bytes follow
	digestTrace                   // a packed digestBody follows
)

type digestHead struct {
	Kind     digestKind
	Said     Said
	Title    string
	Name     string // under which the format is recognised
	Source   timeline.Source
	Clock    timeline.Clock
	Devices  []timeline.Device
	Procs    []timeline.Process
	Problems []timeline.Problem
	Walk     []timeline.Problem // of the walk as a whole: the first file of a set has them
}

type digestBody struct {
	Reduced []*timeline.Reduced
	Sampled *timeline.Timeline
}

// digest is what a File of a digest knows of it.
type digest struct {
	at    stored // the digest file
	path  string // of the trace, as the digest has it
	kind  digestKind
	title string
}

func digestLayout() string { return timeline.PackedAs(digestHead{}) + timeline.PackedAs(digestBody{}) }

func isDigest(head []byte) bool { return bytes.HasPrefix(head, []byte(digestMagic)) }

// Whole gives the indices in Files of what a digest is made of: all but the parts of other files.
func (s *Set) Whole() []int {
	var out []int
	for i, f := range s.Files {
		if f.whole == nil {
			out = append(out, i)
		}
	}
	return out
}

// DigestTitles are the titles that the digests of the set were made with, each once, and whether all files are of digests.
func (s *Set) DigestTitles() (titles []string, all bool) {
	all = true
	for _, f := range s.Files {
		switch {
		case f.digest != nil:
			titles = append(titles, f.digest.title)
		case f.whole == nil:
			all = false
		}
	}
	slices.Sort(titles)
	return slices.Compact(titles), all
}

// ReducedFiles gives the paths of the traces that are here as digests.
func (s *Set) ReducedFiles() []string {
	var out []string
	for _, f := range s.Files {
		if f.digest != nil && f.digest.kind == digestTrace {
			out = append(out, f.Source.Path)
		}
	}
	return out
}

// IsDigest tells whether file i is a trace that a digest stands for.
func (s *Set) IsDigest(i int) bool {
	return s.Files[i].digest != nil && s.Files[i].digest.kind == digestTrace
}

// DigestName is the name of the file that the digest of an input is kept in: its path as far as file names go, and a mark of the whole.
func DigestName(p string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, p)
	if len(safe) > 120 {
		safe = safe[:120]
	}
	sum := sha256.Sum256([]byte(p))
	return strings.TrimLeft(safe, ".-") + "." + hex.EncodeToString(sum[:4]) + DigestExt
}

// Hash gives stored bytes and hash of file i without reading more of it than they need.
func (s *Set) Hash(ctx context.Context, i int) error { return s.Files[i].finishHash(ctx) }

// Size is about what reading file i takes at its peak, in bytes: what it holds unpacked, by its size and by how traces pack.
func (s *Set) Size(i int) int64 {
	f := s.Files[i]
	switch {
	case f.digest != nil:
		return f.digest.at.size * 20
	case f.in != nil && f.in.Size >= 0:
		return f.in.Size * 6 / 10
	}
	return f.Source.Bytes * 6
}

// DigestOf reads what a digest file stands for: path, size and hash of its input.
func DigestOf(file string) (timeline.Source, error) {
	r, h, err := openDigestAt(stored{path: file, size: -1, open: func() (io.ReadCloser, error) { return os.Open(file) }})
	if err != nil {
		return timeline.Source{}, err
	}
	return h.Source, r.Close()
}

// WriteDigest writes the digest of file i. A trace must have been read; reds and sampled are what outlives its spans.
func (s *Set) WriteDigest(ctx context.Context, w io.Writer, i int, title string, reds []*timeline.Reduced, sampled *timeline.Timeline) error {
	f := s.Files[i]
	h := digestHead{Kind: digestKnown, Said: s.opt.Said, Title: title, Name: path.Base(f.stored.path)}
	read := f.Format != nil && f.Format.Read != nil
	switch {
	case read && f.Format.Bulk:
		h.Kind = digestTrace
	case read:
		h.Kind = digestBytes
	}
	if h.Kind == digestKnown {
		f.known(ctx)
	} else if err := f.finishHash(ctx); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	h.Source, h.Clock, h.Devices, h.Procs, h.Problems = f.Source, f.Clock, f.Devices, f.Procs, f.Problems
	if i == 0 {
		h.Walk = s.walk.problems
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	head := timeline.Pack(h)
	b := append([]byte(digestMagic+digestLayout()+" "+oneLine(s.opt.Said.Version)+"\n"), binary.AppendUvarint(nil, uint64(len(head)))...)
	_, err = z.Write(append(b, head...))
	switch {
	case err != nil:
	case h.Kind == digestTrace:
		_, err = z.Write(timeline.Pack(digestBody{reds, sampled}))
	case h.Kind == digestBytes:
		var r io.ReadCloser
		if r, err = f.stored.open(); err == nil {
			_, err = io.Copy(z, &ctxReader{ctx, r})
			err = errors.Join(err, r.Close())
		}
	}
	return errors.Join(err, z.Close())
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), "-") }

// known completes what is said of a file that is not read.
func (f *File) known(ctx context.Context) {
	if err := f.finishHash(ctx); err != nil && ctx.Err() == nil {
		f.Problems = append(f.Problems, timeline.Problem{Code: "ingest/damaged-file", Severity: timeline.Error, Path: f.Source.Path, Message: err.Error(), Count: 1})
	}
	f.Clock = timeline.Clock{Name: f.Source.Path, Why: "not read"}
}

// readHead reads the first line and the head of a digest. Errors: errRefused for one of another program, else damage.
func readHead(r *bufio.Reader) (h digestHead, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return h, unexpected(err)
	}
	layout, version, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, digestMagic)), " ")
	if layout != digestLayout() {
		return h, &refused{fmt.Sprintf("its contents are laid out by another version of gpureport, %s: make the digests again with this one", cmp.Or(version, "unknown"))}
	}
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return h, unexpected(err)
	}
	if n > maxHead {
		return h, fmt.Errorf("a head of %d bytes", n)
	}
	var b bytes.Buffer // grows with what is there
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return h, unexpected(err)
	}
	err = timeline.Unpack(b.Bytes(), &h)
	if err == nil && (h.Source.Path == "" || h.Source.Path != display(h.Source.Path) || h.Kind > digestTrace || h.Source.Bytes < 0) {
		err = errors.New("it names no input")
	}
	return h, err
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// refused is an error that ends the run: a rank that is left out in silence would be wrong.
type refused struct{ why string }

func (e *refused) Error() string { return e.why }

// differs says where what was said when the digest was made differs from what is said now.
func (now *Said) differs(then *Said) error {
	var out []string
	add := func(what, a, b string) {
		if a != b {
			out = append(out, fmt.Sprintf("it was made with %s %s and this run has %s", what, orNone(a), orNone(b)))
		}
	}
	add("gpureport", then.Version, now.Version)
	add("--steps", then.Steps, now.Steps)
	add("--set", strings.Join(then.Set, " "), strings.Join(now.Set, " "))
	add("--rules tables", then.Tables, now.Tables)
	if len(out) == 0 {
		return nil
	}
	return &refused{strings.Join(out, "; ") + ": say the same to both, or make the digests again"}
}

func orNone(s string) string { return cmp.Or(s, "(none)") }

// openDigest lists the input that a digest stands for. d is at the digest's beginning.
func (s *Set) openDigest(st stored, d *decoded, as []string) error {
	h, err := readHead(d.Reader)
	if err == nil && s.opt.Said.Version != "" {
		err = s.opt.Said.differs(&h.Said)
	}
	var no *refused
	if errors.As(err, &no) {
		return fmt.Errorf("%s: %w", display(st.path), err)
	}
	f := &File{stored: st, Source: timeline.Source{Path: display(st.path), Bytes: max(st.size, 0), SHA256: st.sum, Format: DigestFormat}}
	if err != nil {
		f.Source.Note, f.Read = "a damaged digest: make it again", true
		f.in = &Input{Path: f.Source.Path, Size: -1, Opt: &s.opt, open: f.open}
		f.Problems = append(f.Problems, brokenDigest(f.Source.Path, err))
		s.Files = append(s.Files, f)
		return nil
	}
	f.digest = &digest{at: st, path: h.Source.Path, kind: h.Kind, title: h.Title}
	f.Source = h.Source
	s.walk.problems = append(s.walk.problems, h.Walk...)
	f.stored.path = h.Source.Path
	if h.Kind != digestBytes {
		f.Clock, f.Devices, f.Procs, f.Problems, f.Read = h.Clock, h.Devices, h.Procs, h.Problems, true
		f.Format = s.formatNamed(h.Source.Format)
		if h.Kind == digestTrace && (f.Format == nil || f.Format.Read == nil || !f.Format.Bulk) {
			return fmt.Errorf("%s: %w", display(st.path), &refused{"it is of a format that this gpureport does not read, " + h.Source.Format})
		}
		s.Files = append(s.Files, f)
		return nil
	}
	f.stored.size, f.stored.sum, f.stored.file, f.stored.at = h.Source.Bytes, h.Source.SHA256, "", nil
	f.stored.open = func() (io.ReadCloser, error) {
		d, _, err := openDigestAt(st)
		return d, err
	}
	in, err := f.stored.open()
	if err != nil {
		return fmt.Errorf("%s: %w", display(st.path), err)
	}
	text, err := decode(in, max(f.stored.size, 0), maxNesting)
	if err != nil {
		return fmt.Errorf("%s: %w", display(st.path), err)
	}
	defer text.Close()
	raw, _ := text.Peek(HeadSize)
	head := makeHead(h.Name, raw)
	if f.Format, err = s.recognise(f.Source.Path, head, as); err != nil {
		return err
	}
	f.Source = timeline.Source{Path: h.Source.Path, Bytes: h.Source.Bytes, SHA256: h.Source.SHA256, Format: Unknown}
	s.describe(f, head)
	f.in = &Input{Path: f.Source.Path, Size: -1, Opt: &s.opt, open: f.open}
	if len(text.layers) == 0 {
		f.in.Size = f.stored.size
	}
	s.Files = append(s.Files, f)
	if f.Format != nil && f.Format.Split != nil {
		s.split(f, text, as)
	}
	return nil
}

func (s *Set) formatNamed(name string) *Format {
	if i := slices.IndexFunc(s.formats, func(f Format) bool { return f.Name == name }); i >= 0 {
		return &s.formats[i]
	}
	return nil
}

func brokenDigest(p string, err error) timeline.Problem {
	return timeline.Problem{Code: "digest/damaged", Severity: timeline.Error, Path: p, Message: fmt.Sprintf("%v: what it stands for is not analysed; make it again", err), Count: 1}
}

// openDigestAt opens a digest behind its head.
func openDigestAt(st stored) (io.ReadCloser, digestHead, error) {
	r, err := st.open()
	if err != nil {
		return nil, digestHead{}, err
	}
	d, err := decode(r, max(st.size, 0), maxNesting)
	if err != nil {
		return nil, digestHead{}, errors.Join(err, d.Close())
	}
	h, err := readHead(d.Reader)
	if err != nil {
		return nil, h, errors.Join(err, d.Close())
	}
	return d, h, nil
}

// ReadDigest gives what the digest of trace i holds. Different files may be read at the same time. An error means that it is damaged; the
// file lists it.
func (s *Set) ReadDigest(i int) ([]*timeline.Reduced, *timeline.Timeline, error) {
	f := s.Files[i]
	body, err := f.digest.body()
	if err != nil {
		where := display(f.digest.at.path)
		f.Source.Used, f.Source.Note = false, "its digest is damaged: "+where
		f.Procs = nil
		f.Problems = append(f.Problems, brokenDigest(where, err))
		return nil, nil, fmt.Errorf("%s: %w", where, err)
	}
	for _, r := range body.Reduced {
		r.Path = f.Source.Path
		rename(r.Problems, f.digest.path, f.Source.Path)
	}
	if body.Sampled != nil {
		body.Sampled.Sources[0].Path = f.Source.Path
	}
	return body.Reduced, body.Sampled, nil
}

func (d *digest) body() (body digestBody, err error) {
	r, _, err := openDigestAt(d.at)
	if err != nil {
		return body, err
	}
	defer r.Close()
	most := max(digestFloor, max(d.at.size, 0)*digestRatio)
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return body, unexpected(err)
	case int64(len(b)) > most:
		return body, ErrBomb
	}
	if err := timeline.Unpack(b, &body); err != nil {
		return digestBody{}, err
	}
	for _, r := range body.Reduced {
		if r == nil {
			return digestBody{}, errors.New("an empty reduction")
		}
		if err := r.Validate(); err != nil {
			return digestBody{}, err
		}
	}
	if tl := body.Sampled; tl != nil {
		if len(tl.Sources) == 0 {
			return digestBody{}, errors.New("readings of no source")
		}
		if err := tl.Validate(); err != nil {
			return digestBody{}, err
		}
		for i := range tl.Attrs {
			if t := tl.Attrs[i].Track; t < 0 || int(t) >= len(tl.Tracks) {
				return digestBody{}, fmt.Errorf("attribute %d: track %d of %d", i, t, len(tl.Tracks))
			}
		}
	}
	return body, nil
}

func rename(ps []timeline.Problem, from, to string) {
	for i := range ps {
		if ps[i].Path == from {
			ps[i].Path = to
		}
	}
}

// renamed carries a new path of a digest's input to what was said of it.
func (f *File) renamed(to string) {
	if f.Clock.Name == f.Source.Path {
		f.Clock.Name = to
	}
	rename(f.Problems, f.Source.Path, to)
	f.Source.Path = to
}

// onceEach drops inputs that are here twice, as a digest and as the file it was made of or as two digests. Only files of the name and size
// of a digest's input are hashed for it.
func (s *Set) onceEach(ctx context.Context) {
	type key struct {
		base  string
		bytes int64
	}
	of := func(f *File) key { return key{path.Base(f.Source.Path), f.Source.Bytes} }
	digests := map[key][]*File{}
	for _, f := range s.Files {
		if f.digest != nil {
			digests[of(f)] = append(digests[of(f)], f)
		}
	}
	if len(digests) == 0 {
		return
	}
	gone := map[*File]bool{}
	for _, f := range s.Files {
		for _, d := range digests[of(f)] {
			a, b := f.Source.Path, d.Source.Path
			if d == f || gone[d] || gone[f] || f.whole != nil || a != b && (f.digest != nil || !strings.HasSuffix(a, "/"+b) && !strings.HasSuffix(b, "/"+a)) {
				continue
			}
			if f.finishHash(ctx) != nil || f.Source.SHA256 != d.Source.SHA256 || f.Source.SHA256 == "" {
				continue
			}
			drop, how := f, "both as a digest and as itself"
			if f.digest != nil {
				how = "in two digests"
				if f.digest.at.path < d.digest.at.path {
					drop = d
				}
			}
			gone[drop] = true
			s.walk.problems = append(s.walk.problems, timeline.Problem{Code: "digest/counted-once", Severity: timeline.Info, Path: d.Source.Path, Count: 1,
				Message: "it is among the inputs " + how + ": counted once"})
		}
	}
	s.Files = slices.DeleteFunc(s.Files, func(f *File) bool { return gone[f] || f.whole != nil && gone[f.whole] })
}
