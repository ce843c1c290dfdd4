// Package smiapps reads the CSV of the sister queries of nvidia-smi: --query-compute-apps (one row a process), --query-accounted-apps
// (one row a process that has ended) and --query-retired-pages (one row a page). --query-remapped-rows is smiquery's.
//
// Versions seen: R418 to R595, Linux and Windows. It is recognised by a header of its field names.
//
// Clock: timestamp is the local wall clock in milliseconds, without a zone. Without that field there is no time: At is the number of the
// cycle times --set period (1 s if that is not said); a cycle ends when a process comes again.
//
// A GPU is told by its UUID or bus id. Processes of a GPU are counted where the query lists those that run: it lists only such as
// compute, but on Windows also those of the desktop, whose memory is not known: these are not counted. A header alone says that no
// process runs, or that a container hides them: nothing is said of any GPU.
package smiapps

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

// Format reads the sister queries.
var Format = ingest.Format{
	Name:      "smi-apps",
	Doc:       "nvidia-smi --query-compute-apps and its sisters: processes and retired pages of each GPU",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"hw"},
}

func recognise(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		s := string(bytes.TrimSpace(line))
		if s == "" {
			continue
		}
		if isHeader(s) {
			return true
		}
		if n++; n == 3 {
			return false
		}
	}
	return false
}

// splitHeader cuts a header cell into its field and unit.
func splitHeader(cell string) (field, u string) {
	cell = strings.TrimSpace(cell)
	if i := strings.IndexByte(cell, '['); i > 0 && strings.HasSuffix(cell, "]") {
		cell, u = strings.TrimSpace(cell[:i]), cell[i+1:len(cell)-1]
	}
	return strings.ToLower(cell), u
}

var identity = []string{"timestamp", "gpu_name", "name", "gpu_bus_id", "gpu_serial", "serial", "gpu_uuid", "uuid", "pci.bus_id", "index", "count", "driver_version", "vgpu_instance"}

// isHeader tells a line of field names that are not those of --query-gpu.
func isHeader(line string) bool {
	known, own, strong := 0, false, false
	for c := range strings.SplitSeq(line, ",") {
		f, _ := splitHeader(c)
		strong = strong || strings.HasPrefix(f, "gpu_") || strings.Contains(f, "gpu_memory") || f == "process_name" || strings.HasPrefix(f, "retired_pages.")
		switch {
		case slices.Contains(identity, f):
			known++
		case f == "pid", f == "process_name", f == "used_gpu_memory", f == "used_memory", f == "gpu_utilization", f == "mem_utilization", f == "max_memory_usage", f == "time",
			strings.HasPrefix(f, "retired_pages.address"), f == "retired_pages.cause", f == "retired_pages.timestamp":
			known++
			own = own || f != "time"
		default:
			return false
		}
	}
	return own && strong && known > 1
}

type use uint8

const (
	useNothing use = iota
	useTime
	useName
	useBus
	useUUID
	useIndex
	usePID
	useProgram
	useMemory // of a process that runs
	useEnded  // of one that has ended
	usePage
	useCause
)

type column struct {
	field, unit string
	use         use
	metric      timeline.Metric
}

type gpu struct {
	track  timeline.TrackID
	dev    timeline.DeviceID
	series map[string]int
	procs  map[int64]*process
	seen   map[int64]bool // pids of this cycle
	at     timeline.Time
	row    uint64
	n      int
	known  bool       // a row of this cycle stated a memory
	cycle  int        // of all GPUs
	pages  [2]float64 // single and double bit
	paged  bool
}

type process struct {
	track timeline.TrackID
	mem   int
	attrs map[string]bool
}

