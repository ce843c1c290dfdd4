//go:build linux

package recorder_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/nvml"
	"gpureport/ingest/recorder"
	"gpureport/ingest/timeline"
)

// TestMain also is the recorder that other tests kill and starve.
func TestMain(m *testing.M) {
	if path := os.Getenv("RECORDER_TEST_FILE"); path != "" {
		os.Exit(child(path))
	}
	os.Exit(m.Run())
}

// child records a machine of two fake GPUs and prints the number of each tick that is in the file.
func child(path string) int {
	if limit := os.Getenv("RECORDER_TEST_LIMIT"); limit != "" {
		n, _ := strconv.ParseUint(limit, 10, 64)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 9
		}
	}
	o := recorder.Options{Path: path, Period: recorder.MinPeriod, Driver: newFake(2), Tool: "test"}
	if c := os.Getenv("RECORDER_TEST_COMMAND"); c != "" {
		o.Command = []string{"sh", "-c", c}
		o.Say = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	recorder.OnTick(&o, func(n int64) { fmt.Println(n) })
	sum, err := recorder.Run(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if !sum.Ran {
			return 7
		}
	}
	return sum.ExitCode
}

func childCommand(t *testing.T, path string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(append(os.Environ(), "RECORDER_TEST_FILE="+path), env...)
	return cmd
}

// readBack reads captures as analyze does.
func readBack(t *testing.T, paths ...string) *timeline.Timeline {
	t.Helper()
	s, err := ingest.Open(paths, []ingest.Format{nvml.Format}, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	base, err := s.ReadBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := base.Validate(); err != nil {
		t.Errorf("not valid: %v", err)
	}
	return base
}

// records gives the plain text of a capture, record by record.
func records(t *testing.T, path string) []map[string]any {
	t.Helper()
	in := openCapture(t, path)
	var out []map[string]any
	for line := range bytes.Lines(in) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // torn
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		var v map[string]any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: %v: %q", path, err, line)
		}
		out = append(out, v)
	}
	return out
}

