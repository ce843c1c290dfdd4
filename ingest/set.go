package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"gpureport/ingest/timeline"
)

// Unknown is the format name of a file that is none of ours.
const Unknown = "unknown"

// File is one input with its format and, once it was read, what it holds.
type File struct {
	Source timeline.Source
	Format *Format // nil: unknown

	// Filled by reading.
	Clock    timeline.Clock
	Devices  []timeline.Device
	Procs    []timeline.Process
	Problems []timeline.Problem
	Read     bool

	in     *Input
	whole  *File   // what it is a part of, see Format.Split; nil
	digest *digest // that stands for it; nil
	stored stored
	hashed sync.Once // guards the first opening of stored, the one that is hashed
	hash   *hashedReader
}

// Asks gives the checklist stages that the file lets be asked about; nothing if it is not read.
func (f *File) Asks() []string {
	if f.Format == nil || f.Format.Read == nil || f.Read && !f.Source.Used {
		return nil
	}
	if f.Source.Asks != nil {
		return f.Source.Asks
	}
	return f.Format.Asks
}

// Set is all inputs of a run, sorted by path. Bytes and SHA256 of a member of an archive are those of the file that unpacking it gives.
// Close it to let archives and temporary files go.
type Set struct {
	Files []*File

	opt     Options
	formats []Format
	walk    *walker
}

// Open walks the paths, recognises every file and member, and reads none of them. It fails for an argument that does not exist, for a
// file that two formats claim, and for wrong --as; everything else becomes a listed problem.
func Open(paths []string, formats []Format, opt Options) (*Set, error) {
	return OpenContext(context.Background(), paths, formats, opt)
}

// OpenContext is Open with a context that stops the walk.
func OpenContext(ctx context.Context, paths []string, formats []Format, opt Options) (*Set, error) {
	s := &Set{opt: opt, formats: formats}
	as, err := s.checkAs()
	if err != nil {
		return nil, err
	}
	if opt.TZ != "" {
		if _, err := ParseTZ(opt.TZ); err != nil {
			return nil, err
		}
	}
	s.walk = &walker{ctx: ctx, seen: map[string]bool{}, infos: map[string][]fs.FileInfo{}}
	var errs []error
	s.walk.found = func(st stored, d *decoded, head []byte) {
		if d != nil && isDigest(head) {
			if !opt.NoDigests {
				if err := s.openDigest(st, d, as); err != nil {
					errs = append(errs, err)
				}
			}
			return
		}
		f := &File{stored: st, Source: timeline.Source{Path: display(st.path), Bytes: max(st.size, 0), SHA256: st.sum, Format: Unknown}}
		s.Files = append(s.Files, f)
		if d == nil {
			f.Source.Note = "cannot be read"
			f.Read = true
			return
		}
		h := makeHead(st.path, head)
		f.Format, err = s.recognise(f.Source.Path, h, as)
		if err != nil {
			errs = append(errs, err)
		}
		s.describe(f, h)
		f.in = &Input{Path: f.Source.Path, Size: -1, Opt: &s.opt, open: f.open}
		if len(d.layers) == 0 {
			f.in.Size, f.in.file = st.size, st.file
		}
		if f.Format != nil && f.Format.Split != nil {
			s.split(f, d, as)
		}
	}
	for _, p := range paths {
		if err := s.walk.arg(p); err != nil {
			errs = append(errs, err)
		}
	}
	if err := ctx.Err(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(append(errs, s.Close())...)
	}
	s.onceEach(ctx)
	s.name()
	return s, nil
}

// Close removes temporary files and closes archives.
func (s *Set) Close() error {
	var errs []error
	for _, c := range s.walk.closers {
		errs = append(errs, c())
	}
	s.walk.closers = nil
	errs = append(errs, s.walk.spool.close())
	s.walk.spool = spool{}
	return errors.Join(errs...)
}

