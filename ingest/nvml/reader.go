package nvml

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Bounds of what one file may claim.
const (
	maxCPUs  = 8192
	maxNamed = 1024 // disks, ports, nodes
	maxProcs = 65536
	maxGroup = 4096
)

// session is what one header began: a recording, or the part of one.
type session struct {
	row  uint32 // of its header
	base int64  // its start, Unix ns; what its stamps were moved by on the way in
	clk  []clk

	booted int64 // when the host did, on the session's clock; 0 unknown

	watched bool          // Xids of every GPU would have been told
	to      timeline.Time // its last record, not moved yet
	last    uint32        // and the row of that
}

// clk is one reading of the clock: wall minus monotonic at t.
type clk struct{ t, off, unc int64 }

type reader struct {
	in  *ingest.Input
	b   *timeline.Builder
	src timeline.SourceID
	row uint32

	host     timeline.TrackID // -1 not made
	skip     bool             // records of another host
	sessions []session
	wide     time.Duration
	period   time.Duration
	slow     time.Duration
	hz       float64
	samples  int64
	ended    bool
	boot     []int64 // boot instants that clk gave, Unix ns
	said     map[string]bool
	again    bool // records that ended the part before: what their counters were, and no new readings

	gpus   map[int64]*gpu
	byUUID map[string]*gpu
	order  []*gpu
	cpus   map[int64]*thing
	named  map[string]*thing // disks, interfaces, ports and nodes by kind and name
	procs  map[int64]*proc
	groups map[int64]*thing
	hostC  thing
	series map[seriesKey]int
	wall   map[int]bool // series whose stamps are Unix time already
	util   bool
}

type seriesKey struct {
	track  timeline.TrackID
	metric string
}

// thing is a subject with counters: what they were at the last reading, by the key of the array.
type thing struct {
	track timeline.TrackID
	last  map[string]reading
	oom   num
}

// reading is an array of counters at an instant.
type reading struct {
	t int64
	v nums
}

type gpu struct {
	thing
	index int64
	dev   timeline.DeviceID
	shown string
	uuid  string
	lost  bool
	util  bool
	rows  int64
	code  map[string]int64 // of readings that fail
	users map[int64]*thing // processes on it, by pid
}

type proc struct {
	thing
	start int64
	comm  string
	group int64
}

func newReader(in *ingest.Input, b *timeline.Builder) *reader {
	return &reader{in: in, b: b, src: in.Source, host: -1, period: time.Second, wide: time.Second, slow: 10 * time.Second, hz: 100, said: map[string]bool{},
		gpus: map[int64]*gpu{}, byUUID: map[string]*gpu{}, cpus: map[int64]*thing{}, named: map[string]*thing{}, procs: map[int64]*proc{}, groups: map[int64]*thing{},
		series: map[seriesKey]int{}, wall: map[int]bool{}, hostC: thing{track: -1}}
}

// line reads one record. whole is false for a last line without its line feed.
func (r *reader) line(line []byte, whole bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	kind, ok := kindOf(line)
	if !ok {
		r.bad(line, whole)
		return
	}
	if kind == "hdr" {
		r.header(line, whole)
		return
	}
	if r.skip {
		return
	}
	switch kind {
	case "clk":
		decode(r, line, whole, func(c *clkRec) num { return c.T }, r.clk)
	case "host":
		decode(r, line, whole, func(c *hostRec) num { return c.T }, r.describeHost)
	case "gpu":
		decode(r, line, whole, func(c *gpuRec) num { return c.T }, r.describeGPU)
	case "topo":
		decode(r, line, whole, func(c *topoRec) num { return c.T }, r.topology)
	case "g":
		decode(r, line, whole, func(c *gRec) num { return c.T }, r.gpuFast)
	case "gs":
		decode(r, line, whole, func(c *gsRec) num { return c.T }, r.gpuRing)
	case "gl":
		decode(r, line, whole, func(c *glRec) num { return c.T }, r.gpuSlow)
	case "pu":
		decode(r, line, whole, func(c *puRec) num { return c.T }, r.gpuUsers)
	case "h":
		decode(r, line, whole, func(c *hRec) num { return c.T }, r.hostFast)
	case "hl":
		decode(r, line, whole, func(c *hlRec) num { return c.T }, r.hostSlow)
	case "cgroup":
		decode(r, line, whole, func(c *cgroupRec) num { return c.T }, r.describeGroup)
	case "cg":
		decode(r, line, whole, func(c *cgRec) num { return c.T }, r.group)
	case "proc":
		decode(r, line, whole, func(c *procRec) num { return c.T }, r.describeProc)
	case "pr":
		decode(r, line, whole, func(c *prRec) num { return c.T }, r.processes)
	case "ib":
		decode(r, line, whole, func(c *ibRec) num { return c.T }, r.infiniband)
	case "ev":
		decode(r, line, whole, func(c *evRec) num { return c.T }, r.event)
	case "again":
		decode(r, line, whole, func(c *againRec) num { return c.T }, func(_ int64, c *againRec) { r.again = c.On.ok && c.On.v })
	case "next": // the part is whole, and another follows
		r.ended = true
	case "end":
		decode(r, line, whole, func(c *endRec) num { return c.T }, r.end)
	}
}

