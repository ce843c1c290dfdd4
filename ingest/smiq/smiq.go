// Package smiq reads the reports of `nvidia-smi -q` and `nvidia-smi -q -x`: an indented listing and an XML document of the same values,
// one report a call, several in one file with -l.
//
// Versions seen: R418 to R595, Linux and Windows, DTD v10 to v13; reports cut down by -d; a single GPU of several by -i. The listing is
// recognised by its line ==============NVSMI LOG==============, the document by its root nvidia_smi_log.
//
// Clock: Timestamp is the local wall clock in whole seconds when the report began, without a zone; everything in a report has that
// instant. Without it there is no time: At is the number of the report times --set period (1 s if that is not said).
//
// Values: readings (utilisation, power, clocks, temperatures, memory, link, counters) are series of one reading a report; what is stated
// once (limits, modes, versions) are attributes, added again only when they change. The limits that sampled logs have as series are both.
// Clock event reasons are kept as the driver's bit mask. ECC totals are sums over SRAM and DRAM, of the card's life and
// apart since the driver was loaded. Temperatures of
// newer parts are margins to the highest operating temperature and are kept apart from absolute ones. PCIe throughput is one 20 ms
// sample in KB/s, taken as 1000 bytes. The index of a GPU is not printed: it is the GPU's place in a report that shows all attached ones.
//
// What it cannot tell: anything between two reports. N/A and deprecated values are missing; with MIG on, utilisation is N/A under full
// load too. Of processes the name without folder and arguments is kept.
package smiq

import (
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

// Format reads the listing.
var Format = ingest.Format{
	Name:      "smi-q",
	Doc:       "nvidia-smi -q: identity, link, limits, clocks and why they fell, ECC, processes of each GPU at an instant",
	Recognise: recogniseText,
	Read: func(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
		return read(ctx, in, b, readText)
	},
	Asks: []string{"hw"},
}

// XML reads the document.
var XML = ingest.Format{
	Name:      "smi-xml",
	Doc:       "nvidia-smi -q -x: the same as XML",
	Recognise: recogniseXML,
	Read: func(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
		return read(ctx, in, b, readXML)
	},
	Asks: []string{"hw"},
}

// gpu is one device of the file, over all its reports.
type gpu struct {
	track  timeline.TrackID
	dev    timeline.DeviceID
	shown  string
	series map[string]int
	attrs  map[string]string // last value of each attribute
	procs  map[int64]*process
	uuid   string
	util   bool // it showed a utilisation
	hidden bool // it said N/A where its utilisation stands
	lost   bool
}

type process struct {
	track timeline.TrackID
	mem   int // its series, -1 none yet
}

// report is what is known of the report that is being read.
type report struct {
	at       timeline.Time
	timed    bool
	dropped  bool // its instant is not known: readings are left out
	attached int  // 0 not stated
	shown    []*gpu
}

// block is the part of a report that speaks of one GPU.
type block struct {
	g           *gpu
	mask, seen  uint64
	bits        int
	maskRow     uint64
	ecc         map[eccKind]float64
	migDevices  int
	migRow      uint64
	failed      bool
	inProcesses bool
	noProcess   bool // the report says None
	processes   int  // that only compute
	listed      int  // of any type
	held        bool // somebody holds memory
	processRow  uint64
	p           proc
}

type proc struct {
	pid        int64
	kind, name string
	mem        string
	row        uint64
	known      bool
}

// reader turns the values of reports into the timeline; both spellings drive it.
type reader struct {
	in     *ingest.Input
	b      *timeline.Builder
	src    timeline.SourceID
	period timeline.Time

	gpus     map[string]*gpu
	order    []*gpu
	hosts    map[string]*host
	hostList []*host
	reports  int
	blocks   int64
	timed    bool
	untimed  bool
	util     bool
	said     bool
	many     bool
}

// host is one machine whose reports the file holds; most files hold one.
type host struct {
	label string
	wall  ingest.WallClock
	track timeline.TrackID
	attrs map[string]string
	r     *report
	b     *block
	stack []level
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder, parse func(context.Context, *reader, *ingest.Lines) error) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	period, err := in.Opt.Period()
	if err != nil {
		return err
	}
	r := &reader{in: in, b: b, src: in.Source, period: period, gpus: map[string]*gpu{}, hosts: map[string]*host{}}
	l := ingest.NewLines(f)
	if err := parse(ctx, r, l); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		in.Report("smiq/damaged-file", timeline.DataLoss, l.Row, "%v after line %d: what lies before it is read", err, l.Row)
	}
	return r.finish()
}

