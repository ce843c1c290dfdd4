package render

import (
	"math"
	"sort"
	"strings"
	"time"

	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

// Input is everything a report is made of.
type Input struct {
	Version, Title string
	In             *facts.Input // Base's sources, clocks and problems are the report's
	Facts          *facts.Set
	Checks         []engine.Check
	Verdict        engine.Verdict
	Said           []string // flags by which the user said what no file says
	Wall           bool     // Time 0 is the Unix epoch, so that the window has a wall time
}

// Limits on what the report keeps; see PRODUCT: kernels, series.
const (
	maxKernels    = facts.KernelsKept
	maxPoints     = 2000
	maxIntervals  = 60000 // interval rows over all kept windows
	keptDips      = 20
	intervalsDips = 4
)

// Build makes the report's data. The same input gives the same bytes.
func Build(in *Input) *Report {
	r := &Report{Schema: Schema, Tool: Tool{"gpureport", in.Version}, Title: clean(in.Title)}
	b := &builder{in: in, r: r, job: in.In.Job, base: in.In.Base, w: in.In.Window, found: facts.Dips(in.In)}
	r.Window = Window{DurNS: int64(b.w.Dur())}
	if in.Wall && !b.w.Empty() {
		s := time.Unix(0, int64(b.w.Start)).UTC().Format(time.RFC3339Nano)
		r.Window.Start = &s
	}
	b.gpus()
	b.inputs()
	b.ledger()
	b.waits()
	b.stepLogs()
	b.ranks()
	b.dips()
	b.intervals()
	b.tables()
	b.series()
	b.machine()
	b.activity()
	b.work()
	b.unknowns()
	b.slowSteps()
	b.summaries()
	b.checks()
	b.facts()
	b.plan()
	b.verdict()
	b.whatIfs()
	fillEmpty(r)
	return r
}

type builder struct {
	in    *Input
	r     *Report
	job   *ledger.Job
	base  *timeline.Timeline
	w     timeline.Interval
	found []facts.Dip
	owner map[timeline.DeviceID]string // GPU id of a logged device
	asks  map[string]string            // recipe of each advice that asks for a recording
}

func (b *builder) rel(t timeline.Time) int64 { return int64(t - b.w.Start) }

func rankOf(p *timeline.Process) *int {
	if p.Rank < 0 {
		return nil
	}
	n := p.Rank
	return &n
}

func strOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (b *builder) gpus() {
	b.owner = map[timeline.DeviceID]string{}
	for _, c := range facts.Cards(b.in.In) {
		row := GPU{ID: c.ID, Name: c.Name, Host: strOrNil(c.Host), UUID: strOrNil(c.UUID)}
		if c.Rank >= 0 {
			n := c.Rank
			row.Rank = &n
		}
		if c.Index >= 0 {
			n := c.Index
			row.Index = &n
		}
		for _, id := range c.Devices {
			b.owner[id] = c.ID
			d := &b.base.Devices[id]
			if row.Name == "" {
				row.Name = d.Name
			}
			if row.UUID == nil {
				row.UUID = strOrNil(d.UUID)
			}
			if row.Match == nil {
				row.Match = strOrNil(d.How)
			}
			if d.Index >= 0 {
				n := d.Index
				row.Index = &n // NVML's wins over the CUDA ordinal
			}
		}
		b.r.GPUs = append(b.r.GPUs, row)
	}
}

func (b *builder) inputs() {
	base := b.base
	counts := map[string]int64{}
	for _, p := range append(append([]timeline.Problem{}, base.Problems...), b.job.Problems...) {
		row := Problem{Code: p.Code, Severity: p.Severity.String(), Path: p.Path, Message: clean(p.Message), Count: p.Count}
		if p.Path != "" {
			n := p.Row
			row.Row = &n
		}
		counts[p.Path] += p.Count
		b.r.Problems = append(b.r.Problems, row)
	}
	sort.SliceStable(b.r.Problems, func(i, j int) bool {
		x, y := &b.r.Problems[i], &b.r.Problems[j]
		if x.Severity != y.Severity {
			return sevRank(x.Severity) > sevRank(y.Severity)
		}
		if x.Path != y.Path {
			return x.Path < y.Path
		}
		return x.Code < y.Code
	})
	b.r.Inputs = Inputs(base, b.w)
	for _, s := range b.in.Said {
		b.r.Said = append(b.r.Said, clean(s))
	}
	for i := range b.r.Inputs {
		b.r.Inputs[i].Problems = counts[b.r.Inputs[i].Path]
	}
	for _, c := range base.Clocks {
		row := ClockRow{Name: c.Name, How: c.How.String(), Why: clean(c.Why)}
		if c.How != timeline.Unplaced {
			o, e := int64(c.Offset), int64(c.Error)
			row.OffsetNS, row.ErrorNS = &o, &e
		}
		b.r.Clocks = append(b.r.Clocks, row)
	}
}

// Inputs lists every file or archive member: what it is, and what of window w it covers.
func Inputs(base *timeline.Timeline, w timeline.Interval) []InputRow {
	counts := map[string]int64{}
	for _, p := range base.Problems {
		counts[p.Path] += p.Count
	}
	out := []InputRow{}
	for i := range base.Sources {
		s := &base.Sources[i]
		row := InputRow{Path: s.Path, Format: s.Format, Bytes: s.Bytes, SHA256: s.SHA256, Rows: s.Rows, Used: s.Used, Problems: counts[s.Path],
			Covers: strOrNil(s.Covers), Note: clean(s.Note), Holes: []Span{}}
		if s.Format == "unknown" {
			row.Note = strings.TrimPrefix(row.Note+"; it begins: "+clean(s.Head), "; ")
		}
		if s.Used && int(s.Clock) >= 0 && int(s.Clock) < len(base.Clocks) {
			row.Clock = strOrNil(base.Clocks[s.Clock].Name)
		}
		if s.Used && len(s.Coverage) > 0 && !w.Empty() {
			frac, holes := coverage(s.Coverage, w)
			row.CoverageFrac = &frac
			for _, h := range holes {
				row.Holes = append(row.Holes, Span{int64(h.Start - w.Start), int64(h.Dur())})
			}
		}
		out = append(out, row)
	}
	return out
}

func sevRank(s string) int {
	switch s {
	case "error":
		return 2
	case "data-loss":
		return 1
	}
	return 0
}

// coverage gives the share of w that ivs (sorted, disjoint) cover and the holes between them.
func coverage(ivs []timeline.Interval, w timeline.Interval) (float64, []timeline.Interval) {
	var covered int64
	var holes []timeline.Interval
	at := w.Start
	for _, iv := range ivs {
		s, e := max(iv.Start, w.Start), min(iv.End, w.End)
		if e <= s {
			continue
		}
		if s > at {
			holes = append(holes, timeline.Interval{Start: at, End: s})
		}
		if e > at {
			covered += int64(e - max(s, at))
			at = e
		}
	}
	if at < w.End {
		holes = append(holes, timeline.Interval{Start: at, End: w.End})
	}
	if len(holes) > 50 {
		holes = holes[:50]
	}
	return float64(covered) / float64(w.Dur()), holes
}

func owners(o *timeline.Owners, all bool) map[string]int64 {
	m := map[string]int64{}
	for i, v := range o {
		if v != 0 || all {
			m[timeline.Owner(i).String()] = v
		}
	}
	return m
}

func (b *builder) ledger() {
	for _, g := range b.job.GPUs {
		red := b.job.Ranks[g.Rank]
		l := &red.GPUs[g.GPU]
		row := LedgerRow{GPU: g.ID, Rank: rankOf(&red.Process), WindowNS: int64(l.Window.Dur()), StartNS: b.rel(l.Window.Start), Steps: len(l.Steps),
			Owners: owners(&l.Owners, true), Side: Side(l.Side), BusyNS: l.Busy}
		for _, o := range l.Order {
			row.Order = append(row.Order, o.String())
		}
		b.r.Ledger = append(b.r.Ledger, row)
		// the rule is checked here once more, on what is printed
		b.r.SumErrorNS += abs(l.SumError) + abs(l.Owners.Sum()-row.WindowNS)
		for i := range l.Steps {
			s := &l.Steps[i]
			idx := int64(i)
			if i < len(red.Steps.Index) {
				idx = red.Steps.Index[i]
			}
			b.r.SumErrorNS += abs(s.Owners.Sum() - s.Dur)
			b.r.Steps = append(b.r.Steps, Step{GPU: g.ID, Rank: row.Rank, Index: idx, StartNS: b.rel(s.Start), DurNS: s.Dur, Owners: owners(&s.Owners, false)})
		}
	}
	for _, red := range b.job.Ranks {
		b.r.StepMarks = append(b.r.StepMarks, StepMarks{Rank: rankOf(&red.Process), Path: red.Path, How: red.Steps.How, Confidence: red.Steps.Confidence.String(),
			Steps: len(red.Steps.Index), Dropped: red.Steps.Dropped})
	}
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func (b *builder) waits() {
	type key struct {
		rank  int
		owner timeline.Owner
	}
	sum := map[key]int64{}
	var keys []key
	for _, w := range b.job.Waits {
		k := key{w.Culprit, w.Owner}
		if _, ok := sum[k]; !ok {
			keys = append(keys, k)
		}
		sum[k] += w.DurNS
	}
	sort.SliceStable(keys, func(i, j int) bool {
		if sum[keys[i]] != sum[keys[j]] {
			return sum[keys[i]] > sum[keys[j]]
		}
		if keys[i].rank != keys[j].rank {
			return keys[i].rank < keys[j].rank
		}
		return keys[i].owner < keys[j].owner
	})
	for _, k := range keys {
		row := WaitRow{Owner: k.owner.String(), DurNS: sum[k]}
		if k.rank >= 0 {
			n := k.rank
			row.CulpritRank = &n
		}
		b.r.Waits = append(b.r.Waits, row)
	}
}

func (b *builder) dips() {
	b.r.DipsCount = len(b.found)
	for i, d := range b.found {
		if i == keptDips {
			break
		}
		row := Dip{ID: letters(i), GPUs: d.GPUs, StartNS: b.rel(d.Window.Start), DurNS: int64(d.Window.Dur()), FromFrac: d.From, ToFrac: d.To,
			Owners: owners(&d.Owners, false)}
		for _, ref := range d.Refs {
			row.Refs = append(row.Refs, ref.String())
		}
		b.r.Dips = append(b.r.Dips, row)
	}
}

func letters(i int) string {
	s := string(rune('a' + i%26))
	if i >= 26 {
		s = string(rune('a'+i/26-1)) + s
	}
	return s
}

// intervals keeps the windows whose ledger can be drawn interval by interval: slowest, median and first step, dips.
func (b *builder) intervals() {
	type want struct {
		iv  timeline.Interval
		why string
	}
	left := maxIntervals
	add := func(g ledger.GPURef, w want) {
		l := &b.job.Ranks[g.Rank].GPUs[g.GPU]
		rows := clipSegments(b, &l.Segments, w.iv)
		if len(rows) == 0 || len(rows) > left {
			return
		}
		left -= len(rows)
		b.r.Intervals = append(b.r.Intervals, Intervals{GPU: g.ID, StartNS: b.rel(w.iv.Start), DurNS: int64(w.iv.Dur()), Why: w.why, Rows: rows})
	}
	var wants []want
	if len(b.job.GPUs) > 0 {
		// One choice for all GPUs, by the first GPU with steps, so that the rows of a window line up.
		for _, g := range b.job.GPUs {
			st := b.job.Ranks[g.Rank].GPUs[g.GPU].Steps
			if len(st) == 0 {
				continue
			}
			order := make([]int, len(st))
			for i := range order {
				order[i] = i
			}
			sort.SliceStable(order, func(i, j int) bool { return st[order[i]].Dur < st[order[j]].Dur })
			three := func(i int) timeline.Interval {
				lo, hi := max(i-1, 0), min(i+1, len(st)-1)
				return timeline.Interval{Start: st[lo].Start, End: st[hi].Start + timeline.Time(st[hi].Dur)}
			}
			wants = append(wants, want{three(order[len(order)-1]), "slowest step"}, want{three(order[len(order)/2]), "median step"}, want{three(0), "first step"})
			break
		}
		for i, d := range b.found {
			if i == intervalsDips {
				break
			}
			wants = append(wants, want{d.Window, "dip " + letters(i)})
		}
		if len(wants) == 0 {
			g := b.job.GPUs[0]
			wants = append(wants, want{b.job.Ranks[g.Rank].GPUs[g.GPU].Window, "whole window"})
		}
	}
	for _, w := range wants {
		for _, g := range b.job.GPUs {
			add(g, w)
		}
	}
}

// clipSegments cuts segments to iv and joins neighbours of one owner.
func clipSegments(b *builder, segs *timeline.Segments, iv timeline.Interval) []IntervalRow {
	var out []IntervalRow
	for g := range segs.From(iv.Start) {
		if g.Start >= iv.End {
			break
		}
		s, e := max(g.Start, iv.Start), min(g.Start+timeline.Time(g.Dur), iv.End)
		if e <= s {
			continue
		}
		name := g.Owner.String()
		if n := len(out); n > 0 && out[n-1].Owner == name && out[n-1].StartNS+out[n-1].DurNS == b.rel(s) {
			out[n-1].DurNS += int64(e - s)
			continue
		}
		out = append(out, IntervalRow{b.rel(s), int64(e - s), name})
	}
	return out
}

func (b *builder) series() {
	base := b.base
	for i := range base.Series {
		s := &base.Series[i]
		tr := &base.Tracks[s.Track]
		if tr.Kind == timeline.TrackSteps {
			continue // see stepLogs
		}
		row := Series{Metric: s.Metric.Name, Unit: string(s.Metric.Unit), Path: base.Sources[tr.Source].Path, Covers: s.Metric.Covers.String(),
			WindowNS: int64(s.Metric.Window)}
		if tr.Device >= 0 {
			row.Subject = b.owner[tr.Device]
			if row.Subject == "" {
				row.Subject = "unmatched " + deviceWord(&base.Devices[tr.Device])
			}
		} else if row.Subject = "host"; tr.Kind == timeline.TrackNIC {
			row.Subject = tr.Name
			if h := base.Sources[tr.Source].Host; h != "" && len(b.in.Facts.Of(facts.Host)) > 1 {
				row.Subject = h + " " + tr.Name
			}
		}
		if c := base.Sources[tr.Source].Clock; int(c) >= 0 && int(c) < len(base.Clocks) {
			row.Clock = base.Clocks[c].Name
		}
		if b.offAxis(s, &row) {
			continue
		}
		at, val := thin(s.At, s.Value, b.w, maxPoints)
		for _, t := range at {
			row.AtNS = append(row.AtNS, b.rel(t))
		}
		row.Value = val
		if len(row.AtNS) > 0 {
			b.r.Series = append(b.r.Series, row)
		}
	}
}

func deviceWord(d *timeline.Device) string {
	if d.Index >= 0 {
		return "index " + itoa(d.Index)
	}
	if d.UUID != "" {
		return d.UUID
	}
	return "device"
}

// thin keeps at most n readings inside w: lowest and highest of each bucket, so that no dip and no peak is lost.
func thin(at []timeline.Time, val []float64, w timeline.Interval, n int) ([]timeline.Time, []float64) {
	lo := sort.Search(len(at), func(i int) bool { return at[i] >= w.Start })
	hi := sort.Search(len(at), func(i int) bool { return at[i] > w.End })
	at, val = at[lo:hi], val[lo:hi]
	if len(at) <= n {
		return at, val
	}
	var oa []timeline.Time
	var ov []float64
	buckets := n / 2
	for k := 0; k < buckets; k++ {
		s, e := k*len(at)/buckets, (k+1)*len(at)/buckets
		mi, ma := s, s
		for i := s; i < e; i++ {
			if val[i] < val[mi] {
				mi = i
			}
			if val[i] > val[ma] {
				ma = i
			}
		}
		if mi > ma {
			mi, ma = ma, mi
		}
		oa, ov = append(oa, at[mi]), append(ov, val[mi])
		if ma != mi {
			oa, ov = append(oa, at[ma]), append(ov, val[ma])
		}
	}
	return oa, ov
}

func (b *builder) checks() {
	for i := range b.in.Checks {
		c := &b.in.Checks[i]
		row := Check{ID: c.Rule.ID, Stage: c.Rule.Stage, Title: c.Rule.Title, Outcome: c.Outcome.String(), Says: c.Says,
			Subject: Subject{Kind: c.Subject.Kind.String(), ID: c.Subject.ID}, Dont: c.Dont, Overlaps: c.Overlaps, NRefs: c.NRefs,
			Numbers: map[string]*float64{}, Limits: map[string]float64{}, LimitSources: map[string]string{}, LooksLike: c.Rule.LooksLike}
		if c.Subject.Rank >= 0 && c.Subject.Kind >= facts.Rank {
			n := c.Subject.Rank
			row.Subject.Rank = &n
		}
		if c.Outcome == engine.Finding {
			s := c.Severity.String()
			row.Severity = &s
			row.RecoverableFrac = c.Saving
		}
		if c.Confidence != timeline.NoConfidence && (c.Outcome == engine.Finding || c.Outcome == engine.Pass) { // of no answer nobody is sure
			row.Confidence = strOrNil(c.Confidence.String())
		}
		for _, cl := range c.Clauses {
			row.Clauses = append(row.Clauses, Clause{cl.Text, map[engine.Outcome]string{engine.Finding: "true", engine.Pass: "false"}[cl.Outcome]})
			if row.Clauses[len(row.Clauses)-1].Is == "" {
				row.Clauses[len(row.Clauses)-1].Is = "unknown"
			}
		}
		for _, a := range c.Do {
			row.Do = append(row.Do, a.Say)
		}
		for _, n := range c.Numbers {
			if d := b.in.Facts.Decl(n.Fact); d != nil && d.Unit == "text" {
				continue
			}
			v := n.Value.Num
			if n.Value.Conf == timeline.NoConfidence && v == 0 && math.Signbit(v) {
				continue
			}
			row.Numbers[string(n.Fact)] = &v
		}
		for _, l := range c.Rule.Limits {
			row.Limits[l.Name] = l.Value
			row.LimitSources[l.Name] = l.Source
		}
		for _, w := range c.Withheld {
			row.Withheld = append(row.Withheld, Withheld{w.Say, w.Gate, w.Why, command(w.Capture)})
		}
		for _, ref := range c.Refs {
			row.Refs = append(row.Refs, ref.String())
		}
		for _, m := range c.Missing {
			row.Missing = append(row.Missing, Missing{string(m.Fact), m.Why, command(m.Capture)})
		}
		b.r.Checks = append(b.r.Checks, row)
	}
}

// facts documents what the checks' numbers are.
func (b *builder) facts() {
	named := map[string]bool{}
	for i := range b.r.Checks {
		for id := range b.r.Checks[i].Numbers {
			named[id] = true
		}
	}
	for _, d := range b.in.Facts.Decls {
		if named[string(d.ID)] {
			b.r.Facts = append(b.r.Facts, FactDoc{string(d.ID), string(d.Unit), d.Doc})
		}
	}
	if n := b.job.World; n > 0 {
		b.r.WorldSize = &n
	}
}

// command turns a recipe id into the exact command; other text stays.
func command(id string) string {
	if r, ok := facts.RecipeOf(id); ok {
		return r.Command
	}
	return id
}

// plan merges the commands that answer the unknowns, most answers first.
func (b *builder) plan() {
	answers := map[string]map[string]bool{}
	for i := range b.in.Checks {
		c := &b.in.Checks[i]
		if c.Outcome == engine.Unknown || (c.Outcome == engine.Finding && c.Confidence == timeline.Hint) {
			for _, m := range c.Missing {
				note(answers, m.Capture, c.Rule.ID)
			}
			if c.Outcome == engine.Finding {
				note(answers, "C4", c.Rule.ID) // a hint's one action is the capture that would measure it
			}
		}
		for _, w := range c.Withheld {
			note(answers, w.Capture, c.Rule.ID)
		}
	}
	var ids []string
	for id := range answers {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool {
		if a, c := len(answers[ids[i]]), len(answers[ids[j]]); a != c {
			return a > c
		}
		return ids[i] < ids[j]
	})
	order := map[string]int{}
	for i := range b.in.Checks {
		if _, ok := order[b.in.Checks[i].Rule.ID]; !ok {
			order[b.in.Checks[i].Rule.ID] = len(order)
		}
	}
	for _, id := range ids {
		rec, ok := facts.RecipeOf(id)
		if !ok {
			continue
		}
		row := Capture{Command: rec.Command, Where: rec.Where, Title: rec.Title, Note: rec.Note}
		for rule := range answers[id] {
			row.Answers = append(row.Answers, rule)
		}
		sort.Slice(row.Answers, func(i, j int) bool { return order[row.Answers[i]] < order[row.Answers[j]] })
		b.r.CapturePlan = append(b.r.CapturePlan, row)
	}
}

func note(m map[string]map[string]bool, id, rule string) {
	if id == "" {
		return
	}
	if m[id] == nil {
		m[id] = map[string]bool{}
	}
	m[id][rule] = true
}

// clean keeps a text from a file printable and short.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return Middle(strings.TrimSpace(s), 400)
}

// fillEmpty turns nil lists into empty ones: a list that is there says "none", and null says "not known".
func fillEmpty(r *Report) {
	z(&r.Inputs)
	z(&r.Problems)
	z(&r.Clocks)
	z(&r.GPUs)
	z(&r.Ledger)
	z(&r.Waits)
	z(&r.Dips)
	z(&r.Intervals)
	z(&r.Steps)
	z(&r.Kernels)
	z(&r.Collectives)
	z(&r.Copies)
	z(&r.Series)
	z(&r.Checks)
	z(&r.CapturePlan)
	z(&r.StepMarks)
	z(&r.Machine)
	z(&r.Topology)
	z(&r.Events)
	z(&r.Summaries)
	z(&r.Facts)
	z(&r.Said)
	z(&r.Hosts)
	z(&r.Groups)
	z(&r.Chains)
	z(&r.WhatIf)
	z(&r.Lateness.Steps)
	z(&r.Lateness.Rows)
	z(&r.Verdict.Evidence)
	z(&r.Verdict.Do)
	z(&r.Verdict.Dont)
	for i := range r.Ledger {
		z(&r.Ledger[i].Order)
	}
	for i := range r.Dips {
		z(&r.Dips[i].GPUs)
		z(&r.Dips[i].Refs)
	}
	for i := range r.StepMarks {
		z(&r.StepMarks[i].Dropped)
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		z(&c.Do)
		z(&c.Dont)
		z(&c.Overlaps)
		z(&c.Withheld)
		z(&c.Refs)
		z(&c.Missing)
		z(&c.Clauses)
	}
	for i := range r.CapturePlan {
		z(&r.CapturePlan[i].Answers)
	}
}

func z[T any](s *[]T) {
	if *s == nil {
		*s = []T{}
	}
}

func (b *builder) tables() {
	in := b.in.In
	for _, k := range facts.KernelTable(in, maxKernels) {
		row := Kernel{GPU: k.GPU, Name: clean(k.Name), Class: k.Class, Count: k.Count, DurNS: k.Dur, Op: strOrNil(k.Op), Type: strOrNil(k.WorkType),
			FlopRate: someRate(k.FlopRate), ByteRate: someRate(k.ByteRate), OfPeak: someRate(k.OfPeak), OfMemory: someRate(k.OfBW)}
		row.Rank = intOrNil(k.Rank)
		if k.Shapes {
			n := k.Shaped
			row.ShapedNS = &n
		}
		if k.Median > 0 {
			m := k.Median
			row.MedianNS = &m
		}
		if k.TensorCore != 0 {
			t := k.TensorCore > 0
			row.Tensor = &t
		}
		b.r.Kernels = append(b.r.Kernels, row)
	}
	for _, c := range facts.CollectiveTable(in) {
		row := Collective{Rank: intOrNil(c.Rank), Group: c.Group, Primitive: c.Primitive, Count: c.Count, DurNS: c.Dur, ExposedNS: c.Exposed, Split: c.Split.String()}
		if c.Bytes >= 0 {
			n := c.Bytes
			row.Bytes = &n
		}
		if c.Split == timeline.NoConfidence {
			row.Split = "undivided"
		}
		if c.Undivided == 0 {
			t, w := c.Transfer, c.PeerWait
			row.TransferNS, row.PeerWaitNS = &t, &w
		}
		if c.BusBW > 0 {
			f := c.BusBW
			row.BusBW = &f
		}
		row.AlgBW, row.Expected, row.TooSmall, row.Across = someRate(c.AlgBW), someRate(c.Expected), c.Small, acrossOf(c.Across)
		b.r.Collectives = append(b.r.Collectives, row)
	}
	for _, c := range facts.CopyTable(in) {
		row := Copy{GPU: c.GPU, Rank: intOrNil(c.Rank), Kind: c.Kind, Memory: c.Memory, Count: c.Count, Bytes: c.Bytes, DurNS: c.Dur, ExposedNS: c.Exposed}
		if c.BW > 0 {
			f := c.BW
			row.BW = &f
		}
		b.r.Copies = append(b.r.Copies, row)
	}
}

func intOrNil(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// someRate is nil for a rate that is not known.
func someRate(x float64) *float64 {
	if x <= 0 {
		return nil
	}
	return &x
}

func acrossOf(side int8) *bool {
	if side == 0 {
		return nil
	}
	across := side > 0
	return &across
}