func decode[T any](r *reader, line []byte, whole bool, t func(*T) num, use func(int64, *T)) {
	var rec T
	if err := json.Unmarshal(line, &rec, lenient); err != nil {
		r.bad(line, whole)
		return
	}
	at := t(&rec)
	const far = int64(200 * 365 * 24 * time.Hour)
	if !at.ok || at.v < -far || at.v > far {
		r.in.Report("gpureport-record/bad-time", timeline.DataLoss, uint64(r.row), "a record without t, its ns since the start: dropped")
		return
	}
	if len(r.sessions) == 0 {
		r.sessions = append(r.sessions, session{row: r.row})
		r.in.Report("gpureport-record/no-header", timeline.DataLoss, uint64(r.row), "the capture begins without its header: its start is lost")
	}
	s := &r.sessions[len(r.sessions)-1]
	if t := timeline.Time(s.base + at.v); t >= s.to {
		s.to, s.last = t, r.row
	}
	repeated := r.again
	use(s.base+at.v, &rec)
	if !repeated && !r.again {
		r.samples++
	}
}

func (r *reader) bad(line []byte, whole bool) {
	if !whole {
		r.in.Report("gpureport-record/cut-line", timeline.Info, uint64(r.row), "the last line is cut: the recorder was killed, or the file is still being written; what lies before it is read")
		return
	}
	r.in.Report("gpureport-record/bad-record", timeline.DataLoss, uint64(r.row), "not a record: %q: dropped", clip(string(line)))
}

func clip(s string) string { return s[:min(len(s), 60)] }

func (r *reader) header(line []byte, whole bool) {
	var h hdrRec
	if json.Unmarshal(line, &h, lenient) != nil {
		r.bad(line, whole)
		return
	}
	if h.V.v > 1 {
		r.in.Report("gpureport-record/newer-version", timeline.DataLoss, uint64(r.row), "version %d of the format, and this program knows version 1: what it knows is read; use a newer gpureport", h.V.v)
	}
	src := &r.b.TL.Sources[r.src]
	switch {
	case src.Host == "":
		src.Host = string(h.Host)
	case h.Host != "" && string(h.Host) != src.Host:
		if !r.skip {
			r.in.Report("gpureport-record/several-hosts", timeline.DataLoss, uint64(r.row), "captures of several hosts were put into one file: only that of %s is read; keep a file for each", clip(src.Host))
		}
		r.skip = true
		return
	}
	r.skip = false
	s := session{row: r.row, watched: h.Xids.ok && h.Xids.v}
	if h.Start.v > 0 {
		s.base = h.Start.v
	}
	r.sessions = append(r.sessions, s)
	for _, x := range []struct {
		n  num
		to *time.Duration
	}{{h.Period, &r.period}, {h.Wide, &r.wide}, {h.Slow, &r.slow}} {
		if x.n.v > 0 && x.n.v < int64(24*time.Hour) {
			*x.to = time.Duration(x.n.v)
		}
	}
	if h.HZ.v > 0 && h.HZ.v <= 10000 {
		r.hz = float64(h.HZ.v)
	}
	r.forget()
	r.again = false
	r.samples++
	r.ended = false
	at := timeline.Time(s.base)
	r.text(r.hostTrack(), timeline.AttrDriver, string(h.Driver), at)
	r.text(r.hostTrack(), timeline.AttrCUDA, string(h.CUDA), at)
	if h.Boot != "" || h.PID.ok {
		r.text(r.hostTrack(), timeline.AttrSession, fmt.Sprintf("%s %d %d", h.Boot, h.PID.v, h.Start.v), at)
	}
	r.number(r.hostTrack(), timeline.AttrPeriod, r.period.Seconds(), unit.Second, at)
	if h.Zone.ok && h.Zone.v >= -14*3600 && h.Zone.v <= 14*3600 {
		r.number(r.hostTrack(), timeline.AttrZone, float64(h.Zone.v), unit.Second, at)
	}
}

