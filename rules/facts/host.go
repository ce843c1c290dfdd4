package facts

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

func hostDecl(id ID, u unit.Unit, most float64, doc string) *Decl {
	return &Decl{ID: id, Doc: doc, Unit: u, Per: Host, Max: most, Capture: "C6"}
}

var (
	hostCPUs     = hostDecl("host.cpus_count", unit.Count, 1e5, "CPUs of the host.")
	hostBusy     = hostDecl("host.cpu_busy_frac", unit.Frac, 1, "Mean share of the CPUs' time in which they computed.")
	hostSystem   = hostDecl("host.cpu_system_frac", unit.Frac, 1, "Mean share of the CPUs' time spent in the kernel.")
	hostIOWait   = hostDecl("host.cpu_iowait_frac", unit.Frac, 1, "Mean share of the CPUs' time in which they idled while a disk was waited for.")
	hostIOPeak   = hostDecl("host.cpu_iowait_p95_frac", unit.Frac, 1, "95th percentile of the readings of iowait.")
	hostSteal    = hostDecl("host.cpu_steal_frac", unit.Frac, 1, "Mean share of the CPUs' time that the hypervisor gave to others.")
	hostOneFull  = hostDecl("host.cpu_full_count", unit.Count, 1e5, "CPUs that were busy 90 % of the time or more, on average.")
	hostCrowded  = hostDecl("host.run_queue_over_frac", unit.Frac, 1, "Share of readings in which more tasks wanted a CPU than there are; where the job may use fewer than the host has, in which its own processes used and waited for more than those.")
	hostQueue    = hostDecl("host.run_queue_per_cpu_count", unit.Count, 1e6, "Mean tasks that run or could, per CPU; of the job alone, per CPU that it may use, where that is more.")
	hostPSICPU   = hostDecl("host.psi_cpu_frac", unit.Frac, 1, "Mean share of time in which some task waited for a CPU, as the kernel's pressure figures say.")
	hostPSIIO    = hostDecl("host.psi_io_frac", unit.Frac, 1, "Mean share of time in which some task waited for a disk, as the kernel's pressure figures say.")
	hostThrottle = hostDecl("host.cpu_throttled_frac", unit.Frac, 1, "Mean share of the quota's periods in which the control group was out of CPU time.")
	hostQuota    = hostDecl("host.cpu_quota_count", unit.Count, 1e5, "CPUs that the control group and the affinity of the processes that use the GPUs allow; the host's CPUs where neither is less.")
	hostWanted   = hostDecl("host.cpus_wanted_count", unit.Count, 1e6, "CPUs that the run's processes need at least: one a DataLoader worker and two a rank.")
	hostDisk     = hostDecl("host.disk_busy_frac", unit.Frac, 1, "Mean share of time in which the busiest disk had a request in flight.")
	hostDiskName = hostDecl("host.disk", unit.Text, 0, "The busiest disk.")
	hostAwait    = hostDecl("host.disk_read_await_s", unit.Second, 1e6, "Mean time a read of the busiest disk took.")
	hostReads    = hostDecl("host.disk_read_bytes_per_s", unit.BytePerSecond, 1e13, "Mean rate read from all disks together.")
	hostWrites   = hostDecl("host.disk_write_bytes_per_s", unit.BytePerSecond, 1e13, "Mean rate written to all disks together.")
	hostReadFall = hostDecl("host.disk_read_fall_frac", unit.Frac, 1, "How far the rate read from disks fell from the first third of the readings to the last, out of the first.")
	hostBlocked  = hostDecl("host.blocked_frac", unit.Frac, 1, "Share of readings in which a task waited for a disk (state D).")
	hostWorkers  = hostDecl("host.workers_count", unit.Count, 1e6, "Processes at one time that look like DataLoader workers: named so, or of the command that uses the GPUs without using one.")
	hostWorkCPU  = hostDecl("host.workers_full_frac", unit.Frac, 1, "Share of the workers that kept 90 % of a CPU or more busy, on average.")
	hostWorkIO   = hostDecl("host.worker_io_frac", unit.Frac, 1, "Mean share of time in which a worker waited for a disk.")
	hostThreads  = hostDecl("host.threads_per_cpu_count", unit.Count, 1e6, "Threads of the workers and of the processes that use the GPUs, per CPU.")
)