// checkAs refuses format names that do not exist and globs that are none; it gives the formats in a fixed order.
func (s *Set) checkAs() ([]string, error) {
	var names []string
	for name, glob := range s.opt.As {
		if !slices.ContainsFunc(s.formats, func(f Format) bool { return f.Name == name }) {
			var known []string
			for _, f := range s.formats {
				known = append(known, f.Name)
			}
			return nil, fmt.Errorf("--as %s=%s: no format %s: one of %s", name, glob, name, strings.Join(known, ", "))
		}
		if _, err := path.Match(glob, ""); err != nil {
			return nil, fmt.Errorf("--as %s=%s: %w", name, glob, err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// makeHead builds what recognisers see.
func makeHead(p string, raw []byte) Head {
	name := path.Base(p)
	for _, ext := range []string{".gz", ".zst", ".bz2"} {
		name = strings.TrimSuffix(name, ext)
	}
	return Head{Name: name, Raw: raw, Text: headText(raw, len(raw) < HeadSize)}
}

func (s *Set) recognise(p string, h Head, as []string) (*Format, error) {
	for _, name := range as {
		glob := s.opt.As[name]
		whole, _ := path.Match(glob, p)
		base, _ := path.Match(glob, path.Base(p))
		if whole || base {
			i := slices.IndexFunc(s.formats, func(f Format) bool { return f.Name == name })
			return &s.formats[i], nil
		}
	}
	var yes *Format
	for i := range s.formats {
		f := &s.formats[i]
		if f.Recognise == nil || !f.Recognise(h) {
			continue
		}
		if yes != nil {
			return nil, fmt.Errorf("%s: both %s and %s recognise it: say which with --as %s=%s or --as %s=%s", p, yes.Name, f.Name, yes.Name, p, f.Name, p)
		}
		yes = f
	}
	return yes, nil
}

// describe sets what the report says of a file that is not read.
func (s *Set) describe(f *File, h Head) {
	src := &f.Source
	if f.Format != nil {
		src.Format = f.Format.Name
	}
	if src.Format == Unknown {
		src.Head = printable(h)
	}
	switch {
	case f.Format == nil && len(bytes.TrimSpace(h.Raw)) == 0:
		src.Note = "empty"
	case f.Format == nil:
		var read []string
		for _, g := range s.formats {
			if g.Read != nil {
				read = append(read, g.Name)
			}
		}
		src.Note = "none of the formats that are read: " + strings.Join(read, ", ")
	case f.Format.Read == nil && f.Format.Name == Unknown:
		src.Note = f.Format.Doc + ": cannot be read; record with: " + f.Format.Convert
	case f.Format.Read == nil:
		src.Note = f.Format.Doc + ": not read yet; record with: " + f.Format.Convert
	}
}

// printable gives the first 80 characters that can be shown.
func printable(h Head) string {
	b := h.Text
	if len(b) == 0 {
		b = h.Raw
	}
	var out strings.Builder
	n, space := 0, false
	for i := 0; i < len(b) && i < 4096 && n < 80; {
		r, size := utf8.DecodeRune(b[i:])
		i += size
		if unicode.IsSpace(r) {
			space = n > 0
			continue
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			continue
		}
		if space && n < 79 {
			out.WriteByte(' ')
			n++
		}
		space = false
		out.WriteRune(r)
		n++
	}
	return out.String()
}

// name sorts the files by path and makes paths distinct: files of the same relative path get their argument in front.
func (s *Set) name() {
	count := map[string]int{}
	for _, f := range s.Files {
		count[f.Source.Path]++
	}
	for _, f := range s.Files {
		if count[f.Source.Path] < 2 {
			continue
		}
		if f.digest != nil {
			if dir := path.Dir(f.digest.at.path); dir != "." {
				f.renamed(display(dir) + "/" + f.Source.Path)
				continue
			}
		}
		prefix := filepath.Base(filepath.Clean(f.stored.arg))
		if abs, err := filepath.Abs(f.stored.arg); err == nil {
			if prefix = filepath.Base(abs); prefix == f.Source.Path {
				prefix = filepath.Base(filepath.Dir(abs)) // a file argument: its folder
			}
		}
		f.renamed(display(prefix) + "/" + f.Source.Path)
	}
	slices.SortStableFunc(s.Files, func(a, b *File) int {
		return cmp.Or(cmp.Compare(a.Source.Path, b.Source.Path), cmp.Compare(a.stored.arg, b.stored.arg), cmp.Compare(a.stored.path, b.stored.path), cmp.Compare(a.Source.SHA256, b.Source.SHA256))
	})
	used := map[string]bool{}
	for _, f := range s.Files {
		p := f.Source.Path
		for i := 2; used[p]; i++ {
			p = fmt.Sprintf("%s#%d", f.Source.Path, i)
		}
		used[p] = true
		f.renamed(p)
		if f.in != nil {
			f.in.Path = p
		}
	}
	slices.SortStableFunc(s.walk.problems, func(a, b timeline.Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code))
	})
}

// open gives the decoded stream. The first call hashes the stored bytes on its way.
func (f *File) open() (io.ReadCloser, error) { return f.openContext(context.Background()) }

func (f *File) openContext(ctx context.Context) (io.ReadCloser, error) {
	r, err := f.stored.open()
	if err != nil {
		return nil, err
	}
	if f.Source.SHA256 == "" {
		f.hashed.Do(func() {
			f.hash = newHashedReader(ctx, r)
			r = f.hash
		})
	}
	d, err := decode(r, max(f.stored.size, 0), maxNesting)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// finishHash waits for the hash; it reads a file that nobody opened.
func (f *File) finishHash(ctx context.Context) error {
	if f.Source.SHA256 != "" || f.in == nil {
		return nil
	}
	var err error
	f.hashed.Do(func() {
		var r io.ReadCloser
		if r, err = f.stored.open(); err == nil {
			f.hash = newHashedReader(ctx, r)
		}
	})
	if err != nil {
		return err
	}
	_ = f.hash.Close()
	sum, n, err := f.hash.Sum()
	if err != nil {
		return err
	}
	f.Source.SHA256, f.Source.Bytes = sum, n
	return nil
}

// Bulk gives the indices in Files of the traces that can be read one at a time.
func (s *Set) Bulk() []int {
	var out []int
	for i, f := range s.Files {
		if f.Format != nil && f.Format.Bulk && f.Format.Read != nil {
			out = append(out, i)
		}
	}
	return out
}

// ReadBulk reads file i into a timeline of its own, whose only source has SourceID 0; of a digest, what outlived the spans. Different files may be read at the same time.
// What it found out about the file is in Files[i]. An error means that the file is unusable; it is listed there too.
func (s *Set) ReadBulk(ctx context.Context, i int) (*timeline.Timeline, error) {
	if s.IsDigest(i) {
		_, sampled, err := s.ReadDigest(i)
		if sampled == nil && err == nil {
			sampled = &timeline.Timeline{}
		}
		return sampled, err
	}
	return s.read(ctx, s.Files[i])
}

func (s *Set) read(ctx context.Context, f *File) (tl *timeline.Timeline, err error) {
	in := &Input{Path: f.in.Path, Size: f.in.Size, Opt: f.in.Opt, file: f.in.file, open: func() (io.ReadCloser, error) { return f.openContext(ctx) }}
	b := NewBuilder(in, f.Format.Name)
	err = safeRead(ctx, f.Format, in, b)
	if dropped, row := b.SealSeries(); dropped > 0 {
		in.Report("ingest/repeated-stamp", timeline.Info, uint64(row), "%d readings have a stamp that an earlier one has: the first of each stands", dropped)
	}
	if herr := f.finishHash(ctx); err == nil && herr != nil && ctx.Err() == nil {
		in.Report("ingest/damaged-file", timeline.DataLoss, 0, "%v: what lies before it is read", herr)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	b.TL.Problems = append(b.TL.Problems, in.Problems()...)
	if err != nil {
		b.TL.Problems = append(b.TL.Problems, timeline.Problem{Code: f.Format.Name + "/unusable", Severity: timeline.Error, Path: in.Path, Message: err.Error(), Count: 1})
	}
	tl = b.Finish()
	src := &tl.Sources[0]
	src.Path, src.Format, src.Bytes, src.SHA256, src.Note, src.Head = f.Source.Path, f.Format.Name, f.Source.Bytes, f.Source.SHA256, f.Source.Note, f.Source.Head
	src.Used = err == nil && src.Rows > 0
	if f.whole != nil && src.Host == "" {
		src.Host = f.whole.Source.Host // read before its parts: its path is shorter
	}
	if len(tl.Clocks) == 0 {
		tl.Clocks = append(tl.Clocks, timeline.Clock{Name: src.Path, Why: "the file states no time"})
		src.Clock = 0
	}
	if src.Coverage == nil {
		src.Coverage = tl.CoverageOf(0, 0)
	}
	f.Source, f.Clock, f.Devices, f.Procs, f.Problems, f.Read = *src, tl.Clocks[src.Clock], tl.Devices, tl.Procs, tl.Problems, true
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Path, err)
	}
	return tl, nil
}

// safeRead turns a reader's panic into an error of its file: nothing a file holds may end the run.
func safeRead(ctx context.Context, f *Format, in *Input, b *timeline.Builder) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reader %s broke on this file: %v", f.Name, r)
		}
	}()
	return f.Read(ctx, in, b)
}

