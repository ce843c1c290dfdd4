// Package sminvlink reads what `nvidia-smi nvlink` prints of each NVLink of each GPU: -s status and speed, -e error counters,
// -c capabilities, -gt d bytes carried.
//
// Versions seen: R450 to R595. It is recognised by a line GPU n: NAME (UUID: ...) followed by a link or by a sentence about NVLink.
//
// There is no time in it. Where the outputs of several calls were appended, readings have an order: At is the number of the call times
// --set period (1 s if that is not said).
//
// The speed is the line rate of one link in one direction, which is some 6 % above what the data sheet counts. A link that is not listed
// does not exist for the tool. Errors are replay, recovery and CRC errors of all links together, since the driver was loaded or the
// counters were reset: only growth tells. Sentences stand for the links where MIG or the product hides them.
package sminvlink

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads nvidia-smi nvlink.
var Format = ingest.Format{
	Name:      "nvlink",
	Doc:       "nvidia-smi nvlink -s, -e, -c, -gt d: which NVLinks are up, how fast, their errors",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"comm", "hw"},
}

var (
	gpuForm  = regexp.MustCompile(`^GPU (\d{1,4}): (.*) \(UUID: ((?:GPU|MIG)-[^)]*)\)$`)
	linkForm = regexp.MustCompile(`^Link (\d{1,3})(?:: |, )(.+)$`)
	rateForm = regexp.MustCompile(`^([\d.]+) GB/s$`)
	dataForm = regexp.MustCompile(`^Data (Tx|Rx)\d?: (\d+) KiB$`)
)

func recognise(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		s := string(bytes.TrimSpace(line))
		switch {
		case s == "":
			continue
		case n == 0 && !gpuForm.MatchString(s):
			return false
		case n > 0:
			return strings.HasPrefix(s, "Link ") || isSentence(s)
		}
		n++
	}
	return false
}

func isSentence(s string) bool { return strings.Contains(strings.ToLower(s), "nvlink") }

type gpu struct {
	track  timeline.TrackID
	shown  string
	series map[string]int
	attrs  map[string]string
	cycle  int
	part   uint8 // which outputs this cycle has shown
}

// Outputs of one call.
const (
	status = 1 << iota
	errorCounters
	capabilities
	bytesCarried
	sentence
)

// call is what one call printed of one GPU so far.
type call struct {
	part     uint8
	up       []bool // by link
	listed   int
	rates    []float64
	errors   float64
	errorsN  int
	rx, tx   float64
	data     int
	caps     []string // in the order of printing
	capYes   map[string]int
	row      uint64
	sentence string
}

type reader struct {
	in     *ingest.Input
	b      *timeline.Builder
	period timeline.Time
	gpus   map[string]*gpu
	most   int  // links of the GPU with most
	whole  bool // no line was cut
	g      *gpu
	c      call
	cycle  int
	rows   int64
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
	r := &reader{in: in, b: b, period: period, gpus: map[string]*gpu{}, whole: true}
	l := ingest.NewLines(f)
	if err := l.Each(ctx, in, "nvlink", r.line); err != nil {
		return err
	}
	if r.g != nil && r.c.part&status != 0 && r.c.listed < r.most { // nothing stands behind the last list
		in.Report("nvlink/short-list", timeline.DataLoss, r.c.row, "%s lists %d links, others %d: the output was cut; its links are left out", r.g.shown, r.c.listed, r.most)
		r.g = nil
	}
	r.end(r.whole && l.Err() == nil)
	src := &b.TL.Sources[in.Source]
	src.Rows = r.rows
	src.Covers = timeline.Instant.String()
	if r.rows == 0 {
		return fmt.Errorf("no GPU in it: the output was cut; run nvidia-smi nvlink -s again")
	}
	b.AddClock(in.Source, timeline.Clock{Name: src.Path, Why: "nvidia-smi nvlink prints no time: it can be put beside nothing else"})
	return nil
}

