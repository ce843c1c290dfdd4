// Package promtext reads scrapes in the Prometheus text format: what DCGM-exporter, nvidia_gpu_exporter and node_exporter show at
// /metrics, one scrape or several one after another in a file.
//
// It is recognised by lines of that format whose metrics begin with DCGM_FI_, nvidia_smi_, nvidia_gpu_ or node_.
//
// Clock: a scrape states no time unless its lines end with a stamp, node_time_seconds is among them, or a line above it holds a date with
// its zone. Without, scrapes have an order, and At is their number times --set period (1 s if that is not said). A new scrape begins where
// a series comes again. Exporters show the last value they measured, often half a minute old.
//
// Kept: utilisation, power, clocks and why they fell, temperatures, memory, PCIe, NVLink, ECC, remapped rows, energy of each GPU; the last
// Xid, as a mark where it changes; CPU, memory, pressure, disks and network ports of the host. Of counters the growth between two scrapes
// is kept as a rate; it needs the scrapes' times. DCGM's PROF_*_BYTES are rates though some versions declare them counters.
//
// What it cannot tell: anything between two scrapes. DCGM's blank values are missing, never a number. Violation counters of DCGM are left
// out: versions differ in their unit.
package promtext

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads Prometheus scrapes of GPU and host exporters.
var Format = ingest.Format{
	Name:      "prometheus",
	Doc:       "Prometheus text of DCGM-exporter, nvidia_gpu_exporter or node_exporter: GPU and host metrics, once a scrape",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"idle", "hw"},
}

var ours = regexp.MustCompile(`^(# (HELP|TYPE|UNIT) )?(DCGM_FI_[A-Z]|nvidia_smi_|nvidia_gpu_|node_(cpu|memory|disk|network|load|boot|time|uname|vmstat|pressure|procs|infiniband|filesystem|arp|context)[a-z0-9_]*)`)

func recognise(h ingest.Head) bool {
	n, form, own := 0, 0, 0
	for line := range bytes.Lines(h.Text) {
		whole := line[len(line)-1] == '\n'
		line = bytes.TrimSpace(line)
		if len(line) == 0 || !whole && n > 0 {
			continue
		}
		n++
		s := string(line)
		switch {
		case ours.MatchString(s):
			own++
			form++
		case strings.HasPrefix(s, "# HELP ") || strings.HasPrefix(s, "# TYPE ") || s == "# EOF":
			form++
		default:
			_, sample := parse(s, false)
			if _, date := dateOf(s); sample || date {
				form++
			}
		}
		if n == 2000 {
			break
		}
	}
	return own > 0 && form*10 >= n*7
}

const (
	maxSeries = 400_000 // of one scrape
	maxParts  = 4096    // CPUs, disks, ports and processes of one file
)

type gpu struct {
	track timeline.TrackID
	dev   timeline.DeviceID
	xid   map[string]float64 // what was shown last: "" of a gauge, else by number
}

type seriesKey struct {
	track  timeline.TrackID
	metric string
}

type last struct {
	value float64
	at    timeline.Time
}

