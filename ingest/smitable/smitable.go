// Package smitable reads the table that `nvidia-smi` prints when it is asked for nothing: one a call, several in one file with -l or in
// a loop.
//
// Versions seen: R384 to R595, Linux and Windows, with MIG devices. It is recognised by a frame and the line | NVIDIA-SMI below it.
//
// Clock: the line above each table is the local wall clock in whole seconds, without a zone. Without it there is no time: At is the
// number of the table times --set period (1 s if that is not said).
//
// Values: temperature, P-state, power and its limit, memory, utilisation, uncorrected ECC errors since the driver was loaded, fan; the
// processes with their memory. Names of products are cut with ...: such a name is kept as an attribute, for it may be of several
// products. Names of programs are cut in front; what is left of the folder goes.
//
// What it cannot tell: clocks, why they fell, links. N/A is missing; ERR! is a failed reading. With MIG on, utilisation is N/A.
package smitable

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads the table of nvidia-smi.
var Format = ingest.Format{
	Name:      "smi-table",
	Doc:       "the table that nvidia-smi prints: utilisation, power, memory, processes of each GPU, once a call",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"step", "idle", "hw"},
}

func recognise(h ingest.Head) bool {
	n, frame := 0, false
	for line := range bytes.Lines(h.Text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if n++; n > 6 {
			return false
		}
		frame = frame || bytes.HasPrefix(line, []byte("+--"))
		if frame && bytes.HasPrefix(line, []byte("| NVIDIA-SMI")) {
			return true
		}
	}
	return false
}

var (
	versions  = regexp.MustCompile(`^\| NVIDIA-SMI \S+ +Driver Version: (\S+)(?: +CUDA Version: (\S+))?`)
	nameLine  = regexp.MustCompile(`^\| +(\d{1,4}) +(.*?) +(On|Off|N/A|ERR!|WDDM|TCC|MCDM) *\| *([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]) +(\S+) *\| *(\S+) *\|$`)
	valueLine = regexp.MustCompile(`^\| *(\S+) +(\S+) +(\S+) +(\S+) */ *(\S+) *\| *(\S+) */ *(\S+) *\| *(\S+) +(\S.*?) *\|$`)
	modeLine  = regexp.MustCompile(`^\| +\| +\| *(\S+) *\|$`)
	migLine   = regexp.MustCompile(`^\| +(\d{1,4}) +\d+ +\d+ +\d+ +\|`)
	procLine  = regexp.MustCompile(`^\| +(\d{1,4})(?: +(?:\d+|N/A) +(?:\d+|N/A))? +(\d+) +(C|G|C\+G|M|M\+C) +(.*?) +(\d+MiB|N/A) *\|$`)
	numUnit   = regexp.MustCompile(`^(-?\d+(?:\.\d+)?)([A-Za-z%]*)$`)
)

type section uint8

const (
	inNothing section = iota
	inGPUs
	inMIG
	inProcesses
)

type gpu struct {
	track  timeline.TrackID
	dev    timeline.DeviceID
	shown  string
	series map[string]int
	attrs  map[string]string
	procs  map[int64]*process
	util   bool
	hidden bool
	held   bool // in this table: somebody holds memory
}

type process struct {
	track timeline.TrackID
	mem   int
}

type gpuKey struct {
	label string
	index int
	bus   string
}

// host is one machine; most files hold one.
type host struct {
	label string
	wall  ingest.WallClock
	track timeline.TrackID
	attrs map[string]string

	section section
	at      timeline.Time
	stamped bool // the line above gave the table its time
	dropped bool
	open    bool // in a table
	shown   map[int]*gpu
	order   []int
	cur     *gpu
	mig     map[int]int
	procs   map[int]int
	row     uint64 // of the processes' heading
}

