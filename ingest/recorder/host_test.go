//go:build linux

package recorder_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest/recorder"
)

// tree writes a fake /proc and /sys: a line "== path" begins a file, "-> target" in one makes it a link. PID stands for the test's own.
func tree(t *testing.T, text string) (proc, sys string) {
	t.Helper()
	root := t.TempDir()
	text = strings.ReplaceAll(text, "PID", fmt.Sprint(os.Getpid()))
	for _, part := range strings.Split(text, "== ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		p := filepath.Join(root, filepath.FromSlash(strings.TrimSpace(name)))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(body, "-> "); ok {
			target = filepath.Join(root, filepath.FromSlash(strings.TrimSpace(target)))
			if err := os.MkdirAll(target, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "proc"), filepath.Join(root, "sys")
}

const machine = `== proc/stat
cpu  100 1 50 800 40 2 3 4 7 0
cpu0 60 1 30 400 20 1 2 3 0 0
cpu2 40 0 20 400 20 1 1 1 7 0
intr 12345 1 2 3
ctxt 6789
btime 1782900000
processes 77
procs_running 5
procs_blocked 2
softirq 1 2 3
== proc/loadavg
1.50 2.25 3.00 5/700 1234
== proc/pressure/cpu
some avg10=1.00 avg60=1.00 avg300=1.00 total=111
full avg10=0.00 avg60=0.00 avg300=0.00 total=0
== proc/pressure/memory
some avg10=0.00 avg60=0.00 avg300=0.00 total=222
full avg10=0.00 avg60=0.00 avg300=0.00 total=22
== proc/pressure/io
some avg10=0.00 avg60=0.00 avg300=0.00 total=333
full avg10=0.00 avg60=0.00 avg300=0.00 total=33
== proc/meminfo
MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    600 kB
Buffers:          10 kB
Cached:          200 kB
SwapTotal:        50 kB
SwapFree:         40 kB
Dirty:             3 kB
Writeback:         1 kB
AnonPages:        70 kB
Shmem:             4 kB
SReclaimable:      5 kB
HugePages_Total:   0
== proc/vmstat
pgpgin 10
pgpgout 20
pswpin 3
pswpout 4
pgmajfault 5
numa_miss 6
oom_kill 1
== proc/net/snmp
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RetransSegs InErrs
Tcp: 1 99 0
== proc/net/dev
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
  ens1:1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0
vethab: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
== proc/diskstats
   7       0 loop0 1 0 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 10 1 8 100 20 2 16 200 1 300 400 0 0 0 0 5 6
 259       1 nvme0n1p1 9 1 8 100 20 2 16 200 0 300 400
 253       0 dm-0 10 1 8 100 20 2 16 200 0 300 400
== proc/cpuinfo
processor : 0
model name : Fast CPU
== proc/sys/kernel/osrelease
6.8.0
== proc/sys/kernel/random/boot_id
b-o-o-t
== proc/sys/kernel/numa_balancing
1
== proc/self/status
Name: x
Cpus_allowed_list:	0-2
== sys/block/nvme0n1/size
1000
== sys/block/nvme0n1/queue/rotational
0
== sys/block/nvme0n1/device/model
Quick Disk
== sys/block/dm-0/size
1000
== sys/devices/system/cpu/online
0-2
== sys/devices/system/cpu/cpu0/topology/physical_package_id
0
== sys/devices/system/cpu/cpu0/topology/core_id
0
== sys/devices/system/cpu/cpu2/topology/physical_package_id
1
== sys/devices/system/cpu/cpu2/topology/core_id
0
== sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq
3000000
== sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq
1000000
== sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
powersave
== sys/devices/system/node/node0/cpulist
0
== sys/devices/system/node/node0/meminfo
Node 0 MemTotal:       600 kB
Node 0 MemFree:        60 kB
== sys/devices/system/node/node1/cpulist
2
== sys/devices/system/node/node1/meminfo
Node 1 MemTotal:       400 kB
Node 1 MemFree:        40 kB
== sys/class/net/ens1/operstate
up
== sys/class/net/ens1/speed
25000
== sys/class/net/ens1/mtu
9000
== sys/class/net/lo/operstate
unknown
== sys/class/infiniband/mlx5_0/device
-> sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0
== sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0/numa_node
0
== sys/bus/pci/devices/0000:10:00.0
-> sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:10:00.0
== sys/bus/pci/devices/0000:11:00.0
-> sys/devices/pci0000:20/0000:20:01.0/0000:11:00.0
== sys/devices/pci0000:20/0000:20:01.0/0000:11:00.0/numa_node
1
== sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data
250
== sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data
500
== sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_wait
7
== sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error
N/A
== sys/class/infiniband/mlx5_0/ports/1/counters/link_downed
2
== sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence
9
== sys/class/infiniband/mlx5_0/ports/1/state
4: ACTIVE
== sys/class/infiniband/mlx5_0/ports/1/phys_state
5: LinkUp
== sys/class/infiniband/mlx5_0/ports/1/rate
400 Gb/sec (4X NDR)
`

// recordTree records two ticks of a fake machine and gives its records by kind, without times.
func recordTree(t *testing.T, text string, d recorder.Driver) map[string][]string {
	t.Helper()
	proc, sys := tree(t, text)
	path := filepath.Join(t.TempDir(), "run.jsonl")
	o := recorder.Options{Path: path, Proc: proc, Sys: sys, Driver: d, NoGPU: d == nil, Period: time.Second}
	if _, err := run(t, o, 1, nil); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, r := range records(t, path) {
		k := fmt.Sprint(r["k"])
		delete(r, "k")
		delete(r, "t")
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out[k] = append(out[k], string(b))
	}
	return out
}

func TestHostFiles(t *testing.T) {
	got := recordTree(t, machine, newFake(2))
	want := map[string]string{
		"h": `{"blk":2,"cpu":[100,1,50,800,40,2,3,4],"cpus":[[0,60,1,30,400,20,1,2,3],[2,40,0,20,400,20,1,1,1]],"ctx":6789,"dsk":{"nvme0n1":[10,4096,100,20,8192,200,1,300,400]},"forks":77,"intr":12345,` +
			`"load":[1.50,2.25,3.00],"mem":[1024000,102400,614400,204800,3072,1024,51200,40960,4096,10240,5120,71680],"net":{"ens1":[1000,10,1,2,2000,20,3,4]},"psi":{"cpu":[111,0],"io":[333,33],"mem":[222,22]},` +
			`"retrans":99,"run":5,"vm":{"majfault":5,"numa_miss":6,"oom":1,"pgpgin":10,"pgpgout":20,"swapin":3,"swapout":4}}`,
		"hl": `{"freq":[1000000,3000000,2000000],"link":{"ens1":[1,25000]},"numa":[[0,614400,61440],[1,409600,40960]]}`,
		"host": `{"btime":1782900000,"cores":2,"cpus":3,"cpus_online":"0-2","disks":[{"bytes":512000,"model":"Quick Disk","name":"nvme0n1","rotational":0}],"governor":"powersave","kernel":"6.8.0","mem":1024000,` +
			`"model":"Fast CPU","nics":[{"mtu":9000,"name":"ens1"},{"ib":true,"name":"mlx5_0","numa":0,"pci":"0000:14:00.0"}],"nodes":[{"cpus":"0","id":0,"mem":614400},{"cpus":"2","id":1,"mem":409600}],` +
			`"numa_balancing":"1","set":"0-2","sockets":2}`,
		"ib": `{"dev":"mlx5_0","ph":"LinkUp","port":1,"rate":"400 Gb/sec (4X NDR)","st":"ACTIVE","x":{"link_downed":2,"out_of_sequence":9,"port_rcv_data":2000,"port_xmit_data":1000,"port_xmit_wait":7}}`,
		// The first GPU and the port lie below one switch; the second GPU on another socket.
		"topo": `{"gpu":[[0,50],[50,0]],"nics":[{"anc":[null,null],"name":"ens1"},{"anc":[10,50],"name":"mlx5_0","numa":0,"pci":"0000:14:00.0"}],"nvl":[[0,17],[17,0]],"p2p":[[0,0],[0,0]]}`,
	}
	for k, w := range want {
		if len(got[k]) == 0 {
			t.Errorf("%s: none", k)
			continue
		}
		if d := cmp.Diff(w, got[k][0]); d != "" {
			t.Errorf("%s: %s", k, d)
		}
	}
	if !strings.Contains(got["hdr"][0], `"boot_id":"b-o-o-t"`) {
		t.Errorf("header %s", got["hdr"][0])
	}
}

func TestControlGroups(t *testing.T) {
	const v2 = `== proc/self/mountinfo
30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
== proc/PID/cgroup
0::/job/train
== sys/fs/cgroup/job/cpu.max
200000 100000
== sys/fs/cgroup/job/cpu.stat
usage_usec 900
nr_periods 50
nr_throttled 20
throttled_usec 777
== sys/fs/cgroup/job/train/cpu.max
max 100000
== sys/fs/cgroup/job/train/cpu.stat
usage_usec 500
nr_periods 0
nr_throttled 0
throttled_usec 0
== sys/fs/cgroup/job/train/memory.current
4096
== sys/fs/cgroup/job/train/memory.max
max
== sys/fs/cgroup/job/train/memory.events
low 0
oom 1
oom_kill 1
== sys/fs/cgroup/job/train/cpuset.cpus.effective
0-7
`
	const v1 = `== proc/self/mountinfo
30 24 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 24 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 24 0:29 /docker/abc /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
33 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
== proc/PID/cgroup
5:cpuset:/docker/abc
4:memory:/docker/abc
3:cpu,cpuacct:/docker/abc
0::/docker/abc
== sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us
350000
== sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us
100000
== sys/fs/cgroup/cpu,cpuacct/cpu.stat
nr_periods 10
nr_throttled 4
throttled_time 5000000
== sys/fs/cgroup/cpu,cpuacct/cpuacct.usage
8000000
== sys/fs/cgroup/memory/memory.usage_in_bytes
123
== sys/fs/cgroup/memory/memory.limit_in_bytes
9223372036854771712
== sys/fs/cgroup/memory/memory.oom_control
oom_kill_disable 0
under_oom 0
oom_kill 3
== sys/fs/cgroup/cpuset/cpuset.cpus
0-3
`
	for _, c := range []struct{ what, text, group, sample string }{
		{"v2, the quota of the group above", v2, `{"id":0,"path":"/job/train","quota":[200000,100000],"set":"0-7","v":2}`,
			`{"id":0,"mem":[4096,null],"oom":1,"quota":[200000,100000],"thr":[50,20,777],"use_us":500}`},
		{"v1, as a container sees it", v1, `{"id":0,"path":"/docker/abc","quota":[350000,100000],"set":"0-3","v":1}`,
			`{"id":0,"mem":[123,null],"oom":3,"quota":[350000,100000],"thr":[10,4,5000],"use_us":8000}`},
	} {
		got := recordTree(t, "== proc/stat\ncpu  1 1 1 1 1 1 1 1\n"+c.text, nil)
		if len(got["cgroup"]) == 0 || got["cgroup"][0] != c.group {
			t.Errorf("%s: %v, want %s", c.what, got["cgroup"], c.group)
		}
		if len(got["cg"]) == 0 || got["cg"][0] != c.sample {
			t.Errorf("%s: %v, want %s", c.what, got["cg"], c.sample)
		}
	}
}

func TestProcesses(t *testing.T) {
	stat := func(pid, ppid int, comm string, utime, threads int) string {
		return fmt.Sprintf("== proc/%d/stat\n%d (%s) S %d 1 1 0 -1 0 1 0 7 0 %d 5 0 0 20 0 %d 0 999 1000000 25 1 1 1 1 1 1 1 1 1 1 0 0 0 17 0 0 0 33 0 0 0 0 0 0 0 0 0\n", pid, pid, comm, ppid, utime, threads)
	}
	text := "== proc/stat\ncpu  1 1 1 1 1 1 1 1\n== proc/sys/kernel/task_delayacct\n1\n" +
		stat(1, 0, "init", 1, 1) + stat(4000, 1, "python (train) ", 120, 9) + stat(4100, 4000, "pt_data_worker", 50, 2) + stat(4200, 4100, "sh", 1, 1) + stat(4300, 1, "other", 1, 1) +
		`== proc/4000/io
rchar: 5
read_bytes: 4096
write_bytes: 8192
== proc/4000/schedstat
1000 2000 30
== proc/4000/status
Name:	python
Cpus_allowed_list:	0-15
Mems_allowed_list:	0
voluntary_ctxt_switches:	11
nonvoluntary_ctxt_switches:	12
`
	proc, sys := tree(t, text)
	path := filepath.Join(t.TempDir(), "run.jsonl")
	if _, err := run(t, recorder.Options{Path: path, Proc: proc, Sys: sys, Driver: newFake(1)}, 25, nil); err != nil {
		t.Fatal(err)
	}
	procs, rows := map[string]string{}, ""
	for _, r := range records(t, path) {
		switch r["k"] {
		case "proc":
			procs[fmt.Sprint(r["pid"])] = fmt.Sprint(r["comm"], " ", r["ppid"], " ", r["cpus"], " ", r["gpu"])
		case "pr":
			rows = fmt.Sprint(r["p"])
		}
	}
	if d := cmp.Diff(map[string]string{"4000": "python (train)  1 0-15 [0]", "4100": "pt_data_worker 4000 <nil> <nil>", "4200": "sh 4100 <nil> <nil>"}, procs); d != "" {
		t.Error(d)
	}
	page := os.Getpagesize()
	want := fmt.Sprintf("[[4000 120 5 %d 4096 8192 9 7 1000 2000 11 12 33] [4100 50 5 %d <nil> <nil> 2 7 <nil> <nil> <nil> <nil> 33] [4200 1 5 %d <nil> <nil> 1 7 <nil> <nil> <nil> <nil> 33]]", 25*page, 25*page, 25*page)
	if rows != want {
		t.Errorf("processes %s, want %s", rows, want)
	}
	base := readBack(t, path)
	gpuOf := 0
	for _, a := range base.Attrs {
		if a.Name == "gpu" && a.Text == "GPU-00000000" && base.Tracks[a.Track].Thread == 4000 {
			gpuOf++
		}
	}
	if gpuOf == 0 {
		t.Error("nobody says that process 4000 uses GPU 0")
	}
}
