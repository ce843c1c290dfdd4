package render

import (
	"fmt"
	"math"
	"sort"
)

// collectiveKey is what a row of the table has in common: groups of one kind and size, such as all tensor parallel ones, are one row.
type collectiveKey struct {
	group, kind, prim string
	bytes             int64 // -1 not recorded
	size              int   // 0 not known
	across            int8  // as in facts: 1 across hosts, -1 on one, 0 not known
}

type collectiveSum struct {
	collectiveKey
	count, wait, transfer, dur, expos int64
	undivided, inferred, small        bool
	bw, want                          float64
	bwN, wantN                        int
}

func (a *collectiveSum) bus() float64 {
	if a.bwN == 0 || a.undivided {
		return 0
	}
	return a.bw / float64(a.bwN)
}

func (a *collectiveSum) expected() float64 {
	if a.wantN == 0 {
		return 0
	}
	return a.want / float64(a.wantN)
}

// GroupOf finds the communicator of a collective by its name; nil where two of that name differ in what they are.
func (r *Report) GroupOf(name string) *RankGroup {
	var out *RankGroup
	for i := range r.Groups {
		g := &r.Groups[i]
		if g.Name != name || name == "" {
			continue
		}
		if out != nil && (out.Kind != g.Kind || (out.Size == nil) != (g.Size == nil) || out.Size != nil && *out.Size != *g.Size) {
			return nil
		}
		out = g
	}
	return out
}

func sumCollectives(r *Report) []*collectiveSum {
	groups := map[string]*RankGroup{}
	by := map[collectiveKey]*collectiveSum{}
	var order []*collectiveSum
	for i := range r.Collectives {
		c := &r.Collectives[i]
		k := collectiveKey{group: c.Group, prim: c.Primitive, bytes: -1}
		g, ok := groups[c.Group]
		if !ok {
			g = r.GroupOf(c.Group)
			groups[c.Group] = g
		}
		if g != nil {
			if g.Kind != "" {
				k.kind, k.group = g.Kind, ""
			}
			if g.Size != nil {
				k.size = *g.Size
			}
		}
		if c.Bytes != nil {
			k.bytes = *c.Bytes
		}
		if c.Across != nil {
			k.across = map[bool]int8{true: 1, false: -1}[*c.Across]
		}
		a := by[k]
		if a == nil {
			a = &collectiveSum{collectiveKey: k}
			by[k] = a
			order = append(order, a)
		}
		a.count += c.Count
		a.expos += c.ExposedNS
		a.dur += c.DurNS
		if c.TransferNS != nil && c.PeerWaitNS != nil {
			a.wait += *c.PeerWaitNS
			a.transfer += *c.TransferNS
		}
		switch c.Split {
		case "undivided":
			a.undivided = true
		case "inferred":
			a.inferred = true
		}
		a.small = a.small || c.TooSmall
		if c.BusBW != nil {
			a.bw += *c.BusBW
			a.bwN++
		}
		if c.Expected != nil {
			a.want += *c.Expected
			a.wantN++
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return order[i].expos > order[j].expos })
	return order
}