type reader struct {
	in      *ingest.Input
	b       *timeline.Builder
	period  timeline.Time
	hosts   map[string]*host
	order   []*host
	gpus    map[gpuKey]*gpu
	all     []*gpu
	tables  int
	rows    int64
	timed   bool
	untimed bool
	util    bool
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
	r := &reader{in: in, b: b, period: period, hosts: map[string]*host{}, gpus: map[gpuKey]*gpu{}}
	if err := ingest.NewLines(f).Each(ctx, in, "smi-table", r.line); err != nil {
		return err
	}
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	text, row := strings.TrimSpace(string(l.Text)), l.Row
	switch {
	case text == "":
		return
	case l.Long:
		r.in.Report("smi-table/long-line", timeline.DataLoss, row, "a line of more than 1 MiB: skipped")
		return
	}
	if !l.Ended && (text[0] == '|' || text[0] == '+') && !strings.HasSuffix(text, "|") && !strings.HasSuffix(text, "+") {
		r.in.Report("smi-table/unterminated-row", timeline.Info, row, "the file ends inside this row: it is left out")
		return
	}
	h := r.hosts[l.Label]
	if h == nil {
		h = &host{label: l.Label, track: -1, attrs: map[string]string{}}
		r.hosts[l.Label] = h
		r.order = append(r.order, h)
	}
	if stamp, ok := ingest.ParseCTime(text); ok {
		r.stamp(h, stamp, row)
		return
	}
	if text[0] != '|' && text[0] != '+' {
		if lost := strings.Contains(text, "is lost") || strings.Contains(text, "fallen off"); lost {
			t := r.b.Track(timeline.Track{Source: r.in.Source, Proc: -1, Device: -1, Thread: -1, Name: "messages"})
			at, _ := h.wall.Last()
			r.b.AddMark(timeline.MarkGPULost, t, at, text[:min(len(text), 200)], uint32(row))
		}
		r.in.Report("smi-table/stray-line", timeline.Info, row, "not a line of the table: %q", text[:min(len(text), 120)])
		return
	}
	if m := versions.FindStringSubmatch(text); m != nil {
		r.begin(h, row)
		r.hostAttr(h, timeline.AttrDriver, m[1], row)
		r.hostAttr(h, timeline.AttrCUDA, m[2], row)
		return
	}
	if !h.open {
		return // a frame
	}
	r.tableLine(h, text, row)
}

// stamp takes the line above a table. It counts for the next table only.
func (r *reader) stamp(h *host, stamp timeline.Time, row uint64) {
	h.open, h.section = false, inNothing
	before, _ := h.wall.Last()
	at, step := h.wall.At(stamp)
	h.at, h.stamped, h.dropped = at, true, false
	if step != ingest.StepNone {
		h.dropped = !ingest.ReportStep(r.in, r.b, "smi-table", step, before, at, row)
	}
}

func (r *reader) begin(h *host, _ uint64) {
	if !h.stamped {
		h.at, h.dropped = timeline.Time(r.tables)*r.period, false
		r.untimed = true
	} else {
		r.timed = true
	}
	h.stamped = false
	h.open, h.section, h.cur = true, inGPUs, nil
	h.shown, h.order, h.mig, h.procs = map[int]*gpu{}, nil, map[int]int{}, map[int]int{}
	r.tables++
}

func (r *reader) tableLine(h *host, text string, row uint64) {
	switch {
	case strings.HasPrefix(text, "| MIG devices"):
		h.section = inMIG
		return
	case strings.HasPrefix(text, "| Processes"):
		r.endMIG(h, row)
		h.section, h.row = inProcesses, row
		return
	case text[0] == '+':
		if h.section == inProcesses && strings.HasSuffix(text, "+") { // the frame below the list
			r.endProcesses(h)
		}
		return
	}
	switch h.section {
	case inGPUs:
		r.gpuLine(h, text, row)
	case inMIG:
		if m := migLine.FindStringSubmatch(text); m != nil {
			index, _ := strconv.Atoi(m[1])
			h.mig[index]++
		}
	case inProcesses:
		r.processLine(h, text, row)
	}
}

