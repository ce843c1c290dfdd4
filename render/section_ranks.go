package render

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

const (
	rankRows    = 64  // ranks drawn a row each; more are tiles
	heatColumns = 240 // steps drawn
	latestRanks = 10  // of the table beside tiles
	tileColumns = 64  // nodes of one band of tiles
	chainLanes  = 12  // ranks drawn of one waiting chain
)

func ranksSection(r *Report) (Section, bool) {
	s := Section{ID: "ranks", Title: "Ranks"}
	n := len(r.StepMarks)
	if n == 0 {
		return Section{}, false
	}
	l := &r.Lateness
	switch {
	case n == 1 && r.WorldSize != nil && *r.WorldSize <= 1:
		return Section{}, false
	case n == 1:
		s.Lead = "One rank’s trace was given. Traces of all ranks, recorded at once, would show which rank comes last to the collectives, how late, whether it is always the same one, and what held it; " +
			"and they would divide all communication into waiting for that rank and transfer."
		if hasCapture(r) {
			s.Blocks = append(s.Blocks, NoteBlock{Note{Text: "The command is in the", LinkText: "capture plan", Link: "#capture"}})
		}
	case len(l.Steps) == 0 || l.Judged == 0:
		s.Lead = fmt.Sprintf("%s ranks’ traces were given, but no collective of an analysed step was found on all of them, so who came late is unknown.", NumberWord(n))
	default:
		s.Lead = "How late each rank reached the first collective it shares with all others, step by step."
		if len(l.Rows) > rankRows {
			s.Lead = fmt.Sprintf("%s ranks on %s: median lateness at the first collective they share, one tile a rank.", Count(int64(len(l.Rows))), hostsWord(lateHosts(r)))
		}
		if l.ErrorNS > 0 {
			s.Lead += fmt.Sprintf(" Their clocks agree to ±%s; nothing below %s is drawn.", Dur(float64(l.ErrorNS)/3, 2), Dur(float64(l.ErrorNS), 2))
		}
		if len(l.Rows) > rankRows {
			s.Blocks = append(s.Blocks, tiles(r)...)
		} else {
			s.Blocks = append(s.Blocks, heatMap(r))
		}
	}
	if b, ok := lostBars(r); ok && n > 1 {
		s.Blocks = append(s.Blocks, b)
	}
	if c, ok := waitCharts(r); ok {
		s.Blocks = append(s.Blocks, c)
	}
	if t, ok := groupsTable(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	if t, ok := hostClocksTable(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	return s, true
}

func hasCapture(r *Report) bool { return len(r.CapturePlan) > 0 }

func hostsWord(n int) string {
	if n <= 1 {
		return "one host"
	}
	return Count(int64(n)) + " hosts"
}

// lateHosts counts the hosts of the rows; rows lie by host.
func lateHosts(r *Report) int {
	n := 0
	for i := range r.Lateness.Rows {
		if i == 0 || r.Lateness.Rows[i].Host != r.Lateness.Rows[i-1].Host {
			n++
		}
	}
	return n
}

// limits of the grey classes, in ns and rising: below the first is blank.
func lateLimits(floor, most int64) []int64 {
	var round []int64
	for p := int64(1); p <= 1e15; p *= 10 {
		round = append(round, p, 2*p, 5*p)
	}
	top := sort.Search(len(round), func(i int) bool { return round[i] >= most }) - 1
	out := []int64{floor}
	for _, back := range []int{5, 3, 1, 0} {
		if i := top - back; i >= 0 && round[i] > out[len(out)-1] {
			out = append(out, round[i])
		}
	}
	return out
}

func lateLevel(limits []int64, v *int64) int {
	if v == nil {
		return -1
	}
	if *v <= limits[0] {
		return 0
	}
	n := 1
	for n < len(limits) && *v > limits[n] {
		n++
	}
	return n + 5 - len(limits) // the darkest is always the latest
}

// lateLegend names the classes from blank to latest; a class that does not occur is "".
func lateLegend(limits []int64) []string {
	out := make([]string, 6)
	out[0] = "none"
	if limits[0] > 0 {
		out[0] = "below " + Dur(float64(limits[0]), 2)
	}
	for k := 1; k < len(limits); k++ {
		out[k+5-len(limits)] = "to " + roundDur(limits[k])
	}
	out[5] = "more"
	return out
}

// roundDur is a limit without the zeros behind its stop.
func roundDur(ns int64) string {
	v, unit, _ := strings.Cut(Dur(float64(ns), 3), nbsp)
	return trimZero(v) + nbsp + unit
}

func rankName(n *int) string {
	if n == nil {
		return "Rank unknown"
	}
	return fmt.Sprintf("Rank %d", *n)
}

func sameRank(a, b *int) bool { return a != nil && b != nil && *a == *b }

// latest orders the rows by how often they came last, then by median.
func latest(r *Report) []int {
	rows := r.Lateness.Rows
	idx := make([]int, len(rows))
	for i := range idx {
		idx[i] = i
	}
	sort.SliceStable(idx, func(a, b int) bool {
		x, y := &rows[idx[a]], &rows[idx[b]]
		if x.Last != y.Last {
			return x.Last > y.Last
		}
		return medianOf(x) > medianOf(y)
	})
	return idx
}

func medianOf(l *LateRow) int64 {
	if l.MedianNS == nil {
		return -1
	}
	return *l.MedianNS
}

// isLate reports whether a row is the one the section is about: the verdict's, else one that came last in half of the steps.
func isLate(r *Report, l *LateRow) bool {
	if r.Verdict.CulpritRank != nil {
		return sameRank(l.Rank, r.Verdict.CulpritRank)
	}
	return l.Last > 0 && 2*l.Last >= r.Lateness.Judged
}

// lateCells are a row's median and how often it came last.
func lateCells(r *Report, l *LateRow, unitNS, step float64) []Cell {
	bold := isLate(r, l)
	med := Cell{Text: "unknown", Dashed: true}
	if l.MedianNS != nil {
		med = Cell{Text: aligned(float64(*l.MedianNS)/unitNS, step), Strong: bold}
		if *l.MedianNS <= r.Lateness.ErrorNS {
			med = Cell{Text: "0", Weak: true, Title: "not more than the clocks’ error"}
		}
	}
	last := Cell{Text: "0", Weak: true}
	if l.Last > 0 {
		last = Cell{Text: fmt.Sprintf("%s of %s", Count(int64(l.Last)), Count(int64(r.Lateness.Judged))), Strong: bold}
	}
	return []Cell{med, last}
}

// lateUnit is the one unit of the lateness column and its last shown digit.
func lateUnit(r *Report) (unit string, unitNS, step float64) {
	var most int64
	for i := range r.Lateness.Rows {
		most = max(most, medianOf(&r.Lateness.Rows[i]))
	}
	unit, unitNS = "ms", 1e6
	switch {
	case most >= 1e10:
		unit, unitNS = "s", 1e9
	case most < 1e5:
		unit, unitNS = "µs", 1e3
	}
	return unit, unitNS, pow10for(float64(most) / unitNS)
}

// hostHead names a host and its clock above its first rank; "" where all ranks are on one.
func hostHead(r *Report, name string) string {
	if len(r.Hosts) < 2 {
		return ""
	}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.Name != name {
			continue
		}
		word := h.Name
		if word == "" {
			word = "host not recorded"
		}
		switch {
		case h.Refused != "":
			return word + ", clock not compared: " + h.Refused
		case h.Instances == 0:
			return word + ", the reference clock"
		}
		return fmt.Sprintf("%s, clock %s ±%s", word, signed(h.OffsetNS), Dur(float64(*h.ErrorNS), 2))
	}
	return name
}

func signed(ns *int64) string {
	if ns == nil {
		return "unknown"
	}
	if *ns > 0 {
		return "+" + Dur(float64(*ns), 3)
	}
	return Dur(float64(*ns), 3)
}

// heatMap draws a row a rank and a column a step.
func heatMap(r *Report) HeatMap {
	l := &r.Lateness
	unit, unitNS, step := lateUnit(r)
	h := HeatMap{ID: "lateness", Heads: []string{"Late, median, " + unit, "Last to arrive"}}
	most := make([]int64, len(l.Steps))
	var top int64
	for i := range l.Rows {
		for s, v := range l.Rows[i].AtNS {
			if v != nil && s < len(most) {
				most[s] = max(most[s], *v)
				top = max(top, *v)
			}
		}
	}
	keep := keptSteps(most, heatColumns)
	h.Columns = len(keep)
	switch all := len(l.Steps) + l.StepsLeft; {
	case all > len(keep):
		h.Foot = fmt.Sprintf("The step with the latest rank of each of %d equal bins of %s steps; the shares at the right are over all.", len(keep), Count(int64(all)))
	}
	limits := lateLimits(l.ErrorNS, top)
	h.Legend = lateLegend(limits)
	if top <= l.ErrorNS {
		h.Legend = h.Legend[:1]
	}
	for k := 0; k < len(keep); k += tickEvery(len(keep), 6) {
		t := Tick{At: k, Text: Count(l.Steps[keep[k]])}
		if k == 0 {
			t.Text = "step " + t.Text
		}
		h.Ticks = append(h.Ticks, t)
	}
	tab := Table{Columns: []Column{{Title: "Rank"}, {Title: "Step", Num: true}, {Title: "Late, " + unit, Num: true}}, Lead: "The latest rank of each step."}
	for i := range l.Rows {
		row := &l.Rows[i]
		x := HeatRow{Name: rankName(row.Rank), Bold: isLate(r, row), Cells: lateCells(r, row, unitNS, step)}
		if i == 0 || row.Host != l.Rows[i-1].Host {
			x.Head = hostHead(r, row.Host)
		}
		for _, s := range keep {
			lev := lateLevel(limits, row.AtNS[s])
			h.Unknown = h.Unknown || lev == -1
			x.Levels = append(x.Levels, lev)
		}
		h.Rows = append(h.Rows, x)
	}
	for _, s := range keep[:min(len(keep), 200)] {
		at := -1
		for i := range l.Rows {
			if v := l.Rows[i].AtNS[s]; v != nil && (at < 0 || *v > *l.Rows[at].AtNS[s]) {
				at = i
			}
		}
		row := Row{Cells: []Cell{{Text: "unknown", Dashed: true}, {Text: Count(l.Steps[s])}, {Text: "–", Weak: true}}}
		if at >= 0 {
			row.Cells[0], row.Cells[2] = Cell{Text: rankName(l.Rows[at].Rank)}, Cell{Text: aligned(float64(*l.Rows[at].AtNS[s])/unitNS, step)}
			if *l.Rows[at].AtNS[s] <= l.ErrorNS {
				row.Cells[0] = Cell{Text: "none", Weak: true, Title: "no two differ by more than the clocks’ error"}
			}
		}
		tab.Rows = append(tab.Rows, row)
	}
	h.Table = &tab
	h.Alt = heatAlt(r)
	return h
}

func heatAlt(r *Report) string {
	l := &r.Lateness
	top := latest(r)
	if len(top) == 0 || l.Rows[top[0]].Last == 0 {
		return fmt.Sprintf("Lateness of %d ranks: in no step was one later than the clocks’ error.", len(l.Rows))
	}
	x := &l.Rows[top[0]]
	return fmt.Sprintf("Lateness of %d ranks: %s came last most often, in %d of %d steps, its median %s late.", len(l.Rows), lower(rankName(x.Rank)), x.Last, l.Judged, Dur(float64(max(0, medianOf(x))), 3))
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// tickEvery is a round number of columns between words.
func tickEvery(n, words int) int {
	for _, k := range []int{1, 2, 4, 5, 8, 10, 20, 40, 50, 100, 200} {
		if n <= k*words {
			return k
		}
	}
	return max(1, n/words)
}

// tiles draws a tile a rank, hosts across and their ranks down, then the latest in a table.
func tiles(r *Report) []Block {
	l := &r.Lateness
	unit, unitNS, step := lateUnit(r)
	type node struct {
		name string
		rows []int
	}
	var nodes []node
	for i := range l.Rows {
		if i == 0 || l.Rows[i].Host != l.Rows[i-1].Host {
			nodes = append(nodes, node{name: l.Rows[i].Host})
		}
		n := &nodes[len(nodes)-1]
		n.rows = append(n.rows, i)
	}
	if len(nodes) == 1 { // no host is told: eight to a column
		all := nodes[0].rows
		nodes = nil
		for i := 0; i < len(all); i += 8 {
			nodes = append(nodes, node{rows: all[i:min(i+8, len(all))]})
		}
	}
	var top int64
	for i := range l.Rows {
		top = max(top, medianOf(&l.Rows[i]))
	}
	limits := lateLimits(l.ErrorNS, top)
	order := latest(r)
	named := append(slices.Clone(order[:min(1, len(order))]), worst(len(l.Rows), 2, func(i int) float64 { return float64(medianOf(&l.Rows[i])) })...)
	typical := typicalLate(r)
	var out []Block
	for first := 0; first < len(nodes); first += tileColumns {
		part := nodes[first:min(first+tileColumns, len(nodes))]
		h := HeatMap{Tiles: true, Columns: len(part), Alt: heatAlt(r)}
		if first == 0 {
			h.ID = "lateness"
		}
		high := 0
		for k, n := range part {
			high = max(high, len(n.rows))
			if k%tickEvery(len(part), 8) == 0 {
				name := n.name
				if name == "" {
					name = lower(rankName(l.Rows[n.rows[0]].Rank))
				}
				h.Ticks = append(h.Ticks, Tick{k, Middle(name, 14)})
			}
		}
		for local := range high {
			x := HeatRow{Name: fmt.Sprintf("local rank %d", local)}
			for _, n := range part {
				lev := -2
				if local < len(n.rows) {
					lev = lateLevel(limits, l.Rows[n.rows[local]].MedianNS)
					h.Unknown = h.Unknown || lev == -1
				}
				x.Levels = append(x.Levels, lev)
			}
			h.Rows = append(h.Rows, x)
		}
		marked := map[int]bool{}
		for _, w := range named {
			for k, n := range part {
				at := slices.Index(n.rows, w)
				row := &l.Rows[w]
				if at < 0 || marked[k] || medianOf(row) <= l.ErrorNS {
					continue
				}
				marked[k] = true
				m := Mark{Column: k, Row: at, Rows: 1, Bold: len(h.Marks) == 0, Text: fmt.Sprintf("%s: %s", lower(rankName(row.Rank)), Dur(float64(*row.MedianNS), 3))}
				if slowNode(r, n.rows, max(l.ErrorNS, 3*typical)) {
					m.Row, m.Rows = 0, len(n.rows)
					m.Text = fmt.Sprintf("%s: all %d late, %s most (%s)", orHost(n.name), len(n.rows), lower(rankName(row.Rank)), Dur(float64(*row.MedianNS), 3))
				}
				h.Marks = append(h.Marks, m)
			}
		}
		if first+tileColumns >= len(nodes) {
			h.Legend = lateLegend(limits)
		}
		out = append(out, h)
	}
	t := Table{ID: "latest-ranks", Title: "Latest ranks", Columns: []Column{{Title: "Rank"}, {Title: "Host", More: true}, {Title: "Late, median, " + unit, Num: true}, {Title: "Last to arrive", Num: true}, {Title: "Was in"}, {Title: "", Bar: true, Wide: true, More: true}}}
	shown := 0
	var rest int64
	for _, i := range order {
		row := &l.Rows[i]
		if shown >= latestRanks || row.Last == 0 && medianOf(row) <= l.ErrorNS {
			rest = max(rest, medianOf(row))
			continue
		}
		shown++
		owner, word := heldBy(r, row.Rank)
		held := Cell{Text: word, Owner: owner}
		if owner == "" {
			held = Cell{Text: "not told apart", Weak: true, Title: "no wait of the others is charged to this rank"}
		}
		cells := lateCells(r, row, unitNS, step)
		t.Rows = append(t.Rows, Row{Bold: isLate(r, row), Cells: []Cell{{Text: strings.Replace(rankName(row.Rank), " ", nbsp, 1)}, {Text: orHost(row.Host), Weak: true}, cells[0], cells[1], held,
			{Bar: float64(max(0, medianOf(row))) / float64(max(1, top)), BarOwner: owner}}})
	}
	if shown < len(l.Rows) {
		t.Foot = fmt.Sprintf("%s more, none with a median above %s; the workbook has all.", Count(int64(len(l.Rows)-shown)), Dur(float64(max(0, rest)), 2))
	}
	if shown > 0 {
		out = append(out, t)
	}
	return out
}

// typicalLate is the median of the ranks' medians.
func typicalLate(r *Report) int64 {
	var all []int64
	for i := range r.Lateness.Rows {
		all = append(all, max(0, medianOf(&r.Lateness.Rows[i])))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// slowNode reports whether every rank of a host is later than floor.
func slowNode(r *Report, rows []int, floor int64) bool {
	for _, i := range rows {
		if medianOf(&r.Lateness.Rows[i]) <= floor {
			return false
		}
	}
	return len(rows) > 1
}

func orHost(name string) string {
	if name == "" {
		return "host not recorded"
	}
	return name
}

// heldBy is what most of the others' wait for a rank was charged to.
func heldBy(r *Report, rank *int) (owner, word string) {
	for i := range r.Waits { // longest first
		if w := &r.Waits[i]; sameRank(w.CulpritRank, rank) {
			o, _ := timeline.ParseOwner(w.Owner)
			return w.Owner, OwnerWord(o)
		}
	}
	return "", ""
}

// lostBars are what each rank's GPU did in a step besides computing, on the scale of that alone.
func lostBars(r *Report) (LedgerBars, bool) {
	if len(r.Ledger) < 2 {
		return LedgerBars{}, false
	}
	rows, others := drawn(r)
	besides := func(l *LedgerRow) float64 {
		return float64(l.WindowNS-l.Owners[timeline.Compute.String()]) / perStep(l)
	}
	scale := 0.0
	for _, i := range rows {
		scale = max(scale, besides(&r.Ledger[i]))
	}
	if scale <= 0 {
		return LedgerBars{}, false
	}
	per := "in a mean step"
	if _, ok := r.meanStep(); !ok {
		per = "in the window"
	}
	unit, unitNS := "ms", 1e6
	if scale >= 1e10 {
		unit, unitNS = "s", 1e9
	} else if scale < 1e6 {
		unit, unitNS = "µs", 1e3
	}
	step := pow10for(scale / unitNS)
	out := LedgerBars{Title: "What each rank did " + per + " besides computing", ScaleLabel: "Besides compute, 0 to " + Dur(scale, 3), Columns: []Column{{Title: "All of it, " + unit, Num: true}, {Title: "Waiting for a peer", Owners: []string{"comm.peer-wait"}, Num: true}, {Title: "Most of the rest", More: true}}}
	for k := 0; k < len(rows)+min(len(others), 1); k++ {
		var l *LedgerRow
		name := ""
		if k < len(rows) {
			l = &r.Ledger[rows[k]]
			name = rowName(r, l)
		} else {
			m := middleRow(r, others)
			l, name = &m, fmt.Sprintf("%d others, median", len(others))
		}
		b := Bar{Name: name}
		if l.Rank != nil && sameRank(l.Rank, r.Verdict.CulpritRank) {
			b.Bold, b.Sub = true, "late"
		}
		most, mostNS := -1, int64(0)
		var said []string
		for f, fam := range Families {
			ns := famNS(l, fam)
			if fam.Owners[0] == timeline.Compute || ns <= 0 {
				continue
			}
			v := float64(ns) / perStep(l)
			b.Segs = append(b.Segs, Seg{Owner: fam.Owners[0].String(), Frac: v / scale, Tip: fam.Label + " " + Dur(v, 3)})
			said = append(said, fam.Label+" "+Dur(v, 3))
			if fam.Owners[0] != timeline.CommPeerWait && ns > mostNS {
				most, mostNS = f, ns
			}
		}
		wait := float64(l.Owners[timeline.CommPeerWait.String()]) / perStep(l)
		b.Cells = []Cell{{Text: aligned(besides(l)/unitNS, step)}, {Text: aligned(wait/unitNS, step), Weak: wait == 0}, {}}
		if most >= 0 {
			b.Cells[2] = Cell{Text: Families[most].Label + ", " + Dur(float64(mostNS)/perStep(l), 3), Owner: Families[most].Owners[0].String()}
		}
		b.Alt = b.Name + ": " + strings.Join(said, ", ")
		out.Bars = append(out.Bars, b)
	}
	return out, true
}

// middleRow is the row whose time besides compute is the median of some: a real one, so that its parts belong together.
func middleRow(r *Report, rows []int) LedgerRow {
	idx := slices.Clone(rows)
	sort.SliceStable(idx, func(a, b int) bool {
		return share(r, idx[a], timeline.Compute.String()) < share(r, idx[b], timeline.Compute.String())
	})
	return r.Ledger[idx[len(idx)/2]]
}

// waitCharts draws who waited for whom in the steps with the longest waits.
func waitCharts(r *Report) (WaitCharts, bool) {
	w := WaitCharts{ID: "wait-chains", Title: "Who waited for whom, in the worst steps", Lead: "The longest waits of each, one for every late rank. That rank’s time is drawn up to the moment it came; where in the wait it lay is not said."}
	seen := map[string]bool{}
	for i := range r.Chains {
		c := &r.Chains[i]
		if len(c.Links) == 0 {
			continue
		}
		lo, hi := c.Links[0].StartNS, c.Links[0].StartNS
		for _, l := range c.Links {
			lo, hi = min(lo, l.StartNS, l.StartNS+l.DurNS-l.OwnerNS), max(hi, l.StartNS+l.DurNS)
		}
		if hi <= lo {
			continue
		}
		span := float64(hi - lo)
		ch := WaitChart{Title: "Step " + Count(c.Step), Ticks: []string{"0", Dur(span/2, 2), Dur(span, 2)}}
		var lanes []WaitLane
		lane := func(n *int) *WaitLane {
			name := rankName(n)
			for k := range lanes {
				if lanes[k].Name == name {
					return &lanes[k]
				}
			}
			lanes = append(lanes, WaitLane{Name: name})
			return &lanes[len(lanes)-1]
		}
		links := slices.Clone(c.Links)
		sort.SliceStable(links, func(a, b int) bool { return links[a].StartNS < links[b].StartNS })
		for _, l := range links {
			x := lane(l.WaiterRank)
			x.Segs = append(x.Segs, WaitSeg{At: float64(l.StartNS-lo) / span, Frac: float64(l.DurNS) / span, Owner: "comm.peer-wait", Tip: fmt.Sprintf("waited %s for %s", Dur(float64(l.DurNS), 3), lower(rankName(l.CulpritRank)))})
			seen["comm.peer-wait"] = true
		}
		for _, l := range links {
			x := lane(l.CulpritRank)
			o, _ := timeline.ParseOwner(l.Owner)
			x.Bold = true
			if l.OwnerNS <= 0 {
				continue
			}
			seg := WaitSeg{At: float64(l.StartNS+l.DurNS-l.OwnerNS-lo) / span, Frac: float64(l.OwnerNS) / span, Owner: l.Owner, Tip: fmt.Sprintf("%s %s", OwnerWord(o), Dur(float64(l.OwnerNS), 3))}
			if !slices.ContainsFunc(x.Segs, func(s WaitSeg) bool {
				return s.Owner == seg.Owner && s.At <= seg.At && s.At+s.Frac >= seg.At+seg.Frac-1e-9
			}) {
				x.Segs = append(x.Segs, seg)
				seen[l.Owner] = true
			}
		}
		for k := range lanes {
			var tips []string
			for _, s := range lanes[k].Segs {
				tips = append(tips, s.Tip)
			}
			lanes[k].Alt = lanes[k].Name + ": " + strings.Join(tips, ", ")
		}
		if n := len(lanes); n > chainLanes {
			var keep []WaitLane // those waited for stay
			late := 0
			for _, l := range lanes {
				if l.Bold {
					late++
				}
			}
			room := max(0, chainLanes-late)
			for _, l := range lanes {
				if l.Bold && len(keep) < 2*chainLanes {
					keep = append(keep, l)
				} else if !l.Bold && room > 0 {
					keep = append(keep, l)
					room--
				}
			}
			ch.Foot = fmt.Sprintf("%d of %d ranks of this chain are drawn.", len(keep), n)
			lanes = keep
		}
		ch.Lanes, ch.Said = lanes, chainSaid(c)
		w.Charts = append(w.Charts, ch)
	}
	w.Table = chainsTable(r)
	for _, f := range Families {
		for _, o := range f.Owners {
			if seen[o.String()] {
				w.Legend = append(w.Legend, o.String())
			}
		}
	}
	return w, len(w.Charts) > 0
}

// chainsTable is what the charts of waiting draw.
func chainsTable(r *Report) *Table {
	t := Table{Shown: 24, Columns: []Column{{Title: "Step", Num: true}, {Title: "Who waited"}, {Title: "For"}, {Title: "How long, ms", Num: true}, {Title: "That rank was in"}, {Title: "Of the wait, ms", Num: true, More: true}, {Title: "Collective", More: true}}}
	var most int64
	for i := range r.Chains {
		for _, l := range r.Chains[i].Links {
			most = max(most, l.DurNS)
		}
	}
	step := pow10for(float64(most) / 1e6)
	for i := range r.Chains {
		c := &r.Chains[i]
		for _, l := range c.Links {
			was, of := Cell{Text: "unknown", Dashed: true}, Cell{Text: "–", Weak: true}
			if o, ok := timeline.ParseOwner(l.Owner); ok && l.OwnerNS > 0 {
				was, of = Cell{Text: OwnerWord(o), Owner: l.Owner}, Cell{Text: aligned(float64(l.OwnerNS)/1e6, step)}
			}
			t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: Count(c.Step)}, {Text: rankName(l.WaiterRank)}, {Text: lower(rankName(l.CulpritRank))}, {Text: aligned(float64(l.DurNS)/1e6, step)}, was, of,
				{Text: l.Primitive, Weak: true}}})
		}
	}
	capRows(&t, "waits")
	return &t
}

