// Package smiquery reads what `nvidia-smi --query-gpu=... --format=csv` prints: a header of field names with units, then one row a GPU
// and cycle.
//
// Versions seen: R418 to R610, Linux and Windows, with and without units, UTF-16 from PowerShell. It is recognised by a line of query
// field names; a file that holds only the tool's sentence (no devices, no driver, no such field) is taken too, as evidence.
//
// Clock: timestamp is the local wall clock of the reading in milliseconds, without a zone. Without that field there is no time: At is the
// number of the cycle times --set period (1 s if that is not said).
//
// Fields: utilization.* look back over 1/6 s to 1 s; power.draw is a mean over 1 s on GA10x and later, instantaneous on A100 and older;
// clocks and temperatures are instants; clocks_event_reasons is kept as a bit mask (unknown bits too), its counters are us since the driver
// was loaded; temperature.gpu.tlimit is a margin. Identity fields make the device. Numeric fields without a place of their own are kept
// by name when they state a unit or belong to a known family.
//
// What it cannot tell: processes, kernels, PCIe throughput. A value that is not there ([N/A], [Not Supported], ...) is missing, never 0;
// a failed reading and a lost GPU are events.
package smiquery

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

// Format reads nvidia-smi --query-gpu logs.
var Format = ingest.Format{
	Name:      "smiquery",
	Doc:       "nvidia-smi --query-gpu CSV: utilisation, power, clocks and why they fell, temperatures, PCIe link of each GPU",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"step", "idle", "hw"},
}

// aliases lead to the names that the tool prints today.
var aliases = map[string]string{
	"gpu_uuid": "uuid", "gpu_name": "name", "gpu_bus_id": "pci.bus_id",
	"clocks.sm": "clocks.current.sm", "clocks.gr": "clocks.current.graphics", "clocks.mem": "clocks.current.memory", "clocks.video": "clocks.current.video",
	"clocks.max.mem": "clocks.max.memory", "clocks.max.gr": "clocks.max.graphics",
	"gpu.power.draw": "power.draw", "gpu.power.draw.average": "power.draw.average", "gpu.power.draw.instant": "power.draw.instant",
	"gpu.power.requested_limit": "power.limit", "gpu.power.current_limit": "enforced.power.limit",
	"retired_pages.sbe": "retired_pages.single_bit_ecc.count", "retired_pages.dbe": "retired_pages.double_bit.count",
	"remapped_rows.sbe": "remapped_rows.correctable", "remapped_rows.dbe": "remapped_rows.uncorrectable",
}

func canonical(field string) string {
	field = strings.ToLower(field)
	for _, p := range []string{"clocks_throttle_reasons", "clocks_event_reasons"} {
		if rest, ok := strings.CutPrefix(field, p); ok {
			return "clocks_event_reasons" + rest
		}
	}
	if a, ok := aliases[field]; ok {
		return a
	}
	return field
}

// target says which metric a field gives. Of several fields for one metric the lowest rank in the header wins.
type target struct {
	metric timeline.Metric
	unit   unit.Unit // when neither header nor value states one
	lo, hi float64   // in the base unit
	rank   int
}

const big = 1e18

