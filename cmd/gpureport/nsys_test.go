package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"gpureport/fixtures/sim"
	"gpureport/render"
)

// database makes an SQLite database of SQL text.
func database(t testing.TB, path, sql string) {
	t.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec(sql); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// nsysFolder writes the run of an incident as Nsight Systems exports, beside the logs that the incident has too.
func nsysFolder(t testing.TB, in *sim.Incident, o sim.NsysOptions) string {
	t.Helper()
	files, err := in.NsysSQL(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, sql := range files {
		database(t, filepath.Join(dir, strings.TrimSuffix(name, ".sql")+".sqlite"), sql)
	}
	for _, p := range inputsOf(t, in.Name) {
		if name := filepath.Base(p); !strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".json") { // a trace
			copyTo(t, p, dir, name)
		}
	}
	return dir
}

// recordings are the ways in which each incident's run was recorded with Nsight Systems, and what they cannot show that a trace does:
// "incident: rule", "*: rule" for any incident, or "incident: cause", with the reason.
var recordings = []struct {
	name   string
	o      sim.NsysOptions
	except map[string]string
}{
	{"a file a rank, with sizes", sim.NsysOptions{Sizes: true}, nil},
	{"one file, NCCL's arguments", sim.NsysOptions{Sizes: true, Payload: true, OneFile: true}, nil},
	{"a file a rank, without sizes", sim.NsysOptions{}, map[string]string{
		"slow-gpu: kernel.gemm-eff":         "what a product could take follows from its sizes",
		"slow-gpu: hw.gpu-slow":             "without sizes unequal work looks the same, so it is a hint",
		"hot-rank: hw.gpu-slow":             "without sizes unequal work looks the same, so it is a hint",
		"uneven-work: hw.gpu-slow":          "without sizes unequal work looks like a slow GPU, so it is a hint",
		"uneven-work: cause":                "without sizes unequal work and a slow GPU are not told apart",
		"uneven-work: shape.rank-tokens":    "tokens follow from sizes",
		"late-rank: kernel.comm-contention": "without sizes kernels of one name and unequal work are compared",
		"numa-rank: kernel.comm-contention": "without sizes kernels of one name and unequal work are compared",
		"*: shape.batch-headroom":           "what a product could take follows from its sizes",
	}},
}

// A run that was recorded with Nsight Systems instead of the PyTorch profiler has the same verdict, findings and ledger.
func TestNsysSaysWhatTheTraceSays(t *testing.T) {
	for _, in := range sim.Incidents() {
		if !slices.ContainsFunc(inputsOf(t, in.Name), func(p string) bool { return strings.Contains(filepath.Base(p), ".json") }) {
			continue // only logs, or nothing else to compare with
		}
		if in.Skewed() {
			continue // the simulator writes exports by the true clock
		}
		trace, _ := analyzed(t, "--title", in.Name, filepath.Join(fixtures, in.Name, "in"))
		for _, how := range recordings {
			if how.o.OneFile && len(trace.Ledger) == 1 {
				continue
			}
			t.Run(in.Name+", "+how.name, func(t *testing.T) {
				t.Parallel()
				folder, out := nsysFolder(t, in, how.o), t.TempDir()
				formats := "json"
				if how.except == nil && !how.o.OneFile {
					formats = strings.Join(allFormats, ",")
				}
				r := gpureport("analyze", "--format", formats, "-o", out, "--title", in.Name, folder)
				if r.code != exitOK || r.stderr != "" {
					t.Fatalf("exit %d, stderr: %s", r.code, r.stderr)
				}
				tellsNoSecret(t, out, r.stdout, formats)
				got := readReport(t, out)
				ledgersClose(t, got)
				used := map[string]bool{}
				excepted := func(what string) bool {
					_, ok := how.except[in.Name+": "+what]
					used[in.Name+": "+what] = ok
					_, always := how.except["*: "+what]
					return ok || always
				}
				if d := diff.Diff(trace.Verdict.Class, got.Verdict.Class); d != "" {
					t.Errorf("class (-trace +nsys):\n%s", d)
				}
				if d := diff.Diff(trace.Verdict.Cause, got.Verdict.Cause); d != "" && !excepted("cause") {
					t.Errorf("cause (-trace +nsys):\n%s", d)
				}
				if d := diff.Diff(trace.Verdict.CulpritRank, got.Verdict.CulpritRank); d != "" {
					t.Errorf("culprit (-trace +nsys):\n%s", d)
				}
				a, b := findingsOf(trace), findingsOf(got)
				for _, f := range slices.Concat(a, b) {
					if slices.Contains(a, f) != slices.Contains(b, f) && !excepted(f.id) {
						t.Errorf("%s of %s, %s: in the trace %v, in nsys %v", f.id, f.subject, f.severity, slices.Contains(a, f), slices.Contains(b, f))
					}
				}
				sameLedgers(t, trace, got)
				for e := range how.except {
					if strings.HasPrefix(e, in.Name+": ") && !used[e] {
						t.Errorf("%s: not an exception: they agree", e)
					}
				}
			})
		}
	}
}

type foundRule struct{ id, subject, severity string }

func findingsOf(rep *render.Report) (out []foundRule) {
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.Outcome == "finding" {
			f := foundRule{id: c.ID, subject: c.Subject.ID}
			if c.Severity != nil {
				f.severity = *c.Severity
			}
			out = append(out, f)
		}
	}
	return out
}

