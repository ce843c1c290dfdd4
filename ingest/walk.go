package ingest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/klauspost/compress/zstd"

	"gpureport/ingest/timeline"
)

// What an input may hold at most. A folder or an archive that goes on is cut there, and the report says so.
const (
	maxFiles   = 50_000
	maxNesting = 3  // archives in archives, compression layers
	maxDirs    = 64 // folders in folders
	maxInRAM   = 256 << 20
	spoolInRAM = 64 << 20
)

// stored is one file or archive member as it lies there.
type stored struct {
	path  string // relative to the argument, slash separated
	arg   string // the argument it was found under
	size  int64  // -1 unknown
	open  func() (io.ReadCloser, error)
	at    func() (io.ReaderAt, error) // where it can be read at any place; else nil
	file  string                      // its path where it is a file of its own; "" for members
	sum   string                      // known already, of a spooled member
	depth int                         // archives around it
}

type walker struct {
	ctx      context.Context
	found    func(stored, *decoded, []byte) // a leaf, its decoded stream and its first bytes; nil stream: it cannot be read, see problems
	problems []timeline.Problem
	seen     map[string]bool // real paths of files
	infos    map[string][]fs.FileInfo
	n        int
	full     bool
	closers  []func() error
	spool    spool
}

func (w *walker) problem(p, code string, sev timeline.Severity, format string, args ...any) {
	w.problems = append(w.problems, timeline.Problem{Code: code, Severity: sev, Path: p, Message: fmt.Sprintf(format, args...), Count: 1})
}

// arg walks one argument of the command line. Only an argument that does not exist is an error.
func (w *walker) arg(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return fmt.Errorf("%s: %w: check the spelling", p, errors.Unwrap(err))
	}
	if info.IsDir() {
		w.dir(p, p, "", map[string]bool{}, 0)
		return nil
	}
	w.file(p, p, filepath.Base(p))
	return nil
}

// TempPrefix begins the names of digests that are not whole yet.
const TempPrefix = ".gpureport-"

// skipName tells names that desktops and version control strew about.
func skipName(name string) bool {
	return name == ".git" || name == ".DS_Store" || name == "__MACOSX" || name == "Thumbs.db" || name == "desktop.ini" || strings.HasPrefix(name, "._") || strings.HasPrefix(name, TempPrefix)
}

func (w *walker) dir(arg, p, rel string, above map[string]bool, depth int) {
	real, err := filepath.EvalSymlinks(p)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		w.problem(display(rel), "ingest/unreadable-folder", timeline.Error, "%v", err)
		return
	}
	if above[real] {
		w.problem(display(rel), "ingest/link-loop", timeline.Info, "a link leads back to a folder that holds it: not followed")
		return
	}
	if depth > maxDirs {
		w.problem(display(rel), "ingest/too-deep", timeline.DataLoss, "more than %d folders inside each other: not walked further", maxDirs)
		return
	}
	if isOurOutput(p) {
		return
	}
	entries, err := os.ReadDir(p)
	if err != nil {
		w.problem(display(rel), "ingest/unreadable-folder", timeline.Error, "%v", errors.Unwrap(err))
	}
	above[real] = true
	defer delete(above, real)
	for _, e := range entries {
		if w.full || w.ctx.Err() != nil {
			return
		}
		if skipName(e.Name()) {
			continue
		}
		sub, subRel := filepath.Join(p, e.Name()), path.Join(rel, e.Name())
		info, err := os.Stat(sub) // follows links
		switch {
		case err != nil:
			w.unreadable(arg, subRel, err)
		case info.IsDir():
			w.dir(arg, sub, subRel, above, depth+1)
		default:
			w.file(arg, sub, subRel)
		}
	}
}

// isOurOutput tells a folder that an earlier run wrote, by the schema of its report.json.
func isOurOutput(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		return false
	}
	f, err := os.Open(filepath.Join(dir, "report.json"))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	return bytes.Contains(head[:n], []byte(`"schema"`)) && bytes.Contains(head[:n], []byte(`"gpureport/`))
}

func (w *walker) unreadable(arg, rel string, err error) {
	if u := errors.Unwrap(err); u != nil {
		err = u
	}
	w.problem(display(rel), "ingest/unreadable-file", timeline.Error, "%v", err)
	w.count(stored{path: rel, arg: arg, size: -1})
}

func (w *walker) count(s stored) bool {
	if w.n >= maxFiles {
		if !w.full {
			w.full = true
			w.problem(display(s.path), "ingest/too-many-files", timeline.DataLoss, "more than %d files: this one and what follows is not read; name fewer folders", maxFiles)
		}
		return false
	}
	w.n++
	if s.open == nil {
		w.found(s, nil, nil)
	}
	return true
}

