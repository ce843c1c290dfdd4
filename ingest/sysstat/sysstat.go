// Package sysstat reads what the tools of sysstat and procps print of a host: mpstat, iostat, pidstat, sar, sadf -j, and vmstat.
//
// It is recognised by the line that sysstat's tools begin with, "Linux RELEASE (HOST) DATE _ARCH_ (N CPU)", by vmstat's headings, or by the
// JSON of sadf. Tables are read by the names of their columns, so tools may follow one another in a file; a heading that repeats begins a
// new table of the same kind.
//
// Clock: the date stands in the first line, the time of day on each row (iostat with -t, vmstat with -t): the host's wall clock in whole
// seconds, without a zone unless iostat writes ISO forms, pidstat epoch seconds, or sadf UTC. Rows look back to the row before. iostat and
// vmstat without -t state no times: At is their number times --set period (1 s if that is not said). Dates like 12/02/26 are the month
// first unless the file shows otherwise: a day over 12, decimal commas.
//
// iostat and vmstat begin with means since boot: left out. So are the averages that end a recording, tables of threads (pidstat -t names
// them below their process) and columns that give no metric of ours. kB are KiB, as these tools count them.
//
// What it cannot tell: anything between two rows. pidstat lists only processes that did something, so that a process without a row was
// idle or gone.
package sysstat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads the tables of sysstat's tools and of vmstat.
var Format = ingest.Format{
	Name:      "sysstat",
	Doc:       "mpstat, iostat, pidstat, sar, sadf -j, vmstat: CPUs, disks, network and processes of the host",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"data", "hw"},
}

var (
	hello     = regexp.MustCompile(`^(Linux|SunOS) (\S+) \(([^)]*)\)\s+(\S+)\s+_(\S+)_\s+\((\d+) CPU\)`)
	procsLine = regexp.MustCompile(`^-*procs-* -+memory-+ `)
	stampLine = regexp.MustCompile(`^\d[\d/.年月日-]*\d日?[ T]`)
	restart   = regexp.MustCompile(`LINUX RESTART`)
)

func recognise(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if n++; n > 5 {
			break
		}
		if hello.Match(line) || procsLine.Match(line) || isVmstat(strings.Fields(string(line))) {
			return true
		}
		if n == 1 && line[0] == '{' {
			return bytes.HasPrefix(bytes.Join(bytes.Fields(h.Text[:min(len(h.Text), 400)]), nil), []byte(`{"sysstat":{"hosts":`))
		}
	}
	return false
}

// isVmstat tells vmstat's line of names.
func isVmstat(cells []string) bool {
	return len(cells) > 14 && cells[0] == "r" && cells[1] == "b" && cells[2] == "swpd" && slices.Contains(cells, "wa")
}

const (
	maxParts = 4096
	maxTable = 512 // columns
)

type reader struct {
	in  *ingest.Input
	b   *timeline.Builder
	src timeline.SourceID

	table      table
	monthFirst bool
	sure       bool
	guessed    bool // a date was read that might be the other way round

	base     timeline.Time // date of the file's first line; 0 unknown
	days     timeline.Time // midnights passed since
	lastTod  timeline.Time
	dated    bool
	todSeen  bool
	zoned    bool
	unzoned  bool
	untimed  bool
	at, prev timeline.Time // of the block being read and of the one before; -1 unknown
	period   timeline.Time
	reports  int  // reports of iostat, rows of vmstat so far
	stamped  bool // iostat wrote a date above its report
	fresh    bool // the report in hand has its table of devices
	zone     string
	doubtful bool // vmstat's memory is in a unit that nobody knows

	rows   int64
	host   string
	parts  map[string]timeline.TrackID
	series map[seriesKey]int
	stated map[string]bool
}

