package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

// reduce is one exposed all-reduce of four ranks.
func reduce(at, wait, transfer, bytes int64, split timeline.Confidence) timeline.Collective {
	c := timeline.Collective{Start: timeline.Time(at), End: timeline.Time(at + wait + transfer), Primitive: "all-reduce", Bytes: bytes,
		GroupSize: 4, Group: "0", ExposedNS: wait + transfer, Split: split, Culprit: -1, Seq: -1}
	if split != timeline.NoConfidence {
		c.PeerWaitNS, c.TransferNS, c.ExposedWaitNS, c.ExposedTransferNS = wait, transfer, wait, transfer
	}
	return c
}

func TestComm(t *testing.T) {
	r := handRank(0, h100, 10, timeline.Owners{timeline.Compute: 60 * ms, timeline.CommPeerWait: 10 * ms, timeline.CommTransfer: 30 * ms})
	r.GPUs[0].Side.HiddenComm = 100 * ms
	for i := range int64(10) {
		big, small := reduce(i*100*ms, 5*ms, 27*ms, 64<<20, timeline.Measured), reduce(i*100*ms+50*ms, 5*ms, 3*ms, 4096, timeline.Measured)
		small.OnCompute = true
		r.Collectives = append(r.Collectives, big, small)
	}
	in := handInput(t, r)
	s := derive(t, in)
	want(t, s, "gpu0", "gpu.comm_exposed_frac", 0.4)
	if v := want(t, s, "gpu0", "gpu.comm_own_frac", 0.3); v.Conf != timeline.Measured {
		t.Errorf("own is %v", v.Conf)
	}
	want(t, s, "gpu0", "gpu.comm_hidden_frac", 0.2)
	want(t, s, "gpu0", "gpu.comm_small_frac", 0.1)
	want(t, s, "gpu0", "gpu.comm_small_exposed_frac", 0.03)
	want(t, s, "gpu0", "gpu.comm_small_per_step_count", 1)
	want(t, s, "gpu0", "gpu.comm_on_compute_frac", 0.4*8/40)
	want(t, s, "gpu0", "gpu.comm_on_compute_own_frac", 0.03)
	want(t, s, "gpu0", "gpu.comm_busbw_bytes_per_s", 1.5*float64(64<<20)/27e-3)
	want(t, s, "gpu0", "gpu.comm_busbw_message_bytes", 64<<20)
	want(t, s, "gpu0", "gpu.comm_judged_frac", 0.27)
	// 64 MiB reach 347 GB/s over NVLink with in-network reduction, 360/473 of it as a ring.
	if v := want(t, s, "gpu0", "gpu.comm_busbw_of_expected_frac", 1.5*float64(64<<20)/27e-3/(347e9*360/473)); v.Conf != timeline.Inferred {
		t.Errorf("the group's hosts are not all known, so the speed is %v", v.Conf)
	}

	// Without sizes nothing is known of the link, nor of latency.
	for i := range r.Collectives {
		r.Collectives[i].Bytes = -1
	}
	s = derive(t, in)
	for _, id := range []ID{"gpu.comm_judged_frac", "gpu.comm_small_frac", "gpu.comm_small_exposed_frac", "gpu.comm_busbw_bytes_per_s"} {
		want(t, s, "gpu0", id, missing)
	}
	for i := range r.Collectives {
		r.Collectives[i].Bytes = []int64{64 << 20, 4096}[i%2]
	}

	// Across hosts nobody knows the wire.
	in.Job.World = 16
	s = derive(t, in)
	want(t, s, "gpu0", "gpu.comm_busbw_of_expected_frac", missing)
	want(t, s, "gpu0", "gpu.comm_small_frac", 0.1)

	// A part that is not in the table.
	in.Job.World = 4
	r.GPUs[0].Device = timeline.Device{Name: "Something"}
	want(t, derive(t, in), "gpu0", "gpu.comm_busbw_of_expected_frac", missing)
}

