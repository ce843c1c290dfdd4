// Package lscpu reads what lscpu (text or -J) and numactl (-H, -s) say of a host: its CPUs, sockets and NUMA nodes.
//
// lscpu is recognised by its lines of CPU(s) and NUMA nodes among "name: value" lines, or by its JSON; numactl by "available: N nodes" or
// "physcpubind:". Names of lscpu are translated with the system's language: the marks CPU(s) and NUMA stay, and are what is looked for.
//
// Clock: none, the file speaks of the host at no stated time. Nodes without CPUs, such as the memory of a GPU on Grace, are not counted.
package lscpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads lscpu.
var Format = ingest.Format{
	Name:      "lscpu",
	Doc:       "lscpu: CPUs, sockets and NUMA nodes of the host",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"hw"},
}

// NUMA reads numactl.
var NUMA = ingest.Format{
	Name:      "numactl",
	Doc:       "numactl -H, -s: CPUs and memory of each NUMA node, and what the shell may use",
	Recognise: func(h ingest.Head) bool { return recogniseNUMA(h.Text) },
	Read:      readNUMA,
	Asks:      []string{"hw"},
}

const maxNodes = 1024

var (
	nodeName  = regexp.MustCompile(`^NUMA\D*(\d+)\D*CPU`)
	available = regexp.MustCompile(`^available: \d+ nodes? \(`)
	nodeCPUs  = regexp.MustCompile(`^node (\d+) cpus:(.*)$`)
	nodeSize  = regexp.MustCompile(`^node (\d+) size: (\d+) MB$`)
)

func recognise(h ingest.Head) bool {
	t := bytes.TrimLeft(h.Text, " \t\r\n")
	if len(t) > 0 && t[0] == '{' {
		return bytes.HasPrefix(bytes.Join(bytes.Fields(t[:min(len(t), 200)]), nil), []byte(`{"lscpu":[`))
	}
	cpus, other := false, false
	n := 0
	for line := range bytes.Lines(t) {
		if n++; n > 60 {
			break
		}
		line = bytes.TrimSpace(line)
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		switch s := string(name); {
		case s == "CPU(s)":
			cpus = true
		case strings.HasPrefix(s, "NUMA node") || nodeName.MatchString(s) || s == "BogoMIPS" || s == "Architecture":
			other = true
		}
		if n == 1 && !cpus && !other && !bytes.HasPrefix(name, []byte("Arch")) && isASCII(name) {
			return false
		}
	}
	return cpus && other
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func recogniseNUMA(t []byte) bool {
	n := 0
	policy := false
	for line := range bytes.Lines(t) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if n++; n > 3 {
			return false
		}
		if available.Match(line) || policy && bytes.HasPrefix(line, []byte("physcpubind:")) {
			return true
		}
		policy = policy || n == 1 && bytes.HasPrefix(line, []byte("policy: "))
	}
	return false
}

// host collects what is said.
type host struct {
	in    *ingest.Input
	b     *timeline.Builder
	rows  int64
	nodes map[int]string // CPUs of each node, as a list
	seen  bool
}

func (h *host) track() timeline.TrackID {
	return h.b.Track(timeline.Track{Source: h.in.Source, Kind: timeline.TrackHostReadings, Proc: -1, Device: -1, Thread: -1, Name: "host"})
}

func (h *host) number(name string, v float64, u unit.Unit, row uint64) {
	h.seen = true
	h.b.AddNumber(h.track(), name, v, u, 0, uint32(row))
}

func (h *host) text(name, s string, row uint64) {
	if s != "" {
		h.seen = true
		h.b.AddAttr(h.track(), name, s, 0, uint32(row))
	}
}

func (h *host) node(n int, cpus string, row uint64) {
	if len(h.nodes) >= maxNodes || n >= 1<<20 {
		return
	}
	list, ok := cpuList(cpus)
	if !ok {
		h.in.Report("lscpu/bad-list", timeline.DataLoss, row, "node %d: %.60q is no list of CPUs", n, cpus)
		return
	}
	h.nodes[n] = list
}

func (h *host) finish(format string) error {
	var order []int
	for n, list := range h.nodes {
		if list != "" {
			order = append(order, n)
		}
	}
	slices.Sort(order)
	var all []string
	for _, n := range order {
		all = append(all, strconv.Itoa(n)+":"+h.nodes[n])
	}
	if len(order) > 0 {
		h.number(timeline.AttrHostNUMANodes, float64(len(order)), unit.Count, 1)
		h.text(timeline.AttrHostNUMACPUs, strings.Join(all, " "), 1)
	}
	src := &h.b.TL.Sources[h.in.Source]
	src.Rows, src.Covers = h.rows, timeline.Instant.String()
	if !h.seen {
		return errors.New("nothing that is known of a host: record again with " + format)
	}
	h.b.AddClock(h.in.Source, timeline.Clock{Name: src.Path, Why: "it speaks of the host at no stated time"})
	return nil
}

// cpuList gives CPUs as ranges, "0-31,64-95", from such a list or from numbers between blanks.
func cpuList(s string) (string, bool) {
	var ranges [][2]int
	for part := range strings.FieldsFuncSeq(s, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' }) {
		a, b, two := strings.Cut(part, "-")
		lo, err := strconv.Atoi(a)
		hi := lo
		if err == nil && two {
			hi, err = strconv.Atoi(b)
		}
		if err != nil || lo < 0 || hi < lo || hi > 1<<20 || len(ranges) > 1<<16 {
			return "", false
		}
		ranges = append(ranges, [2]int{lo, hi})
	}
	slices.SortFunc(ranges, func(x, y [2]int) int { return x[0] - y[0] })
	var out []string
	for i := 0; i < len(ranges); {
		lo, hi := ranges[i][0], ranges[i][1]
		for i++; i < len(ranges) && ranges[i][0] <= hi+1; i++ {
			hi = max(hi, ranges[i][1])
		}
		if lo == hi {
			out = append(out, strconv.Itoa(lo))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", lo, hi))
		}
	}
	return strings.Join(out, ","), true
}

