package ledger

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

func TestBasics(t *testing.T) {
	v := []float64{5, 1, 3, 2, 4}
	if Median(v) != 3 || MAD(v) != 1 || Quantile(v, 0.25) != 2 || Quantile(v, 1) != 5 || Median([]float64{1, 2}) != 1.5 || Median(nil) != 0 {
		t.Error("order statistics")
	}
	if v[0] != 5 {
		t.Error("the argument was sorted")
	}
	if !near(RobustCV(v), 1.4826/3) || RobustCV([]float64{0, 0}) != 0 {
		t.Error(RobustCV(v))
	}
	at, lost := Outliers([]float64{10, 10, 10, 10, 10, 10, 13, 10, 11.9})
	if len(at) != 1 || at[0] != 6 || !near(lost, 3/94.9) {
		t.Errorf("MAD 0: %v %v", at, lost)
	}
	if at, lost := Outliers([]float64{10, 11, 9, 10, 11, 9, 10}); at != nil || lost != 0 {
		t.Errorf("%v %v", at, lost)
	}
}

func noise(n int, seed uint64) []float64 {
	g := xorshift(seed)
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(g.next()%1000)/1000 - 0.5
	}
	return v
}

func TestTrend(t *testing.T) {
	flat, up := noise(200, 3), noise(200, 5)
	for i := range flat {
		flat[i] += 100
		up[i] += 100 + 0.1*float64(i)
	}
	if s, p := Trend(flat); math.Abs(s) > 0.005 || p < 0.01 {
		t.Errorf("flat: %v %v", s, p)
	}
	if s, p := Trend(up); math.Abs(s-20.0/110) > 0.01 || p > 1e-4 {
		t.Errorf("20 more over 110: %v %v", s, p)
	}
	if s, p := Trend([]float64{7, 7, 7, 7, 7, 7}); s != 0 || p != 1 {
		t.Errorf("constant: %v %v", s, p)
	}
	// Mann-Kendall of 1..5: S = 10, variance 16.67, z = 9/4.082 = 2.2045, p = 0.0275.
	if s, p := Trend([]float64{1, 2, 3, 4, 5}); math.Abs(p-0.0275) > 2e-4 || !near(s, 5.0/3) {
		t.Errorf("%v %v", s, p)
	}
	// Ties: S 3, variance (510-132)/18 for two ties of three; z 2/sqrt(21). And 1..10: S 45, variance 125, z 3.935.
	if _, p := Trend([]float64{1, 2, 1, 2, 1, 2}); math.Abs(p-0.66252) > 1e-4 {
		t.Error(p)
	}
	if _, p := Trend([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); math.Abs(p-8.3e-5) > 2e-6 {
		t.Error(p)
	}
	if _, p := Trend([]float64{1, 2, 3}); p != 1 {
		t.Error("three values tell nothing")
	}
}

func TestPeriodic(t *testing.T) {
	v := noise(120, 11)
	for i := range v {
		v[i] += 100
		if i%4 == 1 {
			v[i] += 50
		}
	}
	p := Period(v)
	if !p.Found() || p.K != 4 || p.Phase != 1 || p.Periods != 30 || math.Abs(p.Excess-0.5) > 0.02 || math.Abs(p.Lost-50.0/450) > 0.01 {
		t.Errorf("%+v", p)
	}
	if p := Period(noise(120, 7)); p.Found() {
		t.Errorf("noise: %+v", p)
	}
	if p := Period(noise(7, 7)); p.K != 0 || p.Found() {
		t.Errorf("seven values: %+v", p)
	}
	if p := Period(make([]float64, 100)); p.Found() {
		t.Errorf("constant: %+v", p)
	}
	if a, b := Period(v), Period(v); a != b {
		t.Error("not repeatable")
	}
}

func TestTwoModes(t *testing.T) {
	v := noise(100, 13)
	for i := range v {
		v[i] += 100
		if i%3 == 0 {
			v[i] += 30
		}
	}
	d, minor, ratio := TwoModes(v)
	if d < 20 || math.Abs(minor-0.34) > 1e-9 || math.Abs(ratio-1.3) > 0.01 {
		t.Errorf("%v %v %v", d, minor, ratio)
	}
	even := make([]float64, 300)
	for i := range even {
		even[i] = 300 + 150*float64(i*7%300)/300
	}
	if d, minor, _ := TwoModes(even); math.Abs(d-math.Sqrt(12)) > 0.05 || minor != 0.5 {
		t.Errorf("an even spread: %v %v", d, minor)
	}
	if d, _, ratio := TwoModes([]float64{5, 5, 5, 5}); d != 0 || ratio != 1 {
		t.Errorf("constant: %v %v", d, ratio)
	}
}

func TestShifts(t *testing.T) {
	v := noise(200, 17)
	for i := range v {
		v[i] += 100
		if i >= 80 {
			v[i] += 20
		}
	}
	v[30] = 500 // an outlier is no shift
	s := Shifts(v)
	if len(s) != 1 || s[0].At != 80 || math.Abs(s[0].Change-0.2) > 0.01 {
		t.Errorf("%+v", s)
	}
	flat := noise(200, 19)
	for i := range flat {
		flat[i] += 100
	}
	if s := Shifts(flat); len(s) != 0 {
		t.Errorf("noise: %+v", s)
	}
	if Shifts(v[:15]) != nil {
		t.Error("too short")
	}
	long := make([]float64, 9000)
	for i := range long {
		long[i] = 100 + float64(i%3)
		if i >= 4500 {
			long[i] += 30
		}
	}
	if s := Shifts(long); len(s) != 1 || s[0].At < 4450 || s[0].At > 4550 {
		t.Errorf("%+v", s)
	}
}

func TestL1Cost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 40).Draw(r, "x")
		c := newL1(x)
		a := rapid.IntRange(0, len(x)).Draw(r, "a")
		b := rapid.IntRange(a, len(x)).Draw(r, "b")
		want := 0.0
		if a < b {
			s := slices.Clone(x[a:b])
			slices.Sort(s)
			for _, v := range s {
				want += math.Abs(v - s[(len(s)-1)/2])
			}
		}
		if got := c.of(a, b); math.Abs(got-want) > 1e-6 {
			r.Fatalf("%v[%d:%d]: %v, want %v", x, a, b, got, want)
		}
	})
}

