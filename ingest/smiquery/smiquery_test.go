package smiquery

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

func readText(t testing.TB, text string, set map[string]string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("query.csv", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, &ingest.Options{Set: set})
	b := ingest.NewBuilder(in, "smiquery")
	err := read(context.Background(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	return tl, in.Problems(), err
}

func shown(tl *timeline.Timeline) []string {
	var out []string
	for i := range tl.Series {
		s := &tl.Series[i]
		for j := range s.At {
			at := time.Duration(s.At[j]).String()
			if s.At[j] > 1e17 {
				at = time.Unix(0, int64(s.At[j])).UTC().Format("15:04:05.000")
			}
			out = append(out, fmt.Sprintf("%s %s %g@%s row%d", tl.Tracks[s.Track].Name, s.Metric.Name, s.Value[j], at, s.Row[j]))
		}
	}
	m := &tl.Marks
	for i := range m.At {
		out = append(out, fmt.Sprintf("mark %d %s row%d", m.Kind[i], tl.Names.Get(m.Name[i]), m.Row[i]))
	}
	return out
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "smiquery/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

// one wraps a single field into a log with time and index.
func one(field string, values ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "timestamp, index, %s\n", field)
	for i, v := range values {
		fmt.Fprintf(&b, "2026/07/14 08:12:%02d.000, 0, %s\n", i, v)
	}
	return b.String()
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		field, value string
		want         string // metric and value; "" no reading
		problems     string
	}{
		{"utilization.gpu [%]", "97 %", "sm_busy_frac 0.97", ""},
		{"utilization.gpu [%]", "97", "sm_busy_frac 0.97", ""},
		{"utilization.gpu", "97", "sm_busy_frac 0.97", ""},
		{"utilization.gpu [%]", "130 %", "", "bad-value@2*1"},
		{"utilization.memory [%]", "0 %", "mem_busy_frac 0", ""},
		{"power.draw [W]", "69.85 W", "power_w 69.85", ""},
		{"power.draw [W]", "69,85 W", "power_w 69.85", "decimal-comma@2*1"},
		{"gpu.power.draw.instant [W]", "69.85", "power_w 69.85", ""},
		{"enforced.power.limit [W]", "700.00 W", "power_limit_w 700", ""},
		{"power.limit [W]", "700.00 W", "power_limit_w 700", ""},
		{"power.default_limit [W]", "700.00", "power_default_w 700", ""},
		{"clocks.sm [MHz]", "1980 MHz", "clock_sm_hz 1.98e+09", ""},
		{"clocks.current.sm [MHz]", "1980", "clock_sm_hz 1.98e+09", ""},
		{"clocks.mem [MHz]", "2619", "clock_mem_hz 2.619e+09", ""},
		{"clocks.max.sm [MHz]", "1980", "clock_sm_max_hz 1.98e+09", ""},
		{"memory.used [MiB]", "3 MiB", "mem_used_bytes 3.145728e+06", ""},
		{"memory.used [MiB]", "3 GiB", "mem_used_bytes 3.221225472e+09", ""},
		{"memory.used [MiB]", "3 W", "", "bad-value@2*1"},
		{"temperature.gpu", "-5", "temp_gpu_c -5", ""},
		{"temperature.gpu.tlimit", "42", "temp_margin_c 42", ""},
		{"fan.speed [%]", "38 %", "fan_frac 0.38", ""},
		{"pstate", "P8", "pstate_count 8", ""},
		{"pcie.link.gen.gpucurrent", "5", "pcie_gen_count 5", ""},
		{"pcie.link.width.current", "16x", "pcie_width_count 16", ""},
		{"clocks_event_reasons.active", "0x0000000000000024", "clock_reasons 36", ""},
		{"clocks_throttle_reasons.active", "0x4", "clock_reasons 4", ""},
		{"clocks_throttle_reasons.active", "4", "", "bad-value@2*1"},
		{"clocks_throttle_reasons.sw_power_cap", "Active", "clock_reasons 4", ""},
		{"clocks_event_reasons.hw_slowdown", "Not Active", "clock_reasons 0", ""},
		{"clocks_event_reasons_counters.sw_power_cap [us]", "1500000 us", "throttle_sw_power_s 1.5", ""},
		{"ecc.errors.uncorrected.aggregate.total", "2", "ecc_uncorrected_count 2", ""},
		{"remapped_rows.uncorrectable", "3", "remapped_uncorrected_count 3", ""},
		{"remapped_rows.pending", "Yes", "remap_pending 1", ""}, {"remapped_rows.pending", "No", "remap_pending 0", ""},
		{"remapped_rows.pending", "maybe", "", "bad-value@2*1"}, {"remapped_rows.pending", "[N/A]", "", ""},
		{"remapped_rows.failure", "No", "remap_failed 0", ""}, {"remapped_rows.sbe", "0", "remapped_corrected_count 0", ""},
		{"retired_pages.pending", "Yes", "retire_pending 1", ""}, {"retired_pages.dbe", "2", "retired_double_bit_count 2", ""},
		{"ecc.errors.uncorrected.volatile.dram", "1", "ecc_volatile_dram_uncorrected_count 1", ""},
		{"clocks.current.video [MHz]", "1500 MHz", "smi_clocks_current_video_hz 1.5e+09", ""},
		{"utilization.gpu [%]", "[N/A]", "", ""}, {"utilization.gpu [%]", "N/A", "", ""}, {"utilization.gpu [%]", "", "", ""},
		{"utilization.gpu [%]", "[Not Supported]", "", ""}, {"utilization.gpu [%]", "[not supported]", "", ""},
		{"utilization.gpu [%]", "[Insufficient Permissions]", "", ""},
		{"power.management", "[Requested functionality has been deprecated]", "", ""},
		{"utilization.gpu [%]", "banana", "", "bad-value@2*1"},
	} {
		tl, ps, err := readText(t, one(c.field, c.value), nil)
		if err != nil {
			t.Errorf("%s %s: %v", c.field, c.value, err)
		}
		if n := len(ps); n > 0 && ps[0].Code == "smiquery/hidden-utilisation" {
			if len(tl.Series) > 0 {
				t.Errorf("%s %s: hidden, yet there is a series", c.field, c.value)
			}
			ps = ps[1:]
		}
		got := ""
		for i := range tl.Series {
			got += fmt.Sprintf("%s %g", tl.Series[i].Metric.Name, tl.Series[i].Value[0])
		}
		if got != c.want || codes(ps) != c.problems {
			t.Errorf("%s %q: %q, want %q; problems %q", c.field, c.value, got, c.want, codes(ps))
		}
	}
}

func TestRead(t *testing.T) {
	const lost = "timestamp, index, uuid, utilization.gpu [%]\n"
	for _, c := range []struct {
		what, text string
		set        map[string]string
		want       []string
		problems   string
	}{
		{"MIG", one("power.draw [W], utilization.gpu [%]", "5 W, [N/A]", "6 W, [N/A]"), nil,
			[]string{"GPU 0 power_w 5@08:12:00.000 row2", "GPU 0 power_w 6@08:12:01.000 row3"}, "hidden-utilisation@1*1"},
		{"two GPUs", "timestamp, index, power.draw [W]\n2026/07/14 08:12:53.123, 0, 1 W\n2026/07/14 08:12:53.127, 1, 2 W\n2026/07/14 08:12:54.123, 0, 3 W\n", nil,
			[]string{"GPU 0 power_w 1@08:12:53.123 row2", "GPU 0 power_w 3@08:12:54.123 row4", "GPU 1 power_w 2@08:12:53.127 row3"}, ""},
		{"nounits and squeezed blanks", "timestamp,index,power.draw [W]\n2026/07/14 08:12:53.123,0,1\n", nil, []string{"GPU 0 power_w 1@08:12:53.123 row2"}, ""},
		{"header repeats", one("power.draw [W]", "1 W") + "timestamp, index, power.draw [W]\n2026/07/14 08:12:01.000, 0, 2 W\n", nil,
			[]string{"GPU 0 power_w 1@08:12:00.000 row2", "GPU 0 power_w 2@08:12:01.000 row4"}, ""},
		{"header changes", one("power.draw [W]", "1 W") + "timestamp, index, utilization.gpu [%]\n2026/07/14 08:12:01.000, 0, 2 %\n", nil,
			[]string{"GPU 0 power_w 1@08:12:00.000 row2", "GPU 0 sm_busy_frac 0.02@08:12:01.000 row4"}, ""},
		{"comma in the name", "timestamp, name, power.draw [W]\n2026/07/14 08:12:53.000, Weird, Model 7, 5 W\n", nil, []string{"GPU power_w 5@08:12:53.000 row2"}, ""},
		{"decimal comma without blanks", "timestamp,power.draw [W],utilization.gpu [%]\n2026/07/14 08:12:53.000,21,82 W,7 %\n", nil,
			[]string{"GPU power_w 21.82@08:12:53.000 row2", "GPU sm_busy_frac 0.07@08:12:53.000 row2"}, "decimal-comma@2*1"},
		{"the lower alias wins", one("power.draw.instant [W], power.draw [W]", "9 W, 5 W"), nil, []string{"GPU 0 power_w 5@08:12:00.000 row2"}, ""},
		{"the mask wins over its columns", one("clocks_event_reasons.sw_power_cap, clocks_event_reasons.active", "Active, 0x0000000000000001"), nil,
			[]string{"GPU 0 clock_reasons 1@08:12:00.000 row2"}, ""},
		{"columns make up the mask", one("clocks_event_reasons.sw_power_cap, clocks_event_reasons.hw_thermal_slowdown, clocks_event_reasons.gpu_idle", "Active, Active, Not Active"), nil,
			[]string{"GPU 0 clock_reasons 68@08:12:00.000 row2"}, ""},
		{"lost GPU", lost + "2026/07/14 08:12:53.000, 0, GPU-aa, 5 %\n2026/07/14 08:12:54.000, 0, GPU-aa, [GPU is lost]\n2026/07/14 08:12:55.000, 0, [GPU is lost], [GPU is lost]\n", nil,
			[]string{"GPU 0 sm_busy_frac 0.05@08:12:53.000 row2", "mark 1 [GPU is lost] row3"}, "gpu-lost@3*1"},
		{"lost and back and lost", lost + "2026/07/14 08:12:53.000, 0, GPU-aa, [GPU requires reset]\n2026/07/14 08:12:54.000, 0, GPU-aa, 5 %\n2026/07/14 08:12:55.000, 0, GPU-aa, [GPU is lost]\n", nil,
			[]string{"GPU 0 sm_busy_frac 0.05@08:12:54.000 row3", "mark 1 [GPU requires reset] row2", "mark 1 [GPU is lost] row4"}, "gpu-lost@2*2"},
		{"failed reading", one("power.draw [W]", "[Unknown Error]", "ERR!", "5 W"), nil,
			[]string{"GPU 0 power_w 5@08:12:02.000 row4", "mark 2 power.draw: [Unknown Error] row2", "mark 2 power.draw: ERR! row3"}, "failed-reading@2*2"},
		{"sentence alone", "No devices were found\n", nil, []string{"mark 2 No devices were found row1"}, "diagnosis@1*1"},
		{"sentence after rows", one("power.draw [W]", "5 W") + "Unable to determine the device handle for GPU0000:17:00.0: GPU is lost.  Reboot the system to recover this GPU\n", nil,
			[]string{"GPU 0 power_w 5@08:12:00.000 row2", "mark 1 Unable to determine the device handle for GPU0000:17:00.0: GPU is lost.  Reboot the system to recover this GPU row3"}, "diagnosis@3*1"},
		{"killed while writing", one("power.draw [W], utilization.gpu [%]", "5 W, 3 %") + "2026/07/14 08:12:05.000, 0, 6", nil,
			[]string{"GPU 0 power_w 5@08:12:00.000 row2", "GPU 0 sm_busy_frac 0.03@08:12:00.000 row2"}, "short-row@3*1"},
		{"killed in the last cell", one("power.draw [W], utilization.gpu [%]", "5 W, 3 %") + "2026/07/14 08:12:05.000, 0, 6 W, 9", nil,
			[]string{"GPU 0 power_w 5@08:12:00.000 row2", "GPU 0 power_w 6@08:12:05.000 row3", "GPU 0 sm_busy_frac 0.03@08:12:00.000 row2"}, "unterminated-row@3*1"},
		{"long row", "timestamp, power.draw [W]\n2026/07/14 08:12:05.000, 5 W, 6 W\n2026/07/14 08:12:06.000, 5 W\n", nil, []string{"GPU power_w 5@08:12:06.000 row3"}, "long-row@2*1"},
		{"no timestamp", "index, power.draw [W]\n0, 1 W\n1, 2 W\n0, 3 W\n", map[string]string{"period": "0.5"},
			[]string{"GPU 0 power_w 1@0s row2", "GPU 0 power_w 3@500ms row4", "GPU 1 power_w 2@0s row3"}, "no-time@1*1"},
		{"no identity, one GPU", "timestamp, power.draw [W]\n2026/07/14 08:12:53.000, 1 W\n2026/07/14 08:12:53.100, 2 W\n", nil,
			[]string{"GPU power_w 1@08:12:53.000 row2", "GPU power_w 2@08:12:53.100 row3"}, ""},
		{"no identity, two GPUs", "timestamp, power.draw [W]\n2026/07/14 08:12:53.000, 1 W\n2026/07/14 08:12:53.002, 2 W\n2026/07/14 08:12:54.000, 3 W\n2026/07/14 08:12:54.002, 4 W\n", nil,
			[]string{"GPU power_w 1@08:12:53.000 row2", "GPU power_w 3@08:12:54.000 row4", "GPU row 1 power_w 2@08:12:53.002 row3", "GPU row 1 power_w 4@08:12:54.002 row5"}, "no-identity@1*1"},
		{"bad time", one("power.draw [W]", "1 W") + "14.07.2026 08:12:53, 0, 2 W\n2026/13/14 08:12:53.000, 0, 2 W\n", nil, []string{"GPU 0 power_w 1@08:12:00.000 row2"}, "bad-time@3*2"},
		{"stray line", one("power.draw [W]", "1 W") + "Terminated\n", nil, []string{"GPU 0 power_w 1@08:12:00.000 row2"}, "stray-line@3*1"},
		{"same instant twice", one("power.draw [W]", "1 W") + "2026/07/14 08:12:00.000, 0, 2 W\n", nil, []string{"GPU 0 power_w 1@08:12:00.000 row2"}, "repeated-stamp@3*1"},
		{"clock went back", one("power.draw [W]", "1 W", "2 W", "3 W") + "2026/07/14 08:11:50.000, 0, 4 W\n2026/07/14 08:12:03.000, 0, 5 W\n", nil,
			[]string{"GPU 0 power_w 1@08:12:00.000 row2", "GPU 0 power_w 2@08:12:01.000 row3", "GPU 0 power_w 3@08:12:02.000 row4", "GPU 0 power_w 5@08:12:03.000 row6",
				"mark 3 the clock went back: rows until it catches up are dropped, for their true time is unknown row5"}, "clock-step@5*1"},
	} {
		tl, ps, err := readText(t, c.text, c.set)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
}

func TestIdentity(t *testing.T) {
	tl, _, err := readText(t, "timestamp, index, uuid, name, pci.bus_id, compute_cap, memory.total [MiB], memory.used [MiB]\n"+
		"2026/07/14 08:12:53.000, 3, GPU-df6e7a7c-7314, NVIDIA H100 80GB HBM3, 00000000:17:00.0, 9.0, 81559 MiB, 3 MiB\n"+
		"2026/07/14 08:12:53.001, 4, GPU-00000000-0000-0000-0000-000000000000, NVIDIA H100 80GB HBM3, 00010000:AB:00.0, 9.0, [N/A], 3 MiB\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []timeline.Device{
		{UUID: "GPU-df6e7a7c-7314", Bus: "0000:17:00", Name: "NVIDIA H100 80GB HBM3", Index: 3, Ordinal: -1, Proc: -1, CC: "9.0", Vendor: "nvidia", Memory: 81559 << 20},
		{Bus: "10000:ab:00", Name: "NVIDIA H100 80GB HBM3", Index: 4, Ordinal: -1, Proc: -1, CC: "9.0", Vendor: "nvidia"}, // a masked UUID is none
	}
	if d := cmp.Diff(want, tl.Devices); d != "" {
		t.Error(d)
	}
	if k := tl.Clocks[0]; !k.Wall || k.Zoned || k.Step != time.Millisecond || k.How != timeline.Unplaced {
		t.Errorf("%+v", k)
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "hello\n", "timestamp, index, power.draw [W]\n", "1, 2\n3, 4\n"} {
		if _, _, err := readText(t, text, nil); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

// TestCutInTwo: a log cut between two cycles, each half under the header, gives the same series.
func TestCutInTwo(t *testing.T) {
	const head = "timestamp, index, power.draw [W]\n"
	var body []string
	for s := range 20 {
		for g := range 2 {
			body = append(body, fmt.Sprintf("2026/07/14 08:12:%02d.00%d, %d, %d W\n", s, g, g, 100+s))
		}
	}
	whole, _, err := readText(t, head+strings.Join(body, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 2; cut < len(body); cut += 2 {
		a, _, err1 := readText(t, head+strings.Join(body[:cut], ""), nil)
		b, _, err2 := readText(t, head+strings.Join(body[cut:], ""), nil)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for i := range whole.Series {
			if at := append(append([]timeline.Time{}, a.Series[i].At...), b.Series[i].At...); cmp.Diff(whole.Series[i].At, at) != "" {
				t.Fatalf("cut at %d: series %d differs", cut, i)
			}
			if v := append(append([]float64{}, a.Series[i].Value...), b.Series[i].Value...); cmp.Diff(whole.Series[i].Value, v) != "" {
				t.Fatalf("cut at %d: series %d differs", cut, i)
			}
		}
	}
}

// TestCutAnywhere: however the file ends, every row before the cut is kept.
func TestCutAnywhere(t *testing.T) {
	texts := map[string]string{"made": one("power.draw [W], utilization.gpu [%]", "5 W, 3 %", "6 W, 4 %", "7 W, 5 %")}
	if dir := os.Getenv("GPUREPORT_DATA"); dir != "" {
		for _, name := range []string{"v100s_training.csv", "two_gpus_mixed.txt", "linux-l40s__595.80__load.csv"} {
			b, err := os.ReadFile(filepath.Join(dir, "query-gpu", name))
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(b)
		}
	} else {
		t.Log("GPUREPORT_DATA is not set: real files are not cut")
	}
	for name, text := range texts {
		for k := range 200 {
			cut := len(text) * k / 200
			tl, _, _ := readText(t, text[:cut], nil)
			complete := int64(strings.Count(text[:cut], "\n")) - 1
			if n := tl.Sources[0].Rows; n < complete || n > max(complete, 0)+1 {
				t.Fatalf("%s cut at %d: %d rows of %d complete ones", name, cut, n, complete)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(one("power.draw [W]", "1 W")))                                            // plain
	f.Add([]byte("timestamp, index, name\n2026/07/14 08:12:53.000, 0, a, b, c\n"))         // commas in the name
	f.Add([]byte("timestamp,power.draw [W]\n2026/07/14 08:12:53.000,1,5 W\n"))             // decimal comma
	f.Add([]byte("uuid, pstate\n[GPU is lost], [GPU is lost]\nGPU-, P\n"))                 // lost before known
	f.Add([]byte("clocks_event_reasons.active, pstate\n0xffffffffffffffff, P99\n0x, P\n")) // masks out of range
	f.Add([]byte("timestamp, timestamp, index, index, pstate\n1, 2, 3, 4, 5\n"))           // fields twice
	f.Add([]byte("utilization.gpu [%]\n,\n1e400 %\nNaN\nInf %\n"))                         // numbers that are none
	f.Add([]byte("No devices were found\ntimestamp, index, pstate\n"))                     // sentence, then a header
	f.Add([]byte("pci.bus_id, pstate\n:, P1\n::::, P2\n.., P3\n"))                         // bus ids
	f.Add([]byte("\xff\xfet\x00i\x00m\x00e\x00"))                                          // UTF-16
	f.Fuzz(func(t *testing.T, b []byte) {
		_, ps, _ := readText(t, string(b), nil)
		for _, p := range ps {
			if p.Count < 1 || !strings.HasPrefix(p.Code, "smiquery/") {
				t.Errorf("%+v", p)
			}
		}
		recognise(ingest.Head{Text: b, Raw: b})
	})
}

// --query-remapped-rows: no index, no time; names are those that nvidia-smi -q gives the same.
func TestRemappedRows(t *testing.T) {
	tl, ps, err := readText(t, "gpu_uuid, remapped_rows.correctable, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure, "+
		"remapped_rows.histogram.max, remapped_rows.histogram.high, remapped_rows.histogram.partial, remapped_rows.histogram.low, remapped_rows.histogram.none, gpu_recovery_action\n"+
		"GPU-aa, 0, 1, Yes, No, 639, 1, 0, 2, 0, Reset\n"+
		"GPU-bb, 0, 0, No, No, 640, 0, 0, 0, 0, None\n", nil)
	if err != nil || codes(ps) != "no-time@1*1" {
		t.Fatal(err, codes(ps))
	}
	got := map[string]float64{}
	for i := range tl.Series {
		s := &tl.Series[i]
		got[tl.Tracks[s.Track].Name+" "+s.Metric.Name] = s.Value[0]
	}
	words := map[string]string{}
	for _, a := range tl.Attrs {
		if who := tl.Tracks[a.Track].Name; a.Text != "" {
			words[who] = a.Name + " " + a.Text
		} else {
			got[who+" "+a.Name] = a.Value
		}
	}
	for name, want := range map[string]float64{"GPU-aa remap_pending": 1, "GPU-aa remap_failed": 0, "GPU-aa remapped_uncorrected_count": 1, "GPU-aa remap_banks_low_count": 2, "GPU-aa remap_banks_none_count": 0,
		"GPU-bb remap_pending": 0, "GPU-bb remapped_corrected_count": 0} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %v %v, want %v", name, v, ok, want)
		}
	}
	if words["GPU-aa"] != "recovery_action Reset" || words["GPU-bb"] != "recovery_action None" {
		t.Errorf("%v", words)
	}
}
