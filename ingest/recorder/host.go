package recorder

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// host reads /proc and /sys below its two roots.
type host struct {
	proc, sys string
	self      int // pid whose cgroup counts: the recorder's

	buf   []byte
	disks map[string]bool // whole devices by name
	nics  map[string]bool // interfaces that count
	psi   bool
	groups
	procs processes
}

func newHost(proc, sys string) *host {
	h := &host{proc: proc, sys: sys, self: os.Getpid(), buf: make([]byte, 64<<10), disks: map[string]bool{}, nics: map[string]bool{}}
	h.psi = h.read(h.proc, "pressure/cpu") != nil
	h.procs.init(h)
	return h
}

// read gives a small file's content, valid until the next read; nil when it cannot be read.
func (h *host) read(root, name string) []byte {
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	n := 0
	for {
		k, err := f.Read(h.buf[n:])
		n += k
		switch {
		case errors.Is(err, io.EOF):
			return h.buf[:n]
		case err != nil:
			return nil
		case n == len(h.buf):
			if n >= 16<<20 {
				return h.buf[:n]
			}
			h.buf = append(h.buf, make([]byte, n)...)
		}
	}
}

// text is read, without the line feed.
func (h *host) text(root, name string) string { return strings.TrimSpace(string(h.read(root, name))) }

// number reads a file of one integer; none if it is not there or no number.
func (h *host) number(root, name string) int64 { return parseInt(bytes.TrimSpace(h.read(root, name))) }

func parseInt(b []byte) int64 {
	if len(b) == 0 {
		return none
	}
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return none
	}
	return v
}

// ints cuts a line into integers; what is none becomes none.
func ints(line []byte, out []int64) []int64 {
	for len(line) > 0 {
		i := 0
		for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '\n') {
			i++
		}
		j := i
		for j < len(line) && line[j] != ' ' && line[j] != '\t' && line[j] != '\n' {
			j++
		}
		if j > i {
			out = append(out, parseInt(line[i:j]))
		}
		line = line[j:]
	}
	return out
}

// sample appends the record of a tick. wide adds each CPU, disks, network and paging.
func (h *host) sample(l *lines, t int64, wide bool) {
	l.begin("h", t)
	h.stat(l, wide)
	if f := bytes.Fields(h.read(h.proc, "loadavg")); len(f) >= 3 {
		l.open("load", '[')
		for _, v := range f[:3] {
			l.sep()
			l.b = append(l.b, v...)
		}
		l.shut(']')
	}
	h.pressure(l)
	h.memory(l)
	if wide {
		h.paging(l)
		h.diskstats(l)
		h.network(l)
	}
	l.end()
	if wide {
		h.groups.sample(h, l, t)
	}
}

// stat writes cpu: [user,nice,system,idle,iowait,irq,softirq,steal] in ticks, of all CPUs; cpus has one such row a CPU, its number in front.
func (h *host) stat(l *lines, wide bool) {
	var row [16]int64
	open := false
	for line := range bytes.Lines(h.read(h.proc, "stat")) {
		name, rest, _ := bytes.Cut(line, []byte(" "))
		if n, ok := bytes.CutPrefix(name, []byte("cpu")); ok {
			if len(n) > 0 && !wide {
				continue
			}
			v := ints(rest, row[:1])
			if len(v) < 9 {
				continue
			}
			if len(n) == 0 {
				l.nums("cpu", v[1:9]...)
				continue
			}
			if row[0] = parseInt(n); row[0] == none {
				continue
			}
			if !open {
				l.open("cpus", '[')
				open = true
			}
			l.array(v[:9])
			continue
		}
		if open {
			l.shut(']')
			open = false
		}
		key := ""
		switch string(name) {
		case "ctxt":
			key = "ctx"
		case "intr":
			key = "intr"
		case "processes":
			key = "forks"
		case "procs_running":
			key = "run"
		case "procs_blocked":
			key = "blk"
		default:
			continue
		}
		first, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		l.some(key, parseInt(first))
	}
	if open {
		l.shut(']')
	}
}

