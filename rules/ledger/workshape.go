package ledger

import (
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
)

type workGroup struct {
	row     timeline.WorkRow
	kernels kernelTimes
	last    int32

	tensor, plain int64 // ns of kernels on matrix units and on plain ones, where their names tell
}

// shapeWork says what one call of an operator does, by its recorded inputs; nil where that does not follow from them. flop is what else is
// known of a convolution, 0 nothing.
func (r *reducer) shapeWork(name timeline.StringID, sh *timeline.Shape, class Class, flop float64) *workGroup {
	op := r.tl.Names.Get(name)
	in := parseDims(r.tl.Names.Get(sh.Dims))
	types := parseStrings(r.tl.Names.Get(sh.Types))
	conc := parseStrings(r.tl.Names.Get(sh.Concrete))
	row := timeline.WorkRow{Op: op}
	for _, t := range types {
		if row.DType = torchTypes[strings.ToLower(t)]; row.DType != "" {
			break
		}
	}
	ok := false
	switch class {
	case ClassConv:
		row.Kind = "conv"
		if row.FLOP, ok = convFLOP(op, in, conc); !ok {
			row.FLOP, ok = flop, flop > 0
		}
	case ClassAttention:
		row.Kind = "attention"
		row.FLOP, ok = attentionFLOP(op, in, conc)
	default:
		row.Kind = "memory"
		ok = true
	}
	row.Bytes = r.movedBytes(op, in, types)
	if !ok || row.Kind == "memory" && row.Bytes == 0 {
		return nil
	}
	return &workGroup{row: row, kernels: kernelTimes{}, last: -1}
}

// Operators whose traffic is not that of their inputs and an output as large as the largest of them. In place or not is the same.
var (
	reducing  = set("sum", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "prod", "var", "std", "norm", "linalg_vector_norm", "logsumexp", "count_nonzero", "nll_loss_forward")
	filling   = set("fill", "zero", "normal", "uniform", "bernoulli", "random")
	gathering = set("index", "index_select", "gather", "take", "take_along_dim", "index_put", "index_add", "scatter", "scatter_add", "embedding_dense_backward", "embedding_bag", "_embedding_bag", "masked_select", "nonzero")
)

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// movedBytes is what an operator must read and write at least: each input once, and an output as large as its largest input, but where the
// operator is known to do otherwise. 0 where a list of tensors or a type that nobody knows is among them, or the sizes do not tell.
func (r *reducer) movedBytes(op string, in [][]int64, types []string) float64 {
	base := strings.TrimSuffix(strings.TrimPrefix(op, "aten::"), "_")
	if gathering[base] || !strings.HasPrefix(op, "aten::") && !strings.HasPrefix(op, "triton_") {
		return 0 // of an operator made of several nobody knows what stays inside
	}
	var sum, most, rows float64
	for i, dims := range in {
		if dims == nil {
			return 0
		}
		if len(dims) == 0 {
			continue
		}
		if i >= len(types) {
			return 0
		}
		size, ok := r.t.elemSize(strings.TrimPrefix(strings.TrimSpace(strings.ToLower(types[i])), "c10::"))
		if !ok {
			if size, ok = map[string]int64{"long int": 8, "unsigned char": 1, "signed char": 1}[strings.ToLower(types[i])]; !ok {
				return 0
			}
		}
		n := float64(product1(dims)) * float64(size)
		if base == "embedding" { // the rows that the indices ask for, read and written
			if i == 0 {
				rows = n / float64(max(1, dims[0]))
				continue
			}
			return n + 2*rows*float64(product1(dims))
		}
		sum += n
		most = max(most, n)
	}
	switch {
	case filling[base]:
		return most
	case reducing[base], base == "copy": // which lists where it writes among its inputs
		return sum
	}
	return sum + most
}

func dimsAt(in [][]int64, i, rank int) []int64 {
	if i < len(in) && len(in[i]) == rank {
		return in[i]
	}
	return nil
}