// chainSaid is the chain in words, the links of one late rank together.
func chainSaid(c *WaitChain) string {
	var parts []string
	done := make([]bool, len(c.Links))
	for i := range c.Links {
		if done[i] {
			continue
		}
		top := &c.Links[i]
		var who []int
		unknown := 0
		for k := i; k < len(c.Links); k++ {
			l := &c.Links[k]
			if done[k] || rankName(l.CulpritRank) != rankName(top.CulpritRank) {
				continue
			}
			done[k] = true
			if l.WaiterRank == nil {
				unknown++
			} else if !slices.Contains(who, *l.WaiterRank) {
				who = append(who, *l.WaiterRank)
			}
			if l.DurNS > top.DurNS {
				top = l
			}
		}
		most := ""
		if len(who)+unknown > 1 {
			most = "up to "
		}
		s := fmt.Sprintf("%s waited %s%s for %s", ranksWord(who, unknown), most, Dur(float64(top.DurNS), 3), lower(rankName(top.CulpritRank)))
		if o, ok := timeline.ParseOwner(top.Owner); ok && top.OwnerNS > 0 && o != timeline.UnknownOwner {
			s += ", which was " + doing(o) + " for " + Dur(float64(top.OwnerNS), 3) + " of it"
		} else {
			s += ", and what that rank did is unknown"
		}
		parts = append(parts, s)
	}
	return fmt.Sprintf("Step %s: %s.", Count(c.Step), strings.Join(parts, "; "))
}

