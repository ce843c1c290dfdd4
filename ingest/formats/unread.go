package formats

import (
	"bytes"
	"regexp"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/flightrec"
	"gpureport/ingest/nsys"
)

// The commands whose output is read.
const (
	recordDmon  = "nvidia-smi dmon -s pucvmet -d 1 -o DT -f dmon.log"
	recordQuery = "nvidia-smi --query-gpu=timestamp,index,uuid,pci.bus_id,name,pstate,utilization.gpu,utilization.memory,power.draw,enforced.power.limit,power.default_limit," +
		"clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,temperature.memory,clocks_event_reasons.active,pcie.link.gen.gpucurrent,pcie.link.gen.max," +
		"pcie.link.width.current,pcie.link.width.max,memory.used --format=csv,nounits -lms 500 -f query.csv"
	recordTrace = "on every rank: prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA], " +
		"schedule=torch.profiler.schedule(wait=10, warmup=3, active=24, repeat=1), record_shapes=True, " +
		`on_trace_ready=torch.profiler.tensorboard_trace_handler("trace"), ` +
		"experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)); prof.start(), then prof.step() after each step and prof.stop()"
)

// exportNsys turns the report that nsys keeps beside its other exports into one that is read.
const exportNsys = "nsys export --type sqlite -o run.sqlite run.nsys-rep"

func unread(name, doc, convert string, recognise func(h ingest.Head) bool) ingest.Format {
	return ingest.Format{Name: name, Doc: doc, Convert: convert, Recognise: recognise}
}

// Other exports of Nsight Systems, and binary files.
var (
	nvprof = unread("nvprof", "a database of nvprof", recordTrace, func(h ingest.Head) bool {
		return isSQLite(h) && !isNsys(h) && has(h.Raw, "CUPTI_ACTIVITY_KIND_")
	})
	sqlite = unread("sqlite", "an SQLite database that is not from Nsight Systems", recordTrace, func(h ingest.Head) bool {
		return isSQLite(h) && !isNsys(h) && !has(h.Raw, "CUPTI_ACTIVITY_KIND_")
	})
	nsysRep = unread("nsys-rep", "an Nsight Systems report", exportNsys, func(h ingest.Head) bool {
		return bytes.HasPrefix(h.Raw, []byte("NVIDIA Tegra Profiler Report"))
	})
	ncuRep = unread("ncu-rep", "a report of Nsight Compute", "ncu --import run.ncu-rep --csv --page details > ncu.csv", func(h ingest.Head) bool {
		return bytes.HasPrefix(h.Raw, []byte("NVR\x00"))
	})
	nsysJSON = unread("nsys-json", "an Nsight Systems JSON export", exportNsys, func(h ingest.Head) bool {
		t := skipSpace(h.Text)
		line, _, _ := bytes.Cut(t, []byte("\n"))
		if bytes.HasPrefix(t, []byte(`{"data":[`)) || bytes.HasPrefix(t, []byte(`{"data": [`)) {
			return has(t, "CudaEvent") || has(t, "TraceProcessEvent") || has(t, "NvtxEvent") || has(t, `"Type":`)
		}
		return len(t) > 0 && t[0] == '{' && has(line, `"Type":`) && (has(t, "CudaEvent") || has(t, "TraceProcessEvent") || has(t, "NvtxEvent"))
	})
	hdf5 = unread("nsys-hdf", "an HDF5 file, as nsys export writes one", exportNsys, func(h ingest.Head) bool {
		return bytes.HasPrefix(h.Raw, []byte("\x89HDF\r\n\x1a\n"))
	})
	parquet = unread("parquet", "a Parquet file, as nsys recipes write them", exportNsys, func(h ingest.Head) bool {
		return bytes.HasPrefix(h.Raw, []byte("PAR1"))
	})
	arrow = unread("arrow", "an Arrow file, as nsys export writes one", exportNsys, func(h ingest.Head) bool {
		return bytes.HasPrefix(h.Raw, []byte("ARROW1"))
	})
	memorySnapshot = unread("torch-memory-snapshot", "a pickle, such as a PyTorch memory snapshot", recordTrace, func(h ingest.Head) bool {
		return len(h.Raw) > 2 && h.Raw[0] == 0x80 && h.Raw[1] >= 2 && h.Raw[1] <= 5 && !flightrec.IsPickle(h)
	})
)