type seriesKey struct {
	track  timeline.TrackID
	metric string
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, src: in.Source, period: 1e9, at: -1, prev: -1, parts: map[string]timeline.TrackID{}, series: map[seriesKey]int{}, stated: map[string]bool{}}
	if p, ok := in.Opt.Set["period"]; ok {
		d, err := strconv.ParseFloat(p, 64)
		if err != nil || !(d > 0 && d < 1e6) {
			return fmt.Errorf("--set period=%s: not a number of seconds: say --set period=1", p)
		}
		r.period = timeline.Time(d * 1e9)
	}
	head := make([]byte, ingest.HeadSize)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	r.monthFirst, r.sure = order(head)
	all := io.MultiReader(bytes.NewReader(head), f)
	if t := bytes.TrimLeft(head, " \t\r\n\xef\xbb\xbf"); len(t) > 0 && t[0] == '{' {
		if err := r.json(ctx, all); err != nil {
			return err
		}
		return r.finish()
	}
	l := ingest.NewLines(all)
	for l.Next() {
		if l.Row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if l.Long {
			in.Report("sysstat/long-line", timeline.DataLoss, l.Row, "a line of more than 1 MiB: skipped")
			continue
		}
		r.line(strings.TrimSpace(string(l.Text)), l)
	}
	if err := l.Err(); err != nil {
		in.Report("sysstat/damaged-file", timeline.DataLoss, l.Row, "%v after line %d: what lies before it is read", err, l.Row)
	}
	return r.finish()
}

func (r *reader) line(text string, l *ingest.Lines) {
	if text == "" {
		if r.table.until {
			r.table = table{kind: otherTable}
		}
		return
	}
	if m := hello.FindStringSubmatch(text); m != nil {
		r.hello(m, l.Row)
		return
	}
	cells := strings.Fields(text)
	if len(cells) > maxTable {
		r.in.Report("sysstat/stray-line", timeline.Info, l.Row, "a line of more than %d cells", maxTable)
		return
	}
	switch {
	case procsLine.MatchString(text):
		return
	case isVmstat(cells):
		r.vmstatNames(cells)
	case r.table.kind == vmstatTable && len(r.table.names) > 0 && isDigits(cells[0]):
		r.vmstat(cells, l)
	case cells[0] == "avg-cpu:":
		r.report()
		r.table = table{kind: cpuTable, key: -1, names: cells[1:], until: true}
	case cells[0] == "Device" || cells[0] == "Device:":
		if r.table.kind != cpuTable && r.table.kind != otherTable || r.reports == 0 || r.fresh {
			r.report()
		}
		r.fresh = true
		r.table = tableOf(cells)
		r.table.until = true
	case cells[0] == "#" && len(cells) > 2 && cells[1] == "Time":
		r.table = tableOf(cells[2:])
		r.table.timed, r.table.epoch = true, true
	case restart.MatchString(text):
		if at, n := tod(cells); n > 0 {
			r.b.AddMark(timeline.MarkOutput, r.hostTrack(), r.clock(at), "the host restarted", uint32(l.Row))
			r.prev = -1
		}
	default:
		r.rest(text, cells, l)
	}
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// rest is a line that begins with a time or a date, or a row of a table without times.
func (r *reader) rest(text string, cells []string, l *ingest.Lines) {
	if stampLine.MatchString(text) && r.stamp(text, cells) { // iostat -t
		return
	}
	at, n := tod(cells)
	if n == 0 && r.table.epoch && len(cells[0]) == 10 && isDigits(cells[0]) { // pidstat -H
		sec, _ := strconv.ParseInt(cells[0], 10, 64)
		r.zoned = true
		r.move(timeline.Time(sec) * 1e9)
		r.row(cells[1:], l)
		return
	}
	if n > 0 {
		rest := cells[n:]
		if len(rest) == 0 {
			return
		}
		if names(rest) {
			t := r.clock(at)
			r.prev, r.at = t, t // the interval begins at the heading's time
			r.table = tableOf(rest)
			r.table.timed = true
			if r.table.kind == otherTable {
				r.in.Report("sysstat/unread-table", timeline.Info, l.Row, "a table of %.120q is not read", strings.Join(rest, " "))
			}
			return
		}
		if r.table.timed {
			r.move(r.clock(at))
			r.row(rest, l)
		}
		return
	}
	switch {
	case r.table.timed && (strings.HasSuffix(cells[0], ":") || strings.HasSuffix(cells[0], "：") || len(cells) > 1 && cells[1] == ":"): // averages at the end, in the language of the system
	case r.table.until:
		r.row(cells, l)
	default:
		r.in.Report("sysstat/stray-line", timeline.Info, l.Row, "not a row of a table: %.120q", text)
	}
}

// names tells a line of column names from a row.
func names(cells []string) bool {
	for i, c := range cells {
		if _, ok := number(c); ok && i > 0 || ok && len(cells) == 1 {
			return false
		}
	}
	_, first := number(cells[0])
	return !first
}

func (r *reader) hello(m []string, row uint64) {
	r.table = table{kind: otherTable}
	if d, ok := day(m[4], r.monthFirst); ok {
		r.base, r.days, r.lastTod, r.dated = d, 0, 0, true
		r.guessed = r.guessed || !r.sure && strings.Contains(m[4], "/")
	} else {
		r.in.Report("sysstat/bad-time", timeline.DataLoss, row, "date %.40q is of no form that is known: the day stays unknown", m[4])
	}
	if r.host == "" {
		r.host = m[3]
	}
	r.reports, r.fresh, r.stamped, r.at, r.prev = 0, false, false, -1, -1
	r.text(timeline.AttrHostKernel, m[2], row)
	if n, err := strconv.Atoi(m[6]); err == nil {
		r.number(timeline.AttrHostCPUs, float64(n), unit.Count, row)
	}
}

func (r *reader) text(name, s string, row uint64) {
	if !r.stated[name] {
		r.stated[name] = true
		r.b.AddAttr(r.hostTrack(), name, s, 0, uint32(row))
	}
}

func (r *reader) number(name string, v float64, u unit.Unit, row uint64) {
	if !r.stated[name] {
		r.stated[name] = true
		r.b.AddNumber(r.hostTrack(), name, v, u, 0, uint32(row))
	}
}

func (r *reader) hostTrack() timeline.TrackID {
	return r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: "host"})
}