var targets = map[string]target{
	"utilization.gpu": {timeline.SMBusy, "%", 0, 1, 0}, "utilization.memory": {timeline.MemBusy, "%", 0, 1, 0},
	"utilization.encoder": {timeline.EncBusy, "%", 0, 1, 0}, "utilization.decoder": {timeline.DecBusy, "%", 0, 1, 0},
	"utilization.jpeg": {timeline.JpgBusy, "%", 0, 1, 0}, "utilization.ofa": {timeline.OfaBusy, "%", 0, 1, 0},
	"power.draw": {timeline.Power, unit.Watt, 0, 20000, 0}, "power.draw.average": {timeline.Power, unit.Watt, 0, 20000, 1},
	"power.draw.instant": {timeline.Power, unit.Watt, 0, 20000, 2}, "enforced.power.limit": {timeline.PowerLimit, unit.Watt, 0, 20000, 0},
	"power.limit": {timeline.PowerLimit, unit.Watt, 0, 20000, 1}, "power.default_limit": {timeline.PowerDefault, unit.Watt, 0, 20000, 0},
	"temperature.gpu": {timeline.TempGPU, unit.Celsius, -50, 200, 0}, "temperature.memory": {timeline.TempMem, unit.Celsius, -50, 200, 0},
	"temperature.gpu.tlimit": {timeline.TempMargin, unit.Celsius, -200, 200, 0},
	"clocks.current.sm":      {timeline.ClockSM, "MHz", 0, 1e11, 0}, "clocks.current.graphics": {timeline.ClockSM, "MHz", 0, 1e11, 1},
	"clocks.max.sm": {timeline.ClockSMMax, "MHz", 0, 1e11, 0}, "clocks.max.graphics": {timeline.ClockSMMax, "MHz", 0, 1e11, 1},
	"clocks.current.memory": {timeline.ClockMem, "MHz", 0, 1e11, 0}, "clocks.max.memory": {timeline.ClockMemMax, "MHz", 0, 1e11, 0},
	"memory.used": {timeline.MemUsed, "MiB", 0, big, 0}, "memory.total": {timeline.MemTotal, "MiB", 0, big, 0},
	"fan.speed": {timeline.Fan, "%", 0, 2, 0}, "pstate": {timeline.PState, unit.Count, 0, 32, 0},
	"pcie.link.gen.current": {timeline.PCIeGen, unit.Count, 0, 16, 0}, "pcie.link.gen.gpucurrent": {timeline.PCIeGen, unit.Count, 0, 16, 1},
	"pcie.link.gen.max": {timeline.PCIeGenMax, unit.Count, 0, 16, 0}, "pcie.link.width.current": {timeline.PCIeWidth, unit.Count, 0, 64, 0},
	"pcie.link.width.max":                  {timeline.PCIeWidthMax, unit.Count, 0, 64, 0},
	"ecc.errors.corrected.aggregate.total": {timeline.ECCCorrected, unit.Count, 0, big, 0}, "ecc.errors.corrected.volatile.total": {timeline.ECCCorrected, unit.Count, 0, big, 1},
	"ecc.errors.uncorrected.aggregate.total": {timeline.ECCUncorrected, unit.Count, 0, big, 0}, "ecc.errors.uncorrected.volatile.total": {timeline.ECCVolUnc, unit.Count, 0, big, 0},
	"ecc.errors.corrected.volatile.sram": {timeline.ECCVolSRAMCorr, unit.Count, 0, big, 0}, "ecc.errors.uncorrected.volatile.sram": {timeline.ECCVolSRAMUnc, unit.Count, 0, big, 0},
	"ecc.errors.corrected.volatile.dram": {timeline.ECCVolDRAMCorr, unit.Count, 0, big, 0}, "ecc.errors.uncorrected.volatile.dram": {timeline.ECCVolDRAMUnc, unit.Count, 0, big, 0},
	"remapped_rows.correctable": {timeline.RemapCorr, unit.Count, 0, big, 0}, "remapped_rows.uncorrectable": {timeline.RemapUncorr, unit.Count, 0, big, 0},
	"remapped_rows.pending": {timeline.RemapPending, unit.Flag, 0, 1, 0}, "remapped_rows.failure": {timeline.RemapFailed, unit.Flag, 0, 1, 0},
	"retired_pages.single_bit_ecc.count": {timeline.RetiredSingle, unit.Count, 0, big, 0}, "retired_pages.double_bit.count": {timeline.RetiredDouble, unit.Count, 0, big, 0},
	"retired_pages.pending":                                 {timeline.RetirePending, unit.Flag, 0, 1, 0},
	"clocks_event_reasons_counters.sw_power_cap":            {timeline.ThrottlePower, "us", 0, big, 0},
	"clocks_event_reasons_counters.sw_thermal_slowdown":     {timeline.ThrottleSWThermal, "us", 0, big, 0},
	"clocks_event_reasons_counters.hw_thermal_slowdown":     {timeline.ThrottleHWThermal, "us", 0, big, 0},
	"clocks_event_reasons_counters.hw_power_brake_slowdown": {timeline.ThrottlePowerBrake, "us", 0, big, 0},
	"clocks_event_reasons_counters.sync_boost":              {timeline.ThrottleSyncBoost, "us", 0, big, 0},
	"clocks_event_reasons.active":                           {timeline.Reasons, unit.Count, 0, 1 << 52, 0},
}

// properties are kept as attributes, when they are first read and when they change: a count, or the maker's word.
var properties = map[string]struct {
	name string
	word bool
}{
	"remapped_rows.histogram.low": {timeline.AttrRemapBanksLow, false}, "remapped_rows.histogram.none": {timeline.AttrRemapBanksNone, false},
	"gpu_recovery_action": {timeline.AttrRecovery, true},
}

// reasonBits are the Active / Not Active columns; they make up the mask where .active was not queried.
var reasonBits = map[string]uint64{
	"clocks_event_reasons.gpu_idle": 0x1, "clocks_event_reasons.applications_clocks_setting": 0x2, "clocks_event_reasons.sw_power_cap": 0x4,
	"clocks_event_reasons.hw_slowdown": 0x8, "clocks_event_reasons.sync_boost": 0x10, "clocks_event_reasons.sw_thermal_slowdown": 0x20,
	"clocks_event_reasons.hw_thermal_slowdown": 0x40, "clocks_event_reasons.hw_power_brake_slowdown": 0x80,
}

