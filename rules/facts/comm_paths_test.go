package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
	"gpureport/rules/ledger"
)

// nccl adds what a log of NCCL says of one host; numbers and words by name.
func nccl(in *Input, src timeline.SourceID, host string, ranks []int, words map[string]string, numbers map[string]float64) {
	b := in.Base
	b.Tracks = append(b.Tracks, timeline.Track{Source: src, Kind: timeline.TrackOther, Proc: -1, Device: -1, Name: host})
	t := timeline.TrackID(len(b.Tracks) - 1)
	for k, v := range words {
		b.Attrs = append(b.Attrs, timeline.Attr{Track: t, Name: k, Text: v, Unit: unit.Text, Row: 7})
	}
	for k, v := range numbers {
		b.Attrs = append(b.Attrs, timeline.Attr{Track: t, Name: k, Value: v, Unit: unit.Count, Row: 9})
	}
	for _, r := range ranks {
		b.Procs = append(b.Procs, timeline.Process{Source: src, Host: host, PID: int64(100 + r), Rank: r})
	}
}

// ncclSource adds a log of NCCL to an input.
func ncclSource(in *Input) timeline.SourceID {
	in.Base.Clocks = append(in.Base.Clocks, timeline.Clock{Name: "nccl.log"})
	in.Base.Sources = append(in.Base.Sources, timeline.Source{Path: "nccl.log", Format: "nccl-log", Clock: timeline.ClockID(len(in.Base.Clocks) - 1)})
	return timeline.SourceID(len(in.Base.Sources) - 1)
}

func exposed(rank int) *timeline.Reduced {
	return handRank(rank, h100, 10, timeline.Owners{timeline.Compute: 60 * ms, timeline.CommTransfer: 40 * ms})
}

func TestSocketFacts(t *testing.T) {
	in := handInput(t, exposed(0), exposed(1))
	s := derive(t, in)
	for _, id := range []ID{"run.socket_channels_count", "run.rdma_adapters_count", "run.nccl_network", "run.rdma_without_gdr_count", "run.adapters_per_gpu_frac"} {
		want(t, s, "run", id, missing)
	}
	src := ncclSource(in)
	nccl(in, src, "a", []int{0}, map[string]string{timeline.AttrNCCLNetwork: "Socket", timeline.AttrNCCLAdapters: "eth0", timeline.AttrNCCLEnv: "NCCL_IB_DISABLE=1"},
		map[string]float64{timeline.AttrNCCLSocketEnds: 4, timeline.AttrNCCLRDMAEnds: 0, timeline.AttrNCCLGDREnds: 0, timeline.AttrNCCLRDMA: 0})
	nccl(in, src, "b", []int{1}, nil, map[string]float64{timeline.AttrNCCLSocketEnds: 2})
	s = derive(t, in)
	if v := want(t, s, "run", "run.socket_channels_count", 6); len(v.Refs) != 2 || v.Refs[0].Path != "nccl.log" || v.Refs[0].Row != 9 {
		t.Errorf("%+v", v.Refs)
	}
	want(t, s, "run", "run.adapters_per_gpu_frac", 1)
	want(t, s, "run", "run.rdma_without_gdr_count", 0)
	// That NCCL found none does not mean that there is none.
	want(t, s, "run", "run.rdma_adapters_count", missing)
	if v, _ := s.Get(0, "run.nccl_network"); v.Text != "Socket over eth0; set: NCCL_IB_DISABLE=1" {
		t.Errorf("%q", v.Text)
	}
	// A matrix names two, and an Ethernet port that is none.
	for _, b := range []string{"mlx5_0", "mlx5_1", "eth0"} {
		in.Base.Links = append(in.Base.Links, timeline.Link{Source: 0, A: "GPU0", B: b, Kind: "PIX", Row: 3})
	}
	want(t, derive(t, in), "run", "run.rdma_adapters_count", 2)
}

func TestRankHosts(t *testing.T) {
	a, b := exposed(0), exposed(1)
	in := handInput(t, a, b)
	a.Process.Host, b.Process.Host = "", ""
	want(t, derive(t, in), "run", "run.rank_hosts_count", missing)
	a.Process.Host = "n1.cluster"
	want(t, derive(t, in), "run", "run.rank_hosts_count", missing)
	b.Process.Host = "N1"
	want(t, derive(t, in), "run", "run.rank_hosts_count", 1)
	in.Job.World = 4 // two more, who knows where
	want(t, derive(t, in), "run", "run.rank_hosts_count", missing)
	nccl(in, ncclSource(in), "n2", []int{2, 3}, nil, map[string]float64{timeline.AttrNCCLSocketEnds: 1})
	want(t, derive(t, in), "run", "run.rank_hosts_count", 2)
	alone := exposed(0)
	alone.Process.Host = ""
	one := handInput(t, alone)
	one.Job.World = 1
	want(t, derive(t, one), "run", "run.rank_hosts_count", 1)
}

