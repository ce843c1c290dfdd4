package timeline

// Owner holds a piece of a GPU's time; every nanosecond of a ledger has exactly one.
type Owner uint8

// Owners in palette order, the order of every stack, legend and workbook column.
const (
	Compute Owner = iota
	GapSwitch
	GapQueuedStall
	HostLaunch
	HostSync
	HostPython
	HostCPUOp
	HostDescheduled
	HostAllocator
	HostCompile
	CopyH2D
	CopyD2H
	CommTransfer
	CommUndivided
	UnknownOwner
	CommPeerWait
	HostDataloader
	HostCheckpoint
	HostValidation
	HostLogging
	HostProfiler
	NOwners
)

var ownerNames = [NOwners]string{"compute", "gap.switch", "gap.queued-stall", "host.launch", "host.sync", "host.python", "host.cpu-op",
	"host.descheduled", "host.allocator", "host.compile", "copy.h2d", "copy.d2h", "comm.transfer", "comm.undivided", "unknown",
	"comm.peer-wait", "host.dataloader", "host.checkpoint", "host.validation", "host.logging", "host.profiler"}

func (o Owner) String() string {
	if o < NOwners {
		return ownerNames[o]
	}
	return "invalid"
}

// ParseOwner is the inverse of String.
func ParseOwner(s string) (Owner, bool) {
	for i, n := range ownerNames {
		if n == s {
			return Owner(i), true
		}
	}
	return 0, false
}

// Owners holds ns by owner.
type Owners [NOwners]int64

// Sum is the total in ns.
func (o *Owners) Sum() int64 {
	var t int64
	for _, v := range o {
		t += v
	}
	return t
}

// Add adds p to o.
func (o *Owners) Add(p *Owners) {
	for i, v := range p {
		o[i] += v
	}
}
