package facts

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	runRankHosts = &Decl{ID: "run.rank_hosts_count", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C8",
		Doc: "Hosts that the ranks of the run are on, as traces and NCCL's log name them; 1 for a single rank."}
	runSocketEnds = &Decl{ID: "run.socket_channels_count", Unit: unit.Count, Per: Run, Max: 1e12, Capture: "C8",
		Doc: "Ends of channels between ranks that NCCL carries over TCP, as its log says; 0: it names none."}
	runNoGDREnds = &Decl{ID: "run.rdma_without_gdr_count", Unit: unit.Count, Per: Run, Max: 1e12, Capture: "C8",
		Doc: "Ends of channels that NCCL carries over RDMA through the host's memory, because adapter and GPU do not reach each other directly."}
	runRDMA = &Decl{ID: "run.rdma_adapters_count", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C13",
		Doc: "RDMA adapters that NCCL's log, a topology matrix or a capture of a host names, the most of one of them. An input that names none says nothing: a container may hide them."}
	runNetText = &Decl{ID: "run.nccl_network", Unit: unit.Text, Per: Run, Capture: "C8",
		Doc: "The network that NCCL chose, its adapters, and the variables of NCCL that were set, by the first host of its log that tells them."}
	runNICsPerGPU = &Decl{ID: "run.adapters_per_gpu_frac", Unit: unit.Frac, Per: Run, Max: 1e3, Capture: "C8",
		Doc: "Adapters that NCCL uses on a host, out of the GPUs of that host that take part; the lowest of all hosts."}
	gpuFarPeers = &Decl{ID: "gpu.far_peers_count", Unit: unit.Count, Per: GPU, Max: 1000, Capture: "C3",
		Doc: "GPUs of the run that this one reaches without NVLink, by a topology matrix in which some pair has NVLink; 0 where none has any: then PCIe is the ceiling."}
	gpuP2POff = &Decl{ID: "gpu.p2p_off_count", Unit: unit.Count, Per: GPU, Max: 1e6, Capture: "C8",
		Doc: "Ranks of its own host that NCCL joins with the GPU's rank through the host's memory or a network instead of peer access, as its log says."}
	gpuFarText = &Decl{ID: "gpu.far_peers", Unit: unit.Text, Per: GPU, Capture: "C8",
		Doc: "The slow ways from the GPU to others of its host, in words."}
	gpuNICFar = &Decl{ID: "gpu.nic_far_flag", Unit: unit.Flag, Per: GPU, Max: 1, Capture: "C3",
		Doc: "Whether even the nearest adapter of the topology matrix hangs on another host bridge or socket than the GPU (NODE or SYS)."}
	gpuNICText = &Decl{ID: "gpu.nic_near", Unit: unit.Text, Per: GPU, Capture: "C3",
		Doc: "The adapter nearest to the GPU and how they are joined, by a topology matrix."}
)

const (
	noNCCL     = "no log of NCCL was given"
	noChannels = "the log of NCCL names no channel; its subsystems INIT, P2P and NET must be logged"
)

// CommPaths: which way does communication go? NCCL logs how each channel is carried and what it did without; a topology matrix says what
// there was to choose from. Missing: no such log or matrix, or one that does not name the GPU. That NCCL found no RDMA adapter says
// nothing of the fabric: another input must name one.
var CommPaths = &Deriver{Name: "comm-paths", Gives: []*Decl{runRankHosts, runSocketEnds, runNoGDREnds, runRDMA, runNetText, runNICsPerGPU, gpuFarPeers, gpuP2POff, gpuFarText, gpuNICFar, gpuNICText},
	Run: func(p *Pass) {
		log := p.ncclLog()
		p.rankHosts(log)
		p.runPaths(log)
		cards := Cards(p.Input)
		p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) { p.gpuPaths(sub, c, cards, log) })
	}}

// ncclHost is what NCCL logged of one host, over all logs that name it.
type ncclHost struct {
	name string
	attr map[string]timeline.Attr // the first of each name
	sum  map[string]float64       // of counts
	refs map[string][]Ref
	gpus int // processes
}

// ncclLog is all that NCCL logged.
type ncclLog struct {
	hosts []*ncclHost     // by the order of the sources
	of    map[int]string  // host by rank
	index map[int]int     // NVML index of its GPU by rank
	links []timeline.Link // between ranks
}