type reader struct {
	in      *ingest.Input
	b       *timeline.Builder
	period  timeline.Time
	header  string
	sep     string
	cols    []column
	program int // column of free text, -1 none
	running bool
	hosts   map[string]*ingest.WallClock
	gpus    map[string]*gpu
	order   []*gpu
	cycle   int
	rows    int64
	timed   bool
	untimed bool
	nProcs  int
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
	r := &reader{in: in, b: b, period: period, hosts: map[string]*ingest.WallClock{}, gpus: map[string]*gpu{}}
	l := ingest.NewLines(f)
	if err := l.Each(ctx, in, "smi-apps", r.line); err != nil {
		return err
	}
	for _, g := range r.order {
		if l.Ended { // else the last cycle may lack processes
			r.endCycle(g)
		}
		if g.paged {
			r.reading(g, timeline.RetiredSingle, g.at, g.pages[0], g.row)
			r.reading(g, timeline.RetiredDouble, g.at, g.pages[1], g.row)
		}
	}
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	text, row := strings.TrimSpace(string(l.Text)), l.Row
	switch {
	case text == "" || text == r.header:
		return
	case l.Long:
		r.in.Report("smi-apps/long-line", timeline.DataLoss, row, "a line of more than 1 MiB: skipped")
		return
	case isHeader(text):
		r.setHeader(text)
		return
	case r.cols == nil:
		r.in.Report("smi-apps/stray-line", timeline.Info, row, "not a row of the table: %q", text[:min(len(text), 120)])
		return
	case !l.Ended:
		r.in.Report("smi-apps/unterminated-row", timeline.DataLoss, row, "the file ends without a line feed: the last row may be cut and is left out")
		return
	}
	cells := strings.Split(text, r.sep)
	if n := len(r.cols); len(cells) > n && r.program >= 0 { // a comma in the name of a program
		extra := len(cells) - n
		joined := strings.Join(cells[r.program:r.program+extra+1], r.sep)
		cells = slices.Concat(cells[:r.program], []string{joined}, cells[r.program+extra+1:])
	}
	if len(cells) != len(r.cols) {
		r.in.Report("smi-apps/short-row", timeline.DataLoss, row, "row has %d fields, header has %d: row dropped", len(cells), len(r.cols))
		return
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	r.row(cells, l)
}

func (r *reader) setHeader(line string) {
	r.header, r.sep = line, ","
	if strings.Contains(line, ", ") {
		r.sep = ", "
	}
	cells := strings.Split(line, r.sep)
	r.cols = make([]column, len(cells))
	r.program, r.running = -1, false
	for i, cell := range cells {
		c := &r.cols[i]
		c.field, c.unit = splitHeader(cell)
		switch f := c.field; {
		case f == "timestamp":
			c.use = useTime
		case f == "gpu_name" || f == "name":
			c.use = useName
		case f == "gpu_bus_id" || f == "pci.bus_id":
			c.use = useBus
		case f == "gpu_uuid" || f == "uuid":
			c.use = useUUID
		case f == "index":
			c.use = useIndex
		case f == "pid":
			c.use = usePID
		case f == "process_name":
			c.use, r.program = useProgram, i
		case f == "used_gpu_memory" || f == "used_memory":
			c.use, r.running = useMemory, true
			c.metric = timeline.ProcGPUMem
		case f == "gpu_utilization" || f == "mem_utilization" || f == "max_memory_usage" || f == "time":
			c.use = useEnded
		case strings.HasPrefix(f, "retired_pages.address"):
			c.use = usePage
		case f == "retired_pages.cause":
			c.use = useCause
		}
	}
}

func (r *reader) row(cells []string, l *ingest.Lines) {
	row := l.Row
	var uuid, bus, name, index, program string
	pid, stamp, stamped := int64(0), timeline.Time(0), false
	for i := range r.cols {
		c := cells[i]
		if ingest.CellOf(c) != ingest.CellValue {
			continue
		}
		switch r.cols[i].use {
		case useTime:
			if stamp, stamped = ingest.ParseQueryStamp(c); !stamped {
				r.in.Report("smi-apps/bad-time", timeline.DataLoss, row, "timestamp %q is not YYYY/MM/DD HH:MM:SS.mmm: row dropped", c[:min(len(c), 40)])
				return
			}
		case useName:
			name = c
		case useBus:
			bus = ingest.BusID(c)
		case useUUID:
			uuid = ingest.KnownUUID(c)
		case useIndex:
			index = c
		case usePID:
			pid, _ = strconv.ParseInt(c, 10, 64)
		case useProgram:
			program = ingest.Program(c)
		}
	}
	if stamped {
		r.timed = true
		w := r.hosts[l.Label]
		if w == nil {
			w = &ingest.WallClock{}
			r.hosts[l.Label] = w
		}
		before, _ := w.Last()
		at, step := w.At(stamp)
		if step != ingest.StepNone && !ingest.ReportStep(r.in, r.b, "smi-apps", step, before, at, row) {
			return
		}
		stamp = at
	} else {
		r.untimed = true
	}
	g := r.gpuOf(l.Label, uuid, bus, name, index, row)
	if g == nil {
		return
	}
	r.rows++
	r.cycleOf(g, pid, stamp, stamped, row)
	r.values(g, cells)
	if pid > 0 {
		r.process(g, pid, program, cells, row)
	}
}

// cycleOf starts another cycle of the GPU when the stamp moves on by more than the rows of one cycle lie apart, or a process comes again.
func (r *reader) cycleOf(g *gpu, pid int64, stamp timeline.Time, stamped bool, row uint64) {
	if g.seen != nil && (pid == 0 || !g.seen[pid]) && (!stamped || stamp >= g.at && stamp-g.at < 50e6) {
		g.seen[pid] = true
		return
	}
	r.endCycle(g)
	if !stamped {
		if g.cycle >= r.cycle {
			r.cycle++
		}
		g.cycle = r.cycle
		stamp = timeline.Time(r.cycle-1) * r.period
	}
	g.at, g.row, g.n, g.known, g.seen = stamp, row, 0, false, map[int64]bool{pid: true}
}

// endCycle counts the processes of the cycle.
func (r *reader) endCycle(g *gpu) {
	if g.seen != nil && r.running && g.known {
		r.reading(g, timeline.GPUProcesses, g.at, float64(g.n), g.row)
	}
	g.seen = nil
}

func (r *reader) process(g *gpu, pid int64, program string, cells []string, row uint64) {
	p := g.procs[pid]
	if p == nil {
		if r.nProcs >= maxProcesses {
			r.in.Report("smi-apps/many-processes", timeline.DataLoss, row, "more than %d processes: the others are left out", maxProcesses)
			return
		}
		r.nProcs++
		p = &process{mem: -1, attrs: map[string]bool{}}
		p.track = r.b.Track(timeline.Track{Source: r.in.Source, Kind: timeline.TrackProcess, Proc: -1, Device: g.dev, Thread: pid, Name: program})
		g.procs[pid] = p
	}
	for i := range r.cols {
		c := &r.cols[i]
		if c.use != useMemory && c.use != useEnded || ingest.CellOf(cells[i]) != ingest.CellValue {
			continue
		}
		v, u, why := quantity(cells[i], c.unit)
		switch {
		case why != "":
			r.in.Report("smi-apps/bad-value", timeline.DataLoss, row, "field %s: %q %s: left out", c.field, cells[i][:min(len(cells[i]), 40)], why)
		case c.use == useEnded:
			if name := "ended_" + c.field + "_" + string(u); !p.attrs[name] {
				p.attrs[name] = true
				r.b.AddNumber(p.track, name, v, u, r.attrAt(g), uint32(row))
			}
		case u != unit.Byte:
			r.in.Report("smi-apps/bad-value", timeline.DataLoss, row, "field %s: %q has a unit that does not fit: left out", c.field, cells[i][:min(len(cells[i]), 40)])
		default:
			if p.mem < 0 {
				p.mem = r.b.SeriesOf(c.metric, p.track)
			}
			r.b.Reading(p.mem, g.at, v, uint32(row))
			g.known = true
			g.n++
		}
	}
}

// maxProcesses bounds the processes of one file.
const maxProcesses = 8192

// values takes what a row says of the GPU itself.
func (r *reader) values(g *gpu, cells []string) {
	page, cause := false, ""
	for i := range r.cols {
		c, cell := &r.cols[i], cells[i]
		if ingest.CellOf(cell) != ingest.CellValue {
			continue
		}
		switch c.use {
		case usePage:
			page = true
		case useCause:
			cause = strings.ToLower(cell)
		}
	}
	if page {
		g.paged = true
		if strings.Contains(cause, "double") {
			g.pages[1]++
		} else {
			g.pages[0]++
		}
	}
}

// quantity parses "2566 MiB", "2566" under a header with a unit, "99 %", "1234 ms".
func quantity(s, headerUnit string) (float64, unit.Unit, string) {
	num, suffix, _ := strings.Cut(s, " ")
	if suffix == "" {
		suffix = headerUnit
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || v < 0 || v > 1e15 {
		return 0, "", "is no number"
	}
	if suffix == "" {
		return v, unit.Count, ""
	}
	u, ok := ingest.UnitOf(suffix)
	if !ok {
		return 0, "", "has a unit that is not known"
	}
	v, base, _ := unit.ToBase(v, u)
	return v, base, ""
}

func (r *reader) reading(g *gpu, m timeline.Metric, at timeline.Time, v float64, row uint64) {
	s, ok := g.series[m.Name]
	if !ok {
		s = r.b.SeriesOf(m, g.track)
		g.series[m.Name] = s
	}
	r.b.Reading(s, at, v, uint32(row))
}

func (r *reader) attrAt(g *gpu) timeline.Time {
	if r.timed {
		return g.at
	}
	return 0
}

func (r *reader) gpuOf(label, uuid, bus, name, index string, row uint64) *gpu {
	key := uuid
	if key == "" {
		key = bus
	}
	if key == "" {
		key = "index " + index
	}
	key = label + "\x00" + key
	if g := r.gpus[key]; g != nil {
		return g
	}
	if len(r.order) >= ingest.MaxGPUs {
		r.in.Report("smi-apps/many-gpus", timeline.DataLoss, row, "a GPU more than the %d that one file may have: its rows are dropped", ingest.MaxGPUs)
		return nil
	}
	d := timeline.Device{Index: -1, Ordinal: -1, Source: r.in.Source, Proc: -1, Vendor: "nvidia", Name: name, UUID: uuid, Bus: bus}
	if n, err := strconv.Atoi(index); err == nil && n >= 0 && n < 4096 {
		d.Index = n
	}
	shown := "GPU"
	switch {
	case d.Index >= 0:
		shown = "GPU " + index
	case uuid != "":
		shown = uuid
	case bus != "":
		shown = "GPU " + bus
	}
	if label != "" {
		shown = label + ": " + shown
	}
	g := &gpu{dev: timeline.DeviceID(len(r.b.TL.Devices)), series: map[string]int{}, procs: map[int64]*process{}}
	g.track = r.b.GPUTrack(d, shown)
	r.gpus[key] = g
	r.order = append(r.order, g)
	return g
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.in.Source]
	src.Rows = r.rows
	src.Covers = timeline.Instant.String()
	if r.cols == nil {
		return fmt.Errorf("no header line of query fields: record again without noheader")
	}
	c := timeline.Clock{Name: src.Path}
	switch {
	case r.timed:
		c.Wall, c.Step, c.Error = true, time.Millisecond, time.Second
		c.Why = "wall clock in milliseconds, zone not stated"
		if r.untimed {
			r.in.Report("smi-apps/mixed-times", timeline.DataLoss, 1, "only some rows have a timestamp: runs with different fields were appended; record each to a file of its own")
		}
	case r.rows == 0:
		c.Why = "no rows: no process ran on any GPU that the tool sees"
	default:
		c.Why = "timestamp was not queried: rows have an order and no time"
		r.in.Report("smi-apps/no-time", timeline.Info, 1, "the log has no times: it can be put beside nothing else; add timestamp to the fields")
	}
	r.b.AddClock(r.in.Source, c)
	return nil
}
