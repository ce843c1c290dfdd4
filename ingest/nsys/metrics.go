package nsys

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const (
	metricWindow = 10e6    // ns; readings come at 10 Hz to 200 kHz
	maxReadings  = 1 << 16 // of a series: longer captures have wider windows
	maxSeries    = 1 << 12
)

// metricNames are the GPU metrics by the beginning of their lower-case name, which is not stable beyond it; the first that fits.
var metricNames = []struct {
	prefix string
	name   string
	unit   unit.Unit
}{
	{"gr active", "gr_active_frac", unit.Frac},
	{"gpu active", "gr_active_frac", unit.Frac},
	{"sms active", "sm_active_frac", unit.Frac},
	{"sm active", "sm_active_frac", unit.Frac},
	{"sm issue", "sm_issue_frac", unit.Frac},
	{"tensor active", "tensor_active_frac", unit.Frac},
	{"compute warps in flight", "warps_in_flight_frac", unit.Frac},
	{"dram read", "dram_read_frac", unit.Frac},
	{"dram write", "dram_write_frac", unit.Frac},
	{"pcie rx", "pcie_h2d_frac", unit.Frac},
	{"pcie tx", "pcie_d2h_frac", unit.Frac},
	{"nvlink rx", "nvlink_rx_frac", unit.Frac},
	{"nvlink tx", "nvlink_tx_frac", unit.Frac},
	{"sync copy engine active", "copy_engine_sync_frac", unit.Frac},
	{"async copy engine active", "copy_engine_async_frac", unit.Frac},
	{"gpc clock frequency", "clock_sm_hz", unit.Hertz},
	{"sys clock frequency", "clock_sys_hz", unit.Hertz},
}

// gpuMetric is one metric of one GPU while it is summed up.
type gpuMetric struct {
	gpu    int64 // low byte of typeId
	metric timeline.Metric
	window int64 // the current one
	sum    float64
	n      int
	row    uint32
	at     []timeline.Time
	value  []float64
	rows   []uint32
}

type metricKey struct{ typeID, id int64 }

type metricSet struct {
	window int64
	list   []*gpuMetric
}

// gpuMetrics reads sampled counters into means over windows.
func (r *reader) gpuMetrics() error {
	if r.db.tables[tMetrics] == nil {
		return nil
	}
	set := &r.metrics
	set.window = metricWindow
	if d := max(r.m.duration, r.maxAt); d > 0 {
		for d/set.window > maxReadings {
			set.window *= 2
		}
	}
	of := map[metricKey]*gpuMetric{}
	type gpuName struct {
		gpu  int64
		name string
	}
	taken := map[gpuName]bool{}
	unknown := map[string]bool{}
	err := r.db.scan("TARGET_INFO_GPU_METRICS", []string{"typeId", "metricId", "metricName"}, func(w *row) {
		key := metricKey{w.num(0), w.num(1)}
		m, ok := metricOf(w.text(2), set.window)
		if !ok {
			if len(unknown) < 256 {
				unknown[clean(w.text(2))] = true
			}
			return
		}
		// Of several pipes or engines under one name the first is kept: their sum is not a share.
		at := gpuName{key.typeID & 0xFF, m.Name}
		if taken[at] || of[key] != nil || len(set.list) >= maxSeries {
			return
		}
		taken[at] = true
		of[key] = &gpuMetric{gpu: key.typeID & 0xFF, metric: m, window: math.MinInt64}
		set.list = append(set.list, of[key])
	})
	if err != nil {
		return err
	}
	lost := int64(0)
	err = r.db.scanNumbers(tMetrics, []string{"timestamp", "typeId", "metricId", "value"}, func(w *row) {
		g := of[metricKey{w.num(1), w.num(2)}]
		if g == nil {
			return
		}
		at, ok := w.int(0)
		v, ok2 := w.int(3)
		if !ok || !ok2 || at < r.m.lo || at > r.m.hi {
			lost++
			return
		}
		x := float64(v)
		if g.metric.Unit == unit.Hertz {
			if v < 0 && v >= math.MinInt32 {
				x += 1 << 32 // the file keeps 32 bits of it
			}
			if x > 0 && x < 1e5 {
				x *= 1e6 // true to its label for once
			}
			if x < 0 || x > 1e11 {
				lost++
				return
			}
		} else {
			if v < 0 || v > 101 {
				lost++
				return
			}
			x = min(x, 100) / 100
		}
		r.rows++
		k := floorDiv(at, set.window)
		if k != g.window {
			g.flush(set.window, r.m.epoch)
			g.window, g.row = k, w.n
		}
		g.sum += x
		g.n++
	})
	for _, g := range set.list {
		g.flush(set.window, r.m.epoch)
	}
	r.in.ReportN(lost, "nsys/bad-metric", timeline.DataLoss, 0, "%s: readings that no GPU can have; left out", tMetrics)
	if len(unknown) > 0 {
		names := slices.Sorted(maps.Keys(unknown))
		r.in.ReportN(int64(len(names)), "nsys/unknown-metric", timeline.Info, 0, "GPU metrics that are not kept: %s", strings.Join(names[:min(len(names), 8)], ", "))
	}
	return err
}

