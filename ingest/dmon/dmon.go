// Package dmon reads what `nvidia-smi dmon` prints: one row a GPU and period, under two header lines.
//
// Versions seen: R418 (one column temp) to R595, with and without -o, with GPM columns, as text and with --format csv. It is recognised
// by its header: a line that starts with # and holds the word gpu, without pid and type, which are pmon's.
//
// Clock: Date and Time are the wall clock of the machine when the row was printed: whole seconds, no zone, not monotonic. Without -o
// there is no time at all: rows have an order, and At is their number times --set period (1 s if that is not said).
//
// Columns: sm is the share of the last sample window (1/6 s to 1 s) with any kernel resident, not how full the GPU is; mem the share with
// device memory read or written; mclk and pclk memory and SM clock; pviol the share of the period with clocks lowered for power, tviol
// whether any thermal limit was hit; fb and bar1 used memory in MiB though it says MB; sbecc, dbecc and pci totals since long ago; rxpci
// and txpci one 20 ms sample, host to GPU and back. Columns of --gpm-metrics and unknown ones are kept under their own name.
//
// What it cannot tell: which process, which kernel, why clocks fell, link width, names and UUIDs of the GPUs, their total memory. A `-` is
// not supported or a failed reading: missing, never zero. With MIG on, sm, mem, enc, dec, jpg and ofa are `-` under full load too.
package dmon

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads nvidia-smi dmon logs.
var Format = ingest.Format{
	Name:      "dmon",
	Doc:       "nvidia-smi dmon: utilisation, power, clocks, violations of each GPU, once a second",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"step", "idle", "hw"},
}

func recognise(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if n++; n > 20 {
			return false
		}
		if line[0] != '#' {
			continue
		}
		if cols, _ := split(line[1:], nil); isNames(cols) {
			return !slices.Contains(cols, "ppu") && !slices.Contains(cols, "jpu") && !(slices.Contains(cols, "pid") && slices.Contains(cols, "type"))
		}
	}
	return false
}

// isNames tells a line of column names: gpu comes first, or after Date and Time, and another column follows.
func isNames(cols []string) bool {
	i := slices.Index(cols, "gpu")
	if i < 0 || i > 2 || i+1 >= len(cols) {
		return false
	}
	for _, c := range cols[:i] {
		if !strings.EqualFold(c, "date") && !strings.EqualFold(c, "time") {
			return false
		}
	}
	return true
}

// split cuts a line into cells at commas if it has any, else at blanks. It reuses to.
func split(line []byte, to []string) (cells []string, csv bool) {
	cells = to[:0]
	if bytes.IndexByte(line, ',') >= 0 {
		for c := range bytes.SplitSeq(line, []byte(",")) {
			cells = append(cells, string(bytes.TrimSpace(c)))
		}
		return cells, true
	}
	for c := range bytes.FieldsSeq(line) {
		cells = append(cells, string(c))
	}
	return cells, false
}

// column is what the reader does with one cell.
type column struct {
	name   string
	metric timeline.Metric
	scale  float64
	lo, hi float64 // what the quantity can be, in the maker's unit
	util   bool    // one of those that MIG hides
	skip   bool
}

func col(m timeline.Metric, scale, lo, hi float64) column {
	return column{metric: m, scale: scale, lo: lo, hi: hi}
}

const (
	mib = 1 << 20
	big = 1e15
)

// columns are the maker's names. PCIe: 130 GB/s is above what 16 lanes of generation 6 carry; R535 was seen to print 2016001 MB/s.
var columns = map[string]column{
	"pwr": col(timeline.Power, 1, 0, 20000), "temp": col(timeline.TempGPU, 1, -50, 200), "gtemp": col(timeline.TempGPU, 1, -50, 200),
	"mtemp": col(timeline.TempMem, 1, -50, 200), "sm": col(timeline.SMBusy, .01, 0, 100), "mem": col(timeline.MemBusy, .01, 0, 100),
	"enc": col(timeline.EncBusy, .01, 0, 100), "dec": col(timeline.DecBusy, .01, 0, 100), "jpg": col(timeline.JpgBusy, .01, 0, 100),
	"ofa": col(timeline.OfaBusy, .01, 0, 100), "mclk": col(timeline.ClockMem, 1e6, 0, 1e5), "pclk": col(timeline.ClockSM, 1e6, 0, 1e5),
	"pviol": col(timeline.ViolPower, .01, 0, 110), "tviol": col(timeline.ViolThermal, 1, 0, 1), "fb": col(timeline.MemUsed, mib, 0, 1e8),
	"bar1": col(timeline.Bar1Used, mib, 0, 1e9), "ccpm": col(timeline.Metric{Name: "cc_mem_used_bytes", Unit: unit.Byte}, mib, 0, 1e8),
	"sbecc": col(timeline.ECCCorrected, 1, 0, big), "dbecc": col(timeline.ECCUncorrected, 1, 0, big), "pci": col(timeline.PCIeReplays, 1, 0, big),
	"rxpci": col(timeline.PCIeRx, 1e6, 0, 130_000), "txpci": col(timeline.PCIeTx, 1e6, 0, 130_000),
}

