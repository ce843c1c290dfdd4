package render

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

const nbsp = "\u00a0"

// digits prints v with n significant digits, never in exponent form, thousands in groups with sep.
func digits(v float64, n int, sep string) string {
	if v == 0 {
		return "0"
	}
	neg := v < 0
	v = math.Abs(v)
	dec := n - 1 - int(math.Floor(math.Log10(v)))
	// 99.96 with three digits is 100, not 100.0
	if r := math.Round(v*math.Pow10(max(dec, 0))) / math.Pow10(max(dec, 0)); r > 0 {
		dec = n - 1 - int(math.Floor(math.Log10(r)+1e-12))
	}
	s := strconv.FormatFloat(v, 'f', max(dec, 0), 64)
	if dec < 0 {
		p := math.Pow10(-dec)
		s = strconv.FormatFloat(math.Round(v/p)*p, 'f', 0, 64)
	}
	whole, frac, _ := strings.Cut(s, ".")
	whole = group(whole, sep)
	if frac != "" {
		whole += "." + frac
	}
	if neg {
		return "-" + whole
	}
	return whole
}

// group puts sep between thousands of a string of digits.
func group(s, sep string) string {
	if sep == "" || len(s) <= 3 {
		return s
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteString(sep)
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Count prints an integer with thin groups.
func Count(n int64) string { return group(strconv.FormatInt(n, 10), "\u202f") }

// Dur prints a length in the unit that leaves 1 to 999, with n significant digits.
func Dur(ns float64, n int) string {
	a := math.Abs(ns)
	switch {
	case a == 0:
		return "0" + nbsp + "ms"
	case a < 999.5:
		return digits(ns, n, "") + nbsp + "ns"
	case a < 999.5e3:
		return digits(ns/1e3, n, "") + nbsp + "µs"
	case a < 999.5e6:
		return digits(ns/1e6, n, "") + nbsp + "ms"
	case a < 600e9:
		return digits(ns/1e9, n, "") + nbsp + "s"
	}
	return digits(ns/60e9, n, "\u202f") + nbsp + "min"
}

// Pct prints a share: under 10 % one decimal, else none; "<0.1 %" for what is not zero, "0" for nothing.
func Pct(f float64) string {
	p := f * 100
	switch {
	case p == 0:
		return "0"
	case p > 0 && p < 0.1:
		return "<0.1" + nbsp + "%"
	case math.Abs(p) < 9.95:
		return strconv.FormatFloat(p, 'f', 1, 64) + nbsp + "%"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + nbsp + "%"
}

// Pct1 is a share with one decimal, for columns.
func Pct1(f float64) string {
	p := f * 100
	switch {
	case p == 0:
		return "0"
	case p > 0 && p < 0.1:
		return "<0.1" + nbsp + "%"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + nbsp + "%"
}

// Bytes prints decimal bytes with two or three significant digits.
func Bytes(n float64) string {
	for _, u := range []struct {
		s float64
		n string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if math.Abs(n) >= u.s {
			return digits(n/u.s, 3, "") + nbsp + u.n
		}
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + nbsp + "B"
}

// MessageSize prints binary sizes of messages.
func MessageSize(n int64) string {
	f := float64(n)
	for _, u := range []struct {
		s float64
		n string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if f >= u.s {
			return trimZero(digits(f/u.s, 3, "")) + nbsp + u.n
		}
	}
	return strconv.FormatInt(n, 10) + nbsp + "B"
}

func trimZero(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// Middle cuts a long name in the middle and keeps both ends.
func Middle(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	head := (n - 1) * 2 / 3
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}

// Plural picks the form of a noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

var small = []string{"No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"}

// NumberWord is a count at the head of a sentence.
func NumberWord(n int) string {
	if n >= 0 && n < len(small) {
		return small[n]
	}
	return strconv.Itoa(n)
}

// largestRemainder rounds parts to whole units of step so that they add up to the rounded total.
func largestRemainder(parts []float64, step float64) []float64 {
	var total float64
	for _, p := range parts {
		total += p
	}
	want := int64(math.Round(total / step))
	out := make([]float64, len(parts))
	type rest struct {
		i int
		f float64
	}
	var rs []rest
	var sum int64
	for i, p := range parts {
		f := math.Floor(p / step)
		sum += int64(f)
		out[i] = f
		rs = append(rs, rest{i, p/step - f})
	}
	for sum < want {
		best := -1
		for j := range rs {
			if best < 0 || rs[j].f > rs[best].f {
				best = j
			}
		}
		out[rs[best].i]++
		rs[best].f = -1
		sum++
	}
	for i := range out {
		out[i] *= step
	}
	return out
}

// Plain is text for a terminal: ASCII units, no control characters.
func Plain(s string) string { return ascii(s) }

// ascii turns a page text into terminal text.
func ascii(s string) string {
	r := strings.NewReplacer(nbsp, " ", "\u202f", "", "µ", "u", "≤", "<=", "≥", ">=", "–", "-", "…", "...", "→", "->", "×", "x", "±", "+-", "’", "'", "“", `"`, "”", `"`, "°", "")
	s = r.Replace(s)
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\n' || c == '\t':
			b.WriteByte(' ')
		case c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0):
			b.WriteByte('?')
		case c == 0xfffd || !unicode.IsPrint(c):
			b.WriteByte('?')
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