type reader struct {
	in  *ingest.Input
	b   *timeline.Builder
	src timeline.SourceID

	period  timeline.Time
	said    bool // --set period
	seconds bool // OpenMetrics
	scrape  []sample
	keys    map[string]bool
	date    timeline.Time // of the next scrape, by a line above it; 0 none
	n       int           // scrapes

	rows, samples int64
	timed         int // scrapes with a time
	untimed       int
	rateless      bool
	dcgm          bool

	hosts  []string
	gpus   map[string]*gpu
	series map[seriesKey]int
	before map[string]last // counters, by series
	parts  map[string]bool
	stated map[string]bool
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, src: in.Source, period: 1e9, keys: map[string]bool{}, gpus: map[string]*gpu{}, series: map[seriesKey]int{},
		before: map[string]last{}, parts: map[string]bool{}, stated: map[string]bool{}}
	if p, ok := in.Opt.Set["period"]; ok {
		d, err := strconv.ParseFloat(p, 64)
		if err != nil || !(d > 0 && d < 1e6) {
			return fmt.Errorf("--set period=%s: not a number of seconds: say --set period=15", p)
		}
		r.period, r.said = timeline.Time(d*1e9), true
	}
	if err := ingest.NewPlainLines(f).Each(ctx, in, "prometheus", r.line); err != nil {
		return err
	}
	r.flush()
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	text := strings.TrimSpace(string(l.Text))
	switch {
	case text == "":
		return
	case l.Long:
		r.in.Report("prometheus/long-line", timeline.DataLoss, l.Row, "a line of more than 1 MiB: skipped")
		return
	case text == "# EOF":
		r.seconds = true
		return
	case text[0] == '#':
		if strings.HasPrefix(text, "# HELP ") || strings.HasPrefix(text, "# TYPE ") || strings.HasPrefix(text, "# UNIT ") {
			return
		}
	}
	if at, ok := dateOf(text); ok {
		r.flush()
		r.date = at
		return
	}
	if text[0] == '#' {
		return
	}
	r.rows++
	s, ok := parse(text, r.seconds)
	switch {
	case !l.Ended:
		r.in.Report("prometheus/unterminated-row", timeline.Info, l.Row, "the file ends without a line feed: the last value may be cut and is left out")
		return
	case !ok:
		r.in.Report("prometheus/stray-line", timeline.Info, l.Row, "not a line of the Prometheus text format: %.120q", text)
		return
	}
	s.row = uint32(min(l.Row, 1<<32-1))
	r.samples++
	key := s.key()
	if r.keys[key] || len(r.keys) >= maxSeries {
		r.flush()
	}
	r.keys[key] = true
	if wanted(s.name) {
		r.scrape = append(r.scrape, s)
	}
}

// wanted tells whether a metric is looked at at all.
func wanted(name string) bool {
	if strings.HasPrefix(name, "DCGM_FI_") || strings.HasPrefix(name, "nvidia_smi_") || strings.HasPrefix(name, "nvidia_gpu_") {
		return true
	}
	if !strings.HasPrefix(name, "node_") {
		return false
	}
	if _, ok := counters[name]; ok {
		return true
	}
	if _, ok := hostGauges[name]; ok {
		return true
	}
	if _, ok := partGauges[name]; ok {
		return true
	}
	return name == "node_time_seconds" || name == "node_boot_time_seconds" || name == "node_uname_info" || name == "node_memory_MemTotal_bytes" || name == "node_infiniband_state_id"
}

// reading is a value that waits for those of the same scrape that give the same metric.
type reading struct {
	track  timeline.TrackID
	metric timeline.Metric
	at     timeline.Time
	value  float64
	rank   int
	add    bool
	row    uint32
}

// growth is how much a part's counters grew since the scrape before.
type growth struct {
	kind timeline.TrackKind
	name string
	at   timeline.Time
	dt   float64
	row  uint32
	by   map[string]float64
}

// flush turns the scrape so far into readings.
func (r *reader) flush() {
	scrape, date := r.scrape, r.date
	r.scrape, r.date = nil, 0
	if len(r.keys) == 0 {
		r.date = date
		return
	}
	clear(r.keys)
	at, timed := timeline.Time(r.n)*r.period, false
	own := 0
	for i := range scrape {
		if scrape[i].at != 0 {
			own++
		}
		if scrape[i].name == "node_time_seconds" && scrape[i].value > 1e9 && scrape[i].value < 9e9 {
			at, timed = timeline.Time(scrape[i].value*1e9), true
		}
	}
	if date != 0 {
		at, timed = date, true
	}
	r.n++
	if timed || own > 0 && own == len(scrape) {
		r.timed++
	} else if len(scrape) > 0 {
		r.untimed++
	}
	r.identify(scrape)
	var out []reading
	var parts []growth
	for i := range scrape {
		s := &scrape[i]
		t := at
		if s.at != 0 {
			t = s.at
		}
		if math.IsNaN(s.value) || math.IsInf(s.value, 0) {
			continue
		}
		r.sample(s, t, timed || s.at != 0, &out, &parts)
	}
	r.compose(parts, &out)
	r.put(out)
}

