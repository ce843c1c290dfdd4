package render

import (
	"fmt"
	"sort"

	"gpureport/ingest/timeline"
)

const (
	// drawnAll is how many GPUs are drawn a row each; of more, a choice.
	drawnAll = 16
	// drawnMost bounds that choice.
	drawnMost = 40
	// listed bounds tables of inputs, subjects and the like; the workbook has every row.
	listed = 64
)

// drawn chooses the ledger rows that are drawn: all of a few; of many those that are to blame, the two extremes of each owner and a typical
// one. The others are drawn as one row of means.
func drawn(r *Report) (rows []int, others []int) {
	if len(r.Ledger) <= drawnAll {
		for i := range r.Ledger {
			rows = append(rows, i)
		}
		return rows, nil
	}
	pick := map[int]bool{}
	typical, odd := typicalRows(r)
	pick[typical] = true
	if odd >= 0 {
		pick[odd] = true
	}
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		name := o.String()
		lo, hi := 0, 0
		for i := range r.Ledger {
			if share(r, i, name) < share(r, lo, name) {
				lo = i
			}
			if share(r, i, name) > share(r, hi, name) {
				hi = i
			}
		}
		if share(r, hi, name)-share(r, lo, name) >= 0.02 && len(pick)+2 <= drawnMost {
			pick[lo], pick[hi] = true, true
		}
	}
	for i := range r.Ledger {
		if pick[i] {
			rows = append(rows, i)
		} else {
			others = append(others, i)
		}
	}
	return rows, others
}

func share(r *Report, i int, owner string) float64 {
	l := &r.Ledger[i]
	if l.WindowNS == 0 {
		return 0
	}
	return float64(l.Owners[owner]) / float64(l.WindowNS)
}

// meanRow is the mean of some ledger rows: owners still sum to its window, but for rounding of less than a nanosecond each.
func meanRow(r *Report, rows []int) LedgerRow {
	out := LedgerRow{Owners: map[string]int64{}}
	n := int64(len(rows))
	for _, i := range rows {
		l := &r.Ledger[i]
		out.WindowNS += l.WindowNS
		out.Steps += l.Steps
		out.Side.HiddenComm += l.Side.HiddenComm
		for o, v := range l.Owners {
			out.Owners[o] += v
		}
	}
	out.WindowNS /= n
	out.Steps = int(int64(out.Steps) / n)
	out.Side.HiddenComm /= n
	for o := range out.Owners {
		out.Owners[o] /= n
	}
	out.Order = r.Ledger[rows[0]].Order
	return out
}

func othersName(n int) string { return fmt.Sprintf("%d others, mean", n) }

// capRows shortens a table to the listed rows and says so.
func capRows(t *Table, what string) {
	if n := len(t.Rows); n > listed {
		t.Rows = t.Rows[:listed]
		t.Foot = fmt.Sprintf("%d of %s %s; the workbook has all.", listed, Count(int64(n)), what)
	}
}

// worst orders positions by a value, largest first, and keeps n.
func worst(n, keep int, value func(int) float64) []int {
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	sort.SliceStable(idx, func(a, b int) bool { return value(idx[a]) > value(idx[b]) })
	return idx[:min(n, keep)]
}
