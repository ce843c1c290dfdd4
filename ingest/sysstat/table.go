package sysstat

import (
	"math"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// kind says whose the rows of a table are.
type kind uint8

const (
	hostTable kind = iota
	cpuTable
	diskTable
	nicTable
	procTable
	otherTable // not read
)

// give says what a column gives.
type give struct {
	metric timeline.Metric
	scale  float64
	hi     float64 // in the maker's unit
}

func gives(m timeline.Metric, scale, hi float64) give { return give{m, scale, hi} }

const (
	kib    = 1 << 10
	mib    = 1 << 20
	page   = 4096
	sector = 512
	much   = 1e12
)

// columns are the makers' names of those that give a metric by themselves, by table.
var columns = map[kind]map[string]give{
	hostTable: {
		"cswch/s": gives(timeline.CtxSwitches, 1, much), "pswpin/s": gives(timeline.SwapIn, page, much), "pswpout/s": gives(timeline.SwapOut, page, much),
		"kbavail": gives(timeline.MemFree, kib, 1e15), "kbcached": gives(timeline.PageCache, kib, 1e15), "runq-sz": gives(timeline.RunQueue, 1, 1e9),
		"ldavg-1": gives(timeline.Load1, 1, 1e9), "blocked": gives(timeline.Blocked, 1, 1e9),
		"%scpu": gives(timeline.PSICPU, .01, 100), "%sio": gives(timeline.PSIIO, .01, 100), "%smem": gives(timeline.PSIMem, .01, 100),
	},
	diskTable: {
		"r/s": gives(timeline.DiskReads, 1, much), "w/s": gives(timeline.DiskWrites, 1, much),
		"rkB/s": gives(timeline.DiskRead, kib, much), "wkB/s": gives(timeline.DiskWrite, kib, much), "rMB/s": gives(timeline.DiskRead, mib, much), "wMB/s": gives(timeline.DiskWrite, mib, much),
		"rsec/s": gives(timeline.DiskRead, sector, much), "wsec/s": gives(timeline.DiskWrite, sector, much), "rd_sec/s": gives(timeline.DiskRead, sector, much), "wr_sec/s": gives(timeline.DiskWrite, sector, much),
		"kB_read/s": gives(timeline.DiskRead, kib, much), "kB_wrtn/s": gives(timeline.DiskWrite, kib, much), "MB_read/s": gives(timeline.DiskRead, mib, much), "MB_wrtn/s": gives(timeline.DiskWrite, mib, much),
		"r_await": gives(timeline.DiskAwaitRd, 1e-3, 1e9), "w_await": gives(timeline.DiskAwaitWr, 1e-3, 1e9), "await": gives(timeline.DiskAwait, 1e-3, 1e9),
		"aqu-sz": gives(timeline.DiskQueue, 1, 1e9), "avgqu-sz": gives(timeline.DiskQueue, 1, 1e9), "%util": gives(timeline.DiskBusy, .01, 100),
	},
	nicTable: {"rxkB/s": gives(timeline.NetRx, kib, much), "txkB/s": gives(timeline.NetTx, kib, much)},
	procTable: {
		"%CPU": gives(timeline.ProcCPU, .01, 1e6), "%system": gives(timeline.ProcSystem, .01, 1e6), "%wait": gives(timeline.ProcRunWait, .01, 100),
		"RSS": gives(timeline.ProcRSS, kib, 1e13), "threads": gives(timeline.ProcThreads, 1, 1e7), "nvcswch/s": gives(timeline.ProcPreempted, 1, 1e9),
		"kB_rd/s": gives(timeline.ProcRead, kib, much), "kB_wr/s": gives(timeline.ProcWrite, kib, much),
	},
}

// cpuShares are the columns of shares of CPU time, by what they count as: u user, s system, w iowait, t steal, i interrupts, - idle.
var cpuShares = map[string]byte{
	"%usr": 'u', "%user": 'u', "%nice": 'u', "%guest": 'u', "%gnice": 'u', "%sys": 's', "%system": 's', "%iowait": 'w', "%irq": 'i', "%soft": 'i', "%steal": 't', "%idle": '-',
}

// table is the one whose rows are being read.
type table struct {
	kind  kind
	names []string
	key   int // column that names the part, -1 none
	timed bool
	until bool // ends at a blank line
	epoch bool // times may be seconds of the epoch
}

// tableOf reads a line of names.
func tableOf(names []string) table {
	t := table{names: names, key: -1, kind: otherTable}
	for i, n := range names {
		switch n {
		case "CPU":
			if i == 0 {
				t.kind, t.key = cpuTable, 0
			}
		case "DEV", "Device", "Device:":
			if i == 0 || i == len(names)-1 { // -h puts it last
				t.kind, t.key = diskTable, i
			}
		case "IFACE":
			t.kind, t.key = nicTable, i
		case "PID", "TGID":
			t.kind, t.key = procTable, i
		}
	}
	if t.kind == otherTable {
		for _, n := range names {
			if _, ok := columns[hostTable][n]; ok {
				t.kind = hostTable
			}
		}
	}
	return t
}

// number reads a cell, with a decimal point or comma; -1.00 of pidstat is not permitted.
func number(cell string) (float64, bool) {
	if i := strings.IndexByte(cell, ','); i >= 0 && strings.IndexByte(cell, '.') < 0 && strings.Count(cell, ",") == 1 {
		cell = cell[:i] + "." + cell[i+1:]
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(cell, "%"), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// tod reads a time of day from the first cells: 14:08:12, 02:08:12 PM, 下午 02时08分12秒. It gives how many cells it took.
func tod(cells []string) (at timeline.Time, n int) {
	if len(cells) == 0 {
		return 0, 0
	}
	half := func(s string) (pm, ok bool) {
		switch strings.ToUpper(strings.ReplaceAll(s, ".", "")) {
		case "AM", "上午", "午前", "오전":
			return false, true
		case "PM", "下午", "午後", "오후":
			return true, true
		}
		return false, false
	}
	i := 0
	pm, twelve := half(cells[0])
	if twelve {
		i = 1
	}
	if i >= len(cells) {
		return 0, 0
	}
	s := cells[i]
	for _, p := range []string{"上午", "午前", "오전", "下午", "午後", "오후"} {
		if rest, ok := strings.CutPrefix(s, p); ok {
			pm, twelve = half(p)
			s = rest
		}
	}
	if !isASCII(s) {
		s = strings.NewReplacer("时", ":", "時", ":", "시", ":", "分", ":", "분", ":", "秒", "", "초", "").Replace(s)
	}
	if len(s) == 7 && s[1] == ':' {
		s = "0" + s
	}
	if len(s) != 8 || s[2] != ':' && s[2] != '.' || s[5] != s[2] {
		return 0, 0
	}
	h, err1 := strconv.ParseUint(s[:2], 10, 8)
	m, err2 := strconv.ParseUint(s[3:5], 10, 8)
	sec, err3 := strconv.ParseUint(s[6:], 10, 8)
	if err1 != nil || err2 != nil || err3 != nil || h > 23 || m > 59 || sec > 60 {
		return 0, 0
	}
	i++
	if !twelve && i < len(cells) {
		if p, ok := half(cells[i]); ok {
			pm, twelve = p, true
			i++
		}
	}
	if twelve {
		h %= 12
		if pm {
			h += 12
		}
	}
	return timeline.Time(h*3600+m*60+sec) * 1e9, i
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// day reads a date: 2026-12-02, 12/02/26, 02.12.2026, 2026年12月02日. monthFirst says what 12/02/26 means.
func day(s string, monthFirst bool) (timeline.Time, bool) {
	parts := strings.FieldsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
	if len(parts) != 3 || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || len(p) > 4 {
			return 0, false
		}
		n[i] = v
	}
	y, m, d := n[0], n[1], n[2]
	if len(parts[0]) != 4 {
		y = n[2]
		m, d = n[1], n[0]
		if monthFirst && strings.Contains(s, "/") {
			m, d = d, m
		}
		if len(parts[2]) == 2 {
			y += 2000
		} else if len(parts[2]) != 4 {
			return 0, false
		}
	}
	if y < 1990 || y > 2200 || m < 1 || m > 12 || d < 1 || d > 31 {
		return 0, false
	}
	return timeline.Time(time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).UnixNano()), true
}

// order tells what stands first in dates with slashes, by what the beginning of the file shows: ok is false where that is a guess.
func order(head []byte) (monthFirst, ok bool) {
	comma, twelve := false, false
	guess := true
	for line := range strings.Lines(string(head)) {
		cells := strings.Fields(line)
		for _, c := range cells {
			if p := strings.Split(c, "/"); len(p) == 3 {
				a, err1 := strconv.Atoi(p[0])
				b, err2 := strconv.Atoi(p[1])
				if _, err3 := strconv.Atoi(p[2]); err1 == nil && err2 == nil && err3 == nil {
					switch {
					case a > 12 && b <= 12:
						return false, true
					case b > 12 && a <= 12:
						return true, true
					case a == b:
						guess = false
					}
				}
			}
			switch c {
			case "AM", "PM":
				twelve = true
			}
			if i := strings.IndexByte(c, ','); i > 0 && i+3 == len(c) {
				if _, ok := number(c); ok {
					comma = true
				}
			}
		}
	}
	switch {
	case twelve:
		return true, true
	case comma:
		return false, true
	}
	return true, !guess
}

// skipPart tells parts that are no hardware.
func skipPart(k kind, name string) bool {
	switch k {
	case nicTable:
		return name == "lo" || hasPrefix(name, "veth", "cali", "docker", "br-", "ifb", "cni", "flannel")
	case diskTable:
		return hasPrefix(name, "loop", "ram", "zram", "sr")
	}
	return false
}

func hasPrefix(s string, ps ...string) bool {
	for _, p := range ps {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// command is the last cell of pidstat: a name such as ksoftirqd/0, or with -l a whole command line, of which only the program is kept.
func command(cells []string) string {
	if len(cells) == 1 && !strings.HasPrefix(cells[0], "/") {
		return cells[0]
	}
	return ingest.Program(strings.Join(cells, " "))
}
