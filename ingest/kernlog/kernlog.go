// Package kernlog reads kernel logs: what dmesg prints in each of its time forms (seconds since boot, -T, -H, --time-format iso, -x with
// facilities), journalctl -k (short, short-iso, short-precise, short-full, short-unix, short-monotonic, JSON), syslog files (RFC 3164 and
// RFC 5424), each also behind the stamps of container runtimes.
//
// It is recognised by the form of its first lines: most of them are stamped as a kernel or system log stamps them, or hold a line of the
// NVIDIA driver.
//
// Kept: Xids and SXids with their numbers, a GPU that fell off the bus, other failures that the driver logs, PCIe and memory errors that
// the hardware reports, CPUs throttled for heat, tasks that hang, kills for memory, storage that fails or does not answer, network links
// that go down or come back, boots. Names of processes are kept; command lines, memory addresses and network addresses are not.
//
// Clock: dmesg counts from the host's boot and leaves suspended time out; -T is worked out from that and is off by the same; syslog states
// no year and no zone; ISO forms and JSON state both. -H shows a minute now and then and differences between: a minute is its grain.
// A log that mixes them, or states none, has an order and no times.
//
// What it cannot tell: anything before its first line, for the kernel's buffer is a ring, and after its last, for a log does not say when
// it was copied. Between them silence is evidence.
package kernlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads kernel logs.
var Format = ingest.Format{
	Name:      "kernel-log",
	Doc:       "kernel log (dmesg, journalctl -k, syslog): Xids, lost GPUs, PCIe and memory errors, kills for memory, storage and network that failed",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"hw"},
}

// maxEvents bounds what one log may bring; a broken device can log without end.
const maxEvents = 100_000

var driverLine = [][]byte{[]byte("NVRM: "), []byte("SXid (PCI"), []byte("Xid (")}

func saysDriver(b []byte) bool {
	for _, d := range driverLine {
		if bytes.Contains(b, d) {
			return true
		}
	}
	return false
}

func recognise(h ingest.Head) bool {
	if len(h.Text) == 0 {
		return false
	}
	text := h.Text
	if bytes.IndexByte(h.Raw[:min(len(h.Raw), 256)], 0) < 0 { // the head's text may have lost its stamps: they stand on every line, like a collector's
		text = bytes.TrimPrefix(h.Raw, []byte("\xef\xbb\xbf"))
	}
	n, framed, driver, kernel, daemon := 0, 0, 0, 0, 0
	for b := range bytes.Lines(text) {
		whole := b[len(b)-1] == '\n'
		b = bytes.TrimSpace(b)
		if len(b) == 0 || bytes.HasPrefix(b, []byte("-- ")) {
			continue
		}
		if b[0] == '{' {
			return n == 0 && isJournal(b)
		}
		if n > 0 && !whole && len(h.Raw) >= ingest.HeadSize {
			break
		}
		if n++; n > 200 {
			break
		}
		l := cut(b)
		said := saysDriver(l.msg)
		switch {
		case said:
			driver++
		case l.framed:
			framed++
			if l.tag == "kernel" || l.tag == "" {
				kernel++
			} else {
				daemon++
			}
		}
	}
	return driver > 0 && 2*(driver+framed) > n || n > 0 && framed*10 >= n*8 && (kernel > 0 || daemon > 4)
}

// isJournal tells a line of journalctl -o json.
func isJournal(b []byte) bool {
	return bytes.Contains(b, []byte(`"__REALTIME_TIMESTAMP"`)) && (bytes.Contains(b, []byte(`"MESSAGE"`)) || bytes.Contains(b, []byte(`"_BOOT_ID"`)))
}

// found is an event with its place.
type found struct {
	event
	at    timeline.Time
	kind  clockKind // noStamp: at is that of the line before
	host  string
	row   uint32
	era   int // boots before it in this file
	likes int // lines like it that follow within a second
	last  timeline.Time
}

// stated is what the log says of its host.
type stated struct {
	name, text string
	value      float64
	row        uint32
	at         timeline.Time
}