// identify reads what a scrape states of GPUs and the host before its readings are placed.
func (r *reader) identify(scrape []sample) {
	for i := range scrape {
		s := &scrape[i]
		switch s.name {
		case "nvidia_smi_gpu_info":
			if g := r.gpuOf(s); g != nil {
				for _, a := range []struct{ attr, label string }{{timeline.AttrDriver, "driver_version"}, {timeline.AttrCUDA, "cuda_version"}, {timeline.AttrVBIOS, "vbios_version"}} {
					if v := s.label(a.label); ingest.CellOf(v) == ingest.CellValue {
						r.attr(g.track, a.attr, v, s.row)
					}
				}
			}
		case "node_uname_info":
			r.addHost(s.label("nodename"))
			r.attr(r.host(), timeline.AttrHostKernel, s.label("release"), s.row)
		case "node_boot_time_seconds":
			r.number(timeline.AttrHostBoot, s.value, unit.Second, s.row)
		case "node_memory_MemTotal_bytes":
			r.number(timeline.AttrHostMemory, s.value, unit.Byte, s.row)
		}
		if strings.HasPrefix(s.name, "DCGM_FI_") {
			r.dcgm = true
			r.addHost(s.label("Hostname", "hostname"))
			if v := s.label("DCGM_FI_DRIVER_VERSION"); v != "" && s.label("GPU_I_ID") == "" {
				if g := r.gpuOf(s); g != nil {
					r.attr(g.track, timeline.AttrDriver, v, s.row)
				}
			}
		}
	}
}

func (r *reader) attr(t timeline.TrackID, name, text string, row uint32) {
	key := strconv.Itoa(int(t)) + name
	if text != "" && !r.stated[key] {
		r.stated[key] = true
		r.b.AddAttr(t, name, text, 0, row)
	}
}

func (r *reader) number(name string, v float64, u unit.Unit, row uint32) {
	if !r.stated[name] && v > 0 {
		r.stated[name] = true
		r.b.AddNumber(r.host(), name, v, u, 0, row)
	}
}

func (r *reader) addHost(h string) {
	if h != "" && !slices.Contains(r.hosts, h) && len(r.hosts) < 1024 {
		r.hosts = append(r.hosts, h)
	}
}

func (r *reader) host() timeline.TrackID {
	return r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: "host"})
}

// sample puts one line where it belongs.
func (r *reader) sample(s *sample, at timeline.Time, timed bool, out *[]reading, parts *[]growth) {
	switch {
	case strings.HasPrefix(s.name, "DCGM_FI_"):
		if t, ok := ingest.DCGMFieldOf(s.name); ok {
			r.gpuSample(s, t, at, out)
		}
		return
	case strings.HasPrefix(s.name, "nvidia_smi_"):
		name := s.name[len("nvidia_smi_"):]
		switch name {
		case "compute_app_used_memory_bytes":
			r.process(s, at, out)
			return
		case "xid_errors_total":
			if g := r.gpuOf(s); g != nil {
				r.xidTotal(g, s, at)
			}
			return
		case "mig_mode_current", "ecc_mode_current", "persistence_mode":
			if g := r.gpuOf(s); g != nil && (s.value == 0 || s.value == 1) {
				attr := map[string]string{"mig_mode_current": timeline.AttrMIG, "ecc_mode_current": timeline.AttrECC, "persistence_mode": timeline.AttrPersistence}[name]
				r.attr(g.track, attr, [...]string{"disabled", "enabled"}[int(s.value)], s.row)
			}
			return
		}
		if t, ok := smi[name]; ok {
			r.gpuSample(s, t, at, out)
		}
		return
	case strings.HasPrefix(s.name, "nvidia_gpu_"):
		if t, ok := gpuGauges[s.name[len("nvidia_gpu_"):]]; ok {
			r.gpuSample(s, t, at, out)
		}
		return
	}
	if t, ok := hostGauges[s.name]; ok {
		r.gauge(s, t, r.host(), at, out)
		return
	}
	if s.name == "node_infiniband_state_id" { // 4 is active
		up := *s
		up.value = 0
		if s.value == 4 {
			up.value = 1
		}
		if t, ok := r.part(timeline.TrackNIC, s, []string{"device", "port"}); ok {
			r.gauge(&up, gauge(timeline.NetState, 1, 0, 1), t, at, out)
		}
		return
	}
	if p, ok := partGauges[s.name]; ok {
		if t, ok := r.part(p.kind, s, p.by); ok {
			r.gauge(s, p.target, t, at, out)
		}
		return
	}
	if c, ok := counters[s.name]; ok {
		r.counter(s, c, at, timed, out, parts)
	}
}