// HostLoad asks what the host's own readings say: CPUs, run queue, pressure, quota, disks, and the processes that look like DataLoader
// workers. Of several sources of one metric the one with most readings counts. Missing where nothing of the host was recorded.
var HostLoad = &Deriver{Name: "host-load",
	Gives: []*Decl{hostCPUs, hostBusy, hostSystem, hostIOWait, hostIOPeak, hostSteal, hostOneFull, hostCrowded, hostQueue, hostPSICPU, hostPSIIO, hostThrottle, hostQuota, hostWanted,
		hostDisk, hostDiskName, hostAwait, hostReads, hostWrites, hostReadFall, hostBlocked, hostWorkers, hostWorkCPU, hostWorkIO, hostThreads},
	Run: func(p *Pass) {
		for _, sub := range p.Facts.Of(Host) {
			p.hostOf(sub)
		}
	}}

// hostSeries gives the readings of a metric of one kind of part of a host, inside the window: one a part, by the part's name.
func (p *Pass) hostSeries(sub int, kind timeline.TrackKind, m timeline.Metric) []hostSeries {
	var out []hostSeries
	for i := range p.Base.Series {
		s := &p.Base.Series[i]
		tr := &p.Base.Tracks[s.Track]
		if tr.Kind != kind || s.Metric.Name != m.Name || !p.onHost(sub, tr.Source) {
			continue
		}
		cut := cutSeries(p.Input, s)
		if len(cut.At) == 0 {
			continue
		}
		part := hostSeries{name: tr.Name, thread: tr.Thread, track: s.Track, s: cut}
		k := sort.Search(len(out), func(k int) bool { return !out[k].before(&part) })
		switch {
		case k < len(out) && !part.before(&out[k]):
			if len(cut.At) > len(out[k].s.At) {
				out[k] = part
			}
		default:
			out = append(out[:k], append([]hostSeries{part}, out[k:]...)...)
		}
	}
	return out
}

type hostSeries struct {
	name   string
	thread int64
	track  timeline.TrackID
	s      timeline.Series
}

func (a *hostSeries) before(b *hostSeries) bool {
	if a.thread != b.thread {
		return a.thread < b.thread
	}
	return a.name < b.name && a.thread == -1 // processes and CPUs have numbers, disks and ports names
}

// whole gives the readings of the host itself; nil: none.
func (p *Pass) whole(sub int, m timeline.Metric) *timeline.Series {
	var best *timeline.Series
	for _, h := range p.hostSeries(sub, timeline.TrackHostReadings, m) {
		if best == nil || len(h.s.At) > len(best.At) {
			best = &h.s
		}
	}
	return best
}

func (p *Pass) noHost(what string) string {
	for i := range p.Base.Tracks {
		switch p.Base.Tracks[i].Kind {
		case timeline.TrackHostReadings, timeline.TrackCPU, timeline.TrackDisk, timeline.TrackProcess:
			return "no source of this host holds " + what
		}
	}
	return "nothing of the host was recorded"
}