var identity = []string{"timestamp", "index", "uuid", "name", "pci.bus_id", "compute_cap", "serial", "count", "driver_version", "vbios_version", "hostname"}

// families are fields whose values have no unit but are worth keeping under their name.
var families = []string{"ecc.errors.", "remapped_rows.", "retired_pages.", "temperature.", "pcie.", "utilization.", "clocks.", "power.", "memory."}

func isField(name string) bool {
	if slices.Contains(identity, name) {
		return true
	}
	if _, ok := targets[name]; ok {
		return true
	}
	if _, ok := reasonBits[name]; ok {
		return true
	}
	if _, ok := properties[name]; ok {
		return true
	}
	return slices.ContainsFunc(families, func(p string) bool { return strings.HasPrefix(name, p) })
}

// splitHeader cuts a header cell into its canonical field and unit.
func splitHeader(cell string) (field, u string) {
	cell = strings.TrimSpace(cell)
	if i := strings.IndexByte(cell, '['); i > 0 && strings.HasSuffix(cell, "]") {
		return canonical(strings.TrimSpace(cell[:i])), cell[i+1 : len(cell)-1]
	}
	return canonical(cell), ""
}

// isHeader tells a line of field names: every cell looks like one, and the known ones leave no doubt.
func isHeader(line string) bool {
	cells := strings.Split(line, ",")
	known, strong := 0, 0
	for _, c := range cells {
		f, u := splitHeader(c)
		if f == "" && len(cells) > 1 {
			continue
		}
		if !fieldLike(f) || f == "pid" || f == "process_name" || f == "used_gpu_memory" || f == "gpu_utilization" || strings.HasPrefix(f, "retired_pages.address") || f == "retired_pages.cause" {
			return false
		}
		if isField(f) {
			known++
			if strings.Contains(f, ".") || u != "" || f == "pstate" || f == "timestamp" || f == "uuid" {
				strong++
			}
		}
	}
	return strong > 0 && known*2 >= len(cells)-1 && (known > 1 || len(cells) == 1 && strings.Contains(strings.TrimSpace(line), "."))
}

func fieldLike(f string) bool {
	for i := range len(f) {
		c := f[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' && i > 0 || c == '_' || c == '.') {
			return false
		}
	}
	return f != ""
}

// sentences are what the tool says in place of data.
var sentences = []string{"No devices were found", "Unable to determine the device handle for GPU", "NVIDIA-SMI has failed because it couldn't communicate",
	"Failed to initialize NVML", "is not a valid field to query"}

func isSentence(line string) bool {
	return slices.ContainsFunc(sentences, func(s string) bool { return strings.Contains(line, s) })
}

func recognise(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		s := string(bytes.TrimSpace(line))
		if s == "" {
			continue
		}
		if n++; n > 20 {
			return false
		}
		if isHeader(s) {
			return true
		}
		if strings.HasPrefix(s, "#") || strings.HasPrefix(s, "=") || strings.HasPrefix(s, "+-") || strings.HasPrefix(s, "{") || strings.HasPrefix(s, "<") {
			return false
		}
		if n <= 3 && isSentence(s) {
			return true
		}
	}
	return false
}

type column struct {
	field  string
	unit   string // as the header states it
	target target
	use    use
	bit    uint64
}

type use uint8

const (
	useNothing use = iota
	useNumber
	useMask
	useBit
	useFlag // Yes or No
	useProperty
	useTime
	useIndex
	useUUID
	useName
	useBus
	useCC
)

type gpu struct {
	track  timeline.TrackID
	dev    timeline.DeviceID
	series []int
	said   map[string]string // properties, as they were last
	mask   int               // series of the reasons' mask, -1 none yet
	lost   bool
	cycle  int
	rows   int
	util   bool // it showed a utilisation
	shown  string
}

type reader struct {
	in     *ingest.Input
	b      *timeline.Builder
	src    timeline.SourceID
	header string
	sep    string
	cols   []column
	name   int // column of free text, -1 none
	key    []int

	walls    map[string]*ingest.WallClock
	wall     *ingest.WallClock
	timed    bool
	untimed  bool
	coarse   bool
	cycle    int
	nth      int // rows so far in this cycle, where no field says which GPU
	many     bool
	raw      timeline.Time // stamp of the last row as written
	period   timeline.Time
	rows     int64
	said     bool // a sentence in place of data
	util     bool
	unkept   map[string]bool
	gpus     map[string]*gpu
	ids      []ident
	messages timeline.TrackID
}

