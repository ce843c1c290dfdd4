package nvml

import (
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

func (r *reader) describeHost(at int64, c *hostRec) {
	h, t := r.hostTrack(), timeline.Time(at)
	count := func(name string, n num, u unit.Unit) {
		if n.ok && n.v >= 0 {
			r.number(h, name, float64(n.v), u, t)
		}
	}
	count(timeline.AttrHostCPUs, c.CPUs, unit.Count)
	count(timeline.AttrHostSockets, c.Sockets, unit.Count)
	count(timeline.AttrHostMemory, c.Mem, unit.Byte)
	r.text(h, timeline.AttrHostCPUModel, string(c.Model), t)
	r.text(h, timeline.AttrGovernor, string(c.Governor), t)
	r.text(h, timeline.AttrHostKernel, string(c.Kernel), t)
	r.text(h, timeline.AttrHostOS, string(c.OS), t)
	r.text(h, timeline.AttrNUMABalancing, string(c.Balancing), t)
	r.text(h, timeline.AttrCPUSet, string(c.Set), t)
	if c.BTime.v > 0 && len(r.boot) == 0 { // clk knows it better
		r.boot = append(r.boot, c.BTime.v*1e9)
	}
	var nodes []string
	for _, n := range c.Nodes {
		if n.ID.ok {
			nodes = append(nodes, strconv.FormatInt(n.ID.v, 10)+":"+string(n.CPUs))
		}
	}
	if len(nodes) > 0 {
		r.number(h, timeline.AttrHostNUMANodes, float64(len(nodes)), unit.Count, t)
		r.text(h, timeline.AttrHostNUMACPUs, strings.Join(nodes, " "), t)
	}
	for _, d := range c.Disks {
		if d.Rotational.ok {
			if x := r.thingOf(r.named, timeline.TrackDisk, string(d.Name)); x != nil {
				r.number(x.track, timeline.AttrDiskSpin, float64(d.Rotational.v&1), unit.Flag, t)
			}
		}
	}
	for _, n := range c.NICs {
		if n.NUMA.ok && !n.IB.v {
			if x := r.thingOf(r.named, timeline.TrackNIC, string(n.Name)); x != nil {
				r.number(x.track, timeline.AttrNICNode, float64(n.NUMA.v), unit.Count, t)
			}
		}
	}
}

// times turns [user,nice,system,idle,iowait,irq,softirq,steal] of a stretch into shares. Where one fell (iowait does, on idle CPUs) the
// stretch is left out.
func (r *reader) times(t *thing, key string, at int64, v nums, window bool) {
	d, _, ok := t.step(key, at, v)
	if !ok || len(d) < 8 {
		return
	}
	total := int64(0)
	for _, x := range d[:8] {
		if !x.ok {
			return
		}
		total += x.v
	}
	if total <= 0 {
		return
	}
	w := r.wide
	if window {
		w = r.period
	}
	put := func(m timeline.Metric, n int64) { r.put(t.track, over(m, w), at, float64(n)/float64(total)) }
	put(timeline.CPUBusy, total-d[3].v-d[4].v)
	put(timeline.CPUUser, d[0].v+d[1].v)
	put(timeline.CPUSystem, d[2].v)
	put(timeline.CPUIOWait, d[4].v)
	put(timeline.CPUIRQ, d[5].v+d[6].v)
	put(timeline.CPUSteal, d[7].v)
}

func (r *reader) hostFast(at int64, c *hRec) {
	t, x := r.hostTrack(), &r.hostC
	r.times(x, "cpu", at, c.CPU, true)
	for _, row := range c.CPUs {
		n := row.at(0)
		if !n.ok || n.v < 0 || n.v >= maxCPUs || len(row) < 9 {
			continue
		}
		cpu, ok := r.cpus[n.v]
		if !ok {
			cpu = &thing{track: r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackCPU, Proc: -1, Device: -1, Thread: n.v, Name: "cpu" + strconv.FormatInt(n.v, 10)})}
			r.cpus[n.v] = cpu
		}
		r.times(cpu, "", at, row[1:], false)
	}
	r.scaled(t, timeline.RunQueue, at, c.Run, 1, 0, 1e9)
	r.scaled(t, timeline.Blocked, at, c.Blk, 1, 0, 1e9)
	if len(c.Load) > 0 && c.Load[0] >= 0 && c.Load[0] < 1e9 {
		r.put(t, timeline.Load1, at, c.Load[0])
	}
	if d, dt, ok := x.step("ctx", at, nums{c.Ctx, c.Intr}); ok {
		r.rate(t, timeline.CtxSwitches, r.period, at, d.at(0), 1, dt)
		r.rate(t, timeline.Interrupts, r.period, at, d.at(1), 1, dt)
	}
	for _, p := range c.PSI {
		d, dt, ok := x.step("psi "+p.name, at, p.v)
		if !ok {
			continue
		}
		switch p.name {
		case "cpu":
			r.share(t, timeline.PSICPU, r.period, at, d.at(0), 1e-6, dt)
		case "io":
			r.share(t, timeline.PSIIO, r.period, at, d.at(0), 1e-6, dt)
			r.share(t, timeline.PSIIOFull, r.period, at, d.at(1), 1e-6, dt)
		case "mem":
			r.share(t, timeline.PSIMem, r.period, at, d.at(0), 1e-6, dt)
			r.share(t, timeline.PSIMemFull, r.period, at, d.at(1), 1e-6, dt)
		}
	}
	r.scaled(t, timeline.MemFree, at, c.Mem.at(2), 1, 0, big)
	r.scaled(t, timeline.PageCache, at, c.Mem.at(3), 1, 0, big)
	r.scaled(t, timeline.MemDirty, at, c.Mem.at(4), 1, 0, big)
	r.scaled(t, timeline.MemWriteback, at, c.Mem.at(5), 1, 0, big)
	if total, free := c.Mem.at(6), c.Mem.at(7); total.ok && free.ok && free.v <= total.v {
		r.put(t, timeline.SwapUsed, at, float64(total.v-free.v))
	}
	r.hostWide(at, c)
}

