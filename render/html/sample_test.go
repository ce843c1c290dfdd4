package html

import (
	"fmt"
	"math"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/render"
)

// Invented sections for tests of the drawing. The incident and its numbers are made up.

const (
	compute  = int(timeline.Compute)
	launch   = int(timeline.HostLaunch)
	hostSync = int(timeline.HostSync)
	h2d      = int(timeline.CopyH2D)
	transfer = int(timeline.CommTransfer)
	peerWait = int(timeline.CommPeerWait)
	loader   = int(timeline.HostDataloader)
	saving   = int(timeline.HostCheckpoint)
)

// noise is a small repeatable wobble in [-1, 1].
func noise(i, j int) float64 { return math.Sin(float64(i*37+j*101)*1.7) * math.Cos(float64(i*13+j*7)) }

// sampleStep gives the owners of one step of one GPU, in seconds, in palette order.
func sampleStep(gpu, step int) ([]int, []float64) {
	lost := 0.072 + 0.012*noise(step, 0)
	if step%8 == 6 {
		lost = 0.238
	}
	save := 0.0
	if step == 60 {
		save = 1.93
	}
	comp := 0.275 + 0.002*noise(step, gpu)
	owners := []int{compute, launch, hostSync, h2d, transfer, peerWait, loader, saving}
	vals := []float64{comp, 0.008, 0.003, 0.0046, 0.024, lost, 0.0003, save}
	if gpu == 5 {
		vals[5], vals[6] = 0, lost
	}
	return owners, vals
}

func seconds(v []float64) float64 {
	t := 0.0
	for _, x := range v {
		t += x
	}
	return t
}

func sampleRows(gpus, steps int, cutGPU int, cutAt float64) []render.GPURow {
	var rows []render.GPURow
	for g := range gpus {
		r := render.GPURow{ID: fmt.Sprintf("gpu%d", g), Name: fmt.Sprintf("GPU %d, rank %d", g, g), Late: g == 5}
		at := 0.0
		for s := range steps {
			o, v := sampleStep(g, s)
			d := seconds(v)
			if g == cutGPU && at > cutAt {
				r.Hole = []render.Event{{StartS: at, EndS: 50.6, Label: "not read: file ends at byte 48 211 004"}}
				break
			}
			b := render.StepBox{Index: int64(s), StartS: at, DurS: d, Owners: o}
			for _, x := range v {
				b.Fracs = append(b.Fracs, x/d)
			}
			r.Steps = append(r.Steps, b)
			if s < 3 || s >= 13 && s < 17 || s == 60 || s == 86 {
				r.Intervals = append(r.Intervals, sampleIntervals(g, at, v)...)
			}
			at += d
		}
		rows = append(rows, r)
	}
	return rows
}

// sampleIntervals lays a step out as it ran: loader, sync, copy, compute cut by launches, wait, transfer, save.
func sampleIntervals(gpu int, at float64, v []float64) []render.IntervalBox {
	var out []render.IntervalBox
	add := func(o int, d float64) {
		if d > 0 {
			out = append(out, render.IntervalBox{StartS: at, DurS: d, Owner: o})
			at += d
		}
	}
	add(loader, v[6])
	add(hostSync, v[2])
	add(h2d, v[3])
	for range 6 {
		add(compute, v[0]/6)
		add(launch, v[1]/6)
	}
	add(peerWait, v[5])
	add(transfer, v[4])
	add(saving, v[7])
	return out
}

func utilisation(gpus int) render.Lane {
	l := render.Lane{Title: "Utilisation", Sub: []string{"window before, 1 s", "dmon.log, ±180 ms"}, Unit: "%", Min: 0, Max: 100, Covers: "window", WindowS: 1, ErrorS: 0.18}
	band := render.Curve{Name: fmt.Sprintf("other %d", gpus-1)}
	odd := render.Curve{Name: "GPU 5", Odd: true}
	for i := 1; i <= 50; i++ {
		t := float64(i) + 0.31
		v := 97.0 + noise(i, 3)
		o := 80 + 5*noise(i, 1)
		if i%3 == 2 {
			o = 65
		}
		if i == 25 || i == 26 {
			v, o = float64(12*(i-25)), float64(5*(i-25))
		}
		band.AtS, band.Value = append(band.AtS, t), append(band.Value, v)
		band.Low, band.High = append(band.Low, math.Max(0, v-3)), append(band.High, math.Min(100, v+1))
		odd.AtS, odd.Value = append(odd.AtS, t), append(odd.Value, o)
	}
	l.Curves = []render.Curve{band, odd}
	l.Table = readings("Utilisation, %", odd)
	return l
}

