package render

import (
	"fmt"
	"math"
	"sort"
	"strings"
)

const shownKernels = 20

func kernelsSection(r *Report) (Section, bool) {
	if len(r.Kernels) == 0 {
		return Section{}, false
	}
	type agg struct {
		name, class, op string
		count, dur      int64
		median          int64
		tensor          *bool
		work            kernelRoof
	}
	by := map[string]*agg{}
	var order []*agg
	var busy int64
	for i := range r.Kernels {
		k := &r.Kernels[i]
		key := k.Class + "\x00" + k.Name
		a := by[key]
		if a == nil {
			a = &agg{name: k.Name, class: k.Class, tensor: k.Tensor}
			if k.Op != nil {
				a.op = *k.Op
			}
			if k.MedianNS != nil {
				a.median = *k.MedianNS
			}
			by[key] = a
			order = append(order, a)
		}
		a.work.add(k)
		a.count += k.Count
		a.dur += k.DurNS
		busy += k.DurNS
	}
	sort.SliceStable(order, func(i, j int) bool {
		if (order[i].name == "(others)") != (order[j].name == "(others)") {
			return order[j].name == "(others)"
		}
		return order[i].dur > order[j].dur
	})
	gpus, steps := int64(max(len(r.Ledger), 1)), int64(1)
	for i := range r.Ledger {
		steps = max(steps, int64(r.Ledger[i].Steps))
	}
	den := float64(gpus * steps)
	per := "a step"
	if _, ok := r.meanStep(); !ok {
		per = "in the window"
	}
	var most float64 = 1
	for _, a := range order {
		most = max(most, float64(a.dur))
	}
	unit, unitNS := "ms", 1e6
	if most < 0.1e6*den {
		unit, unitNS = "µs", 1e3
	}
	t := Table{ID: "kernel-table", Columns: []Column{{Title: "Kernel", Wide: true}, {Title: "Class", More: true}, {Title: "Calls " + per, Num: true, More: true}, {Title: "Median, µs", Num: true, More: true},
		{Title: unit + " " + per, Num: true}, {Title: "", Bar: true, Wide: true, More: true}, {Title: "Share of kernel time", Num: true}, {Title: "Against the part"}, {Title: "Tensor cores", More: true}, {Title: "Launched by", More: true}}}
	step := pow10for(most / den / unitNS)
	var restDur, restCount int64
	restN := 0
	for i, a := range order {
		if i >= shownKernels || a.name == "(others)" {
			restDur += a.dur
			restCount += a.count
			restN++
			continue
		}
		owner := "compute"
		if a.class == "comm" {
			owner = "comm.transfer"
		}
		med, tc, op := Cell{Text: "–", Weak: true}, Cell{Text: "unknown", Dashed: true}, Cell{Text: "–", Weak: true}
		if a.median > 0 {
			med = Cell{Text: digits(float64(a.median)/1e3, 3, "\u202f")}
		}
		if a.tensor != nil {
			tc = Cell{Text: map[bool]string{true: "yes", false: "no"}[*a.tensor]}
		} else if a.class != "matmul" && a.class != "conv" && a.class != "attention" {
			tc = Cell{Text: "–", Weak: true, Title: "not a matrix kernel"}
		}
		if a.op != "" {
			op = Cell{Text: Middle(a.op, 40), Title: a.op, Weak: true}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: KernelName(a.name), Title: clean(a.name)}, {Text: a.class, Weak: true}, {Text: calls(a.count, den)}, med,
			{Text: aligned(float64(a.dur)/den/unitNS, step)}, {Bar: float64(a.dur) / most, BarOwner: owner}, {Text: Pct1(float64(a.dur) / float64(max(busy, 1)))}, a.work.cell(a.class, a.dur), tc, op}})
	}
	if restDur > 0 {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: "The rest", Weak: true, Title: fmt.Sprintf("%d more rows; the workbook has them", restN)}, {}, {Text: calls(restCount, den), Weak: true}, {},
			{Text: aligned(float64(restDur)/den/unitNS, step), Weak: true}, {Bar: min(1, float64(restDur)/most)}, {Text: Pct1(float64(restDur) / float64(max(busy, 1))), Weak: true}, {}, {}, {}}})
	}
	lead := fmt.Sprintf("What %s of kernel time %s consisted of", Dur(float64(busy)/den, 3), per)
	if gpus > 1 {
		lead += fmt.Sprintf(", mean of %d GPUs", gpus)
	}
	return Section{ID: "kernels", Title: "Kernels", Lead: lead + ". Kernels that ran at once count each." + workLead(r), Blocks: []Block{t}}, true
}