func (r *reader) host(label string) *host {
	h := r.hosts[label]
	if h == nil {
		h = &host{label: label, attrs: map[string]string{}, track: -1}
		r.hosts[label] = h
		r.hostList = append(r.hostList, h)
	}
	return h
}

// begin starts a report.
func (r *reader) begin(h *host) {
	r.end(h)
	h.r = &report{at: timeline.Time(r.reports) * r.period}
	r.reports++
}

// end closes the report and its last block.
func (r *reader) end(h *host) {
	if h.r == nil {
		return
	}
	r.endGPU(h, true)
	if h.r.attached == len(h.r.shown) {
		for i, g := range h.r.shown {
			d := &r.b.TL.Devices[g.dev]
			if d.Index < 0 {
				d.Index = i
				r.b.TL.Tracks[g.track].Name = h.shown("GPU " + strconv.Itoa(i))
			}
		}
	}
	h.r = nil
}

func (h *host) shown(s string) string {
	if h.label != "" {
		return h.label + ": " + s
	}
	return s
}

// top takes a value above the GPUs.
func (r *reader) top(h *host, key, value string, row uint64) {
	if h.r == nil {
		r.begin(h)
	}
	switch key {
	case "timestamp":
		stamp, ok := ingest.ParseCTime(value)
		if !ok {
			r.in.Report("smiq/bad-time", timeline.DataLoss, row, "timestamp %q is not like Tue Jul 14 08:12:53 2026: the report has no time", clip(value))
			h.r.dropped = true
			return
		}
		r.timed, h.r.timed = true, true
		before, _ := h.wall.Last()
		at, step := h.wall.At(stamp)
		h.r.at = at
		if step != ingest.StepNone {
			h.r.dropped = !ingest.ReportStep(r.in, r.b, "smiq", step, before, at, row)
		}
	case "driver version", "driver_version":
		r.hostAttr(h, timeline.AttrDriver, value, row)
	case "cuda version", "cuda_version":
		r.hostAttr(h, timeline.AttrCUDA, value, row)
	case "attached gpus", "attached_gpus":
		h.r.attached, _ = strconv.Atoi(value)
	}
}

func (r *reader) hostAttr(h *host, name, value string, row uint64) {
	if ingest.CellOf(value) != ingest.CellValue || h.attrs[name] == value {
		return
	}
	h.attrs[name] = value
	if h.track < 0 {
		h.track = r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: h.label})
	}
	r.b.AddAttr(h.track, name, value, r.attrAt(h), uint32(row))
}

func (r *reader) attrAt(h *host) timeline.Time {
	if h.r.timed && !h.r.dropped {
		return h.r.at
	}
	return 0
}

// gpu starts the block of the GPU at a bus id.
func (r *reader) gpu(h *host, bus string, row uint64) {
	if h.r == nil {
		r.begin(h)
	}
	r.endGPU(h, true)
	bus = ingest.BusID(bus)
	key := h.label + "\x00" + bus
	g := r.gpus[key]
	if g == nil {
		if len(r.order) >= ingest.MaxGPUs {
			r.in.Report("smiq/many-gpus", timeline.DataLoss, row, "a GPU more than the %d that one file may have: it is left out", ingest.MaxGPUs)
			return
		}
		g = r.newGPU(h, bus)
		r.gpus[key] = g
	}
	if !h.r.timed {
		r.untimed = true
	}
	h.r.shown = append(h.r.shown, g)
	h.b = &block{g: g}
	r.blocks++
}

func (r *reader) newGPU(h *host, bus string) *gpu {
	d := timeline.Device{Index: -1, Ordinal: -1, Source: r.src, Proc: -1, Vendor: "nvidia", Bus: bus}
	g := &gpu{dev: timeline.DeviceID(len(r.b.TL.Devices)), shown: h.shown("GPU " + bus), series: map[string]int{}, attrs: map[string]string{}, procs: map[int64]*process{}}
	g.track = r.b.GPUTrack(d, g.shown)
	r.order = append(r.order, g)
	return g
}

// endGPU closes the block. What is summed over a section counts only if the section was closed.
func (r *reader) endGPU(h *host, whole bool) {
	b := h.b
	if b == nil {
		return
	}
	if whole {
		r.endReasons(h)
		r.endProcesses(h)
	}
	if b.migDevices > 0 {
		r.attrNumber(h, timeline.AttrMIGDevices, float64(b.migDevices), unit.Count, b.migRow)
	}
	h.b = nil
}