// Of many samples of a spread, the least that it can be lies above it in one of twenty at most, and not far below it where there are many steps.
func TestRobustCVLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const cv = 0.04
	for _, n := range []int{20, 24, 50, 200, 1000} {
		above, sum := 0, 0.0
		const draws = 2000
		for range draws {
			v := make([]float64, n)
			for i := range v {
				v[i] = 1 + cv*r.NormFloat64()
			}
			x := RobustCVLeast(v)
			if x > RobustCV(v) {
				t.Fatalf("%d values: at least %v, and %v measured", n, x, RobustCV(v))
			}
			sum += x
			if x > cv {
				above++
			}
		}
		if above > draws*6/100 {
			t.Errorf("%d values: above the true spread in %d of %d draws", n, above, draws)
		}
		if mean := sum / draws; mean < cv*(1-3/math.Sqrt(float64(n))) {
			t.Errorf("%d values: %.4f on average, of a spread of %.4f", n, mean, cv)
		}
	}
	// Ends that wobble make no step take longer: what one has too much the next has too little.
	for _, n := range []int{24, 200} {
		sum := 0.0
		for range 200 {
			v := make([]float64, n)
			last := 0.0
			for i := range v {
				end := 0.05 * r.NormFloat64()
				v[i], last = 1+end-last, end
			}
			sum += RobustCVLeast(v)
		}
		if mean := sum / 200; mean > 0.05 {
			t.Errorf("%d steps whose ends wobble by 0.05, and they by 0.07: at least %.4f on average", n, mean)
		}
	}
	if RobustCVLeast([]float64{1, 2, 3}) != 0 || RobustCVLeast(nil) != 0 {
		t.Error("too few values prove a spread")
	}
}