// ranksWord is "ranks 0–6 and 9".
func ranksWord(n []int, unknown int) string {
	n = slices.Clone(n)
	slices.Sort(n)
	var runs []string
	for i := 0; i < len(n); {
		k := i
		for k+1 < len(n) && n[k+1] == n[k]+1 {
			k++
		}
		switch {
		case k == i:
			runs = append(runs, itoa(n[i]))
		case k == i+1:
			runs = append(runs, itoa(n[i]), itoa(n[k]))
		default:
			runs = append(runs, itoa(n[i])+"–"+itoa(n[k]))
		}
		i = k + 1
	}
	if len(runs) > 6 {
		return fmt.Sprintf("%d ranks", len(n)+unknown)
	}
	if unknown > 0 {
		runs = append(runs, fmt.Sprintf("%d without a number", unknown))
	}
	if len(runs) == 0 {
		return "ranks without a number"
	}
	if len(runs) == 1 {
		return Plural(len(n)+unknown, "rank ", "ranks ") + runs[0]
	}
	return "ranks " + strings.Join(runs[:len(runs)-1], ", ") + " and " + runs[len(runs)-1]
}

// doing is what a late rank was at.
func doing(o timeline.Owner) string {
	switch o {
	case timeline.HostDataloader:
		return "in its DataLoader"
	case timeline.Compute:
		return "computing"
	case timeline.HostCheckpoint:
		return "saving a checkpoint"
	case timeline.HostValidation:
		return "in its validation"
	case timeline.CopyH2D:
		return "copying to its GPU"
	case timeline.CopyD2H:
		return "copying to its host"
	case timeline.CommPeerWait:
		return "waiting itself"
	case timeline.CommTransfer, timeline.CommUndivided:
		return "in another collective"
	}
	return "held by " + shortWord(o)
}

