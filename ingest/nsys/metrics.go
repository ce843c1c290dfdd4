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
	"gpureport/ingest/unit"
)

const (
	metricWindow = 1e6     // ns; samples come at 10 Hz to 200 kHz, finer ones are averaged
	maxReadings  = 1 << 16 // of a counter: longer captures have wider windows
	allReadings  = 1 << 22 // of all counters
	maxCounters  = 1 << 12
)

// joining says what several counters under one name give.
type joining uint8

const (
	joinFirst joining = iota // the first listed: the others are engines of their own
	joinSum                  // parts of one whole; the sum is cut at 1
)

// metricNames are the GPU metrics by the beginning of their name in lower case, which is not stable beyond it; the first that fits. Of
// those of one metric the lowest rank that a file has counts.
var metricNames = []struct {
	prefix string
	metric timeline.Metric
	rank   int
	join   joining
}{
	{"gr active", timeline.GRActive, 0, joinFirst},
	{"gpu active", timeline.GPUEngines, 0, joinFirst},
	{"sms active", timeline.SMActive, 0, joinFirst},
	{"sm active", timeline.SMActive, 0, joinFirst},
	{"sm issue", timeline.SMIssue, 0, joinFirst},
	{"tensor active", timeline.TensorActive, 0, joinFirst}, // as a whole, on some parts with FP16: "Tensor Active / FP16 Active"
	{"compute warps in flight", timeline.SMOccupancy, 0, joinFirst},
	{"dram active", timeline.DRAMActive, 0, joinFirst},
	{"dram bandwidth", timeline.DRAMActive, 0, joinFirst},
	{"dram read", timeline.DRAMRead, 0, joinFirst},
	{"dram write", timeline.DRAMWrite, 0, joinFirst},
	{"vram read", timeline.DRAMRead, 1, joinFirst},
	{"vram write", timeline.DRAMWrite, 1, joinFirst},
	{"pcie rx", timeline.PCIeRxFrac, 0, joinFirst},
	{"pcie tx", timeline.PCIeTxFrac, 0, joinFirst},
	{"nvlink rx", timeline.NVLinkRxFrac, 0, joinSum},
	{"nvlink tx", timeline.NVLinkTxFrac, 0, joinSum},
	{"sync copy engine active", timeline.CopySync, 0, joinFirst},
	{"async copy engine active", timeline.CopyAsync, 0, joinFirst},
	{"gpc clock frequency", timeline.ClockGPC, 0, joinFirst},
	{"sys clock frequency", timeline.ClockSys, 0, joinFirst},
}

// target is a metric that a counter counts for.
type target struct {
	metric timeline.Metric
	rank   int
	join   joining
}

// metricOf tells what a counter is. Shares only: one name comes as a share, as a count and as an average a cycle.
func metricOf(name string) (target, bool) {
	low, bracket, _ := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "[")
	low = strings.TrimSpace(low)
	share := bracket == "" || strings.Contains(bracket, "%")
	for _, m := range metricNames {
		if !strings.HasPrefix(low, m.prefix) {
			continue
		}
		t := target{m.metric, m.rank, m.join}
		if m.metric.Unit == unit.Frac && !share {
			return target{}, false
		}
		if m.metric.Name == timeline.TensorActive.Name {
			// The pipe by type of number: a core works on one at a time.
			if rest := strings.TrimLeft(low[len(m.prefix):], " /"); rest != "" && rest != "fp16 active" {
				t.rank, t.join = 1, joinSum
			}
		}
		return t, true
	}
	if share && strings.Contains(low, "tensor") && strings.Contains(low, "active") {
		return target{timeline.TensorActive, 1, joinSum}, true
	}
	return target{}, false
}

// counter is one metric of one GPU while it is averaged over windows, each named by its last sample.
type counter struct {
	target
	window  int64
	most    int // readings it may have
	at      []int64
	sum     []float64
	n       []uint32
	row     []uint32
	samples int64
	first   int64
}

