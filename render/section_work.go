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
	MemoryBound  *float64 `json:"memory_bound_frac"`
	MFUOf        *string  `json:"mfu_of"`
	RoofOf       *string  `json:"roofline_of"`
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
			{"gpu.memory_bound_frac", &w.MemoryBound},
		} {
			if v, need := b.in.Facts.Get(sub, f.id); need == nil {
				n := v.Num
				*f.to, known = &n, true
			}
		}
		for id, to := range map[facts.ID]**string{"gpu.mfu_says": &w.MFUOf, "gpu.roofline_says": &w.RoofOf} {
			if v, need := b.in.Facts.Get(sub, id); need == nil {
				*to = &v.Text
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
	// What all GPUs of which it is known say, else other words for it.
	same := func(of func(w *Work) *string, other string) string {
		s := ""
		for i := range r.GPUs {
			if w := r.GPUs[i].Work; w != nil && of(w) != nil {
				if s != "" && s != *of(w) {
					return other
				}
				s = *of(w)
			}
		}
		if s == "" {
			return other
		}
		return s
	}
	var out []string
	if rate, ok := mean(func(w *Work) *float64 { return w.FlopRate }); ok {
		s := fmt.Sprintf("Products, convolutions and attention of known shapes did %s\u00a0TFLOP/s over the window", digits(rate/1e12, 3, "\u202f"))
		if step, ok := mean(func(w *Work) *float64 { return w.FlopStep }); ok {
			s += fmt.Sprintf(", %s\u00a0TFLOP a step", digits(step/1e12, 3, "\u202f"))
		}
		if mfu, ok := mean(func(w *Work) *float64 { return w.MFU }); ok {
			s += ": " + Pct1(mfu) + " (MFU) of " + same(func(w *Work) *string { return w.MFUOf }, "each part’s peak for their type")
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
		if t, ok := mean(func(w *Work) *float64 { return w.MemoryBound }); ok {
			s += ", and memory bounds " + Pct1(t) + " of them"
		}
		if of := same(func(w *Work) *string { return w.RoofOf }, ""); of != "" {
			s += ". These rates: " + of
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

// kernelRoof is what a kernel did of what the part can do, over the GPUs that ran it.
type kernelRoof struct {
	shaped, peaked, moved     int64 // ns
	flop, bytes, peak, memory float64
	shapes                    bool
	kind                      string
}

func (w *kernelRoof) add(k *Kernel) {
	if k.ShapedNS == nil {
		return
	}
	w.shapes = true
	w.shaped += *k.ShapedNS
	ns := float64(*k.ShapedNS)
	if k.FlopRate != nil {
		w.flop += *k.FlopRate * ns
	}
	if k.ByteRate != nil {
		w.bytes += *k.ByteRate * ns
	}
	if k.OfPeak != nil {
		w.peak, w.peaked = w.peak+*k.OfPeak*ns, w.peaked+*k.ShapedNS
	}
	if k.OfMemory != nil {
		w.memory, w.moved = w.memory+*k.OfMemory*ns, w.moved+*k.ShapedNS
	}
	if k.Type != nil {
		w.kind = *k.Type
	}
}

// cell says how near the kernel is to what bounds it, arithmetic or memory, whichever it is nearer to; dur is all its time.
func (w *kernelRoof) cell(class string, dur int64) Cell {
	switch {
	case class == "comm" || class == "memset":
		return Cell{Text: "–", Weak: true, Title: "it does no work of the model"}
	case !w.shapes:
		return Cell{Text: "unknown", Dashed: true, Title: "the shapes of its inputs were not recorded"}
	case 2*w.shaped < dur:
		return Cell{Text: "no\u00a0model", Weak: true, Title: "the recorded shapes do not say what it did"}
	}
	rate, moved := w.flop/float64(w.shaped), w.bytes/float64(w.shaped)
	peak, memory := 0.0, 0.0
	if w.peaked > 0 {
		peak = w.peak / float64(w.peaked)
	}
	if w.moved > 0 {
		memory = w.memory / float64(w.moved)
	}
	title := digits(moved/1e9, 3, "\u202f") + "\u00a0GB/s of memory, inputs and output once"
	if rate > 0 {
		title = strings.TrimSpace(digits(rate/1e12, 3, "\u202f")+"\u00a0TFLOP/s "+w.kind) + "; " + title
	}
	switch {
	case peak == 0 && memory == 0 && rate > 0:
		return Cell{Text: digits(rate/1e12, 3, "\u202f") + "\u00a0TFLOP/s", Title: title + "; the part’s peak is not known"}
	case peak == 0 && memory == 0:
		return Cell{Text: digits(moved/1e9, 3, "\u202f") + "\u00a0GB/s", Title: title + "; the part’s bandwidth is not known"}
	case peak >= memory:
		return Cell{Text: Pct1(peak) + "\u00a0of\u00a0peak", Title: title}
	case memory > fromCache:
		return Cell{Text: "from\u00a0cache", Weak: true, Title: title + ", more than memory gives"}
	default:
		return Cell{Text: digits(moved/1e12, 2, "\u202f") + "\u00a0of\u00a0" + digits(moved/memory/1e12, 3, "\u202f") + "\u00a0TB/s", Title: title}
	}
}

// AgainstPart says in words how near a kernel is to what bounds it on its GPU, or why that is not known.
func AgainstPart(k *Kernel) string {
	var w kernelRoof
	w.add(k)
	c := w.cell(k.Class, k.DurNS)
	text := c.Text
	if c.Dashed || c.Weak {
		text += ": " + c.Title
	}
	return strings.NewReplacer("\u00a0", " ", "\u202f", "").Replace(text)
}

// fromCache is the share of memory's bandwidth above which a kernel found its inputs in the cache.
const fromCache = 1.02