func (p *Pass) hostOf(sub int) {
	meanOf := func(d *Decl, m timeline.Metric, what string) {
		s := p.whole(sub, m)
		if s == nil {
			p.Miss(d, sub, p.noHost(what))
			return
		}
		p.Set(d, sub, p.sampled(s, min(d.Max, max(0, mean(s.Value)))))
	}
	cpus, hasCPUs := p.cpusOf(sub)
	if hasCPUs {
		p.Set(hostCPUs, sub, cpus)
	} else {
		p.Miss(hostCPUs, sub, p.noHost("the number of CPUs"))
	}
	meanOf(hostBusy, timeline.CPUBusy, "CPU use")
	meanOf(hostSystem, timeline.CPUSystem, "CPU use in the kernel")
	meanOf(hostIOWait, timeline.CPUIOWait, "iowait")
	meanOf(hostSteal, timeline.CPUSteal, "steal")
	meanOf(hostPSICPU, timeline.PSICPU, "pressure on CPUs")
	meanOf(hostPSIIO, timeline.PSIIO, "pressure on disks")
	meanOf(hostThrottle, timeline.Throttled, "throttling of its control group")
	if s := p.whole(sub, timeline.CPUIOWait); s != nil {
		p.Set(hostIOPeak, sub, p.sampled(s, quantile(s.Value, 0.95)))
	} else {
		p.Miss(hostIOPeak, sub, p.noHost("iowait"))
	}
	if each := p.hostSeries(sub, timeline.TrackCPU, timeline.CPUBusy); len(each) > 0 {
		v := p.sampled(&each[0].s, 0)
		for i := range each {
			if mean(each[i].s.Value) >= 0.9 {
				v.Num++
			}
		}
		p.Set(hostOneFull, sub, v)
	} else {
		p.Miss(hostOneFull, sub, p.noHost("the use of each CPU"))
	}
	quota := p.quotaOf(sub, cpus, hasCPUs)
	p.runQueue(sub, cpus.Num, hasCPUs)
	p.jobQueue(sub, quota, cpus.Num)
	p.disksOf(sub)
	p.workersOf(sub, quota, cpus.Num, hasCPUs)
}

// cpusOf counts the CPUs: as stated, else those that have readings of their own.
func (p *Pass) cpusOf(sub int) (Value, bool) {
	if a, ok := p.hostAttr(sub, timeline.AttrHostCPUs); ok && a.Value > 0 {
		return Value{Num: a.Value, Cover: 1, Conf: timeline.Measured, Refs: p.attrRef(&a), NRefs: 1}, true
	}
	each := p.hostSeries(sub, timeline.TrackCPU, timeline.CPUBusy)
	if len(each) == 0 {
		return Value{}, false
	}
	return p.sampled(&each[0].s, float64(len(each))), true
}

func (p *Pass) hostAttr(sub int, name string) (timeline.Attr, bool) {
	return p.attrWhere(name, func(tr *timeline.Track) bool {
		return tr.Kind == timeline.TrackHostReadings && p.onHost(sub, tr.Source)
	})
}

func (p *Pass) runQueue(sub int, cpus float64, known bool) {
	s := p.whole(sub, timeline.RunQueue)
	switch {
	case s == nil:
		p.missAll(sub, p.noHost("the run queue"), hostCrowded, hostQueue)
	case !known:
		p.missAll(sub, p.noHost("the number of CPUs"), hostCrowded, hostQueue)
	default:
		p.Set(hostCrowded, sub, p.shareOf(s, func(_ int, v float64) bool { return v > cpus }))
		p.Set(hostQueue, sub, p.sampled(s, mean(s.Value)/cpus))
	}
	if s := p.whole(sub, timeline.Blocked); s != nil {
		p.Set(hostBlocked, sub, p.shareOf(s, func(_ int, v float64) bool { return v > 0 }))
	} else {
		p.Miss(hostBlocked, sub, p.noHost("tasks that wait for a disk"))
	}
}

// quotaOf gives the CPUs that the run may use, by its control group and by the affinity of its processes; 0 unknown.
func (p *Pass) quotaOf(sub int, cpus Value, known bool) float64 {
	quota := p.groupQuota(sub, cpus, known)
	bound, ok := p.affinity(sub)
	if !ok || quota > 0 && bound.Num >= quota || quota == 0 && known && bound.Num >= cpus.Num {
		return quota
	}
	p.Set(hostQuota, sub, bound)
	return bound.Num
}

func (p *Pass) groupQuota(sub int, cpus Value, known bool) float64 {
	if s := p.whole(sub, timeline.CPUQuota); s != nil {
		i := argMin(s.Value)
		p.Set(hostQuota, sub, p.sampled(s, s.Value[i]))
		return s.Value[i]
	}
	if a, ok := p.hostAttr(sub, timeline.AttrCPUQuota); ok && a.Value > 0 {
		p.Set(hostQuota, sub, Value{Num: a.Value, Cover: 1, Conf: timeline.Measured, Refs: p.attrRef(&a), NRefs: 1})
		return a.Value
	}
	if a, ok := p.hostAttr(sub, timeline.AttrCPUSet); ok {
		if set := parseCPUs(a.Text); len(set) > 0 {
			p.Set(hostQuota, sub, Value{Num: float64(len(set)), Cover: 1, Conf: timeline.Measured, Refs: p.attrRef(&a), NRefs: 1})
			return float64(len(set))
		}
	}
	if s := p.whole(sub, timeline.Throttled); s != nil && known {
		p.Set(hostQuota, sub, cpus) // the group was read and states no quota
		return cpus.Num
	}
	p.Miss(hostQuota, sub, p.noHost("the quota of its control group"))
	return 0
}

