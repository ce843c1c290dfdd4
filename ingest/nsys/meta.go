package nsys

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

const (
	maxThreads = 1 << 16
	maxGPUs    = 1 << 10
)

// meta is what the file says of the recording, beside its events.
type meta struct {
	epoch    int64 // UTC of the session's start, Unix ns
	wall     bool
	zone     string // seconds east of UTC of the recording machine; "" not said
	duration int64  // of the capture, from the session's start; 0 not said
	lo, hi   int64  // what can be a time, session time

	hosts   map[int64]string    // by globalVid
	env     map[string]string   // named keys only
	product string              // version of nsys
	schema  string              // version of the export
	traced  []string            // what the capture was told to record
	launch  map[string]int      // numbers that the launcher of a rank leaves in its environment; -1 where they disagree
	procs   map[int64]string    // name by globalPid
	threads map[int64]string    // name by globalTid
	gpus    []gpu               // as the file lists them
	cuda    map[[2]int64]int    // pid and CUDA ordinal to gpus[].id
	uuids   map[[2]int64]string // pid and CUDA ordinal to a UUID
	copyOps map[int64]copyOp    // copyKind
	ranges  map[int64]eventKind // NVTX eventType

	memKinds   map[int64]timeline.MemKind
	syncTypes  map[int64]string
	severities map[int64]string
	states     map[int64]string // threadState
	blocks     map[int64]string // threadBlock
	memOps     map[int64]int64  // memoryOperationType: 1 allocates, -1 releases
}

// gpu is a row of TARGET_INFO_GPU.
type gpu struct {
	vm, id, pw, ordinal int64 // -1 not said
	dev                 timeline.Device
}

// envKeys are the only rows of TARGET_INFO_SYSTEM_ENV that are read, with the names under which they are kept.
var envKeys = map[string]string{"hostname": "", "nvdriverversion": "driver_version", "cudadriverversion": "cuda_driver_version"}

// plainValue is what such a value may look like: nothing else of that table may come through by mistake.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// launchVariable are the only environment variables that are read: what torchrun tells each rank that it starts.
var launchVariable = regexp.MustCompile(`^(RANK|LOCAL_RANK|WORLD_SIZE)="?(\d{1,7})"?$`)

func (m *meta) addLaunch(variable string) {
	s := launchVariable.FindStringSubmatch(variable)
	if s == nil {
		return
	}
	v, err := strconv.Atoi(s[2])
	if err != nil {
		return
	}
	if old, ok := m.launch[s[1]]; ok && old != v {
		v = -1
	}
	m.launch[s[1]] = v
}

// launched gives the rank and the world of a capture of one rank. A capture around the launcher has no LOCAL_RANK, though a cluster may
// have set the others, for its nodes.
func (m *meta) launched() (rank, world int, ok bool) {
	rank, a := m.launch["RANK"]
	local, b := m.launch["LOCAL_RANK"]
	world, c := m.launch["WORLD_SIZE"]
	return rank, world, a && b && c && local >= 0 && local <= rank && rank < world
}

func (r *reader) readMeta() error {
	m := &r.m
	m.launch = map[string]int{}
	m.hosts, m.env = map[int64]string{}, map[string]string{}
	m.procs, m.threads = map[int64]string{}, map[int64]string{}
	m.cuda, m.uuids = map[[2]int64]int{}, map[[2]int64]string{}
	if err := firstError(r.session(), r.enums(), r.schedEnums(), r.memoryEnums()); err != nil {
		return err
	}
	return firstError(
		r.db.scan("TARGET_INFO_SYSTEM_ENV", []string{"globalVid", "name", "value"}, func(w *row) {
			key := strings.ToLower(w.text(1))
			as, ok := envKeys[key]
			if !ok {
				return
			}
			switch v := w.text(2); {
			case !plainValue.MatchString(v):
			case key == "hostname":
				m.hosts[w.num(0)] = v
			case m.env[as] == "":
				m.env[as] = v
			}
		}),
		r.db.scan("META_DATA_EXPORT", []string{"name", "value"}, r.exportMeta),
		r.db.scan("EXPORT_META_DATA", []string{"name", "value"}, r.exportMeta), // 2023
		r.db.scan("META_DATA_CAPTURE", []string{"name", "value"}, func(w *row) {
			switch name, v := w.text(0), w.text(1); {
			case name == "CAPTURE_EVENT_TYPE":
				if plainValue.MatchString(v) && !slices.Contains(m.traced, v) && len(m.traced) < 64 {
					m.traced = append(m.traced, v)
				}
			case strings.HasSuffix(name, ":ENVIRONMENT_VARIABLE"):
				m.addLaunch(v)
			}
		}),
		r.db.scan("PROCESSES", []string{"globalPid", "name"}, func(w *row) {
			// A name with a blank or a path in it may be a command line.
			if v := w.text(1); plainValue.MatchString(v) && len(m.procs) < maxThreads {
				m.procs[processOf(w.num(0))] = v
			}
		}),
		r.devices(),
	)
}

