// Package pmon reads what `nvidia-smi pmon` prints: one row a process, GPU and period, under two header lines.
//
// Versions seen: R418 to R595, with and without -o, groups u, m and um, Linux and Windows. It is recognised by its header: a line that
// starts with # and holds the words gpu, pid and type.
//
// Clock: as for dmon. Date and Time are the wall clock of the machine in whole seconds, without a zone; without -o rows have an order
// and no time, and At is the number of the cycle times --set period (1 s if that is not said). A cycle of a GPU ends where its pids,
// which rise within a cycle, start again.
//
// Columns: sm, mem, enc, dec, jpg and ofa are means since the last cycle; fb is used memory in MiB though it says MB. The command is the
// program's name cut to 15 characters and may hold blanks. Counted as processes of a GPU are those that only compute (C, M+C).
//
// What it cannot tell: what a process does on the host. A `-` is no activity, not supported or a failed reading: missing, never zero. With
// MIG on all shares are `-`. In a container a pid is the host's.
package pmon

import (
	"bytes"
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

// Format reads nvidia-smi pmon logs.
var Format = ingest.Format{
	Name:      "pmon",
	Doc:       "nvidia-smi pmon: which processes use each GPU, and how much",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"idle", "hw"},
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
		if line[0] == '#' && isNames(cellsOf(string(line[1:]))) {
			return true
		}
	}
	return false
}

// isNames tells a line of column names.
func isNames(cols []string) bool {
	i := slices.Index(cols, "gpu")
	return i >= 0 && i <= 2 && slices.Contains(cols, "pid") && slices.Contains(cols, "type")
}

// cellsOf cuts a header at blanks or commas.
func cellsOf(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
}

type column struct {
	name   string
	metric timeline.Metric
	scale  float64
	hi     float64 // in the maker's unit
	use    use
}

type use uint8

const (
	useNumber use = iota
	useDate
	useTime
	useGPU
	usePID
	useType
	useCommand
)

const mib = 1 << 20

var columns = map[string]column{
	"sm": {metric: timeline.ProcSMBusy, scale: .01, hi: 100}, "mem": {metric: timeline.ProcMemBusy, scale: .01, hi: 100},
	"enc": {metric: timeline.ProcGPUEncBusy, scale: .01, hi: 100}, "dec": {metric: timeline.ProcGPUDecBusy, scale: .01, hi: 100},
	"jpg": {metric: timeline.ProcJpgBusy, scale: .01, hi: 100}, "ofa": {metric: timeline.ProcOfaBusy, scale: .01, hi: 100},
	"fb": {metric: timeline.ProcGPUMem, scale: mib, hi: 1e8}, "ccpm": {metric: timeline.Metric{Name: "proc_cc_mem_bytes", Unit: unit.Byte}, scale: mib, hi: 1e8},
}

type gpuKey struct {
	label string
	index int
}

type gpu struct {
	track timeline.TrackID
	dev   timeline.DeviceID
	procs map[int64]*process
	count int // series of the number of processes, -1 none yet
	cycle int // of all GPUs
	at    timeline.Time
	row   uint64 // first one of the cycle
	last  int64  // pid of the row before, -1 none yet
	n     int    // processes that compute, in this cycle
	begun bool
	blank bool // the row before said that nothing runs
}

type process struct {
	track  timeline.TrackID
	series []int // by column of the current header, -1 none yet
	header int
}

// host is the clock of one machine.
type host struct {
	ingest.WallClock
	day, lastTod timeline.Time // of -o T
}

const (
	timesNone = 1 << iota
	timesTod
	timesFull
	timesStamp
)

