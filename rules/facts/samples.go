package facts

import (
	"fmt"
	"math"
	"sort"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Levels of utilisation that the facts of sampled logs speak of.
const (
	utilLow  = 0.10 // below: nothing to speak of ran
	utilLoad = 0.50 // from here on a sample counts as under load
	utilFull = 0.95 // from here on a kernel was resident nearly all the time
)

var (
	gpuSamples = &Decl{ID: "gpu.samples_count", Doc: "Utilisation samples of the GPU inside the window.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C1"}
	gpuSpacing = &Decl{ID: "gpu.sample_spacing_s", Doc: "Median time between two utilisation samples of the GPU.", Unit: unit.Second, Per: GPU, Max: 1e6, Capture: "C1"}
	gpuUtil    = &Decl{ID: "gpu.util_mean_frac", Doc: "Mean sampled utilisation: share of time with any kernel resident, whatever it did.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1"}
	gpuUtilLow  = &Decl{ID: "gpu.util_low_frac", Doc: "Share of utilisation samples below 10 %.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1"}
	gpuUtilFull = &Decl{ID: "gpu.util_full_frac", Doc: "Share of utilisation samples of 95 % or more.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1"}
	gpuPower    = &Decl{ID: "gpu.power_mean_w", Doc: "Mean sampled power draw.", Unit: unit.Watt, Per: GPU, Max: 1e5, Capture: "C2"}
	gpuPowerUse = &Decl{ID: "gpu.power_full_util_frac", Doc: "Median power above idle, out of the range from idle to the limit, over samples of 95 % utilisation or more.",
		Unit: unit.Frac, Per: GPU, Max: 2, Capture: "C2"}
	gpuPowerLimit = &Decl{ID: "gpu.power_limit_frac", Doc: "Enforced power limit out of the default limit, the lowest of the window.",
		Unit: unit.Frac, Per: GPU, Max: 10, Capture: "C2"}
	gpuTempMax = &Decl{ID: "gpu.temp_max_c", Doc: "Highest sampled GPU temperature.", Unit: unit.Celsius, Per: GPU, Min: -100, Max: 300, Capture: "C2"}
	gpuMargin  = &Decl{ID: "gpu.temp_margin_min_c", Doc: "Least sampled margin to the temperature at which clocks are cut.", Unit: unit.Celsius, Per: GPU,
		Min: -100, Max: 300, Capture: "C2"}
)

// SampledUtil asks what the sampled curves say by themselves: utilisation, power, temperature. Of several logs of one card and metric
// the one with most samples counts. Misses name the metric that no log holds.
var SampledUtil = &Deriver{Name: "sampled-util",
	Gives: []*Decl{gpuSamples, gpuSpacing, gpuUtil, gpuUtilLow, gpuUtilFull, gpuPower, gpuPowerUse, gpuPowerLimit, gpuTempMax, gpuMargin},
	Run:   func(p *Pass) { p.eachGPU(p.sampledOf) }}

// noMetric says why a card has no readings of a metric, given what its logs do hold.
func (p *Pass) noMetric(c *Card, what string) string {
	var formats []string
	seen := map[string]bool{}
	for i := range p.Base.Series {
		tr := p.Base.Tracks[p.Base.Series[i].Track]
		if f := p.Base.Sources[tr.Source].Format; has(c.Devices, tr.Device) && !seen[f] {
			seen[f] = true
			formats = append(formats, f)
		}
	}
	if len(formats) == 0 {
		return "no sampled log of this GPU was given"
	}
	sort.Strings(formats)
	return fmt.Sprintf("no log of this GPU (%s) holds %s", join(formats, ", "), what)
}

func join(s []string, sep string) string {
	out := ""
	for i, x := range s {
		if i > 0 {
			out += sep
		}
		out += x
	}
	return out
}

func (p *Pass) sampledOf(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
	util := p.series(c, timeline.SMBusy)
	if util == nil {
		p.missAll(sub, p.noMetric(c, "utilisation"), gpuSamples, gpuSpacing, gpuUtil, gpuUtilLow, gpuUtilFull)
	} else {
		p.Set(gpuSamples, sub, p.sampled(util, float64(len(util.At))))
		if d := spacing(util); d > 0 {
			p.Set(gpuSpacing, sub, p.sampled(util, d.Seconds()))
		} else {
			p.Miss(gpuSpacing, sub, "the log holds a single sample")
		}
		if n := len(util.At); n < minLoad {
			p.missAll(sub, snapshot(n), gpuUtil, gpuUtilLow, gpuUtilFull)
		} else {
			p.Set(gpuUtil, sub, p.sampled(util, mean(util.Value)))
			p.Set(gpuUtilLow, sub, p.shareOf(util, func(_ int, v float64) bool { return v < utilLow }))
			p.Set(gpuUtilFull, sub, p.shareOf(util, func(_ int, v float64) bool { return v >= utilFull }))
		}
	}
	power := p.series(c, timeline.Power)
	limit, def := p.series(c, timeline.PowerLimit), p.series(c, timeline.PowerDefault)
	switch {
	case power == nil:
		p.Miss(gpuPower, sub, p.noMetric(c, "power draw"))
	case len(power.At) < minLoad:
		p.Miss(gpuPower, sub, snapshot(len(power.At)))
	default:
		p.Set(gpuPower, sub, p.sampled(power, mean(power.Value)))
	}
	p.powerUse(sub, c, util, power, limit, def)
	switch {
	case limit == nil:
		p.Miss(gpuPowerLimit, sub, p.noMetric(c, "the enforced power limit"))
	case def == nil:
		p.Miss(gpuPowerLimit, sub, p.noMetric(c, "the default power limit"))
	case def.Value[0] <= 0:
		p.Miss(gpuPowerLimit, sub, "the log states a default power limit of zero")
	default:
		low := argMin(limit.Value)
		v := p.sampled(limit, limit.Value[low]/def.Value[0])
		v.Refs = []Ref{p.Base.SeriesRef(limit, low)}
		p.Set(gpuPowerLimit, sub, v)
	}
	if t := p.series(c, timeline.TempGPU); t == nil {
		p.Miss(gpuTempMax, sub, p.noMetric(c, "GPU temperature"))
	} else {
		hot := argMax(t.Value)
		v := p.sampled(t, t.Value[hot])
		v.Refs = []Ref{p.Base.SeriesRef(t, hot)}
		p.Set(gpuTempMax, sub, v)
	}
	if t := p.series(c, timeline.TempMargin); t == nil {
		p.Miss(gpuMargin, sub, p.noMetric(c, "the temperature margin"))
	} else {
		hot := argMin(t.Value)
		v := p.sampled(t, t.Value[hot])
		v.Refs = []Ref{p.Base.SeriesRef(t, hot)}
		p.Set(gpuMargin, sub, v)
	}
}

// snapshot says why shares and means are not known from a snapshot.
func snapshot(n int) string {
	return fmt.Sprintf("the log holds %d samples of it: what holds for the run takes %d", n, minLoad)
}

// powerUse is (P-Pidle)/(Plimit-Pidle) while utilisation is full. Without an idle sample Pidle is 0, which makes the share larger:
// the rule then asks less.
func (p *Pass) powerUse(sub int, c *Card, util, power, limit, def *timeline.Series) {
	if limit == nil {
		limit = def
	}
	switch {
	case util == nil:
		p.Miss(gpuPowerUse, sub, p.noMetric(c, "utilisation"))
		return
	case power == nil:
		p.Miss(gpuPowerUse, sub, p.noMetric(c, "power draw"))
		return
	case limit == nil:
		p.Miss(gpuPowerUse, sub, p.noMetric(c, "a power limit"))
		return
	}
	var idle, full []float64
	var rows []int
	at := p.paired(util, power)
	for i, j := range at {
		switch {
		case j < 0:
		case util.Value[i] <= 0.01:
			idle = append(idle, power.Value[j])
		case util.Value[i] >= utilFull:
			full = append(full, power.Value[j])
			rows = append(rows, j)
		}
	}
	switch n := len(full); {
	case n == 0:
		p.Miss(gpuPowerUse, sub, "no power sample lies beside a utilisation sample of 95 % or more")
		return
	case n < minLoad && len(util.At) < minLoad:
		p.Miss(gpuPowerUse, sub, snapshot(len(util.At)))
		return
	}
	base := 0.0
	if len(idle) >= 3 {
		base = median(idle)
	}
	top := limit.Value[len(limit.Value)-1]
	if top <= base {
		p.Miss(gpuPowerUse, sub, "the log states a power limit that is not above idle power")
		return
	}
	v := p.sampled(power, min(2, max(0, (median(full)-base)/(top-base))))
	v.Refs, v.NRefs = p.refsAt(power, rows)
	p.Set(gpuPowerUse, sub, v)
}

// sampled is a value that rests on all readings of s; it names the first and the last row.
func (p *Pass) sampled(s *timeline.Series, x float64) Value {
	v := Value{Num: x, Cover: p.cover(s), Conf: timeline.Measured, NRefs: len(s.At), Refs: []Ref{p.Base.SeriesRef(s, 0)}}
	if n := len(s.At); n > 1 {
		v.Refs = append(v.Refs, p.Base.SeriesRef(s, n-1))
	}
	return v
}

// shareOf is the share of readings that hold; it names the first rows that do.
func (p *Pass) shareOf(s *timeline.Series, holds func(i int, v float64) bool) Value {
	var rows []int
	for i, x := range s.Value {
		if holds(i, x) {
			rows = append(rows, i)
		}
	}
	v := Value{Num: float64(len(rows)) / float64(len(s.Value)), Cover: p.cover(s), Conf: timeline.Measured}
	v.Refs, v.NRefs = p.refsAt(s, rows)
	return v
}

func (p *Pass) refsAt(s *timeline.Series, rows []int) ([]Ref, int) {
	var refs []Ref
	for _, i := range rows[:min(len(rows), maxRefs)] {
		refs = append(refs, p.Base.SeriesRef(s, i))
	}
	return refs, len(rows)
}

// cover is the share of the window that the readings span: each speaks for one spacing, holes for nothing.
func (p *Pass) cover(s *timeline.Series) float64 {
	w := p.Window.Dur()
	if w <= 0 {
		return 1
	}
	return min(1, float64(len(s.At))*float64(spacing(s))/float64(w))
}

// spacing is the median time between neighbouring readings; 0 with less than two.
func spacing(s *timeline.Series) time.Duration {
	if len(s.At) < 2 {
		return 0
	}
	d := make([]float64, len(s.At)-1)
	for i := range d {
		d[i] = float64(s.At[i+1] - s.At[i])
	}
	return time.Duration(median(d))
}

// paired gives for each reading of a the nearest reading of b that is at most a spacing away, -1 for none. Two sources can only be
// paired when both clocks are placed.
func (p *Pass) paired(a, b *timeline.Series) []int {
	out := make([]int, len(a.At))
	for i := range out {
		out[i] = -1
	}
	src := func(s *timeline.Series) timeline.SourceID { return p.Base.Tracks[s.Track].Source }
	if src(a) != src(b) && !(placed(p.Base, a) && placed(p.Base, b)) {
		return out
	}
	reach := timeline.Time(max(spacing(a), spacing(b), time.Millisecond))
	j := 0
	for i, t := range a.At {
		for j+1 < len(b.At) && absTime(b.At[j+1]-t) <= absTime(b.At[j]-t) {
			j++
		}
		if len(b.At) > 0 && absTime(b.At[j]-t) <= reach {
			out[i] = j
		}
	}
	return out
}

func absTime(t timeline.Time) timeline.Time {
	if t < 0 {
		return -t
	}
	return t
}

func mean(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

func argMin(x []float64) int {
	at := 0
	for i, v := range x {
		if v < x[at] {
			at = i
		}
	}
	return at
}

func argMax(x []float64) int {
	at := 0
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return at
}

// quantile q in [0,1] of a list that it leaves as it is, by linear interpolation.
func quantile(x []float64, q float64) float64 {
	s := append([]float64(nil), x...)
	sort.Float64s(s)
	if len(s) == 0 {
		return 0
	}
	pos := q * float64(len(s)-1)
	lo := int(math.Floor(pos))
	hi := min(lo+1, len(s)-1)
	return s[lo] + (pos-float64(lo))*(s[hi]-s[lo])
}