func (r *reader) exportMeta(w *row) {
	v := w.text(1)
	if !plainValue.MatchString(v) {
		return
	}
	switch w.text(0) {
	case "EXPORT_SCHEMA_VERSION":
		r.m.schema = v
	case "EXPORT_PRODUCT_VERSION":
		r.m.product = v
	}
}

// session reads when the session began and how long it lasted.
func (r *reader) session() error {
	m := &r.m
	first, several := true, false
	err := r.db.scan("TARGET_INFO_SESSION_START_TIME", []string{"utcEpochNs", "utcTime", "localTime"}, func(w *row) {
		epoch, ok := w.int(0)
		if !ok || epoch < 0 || epoch > 4e18 {
			r.in.Report("nsys/bad-value", timeline.DataLoss, w.id, "TARGET_INFO_SESSION_START_TIME rowid %d: utcEpochNs is no time", w.id)
			return
		}
		if !first {
			several = several || epoch != m.epoch
			return
		}
		first = false
		m.epoch, m.wall = epoch, true
		utc, err1 := time.Parse("2006-01-02T15:04:05", w.text(1))
		local, err2 := time.Parse("2006-01-02T15:04:05", w.text(2))
		if off := local.Sub(utc).Round(15 * time.Minute); err1 == nil && err2 == nil && off.Abs() <= 14*time.Hour {
			m.zone = strconv.Itoa(int(off / time.Second))
		}
	})
	if several {
		r.in.Report("nsys/several-sessions", timeline.Info, 0, "the file names several session starts: all times are placed by the first; export one report a host")
	}
	if err != nil {
		return err
	}
	err = r.db.scan("ANALYSIS_DETAILS", []string{"duration"}, func(w *row) {
		if d := w.num(0); d > 0 && d < year {
			m.duration = max(m.duration, d)
		}
	})
	m.lo, m.hi = -30*day, year
	if m.duration > 0 {
		m.hi = m.duration + day
	}
	return err
}

// devices reads the GPUs and which of them a process's device numbers mean.
func (r *reader) devices() error {
	m := &r.m
	columns := []string{"vmId", "id", "name", "busLocation", "totalMemory", "smCount", "pwGpuId", "uuid", "cuDevice", "computeMajor", "computeMinor"}
	err := r.db.scan("TARGET_INFO_GPU", columns, func(w *row) {
		if len(m.gpus) >= maxGPUs {
			return
		}
		opt := func(i int) int64 {
			if v, ok := w.int(i); ok {
				return v
			}
			return -1
		}
		g := gpu{vm: w.num(0), id: opt(1), pw: opt(6), ordinal: opt(8)}
		g.dev = timeline.Device{Name: clean(w.text(2)), Bus: normalBus(w.text(3)), UUID: normalUUID(w.text(7)), Vendor: "nvidia", Index: -1, Ordinal: -1, Source: r.in.Source, Proc: -1}
		if v := w.num(4); v > 0 && v < 1<<50 {
			g.dev.Memory = v
		}
		if v := w.num(5); v > 0 && v < 1<<16 {
			g.dev.SMs = int(v)
		}
		if major, minor := w.num(9), w.num(10); major > 0 && major < 100 && minor >= 0 && minor < 100 {
			g.dev.CC = fmt.Sprintf("%d.%d", major, minor)
		}
		m.gpus = append(m.gpus, g)
	})
	if err != nil {
		return err
	}
	return r.db.scan("TARGET_INFO_CUDA_DEVICE", []string{"gpuId", "cudaId", "pid", "uuid"}, func(w *row) {
		id, ok1 := w.int(0)
		ordinal, ok2 := w.int(1)
		key := [2]int64{w.num(2), ordinal}
		if !ok1 || !ok2 || len(m.cuda) >= maxThreads {
			return
		}
		m.cuda[key] = int(id)
		if u := normalUUID(w.text(3)); u != "" {
			m.uuids[key] = u
		}
	})
}

