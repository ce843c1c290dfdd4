package ledger

import "gpureport/ingest/timeline"

// kernelKey is one row of a kernel table.
type kernelKey struct {
	name  timeline.StringID
	class Class
}

// kernelTimes is the device time, in ns, that kernels of known shapes took.
type kernelTimes map[kernelKey]int64

// kernelsDid is what kernels of known shapes did, by name and class.
type kernelsDid map[[2]string]*kernelDid

type kernelDid struct {
	ns          int64
	flop, bytes float64
	byType      map[string]int64
}

// add shares out what a group of equal operators did among its kernels, by their part of its time dur.
func (all kernelsDid) add(tl *timeline.Timeline, kernels kernelTimes, dur int64, flop, bytes float64, dtype string) {
	for k, ns := range kernels {
		key := [2]string{tl.Names.Get(k.name), k.class.String()}
		d := all[key]
		if d == nil {
			d = &kernelDid{byType: map[string]int64{}}
			all[key] = d
		}
		part := float64(ns) / float64(max(1, dur))
		d.ns += ns
		d.flop += flop * part
		d.bytes += bytes * part
		d.byType[dtype] += ns
	}
}

// tell writes it into the kernel tables of the GPUs that it was gathered over; each gets as much as its part of the time.
func (all kernelsDid) tell(gpus ...timeline.GPULedger) {
	total := map[[2]string]int64{}
	for i := range gpus {
		for _, k := range gpus[i].Kernels {
			total[[2]string{k.Name, k.Class}] += k.Dur
		}
	}
	for i := range gpus {
		for j := range gpus[i].Kernels {
			k := &gpus[i].Kernels[j]
			key := [2]string{k.Name, k.Class}
			d := all[key]
			if d == nil || total[key] == 0 {
				continue
			}
			part := float64(k.Dur) / float64(total[key])
			k.Shaped, k.FLOP, k.Bytes = int64(float64(d.ns)*part), d.flop*part, d.bytes*part
			var most int64
			for t, ns := range d.byType {
				if ns > most || ns == most && t < k.WorkType {
					k.WorkType, most = t, ns
				}
			}
		}
	}
}
