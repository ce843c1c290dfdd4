package render

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"sort"
	"strings"

	"gpureport/ingest/timeline"
)

const sec = 1e9

func dipsSection(r *Report) (Section, bool) {
	if len(r.Dips) == 0 {
		return Section{}, false
	}
	s := Section{ID: "dips", Title: "When the GPU dropped, who was holding the time?", Rail: "Dips", Count: itoa(r.DipsCount)}
	named := 0
	t := Table{ID: "dip-table", Shown: 4, Columns: []Column{{Title: ""}, {Title: "At", Num: true}, {Title: "Lasted", Num: true, More: true}, {Title: "GPUs", More: true},
		{Title: "Utilisation, %", Num: true}, {Title: "Held by"}, {Title: "Held, ms", Num: true}, {Title: "", Bar: true, Wide: true, More: true}, {Title: "Rests on", More: true}}}
	var most int64 = 1
	for i := range r.Dips {
		_, ns := holder(&r.Dips[i])
		most = max(most, ns)
	}
	for i := range r.Dips {
		d := &r.Dips[i]
		owner, ns := holder(d)
		held, heldCell := Cell{Text: "nobody can be named", Weak: true, Dashed: true}, Cell{Text: "unknown", Weak: true}
		bar := Cell{}
		if owner != "" {
			named++
			o, _ := timeline.ParseOwner(owner)
			held = Cell{Text: OwnerWord(o), Owner: owner}
			heldCell = Cell{Text: digits(float64(ns)/1e6, 3, "\u202f")}
			bar = Cell{Bar: float64(ns) / float64(most), BarOwner: owner}
		}
		refs := compactRefs(d.Refs)
		t.Rows = append(t.Rows, Row{ID: "dip-" + d.ID, Cells: []Cell{{Text: strings.ToUpper(d.ID), Strong: true},
			{Text: digits(float64(d.StartNS)/sec, 3, "") + nbsp + "s"}, {Text: Dur(float64(d.DurNS), 2)}, {Text: gpuList(r, d.GPUs)},
			{Text: fmt.Sprintf("%.0f → %.0f", d.FromFrac*100, d.ToFrac*100)}, held, heldCell, bar, {Text: Middle(refs, 60), Title: strings.Join(d.Refs, ", "), Weak: true}}})
	}
	s.Lead = fmt.Sprintf("%s %s in the sampled curves. ", NumberWord(r.DipsCount), Plural(r.DipsCount, "drop", "drops"))
	if r.DipsCount > len(r.Dips) {
		s.Lead = fmt.Sprintf("%d drops in the sampled curves; the %d largest are kept. ", r.DipsCount, len(r.Dips))
	}
	switch {
	case named == len(r.Dips):
		s.Lead += "Each is held against the trace of the same time."
	case named > 0:
		s.Lead += fmt.Sprintf("The trace covers %d of them; who held the others is not recorded.", named)
	default:
		s.Lead += "No trace covers them, so nobody can be named: a curve is a symptom."
	}
	s.Blocks = []Block{t}
	return s, true
}

// compactRefs names a file once for all its rows that follow one another: smi.log:17, 18, 19.
func compactRefs(refs []string) string {
	var b strings.Builder
	file := ""
	for i, ref := range refs {
		k := strings.LastIndexByte(ref, ':')
		if i > 0 {
			b.WriteString(", ")
		}
		if k > 0 && file == ref[:k] {
			b.WriteString(ref[k+1:])
			continue
		}
		file = ref[:max(k, 0)]
		b.WriteString(ref)
	}
	return b.String()
}

// holder is the owner other than compute that held most of a dip; "" when no ledger covers it.
func holder(d *Dip) (string, int64) {
	best, ns := "", int64(0)
	for o := timeline.Owner(1); o < timeline.NOwners; o++ {
		if v := d.Owners[o.String()]; v > ns {
			best, ns = o.String(), v
		}
	}
	if best == "" && len(d.Owners) > 0 {
		return "compute", d.Owners["compute"]
	}
	return best, ns
}

