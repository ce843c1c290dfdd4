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
		{"torchtitan in colours", counting(3, func(i int) string {
			return fmt.Sprintf("[rank0]:[titan] 2025-03-01 10:00:%02d,500 - root - INFO - \x1b[31mstep: %2d  \x1b[32mloss:  7.1000  \x1b[33mmemory: 33.80GiB(42.10%%)  \x1b[34mtps: 5,432  \x1b[36mtflops: 98.10  \x1b[35mmfu: 31.50%%\x1b[39m", 10*i, 10*i)
		}), "0 step_s 1..1 n=2; 0 step_number 10..20 n=2; every 10"},
		{"mmengine by iterations", "2023/01/02 03:04:05 - mmengine - INFO - Iter(train) [   50/80000]  lr: 1.0e-02  eta: 9:10:12  time: 0.4512  data_time: 0.0123  memory: 1234  loss: 0.1\n" +
			"2023/01/02 03:04:28 - mmengine - INFO - Iter(train) [  100/80000]  lr: 1.0e-02  eta: 9:09:12  time: 0.4490  data_time: 0.0110  memory: 1234  loss: 0.1\n",
			"-1 step_s 0.4512..0.449 n=2; -1 step_number 50..100 n=2; -1 step_data_s 0.0123..0.011 n=2; every 50"},
		{"mmcv before it", "2021-10-23 10:51:07,015 - mmdet - INFO - Epoch [3][50/2500]\tlr: 0.02, eta: 9:00:00, time: 1.090, data_time: 0.015, memory: 7000, loss: 0.0394\n" +
			"2021-10-23 10:52:00,165 - mmdet - INFO - Epoch [3][100/2500]\tlr: 0.02, eta: 9:00:00, time: 1.063, data_time: 0.006, memory: 7000, loss: 0.0403\n",
			"-1 step_s 1.09..1.063 n=2; -1 step_number 7550..7600 n=2; -1 epoch 3..3 n=2; -1 step_data_s 0.015..0.006 n=2; every 50"},
		{"deepspeed: what it prints by itself", counting(4, func(i int) string {
			return fmt.Sprintf("[2024-03-07 15:27:%02d,646] [INFO] [logging.py:96:log_dist] [Rank 0] step=%d, skipped=4, lr=[4.9e-05], mom=[(0.9, 0.95)]\n", 10*i+2, 10*i+10) +
				fmt.Sprintf("[2024-03-07 15:27:%02d,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=%d/global_step=%d, RunningAvgSamplesPerSec=58.7, CurrSamplesPerSec=61.3, MemAllocated=6.01GB, MaxMemAllocated=19.5GB", 10*i+2, 40*i+40, 10*i+10)
		}), "0 step_s 1..1 n=3; 0 step_number 20..40 n=3; every 10"},
		{"NeMo", "Training epoch 0, iteration 0/249 | lr: 1.9e-06 | global_batch_size: 8 | global_step: 250 | reduced_train_loss: 1.315 | train_step_timing in s: 7.126\n" +
			"Training epoch 1, iteration 1/249 | lr: 3.9e-06 | global_batch_size: 8 | global_step: 251 | reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16\n",
			"-1 step_s 7.126..2.505 n=2; -1 step_number 250..251 n=2; -1 epoch 0..1 n=2; every 1"},
		{"fairseq", "2023-05-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 1840 loss=12.1, ppl=4500, wps=25000.1, ups=2.5, wpb=10000, bsz=300, num_updates=100, lr=1e-05, gnorm=2.1, train_wall=40, gb_free=20, wall=50\n" +
			"2023-05-01 10:00:40 | INFO | train_inner | epoch 001:    200 / 1840 loss=11.1, ppl=2500, wps=25000.1, ups=2.0, wpb=10000, bsz=300, num_updates=200, lr=1e-05, gnorm=2.1, train_wall=40, gb_free=20, wall=90\n",
			"-1 step_s 0.4..0.5 n=2; -1 step_number 100..200 n=2; -1 epoch 1..1 n=2; every 100"},
		{"MaxText", "completed step: 10, seconds: 1.234, TFLOP/s/device: 100.1, Tokens/s/device: 6637.0, total_weights: 65536, loss: 9.1\n" +
			"completed step: 11, seconds: 1.236, TFLOP/s/device: 100.0, Tokens/s/device: 6626.0, total_weights: 65536, loss: 9.0\n",
			"-1 step_s 1.234..1.236 n=2; -1 step_number 10..11 n=2; every 1"},
		{"PaddlePaddle", "[2023-05-01 10:00:10,000] [    INFO] - global step 10, epoch: 0, batch: 9, loss: 9.12, avg_reader_cost: 0.0021 sec, avg_batch_cost: 0.412 sec, avg_samples: 8.0, ips: 19.4 sequences/sec\n" +
			"[2023-05-01 10:00:14,000] [    INFO] - global step 20, epoch: 0, batch: 19, loss: 9.02, avg_reader_cost: 0.0020 sec, avg_batch_cost: 0.402 sec, avg_samples: 8.0, ips: 19.9 sequences/sec\n",
			"-1 step_s 0.412..0.402 n=2; -1 step_number 10..20 n=2; -1 epoch 0..0 n=2; -1 step_data_s 0.0021..0.002 n=2; every 10"},
		{"the ImageNet example", "Epoch: [1][ 10/5005]\tTime  0.312 ( 0.431)\tData  0.001 ( 0.092)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.00 (  0.10)\n" +
			"Epoch: [1][ 20/5005]\tTime  0.318 ( 0.375)\tData  0.002 ( 0.048)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.00 (  0.10)\n",
			"-1 step_s 0.312..0.318 n=2; -1 step_number 5015..5025 n=2; -1 epoch 1..1 n=2; -1 step_data_s 0.001..0.002 n=2; every 10"},
		{"detectron2", "[05/01 10:00:00 d2.utils.events]:  eta: 5:10:10  iter: 19  total_loss: 4.1  loss_cls: 1.2  time: 0.3512  last_time: 0.3600  data_time: 0.0310  last_data_time: 0.0100  lr: 0.0004  max_mem: 4000M\n" +
			"[05/01 10:00:07 d2.utils.events]:  eta: 5:10:10  iter: 39  total_loss: 3.1  loss_cls: 1.1  time: 0.3522  last_time: 0.3500  data_time: 0.0210  last_data_time: 0.0100  lr: 0.0008  max_mem: 4000M\n",
			"-1 step_s 0.3512..0.3522 n=2; -1 step_number 19..39 n=2; -1 step_data_s 0.031..0.021 n=2; every 20"},
		{"LitGPT", "Epoch 1 | iter 100 step 25 | loss train: 1.123, val: n/a | iter time: 345.67 ms (step) remaining time: 1:23:45\n" +
			"Epoch 1 | iter 101 step 25 | loss train: 1.113, val: n/a | iter time: 340.10 ms remaining time: 1:23:40\n",
			"-1 step_s 0.34567..0.3401 n=2; -1 step_number 100..101 n=2; -1 epoch 1..1 n=2; every 1"},
		{"GPT-NeoX", " samples/sec: 12.341 | iteration       10/  320000 | elapsed time per iteration (ms): 2592.4 | learning rate: 1.500E-06 | approx flops per GPU: 31.2TFLOPS | lm_loss: 1.0E+01 | number of skipped iterations:   0 |\n" +
			" samples/sec: 12.512 | iteration       20/  320000 | elapsed time per iteration (ms): 2557.6 | learning rate: 3.000E-06 | approx flops per GPU: 31.6TFLOPS | lm_loss: 1.0E+01 | number of skipped iterations:   0 |\n",
			"-1 step_s 2.5924..2.5576 n=2; -1 step_number 10..20 n=2; every 10"},
		{"Hugging Face Trainer's bar", tqdm(41, 2, 0, 1000, "", "{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.04}"),
			"-1 step_s 2..2 n=4; -1 step_number 10..40 n=4; every 10"},
		{"Lightning's bar, an epoch each", tqdm(21, 4, 0, 21, "Epoch 0: ", "") + tqdm(21, 4, 0, 21, "Epoch 1: ", ""),
			"-1 step_s 4..4 n=8; -1 step_number 5..41 n=8; -1 epoch 0..1 n=8; every 5"},
		{"a bar that says how long a step took", "Epoch 0:   1%|#    | 1/100 [00:03<04:57, reduced_train_loss=9.1, global_step=0.000, train_step_timing in s=3.130]\rEpoch 0:   2%|#    | 2/100 [00:06<04:54, reduced_train_loss=9.0, global_step=1.000, train_step_timing in s=3.120]\n",
			"-1 step_s 3.13..3.12 n=2; -1 step_number 1..2 n=2; -1 epoch 0..0 n=2; every 1"},
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

