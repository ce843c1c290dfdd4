// Package ncu reads what Nsight Compute prints with --csv: counters of single kernels.
//
// Three arrangements are known, with or without lines of ncu (==PROF== ...) and of the program before the header: a row a metric and launch
// (pages details and, with --metrics, the default), by section and label ("L2 Hit Rate") or by the counter's own name
// (lts__t_sector_hit_rate.pct); the same summed over launches (--print-summary), with Minimum, Maximum and Average; and page raw, a row a
// launch and a column a counter, whose second row holds the units. It is recognised by such a header.
//
// Clock: none. ncu runs a kernel again for each group of counters, apart from everything else, and unless it was told otherwise empties
// the caches first and holds clocks at their base: how long a kernel took there is used to weigh its launches, and for nothing else.
//
// Columns: L2 Hit Rate is the share of all sectors asked of the L2 cache that were found there, DRAM Throughput the rate of device memory
// out of its peak. Thousands are set apart by commas. Everything else is not read.
package ncu

import (
	"context"
	"encoding/csv"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// Format is Nsight Compute's CSV.
var Format = ingest.Format{
	Name:      "ncu",
	Doc:       "ncu --csv: counters of single kernels by Nsight Compute",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"kernel"},
}

const (
	maxKernels = 1 << 16 // names that are kept
	maxName    = 8192    // letters of one
	maxRecord  = 64      // lines of a quoted cell
	headLines  = 400     // before the header: what the program printed
)

// counterName is the form of a counter's own name.
var counterName = regexp.MustCompile(`^[a-z][a-z0-9_]*__[a-z0-9_]+(\.[a-z0-9_.]+)?$`)

func recognise(h ingest.Head) bool {
	n := 0
	for line := range strings.Lines(string(h.Text)) {
		if n++; n > headLines {
			return false
		}
		if strings.Contains(line, "Kernel Name") && headerOf(strings.TrimSpace(line)) != nil {
			return true
		}
	}
	return false
}

// header says where the columns are; -1 where one is not.
type header struct {
	cells                                                  []string
	id, process, kernel, cc, metric, unit, value, launches int
	counters                                               []what // of page raw, by column
	wide                                                   bool
}

// what is a quantity that is read.
type what uint8

const (
	nothing what = iota
	l2Hit
	dram
	length
)

func quantity(name string) what {
	switch name {
	case "L2 Hit Rate", "lts__t_sector_hit_rate.pct":
		return l2Hit
	case "DRAM Throughput", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed":
		return dram
	case "Duration", "gpu__time_duration.sum", "gpu__time_duration.avg":
		return length
	}
	return nothing
}

// headerOf gives nil for a line that is no header.
func headerOf(line string) *header {
	cells, ok := cellsOf(line)
	if !ok || !slices.Contains(cells, "Kernel Name") {
		return nil
	}
	at := func(names ...string) int {
		for _, n := range names {
			if i := slices.Index(cells, n); i >= 0 {
				return i
			}
		}
		return -1
	}
	h := &header{cells: cells, id: at("ID"), process: at("Process ID"), kernel: at("Kernel Name"), cc: at("CC"), metric: at("Metric Name"), unit: at("Metric Unit"),
		value: at("Metric Value", "Average"), launches: at("Invocations")}
	if h.metric >= 0 && h.value >= 0 {
		return h
	}
	if h.id < 0 {
		return nil
	}
	for _, c := range cells {
		q := nothing
		if counterName.MatchString(c) {
			h.wide = true
			q = quantity(c)
		}
		h.counters = append(h.counters, q)
	}
	if !h.wide {
		return nil
	}
	return h
}

// cellsOf cuts a record; false where its quotes are not closed.
func cellsOf(record string) ([]string, bool) {
	r := csv.NewReader(strings.NewReader(record))
	r.FieldsPerRecord = -1
	cells, err := r.Read()
	return cells, err == nil && len(cells) > 1
}

// launch is what was counted in one launch, or in all of one name.
type launch struct {
	kernel       string
	cc           string
	l2, dram, ns float64 // -1 not counted
	n            int64
	row          uint64
}

