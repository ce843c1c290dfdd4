package facts

import (
	"fmt"
	"math"
	"testing"

	"gpureport/ingest/timeline"
)

func TestSampledUtil(t *testing.T) {
	b := newBench()
	d := b.device(0, "", "")
	b.series(d, timeline.SMBusy, 1, 0, 0, 0, 0.97, 1, 1, 0.5, 0.05)
	b.series(d, timeline.Power, 1, 60, 60, 60, 100, 128, 140, 300, 60)
	b.series(d, timeline.PowerLimit, 1, 400, 400)
	b.series(d, timeline.PowerDefault, 1, 500)
	b.series(d, timeline.TempGPU, 1, 40, 71, 65)
	g := b.derive(t)
	g.num("gpu0", gpuSamples, 8)
	g.num("gpu0", gpuSpacing, 1)
	g.num("gpu0", gpuUtilLow, 0.5)
	g.missing("gpu0", gpuIdle, "only 8 samples")
	g.num("gpu0", gpuUtilFull, 3.0/8)
	g.num("gpu0", gpuPowerUse, (128-60)/340.0)
	g.num("gpu0", gpuPowerLimit, 0.8)
	g.num("gpu0", gpuTempMax, 71)
	g.missing("gpu0", gpuMargin, "(smiquery) holds the temperature margin")
	if v := g.value("gpu0", gpuTempMax); len(v.Refs) != 1 || v.Refs[0].String() != "smi.csv:3" {
		t.Errorf("refs %v", v.Refs)
	}
}

func TestIdleBySamplesIsAHint(t *testing.T) {
	b := newBench()
	b.series(b.device(0, "", ""), timeline.SMBusy, 1, square(80, 8, 0.5, 1, 0)...)
	g := b.derive(t)
	g.num("gpu0", gpuIdle, 0.5)
	if v := g.value("gpu0", gpuIdle); v.Conf != timeline.Hint {
		t.Errorf("idle by samples alone is %v", v.Conf)
	}
}

func TestNoLogs(t *testing.T) {
	b := newBench()
	b.rank(0, "a", steps(5, 0.1, func(int) owned { return nil }))
	g := b.derive(t)
	for _, d := range []*Decl{gpuUtil, gpuPowerCap, gpuClock, gpuLinkLow, gpuLost, gpuWaveR} {
		g.missing("gpu0", d, "no sampled log of this GPU")
	}
	g.missing("run", runJaccard, "no sampled log")
}

func TestWindowCutsReadings(t *testing.T) {
	b := newBench()
	d := b.device(0, "", "")
	b.series(d, timeline.SMBusy, 1, square(100, 100, 0.5, 1, 0)...)
	b.in.Window = timeline.Interval{Start: 51e9, End: 100e9}
	b.derive(t).num("gpu0", gpuUtil, 1)
	b.in.Base.Clocks[0].How = timeline.Unplaced // its stamps mean nothing on the run's axis
	b.derive(t).num("gpu0", gpuUtil, 0.5)
}

// GPUs that only a log knows come after those of the traces, and a trace's GPU is none of them.
func TestCardsOfLogs(t *testing.T) {
	b := newBench()
	b.rank(0, "n1", steps(1, 0.1, func(int) owned { return nil }))
	query := b.source("b.csv", "smiquery", timeline.Stated)
	b.in.Base.Sources[query].Host = "n2"
	b.in.Logs = map[string][]timeline.DeviceID{}
	for i := range 11 {
		d := b.deviceOf(query, i, "A", fmt.Sprintf("GPU-%d", i))
		b.series(d, timeline.SMBusy, 1, flat(5, 0.5)...)
		b.in.Logs[fmt.Sprintf("gpu%d", i)] = []timeline.DeviceID{d}
	}
	cards := Cards(b.in)
	if len(cards) != 11 || cards[0].Trace != 0 || cards[0].Host != "n1" || len(cards[0].Devices) != 1 || cards[1].Trace != -1 || cards[1].UUID != "GPU-1" || cards[1].Host != "n2" ||
		cards[1].Rank != -1 || cards[10].ID != "gpu10" || cards[10].Index != 10 {
		t.Errorf("cards %+v", cards)
	}
	subs := Subjects(b.in)
	if s := subs[len(subs)-1]; s.ID != "gpu10" || s.Rank != -1 || subs[s.Up].ID != "n2" {
		t.Errorf("%+v", s)
	}
}

