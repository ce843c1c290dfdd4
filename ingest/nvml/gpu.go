package nvml

import (
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const big = 1e18

// gpuOf gives the GPU of an index; nil past what a host can have.
func (r *reader) gpuOf(i num, uuid string) *gpu {
	if !i.ok || i.v < 0 || i.v >= ingest.MaxGPUs {
		r.in.Report("gpureport-record/bad-record", timeline.DataLoss, uint64(r.row), "a record of a GPU without its index: dropped")
		return nil
	}
	if g, ok := r.gpus[i.v]; ok && (uuid == "" || g.uuid == "" || g.uuid == uuid) {
		if uuid != "" && g.uuid == "" {
			g.uuid = uuid
			r.byUUID[uuid] = g
		}
		return g
	}
	if g, ok := r.byUUID[uuid]; ok && uuid != "" { // numbered anew since the last session
		r.gpus[i.v] = g
		return g
	}
	if len(r.order) >= ingest.MaxGPUs {
		return nil
	}
	g := &gpu{index: i.v, uuid: uuid, shown: "GPU " + strconv.FormatInt(i.v, 10), code: map[string]int64{}, users: map[int64]*thing{}}
	g.dev = timeline.DeviceID(len(r.b.TL.Devices))
	g.track = r.b.GPUTrack(timeline.Device{Index: int(i.v), Ordinal: -1, Source: r.src, Proc: -1, Vendor: "nvidia", UUID: uuid}, g.shown)
	r.gpus[i.v] = g
	if uuid != "" {
		r.byUUID[uuid] = g
	}
	r.order = append(r.order, g)
	return g
}

func (r *reader) describeGPU(at int64, c *gpuRec) {
	g := r.gpuOf(c.I, string(c.UUID))
	if g == nil {
		return
	}
	d := &r.b.TL.Devices[g.dev]
	if c.PCI != "" {
		d.Bus = bus(string(c.PCI))
	}
	if c.UUID != "" {
		d.UUID = string(c.UUID)
	}
	if c.Name != "" {
		d.Name = string(c.Name)
	}
	if c.MemTotal.v > 0 {
		d.Memory = c.MemTotal.v
	}
	if a, b := c.CC.at(0), c.CC.at(1); a.ok && b.ok {
		d.CC = strconv.FormatInt(a.v, 10) + "." + strconv.FormatInt(b.v, 10)
	}
	t := timeline.Time(at)
	r.text(g.track, timeline.AttrVBIOS, string(c.VBIOS), t)
	r.text(g.track, timeline.AttrCPUAffinity, string(c.CPUs), t)
	for _, x := range []struct {
		name  string
		n     num
		scale float64
		u     unit.Unit
	}{
		{timeline.AttrClockSMMax, c.SMMax, 1e6, unit.Hertz}, {timeline.AttrClockMemMax, c.MemMax, 1e6, unit.Hertz}, {timeline.AttrClockApp, c.SMApp, 1e6, unit.Hertz},
		{timeline.AttrPowerLimit, c.PL, 1e-3, unit.Watt}, {timeline.AttrPowerDefault, c.PLDef, 1e-3, unit.Watt}, {timeline.AttrPowerMin, c.PLMin, 1e-3, unit.Watt},
		{timeline.AttrPowerMax, c.PLMax, 1e-3, unit.Watt}, {timeline.AttrTempShutdown, c.TShut, 1, unit.Celsius}, {timeline.AttrTempSlowdown, c.TSlow, 1, unit.Celsius},
		{timeline.AttrTempMemMaxOp, c.TMem, 1, unit.Celsius}, {timeline.AttrTempMaxOp, c.TMax, 1, unit.Celsius}, {timeline.AttrMarginShutdown, c.TLShut, 1, unit.Celsius},
		{timeline.AttrMarginSlowdown, c.TLSlow, 1, unit.Celsius}, {timeline.AttrMarginMem, c.TLMem, 1, unit.Celsius}, {timeline.AttrMarginMaxOp, c.TLMax, 1, unit.Celsius},
		{timeline.AttrPCIeGenMax, c.PCIeMax.at(0), 1, unit.Count}, {timeline.AttrPCIeWidthMax, c.PCIeMax.at(1), 1, unit.Count}, {timeline.AttrPCIeGenDevice, c.PCIeDev, 1, unit.Count},
		{timeline.AttrNVLinks, c.NVLinks, 1, unit.Count}, {timeline.AttrNVLinkSpeed, c.NVLinkBps, 1, unit.BytePerSecond}, {timeline.AttrNUMANode, c.NUMA, 1, unit.Count},
	} {
		if !x.n.ok {
			continue
		}
		v := float64(x.n.v) * x.scale
		if x.scale == 1e-3 {
			v = float64(x.n.v) / 1000
		}
		r.number(g.track, x.name, v, x.u, t)
	}
	for _, x := range []struct {
		name string
		f    flag
	}{{timeline.AttrMIG, c.MIG}, {timeline.AttrECC, c.ECC}, {timeline.AttrPersistence, c.Persist}} {
		if x.f.ok {
			r.text(g.track, x.name, map[bool]string{true: "enabled", false: "disabled"}[x.f.v], t)
		}
	}
	r.text(g.track, timeline.AttrComputeMode, pick(c.Mode, "default", "exclusive thread", "prohibited", "exclusive process"), t)
	r.text(g.track, timeline.AttrVirtual, pick(c.Virt, "none", "pass-through", "vGPU", "host vGPU", "host vSGA"), t)
	r.text(g.track, timeline.AttrFabric, pick(c.Fabric.at(0), "not supported", "not started", "in progress", "completed"), t)
}

// pick gives the word of a number; "" for one that has none.
func pick(n num, words ...string) string {
	if n.ok && n.v >= 0 && n.v < int64(len(words)) {
		return words[n.v]
	}
	return ""
}

// topology gives the links between GPUs, and from GPUs to network ports.
func (r *reader) topology(_ int64, c *topoRec) {
	level := func(n num) string {
		if !n.ok {
			return ""
		}
		return map[int64]string{0: "X", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}[n.v]
	}
	name := func(i int) string { return "GPU" + strconv.Itoa(i) }
	link := func(a, b, kind string, count int64) {
		if kind != "" && kind != "X" && r.once(r.hostTrack(), "link "+a+" "+b+" "+kind) {
			r.b.TL.Links = append(r.b.TL.Links, timeline.Link{Source: r.src, A: a, B: b, Kind: kind, Count: int32(count), Row: r.row})
		}
	}
	for i := range min(len(c.GPU), ingest.MaxGPUs) {
		for j := range min(len(c.GPU[i]), ingest.MaxGPUs) {
			if i == j {
				continue
			}
			if i < len(c.NVL) {
				if n := c.NVL[i].at(j); n.ok && n.v > 0 && n.v < 100 {
					link(name(i), name(j), "NV"+strconv.FormatInt(n.v, 10), n.v)
					continue
				}
			}
			link(name(i), name(j), level(c.GPU[i][j]), 0)
		}
	}
	for _, n := range c.NICs[:min(len(c.NICs), maxNamed)] {
		for i := range min(len(n.Anc), ingest.MaxGPUs) {
			link(name(i), string(n.Name), level(n.Anc[i]), 0)
		}
	}
	for i, row := range c.P2P[:min(len(c.P2P), ingest.MaxGPUs)] {
		words := make([]string, len(row))
		any := false
		for j, n := range row {
			words[j] = "U"
			switch {
			case i == j:
				words[j] = "X"
			case n.ok:
				any = true
				if words[j] = pick(n, "OK", "CNS", "TNS", "DR", "DIS", "NS"); words[j] == "" {
					words[j] = "U"
				}
			}
		}
		if g, ok := r.gpus[int64(i)]; ok && any {
			r.text(g.track, timeline.AttrP2P, strings.Join(words, " "), 0)
		}
	}
}

// limited are the counters of tv.
var limited = []struct {
	key    string
	metric timeline.Metric
}{{"pw", timeline.ThrottlePower}, {"th", timeline.ThrottleThermal}, {"sb", timeline.ThrottleSyncBoost}, {"board", timeline.ThrottleBoard}, {"low", timeline.ThrottleLowUse},
	{"rel", timeline.ThrottleReliab}, {"swth", timeline.ThrottleSWThermal}, {"hwth", timeline.ThrottleHWThermal}, {"brake", timeline.ThrottlePowerBrake}}

// profiled are the fractions of gpm.
var profiled = []struct {
	key    string
	metric timeline.Metric
}{{"ge", timeline.GRActive}, {"sm", timeline.SMActive}, {"occ", timeline.SMOccupancy}, {"tc", timeline.TensorActive}, {"dram", timeline.DRAMActive}, {"int", timeline.IntegerActive},
	{"fp64", timeline.FP64Active}, {"fp32", timeline.FP32Active}, {"fp16", timeline.FP16Active}}

func (r *reader) gpuFast(at int64, c *gRec) {
	g := r.gpuOf(c.I, "")
	if g == nil {
		return
	}
	t := g.track
	g.rows++
	if u := c.U.at(0); u.ok {
		g.util, r.util = true, true
	}
	r.scaled(t, timeline.SMBusy, at, c.U.at(0), .01, 0, 1)
	r.scaled(t, timeline.MemBusy, at, c.U.at(1), .01, 0, 1)
	r.scaled(t, timeline.ClockSM, at, c.C.at(0), 1e6, 0, 1e11)
	r.scaled(t, timeline.ClockMem, at, c.C.at(1), 1e6, 0, 1e11)
	r.scaled(t, timeline.ClockVideo, at, c.C.at(2), 1e6, 0, 1e11)
	r.scaled(t, timeline.Reasons, at, c.R, 1, 0, 1<<52)
	power := c.P
	if !power.ok {
		power = c.PA
	}
	r.scaled(t, timeline.Power, at, power, 1e-3, 0, 20000)
	r.scaled(t, timeline.PowerInstant, at, c.PI, 1e-3, 0, 20000)
	r.scaled(t, timeline.Energy, at, c.EN, 1e-3, 0, big)
	r.scaled(t, timeline.TempGPU, at, c.TC.at(0), 1, -50, 200)
	r.scaled(t, timeline.TempMem, at, c.TC.at(1), 1, -50, 200)
	r.scaled(t, timeline.TempMargin, at, c.TM, 1, -200, 200)
	r.scaled(t, timeline.PState, at, c.PS, 1, 0, 15)
	r.scaled(t, timeline.MemUsed, at, c.M.at(0), 1, 0, big)
	r.scaled(t, timeline.MemReserved, at, c.M.at(1), 1, 0, big)
	for _, x := range limited {
		r.scaled(t, x.metric, at, c.TV.of(x.key), 1e-9, 0, big)
	}
	for _, x := range c.GPM {
		for _, p := range profiled {
			if p.key == x.name && x.v >= 0 && x.v <= 1.5 {
				r.put(t, over(p.metric, r.period), at, min(x.v, 1))
			}
		}
	}
	tx, rx := over(timeline.PCIeTx, r.period), over(timeline.PCIeRx, r.period)
	if d, dt, ok := g.step("px", at, c.PX); len(c.PX) > 0 && ok {
		r.rate(t, tx, r.period, at, d.at(0), 1, dt)
		r.rate(t, rx, r.period, at, d.at(1), 1, dt)
	}
	r.scaled(t, timeline.PCIeTx, at, c.PR.at(0), 1, 0, 1e12)
	r.scaled(t, timeline.PCIeRx, at, c.PR.at(1), 1, 0, 1e12)
	if d, dt, ok := g.step("nv", at, c.NV); len(c.NV) > 0 && ok {
		r.rate(t, timeline.NVLinkTx, r.period, at, d.at(0), 1, dt)
		r.rate(t, timeline.NVLinkRx, r.period, at, d.at(1), 1, dt)
	}
	r.fromGPM(g, at, c)
	r.failed(g, at, c.E)
}

// fromGPM takes throughput from the profiling counters where the byte counters are not there.
func (r *reader) fromGPM(g *gpu, at int64, c *gRec) {
	for _, x := range c.GPM {
		if x.v < 0 || x.v > 1e13 {
			continue
		}
		switch {
		case x.name == "ptx" && len(c.PX) == 0:
			r.put(g.track, over(timeline.PCIeTx, r.period), at, x.v)
		case x.name == "prx" && len(c.PX) == 0:
			r.put(g.track, over(timeline.PCIeRx, r.period), at, x.v)
		case x.name == "ntx" && len(c.NV) == 0:
			r.put(g.track, over(timeline.NVLinkTx, r.period), at, x.v)
		case x.name == "nrx" && len(c.NV) == 0:
			r.put(g.track, over(timeline.NVLinkRx, r.period), at, x.v)
		}
	}
}

// failed marks a reading that begins to fail with a code; its going on is no news.
func (r *reader) failed(g *gpu, at int64, e counts) {
	if r.again {
		return
	}
	for _, x := range e {
		if !x.v.ok || g.code[x.name] == x.v.v {
			continue
		}
		g.code[x.name] = x.v.v
		if x.v.v == 15 || x.v.v == 16 {
			continue // ev says that the GPU is lost
		}
		say := "reading " + clip(x.name) + " failed with NVML code " + strconv.FormatInt(x.v.v, 10)
		r.b.AddMark(timeline.MarkReadFailed, g.track, timeline.Time(at), say, r.row)
		r.in.Report("gpureport-record/failed-reading", timeline.DataLoss, uint64(r.row), "%s: %s", g.shown, say)
	}
	for name := range g.code {
		if !e.of(name).ok {
			delete(g.code, name)
		}
	}
}

// gpuRing adds the driver's own samples, whose stamps are wall time.
func (r *reader) gpuRing(_ int64, c *gsRec) {
	g := r.gpuOf(c.I, "")
	if g == nil || c.Ty.v != 1 {
		return
	}
	i := r.seriesOf(g.track, timeline.SMBusyFine)
	r.wall[i] = true
	for _, s := range c.S {
		if us, v := s.at(0), s.at(1); us.ok && v.ok && us.v > 0 && us.v < 1<<52 && v.v >= 0 && v.v <= 100 {
			r.b.Reading(i, timeline.Time(us.v*1000), float64(v.v)/100, r.row)
		}
	}
}

// sum adds up the elements of a row that are there; ok is false if none is.
func sum(n nums) num {
	var s num
	for _, v := range n {
		if v.ok && v.v >= 0 {
			s = num{s.v + v.v, true}
		}
	}
	return s
}

func (r *reader) gpuSlow(at int64, c *glRec) {
	g := r.gpuOf(c.I, "")
	if g == nil {
		return
	}
	t := g.track
	r.scaled(t, timeline.PCIeGen, at, c.LK.at(0), 1, 0, 16)
	r.scaled(t, timeline.PCIeWidth, at, c.LK.at(1), 1, 0, 64)
	r.scaled(t, timeline.PCIeReplays, at, c.RP, 1, 0, big)
	if a, b := c.PE.of("fatal"), c.PE.of("nonfatal"); a.ok || b.ok {
		r.scaled(t, timeline.PCIeErrors, at, sum(nums{a, b}), 1, 0, big)
	}
	r.scaled(t, timeline.PCIeCorrected, at, c.PE.of("corr"), 1, 0, big)
	if len(c.NVS) > 0 {
		up, known := int64(0), false
		for _, s := range c.NVS {
			if s.ok {
				known = true
				up += s.v & 1
			}
		}
		if known {
			r.put(t, timeline.NVLinkUp, at, float64(up))
		}
	}
	var errs num
	for _, row := range c.NVE {
		if s := sum(row); s.ok {
			errs = num{errs.v + s.v, true}
		}
	}
	r.scaled(t, timeline.NVLinkErrors, at, errs, 1, 0, big)
	corr, unc := c.ECC.at(2), c.ECC.at(3) // of the card's life, as nvidia-smi shows them; else since the driver was loaded
	if !corr.ok {
		corr = c.ECC.at(0)
	}
	if !unc.ok {
		unc = c.ECC.at(1)
	}
	r.scaled(t, timeline.ECCCorrected, at, corr, 1, 0, big)
	r.scaled(t, timeline.ECCUncorrected, at, unc, 1, 0, big)
	r.scaled(t, timeline.ECCVolUnc, at, c.ECC.at(1), 1, 0, big)
	for k, m := range []timeline.Metric{timeline.ECCAggDRAMCorr, timeline.ECCAggDRAMUnc, timeline.ECCAggSRAMCorr, timeline.ECCAggSRAMUnc} {
		r.scaled(t, m, at, c.ECCD.at(k), 1, 0, big)
	}
	r.scaled(t, timeline.RemapCorr, at, c.RR.at(0), 1, 0, 1e9)
	r.scaled(t, timeline.RemapUncorr, at, c.RR.at(1), 1, 0, 1e9)
	r.scaled(t, timeline.RemapPending, at, c.RR.at(2), 1, 0, 1)
	r.scaled(t, timeline.RemapFailed, at, c.RR.at(3), 1, 0, 1)
	r.scaled(t, timeline.RetirePending, at, c.RPend, 1, 0, 1)
	r.scaled(t, timeline.RetiredSingle, at, c.RPg.at(0), 1, 0, 1e9)
	r.scaled(t, timeline.RetiredDouble, at, c.RPg.at(1), 1, 0, 1e9)
	r.scaled(t, timeline.PowerLimit, at, c.PL, 1e-3, 0, 20000)
	r.scaled(t, timeline.Bar1Used, at, c.B1.at(0), 1, 0, big)
	r.scaled(t, timeline.Fan, at, c.Fan, .01, 0, 2)
	for k, m := range []timeline.Metric{timeline.EncBusy, timeline.DecBusy, timeline.JpgBusy, timeline.OfaBusy} {
		r.scaled(t, m, at, c.ED.at(k), .01, 0, 1)
	}
	if w := pick(c.Act, "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", "IMEX", "Bus Reset", "System Reboot"); w != "" {
		r.text(t, timeline.AttrRecovery, w, timeline.Time(at))
	}
	if c.PIDs != nil {
		r.put(t, timeline.GPUProcesses, at, float64(len(c.PIDs)))
		for _, p := range c.PIDs {
			if u := r.user(g, p.at(0)); u != nil {
				r.scaled(u.track, timeline.ProcGPUMem, at, p.at(1), 1, 0, big)
			}
		}
	}
	r.failed(g, at, c.E)
}

// user is a process on a GPU: a track of its own, for a process may use several.
func (r *reader) user(g *gpu, pid num) *thing {
	if !pid.ok || pid.v <= 0 || pid.v > 1<<31 {
		return nil
	}
	u, ok := g.users[pid.v]
	if !ok {
		if len(g.users) >= maxGroup {
			return nil
		}
		name := ""
		if p, ok := r.procs[pid.v]; ok {
			name = p.comm
		}
		u = &thing{track: r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackProcess, Proc: -1, Device: g.dev, Thread: pid.v, Name: name})}
		g.users[pid.v] = u
		gpuName := g.uuid
		if gpuName == "" {
			gpuName = strconv.FormatInt(g.index, 10)
		}
		r.b.AddAttr(u.track, timeline.AttrProcGPU, gpuName, 0, r.row)
	}
	return u
}