// KernelName shortens a demangled name to what tells kernels apart; the full name stays in the title and the workbook.
func KernelName(s string) string {
	s = clean(s)
	s = strings.TrimPrefix(s, "void ")
	s = strings.ReplaceAll(s, "(anonymous namespace)::", "")
	for _, p := range []string{"at::native::", "cutlass::", "at::cuda::"} {
		s = strings.ReplaceAll(s, p, "")
	}
	depth := 0
	for i, c := range s { // the parameters go, a cast inside of template arguments stays
		switch c {
		case '<':
			depth++
		case '>':
			depth--
		case '(':
			if i > 12 && depth <= 0 {
				return Middle(s[:i], 64)
			}
		}
	}
	return Middle(s, 64)
}

// calls is how often a step, a whole number where it is one.
func calls(n int64, den float64) string {
	v := float64(n) / den
	if v == math.Trunc(v) {
		return Count(int64(v))
	}
	return digits(v, 3, "\u202f")
}

func copiesSection(r *Report) (Section, bool) {
	if len(r.Copies) == 0 {
		return Section{}, false
	}
	steps := int64(1)
	for i := range r.Ledger {
		steps = max(steps, int64(r.Ledger[i].Steps))
	}
	var long, large int64
	for i := range r.Copies {
		long, large = max(long, r.Copies[i].DurNS), max(large, r.Copies[i].Bytes)
	}
	unit, unitNS := "ms", 1e6
	if float64(long) < 0.1e6*float64(steps) {
		unit, unitNS = "µs", 1e3
	}
	size, unitB := "MB", 1e6
	if float64(large) < 1e6*float64(steps) {
		size, unitB = "kB", 1e3
	}
	tStep, bStep := pow10for(float64(long)/float64(steps)/unitNS), pow10for(float64(large)/float64(steps)/unitB)
	t := Table{ID: "copy-table", Shown: 12, Columns: []Column{{Title: "Copy"}, {Title: "GPU", More: true}, {Title: "Calls a step", Num: true, More: true}, {Title: size + " a step", Num: true}, {Title: unit + " a step", Num: true},
		{Title: "Exposed, " + unit, Num: true}, {Title: "", Bar: true, Wide: true, More: true}, {Title: "GB/s of large ones", Num: true, More: true}}}
	var most int64 = 1
	for i := range r.Copies {
		most = max(most, r.Copies[i].DurNS)
	}
	words := map[string]string{"h2d": "host to GPU", "d2h": "GPU to host", "d2d": "within the GPU", "p2p": "GPU to GPU", "h2h": "host to host", "unknown": "direction not recorded"}
	for i := range r.Copies {
		c := &r.Copies[i]
		name := words[c.Kind]
		if c.Memory == "pageable" || c.Memory == "pinned" || c.Memory == "managed" {
			name += ", " + c.Memory
		}
		owner := map[string]string{"h2d": "copy.h2d", "d2h": "copy.d2h"}[c.Kind]
		if owner == "" {
			owner = "compute"
		}
		bw := Cell{Text: "–", Weak: true, Title: "no copy of 1 MiB or more"}
		if c.BW != nil {
			bw = Cell{Text: digits(*c.BW/1e9, 3, "")}
		}
		d := float64(steps)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: name}, {Text: gpuLabel(r, c.GPU), Weak: true}, {Text: calls(c.Count, d)}, {Text: aligned(float64(c.Bytes)/d/unitB, bStep)},
			{Text: aligned(float64(c.DurNS)/d/unitNS, tStep)}, {Text: aligned(float64(c.ExposedNS)/d/unitNS, tStep)}, {Bar: float64(c.DurNS) / float64(most), BarOwner: owner}, bw}})
	}
	capRows(&t, "kinds of copies")
	return Section{ID: "copies", Title: "Copies", Lead: "Exposed is the time in which the GPU did nothing else. That of pageable memory holds the driver’s staging too, so it can be longer than the copies.", Blocks: []Block{t}}, true
}

