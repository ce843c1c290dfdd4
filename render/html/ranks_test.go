package html

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/render"
	"gpureport/render/html/pagetest"
)

// ranksReport is an invented run: rank late reaches its collectives last, held by its DataLoader; each host has eight ranks and its own clock.
func ranksReport(ranks, steps, late int) *render.Report {
	r := &render.Report{Schema: render.Schema, Tool: render.Tool{Name: "gpureport"}, Title: "invented", Window: render.Window{DurNS: int64(steps) * 400e6}}
	r.Verdict = render.Verdict{Class: "straggler", Sentence: "Invented.", Confidence: "measured", CulpritRank: &late}
	l := &r.Lateness
	l.ErrorNS, l.Judged = 27_000, steps
	hosts := (ranks + 7) / 8
	if hosts > 1 {
		l.ErrorNS = 400_000
	}
	for s := range steps {
		l.Steps = append(l.Steps, int64(s))
	}
	for h := range hosts {
		row := render.RankHost{Name: fmt.Sprintf("node-%02d", h)}
		for k := range 8 {
			if n := 8*h + k; n < ranks {
				row.Ranks = append(row.Ranks, n)
			}
		}
		off, e := int64(h)*1_300_000, int64(90_000+700*int64(h%60))
		row.OffsetNS, row.ErrorNS = &off, &e
		if h > 0 {
			row.DriftPPM, row.Instances = 1.2, int64(steps)*40
		}
		if h == 5 {
			row.OffsetNS, row.ErrorNS, row.Refused = nil, nil, "its collectives end in another order than those of the others"
		}
		r.Hosts = append(r.Hosts, row)
	}
	for i := range ranks {
		n := i
		row := render.LateRow{Rank: &n, GPU: fmt.Sprintf("gpu%d", i), Host: fmt.Sprintf("node-%02d", i/8)}
		r.StepMarks = append(r.StepMarks, render.StepMarks{Rank: &n, Path: fmt.Sprintf("rank%d.json", i), How: "annotation", Confidence: "measured", Steps: steps})
		for s := range steps {
			v := int64(1.5e6 * (1 + noise(i, s)) * (1 + noise(i, 5)))
			if i/8 == late/8 && hosts > 1 {
				v += int64(40e6 * (1 + noise(i, 3)))
			}
			if i == late {
				v = int64(72e6 + 20e6*noise(s, 0))
				if s%8 == 6 {
					v = 238e6
				}
			}
			row.AtNS = append(row.AtNS, &v)
		}
		if i == 2 {
			row.AtNS[3] = nil
		}
		mid := *row.AtNS[steps/2]
		row.MedianNS = &mid
		f := 0.0
		if i == late {
			row.Last, f = steps-1, float64(steps-1)/float64(steps)
		} else if i == (late+3)%ranks {
			row.Last, f = 1, 1/float64(steps)
		}
		row.LastFrac = &f
		l.Rows = append(l.Rows, row)
		lost := int64(steps) * 90e6
		owners := map[string]int64{}
		for o := range timeline.NOwners {
			owners[o.String()] = 0
		}
		owners["compute"], owners["host.launch"], owners["comm.transfer"] = int64(steps)*275e6, int64(steps)*8e6, int64(steps)*24e6
		owners["comm.peer-wait"] = lost
		if i == late {
			owners["comm.peer-wait"], owners["host.dataloader"] = 0, lost
		}
		r.GPUs = append(r.GPUs, render.GPU{ID: row.GPU, Rank: &n, Host: &row.Host})
		r.Ledger = append(r.Ledger, render.LedgerRow{GPU: row.GPU, Rank: &n, Steps: steps, WindowNS: int64(steps) * 397e6, Owners: owners})
	}
	r.Waits = []render.WaitRow{{CulpritRank: &late, Owner: "host.dataloader", DurNS: int64(ranks-1) * int64(steps) * 90e6}}
	for _, s := range []int64{6, 14} {
		c := render.WaitChain{Step: s}
		for i := range min(ranks, 64) {
			if i == late {
				continue
			}
			n := i
			c.Links = append(c.Links, render.WaitLink{WaiterRank: &n, CulpritRank: &late, Group: "world", Primitive: "all-reduce", StartNS: s*400e6 + int64(i%8)*2e6, DurNS: 238e6 - int64(i%8)*2e6, Owner: "host.dataloader", OwnerNS: 210e6})
		}
		r.Chains = append(r.Chains, c)
	}
	size, four := ranks, 4
	r.Groups = []render.RankGroup{{Name: "default_pg", Kind: "world", Size: &size, Hosts: hosts, Matched: int64(steps) * 40, How: "seq"}, {Name: "tp_0", Kind: "tensor", Size: &four, RanksHere: []int{0, 1, 2, 3}, Hosts: 1, Unmatched: 12, Why: "the counts of collectives differ between its members"}}
	for i := range ranks {
		r.Groups[0].RanksHere = append(r.Groups[0].RanksHere, i)
	}
	yes, no := true, false
	for i := range min(ranks, 8) {
		n := i
		for k, b := range []int64{4, 1 << 20, 4 << 20, 64 << 20, 256 << 20} {
			size, tr, wait := b, int64(steps)*int64(1+k)*2e6, int64(steps)*int64(1+k*k)*4e6
			bus, want := float64(b)/float64(b+20e6)*220e9, float64(b)/float64(b+20e6)*300e9
			c := render.Collective{Rank: &n, Group: "default_pg", Primitive: "all-reduce", Bytes: &size, Count: int64(steps), DurNS: tr + wait, TransferNS: &tr, PeerWaitNS: &wait, ExposedNS: wait, BusBW: &bus, Expected: &want, TooSmall: b < 1<<22, Across: &no, Split: "measured"}
			if k == 3 {
				c.Across = &yes
			}
			r.Collectives = append(r.Collectives, c)
		}
		r.Collectives = append(r.Collectives, render.Collective{Rank: &n, Group: "tp_0", Primitive: "reduce-scatter", Count: int64(steps), DurNS: int64(steps) * 9e6, ExposedNS: int64(steps) * 8e6, Split: "undivided"})
	}
	return r
}