func collectivesSection(r *Report) (Section, bool) {
	if len(r.Collectives) == 0 {
		return Section{}, false
	}
	order := sumCollectives(r)
	gpus, steps := int64(max(len(r.Ledger), 1)), int64(1)
	for i := range r.Ledger {
		steps = max(steps, int64(r.Ledger[i].Steps))
	}
	den := float64(gpus * steps)
	t := Table{ID: "collective-table", Shown: 12, Columns: []Column{{Title: "Collective"}, {Title: "Group", More: true}, {Title: "Calls a step", Num: true, More: true}, {Title: "Wait, ms", Owners: []string{"comm.peer-wait"}, Num: true},
		{Title: "Transfer, ms", Owners: []string{"comm.transfer"}, Num: true}, {Title: "", Bar: true, Wide: true, More: true}, {Title: "Exposed, ms", Num: true, More: true}, {Title: "Bus, GB/s", Num: true, More: true}, {Title: "Of expected", More: true}, {Title: "Divided", More: true}}}
	var most, part, expos int64 = 1, 0, 0
	differ := false
	for _, a := range order {
		most, part, expos = max(most, a.dur), max(part, a.wait, a.transfer), max(expos, a.expos)
		differ = differ || a.undivided || a.inferred
	}
	step, exposStep := pow10for(float64(part)/den/1e6), pow10for(float64(expos)/den/1e6)
	for _, a := range order {
		name := a.prim
		if a.bytes >= 0 {
			name += ", " + MessageSize(a.bytes)
		} else {
			name += ", size not recorded"
		}
		wait, tr, how := Cell{Text: aligned(float64(a.wait)/den/1e6, step)}, Cell{Text: aligned(float64(a.transfer)/den/1e6, step)}, "across ranks"
		bar := []Seg{{Owner: "comm.transfer", Frac: float64(a.transfer) / float64(most), Tip: "transfer"}, {Owner: "comm.peer-wait", Frac: float64(a.wait) / float64(most), Tip: "waiting for a peer"}}
		if a.undivided {
			wait, tr, how = Cell{Text: "unknown", Dashed: true}, Cell{Text: "unknown", Dashed: true}, "not divided"
			bar = []Seg{{Owner: "comm.undivided", Frac: float64(a.dur) / float64(most), Tip: "communication, undivided"}}
		} else if a.inferred {
			how = "inferred from one rank"
		}
		kept := bar[:0]
		for _, s := range bar {
			if s.Frac > 0 {
				kept = append(kept, s)
			}
		}
		bw, of := busCells(a)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: clean(name)}, groupCell(a), {Text: calls(a.count, den)}, wait, tr, {Segs: kept}, {Text: aligned(float64(a.expos)/den/1e6, exposStep)}, bw, of, {Text: how, Weak: true}}})
	}
	if !differ { // every one was divided by the arrivals of its ranks
		t.Columns = t.Columns[:len(t.Columns)-1]
		for i := range t.Rows {
			t.Rows[i].Cells = t.Rows[i].Cells[:len(t.Columns)]
		}
	}
	capRows(&t, "collectives")
	s := Section{ID: "collectives", Title: "Collectives", Lead: "Wait and transfer are of the whole kernels, exposed is what no compute hid; a step and GPU. Bus bandwidth is taken from the transfer part, never from the wait.", Blocks: []Block{t}}
	if d, ok := busDots(order); ok {
		s.Blocks = append(s.Blocks, d)
	}
	return s, true
}

// groupCell is kind, members and path.
func groupCell(a *collectiveSum) Cell {
	text := Middle(clean(a.group), 28)
	if a.kind != "" {
		text = groupWord(a.kind)
	}
	if text == "" {
		text = "not recorded"
	}
	if a.size > 0 {
		text += ", " + Count(int64(a.size))
	}
	return Cell{Text: text + map[int8]string{1: ", across hosts", -1: ", one host"}[a.across], Weak: true}
}

// busCells are the bus bandwidth and how it compares with what a healthy one reaches.
func busCells(a *collectiveSum) (bw, of Cell) {
	bw, of = Cell{Text: "–", Weak: true, Title: "no size, no group or no transfer time"}, Cell{Text: "–", Weak: true, Title: "no expected speed is known"}
	bus, want := a.bus(), a.expected()
	if bus > 0 {
		bw = Cell{Text: "<0.1"}
		if bus >= 1e8 {
			bw.Text = digits(bus/1e9, 3, "")
		}
		if want > 0 && !a.small {
			bw.Text += " of " + digits(want/1e9, 3, "")
			of = Cell{Text: Pct(bus / want)}
			if bus >= want { // the model is of a typical machine: how far above says nothing
				of = Cell{Text: "at or above", Weak: true, Title: "at or above what a healthy one of its size reaches"}
			}
		}
	}
	switch {
	case a.undivided:
		of = Cell{Text: "not divided", Weak: true}
	case a.small:
		of = Cell{Text: "too small to judge", Weak: true}
	}
	return bw, of
}

