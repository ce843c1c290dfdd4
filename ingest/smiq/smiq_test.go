package smiq

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

func readReport(t testing.TB, text string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("q.log", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, nil)
	f := Format
	if recogniseXML(ingest.Head{Text: []byte(text)}) {
		f = XML
	}
	b := ingest.NewBuilder(in, f.Name)
	err := f.Read(context.Background(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	return tl, in.Problems(), err
}

// shown prints every reading and attribute of a track, "power_w 60@08:12:53" and "mig_mode=enabled".
func shown(tl *timeline.Timeline, track string, kind timeline.TrackKind) []string {
	var out []string
	mine := func(id timeline.TrackID) bool {
		return tl.Tracks[id].Name == track && tl.Tracks[id].Kind == kind
	}
	for i := range tl.Series {
		s := &tl.Series[i]
		for j := range s.At {
			if mine(s.Track) {
				out = append(out, fmt.Sprintf("%s %g@%s", s.Metric.Name, s.Value[j], stamp(s.At[j])))
			}
		}
	}
	for _, a := range tl.Attrs {
		switch {
		case !mine(a.Track):
		case a.Unit == unit.Text:
			out = append(out, a.Name+"="+a.Text)
		default:
			out = append(out, fmt.Sprintf("%s=%g", a.Name, a.Value))
		}
	}
	slices.Sort(out)
	return out
}

func stamp(at timeline.Time) string {
	if at < 1e17 {
		return time.Duration(at).String()
	}
	return time.Unix(0, int64(at)).UTC().Format("15:04:05")
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "smiq/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

var _ = filepath.Join
var _ = cmp.Diff

func open(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestKepler reads a listing of 2015: old names, single and double bit errors, no averages.
func TestKepler(t *testing.T) {
	tl, ps, err := readReport(t, open(t, "testdata/kepler.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := []timeline.Device{
		{UUID: "GPU-aaaaaaaa-1111", Bus: "0000:05:00", Name: "Tesla K80", Index: 0, Ordinal: -1, Proc: -1, Vendor: "nvidia", Memory: 11519 << 20},
		{UUID: "GPU-bbbbbbbb-2222", Bus: "0000:06:00", Name: "Tesla K80", Index: 1, Ordinal: -1, Proc: -1, Vendor: "nvidia"},
	}
	if d := cmp.Diff(want, tl.Devices); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{
		"bar1_used_bytes 2097152@08:12:53", "clock_app_mem_hz=2.505e+09", "clock_app_sm_hz=5.62e+08", "clock_mem_hz 3.24e+08@08:12:53",
		"clock_mem_max_hz 2.505e+09@08:12:53", "clock_mem_max_hz=2.505e+09", "clock_reasons 13@08:12:53", "clock_sm_hz 3.24e+08@08:12:53",
		"clock_sm_max_hz 8.75e+08@08:12:53", "clock_sm_max_hz=8.75e+08", "compute_mode=exclusive_process", "ecc_corrected_count 9@08:12:53",
		"ecc_mode=enabled", "ecc_uncorrected_count 3@08:12:53", "enc_busy_frac 0@08:12:53", "gpu_processes_count 1@08:12:53",
		"mem_busy_frac 0.03@08:12:53", "mem_total_bytes 1.2078547e+10@08:12:53", "mem_used_bytes 57671680@08:12:53",
		"pcie_d2h_bytes_per_s 2.5e+08@08:12:53", "pcie_gen_count 1@08:12:53", "pcie_gen_max_count 3@08:12:53", "pcie_gen_max_count=3",
		"pcie_replays_count 4@08:12:53", "pcie_width_count 8@08:12:53", "pcie_width_max_count 16@08:12:53", "pcie_width_max_count=16",
		"persistence_mode=enabled", "power_default_w 175@08:12:53", "power_default_w=175", "power_limit_w 149@08:12:53", "power_limit_w=149",
		"power_max_w=175", "power_min_w=100", "power_requested_w=149", "power_w 26.37@08:12:53", "pstate_count 8@08:12:53",
		"retire_pending 0@08:12:53", "retired_double_bit_count 2@08:12:53", "retired_single_bit_count 1@08:12:53", "sm_busy_frac 0.12@08:12:53",
		"temp_gpu_c 33@08:12:53", "temp_shutdown_c=93", "temp_slowdown_c=88", "vbios_version=80.21.1B.00.01",
	}, rounded(shown(tl, "GPU 0", timeline.TrackGPU))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"gpu_processes_count 0@08:12:53", "pstate_count 0@08:12:53"}, shown(tl, "GPU 1", timeline.TrackGPU)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"proc_gpu_mem_bytes 4.194304e+07@08:12:53", "type=C"}, shown(tl, "train", timeline.TrackProcess)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"driver_version=346.46"}, shown(tl, "", timeline.TrackHostReadings)); d != "" {
		t.Error(d)
	}
	if got := codes(ps); got != "failed-reading@103*1" {
		t.Errorf("problems %q", got)
	}
	if k := tl.Clocks[0]; !k.Wall || k.Zoned || k.Step != time.Second || k.Error != 2*time.Second || k.How != timeline.Unplaced {
		t.Errorf("%+v", k)
	}
	if s := tl.Sources[0]; s.Rows != 2 || s.Covers != "window" {
		t.Errorf("%+v", s)
	}
	if len(tl.Marks.At) != 1 || tl.Marks.Kind[0] != timeline.MarkReadFailed || tl.Names.Get(tl.Marks.Name[0]) != "utilization/gpu: Unknown Error" {
		t.Errorf("%+v", tl.Marks)
	}
}

// rounded cuts %g of large numbers to 8 digits.
func rounded(in []string) []string {
	out := slices.Clone(in)
	for i, s := range out {
		var v float64
		var at string
		name, rest, ok := strings.Cut(s, " ")
		if n, _ := fmt.Sscanf(strings.ReplaceAll(rest, "@", " "), "%g %s", &v, &at); ok && n == 2 {
			out[i] = fmt.Sprintf("%s %.8g@%s", name, v, at)
		}
	}
	return out
}

// TestLoop: -l makes several readings; what is stated once is added again only when it changes.
func TestLoop(t *testing.T) {
	tl, ps, err := readReport(t, open(t, "testdata/loop.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{
		"drain_recommended=0", "power_instant_w 588.39@08:12:53", "power_instant_w 71@08:12:58", "power_limit_w 600@08:12:58", "power_limit_w 700@08:12:53",
		"power_limit_w=600", "power_limit_w=700", "power_w 588.39@08:12:53", "power_w 70@08:12:58", "recovery_action=None", "recovery_action=Reset",
		"remap_banks_low_count=1", "remap_banks_none_count=0", "remap_failed 0@08:12:53", "remap_failed 0@08:12:58", "remap_pending 0@08:12:53", "remap_pending 1@08:12:58",
		"remapped_corrected_count 1@08:12:53", "remapped_corrected_count 1@08:12:58", "remapped_uncorrected_count 2@08:12:53", "remapped_uncorrected_count 3@08:12:58",
		"reset_required=0", "reset_required=1", "sm_busy_frac 0.99@08:12:53",
	}, shown(tl, "GPU 0000:83:00", timeline.TrackGPU)); d != "" {
		t.Error(d)
	}
	if tl.Devices[0].Index != -1 {
		t.Errorf("one GPU of four is shown: index %d", tl.Devices[0].Index)
	}
	var marks []string
	for i := range tl.Marks.At {
		marks = append(marks, fmt.Sprintf("%d %s row%d", tl.Marks.Kind[i], tl.Names.Get(tl.Marks.Name[i])[:12], tl.Marks.Row[i]))
	}
	if d := cmp.Diff([]string{"1 GPU requires row45", "1 Unable to de row55"}, marks); d != "" {
		t.Error(d)
	}
	if got := codes(ps); got != "gpu-lost@45*1 diagnosis@55*1" {
		t.Errorf("problems %q", got)
	}
}

const head = "==============NVSMI LOG==============\nTimestamp : Tue Jul 14 08:12:53 2026\nAttached GPUs : 1\nGPU 00000000:83:00.0\n"

func TestListing(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"absent values", head + "    Fan Speed : N/A\n    Performance State : [N/A]\n    Utilization\n        GPU : N/A\n", nil, "hidden-utilisation@1*1"},
		{"values that cannot be", head + "    Utilization\n        GPU : 130 %\n        Memory : 3 MiB\n        Encoder : x %\n        JPEG : 4 parsecs\n", nil, "bad-value@6*4"},
		{"unknown paths", head + "    Weird\n        GPU : 3 %\n        Utilization\n            GPU : 4 %\n", nil, ""},
		{"reasons, nested", head + "    Clocks Event Reasons\n        Idle : Not Active\n        HW Slowdown : Active\n            HW Thermal Slowdown : Active\n            HW Power Brake Slowdown : Not Active\n        SW Thermal Slowdown : Active\n    Fan Speed : 5 %\n",
			[]string{"clock_reasons 104@08:12:53", "fan_frac 0.05@08:12:53"}, ""},
		{"reasons at the end of the file", head + "    Clocks Event Reasons\n        Idle : Active\n        SW Thermal Slowdown : Not Active\n", []string{"clock_reasons 1@08:12:53"}, ""},
		{"reasons cut", head + "    Clocks Event Reasons\n        Idle : Active\n", nil, ""},
		{"reason of another word", head + "    Clocks Event Reasons\n        Idle : Maybe\n    Fan Speed : 5 %\n", []string{"fan_frac 0.05@08:12:53"}, "bad-value@6*1"},
		{"errors of one memory", head + "    ECC Errors\n        Aggregate\n            SRAM Correctable : 3\n            SRAM Uncorrectable Parity : 1\n            SRAM Uncorrectable SEC-DED : 4\n            DRAM Correctable : N/A\n            DRAM Uncorrectable : 2\n",
			[]string{"ecc_aggregate_dram_uncorrected_count 2@08:12:53", "ecc_aggregate_sram_corrected_count 3@08:12:53", "ecc_aggregate_sram_uncorrected_count 5@08:12:53", "ecc_corrected_count 3@08:12:53", "ecc_uncorrected_count 7@08:12:53"}, ""},
		{"errors cut before the sum is whole", head + "    ECC Errors\n        Aggregate\n            SRAM Correctable : 3\n", nil, ""},
		{"no errors are known", head + "    ECC Errors\n        Aggregate\n            SRAM Correctable : N/A\n            DRAM Correctable : N/A\n", nil, ""},
		{"MIG", head + "    MIG Mode\n        Current : Enabled\n    MIG Device\n        Index : 0\n        Utilization\n            GPU : 3 %\n    MIG Device\n        Index : 1\n    Fan Speed : 5 %\n",
			[]string{"fan_frac 0.05@08:12:53", "mig_devices_count=2", "mig_mode=enabled"}, ""},
		{"processes cut", head + "    Processes\n        Process ID : 1\n            Type : C\n            Name : a\n            Used GPU Memory : 1 MiB\n        Process ID : 2\n            Type : C\n", nil, ""},
		{"only the heading of processes", head + "    Processes\n", nil, ""},
		{"cut inside a number", head + "    Fan Speed : 5 %\n    Performance State : P1", []string{"fan_frac 0.05@08:12:53"}, "unterminated-row@6*1"},
		{"tabs and blanks", head + "\tUtilization  \n\t\tGPU\t : 5 %  \n", []string{"sm_busy_frac 0.05@08:12:53"}, ""},
		{"no time", strings.Replace(head, "Timestamp", "Timestump", 1) + "    Fan Speed : 5 %\n    Persistence Mode : Enabled\n", []string{"fan_frac 0.05@0s", "persistence_mode=enabled"}, "no-time@1*1"},
		{"bad time", strings.Replace(head, "Jul", "Jly", 1) + "    Fan Speed : 5 %\n    Persistence Mode : Enabled\n", []string{"persistence_mode=enabled"}, "no-time@1*1 bad-time@2*1"},
		{"stray lines", "nohup: ignoring input\n" + head + "Killed\n    Fan Speed : 5 %\n", []string{"fan_frac 0.05@08:12:53"}, "stray-line@1*2"},
		{"the clock went back", head + "    Fan Speed : 5 %\n" + strings.Replace(head, "53", "13", 1) + "    Fan Speed : 6 %\n", []string{"fan_frac 0.05@08:12:53"}, "clock-step@7*1"},
		{"two reports of one second", head + "    Fan Speed : 5 %\n" + head + "    Fan Speed : 6 %\n", []string{"fan_frac 0.05@08:12:53"}, ""},
	} {
		tl, ps, err := readReport(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, shown(tl, tl.Tracks[0].Name, timeline.TrackGPU)); d != "" && len(tl.Tracks) > 0 {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
}
