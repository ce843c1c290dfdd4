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
		"ecc_mode=enabled", "ecc_uncorrected_count 3@08:12:53", "ecc_volatile_uncorrected_count 0@08:12:53", "enc_busy_frac 0@08:12:53", "gpu_processes_count 1@08:12:53",
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
		{"a container hides processes", head + "    FB Memory Usage\n        Used : 900 MiB\n    Processes : None\n", []string{"mem_used_bytes 9.437184e+08@08:12:53"}, "hidden-processes@7*1"},
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

const doc = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<timestamp>Tue Jul 14 08:12:53 2026</timestamp>
	<driver_version>590.44.01</driver_version>
	<attached_gpus>1</attached_gpus>
	<gpu id="00000000:61:00.0">
		<product_name>NVIDIA H100</product_name>
		<uuid>GPU-aa</uuid>
		<mig_mode><current_mig>Enabled</current_mig></mig_mode>
		<mig_devices>
			<mig_device><index>0</index><utilization><gpu_util>3 %</gpu_util></utilization></mig_device>
			<mig_device><index>1</index></mig_device>
		</mig_devices>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
			<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
		</clocks_event_reasons>
		<utilization><gpu_util>97 %</gpu_util></utilization>
		<ecc_errors><aggregate>
			<sram_correctable>1</sram_correctable>
			<sram_uncorrectable_parity>2</sram_uncorrectable_parity>
			<sram_uncorrectable_secded>3</sram_uncorrectable_secded>
			<dram_correctable>10</dram_correctable>
			<dram_uncorrectable>20</dram_uncorrectable>
		</aggregate></ecc_errors>
		<supported_clocks><supported_mem_clock><value>1 MHz</value></supported_mem_clock></supported_clocks>
		<processes>
			<process_info><pid>7</pid><type>C</type><process_name>/root/a & b <c> --x</process_name><used_memory>3 MiB</used_memory></process_info>
			<process_info><pid>8</pid><type>G</type><process_name>/usr/bin/X</process_name><used_memory>N/A</used_memory></process_info>
		</processes>
	</gpu>
