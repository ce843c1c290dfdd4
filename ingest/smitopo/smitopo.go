// Package smitopo reads the matrix of `nvidia-smi topo -m`: how each GPU and network adapter of a host is joined with each other, and
// which CPUs and NUMA node lie near each GPU. `topo -mp` (PCIe alone) has the same form; `topo -p2p` one of its own words.
//
// Versions seen: R450 to R595, with tabs or blanks, the header underlined by ANSI escapes, with and without adapters. It is recognised by
// a header line that begins with blanks and GPU0, and a row GPU0 below it; the sentence that Windows prints instead is taken too.
//
// There is no time in it: attributes and links hold for the whole run. A is the row and B the column, each pair stands in both orders.
// NIC0 is replaced by the adapter's name where the legend tells it. Kinds, nearest first: NV# (so many NVLinks), PIX, PXB, PHB, NODE,
// SYS. Of several matrices of one host the first that knows a pair counts;
// of several hosts, told apart by line prefixes, only the first one's links are kept, for their names are the same.
//
// What it cannot tell: names and UUIDs of the GPUs, which host, the state of the links now.
package smitopo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads nvidia-smi topo.
var Format = ingest.Format{
	Name:      "topo",
	Doc:       "nvidia-smi topo -m: how GPUs, adapters, CPUs and NUMA nodes of a host are joined",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"comm", "hw"},
}

const noMatrix = "ERROR: Option -m is missing its value" // Windows has no matrix

func recognise(h ingest.Head) bool {
	n := 0
	var before []byte
	for line := range bytes.Lines(h.Text) {
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if bytes.HasPrefix(line, []byte(noMatrix)) {
			return true
		}
		if isHeader(before) && bytes.HasPrefix(bytes.TrimSpace(line), []byte("GPU0")) {
			return true
		}
		if n++; n > 3 {
			return false
		}
		before = bytes.Clone(line)
	}
	return false
}

// isHeader tells a line of column names: it begins with blanks, for the corner is empty.
func isHeader(line []byte) bool {
	if len(line) == 0 || line[0] != ' ' && line[0] != '\t' {
		return false
	}
	f := bytes.Fields(line)
	return len(f) > 0 && string(f[0]) == "GPU0"
}

var (
	cellForm = regexp.MustCompile(`^(NV(\d{1,3})|[A-Z]{3,5})$`) // SOC is the old word for SYS
	peerForm = regexp.MustCompile(`^(OK|NS|CNS|GNS|TNS|U|X)$`)
	gpuForm  = regexp.MustCompile(`^GPU(\d{1,4})$`)
	nicForm  = regexp.MustCompile(`^(NIC\d{1,4}): (\S+)$`)
)

const maxColumns = 256 // GPUs and adapters of one host

type pair struct{ a, b string }

// host is what one machine printed; most files hold one.
type host struct {
	label string
	cols  []string
	tail  []string // names of the columns behind the matrix
	gpus  map[int]*gpu
	seen  map[pair]bool
	nics  map[string]string
}

type gpu struct {
	track timeline.TrackID
	attrs map[string]bool
}

type reader struct {
	in    *ingest.Input
	b     *timeline.Builder
	hosts map[string]*host
	order []*host
	rows  int64
	said  string
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, hosts: map[string]*host{}}
	if err := ingest.NewLines(f).Each(ctx, in, "topo", r.line); err != nil {
		return err
	}
	return r.finish()
}

func (r *reader) line(l *ingest.Lines) {
	line, row := l.Text, l.Row
	text := strings.TrimSpace(string(line))
	switch {
	case text == "":
		return
	case l.Long:
		r.in.Report("topo/long-line", timeline.DataLoss, row, "a line of more than 1 MiB: skipped")
		return
	}
	h := r.hosts[l.Label]
	if h == nil {
		h = &host{label: l.Label, gpus: map[int]*gpu{}, seen: map[pair]bool{}, nics: map[string]string{}}
		r.hosts[l.Label] = h
		r.order = append(r.order, h)
	}
	if isHeader(line) {
		h.setHeader(text)
		if len(h.cols) > maxColumns {
			r.in.Report("topo/many-columns", timeline.DataLoss, row, "%d columns: no host has so many: the matrix is left out", len(h.cols))
			h.cols = nil
		}
		return
	}
	if m := nicForm.FindStringSubmatch(text); m != nil && l.Ended {
		h.nics[m[1]] = m[2]
		return
	}
	if strings.HasPrefix(text, noMatrix) {
		r.said = text
	}
	cells := strings.Fields(text)
	if h.cols == nil || len(cells) < 2 || cells[1] == "=" {
		return // legend and the like
	}
	known := false
	for _, c := range h.cols {
		known = known || c == cells[0]
	}
	if !known {
		return
	}
	r.row(h, cells, l)
}

// setHeader reads the column names; those behind the matrix are of two words each.
func (h *host) setHeader(text string) {
	h.cols, h.tail = nil, nil
	f := strings.Fields(text)
	for i := 0; i < len(f); i++ {
		switch {
		case (f[i] == "CPU" || f[i] == "NUMA") && i+1 < len(f) && f[i+1] == "Affinity":
			h.tail = append(h.tail, f[i])
			i++
		case f[i] == "GPU" && i+2 < len(f) && f[i+1] == "NUMA" && f[i+2] == "ID":
			h.tail = append(h.tail, "ID")
			i += 2
		default:
			h.cols = append(h.cols, f[i])
		}
	}
}

