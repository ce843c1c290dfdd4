package recorder

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// allLinks is the scope of a field that sums over the links of a GPU.
const allLinks = 0xFFFFFFFF

// What a tick asks of a GPU.
const (
	tickFast  = 1 << iota // utilisation, clocks, power, counters
	tickSlow              // links, errors, limits, processes
	tickProbe             // only whether a lost GPU is back
)

// gpu is one GPU and what is known of its abilities. Its own goroutine makes all its calls, so that a driver that hangs on one GPU
// holds up neither the others nor the host's readings.
type gpu struct {
	i   int
	dev Device

	absent   map[int]Code // calls that are not available: call*4096+argument
	failing  map[string]Code
	lost     Code
	links    int
	fields   []Field // of each tick
	fieldsL  []Field // of slow ticks
	pciBytes bool    // PCIe counters come as fields
	gpm      bool
	gpmAt    int64
	sampleUs int64 // stamp of the last sample of the driver's ring buffer
	useUs    int64
	codes    []keyCode // calls of this record that failed

	req  chan int
	res  chan gpuResult
	busy bool

	log *ledgerOfCodes
}

type keyCode struct {
	key  string
	code Code
}

// gpuResult is what a tick of one GPU gave.
type gpuResult struct {
	i    int
	b    []byte
	pids []GPUProcess // of a slow tick
	slow bool
}

// ledgerOfCodes says each absent ability once for all GPUs of a kind; the recorder shows them at the end.
type ledgerOfCodes struct {
	mu    sync.Mutex
	first map[string]Code
	names []string
	root  []string // those that another user may make
}

func (c *ledgerOfCodes) add(call string, code Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.first[call]; !ok {
		c.first[call] = code
		c.names = append(c.names, call)
	}
	if code == NoPermission && !slices.Contains(c.root, call) {
		c.root = append(c.root, call)
	}
}

// The fields of nvml.md section 3 and 5, by number.
const (
	fieldPerfPower      = 74
	fieldPerfThermal    = 75
	fieldPerfSync       = 76
	fieldPerfBoard      = 77
	fieldPerfLowUse     = 78
	fieldPerfReliab     = 79
	fieldMemTemp        = 82
	fieldNVLinkCount    = 91
	fieldNVLinkTx       = 138
	fieldNVLinkRx       = 139
	fieldNVLinkReplay   = 161
	fieldNVLinkRecovery = 162
	fieldNVLinkCRC      = 163
	fieldNVLinkSpeed    = 164
	fieldPowerAverage   = 185
	fieldPowerInstant   = 186
	fieldShutdownLimit  = 193
	fieldSlowdownLimit  = 194
	fieldMemMaxLimit    = 195
	fieldGPUMaxLimit    = 196
	fieldPCIeTx         = 197
	fieldPCIeRx         = 198
	fieldRecovery       = 230
	fieldSWThermal      = 269
	fieldHWThermal      = 270
	fieldPowerBrake     = 271
)

var pcieErrors = []struct {
	id  uint32
	key string
}{{95, "rollover"}, {173, "corr"}, {174, "naks_rx"}, {175, "rx_err"}, {176, "bad_tlp"}, {177, "naks_tx"}, {178, "bad_dllp"}, {179, "nonfatal"}, {180, "fatal"},
	{181, "unsupported"}, {182, "lcrc"}, {183, "lane"}}

// gpmMetrics are the metrics of GPM that are asked for. Those in percent become fractions, those in MiB/s bytes per second.
var gpmMetrics = []struct {
	id  int
	key string
	mib bool
}{{1, "ge", false}, {2, "sm", false}, {3, "occ", false}, {4, "int", false}, {5, "tc", false}, {6, "dfma", false}, {7, "hmma", false}, {9, "imma", false}, {10, "dram", false},
	{11, "fp64", false}, {12, "fp32", false}, {13, "fp16", false}, {20, "ptx", true}, {21, "prx", true}, {60, "nrx", true}, {61, "ntx", true}}

var gpmIDs = func() (ids []int) {
	for _, m := range gpmMetrics {
		ids = append(ids, m.id)
	}
	return
}()

