package unit

import "testing"

func TestToBase(t *testing.T) {
	for _, c := range []struct {
		v    float64
		u    Unit
		want float64
		base Unit
	}{{70, "%", 0.7, Frac}, {3, "ms", 0.003, Second}, {5, "us", 5e-6, Second}, {1755, "MHz", 1.755e9, Hertz}, {25, "MiB", 25 << 20, Byte}, {2, "GB/s", 2e9, BytePerSecond}, {1, "min", 60, Second}, {7, Watt, 7, Watt}} {
		got, base, err := ToBase(c.v, c.u)
		if err != nil || got != c.want || base != c.base {
			t.Errorf("%v %s: %v %s %v", c.v, c.u, got, base, err)
		}
	}
	if _, _, err := ToBase(1, "furlong"); err == nil {
		t.Error("a unit nobody knows was taken")
	}
	if b, ok := Base("ms"); !ok || b != Second {
		t.Errorf("base of ms: %s %v", b, ok)
	}
}
