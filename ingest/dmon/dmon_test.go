package dmon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

func readText(t testing.TB, text string, set map[string]string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("dmon.log", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, &ingest.Options{Set: set})
	b := ingest.NewBuilder(in, "dmon")
	err := read(context.Background(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	return tl, in.Problems(), err
}

// shown prints readings as "GPU 0 power_w 60@0s row3", in the order of series.
func shown(tl *timeline.Timeline, metric string) []string {
	var out []string
	for i := range tl.Series {
		s := &tl.Series[i]
		if metric != "" && s.Metric.Name != metric {
			continue
		}
		for j := range s.At {
			out = append(out, fmt.Sprintf("%s %s %g@%s row%d", tl.Tracks[s.Track].Name, s.Metric.Name, s.Value[j], stamp(s.At[j]), s.Row[j]))
		}
	}
	return out
}

func stamp(at timeline.Time) string {
	if at < 1e17 {
		return time.Duration(at).String()
	}
	return time.Unix(0, int64(at)).UTC().Format("01-02T15:04:05")
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "dmon/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

const head = "#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n"

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		set        map[string]string
		want       []string
		problems   string
	}{
		{"times", head + " 20260714 08:12:53 0 631 99\n 20260714 08:12:54 0 600 50\n", nil,
			[]string{"GPU 0 power_w 631@07-14T08:12:53 row3", "GPU 0 power_w 600@07-14T08:12:54 row4", "GPU 0 sm_busy_frac 0.99@07-14T08:12:53 row3", "GPU 0 sm_busy_frac 0.5@07-14T08:12:54 row4"}, ""},
		{"missing cells are absent", head + " 20260714 08:12:53 0 - –\n 20260714 08:12:54 0 1 —\n 20260714 08:12:55 0 2 3\n", nil,
			[]string{"GPU 0 power_w 1@07-14T08:12:54 row4", "GPU 0 power_w 2@07-14T08:12:55 row5", "GPU 0 sm_busy_frac 0.03@07-14T08:12:55 row5"}, ""},
		{"no time counts cycles", "# gpu pwr\n# Idx W\n 0 1\n 1 2\n 0 3\n 1 4\n", nil,
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 power_w 3@1s row5", "GPU 1 power_w 2@0s row4", "GPU 1 power_w 4@1s row6"}, "no-time@1*1"},
		{"no time with a period", "# gpu pwr\n# Idx W\n 0 1\n 0 3\n", map[string]string{"period": "5"},
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 power_w 3@5s row4"}, "no-time@1*1"},
		{"time only rolls over at midnight", "#Time gpu pwr\n#HH:MM:SS Idx W\n23:59:59 0 1\n00:00:00 0 2\n", nil,
			[]string{"GPU 0 power_w 1@23h59m59s row3", "GPU 0 power_w 2@24h0m0s row4"}, ""},
		{"two hosts at midnight", "0: #Time gpu pwr\n0: #HH:MM:SS Idx W\n0: 23:59:59 0 1\n1: 23:59:58 0 5\n0: 00:00:00 0 2\n1: 23:59:59 0 6\n0: 00:00:01 0 3\n1: 00:00:00 0 7\n", nil,
			[]string{"0: GPU 0 power_w 1@23h59m59s row3", "0: GPU 0 power_w 2@24h0m0s row5", "0: GPU 0 power_w 3@24h0m1s row7", "1: GPU 0 power_w 5@23h59m58s row4", "1: GPU 0 power_w 6@23h59m59s row6", "1: GPU 0 power_w 7@24h0m0s row8"}, "several-hosts@1*1"},
		{"date only is no time", "#Date gpu pwr\n#YYYYMMDD Idx W\n20260714 0 1\n20260714 0 2\n", nil,
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 power_w 2@1s row4"}, "no-time@1*1"},
		{"header repeats", "# gpu pwr\n# Idx W\n 0 1\n# gpu pwr\n# Idx W\n 0 3\n", nil,
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 power_w 3@1s row6"}, "no-time@1*1"},
		{"header changes", "# gpu pwr sm\n# Idx W %\n 0 1 2\n# gpu fb bar1 pwr\n# Idx MB MB W\n 0 3 4 5\n", nil,
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 power_w 5@1s row6", "GPU 0 sm_busy_frac 0.02@0s row3", "GPU 0 mem_used_bytes 3.145728e+06@1s row6", "GPU 0 bar1_used_bytes 4.194304e+06@1s row6"}, "no-time@1*1"},
		{"csv", "#gpu, pwr, sm\n#Idx, W, %\n0, 50, 3\n0, 51, -\n", nil,
			[]string{"GPU 0 power_w 50@0s row3", "GPU 0 power_w 51@1s row4", "GPU 0 sm_busy_frac 0.03@0s row3"}, "no-time@1*1"},
		{"csv nounit with trailing comma", "#gpu,pwr,\n0,50,\n", nil, []string{"GPU 0 power_w 50@0s row2"}, "no-time@1*1"},
		{"old temp column", "# gpu pwr temp\n# Idx W C\n 0 43 48\n", nil, []string{"GPU 0 power_w 43@0s row3", "GPU 0 temp_gpu_c 48@0s row3"}, "no-time@1*1"},
		{"GPM columns keep their name", "# gpu pwr gract nvlrx\n# Idx W GPM:% GPM:MB/s\n 0 1 97 12\n", nil,
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 gpm_gract_frac 0.97@0s row3", "GPU 0 gpm_nvlrx_bytes_per_s 1.2e+07@0s row3"}, "no-time@1*1"},
		{"unknown column keeps its name", "# gpu pwr zork\n# Idx W %\n 0 1 97\n", nil,
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 dmon_zork_frac 0.97@0s row3"}, "no-time@1*1 unknown-column@2*1"},
		{"every known column", "# gpu mclk pclk pviol tviol rxpci txpci sbecc dbecc pci\n# Idx MHz MHz % bool MB/s MB/s errs errs errs\n 0 2619 1980 104 1 3 4 5 6 7\n", nil,
			[]string{"GPU 0 clock_mem_hz 2.619e+09@0s row3", "GPU 0 clock_sm_hz 1.98e+09@0s row3", "GPU 0 power_violation_frac 1@0s row3", "GPU 0 thermal_violation 1@0s row3",
				"GPU 0 pcie_h2d_bytes_per_s 3e+06@0s row3", "GPU 0 pcie_d2h_bytes_per_s 4e+06@0s row3", "GPU 0 ecc_corrected_count 5@0s row3", "GPU 0 ecc_uncorrected_count 6@0s row3", "GPU 0 pcie_replays_count 7@0s row3"}, "no-time@1*1"},
		{"impossible values are dropped", "# gpu rxpci sm pwr\n# Idx MB/s % W\n 0 2016001 140 7\n", nil, []string{"GPU 0 power_w 7@0s row3"}, "no-time@1*1 impossible-value@3*2"},
		{"no number", "# gpu pwr sm\n# Idx W %\n 0 ERR! 3\n", nil, []string{"GPU 0 sm_busy_frac 0.03@0s row3"}, "no-time@1*1 bad-number@3*1"},
		{"killed while writing", head + " 20260714 08:12:53 0 631 99\n 20260714 08:12:54 0 6", nil,
			[]string{"GPU 0 power_w 631@07-14T08:12:53 row3", "GPU 0 sm_busy_frac 0.99@07-14T08:12:53 row3"}, "short-row@4*1"},
		{"killed in the last cell", head + " 20260714 08:12:53 0 631 99\n 20260714 08:12:54 0 600 9", nil,
			[]string{"GPU 0 power_w 631@07-14T08:12:53 row3", "GPU 0 power_w 600@07-14T08:12:54 row4", "GPU 0 sm_busy_frac 0.99@07-14T08:12:53 row3"}, "unterminated-row@4*1"},
		{"crlf and blank lines", strings.ReplaceAll("# gpu pwr\n# Idx W\n\n 0 1\n", "\n", "\r\n"), nil, []string{"GPU 0 power_w 1@0s row4"}, "no-time@1*1"},
		{"ansi", "\x1b[1m# gpu pwr\x1b[0m\n# Idx W\n 0 \x1b[31m1\x1b[0m\n", nil, []string{"GPU 0 power_w 1@0s row3"}, "no-time@1*1"},
		{"srun label", "0: # gpu pwr\n0: # Idx W\n0:     0 1\n0:     0 2\n", nil, []string{"0: GPU 0 power_w 1@0s row3", "0: GPU 0 power_w 2@1s row4"}, "no-time@1*1"},
		{"kubectl stamps are times", "2026-07-14T08:12:53Z # gpu pwr\n2026-07-14T08:12:53Z # Idx W\n2026-07-14T08:12:53.5Z 0 1\n2026-07-14T10:12:54.5+02:00 0 2\n", nil,
			[]string{"GPU 0 power_w 1@07-14T08:12:53 row3", "GPU 0 power_w 2@07-14T08:12:54 row4"}, ""},
		{"stray lines", "nohup: ignoring input\n# gpu pwr\n# Idx W\n 0 1\nsrun: got SIGTERM\n# remark\n", nil, []string{"GPU 0 power_w 1@0s row4"}, "no-time@1*1 stray-line@1*3"},
		{"two rows in one second", head + " 20260714 08:12:53 0 631 99\n 20260714 08:12:53 0 600 50\n", nil,
			[]string{"GPU 0 power_w 631@07-14T08:12:53 row3", "GPU 0 sm_busy_frac 0.99@07-14T08:12:53 row3"}, "repeated-stamp@4*1"},
		{"rows above the header", " 0 1 2\n# gpu pwr\n# Idx W\n 0 1\n", nil, []string{"GPU 0 power_w 1@0s row4"}, "no-header@1*1 no-time@1*1"},
		{"bad time", head + " 2026 08:12:53 0 1 2\n 20260714 8h12 0 1 2\n 20260714 08:12:53 0 631 99\n", nil,
			[]string{"GPU 0 power_w 631@07-14T08:12:53 row5", "GPU 0 sm_busy_frac 0.99@07-14T08:12:53 row5"}, "bad-time@3*2"},
		{"long row", "# gpu pwr\n# Idx W\n 0 1 2\n 0 3\n", nil, []string{"GPU 0 power_w 3@0s row4"}, "no-time@1*1 long-row@3*1"},
		{"MIG hides utilisation", "# gpu pwr sm\n# Idx W %\n 0 295 -\n 0 295 -\n 0 294 -\n", nil,
			[]string{"GPU 0 power_w 295@0s row3", "GPU 0 power_w 295@1s row4", "GPU 0 power_w 294@2s row5"}, "hidden-utilisation@1*1 no-time@1*1"},
	} {
		tl, ps, err := readText(t, c.text, c.set)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, shown(tl, "")); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
}

func TestUTF16(t *testing.T) {
	plain := "# gpu pwr\r\n# Idx W\r\n 0 1\r\n 0 2\r\n"
	var le, be bytes.Buffer
	le.WriteString("\xff\xfe")
	be.WriteString("\xfe\xff")
	for _, c := range []byte(plain) {
		le.Write([]byte{c, 0})
		be.Write([]byte{0, c})
	}
	for _, text := range []string{le.String(), be.String(), le.String()[2:], "\xef\xbb\xbf" + plain} {
		tl, _, err := readText(t, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(tl, "power_w"); len(got) != 2 || got[1] != "GPU 0 power_w 2@1s row4" {
			t.Errorf("%q: %v", text[:4], got)
		}
	}
}

func TestClock(t *testing.T) {
	for _, c := range []struct {
		what, text string
		wall, zone bool
		how        timeline.Placement
		why        string
	}{
		{"date and time", head + " 20260714 08:12:53 0 631 99\n", true, false, timeline.Unplaced, "zone not stated"},
		{"time only", "#Time gpu pwr\n#HH:MM:SS Idx W\n23:59:59 0 1\n", true, false, timeline.Unplaced, ingest.DateUnknown},
		{"none", "# gpu pwr\n# Idx W\n 0 1\n", false, false, timeline.Unplaced, "no time"},
		{"collector", "2026-07-14T08:12:53Z # gpu pwr\n2026-07-14T08:12:53Z # Idx W\n2026-07-14T08:12:53.5Z 0 1\n", true, true, timeline.Recorded, "log collector"},
	} {
		tl, _, err := readText(t, c.text, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := tl.Clocks[tl.Sources[0].Clock]
		if k.Wall != c.wall || k.Zoned != c.zone || k.How != c.how || !strings.Contains(k.Why, c.why) {
			t.Errorf("%s: %+v", c.what, k)
		}
	}
}

// rows makes a log of one row a second with stamps given by at.
func rows(at ...string) string {
	var b strings.Builder
	b.WriteString(head)
	for i, a := range at {
		fmt.Fprintf(&b, " %s 0 %d 5\n", a, i)
	}
	return b.String()
}

func TestClockSteps(t *testing.T) {
	for _, c := range []struct {
		what     string
		at       []string
		want     []string // stamps of power_w
		problems string
		marks    int
	}{
		{"end of summer time", []string{"20261025 02:59:57", "20261025 02:59:58", "20261025 02:59:59", "20261025 02:00:00", "20261025 02:00:01"},
			[]string{"10-25T02:59:57", "10-25T02:59:58", "10-25T02:59:59", "10-25T03:00:00", "10-25T03:00:01"}, "clock-step@6*1", 1},
		{"beginning of summer time", []string{"20260329 01:59:57", "20260329 01:59:58", "20260329 01:59:59", "20260329 03:00:00", "20260329 03:00:01"},
			[]string{"03-29T01:59:57", "03-29T01:59:58", "03-29T01:59:59", "03-29T02:00:00", "03-29T02:00:01"}, "clock-step@6*1", 1},
		{"an hour ahead in the afternoon", []string{"20260329 13:59:57", "20260329 13:59:58", "20260329 13:59:59", "20260329 15:00:00", "20260329 15:00:01"},
			[]string{"03-29T13:59:57", "03-29T13:59:58", "03-29T13:59:59", "03-29T15:00:00", "03-29T15:00:01"}, "clock-step@6*1", 1},
		{"set back a little", []string{"20260714 08:00:00", "20260714 08:00:01", "20260714 08:00:10", "20260714 08:00:05", "20260714 08:00:11"},
			[]string{"07-14T08:00:00", "07-14T08:00:01", "07-14T08:00:10", "07-14T08:00:11"}, "clock-step@6*1", 1},
		{"an older recording was appended", []string{"20260714 08:00:00", "20260714 08:00:01", "20260713 08:00:00", "20260713 08:00:01"},
			[]string{"07-13T08:00:00", "07-13T08:00:01", "07-14T08:00:00", "07-14T08:00:01"}, "clock-step@5*1", 1},
		{"gap", []string{"20260714 08:00:00", "20260714 08:00:01", "20260714 08:00:02", "20260714 08:01:00"},
			[]string{"07-14T08:00:00", "07-14T08:00:01", "07-14T08:00:02", "07-14T08:01:00"}, "gap@6*1", 0},
	} {
		tl, ps, err := readText(t, rows(c.at...), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range tl.Series {
			if s := &tl.Series[i]; s.Metric.Name == "power_w" {
				for _, at := range s.At {
					got = append(got, stamp(at))
				}
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if codes(ps) != c.problems || len(tl.Marks.At) != c.marks {
			t.Errorf("%s: problems %q, %d marks", c.what, codes(ps), len(tl.Marks.At))
		}
	}
}

func TestCoverage(t *testing.T) {
	tl, _, _ := readText(t, rows("20260714 08:00:00", "20260714 08:00:01", "20260714 08:00:02", "20260714 08:01:00", "20260714 08:01:01"), nil)
	cov := tl.CoverageOf(0, 0)
	if len(cov) != 2 || cov[0].Dur() != 3*time.Second+1 || cov[1].Dur() != 2*time.Second+1 /* a reading looks back over a second */ {
		t.Errorf("%v", cov)
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "hello\n", "# gpu pwr\n# Idx W\n", "0, 1, 2\n3, 4, 5\n"} {
		if _, _, err := readText(t, text, nil); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
	if _, _, err := readText(t, "# gpu pwr\n# Idx W\n 0 1\n", map[string]string{"period": "soon"}); err == nil {
		t.Error("--set period=soon was taken")
	}
}

// TestCutInTwo: a log cut between two cycles, each half under the header, gives the same series.
func TestCutInTwo(t *testing.T) {
	var body []string
	for s := range 20 {
		for g := range 3 {
			body = append(body, fmt.Sprintf(" 20260714 08:12:%02d %d %d %d\n", s, g, 100+s, s))
		}
	}
	whole, _, err := readText(t, head+strings.Join(body, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 3; cut < len(body); cut += 3 {
		a, _, err1 := readText(t, head+strings.Join(body[:cut], ""), nil)
		b, _, err2 := readText(t, head+strings.Join(body[cut:], ""), nil)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for i := range whole.Series {
			at := append(append([]timeline.Time{}, a.Series[i].At...), b.Series[i].At...)
			value := append(append([]float64{}, a.Series[i].Value...), b.Series[i].Value...)
			if cmp.Diff(whole.Series[i].At, at) != "" || cmp.Diff(whole.Series[i].Value, value) != "" {
				t.Fatalf("cut at %d: series %d differs", cut, i)
			}
		}
		joined, _, err := readText(t, head+strings.Join(body[:cut], "")+head+strings.Join(body[cut:], ""), nil)
		if err != nil || len(joined.Series) != len(whole.Series) {
			t.Fatal(err)
		}
		for i := range whole.Series {
			if cmp.Diff(whole.Series[i].Value, joined.Series[i].Value) != "" {
				t.Fatalf("appended at %d: series %d differs", cut, i)
			}
		}
	}
}

// TestCutAnywhere: however the file ends, every row before the cut is kept.
func TestCutAnywhere(t *testing.T) {
	texts := map[string]string{"times": rows("20260714 08:00:00", "20260714 08:00:01", "20260714 08:00:02")}
	if dir := os.Getenv("GPUREPORT_DATA"); dir != "" {
		files, _ := filepath.Glob(filepath.Join(dir, "dmon", "*.txt"))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(f)] = string(b)
		}
	} else {
		t.Log("GPUREPORT_DATA is not set: real files are not cut")
	}
	for name, text := range texts {
		for k := range 200 {
			cut := len(text) * k / 200
			tl, _, _ := readText(t, text[:cut], nil)
			complete := int64(0)
			for line := range strings.Lines(text[:cut]) {
				if strings.HasSuffix(line, "\n") && strings.TrimSpace(line) != "" && strings.TrimSpace(line)[0] != '#' {
					complete++
				}
			}
			if n := tl.Sources[0].Rows; n < complete || n > complete+1 {
				t.Fatalf("%s cut at %d: %d rows of %d complete ones", name, cut, n, complete)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("# gpu pwr\n# Idx W\n 0 1\n")) // plain
	f.Add([]byte(head + " 20261025 02:59:59 0 1 2\n 20261025 02:00:00 0 1 2\n"))
	f.Add([]byte("#gpu, pwr,\n0, ,\n"))                                  // empty csv cells
	f.Add([]byte("# gpu pwr sm\n 0 1\n# gpu sm\n 0 1\n"))                // header narrows
	f.Add([]byte("\xff\xfe#\x00 \x00g\x00p\x00u\x00 \x00p\x00w\x00r"))   // odd UTF-16
	f.Add([]byte("# gpu gpu gpu\n 0 1 2\n"))                             // names twice
	f.Add([]byte("#Date Time gpu pwr\n99999999 99:99:99 0 1\n"))         // times that cannot be
	f.Add([]byte("# gpu pwr pwr\n# Idx W W\n 0 1 2\n 0 1e308 -1e308\n")) // a column twice, huge numbers
	f.Add([]byte("# Date gpu\n\x1b[\n0: \x1b]"))                         // escapes without an end
	f.Add([]byte("#Time gpu pwr\n23:59:59 0 1\n00:00:00 0 1\n23:59:59 0 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tl, ps, err := readText(t, string(b), nil)
		if err == nil && tl.Sources[0].Rows == 0 {
			t.Error("no row and no error")
		}
		for _, p := range ps {
			if p.Count < 1 || !strings.HasPrefix(p.Code, "dmon/") {
				t.Errorf("%+v", p)
			}
		}
		recognise(ingest.Head{Text: b, Raw: b})
	})
}

// A log that claims more GPUs than any host has keeps the first ones and says so.
func TestManyGPUs(t *testing.T) {
	var b strings.Builder
	b.WriteString("# gpu     sm\n# Idx      %\n")
	for i := range ingest.MaxGPUs + 76 {
		fmt.Fprintf(&b, "%5d      5\n", i)
	}
	tl, ps, err := readText(t, b.String(), nil)
	if err != nil || len(tl.Devices) != ingest.MaxGPUs {
		t.Fatalf("%d devices, error %v", len(tl.Devices), err)
	}
	for _, p := range ps {
		if p.Code == "dmon/many-gpus" {
			if p.Count != 76 || p.Row != uint64(ingest.MaxGPUs)+3 {
				t.Errorf("%+v", p)
			}
			return
		}
	}
	t.Error("nothing says that rows were dropped")
}
