package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/render"
)

// dataDir is the folder of real files, which are not part of the repository. In CI it must be there.
func dataDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("GPUREPORT_DATA is not set, and CI must read the real files")
		}
		t.Skip("GPUREPORT_DATA is not set: no real files to read")
	}
	return dir
}

// formatOf says what the data's manifest says each file is, in the program's words. The longest prefix of the path counts.
var formatOf = map[string]string{
	"dcgm/":                                 "dcgmi-dmon",
	"derived-odd/decimal_comma.csv":         "smiquery",
	"derived-odd/dmon_columns":              "dmon",
	"derived-odd/nan_and_negative_dur":      "torchprof",
	"derived-odd/repeated_header.csv":       "smiquery",
	"derived-odd/truncated_":                "torchprof",
	"derived-odd/utf16le_bom_crlf.csv":      "smiquery",
	"dmon/":                                 "dmon",
	"kineto/":                               "torchprof",
	"kineto-multirank/":                     "torchprof",
	"kineto-synthetic/":                     "torchprof",
	"not-kineto/ascend":                     "ascend-trace",
	"not-kineto/pytorch_execution":          "torch-execution-trace",
	"not-kineto/tensorflow":                 "tensorflow-trace",
	"nsys-parquet/":                         "parquet",
	"nsys-sqlite/":                          "nsys",
	"nsys-stats/":                           "nsys-stats",
	"nvlink/":                               "nvlink",
	"odd/bare_power_numbers.csv":            "unknown", // no header: nobody knows its columns
	"odd/linux-l40s__595.80__whole_capture": "smi-capture",
	"pmon/":                                 "pmon",
	"prometheus/":                           "prometheus",
	"query-apps/":                           "smi-apps",
	"query-gpu/":                            "smiquery",
	"rocm-smi/":                             "rocm-smi",
	"smi-q/":                                "smi-q",
	"smi-table/":                            "smi-table",
	"smi-xml/":                              "smi-xml",
	"topo/":                                 "topo",
	"xid/":                                  "kernel-log",
	"LICENSES/":                             "unknown",
	"MANIFEST.md":                           "unknown",
	"FOUND-UNLICENSED.md":                   "unknown",
}

// holdNothing are files of formats that are read that hold no row: only a heading, a refusal, or rows whose heading was lost.
var holdNothing = map[string]bool{
	"dcgm/dcgmi_dmon_no_header_annotated.txt":               true,
	"query-apps/linux-rtx-2080-super__595.71.05__idle.csv":  true,
	"topo/windows-rtx-2080-super__591.86__capabilities.txt": true,
}

// holdsRows tells whether anything can be read of a file of the data.
func holdsRows(path string) bool { return isRead(wantFormat(path)) && !holdNothing[path] }

