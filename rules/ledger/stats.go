package ledger

import (
	"math"
	"slices"
)

// This file holds the statistics of step times of knowledge/time-ledger.md, section 9. They take any numbers, change no argument and use
// no chance: the permutations come from a fixed generator.

// Median is the middle of v, the mean of the two middle ones for an even number; 0 for none.
func Median(v []float64) float64 { return Quantile(v, 0.5) }

// Quantile interpolates linearly between the sorted values; q in [0,1]; 0 for none.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return quantileSorted(s, q)
}

func quantileSorted(s []float64, q float64) float64 {
	at := min(max(q, 0), 1) * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// MAD is the median distance from the median.
func MAD(v []float64) float64 {
	med := Median(v)
	d := make([]float64, len(v))
	for i, x := range v {
		d[i] = math.Abs(x - med)
	}
	return Median(d)
}

// RobustCV is 1.4826 MAD / median; 0 when the median is 0.
func RobustCV(v []float64) float64 {
	med := Median(v)
	if med == 0 {
		return 0
	}
	return 1.4826 * MAD(v) / med
}

// RobustCVLeast is what RobustCV is at least, with 95 % confidence, of what the steps v are a sample of: a few of them scatter more or less
// than all do. A step that is long because it ended late makes the next one short, which costs nothing and is no scatter: where sums of
// neighbours scatter less than independent steps would, by those.
func RobustCVLeast(v []float64) float64 {
	sums := make([]float64, 0, len(v))
	for i := 1; i < len(v); i++ {
		sums = append(sums, v[i-1]+v[i])
	}
	return min(cvLeast(v), math.Sqrt2*cvLeast(sums))
}

// cvLeast: the deviation that half of all values exceed lies above the k-th of n with that confidence, whatever their distribution.
func cvLeast(v []float64) float64 {
	n, med := float64(len(v)), Median(v)
	k := int(n/2 + 0.5 - 1.645/2*math.Sqrt(n))
	if med == 0 || k < 1 {
		return 0
	}
	d := make([]float64, len(v))
	for i, x := range v {
		d[i] = math.Abs(x - med)
	}
	slices.Sort(d)
	return 1.4826 * d[k-1] / med
}

// Outliers gives the places of values above median + 5*1.4826*MAD and above 1.2 median (MAD 0: above 1.2 median), and their lost share:
// what they take above the median, out of the whole sum.
func Outliers(v []float64) (at []int, lost float64) {
	med, lim := Median(v), 0.0
	lim = max(1.2*med, med+5*1.4826*MAD(v))
	sum := 0.0
	for i, x := range v {
		sum += x
		if x > lim {
			at = append(at, i)
			lost += x - med
		}
	}
	if sum <= 0 {
		return at, 0
	}
	return at, lost / sum
}

// Autocorrelation at lag 1; 0 for fewer than three values or no spread.
func Autocorrelation(v []float64) float64 {
	n := len(v)
	if n < 3 {
		return 0
	}
	mean := 0.0
	for _, x := range v {
		mean += x
	}
	mean /= float64(n)
	var num, den float64
	for i, x := range v {
		den += (x - mean) * (x - mean)
		if i > 0 {
			num += (x - mean) * (v[i-1] - mean)
		}
	}
	if den == 0 {
		return 0
	}
	return num / den
}

// maxTrend bounds the values that a trend is computed of: it is quadratic in them. Longer series are blocked into medians.
const maxTrend = 512

// Trend is the Theil-Sen slope over the whole series as a share of the median (0.05: the last value lies 5 % above the first), and the
// two-sided p of Mann-Kendall with ties and continuity corrected; p is 1 for fewer than five values. A series whose neighbours are alike
// beyond the trend itself is first blocked into medians of at least five chunks, as Mann-Kendall takes values for independent.
func Trend(v []float64) (share, p float64) {
	med := Median(v)
	if len(v) < 5 || med == 0 {
		return 0, 1
	}
	x := v
	if len(x) > maxTrend {
		x = chunks(x, maxTrend)
	}
	level := slices.Clone(x)
	b := theilSen(x)
	for i := range level {
		level[i] -= b * float64(i)
	}
	if r := Autocorrelation(level); r > 0.2 && len(x) >= 10 {
		x = chunks(x, max(5, min(len(x)/2, int(float64(len(x))*(1-r)/(1+r)))))
	}
	n := len(x)
	s := 0
	for i := range x {
		for j := i + 1; j < n; j++ {
			switch {
			case x[j] > x[i]:
				s++
			case x[j] < x[i]:
				s--
			}
		}
	}
	share = theilSen(x) * float64(n) / med
	variance := float64(n) * float64(n-1) * float64(2*n+5)
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	for i := 0; i < n; {
		j := i
		for j < n && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5)
		i = j
	}
	variance /= 18
	if variance <= 0 || s == 0 {
		return share, 1
	}
	z := math.Abs(float64(s)) - 1
	return share, math.Erfc(z / math.Sqrt(variance) / math.Sqrt2)
}