type reader struct {
	in     *ingest.Input
	b      *timeline.Builder
	period timeline.Time
	names  []string
	cols   []column
	csv    bool
	header int
	hosts  map[string]*host
	gpus   map[gpuKey]*gpu
	order  []*gpu
	timed  uint8
	cycle  int
	rows   int64
	nProcs int
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	period, err := in.Opt.Period()
	if err != nil {
		return err
	}
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, period: period, hosts: map[string]*host{}, gpus: map[gpuKey]*gpu{}, cycle: -1}
	l := ingest.NewLines(f)
	if err := l.Each(ctx, in, "pmon", r.line); err != nil {
		return err
	}
	if l.Ended { // else the last cycle may lack processes
		for _, g := range r.order {
			r.endCycle(g)
		}
	}
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	text, row := strings.TrimSpace(string(l.Text)), l.Row
	switch {
	case text == "":
		return
	case l.Long:
		r.in.Report("pmon/long-line", timeline.DataLoss, row, "a line of more than 1 MiB: skipped")
		return
	case text[0] == '#':
		r.headerLine(text[1:], row)
		return
	case text[0] < '0' || text[0] > '9':
		r.stray(text, row)
		return
	case r.cols == nil:
		r.in.Report("pmon/no-header", timeline.DataLoss, row, "a row above any header: its columns are unknown")
		return
	case !l.Ended:
		r.in.Report("pmon/unterminated-row", timeline.DataLoss, row, "the file ends without a line feed: the last row may be cut and is left out")
		return
	}
	cells := r.split(text)
	if len(cells) < len(r.cols) {
		r.in.Report("pmon/short-row", timeline.DataLoss, row, "row has %d columns, header has %d: the log was cut while writing; row dropped", len(cells), len(r.cols))
		return
	}
	r.row(cells, l)
}

// split cuts a row; the command is what is left of it.
func (r *reader) split(text string) []string {
	n := len(r.cols)
	if r.csv {
		cells := strings.SplitN(strings.TrimSuffix(text, ","), ",", n)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		return cells
	}
	cells := make([]string, 0, n)
	for len(cells) < n-1 {
		i := strings.IndexAny(text, " \t")
		if i < 0 {
			break
		}
		cells = append(cells, text[:i])
		text = strings.TrimLeft(text[i:], " \t")
	}
	if text != "" {
		cells = append(cells, text)
	}
	return cells
}

func (r *reader) stray(text string, row uint64) {
	shown := text[:min(len(text), 120)]
	if strings.Contains(text, "GPU is lost") || strings.Contains(text, "fallen off the bus") || strings.Contains(text, "requires reset") {
		t := r.b.Track(timeline.Track{Source: r.in.Source, Proc: -1, Device: -1, Thread: -1, Name: "messages"})
		r.b.AddMark(timeline.MarkGPULost, t, r.lastAt(), shown, uint32(row))
	}
	r.in.Report("pmon/stray-line", timeline.Info, row, "not a row of the table: %q", shown)
}

func (r *reader) lastAt() timeline.Time {
	var at timeline.Time
	for _, g := range r.order {
		at = max(at, g.at)
	}
	return at
}

func (r *reader) headerLine(text string, row uint64) {
	cells := cellsOf(text)
	switch {
	case isNames(cells):
		if slices.Equal(cells, r.names) {
			return
		}
		r.names, r.csv = cells, strings.Contains(text, ",")
		r.header++
		r.setColumns(row)
	case slices.Contains(cells, "Idx") || slices.Contains(cells, "YYYYMMDD") || slices.Contains(cells, "HH:MM:SS"):
	default:
		r.in.Report("pmon/stray-line", timeline.Info, row, "a line with # that is no header: %q", text[:min(len(text), 120)])
	}
}

func (r *reader) setColumns(row uint64) {
	r.cols = make([]column, len(r.names))
	for i, name := range r.names {
		c, ok := columns[name]
		c.name = name
		switch {
		case strings.EqualFold(name, "date"):
			c.use = useDate
		case strings.EqualFold(name, "time"):
			c.use = useTime
		case name == "gpu":
			c.use = useGPU
		case name == "pid":
			c.use = usePID
		case name == "type":
			c.use = useType
		case name == "command":
			c.use = useCommand
		case !ok:
			c.metric = timeline.Metric{Name: "pmon_" + clean(name), Unit: unit.Count, Covers: timeline.WindowBefore, Window: time.Second}
			c.scale, c.hi = 1, 1e15
			r.in.Report("pmon/unknown-column", timeline.Info, row, "column %s is kept as %s", name[:min(len(name), 40)], c.metric.Name)
		}
		r.cols[i] = c
	}
}

func clean(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToLower(name[:min(len(name), 40)]))
}

// fields of a row that are no numbers.
type ident struct {
	index         int
	pid           int64 // 0: no process
	kind, command string
	date, tod     string
}

