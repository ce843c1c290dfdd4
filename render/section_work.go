package render

import (
	"fmt"
	"strings"

	"gpureport/rules/facts"
)

// Work is what a GPU's kernels did, by the shapes of their inputs; what is not known is left out.
type Work struct {
	Unclassified *float64 `json:"kernel_unclassified_frac"`
	MFU          *float64 `json:"mfu_frac"`
	FlopRate     *float64 `json:"achieved_flop_per_s"`
	FlopStep     *float64 `json:"step_flop_count"`
	FlopKnown    *float64 `json:"flop_known_frac"`
	Roofline     *float64 `json:"roofline_frac"`
	RoofTime     *float64 `json:"roofline_time_frac"`
}

// work takes what is known of each GPU's arithmetic from the facts.
func (b *builder) work() {
	for i, sub := range b.in.Facts.Of(facts.GPU) {
		if i >= len(b.r.GPUs) {
			return
		}
		w, known := &Work{}, false
		for _, f := range []struct {
			id facts.ID
			to **float64
		}{
			{"gpu.kernel_unclassified_frac", &w.Unclassified}, {"gpu.mfu_frac", &w.MFU}, {"gpu.achieved_flop_per_s", &w.FlopRate}, {"gpu.step_flop_count", &w.FlopStep},
			{"gpu.flop_known_frac", &w.FlopKnown}, {"gpu.roofline_frac", &w.Roofline}, {"gpu.roofline_time_frac", &w.RoofTime},
		} {
			if v, need := b.in.Facts.Get(sub, f.id); need == nil {
				n := v.Num
				*f.to, known = &n, true
			}
		}
		if known {
			b.r.GPUs[i].Work = w
		}
	}
}

// workLead says in the lead of the kernels what arithmetic they did, and how much of their time no class fits: means over the GPUs of
// which it is known.
func workLead(r *Report) string {
	mean := func(of func(w *Work) *float64) (float64, bool) {
		sum, n := 0.0, 0
		for i := range r.GPUs {
			if w := r.GPUs[i].Work; w != nil && of(w) != nil {
				sum += *of(w)
				n++
			}
		}
		return sum / float64(max(n, 1)), n > 0
	}
	var out []string
	if rate, ok := mean(func(w *Work) *float64 { return w.FlopRate }); ok {
		s := fmt.Sprintf("Products, convolutions and attention of known shapes did %s\u00a0TFLOP/s over the window", digits(rate/1e12, 3, "\u202f"))
		if step, ok := mean(func(w *Work) *float64 { return w.FlopStep }); ok {
			s += fmt.Sprintf(", %s\u00a0TFLOP a step", digits(step/1e12, 3, "\u202f"))
		}
		if mfu, ok := mean(func(w *Work) *float64 { return w.MFU }); ok {
			s += ": " + Pct1(mfu) + " of the part’s peak for their type (MFU)"
		}
		if known, ok := mean(func(w *Work) *float64 { return w.FlopKnown }); ok && known < 0.995 {
			s += "; shapes are known of " + Pct1(known) + " of their time, so it is at least that"
		}
		out = append(out, s+".")
	}
	if roof, ok := mean(func(w *Work) *float64 { return w.Roofline }); ok {
		s := "Operators of known shapes could take " + Pct1(roof) + " of their time at the rates that real kernels reach"
		if t, ok := mean(func(w *Work) *float64 { return w.RoofTime }); ok {
			s += "; they are " + Pct1(t) + " of kernel time"
		}
		out = append(out, s+".")
	}
	if other, ok := mean(func(w *Work) *float64 { return w.Unclassified }); ok && other > 0 {
		out = append(out, "Names of "+Pct1(other)+" of kernel time fit no class.")
	}
	if len(out) == 0 {
		return ""
	}
	return " " + strings.Join(out, " ")
}