var utilColumns = []string{"sm", "mem", "enc", "dec", "jpg", "ofa"}

// columnOf gives the column of a name and its unit cell; GPM columns have units like GPM:%.
func columnOf(name, unitCell string) (c column, known bool) {
	if c, ok := columns[name]; ok {
		c.name, c.util = name, slices.Contains(utilColumns, name)
		return c, true
	}
	gpm := strings.HasPrefix(unitCell, "GPM:")
	u, ok := ingest.UnitOf(strings.TrimPrefix(unitCell, "GPM:"))
	m := timeline.Metric{Name: "dmon_" + clean(name), Unit: unit.Count}
	if gpm {
		m = timeline.Metric{Name: "gpm_" + clean(name), Unit: unit.Count, Covers: timeline.WindowBefore, Window: time.Second}
	}
	c = column{name: name, scale: 1, lo: -big, hi: big}
	if ok {
		c.scale, m.Unit, _ = unit.ToBase(1, u)
		m.Name += "_" + string(m.Unit)
	}
	if m.Unit == unit.Frac {
		c.lo, c.hi = 0, 100
	}
	c.metric = m
	return c, gpm
}

func clean(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, name)
}

type gpuKey struct {
	label string // who printed the row, when several did
	index int
}

type gpu struct {
	track     timeline.TrackID
	cells     []int // series of the current header's columns, -1 not made yet
	rows      int
	utilRows  int // rows with any utilisation
	lastCycle int
	shown     string // label
	index     int
}

// host is the clock of one machine.
type host struct {
	ingest.WallClock
	day, lastTod timeline.Time // of -o T
}

type reader struct {
	in  *ingest.Input
	b   *timeline.Builder
	src timeline.SourceID

	names, units []string
	cols         []column
	date, time   int // position of the cells, -1 none
	gpu          int
	csv          bool

	hosts  map[string]*host // by label: hosts have clocks of their own
	host   *host            // of the last row
	timed  uint8            // what times the rows had: bit 0 none, 1 time only, 2 date and time, 3 stamps of the log collector
	cycle  int
	rows   int64
	period timeline.Time
	gpus   map[gpuKey]*gpu
	labels map[string]bool
	cells  []string
}