func readings(title string, c render.Curve) *render.Table {
	t := &render.Table{Title: title, Columns: []render.Column{{Title: "At, s", Num: true}, {Title: c.Name, Num: true}}}
	for i := range c.AtS {
		t.Rows = append(t.Rows, render.Row{Cells: []render.Cell{{Text: fmt.Sprintf("%.2f", c.AtS[i])}, {Text: fmt.Sprintf("%.0f", c.Value[i])}}})
	}
	return t
}

func clockLane() render.Lane {
	l := render.Lane{Title: "SM clock", Sub: []string{"instant, 0.5 s", "query.csv, ±1 ms"}, Unit: "MHz", Min: 1600, Max: 1800, Covers: "instant", WindowS: 0.5, ErrorS: 0.001}
	a, b := render.Curve{Name: "7 GPUs"}, render.Curve{Name: "GPU 3", Odd: true}
	for i := range 101 {
		t := float64(i) / 2
		a.AtS, a.Value = append(a.AtS, t), append(a.Value, 1755)
		if t > 33 && t < 37 {
			b.AtS, b.Value = append(b.AtS, t), append(b.Value, 1680+4*noise(i, 2))
		}
	}
	l.Curves = []render.Curve{a, b}
	l.Hatch = []render.Event{{StartS: 30.9, EndS: 32.9, Label: "32 rows unreadable"}}
	return l
}

func sampleTimeline() render.TimeLine {
	tl := render.TimeLine{StartS: 0, EndS: 50.6,
		Legend:  []string{"compute", "comm.transfer", "comm.peer-wait", "copy.h2d", "host.dataloader", "host.launch", "host.sync", "host.checkpoint", "unknown"},
		Events:  []render.Event{{StartS: 24.2, EndS: 26.1, Label: "save_checkpoint, step 60", Owner: "host.checkpoint"}, {StartS: 31.2, EndS: 37.1, Label: "SW power cap, GPU 3"}},
		Missing: []string{"Xid and kernel messages: not recorded"},
		Lanes:   []render.Lane{utilisation(8), clockLane()},
		Rows:    sampleRows(8, 120, -1, 0),
		Note:    "Intervals kept for 9 of 120 steps.",
	}
	at := 0.0
	for s := range 120 {
		_, v := sampleStep(2, s)
		if s == 60 {
			tl.SlowestStep = [2]float64{at, at + seconds(v)}
			tl.Dips = append([]render.DipMark{{ID: "dip-a", StartS: 24.31, EndS: 26.31, Owner: "host.checkpoint", Label: "A"}}, tl.Dips...)
		}
		if s == 14 {
			tl.MedianStep = [2]float64{at, at + seconds(v)}
		}
		if s%8 == 6 {
			label := map[int]string{118: "B", 86: "C", 38: "D"}[s]
			id := ""
			if label != "" {
				id = "dip-" + strings.ToLower(label)
			}
			tl.Dips = append(tl.Dips, render.DipMark{ID: id, StartS: math.Floor(at) - 0.69, EndS: math.Floor(at) + 0.31, Owner: "host.dataloader", Label: label})
		}
		at += seconds(v)
	}
	return tl
}

func seg(owner string, ms float64, label, short string) render.Seg {
	return render.Seg{Owner: owner, Frac: ms / 422, Label: label, Short: short, Tip: fmt.Sprintf("%s: %.1f ms", owner, ms)}
}

