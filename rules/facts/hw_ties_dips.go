package facts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

const (
	commonDips = 0.7 // overlap from which on dips are common
	mostLag    = 5   // samples that one curve is shifted against another
	leadMargin = 0.02
	minDips    = 3 // samples of dips that say something of a GPU
)

var (
	runDipScope = &Decl{ID: "run.dip_scope", Unit: unit.Text, Per: Run, Capture: "C1",
		Doc: "Whose dips are common (they overlap in 70 % of each pair's, one sample of slack): one GPU, some GPUs, one host, all hosts, all GPUs (of one host), none."}
	runDipSays = &Decl{ID: "run.dip_says", Unit: unit.Text, Per: Run, Capture: "C1",
		Doc: "Which GPUs or hosts dip together, which of them first, and what that points at."}
	runDipLeads = &Decl{ID: "run.dip_leads", Unit: unit.Text, Per: Run, Capture: "C1",
		Doc: "The GPU, or between hosts the host, whose curve dips before those of the others that dip with it: the largest cross-correlation at a lag of a sample or more; none where they dip at once."}
	runDipHosts = &Decl{ID: "run.dip_hosts_count", Unit: unit.Count, Per: Run, Max: 1e6, Capture: "C1",
		Doc: "Hosts with several sampled GPUs of which every one dips and the dips are common on the host."}
)

// dipScope says on whom dips are common, and who dips first. Hosts are held against each other only where their logs' clocks are placed
// within two samples of each other: dips within that are one.
func (p *Pass) dipScope(ids []string, curves [][]float64, dips [][]bool, step time.Duration, cover float64) {
	text := func(d *Decl, s string) {
		p.Set(d, 0, Value{Text: s, Cover: cover, Conf: timeline.Hint})
	}
	say := func(scope, leads, says string, hosts int) {
		text(runDipScope, scope)
		text(runDipLeads, leads)
		text(runDipSays, says)
		p.Set(runDipHosts, 0, Value{Num: float64(hosts), Cover: cover, Conf: timeline.Hint})
	}
	var low []int // GPUs that dip
	for g := range dips {
		if count(dips[g]) >= minDips {
			low = append(low, g)
		}
	}
	hostOf, errOf := p.dipHosts(ids)
	names := uniq(hostOf)
	gpu := func(g int) string { return inWords(Subject{ID: ids[g]}) }
	switch {
	case len(low) == 0:
		say("none", "none", "no GPU dips for more than a moment", 0)
		return
	case len(low) == 1:
		say("one GPU", gpu(low[0]), fmt.Sprintf("only %s dips: look at its own rank, process and card", gpu(low[0])), 0)
		return
	}
	// Which hosts dip whole and as one.
	var whole []string
	together := 0 // of them, those with several GPUs
	for _, h := range names {
		var of []int
		all := true
		for g := range ids {
			if hostOf[g] == h {
				of = append(of, g)
				all = all && slices.Contains(low, g)
			}
		}
		if all && common(dips, of, 1) {
			whole = append(whole, h)
			if len(of) > 1 {
				together++
			}
		}
	}
	slack, told := dipSlack(step, hostOf, errOf)
	leads := leader(curves, low, gpu)
	first := ""
	if leads != "none" {
		first = "; " + leads + " dips first"
	}
	switch {
	case len(names) > 1 && !told && len(whole) == len(names):
		say("none", "none", "the GPUs of every host dip together; the hosts' clocks are not placed surely enough to tell whether the hosts do", together)
	case len(names) > 1 && len(whole) == len(names) && common(dips, low, slack):
		leads = hostLeader(curves, hostOf, names, slack)
		if first = ""; leads != "none" {
			first = "; host " + leads + " dips first"
		}
		say("all hosts", leads, "the GPUs of all hosts dip together"+first+": look at what the hosts share, storage or the network", together)
	case len(names) > 1 && len(whole) == 1 && alone(low, hostOf, whole[0]):
		say("one host", leads, fmt.Sprintf("all GPUs of host %s dip together, none of %s%s: look at what that host has for itself, CPUs, memory, local disk, its port", whole[0], others(names, whole[0]), first), 1)
	case len(names) <= 1 && len(low) == len(ids) && common(dips, low, 1):
		say("all GPUs", leads, "all GPUs dip together"+first+": look at what they share, the host, its storage, the data", together)
	case len(names) > 1 && len(whole) > 0:
		say("some GPUs", "none", fmt.Sprintf("the GPUs of host %s dip together, those of different hosts at different times", strings.Join(whole, ", of host ")), together)
	case common(dips, low, 1) && sameHost(low, hostOf):
		say("some GPUs", leads, fmt.Sprintf("%d of %d GPUs dip together%s", len(low), len(ids), first), together)
	default:
		say("none", "none", fmt.Sprintf("%d GPUs dip, each at its own times", len(low)), together)
	}
}

// dipHosts gives the host of each GPU, "" unknown, and how far off its log may be placed.
func (p *Pass) dipHosts(ids []string) (hosts []string, errs []time.Duration) {
	hosts, errs = make([]string, len(ids)), make([]time.Duration, len(ids))
	p.eachGPU(func(sub int, c *Card, _ *timeline.GPULedger, _ *timeline.Reduced) {
		if g := slices.Index(ids, c.ID); g >= 0 {
			if hosts[g] = c.Host; hosts[g] == "" {
				if h := p.Facts.holder(sub, Host); h >= 0 {
					hosts[g] = p.Facts.Subjects[h].ID
				}
			}
			if s := p.series(c, timeline.SMBusy); s != nil {
				errs[g] = p.clockError(s)
			}
		}
	})
	return hosts, errs
}