func newGPU(i int, dev Device, log *ledgerOfCodes) *gpu {
	g := &gpu{i: i, dev: dev, absent: map[int]Code{}, failing: map[string]Code{}, pciBytes: true, log: log, req: make(chan int, 1), res: make(chan gpuResult, 1)}
	for _, id := range []uint32{fieldPerfPower, fieldPerfThermal, fieldPerfSync, fieldPerfBoard, fieldPerfLowUse, fieldPerfReliab, fieldMemTemp, fieldPowerAverage,
		fieldPowerInstant, fieldSWThermal, fieldHWThermal, fieldPowerBrake, fieldPCIeTx, fieldPCIeRx} {
		g.fields = append(g.fields, Field{ID: id})
	}
	for _, id := range []uint32{fieldNVLinkTx, fieldNVLinkRx} {
		g.fields = append(g.fields, Field{ID: id, Scope: allLinks})
	}
	g.fieldsL = []Field{{ID: fieldRecovery}}
	for _, e := range pcieErrors {
		g.fieldsL = append(g.fieldsL, Field{ID: e.id})
	}
	return g
}

// call makes a call unless it is known to be absent; ok is false when it gave nothing. A failure goes under key into the record.
func (g *gpu) call(key string, c Call, arg int) (v Values, ok bool) {
	slot := int(c)<<12 + arg
	if _, no := g.absent[slot]; no || g.lost != 0 {
		return v, false
	}
	v, code := g.dev.Call(c, arg)
	return v, g.took(key, c.String(), slot, code)
}

func (g *gpu) took(key, name string, slot int, code Code) bool {
	switch {
	case code == OK:
		return true
	case code.absent():
		g.absent[slot] = code
		g.log.add(name, code)
	case code.lost():
		g.lost = code
		g.fail(key, code)
	case code.later():
	default:
		g.fail(key, code)
	}
	return false
}

func (g *gpu) fail(key string, code Code) {
	if key != "" && !slices.ContainsFunc(g.codes, func(k keyCode) bool { return k.key == key }) {
		g.codes = append(g.codes, keyCode{key, code})
	}
}

// one is call for a single number; none when it gave nothing.
func (g *gpu) one(key string, c Call, arg int) int64 {
	if v, ok := g.call(key, c, arg); ok {
		return v[0]
	}
	return none
}

// batch reads fields and drops those that the part does not have.
func (g *gpu) batch(key string, fs *[]Field) []Field {
	if len(*fs) == 0 || g.lost != 0 {
		return nil
	}
	if !g.took(key, "GetFieldValues", int(nCalls)<<12, g.dev.Fields(*fs)) {
		if _, no := g.absent[int(nCalls)<<12]; no {
			*fs = nil
		}
		return nil
	}
	kept := (*fs)[:0]
	for _, f := range *fs {
		if f.Code.absent() || f.Code == NotFound {
			g.log.add("field "+strconv.Itoa(int(f.ID)), f.Code)
			continue
		}
		if f.Code.lost() {
			g.lost = f.Code
		}
		kept = append(kept, f)
	}
	*fs = kept
	return kept
}

// valueOf gives a field of a batch; none if it is not there.
func valueOf(fs []Field, id uint32) int64 {
	for i := range fs {
		if fs[i].ID == id && fs[i].Code == OK {
			return fs[i].Value
		}
	}
	return none
}

// close ends a record with the codes of what failed in it.
func (g *gpu) close(l *lines) {
	if len(g.codes) > 0 {
		l.open("e", '{')
		for _, k := range g.codes {
			l.num(k.key, int64(k.code))
		}
		l.shut('}')
		g.codes = g.codes[:0]
	}
	l.end()
}

// pair writes an array of two unless both are missing.
func (l *lines) pair(key string, a, b int64) {
	if a != none || b != none {
		l.nums(key, a, b)
	}
}