func gpuList(r *Report, ids []string) string {
	if len(ids) == len(r.GPUs) && len(ids) > 1 {
		return fmt.Sprintf("all %d", len(ids))
	}
	var out []string
	for i, id := range ids {
		if i == 3 && len(ids) > 4 {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(ids)-3)
		}
		out = append(out, "GPU "+strings.TrimPrefix(id, "gpu"))
	}
	return strings.Join(out, ", ")
}

// laneSpec is a reading of the time line or the hardware section.
type laneSpec struct {
	metric, title, unit string
	scale               float64
	min, max            float64 // max 0: from the data
	of                  string  // what the curves are of; "" GPUs
}

var laneSpecs = []laneSpec{
	{metric: "sm_busy_frac", title: "Utilisation", unit: "%", scale: 100, max: 100},
	{metric: "clock_sm_hz", title: "SM clock", unit: "MHz", scale: 1e-6},
	{metric: "power_w", title: "Power", unit: "W", scale: 1},
	{metric: "temp_gpu_c", title: "Temperature", unit: "°C", scale: 1},
	{metric: "mem_used_bytes", title: "Memory used", unit: "GB", scale: 1e-9},
	{metric: "pcie_h2d_bytes_per_s", title: "PCIe to GPU", unit: "GB/s", scale: 1e-9},
	{metric: "pcie_d2h_bytes_per_s", title: "PCIe to host", unit: "GB/s", scale: 1e-9},
	{metric: "pcie_gen_count", title: "PCIe generation", scale: 1},
}

// counterLanes are drawn on the time line where they were sampled: what kernels use of the card, and the network beside collectives.
var counterLanes = []laneSpec{
	{metric: "sm_active_frac", title: "SMs in use", unit: "%", scale: 100, max: 100},
	{metric: "tensor_active_frac", title: "Tensor", unit: "%", scale: 100, max: 100},
	{metric: "dram_active_frac", title: "DRAM", unit: "%", scale: 100, max: 100},
	{metric: "net_tx_bytes_per_s", title: "Net out", unit: "GB/s", scale: 1e-9, of: "ports"},
	{metric: "net_rx_bytes_per_s", title: "Net in", unit: "GB/s", scale: 1e-9, of: "ports"},
}

// lane draws one metric over all GPUs: up to four curves each by itself, more as a band with the odd ones apart.
func lane(r *Report, spec laneSpec) (Lane, bool) {
	var list []*Series
	for i := range r.Series {
		if s := &r.Series[i]; s.Metric == spec.metric {
			list = append(list, s)
		}
	}
	// one source a subject: the one with most readings, of which those finer than one a second do not count
	seconds := func(s *Series) int { return min(len(s.AtNS), int((s.AtNS[len(s.AtNS)-1]-s.AtNS[0])/sec)+1) }
	best := map[string]*Series{}
	var subjects []string
	for _, s := range list {
		if best[s.Subject] == nil {
			subjects = append(subjects, s.Subject)
		}
		if b := best[s.Subject]; b == nil || cmp.Or(cmp.Compare(seconds(s), seconds(b)), cmp.Compare(len(s.AtNS), len(b.AtNS))) > 0 {
			best[s.Subject] = s
		}
	}
	if len(subjects) == 0 {
		return Lane{}, false
	}
	sort.SliceStable(subjects, func(i, j int) bool { return gpuOrder(r, subjects[i]) < gpuOrder(r, subjects[j]) })
	first := best[subjects[0]]
	l := Lane{Title: spec.title, Unit: spec.unit, Min: spec.min, Max: spec.max, Covers: first.Covers, WindowS: float64(first.WindowNS) / sec}
	sub := map[string]string{"instant": "instant", "window": "over the last " + Dur(float64(first.WindowNS), 2), "total": "running total"}[first.Covers]
	file := Middle(path.Base(first.Path), 20)
	if e := clockError(r, first.Clock); e > 0 {
		l.ErrorS = float64(e) / sec
		file = Middle(path.Base(first.Path), 12) + ", ±" + Dur(float64(e), 2)
	}
	l.Sub = append(l.Sub, sub, file)
	peak := 0.0
	for _, id := range subjects {
		s := best[id]
		c := Curve{Name: subjectName(r, id)}
		for i := range s.AtNS {
			c.AtS = append(c.AtS, float64(s.AtNS[i])/sec)
			v := s.Value[i] * spec.scale
			c.Value = append(c.Value, v)
			peak = max(peak, v)
		}
		l.Curves = append(l.Curves, c)
	}
	if l.Max == 0 {
		l.Max = niceMax(peak)
	}
	if len(l.Curves) > 1 {
		l.Curves = band(l.Curves, oddSubjects(r, subjects), cmp.Or(spec.of, "GPUs"))
	}
	whose := "GPU"
	if spec.of == "ports" {
		whose = "Port"
	}
	t := Table{Title: spec.title, Columns: []Column{{Title: "At, s", Num: true}, {Title: whose}, {Title: spec.title + unitSuffix(spec.unit), Num: true}}}
	for _, id := range subjects {
		s := best[id]
		for i := range s.AtNS {
			if len(t.Rows) == 200 {
				break
			}
			t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: fmt.Sprintf("%.3f", float64(s.AtNS[i])/sec)}, {Text: subjectName(r, id)}, {Text: digits(s.Value[i]*spec.scale, 4, "")}}})
		}
	}
	l.Table = &t
	return l, true
}