func TestCommConfidence(t *testing.T) {
	// A healthy ring's time for 512 MiB between four H100s.
	rate := 450e9 * 360 / 473
	full := int64(1.5 * float64(512<<20) / rate * 1e9)
	for _, c := range []struct {
		name     string
		split    timeline.Confidence
		transfer int64
		want     timeline.Confidence
	}{
		{"all ranks", timeline.Measured, 9 * full, timeline.Measured},
		{"one rank, a slow link or a peer that is always late", timeline.Inferred, 9 * full, timeline.Hint},
		{"one rank, as fast as the link can", timeline.Inferred, full, timeline.Inferred},
		{"too few to divide", timeline.NoConfidence, full, timeline.Hint},
	} {
		t.Run(c.name, func(t *testing.T) {
			owner := timeline.CommTransfer
			if c.split == timeline.NoConfidence {
				owner = timeline.CommUndivided
			}
			step := timeline.Owners{timeline.Compute: 100 * ms}
			step[owner] = c.transfer
			r := handRank(0, h100, 6, step)
			for i := range int64(6) {
				r.Collectives = append(r.Collectives, reduce(i*100*ms, 0, c.transfer, 512<<20, c.split))
			}
			s := derive(t, handInput(t, r))
			v, need := s.Get(subject(t, s, "gpu0"), "gpu.comm_own_frac")
			if need != nil || v.Conf != c.want {
				t.Errorf("own communication is %v %v, want %v", v, need, c.want)
			}
		})
	}
}

// job is ranks of a run in which the others waited for one.
func job(t testing.TB, ranks []*timeline.Reduced, late int, last, of int64, waits ...ledger.Wait) *Input {
	in := handInput(t, ranks...)
	in.Job.Culprits = []ledger.Culprit{{Rank: (late + 1) % len(ranks), Last: of - last, Of: of, WaitNS: 1}, {Rank: late, Last: last, Of: of, WaitNS: 1000}}
	in.Job.Waits = waits
	return in
}

func cause(t testing.TB, s *Set) string {
	t.Helper()
	v, need := s.Get(0, "run.culprit_cause")
	if need != nil {
		return "missing: " + need.Why
	}
	return v.Text
}

func waiting(rank int) *timeline.Reduced {
	return handRank(rank, h100, 20, timeline.Owners{timeline.Compute: 70 * ms, timeline.CommPeerWait: 28 * ms, timeline.CommTransfer: 2 * ms})
}

func TestStragglerLoader(t *testing.T) {
	late := handRank(2, h100, 20, timeline.Owners{timeline.Compute: 70 * ms, timeline.HostDataloader: 28 * ms, timeline.CommTransfer: 2 * ms})
	// The late rank computes while the others wait: its loader made it late before.
	in := job(t, []*timeline.Reduced{waiting(0), waiting(1), late, waiting(3)}, 2, 19, 20,
		ledger.Wait{Culprit: 2, Owner: timeline.Compute, DurNS: 3 * 20 * 28 * ms, Conf: timeline.Measured})
	s := derive(t, in)
	want(t, s, "run", "run.peer_wait_frac", 0.21)
	want(t, s, "run", "run.peer_wait_of_exposed_frac", 84./92)
	want(t, s, "run", "run.culprit_rank_count", 2)
	want(t, s, "run", "run.culprit_share_frac", 0.95)
	want(t, s, "run", "run.culprit_persistent_flag", 1)
	want(t, s, "run", "run.loader_skew_frac", 0.21)
	want(t, s, "run", "run.culprit_cause_frac", 1)
	want(t, s, "run", "run.ranks_missing_count", 0)
	if c := cause(t, s); c != "data-pipeline" {
		t.Errorf("cause is %s", c)
	}
}

// What the others waited before the late rank's window begins is not its loader's.
func TestStragglerUnseen(t *testing.T) {
	late := handRank(2, h100, 20, timeline.Owners{timeline.Compute: 70 * ms, timeline.HostDataloader: 28 * ms, timeline.CommTransfer: 2 * ms})
	in := job(t, []*timeline.Reduced{waiting(0), waiting(1), late, waiting(3)}, 2, 19, 20,
		ledger.Wait{Culprit: 2, Owner: timeline.UnknownOwner, DurNS: 2 * 20 * 28 * ms, Conf: timeline.Measured},
		ledger.Wait{Culprit: 2, Owner: timeline.HostDataloader, DurNS: 1 * 20 * 28 * ms, Conf: timeline.Measured})
	s := derive(t, in)
	want(t, s, "run", "run.peer_wait_frac", 0.21)
	want(t, s, "run", "run.loader_skew_frac", 0.07)
	if c := cause(t, s); c != "data-pipeline" {
		t.Errorf("cause is %s", c)
	}
}