// fast appends the record g.
func (g *gpu) fast(l *lines, now func() int64) {
	t := now()
	l.begin("g", t)
	l.num("i", int64(g.i))
	if v, ok := g.call("u", CallUtilization, 0); ok {
		l.nums("u", v[0], v[1])
	} else if g.lost != 0 {
		l.num("u", none)
		g.close(l)
		return
	}
	fs := g.batch("f", &g.fields)
	if sm, mem := g.one("c", CallClock, 1), g.one("c", CallClock, 2); sm != none || mem != none {
		l.nums("c", sm, mem, g.one("c", CallClock, 3))
	}
	l.some("r", g.one("r", CallReasons, 0))
	l.some("p", g.one("p", CallPower, 0))
	l.some("pa", valueOf(fs, fieldPowerAverage))
	l.some("pi", valueOf(fs, fieldPowerInstant))
	l.some("en", g.one("en", CallEnergy, 0))
	l.pair("T", g.one("T", CallTemperature, 0), valueOf(fs, fieldMemTemp))
	l.some("tm", g.one("tm", CallMargin, 0))
	if ps := g.one("ps", CallPState, 0); ps >= 0 && ps < 32 {
		l.num("ps", ps)
	}
	if v, ok := g.call("m", CallMemory, 0); ok {
		reserved := v[2]
		if reserved < 0 {
			reserved = none
		}
		l.nums("m", v[1], reserved)
	}
	g.violations(l, fs)
	if g.pciBytes {
		l.pair("px", valueOf(fs, fieldPCIeTx), valueOf(fs, fieldPCIeRx))
	} // else see throughput
	if tx, rx := valueOf(fs, fieldNVLinkTx), valueOf(fs, fieldNVLinkRx); tx != none || rx != none {
		l.nums("nv", kib(tx), kib(rx))
	}
	g.profile(l, now)
	l.num("d", now()-t)
	g.close(l)
	if g.lost == 0 {
		g.ring(l, now)
	}
}

func kib(v int64) int64 {
	if v == none || v < 0 || v > math.MaxInt64>>10 {
		return none
	}
	return v << 10
}

// violations writes tv, ns in each limited state: from fields, or from the older call where those are absent.
func (g *gpu) violations(l *lines, fs []Field) {
	keys := [...]struct {
		key    string
		field  uint32
		policy int
	}{{"pw", fieldPerfPower, 0}, {"th", fieldPerfThermal, 1}, {"sb", fieldPerfSync, 2}, {"board", fieldPerfBoard, 3}, {"low", fieldPerfLowUse, 4}, {"rel", fieldPerfReliab, 5},
		{"swth", fieldSWThermal, -1}, {"hwth", fieldHWThermal, -1}, {"brake", fieldPowerBrake, -1}}
	open := false
	for _, k := range keys {
		ns := valueOf(fs, k.field)
		if ns == none && k.policy >= 0 && !slices.ContainsFunc(g.fields, func(f Field) bool { return f.ID == k.field }) {
			if v, ok := g.call("tv", CallViolation, k.policy); ok {
				ns = v[1]
			}
		}
		if ns == none {
			continue
		}
		if !open {
			l.open("tv", '{')
			open = true
		}
		l.num(k.key, ns)
	}
	if open {
		l.shut('}')
	}
}

// profile writes gpm: means since the tick before.
func (g *gpu) profile(l *lines, now func() int64) {
	if !g.gpm || g.lost != 0 {
		return
	}
	t := now()
	if g.gpmAt > 0 && t-g.gpmAt < 95e6 { // two samples need 100 ms between them
		return
	}
	out := make([]float64, len(gpmIDs))
	code := g.dev.GPM(gpmIDs, out)
	before := g.gpmAt
	g.gpmAt = t
	if code == NotReady {
		return
	}
	if code != OK {
		if !g.took("gpm", "GpmSampleGet", int(nCalls)<<12+1, code) && code.absent() {
			g.gpm = false
		}
		return
	}
	l.open("gpm", '{')
	for i, m := range gpmMetrics {
		switch v := out[i]; {
		case math.IsNaN(v):
		case m.mib:
			l.num(m.key, int64(math.Round(v*(1<<20))))
		default:
			l.ratio(m.key, v/100)
		}
	}
	l.shut('}')
	l.num("gpm_dt", t-before)
}