// ident is what is known of a device, for rows that state only part of it.
type ident struct {
	label, uuid, bus, index string
	g                       *gpu
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, src: in.Source, walls: map[string]*ingest.WallClock{}, wall: &ingest.WallClock{}, period: 1e9, cycle: -1,
		unkept: map[string]bool{}, gpus: map[string]*gpu{}, messages: -1, raw: -1}
	if p, ok := in.Opt.Set["period"]; ok {
		d, err := strconv.ParseFloat(p, 64)
		if err != nil || !(d > 0 && d < 1e6) {
			return fmt.Errorf("--set period=%s: not a number of seconds: say --set period=1", p)
		}
		r.period = timeline.Time(d * 1e9)
	}
	if err := ingest.NewLines(f).Each(ctx, in, "smiquery", r.line); err != nil {
		return err
	}
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	text := strings.TrimSpace(string(l.Text))
	switch {
	case text == "":
		return
	case l.Long:
		r.in.Report("smiquery/long-line", timeline.DataLoss, l.Row, "a line of more than 1 MiB: skipped")
		return
	case text == r.header:
		return
	case isHeader(text) && l.Ended:
		r.setHeader(text)
		return
	}
	if r.cols == nil || isSentence(text) {
		r.message(text, l.Row)
		return
	}
	cells, ok := r.split(text, l.Row)
	if !ok {
		return
	}
	if !l.Ended {
		r.in.Report("smiquery/unterminated-row", timeline.Info, l.Row, "the file ends without a line feed: the last cell may be cut and is left out")
		if cells[len(cells)-1] = ""; len(cells) == 1 {
			return
		}
	}
	r.row(cells, l)
}

// message keeps a sentence that stands where a row should.
func (r *reader) message(text string, row uint64) {
	shown := text[:min(len(text), 200)]
	if !isSentence(text) {
		r.in.Report("smiquery/stray-line", timeline.Info, row, "not a row of the table: %q", shown)
		return
	}
	r.said = true
	r.in.Report("smiquery/diagnosis", timeline.DataLoss, row, "nvidia-smi said: %q", shown)
	if r.messages < 0 {
		r.messages = r.b.Track(timeline.Track{Source: r.src, Proc: -1, Device: -1, Thread: -1, Name: "messages"})
	}
	kind := timeline.MarkReadFailed
	if strings.Contains(text, "is lost") || strings.Contains(text, "fallen off") {
		kind = timeline.MarkGPULost
	}
	at, _ := r.wall.Last()
	r.b.AddMark(kind, r.messages, at, shown, uint32(row))
}

func (r *reader) setHeader(line string) {
	r.header = line
	r.sep = ","
	if strings.Contains(line, ", ") {
		r.sep = ", "
	}
	cells := strings.Split(line, r.sep)
	r.cols = make([]column, len(cells))
	r.name, r.key = -1, nil
	best := map[string]int{} // metric to column
	for i, cell := range cells {
		c := &r.cols[i]
		c.field, c.unit = splitHeader(cell)
		switch c.field {
		case "timestamp":
			c.use = useTime
		case "index":
			c.use = useIndex
		case "uuid":
			c.use = useUUID
		case "name":
			c.use = useName
			r.name = i
		case "pci.bus_id":
			c.use = useBus
		case "compute_cap":
			c.use = useCC
		default:
			r.choose(c)
		}
		if c.use == useNumber || c.use == useMask || c.use == useFlag {
			if j, ok := best[c.target.metric.Name]; !ok || c.target.rank < r.cols[j].target.rank {
				if ok {
					r.cols[j].use = useNothing
				}
				best[c.target.metric.Name] = i
			} else {
				c.use = useNothing
			}
		}
	}
	if _, ok := best[timeline.Reasons.Name]; ok {
		for i := range r.cols {
			if r.cols[i].use == useBit {
				r.cols[i].use = useNothing
			}
		}
	}
	for _, g := range r.gpus {
		g.series = unset(len(r.cols))
	}
}

