// Package dcgm reads what `dcgmi dmon -e FIELDS` prints: one row an entity and period, under a header of the fields' short names.
//
// It is recognised by its header, a line that starts with #Entity, or by rows of entities and numbers whose header was lost: those are
// refused, for nobody knows their columns. The header repeats after some rows, and a log of two runs may go on with other fields.
//
// Clock: there is none. Rows have an order, and At is the number of their cycle times --set period (1 s, dcgmi's default, if that is not
// said). Where a log collector stamped each line its stamps are the times.
//
// Columns: shares lie in [0, 1] and speak of cycles or of the hardware's maximum, not of time with a kernel resident; PCITX and PCIRX are
// bytes per second as the GPU sees them, with headers; XIDER is the last Xid, which stays: a mark is made where it changes. Fields of
// different groups are measured in turns, so two cells of a row may not speak of the same instant. Unknown columns are kept by name.
//
// What it cannot tell: when, on which host, which GPU by UUID. N/A is missing, never zero: nothing was measured yet, a profiler held
// the counters, or the part does not have them.
package dcgm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads dcgmi dmon logs.
var Format = ingest.Format{
	Name:      "dcgmi-dmon",
	Doc:       "dcgmi dmon: how busy SMs, tensor cores, memory, PCIe and NVLink of each GPU are",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"idle", "kernel", "hw"},
}

var (
	header  = regexp.MustCompile(`^# ?Entity\s+\S`)
	rowForm = regexp.MustCompile(`^(GPU|GPU-I|GPU-CI|Switch|CPU|CPU Core|NvSwitch|LINK|Link) \d+\s+(N/A|-?[\d.]+(\([^)]*\))?)(\s+(N/A|-?[\d.]+(\([^)]*\))?))*\s*$`)
)

func recognise(h ingest.Head) bool {
	n, rows := 0, 0
	for line := range bytes.Lines(h.Text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if n++; n > 5 {
			break
		}
		if header.Match(line) {
			return true
		}
		if rowForm.Match(line) {
			rows++
		}
	}
	return rows >= 2 && rows == n || rows > 4
}

type column struct {
	name  string
	field ingest.DCGMField
	known bool
	skip  bool // another column gives the same metric
}

type entity struct {
	track  timeline.TrackID
	series []int
	gpu    bool
	cycle  int
	xid    int64 // last one shown; -1 none yet
	shown  string
}

type reader struct {
	in   *ingest.Input
	b    *timeline.Builder
	src  timeline.SourceID
	cols []column

	period   timeline.Time
	cycle    int
	stamped  bool
	unsure   bool // some rows without a stamp
	rows     int64
	headless int64
	headRow  uint64
	entities map[string]*entity
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, src: in.Source, period: 1e9, cycle: -1, entities: map[string]*entity{}}
	if p, ok := in.Opt.Set["period"]; ok {
		d, err := strconv.ParseFloat(p, 64)
		if err != nil || !(d > 0 && d < 1e6) {
			return fmt.Errorf("--set period=%s: not a number of seconds: say --set period=1", p)
		}
		r.period = timeline.Time(d * 1e9)
	}
	if err := ingest.NewLines(f).Each(ctx, in, "dcgmi-dmon", r.line); err != nil {
		return err
	}
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	text := strings.TrimSpace(string(l.Text))
	cells := strings.Fields(text)
	switch {
	case len(cells) == 0 || strings.EqualFold(cells[0], "ID"): // units, mostly blank and not aligned
		return
	case l.Long:
		r.in.Report("dcgmi-dmon/long-line", timeline.DataLoss, l.Row, "a line of more than 1 MiB: skipped")
	case header.MatchString(text):
		if l.Ended {
			r.setHeader(cells[1:], text)
		}
	case len(cells) < 3 || !isEntity(cells[0]):
		r.in.Report("dcgmi-dmon/stray-line", timeline.Info, l.Row, "not a row of the table: %.120q", text)
	case r.cols == nil:
		if r.headless++; r.headless == 1 {
			r.headRow = l.Row
		}
	default:
		r.row(cells, l)
	}
}

func isEntity(s string) bool {
	switch s {
	case "GPU", "GPU-I", "GPU-CI", "CPU", "Switch", "NvSwitch", "LINK", "Link", "CX":
		return true
	}
	return false
}