func (r *reader) row(cells []string, l *ingest.Lines) {
	row := l.Row
	id := ident{index: -1, pid: -1}
	for i := range r.cols {
		switch c := cells[i]; r.cols[i].use {
		case useDate:
			id.date = c
		case useTime:
			id.tod = c
		case useGPU:
			if n, err := strconv.Atoi(c); err == nil && n >= 0 && n < 4096 {
				id.index = n
			}
		case usePID:
			if missing(c) {
				id.pid = 0
			} else if n, err := strconv.ParseInt(c, 10, 64); err == nil && n > 0 {
				id.pid = n
			}
		case useType:
			if !missing(c) {
				id.kind = c
			}
		case useCommand:
			if !missing(c) {
				id.command = c[strings.LastIndexAny(c, `/\`)+1:]
			}
		}
	}
	if id.index < 0 || id.pid < 0 {
		r.stray(strings.TrimSpace(string(l.Text)), row)
		return
	}
	k := gpuKey{l.Label, id.index}
	g := r.gpuOf(k, row)
	if g == nil {
		return
	}
	stamp, kind, ok := r.stamp(id, l, row)
	if !ok {
		return
	}
	r.timed |= kind
	at := stamp
	if r.newCycle(g, id.pid, stamp, kind) {
		r.endCycle(g)
		if kind == timesNone {
			if g.cycle >= r.cycle {
				r.cycle++
			}
			g.cycle = r.cycle
			at = timeline.Time(r.cycle) * r.period
		}
		g.at, g.row, g.n, g.begun = at, row, 0, true
	}
	at = g.at
	g.last, g.blank = id.pid, id.pid == 0
	r.rows++
	if id.pid == 0 {
		return
	}
	if ingest.ComputeOnly(id.kind) {
		g.n++
	}
	p := r.processOf(g, id, row)
	if p == nil {
		return
	}
	for i := range r.cols {
		c := &r.cols[i]
		if c.use != useNumber || missing(cells[i]) {
			continue
		}
		v, err := strconv.ParseFloat(cells[i], 64)
		if err != nil || !(v >= 0 && v <= c.hi) {
			r.in.Report("pmon/bad-number", timeline.DataLoss, row, "GPU %d, pid %d, column %s: %q cannot be: reading dropped", id.index, id.pid, c.name, cells[i][:min(len(cells[i]), 40)])
			continue
		}
		if p.series[i] < 0 {
			p.series[i] = r.b.SeriesOf(c.metric, p.track)
		}
		r.b.Reading(p.series[i], at, v*c.scale, uint32(row))
	}
}

func missing(cell string) bool {
	switch cell {
	case "", "-", "–", "—", "N/A", "[N/A]", "n/a":
		return true
	}
	return false
}

// newCycle tells that the row begins another cycle of its GPU: its stamp is another one, or its pid does not rise. A stamp one second
// later under a rising pid is the same cycle, printed across the second's edge.
func (r *reader) newCycle(g *gpu, pid int64, stamp timeline.Time, kind uint8) bool {
	if !g.begun || g.blank || pid <= g.last {
		return true
	}
	return kind != timesNone && (stamp < g.at || stamp > g.at+1e9)
}

// endCycle counts the processes of the cycle.
func (r *reader) endCycle(g *gpu) {
	if !g.begun {
		return
	}
	if g.count < 0 {
		g.count = r.b.SeriesOf(timeline.GPUProcesses, g.track)
	}
	r.b.Reading(g.count, g.at, float64(g.n), uint32(g.row))
	g.begun = false
}

// stamp gives the row's instant on the log's clock, and what kind of time it has.
func (r *reader) stamp(id ident, l *ingest.Lines, row uint64) (timeline.Time, uint8, bool) {
	h := r.hosts[l.Label]
	if h == nil {
		h = &host{}
		r.hosts[l.Label] = h
	}
	switch {
	case id.tod != "":
		tod, err := time.Parse("15:04:05", id.tod)
		if err != nil {
			r.in.Report("pmon/bad-time", timeline.DataLoss, row, "time %q is not HH:MM:SS: row dropped", id.tod[:min(len(id.tod), 40)])
			return 0, 0, false
		}
		at := timeline.Time(tod.Hour()*3600+tod.Minute()*60+tod.Second()) * 1e9
		if id.date == "" {
			if at < h.lastTod-12*3600e9 {
				h.day += 24 * 3600e9
			}
			h.lastTod = at
			return r.step(h, h.day+at, timesTod, row)
		}
		day, err := time.Parse("20060102", strings.NewReplacer("-", "", "/", "").Replace(id.date))
		if err != nil || day.Year() < 1990 || day.Year() > 2200 {
			r.in.Report("pmon/bad-time", timeline.DataLoss, row, "date %q is not YYYYMMDD: row dropped", id.date[:min(len(id.date), 40)])
			return 0, 0, false
		}
		return r.step(h, timeline.Time(day.UnixNano())+at, timesFull, row)
	case !l.Stamp.IsZero():
		return r.step(h, timeline.Time(l.Stamp.UnixNano()), timesStamp, row)
	}
	return 0, timesNone, true
}

func (r *reader) step(h *host, stamp timeline.Time, kind uint8, row uint64) (timeline.Time, uint8, bool) {
	before, _ := h.Last()
	at, step := h.At(stamp)
	if step == ingest.StepNone {
		return at, kind, true
	}
	return at, kind, ingest.ReportStep(r.in, r.b, "pmon", step, before, at, row)
}

func (r *reader) gpuOf(k gpuKey, row uint64) *gpu {
	if g, ok := r.gpus[k]; ok {
		return g
	}
	if len(r.order) >= ingest.MaxGPUs {
		r.in.Report("pmon/many-gpus", timeline.DataLoss, row, "GPU %d is one more than the %d that one log may have: its rows are dropped", k.index, ingest.MaxGPUs)
		return nil
	}
	name := "GPU " + strconv.Itoa(k.index)
	if k.label != "" {
		name = k.label + ": " + name
	}
	g := &gpu{dev: timeline.DeviceID(len(r.b.TL.Devices)), procs: map[int64]*process{}, count: -1, cycle: -1, last: -1}
	g.track = r.b.GPUTrack(timeline.Device{Index: k.index, Ordinal: -1, Source: r.in.Source, Proc: -1, Vendor: "nvidia"}, name)
	r.gpus[k] = g
	r.order = append(r.order, g)
	return g
}

// maxProcesses bounds the processes of one log.
const maxProcesses = 8192

func (r *reader) processOf(g *gpu, id ident, row uint64) *process {
	p := g.procs[id.pid]
	if p == nil {
		if r.nProcs >= maxProcesses {
			r.in.Report("pmon/many-processes", timeline.DataLoss, row, "more than %d processes: the others are left out", maxProcesses)
			return nil
		}
		r.nProcs++
		p = &process{track: r.b.Track(timeline.Track{Source: r.in.Source, Kind: timeline.TrackProcess, Proc: -1, Device: g.dev, Thread: id.pid, Name: id.command})}
		g.procs[id.pid] = p
		if id.kind != "" {
			at := g.at
			if r.timed == timesNone {
				at = 0
			}
			r.b.AddAttr(p.track, timeline.AttrProcType, id.kind[:min(len(id.kind), 8)], at, uint32(row))
		}
	}
	if p.header != r.header {
		p.header, p.series = r.header, make([]int, len(r.cols))
		for i := range p.series {
			p.series[i] = -1
		}
	}
	return p
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.in.Source]
	src.Rows = r.rows
	src.Covers = timeline.WindowBefore.String()
	if r.cols == nil {
		return fmt.Errorf("no header line with gpu, pid and type: record again without --format noheader")
	}
	if r.rows == 0 {
		return fmt.Errorf("a header and no row that can be read: record again, and let it run")
	}
	c := timeline.Clock{Name: src.Path, Step: time.Second}
	switch r.timed {
	case timesFull:
		c.Wall, c.Error = true, 2*time.Second
		c.Why = "wall clock in whole seconds, zone not stated; a row looks back over the time since the last one"
	case timesTod:
		c.Wall, c.Error = true, 2*time.Second
		c.Why = ingest.DateUnknown + ": pmon ran with -o T; wall clock in whole seconds, zone not stated"
	case timesStamp:
		c.Wall, c.Zoned, c.How, c.Step, c.Error = true, true, timeline.Recorded, time.Millisecond, 2*time.Second
		c.Why = "pmon ran without -o; the log collector's stamps, which state their zone, are the times"
	case timesNone:
		c.Step = 0
		c.Why = "pmon ran without -o DT: its rows have an order and no time; shown on an axis of its own"
		r.in.Report("pmon/no-time", timeline.DataLoss, 1, "the log has no times: it can be put beside nothing else; record with -o DT")
	default:
		c.Wall = true
		c.Why = "only some rows have times: runs with different -o were appended; not placed"
		r.in.Report("pmon/mixed-times", timeline.DataLoss, 1, "only some rows have times, or dates: runs with different -o were appended; record each to a file of its own")
	}
	r.b.AddClock(r.in.Source, c)
	return nil
}
