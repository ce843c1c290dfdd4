package ingest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"gpureport/ingest/timeline"
)

const maxLine = 1 << 20 // a longer line is cut: no sampled log has one

// Lines reads a text log line by line and takes away what was put around it on its way to disk: a byte order mark, UTF-16, ANSI
// escapes, NUL padding, carriage returns, and a prefix that repeats on every line of the first 64 KiB (kubectl logs, srun --label, pdsh).
type Lines struct {
	Text  []byte    // the line, valid until the next Next
	Row   uint64    // its number in the file, from 1
	Label string    // who printed the line, by its prefix; "" no prefix
	Stamp time.Time // when the line was printed, by its prefix; zero none
	Ended bool      // the line had its line feed: it is whole
	Long  bool      // the line was cut at 1 MiB

	bars bool // a carriage return ends a line too
	fed  bool // the line before ended with a line feed

	r      *bufio.Reader
	buf    []byte
	prefix []prefixKind
	err    error
}

// NewLines begins to read lines of r.
func NewLines(r io.Reader) *Lines {
	br := bufio.NewReaderSize(r, HeadSize)
	head, _ := br.Peek(HeadSize)
	if n, order := utf16Order(head); order != 0 {
		_, _ = br.Discard(n)
		br = bufio.NewReaderSize(&utf16Reader{r: br, big: order == 'b'}, HeadSize)
		head, _ = br.Peek(HeadSize)
	}
	return &Lines{r: br, prefix: findPrefix(head, len(head) < HeadSize)}
}

// NewPlainLines is NewLines for logs whose own stamps look like what a collector puts before each line: no prefix is taken away.
func NewPlainLines(r io.Reader) *Lines {
	l := NewLines(r)
	l.prefix = nil
	return l
}

// NewBarLines is NewPlainLines for logs with progress bars: each state that a carriage return overwrote is a line, of the same row.
func NewBarLines(r io.Reader) *Lines {
	l := NewPlainLines(r)
	l.bars = true
	return l
}

// part reads on to the end of a line, or as far as the buffer goes.
func (l *Lines) part() ([]byte, error) {
	if !l.bars {
		return l.r.ReadSlice('\n')
	}
	if _, err := l.r.Peek(1); err != nil {
		return nil, err
	}
	b, _ := l.r.Peek(l.r.Buffered())
	end := bytes.IndexAny(b, "\r\n")
	if end >= 0 {
		b = b[:end+1]
	}
	_, _ = l.r.Discard(len(b)) // all of it is in the buffer
	if end < 0 {
		return b, bufio.ErrBufferFull
	}
	return b, nil
}

// Next moves to the next line; false at the end or at an error, see Err.
func (l *Lines) Next() bool {
	if l.err != nil {
		return false
	}
	l.buf, l.Long = l.buf[:0], false
	for {
		part, err := l.part()
		if room := maxLine - len(l.buf); len(part) > room {
			part, l.Long = part[:room], true
		}
		l.buf = append(l.buf, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			l.err = err
			if len(l.buf) == 0 {
				return false
			}
		}
		l.Ended = err == nil
		break
	}
	if !l.bars || l.fed || l.Row == 0 {
		l.Row++
	}
	l.fed = bytes.HasSuffix(l.buf, []byte("\n"))
	l.Text = cleanLine(l.buf)
	l.Label, l.Stamp = "", time.Time{}
	for _, k := range l.prefix {
		label, stamp, rest, ok := k.cut(l.Text)
		if !ok {
			break
		}
		if len(label) > 0 {
			l.Label = string(label)
		}
		if !stamp.IsZero() {
			l.Stamp = stamp
		}
		l.Text = rest
	}
	return true
}

// Each gives every line to do, until the context ends. A file that breaks off is a problem of that format, and what lies before it is read.
func (l *Lines) Each(ctx context.Context, in *Input, format string, do func(l *Lines)) error {
	for l.Next() {
		if l.Row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		do(l)
	}
	if err := l.Err(); err != nil {
		in.Report(format+"/damaged-file", timeline.DataLoss, l.Row, "%v after line %d: what lies before it is read", err, l.Row)
	}
	return nil
}

