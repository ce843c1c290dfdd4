package sminvlink

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
)

var of = ingesttest.Reader{Format: Format}

const h100 = "GPU 0: NVIDIA H100 (UUID: GPU-aa)\n"

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"status", h100 + "\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 26.562 GB/s\n",
			[]string{"GPU 0: nvlink_bytes_per_s=26562000000", "GPU 0: nvlink_total_bytes_per_s=53124000000", "GPU 0: nvlink_up=101", "GPU 0: nvlink_up_count 2@0s", "GPU 0: nvlinks_count=3"}, ""},
		{"one link is slow", h100 + " Link 0: 25 GB/s\n Link 1: 12.5 GB/s\n",
			[]string{"GPU 0: nvlink_bytes_per_s=25000000000", "GPU 0: nvlink_total_bytes_per_s=37500000000", "GPU 0: nvlink_up=11", "GPU 0: nvlink_up_count 2@0s", "GPU 0: nvlinks_count=2"}, "slow-link@1*1"},
		{"errors", h100 + "\t Link 0: Replay Errors: 1\n\t Link 0: Recovery Errors: 2\n\t Link 0: CRC Errors: 4\n\n\t Link 1: Replay Errors: 8\n\t Link 1: Symbol Errors: 9999\n\t Link 1: Effective BER: 15e-255\n",
			[]string{"GPU 0: nvlink_errors_count 15@0s"}, ""},
		{"errors not supported", h100 + "\t Link 0: Replay Errors: N/A\n", nil, ""},
		{"capabilities", h100 + "\t Link 0, P2P is supported: true\n\t Link 0, SLI is supported: false\n\t Link 1, P2P is supported: true\n\t Link 1, SLI is supported: true\n",
			[]string{"GPU 0: nvlink_caps=P2P: yes; SLI: 1 of 2 links"}, ""},
		{"bytes carried", h100 + "\t Link 0: Data Tx: 3 KiB\n\t Link 0: Data Rx: 5 KiB\n\t Link 1: Data Tx: 1 KiB\n\t Link 1: Data Rx: 0 KiB\n",
			[]string{"GPU 0: nvlink_rx_bytes 5120@0s", "GPU 0: nvlink_tx_bytes 4096@0s"}, ""},
		{"two calls", h100 + " Link 0: 25 GB/s\n Link 1: 25 GB/s\n" + h100 + " Link 0: CRC Errors: 0\n Link 1: CRC Errors: 0\n" + h100 + " Link 0: 25 GB/s\n Link 1: <inactive>\n" + h100 + " Link 0: CRC Errors: 7\n Link 1: CRC Errors: 0\n",
			[]string{"GPU 0: nvlink_bytes_per_s=25000000000", "GPU 0: nvlink_errors_count 0@0s", "GPU 0: nvlink_errors_count 7@1s", "GPU 0: nvlink_total_bytes_per_s=25000000000",
				"GPU 0: nvlink_total_bytes_per_s=50000000000", "GPU 0: nvlink_up=10", "GPU 0: nvlink_up=11", "GPU 0: nvlink_up_count 1@1s", "GPU 0: nvlink_up_count 2@0s", "GPU 0: nvlinks_count=2"}, ""},
		{"MIG", h100 + "Nvlink queries are not supported for Devices in MIG mode\n", []string{"GPU 0: nvlink_state=Nvlink queries are not supported for Devices in MIG mode"}, ""},
		{"none", h100 + "Device does not have or support Nvlink\n", []string{"GPU 0: nvlink_state=Device does not have or support Nvlink", "GPU 0: nvlinks_count=0"}, ""},
		{"impossible", h100 + " Link 0: 0 GB/s\n Link 99: 25 GB/s\n Link 1: CRC Errors: many\n", nil, "bad-value@2*3"},
		{"the last line lacks its end", h100 + " Link 0: 25 GB/s\n Link 1: 25 GB/s", []string{"GPU 0: nvlink_bytes_per_s=25000000000", "GPU 0: nvlink_total_bytes_per_s=50000000000", "GPU 0: nvlink_up=11", "GPU 0: nvlink_up_count 2@0s", "GPU 0: nvlinks_count=2"}, ""},
		{"cut in a number", h100 + " Link 0: CRC Errors: 3\n Link 1: CRC Errors: 1", nil, "unterminated-row@3*1"},
		{"cut in the last GPU", h100 + " Link 0: 25 GB/s\n Link 1: 25 GB/s\nGPU 1: NVIDIA H100 (UUID: GPU-bb)\n Link 0: 25 GB/s\n",
			[]string{"GPU 0: nvlink_bytes_per_s=25000000000", "GPU 0: nvlink_total_bytes_per_s=50000000000", "GPU 0: nvlink_up=11", "GPU 0: nvlink_up_count 2@0s", "GPU 0: nvlinks_count=2"}, "short-list@4*1"},
		{"stray lines", "$ nvidia-smi nvlink -s\n" + h100 + "Killed\n", nil, "stray-line@1*2"},
	} {
		tl, ps, err := of.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, ingesttest.Shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := of.Codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
		if d := tl.Devices[0]; d.UUID != "GPU-aa" || d.Index != 0 || d.Name != "NVIDIA H100" {
			t.Errorf("%s: %+v", c.what, d)
		}
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "GPU 0: NVIDIA", "Link 0: 25 GB/s\n"} {
		if _, _, err := of.Read(t, text); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

// TestRealStatus holds numbers read off the files by hand.
func TestRealStatus(t *testing.T) {
	for _, c := range []struct {
		name string
		gpus int
		uuid string // of the last
		want []string
	}{
		{"gpud_a100_status.txt", 8, "GPU-754035b4-4708-efcd-b261-623aea38bcad", []string{"GPU 0: nvlink_up_count 12@0s", "GPU 7: nvlink_up_count 12@0s", "GPU 7: nvlink_bytes_per_s=25000000000", "GPU 3: nvlink_total_bytes_per_s=300000000000", "GPU 6: nvlinks_count=12"}},
		{"linux-h100-80gb-hbm3__590.48.01__capabilities.txt", 1, "", []string{"GPU 0: nvlink_up_count 18@0s", "GPU 0: nvlink_bytes_per_s=26562000000", "GPU 0: nvlink_up=111111111111111111"}},
		{"linux-h200-mig__590.48.01__capabilities.txt", 1, "", []string{"GPU 0: nvlink_state=Nvlink queries are not supported for Devices in MIG mode"}},
		{"linux-l40s__595.80__capabilities.txt", 1, "", []string{"GPU 0: nvlinks_count=0"}},
		{"linux-rtx-2080-super__595.71.05__capabilities.txt", 1, "", []string{"GPU 0: nvlink_up_count 0@0s"}},
		{"linux-rtx-4080-super__595.71.05__capabilities.txt", 1, "", []string{"GPU 0: nvlinks_count=0"}},
	} {
		tl, ps, err := of.Read(t, ingesttest.Real(t, "nvlink", c.name))
		if err != nil || len(ps) > 0 || len(tl.Devices) != c.gpus || tl.Devices[len(tl.Devices)-1].UUID != c.uuid {
			t.Errorf("%s: %v, %v, %+v", c.name, err, ps, tl.Devices)
		}
		ingesttest.Has(t, tl, c.want...)
	}
}

func TestCutAnywhere(t *testing.T) {
	text := "GPU 0: NVIDIA H100 (UUID: GPU-aa)\n\t Link 0: Replay Errors: 10\n\t Link 1: Replay Errors: 32\nGPU 1: NVIDIA H100 (UUID: GPU-bb)\n\t Link 0: 25 GB/s\n\t Link 1: 25 GB/s\n"
	for k := range 200 {
		tl, _, _ := of.Read(t, text[:len(text)*k/200])
		for _, s := range ingesttest.Shown(tl) {
			if strings.Contains(s, "errors") && s != "GPU 0: nvlink_errors_count 42@0s" && s != "GPU 0: nvlink_errors_count 10@0s" || strings.Contains(s, "bytes_per_s") && !strings.Contains(s, "=25000000000") && !strings.Contains(s, "=50000000000") {
				t.Errorf("cut at %d of 200: %s", k, s)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(h100 + " Link 0: 25 GB/s\n"))                                // plain
	f.Add([]byte(h100 + " Link 999: <inactive>\n Link 0: 1e999 GB/s\n"))      // numbers out of range
	f.Add([]byte(h100 + " Link 0: : : \n Link 0, \n Link 0: Data Tx: 9 KiB")) // pieces
	f.Add([]byte("GPU 9999: (UUID: GPU-)\nnvlink\nGPU 0: x (UUID: MIG-)\n"))  // hardly an identity
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