// JSON that is no PyTorch Profiler trace.
var (
	executionTrace = unread("torch-execution-trace", "a PyTorch execution trace: a graph without times", recordTrace, func(h ingest.Head) bool {
		t := compact(h.Text, 400)
		return bytes.HasPrefix(t, []byte(`{"schema":"1.`)) && has(h.Text, `"nodes"`)
	})
	ascendTrace = unread("ascend-trace", "a trace of Ascend NPUs", recordTrace, func(h ingest.Head) bool {
		t := skipSpace(h.Text)
		// torch_npu writes stamps as strings, in a bare array.
		return len(t) > 0 && t[0] == '[' && has(t[:min(len(t), 4096)], `"ph"`) && stringStamp.Match(t[:min(len(t), 16<<10)])
	})
	tensorflowTrace = unread("tensorflow-trace", "a trace of the TensorFlow or JAX profiler", recordTrace, func(h ingest.Head) bool {
		t := skipSpace(h.Text)
		return len(t) > 0 && t[0] == '{' && has(t, `"displayTimeUnit"`) && has(t, `"traceEvents"`) && !has(t, `"deviceProperties"`) && !has(t, `"schemaVersion"`) &&
			tfProcess.Match(t)
	})
	ownReport = unread("gpureport-report", "a report of gpureport itself", "gpureport analyze on the files it was made from", func(h ingest.Head) bool {
		return bytes.HasPrefix(compact(h.Text, 100), []byte(`{"schema":"gpureport/`))
	})
	rocmSMI = unread("rocm-smi", "a log of rocm-smi or amd-smi: AMD GPUs, whose samples are not read", recordTrace, func(h ingest.Head) bool {
		t := compact(h.Text, 400)
		if bytes.HasPrefix(t, []byte(`{"card`)) && has(t, `":{"`) || bytes.HasPrefix(t, []byte(`[{"gpu":`)) || bytes.HasPrefix(t, []byte(`{"gpu_data":[{"gpu":`)) {
			return true
		}
		for i, line := range firstLines(h.Text, 4) {
			if strings.HasPrefix(line, "device,") && rocmColumn.MatchString(line) || strings.Contains(line, "ROCm System Management Interface") ||
				amdColumns.MatchString(line) || i == 0 && line == "GPU: 0" && (has(h.Text, "GFX_ACTIVITY") || has(h.Text, "SOCKET_POWER") || has(h.Text, "MARKET_NAME")) {
				return true
			}
		}
		return false
	})
)

// rocmColumn is of a table of rocm-smi --csv, amdColumns the begin of one of amd-smi --csv.
var (
	rocmColumn = regexp.MustCompile(`,(GPU use|GPU Memory Allocated|Temperature \(Sensor|sclk clock|Average Graphics Package Power|Current Socket Graphics Package Power|Device Name|Card [Ss]eries)`)
	amdColumns = regexp.MustCompile(`^(timestamp,)?gpu,(gfx_|gfx,|umc_|socket_power|asic_|power_usage|hotspot_|edge|usage|xcp)`)
)

var (
	stringStamp = regexp.MustCompile(`"ts": ?"\d+(\.\d+)?"`)
	tfProcess   = regexp.MustCompile(`/(device|host):(GPU|CPU|TPU)|/job:|"/(host|device):|TensorFlow|tf_op|XLA |Horovod|StepMarker`)
)