func sampleFirst() render.FirstScreen {
	return render.FirstScreen{
		Facts:    []string{"8 × H100 80GB, 1 host", "28 Nov 2026 03:12:04 UTC", "120 steps in 50.6 s"},
		Class:    "straggler",
		Cause:    "data-pipeline",
		Sentence: "Seven GPUs waited 91\u00a0ms a step for rank\u00a05, and rank\u00a05 was waiting for its DataLoader.",
		Lead:     "The other seven loaders were on time. The waiting GPUs read 98\u00a0% “utilisation” because the all-reduce kernel spins while it waits: only GPU 5 shows dips, all eight lose the time.",
		Caption:  "A step, mean of 120, owners in the order in which they ran",
		Hero: []render.Bar{
			{Name: "Rank 2", Sub: "like 0–4, 6, 7", Total: "422 ms", Alt: "Rank 2: compute 275 ms, waiting for rank 5 91 ms, transfer 24 ms, checkpoint 16 ms", Segs: []render.Seg{
				seg("host.sync", 3, "", ""), seg("host.launch", 1, "", ""), seg("copy.h2d", 4.6, "", ""), seg("compute", 282, "Compute", ""),
				seg("comm.peer-wait", 91, "waits for rank 5 · 91 ms", "91 ms"), seg("comm.transfer", 24, "", ""), seg("host.checkpoint", 16, "", "")}},
			{Name: "Rank 5", Sub: "the late one", Bold: true, Total: "422 ms", Alt: "Rank 5: DataLoader 91 ms, compute 275 ms, transfer 24 ms, checkpoint 16 ms", Segs: []render.Seg{
				seg("host.dataloader", 91, "DataLoader · 91 ms", "91 ms"), seg("host.sync", 3, "", ""), seg("host.launch", 1, "", ""), seg("copy.h2d", 4.6, "", ""),
				seg("compute", 282, "Compute", ""), seg("comm.transfer", 24, "", ""), seg("host.checkpoint", 16, "", "")}},
		},
		CostBig: "91\u00a0ms", CostOf: "of 422 ms a step", CostText: "At most 21\u00a0% of the run can return. The next limiter would be compute.",
		Sure: "measured", SureText: "Traces of 8 of 8 ranks, one clock. The ledger closes; less than 0.1\u00a0% of it is unknown.",
		Do: []render.Do{{Lead: "Record the host of rank 5", Text: "for one minute: disk, CPU and memory decide why its loader is late.", Command: "#command-1"},
			{Lead: "Compare its shard", Text: "with the other ranks: bytes, samples, path."}},
		Dont:      []string{"tune NCCL, buy network, or add workers on the other ranks."},
		UnseenBig: "31", UnseenOf: "of 97 checks unknown", UnseenText: "No CPU, disk or memory counters. No tensor-core or DRAM counters. No topology, no kernel log.",
		UnseenLink: "Two commands answer 26 of the 31",
	}
}

func dipsTable() render.Table {
	t := render.Table{ID: "dips-table", Shown: 4, Foot: "11 more, all of the kind B to D.", Columns: []render.Column{{Title: ""}, {Title: "At", Num: true}, {Title: "Lasted", Num: true, More: true},
		{Title: "GPUs", More: true}, {Title: "Utilisation, %", Num: true, More: true}, {Title: "Held by"}, {Title: "Held, ms", Num: true}, {Bar: true}, {Title: "Rests on", Wide: true, More: true}}}
	for i := range 15 {
		letter := string(rune('A' + i))
		c := []render.Cell{{Text: letter, Strong: true}, {Text: fmt.Sprintf("%.1f s", 49.3-3*float64(i))}, {Text: "1 s"}, {Text: "GPU 5"}, {Text: "80 → 64"},
			{Text: "DataLoader on rank 5", Owner: "host.dataloader"}, {Text: fmt.Sprint(338 - i)}, {Bar: 0.17, BarOwner: "host.dataloader"},
			{Text: "mostly step 118; the other seven waited in all-reduce", Weak: true}}
		if i == 0 {
			c = []render.Cell{{Text: "A", Strong: true}, {Text: "24.2 s"}, {Text: "2 s"}, {Text: "all 8"}, {Text: "97 → 0"}, {Text: "Checkpoint, on all ranks", Owner: "host.checkpoint"},
				{Text: "1\u202f930"}, {Bar: 1, BarOwner: "host.checkpoint"}, {Text: "annotation “save_checkpoint”, step 60", Weak: true}}
		}
		t.Rows = append(t.Rows, render.Row{ID: "dip-" + strings.ToLower(letter), Cells: c})
	}
	return t
}

