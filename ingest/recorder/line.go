package recorder

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// none stands for a number that could not be read; it is written as null.
const none = math.MinInt64

// lines builds JSON Lines by appending: a record costs no allocation, and integers stay integers.
type lines struct{ b []byte }

// begin opens a record of kind k at t ns.
func (l *lines) begin(k string, t int64) {
	l.b = append(l.b, `{"k":"`...)
	l.b = append(l.b, k...)
	l.b = append(l.b, '"')
	l.num("t", t)
}

// end closes the record.
func (l *lines) end() { l.b = append(l.b, '}', '\n') }

func (l *lines) sep() {
	if n := len(l.b); n > 0 {
		switch l.b[n-1] {
		case '{', '[', ':', '\n':
		default:
			l.b = append(l.b, ',')
		}
	}
}

func (l *lines) key(k string) {
	l.sep()
	l.b = append(l.b, '"')
	l.b = append(l.b, k...)
	l.b = append(l.b, '"', ':')
}

// num writes a key with an integer.
func (l *lines) num(k string, v int64) {
	l.key(k)
	l.b = appendInt(l.b, v)
}

// some writes the key unless the number is none: not measured is no key.
func (l *lines) some(k string, v int64) {
	if v != none {
		l.num(k, v)
	}
}

// ratio writes a key with a fraction.
func (l *lines) ratio(k string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	l.key(k)
	l.b = strconv.AppendFloat(l.b, v, 'g', 7, 64)
}

func (l *lines) bool(k string, v bool) {
	l.key(k)
	l.b = strconv.AppendBool(l.b, v)
}

// text writes a key with a string; an empty one is no key.
func (l *lines) text(k, v string) {
	if v != "" {
		l.key(k)
		l.b = appendString(l.b, v)
	}
}

// nums writes a key with an array of integers.
func (l *lines) nums(k string, vs ...int64) {
	l.key(k)
	l.array(vs)
}

// named is nums for a key that is a name of the system's: a disk, an interface.
func (l *lines) named(name string, vs ...int64) {
	l.sep()
	l.b = append(appendString(l.b, name), ':')
	l.array(vs)
}

func (l *lines) array(vs []int64) {
	l.sep()
	l.b = append(l.b, '[')
	for i, v := range vs {
		if i > 0 {
			l.b = append(l.b, ',')
		}
		l.b = appendInt(l.b, v)
	}
	l.b = append(l.b, ']')
}

// open and shut write the brackets of a nested value: open("cpus", '['), shut(']').
func (l *lines) open(k string, bracket byte) {
	if k == "" {
		l.sep()
	} else {
		l.key(k)
	}
	l.b = append(l.b, bracket)
}

func (l *lines) shut(bracket byte) { l.b = append(l.b, bracket) }

func appendInt(b []byte, v int64) []byte {
	if v == none {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, v, 10)
}

// appendString quotes s as JSON. What is no UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20 || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
