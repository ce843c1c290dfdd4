package smilist

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

func readText(t testing.TB, text string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("x.log", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, nil)
	b := ingest.NewBuilder(in, Format.Name)
	err := Format.Read(context.Background(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	return tl, in.Problems(), err
}

// shown prints readings and attributes as "GPU 0: power_w 60@08:12:53" and "GPU 0: mig_mode=enabled", by track in the order of their making.
func shown(tl *timeline.Timeline) []string {
	var out []string
	for id, tr := range tl.Tracks {
		var of []string
		for i := range tl.Series {
			s := &tl.Series[i]
			for j := range s.At {
				if s.Track == timeline.TrackID(id) {
					of = append(of, fmt.Sprintf("%s: %s %.13g@%s", tr.Name, s.Metric.Name, s.Value[j], stamp(s.At[j])))
				}
			}
		}
		for _, a := range tl.Attrs {
			switch {
			case a.Track != timeline.TrackID(id):
			case a.Unit == unit.Text:
				of = append(of, tr.Name+": "+a.Name+"="+a.Text)
			default:
				of = append(of, fmt.Sprintf("%s: %s=%.13g", tr.Name, a.Name, a.Value))
			}
		}
		slices.Sort(of)
		out = append(out, of...)
	}
	return out
}

func stamp(at timeline.Time) string {
	if at < 1e17 {
		return time.Duration(at).String()
	}
	return time.Unix(0, int64(at)).UTC().Format("15:04:05.999")
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, Format.Name+"/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

// real gives the text of a real file; the test is skipped aloud without them.
func real(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	b, err := os.ReadFile(filepath.Join(dir, "odd", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// has tells which of the wanted lines are not shown.
func has(t *testing.T, tl *timeline.Timeline, want ...string) {
	t.Helper()
	got := shown(tl)
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no %q", w)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		devices    []timeline.Device
		want       []string
		problems   string
	}{
		{"two GPUs", "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n",
			[]timeline.Device{{UUID: "GPU-aa", Name: "NVIDIA H100 80GB HBM3", Index: 0, Ordinal: -1, Proc: -1, Vendor: "nvidia"}, {Name: "NVIDIA H100 80GB HBM3", Index: 1, Ordinal: -1, Proc: -1, Vendor: "nvidia"}},
			[]string{"GPU 0: mig_devices_count=0", "GPU 1: mig_devices_count=0"}, ""},
		{"MIG", "GPU 2: NVIDIA A100 (UUID: GPU-bb)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n  MIG 3g.40gb     Device  1: (UUID: MIG-2)\n",
			[]timeline.Device{{UUID: "GPU-bb", Name: "NVIDIA A100", Index: 2, Ordinal: -1, Proc: -1, Vendor: "nvidia"}},
			[]string{"GPU 2: mig_devices_count=2", "GPU 2: mig_profiles=1g.10gb 3g.40gb", "GPU 2: mig_uuids=MIG-1 MIG-2"}, ""},
		{"the list twice", "GPU 0: A (UUID: GPU-aa)\n  MIG 1g Device 0: (UUID: MIG-1)\nGPU 0: A (UUID: GPU-aa)\n  MIG 1g Device 0: (UUID: MIG-1)\n",
			[]timeline.Device{{UUID: "GPU-aa", Name: "A", Index: 0, Ordinal: -1, Proc: -1, Vendor: "nvidia"}},
			[]string{"GPU 0: mig_devices_count=1", "GPU 0: mig_profiles=1g", "GPU 0: mig_uuids=MIG-1"}, ""},
		{"cut", "GPU 0: A (UUID: GPU-aa)\nGPU 1: A (UUID: GP", []timeline.Device{{UUID: "GPU-aa", Name: "A", Index: 0, Ordinal: -1, Proc: -1, Vendor: "nvidia"}},
			[]string{"GPU 0: mig_devices_count=0"}, "stray-line@2*1"},
	} {
		tl, ps, err := readText(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.devices, tl.Devices); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if d := cmp.Diff(c.want, shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
	if _, _, err := readText(t, "GPU 0: A\n"); err == nil {
		t.Error("no GPU, and read without complaint")
	}
}

// TestWholeCapture reads the list that stands in a real capture, the only one there is.
func TestWholeCapture(t *testing.T) {
	_, rest, ok := strings.Cut(real(t, "linux-l40s__595.80__whole_capture.txt"), "# $ nvidia-smi -L\n")
	if !ok {
		t.Fatal("no list in it")
	}
	_, rest, _ = strings.Cut(rest, "\n")
	text, _, _ := strings.Cut(rest, "\n\n")
	if !recognise(ingest.Head{Text: []byte(text + "\n")}) {
		t.Errorf("not recognised: %q", text)
	}
	tl, ps, err := readText(t, text+"\n")
	if err != nil || len(ps) > 0 || len(tl.Devices) != 1 || tl.Devices[0].Name != "NVIDIA L40S" || tl.Devices[0].Index != 0 || tl.Devices[0].UUID != "" {
		t.Errorf("%v, %v, %+v", err, ps, tl.Devices)
	}
	has(t, tl, "GPU 0: mig_devices_count=0")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("GPU 0: A (UUID: GPU-aa)\n  MIG 1g Device 0: (UUID: MIG-1)\n")) // plain
	f.Add([]byte("MIG 1g Device 0: (UUID: MIG-1)\nGPU 0: (UUID: GPU-)\n"))       // an instance of no GPU
	f.Add([]byte("GPU 9999: \xff (UUID: GPU-\x00)\n"))                           // a name that is no text
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = readText(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