func unitSuffix(u string) string {
	if u == "" {
		return ""
	}
	return ", " + u
}

func gpuOrder(r *Report, id string) int {
	for i := range r.GPUs {
		if r.GPUs[i].ID == id {
			return i
		}
	}
	return len(r.GPUs)
}

func subjectName(r *Report, id string) string {
	if gpuOrder(r, id) < len(r.GPUs) {
		return "GPU " + strings.TrimPrefix(id, "gpu")
	}
	return id
}

func clockError(r *Report, name string) int64 {
	for _, c := range r.Clocks {
		if c.Name == name && c.ErrorNS != nil {
			return *c.ErrorNS
		}
	}
	return 0
}

func niceMax(v float64) float64 {
	if v <= 0 {
		return 1
	}
	p := 1.0
	for p*10 < v {
		p *= 10
	}
	for p > v {
		p /= 10
	}
	for _, m := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if m*p >= v {
			return m * p
		}
	}
	return v
}

// oddSubjects marks the curves that stand apart: culprit, or mean further than 2 % of the range from the median mean.
func oddSubjects(r *Report, subjects []string) map[int]bool {
	odd := map[int]bool{}
	for i, id := range subjects {
		for _, g := range r.GPUs {
			if g.ID == id && g.Rank != nil && r.Verdict.CulpritRank != nil && *g.Rank == *r.Verdict.CulpritRank {
				odd[i] = true
			}
		}
	}
	return odd
}

// band turns many curves into one band with a middle line and leaves the odd ones as they are.
func band(curves []Curve, odd map[int]bool, of string) []Curve {
	means := make([]float64, len(curves))
	for i, c := range curves {
		for _, v := range c.Value {
			means[i] += v
		}
		if len(c.Value) > 0 {
			means[i] /= float64(len(c.Value))
		}
	}
	sorted := append([]float64{}, means...)
	sort.Float64s(sorted)
	med := sorted[len(sorted)/2]
	var out []Curve
	var rest []Curve
	// the odd ones: the late rank, and those furthest from the middle
	far := map[int]bool{}
	for _, i := range worst(len(curves), maxOdd, func(i int) float64 { return math.Abs(means[i] - med) }) {
		far[i] = true
	}
	for i, c := range curves {
		if odd[i] || far[i] && (med > 0 && (means[i] < 0.9*med || means[i] > 1.1*med)) {
			c.Odd = true
			out = append(out, c)
			continue
		}
		rest = append(rest, c)
	}
	if len(rest) == 1 {
		return append([]Curve{rest[0]}, out...)
	}
	if len(rest) > 1 {
		b := Curve{Name: fmt.Sprintf("%d %s", len(rest), of)}
		if len(out) > 0 {
			b.Name = fmt.Sprintf("%d others", len(rest))
		}
		// readings of one cycle share a stamp or nearly so: by position along the densest curve
		ref := rest[0]
		for _, c := range rest {
			if len(c.AtS) > len(ref.AtS) {
				ref = c
			}
		}
		next := make([]int, len(rest))
		for i, at := range ref.AtS {
			gap := 1.0
			if i > 0 {
				gap = at - ref.AtS[i-1]
			}
			var vals []float64
			for k, c := range rest {
				for next[k] < len(c.AtS) && c.AtS[next[k]] < at-gap/2 {
					next[k]++
				}
				if next[k] < len(c.AtS) && c.AtS[next[k]] <= at+gap/2 {
					vals = append(vals, c.Value[next[k]])
				}
			}
			if len(vals) == 0 {
				continue
			}
			sort.Float64s(vals)
			b.AtS = append(b.AtS, at)
			b.Low, b.High, b.Value = append(b.Low, vals[0]), append(b.High, vals[len(vals)-1]), append(b.Value, vals[len(vals)/2])
		}
		out = append([]Curve{b}, out...)
	}
	return out
}

