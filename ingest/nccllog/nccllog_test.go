package nccllog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpureport/ingest"
	"gpureport/ingest/ingesttest"
	"gpureport/ingest/timeline"
)

var of = ingesttest.Reader{Format: Format}

// two ranks on two hosts that fell back to sockets.
const sockets = `gpu-a:100:100 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.5<0>
gpu-a:100:100 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
gpu-a:100:140 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
gpu-a:100:140 [0] NCCL INFO NCCL_COMM_ID set by environment to 172.17.16.64:23456
gpu-a:100:140 [0] NCCL INFO NET/IB : No device found.
gpu-a:100:140 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.5<0> [1]eth1:10.1.0.5<0>
gpu-a:100:140 [0] NCCL INFO Using network Socket
gpu-a:100:140 [0] NCCL INFO ncclCommInitRank comm 0x55eb22a04a50 rank 0 nranks 2 cudaDev 0 nvmlDev 3 busId 80 commId 0x2ef13c5ed0553a05 - Init START
gpu-b:200:240 [0] NCCL INFO ncclCommInitRank comm 0x55eb22a04a51 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 80 commId 0x2ef13c5ed0553a05 - Init START
gpu-a:100:140 [0] NCCL INFO comm 0x55eb22a04a50 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
gpu-a:100:140 [0] NCCL INFO Channel 00/02 :    0   1
gpu-a:100:140 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1
gpu-a:100:140 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[3] [receive] via NET/Socket/0
gpu-a:100:140 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[3] [receive] via NET/Socket/1
gpu-a:100:140 [0] NCCL INFO Channel 00/0 : 0[3] -> 1[0] [send] via NET/Socket/0
gpu-a:100:140 [0] NCCL INFO Connected all rings
gpu-a:100:140 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
`

