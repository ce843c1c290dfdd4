package facts

import (
	"math"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var runSaveLate = &Decl{ID: "run.save_late_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
	Doc: "Step time that a mended late rank could return at most: how much longer its peers were held in collectives than it was, of them the one held least, " +
		"who would be the next to hold all up; where it has more work, the mean over all GPUs, as the work is to be spread. At least run.peer_wait_frac, which it is where no rank can be named."}

// LateSaving asks what a fix of the late rank returns. All ranks share the step, so it is no mean over those that wait and the one that does
// not; and transfers that peers would hide under their own work are in sight while they wait, so those count too.
var LateSaving = &Deriver{
	Name:  "late-saving",
	After: []*Deriver{LedgerShares, Straggler},
	Gives: []*Decl{runSaveLate},
	Run: func(p *Pass) {
		v, ok := p.Get(runPeerWait, 0)
		if !ok {
			if need := p.Facts.vals[0][runPeerWait.ID].need; need != nil {
				p.Miss(runSaveLate, 0, need.Why)
			}
			return
		}
		if late, ok := p.Get(runCulprit, 0); ok && v.Num > 0 {
			cause, _ := p.Get(runCause, 0)
			v.Num = max(v.Num, p.lateSaving(int(math.Round(late.Num)), cause.Text == causeUneven))
		}
		p.Set(runSaveLate, 0, v)
	},
}

func (p *Pass) lateSaving(late int, spread bool) float64 {
	own := math.Inf(1)
	var held []float64
	p.eachGPU(func(_ int, _ *Card, g *timeline.GPULedger, r *timeline.Reduced) {
		if g == nil || g.Window.Empty() {
			return
		}
		share := float64(g.Owners[timeline.CommPeerWait]+g.Owners[timeline.CommTransfer]+g.Owners[timeline.CommUndivided]) / float64(g.Window.Dur())
		if r.Process.Rank == late {
			own = min(own, share)
		} else {
			held = append(held, share)
		}
	})
	if math.IsInf(own, 1) || len(held) == 0 {
		return 0
	}
	least, sum := 1.0, 0.0
	for _, h := range held {
		least, sum = min(least, h-own), sum+h-own
	}
	if spread {
		return max(0, sum/float64(len(held)+1))
	}
	return max(0, least)
}