const (
	timesNone = 1 << iota
	timesTod
	timesFull
	timesStamp
)

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, src: in.Source, gpus: map[gpuKey]*gpu{}, labels: map[string]bool{}, hosts: map[string]*host{}, host: &host{}, period: 1e9, cycle: -1}
	if p, ok := in.Opt.Set["period"]; ok {
		d, err := strconv.ParseFloat(p, 64)
		if err != nil || !(d > 0 && d < 1e6) {
			return fmt.Errorf("--set period=%s: not a number of seconds: say --set period=1", p)
		}
		r.period = timeline.Time(d * 1e9)
	}
	if err := ingest.NewLines(f).Each(ctx, in, "dmon", r.line); err != nil {
		return err
	}
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	text := bytes.TrimSpace(l.Text)
	if len(text) == 0 {
		return
	}
	row := l.Row
	if l.Long {
		r.in.Report("dmon/long-line", timeline.DataLoss, row, "a line of more than 1 MiB: skipped")
		return
	}
	if text[0] == '#' {
		r.headerLine(text[1:], row)
		return
	}
	if r.cols == nil {
		if text[0] >= '0' && text[0] <= '9' {
			r.in.Report("dmon/no-header", timeline.DataLoss, row, "a row above any header: its columns are unknown")
			return
		}
		r.stray(text, row)
		return
	}
	if r.csv {
		r.cells, _ = split(text, r.cells)
	} else {
		r.cells = r.cells[:0]
		for c := range bytes.FieldsSeq(text) {
			r.cells = append(r.cells, string(c))
		}
	}
	cells := r.cells
	if n := len(r.names); len(cells) == n+1 && r.csv && cells[n] == "" {
		cells = cells[:n]
	}
	switch n := len(r.names); {
	case !startsLikeRow(cells[0]):
		r.stray(text, row)
		return
	case len(cells) < n:
		r.in.Report("dmon/short-row", timeline.DataLoss, row, "row has %d columns, header has %d: the log was cut while writing; row dropped", len(cells), n)
		return
	case len(cells) > n:
		r.in.Report("dmon/long-row", timeline.DataLoss, row, "row has %d columns, header has %d: row dropped", len(cells), n)
		return
	}
	index, err := strconv.Atoi(cells[r.gpu])
	if err != nil || index < 0 || index > 4095 {
		r.stray(text, row)
		return
	}
	if !l.Ended && !bytes.HasSuffix(l.Text, []byte(" ")) {
		// The file ends inside this row: its last number may have lost digits.
		r.in.Report("dmon/unterminated-row", timeline.Info, row, "the file ends without a line feed: the last cell may be cut and is left out")
		cells[len(cells)-1] = "-"
	}
	at, ok := r.at(cells, l.Stamp, gpuKey{l.Label, index}, row)
	if !ok {
		return
	}
	g := r.gpuOf(gpuKey{l.Label, index})
	if g == nil {
		r.in.Report("dmon/many-gpus", timeline.DataLoss, row, "GPU %d is one more than the %d that one log may have: its rows are dropped", index, ingest.MaxGPUs)
		return
	}
	r.rows++
	g.rows++
	anyUtil := false
	for i := range r.cols {
		c := &r.cols[i]
		if c.skip {
			continue
		}
		v, ok := r.value(c, cells[i], index, row)
		if !ok {
			continue
		}
		anyUtil = anyUtil || c.util
		if g.cells[i] < 0 {
			g.cells[i] = r.b.SeriesOf(c.metric, g.track)
		}
		if !r.b.Reading(g.cells[i], at, v, uint32(row)) {
			r.in.Report("dmon/repeated-stamp", timeline.Info, row, "GPU %d has two rows in one second: the first stands", index)
			break
		}
	}
	if anyUtil {
		g.utilRows++
	}
}

func startsLikeRow(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// stray keeps what is no row: messages of the shell or of the driver. A lost GPU is an event.
func (r *reader) stray(text []byte, row uint64) {
	shown := text[:min(len(text), 120)]
	if bytes.Contains(text, []byte("GPU is lost")) || bytes.Contains(text, []byte("fallen off the bus")) || bytes.Contains(text, []byte("requires reset")) {
		t := r.b.Track(timeline.Track{Source: r.src, Proc: -1, Device: -1, Thread: -1, Name: "messages"})
		r.b.AddMark(timeline.MarkGPULost, t, r.lastAt(), string(shown), uint32(row))
	}
	r.in.Report("dmon/stray-line", timeline.Info, row, "not a row of the table: %q", shown)
}

func (r *reader) lastAt() timeline.Time {
	if r.timed&(timesTod|timesFull|timesStamp) != 0 {
		at, _ := r.host.Last()
		return at
	}
	return timeline.Time(max(r.cycle, 0)) * r.period
}

func (r *reader) headerLine(text []byte, row uint64) {
	cells, csv := split(text, nil)
	switch {
	case isNames(cells):
		r.csv = csv
		if csv && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1]
		}
		if slices.Equal(cells, r.names) {
			return
		}
		r.names, r.units = cells, nil
		r.setColumns(row)
	case slices.ContainsFunc(cells, func(c string) bool { return c == "Idx" || c == "YYYYMMDD" || c == "HH:MM:SS" }):
		if csv && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1]
		}
		if len(cells) == len(r.names) && r.units == nil {
			r.units = cells
			r.setColumns(row)
		}
	default:
		r.in.Report("dmon/stray-line", timeline.Info, row, "a line with # that is no header: %q", text[:min(len(text), 120)])
	}
}