func hardwareSection(r *Report) (Section, bool) {
	l := Lanes{EndS: float64(r.Window.DurNS) / sec}
	for _, sp := range laneSpecs[1:] {
		if lane, ok := lane(r, sp); ok {
			lane.Hatch = throttled(r, sp.metric)
			l.Lanes = append(l.Lanes, lane)
		} else if sp.metric == "clock_sm_hz" || sp.metric == "power_w" || sp.metric == "temp_gpu_c" {
			l.Missing = append(l.Missing, sp.title+": not recorded")
		}
	}
	// Readings of a trace's own file may fill a small part of the window: then the axis is theirs.
	if lo, hi := lanesExtent(l.Lanes); hi > lo && hi-lo < l.EndS/2 {
		l.StartS, l.EndS = max(lo, 0), hi
	}
	s := Section{ID: "hardware", Title: "Hardware", Lead: "Did the card cause it? Dots are instants, dashes are averages over the time they cover. GPUs that agree are one band, an odd one has its own line."}
	if len(l.Lanes) == 0 {
		s.Lead = "No clock, power or temperature was recorded, so the hardware was not looked at."
		if n := offAxisHardware(r); n > 0 {
			s.Lead = "What the cards read has no place beside the traces, as the clock of its log could not be placed: it is judged, and not drawn."
			l.Missing = nil
		}
	}
	s.Blocks = append(s.Blocks, l)
	if t, ok := activityTable(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	s.Blocks = append(s.Blocks, machineBlocks(r)...)
	return s, true
}

func captureSection(r *Report) (Section, bool) {
	s := Section{ID: "capture", Title: "Capture plan", Count: countOrNone(len(r.CapturePlan))}
	var c Commands
	for i, p := range r.CapturePlan {
		ids := p.Answers
		more := ""
		if len(ids) > 8 {
			more = fmt.Sprintf(" and %d more", len(ids)-8)
			ids = ids[:8]
		}
		c.Items = append(c.Items, CommandItem{N: i + 1, ID: fmt.Sprintf("capture-%d", i+1), Title: fmt.Sprintf("Answers %d. %s.", len(p.Answers), upperFirst(strings.TrimSuffix(p.Title, "."))), Where: strings.TrimSuffix(upperFirst(p.Where)+". "+upperFirst(p.Note), ". ") + ".",
			Command: p.Command, Answers: strings.Join(ids, ", ") + more})
	}
	unknown := 0
	for _, o := range ruleOutcomes(r) {
		if o.Outcome == "unknown" {
			unknown++
		}
	}
	if len(c.Items) == 0 {
		s.Lead = "No command would answer more."
		return s, true
	}
	s.Lead = fmt.Sprintf("%s %s %s unknown checks.", NumberWord(len(c.Items)), Plural(len(c.Items), "command answers", "commands answer"), answeredOf(answered(r), unknown))
	s.Blocks = []Block{c}
	return s, true
}

func inputsSection(r *Report) (Section, bool) {
	s := Section{ID: "inputs", Title: "Inputs", Count: itoa(len(r.Inputs))}
	var bytes int64
	used, ours, bad := 0, 0, 0
	for i := range r.Inputs {
		in := &r.Inputs[i]
		bytes += in.Bytes
		if in.Used {
			used++
		}
		if in.Format != "unknown" {
			ours++
		}
		if in.Problems > 0 {
			bad++
		}
	}
	s.Lead = fmt.Sprintf("%d %s, %s", len(r.Inputs), Plural(len(r.Inputs), "file", "files"), Bytes(float64(bytes)))
	switch {
	case used == len(r.Inputs):
		s.Lead += Plural(used, ", read", ", all read")
	default:
		s.Lead += fmt.Sprintf(". %d %s read", used, Plural(used, "was", "were"))
	}
	if n := len(r.Inputs) - ours; n > 0 {
		s.Lead += fmt.Sprintf(", %d %s none of ours", n, Plural(n, "is", "are"))
	}
	if n := ours - used; n > 0 {
		s.Lead += fmt.Sprintf(", %d %s recognised but not used", n, Plural(n, "is", "are"))
	}
	if bad > 0 {
		s.Lead += fmt.Sprintf(", %d %s a problem", bad, Plural(bad, "has", "have"))
	}
	s.Lead += "."
	if len(r.Said) > 0 {
		s.Lead += " Said by the user, in no file: " + strings.Join(r.Said, ", ") + "."
	}
	t := Table{ID: "input-table", Shown: 24, Columns: []Column{{Title: "File"}, {Title: "Format"}, {Title: "Size", Num: true, More: true}, {Title: "Rows", Num: true, More: true}, {Title: "Covers the window", Bar: true, Wide: true, More: true},
		{Title: "Clock", More: true}, {Title: "Problems"}}}
	for i := range r.Inputs {
		in := &r.Inputs[i]
		row := Row{Cells: []Cell{{Text: Middle(in.Path, 56), Title: in.Path}, {Text: in.Format, Weak: true}, {Text: Bytes(float64(in.Bytes))}, {Text: Count(in.Rows)}}}
		switch {
		case !in.Used:
			row.Cells = append(row.Cells, Cell{Text: notUsed(in), Title: in.Note, Weak: true})
		case in.CoverageFrac != nil:
			row.Cells = append(row.Cells, Cell{Text: Pct(*in.CoverageFrac), Bar: *in.CoverageFrac})
		default:
			row.Cells = append(row.Cells, Cell{Text: "–", Weak: true, Title: "it has no times on the axis"})
		}
		row.Cells = append(row.Cells, clockCell(r, in))
		p := Cell{Text: "", Weak: true}
		if in.Problems > 0 {
			p = Cell{Text: Count(in.Problems), Link: "#problem-table"}
		}
		row.Cells = append(row.Cells, p)
		t.Rows = append(t.Rows, row)
	}
	capRows(&t, "files")
	s.Blocks = append(s.Blocks, t)
	if len(r.Problems) > 0 {
		p := Table{ID: "problem-table", Title: "Problems", Shown: 10, Columns: []Column{{Title: "Where"}, {Title: "What and how to mend", Wide: true}, {Title: "Code", More: true}, {Title: "Severity", More: true}, {Title: "Times", Num: true}}}
		for i := range r.Problems {
			x := &r.Problems[i]
			where := x.Path
			if x.Row != nil {
				where = fmt.Sprintf("%s:%d", Middle(x.Path, 48), *x.Row)
			}
			p.Rows = append(p.Rows, Row{Cells: []Cell{{Text: where, Code: true}, {Text: x.Message}, {Text: x.Code, Code: true, Weak: true}, {Text: x.Severity, Weak: x.Severity == "info"}, {Text: Count(x.Count)}}})
		}
		capRows(&p, "problems")
		s.Blocks = append(s.Blocks, p)
	}
	if len(r.Clocks) > 0 {
		c := Table{ID: "clock-table", Title: "Clocks", Shown: 8, Columns: []Column{{Title: "Clock"}, {Title: "Placed"}, {Title: "Offset", Num: true, More: true}, {Title: "Error", Num: true}, {Title: "By what", Wide: true}}}
		for i := range r.Clocks {
			x := &r.Clocks[i]
			off, e := Cell{Text: "–", Weak: true}, Cell{Text: "unknown", Dashed: true}
			if x.OffsetNS != nil {
				off = Cell{Text: Dur(float64(*x.OffsetNS), 4)}
				e = Cell{Text: "±" + Dur(float64(*x.ErrorNS), 2)}
				if *x.ErrorNS == 0 {
					e = Cell{Text: "–", Weak: true, Title: "the axis is this clock"}
				}
			}
			c.Rows = append(c.Rows, Row{Cells: []Cell{{Text: Middle(x.Name, 40)}, {Text: x.How}, off, e, {Text: x.Why, Weak: true}}})
		}
		capRows(&c, "clocks")
		s.Blocks = append(s.Blocks, c)
	}
	if t, ok := gpusTable(r); ok {
		s.Blocks = append(s.Blocks, t)
	}
	return s, true
}

func notUsed(in *InputRow) string {
	if in.Format == "unknown" {
		return "none of ours, not used"
	}
	if in.Note != "" {
		return Middle(in.Note, 160)
	}
	return "not used"
}

func clockCell(r *Report, in *InputRow) Cell {
	if in.Clock == nil {
		return Cell{Text: "–", Weak: true}
	}
	for i := range r.Clocks {
		if x := &r.Clocks[i]; x.Name == *in.Clock {
			if x.ErrorNS == nil {
				return Cell{Text: x.How, Title: x.Why, Dashed: true}
			}
			if *x.ErrorNS == 0 {
				return Cell{Text: x.How, Title: x.Why}
			}
			return Cell{Text: x.How + ", ±" + Dur(float64(*x.ErrorNS), 2), Title: x.Why}
		}
	}
	return Cell{Text: *in.Clock}
}

func gpusTable(r *Report) (Table, bool) {
	if len(r.GPUs) == 0 {
		return Table{}, false
	}
	t := Table{ID: "gpu-table", Title: "GPUs and how their logs were found", Shown: 16, Columns: []Column{{Title: "GPU"}, {Title: "Part"}, {Title: "Host", More: true}, {Title: "Index", Num: true, More: true}, {Title: "UUID", More: true}, {Title: "Sampled log", Wide: true}}}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		host, idx, uuid, m := "–", "–", "–", "none matched"
		part := Cell{Text: gpuModel(g.Name)}
		if g.Name == "" {
			part = Cell{Text: "not recorded", Weak: true}
		}
		if g.Host != nil {
			host = *g.Host
		}
		if g.Index != nil {
			idx = itoa(*g.Index)
		}
		if g.UUID != nil {
			uuid = *g.UUID
		}
		if g.Match != nil {
			m = *g.Match
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: gpuLabel(r, g.ID)}, part, {Text: host, Weak: true}, {Text: idx}, {Text: Middle(uuid, 20), Title: uuid, Weak: true}, {Text: m, Weak: true}}})
	}
	capRows(&t, "GPUs")
	return t, true
}
