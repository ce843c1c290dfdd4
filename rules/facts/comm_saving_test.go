package facts

import (
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

// starved is as across, of a GPU that computes a tenth of the time and is in collectives for the rest.
func starved(t *testing.T, bytes int64) (*Input, *timeline.Reduced) {
	in, r := across(t, bytes, 90*ms)
	few := handRank(0, h100, 10, timeline.Owners{timeline.Compute: 10 * ms, timeline.CommTransfer: 90 * ms})
	r.GPUs = few.GPUs
	return in, r
}

// twoHosts tells that the ranks of the group lie on two hosts, by the traces of all.
func twoHosts(in *Input) {
	all := make([]int, 16)
	for i := range all {
		all[i] = i
	}
	in.Job.Groups = []ledger.Group{{Name: "0", Size: 16, Ranks: all, Here: all, Hosts: 2}}
}

func TestCommSaving(t *testing.T) {
	const moved = 2. * 15 / 16 * (1 << 30)
	over := func(link float64) float64 { return 430e-6 + moved/(link*0.73) } // s, of 90 ms
	both := func(t *testing.T, in *Input, comm, network float64) {
		t.Helper()
		s := derive(t, in)
		want(t, s, "gpu0", "gpu.save_comm_frac", comm)
		want(t, s, "run", "run.save_network_frac", network)
	}
	// Who sits where is not known, and so no way: all of it.
	in, _ := starved(t, 1<<30)
	want(t, derive(t, in), "gpu0", "gpu.compute_uncovered_frac", 0.1)
	both(t, in, 0.9, 0.9)
	// Eight GPUs a host reach a network by eight links of 63 GB/s at best.
	twoHosts(in)
	both(t, in, 0.9*(1-over(8*63e9)/90e-3), 0.9*(1-over(8*63e9)/90e-3))
	// The log names four adapters.
	src := ncclSource(in)
	for h := range 2 {
		var ranks []int
		for k := range 8 {
			ranks = append(ranks, 8*h+k)
		}
		nccl(in, src, string(rune('a'+h)), ranks, map[string]string{timeline.AttrNCCLNetwork: "IB", timeline.AttrNCCLAdapters: "m0 m1 m2 m3"}, map[string]float64{timeline.AttrNCCLSpeed: 50e9})
	}
	both(t, in, 0.9*(1-over(200e9)/90e-3), 0.9*(1-over(200e9)/90e-3))
	// Over sockets it tells where the ranks sit, and no speed.
	in.Job.Groups = nil
	for i := range in.Base.Attrs {
		if in.Base.Attrs[i].Name == timeline.AttrNCCLNetwork {
			in.Base.Attrs[i].Text = "Socket"
		}
	}
	both(t, in, 0.9*(1-over(8*63e9)/90e-3), 0.9*(1-over(8*63e9)/90e-3))
	// Sizes are not known.
	in, _ = starved(t, -1)
	twoHosts(in)
	want(t, derive(t, in), "gpu0", "gpu.save_comm_frac", 0.9)
	// It runs as fast as such a network can: half of the bytes take half of the time, a network returns nothing.
	in, r := starved(t, 1<<30)
	twoHosts(in)
	for i := range r.Collectives {
		r.Collectives[i].TransferNS = int64(over(8*63e9) * 1e9)
	}
	both(t, in, 0.45, 0)
	// There is computing to hide it behind, unless that covers others already.
	in, r = across(t, 1<<30, 40*ms)
	want(t, derive(t, in), "gpu0", "gpu.save_comm_frac", 0.4)
	twoHosts(in)
	want(t, derive(t, in), "gpu0", "gpu.save_comm_frac", 0.4)
	r.GPUs[0].Side.HiddenComm = 590 * ms
	want(t, derive(t, in), "gpu0", "gpu.save_comm_frac", 0.4*(1-over(8*63e9)/40e-3))
}
