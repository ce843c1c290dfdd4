package dcgm

import (
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
	in := ingest.NewInput("dcgm.log", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, &ingest.Options{Set: set})
	b := ingest.NewBuilder(in, Format.Name)
	err := read(context.Background(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	return tl, in.Problems(), err
}

func shown(tl *timeline.Timeline) []string {
	var out []string
	stamp := func(at timeline.Time) string {
		if at > 1e17 {
			return time.Unix(0, int64(at)).UTC().Format("15:04:05.000")
		}
		return time.Duration(at).String()
	}
	for i := range tl.Series {
		s := &tl.Series[i]
		for j := range s.At {
			out = append(out, fmt.Sprintf("%s %s %g@%s row%d", tl.Tracks[s.Track].Name, s.Metric.Name, s.Value[j], stamp(s.At[j]), s.Row[j]))
		}
	}
	m := &tl.Marks
	for i := range m.At {
		out = append(out, fmt.Sprintf("mark %d %d %s@%s row%d", m.Kind[i], m.Code[i], tl.Tracks[m.Track[i]].Name, stamp(m.At[i]), m.Row[i]))
	}
	return out
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "dcgmi-dmon/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

func recognises(text string) bool {
	return recognise(ingest.Head{Name: "x.log", Raw: []byte(text), Text: []byte(text)})
}

func TestColumns(t *testing.T) {
	for _, c := range []struct{ name, cell, want, problems string }{
		{"GRACT", "0.987", "gr_active_frac 0.987", ""},
		{"SMACT", "1.003", "sm_active_frac 1", ""},
		{"SMACT", "1.3", "", "impossible-value@3*1"},
		{"SMOCC", "0.5", "sm_occupancy_frac 0.5", ""},
		{"TENSO", "0.412", "tensor_active_frac 0.412", ""},
		{"DRAMA", "0.377", "dram_active_frac 0.377", ""},
		{"FP16A", "0", "fp16_active_frac 0", ""},
		{"PCITX", "498948", "pcie_d2h_bytes_per_s 498948", ""},
		{"PCIRX", "1555", "pcie_h2d_bytes_per_s 1555", ""},
		{"NVLTX", "30570603980", "nvlink_tx_bytes_per_s 3.057060398e+10", ""},
		{"NVLRX", "30638829242", "nvlink_rx_bytes_per_s 3.0638829242e+10", ""},
		{"SMCLK", "1980", "clock_sm_hz 1.98e+09", ""},
		{"POWER", "631.95", "power_w 631.95", ""},
		{"TOTEC", "1234567", "energy_j 1234.567", ""},
		{"GPUTL", "97", "sm_busy_frac 0.97", ""},
		{"FBUSD", "3", "mem_used_bytes 3.145728e+06", ""},
		{"RPCTR", "2", "pcie_replays_count 2", ""},
		{"TMPTR", "N/A", "", ""},
		{"TMPTR", "9223372036854775794", "", "impossible-value@3*1"},
		{"TMPTR", "hot", "", "bad-number@3*1"},
		{"ABCDE", "7", "dcgm_abcde 7", ""},
	} {
		tl, ps, err := readText(t, "#Entity   "+c.name+"\nID\nGPU 0     "+c.cell+"\n", nil)
		if err != nil {
			t.Errorf("%s %s: %v", c.name, c.cell, err)
		}
		got := ""
		for i := range tl.Series {
			got += fmt.Sprintf("%s %g", tl.Series[i].Metric.Name, tl.Series[i].Value[0])
		}
		if p := strings.TrimSpace(strings.Replace(codes(ps), "no-time@1*1", "", 1)); got != c.want || p != c.problems {
			t.Errorf("%s %s: %q, want %q; problems %q", c.name, c.cell, got, c.want, p)
		}
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		set        map[string]string
		want       []string
		problems   string
	}{
		{"two GPUs, header repeats", "#Entity   GRACT    \nID                 \nGPU 1     0.5      \nGPU 0     0.25     \n#Entity   GRACT    \nID                 \nGPU 1     0.6      \nGPU 0     N/A      \n", map[string]string{"period": "0.5"},
			[]string{"GPU 1 gr_active_frac 0.5@0s row3", "GPU 1 gr_active_frac 0.6@500ms row7", "GPU 0 gr_active_frac 0.25@0s row4"}, "no-time@1*1"},
		{"other fields midway", "#Entity GRACT\nID\nGPU 0 0.5\n#Entity SMACT POWER\nID\nGPU 0 0.25 300\n", nil,
			[]string{"GPU 0 gr_active_frac 0.5@0s row3", "GPU 0 sm_active_frac 0.25@1s row6", "GPU 0 power_w 300@1s row6"}, "no-time@1*1"},
		{"old spelling of the header", "# Entity  GRACT\nId\nGPU 0 0.5\n", nil, []string{"GPU 0 gr_active_frac 0.5@0s row3"}, "no-time@1*1"},
		{"stamps of a collector", "2026-07-14T08:12:53.100Z #Entity GRACT\n2026-07-14T08:12:53.100Z ID\n2026-07-14T08:12:54.100Z GPU 0 0.5\n2026-07-14T08:12:55.100Z GPU 0 0.6\n", nil,
			[]string{"GPU 0 gr_active_frac 0.5@08:12:54.100 row3", "GPU 0 gr_active_frac 0.6@08:12:55.100 row4"}, ""},
		{"Xid changes", "#Entity XIDER POWER\nID\nGPU 0 0 1\nGPU 0 79 2\nGPU 0 79 3\nGPU 0 0 4\n", nil,
			[]string{"GPU 0 power_w 1@0s row3", "GPU 0 power_w 2@1s row4", "GPU 0 power_w 3@2s row5", "GPU 0 power_w 4@3s row6", "mark 5 79 GPU 0@1s row4"}, "no-time@1*1"},
		{"old Xid", "#Entity XIDER\nID\nGPU 0 31\nGPU 0 31\nGPU 0 43\n", nil, []string{"mark 5 43 GPU 0@2s row5"}, "no-time@1*1 old-xid@3*1"},
		{"errors of NVLink add up", "#Entity NFELT DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL\nID\nGPU 0 2 3\n", nil, []string{"GPU 0 nvlink_errors_count 5@0s row3"}, "no-time@1*1"},
		{"killed while writing", "#Entity GRACT SMACT\nID\nGPU 0 0.5 0.5\nGPU 0 0.6", nil,
			[]string{"GPU 0 gr_active_frac 0.5@0s row3", "GPU 0 sm_active_frac 0.5@0s row3"}, "no-time@1*1 short-row@4*1"},
		{"killed in the last cell", "#Entity GRACT SMACT\nID\nGPU 0 0.5 0.5\nGPU 0 0.6 0.", nil,
			[]string{"GPU 0 gr_active_frac 0.5@0s row3", "GPU 0 gr_active_frac 0.6@1s row4", "GPU 0 sm_active_frac 0.5@0s row3"}, "no-time@1*1 unterminated-row@4*1"},
		{"parts of a GPU", "#Entity GRACT\nID\nGPU 0 N/A\nGPU-I 0 0.5\n", nil, []string{"GPU-I 0 gr_active_frac 0.5@0s row4"}, "no-time@1*1"},
		{"row above the header", "GPU 0 7\n#Entity POWER\nID\nGPU 0 8\n", nil, []string{"GPU 0 power_w 8@0s row4"}, "no-header@1*1 no-time@1*1"},
		{"too many values", "#Entity POWER\nID\nGPU 0 8 9\nGPU 0 8\n", nil, []string{"GPU 0 power_w 8@0s row4"}, "no-time@1*1 long-row@3*1"},
	} {
		tl, ps, err := readText(t, c.text, c.set)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
		if strings.Contains(c.text, "#Entity") && !strings.HasPrefix(c.text, "2026") && !recognises(c.text) {
			t.Errorf("%s: not recognised", c.what)
		}
	}
	for _, text := range []string{"GPU 0 7\nGPU 0 8\n", "#Entity POWER\nID\n", ""} {
		if _, _, err := readText(t, text, nil); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if _, _, err := readText(t, "#Entity POWER\n", map[string]string{"period": "x"}); err == nil {
		t.Error("period=x is taken")
	}
}

// TestRealLogs holds values that were read off the files.
func TestRealLogs(t *testing.T) {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	load := func(name string) (*timeline.Timeline, []timeline.Problem, error) {
		b, err := os.ReadFile(filepath.Join(dir, "dcgm", name))
		if err != nil {
			t.Fatal(err)
		}
		if !recognises(string(b)) {
			t.Errorf("%s: not recognised", name)
		}
		return readText(t, string(b), nil)
	}
	tl, ps, err := load("dcgmi_dmon_0.txt")
	if d := cmp.Diff([]string{
		"GPU 0 nvlink_tx_bytes_per_s 0@2s row5", "GPU 0 nvlink_tx_bytes_per_s 0@3s row6", "GPU 0 nvlink_tx_bytes_per_s 0@4s row7",
		"GPU 0 nvlink_rx_bytes_per_s 0@2s row5", "GPU 0 nvlink_rx_bytes_per_s 0@3s row6", "GPU 0 nvlink_rx_bytes_per_s 0@4s row7",
		"GPU 0 pcie_d2h_bytes_per_s 498948@2s row5", "GPU 0 pcie_d2h_bytes_per_s 449138@3s row6", "GPU 0 pcie_d2h_bytes_per_s 548740@4s row7",
		"GPU 0 pcie_h2d_bytes_per_s 1555@2s row5", "GPU 0 pcie_h2d_bytes_per_s 2074@3s row6", "GPU 0 pcie_h2d_bytes_per_s 1555@4s row7"}, shown(tl)); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if codes(ps) != "no-time@1*1" || tl.Sources[0].Rows != 5 {
		t.Errorf("problems %s, rows %d", codes(ps), tl.Sources[0].Rows)
	}
	tl, _, err = load("dcgmi_dmon_2.txt")
	if err != nil || tl.Sources[0].Rows != 16 || len(tl.Devices) != 8 {
		t.Errorf("%v, rows %d, devices %d", err, tl.Sources[0].Rows, len(tl.Devices))
	}
	var seven []string
	for _, s := range shown(tl) {
		if strings.HasPrefix(s, "GPU 7 ") {
			seven = append(seven, s)
		}
	}
	if d := cmp.Diff([]string{"GPU 7 nvlink_tx_bytes_per_s 3.057060398e+10@0s row3", "GPU 7 nvlink_tx_bytes_per_s 2.437147752e+10@1s row11",
		"GPU 7 nvlink_rx_bytes_per_s 3.0638829242e+10@0s row3", "GPU 7 nvlink_rx_bytes_per_s 2.437043148e+10@1s row11"}, seven); d != "" {
		t.Error(d)
	}
	if tl, _, err = load("dcgmi_dmon_3.txt"); err != nil || tl.Sources[0].Rows != 7 || len(shown(tl)) != 12 { // 3 rows of 4 numbers
		t.Errorf("%v, rows %d, %q", err, tl.Sources[0].Rows, shown(tl))
	}
	if _, _, err = load("dcgmi_dmon_no_header_annotated.txt"); err == nil || !strings.Contains(err.Error(), "16 rows and no header") {
		t.Errorf("%v", err)
	}
}

var seeds = []string{
	"#Entity   GRACT        SMACT        TENSO        DRAMA      \nID                                                          \nGPU 0     0.987        0.951        0.412        0.377      \nGPU 1     0.987        0.951        0.412        N/A        \nGPU 0     0.9          0.9          0.4          0.3        \n",
	"#Entity XIDER NFELT DEV_ECC_DBE_AGG_TOTAL EDVTL\nID\nGPU 0 0 1 2 3\nGPU 0 79 1 2 3\nGPU-I 0 1 1 1 1\nLINK 0 3 1 1 1 1\n",
}

func TestCuts(t *testing.T) {
	for _, s := range seeds {
		s = strings.Repeat(s, 3)
		whole, _, err := readText(t, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 200 {
			cut := len(s) * k / 200
			rows := strings.Count(s[:cut], "\n")
			tl, _, err := readText(t, s[:cut], nil)
			if err != nil {
				if rows > 3 {
					t.Errorf("cut at %d: %v", cut, err)
				}
				continue
			}
			var want, got []string
			keep := func(from []string, to *[]string) {
				for _, l := range from {
					var row int
					if _, err := fmt.Sscanf(l[strings.LastIndex(l, "row"):], "row%d", &row); err == nil && row <= rows {
						*to = append(*to, l)
					}
				}
			}
			keep(shown(whole), &want)
			keep(shown(tl), &got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("cut at %d: %s", cut, d)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(s[:len(s)*2/3]))
	}
	f.Add([]byte("#Entity A\n#Entity\nGPU\nGPU 0\nGPU 99999999999 1\nGPU x 1\nLINK a b c d e f g h i 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		recognises(string(data))
		_, _, _ = readText(t, string(data), nil)
	})
}