func (r *reader) line(l *ingest.Lines) {
	text, row := strings.TrimSpace(string(l.Text)), l.Row
	switch {
	case text == "":
		return
	case l.Long:
		r.in.Report("nvlink/long-line", timeline.DataLoss, row, "a line of more than 1 MiB: skipped")
		return
	case !l.Ended && !strings.HasSuffix(text, " GB/s") && !strings.HasSuffix(text, "<inactive>"):
		r.in.Report("nvlink/unterminated-row", timeline.Info, row, "the file ends without a line feed: the last line may be cut and is left out")
		r.whole = false
		return
	}
	if m := gpuForm.FindStringSubmatch(text); m != nil {
		r.end(true)
		r.begin(l.Label, m[1], m[2], m[3], row)
		return
	}
	m := linkForm.FindStringSubmatch(text)
	switch {
	case r.g == nil:
		r.in.Report("nvlink/stray-line", timeline.Info, row, "not a line about a link: %q", text[:min(len(text), 120)])
	case m != nil:
		link, _ := strconv.Atoi(m[1])
		r.link(link, m[2], row)
	case isSentence(text):
		r.c.part |= sentence
		r.c.sentence, r.c.row = text[:min(len(text), 200)], row
	default:
		r.in.Report("nvlink/stray-line", timeline.Info, row, "not a line about a link: %q", text[:min(len(text), 120)])
	}
}

func (r *reader) begin(label, index, name, uuid string, row uint64) {
	r.rows++
	key := label + "\x00" + index
	if u := ingest.KnownUUID(uuid); u != "" {
		key = u
	}
	g := r.gpus[key]
	if g == nil {
		if len(r.gpus) >= ingest.MaxGPUs {
			r.in.Report("nvlink/many-gpus", timeline.DataLoss, row, "GPU %s is one more than the %d that one file may have: left out", index, ingest.MaxGPUs)
			return
		}
		g = &gpu{shown: "GPU " + index, series: map[string]int{}, attrs: map[string]string{}}
		if label != "" {
			g.shown = label + ": " + g.shown
		}
		d := timeline.Device{Ordinal: -1, Source: r.in.Source, Proc: -1, Vendor: "nvidia", Name: name, UUID: ingest.KnownUUID(uuid)}
		d.Index, _ = strconv.Atoi(index)
		g.track = r.b.GPUTrack(d, g.shown)
		r.gpus[key] = g
	}
	r.g, r.c = g, call{row: row}
}

// maxLinks is more than any part has.
const maxLinks = 64

func (r *reader) link(n int, text string, row uint64) {
	c := &r.c
	if n >= maxLinks {
		r.in.Report("nvlink/bad-value", timeline.DataLoss, row, "link %d: no part has so many: left out", n)
		return
	}
	key, value, _ := strings.Cut(text, ": ")
	switch {
	case text == "<inactive>":
		c.set(n, false)
	case rateForm.MatchString(text):
		v, err := strconv.ParseFloat(rateForm.FindStringSubmatch(text)[1], 64)
		if err != nil || v <= 0 || v > 1e4 {
			r.in.Report("nvlink/bad-value", timeline.DataLoss, row, "link %d: %q is no speed: left out", n, text)
			return
		}
		c.set(n, true)
		c.rates = append(c.rates, v*1e9)
	case dataForm.MatchString(text):
		m := dataForm.FindStringSubmatch(text)
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return
		}
		c.part |= bytesCarried
		if c.data++; m[1] == "Tx" {
			c.tx += v * 1024
		} else {
			c.rx += v * 1024
		}
	case value == "true" || value == "false":
		c.part |= capabilities
		if c.capYes == nil {
			c.capYes = map[string]int{}
		}
		key = strings.TrimSuffix(strings.TrimSuffix(key, " supported"), " is")
		if _, ok := c.capYes[key]; !ok {
			if len(c.caps) == 64 {
				return
			}
			c.caps = append(c.caps, key)
			c.capYes[key] = 0
		}
		if value == "true" {
			c.capYes[key]++
		}
		c.listed = max(c.listed, n+1)
	case isError(key):
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || v < 0 || v > 1e18 {
			if ingest.CellOf(value) != ingest.CellAbsent {
				r.in.Report("nvlink/bad-value", timeline.DataLoss, row, "link %d: %q is no count: left out", n, text[:min(len(text), 60)])
			}
			return
		}
		c.part |= errorCounters
		c.errors += v
		c.errorsN++
	}
}

