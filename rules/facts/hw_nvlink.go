package facts

import (
	"fmt"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuNVUp     = &Decl{ID: "gpu.nvlink_up_count", Doc: "NVLinks of the GPU that are up, the fewest of any reading.", Unit: unit.Count, Per: GPU, Max: 1000, Capture: "C3"}
	gpuNVExpect = &Decl{ID: "gpu.nvlink_expected_count", Doc: "NVLinks that should be up: what the part has by rules/tables/gpus.yaml, else by its own word, else the most of its peers; 0 for a PCIe board without a bridge.",
		Unit: unit.Count, Per: GPU, Max: 1000, Capture: "C3"}
	gpuNVDown   = &Decl{ID: "gpu.nvlink_down_count", Doc: "NVLinks that should be up and are not.", Unit: unit.Count, Per: GPU, Max: 1000, Capture: "C3"}
	gpuNVErrors = &Decl{ID: "gpu.nvlink_errors_count", Doc: "Replays, recoveries and CRC errors of the GPU's NVLinks inside the window: how far their counters rose.",
		Unit: unit.Count, Per: GPU, Max: 1e15, Capture: "C3"}
	gpuNVTopo = &Decl{ID: "gpu.nvlink_topology_frac", Doc: "NVLinks to other GPUs by the topology matrix, out of the most that a GPU of the same matrix has; 1 where none has any.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C3"}
	gpuSaveNVLink = &Decl{ID: "gpu.save_nvlink_frac", Doc: "Step time that all NVLinks could return at most: exposed transfers of collectives x links that are down out of those expected.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C4"}
)

// NVLink asks whether all of a GPU's NVLinks carried traffic: links up against what the part has, errors that rose, and the matrix against
// that of its peers. A PCIe board without a bridge has none by design. Missing without a link status or a topology matrix.
var NVLink = &Deriver{Name: "nvlink", After: []*Deriver{LedgerShares}, Gives: []*Decl{gpuNVUp, gpuNVExpect, gpuNVDown, gpuNVErrors, gpuNVTopo, gpuSaveNVLink}, Run: func(p *Pass) {
	up := map[int]float64{}
	names := map[int]string{}
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		names[sub] = c.Name
		if s := p.state(c, timeline.NVLinkUp); s != nil {
			i := argMin(s.Value)
			up[sub] = s.Value[i]
			v := p.sampled(s, s.Value[i])
			v.Refs, v.NRefs = p.refsAt(s, []int{i})
			p.Set(gpuNVUp, sub, v)
		} else {
			p.Miss(gpuNVUp, sub, p.noMetric(c, "the state of its NVLinks"))
		}
	})
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		p.linksDown(sub, c, up, names)
		p.linkErrors(sub, c)
		p.linkTopology(sub, c)
	})
}}

func (p *Pass) linksDown(sub int, c *Card, up map[int]float64, names map[int]string) {
	expect, conf, why := p.nvlinksExpected(sub, c, up, names)
	if why != "" {
		p.missAll(sub, why, gpuNVExpect, gpuNVDown, gpuSaveNVLink)
		return
	}
	v := Value{Num: expect, Cover: 1, Conf: conf}
	p.Set(gpuNVExpect, sub, v)
	have, ok := up[sub]
	switch {
	case ok:
		u, _ := p.Get(gpuNVUp, sub)
		v.Refs, v.NRefs = u.Refs, u.NRefs
		v.Num = max(0, expect-have)
	case expect == 0:
		v.Num = 0
	default:
		why := p.noMetric(c, "the state of its NVLinks")
		p.missAll(sub, why, gpuNVDown, gpuSaveNVLink)
		return
	}
	p.Set(gpuNVDown, sub, v)
	transfer, ok := p.Get(gpuOwner[timeline.CommTransfer], sub)
	if !ok {
		p.Miss(gpuSaveNVLink, sub, noTrace+", so the time of collectives is not known")
		return
	}
	lost := 0.0
	if expect > 0 {
		lost = min(1, v.Num/expect)
	}
	v.Num, v.Conf = transfer.Num*lost, min(transfer.Conf, timeline.Inferred)
	p.Set(gpuSaveNVLink, sub, v)
}

func (p *Pass) nvlinksExpected(sub int, c *Card, up map[int]float64, names map[int]string) (n float64, conf Confidence, why string) {
	model, why := p.model(c)
	switch {
	case model != nil && model.NVLinks > 0:
		return float64(model.NVLinks), timeline.Measured, ""
	case model != nil && model.NVLink == 0:
		return 0, timeline.Measured, ""
	}
	if a, ok := p.attr(c, timeline.AttrNVLinks); ok {
		return a.Value, timeline.Measured, ""
	}
	most, peers := 0.0, 0
	for other, x := range up {
		if names[other] == names[sub] {
			most = max(most, x)
			peers++
		}
	}
	if peers > 1 {
		return most, timeline.Inferred, "" // what its best peer has
	}
	if why == "" {
		why = "how many NVLinks a board of this model has depends on its bridge, and no peer is known"
	}
	return 0, timeline.NoConfidence, why
}

func (p *Pass) linkErrors(sub int, c *Card) {
	switch r := p.rose(c, timeline.NVLinkErrors); r.readings {
	case 0:
		p.Miss(gpuNVErrors, sub, p.noMetric(c, "errors of its NVLinks"))
	case 1:
		p.Miss(gpuNVErrors, sub, "one reading of the counters, which count since the last reset: record them twice")
	default:
		p.Set(gpuNVErrors, sub, r.Value)
	}
}

// linkTopology sums NV# of the card's row in the first matrix that has it.
func (p *Pass) linkTopology(sub int, c *Card) {
	for _, id := range c.Devices {
		d := &p.Base.Devices[id]
		if d.Index < 0 {
			continue
		}
		sum := map[string]float64{}
		row := map[string]uint32{}
		for _, l := range p.Base.Links {
			if l.Source == d.Source && strings.HasPrefix(l.A, "GPU") && strings.HasPrefix(l.B, "GPU") && l.A != l.B {
				sum[l.A] += float64(l.Count)
				row[l.A] = l.Row
			}
		}
		name := fmt.Sprintf("GPU%d", d.Index)
		mine, ok := sum[name]
		if !ok {
			continue
		}
		most := 0.0
		for _, x := range sum {
			most = max(most, x)
		}
		v := Value{Num: 1, Cover: 1, Conf: timeline.Measured, NRefs: 1, Refs: []Ref{{Path: p.Base.Sources[d.Source].Path, Row: uint64(row[name])}}}
		if most > 0 {
			v.Num = mine / most
		}
		p.Set(gpuNVTopo, sub, v)
		return
	}
	p.Miss(gpuNVTopo, sub, "no topology matrix that names this GPU was given")
}