// forget lets the last readings go: counters of another session are no neighbours.
func (r *reader) forget() {
	for _, g := range r.order {
		g.last = nil
		for _, u := range g.users {
			u.last = nil
		}
	}
	for _, t := range r.cpus {
		t.last = nil
	}
	for _, t := range r.named {
		t.last = nil
	}
	for _, p := range r.procs {
		p.last = nil
	}
	for _, t := range r.groups {
		t.last = nil
	}
	r.hostC.last = nil
}

func (r *reader) clk(at int64, c *clkRec) {
	if !c.Unix.ok || c.Unix.v < 0 || c.Unix.v > 1<<62 {
		return
	}
	s := &r.sessions[len(r.sessions)-1]
	s.clk = append(s.clk, clk{c.T.v, c.Unix.v - c.T.v, max(c.Unc.v, 0)})
	if c.Boot.ok && c.Boot.v > 0 && c.Boot.v <= c.Unix.v {
		r.boot = append(r.boot, c.Unix.v-c.Boot.v)
		s.booted = c.T.v - c.Boot.v
	}
}

func (r *reader) hostTrack() timeline.TrackID {
	if r.host < 0 {
		r.host = r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: r.b.TL.Sources[r.src].Host})
		r.hostC.track = r.host
	}
	return r.host
}

// text and number state something of a subject once: the parts and sessions of a file repeat themselves.
func (r *reader) text(t timeline.TrackID, name, value string, at timeline.Time) {
	if value != "" && r.once(t, name+"\x00"+value) {
		r.b.AddAttr(t, name, value, at, r.row)
	}
}

func (r *reader) number(t timeline.TrackID, name string, v float64, u unit.Unit, at timeline.Time) {
	if r.once(t, name+"\x00"+strconv.FormatFloat(v, 'g', -1, 64)) {
		r.b.AddNumber(t, name, v, u, at, r.row)
	}
}

func (r *reader) once(t timeline.TrackID, what string) bool {
	k := strconv.Itoa(int(t)) + "\x00" + what
	if r.said[k] {
		return false
	}
	r.said[k] = true
	return true
}

// put adds a reading. Of records that are repeated only running totals are: without the first, what they rose by until the second would be lost.
func (r *reader) put(t timeline.TrackID, m timeline.Metric, at int64, v float64) {
	if r.again {
		if m.Covers != timeline.RunningTotal {
			return
		}
		// Where the parts were put into one file, it is there.
		if s := r.b.TL.Series[r.seriesOf(t, m)].At; len(s) > 0 && s[len(s)-1] >= timeline.Time(at) {
			return
		}
	}
	r.b.Reading(r.seriesOf(t, m), timeline.Time(at), v, r.row)
}

func (r *reader) seriesOf(t timeline.TrackID, m timeline.Metric) int {
	k := seriesKey{t, m.Name}
	i, ok := r.series[k]
	if !ok {
		i = len(r.b.TL.Series)
		r.b.TL.Series = append(r.b.TL.Series, timeline.Series{Metric: m, Track: t})
		r.series[k] = i
	}
	return i
}