// setColumns reads the current header; the unit line may have told the units already.
func (r *reader) setColumns(row uint64) {
	r.date, r.time, r.gpu = -1, -1, -1
	r.cols = make([]column, len(r.names))
	for i, name := range r.names {
		c := &r.cols[i]
		switch {
		case r.gpu < 0 && strings.EqualFold(name, "date"):
			r.date, c.skip = i, true
		case r.gpu < 0 && strings.EqualFold(name, "time"):
			r.time, c.skip = i, true
		case r.gpu < 0 && name == "gpu":
			r.gpu, c.skip = i, true
		default:
			u := ""
			if r.units != nil {
				u = r.units[i]
			}
			var known bool
			*c, known = columnOf(name, u)
			if r.units != nil && !known {
				r.in.Report("dmon/unknown-column", timeline.Info, row, "column %s (%s) is kept as %s", name, u, c.metric.Name)
			}
		}
	}
	for _, g := range r.gpus {
		g.cells = unset(len(r.cols))
	}
}

func unset(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

func (r *reader) gpuOf(k gpuKey) *gpu {
	if g, ok := r.gpus[k]; ok {
		return g
	}
	if len(r.gpus) >= ingest.MaxGPUs {
		return nil
	}
	r.labels[k.label] = true
	name := "GPU " + strconv.Itoa(k.index)
	if k.label != "" {
		name = k.label + ": " + name
	}
	g := &gpu{shown: k.label, index: k.index, cells: unset(len(r.cols))}
	g.track = r.b.GPUTrack(timeline.Device{Index: k.index, Ordinal: -1, Source: r.src, Proc: -1, Vendor: "nvidia"}, name)
	r.gpus[k] = g
	return g
}

func isMissing(cell string) bool {
	switch cell {
	case "", "-", "–", "—", "N/A", "[N/A]", "n/a":
		return true
	}
	return false
}

func (r *reader) value(c *column, cell string, index int, row uint64) (float64, bool) {
	if isMissing(cell) {
		return 0, false
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		r.in.Report("dmon/bad-number", timeline.DataLoss, row, "GPU %d, column %s: %q is no number: reading dropped", index, c.name, cell[:min(len(cell), 40)])
		return 0, false
	}
	if !(v >= c.lo && v <= c.hi) {
		r.in.Report("dmon/impossible-value", timeline.DataLoss, row, "GPU %d, column %s: %s is outside %g to %g: reading dropped", index, c.name, cell, c.lo, c.hi)
		return 0, false
	}
	if c.name == "pviol" {
		v = min(v, 100) // the counter and the period are not read at the same instant
	}
	return v * c.scale, true
}

// at gives the row's instant on the log's own clock.
func (r *reader) at(cells []string, stamp time.Time, k gpuKey, row uint64) (timeline.Time, bool) {
	switch {
	case r.time >= 0:
		tod, ok := parseTod(cells[r.time])
		if !ok {
			r.in.Report("dmon/bad-time", timeline.DataLoss, row, "time %q is not HH:MM:SS: row dropped", cells[r.time])
			return 0, false
		}
		if r.date < 0 {
			r.timed |= timesTod
			h := r.hostOf(k.label)
			if tod < h.lastTod-12*3600e9 {
				h.day += 24 * 3600e9
			}
			h.lastTod = tod
			return r.step(h.day+tod, k, row)
		}
		day, ok := parseDay(cells[r.date])
		if !ok {
			r.in.Report("dmon/bad-time", timeline.DataLoss, row, "date %q is not YYYYMMDD: row dropped", cells[r.date])
			return 0, false
		}
		r.timed |= timesFull
		return r.step(day+tod, k, row)
	case !stamp.IsZero():
		r.timed |= timesStamp
		// Rows of one cycle are printed together, but each has its own stamp.
		return r.step(timeline.Time(stamp.UnixNano()), k, row)
	}
	r.timed |= timesNone
	// A cycle ends when a GPU comes again.
	if g, ok := r.gpus[k]; r.cycle < 0 || ok && g.lastCycle >= r.cycle {
		r.cycle++
	}
	if g := r.gpuOf(k); g != nil {
		g.lastCycle = r.cycle
	}
	return timeline.Time(r.cycle) * r.period, true
}

func (r *reader) hostOf(label string) *host {
	if r.host = r.hosts[label]; r.host == nil {
		r.host = &host{}
		r.hosts[label] = r.host
	}
	return r.host
}

// step follows the wall clock and reports its jumps.
func (r *reader) step(stamp timeline.Time, k gpuKey, row uint64) (timeline.Time, bool) {
	h := r.hostOf(k.label)
	before, _ := h.Last()
	at, step := h.At(stamp)
	if step == ingest.StepNone {
		return at, true
	}
	return at, ingest.ReportStep(r.in, r.b, "dmon", step, before, at, row)
}

func parseTod(s string) (timeline.Time, bool) {
	if len(s) != 8 || s[2] != ':' || s[5] != ':' {
		return 0, false
	}
	h, ok1 := digits(s[:2], 23)
	m, ok2 := digits(s[3:5], 59)
	sec, ok3 := digits(s[6:], 60)
	return timeline.Time(h*3600+m*60+sec) * 1e9, ok1 && ok2 && ok3
}

func parseDay(s string) (timeline.Time, bool) {
	s = strings.NewReplacer("-", "", "/", "").Replace(s)
	if len(s) != 8 {
		return 0, false
	}
	y, ok1 := digits(s[:4], 2200)
	m, ok2 := digits(s[4:6], 12)
	d, ok3 := digits(s[6:], 31)
	if !ok1 || !ok2 || !ok3 || y < 1990 || m == 0 || d == 0 {
		return 0, false
	}
	return timeline.Time(time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).UnixNano()), true
}

