package ledger

import (
	"fmt"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// What the main thread does itself counts where its names say so, and for a GPU what of it the GPU waited for. The first kernel runs
// 0 to 100 us, the next one is launched at 190.
func TestWhatTheMainThreadDoes(t *testing.T) {
	const head = "main op -40us..-39us aten::empty\nmain api -20us..-10us cudaLaunchKernel link=1\ngpu0/s7 kernel 0us..100us sgemm link=1\n"
	const tail = "\nmain api 190us..200us cudaLaunchKernel link=2\ngpu0/s7 kernel 202us..300us sgemm link=2"
	for _, c := range []struct{ name, text, tokens, collect, starts string }{
		{name: "nothing", text: "main python 110us..180us train.py(3): step"},
		{"a frame of the tokenizer, of nested ones the outermost", "main python 60us..180us transformers/tokenization_utils_base.py(2887): __call__\nmain python 70us..170us <built-in method encode_batch of tokenizers.Tokenizer object at 0x7f>",
			"1 of 120µs, gap 80µs: transformers/tokenization_utils_base.py(2887): __call__", "", ""},
		{"a range", "main anno 110us..180us tokenize_batch", "1 of 70µs, gap 70µs: tokenize_batch", "", ""},
		{"an operator", "main op 110us..180us text::tokenise", "1 of 70µs, gap 70µs: text::tokenise", "", ""},
		{"a range that says encode", "main anno 110us..180us encode", "1 of 70µs, gap 70µs: encode", "", ""},
		{name: "an encoder of a model launches kernels", text: "main anno 110us..205us encode"},
		{name: "so does a tokenizer of images", text: "main python 110us..205us titok/tokenizer.py(9): encode"},
		{name: "a range around what a model encodes", text: "main anno 110us..180us image_encode\nmain anno 110us..180us positional encoding\nmain op 110us..180us aten::encode"},
		{name: "moving tokens", text: "main python 110us..180us transformers/tokenization_utils_base.py(806): to"},
		{name: "text of tokens", text: "main anno 110us..180us detokenize"},
		{name: "another thread", text: "worker op 100us..101us aten::empty\nworker python 110us..180us tiktoken/core.py(120): encode_ordinary"},
		{"what the GPU did not wait for", "main python 10us..90us tiktoken/core.py(120): encode_ordinary", "1 of 80µs, gap 0s: tiktoken/core.py(120): encode_ordinary", "", ""},
		{"a collection", "main python 110us..180us <built-in function collect>\nmain python 182us..186us <built-in function collect>", "", "2 of 70µs, gap 74µs: <built-in function collect>", ""},
		{"the loader starts a process", "main python 105us..185us torch/utils/data/dataloader.py(1038): __init__\nmain python 110us..180us multiprocessing/popen_fork.py(62): _launch", "", "",
			"1 of 70µs, gap 70µs: multiprocessing/popen_fork.py(62): _launch"},
		{name: "something else starts one", text: "main python 110us..180us multiprocessing/popen_fork.py(62): _launch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reduce(t, head+c.text+tail)[0]
			say := func(h *timeline.Held) string {
				if h.Calls == 0 {
					return ""
				}
				return fmt.Sprintf("%d of %v, gap %v: %s", h.Calls, time.Duration(h.MaxNS), time.Duration(h.GapNS[0]), h.Name)
			}
			for _, x := range []struct{ got, want, what string }{{say(&r.Rank.Tokenize), c.tokens, "tokens"}, {say(&r.Rank.Collect), c.collect, "collections"}, {say(&r.Rank.WorkerStarts), c.starts, "starts"}} {
				if x.got != x.want {
					t.Errorf("%s: %q, want %q", x.what, x.got, x.want)
				}
			}
		})
	}
}
