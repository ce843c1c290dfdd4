// Package nccllog reads what NCCL and RCCL log with NCCL_DEBUG=INFO: a job's output, or the files of NCCL_DEBUG_FILE, of one rank or of
// many that wrote at the same time; also the table of nccl-tests among it.
//
// Versions seen in public logs: NCCL 2.4 to 2.29, RCCL 2.6 to 2.21. It is recognised by a line of the form
// `host:pid:tid [device] NCCL INFO ...` among the first 64 KiB; what a launcher put before it (`[rank3]:`, `0: `, `[1,3]<stdout>:`, a stamp) does
// not matter, nor do lines of others between. Two lines that were written into one are parted again.
//
// Kept, a host: version, network and adapters, how channels are carried (P2P, SHM, NET/...), peer access and direct RDMA that are off, the
// variables of NCCL that were set; each rank as a process; a link for each pair of ranks, with the maker's word; warnings, aborts and
// timeouts as marks. Values that hold a network address lose it, and nothing of any other environment is kept.
//
// Clock: none. NCCL stamps at most its warnings, with a zone nobody states. Marks are in the order of their lines.
//
// Limit: a communicator of some ranks counts its own; its pairs are given ranks of the job only where all its members' lines are here.
package nccllog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads logs of NCCL.
var Format = ingest.Format{
	Name:      "nccl-log",
	Doc:       "NCCL_DEBUG=INFO output of NCCL or RCCL, one rank or many: which way each pair of ranks goes, adapters, direct RDMA, warnings",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"comm"},
}

const (
	maxProcs = 1 << 14
	maxPairs = 1 << 17
	maxMarks = 1000
	maxWords = 16 // statements of one kind that are kept of a host
)

// lineForm is host:pid:tid [device] NCCL INFO; warnings have the place in the source before the word, old versions no thread.
var lineForm = regexp.MustCompile(`([A-Za-z0-9][A-Za-z0-9._-]*):(\d{1,10})(?::(\d{1,10}))? \[(-?\d{1,4})\] (?:[\w./-]+:\d+ )?NCCL (INFO|WARN|TRACE|VERSION|ABORT) ?`)

// daemonLine begins a line that a system log keeps.
var daemonLine = regexp.MustCompile(`^(<\d+>)?([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\d{4}-\d\d-\d\dT\S+ \S+ \S+\[\d+\]: )`)

func recognise(h ingest.Head) bool {
	if !bytes.Contains(h.Text, []byte("] ")) || !bytes.Contains(h.Text, []byte("NCCL ")) {
		return false
	}
	if t := bytes.TrimLeft(h.Text, " \t\r\n"); len(t) == 0 || t[0] == '{' || bytes.HasPrefix(t, []byte("[{")) || bytes.HasPrefix(t, []byte("<?xml")) {
		return false
	}
	raw := h.Raw[:min(len(h.Raw), 200)]
	return !daemonLine.Match(raw) && lineForm.Match(h.Text)
}

type procKey struct {
	host string
	pid  int64
}

// comm is one communicator as one process sees it.
type comm struct {
	id     string // commId, "" not stated
	rank   int
	ranks  int
	device int
	bus    string
	nodes  int
}

type proc struct {
	procKey
	row     uint32
	device  int
	comms   []*comm
	threads map[int64]*comm // which one a thread makes now
}

// pair is a way between two ranks of a communicator that a process logged.
type pair struct {
	p    *proc
	c    *comm // nil: not known
	a, b int
	kind string
}

type word struct {
	text string
	row  uint32
}

// host gathers what the processes of one host say.
type host struct {
	name     string
	version  word
	network  word
	adapters map[string][]word // by network
	channels word
	nvls     word
	speed    float64
	speedRow uint32
	rdma     int // -1 nothing said
	rdmaRow  uint32
	p2pOff   []word
	gdrOff   []word
	env      []word
	ends     [5]int64
	endRow   [5]uint32
	warnings int64
	warnRow  uint32
}

// Ways that channels are carried.
const (
	overP2P = iota
	overSHM
	overSocket
	overRDMA
	overGDR
)

var endNames = [5]string{timeline.AttrNCCLP2PEnds, timeline.AttrNCCLSHMEnds, timeline.AttrNCCLSocketEnds, timeline.AttrNCCLRDMAEnds, timeline.AttrNCCLGDREnds}

