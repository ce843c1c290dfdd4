package steplog

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
	"gpureport/ingest/timeline"
)

var reader = ingesttest.Reader{Format: Format}

func head(text string) ingest.Head {
	return ingest.Head{Name: "train.log", Raw: []byte(text), Text: []byte(text)}
}

// shown prints the first and last reading of each series, by rank: step_s 0.41@0.41 .. 0.4@0.81.
func shown(tl *timeline.Timeline) string {
	var out []string
	for i := range tl.Series {
		s := &tl.Series[i]
		n := len(s.At) - 1
		out = append(out, fmt.Sprintf("%d %s %.5g..%.5g n=%d", tl.Tracks[s.Track].Thread, strings.TrimSuffix(s.Metric.Name, "_count"), s.Value[0], s.Value[n], n+1))
	}
	for _, a := range tl.Attrs {
		out = append(out, fmt.Sprintf("every %v", a.Value))
	}
	return strings.Join(out, "; ")
}

func TestForms(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"own words", "step=1 time=0.412\nstep=2 time=0.398\n", "-1 step_s 0.412..0.398 n=2; -1 step_number 1..2 n=2; every 1"},
		{"csv", "step,step_time_ms,epoch,tokens\n1,412,0,8192\n2,398,0,8190\n3,401.5,1,8000\n",
			"-1 step_s 0.412..0.4015 n=3; -1 step_number 1..3 n=3; -1 epoch 0..1 n=3; -1 step_tokens 8192..8000 n=3; every 1"},
		{"csv of times since the start", "iter;elapsed\n" + counting(12, func(i int) string { return fmt.Sprintf("%d;%.1f", i, 3+0.5*float64(i)) }),
			"-1 step_s 0.5..0.5 n=11; -1 step_number 1..11 n=11; every 1"},
		{"json lines", `{"step": 10, "loss": 2.1, "step_time": 0.41, "rank": 3}` + "\n" + `{"step": 11, "loss": 2.0, "step_time": 0.43, "rank": 3}` + "\n",
			"3 step_s 0.41..0.43 n=2; 3 step_number 10..11 n=2; every 1"},
		{"megatron", " [2024-05-01 10:00:00] iteration      100/  500000 | consumed samples:       102400 | elapsed time per iteration (ms): 2401.3 | learning rate: 1.0E-04 | global batch size:  1024 | lm loss: 6.1E+00 |\n" +
			" [2024-05-01 10:04:00] iteration      200/  500000 | consumed samples:       204800 | elapsed time per iteration (ms): 2398.0 | learning rate: 1.0E-04 | global batch size:  1024 | lm loss: 6.0E+00 |\n",
			"-1 step_s 2.4013..2.398 n=2; -1 step_number 100..200 n=2; every 100"},
		{"nanoGPT", "iter 0: loss 10.9, time 41230.12ms, mfu -100.00%\niter 1: loss 9.1, time 150.23ms, mfu -100.00%\niter 2: loss 8.1, time 151.9ms, mfu 17.2%\n",
			"-1 step_s 41.23..0.1519 n=3; -1 step_number 0..2 n=3; every 1"},
		{"mmengine", "2023/01/02 03:04:05 - mmengine - INFO - Epoch(train) [1][  50/1000]  lr: 1.0e-02  eta: 1:10:12  time: 0.4512  data_time: 0.0123  memory: 1234  loss: 0.1\n" +
			"2023/01/02 03:04:28 - mmengine - INFO - Epoch(train) [1][ 100/1000]  lr: 1.0e-02  eta: 1:09:12  time: 0.4490  data_time: 0.0110  memory: 1234  loss: 0.1\n",
			"-1 step_s 0.4512..0.449 n=2; -1 step_number 1050..1100 n=2; -1 epoch 1..1 n=2; -1 step_data_s 0.0123..0.011 n=2; every 50"},
		{"timm", "Train: 0 [  50/1251 (  4%)]  Loss: 6.9 (6.9)  Time: 0.412s, 1234.51/s  (0.503s, 1011.2/s)  LR: 1.0e-06  Data: 0.010 (0.200)\n" +
			"Train: 0 [ 100/1251 (  8%)]  Loss: 6.9 (6.9)  Time: 0.410s, 1240.00/s  (0.503s, 1011.2/s)  LR: 1.0e-06  Data: 0.011 (0.200)\n",
			"-1 step_s 0.412..0.41 n=2; -1 step_number 50..100 n=2; -1 epoch 0..0 n=2; -1 step_data_s 0.01..0.011 n=2; every 50"},
		{"torchvision", "Epoch: [0]  [ 10/1252]  eta: 0:10:12  lr: 0.1  img/s: 1234.5  loss: 6.9  time: 0.4890  data: 0.0012  max mem: 1234\n" +
			"Epoch: [0]  [ 20/1252]  eta: 0:10:12  lr: 0.1  img/s: 1234.5  loss: 6.9  time: 0.4880  data: 0.0013  max mem: 1234\n",
			"-1 step_s 0.489..0.488 n=2; -1 step_number 10..20 n=2; -1 epoch 0..0 n=2; -1 step_data_s 0.0012..0.0013 n=2; every 10"},
		{"torchtitan: stamps alone", counting(3, func(i int) string {
			return fmt.Sprintf("[rank0]:2024-08-01 10:00:%02d,500 - root - INFO - step: %2d  loss:  7.1  memory: 33.8GiB(42%%)  tps: 5,432  mfu: 31.5%%", 10*i, 10*i)
		}), "0 step_s 1..1 n=2; 0 step_number 10..20 n=2; every 10"},
		{"deepspeed", "steps: 10 loss: 8.1234 iter time (s): 1.234 samples/sec: 51.9\nsteps: 20 loss: 8.0 iter time (s): 1.210 samples/sec: 52.9\n",
			"-1 step_s 1.234..1.21 n=2; -1 step_number 10..20 n=2; every 10"},
		{"rates", "step 10/1000 loss 2.1 2.00 it/s\nstep 11/1000 loss 2.1 4.00 it/s\n", "-1 step_s 0.5..0.25 n=2; -1 step_number 10..11 n=2; every 1"},
		{"milliseconds without a unit", counting(6, func(i int) string { return fmt.Sprintf("2024-08-01T10:00:%02dZ step=%d time=%d", 2*i, i, 2000+i) }),
			"-1 step_s 2..2.005 n=6; -1 step_number 0..5 n=6; every 1"},
		{"two ranks in one file", "[rank0]: step=1 time=0.4\n[rank1]: step=1 time=0.5\n[rank0]: step=2 time=0.41\n[rank1]: step=2 time=0.51\n",
			"0 step_s 0.4..0.41 n=2; 0 step_number 1..2 n=2; 1 step_s 0.5..0.51 n=2; 1 step_number 1..2 n=2; every 1; every 1"},
	} {
		if !recognise(head(c.text)) {
			t.Errorf("%s: not recognised", c.name)
		}
		tl, probs, err := reader.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := shown(tl); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s (%s)", c.name, got, c.want, reader.Codes(probs))
		}
	}
}

