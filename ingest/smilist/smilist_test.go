package smilist

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
	"gpureport/ingest/timeline"
)

var of = ingesttest.Reader{Format: Format}

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
		tl, ps, err := of.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.devices, tl.Devices); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if d := cmp.Diff(c.want, ingesttest.Shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := of.Codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
	if _, _, err := of.Read(t, "GPU 0: A\n"); err == nil {
		t.Error("no GPU, and read without complaint")
	}
}

// TestWholeCapture reads the list that stands in a real capture, the only one there is.
func TestWholeCapture(t *testing.T) {
	_, rest, ok := strings.Cut(ingesttest.Real(t, "odd", "linux-l40s__595.80__whole_capture.txt"), "# $ nvidia-smi -L\n")
	if !ok {
		t.Fatal("no list in it")
	}
	_, rest, _ = strings.Cut(rest, "\n")
	text, _, _ := strings.Cut(rest, "\n\n")
	if !recognise(ingest.Head{Text: []byte(text + "\n")}) {
		t.Errorf("not recognised: %q", text)
	}
	tl, ps, err := of.Read(t, text+"\n")
	if err != nil || len(ps) > 0 || len(tl.Devices) != 1 || tl.Devices[0].Name != "NVIDIA L40S" || tl.Devices[0].Index != 0 || tl.Devices[0].UUID != "" {
		t.Errorf("%v, %v, %+v", err, ps, tl.Devices)
	}
	ingesttest.Has(t, tl, "GPU 0: mig_devices_count=0")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("GPU 0: A (UUID: GPU-aa)\n  MIG 1g Device 0: (UUID: MIG-1)\n")) // plain
	f.Add([]byte("MIG 1g Device 0: (UUID: MIG-1)\nGPU 0: (UUID: GPU-)\n"))       // an instance of no GPU
	f.Add([]byte("GPU 9999: \xff (UUID: GPU-\x00)\n"))                           // a name that is no text
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