func (r *reader) row(h *host, cells []string, l *ingest.Lines) {
	row, name := l.Row, cells[0]
	cells = cells[1:]
	if !l.Ended {
		r.in.Report("topo/unterminated-row", timeline.Info, row, "the file ends without a line feed: the last cell may be cut and is left out")
		cells = cells[:len(cells)-1]
	}
	if len(cells) < len(h.cols) && l.Ended {
		r.in.Report("topo/short-row", timeline.DataLoss, row, "row %s has %d cells, the header %d columns: what it lacks is not known", clip(name), len(cells), len(h.cols))
	}
	n := min(len(cells), len(h.cols))
	var g *gpu
	m := gpuForm.FindStringSubmatch(name)
	if m != nil {
		index, _ := strconv.Atoi(m[1])
		if g = r.gpuOf(h, index, row); g == nil {
			return
		}
	}
	r.rows++
	if peers(cells[:n]) {
		if g != nil && n == len(h.cols) {
			r.word(g, timeline.AttrP2P, strings.Join(cells[:n], " "), row)
		}
		return
	}
	for i, c := range cells[:n] {
		p := pair{name, h.cols[i]}
		if c == "X" || p.a == p.b || h.seen[p] || h != r.order[0] {
			continue
		}
		form := cellForm.FindStringSubmatch(c)
		if form == nil {
			r.in.Report("topo/bad-cell", timeline.DataLoss, row, "%s to %s: %q is no way to be joined: left out", clip(p.a), clip(p.b), clip(c))
			continue
		}
		h.seen[p] = true
		count, _ := strconv.Atoi(form[2])
		r.b.TL.Links = append(r.b.TL.Links, timeline.Link{Source: r.in.Source, A: p.a, B: p.b, Kind: c, Count: int32(count), Row: uint32(row)})
	}
	if g == nil || n < len(h.cols) {
		return
	}
	for i, c := range cells[n:] {
		if i >= len(h.tail) {
			break
		}
		r.near(g, h.tail[i], c, row)
	}
}

// peers tells a row of -p2p: whether GPUs may reach each other's memory.
func peers(cells []string) bool {
	own := false
	for _, c := range cells {
		if !peerForm.MatchString(c) {
			return false
		}
		own = own || c != "X"
	}
	return own
}

// near takes what stands behind the matrix. A node of N/A says that the system has none.
func (r *reader) near(g *gpu, column, c string, row uint64) {
	switch column {
	case "CPU":
		if ingest.CellOf(c) == ingest.CellValue {
			r.word(g, timeline.AttrCPUAffinity, c, row)
		}
	case "NUMA":
		switch node, err := strconv.Atoi(c); {
		case ingest.CellOf(c) == ingest.CellAbsent:
			r.number(g, timeline.AttrNUMANode, -1, row)
		case err == nil && node >= 0 && node < 1<<16:
			r.number(g, timeline.AttrNUMANode, float64(node), row)
		default:
			r.in.Report("topo/several-nodes", timeline.Info, row, "NUMA affinity %q is not one node: left out", clip(c))
		}
	case "ID":
		if node, err := strconv.Atoi(c); err == nil && node >= 0 && node < 1<<16 {
			r.number(g, timeline.AttrGPUNUMANode, float64(node), row)
		}
	}
}

func (r *reader) word(g *gpu, name, text string, row uint64) {
	if !g.attrs[name] {
		g.attrs[name] = true
		r.b.AddAttr(g.track, name, text, 0, uint32(row))
	}
}

func (r *reader) number(g *gpu, name string, v float64, row uint64) {
	if !g.attrs[name] {
		g.attrs[name] = true
		r.b.AddNumber(g.track, name, v, unit.Count, 0, uint32(row))
	}
}

func (r *reader) gpuOf(h *host, index int, row uint64) *gpu {
	if g := h.gpus[index]; g != nil {
		return g
	}
	if len(r.b.TL.Devices) >= ingest.MaxGPUs {
		r.in.Report("topo/many-gpus", timeline.DataLoss, row, "GPU%d is one more than the %d that one file may have: left out", index, ingest.MaxGPUs)
		return nil
	}
	name := "GPU " + strconv.Itoa(index)
	if h.label != "" {
		name = h.label + ": " + name
	}
	d := timeline.Device{Index: index, Ordinal: -1, Source: r.in.Source, Proc: -1, Vendor: "nvidia"}
	g := &gpu{track: r.b.GPUTrack(d, name), attrs: map[string]bool{}}
	h.gpus[index] = g
	return g
}

func clip(s string) string { return s[:min(len(s), 60)] }

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.in.Source]
	src.Rows = r.rows
	if r.rows == 0 {
		if r.said != "" {
			return fmt.Errorf("nvidia-smi said %q: this system has no matrix; run nvidia-smi topo -m on Linux", clip(r.said))
		}
		return fmt.Errorf("a header without a row: the matrix was cut; run nvidia-smi topo -m again")
	}
	for i := range r.b.TL.Links {
		k, nics := &r.b.TL.Links[i], r.order[0].nics
		k.A, k.B = cmp.Or(nics[k.A], k.A), cmp.Or(nics[k.B], k.B)
	}
	if len(r.order) > 1 {
		r.in.Report("topo/several-hosts", timeline.DataLoss, 1, "%d different line prefixes: each is taken as a host of its own, and the links of the first alone are kept; give each host's matrix as a file of its own", len(r.order))
	}
	r.b.AddClock(r.in.Source, timeline.Clock{Name: src.Path, Why: "a topology has no time: it holds for the whole run"})
	return nil
}
