package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// logged is a bench with nothing but a training loop's log of n steps, laid end to end.
func logged(n int, sec func(int) float64, more map[timeline.Metric]func(int) float64) *bench {
	b := newBench()
	tl := b.in.Base
	tl.Sources[0] = timeline.Source{Path: "steps.log", Format: "steplog", Used: true}
	tl.Tracks = append(tl.Tracks, timeline.Track{Kind: timeline.TrackSteps, Proc: -1, Device: -1, Thread: -1})
	add := func(m timeline.Metric, f func(int) float64) {
		s := timeline.Series{Metric: m}
		at := 0.0
		for i := range n {
			at += sec(i)
			s.At, s.Value, s.Row = append(s.At, timeline.Time(at*1e9)), append(s.Value, f(i)), append(s.Row, uint32(i+1))
		}
		tl.Series = append(tl.Series, s)
	}
	add(timeline.StepTime, sec)
	add(timeline.StepNumber, func(i int) float64 { return float64(100 + i) })
	for _, m := range []timeline.Metric{timeline.StepEpoch, timeline.StepTokens} {
		if f := more[m]; f != nil {
			add(m, f)
		}
	}
	b.attr(0, timeline.AttrStepEvery, "", 1, unit.Count)
	return b
}

func TestStepLogStandsForARank(t *testing.T) {
	g := logged(200, func(i int) float64 { return 0.4 * (1 + 0.01*noise(i)) }, nil).derive(t)
	g.num("loop", rankLogged, 200)
	g.about("loop", rankCV, 0.0074, 0.002)
	g.num("loop", rankOutliers, 0)
	g.num("loop", rankShift, 0)
	g.missing("loop", rankSlowOwn, "traced steps only")
	g.missing("loop", rankEdges, "epoch of each step")
	if d := g.value("loop", rankModes).Num; d < 1 || g.value("loop", rankModeRatio).Num > 1.02 {
		t.Errorf("one speed reads as D %v, ratio %v", d, g.value("loop", rankModeRatio).Num)
	}
	if r := g.value("loop", rankCV).Refs; len(r) != 5 || r[0].Path != "steps.log" {
		t.Errorf("refs %v", r)
	}
}

func TestTwoSpeeds(t *testing.T) {
	g := logged(200, func(i int) float64 {
		if i%5 == 3 || i%7 == 1 {
			return 0.6 * (1 + 0.01*noise(i))
		}
		return 0.4 * (1 + 0.01*noise(i))
	}, nil).derive(t)
	if d := g.value("loop", rankModes).Num; d < 10 {
		t.Errorf("D is %v", d)
	}
	g.about("loop", rankModeRatio, 1.5, 0.01)
	g.about("loop", rankModeSlow, 63.0/200, 1e-9)
	g.about("loop", rankModeMinor, 63.0/200, 1e-9) // 40 + 29 - 6 of both
	g.about("loop", rankModeSave, 63*0.2/(63*0.6+137*0.4), 0.005)
}

func TestLastingShiftWithWhatTheLogsShow(t *testing.T) {
	b := logged(300, func(i int) float64 {
		if i >= 180 {
			return 0.5 * (1 + 0.01*noise(i))
		}
		return 0.4 * (1 + 0.01*noise(i))
	}, nil)
	d := b.device(0, "NVIDIA A100-SXM4-80GB", "")
	b.series(d, timeline.PowerLimit, 1, append(flat(71, 400), flat(60, 250)...)...) // changes at 72 s; step 180 began at 72.0 s
	g := b.derive(t)
	g.about("loop", rankShift, 0.25, 0.01)
	g.num("loop", rankShiftAt, 280)
	g.about("loop", rankShiftSave, 120*0.1/(120*0.5+180*0.4), 0.01)
	g.text("loop", rankShiftWith, "the power limit changed")
}