type reader struct {
	in  *ingest.Input
	b   *timeline.Builder
	src timeline.SourceID

	rows, kernel int64
	kinds        [nKinds]int64 // lines of each kind of stamp
	step         timeline.Time // coarsest grain
	from, to     timeline.Time // of the kernel's lines
	started      bool
	last         timeline.Time
	shift        timeline.Time // years gone by in a log that states none
	era          int
	back         int64
	boot         timeline.Time // instant of boot by lines with both stamps; -1 unknown
	bootRow      uint32
	lastBoot     timeline.Time
	rtc          bool

	hosts  []string
	events []found
	forms  map[string]int // last event of each form, by its place in events
	uuids  map[string]string
	states []stated
	tracks map[string]timeline.TrackID
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, src: in.Source, boot: -1, lastBoot: -1, forms: map[string]int{}, uuids: map[string]string{}, tracks: map[string]timeline.TrackID{}}
	l := ingest.NewPlainLines(f)
	for l.Next() {
		if l.Row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		text := bytes.TrimRight(l.Text, " \t")
		switch {
		case len(text) == 0 || bytes.HasPrefix(text, []byte("-- ")): // journalctl's own remarks
		case l.Long:
			in.Report("kernel-log/long-line", timeline.DataLoss, l.Row, "a line of more than 1 MiB: skipped")
		case text[0] == '{' && bytes.Contains(text, []byte(`"__REALTIME_TIMESTAMP"`)):
			r.journal(text, l.Row, l.Ended)
		default:
			r.line(cut(text), l.Row)
		}
	}
	if err := l.Err(); err != nil {
		in.Report("kernel-log/damaged-file", timeline.DataLoss, l.Row, "%v after line %d: what lies before it is read", err, l.Row)
	}
	return r.finish()
}

// entry is what is read of a journal's JSON line.
type entry struct {
	Realtime   string          `json:"__REALTIME_TIMESTAMP"`
	Monotonic  string          `json:"__MONOTONIC_TIMESTAMP"`
	Source     string          `json:"_SOURCE_MONOTONIC_TIMESTAMP"` // when the kernel said it
	Host       string          `json:"_HOSTNAME"`
	Transport  string          `json:"_TRANSPORT"`
	Identifier string          `json:"SYSLOG_IDENTIFIER"`
	Message    json.RawMessage `json:"MESSAGE"` // a string, or bytes as numbers where it is not UTF-8
}

func (r *reader) journal(text []byte, row uint64, ended bool) {
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		sev, say := timeline.DataLoss, "not a JSON object: line skipped"
		if !ended {
			sev, say = timeline.Info, "the file ends inside this line: skipped"
		}
		r.in.Report("kernel-log/bad-json", sev, row, "%s", say)
		return
	}
	us, err := strconv.ParseInt(e.Realtime, 10, 64)
	if err != nil || us < 0 || us > 7e15 {
		r.in.Report("kernel-log/bad-time", timeline.DataLoss, row, "__REALTIME_TIMESTAMP %.40q is no number of microseconds: line skipped", e.Realtime)
		return
	}
	l := line{kind: zonedStamp, at: timeline.Time(us * 1000), step: 1000, boot: -1, host: e.Host, tag: e.Identifier, framed: true}
	if e.Transport == "kernel" {
		l.tag = "kernel"
	} else if l.tag == "" || l.tag == "kernel" {
		l.tag = "unknown"
	}
	if mono, err := strconv.ParseInt(e.Monotonic, 10, 64); err == nil && mono >= 0 && mono < 1e14 {
		l.boot = timeline.Time(mono * 1000)
		// The kernel stamped it earlier than the journal took it.
		if said, err := strconv.ParseInt(e.Source, 10, 64); err == nil && said >= 0 && said <= mono && e.Transport == "kernel" {
			l.at -= timeline.Time((mono - said) * 1000)
			l.boot = timeline.Time(said * 1000)
		}
	}
	var s string
	if json.Unmarshal(e.Message, &s) == nil {
		l.msg = []byte(s)
	} else {
		var codes []uint8
		var ints []int
		if json.Unmarshal(e.Message, &ints) == nil {
			for _, c := range ints {
				codes = append(codes, byte(c))
			}
		}
		l.msg = codes
	}
	r.line(l, row)
}