func (r *reader) gpuLine(h *host, text string, row uint64) {
	if m := nameLine.FindStringSubmatch(text); m != nil {
		index, _ := strconv.Atoi(m[1])
		g := r.gpuOf(h, index, m[2], m[4], row)
		if h.cur = g; g == nil {
			return
		}
		g.held = false
		if h.shown[index] == nil {
			h.shown[index] = g
			h.order = append(h.order, index)
		}
		r.rows++
		switch m[3] {
		case "On":
			r.word(h, g, timeline.AttrPersistence, "enabled", row)
		case "Off":
			r.word(h, g, timeline.AttrPersistence, "disabled", row)
		case "WDDM", "TCC", "MCDM":
			r.word(h, g, timeline.AttrDriverModel, m[3], row)
		}
		if n, err := strconv.ParseFloat(m[6], 64); err == nil && n >= 0 && n < 1e18 {
			r.reading(h, g, timeline.ECCVolUnc, n, row)
			r.word(h, g, timeline.AttrECC, "enabled", row)
		} else if m[6] == "Off" {
			r.word(h, g, timeline.AttrECC, "disabled", row)
		}
		return
	}
	g := h.cur
	if g == nil {
		return
	}
	if m := valueLine.FindStringSubmatch(text); m != nil {
		r.values(h, g, m[1:], row)
		return
	}
	if m := modeLine.FindStringSubmatch(text); m != nil {
		if m[1] == "Enabled" || m[1] == "Disabled" {
			r.word(h, g, timeline.AttrMIG, strings.ToLower(m[1]), row)
		}
		h.cur = nil
		return
	}
	if !strings.HasPrefix(text, "|=") && !strings.HasPrefix(text, "|-") {
		r.in.Report("smi-table/bad-row", timeline.DataLoss, row, "%s: a row that is not understood: %q", g.shown, text[:min(len(text), 120)])
	}
}

// quantities are the cells of the second line of a GPU, in their order.
var quantities = []struct {
	metric timeline.Metric
	what   string
	lo, hi float64 // in the base unit
}{
	{timeline.Fan, "fan", 0, 2}, {timeline.TempGPU, "temperature", -50, 200}, {timeline.PState, "P-state", 0, 32}, {timeline.Power, "power", 0, 20000},
	{timeline.PowerLimit, "power cap", 0, 20000}, {timeline.MemUsed, "used memory", 0, 1e18}, {timeline.MemTotal, "memory", 0, 1e18}, {timeline.SMBusy, "utilisation", 0, 1},
}

func (r *reader) values(h *host, g *gpu, cells []string, row uint64) {
	failed := ""
	for i, q := range quantities {
		c := cells[i]
		switch ingest.CellOf(c) {
		case ingest.CellAbsent:
			g.hidden = g.hidden || q.metric.Name == timeline.SMBusy.Name
			continue
		case ingest.CellFailed:
			if failed == "" {
				failed = q.what + ": " + c
			}
			continue
		}
		if q.metric.Name == timeline.PState.Name {
			c = strings.TrimPrefix(c, "P")
		}
		v, why := quantity(c, q.metric.Unit)
		if why == "" && !(v >= q.lo && v <= q.hi) {
			why = "cannot be"
		}
		if why != "" {
			r.in.Report("smi-table/bad-value", timeline.DataLoss, row, "%s: %s %q %s: left out", g.shown, q.what, c[:min(len(c), 40)], why)
			continue
		}
		r.reading(h, g, q.metric, v, row)
		switch q.metric.Name {
		case timeline.SMBusy.Name:
			g.util, r.util = true, true
		case timeline.MemUsed.Name:
			g.held = v > ingest.HeldMemory
		case timeline.MemTotal.Name:
			r.b.TL.Devices[g.dev].Memory = int64(v)
		case timeline.PowerLimit.Name:
			r.number(h, g, timeline.AttrPowerLimit, v, unit.Watt, row)
		}
	}
	if mode := cells[8]; ingest.CellOf(mode) == ingest.CellValue {
		r.word(h, g, timeline.AttrComputeMode, strings.ToLower(mode[:min(len(mode), 40)]), row)
	}
	if failed != "" {
		r.in.Report("smi-table/failed-reading", timeline.DataLoss, row, "%s: %s", g.shown, failed)
		r.b.AddMark(timeline.MarkReadFailed, g.track, h.at, failed, uint32(row))
	}
}

