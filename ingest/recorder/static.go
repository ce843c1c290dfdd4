package recorder

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

var pageSize = int64(os.Getpagesize())

// describe appends what the host is: said once, at the start of every part.
func (h *host) describe(l *lines, t int64) {
	l.begin("host", t)
	online := h.text(h.sys, "devices/system/cpu/online")
	l.text("cpus_online", online)
	sockets, cores := map[string]bool{}, map[string]bool{}
	cpus := h.list(h.sys, "devices/system/cpu", "cpu")
	n := 0
	for _, cpu := range cpus {
		pkg := h.text(h.sys, "devices/system/cpu/"+cpu+"/topology/physical_package_id")
		if pkg == "" {
			continue // offline
		}
		n++
		sockets[pkg] = true
		cores[pkg+":"+h.text(h.sys, "devices/system/cpu/"+cpu+"/topology/core_id")] = true
	}
	if online != "" {
		n = countList(online)
	}
	if n > 0 {
		l.num("cpus", int64(n))
	}
	if len(sockets) > 0 {
		l.num("sockets", int64(len(sockets)))
		l.num("cores", int64(len(cores)))
	}
	for line := range bytes.Lines(h.read(h.proc, "cpuinfo")) {
		if name, v, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
			l.text("model", string(bytes.TrimSpace(v)))
			break
		}
	}
	l.text("governor", h.text(h.sys, "devices/system/cpu/cpu0/cpufreq/scaling_governor"))
	l.some("freq_max", h.number(h.sys, "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))
	for line := range bytes.Lines(h.read(h.proc, "meminfo")) {
		if v, ok := bytes.CutPrefix(line, []byte("MemTotal:")); ok {
			if kib := parseInt(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(v), []byte("kB")))); kib != none {
				l.num("mem", kib<<10)
			}
		}
	}
	for line := range bytes.Lines(h.read(h.proc, "stat")) {
		if v, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			l.some("btime", parseInt(bytes.TrimSpace(v)))
		}
	}
	l.text("kernel", h.text(h.proc, "sys/kernel/osrelease"))
	l.text("os", h.osName())
	l.text("driver_module", firstLine(h.text(h.proc, "driver/nvidia/version")))
	l.text("numa_balancing", h.text(h.proc, "sys/kernel/numa_balancing"))
	for line := range bytes.Lines(h.read(h.proc, "self/status")) {
		if v, ok := bytes.CutPrefix(line, []byte("Cpus_allowed_list:")); ok {
			l.text("set", string(bytes.TrimSpace(v)))
		}
	}
	h.describeNodes(l)
	h.describeDisks(l)
	h.describeNICs(l)
	l.end()
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// osName is PRETTY_NAME of /etc/os-release; only of the real root, a tree given by a test has none.
func (h *host) osName() string {
	if h.proc != "/proc" {
		return ""
	}
	b, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return ""
}

// countList counts the CPUs of "0-3,8".
func countList(list string) int {
	n := 0
	for _, part := range strings.Split(list, ",") {
		lo, hi, ranged := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			continue
		}
		b := a
		if ranged {
			if b, err = strconv.Atoi(hi); err != nil || b < a {
				continue
			}
		}
		n += b - a + 1
	}
	return n
}

func (h *host) describeNodes(l *lines) {
	open := false
	for _, node := range h.list(h.sys, "devices/system/node", "node") {
		cpus := h.text(h.sys, "devices/system/node/"+node+"/cpulist")
		total, _ := h.nodeMemory(node)
		if !open {
			l.open("nodes", '[')
			open = true
		}
		l.open("", '{')
		l.num("id", parseInt([]byte(strings.TrimPrefix(node, "node"))))
		l.text("cpus", cpus)
		l.some("mem", total)
		l.text("distance", h.text(h.sys, "devices/system/node/"+node+"/distance"))
		l.shut('}')
	}
	if open {
		l.shut(']')
	}
}