// ReadBase reads everything but the traces into one timeline. Its Sources list every file, its Clocks the clock of source i at i;
// Settle completes both when the traces were read.
func (s *Set) ReadBase(ctx context.Context) (*timeline.Timeline, error) {
	base := &timeline.Timeline{Sources: make([]timeline.Source, len(s.Files)), Clocks: make([]timeline.Clock, len(s.Files))}
	for i, f := range s.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch {
		case f.Format == nil || f.Format.Read == nil:
			f.known(ctx)
		case !f.Format.Bulk:
			tl, err := s.read(ctx, f)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil {
				merge(base, tl, timeline.SourceID(i))
			}
		}
	}
	s.Settle(base)
	base.Window = windowOf(base)
	return base, nil
}

// windowOf is what the series whose clock is placed cover; of all of them if none is.
func windowOf(base *timeline.Timeline) timeline.Interval {
	var placed, all timeline.Interval
	grow := func(iv *timeline.Interval, start, end timeline.Time) {
		if iv.Empty() {
			*iv = timeline.Interval{Start: start, End: end}
		}
		iv.Start, iv.End = min(iv.Start, start), max(iv.End, end)
	}
	for i := range base.Series {
		s := &base.Series[i]
		start, end := s.At[0], s.At[len(s.At)-1]+1
		if s.Metric.Covers == timeline.WindowBefore {
			start -= timeline.Time(s.Metric.Window)
		}
		grow(&all, start, end)
		if base.Clocks[base.Sources[base.Tracks[s.Track].Source].Clock].How != timeline.Unplaced {
			grow(&placed, start, end)
		}
	}
	if placed.Empty() {
		return all
	}
	return placed
}

