package nsys

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

const (
	nicWindow = 10e6 // ns; finer readings are averaged
	maxPorts  = 1 << 10
)

// nicNames are the network metrics by name in lower case, without the layer in front of it.
var nicNames = []struct {
	name   string
	metric timeline.Metric
}{
	{"bytes received", timeline.NetRx},
	{"bytes sent", timeline.NetTx},
	{"send waits", timeline.NetWait},
}

// nicLayers count the same traffic in different places, so one of them counts: the first that saw any, else the first that was read.
var nicLayers = []string{"ib", "eth", "ipoib"}

// nicMetric is a row of TARGET_INFO_NETWORK_METRICS that is read.
type nicMetric struct {
	metric int     // in nicNames
	layer  int     // in nicLayers
	scale  float64 // value to a rate a second; 0: the value is a count of its interval
}

// nicMetricOf tells what a metric of the list is. Its values are rates a millisecond though the name does not say so; the unit does.
func nicMetricOf(name, unit string) (m nicMetric, ok bool) {
	layer, rest, ok := strings.Cut(strings.ToLower(name), ":")
	if !ok {
		return m, false
	}
	m.layer = slices.Index(nicLayers, strings.TrimSpace(layer))
	m.metric = -1
	for i, n := range nicNames {
		if strings.TrimSpace(rest) == n.name {
			m.metric = i
		}
	}
	_, per, isRate := strings.Cut(strings.ToLower(strings.TrimSpace(unit)), "/")
	switch {
	case unit == "" || isRate && strings.TrimSpace(per) == "ms":
		m.scale = 1e3
	case isRate && strings.TrimSpace(per) == "s":
		m.scale = 1
	case isRate:
		return m, false
	}
	return m, m.layer >= 0 && m.metric >= 0
}

type nicPort struct{ id, port int64 }

func (a nicPort) compare(b nicPort) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.port, b.port))
}

// nicCurve is one metric of one port, by layer, while it is averaged over windows.
type nicCurve struct {
	at, dur []int64 // end of the last row of a window, ns of its rows
	amount  []float64
	row     []uint32
	traffic bool
	window  int64
}

// add takes a row that speaks of [start, end).
func (c *nicCurve) add(start, end int64, amount float64, row uint32) {
	c.traffic = c.traffic || amount > 0
	if n := len(c.at); n > 0 && floorDiv(c.at[n-1]-1, c.window) == floorDiv(end-1, c.window) {
		c.at[n-1] = max(c.at[n-1], end)
		c.dur[n-1] += end - start
		c.amount[n-1] += amount
		return
	}
	if len(c.at) >= maxReadings {
		c.widen()
	}
	c.at, c.dur, c.amount, c.row = append(c.at, end), append(c.dur, end-start), append(c.amount, amount), append(c.row, row)
}

func (c *nicCurve) widen() {
	c.window *= 2
	k := 0
	for i := range c.at {
		if k > 0 && floorDiv(c.at[k-1]-1, c.window) == floorDiv(c.at[i]-1, c.window) {
			c.at[k-1] = max(c.at[k-1], c.at[i])
			c.dur[k-1] += c.dur[i]
			c.amount[k-1] += c.amount[i]
			continue
		}
		c.at[k], c.dur[k], c.amount[k], c.row[k] = c.at[i], c.dur[i], c.amount[i], c.row[i]
		k++
	}
	c.at, c.dur, c.amount, c.row = c.at[:k], c.dur[:k], c.amount[:k], c.row[:k]
}

type nicSet struct {
	curves map[nicPort]*[3][3]nicCurve // by metric and layer
	names  map[int64]string            // by globalId
}