// listAt reads "[2, 2]"; nil for anything else.
func listAt(conc []string, i int) []int64 {
	if i >= len(conc) {
		return nil
	}
	s := strings.TrimSpace(conc[i])
	if len(s) < 3 || s[0] != '[' || s[len(s)-1] != ']' {
		return nil
	}
	var out []int64
	for _, f := range strings.Split(s[1:len(s)-1], ",") {
		v, err := strconv.ParseInt(strings.TrimSpace(f), 10, 64)
		if err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

func isTrue(conc []string, i int) bool { return i < len(conc) && strings.EqualFold(conc[i], "true") }

// convFLOP is two operations a weight and output place. Of backward the size of the output is that of its gradient, and each wanted
// gradient costs as much as forward.
func convFLOP(op string, in [][]int64, conc []string) (float64, bool) {
	if strings.Contains(op, "backward") {
		if len(in) < 3 || len(in[0]) < 3 || len(in[2]) != len(in[0]) {
			return 0, false
		}
		wanted := 0
		if len(conc) > 0 {
			if mask := strings.Split(strings.Trim(conc[len(conc)-1], "[]"), ","); len(mask) == 3 {
				for _, m := range mask[:2] {
					if strings.EqualFold(strings.TrimSpace(m), "true") {
						wanted++
					}
				}
			}
		}
		if wanted == 0 {
			return 0, false
		}
		if isTrue(conc, 7) { // transposed
			return float64(wanted) * 2 * float64(product1(in[1])) * float64(product1(in[2][1:])), true
		}
		return float64(wanted) * 2 * float64(product1(in[0])) * float64(product1(in[2][1:])), true
	}
	if len(in) < 2 || len(in[0]) < 3 || len(in[1]) != len(in[0]) {
		return 0, false
	}
	// Where the arguments stand: padding, stride, dilation.
	pad, stride, dil := 2, 3, 4
	switch op {
	case "aten::convolution", "aten::_convolution":
		if isTrue(conc, 6) { // transposed: the weight meets each place of the input
			return 2 * float64(product1(in[0])) * float64(product1(in[1][1:])), true
		}
		stride, pad, dil = 3, 4, 5
	case "aten::miopen_convolution":
		pad, stride, dil = 3, 4, 5
	case "aten::cudnn_convolution":
	case "aten::_conv_depthwise2d", "aten::conv_depthwise3d":
		stride, pad, dil = 4, 5, 6
	case "aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose":
		return 2 * float64(product1(in[0])) * float64(product1(in[1][1:])), true
	default:
		return 0, false
	}
	p, s, dl := listAt(conc, pad), listAt(conc, stride), listAt(conc, dil)
	x, w := in[0], in[1]
	n := len(x) - 2
	if len(p) != n || len(s) != n || len(dl) != n {
		return 0, false
	}
	out := float64(x[0]) * float64(w[0])
	for i := range n {
		if s[i] <= 0 {
			return 0, false
		}
		o := (x[2+i]+2*p[i]-dl[i]*(w[2+i]-1)-1)/s[i] + 1
		if o <= 0 {
			return 0, false
		}
		out *= float64(o)
	}
	return 2 * out * float64(product1(w[1:])), true
}

// attentionArgs says of an attention operator where its query stands, where it says whether the mask is causal, and how its inputs lie.
type attentionArgs struct {
	op     string
	query  int
	causal int
	heads  int // dimension of the heads: 1 is [batch, heads, length, size], 2 is [batch, length, heads, size]
}

var attentionOps = []attentionArgs{
	{"aten::_scaled_dot_product_flash_attention_backward", 1, 11, 1},
	{"aten::_scaled_dot_product_flash_attention", 0, 4, 1},
	{"aten::_scaled_dot_product_efficient_attention_backward", 1, 11, 1},
	{"aten::_scaled_dot_product_efficient_attention", 0, 6, 1},
	{"aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, 1},
	{"aten::_scaled_dot_product_cudnn_attention", 0, 6, 1},
	{"aten::_flash_attention_backward", 1, 11, 2},
	{"aten::_flash_attention_forward", 0, 8, 2},
	{"aten::_efficient_attention_backward", 1, 14, 2},
	{"aten::_efficient_attention_forward", 0, 9, 2},
	{"flash_attn::_flash_attn_forward", 0, 5, 2},
	{"flash_attn::_flash_attn_backward", 1, 11, 2},
}

// multiplies tells whether an operator is a matrix product, a convolution or an attention.
func (r *reducer) multiplies(name timeline.StringID) bool {
	op := r.tl.Names.Get(name)
	return r.n.hostOf(name).flags&(flagMatmul|flagConv) != 0 || slices.ContainsFunc(attentionOps, func(a attentionArgs) bool { return a.op == op })
}

// attentionFLOP counts the two products of forward, the five of backward, and half of them under a causal mask. Where nobody recorded
// whether the mask is causal it is not known.
func attentionFLOP(op string, in [][]int64, conc []string) (float64, bool) {
	for _, a := range attentionOps {
		if op != a.op {
			continue
		}
		q, k := dimsAt(in, a.query, 4), dimsAt(in, a.query+1, 4)
		if q == nil || k == nil || a.causal >= len(conc) {
			return 0, false
		}
		flop := 4 * float64(q[0]) * float64(q[a.heads]) * float64(q[3-a.heads]) * float64(k[3-a.heads]) * float64(q[3])
		switch strings.ToLower(conc[a.causal]) {
		case "true", "1", "2":
			flop /= 2
		case "false", "0":
		default:
			return 0, false
		}
		if a.query == 1 {
			flop *= 2.5
		}
		return flop, true
	}
	return 0, false
}