func shown(tl *timeline.Timeline) (out []string) {
	for _, p := range tl.Procs {
		out = append(out, fmt.Sprintf("proc %s:%d rank %d of %d gpu %s", p.Host, p.PID, p.Rank, p.WorldSize, p.Meta["gpu"]))
	}
	out = append(out, ingesttest.Shown(tl)...)
	for _, l := range tl.Links {
		out = append(out, fmt.Sprintf("%s>%s %s row%d", l.A, l.B, l.Kind, l.Row))
	}
	for i, at := range tl.Marks.At {
		out = append(out, fmt.Sprintf("mark %d: %s", at, tl.Names.Get(tl.Marks.Name[i])))
	}
	return out
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []string
		problems   string
	}{
		{"sockets", sockets, []string{
			"proc gpu-a:100 rank 0 of 2 gpu 3", "proc gpu-b:200 rank 1 of 2 gpu 0",
			"gpu-a: nccl_adapters=eth0 eth1",
			"gpu-a: nccl_channels=2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
			"gpu-a: nccl_env=NCCL_COMM_ID=(address) NCCL_SOCKET_IFNAME=eth0",
			"gpu-a: nccl_gdr_ends_count=0", "gpu-a: nccl_network=Socket", "gpu-a: nccl_p2p_ends_count=0",
			"gpu-a: nccl_ranks=1 of 2", "gpu-a: nccl_rdma_count=0", "gpu-a: nccl_rdma_ends_count=0", "gpu-a: nccl_shm_ends_count=0", "gpu-a: nccl_socket_ends_count=3",
			"gpu-a: nccl_version=2.21.5+cuda12.4", "gpu-b: nccl_ranks=1 of 2",
			"rank0>rank1 NET/Socket row15", "rank1>rank0 NET/Socket row13"}, ""},
		{"RDMA, direct on one adapter, launchers' prefixes", "[rank0]: n1:1:2 [0] NCCL INFO NET/IB : Made virtual device [0] name=mlx5_0 speed=400000 ndevs=1\n" +
			"[1,0]<stdout>:n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB bond0:172.36.134.184<0>\n" +
			"(Worker pid=1) n1:1:2 [0] NCCL INFO Using network IB\n" +
			"0: n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'\n" +
			"2026-07-14T08:12:53.1Z \x1b[32mn1:1:2 [0] NCCL INFO comm 0x9502320 rank 0 nranks 16 cudaDev 0 busId c1000 - Init COMPLETE\x1b[0m\n" +
			"n1:1:2 [0] NCCL INFO Channel 07/0 : 0[0] -> 8[0] [send] via NET/IB/3/GDRDMA\n" +
			"n1:1:2 [0] NCCL INFO Channel 07/0 : 0[0] -> 9[0] [send] via NET/IB/0(1)/GDRDMA\n" +
			"n1:1:2 [0] NCCL INFO Channel 03/0 : 0[0] -> 1[c6000] via P2P/CUMEM/read\n", []string{
			"proc n1:1 rank 0 of 16 gpu 0",
			"n1: nccl_adapter_bytes_per_s=50000000000", "n1: nccl_adapters=mlx5_0:1/IB mlx5_1:1/RoCE", "n1: nccl_gdr_ends_count=2", "n1: nccl_gdr_off=HCA 1 'mlx5_1'", "n1: nccl_network=IB",
			"n1: nccl_p2p_ends_count=1", "n1: nccl_ranks=1 of 16", "n1: nccl_rdma_count=2", "n1: nccl_rdma_ends_count=2", "n1: nccl_shm_ends_count=0", "n1: nccl_socket_ends_count=0",
			"rank0>rank1 P2P/CUMEM/read row8", "rank0>rank8 NET/IB/GDRDMA row6", "rank0>rank9 NET/IB/GDRDMA row7"}, ""},
		{"no peer access, RCCL, a merged line, warnings", "RCCL version : 2.21.5-main:a29a210+\n" +
			"h:7:8 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n" +
			"h:9:10 [1] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.\n" +
			"h:7:8 [0] NCCL INFO comm 0x1111 rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init START\n" +
			"h:7:8 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/directh:9:10 [1] NCCL INFO comm 0x2222 rank 1 nranks 2 cudaDev 1 nvmlDev 1 - Init START\n" +
			"[2026-07-14 08:12:53] h:7:8 [0] misc/socket.cc:483 NCCL WARN socketProgress: Connection closed by remote peer h2<51234>\n" +
			"[rank1]:[E714] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE) ran for 600001 milliseconds\n", []string{
			"proc h:7 rank 0 of 2 gpu 0", "proc h:9 rank 1 of 2 gpu 1",
			"h: nccl_env=NCCL_P2P_DISABLE=1", "h: nccl_gdr_ends_count=0", "h: nccl_p2p_ends_count=0",
			"h: nccl_p2p_off=P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
			"h: nccl_ranks=2 of 2", "h: nccl_rdma_ends_count=0", "h: nccl_shm_ends_count=1", "h: nccl_socket_ends_count=0",
			"h: nccl_version=RCCL 2.21.5-main:a29a210+", "h: nccl_warnings_count=1",
			"rank0>rank1 SHM/direct row5",
			"mark 6: NCCL WARN of h rank 0: socketProgress: Connection closed by remote peer h2<51234>",
			"mark 7: [rank1]:[E714] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE) ran for 600001 milliseconds"}, "merged-lines@5*1"},
		{"ranks of a part of the job", "a:1:5 [0] NCCL INFO comm 0x10 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1 commId 0xaa - Init START\n" +
			"a:2:5 [1] NCCL INFO comm 0x11 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2 commId 0xaa - Init START\n" +
			"a:1:6 [0] NCCL INFO comm 0x12 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0xbb - Init START\n" +
			"a:2:6 [1] NCCL INFO comm 0x13 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2 commId 0xbb - Init START\n" +
			"a:1:7 [0] NCCL INFO comm 0x14 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0xcc - Init START\n" +
			"a:2:6 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n" +
			"a:1:7 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[7] via P2P/CUMEM\n" +
			"a:1:9 [0] NCCL INFO Channel 00/1 : 0[0] -> 2[2] via P2P/CUMEM\n", []string{
			"proc a:1 rank 0 of 4 gpu 0", "proc a:2 rank 3 of 4 gpu 1",
			"a: nccl_gdr_ends_count=0", "a: nccl_p2p_ends_count=3", "a: nccl_ranks=2 of 4", "a: nccl_rdma_ends_count=0", "a: nccl_shm_ends_count=0", "a: nccl_socket_ends_count=0",
			"rank0>rank2 P2P/CUMEM row8", "rank3>rank0 P2P/CUMEM row6"}, "unnamed-pairs@1*1"},
		{"the table of a benchmark", "# Collective test starting: all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on h device  0 [0x18] NVIDIA H100 80GB HBM3\n#  Rank  7 Group  0 Pid 8 on h device  7 [0x19] NVIDIA H100 80GB HBM3\n" +
			"h:1:2 [0] NCCL INFO Using network IB\n" +
			"           8             2     float     sum      -1    40.12    0.00    0.00      0    39.88    0.00    0.00      0\n" +
			"     8388608       2097152     float     sum      -1    992.6    8.45   16.20      0    986.0    8.51   16.31      0\n" +
			"    67108864      16777216     float    none       0  28066.8    2.39    2.39       0  37664.5    1.78    1.78       0\n", []string{
			"proc h:1 rank -1 of 0 gpu 0", "h: nccl_benchmark=all-reduce 8: 8388608=16200000000 67108864=2390000000", "h: nccl_network=IB"}, ""},
		{"cut in a line", "h:1:2 [0] NCCL INFO Using network IB\nh:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CU", []string{"proc h:1 rank -1 of 0 gpu 0", "h: nccl_network=IB"}, "unterminated-row@2*1"},
	} {
		tl, ps, err := of.Read(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, shown(tl)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if got := strings.ReplaceAll(of.Codes(ps), "nccl-log/", ""); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.what, got, c.problems)
		}
		if k := tl.Clocks[0]; k.Wall || k.Why == "" {
			t.Errorf("%s: %+v", c.what, k)
		}
	}
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]bool{
		sockets: true,
		"epoch 0 loss 1.2\n[rank3]: gpu-a:1:2 [3] NCCL INFO Using network IB\n":                            true,
		"proxmox:1417089 [1] NCCL INFO Using network IB\n":                                                 true,
		"set NCCL_DEBUG=INFO to see NCCL INFO lines\n":                                                     false,
		"Jul 14 08:12:53 gpu-a train[7]: gpu-a:1:2 [3] NCCL INFO Using network IB\n":                       false,
		`{"log":"gpu-a:1:2 [3] NCCL INFO Using network IB"}` + "\n":                                        false,
		"NCCL version 2.21.5+cuda12.4\nall is well\n":                                                      false,
		"[2026-07-14 08:12:53] gpu-a:1:2 [3] misc/socket.cc:483 NCCL WARN Connect to 10.0.0.1<1> failed\n": true,
	} {
		if got := recognise(ingest.Head{Text: []byte(text), Raw: []byte(text)}); got != want {
			t.Errorf("%.60q: %v", text, got)
		}
	}
}