func sampleLedger() []render.Block {
	l := render.LedgerBars{ScaleLabel: "Step, 0 to 422 ms", Columns: []render.Column{{Title: "Compute", Owners: []string{"compute"}, Num: true, More: true},
		{Title: "Transfer", Owners: []string{"comm.transfer"}, Num: true, More: true}, {Title: "Peer wait", Owners: []string{"comm.peer-wait"}, Num: true},
		{Title: "Copies", Owners: []string{"copy.h2d"}, Num: true, More: true}, {Title: "Loader", Owners: []string{"host.dataloader"}, Num: true},
		{Title: "Launch, sync", Owners: []string{"host.launch", "host.sync"}, Num: true, More: true}, {Title: "Checkpoint", Owners: []string{"host.checkpoint"}, Num: true, More: true},
		{Title: "Unknown", Owners: []string{"unknown"}, Num: true, More: true}, {Title: "Hidden comm.", Num: true, More: true}}}
	for g := range 8 {
		peer, load, sub := 90.9+noise(g, 1), 0.3, ""
		if g == 5 {
			peer, load, sub = 0, 90.7, "late"
		}
		l.Bars = append(l.Bars, render.Bar{ID: fmt.Sprintf("gpu-%d", g), Name: fmt.Sprint(g), Sub: sub, Bold: g == 5, Side: 0.15, Alt: fmt.Sprintf("GPU %d: compute 275 ms, peer wait %.1f ms, DataLoader %.1f ms", g, peer, load),
			Segs: []render.Seg{seg("compute", 274.9, "", ""), seg("host.launch", 7, "", ""), seg("host.sync", 3, "", ""), seg("copy.h2d", 4.6, "", ""), seg("comm.transfer", 24.1, "", ""),
				seg("comm.peer-wait", peer, "", ""), seg("host.dataloader", load, "", ""), seg("host.checkpoint", 16, "", "")},
			Cells: []render.Cell{{Text: "274.9"}, {Text: "24.1"}, {Text: fmt.Sprintf("%.1f", peer)}, {Text: "4.6"}, {Text: fmt.Sprintf("%.1f", load), Weak: load < 1}, {Text: "10.9"}, {Text: "16.1"},
				{Text: "0.3", Weak: true}, {Text: "65.0", Weak: true}}})
	}
	waits := render.Table{Title: "What the peers’ wait was made of", Lead: "The owner on the late rank, over the part of its time the others waited for.", Columns: []render.Column{{Title: "Late rank"}, {Title: "was in"},
		{Title: "ms a step", Num: true}, {Title: "Share of the wait", Num: true}, {Bar: true, Wide: true}}, Rows: []render.Row{
		{Bold: true, Cells: []render.Cell{{Text: "Rank 5"}, {Text: "DataLoader", Owner: "host.dataloader"}, {Text: "89.4"}, {Text: "98.6 %"}, {Bar: 1, BarOwner: "host.dataloader"}}},
		{Cells: []render.Cell{{Text: "Rank 3"}, {Text: "Compute", Owner: "compute"}, {Text: "0.8"}, {Text: "0.9 %"}, {Bar: 0.01, BarOwner: "compute"}}}}}
	sc := render.StepChart{Show: 2, Unit: "ms", AxisMax: 600, Note: "Steps taller than 600 ms are cut."}
	for g := range 8 {
		s := render.StepSeries{Name: fmt.Sprintf("rank %d", g), Late: g == 5, Median: 388, Cut: []render.CutMark{{At: 60, Label: "2.32 s, cut at 600 ms"}}}
		owners, _ := sampleStep(g, 0)
		stacks := make([]render.StepStack, len(owners))
		for i, o := range owners {
			stacks[i].Owner = timeline.Owner(o).String()
		}
		for st := range 120 {
			s.Index = append(s.Index, int64(st))
			_, v := sampleStep(g, st)
			for i := range v {
				stacks[i].Value = append(stacks[i].Value, v[i]*1000)
			}
		}
		s.Owners = stacks
		sc.Ranks = append(sc.Ranks, s)
	}
	return []render.Block{render.NoteBlock{Note: render.Note{Strong: "0.3 ms a step are undivided.", Text: "They may not be ranked."}}, l, waits, sc}
}

var stageNames = []string{"Step time", "Idle", "Data", "Kernels", "Communication", "Shapes", "Hardware"}
var stageIDs = []string{"step", "idle", "data", "kernel", "comm", "shape", "hw"}