func digits(s string, most int) (int, bool) {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, n <= most
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows = r.rows
	src.Covers = timeline.WindowBefore.String()
	if r.cols == nil {
		return fmt.Errorf("no header line with gpu: record again without --format noheader")
	}
	if r.rows == 0 {
		return fmt.Errorf("a header and no row that can be read: record again, and let it run")
	}
	c := timeline.Clock{Name: src.Path, Step: time.Second}
	switch r.timed {
	case timesFull:
		c.Wall, c.Error = true, 2*time.Second
		c.Why = "wall clock in whole seconds, zone not stated; a row looks back over up to a second more"
	case timesTod:
		c.Wall, c.Error = true, 2*time.Second
		c.Why = ingest.DateUnknown + ": dmon ran with -o T; wall clock in whole seconds, zone not stated"
	case timesStamp:
		c.Wall, c.Zoned, c.How, c.Step, c.Error = true, true, timeline.Recorded, time.Millisecond, 2*time.Second
		c.Why = "dmon ran without -o; the log collector's stamps, which state their zone, are the times"
	case timesNone:
		c.Why = "dmon ran without -o DT: its rows have an order and no time; shown on an axis of its own, one second a sample"
		if _, ok := r.in.Opt.Set["period"]; ok {
			c.Why = fmt.Sprintf("dmon ran without -o DT: its rows have an order and no time; shown on an axis of its own, %g s a sample as --set period says", float64(r.period)/1e9)
		}
		r.in.Report("dmon/no-time", timeline.DataLoss, 1, "the log has no times: it can be put beside nothing else; record with -o DT")
	default:
		c.Wall = true
		c.Why = "only some rows have times: runs with different -o were appended; not placed"
		r.in.Report("dmon/mixed-times", timeline.DataLoss, 1, "only some rows have times, or dates: runs with different -o were appended; record each to a file of its own")
	}
	r.b.AddClock(r.src, c)
	if len(r.labels) > 1 {
		r.in.Report("dmon/several-hosts", timeline.Info, 1, "%d different line prefixes: each is taken as a host of its own", len(r.labels))
	}
	r.reportHidden()
	return nil
}

// reportHidden says which GPUs never showed a utilisation though they have rows: MIG, or a product that does not support it.
func (r *reader) reportHidden() {
	var hidden []*gpu
	for _, g := range r.gpus {
		if g.utilRows == 0 && g.rows >= 3 {
			hidden = append(hidden, g)
		}
	}
	if len(hidden) == 0 {
		return
	}
	slices.SortFunc(hidden, func(a, b *gpu) int { return cmp.Or(cmp.Compare(a.shown, b.shown), cmp.Compare(a.index, b.index)) })
	if !slices.ContainsFunc(r.names, func(n string) bool { return slices.Contains(utilColumns, n) }) {
		return // not asked for
	}
	var names []string
	for _, g := range hidden {
		names = append(names, strconv.Itoa(g.index))
	}
	r.in.Report("dmon/hidden-utilisation", timeline.DataLoss, 1, "GPU %s: sm and mem are - in every row: MIG hides utilisation in dmon (or the product does not support it); this is not an idle GPU", strings.Join(names, ", "))
}