// clock turns a time of day into an instant; one that is half a day earlier than the last is of the next day.
func (r *reader) clock(at timeline.Time) timeline.Time {
	r.todSeen = true
	if at < r.lastTod-12*3600e9 {
		r.days += 24 * 3600e9
	}
	r.lastTod = at
	return r.base + r.days + at
}

// move goes to the instant of a row; rows of one block have the same.
func (r *reader) move(at timeline.Time) {
	if at != r.at {
		r.prev, r.at = r.at, at
	}
}

// stamp reads iostat's line of a date and a time: what follows is of that instant.
func (r *reader) stamp(text string, cells []string) bool {
	for _, form := range []string{"2006-01-02T15:04:05-0700", time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			r.zoned = true
			r.block(timeline.Time(t.UnixNano()))
			return true
		}
	}
	d, ok := day(cells[0], r.monthFirst)
	if !ok || len(cells) < 2 {
		return false
	}
	at, n := tod(cells[1:])
	if n == 0 || n+1 != len(cells) {
		return false
	}
	r.dated, r.unzoned = true, true
	r.guessed = r.guessed || !r.sure && strings.Contains(cells[0], "/")
	r.block(d + at)
	return true
}

func (r *reader) block(at timeline.Time) {
	r.prev = -1
	if r.stamped {
		r.prev = r.at
	}
	r.at, r.stamped, r.fresh = at, true, false
	r.reports++
	r.table = table{kind: otherTable}
}

// report begins a report of iostat that has no time above it.
func (r *reader) report() {
	r.fresh = false
	if r.stamped {
		return
	}
	r.reports++
	r.untimed = true
	r.prev = timeline.Time(r.reports-2) * r.period
	r.at = timeline.Time(r.reports-1) * r.period
}