// value takes one value of the current GPU.
func (r *reader) value(h *host, f *field, value string, row uint64) {
	b := h.b
	switch ingest.CellOf(value) {
	case ingest.CellAbsent:
		if len(f.metrics) > 0 && f.metrics[0].Name == timeline.SMBusy.Name {
			b.g.hidden = true
		}
		if f.use == useECC {
			r.eccSums(h, f.ecc, row)
		}
		return
	case ingest.CellFailed:
		if f.use == useWord || f.use == useMode {
			return // Unknown is a word of its own there
		}
		r.in.Report("smiq/failed-reading", timeline.DataLoss, row, "%s: %s: %s", b.g.shown, f.text, clip(value))
		if !b.failed {
			r.b.AddMark(timeline.MarkReadFailed, b.g.track, h.r.at, f.text+": "+value, uint32(row))
			b.failed = true
		}
		return
	case ingest.CellLost:
		r.in.Report("smiq/gpu-lost", timeline.DataLoss, row, "%s: %s: look for its Xid in the kernel log", b.g.shown, value)
		if !b.g.lost {
			r.b.AddMark(timeline.MarkGPULost, b.g.track, h.r.at, value, uint32(row))
			b.g.lost = true
		}
		return
	}
	switch f.use {
	case useUUID:
		r.setUUID(h, ingest.KnownUUID(value))
	case useName:
		r.b.TL.Devices[b.g.dev].Name = value
	case useWord:
		r.attrText(h, f.attr, value, row)
	case useMode:
		r.attrText(h, f.attr, strings.ToLower(value), row)
	case useFlag, useYes:
		v, ok := yesNo(value)
		switch {
		case !ok:
			r.in.Report("smiq/bad-value", timeline.DataLoss, row, "%s: %q is neither Yes nor No: left out", f.text, clip(value))
		case f.use == useFlag:
			r.attrNumber(h, f.attr, v, unit.Flag, row)
		default:
			r.reading(h, f.metrics[0], v, row)
		}
	case useBit:
		switch strings.ToLower(value) {
		case "active":
			b.mask |= f.bit
		case "not active":
		default:
			r.in.Report("smiq/bad-value", timeline.DataLoss, row, "%s: %q is neither Active nor Not Active: left out", f.text, clip(value))
			return
		}
		b.seen |= f.bit
		if b.bits++; b.bits == 1 {
			b.maskRow = row
		}
	default:
		r.number(h, f, value, row)
	}
}

func (r *reader) number(h *host, f *field, value string, row uint64) {
	b := h.b
	u := f.unit
	if len(f.metrics) > 0 {
		u = f.metrics[0].Unit
	} else if u == "" {
		u = unit.Count
	}
	v, why := quantity(value, u)
	if why == "" && !(v >= f.lo && v <= f.hi) {
		why = "cannot be"
	}
	if why != "" {
		r.in.Report("smiq/bad-value", timeline.DataLoss, row, "%s: %q %s: left out", f.text, clip(value), why)
		return
	}
	for _, m := range f.metrics {
		r.reading(h, m, v, row)
	}
	if f.attr != "" {
		r.attrNumber(h, f.attr, v, f.unit, row)
	}
	switch {
	case f.use == useECC:
		if b.ecc == nil {
			b.ecc = map[eccKind]float64{}
		}
		b.ecc[f.ecc] += v
		r.eccSums(h, f.ecc, row)
	case len(f.metrics) == 0:
	case f.metrics[0].Name == timeline.SMBusy.Name:
		b.g.util, r.util = true, true
	case f.metrics[0].Name == timeline.MemUsed.Name:
		b.held = v > ingest.HeldMemory
	case f.metrics[0].Name == timeline.MemTotal.Name:
		r.b.TL.Devices[b.g.dev].Memory = int64(v)
	}
}

// eccSums gives the sums of a kind of errors when its last counter was met: that of DRAM, or of all memory.
func (r *reader) eccSums(h *host, k eccKind, row uint64) {
	if k.memory == sram {
		return
	}
	b := h.b
	total, any := 0.0, false
	for k.memory = range nMemories {
		v, ok := b.ecc[k]
		if !ok {
			continue
		}
		total, any = total+v, true
		if m, ok := eccMetrics[k]; ok && k.memory != allMemory {
			r.reading(h, m, v, row)
		}
		delete(b.ecc, k)
	}
	k.memory = allMemory
	if m, ok := eccMetrics[k]; ok && any {
		r.reading(h, m, total, row)
	}
}