type reader struct {
	in       *ingest.Input
	h        *header
	units    []string // of page raw
	launches map[string]*launch
	order    []*launch
	names    map[string]string // so that launches share them
	rows     int64
	stray    bool
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, launches: map[string]*launch{}, names: map[string]string{}}
	l := ingest.NewLines(f)
	var record strings.Builder // lines of a record whose quotes are open
	lines := 0
	var first uint64
	err = l.Each(ctx, in, "ncu", func(l *ingest.Lines) {
		if l.Long {
			in.Report("ncu/long-line", timeline.DataLoss, l.Row, "a line of more than 1 MiB: skipped")
			record.Reset()
			lines = 0
			return
		}
		if lines == 0 {
			first = l.Row
		} else {
			record.WriteByte('\n')
		}
		record.Write(l.Text)
		lines++
		text := record.String()
		if r.h != nil && strings.Count(text, `"`)%2 == 1 && lines < maxRecord && l.Ended {
			return
		}
		record.Reset()
		lines = 0
		r.record(strings.TrimSpace(text), first, l.Ended)
	})
	if err != nil {
		return err
	}
	if lines > 0 {
		in.Report("ncu/truncated", timeline.DataLoss, first, "the file ends inside a cell: the last row is left out")
	}
	return r.finish(b)
}

func (r *reader) record(text string, row uint64, ended bool) {
	switch {
	case text == "":
		return
	case strings.HasPrefix(text, "=="): // ncu speaks
		return
	}
	if strings.Contains(text, "Kernel Name") {
		if h := headerOf(text); h != nil {
			r.h, r.units = h, nil
			return
		}
	}
	if r.h == nil {
		return // the program speaks
	}
	cells, ok := cellsOf(text)
	switch {
	case !ended:
		r.in.Report("ncu/unterminated-row", timeline.DataLoss, row, "the file ends without a line feed: the last row may be cut and is left out")
		return
	case !ok && !strings.HasPrefix(text, `"`):
		if !r.stray { // the program speaks in between
			r.in.Report("ncu/stray-line", timeline.Info, row, "not a row of the table: %q", text[:min(len(text), 120)])
			r.stray = true
		}
		return
	case !ok || len(cells) < len(r.h.cells) && !r.enough(cells):
		r.in.Report("ncu/short-row", timeline.DataLoss, row, "row has %d cells, header has %d: row dropped", len(cells), len(r.h.cells))
		return
	}
	if r.h.wide && r.units == nil && cells[r.h.id] == "" {
		r.units = cells
		return
	}
	r.rows++
	if r.h.wide {
		r.launchRow(cells, row)
		return
	}
	q := quantity(cells[r.h.metric])
	if q == nothing {
		return
	}
	unit := ""
	if r.h.unit >= 0 {
		unit = cells[r.h.unit]
	}
	r.put(r.launchOf(cells, row), q, cells[r.h.value], unit, row)
}

// enough tells whether a row without its last cells has those that are read: rows of rules are longer than rows of metrics.
func (r *reader) enough(cells []string) bool {
	if r.h.wide {
		return false
	}
	return len(cells) > max(r.h.kernel, r.h.metric, r.h.value, r.h.id, r.h.process, r.h.cc, r.h.unit, r.h.launches)
}

func (r *reader) launchRow(cells []string, row uint64) {
	l := r.launchOf(cells, row)
	for i, q := range r.h.counters {
		if q == nothing {
			continue
		}
		unit := ""
		if r.units != nil && i < len(r.units) {
			unit = r.units[i]
		}
		r.put(l, q, cells[i], unit, row)
	}
}