// maxOdd is how many curves may stand apart from the band.
const maxOdd = 6

func utilisationLane(r *Report) (Lane, bool) { return lane(r, laneSpecs[0]) }

func timeLineSection(r *Report) (Section, bool) {
	s := Section{ID: "timeline", Title: "Time line", Lead: "Sampled readings above, traced time below, one axis. In the ledger rows area is time: at any zoom, ink of an owner is the time it held."}
	t := TimeLine{EndS: float64(r.Window.DurNS) / sec}
	seen := map[string]bool{}
	for i := range r.Ledger {
		for o, ns := range r.Ledger[i].Owners {
			if ns > 0 {
				seen[o] = true
			}
		}
	}
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		if seen[o.String()] {
			t.Legend = append(t.Legend, o.String())
		}
	}
	// Readings of the GPU's work first, then what it worked at, then the network beside collectives.
	for _, sp := range slices.Concat(laneSpecs[:1], counterLanes[:3], laneSpecs[1:3], counterLanes[3:]) {
		l, ok := lane(r, sp)
		if !ok && slices.Contains(counterLanes, sp) {
			continue // seldom sampled: the checks that ask for it say how
		}
		if !ok {
			t.Missing = append(t.Missing, sp.title+": not recorded")
			continue
		}
		l.Hatch = throttled(r, sp.metric)
		t.Lanes = append(t.Lanes, l)
	}
	if !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.ID == "hw.xid" && (c.Outcome == "pass" || c.Outcome == "finding") }) {
		t.Missing = append(t.Missing, "Xid and kernel messages: not recorded")
	}
	t.Events = events(r)
	t.Dips = dipMarks(r)
	if len(r.Ledger) == 0 {
		t.NoTrace = "no trace: nobody can be named"
		if len(t.Lanes) == 0 {
			return Section{}, false
		}
		s.Lead = "Sampled readings only. Nothing here can name who held the GPU."
		s.Blocks = []Block{t}
		return s, true
	}
	steps := map[string][]StepBox{}
	for i := range r.Steps {
		st := &r.Steps[i]
		b := StepBox{Index: st.Index, StartS: float64(st.StartNS) / sec, DurS: float64(st.DurNS) / sec}
		for o := timeline.Owner(0); o < timeline.NOwners; o++ {
			if v := st.Owners[o.String()]; v > 0 && st.DurNS > 0 {
				b.Owners = append(b.Owners, int(o))
				b.Fracs = append(b.Fracs, round4(float64(v)/float64(st.DurNS)))
			}
		}
		steps[st.GPU] = append(steps[st.GPU], b)
	}
	boxes := map[string][]IntervalBox{}
	kept := 0
	for i := range r.Intervals {
		w := &r.Intervals[i]
		for _, row := range w.Rows {
			o, _ := timeline.ParseOwner(row.Owner)
			boxes[w.GPU] = append(boxes[w.GPU], IntervalBox{float64(row.StartNS) / sec, float64(row.DurNS) / sec, int(o)})
		}
		if w.Why != "whole window" {
			kept++
		}
		at := [2]float64{float64(w.StartNS) / sec, float64(w.StartNS+w.DurNS) / sec}
		switch w.Why {
		case "slowest step":
			t.SlowestStep = at
		case "median step":
			t.MedianStep = at
		}
	}
	var lo, hi float64 = -1, 0
	rows, others := drawn(r)
	for _, i := range rows {
		l := &r.Ledger[i]
		row := GPURow{ID: l.GPU, Name: gpuLabel(r, l.GPU), Steps: steps[l.GPU], Intervals: boxes[l.GPU]}
		sort.SliceStable(row.Intervals, func(a, b int) bool { return row.Intervals[a].StartS < row.Intervals[b].StartS })
		row.Intervals = dedupe(row.Intervals)
		if l.Rank != nil && r.Verdict.CulpritRank != nil && *l.Rank == *r.Verdict.CulpritRank {
			row.Late, row.Name = true, row.Name+": late"
		}
		if len(row.Steps) == 0 { // no steps: the window as one box
			b := StepBox{Index: -1, StartS: float64(l.StartNS) / sec, DurS: float64(l.WindowNS) / sec}
			for o := timeline.Owner(0); o < timeline.NOwners; o++ {
				if v := l.Owners[o.String()]; v > 0 && l.WindowNS > 0 {
					b.Owners = append(b.Owners, int(o))
					b.Fracs = append(b.Fracs, round4(float64(v)/float64(l.WindowNS)))
				}
			}
			row.Steps = []StepBox{b}
		}
		t.Rows = append(t.Rows, row)
		s0, e0 := float64(l.StartNS)/sec, float64(l.StartNS+l.WindowNS)/sec
		if lo < 0 || s0 < lo {
			lo = s0
		}
		hi = max(hi, e0)
	}
	n := 0
	for i := range r.Ledger {
		n = max(n, r.Ledger[i].Steps)
	}
	if n > 1 {
		t.Note = fmt.Sprintf("Intervals are kept for the slowest, the median and the first of %s steps and for the largest dips; elsewhere zoom stops at steps.", Count(int64(n)))
	}
	if len(others) > 0 {
		t.Note += fmt.Sprintf(" %d of %d GPUs are drawn: those to blame, the extremes of each owner and a typical one.", len(rows), len(r.Ledger))
	}
	// The axis is as long as what is drawn: a recording may begin long before the trace and its readings.
	if from, to := lanesExtent(t.Lanes); to > from {
		lo, hi = min(lo, from), max(hi, to)
	}
	for _, e := range t.Events {
		lo, hi = min(lo, e.StartS), max(hi, e.EndS)
	}
	t.StartS, t.EndS = max(lo, 0), min(hi, t.EndS)
	s.Blocks = []Block{t}
	return s, true
}

