package nvml

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// readText reads a capture and holds the timeline to its contract.
func readText(t testing.TB, text []byte) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("rec.jsonl", func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, nil)
	b := ingest.NewBuilder(in, Format.Name)
	err := Format.Read(t.Context(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Fatalf("not valid: %v", verr)
	}
	return tl, in.Problems(), err
}

const hdr = `{"k":"hdr","schema":"gpureport.record","v":1,"host":"n1","start_unix_ns":1782900000000000000,"period_ns":1000000000,"wide_ns":1000000000,"slow_ns":10000000000,"hz":100}` + "\n" +
	`{"k":"clk","t":0,"unix_ns":1782900000000000000,"boot_ns":86400000000000,"unc_ns":100}` + "\n"

const t0 = timeline.Time(1782900000e9)

// values gives the series of a metric of the track with this name; nil if there is none.
func values(tl *timeline.Timeline, track, metric string) *timeline.Series {
	for i := range tl.Series {
		if s := &tl.Series[i]; s.Metric.Name == metric && tl.Tracks[s.Track].Name == track {
			return s
		}
	}
	return nil
}

func wantValues(t *testing.T, tl *timeline.Timeline, track, metric string, want ...float64) {
	t.Helper()
	s := values(tl, track, metric)
	if s == nil {
		t.Errorf("%s %s: no series", track, metric)
		return
	}
	if len(s.Value) != len(want) {
		t.Errorf("%s %s: %v, want %v", track, metric, s.Value, want)
		return
	}
	for i := range want {
		if math.Abs(s.Value[i]-want[i]) > 1e-9*math.Abs(want[i]) {
			t.Errorf("%s %s: %v, want %v", track, metric, s.Value, want)
			return
		}
	}
}

func problem(ps []timeline.Problem, code string) *timeline.Problem {
	for i := range ps {
		if ps[i].Code == "gpureport-record/"+code {
			return &ps[i]
		}
	}
	return nil
}

// The example of the format's description, with arrays cut short, grown, and null.
func TestGPU(t *testing.T) {
	tl, ps, err := readText(t, []byte(hdr+
		`{"k":"gpu","t":1200000,"i":0,"uuid":"GPU-a","pci":"00000000:17:00.0","name":"NVIDIA H100 80GB HBM3","cc":[9,0],"mem_total":85520809984,"sm_max":1980,"pl_def":700000,"pcie_max":[5,16],"nvlinks":18,"mig":false,"cpus":"0-51","numa":0,"tl_slow":-2}
{"k":"g","t":1000000000,"i":0,"u":[97,41],"c":[1755,2619],"r":4,"p":688120,"en":993112345678,"T":[63,null],"ps":0,"m":[71234567890,502267904],"tv":{"pw":812345678901,"hwth":0},"px":[9007199254740993,91234567890],"nv":[123456789012345,5],"gpm":{"sm":0.5,"tc":0.25},"d":3100000}
{"e":{"u":999},"i":0,"newer":{"a":[1]},"u":null,"k":"g","t":3000000000,"c":[1750,2619,1500,7],"px":[9007199254741993,91234567889],"nv":[123456789014345,5],"p":"x"}
{"k":"later","t":1,"x":1}
{"k":"ev","t":2500000000,"ty":"xid","i":0,"code":79}
{"k":"ev","t":2600000000,"ty":"lost","i":0,"code":15,"txt":"GPU 0: GPU_IS_LOST"}
{"k":"end","t":4000000000,"why":"stopped","ticks":3,"late":0}
`))
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, tl, "GPU 0", "sm_busy_frac", .97)
	wantValues(t, tl, "GPU 0", "clock_sm_hz", 1755e6, 1750e6)
	wantValues(t, tl, "GPU 0", "clock_video_hz", 1500e6)
	wantValues(t, tl, "GPU 0", "clock_reasons", 4)
	wantValues(t, tl, "GPU 0", "power_w", 688.12)
	wantValues(t, tl, "GPU 0", "energy_j", 993112345.678)
	wantValues(t, tl, "GPU 0", "temp_gpu_c", 63)
	wantValues(t, tl, "GPU 0", "mem_reserved_bytes", 502267904)
	wantValues(t, tl, "GPU 0", "throttle_sw_power_s", 812.345678901)
	wantValues(t, tl, "GPU 0", "throttle_hw_thermal_s", 0)
	wantValues(t, tl, "GPU 0", "pcie_d2h_bytes_per_s", 500) // 1000 B in 2 s, past 2^53; the other direction fell: a reset
	wantValues(t, tl, "GPU 0", "nvlink_tx_bytes_per_s", 1000)
	wantValues(t, tl, "GPU 0", "nvlink_rx_bytes_per_s", 0)
	wantValues(t, tl, "GPU 0", "sm_active_frac", .5)
	for _, m := range []string{"temp_mem_c", "pcie_h2d_bytes_per_s"} {
		if s := values(tl, "GPU 0", m); s != nil {
			t.Errorf("%s: %v, want nothing", m, s.Value)
		}
	}
	d := tl.Devices[0]
	if d.UUID != "GPU-a" || d.Bus != "0000:17:00" || d.CC != "9.0" || d.Memory != 85520809984 || d.Index != 0 {
		t.Errorf("device %+v", d)
	}
	if c := tl.Clocks[0]; c.How != timeline.Recorded || !c.Zoned {
		t.Errorf("clock %+v", c)
	}
	if s := values(tl, "GPU 0", "sm_busy_frac"); s != nil && s.At[0] != t0+1e9 {
		t.Errorf("first sample at %d, want %d", s.At[0], t0+1e9)
	}
	attrs := map[string]any{}
	for _, a := range tl.Attrs {
		attrs[a.Name] = a.Value
		if a.Text != "" {
			attrs[a.Name] = a.Text
		}
	}
	for name, want := range map[string]any{timeline.AttrClockSMMax: 1980e6, timeline.AttrPowerDefault: 700.0, timeline.AttrNVLinks: 18.0, timeline.AttrMIG: "disabled",
		timeline.AttrCPUAffinity: "0-51", timeline.AttrMarginSlowdown: -2.0, timeline.AttrPCIeWidthMax: 16.0, timeline.AttrHostBoot: 1782900000.0 - 86400} {
		if attrs[name] != want {
			t.Errorf("%s: %v, want %v", name, attrs[name], want)
		}
	}
	if m := tl.Marks; len(m.At) != 3 || m.Kind[0] != timeline.MarkXid || m.Code[0] != 79 || m.At[0] != t0+2.5e9 || m.Kind[1] != timeline.MarkGPULost || m.Kind[2] != timeline.MarkReadFailed {
		t.Errorf("marks %+v", m)
	}
	if problem(ps, "gpu-lost") == nil || problem(ps, "failed-reading") == nil || problem(ps, "no-end") != nil {
		t.Errorf("problems %v", ps)
	}
}

