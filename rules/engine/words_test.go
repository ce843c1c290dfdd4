package engine

import "testing"

// The first letter of a sentence may be any letter: a host's name need not be ASCII.
func TestFirstLetter(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{UpperFirst("gpu 0 waited"), "Gpu 0 waited"}, {UpperFirst("日本 waited"), "日本 waited"}, {UpperFirst("éole waited"), "Éole waited"}, {UpperFirst(""), ""},
		{LowerFirst("Tune NCCL"), "tune NCCL"}, {LowerFirst("NCCL waits"), "NCCL waits"}, {LowerFirst("Éole"), "éole"}, {LowerFirst("日本"), "日本"}, {LowerFirst(""), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