// lanesExtent is from the first to the last reading, with the window that the first covers; both 0 without readings.
func lanesExtent(lanes []Lane) (from, to float64) {
	none := true
	for i := range lanes {
		for _, c := range lanes[i].Curves {
			n := len(c.AtS)
			if n == 0 {
				continue
			}
			start := c.AtS[0]
			if lanes[i].Covers == "window" {
				start -= lanes[i].WindowS
			}
			if none {
				from, to, none = start, c.AtS[n-1], false
			}
			from, to = min(from, start), max(to, c.AtS[n-1])
		}
	}
	return from, to
}

func dipMarks(r *Report) []DipMark {
	var out []DipMark
	for i := range r.Dips {
		d := &r.Dips[i]
		o, _ := holder(d)
		out = append(out, DipMark{ID: d.ID, StartS: float64(d.StartNS) / sec, EndS: float64(d.StartNS+d.DurNS) / sec, Owner: o, Label: strings.ToUpper(d.ID)})
	}
	return out
}

func round4(f float64) float64 { return float64(int64(f*1e4+0.5)) / 1e4 }

// dedupe drops intervals that an earlier kept window already drew.
func dedupe(in []IntervalBox) []IntervalBox {
	var out []IntervalBox
	end := -1.0
	for _, b := range in {
		if b.StartS+1e-12 < end {
			if b.StartS+b.DurS <= end+1e-12 {
				continue
			}
			b.DurS -= end - b.StartS
			b.StartS = end
		}
		out = append(out, b)
		end = b.StartS + b.DurS
	}
	return out
}

