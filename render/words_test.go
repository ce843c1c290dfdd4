package render

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"gpureport/ingest/timeline"
)

func visible(s string) string {
	return strings.NewReplacer(nbsp, " ", "\u202f", "_").Replace(s)
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Dur(0, 2), "0 ms"}, {Dur(999, 3), "999 ns"}, {Dur(999.6, 3), "1.00 µs"}, {Dur(90.6e6, 2), "91 ms"}, {Dur(90.6e6, 3), "90.6 ms"},
		{Dur(999.6e6, 3), "1.00 s"}, {Dur(50.66e9, 3), "50.7 s"}, {Dur(3600e9, 3), "60.0 min"}, {Dur(-1.5e6, 2), "-1.5 ms"},
		{Pct(0), "0"}, {Pct(0.0004), "<0.1 %"}, {Pct(0.021), "2.1 %"}, {Pct(0.0996), "10 %"}, {Pct(0.215), "22 %"}, {Pct(1), "100 %"},
		{Pct1(0.215), "21.5 %"}, {Bytes(1.4e6), "1.40 MB"}, {Bytes(12), "12 B"}, {MessageSize(30 << 20), "30 MiB"}, {MessageSize(4), "4 B"},
		{Count(3184902), "3_184_902"}, {Count(12), "12"}, {digits(1480, 3, "_"), "1_480"}, {digits(99.96, 3, ""), "100"}, {digits(0.00123, 2, ""), "0.0012"},
		{Middle("abcdefghij", 5), "ab…ij"}, {Middle("abc", 5), "abc"}, {NumberWord(7), "Seven"}, {NumberWord(40), "40"},
	} {
		if visible(c.got) != c.want {
			t.Errorf("got %q, want %q", visible(c.got), c.want)
		}
	}
}

// A text from a file is one line of plain text wherever it is printed.
func TestHostileText(t *testing.T) {
	const evil = "a\x1b[31m\u202eb\n</script>|`*[x](y)\x00\xff"
	for name, s := range map[string]string{"terminal": ascii(evil), "markdown": md(evil), "page": clean(evil)} {
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x1b\x00\n\u202e") {
			t.Errorf("%s: %q", name, s)
		}
	}
	if s := md(evil); strings.Contains(s, "<") || strings.Contains(s, "[x](") {
		t.Errorf("markdown: %q", s)
	}
	if got := ascii("1" + nbsp + "480 µs ≤ 5 → 6 日本"); got != "1 480 us <= 5 -> 6 日本" {
		t.Errorf("%q", got)
	}
}

// What is shown to sum sums: parts rounded by largest remainder add up to the rounded total, none moves by a whole unit.
func TestLargestRemainder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Float64Range(0, 500), 1, 20).Draw(t, "parts")
		step := rapid.SampledFrom([]float64{1, 0.1, 0.01}).Draw(t, "step")
		var total, sum float64
		for _, p := range parts {
			total += p
		}
		for i, v := range largestRemainder(parts, step) {
			sum += v
			if math.Abs(v-parts[i]) > step*1.0001 {
				t.Fatalf("part %v became %v", parts[i], v)
			}
		}
		if want := math.Round(total/step) * step; math.Abs(sum-want) > 1e-6 {
			t.Fatalf("sum %v, want %v", sum, want)
		}
	})
}

// Thinning keeps the order, the lowest and the highest reading, and the bound.
func TestThinKeepsDips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		val := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 3000).Draw(t, "val")
		at := make([]timeline.Time, len(val))
		lo, hi := val[0], val[0]
		for i, v := range val {
			at[i] = timeline.Time(i) * timeline.Time(time.Second)
			lo, hi = min(lo, v), max(hi, v)
		}
		a, v := thin(at, val, timeline.Interval{Start: 0, End: at[len(at)-1]}, 100)
		if len(a) != len(v) || len(a) > max(100, min(len(val), 100)) {
			t.Fatalf("%d points", len(a))
		}
		gotLo, gotHi := v[0], v[0]
		for i := range v {
			if i > 0 && a[i] <= a[i-1] {
				t.Fatal("out of order")
			}
			gotLo, gotHi = min(gotLo, v[i]), max(gotHi, v[i])
		}
		if gotLo != lo || gotHi != hi {
			t.Fatalf("kept %v to %v of %v to %v", gotLo, gotHi, lo, hi)
		}
	})
}

func TestCoverage(t *testing.T) {
	iv := func(a, b int) timeline.Interval {
		return timeline.Interval{Start: timeline.Time(a), End: timeline.Time(b)}
	}
	frac, holes := coverage([]timeline.Interval{iv(-5, 10), iv(20, 30), iv(30, 35)}, iv(0, 50))
	if frac != 0.5 || len(holes) != 2 || holes[0] != iv(10, 20) || holes[1] != iv(35, 50) {
		t.Errorf("%v %v", frac, holes)
	}
}

// Every owner has one family, and families hold every owner in palette order.
func TestPalette(t *testing.T) {
	n := 0
	for _, f := range Families {
		for _, o := range f.Owners {
			n++
			if FamilyOf(o.String()).Key != f.Key {
				t.Errorf("%s is drawn as %s", o, FamilyOf(o.String()).Key)
			}
			if OwnerWord(o) == "" || shortWord(o) == "" {
				t.Errorf("%s has no word", o)
			}
		}
	}
	if n != int(timeline.NOwners) {
		t.Errorf("%d owners have a family, there are %d", n, timeline.NOwners)
	}
}

// The mean of many rows keeps its sum within a nanosecond an owner.
func TestDrawnOfMany(t *testing.T) {
	r := &Report{}
	for i := range 40 {
		l := LedgerRow{GPU: "gpu" + itoa(i), WindowNS: 1000, Steps: 10, Owners: map[string]int64{"compute": int64(500 + i), "host.sync": int64(500 - i)}}
		r.Ledger = append(r.Ledger, l)
	}
	rows, others := drawn(r)
	if len(rows)+len(others) != 40 || len(rows) > drawnMost || len(rows) == 0 {
		t.Fatalf("%d drawn, %d others", len(rows), len(others))
	}
	seen := map[int]bool{}
	for _, i := range rows {
		seen[i] = true
	}
	if !seen[0] || !seen[39] {
		t.Error("the extremes are not drawn")
	}
	m := meanRow(r, others)
	var sum int64
	for _, v := range m.Owners {
		sum += v
	}
	if d := m.WindowNS - sum; d < 0 || d > int64(len(m.Owners)) {
		t.Errorf("mean row misses its window by %d ns", d)
	}
}