// theilSen is the median slope between all pairs, a value.
func theilSen(x []float64) float64 {
	slopes := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			slopes = append(slopes, (x[j]-x[i])/float64(j-i))
		}
	}
	slices.Sort(slopes)
	return quantileSorted(slopes, 0.5)
}

// chunks gives the medians of k nearly equal pieces.
func chunks(v []float64, k int) []float64 {
	k = min(k, len(v))
	out := make([]float64, k)
	for i := range out {
		out[i] = Median(v[i*len(v)/k : (i+1)*len(v)/k])
	}
	return out
}

// Periodic is what Period finds.
type Periodic struct {
	K         int     // steps; 0: not enough values
	Eta2      float64 // share of the variance that the position in the period explains
	Threshold float64 // 99th percentile of the best Eta2 over permutations of the same values
	Phase     int     // position with the highest median
	Excess    float64 // median there over the median elsewhere, minus 1
	Lost      float64 // what the positions take above the median of their medians, out of the sum of those
	Periods   int     // whole periods seen
}

// Found tells whether the period explains half of the variance, more than chance does, and was seen four times.
func (p Periodic) Found() bool {
	return p.K > 0 && p.Eta2 >= 0.5 && p.Eta2 > p.Threshold && p.Periods >= 4
}

// Period looks for the period k in 2..min(256, n/4) whose positions explain most of the variance; of periods that do so within 2 % the
// smallest, so that multiples do not win. Long periods fit chance better, so Eta2 is adjusted for the number of positions.
func Period(v []float64) Periodic {
	n := len(v)
	most := min(256, n/4)
	if most < 2 {
		return Periodic{}
	}
	sums := make([]float64, most)
	best, k := bestEta(v, most, sums)
	if k == 0 {
		return Periodic{}
	}
	out := Periodic{K: k, Eta2: min(best, 1), Periods: n / k}
	const perms = 99
	const maxShuffled = 2048 // of a longer series its beginning is shuffled: that tells as much
	x := slices.Clone(v[:min(n, maxShuffled)])
	mostX := min(256, len(x)/4)
	g := xorshift(0x9e3779b97f4a7c15)
	top := make([]float64, 0, perms)
	for range perms {
		for i := len(x) - 1; i > 0; i-- {
			j := int(g.next() % uint64(i+1))
			x[i], x[j] = x[j], x[i]
		}
		e, _ := bestEta(x, mostX, sums)
		top = append(top, e)
	}
	out.Threshold = Quantile(top, 0.99)
	var at, rest, levels []float64
	level := math.Inf(-1)
	for ph := range k {
		var p []float64
		for i := ph; i < n; i += k {
			p = append(p, v[i])
		}
		m := Median(p)
		levels = append(levels, m)
		if m > level {
			level, out.Phase = m, ph
		}
	}
	typical, over, all := Median(levels), 0.0, 0.0
	for _, m := range levels {
		over += max(0, m-typical)
		all += m
	}
	if all > 0 {
		out.Lost = over / all
	}
	for i, x := range v {
		if i%k == out.Phase {
			at = append(at, x)
		} else {
			rest = append(rest, x)
		}
	}
	if m := Median(rest); m > 0 {
		out.Excess = Median(at)/m - 1
	}
	return out
}