func (w *walker) file(arg, p, rel string) {
	info, err := os.Stat(p)
	if err != nil {
		w.unreadable(arg, rel, err)
		return
	}
	if !info.Mode().IsRegular() {
		w.unreadable(arg, rel, errors.New("not a regular file: write it to a file first"))
		return
	}
	real, err := filepath.EvalSymlinks(p)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		w.unreadable(arg, rel, err)
		return
	}
	if w.seen[real] {
		return
	}
	w.seen[real] = true
	key := fmt.Sprint(info.Size(), info.ModTime().UnixNano()) // hard links
	for _, other := range w.infos[key] {
		if os.SameFile(info, other) {
			return
		}
	}
	w.infos[key] = append(w.infos[key], info)
	w.stored(stored{path: rel, arg: arg, size: info.Size(), file: real,
		open: func() (io.ReadCloser, error) { return os.Open(real) },
		at: func() (io.ReaderAt, error) {
			f, err := os.Open(real)
			if err == nil {
				w.closers = append(w.closers, f.Close)
			}
			return f, err
		}})
}

// plainZips are zips that hold no inputs: model weights, office files, packages.
var plainZips = []string{".pt", ".pth", ".ckpt", ".bin", ".npz", ".xlsx", ".docx", ".pptx", ".jar", ".whl", ".apk", ".keras", ".safetensors"}