// isError tells the counters that stand for trouble on the wire. Symbol errors and bit error rates, which NVLink 5 prints too, are normal.
func isError(key string) bool {
	key = strings.ToLower(key)
	return strings.HasSuffix(key, "replay errors") || strings.HasSuffix(key, "recovery errors") || strings.HasSuffix(key, "crc errors") || key == "total link recovery events"
}

func (c *call) set(n int, up bool) {
	c.part |= status
	for len(c.up) <= n {
		c.up = append(c.up, false)
	}
	c.up[n] = up
	c.listed = max(c.listed, n+1)
}

// end keeps what the call said of the GPU. Sums over links count only if the block is whole.
func (r *reader) end(whole bool) {
	g, c := r.g, &r.c
	r.g = nil
	if g == nil || !whole || c.part == 0 {
		return
	}
	if g.part&c.part != 0 && g.cycle >= r.cycle { // the same output again: a later call
		r.cycle++
	}
	if g.cycle < r.cycle {
		g.cycle, g.part = r.cycle, 0
	}
	g.part |= c.part
	at := timeline.Time(r.cycle) * r.period
	reading := func(m timeline.Metric, v float64) {
		s, ok := g.series[m.Name]
		if !ok {
			s = r.b.SeriesOf(m, g.track)
			g.series[m.Name] = s
		}
		r.b.Reading(s, at, v, uint32(c.row))
	}
	r.most = max(r.most, c.listed)
	if c.part&status != 0 {
		up, pattern := 0, make([]byte, len(c.up))
		for i, on := range c.up {
			pattern[i] = '0'
			if on {
				pattern[i] = '1'
				up++
			}
		}
		reading(timeline.NVLinkUp, float64(up))
		r.number(g, timeline.AttrNVLinks, float64(c.listed), unit.Count, c.row)
		r.word(g, timeline.AttrNVLinkPattern, string(pattern), c.row)
		r.speeds(g, c)
	}
	if c.part&errorCounters != 0 {
		reading(timeline.NVLinkErrors, c.errors)
	}
	if c.part&bytesCarried != 0 {
		reading(timeline.NVLinkRxBytes, c.rx)
		reading(timeline.NVLinkTxBytes, c.tx)
	}
	if c.part&capabilities != 0 {
		var says []string
		for _, k := range c.caps {
			switch n := c.capYes[k]; n {
			case 0:
				says = append(says, k+": no")
			case c.listed:
				says = append(says, k+": yes")
			default:
				says = append(says, fmt.Sprintf("%s: %d of %d links", k, n, c.listed))
			}
		}
		r.word(g, timeline.AttrNVLinkCaps, strings.Join(says, "; "), c.row)
	}
	if c.part&sentence != 0 {
		r.word(g, timeline.AttrNVLinkWhy, c.sentence, c.row)
		switch low := strings.ToLower(c.sentence); {
		case strings.Contains(low, "does not have"):
			r.number(g, timeline.AttrNVLinks, 0, unit.Count, c.row)
		case strings.Contains(low, "all links are inactive"):
			reading(timeline.NVLinkUp, 0)
		}
	}
}

// speeds gives the speed of a link and of all; links of one GPU have one speed, unless something is wrong.
func (r *reader) speeds(g *gpu, c *call) {
	if len(c.rates) == 0 {
		return
	}
	total := 0.0
	for _, v := range c.rates {
		total += v
	}
	low, top := slices.Min(c.rates), slices.Max(c.rates)
	r.number(g, timeline.AttrNVLinkSpeed, top, unit.BytePerSecond, c.row)
	r.number(g, timeline.AttrNVLinkTotal, total, unit.BytePerSecond, c.row)
	if low < top {
		r.in.Report("nvlink/slow-link", timeline.Info, c.row, "%s: its links run at %g to %g GB/s", g.shown, low/1e9, top/1e9)
	}
}

// word and number add an attribute when it is new or has changed.
func (r *reader) word(g *gpu, name, text string, row uint64) {
	if g.attrs[name] != text {
		g.attrs[name] = text
		r.b.AddAttr(g.track, name, text, 0, uint32(row))
	}
}

func (r *reader) number(g *gpu, name string, v float64, u unit.Unit, row uint64) {
	if text := strconv.FormatFloat(v, 'g', -1, 64); g.attrs[name] != text {
		g.attrs[name] = text
		r.b.AddNumber(g.track, name, v, u, 0, uint32(row))
	}
}