// row reads one row of the table in hand.
func (r *reader) row(cells []string, l *ingest.Lines) {
	t := &r.table
	if t.kind == otherTable {
		return
	}
	n := len(t.names)
	switch {
	case len(cells) < n:
		r.in.Report("sysstat/short-row", timeline.DataLoss, l.Row, "row has %d columns, its heading has %d: the log was cut while writing; row dropped", len(cells), n)
		return
	case len(cells) > n && t.kind != procTable:
		r.in.Report("sysstat/long-row", timeline.DataLoss, l.Row, "row has %d columns, its heading has %d: row dropped", len(cells), n)
		return
	case !l.Ended:
		r.in.Report("sysstat/unterminated-row", timeline.Info, l.Row, "the file ends inside this row: left out")
		return
	}
	r.rows++
	dt := float64(r.at-r.prev) / 1e9
	switch {
	case r.prev == -1 && t.epoch: // pidstat -h does not say when its first interval began
		dt = 0
	case r.prev == -1 || t.until && r.reports < 2 || dt <= 0:
		// iostat's first report, and mpstat without an interval
		r.in.Report("sysstat/since-boot", timeline.Info, l.Row, "means since the host booted say nothing of the run: left out")
		return
	}
	row := uint32(min(l.Row, 1<<32-1))
	switch t.kind {
	case cpuTable:
		r.cpu(cells, dt, row)
	case procTable:
		r.process(cells, dt, row)
	default:
		track, ok := r.hostTrack(), true
		if t.key >= 0 {
			track, ok = r.part(t.kind, cells[t.key], -1, uint64(row))
		}
		if ok {
			for i, name := range t.names {
				if i != t.key {
					r.cell(t.kind, name, cells[i], track, dt, row)
				}
			}
		}
	}
}

// cell puts one number that gives a metric by itself.
func (r *reader) cell(k kind, name, cell string, track timeline.TrackID, dt float64, row uint32) {
	g, ok := columns[k][name]
	if !ok {
		return
	}
	v, ok := number(cell)
	if !ok {
		r.in.Report("sysstat/bad-number", timeline.DataLoss, uint64(row), "column %s: %.40q is no number: reading dropped", name, cell)
		return
	}
	if g.hi == 100 && v > 100 && v < 102 {
		v = 100 // rounding, and clocks that are not read at one instant
	}
	if v == -1 { // not permitted
		return
	}
	if v < 0 || v > g.hi {
		r.in.Report("sysstat/impossible-value", timeline.DataLoss, uint64(row), "column %s: %s is outside 0 to %g: reading dropped", name, cell, g.hi)
		return
	}
	r.put(track, g.metric, v*g.scale, dt, row)
}

func (r *reader) put(track timeline.TrackID, m timeline.Metric, v, dt float64, row uint32) {
	k := seriesKey{track, m.Name}
	s, ok := r.series[k]
	if !ok {
		if m.Covers == timeline.WindowBefore && dt > 0 {
			m.Window = time.Duration(dt * 1e9)
		}
		s = r.b.SeriesOf(m, track)
		r.series[k] = s
	}
	r.b.Reading(s, r.at, v, row)
}

// part gives the track of a CPU, a disk, a port or a process.
func (r *reader) part(k kind, name string, thread int64, row uint64) (timeline.TrackID, bool) {
	if skipPart(k, name) {
		return 0, false
	}
	key := strconv.Itoa(int(k)) + " " + name + " " + strconv.FormatInt(thread, 10)
	if t, ok := r.parts[key]; ok {
		return t, true
	}
	if len(r.parts) >= maxParts {
		r.in.Report("sysstat/many-parts", timeline.DataLoss, row, "more than %d CPUs, disks, ports and processes: %.40q is left out", maxParts, name)
		return 0, false
	}
	tk := map[kind]timeline.TrackKind{cpuTable: timeline.TrackCPU, diskTable: timeline.TrackDisk, nicTable: timeline.TrackNIC, procTable: timeline.TrackProcess}[k]
	t := r.b.Track(timeline.Track{Source: r.src, Kind: tk, Proc: -1, Device: -1, Thread: thread, Name: name})
	r.parts[key] = t
	return t, true
}