// Settle copies what is known of every file into base: sources, their clocks, and all problems sorted by path. Clocks that were placed
// in base stay as they are.
func (s *Set) Settle(base *timeline.Timeline) {
	base.Problems = slices.Clone(s.walk.problems)
	for i, f := range s.Files {
		clock, coverage := base.Clocks[i], base.Sources[i].Coverage
		base.Sources[i] = f.Source
		if coverage != nil {
			base.Sources[i].Coverage = coverage // placed already
		}
		base.Sources[i].Clock = timeline.ClockID(i)
		if clock.How == timeline.Unplaced {
			base.Clocks[i] = f.Clock
		}
		if base.Clocks[i].Name == "" {
			base.Clocks[i].Name = f.Source.Path
		}
		base.Problems = append(base.Problems, f.Problems...)
	}
	slices.SortStableFunc(base.Problems, func(a, b timeline.Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Code, b.Code))
	})
}

// merge appends the tracks, devices, series, marks, attributes, links and totals of tl, whose one source becomes id. Formats that are not bulk give no spans.
func merge(base, tl *timeline.Timeline, id timeline.SourceID) {
	dev0, proc0, track0 := timeline.DeviceID(len(base.Devices)), len(base.Procs), timeline.TrackID(len(base.Tracks))
	for _, d := range tl.Devices {
		d.Source = id
		if d.Proc >= 0 {
			d.Proc += proc0
		}
		base.Devices = append(base.Devices, d)
	}
	for _, p := range tl.Procs {
		p.Source = id
		base.Procs = append(base.Procs, p)
	}
	for _, t := range tl.Tracks {
		t.Source = id
		t.Table = base.Names.IDOf(tl.Names.Get(t.Table))
		if t.Device >= 0 {
			t.Device += dev0
		}
		if t.Proc >= 0 {
			t.Proc += proc0
		}
		base.Tracks = append(base.Tracks, t)
	}
	for _, sr := range tl.Series {
		sr.Track += track0
		base.Series = append(base.Series, sr)
	}
	for _, a := range tl.Attrs {
		a.Track += track0
		base.Attrs = append(base.Attrs, a)
	}
	for _, l := range tl.Links {
		l.Source = id
		base.Links = append(base.Links, l)
	}
	for _, t := range tl.Totals {
		t.Source = id
		base.Totals = append(base.Totals, t)
	}
	for _, k := range tl.Counters {
		k.Source = id
		base.Counters = append(base.Counters, k)
	}
	m, to := &tl.Marks, &base.Marks
	for i := range m.At {
		to.Append(m.Kind[i], m.Track[i]+track0, m.At[i], m.Code[i], base.Names.IDOf(tl.Names.Get(m.Name[i])), m.Row[i])
	}
	to.Sort()
}

// Adopt adds to base what outlives the spans of the trace in file i: its processes, and its sampled series on their own clock.
func (s *Set) Adopt(base, sampled *timeline.Timeline, i int) {
	for _, p := range s.Files[i].Procs {
		p.Source = timeline.SourceID(i)
		base.Procs = append(base.Procs, p)
	}
	if sampled != nil {
		merge(base, sampled, timeline.SourceID(i))
	}
}
