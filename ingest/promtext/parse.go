package promtext

import (
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// sample is one line of a scrape.
type sample struct {
	name   string
	labels []label
	value  float64
	at     timeline.Time // of its own stamp; 0 none
	row    uint32
}

type label struct{ name, value string }

func (s *sample) label(names ...string) string {
	for _, n := range names {
		for i := range s.labels {
			if s.labels[i].name == n {
				return s.labels[i].value
			}
		}
	}
	return ""
}

// key names the series of a sample.
func (s *sample) key() string {
	var b strings.Builder
	b.WriteString(s.name)
	for _, l := range s.labels {
		b.WriteByte(0)
		b.WriteString(l.name)
		b.WriteByte(1)
		b.WriteString(l.value)
	}
	return b.String()
}

func nameByte(c byte, first bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' || c >= '0' && c <= '9' && !first
}

// nameOf cuts the metric's name off a line; "" for no name.
func nameOf(line string) string {
	i := 0
	for i < len(line) && nameByte(line[i], i == 0) {
		i++
	}
	if i < len(line) && line[i] != '{' && line[i] != ' ' && line[i] != '\t' {
		return ""
	}
	return line[:i]
}

// parse reads one sample: name{label="value",...} number [stamp]. seconds: stamps count seconds, as in OpenMetrics.
func parse(line string, seconds bool) (sample, bool) {
	s := sample{name: nameOf(line)}
	if s.name == "" {
		return s, false
	}
	rest := strings.TrimLeft(line[len(s.name):], " \t")
	if strings.HasPrefix(rest, "{") {
		var ok bool
		if s.labels, rest, ok = labels(rest[1:]); !ok {
			return s, false
		}
	}
	cells := strings.Fields(rest)
	if len(cells) == 0 || len(cells) > 2 && cells[1] != "#" && cells[2] != "#" {
		return s, false
	}
	v, err := strconv.ParseFloat(cells[0], 64)
	if err != nil {
		return s, false
	}
	s.value = v
	if len(cells) > 1 && cells[1] != "#" {
		at, ok := stamp(cells[1], seconds)
		if !ok {
			return s, false
		}
		s.at = at
	}
	return s, true
}

// labels reads up to the closing brace.
func labels(s string) (out []label, rest string, ok bool) {
	for {
		s = strings.TrimLeft(s, " \t,")
		if strings.HasPrefix(s, "}") {
			return out, s[1:], true
		}
		eq := strings.IndexByte(s, '=')
		if eq < 1 || eq > 200 || len(out) > 64 {
			return nil, "", false
		}
		name := strings.TrimSpace(s[:eq])
		s = strings.TrimLeft(s[eq+1:], " \t")
		if !strings.HasPrefix(s, `"`) {
			return nil, "", false
		}
		s = s[1:]
		end := strings.IndexAny(s, `"\`)
		if end >= 0 && s[end] == '"' {
			out = append(out, label{name, s[:end]})
			s = s[end+1:]
			continue
		}
		var b strings.Builder
		closed := false
		i := 0
		for ; i < len(s); i++ {
			if s[i] == '"' {
				closed = true
				break
			}
			if s[i] == '\\' && i+1 < len(s) {
				i++
				if s[i] == 'n' {
					b.WriteByte('\n')
					continue
				}
			}
			b.WriteByte(s[i])
		}
		if !closed {
			return nil, "", false
		}
		out = append(out, label{name, b.String()})
		s = s[i+1:]
	}
}

// stamp reads milliseconds, or seconds with or without a fraction.
func stamp(s string, seconds bool) (timeline.Time, bool) {
	whole, frac, dot := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n <= 0 {
		return 0, false
	}
	switch {
	case dot || seconds || n < 1e11:
		if n > 9e9 || len(frac) > 18 {
			return 0, false
		}
		at := n * 1e9
		if frac != "" {
			f, err := strconv.ParseFloat("0."+frac, 64)
			if err != nil {
				return 0, false
			}
			at += int64(f*1e9 + .5)
		}
		return timeline.Time(at), true
	case n < 9e12:
		return timeline.Time(n * 1e6), true
	}
	return 0, false
}

var dateForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05-0700", "Mon Jan 2 15:04:05 UTC 2006", "Mon, 02 Jan 2006 15:04:05 +0000", "2006-01-02 15:04:05-07:00", "2006-01-02 15:04:05 UTC"}

// dateOf reads a line that holds nothing but an instant with its zone, as people print before each scrape.
func dateOf(line string) (timeline.Time, bool) {
	line = strings.Trim(line, "#= \t")
	if len(line) == 10 || len(line) > 10 && len(line) < 21 && line[10] == '.' {
		if at, ok := stamp(line, true); ok && at > 1e18 {
			return at, true
		}
	}
	for _, f := range dateForms {
		if t, err := time.Parse(f, line); err == nil && t.Year() >= 2000 && t.Year() < 2200 {
			return timeline.Time(t.UnixNano()), true
		}
	}
	return 0, false
}
