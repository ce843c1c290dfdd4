package ledger

import (
	"math"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
)

// sizeKey is what durations are compared over.
type sizeKey struct {
	primitive string
	comm      int32
	// Where the size is not recorded:
	name string
	grid uint32
	gpu  int
}

// infer divides every collective: by when the last of all members came where all are here; where some are missing, or only one rank is, by what
// its size needs at most. The latest of those who are here bounds the wait from below.
func (m *meeting) infer() {
	for k := range m.instances {
		in := &m.instances[k]
		last := m.lastOf(in)
		culprit := -1
		if in.culprit >= 0 && in.full {
			culprit = m.job.Ranks[in.members[in.culprit].rank].Process.Rank
		}
		for _, x := range in.members {
			c := m.col(x)
			split(c, m.until(in, last, x), in.conf, m.job.Ranks[x.rank].Exposed)
			c.Culprit, c.Latest = culprit, m.local(int(x.rank), in.latest)
		}
	}
	least := make([][]int64, len(m.job.Ranks)) // by rank and collective: what its size needs at most; 0 not known
	for ri, r := range m.job.Ranks {
		by := map[sizeKey][]int{}
		var order []sizeKey
		for i := range r.Collectives {
			c := &r.Collectives[i]
			if c.Split == timeline.Measured || !m.t.Symmetric(c.Primitive) || c.GroupSize == 1 {
				continue
			}
			k := sizeKey{primitive: c.Primitive, comm: m.comm[ri][i]}
			if c.Bytes < 0 {
				k.name, k.grid, k.gpu = c.Name, c.Grid, c.GPU
			}
			if by[k] == nil {
				order = append(order, k)
			}
			by[k] = append(by[k], i)
		}
		if len(order) == 0 {
			continue
		}
		least[ri] = make([]int64, len(r.Collectives))
		for _, k := range order {
			switch cols := by[k]; {
			case len(cols) < inferMin:
			case k.name == "":
				inferKind(r, cols, least[ri])
			default:
				for _, same := range sameSize(r, k.gpu, cols) {
					inferKind(r, same, least[ri])
				}
			}
		}
	}
	// Where members are missing, the latest who is here was the last of all if it did not wait itself: its transfer took what its size needs.
	for k := range m.instances {
		in := &m.instances[k]
		if in.full || in.culprit < 0 {
			continue
		}
		x := in.members[in.culprit]
		c := m.col(x)
		need := int64(0)
		if least[x.rank] != nil {
			need = least[x.rank][x.col]
		}
		if need == 0 || 4*int64(c.End-c.Start) > 5*need {
			in.culprit = -1
			continue
		}
		for _, y := range in.members {
			m.col(y).Culprit = m.job.Ranks[x.rank].Process.Rank
		}
	}
}

// sameSize parts collectives of one kernel and grid, whose sizes are not recorded, into those that must be of one size: one grid serves many
// sizes, and a size taken for another's would make a wait of its transfer. The n-th of each step is of one size where every step has as many
// of them. Else they are one size if most take about as long as the quickest do; otherwise none is known.
func sameSize(r *timeline.Reduced, gpu int, cols []int) [][]int {
	steps := len(r.GPUs[gpu].Steps)
	count := make([]int, steps)
	var places [][]int
	for _, i := range cols {
		s := r.Collectives[i].Step
		if s < 0 {
			continue
		}
		if count[s] == len(places) {
			places = append(places, nil)
		}
		places[count[s]] = append(places[count[s]], i)
		count[s]++
	}
	if steps >= inferMin && slices.Min(count) == len(places) {
		return places
	}
	durs := make([]int64, len(cols))
	for k, i := range cols {
		durs[k] = int64(r.Collectives[i].End - r.Collectives[i].Start)
	}
	if mid := median(durs); 4*mid <= 5*durs[(len(durs)-1)/10] {
		return [][]int{cols}
	}
	return nil
}

// sinceLatest is how long a collective ran after the last of those who are here had come.
func sinceLatest(c *timeline.Collective) int64 {
	if c.Split != timeline.NoConfidence {
		return c.TransferNS
	}
	return int64(c.End - c.Start)
}

// inferKind divides the collectives of one kind and group by the time that their size needs at most, and notes that time.
func inferKind(r *timeline.Reduced, cols []int, least []int64) {
	type size struct {
		bytes int64
		durs  []int64
		d     float64
	}
	idx := map[int64]int{}
	var sizes []size
	for _, i := range cols {
		c := &r.Collectives[i]
		k, ok := idx[c.Bytes]
		if !ok {
			k = len(sizes)
			idx[c.Bytes] = k
			sizes = append(sizes, size{bytes: c.Bytes})
		}
		sizes[k].durs = append(sizes[k].durs, sinceLatest(c))
	}
	sort.Slice(sizes, func(a, b int) bool { return sizes[a].bytes < sizes[b].bytes })
	for i := range sizes {
		slices.Sort(sizes[i].durs)
		sizes[i].d = float64(sizes[i].durs[(len(sizes[i].durs)-1)/10])
	}
	// A larger message takes no less time and moves at no lower rate, a quarter allowed.
	best := make([]float64, len(sizes))
	up := math.Inf(1)
	for i := len(sizes) - 1; i >= 0; i-- {
		up = min(up, sizes[i].d)
		best[i] = min(sizes[i].d, 1.25*up)
	}
	rate := math.Inf(1) // least ns a byte of smaller messages
	for i := range sizes {
		if b := float64(sizes[i].bytes); b > 0 {
			best[i] = min(best[i], 1.25*rate*b)
			rate = min(rate, sizes[i].d/b)
		}
	}
	lim := map[int64]int64{}
	for i := range sizes {
		lim[sizes[i].bytes] = int64(best[i])
	}
	for _, i := range cols {
		c := &r.Collectives[i]
		least[i] = lim[c.Bytes]
		move := min(sinceLatest(c), lim[c.Bytes])
		split(c, c.End-timeline.Time(move), timeline.Inferred, r.Exposed)
	}
}
