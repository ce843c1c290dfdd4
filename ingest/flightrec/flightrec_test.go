package flightrec

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
	"gpureport/ingest/timeline"
)

var of = ingesttest.Reader{Format: Format}

// One all-reduce that ended, one that runs, one send that waits; numbers as text and as numbers, ranks as text.
const dump = `{"version": "2.10", "nccl_version": "2.26.6",
 "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
 "pg_status": {"0": {"last_enqueued_collective": "3", "last_started_collective": -1, "last_completed_collective": 2}},
 "entries": [
  {"frames": [{"name": "f", "filename": "/home/me/t.py", "line": 3}], "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 2, "p2p_seq_id": 0,
   "profiling_name": "nccl:all_reduce", "time_created_ns": 1724779239936775119, "input_sizes": [[3, 4]], "state": "completed", "time_discovered_started_ns": null,
   "time_discovered_completed_ns": 1724779239975811724, "retired": true, "timeout_ms": 600000, "is_p2p": false},
  {"process_group": ["0", "default_pg"], "collective_seq_id": 3, "profiling_name": "nccl:all_reduce", "time_created_ns": 1724779240000000000, "state": "started", "timeout_ms": 600000, "is_p2p": false},
  {"process_group": ["7", "pp"], "collective_seq_id": 0, "p2p_seq_id": 5, "profiling_name": "nccl:send 0->1", "time_created_ns": 1724779240000000001, "state": "scheduled", "is_p2p": true}
 ]}`

func told(tl *timeline.Timeline) (out []string) {
	for _, p := range tl.Procs {
		out = append(out, fmt.Sprintf("rank %d (%s) of %d, %d groups, NCCL %s", p.Rank, p.RankHow, p.WorldSize, len(p.Groups), p.Meta["nccl_version"]))
	}
	for _, a := range tl.Attrs {
		out = append(out, fmt.Sprintf("%s=%s row%d", a.Name, a.Text, a.Row))
	}
	for i, at := range tl.Marks.At {
		out = append(out, fmt.Sprintf("%d: %s", at, tl.Names.Get(tl.Marks.Name[i])))
	}
	return out
}

func readAs(t *testing.T, name, text string) (*timeline.Timeline, string, error) {
	in := ingest.NewInput(name, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, nil)
	b := ingest.NewBuilder(in, Format.Name)
	err := Format.Read(context.Background(), in, b)
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Error(verr)
	}
	return tl, of.Codes(in.Problems()), err
}

func TestRead(t *testing.T) {
	tl, problems, err := readAs(t, "a/nccl_trace_rank_3.json", dump)
	if err != nil || problems != "" {
		t.Fatal(err, problems)
	}
	want := []string{
		"rank 3 (file name) of 0, 2 groups, NCCL 2.26.6",
		"collectives_last=2 3 3 default_pg row1",
		"collectives_pending=3 started nccl:all_reduce default_pg row1",
		"1724779240000000000: rank 3: collective 3, nccl:all_reduce of group default_pg, is started and not completed; it may take 10m0s",
		"1724779240000000001: rank 3: send or receive 5, nccl:send 0->1 of group pp, is scheduled and not completed",
	}
	if d := cmp.Diff(want, told(tl)); d != "" {
		t.Error(d)
	}
	if c := tl.Clocks[0]; !c.Wall || !c.Zoned || c.How != timeline.Recorded || tl.Sources[0].Rows != 3 ||
		tl.Sources[0].Coverage[0] != (timeline.Interval{Start: 1724779239936775119, End: 1724779240000000002}) {
		t.Errorf("%+v %+v", c, tl.Sources[0])
	}
	if strings.Contains(strings.Join(told(tl), ""), "/home") {
		t.Error("stacks are kept")
	}
}

func TestOdd(t *testing.T) {
	for _, c := range []struct {
		what, name, text, want, problems string
		bad                              bool
	}{
		{"cut inside an entry", "x.json", dump[:strings.Index(dump, `"state": "started"`)], "rank -1 () of 2, 1 groups, NCCL 2.26.6|collectives_last=2 2 3 default_pg row0", "flight-recorder/damaged-file@1*1", false},
		{"the rank in the dump", "x.json", `{"rank": 5, "pg_status": {}, "entries": [{"state": "scheduled", "collective_seq_id": 1, "profiling_name": "nccl:x"}]}`,
			"rank 5 (dump) of 0, 1 groups, NCCL |collectives_last=-1 -1 1 default_pg row0|collectives_pending=1 scheduled nccl:x default_pg row0|0: rank 5: collective 1, nccl:x of group default_pg, is scheduled and not completed", "", false},
		{"an entry of another kind", "x.json", `{"entries": [{"state": 3, "collective_seq_id": 1}], "pg_config": {"0": 7}}`, "rank -1 () of 0, 1 groups, NCCL |collectives_last=-1 -1 1 default_pg row0", "bad-entry@0*1", false},
		{"empty", "x.json", `{"entries": [], "pg_config": {}}`, "", "", true},
		{"a list", "x.json", `[]`, "", "", true},
	} {
		tl, problems, err := readAs(t, c.name, c.text)
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := strings.Join(told(tl), "|"); !c.bad && got != c.want {
			t.Errorf("%s: %s", c.what, got)
		}
		if strings.TrimPrefix(problems, "flight-recorder/") != strings.TrimPrefix(c.problems, "flight-recorder/") {
			t.Errorf("%s: %s", c.what, problems)
		}
	}
}

func TestRecognise(t *testing.T) {
	head := func(s string) ingest.Head { return ingest.Head{Text: []byte(s), Raw: []byte(s)} }
	if !recognise(head(dump)) || recognise(head(`{"traceEvents": [], "distributedInfo": {"pg_config": []}, "entries": 1}`)) || recognise(head(`{"entries": []}`)) {
		t.Error("JSON")
	}
	if !IsPickle(head("\x80\x02}(X\x09\x00\x00\x00pg_configq\x00")) || IsPickle(head("\x80\x04\x95segments")) || IsPickle(head("pg_config")) {
		t.Error("pickle")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(dump))
	f.Add([]byte(`{"entries": [{"process_group": [1e400, {}], "collective_seq_id": 99999999999999999999}], "pg_status": {"": {}}}`)) // numbers too large
	f.Add([]byte(`{"pg_config": {"0": {"ranks": "[0,"}}, "entries": [null, 3, [], {"time_created_ns": -5, "state": "\u0000"}]`))     // no objects
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