// bestEta is the largest eta squared over the periods 2..most, adjusted as R squared is for its degrees of freedom.
func bestEta(v []float64, most int, sums []float64) (best float64, period int) {
	n := float64(len(v))
	mean := 0.0
	for _, x := range v {
		mean += x
	}
	mean /= n
	total := 0.0
	for _, x := range v {
		total += (x - mean) * (x - mean)
	}
	if total <= 1e-24*mean*mean*n {
		return 0, 0
	}
	for k := 2; k <= most; k++ {
		s := sums[:k]
		clear(s)
		ph := 0
		for _, x := range v {
			s[ph] += x - mean
			if ph++; ph == k {
				ph = 0
			}
		}
		between := 0.0
		for i, t := range s {
			c := float64((len(v) - i + k - 1) / k)
			between += t * t / c
		}
		e := 1 - (1-between/total)*(n-1)/(n-float64(k))
		if e > best*1.02 && e > 0 {
			best, period = e, k
		}
	}
	return best, period
}

type xorshift uint64

func (x *xorshift) next() uint64 {
	v := *x
	v ^= v << 13
	v ^= v >> 7
	v ^= v << 17
	*x = v
	return uint64(v)
}

// TwoModes splits v in two by 2-means: Ashman's D of the two, the share of the smaller and the ratio of their means. D is 0 where there
// are no two modes.
func TwoModes(v []float64) (d, minor, ratio float64) {
	n := len(v)
	if n < 4 {
		return 0, 0, 1
	}
	s := slices.Clone(v)
	slices.Sort(s)
	pre, sq := make([]float64, n+1), make([]float64, n+1)
	base := s[n/2]
	for i, x := range s {
		pre[i+1] = pre[i] + x - base
		sq[i+1] = sq[i] + (x-base)*(x-base)
	}
	// In one dimension 2-means is the best cut of the sorted values.
	cut, least := 0, math.Inf(1)
	within := func(a, b int) float64 {
		c := float64(b - a)
		m := (pre[b] - pre[a]) / c
		return max(0, sq[b]-sq[a]-c*m*m)
	}
	for i := 1; i < n; i++ {
		if w := within(0, i) + within(i, n); w < least {
			least, cut = w, i
		}
	}
	mean := func(a, b int) float64 { return base + (pre[b]-pre[a])/float64(b-a) }
	m1, m2 := mean(0, cut), mean(cut, n)
	v1, v2 := within(0, cut)/float64(cut), within(cut, n)/float64(n-cut)
	minor = float64(min(cut, n-cut)) / float64(n)
	ratio = 1
	if m1 > 0 {
		ratio = m2 / m1
	}
	if m1 == m2 {
		return 0, minor, ratio
	}
	if v1+v2 == 0 {
		return math.Inf(1), minor, ratio
	}
	return math.Sqrt2 * math.Abs(m2-m1) / math.Sqrt(v1+v2), minor, ratio
}

// Shift is a lasting change of level.
type Shift struct {
	At     int     // first value of the new level
	Change float64 // new level over the old, minus 1
}