func sampleChecklist() render.Checklist {
	var c render.Checklist
	for i, id := range stageIDs {
		s := render.Stage{ID: id, Title: stageNames[i], N: i + 1, Question: "Is it so?", Counts: "1 finding, 3 unknown, 5 pass, 1 not asked"}
		tags := []string{"medium", "high", "high", "low", "high", "info", "critical"}
		s.Rows = append(s.Rows, render.CheckRow{Anchor: id + ".bad", ID: id + ".bad", Outcome: "finding", Tag: tags[i], Says: "Rank 5’s loader alone is late, in 119 of 120 steps.", Saving: "≤ 21 %", SavingFrac: 0.21,
			SavingHollow: i%2 == 1, Confidence: "measured", Open: i == 2, Numbers: []render.NumberRow{{Name: "Loader wait on rank 5", Value: "21 %", Limit: "limit 5 %", Source: "judgement: a twentieth of a step"}, {Name: "Peers waiting meanwhile", Value: "98.6 %", Limit: "limit 50 %"}},
			SavingText: "At most 90.6 ms of 422 ms a step (21 %): the whole wait, if rank 5 arrived with the others.", OverlapText: "Same time as comm.straggler-wait. The two are not added.",
			Do: []string{"Record disk, CPU and memory on the host of rank 5 while it runs."}, Dont: []string{"Add workers: not before rank 5’s host is seen to have idle cores. G1"},
			Withheld:  []render.WithheldRow{{Say: "More workers.", Gate: "G1", Why: "nobody recorded the cores", Command: "mpstat -P ALL 1 60 > mpstat.txt"}},
			LooksLike: "Loader wait while the GPU is busy is no loss and is not counted here.", Refs: []string{"rank5.json: traceEvents[18233]", "rank2.json: traceEvents[18790]"}, RefsFoot: "2 of 240 rows; the workbook has them all.", Jump: "step-14",
			Subjects: []render.SubjectRow{{Name: "rank 5", Outcome: "high", Saving: "≤ 21 %", Says: "late in 119 of 120 steps"}}})
		s.Cells = append(s.Cells, "finding")
		for k, cmd := range []string{"iostat -xmt 1 60 > iostat.txt", "pidstat -tud -h 1 60 > pidstat.txt", "dcgmi dmon -e 1002,1004 -c 60 > dcgm.txt"} {
			rid := fmt.Sprintf("%s.unseen-%d", id, k)
			s.Rows = append(s.Rows, render.CheckRow{Anchor: rid, ID: rid, Outcome: "unknown", Tag: "unknown", Says: "Not answered: no disk counters. Needs iostat on the host of rank 5.",
				Missing: []render.MissingRow{{Fact: "host.disk_read_bytes_per_s", Why: "no input holds disk counters", Command: cmd}}})
			s.Cells = append(s.Cells, "unknown")
		}
		for k := range 5 {
			r := render.CheckRow{Anchor: fmt.Sprintf("%s.good-%d", id, k), ID: fmt.Sprintf("%s.good-%d", id, k), Outcome: "pass", Tag: "pass", Says: "Robust variation 4.1 %, limit 5 %", Confidence: "measured"}
			if k < 3 {
				s.Rows = append(s.Rows, r)
			} else {
				s.FoldedRows = append(s.FoldedRows, r)
			}
			s.Cells = append(s.Cells, "pass")
		}
		s.Folded = "2 more pass: good-3, good-4"
		s.Rows = append(s.Rows, render.CheckRow{Anchor: id + ".later", ID: id + ".later", Outcome: "not-asked", Tag: "not asked", Says: "Asked only when step.epoch-boundary has fired."})
		s.Cells = append(s.Cells, "not-asked")
		c.Stages = append(c.Stages, s)
	}
	return c
}

func hardwareLanes() render.Lanes {
	out := render.Lanes{StartS: 0, EndS: 600, Missing: []string{"PCIe throughput: not recorded. nvidia-smi dmon -s t records it."}}
	for k, title := range []string{"SM clock", "Power", "Temperature"} {
		l := render.Lane{Title: title, Unit: []string{"MHz", "W", "°C"}[k], Sub: []string{"instant, 0.5 s", "query.csv"}, Min: []float64{1000, 0, 30}[k], Max: []float64{2000, 750, 90}[k], Covers: []string{"instant", "window", "total"}[k], WindowS: 5}
		a, b := render.Curve{Name: "7 GPUs"}, render.Curve{Name: "GPU 3", Odd: true}
		for i := range 120 {
			t := float64(i+1) * 5
			base := []float64{1755, 640, 62}[k]
			a.AtS, a.Value = append(a.AtS, t), append(a.Value, base)
			a.Low, a.High = append(a.Low, base*0.97), append(a.High, base*1.02)
			v := base
			if t > 210 {
				v = base * []float64{0.75, 0.8, 1.35}[k]
			}
			b.AtS, b.Value = append(b.AtS, t), append(b.Value, v*(1+0.01*noise(i, k)))
		}
		l.Curves = []render.Curve{a, b}
		l.Limits = []render.Limit{{Value: []float64{1980, 700, 87}[k], Label: []string{"2000", "limit 700", "slowdown 87"}[k]}}
		if k == 0 {
			l.Hatch = []render.Event{{StartS: 210, EndS: 600, Label: "SW thermal 0x20, 62 % of busy"}}
		}
		l.Table = readings(title, b)
		out.Lanes = append(out.Lanes, l)
	}
	return out
}

