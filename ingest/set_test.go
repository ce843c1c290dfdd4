package ingest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"gpureport/ingest/timeline"
)

// lineFormat is a format of these tests: "KIND" and then one number a line.
func lineFormat(kind string, bulk bool) Format {
	return Format{
		Name: kind, Doc: kind, Bulk: bulk,
		Recognise: func(h Head) bool { return bytes.HasPrefix(h.Text, []byte(strings.ToUpper(kind))) },
		Read: func(ctx context.Context, in *Input, b *timeline.Builder) error {
			f, err := in.Open()
			if err != nil {
				return err
			}
			defer f.Close()
			t := b.GPUTrack(timeline.Device{Index: 0, Ordinal: -1, Proc: -1, Source: in.Source}, kind)
			l := NewLines(f)
			for l.Next() {
				switch string(l.Text) {
				case "panic":
					panic("boom")
				case "error":
					return errors.New("no use")
				case "bad":
					in.Report(kind+"/bad", timeline.DataLoss, l.Row, "bad line %d", l.Row)
				}
				b.Reading(b.SeriesOf(timeline.Power, t), timeline.Time(l.Row)*1e9, float64(l.Row), uint32(l.Row))
				b.TL.Sources[in.Source].Rows++
			}
			if l.Err() != nil {
				in.Report(kind+"/damaged", timeline.DataLoss, l.Row, "%v", l.Err())
			}
			return nil
		},
	}
}

func testFormats() []Format {
	return []Format{lineFormat("log", false), lineFormat("trace", true), {Name: "other", Doc: "another thing", Convert: "make log", Recognise: func(h Head) bool { return bytes.HasPrefix(h.Text, []byte("OTHER")) }}}
}

type tree map[string]string

func (tr tree) write(t *testing.T, dir string) {
	t.Helper()
	for name, text := range tr {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func gz(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts { // one member each
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, p)
		_ = w.Close()
	}
	return b.String()
}

func zst(text string) string {
	w, _ := zstd.NewWriter(nil)
	return string(w.EncodeAll([]byte(text), nil))
}

func zipOf(files ...string) string { // name, content, ...
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, _ := w.Create(files[i])
		_, _ = io.WriteString(f, files[i+1])
	}
	_ = w.Close()
	return b.String()
}

func tarOf(files ...string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		_ = w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o600, Size: int64(len(files[i+1])), Format: tar.FormatUSTAR})
		_, _ = io.WriteString(w, files[i+1])
	}
	_ = w.Close()
	return b.String()
}

// bz is "LOG\n1\n" as bzip2 writes it; the standard library only reads.
const bz = "425a683931415926535911a4c8640000024c00001020000084a00030cd00c6801a6e2ee48a70a120234990c8"

// listed prints the files as "path format rows".
func listed(s *Set) string {
	var out []string
	for _, f := range s.Files {
		out = append(out, fmt.Sprintf("%s %s %d", f.Source.Path, f.Source.Format, f.Source.Rows))
	}
	return strings.Join(out, "\n")
}

