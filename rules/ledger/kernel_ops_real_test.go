package ledger

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// opClasses are operators whose kernels can only be of some classes; a layout change or a fill may go before any.
var opClasses = map[string][]string{
	"aten::mm": {"matmul"}, "aten::addmm": {"matmul"}, "aten::bmm": {"matmul"},
	"aten::cudnn_convolution": {"conv"}, "aten::convolution_backward": {"conv"}, "aten::miopen_convolution": {"conv"},
	"aten::cudnn_convolution_backward_input": {"conv"}, "aten::cudnn_convolution_backward_weight": {"conv"},
	"aten::_flash_attention_forward": {"attention"}, "aten::_flash_attention_backward": {"attention"},
	"aten::_efficient_attention_forward": {"attention"},
	"aten::native_layer_norm":            {"norm"}, "aten::cudnn_batch_norm": {"norm"}, "aten::native_batch_norm": {"norm"}, "aten::cudnn_batch_norm_backward": {"norm"},
	"aten::copy_": {"copy-cast"}, "aten::cat": {"copy-cast"},
	"aten::_softmax": {"reduce"}, "aten::sum": {"reduce"}, "aten::topk": {"reduce"}, "aten::sort": {"reduce"}, "aten::argmax": {"reduce"},
	"aten::mul": {"elementwise", "optimizer"}, "aten::add": {"elementwise", "optimizer"}, "aten::add_": {"elementwise", "optimizer"},
	"aten::gelu": {"elementwise"}, "aten::silu": {"elementwise"}, "aten::threshold_backward": {"elementwise"}, "aten::index_select": {"elementwise"},
	"aten::fill_": {"elementwise", "optimizer", "copy-cast"},
}

// What launched a kernel and what its name says it does agree on real traces.
func TestRealClassesFitOperators(t *testing.T) {
	dir := dataDir(t)
	var files []string
	for _, p := range []string{"kineto/*.json*", "kineto-multirank/*/*.json*"} {
		m, _ := filepath.Glob(filepath.Join(dir, p))
		files = append(files, m...)
	}
	held := map[string]bool{}
	for _, f := range files {
		for _, red := range reduceTrace(t, f) {
			for i := range red.GPUs {
				for _, k := range red.GPUs[i].Kernels {
					product := k.Class == "matmul" || k.Class == "conv" || k.Class == "attention"
					if strings.HasPrefix(k.Op, "fbgemm::") && product {
						t.Errorf("%s: %s is a %s of %s, which multiplies nothing", filepath.Base(f), k.Name, k.Class, k.Op)
					}
					want := opClasses[k.Op]
					if want == nil || k.Class == "comm" || k.Class == "memset" {
						continue
					}
					helper := k.Class == "copy-cast" || k.Class == "elementwise" || k.Class == "reduce"
					if product1 := slices.Contains([]string{"matmul", "conv", "attention", "norm"}, want[0]); slices.Contains(want, k.Class) || product1 && helper {
						held[k.Op] = true
						continue
					}
					t.Errorf("%s: %.150s is %s, and %s launched it: %v is what it does", filepath.Base(f), k.Name, k.Class, k.Op, want)
				}
			}
		}
	}
	if len(held) < 20 {
		t.Errorf("only %d operators were seen", len(held))
	}
}

// Rows of kernels that could be one hold none that sorts, scans or belongs to a library's operator.
func TestRealSequencesCanBeFused(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(dataDir(t), "kineto/*.json*"))
	rows := 0
	for _, f := range files {
		for _, red := range reduceTrace(t, f) {
			for i := range red.GPUs {
				w := &red.GPUs[i].Work
				var saved int64
				for _, s := range w.Sequences {
					rows++
					saved += s.Saved
					if s.Saved != s.Count*int64(len(s.Names)-1) || s.Count < 2 || len(s.Names) < 2 {
						t.Errorf("%s: %d times %d kernels in a row leave out %d launches", filepath.Base(f), s.Count, len(s.Names), s.Saved)
					}
					for _, n := range s.Names {
						for _, no := range []string{"cub::", "RadixSort", "cudnn::", "DeviceScan", "batched_transpose", "nchwToNhwc", "sgemm"} {
							if strings.Contains(n, no) {
								t.Errorf("%s: %.120s is to be fused", filepath.Base(f), n)
							}
						}
					}
				}
				if saved > w.SequencesSaved || w.SequencesSaved >= w.Launches && w.Launches > 0 {
					t.Errorf("%s: %d launches are left out of %d, those listed leave out %d", filepath.Base(f), w.SequencesSaved, w.Launches, saved)
				}
			}
		}
	}
	if rows == 0 {
		t.Error("no row of kernels repeats in any trace")
	}
}