func (p *Pass) ncclLog() *ncclLog {
	l := &ncclLog{of: map[int]string{}, index: map[int]int{}}
	at := map[string]*ncclHost{}
	is := func(src timeline.SourceID) bool {
		return int(src) < len(p.Base.Sources) && p.Base.Sources[src].Format == "nccl-log"
	}
	for i := range p.Base.Attrs {
		a := &p.Base.Attrs[i]
		tr := &p.Base.Tracks[a.Track]
		if !is(tr.Source) || !strings.HasPrefix(a.Name, "nccl_") {
			continue
		}
		h := at[tr.Name]
		if h == nil {
			h = &ncclHost{name: tr.Name, attr: map[string]timeline.Attr{}, sum: map[string]float64{}, refs: map[string][]Ref{}}
			at[tr.Name] = h
			l.hosts = append(l.hosts, h)
		}
		if _, seen := h.attr[a.Name]; !seen {
			h.attr[a.Name] = *a
		}
		h.sum[a.Name] += a.Value
		h.refs[a.Name] = append(h.refs[a.Name], p.attrRef(a)...)
	}
	type process struct {
		host string
		pid  int64
	}
	seen := map[process]bool{}
	for i := range p.Base.Procs {
		q := &p.Base.Procs[i]
		if !is(q.Source) || q.Host == "" {
			continue
		}
		if k := (process{q.Host, q.PID}); !seen[k] && at[q.Host] != nil {
			seen[k] = true
			at[q.Host].gpus++
		}
		if q.Rank >= 0 {
			l.of[q.Rank] = q.Host
			if n, err := strconv.Atoi(q.Meta["gpu"]); err == nil {
				l.index[q.Rank] = n
			}
		}
	}
	for _, k := range p.Base.Links {
		if is(k.Source) {
			l.links = append(l.links, k)
		}
	}
	return l
}

// count sums a count over all hosts, and gives the rows.
func (l *ncclLog) count(name string) (sum float64, refs []Ref, ok bool) {
	for _, h := range l.hosts {
		if _, has := h.attr[name]; has {
			ok = true
			if h.sum[name] > 0 {
				sum += h.sum[name]
				refs = append(refs, h.refs[name]...)
			}
		}
	}
	return sum, refs, ok
}

// rankHosts counts hosts. Two that are named suffice to say that there are several; that there is one needs every rank.
func (p *Pass) rankHosts(l *ncclLog) {
	of := map[int]string{}
	for rank, host := range l.of {
		of[rank] = host
	}
	for _, r := range p.Job.Ranks {
		if q := &r.Process; q.Rank >= 0 && q.Host != "" {
			of[q.Rank] = q.Host
		}
	}
	hosts := map[string]bool{}
	for _, h := range of {
		hosts[hostShort(h)] = true
	}
	world := max(p.Job.World, len(p.Job.Ranks))
	switch {
	case world == 1:
		p.Set(runRankHosts, 0, measured(1))
	case len(hosts) > 1 || len(hosts) == 1 && len(of) >= world && world > 0:
		p.Set(runRankHosts, 0, measured(float64(len(hosts))))
	default:
		p.Miss(runRankHosts, 0, "not every rank's host is named")
	}
}

// hostShort is a host's name without its domain, for one tool writes it and another does not.
func hostShort(h string) string {
	h, _, _ = strings.Cut(strings.ToLower(h), ".")
	return h
}

func refValue(num float64, refs []Ref) Value {
	return Value{Num: num, Cover: 1, Conf: timeline.Measured, Refs: refs[:min(len(refs), maxRefs)], NRefs: len(refs)}
}

func (p *Pass) runPaths(l *ncclLog) {
	why := noChannels
	if len(l.hosts) == 0 {
		why = noNCCL
	}
	if n, refs, ok := l.count(timeline.AttrNCCLSocketEnds); ok {
		p.Set(runSocketEnds, 0, refValue(n, refs))
	} else {
		p.Miss(runSocketEnds, 0, why)
	}
	rdma, refs, ok := l.count(timeline.AttrNCCLRDMAEnds)
	gdr, _, _ := l.count(timeline.AttrNCCLGDREnds)
	if ok {
		v := refValue(max(0, rdma-gdr), refs)
		if v.Num > 0 {
			for _, h := range l.hosts {
				v.Refs = append(slices.Clone(h.refs[timeline.AttrNCCLGDROff]), v.Refs...)
			}
			v.Refs, v.NRefs = v.Refs[:min(len(v.Refs), maxRefs)], len(v.Refs)
		}
		p.Set(runNoGDREnds, 0, v)
	} else {
		p.Miss(runNoGDREnds, 0, why)
	}
	if n, refs := p.rdmaAdapters(l); n > 0 {
		p.Set(runRDMA, 0, refValue(float64(n), refs))
	} else {
		p.Miss(runRDMA, 0, "no input names an RDMA adapter, which does not mean that there is none; record topo -m and ibstat outside of the container too")
	}
	p.netText(l)
	least, refs := -1.0, []Ref(nil)
	for _, h := range l.hosts {
		a, ok := h.attr[timeline.AttrNCCLAdapters]
		if n := len(strings.Fields(a.Text)); ok && h.gpus > 0 {
			if f := float64(n) / float64(h.gpus); least < 0 || f < least {
				least, refs = f, h.refs[timeline.AttrNCCLAdapters][:1]
			}
		}
	}
	if least >= 0 {
		v := refValue(least, refs)
		v.Conf = timeline.Inferred // a process a GPU
		p.Set(runNICsPerGPU, 0, v)
	} else {
		p.Miss(runNICsPerGPU, 0, "no log of NCCL lists the adapters that it uses")
	}
}