func (h *host) describeDisks(l *lines) {
	l.open("disks", '[')
	for _, name := range h.names(h.sys, "block") {
		if !h.wholeDisk(name) {
			continue
		}
		l.open("", '{')
		l.text("name", name)
		l.text("model", h.text(h.sys, "block/"+name+"/device/model"))
		if n := h.number(h.sys, "block/"+name+"/size"); n != none {
			l.num("bytes", n*512)
		}
		l.some("rotational", h.number(h.sys, "block/"+name+"/queue/rotational"))
		l.shut('}')
	}
	l.shut(']')
}

func (h *host) describeNICs(l *lines) {
	l.open("nics", '[')
	for _, n := range h.ports() {
		l.open("", '{')
		l.text("name", n.name)
		if n.ib {
			l.bool("ib", true)
		}
		l.text("pci", n.bus)
		l.some("numa", n.numa)
		l.text("driver", n.driver)
		if n.mtu != none {
			l.num("mtu", n.mtu)
		}
		l.shut('}')
	}
	l.shut(']')
}

// port is a network device as sysfs knows it.
type port struct {
	name, bus, driver string
	path              string // of its PCI device, as sysfs links it; "" unknown
	numa, mtu         int64
	ib                bool
}

// ports lists network interfaces and InfiniBand devices, the latter last.
func (h *host) ports() []port {
	var out []port
	for _, class := range []string{"net", "infiniband"} {
		for _, name := range h.names(h.sys, "class/"+class) {
			if class == "net" && !h.countedNIC(name) {
				continue
			}
			dir := "class/" + class + "/" + name
			p := port{name: name, ib: class == "infiniband", numa: h.number(h.sys, dir+"/device/numa_node"), mtu: h.number(h.sys, dir+"/mtu")}
			if real, err := filepath.EvalSymlinks(filepath.Join(h.sys, dir, "device")); err == nil {
				if b := filepath.Base(real); strings.Count(b, ":") == 2 {
					p.bus, p.path = b, real
				}
			}
			if drv, err := filepath.EvalSymlinks(filepath.Join(h.sys, dir, "device", "driver")); err == nil {
				p.driver = filepath.Base(drv)
			}
			out = append(out, p)
		}
	}
	return out
}

// Levels of a path between two devices, as NVML numbers them.
const (
	levelSame   = 0
	levelPIX    = 10
	levelPXB    = 20
	levelPHB    = 30
	levelNode   = 40
	levelSystem = 50
)

// pciPath gives the chain of bridges of a PCI device, from its root complex down; nil unknown.
func (h *host) pciPath(bus string) []string {
	real, err := filepath.EvalSymlinks(filepath.Join(h.sys, "bus/pci/devices", strings.ToLower(bus)))
	if err != nil {
		return nil
	}
	return pciChain(real)
}

func pciChain(real string) []string {
	parts := strings.Split(filepath.ToSlash(real), "/")
	i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "pci") && strings.Contains(p, ":") })
	if i < 0 {
		return nil
	}
	return parts[i:]
}

// between tells how far apart two PCI devices are, as nvidia-smi topo does: PIX at most one switch, PXB several, PHB through the host
// bridge, then by NUMA node. none: unknown.
func between(a, b []string, nodeA, nodeB int64) int64 {
	if len(a) < 2 || len(b) < 2 {
		return none
	}
	k := 0
	for k < len(a) && k < len(b) && a[k] == b[k] {
		k++
	}
	switch {
	case k == len(a) && k == len(b):
		return levelSame
	case k >= 2 && len(a)-k <= 2 && len(b)-k <= 2: // below one switch: its two ports and the devices
		return levelPIX
	case k >= 2:
		return levelPXB
	case k == 1:
		return levelPHB
	case nodeA >= 0 && nodeA == nodeB:
		return levelNode
	case nodeA >= 0 && nodeB >= 0:
		return levelSystem
	}
	return none
}
