package ledger

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
)

const (
	// clockMax is how far apart the ends of symmetric collectives may lie, systematically, on one clock.
	clockMax = 100_000
	// clockMin is how many collectives two hosts must share for their clocks to be compared: fewer do not show what is left.
	clockMin = 5
	// clockLook is how many of them are looked at, evenly over the recording.
	clockLook = 1000
	// driftFrom is the length of a recording from which a drift is looked for.
	driftFrom = timeline.Time(10e9)
	// residualWait is the largest share of the waits that a residual may be for a late rank to be named.
	residualWait = 0.2
)

// line is the difference of a clock to the reference over time.
type line struct {
	mid   timeline.Time
	alpha int64   // ns at mid
	beta  float64 // ns a ns
}

// at is the difference at an instant of the reference.
func (l *line) at(t timeline.Time) int64 {
	if l.beta == 0 {
		return l.alpha
	}
	return l.alpha + int64(math.Round(l.beta*float64(t-l.mid)))
}

// back is the instant of the reference at which the clock shows t.
func (l *line) back(t timeline.Time) timeline.Time {
	t -= timeline.Time(l.alpha)
	if l.beta == 0 {
		return t
	}
	return t - timeline.Time(math.Round(l.beta/(1+l.beta)*float64(t-l.mid)))
}

// clockFit is what was found of one clock.
type clockFit struct {
	line
	rho       int64
	instances int64
	part      int  // connected part it belongs to
	root      bool // reference of its part
	refused   string
	noisy     bool // nothing is compared with it
}

// traceHandler is how tensorboard_trace_handler names files: host, process, time.
var traceHandler = regexp.MustCompile(`^(.+)_\d+\.\d{10,}\.pt\.trace\.json`)

// hostOf is the host as the file states it or is named.
func hostOf(r *timeline.Reduced) string {
	if r.Process.Host != "" {
		return r.Process.Host
	}
	if f := traceHandler.FindStringSubmatch(path.Base(r.Path)); f != nil {
		return f[1]
	}
	return ""
}

// clocks finds whose clock is whose, and how far they are apart: ranks of one host share a clock. Ranks that tell no host have one each
// where their ends say so, else one together.
func (m *meeting) clocks() {
	id := map[string]int{}
	var blank []int
	m.clock = m.clock[:0]
	for ri, r := range m.job.Ranks {
		h := hostOf(r)
		k, ok := id[h]
		if !ok || h == "" {
			k = len(m.hosts)
			m.hosts = append(m.hosts, h)
			id[h] = k
		}
		if h == "" {
			blank = append(blank, ri)
		}
		m.clock = append(m.clock, k)
	}
	m.named = len(m.hosts) - len(blank)
}

// oneBlank makes one clock of the ranks that tell no host, unless they lie apart by more than what is left of their differences.
func (m *meeting) oneBlank() bool {
	lo, hi, rho, first := int64(math.MaxInt64), int64(math.MinInt64), int64(0), -1
	for k := range m.hosts {
		if m.hosts[k] != "" {
			continue
		}
		if first < 0 {
			first = k
		}
		if f := &m.fits[k]; f.instances > 0 || f.root && m.sizes[f.part] > 1 {
			lo, hi, rho = min(lo, f.alpha), max(hi, f.alpha), max(rho, f.rho)
		}
	}
	if first < 0 || hi > lo && hi-lo > max(clockMax, 3*rho) {
		return false
	}
	var hosts []string
	to := map[int]int{}
	for k, h := range m.hosts {
		if h == "" && k != first {
			to[k] = to[first]
			continue
		}
		to[k] = len(hosts)
		hosts = append(hosts, h)
	}
	if len(hosts) == len(m.hosts) {
		return false
	}
	for ri := range m.clock {
		m.clock[ri] = to[m.clock[ri]]
	}
	m.hosts = hosts
	return true
}

// clockSet is the collectives whose members lie on the same several clocks: of each, the median end of each clock's members.
type clockSet struct {
	ids  []int
	ends [][]timeline.Time // by collective and clock
}