func (r *reader) gpuUsers(at int64, c *puRec) {
	g := r.gpuOf(c.I, "")
	if g == nil {
		return
	}
	window := max(time.Second, r.slow)
	for _, p := range c.P {
		if u := r.user(g, p.at(0)); u != nil {
			r.scaled(u.track, over(timeline.ProcSMBusy, window), at, p.at(1), .01, 0, 1)
			r.scaled(u.track, over(timeline.ProcMemBusy, window), at, p.at(2), .01, 0, 1)
		}
	}
}

// event marks what the driver or the recorder told.
func (r *reader) event(at int64, c *evRec) {
	t := r.hostTrack()
	shown := ""
	if c.I.ok {
		g := r.gpuOf(c.I, "")
		if g == nil {
			return
		}
		t, shown = g.track, g.shown+": "
		switch c.Ty {
		case "lost", "reset_required":
			g.lost = true
		case "back":
			g.lost = false
		}
	}
	code := int32(0)
	if c.Code.ok && c.Code.v >= 0 && c.Code.v < 1<<31 {
		code = int32(c.Code.v)
	}
	when := timeline.Time(at)
	switch c.Ty {
	case "xid":
		r.b.AddEvent(timeline.MarkXid, t, when, code, "Xid "+strconv.Itoa(int(code)), r.row)
	case "lost", "reset_required":
		r.b.AddMark(timeline.MarkGPULost, t, when, string(c.Txt), r.row)
		r.in.Report("gpureport-record/gpu-lost", timeline.DataLoss, uint64(r.row), "%s%s: look for its Xid in the kernel log", shown, clip(string(c.Txt)))
	case "no_gpu":
		r.in.Report("gpureport-record/no-gpu", timeline.DataLoss, uint64(r.row), "the host alone was recorded: %s", c.Txt[:min(len(c.Txt), 200)])
	case "cap_absent":
	case "deaf": // the driver tells no events from here on
		r.sessions[len(r.sessions)-1].watched = false
	case "back", "driver", "oom", "note", "start", "exit":
		say := map[word]string{"back": "GPU answers again", "driver": "driver event", "oom": "out of memory", "start": "command started", "exit": "command ended"}[c.Ty]
		switch {
		case c.Ty == "exit":
			say += " with code " + strconv.Itoa(int(code))
		case c.Txt != "":
			say = strings.TrimPrefix(say+": "+clip(string(c.Txt)), ": ")
		}
		kind := timeline.MarkOutput
		if c.Ty == "oom" {
			kind = timeline.MarkOOM
		}
		r.b.AddEvent(kind, t, when, code, say, r.row)
	}
}

func (r *reader) end(_ int64, c *endRec) {
	r.ended = true
	if c.CPUUser.ok && c.CPUSys.ok {
		r.number(r.hostTrack(), timeline.AttrOwnCPU, float64(c.CPUUser.v+c.CPUSys.v)/1e9, unit.Second, 0)
	}
	if c.Late.ok {
		r.number(r.hostTrack(), timeline.AttrOwnLate, float64(c.Late.v), unit.Count, 0)
		if c.Late.v > 0 && c.Ticks.v > 0 {
			r.in.Report("gpureport-record/late-samples", timeline.Info, uint64(r.row), "%d of %d samples could not be taken in time: the host had no CPU to spare, or a driver call hung", c.Late.v, c.Late.v+c.Ticks.v)
		}
	}
}