// busDots draws the bus bandwidth by size, with the expected one where it is known.
func busDots(order []*collectiveSum) (Dots, bool) {
	var all []*collectiveSum
	lo, hi, top := int64(math.MaxInt64), int64(0), 0.0
	for _, a := range order {
		if a.bytes <= 0 || a.bus() <= 0 {
			continue
		}
		all = append(all, a)
		lo, hi = min(lo, a.bytes), max(hi, a.bytes)
		top = max(top, a.bus(), a.expected())
	}
	if len(all) < 2 || lo == hi {
		return Dots{}, false
	}
	top = niceMax(top / 1e9)
	from, to := math.Log2(float64(lo))-1, math.Log2(float64(hi))+1
	at := func(bytes int64) float64 { return (math.Log2(float64(bytes)) - from) / (to - from) }
	d := Dots{ID: "bus-by-size", Title: "Bus bandwidth by message size", Unit: "GB/s", Legend: []string{"measured", "", "", ""}}
	type path struct {
		prim   string
		across int8
	}
	lines := map[path]int{}
	sort.SliceStable(all, func(i, j int) bool { return all[i].bytes < all[j].bytes })
	for _, a := range all {
		tip := a.prim + ", " + MessageSize(a.bytes) + ": " + digits(a.bus()/1e9, 3, "") + nbsp + "GB/s"
		if w := a.expected(); w > 0 && !a.small {
			tip += " of " + digits(w/1e9, 3, "")
			k := path{a.prim, a.across}
			if _, ok := lines[k]; !ok {
				lines[k] = len(d.Lines)
				d.Lines = append(d.Lines, nil)
			}
			d.Lines[lines[k]] = append(d.Lines[lines[k]], Dot{At: at(a.bytes), Value: w / 1e9 / top})
			d.Legend[3] = "expected of a healthy one"
		}
		dot := Dot{At: at(a.bytes), Value: a.bus() / 1e9 / top, Hollow: a.across > 0, Weak: a.small, Tip: clean(tip)}
		if dot.Hollow {
			d.Legend[0], d.Legend[1] = "measured, one host", "measured, across hosts"
		}
		if dot.Weak {
			d.Legend[2] = "too small to judge"
		}
		d.Dots = append(d.Dots, dot)
	}
	t := Table{Shown: 24, Columns: []Column{{Title: "Collective"}, {Title: "Size", Num: true}, {Title: "Path", More: true}, {Title: "Measured, GB/s", Num: true}, {Title: "Expected, GB/s", Num: true}}}
	for _, a := range all {
		want := Cell{Text: "–", Weak: true, Title: "no expected speed is known"}
		switch {
		case a.small:
			want = Cell{Text: "too small to judge", Weak: true}
		case a.expected() > 0:
			want = Cell{Text: digits(a.expected()/1e9, 3, "")}
		}
		across := map[int8]string{1: "across hosts", -1: "one host"}[a.across]
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: clean(a.prim)}, {Text: MessageSize(a.bytes)}, {Text: across, Weak: true}, {Text: digits(a.bus()/1e9, 3, "")}, want}})
	}
	capRows(&t, "kinds of collectives")
	d.Table = &t
	for _, size := range []int64{8, 1 << 10, 32 << 10, 1 << 20, 32 << 20, 1 << 30, 32 << 30} {
		if x := at(size); x >= 0 && x <= 1 {
			d.XTicks = append(d.XTicks, DotTick{x, MessageSize(size)})
		}
	}
	if len(d.XTicks) < 2 {
		d.XTicks = []DotTick{{at(lo), MessageSize(lo)}, {at(hi), MessageSize(hi)}}
	}
	for _, f := range []float64{0, 0.5, 1} {
		d.YTicks = append(d.YTicks, DotTick{f, trimZero(digits(f*top, 3, ""))})
	}
	d.Alt = fmt.Sprintf("Bus bandwidth of %d kinds of collectives by message size, from %s to %s; the table above has each.", len(all), MessageSize(lo), MessageSize(hi))
	return d, true
}