// pool gathers the symmetric collectives that more than one clock shares, by the clocks.
func (m *meeting) pool() []*clockSet {
	by := map[string]*clockSet{}
	var sets []*clockSet
	var key []byte
	for i := range m.sets {
		s := &m.sets[i]
		if s.p2p || len(s.rows) == 0 {
			continue
		}
		var ids []int
		for _, l := range s.lanes {
			if k := m.clock[l.rank]; !slices.Contains(ids, k) {
				ids = append(ids, k)
			}
		}
		if len(ids) < 2 {
			continue
		}
		slices.Sort(ids)
		key = key[:0]
		for _, k := range ids {
			key = fmt.Appendf(key, "%d ", k)
		}
		set := by[string(key)]
		if set == nil {
			set = &clockSet{ids: ids}
			by[string(key)] = set
			sets = append(sets, set)
		}
		place := make([]int, len(s.lanes))
		for j, l := range s.lanes {
			place[j], _ = slices.BinarySearch(ids, m.clock[l.rank])
		}
		of := make([][]int64, len(ids))
		for n := range min(len(s.rows), clockLook) {
			row := s.rows[n*len(s.rows)/min(len(s.rows), clockLook)]
			if !m.t.Symmetric(m.col(row[0]).Primitive) {
				continue
			}
			for k := range of {
				of[k] = of[k][:0]
			}
			for j, x := range row {
				of[place[j]] = append(of[place[j]], int64(m.col(x).End))
			}
			ends := make([]timeline.Time, len(ids))
			for k := range of {
				ends[k] = timeline.Time(middle(of[k]))
			}
			set.ends = append(set.ends, ends)
		}
	}
	sets = slices.DeleteFunc(sets, func(s *clockSet) bool { return len(s.ends) == 0 })
	sort.SliceStable(sets, func(a, b int) bool { return len(sets[a].ends) > len(sets[b].ends) })
	return sets
}

// estimate finds the clocks' differences by the ends of the collectives that they share: nobody can finish before the last rank has come, so
// the members of a symmetric collective end together, whenever they began. Clocks that share none are joined through those that share some
// with both, the richest first.
func (m *meeting) estimate() {
	n := len(m.hosts)
	m.fits = make([]clockFit, n)
	m.sizes = nil
	sets := m.pool()
	done := make([]bool, n)
	used := map[*clockSet]bool{}
	for root := range n {
		if done[root] {
			continue
		}
		part := len(m.sizes)
		m.sizes = append(m.sizes, 1)
		done[root] = true
		m.fits[root] = clockFit{part: part, root: true}
		for {
			var next *clockSet
			for _, s := range sets {
				in := 0
				for _, k := range s.ids {
					if done[k] && m.fits[k].part == part {
						in++
					}
				}
				if in > 0 && in < len(s.ids) {
					next = s
					break
				}
			}
			if next == nil {
				break
			}
			m.join(next, part, done)
			used[next] = true
		}
		// With three clocks or more, the one that all were compared with may be the noisy one: compare each with the middle of all.
		for _, s := range sets {
			if used[s] && len(s.ids) > 2 && m.fits[s.ids[0]].part == part {
				m.refine(s)
			}
		}
	}
	// The reference of a part is its first clock.
	base := make([]line, len(m.sizes))
	for k := n - 1; k >= 0; k-- {
		if f := &m.fits[k]; f.root {
			base[f.part] = f.line
		}
	}
	for k := range m.fits {
		f := &m.fits[k]
		b := base[f.part]
		f.alpha -= b.at(f.mid)
		f.beta -= b.beta
	}
}

// join fits the clocks of a set that are not known yet against those that are.
func (m *meeting) join(s *clockSet, part int, done []bool) {
	known := make([]bool, len(s.ids))
	rho := int64(0)
	for i, k := range s.ids {
		if known[i] = done[k] && m.fits[k].part == part; known[i] {
			rho = max(rho, m.fits[k].rho)
		}
	}
	ref := make([]timeline.Time, len(s.ends))
	var of []int64
	for i, e := range s.ends {
		of = of[:0]
		for j, k := range s.ids {
			if known[j] {
				of = append(of, int64(m.fits[k].back(e[j])))
			}
		}
		ref[i] = timeline.Time(middle(of))
	}
	d := make([]int64, len(s.ends))
	for j, k := range s.ids {
		if done[k] {
			continue
		}
		for i, e := range s.ends {
			d[i] = int64(e[j] - ref[i])
		}
		f := fitLine(ref, d)
		f.part, f.rho, f.instances = part, max(f.rho, rho), int64(len(s.ends))
		m.fits[k] = f
		m.sizes[part]++
		done[k] = true
	}
}

