package kernlog

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// clockKind says what the stamp of a line is.
type clockKind uint8

const (
	noStamp clockKind = iota
	bootStamp
	wallStamp   // date and time, no zone
	noYearStamp // the same without a year, which is then ingest.BaseYear
	zonedStamp
	nKinds
)

// line is one line of a log, cut into its parts.
type line struct {
	kind   clockKind
	at     timeline.Time
	step   timeline.Time // grain of the stamp
	delta  bool          // at counts from the line before
	boot   timeline.Time // seconds since boot beside a wall stamp; -1 none
	host   string
	tag    string // program that a log daemon names; "" where the line comes from dmesg
	msg    []byte
	framed bool // the line has a form that only kernel and system logs have
}

// kernel tells whether the kernel said it.
func (l *line) kernel() bool { return l.tag == "kernel" || l.tag == "" && l.host == "" }

// cut takes off what dmesg, journalctl, syslog and container runtimes put before a message.
func cut(b []byte) line {
	l := line{boot: -1}
	b = bytes.TrimLeft(b, " \t")
	rfc5424 := false
	if rest, ok := cutPriority(b); ok {
		b, l.framed = rest, true
		if v, ok := bytes.CutPrefix(b, []byte("1 ")); ok && len(v) > 4 && isDigit(v[0]) {
			b, rfc5424 = v, true
		}
	}
	if rest := cutFacility(b); len(rest) < len(b) {
		b, l.framed = rest, true
	}
	for range 4 {
		if len(b) == 0 {
			break
		}
		if b[0] == '[' {
			rest, ok := l.bracket(b)
			if !ok {
				break
			}
			b = rest
			if l.kind == bootStamp && l.host == "" { // journalctl -o short-monotonic
				if host, rest, ok := bytes.Cut(b, []byte(" kernel: ")); ok && isHost(host) {
					l.host, l.tag, b = string(host), "kernel", rest
				}
			}
			continue
		}
		if l.kind != noStamp {
			break
		}
		rest, comma, ok := l.wall(b)
		if !ok {
			break
		}
		b = rest
		switch {
		case rfc5424:
			b = l.app(b)
		case comma: // dmesg --time-format iso
			l.framed = l.framed || l.kind == zonedStamp
		default:
			if r, ok := cutCRI(b); ok {
				b = r
				if inner := cut(b); inner.framed { // the runtime's stamp stands outside
					l.host, l.tag, b, l.framed = inner.host, inner.tag, inner.msg, true
					if inner.kind == bootStamp {
						l.boot = inner.at
					}
				}
				l.msg = b
				return l
			}
			b = l.daemon(b)
		}
	}
	l.msg = b
	return l
}

// baseYear stands before stamps that state no year.
var baseYear = strconv.Itoa(ingest.BaseYear) + " "

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// cutPriority cuts <4>.
func cutPriority(b []byte) ([]byte, bool) {
	if len(b) < 3 || b[0] != '<' {
		return b, false
	}
	i := bytes.IndexByte(b[:min(len(b), 5)], '>')
	if i < 2 {
		return b, false
	}
	for _, c := range b[1:i] {
		if !isDigit(c) {
			return b, false
		}
	}
	return b[i+1:], true
}

var facilities = []string{"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp"}

// cutFacility cuts what dmesg -x prints: "kern  :warn  : ".
func cutFacility(b []byte) []byte {
	i := bytes.IndexByte(b[:min(len(b), 12)], ':')
	if i < 3 {
		return b
	}
	name := strings.TrimRight(string(b[:i]), " ")
	known := false
	for _, f := range facilities {
		known = known || f == name
	}
	j := bytes.IndexByte(b[i+1:min(len(b), i+12)], ':')
	if !known || j < 3 {
		return b
	}
	for _, c := range bytes.TrimRight(b[i+1:i+1+j], " ") {
		if c < 'a' || c > 'z' {
			return b
		}
	}
	return bytes.TrimLeft(b[i+2+j:], " ")
}

