package ledger

import (
	"fmt"
	"slices"
	"strings"

	"gpureport/ingest/timeline"
)

// Recordings before torch 1.13 hold no arguments but sizes, so that a convolution's stride and padding are not known. Its backward is
// given the gradient of the output, and so tells how large the output is: of each half of itself, and of every forward with equal inputs.

// convByBackward finds the arithmetic of such convolutions, by their spans.
func (r *reducer) convByBackward() map[int32]float64 {
	sp := &r.tl.Spans
	out := map[int32]float64{}
	sizes := map[string][]int64{} // of the output, by input and weight; nil where two strides share them
	type part struct {
		span int32
		key  string
	}
	var forward []part
	parent := int32(-1)
	var grad []int64 // that the parent was given
	var flop float64 // of one of its halves
	r.eachShape(func(s int32, sh *timeline.Shape) {
		switch op := r.tl.Names.Get(sp.Name[s]); op {
		case "aten::cudnn_convolution_backward", "aten::miopen_convolution_backward":
			in := parseDims(r.tl.Names.Get(sh.Dims))
			if len(in) < 3 || len(in[0]) < 3 || len(in[1]) != len(in[0]) || len(in[2]) != len(in[0]) {
				return
			}
			parent, grad, flop = s, in[1], 2*float64(product1(in[1]))*float64(product1(in[2][1:]))
			key := fmt.Sprint(in[0], in[2])
			if old, seen := sizes[key]; seen && !slices.Equal(old, in[1]) {
				sizes[key] = nil
			} else {
				sizes[key] = in[1]
			}
		case "aten::cudnn_convolution_backward_input", "aten::cudnn_convolution_backward_weight",
			"aten::miopen_convolution_backward_input", "aten::miopen_convolution_backward_weight":
			if parent >= 0 && sp.Start[s] >= sp.Start[parent] && sp.End[s] <= sp.End[parent] {
				if in := parseDims(r.tl.Names.Get(sh.Dims)); len(in) > 1 && slices.Equal(in[1], grad) {
					out[s] = flop
				}
			}
		case "aten::cudnn_convolution", "aten::miopen_convolution":
			if strings.Trim(r.tl.Names.Get(sh.Concrete), "[]\" ,") != "" {
				return // its arguments are known
			}
			if in := parseDims(r.tl.Names.Get(sh.Dims)); len(in) >= 2 && len(in[0]) >= 3 && len(in[1]) == len(in[0]) {
				forward = append(forward, part{s, fmt.Sprint(in[0], in[1])})
				out[s] = float64(product1(in[1][1:]))
			}
		}
	})
	for _, f := range forward {
		if size := sizes[f.key]; size != nil {
			out[f.span] *= 2 * float64(product1(size))
		} else {
			delete(out, f.span)
		}
	}
	return out
}
