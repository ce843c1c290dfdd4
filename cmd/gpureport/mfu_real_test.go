package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// Of real traces whose model is known the share of the part's arithmetic is what a hand computes, and says what it is out of.
func TestRealMFU(t *testing.T) {
	dir := dataDir(t)
	for _, c := range []struct {
		trace string
		flop  float64 // a step, by hand
		of    string  // the peak
		peak  float64
	}{
		// ResNet-50, 32 images: convolutions of 4.087 GMAC an image three times but the first one's 0.118 twice, and a layer of 2048 by 1000 three times.
		{"kineto/kineto018_resnet50_workers4.pt.trace.json.gz", 32 * 2 * (3*4.0871e9 - 0.1180e9 + 3*2.048e6), "15.7 TFLOP/s, the dense FP32 peak of V100-DGXS at 1530 MHz", 15.7e12},
		{"kineto/kineto018_resnet50_workers0.pt.trace.json.gz", 32 * 2 * (3*4.0871e9 - 0.1180e9 + 3*2.048e6), "15.7 TFLOP/s, the dense FP32 peak of V100-DGXS at 1530 MHz", 15.7e12},
		// Forward of 24 layers over 8944 tokens of 1024: four products of 1024 by 1024 and three of 1024 by 2816 each, and attention.
		{"kineto/tl_mi300x_qwen0.5b.json.gz", 24 * (2*8944*1024*(4*1024+3*2816) + 4*16*16*559*559*64/2), "1307 TFLOP/s, the dense BF16 peak of MI300X at 2100 MHz", 1307e12},
	} {
		r, job := realReport(t, filepath.Join(dir, c.trace))
		w := r.GPUs[0].Work
		if w == nil || w.MFU == nil || w.FlopStep == nil || w.MFUOf == nil || w.RoofOf == nil {
			t.Errorf("%s: %+v", c.trace, w)
			continue
		}
		g := &job.Ranks[job.GPUs[0].Rank].GPUs[job.GPUs[0].GPU]
		step := g.Window.Dur().Seconds() / float64(len(g.Steps))
		if d := *w.FlopStep/c.flop - 1; math.Abs(d) > 0.005 {
			t.Errorf("%s: %.5g FLOP a step, a hand has %.5g", c.trace, *w.FlopStep, c.flop)
		}
		if want := c.flop / step / c.peak; math.Abs(*w.MFU/want-1) > 0.005 {
			t.Errorf("%s: MFU %.4f, a hand has %.4f", c.trace, *w.MFU, want)
		}
		if *w.MFUOf != c.of || !strings.Contains(*w.RoofOf, "as no clock was recorded") {
			t.Errorf("%s: out of %q; roof %q", c.trace, *w.MFUOf, *w.RoofOf)
		}
	}
}