func (r *reader) gauge(s *sample, t target, track timeline.TrackID, at timeline.Time, out *[]reading) {
	v := s.value
	if t.Hi == 1 && v > 1 && v < 1.05 {
		v = 1
	}
	if !(v >= t.Lo && v <= t.Hi) {
		if v < 1e18 { // DCGM's blanks are larger
			r.in.Report("prometheus/impossible-value", timeline.DataLoss, uint64(s.row), "%s: %g is outside %g to %g: reading dropped", s.name, s.value, t.Lo, t.Hi)
		}
		return
	}
	*out = append(*out, reading{track: track, metric: t.Metric, at: at, value: v * t.Scale, rank: t.Rank, add: t.Add, row: s.row})
}

func (r *reader) gpuSample(s *sample, t target, at timeline.Time, out *[]reading) {
	if s.label("GPU_I_ID") != "" { // a part of a GPU
		track := r.b.Track(timeline.Track{Source: r.src, Proc: -1, Device: -1, Thread: -1, Name: "GPU " + s.label("gpu") + " instance " + s.label("GPU_I_ID")})
		if !t.Xid {
			r.gauge(s, t, track, at, out)
		}
		return
	}
	g := r.gpuOf(s)
	if g == nil {
		return
	}
	if !t.Xid {
		r.gauge(s, t, g.track, at, out)
		return
	}
	if s.value < 0 || s.value > 1e6 {
		return
	}
	before, known := g.xid[""]
	g.xid[""] = s.value
	switch {
	case s.value == before || s.value == 0:
	case !known:
		r.in.Report("prometheus/old-xid", timeline.Info, uint64(s.row), "Xid %g is shown from the first scrape: it was logged before", s.value)
	default:
		r.b.AddEvent(timeline.MarkXid, g.track, at, int32(s.value), "DCGM shows it as the last Xid", s.row)
	}
}

// xidTotal marks each growth of a count of Xids.
func (r *reader) xidTotal(g *gpu, s *sample, at timeline.Time) {
	code, err := strconv.ParseInt(s.label("xid"), 10, 32)
	if err != nil {
		return
	}
	before, known := g.xid[s.label("xid")]
	g.xid[s.label("xid")] = s.value
	switch {
	case s.value <= before || s.value == 0:
	case !known && r.n <= 1: // the series comes with the first Xid: in a later scrape it is news
		r.in.Report("prometheus/old-xid", timeline.Info, uint64(s.row), "Xid %d was counted before the first scrape", code)
	default:
		r.b.AddEvent(timeline.MarkXid, g.track, at, int32(code), "the exporter counted it since the scrape before", s.row)
	}
}

func (r *reader) process(s *sample, at timeline.Time, out *[]reading) {
	pid, err := strconv.ParseInt(s.label("pid"), 10, 64)
	if err != nil || pid <= 0 || len(r.parts) >= maxParts {
		return
	}
	r.parts["pid "+s.label("pid")] = true
	t := r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackProcess, Proc: -1, Device: -1, Thread: pid, Name: ingest.Program(s.label("process_name"))})
	*out = append(*out, reading{track: t, metric: timeline.ProcGPUMem, at: at, value: s.value, add: true, row: s.row})
}