func sampleSections() []render.Section {
	kernels := render.Table{Columns: []render.Column{{Title: "Kernel", Wide: true}, {Title: "Class", More: true}, {Title: "Calls a step", Num: true, More: true}, {Title: "Median, µs", Num: true, More: true}, {Title: "ms a step", Num: true},
		{Bar: true}, {Title: "Share of busy", Num: true, More: true}, {Title: "Against the part"}}}
	for i, n := range []string{"sm90 gemm 128×256×64, bf16 ⟨ffn up⟩", "flash attention backward, hd 128", "multi-tensor adam, fused", "layer norm backward"} {
		against := render.Cell{Text: "72 % of peak"}
		if i == 3 {
			against = render.Cell{Text: "unknown", Dashed: true}
		} else if i == 1 {
			against = render.Cell{Text: "no model for this shape", Weak: true}
		}
		kernels.Rows = append(kernels.Rows, render.Row{Cells: []render.Cell{{Text: n}, {Text: "matmul", Weak: true}, {Text: "48"}, {Text: "1\u202f480"}, {Text: fmt.Sprint(71 - 17*i)}, {Bar: 0.9 - 0.25*float64(i), BarOwner: "compute"}, {Text: "26.1 %"}, against}})
	}
	inputs := render.Table{Columns: []render.Column{{Title: "File"}, {Title: "Format", More: true}, {Title: "Size", Num: true}, {Title: "Rows", Num: true, More: true}, {Title: "Covers the window", Bar: true}, {Title: "Clock", More: true}, {Title: "Problems", Wide: true, More: true}},
		Rows: []render.Row{{Cells: []render.Cell{{Text: "rank0.json … rank7.json"}, {Text: "PyTorch Profiler", Weak: true}, {Text: "412 MB"}, {Text: "3\u202f184\u202f902"}, {Bar: 1, BarOwner: "host.checkpoint"}, {Text: "reference, ±9 µs"}}},
			{ID: "input-query", Cells: []render.Cell{{Text: "query.csv"}, {Text: "nvidia-smi query", Weak: true}, {Text: "142 kB"}, {Text: "810"}, {Bar: 0.96, BarOwner: "host.checkpoint"}, {Text: "recorded, ±1 ms"}, {Text: "1: rows 498 to 529 cut short", Link: "#input-query"}}}}}
	return []render.Section{
		{ID: "verdict", Title: "Verdict", Blocks: []render.Block{sampleFirst()}},
		{ID: "dips", Title: "When the GPU dropped, who was holding the time?", Rail: "Dips", Count: "15", Lead: "15 dips in 50 samples. 14 are rank 5 waiting for its DataLoader, one every 8 steps; one is a checkpoint. The seven waiting GPUs did not dip, yet lost the same time.", Blocks: []render.Block{dipsTable()}},
		{ID: "timeline", Title: "Time line", Lead: "Sampled readings above, traced time below, one axis. In the ledger rows area is time: at any zoom, ink of an owner is the time it held.", Blocks: []render.Block{sampleTimeline()}},
		{ID: "ledger", Title: "Ledger", Lead: "Every nanosecond of every GPU has one owner. 120 steps, mean of a step, in ms. Each row sums to 422.1 ms, and 120 steps to the window of 50.6 s.", Blocks: sampleLedger()},
		{ID: "checklist", Title: "Checklist", Count: "7", Lead: "70 checks in the order in which they are asked. Unknown is not pass: nobody looked, and the capture plan says how.", Blocks: []render.Block{sampleChecklist()}},
		{ID: "ranks", Title: "Ranks", Lead: "One host.", Blocks: []render.Block{render.Prose{Text: "Rank 5 was last to arrive in 119 of 120 steps."}, sampleMatrix()}},
		{ID: "kernels", Title: "Kernels", Lead: "What the busy 273 ms of a step were made of, mean of 8 GPUs.", Blocks: []render.Block{kernels}},
		{ID: "hardware", Title: "Hardware", Lead: "Dots are instants, dashes are averages over the time they cover.", Blocks: []render.Block{hardwareLanes()}},
		{ID: "plan", Title: "Capture plan", Count: "2", Lead: "Two commands answer 26 of the 31 unknown checks.", Blocks: []render.Block{render.Commands{Items: []render.CommandItem{
			{N: 1, ID: "command-1", Title: "Answers 17. Why rank 5’s loader is late: disk, decoding, threads, quota.", Where: "On the host of rank 5, while the job runs.", Command: "mpstat -P ALL 1 60 > mpstat.txt & iostat -xmt 1 60 > iostat.txt & pidstat -tud -h 1 60 > pidstat.txt & vmstat -t 1 60 > vmstat.txt; wait", Answers: "data.storage, data.decode-cpu and 15 more"},
			{N: 2, ID: "command-2", Title: "Answers 9. Is anything wrong with the card, its links, its socket?", Command: "nvidia-smi -q > smi-q.txt; nvidia-smi topo -m > topo.txt", Answers: "hw.xid, hw.ecc and 7 more"}}, Foot: "Not worth a capture now: 5 checks that need Nsight Compute."}}},
		{ID: "inputs", Title: "Inputs", Count: "11", Lead: "11 files, 412 MB. 10 were read, 1 is none of ours, 1 has a problem.", Blocks: []render.Block{inputs}},
	}
}