// openCapture decodes a capture; what a killed recorder left half written ends it.
func openCapture(t *testing.T, path string) []byte {
	t.Helper()
	s, err := ingest.Open([]string{path}, []ingest.Format{{Name: "raw", Doc: "raw", Recognise: func(ingest.Head) bool { return true },
		Read: func(_ context.Context, in *ingest.Input, b *timeline.Builder) error {
			f, err := in.Open()
			if err != nil {
				return err
			}
			defer f.Close()
			text, _ := io.ReadAll(f)
			b.AddClock(0, timeline.Clock{})
			tr := b.Track(timeline.Track{Proc: -1, Device: -1})
			b.AddAttr(tr, "text", string(text), 0, 0)
			return nil
		}}}, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	base, err := s.ReadBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(base.Attrs) == 0 {
		return nil
	}
	return []byte(base.Attrs[0].Text)
}

func count(rs []map[string]any, kind string) (n int) {
	for _, r := range rs {
		if r["k"] == kind {
			n++
		}
	}
	return n
}

func seriesOf(base *timeline.Timeline, gpu int, metric string) *timeline.Series {
	for i := range base.Series {
		s := &base.Series[i]
		if d := base.Tracks[s.Track].Device; s.Metric.Name == metric && base.Tracks[s.Track].Kind == timeline.TrackGPU && d >= 0 && base.Devices[d].Index == gpu {
			return s
		}
	}
	return nil
}

func hostSeries(base *timeline.Timeline, metric string) *timeline.Series {
	for i := range base.Series {
		if s := &base.Series[i]; s.Metric.Name == metric && base.Tracks[s.Track].Kind == timeline.TrackHostReadings {
			return s
		}
	}
	return nil
}

// run records until so many ticks are in the file, or for at most a minute.
func run(t *testing.T, o recorder.Options, ticks int64, at func(tick int64)) (recorder.Summary, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if o.Period == 0 {
		o.Period = recorder.MinPeriod
	}
	recorder.OnTick(&o, func(n int64) {
		if at != nil {
			at(n)
		}
		if n >= ticks {
			cancel()
		}
	})
	return recorder.Run(ctx, o)
}

// Eight GPUs: recorded, read, the same numbers.
func TestRoundTrip(t *testing.T) {
	for _, ext := range []string{"", ".gz", ".zst"} {
		path := filepath.Join(t.TempDir(), "run.jsonl"+ext)
		d := newFake(8)
		sum, err := run(t, recorder.Options{Path: path, Driver: d, Tool: "gpureport test"}, 12, func(n int64) {
			if n == 4 {
				d.events <- recorder.Event{Index: 5, Type: 8, Data: 79}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if sum.GPUs != 8 || sum.Ticks < 12 || sum.Bytes == 0 || sum.CPU <= 0 || !d.closed.Load() {
			t.Errorf("summary %+v", sum)
		}
		st, err := os.Stat(path)
		if err != nil || st.Size() != sum.Bytes {
			t.Errorf("file has %v bytes, the summary says %d", st, sum.Bytes)
		}
		base := readBack(t, path)
		for _, p := range base.Problems {
			if p.Severity > timeline.Info {
				t.Errorf("problem %+v", p)
			}
		}
		if len(base.Devices) != 8 {
			t.Fatalf("%d devices", len(base.Devices))
		}
		for i := range 8 {
			dev := base.Devices[i]
			if dev.UUID != fmt.Sprintf("GPU-%08d", i) || dev.Bus != fmt.Sprintf("0000:%02x:00", 0x10+i) || dev.Memory != 85520809984 || dev.CC != "9.0" {
				t.Errorf("device %+v", dev)
			}
			for metric, want := range map[string]float64{"sm_busy_frac": float64(90+i) / 100, "mem_busy_frac": .4, "clock_sm_hz": 1755e6, "clock_mem_hz": 2619e6, "clock_video_hz": 1545e6,
				"clock_reasons": 4, "power_w": 688.12 + float64(i)/1000, "power_instant_w": 186, "temp_gpu_c": 63, "temp_mem_c": 74, "temp_margin_c": 24, "pstate_count": 0,
				"mem_used_bytes": 71234567890, "mem_reserved_bytes": 502267904, "gr_active_frac": .01, "sm_active_frac": .02, "sm_occupancy_frac": .03, "tensor_active_frac": .05,
				"dram_active_frac": .10, "fp64_active_frac": .11, "fp32_active_frac": .12, "fp16_active_frac": .13, "pcie_gen_count": 5, "pcie_width_count": 16, "pcie_replays_count": 0,
				"nvlink_up_count": 17, "nvlink_errors_count": 36, "ecc_corrected_count": 12, "ecc_uncorrected_count": 13, "remapped_corrected_count": 1, "remapped_uncorrected_count": 2,
				"remap_pending": 1, "remap_failed": 0, "power_limit_w": 700, "bar1_used_bytes": 64 << 20, "gpu_processes_count": 2, "retired_double_bit_count": 1,
				"enc_busy_frac": .01, "dec_busy_frac": .02} {
				s := seriesOf(base, i, metric)
				if s == nil {
					t.Errorf("GPU %d: no %s", i, metric)
					continue
				}
				for _, v := range s.Value {
					if v != want {
						t.Errorf("GPU %d %s: %v, want %v", i, metric, v, want)
						break
					}
				}
			}
			// Counters rise by one a tick.
			s := seriesOf(base, i, "throttle_sw_power_s")
			if s == nil || len(s.Value) < 12 || s.Value[0] < 74e-6 || s.Value[11] <= s.Value[0] {
				t.Errorf("GPU %d: throttle counter %+v", i, s)
			}
			for _, m := range []string{"pcie_d2h_bytes_per_s", "pcie_h2d_bytes_per_s", "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "energy_j", "sm_busy_fine_frac"} {
				if s := seriesOf(base, i, m); s == nil || len(s.Value) < 5 {
					t.Errorf("GPU %d: %s: %+v", i, m, s)
				}
			}
		}
		if s := seriesOf(base, 3, "nvlink_tx_bytes_per_s"); s != nil && s.Metric.Window != recorder.MinPeriod {
			t.Errorf("a rate over %v, want the interval", s.Metric.Window)
		}
		xids := 0
		for i, k := range base.Marks.Kind {
			if k == timeline.MarkXid && base.Marks.Code[i] == 79 && base.Devices[base.Tracks[base.Marks.Track[i]].Device].Index == 5 {
				xids++
			}
		}
		if xids != 1 {
			t.Errorf("%d marks of the Xid", xids)
		}
		var nv int
		for _, l := range base.Links {
			if l.Kind == "NV17" && l.Count == 17 {
				nv++
			}
		}
		if nv != 56 {
			t.Errorf("%d NVLink pairs, want 8 x 7: %v", nv, base.Links)
		}
		if s := hostSeries(base, "cpu_busy_frac"); s == nil || len(s.Value) < 5 {
			t.Errorf("host's CPUs: %+v", s)
		}
		rs := records(t, path)
		last := rs[len(rs)-1]
		if last["k"] != "end" || last["why"] != "stopped" || last["ticks"] != json.Number(strconv.FormatInt(sum.Ticks, 10)) || last["cpu_user_ns"] == nil || last["n"] != json.Number(strconv.Itoa(len(rs))) {
			t.Errorf("last record %v", last)
		}
		for _, r := range rs {
			if r["k"] == "g" && r["i"] == json.Number("0") { // 2^53 + 1 and more, to the last digit
				if en := r["en"].(json.Number).String(); !strings.HasPrefix(en, "90071992547") || en[len(en)-3:] != "993" {
					t.Errorf("energy %s", en)
				}
			}
		}
	}
}

// Every call fails in turn with every code: the recording goes on, and what failed is absent, not zero.
func TestFaults(t *testing.T) {
	var calls []any
	for c := recorder.CallUtilization; c <= recorder.CallGPM; c++ {
		calls = append(calls, c)
	}
	for c := recorder.TextName; c <= recorder.TextRemote; c++ {
		calls = append(calls, c)
	}
	for _, id := range []uint32{74, 82, 91, 138, 161, 164, 185, 186, 193, 197, 198, 230, 269, 270, 271} {
		calls = append(calls, id)
	}
	calls = append(calls, "Fields", "Processes", "ProcessUse", "Samples", "GPM")
	codes := []recorder.Code{recorder.NotSupported, recorder.NoPermission, recorder.FunctionNotFound, recorder.VersionMismatch, recorder.Deprecated, recorder.NoData, recorder.NotReady, recorder.UnknownError}
	metricOf := map[any]string{recorder.CallUtilization: "sm_busy_frac", recorder.CallEnergy: "energy_j", recorder.CallReasons: "clock_reasons",
		recorder.CallTemperature: "temp_gpu_c", recorder.CallMargin: "temp_margin_c", recorder.CallMemory: "mem_used_bytes", recorder.CallPState: "pstate_count",
		recorder.CallPCIeReplays: "pcie_replays_count", recorder.CallRemapped: "remap_pending", recorder.CallBAR1: "bar1_used_bytes", uint32(82): "temp_mem_c", uint32(269): "throttle_sw_thermal_s",
		uint32(186): "power_instant_w", recorder.CallPowerEnforced: "power_limit_w", "Processes": "gpu_processes_count", "GPM": "sm_active_frac"}
	for _, code := range codes {
		// Of a large machine each GPU has one call that fails.
		d := newFake(len(calls))
		for i, dev := range d.devs {
			dev.fail[calls[i]] = code
		}
		path := filepath.Join(t.TempDir(), "run.jsonl")
		sum, err := run(t, recorder.Options{Path: path, Driver: d, Period: 250 * time.Millisecond}, 6, nil)
		if err != nil {
			t.Fatal(err)
		}
		if root := code == recorder.NoPermission; slices.Contains(sum.NeedRoot, "GetProcessUtilization") != root || !slices.Contains(sum.Absent, "GetFanSpeed") {
			t.Errorf("%v: absent %v, of these for root %v", code, sum.Absent, sum.NeedRoot)
		}
		base := readBack(t, path)
		for i, what := range calls {
			for c, m := range metricOf {
				s := seriesOf(base, i, m)
				field := c == uint32(82) || c == uint32(269) || c == uint32(186)
				switch {
				case what == c && s != nil:
					t.Errorf("GPU %d: %v fails with %v, and %s is %v", i, what, code, m, s.Value)
				case what != c && s == nil && !(what == "Fields" && field) && !(what == recorder.CallGPM && c == "GPM"):
					t.Errorf("GPU %d: %v fails with %v, and %s is gone", i, what, code, m)
				}
			}
			// Without counters of PCIe bytes the slow call is used.
			if what == uint32(197) && code == recorder.NotSupported {
				if s := seriesOf(base, i, "pcie_d2h_bytes_per_s"); s == nil || s.Value[0] != 1e6 {
					t.Errorf("GPU %d: PCIe throughput by the call: %+v", i, s)
				}
			}
		}
		failing := slices.ContainsFunc(base.Problems, func(p timeline.Problem) bool { return p.Code == "gpureport-record/failed-reading" })
		if failing != (code == recorder.UnknownError) {
			t.Errorf("%v: problems %v", code, base.Problems)
		}
	}
}

// A GPU falls off the bus and comes back; another hangs in the driver: the rest is recorded.
func TestLostAndHungGPU(t *testing.T) {
	d := newFake(4)
	hang := make(chan struct{})
	path := filepath.Join(t.TempDir(), "run.jsonl")
	_, err := run(t, recorder.Options{Path: path, Driver: d}, 34, func(n int64) {
		switch n {
		case 3:
			d.devs[1].set("lost", recorder.GPULost)
			d.devs[2].set("lost", recorder.ResetRequired)
		case 5:
			d.devs[3].mu.Lock()
			d.devs[3].hang = hang
			d.devs[3].mu.Unlock()
		case 8:
			d.devs[1].set("lost", recorder.OK)
		case 28:
			d.devs[3].mu.Lock()
			d.devs[3].hang = nil
			d.devs[3].mu.Unlock()
			close(hang)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	rs := records(t, path)
	events := map[string]int{}
	samples := map[string]int{}
	for _, r := range rs {
		switch r["k"] {
		case "ev":
			if r["i"] != nil {
				events[fmt.Sprint(r["ty"], r["i"])]++
			}
		case "g":
			samples[fmt.Sprint(r["i"])]++
		}
	}
	if events["lost1"] != 1 || events["reset_required2"] != 1 || events["back1"] != 1 || events["back2"] != 0 {
		t.Errorf("events %v", events)
	}
	if samples["0"] < 34 || samples["2"] > 5 || samples["1"] <= samples["2"] || samples["3"] >= samples["0"]-10 {
		t.Errorf("samples %v", samples)
	}
	base := readBack(t, path)
	lost := 0
	for _, k := range base.Marks.Kind {
		if k == timeline.MarkGPULost {
			lost++
		}
	}
	if lost != 2 {
		t.Errorf("%d marks of lost GPUs", lost)
	}
}

// The file ends within a tick of the moment the recorder was killed, whatever that moment is.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty recorders are killed")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for k := range 20 {
		ext := []string{"", ".gz", ".zst"}[k%3]
		path := filepath.Join(t.TempDir(), "run.jsonl"+ext)
		cmd := childCommand(t, path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		acked := 0
		for want := 2 + rnd.IntN(8); acked < want && lines.Scan(); {
			acked, _ = strconv.Atoi(lines.Text())
		}
		time.Sleep(time.Duration(rnd.IntN(110_000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		for lines.Scan() {
			acked, _ = strconv.Atoi(lines.Text())
		}
		_ = cmd.Wait()
		rs := records(t, path)
		if n := count(rs, "h"); n < acked || acked < 2 {
			t.Errorf("kill %d %s: %d ticks in the file, %d were written", k, ext, n, acked)
		}
		base := readBack(t, path)
		if !base.Sources[0].Used || base.Sources[0].Format != "gpureport-record" {
			t.Errorf("kill %d: source %+v", k, base.Sources[0])
		}
		if s := seriesOf(base, 1, "sm_busy_frac"); s == nil || len(s.Value) < acked-1 {
			t.Errorf("kill %d %s: %d ticks were written, read %+v", k, ext, acked, s)
		}
	}
}

// The disk is full: a clear error, and the file can be read to its last whole sample.
func TestDiskFull(t *testing.T) {
	for _, ext := range []string{"", ".gz", ".zst"} {
		path := filepath.Join(t.TempDir(), "run.jsonl"+ext)
		limit := "30000"
		if ext != "" {
			limit = "7000"
		}
		cmd := childCommand(t, path, "RECORDER_TEST_LIMIT="+limit)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var ee *exec.ExitError
		if !errors.As(err, &ee) || ee.ExitCode() != 7 {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		if !strings.Contains(stderr.String(), "run.jsonl"+ext+": file too large: the recording ends here, and what was written before can be read") {
			t.Errorf("says %q", stderr.String())
		}
		acked := strings.Count(stdout.String(), "\n")
		rs := records(t, path)
		if n := count(rs, "h"); n != acked || acked < 2 {
			t.Errorf("%s: %d ticks in the file, %d were written", ext, n, acked)
		}
		if base := readBack(t, path); !base.Sources[0].Used || len(base.Series) == 0 {
			t.Errorf("%s: not read: %+v", ext, base.Sources[0])
		}
	}
	// The training goes on without its recording, and its code counts.
	path := filepath.Join(t.TempDir(), "run.jsonl")
	mark := filepath.Join(t.TempDir(), "done")
	cmd := childCommand(t, path, "RECORDER_TEST_LIMIT=20000", "RECORDER_TEST_COMMAND=while [ ! -e "+mark+" ]; do sleep 0.05; done; exit 5")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "file too large") {
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	err = cmd.Wait()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.ExitCode() != 5 {
		t.Errorf("the command's code was 5: %v", err)
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	record := func(name string, o recorder.Options) (recorder.Summary, []map[string]any, error) {
		o.Path, o.NoGPU, o.Period = filepath.Join(dir, name), true, recorder.MinPeriod
		sum, err := recorder.Run(t.Context(), o)
		return sum, records(t, o.Path), err
	}
	var out bytes.Buffer
	sum, rs, err := record("a.jsonl", recorder.Options{Command: []string{"sh", "-c", "echo hello; sleep 0.3; exit 3"}, Stdout: &out})
	if err != nil || sum.ExitCode != 3 || !sum.Ran || out.String() != "hello\n" {
		t.Errorf("exit %d, %q, %v", sum.ExitCode, out.String(), err)
	}
	var kinds []string
	for _, r := range rs {
		if r["k"] == "ev" {
			kinds = append(kinds, fmt.Sprint(r["ty"]))
		}
	}
	if !slices.Equal(kinds, []string{"start", "exit"}) || count(rs, "proc") == 0 || count(rs, "pr") == 0 || rs[len(rs)-1]["why"] != "command ended" {
		t.Errorf("events %v, %d processes described, %d sampled, %v", kinds, count(rs, "proc"), count(rs, "pr"), rs[len(rs)-1])
	}
	sum, _, err = record("b.jsonl", recorder.Options{Command: []string{"sh", "-c", "kill -TERM $$"}})
	if err != nil || sum.ExitCode != 128+15 {
		t.Errorf("a command killed by SIGTERM: exit %d, %v", sum.ExitCode, err)
	}
	sum, rs, err = record("c.jsonl", recorder.Options{Command: []string{"no-such-program-here"}})
	if err == nil || sum.ExitCode != 127 || rs[len(rs)-1]["k"] != "end" {
		t.Errorf("a command that is not there: exit %d, %v", sum.ExitCode, err)
	}
	if _, err := recorder.Run(t.Context(), recorder.Options{Path: filepath.Join(dir, "a.jsonl"), NoGPU: true}); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("a file that is there: %v", err)
	}
	if _, err := recorder.Run(t.Context(), recorder.Options{Path: filepath.Join(dir, "no", "such", "folder"), NoGPU: true, Command: []string{"touch", filepath.Join(dir, "ran")}}); err == nil {
		t.Error("a folder that is not there")
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command ran though its file could not be made")
	}
}

// A signal to the recorder reaches the command, and the file is closed after it.
func TestSignal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.jsonl.zst")
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := childCommand(t, path, "RECORDER_TEST_COMMAND=trap 'exit 42' USR1; touch "+ready+"; while true; do sleep 0.05; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 6000 {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.ExitCode() != 42 {
		t.Errorf("exit: %v", err)
	}
	if rs := records(t, path); len(rs) == 0 || rs[len(rs)-1]["why"] != "command ended" {
		t.Errorf("%d records", len(rs))
	}
}

// Parts can be read one by one, and are one host.
func TestRotate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.jsonl.zst")
	sum, err := run(t, recorder.Options{Path: path, Driver: newFake(2), Rotate: 3000}, 25, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Parts < 3 {
		t.Fatalf("%d parts", sum.Parts)
	}
	if _, err := os.Stat(filepath.Join(dir, "run.002.jsonl.zst")); err != nil {
		t.Error(err)
	}
	for i := range sum.Parts {
		name := path
		if i > 0 {
			name = filepath.Join(dir, fmt.Sprintf("run.%03d.jsonl.zst", i+1))
		}
		rs := records(t, name)
		if rs[0]["k"] != "hdr" || rs[0]["part"] != json.Number(strconv.Itoa(i+1)) || count(rs, "gpu") != 2 || count(rs, "host") != 1 || count(rs, "clk") == 0 {
			t.Errorf("part %d begins with %v", i+1, rs[0])
		}
		if last := rs[len(rs)-1]["k"]; last != "next" && (i < sum.Parts-1 || last != "end") {
			t.Errorf("part %d ends with %v", i+1, last)
		}
	}
	base := readBack(t, dir)
	if len(base.Sources) != sum.Parts || len(base.Devices) != 2*sum.Parts {
		t.Errorf("%d sources, %d devices of %d parts", len(base.Sources), len(base.Devices), sum.Parts)
	}
	n, hosts := 0, map[string]bool{}
	var spans []timeline.Interval
	for i := range base.Sources {
		hosts[base.Sources[i].Host] = true
	}
	for i := range base.Series {
		if s := &base.Series[i]; s.Metric.Name == "run_queue_count" {
			n += len(s.At)
			spans = append(spans, timeline.Interval{Start: s.At[0], End: s.At[len(s.At)-1]})
		}
	}
	slices.SortFunc(spans, func(a, b timeline.Interval) int { return cmp.Compare(a.Start, b.Start) })
	for i := range spans {
		if i > 0 && spans[i].Start <= spans[i-1].End {
			t.Errorf("a part begins before the one before it ended")
		}
	}
	if int64(n) < sum.Ticks || len(hosts) != 1 {
		t.Errorf("%d samples of %d, hosts %v", n, sum.Ticks, hosts)
	}
}

// What a counter rose by is told once by the parts of a recording, and whole: also what it rose by from the last batch of a part to the first
// of the next.
func TestRotateCounters(t *testing.T) {
	dir := t.TempDir()
	sum, err := run(t, recorder.Options{Path: filepath.Join(dir, "run.jsonl"), Driver: newFake(2), Rotate: 9000}, 20, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Parts < 3 {
		t.Fatalf("%d parts", sum.Parts)
	}
	base := readBack(t, dir)
	for _, name := range []string{"energy_j", "throttle_sw_power_s"} {
		parts := map[string][]*timeline.Series{} // by GPU
		for i := range base.Series {
			if s := &base.Series[i]; s.Metric.Name == name {
				gpu := base.Devices[base.Tracks[s.Track].Device].UUID
				parts[gpu] = append(parts[gpu], s)
			}
		}
		if len(parts) != 2 {
			t.Fatalf("%s of %d GPUs", name, len(parts))
		}
		for gpu, ss := range parts {
			slices.SortFunc(ss, func(a, b *timeline.Series) int { return cmp.Compare(a.At[len(a.At)-1], b.At[len(b.At)-1]) })
			if len(ss) != sum.Parts {
				t.Errorf("%s of %s in %d of %d parts", name, gpu, len(ss), sum.Parts)
			}
			for i := 1; i < len(ss); i++ {
				a, b := ss[i-1], ss[i]
				if n := len(a.At) - 1; b.At[0]-a.At[n] > 2000 || a.At[n]-b.At[0] > 2000 || a.Value[n] != b.Value[0] {
					t.Errorf("%s of %s: part %d ends with %g at %d, the next begins with %g at %d", name, gpu, i, a.Value[n], a.At[n], b.Value[0], b.At[0])
				}
			}
		}
	}
	// Shares and rates begin with the first batch of a part: each batch but the very first has one.
	n := 0
	for i := range base.Series {
		if s := &base.Series[i]; s.Metric.Name == "cpu_busy_frac" && base.Tracks[s.Track].Kind == timeline.TrackHostReadings {
			n += len(s.At)
		}
	}
	if runs := series(base, "run_queue_count"); n != runs-1 {
		t.Errorf("%d readings of the CPUs of %d batches", n, runs)
	}
}

// series counts the readings of a metric in all sources.
func series(tl *timeline.Timeline, metric string) (n int) {
	for i := range tl.Series {
		if tl.Series[i].Metric.Name == metric {
			n += len(tl.Series[i].At)
		}
	}
	return n
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	if _, err := recorder.Run(t.Context(), recorder.Options{Path: filepath.Join(dir, "x"), Period: time.Millisecond}); err == nil || !strings.Contains(err.Error(), "--interval 1ms") {
		t.Errorf("an interval of 1 ms: %v", err)
	}
	var said []string
	path := filepath.Join(dir, "run.jsonl")
	d := newFake(0)
	if _, err := run(t, recorder.Options{Path: path, Driver: d, Redact: true, Say: func(s string) { said = append(said, s) }}, 1, nil); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "the host alone is recorded") {
		t.Errorf("said %v", said)
	}
	host, _ := os.Hostname()
	text, err := os.ReadFile(path)
	if err != nil || host != "" && bytes.Contains(text, []byte(`"host":"`+host+`"`)) || bytes.Contains(text, []byte(`"path"`)) || bytes.Contains(text, []byte("boot_id")) {
		t.Errorf("redacted, and yet: %v %s", err, text[:min(len(text), 400)])
	}
}