// bracket reads a stamp in brackets: seconds since boot, dmesg -T, dmesg -H, and the caller that some kernels add.
func (l *line) bracket(b []byte) ([]byte, bool) {
	i := bytes.IndexByte(b[:min(len(b), 40)], ']')
	if i < 2 {
		return b, false
	}
	in, rest := bytes.TrimLeft(b[1:i], " "), bytes.TrimPrefix(b[i+1:], []byte(" "))
	if len(in) == 0 {
		return b, false
	}
	switch c := in[0]; {
	case isDigit(c):
		at, ok := seconds(in)
		switch {
		case !ok || l.boot >= 0 || l.kind == bootStamp:
			return b, false
		case l.kind == noStamp:
			l.kind, l.at, l.step = bootStamp, at, 1000
		default:
			l.boot = at
		}
		if i := bytes.IndexByte(in, '.'); len(in)-i != 7 && !l.framed { // the kernel writes microseconds
			return rest, true
		}
	case c == '+' && l.kind == noStamp:
		at, ok := seconds(in[1:])
		if !ok {
			return b, false
		}
		l.kind, l.at, l.step, l.delta = noYearStamp, at, 60e9, true
	case (c == 'T' || c == 'C') && l.kind == bootStamp && allDigits(in[1:]): // CONFIG_PRINTK_CALLER
	case l.kind == noStamp:
		s := strings.Join(strings.Fields(string(in)), " ")
		if t, err := time.Parse("Mon Jan 2 15:04:05 2006", s); err == nil && plausible(t) {
			l.kind, l.at, l.step = wallStamp, timeline.Time(t.UnixNano()), 1e9
		} else if t, err := time.Parse("2006 Jan2 15:04", baseYear+s); err == nil {
			l.kind, l.at, l.step = noYearStamp, timeline.Time(t.UnixNano()), 60e9
		} else {
			return b, false
		}
	default:
		return b, false
	}
	l.framed = true
	return rest, true
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return len(b) > 0
}

// seconds reads "1234.567890"; a fraction is required.
func seconds(b []byte) (timeline.Time, bool) {
	whole, frac, ok := bytes.Cut(b, []byte("."))
	if !ok || len(whole) == 0 || len(whole) > 10 || len(frac) == 0 || len(frac) > 9 || !allDigits(whole) || !allDigits(frac) {
		return 0, false
	}
	n := timeline.Time(0)
	for _, c := range whole {
		n = n*10 + timeline.Time(c-'0')
	}
	for i := range 9 {
		n *= 10
		if i < len(frac) {
			n += timeline.Time(frac[i] - '0')
		}
	}
	if n < 0 {
		return 0, false
	}
	return n, true
}

func plausible(t time.Time) bool { return t.Year() >= 1990 && t.Year() <= 2200 }

var isoForms = []string{"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999Z07", "2006-01-02T15:04:05.999999999"}

// wall reads a stamp without brackets. comma: its fraction stands behind a comma, as dmesg writes it.
func (l *line) wall(b []byte) (rest []byte, comma, ok bool) {
	word, after, _ := bytes.Cut(b, []byte(" "))
	switch {
	case len(word) == 3 && word[0] >= 'A' && word[0] <= 'Z': // Jul 14 08:12:53[.123456]; Tue 2026-07-14 08:12:53 UTC
		if i := bytes.IndexByte(after, ' '); i == 10 && isDigit(after[0]) && after[4] == '-' {
			return l.full(after)
		}
		if len(b) < 15 || b[9] != ':' || b[12] != ':' {
			return b, false, false
		}
		end := 15
		if len(b) > end && b[end] == '.' {
			for end++; end < len(b) && isDigit(b[end]); end++ {
			}
		}
		t, err := time.Parse("2006 Jan _2 15:04:05.999999999", baseYear+string(b[:end]))
		if err != nil || end < len(b) && b[end] != ' ' {
			return b, false, false
		}
		l.kind, l.at, l.step = noYearStamp, timeline.Time(t.UnixNano()), stepOf(b[:end])
		return bytes.TrimPrefix(b[end:], []byte(" ")), false, true
	case len(word) >= 19 && len(word) <= 40 && word[4] == '-' && word[10] == 'T':
		for i, form := range isoForms {
			t, err := time.Parse(form, string(word))
			if err != nil || !plausible(t) {
				continue
			}
			l.kind, l.at, l.step = zonedStamp, timeline.Time(t.UnixNano()), stepOf(word)
			if i == len(isoForms)-1 {
				l.kind = wallStamp
			}
			return after, bytes.IndexByte(word, ',') >= 0, true
		}
	case len(word) == 10 && word[4] == '-' && isDigit(word[0]):
		return l.full(b)
	case len(word) == 17 && word[10] == '.' && isDigit(word[0]): // journalctl -o short-unix
		if at, ok := seconds(word); ok {
			l.kind, l.at, l.step = zonedStamp, at, 1000
			return after, false, true
		}
	}
	return b, false, false
}