// samplesOnly is the state without a trace: a curve in place of bars, and rows that nobody can fill.
func samplesOnly() []render.Section {
	l := utilisation(8)
	l.Dips = []render.DipMark{{StartS: 24.31, EndS: 26.31}, {StartS: 40.31, EndS: 41.31}}
	f := render.FirstScreen{Class: "insufficient-evidence", Sentence: "All eight GPUs drop together every 8.3 s, and samples alone cannot say who held the time.", Lead: "dmon reads once a second and counts any resident kernel as busy.",
		HeroCurve: &l, CostBig: "unknown", CostText: "24 % of samples lie below half. A share of samples is a symptom, not a saving.", Sure: "hint", SureText: "Pattern only. A hint asks for a capture and for nothing else.",
		Do:        []render.Do{{Text: "Record ten steps on every rank:", Command: "torch.profiler.profile(activities=[CPU, CUDA], schedule=schedule(wait=10, warmup=3, active=10))"}},
		UnseenBig: "84", UnseenOf: "of 97 checks unknown", UnseenText: "No step, no kernel, no host record."}
	tl := render.TimeLine{EndS: 50.6, Lanes: []render.Lane{utilisation(8)}, NoTrace: "no trace: nobody can be named", Missing: []string{"Steps: not recorded"}}
	return []render.Section{{ID: "verdict", Title: "Verdict", Blocks: []render.Block{f}}, {ID: "timeline", Title: "Time line", Blocks: []render.Block{tl}}, {ID: "checklist", Title: "Checklist", Blocks: []render.Block{sampleChecklist()}}}
}

// damaged is the state after a file that ends early.
func damaged() []render.Section {
	f := sampleFirst()
	f.Notes = []render.Note{{Strong: "The trace of rank 3 ends early.", Text: "rank3.json stops inside a record at byte 48 211 004 (61 % of the window). Steps 0 to 72 of rank 3 were read.", LinkText: "Problem 1 of 1", Link: "#inputs"}}
	tl := sampleTimeline()
	tl.Rows = sampleRows(8, 120, 3, 31.5)
	return []render.Section{{ID: "verdict", Title: "Verdict", Blocks: []render.Block{f}}, {ID: "timeline", Title: "Time line", Blocks: []render.Block{tl}}, {ID: "inputs", Title: "Inputs", Blocks: []render.Block{render.Prose{Text: "One file."}}}}
}

// noFindings is the state in which nothing is to blame.
func noFindings() []render.Section {
	f := render.FirstScreen{Class: "compute-bound", Sentence: "Nothing to blame: the GPUs compute 96 % of every step, and their kernels are near what the part can do.", Caption: "A step, mean of 200 on 8 GPUs",
		Hero:    []render.Bar{{Name: "All ranks", Sub: "within 1.2 %", Total: "300 ms", Alt: "All ranks: compute 288 ms of 300 ms", Segs: []render.Seg{{Owner: "compute", Frac: 0.96, Label: "Compute 288 ms"}, {Owner: "host.launch", Frac: 0.01}, {Owner: "comm.transfer", Frac: 0.02}, {Owner: "unknown", Frac: 0.01}}}},
		CostBig: "0", CostOf: "of 300 ms a step", CostText: "No owner other than compute holds 3 % or more.", Sure: "measured", SureText: "Traces of 8 of 8 ranks, 200 steps.", UnseenBig: "14", UnseenOf: "of 97 checks unknown", UnseenText: "ECC, Xid and links were not recorded."}
	return []render.Section{{ID: "verdict", Title: "Verdict", Blocks: []render.Block{f}}}
}