func (r *reader) setHeader(names []string, text string) {
	if strings.HasPrefix(text, "# Entity") {
		names = names[1:]
	}
	same := len(names) == len(r.cols)
	for i := range r.cols {
		same = same && r.cols[i].name == names[i]
	}
	if same {
		return
	}
	r.cols = make([]column, len(names))
	best := map[string]int{}
	for i, name := range names {
		c := &r.cols[i]
		c.name = name
		if c.field, c.known = ingest.DCGMFieldOf(name); !c.known {
			c.field = ingest.DCGMField{Metric: timeline.Metric{Name: "dcgm_" + clean(name), Unit: unit.Count}, Scale: 1, Lo: -1e15, Hi: 1e15}
		}
		if c.field.Xid || c.field.Add {
			continue
		}
		if j, ok := best[c.field.Metric.Name]; ok {
			if r.cols[j].field.Rank <= c.field.Rank {
				c.skip = true
				continue
			}
			r.cols[j].skip = true
		}
		best[c.field.Metric.Name] = i
	}
	for _, e := range r.entities {
		e.series = unset(len(r.cols))
	}
}

func clean(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '_'
	}, name)
}

func unset(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

func (r *reader) row(cells []string, l *ingest.Lines) {
	n := len(r.cols)
	if len(cells) < n+2 {
		r.in.Report("dcgmi-dmon/short-row", timeline.DataLoss, l.Row, "row has %d values, header has %d: the log was cut while writing; row dropped", max(0, len(cells)-2), n)
		return
	}
	key := cells[:len(cells)-n]
	values := cells[len(cells)-n:]
	if len(key) > 8 {
		r.in.Report("dcgmi-dmon/long-row", timeline.DataLoss, l.Row, "row has %d values, header has %d: row dropped", len(cells)-2, n)
		return
	}
	if key[0] == "GPU" && len(key) > 2 {
		r.in.Report("dcgmi-dmon/long-row", timeline.DataLoss, l.Row, "row has %d values, header has %d: row dropped", len(cells)-2, n)
		return
	}
	name := strings.Join(key, " ")
	if !l.Ended && !bytes.HasSuffix(l.Text, []byte(" ")) {
		r.in.Report("dcgmi-dmon/unterminated-row", timeline.Info, l.Row, "the file ends without a line feed: the last cell may be cut and is left out")
		values[n-1] = "N/A"
	}
	e := r.entity(name, key, l.Label)
	if e == nil {
		r.in.Report("dcgmi-dmon/many-entities", timeline.DataLoss, l.Row, "%s is one more than the %d entities that one log may have: its rows are dropped", name, ingest.MaxGPUs)
		return
	}
	if r.cycle < 0 || e.cycle >= r.cycle {
		r.cycle++
	}
	e.cycle = r.cycle
	at := timeline.Time(r.cycle) * r.period
	if !l.Stamp.IsZero() {
		at, r.stamped = timeline.Time(l.Stamp.UnixNano()), true
	} else {
		r.unsure = true
	}
	r.rows++
	var sums map[string]float64
	for i := range r.cols {
		c := &r.cols[i]
		if c.skip {
			continue
		}
		v, ok := r.value(c, values[i], name, l.Row)
		if !ok {
			continue
		}
		switch {
		case c.field.Xid:
			r.xid(e, int64(v), at, l.Row)
			continue
		case c.field.Add:
			if sums == nil {
				sums = map[string]float64{}
			}
			sums[c.field.Metric.Name] += v
			continue
		}
		if e.series[i] < 0 {
			e.series[i] = r.b.SeriesOf(c.field.Metric, e.track)
		}
		r.b.Reading(e.series[i], at, v*c.field.Scale, uint32(l.Row))
	}
	for i := range r.cols { // in the order of the header
		c := &r.cols[i]
		if v, ok := sums[c.field.Metric.Name]; ok && c.field.Add {
			r.b.Reading(r.b.SeriesOf(c.field.Metric, e.track), at, v*c.field.Scale, uint32(l.Row))
			delete(sums, c.field.Metric.Name)
		}
	}
}

func (r *reader) value(c *column, cell, name string, row uint64) (float64, bool) {
	switch cell {
	case "N/A", "-", "":
		return 0, false
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		r.in.Report("dcgmi-dmon/bad-number", timeline.DataLoss, row, "%s, column %s: %.40q is no number: reading dropped", name, c.name, cell)
		return 0, false
	}
	if c.field.Hi == 1 && v > 1 && v < 1.05 {
		v = 1 // the counter and the clock are not read at the same instant
	}
	if !(v >= c.field.Lo && v <= c.field.Hi) {
		r.in.Report("dcgmi-dmon/impossible-value", timeline.DataLoss, row, "%s, column %s: %s is outside %g to %g: reading dropped", name, c.name, cell, c.field.Lo, c.field.Hi)
		return 0, false
	}
	return v, true
}

// xid marks a change of the last Xid. One that is there from the first row happened before it.
func (r *reader) xid(e *entity, code int64, at timeline.Time, row uint64) {
	before := e.xid
	e.xid = code
	switch {
	case code == before || code == 0:
	case before < 0:
		r.in.Report("dcgmi-dmon/old-xid", timeline.Info, row, "%s shows Xid %d from its first row: it was logged before", e.shown, code)
	default:
		r.b.AddEvent(timeline.MarkXid, e.track, at, int32(code), "DCGM shows it as the last Xid", uint32(row))
	}
}

func (r *reader) entity(name string, key []string, label string) *entity {
	id := label + "\x00" + name
	if e, ok := r.entities[id]; ok {
		return e
	}
	if len(r.entities) >= ingest.MaxGPUs {
		return nil
	}
	e := &entity{series: unset(len(r.cols)), cycle: -1, xid: -1, shown: name}
	if label != "" {
		e.shown = label + ": " + name
	}
	index, err := strconv.Atoi(key[1])
	if key[0] == "GPU" && len(key) == 2 && err == nil && index >= 0 && index < 4096 {
		e.gpu = true
		e.track = r.b.GPUTrack(timeline.Device{Index: index, Ordinal: -1, Source: r.src, Proc: -1, Vendor: "nvidia"}, e.shown)
	} else { // parts of a GPU, switches, links, CPUs
		e.track = r.b.Track(timeline.Track{Source: r.src, Proc: -1, Device: -1, Thread: -1, Name: e.shown})
	}
	r.entities[id] = e
	return e
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.src]
	src.Rows, src.Covers = r.rows, timeline.WindowBefore.String()
	switch {
	case r.cols == nil && r.headless > 0:
		return fmt.Errorf("%d rows and no header line that starts with #Entity: their columns are unknown; record again and keep the first line", r.headless)
	case r.cols == nil:
		return errors.New("no header line that starts with #Entity")
	case r.rows == 0:
		return errors.New("a header and no row that can be read: record again, and let it run")
	}
	if r.headless > 0 {
		r.in.ReportN(r.headless, "dcgmi-dmon/no-header", timeline.DataLoss, r.headRow, "a row above any header: its columns are unknown")
	}
	c := timeline.Clock{Name: src.Path, Step: time.Second}
	switch {
	case r.stamped && !r.unsure:
		c.Wall, c.Zoned, c.How, c.Step, c.Error = true, true, timeline.Recorded, time.Millisecond, 2*time.Second
		c.Why = "dcgmi dmon states no times; the log collector's stamps, which state their zone, are the times"
	case r.stamped:
		c.Wall = true
		c.Why = "only some lines have stamps: not placed"
		r.in.Report("dcgmi-dmon/mixed-times", timeline.DataLoss, 1, "only some lines have a stamp: logs were appended; record each to a file of its own")
	default:
		c.Why = "dcgmi dmon states no times: its rows have an order; shown on an axis of its own, one second a sample"
		if _, ok := r.in.Opt.Set["period"]; ok {
			c.Why = fmt.Sprintf("dcgmi dmon states no times: its rows have an order; shown on an axis of its own, %g s a sample as --set period says", float64(r.period)/1e9)
		}
		r.in.Report("dcgmi-dmon/no-time", timeline.DataLoss, 1, "dcgmi dmon states no times: the log can be put beside nothing else; record with dcgmi dmon ... | while read -r l; do echo \"$(date -Is) $l\"; done")
	}
	r.b.AddClock(r.src, c)
	return nil
}
