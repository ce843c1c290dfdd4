package ledger

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/timeline/timelinetest"
)

func TestRangesNamedAfterSteps(t *testing.T) {
	tb := tables(t)
	for name, want := range map[string]bool{
		"step 12": true, "Step#3": true, "step_7": true, "step:8": true, "iteration_5": true, "Iteration 5 of 10": true, "iter 3": true, "Step 90 to 100": true,
		"train_step": true, "TrainStep 4": true, "training_step": true, "global_step=9": true,
		"step": false, "step one": false, "optimizer_step 3": false, "step_12_forward": false, "val_step 3": false, "warmup step 2": false, "timestep_embedding 3": false, "": false,
	} {
		if got := tb.namesStep(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// Ranges named after steps count by their numbers, and make way for the profiler's own marks.
func TestNamedSteps(t *testing.T) {
	text := `
main anno 0ms..10ms step_41
main api 1ms..2ms cudaLaunchKernel link=1
gpu0/s7 kernel 2ms..9ms gemm link=1
main anno 10ms..20ms step_42
main anno 11ms..12ms step_42
main api 11ms..12ms cudaLaunchKernel link=2
gpu0/s7 kernel 12ms..19ms gemm link=2
main anno 20ms..30ms step_43
main api 21ms..22ms cudaLaunchKernel link=3
gpu0/s7 kernel 22ms..29ms gemm link=3
`
	reds, err := Reduce(timelinetest.Parse(text), tables(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := reds[0].Steps
	if s.How != "step-range" || s.Name != "step" || s.Confidence != timeline.Measured || len(s.Index) != 2 || s.Index[0] != 42 || s.Index[1] != 43 {
		t.Errorf("steps %+v, want 42 and 43 of the ranges", s)
	}
	reds, err = Reduce(timelinetest.Parse(text+"main anno 0ms..15ms ProfilerStep#1\nmain anno 15ms..30ms ProfilerStep#2\n"), tables(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := reds[0].Steps; s.How != "ProfilerStep" {
		t.Errorf("steps %+v beside the profiler's own marks", s)
	}
}