func (r *reader) choose(c *column) {
	if t, ok := targets[c.field]; ok {
		c.target, c.use = t, useNumber
		switch {
		case c.field == "clocks_event_reasons.active":
			c.use = useMask
		case t.unit == unit.Flag:
			c.use = useFlag
		}
		if c.field == "utilization.gpu" {
			r.util = true
		}
		return
	}
	if bit, ok := reasonBits[c.field]; ok {
		c.use, c.bit = useBit, bit
		return
	}
	if _, ok := properties[c.field]; ok {
		c.use, c.target = useProperty, target{metric: timeline.Metric{Unit: unit.Count}, unit: unit.Count, hi: big}
		return
	}
	u, hasUnit := ingest.UnitOf(c.unit)
	base, _ := unit.Base(u)
	if !hasUnit {
		if !slices.ContainsFunc(families, func(p string) bool { return strings.HasPrefix(c.field, p) }) {
			return
		}
		u, base = unit.Count, unit.Count
	}
	name := "smi_" + strings.NewReplacer(".", "_", " ", "_").Replace(c.field) + "_" + string(base)
	c.target = target{metric: timeline.Metric{Name: name, Unit: base}, unit: u, lo: -big, hi: big}
	if c.use = useNumber; !hasUnit {
		c.use = useFlag
	}
}