func TestSubjects(t *testing.T) {
	b := newBench()
	b.rank(0, "n2", steps(1, 0.1, func(int) owned { return nil }))
	b.rank(1, "n1", steps(1, 0.1, func(int) owned { return nil }))
	b.rank(-1, "", steps(1, 0.1, func(int) owned { return nil }))
	b.rank(1, "n2", steps(1, 0.1, func(int) owned { return nil }))
	var ids []string
	subs := Subjects(b.in)
	for _, s := range subs {
		ids = append(ids, s.ID)
	}
	want := "run n1 n2 rank0 rank1 process2 rank1#2 gpu0 gpu1 gpu2 gpu3"
	if got := join(ids, " "); got != want {
		t.Fatalf("subjects %s, want %s", got, want)
	}
	if up := subs[subs[8].Up]; up.ID != "rank1" || subs[up.Up].ID != "n1" || subs[subs[9].Up].Up != 0 {
		t.Errorf("gpu1 is held by %v", up)
	}
}

func TestSawtooth(t *testing.T) {
	run := func(values []float64) got {
		b := newBench()
		b.series(b.device(0, "", ""), timeline.SMBusy, 0.5, values...)
		return b.derive(t)
	}
	g := run(square(240, 20, 0.3, 0.95, 0.1))
	g.about("gpu0", gpuWavePeriod, 10, 0.5)
	g.about("gpu0", gpuWaveTurns, 12, 1)
	g.about("gpu0", gpuWaveDuty, 0.3, 0.01)
	g.text("gpu0", gpuWaveShape, "square")
	if r := g.value("gpu0", gpuWaveR).Num; r < 0.7 {
		t.Errorf("r of a clean wave %v", r)
	}
	ramp := make([]float64, 240)
	for i := range ramp {
		ramp[i] = 1 - float64(i%24)/24
	}
	g = run(ramp)
	g.about("gpu0", gpuWaveLag, 24, 1)
	g.text("gpu0", gpuWaveShape, "ramp")

	still := make([]float64, 240)
	for i := range still {
		still[i] = 0.6 + 0.2*math.Mod(float64(i*i)*0.6180339887, 1)
	}
	g = run(still)
	if r, noise := g.value("gpu0", gpuWaveR).Num, g.value("gpu0", gpuWaveNoise).Num; r >= 0.3 && r >= noise {
		t.Errorf("noise has r %v at %v", r, g.value("gpu0", gpuWaveLag).Num)
	}
	g = run(flat(240, 0.5))
	g.num("gpu0", gpuWaveR, 0)
	g.missing("gpu0", gpuWavePeriod, "no period")
	g = run(flat(40, 0.5))
	g.missing("gpu0", gpuWaveR, "only 40 samples")
}

func TestAutocorrelationIsTheSum(t *testing.T) {
	x := make([]float64, 77)
	for i := range x {
		x[i] = noise(i)
	}
	total := 0.0
	for _, v := range x {
		total += v * v
	}
	got := autocorrelation(x)
	for k := range x {
		want := 0.0
		for i := 0; i+k < len(x); i++ {
			want += x[i] * x[i+k]
		}
		if math.Abs(got[k]-want/total) > 1e-12 {
			t.Fatalf("lag %d: %v, want %v", k, got[k], want/total)
		}
	}
}