// part gives the track of a CPU, a disk or a port; false for those that are none: loop-backs, partitions of virtual networks.
func (r *reader) part(kind timeline.TrackKind, s *sample, by []string) (timeline.TrackID, bool) {
	var names []string
	for _, l := range by {
		names = append(names, s.label(l))
	}
	name := strings.Join(names, ":")
	thread := int64(-1)
	switch kind {
	case timeline.TrackCPU:
		n, err := strconv.ParseInt(name, 10, 32)
		if err != nil || n < 0 {
			return 0, false
		}
		thread, name = n, "CPU "+name
	case timeline.TrackNIC:
		if name == "" || name == "lo" || strings.HasPrefix(name, "veth") || strings.HasPrefix(name, "cali") || strings.HasPrefix(name, "docker") || strings.HasPrefix(name, "br-") {
			return 0, false
		}
	case timeline.TrackDisk:
		if name == "" || strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") {
			return 0, false
		}
	}
	if !r.parts[name] {
		if len(r.parts) >= maxParts {
			r.in.Report("prometheus/many-parts", timeline.DataLoss, uint64(s.row), "more than %d CPUs, disks, ports and processes: %s is left out", maxParts, name)
			return 0, false
		}
		r.parts[name] = true
	}
	return r.b.Track(timeline.Track{Source: r.src, Kind: kind, Proc: -1, Device: -1, Thread: thread, Name: name}), true
}

// counter gives the growth of a total since the scrape before.
func (r *reader) counter(s *sample, c counter, at timeline.Time, timed bool, out *[]reading, parts *[]growth) {
	key := s.key()
	b, known := r.before[key]
	r.before[key] = last{s.value, at}
	d := s.value - b.value
	dt := float64(at-b.at) / 1e9
	if !known || dt <= 0 || d < 0 { // a counter that shrank began anew
		return
	}
	if !timed && !r.said {
		r.rateless = true
		return
	}
	name := ""
	for i, l := range c.by {
		if i > 0 {
			name += ":"
		}
		name += s.label(l)
	}
	if c.what != "" {
		what := c.what
		if what == "cpu" {
			what = s.label("mode")
		}
		i := slices.IndexFunc(*parts, func(g growth) bool { return g.kind == c.kind && g.name == name && g.at == at })
		if i < 0 {
			i = len(*parts)
			*parts = append(*parts, growth{kind: c.kind, name: name, at: at, dt: dt, row: s.row, by: map[string]float64{}})
		}
		(*parts)[i].by[what] += d
		return
	}
	t := r.host()
	if c.kind != timeline.TrackHostReadings {
		var ok bool
		if t, ok = r.part(c.kind, s, c.by); !ok {
			return
		}
	}
	v := d / dt * c.scale
	if c.hi == 1 && v > 1 && v < 1.1 {
		v = 1 // the exporter reads the total and the clock at different instants
	}
	if v > c.hi {
		r.in.Report("prometheus/impossible-value", timeline.DataLoss, uint64(s.row), "%s grew by %g in %g s: reading dropped", s.name, d, dt)
		return
	}
	m := c.gives
	m.Window = window(dt)
	*out = append(*out, reading{track: t, metric: m, at: at, value: v, row: s.row})
}

func window(dt float64) time.Duration { return time.Duration(dt * 1e9).Round(time.Millisecond) }

