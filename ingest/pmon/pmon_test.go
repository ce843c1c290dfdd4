package pmon

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
	"gpureport/ingest/timeline"
)

var of = ingesttest.Reader{Format: Format}

const head = "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n# Idx           #    C/G      %      %      %      %      %      %    name \n"

const headDT = "#Date       Time        gpu        pid   type     sm    fb    command\n#YYYYMMDD   HH:MM:SS    Idx          #    C/G      %    MB    name\n"

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"processes", head + "    0      11     C     99     10      -      -      -      -    gpu_burn       \n    0      12     C      -      -      1      2      3      4    a b.exe\n    0      11     C     98     10      -      -      -      -    gpu_burn\n    0      12     G      -      -      -      -      -      -    a b.exe\n",
			[]string{"GPU 0: gpu_processes_count 1@1s", "GPU 0: gpu_processes_count 2@0s", "gpu_burn: proc_mem_busy_frac 0.1@0s", "gpu_burn: proc_mem_busy_frac 0.1@1s",
				"gpu_burn: proc_sm_busy_frac 0.98@1s", "gpu_burn: proc_sm_busy_frac 0.99@0s", "gpu_burn: type=C", "a b.exe: proc_dec_busy_frac 0.02@0s",
				"a b.exe: proc_enc_busy_frac 0.01@0s", "a b.exe: proc_jpg_busy_frac 0.03@0s", "a b.exe: proc_ofa_busy_frac 0.04@0s", "a b.exe: type=C"}, "no-time@1*1"},
		{"nothing runs", head + "    0          -     -      -      -      -      -      -      -    -              \n    0          -     -      -      -      -      -      -      -    -              \n",
			[]string{"GPU 0: gpu_processes_count 0@0s", "GPU 0: gpu_processes_count 0@1s"}, "no-time@1*1"},
		{"two GPUs", head + "0 5 C 1 - - - - - a\n1 5 C 2 - - - - - a\n1 6 C+G 3 - - - - - b\n0 5 C 4 - - - - - a\n1 - - - - - - - - -\n",
			[]string{"GPU 0: gpu_processes_count 1@0s", "GPU 0: gpu_processes_count 1@1s", "a: proc_sm_busy_frac 0.01@0s", "a: proc_sm_busy_frac 0.04@1s", "a: type=C",
				"GPU 1: gpu_processes_count 0@1s", "GPU 1: gpu_processes_count 1@0s", "a: proc_sm_busy_frac 0.02@0s", "a: type=C", "b: proc_sm_busy_frac 0.03@0s", "b: type=C+G"}, "no-time@1*1"},
		{"header inside a cycle", head + "0 5 C 1 - - - - - a\n" + head + "0 6 C 2 - - - - - b\n0 5 C 3 - - - - - a\n",
			[]string{"GPU 0: gpu_processes_count 1@1s", "GPU 0: gpu_processes_count 2@0s", "a: proc_sm_busy_frac 0.01@0s", "a: proc_sm_busy_frac 0.03@1s", "a: type=C", "b: proc_sm_busy_frac 0.02@0s", "b: type=C"}, "no-time@1*1"},
		{"date, time and memory", headDT + " 20260714   08:12:53      0      11     C     99   300    x\n 20260714   08:12:53      0      12     C      1     2    y\n 20260714   08:12:54      0      11     C     98   301    x\n",
			[]string{"GPU 0: gpu_processes_count 1@08:12:54", "GPU 0: gpu_processes_count 2@08:12:53", "x: proc_gpu_mem_bytes 314572800@08:12:53", "x: proc_gpu_mem_bytes 315621376@08:12:54",
				"x: proc_sm_busy_frac 0.98@08:12:54", "x: proc_sm_busy_frac 0.99@08:12:53", "x: type=C", "y: proc_gpu_mem_bytes 2097152@08:12:53", "y: proc_sm_busy_frac 0.01@08:12:53", "y: type=C"}, ""},
		{"printed across a second's edge", headDT + "20260714 08:12:53 0 11 C 1 1 x\n20260714 08:12:54 0 12 C 2 1 y\n20260714 08:12:55 0 11 C 3 1 x\n20260714 08:12:55 0 12 C 4 1 y\n",
			[]string{"GPU 0: gpu_processes_count 2@08:12:53", "GPU 0: gpu_processes_count 2@08:12:55", "x: proc_gpu_mem_bytes 1048576@08:12:53", "x: proc_gpu_mem_bytes 1048576@08:12:55",
				"x: proc_sm_busy_frac 0.01@08:12:53", "x: proc_sm_busy_frac 0.03@08:12:55", "x: type=C", "y: proc_gpu_mem_bytes 1048576@08:12:53", "y: proc_gpu_mem_bytes 1048576@08:12:55",
				"y: proc_sm_busy_frac 0.02@08:12:53", "y: proc_sm_busy_frac 0.04@08:12:55", "y: type=C"}, ""},
		{"the first left, a later one came", headDT + "20260714 08:12:53 0 11 C 1 1 x\n20260714 08:12:56 0 12 C 2 1 y\n",
			[]string{"GPU 0: gpu_processes_count 1@08:12:53", "GPU 0: gpu_processes_count 1@08:12:56", "x: proc_gpu_mem_bytes 1048576@08:12:53", "x: proc_sm_busy_frac 0.01@08:12:53", "x: type=C",
				"y: proc_gpu_mem_bytes 1048576@08:12:56", "y: proc_sm_busy_frac 0.02@08:12:56", "y: type=C"}, ""},
		{"csv", "#gpu, pid, type, sm, command\n#Idx, #, C/G, %, name\n0, 11, C, 7, a, b\n", []string{"GPU 0: gpu_processes_count 1@0s", "a, b: proc_sm_busy_frac 0.07@0s", "a, b: type=C"}, "no-time@1*1"},
		{"an unknown column", "# gpu pid type npu command\n# Idx # C/G % name\n0 1 C 5 x\n", []string{"GPU 0: gpu_processes_count 1@0s", "x: pmon_npu 5@0s", "x: type=C"}, "no-time@1*1 unknown-column@1*1"},
		{"values that cannot be", head + "0 5 C 150 x - - - - a\n0 -7 C 1 - - - - - a\n", []string{"GPU 0: gpu_processes_count 1@0s", "a: type=C"}, "no-time@1*1 bad-number@3*2 stray-line@4*1"},
		{"short and stray rows", head + "0 5 C\nKilled\n0 5 C 1 - - - - - a\n", []string{"GPU 0: gpu_processes_count 1@0s", "a: proc_sm_busy_frac 0.01@0s", "a: type=C"}, "no-time@1*1 short-row@3*1 stray-line@4*1"},
		{"killed in the last cycle", head + "0 5 C 1 - - - - - a\n0 6 C 1 - - - - - b\n0 5 C 2 - - - - - a\n0 6 C 1 - - ", []string{"GPU 0: gpu_processes_count 2@0s", "a: proc_sm_busy_frac 0.01@0s", "a: proc_sm_busy_frac 0.02@1s", "a: type=C", "b: proc_sm_busy_frac 0.01@0s", "b: type=C"}, "no-time@1*1 unterminated-row@6*1"},
		{"a path is cut to its name", head + "0 5 C 1 - - - - - /home/bob/train\n", []string{"GPU 0: gpu_processes_count 1@0s", "train: proc_sm_busy_frac 0.01@0s", "train: type=C"}, "no-time@1*1"},
		{"bad times", headDT + "20261314 08:12:53 0 11 C 1 1 x\n20260714 8h 0 11 C 1 1 x\n20260714 08:12:53 0 11 C 1 1 x\n", []string{"GPU 0: gpu_processes_count 1@08:12:53", "x: proc_gpu_mem_bytes 1048576@08:12:53", "x: proc_sm_busy_frac 0.01@08:12:53", "x: type=C"}, "bad-time@3*2"},
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