const pageBytes = 4096 // of swap counters: the page of the machines that have such GPUs, but for arm64 kernels of 64 KiB

func (r *reader) hostWide(at int64, c *hRec) {
	t, x := r.hostTrack(), &r.hostC
	if len(c.VM) > 0 {
		if d, dt, ok := x.step("vm", at, nums{c.VM.of("swapin"), c.VM.of("swapout"), c.VM.of("majfault"), c.VM.of("numa_miss")}); ok {
			r.rate(t, timeline.SwapIn, r.wide, at, d.at(0), pageBytes, dt)
			r.rate(t, timeline.SwapOut, r.wide, at, d.at(1), pageBytes, dt)
			r.rate(t, timeline.MajorFaults, r.wide, at, d.at(2), 1, dt)
			r.rate(t, timeline.NUMAMisses, r.wide, at, d.at(3), 1, dt)
		}
		r.killed(x, at, c.VM.of("oom"), "on the host")
	}
	if c.Retrans.ok {
		if d, dt, ok := x.step("retrans", at, one(c.Retrans)); ok {
			r.rate(t, timeline.TCPRetrans, r.wide, at, d.at(0), 1, dt)
		}
	}
	for _, p := range c.Dsk {
		k := r.thingOf(r.named, timeline.TrackDisk, p.name)
		if k == nil {
			continue
		}
		d, dt, ok := k.step("", at, p.v)
		if !ok {
			continue
		}
		r.rate(k.track, timeline.DiskReads, r.wide, at, d.at(0), 1, dt)
		r.rate(k.track, timeline.DiskRead, r.wide, at, d.at(1), 1, dt)
		r.rate(k.track, timeline.DiskWrites, r.wide, at, d.at(3), 1, dt)
		r.rate(k.track, timeline.DiskWrite, r.wide, at, d.at(4), 1, dt)
		r.share(k.track, timeline.DiskBusy, r.wide, at, d.at(7), 1e-3, dt)
		r.rate(k.track, timeline.DiskQueue, r.wide, at, d.at(8), 1e-3, dt)
		if n, ms := d.at(0), d.at(2); n.ok && ms.ok && n.v > 0 {
			r.put(k.track, over(timeline.DiskAwaitRd, r.wide), at, float64(ms.v)/1000/float64(n.v))
		}
		if n, ms := d.at(3), d.at(5); n.ok && ms.ok && n.v > 0 {
			r.put(k.track, over(timeline.DiskAwaitWr, r.wide), at, float64(ms.v)/1000/float64(n.v))
		}
	}
	for _, p := range c.Net {
		k := r.thingOf(r.named, timeline.TrackNIC, p.name)
		if k == nil {
			continue
		}
		if d, dt, ok := k.step("", at, p.v); ok {
			r.rate(k.track, timeline.NetRx, r.wide, at, d.at(0), 1, dt)
			r.rate(k.track, timeline.NetTx, r.wide, at, d.at(4), 1, dt)
		}
		r.scaled(k.track, timeline.NetErrors, at, sum(nums{p.v.at(2), p.v.at(3), p.v.at(6), p.v.at(7)}), 1, 0, big)
	}
}