func TestUnusable(t *testing.T) {
	for _, text := range []string{"", "NCCL INFO\n", "x\n"} {
		if _, _, err := of.Read(t, text); err == nil {
			t.Errorf("%q: read without complaint", text)
		}
	}
}

// TestNothingPrivate: values of other environment and addresses of the network stay where they are.
func TestNothingPrivate(t *testing.T) {
	tl, _, err := of.Read(t, sockets+"gpu-a:100:140 [0] NCCL INFO HOME set by environment to /home/me\n"+
		"gpu-a:100:140 [0] net.cc:3 NCCL WARN Call to connect to fe80::e42:a1ff:fe12:3456<5000> and 192.168.4.7<33> failed\n")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(shown(tl), "\n")
	for _, s := range []string{"/home", "10.0.0", "172.17", "192.168", "fe80", "0x55"} {
		if strings.Contains(all, s) {
			t.Errorf("%s is kept:\n%s", s, all)
		}
	}
}

func TestCutAnywhere(t *testing.T) {
	// Counts grow with the log: a cut one has lower ones.
	text := "h:1:2 [0] NCCL INFO Using network IB\nh:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1\nh:1:2 [0] NCCL INFO NVLS multicast support is available on dev 0\n"
	of.CutAnywhere(t, text)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(sockets))                                                                                                // plain
	f.Add([]byte("h:1:2 [0] NCCL INFO Channel 00 : 0 -> 1 via SHMh:1:2 [0] NCCL INFO x"))                                 // merged, unterminated
	f.Add([]byte("h:99999999999:2 [0] NCCL INFO comm 0x1 rank 9 nranks 3\n"))                                             // numbers too large
	f.Add([]byte("h:1:2 [-1] NCCL WARN \xff\xfe\x00\nh:1:2 [0] NCCL INFO NET/IB : Using [0]\n"))                          // no text, no names
	f.Add([]byte("a:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] [send] via NET/\na:1 [0] NCCL INFO GPU Direct RDMA for")) // ends early
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = of.Read(t, string(b))
		recognise(ingest.Head{Text: b, Raw: b})
	})
}
