package bugreport_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/bugreport"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
)

const rule = "____________________________________________\n\n"

const report = "\n" + rule + `Start of NVIDIA bug report log file.  Please include this file, along
with a detailed description of your problem, when reporting a graphics
driver bug via the NVIDIA Linux forum.

nvidia-bug-report.sh Version: 33811211

Date: Tue Jul 14 08:12:53 UTC 2026
uname: Linux node7 5.15.0-112-generic #122-Ubuntu SMP x86_64 GNU/Linux
command line flags: 

` + rule + `*** /etc/issue
*** ls: -rw-r--r-- 1 root root 26 2022-08-02 16:02:03.000000000 +0000 /etc/issue
Ubuntu 22.04.1 LTS

` + rule + `*** /var/log/Xorg.0.log does not exist

` + rule + `*** /proc/meminfo
*** ls: -r--r--r-- 1 root root 0 2026-07-14 08:12:53.000000000 +0000 /proc/meminfo
MemTotal:       1000 kB
MemFree:        500 kB

` + rule + `*** /proc/driver/nvidia/version
*** ls: -r--r--r-- 1 root root 0 2026-07-14 08:12:53.000000000 +0000 /proc/driver/nvidia/version
NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Fri Jan 1 00:00:00 UTC 2025
GCC version:  gcc version 11.4.0

` + rule + `*** /proc/driver/nvidia/./gpus/0000:3b:00.0/information
*** ls: -r--r--r-- 1 root root 0 2026-07-14 08:12:53.000000000 +0000 /proc/driver/nvidia/./gpus/0000:3b:00.0/information
Model: 		 NVIDIA A100-SXM4-80GB
IRQ:   		 300
GPU UUID: 	 GPU-509665ad-b600-ac93-3616-d754b23d636d
Video BIOS: 	 92.00.45.00.03
Bus Type: 	 PCIe
Bus Location: 	 0000:3b:00.0

` + rule + `/usr/bin/dmesg

[    5.000000] usb 1-1: new device
[    6.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.

` + rule + `/usr/bin/numactl -H

available: 1 nodes (0)
node 0 cpus: 0 1
node 0 size: 1 MB

` + rule + `End of NVIDIA bug report log file.
`

