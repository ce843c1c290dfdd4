package facts

import (
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var gpuSavePageable = &Decl{ID: "gpu.save_pageable_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4",
	Doc: "Share of the window that pinned memory would return at most: gpu.h2d_pageable_exposed_frac, less the time that the same bytes take from pinned memory over a healthy link; " +
		"all of it where the link is not known. Copies that are then hidden under computing return the rest as well."}

// PageableSaving asks what pinning the host memory of copies returns. The bytes still have to cross the link, and as much of that shows as
// does now: that they can be hidden from then on is another fix.
var PageableSaving = &Deriver{
	Name:  "pageable-saving",
	After: []*Deriver{Copies},
	Gives: []*Decl{gpuSavePageable},
	Run: func(p *Pass) {
		p.eachGPU(func(sub int, c *Card, g *timeline.GPULedger, _ *timeline.Reduced) {
			v, ok := p.Get(h2dPageableExposed, sub)
			if !ok {
				p.Miss(gpuSavePageable, sub, p.why(h2dPageableExposed, sub))
				return
			}
			if link, _, why := p.hostLink(c, g); why == "" {
				v.Num = max(0, v.Num-p.pinnedLeft(g, link*p.Tables.Links.PCIeHealthy, v.Num))
			}
			p.Set(gpuSavePageable, sub, v)
		})
	},
}

// pinnedLeft is the share of the window that pageable copies would take from pinned memory at a rate, in sight as far as they are now.
func (p *Pass) pinnedLeft(g *timeline.GPULedger, rate, exposed float64) float64 {
	var bytes, took float64
	for i := range g.Copies {
		if c := &g.Copies[i]; c.Kind == timeline.DirH2D && c.Memory == timeline.MemPageable {
			bytes += float64(max(c.Bytes, 0))
			took += float64(c.Dur)
		}
	}
	w := float64(g.Window.Dur())
	if rate <= 0 || took <= 0 {
		return 0
	}
	return bytes / rate * 1e9 / w * min(1, exposed*w/took)
}