// reasons that cost speed, in the order in which a label names them.
var reasons = []struct {
	bit  uint64
	name string
}{{0x40, "HW thermal"}, {0x80, "power brake"}, {0x20, "SW thermal"}, {0x8, "HW slowdown"}, {0x4, "SW power cap"}}

// throttled gives the stretches in which clock event reasons that cost speed were active. Reasons that flicker are one stretch: it ends
// when none was active for longer than a tenth of the log or ten readings.
func throttled(r *Report, metric string) []Event {
	if metric != "clock_sm_hz" {
		return nil
	}
	var costly uint64
	for _, x := range reasons {
		costly |= x.bit
	}
	var out []Event
	for i := range r.Series {
		s := &r.Series[i]
		n := len(s.AtNS)
		if s.Metric != "clock_reasons" || n < 2 {
			continue
		}
		span := s.AtNS[n-1] - s.AtNS[0]
		pause := max(span/10, 10*span/int64(n))
		open, last, seen, active, all := -1, -1, uint64(0), 0, 0
		flush := func() {
			if open >= 0 {
				var names []string
				for _, x := range reasons {
					if x.bit == 0x8 && seen&0xc0 != 0 {
						continue // it only says that one of the two named before is on
					}
					if seen&x.bit != 0 {
						names = append(names, x.name)
					}
				}
				label := strings.Join(names, ", ") + ", " + subjectName(r, s.Subject)
				if active*10 < all*9 {
					label += fmt.Sprintf(", in %s of its readings", Pct(float64(active)/float64(all)))
				}
				out = append(out, Event{StartS: float64(s.AtNS[open]) / sec, EndS: float64(s.AtNS[min(last+1, n-1)]) / sec, Label: label})
			}
			open, seen, active, all = -1, 0, 0, 0
		}
		for k, v := range s.Value {
			bits := uint64(v) & costly
			if open >= 0 && s.AtNS[k]-s.AtNS[last] > pause {
				flush()
			}
			if bits != 0 {
				if open < 0 {
					open = k
				} else {
					all += k - last - 1
				}
				seen |= bits
				active++
				all++
				last = k
			}
		}
		flush()
	}
	if len(out) > 40 {
		out = out[:40]
	}
	return out
}

// events are the interruptions of the ledger, one a step and kind.
func events(r *Report) []Event {
	var out []Event
	type key struct {
		owner string
		index int64
	}
	at := map[key]int{}
	for i := range r.Steps {
		st := &r.Steps[i]
		for _, o := range []string{"host.checkpoint", "host.validation", "host.logging"} {
			ns := st.Owners[o]
			if st.DurNS == 0 || ns*20 < st.DurNS {
				continue
			}
			k := key{o, st.Index}
			if _, ok := at[k]; ok {
				continue
			}
			at[k] = len(out)
			own, _ := timeline.ParseOwner(o)
			out = append(out, Event{StartS: float64(st.StartNS) / sec, EndS: float64(st.StartNS+st.DurNS) / sec, Owner: o,
				Label: fmt.Sprintf("%s, step %d", OwnerWord(own), st.Index)})
		}
	}
	for i := range r.Events {
		if e := &r.Events[i]; e.AtNS != nil && *e.AtNS >= 0 && *e.AtNS <= r.Window.DurNS && e.Kind != "other" {
			at := float64(*e.AtNS) / sec
			out = append(out, Event{StartS: at, EndS: at, Label: eventWord(e) + ", " + subjectWord(r, e.Subject)})
		}
	}
	out = append(out, throttled(r, "clock_sm_hz")...)
	if len(out) > 60 {
		out = out[:60]
	}
	return out
}