// ring appends the utilisation samples that the driver kept since the last tick.
func (g *gpu) ring(l *lines, now func() int64) {
	slot := int(nCalls)<<12 + 2
	if _, no := g.absent[slot]; no {
		return
	}
	t := now()
	ss, code := g.dev.Samples(g.sampleUs)
	if !g.took("", "GetSamples", slot, code) || len(ss) == 0 {
		return
	}
	if g.sampleUs == 0 { // the driver's whole history: what lies before the recording is not ours
		g.sampleUs = ss[len(ss)-1].UnixUs
		return
	}
	open := false
	for _, s := range ss {
		if s.UnixUs <= g.sampleUs {
			continue
		}
		g.sampleUs = s.UnixUs
		if !open {
			l.begin("gs", t)
			l.num("i", int64(g.i))
			l.num("ty", 1)
			l.open("s", '[')
			open = true
		}
		l.array([]int64{s.UnixUs, s.Value})
	}
	if open {
		l.shut(']')
		l.end()
	}
}

// throughput appends records g with pr for GPUs that have no counters of PCIe bytes. The call measures for 20 ms and blocks, so it has a
// goroutine of its own.
func throughput(gs []*gpu, absent map[int]bool, now func() int64) []byte {
	var l lines
	for _, g := range gs {
		if g.pciBytes || absent[g.i] {
			continue
		}
		t := now()
		tx, c1 := g.dev.Call(CallPCIeThroughput, 0)
		rx, c2 := g.dev.Call(CallPCIeThroughput, 1)
		if c1.absent() || c2.absent() || c1.lost() || c2.lost() {
			absent[g.i] = true
			continue
		}
		if c1 == OK && c2 == OK {
			l.begin("g", t)
			l.num("i", int64(g.i))
			l.nums("pr", tx[0]*1000, rx[0]*1000)
			l.end()
		}
	}
	return l.b
}

// slow appends the record gl and, where processes ran, pu.
func (g *gpu) slow(l *lines, now func() int64) (procs []GPUProcess) {
	t := now()
	l.begin("gl", t)
	l.num("i", int64(g.i))
	fs := g.batch("f", &g.fieldsL)
	l.pair("lk", g.one("lk", CallPCIeGen, 0), g.one("lk", CallPCIeWidth, 0))
	l.some("rp", g.one("rp", CallPCIeReplays, 0))
	open := false
	for _, e := range pcieErrors {
		if v := valueOf(fs, e.id); v != none {
			if !open {
				l.open("pe", '{')
				open = true
			}
			l.num(e.key, v)
		}
	}
	if open {
		l.shut('}')
	}
	g.nvlinks(l)
	if v := [4]int64{g.one("ecc", CallECC, 0), g.one("ecc", CallECC, 1), g.one("ecc", CallECC, 2), g.one("ecc", CallECC, 3)}; v != [4]int64{none, none, none, none} {
		l.nums("ecc", v[:]...)
	}
	if v := [2]int64{g.one("eccd", CallECCPlace, 2*4+2), g.one("eccd", CallECCPlace, 7*4+2)}; v != [2]int64{none, none} {
		l.nums("eccd", v[0], g.one("eccd", CallECCPlace, 2*4+3), v[1], g.one("eccd", CallECCPlace, 7*4+3))
	}
	if v, ok := g.call("rr", CallRemapped, 0); ok {
		l.nums("rr", v[:]...)
	}
	l.some("rpend", g.one("rpend", CallRetirePending, 0))
	l.pair("rpg", g.one("rpg", CallRetired, 0), g.one("rpg", CallRetired, 1))
	l.some("pl", g.one("pl", CallPowerEnforced, 0))
	l.some("act", valueOf(fs, fieldRecovery))
	if v, ok := g.call("b1", CallBAR1, 0); ok {
		l.nums("b1", v[1], v[0])
	}
	l.some("fan", g.one("fan", CallFan, 0))
	if v := [4]int64{g.one("ed", CallEncoder, 0), g.one("ed", CallDecoder, 0), g.one("ed", CallJpg, 0), g.one("ed", CallOfa, 0)}; v != [4]int64{none, none, none, none} {
		l.nums("ed", v[:]...)
	}
	if g.lost == 0 {
		slot := int(nCalls)<<12 + 3
		if _, no := g.absent[slot]; !no {
			ps, code := g.dev.Processes()
			if g.took("pids", "GetComputeRunningProcesses", slot, code) {
				procs = ps
				l.open("pids", '[')
				for _, p := range ps {
					b := p.Bytes
					if b < 0 {
						b = none
					}
					l.open("", '[')
					l.b = appendInt(l.b, p.PID)
					l.b = append(l.b, ',')
					l.b = appendInt(l.b, b)
					l.b = append(l.b, ',', '"', p.Kind, '"')
					l.shut(']')
				}
				l.shut(']')
			}
		}
	}
	l.num("d", now()-t)
	g.close(l)
	g.processUse(l, now)
	return procs
}

