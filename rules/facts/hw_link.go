package facts

import (
	"fmt"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuLinkLow = &Decl{ID: "gpu.pcie_degraded_frac", Doc: "Share of the samples under load (utilisation of 50 % or more) in which the PCIe link ran below its own maximum.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C2"}
	gpuLinkSamples = &Decl{ID: "gpu.pcie_load_samples_count", Doc: "Samples under load that show the PCIe link.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C2"}
	gpuLinkRate    = &Decl{ID: "gpu.pcie_rate_bytes_per_s", Doc: "One-direction rate of the PCIe link by generation and width, median under load.",
		Unit: unit.BytePerSecond, Per: GPU, Max: 1e13, Capture: "C2"}
	gpuLinkFrac = &Decl{ID: "gpu.pcie_rate_frac", Doc: "Rate of the PCIe link under load out of its own maximum.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C2"}
	gpuLinkPeer = &Decl{ID: "gpu.pcie_vs_peers_frac", Doc: "Rate of the PCIe link under load out of the best of the GPUs of its model, itself included.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C2"}
	gpuLinkText = &Decl{ID: "gpu.pcie_link", Doc: "The PCIe link under load and at its maximum, in words.", Unit: unit.Text, Per: GPU, Capture: "C2"}
	gpuSaveLink = &Decl{ID: "gpu.save_pcie_frac", Doc: "Step time that a whole PCIe link could return at most: exposed copies between host and device x the rate lost.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
)

// PCIeLink asks whether the link to the host ran below what it can while the GPU worked. An idle GPU drops its link by design, so
// only samples with utilisation of 50 % or more in the same reading count. Missing without link columns or without such a sample.
var PCIeLink = &Deriver{Name: "pcie-link", After: []*Deriver{LedgerShares},
	Gives: []*Decl{gpuLinkLow, gpuLinkSamples, gpuLinkRate, gpuLinkFrac, gpuLinkPeer, gpuLinkText, gpuSaveLink},
	Run: func(p *Pass) {
		links := map[int]link{} // by subject
		names := map[int]string{}
		p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
			links[sub], names[sub] = p.linkOf(c), c.Name
		})
		for _, sub := range p.Facts.Of(GPU) {
			p.setLink(sub, links, names)
		}
	}}

// link is the PCIe link of one card under load.
type link struct {
	why              string // not "": it is not known
	gen, width       float64
	genMax, widthMax float64 // 0 unknown
	rate, max        float64 // bytes/s; 0 unknown
	low              Value
	n                int
	noMax            string
}

func (p *Pass) linkOf(c *Card) (out link) {
	l := p.loadOf(c)
	gen, width := p.series(c, timeline.PCIeGen), p.series(c, timeline.PCIeWidth)
	switch {
	case gen == nil:
		return link{why: p.noMetric(c, "the PCIe generation")}
	case width == nil:
		return link{why: p.noMetric(c, "the PCIe width")}
	case l.util == nil:
		return link{why: p.noMetric(c, "utilisation, so no sample is known to be under load")}
	}
	at := p.under(l, gen)
	if len(at) < minLoad {
		return link{why: tooIdle(len(at)) + "; an idle GPU drops its link by design"}
	}
	genMax, widthMax := p.series(c, timeline.PCIeGenMax), p.series(c, timeline.PCIeWidthMax)
	if genMax != nil {
		out.genMax = genMax.Value[argMax(genMax.Value)]
	} else {
		out.noMax = p.noMetric(c, "the highest PCIe generation")
	}
	if widthMax != nil {
		out.widthMax = widthMax.Value[argMax(widthMax.Value)]
	} else {
		out.noMax = p.noMetric(c, "the highest PCIe width")
	}
	beside := p.paired(gen, width)
	var gens, widths []float64
	var low []int
	for _, j := range at {
		k := beside[j]
		if k < 0 {
			continue
		}
		gens, widths = append(gens, gen.Value[j]), append(widths, width.Value[k])
		if gen.Value[j] < out.genMax || width.Value[k] < out.widthMax {
			low = append(low, j)
		}
	}
	if out.n = len(gens); out.n == 0 {
		return link{why: "the PCIe width was never read beside the generation"}
	}
	out.gen, out.width = median(gens), median(widths)
	out.low = Value{Num: float64(len(low)) / float64(out.n), Cover: p.cover(gen), Conf: timeline.Measured}
	out.low.Refs, out.low.NRefs = p.refsAt(gen, low)
	if p.Tables != nil {
		out.rate = p.Tables.Links.PCIe(int(out.gen), int(out.width))
		out.max = p.Tables.Links.PCIe(int(out.genMax), int(out.widthMax))
	}
	return out
}

