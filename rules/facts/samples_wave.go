package facts

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// minSamples is how many readings a curve needs before its shape is judged.
const minSamples = 60

var (
	gpuWaveR = &Decl{ID: "gpu.sawtooth_r_frac", Doc: "Autocorrelation of the detrended utilisation curve at its period; 0 where it has no period.",
		Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1"}
	gpuWaveNoise  = &Decl{ID: "gpu.sawtooth_noise_frac", Doc: "Autocorrelation that noise alone can reach: 3 / square root of the samples.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1"}
	gpuWavePeriod = &Decl{ID: "gpu.sawtooth_period_s", Doc: "Period of the utilisation curve.", Unit: unit.Second, Per: GPU, Max: 1e9, Capture: "C1"}
	gpuWaveLag    = &Decl{ID: "gpu.sawtooth_period_samples_count", Doc: "Period of the utilisation curve in samples.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C1"}
	gpuWaveTurns  = &Decl{ID: "gpu.sawtooth_periods_count", Doc: "Periods that the curve holds.", Unit: unit.Count, Per: GPU, Max: 1e9, Capture: "C1"}
	gpuWaveDepth  = &Decl{ID: "gpu.sawtooth_depth_frac", Doc: "Range of the utilisation curve over its period, by the median of each part of it; without a period from its 10th to its 90th percentile.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1"}
	gpuWaveDuty   = &Decl{ID: "gpu.sawtooth_duty_frac", Doc: "Share of a period in which utilisation is below the middle of its range.", Unit: unit.Frac, Per: GPU, Max: 1, Capture: "C1"}
	gpuWaveShape  = &Decl{ID: "gpu.sawtooth_shape", Doc: "Shape of the folded curve: square (a blocking stall) or ramp (a queue that drains).", Unit: unit.Text, Per: GPU, Capture: "C1"}

	runWaveR      = &Decl{ID: "run.sawtooth_r_frac", Doc: "As gpu.sawtooth_r_frac, of the mean curve of all GPUs.", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C1"}
	runWavePeriod = &Decl{ID: "run.sawtooth_period_s", Doc: "Period of the mean utilisation curve of all GPUs.", Unit: unit.Second, Per: Run, Max: 1e9, Capture: "C1"}
	runWaveDuty   = &Decl{ID: "run.sawtooth_duty_frac", Doc: "Share of a period in which the mean curve is below the middle of its range.", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C1"}
	runWaveMatch  = &Decl{ID: "run.sawtooth_match", Doc: "Intervals of the run, as the user states them, that lie within 10 % of the mean curve's period.", Unit: unit.Text, Per: Run, Capture: "C4"}
)

// Sawtooth asks whether the utilisation curve swings with a period: subtract the rolling median over a quarter of the log, take the
// autocorrelation, and of its maxima after the first zero crossing the shortest within 0.9 of the best. Missing below 60 samples;
// the period is Missing where there is none.
var Sawtooth = &Deriver{Name: "sawtooth", After: []*Deriver{LedgerShares},
	Gives: []*Decl{gpuWaveR, gpuWaveNoise, gpuWavePeriod, gpuWaveLag, gpuWaveTurns, gpuWaveDepth, gpuWaveDuty, gpuWaveShape,
		runWaveR, runWavePeriod, runWaveDuty, runWaveMatch},
	Run: func(p *Pass) {
		p.eachGPU(p.waveOf)
		p.commonWave()
	}}

func (p *Pass) waveOf(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
	all := []*Decl{gpuWaveR, gpuWaveNoise, gpuWaveDepth}
	ifPeriod := []*Decl{gpuWavePeriod, gpuWaveLag, gpuWaveTurns, gpuWaveDuty, gpuWaveShape}
	s := p.series(c, timeline.SMBusy)
	x, step, why := evenCurve(s)
	if s == nil {
		why = p.noMetric(c, "utilisation")
	}
	if why != "" {
		p.missAll(sub, why, all...)
		p.missAll(sub, why, ifPeriod...)
		return
	}
	num := func(v float64) Value {
		out := p.sampled(s, v)
		out.Conf = timeline.Hint
		return out
	}
	w := findWave(x)
	p.Set(gpuWaveNoise, sub, num(min(1, 3/math.Sqrt(float64(len(x))))))
	p.Set(gpuWaveDepth, sub, num(min(1, max(0, w.depth(x)))))
	p.Set(gpuWaveR, sub, num(w.r))
	if w.lag == 0 {
		p.missAll(sub, "the curve has no period of at least two samples", ifPeriod...)
		return
	}
	p.Set(gpuWaveLag, sub, num(float64(w.lag)))
	p.Set(gpuWavePeriod, sub, num(float64(w.lag)*step.Seconds()))
	p.Set(gpuWaveTurns, sub, num(float64(len(x))/float64(w.lag)))
	p.Set(gpuWaveDuty, sub, num(w.duty))
	p.Set(gpuWaveShape, sub, Value{Text: w.shape, Cover: p.cover(s), Conf: timeline.Hint})
}

func (p *Pass) commonWave() {
	all := []*Decl{runWaveR, runWavePeriod, runWaveDuty, runWaveMatch}
	curves, _, step, cover, why := p.commonCurves()
	if why != "" {
		p.missAll(0, why, all...)
		return
	}
	x := make([]float64, len(curves[0]))
	for i := range x {
		n := 0
		for _, c := range curves {
			if !math.IsNaN(c[i]) {
				x[i] += c[i]
				n++
			}
		}
		x[i] /= float64(max(n, 1))
	}
	if len(x) < minSamples {
		p.missAll(0, tooFew(len(x)), all...)
		return
	}
	w := findWave(x)
	num := func(v float64) Value { return Value{Num: v, Cover: cover, Conf: timeline.Hint} }
	p.Set(runWaveR, 0, num(w.r))
	if w.lag == 0 {
		p.missAll(0, "the mean curve has no period of at least two samples", runWavePeriod, runWaveDuty, runWaveMatch)
		return
	}
	period := float64(w.lag) * step.Seconds()
	p.Set(runWavePeriod, 0, num(period))
	p.Set(runWaveDuty, 0, num(w.duty))
	t, ok := 0.0, false
	for _, sub := range p.Facts.Of(Rank) {
		if v, have := p.Get(rankStepP50, sub); have {
			t, ok = v.Num, true
			break
		}
	}
	if !ok {
		p.Miss(runWaveMatch, 0, "the step time is not known, so no interval in steps can be compared with the period")
		return
	}
	if match := matchInterval(p.Input.Set, period/t); match != "" {
		p.Set(runWaveMatch, 0, Value{Text: match, Cover: cover, Conf: timeline.Hint})
	} else {
		p.Miss(runWaveMatch, 0, "no interval that --set states lies within 10 % of the period")
	}
}

// intervals are what --set may state in steps, in the order they are named.
var intervals = []struct{ key, name string }{
	{"workers", "number of loader workers"}, {"accumulate", "gradient accumulation"}, {"log_every", "logging interval"},
	{"eval_every", "validation interval"}, {"save_every", "checkpoint interval"},
}

// matchInterval names the stated intervals within 10 % of a period in steps; "" none.
func matchInterval(set map[string]string, steps float64) string {
	var out []string
	for _, iv := range intervals {
		if n, ok := stated(set, iv.key); ok && math.Abs(steps-n) <= 0.1*n {
			out = append(out, fmt.Sprintf("%s (%g steps)", iv.name, n))
		}
	}
	return join(out, ", ")
}

// stated is a positive number the user gave.
func stated(set map[string]string, key string) (float64, bool) {
	n, err := strconv.ParseFloat(set[key], 64)
	return n, err == nil && n > 0 && !math.IsInf(n, 0)
}

func tooFew(n int) string {
	return fmt.Sprintf("only %d samples: a curve is judged from %d on", n, minSamples)
}

// evenCurve puts readings on an even grid of their median spacing; holes of up to two spacings are interpolated, longer ones hold
// the last value. why is not "" where the log is too short or too uneven.
func evenCurve(s *timeline.Series) (x []float64, step time.Duration, why string) {
	if s == nil {
		return nil, 0, "there is no curve"
	}
	if len(s.At) < minSamples {
		return nil, 0, tooFew(len(s.At))
	}
	step = spacing(s)
	if step <= 0 {
		return nil, 0, "the samples have no spacing"
	}
	n := int(int64(s.At[len(s.At)-1]-s.At[0])/int64(step)) + 1
	if n > 4*len(s.At) {
		return nil, 0, "the log has holes over most of its length"
	}
	x = make([]float64, n)
	j := 0
	for i := range x {
		t := s.At[0] + timeline.Time(int64(i)*int64(step))
		for j+1 < len(s.At) && s.At[j+1] <= t {
			j++
		}
		x[i] = s.Value[j]
		if j+1 < len(s.At) && s.At[j] < t {
			if gap := s.At[j+1] - s.At[j]; int64(gap) <= 2*int64(step) {
				x[i] += (s.Value[j+1] - s.Value[j]) * float64(t-s.At[j]) / float64(gap)
			}
		}
	}
	return x, step, ""
}

// wave is the period of a curve; lag 0: none.
type wave struct {
	lag   int // samples
	r     float64
	duty  float64
	shape string
}

// depth is the range of the folded curve: a short dip of every period counts whole, one that came once does not.
func (w wave) depth(x []float64) float64 {
	if w.lag == 0 {
		return quantile(x, 0.9) - quantile(x, 0.1)
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	part := make([]float64, 0, len(x)/w.lag+1)
	for at := range w.lag {
		part = part[:0]
		for i := at; i < len(x); i += w.lag {
			part = append(part, x[i])
		}
		m := median(part)
		lo, hi = min(lo, m), max(hi, m)
	}
	return hi - lo
}

func findWave(x []float64) (w wave) {
	n := len(x)
	r := autocorrelation(detrend(x))
	if r == nil {
		return w // flat
	}
	lags := n / 4
	zero := 1
	for zero < len(r) && r[zero] > 0 {
		zero++
	}
	var peaks []int
	best := 0.0
	for k := max(zero, 2); k <= lags; k++ {
		if r[k] > 0 && r[k] >= r[k-1] && r[k] > r[k+1] {
			peaks = append(peaks, k)
			best = max(best, r[k])
		}
	}
	for _, k := range peaks {
		if r[k] >= 0.9*best {
			w.lag, w.r = k, min(1, r[k])
			break
		}
	}
	if w.lag > 0 {
		w.duty, w.shape = fold(x, w.lag)
	}
	return w
}

// autocorrelation gives sum x[t] x[t+k] / sum x[t]^2 for every lag k, by way of the power spectrum, as logs of days have 100 000 samples;
// nil for a flat curve.
func autocorrelation(x []float64) []float64 {
	size := 1
	for size < 2*len(x) { // padded, so that the end does not meet the start
		size *= 2
	}
	f := make([]complex128, size)
	for i, v := range x {
		f[i] = complex(v, 0)
	}
	fourier(f)
	for i, v := range f {
		f[i] = complex(real(v)*real(v)+imag(v)*imag(v), 0)
	}
	fourier(f)
	total := real(f[0]) / float64(size)
	if total < 1e-9*float64(len(x)) {
		return nil
	}
	r := make([]float64, len(x))
	for k := range r {
		r[k] = real(f[k]) / float64(size) / total
	}
	return r
}

// fourier transforms f in place; its length is a power of two.
func fourier(f []complex128) {
	n := len(f)
	for i, j := 1, 0; i < n; i++ { // bit reversal
		bit := n >> 1
		for ; j&bit != 0; bit >>= 1 {
			j ^= bit
		}
		j |= bit
		if i < j {
			f[i], f[j] = f[j], f[i]
		}
	}
	turn := make([]complex128, n/2)
	for i := range turn {
		sin, cos := math.Sincos(-2 * math.Pi * float64(i) / float64(n))
		turn[i] = complex(cos, sin)
	}
	for half := 1; half < n; half *= 2 {
		stride := n / (2 * half)
		for from := 0; from < n; from += 2 * half {
			for k := range half {
				a, b := f[from+k], f[from+k+half]*turn[k*stride]
				f[from+k], f[from+k+half] = a+b, a-b
			}
		}
	}
}

// detrend subtracts the rolling median over a quarter of the curve. Values are kept in steps of 1/1000, which is finer than any
// log's percent, so that the median moves along a histogram.
func detrend(x []float64) []float64 {
	const levels = 1001
	level := func(v float64) int { return int(math.Round(min(1, max(0, v)) * (levels - 1))) }
	half := max(1, len(x)/8)
	var hist [levels]int
	n, below, at := 0, 0, 0 // below: how many lie under level at
	move := func(v float64, by int) {
		l := level(v)
		hist[l] += by
		n += by
		if l < at {
			below += by
		}
	}
	out := make([]float64, len(x))
	lo, hi := 0, 0
	for i := range x {
		for hi < len(x) && hi <= i+half {
			move(x[hi], 1)
			hi++
		}
		for lo < i-half {
			move(x[lo], -1)
			lo++
		}
		want := (n - 1) / 2
		for below > want {
			at--
			below -= hist[at]
		}
		for below+hist[at] <= want {
			below += hist[at]
			at++
		}
		out[i] = x[i] - float64(at)/(levels-1)
	}
	// What is left has a mean that is no part of the swing.
	m := mean(out)
	for i := range out {
		out[i] -= m
	}
	return out
}

// fold lays the periods over each other: duty is the share below the middle of the range; square is a curve whose fall and rise both
// take at least half the range within one sample.
func fold(x []float64, lag int) (duty float64, shape string) {
	mid := (quantile(x, 0.1) + quantile(x, 0.9)) / 2
	low := 0
	for _, v := range x {
		if v < mid {
			low++
		}
	}
	var falls, rises []float64
	for from := 0; from+lag < len(x); from += lag {
		fall, rise := 0.0, 0.0
		for i := from; i < from+lag; i++ {
			fall = max(fall, x[i]-x[i+1])
			rise = max(rise, x[i+1]-x[i])
		}
		falls, rises = append(falls, fall), append(rises, rise)
	}
	depth := quantile(x, 0.9) - quantile(x, 0.1)
	shape = "ramp"
	if median(falls) >= depth/2 && median(rises) >= depth/2 {
		shape = "square"
	}
	return float64(low) / float64(len(x)), shape
}

// commonCurves gives the GPUs' utilisation on one grid; NaN where a GPU has no reading. why is not "" where fewer than two can be
// compared in time.
func (p *Pass) commonCurves() (curves [][]float64, ids []string, step time.Duration, cover float64, why string) {
	var all []*timeline.Series
	p.eachGPU(func(_ int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		if s := p.series(c, timeline.SMBusy); s != nil && len(s.At) > 1 && !c.Unused { // one that stands idle all along is late for nothing
			all = append(all, s)
			ids = append(ids, c.ID)
		}
	})
	if len(all) == 0 {
		return nil, nil, 0, 0, "no sampled log with utilisation was given"
	}
	if len(all) == 1 {
		return nil, nil, 0, 0, "utilisation of one GPU alone was sampled"
	}
	src := p.Base.Tracks[all[0].Track].Source
	from, to := all[0].At[0], all[0].At[len(all[0].At)-1]
	for _, s := range all {
		if p.Base.Tracks[s.Track].Source != src && !(placed(p.Base, s) && placed(p.Base, all[0])) {
			return nil, nil, 0, 0, "the GPUs' logs cannot be placed on one time line"
		}
		step = max(step, spacing(s))
		from, to = max(from, s.At[0]), min(to, s.At[len(s.At)-1])
		cover = max(cover, p.cover(s))
	}
	if to <= from || step <= 0 {
		return nil, nil, 0, 0, "the GPUs' logs do not overlap in time"
	}
	n := int(int64(to-from)/int64(step)) + 1
	for _, s := range all {
		x := make([]float64, n)
		j := 0
		for i := range x {
			t := from + timeline.Time(int64(i)*int64(step))
			for j+1 < len(s.At) && absTime(s.At[j+1]-t) <= absTime(s.At[j]-t) {
				j++
			}
			x[i] = math.NaN()
			if absTime(s.At[j]-t) <= timeline.Time(step) {
				x[i] = s.Value[j]
			}
		}
		curves = append(curves, x)
	}
	return curves, ids, step, cover, ""
}

// dipDrop is how far below its median a curve must fall for a dip.
const dipDrop = 0.25

var (
	runJaccard = &Decl{ID: "run.dip_jaccard_min_frac", Doc: "Overlap of the dips (25 points below the median) of the pair of GPUs that overlaps least, one sample of slack.",
		Unit: unit.Frac, Per: Run, Max: 1, Capture: "C1"}
	runDipGPUs = &Decl{ID: "run.dip_gpus_count", Doc: "GPUs whose utilisation dips 25 points below its median.", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C1"}
	runLateLow = &Decl{ID: "run.late_gpu_frac", Doc: "Share of samples in which one GPU is 25 points or more below 95 % while every other shows 95 % or more; of the GPU that is so most often.",
		Unit: unit.Frac, Per: Run, Max: 1, Capture: "C1"}
	runLateName = &Decl{ID: "run.late_gpu", Doc: "The GPU that is low most often while every other is full.", Unit: unit.Text, Per: Run, Capture: "C1"}
)

// CrossGPU asks who dips: all GPUs together, those of one host, or one while the others are full and wait for it; and who dips first. Missing
// with one sampled GPU, and where the logs of the GPUs share no time line; hosts are compared where their clocks are placed within two samples.
var CrossGPU = &Deriver{Name: "cross-gpu", Gives: []*Decl{runJaccard, runDipGPUs, runLateLow, runLateName, runDipScope, runDipSays, runDipLeads, runDipHosts}, Run: func(p *Pass) {
	curves, ids, step, cover, why := p.commonCurves()
	if why == "" && len(curves[0]) < minSamples {
		why = tooFew(len(curves[0]))
	}
	if why != "" {
		p.missAll(0, why, runJaccard, runDipGPUs, runLateLow, runLateName, runDipScope, runDipSays, runDipLeads, runDipHosts)
		return
	}
	num := func(v float64) Value { return Value{Num: v, Cover: cover, Conf: timeline.Hint} }
	dips := make([][]bool, len(curves))
	dipping := 0
	for g, x := range curves {
		var known []float64
		for _, v := range x {
			if !math.IsNaN(v) {
				known = append(known, v)
			}
		}
		base := median(known)
		any := false
		dips[g] = make([]bool, len(x))
		for i, v := range x {
			dips[g][i] = v < base-dipDrop // false for NaN
			any = any || dips[g][i]
		}
		if any {
			dipping++
		}
	}
	p.Set(runDipGPUs, 0, num(float64(dipping)))
	p.dipScope(ids, curves, dips, step, cover)
	if dipping == 0 {
		p.Miss(runJaccard, 0, "no GPU's utilisation dips 25 points below its median")
	} else {
		least := 1.0
		for a := range dips {
			for b := a + 1; b < len(dips); b++ {
				least = min(least, jaccard(dips[a], dips[b]))
			}
		}
		p.Set(runJaccard, 0, num(least))
	}
	alone := make([]int, len(curves))
	for i := range curves[0] {
		low, full := -1, 0
		for g := range curves {
			switch v := curves[g][i]; {
			case v >= utilFull:
				full++
			case v < utilFull-dipDrop:
				low = g
			}
		}
		if low >= 0 && full == len(curves)-1 {
			alone[low]++
		}
	}
	most := 0
	for g := range alone {
		if alone[g] > alone[most] {
			most = g
		}
	}
	p.Set(runLateLow, 0, num(float64(alone[most])/float64(len(curves[0]))))
	if alone[most] > 0 {
		p.Set(runLateName, 0, Value{Text: inWords(Subject{ID: ids[most]}), Cover: cover, Conf: timeline.Hint})
	} else {
		p.Set(runLateName, 0, Value{Text: "none", Cover: cover, Conf: timeline.Hint})
	}
}}

// jaccard is the overlap of two sets of samples with one sample of slack: members of either that the other has within one sample,
// out of all members; 1 for two empty sets.
func jaccard(a, b []bool) float64 {
	near := func(x []bool, i int) bool {
		return x[i] || (i > 0 && x[i-1]) || (i+1 < len(x) && x[i+1])
	}
	both, either := 0, 0
	for i := range a {
		if a[i] || b[i] {
			either++
			if (!a[i] || near(b, i)) && (!b[i] || near(a, i)) {
				both++
			}
		}
	}
	if either == 0 {
		return 1
	}
	return float64(both) / float64(either)
}

// Dip is a drop of sampled utilisation, and who held the GPU in it.
type Dip struct {
	GPUs   []string // report GPUs that dipped, in report order
	Window timeline.Interval
	From   float64 // [0,1]: median of the curve it left
	To     float64 // [0,1]: its lowest reading
	Owners timeline.Owners
	Known  bool // Owners are from ledgers that cover part of the dip
	Refs   []Ref
	LossNS float64 // GPU time below the median, ns summed over the GPUs
}

// Dips finds the drops of the sampled curves: readings 25 points below the GPU's median. A reading speaks of the time since the one
// before it. Dips of several GPUs that overlap within one sample are one. Owners come from the GPUs' ledgers where the log's clock
// is placed. Largest loss first, then by start.
func Dips(in *Input) []Dip {
	var one []Dip
	var slack timeline.Time
	for _, c := range Cards(in) {
		s := cardSeries(in, &c, timeline.SMBusy)
		if s == nil || len(s.At) < 3 {
			continue
		}
		step := timeline.Time(spacing(s))
		slack = max(slack, step)
		base := median(s.Value)
		for i := 0; i < len(s.At); i++ {
			if s.Value[i] >= base-dipDrop {
				continue
			}
			d := Dip{GPUs: []string{c.ID}, From: base, To: s.Value[i]}
			d.Window = timeline.Interval{Start: since(s, i, step), End: s.At[i]}
			for ; i < len(s.At) && s.Value[i] < base-dipDrop; i++ {
				from := since(s, i, step)
				if from > d.Window.End { // a hole in the log
					break
				}
				d.To = min(d.To, s.Value[i])
				d.LossNS += (base - s.Value[i]) * float64(s.At[i]-from)
				d.Window.End = s.At[i]
				if len(d.Refs) < maxRefs {
					d.Refs = append(d.Refs, in.Base.SeriesRef(s, i))
				}
			}
			i--
			if c.Trace >= 0 && placed(in.Base, s) {
				g := in.Job.GPUs[c.Trace]
				d.Owners, d.Known = ownersIn(&in.Job.Ranks[g.Rank].GPUs[g.GPU], d.Window)
			}
			one = append(one, d)
		}
	}
	sort.SliceStable(one, func(i, j int) bool { return one[i].Window.Start < one[j].Window.Start })
	var out []Dip
	for _, d := range one {
		if n := len(out) - 1; n >= 0 && d.Window.Start <= out[n].Window.End+slack && !sameGPU(&out[n], &d) {
			out[n].join(&d)
			continue
		}
		out = append(out, d)
	}
	order := map[string]int{}
	for i, c := range Cards(in) {
		order[c.ID] = i
	}
	for i := range out {
		sort.SliceStable(out[i].GPUs, func(a, b int) bool { return order[out[i].GPUs[a]] < order[out[i].GPUs[b]] })
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].LossNS > out[j].LossNS })
	return out
}

// since is where the time begins that reading i speaks of.
func since(s *timeline.Series, i int, step timeline.Time) timeline.Time {
	if i == 0 || s.At[i]-s.At[i-1] > 2*step {
		return s.At[i] - step
	}
	return s.At[i-1]
}

// sameGPU tells whether d is a second dip of a GPU that has one in a and no overlap with it: two teeth of one curve stay two.
func sameGPU(a, d *Dip) bool {
	if d.Window.Start <= a.Window.End {
		return false
	}
	for _, g := range a.GPUs {
		if g == d.GPUs[0] {
			return true
		}
	}
	return false
}

func (d *Dip) join(o *Dip) {
	d.Window.End = max(d.Window.End, o.Window.End)
	d.From, d.To = max(d.From, o.From), min(d.To, o.To)
	d.LossNS += o.LossNS
	d.Owners.Add(&o.Owners)
	d.Known = d.Known || o.Known
	for _, g := range o.GPUs {
		seen := false
		for _, have := range d.GPUs {
			seen = seen || have == g
		}
		if !seen {
			d.GPUs = append(d.GPUs, g)
		}
	}
	for _, r := range o.Refs {
		if len(d.Refs) < maxRefs {
			d.Refs = append(d.Refs, r)
		}
	}
}

// ownersIn sums a ledger's owners inside iv; ok is false where they do not meet.
func ownersIn(l *timeline.GPULedger, iv timeline.Interval) (out timeline.Owners, ok bool) {
	for s := range l.Segments.From(iv.Start) {
		if s.Start >= iv.End {
			break
		}
		ns := min(s.Start+timeline.Time(s.Dur), iv.End) - max(s.Start, iv.Start)
		out[s.Owner] += int64(ns)
		ok = true
	}
	return out, ok
}