func (p *Pass) disksOf(sub int) {
	busy := p.hostSeries(sub, timeline.TrackDisk, timeline.DiskBusy)
	if len(busy) == 0 {
		p.missAll(sub, p.noHost("the use of disks"), hostDisk, hostDiskName, hostAwait)
	} else {
		top := 0
		for i := range busy {
			if mean(busy[i].s.Value) > mean(busy[top].s.Value) {
				top = i
			}
		}
		p.Set(hostDisk, sub, p.sampled(&busy[top].s, min(1, mean(busy[top].s.Value))))
		p.Set(hostDiskName, sub, Value{Text: busy[top].name, Cover: 1, Conf: timeline.Measured})
		await := ""
		for _, a := range p.hostSeries(sub, timeline.TrackDisk, timeline.DiskAwaitRd) {
			if a.name == busy[top].name {
				await = a.name
				p.Set(hostAwait, sub, p.sampled(&a.s, mean(a.s.Value)))
			}
		}
		if await == "" {
			p.Miss(hostAwait, sub, p.noHost("how long a read took"))
		}
	}
	reads := p.hostSeries(sub, timeline.TrackDisk, timeline.DiskRead)
	p.sumOf(hostReads, sub, reads, "what was read from disks")
	p.sumOf(hostWrites, sub, p.hostSeries(sub, timeline.TrackDisk, timeline.DiskWrite), "what was written to disks")
	early, late, n := 0.0, 0.0, 0
	for i := range reads {
		if v := reads[i].s.Value; len(v) >= 9 {
			early += mean(v[:len(v)/3])
			late += mean(v[len(v)-len(v)/3:])
			n++
		}
	}
	switch {
	case n == 0 && len(reads) > 0:
		p.Miss(hostReadFall, sub, "fewer than nine readings of the disks")
	case n == 0:
		p.Miss(hostReadFall, sub, p.noHost("what was read from disks"))
	default:
		v := p.sampled(&reads[0].s, 0)
		if early > 0 {
			v.Num = max(0, 1-late/early)
		}
		p.Set(hostReadFall, sub, v)
	}
}

// sumOf sets d to the sum of the parts' means. A partition is part of its disk: sda1 beside sda is left out.
func (p *Pass) sumOf(d *Decl, sub int, parts []hostSeries, what string) {
	if len(parts) == 0 {
		p.Miss(d, sub, p.noHost(what))
		return
	}
	sum := 0.0
	for i := range parts {
		if !isPartition(parts[i].name, parts) {
			sum += mean(parts[i].s.Value)
		}
	}
	p.Set(d, sub, p.sampled(&parts[0].s, sum))
}

func isPartition(name string, all []hostSeries) bool {
	for i := range all {
		base := all[i].name
		if rest, ok := strings.CutPrefix(name, base); ok && rest != "" && strings.Trim(strings.TrimPrefix(rest, "p"), "0123456789") == "" {
			return true
		}
	}
	return false
}

