package nsysstats

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
)

// maxSumRows bounds the rows of one summary that are kept.
const maxSumRows = 1 << 17

const maxName = 8192

// sums gathers the summaries.
type sums struct {
	tables []*sumTable
	cur    *sumTable
	unread int64 // rows of tables that are recognised and not kept
}

type sumTable struct {
	report report
	at     uint64
	rows   []timeline.TotalRow
	parts  []part // of gpuSum, apiGPUSum, rangeKernelSum: which rows belong together
	left   int64
}

// part is what else tells rows of a summary apart: category, or the range with its thread.
type part struct{ key string }

func (s *sums) begin(r *reader, h *header, at uint64) {
	s.cur = nil
	if h.report > otherReport && h.report < gpuTrace {
		s.cur = &sumTable{report: h.report, at: at}
		s.tables = append(s.tables, s.cur)
	}
}

func (s *sums) row(r *reader, h *header, at uint32) bool {
	t := s.cur
	row := timeline.TotalRow{Count: -1, Sum: -1, Median: -1, Min: -1, Max: -1, Row: at}
	name := cName
	for _, c := range []cell{cKernelName, cOperation, cRange} {
		if h.has(c) {
			name = c
			break
		}
	}
	total := cTotalTime
	if h.report == copySizeSum {
		total = cTotal
	}
	var ok bool
	if row.Sum, ok = h.value(r.row, total); !ok || row.Sum < 0 || row.Sum > 1e18 {
		r.badRow(uint64(at), "its total is no number, or no such one can be")
		return false
	}
	for _, c := range []cell{cInstances, cCalls, cCount} {
		if n, ok := h.count(r.row, c); ok && n >= 0 && n < 1e15 && row.Count < 0 {
			row.Count = n
		}
	}
	for _, x := range []struct {
		c  cell
		to *int64
	}{{cMedian, &row.Median}, {cMin, &row.Min}, {cMax, &row.Max}} {
		if v, ok := h.value(r.row, x.c); ok && v >= 0 {
			*x.to = v
		}
	}
	text := h.text(r.row, name)
	if h.report == rangeSum {
		text = rangeName(text)
	}
	row.Name = string(bytes.ToValidUTF8(text[:min(len(text), maxName)], []byte("\uFFFD")))
	if len(t.rows) >= maxSumRows {
		t.left++
		return false
	}
	t.rows = append(t.rows, row)
	switch h.report {
	case gpuSum, apiGPUSum:
		t.parts = append(t.parts, part{strings.ToUpper(string(h.text(r.row, cCategory)))})
	case rangeKernelSum:
		t.parts = append(t.parts, part{strings.Join([]string{string(rangeName(h.text(r.row, cRange))), string(h.text(r.row, cPID)), string(h.text(r.row, cTID)), string(h.text(r.row, cStyle))}, "\x00")})
	}
	return true
}

// finish gives one Totals a kind.
func (s *sums) finish(r *reader) {
	kept := map[timeline.TotalsOf]*sumTable{}
	var out []timeline.Totals
	put := func(what timeline.TotalsOf, t *sumTable, rows []timeline.TotalRow) {
		if len(rows) == 0 && !(what == timeline.TotalKernels && (t.report == gpuSum || t.report == apiGPUSum) && len(t.rows) > 0) { // a table of all device work says that no kernel ran
			return
		}
		if kept[what] != nil {
			r.in.Report("nsys-stats/second-table", timeline.Info, t.at, "a second table of the same sums, in another arrangement or of other ranges: the first is read, as adding both would count them twice")
			return
		}
		kept[what] = t
		out = append(out, timeline.Totals{Source: r.in.Source, What: what, Rows: rows})
	}
	// The plainest arrangement first; else in the order of the file.
	slices.SortStableFunc(s.tables, func(a, b *sumTable) int { return cmp.Compare(a.report, b.report) })
	for _, t := range s.tables {
		r.in.ReportN(t.left, "nsys-stats/too-many-rows", timeline.DataLoss, t.at, "more than %d rows in a summary: the others are left out", maxSumRows)
		switch t.report {
		case kernelSum, kernelGridSum:
			put(timeline.TotalKernels, t, t.rows)
		case gpuSum, apiGPUSum:
			put(timeline.TotalKernels, t, t.of(func(k string) bool { return strings.Contains(k, "KERNEL") }))
			put(timeline.TotalCopyTime, t, t.of(func(k string) bool { return strings.Contains(k, "MEM") }))
			put(timeline.TotalCalls, t, t.of(func(k string) bool { return strings.Contains(k, "API") }))
		case rangeKernelSum:
			name, rows := t.largest()
			if kept[timeline.TotalKernels] == nil && len(rows) < len(t.rows) {
				r.in.Report("nsys-stats/one-range", timeline.Info, t.at, "kernels by range: ranges nest and cannot be added up, so those of range %s, which holds most time, are counted", name)
			}
			put(timeline.TotalKernels, t, rows)
		case copyTimeSum:
			put(timeline.TotalCopyTime, t, t.rows)
		case copySizeSum:
			put(timeline.TotalCopySize, t, t.rows)
		case cudaCallSum:
			put(timeline.TotalCalls, t, t.rows)
		case systemCallSum:
			put(timeline.TotalOSWaits, t, t.rows)
		case callSum:
			put(callsOf(t.rows), t, t.rows)
		case rangeSum:
			put(timeline.TotalRanges, t, t.rows)
		}
	}
	slices.SortStableFunc(out, func(a, b timeline.Totals) int { return cmp.Compare(a.What, b.What) })
	r.b.TL.Totals = append(r.b.TL.Totals, out...)
	r.in.ReportN(s.unread, "nsys-stats/not-stored", timeline.Info, r.first, "rows of reports that are recognised and not read")
}

func (t *sumTable) of(want func(category string) bool) []timeline.TotalRow {
	var out []timeline.TotalRow
	for i, row := range t.rows {
		if want(t.parts[i].key) {
			out = append(out, row)
		}
	}
	return out
}

// largest gives the rows of the range that holds most time.
func (t *sumTable) largest() (name string, rows []timeline.TotalRow) {
	sum := map[part]int64{}
	var best part
	for i, row := range t.rows {
		k := t.parts[i]
		if sum[k] += row.Sum; sum[k] > sum[best] || i == 0 {
			best = k
		}
	}
	for i, row := range t.rows {
		if t.parts[i] == best {
			rows = append(rows, row)
		}
	}
	name, _, _ = strings.Cut(best.key, "\x00")
	return name, rows
}

// callsOf tells calls of CUDA from those of the system by the names of most: their tables have one heading.
func callsOf(rows []timeline.TotalRow) timeline.TotalsOf {
	cuda, system := 0, 0
	for i := range rows {
		switch n := rows[i].Name; {
		case strings.HasPrefix(n, "cuda"), len(n) > 2 && n[:2] == "cu" && n[2] >= 'A' && n[2] <= 'Z':
			cuda++
		case n != "" && strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789_") == "":
			system++
		}
	}
	switch {
	case 2*cuda > len(rows):
		return timeline.TotalCalls
	case 2*system > len(rows):
		return timeline.TotalOSWaits
	}
	return timeline.TotalOther
}