func (r *reader) line(l line, row uint64) {
	r.rows++
	isKernel := l.kernel()
	if l.host != "" && (len(r.hosts) == 0 || r.hosts[len(r.hosts)-1] != l.host) {
		r.addHost(l.host)
	}
	if l.kind != noStamp {
		r.stamp(&l, row)
	} else if !saysDriver(l.msg) && (r.kinds[noYearStamp] > 0 || r.kinds[zonedStamp] > 0) {
		isKernel = false // more of a daemon's message
	}
	if !isKernel {
		if l.tag == "systemd-oomd" || l.tag == "earlyoom" {
			r.oom(&l, row)
		}
		return
	}
	r.kernel++
	if l.kind != noStamp && !l.delta {
		if !r.started {
			r.started, r.from, r.to = true, l.at, l.at
		}
		r.from, r.to = min(r.from, l.at), max(r.to, l.at)
	}
	r.states1(&l, row)
	e, ok := eventOf(l.msg)
	if !ok {
		return
	}
	r.add(e, &l, row)
}

func (r *reader) addHost(h string) {
	for _, o := range r.hosts {
		if o == h {
			return
		}
	}
	if len(r.hosts) < 64 {
		r.hosts = append(r.hosts, h)
	}
}

// stamp follows the log's clock and turns differences into instants.
func (r *reader) stamp(l *line, row uint64) {
	r.kinds[l.kind]++
	r.step = max(r.step, l.step)
	const day = 24 * 3600e9
	switch {
	case l.delta:
		l.at += r.last
	case l.kind == noYearStamp:
		if l.at+r.shift < r.last-182*day { // December, then January
			r.shift += timeline.Time(time.Date(ingest.BaseYear+1, 1, 1, 0, 0, 0, 0, time.UTC).Sub(time.Date(ingest.BaseYear, 1, 1, 0, 0, 0, 0, time.UTC)))
		}
		l.at += r.shift
	case l.kind == bootStamp && l.at < r.last-1e9 && l.at < r.last/2:
		// Seconds since boot that begin again: only the last boot can be told when it was.
		r.era++
		r.started = false
	}
	if l.at < r.last-1e9 && r.kinds[l.kind] > 1 {
		r.back++
	}
	r.last = l.at
	if l.boot >= 0 && l.kind == zonedStamp {
		if l.boot < r.lastBoot-10e9 {
			r.boot = -1
		}
		r.lastBoot = l.boot
		// A daemon may have stamped a line late, never early.
		if b := l.at - l.boot; b > 0 && (r.boot < 0 || b < r.boot) {
			r.boot, r.bootRow = b, uint32(row)
		}
	}
}

// states1 keeps what the log says of its host.
func (r *reader) states1(l *line, row uint64) {
	msg := l.msg
	if bytes.Contains(msg, []byte("NVRM: GPU at")) {
		if m := gpuAt.FindSubmatch(msg); m != nil && len(r.uuids) < ingest.MaxGPUs {
			r.uuids[l.host+"\x00"+ingest.BusID(string(m[1]))] = string(m[2])
		}
	}
	s := stated{row: uint32(row), at: r.last}
	switch {
	case bytes.Contains(msg, []byte("NVRM: loading")):
		if m := driver.FindSubmatch(msg); m != nil {
			s.name, s.text = timeline.AttrDriver, string(m[1])
		}
	case bytes.HasPrefix(msg, []byte("Linux version ")):
		if m := kernelV.FindSubmatch(msg); m != nil {
			s.name, s.text = timeline.AttrHostKernel, clean(string(m[1]))
		}
	case bytes.Contains(msg, []byte("setting system clock to")) && l.kind == bootStamp:
		if m := rtc.FindSubmatch(msg); m != nil {
			if sec, err := strconv.ParseInt(string(m[1]), 10, 64); err == nil {
				s.name, s.value = timeline.AttrHostBoot, float64(sec)-float64(l.at)/1e9
				r.rtc = true
			}
		}
	}
	if s.name == "" {
		return
	}
	for i := range r.states {
		if r.states[i].name == s.name {
			r.states[i] = s // the last boot's
			return
		}
	}
	r.states = append(r.states, s)
}