func (p *Pass) setLink(sub int, links map[int]link, names map[int]string) {
	l := links[sub]
	if l.why != "" {
		p.missAll(sub, l.why, gpuLinkLow, gpuLinkSamples, gpuLinkRate, gpuLinkFrac, gpuLinkPeer, gpuLinkText, gpuSaveLink)
		return
	}
	num := func(x float64) Value {
		v := l.low
		v.Num = x
		return v
	}
	p.Set(gpuLinkSamples, sub, num(float64(l.n)))
	text := fmt.Sprintf("Gen%.0f x%.0f", l.gen, l.width)
	if l.noMax == "" {
		text += fmt.Sprintf(" of Gen%.0f x%.0f", l.genMax, l.widthMax)
		p.Set(gpuLinkLow, sub, l.low)
	} else {
		p.Miss(gpuLinkLow, sub, l.noMax)
	}
	p.Set(gpuLinkText, sub, Value{Text: text, Cover: l.low.Cover, Conf: timeline.Measured})
	if l.rate <= 0 {
		p.missAll(sub, "the table of links has no such PCIe generation", gpuLinkRate, gpuLinkFrac, gpuLinkPeer, gpuSaveLink)
		return
	}
	p.Set(gpuLinkRate, sub, num(l.rate))
	best, peers := 0.0, 0
	for _, other := range p.Facts.Of(GPU) {
		if o := links[other]; o.why == "" && names[other] == names[sub] {
			best = max(best, o.rate)
			peers++
		}
	}
	ratio := 1.0
	if l.max > 0 {
		ratio = min(1, l.rate/l.max)
		p.Set(gpuLinkFrac, sub, num(ratio))
	} else {
		p.Miss(gpuLinkFrac, sub, l.noMax)
	}
	switch {
	case peers > 1:
		p.Set(gpuLinkPeer, sub, num(min(1, l.rate/best)))
		ratio = min(ratio, l.rate/best)
	case len(p.Facts.Of(GPU)) == 1:
		p.Set(gpuLinkPeer, sub, num(1))
	default:
		p.Miss(gpuLinkPeer, sub, "no other GPU of its model shows its link under load")
	}
	h2d, ok := p.Get(gpuOwner[timeline.CopyH2D], sub)
	d2h, ok2 := p.Get(gpuOwner[timeline.CopyD2H], sub)
	switch {
	case l.max <= 0 && peers < 2:
		p.Miss(gpuSaveLink, sub, l.noMax)
	case !ok || !ok2:
		p.Miss(gpuSaveLink, sub, noTrace+", so the time of copies is not known")
	default:
		v := num((h2d.Num + d2h.Num) * (1 - ratio))
		v.Conf = timeline.Inferred
		p.Set(gpuSaveLink, sub, v)
	}
}

var gpuLost = &Decl{ID: "gpu.lost_count", Doc: "Events that say that the GPU is lost or needs a reset: of readings the first of those in a row, and what the kernel logged.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C1"}

// GPULost asks whether the GPU fell off while it was sampled. Missing where no log speaks of the GPU more than for a moment.
var GPULost = &Deriver{Name: "gpu-lost", Gives: []*Decl{gpuLost}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		v := Value{Cover: 1, Conf: timeline.Measured}
		known, seen := false, false
		for i := range p.Base.Series {
			if s := &p.Base.Series[i]; has(c.Devices, p.Base.Tracks[s.Track].Device) {
				seen = true
				known = known || len(s.At) >= minLoad
			}
		}
		for i := range p.Base.Marks.At {
			tr := p.Base.Tracks[p.Base.Marks.Track[i]]
			if tr.Device < 0 || !has(c.Devices, tr.Device) {
				continue
			}
			known = true
			if p.Base.Marks.Kind[i] != timeline.MarkGPULost {
				continue
			}
			p.countMark(&v, i)
		}
		if !known {
			why := "no sampled log of this GPU was given"
			if seen {
				why = "the logs of this GPU show it for a moment only"
			}
			p.Miss(gpuLost, sub, why)
			return
		}
		p.Set(gpuLost, sub, v)
	})
}}