// loaders finds the processes of a host that look like DataLoader workers. PyTorch names them pt_data_worker; where only the command is known,
// those of the same command as a process that uses a GPU, that use none themselves, count. mains are those that use one.
func (p *Pass) loaders(sub int) (procs, workers []hostSeries, onGPU map[int64]bool, mains int) {
	procs = p.hostSeries(sub, timeline.TrackProcess, timeline.ProcCPU)
	onGPU = map[int64]bool{}
	for _, r := range p.Job.Ranks {
		if r.Process.PID > 0 {
			onGPU[r.Process.PID] = true
		}
	}
	for i := range p.Base.Attrs {
		a := &p.Base.Attrs[i]
		if tr := &p.Base.Tracks[a.Track]; a.Name == timeline.AttrProcGPU && tr.Kind == timeline.TrackProcess && p.onHost(sub, tr.Source) {
			onGPU[tr.Thread] = true
		}
	}
	for i := range p.Base.Series {
		s := &p.Base.Series[i]
		tr := &p.Base.Tracks[s.Track]
		if tr.Kind == timeline.TrackProcess && (s.Metric.Name == timeline.ProcGPUMem.Name || s.Metric.Name == timeline.ProcSMBusy.Name) && p.onHost(sub, tr.Source) {
			onGPU[tr.Thread] = true
		}
	}
	commands := map[string]bool{}
	for i := range procs {
		if onGPU[procs[i].thread] {
			mains++
			commands[procs[i].name] = true
		}
	}
	for i := range procs {
		h := procs[i]
		named := strings.HasPrefix(h.name, "pt_data_worker") || strings.Contains(h.name, "DataLoader")
		if !onGPU[h.thread] && (named || commands[h.name] && mean(h.s.Value) >= 0.05) {
			workers = append(workers, h)
		}
	}
	return procs, workers, onGPU, mains
}

// atOnce is how many of the processes live at one time at most, by their readings: a loader that makes its workers anew has many in all.
func atOnce(procs []hostSeries) int {
	most := 0
	for i := range procs {
		n, at := 0, procs[i].s.At[0]
		for k := range procs {
			if s := procs[k].s.At; s[0] <= at && at <= s[len(s)-1] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// workersOf says what the DataLoader's workers of a host do.
func (p *Pass) workersOf(sub int, quota, cpus float64, known bool) {
	procs, workers, onGPU, mains := p.loaders(sub)
	all := []*Decl{hostWorkers, hostWorkCPU, hostWorkIO, hostThreads, hostWanted}
	if len(procs) == 0 {
		p.missAll(sub, p.noHost("processes"), all...)
		return
	}
	live := atOnce(workers)
	v := p.sampled(&procs[0].s, float64(live))
	if mains == 0 && len(workers) == 0 {
		p.missAll(sub, "no process that was recorded is known to use a GPU, so its workers cannot be told", all...)
		return
	}
	v.Conf = timeline.Inferred
	p.Set(hostWorkers, sub, v)
	v.Num = float64(live + 2*max(mains, 1))
	p.Set(hostWanted, sub, v)
	threads := map[int64]float64{}
	for _, h := range p.hostSeries(sub, timeline.TrackProcess, timeline.ProcThreads) {
		threads[h.thread] = mean(h.s.Value)
	}
	sum, have := 0.0, false
	count := func(pid int64) {
		if n, ok := threads[pid]; ok {
			sum += n
			have = true
		}
	}
	for i := range procs {
		if onGPU[procs[i].thread] {
			count(procs[i].thread)
		}
	}
	others := sum
	for i := range workers {
		count(workers[i].thread)
	}
	if live < len(workers) {
		sum = others + (sum-others)*float64(live)/float64(len(workers))
	}
	may := cpus
	if quota > 0 {
		may = quota
	}
	switch {
	case !have:
		p.Miss(hostThreads, sub, p.noHost("the threads of processes"))
	case !known && quota == 0:
		p.Miss(hostThreads, sub, p.noHost("the number of CPUs"))
	default:
		v.Num = sum / may
		p.Set(hostThreads, sub, v)
	}
	if len(workers) == 0 {
		p.missAll(sub, "no process that looks like a DataLoader worker was recorded", hostWorkCPU, hostWorkIO)
		return
	}
	full := 0
	for i := range workers {
		if mean(workers[i].s.Value) >= 0.9 {
			full++
		}
	}
	v.Num = float64(full) / float64(len(workers))
	p.Set(hostWorkCPU, sub, v)
	waits, n := 0.0, 0
	for _, h := range p.hostSeries(sub, timeline.TrackProcess, timeline.ProcBlocked) {
		for i := range workers {
			if workers[i].thread == h.thread {
				waits += mean(h.s.Value)
				n++
			}
		}
	}
	if n == 0 {
		p.Miss(hostWorkIO, sub, p.noHost("how long its processes waited for disks"))
		return
	}
	v.Num = min(1, waits/float64(n))
	p.Set(hostWorkIO, sub, v)
}

var (
	gpuIORho   = &Decl{ID: "gpu.iowait_rho_frac", Doc: "Rank correlation of the host's iowait with this GPU's idleness (1 - utilisation), at the lag of at most five samples where it is strongest; readings that differ by less than a tenth of what the curve spans count as equal.", Unit: unit.Frac, Per: GPU, Min: -1, Max: 1, Capture: "C6"}
	gpuIOLag   = &Decl{ID: "gpu.iowait_lead_s", Doc: "How long iowait goes before the GPU's idleness at the strongest correlation; negative: it follows.", Unit: unit.Second, Per: GPU, Min: -1e6, Max: 1e6, Capture: "C6"}
	gpuIONoise = &Decl{ID: "gpu.iowait_noise_frac", Doc: "Correlation that two unrelated curves of this length and smoothness can reach: 3 / square root of the effective number of samples.", Unit: unit.Frac, Per: GPU, Max: 10, Capture: "C6"}
	gpuSignals = &Decl{ID: "gpu.cosignals", Doc: "Curves that move with the GPU's idleness beyond chance, strongest first: correlation and lead of each.", Unit: unit.Text, Per: GPU, Capture: "C6"}
)

// CoSignals asks which other curves move with the GPU's dips: iowait, CPU use, disks, PCIe receive, power. Spearman's rank correlation on
// the utilisation's own stamps at lags of -5 to 5 samples, where what a curve wobbles by counts as equal, or the wobble of the sound readings
// would hide the dips; the effective number of samples is cut by both curves' autocorrelation.
// Correlation is no cause: a curve that follows the dips is their effect.
var CoSignals = &Deriver{Name: "co-signals", Gives: []*Decl{gpuIORho, gpuIOLag, gpuIONoise, gpuSignals}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) { p.coSignals(sub, c) })
}}