// What other commands of the NVIDIA tools print.
var (
	otherDmon = unread("other-dmon", "a dmon look-alike of another vendor", recordTrace, func(h ingest.Head) bool {
		cols, ok := dmonHeader(h)
		return ok && !contains(cols, "pid") && (contains(cols, "ppu") || contains(cols, "jpu"))
	})
	smiStats = unread("smi-stats", "nvidia-smi stats", recordQuery, func(h ingest.Head) bool {
		lines := firstLines(h.Text, 3)
		return len(lines) > 1 && statsRow.MatchString(lines[0]) && statsRow.MatchString(lines[1])
	})
	dcgmReport = unread("dcgmi-report", "what dcgmi health, diag or discovery prints", recordQuery, func(h ingest.Head) bool {
		lines := firstLines(h.Text, 6)
		for i, line := range lines {
			if line == "Successfully ran diagnostic for group." || strings.HasPrefix(line, "| Health Monitor Report") || strings.HasPrefix(line, "| Diagnostic ") ||
				i < 2 && strings.HasSuffix(line, "GPU found.") || i < 2 && strings.HasSuffix(line, "GPUs found.") {
				return true
			}
		}
		return false
	})
	smiDaemon = unread("smi-daemon", "a log of nvidia-smi daemon", "nvidia-smi replay -f NAME gives its text; "+recordQuery, func(h ingest.Head) bool {
		return strings.HasPrefix(h.Name, "nvstats-") && len(h.Text) == 0
	})
	// The columns of a log without header cannot be known: it stays unknown, with advice.
	smiNoHeader = unread(ingest.Unknown, "nvidia-smi output without its header, so that nobody knows its columns", recordQuery, func(h ingest.Head) bool {
		lines := firstLines(h.Text, 20)
		if len(lines) < 2 {
			return false
		}
		for _, line := range lines[:len(lines)-1] {
			if !headless.MatchString(line) && !bareNumber.MatchString(line) && !dmonRow.MatchString(line) {
				return false
			}
		}
		return true
	})
	packed = unread("packed", "an archive that is not opened here", "unpack it (xz -dk, 7z x, unrar x, lz4 -d) and give the folder", func(h ingest.Head) bool {
		for _, magic := range []string{"\xfd7zXZ\x00", "7z\xbc\xaf\x27\x1c", "Rar!\x1a\x07", "\x04\x22\x4d\x18"} {
			if bytes.HasPrefix(h.Raw, []byte(magic)) {
				return true
			}
		}
		return false
	})
)

var (
	statsRow   = regexp.MustCompile(`^\d+, *[A-Za-z]+, *\d{16}, *[\d.]+$`)
	headless   = regexp.MustCompile(`^(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}(, .*)?|\d+, .*(%|MiB|W|MHz|GPU-[0-9a-f]|P\d).*|\d+(\.\d+)? (%|MiB|W|MHz)(, .*)?)$`)
	bareNumber = regexp.MustCompile(`^-?\d+([.,]\d+)?( ?[%WC]|, *-?\d+(\.\d+)?)*$`)
	dmonRow    = regexp.MustCompile(`^(\d{8}[ ,]+)?(\d\d:\d\d:\d\d[ ,]+)?\d{1,2}([ ,]+(\d+|-)){8,}[ ,]*$`)
)

func isSQLite(h ingest.Head) bool { return bytes.HasPrefix(h.Raw, []byte("SQLite format 3\x00")) }

func isNsys(h ingest.Head) bool { return nsys.Format.Recognise(h) }

func has(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }

func contains(cells []string, s string) bool {
	for _, c := range cells {
		if c == s {
			return true
		}
	}
	return false
}

func skipSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// compact drops blanks from the first n bytes, so that a key and its value stand together.
func compact(b []byte, n int) []byte {
	out := make([]byte, 0, n)
	for _, c := range b[:min(len(b), n)] {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			out = append(out, c)
		}
	}
	return out
}

// firstLines gives the first n lines that are not blank, trimmed.
func firstLines(b []byte, n int) []string {
	var out []string
	for line := range bytes.Lines(b) {
		if s := string(bytes.TrimSpace(line)); s != "" {
			if out = append(out, s); len(out) == n {
				break
			}
		}
	}
	return out
}

// dmonHeader gives the column names of a dmon-like header among the first lines.
func dmonHeader(h ingest.Head) ([]string, bool) {
	for _, line := range firstLines(h.Text, 20) {
		rest, ok := strings.CutPrefix(line, "#")
		if !ok {
			continue
		}
		cols := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
		if len(cols) > 2 && (cols[0] == "gpu" || cols[0] == "ppu" || contains(cols[:3], "gpu") || contains(cols[:3], "ppu")) {
			return cols, true
		}
	}
	return nil, false
}