var groupKinds = map[string]string{"world": "all ranks", "data": "data parallel", "sharded": "sharded data parallel", "tensor": "tensor parallel", "pipeline": "pipeline", "expert": "expert parallel"}

func groupWord(kind string) string {
	if w := groupKinds[kind]; w != "" {
		return w
	}
	return "kind not known"
}

func groupsTable(r *Report) (Table, bool) {
	if len(r.Groups) == 0 {
		return Table{}, false
	}
	t := Table{ID: "group-table", Title: "Groups", Shown: 12, Lead: "Collectives that were found on every member given are compared; the others are not divided into waiting and transfer by arrival.",
		Columns: []Column{{Title: "Group"}, {Title: "For"}, {Title: "Members", Num: true, More: true}, {Title: "Given"}, {Title: "Hosts", Num: true, More: true}, {Title: "Matched", Num: true}, {Title: "Not matched", Num: true, More: true}, {Title: "Divided", Wide: true, More: true}}}
	for i := range r.Groups {
		g := &r.Groups[i]
		size := Cell{Text: "unknown", Dashed: true}
		if g.Size != nil {
			size = Cell{Text: Count(int64(*g.Size))}
		}
		name := g.Name
		if name == "" {
			name = "not recorded"
		}
		given := Cell{Text: "none", Weak: true}
		if len(g.RanksHere) > 0 {
			given = Cell{Text: ranksWord(g.RanksHere, 0)}
		}
		why := Cell{Text: "yes", Weak: true}
		if how := map[string]string{"seq": "by sequence number", "order": "by order", "overlap": "by overlap in time"}[g.How]; how != "" {
			why.Text = "yes, matched " + how
		}
		if g.Why != "" {
			why = Cell{Text: "no: " + g.Why}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: Middle(name, 36), Title: titleIfCut(name, 36)}, {Text: groupWord(g.Kind), Weak: g.Kind == ""}, size, given, {Text: Count(int64(g.Hosts))}, {Text: Count(g.Matched), Weak: g.Matched == 0}, {Text: Count(g.Unmatched), Weak: g.Unmatched == 0}, why}})
	}
	capRows(&t, "groups")
	return t, true
}

