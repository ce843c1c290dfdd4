package nsysstats

import (
	"bytes"
	"context"
	"errors"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// layout is how the cells of a row lie.
type layout uint8

const (
	commas layout = iota
	tabs
	columns
)

// maxJoined bounds the lines that a quoted name with line feeds may take.
const maxJoined = 64

type reader struct {
	in *ingest.Input
	b  *timeline.Builder

	// What the lines before a table said.
	recording string // file that the tables were made of, as the first of the lines says; "" none said
	other     bool   // the tables below are of another recording
	titled    report
	sizeUnit  string

	h      *header // nil: between tables
	layout layout
	from   []int // columns: where each begins, in characters
	row    [][]byte
	buf    []byte
	sums   sums
	spans  spans
	tables int
	rows   int64
	first  uint64 // line of the first table
	noise  int64
	noiseL uint64
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, titled: byFileName(in.Path)}
	r.spans.init(r)
	lines := ingest.NewLines(f)
	var prev, joined []byte // the last line that is not blank; a row whose quotes are open
	open := 0
	var openRow uint64
	for lines.Next() {
		if lines.Row&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if lines.Row > 1<<32-1 {
			in.Report("nsys-stats/too-long", timeline.DataLoss, lines.Row, "more lines than can be counted: the rest is not read")
			break
		}
		line, at := lines.Text, lines.Row
		if lines.Long {
			in.Report("nsys-stats/long-line", timeline.DataLoss, at, "a line of more than 1 MiB: what follows on it is cut off")
		}
		if open > 0 {
			joined = append(append(joined, '\n'), line...)
			if open++; open > maxJoined || len(joined) > 1<<16 {
				r.badRow(openRow, "a quote that no line closes")
				open, joined = 0, joined[:0]
				continue
			}
			line, at = joined, openRow
		} else if len(bytes.TrimSpace(line)) == 0 {
			r.endTable()
			continue
		}
		if r.layout == columns && r.h != nil && open == 0 {
			r.columnRow(line, at)
			prev = append(prev[:0], line...)
			continue
		}
		if open == 0 && r.logLine(string(line[:min(len(line), 4096)])) {
			prev = prev[:0]
			continue
		}
		if groups := ruleLine(line); groups != nil && len(prev) > 0 {
			r.columnHeader(prev, groups, at-1)
			continue
		}
		sep := byte(',')
		if r.h != nil && r.layout == tabs || r.h == nil && bytes.IndexByte(line, '\t') > 0 {
			sep = '\t'
		}
		var ok bool
		if r.row, r.buf, ok = split(line, sep, r.row[:0], r.buf[:0]); !ok && lines.Ended && r.h != nil {
			if open == 0 {
				joined, open, openRow = append(joined[:0], line...), 1, at
			}
			continue
		} else if !ok && open > 0 {
			r.in.Report("nsys-stats/truncated", timeline.DataLoss, openRow, "the file ends inside a row: it was cut; make it again with: %s", export)
			open = 0
			continue
		}
		open, joined = 0, joined[:0]
		if !r.csvHeader(at, sep) {
			switch {
			case r.h == nil:
				if r.noise++; r.noise == 1 {
					r.noiseL = at
				}
			case !ok || len(r.row) < r.h.n && !lines.Ended:
				r.in.Report("nsys-stats/truncated", timeline.DataLoss, at, "the file ends inside a row: it was cut; make it again with: %s", export)
			default:
				r.tableRow(at)
			}
		}
		prev = append(prev[:0], line...)
	}
	if open > 0 {
		r.in.Report("nsys-stats/truncated", timeline.DataLoss, openRow, "the file ends inside a quoted name: it was cut; make it again with: %s", export)
	}
	if err := lines.Err(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		in.Report("ingest/damaged-file", timeline.DataLoss, lines.Row, "%v: what lies before it is read", err)
	}
	if r.tables == 0 {
		return errors.New("no table of nsys stats in it: the reports had nothing to show, or it is another format of them; print them with: nsys stats --format csv")
	}
	r.finish()
	return nil
}

// byFileName tells the report of what nsys stats --output wrote: base_cuda_gpu_trace.csv.
func byFileName(p string) report {
	name := path.Base(p)
	for _, ext := range []string{".gz", ".zst", ".bz2", ".csv", ".tsv", ".txt", ".log"} {
		name = strings.TrimSuffix(name, ext)
	}
	best, found := noReport, 0
	for n, k := range reports {
		if (name == n || strings.HasSuffix(name, "_"+n)) && len(n) > found {
			best, found = k, len(n)
		}
	}
	return best
}