func openAll(t *testing.T, opt Options, paths ...string) (*Set, *timeline.Timeline) {
	t.Helper()
	s, err := Open(paths, testFormats(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	base, err := s.ReadBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range s.Bulk() {
		_, _ = s.ReadBulk(t.Context(), i)
	}
	s.Settle(base)
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
	return s, base
}

func codesOf(base *timeline.Timeline) string {
	var out []string
	for _, p := range base.Problems {
		out = append(out, fmt.Sprintf("%s %s@%d*%d", p.Path, p.Code, p.Row, p.Count))
	}
	return strings.Join(out, "\n")
}

func TestOpenWalks(t *testing.T) {
	dir := t.TempDir()
	tree{
		"b/rank1.trace": "TRACE\n1\n", "a.log": "LOG\n1\n2\n", "c.gz": gz("LOG\n1\n"), "many.gz": gz("LOG\n1\n", "2\n", "3\n"),
		"d.zst": zst("LOG\n1\n"), "twice.gz": gz(gz("LOG\n1\n")), "x.other": "OTHER\n", "junk": "hello  there\n", "empty": "",
		"logs.zip":    zipOf("rank0.json", "TRACE\n1\n", "sub/a.log.gz", gz("LOG\n1\n2\n3\n"), "in.zip", zipOf("deep.log", "LOG\n"), "../../up.log", "LOG\n"),
		"t.tar":       tarOf("x/a.log", "LOG\n1\n", "x/b.gz", gz("LOG\n1\n"), "n.zip", zipOf("z.log", "LOG\n")),
		"t.tar.gz":    gz(tarOf("a.log", "LOG\n1\n", "b.trace.gz", gz("TRACE\n"), "junk", "hm")),
		"t.tzst":      zst(tarOf("a.log", "LOG\n")),
		".git/config": "LOG\n", "__MACOSX/._a": "LOG\n", ".DS_Store": "LOG\n",
		"model.pt":        zipOf("archive/data.pkl", "LOG\n"),
		"out/report.json": `{"schema": "gpureport/1"}`, "out/report.html": "<html>", "out/more.log": "LOG\n",
		"notout/report.json": `{"schema": "other/1"}`, "notout/report.html": "LOG\n",
	}.write(t, dir)
	bzRaw, err := hex.DecodeString(bz)
	if err != nil {
		t.Fatal(err)
	}
	tree{"e.bz2": string(bzRaw)}.write(t, dir)
	s, base := openAll(t, Options{}, dir)
	want := `a.log log 3
b/rank1.trace trace 2
c.gz log 2
d.zst log 2
e.bz2 log 2
empty unknown 0
junk unknown 0
logs.zip!/in.zip!/deep.log log 1
logs.zip!/rank0.json trace 2
logs.zip!/sub/a.log.gz log 4
logs.zip!/up.log log 1
many.gz log 4
model.pt unknown 0
notout/report.html log 1
notout/report.json unknown 0
t.tar!/n.zip!/z.log log 1
t.tar!/x/a.log log 2
t.tar!/x/b.gz log 2
t.tar.gz!/a.log log 2
t.tar.gz!/b.trace.gz trace 1
t.tar.gz!/junk unknown 0
t.tzst!/a.log log 1
twice.gz log 2
x.other other 0`
	if got := listed(s); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := codesOf(base); got != "" {
		t.Errorf("problems: %s", got)
	}
	content := map[string]string{"a.log": "LOG\n1\n2\n", "t.tar.gz!/a.log": "LOG\n1\n", "t.tar!/x/a.log": "LOG\n1\n", "logs.zip!/rank0.json": "TRACE\n1\n", "c.gz": gz("LOG\n1\n"), "junk": "hello  there\n", "t.tar.gz!/junk": "hm"}
	for _, src := range base.Sources {
		if src.SHA256 == "" {
			t.Errorf("%s: no hash", src.Path)
		}
		if text, ok := content[src.Path]; ok {
			if sum := sha256.Sum256([]byte(text)); src.SHA256 != hex.EncodeToString(sum[:]) || src.Bytes != int64(len(text)) {
				t.Errorf("%s: hash or %d bytes of other content", src.Path, src.Bytes)
			}
		}
		switch src.Path {
		case "junk":
			if src.Head != "hello there" || !strings.Contains(src.Note, "log, trace") || src.Used {
				t.Errorf("%+v", src)
			}
		case "x.other":
			if src.Note != "another thing: not read yet; record with: make log" || src.Used {
				t.Errorf("%+v", src)
			}
		case "a.log":
			if !src.Used || src.Note != "" {
				t.Errorf("%+v", src)
			}
		}
	}
}

func TestOrderOfArgumentsNeverShows(t *testing.T) {
	dir := t.TempDir()
	tree{"n1/rank0": "LOG\n1\n", "n2/rank0": "LOG\n1\n2\n", "x.log": "LOG\n"}.write(t, dir)
	n1, n2, x := filepath.Join(dir, "n1"), filepath.Join(dir, "n2"), filepath.Join(dir, "x.log")
	a, _ := openAll(t, Options{}, n1, n2, x)
	b, _ := openAll(t, Options{}, x, n2, n1, x, filepath.Join(dir, "n1", "..", "n1"))
	want := "n1/rank0 log 2\nn2/rank0 log 3\nx.log log 1"
	if listed(a) != want || listed(b) != want {
		t.Errorf("%s\n---\n%s", listed(a), listed(b))
	}
}

func TestSameFileOnce(t *testing.T) {
	dir := t.TempDir()
	tree{"a.log": "LOG\n"}.write(t, dir)
	if err := os.Link(filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("a.log", filepath.Join(dir, "c.log")); err != nil {
		t.Skip(err)
	}
	s, _ := openAll(t, Options{}, dir, filepath.Join(dir, "a.log"))
	if len(s.Files) != 1 {
		t.Errorf("%s", listed(s))
	}
}

func TestLinkLoopsAndUnreadable(t *testing.T) {
	dir := t.TempDir()
	tree{"d/a.log": "LOG\n"}.write(t, dir)
	if err := os.Symlink("..", filepath.Join(dir, "d", "up")); err != nil {
		t.Skip(err)
	}
	_ = os.Symlink("nowhere", filepath.Join(dir, "dangling"))
	s, base := openAll(t, Options{}, dir)
	if got := listed(s); got != "d/a.log log 1\ndangling unknown 0" {
		t.Errorf("%s", got)
	}
	if got := codesOf(base); !strings.Contains(got, "d/up ingest/link-loop") || !strings.Contains(got, "dangling ingest/unreadable-file") {
		t.Errorf("%s", got)
	}
}

func TestNamesAreSafeToShow(t *testing.T) {
	dir := t.TempDir()
	tree{"a\nb.log": "LOG\n", "a\tb.log": "LOG\n", "\x1b[31m.log": "LOG\n", "=HYPERLINK(x).log": "LOG\n"}.write(t, dir)
	s, _ := openAll(t, Options{}, dir)
	base := filepath.Base(dir)
	if got, want := listed(s), base+"/a?b.log log 1\n"+base+"/a?b.log#2 log 1\n=HYPERLINK(x).log log 1\n?[31m.log log 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestArgumentThatIsNotThere(t *testing.T) {
	_, err := Open([]string{filepath.Join(t.TempDir(), "nope")}, testFormats(), Options{})
	if err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("%v", err)
	}
}

func TestTwoFormatsClaimAFile(t *testing.T) {
	dir := t.TempDir()
	tree{"sub/a.log": "LOG\n"}.write(t, dir)
	two := append(testFormats(), Format{Name: "logger", Recognise: func(h Head) bool { return bytes.HasPrefix(h.Text, []byte("LOG")) }, Convert: "x"})
	_, err := Open([]string{dir}, two, Options{})
	if err == nil || !strings.Contains(err.Error(), "log") || !strings.Contains(err.Error(), "--as logger=sub/a.log") {
		t.Fatalf("%v", err)
	}
	for _, glob := range []string{"sub/a.log", "*.log", "a.*"} {
		s, err := Open([]string{dir}, two, Options{As: map[string]string{"logger": glob}})
		if err != nil || s.Files[0].Source.Format != "logger" {
			t.Errorf("%s: %v", glob, err)
		}
	}
	if _, err := Open([]string{dir}, two, Options{As: map[string]string{"lager": "*"}}); err == nil || !strings.Contains(err.Error(), "no format lager") {
		t.Errorf("%v", err)
	}
	if _, err := Open([]string{dir}, two, Options{As: map[string]string{"log": "["}}); err == nil {
		t.Error("a broken glob was taken")
	}
	if _, err := Open([]string{dir}, testFormats(), Options{TZ: "Mars"}); err == nil {
		t.Error("--tz Mars was taken")
	}
}

func TestReadersThatFail(t *testing.T) {
	dir := t.TempDir()
	tree{"boom": "LOG\npanic\n", "err": "LOG\n1\nerror\n", "bad": "LOG\nbad\nbad\n1\n", "t": "TRACE\nerror\n"}.write(t, dir)
	s, base := openAll(t, Options{}, dir)
	if got := codesOf(base); got != "bad log/bad@2*2\nboom log/unusable@0*1\nerr log/unusable@0*1\nt trace/unusable@0*1" {
		t.Errorf("%s", got)
	}
	for _, src := range base.Sources {
		if src.Used != (src.Path == "bad") || src.SHA256 == "" {
			t.Errorf("%+v", src)
		}
	}
	if _, err := s.ReadBulk(t.Context(), s.Bulk()[0]); err == nil || !strings.HasPrefix(err.Error(), "t: ") {
		t.Errorf("%v", err)
	}
	if len(base.Series) != 1 {
		t.Errorf("%d series: those of unusable files are not to be used", len(base.Series))
	}
}

func TestDamagedArchives(t *testing.T) {
	dir := t.TempDir()
	big := "LOG\n" + strings.Repeat("12345 and more\n", 40000)
	random := make([]byte, 200<<10)
	for i := range random {
		random[i] = byte(rand.N(256))
	}
	whole := gz(tarOf("a.log", "LOG\n1\n", "r.bin", string(random), "z.log", "LOG\n"))
	cutGz := gz(big)
	tree{"cut.gz": cutGz[:len(cutGz)/2], "cut.tar.gz": whole[:len(whole)/2], "cut.zip": zipOf("a.log", "LOG\n")[:40], "cut.tar": tarOf("a.log", "LOG\n1\n", "b.log", big)[:2048], "not.gz": "\x1f\x8bxyz"}.write(t, dir)
	s, base := openAll(t, Options{}, dir)
	got := listed(s)
	for _, want := range []string{"cut.tar.gz!/a.log log 2", "cut.tar!/a.log log 2", "cut.tar!/b.log log", "not.gz unknown 0", "cut.zip unknown 0"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	var cut *File
	for _, f := range s.Files {
		if f.Source.Path == "cut.gz" {
			cut = f
		}
	}
	if cut == nil || cut.Source.Rows < 10 || !cut.Source.Used {
		t.Errorf("cut.gz: what can be unpacked is not read: %+v", cut)
	}
	codes := codesOf(base)
	for _, want := range []string{"cut.gz log/damaged", "cut.zip ingest/damaged-archive", "cut.tar.gz!/r.bin ingest/damaged-archive", "not.gz ingest/damaged-file"} {
		if !strings.Contains(codes, want) {
			t.Errorf("%q is missing in\n%s", want, codes)
		}
	}
}

func TestNestingEnds(t *testing.T) {
	dir := t.TempDir()
	inner := zipOf("a.log", "LOG\n")
	for range 4 {
		inner = zipOf("in.zip", inner)
	}
	layers := "LOG\n"
	for range 5 {
		layers = gz(layers)
	}
	tree{"deep.zip": inner, "layers.gz": layers}.write(t, dir)
	_, base := openAll(t, Options{}, dir)
	if got := codesOf(base); !strings.Contains(got, "ingest/too-deep") || !strings.Contains(got, "layers.gz ingest/damaged-file") {
		t.Errorf("%s", got)
	}
}

// TestSpoolSpills: members of a compressed tar beyond the memory limit lie in a temporary file, which Close removes.
func TestSpoolSpills(t *testing.T) {
	sp := &spool{inRAM: spoolInRAM - 1000}
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rand.N(256))
	}
	var kept []stored
	for i := range 3 {
		st, err := sp.keep(bytes.NewReader(append(random, byte(i))))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, st)
	}
	if sp.file == nil {
		t.Fatal("nothing was spilled")
	}
	for i, st := range kept {
		r, err := st.open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil || !bytes.Equal(b, append(random, byte(i))) || st.size != int64(len(b)) {
			t.Errorf("member %d: %v, %d bytes", i, err, len(b))
		}
	}
	name := sp.file.Name()
	if err := sp.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("%s is still there", name)
	}
}