const (
	maxLag    = 5
	rhoStrong = 0.5
)

func (p *Pass) coSignals(sub int, c *Card) {
	util := p.series(c, timeline.SMBusy)
	if util == nil {
		p.missAll(sub, p.noMetric(c, "utilisation"), gpuIORho, gpuIOLag, gpuIONoise, gpuSignals)
		return
	}
	host := p.Facts.holder(sub, Host)
	type signal struct {
		name string
		s    *timeline.Series
	}
	list := []signal{{"PCIe receive", p.series(c, timeline.PCIeRx)}, {"power", p.series(c, timeline.Power)}}
	if host >= 0 {
		list = append(list, signal{"iowait", p.whole(host, timeline.CPUIOWait)}, signal{"CPU use", p.whole(host, timeline.CPUBusy)}, signal{"pressure on disks", p.whole(host, timeline.PSIIO)})
		for _, d := range p.hostSeries(host, timeline.TrackDisk, timeline.DiskBusy) {
			list = append(list, signal{"disk " + d.name, &d.s})
		}
	}
	type found struct {
		name string
		c    correlation
	}
	var strong []found
	compared, ioDone := 0, false
	for _, sig := range list {
		if sig.s == nil {
			continue
		}
		r, why := p.correlate(util, sig.s)
		if sig.name == "iowait" {
			ioDone = true
			if why != "" {
				p.missAll(sub, why, gpuIORho, gpuIOLag, gpuIONoise)
			} else {
				v := p.sampled(sig.s, r.rho)
				v.Conf = timeline.Inferred
				p.Set(gpuIORho, sub, v)
				v.Num = r.lead
				p.Set(gpuIOLag, sub, v)
				v.Num = r.noise
				p.Set(gpuIONoise, sub, v)
			}
		}
		if why != "" {
			continue
		}
		compared++
		if math.Abs(r.rho) >= rhoStrong && math.Abs(r.rho) > r.noise {
			strong = append(strong, found{sig.name, r})
		}
	}
	if !ioDone {
		p.missAll(sub, p.noHost("iowait"), gpuIORho, gpuIOLag, gpuIONoise)
	}
	if compared == 0 {
		p.Miss(gpuSignals, sub, "no other curve can be compared with the utilisation")
		return
	}
	sort.SliceStable(strong, func(i, j int) bool { return math.Abs(strong[i].c.rho) > math.Abs(strong[j].c.rho) })
	var words []string
	for _, f := range strong {
		dir := "rises"
		if f.c.rho < 0 {
			dir = "falls"
		}
		when := "with the dips"
		switch {
		case f.c.lead > 0:
			when = fmt.Sprintf("%.3g s before the dips", f.c.lead)
		case f.c.lead < 0:
			when = fmt.Sprintf("%.3g s after the dips", -f.c.lead)
		}
		words = append(words, fmt.Sprintf("%s %s %s (correlation %.2f)", f.name, dir, when, math.Abs(f.c.rho)))
	}
	text := strings.Join(words, "; ")
	if text == "" {
		text = "none moves with the dips beyond chance"
	}
	p.Set(gpuSignals, sub, Value{Text: text, Cover: p.cover(util), Conf: timeline.Inferred})
}