// stored looks into one file or member: an archive is walked, everything else is a leaf.
func (w *walker) stored(s stored) {
	if w.ctx.Err() != nil || !w.count(s) {
		return
	}
	r, err := s.open()
	if err != nil {
		w.n--
		w.unreadable(s.arg, s.path, err)
		return
	}
	d, err := decode(r, max(s.size, 0), maxNesting)
	//lint:ignore SA5001 decode gives what it opened even where it fails
	defer d.Close()
	if err != nil {
		w.problem(display(s.path), "ingest/damaged-file", timeline.Error, "%v", err)
		w.found(s, nil, nil)
		return
	}
	head, err := d.Peek(HeadSize)
	if len(head) == 0 && err != nil && err != io.EOF {
		w.problem(display(s.path), "ingest/damaged-file", timeline.Error, "nothing of it can be unpacked: %v", err)
		w.found(s, nil, nil)
		return
	}
	kind := ""
	switch {
	case (bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06"))) && !slices.Contains(plainZips, strings.ToLower(path.Ext(s.path))):
		kind = "zip"
	case len(head) > 262 && string(head[257:262]) == "ustar":
		kind = "tar"
	}
	switch {
	case kind == "":
		w.found(s, d, head)
	case s.depth >= maxNesting:
		w.problem(display(s.path), "ingest/too-deep", timeline.DataLoss, "archives inside each other more than %d deep: unpack it by hand", maxNesting)
		w.found(s, nil, nil)
	case kind == "zip":
		w.zip(s, d)
	case len(d.layers) == 0 && s.at != nil:
		w.tar(s)
	default:
		w.tarStream(s, d)
	}
}

func member(name string) (string, bool) {
	name = path.Clean("/" + strings.ReplaceAll(name, `\`, "/"))[1:]
	for part := range strings.SplitSeq(name, "/") {
		if skipName(part) {
			return "", false
		}
	}
	return name, name != ""
}

func (w *walker) zip(s stored, d *decoded) {
	var at io.ReaderAt
	var err error
	size := s.size
	if len(d.layers) == 0 && s.at != nil {
		at, err = s.at()
	} else {
		var b []byte
		b, err = io.ReadAll(io.LimitReader(d, maxInRAM+1))
		if err == nil && len(b) > maxInRAM {
			err = fmt.Errorf("a zip in another archive of more than %d MiB: unpack it by hand", maxInRAM>>20)
		}
		at, size = bytes.NewReader(b), int64(len(b))
	}
	var z *zip.Reader
	if err == nil {
		z, err = zip.NewReader(at, size)
	}
	if err != nil {
		w.problem(display(s.path), "ingest/damaged-archive", timeline.Error, "%v", err)
		w.found(s, nil, nil)
		return
	}
	for _, f := range z.File {
		name, ok := member(f.Name)
		if !ok || w.full {
			continue
		}
		sub := stored{path: s.path + "!/" + name, arg: s.arg, size: int64(f.UncompressedSize64), depth: s.depth + 1}
		switch {
		case f.FileInfo().IsDir():
		case !f.Mode().IsRegular():
			w.unreadable(s.arg, sub.path, errors.New("a link in an archive: not followed"))
		case f.Flags&1 != 0:
			w.unreadable(s.arg, sub.path, errors.New("encrypted: unpack it by hand"))
		default:
			limit := max(bombFloor, int64(f.CompressedSize64)*bombRatio)
			sub.open = func() (io.ReadCloser, error) {
				r, err := f.Open()
				if err != nil {
					return nil, err
				}
				return readCloser{&bounded{r: r, left: limit}, r}, nil
			}
			w.stored(sub)
		}
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// tar walks a plain tar file; its members are read where they lie.
func (w *walker) tar(s stored) {
	at, err := s.at()
	if err != nil {
		w.unreadable(s.arg, s.path, err)
		return
	}
	f := io.NewSectionReader(at, 0, s.size)
	t := tar.NewReader(f)
	for !w.full {
		h, err := t.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			w.problem(display(s.path), "ingest/damaged-archive", timeline.DataLoss, "%v: members before it are read", err)
			return
		}
		sub, ok := w.tarMember(s, h)
		if !ok {
			continue
		}
		start, _ := f.Seek(0, io.SeekCurrent)
		if start+h.Size > s.size {
			sub.size = s.size - start // cut archive: what is there can be read
		}
		sub.open = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(at, start, sub.size)), nil }
		sub.at = func() (io.ReaderAt, error) { return io.NewSectionReader(at, start, sub.size), nil }
		w.stored(sub)
	}
}

func (w *walker) tarMember(s stored, h *tar.Header) (stored, bool) {
	name, ok := member(h.Name)
	sub := stored{path: s.path + "!/" + name, arg: s.arg, size: h.Size, depth: s.depth + 1}
	switch {
	case !ok || h.Typeflag == tar.TypeDir:
		return sub, false
	case h.Typeflag != tar.TypeReg:
		w.unreadable(s.arg, sub.path, errors.New("a link or a special file in an archive: not followed"))
		return sub, false
	}
	return sub, true
}

// tarStream walks a tar that can only be read front to back. Going back for each member would read it once per rank, so members are
// kept: packed again, in memory, then in one temporary file.
func (w *walker) tarStream(s stored, d *decoded) {
	t := tar.NewReader(d)
	for !w.full && w.ctx.Err() == nil {
		h, err := t.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			w.problem(display(s.path), "ingest/damaged-archive", timeline.DataLoss, "%v: members before it are read", err)
			return
		}
		sub, ok := w.tarMember(s, h)
		if !ok {
			continue
		}
		kept, err := w.spool.keep(t)
		if err != nil {
			w.problem(display(sub.path), "ingest/damaged-archive", timeline.DataLoss, "%v: what lies before it is read", err)
		}
		if kept.open == nil {
			w.unreadable(s.arg, sub.path, err)
			return
		}
		sub.open, sub.size, sub.sum = kept.open, kept.size, kept.sum
		w.stored(sub)
	}
}

// spool keeps members of compressed tars.
type spool struct {
	inRAM int64
	file  *os.File
	end   int64
}

// keep stores r; a read error keeps what came before it.
func (s *spool) keep(r io.Reader) (stored, error) {
	h := sha256.New()
	sr := &sizeReader{r: io.TeeReader(r, h)}
	var buf bytes.Buffer
	out := &spillWriter{s: s, buf: &buf}
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return stored{}, err
	}
	_, readErr := io.Copy(z, sr)
	if err := z.Close(); err != nil {
		return stored{}, err
	}
	if out.err != nil {
		return stored{}, out.err
	}
	var at io.ReaderAt = bytes.NewReader(buf.Bytes())
	start, n := int64(0), int64(buf.Len())
	if out.spilled {
		at, start, n = s.file, out.start, s.end-out.start
	}
	return stored{size: sr.n, sum: hex.EncodeToString(h.Sum(nil)), open: func() (io.ReadCloser, error) {
		z, err := zstd.NewReader(io.NewSectionReader(at, start, n))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}}, readErr
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if rerr := os.Remove(s.file.Name()); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

type spillWriter struct {
	s       *spool
	buf     *bytes.Buffer
	spilled bool
	start   int64
	err     error
}

func (w *spillWriter) Write(p []byte) (int, error) {
	if !w.spilled && w.s.inRAM+int64(len(p)) <= spoolInRAM {
		w.s.inRAM += int64(len(p))
		return w.buf.Write(p)
	}
	if !w.spilled {
		if w.s.file == nil {
			if w.s.file, w.err = os.CreateTemp("", "gpureport-*.spool"); w.err != nil {
				return 0, w.err
			}
			_ = os.Remove(w.s.file.Name()) // where the system allows it, nothing stays behind if the program is killed
		}
		w.spilled, w.start = true, w.s.end
		n, err := w.s.file.WriteAt(w.buf.Bytes(), w.s.end)
		w.s.end += int64(n)
		w.s.inRAM -= int64(w.buf.Len())
		*w.buf = bytes.Buffer{}
		if w.err = err; err != nil {
			return 0, err
		}
	}
	n, err := w.s.file.WriteAt(p, w.s.end)
	w.s.end += int64(n)
	w.err = err
	return n, err
}

type sizeReader struct {
	r io.Reader
	n int64
}

func (s *sizeReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	return n, err
}

// display makes a path safe to show: a file name may hold anything.
func display(p string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, filepath.ToSlash(p))
}
