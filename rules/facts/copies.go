package facts

import (
	"fmt"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Bandwidth is judged on copies of at least 1 MiB (the rows' Big columns); fewer than this many say nothing.
const minBigCopies = 3

var (
	h2dPageable = &Decl{ID: "gpu.h2d_pageable_frac", Unit: unit.Frac, Per: GPU, Min: 0, Max: 1, Capture: "C4",
		Doc: "Bytes copied to the GPU from pageable host memory, out of all bytes copied to it whose memory kind is recorded, in the window."}
	h2dPageableExposed = &Decl{ID: "gpu.h2d_pageable_exposed_frac", Unit: unit.Frac, Per: GPU, Min: 0, Max: 1, Capture: "C4",
		Doc: "Time the GPU waited for copies from pageable host memory (copying with nothing else running, or the driver staging), out of the window."}
	h2dPinnedExposed = &Decl{ID: "gpu.h2d_pinned_exposed_frac", Unit: unit.Frac, Per: GPU, Min: 0, Max: 1, Capture: "C4",
		Doc: "Time the GPU waited for copies from pinned host memory with nothing else running, out of the window."}
	h2dBytes = &Decl{ID: "gpu.h2d_mean_bytes", Unit: unit.Byte, Per: GPU, Min: 0, Max: 1e20, Capture: "C4",
		Doc: "Mean size of a copy from host to GPU in the window: small copies cost their latency, not their bytes."}
	h2dPinnedRate = &Decl{ID: "gpu.h2d_pinned_bytes_per_s", Unit: unit.BytePerSecond, Per: GPU, Min: 0, Max: 1e30, Capture: "C9",
		Doc: "Bytes over time of the copies of 1 MiB or more from pinned host memory to the GPU, in the window."}
	h2dLinkRate = &Decl{ID: "gpu.h2d_link_bytes_per_s", Unit: unit.BytePerSecond, Per: GPU, Min: 0, Max: 1e13, Capture: "C2",
		Doc: "What the GPU's link to its host can carry one way: by the sampled PCIe generation and width it is capable of, else by the GPU table."}
	h2dLinkUse = &Decl{ID: "gpu.h2d_link_use_frac", Unit: unit.Frac, Per: GPU, Min: 0, Max: 1.5, Capture: "C9",
		Doc: "Speed of the pinned copies of 1 MiB or more to the GPU, out of what its link can carry one way."}
	h2dBlockingSaving = &Decl{ID: "gpu.h2d_blocking_saving_frac", Unit: unit.Frac, Per: GPU, Min: 0, Max: 1, Capture: "C4",
		Doc: "What hiding the exposed pinned copies could return: the smaller of their time and of the window less the longest of the GPU's other work, all copies and the host's work."}
)

// Copies: are copies to the GPU made from pageable memory, and do pinned ones run at the speed of the link? Read from the totals by
// direction and memory kind. Missing without a trace, without such copies, or where the trace does not say the memory kind.
var Copies = &Deriver{
	Name:  "copies",
	After: []*Deriver{LedgerShares},
	Gives: []*Decl{h2dPageable, h2dPageableExposed, h2dPinnedExposed, h2dBytes, h2dPinnedRate, h2dLinkRate, h2dLinkUse, h2dBlockingSaving},
	Run:   func(p *Pass) { p.eachGPU(p.copiesOf) },
}

func (p *Pass) copiesOf(sub int, c *Card, g *timeline.GPULedger, r *timeline.Reduced) {
	link, conf, why := p.hostLink(c, g)
	if why == "" {
		p.Set(h2dLinkRate, sub, Value{Num: link, Cover: 1, Conf: conf})
	} else {
		p.Miss(h2dLinkRate, sub, why)
	}
	if g == nil || g.Window.Empty() {
		p.missAll(sub, noLedger(g), h2dPageable, h2dPageableExposed, h2dPinnedExposed, h2dBytes, h2dPinnedRate, h2dLinkUse, h2dBlockingSaving)
		return
	}
	var count, bytes, known, pageable, bigBytes, bigDur, bigCount int64
	var pageRows, pinRows []uint32
	for _, c := range g.Copies {
		if c.Kind != timeline.DirH2D {
			continue
		}
		count += c.Count
		bytes += max(c.Bytes, 0)
		switch c.Memory {
		case timeline.MemPageable:
			known += max(c.Bytes, 0)
			pageable += max(c.Bytes, 0)
			pageRows = append(pageRows, c.Rows...)
		case timeline.MemPinned:
			known += max(c.Bytes, 0)
			bigBytes += c.BigBytes
			bigDur += c.BigDur
			bigCount += c.BigCount
			pinRows = append(pinRows, c.Rows...)
		}
	}
	switch {
	case count == 0:
		p.missAll(sub, "no copy from host to GPU ran in the window", h2dPageable, h2dBytes)
	case bytes == 0:
		p.missAll(sub, "the trace does not say how many bytes its copies moved", h2dPageable, h2dBytes)
	default:
		p.Set(h2dBytes, sub, Value{Num: float64(bytes) / float64(count), Cover: 1, Conf: timeline.Measured})
		if 2*known < bytes {
			p.Miss(h2dPageable, sub, "the trace does not say whether the host memory of its copies is pageable or pinned")
			break
		}
		refs, n := rowRefs(r, pageRows)
		p.Set(h2dPageable, sub, Value{Num: float64(pageable) / float64(known), Cover: float64(known) / float64(bytes),
			Refs: refs, NRefs: n, Conf: timeline.Measured})
	}
	paged, pinned := subNS(g, timeline.CopyH2D, timeline.SubPageable), subNS(g, timeline.CopyH2D, timeline.SubPinned)
	if other := g.Owners[timeline.CopyH2D] - paged - pinned; other > paged+pinned {
		p.missAll(sub, "the trace does not say whether the host memory of most copies it waited for is pageable or pinned",
			h2dPageableExposed, h2dPinnedExposed, h2dBlockingSaving)
	} else {
		w := float64(g.Window.Dur())
		p.Set(h2dPageableExposed, sub, measured(float64(paged)/w))
		p.Set(h2dPinnedExposed, sub, measured(float64(pinned)/w))
		p.blockingSaving(sub, g, pinned)
	}
	if bigCount < minBigCopies || bigDur <= 0 {
		p.missAll(sub, fmt.Sprintf("only %d pinned copies of 1 MiB or more ran to the GPU in the window; fewer than %d do not show the speed of a link",
			bigCount, minBigCopies), h2dPinnedRate, h2dLinkUse)
		return
	}
	rate := float64(bigBytes) / (float64(bigDur) / 1e9)
	refs, n := rowRefs(r, pinRows)
	p.Set(h2dPinnedRate, sub, Value{Num: rate, Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
	switch use := rate / max(link, 1); {
	case why != "":
		p.Miss(h2dLinkUse, sub, why)
	case use > h2dLinkUse.Max:
		p.Miss(h2dLinkUse, sub, "copies ran faster than the link assumed for this GPU can carry, so the assumption is wrong")
	default:
		p.Set(h2dLinkUse, sub, Value{Num: use, Cover: 1, Refs: refs, NRefs: n, Conf: conf})
	}
}

// blockingSaving bounds what hiding the exposed pinned copies returns. The GPU's other work is what its ledger holds besides idle gaps
// and copies to it: a copy that moves aside does not take the step with it, though no step is shorter than its copies. Without the host's side
// of the steps the GPU alone bounds it, inferred.
func (p *Pass) blockingSaving(sub int, g *timeline.GPULedger, pinned int64) {
	if pinned == 0 {
		p.Set(h2dBlockingSaving, sub, measured(0))
		return
	}
	host, ok := p.Get(rankHostBusy, sub)
	if !ok {
		host = Value{Conf: timeline.Inferred}
	}
	var work int64
	for o := range timeline.NOwners {
		if o != timeline.CopyH2D && !gapOwner(o) {
			work += g.Owners[o]
		}
	}
	w := float64(g.Window.Dur())
	copies := g.Owners[timeline.CopyH2D] + g.Side.HiddenCopy
	left := max(0, 1-max(float64(work)/w, float64(copies)/w, host.Num))
	p.Set(h2dBlockingSaving, sub, Value{Num: min(float64(pinned)/w, left), Cover: 1, Conf: host.Conf})
}