func TestStragglerRotates(t *testing.T) {
	ranks := []*timeline.Reduced{waiting(0), waiting(1), waiting(2), waiting(3)}
	for i := range 20 {
		// Step by step another rank stands in Python while the others wait.
		o := &ranks[i%4].GPUs[0].Steps[i].Owners
		o[timeline.HostPython], o[timeline.CommPeerWait] = 28*ms, 0
	}
	in := job(t, ranks, 1, 6, 20, ledger.Wait{Culprit: 1, Owner: timeline.Compute, DurNS: ms})
	s := derive(t, in)
	want(t, s, "run", "run.culprit_rank_count", missing)
	want(t, s, "run", "run.culprit_persistent_flag", 0)
	want(t, s, "run", "run.loader_skew_frac", 0)
	if c := cause(t, s); c != "host-bound" {
		t.Errorf("cause is %s", c)
	}
}

func TestStragglerTwoRanks(t *testing.T) {
	// With two ranks one is last in half of the cases by chance.
	for last, flag := range map[int64]float64{12: 0, 18: 1} {
		s := derive(t, job(t, []*timeline.Reduced{waiting(0), waiting(1)}, 1, last, 20))
		want(t, s, "run", "run.culprit_persistent_flag", flag)
	}
}

func TestStragglerCompute(t *testing.T) {
	kernels := func(slow float64) []timeline.KernelRow {
		f := func(d int64) int64 { return int64(float64(d) * slow) }
		return []timeline.KernelRow{
			{Name: "gemm", Class: "matmul", Count: 200, Dur: f(1000 * ms), Median: f(5 * ms)},
			{Name: "adam", Class: "optimizer", Count: 20, Dur: f(400 * ms), Median: f(20 * ms)},
		}
	}
	product := func(tokens int64) []timeline.MatmulRow {
		return []timeline.MatmulRow{{M: tokens, N: 4096, K: 4096, DType: "bf16", TensorCore: 1, Count: 200, Dur: 1000 * ms}}
	}
	for _, c := range []struct {
		name   string
		slow   float64
		tokens int64 // 0: shapes not recorded
		change func(r *timeline.Reduced)
		want   string
	}{
		{"the same products take longer", 1.3, 8192, nil, "hardware"},
		{"larger products", 1.25, 10240, nil, "uneven-work"},
		{"no shapes, the optimizer is slower too", 1.3, 0, nil, "hardware"},
		{"no shapes, the optimizer is as fast", 1.3, 0, func(r *timeline.Reduced) { r.GPUs[0].Kernels[1] = kernels(1)[1] }, "unknown"},
		{"more launches", 1, 0, func(r *timeline.Reduced) { r.GPUs[0].Kernels[0].Count = 300 }, "uneven-work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ranks []*timeline.Reduced
			for i := range 4 {
				r := waiting(i)
				if i == 3 {
					r = handRank(3, h100, 20, timeline.Owners{timeline.Compute: 98 * ms, timeline.CommTransfer: 2 * ms})
				}
				r.GPUs[0].Kernels = kernels(1)
				if c.tokens > 0 {
					r.Rank.Shapes, r.Rank.Matmuls = true, product(8192)
				}
				if i == 3 {
					r.GPUs[0].Kernels = kernels(c.slow)
					if c.tokens > 0 {
						r.Rank.Matmuls = product(c.tokens)
					}
					if c.change != nil {
						c.change(r)
					}
				}
				ranks = append(ranks, r)
			}
			s := derive(t, job(t, ranks, 3, 20, 20, ledger.Wait{Culprit: 3, Owner: timeline.Compute, DurNS: 100 * ms, Conf: timeline.Measured}))
			if got := cause(t, s); got != c.want {
				t.Errorf("cause is %s, want %s", got, c.want)
			}
			want(t, s, "run", "run.loader_skew_frac", 0)
		})
	}
}