func (m *meeting) refine(s *clockSet) {
	ref := make([]timeline.Time, len(s.ends))
	of := make([]int64, len(s.ids))
	for i, e := range s.ends {
		for j, k := range s.ids {
			of[j] = int64(m.fits[k].back(e[j]))
		}
		ref[i] = timeline.Time(middle(slices.Clone(of)))
	}
	d := make([]int64, len(s.ends))
	fits := make([]clockFit, len(s.ids))
	for j := range s.ids {
		for i, e := range s.ends {
			d[i] = int64(e[j] - ref[i])
		}
		fits[j] = fitLine(ref, d)
	}
	for j, k := range s.ids {
		f := &m.fits[k]
		f.line, f.rho = fits[j].line, fits[j].rho
	}
}

// fitLine fits differences over time: the median, and where the recording is long enough the median of the slopes between pairs, if it
// moves more than what it leaves.
func fitLine(t []timeline.Time, d []int64) clockFit {
	lo, hi := slices.Min(t), slices.Max(t)
	f := clockFit{line: line{mid: lo + (hi-lo)/2}}
	flat := residual(t, d, &f.line)
	f.rho = flat
	if hi-lo > driftFrom {
		const look = 200
		n := min(len(t), look)
		slopes := make([]float64, 0, n*(n-1)/2)
		for i := range n {
			for k := range i {
				a, b := i*len(t)/n, k*len(t)/n
				if t[a] != t[b] {
					slopes = append(slopes, float64(d[a]-d[b])/float64(t[a]-t[b]))
				}
			}
		}
		slices.Sort(slopes)
		if len(slopes) > 0 {
			g := f
			g.beta = slopes[len(slopes)/2]
			g.rho = residual(t, d, &g.line)
			if math.Abs(g.beta)*float64(hi-lo) > float64(g.rho) {
				f = g
			}
		}
	}
	return f
}

// residual sets the level of a line by the median, and gives 1.4826 times the median absolute deviation from it.
func residual(t []timeline.Time, d []int64, l *line) int64 {
	left := make([]int64, len(d))
	l.alpha = 0
	for i := range d {
		left[i] = d[i] - l.at(t[i])
	}
	l.alpha = middle(left)
	for i := range left {
		left[i] = max(left[i]-l.alpha, l.alpha-left[i])
	}
	return middle(left) * 14826 / 10000
}

// middle is the median of v, which it sorts; of an even number the mean of the two in the middle.
func middle(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	if len(v) > 1 {
		slices.Sort(v)
	}
	a, b := v[(len(v)-1)/2], v[len(v)/2]
	return a + (b-a)/2
}

// median of v, which it sorts; the lower of two.
func median(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[(len(v)-1)/2]
}

// align finds the clocks, decides which may be compared, and puts all reductions on one.
func (m *meeting) align() {
	m.estimate()
	if m.oneBlank() {
		m.estimate()
	}
	if len(m.hosts) < 2 {
		m.fillHosts()
		return
	}
	main := 0
	for p := range m.sizes {
		if m.sizes[p] > m.sizes[main] {
			main = p
		}
	}
	for k := range m.fits {
		f := &m.fits[k]
		switch {
		case f.part != main, len(m.sizes) == len(m.hosts):
			f.refused = "it shares no symmetric collective with the other hosts that all its members show: nothing tells how far its clock is from theirs"
		case f.root:
		case f.instances < clockMin:
			f.refused = fmt.Sprintf("it shares %d %s with the other hosts: %d are needed to tell how well their ends agree", f.instances, plural(int(f.instances), "collective", "collectives"), clockMin)
		case f.rho > clockMax:
			f.refused = fmt.Sprintf("the ends of collectives leave %.0f us between its clock and the others', more than %d us", float64(f.rho)/1e3, clockMax/1000)
		}
		f.noisy = f.refused != "" && f.part == main
		if f.refused != "" && f.instances < clockMin {
			f.line = line{}
		}
	}
	m.shift()
	m.weigh()
	m.fillHosts()
}

