package facts

import (
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

func portDecl(id ID, doc string) *Decl {
	return &Decl{ID: id, Doc: doc, Unit: unit.BytePerSecond, Per: Host, Max: 1e15, Capture: "C5"}
}

var (
	hostPorts = &Decl{ID: "host.ports_count", Doc: "Network ports of the host whose traffic was sampled, those without any included.",
		Unit: unit.Count, Per: Host, Max: 1e6, Capture: "C5"}
	hostTxPeak = portDecl("host.port_tx_peak_bytes_per_s", "Highest rate at which one network port of the host sent, over one reading.")
	hostRxPeak = portDecl("host.port_rx_peak_bytes_per_s", "Highest rate at which one network port of the host received, over one reading.")
	hostTxComm = portDecl("host.port_tx_comm_bytes_per_s", "Mean rate at which the host's busiest port sent while a collective ran, each reading by the time it shares with collectives.")
	hostRxComm = portDecl("host.port_rx_comm_bytes_per_s", "Mean rate at which the host's busiest port received while a collective ran, each reading by the time it shares with collectives.")
)

// Ports: what went over the network, and what of it while ranks communicated? Peaks are of one port and one reading; means weigh each
// reading by its time under the union of all collectives of the traces. Missing: no port was sampled, no trace, or no collective in it.
var Ports = &Deriver{Name: "ports", Gives: []*Decl{hostPorts, hostTxPeak, hostRxPeak, hostTxComm, hostRxComm}, Run: func(p *Pass) {
	hosts := p.Facts.Of(Host)
	if len(hosts) == 0 {
		return
	}
	busy := p.collectiveTime()
	for _, sub := range hosts {
		p.portsOf(sub, busy)
	}
}}

// collectiveTime is the union of all collectives of the traces, hidden ones included.
func (p *Pass) collectiveTime() []timeline.Interval {
	var out []timeline.Interval
	for _, r := range p.Job.Ranks {
		for i := range r.Collectives {
			out = append(out, timeline.Interval{Start: r.Collectives[i].Start, End: r.Collectives[i].End})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Start < out[j].Start })
	return timeline.Union(out)
}

func (p *Pass) portsOf(sub int, busy []timeline.Interval) {
	ports := map[timeline.TrackID]bool{}
	for i := range p.Base.Series {
		s := &p.Base.Series[i]
		if t := &p.Base.Tracks[s.Track]; t.Kind == timeline.TrackNIC && p.onHost(sub, t.Source) && (s.Metric.Name == timeline.NetRx.Name || s.Metric.Name == timeline.NetTx.Name) {
			ports[s.Track] = true
		}
	}
	if len(ports) == 0 {
		p.missAll(sub, "no network port of this host was sampled", hostPorts, hostTxPeak, hostRxPeak, hostTxComm, hostRxComm)
		return
	}
	p.Set(hostPorts, sub, measured(float64(len(ports))))
	p.portRates(sub, timeline.NetTx, busy, hostTxPeak, hostTxComm)
	p.portRates(sub, timeline.NetRx, busy, hostRxPeak, hostRxComm)
}

func (p *Pass) portRates(sub int, m timeline.Metric, busy []timeline.Interval, peak, under *Decl) {
	var top, most *timeline.Series
	var at int
	var share, meanLen float64
	var conf Confidence
	found := false
	for i := range p.Base.Series {
		s := &p.Base.Series[i]
		t := &p.Base.Tracks[s.Track]
		if t.Kind != timeline.TrackNIC || s.Metric.Name != m.Name || !p.onHost(sub, t.Source) {
			continue
		}
		cut := cutSeries(p.Input, s)
		if len(cut.At) == 0 {
			continue
		}
		found = true
		if k := argMax(cut.Value); top == nil || cut.Value[k] > top.Value[at] {
			top, at = &cut, k
		}
		if !p.besideTraces(s) {
			continue
		}
		rate, ns, n := rateUnder(&cut, busy)
		if n == 0 {
			continue
		}
		if most == nil || rate > share {
			most, share, meanLen = &cut, rate, ns/float64(n)
			conf = timeline.Measured
			if meanLen < float64(cut.Metric.Window)/2 {
				conf = timeline.Inferred // collectives are shorter than readings, which hold other time too
			}
		}
	}
	if !found {
		p.missAll(sub, "no reading of this direction lies in the window", peak, under)
		return
	}
	v := Value{Num: top.Value[at], Cover: p.cover(top), Conf: timeline.Measured, Refs: []Ref{p.Base.SeriesRef(top, at)}, NRefs: 1}
	p.Set(peak, sub, v)
	switch {
	case len(p.Job.Ranks) == 0:
		p.Miss(under, sub, noTrace)
	case len(busy) == 0:
		p.Miss(under, sub, "no collective ran in the traces")
	case most == nil:
		p.Miss(under, sub, "no reading of the network lies under a collective of the traces")
	default:
		v := p.sampled(most, share)
		v.Conf = conf
		p.Set(under, sub, v)
	}
}

// besideTraces tells whether the series' time can be compared with that of the traces: its clock is placed, or it is of one of them.
func (p *Pass) besideTraces(s *timeline.Series) bool {
	if placed(p.Base, s) {
		return true
	}
	path := p.Base.Sources[p.Base.Tracks[s.Track].Source].Path
	for _, r := range p.Job.Ranks {
		if r.Path == path {
			return true
		}
	}
	return false
}

// rateUnder is the mean of the readings weighed by their time under busy, that time, and how many readings have some.
func rateUnder(s *timeline.Series, busy []timeline.Interval) (rate, ns float64, n int) {
	sum := 0.0
	for i, at := range s.At {
		from := at - timeline.Time(s.Metric.Window)
		over := 0.0
		for k := sort.Search(len(busy), func(k int) bool { return busy[k].End > from }); k < len(busy) && busy[k].Start < at; k++ {
			over += float64(min(busy[k].End, at) - max(busy[k].Start, from))
		}
		if over > 0 {
			sum += s.Value[i] * over
			ns += over
			n++
		}
	}
	if ns == 0 {
		return 0, 0, 0
	}
	return sum / ns, ns, n
}
