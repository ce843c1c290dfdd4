package main

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpureport/render"
)

// What a fix returns is one number wherever the report speaks of it: in the verdict, in the finding, in the what-if, in the terminal. Findings of the same
// time say so, and none of them is the next limiter.
func TestOneNumber(t *testing.T) {
	for _, c := range []struct {
		fixture, rule string
		same          []string
		next          string // all ranks copy in sight, the late one longer
	}{
		{"late-rank", "comm.straggler-wait", []string{"idle.dataloader-wait", "data.rank-skew"}, ""},
		{"slow-gpu", "comm.straggler-wait", []string{"hw.gpu-slow", "kernel.gemm-eff"}, ""},
		{"hot-rank", "comm.straggler-wait", []string{"hw.gpu-slow", "hw.thermal"}, ""},
		{"uneven-work", "shape.rank-tokens", []string{"comm.straggler-wait"}, ""},
		{"numa-rank", "comm.straggler-wait", []string{"data.h2d-blocking"}, "transfer"},
		{"socket-fallback", "comm.socket-fallback", []string{"comm.exposed"}, ""},
		{"launch-bound", "kernel.tiny", []string{"idle.launch-bound"}, ""},
		{"fp32-gemm", "shape.fp32-matmul", []string{"kernel.tensor-core-unused"}, ""},
		{"pageable", "data.h2d-pageable", nil, ""},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			t.Parallel()
			rep, _ := analyzed(t, filepath.Join("..", "..", "fixtures", c.fixture, "in"))
			if rep.Verdict.RecoverableFrac == nil || len(rep.WhatIf) == 0 {
				t.Fatalf("%+v, %d rows of what-if", rep.Verdict, len(rep.WhatIf))
			}
			promise, first := *rep.Verdict.RecoverableFrac, &rep.WhatIf[0]
			near := func(x float64) bool { return math.Abs(x-promise) < 0.001 }
			if !slices.Equal(first.Fix, []string{c.rule}) || !near(first.SavingFrac) || first.Capped {
				t.Errorf("the verdict promises %.4f, the what-if %.4f by %v", promise, first.SavingFrac, first.Fix)
			}
			i := slices.IndexFunc(rep.Checks, func(k render.Check) bool { return k.ID == c.rule && k.Outcome == "finding" })
			if i < 0 || !near(savingOf(&rep.Checks[i])) {
				t.Fatalf("%s does not promise %.4f", c.rule, promise)
			}
			for _, id := range c.same {
				if !slices.Contains(first.Same, id) {
					t.Errorf("%s is not told to be the same time: %v", id, first.Same)
				}
				if !slices.Contains(rep.Checks[i].Overlaps, id) {
					t.Errorf("%s does not overlap %s: %v", c.rule, id, rep.Checks[i].Overlaps)
				}
			}
			next := ""
			if rep.Verdict.Next != nil {
				next = *rep.Verdict.Next
			}
			if next != c.next {
				t.Errorf("the next limiter is %q", next)
			}
			var b bytes.Buffer
			if err := render.WriteTerminal(&b, rep, render.TerminalOptions{}); err != nil {
				t.Fatal(err)
			}
			percent := strings.ReplaceAll(render.Pct(promise), "\u00a0", " ")
			if out := b.String(); !strings.Contains(out, "At most "+percent+" of the run can return.") {
				t.Errorf("the terminal does not say %q:\n%s", percent, out)
			}
		})
	}
}

// A query log of the late rank's card is among the inputs: nobody is told to record one, nor that hardware is next once it is mended.
func TestWhatIsThereIsNotAskedFor(t *testing.T) {
	rep, _ := analyzed(t, filepath.Join("..", "..", "fixtures", "hot-rank", "in"))
	const query = "nvidia-smi --query-gpu"
	if v := &rep.Verdict; v.Cause == nil || *v.Cause != "hardware" || v.Next != nil || v.Record != nil && strings.HasPrefix(v.Record.Command, query) {
		t.Errorf("%+v", v)
	}
	for i := range rep.Checks {
		for _, d := range rep.Checks[i].Do {
			if c := &rep.Checks[i]; c.Outcome == "finding" && strings.HasPrefix(d, "Record clocks") {
				t.Errorf("%s of %s: %s", c.ID, c.Subject.ID, d)
			}
		}
	}
	bare, _ := analyzed(t, filepath.Join("..", "..", "fixtures", "slow-gpu", "in"))
	if v := &bare.Verdict; v.Record == nil || !strings.HasPrefix(v.Record.Command, query) {
		t.Errorf("without a log: %+v", v.Record)
	}
}
