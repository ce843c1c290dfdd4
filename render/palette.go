package render

import "gpureport/ingest/timeline"

// Family is a group of owners that shares a hue; families are in palette order, the one order of every stack, legend and column.
type Family struct {
	Key    string // css class and texture
	Label  string
	Short  string // in table headings
	Owners []timeline.Owner
}

// Families is the palette.
var Families = []Family{
	{"compute", "Compute", "Compute", []timeline.Owner{timeline.Compute}},
	{"gap", "Device gaps", "Gaps", []timeline.Owner{timeline.GapSwitch, timeline.GapQueuedStall}},
	{"launch", "Launch and operators", "Launch", []timeline.Owner{timeline.HostLaunch}},
	{"sync", "Host sync", "Sync", []timeline.Owner{timeline.HostSync}},
	{"python", "Python", "Python", []timeline.Owner{timeline.HostPython, timeline.HostCPUOp, timeline.HostDescheduled}},
	{"alloc", "Allocator, compile", "Alloc.", []timeline.Owner{timeline.HostAllocator, timeline.HostCompile}},
	{"h2d", "Copy to GPU", "To GPU", []timeline.Owner{timeline.CopyH2D}},
	{"d2h", "Copy to host", "To host", []timeline.Owner{timeline.CopyD2H}},
	{"transfer", "Collective transfer", "Transfer", []timeline.Owner{timeline.CommTransfer}},
	{"undivided", "Communication, undivided", "Comm.", []timeline.Owner{timeline.CommUndivided}},
	{"unknown", "Unknown", "Unknown", []timeline.Owner{timeline.UnknownOwner}},
	{"peer", "Waiting for a peer", "Peer wait", []timeline.Owner{timeline.CommPeerWait}},
	{"loader", "DataLoader", "Loader", []timeline.Owner{timeline.HostDataloader}},
	{"pause", "Checkpoint, eval, log", "Checkpoint", []timeline.Owner{timeline.HostCheckpoint, timeline.HostValidation, timeline.HostLogging, timeline.HostProfiler}},
}

var familyOf = func() (f [timeline.NOwners]int) {
	for i, fam := range Families {
		for _, o := range fam.Owners {
			f[o] = i
		}
	}
	return f
}()

// FamilyOf gives the family of an owner by its name; the unknown family for a name nobody knows.
func FamilyOf(owner string) Family {
	o, ok := timeline.ParseOwner(owner)
	if !ok {
		o = timeline.UnknownOwner
	}
	return Families[familyOf[o]]
}

// OwnerWord is the owner in a sentence or a label.
func OwnerWord(o timeline.Owner) string {
	switch o {
	case timeline.GapSwitch:
		return "Gaps between kernels"
	case timeline.GapQueuedStall:
		return "Queued, not started"
	case timeline.HostCPUOp:
		return "CPU operators"
	case timeline.HostDescheduled:
		return "Descheduled thread"
	case timeline.HostAllocator:
		return "Allocator"
	case timeline.HostCompile:
		return "Compile, load"
	case timeline.HostCheckpoint:
		return "Checkpoint"
	case timeline.HostValidation:
		return "Validation"
	case timeline.HostLogging:
		return "Logging"
	case timeline.HostProfiler:
		return "Profiler"
	}
	return Families[familyOf[o]].Label
}

// shortWord is the owner where room is scarce.
func shortWord(o timeline.Owner) string {
	switch o {
	case timeline.Compute:
		return "compute"
	case timeline.GapSwitch:
		return "gaps"
	case timeline.GapQueuedStall:
		return "queued"
	case timeline.HostLaunch:
		return "launch"
	case timeline.HostSync:
		return "host sync"
	case timeline.CopyH2D:
		return "copy to GPU"
	case timeline.CopyD2H:
		return "copy to host"
	case timeline.CommTransfer:
		return "transfer"
	case timeline.CommUndivided:
		return "comm."
	case timeline.CommPeerWait:
		return "peer wait"
	case timeline.UnknownOwner:
		return "unknown"
	}
	return OwnerWord(o)
}