// pressure writes psi: the total us some, then all, tasks waited.
func (h *host) pressure(l *lines) {
	if !h.psi {
		return
	}
	l.open("psi", '{')
	for _, what := range []struct{ key, file string }{{"cpu", "cpu"}, {"mem", "memory"}, {"io", "io"}} {
		some, full := int64(none), int64(none)
		for line := range bytes.Lines(h.read(h.proc, "pressure/"+what.file)) {
			_, total, _ := bytes.Cut(line, []byte("total="))
			switch v := parseInt(bytes.TrimSpace(total)); {
			case bytes.HasPrefix(line, []byte("some")):
				some = v
			case bytes.HasPrefix(line, []byte("full")):
				full = v
			}
		}
		if some != none {
			l.nums(what.key, some, full)
		}
	}
	l.shut('}')
}

// memKeys are the lines of meminfo in the order of the array.
var memKeys = []string{"MemTotal", "MemFree", "MemAvailable", "Cached", "Dirty", "Writeback", "SwapTotal", "SwapFree", "Shmem", "Buffers", "SReclaimable", "AnonPages"}

func (h *host) memory(l *lines) {
	v := make([]int64, len(memKeys))
	for i := range v {
		v[i] = none
	}
	any := false
	for line := range bytes.Lines(h.read(h.proc, "meminfo")) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		if i := slices.Index(memKeys, string(name)); i >= 0 {
			if kib := parseInt(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))); kib != none {
				v[i], any = kib<<10, true
			}
		}
	}
	if any {
		l.nums("mem", v...)
	}
}

// vmKeys are the counters of vmstat that are kept.
var vmKeys = []struct{ name, key string }{{"pgmajfault", "majfault"}, {"pgpgin", "pgpgin"}, {"pgpgout", "pgpgout"}, {"pswpin", "swapin"}, {"pswpout", "swapout"},
	{"numa_miss", "numa_miss"}, {"numa_foreign", "numa_foreign"}, {"oom_kill", "oom"}}

func (h *host) paging(l *lines) {
	l.open("vm", '{')
	for line := range bytes.Lines(h.read(h.proc, "vmstat")) {
		name, rest, _ := bytes.Cut(line, []byte(" "))
		for _, k := range vmKeys {
			if string(name) == k.name {
				l.some(k.key, parseInt(bytes.TrimSpace(rest)))
			}
		}
	}
	l.shut('}')
	// Segments that TCP had to send again, of all connections.
	var names []byte
	for line := range bytes.Lines(h.read(h.proc, "net/snmp")) {
		if !bytes.HasPrefix(line, []byte("Tcp:")) {
			continue
		}
		if names == nil {
			names = line
			continue
		}
		keys, v := bytes.Fields(names), bytes.Fields(line)
		for i, k := range keys {
			if string(k) == "RetransSegs" && i < len(v) {
				l.some("retrans", parseInt(v[i]))
			}
		}
	}
}

// wholeDisk tells whether name is a device of its own: neither a partition nor a layer over devices that are counted already.
func (h *host) wholeDisk(name string) bool {
	whole, known := h.disks[name]
	if !known {
		whole = true
		for _, p := range []string{"loop", "ram", "zram", "sr", "fd", "dm-", "md"} {
			if strings.HasPrefix(name, p) {
				whole = false
			}
		}
		if whole {
			_, err := os.Stat(filepath.Join(h.sys, "block", name))
			whole = err == nil
		}
		h.disks[name] = whole
	}
	return whole
}

// diskstats writes dsk: [reads, read B, read ms, writes, written B, write ms, in flight, busy ms, weighted ms].
func (h *host) diskstats(l *lines) {
	var v [24]int64
	l.open("dsk", '{')
	for line := range bytes.Lines(h.read(h.proc, "diskstats")) {
		f := bytes.Fields(line)
		if len(f) < 14 {
			continue
		}
		name := string(f[2])
		n := ints(bytes.Join(f[3:14], []byte(" ")), v[:0])
		if !h.wholeDisk(name) || slices.Contains(n, none) {
			continue
		}
		l.named(name, n[0], n[2]*512, n[3], n[4], n[6]*512, n[7], n[8], n[9], n[10])
	}
	l.shut('}')
}

