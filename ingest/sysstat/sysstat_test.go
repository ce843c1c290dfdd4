package sysstat

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

func readText(t testing.TB, text string, set map[string]string) (*timeline.Timeline, []timeline.Problem, error) {
	t.Helper()
	in := ingest.NewInput("x.txt", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, &ingest.Options{Set: set})
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
			return time.Unix(0, int64(at)).UTC().Format("01-02T15:04:05")
		}
		return time.Duration(at).String()
	}
	for i := range tl.Series {
		s := &tl.Series[i]
		for j := range s.At {
			out = append(out, fmt.Sprintf("%s %s %.5g@%s row%d", tl.Tracks[s.Track].Name, s.Metric.Name, s.Value[j], stamp(s.At[j]), s.Row[j]))
		}
	}
	m := &tl.Marks
	for i := range m.At {
		out = append(out, fmt.Sprintf("mark %s@%s row%d", tl.Names.Get(m.Name[i]), stamp(m.At[i]), m.Row[i]))
	}
	return out
}

func codes(ps []timeline.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s@%d*%d", strings.TrimPrefix(p.Code, "sysstat/"), p.Row, p.Count))
	}
	return strings.Join(out, " ")
}

const mpstat = `Linux 6.1.0-18-amd64 (node7) 	07/14/26 	_x86_64_	(2 CPU)

08:12:53     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
08:12:54     all   60.30    1.00   10.00    5.00    1.00    2.00    0.50    0.00    0.00   20.20
08:12:54       0   63.64    0.00   36.36    0.00    0.00    0.00    0.00    0.00    0.00    0.00
08:12:54       1   57.00    2.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   41.00

08:12:54     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
08:12:55     all   59.80    0.00   40.20    0.00    0.00    0.00    0.00    0.00    0.00    0.00

Average:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
Average:     all   60.05    0.00   39.95    0.00    0.00    0.00    0.00    0.00    0.00    0.00
`

const iostat = `Linux 6.1.0-18-amd64 (node7) 	07/14/26 	_x86_64_	(2 CPU)

07/14/26 08:12:53
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          46.05    1.19   20.86    0.28    0.00   31.61

Device            r/s     rMB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wMB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dMB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
nvme0n1         73.03      1.15     8.42  10.33    1.69    16.18   29.48      2.87    26.22  47.08    1.39    99.68   27.64      2.46     0.00   0.02    0.28    91.16    4.36    0.62    0.17   1.98


07/14/26 08:12:55
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          59.80    0.00   10.20   20.00    0.00   10.00

Device            r/s     rMB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wMB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dMB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
nvme0n1          8.82      2.00     0.00   0.00    0.50     8.89    0.98      1.00     0.00   0.00    0.25    12.00    1.96      0.02     0.00   0.00    0.50     8.00    0.00    0.00    1.50  97.78
loop0            1.00      1.00     0.00   0.00    0.50     8.89    0.98      1.00     0.00   0.00    0.25    12.00    1.96      0.02     0.00   0.00    0.50     8.00    0.00    0.00    1.50  97.78


`

const pidstat = `Linux 6.1.0-18-amd64 (node7) 	07/14/26 	_x86_64_	(2 CPU)

# Time        UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command
08:12:54        0      4711         -   90.00   10.00    0.00    3.00  100.00     0   1024.00     -1.00      0.00       0  pt_data_worker
08:12:54        0         -      4711   45.00    5.00    0.00    3.00   50.00     0    512.00      0.00      0.00       0  |__pt_data_worker

# Time        UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command
08:12:56        0      4711         -  150.00   10.00    0.00    3.00  160.00     0   1024.00      0.00      0.00     100  pt_data_worker
`

const vmstat = `procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
20  0      0 18846400  40380 4403424    0    0   593  1474  911 2003 47 21 32  0  0 2026-07-14 08:12:53
14  3      0 18846400  40380 4403424    0    2    16    12 2661 5573 60 20  5 15  0 2026-07-14 08:12:54
10  0      0 18846400  40380 4403424    0    0    60     0 1691 3183 64 36  0  0  0 2026-07-14 08:12:55
`