// correlation is the strongest rank correlation of a curve with idleness.
type correlation struct {
	rho   float64 // of the curve with 1 - utilisation
	lead  float64 // seconds by which the curve goes before
	noise float64
}

func (p *Pass) correlate(util, other *timeline.Series) (best correlation, why string) {
	pair := p.paired(util, other)
	step := spacing(util)
	if step <= 0 {
		return best, tooFew(len(util.At))
	}
	idle := make([]float64, len(util.Value))
	for i, v := range util.Value {
		idle[i] = 1 - v
	}
	idle = coarse(idle)
	curve := coarse(other.Value)
	got := false
	for lag := -maxLag; lag <= maxLag; lag++ { // lag > 0: the other curve lag samples earlier
		var x, y []float64
		for i := range util.At {
			if j := i - lag; j >= 0 && j < len(pair) && pair[j] >= 0 {
				x, y = append(x, idle[i]), append(y, curve[pair[j]])
			}
		}
		if len(x) < minSamples {
			continue
		}
		rho, ok := spearman(x, y)
		if !ok {
			return best, "one of the two curves does not move"
		}
		rx, ry := lagOne(x), lagOne(y)
		n := float64(len(x)) * (1 - rx*ry) / (1 + rx*ry)
		if !got || math.Abs(rho) > math.Abs(best.rho)+1e-12 || math.Abs(rho) > math.Abs(best.rho)-1e-12 && lag == 0 {
			got = true
			best = correlation{rho: rho, lead: float64(lag) * step.Seconds(), noise: min(10, 3/math.Sqrt(max(n, 0.09)))}
		}
	}
	if !got {
		return best, "fewer than " + fmt.Sprint(minSamples) + " readings of both curves lie at the same time"
	}
	return best, ""
}

// spearman is the rank correlation; ok is false where a curve is flat.
func spearman(x, y []float64) (rho float64, ok bool) {
	a, b := ranks(x), ranks(y)
	ma, mb := mean(a), mean(b)
	var sab, saa, sbb float64
	for i := range a {
		sab += (a[i] - ma) * (b[i] - mb)
		saa += (a[i] - ma) * (a[i] - ma)
		sbb += (b[i] - mb) * (b[i] - mb)
	}
	if saa == 0 || sbb == 0 {
		return 0, false
	}
	return max(-1, min(1, sab/math.Sqrt(saa*sbb))), true
}

// coarse rounds to tenths of the span from the 5th to the 95th percentile; a curve without such a span stays as it is.
func coarse(x []float64) []float64 {
	low, high := quantile(x, 0.05), quantile(x, 0.95)
	if high <= low {
		return x
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Round((v - low) / (high - low) * 10)
	}
	return out
}

// ranks gives each value its place; equal ones share the mean of theirs.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return x[order[i]] < x[order[j]] })
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			out[order[k]] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}

// lagOne is the autocorrelation at one sample, within [0, 0.99].
func lagOne(x []float64) float64 {
	m := mean(x)
	var num, den float64
	for i, v := range x {
		den += (v - m) * (v - m)
		if i > 0 {
			num += (v - m) * (x[i-1] - m)
		}
	}
	if den == 0 {
		return 0
	}
	return max(0, min(0.99, num/den))
}
