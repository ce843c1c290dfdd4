package render

import (
	"strings"
	"testing"
)

// A kernel is held against what bounds it: the nearer of arithmetic and memory; what is not known says why.
func TestAgainstThePart(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	n := func(x int64) *int64 { return &x }
	for _, c := range []struct {
		what string
		k    []Kernel
		want string
	}{
		{"a product", []Kernel{{Class: "matmul", DurNS: 10, ShapedNS: n(10), FlopRate: f(500e12), ByteRate: f(1e11), OfPeak: f(0.5), OfMemory: f(0.03)}}, "50.0 % of peak"},
		{"a thin product", []Kernel{{Class: "matmul", DurNS: 10, ShapedNS: n(10), FlopRate: f(5e12), ByteRate: f(2.9e12), OfPeak: f(0.005), OfMemory: f(0.8657)}}, "2.9 of 3.35 TB/s"},
		{"in the cache", []Kernel{{Class: "elementwise", DurNS: 10, ShapedNS: n(10), ByteRate: f(5e12), OfMemory: f(1.5)}}, "from cache"},
		{"no shapes", []Kernel{{Class: "matmul", DurNS: 10}}, "unknown"},
		{"a list of tensors", []Kernel{{Class: "optimizer", DurNS: 10, ShapedNS: n(4), ByteRate: f(1e12), OfMemory: f(0.3)}}, "no model"},
		{"a part nobody knows", []Kernel{{Class: "matmul", DurNS: 10, ShapedNS: n(10), FlopRate: f(123e12), ByteRate: f(1e12)}}, "123 TFLOP/s"},
		{"a collective", []Kernel{{Class: "comm", DurNS: 10, ShapedNS: n(0)}}, "–"},
		{"two GPUs, by their time", []Kernel{
			{Class: "matmul", DurNS: 30, ShapedNS: n(30), FlopRate: f(400e12), ByteRate: f(1e11), OfPeak: f(0.4), OfMemory: f(0.03)},
			{Class: "matmul", DurNS: 10, ShapedNS: n(10), FlopRate: f(800e12), ByteRate: f(1e11), OfPeak: f(0.8), OfMemory: f(0.03)}}, "50.0 % of peak"},
	} {
		var w kernelRoof
		var dur int64
		for i := range c.k {
			w.add(&c.k[i])
			dur += c.k[i].DurNS
		}
		if got := strings.NewReplacer("\u00a0", " ", "\u202f", "").Replace(w.cell(c.k[0].Class, dur).Text); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// Of an advice the imperative stands out, and neither what it returns nor what it costs.
func TestLeadOfAdvice(t *testing.T) {
	for s, want := range map[string]string{
		"Pin the loader's batches: pin_memory=True. Costs memory":                                                               "Pin the loader's batches",
		"Move the job to a cool host meanwhile, and drain this one":                                                             "Move the job to a cool host meanwhile",
		"Take what is left off. Costs nothing":                                                                                  "Take what is left off.",
		"Turn torch.backends.cudnn.benchmark off. Costs slower convolutions":                                                    "Turn torch.backends.cudnn.benchmark off.",
		"Give the job as many CPUs as it has workers and ranks in the request that the launcher makes of the host. Costs queue": "Give the job as many CPUs as it has workers and ranks in the request that the launcher makes of the host.",
	} {
		if lead, text := splitLead(s); lead != want || lead+text != s {
			t.Errorf("%q: %q and %q", s, lead, text)
		}
	}
}
