package facts

import (
	"cmp"
	"slices"

	"gpureport/ingest/timeline"
)

// What a job may use of its host's CPUs, and whether its own processes want more. The host's run queue says nothing of that: it holds what
// others run on the rest of the CPUs, and stays short while a job of many ranks shares two of them.

// affinity counts the CPUs that the processes which use GPUs and their workers may run on, all together; false where nobody says.
func (p *Pass) affinity(sub int) (Value, bool) {
	procs, workers, onGPU, _ := p.loaders(sub)
	ours := map[timeline.TrackID]bool{}
	for i := range procs {
		if onGPU[procs[i].thread] {
			ours[procs[i].track] = true
		}
	}
	if len(ours) == 0 {
		return Value{}, false
	}
	for i := range workers {
		ours[workers[i].track] = true
	}
	set := map[int]bool{}
	v := Value{Cover: 1, Conf: timeline.Measured}
	said := map[timeline.TrackID]bool{}
	for i := range p.Base.Attrs {
		a := &p.Base.Attrs[i]
		if a.Name != timeline.AttrProcCPUs || !ours[a.Track] {
			continue
		}
		said[a.Track] = true
		for c := range parseCPUs(a.Text) {
			set[c] = true
		}
		if v.NRefs++; len(v.Refs) < maxRefs {
			v.Refs = append(v.Refs, p.attrRef(a)...)
		}
	}
	if len(said) < len(ours) || len(set) == 0 {
		return Value{}, false // one that is not known may run anywhere
	}
	v.Num = float64(len(set))
	return v, true
}

// jobQueue holds what the job's own processes use and wait for against the CPUs that it may use, where those are fewer than the host's:
// CPU time taken and time waited for a CPU in a second are the tasks that ran or could in its mean. The larger of the two shares stands.
func (p *Pass) jobQueue(sub int, may, cpus float64) {
	if may <= 0 || cpus <= 0 || may >= cpus {
		return
	}
	procs, workers, onGPU, _ := p.loaders(sub)
	ours := map[timeline.TrackID]bool{}
	for i := range procs {
		if onGPU[procs[i].thread] {
			ours[procs[i].track] = true
		}
	}
	for i := range workers {
		ours[workers[i].track] = true
	}
	want := map[timeline.Time]float64{}
	waits := p.hostSeries(sub, timeline.TrackProcess, timeline.ProcRunWait)
	if len(waits) == 0 || len(ours) == 0 {
		return
	}
	var at []timeline.Time
	var row []uint32
	var src *timeline.Series
	add := func(list []hostSeries) {
		for i := range list {
			if !ours[list[i].track] {
				continue
			}
			s := &list[i].s
			for k, t := range s.At {
				if _, ok := want[t]; !ok {
					at, row = append(at, t), append(row, s.Row[k])
				}
				want[t] += s.Value[k]
				src = s
			}
		}
	}
	add(procs)
	add(waits)
	if src == nil {
		return
	}
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	s := timeline.Series{Metric: timeline.RunQueue, Track: src.Track}
	for _, i := range order {
		s.At, s.Row, s.Value = append(s.At, at[i]), append(s.Row, row[i]), append(s.Value, want[at[i]])
	}
	if over := p.shareOf(&s, func(_ int, v float64) bool { return v > may }); p.less(hostCrowded, sub, over.Num) {
		p.Set(hostCrowded, sub, over)
	}
	if queue := p.sampled(&s, mean(s.Value)/may); p.less(hostQueue, sub, queue.Num) {
		p.Set(hostQueue, sub, queue)
	}
}

// less tells whether a fact of this subject is not known or below v.
func (p *Pass) less(d *Decl, sub int, v float64) bool {
	have, ok := p.Get(d, sub)
	return !ok || have.Num < v
}
