package ledger

import (
	"slices"
	"testing"

	"gpureport/ingest/timeline/timelinetest"
)

// Shapes of one process of a file say nothing of another one's batches.
func TestShapesAreOfTheirProcess(t *testing.T) {
	text := "proc p rank=0 world=2 host=a\nproc q rank=1 world=2 host=a\n"
	for k, p := range []string{"p", "q"} {
		tokens, size := []string{"4,128", "4,256"}[k], []string{"8", "16"}[k]
		text += p + ":main anno 0ms..1ms ProfilerStep#1\n" + p + ":main anno 1ms..2ms ProfilerStep#2\n" + p + ":main anno 2ms..3ms ProfilerStep#3\n" + p + ":main anno 3ms..4ms ProfilerStep#4\n"
		for _, at := range []string{"0", "1", "2", "3"} {
			text += p + ":main op " + at + ".10ms.." + at + ".20ms aten::embedding dims=[[1000,64],[" + tokens + "]] types=[\"float\",\"long\"]\n"
			text += p + ":main op " + at + ".30ms.." + at + ".40ms aten::cudnn_convolution dims=[[1,3," + size + "," + size + "],[8,3,3,3]] types=[\"float\",\"float\"]\n"
			text += p + ":main api " + at + ".50ms.." + at + ".51ms cudaLaunchKernel link=" + at + "1\n"
			text += p + ":gpu" + []string{"0", "1"}[k] + "/s7 kernel " + at + ".60ms.." + at + ".90ms gemm link=" + at + "1\n"
		}
	}
	reds, err := Reduce(timelinetest.Parse(text), tables(t), Options{})
	if err != nil || len(reds) != 2 {
		t.Fatalf("%d reductions, %v", len(reds), err)
	}
	for k, want := range []int64{4 * 128, 4 * 256} {
		got := reds[k].Rank.StepTokens
		if len(got) == 0 || slices.ContainsFunc(got, func(n int64) bool { return n != want }) {
			t.Errorf("rank %d: tokens %v, want %d a step", k, got, want)
		}
	}
}
