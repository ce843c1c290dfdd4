// Package bugreport reads files that hold the outputs of many commands: nvidia-bug-report.log of the NVIDIA driver, and captures that
// scripts make in the same manner.
//
// A bug report is recognised by its first lines, "Start of NVIDIA bug report log file" under a rule of underscores. Such rules part its
// sections; each begins with the file ("*** /proc/...") or the command that it shows. A capture parts them by lines of # around titles.
// Sections whose format is read become files of their own: kernel log, journal, nvidia-smi -q, topo, nvlink, lscpu and the like.
//
// Read reads the rest: date, host, kernel and driver of a bug report, memory, and what /proc/driver/nvidia says of each GPU, which joins
// the PCI bus of an Xid with a UUID.
//
// Clock: the report is of one instant, stated with a zone; its sections have the clocks of their own formats. The same events often stand
// in several sections, dmesg, journal and syslog.
package bugreport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads nvidia-bug-report.log.
var Format = ingest.Format{
	Name:      "nvidia-bug-report",
	Doc:       "nvidia-bug-report.log: its sections are read as files of their own",
	Recognise: recognise,
	Read:      read,
	Split:     splitReport,
	Asks:      []string{"hw"},
}

// Capture reads files that hold outputs of several commands under titles between lines of #.
var Capture = ingest.Format{
	Name:      "smi-capture",
	Doc:       "outputs of several commands in one file, each under a title between lines of #: read as files of their own",
	Recognise: recogniseCapture,
	Read:      readCapture,
	Split:     splitCapture,
	Asks:      []string{"hw"},
}

func recognise(h ingest.Head) bool {
	return bytes.Contains(h.Text[:min(len(h.Text), 2048)], []byte("Start of NVIDIA bug report log file"))
}

func recogniseCapture(h ingest.Head) bool {
	var lines []string
	for line := range bytes.Lines(h.Text) {
		if s := string(bytes.TrimSpace(line)); s != "" {
			if lines = append(lines, s); len(lines) == 8 {
				break
			}
		}
	}
	return len(lines) > 2 && strings.Trim(lines[0], "#=") == "" && len(lines[0]) > 20 && strings.Contains(strings.ToLower(strings.Join(lines[1:], " ")), "capture")
}

// rule tells a line of nothing but c, at least 20 of them.
func rule(line []byte, c byte) bool {
	line = bytes.TrimRight(line, " \r\n")
	return len(line) >= 20 && len(bytes.Trim(line, string(c))) == 0
}

// section is the text of one section: the lines until the next rule.
type section struct {
	l     *ingest.Lines
	title string // command or path; "" the head of the file
	rest  []byte // of a line that was not handed on yet
	begun bool
	done  bool // the rule was met
	more  bool // false: the end of the file
	mark  byte
}

// next gives the next line of the section; false at its end.
func (s *section) next() ([]byte, bool) {
	if s.done {
		return nil, false
	}
	if !s.l.Next() {
		s.done, s.more = true, false
		return nil, false
	}
	if rule(s.l.Text, s.mark) {
		s.done, s.more = true, true
		return nil, false
	}
	return s.l.Text, true
}

// Read gives the section's text, without blank lines and the listing of the file that lie between title and output.
func (s *section) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		line, ok := s.next()
		if !ok {
			return 0, io.EOF
		}
		if !s.begun && (len(bytes.TrimSpace(line)) == 0 || bytes.HasPrefix(line, []byte("*** ls: "))) {
			continue
		}
		s.begun = true
		s.rest = append(append(s.rest[:0], line...), '\n')
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// titleOf reads a section's title off its first line: "*** /proc/meminfo", "/usr/bin/nvidia-smi --query"; "" for what is none.
func titleOf(line string) string {
	line = strings.TrimSpace(line)
	if t, ok := strings.CutPrefix(line, "*** "); ok {
		if strings.HasSuffix(t, "does not exist") || strings.HasPrefix(t, "ls: ") || strings.HasSuffix(t, "is not readable") {
			return ""
		}
		return plain(strings.TrimPrefix(t, "/"))
	}
	if strings.HasPrefix(line, "/") {
		return plain(ingest.Program(line) + line[len(strings.Fields(line)[0]):])
	}
	return plain(line)
}

// plain makes a name of letters, digits and a few marks.
func plain(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '/':
			b.WriteRune(c)
		default:
			if n := b.Len(); n > 0 && b.String()[n-1] != '-' {
				b.WriteByte('-')
			}
		}
		if b.Len() > 100 {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}

