package facts

import (
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuTokenize = &Decl{ID: "gpu.tokenize_frac", Doc: "Share of the GPU's analysed window idle while the main thread turned text into tokens: in operators, ranges and Python frames that are named so and launch nothing.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuTokenizeName = &Decl{ID: "gpu.tokenize_name", Doc: "The operator, range or Python frame in which the main thread was longest for that.", Unit: unit.Text, Per: GPU, Capture: "C4"}
	gpuCollect      = &Decl{ID: "gpu.gc_frac", Doc: "Share of the GPU's analysed window idle while the main thread was inside a garbage collection, as Python frames and ranges show it; collections that the interpreter begins by itself leave no frame.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
	gpuCollectCount = &Decl{ID: "gpu.gc_count", Doc: "Garbage collections of the main thread in the analysed window, as Python frames and ranges show them.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C4"}
	gpuCollectMax   = &Decl{ID: "gpu.gc_max_s", Doc: "The longest of those collections.", Unit: unit.Second, Per: GPU, Max: 1e6, Capture: "C4"}
)

// MainThread asks for two things that a trace shows by name alone: a tokenizer and a garbage collection on the thread that launches. What
// was recorded without Python stacks and shows neither is Missing; of a collection, only where holes are long enough for one.
var MainThread = &Deriver{Name: "main-thread", Gives: []*Decl{gpuTokenize, gpuTokenizeName, gpuCollect, gpuCollectCount, gpuCollectMax}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, _ *Card, l *timeline.GPULedger, r *timeline.Reduced) {
		if l == nil || l.Window.Empty() {
			why := noTrace
			if r != nil && r.NoLedger != "" {
				why = r.NoLedger
			}
			p.missAll(sub, why, gpuTokenize, gpuTokenizeName, gpuCollect, gpuCollectCount, gpuCollectMax)
			return
		}
		gi := 0
		for gi < len(r.GPUs) && &r.GPUs[gi] != l {
			gi++
		}
		of := func(h *timeline.Held) Value {
			refs, n := rowRefs(r, h.Rows)
			v := Value{Cover: 1, Conf: timeline.Measured, Refs: refs, NRefs: n}
			if gi < len(h.GapNS) {
				v.Num = min(1, float64(h.GapNS[gi])/float64(l.Window.Dur()))
			}
			return v
		}
		if t := &r.Rank.Tokenize; t.Calls > 0 {
			v := of(t)
			if !strings.Contains(strings.ToLower(t.Name), "token") {
				v.Conf = timeline.Inferred // "encode" is a word for other things too
			}
			p.Set(gpuTokenize, sub, v)
			v.Num, v.Text = 0, t.Name
			p.Set(gpuTokenizeName, sub, v)
		} else if r.Rank.StackFrames {
			p.Set(gpuTokenize, sub, measured(0))
			p.Miss(gpuTokenizeName, sub, "no operator, range or Python frame of a tokenizer was recorded on the main thread")
		} else {
			p.missAll(sub, "no range of a tokenizer and no Python stacks were recorded", gpuTokenize, gpuTokenizeName)
		}
		switch c := &r.Rank.Collect; {
		case c.Calls > 0:
			v := of(c)
			p.Set(gpuCollect, sub, v)
			v.Num = float64(c.Calls)
			p.Set(gpuCollectCount, sub, v)
			v.Num = float64(c.MaxNS) / 1e9
			p.Set(gpuCollectMax, sub, v)
		case r.Rank.StackFrames:
			p.Set(gpuCollect, sub, measured(0))
			p.Set(gpuCollectCount, sub, measured(0))
			p.Miss(gpuCollectMax, sub, "no Python frame of a garbage collection was recorded")
		case !longHole(&l.Segments):
			p.Set(gpuCollect, sub, Value{Cover: 1, Conf: timeline.Inferred})
			p.missAll(sub, "no Python stacks were recorded", gpuCollectCount, gpuCollectMax)
		default:
			p.missAll(sub, "no Python stacks were recorded, and there are holes of 50 ms and more that may be collections", gpuCollect, gpuCollectCount, gpuCollectMax)
		}
	})
}}

// longHole tells whether the GPU waited for pauseLeast or more while no operator and no call of its host was open, whoever is charged with it.
func longHole(segs *timeline.Segments) bool {
	var run int64
	for s := range segs.All() {
		switch {
		case s.Owner == timeline.HostPython, s.Owner == timeline.HostSync && s.Sub == timeline.SubRefill, s.Owner == timeline.UnknownOwner:
			if run += s.Dur; run >= pauseLeast {
				return true
			}
		default:
			run = 0
		}
	}
	return false
}