// quantity parses 71W, 29C, 5729MiB, 3%, 8.
func quantity(s string, base unit.Unit) (float64, string) {
	m := numUnit.FindStringSubmatch(s)
	if m == nil {
		return 0, "is no number"
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, "is no number"
	}
	u := unit.Count
	if m[2] != "" {
		var ok bool
		if u, ok = ingest.UnitOf(m[2]); !ok {
			return 0, "has a unit that is not known"
		}
	}
	v, got, _ := unit.ToBase(v, u)
	if got != base {
		return 0, "has a unit that does not fit"
	}
	return v, ""
}

func (r *reader) processLine(h *host, text string, row uint64) {
	if strings.Contains(text, "No running processes found") {
		r.endProcesses(h)
		h.section = inNothing
		return
	}
	m := procLine.FindStringSubmatch(text)
	if m == nil {
		return // headings
	}
	index, _ := strconv.Atoi(m[1])
	pid, _ := strconv.ParseInt(m[2], 10, 64)
	g := h.shown[index]
	if g == nil || pid <= 0 {
		return
	}
	if n := h.procs[index]; ingest.ComputeOnly(m[3]) {
		h.procs[index] = n + 1
	} else {
		h.procs[index] = n
	}
	p := g.procs[pid]
	if p == nil {
		if r.nProcs >= maxProcesses {
			r.in.Report("smi-table/many-processes", timeline.DataLoss, row, "more than %d processes: the others are left out", maxProcesses)
			return
		}
		r.nProcs++
		p = &process{mem: -1}
		p.track = r.b.Track(timeline.Track{Source: r.in.Source, Kind: timeline.TrackProcess, Proc: -1, Device: g.dev, Thread: pid, Name: ingest.Program(m[4])})
		g.procs[pid] = p
		r.b.AddAttr(p.track, timeline.AttrProcType, m[3], r.attrAt(h), uint32(row))
	}
	if v, why := quantity(m[5], unit.Byte); why == "" && !h.dropped {
		if p.mem < 0 {
			p.mem = r.b.SeriesOf(timeline.ProcGPUMem, p.track)
		}
		r.b.Reading(p.mem, h.at, v, uint32(row))
	}
}

// maxProcesses bounds the processes of one file.
const maxProcesses = 8192

// endProcesses counts the list when its frame is closed.
func (r *reader) endProcesses(h *host) {
	for _, index := range h.order {
		g := h.shown[index]
		if _, ok := h.procs[index]; !ok && g.held {
			r.in.Report("smi-table/hidden-processes", timeline.Info, h.row, "%s has memory in use and no process is listed: a container hides them", g.shown)
			continue
		}
		r.reading(h, g, timeline.GPUProcesses, float64(h.procs[index]), h.row)
	}
	h.section = inNothing
}

func (r *reader) endMIG(h *host, row uint64) {
	for _, index := range h.order {
		if n := h.mig[index]; n > 0 {
			r.number(h, h.shown[index], timeline.AttrMIGDevices, float64(n), unit.Count, row)
		}
	}
}

func (r *reader) attrAt(h *host) timeline.Time {
	if r.untimed || h.dropped {
		return 0
	}
	return h.at
}

