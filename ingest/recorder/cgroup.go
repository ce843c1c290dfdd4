package recorder

import (
	"bytes"
	"path"
	"strconv"
	"strings"
)

// groups are the control groups that are watched: the recorder's own, which is the command's, and those of GPU processes.
type groups struct {
	mounts []cgroupMount
	known  map[string]int // by the lines of /proc/PID/cgroup
	list   []group
	said   int // of list: those that have been described
}

const maxGroups = 64

// cgroupMount is where a hierarchy is mounted: v2, or one controller of v1.
type cgroupMount struct {
	controller string // "" is v2
	root       string // what of the hierarchy is mounted there
	dir        string // below the root of /sys
}

// group is one control group. A folder is "" where its controller is not there.
type group struct {
	v                       int
	path                    string
	cpu, cpuacct, mem, cset string   // folders below the root of /sys
	chain                   []string // folders that may hold a CPU quota: its own and those above it
}

// hierarchies reads where cgroups are mounted.
func (g *groups) hierarchies(h *host) {
	g.known = map[string]int{}
	for line := range bytes.Lines(h.read(h.proc, "self/mountinfo")) {
		// 36 35 98:0 /root /mount options - cgroup cgroup rw,cpu,cpuacct
		before, after, ok := strings.Cut(string(line), " - ")
		f, s := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(s) < 3 {
			continue
		}
		dir, ok := strings.CutPrefix(f[4], "/sys/")
		if !ok {
			continue
		}
		switch s[0] {
		case "cgroup2":
			g.mounts = append(g.mounts, cgroupMount{"", f[3], dir})
		case "cgroup":
			for _, o := range strings.Split(s[2], ",") {
				switch o {
				case "cpu", "cpuacct", "memory", "cpuset":
					g.mounts = append(g.mounts, cgroupMount{o, f[3], dir})
				}
			}
		}
	}
}

// dir gives the folder of a group of a hierarchy; ok is false where the hierarchy is not mounted.
func (g *groups) dir(controller, p string) (dir string, m cgroupMount, ok bool) {
	for _, m := range g.mounts {
		if m.controller != controller {
			continue
		}
		rel := p
		if m.root != "/" { // a container sees its own group as the root of the mount
			rest, inside := strings.CutPrefix(p, m.root)
			if !inside {
				rest = "/"
			}
			rel = rest
		}
		return path.Join(m.dir, rel), m, true
	}
	return "", cgroupMount{}, false
}

// of gives the number of the group of a process, -1 if it cannot be told.
func (g *groups) of(h *host, pid int) int {
	if g.known == nil {
		g.hierarchies(h)
	}
	var v2 string
	has2 := false
	v1 := map[string]string{}
	raw := string(h.read(h.proc, strconv.Itoa(pid)+"/cgroup"))
	if raw == "" || len(g.mounts) == 0 {
		return -1
	}
	if i, ok := g.known[raw]; ok {
		return i
	}
	for line := range strings.Lines(raw) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			v2, has2 = f[2], true
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			v1[c] = f[2]
		}
	}
	if len(g.list) >= maxGroups {
		return -1
	}
	var n group
	if p, ok := v1["cpu"]; ok { // controllers live in one version or the other
		n.v, n.path = 1, p
		n.cpu, _, _ = g.dir("cpu", p)
		n.cpuacct, _, _ = g.dir("cpuacct", v1["cpuacct"])
		n.mem, _, _ = g.dir("memory", v1["memory"])
		n.cset, _, _ = g.dir("cpuset", v1["cpuset"])
		_, m, _ := g.dir("cpu", p)
		n.chain = upTo(n.cpu, m.dir)
	} else if has2 {
		d, m, ok := g.dir("", v2)
		if ok {
			n.v, n.path = 2, v2
			n.cpu, n.cpuacct, n.mem, n.cset = d, d, d, d
			n.chain = upTo(d, m.dir)
		}
	}
	if n.v == 0 {
		return -1
	}
	g.known[raw] = len(g.list)
	g.list = append(g.list, n)
	return len(g.list) - 1
}

// upTo lists dir and the folders above it, up to top.
func upTo(dir, top string) []string {
	var out []string
	for d := dir; d != "" && d != "."; d = path.Dir(d) {
		out = append(out, d)
		if d == top {
			break
		}
	}
	return out
}