// processUse appends pu: how much of the GPU each process used, as the driver last saw it.
func (g *gpu) processUse(l *lines, now func() int64) {
	slot := int(nCalls)<<12 + 4
	if _, no := g.absent[slot]; no || g.lost != 0 {
		return
	}
	t := now()
	us, code := g.dev.ProcessUse(g.useUs)
	if !g.took("", "GetProcessUtilization", slot, code) || len(us) == 0 {
		return
	}
	open := false
	for _, u := range us {
		if u.StampUs <= 0 || u.SM < 0 || u.SM > 100 || u.Mem < 0 || u.Mem > 100 {
			continue // an empty slot of the driver's table
		}
		g.useUs = max(g.useUs, u.StampUs)
		if !open {
			l.begin("pu", t)
			l.num("i", int64(g.i))
			l.open("p", '[')
			open = true
		}
		l.array([]int64{u.PID, u.SM, u.Mem, u.StampUs})
	}
	if open {
		l.shut(']')
		l.end()
	}
}

// nvlinks writes nvs, the state of each link, and nve, [replay, recovery, CRC flit, CRC data] of each.
func (g *gpu) nvlinks(l *lines) {
	if g.links == 0 || g.lost != 0 {
		return
	}
	l.open("nvs", '[')
	for k := range g.links {
		l.sep()
		l.b = appendInt(l.b, g.one("nvs", CallNVLinkState, k))
	}
	l.shut(']')
	l.open("nve", '[')
	for k := range g.links {
		l.array([]int64{g.one("nve", CallNVLinkErrors, k*8), g.one("nve", CallNVLinkErrors, k*8+1), g.one("nve", CallNVLinkErrors, k*8+2), g.one("nve", CallNVLinkErrors, k*8+3)})
	}
	l.shut(']')
}

// maxLinks is more NVLinks than any part has.
const maxLinks = 36