// tqdm is what the bar of that name leaves of a loop of n steps of so many seconds each, one state a step, from one step on.
func tqdm(n, sec, from, total int, what, after string) string {
	var b strings.Builder
	for i := range n {
		at := (from + i) * sec
		fmt.Fprintf(&b, "\r%s%3d%%|####      | %d/%d [%02d:%02d<10:00,  %d.00s/it]%s", what, 100*i/total, from+i, total, at/60, at%60, sec, after)
	}
	b.WriteString("\n")
	return b.String()
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
		"step=1 time=0.412\nstep=2 time=0.413\n\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\"0\",\"gemm\",\"L2 Hit Rate\",\"%\",\"70\"\n",
		// bars of other loops
		"\rDownloading shards:  10%|#   | 1/10 [00:10<01:30, 10.0s/it]\rDownloading shards:  20%|#   | 2/10 [00:20<01:20, 10.0s/it]\rDownloading shards:  30%|#   | 3/10 [00:30<01:10, 10.0s/it]\n",
		"\rMap:  10%|#   | 1000/10000 [00:10<01:30, 100.0 examples/s]\rMap:  20%|##   | 2000/10000 [00:20<01:20, 100.0 examples/s]\n",
		"\rValidation DataLoader 0:  10%|#   | 1/10 [00:10<01:30, 10.0s/it]\rValidation DataLoader 0:  20%|#   | 2/10 [00:20<01:20, 10.0s/it] loss\n",
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
