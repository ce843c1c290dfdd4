package kernlog

import (
	"bytes"
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
)

func readText(t testing.TB, text string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("dmesg.log", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, nil)
	b := ingest.NewBuilder(in, Format.Name)
	err := read(context.Background(), in, b)
	b.SealSeries()
	tl := b.Finish()
	if verr := tl.Validate(); verr != nil {
		t.Errorf("%v", verr)
	}
	return tl, in.Problems(), err
}

var kindNames = map[timeline.MarkKind]string{timeline.MarkXid: "xid", timeline.MarkSXid: "sxid", timeline.MarkGPULost: "lost", timeline.MarkOOM: "oom", timeline.MarkOutput: "said"}

// shown gives marks and attributes, times as the log's clock has them.
func shown(tl *timeline.Timeline) []string {
	var out []string
	clock := tl.Clocks[0]
	stamp := func(at timeline.Time) string {
		switch {
		case clock.Boot || !clock.Wall:
			return time.Duration(at).String()
		}
		return time.Unix(0, int64(at)).UTC().Format("2006-01-02T15:04:05.999999")
	}
	m := &tl.Marks
	for i := range m.At {
		tr := &tl.Tracks[m.Track[i]]
		out = append(out, fmt.Sprintf("%s %d | %s | %s | %s | row %d", kindNames[m.Kind[i]], m.Code[i], tr.Name, stamp(m.At[i]), tl.Names.Get(m.Name[i]), m.Row[i]))
	}
	for _, a := range tl.Attrs {
		out = append(out, fmt.Sprintf("%s %s%g | %s | row %d", a.Name, a.Text, a.Value, tl.Tracks[a.Track].Name, a.Row))
	}
	return out
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "kernel-log/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

const xid79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus."

// TestStamps reads one Xid behind every form of stamp.
func TestStamps(t *testing.T) {
	for _, c := range []struct {
		what, prefix string
		want         string // instant of the mark
		host         string
		clock        string
	}{
		{"dmesg", "[12345.678901] ", "3h25m45.678901s", "", "boot"},
		{"dmesg, young", "[    1.000000] ", "1s", "", "boot"},
		{"with level", "<4>[12345.678901] ", "3h25m45.678901s", "", "boot"},
		{"with caller", "[12345.678901][ T1234] ", "3h25m45.678901s", "", "boot"},
		{"with CPU", "[12345.678901] [   C12] ", "3h25m45.678901s", "", "boot"},
		{"dmesg -x", "kern  :err   : [12345.678901] ", "3h25m45.678901s", "", "boot"},
		{"dmesg -T", "[Tue Jul 14 08:12:53 2026] ", "2026-07-14T08:12:53", "", "wall"},
		{"dmesg -T, one-digit day", "[Sat Jul  4 08:12:53 2026] ", "2026-07-04T08:12:53", "", "wall"},
		{"dmesg -x -T", "kern  :warn  : [Tue Jul 14 08:12:53 2026] ", "2026-07-14T08:12:53", "", "wall"},
		{"dmesg --time-format iso", "2026-07-14T08:12:53,123456+02:00 ", "2026-07-14T06:12:53.123456", "", "zoned"},
		{"journalctl short", "Jul 14 08:12:53 node7 kernel: ", "2000-07-14T08:12:53", "node7", "no year"},
		{"journalctl short-precise", "Jul 14 08:12:53.123456 node7 kernel: ", "2000-07-14T08:12:53.123456", "node7", "no year"},
		{"journalctl short-iso", "2026-07-14T08:12:53+0200 node7 kernel: ", "2026-07-14T06:12:53", "node7", "zoned"},
		{"journalctl short-iso-precise", "2026-07-14T08:12:53.123456+0200 node7 kernel: ", "2026-07-14T06:12:53.123456", "node7", "zoned"},
		{"journalctl short-full", "Tue 2026-07-14 08:12:53 UTC node7 kernel: ", "2026-07-14T08:12:53", "node7", "zoned"},
		{"journalctl short-full, named zone", "Tue 2026-07-14 08:12:53 CEST node7 kernel: ", "2026-07-14T08:12:53", "node7", "wall"},
		{"journalctl short-unix", "1784016773.123456 node7 kernel: ", "2026-07-14T08:12:53.123456", "node7", "zoned"},
		{"journalctl short-monotonic", "[12345.678901] node7 kernel: ", "3h25m45.678901s", "node7", "boot"},
		{"syslog with boot time", "Jul 14 08:12:53 node7 kernel: [12345.678901] ", "2000-07-14T08:12:53", "node7", "no year"},
		{"rsyslog, RFC 3339", "2026-07-14T08:12:53.123456+02:00 node7 kernel: [12345.678901] ", "2026-07-14T06:12:53.123456", "node7", "zoned"},
		{"RFC 5424", "<4>1 2026-07-14T08:12:53.123456Z node7 kernel - - - ", "2026-07-14T08:12:53.123456", "node7", "zoned"},
		{"RFC 5424 with data", `<4>1 2026-07-14T08:12:53Z node7 kernel - - [meta x="1"] `, "2026-07-14T08:12:53", "node7", "zoned"},
		{"container runtime", "2026-07-14T08:12:53.123456789Z stdout F [12345.678901] ", "2026-07-14T08:12:53.123456", "", "zoned"},
		{"docker -t", "2026-07-14T08:12:53.123456789Z [12345.678901] ", "2026-07-14T08:12:53.123456", "", "zoned"},
		{"day and time with blanks", "2026-07-14 08:12:53 node7 kernel: ", "2026-07-14T08:12:53", "node7", "wall"},
	} {
		text := c.prefix + "usb 1-1: new device\n" + c.prefix + xid79 + "\n"
		tl, ps, err := readText(t, text)
		if err != nil || codes(ps) != "" {
			t.Errorf("%s: %v, problems %s", c.what, err, codes(ps))
		}
		clock := tl.Clocks[0]
		kind := map[[4]bool]string{{true}: "boot", {false, true}: "wall", {false, true, false, true}: "no year", {false, true, true}: "zoned"}[[4]bool{clock.Boot, clock.Wall, clock.Zoned, strings.HasPrefix(clock.Why, ingest.YearUnknown)}]
		if kind != c.clock || (clock.How == timeline.Recorded) != clock.Zoned {
			t.Errorf("%s: clock %s, want %s: %+v", c.what, kind, c.clock, clock)
		}
		want := fmt.Sprintf("xid 79 | GPU 0000:3b:00 | %s | GPU has fallen off the bus. (python, pid 4711) | row 2", c.want)
		if got := shown(tl); len(got) < 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", c.what, got, want)
		}
		if src := tl.Sources[0]; src.Host != c.host || src.Rows != 2 || len(src.Coverage) != 1 {
			t.Errorf("%s: host %q, rows %d, coverage %v", c.what, src.Host, src.Rows, src.Coverage)
		}
		if !recognises(text) {
			t.Errorf("%s: not recognised", c.what)
		}
	}
}