func TestGDRFacts(t *testing.T) {
	in := handInput(t, exposed(0), exposed(1))
	src := ncclSource(in)
	nccl(in, src, "a", []int{0, 1, 2, 3}, map[string]string{timeline.AttrNCCLNetwork: "IB", timeline.AttrNCCLAdapters: "mlx5_0:1/IB mlx5_1:1/IB", timeline.AttrNCCLGDROff: "HCA 1 'mlx5_1'"},
		map[string]float64{timeline.AttrNCCLSocketEnds: 0, timeline.AttrNCCLRDMAEnds: 10, timeline.AttrNCCLGDREnds: 4, timeline.AttrNCCLRDMA: 2})
	s := derive(t, in)
	want(t, s, "run", "run.rdma_without_gdr_count", 6)
	want(t, s, "run", "run.adapters_per_gpu_frac", 0.5)
	want(t, s, "run", "run.rdma_adapters_count", 2)
	want(t, s, "run", "run.socket_channels_count", 0)
}

func TestGPUPaths(t *testing.T) {
	in := handInput(t, exposed(0), exposed(1), exposed(2))
	in.Base.Sources = []timeline.Source{{Path: "topo.txt", Format: "topo"}}
	in.Base.Clocks = []timeline.Clock{{}}
	in.Logs = map[string][]timeline.DeviceID{}
	for i := range 3 {
		in.Base.Devices = append(in.Base.Devices, timeline.Device{Index: i, Ordinal: -1, Proc: -1})
		in.Logs[[]string{"gpu0", "gpu1", "gpu2"}[i]] = []timeline.DeviceID{timeline.DeviceID(i)}
	}
	link := func(a, b, kind string, n int32) {
		in.Base.Links = append(in.Base.Links, timeline.Link{A: a, B: b, Kind: kind, Count: n, Row: 2})
	}
	link("GPU0", "GPU1", "PHB", 0)
	link("GPU0", "GPU2", "SYS", 0)
	link("GPU1", "GPU0", "PHB", 0)
	// Nowhere NVLink: PCIe is the ceiling.
	s := derive(t, in)
	want(t, s, "gpu0", "gpu.far_peers_count", 0)
	want(t, s, "gpu0", "gpu.nic_far_flag", missing)
	want(t, s, "gpu2", "gpu.far_peers_count", missing)
	want(t, s, "gpu0", "gpu.p2p_off_count", missing)
	link("GPU1", "GPU2", "NV12", 12)
	link("GPU0", "GPU7", "SYS", 0) // a GPU that the run does not use
	link("GPU0", "mlx5_0", "SYS", 0)
	link("GPU0", "mlx5_1", "NODE", 0)
	link("GPU1", "mlx5_0", "PXB", 0)
	src := ncclSource(in)
	nccl(in, src, "a", []int{0, 1, 2}, map[string]string{timeline.AttrNCCLP2POff: "P2P is disabled between connected GPUs 1 and 0."}, map[string]float64{timeline.AttrNCCLSHMEnds: 2})
	nccl(in, src, "b", []int{3}, nil, nil)
	for _, k := range [][3]string{{"rank0", "rank1", "SHM/direct"}, {"rank1", "rank0", "SHM/direct"}, {"rank1", "rank2", "P2P/CUMEM"}, {"rank0", "rank3", "NET/Socket"}} {
		in.Base.Links = append(in.Base.Links, timeline.Link{Source: src, A: k[0], B: k[1], Kind: k[2], Row: 11})
	}
	s = derive(t, in)
	want(t, s, "gpu0", "gpu.far_peers_count", 2)
	want(t, s, "gpu1", "gpu.far_peers_count", 1)
	want(t, s, "gpu0", "gpu.nic_far_flag", 1)
	want(t, s, "gpu1", "gpu.nic_far_flag", 0)
	if v := want(t, s, "gpu0", "gpu.p2p_off_count", 1); v.Refs[0].Row != 11 {
		t.Errorf("%+v", v)
	}
	want(t, s, "gpu1", "gpu.p2p_off_count", 1)
	want(t, s, "gpu2", "gpu.p2p_off_count", 0)
	for id, w := range map[ID]string{"gpu.far_peers": "PHB to GPU1, SYS to GPU2, SHM/direct to rank1, peer access is off, says NCCL", "gpu.nic_near": "mlx5_1 over NODE"} {
		if v, need := s.Get(subject(t, s, "gpu0"), id); need != nil || v.Text != w {
			t.Errorf("%s: %q %v", id, v.Text, need)
		}
	}
}