// device gives what is known of a process's device. Where the file does not map its number, only what all listed GPUs share is.
func (m *meta) device(proc, ordinal int64) timeline.Device {
	d := timeline.Device{Vendor: "nvidia"}
	key := [2]int64{pidOf(proc), ordinal}
	vm := proc &^ (1<<48 - 1)
	var on []gpu // the GPUs of the process's host
	for _, g := range m.gpus {
		if g.vm == 0 || proc <= 0 || g.vm&^(1<<48-1) == vm {
			on = append(on, g)
		}
	}
	if len(on) == 0 {
		on = m.gpus
	}
	if id, ok := m.cuda[key]; ok {
		for _, g := range on {
			if g.id == int64(id) {
				d = g.dev
				if u := m.uuids[key]; u != "" {
					d.UUID = u
				}
				return d
			}
		}
	}
	if u := m.uuids[key]; u != "" {
		for _, g := range on {
			if g.dev.UUID == u {
				return g.dev
			}
		}
		d.UUID = u
	}
	if len(on) == 1 {
		return on[0].dev
	}
	for i, g := range on {
		same := g.dev
		same.UUID, same.Bus = d.UUID, ""
		if i > 0 && same != d {
			return timeline.Device{Vendor: "nvidia", UUID: d.UUID}
		}
		d = same
	}
	return d
}

// normalBus turns 0000:3B:00.0 into 0000:3b:00.
func normalBus(s string) string {
	p := busForm.FindStringSubmatch(strings.ToLower(s))
	if p == nil {
		return ""
	}
	domain, err := strconv.ParseUint(p[1], 16, 32)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%04x:%s:%s", domain, p[2], p[3])
}

var (
	busForm  = regexp.MustCompile(`^([0-9a-f]{1,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f]+)?$`)
	uuidForm = regexp.MustCompile(`^(GPU-|MIG-)?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)
)

// normalUUID gives a UUID the way nvidia-smi prints it.
func normalUUID(s string) string {
	p := uuidForm.FindStringSubmatch(strings.TrimSpace(s))
	if p == nil || strings.Trim(p[2], "0-") == "" {
		return ""
	}
	if p[1] == "" {
		return "GPU-" + p[2]
	}
	return p[1] + p[2]
}

// clean makes a short text fit to show.
func clean(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	if len(s) > 128 {
		s = strings.ToValidUTF8(s[:128], "")
	}
	return s
}

// readThreadNames reads the names of the threads that have spans; whole machines are listed.
func (r *reader) readThreadNames() {
	seen := map[int64]bool{}
	for _, t := range r.raw {
		if !t.stream && t.proc != anyProc {
			seen[t.proc|t.id] = true
		}
	}
	_ = r.db.scan("ThreadNames", []string{"nameId", "globalTid"}, func(w *row) {
		if g := w.num(1); seen[g] && r.m.threads[g] == "" {
			r.m.threads[g] = clean(r.strings[w.num(0)])
		}
	})
}

var (
	lossWords = regexp.MustCompile(`(?i)\b(lost|dropped|overflow(ed)?|buffers? (is|was|were) full|out of memory|incomplete)\b`)
	pathLike  = regexp.MustCompile(`\S*[/\\]\S*|\S+=\S+|\S+@\S+`)
)

// diagnostics reads what nsys itself warned of. Paths and settings in its words are left out.
func (r *reader) diagnostics() error {
	type said struct {
		n   int64
		row uint64
	}
	loss, other := map[string]*said{}, map[string]*said{}
	var lossOrder, otherOrder []string
	err := r.db.scan(tDiagnostic, []string{"severity", "text"}, func(w *row) {
		sev := r.m.severities[w.num(0)]
		text := clean(strings.Join(strings.Fields(w.text(1)), " "))
		lost := lossWords.MatchString(text)
		if text == "" || sev != "warning" && sev != "error" && !(lost && sev != "verbose") {
			return
		}
		text = pathLike.ReplaceAllString(text, "(...)")
		into, order := other, &otherOrder
		if lost {
			into, order = loss, &lossOrder
		}
		s := into[text]
		if s == nil {
			if len(*order) >= 8 {
				text = (*order)[7]
				s = into[text]
			} else {
				s = &said{row: w.id}
				into[text] = s
				*order = append(*order, text)
			}
		}
		s.n++
	})
	tell := func(code string, sev timeline.Severity, said map[string]*said, order []string) {
		if len(order) == 0 {
			return
		}
		n := int64(0)
		for _, t := range order {
			n += said[t].n
		}
		r.in.ReportN(n, code, sev, said[order[0]].row, "%s: nsys itself says: %s", tDiagnostic, strings.Join(order, " | "))
	}
	tell("nsys/dropped-events", timeline.DataLoss, loss, lossOrder)
	tell("nsys/diagnostic", timeline.Info, other, otherOrder)
	return err
}