// each calls do with every section of a bug report; what it leaves unread is skipped.
func each(r io.Reader, do func(s *section) error) error {
	l := ingest.NewPlainLines(r)
	more := true
	for more {
		s := &section{l: l, mark: '_'}
		for {
			line, ok := s.next()
			if !ok {
				break
			}
			if t := string(bytes.TrimSpace(line)); t != "" {
				s.title = titleOf(t)
				if strings.HasPrefix(t, "Start of NVIDIA") {
					s.title = ""
				}
				break
			}
		}
		if !s.done {
			if err := do(s); err != nil {
				return err
			}
			for !s.done {
				_, _ = s.next()
			}
		}
		more = s.more
	}
	return l.Err()
}

func splitReport(r io.Reader, part func(string, io.Reader) error) error {
	return each(r, func(s *section) error {
		if s.title == "" || ours(s.title) {
			return nil
		}
		return part(s.title, s)
	})
}

// ours tells the sections that read reads.
func ours(title string) bool {
	return title == "proc/meminfo" || title == "proc/driver/nvidia/version" || strings.HasPrefix(title, "proc/driver/nvidia/") && strings.HasSuffix(title, "/information")
}

var (
	nvrmVersion = regexp.MustCompile(`^NVRM version:.*?(\d{3}\.\d+(?:\.\d+)?)`)
	uname       = regexp.MustCompile(`^uname: Linux (\S+) (\S+)`)
	memTotal    = regexp.MustCompile(`^MemTotal: +(\d+) kB`)
)

// card is what /proc/driver/nvidia/gpus says of a GPU.
type card struct {
	row                    uint32
	name, uuid, bus, vbios string
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	src := &b.TL.Sources[in.Source]
	host := func() timeline.TrackID {
		return b.Track(timeline.Track{Source: in.Source, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: "host"})
	}
	clock := timeline.Clock{Name: src.Path, Step: time.Second, Why: "the report states no date that can be read"}
	at := timeline.Time(0)
	sections := int64(0)
	var cards []card
	err = each(f, func(s *section) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sections++
		if s.title != "" && !ours(s.title) {
			return nil
		}
		c := card{}
		for n := 0; n < 1000; n++ {
			line, ok := s.next()
			if !ok {
				break
			}
			text, row := string(bytes.TrimSpace(line)), uint32(s.l.Row)
			name, value, _ := strings.Cut(text, ":")
			value = strings.TrimSpace(value)
			switch {
			case s.title == "" && name == "Date":
				if t, zoned := dateOf(value); !t.IsZero() {
					at = timeline.Time(t.UnixNano())
					clock.Wall, clock.Error, clock.Why = true, time.Minute, "the instant at which the report was begun; collecting takes a minute or more"
					if zoned {
						clock.Zoned, clock.How = true, timeline.Recorded
					}
				}
			case s.title == "":
				if m := uname.FindStringSubmatch(text); m != nil {
					src.Host = m[1]
					b.AddAttr(host(), timeline.AttrHostKernel, m[2], at, row)
				}
			case s.title == "proc/meminfo":
				if m := memTotal.FindStringSubmatch(text); m != nil {
					if kb, err := strconv.ParseFloat(m[1], 64); err == nil {
						b.AddNumber(host(), timeline.AttrHostMemory, kb*1024, unit.Byte, at, row)
					}
				}
			case s.title == "proc/driver/nvidia/version":
				if m := nvrmVersion.FindStringSubmatch(text); m != nil {
					b.AddAttr(host(), timeline.AttrDriver, m[1], at, row)
				}
			case name == "Model":
				c.name, c.row = value, row
			case name == "GPU UUID":
				if ingest.CellOf(value) == ingest.CellValue && !strings.Contains(value, "?") {
					c.uuid = ingest.KnownUUID(value)
				}
			case name == "Bus Location":
				c.bus = ingest.BusID(value)
			case name == "Video BIOS":
				c.vbios = value
			}
		}
		if c.bus != "" && len(cards) < ingest.MaxGPUs {
			cards = append(cards, c)
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		in.Report("nvidia-bug-report/damaged-file", timeline.DataLoss, 0, "%v: what lies before it is read", err)
	}
	for _, c := range cards {
		t := b.GPUTrack(timeline.Device{UUID: c.uuid, Bus: c.bus, Name: c.name, Index: -1, Ordinal: -1, Source: in.Source, Proc: -1, Vendor: "nvidia"}, "GPU "+c.bus)
		if strings.Trim(c.vbios, "?.") != "" {
			b.AddAttr(t, timeline.AttrVBIOS, c.vbios, at, c.row)
		}
	}
	src.Rows, src.Covers = sections, timeline.Instant.String()
	if sections == 0 {
		return errors.New("no section")
	}
	if clock.Zoned {
		src.Coverage = []timeline.Interval{{Start: at, End: at + 1}}
	}
	b.AddClock(in.Source, clock)
	return nil
}

var dateForms = []string{"Mon Jan 2 15:04:05 UTC 2006", "Mon Jan 2 15:04:05 GMT 2006", "Mon Jan 2 15:04:05 -07 2006", "Mon Jan 2 15:04:05 -0700 2006", "Mon Jan 2 03:04:05 PM UTC 2006", "Mon 02 Jan 2006 03:04:05 PM UTC", "Mon 02 Jan 2006 15:04:05 UTC"}

var looseForms = []string{"Mon Jan 2 15:04:05 MST 2006", "Mon Jan 2 03:04:05 PM MST 2006", "Mon 02 Jan 2006 03:04:05 PM MST", "Mon 02 Jan 2006 15:04:05 MST", time.ANSIC}

// dateOf reads what date prints. A zone that is only a name, but for UTC and GMT, is taken for none: such names mean several things.
func dateOf(s string) (t time.Time, zoned bool) {
	s = strings.Join(strings.Fields(s), " ")
	for i, forms := range [][]string{dateForms, looseForms} {
		for _, f := range forms {
			if t, err := time.Parse(f, s); err == nil && t.Year() >= 1990 && t.Year() <= 2200 {
				if i == 0 {
					return t, true
				}
				return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC), false
			}
		}
	}
	return time.Time{}, false
}

