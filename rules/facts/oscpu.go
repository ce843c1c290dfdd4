package facts

import (
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuCPUWait = &Decl{ID: "gpu.cpu_wait_frac", Doc: "Share of the GPU's analysed window idle because the launching thread got no CPU: while it was off the CPU with nothing to wait for; " +
		"where context switches were not recorded, at most the launches, operators and Python that the GPU waited for, times the share of readings in which more tasks wanted a CPU than there are.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C5"}
	gpuPinLock = &Decl{ID: "gpu.pin_lock_frac", Doc: "Share of the GPU's analysed window idle while the launching thread waited for a lock and the thread that pins batches was running.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C5"}
	gpuNextCPU = &Decl{ID: "gpu.loader_on_cpu_frac", Doc: "Share of the GPU's analysed window idle while the main thread was inside the loader's next() and running, not waiting for a batch.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C5"}
	gpuPython = &Decl{ID: "gpu.python_state", Doc: "What the launching thread did in most of the idle time charged to Python: running, or waiting for a lock that another thread held.",
		Unit: unit.Text, Per: GPU, Capture: "C5"}
	gpuFrame = &Decl{ID: "gpu.python_frame", Doc: "Function and module in which the main thread was sampled most while the GPU waited for Python.",
		Unit: unit.Text, Per: GPU, Capture: "C5"}
	rankPreempted = &Decl{ID: "rank.preempted_frac", Doc: "Share of the analysed window in which the main thread was off the CPU with nothing to wait for, whether or not the GPU was idle.",
		Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C5"}
	rankPreemptions = &Decl{ID: "rank.preemptions_per_step_count", Doc: "Times per analysed step that the main thread was put off the CPU with nothing to wait for.",
		Unit: unit.Count, Per: Rank, Max: 1e9, Capture: "C5"}
	rankAllocBytes = &Decl{ID: "rank.alloc_per_step_bytes", Doc: "Device memory allocated per step after the first analysed step, as the profiler saw each allocation.",
		Unit: unit.Byte, Per: Rank, Max: 1e18, Capture: "C5"}
)

const noSwitches = "context switches of the launching thread were not recorded"

// SystemView asks what the system shows of the threads that feed a GPU: did they run, wait for one another, or wait for a CPU? The ledger
// divides gaps by it; this gives the shares. Missing where neither context switches nor CPU samples were recorded.
var SystemView = &Deriver{
	Name:  "system-view",
	After: []*Deriver{LedgerShares, HostLoad},
	Gives: []*Decl{gpuCPUWait, gpuPinLock, gpuNextCPU, gpuPython, gpuFrame, rankPreempted, rankPreemptions, rankAllocBytes},
	Run: func(p *Pass) {
		p.eachGPU(p.systemOf)
		p.eachRank(p.preemptedOf)
	},
}

func (p *Pass) systemOf(sub int, _ *Card, l *timeline.GPULedger, r *timeline.Reduced) {
	if l == nil || l.Window.Empty() {
		why := noTrace
		if l != nil {
			why = "the trace holds no device operation in its window"
		}
		p.missAll(sub, why, gpuCPUWait, gpuPinLock, gpuNextCPU, gpuPython, gpuFrame)
		return
	}
	w := float64(l.Window.Dur())
	refs, n := ownerRefs(l, r.Path)
	of := func(o timeline.Owner, ns int64) Value {
		return Value{Num: float64(ns) / w, Cover: 1, Refs: refs[o], NRefs: n[o], Conf: timeline.Measured}
	}
	p.cpuWait(sub, r)
	switch {
	case !r.Rank.Switches && !r.Rank.OSWaits:
		p.Miss(gpuPinLock, sub, "neither context switches nor blocking calls were recorded")
	case r.Rank.PinThread:
		p.Set(gpuPinLock, sub, of(timeline.HostPython, subNS(l, timeline.HostPython, timeline.SubPin)))
	default:
		p.Set(gpuPinLock, sub, measured(0)) // there is no such thread
	}
	if r.Rank.Switches || r.Rank.CPUSamples {
		p.Set(gpuNextCPU, sub, of(timeline.HostDataloader, subNS(l, timeline.HostDataloader, timeline.SubOnCPU)))
	} else {
		p.Miss(gpuNextCPU, sub, noSwitches)
	}
	python := l.Owners[timeline.HostPython]
	running := subNS(l, timeline.HostPython, timeline.SubOnCPU)
	lock := subNS(l, timeline.HostPython, timeline.SubLock) + subNS(l, timeline.HostPython, timeline.SubPin)
	switch {
	case python > 0 && 2*running >= python:
		p.Set(gpuPython, sub, Value{Text: "running", Cover: 1, Conf: timeline.Measured})
	case python > 0 && 2*lock >= python:
		p.Set(gpuPython, sub, Value{Text: "waiting for a lock", Cover: 1, Conf: timeline.Measured})
	case python == 0:
		p.Miss(gpuPython, sub, "the GPU did not wait for Python")
	default:
		p.Miss(gpuPython, sub, noSwitches)
	}
	const enough = 10 // samples
	switch t := &r.Rank; {
	case !t.CPUSamples:
		p.Miss(gpuFrame, sub, "CPU samples of the launching thread were not recorded")
	case t.Frame == "" || t.FrameSamples < enough:
		p.Miss(gpuFrame, sub, "the main thread was hardly sampled while the GPU waited for Python")
	default:
		p.Set(gpuFrame, sub, Value{Text: t.Frame, Cover: 1, Conf: timeline.Measured})
	}
}

// cpuWait is measured by context switches, else bounded by the host's run queue.
func (p *Pass) cpuWait(sub int, r *timeline.Reduced) {
	if v, ok := p.Get(gpuOwner[timeline.HostDescheduled], sub); ok {
		p.Set(gpuCPUWait, sub, v)
		return
	}
	host := p.Facts.Subjects[sub].Up
	for host >= 0 && p.Facts.Subjects[host].Kind != Host {
		host = p.Facts.Subjects[host].Up
	}
	if host >= 0 {
		if over, ok := p.Get(hostCrowded, host); ok {
			launch, _ := p.Get(gpuOwner[timeline.HostLaunch], sub)
			python, _ := p.Get(gpuOwner[timeline.HostPython], sub)
			op, _ := p.Get(gpuOwner[timeline.HostCPUOp], sub)
			over.Num = min(1, over.Num*(launch.Num+python.Num+op.Num))
			over.Conf = min(over.Conf, timeline.Inferred)
			p.Set(gpuCPUWait, sub, over)
			return
		}
	}
	p.Miss(gpuCPUWait, sub, noSwitches)
}

func (p *Pass) preemptedOf(sub int, r *timeline.Reduced) {
	l := mainGPU(r)
	if l == nil || l.Window.Empty() {
		p.missAll(sub, "the trace holds no device operation", rankPreempted, rankPreemptions, rankAllocBytes)
		return
	}
	t := &r.Rank
	steps := float64(len(l.Steps))
	refs, _ := rowRefs(r, t.PreemptedRows)
	if !t.Switches {
		p.missAll(sub, noSwitches, rankPreempted, rankPreemptions)
	} else {
		v := Value{Num: min(1, float64(t.PreemptedNS)/float64(l.Window.Dur())), Cover: 1, Refs: refs, NRefs: int(t.Preemptions), Conf: timeline.Measured}
		p.Set(rankPreempted, sub, v)
		if steps == 0 {
			p.Miss(rankPreemptions, sub, noSteps)
		} else {
			v.Num = float64(t.Preemptions) / steps
			p.Set(rankPreemptions, sub, v)
		}
	}
	switch {
	case !t.MemoryEvents:
		p.Miss(rankAllocBytes, sub, "allocations of device memory were not recorded, or there were none")
	case steps < 2:
		p.Miss(rankAllocBytes, sub, "fewer than two steps were analysed, and allocation is normal in the first")
	default:
		p.Set(rankAllocBytes, sub, measured(float64(t.MemoryAllocBytes)/(steps-1)))
	}
}