func TestEpochEdges(t *testing.T) {
	// Epochs of 50 steps of 0.4 s; the first step of each takes 4.4 s; the first epoch is half as fast.
	g := logged(200, func(i int) float64 {
		x := 0.4 * (1 + 0.01*noise(i))
		if i < 50 {
			x *= 2
		}
		if i%50 == 0 {
			x += 4
		}
		return x
	}, map[timeline.Metric]func(int) float64{timeline.StepEpoch: func(i int) float64 { return float64(i / 50) }}).derive(t)
	g.num("loop", rankEdges, 3)
	g.about("loop", rankEdgeSteps, 10, 0.1)
	g.about("loop", rankEdgeFrac, 4/24.0, 0.005)
	g.about("loop", rankEpochOne, 2, 0.02)
}

func TestTokensExplainStepTime(t *testing.T) {
	tokens := func(i int) float64 { return 4000 + 3000*noise(i*7+1) }
	g := logged(200, func(i int) float64 { return 0.1 + tokens(i)*1e-4*(1+0.002*noise(i)) }, map[timeline.Metric]func(int) float64{timeline.StepTokens: tokens}).derive(t)
	if r2 := g.value("loop", rankTokenEffect).Num; r2 < 0.99 {
		t.Errorf("R2 is %v", r2)
	}
	if cv := g.value("loop", rankCV).Num; cv > 0.01 {
		t.Errorf("without what tokens explain the spread is %v", cv)
	}
}

func TestSlowStepsByTimeOrByNumber(t *testing.T) {
	byNumber := logged(400, func(i int) float64 {
		x := 0.3 + 0.1*float64(i)/400 + 0.02*noise(i)
		if i%25 == 10 {
			x += 1
		}
		return x
	}, nil).derive(t)
	byNumber.text("loop", rankPeriodHow, "by number, every 25 steps")
	byNumber.missing("loop", rankPeriodS, "by number")
	// A cron job every 30 s, whatever the steps take meanwhile.
	at, next := 0.0, 30.0
	var sec []float64
	for i := range 1200 {
		x := 0.2 + 0.1*float64(i)/1200 // more steps a period at first than at the end
		if at+x > next {
			x += 0.5
			next += 30
		}
		at += x
		sec = append(sec, x)
	}
	byTime := logged(1200, func(i int) float64 { return sec[i] }, nil).derive(t)
	byTime.about("loop", rankPeriodS, 30, 0.5)
	byTime.text("loop", rankPeriodHow, "by time, every 30 s")
	// Such a period counts as one, though no number of steps explains it.
	byTime.missing("loop", rankPeriod, "by time")
	byTime.text("loop", rankPeriodSays, "30 s")
	byTime.about("loop", rankEta, 0.72, 0.1) // the rest is the drift
	byTime.num("loop", rankEtaChance, 0)
	byTime.about("loop", rankExcess, 2, 0.3)
	byTime.about("loop", rankSavePeriod, 0.016, 0.004)
	byTime.missing("loop", rankMatch, "--set")
	b := logged(1200, func(i int) float64 { return sec[i] }, nil)
	b.in.Set = map[string]string{"save_every": "118", "log_every": "50"} // of 0.255 s each
	b.derive(t).text("loop", rankMatch, "checkpoint interval (118 steps)")
}

func TestPeriodsOfALogOfEachTenthStep(t *testing.T) {
	b := logged(200, func(i int) float64 { // each line the mean of ten steps; one of a hundred takes 0.5 s longer
		x := 0.1 * (1 + 0.01*noise(i))
		if i%10 == 9 {
			x += 0.05
		}
		return x
	}, nil)
	b.in.Base.Attrs[0].Value = 10
	b.in.Set = map[string]string{"save_every": "100", "workers": "10"}
	g := b.derive(t)
	g.num("loop", rankPeriod, 100)
	g.text("loop", rankPeriodSays, "100 steps")
	g.text("loop", rankMatch, "checkpoint interval")
	if c := g.value("loop", rankPeriod).Conf; c != timeline.Inferred {
		t.Errorf("confidence %v", c)
	}
}

func TestAPeriodOfAnEpoch(t *testing.T) {
	g := logged(400, func(i int) float64 {
		x := 0.1 * (1 + 0.01*noise(i))
		if i%50 == 0 {
			x += 2
		}
		return x
	}, map[timeline.Metric]func(int) float64{timeline.StepEpoch: func(i int) float64 { return float64(i / 50) }}).derive(t)
	g.num("loop", rankPeriod, 50)
	g.text("loop", rankMatch, "epoch")
}