// evil is what a file may hold in place of a name.
var evil = []string{`</script><img src=x onerror=alert(1)>`, `=HYPERLINK("x")`, "\u202Egnp.exe", "a\x00b\x1b[31mc", "مرحبا بالعالم", strings.Repeat("kernel_", 2000),
	`"><svg onload=alert(1)>`, `javascript:alert(1)`, `{{.}}`, "__f__alert(1)__f__", "'; alert(1);//", "<!--<script>"}

// hostile puts evil text wherever a name can stand.
func hostile() []render.Section {
	e := strings.Join(evil, " ")
	f := sampleFirst()
	f.Facts, f.Sentence, f.Lead, f.Class, f.Cause = evil, e, e, evil[0], evil[6]
	f.Hero[0].Name, f.Hero[0].Alt, f.Hero[0].Segs[3].Label, f.Hero[0].Segs[3].Tip = e, e, e, e
	f.Hero[0].Segs[4].Owner = evil[0]
	f.Do, f.Dont = []render.Do{{Lead: e, Text: e, Command: e}}, evil
	tl := sampleTimeline()
	tl.Events[0].Label, tl.Events[1].Owner, tl.Missing, tl.Rows[0].Name, tl.Rows[5].Name = e, evil[0], evil[:2], evil[0], evil[0]
	tl.Dips[0].Label, tl.Dips[0].Owner, tl.Note = evil[0], evil[0], e
	tl.Lanes[0].Title, tl.Lanes[0].Sub, tl.Lanes[0].Curves[1].Name, tl.Lanes[0].Unit = e, evil, evil[0], evil[0]
	tl.Lanes[0].Curves[1].Value[3], tl.Lanes[0].Curves[1].Value[4] = math.NaN(), math.Inf(1)
	tl.Rows[1].Steps[0].DurS, tl.Rows[2].Intervals[0].Owner, tl.Rows[3].Steps[2].Owners[0] = math.NaN(), 99, -4
	led := sampleLedger()
	sc := led[3].(render.StepChart)
	sc.Ranks[2].Name, sc.Unit, sc.Note, sc.Ranks[2].Cut[0].Label = evil[0], evil[0], e, evil[0]
	sc.Ranks[2].Owners[0].Value[0] = math.Inf(-1)
	led[3] = sc
	c := sampleChecklist()
	r := &c.Stages[2].Rows[0]
	r.Says, r.Refs, r.Do, r.Tag, r.Subject, r.Jump, r.LooksLike = e, evil, evil, evil[0], e, evil[0], e
	c.Stages[3].Rows[1].Missing[0].Command = e
	t := render.Table{Title: e, Columns: []render.Column{{Title: e}, {Title: evil[0], Num: true}, {Bar: true}}, Foot: e}
	for _, x := range evil {
		t.Rows = append(t.Rows, render.Row{Cells: []render.Cell{{Text: x, Title: x, Link: x}, {Text: x, Code: true}, {Bar: math.NaN(), BarOwner: x}}})
	}
	return []render.Section{{ID: "verdict", Title: evil[0], Blocks: []render.Block{f}}, {ID: "timeline", Title: e, Lead: e, Blocks: []render.Block{tl}}, {ID: "ledger", Title: evil[0], Blocks: led},
		{ID: "checklist", Title: "Checklist", Blocks: []render.Block{c}}, {ID: "t", Title: evil[0], Count: evil[0], Blocks: []render.Block{t, render.Commands{Items: []render.CommandItem{{N: 1, Command: e, Title: e}}}}}}
}

var sampleMeta = Meta{Title: "pretrain-1.3b, step time up since Tuesday", Version: "test", Footer: "gpureport test. Every number rests on the rows it names."}

func sampleMatrix() render.Matrix {
	m := render.Matrix{ID: "topology", Title: "How the cards are joined", Legend: []string{"NV#: that many NVLinks", "SYS: between NUMA nodes"}}
	for i := range 10 {
		name := fmt.Sprintf("GPU%d", i)
		if i > 7 {
			name = fmt.Sprintf("NIC%d", i-8)
		}
		m.Parts = append(m.Parts, name)
	}
	for i := range m.Parts {
		var row []render.MatrixCell
		for j := range m.Parts {
			c := render.MatrixCell{Text: "NV18", Level: 1}
			switch {
			case i == j:
				c = render.MatrixCell{Text: "X"}
			case i > 7 || j > 7:
				level := 2 + (i+j)%5
				c = render.MatrixCell{Text: []string{"PIX", "PXB", "PHB", "NODE", "SYS"}[level-2], Level: level}
			}
			row = append(row, c)
		}
		m.Cells = append(m.Cells, row)
	}
	return m
}