func TestTopology(t *testing.T) {
	tl, _, err := readText(t, []byte(hdr+`{"k":"topo","t":1,"gpu":[[0,50,10],[50,0,null],[10,20,0]],"nvl":[[0,18,0],[18,0,0],[0,0,0]],"nics":[{"name":"mlx5_0","anc":[10,50,null]}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range tl.Links {
		got = append(got, fmt.Sprint(l.A, " ", l.B, " ", l.Kind, " ", l.Count))
	}
	want := []string{"GPU0 GPU1 NV18 18", "GPU0 GPU2 PIX 0", "GPU1 GPU0 NV18 18", "GPU2 GPU0 PIX 0", "GPU2 GPU1 PXB 0", "GPU0 mlx5_0 PIX 0", "GPU1 mlx5_0 SYS 0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestHost(t *testing.T) {
	tl, _, err := readText(t, []byte(hdr+
		`{"k":"h","t":0,"cpu":[100,0,50,800,50,0,0,0],"cpus":[[3,10,0,5,80,5,0,0,0]],"run":4,"blk":1,"ctx":1000,"intr":5,"load":[1.5,1,1],"psi":{"cpu":[1000,0],"io":[0,0]},"mem":[100,10,60,20,1,0,50,40],"vm":{"majfault":5,"oom":1},"dsk":{"nvme0n1":[10,4096,100,0,0,0,0,100,200]},"net":{"eth0":[1000,1,0,1,500,1,0,0]}}
{"k":"cgroup","t":0,"id":0,"v":2,"quota":[400000,100000],"set":"0-7"}
{"k":"cg","t":0,"id":0,"quota":[400000,100000],"thr":[100,10,5000],"mem":[5,null],"oom":0}
{"k":"proc","t":0,"pid":70,"ppid":1,"comm":"python","start":9,"cpus":"0-3","cmd":true}
{"k":"pr","t":0,"p":[[70,100,10,4096,0,0,8,0,1000,500,1,0,null]]}
{"k":"ib","t":0,"dev":"mlx5_0","port":1,"x":{"port_xmit_data":0,"port_rcv_data":4000,"port_xmit_wait":10,"symbol_error":1,"out_of_sequence":7},"rate":"400 Gb/sec (4X NDR)","st":"ACTIVE"}
{"k":"h","t":2000000000,"cpu":[260,0,70,810,50,5,5,0],"cpus":[[3,60,0,15,120,4,0,0,0]],"ctx":1200,"intr":1,"psi":{"cpu":[1001000,0],"io":[500000,250000]},"vm":{"majfault":9,"oom":2},"dsk":{"nvme0n1":[30,2052096,200,0,0,0,0,1100,2200]},"net":{"eth0":[3000,1,0,4,500,1,0,0]}}
{"k":"cg","t":2000000000,"id":0,"quota":[400000,100000],"thr":[120,15,9000],"oom":0}
{"k":"pr","t":2000000000,"p":[[70,400,110,8192,2000,0,9,2,1000,1000000500,1,10,null]]}
{"k":"ib","t":2000000000,"dev":"mlx5_0","port":1,"x":{"port_xmit_data":8000,"port_rcv_data":4000,"port_xmit_wait":50}}
`))
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, tl, "n1", "cpu_busy_frac", .95) // 190 of 200 ticks neither idle nor iowait
	wantValues(t, tl, "n1", "cpu_irq_frac", .05)
	if s := values(tl, "cpu3", "cpu_busy_frac"); s != nil { // iowait went down
		t.Errorf("cpu3: %v", s.Value)
	}
	wantValues(t, tl, "n1", "context_switches_hz", 100)
	if s := values(tl, "n1", "interrupts_hz"); s != nil {
		t.Errorf("interrupts fell and gave %v", s.Value)
	}
	wantValues(t, tl, "n1", "psi_cpu_frac", .5)
	wantValues(t, tl, "n1", "psi_io_frac", .25)
	wantValues(t, tl, "n1", "psi_io_full_frac", .125)
	wantValues(t, tl, "n1", "mem_available_bytes", 60)
	wantValues(t, tl, "n1", "swap_used_bytes", 10)
	wantValues(t, tl, "n1", "major_faults_hz", 2)
	wantValues(t, tl, "n1", "cgroup_throttled_frac", .25)
	wantValues(t, tl, "n1", "cgroup_quota_count", 4, 4)
	wantValues(t, tl, "nvme0n1", "disk_read_bytes_per_s", 1024000)
	wantValues(t, tl, "nvme0n1", "disk_reads_hz", 10)
	wantValues(t, tl, "nvme0n1", "disk_busy_frac", .5)
	wantValues(t, tl, "nvme0n1", "disk_read_await_s", .005)
	wantValues(t, tl, "nvme0n1", "disk_queue_count", 1)
	wantValues(t, tl, "eth0", "net_rx_bytes_per_s", 1000)
	wantValues(t, tl, "eth0", "net_errors_count", 1, 4)
	wantValues(t, tl, "python", "proc_cpu_count", 2)
	wantValues(t, tl, "python", "proc_system_count", .5)
	wantValues(t, tl, "python", "proc_rss_bytes", 4096, 8192)
	wantValues(t, tl, "python", "proc_read_bytes_per_s", 1000)
	wantValues(t, tl, "python", "proc_run_wait_frac", .5)
	wantValues(t, tl, "python", "proc_preempted_hz", 5)
	wantValues(t, tl, "mlx5_0:1", "net_tx_bytes_per_s", 4000)
	wantValues(t, tl, "mlx5_0:1", "net_send_wait_hz", 20)
	wantValues(t, tl, "mlx5_0:1", "net_errors_count", 1)
	wantValues(t, tl, "mlx5_0:1", "net_retries_count", 7)
	wantValues(t, tl, "mlx5_0:1", "net_link_up", 1)
	wantValues(t, tl, "mlx5_0:1", "net_link_bytes_per_s", 50e9)
	if m := tl.Marks; len(m.At) != 1 || m.Kind[0] != timeline.MarkOOM || m.At[0] != t0+2e9 {
		t.Errorf("marks %+v", m)
	}
}

// The wall clock is set while the recording runs: time goes on rising, and what lies after the last setting is right.
func TestClock(t *testing.T) {
	h := func(sec int) string { return fmt.Sprintf(`{"k":"h","t":%d,"run":%d}`+"\n", sec*1e9, sec) }
	clk := func(sec, off int) string {
		return fmt.Sprintf(`{"k":"clk","t":%d,"unix_ns":%d,"unc_ns":100}`+"\n", sec*1e9, 1782900000e9+int64(sec+off)*1e9)
	}
	for _, c := range []struct {
		what, text string
		want       []timeline.Time // seconds after t0
	}{
		{"ahead by a minute", hdr + h(0) + h(1) + clk(2, 60) + h(2) + h(3), []timeline.Time{0, 1, 62, 63}},
		{"back by a minute", hdr + h(0) + h(1) + clk(2, -60) + h(2) + h(3), []timeline.Time{-60, -59, -58, -57}},
		{"ahead and back", hdr + h(0) + clk(1, 60) + h(1) + clk(2, 5) + h(2), []timeline.Time{0, 6, 7}},
		{"two sessions", hdr + h(0) + h(1) + strings.ReplaceAll(hdr, "17829000", "17829001") + h(0) + h(1), []timeline.Time{0, 1, 100, 101}},
		{"a part begins late", hdr + clk(7, 0) + h(7) + h(8), []timeline.Time{7, 8}},
	} {
		tl, _, err := readText(t, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		s := values(tl, "n1", "run_queue_count")
		var got []timeline.Time
		for _, at := range s.At {
			got = append(got, (at-t0)/1e9)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
}

// Three parts tell what one file tells, and so does one file that they were put into.
func TestParts(t *testing.T) {
	h := func(sec, ticks int) string {
		return fmt.Sprintf(`{"k":"h","t":%d,"run":%d,"cpu":[%d,0,0,%d,0,0,0,0],"vm":{"oom":%d}}`+"\n", sec*1e9, sec, ticks, sec*100-ticks, sec/3) +
			fmt.Sprintf(`{"k":"g","t":%d,"i":0,"u":[%d,0],"en":%d,"px":[%d,0],"e":{"c":3}}`+"\n", sec*1e9, sec, 1000*ticks, 1000*ticks)
	}
	again := func(on bool, sec int) string { return fmt.Sprintf(`{"k":"again","t":%d,"on":%t}`+"\n", sec*1e9, on) }
	const next = `{"k":"next","t":9,"part":2}` + "\n"
	one := hdr + h(0, 0) + h(1, 10) + h(2, 30) + h(3, 60) + h(4, 100) + h(5, 150)
	parts := []string{
		hdr + h(0, 0) + h(1, 10) + next,
		hdr + again(true, 1) + h(1, 10) + again(false, 1) + h(2, 30) + h(3, 60) + next,
		hdr + again(true, 3) + h(3, 60) + again(false, 3) + h(4, 100) + h(5, 150),
	}
	type told struct {
		Energy       float64 // J
		At           []timeline.Time
		Busy, PCIe   []float64
		Run, SM, OOM int
		Rows         int64
	}
	add := func(to *told, text string) {
		tl, ps, err := readText(t, []byte(text))
		if err != nil || problem(ps, "impossible-value") != nil {
			t.Fatal(err, ps)
		}
		to.Rows += tl.Sources[0].Rows
		for i := range tl.Series {
			s := &tl.Series[i]
			if len(s.At) == 0 {
				t.Errorf("%s without a reading", s.Metric.Name)
			}
			switch s.Metric.Name {
			case "energy_j":
				to.Energy += s.Value[len(s.At)-1] - s.Value[0]
			case "cpu_busy_frac":
				to.At, to.Busy = append(to.At, s.At...), append(to.Busy, s.Value...)
			case "pcie_d2h_bytes_per_s":
				to.PCIe = append(to.PCIe, s.Value...)
			case "run_queue_count":
				to.Run += len(s.At)
			case "sm_busy_frac":
				to.SM += len(s.At)
			}
		}
		for _, k := range tl.Marks.Kind {
			if k == timeline.MarkOOM {
				to.OOM++
			}
		}
	}
	var whole, split, joined told
	add(&whole, one)
	for _, p := range parts {
		add(&split, p)
	}
	add(&joined, strings.Join(parts, ""))
	if whole.Energy != 150 || len(whole.Busy) != 5 || whole.OOM != 1 || len(whole.PCIe) != 5 {
		t.Fatalf("one file: %+v", whole)
	}
	split.Rows -= 4 // hdr and clk
	joined.Rows -= 4
	if d := cmp.Diff(whole, split); d != "" {
		t.Errorf("parts: %s", d)
	}
	if d := cmp.Diff(whole, joined); d != "" {
		t.Errorf("parts in one file: %s", d)
	}
}

func TestDamage(t *testing.T) {
	good := hdr + `{"k":"h","t":0,"run":1}` + "\n" + `{"k":"h","t":1000000000,"run":2}` + "\n"
	for _, c := range []struct {
		what, text, code string
		n                int
	}{
		{"cut last line", good + `{"k":"h","t":2000000000,"ru`, "cut-line", 2},
		{"rubbish line", good + "hello\n" + `{"k":"h","t":2000000000,"run":1}` + "\n", "bad-record", 3},
		{"no time", good + `{"k":"h","run":1}` + "\n", "bad-time", 2},
		{"time of another age", good + `{"k":"h","t":9223372036854775807,"run":1}` + "\n", "bad-time", 2},
		{"killed", good, "no-end", 2},
		{"begins late", good[len(hdr):], "no-header", 2},
		{"newer", strings.Replace(good, `"v":1`, `"v":2`, 1), "newer-version", 2},
		{"two hosts", good + strings.ReplaceAll(good, `"n1"`, `"n2"`), "several-hosts", 2},
		{"a GPU without number", good + `{"k":"g","t":0,"u":[1,2]}` + "\n", "bad-record", 2},
		{"impossible", good + `{"k":"g","t":0,"i":0,"u":[101,2]}` + "\n", "impossible-value", 2},
		{"a long line", good + strings.Repeat("x", maxLine+100) + "\n" + `{"k":"h","t":2000000000,"run":1}` + "\n", "bad-record", 3},
	} {
		tl, ps, err := readText(t, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if problem(ps, c.code) == nil {
			t.Errorf("%s: problems %v, want %s", c.what, ps, c.code)
		}
		n := 0
		for i := range tl.Series {
			if tl.Series[i].Metric.Name == "run_queue_count" {
				n += len(tl.Series[i].At)
			}
		}
		if n != c.n {
			t.Errorf("%s: %d readings, want %d", c.what, n, c.n)
		}
	}
	if _, ps, _ := readText(t, []byte(good+`{"k":"next","t":3,"part":2}`+"\n")); len(ps) != 0 {
		t.Errorf("a part that ends in order: %v", ps)
	}
	if _, _, err := readText(t, nil); err == nil {
		t.Error("an empty file is no capture")
	}
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]bool{hdr: true, `{"v":1,"schema" : "gpureport.record"}`: true, `{"schema":"gpureport/1"}`: false, `{"k":"hdr"}`: false, "": false, `["schema":"gpureport.record"`: false} {
		if got := recognise(ingest.Head{Text: []byte(text)}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(hdr + `{"k":"g","t":1,"i":0,"u":[1,2],"px":[1,2],"tv":{"pw":1},"gpm":{"sm":0.5}}`))
	f.Add([]byte(hdr + `{"k":"h","t":1,"cpu":[1,2,3,4,5,6,7,8],"cpus":[[0,1,2,3,4,5,6,7,8]],"dsk":{"a":[1]}}`))
	f.Add([]byte(hdr + `{"k":"gl","t":1,"i":0,"pids":[[1,2,"C"]],"nve":[[1,2,3,4]],"lk":[5,16]}` + "\n" + `{"k":"pu","t":2,"i":0,"p":[[1,2,3,4]]}`))
	f.Add([]byte(hdr + `{"k":"clk","t":5,"unix_ns":1}` + "\n" + `{"k":"clk","t":4,"unix_ns":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		_, _, _ = readText(t, text)
	})
}

// A process says when it began: of two with one pid, and of those that the recorder met later, too.
func TestWhenProcessesBegan(t *testing.T) {
	tl, _, err := readText(t, []byte(hdr+
		`{"k":"proc","t":1000000000,"pid":70,"ppid":1,"comm":"python","start":8640000,"cmd":true}
{"k":"proc","t":9000000000,"pid":71,"ppid":70,"comm":"pt_data_worker","start":8640750}
{"k":"proc","t":19000000000,"pid":71,"ppid":70,"comm":"pt_data_worker","start":8641800}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range tl.Attrs {
		if a.Name == timeline.AttrProcStart {
			tr := tl.Tracks[a.Track]
			got = append(got, fmt.Sprintf("%d %s track %d: %.2f s, %d ms", tr.Thread, tr.Name, a.Track, a.Value, (a.At-t0)/1e6))
		}
	}
	// The host booted a day before the recording.
	want := []string{"70 python track 1: 86400.00 s, 0 ms", "71 pt_data_worker track 2: 86407.50 s, 7500 ms", "71 pt_data_worker track 2: 86418.00 s, 18000 ms"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