// describe appends the static record of the GPU.
func (g *gpu) describe(l *lines, now func() int64, serial bool) {
	l.begin("gpu", now())
	l.num("i", int64(g.i))
	text := func(key string, c TextCall) {
		if s, code := g.dev.Text(c, 0); code == OK {
			l.text(key, s)
		} else if code.lost() {
			g.lost = code
		}
	}
	text("uuid", TextUUID)
	text("pci", TextBus)
	text("name", TextName)
	text("vbios", TextVBIOS)
	text("cpus", TextCPUs)
	if serial {
		text("serial", TextSerial)
	}
	if v, ok := g.call("", CallCapability, 0); ok {
		l.nums("cc", v[0], v[1])
	}
	l.some("minor", g.one("", CallMinor, 0))
	if v, ok := g.call("", CallMemory, 0); ok {
		l.num("mem_total", v[0])
	}
	l.some("bus_width", g.one("", CallBusWidth, 0))
	l.some("sm_max", g.one("", CallMaxClock, 1))
	l.some("mem_max", g.one("", CallMaxClock, 2))
	l.some("sm_app", g.one("", CallAppClock, 1))
	l.some("pl_def", g.one("", CallPowerDefault, 0))
	if v, ok := g.call("", CallPowerRange, 0); ok {
		l.num("pl_min", v[0])
		l.num("pl_max", v[1])
	}
	l.some("pl", g.one("", CallPowerEnforced, 0))
	l.some("t_shut", g.one("", CallThreshold, 0))
	l.some("t_slow", g.one("", CallThreshold, 1))
	l.some("t_mem", g.one("", CallThreshold, 2))
	l.some("t_max", g.one("", CallThreshold, 3))
	l.pair("pcie_max", g.one("", CallPCIeGenMax, 0), g.one("", CallPCIeWidthMax, 0))
	l.some("pcie_dev", g.one("", CallPCIeGenDevice, 0))
	fs := []Field{{ID: fieldShutdownLimit}, {ID: fieldSlowdownLimit}, {ID: fieldMemMaxLimit}, {ID: fieldGPUMaxLimit}, {ID: fieldNVLinkCount}, {ID: fieldNVLinkSpeed}}
	if g.lost != 0 || g.dev.Fields(fs) != OK {
		fs = nil
	}
	l.some("tl_shut", valueOf(fs, fieldShutdownLimit))
	l.some("tl_slow", valueOf(fs, fieldSlowdownLimit))
	l.some("tl_mem", valueOf(fs, fieldMemMaxLimit))
	l.some("tl_max", valueOf(fs, fieldGPUMaxLimit))
	g.findLinks(l, valueOf(fs, fieldNVLinkCount))
	if s := valueOf(fs, fieldNVLinkSpeed); s > 0 {
		l.num("nvlink_bps", s*1e6)
	}
	l.some("reasons_ok", g.one("", CallReasonsKnown, 0))
	flag := func(key string, c Call) {
		if v, ok := g.call("", c, 0); ok {
			l.bool(key, v[0] != 0)
		}
	}
	flag("mig", CallMIG)
	flag("ecc", CallECCMode)
	flag("persist", CallPersistence)
	l.some("mode", g.one("", CallComputeMode, 0))
	l.some("virt", g.one("", CallVirtual, 0))
	l.some("numa", g.one("", CallNUMANode, 0))
	if v, ok := g.call("", CallFabric, 0); ok {
		l.nums("fabric", v[0], v[1])
	}
	if v, ok := g.call("", CallGPM, 0); ok && v[0] != 0 {
		g.gpm = true
	}
	l.bool("gpm", g.gpm)
	g.batch("", &g.fields) // leaves those that the part has
	g.pciBytes = slices.ContainsFunc(g.fields, func(f Field) bool { return f.ID == fieldPCIeTx })
	g.codes = g.codes[:0]
	l.end()
}

// findLinks writes nvlinks, and nvr: of each link its version and the other end.
func (g *gpu) findLinks(l *lines, count int64) {
	g.links = 0
	n := maxLinks
	if count >= 0 && count < maxLinks {
		n = int(count)
	}
	for k := range n {
		if _, ok := g.call("", CallNVLinkState, k); !ok {
			break
		}
		g.links++
	}
	if g.lost != 0 {
		return
	}
	l.num("nvlinks", int64(g.links))
	if g.links == 0 {
		return
	}
	l.num("nvlink_v", g.one("", CallNVLinkVersion, 0))
	l.open("nvr", '[')
	for k := range g.links {
		kind := g.one("", CallNVLinkRemoteType, k)
		bus, _ := g.dev.Text(TextRemote, k)
		l.open("", '[')
		l.b = appendInt(l.b, kind)
		l.b = append(l.b, ',')
		l.b = appendString(l.b, bus)
		l.shut(']')
	}
	l.shut(']')
}

// run answers requests until they end.
func (g *gpu) run(now func() int64) {
	for what := range g.req {
		g.res <- g.tick(what, now)
	}
}