// scaled adds n times scale where it was measured and can be.
func (r *reader) scaled(t timeline.TrackID, m timeline.Metric, at int64, n num, scale, lo, hi float64) {
	if !n.ok {
		return
	}
	var v float64
	if scale < 1 {
		v = float64(n.v) / math.Round(1/scale)
	} else {
		v = float64(n.v) * scale
	}
	if v < lo || v > hi {
		if r.again { // said already
			return
		}
		r.in.Report("gpureport-record/impossible-value", timeline.DataLoss, uint64(r.row), "%s of %g %s cannot be: reading dropped", m.Name, v, m.Unit)
		return
	}
	r.put(t, m, at, v)
}

// over is m over the time between readings d apart.
func over(m timeline.Metric, d time.Duration) timeline.Metric {
	m.Window = d
	return m
}

// step gives what the counters v rose by since the last reading under key, and the time between. ok is false for the first reading,
// and where no time has passed; an element that is missing, or fell, is missing in the result.
func (t *thing) step(key string, at int64, v nums) (d nums, dt float64, ok bool) {
	if t.last == nil {
		t.last = map[string]reading{}
	}
	last, had := t.last[key]
	t.last[key] = reading{at, v}
	if !had || at <= last.t {
		return nil, 0, false
	}
	d = make(nums, len(v))
	for i := range v {
		if a := last.v.at(i); a.ok && v[i].ok && v[i].v >= a.v && !(a.v < 0 && v[i].v > math.MaxInt64+a.v) {
			d[i] = num{v[i].v - a.v, true}
		}
	}
	return d, float64(at-last.t) / 1e9, true
}

// rate adds what a counter rose by a second.
func (r *reader) rate(t timeline.TrackID, m timeline.Metric, window time.Duration, at int64, d num, scale, dt float64) {
	if d.ok {
		r.put(t, over(m, window), at, float64(d.v)*scale/dt)
	}
}

// share adds the part of the time that a counter of time rose by, at most 1: counters and clock are not read at one instant.
func (r *reader) share(t timeline.TrackID, m timeline.Metric, window time.Duration, at int64, d num, seconds, dt float64) {
	if d.ok {
		r.put(t, over(m, window), at, min(float64(d.v)*seconds/dt, 1))
	}
}

func one(v num) nums { return nums{v} }

func (r *reader) thingOf(m map[string]*thing, kind timeline.TrackKind, name string) *thing {
	key := strconv.Itoa(int(kind)) + "\x00" + name
	t, ok := m[key]
	if !ok {
		if len(m) >= maxNamed || name == "" {
			return nil
		}
		t = &thing{track: r.b.Track(timeline.Track{Source: r.src, Kind: kind, Proc: -1, Device: -1, Thread: -1, Name: name})}
		m[key] = t
	}
	return t
}

// finish places the stamps on the wall clock.
func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows = r.samples
	src.Covers = timeline.Instant.String()
	if r.util {
		src.Covers = timeline.WindowBefore.String()
	}
	if r.samples == 0 {
		return fmt.Errorf("no record that can be read: record again with gpureport record")
	}
	c := timeline.Clock{Name: src.Path, Step: time.Microsecond, Wall: true, Zoned: true, How: timeline.Recorded, Error: time.Millisecond,
		Why: "UTC, from the recorder's monotonic clock and its readings of the wall clock; utilisation looks back over up to a second"}
	r.place(&c)
	r.b.AddClock(r.src, c)
	r.watches(src)
	if len(r.boot) > 0 {
		slices.Sort(r.boot)
		r.number(r.hostTrack(), timeline.AttrHostBoot, float64(r.boot[len(r.boot)/2])/1e9, unit.Second, 0)
	}
	for _, g := range r.order {
		if g.rows > 0 && r.util && !g.util && !g.lost {
			r.in.Report("gpureport-record/hidden-utilisation", timeline.DataLoss, 1, "%s: utilisation is absent in every sample: MIG hides it, or the product does not support it; this is not an idle GPU", g.shown)
		}
	}
	if !r.ended {
		r.in.Report("gpureport-record/no-end", timeline.Info, uint64(r.row), "the capture has no last record: the recorder was killed, the disk was full, or it still runs")
	}
	return nil
}