func unset(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

// split cuts a row into as many cells as the header has. nvidia-smi quotes nothing: a comma inside the name makes more cells, which are
// joined again around it; a decimal comma has no blank behind it.
func (r *reader) split(text string, row uint64) ([]string, bool) {
	n := len(r.cols)
	cells := strings.Split(text, r.sep)
	if r.sep == ", " && len(cells) < n { // blanks were squeezed, or a cell is empty
		if bare := strings.Split(text, ","); len(bare) == n {
			cells = bare
		}
	}
	if extra := len(cells) - n; extra > 0 && r.sep == "," {
		cells = r.joinDecimals(cells, n)
	}
	if extra := len(cells) - n; extra > 0 && r.name >= 0 {
		joined := strings.Join(cells[r.name:r.name+extra+1], r.sep)
		cells = slices.Concat(cells[:r.name], []string{joined}, cells[r.name+extra+1:])
	}
	switch {
	case len(cells) < n && !r.looksLikeRow(cells):
		r.in.Report("smiquery/stray-line", timeline.Info, row, "not a row of the table: %q", text[:min(len(text), 120)])
		return nil, false
	case len(cells) < n:
		r.in.Report("smiquery/short-row", timeline.DataLoss, row, "row has %d fields, header has %d: the log was cut while writing; row dropped", len(cells), n)
		return nil, false
	case len(cells) > n:
		r.in.Report("smiquery/long-row", timeline.DataLoss, row, "row has %d fields, header has %d: row dropped", len(cells), n)
		return nil, false
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, true
}

// joinDecimals undoes decimal commas where the value's unit shows them: "21" and "82 W".
func (r *reader) joinDecimals(cells []string, n int) []string {
	out := make([]string, 0, len(cells))
	for i := 0; i < len(cells); i++ {
		c := cells[i]
		if k := len(out); k < n && len(cells)-i > n-k && i+1 < len(cells) && r.cols[k].use == useNumber && r.cols[k].unit != "" {
			next := cells[i+1]
			if allDigits(strings.TrimSpace(c)) && next != "" && next[0] >= '0' && next[0] <= '9' && strings.HasSuffix(strings.TrimSpace(next), r.cols[k].unit) {
				c += "," + next
				i++
			}
		}
		out = append(out, c)
	}
	return out
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// looksLikeRow tells a cut row from a message of a shell or a library.
func (r *reader) looksLikeRow(cells []string) bool {
	c := strings.TrimSpace(cells[0])
	switch r.cols[0].use {
	case useTime:
		return len(c) > 0 && c[0] >= '0' && c[0] <= '9'
	case useUUID:
		return strings.HasPrefix("GPU-", c[:min(4, len(c))]) || strings.HasPrefix(c, "MIG-")
	}
	return len(cells) > 1 || len(c) > 0 && c[0] >= '0' && c[0] <= '9'
}

// sentinel tells what a cell without a value means.
type sentinel uint8

const (
	isValue sentinel = iota
	isAbsent
	isFailed
	isLost
)

func sentinelOf(cell string) sentinel {
	if cell == "" {
		return isAbsent
	}
	switch c := cell[0]; {
	case c >= '0' && c <= '9', c == '-' && len(cell) > 1, c == 'P':
		return isValue
	}
	switch strings.ToLower(strings.TrimSpace(strings.Trim(cell, "[]"))) {
	case "n/a", "-", "not supported", "requested functionality has been deprecated", "insufficient permissions", "not available", "none":
		return isAbsent
	case "unknown error", "err!", "unknown", "error":
		return isFailed
	case "gpu is lost", "gpu requires reset", "reset required":
		return isLost
	}
	return isValue
}

func (r *reader) row(cells []string, l *ingest.Lines) {
	row := l.Row
	at, ok := r.at(cells, l)
	if !ok {
		return
	}
	g := r.gpuOf(cells, l.Label)
	if g == nil {
		r.in.Report("smiquery/many-gpus", timeline.DataLoss, row, "a GPU more than the %d that one log may have: its rows are dropped", ingest.MaxGPUs)
		return
	}
	if !r.timed {
		at = r.order(g)
	}
	r.rows++
	g.rows++
	var mask uint64
	bits, failed, lost := 0, "", ""
	for i := range r.cols {
		c := &r.cols[i]
		if c.use == useNothing || c.use == useTime {
			continue
		}
		if c.use == useProperty && properties[c.field].word && strings.EqualFold(cells[i], "none") { // here a value
			r.property(g, c, at, cells[i], row)
			continue
		}
		switch sentinelOf(cells[i]) {
		case isAbsent:
			continue
		case isFailed:
			if failed == "" {
				failed = c.field + ": " + cells[i]
			}
			continue
		case isLost:
			lost = cells[i]
			continue
		}
		if c.use > useTime {
			continue // identity
		}
		if c.use == useProperty {
			r.property(g, c, at, cells[i], row)
			continue
		}
		if c.use == useBit {
			switch strings.ToLower(cells[i]) {
			case "active":
				mask |= c.bit
				bits++
			case "not active":
				bits++
			default:
				r.in.Report("smiquery/bad-value", timeline.DataLoss, row, "field %s: %q is neither Active nor Not Active: reading dropped", c.field, clip(cells[i]))
			}
			continue
		}
		v, ok := r.value(c, cells[i], row)
		if !ok {
			continue
		}
		if g.series[i] < 0 {
			g.series[i] = r.b.SeriesOf(c.target.metric, g.track)
		}
		if !r.b.Reading(g.series[i], at, v, uint32(row)) {
			r.in.Report("smiquery/repeated-stamp", timeline.Info, row, "%s has two rows at one instant: the first stands", g.shown)
			return
		}
		g.util = g.util || c.field == "utilization.gpu"
		r.constants(g, c, v)
	}
	if bits > 0 {
		if g.mask < 0 {
			g.mask = r.b.SeriesOf(timeline.Reasons, g.track)
		}
		r.b.Reading(g.mask, at, float64(mask), uint32(row))
	}
	if lost != "" && !g.lost {
		r.b.AddMark(timeline.MarkGPULost, g.track, at, lost, uint32(row))
		r.in.Report("smiquery/gpu-lost", timeline.DataLoss, row, "%s: %s: look for its Xid in the kernel log", g.shown, lost)
	}
	g.lost = lost != ""
	if failed != "" {
		r.b.AddMark(timeline.MarkReadFailed, g.track, at, failed, uint32(row))
		r.in.Report("smiquery/failed-reading", timeline.DataLoss, row, "%s: %s", g.shown, clip(failed))
	}
}

func clip(s string) string { return s[:min(len(s), 60)] }

// property keeps what changes seldom.
func (r *reader) property(g *gpu, c *column, at timeline.Time, cell string, row uint64) {
	p := properties[c.field]
	if g.said[c.field] == cell {
		return
	}
	if p.word {
		r.b.AddAttr(g.track, p.name, clip(cell), at, uint32(row))
	} else if v, ok := r.value(c, cell, row); ok {
		r.b.AddNumber(g.track, p.name, v, unit.Count, at, uint32(row))
	} else {
		return
	}
	if g.said == nil {
		g.said = map[string]string{}
	}
	g.said[c.field] = cell
}

// constants copies to the device what never changes.
func (r *reader) constants(g *gpu, c *column, v float64) {
	if c.field == "memory.total" {
		r.b.TL.Devices[g.dev].Memory = int64(v)
	}
}

// value parses a cell into the base unit.
func (r *reader) value(c *column, cell string, row uint64) (float64, bool) {
	bad := func(why string) (float64, bool) {
		r.in.Report("smiquery/bad-value", timeline.DataLoss, row, "field %s: %q %s: reading dropped", c.field, clip(cell), why)
		return 0, false
	}
	switch c.use {
	case useMask:
		hex, ok := strings.CutPrefix(strings.ToLower(cell), "0x")
		v, err := strconv.ParseUint(hex, 16, 64)
		if !ok || err != nil {
			return bad("is no hexadecimal mask")
		}
		if v >= 1<<53 {
			return bad("has bits that nobody knows")
		}
		return float64(v), true
	case useFlag:
		switch strings.ToLower(cell) {
		case "yes":
			return 1, true
		case "no":
			return 0, true
		}
	}
	num, suffix := cell, ""
	if i := strings.IndexByte(cell, ' '); i > 0 {
		num, suffix = cell[:i], strings.TrimSpace(cell[i+1:])
	}
	if c.target.metric.Name == timeline.PState.Name {
		num = strings.TrimPrefix(num, "P")
	}
	num = strings.TrimSuffix(num, "x") // link width, as -q prints it
	if strings.Count(num, ",") == 1 {
		num = strings.Replace(num, ",", ".", 1)
		r.in.Report("smiquery/decimal-comma", timeline.Info, row, "field %s: %q is read with a decimal comma", c.field, clip(cell))
	}
	v, err := strconv.ParseFloat(num, 64)
	if c.target.unit == unit.Flag {
		return bad("is neither Yes nor No")
	}
	if err != nil {
		if c.use == useFlag {
			return 0, false // a word, not a number
		}
		return bad("is no number")
	}
	u, known := c.target.unit, true
	if suffix = cmp.Or(suffix, c.unit); suffix != "" {
		u, known = ingest.UnitOf(suffix)
	}
	v, base, err := unit.ToBase(v, u)
	if !known || err != nil || base != c.target.metric.Unit {
		return bad("has a unit that does not fit")
	}
	if !(v >= c.target.lo && v <= c.target.hi) {
		return bad("cannot be")
	}
	return v, true
}

// at parses the row's stamp.
func (r *reader) at(cells []string, l *ingest.Lines) (timeline.Time, bool) {
	i := slices.IndexFunc(r.cols, func(c column) bool { return c.use == useTime })
	if i < 0 {
		r.untimed = true
		return 0, true
	}
	stamp, ms, ok := parseStamp(cells[i])
	if !ok {
		r.in.Report("smiquery/bad-time", timeline.DataLoss, l.Row, "timestamp %q is not YYYY/MM/DD HH:MM:SS.mmm: row dropped", clip(cells[i]))
		return 0, false
	}
	r.timed, r.coarse = true, r.coarse || !ms
	if r.wall = r.walls[l.Label]; r.wall == nil {
		r.wall = &ingest.WallClock{}
		r.walls[l.Label] = r.wall
	}
	if d := stamp - r.raw; r.raw >= 0 && d >= 0 && d <= 5e6 {
		r.nth++
	} else {
		r.nth = 0
	}
	r.raw = stamp
	before, _ := r.wall.Last()
	at, step := r.wall.At(stamp)
	if step == ingest.StepNone {
		return at, true
	}
	return at, ingest.ReportStep(r.in, r.b, "smiquery", step, before, at, l.Row)
}

// order counts cycles where rows have no time: a cycle ends when a GPU comes again.
func (r *reader) order(g *gpu) timeline.Time {
	if r.cycle < 0 || g.cycle >= r.cycle {
		r.cycle++
	}
	g.cycle = r.cycle
	return timeline.Time(r.cycle) * r.period
}

// parseStamp reads 2026/07/14 08:12:53.123; ms tells that it had a fraction.
func parseStamp(s string) (at timeline.Time, ms, ok bool) {
	if len(s) < 19 || s[4] != s[7] || s[4] != '/' && s[4] != '-' || s[10] != ' ' && s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false, false
	}
	var n [6]int
	for i, part := range [6]string{s[:4], s[5:7], s[8:10], s[11:13], s[14:16], s[17:19]} {
		if !allDigits(part) {
			return 0, false, false
		}
		n[i], _ = strconv.Atoi(part)
	}
	if n[0] < 1990 || n[0] > 2200 || n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 31 || n[3] > 23 || n[4] > 59 || n[5] > 60 {
		return 0, false, false
	}
	t := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], 0, time.UTC).UnixNano()
	if frac := s[19:]; frac != "" {
		if frac[0] != '.' && frac[0] != ',' || len(frac) > 10 || !allDigits(frac[1:]) {
			return 0, false, false
		}
		v, _ := strconv.ParseInt((frac[1:] + "00000000")[:9], 10, 64)
		t += v
		ms = true
	}
	return timeline.Time(t), ms, true
}