</nvidia_smi_log>
`

var docShown = []string{"clock_reasons 4@08:12:53", "ecc_aggregate_dram_corrected_count 10@08:12:53", "ecc_aggregate_dram_uncorrected_count 20@08:12:53",
	"ecc_aggregate_sram_corrected_count 1@08:12:53", "ecc_aggregate_sram_uncorrected_count 5@08:12:53", "ecc_corrected_count 11@08:12:53", "ecc_uncorrected_count 25@08:12:53",
	"gpu_processes_count 1@08:12:53", "mig_devices_count=2", "mig_mode=enabled", "sm_busy_frac 0.97@08:12:53"}

func TestDocument(t *testing.T) {
	plain := strings.Replace(doc, "a & b <c> --x", "train --x", 1)
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"whole", plain, docShown, ""},
		{"without a prolog", plain[strings.Index(plain, "<nvidia_smi_log>"):], docShown, ""},
		{"UTF-16 says the prolog", strings.Replace(plain, `"1.0" ?`, `"1.0" encoding="UTF-16"?`, 1), docShown, ""},
		{"two documents", plain + strings.Replace(strings.Replace(plain, ":53", ":58", 1), "97 %", "98 %", 1), slices.Sorted(slices.Values(append(slices.Clone(docShown), both(docShown)...))), ""},
		{"the first is cut", plain[:strings.Index(plain, "\t\t<processes>")] + plain, docShown, "damaged-document@28*1"},
		{"nested without end", "<?xml?>\n<nvidia_smi_log>\n<gpu id=\"00000000:61:00.0\"><uuid>GPU-aa</uuid>" + strings.Repeat("<a>", 50) + "\n", nil, "no-time@1*1 damaged-document@3*1"},
	} {
		tl, ps, err := readReport(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		track := ""
		for _, tr := range tl.Tracks {
			if tr.Kind == timeline.TrackGPU {
				track = tr.Name
			}
		}
		if d := cmp.Diff(c.want, shown(tl, track, timeline.TrackGPU)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
		if d := tl.Devices[0]; d.UUID != "GPU-aa" || d.Bus != "0000:61:00" {
			t.Errorf("%s: %+v", c.what, d)
		}
	}
	tl, ps, err := readReport(t, doc) // the tool does not escape: what it holds before is kept
	if err != nil || len(ps) == 0 || len(tl.Devices) != 1 {
		t.Errorf("a name with markup: %v, %v", err, ps)
	}
}

// both moves the readings of the first document to the second.
func both(lines []string) []string {
	var out []string
	for _, s := range lines {
		if strings.Contains(s, "@") {
			out = append(out, strings.NewReplacer("08:12:53", "08:12:58", "0.97", "0.98").Replace(s))
		}
	}
	return out
}

func real(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRealReports holds numbers read off the files by hand.
func TestRealReports(t *testing.T) {
	for _, c := range []struct {
		name, track string
		gpus        int
		problems    string
		want        []string
	}{
		{"smi-q/azure_bad_nvsmi8_output.txt", "GPU 1", 8, "", []string{"retire_pending 1@20:46:07", "retired_double_bit_count 61@20:46:07", "retired_single_bit_count 2@20:46:07"}},
		{"smi-q/azure_orig_nvsmi8_output.txt", "GPU 7", 8, "", []string{"retire_pending 0@20:45:34", "retired_double_bit_count 0@20:45:34"}},
		{"smi-q/linux-h100-80gb-hbm3__590.48.01__idle.txt", "GPU 0", 1, "", []string{"power_w 69.85@08:12:38", "power_instant_w 69.62@08:12:38", "clock_sm_hz 3.45e+08@08:12:38", "clock_reasons 1@08:12:38", "pcie_replays_count 9@08:12:38",
			"gpu_processes_count 0@08:12:38", "temp_margin_shutdown_c=-8", "temp_margin_slowdown_c=-2", "virtualization_mode=Pass-Through", "remap_pending 0@08:12:38", "remap_banks_none_count=0", "pcie_gen_count 5@08:12:38"}},
		{"smi-q/linux-h100-80gb-hbm3__590.48.01__load.txt", "GPU 0", 1, "", []string{"power_w 629.45@08:12:53", "sm_busy_frac 1@08:12:53", "mem_busy_frac 0.11@08:12:53", "gpu_processes_count 3@08:12:53", "temp_margin_c 26@08:12:53", "temp_mem_c 55@08:12:53", "fabric_state=Completed"}},
		{"smi-q/linux-h200-mig__590.48.01__idle.txt", "GPU 0", 1, "hidden-utilisation@1*1", []string{"mig_mode=enabled", "mig_devices_count=5"}},
		{"smi-q/linux-h200-mig__590.48.01__load.txt", "GPU 0", 1, "hidden-utilisation@1*1", []string{"power_w 294.94@22:22:26", "power_mem_w 81.57@22:22:26", "pcie_h2d_bytes_per_s 3.6408e+07@22:22:26", "clock_mem_hz 3.201e+09@22:22:26"}},
		{"smi-q/linux-l40s__595.80__idle.txt", "GPU 0", 1, "", []string{"gpu_processes_count 0@08:33:38", "power_limit_w=350", "pcie_gen_max_count=4"}},
		{"smi-q/linux-l40s__595.80__load.txt", "GPU 0", 1, "", []string{"gpu_processes_count 2@08:33:53", "sm_busy_frac 0.09@08:33:53"}},
		{"smi-q/linux-rtx-2080-super__595.71.05__idle.txt", "GPU 0", 1, "", []string{"pcie_gen_count 1@10:26:34", "pcie_gen_max_count=3", "temp_slowdown_c=97", "temp_max_op_c=89", "fan_frac 0.38@10:26:34"}},
		{"smi-q/linux-rtx-2080-super__595.71.05__load.txt", "GPU 0", 1, "", []string{"enc_busy_frac 1@10:26:49", "pcie_gen_count 3@10:26:49"}},
		{"smi-q/linux-rtx-4080-super__595.71.05__idle.txt", "GPU 0", 1, "", []string{"pcie_gen_host_count=5", "power_max_w=400"}},
		{"smi-q/linux-rtx-4080-super__595.71.05__load.txt", "GPU 0", 1, "", []string{"clock_sm_max_hz=3.165e+09"}},
		{"smi-q/windows-rtx-2080-super__591.86__idle.txt", "GPU 0", 1, "", []string{"driver_model=WDDM", "gpu_processes_count 0@23:04:18"}},
		{"smi-q/windows-rtx-2080-super__591.86__load.txt", "GPU 0", 1, "", []string{"gpu_processes_count 2@23:04:33", "throttle_sw_power_s 5459.682741@23:04:33", "temp_shutdown_c=100"}},
		{"smi-xml/a100-sxm4-v12.xml", "GPU 0000:01:00", 1, "hidden-utilisation@1*1", []string{"reset_required=0", "power_w 67.03@11:44:30", "power_default_w=500", "clock_app_sm_hz=1.275e+09", "temp_slowdown_c=89", "temp_mem_max_op_c=95", "mig_devices_count=4"}},
		{"smi-xml/a10g.xml", "GPU 0", 1, "", []string{"power_w 25.58@16:11:51", "power_limit_w=300", "pcie_gen_count 1@16:11:51", "remap_failed 0@16:11:51"}},
		{"smi-xml/dual_2070-v13.xml", "GPU 1", 2, "", []string{"power_w 11.82@09:49:47", "recovery_action=None"}},
		{"smi-xml/dual_a5000-v13.xml", "GPU 0", 2, "", []string{"mem_used_bytes 2.3526899712e+10@09:46:54", "gpu_processes_count 1@09:46:54"}},
		{"smi-xml/gtx-1070-ti.xml", "GPU 0000:01:00", 1, "no-time@1*1", []string{"fan_frac 1@0s", "pstate_count 8@0s", "temp_gpu_c 39@0s", "clock_sm_hz 1.35e+08@0s"}},
		{"smi-xml/gtx-1660-ti.xml", "GPU 0", 1, "", []string{"power_w 8.93@19:19:44", "power_limit_w=130"}},
		{"smi-xml/pro-6000-maxq-blackwell-v13.xml", "GPU 0", 1, "", []string{"temp_margin_shutdown_c=-5", "temp_margin_c 68@09:49:57", "pcie_gen_device_count=5"}},
		{"smi-xml/quadro-p400.xml", "GPU 0", 1, "", []string{"temp_shutdown_c=103", "clock_app_sm_hz=1.227e+09"}},
		{"smi-xml/rtx-3080-v12.xml", "GPU 0", 1, "", []string{"power_w 22.78@17:00:50"}},
		{"smi-xml/rtx-3090-v12.xml", "GPU 0", 1, "", []string{"power_limit_w=200", "power_max_w=375"}},
		{"smi-xml/tesla-t4.xml", "GPU 0", 1, "", []string{"pcie_width_count 8@16:22:39", "pcie_width_max_count=16", "ecc_mode=enabled", "retired_double_bit_count 0@16:22:39", "gpu_processes_count 1@16:22:39"}},
	} {
		tl, ps, err := readReport(t, real(t, c.name))
		if err != nil || codes(ps) != c.problems || len(tl.Devices) != c.gpus {
			t.Errorf("%s: %v, %q, %d GPUs", c.name, err, codes(ps), len(tl.Devices))
		}
		got := shown(tl, c.track, timeline.TrackGPU)
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, strings.Join(got, "\n"))
			}
		}
	}
}

// TestCutAnywhere: what is read of a cut report stands in the whole one.
func TestCutAnywhere(t *testing.T) {
	texts := map[string]string{"kepler": open(t, "testdata/kepler.txt"), "loop": open(t, "testdata/loop.txt"), "document": strings.Replace(doc, "a & b <c> --x", "x", 1)}
	if os.Getenv("GPUREPORT_DATA") != "" {
		for _, name := range []string{"smi-q/linux-h100-80gb-hbm3__590.48.01__load.txt", "smi-q/linux-h200-mig__590.48.01__load.txt", "smi-xml/tesla-t4.xml", "smi-xml/a100-sxm4-v12.xml"} {
			texts[name] = real(t, name)
		}
	} else {
		t.Log("GPUREPORT_DATA is not set: real files are not cut")
	}
	for name, text := range texts {
		whole := everything(t, text)
		for k := range 200 {
			for s := range everything(t, text[:len(text)*k/200]) {
				// A cut list of instances or processes is shorter; nothing says that it was cut at the edge of a line.
				if !whole[s] && !strings.HasPrefix(s, "mig_devices_count") && !strings.HasPrefix(s, "gpu_processes_count") {
					t.Errorf("%s cut at %d of 200: %s", name, k, s)
				}
			}
		}
	}
}

// everything is what a report gives of its GPUs and processes, whatever their names.
func everything(t *testing.T, text string) map[string]bool {
	tl, _, _ := readReport(t, text)
	out := map[string]bool{}
	for _, tr := range tl.Tracks {
		for _, s := range shown(tl, tr.Name, tr.Kind) {
			out[s] = true
		}
	}
	return out
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(head + "    Fan Speed : 5 %\n    Processes\n        Process ID : 7\n            Type : C\n"))                               // listing
	f.Add([]byte(doc))                                                                                                                       // document
	f.Add([]byte("==============NVSMI LOG\n    Fan Speed : 5 %\nGPU 00000000:83:00.0\n\t: \n :\n"))                                          // values of no GPU
	f.Add([]byte("<nvidia_smi_log></gpu><gpu><gpu id=\"\"><processes><process_info></nvidia_smi_log>"))                                      // ends that began nothing
	f.Add([]byte("<?xml?>\n<?xml?>\n<nvidia_smi_log><timestamp>x</timestamp>&#0;<gpu id=\"a\"><uuid>\xff</uuid>"))                           // characters that are none
	f.Add([]byte(head + "    GPU UUID : GPU-a\n" + head + "    GPU UUID : GPU-b\n" + head + "    Utilization\n        GPU : GPU is lost\n")) // another card at the same bus
	f.Fuzz(func(t *testing.T, b []byte) {
		_, ps, _ := readReport(t, string(b))
		for _, p := range ps {
			if p.Count < 1 || !strings.HasPrefix(p.Code, "smiq/") {
				t.Errorf("%+v", p)
			}
		}
		recogniseText(ingest.Head{Text: b, Raw: b})
	})
}