// dipSlack is by how many samples dips of different hosts may lie apart and be one; false where their clocks are worse than two samples.
func dipSlack(step time.Duration, hosts []string, errs []time.Duration) (samples int, told bool) {
	worst := map[string]time.Duration{}
	for g, h := range hosts {
		worst[h] = max(worst[h], errs[g])
	}
	var most, next time.Duration // a pair of hosts is off by the sum of both errors
	for _, h := range uniq(hosts) {
		if e := worst[h]; e > most {
			most, next = e, most
		} else {
			next = max(next, e)
		}
	}
	off := most + next
	return 1 + int((off+step-1)/max(step, 1)), off <= 2*step
}

// common tells whether every pair's dips overlap within so many samples.
func common(dips [][]bool, of []int, slack int) bool {
	near := make([][]bool, len(of))
	for i, g := range of {
		near[i] = widened(dips[g], slack)
	}
	for i, a := range of {
		for j := i + 1; j < len(of); j++ {
			if overlapOf(dips[a], dips[of[j]], near[i], near[j]) < commonDips {
				return false
			}
		}
	}
	return true
}

// widened adds so many samples on both sides.
func widened(x []bool, slack int) []bool {
	out := make([]bool, len(x))
	last := math.MinInt / 2
	for i := range x {
		if x[i] {
			last = i
		}
		out[i] = i-last <= slack
	}
	last = math.MaxInt / 2
	for i := len(x) - 1; i >= 0; i-- {
		if x[i] {
			last = i
		}
		out[i] = out[i] || last-i <= slack
	}
	return out
}

// overlapOf is jaccard with the slack by which nearA and nearB are widened.
func overlapOf(a, b, nearA, nearB []bool) float64 {
	both, either := 0, 0
	for i := range a {
		if a[i] || b[i] {
			either++
			if (!a[i] || nearB[i]) && (!b[i] || nearA[i]) {
				both++
			}
		}
	}
	if either == 0 {
		return 1
	}
	return float64(both) / float64(either)
}

// lagOf is by how many samples b follows a: the lag of the largest correlation, 0 unless it is clearly larger than at no lag.
func lagOf(a, b []float64) int {
	best, at, none := -2.0, 0, -2.0
	for lag := -mostLag; lag <= mostLag; lag++ {
		var x, y []float64
		for i := range a {
			if j := i + lag; j >= 0 && j < len(b) && !math.IsNaN(a[i]) && !math.IsNaN(b[j]) {
				x, y = append(x, a[i]), append(y, b[j])
			}
		}
		r, ok := pearson(x, y)
		if !ok {
			continue
		}
		if lag == 0 {
			none = r
		}
		if r > best {
			best, at = r, lag
		}
	}
	if best < commonDips || best < none+leadMargin {
		return 0
	}
	return at
}

func pearson(x, y []float64) (float64, bool) {
	if len(x) < minLoad {
		return 0, false
	}
	mx, my := mean(x), mean(y)
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
	}
	if xx == 0 || yy == 0 {
		return 0, false
	}
	return xy / math.Sqrt(xx*yy), true
}

// leader names the curve that all others follow by more than a sample's slack allows; "none" where none does.
func leader(curves [][]float64, of []int, name func(int) string) string {
	for _, a := range of {
		first := true
		for _, b := range of {
			first = first && (a == b || lagOf(curves[a], curves[b]) >= 1)
		}
		if first {
			return name(a)
		}
	}
	return "none"
}

// hostLeader is leader of the hosts' mean curves, with the slack that their clocks leave.
func hostLeader(curves [][]float64, hostOf, names []string, slack int) string {
	means := make([][]float64, len(names))
	for h := range names {
		means[h] = make([]float64, len(curves[0]))
		for i := range means[h] {
			sum, n := 0.0, 0
			for g := range curves {
				if hostOf[g] == names[h] && !math.IsNaN(curves[g][i]) {
					sum, n = sum+curves[g][i], n+1
				}
			}
			if means[h][i] = math.NaN(); n > 0 {
				means[h][i] = sum / float64(n)
			}
		}
	}
	for a := range names {
		first := true
		for b := range names {
			first = first && (a == b || lagOf(means[a], means[b]) >= slack)
		}
		if first {
			return names[a]
		}
	}
	return "none"
}

func count(x []bool) (n int) {
	for _, v := range x {
		if v {
			n++
		}
	}
	return n
}

func uniq(x []string) (out []string) {
	for _, s := range x {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func others(names []string, but string) string {
	var out []string
	for _, n := range names {
		if n != but {
			out = append(out, n)
		}
	}
	if len(out) > 3 {
		return fmt.Sprintf("the %d others", len(out))
	}
	return "host " + strings.Join(out, ", ")
}

func sameHost(of []int, hostOf []string) bool {
	return !slices.ContainsFunc(of, func(g int) bool { return hostOf[g] != hostOf[of[0]] })
}

func alone(of []int, hostOf []string, host string) bool {
	return !slices.ContainsFunc(of, func(g int) bool { return hostOf[g] != host })
}