// skipNIC are interfaces that carry what another one carries as well, or only the host's own traffic.
var skipNIC = []string{"lo", "veth", "cali", "lxc", "docker", "br-", "virbr", "flannel", "cni", "tunl", "dummy", "ifb", "tap", "vnet", "bond", "kube", "nerdctl"}

func (h *host) countedNIC(name string) bool {
	counted, known := h.nics[name]
	if !known {
		counted = !slices.ContainsFunc(skipNIC, func(p string) bool { return strings.HasPrefix(name, p) })
		h.nics[name] = counted
	}
	return counted
}

// network writes net: [rx B, rx packets, rx errors, rx drops, tx B, tx packets, tx errors, tx drops].
func (h *host) network(l *lines) {
	var v [24]int64
	l.open("net", '{')
	for line := range bytes.Lines(h.read(h.proc, "net/dev")) {
		name, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		n := ints(rest, v[:0])
		dev := string(bytes.TrimSpace(name))
		if len(n) < 12 || slices.Contains(n[:12], none) || !h.countedNIC(dev) {
			continue
		}
		l.named(dev, n[0], n[1], n[2], n[3], n[8], n[9], n[10], n[11])
	}
	l.shut('}')
}

// slow appends what changes seldom: state of links, clocks of the CPUs, memory of the NUMA nodes.
func (h *host) slow(l *lines, t int64) {
	l.begin("hl", t)
	lo, hi := int64(none), int64(none)
	sum, n := int64(0), int64(0)
	for _, cpu := range h.list(h.sys, "devices/system/cpu", "cpu") {
		if f := h.number(h.sys, "devices/system/cpu/"+cpu+"/cpufreq/scaling_cur_freq"); f != none {
			if n == 0 || f < lo {
				lo = f
			}
			hi = max(hi, f)
			sum += f
			n++
		}
	}
	if n > 0 {
		l.nums("freq", lo, hi, sum/n)
	}
	open := false
	for _, node := range h.list(h.sys, "devices/system/node", "node") {
		total, free := h.nodeMemory(node)
		if total == none {
			continue
		}
		if !open {
			l.open("numa", '[')
			open = true
		}
		l.array([]int64{parseInt([]byte(strings.TrimPrefix(node, "node"))), total, free})
	}
	if open {
		l.shut(']')
	}
	l.open("link", '{')
	for _, dev := range h.names(h.sys, "class/net") {
		if !h.countedNIC(dev) {
			continue
		}
		up, speed := int64(none), h.number(h.sys, "class/net/"+dev+"/speed")
		switch h.text(h.sys, "class/net/"+dev+"/operstate") {
		case "up":
			up = 1
		case "down", "lowerlayerdown":
			up = 0
		}
		if speed != none && speed <= 0 {
			speed = none
		}
		l.named(dev, up, speed)
	}
	l.shut('}')
	l.end()
}

func (h *host) nodeMemory(node string) (total, free int64) {
	total, free = none, none
	for line := range bytes.Lines(h.read(h.sys, "devices/system/node/"+node+"/meminfo")) {
		f := bytes.Fields(line) // Node 0 MemTotal: 65 kB
		if len(f) < 4 {
			continue
		}
		if kib := parseInt(f[3]); kib != none {
			switch string(f[2]) {
			case "MemTotal:":
				total = kib << 10
			case "MemFree:":
				free = kib << 10
			}
		}
	}
	return total, free
}

// names lists a folder, sorted; nil if it is not there.
func (h *host) names(root, dir string) []string {
	es, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
}

// list gives the entries of a folder that are prefix and a number, by number.
func (h *host) list(root, dir, prefix string) []string {
	type entry struct {
		name string
		n    int
	}
	var es []entry
	for _, name := range h.names(root, dir) {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if n, err := strconv.Atoi(rest); err == nil {
				es = append(es, entry{name, n})
			}
		}
	}
	slices.SortFunc(es, func(a, b entry) int { return a.n - b.n })
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = e.name
	}
	return out
}