func (r *reader) oom(l *line, row uint64) {
	m := oomd.FindSubmatch(l.msg)
	if m == nil {
		return
	}
	r.add(event{kind: timeline.MarkOOM, text: clean(l.tag + " killed " + string(m[1]) + " for memory pressure")}, l, row)
}

func (r *reader) add(e event, l *line, row uint64) {
	f := found{event: e, at: l.at, kind: l.kind, host: l.host, row: uint32(min(row, 1<<32-1)), era: r.era}
	if l.kind == noStamp {
		f.at = r.last
	}
	f.last = f.at
	if e.form != "" {
		key := e.form + "\x00" + e.bus + "\x00" + l.host
		if i, ok := r.forms[key]; ok {
			if o := &r.events[i]; f.at >= o.last && f.at-o.last <= 1e9 && o.era == f.era && l.kind != noStamp {
				o.likes++
				o.last = f.at
				return
			}
		}
		if len(r.forms) < maxEvents {
			r.forms[key] = len(r.events)
		}
	}
	if len(r.events) >= maxEvents {
		r.in.Report("kernel-log/many-events", timeline.DataLoss, row, "more than %d events: this one and later ones are dropped", maxEvents)
		return
	}
	r.events = append(r.events, f)
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows, src.Covers = r.rows, timeline.Instant.String()
	if r.rows == 0 {
		return errors.New("no line that can be read")
	}
	if len(r.hosts) == 1 {
		src.Host = r.hosts[0]
	}
	if len(r.hosts) > 1 {
		r.in.Report("kernel-log/several-hosts", timeline.Info, 1, "lines of %d hosts, %s and others: PCI addresses of different hosts look alike; give each host's log a folder of its own", len(r.hosts), r.hosts[0])
	}
	timed := r.clock(src)
	if r.kernel == 0 {
		r.in.Report("kernel-log/no-kernel-lines", timeline.DataLoss, 1, "no line of the kernel: that it names no Xid says nothing; record with journalctl -k or dmesg")
	} else if timed && r.started {
		src.Coverage = []timeline.Interval{{Start: r.from, End: r.to + 1}}
		src.Watches = []timeline.MarkKind{timeline.MarkXid, timeline.MarkSXid, timeline.MarkGPULost, timeline.MarkOOM}
	}
	if r.back > 0 && timed {
		r.in.Report("kernel-log/clock-step", timeline.Info, 1, "%d lines are stamped earlier than the one before them: the clock was set, or logs were appended; times are kept as written", r.back)
	}
	for i := range r.events {
		r.mark(&r.events[i], timed)
	}
	for _, s := range r.states {
		r.state(s)
	}
	if r.boot >= 0 && r.kinds[bootStamp] == 0 {
		r.b.AddNumber(r.host(""), timeline.AttrHostBoot, float64(r.boot)/1e9, unit.Second, r.to, r.bootRow)
	}
	return nil
}

