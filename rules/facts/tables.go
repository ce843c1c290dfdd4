package facts

import (
	"cmp"
	"slices"
	"sort"

	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

// KernelsKept is how many kernels of a GPU its table names; the rest is one row that closes the sum.
const KernelsKept = 200

// Others names the row that closes a kernel table.
const Others = "(others)"

// KernelLine is one kernel of one GPU inside its analysed window.
type KernelLine struct {
	GPU        string // gpu0, gpu1, ...
	Rank       int    // number of the rank, -1 unknown
	Name       string // Others for the closing row
	Class      string // as timeline.KernelRow.Class; "" for the closing row
	Op         string // operator that launched most of it; "" unknown
	DType      string // "" unknown
	Count      int64
	Dur        int64 // ns, sum of durations
	Median     int64 // ns; 0 for the closing row
	TensorCore int8  // 1 yes, 0 cannot be told, -1 no

	// By the recorded shapes of the operators that launched it; 0 unknown.
	Shaped         int64   // ns, of Dur: whose work is known
	FlopRate       float64 // FLOP/s over Shaped
	ByteRate       float64 // bytes/s over Shaped: inputs and output once
	OfPeak         float64 // FlopRate out of the part's peak for the type, at the clock it ran
	OfBW, PartRate float64 // ByteRate out of the part's memory bandwidth, and that, bytes/s
	WorkType       string  // whose peak it is
	Shapes         bool    // shapes were recorded at all
}

// KernelTable gives the longest kernels of each GPU of the job in its order, longest first, then by name and class; at most keep a GPU and,
// if there are more, one row Others. The rows' counts and durations sum to those of all kernels of the GPU's window.
func KernelTable(in *Input, keep int) []KernelLine {
	var out []KernelLine
	pass, cards := &Pass{Input: in}, tracedCards(in)
	for i := range in.Job.GPUs {
		out = append(out, pass.kernelLines(i, keep, cards)...)
	}
	return out
}

// tracedCards are the cards that traces tell of, by their ledger.
func tracedCards(in *Input) map[*timeline.GPULedger]*Card {
	out, all := map[*timeline.GPULedger]*Card{}, Cards(in)
	for i := range all {
		if g := all[i].Trace; g >= 0 {
			ref := in.Job.GPUs[g]
			out[&in.Job.Ranks[ref.Rank].GPUs[ref.GPU]] = &all[i]
		}
	}
	return out
}

func (p *Pass) kernelLines(i, keep int, cards map[*timeline.GPULedger]*Card) []KernelLine {
	ref := p.Job.GPUs[i]
	r := p.Job.Ranks[ref.Rank]
	g := &r.GPUs[ref.GPU]
	rows := slices.Clone(g.Kernels)
	slices.SortStableFunc(rows, func(a, b timeline.KernelRow) int {
		return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Class, b.Class))
	})
	var m ledger.GPUMatch
	known, clock := false, 1.0
	if c := cards[g]; c != nil {
		var why string
		if m, why = p.part(c, g); why == "" {
			known = true
			clock, _ = p.clockRatio(c, m.GPU)
		}
	}
	var out []KernelLine
	rest := KernelLine{GPU: ref.ID, Rank: r.Process.Rank, Name: Others}
	for n, k := range rows {
		if n >= keep {
			rest.Count += k.Count
			rest.Dur += k.Dur
			continue
		}
		out = append(out, KernelLine{GPU: ref.ID, Rank: r.Process.Rank, Name: k.Name, Class: k.Class, Op: k.Op, DType: k.DType,
			Count: k.Count, Dur: k.Dur, Median: k.Median, TensorCore: k.TensorCore, Shaped: k.Shaped, Shapes: r.Rank.Shapes})
		if k.Shaped <= 0 {
			continue
		}
		l := &out[len(out)-1]
		s := float64(k.Shaped) / 1e9
		l.FlopRate, l.ByteRate, l.WorkType = k.FLOP/s, k.Bytes/s, k.WorkType
		if k.FLOP > 0 {
			l.WorkType = matmulType(&timeline.MatmulRow{DType: k.WorkType, TensorCore: k.TensorCore}, g.Device.Vendor)
		}
		if !known {
			continue
		}
		l.PartRate = m.GPU.BW * m.BWFrac
		if l.PartRate > 0 {
			l.OfBW = l.ByteRate / l.PartRate
		}
		if peak := m.GPU.Peak(l.WorkType) * m.SMFrac * clock; k.FLOP > 0 && peak > 0 {
			if l.OfPeak = l.FlopRate / peak; l.OfPeak > wrongTable { // the row or the type is wrong
				l.OfPeak = 0
			}
		}
	}
	if len(rows) > keep {
		out = append(out, rest)
	}
	return out
}

