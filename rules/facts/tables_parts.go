package facts

import (
	"fmt"
	"slices"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

const (
	pcieJudged   = 16 << 20  // bytes from which a collective over PCIe is expected to reach the link's speed
	nvlinkJudged = 256 << 20 // the same over NVLink, where no curve by size was measured
)

// linkTables gives the tables, empty ones where none are loaded.
func linkTables(in *Input) *ledger.Tables {
	if in.Tables == nil {
		return &ledger.Tables{}
	}
	return in.Tables
}

// part is a GPU as the table knows it; why says why it does not.
func (p *Pass) part(c *Card, g *timeline.GPULedger) (m ledger.GPUMatch, why string) {
	if p.Tables == nil {
		return m, "no GPU table is loaded"
	}
	name, mem, sms, cc := c.Name, int64(0), 0, ""
	if g != nil {
		mem, sms, cc = g.Device.Memory, g.Device.SMs, g.Device.CC
		if g.Device.Name != "" {
			name = g.Device.Name
		}
	}
	m = p.Tables.FindGPU(name, mem, sms, cc)
	switch {
	case m.GPU != nil:
	case len(m.Ambiguous) > 0:
		why = fmt.Sprintf("%q may be any of %s in the GPU table", name, join(m.Ambiguous, ", "))
	case name == "":
		why = "no input names this GPU"
	default:
		why = fmt.Sprintf("%q is not in the GPU table; a site table can add it", name)
	}
	return m, why
}

// hostLink is what the card's link to its host can carry one way, bytes/s: by the sampled generation and width it is capable of where
// it sits, else by the GPU table. why says what is missing.
func (p *Pass) hostLink(c *Card, g *timeline.GPULedger) (rate float64, conf Confidence, why string) {
	if p.Tables == nil {
		return 0, timeline.NoConfidence, "no link table is loaded"
	}
	gen, width := p.series(c, timeline.PCIeGenMax), p.series(c, timeline.PCIeWidthMax)
	if gen != nil && width != nil {
		if r := p.Tables.Links.PCIe(int(slices.Max(gen.Value)), int(slices.Max(width.Value))); r > 0 {
			return r, timeline.Measured, ""
		}
	}
	m, why := p.part(c, g)
	if why != "" {
		return 0, timeline.NoConfidence, why
	}
	if r := p.Tables.Links.PCIe(m.GPU.PCIe, 16); r > 0 {
		return r, timeline.Inferred, ""
	}
	return 0, timeline.NoConfidence, "the GPU table does not say which link this part has to its host"
}