func TestBombEnds(t *testing.T) {
	b := &bounded{r: zeros{}, left: 10 << 20}
	if n, err := io.Copy(io.Discard, b); !errors.Is(err, ErrBomb) || n > 20<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestHashOfAFileReadInPart: the hash covers the file though the reader stopped early, and a second opening does not disturb it.
func TestHashOfAFileReadInPart(t *testing.T) {
	dir := t.TempDir()
	text := "PART\n" + strings.Repeat("x", 3<<20)
	tree{"a": text}.write(t, dir)
	part := Format{Name: "part", Recognise: func(h Head) bool { return bytes.HasPrefix(h.Text, []byte("PART")) },
		Read: func(ctx context.Context, in *Input, b *timeline.Builder) error {
			for range 2 {
				f, err := in.Open()
				if err != nil {
					return err
				}
				var p [100]byte
				if _, err := io.ReadFull(f, p[:]); err != nil || !bytes.HasPrefix(p[:], []byte("PART")) {
					return fmt.Errorf("read %q, %w", p[:4], err)
				}
				_ = f.Close()
			}
			b.TL.Sources[in.Source].Rows = 1
			return nil
		}}
	s, err := Open([]string{dir}, []Format{part}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := s.ReadBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	if src := base.Sources[0]; src.SHA256 != hex.EncodeToString(sum[:]) || src.Bytes != int64(len(text)) || !src.Used {
		t.Errorf("%+v %+v", src, base.Problems)
	}
}

func TestReadStopsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	tree{"a": "LOG\n1\n"}.write(t, dir)
	s, err := Open([]string{dir}, testFormats(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ReadBase(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestHeadText(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"\n \r\n  x\n", "  x\n"},
		{"\xef\xbb\xbfx", "x"},
		{"\xff\xfex\x00y\x00", "xy"},
		{"\xfe\xff\x00x\x00y", "xy"},
		{"\t\x1b[4mGPU0\x1b[0m\n", "\tGPU0\n"},
		{"a\x00b", ""},
		{"", ""},
		{"n1: a\nn1: b\n", "a\nb\n"},
		{"[pod/x] n1: a\n[pod/x] n1: b\n", "a\nb\n"},
		{"one: 1\ntwo: 2\n", "one: 1\ntwo: 2\n"}, // keys of a listing
		{"w-1  | a\nw-2  | b\nw-1  | c\nw-2  | d\nw-1  | e\nw-2  | f\n", "a\nb\nc\nd\ne\nf\n"},
	} {
		if got := string(headText([]byte(c.raw), true)); got != c.want {
			t.Errorf("%q: %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("y", maxLine+10)
	l := NewLines(strings.NewReader("a\r\n\nprogress\rb\n\x00\x00c\n" + long + "\nend"))
	var got []string
	for l.Next() {
		text := string(l.Text)
		if l.Long {
			text = fmt.Sprint(len(text))
		}
		got = append(got, fmt.Sprintf("%d:%s:%v", l.Row, text, l.Ended))
	}
	if want := fmt.Sprintf("1:a:true 2::true 3:b:true 4:c:true 5:%d:true 6:end:false", maxLine); strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}