// list opens files of the given texts and gives what is listed, by path.
func list(t *testing.T, files map[string]string) (*ingest.Set, *timeline.Timeline, []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			z := gzip.NewWriter(f)
			_, _ = z.Write([]byte(text))
			_ = z.Close()
		} else {
			_, _ = f.WriteString(text)
		}
		_ = f.Close()
	}
	s, err := ingest.Open([]string{dir}, formats.List, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	base, err := s.ReadBase(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
	var out []string
	for _, src := range base.Sources {
		out = append(out, fmt.Sprintf("%s %s %d rows, used %v, host %s", src.Path, src.Format, src.Rows, src.Used, src.Host))
	}
	return s, base, out
}

func TestReport(t *testing.T) {
	for _, name := range []string{"nvidia-bug-report.log", "nvidia-bug-report.log.gz"} {
		_, base, got := list(t, map[string]string{name: report})
		if d := cmp.Diff([]string{
			name + " nvidia-bug-report 9 rows, used true, host node7",
			name + "!/dmesg kernel-log 2 rows, used true, host node7",
			name + "!/numactl-H numactl 3 rows, used true, host node7",
		}, got); d != "" {
			t.Error(d)
		}
		if len(base.Devices) != 2 || base.Devices[0].UUID != "GPU-509665ad-b600-ac93-3616-d754b23d636d" || base.Devices[0].Bus != base.Devices[1].Bus {
			t.Errorf("%+v", base.Devices)
		}
		if m := base.Marks; len(m.At) != 1 || m.Kind[0] != timeline.MarkXid || m.Code[0] != 79 || m.Row[0] != 2 {
			t.Errorf("%+v", m)
		}
		attrs := map[string]string{} // of two that state one, the later: numactl's memory
		for _, a := range base.Attrs {
			attrs[a.Name] = fmt.Sprintf("%s%g row %d", a.Text, a.Value, a.Row)
		}
		if d := cmp.Diff(map[string]string{"kernel": "5.15.0-112-generic0 row 11", "memory_bytes": "1.048576e+06 row 3", "driver_version": "570.86.150 row 35", "vbios_version": "92.00.45.00.030 row 42",
			"cpus_count": "2 row 1", "numa_nodes_count": "1 row 1", "numa_cpus": "0:0-10 row 1"}, attrs); d != "" {
			t.Error(d)
		}
		var said []string
		for _, p := range base.Problems {
			said = append(said, p.Code+" "+p.Message)
		}
		if d := cmp.Diff([]string{"ingest/unread-parts 2 of its 4 parts are of no format that is read, etc/issue, End-of-NVIDIA-bug-report-log-file."}, said); d != "" {
			t.Error(d)
		}
		c := base.Clocks[0]
		if !c.Zoned || c.How != timeline.Recorded || len(base.Sources[0].Coverage) != 1 || base.Sources[0].Coverage[0].Start != 1784016773e9 {
			t.Errorf("%+v, %v", c, base.Sources[0].Coverage)
		}
	}
}

func TestCapture(t *testing.T) {
	const bar = "################################################################################\n"
	_, _, got := list(t, map[string]string{"capture.txt": bar + "# some capture\n# of a host\n" + bar + "collected_at:   2026-07-03T08:33:38Z\nkernel: 6.1\n\n" +
		bar + "# idle :: query\n# $ nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv\n" + bar + "timestamp, index, power.draw [W]\n2026/07/03 08:33:40.000, 0, 5 W\n\n" +
		bar + "# help\n" + bar + "usage: none\n"})
	if d := cmp.Diff([]string{"capture.txt smi-capture 3 rows, used true, host ", "capture.txt!/idle-query smiquery 1 rows, used true, host "}, got); d != "" {
		t.Error(d)
	}
}

func TestRealCapture(t *testing.T) {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	s, err := ingest.Open([]string{filepath.Join(dir, "odd", "linux-l40s__595.80__whole_capture.txt")}, formats.List, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	base, err := s.ReadBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, src := range base.Sources {
		_, part, _ := strings.Cut(src.Path, "!/")
		got = append(got, fmt.Sprintf("%s %s %d", part, src.Format, src.Rows))
	}
	// Rows counted by hand in the file, between its lines of #.
	want := []string{" smi-capture 27", "capabilities-list-L smi-list 1", "capabilities-nvlink-s nvlink 1", "capabilities-topo-m topo 1",
		"idle-dmon-per-device-monitor-incl.-PCIe-rx-tx dmon 5", "idle-nvidia-smi-default-table smi-table 1", "idle-pmon-per-process-monitor pmon 5",
		"idle-query-accounted-apps smi-apps 3", "idle-query-compute-apps-per-process smi-apps 0", "idle-query-gpu-csv-what-the-exporter-parses smiquery 1", "idle-query-q smi-q 1", "idle-query-retired-pages smi-apps 2",
		"load-dmon-per-device-monitor-incl.-PCIe-rx-tx dmon 5", "load-nvidia-smi-default-table smi-table 1", "load-pmon-per-process-monitor pmon 10",
		"load-query-accounted-apps smi-apps 5", "load-query-compute-apps-per-process smi-apps 2", "load-query-gpu-csv-what-the-exporter-parses smiquery 1", "load-query-q smi-q 1", "load-query-retired-pages smi-apps 2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestCuts cuts a report anywhere: no cut may break the listing of what lies before it.
func TestCuts(t *testing.T) {
	for k := range 40 {
		cut := len(report) * k / 40
		_, base, got := list(t, map[string]string{"r.log": report[:cut]})
		if strings.Contains(report[:cut], "[    6.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n") && (len(got) < 2 || len(base.Marks.At) != 1) {
			t.Errorf("cut at %d: %q, %d marks", cut, got, len(base.Marks.At))
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(report))
	f.Add([]byte(report[:len(report)/2]))
	f.Add([]byte("####################\n# a capture\n####################\nx\n####################\n####################\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, fm := range []ingest.Format{bugreport.Format, bugreport.Capture} {
			_ = fm.Recognise(ingest.Head{Name: "x", Raw: data, Text: data})
			_ = fm.Split(bytes.NewReader(data), func(name string, text io.Reader) error { _, err := io.Copy(io.Discard, text); return err })
			in := ingest.NewInput("x", func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, nil)
			b := ingest.NewBuilder(in, fm.Name)
			_ = fm.Read(context.Background(), in, b)
			if err := b.Finish().Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}

// dmesg, journal and syslog of one report hold the same Xids: each is one event, and all its rows are kept.
func TestOneXidInThreeSectionsIsOne(t *testing.T) {
	xid := func(code string) string {
		return "NVRM: Xid (PCI:0000:3b:00): " + code + ", pid=4711, name=python, GPU error."
	}
	dmesg := "[   10.000000] usb 1-1: new device\n[   50.000000] " + xid("94") + "\n[   90.000000] " + xid("94") + "\n[  100.000000] usb 1-2: new device\n"
	journal := "-- Logs begin --\n" +
		"2026-07-14T08:10:00.000000+0000 node7 kernel: usb 1-1: new device\n2026-07-14T08:10:40.000000+0000 node7 kernel: " + xid("94") + "\n" +
		"2026-07-14T08:11:20.000000+0000 node7 kernel: " + xid("94") + "\n2026-07-14T08:11:25.000000+0000 node7 kernel: " + xid("48") + "\n2026-07-14T08:12:00.000000+0000 node7 kernel: usb 1-2: new device\n"
	text := strings.Replace(report, "[    5.000000] usb 1-1: new device\n[    6.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n", dmesg, 1)
	text = strings.Replace(text, rule+"/usr/bin/numactl -H", rule+"/usr/bin/journalctl -b 0 -k --no-hostname\n\n"+journal+"\n"+rule+"/usr/bin/numactl -H", 1)
	_, base, files := list(t, map[string]string{"nvidia-bug-report.log": text})
	ingest.Place(base, nil, ingest.Options{})
	m := ingest.Match(base, nil)
	if len(m.Cards) != 1 {
		t.Fatalf("%d cards, want one: %v", len(m.Cards), files)
	}
	got := map[string]int{}
	for i := range base.Marks.At {
		if base.Marks.Kind[i] != timeline.MarkXid {
			continue
		}
		if got[fmt.Sprintf("%d in all", base.Marks.Code[i])]++; base.Lead(i) == i {
			got[fmt.Sprintf("%d", base.Marks.Code[i])]++
		} else if lead := base.Lead(i); base.Lead(lead) != lead || base.Marks.Code[lead] != base.Marks.Code[i] {
			t.Errorf("mark %d repeats %d", i, lead)
		}
	}
	if d := cmp.Diff(map[string]int{"94": 2, "94 in all": 4, "48": 1, "48 in all": 1}, got); d != "" {
		t.Errorf("%s\n%v", d, files)
	}
}