// Err is the error that ended the reading before its end, nil at a plain end of file.
func (l *Lines) Err() error {
	if l.err == io.EOF {
		return nil
	}
	return l.err
}

// cleanLine works in place.
func cleanLine(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	b = bytes.Trim(b, "\x00")
	b = bytes.TrimRight(b, "\r")
	if i := bytes.LastIndexByte(b, '\r'); i >= 0 {
		b = b[i+1:] // a progress line was overwritten
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(b, 0x1b) >= 0 {
		b = stripANSI(b)
	}
	return b
}

// stripANSI removes escape sequences in place.
func stripANSI(b []byte) []byte {
	out := b[:0]
	for i := 0; i < len(b); i++ {
		if b[i] != 0x1b {
			out = append(out, b[i])
			continue
		}
		if i+1 >= len(b) {
			break
		}
		switch i++; b[i] {
		case '[': // CSI: ends at a letter or one of @[\]^_`{|}~
			for i++; i < len(b) && (b[i] < 0x40 || b[i] > 0x7e) && b[i] != '\n'; i++ {
			}
		case ']': // OSC: ends at BEL
			for i++; i < len(b) && b[i] != 7 && b[i] != '\n'; i++ {
			}
		}
	}
	return out
}

// utf16Order tells the byte order of UTF-16 text, 'l' or 'b', and how long its mark is; 0 is no UTF-16.
func utf16Order(b []byte) (mark int, order byte) {
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return 2, 'l'
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return 2, 'b'
	}
	n := min(len(b), 256) &^ 1
	if n < 16 {
		return 0, 0
	}
	var even, odd int
	for i := 0; i < n; i += 2 {
		if b[i] == 0 {
			even++
		}
		if b[i+1] == 0 {
			odd++
		}
	}
	switch {
	case even == 0 && odd*10 >= n/2*9:
		return 0, 'l'
	case odd == 0 && even*10 >= n/2*9:
		return 0, 'b'
	}
	return 0, 0
}

