package smitable

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
	"gpureport/ingest/timeline"
)

var of = ingesttest.Reader{Format: Format}

// old is the table of drivers before MIG: no third line, processes without instances.
const old = `Tue Jul 14 08:12:53 2020
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 384.81                 Driver Version: 384.81                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:00:1E.0 Off |                    3 |
| N/A   45C    P0    51W / 300W |    500MiB / 16152MiB |     12%   E. Process |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  Off  | 00000000:00:1F.0 Off |                  Off |
|ERR!  ERR!  ERR!  ERR! / 300W |      2MiB / 16152MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      1234      C   /home/bob/secret/python                      400MiB |
|    0      1235    C+G   ...secret/X                                   10MiB |
+-----------------------------------------------------------------------------+
`

const frame = `+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 545.23.08              Driver Version: 545.23.08    CUDA Version: 12.3     |
|-----------------------------------------+----------------------+----------------------+
|   0  NVIDIA A100-SXM4-80GB          Off | 00000000:07:00.0 Off |                    0 |
`

const noProcesses = `+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  No running processes found                                                           |
+---------------------------------------------------------------------------------------+
`

func row(use, mem, util string) string {
	return "| N/A   29C    P0              " + use + " / 400W |   " + mem + " / 81920MiB |      " + util + "      Default |\n|                                         |                      |             Disabled |\n" +
		"+-----------------------------------------+----------------------+----------------------+\n"
}

func TestOld(t *testing.T) {
	tl, ps, err := of.Read(t, old)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{
		": driver_version=384.81",
		"GPU 0: compute_mode=e. process", "GPU 0: ecc_mode=enabled", "GPU 0: ecc_volatile_uncorrected_count 3@08:12:53", "GPU 0: gpu_processes_count 1@08:12:53", "GPU 0: mem_total_bytes 16936599552@08:12:53",
		"GPU 0: mem_used_bytes 524288000@08:12:53", "GPU 0: name_begins=Tesla V100-SXM2", "GPU 0: persistence_mode=enabled", "GPU 0: power_limit_w 300@08:12:53",
		"GPU 0: power_limit_w=300", "GPU 0: power_w 51@08:12:53", "GPU 0: pstate_count 0@08:12:53", "GPU 0: sm_busy_frac 0.12@08:12:53", "GPU 0: temp_gpu_c 45@08:12:53",
		"GPU 1: compute_mode=default", "GPU 1: ecc_mode=disabled", "GPU 1: gpu_processes_count 0@08:12:53", "GPU 1: mem_total_bytes 16936599552@08:12:53", "GPU 1: mem_used_bytes 2097152@08:12:53",
		"GPU 1: name_begins=Tesla V100-SXM2", "GPU 1: persistence_mode=disabled", "GPU 1: power_limit_w 300@08:12:53", "GPU 1: power_limit_w=300", "GPU 1: sm_busy_frac 0@08:12:53",
		"python: proc_gpu_mem_bytes 419430400@08:12:53", "python: type=C", "X: proc_gpu_mem_bytes 10485760@08:12:53", "X: type=C+G",
	}, ingesttest.Shown(tl)); d != "" {
		t.Error(d)
	}
	if got := of.Codes(ps); got != "failed-reading@12*1" {
		t.Errorf("problems %q", got)
	}
	if d := tl.Devices[1]; d.Bus != "0000:00:1f" || d.Index != 1 || d.Name != "" || d.Memory != 16152<<20 {
		t.Errorf("%+v", d)
	}
	if len(tl.Marks.At) != 1 || tl.Marks.Kind[0] != timeline.MarkReadFailed {
		t.Errorf("%+v", tl.Marks)
	}
}