func TestClock(t *testing.T) {
	tl, _, err := of.Read(t, headDT+"20260714 08:12:53 0 11 C 1 1 x\n")
	if err != nil {
		t.Fatal(err)
	}
	if k := tl.Clocks[0]; !k.Wall || k.Zoned || k.Step != time.Second || k.How != timeline.Unplaced {
		t.Errorf("%+v", k)
	}
	tl, _, err = of.Read(t, "#Time gpu pid type sm command\n#HH:MM:SS Idx # C/G % name\n23:59:59 0 1 C 1 x\n00:00:00 0 1 C 2 x\n")
	if err != nil {
		t.Fatal(err)
	}
	if k := tl.Clocks[0]; !strings.HasPrefix(k.Why, ingest.DateUnknown) {
		t.Errorf("%+v", k)
	}
	ingesttest.Has(t, tl, "x: proc_sm_busy_frac 0.01@23h59m59s", "x: proc_sm_busy_frac 0.02@24h0m0s")
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", head, "0 5 C 1 - - - - - a\n"} {
		if _, _, err := of.Read(t, text); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

// TestRealLogs holds numbers read off the files by hand: processes, rows, and readings of one process each.
func TestRealLogs(t *testing.T) {
	for _, c := range []struct {
		name   string
		rows   int64
		tracks int // of processes
		want   []string
	}{
		{"linux-h100-80gb-hbm3__590.48.01__idle.txt", 5, 0, []string{"GPU 0: gpu_processes_count 0@0s", "GPU 0: gpu_processes_count 0@4s"}},
		{"linux-h100-80gb-hbm3__590.48.01__load.txt", 15, 3, []string{"GPU 0: gpu_processes_count 3@4s", "gpu_burn: proc_sm_busy_frac 0.99@0s", "gpu_burn: proc_mem_busy_frac 0.1@4s", "memhog: type=C"}},
		{"linux-h200-mig__590.48.01__load.txt", 15, 3, []string{"GPU 0: gpu_processes_count 3@0s"}},
		{"linux-l40s__595.80__load.txt", 10, 2, []string{"GPU 0: gpu_processes_count 2@0s", "ffmpeg: proc_enc_busy_frac 0.49@3s", "ffmpeg: proc_sm_busy_frac 0@3s"}},
		{"linux-rtx-2080-super__595.71.05__idle.txt", 10, 2, []string{"GPU 0: gpu_processes_count 0@0s", "gnome-shell: type=G"}},
		{"linux-rtx-2080-super__595.71.05__load.txt", 20, 4, []string{"GPU 0: gpu_processes_count 2@4s", "ffmpeg: proc_sm_busy_frac 0.08@1s", "ffmpeg: proc_enc_busy_frac 0.99@2s"}},
		{"linux-rtx-4080-super__595.71.05__idle.txt", 25, 5, []string{"GPU 0: gpu_processes_count 0@4s", "xwaylandvideobr: type=G"}},
		{"linux-rtx-4080-super__595.71.05__load.txt", 35, 7, []string{"kwin_wayland: proc_dec_busy_frac 0@0s", "ffmpeg: proc_enc_busy_frac 0.54@0s"}},
		{"windows-rtx-2080-super__591.86__idle.txt", 50, 10, []string{"NVIDIA Share.exe: type=C+G", "NZXT CAM.exe: type=C+G"}},
		{"windows-rtx-2080-super__591.86__load.txt", 60, 12, []string{"GPU 0: gpu_processes_count 2@0s", "ffmpeg.exe: proc_enc_busy_frac 0.49@0s"}},
	} {
		tl, ps, err := of.Read(t, ingesttest.Real(t, "pmon", c.name))
		if err != nil || of.Codes(ps) != "no-time@1*1" || tl.Sources[0].Rows != c.rows || len(tl.Tracks) != 1+c.tracks {
			t.Errorf("%s: %v, %s, %d rows, %d tracks", c.name, err, of.Codes(ps), tl.Sources[0].Rows, len(tl.Tracks))
		}
		ingesttest.Has(t, tl, c.want...)
	}
}

func TestCutAnywhere(t *testing.T) {
	of.CutAnywhere(t, head+"    0      11     C     99     10      -      -      -      -    gpu_burn       \n    0      12     C      -      -      1      2      3      4    a b.exe\n    1      11     C     98     10      -      -      -      -    gpu_burn\n")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(head + "0 5 C 1 - - - - - a\n"))                            // plain
	f.Add([]byte(headDT + "20260714 08:12:53 0 5 C 1 1 a\n"))                // with times
	f.Add([]byte("# gpu pid type\n0 1 C\n0 - -\n"))                          // no command
	f.Add([]byte("# gpu pid type pid gpu command command\n0 1 C 2 3 a b\n")) // names twice
	f.Add([]byte("# gpu pid type sm\n4095 9223372036854775807 C 1e300\n"))   // numbers out of range
	f.Add([]byte(headDT + "00000000 99:99:99 0 5 C 1 1 a\n"))                // no times
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
