// Package nsysstats reads the tables that nsys stats prints or writes (--format csv, tsv or column): summaries and traces, several in one
// file, with the lines it logs between them. Versions seen: reports of 2020 to 2026, under old names (gpukernsum) and new ones
// (cuda_gpu_kern_sum); which report a table is follows from its header, and where that fits two, from its title, the file's name or its rows.
//
// Traces (cuda_gpu_trace, cuda_api_trace, cuda_kern_exec_trace, nvtx_pushpop_trace, nvtx_gpu_proj_trace) become spans. Their clock counts from
// the session's start, whose instant no table states: it is not placed. Grain 1 ns, or what --timeunit leaves of it. Kernels and calls are
// joined by CorrId if both tables lie in one file; cuda_kern_exec_trace says the call of each kernel itself. Ranges lose the colon of the
// default domain and the domain NCCL, and the operators of emit_nvtx their numbers. Of nvtx_gpu_proj_trace the ranges as they were on the host
// are kept; the projection follows from the launches.
//
// Summaries become timeline.Totals: one a kind, of several arrangements of the same sums (by grid and block, by category) the plainest. Of
// nvtx_kern_sum only the range that holds most kernel time counts, as ranges nest. Percentages are left out: they are shares of the listed rows.
//
// What it cannot tell: which process ran on a GPU (CorrIds tell where calls are in the file), sizes below 1 kB (they are printed in MB
// with three decimals), memory kinds in summaries, and names beyond the width of a column.
//
// Limit: of tables of several recordings in one file those of the first are read. --format table, json and html are not.
package nsysstats

import (
	"bytes"
	"regexp"
	"strings"

	"gpureport/ingest"
)

// Format is tables of nsys stats.
var Format = ingest.Format{
	Name:      "nsys-stats",
	Doc:       "tables of nsys stats, CSV or text",
	Recognise: recognise,
	Read:      read,
	Bulk:      true,
	Asks:      []string{"step", "idle", "data", "kernel", "comm"},
}

// export turns the recording into what answers more.
const export = "nsys export --type sqlite -o run.sqlite run.nsys-rep"

// headLines is how many lines may stand before the first sign: those of nsys and of what ran before it.
const headLines = 40

var (
	// Beginnings of headers: CSV with or without quotes and units, tabs, or columns.
	headerLine = regexp.MustCompile(`^"?(` +
		`Time ?\(%\)"?(,|\t|  +)"?Total Time|` +
		`Total( \(?[KMG]?i?B\)?)?"?(,|\t|  +)"?(Count|Operations)"?(,|\t|  +)"?(Avg|Average)|` +
		`Start ?\([a-zµμ]+\)"?(,|\t|  +)"?(Duration|End) ?\([a-zµμ]+\)"?(,|\t|  +)|` +
		`API Start( ?\([a-zµμ]+\))?"?(,|\t|  +)"?API Dur|` +
		`Name"?(,|\t|  +)"?Projected Start|` +
		`NVTX Range"?(,|\t|  +)"?Style)`)
	processing = regexp.MustCompile(`^Processing \[(.*)\] with \[([^\]]*)\](\([^)]*\))?`)
	title      = regexp.MustCompile(`^\*\* (.+?)(?: \(([a-z_0-9]+)(?::[^()]*)?\))?:$`)
	// Titles of nsys until 2020, over the table itself.
	oldTitle = regexp.MustCompile(`^(CUDA API|CUDA Kernel|CUDA Memory Operation|Operating System Runtime API|NVTX (?:Push-Pop )?Range) Statistics(?: \(by (time|size)(?: in ([KMG]?i?B))?\))?:?`)
)

func recognise(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		s := strings.TrimSpace(string(line))
		if s == "" {
			continue
		}
		if n++; n > headLines {
			break
		}
		if headerLine.MatchString(s) {
			return true
		}
		if m := processing.FindStringSubmatch(s); m != nil && (strings.Contains(m[2], "reports/") || strings.HasSuffix(m[2], ".py")) {
			return true
		}
		if m := title.FindStringSubmatch(s); m != nil && (reports[m[2]] != 0 || strings.HasPrefix(m[1], "CUDA ") || strings.HasPrefix(m[1], "NVTX ") || strings.HasPrefix(m[1], "OS Runtime ")) {
			return true
		}
	}
	return false
}