func TestRead(t *testing.T) {
	const stamp = "Sun Feb 16 08:10:45 2025       \n"
	for _, c := range []struct {
		what, text string
		want       []string // of those about power, use and processes
		problems   string
	}{
		{"two tables", stamp + frame + row("71W", "500MiB", "3%") + noProcesses + strings.Replace(stamp, "45", "59", 1) + frame + row("72W", "500MiB", "4%") + noProcesses,
			[]string{"GPU 0: power_w 71@08:10:45", "GPU 0: power_w 72@08:10:59", "GPU 0: sm_busy_frac 0.03@08:10:45", "GPU 0: sm_busy_frac 0.04@08:10:59"}, "hidden-processes@10*2"},
		{"idle, nothing runs", stamp + frame + row("71W", "5MiB", "0%") + noProcesses, []string{"GPU 0: gpu_processes_count 0@08:10:45", "GPU 0: power_w 71@08:10:45", "GPU 0: sm_busy_frac 0@08:10:45"}, ""},
		{"no time", frame + row("71W", "5MiB", "3%") + frame + row("72W", "5MiB", "3%"),
			[]string{"GPU 0: power_w 71@0s", "GPU 0: power_w 72@1s", "GPU 0: sm_busy_frac 0.03@0s", "GPU 0: sm_busy_frac 0.03@1s"}, "no-time@1*1"},
		{"MIG", stamp + frame + row("71W", "5MiB", "N/A"), []string{"GPU 0: power_w 71@08:10:45"}, "hidden-utilisation@1*1"},
		{"cut in the values", stamp + frame + "| N/A   29C    P0              71W / 400W |   5MiB / 819", nil, "unterminated-row@6*1"},
		{"cut in the list", stamp + frame + row("71W", "5MiB", "3%") + "| Processes: |\n|    0   N/A  N/A   3242651      C   python   5716MiB |\n", []string{"GPU 0: power_w 71@08:10:45", "GPU 0: sm_busy_frac 0.03@08:10:45"}, ""},
		{"a row of another kind", stamp + frame + "| N/A   29C |\n", nil, "bad-row@6*1"},
		{"values that cannot be", stamp + frame + row("71000W", "5GB", "130%"), nil, "bad-value@6*3"},
		{"a shell's words", "$ nvidia-smi\n" + stamp + frame + row("71W", "5MiB", "3%") + "Killed\n", []string{"GPU 0: power_w 71@08:10:45", "GPU 0: sm_busy_frac 0.03@08:10:45"}, "stray-line@1*2"},
		{"the clock went back", stamp + frame + row("71W", "5MiB", "3%") + strings.Replace(stamp, "45", "15", 1) + frame + row("72W", "5MiB", "4%"), []string{"GPU 0: power_w 71@08:10:45", "GPU 0: sm_busy_frac 0.03@08:10:45"}, "clock-step@9*1"},
	} {
		tl, ps, err := of.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		var got []string
		for _, s := range ingesttest.Shown(tl) {
			if strings.Contains(s, " power_w") || strings.Contains(s, "sm_busy") || strings.Contains(s, "processes_count") {
				got = append(got, s)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := of.Codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "hello\n", "+--+\n| NVIDIA-SMI 545.23.08   Driver Version: 545.23.08    CUDA Version: 12.3 |\n"} {
		if _, _, err := of.Read(t, text); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

// TestRealTables holds numbers read off the files by hand.
func TestRealTables(t *testing.T) {
	for _, c := range []struct {
		name     string
		gpus     int
		rows     int64
		problems string
		want     []string
	}{
		{"a100x8_loop_0.log", 8, 16, "", []string{": driver_version=545.23.08", ": cuda_version=12.3", "GPU 0: power_w 71@08:10:45", "GPU 3: sm_busy_frac 0.11@08:10:59", "GPU 3: mem_used_bytes 64207454208@08:10:45",
			"GPU 5: sm_busy_frac 0.03@08:10:45", "GPU 5: gpu_processes_count 1@08:10:59", "GPU 7: gpu_processes_count 0@08:10:45", "python: proc_gpu_mem_bytes 2518679552@08:10:45", "GPU 4: temp_gpu_c 27@08:10:59"}},
		{"linux-h100-80gb-hbm3__590.48.01__idle.txt", 1, 1, "", []string{"GPU 0: power_w 69@08:12:38", "GPU 0: gpu_processes_count 0@08:12:38", "GPU 0: temp_gpu_c 41@08:12:38"}},
		{"linux-h100-80gb-hbm3__590.48.01__load.txt", 1, 1, "", []string{"GPU 0: power_w 629@08:12:53", "GPU 0: sm_busy_frac 1@08:12:53", "GPU 0: gpu_processes_count 3@08:12:53", "gpu_burn: type=C"}},
		{"linux-h200-mig__590.48.01__idle.txt", 1, 1, "hidden-utilisation@1*1", []string{"GPU 0: mig_mode=enabled", "GPU 0: mig_devices_count=5"}},
		{"linux-h200-mig__590.48.01__load.txt", 1, 1, "hidden-utilisation@1*1", []string{"GPU 0: power_w 295@22:22:26", "GPU 0: mem_used_bytes 17782800384@22:22:26", "GPU 0: gpu_processes_count 3@22:22:26"}},
		{"linux-l40s__595.80__idle.txt", 1, 1, "", []string{"GPU 0: gpu_processes_count 0@08:33:38"}},
		{"linux-l40s__595.80__load.txt", 1, 1, "", []string{"GPU 0: gpu_processes_count 2@08:33:53"}},
		{"linux-rtx-2080-super__595.71.05__idle.txt", 1, 1, "", []string{"GPU 0: name_begins=NVIDIA GeForce RTX 2080", "gnome-shell: type=G"}},
		{"linux-rtx-2080-super__595.71.05__load.txt", 1, 1, "", []string{"GPU 0: gpu_processes_count 2@10:26:49"}},
		{"linux-rtx-4080-super__595.71.05__idle.txt", 1, 1, "", []string{"kwin_wayland: type=C+G"}},
		{"linux-rtx-4080-super__595.71.05__load.txt", 1, 1, "", []string{"GPU 0: power_w 83@11:59:58", "GPU 0: fan_frac 0@11:59:58", "GPU 0: pstate_count 2@11:59:58", "ffmpeg: proc_gpu_mem_bytes 377487360@11:59:58"}},
		{"windows-rtx-2080-super__591.86__idle.txt", 1, 1, "", []string{"GPU 0: driver_model=WDDM"}},
		{"windows-rtx-2080-super__591.86__load.txt", 1, 1, "", []string{"GPU 0: fan_frac 0.38@23:04:33", "GPU 0: power_w 97@23:04:33", "GPU 0: power_limit_w=250", "GPU 0: gpu_processes_count 2@23:04:33", "NVIDIA Share.exe: type=C+G"}},
	} {
		tl, ps, err := of.Read(t, ingesttest.Real(t, "smi-table", c.name))
		if err != nil || of.Codes(ps) != c.problems || tl.Sources[0].Rows != c.rows || len(tl.Devices) != c.gpus {
			t.Errorf("%s: %v, %s, %d rows, %d GPUs", c.name, err, of.Codes(ps), tl.Sources[0].Rows, len(tl.Devices))
		}
		ingesttest.Has(t, tl, c.want...)
	}
}

func TestCutAnywhere(t *testing.T) { of.CutAnywhere(t, old) }

func FuzzRead(f *testing.F) {
	f.Add([]byte(old))                                                                                                          // plain
	f.Add([]byte(frame + row("71W", "5MiB", "3%") + noProcesses))                                                               // newer
	f.Add([]byte("| NVIDIA-SMI 1 Driver Version: 2\n|  0 a On | 0000:00:00.0 On | 1e308 |\n| 1 2 P99 4 / 5 | 6 / 7 | 8 9 |\n")) // values without units
	f.Add([]byte("| NVIDIA-SMI 1 Driver Version: 2\n| Processes: |\n|    7      1      C   x   1MiB |\n+--+\n"))                // a process of no GPU
	f.Add([]byte("| NVIDIA-SMI 1 Driver Version: 2\n| MIG devices: |\n|  0 1 2 3 | x |\n| Processes: |\n"))                     // instances of no GPU
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