func (r *reader) reading(h *host, g *gpu, m timeline.Metric, v float64, row uint64) {
	if h.dropped {
		return
	}
	s, ok := g.series[m.Name]
	if !ok {
		s = r.b.SeriesOf(m, g.track)
		g.series[m.Name] = s
	}
	if !r.b.Reading(s, h.at, v, uint32(row)) {
		r.in.Report("smi-table/repeated-stamp", timeline.Info, row, "%s has two tables in one second: the first stands", g.shown)
	}
}

func (r *reader) word(h *host, g *gpu, name, text string, row uint64) {
	if g.attrs[name] != text {
		g.attrs[name] = text
		r.b.AddAttr(g.track, name, text, r.attrAt(h), uint32(row))
	}
}

func (r *reader) number(h *host, g *gpu, name string, v float64, u unit.Unit, row uint64) {
	if text := strconv.FormatFloat(v, 'g', -1, 64); g.attrs[name] != text {
		g.attrs[name] = text
		r.b.AddNumber(g.track, name, v, u, r.attrAt(h), uint32(row))
	}
}

func (r *reader) hostAttr(h *host, name, value string, row uint64) {
	if ingest.CellOf(value) != ingest.CellValue || h.attrs[name] == value {
		return
	}
	h.attrs[name] = value
	if h.track < 0 {
		h.track = r.b.Track(timeline.Track{Source: r.in.Source, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: h.label})
	}
	r.b.AddAttr(h.track, name, value, r.attrAt(h), uint32(row))
}

func (r *reader) gpuOf(h *host, index int, name, bus string, row uint64) *gpu {
	bus = ingest.BusID(bus)
	k := gpuKey{h.label, index, bus}
	if g := r.gpus[k]; g != nil {
		return g
	}
	if len(r.all) >= ingest.MaxGPUs {
		r.in.Report("smi-table/many-gpus", timeline.DataLoss, row, "GPU %d is one more than the %d that one file may have: left out", index, ingest.MaxGPUs)
		return nil
	}
	g := &gpu{dev: timeline.DeviceID(len(r.b.TL.Devices)), shown: "GPU " + strconv.Itoa(index), series: map[string]int{}, attrs: map[string]string{}, procs: map[int64]*process{}}
	if h.label != "" {
		g.shown = h.label + ": " + g.shown
	}
	d := timeline.Device{Index: index, Ordinal: -1, Source: r.in.Source, Proc: -1, Vendor: "nvidia", Bus: bus}
	cut := strings.HasSuffix(name, "...")
	if !cut {
		d.Name = name
	}
	g.track = r.b.GPUTrack(d, g.shown)
	if cut {
		r.word(h, g, timeline.AttrNameBegins, strings.TrimSpace(strings.TrimSuffix(name, "...")), row)
	}
	r.gpus[k] = g
	r.all = append(r.all, g)
	return g
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.in.Source]
	src.Rows = r.rows
	src.Covers = timeline.Instant.String()
	if r.util {
		src.Covers = timeline.WindowBefore.String()
	}
	if r.rows == 0 {
		return fmt.Errorf("a table without any GPU: it was cut, or nvidia-smi saw none")
	}
	c := timeline.Clock{Name: src.Path}
	if r.timed {
		c.Wall, c.Step, c.Error = true, time.Second, 2*time.Second
		c.Why = "wall clock in whole seconds, zone not stated; utilisation looks back over up to a second more"
		if r.untimed {
			r.in.Report("smi-table/mixed-times", timeline.DataLoss, 1, "only some tables have a time above them")
		}
	} else {
		c.Why = "no table has a time above it: they have an order and no time; shown on an axis of their own"
		r.in.Report("smi-table/no-time", timeline.DataLoss, 1, "no table has a time above it: it can be put beside nothing else")
	}
	r.b.AddClock(r.in.Source, c)
	for _, g := range r.all {
		if g.hidden && !g.util {
			r.in.Report("smi-table/hidden-utilisation", timeline.DataLoss, 1, "%s: utilisation is N/A in every table: MIG hides it (or the product does not support it); this is not an idle GPU", g.shown)
		}
	}
	return nil
}