// killed marks that the kernel's count of processes killed for memory rose.
func (r *reader) killed(t *thing, at int64, n num, where string) {
	if n.ok && t.oom.ok && n.v > t.oom.v && !r.again {
		r.b.AddEvent(timeline.MarkOOM, r.hostTrack(), timeline.Time(at), 0, "the kernel killed "+strconv.FormatInt(n.v-t.oom.v, 10)+" processes for memory "+where, r.row)
	}
	if n.ok {
		t.oom = n
	}
}

func (r *reader) hostSlow(at int64, c *hlRec) {
	r.scaled(r.hostTrack(), timeline.CPUClock, at, c.Freq.at(2), 1e3, 0, 1e11)
	r.scaled(r.hostTrack(), timeline.CPUClockMin, at, c.Freq.at(0), 1e3, 0, 1e11)
	for _, n := range c.NUMA {
		if id := n.at(0); id.ok && id.v >= 0 && id.v < maxNamed {
			if k := r.thingOf(r.named, timeline.TrackOther, "node"+strconv.FormatInt(id.v, 10)); k != nil {
				r.scaled(k.track, timeline.NUMAFree, at, n.at(2), 1, 0, big)
			}
		}
	}
	for _, p := range c.Link {
		if k := r.thingOf(r.named, timeline.TrackNIC, p.name); k != nil {
			r.scaled(k.track, timeline.NetState, at, p.v.at(0), 1, 0, 1)
			r.scaled(k.track, timeline.NetSpeed, at, p.v.at(1), 1e6/8, 0, 1e15)
		}
	}
}

func (r *reader) groupOf(id num) *thing {
	if !id.ok || id.v < 0 || id.v >= maxGroup {
		return nil
	}
	g, ok := r.groups[id.v]
	if !ok {
		g = &thing{track: -1}
		if id.v == 0 { // the recorder's own and the command's: what holds for the run
			g.track = r.hostTrack()
		} else {
			g.track = r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackOther, Proc: -1, Device: -1, Thread: -1, Name: "control group " + strconv.FormatInt(id.v, 10)})
		}
		r.groups[id.v] = g
	}
	return g
}

func quotaOf(q nums) (float64, bool) {
	us, period := q.at(0), q.at(1)
	if !us.ok || !period.ok || us.v <= 0 || period.v <= 0 {
		return 0, false
	}
	return float64(us.v) / float64(period.v), true
}