// gpuOf finds the device of a row by the identity that its fields state.
func (r *reader) gpuOf(cells []string, label string) *gpu {
	id := ident{label: label}
	name, cc := "", ""
	for i := range r.cols {
		c := cells[i]
		if r.cols[i].use < useIndex || sentinelOf(c) != isValue {
			continue
		}
		switch r.cols[i].use {
		case useIndex:
			if allDigits(c) && len(c) < 5 {
				id.index = c
			}
		case useUUID:
			if strings.Trim(c, "GPUMI-0") != "" { // zeros: somebody masked it
				id.uuid = c
			}
		case useBus:
			id.bus = normalBus(c)
		case useName:
			name = c
		case useCC:
			cc = c
		}
	}
	key := id.uuid
	if key == "" {
		key = id.bus
	}
	if key == "" && id.index != "" {
		key = "index " + id.index
	}
	if key == "" {
		// No field says which GPU. nvidia-smi prints the GPUs of a cycle in the order of their index, within milliseconds.
		key = "row " + strconv.Itoa(r.nth)
		r.many = r.many || r.nth > 0
	}
	key = label + "\x00" + key
	if g, ok := r.gpus[key]; ok {
		return g
	}
	// A lost GPU may state only part of what it stated before.
	for _, o := range r.ids {
		if o.label == label && (id.uuid == "" || o.uuid == "" || id.uuid == o.uuid) && (id.index != "" && id.index == o.index || id.bus != "" && id.bus == o.bus) {
			r.gpus[key] = o.g
			return o.g
		}
	}
	if len(r.ids) >= ingest.MaxGPUs {
		return nil
	}
	d := timeline.Device{Index: -1, Ordinal: -1, Source: r.src, Proc: -1, Vendor: "nvidia", UUID: id.uuid, Bus: id.bus, Name: name, CC: cc}
	shown := "GPU"
	switch {
	case id.index != "":
		d.Index, _ = strconv.Atoi(id.index)
		shown = "GPU " + id.index
	case id.uuid != "":
		shown = id.uuid
	case id.bus != "":
		shown = "GPU " + id.bus
	case r.nth > 0:
		shown = "GPU row " + strconv.Itoa(r.nth)
	}
	if label != "" {
		shown = label + ": " + shown
	}
	g := &gpu{dev: timeline.DeviceID(len(r.b.TL.Devices)), series: unset(len(r.cols)), mask: -1, cycle: -1, shown: shown}
	g.track = r.b.GPUTrack(d, shown)
	r.gpus[key] = g
	id.g = g
	r.ids = append(r.ids, id)
	return g
}

