package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// dataDir is the folder of real files; the test is skipped aloud without it.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	return dir
}

// formatOf says what the files of each folder are; single files win over their folder.
var formatOf = map[string]string{
	"dcgm": "dcgmi-dmon", "dmon": "dmon", "kineto": "torchprof", "kineto-multirank": "torchprof", "kineto-synthetic": "torchprof",
	"nsys-parquet": "parquet", "nsys-sqlite": "nsys", "nsys-stats": "nsys-stats", "nvlink": "nvlink", "pmon": "pmon", "prometheus": "prometheus",
	"query-apps": "smi-apps", "query-gpu": "smiquery", "rocm-smi": "rocm-smi", "smi-q": "smi-q", "smi-table": "smi-table", "smi-xml": "smi-xml",
	"topo": "topo", "xid": "kernel-log",

	"not-kineto/ascend_npu_trace_view.json.gz": "ascend-trace", "not-kineto/pytorch_execution_trace.json": "torch-execution-trace",
	"not-kineto/tensorflow_profiler.trace.json.gz": "tensorflow-trace",
	"derived-odd/decimal_comma.csv":                "smiquery", "derived-odd/repeated_header.csv": "smiquery", "derived-odd/utf16le_bom_crlf.csv": "smiquery",
	"derived-odd/dmon_columns_change_midway.txt": "dmon", "derived-odd/nan_and_negative_dur.json": "torchprof",
	"derived-odd/truncated_gzip.json.gz": "torchprof", "derived-odd/truncated_mid_event.json": "torchprof",
	"odd/bare_power_numbers.csv": "unknown", "odd/linux-l40s__595.80__whole_capture.txt": "smi-capture",
}