func (g *gpu) tick(what int, now func() int64) gpuResult {
	var l lines
	r := gpuResult{i: g.i}
	if g.lost != 0 && what&tickProbe != 0 {
		if _, code := g.dev.Call(CallMemory, 0); !code.lost() {
			event(&l, now(), "back", int64(g.i), 0, "the GPU answers again after "+g.lost.String())
			g.lost = 0
		}
	}
	before := g.lost
	if g.lost == 0 && what&tickFast != 0 {
		g.fast(&l, now)
	}
	if g.lost == 0 && what&tickSlow != 0 {
		r.pids, r.slow = g.slow(&l, now), true
	}
	if g.lost != 0 && before == 0 {
		g.sayLost(&l, now())
	}
	r.b = l.b
	return r
}

func (g *gpu) sayLost(l *lines, t int64) {
	ty := "lost"
	if g.lost == ResetRequired {
		ty = "reset_required"
	}
	event(l, t, ty, int64(g.i), int64(g.lost), fmt.Sprintf("GPU %d: %s", g.i, g.lost))
}

// event appends the record ev. i and code are left out when none.
func event(l *lines, t int64, ty string, i, code int64, txt string) {
	l.begin("ev", t)
	l.text("ty", ty)
	l.some("i", i)
	l.some("code", code)
	l.text("txt", txt)
	l.end()
}

// topology appends the matrices: gpu, the level of the nearest common ancestor of each two; p2p, the status of reads; nvl, the NVLinks
// between them; and nics with the level from each GPU.
func topology(l *lines, t int64, gs []*gpu, h *host) {
	n := len(gs)
	bus, remote, active := make([]string, n), make([][]string, n), make([]int, n)
	toSwitch := make([]int, n)
	chain, node := make([][]string, n), make([]int64, n)
	for i, g := range gs {
		bus[i], _ = g.dev.Text(TextBus, 0)
		chain[i] = h.pciPath(sysBus(bus[i]))
		node[i] = h.number(h.sys, "bus/pci/devices/"+sysBus(bus[i])+"/numa_node")
		for k := range g.links {
			if v, ok := g.call("", CallNVLinkState, k); !ok || v[0] != 1 {
				continue
			}
			active[i]++
			if r, code := g.dev.Text(TextRemote, k); code == OK {
				remote[i] = append(remote[i], sysBus(r))
			}
			if v, ok := g.call("", CallNVLinkRemoteType, k); ok && v[0] == 2 {
				toSwitch[i]++
			}
		}
	}
	l.begin("topo", t)
	matrix := func(key string, f func(i, j int) int64) {
		l.open(key, '[')
		row := make([]int64, n)
		for i := range gs {
			for j := range gs {
				row[j] = none
				if i == j {
					row[j] = 0
				} else {
					row[j] = f(i, j)
				}
			}
			l.array(row)
		}
		l.shut(']')
	}
	if n > 0 {
		matrix("gpu", func(i, j int) int64 {
			if v := gs[i].one("", CallAncestor, j); v != none {
				return v
			}
			return between(chain[i], chain[j], node[i], node[j])
		})
		matrix("p2p", func(i, j int) int64 { return gs[i].one("", CallP2P, j*8) })
		matrix("nvl", func(i, j int) int64 {
			direct := 0
			for _, r := range remote[i] {
				if r != "" && r == sysBus(bus[j]) {
					direct++
				}
			}
			if direct == 0 { // through switches every link reaches every GPU
				direct = min(toSwitch[i], toSwitch[j])
			}
			return int64(direct)
		})
	}
	l.open("nics", '[')
	for _, p := range h.ports() {
		l.open("", '{')
		l.text("name", p.name)
		l.text("pci", p.bus)
		l.some("numa", p.numa)
		if n > 0 {
			anc := make([]int64, n)
			for i := range gs {
				anc[i] = between(chain[i], pciChain(p.path), node[i], p.numa)
			}
			l.nums("anc", anc...)
		}
		l.shut('}')
	}
	l.shut(']')
	l.end()
	for _, g := range gs {
		g.codes = g.codes[:0]
	}
}

// sysBus turns NVML's 00000000:17:00.0 into the 0000:17:00.0 of sysfs.
func sysBus(s string) string {
	s = strings.ToLower(s)
	if dom, rest, ok := strings.Cut(s, ":"); ok && len(dom) == 8 && strings.HasPrefix(dom, "0000") {
		return dom[4:] + ":" + rest
	}
	return s
}