// rdmaName tells an RDMA adapter's name: mlx5_0, bnxt_re0, irdma1, rocep1s0f0, hfi1_0, efa_0, rdmap0s6 and their kin.
var rdmaName = regexp.MustCompile(`^(mlx\d_|mlx\d+bond|bnxt_re|irdma|roce|ibp|hfi\d|efa_|rdmap|erdma|qedr|cxgb|ionic_|hns_)`)

// rdmaAdapters counts the RDMA adapters that an input names: the most of one of them, for several speak of the same.
func (p *Pass) rdmaAdapters(l *ncclLog) (most int, refs []Ref) {
	for _, h := range l.hosts {
		if n := int(h.attr[timeline.AttrNCCLRDMA].Value); n > most {
			most, refs = n, h.refs[timeline.AttrNCCLRDMA][:1]
		}
	}
	names := map[timeline.SourceID]map[string]bool{}
	note := func(src timeline.SourceID, name string, ref func() Ref) {
		name, _, _ = strings.Cut(name, ":")
		if !rdmaName.MatchString(name) {
			return
		}
		if names[src] == nil {
			names[src] = map[string]bool{}
		}
		names[src][name] = true
		if len(names[src]) > most {
			if most, refs = len(names[src]), nil; ref != nil {
				refs = []Ref{ref()}
			}
		}
	}
	for i := range p.Base.Links {
		k := &p.Base.Links[i]
		for _, name := range []string{k.A, k.B} {
			note(k.Source, name, func() Ref { return Ref{Path: p.Base.Sources[k.Source].Path, Row: uint64(k.Row)} })
		}
	}
	for i := range p.Base.Tracks {
		if t := &p.Base.Tracks[i]; t.Kind == timeline.TrackNIC {
			note(t.Source, t.Name, nil)
		}
	}
	return most, refs
}

func (p *Pass) netText(l *ncclLog) {
	for _, h := range l.hosts {
		a, ok := h.attr[timeline.AttrNCCLNetwork]
		if !ok {
			continue
		}
		text := a.Text
		if ad, ok := h.attr[timeline.AttrNCCLAdapters]; ok {
			text += " over " + ad.Text
		}
		if e, ok := h.attr[timeline.AttrNCCLEnv]; ok {
			text += "; set: " + e.Text
		}
		v := refValue(0, h.refs[timeline.AttrNCCLNetwork])
		v.Text = text
		p.Set(runNetText, 0, v)
		return
	}
	why := "the log of NCCL does not say which network it uses"
	if len(l.hosts) == 0 {
		why = noNCCL
	}
	p.Miss(runNetText, 0, why)
}

// far are the kinds of ways of a matrix that go through a host's bridges or sockets.
func farKind(kind string) bool { return kind == "NODE" || kind == "SYS" || kind == "SOC" }

func (p *Pass) gpuPaths(sub int, c *Card, cards []Card, l *ncclLog) {
	words := p.matrixPaths(sub, c, cards, l)
	if c.Rank < 0 || l.of[c.Rank] == "" {
		why := noNCCL
		if len(l.hosts) > 0 {
			why = "the log of NCCL does not name this GPU's rank"
		}
		p.Miss(gpuP2POff, sub, why)
	} else {
		me, host := "rank"+strconv.Itoa(c.Rank), l.of[c.Rank]
		off := map[string]string{} // by peer
		var refs []Ref
		var order []string
		seen := false
		for _, k := range l.links {
			peer := ""
			switch me {
			case k.A:
				peer = k.B
			case k.B:
				peer = k.A
			default:
				continue
			}
			n, err := strconv.Atoi(strings.TrimPrefix(peer, "rank"))
			if err != nil || l.of[n] != host {
				continue
			}
			seen = true
			if (strings.HasPrefix(k.Kind, "SHM") || strings.HasPrefix(k.Kind, "NET/")) && off[peer] == "" {
				off[peer] = k.Kind
				order = append(order, peer)
				refs = append(refs, Ref{Path: p.Base.Sources[k.Source].Path, Row: uint64(k.Row)})
			}
		}
		if seen || l.alone(host) {
			p.Set(gpuP2POff, sub, refValue(float64(len(off)), refs))
		} else {
			p.Miss(gpuP2POff, sub, noChannels)
		}
		for _, peer := range order {
			words = append(words, fmt.Sprintf("%s to %s", off[peer], peer))
		}
		if len(off) > 0 {
			for _, h := range l.hosts {
				if _, ok := h.attr[timeline.AttrNCCLP2POff]; ok && h.name == host {
					words = append(words, "peer access is off, says NCCL")
					break // each process logs it, for each pair
				}
			}
		}
	}
	if len(words) > 0 {
		p.Set(gpuFarText, sub, Value{Text: strings.Join(words, ", "), Cover: 1, Conf: timeline.Measured})
	} else {
		p.Miss(gpuFarText, sub, "no input shows a slow way from this GPU")
	}
}