func TestEveryFileOfTheManifest(t *testing.T) {
	dir := dataDir(t)
	s, err := ingest.Open([]string{dir}, List, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	looked := map[string]bool{}
	for i, f := range s.Files {
		if i > 0 && s.Files[i-1].Source.Path >= f.Source.Path {
			t.Errorf("%s comes after %s", f.Source.Path, s.Files[i-1].Source.Path)
		}
		if strings.Contains(f.Source.Path, "!/") {
			continue // ingest/bugreport looks at parts
		}
		top, _, _ := strings.Cut(f.Source.Path, "/")
		want, ok := formatOf[f.Source.Path]
		if ok {
			looked[f.Source.Path] = true
		} else if want, ok = formatOf[top]; ok {
			looked[top] = true
		} else {
			if top != "LICENSES" && !strings.HasSuffix(top, ".md") {
				t.Errorf("%s: nobody says what it is", f.Source.Path)
			}
			want = ingest.Unknown
		}
		if f.Source.Format != want {
			t.Errorf("%s: %s, want %s", f.Source.Path, f.Source.Format, want)
		}
		if f.Format != nil && f.Format.Read == nil && !strings.Contains(f.Source.Note, f.Format.Convert) {
			t.Errorf("%s: note %q lacks the command", f.Source.Path, f.Source.Note)
		}
		if f.Source.Format == ingest.Unknown && f.Source.Head == "" {
			t.Errorf("%s: no head", f.Source.Path)
		}
	}
	for k := range formatOf {
		if !looked[k] {
			t.Errorf("%s: not met", k)
		}
	}
}

func TestReadRealLogs(t *testing.T) {
	dir := dataDir(t)
	var paths []string
	for _, d := range []string{"dmon", "query-gpu", "derived-odd", "odd", "kineto-synthetic", "kineto-multirank/dlrm8", "topo"} {
		paths = append(paths, filepath.Join(dir, d))
	}
	s, err := ingest.Open(paths, List, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	base, err := s.ReadBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, i := range s.Bulk() {
		wg.Go(func() {
			tl, err := s.ReadBulk(t.Context(), i)
			if err != nil {
				t.Error(err)
				return
			}
			if err := tl.Validate(); err != nil {
				t.Errorf("%s: %v", s.Files[i].Source.Path, err)
			}
		})
	}
	wg.Wait()
	s.Settle(base)
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
	if len(base.Sources) != len(s.Files) || len(base.Clocks) != len(s.Files) {
		t.Fatalf("%d sources, %d clocks for %d files", len(base.Sources), len(base.Clocks), len(s.Files))
	}
	for i, src := range base.Sources {
		f := s.Files[i]
		if src.SHA256 == "" || src.Bytes == 0 {
			t.Errorf("%s: hash %q, %d bytes", src.Path, src.SHA256, src.Bytes)
		}
		windows := src.Path == "windows-rtx-2080-super__591.86__capabilities.txt" // topo has no -m there
		if read := f.Format != nil && f.Format.Read != nil && !windows; read != src.Used && !strings.Contains(src.Path, "!/") {
			t.Errorf("%s (%s): used %v", src.Path, src.Format, src.Used)
		}
		for _, d := range []string{"dmon", "query-gpu", "derived-odd", "odd", "kineto-synthetic", "kineto-multirank/dlrm8", "topo"} {
			if b, err := os.ReadFile(filepath.Join(dir, d, filepath.FromSlash(src.Path))); err == nil {
				if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != src.SHA256 || int64(len(b)) != src.Bytes {
					t.Errorf("%s: hash or size of other bytes", src.Path)
				}
			}
		}
	}
	want := map[string]int64{"hopper_x8_dmon_d5.txt": 24, "hopper_dmon_put.txt": 20, "v100s_training.csv": 107, "utf16le_bom_crlf.csv": 107,
		"repeated_header.csv": 39, "two_gpus_mixed.txt": 2, "asr_load_pcie_gen.csv": 652, "decimal_comma.csv": 119}
	for _, src := range base.Sources {
		if n, ok := want[src.Path]; ok && src.Rows != n {
			t.Errorf("%s: %d rows, want %d", src.Path, src.Rows, n)
		}
	}
	if p := find(base.Problems, "hopper_dmon_put.txt", "dmon/impossible-value"); p == nil || p.Count != 7 || p.Row != 6 {
		t.Errorf("impossible PCIe values: %+v", p)
	}
	if p := find(base.Problems, "linux-h200-mig__590.48.01__load.txt", "dmon/hidden-utilisation"); p == nil {
		t.Error("MIG: nothing said about hidden utilisation")
	}
	if p := find(base.Problems, "decimal_comma.csv", "smiquery/decimal-comma"); p == nil || p.Count != 119 {
		t.Errorf("decimal commas: %+v", p)
	}
}

func find(ps []timeline.Problem, path, code string) *timeline.Problem {
	for i := range ps {
		if ps[i].Code == code && ps[i].Path == path {
			return &ps[i]
		}
	}
	return nil
}

// TestCommands: a format that is not read names the command whose output is, and that output is recognised.
func TestCommands(t *testing.T) {
	names := map[string]bool{}
	for _, f := range List {
		if f.Name == "" || f.Doc == "" || f.Recognise == nil {
			t.Errorf("%q: name, doc and recogniser are required", f.Name)
		}
		if (f.Read == nil) != (f.Convert != "") {
			t.Errorf("%s: either it is read or it names a command", f.Name)
		}
		if names[f.Name] {
			t.Errorf("%s: twice in the list", f.Name)
		}
		names[f.Name] = true
	}
	for _, c := range []struct{ say, text, want string }{
		{recordDmon, "#Date       Time        gpu    pwr  gtemp\n#YYYYMMDD   HH:MM:SS    Idx      W      C\n 20260714   08:12:53      0    631     60\n", "dmon"},
		{recordQuery, "timestamp, index, uuid, name, pstate, utilization.gpu [%], utilization.memory [%], power.draw [W], enforced.power.limit [W], power.default_limit [W], clocks.current.sm [MHz], clocks.max.sm [MHz], clocks.current.memory [MHz], temperature.gpu, temperature.memory, clocks_event_reasons.active, pcie.link.gen.gpucurrent, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max, memory.used [MiB]\n", "smiquery"},
	} {
		if got := recogniseText(t, "x.log", c.text); got != c.want {
			t.Errorf("output of %s: %s, want %s", c.say, got, c.want)
		}
	}
}

func recogniseText(t *testing.T, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ingest.Open([]string{p}, List, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Files[0].Source.Format
}

func TestAdviceForHeadlessLogs(t *testing.T) {
	for _, text := range []string{"68.52\n68.43\n68.61\n", "2026/07/14 08:12:53.123, 0, 12 %\n2026/07/14 08:12:54.123, 0, 13 %\n", " 20260714 08:12:53 0 63 41 - 99 45 0 0 2619 1980\n 20260714 08:12:54 0 63 41 - 99 45 0 0 2619 1980\n"} {
		p := filepath.Join(t.TempDir(), "x.log")
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ingest.Open([]string{p}, List, ingest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if src := s.Files[0].Source; src.Format != ingest.Unknown || !strings.Contains(src.Note, "without its header") || !strings.Contains(src.Note, recordQuery) || src.Head == "" {
			t.Errorf("%q: %+v", text, src)
		}
		_ = s.Close()
	}
}

func TestRecognise(t *testing.T) {
	for _, c := range []struct{ what, text, want string }{
		{"empty", "", "unknown"},
		{"prose", "hello\nworld\n", "unknown"},
		{"csv dmon", "#gpu, pwr, sm\n#Idx, W, %\n0, 50, 3\n", "dmon"},
		{"dmon after a shell message", "nohup: ignoring input\n# gpu pwr\n# Idx W\n0 50\n", "dmon"},
		{"dmon under kubectl logs", "2026-07-14T08:12:53.1Z # gpu pwr\n2026-07-14T08:12:53.1Z # Idx W\n2026-07-14T08:12:54.1Z 0 50\n", "dmon"},
		{"dmon under srun --label", "3: # gpu pwr\n3: # Idx W\n3:     0 50\n", "dmon"},
		{"dmon with a driver message", "# gpu pwr\n# Idx W\n0 50\nNVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.\n", "dmon"},
		{"pmon", "# gpu pid type sm mem enc dec command\n# Idx # C/G % % % % name\n 0 - - - - - - -\n", "pmon"},
		{"pmon with date", "#Date Time gpu pid type sm command\n#YYYYMMDD HH:MM:SS Idx # C/G % name\n", "pmon"},
		{"look-alike", "# ppu pwr sm\n# Idx W %\n0 1 2\n", "other-dmon"},
		{"look-alike column", "# gpu pwr jpu\n# Idx W %\n0 1 2\n", "other-dmon"},
		{"query without units in cells", "timestamp, index, utilization.gpu [%]\n2026/07/14 08:12:53.123, 0, 12\n", "smiquery"},
		{"query of one field", "utilization.gpu [%]\n3 %\n", "smiquery"},
		{"old spellings", "index, clocks_throttle_reasons.active, gpu_bus_id\n0, 0x0000000000000004, 00000000:17:00.0\n", "smiquery"},
		{"no devices", "No devices were found\n", "smiquery"},
		{"driver gone", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n", "smiquery"},
		{"another table with an index", "index,name\n1,bob\n", "unknown"},
		{"loss log", "step,loss,lr\n1,2.5,0.1\n", "unknown"},
		{"noheader", "2026/07/14 08:12:53.123, 0, 12 %, 30 %\n2026/07/14 08:12:54.123, 0, 13 %, 30 %\n", "unknown"},
		{"dmon noheader", "0, 63, 41, -, 99, 45, 0, 0, 0, 0, 2619, 1980\n1, 63, 41, -, 99, 45, 0, 0, 0, 0, 2619, 1980\n", "unknown"},
		{"compute apps", "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n", "smi-apps"},
		{"apps without uuid", "pid, process_name, used_gpu_memory [MiB]\n1, python, 3 MiB\n", "smi-apps"},
		{"retired pages", "gpu_uuid, retired_pages.address, retired_pages.cause\n", "smi-apps"},
		{"stats", "0, pwrDraw, 1720944773123456, 63\n0, gpuUtil, 1720944773123456, 3\n", "smi-stats"},
		{"dcgmi dmon", "#Entity   GRACT\nID\nGPU 0     0.5\n", "dcgmi-dmon"},
		{"dcgmi health", "+-----+-----+\n| Health Monitor Report   |\n+=====+=====+\n| Overall Health | Healthy |\n", "dcgmi-report"},
		{"dcgmi diag", "Successfully ran diagnostic for group.\n+-----+-----+\n| Diagnostic | Result |\n", "dcgmi-report"},
		{"bug report", "\n____________________________________________\n\nStart of NVIDIA bug report log file.  Please include\n", "nvidia-bug-report"},
		{"mpstat", "Linux 6.1.0 (n1) \t07/14/26 \t_x86_64_\t(2 CPU)\n\n08:12:53     CPU    %usr   %idle\n", "sysstat"},
		{"vmstat", "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n", "sysstat"},
		{"NCCL", "step 1 loss 2.3\n[rank1]: n1:4:9 [1] NCCL INFO Using network IB\n", "nccl-log"},
		{"lscpu", "Architecture:  x86_64\nCPU(s):  2\n", "lscpu"},
		{"numactl", "available: 1 nodes (0)\nnode 0 cpus: 0 1\n", "numactl"},
		{"node_exporter", "# HELP go_gc x\n# TYPE go_gc gauge\ngo_gc 1\nnode_load1 2\n", "prometheus"},
		{"dmesg without the driver", "[    0.000000] Linux version 6.1.0\n[    1.200000] pci 0000:00:00.0: x\n", "kernel-log"},
		{"list", "GPU 0: NVIDIA H100 (UUID: GPU-1)\nGPU 1: NVIDIA H100 (UUID: GPU-2)\n", "smi-list"},
		{"list of MIG", "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n", "smi-list"},
		{"nvlink", "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n", "nvlink"},
		{"rocm-smi --csv", "device,GPU use (%),GFX Activity\ncard0,98,1\n", "rocm-smi"},
		{"rocm-smi's table", "\n============================ ROCm System Management Interface ============================\n", "rocm-smi"},
		{"amd-smi metric --json", "[\n    {\n        \"gpu\": 0,\n        \"usage\": {}\n", "rocm-smi"},
		{"amd-smi monitor --csv", "timestamp,gpu,power_usage,hotspot_temperature\n1720944773,0,98,61\n", "rocm-smi"},
		{"amd-smi metric", "GPU: 0\n    USAGE:\n        GFX_ACTIVITY: 98 %\n", "rocm-smi"},
		{"a table of devices", "device,name\ncard0,x\n", "unknown"},
		{"our report", "{\n \"schema\": \"gpureport/1\", \"tool\": {}}", "gpureport-report"},
		{"our capture", `{"k":"hdr","schema":"gpureport.record","v":1}` + "\n", "gpureport-record"},
		{"journal", `{"__REALTIME_TIMESTAMP":"1","_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:05:00): 79"}` + "\n", "kernel-log"},
		{"syslog", "Jul 14 08:12:53 host kernel: NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.\n", "kernel-log"},
		{"nsys jsonlines", `{"Type":79,"CudaEvent":{"startNs":"1"}}` + "\n", "nsys-json"},
		{"nsys csv", "Time (%),Total Time (ns),Instances,Name\n", "nsys-stats"},
		{"nsys old csv", "Time(%),Total Time (ns),Calls\n", "nsys-stats"},
		{"nsys trace csv", "Start (ns),Duration (ns),CorrId,GrdX\n", "nsys-stats"},
		{"flight recorder", "{\"version\": \"2.10\", \"pg_status\": {}, \"entries\": []}\n", "flight-recorder"},
		{"pickle of the flight recorder", "\x80\x02}(X\x07entriesX\x09pg_config", "flight-recorder-pickle"},
		{"pickle", "\x80\x04\x95abc", "torch-memory-snapshot"},
		{"hdf", "\x89HDF\r\n\x1a\n", "nsys-hdf"},
		{"arrow", "ARROW1\x00\x00", "arrow"},
		{"rep", "NVIDIA Tegra Profiler Report 2025@6@1\x00", "nsys-rep"},
		{"plain sqlite", "SQLite format 3\x00" + strings.Repeat("\x00", 100) + "CREATE TABLE t(a)", "sqlite"},
		{"nvprof", "SQLite format 3\x00" + strings.Repeat("\x00", 100) + "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(a) CREATE TABLE Version(a)", "nvprof"},
		{"xz", "\xfd7zXZ\x00\x00", "packed"},
	} {
		if got := recogniseText(t, "x.log", c.text); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
