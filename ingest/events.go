package ingest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpureport/ingest/timeline"
)

// oneEvent finds marks of several sources that are one event: dmesg, journal, syslog and a recording of one host all show the same Xid.
// Alike are events of one card or host, kind and number, of all but Xids also text, at instants that differ by no more than the error of
// both clocks; of a log whose clock could not be placed in their order. Each mark has at most one in every other source. The source
// whose clock is known best leads.
func (m *matcher) oneEvent() {
	b := m.base
	type key struct {
		of   string
		kind timeline.MarkKind
		code int32
		name timeline.StringID
	}
	card := map[timeline.DeviceID]int{}
	for i := range m.cards {
		for _, id := range m.cards[i].devices {
			card[id] = i
		}
	}
	groups := map[key][]int{}
	var order []key
	for i, t := range b.Marks.Track {
		k := key{kind: b.Marks.Kind[i], code: b.Marks.Code[i], name: b.Marks.Name[i]}
		switch k.kind {
		case timeline.MarkXid:
			k.name = 0 // each tool has its own words
		case timeline.MarkSXid, timeline.MarkGPULost, timeline.MarkOOM, timeline.MarkOutput:
		default:
			continue
		}
		tr := &b.Tracks[t]
		if !b.Sources[tr.Source].Used {
			continue
		}
		if c, ok := card[tr.Device]; ok {
			k.of = fmt.Sprint("card ", c)
		} else if tr.Device < 0 {
			k.of = m.machineOf(tr.Source)
		} else {
			continue
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], i)
	}
	b.Again = slices.Repeat([]int32{-1}, len(b.Marks.At))
	clock := func(i int) *timeline.Clock { return &b.Clocks[b.Sources[m.sourceOf(i)].Clock] }
	for _, k := range order {
		marks := groups[k]
		slices.SortStableFunc(marks, func(x, y int) int {
			cx, cy := clock(x), clock(y)
			return cmp.Or(btoi(cx.How == timeline.Unplaced)-btoi(cy.How == timeline.Unplaced), cmp.Compare(cx.Error, cy.Error), cmp.Compare(m.sourceOf(x), m.sourceOf(y)), cmp.Compare(b.Marks.At[x], b.Marks.At[y]))
		})
		var leads []int // by time
		for len(marks) > 0 {
			src, n := m.sourceOf(marks[0]), 1
			for n < len(marks) && m.sourceOf(marks[n]) == src {
				n++
			}
			var more []int
			next := 0
			for _, i := range marks[:n] {
				found := false
				for ; next < len(leads) && !found; next++ {
					reach := timeline.Time(math.MaxInt64 / 4)
					if a, z := clock(i), clock(leads[next]); a.How != timeline.Unplaced && z.How != timeline.Unplaced {
						reach = timeline.Time(a.Error + z.Error + a.Step + z.Step)
					}
					d := b.Marks.At[leads[next]] - b.Marks.At[i]
					if d > reach {
						break
					}
					if found = d >= -reach; found {
						b.Again[i] = int32(leads[next])
					}
				}
				if !found {
					more = append(more, i)
				}
			}
			leads = append(leads, more...)
			slices.SortStableFunc(leads, func(x, y int) int { return cmp.Compare(b.Marks.At[x], b.Marks.At[y]) })
			marks = marks[n:]
		}
	}
}

func (m *matcher) sourceOf(mark int) timeline.SourceID {
	return m.base.Tracks[m.base.Marks.Track[mark]].Source
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
