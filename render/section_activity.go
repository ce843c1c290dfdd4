package render

import (
	"fmt"
	"strings"

	"gpureport/rules/facts"
)

// Activity is what a GPU's kernels used of it, as its counters say: shares of the analysed window, and of the time in which it computed.
type Activity struct {
	SM              *float64 `json:"sm_active_frac"`
	SMComputing     *float64 `json:"sm_active_busy_frac"`
	Tensor          *float64 `json:"tensor_active_frac"`
	TensorComputing *float64 `json:"tensor_active_busy_frac"`
	DRAM            *float64 `json:"dram_active_frac"`
	DRAMComputing   *float64 `json:"dram_active_busy_frac"`
	Cover           *float64 `json:"counters_cover_frac"` // what of the window the readings cover
}

// activity takes the means of the counters from the facts; a GPU of which none is known has none.
func (b *builder) activity() {
	for i, sub := range b.in.Facts.Of(facts.GPU) {
		if i >= len(b.r.GPUs) {
			return
		}
		a := &Activity{}
		known := false
		for _, f := range []struct {
			id facts.ID
			to **float64
		}{
			{"gpu.sm_active_frac", &a.SM}, {"gpu.sm_active_busy_frac", &a.SMComputing}, {"gpu.tensor_active_frac", &a.Tensor}, {"gpu.tensor_active_busy_frac", &a.TensorComputing},
			{"gpu.dram_active_frac", &a.DRAM}, {"gpu.dram_active_busy_frac", &a.DRAMComputing},
		} {
			if v, need := b.in.Facts.Get(sub, f.id); need == nil {
				n := v.Num
				*f.to, known = &n, true
			}
		}
		if !known {
			continue
		}
		if v, need := b.in.Facts.Get(sub, "gpu.counters_cover_frac"); need == nil {
			n := v.Num
			a.Cover = &n
		}
		b.r.GPUs[i].Activity = a
	}
}

// activityTable has a row for each GPU whose counters were sampled.
func activityTable(r *Report) (Table, bool) {
	t := Table{ID: "activity-table", Title: "What kernels used of the card", Shown: 16, Columns: []Column{{Title: "GPU"}, {Title: "SMs in use while computing, %", Num: true},
		{Title: "Tensor cores busy, %", Num: true}, {Title: "Memory busy, %", Num: true}, {Title: "SMs over the window, %", Num: true, More: true}, {Title: "Tensor cores over the window, %", Num: true, More: true},
		{Title: "Memory over the window, %", Num: true, More: true}, {Title: "Readings cover", Num: true, More: true}},
		Foot: "Of what the hardware can at most. Memory reaches about 80 % in practice; tensor cores are busy only in products and attention. Readings with exposed collectives are left out while computing."}
	share := func(f *float64) Cell {
		if f == nil {
			return Cell{Text: "unknown", Weak: true, Dashed: true}
		}
		return Cell{Text: fmt.Sprintf("%.1f", 100**f)}
	}
	for i := range r.GPUs {
		a := r.GPUs[i].Activity
		if a == nil {
			continue
		}
		cover := Cell{Text: "unknown", Weak: true, Dashed: true}
		if a.Cover != nil {
			cover = Cell{Text: Pct(*a.Cover)}
		}
		t.Rows = append(t.Rows, Row{ID: "activity-" + r.GPUs[i].ID, Cells: []Cell{{Text: strings.Replace(gpuLabel(r, r.GPUs[i].ID), " ", nbsp, 1), Strong: true}, share(a.SMComputing), share(a.TensorComputing), share(a.DRAMComputing),
			share(a.SM), share(a.Tensor), share(a.DRAM), cover}})
	}
	return t, len(t.Rows) > 0
}