func recognises(text string) bool {
	raw := []byte(text)
	return recognise(ingest.Head{Name: "x.log", Raw: raw[:min(len(raw), ingest.HeadSize)], Text: raw[:min(len(raw), ingest.HeadSize)]})
}

func TestRecognise(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       bool
	}{
		{"dmesg without the driver", "[    0.000000] Linux version 6.1.0\n[    0.000000] Command line: BOOT_IMAGE=/vmlinuz\n[    1.200000] pci 0000:00:00.0: x\n", true},
		{"syslog without the kernel", strings.Repeat("Jul 14 08:12:53 node7 sshd[12]: session opened\n", 6), true},
		{"one line of syslog that is no kernel's", "Jul 14 08:12:53 node7 sshd[12]: session opened\n", false},
		{"journalctl remarks", "-- Logs begin at Tue 2026-07-14. --\nJul 14 08:12:53 node7 kernel: a\nJul 14 08:12:54 node7 kernel: b\n", true},
		{"bare lines of the driver", xid79 + "\n", true},
		{"journal in JSON", `{"__REALTIME_TIMESTAMP":"1","MESSAGE":"a"}` + "\n", true},
		{"training log with ISO stamps", strings.Repeat("2026-07-14T08:12:53+00:00 INFO step 3 loss 2.5\n", 20), false},
		{"training log with ISO stamps and colons", strings.Repeat("2026-07-14T08:12:53+00:00 step: 3 loss: 2.5\n", 20), false},
		{"training log with levels and modules", strings.Repeat("2026-07-14T08:12:53+00:00 INFO trainer: step 3\n", 20), false},
		{"python's log", strings.Repeat("2026-07-14 08:12:53,123 INFO trainer: step 3\n", 20), false},
		{"training log with dates", strings.Repeat("2026-07-14 08:12:53,123 - root - INFO - step 3\n", 20), false},
		{"training log that quotes an Xid", strings.Repeat("step 3 loss 2.5\n", 30) + xid79 + "\n", false},
		{"a program's own seconds", strings.Repeat("[   12.345] step 3\n", 10), false},
		{"deepspeed", strings.Repeat("[2026-07-14 08:12:53,123] [INFO] [engine.py:12] step\n", 10), false},
		{"JSON", `{"traceEvents": []}` + "\n", false},
		{"prose", "The NVRM: prefix marks lines of the driver.\nA log has more of them.\nThis is none.\nNor this.\n", false},
		{"empty", "", false},
		{"glog", strings.Repeat("I0714 08:12:53.123456 1234 file.cc:12] step 3\n", 10), false},
	} {
		if got := recognises(c.text); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestEvents reads each kind of message once, behind a boot stamp.
func TestEvents(t *testing.T) {
	for _, c := range []struct{ msg, want string }{
		{"NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7fc1_23456000. Fault is of type FAULT_PTE",
			"xid 31 | GPU 0000:3b:00 | Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ (address). Fault is of type FAULT_PTE (python, pid 4711)"},
		{"NVRM: Xid (0000:03:00): 14, Channel 00000001", "xid 14 | GPU 0000:03:00 | Channel 00000001"},
		{"NVRM: Xid (PCI:0000:3B:00.0): 45", "xid 45 | GPU 0000:3b:00 | "},
		{"NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", "xid 149 | GPU 0018:01:00 | NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"},
		{"NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "xid 79 | GPU 0000:05:00 | GPU has fallen off the bus."},
		{"NVRM: Xid (PCI:0000:05:00): 13, pid='123', name=/usr/bin/python train.py --secret, Graphics Exception", "xid 13 | GPU 0000:05:00 | Graphics Exception (python, pid 123)"},
		{"NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", "lost 0 | GPU 0000:29:00 | NVRM: GPU 0000:29:00.0: GPU has fallen off the bus."},
		{"NVRM: GPU 0000:29:00.0: RmInitAdapter failed! (0x26:0x65:1457)", "said 0 | GPU 0000:29:00 | NVRM: GPU 0000:29:00.0: RmInitAdapter failed! (0x26:0x65:1457)"},
		{"NVRM: rm_init_adapter failed, device minor number 0", "said 0 | kernel | NVRM: rm_init_adapter failed, device minor number 0"},
		{"NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).  The GPU likely needs to be reset.",
			"said 0 | GPU 0000:9b:00 | NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30). The GPU likely needs to be reset."},
		{"NVRM: GPU4 RPC history (CPU -> GSP):", ""},
		{"NVRM:      0    103  GSP_RM_ALLOC          0x0000000000002081 0x0000000000000004", ""},
		{"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 63 LTSSM Fault Up", "sxid 20034 | kernel | NVSwitch 0 at 0000:05:00: Fatal, Link 63 LTSSM Fault Up"},
		{"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Data {0x10000000, 0x10000000}", ""},
		{"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 62 Sub-engine instance 00", ""},
		{"nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", "said 0 | GPU 0000:3b:00 | nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"},
		{"pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)", "said 0 | kernel | pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"},
		{"pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "said 0 | kernel | pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0"},
		{"pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0", ""},
		{"mce: [Hardware Error]: Machine check events logged", "said 0 | kernel | mce: [Hardware Error]: Machine check events logged"},
		{"{1}[Hardware Error]: event severity: corrected", "said 0 | kernel | {1}[Hardware Error]: event severity: corrected"},
		{"{1}[Hardware Error]:  physical_address: 0x0000001234567890", ""},
		{"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x123)", "said 0 | kernel | EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x123)"},
		{"CPU12: Core temperature above threshold, cpu clock throttled (total events = 1)", "said 0 | kernel | CPU12: Core temperature above threshold, cpu clock throttled (total events = 1)"},
		{"CPU12: Core temperature/speed normal", ""},
		{"INFO: task python:4711 blocked for more than 120 seconds.", "said 0 | kernel | INFO: task python:4711 blocked for more than 120 seconds."},
		{"watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python:4711]", "said 0 | kernel | watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python:4711]"},
		{"rcu: INFO: rcu_sched self-detected stall on CPU", "said 0 | kernel | rcu: INFO: rcu_sched self-detected stall on CPU"},
		{"Out of memory: Killed process 4711 (python) total-vm:94371840kB, anon-rss:91234567kB, file-rss:0kB", "oom 0 | kernel | killed python, pid 4711: out of memory total-vm:94371840kB, anon-rss:91234567kB, file-rss:0kB"},
		{"Memory cgroup out of memory: Killed process 4711 (pt_data_worker) total-vm:1kB", "oom 0 | kernel | killed pt_data_worker, pid 4711: out of the memory its cgroup allows total-vm:1kB"},
		{"Out of memory: Kill process 4711 (python) score 900 or sacrifice child", ""},
		{"python invoked oom-killer: gfp_mask=0x100cca, order=0", ""},
		{"nfs: server 10.1.2.3 not responding, still trying", "said 0 | kernel | nfs: server (address) not responding, still trying"},
		{"nfs: server nas1 OK", "said 0 | kernel | nfs: server nas1 OK"},
		{"blk_update_request: I/O error, dev sdb, sector 12345", "said 0 | kernel | blk_update_request: I/O error, dev sdb, sector 12345"},
		{"nvme nvme0: I/O 12 QID 4 timeout, aborting", "said 0 | kernel | nvme nvme0: I/O 12 QID 4 timeout, aborting"},
		{"nvme nvme0: 16/0/0 default/read/poll queues", ""},
		{"EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python: reading directory lblock 0", "said 0 | kernel | EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python: reading directory lblock 0"},
		{"EXT4-fs (sda1): mounted filesystem with ordered data mode", ""},
		{"mlx5_core 0000:5e:00.0 ens1f0: Link down", "said 0 | kernel | mlx5_core 0000:5e:00.0 ens1f0: Link down"},
		{"igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Up 1000 Mbps Full Duplex", "said 0 | kernel | igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Up 1000 Mbps Full Duplex"},
		{"bond0: (slave eth0): link status definitely down, disabling slave", "said 0 | kernel | bond0: (slave eth0): link status definitely down, disabling slave"},
		{"ata1: SATA link down (SStatus 0 SControl 300)", ""},
		{"python[4711]: segfault at 7f1234567890 ip 00007f1234567890 sp 00007ffc12345678 error 4 in libnccl.so.2[7f1200000000+1000]", "said 0 | kernel | python: segfault in libnccl.so.2"},
		{"PM: suspend entry (deep)", "said 0 | kernel | PM: suspend entry (deep)"},
		{"usb 1-1: new high-speed USB device", ""},
	} {
		tl, ps, err := readText(t, "[   10.500000] "+c.msg+"\n")
		if err != nil || codes(ps) != "" {
			t.Errorf("%s: %v, %s", c.msg, err, codes(ps))
		}
		got := strings.Join(shown(tl), "\n")
		if c.want != "" {
			head, text, _ := cutLast(c.want)
			c.want = fmt.Sprintf("%s | 10.5s | %s | row 1", head, text)
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.msg, got, c.want)
		}
	}
}

// cutLast cuts "kind | track | text" before the text.
func cutLast(s string) (head, text string, ok bool) {
	a, rest, _ := strings.Cut(s, " | ")
	b, text, ok := strings.Cut(rest, " | ")
	return a + " | " + b, text, ok
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"nothing happened", "[    5.000000] usb 1-1: new device\n[    9.000000] usb 1-1: gone\n", nil, ""},
		{"UUID of the GPU", "[    5.000000] NVRM: GPU at PCI:0000:3b:00: GPU-509665ad-b600-ac93-3616-d754b23d636d\n[    6.000000] " + xid79 + "\n",
			[]string{"xid 79 | GPU 0000:3b:00 | 6s | GPU has fallen off the bus. (python, pid 4711) | row 2"}, ""},
		{"host facts", "[    0.000000] Linux version 5.15.0-112-generic (buildd@x) #122\n[    1.500000] rtc_cmos 00:00: setting system clock to 2026-07-14T08:12:53 UTC (1784016773)\n[    9.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n",
			[]string{"said 0 | kernel | 0s | the host booted: Linux version 5.15.0-112-generic | row 1", "kernel 5.15.0-112-generic0 | kernel | row 1",
				"boot_unix_s 1.7840167715e+09 | kernel | row 2", "driver_version 570.86.150 | kernel | row 3"}, ""},
		{"boot by two clocks", "2026-07-14T08:12:53.500000+00:00 n1 kernel: [   13.500000] a\n2026-07-14T08:12:54.200000+00:00 n1 kernel: [   14.000000] b\n",
			[]string{"boot_unix_s 1.78401676e+09 | n1 | row 1"}, ""},
		{"many CPUs at once", "[    5.000000] CPU1: Core temperature above threshold, cpu clock throttled (total events = 1)\n[    5.000100] CPU2: Core temperature above threshold, cpu clock throttled (total events = 1)\n[    5.000200] CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)\n[    9.000000] CPU3: Core temperature above threshold, cpu clock throttled (total events = 2)\n",
			[]string{"said 0 | kernel | 5s | CPU1: Core temperature above threshold, cpu clock throttled (total events = 1) (and 2 more like it, each within a second) | row 1",
				"said 0 | kernel | 9s | CPU3: Core temperature above threshold, cpu clock throttled (total events = 2) | row 4"}, ""},
		{"new year", "Dec 31 23:59:59 n1 kernel: " + xid79 + "\nJan  1 00:00:01 n1 kernel: " + xid79 + "\n",
			[]string{"xid 79 | GPU 0000:3b:00 | 2000-12-31T23:59:59 | GPU has fallen off the bus. (python, pid 4711) | row 1",
				"xid 79 | GPU 0000:3b:00 | 2001-01-01T00:00:01 | GPU has fallen off the bus. (python, pid 4711) | row 2"}, ""},
		{"relative", "[Jul14 08:12] " + xid79 + "\n[  +2.500000] " + xid79 + "\n[Jul14 08:14] " + xid79 + "\n",
			[]string{"xid 79 | GPU 0000:3b:00 | 2000-07-14T08:12:00 | GPU has fallen off the bus. (python, pid 4711) | row 1",
				"xid 79 | GPU 0000:3b:00 | 2000-07-14T08:12:02.5 | GPU has fallen off the bus. (python, pid 4711) | row 2",
				"xid 79 | GPU 0000:3b:00 | 2000-07-14T08:14:00 | GPU has fallen off the bus. (python, pid 4711) | row 3"}, ""},
		{"no times", xid79 + "\nNVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n",
			[]string{"xid 79 | GPU 0000:3b:00 | 1ns | GPU has fallen off the bus. (python, pid 4711) | row 1", "lost 0 | GPU 0000:3b:00 | 2ns | NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus. | row 2"}, "no-time@1*1"},
		{"two kinds of times", "[    5.000000] a\n[    6.000000] " + xid79 + "\nJul 14 08:12:53 n1 kernel: b\n",
			[]string{"xid 79 | GPU 0000:3b:00 | 2ns | GPU has fallen off the bus. (python, pid 4711) | row 2"}, "mixed-times@1*1"},
		{"a line without time", "[    5.000000] a\n" + xid79 + "\n[    6.000000] b\n",
			[]string{"xid 79 | GPU 0000:3b:00 | 5s | GPU has fallen off the bus. (python, pid 4711) | row 2"}, "untimed-line@2*1"},
		{"two boots", "[  500.000000] " + xid79 + "\n[    0.000000] Linux version 6.1.0 x\n[    9.000000] " + xid79 + "\n",
			[]string{"said 0 | kernel | 0s | the host booted: Linux version 6.1.0 | row 2", "xid 79 | GPU 0000:3b:00 | 9s | GPU has fallen off the bus. (python, pid 4711) | row 3", "kernel 6.1.00 | kernel | row 2"},
			"clock-step@1*1 several-boots@1*1"},
		{"two hosts", "Jul 14 08:12:53 n1 kernel: " + xid79 + "\nJul 14 08:12:54 n2 kernel: " + xid79 + "\n",
			[]string{"xid 79 | n1: GPU 0000:3b:00 | 2000-07-14T08:12:53 | GPU has fallen off the bus. (python, pid 4711) | row 1",
				"xid 79 | n2: GPU 0000:3b:00 | 2000-07-14T08:12:54 | GPU has fallen off the bus. (python, pid 4711) | row 2"}, "several-hosts@1*1"},
		{"no kernel line", strings.Repeat("Jul 14 08:12:53 n1 sshd[3]: hello\n", 3), nil, "no-kernel-lines@1*1"},
		{"a daemon cites an Xid", "Jul 14 08:12:53 n1 kernel: a\nJul 14 08:12:53 n1 monitor[3]: saw " + xid79 + "\n", nil, ""},
		{"killed by systemd", "Jul 14 08:12:53 n1 kernel: a\nJul 14 08:12:54 n1 systemd-oomd[3]: Killed /user.slice/job.scope due to memory pressure for /user.slice being 80%\n",
			[]string{"oom 0 | n1 | 2000-07-14T08:12:54 | systemd-oomd killed /user.slice/job.scope for memory pressure | row 2"}, ""},
		{"journal", `{"__REALTIME_TIMESTAMP":"1784016773500000","__MONOTONIC_TIMESTAMP":"13500000","_SOURCE_MONOTONIC_TIMESTAMP":"13000000","_HOSTNAME":"n1","_TRANSPORT":"kernel","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"` + xid79 + `"}` + "\n" +
			`{"__REALTIME_TIMESTAMP":"1784016774500000","__MONOTONIC_TIMESTAMP":"14500000","_HOSTNAME":"n1","_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"` + xid79 + `"}` + "\n" +
			`{"__REALTIME_TIMESTAMP":"1784016775500000","_HOSTNAME":"n1","_TRANSPORT":"kernel","MESSAGE":[78,86,82,77,58,32,71,80,85,32,48,48,48,48,58,50,57,58,48,48,46,48,58,32,71,80,85,32,104,97,115,32,102,97,108,108,101,110,32,111,102,102,32,116,104,101,32,98,117,115,255]}` + "\n" +
			`{"__REALTIME_TIMESTAMP":"x"}` + "\n" + `{"__REALTIME_TIMESTAMP":"17840`,
			[]string{"xid 79 | GPU 0000:3b:00 | 2026-07-14T08:12:53 | GPU has fallen off the bus. (python, pid 4711) | row 1",
				"lost 0 | GPU 0000:29:00 | 2026-07-14T08:12:55.5 | NVRM: GPU 0000:29:00.0: GPU has fallen off the bus? | row 3", "boot_unix_s 1.78401676e+09 | n1 | row 1"}, "bad-time@4*1 bad-json@5*1"},
		{"UTF-16", utf16("[    6.000000] " + xid79 + "\n"), []string{"xid 79 | GPU 0000:3b:00 | 6s | GPU has fallen off the bus. (python, pid 4711) | row 1"}, ""},
	} {
		tl, ps, err := readText(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := codes(ps); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
	}
}

func utf16(s string) string {
	out := []byte{0xff, 0xfe}
	for _, c := range []byte(s) {
		out = append(out, c, 0)
	}
	return string(out)
}

func TestIdentityAndCoverage(t *testing.T) {
	tl, _, _ := readText(t, "[    5.000000] NVRM: GPU at PCI:0000:3b:00: GPU-509665ad-b600-ac93-3616-d754b23d636d\n[    6.000000] "+xid79+"\n[    8.000000] x\n")
	if d := tl.Devices[0]; d.UUID != "GPU-509665ad-b600-ac93-3616-d754b23d636d" || d.Bus != "0000:3b:00" || d.Index != -1 || d.Vendor != "nvidia" {
		t.Errorf("%+v", d)
	}
	if d := cmp.Diff([]timeline.Interval{{Start: 5e9, End: 8e9 + 1}}, tl.Sources[0].Coverage); d != "" {
		t.Error(d)
	}
	if !slices.Contains(tl.Sources[0].Watches, timeline.MarkXid) {
		t.Error("it would have shown an Xid, and does not say so")
	}
	for _, text := range []string{xid79 + "\n", strings.Repeat("Jul 14 08:12:53 n1 sshd[3]: hello\n", 3)} {
		if tl, _, _ := readText(t, text); tl.Sources[0].Coverage != nil || tl.Sources[0].Watches != nil {
			t.Errorf("%.30q covers %v: silence proves nothing there", text, tl.Sources[0].Coverage)
		}
	}
	if _, _, err := readText(t, "\n\n"); err == nil {
		t.Error("a log without lines is read")
	}
}

// TestRealLogs holds values that were read off the files.
func TestRealLogs(t *testing.T) {
	dir := os.Getenv("GPUREPORT_DATA")
	if dir == "" {
		t.Skip("GPUREPORT_DATA is not set: real files are not looked at")
	}
	load := func(name string) (*timeline.Timeline, []timeline.Problem) {
		b, err := os.ReadFile(filepath.Join(dir, "xid", name))
		if err != nil {
			t.Fatal(err)
		}
		if !recognises(string(b)) {
			t.Errorf("%s: not recognised", name)
		}
		tl, ps, err := readText(t, string(b))
		if err != nil {
			t.Fatal(err)
		}
		return tl, ps
	}
	tl, ps := load("dmesg-with-xid-119.log")
	timeout := func(at, fn, who string, row int) string {
		return fmt.Sprintf("xid 119 | GPU 0000:9b:00 | 2025-02-23T16:%s | Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function %s. (%s) | row %d", at, fn, who, row)
	}
	want := []string{
		timeout("24:18", "103 (GSP_RM_ALLOC) (0x2081 0x4)", "nvidia-smi, pid 2024380", 3),
		timeout("24:24", "10 (FREE) (0xa55a0210 0x0)", "nvidia-smi, pid 2024380", 38),
		timeout("24:30", "10 (FREE) (0xa55a0090 0x0)", "nvidia-smi, pid 2024380", 40),
		"said 0 | GPU 0000:9b:00 | 2025-02-23T16:24:36 | NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30). The GPU likely needs to be reset. | row 41",
		timeout("27:12", "76 (GSP_RM_CONTROL) (0x20801813 0x4c)", "cache_mgr_main, pid 1263500", 42),
		timeout("30:13", "76 (GSP_RM_CONTROL) (0x20803032 0x58c)", "gpud, pid 1240590", 43),
	}
	if d := cmp.Diff(want, shown(tl)); d != "" {
		t.Error(d)
	}
	if codes(ps) != "" || tl.Devices[0].UUID != "GPU-509665ad-b600-ac93-3616-d754b23d636d" {
		t.Errorf("problems %s, device %+v", codes(ps), tl.Devices[0])
	}
	if cov := tl.Sources[0].Coverage; len(cov) != 1 || cov[0].Dur() != 355*time.Second+1 { // 16:24:18 to 16:30:13
		t.Errorf("coverage %v", cov)
	}
	tl, ps = load("gpud_xid_lines.log")
	count := map[string]int{}
	for _, s := range shown(tl) {
		f := strings.SplitN(s, " |", 2)
		count[f[0]]++
	}
	// Counted with grep -o, less the lines of Data and Severity.
	for k, n := range map[string]int{"xid 79": 4, "xid 119": 3, "xid 145": 10, "xid 149": 13, "xid 154": 3, "xid 99999": 1, "sxid 20034": 2, "sxid 12028": 4, "sxid 99999": 1, "sxid 22013": 1} {
		if count[k] != n {
			t.Errorf("%s: %d, want %d", k, count[k], n)
		}
	}
	if codes(ps) != "mixed-times@1*1" || tl.Sources[0].Rows != 62 {
		t.Errorf("problems %s, rows %d", codes(ps), tl.Sources[0].Rows)
	}
}

var seeds = []string{
	"[    5.000000] NVRM: GPU at PCI:0000:3b:00: GPU-509665ad-b600-ac93-3616-d754b23d636d\n[    6.000000] " + xid79 + "\n[    7.000000] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 63 LTSSM Fault Up\n",
	"Jul 14 08:12:53 node7 kernel: [12345.678901] Out of memory: Killed process 4711 (python) total-vm:1kB\nJul 14 08:12:54 node7 systemd-oomd[3]: Killed /a due to memory pressure\n",
	"<4>1 2026-07-14T08:12:53.123456Z node7 kernel - - [meta x=\"1\"] NVRM: GPU 0000:29:00.0: RmInitAdapter failed! (0x26:0x65:1457)\n",
	"[Jul14 08:12] a\n[  +2.500000] mlx5_core 0000:5e:00.0 ens1f0: Link down\n[Jul14 08:14] b\n",
	`{"__REALTIME_TIMESTAMP":"1784016773500000","__MONOTONIC_TIMESTAMP":"13500000","_HOSTNAME":"n1","_TRANSPORT":"kernel","MESSAGE":"` + xid79 + `"}` + "\n",
	"kern  :err   : [Tue Jul 14 08:12:53 2026] blk_update_request: I/O error, dev sdb, sector 12345\n",
	"2026-07-14T08:12:53.123456789Z stdout F [12345.678901] CPU12: Core temperature above threshold, cpu clock throttled\n",
}

// TestCuts cuts logs anywhere: what stands before the cut is read as before.
func TestCuts(t *testing.T) {
	long := ""
	for i := range 12 {
		long += fmt.Sprintf("[ %4d.500000] NVRM: Xid (PCI:0000:%02x:00): %d, pid=%d, name=python, text\n", i*100, i, i+13, i)
	}
	for _, s := range append(seeds[1:], long) {
		if !strings.HasPrefix(s, "[ ") {
			s = strings.Repeat(s, 3)
		}
		whole, _, err := readText(t, s)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 200 {
			cut := len(s) * k / 200
			lines := strings.Count(s[:cut], "\n")
			tl, _, err := readText(t, s[:cut])
			if err != nil {
				if lines > 0 {
					t.Errorf("cut at %d: %v", cut, err)
				}
				continue
			}
			before := func(tl *timeline.Timeline) (out []string) {
				for i := range tl.Marks.At {
					if int(tl.Marks.Row[i]) <= lines {
						text, _, _ := strings.Cut(tl.Names.Get(tl.Marks.Name[i]), " (and ") // lines behind the cut may be like it
						out = append(out, fmt.Sprint(tl.Marks.Code[i], text, tl.Marks.Row[i]))
					}
				}
				return out
			}
			if d := cmp.Diff(before(whole), before(tl)); d != "" {
				t.Errorf("cut at %d of %.40q: %s", cut, s, d)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(s[:len(s)*2/3]))
	}
	f.Add([]byte("[99999999999.000000] x\n[] y\n[+.] z\n<999>1 \n<>\nkern  :\n"))
	f.Add(bytes.Repeat([]byte("Dec 31 00:00:00 a kernel: x\nJan  1 00:00:00 a kernel: x\n"), 50))
	f.Fuzz(func(t *testing.T, data []byte) {
		recognises(string(data))
		_, _, _ = readText(t, string(data))
	})
}