// normalBus turns 00000000:17:00.0 into 0000:17:00.
func normalBus(s string) string {
	s = strings.ToLower(s)
	if i := strings.LastIndexByte(s, '.'); i > 0 {
		s = s[:i]
	}
	dom, rest, ok := strings.Cut(s, ":")
	if !ok || !strings.Contains(rest, ":") {
		return s
	}
	dom = strings.TrimLeft(dom, "0")
	return strings.Repeat("0", max(0, 4-len(dom))) + dom + ":" + rest
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows = r.rows
	src.Covers = timeline.Instant.String()
	if r.util {
		src.Covers = timeline.WindowBefore.String()
	}
	switch {
	case r.cols == nil && r.said:
		r.b.AddClock(r.src, timeline.Clock{Name: src.Path, Why: "no rows"})
		return nil
	case r.cols == nil:
		return fmt.Errorf("no header line of query fields: record again without noheader")
	case r.rows == 0 && !r.said:
		return fmt.Errorf("a header and no row that can be read: record again, and let it run")
	}
	c := timeline.Clock{Name: src.Path}
	if r.timed {
		c.Wall, c.Step, c.Error = true, time.Millisecond, time.Second+5*time.Millisecond
		c.Why = "wall clock in milliseconds, zone not stated; utilisation looks back over up to a second"
		if r.coarse {
			c.Step, c.Error = time.Second, 2*time.Second
			c.Why = "wall clock in whole seconds, zone not stated; utilisation looks back over up to a second more"
		}
		if r.untimed {
			r.in.Report("smiquery/mixed-times", timeline.DataLoss, 1, "only some rows have a timestamp: runs with different fields were appended; record each to a file of its own")
		}
	} else {
		c.Why = "timestamp was not queried: rows have an order and no time; shown on an axis of its own, one second a cycle"
		if _, ok := r.in.Opt.Set["period"]; ok {
			c.Why = fmt.Sprintf("timestamp was not queried: rows have an order and no time; shown on an axis of its own, %g s a cycle as --set period says", float64(r.period)/1e9)
		}
		if r.rows > 0 {
			r.in.Report("smiquery/no-time", timeline.DataLoss, 1, "the log has no times: it can be put beside nothing else; add timestamp to the fields")
		}
	}
	r.b.AddClock(r.src, c)
	for _, id := range r.ids {
		if g := id.g; r.util && g.rows > 0 && !g.util {
			r.in.Report("smiquery/hidden-utilisation", timeline.DataLoss, 1, "%s: utilization.gpu is absent in every row: MIG hides it (or the product does not support it); this is not an idle GPU", g.shown)
		}
	}
	if r.many {
		r.in.Report("smiquery/no-identity", timeline.Info, 1, "no field says which GPU a row is of: told apart by their order in each cycle (assumed); add index,uuid to the fields")
	}
	return nil
}