// sameLedgers allows 1 % of the window.
func sameLedgers(t *testing.T, a, b *render.Report) {
	t.Helper()
	if len(a.Ledger) != len(b.Ledger) {
		t.Fatalf("%d ledgers, the trace has %d", len(b.Ledger), len(a.Ledger))
	}
	for i := range a.Ledger {
		x, y := &a.Ledger[i], &b.Ledger[i]
		if x.GPU != y.GPU || diff.Diff(x.Rank, y.Rank) != "" || x.Steps != y.Steps {
			t.Errorf("%s with %d steps, the trace has %s with %d; ranks: %s", y.GPU, y.Steps, x.GPU, x.Steps, diff.Diff(x.Rank, y.Rank))
		}
		near := func(what string, m, n int64) {
			if d := max(m-n, n-m); d*100 > x.WindowNS {
				t.Errorf("%s: %s: %d ns, by the trace %d ns: %.2f %% of the window apart", y.GPU, what, n, m, 100*float64(d)/float64(x.WindowNS))
			}
		}
		near("window", x.WindowNS, y.WindowNS)
		for o := range x.Owners {
			near(o, x.Owners[o], y.Owners[o])
		}
		near("hidden_comm", x.Side.HiddenComm, y.Side.HiddenComm)
		near("hidden_copy", x.Side.HiddenCopy, y.Side.HiddenCopy)
		near("hidden_next", x.Side.HiddenNext, y.Side.HiddenNext)
	}
	waited := func(rep *render.Report) []render.WaitRow {
		out := slices.Clone(rep.Waits)
		slices.SortFunc(out, func(a, b render.WaitRow) int { return -cmp.Compare(a.DurNS, b.DurNS) })
		return out[:min(1, len(out))]
	}
	for i, w := range waited(a) {
		v := waited(b)
		if len(v) == 0 || diff.Diff(w.CulpritRank, v[i].CulpritRank) != "" || w.Owner != v[i].Owner {
			t.Errorf("most was waited for %+v, by the trace for %+v", v, w)
		}
	}
}

// What inspect prints of an export holds nothing of its environment.
func TestInspectOfNsysTellsNoSecret(t *testing.T) {
	i := slices.IndexFunc(sim.Incidents(), func(in *sim.Incident) bool { return in.Name == "late-rank" })
	folder := nsysFolder(t, sim.Incidents()[i], sim.NsysOptions{Payload: true})
	for _, args := range [][]string{{"inspect"}, {"inspect", "--json"}} {
		r := gpureport(append(args, folder)...)
		if r.code != exitOK || !strings.Contains(r.stdout, "rank3.sqlite") {
			t.Fatalf("exit %d: %s%s", r.code, r.stdout, r.stderr)
		}
		tellsNothing(t, strings.Join(args, " "), []byte(r.stdout+r.stderr))
	}
}

// tellsNothing looks for what sim plants in an export's environment, arguments and output.
func tellsNothing(t *testing.T, where string, b []byte) {
	t.Helper()
	for _, w := range []string{sim.NsysSecret, "WANDB_API_KEY", "HF_TOKEN"} {
		if bytes.Contains(b, []byte(w)) {
			t.Errorf("%s tells what the environment held: %s", where, w)
		}
	}
}

// tellsNoSecret looks for the secret of an export's environment in all that was written.
func tellsNoSecret(t *testing.T, dir, stdout, formats string) {
	t.Helper()
	tellsNothing(t, "stdout", []byte(stdout))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(formats, ",") + 1; len(entries) != n {
		t.Errorf("%d files written, want %s", len(entries), formats)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tellsNothing(t, e.Name(), b)
		if filepath.Ext(path) != ".xlsx" {
			continue
		}
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			part, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			tellsNothing(t, e.Name()+"!"+f.Name, part)
		}
	}
}

// bigExport builds an export of about that many kernels, with the calls and operators around them, and gives its rows by table.
func bigExport(t testing.TB, path string, kernels int) map[string]int {
	t.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(conn.Exec("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN"))
	tables := sim.NsysTables()
	insert := make([]*sqlite3.Stmt, len(tables))
	rows := map[string]int{}
	check(sim.NsysBig(kernels, sim.BigOptions{}, func(table int, row []sim.NsysCell) error {
		def := &tables[table]
		if insert[table] == nil {
			if err := conn.Exec(def.SQL); err != nil {
				return err
			}
			s, _, err := conn.Prepare("INSERT INTO " + def.Name + " (" + strings.Join(def.Columns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(def.Columns)-1) + ")")
			if err != nil {
				return err
			}
			insert[table] = s
		}
		s := insert[table]
		for i := range row {
			var err error
			switch c := &row[i]; c.Kind {
			case sim.NsysNull:
				err = s.BindNull(i + 1)
			case sim.NsysInt:
				err = s.BindInt64(i+1, c.Int)
			default:
				err = s.BindText(i+1, c.Text)
			}
			if err != nil {
				return err
			}
		}
		rows[def.Name]++
		return cmp.Or(s.Exec(), s.Reset())
	}))
	for _, s := range insert {
		if s != nil {
			check(s.Close())
		}
	}
	check(conn.Exec("COMMIT"))
	check(conn.Close())
	return rows
}

// A stream of rows makes an export that is read whole.
func TestBigNsysExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.sqlite")
	rows := bigExport(t, path, 40_000)
	rep, _ := analyzed(t, path)
	ledgersClose(t, rep)
	if len(rep.Ledger) != 1 || rep.Verdict.Class != "compute-bound" {
		t.Errorf("%d ledgers, verdict %s", len(rep.Ledger), rep.Verdict.Class)
	}
	var events int64
	for _, name := range []string{"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NVTX_EVENTS", "PROFILER_OVERHEAD"} {
		events += int64(rows[name])
	}
	if got := rep.Inputs[0].Rows; got != events {
		t.Errorf("%d rows read, the file has %d", got, events)
	}
}
