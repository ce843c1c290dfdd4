package torchprof

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Results of the scanning functions below where they give no position.
const (
	more = -1 // the buffer ends first
	bad  = -2 // not JSON, however leniently read
)

// Classes of bytes for skipping values.
const (
	plain = iota
	quote
	opening
	closing
	ending // ends a bare value: comma, blank
)

var class = func() (t [256]uint8) {
	t['"'] = quote
	t['{'], t['['] = opening, opening
	t['}'], t[']'] = closing, closing
	for _, c := range " \t\r\n," {
		t[c] = ending
	}
	return t
}()

func blanks(d []byte, i int) int {
	for i < len(d) && d[i] <= ' ' {
		i++
	}
	return i
}

const (
	ones   = 0x0101010101010101
	highs  = 0x8080808080808080
	quotes = '"' * ones
)

// stringEnd gives the index of the quote that closes the string whose text starts at i. Bytes under 0x20 and unknown
// escapes are accepted: both occur. Keys and most values are short: eight bytes at a time come first.
func stringEnd(d []byte, i int) int {
	start := i
	for n := 0; n < 3 && i+8 <= len(d); n++ {
		w := binary.LittleEndian.Uint64(d[i:]) ^ quotes
		if t := (w - ones) &^ w & highs; t != 0 {
			i += bits.TrailingZeros64(t) >> 3
			if i == start || d[i-1] != '\\' {
				return i
			}
			i = start
			break
		}
		i += 8
	}
	return stringEndFrom(d, start, i)
}

// stringEndFrom looks from i on, between which and start there is no quote that closes.
func stringEndFrom(d []byte, start, i int) int {
	for {
		j := bytes.IndexByte(d[i:], '"')
		if j < 0 {
			return more
		}
		i += j
		if i == start || d[i-1] != '\\' {
			return i
		}
		n := 0
		for k := i - 1; k >= start && d[k] == '\\'; k-- {
			n++
		}
		if n%2 == 0 {
			return i
		}
		i++
	}
}

// skipValue gives the index after the value at i.
func skipValue(d []byte, i int) int {
	if i >= len(d) {
		return more
	}
	switch class[d[i]] {
	case quote:
		j := stringEnd(d, i+1)
		if j < 0 {
			return j
		}
		return j + 1
	case opening:
		return skipNested(d, i)
	case plain:
		return skipBare(d, i)
	}
	return bad
}

// skipBare gives the index after a number or a word, the bare inf and NaN included. A second colon or a quote inside is
// damage.
func skipBare(d []byte, i int) int {
	for ; i < len(d); i++ {
		switch c := d[i]; {
		case class[c] >= closing:
			return i
		case class[c] != plain || c == ':':
			return bad
		}
	}
	return more
}

// skipNested gives the index after the object or array that starts at i. Deeper than 64 is taken for damage.
func skipNested(d []byte, i int) int {
	var stack uint64 // a bit a level, 1 for an object
	n := 0
	for i < len(d) {
		c := d[i]
		switch class[c] {
		case quote:
			j := stringEnd(d, i+1)
			if j < 0 {
				return j
			}
			i = j
		case opening:
			if n == 64 {
				return bad
			}
			stack <<= 1
			if c == '{' {
				stack |= 1
			}
			n++
		case closing:
			if (stack&1 == 1) != (c == '}') {
				return bad
			}
			stack >>= 1
			if n--; n == 0 {
				return i + 1
			}
		}
		i++
	}
	return more
}

// number is a decimal as read: exact, or why not.
type number struct {
	v    int64
	ok   bool // false: absent, not finite, not a number, or out of range; v is 0 unless it is the last
	frac bool // it was written with a fraction
}

// micros reads the value at i as microseconds and gives ns, rounded where more than three decimals are written. No float
// takes part: 16 digits and a fraction do not fit one.
func micros(d []byte, i int) (number, int) {
	start := i
	neg := false
	if i < len(d) && d[i] == '-' {
		neg = true
		i++
	}
	first := i
	var v int64
	if i+8 <= len(d) {
		if n, ok := eightDigits(binary.LittleEndian.Uint64(d[i:])); ok {
			v = int64(n)
			i += 8
		}
	}
	for i < len(d) && d[i]-'0' <= 9 {
		v = v*10 + int64(d[i]-'0')
		i++
	}
	if i == first || i-first > 15 && (i-first > 16 || v > 9e15) {
		return microsSlow(d, start)
	}
	v *= 1000
	frac := false
	if i < len(d) && d[i] == '.' {
		frac = true
		i++
		unit := int64(100)
		for i < len(d) && d[i]-'0' <= 9 {
			if unit == 0 {
				return microsSlow(d, start)
			}
			v += unit * int64(d[i]-'0')
			unit /= 10
			i++
		}
	}
	if i >= len(d) {
		return number{}, more
	}
	if class[d[i]] < closing {
		return microsSlow(d, start)
	}
	if neg {
		v = -v
	}
	return number{v, true, frac}, i
}

// eightDigits reads eight bytes as a number at once, if all are digits.
func eightDigits(w uint64) (uint64, bool) {
	if w&0xf0f0f0f0f0f0f0f0 != 0x3030303030303030 || (w+0x0606060606060606)&0xf0f0f0f0f0f0f0f0 != 0x3030303030303030 {
		return 0, false
	}
	w &= 0x0f0f0f0f0f0f0f0f
	w = w*10 + w>>8 // pairs in the even bytes
	w = (w&0x00ff00ff00ff00ff*100 + w>>16&0x00ff00ff00ff00ff)
	return w&0xffff*10000 + w>>32&0xffff, true
}

