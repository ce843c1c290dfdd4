package render

import (
	"cmp"
	"fmt"
	"slices"

	"gpureport/ingest/timeline"
	"gpureport/rules/facts"
)

// Summary is a table of sums that a profiler made of a recording, without a time axis: shown where no trace gives a ledger.
type Summary struct {
	What string       `json:"what"` // kernels, copies_time, copies_size, calls, ranges, os_waits, other
	Path string       `json:"path"`
	Rows []SummaryRow `json:"rows"` // longest first; at most 200
	Left int          `json:"left"` // rows that are not listed
	More int          `json:"more"` // tables of the same kind of other recordings, not shown
}

// SummaryRow is one name of a summary. Null is what the table does not say.
type SummaryRow struct {
	Name     string `json:"name"`
	Class    string `json:"class"` // of kernels and calls their class, of copies their direction; "" none
	Count    *int64 `json:"count"`
	Sum      int64  `json:"sum"` // ns, or bytes of copies_size; what ran at once is added up
	Median   *int64 `json:"median"`
	Tensor   *bool  `json:"tensor_core"`
	TotalSum int64  `json:"-"` // of the whole table
}

var summaryWords = [...]string{timeline.TotalOther: "other", timeline.TotalKernels: "kernels", timeline.TotalCopyTime: "copies_time", timeline.TotalCopySize: "copies_size",
	timeline.TotalCalls: "calls", timeline.TotalRanges: "ranges", timeline.TotalOSWaits: "os_waits"}

func (b *builder) summaries() {
	for _, t := range facts.Summaries(b.in.In) {
		s := Summary{What: summaryWords[t.What], Path: t.Path, More: t.More, Rows: []SummaryRow{}}
		rows := slices.Clone(t.Rows)
		slices.SortStableFunc(rows, func(x, y facts.SummaryLine) int { return cmp.Compare(y.Sum, x.Sum) })
		var total int64
		for i := range rows {
			total += min(rows[i].Sum, 1e18-total)
		}
		for i := range rows {
			if i == maxKernels {
				s.Left = len(rows) - i
				break
			}
			l := &rows[i]
			row := SummaryRow{Name: clean(l.Name), Class: l.Class, Sum: l.Sum, TotalSum: total}
			if l.Count >= 0 {
				n := l.Count
				row.Count = &n
			}
			if l.Median >= 0 {
				n := l.Median
				row.Median = &n
			}
			if l.TensorCore != 0 {
				v := l.TensorCore > 0
				row.Tensor = &v
			}
			s.Rows = append(s.Rows, row)
		}
		b.r.Summaries = append(b.r.Summaries, s)
	}
}

// summarySentence says what sums show, which is never who held the time; "" where there are none.
func (b *builder) summarySentence(run int) string {
	get := func(id facts.ID) (float64, bool) {
		v, need := b.in.Facts.Get(run, id)
		return v.Num, need == nil
	}
	if only, _ := get("run.summary_flag"); only == 0 {
		return ""
	}
	const head = "Sums without a time axis cannot say who held the time"
	if s, ok := get("run.summary_kernels_s"); ok && s == 0 {
		return sentence(head + ", and they list no kernel time")
	} else if ok {
		best, share := "", 0.0
		for _, c := range []struct {
			id   facts.ID
			what string
		}{{"matmul", "matrix products"}, {"conv", "convolutions"}, {"attention", "fused attention"}, {"elementwise", "elementwise kernels"}, {"reduce_norm", "reductions and norms"},
			{"optimizer", "the optimizer"}, {"copy_kernels", "copies and casts"}, {"comm", "collectives"}, {"unclassified", "kernels of no known class"}} {
			if v, _ := get("run.summary_" + c.id + "_frac"); v > share {
				best, share = c.what, v
			}
		}
		out := fmt.Sprintf("%s; of %s of kernel time %s went to %s", head, Dur(s*1e9, 3), Pct(share), best)
		if tc, ok := get("run.summary_tc_unused_frac"); ok && tc >= 0.05 {
			out += fmt.Sprintf(", and products without tensor cores hold %s", Pct(tc))
		}
		return sentence(out)
	}
	if s, ok := get("run.summary_calls_s"); ok {
		sync, _ := get("run.summary_sync_frac")
		return sentence(fmt.Sprintf("%s; of %s of host time in CUDA calls %s was waiting for the GPU", head, Dur(s*1e9, 3), Pct(sync)))
	}
	return sentence(head + ", and no summary of kernels or calls is among them")
}

// sumOwners lends bars the hue of the owner that such work would have in a ledger.
var sumOwners = map[string]string{"comm": "comm.transfer", "h2d": "copy.h2d", "d2h": "copy.d2h", "sync": "host.sync", "launch": "host.launch", "alloc": "host.allocator", "module": "host.compile"}