// cpu reads shares of CPU time: of all, or of one CPU.
func (r *reader) cpu(cells []string, dt float64, row uint32) {
	t := &r.table
	track := r.hostTrack()
	if t.key >= 0 && cells[t.key] != "all" {
		n, err := strconv.ParseInt(cells[t.key], 10, 32)
		if err != nil || n < 0 {
			return
		}
		var ok bool
		if track, ok = r.part(cpuTable, "CPU "+cells[t.key], n, uint64(row)); !ok {
			return
		}
	}
	var s shares
	for i, name := range t.names {
		what, ok := cpuShares[name]
		if !ok {
			continue
		}
		v, ok := number(cells[i])
		if !ok || v < 0 || v > 102 {
			r.in.Report("sysstat/bad-number", timeline.DataLoss, uint64(row), "column %s: %.40q is no share: row dropped", name, cells[i])
			return
		}
		s.add(what, v)
	}
	r.shares(track, &s, dt, row)
}

// shares are percentages of CPU time by what they count as, a byte as in cpuShares.
type shares struct {
	sum  [128]float64
	seen [128]bool
}

func (s *shares) add(what byte, v float64) {
	s.sum[what] += v
	s.seen[what] = true
}

func (r *reader) shares(track timeline.TrackID, s *shares, dt float64, row uint32) {
	all := 0.0
	for _, what := range []byte("uswit-") {
		all += s.sum[what]
	}
	if !s.seen['-'] || all < 50 { // an offline CPU shows zeros
		return
	}
	r.put(track, timeline.CPUBusy, min(max(1-(s.sum['-']+s.sum['w'])/100, 0), 1), dt, row)
	for i, m := range []timeline.Metric{timeline.CPUUser, timeline.CPUSystem, timeline.CPUIOWait, timeline.CPUSteal, timeline.CPUIRQ} {
		if what := "uswti"[i]; s.seen[what] {
			r.put(track, m, min(s.sum[what]/100, 1), dt, row)
		}
	}
}

// process reads a row of pidstat. The command comes last and may hold blanks.
func (r *reader) process(cells []string, dt float64, row uint32) {
	t := &r.table
	if i := slices.Index(t.names, "TID"); i >= 0 && cells[i] != "-" {
		r.in.Report("sysstat/threads", timeline.Info, uint64(row), "rows of threads are left out: their process has a row of its own")
		return
	}
	pid, err := strconv.ParseInt(cells[t.key], 10, 64)
	if err != nil || pid < 0 {
		r.in.Report("sysstat/stray-line", timeline.Info, uint64(row), "no number of a process: %.40q", cells[t.key])
		return
	}
	name := ""
	if n := len(t.names); t.names[n-1] == "Command" {
		name = command(cells[n-1:])
	}
	track, ok := r.part(procTable, name, pid, uint64(row))
	if !ok {
		return
	}
	for i, col := range t.names {
		switch {
		case i == t.key || col == "Command":
		case col == "iodelay": // hundredths of a second
			if v, ok := number(cells[i]); ok && v >= 0 && dt > 0 && v/100 <= dt*1.05 {
				r.put(track, timeline.ProcBlocked, min(v/100/dt, 1), dt, row)
			}
		default:
			r.cell(procTable, col, cells[i], track, dt, row)
		}
	}
}

const vmstatTable = otherTable + 1

func (r *reader) vmstatNames(cells []string) {
	r.table = table{kind: vmstatTable, key: -1, names: cells}
	known := slices.IndexFunc(cells, func(c string) bool { return c == "st" || c == "gu" })
	for known+1 < len(cells) && (cells[known+1] == "gu" || cells[known+1] == "st") {
		known++
	}
	r.table.names = cells[:known+1]
	r.zone = strings.Join(cells[known+1:], " ")
}