// compose puts together what is made of several counters: shares of CPU time, and how long requests took.
func (r *reader) compose(parts []growth, out *[]reading) {
	var all growth
	cpus := 0
	give := func(t timeline.TrackID, m timeline.Metric, g *growth, v float64) {
		m.Covers, m.Window = timeline.WindowBefore, window(g.dt)
		*out = append(*out, reading{track: t, metric: m, at: g.at, value: v, row: g.row})
	}
	for i := range parts {
		g := &parts[i]
		s := &sample{labels: []label{{"x", g.name}}, row: g.row}
		t, ok := r.part(g.kind, s, []string{"x"})
		if !ok {
			continue
		}
		switch g.kind {
		case timeline.TrackDisk:
			reads, hasR := g.by["reads"]
			writes, hasW := g.by["writes"]
			if hasR {
				give(t, timeline.DiskReads, g, reads/g.dt)
			}
			if hasW {
				give(t, timeline.DiskWrites, g, writes/g.dt)
			}
			if took, ok := g.by["read time"]; ok && reads > 0 {
				give(t, timeline.DiskAwaitRd, g, took/reads)
			}
			if took, ok := g.by["write time"]; ok && writes > 0 {
				give(t, timeline.DiskAwaitWr, g, took/writes)
			}
		case timeline.TrackCPU:
			if busy, ok := busyOf(g.by); ok {
				give(t, timeline.CPUBusy, g, busy)
				if cpus++; cpus == 1 {
					all = growth{at: g.at, dt: g.dt, row: g.row, by: map[string]float64{}}
				}
				for _, mode := range modes {
					all.by[mode] += g.by[mode]
				}
			}
		}
	}
	if cpus == 0 {
		return
	}
	sum := total(all.by)
	t := r.host()
	busy, _ := busyOf(all.by)
	give(t, timeline.CPUBusy, &all, busy)
	give(t, timeline.CPUUser, &all, (all.by["user"]+all.by["nice"])/sum)
	give(t, timeline.CPUSystem, &all, all.by["system"]/sum)
	give(t, timeline.CPUIOWait, &all, all.by["iowait"]/sum)
	give(t, timeline.CPUSteal, &all, all.by["steal"]/sum)
	give(t, timeline.CPUIRQ, &all, (all.by["irq"]+all.by["softirq"])/sum)
}

var modes = []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"}

func total(by map[string]float64) float64 {
	sum := 0.0
	for _, m := range modes {
		sum += by[m]
	}
	return sum
}

func busyOf(by map[string]float64) (float64, bool) {
	sum := total(by)
	if _, ok := by["idle"]; !ok || sum <= 0 {
		return 0, false
	}
	return max(0, (sum-by["idle"]-by["iowait"])/sum), true
}

// put adds readings; of several for one metric the lowest rank counts, or their sum.
func (r *reader) put(out []reading) {
	type key struct {
		seriesKey
		at timeline.Time
	}
	first := map[key]int{}
	keep := out[:0]
	for _, o := range out {
		k := key{seriesKey{o.track, o.metric.Name}, o.at}
		i, ok := first[k]
		switch {
		case !ok:
			first[k] = len(keep)
			keep = append(keep, o)
		case o.add:
			keep[i].value += o.value
		case o.rank < keep[i].rank:
			keep[i] = o
		}
	}
	for _, o := range keep {
		k := seriesKey{o.track, o.metric.Name}
		s, ok := r.series[k]
		if !ok {
			s = r.b.SeriesOf(o.metric, o.track)
			r.series[k] = s
		}
		r.b.Reading(s, o.at, o.value, o.row)
	}
}