func ranksPage(t *testing.T, r *render.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, render.Sections(r), sampleMeta); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("GPUREPORT_SHOTS"); dir != "" {
		name := fmt.Sprintf("ranks-%d.html", len(r.StepMarks))
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestRanksPage(t *testing.T) {
	for _, n := range []int{8, 64, 512} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			late := n*2/5 + 2
			p := string(ranksPage(t, ranksReport(n, 120, late)))
			if len(p) > MaxBytes {
				t.Errorf("page has %d bytes", len(p))
			}
			p = p[strings.Index(p, `id="ranks"`):]
			for _, want := range []string{fmt.Sprintf("ank %d came last most often, in 119 of 120 steps", late), "119 of 120", fmt.Sprintf("for rank %d, which was in its DataLoader for 210\u00a0ms of it", late), "no: the counts of collectives differ between its members", "Who waited for whom"} {
				if !strings.Contains(p, want) {
					t.Errorf("page does not say %q", want)
				}
			}
			tiles := strings.Count(p, `class="heat tiles"`)
			if n <= 64 && tiles != 0 || n > 64 && tiles != 1 {
				t.Errorf("%d blocks of tiles", tiles)
			}
			if rows := strings.Count(p, `<span class="hmname">Rank `); n <= 64 && rows != n {
				t.Errorf("%d rows of the heat map, want %d", rows, n)
			}
			if n > 8 && !strings.Contains(p, "clock not compared") && !strings.Contains(p, "its collectives end in another order") {
				t.Error("page does not say whose clock was refused")
			}
		})
	}
}

func TestBrowserRanks(t *testing.T) {
	b := pagetest.Start(t)
	for _, n := range []int{8, 64, 512} {
		sections := render.Sections(ranksReport(n, 120, n*2/5+2))
		for _, l := range []pagetest.Look{{Width: 1600, Height: 900}, {Width: 390, Height: 844, Dark: true}} {
			t.Run(fmt.Sprintf("%d-%d", n, l.Width), func(t *testing.T) {
				x := open(t, b, sections, l)
				if w := pagetest.JS[int](x, `document.documentElement.scrollWidth`); w > int(l.Width) {
					t.Errorf("page is %d wide in a window of %d", w, l.Width)
				}
				if out := pagetest.JS[[]string](x, `[...document.querySelectorAll('#ranks *')].filter(e => !e.closest('.vh') && !e.closest('.tw') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className + ': ' + e.textContent.slice(0, 40))`); len(out) > 0 {
					t.Errorf("stand out at the right: %q", out)
				}
				if dark := pagetest.JS[int](x, `document.querySelectorAll('#ranks svg path.q5').length`); dark == 0 {
					t.Error("no cell of the latest class is drawn")
				}
				x.Shot(fmt.Sprintf("ranks-%d-%d", n, l.Width), "#ranks")
				x.Shot(fmt.Sprintf("collectives-%d-%d", n, l.Width), "#collectives")
				x.Quiet()
			})
		}
	}
}