func (c *counter) add(at int64, x float64, row uint32) {
	if c.samples == 0 {
		c.first = at
	}
	c.samples++
	if n := len(c.at); n > 0 && c.index(c.at[n-1]) == c.index(at) {
		c.at[n-1] = max(c.at[n-1], at)
		c.sum[n-1] += x
		c.n[n-1]++
		return
	}
	if len(c.at) >= c.most {
		c.widen(2 * c.window)
		c.samples--
		c.add(at, x, row)
		return
	}
	c.at, c.sum, c.n, c.row = append(c.at, at), append(c.sum, x), append(c.n, 1), append(c.row, row)
}

// index is the window of a sample, which speaks of the time before its stamp.
func (c *counter) index(at int64) int64 { return floorDiv(at-1, c.window) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// widen joins windows. The width is a multiple of the old one.
func (c *counter) widen(window int64) {
	c.window = window
	k := 0
	for i := range c.at {
		if k > 0 && c.index(c.at[k-1]) == c.index(c.at[i]) {
			c.at[k-1] = max(c.at[k-1], c.at[i])
			c.sum[k-1] += c.sum[i]
			c.n[k-1] += c.n[i]
			continue
		}
		c.at[k], c.sum[k], c.n[k], c.row[k] = c.at[i], c.sum[i], c.n[i], c.row[i]
		k++
	}
	c.at, c.sum, c.n, c.row = c.at[:k], c.sum[:k], c.n[:k], c.row[:k]
}

// metricGPU is a GPU as the types of metrics number it: host, then its own number.
type metricGPU struct{ vm, number int64 }

func gpuOfType(typeID int64) metricGPU { return metricGPU{typeID &^ (1<<48 - 1), typeID & 0xFF} }

func (a metricGPU) compare(b metricGPU) int {
	return cmp.Or(cmp.Compare(a.vm, b.vm), cmp.Compare(a.number, b.number))
}

type metricKey struct{ typeID, id int64 }

type metricSet struct {
	of   map[metricGPU][]*counter // in the order of the file
	gpus []metricGPU              // sorted
	nics nicSet
}

// gpuMetrics reads sampled counters, of GPUs and of network ports, into means over windows.
func (r *reader) gpuMetrics() error { return firstError(r.gpuCounters(), r.nicMetrics()) }

func (r *reader) gpuCounters() error {
	if r.db.tables[tMetrics] == nil {
		return nil
	}
	set := &r.metrics
	set.of = map[metricGPU][]*counter{}
	counters := map[metricKey]*counter{}
	unknown := map[string]bool{}
	err := r.db.scan("TARGET_INFO_GPU_METRICS", []string{"typeId", "metricId", "metricName"}, func(w *row) {
		key := metricKey{w.num(0), w.num(1)}
		t, ok := metricOf(w.text(2))
		if !ok {
			if len(unknown) < 256 {
				unknown[clean(w.text(2))] = true
			}
			return
		}
		if counters[key] != nil || len(counters) >= maxCounters {
			return
		}
		c := &counter{target: t, window: metricWindow}
		counters[key] = c
		gpu := gpuOfType(key.typeID)
		set.of[gpu] = append(set.of[gpu], c)
	})
	if err != nil {
		return err
	}
	set.gpus = slices.SortedFunc(maps.Keys(set.of), metricGPU.compare)
	for _, c := range counters {
		c.most = min(maxReadings, max(allReadings/len(counters), 1<<10))
	}
	lost := int64(0)
	err = r.db.scanNumbers(tMetrics, []string{"timestamp", "typeId", "metricId", "value"}, func(w *row) {
		c := counters[metricKey{w.num(1), w.num(2)}]
		if c == nil {
			return
		}
		at, ok := w.int(0)
		v, ok2 := w.int(3)
		x, ok3 := c.reading(v)
		if !ok || !ok2 || !ok3 || at < r.m.lo || at > r.m.hi {
			lost++
			return
		}
		r.rows++
		c.add(at, x, w.n)
	})
	r.in.ReportN(lost, "nsys/bad-metric", timeline.DataLoss, 0, "%s: readings that no GPU can have; left out", tMetrics)
	if len(unknown) > 0 {
		names := slices.Sorted(maps.Keys(unknown))
		r.in.ReportN(int64(len(names)), "nsys/unknown-metric", timeline.Info, 0, "GPU metrics that are not kept: %s", strings.Join(names[:min(len(names), 8)], ", "))
	}
	return err
}

// reading turns a value of the file into one of the metric's unit.
func (c *counter) reading(v int64) (float64, bool) {
	x := float64(v)
	if c.metric.Unit == unit.Hertz {
		if v < 0 && v >= math.MinInt32 {
			x += 1 << 32 // the file keeps 32 bits of it
		}
		if x > 0 && x < 1e5 {
			x *= 1e6 // true to its label for once
		}
		return x, x >= 0 && x <= 1e11
	}
	return min(x, 100) / 100, v >= 0 && v <= 101
}

// series is what the counters of one GPU give, each metric once, in the order of metricNames.
func (s *metricSet) series(gpu metricGPU) []timeline.Series {
	of := map[string][]*counter{} // by metric: those that count
	for _, c := range s.of[gpu] {
		if len(c.at) == 0 {
			continue
		}
		name := c.metric.Name
		switch old := of[name]; {
		case len(old) == 0 || c.rank < old[0].rank:
			of[name] = []*counter{c}
		case c.rank == old[0].rank && c.join == joinSum:
			of[name] = append(old, c)
		}
	}
	// What device memory moved is what was read and what was written.
	if read, write := of[timeline.DRAMRead.Name], of[timeline.DRAMWrite.Name]; of[timeline.DRAMActive.Name] == nil && read != nil && write != nil {
		of[timeline.DRAMActive.Name] = []*counter{read[0], write[0]}
	}
	var out []timeline.Series
	done := map[string]bool{}
	for _, m := range metricNames {
		if parts := of[m.metric.Name]; parts != nil && !done[m.metric.Name] {
			done[m.metric.Name] = true
			if sr := joined(m.metric, parts); len(sr.At) > 0 {
				out = append(out, sr)
			}
		}
	}
	return out
}

// joined adds up counters window by window; a window that one of them lacks is left out. Those of one GPU are sampled together.
func joined(m timeline.Metric, parts []*counter) timeline.Series {
	window := int64(0)
	for _, c := range parts {
		window = max(window, c.window)
	}
	for _, c := range parts {
		if c.window < window {
			c.widen(window)
		}
	}
	a := parts[0]
	m.Window = time.Duration(window)
	if a.samples > 1 { // sparser samples speak of a longer time
		if period := (a.at[len(a.at)-1] - a.first) / (a.samples - 1); period > 2*window {
			m.Window = time.Duration(period)
		}
	}
	s := timeline.Series{Metric: m}
	next := make([]int, len(parts))
windows:
	for i, at := range a.at {
		sum := a.sum[i] / float64(a.n[i])
		for k := 1; k < len(parts); k++ {
			b := parts[k]
			for next[k] < len(b.at) && b.index(b.at[next[k]]) < a.index(at) {
				next[k]++
			}
			if next[k] == len(b.at) || b.index(b.at[next[k]]) != a.index(at) {
				continue windows
			}
			sum += b.sum[next[k]] / float64(b.n[next[k]])
		}
		if m.Unit == unit.Frac {
			sum = min(sum, 1)
		}
		s.At, s.Value, s.Row = append(s.At, timeline.Time(at)), append(s.Value, sum), append(s.Row, a.row[i])
	}
	return s
}

// placeMetrics gives the series of GPUs and network ports their tracks.
func (r *reader) placeMetrics() {
	tl := &r.b.TL
	for _, gpu := range r.metrics.gpus {
		list := r.metrics.series(gpu)
		if len(list) == 0 {
			continue
		}
		id := r.b.Track(timeline.Track{Source: r.in.Source, Table: tl.Names.IDOf(tMetrics), Kind: timeline.TrackGPU, Proc: -1, Thread: -1,
			Device: r.metricDevice(gpu), Name: "metrics of GPU " + strconv.FormatInt(gpu.number, 10)})
		for _, s := range list {
			for i := range s.At {
				s.At[i] += timeline.Time(r.m.epoch)
			}
			s.Track = id
			tl.Series = append(tl.Series, s)
		}
	}
	r.placeNICs()
}

// metricDevice finds or makes the device of a GPU of the metrics. Its number is the file's id of a GPU in some files and its physical
// number in others: it counts where both mean one GPU, or only one of them knows every number.
func (r *reader) metricDevice(card metricGPU) timeline.DeviceID {
	var on []int // the GPUs of its host
	for i, g := range r.m.gpus {
		if g.vm&^(1<<48-1) == card.vm {
			on = append(on, i)
		}
	}
	if len(on) == 0 {
		for i := range r.m.gpus {
			on = append(on, i)
		}
	}
	find := func(number int64, is func(g *gpu) int64) int {
		for _, i := range on {
			if is(&r.m.gpus[i]) == number {
				return i
			}
		}
		return -1
	}
	id, pw := func(g *gpu) int64 { return g.id }, func(g *gpu) int64 { return g.pw }
	byID, byPW := find(card.number, id), find(card.number, pw)
	allID, allPW, n := true, true, 0
	for _, o := range r.metrics.gpus {
		if o.vm == card.vm {
			n++
			allID, allPW = allID && find(o.number, id) >= 0, allPW && find(o.number, pw) >= 0
		}
	}
	found := -1
	switch {
	case byID == byPW || allID && !allPW:
		found = byID
	case allPW && !allID:
		found = byPW
	default:
		r.in.Report("nsys/metric-gpu", timeline.Info, 0, "which GPU the metrics of number %d are of cannot be told: the file counts its GPUs in two ways", card.number)
	}
	if found < 0 && len(on) <= 1 && n == 1 {
		if len(on) == 1 {
			found = on[0] // its only one, whatever it is called
		} else if traced := r.tracedDevices(func(*timeline.Device) bool { return true }); len(traced) == 1 {
			return traced[0] // no list of GPUs, one that ran, one that was sampled
		}
	}
	if found < 0 {
		return r.b.AddDevice(timeline.Device{Vendor: "nvidia", Index: -1, Ordinal: -1, Source: r.in.Source, Proc: -1})
	}
	g := &r.m.gpus[found]
	same := r.tracedDevices(func(d *timeline.Device) bool {
		switch {
		case g.dev.UUID != "" && d.UUID != "":
			return g.dev.UUID == d.UUID
		case g.dev.Bus != "" && d.Bus != "":
			return g.dev.Bus == d.Bus
		}
		listed, ok := r.m.cuda[[2]int64{r.b.TL.Procs[d.Proc].PID, int64(d.Ordinal)}]
		return ok && int64(listed) == g.id || !ok && len(on) == 1
	})
	if len(same) == 1 {
		return same[0]
	}
	return r.b.AddDevice(g.dev) // several processes share it, or none drove it
}

// tracedDevices lists the devices of this file that its processes drove and that fit.
func (r *reader) tracedDevices(fits func(d *timeline.Device) bool) (out []timeline.DeviceID) {
	tl := &r.b.TL
	for i := range tl.Tracks {
		t := &tl.Tracks[i]
		if t.Kind == timeline.TrackStream && t.Source == r.in.Source && t.Device >= 0 && !slices.Contains(out, t.Device) && tl.Devices[t.Device].Proc >= 0 && fits(&tl.Devices[t.Device]) {
			out = append(out, t.Device)
		}
	}
	return out
}