func (r *reader) describeGroup(at int64, c *cgroupRec) {
	g := r.groupOf(c.ID)
	if g == nil {
		return
	}
	if q, ok := quotaOf(c.Quota); ok {
		r.number(g.track, timeline.AttrCPUQuota, q, unit.Count, timeline.Time(at))
	}
	if c.ID.v > 0 {
		r.text(g.track, timeline.AttrCPUSet, string(c.Set), timeline.Time(at))
	}
}

func (r *reader) group(at int64, c *cgRec) {
	g := r.groupOf(c.ID)
	if g == nil {
		return
	}
	q, limited := quotaOf(c.Quota)
	if limited {
		r.put(g.track, timeline.CPUQuota, at, q)
	}
	if d, _, ok := g.step("thr", at, c.Thr); ok && len(c.Thr) > 0 {
		switch n, thr := d.at(0), d.at(1); {
		case n.ok && thr.ok && n.v > 0:
			r.put(g.track, over(timeline.Throttled, r.wide), at, min(float64(thr.v)/float64(n.v), 1))
		case n.ok && thr.ok: // no period of enforcement, or no quota: nothing was throttled
			r.put(g.track, over(timeline.Throttled, r.wide), at, 0)
		}
	}
	r.scaled(g.track, timeline.CgroupMem, at, c.Mem.at(0), 1, 0, big)
	r.scaled(g.track, timeline.CgroupMemMax, at, c.Mem.at(1), 1, 0, big)
	r.killed(g, at, c.OOM, "in control group "+strconv.FormatInt(c.ID.v, 10))
}

func (r *reader) procOf(pid num) *proc {
	if !pid.ok || pid.v <= 0 || pid.v > 1<<31 {
		return nil
	}
	p, ok := r.procs[pid.v]
	if !ok {
		if len(r.procs) >= maxProcs {
			return nil
		}
		p = &proc{start: -1, group: -1}
		p.track = r.b.Track(timeline.Track{Source: r.src, Kind: timeline.TrackProcess, Proc: -1, Device: -1, Thread: pid.v})
		r.procs[pid.v] = p
	}
	return p
}

func (r *reader) describeProc(at int64, c *procRec) {
	p := r.procOf(c.PID)
	if p == nil {
		return
	}
	if p.start >= 0 && c.Start.ok && c.Start.v != p.start { // the pid was given to another
		delete(r.procs, c.PID.v)
		if p = r.procOf(c.PID); p == nil {
			return
		}
	}
	if c.Start.ok {
		p.start = c.Start.v
	}
	t := timeline.Time(at)
	if c.Comm != "" {
		p.comm = string(c.Comm)
		r.b.TL.Tracks[p.track].Name = p.comm
	}
	if c.PPID.ok {
		r.number(p.track, timeline.AttrProcParent, float64(c.PPID.v), unit.Count, t)
	}
	if born, ok := r.since(c.Start); ok {
		r.number(p.track, timeline.AttrProcStart, float64(c.Start.v)/r.hz, unit.Second, born)
	}
	r.text(p.track, timeline.AttrProcCPUs, string(c.CPUs), t)
	r.text(p.track, timeline.AttrProcNodes, string(c.Mems), t)
	if c.Cmd.v {
		r.number(p.track, timeline.AttrProcCommand, 1, unit.Flag, t)
	}
	for _, i := range c.GPU {
		if g, ok := r.gpus[i.v]; i.ok && ok {
			name := g.uuid
			if name == "" {
				name = strconv.FormatInt(i.v, 10)
			}
			r.text(p.track, timeline.AttrProcGPU, name, t)
			if u, ok := g.users[c.PID.v]; ok {
				r.b.TL.Tracks[u.track].Name = p.comm
			}
		}
	}
}

