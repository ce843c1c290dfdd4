package promtext

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
	in := ingest.NewInput("x.prom", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, &ingest.Options{Set: set})
	b := ingest.NewBuilder(in, Format.Name)
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
	stamp := func(at timeline.Time) string {
		if at > 1e17 {
			return time.Unix(0, int64(at)).UTC().Format("15:04:05.000")
		}
		return time.Duration(at).String()
	}
	for i := range tl.Series {
		s := &tl.Series[i]
		for j := range s.At {
			out = append(out, fmt.Sprintf("%s %s %.6g@%s row%d", tl.Tracks[s.Track].Name, s.Metric.Name, s.Value[j], stamp(s.At[j]), s.Row[j]))
		}
	}
	m := &tl.Marks
	for i := range m.At {
		out = append(out, fmt.Sprintf("mark %d %d %s@%s row%d", m.Kind[i], m.Code[i], tl.Tracks[m.Track[i]].Name, stamp(m.At[i]), m.Row[i]))
	}
	for _, a := range tl.Attrs {
		out = append(out, fmt.Sprintf("%s: %s %s%g row%d", tl.Tracks[a.Track].Name, a.Name, a.Text, a.Value, a.Row))
	}
	return out
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "prometheus/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

func recognises(text string) bool {
	raw := []byte(text)
	raw = raw[:min(len(raw), ingest.HeadSize)]
	return recognise(ingest.Head{Name: "x", Raw: raw, Text: raw})
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line    string
		seconds bool
		want    string // "" refused
	}{
		{`up 1`, false, "up[] 1 0"},
		{`a{} 2.5e3`, false, "a[] 2500 0"},
		{`a{b="c", d="e"} 3 1784016773123`, false, "a[{b c} {d e}] 3 1784016773123000000"},
		{`a{b="c",} 3 1784016773`, true, "a[{b c}] 3 1784016773000000000"},
		{`a{b="c"} 3 1784016773.25`, false, "a[{b c}] 3 1784016773250000000"},
		{`a{b="q\"u\\o\nte"} 1`, false, "a[{b q\"u\\o\nte}] 1 0"},
		{`a{b="}"} 1`, false, "a[{b }}] 1 0"},
		{`a 1 # {trace="x"} 1`, false, "a[] 1 0"},
		{`a{b="c} 1`, false, ""},
		{`a{b=c} 1`, false, ""},
		{`a`, false, ""},
		{`a b`, false, ""},
		{`a 1 2 3`, false, ""},
		{`...`, false, ""},
		{`a 1 -5`, false, ""},
		{`9a 1`, false, ""},
	} {
		s, ok := parse(c.line, c.seconds)
		got := ""
		if ok {
			got = fmt.Sprintf("%s%v %g %d", s.name, s.labels, s.value, s.at)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
}

const uuid = "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"

func dcgm(name, value string) string {
	return "DCGM_FI_" + name + `{gpu="3",UUID="` + uuid + `",pci_bus_id="00000000:3B:00.0",device="nvidia3",modelName="NVIDIA H100 80GB HBM3",Hostname="node7",DCGM_FI_DRIVER_VERSION="570.86.15"} ` + value + "\n"
}

func TestRead(t *testing.T) {
	const attr = "GPU 3: driver_version 570.86.150 row1"
	for _, c := range []struct {
		what, text string
		set        map[string]string
		want       []string
		problems   string
	}{
		{"DCGM without times", dcgm("DEV_GPU_UTIL", "97") + dcgm("PROF_PIPE_TENSOR_ACTIVE", "0.25") + dcgm("DEV_GPU_UTIL", "50"), nil,
			[]string{"GPU 3 sm_busy_frac 0.97@0s row1", "GPU 3 sm_busy_frac 0.5@1s row3", "GPU 3 tensor_active_frac 0.25@0s row2", attr}, "no-time@1*1"},
		{"with stamps", dcgm("DEV_POWER_USAGE", "631.95 1784016773500") + dcgm("DEV_POWER_USAGE", "100 1784016788500"), nil,
			[]string{"GPU 3 power_w 631.95@08:12:53.500 row1", "GPU 3 power_w 100@08:13:08.500 row2", attr}, ""},
		{"dates between scrapes", "2026-07-14T08:12:53+00:00\n" + dcgm("DEV_SM_CLOCK", "1980") + "2026-07-14T08:13:08+00:00\n" + dcgm("DEV_SM_CLOCK", "1500"), nil,
			[]string{"GPU 3 clock_sm_hz 1.98e+09@08:12:53.000 row2", "GPU 3 clock_sm_hz 1.5e+09@08:13:08.000 row4", "GPU 3: driver_version 570.86.150 row2"}, ""},
		{"blank and absurd values", dcgm("DEV_MEMORY_TEMP", "9223372036854775794") + dcgm("DEV_GPU_TEMP", "900") + dcgm("DEV_FB_USED", "3") + dcgm("DEV_SM_CLOCK", "NaN"), nil,
			[]string{"GPU 3 mem_used_bytes 3.14573e+06@0s row3", attr}, "no-time@1*1 impossible-value@2*1"},
		{"violations have no known unit", dcgm("DEV_POWER_VIOLATION", "12345") + dcgm("DEV_GPU_TEMP", "60"), nil, []string{"GPU 3 temp_gpu_c 60@0s row2", attr}, "no-time@1*1"},
		{"last Xid", dcgm("DEV_XID_ERRORS", "0") + dcgm("DEV_XID_ERRORS", "79") + dcgm("DEV_XID_ERRORS", "79"), map[string]string{"period": "15"},
			[]string{"mark 5 79 GPU 3@15s row2", attr}, "no-time@1*1"},
		{"Xid from before", dcgm("DEV_XID_ERRORS", "31") + dcgm("DEV_XID_ERRORS", "31"), nil, []string{attr}, "no-time@1*1 old-xid@1*1"},
		{"ranks and sums", dcgm("DEV_ECC_DBE_VOL_TOTAL", "5") + dcgm("DEV_ECC_DBE_AGG_TOTAL", "7") + dcgm("DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "1") + dcgm("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "2"), nil,
			[]string{"GPU 3 ecc_uncorrected_count 7@0s row2", "GPU 3 nvlink_errors_count 3@0s row3", attr}, "no-time@1*1"},
		{"part of a GPU", `DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 0.5` + "\n", nil, []string{"GPU 0 instance 7 gr_active_frac 0.5@0s row1"}, "no-time@1*1"},
		{"nvidia_gpu_exporter", `nvidia_smi_gpu_info{driver_version="590.48.01",index="1",name="NVIDIA H200",pci_bus_id="00000000:02:00.0",uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9"} 1` + "\n" +
			`nvidia_smi_utilization_gpu_ratio{uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9"} 0.5` + "\n" + `nvidia_smi_power_draw_average_watts{uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9"} 100` + "\n" +
			`nvidia_smi_power_draw_watts{uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9"} 101` + "\n" + `nvidia_smi_mig_mode_current{uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9"} 1` + "\n" +
			`nvidia_smi_compute_app_used_memory_bytes{pid="12",process_name="/usr/bin/python train.py",uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9"} 1024` + "\n", nil,
			[]string{"GPU 1 sm_busy_frac 0.5@0s row2", "GPU 1 power_w 101@0s row4", "python proc_gpu_mem_bytes 1024@0s row6", "GPU 1: driver_version 590.48.010 row1", "GPU 1: mig_mode enabled0 row5"}, "no-time@1*1"},
		{"Xids counted", `nvidia_smi_xid_errors_total{uuid="ab",xid="31"} 1` + "\n" + `nvidia_smi_xid_errors_total{uuid="ab",xid="31"} 1` + "\n" + `nvidia_smi_xid_errors_total{uuid="ab",xid="79"} 1` + "\n" + `nvidia_smi_xid_errors_total{uuid="ab",xid="31"} 2` + "\n", nil,
			[]string{"mark 5 79 ab@1s row3", "mark 5 31 ab@2s row4"}, "no-time@1*1 old-xid@1*1"},
		{"node_exporter", node(0) + node(1), nil, []string{
			"host load1_count 3@08:12:53.000 row10", "host load1_count 3@08:13:03.000 row24",
			"nvme0n1 disk_read_bytes_per_s 1e+06@08:13:03.000 row21", "eth0 net_rx_bytes_per_s 2e+06@08:13:03.000 row25",
			"CPU 0 cpu_busy_frac 0.5@08:13:03.000 row16", "CPU 1 cpu_busy_frac 0.9@08:13:03.000 row19",
			"nvme0n1 disk_reads_hz 10@08:13:03.000 row22", "nvme0n1 disk_read_await_s 0.002@08:13:03.000 row22",
			"host cpu_busy_frac 0.7@08:13:03.000 row16", "host cpu_user_frac 0.7@08:13:03.000 row16", "host cpu_system_frac 0@08:13:03.000 row16", "host cpu_iowait_frac 0.1@08:13:03.000 row16",
			"host cpu_steal_frac 0@08:13:03.000 row16", "host cpu_irq_frac 0@08:13:03.000 row16",
			"host: boot_unix_s 1.784e+09 row1", "host: kernel 6.1.00 row14"}, ""},
		{"counters without times", strings.Repeat("node_context_switches_total 5\nnode_load1 1\n", 2), nil, []string{"host load1_count 1@0s row2", "host load1_count 1@1s row4"}, "no-rates@1*1 no-time@1*1"},
		{"counters with a period", "node_context_switches_total 5\nnode_context_switches_total 105\n", map[string]string{"period": "10"}, []string{"host context_switches_hz 10@10s row2"}, "no-time@1*1"},
		{"some scrapes without time", "node_time_seconds 1784016773\nnode_load1 1\nnode_load1 2\nnode_load1 3\nnode_time_seconds 1784016783\n", nil,
			[]string{"host load1_count 1@08:12:53.000 row2", "host load1_count 3@08:13:03.000 row4"}, "mixed-times@1*1"},
		{"cut", dcgm("DEV_GPU_UTIL", "97") + strings.TrimSuffix(dcgm("DEV_GPU_TEMP", "6"), "\n"), nil, []string{"GPU 3 sm_busy_frac 0.97@0s row1", attr}, "no-time@1*1 unterminated-row@2*1"},
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
		if !recognises(c.text) {
			t.Errorf("%s: not recognised", c.what)
		}
	}
	if _, _, err := readText(t, "# HELP a b\n", nil); err == nil {
		t.Error("a scrape without numbers is read")
	}
	tl, _, _ := readText(t, dcgm("DEV_GPU_UTIL", "97"), nil)
	if d := tl.Devices[0]; d.UUID != uuid || d.Bus != "0000:3b:00" || d.Index != 3 || d.Name != "NVIDIA H100 80GB HBM3" || tl.Sources[0].Host != "node7" {
		t.Errorf("%+v, host %q", d, tl.Sources[0].Host)
	}
}

// node is a scrape of a host with two CPUs; the next is ten seconds later.
func node(i int) string {
	f := float64(i)
	return fmt.Sprintf(`node_boot_time_seconds 1.784e+09
node_cpu_seconds_total{cpu="0",mode="idle"} %g
node_cpu_seconds_total{cpu="0",mode="iowait"} %g
node_cpu_seconds_total{cpu="0",mode="user"} %g
node_cpu_seconds_total{cpu="1",mode="idle"} %g
node_cpu_seconds_total{cpu="1",mode="user"} %g
node_disk_read_bytes_total{device="nvme0n1"} %g
node_disk_reads_completed_total{device="nvme0n1"} %g
node_disk_read_time_seconds_total{device="nvme0n1"} %g
node_load1 3
node_network_receive_bytes_total{device="eth0"} %g
node_network_receive_bytes_total{device="lo"} %g
node_time_seconds %.1f
node_uname_info{nodename="node7",release="6.1.0"} 1
`, 100+3*f, 5+2*f, 50+5*f, 100+f, 70+9*f, 1e9+1e7*f, 1e4+100*f, 5+.2*f, 2e7*f, 7e7*f, 1784016773+10*f)
}

func TestRealScrapes(t *testing.T) {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	load := func(name string) (*timeline.Timeline, []string) {
		b, err := os.ReadFile(filepath.Join(dir, "prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		if !recognises(string(b)) {
			t.Errorf("%s: not recognised", name)
		}
		tl, _, err := readText(t, string(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, s := range shown(tl) {
			out = append(out, s[:strings.LastIndex(s, " row")])
		}
		return tl, out
	}
	has := func(name string, got []string, want ...string) {
		t.Helper()
		for _, w := range want {
			found := false
			for _, g := range got {
				found = found || g == w
			}
			if !found {
				t.Errorf("%s: no %q in %q", name, w, got)
			}
		}
	}
	_, got := load("dcgm_exporter_readme.prom")
	if d := cmp.Diff([]string{"GPU 0 clock_sm_hz 1.39e+08@0s", "GPU 0 clock_mem_hz 4.05e+08@0s"}, got); d != "" {
		t.Error(d)
	}
	tl, got := load("linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__load.metrics")
	has("h100", got, "GPU 0 sm_busy_frac 1@0s", "GPU 0 power_w 631.95@0s", "GPU 0 power_instant_w 625.68@0s", "GPU 0 clock_sm_hz 1.98e+09@0s", "GPU 0 temp_gpu_c 59@0s", "GPU 0 temp_margin_c 26@0s",
		"GPU 0 mem_used_bytes 2.07807e+10@0s", "GPU 0 pcie_gen_count 5@0s", "GPU 0 pcie_width_count 16@0s", "GPU 0 gpu_processes_count 3@0s", "gpu_burn proc_gpu_mem_bytes 1.64522e+10@0s", "GPU 0: driver_version 590.48.010")
	if d := tl.Devices[0]; len(tl.Devices) != 1 || d.UUID != "" || d.Bus != "0000:00:09" || d.Name != "NVIDIA H100 80GB HBM3" || d.Index != 0 {
		t.Errorf("%+v", tl.Devices)
	}
	tl, got = load("demo__seeded.metrics")
	if len(tl.Devices) != 2 || tl.Devices[1].UUID != "GPU-ef427e4f-1970-42f2-ab0c-ecf0e56a33b9" || tl.Devices[1].Bus != "0000:02:00" {
		t.Errorf("%+v", tl.Devices)
	}
	has("demo", got, "GPU 0 pcie_h2d_bytes_per_s 9.95004e+08@0s", "GPU 1 pcie_d2h_bytes_per_s 1.89146e+09@0s")
	for _, name := range []string{"linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05__idle.metrics", "linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05__load.metrics", "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__idle.metrics",
		"linux-x86_64__nvidia-h200-mig__590.48.01__idle.metrics", "linux-x86_64__nvidia-h200-mig__590.48.01__load.metrics", "windows-x86_64__nvidia-geforce-rtx-2080-super__591.86__idle.metrics", "windows-x86_64__nvidia-geforce-rtx-2080-super__591.86__load.metrics"} {
		if tl, _ := load(name); len(tl.Devices) != 1 || len(tl.Series) < 15 {
			t.Errorf("%s: %d devices, %d series", name, len(tl.Devices), len(tl.Series))
		}
	}
}

var seeds = []string{
	"2026-07-14T08:12:53+00:00\n" + dcgm("DEV_SM_CLOCK", "1980") + dcgm("PROF_NVLINK_TX_BYTES", "1e9") + "2026-07-14T08:13:08+00:00\n" + dcgm("DEV_SM_CLOCK", "1500") + dcgm("DEV_XID_ERRORS", "79"),
	node(0) + node(1) + node(2),
	`nvidia_smi_utilization_gpu_ratio{uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9"} 0.5 1784016773500` + "\n# EOF\n",
}

func TestCuts(t *testing.T) {
	for _, s := range seeds {
		whole, _, err := readText(t, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]bool{}
		for _, l := range shown(whole) {
			all[l] = true
		}
		for k := range 200 {
			cut := len(s) * k / 200
			tl, _, err := readText(t, s[:cut], nil)
			if err != nil {
				continue
			}
			if tl.Clocks[0].Zoned != whole.Clocks[0].Zoned {
				continue // the time of the scrape lies behind the cut
			}
			for i := range tl.Series {
				sr := &tl.Series[i]
				if strings.Contains(sr.Metric.Name, "cpu") || strings.Contains(sr.Metric.Name, "await") {
					continue // put together of lines, of which some lie behind the cut
				}
				for j := range sr.At {
					if l := fmt.Sprintf("%s %s %.6g@%s row%d", tl.Tracks[sr.Track].Name, sr.Metric.Name, sr.Value[j], time.Unix(0, int64(sr.At[j])).UTC().Format("15:04:05.000"), sr.Row[j]); sr.At[j] > 1e17 && !all[l] {
						t.Errorf("cut at %d: %s is not in the whole", cut, l)
					}
				}
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(s[:len(s)*2/3]))
	}
	f.Add([]byte("node_cpu_seconds_total{cpu=\"x\",mode=\"idle\"} 1\nnode_cpu_seconds_total{cpu=\"x\",mode=\"idle\"} 2 5\n# EOF\na{=\"\"} 1\nDCGM_FI_DEV_GPU_UTIL 1\n1784016773\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		recognises(string(data))
		_, _, _ = readText(t, string(data), nil)
	})
}
