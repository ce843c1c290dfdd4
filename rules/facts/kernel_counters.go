package facts

import (
	"fmt"
	"regexp"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	gpuL2 = &Decl{ID: "gpu.l2_hit_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C11",
		Doc: "Sectors that the L2 cache served, out of all asked of it, in the matrix products, convolutions and attention kernels that Nsight Compute measured, which use data again; weighted by their time in the trace."}
	gpuL2Time = &Decl{ID: "gpu.l2_time_frac", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C11",
		Doc: "Time of those kernels," + ofBusyTime}
)

// countersShare is the part of the kernels' time that must be measured before the means speak for the GPU.
const countersShare = 0.8

// MeasuredKernels: do kernels that use data again find it in the L2 cache? Counters of single kernels, joined to those of the trace by name.
// They come from other launches than those of the trace, with caches emptied first: inferred. Missing without a file of Nsight Compute,
// and where it measured none of these kernels.
var MeasuredKernels = &Deriver{Name: "measured-kernels", Gives: []*Decl{gpuL2, gpuL2Time}, Run: func(p *Pass) { p.eachGPU(p.measuredKernels) }}

func (p *Pass) measuredKernels(sub int, _ *Card, g *timeline.GPULedger, _ *timeline.Reduced) {
	miss := func(why string) { p.missAll(sub, why, gpuL2, gpuL2Time) }
	switch {
	case len(p.Base.Counters) == 0:
		miss("no trace holds cache counters: only Nsight Compute measures them")
		return
	case g == nil || g.Window.Empty() || g.Busy <= 0:
		miss(noLedger(g))
		return
	}
	again := func(class string) bool { return class == "matmul" || class == "conv" || class == "attention" }
	l2 := p.countedIn(g, again, func(k *timeline.KernelCounters) float64 { return k.L2Hit })
	switch {
	case l2.all == 0:
		miss("no matrix product, convolution or attention kernel ran in the window")
		return
	case l2.ns == 0:
		miss("Nsight Compute measured none of the window's matrix products, convolutions and attention kernels, and others read each byte once")
		return
	}
	v := Value{Num: l2.mean, Cover: min(1, float64(l2.ns)/float64(l2.all)), Refs: l2.refs, NRefs: l2.nrefs, Conf: timeline.Inferred}
	p.Set(gpuL2, sub, v)
	work := int64(0)
	for i := range g.Kernels {
		if k := &g.Kernels[i]; k.Class != "comm" && k.Class != "memset" {
			work += k.Dur
		}
	}
	v.Num = min(1, float64(l2.ns)/float64(work)*float64(g.Owners[timeline.Compute])/float64(g.Busy))
	p.Set(gpuL2Time, sub, v)
}

// counterMean is what was counted of some of a GPU's kernels.
type counterMean struct {
	mean    float64 // weighted by time in the trace
	ns, all int64   // time of those that were counted, and of all that were asked about
	refs    []Ref
	nrefs   int
}

// countedIn joins the kernels of a GPU to those that were measured: by their names, or by their functions where ncu was told to print no more.
func (p *Pass) countedIn(g *timeline.GPULedger, class func(string) bool, of func(*timeline.KernelCounters) float64) (out counterMean) {
	type mean struct{ sum, n float64 }
	full, function := map[string]*mean{}, map[string]*mean{}
	rows := map[string][]int{} // by function
	add := func(to map[string]*mean, name string, x, n float64) {
		m := to[name]
		if m == nil {
			m = &mean{}
			to[name] = m
		}
		m.sum, m.n = m.sum+x*n, m.n+n
	}
	for i := range p.Base.Counters {
		k := &p.Base.Counters[i]
		x := of(k)
		if x < 0 || k.CC != "" && g.Device.CC != "" && k.CC != g.Device.CC {
			continue
		}
		name := kernelKey(k.Name)
		to := full
		if functionOf(name) == name {
			to = function
		}
		add(to, name, x, float64(k.Launches))
		rows[name] = append(rows[name], i)
	}
	shown := map[int]bool{}
	total := 0.0
	for i := range g.Kernels {
		k := &g.Kernels[i]
		if !class(k.Class) {
			continue
		}
		out.all += k.Dur
		name := kernelKey(k.Name)
		m := full[name]
		if m == nil {
			name = functionOf(name)
			m = function[name]
		}
		if m == nil || m.n <= 0 {
			continue
		}
		out.ns += k.Dur
		total += float64(k.Dur) * m.sum / m.n
		for _, r := range rows[name] {
			if c := &p.Base.Counters[r]; !shown[r] {
				shown[r] = true
				out.nrefs++
				if len(out.refs) < maxRefs {
					out.refs = append(out.refs, Ref{Path: p.Base.Sources[c.Source].Path, Row: uint64(c.Row)})
				}
			}
		}
	}
	if out.ns > 0 {
		out.mean = min(1, total/float64(out.ns))
	}
	return out
}

// suffix is what one demangler writes behind a number, and another before it.
var suffix = regexp.MustCompile(`\b(\d+)(ull|ul|u|ll|l)\b`)

// kernelKey is a kernel's name without what demanglers write in different ways: blanks, the result, casts of template arguments, parameters.
func kernelKey(name string) string {
	name = strings.TrimPrefix(name, "void ")
	const hidden = "(anonymous namespace)"
	name = strings.ReplaceAll(strings.ReplaceAll(name, "<unnamed>", "\x00"), hidden, "\x00")
	depth := 0
	for i := 0; i < len(name); i++ {
		switch name[i] {
		case '<':
			depth++
		case '>':
			if depth > 0 && !(i > 0 && name[i-1] == '-') { // not of an arrow
				depth--
			}
		case '(':
			if depth == 0 {
				name = name[:i]
			}
		}
	}
	name = strings.NewReplacer("false", "0", "true", "1").Replace(suffix.ReplaceAllString(name, "$1"))
	for _, cast := range []string{"(int)", "(bool)", "(unsigned int)", "(long)", "(unsigned long)"} {
		name = strings.ReplaceAll(name, cast, "")
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(name), ""), "\x00", hidden)
}

// functionOf is the function of such a name, without its namespaces and template arguments.
func functionOf(key string) string {
	if i := strings.IndexByte(key, '<'); i > 0 {
		key = key[:i]
	}
	return key[strings.LastIndexByte(key, ':')+1:]
}

// dramMeasured is the memory's rate out of its peak while kernels ran, where Nsight Compute measured those that take most of the time.
func (p *Pass) dramMeasured(g *timeline.GPULedger) (Value, string) {
	if len(p.Base.Counters) == 0 {
		return Value{}, "no counters"
	}
	c := p.countedIn(g, func(class string) bool { return class != "comm" && class != "memset" }, func(k *timeline.KernelCounters) float64 { return k.DRAM })
	if c.all == 0 || float64(c.ns) < countersShare*float64(c.all) {
		return Value{}, fmt.Sprintf("Nsight Compute measured kernels of %.0f %% of the kernels' time, which is too little to speak for it", 100*float64(c.ns)/float64(max(1, c.all)))
	}
	return Value{Num: c.mean, Cover: float64(c.ns) / float64(c.all), Refs: c.refs, NRefs: c.nrefs, Conf: timeline.Inferred}, ""
}