// vmstat reads a row. With -t the last two cells are a date and a time, in the zone that the heading names.
func (r *reader) vmstat(cells []string, l *ingest.Lines) {
	t := &r.table
	n := len(t.names)
	if len(cells) != n && len(cells) != n+2 {
		r.in.Report("sysstat/short-row", timeline.DataLoss, l.Row, "row has %d columns, its heading has %d: row dropped", len(cells), n)
		return
	}
	if !l.Ended {
		r.in.Report("sysstat/unterminated-row", timeline.Info, l.Row, "the file ends inside this row: left out")
		return
	}
	r.rows++
	r.reports++
	if len(cells) == n+2 {
		d, ok := day(cells[n], r.monthFirst)
		at, k := tod(cells[n+1:])
		if !ok || k == 0 {
			r.in.Report("sysstat/bad-time", timeline.DataLoss, l.Row, "%.40q is no date and time: row dropped", cells[n]+" "+cells[n+1])
			return
		}
		r.dated = true
		if r.zone == "UTC" || r.zone == "GMT" {
			r.zoned = true
		} else {
			r.unzoned = true
		}
		if r.reports > 1 {
			r.prev = r.at
		}
		r.at = d + at
	} else {
		r.untimed = true
		r.prev, r.at = timeline.Time(r.reports-2)*r.period, timeline.Time(r.reports-1)*r.period
	}
	get := func(name string) (float64, bool) {
		i := slices.Index(t.names, name)
		if i < 0 {
			return 0, false
		}
		v, ok := number(cells[i])
		return v, ok && v >= 0
	}
	free, _ := get("free")
	buff, _ := get("buff")
	cache, hasCache := get("cache")
	if r.reports == 1 {
		// Without -S it counts KiB. A host with so little memory trains nothing: it is MiB or something else then.
		r.doubtful = hasCache && free+buff+cache < 2<<20
		if r.doubtful {
			r.in.Report("sysstat/unknown-unit", timeline.Info, l.Row, "memory in a unit that the log does not state (vmstat -S): left out")
		}
		r.in.Report("sysstat/since-boot", timeline.Info, l.Row, "means since the host booted say nothing of the run: left out")
		return
	}
	dt := float64(r.at-r.prev) / 1e9
	if dt <= 0 {
		r.in.Report("sysstat/repeated-stamp", timeline.Info, l.Row, "two rows in one second, or the clock went back: the first stands")
		return
	}
	host, row := r.hostTrack(), uint32(min(l.Row, 1<<32-1))
	put := func(name string, m timeline.Metric, scale float64) {
		if v, ok := get(name); ok && v < 1e15 {
			r.put(host, m, v*scale, dt, row)
		}
	}
	put("r", timeline.RunQueue, 1)
	put("b", timeline.Blocked, 1)
	put("cs", timeline.CtxSwitches, 1)
	if !r.doubtful {
		put("cache", timeline.PageCache, kib)
		put("si", timeline.SwapIn, kib)
		put("so", timeline.SwapOut, kib)
	}
	put("bi", timeline.DiskRead, kib)
	put("bo", timeline.DiskWrite, kib)
	var s shares
	for i, name := range []string{"us", "gu", "sy", "wa", "st", "id"} {
		v, ok := get(name)
		if !ok || v > 100 {
			continue
		}
		s.add("uuswt-"[i], v)
	}
	r.shares(host, &s, dt, row)
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows, src.Covers, src.Host = r.rows, timeline.WindowBefore.String(), r.host
	if r.rows == 0 {
		return errors.New("no table with rows: record again with an interval, as in mpstat -P ALL 1, and let it run")
	}
	c := timeline.Clock{Name: src.Path, Step: time.Second, Error: 2 * time.Second}
	switch {
	case r.untimed && (r.todSeen || r.dated && r.stamped):
		c.Why = "only some tables have times: not placed"
		r.in.Report("sysstat/mixed-times", timeline.DataLoss, 1, "only some tables have times: outputs of several commands were appended; record each to a file of its own")
	case r.untimed:
		c.Error = 0
		c.Why = "recorded without -t: rows have an order and no time; shown on an axis of its own, one second a row"
		if _, ok := r.in.Opt.Set["period"]; ok {
			c.Why = fmt.Sprintf("recorded without -t: rows have an order and no time; shown on an axis of its own, %g s a row as --set period says", float64(r.period)/1e9)
		}
		r.in.Report("sysstat/no-time", timeline.DataLoss, 1, "the log has no times: it can be put beside nothing else; record with iostat -t, vmstat -t")
	case r.zoned && !r.unzoned && !r.todSeen:
		c.Wall, c.Zoned, c.How, c.Error = true, true, timeline.Recorded, time.Second
		c.Why = "wall clock in whole seconds that states its zone"
	case r.zoned:
		c.Wall = true
		c.Why = "some rows state a zone and some do not: not placed"
		r.in.Report("sysstat/mixed-times", timeline.DataLoss, 1, "some rows state a zone and some do not: outputs of several commands were appended; record each to a file of its own")
	case !r.dated:
		c.Wall = true
		c.Why = ingest.DateUnknown + ": the first line is missing; wall clock in whole seconds, zone not stated"
	default:
		c.Wall = true
		c.Why = "wall clock in whole seconds, zone not stated"
		if r.guessed {
			c.Why += "; dates are read as month/day/year (assumed)"
		}
	}
	r.b.AddClock(r.src, c)
	return nil
}