const sar = `Linux 6.1.0-18-amd64 (node7) 	07/14/26 	_x86_64_	(2 CPU)

08:12:53        CPU     %user     %nice   %system   %iowait    %steal     %idle
08:12:54        all     69.61      0.00     10.39      0.00      0.00     20.00

08:12:53       proc/s   cswch/s
08:12:54        30.39   4737.25

08:12:53     pswpin/s pswpout/s
08:12:54         1.00      0.00

08:12:53     pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff
08:12:54         7.84     15.69  22480.39      0.00   9320.59      0.00      0.00      0.00      0.00

08:12:53    kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached  kbcommit   %commit  kbactive   kbinact   kbdirty
08:12:54     18518360  22698956   1614012      6.54     40468   4131656   2257256      9.14   2938984   2582740    127872

08:12:53      runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked
08:12:54           16       185     20.05     16.45     10.26         2

08:12:53          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
08:12:54      nvme0n1      7.84      8.00     16.00      7.84      4.00      0.25      2.00     50.00

08:12:53        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
08:12:54           lo      9.00      0.00      9.00      0.00      0.00      0.00      0.00      0.00
08:12:54         eth0      9.00      0.00      2.00      1.00      0.00      0.00      0.00      0.00

08:13:00     LINUX RESTART	(2 CPU)
`

const sadfText = `{"sysstat": {
	"hosts": [
		{
			"nodename": "node7", "sysname": "Linux", "release": "6.1.0-18-amd64", "machine": "x86_64", "number-of-cpus": 2,
			"file-date": "2026-07-14", "file-utc-time": "08:12:52", "timezone": "UTC",
			"statistics": [
				{
					"timestamp": {"date": "2026-07-14", "time": "08:12:53", "utc": 1, "interval": 1},
					"cpu-load": [
						{"cpu": "all", "usr": 57.21, "nice": 0.00, "sys": 22.79, "iowait": 0.00, "steal": 0.00, "irq": 0.00, "soft": 0.00, "guest": 0.00, "gnice": 0.00, "idle": 20.00}
					],
					"process-and-context-switch": {"proc": 22.00, "cswch": 5006.00},
					"queue": {"runq-sz": 13, "plist-sz": 190, "ldavg-1": 19.56, "ldavg-5": 16.41, "ldavg-15": 10.28, "blocked": 0},
					"disk": [{"disk-device": "nvme0n1", "tps": 42.00, "rkB": 348.00, "wkB": 0.00, "aqu-sz": 0.01, "await": 0.36, "util-percent": 50.00}],
					"network": {"net-dev": [{"iface": "eth0", "rxkB": 2.00, "txkB": 1.00}]},
					"psi": {"psi-cpu": {"some_avg": 99.24}, "psi-io": {"some_avg": 0.25, "full_avg": 0.00}}
				},
				{
					"timestamp": {"date": "2026-07-14", "time": "08:12:54", "utc": 1, "interval": 1},
					"queue": {"runq-sz": 14}
				}
			],
			"restarts": []
		}
	]
}}
`