func titleIfCut(s string, n int) string {
	if Middle(s, n) == s {
		return ""
	}
	return s
}

func hostClocksTable(r *Report) (Table, bool) {
	if len(r.Hosts) < 2 {
		return Table{}, false
	}
	t := Table{ID: "host-table", Title: "Clocks of the hosts", Shown: 16, Lead: "How far each host’s clock was found from the first one’s, by the ends of the collectives they share. The offset is taken off before ranks are compared.",
		Columns: []Column{{Title: "Host"}, {Title: "Ranks"}, {Title: "Offset", Num: true}, {Title: "Error", Num: true}, {Title: "", Bar: true, Wide: true, More: true}, {Title: "Drift, ppm", Num: true, More: true}, {Title: "Collectives", Num: true, More: true}}}
	var most int64 = 1
	for i := range r.Hosts {
		if e := r.Hosts[i].ErrorNS; e != nil {
			most = max(most, *e)
		}
	}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		row := Row{Cells: []Cell{{Text: Middle(orHost(h.Name), 36), Title: titleIfCut(h.Name, 36)}, {Text: ranksWord(h.Ranks, 0), Weak: true}}}
		switch {
		case h.Refused != "":
			row.Cells = append(row.Cells, Cell{Text: "not compared", Dashed: true, Title: h.Refused}, Cell{Text: "unknown", Dashed: true}, Cell{Text: h.Refused, Weak: true}, Cell{}, Cell{})
		case h.Instances == 0:
			row.Cells = append(row.Cells, Cell{Text: "0", Weak: true, Title: "the reference"}, Cell{Text: "–", Weak: true, Title: "the others are compared with this clock"}, Cell{}, Cell{}, Cell{})
		default:
			row.Cells = append(row.Cells, Cell{Text: signed(h.OffsetNS)}, Cell{Text: "±" + Dur(float64(*h.ErrorNS), 2)}, Cell{Bar: float64(*h.ErrorNS) / float64(most)}, Cell{Text: digits(h.DriftPPM, 2, "")}, Cell{Text: Count(h.Instances)})
		}
		t.Rows = append(t.Rows, row)
	}
	capRows(&t, "hosts")
	return t, true
}