// sadf is what is read of one moment of sadf -j.
type sadf struct {
	Timestamp json.RawMessage               `json:"timestamp"`
	CPU       []map[string]json.RawMessage  `json:"cpu-load"`
	CPUAll    []map[string]json.RawMessage  `json:"cpu-load-all"`
	Switches  map[string]float64            `json:"process-and-context-switch"`
	Swap      map[string]float64            `json:"swap-pages"`
	Memory    map[string]float64            `json:"memory"`
	Queue     map[string]float64            `json:"queue"`
	Disks     []map[string]json.RawMessage  `json:"disk"`
	Network   map[string]json.RawMessage    `json:"network"`
	PSI       map[string]map[string]float64 `json:"psi"`
}

type sadfStamp struct {
	Date, Time string
	UTC        json.RawMessage
	Interval   float64
}

// json reads sadf -j. Rows are moments, from 1.
func (r *reader) json(ctx context.Context, f io.Reader) error {
	dec := json.NewDecoder(f)
	path := []string{}
	key := ""
	moments := uint64(0)
	// A walk over tokens finds the lists of statistics; each of their moments is decoded whole.
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tok, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			r.in.Report("sysstat/bad-json", timeline.DataLoss, moments+1, "%v: what lies before it is read", err)
			return nil
		}
		switch v := tok.(type) {
		case json.Delim:
			switch v {
			case '{', '[':
				path = append(path, key)
				if len(path) > 64 {
					return errors.New("JSON of more than 64 levels")
				}
				if v == '[' && key == "statistics" {
					for dec.More() {
						var m sadf
						if err := dec.Decode(&m); err != nil {
							var wrong *json.UnmarshalTypeError
							if errors.As(err, &wrong) {
								moments++
								r.in.Report("sysstat/bad-json", timeline.DataLoss, moments, "moment %d: %v: dropped", moments, err)
								continue
							}
							r.in.Report("sysstat/bad-json", timeline.DataLoss, moments+1, "%v: what lies before it is read", err)
							return nil
						}
						moments++
						r.moment(&m, moments)
					}
				}
				key = ""
			default:
				if len(path) > 0 {
					path = path[:len(path)-1]
				}
				key = ""
			}
		case string:
			switch key {
			case "":
				key = v
				continue
			case "nodename":
				if r.host == "" {
					r.host = v
				}
			case "release":
				r.text(timeline.AttrHostKernel, v, 1)
			}
			key = ""
		case float64:
			if key == "number-of-cpus" {
				r.number(timeline.AttrHostCPUs, v, unit.Count, 1)
			}
			key = ""
		default:
			key = ""
		}
	}
}