// quantity parses a printed number into the base unit u.
func quantity(s string, u unit.Unit) (v float64, why string) {
	num, suffix, _ := strings.Cut(s, " ")
	suffix = strings.TrimSpace(suffix)
	if n := len(num); n > 1 && (num[n-1] == 'x' || num[n-1] == '%') { // 16x, 100.00%
		if num[n-1] == '%' {
			suffix = "%"
		}
		num = num[:n-1]
	}
	if n := len(num); n > 1 && n < 4 && num[0] == 'P' {
		num = num[1:]
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || v-v != 0 {
		return 0, "is no number"
	}
	var base unit.Unit
	switch suffix {
	case "", "bank(s)":
		base = unit.Count
	case "KB/s": // the tool does not say whether 1000 or 1024
		v, base = v*1e3, unit.BytePerSecond
	default:
		mu, ok := ingest.UnitOf(suffix)
		if !ok {
			return 0, "has a unit that is not known"
		}
		v, base, _ = unit.ToBase(v, mu)
	}
	if base != u {
		return 0, "has a unit that does not fit"
	}
	return v, ""
}

func yesNo(s string) (float64, bool) {
	switch strings.ToLower(s) {
	case "yes":
		return 1, true
	case "no":
		return 0, true
	}
	return 0, false
}

func clip(s string) string { return s[:min(len(s), 60)] }

// setUUID completes the device. Another UUID at the same bus is another machine's card: its values so far went to the first.
func (r *reader) setUUID(h *host, uuid string) {
	g := h.b.g
	switch {
	case uuid == "" || g.uuid == uuid:
	case g.uuid == "":
		g.uuid = uuid
		r.b.TL.Devices[g.dev].UUID = uuid
	default:
		key := h.label + "\x00" + uuid
		other := r.gpus[key]
		if other == nil {
			if len(r.order) >= ingest.MaxGPUs {
				return
			}
			d := r.b.TL.Devices[g.dev]
			other = r.newGPU(h, d.Bus)
			other.uuid = uuid
			r.b.TL.Devices[other.dev].UUID = uuid
			r.b.TL.Devices[other.dev].Name = d.Name
			r.gpus[key] = other
			if !r.many {
				r.in.Report("smiq/several-hosts", timeline.Info, 1, "reports of several machines follow one another: two cards have the bus id %s", d.Bus)
				r.many = true
			}
		}
		h.b.g = other
		if n := len(h.r.shown); n > 0 {
			h.r.shown[n-1] = other
		}
	}
}

func (r *reader) reading(h *host, m timeline.Metric, v float64, row uint64) {
	g := h.b.g
	if h.r.dropped {
		return
	}
	s, ok := g.series[m.Name]
	if !ok {
		s = r.b.SeriesOf(m, g.track)
		g.series[m.Name] = s
	}
	r.b.Reading(s, h.r.at, v, uint32(row)) // of two readings of one metric in a report the first stands
}

func (r *reader) attrText(h *host, name, value string, row uint64) {
	if g := h.b.g; g.attrs[name] != value {
		g.attrs[name] = value
		r.b.AddAttr(g.track, name, value, r.attrAt(h), uint32(row))
	}
}

func (r *reader) attrNumber(h *host, name string, v float64, u unit.Unit, row uint64) {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if g := h.b.g; g.attrs[name] != text {
		g.attrs[name] = text
		r.b.AddNumber(g.track, name, v, u, r.attrAt(h), uint32(row))
	}
}

// endReasons gives the mask when its section ends.
func (r *reader) endReasons(h *host) {
	if b := h.b; b.bits > 0 {
		r.reading(h, timeline.Reasons, float64(b.mask), b.maskRow)
		b.mask, b.seen, b.bits = 0, 0, 0
	}
}

// beginProcesses opens the list.
func (r *reader) beginProcesses(h *host, row uint64) {
	h.b.inProcesses, h.b.processRow = true, row
}

// beginProcess closes the process before.
func (r *reader) beginProcess(h *host, row uint64) {
	r.endProcess(h)
	h.b.inProcesses, h.b.processRow = true, row
	h.b.p = proc{row: row, known: true}
}

func (r *reader) endProcess(h *host) {
	b := h.b
	p := b.p
	b.p = proc{}
	if !p.known || p.pid <= 0 {
		return
	}
	b.listed++
	if ingest.ComputeOnly(p.kind) {
		b.processes++
	}
	g := b.g
	tr := g.procs[p.pid]
	if tr == nil {
		if len(g.procs) >= maxProcesses {
			r.in.Report("smiq/many-processes", timeline.DataLoss, p.row, "more than %d processes: the others are left out", maxProcesses)
			return
		}
		tr = &process{mem: -1}
		tr.track = r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackProcess, Proc: -1, Device: g.dev, Thread: p.pid, Name: ingest.Program(p.name)})
		g.procs[p.pid] = tr
		if p.kind != "" {
			r.b.AddAttr(tr.track, timeline.AttrProcType, p.kind, r.attrAt(h), uint32(p.row))
		}
	}
	if v, why := quantity(p.mem, unit.Byte); why == "" && v >= 0 && !h.r.dropped {
		if tr.mem < 0 {
			tr.mem = r.b.SeriesOf(timeline.ProcGPUMem, tr.track)
		}
		r.b.Reading(tr.mem, h.r.at, v, uint32(p.row))
	}
}

