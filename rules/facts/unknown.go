package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// leastUnknown is the share of the window from which time without an owner is worth a word.
const leastUnknown = 0.01

var (
	gpuUnknownWhy = &Decl{ID: "gpu.unknown_why", Unit: unit.Text, Per: GPU, Capture: "C5",
		Doc: "Why most of the time that no owner could be found for has none."}
	gpuUnknownSays = &Decl{ID: "gpu.unknown_says", Unit: unit.Text, Per: GPU, Capture: "C5",
		Doc: "All reasons for time without an owner that hold 1 % of the analysed window and more, largest first, and what to record so that it has one."}
)

// unknownReason is why a kind of time has no owner, and what would give it one.
type unknownReason struct {
	sub         timeline.Sub
	why, record string
}

var unknownReasons = []unknownReason{
	{timeline.SubMissingEvents, "device events are missing: work was queued while the trace shows an idle GPU, as with CUDA graphs under an old CUPTI or with dropped buffers",
		"record with Nsight Systems and --cuda-graph-trace=node, or with a newer PyTorch and CUDA"},
	{timeline.SubUncorrelated, "the operations that end the gaps have no launch call in the trace, so it does not tell whom the GPU waited for",
		"record host and device together, from before the first launch on"},
	{timeline.SubLag, "operations began long after their launch had returned, on a GPU that shows nothing else to do: another process had it, it was waking up, or events are missing",
		"record all processes with Nsight Systems, and nvidia-smi pmon beside it"},
	{timeline.SubNoOperators, "neither operators nor CPU samples were recorded: what the launching thread did between its calls is not known",
		"record operators with the PyTorch profiler, or CPU samples with nsys profile --sample=process-tree --cpuctxsw=process-tree"},
	{timeline.SubNone, "nothing that was recorded of the host covers it",
		"record the host with Nsight Systems: CPU samples, context switches and calls of the system"},
}

// UnknownReasons: why has some time no owner? From the ledger's sub-owners of unknown. Missing where nearly all of it has one.
var UnknownReasons = &Deriver{
	Name:  "unknown-reasons",
	Gives: []*Decl{gpuUnknownWhy, gpuUnknownSays},
	Run: func(p *Pass) {
		p.eachGPU(func(sub int, _ *Card, l *timeline.GPULedger, _ *timeline.Reduced) {
			if l == nil || l.Window.Empty() {
				p.missAll(sub, noLedger(l), gpuUnknownWhy, gpuUnknownSays)
				return
			}
			why, says := unknownSays(l)
			if says == "" {
				p.missAll(sub, "nearly all of the window has an owner", gpuUnknownWhy, gpuUnknownSays)
				return
			}
			p.Set(gpuUnknownWhy, sub, Value{Text: why, Cover: 1, Conf: timeline.Measured})
			p.Set(gpuUnknownSays, sub, Value{Text: says, Cover: 1, Conf: timeline.Measured})
		})
	},
}

func unknownSays(l *timeline.GPULedger) (why, says string) {
	window := float64(l.Window.Dur())
	ns := make([]int64, len(unknownReasons))
	order := make([]int, len(unknownReasons))
	for i, r := range unknownReasons {
		ns[i], order[i] = subNS(l, timeline.UnknownOwner, r.sub), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ns[b], ns[a]) })
	var parts []string
	for _, i := range order {
		share, r := float64(ns[i])/window, &unknownReasons[i]
		if share < leastUnknown {
			break
		}
		if why == "" {
			why, _, _ = strings.Cut(r.why, ":")
		}
		parts = append(parts, fmt.Sprintf("%.0f %%: %s. To tell: %s", 100*share, r.why, r.record))
	}
	return why, strings.Join(parts, "; ")
}