func (r *reader) moment(m *sadf, n uint64) {
	var s sadfStamp
	if len(m.Timestamp) == 0 || json.Unmarshal(m.Timestamp, &s) != nil || s.Date == "" {
		r.in.Report("sysstat/bad-time", timeline.DataLoss, n, "moment %d has no date and time as sadf -j writes them: dropped; record with sadf -j", n)
		return
	}
	d, ok := day(s.Date, true)
	at, k := tod([]string{s.Time})
	if !ok || k == 0 {
		r.in.Report("sysstat/bad-time", timeline.DataLoss, n, "moment %d: %.40q is no date and time: dropped", n, s.Date+" "+s.Time)
		return
	}
	r.dated = true
	if utc := string(s.UTC); utc == "1" || utc == "true" {
		r.zoned = true
	} else {
		r.unzoned = true
	}
	r.rows++
	r.at = d + at
	dt := s.Interval
	if !(dt > 0 && dt < 1e7) {
		return // the first moment after a boot has nothing to look back to
	}
	row := uint32(min(n, 1<<32-1))
	host := r.hostTrack()
	field := func(m map[string]json.RawMessage, name string) string { return strings.Trim(string(m[name]), `"`) }
	cpus := m.CPU
	if len(cpus) == 0 {
		cpus = m.CPUAll
	}
	for _, c := range cpus {
		r.table = table{kind: cpuTable, key: 0, names: []string{"CPU"}}
		cells := []string{field(c, "cpu")}
		for _, name := range []string{"usr", "user", "nice", "guest", "gnice", "sys", "system", "iowait", "irq", "soft", "steal", "idle"} {
			if v, ok := c[name]; ok {
				r.table.names, cells = append(r.table.names, "%"+name), append(cells, string(v))
			}
		}
		r.cpu(cells, dt, row)
	}
	num := func(from map[string]float64, name string, metric timeline.Metric, scale float64) {
		if v, ok := from[name]; ok && v >= 0 && v < 1e15 {
			r.put(host, metric, v*scale, dt, row)
		}
	}
	num(m.Switches, "cswch", timeline.CtxSwitches, 1)
	num(m.Swap, "pswpin", timeline.SwapIn, page)
	num(m.Swap, "pswpout", timeline.SwapOut, page)
	num(m.Memory, "avail", timeline.MemFree, kib)
	num(m.Memory, "cached", timeline.PageCache, kib)
	num(m.Queue, "runq-sz", timeline.RunQueue, 1)
	num(m.Queue, "ldavg-1", timeline.Load1, 1)
	num(m.Queue, "blocked", timeline.Blocked, 1)
	num(m.PSI["psi-cpu"], "some_avg", timeline.PSICPU, .01)
	num(m.PSI["psi-io"], "some_avg", timeline.PSIIO, .01)
	num(m.PSI["psi-mem"], "some_avg", timeline.PSIMem, .01)
	for _, disk := range m.Disks {
		track, ok := r.part(diskTable, field(disk, "disk-device"), -1, n)
		if !ok || field(disk, "disk-device") == "" {
			continue
		}
		for _, c := range [][2]string{{"rkB", "rkB/s"}, {"wkB", "wkB/s"}, {"await", "await"}, {"aqu-sz", "aqu-sz"}, {"util-percent", "%util"}} {
			if v, ok := disk[c[0]]; ok {
				r.cell(diskTable, c[1], string(v), track, dt, row)
			}
		}
	}
	var nics []map[string]json.RawMessage
	if raw, ok := m.Network["net-dev"]; ok && json.Unmarshal(raw, &nics) == nil {
		for _, nic := range nics {
			if name := field(nic, "iface"); name != "" {
				if track, ok := r.part(nicTable, name, -1, n); ok {
					for _, c := range []string{"rxkB", "txkB"} {
						if v, ok := nic[c]; ok {
							r.cell(nicTable, c+"/s", string(v), track, dt, row)
						}
					}
				}
			}
		}
	}
}