// count is how many CPUs a list of cpuList holds.
func count(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		a, b, two := strings.Cut(part, "-")
		lo, err := strconv.Atoi(a)
		if err != nil {
			continue
		}
		if hi, err := strconv.Atoi(b); two && err == nil {
			n += hi - lo
		}
		n++
	}
	return n
}

// field is one entry of lscpu -J.
type field struct {
	Field    string
	Data     string
	Children []field
}

func read(_ context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil {
		in.Report("lscpu/damaged-file", timeline.DataLoss, 0, "%v: what lies before it is read", err)
	}
	h := &host{in: in, b: b, nodes: map[int]string{}}
	var fields []entry
	if t := bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))); len(t) > 0 && t[0] == '{' {
		var doc struct{ Lscpu []field }
		if err := json.Unmarshal(t, &doc); err != nil {
			return fmt.Errorf("not the JSON of lscpu -J: %w", err)
		}
		fields = flatten(doc.Lscpu, 0)
	} else {
		l := ingest.NewLines(bytes.NewReader(text))
		for l.Next() {
			if name, value, ok := strings.Cut(string(l.Text), ":"); ok {
				fields = append(fields, entry{strings.TrimSpace(name), strings.TrimSpace(value), l.Row})
			}
		}
	}
	h.rows = int64(len(fields))
	cpus, online := entry{}, entry{}
	for _, e := range fields {
		switch {
		case e.name == "CPU(s)":
			cpus = e
		case strings.HasPrefix(e.name, "On-line CPU(s) list") || strings.Contains(e.name, "CPU(s)") && online.name == "" && cpus.name != "" && !strings.HasPrefix(e.name, "NUMA") && !strings.HasPrefix(e.name, "Off-line") && strings.ContainsAny(e.value, "-,"):
			if list, ok := cpuList(e.value); ok && list != "" {
				online = entry{e.name, list, e.row}
			}
		case e.name == "Model name" || e.name == "Modellname" || e.name == "Nom de modèle" || e.name == "型号名称" || e.name == "モデル名":
			h.text(timeline.AttrHostCPUModel, e.value, e.row)
		case e.name == "Socket(s)" || e.name == "Sockel" || e.name == "座" || e.name == "ソケット数":
			if n, err := strconv.Atoi(e.value); err == nil && n > 0 {
				h.number(timeline.AttrHostSockets, float64(n), unit.Count, e.row)
			}
		default:
			if m := nodeName.FindStringSubmatch(e.name); m != nil {
				if n, err := strconv.Atoi(m[1]); err == nil {
					h.node(n, e.value, e.row)
				}
			}
		}
	}
	n, err := strconv.Atoi(cpus.value)
	switch {
	case online.name != "":
		h.number(timeline.AttrHostCPUs, float64(count(online.value)), unit.Count, online.row)
	case err == nil && n > 0:
		h.number(timeline.AttrHostCPUs, float64(n), unit.Count, cpus.row)
	}
	return h.finish("lscpu")
}

type entry struct {
	name, value string
	row         uint64
}

func flatten(fields []field, from int) []entry {
	var out []entry
	for _, f := range fields {
		out = append(out, entry{strings.TrimSuffix(strings.TrimSpace(f.Field), ":"), strings.TrimSpace(f.Data), uint64(from + len(out) + 1)})
		out = append(out, flatten(f.Children, from+len(out))...)
	}
	return out
}

func readNUMA(_ context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	h := &host{in: in, b: b, nodes: map[int]string{}}
	l := ingest.NewLines(f)
	memory, memRow, nodes := 0.0, uint64(0), 0
	for l.Next() && l.Row < 1<<16 {
		line := strings.TrimSpace(string(l.Text))
		if line == "" {
			continue
		}
		h.rows++
		if m := nodeCPUs.FindStringSubmatch(line); m != nil && l.Ended {
			if n, err := strconv.Atoi(m[1]); err == nil {
				h.node(n, m[2], l.Row)
			}
		} else if m := nodeSize.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			if mb, err := strconv.ParseFloat(m[2], 64); err == nil && h.nodes[n] != "" { // of the host, not of a GPU
				memory += mb * (1 << 20)
				memRow = l.Row
				nodes++
			}
		} else if rest, ok := strings.CutPrefix(line, "physcpubind:"); ok && l.Ended {
			if list, ok := cpuList(rest); ok {
				h.text(timeline.AttrCPUSet, list, l.Row)
			}
		}
	}
	if err := l.Err(); err != nil {
		in.Report("numactl/damaged-file", timeline.DataLoss, l.Row, "%v: what lies before it is read", err)
	}
	cpus := 0
	withCPUs := 0
	for _, list := range h.nodes {
		if list != "" {
			cpus += count(list)
			withCPUs++
		}
	}
	if cpus > 0 {
		h.number(timeline.AttrHostCPUs, float64(cpus), unit.Count, 1)
	}
	if memory > 0 && nodes == withCPUs {
		h.number(timeline.AttrHostMemory, memory, unit.Byte, memRow)
	}
	return h.finish("numactl -H")
}
