package ledger

// Kinds of calls as sums of them tell apart.
const (
	CallSync   = "sync"   // waits for the device, blocking copies included
	CallCopy   = "copy"   // queues a copy or a fill
	CallAlloc  = "alloc"  // the driver's allocator
	CallLaunch = "launch" // kernels and graphs
	CallModule = "module" // loads or compiles code
	CallOther  = "other"
)

// Call says by its name what a runtime or driver call does.
func (t *Tables) Call(name string) string {
	switch t.hostName(name).call {
	case callSync, callBlockingCopy:
		return CallSync
	case callCopy, callFill:
		return CallCopy
	case callAlloc:
		return CallAlloc
	case callLaunch:
		return CallLaunch
	case callModule:
		return CallModule
	}
	return CallOther
}