// nicMetrics reads the counters of network ports into mean rates over windows. A port that was read and saw nothing has zeros; one that
// was not read has no series.
func (r *reader) nicMetrics() error {
	if r.db.tables[tNIC] == nil {
		return nil
	}
	set := &r.metrics.nics
	set.curves = map[nicPort]*[3][3]nicCurve{}
	type listed struct{ list, index int64 }
	metrics := map[listed]nicMetric{}
	err := r.db.scan("TARGET_INFO_NETWORK_METRICS", []string{"metricsListId", "metricsIdx", "name", "unit"}, func(w *row) {
		if m, ok := nicMetricOf(w.text(2), w.text(3)); ok && len(metrics) < maxCounters {
			metrics[listed{w.num(0), w.num(1)}] = m
		}
	})
	if err = cmp.Or(err, r.nicNames()); err != nil {
		return err
	}
	lost := int64(0)
	err = r.db.scan(tNIC, []string{"start", "end", "globalId", "portId", "metricsListId", "metricsIdx", "value"}, func(w *row) {
		m, ok := metrics[listed{w.num(4), w.num(5)}]
		if !ok {
			return
		}
		start, ok1 := w.int(0)
		end, ok2 := w.int(1)
		v := w.s.ColumnFloat(7)
		if _, ok3 := w.int(6); !ok1 || !ok2 || !ok3 || start < r.m.lo || end > r.m.hi || end <= start || v < 0 || math.IsNaN(v) || v > 1e15 {
			lost++
			return
		}
		port := nicPort{w.num(2), w.num(3)}
		p := set.curves[port]
		if p == nil {
			if len(set.curves) >= maxPorts {
				return
			}
			p = &[3][3]nicCurve{}
			set.curves[port] = p
		}
		r.rows++
		c := &p[m.metric][m.layer]
		if c.window == 0 {
			c.window = nicWindow
		}
		if m.scale > 0 {
			v *= m.scale * float64(end-start) / 1e9
		}
		c.add(start, end, v, w.n)
	})
	r.in.ReportN(lost, "nsys/bad-metric", timeline.DataLoss, 0, "%s: readings without a time, or that no port can have; left out", tNIC)
	if len(metrics) == 0 && err == nil {
		r.in.Report("nsys/network-names", timeline.DataLoss, 0, "no names of network metrics in TARGET_INFO_NETWORK_METRICS that are known: the readings of %s cannot be told apart; export again with a newer nsys", tNIC)
	}
	return err
}

// nicNames reads what the ports' cards are called: by the number of the readings in older exports, through NIC_ID_MAP in newer ones.
func (r *reader) nicNames() error {
	names, mapped := map[int64]string{}, map[int64]int64{}
	key := "nicId"
	if !r.db.tables["TARGET_INFO_NIC_INFO"].has("nicId") {
		key = "globalId"
	}
	err := firstError(
		r.db.scan("TARGET_INFO_NIC_INFO", []string{key, "name"}, func(w *row) {
			if id, ok := w.int(0); ok && len(names) < maxPorts {
				names[id] = clean(w.text(1))
			}
		}),
		r.db.scan("NIC_ID_MAP", []string{"globalId", "nicId"}, func(w *row) {
			if len(mapped) < maxPorts {
				mapped[w.num(0)] = w.num(1)
			}
		}),
	)
	r.metrics.nics.names = map[int64]string{}
	if key == "globalId" {
		r.metrics.nics.names = names
	}
	for global, nic := range mapped {
		if names[nic] != "" {
			r.metrics.nics.names[global] = names[nic]
		}
	}
	return err
}

// placeNICs gives each port that was read a track.
func (r *reader) placeNICs() {
	tl := &r.b.TL
	// Two cards of one name are told apart by their number.
	count := map[string]int{}
	seen := map[int64]bool{}
	ports := slices.SortedFunc(maps.Keys(r.metrics.nics.curves), nicPort.compare)
	for _, p := range ports {
		if !seen[p.id] {
			seen[p.id] = true
			count[r.metrics.nics.names[p.id]]++
		}
	}
	for _, p := range ports {
		name := r.metrics.nics.names[p.id]
		switch {
		case name == "":
			name = "NIC " + strconv.FormatUint(uint64(p.id), 16)
		case count[name] > 1:
			name += " " + strconv.FormatUint(uint64(p.id), 16)
		}
		if p.port > 0 {
			name += ":" + strconv.FormatInt(p.port, 10)
		}
		track := timeline.TrackID(-1)
		for m, layers := range r.metrics.nics.curves[p] {
			best := -1
			for l := range layers {
				if c := &layers[l]; len(c.at) > 0 && (best < 0 || c.traffic && !layers[best].traffic) {
					best = l
				}
			}
			if best < 0 {
				continue
			}
			if track < 0 {
				track = r.b.Track(timeline.Track{Source: r.in.Source, Table: tl.Names.IDOf(tNIC), Kind: timeline.TrackNIC, Proc: -1, Device: -1, Thread: -1, Name: name})
			}
			c := &layers[best]
			s := timeline.Series{Metric: nicNames[m].metric, Track: track, Row: c.row}
			total := int64(0)
			for i, at := range c.at {
				total += c.dur[i]
				s.At = append(s.At, timeline.Time(at+r.m.epoch))
				s.Value = append(s.Value, c.amount[i]*1e9/float64(c.dur[i]))
			}
			s.Metric.Window = time.Duration(total / int64(len(c.at)))
			tl.Series = append(tl.Series, s)
		}
	}
	if host := r.soleHost(); host != "" && len(ports)+len(r.metrics.gpus) > 0 {
		r.b.Source(r.in.Source).Host = host
	}
}

// soleHost is the machine that was recorded, if the file speaks of one.
func (r *reader) soleHost() string {
	if len(r.m.hosts) != 1 {
		return ""
	}
	for _, h := range r.m.hosts {
		return h
	}
	return ""
}
