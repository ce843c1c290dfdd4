package render

import (
	"strings"
	"testing"
)

// Who waited for the late rank is drawn and told, each of them, and can be read as a table.
func TestChainOfAllWaiters(t *testing.T) {
	n := func(i int) *int { return &i }
	c := WaitChain{Step: 19}
	for i := range 7 {
		c.Links = append(c.Links, WaitLink{WaiterRank: n(i), CulpritRank: n(7), Primitive: "all-reduce", StartNS: int64(i) * 1e6, DurNS: 31e6 - int64(i)*1e6, Owner: "host.dataloader", OwnerNS: 20e6})
	}
	w, ok := waitCharts(&Report{Chains: []WaitChain{c}})
	if !ok || len(w.Charts) != 1 || len(w.Charts[0].Lanes) != 8 {
		t.Fatalf("%+v", w)
	}
	if said := strings.ReplaceAll(w.Charts[0].Said, nbsp, " "); !strings.HasPrefix(said, "Step 19: ranks 0–6 waited up to 31.0 ms for rank 7, which was in its DataLoader") {
		t.Error(said)
	}
	if w.Table == nil || len(w.Table.Rows) != 7 || w.Table.Rows[0].Cells[3].Text != "31.0" || w.Table.Rows[0].Cells[5].Text != "20.0" {
		t.Errorf("%+v", w.Table)
	}
}

func TestBusTable(t *testing.T) {
	all := []*collectiveSum{{collectiveKey: collectiveKey{prim: "all-reduce", bytes: 1 << 20, across: 1}, bw: 1e9, bwN: 1, want: 2e9, wantN: 1},
		{collectiveKey: collectiveKey{prim: "all-reduce", bytes: 1 << 25, across: -1}, bw: 220e9, bwN: 1, want: 200e9, wantN: 1}}
	d, ok := busDots(all)
	if !ok || d.Table == nil || len(d.Table.Rows) != 2 {
		t.Fatalf("%+v", d)
	}
	for k, want := range []string{"1.00|2.00|across hosts", "220|200|one host"} {
		c := d.Table.Rows[k].Cells
		if got := c[3].Text + "|" + c[4].Text + "|" + c[2].Text; got != want {
			t.Errorf("row %d: %s, want %s", k, got, want)
		}
	}
	if _, of := busCells(all[1]); of.Text != "at or above" {
		t.Errorf("faster than the model: %q", of.Text)
	}
	if _, of := busCells(all[0]); of.Text != "50"+nbsp+"%" {
		t.Errorf("half of it: %q", of.Text)
	}
}