// quota gives the tightest CPU quota that holds for the group, and the folder that sets it; quota is none where there is no limit.
func (n *group) quota(h *host) (quota, period int64, dir string) {
	quota, period, dir = none, none, n.cpu
	for _, d := range n.chain {
		q, p := int64(none), int64(none)
		if n.v == 2 {
			f := bytes.Fields(h.read(h.sys, d+"/cpu.max"))
			if len(f) == 2 {
				q, p = parseInt(f[0]), parseInt(f[1]) // "max" is none
			}
		} else {
			q, p = h.number(h.sys, d+"/cpu.cfs_quota_us"), h.number(h.sys, d+"/cpu.cfs_period_us")
		}
		if q > 0 && p > 0 && (quota == none || float64(q)/float64(p) < float64(quota)/float64(period)) {
			quota, period, dir = q, p, d
		}
	}
	return quota, period, dir
}

// cpus gives the CPUs that the group may use, "" unknown.
func (n *group) cpus(h *host) string {
	for _, f := range []string{"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"} {
		if s := h.text(h.sys, n.cset+"/"+f); n.cset != "" && s != "" {
			return s
		}
	}
	return ""
}

// describe appends what is known of the groups that are new.
func (g *groups) describe(h *host, l *lines, t int64, redact bool) {
	for ; g.said < len(g.list); g.said++ {
		n := &g.list[g.said]
		l.begin("cgroup", t)
		l.num("id", int64(g.said))
		l.num("v", int64(n.v))
		if !redact {
			l.text("path", n.path)
		}
		if q, p, _ := n.quota(h); q != none {
			l.nums("quota", q, p)
		}
		l.text("set", n.cpus(h))
		l.end()
	}
}

// sample appends the counters of every group.
func (g *groups) sample(h *host, l *lines, t int64) {
	for i := range g.list {
		n := &g.list[i]
		q, p, dir := n.quota(h)
		l.begin("cg", t)
		l.num("id", int64(i))
		if q != none {
			l.nums("quota", q, p)
		}
		periods, throttled, us, use := int64(none), int64(none), int64(none), int64(none)
		for line := range bytes.Lines(h.read(h.sys, dir+"/cpu.stat")) {
			name, rest, _ := bytes.Cut(line, []byte(" "))
			v := parseInt(bytes.TrimSpace(rest))
			switch string(name) {
			case "nr_periods":
				periods = v
			case "nr_throttled":
				throttled = v
			case "throttled_usec":
				us = v
			case "throttled_time":
				if us = v; v != none {
					us = v / 1000
				}
			}
		}
		if periods != none {
			l.nums("thr", periods, throttled, us)
		}
		if n.v == 2 {
			for line := range bytes.Lines(h.read(h.sys, n.cpu+"/cpu.stat")) {
				if rest, ok := bytes.CutPrefix(line, []byte("usage_usec ")); ok {
					use = parseInt(bytes.TrimSpace(rest))
				}
			}
		} else if n.cpuacct != "" {
			if use = h.number(h.sys, n.cpuacct+"/cpuacct.usage"); use != none {
				use /= 1000
			}
		}
		l.some("use_us", use)
		n.memory(h, l)
		l.end()
	}
}

func (n *group) memory(h *host, l *lines) {
	if n.mem == "" {
		return
	}
	cur, limit, oom := int64(none), int64(none), int64(none)
	events, key := "memory.events", "oom_kill "
	if n.v == 2 {
		cur, limit = h.number(h.sys, n.mem+"/memory.current"), h.number(h.sys, n.mem+"/memory.max")
	} else {
		cur, limit = h.number(h.sys, n.mem+"/memory.usage_in_bytes"), h.number(h.sys, n.mem+"/memory.limit_in_bytes")
		if limit > 1<<60 { // v1 says "no limit" with a very large one
			limit = none
		}
		events = "memory.oom_control"
	}
	for line := range bytes.Lines(h.read(h.sys, n.mem+"/"+events)) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			oom = parseInt(bytes.TrimSpace(rest))
		}
	}
	if cur != none {
		l.nums("mem", cur, limit)
	}
	l.some("oom", oom)
}
