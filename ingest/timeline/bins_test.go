package timeline

import (
	"testing"
	"time"
)

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func TestLagOf(t *testing.T) {
	// busy holds pseudo-random work: a piece every 7 ms, of other length each time.
	busy := func(start Time, bin time.Duration, n int, period int64) *BusyBins {
		b := &BusyBins{Start: start, Bin: bin, Busy: make([]float32, n)}
		for i := range b.Busy {
			on := 0
			for k := range 20 {
				at := int64(start) + int64(i)*int64(bin) + int64(k)*int64(bin)/20
				piece := at / 7e6
				if period > 0 {
					piece %= period
				}
				if at%7e6 < int64(mix(uint64(piece))%7)*1e6 {
					on++
				}
			}
			b.Busy[i] = float32(on) / 20
		}
		return b
	}
	const at = Time(1_700_000_000e9)
	for _, c := range []struct {
		what   string
		a, b   *BusyBins
		move   Time
		period bool
		within time.Duration
	}{
		{"the same clock", busy(at, time.Millisecond, 2000, 0), busy(at+300e6, time.Millisecond, 1500, 0), 0, false, 200 * time.Microsecond},
		{"a quarter second late", busy(at, time.Millisecond, 2000, 0), busy(at+300e6, time.Millisecond, 1500, 0), 250e6 + 3e5, false, 400 * time.Microsecond},
		{"bins of other width", busy(at, 2*time.Millisecond, 1000, 0), busy(at-3e9, 5*time.Millisecond, 2000, 0), -40e6, false, 2 * time.Millisecond},
		{"a pattern that repeats", busy(at, time.Millisecond, 2000, 3), busy(at+300e6, time.Millisecond, 1500, 3), 0, true, 200 * time.Microsecond},
	} {
		c.b.Start += c.move
		l, ok := LagOf(c.a, c.b, 2*time.Second)
		if d := l.By + time.Duration(c.move); !ok || l.Clear == c.period || d > c.within || d < -c.within || l.Error < time.Millisecond || l.Error > 5*time.Millisecond {
			t.Errorf("%s: %+v %v", c.what, l, ok)
		}
		if c.period && (l.Next%(21*time.Millisecond)).Abs() > time.Millisecond {
			t.Errorf("%s: %+v", c.what, l)
		}
	}
	idle := &BusyBins{Start: at, Bin: time.Millisecond, Busy: make([]float32, 2000)}
	if l, ok := LagOf(idle, idle, time.Second); ok {
		t.Errorf("two flat curves agree: %+v", l)
	}
	if l, ok := LagOf(busy(at, time.Millisecond, 2000, 0), busy(at+90e9, time.Millisecond, 2000, 0), time.Second); ok {
		t.Errorf("two times agree: %+v", l)
	}
}
