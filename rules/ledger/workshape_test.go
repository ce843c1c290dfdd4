package ledger

import "testing"

func TestArithmeticOfShapes(t *testing.T) {
	q := []int64{4, 16, 2048, 128}  // batch, heads, length, size
	qt := []int64{4, 2048, 16, 128} // batch, length, heads, size
	full := 4.0 * 4 * 16 * 2048 * 2048 * 128
	none := func(n int) (out []string) { return make([]string, n) }
	with := func(n, i int, s string) []string {
		c := none(n)
		c[i] = s
		return c
	}
	for _, c := range []struct {
		op   string
		in   [][]int64
		conc []string
		want float64 // -1: not known
	}{
		{"aten::_scaled_dot_product_flash_attention", [][]int64{q, q, q, {}, {}}, with(5, 4, "False"), full},
		{"aten::_scaled_dot_product_flash_attention", [][]int64{q, q, q, {}, {}}, with(5, 4, "True"), full / 2},
		{"aten::_scaled_dot_product_flash_attention", [][]int64{q, q, q, {}, {}}, nil, -1},
		{"aten::_flash_attention_forward", [][]int64{qt, qt, qt}, with(9, 8, "True"), full / 2},
		{"aten::_flash_attention_backward", [][]int64{qt, qt, qt, qt}, with(12, 11, "True"), full / 2 * 2.5},
		{"aten::_efficient_attention_forward", [][]int64{qt, qt, qt}, with(10, 9, "0"), full},
		{"aten::_scaled_dot_product_flash_attention", [][]int64{q, {4, 16, 512, 128}}, with(5, 4, "False"), full / 4},
		{"aten::_flash_attention_forward", [][]int64{{8192, 16, 128}, {8192, 16, 128}}, with(9, 8, "True"), -1}, // packed: lengths are not known
		{"aten::softmax", [][]int64{q}, nil, -1},
	} {
		got, ok := attentionFLOP(c.op, c.in, c.conc)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s %v %v: %g FLOP, want %g", c.op, c.in, c.conc, got, c.want)
		}
	}
	x, w := []int64{32, 64, 56, 56}, []int64{128, 64, 3, 3}
	args := func(pad, stride, dil string, at int) []string {
		c := none(9)
		c[at], c[at+1], c[at+2] = pad, stride, dil
		return c
	}
	flop := 2.0 * 32 * 128 * 56 * 56 * 64 * 9
	for _, c := range []struct {
		op   string
		in   [][]int64
		conc []string
		want float64
	}{
		{"aten::cudnn_convolution", [][]int64{x, w}, args("[1, 1]", "[1, 1]", "[1, 1]", 2), flop},
		{"aten::cudnn_convolution", [][]int64{x, w}, args("[1, 1]", "[2, 2]", "[1, 1]", 2), flop / 4},
		{"aten::convolution", [][]int64{x, w, {}}, args("[1, 1]", "[1, 1]", "[1, 1]", 3), flop},
		{"aten::miopen_convolution", [][]int64{x, w, {}}, args("[1, 1]", "[1, 1]", "[1, 1]", 3), flop},
		{"aten::cudnn_convolution", [][]int64{x, w}, nil, -1},
		{"aten::convolution_backward", [][]int64{{32, 128, 56, 56}, x, w}, with(11, 10, "[True, True, False]"), 2 * flop},
		{"aten::convolution_backward", [][]int64{{32, 128, 56, 56}, x, w}, with(11, 10, "[False, True, False]"), flop},
		{"aten::convolution_backward", [][]int64{{32, 128, 56, 56}, x, w}, nil, -1},
		// one weight for each of 64 channels
		{"aten::_conv_depthwise2d", [][]int64{x, {64, 1, 3, 3}}, []string{"", "", "[3, 3]", "", "[1, 1]", "[1, 1]", "[1, 1]"}, 2.0 * 32 * 64 * 56 * 56 * 9},
		{"aten::cudnn_convolution", [][]int64{x, {64, 2, 3, 3}}, args("[1, 1]", "[1, 1]", "[1, 1]", 2), 2.0 * 32 * 64 * 56 * 56 * 2 * 9}, // 32 groups
		// transposed: 64 channels to 128, the image twice as large
		{"aten::cudnn_convolution_transpose", [][]int64{x, {64, 128, 2, 2}}, nil, 2.0 * 32 * 64 * 56 * 56 * 128 * 4},
		{"aten::convolution", [][]int64{x, {64, 128, 2, 2}, {}}, []string{"", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"}, 2.0 * 32 * 64 * 56 * 56 * 128 * 4},
		{"aten::convolution_backward", [][]int64{{32, 128, 112, 112}, x, {64, 128, 2, 2}}, []string{"", "", "", "[0]", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1", "[True, True, False]"},
			2 * 2.0 * 32 * 64 * 56 * 56 * 128 * 4},
	} {
		got, ok := convFLOP(c.op, c.in, c.conc)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s %v %v: %g FLOP, want %g", c.op, c.in, c.conc, got, c.want)
		}
	}
	r := &reducer{t: tables(t)}
	for _, c := range []struct {
		op    string
		in    [][]int64
		types []string
		want  float64
	}{
		{"aten::add", [][]int64{{1024, 1024}, {1024, 1024}, {}}, []string{"float", "float", "Scalar"}, 3 * 4 << 20},
		{"aten::add", [][]int64{{1024, 1024}}, []string{"c10::BFloat16"}, 2 * 2 << 20},
		{"aten::add", [][]int64{{1024, 1024}, {1024}}, []string{"c10::Half", "c10::Half"}, 2*2<<20 + 2048},
		{"aten::add", [][]int64{nil, {1024}}, []string{"TensorList", "float"}, 0}, // a list of tensors: not known
		{"aten::add", [][]int64{{8}}, []string{"Quantized"}, 0},
		{"aten::copy_", [][]int64{{1024}, {1024}, {}}, []string{"c10::BFloat16", "float", "Scalar"}, 6 << 10}, // reads the one and writes the other
		{"vllm::moe_forward", [][]int64{{1024}}, []string{"float"}, 0},                                        // several kernels, whose data lies between them
		{"triton_poi_fused_add_0", [][]int64{{1024}}, []string{"float"}, 8 << 10},
		{"aten::fill_", [][]int64{{1024}, {}}, []string{"float", "Scalar"}, 4 << 10},                               // writes and reads nothing
		{"aten::sum", [][]int64{{1024, 1024}, {}, {}, {}}, []string{"float", "ScalarList", "", ""}, 4 << 20},       // what it writes is small
		{"aten::embedding", [][]int64{{32000, 1024}, {2, 64}}, []string{"float", "long int"}, 128*8 + 2*128*4<<10}, // reads the rows that are asked for
		{"aten::index_select", [][]int64{{32000, 1024}, {}, {64}}, []string{"float", "Scalar", "long int"}, 0},     // how many are asked for is not known
	} {
		if got := r.movedBytes(c.op, c.in, c.types); got != c.want {
			t.Errorf("%s %v %v: %g bytes, want %g", c.op, c.in, c.types, got, c.want)
		}
	}
}