// Shifts finds where the level changes for at least ten values: PELT with the L1 cost on at most 2048 values (longer series are blocked
// into medians), penalty 3 log n times 1.4826 MAD of the differences of neighbours over sqrt 2.
func Shifts(v []float64) []Shift {
	const minSeg, most = 10, 2048
	x, step := v, 1
	if len(v) > most {
		step = (len(v) + most - 1) / most
		x = chunks(v, len(v)/step)
	}
	n := len(x)
	if n < 2*minSeg {
		return nil
	}
	diff := make([]float64, n-1)
	for i := range diff {
		diff[i] = x[i+1] - x[i]
	}
	scale := 1.4826 * MAD(diff) / math.Sqrt2
	if scale == 0 {
		scale = 1e-3 * math.Abs(Median(x))
	}
	if scale == 0 {
		return nil
	}
	pen := 3 * math.Log(float64(n)) * scale
	cost := newL1(x)
	f := make([]float64, n+1)
	prev := make([]int, n+1)
	for i := range f {
		f[i] = math.Inf(1)
	}
	f[0] = -pen
	cands := []int{0}
	for t := minSeg; t <= n; t++ {
		for _, s := range cands {
			if t-s < minSeg {
				continue
			}
			if c := f[s] + cost.of(s, t) + pen; c < f[t] {
				f[t], prev[t] = c, s
			}
		}
		keep := cands[:0]
		for _, s := range cands {
			if t-s < minSeg || f[s]+cost.of(s, t) <= f[t] {
				keep = append(keep, s)
			}
		}
		cands = keep
		if s := t - minSeg + 1; s >= minSeg && !math.IsInf(f[s], 1) {
			cands = append(cands, s)
		}
	}
	var cuts []int
	for t := n; prev[t] > 0; t = prev[t] {
		cuts = append(cuts, prev[t])
	}
	slices.Reverse(cuts)
	var out []Shift
	from := 0
	for i, c := range cuts {
		to := n
		if i+1 < len(cuts) {
			to = cuts[i+1]
		}
		a, b := Median(x[from:c]), Median(x[c:to])
		if a > 0 {
			out = append(out, Shift{At: min(c*len(v)/n, len(v)-1), Change: b/a - 1})
		}
		from = c
	}
	return out
}

// l1 gives the sum of distances from the median of any stretch in logarithmic time, by a wavelet tree over ranks.
type l1 struct {
	sorted []float64
	levels []l1Level
	bits   int
	vals   []float64
}

type l1Level struct {
	zeros []int32   // how many of the first i go left
	sum   []float64 // sum of the first i that go left
}

func newL1(x []float64) *l1 {
	n := len(x)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	l := &l1{sorted: make([]float64, n), vals: x}
	rank := make([]int32, n)
	for r, i := range order {
		rank[i], l.sorted[r] = int32(r), x[i]
	}
	for 1<<l.bits < n {
		l.bits++
	}
	cur := rank
	for b := l.bits - 1; b >= 0; b-- {
		lev := l1Level{zeros: make([]int32, n+1), sum: make([]float64, n+1)}
		next := make([]int32, 0, n)
		var ones []int32
		for i, r := range cur {
			lev.zeros[i+1], lev.sum[i+1] = lev.zeros[i], lev.sum[i]
			if r>>b&1 == 0 {
				lev.zeros[i+1]++
				lev.sum[i+1] += l.sorted[r]
				next = append(next, r)
			} else {
				ones = append(ones, r)
			}
		}
		cur = append(next, ones...)
		l.levels = append(l.levels, lev)
	}
	l.vals = make([]float64, n+1)
	for i, v := range x {
		l.vals[i+1] = l.vals[i] + v
	}
	return l
}

// of is the L1 cost of x[a:b].
func (l *l1) of(a, b int) float64 {
	if b-a < 2 {
		return 0
	}
	total, count := l.vals[b]-l.vals[a], b-a
	k := (count - 1) / 2 // the lower median
	need := k
	left := 0.0 // sum of the k smallest
	r := 0
	lo, hi := a, b
	for i := range l.levels {
		lev := &l.levels[i]
		bit := l.bits - 1 - i
		zl, zh := int(lev.zeros[lo]), int(lev.zeros[hi])
		if z := zh - zl; need < z {
			lo, hi = zl, zh
		} else {
			need -= z
			left += lev.sum[hi] - lev.sum[lo]
			zeros := int(lev.zeros[len(lev.zeros)-1])
			lo, hi = zeros+lo-zl, zeros+hi-zh
			r |= 1 << bit
		}
	}
	med := l.sorted[r]
	return med*float64(k) - left + (total - left - med*float64(count-k))
}
