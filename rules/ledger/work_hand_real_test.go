package ledger

import (
	"math"
	"path/filepath"
	"testing"

	"gpureport/ingest/timeline"
)

// resnet50 is the arithmetic of the convolutions of ResNet-50 for one image of 224 by 224: two operations a weight and output place.
func resnet50() (all, first float64) {
	conv := func(in, out, kernel, side int) float64 { return 2 * float64(in*out*kernel*kernel) * float64(side*side) }
	first = conv(3, 64, 7, 112)
	all = first
	in, side := 64, 56
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := 64 << stage
		for b := range blocks {
			if b == 0 && stage > 0 { // the 3 by 3 makes the image smaller, and so does the shortcut
				all += conv(in, width, 1, side)
				side /= 2
			} else {
				all += conv(in, width, 1, side)
			}
			all += conv(width, width, 3, side) + conv(width, 4*width, 1, side)
			if b == 0 {
				all += conv(in, 4*width, 1, side)
			}
			in = 4 * width
		}
	}
	return all, first
}

// resnet18 is the same of ResNet-18.
func resnet18() (all, first float64) {
	conv := func(in, out, kernel, side int) float64 { return 2 * float64(in*out*kernel*kernel) * float64(side*side) }
	first = conv(3, 64, 7, 112)
	all = first
	in, side := 64, 56
	for stage := range 4 {
		width := 64 << stage
		if stage > 0 {
			side /= 2
			all += conv(in, width, 1, side) // the shortcut
		}
		all += conv(in, width, 3, side) + 3*conv(width, width, 3, side)
		in = width
	}
	return all, first
}