// full reads "2026-07-14 08:12:53[.123456] [UTC|+02:00]".
func (l *line) full(b []byte) (rest []byte, comma, ok bool) {
	f := bytes.SplitN(b, []byte(" "), 4)
	if len(f) < 3 {
		return b, false, false
	}
	stamp := string(f[0]) + "T" + string(f[1])
	rest = bytes.Join(f[2:], []byte(" "))
	if z := string(f[2]); len(f) == 4 && zoneWord(z) {
		rest = f[3]
		switch {
		case z == "UTC" || z == "GMT" || z == "Z":
			stamp += "Z"
		case z[0] == '+' || z[0] == '-':
			stamp += z
		}
	}
	for i, form := range isoForms {
		t, err := time.Parse(form, stamp)
		if err != nil || !plausible(t) {
			continue
		}
		l.kind, l.at, l.step = zonedStamp, timeline.Time(t.UnixNano()), stepOf(f[1])
		if i == len(isoForms)-1 {
			l.kind = wallStamp // without a zone, or one that is only a name
		}
		return rest, false, true
	}
	return b, false, false
}

// zoneWord tells a zone from a host name: UTC, CEST, +02, +0200, +02:00.
func zoneWord(s string) bool {
	if s == "" {
		return false
	}
	if s[0] == '+' || s[0] == '-' {
		return len(s) >= 3 && len(s) <= 6
	}
	if len(s) < 3 || len(s) > 5 {
		return s == "Z"
	}
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return true
}

func stepOf(stamp []byte) timeline.Time {
	if bytes.ContainsAny(stamp, ".,") {
		return 1000
	}
	return 1e9
}

func isHost(b []byte) bool {
	if len(b) == 0 || len(b) > 253 {
		return false
	}
	for _, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '-' || c == '.' || c == '_' || c == ':') {
			return false
		}
	}
	return b[len(b)-1] != ':'
}

// daemon reads "host tag[pid]: message".
func (l *line) daemon(b []byte) []byte {
	host, rest, ok := bytes.Cut(b, []byte(" "))
	if !ok || !isHost(host) {
		return b
	}
	i := bytes.Index(rest, []byte(":"))
	if i < 1 || i > 128 {
		return b
	}
	tag, msg := rest[:i], bytes.TrimPrefix(rest[i+1:], []byte(" "))
	if j := bytes.IndexByte(tag, '['); j > 0 {
		l.framed = l.framed || bytes.HasSuffix(tag, []byte("]")) && allDigits(tag[j+1:len(tag)-1]) // programs' own logs state no pid there
		tag = tag[:j]
	}
	if bytes.ContainsAny(tag, " \t") {
		return b
	}
	l.host, l.tag = string(host), string(tag)
	l.framed = l.framed || l.tag == "kernel"
	return msg
}

// app reads the rest of an RFC 5424 line: host app procid msgid data message.
func (l *line) app(b []byte) []byte {
	f := bytes.SplitN(b, []byte(" "), 5)
	if len(f) < 5 {
		return b
	}
	if h := string(f[0]); h != "-" {
		l.host = h
	}
	l.tag = string(f[1])
	msg := f[4]
	if rest, ok := bytes.CutPrefix(msg, []byte("- ")); ok {
		msg = rest
	} else if i := bytes.Index(msg, []byte("] ")); i > 0 && msg[0] == '[' {
		msg = msg[i+2:]
	}
	return bytes.TrimPrefix(msg, []byte("\xef\xbb\xbf"))
}

// cutCRI cuts what container runtimes print between stamp and line.
func cutCRI(b []byte) ([]byte, bool) {
	for _, p := range []string{"stdout F ", "stderr F ", "stdout P ", "stderr P "} {
		if rest, ok := bytes.CutPrefix(b, []byte(p)); ok {
			return rest, true
		}
	}
	return b, false
}