// A matrix states no UUIDs: where nothing matches its GPUs, the index that NCCL logs of each rank does.
func TestMatrixByIndex(t *testing.T) {
	in := handInput(t, exposed(0), exposed(1))
	in.Base.Sources = []timeline.Source{{Path: "topo.txt", Format: "topo"}}
	in.Base.Clocks = []timeline.Clock{{}}
	for _, k := range [][3]string{{"GPU2", "GPU3", "SYS"}, {"GPU2", "mlx5_0", "PIX"}, {"GPU2", "GPU5", "SYS"}} {
		in.Base.Links = append(in.Base.Links, timeline.Link{A: k[0], B: k[1], Kind: k[2], Row: 4})
	}
	in.Base.Links = append(in.Base.Links, timeline.Link{A: "GPU3", B: "GPU4", Kind: "NV4", Count: 4, Row: 5})
	want(t, derive(t, in), "gpu0", "gpu.far_peers_count", missing)
	src := ncclSource(in)
	nccl(in, src, "a", []int{0, 1}, nil, map[string]float64{timeline.AttrNCCLSHMEnds: 2})
	for i := range in.Base.Procs {
		in.Base.Procs[i].Meta = map[string]string{"gpu": []string{"2", "3"}[i]}
	}
	s := derive(t, in)
	if v := want(t, s, "gpu0", "gpu.far_peers_count", 1); v.Conf != timeline.Inferred || v.Refs[0].Path != "topo.txt" {
		t.Errorf("%+v", v)
	}
	want(t, s, "gpu0", "gpu.nic_far_flag", 0)
	want(t, s, "gpu1", "gpu.far_peers_count", 0)
	in.Base.Sources = append(in.Base.Sources, timeline.Source{Path: "other.txt", Format: "topo"})
	in.Base.Links = append(in.Base.Links, timeline.Link{Source: 2, A: "GPU0", B: "GPU1", Kind: "NV4", Count: 4})
	want(t, derive(t, in), "gpu0", "gpu.far_peers_count", missing) // two matrices: nobody knows whose
}

// across makes 16 ranks on two hosts, of which the first is traced, exchange n bytes in the given transfer time.
func across(t *testing.T, bytes, transfer int64) (*Input, *timeline.Reduced) {
	r := exposed(0)
	r.Process.Host = "a"
	for i := range int64(10) {
		c := reduce(i*100*ms, 0, transfer, bytes, timeline.Measured)
		c.GroupSize = 16
		r.Collectives = append(r.Collectives, c)
	}
	in := handInput(t, r)
	in.Job.World = 16
	return in, r
}

func TestSpeedAcrossHosts(t *testing.T) {
	in, r := across(t, 1<<30, 20*ms)
	want(t, derive(t, in), "gpu0", "gpu.comm_between_of_expected_frac", missing)
	src := ncclSource(in)
	for h := range 2 {
		var ranks []int
		for k := range 8 {
			ranks = append(ranks, 8*h+k)
		}
		nccl(in, src, string(rune('a'+h)), ranks, map[string]string{timeline.AttrNCCLNetwork: "IB", timeline.AttrNCCLAdapters: "m0 m1 m2 m3"}, map[string]float64{timeline.AttrNCCLSpeed: 50e9})
	}
	s := derive(t, in)
	moved := 2. * 15 / 16 * (1 << 30)
	healthy := 430e-6 + moved/(200e9*0.73)
	want(t, s, "gpu0", "gpu.comm_between_of_expected_frac", healthy/20e-3)
	want(t, s, "gpu0", "gpu.comm_busbw_of_expected_frac", healthy/20e-3)
	want(t, s, "gpu0", "gpu.comm_slowest_of_expected_frac", healthy/20e-3)
	want(t, s, "gpu0", "gpu.comm_between_judged_frac", 0.4)
	want(t, s, "run", "run.comm_between_judged_frac", 0.4)
	want(t, s, "gpu0", "gpu.comm_inside_judged_frac", 0)
	want(t, s, "gpu0", "gpu.comm_inside_of_expected_frac", missing)
	if v, _ := s.Get(subject(t, s, "gpu0"), "gpu.comm_slowest"); v.Text != "all-reduce of 1 GiB in group 0: 101 GB/s of 142 GB/s expected" {
		t.Errorf("%q", v.Text)
	}
	// One MiB is latency: not judged, whatever it took.
	for i := range r.Collectives {
		r.Collectives[i].Bytes = 1 << 20
	}
	want(t, derive(t, in), "gpu0", "gpu.comm_between_of_expected_frac", missing)
	// Over sockets nobody knows the wire.
	for i := range r.Collectives {
		r.Collectives[i].Bytes = 1 << 30
	}
	for i := range in.Base.Attrs {
		if in.Base.Attrs[i].Name == timeline.AttrNCCLNetwork {
			in.Base.Attrs[i].Text = "Socket"
		}
	}
	want(t, derive(t, in), "gpu0", "gpu.comm_between_of_expected_frac", missing)
}

