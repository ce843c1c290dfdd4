package ledger

import (
	"path/filepath"
	"testing"
)

// What public traces are known to do shows in their kernels.
func TestRealWork(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(dataDir(t), "kineto/*.json*"))
	for _, f := range files {
		base := filepath.Base(f)
		t.Run(base, func(t *testing.T) {
			for _, red := range reduceTrace(t, f) {
				for i := range red.GPUs {
					g := &red.GPUs[i]
					w := &g.Work
					flop := 0.0
					for _, x := range w.Rows {
						flop += x.FLOP * float64(x.Count)
					}
					b := float64(max(1, g.Busy))
					t.Logf("busy %.1f ms, shaped %d of %d us, %.3g FLOP; unfused attention %d (%.1f %%), layout %.1f %%, small grids %.1f %% of %.1f %%, wave %.40s %.1f %% loses %.1f %%",
						b/1e6, w.ShapedT/1e3, w.ProductT/1e3, flop, w.Unfused, 100*float64(w.UnfusedNS)/b, 100*float64(w.LayoutNS)/b, 100*float64(w.SmallNS)/b, 100*float64(w.GridNS)/b, w.WaveKernel,
						100*float64(w.WaveNS)/b, 100*float64(w.WaveLT)/float64(max(1, w.WaveNS)))
					t.Logf("under communication %.1f ms, compared %.1f, alone %.1f; backward %.1f %%, again %.1f %%; %d sequences save %d of %d launches; %d recompiles (%d us), %d new convolutions, trials %d us in %d steps, phases %v",
						float64(w.OverlapNS)/1e6, float64(w.ComparedNS)/1e6, float64(w.AloneNS)/1e6, 100*float64(w.BackwardNS)/b, 100*float64(w.RecomputeNS)/b,
						len(w.Sequences), w.SequencesSaved, w.Launches, red.Rank.Recompiles, red.Rank.RecompileNS/1000, red.Rank.ConvNewShapes, red.Rank.ConvTrialNS/1000, red.Rank.SteadySteps, red.Rank.ModelPhases)
					if r := float64(w.RecomputeNS) / b; base == "tl_mi300x_resnet_ddp_rank0of8.json.gz" && r < 0.05 {
						t.Errorf("a run with activation checkpoints computes %.1f %% again", 100*r)
					} else if base != "tl_mi300x_resnet_ddp_rank0of8.json.gz" && r > 0.01 {
						t.Errorf("a run without activation checkpoints computes %.1f %% again", 100*r)
					}
					if w.ShapedT > w.ProductT || w.AloneNS < 0 || w.WaveLT > w.WaveNS || w.SmallNS > w.GridNS || w.RecomputeNS > w.BackwardNS || w.SequencesSaved > w.Launches {
						t.Error("a part is larger than its whole")
					}
				}
			}
		})
	}
}