// sameTo6 tells whether two numbers agree to six digits.
func sameTo6(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

// The arithmetic that shapes of real traces tell is what a hand computes.
func TestRealFLOP(t *testing.T) {
	dir := dataDir(t)
	trace := func(name string) (*timeline.Reduced, *timeline.GPULedger) {
		red := reduceTrace(t, filepath.Join(dir, "kineto", name))[0]
		return red, &red.GPUs[0]
	}
	t.Run("convolutions of a whole step", func(t *testing.T) {
		all, first := resnet50()
		if g := all / 2e9; g < 4.08 || g > 4.10 { // 4.09 GMAC are known of it
			t.Fatalf("%.3g GMAC", g)
		}
		for _, name := range []string{"kineto018_resnet50_workers0.pt.trace.json.gz", "kineto018_resnet50_workers4.pt.trace.json.gz", "kineto_2021_array_form_workers0.pt.trace.json.gz"} {
			_, g := trace(name)
			var got float64
			for _, x := range g.Work.Rows {
				if x.Kind == "conv" {
					got += x.FLOP * float64(x.Count)
				}
			}
			// Forward, the gradients of weights and of inputs; nobody wants that of the images. 32 of them a step.
			want := 32 * float64(len(g.Steps)) * (3*all - first)
			if !sameTo6(got, want) {
				t.Errorf("%s: %.6g FLOP in %d steps, want %.6g", name, got, len(g.Steps), want)
			}
			if g.Work.ShapedT != g.Work.ProductT {
				t.Errorf("%s: of %d ns of convolutions %d are known", name, g.Work.ProductT, g.Work.ShapedT)
			}
		}
	})
	// Sizes as the traces record them, arithmetic by hand: products of M by K and K by N, of layers of known models.
	t.Run("matrix products", func(t *testing.T) {
		for _, c := range []struct {
			trace, op  string
			m, n, k, b int64
			flop       float64 // of one
			bytes      float64 // both inputs and the output once
			times      int64
			what       string
		}{
			{"tl_mi300x_qwen0.5b.json.gz", "aten::mm", 8944, 2816, 1024, 1, 51_581_550_592, 2 * (9_158_656 + 2_883_584 + 25_186_304), 48, "two halves of a gated layer, 24 layers"},
			{"tl_mi300x_qwen0.5b.json.gz", "aten::addmm", 8944, 1024, 1024, 1, 18_756_927_488, 2 * (9_158_656 + 1_048_576 + 9_158_656), 72, "query, key and value, 24 layers"},
			{"tl_h100_bert_small.json.gz", "aten::addmm", 141, 30522, 512, 1, 4_406_888_448, 2 * (72_192 + 15_627_264 + 4_303_602), 1, "141 tokens, 30 522 words"},
			{"switch_a100_4batch.json.gz", "aten::addmm", 512, 100000, 1024, 1, 104_857_600_000, 4 * (524_288 + 102_400_000 + 51_200_000), 1, "512 tokens, 100 000 words"},
			{"hta_a100_diff_control_rank3of8.json.gz", "aten::bmm", 647, 30, 96, 1024, 3_816_161_280, 4 * 1024 * (62_112 + 2_880 + 19_410), 10, "1024 products at once"},
		} {
			red, _ := trace(c.trace)
			found := false
			for _, x := range red.Rank.Matmuls {
				if x.Op == c.op && x.M == c.m && x.N == c.n && x.K == c.k && x.Batch == c.b && !found {
					found = true
					if x.FLOP() != c.flop || x.Bytes() != c.bytes || x.Count != c.times {
						t.Errorf("%s: %s (%s): %.12g FLOP and %.12g bytes %d times; a hand has %.12g and %.12g, %d times", c.trace, c.op, c.what, x.FLOP(), x.Bytes(), x.Count, c.flop, c.bytes, c.times)
					}
				}
			}
			if !found {
				t.Errorf("%s: no %s of %d by %d by %d, %d at once", c.trace, c.op, c.m, c.n, c.k, c.b)
			}
		}
	})
	t.Run("convolutions, attention and what moves data", func(t *testing.T) {
		for _, c := range []struct {
			trace, op, kind string
			flop, bytes     float64
			times           int64
			what            string
		}{
			// 4 images of 3 by 224 by 224 in patches of 16 by 16: 14 by 14 places, 768 outputs of 3*16*16 weights.
			{"tl_h100_falconsai_vit.json.gz", "aten::cudnn_convolution", "conv", 2 * 4 * 768 * 14 * 14 * 3 * 16 * 16, 0, 1, "patches"},
			// Attention: two products of length by length by size for each head; 4 images, 12 heads, 197 places, 64 wide.
			{"tl_h100_falconsai_vit.json.gz", "aten::_flash_attention_forward", "attention", 4 * 4 * 12 * 197 * 197 * 64, 0, 12, "12 layers"},
			{"tl_h100_bert_small.json.gz", "aten::_flash_attention_forward", "attention", 4 * 8 * 141 * 141 * 64, 0, 4, "one text of 141 tokens, 8 heads, 4 layers"},
			// 16 texts of 559 tokens, 16 heads of 64, each token looks at those before it: half of the products.
			{"tl_mi300x_qwen0.5b.json.gz", "aten::_flash_attention_forward", "attention", 4 * 16 * 16 * 559 * 559 * 64 / 2, 0, 24, "24 layers"},
			// Norms and elementwise: 788 places of 768 in two bytes, read and written; a norm's weight and bias read.
			{"tl_h100_falconsai_vit.json.gz", "aten::native_layer_norm", "memory", 0, 2 * (2*788*768 + 2*768), 25, "25 norms"},
			{"tl_h100_falconsai_vit.json.gz", "aten::gelu", "memory", 0, 2 * 2 * 788 * 3072, 12, "12 activations"},
			{"tl_h100_falconsai_vit.json.gz", "aten::add", "memory", 0, 3 * 2 * 788 * 768, 24, "24 residuals"},
			{"switch_a100_4batch.json.gz", "aten::gelu", "memory", 0, 2 * 4 * 512 * 4096, 40, "40 activations"},
		} {
			_, g := trace(c.trace)
			found := false
			for _, x := range g.Work.Rows {
				if x.Op == c.op && x.Kind == c.kind && x.Count == c.times && x.FLOP == c.flop && (c.bytes == 0 || x.Bytes == c.bytes) {
					found = true
				}
			}
			if !found {
				t.Errorf("%s: no %s (%s) of %.12g FLOP and %.12g bytes, %d times", c.trace, c.op, c.what, c.flop, c.bytes, c.times)
				for _, x := range g.Work.Rows {
					if x.Op == c.op {
						t.Logf("  %s %.12g FLOP %.12g bytes %d times", x.Kind, x.FLOP, x.Bytes, x.Count)
					}
				}
			}
		}
	})
	// ResNet-18 of 10 images, two steps: backward takes two convolutions for each of forward but the first, whose images want no gradient, and
	// computes all but the first again.
	t.Run("convolutions with arguments", func(t *testing.T) {
		_, g := trace("tl_mi300x_resnet_ddp_rank0of8.json.gz")
		var forward, backward float64
		for _, x := range g.Work.Rows {
			switch {
			case x.Kind == "conv" && x.Op == "aten::miopen_convolution":
				forward += x.FLOP * float64(x.Count)
			case x.Kind == "conv":
				backward += x.FLOP * float64(x.Count)
			}
		}
		all, first := resnet18()
		if want := 2 * 10 * (2*all - first); !sameTo6(forward, want) || !sameTo6(backward, want) {
			t.Errorf("forward %.6g and backward %.6g FLOP in %d steps, want %.6g each", forward, backward, len(g.Steps), want)
		}
		if g.Work.ShapedT != g.Work.ProductT {
			t.Errorf("of %d ns of convolutions %d are known", g.Work.ProductT, g.Work.ShapedT)
		}
	})
}