// launchOf finds the launch that a row speaks of.
func (r *reader) launchOf(cells []string, row uint64) *launch {
	cell := func(i int) string {
		if i < 0 {
			return ""
		}
		return cells[i]
	}
	key := cell(r.h.process) + "\x00" + cell(r.h.id) + "\x00" + cells[r.h.kernel]
	l := r.launches[key]
	if l == nil {
		l = &launch{kernel: r.shared(cells[r.h.kernel]), cc: r.shared(cell(r.h.cc)), l2: -1, dram: -1, ns: -1, n: 1, row: row}
		if n, err := strconv.ParseInt(strings.ReplaceAll(cell(r.h.launches), ",", ""), 10, 64); err == nil && n > 0 && n < 1<<40 {
			l.n = n
		}
		r.launches[key] = l
		r.order = append(r.order, l)
	}
	return l
}

func (r *reader) shared(name string) string {
	name = name[:min(len(name), maxName)]
	s, ok := r.names[name]
	if !ok {
		s = strings.ToValidUTF8(strings.Clone(name), "\uFFFD")
		r.names[s] = s
	}
	return s
}

// perNS are the units of a length, old and new.
var perNS = map[string]float64{"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}

func (r *reader) put(l *launch, q what, text, unit string, row uint64) {
	text = strings.TrimSpace(text)
	if low := strings.ToLower(text); low == "" || low == "n/a" || low == "nan" || low == "-nan" || strings.HasPrefix(low, "(") { // not counted on this part
		return
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err == nil && q == length {
		scale, ok := perNS[unit]
		if x *= scale; ok && x > 0 && x < 1e15 {
			l.ns = x
			return
		}
	} else if err == nil && unit == "%" && x >= 0 && x <= 105 { // a part of a per cent over the whole is how counters round
		x = min(x/100, 1)
		if q == l2Hit {
			l.l2 = x
		} else {
			l.dram = x
		}
		return
	}
	r.in.Report("ncu/bad-value", timeline.DataLoss, row, "%.60q %.20q of %.80q is no such number: left out", text, unit, l.kernel)
}

// finish gives one row a kernel and part, in the order of their first launches.
func (r *reader) finish(b *timeline.Builder) error {
	src := &b.TL.Sources[r.in.Source]
	src.Rows = r.rows
	type key struct{ name, cc string }
	type sum struct {
		at           int
		l2, dram     float64
		ofL2, ofDRAM float64
	}
	sums := map[key]*sum{}
	left := int64(0)
	for _, l := range r.order {
		if l.l2 < 0 && l.dram < 0 {
			continue
		}
		k := key{l.kernel, l.cc}
		s := sums[k]
		if s == nil {
			if len(sums) >= maxKernels {
				left++
				continue
			}
			s = &sum{at: len(b.TL.Counters)}
			sums[k] = s
			b.TL.Counters = append(b.TL.Counters, timeline.KernelCounters{Source: r.in.Source, Name: k.name, CC: k.cc, L2Hit: -1, DRAM: -1, Row: uint32(l.row)})
		}
		c := &b.TL.Counters[s.at]
		c.Launches += l.n
		weight := float64(l.n)
		if l.ns > 0 {
			weight *= l.ns
		}
		if l.l2 >= 0 {
			s.l2, s.ofL2 = s.l2+weight*l.l2, s.ofL2+weight
			c.L2Hit = min(1, s.l2/s.ofL2)
		}
		if l.dram >= 0 {
			s.dram, s.ofDRAM = s.dram+weight*l.dram, s.ofDRAM+weight
			c.DRAM = min(1, s.dram/s.ofDRAM)
		}
	}
	r.in.ReportN(left, "ncu/too-many-kernels", timeline.DataLoss, 0, "more than %d names of kernels: the others are left out", maxKernels)
	switch {
	case r.h == nil:
		return errors.New("no table of Nsight Compute in it: record with ncu --set full --csv --log-file ncu.csv")
	case len(sums) == 0 && r.rows == 0:
		return errors.New("a header of Nsight Compute and no row below it: no kernel was measured; look at --kernel-name and --launch-skip")
	}
	if len(sums) == 0 {
		r.in.Report("ncu/no-counters", timeline.Info, 1, "rows of other counters alone: neither L2 hit rate nor DRAM throughput is among them; record with --set full")
	}
	b.AddClock(r.in.Source, timeline.Clock{Name: src.Path, Why: "kernels were run again, apart from the recorded run"})
	return nil
}