func TestStragglerOneRank(t *testing.T) {
	r := waiting(0)
	for i := range int64(20) {
		r.Collectives = append(r.Collectives, reduce(i*100*ms, 28*ms, 2*ms, 64<<20, timeline.Inferred))
	}
	in := handInput(t, r)
	in.Job.World = 8
	in.Job.Missing = []int{1, 2, 3, 4, 5, 6, 7}
	s := derive(t, in)
	if v := want(t, s, "run", "run.peer_wait_frac", 0.28); v.Conf != timeline.Inferred {
		t.Errorf("peer wait from one rank is %v", v.Conf)
	}
	want(t, s, "run", "run.ranks_missing_count", 7)
	for _, id := range []ID{"run.culprit_rank_count", "run.culprit_cause", "run.loader_skew_frac", "run.culprit_persistent_flag"} {
		want(t, s, "run", id, missing)
	}
}

func TestStragglerNobodyElse(t *testing.T) {
	in := handInput(t, handRank(0, h100, 3, timeline.Owners{timeline.Compute: 70 * ms}))
	in.Job.World = 0
	s := derive(t, in)
	want(t, s, "run", "run.ranks_missing_count", 0)
	want(t, s, "run", "run.loader_skew_frac", 0)
	want(t, s, "run", "run.peer_wait_frac", 0)
	// With a collective there are others, and nothing says how many.
	in.Job.Ranks[0].Collectives = []timeline.Collective{{Start: 0, End: 1, Bytes: -1}}
	s = derive(t, in)
	want(t, s, "run", "run.ranks_missing_count", missing)
	want(t, s, "run", "run.loader_skew_frac", missing)
}

func TestStragglerUndivided(t *testing.T) {
	r := handRank(0, h100, 3, timeline.Owners{timeline.Compute: 70 * ms, timeline.CommUndivided: 30 * ms})
	in := handInput(t, r, handRank(1, h100, 3, timeline.Owners{timeline.Compute: 70 * ms, timeline.CommUndivided: 30 * ms}))
	s := derive(t, in)
	for _, id := range []ID{"run.peer_wait_frac", "run.peer_wait_of_exposed_frac", "run.loader_skew_frac", "run.culprit_cause"} {
		want(t, s, "run", id, missing)
	}
}

func TestStragglerWithoutSteps(t *testing.T) {
	// Steps do not line up, so only what the meeting charged is left.
	a, b := waiting(0), waiting(1)
	b.Steps.Index = b.Steps.Index[1:]
	in := job(t, []*timeline.Reduced{a, b}, 1, 12, 20, ledger.Wait{Culprit: 1, Owner: timeline.HostCheckpoint, DurNS: 90 * ms, Conf: timeline.Measured},
		ledger.Wait{Culprit: 0, Owner: timeline.HostSync, DurNS: 30 * ms, Conf: timeline.Measured}, ledger.Wait{Culprit: -1, Owner: timeline.UnknownOwner, DurNS: 900 * ms})
	s := derive(t, in)
	if c := cause(t, s); c != "interruption" {
		t.Errorf("cause is %s", c)
	}
	want(t, s, "run", "run.culprit_cause_frac", 0.75)
}

func TestHosts(t *testing.T) {
	ranks := []*timeline.Reduced{waiting(0), waiting(1), waiting(2), waiting(3)}
	all := []int{0, 1, 2, 3}
	for _, c := range []struct {
		name    string
		hosts   [4]string
		group   []int
		size    int
		one     bool
		confide timeline.Confidence
	}{
		{"all here", [4]string{"a", "a", "a", "a"}, all, 4, true, timeline.Measured},
		{"two hosts", [4]string{"a", "a", "b", "b"}, all, 4, false, timeline.Measured},
		{"a group inside one of two hosts", [4]string{"a", "a", "b", "b"}, []int{0, 1}, 2, true, timeline.Measured},
		{"hosts not named", [4]string{}, all, 4, true, timeline.Inferred},
		{"most of a large group not seen", [4]string{"a", "a", "a", "a"}, nil, 64, false, timeline.Inferred},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, r := range ranks {
				r.Process.Host = c.hosts[i]
			}
			h := newHostMap(handInput(t, ranks...).Job)
			one, conf := h.one(ranks[0], &timeline.Collective{Group: "g", GroupRanks: c.group, GroupSize: c.size})
			if one != c.one || conf != c.confide {
				t.Errorf("one host: %v %v, want %v %v", one, conf, c.one, c.confide)
			}
		})
	}
}