// shift puts the reductions on the reference clock by the constant part of their host's difference; what its clock drifts is taken off where
// times are compared.
func (m *meeting) shift() {
	for ri, r := range m.job.Ranks {
		f := &m.fits[m.clock[ri]]
		if f.alpha == 0 {
			continue
		}
		r.Shift(timeline.Time(-f.alpha))
		r.ShiftErrorNS = 3 * f.rho
		r.ShiftWhy = fmt.Sprintf("the ends of %d collectives that it shares with other hosts lie %+.3f ms apart, %.1f us left", f.instances, float64(f.alpha)/1e6, float64(f.rho)/1e3)
	}
}

// weigh refuses clocks whose residual is more than a fifth of what was waited across hosts: then who came last is within the error.
func (m *meeting) weigh() {
	waits := make([][]int64, len(m.fits))
	for i := range m.sets {
		s := &m.sets[i]
		if s.p2p {
			continue
		}
		var on []int
		for _, l := range s.lanes {
			if k := m.clock[l.rank]; !slices.Contains(on, k) {
				on = append(on, k)
			}
		}
		if len(on) < 2 {
			continue
		}
		rho := int64(0)
		for _, k := range on {
			rho = max(rho, m.fits[k].rho)
		}
		for _, row := range s.rows {
			if !m.t.Symmetric(m.col(row[0]).Primitive) {
				continue
			}
			first, last := timeline.Time(math.MaxInt64), timeline.Time(math.MinInt64)
			for _, x := range row {
				a := m.come(x)
				first, last = min(first, a), max(last, a)
			}
			// What would not be said anyway does not count.
			if d := int64(last - first); d > max(3*rho, spreadMin) {
				for _, k := range on {
					waits[k] = append(waits[k], d)
				}
			}
		}
	}
	for k := range m.fits {
		f := &m.fits[k]
		if w := middle(waits[k]); f.refused == "" && !f.root && w > 0 && float64(f.rho) > residualWait*float64(w) {
			f.noisy = true
			f.refused = fmt.Sprintf("the ends of collectives leave %.0f us between its clock and the others', more than a fifth of the %.0f us that ranks waited", float64(f.rho)/1e3, float64(w)/1e3)
		}
	}
}

// common is an instant of a rank on the reference clock; the reductions were shifted already, what drifts is left.
func (m *meeting) common(ri int, t timeline.Time) timeline.Time {
	f := &m.fits[m.clock[ri]]
	if f.beta == 0 {
		return t
	}
	return f.back(t + timeline.Time(f.alpha))
}

// local is an instant of the reference clock as a rank's reduction has it.
func (m *meeting) local(ri int, t timeline.Time) timeline.Time {
	f := &m.fits[m.clock[ri]]
	return t + timeline.Time(f.at(t)-f.alpha)
}

// come is when a member came.
func (m *meeting) come(x member) timeline.Time { return m.common(int(x.rank), m.col(x).Start) }

// together tells whether two clocks may be compared.
func (m *meeting) together(a, b int) bool {
	return a == b || !m.fits[a].noisy && !m.fits[b].noisy && m.fits[a].part == m.fits[b].part
}

// errorOf is the difference of arrivals below which nothing is said between two clocks.
func (m *meeting) errorOf(a, b int) timeline.Time {
	if a == b {
		return 0
	}
	return timeline.Time(3 * max(m.fits[a].rho, m.fits[b].rho))
}

// fillHosts tells the job of its clocks, the reference first.
func (m *meeting) fillHosts() {
	if len(m.hosts) == 1 && m.hosts[0] == "" {
		return
	}
	for k, h := range m.hosts {
		hc := HostClock{Host: h}
		for ri, c := range m.clock {
			if c == k {
				hc.Ranks = append(hc.Ranks, ri)
			}
		}
		f := &m.fits[k]
		hc.OffsetNS, hc.DriftPPM, hc.ResidualNS, hc.Instances, hc.Refused = f.alpha, f.beta*1e6, f.rho, f.instances, f.refused
		m.job.Hosts = append(m.job.Hosts, hc)
	}
	sort.SliceStable(m.job.Hosts, func(a, b int) bool { return m.isReference(&m.job.Hosts[a]) && !m.isReference(&m.job.Hosts[b]) })
}

func (m *meeting) isReference(h *HostClock) bool {
	f := &m.fits[m.clock[h.Ranks[0]]]
	return f.root && f.refused == ""
}