// logLine takes what nsys prints between tables.
func (r *reader) logLine(s string) bool {
	t := strings.TrimSpace(s)
	if m := processing.FindStringSubmatch(t); m != nil {
		r.endTable()
		if r.recording == "" && r.tables == 0 {
			r.recording = m[1]
		}
		r.other = r.recording != m[1] && r.recording != ""
		r.titled = reports[strings.TrimSuffix(path.Base(strings.ReplaceAll(m[2], `\`, "/")), ".py")]
		r.sizeUnit = ""
		return true
	}
	if m := title.FindStringSubmatch(t); m != nil {
		r.endTable()
		if k := reports[m[2]]; k != noReport {
			r.titled = k
		} else if m[2] != "" {
			r.titled = otherReport
		}
		return true
	}
	if m := oldTitle.FindStringSubmatch(t); m != nil && !strings.Contains(t, ",") {
		r.endTable()
		r.titled = map[string]report{"CUDA API": cudaCallSum, "CUDA Kernel": kernelSum, "Operating System Runtime API": systemCallSum}[m[1]]
		r.sizeUnit = m[3]
		switch {
		case strings.HasPrefix(m[1], "NVTX"):
			r.titled = rangeSum
		case m[2] == "time":
			r.titled = copyTimeSum
		case m[2] == "size":
			r.titled = copySizeSum
		}
		return true
	}
	if rest, ok := strings.CutPrefix(t, "SKIPPED: "); ok {
		r.endTable()
		r.in.Report("nsys-stats/skipped-report", timeline.Info, 0, "nsys had nothing to put into a report: %s", rest)
		return true
	}
	if r.h == nil {
		for _, w := range []string{"NOTICE:", "Generating ", "Exporting ", "Exported ", "Using ", "Processing ", "It is assumed", "Consider using", "WARNING:", "ERROR:", "[", "==", "Importer", "Executing "} {
			if strings.HasPrefix(t, w) {
				return true
			}
		}
	}
	return false
}

func (r *reader) endTable() { r.h = nil }

// ruleLine gives where the runs of dashes under a heading begin, in characters; nil for another line.
func ruleLine(b []byte) (begin []int) {
	if bytes.IndexByte(b, '-') < 0 {
		return nil
	}
	for i, c := range b {
		switch {
		case c == '-':
			if i == 0 || b[i-1] == ' ' {
				begin = append(begin, i)
			}
		case c != ' ':
			return nil
		}
	}
	if len(begin) < 3 {
		return nil
	}
	return begin
}

// cutColumns splits a line where columns begin; their cells are aligned to either side within them.
func cutColumns(line []byte, begin []int, row [][]byte) [][]byte {
	at, k, start := 0, 1, 0
	for i := 0; i < len(line) && k < len(begin); {
		if at == begin[k] {
			row = append(row, bytes.TrimSpace(line[start:i]))
			start = i
			k++
		}
		_, size := utf8.DecodeRune(line[i:])
		i += size
		at++
	}
	return append(row, bytes.TrimSpace(line[start:]))
}

func (r *reader) columnHeader(line []byte, begin []int, at uint64) {
	r.row = cutColumns(line, begin, r.row[:0])
	ok := r.header(at)
	if cells := wide.Split(string(bytes.TrimSpace(line)), -1); !ok && len(cells) == len(begin) { // its heading was moved
		r.row = r.row[:0]
		for _, c := range cells {
			r.row = append(r.row, []byte(c))
		}
		ok = r.header(at)
	}
	if ok {
		r.layout, r.from = columns, append(r.from[:0], begin...)
		if r.noiseL == at {
			r.noise, r.noiseL = 0, 0
		} else if r.noise > 0 {
			r.noise-- // the heading itself
		}
	}
}

var wide = regexp.MustCompile(` {2,}`)

func (r *reader) csvHeader(at uint64, sep byte) bool {
	if len(r.row) < 3 || len(r.row[0]) == 0 || r.row[0][0] >= '0' && r.row[0][0] <= '9' {
		return false
	}
	if r.h != nil && r.row[0][0] != 'T' && r.row[0][0] != 'S' && r.row[0][0] != 'A' && r.row[0][0] != 'N' && r.row[0][0] != 'R' {
		return false // no header begins so
	}
	if !r.header(at) {
		return false
	}
	r.layout = commas
	if sep == '\t' {
		r.layout = tabs
	}
	return true
}

// header begins a table if the cells are its heading.
func (r *reader) header(at uint64) bool {
	names := make([]string, len(r.row))
	for i, c := range r.row {
		names[i] = string(c)
	}
	h, ok := parseHeader(names, r.sizeUnit)
	if !ok {
		return false
	}
	switch {
	case r.titled == otherReport && h.report < gpuTrace:
		h.report = otherReport
	case h.report == callSum && (r.titled == cudaCallSum || r.titled == systemCallSum):
		h.report = r.titled
	case h.report == gpuSum && r.titled == apiGPUSum:
		h.report = apiGPUSum
	}
	if r.other {
		r.in.Report("nsys-stats/second-recording", timeline.DataLoss, at, "a table of another recording: not read; give each recording a file of its own")
		h.report = otherReport
	}
	if r.tables++; r.tables == 1 {
		r.first = at
	}
	r.h = h
	r.sums.begin(r, h, at)
	r.spans.begin(h)
	return true
}

func (r *reader) columnRow(line []byte, at uint64) {
	r.row = cutColumns(line, r.from, r.row[:0])
	if len(r.row) == r.h.n {
		if r.tableRow(at) {
			return
		}
	}
}

// badRow counts a row that cannot be read.
func (r *reader) badRow(at uint64, why string) {
	r.in.Report("nsys-stats/bad-row", timeline.DataLoss, at, "line %d: %s: the row is left out", at, why)
}

// tableRow reads r.row as a row of the table.
func (r *reader) tableRow(at uint64) bool {
	h := r.h
	if len(r.row) > h.n && h.n > 0 && r.layout != columns {
		// A name with commas that nobody quoted, if it comes last.
		if last := h.n - 1; h.at[cName] == last || h.at[cKernelName] == last || h.at[cOperation] == last || h.at[cRange] == last {
			r.row[last] = bytes.Join(r.row[last:], []byte(","))
			r.row = r.row[:h.n]
		}
	}
	if len(r.row) != h.n {
		r.in.Report("nsys-stats/short-row", timeline.DataLoss, at, "line %d: %d cells under a heading of %d: the row is left out", at, len(r.row), h.n)
		return false
	}
	ok := true
	switch h.report {
	case otherReport:
		r.sums.unread++
	case gpuTrace, apiTrace, execTrace, rangeTrace, projTrace:
		ok = r.spans.row(r, h, uint32(at))
	default:
		ok = r.sums.row(r, h, uint32(at))
	}
	if ok {
		r.rows++
	}
	return ok
}

// split cuts a row at sep. Quoted cells lose their quotes; ok is false where one is not closed. Cells lie in line or in buf.
func split(line []byte, sep byte, row [][]byte, buf []byte) (_ [][]byte, _ []byte, ok bool) {
	if bytes.IndexByte(line, '"') < 0 {
		for {
			i := bytes.IndexByte(line, sep)
			if i < 0 {
				return append(row, bytes.TrimSpace(line)), buf, true
			}
			row, line = append(row, bytes.TrimSpace(line[:i])), line[i+1:]
		}
	}
	if cap(buf) < len(line) {
		buf = make([]byte, 0, 2*len(line)) // cells point into it: it must not move
	}
	for {
		line = bytes.TrimLeft(line, " ")
		if len(line) == 0 || line[0] != '"' {
			i := bytes.IndexByte(line, sep)
			if i < 0 {
				return append(row, bytes.TrimSpace(line)), buf, true
			}
			row, line = append(row, bytes.TrimSpace(line[:i])), line[i+1:]
			continue
		}
		start := len(buf)
		i := 1
		for ; ; i++ {
			if i >= len(line) {
				return append(row, buf[start:]), buf, false
			}
			if line[i] == '"' {
				if i+1 < len(line) && line[i+1] == '"' {
					i++
				} else {
					break
				}
			}
			buf = append(buf, line[i])
		}
		row = append(row, bytes.TrimSpace(buf[start:]))
		line = line[i+1:]
		j := bytes.IndexByte(line, sep)
		if j < 0 {
			return row, buf, true
		}
		line = line[j+1:]
	}
}