func metricOf(name string, window int64) (timeline.Metric, bool) {
	low := strings.ToLower(strings.TrimSpace(name))
	for _, m := range metricNames {
		if strings.HasPrefix(low, m.prefix) {
			if m.unit == unit.Frac && strings.HasSuffix(low, "[avg]") {
				continue // a count, and another row has the share
			}
			return timeline.Metric{Name: m.name, Unit: m.unit, Covers: timeline.WindowBefore, Window: time.Duration(window)}, true
		}
	}
	return timeline.Metric{}, false
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// flush ends the current window: its mean is a reading at its end.
func (g *gpuMetric) flush(window, epoch int64) {
	if g.n == 0 {
		return
	}
	g.at = append(g.at, timeline.Time((g.window+1)*window+epoch))
	g.value = append(g.value, g.sum/float64(g.n))
	g.rows = append(g.rows, g.row)
	g.sum, g.n = 0, 0
}

// placeMetrics gives the series their GPU: the one whose id is the type's low byte, if ids and physical numbers agree on it.
func (r *reader) placeMetrics() {
	tl := &r.b.TL
	tracks := map[int64]timeline.TrackID{}
	for _, g := range r.metrics.list {
		if len(g.at) == 0 {
			continue
		}
		id, ok := tracks[g.gpu]
		if !ok {
			tr := timeline.Track{Source: r.in.Source, Table: tl.Names.IDOf(tMetrics), Kind: timeline.TrackGPU, Proc: -1, Thread: -1, Name: "metrics of GPU type " + strconv.FormatInt(g.gpu, 10)}
			tr.Device = r.metricDevice(g.gpu)
			id = r.b.Track(tr)
			tracks[g.gpu] = id
		}
		tl.Series = append(tl.Series, timeline.Series{Metric: g.metric, Track: id, At: g.at, Value: g.value, Row: g.rows})
	}
}

// metricDevice finds or makes the device of a GPU number of the metrics.
func (r *reader) metricDevice(number int64) timeline.DeviceID {
	tl := &r.b.TL
	byID, byPW := -1, -1
	for i, g := range r.m.gpus {
		if g.id == number {
			byID = i
		}
		if g.pw == number {
			byPW = i
		}
	}
	found := byID
	switch {
	case byID >= 0 && byPW >= 0 && byID != byPW:
		found = -1
		r.in.Report("nsys/metric-gpu", timeline.Info, 0, "which GPU the metrics of number %d are of cannot be told: the file counts its GPUs in two ways", number)
	case byID < 0:
		found = byPW
	}
	d := timeline.Device{Vendor: "nvidia", Index: -1, Ordinal: -1, Source: r.in.Source, Proc: -1}
	if found >= 0 {
		d = r.m.gpus[found].dev
		match := timeline.DeviceID(-1)
		for i := range tl.Devices {
			if o := &tl.Devices[i]; o.Source == r.in.Source && d.UUID != "" && o.UUID == d.UUID {
				if match >= 0 {
					match = -1 // several processes share it
					break
				}
				match = timeline.DeviceID(i)
			}
		}
		if match >= 0 {
			return match
		}
	}
	return r.b.AddDevice(d)
}
