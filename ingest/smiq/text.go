package smiq

import (
	"bytes"
	"context"
	"regexp"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

const textMark = "==============NVSMI LOG"

func recogniseText(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if bytes.HasPrefix(line, []byte(textMark)) {
			return true
		}
		if n++; n == 3 {
			return false
		}
	}
	return false
}

// level is one line of the listing that holds the lines below it.
type level struct {
	indent int
	path   string // in lower case; "" for the GPU itself
}

var gpuHeader = regexp.MustCompile(`^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])$`)

func readText(ctx context.Context, r *reader, l *ingest.Lines) error {
	for l.Next() {
		if l.Row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r.textLine(r.host(l.Label), l)
	}
	for _, h := range r.hostList {
		if h.b != nil {
			r.endGPU(h, l.Ended && h.b.complete())
		}
		r.end(h)
	}
	return nil
}

// complete tells that the section the file ends in is whole, as far as can be seen: no line stands behind it.
func (b *block) complete() bool {
	if b.bits > 0 && b.seen&0x20 == 0 {
		return false
	}
	return !b.inProcesses || b.noProcess || b.p.known && b.p.mem != ""
}

func (r *reader) textLine(h *host, l *ingest.Lines) {
	line := strings.TrimRight(string(l.Text), " \t")
	text := strings.TrimLeft(line, " \t")
	row := l.Row
	switch {
	case text == "":
		return
	case l.Long:
		r.in.Report("smiq/long-line", timeline.DataLoss, row, "a line of more than 1 MiB: skipped")
		return
	case strings.HasPrefix(text, textMark):
		r.begin(h)
		return
	}
	indent := len(line) - len(text)
	key, value, isValue := splitLine(text)
	if !l.Ended {
		// The file ends inside this line: its value may have lost digits.
		r.in.Report("smiq/unterminated-row", timeline.Info, row, "the file ends without a line feed: the last value may be cut and is left out")
		return
	}
	if indent == 0 {
		if m := gpuHeader.FindStringSubmatch(text); m != nil {
			r.gpu(h, m[1], row)
			h.stack = h.stack[:0]
			return
		}
		if r.sentence(h, text, row) {
			return
		}
		if isValue && h.r != nil {
			r.endGPU(h, true)
			r.top(h, strings.ToLower(key), value, row)
			return
		}
		r.in.Report("smiq/stray-line", timeline.Info, row, "not a line of the report: %q", text[:min(len(text), 120)])
		return
	}
	if h.b == nil {
		return // below nothing that is known: a GPU too many
	}
	for len(h.stack) > 0 && h.stack[len(h.stack)-1].indent >= indent {
		h.stack = h.stack[:len(h.stack)-1]
	}
	path := strings.ToLower(key)
	if n := len(h.stack); n > 0 {
		path = h.stack[n-1].path + "/" + path
	}
	if len(h.stack) < maxDepth {
		h.stack = append(h.stack, level{indent, path})
	}
	r.pathLine(h, path, value, isValue, row)
}

// maxDepth is more than any report nests.
const maxDepth = 16

// pathLine takes one line below a GPU.
func (r *reader) pathLine(h *host, path, value string, isValue bool, row uint64) {
	inside := strings.HasPrefix(path, "processes/") || strings.HasPrefix(path, "compute processes/")
	if !inside {
		r.endProcesses(h)
	}
	if !strings.HasPrefix(path, "clocks event reasons/") && !strings.HasPrefix(path, "clocks throttle reasons/") {
		r.endReasons(h)
	}
	switch {
	case inside:
		if isValue {
			r.processValue(h, path[strings.LastIndexByte(path, '/')+1:], value, row)
		}
	case path == "processes" || path == "compute processes":
		if !isValue || strings.EqualFold(value, "none") {
			r.beginProcesses(h, row)
			h.b.noProcess = isValue
		}
	case path == "mig device":
		if h.b.migDevices++; h.b.migDevices == 1 {
			h.b.migRow = row
		}
	case isValue:
		if f := fieldOf(byText, path); f != nil {
			r.value(h, f, value, row)
		}
	}
}

// splitLine cuts "Key     : value"; a line without a colon that has a blank before it is a heading.
func splitLine(s string) (key, value string, ok bool) {
	if i := strings.Index(s, " : "); i > 0 {
		return strings.TrimSpace(s[:i]), strings.TrimSpace(s[i+3:]), true
	}
	if k, found := strings.CutSuffix(s, " :"); found {
		return strings.TrimSpace(k), "", true
	}
	return s, "", false
}