// clock says what the log's stamps are; false: they put nothing in its place.
func (r *reader) clock(src *timeline.Source) bool {
	c := timeline.Clock{Name: src.Path, Step: time.Duration(r.step)}
	used, stamped := noStamp, int64(0)
	for k := bootStamp; k < nKinds; k++ {
		stamped += r.kinds[k]
		if r.kinds[k] > 0 && (used == noStamp || r.kinds[k] > r.kinds[used]) {
			used = k
		}
	}
	untimed := r.rows - stamped
	timed := true
	switch {
	case stamped == 0:
		c.Why = "its lines have no times: they have an order alone"
		r.in.Report("kernel-log/no-time", timeline.DataLoss, 1, "the lines have no times: they can be put beside nothing else; record with dmesg -T or journalctl -k -o short-iso-precise")
		timed = false
	case r.kinds[used] < stamped || untimed > stamped:
		c.Why = "its lines have times of different kinds, or none: they have an order alone"
		r.in.Report("kernel-log/mixed-times", timeline.DataLoss, 1, "lines counted from boot: %d, with a date: %d, with a date and no year: %d, with a zone: %d, without any time: %d: logs were appended; give each a file of its own",
			r.kinds[bootStamp], r.kinds[wallStamp], r.kinds[noYearStamp], r.kinds[zonedStamp], untimed)
		timed = false
	case used == bootStamp:
		c.Boot, c.Error = true, time.Millisecond
		c.Why = "seconds since the host booted, without the time it was suspended"
		if r.era > 0 {
			r.in.Report("kernel-log/several-boots", timeline.DataLoss, 1, "the seconds since boot begin again %d times: events before the last boot are dropped, for nobody knows when they were", r.era)
		}
	case used == wallStamp:
		c.Wall, c.Error = true, 2*time.Second
		c.Why = "dates that dmesg -T worked out from the seconds since boot, or a daemon wrote: zone not stated, and off by the time the host was suspended"
	case used == noYearStamp:
		c.Wall, c.Error = true, time.Duration(max(2e9, r.step))
		c.Why = ingest.YearUnknown + ": syslog states day and time, neither year nor zone"
	case used == zonedStamp:
		c.Wall, c.Zoned, c.How = true, true, timeline.Recorded
		c.Error = time.Duration(max(10e6, r.step))
		c.Why = "the log states its zone"
	}
	if timed && untimed > 0 {
		n := int64(0)
		row := uint32(0)
		for i := range r.events {
			if r.events[i].kind == noStamp {
				if n++; n == 1 {
					row = r.events[i].row
				}
			}
		}
		r.in.ReportN(n, "kernel-log/untimed-line", timeline.Info, uint64(row), "a line without a time: put where the line before it is")
	}
	r.b.AddClock(r.src, c)
	return timed
}

func (r *reader) mark(f *found, timed bool) {
	at := f.at
	if !timed {
		at = timeline.Time(f.row)
	} else if f.era < r.era && r.kinds[bootStamp] > 0 {
		return
	}
	text := f.text
	if f.likes > 0 {
		text = fmt.Sprintf("%s (and %d more like it, each within a second)", text, f.likes)
	}
	t := r.host(f.host)
	if f.bus != "" {
		t = r.gpu(f.host, f.bus)
	}
	r.b.AddEvent(f.event.kind, t, at, f.code, text, f.row)
}

// host gives the track of what is not about one GPU.
func (r *reader) host(name string) timeline.TrackID {
	if name == "" && len(r.hosts) > 0 {
		name = r.hosts[0]
	}
	if name == "" {
		name = "kernel"
	}
	return r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: name})
}

func (r *reader) gpu(host, bus string) timeline.TrackID {
	key := host + "\x00" + bus
	if t, ok := r.tracks[key]; ok {
		return t
	}
	if len(r.tracks) >= ingest.MaxGPUs {
		return r.host(host)
	}
	name := "GPU " + bus
	if len(r.hosts) > 1 {
		name = host + ": " + name
	}
	t := r.b.GPUTrack(timeline.Device{Bus: bus, UUID: r.uuids[key], Index: -1, Ordinal: -1, Source: r.src, Proc: -1, Vendor: "nvidia"}, name)
	r.tracks[key] = t
	return t
}

func (r *reader) state(s stated) {
	if s.text != "" {
		r.b.AddAttr(r.host(""), s.name, s.text, s.at, s.row)
		return
	}
	r.b.AddNumber(r.host(""), s.name, s.value, unit.Second, s.at, s.row)
}