// utf16Reader turns UTF-16 into UTF-8.
type utf16Reader struct {
	r    io.Reader
	big  bool
	in   []byte
	out  []byte
	high rune // first half of a pair
	err  error
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if u.err != nil {
			return 0, u.err
		}
		if u.in == nil {
			u.in = make([]byte, 0, 8192)
		}
		n, err := u.r.Read(u.in[len(u.in):cap(u.in)])
		u.in, u.err = u.in[:len(u.in)+n], err
		u.out = u.out[:0]
		i := 0
		for ; i+1 < len(u.in); i += 2 {
			c := rune(u.in[i]) | rune(u.in[i+1])<<8
			if u.big {
				c = rune(u.in[i])<<8 | rune(u.in[i+1])
			}
			switch {
			case u.high != 0:
				u.out = utf8.AppendRune(u.out, utf16.DecodeRune(u.high, c))
				u.high = 0
			case utf16.IsSurrogate(c):
				u.high = c
			default:
				u.out = utf8.AppendRune(u.out, c)
			}
		}
		u.in = u.in[:copy(u.in, u.in[i:])]
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

// headText is what a recogniser sees of raw; empty for binary content.
func headText(raw []byte, whole bool) []byte {
	text := raw
	if n, order := utf16Order(raw); order != 0 {
		text, _ = io.ReadAll(&utf16Reader{r: bytes.NewReader(raw[n:]), big: order == 'b'})
	} else {
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		if isBinary(text) {
			return nil
		}
		text = bytes.Clone(text)
	}
	if bytes.IndexByte(text, 0x1b) >= 0 {
		text = stripANSI(text)
	}
	text = bytes.TrimLeft(text, "\r\n")
	for { // blank lines of spaces; the first text line keeps its indent, topo and nvlink need it
		i := bytes.IndexByte(text, '\n')
		if i < 0 || len(bytes.TrimSpace(text[:i])) > 0 {
			break
		}
		text = text[i+1:]
	}
	if ks := findPrefix(text, whole); len(ks) > 0 {
		out := make([]byte, 0, len(text))
		for line := range bytes.Lines(text) {
			for _, k := range ks {
				if _, _, rest, ok := k.cut(line); ok {
					line = rest
				}
			}
			out = append(out, line...)
		}
		text = out
	}
	return text
}

func isBinary(b []byte) bool {
	b = b[:min(len(b), 1024)]
	ctrl := 0
	for _, c := range b {
		switch {
		case c == 0:
			return true
		case c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\b' && c != 0x1b:
			ctrl++
		}
	}
	return ctrl*10 > len(b)
}

// prefixKind is a shape of what log collectors put before each line.
type prefixKind uint8

const (
	prefixStamp   prefixKind = iota + 1 // 2026-07-14T08:12:53.123Z
	prefixBracket                       // [pod/train-0/main]
	prefixColon                         // 0: or host7:
	prefixBar                           // worker-1  |
)

// cut splits b behind its prefix of kind k.
func (k prefixKind) cut(b []byte) (label []byte, stamp time.Time, rest []byte, ok bool) {
	switch k {
	case prefixStamp:
		i := bytes.IndexByte(b, ' ')
		if i < 20 || i > 40 || b[10] != 'T' {
			return
		}
		t, err := time.Parse(time.RFC3339Nano, string(b[:i]))
		if err != nil {
			return
		}
		return nil, t, b[i+1:], true
	case prefixBracket:
		i := bytes.IndexByte(b, ']')
		if len(b) == 0 || b[0] != '[' || i < 2 || i > 200 || bytes.ContainsAny(b[:i], "{}\",\n") {
			return
		}
		return b[1:i], stamp, bytes.TrimPrefix(bytes.TrimPrefix(b[i+1:], []byte(":")), []byte(" ")), true
	case prefixColon:
		i := bytes.Index(b, []byte(": "))
		if i < 1 || i > 100 || bytes.ContainsAny(b[:i], " \t\"{[,#\n") && len(bytes.TrimLeft(b[:i], " 0123456789")) > 0 {
			return
		}
		return bytes.TrimSpace(b[:i]), stamp, b[i+2:], true
	case prefixBar:
		i := bytes.Index(b, []byte("| "))
		if i < 1 || i > 100 || bytes.ContainsAny(bytes.TrimRight(b[:i], " "), " \t\"{[,#|+\n") {
			return
		}
		return bytes.TrimSpace(b[:i]), stamp, b[i+2:], true
	}
	return
}

// findPrefix finds the prefixes that every line of the head has, outermost first. One line is no evidence.
func findPrefix(head []byte, whole bool) []prefixKind {
	var lines [][]byte
	cut := false // a cut last line may lack the end of its prefix
	for line := range bytes.Lines(head) {
		if cut = line[len(line)-1] != '\n'; cut && !whole {
			break
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, line)
		}
		if len(lines) == 400 {
			break
		}
	}
	if len(lines) > 2 && cut && whole {
		lines = lines[:len(lines)-1]
	}
	var out []prefixKind
	for range 3 {
		var found prefixKind
		for _, k := range []prefixKind{prefixStamp, prefixBracket, prefixColon, prefixBar} {
			if len(lines) >= 2 && everyLine(lines, k) {
				found = k
				break
			}
		}
		if found == 0 {
			break
		}
		out = append(out, found)
		for i, l := range lines {
			_, _, lines[i], _ = found.cut(l)
		}
	}
	return out
}

// everyLine also wants few distinct labels: keys of a listing ("a: 1", "b: 2") are no prefix.
func everyLine(lines [][]byte, k prefixKind) bool {
	labels := map[string]int{}
	for _, l := range lines {
		label, _, _, ok := k.cut(l)
		if !ok {
			return false
		}
		labels[string(label)]++
	}
	return k == prefixStamp || len(labels) == 1 || len(labels)*3 <= len(lines)
}