// maxProcesses bounds the processes of a GPU in one file.
const maxProcesses = 4096

// processValue takes a value of the current process.
func (r *reader) processValue(h *host, key, value string, row uint64) {
	p := &h.b.p
	switch key {
	case "process id", "pid":
		if p.pid != 0 || !p.known {
			r.beginProcess(h, row)
			p = &h.b.p
		}
		p.pid, _ = strconv.ParseInt(value, 10, 64)
	case "type":
		p.kind = value
	case "name", "process name", "process_name":
		p.name = value
	case "used gpu memory", "used_memory":
		p.mem = value
	}
}

// endProcesses closes the list and counts it.
func (r *reader) endProcesses(h *host) {
	b := h.b
	if !b.inProcesses {
		return
	}
	r.endProcess(h)
	if b.listed == 0 && b.held {
		r.in.Report("smiq/hidden-processes", timeline.Info, b.processRow, "%s has memory in use and no process is listed: a container hides them", b.g.shown)
	} else {
		r.reading(h, timeline.GPUProcesses, float64(b.processes), b.processRow)
	}
	b.inProcesses, b.processes, b.listed = false, 0, 0
}

// sentence keeps what the tool says in place of data.
func (r *reader) sentence(h *host, text string, row uint64) bool {
	lost := strings.Contains(text, "is lost") || strings.Contains(text, "fallen off") || strings.Contains(text, "requires reset")
	if !lost && !strings.Contains(text, "Unable to determine the device handle") && !strings.Contains(text, "couldn't communicate with the NVIDIA driver") &&
		!strings.Contains(text, "No devices were found") && !strings.Contains(text, "Failed to initialize NVML") {
		return false
	}
	r.said = true
	text = text[:min(len(text), 200)]
	r.in.Report("smiq/diagnosis", timeline.DataLoss, row, "nvidia-smi said: %q", text)
	kind := timeline.MarkReadFailed
	if lost {
		kind = timeline.MarkGPULost
	}
	at, _ := h.wall.Last()
	t := r.b.Track(timeline.Track{Source: r.src, Proc: -1, Device: -1, Thread: -1, Name: "messages"})
	r.b.AddMark(kind, t, at, text, uint32(row))
	return true
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows = r.blocks
	src.Covers = timeline.Instant.String()
	if r.util {
		src.Covers = timeline.WindowBefore.String()
	}
	if r.blocks == 0 && !r.said {
		return fmt.Errorf("a report without any GPU: it was cut, or nvidia-smi saw none")
	}
	c := timeline.Clock{Name: src.Path}
	switch {
	case r.timed:
		c.Wall, c.Step, c.Error = true, time.Second, 2*time.Second
		c.Why = "wall clock in whole seconds, zone not stated; utilisation looks back over up to a second more"
		if r.untimed {
			r.in.Report("smiq/mixed-times", timeline.DataLoss, 1, "only some reports state when they were made")
		}
	case r.blocks == 0:
		c.Why = "no reports"
	default:
		c.Why = "the report does not say when it was made: it can be put beside nothing else"
		r.in.Report("smiq/no-time", timeline.Info, 1, "the report does not say when it was made")
	}
	r.b.AddClock(r.src, c)
	var hidden []string
	for _, g := range r.order {
		if g.hidden && !g.util {
			hidden = append(hidden, r.b.TL.Tracks[g.track].Name)
		}
	}
	slices.Sort(hidden)
	if len(hidden) > 0 {
		r.in.Report("smiq/hidden-utilisation", timeline.DataLoss, 1, "%s: utilisation is N/A: MIG hides it (or the product does not support it); this is not an idle GPU", strings.Join(hidden, ", "))
	}
	return nil
}