// A benchmark of as many ranks among the inputs is the measure, across hosts too.
func TestSpeedByBenchmark(t *testing.T) {
	in, _ := across(t, 3<<20, 1*ms)
	nccl(in, ncclSource(in), "a", nil, map[string]string{timeline.AttrNCCLBench: "all-reduce 16: 2097152=6000000000 4194304=10000000000"}, nil)
	want(t, derive(t, in), "gpu0", "gpu.comm_between_of_expected_frac", 2.*15/16*(3<<20)/8e9/1e-3)
}

func TestSlowPair(t *testing.T) {
	var ranks []*timeline.Reduced
	for rank := range 8 {
		r := exposed(rank)
		r.Process.Host = "a"
		transfer := int64(2 * ms)
		if rank/2 == 2 {
			transfer = 10 * ms
		}
		for i := range int64(6) {
			c := reduce(i*100*ms, 0, transfer, 64<<20, timeline.Measured)
			c.GroupSize, c.GroupRanks = 2, []int{rank / 2 * 2, rank/2*2 + 1}
			r.Collectives = append(r.Collectives, c)
		}
		ranks = append(ranks, r)
	}
	s := derive(t, handInput(t, ranks...))
	want(t, s, "run", "run.slow_pair_frac", 0.2)
	if v, _ := s.Get(0, "run.slow_pair"); v.Text != "ranks 4 and 5, all-reduce inside a host: 6.71 GB/s, other pairs 33.6 GB/s" {
		t.Errorf("%q", v.Text)
	}
	want(t, derive(t, handInput(t, ranks[:4]...)), "run", "run.slow_pair_frac", missing) // two pairs are no measure
}

func TestLinkModels(t *testing.T) {
	links := newBench().in.Tables.Links
	m, ok := links.Model("nvlink", "8.0")
	if !ok {
		t.Fatal("no model of an A100's NVLink")
	}
	// Where a curve was measured, the model stays near it: 8 A100, 8 to 512 MiB.
	for _, c := range []struct{ mib, gbs float64 }{{8, 110}, {64, 172}, {512, 223}} {
		if rate, _ := m.BusBW(1.75*c.mib*(1<<20), 300e9); rate < 0.8*c.gbs*1e9 || rate > 1.2*c.gbs*1e9 {
			t.Errorf("%.0f MiB: %.0f GB/s, measured %.0f", c.mib, rate/1e9, c.gbs)
		}
	}
	if _, small := m.BusBW(1.75*(1<<20), 300e9); !small {
		t.Error("1 MiB is latency")
	}
	if _, ok := links.Model("carrier pigeon", ""); ok {
		t.Error("a model of nothing")
	}
	if _, small := (&ledger.BusModel{Latency: 1e-4, RateFrac: 1}).BusBW(1e9, 1e10); small {
		t.Error("1 GB in 100 ms is not latency")
	}
}

func TestSizesInWords(t *testing.T) {
	for want, got := range map[string]string{"64 KiB": sizes(64<<10, 64<<10), "1000 MiB": sizes(1000<<20, 1000<<20), "1.5 MiB to 12 GiB": sizes(3<<19, 12<<30), "1800 GB/s": gbs(1.8e12), "7.86 GB/s": gbs(7.86e9)} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