type reader struct {
	in *ingest.Input
	b  *timeline.Builder

	rows  int64
	procs map[procKey]*proc
	order []*proc
	hosts map[string]*host
	names []string
	pairs map[pair]uint32 // first line
	list  []pair
	marks []word
	bench bench
	loose word // version stated outside of any process's line
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, b: b, procs: map[procKey]*proc{}, hosts: map[string]*host{}, pairs: map[pair]uint32{}}
	l := ingest.NewPlainLines(f)
	for l.Next() {
		if l.Row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if l.Long {
			in.Report("nccl-log/long-line", timeline.DataLoss, l.Row, "a line of more than 1 MiB: skipped")
			continue
		}
		r.line(l.Text, uint32(min(l.Row, 1<<32-1)), l.Ended)
	}
	if err := l.Err(); err != nil {
		in.Report("nccl-log/damaged-file", timeline.DataLoss, l.Row, "%v after line %d: what lies before it is read", err, l.Row)
	}
	return r.finish()
}

func (r *reader) line(text []byte, row uint32, ended bool) {
	at := lineForm.FindAllSubmatchIndex(text, -1)
	if len(at) == 0 {
		r.other(text, row)
		return
	}
	if len(at) > 1 {
		r.in.Report("nccl-log/merged-lines", timeline.Info, uint64(row), "two processes wrote into one line: it is parted at the second one's name")
	}
	names := make([]string, len(at))
	for i, m := range at {
		names[i] = string(text[m[2]:m[3]])
		if i > 0 { // the end of the message before sticks to the name: it goes back
			pid, _ := strconv.ParseInt(string(text[m[4]:m[5]]), 10, 64)
			names[i] = r.known(names[i], pid)
			m[0] = m[3] - len(names[i])
		}
	}
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		name := names[i]
		if name == "" {
			continue
		}
		pid, _ := strconv.ParseInt(string(text[m[4]:m[5]]), 10, 64)
		tid := pid
		if m[6] >= 0 {
			tid, _ = strconv.ParseInt(string(text[m[6]:m[7]]), 10, 64)
		}
		p := r.proc(name, pid, row)
		if p == nil {
			continue
		}
		if dev, err := strconv.Atoi(string(text[m[8]:m[9]])); err == nil && dev >= 0 {
			p.device = dev
		}
		r.rows++
		msg := strings.TrimSpace(string(text[m[1]:end]))
		if !ended && i == len(at)-1 {
			r.in.Report("nccl-log/unterminated-row", timeline.Info, uint64(row), "the file ends inside this line: left out")
			continue
		}
		if level := string(text[m[10]:m[11]]); level == "WARN" || level == "ABORT" {
			r.warn(r.hosts[name], p, msg, row)
			continue
		}
		r.message(r.hosts[name], p, tid, msg, row)
	}
}

// known finds the process of which a name that something sticks to ends in.
func (r *reader) known(name string, pid int64) string {
	for _, p := range r.order {
		if p.pid == pid && strings.HasSuffix(name, p.host) {
			return p.host
		}
	}
	return ""
}

func (r *reader) proc(name string, pid int64, row uint32) *proc {
	k := procKey{name, pid}
	if p := r.procs[k]; p != nil {
		return p
	}
	if len(r.procs) >= maxProcs {
		r.in.Report("nccl-log/many-processes", timeline.DataLoss, uint64(row), "more than %d processes: the others are left out", maxProcs)
		return nil
	}
	p := &proc{procKey: k, row: row, device: -1, threads: map[int64]*comm{}}
	r.procs[k] = p
	r.order = append(r.order, p)
	if r.hosts[name] == nil {
		r.hosts[name] = &host{name: name, rdma: -1, adapters: map[string][]word{}}
		r.names = append(r.names, name)
	}
	return p
}

