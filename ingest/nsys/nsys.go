// Package nsys reads the SQLite exports of Nsight Systems (nsys export --type sqlite, nsys profile --export sqlite).
//
// Versions seen: exports of 2020 to 2026 (schema unnumbered to 3.27). Tables and columns are found by name; a table that is not there
// was not recorded, as exports leave out empty tables. Recognised by the names of its tables in the schema.
//
// Clock: stamps are ns since the start of the session, whose UTC instant is in TARGET_INFO_SESSION_START_TIME; grain 1 ns. Exports of
// 2020 lack it and cannot be placed. The zone of the recording machine is localTime - utcTime, kept as tz_offset_s of the processes.
//
// Names: calls lose the version that nsys appends (cudaLaunchKernel_v7000), kernels have their demangled name, copies and waits the
// words of the PyTorch profiler, and so do the operators that emit_nvtx writes ("aten::mm, seq = 5, op_id = 12" is aten::mm); other
// ranges keep their text. A graph launch that was traced as a whole is one kernel, "[CUDA graph 3]". Calls are joined with what they
// launched by correlation number and process. Row numbers count through all tables read; Source.Tables says which table one is of.
//
// Environment, command lines and the output of programs, which these files hold too, are never read beyond a few named keys.
//
// What it cannot tell: the rank of a process, unless a communicator, the variables RANK, LOCAL_RANK and WORLD_SIZE of a capture of one
// rank, or the file's name says it.
//
// Host side, of the processes that drive a GPU: blocking calls of the system (OSRT_API) are waits of their thread; context switches become
// the times in which a thread was off the CPU, from a switch out to its next switch in, named by the state the file gives, where it gives
// one (Linux exports mostly say Unknown); CPU samples are marks with the innermost frame whose module is known. Of both only names of
// functions and base names of modules are kept. Allocator events become the level of the device memory that the process holds.
//
// Counters of GPUs (GPU_METRICS) and of network ports (NET_NIC_METRIC) become means over windows of 1 ms and 10 ms, wider in long captures.
// Shares are of the hardware's maximum; rates of ports come a millisecond. Which GPU a number of the counters means: metricDevice.
//
// Limit: of more than a million CPU samples every second, fourth ... one is kept.
package nsys

import (
	"bytes"
	"context"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// Format is Nsight Systems SQLite exports.
var Format = ingest.Format{
	Name:      "nsys",
	Doc:       "Nsight Systems SQLite export: nsys export --type sqlite",
	Recognise: recognise,
	Read: func(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
		return read(ctx, in, b)
	},
	Bulk: true,
	Asks: []string{"step", "idle", "data", "kernel", "comm"},
}

var (
	magic = []byte("SQLite format 3\x00")
	// Words of the schema that no other maker's files have.
	own  = [][]byte{[]byte("TARGET_INFO_"), []byte("META_DATA_EXPORT"), []byte("NVTX_EVENTS"), []byte("ProcessStreams"), []byte("ENUM_NSYS_"), []byte("globalTid"), []byte("globalPid")}
	like = [][]byte{[]byte("CUPTI_ACTIVITY_KIND_"), []byte("ANALYSIS_")}
)

const interiorTable = 5 // first byte of a b-tree page whose rows lie on other pages

func recognise(h ingest.Head) bool {
	if !bytes.HasPrefix(h.Raw, magic) || len(h.Raw) < 108 {
		return false
	}
	for _, w := range own {
		if bytes.Contains(h.Raw, w) {
			return true
		}
	}
	if bytes.Contains(h.Raw, []byte("StringIds")) {
		for _, w := range like {
			if bytes.Contains(h.Raw, w) {
				return true
			}
		}
	}
	// The schema of a big export may lie wholly behind the head. The reader will see.
	return h.Raw[100] == interiorTable && !bytes.Contains(h.Raw, []byte("CREATE TABLE")) && len(h.Raw) >= ingest.HeadSize
}