func TestRead(t *testing.T) {
	const head = "Linux 6.1.0 (n1) \t07/14/26 \t_x86_64_\t(2 CPU)\n\n"
	for _, c := range []struct {
		what, text string
		set        map[string]string
		want       []string
		problems   string
	}{
		{"mpstat", mpstat, nil, []string{
			"host cpu_busy_frac 0.748@07-14T08:12:54 row4", "host cpu_busy_frac 1@07-14T08:12:55 row9",
			"host cpu_user_frac 0.613@07-14T08:12:54 row4", "host cpu_user_frac 0.598@07-14T08:12:55 row9",
			"host cpu_system_frac 0.1@07-14T08:12:54 row4", "host cpu_system_frac 0.402@07-14T08:12:55 row9",
			"host cpu_iowait_frac 0.05@07-14T08:12:54 row4", "host cpu_iowait_frac 0@07-14T08:12:55 row9",
			"host cpu_steal_frac 0.005@07-14T08:12:54 row4", "host cpu_steal_frac 0@07-14T08:12:55 row9",
			"host cpu_irq_frac 0.03@07-14T08:12:54 row4", "host cpu_irq_frac 0@07-14T08:12:55 row9",
			"CPU 0 cpu_busy_frac 1@07-14T08:12:54 row5", "CPU 0 cpu_user_frac 0.6364@07-14T08:12:54 row5", "CPU 0 cpu_system_frac 0.3636@07-14T08:12:54 row5",
			"CPU 0 cpu_iowait_frac 0@07-14T08:12:54 row5", "CPU 0 cpu_steal_frac 0@07-14T08:12:54 row5", "CPU 0 cpu_irq_frac 0@07-14T08:12:54 row5",
			"CPU 1 cpu_busy_frac 0.59@07-14T08:12:54 row6", "CPU 1 cpu_user_frac 0.59@07-14T08:12:54 row6", "CPU 1 cpu_system_frac 0@07-14T08:12:54 row6",
			"CPU 1 cpu_iowait_frac 0@07-14T08:12:54 row6", "CPU 1 cpu_steal_frac 0@07-14T08:12:54 row6", "CPU 1 cpu_irq_frac 0@07-14T08:12:54 row6"}, ""},
		{"iostat", iostat, nil, []string{
			"host cpu_busy_frac 0.7@07-14T08:12:55 row13", "host cpu_user_frac 0.598@07-14T08:12:55 row13", "host cpu_system_frac 0.102@07-14T08:12:55 row13",
			"host cpu_iowait_frac 0.2@07-14T08:12:55 row13", "host cpu_steal_frac 0@07-14T08:12:55 row13",
			"nvme0n1 disk_reads_hz 8.82@07-14T08:12:55 row16", "nvme0n1 disk_read_bytes_per_s 2.0972e+06@07-14T08:12:55 row16", "nvme0n1 disk_read_await_s 0.0005@07-14T08:12:55 row16",
			"nvme0n1 disk_writes_hz 0.98@07-14T08:12:55 row16", "nvme0n1 disk_write_bytes_per_s 1.0486e+06@07-14T08:12:55 row16", "nvme0n1 disk_write_await_s 0.00025@07-14T08:12:55 row16",
			"nvme0n1 disk_queue_count 1.5@07-14T08:12:55 row16", "nvme0n1 disk_busy_frac 0.9778@07-14T08:12:55 row16"}, "since-boot@5*2"},
		{"iostat without times", head + "Device             tps    kB_read/s\nsda  1 2\n\nDevice             tps    kB_read/s\nsda  1 4\n\nDevice             tps    kB_read/s\nsda  1 8\n", map[string]string{"period": "5"},
			[]string{"sda disk_read_bytes_per_s 4096@5s row7", "sda disk_read_bytes_per_s 8192@10s row10"}, "no-time@1*1 since-boot@4*1"},
		{"iostat, ISO", "Linux 6.1.0 (n1) \t2026-07-14 \t_x86_64_\t(2 CPU)\n\n2026-07-14T08:12:53+0200\nDevice tps await\nsda 1 2\n\n2026-07-14T08:12:54+0200\nDevice tps await\nsda 1 4\n", nil,
			[]string{"sda disk_await_s 0.004@07-14T06:12:54 row9"}, "since-boot@5*1"},
		{"pidstat -h", pidstat, nil, []string{
			"pt_data_worker proc_system_count 0.1@07-14T08:12:54 row4", "pt_data_worker proc_system_count 0.1@07-14T08:12:56 row8",
			"pt_data_worker proc_run_wait_frac 0.03@07-14T08:12:54 row4", "pt_data_worker proc_run_wait_frac 0.03@07-14T08:12:56 row8",
			"pt_data_worker proc_cpu_count 1@07-14T08:12:54 row4", "pt_data_worker proc_cpu_count 1.6@07-14T08:12:56 row8",
			"pt_data_worker proc_read_bytes_per_s 1.0486e+06@07-14T08:12:54 row4", "pt_data_worker proc_read_bytes_per_s 1.0486e+06@07-14T08:12:56 row8",
			"pt_data_worker proc_write_bytes_per_s 0@07-14T08:12:56 row8", "pt_data_worker proc_io_wait_frac 0.5@07-14T08:12:56 row8"}, "threads@5*1"},
		{"pidstat with names and command lines", head + "08:12:53      UID       PID   cswch/s nvcswch/s  Command\n08:12:54        0        14      2.80      1.00  ksoftirqd/0\n08:12:54        0        15      2.80      2.00  /usr/bin/python train.py --token x\n08:12:54        0        16      2.80      3.00  python train.py\n", nil,
			[]string{"ksoftirqd/0 proc_preempted_hz 1@07-14T08:12:54 row4", "python proc_preempted_hz 2@07-14T08:12:54 row5", "python proc_preempted_hz 3@07-14T08:12:54 row6"}, ""},
		{"pidstat -H", head + "# Time        UID       PID     RSS  Command\n1784016773        0        14      2  a\n", nil, []string{"a proc_rss_bytes 2048@07-14T08:12:53 row4"}, ""},
		{"vmstat", vmstat, nil, []string{
			"host run_queue_count 14@07-14T08:12:54 row4", "host run_queue_count 10@07-14T08:12:55 row5", "host blocked_count 3@07-14T08:12:54 row4", "host blocked_count 0@07-14T08:12:55 row5",
			"host context_switches_hz 5573@07-14T08:12:54 row4", "host context_switches_hz 3183@07-14T08:12:55 row5", "host page_cache_bytes 4.5091e+09@07-14T08:12:54 row4", "host page_cache_bytes 4.5091e+09@07-14T08:12:55 row5",
			"host swap_in_bytes_per_s 0@07-14T08:12:54 row4", "host swap_in_bytes_per_s 0@07-14T08:12:55 row5", "host swap_out_bytes_per_s 2048@07-14T08:12:54 row4", "host swap_out_bytes_per_s 0@07-14T08:12:55 row5",
			"host disk_read_bytes_per_s 16384@07-14T08:12:54 row4", "host disk_read_bytes_per_s 61440@07-14T08:12:55 row5", "host disk_write_bytes_per_s 12288@07-14T08:12:54 row4", "host disk_write_bytes_per_s 0@07-14T08:12:55 row5",
			"host cpu_busy_frac 0.8@07-14T08:12:54 row4", "host cpu_busy_frac 1@07-14T08:12:55 row5", "host cpu_user_frac 0.6@07-14T08:12:54 row4", "host cpu_user_frac 0.64@07-14T08:12:55 row5",
			"host cpu_system_frac 0.2@07-14T08:12:54 row4", "host cpu_system_frac 0.36@07-14T08:12:55 row5", "host cpu_iowait_frac 0.15@07-14T08:12:54 row4", "host cpu_iowait_frac 0@07-14T08:12:55 row5",
			"host cpu_steal_frac 0@07-14T08:12:54 row4", "host cpu_steal_frac 0@07-14T08:12:55 row5"}, "since-boot@3*1"},
		{"vmstat -S M", " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n 1  0      0 18404  39 4300    0    0   593  1474  911 2003 47 21 32  0  0\n 2  0      0 18404  39 4300    0    0   593  1474  911 2003 47 21 32  0  0\n", nil, []string{
			"host run_queue_count 2@1s row3", "host blocked_count 0@1s row3", "host context_switches_hz 2003@1s row3", "host disk_read_bytes_per_s 6.0723e+05@1s row3", "host disk_write_bytes_per_s 1.5094e+06@1s row3",
			"host cpu_busy_frac 0.68@1s row3", "host cpu_user_frac 0.47@1s row3", "host cpu_system_frac 0.21@1s row3", "host cpu_iowait_frac 0@1s row3", "host cpu_steal_frac 0@1s row3"}, "no-time@1*1 since-boot@2*1 unknown-unit@2*1"},
		{"sar", sar, nil, []string{
			"host cpu_busy_frac 0.8@07-14T08:12:54 row4", "host cpu_user_frac 0.6961@07-14T08:12:54 row4", "host cpu_system_frac 0.1039@07-14T08:12:54 row4", "host cpu_iowait_frac 0@07-14T08:12:54 row4", "host cpu_steal_frac 0@07-14T08:12:54 row4",
			"host context_switches_hz 4737.2@07-14T08:12:54 row7", "host swap_in_bytes_per_s 4096@07-14T08:12:54 row10", "host swap_out_bytes_per_s 0@07-14T08:12:54 row10",
			"host mem_available_bytes 2.3244e+10@07-14T08:12:54 row16", "host page_cache_bytes 4.2308e+09@07-14T08:12:54 row16",
			"host run_queue_count 16@07-14T08:12:54 row19", "host load1_count 20.05@07-14T08:12:54 row19", "host blocked_count 2@07-14T08:12:54 row19",
			"nvme0n1 disk_read_bytes_per_s 8192@07-14T08:12:54 row22", "nvme0n1 disk_write_bytes_per_s 16384@07-14T08:12:54 row22", "nvme0n1 disk_queue_count 0.25@07-14T08:12:54 row22", "nvme0n1 disk_await_s 0.002@07-14T08:12:54 row22", "nvme0n1 disk_busy_frac 0.5@07-14T08:12:54 row22",
			"eth0 net_rx_bytes_per_s 2048@07-14T08:12:54 row26", "eth0 net_tx_bytes_per_s 1024@07-14T08:12:54 row26", "mark the host restarted@07-14T08:13:00 row28"}, "unread-table@12*1"},
		{"sadf", sadfText, nil, []string{
			"host cpu_busy_frac 0.8@07-14T08:12:53 row1", "host cpu_user_frac 0.5721@07-14T08:12:53 row1", "host cpu_system_frac 0.2279@07-14T08:12:53 row1", "host cpu_iowait_frac 0@07-14T08:12:53 row1", "host cpu_steal_frac 0@07-14T08:12:53 row1", "host cpu_irq_frac 0@07-14T08:12:53 row1",
			"host context_switches_hz 5006@07-14T08:12:53 row1", "host run_queue_count 13@07-14T08:12:53 row1", "host run_queue_count 14@07-14T08:12:54 row2", "host load1_count 19.56@07-14T08:12:53 row1", "host blocked_count 0@07-14T08:12:53 row1",
			"host psi_cpu_frac 0.9924@07-14T08:12:53 row1", "host psi_io_frac 0.0025@07-14T08:12:53 row1",
			"nvme0n1 disk_read_bytes_per_s 3.5635e+05@07-14T08:12:53 row1", "nvme0n1 disk_write_bytes_per_s 0@07-14T08:12:53 row1", "nvme0n1 disk_await_s 0.00036@07-14T08:12:53 row1", "nvme0n1 disk_queue_count 0.01@07-14T08:12:53 row1", "nvme0n1 disk_busy_frac 0.5@07-14T08:12:53 row1",
			"eth0 net_rx_bytes_per_s 2048@07-14T08:12:53 row1", "eth0 net_tx_bytes_per_s 1024@07-14T08:12:53 row1"}, ""},
		{"decimal commas, day first, own word for average", "Linux 6.1.0 (n1) \t04/07/2026 \t_x86_64_\t(2 CPU)\n\n08:12:53      runq-sz   ldavg-1\n08:12:54           16     20,05\nMoyenne :          16     20,05\n", nil,
			[]string{"host run_queue_count 16@07-04T08:12:54 row4", "host load1_count 20.05@07-04T08:12:54 row4"}, ""},
		{"points between day, month and year", "Linux 6.1.0 (n1) \t04.07.2026 \t_x86_64_\t(2 CPU)\n\n08:12:53      runq-sz\n08:12:54           16\n", nil, []string{"host run_queue_count 16@07-04T08:12:54 row4"}, ""},
		{"twelve hours", "Linux 6.1.0 (n1) \t07/04/2026 \t_x86_64_\t(2 CPU)\n\n11:59:59 AM      runq-sz\n12:00:00 PM           16\n12:59:59 PM           17\n", nil,
			[]string{"host run_queue_count 16@07-04T12:00:00 row4", "host run_queue_count 17@07-04T12:59:59 row5"}, ""},
		{"Chinese", "Linux 6.1.0 (n1) \t2026年07月04日 \t_x86_64_\t(2 CPU)\n\n下午 11时59分58秒      runq-sz\n下午 11时59分59秒           16\n上午 12时00分01秒           17\n平均时间:           17\n", nil,
			[]string{"host run_queue_count 16@07-04T23:59:59 row4", "host run_queue_count 17@07-05T00:00:01 row5"}, ""},
		{"midnight", head + "23:59:58      runq-sz\n23:59:59           16\n00:00:01           17\n", nil, []string{"host run_queue_count 16@07-14T23:59:59 row4", "host run_queue_count 17@07-15T00:00:01 row5"}, ""},
		{"mpstat without interval", head + "08:12:53     CPU    %usr   %idle\n08:12:53     all   60.30    39.70\n08:12:54     all   60.30    39.70\n", nil,
			[]string{"host cpu_busy_frac 0.603@07-14T08:12:54 row5", "host cpu_user_frac 0.603@07-14T08:12:54 row5"}, "since-boot@4*1"},
		{"bad cells", head + "08:12:53      runq-sz  ldavg-1\n08:12:54           x  2\n08:12:55           3\n08:12:56           3 4 5\n08:12:57          -1 4\nhello\n08:12:58 1 2", nil,
			[]string{"host load1_count 2@07-14T08:12:54 row4", "host load1_count 4@07-14T08:12:57 row7"}, "bad-number@4*1 short-row@5*1 long-row@6*1 stray-line@8*1 unterminated-row@9*1"},
		{"an offline CPU", head + "08:12:53     CPU    %usr   %idle\n08:12:54       3    0.00    0.00\n08:12:54       4    1.00    99.00\n", nil,
			[]string{"CPU 4 cpu_busy_frac 0.01@07-14T08:12:54 row5", "CPU 4 cpu_user_frac 0.01@07-14T08:12:54 row5"}, ""},
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
		if !recognise(ingest.Head{Name: "x", Raw: []byte(c.text), Text: []byte(strings.TrimLeft(c.text, "\r\n"))}) {
			t.Errorf("%s: not recognised", c.what)
		}
	}
	for _, text := range []string{"", head, head + "Device tps\nsda", `{"sysstat": {"hosts": [{"statistics": [{"timestamp": "12:00:00", "cpu-load": []}]}]}}`, `{"sysstat": {"hosts": [`, "procs -----------memory---------- \n"} {
		if _, _, err := readText(t, text, nil); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestClock(t *testing.T) {
	for _, c := range []struct {
		what, text                string
		wall, zoned, guess, clear bool
	}{
		{"mpstat", mpstat, true, false, false, true},
		{"vmstat UTC", vmstat, true, true, false, true},
		{"vmstat of a named zone", strings.ReplaceAll(vmstat, "UTC", "EST"), true, false, false, true},
		{"sadf", sadfText, true, true, false, true},
		{"sadf, local", strings.ReplaceAll(sadfText, `"utc": 1`, `"utc": 0`), true, false, false, true},
		{"a date that may be either", strings.ReplaceAll(mpstat, "07/14/26", "07/04/26"), true, false, true, true},
		{"the date is missing", mpstat[strings.Index(mpstat, "\n\n")+2:], true, false, false, false},
	} {
		tl, _, err := readText(t, c.text, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := tl.Clocks[0]
		if k.Wall != c.wall || k.Zoned != c.zoned || strings.Contains(k.Why, "assumed") != c.guess || strings.HasPrefix(k.Why, ingest.DateUnknown) == c.clear || (k.How == timeline.Recorded) != c.zoned {
			t.Errorf("%s: %+v", c.what, k)
		}
	}
	tl, _, _ := readText(t, mpstat, nil)
	want := map[string]string{timeline.AttrHostKernel: "6.1.0-18-amd64", timeline.AttrHostCPUs: "2"}
	for _, a := range tl.Attrs {
		if got := a.Text; want[a.Name] != got && want[a.Name] != fmt.Sprint(a.Value) {
			t.Errorf("%s: %s %g", a.Name, got, a.Value)
		}
	}
	if tl.Sources[0].Host != "node7" || len(tl.Attrs) != 2 {
		t.Errorf("host %q, %d attributes", tl.Sources[0].Host, len(tl.Attrs))
	}
}

var seeds = []string{mpstat, iostat, pidstat, vmstat, sar}

// TestCuts cuts logs anywhere: rows before the cut are read as before.
func TestCuts(t *testing.T) {
	for _, s := range seeds {
		whole, _, err := readText(t, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 200 {
			cut := len(s) * k / 200
			lines := strings.Count(s[:cut], "\n")
			tl, _, err := readText(t, s[:cut], nil)
			if err != nil {
				continue // no row yet
			}
			keep := func(tl *timeline.Timeline) (out []string) {
				for _, l := range shown(tl) {
					var row int
					if _, err := fmt.Sscanf(l[strings.LastIndex(l, "row"):], "row%d", &row); err == nil && row <= lines {
						out = append(out, l)
					}
				}
				return out
			}
			if d := cmp.Diff(keep(whole), keep(tl)); d != "" {
				t.Errorf("cut at %d of %.20q: %s", cut, s, d)
			}
		}
	}
	for k := range 200 {
		_, _, _ = readText(t, sadfText[:len(sadfText)*k/200], nil)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range append(seeds, sadfText) {
		f.Add([]byte(s))
		f.Add([]byte(s[:len(s)*2/3]))
	}
	f.Add([]byte("Linux 1 (a) \t99/99/99 \t_x_\t(2 CPU)\n\n08:12:53 PM\n08:12:53 PM CPU\n# Time\n# Time PID\nDevice\nDevice:\navg-cpu:\n1\n r b swpd\n上午\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		recognise(ingest.Head{Name: "x", Raw: data, Text: data})
		_, _, _ = readText(t, string(data), nil)
	})
}