func wantFormat(path string) string {
	best := ""
	for prefix := range formatOf {
		if strings.HasPrefix(path, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	if want := formatOf[best]; want != "nsys-sqlite" || !isRead("nsys") {
		return want
	}
	return "nsys"
}

// dataFiles lists every file of the data, by its path below the folder.
func dataFiles(t testing.TB) (dir string, files []string) {
	t.Helper()
	dir = dataDir(t)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 150 {
		t.Fatalf("only %d files in %s", len(files), dir)
	}
	return dir, files
}

// Every file of the data is what the manifest says, as inspect lists it.
func TestDataFormats(t *testing.T) {
	dir, files := dataFiles(t)
	r := gpureport("inspect", "--json", dir)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	var list struct{ Inputs []render.InputRow }
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, in := range list.Inputs {
		seen[in.Path] = true
		if strings.Contains(in.Path, "!/") {
			continue // ingest/bugreport looks at parts
		}
		if want := wantFormat(in.Path); in.Format != want {
			t.Errorf("%s: format %s, the manifest says %s", in.Path, in.Format, want)
		}
		if holdsRows(in.Path) != (in.Rows > 0) {
			t.Errorf("%s: %s with %d rows", in.Path, in.Format, in.Rows)
		}
		if !isRead(in.Format) && in.Note == "" {
			t.Errorf("%s: not read, and nothing says why", in.Path)
		}
	}
	for _, f := range files {
		if !seen[f] {
			t.Errorf("%s is not listed", f)
		}
	}
}

// isRead tells by the list of formats; an unknown file is none of them.
func isRead(name string) bool {
	i := slices.IndexFunc(formats.List, func(f ingest.Format) bool { return f.Name == name })
	return i >= 0 && formats.List[i].Read != nil
}

// Each file alone: the report is written if the file is read, and says why if there is nothing to say.
func TestDataFiles(t *testing.T) {
	dir, files := dataFiles(t)
	for _, f := range files {
		t.Run(f, func(t *testing.T) { analyzeData(t, filepath.Join(dir, f), holdsRows(f)) })
	}
}

// Each folder whole.
func TestDataFolders(t *testing.T) {
	dir, files := dataFiles(t)
	read := map[string]bool{}
	for _, f := range files {
		for d := filepath.Dir(f); d != "."; d = filepath.Dir(d) {
			read[d] = read[d] || holdsRows(f)
		}
	}
	for _, d := range sorted(read) {
		t.Run(d, func(t *testing.T) { analyzeData(t, filepath.Join(dir, d), read[d]) })
	}
}

func sorted(m map[string]bool) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func analyzeData(t *testing.T, path string, read bool) {
	t.Helper()
	out := t.TempDir()
	r := gpureport("analyze", "--format", "json", "-o", out, path)
	if !read {
		if r.code != exitUse || !strings.Contains(r.stderr, "nothing could be analysed") || r.stdout != "" {
			t.Errorf("exit %d, want 2; stderr: %.300s", r.code, r.stderr)
		}
		return
	}
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("exit %d: %.600s", r.code, r.stderr)
	}
	rep := readReport(t, out)
	ledgersClose(t, rep)
	v := &rep.Verdict
	if v.Class == "" || v.Sentence == "" || v.Confidence == "" {
		t.Errorf("verdict %q, confidence %q, sentence %q", v.Class, v.Confidence, v.Sentence)
	}
	if len(rep.Ledger) == 0 && v.Class != "insufficient-evidence" && v.Class != "hardware" {
		t.Errorf("verdict %s without a ledger", v.Class)
	}
	if v.RecoverableFrac != nil && (*v.RecoverableFrac < 0 || *v.RecoverableFrac > 1) {
		t.Errorf("recoverable %g", *v.RecoverableFrac)
	}
	if v.Class == "compute-bound" {
		for _, l := range rep.Ledger {
			if l.Owners["compute"] < l.WindowNS/2 {
				t.Errorf("%s computes %d of %d ns, and the verdict is compute-bound: %s", l.GPU, l.Owners["compute"], l.WindowNS, v.Sentence)
			}
		}
	}
	for i := range rep.Checks {
		c := &rep.Checks[i]
		if c.Says == "" || strings.Contains(c.Says, "{") || strings.Contains(c.Says, "NaN") || strings.Contains(c.Says, "%!") {
			t.Errorf("%s %s says %q", c.ID, c.Subject.ID, c.Says)
		}
		if c.RecoverableFrac != nil && (*c.RecoverableFrac < 0 || *c.RecoverableFrac > 1) {
			t.Errorf("%s %s: recoverable %g", c.ID, c.Subject.ID, *c.RecoverableFrac)
		}
		if c.Outcome == "unknown" && len(c.Missing) == 0 {
			t.Errorf("%s %s is unknown, and nothing is missing", c.ID, c.Subject.ID)
		}
	}
}

// busySQL is the union of a device's operations inside the window, by window functions over the trace's own JSON. Stamps of 16 digits and
// decimals are more than a double holds: their text is cut at the point and both halves are integers.
const busySQL = `
WITH event AS (
  SELECT value -> '$.ts' || '.' AS ts, coalesce(value -> '$.dur', '0') || '.' AS dur, lower(value ->> '$.cat') AS cat, value ->> '$.ph' AS ph
  FROM json_each(readfile('%[1]s'), '%[2]s')
), op AS (
  SELECT ts, dur, substr(ts, 1, instr(ts, '.') - 1) AS ts_us, substr(ts, instr(ts, '.') + 1) AS ts_part,
         substr(dur, 1, instr(dur, '.') - 1) AS dur_us, substr(dur, instr(dur, '.') + 1) AS dur_part
  FROM event WHERE ph = 'X' AND cat IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset')
), ns AS (
  SELECT ts_us * 1000 + CAST(round(('0.' || rtrim(ts_part, '.')) * 1000) AS INTEGER) + %[3]d AS s,
         dur_us * 1000 + CAST(round(('0.' || rtrim(dur_part, '.')) * 1000) AS INTEGER) AS d FROM op
), cut AS (
  SELECT max(s, %[4]d) AS s, min(s + d, %[5]d) AS e FROM ns WHERE s < %[5]d AND s + d > %[4]d
), run AS (
  SELECT s, e, max(e) OVER (ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM cut
)
SELECT count(*), sum(CASE WHEN before IS NULL OR s >= before THEN e - s WHEN e > before THEN e - before ELSE 0 END) FROM run;`

// The GPU's busy time equals, to the nanosecond, what another program computes from the same file.
func TestDataBusyTimeBySQL(t *testing.T) {
	dir := dataDir(t)
	sqlite, err := exec.LookPath("sqlite3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no sqlite3, and CI must compare with it")
		}
		t.Skip("no sqlite3: nothing to compare with")
	}
	for _, name := range []string{"hta_a100_nccl_meta_rank0of2.json.gz", "kineto018_resnet50_workers4.pt.trace.json.gz", "tl_mi300x_resnet_ddp_rank0of8.json.gz",
		"tl_h100_bert_small.json.gz", "hta_a100_alexnet_cuda_sync.json.gz"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "kineto", name)
			rep, _ := analyzed(t, path)
			if len(rep.Ledger) != 1 || rep.Window.Start == nil {
				t.Fatalf("%d ledgers, window from %v", len(rep.Ledger), rep.Window.Start)
			}
			start, err := time.Parse(time.RFC3339Nano, *rep.Window.Start)
			if err != nil {
				t.Fatal(err)
			}
			plain := unzipped(t, path)
			b, err := os.ReadFile(plain)
			if err != nil {
				t.Fatal(err)
			}
			events, base := "$.traceEvents", int64(0)
			if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
				events = "$"
			} else {
				var head struct {
					Base json.Number `json:"baseTimeNanoseconds"`
				}
				if err := json.Unmarshal(b, &head); err != nil {
					t.Fatal(err)
				}
				if head.Base != "" {
					if base, err = head.Base.Int64(); err != nil {
						t.Fatal(err)
					}
				}
			}
			l := &rep.Ledger[0]
			from := start.UnixNano() + l.StartNS
			out, err := exec.Command(sqlite, ":memory:", fmt.Sprintf(busySQL, plain, events, base, from, from+l.WindowNS)).CombinedOutput()
			if err != nil {
				t.Fatalf("sqlite3: %v: %.300s", err, out)
			}
			count, busy, _ := strings.Cut(strings.TrimSpace(string(out)), "|")
			ops, err := strconv.ParseInt(count, 10, 64)
			if err != nil || ops < 50 {
				t.Fatalf("sqlite3 found %q operations", out)
			}
			ns, err := strconv.ParseInt(busy, 10, 64)
			if err != nil {
				t.Fatalf("sqlite3: %q", out)
			}
			if ns != l.BusyNS {
				t.Errorf("busy %d ns of %d ns, SQL says %d ns over %d operations", l.BusyNS, l.WindowNS, ns, ops)
			}
			t.Logf("busy %d of %d ns, %d operations", l.BusyNS, l.WindowNS, ops)
		})
	}
}

func unzipped(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, t.TempDir(), "trace.json", b)
}

// A database that was cut while it was copied: no panic, and exit 0 or 2.
func TestDataCutDatabase(t *testing.T) {
	if !isRead("nsys") {
		t.Skip("no database format is read")
	}
	b, err := os.ReadFile(filepath.Join(dataDir(t), "nsys-sqlite", "h100_healthy_1pct.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const cuts = 200
	for k := range cuts + 1 {
		at := len(b) * k / cuts
		out := filepath.Join(dir, "out")
		r := gpureport("analyze", "--format", "json", "-o", out, write(t, dir, "run.sqlite", b[:at]))
		switch r.code {
		case exitOK:
			ledgersClose(t, readReport(t, out))
		case exitUse:
			if !strings.Contains(r.stderr, "nothing could be analysed") {
				t.Errorf("cut at %d: %s", at, r.stderr)
			}
			if k == cuts {
				t.Errorf("the whole database is not read: %s", r.stderr)
			}
		default:
			t.Fatalf("cut at %d: exit %d: %s", at, r.code, r.stderr)
		}
	}
}
