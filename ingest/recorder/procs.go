package recorder

import (
	"bytes"
	"slices"
	"strconv"
)

// maxProcs is how many processes are followed; on a host with more the first ones by number of the tree stay.
const maxProcs = 512

// processes follows those that use a GPU, their children, and the command's tree.
type processes struct {
	command int            // pid of the command, 0 none
	gpus    map[int][]int  // GPUs of a process, by pid
	list    []int          // followed, sorted
	known   map[int]string // what was last said of a process
	blkio   bool           // delays of disks are counted by this kernel
	cut     bool           // there were more than maxProcs
	ended   int64          // when one of them was last found gone; 0 never
}

func (p *processes) init(h *host) {
	p.gpus, p.known = map[int][]int{}, map[int]string{}
	p.blkio = h.number(h.proc, "sys/kernel/task_delayacct") == 1
}

// stir is how long after the end of a process others may take its place, as a loader's workers do at an epoch's edge.
const stir = 10e9

// due tells whether the children may have changed since they were last looked for.
func (p *processes) due(t int64) bool { return p.ended > 0 && t-p.ended < stir }

// find walks all processes for the children of those that count.
func (p *processes) find(h *host) {
	roots := map[int]bool{}
	if p.command > 0 {
		roots[p.command] = true
	}
	for pid := range p.gpus {
		roots[pid] = true
	}
	p.list = p.list[:0]
	if len(roots) == 0 {
		return
	}
	parent := map[int]int{}
	for _, name := range h.list(h.proc, "", "") {
		pid, _ := strconv.Atoi(name)
		if f, _, ok := h.procStat(pid); ok {
			parent[pid] = int(f[statPPID])
		}
	}
	for pid := range parent {
		for up, depth := pid, 0; up > 1 && depth < 64; up, depth = parent[up], depth+1 {
			if roots[up] {
				p.list = append(p.list, pid)
				break
			}
		}
	}
	slices.Sort(p.list)
	if len(p.list) > maxProcs {
		p.list, p.cut = p.list[:maxProcs], true
	}
	for pid := range p.known {
		if !slices.Contains(p.list, pid) {
			delete(p.known, pid)
		}
	}
}

// Columns of /proc/PID/stat after the command, which ends at the last parenthesis.
const (
	statPPID    = 1
	statMajflt  = 9
	statUtime   = 11
	statStime   = 12
	statThreads = 17
	statStart   = 19
	statRSS     = 21
	statBlkio   = 39
)

// procStat gives the columns and the command's name; a name may hold spaces and parentheses.
func (h *host) procStat(pid int) (f []int64, comm string, ok bool) {
	b := h.read(h.proc, strconv.Itoa(pid)+"/stat")
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to < from || len(b) < to+4 {
		return nil, "", false
	}
	f = ints(b[to+2:], make([]int64, 0, 52))
	return f, string(b[from+1 : to]), len(f) > statRSS && f[statPPID] != none
}

// describe appends a record for each process that is new or has changed its CPU set.
func (p *processes) describe(h *host, l *lines, t int64) {
	for _, pid := range p.list {
		f, comm, ok := h.procStat(pid)
		if !ok {
			continue
		}
		cpus, mems := "", ""
		for line := range bytes.Lines(h.read(h.proc, strconv.Itoa(pid)+"/status")) {
			if v, ok := bytes.CutPrefix(line, []byte("Cpus_allowed_list:")); ok {
				cpus = string(bytes.TrimSpace(v))
			} else if v, ok := bytes.CutPrefix(line, []byte("Mems_allowed_list:")); ok {
				mems = string(bytes.TrimSpace(v))
			}
		}
		cg := h.groups.of(h, pid)
		gpus := p.gpus[pid]
		say := comm + "\x00" + cpus + "\x00" + mems + "\x00" + string(appendInts(nil, gpus)) + strconv.FormatInt(f[statStart], 10)
		if p.known[pid] == say {
			continue
		}
		p.known[pid] = say
		l.begin("proc", t)
		l.num("pid", int64(pid))
		l.num("ppid", f[statPPID])
		l.text("comm", comm)
		l.num("start", f[statStart])
		l.text("cpus", cpus)
		l.text("mems", mems)
		if cg >= 0 {
			l.num("cg", int64(cg))
		}
		if len(gpus) > 0 {
			l.open("gpu", '[')
			l.b = appendInts(l.b, gpus)
			l.shut(']')
		}
		if pid == p.command {
			l.bool("cmd", true)
		}
		l.end()
	}
}

func appendInts(b []byte, v []int) []byte {
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return b
}

// sample appends p: [pid, utime, stime, rss B, read B, written B, threads, major faults, ran ns, waited for a CPU ns, switches it asked
// for, switches it did not, ticks waiting for a disk] of each. Times of running and switches are those of the main thread.
func (p *processes) sample(h *host, l *lines, t int64) {
	if len(p.list) == 0 {
		return
	}
	l.begin("pr", t)
	l.open("p", '[')
	for _, pid := range p.list {
		f, _, ok := h.procStat(pid)
		if !ok {
			if p.known[pid] != "" {
				p.ended = t
				delete(p.known, pid)
			}
			continue // it has ended
		}
		row := [13]int64{int64(pid), f[statUtime], f[statStime], none, none, none, f[statThreads], f[statMajflt], none, none, none, none, none}
		if f[statRSS] != none {
			row[3] = f[statRSS] * pageSize
		}
		if p.blkio && len(f) > statBlkio {
			row[12] = f[statBlkio]
		}
		dir := strconv.Itoa(pid)
		for line := range bytes.Lines(h.read(h.proc, dir+"/io")) {
			if v, ok := bytes.CutPrefix(line, []byte("read_bytes: ")); ok {
				row[4] = parseInt(bytes.TrimSpace(v))
			} else if v, ok := bytes.CutPrefix(line, []byte("write_bytes: ")); ok {
				row[5] = parseInt(bytes.TrimSpace(v))
			}
		}
		var two [3]int64
		if v := ints(h.read(h.proc, dir+"/schedstat"), two[:0]); len(v) >= 2 {
			row[8], row[9] = v[0], v[1]
		}
		for line := range bytes.Lines(h.read(h.proc, dir+"/status")) {
			if v, ok := bytes.CutPrefix(line, []byte("voluntary_ctxt_switches:")); ok {
				row[10] = parseInt(bytes.TrimSpace(v))
			} else if v, ok := bytes.CutPrefix(line, []byte("nonvoluntary_ctxt_switches:")); ok {
				row[11] = parseInt(bytes.TrimSpace(v))
			}
		}
		l.array(row[:])
	}
	l.shut(']')
	l.end()
}