func counting(n int, f func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
		b.WriteByte('\n')
	}
	return b.String()
}

func TestNotAStepLog(t *testing.T) {
	for _, text := range []string{
		"[   12.345] usb 1-1: step 1 time 3\n",
		"Epoch 1 done\nEpoch 2 done\n",
		"step 3 of the installation took a long time\nstep 4 of it too\n",
		"{'loss': 2.3, 'learning_rate': 1e-4, 'epoch': 0.01}\n{'loss': 2.3, 'learning_rate': 1e-4, 'epoch': 0.02}\n",
		"timestamp, index, utilization.gpu [%]\n2024/01/01 00:00:00.000, 0, 99 %\n",
		"# gpu sm mem\n# Idx % %\n0 99 1\n",
	} {
		if recognise(head(text)) {
			t.Errorf("recognised: %q", text)
		}
	}
}

func TestClocks(t *testing.T) {
	for text, want := range map[string]string{
		"step=1 time=0.4\nstep=2 time=0.4\n":                                                             "unplaced",
		"2024-08-01 10:00:00.100 step=1 time=0.4\n2024-08-01 10:00:00.500 step=2 time=0.4\n":             "wall",
		"2024-08-01T10:00:00.100+02:00 step=1 time=0.4\n2024-08-01T10:00:00.500+02:00 step=2 time=0.4\n": "zoned",
		"timestamp,step,step_time\n1722499200.1,1,0.4\n1722499200.5,2,0.4\n":                             "zoned",
	} {
		tl, _, err := reader.Read(t, text)
		if err != nil {
			t.Fatal(err)
		}
		c := tl.Clocks[tl.Sources[0].Clock]
		got := "unplaced"
		if c.Wall {
			got = "wall"
		}
		if c.Zoned {
			got = "zoned"
		}
		if got != want {
			t.Errorf("%q: clock %s, want %s", text, got, want)
		}
		if want == "zoned" {
			if at := float64(tl.Series[0].At[0]) / 1e9; math.Abs(math.Mod(at, 3600)-0.1) > 1e-3 {
				t.Errorf("%q: first step at %.3f", text, at)
			}
		}
	}
}

func TestDamage(t *testing.T) {
	tl, probs, err := reader.Read(t, "step,time\n1,0.4\n2,0.4\n3\n4,0.4\n5,")
	if err != nil || shown(tl) != "-1 step_s 0.4..0.4 n=3; -1 step_number 1..4 n=3; every 1" || reader.Codes(probs) != "short-row@4*1" {
		t.Errorf("%v %s %s", err, shown(tl), reader.Codes(probs))
	}
	if _, _, err := reader.Read(t, "step,time\n1,0.4\n"); err == nil || !strings.Contains(err.Error(), "fewer than two steps") {
		t.Errorf("one step: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"step=1 time=0.4\nstep=2 time=0.4\n", "step,time\n1,0.4\n2,1e308\n", `{"step":1,"time":1}` + "\n", "Epoch: [9] [ 1/2] time: .\n", "step=1e9 9999-99-99 99:99:99 time=-0\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { reader.Read(t, s) })
}
