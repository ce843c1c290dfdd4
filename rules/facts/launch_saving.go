package facts

import (
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// switchNS is what a GPU takes between two queued kernels of a stream: the median on an A100. It is left when launching costs nothing.
const switchNS = 1200

var gpuSaveLaunch = &Decl{ID: "gpu.save_launch_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
	Doc: "Step time that faster launches could return at most: the time idle for a launch, less the 1.2 us that the GPU itself takes between two operations, where those are not counted as switching already."}

// LaunchSaving asks what launching ahead of the GPU returns.
var LaunchSaving = &Deriver{
	Name:  "launch-saving",
	After: []*Deriver{LedgerShares},
	Gives: []*Decl{gpuSaveLaunch},
	Run: func(p *Pass) {
		p.eachGPU(func(sub int, _ *Card, l *timeline.GPULedger, _ *timeline.Reduced) {
			v, ok := p.Get(gpuOwner[timeline.HostLaunch], sub)
			if !ok {
				p.Miss(gpuSaveLaunch, sub, noTrace)
				return
			}
			between := l.Ops*switchNS - l.Owners[timeline.GapSwitch]
			v.Num = max(0, v.Num-float64(max(0, between))/float64(l.Window.Dur()))
			p.Set(gpuSaveLaunch, sub, v)
		})
	},
}
