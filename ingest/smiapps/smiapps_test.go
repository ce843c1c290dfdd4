package smiapps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
)

var of = ingesttest.Reader{Format: Format}

const head = "timestamp, gpu_name, gpu_bus_id, gpu_serial, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"

func line(at string, gpu, pid int, name, mem string) string {
	return fmt.Sprintf("2026/07/14 08:12:%s, NVIDIA H100, 00000000:0%d:00.0, 0, GPU-a%d, %d, %s, %s\n", at, gpu, gpu, pid, name, mem)
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"two cycles of two GPUs", head + line("53.500", 1, 7, "/root/memhog --secret", "2 MiB") + line("53.500", 1, 8, "./burn", "4 MiB") + line("53.501", 2, 7, "/root/memhog", "1 MiB") + line("54.500", 1, 8, "./burn", "5 MiB"),
			[]string{"GPU-a1: gpu_processes_count 1@08:12:54.5", "GPU-a1: gpu_processes_count 2@08:12:53.5", "memhog: proc_gpu_mem_bytes 2097152@08:12:53.5", "burn: proc_gpu_mem_bytes 4194304@08:12:53.5",
				"burn: proc_gpu_mem_bytes 5242880@08:12:54.5", "GPU-a2: gpu_processes_count 1@08:12:53.501", "memhog: proc_gpu_mem_bytes 1048576@08:12:53.501"}, ""},
		{"memory not known", head + line("53.500", 1, 7, `C:\Program Files\X Y\X Y.exe`, "[N/A]"), nil, ""},
		{"a comma in the name", head + line("53.500", 1, 7, "a, b", "1 MiB"), []string{"GPU-a1: gpu_processes_count 1@08:12:53.5", "a,: proc_gpu_mem_bytes 1048576@08:12:53.5"}, ""},
		{"no units in the cells", head + line("53.500", 1, 7, "a", "3"), []string{"GPU-a1: gpu_processes_count 1@08:12:53.5", "a: proc_gpu_mem_bytes 3145728@08:12:53.5"}, ""},
		{"no timestamp", "gpu_uuid, pid, used_gpu_memory [MiB]\nGPU-a, 7, 1 MiB\nGPU-a, 8, 1 MiB\nGPU-b, 7, 1 MiB\nGPU-a, 7, 2 MiB\n",
			[]string{"GPU-a: gpu_processes_count 1@1s", "GPU-a: gpu_processes_count 2@0s", ": proc_gpu_mem_bytes 1048576@0s", ": proc_gpu_mem_bytes 2097152@1s", ": proc_gpu_mem_bytes 1048576@0s",
				"GPU-b: gpu_processes_count 1@0s", ": proc_gpu_mem_bytes 1048576@0s"}, "no-time@1*1"},
		{"ended processes", "gpu_uuid, pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]\nGPU-a, 7, 55 %, 3 %, 100 MiB, 1500 ms\n",
			[]string{": ended_gpu_utilization_frac=0.55", ": ended_max_memory_usage_bytes=104857600", ": ended_mem_utilization_frac=0.03", ": ended_time_s=1.5"}, "no-time@1*1"},
		{"retired pages", "gpu_uuid, retired_pages.address, retired_pages.cause\nGPU-a, 0x1, Single Bit ECC\nGPU-a, 0x2, Double Bit ECC\nGPU-a, 0x3, Double Bit ECC\nGPU-b, [N/A], Single Bit ECC\n",
			[]string{"GPU-a: retired_double_bit_count 2@0s", "GPU-a: retired_single_bit_count 1@0s"}, "no-time@1*1"},
		{"header alone", head, nil, ""},
		{"cut in the last row", head + line("53.500", 1, 7, "a", "3 MiB") + "2026/07/14 08:12:54.500, NVIDIA H100, 00000000:01:00.0, 0, GPU-a1, 7, a, 3", []string{"a: proc_gpu_mem_bytes 3145728@08:12:53.5"}, "unterminated-row@3*1"},
		{"short and bad rows", head + "x\n" + line("53.500", 1, 7, "a", "3 W") + line("x", 1, 7, "a", "3 MiB") + line("53.500", 1, 8, "a", "-3 MiB"), nil, "short-row@2*1 bad-value@3*2 bad-time@4*1"},
		{"the clock went back", head + line("53.500", 1, 7, "a", "3 MiB") + line("13.500", 1, 7, "a", "4 MiB") + line("54.500", 1, 7, "a", "5 MiB"),
			[]string{"GPU-a1: gpu_processes_count 1@08:12:53.5", "GPU-a1: gpu_processes_count 1@08:12:54.5", "a: proc_gpu_mem_bytes 3145728@08:12:53.5", "a: proc_gpu_mem_bytes 5242880@08:12:54.5"}, "clock-step@3*1"},
	} {
		tl, ps, err := of.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, ingesttest.Shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := of.Codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]bool{
		head: true, "pid, process_name, used_gpu_memory [MiB]\n": true, "gpu_uuid, retired_pages.address, retired_pages.cause\n": true,
		"timestamp, index, utilization.gpu [%]\n": false, "gpu_uuid, remapped_rows.correctable\n": false, "pid,name\n1,bob\n": false, "pid\n1\n": false, "time,pid,cpu\n": false, "": false,
	} {
		if got := recognise(ingest.Head{Text: []byte(text)}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "1, 2\n"} {
		if _, _, err := of.Read(t, text); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

// TestRealQueries holds numbers read off the files by hand.
func TestRealQueries(t *testing.T) {
	for _, c := range []struct {
		name string
		rows int64
		bus  string
		want []string
	}{
		{"linux-h100-80gb-hbm3__590.48.01__load.csv", 3, "0000:00:09", []string{"GPU 0000:00:09: gpu_processes_count 3@08:12:53.5", "gpu_burn: proc_gpu_mem_bytes 16452157440@08:12:53.5"}},
		{"linux-h200-mig__590.48.01__load.csv", 3, "0000:83:00", []string{"GPU 0000:83:00: gpu_processes_count 3@22:22:27.377", "memhog: proc_gpu_mem_bytes 2300575744@22:22:27.377"}},
		{"linux-l40s__595.80__load.csv", 2, "0000:01:00", []string{"ffmpeg: proc_gpu_mem_bytes 564133888@08:33:53.65", "ffmpeg: proc_gpu_mem_bytes 714080256@08:33:53.65"}},
		{"linux-rtx-2080-super__595.71.05__idle.csv", 0, "", nil},
		{"linux-rtx-2080-super__595.71.05__load.csv", 2, "0000:0c:00", []string{"ffmpeg: proc_gpu_mem_bytes 387973120@10:26:49.98"}},
		{"linux-rtx-4080-super__595.71.05__idle.csv", 1, "0000:01:00", []string{"kwin_wayland: proc_gpu_mem_bytes 26214400@11:59:44.371"}},
		{"linux-rtx-4080-super__595.71.05__load.csv", 3, "0000:01:00", []string{"GPU 0000:01:00: gpu_processes_count 3@11:59:58.909"}},
		{"windows-rtx-2080-super__591.86__idle.csv", 10, "0000:0c:00", nil},
		{"windows-rtx-2080-super__591.86__load.csv", 12, "0000:0c:00", nil},
	} {
		tl, ps, err := of.Read(t, ingesttest.Real(t, "query-apps", c.name))
		bus := ""
		if len(tl.Devices) > 0 {
			bus = tl.Devices[0].Bus
		}
		if err != nil || len(ps) > 0 || tl.Sources[0].Rows != c.rows || bus != c.bus {
			t.Errorf("%s: %v, %v, %d rows, %+v", c.name, err, ps, tl.Sources[0].Rows, tl.Devices)
		}
		ingesttest.Has(t, tl, c.want...)
		if strings.HasPrefix(c.name, "windows") && len(ingesttest.Shown(tl)) > 0 {
			t.Errorf("%s: memory is not known, yet %v", c.name, ingesttest.Shown(tl))
		}
	}
}

func TestCutAnywhere(t *testing.T) {
	of.CutAnywhere(t, head+line("53.500", 1, 7, "/root/memhog", "2512 MiB")+line("54.500", 1, 7, "/root/memhog", "2513 MiB"))
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(head + line("53.500", 1, 7, "a", "3 MiB")))                                // plain
	f.Add([]byte("pid, pid, process_name, process_name\n1, 2, 3, 4, 5, 6\n"))               // fields twice, too many cells
	f.Add([]byte("gpu_uuid, pid, used_gpu_memory [%]\nGPU-, 9223372036854775807, 1e300\n")) // numbers out of range
	f.Add([]byte("gpu_uuid,retired_pages.address,retired_pages.cause\n,,\n"))               // empty cells
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
