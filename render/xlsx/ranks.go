package xlsx

import (
	"github.com/xuri/excelize/v2"

	"gpureport/render"
)

func collectives(r *render.Report) *sheet {
	s := &sheet{name: "Collectives", table: "Collectives", none: "no collective was recorded", frozen: 2, columns: []column{{title: "Rank", kind: count}, {title: "Collective"}, {title: "Group"}, {title: "Message (bytes)", kind: count}, {title: "Calls", kind: count},
		{title: "Total (ms)", kind: ms}, {title: "Transfer (ms)", kind: ms}, {title: "Peer wait (ms)", kind: ms, bar: true}, {title: "Exposed (ms)", kind: ms}, {title: "Bus bandwidth (bytes/s)", kind: count}, {title: "Divided"},
		{title: "Group kind"}, {title: "Group members", kind: count}, {title: "Across hosts"}, {title: "Wait (% of total)", kind: share}, {title: "Transfer (% of total)", kind: share},
		{title: "Expected bus bandwidth (bytes/s)", kind: count}, {title: "Of expected (%)", kind: share}, {title: "Judged"}}}
	groups := map[string]*render.RankGroup{}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		row := []any{intOr(c.Rank), c.Primitive, c.Group, nil, c.Count, nsToMS(c.DurNS), nil, nil, nsToMS(c.ExposedNS), floatOr(c.BusBW), c.Split, nil, nil, nil, nil, nil, floatOr(c.Expected), nil, nil}
		if c.Bytes != nil {
			row[3] = *c.Bytes
		}
		if c.TransferNS != nil && c.PeerWaitNS != nil {
			row[6], row[7] = nsToMS(*c.TransferNS), nsToMS(*c.PeerWaitNS)
			if c.DurNS > 0 {
				row[14], row[15] = float64(*c.PeerWaitNS)/float64(c.DurNS), float64(*c.TransferNS)/float64(c.DurNS)
			}
		}
		g, ok := groups[c.Group]
		if !ok {
			g = r.GroupOf(c.Group)
			groups[c.Group] = g
		}
		if g != nil {
			if g.Kind != "" {
				row[11] = g.Kind
			}
			row[12] = intOr(g.Size)
		}
		if c.Across != nil {
			row[13] = map[bool]string{true: "yes", false: "no"}[*c.Across]
		}
		switch {
		case c.TooSmall:
			row[18] = "too small to judge"
		case c.BusBW == nil:
			row[18] = "no speed: size, group or division is not known"
		case c.Expected == nil || *c.Expected <= 0:
			row[18] = "no expected speed is known"
		default:
			row[17], row[18] = *c.BusBW / *c.Expected, "yes"
		}
		s.rows = append(s.rows, row)
	}
	return s
}

// ranks is one row a rank: when it came to the collectives, and what its first GPU's steps were spent on.
func ranks(r *render.Report) *sheet {
	s := &sheet{name: "Ranks", table: "Ranks", none: "no trace was given", frozen: 1, columns: []column{{title: "Rank", kind: count}, {title: "Host"}, {title: "GPU"}, {title: "Trace", width: 30}, {title: "Steps", kind: count},
		{title: "Late, median (ms)", kind: ms, bar: true}, {title: "Late: known or why not", width: 24}, {title: "Last to arrive (% of steps)", kind: share}, {title: "Last to arrive (steps)", kind: count},
		{title: "Clock offset (ms)", kind: ms}, {title: "Clock error (ms)", kind: ms}, {title: "Clock", width: 30}}}
	owners := ownerColumns(r)
	first := len(s.columns)
	for _, o := range owners {
		s.columns = append(s.columns, column{title: o + " (ms a step)", kind: ms, bar: o == "comm.peer-wait" || o == "host.dataloader"})
	}
	same := func(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	// Rows of lateness and of step marks are of the same ranks in the same order, where there is lateness at all.
	late := r.Lateness.Rows
	if len(late) != len(r.StepMarks) {
		late = nil
	}
	byRank := map[int]*render.LedgerRow{}
	for i := len(r.Ledger) - 1; i >= 0; i-- {
		if l := &r.Ledger[i]; l.Rank != nil {
			byRank[*l.Rank] = l
		}
	}
	hosts := map[int]*render.RankHost{}
	for i := range r.Hosts {
		for _, n := range r.Hosts[i].Ranks {
			hosts[n] = &r.Hosts[i]
		}
	}
	names := map[string]string{}
	for i := range r.GPUs {
		if h := r.GPUs[i].Host; h != nil {
			names[r.GPUs[i].ID] = *h
		}
	}
	known := 0
	for i := range r.StepMarks {
		m := &r.StepMarks[i]
		row := make([]any, len(s.columns))
		row[0], row[3], row[4], row[6] = intOr(m.Rank), m.Path, m.Steps, "no collective is shared by all ranks"
		if late != nil && same(late[i].Rank, m.Rank) {
			l := &late[i]
			if l.Host != "" {
				row[1] = l.Host
			}
			if l.GPU != "" {
				row[2] = l.GPU
			}
			row[7], row[8] = floatOr(l.LastFrac), l.Last
			if l.MedianNS != nil {
				row[5], row[6] = nsToMS(*l.MedianNS), "known"
				if *l.MedianNS <= r.Lateness.ErrorNS {
					row[6] = "within the clocks’ error"
				}
				known++
			} else {
				row[6] = "its arrivals are not known"
			}
		}
		if m.Rank != nil {
			if l := byRank[*m.Rank]; l != nil {
				row[2] = l.GPU
				if row[1] == nil && names[l.GPU] != "" {
					row[1] = names[l.GPU]
				}
				for k, o := range owners {
					row[first+k] = nsToMS(l.Owners[o]) / float64(max(l.Steps, 1))
				}
			}
			if h := hosts[*m.Rank]; h != nil {
				switch {
				case h.Refused != "":
					row[11] = "not compared: " + h.Refused
				case h.OffsetNS != nil && h.ErrorNS != nil:
					row[9], row[10], row[11] = nsToMS(*h.OffsetNS), nsToMS(*h.ErrorNS), "found by the ends of collectives"
					if h.Instances == 0 {
						row[11] = "the reference"
					}
				}
				if row[1] == nil && h.Name != "" {
					row[1] = h.Name
				}
			}
		}
		s.rows = append(s.rows, row)
	}
	s.chart = func(f *excelize.File, s *sheet) error {
		n := min(len(s.rows), 64)
		if known == 0 {
			return nil
		}
		return f.AddChart("Ranks", cell(len(s.columns)+2, 2), &excelize.Chart{Type: excelize.Col, Dimension: excelize.ChartDimension{Width: 900, Height: 340},
			Title: title("How late each rank came to the first shared collective of a step, median, ms"), Legend: excelize.ChartLegend{Position: "none"}, YAxis: axis(false), XAxis: axis(false), VaryColors: ptr(false), GapWidth: ptr(uint(30)),
			Series: []excelize.ChartSeries{{Name: sheetCell("Ranks", 6, 1), Categories: sheetRange("Ranks", 1, n), Values: sheetRange("Ranks", 6, n), Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{inks[0]}}}}})
	}
	return s
}