// since gives the instant, on the session's clock, of a number of ticks since boot; false where the session does not know when it booted.
func (r *reader) since(ticks num) (timeline.Time, bool) {
	if len(r.sessions) == 0 || !ticks.ok || ticks.v < 0 || float64(ticks.v)/r.hz > 1e9 {
		return 0, false
	}
	s := &r.sessions[len(r.sessions)-1]
	if s.booted == 0 {
		return 0, false
	}
	at := s.base + s.booted + int64(float64(ticks.v)/r.hz*1e9)
	return timeline.Time(at), at != 0
}

func (r *reader) processes(at int64, c *prRec) {
	for _, row := range c.P {
		p := r.procOf(row.at(0))
		if p == nil {
			continue
		}
		t := p.track
		r.scaled(t, timeline.ProcRSS, at, row.at(3), 1, 0, big)
		r.scaled(t, timeline.ProcThreads, at, row.at(6), 1, 0, 1e9)
		d, dt, ok := p.step("", at, row)
		if !ok {
			continue
		}
		if u, s := d.at(1), d.at(2); u.ok && s.ok {
			r.rate(t, timeline.ProcCPU, r.wide, at, num{u.v + s.v, true}, 1/r.hz, dt)
			r.rate(t, timeline.ProcSystem, r.wide, at, s, 1/r.hz, dt)
		}
		r.rate(t, timeline.ProcRead, r.wide, at, d.at(4), 1, dt)
		r.rate(t, timeline.ProcWrite, r.wide, at, d.at(5), 1, dt)
		r.rate(t, timeline.MajorFaults, r.wide, at, d.at(7), 1, dt)
		r.share(t, timeline.ProcRunWait, r.wide, at, d.at(9), 1e-9, dt)
		r.rate(t, timeline.ProcPreempted, r.wide, at, d.at(11), 1, dt)
		r.share(t, timeline.ProcBlocked, r.wide, at, d.at(12), 1/r.hz, dt)
	}
}

// ibErrors, ibRetries and ibCongestion are which counters of a port count as what.
var (
	ibErrors = []string{"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards", "local_link_integrity_errors",
		"excessive_buffer_overrun_errors"}
	ibRetries    = []string{"out_of_buffer", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "out_of_sequence", "roce_adp_retrans"}
	ibCongestion = []string{"np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets"}
)

func (r *reader) infiniband(at int64, c *ibRec) {
	name := string(c.Dev)
	if name == "" {
		return
	}
	if c.Port.ok {
		name += ":" + strconv.FormatInt(c.Port.v, 10)
	}
	k := r.thingOf(r.named, timeline.TrackNIC, name)
	if k == nil {
		return
	}
	if d, dt, ok := k.step("", at, nums{c.X.of("port_rcv_data"), c.X.of("port_xmit_data"), c.X.of("port_xmit_wait")}); ok {
		r.rate(k.track, timeline.NetRx, r.wide, at, d.at(0), 1, dt)
		r.rate(k.track, timeline.NetTx, r.wide, at, d.at(1), 1, dt)
		r.rate(k.track, timeline.NetWait, r.wide, at, d.at(2), 1, dt)
	}
	for _, x := range []struct {
		m     timeline.Metric
		names []string
	}{{timeline.NetErrors, ibErrors}, {timeline.NetRetries, ibRetries}, {timeline.NetCongestion, ibCongestion}} {
		var n nums
		for _, name := range x.names {
			n = append(n, c.X.of(name))
		}
		r.scaled(k.track, x.m, at, sum(n), 1, 0, big)
	}
	if c.St != "" {
		up := num{0, true}
		if c.St == "ACTIVE" {
			up.v = 1
		}
		r.scaled(k.track, timeline.NetState, at, up, 1, 0, 1)
	}
	if gb, _, ok := strings.Cut(string(c.Rate), " Gb/sec"); ok {
		if v, err := strconv.ParseFloat(strings.TrimSpace(gb), 64); err == nil && v > 0 && v < 1e6 {
			r.put(k.track, timeline.NetSpeed, at, v*1e9/8)
		}
	}
}