// eachCapture calls do with every section of a capture: what follows a title, lines that begin with # between two rules of #. command
// tells that a line of the title shows a command, "$ nvidia-smi -q".
func eachCapture(r io.Reader, do func(s *section, command bool) error) error {
	l := ingest.NewPlainLines(r)
	title, command, inTitle := "", false, false
	for l.Next() {
		if !rule(l.Text, '#') {
			if t, ok := strings.CutPrefix(string(l.Text), "#"); ok && inTitle {
				t = strings.TrimSpace(t)
				command = command || strings.HasPrefix(t, "$ ")
				if title == "" {
					title = strings.ReplaceAll(plain(t), "/", "-")
				}
			}
			continue
		}
		if !inTitle {
			inTitle, title, command = true, "", false
			continue
		}
		inTitle = false
		if title == "" {
			continue
		}
		s := &section{l: l, title: title, mark: '#'}
		if err := do(s, command); err != nil {
			return err
		}
		for !s.done {
			_, _ = s.next()
		}
		inTitle, title, command = s.more, "", false // the rule that ends it opens the next title
	}
	return l.Err()
}

func splitCapture(r io.Reader, part func(string, io.Reader) error) error {
	return eachCapture(r, func(s *section, command bool) error {
		if !command { // words of whoever made the capture
			return nil
		}
		return part(s.title, s)
	})
}

func readCapture(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	src := &b.TL.Sources[in.Source]
	clock := timeline.Clock{Name: src.Path, Step: time.Second, Why: "the capture states no time; its parts have clocks of their own"}
	head := true
	err = eachCapture(f, func(s *section, _ bool) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		src.Rows++
		if !head {
			return nil
		}
		head = false // what stands before the first command: when and of what
		for {
			line, ok := s.next()
			if !ok {
				break
			}
			name, value, _ := strings.Cut(string(line), ":")
			value = strings.TrimSpace(value)
			switch {
			case name == "collected_at":
				if t, err := time.Parse(time.RFC3339, value); err == nil && t.Year() >= 1990 && t.Year() <= 2200 {
					at := timeline.Time(t.UnixNano())
					clock.Wall, clock.Zoned, clock.How, clock.Error = true, true, timeline.Recorded, time.Minute
					clock.Why = "the instant at which it was collected"
					src.Coverage = []timeline.Interval{{Start: at, End: at + 1}}
				}
			case name == "kernel" || name == "os":
				t := b.Track(timeline.Track{Source: in.Source, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: "host"})
				b.AddAttr(t, map[string]string{"kernel": timeline.AttrHostKernel, "os": timeline.AttrHostOS}[name], value, 0, uint32(s.l.Row))
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		in.Report("smi-capture/damaged-file", timeline.DataLoss, 0, "%v: what lies before it is read", err)
	}
	src.Covers = timeline.Instant.String()
	if src.Rows == 0 {
		return errors.New("no part under a title")
	}
	b.AddClock(in.Source, clock)
	return nil
}