// CollectiveLine is all collectives of one rank that share group, primitive and size, inside its analysed window.
// Dur = Transfer + PeerWait + Undivided, exactly.
type CollectiveLine struct {
	Pos       int    // position of the rank in Job.Ranks
	Rank      int    // its number, -1 unknown
	Group     string // process group, "" unknown
	Primitive string // all-reduce, all-gather, ...
	Bytes     int64  // payload by the busbw convention, -1 unknown
	Ranks     int    // ranks of the group, 0 unknown
	Count     int64
	Dur       int64 // ns, sum of the kernels' durations
	Transfer  int64 // ns after every rank had arrived, of those that could be divided
	PeerWait  int64 // ns before the last rank had arrived, of those that could be divided
	Undivided int64 // ns of those that could not
	Exposed   int64 // ns in which the GPU did nothing else
	Split     Confidence
	BusBW     float64 // bytes per second over Transfer; 0: size, group or division is not known
	AlgBW     float64 // the same without the factor of busbw: payload over Transfer
	Expected  float64 // busbw that a healthy collective of this size reaches here; 0 not known
	Small     bool    // its time is latency: the size is too small to judge a link by
	Across    int8    // 1 its ranks sit on several hosts, -1 on one, 0 not known
}

// CollectiveTable gives the collectives of every rank: ranks in the job's order, then longest first, then by group, primitive, size.
func CollectiveTable(in *Input) []CollectiveLine {
	type key struct {
		group, primitive string
		bytes            int64
		ranks            int
	}
	var out []CollectiveLine
	pass, hosts, cards := &Pass{Input: in}, newHostMap(in.Job), tracedCards(in)
	for pos, r := range in.Job.Ranks {
		at := map[key]int{}
		first := len(out)
		var moved []int64 // bytes of the divided ones, by line
		for i := range r.Collectives {
			c := &r.Collectives[i]
			if !inWindow(r, c) {
				continue
			}
			k := key{c.Group, c.Primitive, c.Bytes, c.GroupSize}
			n, ok := at[k]
			if !ok {
				n = len(out)
				at[k] = n
				out = append(out, CollectiveLine{Pos: pos, Rank: r.Process.Rank, Group: c.Group, Primitive: c.Primitive, Bytes: c.Bytes,
					Ranks: c.GroupSize, Split: c.Split})
				moved = append(moved, 0)
				one, sure := hosts.one(r, c)
				switch {
				case one:
					out[n].Across = -1
				case sure == timeline.Measured:
					out[n].Across = 1
				}
				if g := &r.GPUs[c.GPU]; cards[g] != nil && c.GroupSize > 1 {
					w := pass.expected(cards[g], g, r, c, one)
					out[n].Expected, out[n].Small = w.rate, w.small || c.Bytes >= 0 && c.Bytes < judgedBytes
				}
			}
			l := &out[n]
			dur := int64(c.End - c.Start)
			l.Count++
			l.Dur += dur
			l.Exposed += c.ExposedNS
			l.Split = min(l.Split, c.Split)
			if c.Split == timeline.NoConfidence {
				l.Undivided += dur
				continue
			}
			// Whatever the division left over by rounding is transfer, so that the line closes.
			wait := min(max(c.PeerWaitNS, 0), dur)
			l.PeerWait += wait
			l.Transfer += dur - wait
			moved[n-first] += max(c.Bytes, 0)
		}
		lines := out[first:]
		for i := range lines {
			if f, ok := linkTables(in).BusFactor(lines[i].Primitive, lines[i].Ranks); ok && lines[i].Ranks > 1 && moved[i] > 0 && lines[i].Transfer > 0 {
				lines[i].AlgBW = float64(moved[i]) / (float64(lines[i].Transfer) / 1e9)
				lines[i].BusBW = f * lines[i].AlgBW
			}
		}
		sort.SliceStable(lines, func(i, j int) bool {
			a, b := &lines[i], &lines[j]
			return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Primitive, b.Primitive),
				cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Ranks, b.Ranks)) < 0
		})
	}
	return out
}