// gpuOf finds the GPU of a line by its UUID, else by its number and host.
func (r *reader) gpuOf(s *sample) *gpu {
	label := s.label("UUID", "uuid")
	host := s.label("Hostname", "hostname")
	num := s.label("gpu", "minor_number", "index")
	key := label
	if ingest.KnownUUID(label) == "" {
		key = host + "\x00" + num + "\x00" + label
		if s.name == "nvidia_smi_gpu_info" || strings.HasPrefix(s.name, "nvidia_smi_") {
			key = label // masked, but the only name it has
		}
	}
	g, ok := r.gpus[key]
	if !ok {
		if len(r.gpus) >= ingest.MaxGPUs {
			r.in.Report("prometheus/many-gpus", timeline.DataLoss, uint64(s.row), "more than %d GPUs: this one is left out", ingest.MaxGPUs)
			return nil
		}
		uuid := ingest.KnownUUID(label)
		if len(uuid) == 36 && strings.Count(uuid, "-") == 4 {
			uuid = "GPU-" + uuid // nvidia_gpu_exporter leaves it out
		}
		d := timeline.Device{Index: -1, Ordinal: -1, Source: r.src, Proc: -1, Vendor: "nvidia", UUID: uuid}
		name := "GPU " + num
		if num == "" {
			name = cmp.Or(uuid, "GPU")
		}
		if host != "" && len(r.hosts) > 1 {
			name = host + ": " + name
		}
		g = &gpu{dev: timeline.DeviceID(len(r.b.TL.Devices)), xid: map[string]float64{}}
		g.track = r.b.GPUTrack(d, name)
		r.gpus[key] = g
	}
	d := &r.b.TL.Devices[g.dev]
	if n, err := strconv.Atoi(num); err == nil && n >= 0 && n < 4096 {
		if d.Index < 0 {
			d.Index = n
		}
		if t := &r.b.TL.Tracks[g.track]; t.Name == d.UUID || t.Name == "GPU" {
			t.Name = "GPU " + num
		}
	}
	d.Name = cmp.Or(d.Name, s.label("modelName", "name"))
	if bus := s.label("pci_bus_id"); d.Bus == "" && bus != "" {
		d.Bus = ingest.BusID(bus)
	}
	if cc := s.label("compute_cap"); d.CC == "" && ingest.CellOf(cc) == ingest.CellValue {
		d.CC = cc
	}
	return g
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows, src.Covers = r.rows, timeline.Instant.String()
	if r.samples == 0 {
		return errors.New("no line with a metric and a number")
	}
	if len(r.hosts) == 1 {
		src.Host = r.hosts[0]
	}
	if len(r.hosts) > 1 {
		r.in.Report("prometheus/several-hosts", timeline.Info, 1, "metrics of %d hosts, %s and others: GPUs are told apart by UUID", len(r.hosts), r.hosts[0])
	}
	if r.timed > 0 && r.untimed > 0 {
		r.in.Report("prometheus/mixed-times", timeline.DataLoss, 1, "%d scrapes state their time, %d do not: those are left out", r.timed, r.untimed)
		r.dropUntimed()
	}
	c := timeline.Clock{Name: src.Path, Step: time.Second}
	switch {
	case r.timed > 0:
		c.Wall, c.Zoned, c.How, c.Step, c.Error = true, true, timeline.Recorded, time.Millisecond, time.Second
		c.Why = "the scrapes state their times"
		if r.dcgm {
			c.Error = 30 * time.Second
			c.Why += "; DCGM-exporter shows values up to half a minute old"
		}
	default:
		c.Why = "the scrapes state no times: they have an order; shown on an axis of its own, one second a scrape"
		if r.said {
			c.Why = fmt.Sprintf("the scrapes state no times: they have an order; shown on an axis of its own, %g s a scrape as --set period says", float64(r.period)/1e9)
		}
		r.in.Report("prometheus/no-time", timeline.DataLoss, 1, "the scrapes state no times: they can be put beside nothing else; record with: while sleep 5; do date -Is; curl -s localhost:9400/metrics; done")
	}
	if r.rateless {
		r.in.Report("prometheus/no-rates", timeline.DataLoss, 1, "counters are left out: how fast they grow needs the scrapes' times, or --set period")
	}
	r.b.AddClock(r.src, c)
	return nil
}

// dropUntimed takes away what has no time beside what has: instants counted from the first scrape lie far before every date.
func (r *reader) dropUntimed() {
	const dated = timeline.Time(1e17)
	for i := range r.b.TL.Series {
		s := &r.b.TL.Series[i]
		n := 0
		for j := range s.At {
			if s.At[j] >= dated {
				s.At[n], s.Value[n], s.Row[n] = s.At[j], s.Value[j], s.Row[j]
				n++
			}
		}
		s.At, s.Value, s.Row = s.At[:n], s.Value[:n], s.Row[:n]
	}
	m := r.b.TL.Marks
	r.b.TL.Marks = timeline.Marks{}
	for i := range m.At {
		if m.At[i] >= dated {
			r.b.TL.Marks.Append(m.Kind[i], m.Track[i], m.At[i], m.Code[i], m.Name[i], m.Row[i])
		}
	}
}