func TestLogOfEachTenthStepHidesPeriods(t *testing.T) {
	b := logged(100, func(i int) float64 { return 0.4 * (1 + 0.01*noise(i)) }, nil)
	b.in.Base.Attrs[0].Value = 10
	g := b.derive(t)
	g.missing("loop", rankPeriod, "every 10 steps")
	g.missing("loop", rankEta, "every 10 steps")
	if c := g.value("loop", rankCV).Conf; c != timeline.Inferred {
		t.Errorf("confidence %v", c)
	}
}

func TestLongerLogSpeaksForATracedRank(t *testing.T) {
	b := logged(100, func(i int) float64 { return 0.4 * (1 + 0.01*noise(i)) }, nil)
	b.rank(0, "n", steps(24, 0.4, func(int) owned { return owned{timeline.Compute: 0.4} }))
	g := b.derive(t)
	g.num("rank0", rankLogged, 100)
	if v := g.value("rank0", rankCV); v.NRefs != 100 || v.Refs[0].Path != "steps.log" {
		t.Errorf("%+v", v)
	}
}

// Step time that goes up and comes back has no lasting shift; a stair has one however many steps it has.
func TestShiftsThatLast(t *testing.T) {
	level := func(of ...float64) func(int) float64 {
		return func(i int) float64 { return of[min(i/60, len(of)-1)] * (1 + 0.01*noise(i)) }
	}
	for _, c := range []struct {
		what string
		of   []float64
		want float64
	}{
		{"there and back", []float64{0.1, 0.14, 0.1}, 0},
		{"in turns", []float64{0.1, 0.14, 0.1, 0.14, 0.1, 0.14}, 0},
		{"a stair", []float64{0.1, 0.12, 0.2, 0.21}, 0.8},
		{"one step", []float64{0.1, 0.1, 0.14, 0.14}, 0.4},
		{"down", []float64{0.2, 0.2, 0.1, 0.1}, -0.5},
	} {
		g := logged(60*len(c.of), level(c.of...), nil).derive(t)
		g.about("loop", rankShift, c.want, 0.12)
	}
}

func TestDriftIsNoShift(t *testing.T) {
	slope := logged(300, func(i int) float64 { return 0.4*(1+0.3*float64(i)/300) + 0.004*noise(i) }, nil).derive(t)
	slope.num("loop", rankShift, 0)
	if r := slope.value("loop", rankModeRatio).Num; r > 1.03 {
		t.Errorf("a slope reads as two speeds, ratio %v", r)
	}
	slope.about("loop", rankDrift, 0.26, 0.02) // out of the median, which lies half way up
	stair := logged(300, func(i int) float64 {
		x := 0.4 + 0.004*noise(i)
		if i >= 150 {
			x += 0.12
		}
		return x
	}, nil).derive(t)
	stair.about("loop", rankShift, 0.3, 0.01)
	stair.about("loop", rankDrift, 0, 0.01)
	stair.num("loop", rankOutliers, 0)
	stair.num("run", runSteps, 300)
	stair.num("loop", rankMarked, 1)
}

func TestSlowStepsOfTheLogInTheTrace(t *testing.T) {
	slow := func(i int) bool { return i%8 == 5 }
	bench := func(seen float64) *bench {
		b := logged(200, func(i int) float64 {
			if slow(i) {
				return 0.6
			}
			return 0.4 + 0.001*noise(i)
		}, nil)
		b.rank(0, "a", steps(32, 0.4, func(i int) owned {
			if slow(i) {
				return owned{timeline.HostDataloader: seen, timeline.Compute: 0.4}
			}
			return owned{timeline.HostLaunch: 0.001 * (1 + noise(i)), timeline.Compute: 0.399}
		}))
		return b
	}
	g := bench(0.2).derive(t)
	g.text("rank0", rankSlowOwn, "host.dataloader")
	g = bench(0.004).derive(t)
	g.missing("rank0", rankSlowOwn, "no traced step is as slow")
	g.missing("rank0", rankSlowBy, "no traced step is as slow")
}
