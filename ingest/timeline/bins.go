package timeline

import (
	"math"
	"time"
)

// Lag says how two curves of one device's activity lie to each other.
type Lag struct {
	By    time.Duration // to add to the second's stamps so that it lies on the first
	Error time.Duration
	R     float64       // correlation there
	Bins  int           // compared
	Clear bool          // no other lag is nearly as good
	Next  time.Duration // the next one that is, where not
}

const (
	lagBins   = 32   // fewer common bins tell nothing
	lagSpread = 0.05 // standard deviation under which a curve is flat
	lagMargin = 0.05
)

// LagOf compares the activity of b with that of a within reach to both sides; ok is false where they have too little in common, or one
// hardly moves. The error is a bin of the coarser one. Where several lags are as good, the one nearest to none is given, and not clear.
func LagOf(a, b *BusyBins, reach time.Duration) (l Lag, ok bool) {
	x, y := newSums(a), newSums(b)
	if x == nil || y == nil {
		return l, false
	}
	w := max(x.bin, y.bin)
	step := max(w, Time(reach)/4096)
	n := int(Time(reach) / step)
	rs := make([]float64, 2*n+1)
	best := -1
	for k := range rs {
		r, bins := x.agree(y, Time(k-n)*step, w)
		if rs[k] = r; bins < lagBins || math.IsNaN(r) {
			rs[k] = math.Inf(-1)
			continue
		}
		if best < 0 || r > rs[best]+1e-9 || math.Abs(r-rs[best]) <= 1e-9 && off(k, n) < off(best, n) {
			best, l.Bins = k, bins
		}
	}
	if best < 0 || rs[best] <= 0 {
		return l, false
	}
	l.Clear = best > 0 && best < len(rs)-1
	for k := 1; k+1 < len(rs); k++ {
		if peak := rs[k] >= rs[k-1] && rs[k] >= rs[k+1]; peak && off(k, best) > 3 && rs[k] > rs[best]-lagMargin {
			l.Clear = false
			if l.Next == 0 || off(k, n) < off(int(l.Next), n) {
				l.Next = time.Duration(k)
			}
		}
	}
	if k := int(l.Next); !l.Clear && k > 0 && off(k, n) < off(best, n) {
		best, l.Next = k, time.Duration(best)
	}
	if l.Next > 0 {
		l.Next = time.Duration(Time(int(l.Next)-n) * step)
	}
	// Between the bins.
	at := Time(best-n) * step
	l.R = rs[best]
	for d := -step; d <= step; d += max(step/8, 1) {
		if r, bins := x.agree(y, at+d, w); bins >= lagBins && r > l.R+1e-9 {
			l.R, l.By, l.Bins = r, time.Duration(d), bins
		}
	}
	l.By += time.Duration(at)
	l.Error = time.Duration(max(step, w))
	return l, true
}

// AtWork leaves out the bins before the first and after the last with any work: a profiler that was started late, or told to stop, says
// nothing of them, though its session covers them. The first and the last with work go too, for they may be cut.
func (b *BusyBins) AtWork() *BusyBins {
	lo, hi := 0, len(b.Busy)
	for lo < hi && b.Busy[lo] == 0 {
		lo++
	}
	for hi > lo && b.Busy[hi-1] == 0 {
		hi--
	}
	if lo > 0 {
		lo++
	}
	if hi < len(b.Busy) {
		hi--
	}
	lo, hi = min(lo, len(b.Busy)), max(hi, min(lo, len(b.Busy)))
	return &BusyBins{Start: b.Start + Time(lo)*Time(b.Bin), Bin: b.Bin, Busy: b.Busy[lo:hi]}
}

func off(a, b int) int { return max(a-b, b-a) }

// sums is a curve as running sums, so that any window's mean is cheap.
type sums struct {
	start, bin Time
	sum        []float64
}

func newSums(b *BusyBins) *sums {
	if b = b.AtWork(); len(b.Busy) == 0 || b.Bin <= 0 {
		return nil
	}
	s := &sums{b.Start, Time(b.Bin), make([]float64, len(b.Busy)+1)}
	for i, v := range b.Busy {
		s.sum[i+1] = s.sum[i] + float64(v)
	}
	return s
}

func (s *sums) end() Time { return s.start + Time(len(s.sum)-1)*s.bin }

func (s *sums) until(t Time) float64 {
	d := t - s.start
	i := int(d / s.bin)
	if i >= len(s.sum)-1 {
		return s.sum[len(s.sum)-1]
	}
	return s.sum[i] + (s.sum[i+1]-s.sum[i])*float64(d%s.bin)/float64(s.bin)
}

// agree is the correlation of the two in windows of w, y moved by lag; NaN where one hardly moves.
func (s *sums) agree(y *sums, lag, w Time) (r float64, bins int) {
	lo, hi := max(s.start, y.start+lag), min(s.end(), y.end()+lag)
	var n, sx, sy, sxx, syy, sxy float64
	if lo+w > hi {
		return math.NaN(), 0
	}
	ux, uy := s.until(lo), y.until(lo-lag)
	for t := lo + w; t <= hi; t += w {
		vx, vy := s.until(t), y.until(t-lag)
		a, b := (vx-ux)*float64(s.bin)/float64(w), (vy-uy)*float64(y.bin)/float64(w)
		ux, uy = vx, vy
		n++
		sx, sy = sx+a, sy+b
		sxx, syy, sxy = sxx+a*a, syy+b*b, sxy+a*b
	}
	dx, dy := sxx/n-sx/n*sx/n, syy/n-sy/n*sy/n
	if dx < lagSpread*lagSpread || dy < lagSpread*lagSpread {
		return math.NaN(), int(n)
	}
	return (sxy/n - sx/n*sy/n) / math.Sqrt(dx*dy), int(n)
}