// shownSums is how many rows of a summary are shown before "Show".
const shownSums = 20

// summaryTable draws one table of sums.
func summaryTable(s *Summary) Table {
	title := map[string]string{"kernels": "Kernels, by sums", "copies_time": "Copies, time by sums", "copies_size": "Copies, bytes by sums", "calls": "CUDA calls of the host, by sums",
		"ranges": "NVTX ranges of the host, by sums", "os_waits": "Blocking calls of the system, by sums", "other": "Other sums"}[s.What]
	t := Table{ID: "sum-" + s.What, Title: title, Shown: shownSums, Lead: "From " + s.Path + "."}
	var most, total int64 = 1, 1
	for i := range s.Rows {
		most, total = max(most, s.Rows[i].Sum), max(total, s.Rows[i].TotalSum)
	}
	unit, per := "ms", 1e6
	if most < 0.1e6 {
		unit, per = "µs", 1e3
	}
	switch s.What {
	case "copies_size":
		unit, per = "MB", 1e6
		t.Lead += " Sizes as printed, rounded to a kilobyte."
	case "ranges":
		t.Lead += " Ranges nest: their sums hold each other’s time and are not to be added."
	case "os_waits":
		t.Lead += " Summed over all threads, most of which only sleep: long sums here are normal."
	}
	if s.More > 0 {
		t.Lead += fmt.Sprintf(" %s more of this kind, of other recordings, %s not shown.", NumberWord(s.More), Plural(s.More, "is", "are"))
	}
	classed := s.What == "kernels" || s.What == "calls"
	t.Columns = []Column{{Title: "Name", Wide: true}}
	if classed {
		t.Columns = append(t.Columns, Column{Title: "Class", More: true})
	}
	t.Columns = append(t.Columns, Column{Title: "Times", Num: true, More: true}, Column{Title: "Median, " + map[bool]string{true: "MB", false: "µs"}[unit == "MB"], Num: true, More: true}, Column{Title: unit, Num: true},
		Column{Title: "", Bar: true, Wide: true, More: true}, Column{Title: "Share of the rows", Num: true})
	if s.What == "kernels" {
		t.Columns = append(t.Columns, Column{Title: "Tensor cores", More: true})
	}
	step := pow10for(float64(most) / per)
	for i := range s.Rows {
		x := &s.Rows[i]
		name := Middle(x.Name, 64)
		if s.What == "kernels" {
			name = KernelName(x.Name)
		}
		cells := []Cell{{Text: name, Title: x.Name}}
		if classed {
			cells = append(cells, Cell{Text: x.Class, Weak: true})
		}
		count, med := Cell{Text: "–", Weak: true}, Cell{Text: "–", Weak: true}
		if x.Count != nil {
			count = Cell{Text: Count(*x.Count)}
		}
		if x.Median != nil {
			div := 1e3
			if unit == "MB" {
				div = 1e6
			}
			med = Cell{Text: digits(float64(*x.Median)/div, 3, "\u202f")}
		}
		bar := sumOwners[x.Class]
		if s.What == "kernels" && x.Class != "comm" {
			bar = "compute"
		}
		cells = append(cells, count, med, Cell{Text: aligned(float64(x.Sum)/per, step)}, Cell{Bar: float64(x.Sum) / float64(most), BarOwner: bar}, Cell{Text: Pct1(float64(x.Sum) / float64(total))})
		if s.What == "kernels" {
			tc := Cell{Text: "–", Weak: true, Title: "not a matrix kernel"}
			if x.Tensor != nil {
				tc = Cell{Text: map[bool]string{true: "yes", false: "no"}[*x.Tensor]}
			} else if x.Class == "matmul" || x.Class == "conv" {
				tc = Cell{Text: "unknown", Dashed: true}
			}
			cells = append(cells, tc)
		}
		t.Rows = append(t.Rows, Row{Cells: cells})
	}
	if s.Left > 0 {
		t.Foot = fmt.Sprintf("%s shorter rows are not listed.", Count(int64(s.Left)))
	}
	return t
}

// summarySection shows a profiler's sums in the place of the kernels of a ledger.
func summarySection(r *Report) (Section, bool) {
	if len(r.Summaries) == 0 {
		return Section{}, false
	}
	s := Section{ID: "kernels", Title: "Kernels", Lead: "Sums over the whole recording, warm-up included. What ran at once counts each; the shares are of the rows listed, not of the time that passed, so they say nothing about idleness."}
	for i := range r.Summaries {
		s.Blocks = append(s.Blocks, summaryTable(&r.Summaries[i]))
	}
	if r.Summaries[0].What != "kernels" {
		s.Title = "Sums"
	}
	return s, true
}