// watches says where an Xid would have been seen: from a session's first reading of the clock, for what describes the machine stands at the
// head of every part with the stamps of the first, to its last record. A source claims that only if it is so of all of it.
func (r *reader) watches(src *timeline.Source) {
	var cover []timeline.Interval
	for i := range r.sessions {
		s := &r.sessions[i]
		if !s.watched || len(s.clk) == 0 {
			return
		}
		from := r.wallOf(timeline.Time(s.base+s.clk[0].t), s.row)
		if to := r.wallOf(s.to, s.last); from < to {
			cover = append(cover, timeline.Interval{Start: from, End: to})
		}
	}
	if len(cover) > 0 {
		slices.SortFunc(cover, func(a, b timeline.Interval) int { return cmp.Compare(a.Start, b.Start) })
		src.Coverage, src.Watches = timeline.Union(cover), []timeline.MarkKind{timeline.MarkXid}
	}
}

// place moves every stamp from start of its session plus monotonic time to the wall clock.
func (r *reader) place(c *timeline.Clock) {
	moved := false
	known := false
	for i := range r.sessions {
		s := &r.sessions[i]
		slices.SortStableFunc(s.clk, func(a, b clk) int { return cmp.Compare(a.t, b.t) })
		if len(s.clk) == 0 {
			known = known || s.base > 0
			continue
		}
		known, moved = true, true
		for k, v := range s.clk {
			c.Error = max(c.Error, time.Duration(v.unc))
			if k == 0 {
				continue
			}
			if d := v.off - s.clk[k-1].off; d > 500e6 || d < -500e6 {
				say := fmt.Sprintf("the wall clock was set by %+.1f s: what was recorded %s is moved", float64(d)/1e9, map[bool]string{true: "after that", false: "before that"}[d > 0])
				r.in.Report("gpureport-record/clock-step", timeline.Info, uint64(s.row), "%s", say)
				r.b.AddMark(timeline.MarkClockStep, r.hostTrack(), timeline.Time(s.base+v.t), say, s.row)
			} else {
				c.Error = max(c.Error, time.Duration(max(d, -d)))
			}
		}
		// Set back: what came before is moved with it, for time only rises.
		for k := len(s.clk) - 2; k >= 0; k-- {
			s.clk[k].off = min(s.clk[k].off, s.clk[k+1].off)
		}
	}
	if !known {
		c.How, c.Wall, c.Zoned, c.Error = timeline.Unplaced, false, false, 0
		c.Why = "the capture lost its header and its readings of the wall clock: shown on an axis of its own"
		return
	}
	if !moved {
		c.Error = time.Second
		return
	}
	tl := &r.b.TL
	for i := range tl.Series {
		if r.wall[i] {
			continue
		}
		s := &tl.Series[i]
		for k := range s.At {
			s.At[k] = r.wallOf(s.At[k], s.Row[k])
		}
	}
	for i := range tl.Marks.At {
		tl.Marks.At[i] = r.wallOf(tl.Marks.At[i], tl.Marks.Row[i])
	}
	for i := range tl.Attrs {
		if a := &tl.Attrs[i]; a.At != 0 {
			a.At = r.wallOf(a.At, a.Row)
		}
	}
	tl.Marks.Sort()
}

func (r *reader) wallOf(at timeline.Time, row uint32) timeline.Time {
	i := sortedBefore(len(r.sessions), func(k int) bool { return r.sessions[k].row <= row })
	if i < 0 {
		return at
	}
	s := &r.sessions[i]
	if len(s.clk) == 0 {
		return at
	}
	t := int64(at) - s.base
	k := max(sortedBefore(len(s.clk), func(k int) bool { return s.clk[k].t <= t }), 0)
	return timeline.Time(t + s.clk[k].off)
}

// sortedBefore gives the last of n for which ok holds, where ok holds for the first ones only; -1 none.
func sortedBefore(n int, ok func(int) bool) int {
	lo, hi := 0, n
	for lo < hi {
		if m := (lo + hi) / 2; ok(m) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo - 1
}

// bus turns 00000000:17:00.0 into 0000:17:00.
func bus(s string) string {
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