// CopyLine is all copies of one GPU of one direction and memory kind inside its analysed window.
type CopyLine struct {
	GPU     string
	Rank    int
	Kind    string // h2d, d2h, d2d, p2p, h2h, unknown
	Memory  string // of the host's side: pageable, pinned, device, managed, unknown
	Count   int64
	Bytes   int64
	Dur     int64   // ns, sum of durations
	Exposed int64   // ns of the ledger that copies of this line own
	BW      float64 // bytes per second of those of at least 1 MiB; 0 none
}

// CopyTable gives the copies of every GPU in report order, longest first, then by direction and memory.
func CopyTable(in *Input) []CopyLine {
	var out []CopyLine
	for _, ref := range in.Job.GPUs {
		r := in.Job.Ranks[ref.Rank]
		first := len(out)
		for _, c := range r.GPUs[ref.GPU].Copies {
			line := CopyLine{GPU: ref.ID, Rank: r.Process.Rank, Kind: copyKindName(c.Kind), Memory: memKindName(c.Memory),
				Count: c.Count, Bytes: c.Bytes, Dur: c.Dur, Exposed: c.Exposed}
			if c.BigDur > 0 {
				line.BW = float64(c.BigBytes) / (float64(c.BigDur) / 1e9)
			}
			out = append(out, line)
		}
		lines := out[first:]
		sort.SliceStable(lines, func(i, j int) bool {
			a, b := &lines[i], &lines[j]
			return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Memory, b.Memory)) < 0
		})
	}
	return out
}

func copyKindName(k timeline.CopyKind) string {
	switch k {
	case timeline.DirH2D:
		return "h2d"
	case timeline.DirD2H:
		return "d2h"
	case timeline.DirD2D:
		return "d2d"
	case timeline.DirP2P:
		return "p2p"
	case timeline.DirH2H:
		return "h2h"
	}
	return "unknown"
}

func memKindName(k timeline.MemKind) string {
	switch k {
	case timeline.MemPageable:
		return "pageable"
	case timeline.MemPinned:
		return "pinned"
	case timeline.MemDevice:
		return "device"
	case timeline.MemManaged:
		return "managed"
	}
	return "unknown"
}

// inWindow tells whether a collective began inside the analysed window of its GPU.
func inWindow(r *timeline.Reduced, c *timeline.Collective) bool {
	w := r.GPUs[c.GPU].Window
	return c.Start >= w.Start && c.Start < w.End
}

// rowRefs gives the first rows of a trace in file order, and how many there are.
func rowRefs(r *timeline.Reduced, rows []uint32) ([]Ref, int) {
	s := slices.Clone(rows)
	slices.Sort(s)
	s = slices.Compact(s)
	var out []Ref
	for _, row := range s[:min(len(s), maxRefs)] {
		out = append(out, traceRef(r.Path, row))
	}
	return out, len(s)
}

// noLedger says why a GPU has no ledger to judge.
func noLedger(g *timeline.GPULedger) string {
	if g == nil {
		return noTrace
	}
	return "the trace holds no device operation in its window"
}