// alone tells whether the log knows one rank of a host.
func (l *ncclLog) alone(host string) bool {
	n := 0
	for _, h := range l.of {
		if h == host {
			n++
		}
	}
	return n == 1
}

// matrixRow is a GPU's row of a topology matrix.
type matrixRow struct {
	source timeline.SourceID
	index  int
	used   map[string]bool // GPUs of the matrix that the run uses
	conf   Confidence
}

// matrixRow finds the GPU in a matrix: the first that names a device which is this card, else, as a matrix states no UUIDs, by the index
// that NCCL logs of its rank in the only matrix there is: hosts of one job are built alike.
func (p *Pass) matrixRow(c *Card, cards []Card, l *ncclLog) (matrixRow, bool) {
	matrices := map[timeline.SourceID]bool{}
	for _, k := range p.Base.Links {
		if strings.HasPrefix(k.A, "GPU") {
			matrices[k.Source] = true
		}
	}
	for _, id := range c.Devices {
		d := &p.Base.Devices[id]
		if d.Index < 0 || !matrices[d.Source] {
			continue
		}
		row := matrixRow{d.Source, d.Index, map[string]bool{}, timeline.Measured}
		for i := range cards {
			for _, o := range cards[i].Devices {
				if od := &p.Base.Devices[o]; od.Source == d.Source && od.Index >= 0 && !cards[i].Unused {
					row.used["GPU"+strconv.Itoa(od.Index)] = true
				}
			}
		}
		return row, true
	}
	index, ok := l.index[c.Rank]
	if c.Rank < 0 || !ok || len(matrices) != 1 {
		return matrixRow{}, false
	}
	row := matrixRow{index: index, used: map[string]bool{}, conf: timeline.Inferred}
	for src := range matrices {
		row.source = src
	}
	for rank, n := range l.index {
		if l.of[rank] == l.of[c.Rank] {
			row.used["GPU"+strconv.Itoa(n)] = true
		}
	}
	return row, true
}

// matrixPaths reads the GPU's row of a matrix. It gives the ways without NVLink in words.
func (p *Pass) matrixPaths(sub int, c *Card, cards []Card, l *ncclLog) (words []string) {
	distance := map[string]int{"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4, "SOC": 4}
	row, ok := p.matrixRow(c, cards, l)
	me := "GPU" + strconv.Itoa(row.index)
	var far, nics []timeline.Link
	var at uint32
	found, anyNV := false, false
	for _, k := range p.Base.Links {
		if !ok || k.Source != row.source || !strings.HasPrefix(k.A, "GPU") {
			continue
		}
		toGPU := strings.HasPrefix(k.B, "GPU")
		anyNV = anyNV || k.Count > 0 && toGPU
		switch _, known := distance[k.Kind]; {
		case k.A != me:
			continue
		case toGPU && k.Count == 0 && row.used[k.B]:
			far = append(far, k)
		case !toGPU && known:
			nics = append(nics, k)
		}
		found, at = true, k.Row
	}
	if !found {
		p.missAll(sub, "no topology matrix that names this GPU was given", gpuFarPeers, gpuNICFar, gpuNICText)
		return nil
	}
	if !anyNV {
		far = nil
	}
	v := refValue(float64(len(far)), []Ref{{Path: p.Base.Sources[row.source].Path, Row: uint64(at)}})
	v.Conf = row.conf
	p.Set(gpuFarPeers, sub, v)
	for _, k := range far {
		words = append(words, k.Kind+" to "+k.B)
	}
	if len(nics) == 0 {
		p.missAll(sub, "the topology matrix names no adapter", gpuNICFar, gpuNICText)
		return words
	}
	near := slices.MinFunc(nics, func(a, b timeline.Link) int { return distance[a.Kind] - distance[b.Kind] })
	if v.Num = 0; farKind(near.Kind) {
		v.Num = 1
	}
	p.Set(gpuNICFar, sub, v)
	v.Num, v.Text = 0, near.B+" over "+near.Kind
	p.Set(gpuNICText, sub, v)
	return words
}