var (
	versionForm  = regexp.MustCompile(`^(NCCL|RCCL) version ?:? ?(\d[\w.+:-]*)`)
	commForm     = regexp.MustCompile(`comm 0x[0-9a-f]+ rank (\d+) n[rR]anks (\d+)(?: nNodes (\d+))?(?: localRanks \d+)?(?: localRank \d+)?(?: cudaDev (\d+))?(?: nvmlDev (\d+))?(?: busId ([0-9a-fA-F]+))?(?: commId (0x[0-9a-f]+))?`)
	wayForm      = regexp.MustCompile(`^Channel (\d+)(?:/\d+)? ?: (\d+)(?:\[[0-9a-f]+\])? -> (\d+)(?:\[[0-9a-f]+\])?(?: \[(send|receive)\])? via (.+)$`)
	usingForm    = regexp.MustCompile(`^NET/([\w .-]+?) ?: Using (\[0\].*)$`)
	adapterForm  = regexp.MustCompile(`\[\d+\]([A-Za-z0-9_.@-]+(?::\d{1,3}/\w+)?)`)
	speedForm    = regexp.MustCompile(`name=([\w.@-]+) speed=(\d+)`)
	gdrForm      = regexp.MustCompile(`^NET/(\S+)[^:]*: GPU Direct RDMA(?: \(\w+\))? (?:[Dd]isabled|DISABLED) for (.*)$`)
	p2pForm      = regexp.MustCompile(`P2P is disabled between|[Cc]ould not enable P2P between|P2P plugin disabled|peer access is not supported`)
	channelsForm = regexp.MustCompile(`^\d+ coll channels, `)
	envForm      = regexp.MustCompile(`^((?:NCCL|RCCL)_[A-Z0-9_]+) set (?:by environment )?to (.*)$`)
	netAddress   = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b(?:[:<]\d+>?)?|\[?(?:[0-9A-Fa-f]{0,4}:){3,7}[0-9A-Fa-f.]{1,15}\]?(?:<\d+>)?`)
	memAddress   = regexp.MustCompile(`\b0x[0-9a-f]{4,}\b`)
	timeoutForm  = regexp.MustCompile(`Watchdog caught collective operation timeout|some NCCL operations have failed or timed out|NCCL communicator was aborted`)
	blanks       = regexp.MustCompile(`\s+`)
)

// other takes what libraries print outside of their log's form.
func (r *reader) other(text []byte, row uint32) {
	switch {
	case bytes.Contains(text, []byte("CCL version")):
		if m := versionForm.FindSubmatch(bytes.TrimSpace(text)); m != nil && r.loose.text == "" {
			r.loose = word{version(string(m[1]), string(m[2])), row}
		}
	case timeoutForm.Match(text):
		r.rows++
		r.mark(string(text), row)
	default:
		r.bench.line(r, text, row)
	}
}

func version(lib, number string) string {
	if lib == "RCCL" {
		return "RCCL " + number
	}
	return number
}

func (r *reader) message(h *host, p *proc, tid int64, msg string, row uint32) {
	switch {
	case strings.HasPrefix(msg, "Channel "):
		if m := wayForm.FindStringSubmatch(msg); m != nil {
			r.way(h, p, tid, m, row)
		}
	case strings.Contains(msg, "CL version "):
		if m := versionForm.FindStringSubmatch(msg); m != nil {
			first(&h.version, version(m[1], m[2]), row)
		}
	case strings.HasPrefix(msg, "NCCL_") || strings.HasPrefix(msg, "RCCL_"):
		if m := envForm.FindStringSubmatch(msg); m != nil {
			several(&h.env, m[1]+"="+clean(strings.TrimSuffix(m[2], ".")), row, 64)
		}
	case strings.HasPrefix(msg, "Using network "):
		// Communicators of one process choose alike; the last word stands.
		h.network = word{clean(strings.TrimPrefix(msg, "Using network ")), row}
	case strings.HasPrefix(msg, "NET/"):
		r.net(h, msg, row)
	case strings.Contains(msg, "GPU Direct RDMA"):
		r.net(h, "NET/ : "+msg, row)
	case channelsForm.MatchString(msg):
		h.channels = word{clean(msg), row}
	case strings.HasPrefix(msg, "NVLS multicast support is "):
		first(&h.nvls, "available", row)
		if strings.Contains(msg, "not available") {
			h.nvls = word{"not available", row}
		}
	case strings.HasPrefix(msg, "NVLS comm ") || strings.HasPrefix(msg, "Connected NVLS"):
		h.nvls = word{"used", row}
	case p2pForm.MatchString(msg):
		several(&h.p2pOff, clean(msg), row, maxWords)
	case timeoutForm.MatchString(msg) || strings.HasSuffix(msg, "Abort COMPLETE"):
		r.mark(msg, row)
	}
	if strings.Contains(msg, "comm 0x") && strings.Contains(msg, " rank ") {
		if m := commForm.FindStringSubmatch(msg); m != nil {
			p.comm(tid, m)
		}
	}
}

func first(w *word, text string, row uint32) {
	if w.text == "" {
		*w = word{text, row}
	}
}

func several(ws *[]word, text string, row uint32, most int) {
	for _, w := range *ws {
		if w.text == text {
			return
		}
	}
	if len(*ws) < most {
		*ws = append(*ws, word{text, row})
	}
}

// comm takes what a line says of a communicator: the thread goes on to speak of it.
func (p *proc) comm(tid int64, m []string) {
	num := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			return -1
		}
		return n
	}
	rank, ranks := num(m[1]), num(m[2])
	if rank < 0 || ranks < 1 || rank >= ranks || ranks > 1<<20 {
		return
	}
	c := p.threads[tid]
	if c == nil || c.rank != rank || c.ranks != ranks || m[7] != "" && c.id != "" && c.id != m[7] {
		c = nil
		for _, o := range p.comms {
			if o.rank == rank && o.ranks == ranks && (m[7] == "" || o.id == "" || o.id == m[7]) {
				c = o
			}
		}
		if c == nil {
			if len(p.comms) >= 256 {
				return
			}
			c = &comm{rank: rank, ranks: ranks, device: -1}
			p.comms = append(p.comms, c)
		}
		p.threads[tid] = c
	}
	if m[7] != "" {
		c.id = m[7]
	}
	if m[6] != "" {
		c.bus = m[6]
	}
	if n := num(m[3]); n > 0 {
		c.nodes = n
	}
	for _, s := range []string{m[4], m[5]} { // the NVML number is the better one
		if d := num(s); d >= 0 {
			c.device = d
		}
	}
}

// widest is the process's largest communicator, the first of equal ones.
func (p *proc) widest() *comm {
	var best *comm
	for _, c := range p.comms {
		if best == nil || c.ranks > best.ranks {
			best = c
		}
	}
	return best
}

func (r *reader) way(h *host, p *proc, tid int64, m []string, row uint32) {
	a, errA := strconv.Atoi(m[2])
	b, errB := strconv.Atoi(m[3])
	if errA != nil || errB != nil {
		return
	}
	kind, class := way(m[5])
	h.ends[class]++
	if class == overGDR {
		h.ends[overRDMA]++
	}
	for _, k := range []int{class, min(class, overRDMA)} {
		if h.endRow[k] == 0 {
			h.endRow[k] = row
		}
	}
	c := p.threads[tid]
	if c == nil {
		c = p.widest()
	}
	k := pair{p, c, a, b, kind}
	if _, seen := r.pairs[k]; seen {
		return
	}
	if len(r.list) >= maxPairs {
		r.in.Report("nccl-log/many-pairs", timeline.DataLoss, uint64(row), "more than %d pairs of ranks: the others are counted, not named", maxPairs)
		return
	}
	r.pairs[k] = row
	r.list = append(r.list, k)
}

// way gives the maker's word for how a channel is carried, without the adapter's number and what follows it, and its class.
func way(via string) (kind string, class int) {
	if i := strings.Index(via, " comm 0x"); i >= 0 {
		via = via[:i]
	}
	via = clean(via)
	parts := strings.Split(via, "/")
	switch parts[0] {
	case "NET":
		kept := parts[:1]
		for _, s := range parts[1:] {
			if i := strings.IndexAny(s, "( "); i > 0 && strings.Trim(s[:i], "0123456789-") == "" {
				s = s[:i] // "0(1)": through another GPU's adapter
			}
			if strings.Trim(s, "0123456789-") != "" {
				kept = append(kept, s)
			}
		}
		kind = strings.Join(kept, "/")
		switch {
		case strings.Contains(kind, "Socket"):
			return kind, overSocket
		case strings.Contains(kind, "GDRDMA"):
			return kind, overGDR
		}
		return kind, overRDMA
	case "SHM", "direct":
		return via, overSHM
	}
	if strings.HasPrefix(via, "SHM") {
		return via, overSHM
	}
	return via, overP2P
}

func (r *reader) net(h *host, msg string, row uint32) {
	switch {
	case strings.Contains(msg, "GPU Direct RDMA"):
		if m := gdrForm.FindStringSubmatch(msg); m != nil && !strings.Contains(m[1], "Socket") {
			several(&h.gdrOff, clean(m[2]), row, maxWords)
		}
	case strings.HasPrefix(msg, "NET/IB : No device found"):
		if h.rdma < 0 {
			h.rdma, h.rdmaRow = 0, row
		}
	case strings.Contains(msg, " speed="):
		if m := speedForm.FindStringSubmatch(msg); m != nil {
			// In Mbit/s. Adapters of one host that differ: the slowest speaks for them.
			if mbit, err := strconv.ParseFloat(m[2], 64); err == nil && mbit > 0 && mbit < 1e9 && (h.speed == 0 || mbit*1e6/8 < h.speed) {
				h.speed, h.speedRow = mbit*1e6/8, row
			}
		}
	case strings.Contains(msg, ": Using [0]"):
		m := usingForm.FindStringSubmatch(msg)
		if m == nil {
			return
		}
		list, _, _ := strings.Cut(m[2], "; OOB")
		var names []word
		for _, a := range adapterForm.FindAllStringSubmatch(list, 64) {
			names = append(names, word{a[1], row})
		}
		if len(names) == 0 {
			return
		}
		if len(h.adapters[m[1]]) < len(names) && len(h.adapters) < maxWords {
			h.adapters[m[1]] = names
		}
		if !strings.Contains(m[1], "Socket") && len(names) > h.rdma {
			h.rdma, h.rdmaRow = len(names), row
		}
	}
}

func (r *reader) warn(h *host, p *proc, msg string, row uint32) {
	h.warnings++
	if h.warnRow == 0 {
		h.warnRow = row
	}
	if p2pForm.MatchString(msg) {
		several(&h.p2pOff, clean(msg), row, maxWords)
	}
	who := p.host
	if c := p.widest(); c != nil {
		who += " rank " + strconv.Itoa(c.rank)
	}
	r.mark("NCCL WARN of "+who+": "+msg, row)
}

func (r *reader) mark(text string, row uint32) {
	text = clean(text)
	for _, m := range r.marks[max(0, len(r.marks)-64):] {
		if m.text == text {
			return
		}
	}
	if len(r.marks) >= maxMarks {
		r.in.Report("nccl-log/many-warnings", timeline.DataLoss, uint64(row), "more than %d different warnings: the others are counted, not kept", maxMarks)
		return
	}
	r.marks = append(r.marks, word{text, row})
}

// clean makes a text fit to be shown: one line, no addresses.
func clean(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < 0x20 || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
	s = netAddress.ReplaceAllString(s, "(address)")
	s = memAddress.ReplaceAllString(s, "(address)")
	s = strings.TrimSpace(blanks.ReplaceAllString(s, " "))
	const most = 240
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func (r *reader) finish() error {
	src := &r.b.TL.Sources[r.in.Source]
	src.Rows = r.rows
	if len(r.order) == 0 {
		return errors.New("no line of NCCL: set NCCL_DEBUG=INFO and run again")
	}
	if len(r.names) == 1 {
		src.Host = r.names[0]
	}
	world := 0
	for _, p := range r.order {
		if c := p.widest(); c != nil {
			world = max(world, c.ranks)
		}
	}
	number := map[*proc]int{}            // rank in the job
	member := map[string]map[int]*proc{} // of a communicator, by its own rank
	for _, p := range r.order {
		number[p] = -1
		c := p.widest()
		if c != nil && c.ranks == world {
			number[p] = c.rank
		}
		for _, c := range p.comms {
			if c.id == "" {
				continue
			}
			if member[c.id] == nil {
				member[c.id] = map[int]*proc{}
			}
			member[c.id][c.rank] = p
		}
		r.addProc(p, number[p], world)
	}
	r.links(number, member, world)
	for _, name := range r.names {
		r.attrs(r.hosts[name], world)
	}
	if len(r.marks) > 0 {
		t := r.track(r.names[0])
		for _, m := range r.marks {
			r.b.AddEvent(timeline.MarkOutput, t, timeline.Time(m.row), 0, m.text, m.row)
		}
	}
	r.b.AddClock(r.in.Source, timeline.Clock{Name: src.Path, Why: "NCCL logs no times: the log has an order alone"})
	return nil
}

func (r *reader) addProc(p *proc, rank, world int) {
	t := timeline.Process{Source: r.in.Source, PID: p.pid, Host: p.host, Rank: rank, Backend: "nccl", Meta: map[string]string{}}
	if rank >= 0 {
		t.RankHow, t.WorldSize = "NCCL communicator", world
	}
	if v := r.versionOf(r.hosts[p.host]); v.text != "" {
		t.Meta["nccl_version"] = v.text
	}
	dev := p.device
	if c := p.widest(); c != nil && c.device >= 0 {
		dev = c.device
	}
	if dev >= 0 {
		t.Meta["gpu"] = strconv.Itoa(dev)
	}
	r.b.AddProc(t)
}

func (r *reader) versionOf(h *host) word {
	if h.version.text != "" {
		return h.version
	}
	return r.loose
}

// links names pairs by their rank in the job. Of several ways of one pair each is a link.
func (r *reader) links(number map[*proc]int, member map[string]map[int]*proc, world int) {
	global := func(c *comm, rank int) int {
		switch {
		case c == nil:
			return -1
		case c.ranks == world:
			return rank
		case c.id != "" && member[c.id][rank] != nil:
			return number[member[c.id][rank]]
		}
		return -1
	}
	type named struct {
		a, b int
		kind string
	}
	rows := map[named]uint32{}
	var order []named
	unnamed := int64(0)
	for _, k := range r.list {
		n := named{global(k.c, k.a), global(k.c, k.b), k.kind}
		if n.a < 0 || n.b < 0 {
			unnamed++
			continue
		}
		row := r.pairs[k]
		if old, seen := rows[n]; seen {
			rows[n] = min(old, row)
			continue
		}
		rows[n] = row
		order = append(order, n)
	}
	slices.SortFunc(order, func(x, y named) int {
		if x.a != y.a {
			return x.a - y.a
		}
		if x.b != y.b {
			return x.b - y.b
		}
		return strings.Compare(x.kind, y.kind)
	})
	for _, n := range order {
		r.b.TL.Links = append(r.b.TL.Links, timeline.Link{Source: r.in.Source, A: "rank" + strconv.Itoa(n.a), B: "rank" + strconv.Itoa(n.b), Kind: n.kind, Row: rows[n]})
	}
	r.in.ReportN(unnamed, "nccl-log/unnamed-pairs", timeline.Info, 1, "pairs of ranks in a communicator whose members are not told: their ways are counted, not named; log with NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,NET on every rank")
}

func (r *reader) track(host string) timeline.TrackID {
	return r.b.Track(timeline.Track{Source: r.in.Source, Kind: timeline.TrackOther, Proc: -1, Device: -1, Thread: -1, Name: host})
}

func (r *reader) attrs(h *host, world int) {
	t := r.track(h.name)
	text := func(name string, w word) {
		if w.text != "" {
			r.b.AddAttr(t, name, w.text, 0, w.row)
		}
	}
	list := func(name, sep string, ws []word) {
		if len(ws) == 0 {
			return
		}
		out := ws[0]
		for _, w := range ws[1:] {
			out.text += sep + w.text
		}
		text(name, out)
	}
	text(timeline.AttrNCCLVersion, r.versionOf(h))
	n, row := 0, uint32(0)
	for _, p := range r.order {
		if p.host == h.name {
			if n++; row == 0 {
				row = p.row
			}
		}
	}
	if world > 0 {
		text(timeline.AttrNCCLRanks, word{fmt.Sprintf("%d of %d", n, world), row})
	}
	text(timeline.AttrNCCLNetwork, h.network)
	list(timeline.AttrNCCLAdapters, " ", r.used(h))
	text(timeline.AttrNCCLChannels, h.channels)
	text(timeline.AttrNCCLNVLS, h.nvls)
	list(timeline.AttrNCCLP2POff, "; ", h.p2pOff)
	list(timeline.AttrNCCLGDROff, "; ", h.gdrOff)
	slices.SortStableFunc(h.env, func(a, b word) int { return strings.Compare(a.text, b.text) })
	list(timeline.AttrNCCLEnv, " ", h.env)
	if h.speed > 0 {
		r.b.AddNumber(t, timeline.AttrNCCLSpeed, h.speed, unit.BytePerSecond, 0, h.speedRow)
	}
	if h.rdma >= 0 {
		r.b.AddNumber(t, timeline.AttrNCCLRDMA, float64(h.rdma), unit.Count, 0, h.rdmaRow)
	}
	any := int64(0)
	for _, n := range h.ends {
		any += n
	}
	if any > 0 {
		for k, name := range endNames {
			r.b.AddNumber(t, name, float64(h.ends[k]), unit.Count, 0, max(h.endRow[k], row))
		}
	}
	if h.warnings > 0 {
		r.b.AddNumber(t, timeline.AttrNCCLWarnings, float64(h.warnings), unit.Count, 0, h.warnRow)
	}
	if h == r.hosts[r.names[0]] {
		text(timeline.AttrNCCLBench, r.bench.word())
	}
}

// used gives the adapters of the network that was chosen; of a plugin, whose name they are not listed under, the RDMA ones.
func (r *reader) used(h *host) []word {
	if ws := h.adapters[h.network.text]; ws != nil {
		return ws
	}
	var kinds []string
	for k := range h.adapters {
		if (h.network.text == "Socket") == strings.Contains(k, "Socket") {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	if len(kinds) == 0 {
		return nil
	}
	return h.adapters[kinds[0]]
}
