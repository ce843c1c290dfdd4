package facts

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuNUMANode = &Decl{ID: "gpu.numa_node", Doc: "NUMA node that the GPU hangs on, and the CPUs near it.", Unit: unit.Text, Per: GPU, Capture: "C3"}
	gpuRemote   = &Decl{ID: "gpu.numa_remote_frac", Doc: "CPUs that the process driving the GPU may run on and that are not near the GPU, out of all that it may run on.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C3"}
	gpuUnbound = &Decl{ID: "gpu.process_cpus", Doc: "CPUs that the process driving the GPU may run on.", Unit: unit.Text, Per: GPU, Capture: "C3"}
)

// NUMA asks whether the process that drives a GPU runs on the socket that the GPU hangs on: the CPU set of the process against the
// CPUs near the card. A process that may run anywhere is neither: its share lies between. Missing where either is not recorded.
var NUMA = &Deriver{Name: "numa", Gives: []*Decl{gpuNUMANode, gpuRemote, gpuUnbound}, Run: func(p *Pass) {
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, r *timeline.Reduced) {
		near, nearAttr, ok := p.nearCPUs(c)
		if ok {
			text := "CPUs " + nearAttr.Text
			if a, has := p.attr(c, timeline.AttrNUMANode); has && a.Value >= 0 {
				text = fmt.Sprintf("node %.0f, CPUs %s", a.Value, nearAttr.Text)
			}
			p.Set(gpuNUMANode, sub, Value{Text: text, Cover: 1, Conf: timeline.Measured, Refs: p.attrRef(&nearAttr), NRefs: 1})
		} else {
			p.Miss(gpuNUMANode, sub, "no topology matrix or capture says which CPUs are near this GPU")
		}
		set, setAttr, found := p.processCPUs(c, r)
		if !found {
			p.missAll(sub, "the CPU set of the process that drives this GPU was not recorded", gpuRemote, gpuUnbound)
			return
		}
		v := Value{Cover: 1, Conf: timeline.Measured, Refs: p.attrRef(&setAttr), NRefs: 1}
		v.Text = setAttr.Text
		p.Set(gpuUnbound, sub, v)
		if !ok {
			p.Miss(gpuRemote, sub, "no topology matrix or capture says which CPUs are near this GPU")
			return
		}
		far := 0
		for cpu := range set {
			if !near[cpu] {
				far++
			}
		}
		v.Num, v.Text = float64(far)/float64(len(set)), ""
		p.Set(gpuRemote, sub, v)
	})
}}

// nearCPUs gives the CPUs near a card: its affinity, else those of its NUMA node.
func (p *Pass) nearCPUs(c *Card) (map[int]bool, timeline.Attr, bool) {
	if a, ok := p.attr(c, timeline.AttrCPUAffinity); ok {
		if set := parseCPUs(a.Text); len(set) > 0 {
			return set, a, true
		}
	}
	node, ok := p.attr(c, timeline.AttrNUMANode)
	if !ok || node.Value < 0 {
		return nil, node, false
	}
	src := p.Base.Tracks[node.Track].Source
	a, ok := p.attrWhere(timeline.AttrHostNUMACPUs, func(tr *timeline.Track) bool {
		return tr.Source == src || p.Base.Sources[tr.Source].Host != "" && p.Base.Sources[tr.Source].Host == p.Base.Sources[src].Host
	})
	if !ok {
		return nil, node, false
	}
	for _, part := range strings.Fields(a.Text) { // "0:0-31,64-95 1:32-63"
		id, cpus, ok := strings.Cut(part, ":")
		if n, err := strconv.Atoi(id); ok && err == nil && float64(n) == node.Value {
			a.Text = cpus
			set := parseCPUs(cpus)
			return set, a, len(set) > 0
		}
	}
	return nil, node, false
}

// processCPUs gives the CPU set of the process that drives a card: the traced one by its pid, else the only one that the capture saw on it.
func (p *Pass) processCPUs(c *Card, r *timeline.Reduced) (map[int]bool, timeline.Attr, bool) {
	var found []timeline.Attr
	for i := range p.Base.Attrs {
		a := p.Base.Attrs[i]
		tr := &p.Base.Tracks[a.Track]
		if a.Name != timeline.AttrProcCPUs || tr.Kind != timeline.TrackProcess {
			continue
		}
		if r != nil && r.Process.PID > 0 {
			host := p.Base.Sources[tr.Source].Host
			if tr.Thread == r.Process.PID && (host == "" || r.Process.Host == "" || host == r.Process.Host) {
				found = append(found, a)
			}
			continue
		}
		for j := range p.Base.Attrs {
			g := &p.Base.Attrs[j]
			if g.Track == a.Track && g.Name == timeline.AttrProcGPU && p.namesCard(c, g, tr.Source) {
				found = append(found, a)
			}
		}
	}
	if len(found) == 0 {
		return nil, timeline.Attr{}, false
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].At < found[j].At })
	for _, a := range found[1:] {
		if r == nil && a.Track != found[0].Track {
			return nil, a, false // several processes: nobody knows which
		}
	}
	a := found[len(found)-1]
	set := parseCPUs(a.Text)
	return set, a, len(set) > 0
}

// namesCard tells whether an attribute of a process names the card: by UUID, or by index in the same source.
func (p *Pass) namesCard(c *Card, a *timeline.Attr, src timeline.SourceID) bool {
	for _, id := range c.Devices {
		d := &p.Base.Devices[id]
		if d.UUID != "" && a.Text == d.UUID || d.Source == src && d.Index >= 0 && a.Text == strconv.Itoa(d.Index) {
			return true
		}
	}
	return c.UUID != "" && a.Text == c.UUID
}

// parseCPUs reads a list of CPUs: "0-15,32,40-47". nil for what is none, and for absurd ones.
func parseCPUs(s string) map[int]bool {
	const most = 1 << 14
	set := map[int]bool{}
	for _, part := range strings.Split(s, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(lo)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(hi)
		}
		if err != nil || a < 0 || b < a || b >= most {
			return nil
		}
		for ; a <= b; a++ {
			set[a] = true
		}
	}
	return set
}