func TestSawtoothMatchesIntervals(t *testing.T) {
	b := newBench()
	for i := range 2 {
		b.series(b.device(i, "", ""), timeline.SMBusy, 1, square(240, 20, 0.3, 0.95, 0.1)...)
	}
	b.rank(0, "a", steps(30, 2, func(int) owned { return nil }))
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0, 1}}
	b.derive(t).missing("run", runWaveMatch, "one GPU alone")
	b.rank(1, "a", steps(30, 2, func(int) owned { return nil }))
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}, "gpu1": {1}}
	b.derive(t).missing("run", runWaveMatch, "no interval that --set states")
	b.in.Set = map[string]string{"save_every": "10", "workers": "4"}
	g := b.derive(t)
	g.about("run", runWavePeriod, 20, 1)
	g.text("run", runWaveMatch, "checkpoint interval (10 steps)")
}

func TestHolesAreBridged(t *testing.T) {
	v := square(240, 20, 0.3, 0.95, 0.1)
	for i := 5; i < 240; i += 9 {
		v[i] = math.NaN()
	}
	b := newBench()
	b.series(b.device(0, "", ""), timeline.SMBusy, 1, v...)
	b.derive(t).about("gpu0", gpuWavePeriod, 20, 1)
}

func TestCrossGPU(t *testing.T) {
	run := func(curves ...[]float64) got {
		b := newBench()
		for i, c := range curves {
			b.series(b.device(i, "", ""), timeline.SMBusy, 1, c...)
		}
		return b.derive(t)
	}
	dip := square(120, 20, 0.3, 1, 0.1)
	late := append(append([]float64{}, dip[1:]...), 1) // one sample apart is together
	g := run(dip, late)
	g.num("run", runDipGPUs, 2)
	if j := g.value("run", runJaccard).Num; j < 0.7 {
		t.Errorf("overlap of one dip a sample apart is %v", j)
	}
	g = run(flat(120, 1), dip, flat(120, 1))
	g.num("run", runJaccard, 0)
	g.num("run", runLateLow, 0.3)
	g.text("run", runLateName, "GPU 1")
	g = run(flat(120, 1), flat(120, 1))
	g.missing("run", runJaccard, "no GPU's utilisation dips")
	g.num("run", runLateLow, 0)
	run(dip).missing("run", runJaccard, "one GPU alone")
}

func TestDips(t *testing.T) {
	b := newBench()
	v := flat(40, 1)
	v[10], v[11] = 0.2, 0.4
	v[30] = 0.5
	b.series(b.device(0, "", ""), timeline.SMBusy, 1, v...)
	w := flat(40, 1)
	w[12] = 0 // within a sample of the other's
	b.series(b.device(1, "", ""), timeline.SMBusy, 1, w...)
	dips := Dips(b.in)
	if len(dips) != 2 {
		t.Fatalf("%d dips: %+v", len(dips), dips)
	}
	d := dips[0]
	if join(d.GPUs, " ") != "gpu0 gpu1" || d.From != 1 || d.To != 0 || d.Known {
		t.Errorf("dip %+v", d)
	}
	if d.Window != (timeline.Interval{Start: 10e9, End: 13e9}) { // readings 10 to 12 stand at 11 s to 13 s
		t.Errorf("window %+v", d.Window)
	}
	if math.Abs(d.LossNS-2.4e9) > 1 || len(d.Refs) != 3 || d.Refs[0].String() != "smi.csv:12" {
		t.Errorf("loss %v, refs %v", d.LossNS, d.Refs)
	}
	if math.Abs(dips[1].LossNS-0.5e9) > 1 {
		t.Errorf("second %+v", dips[1])
	}

	// With a trace the ledger says who held the GPU.
	l := steps(40, 1, func(i int) owned {
		if i == 10 {
			return owned{timeline.HostDataloader: 0.8, timeline.Compute: 0.2}
		}
		return nil
	})
	b.rank(0, "a", l)
	b.in.Logs = map[string][]timeline.DeviceID{"gpu0": {0}}
	d = Dips(b.in)[0]
	if !d.Known || d.Owners[timeline.HostDataloader] != 800e6 || d.Owners.Sum() != 2e9 {
		t.Errorf("owners %v", d.Owners)
	}
	b.in.Base.Clocks[0].How = timeline.Unplaced
	if d = Dips(b.in)[0]; d.Known || d.Owners.Sum() != 0 {
		t.Errorf("owners of a log nobody placed: %v", d.Owners)
	}
}