// microsSlow takes any value: strings, exponents, long fractions, inf.
func microsSlow(d []byte, i int) (number, int) {
	j := skipValue(d, i)
	if j < 0 {
		return number{}, j
	}
	text := d[i:j]
	if text[0] == '"' {
		text = bytes.TrimSpace(text[1 : len(text)-1])
	}
	v, ok := decimal(text, 3)
	return number{v, ok, bytes.IndexByte(text, '.') >= 0}, j
}

// decimal gives text times 10^shift, rounded half away from zero. Not ok: 0 if it is no finite decimal, the largest or
// smallest value if it is beyond int64.
func decimal(text []byte, shift int) (int64, bool) {
	neg := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		neg = text[0] == '-'
		text = text[1:]
	}
	var m uint64
	digits, point := 0, false
	next := -1 // first digit there was no room for
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		digits++
		if m > (1<<63)/10-1 { // no room: the rest only scales
			if next < 0 {
				next = int(c - '0')
			}
			if !point {
				shift++
			}
			continue
		}
		m = m*10 + uint64(c-'0')
		if point {
			shift--
		}
	}
	if digits == 0 {
		return 0, false
	}
	if i < len(text) {
		if text[i] != 'e' && text[i] != 'E' {
			return 0, false
		}
		exp, expNeg := 0, false
		i++
		if i < len(text) && (text[i] == '-' || text[i] == '+') {
			expNeg = text[i] == '-'
			i++
		}
		if i == len(text) {
			return 0, false
		}
		for ; i < len(text); i++ {
			if text[i] < '0' || text[i] > '9' {
				return 0, false
			}
			exp = min(exp*10+int(text[i]-'0'), 1000)
		}
		if expNeg {
			exp = -exp
		}
		shift += exp
	}
	if shift == 0 && next >= 5 {
		m++
	}
	beyond := int64(1<<63 - 1)
	if neg {
		beyond = -beyond
	}
	for ; shift > 0 && m > 0; shift-- {
		if m > (1<<63-1)/10 {
			return beyond, false
		}
		m *= 10
	}
	var last uint64
	for ; shift < 0 && m > 0; shift++ {
		last = m % 10
		m /= 10
		if shift < -1 {
			last = 0 // only the digit next to the cut rounds
		}
	}
	if shift == 0 && last >= 5 {
		m++
	}
	if m > 1<<63-1 {
		return beyond, false
	}
	if neg {
		return -int64(m), true
	}
	return int64(m), true
}

// integer reads the value at i as a whole number: a number, or the number at the end of a string ("7", "stream 7"). What
// is written as 2^64-1 or 2^32-1 for "none" becomes -1. Not ok for anything else.
func integer(d []byte, i int) (v int64, ok bool, next int) {
	if i < len(d) && d[i] == '"' {
		j := stringEnd(d, i+1)
		if j < 0 {
			return 0, false, j
		}
		v, ok = trailing(d[i+1 : j])
		return v, ok, j + 1
	}
	start := i
	neg := false
	if i < len(d) && d[i] == '-' {
		neg = true
		i++
	}
	var u uint64
	n := 0
	for i < len(d) && d[i]-'0' <= 9 {
		u = u*10 + uint64(d[i]-'0')
		i++
		n++
	}
	if i >= len(d) {
		return 0, false, more
	}
	if n == 0 || n > 20 || class[d[i]] < closing {
		j := skipValue(d, start)
		if j < 0 {
			return 0, false, j
		}
		v, ok = decimal(d[start:j], 0)
		return v, ok, j
	}
	v = int64(u)
	if v == 1<<32-1 {
		v = -1
	}
	if neg {
		v = -v
	}
	return v, true, i
}

// trailing gives the number at the end of a text, blanks aside.
func trailing(s []byte) (v int64, ok bool) {
	s = bytes.TrimSpace(s)
	i := len(s)
	for i > 0 && s[i-1] >= '0' && s[i-1] <= '9' {
		i--
	}
	if i == len(s) || len(s)-i > 20 {
		return 0, false
	}
	var u uint64
	for _, c := range s[i:] {
		u = u*10 + uint64(c-'0')
	}
	v = int64(u)
	if v == 1<<32-1 {
		v = -1
	}
	if i > 0 && s[i-1] == '-' && (i == 1 || s[i-2] == ' ') {
		v = -v
	}
	return v, true
}

// dims reads up to three whole numbers of a list, or of a string that holds one.
func dims(d []byte, i int) (v [3]int32, next int) {
	j := skipValue(d, i)
	if j < 0 {
		return v, j
	}
	n := 0
	for k := i; k < j && n < 3; {
		if d[k] < '0' || d[k] > '9' {
			if d[k] == '-' { // nonsense: no negative launch
				return [3]int32{}, j
			}
			k++
			continue
		}
		var u int64
		for k < j && d[k] >= '0' && d[k] <= '9' {
			u = min(u*10+int64(d[k]-'0'), 1<<31-1)
			k++
		}
		v[n] = int32(u)
		n++
	}
	return v, j
}
