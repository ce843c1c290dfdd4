package facts

import (
	"math"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// noise is a fixed wobble in [-1, 1) without trend or period: i, scrambled.
func noise(i int) float64 {
	x := uint64(i+1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64(x>>11)/(1<<52) - 1
}

func TestStepsAreTooFew(t *testing.T) {
	b := newBench()
	b.rank(0, "a", steps(8, 0.1, func(int) owned { return nil }))
	g := b.derive(t)
	g.num("run", runSteps, 8)
	g.num("rank0", rankMarked, 1)
	for _, d := range []*Decl{rankCV, rankCVLeast, rankLost, rankPeriod, rankEta, rankDrift, rankDriftP} {
		g.missing("rank0", d, "only 8 complete steps")
	}
	g = newBench().derive(t)
	g.num("run", runSteps, 0)
}

func TestNoMarks(t *testing.T) {
	b := newBench()
	l := steps(4, 0.1, func(int) owned { return nil })
	l.Steps = nil
	b.rank(0, "a", l)
	r := b.rank(1, "a", steps(30, 0.1, func(int) owned { return nil }))
	r.Steps.How, r.Steps.Confidence = "kernel-sequence", timeline.Inferred
	g := b.derive(t)
	g.num("rank0", rankMarked, 0)
	g.missing("rank0", rankStepP50, "no steps")
	g.num("rank1", rankMarked, 0)
	g.text("rank1", rankHow, "found by the repeating sequence of kernels")
	if v := g.value("rank1", rankCV); v.Conf != timeline.Inferred {
		t.Errorf("spread of guessed steps is %v", v.Conf)
	}
}

func TestSpread(t *testing.T) {
	b := newBench()
	b.rank(0, "a", steps(40, 0.1, func(i int) owned { // half at 0.1, half at 0.12: the wait grows
		if i%2 == 1 {
			return owned{timeline.HostDataloader: 0.02, timeline.Compute: 0.1}
		}
		return nil
	}))
	g := b.derive(t)
	g.num("rank0", rankCV, 1.4826*0.01/0.11)
	g.num("rank0", rankCVLeast, 0) // any two neighbours take as long as any others: a period, not a scatter
	g.num("rank0", rankJitter, 20*0.02/(20*0.1+20*0.12))
	g.num("rank0", rankOutliers, 0)
	g.num("rank0", rankLost, 0)
}

func TestOutliers(t *testing.T) {
	b := newBench()
	b.rank(0, "a", steps(50, 0.1, func(i int) owned {
		if i == 17 || i == 31 {
			return owned{timeline.HostCheckpoint: 0.5, timeline.Compute: 0.1}
		}
		return owned{timeline.HostLaunch: 0.01 + 0.001*noise(i), timeline.Compute: 0.09}
	}))
	g := b.derive(t)
	g.num("rank0", rankOutliers, 2)
	g.about("rank0", rankLost, 1.0/6, 0.01)
	g.text("rank0", rankSlowOwn, "host.checkpoint")
	v := g.value("rank0", rankLost)
	if v.NRefs != 2 || len(v.Refs) != 2 {
		t.Errorf("refs %v of %d", v.Refs, v.NRefs)
	}
}

func TestPeriod(t *testing.T) {
	run := func(k int) got {
		b := newBench()
		b.in.Set = map[string]string{"workers": "4", "accumulate": "7"}
		b.rank(0, "a", steps(120, 0.1, func(i int) owned {
			o := owned{timeline.Compute: 0.1 + 0.002*noise(i)}
			if k > 0 && i%k == 0 {
				o[timeline.HostDataloader] = 0.08
			}
			return o
		}))
		return b.derive(t)
	}
	g := run(4)
	g.num("rank0", rankPeriod, 4)
	g.about("rank0", rankExcess, 0.8, 0.03)
	g.about("rank0", rankSavePeriod, 0.02/0.12, 0.01)
	g.text("rank0", rankMatch, "number of loader workers")
	g.text("rank0", rankSlowOwn, "host.dataloader")
	if eta, chance := g.value("rank0", rankEta), g.value("rank0", rankEtaChance); eta.Num < 0.95 || chance.Num > 0.6 {
		t.Errorf("eta %v, by chance %v", eta.Num, chance.Num)
	}
	g = run(0)
	if eta, chance := g.value("rank0", rankEta), g.value("rank0", rankEtaChance); eta.Num >= 0.5 && eta.Num > chance.Num {
		t.Errorf("noise has period %v: eta %v, by chance %v", g.value("rank0", rankPeriod).Num, eta.Num, chance.Num)
	}
	b := newBench()
	b.rank(0, "a", steps(40, 0.1, func(int) owned { return nil }))
	g = b.derive(t)
	g.missing("rank0", rankPeriod, "do not differ")
	g.num("rank0", rankEta, 0)
}

func TestDrift(t *testing.T) {
	run := func(f func(i int) float64) got {
		b := newBench()
		b.rank(0, "a", steps(100, 0, func(i int) owned { return owned{timeline.Compute: f(i)} }))
		return b.derive(t)
	}
	g := run(func(i int) float64 { return 0.1 + 0.0002*float64(i) + 0.001*noise(i) })
	g.about("rank0", rankDrift, 0.02/0.11, 0.02)
	if p := g.value("rank0", rankDriftP).Num; p >= 0.01 {
		t.Errorf("a rise of a fifth has p %v", p)
	}
	g = run(func(i int) float64 { return 0.1 + 0.005*noise(i) })
	if p := g.value("rank0", rankDriftP).Num; p < 0.01 {
		t.Errorf("noise has p %v", p)
	}
	// A slow wander that returns is no trend, though neighbours resemble each other.
	g = run(func(i int) float64 { return 0.1 + 0.01*math.Sin(float64(i)*2*math.Pi/100) })
	if p := g.value("rank0", rankDriftP).Num; p < 0.001 {
		t.Errorf("a wander has p %v", p)
	}
}

func TestWarmup(t *testing.T) {
	b := newBench()
	r := b.rank(0, "a", steps(20, 0.1, func(int) owned { return nil }))
	r.Steps.All = append([]time.Duration{900e6, 200e6}, r.Steps.All...)
	r.Steps.FirstOwners[timeline.HostCompile] = 700e6
	r.Steps.FirstOwners[timeline.Compute] = 900e6
	g := b.derive(t)
	g.num("rank0", rankFirst, 9)
	g.num("rank0", rankWarm, 2)
	g.num("rank0", rankWarmExtra, 0.9)
	g.text("rank0", rankFirstOwner, "host.compile")
}

func TestRankSpread(t *testing.T) {
	b := newBench()
	for i, own := range []float64{0.1, 0.1, 0.14, 0.1} {
		b.rank(i, "a", steps(20, 0.14, func(int) owned {
			return owned{timeline.Compute: own, timeline.CommPeerWait: 0.14 - own}
		}))
	}
	g := b.derive(t)
	g.num("run", runSpread, 0.4)
	g.num("run", runSpreadT, 0.04/0.14)
	g.text("run", runSlowest, "rank 2")
	g.num("rank1", rankOwn, 0.1)

	b = newBench()
	b.rank(0, "a", steps(20, 0.14, func(int) owned { return nil }))
	b.derive(t).missing("run", runSpread, "only one rank")
	b.rank(1, "a", steps(20, 0.14, func(int) owned { return owned{timeline.CommUndivided: 0.05} }))
	b.derive(t).missing("run", runSpread, "could not be divided")
}
