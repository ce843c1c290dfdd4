package render

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

func firstScreen(r *Report) (Section, bool) {
	v := &r.Verdict
	fs := FirstScreen{Facts: headerFacts(r), Class: v.Class, Sentence: v.Sentence, Lead: v.Lead, Sure: v.Confidence}
	if v.Cause != nil {
		fs.Cause = *v.Cause
	}
	fs.Notes = dataLossNotes(r)
	fs.hero(r)
	fs.cost(r)
	fs.SureText = sureText(r)
	fs.next(r)
	fs.unseen(r)
	return Section{ID: "verdict", Title: "Verdict", Blocks: []Block{fs}}, true
}

func headerFacts(r *Report) []string {
	var out []string
	names := map[string]int{}
	var order []string
	hosts := map[string]bool{}
	for _, g := range r.GPUs {
		n := gpuModel(g.Name)
		if names[n] == 0 {
			order = append(order, n)
		}
		names[n]++
		if g.Host != nil {
			hosts[*g.Host] = true
		}
	}
	for _, n := range order {
		if n == "GPU" { // no file names the part
			out = append(out, fmt.Sprintf("%d %s", names[n], Plural(names[n], "GPU", "GPUs")))
			continue
		}
		out = append(out, fmt.Sprintf("%d × %s", names[n], n))
	}
	switch {
	case len(hosts) == 1:
		for h := range hosts {
			out = append(out, "host "+clean(h))
		}
	case len(hosts) > 1:
		out = append(out, fmt.Sprintf("%d hosts", len(hosts)))
	}
	if r.Window.Start != nil {
		if t, err := time.Parse(time.RFC3339Nano, *r.Window.Start); err == nil {
			out = append(out, t.UTC().Format("2 Jan 2006 15:04:05")+" UTC")
		}
	}
	n := 0
	for _, l := range r.Ledger {
		n = max(n, l.Steps)
	}
	switch {
	case n > 0:
		out = append(out, fmt.Sprintf("%s in %s", nSteps(n), Dur(float64(r.Ledger[0].WindowNS), 3)))
	case r.Window.DurNS > 0:
		out = append(out, Dur(float64(r.Window.DurNS), 3))
	}
	return out
}

// gpuModel is the part's name without the maker's prefix.
func gpuModel(name string) string {
	if name == "" {
		return "GPU"
	}
	return clean(strings.TrimPrefix(strings.TrimPrefix(name, "NVIDIA "), "GeForce "))
}

func dataLossNotes(r *Report) []Note {
	var out []Note
	n, files := 0, map[string]bool{}
	var first *Problem
	for i := range r.Problems {
		p := &r.Problems[i]
		if p.Severity == "info" {
			continue
		}
		n++
		files[p.Path] = true
		if first == nil {
			first = p
		}
	}
	if first == nil {
		return nil
	}
	note := Note{Strong: fmt.Sprintf("%s %s damaged or could not be read whole.", NumberWord(len(files)), Plural(len(files), "input is", "inputs are")), Link: "#inputs",
		LinkText: fmt.Sprintf("%d %s", n, Plural(n, "problem", "problems"))}
	note.Text = first.Path + ": " + first.Message
	return append(out, note)
}

func gpuLabel(r *Report, id string) string {
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.ID == id {
			if g.Rank != nil {
				return fmt.Sprintf("GPU %s, rank %d", strings.TrimPrefix(id, "gpu"), *g.Rank)
			}
			return "GPU " + strings.TrimPrefix(id, "gpu")
		}
	}
	return id
}

// scale is the ns that a full bar stands for: the longest mean step, or the longest window.
func ledgerScale(r *Report) (ns float64, steps bool) {
	for i := range r.Ledger {
		l := &r.Ledger[i]
		v := float64(l.WindowNS)
		if l.Steps > 0 {
			v /= float64(l.Steps)
			steps = true
		}
		ns = max(ns, v)
	}
	return ns, steps
}

func perStep(l *LedgerRow) float64 {
	if l.Steps > 0 {
		return float64(l.Steps)
	}
	return 1
}

// bar stacks a ledger row's owners in the order in which they ran; families of one owner are merged by owner, not by family.
func (r *Report) bar(l *LedgerRow, scale float64, wait string) Bar {
	b := Bar{Total: Dur(float64(l.WindowNS)/perStep(l), 3)}
	seen := map[string]bool{}
	var order []string
	for _, o := range l.Order {
		if !seen[o] {
			seen[o] = true
			order = append(order, o)
		}
	}
	for o := timeline.Owner(0); o < timeline.NOwners; o++ {
		if !seen[o.String()] {
			order = append(order, o.String())
		}
	}
	// interruptions last
	sort.SliceStable(order, func(i, j int) bool { return pause(order[i]) < pause(order[j]) })
	var alt []string
	for _, o := range order {
		ns := float64(l.Owners[o])
		if ns <= 0 || scale <= 0 {
			continue
		}
		own, _ := timeline.ParseOwner(o)
		word := OwnerWord(own)
		d := Dur(ns/perStep(l), 3)
		seg := Seg{Owner: o, Frac: ns / perStep(l) / scale, Label: word + " · " + Dur(ns/perStep(l), 2), Short: word, Tip: word + " " + d}
		if o == "comm.peer-wait" && wait != "" {
			seg.Label, seg.Short = wait+" · "+Dur(ns/perStep(l), 2), "waits"
		}
		b.Segs = append(b.Segs, seg)
		if ns/float64(l.WindowNS) >= 0.01 {
			alt = append(alt, word+" "+d)
		}
	}
	b.Side = float64(l.Side.HiddenComm) / perStep(l) / max(scale, 1)
	b.Alt = strings.Join(alt, ", ")
	return b
}

func pause(o string) int {
	switch o {
	case "host.checkpoint", "host.validation", "host.logging", "host.profiler":
		return 1
	}
	return 0
}

func (fs *FirstScreen) hero(r *Report) {
	if len(r.Ledger) == 0 {
		if lane, ok := utilisationLane(r); ok {
			lane.Dips = dipMarks(r)
			fs.HeroCurve = &lane
			fs.Caption = "Utilisation as sampled; held by: ?"
		}
		return
	}
	scale, steps := ledgerScale(r)
	n := 0
	for _, l := range r.Ledger {
		n = max(n, l.Steps)
	}
	if n == 1 {
		fs.Caption = "The one step recorded, owners in the order in which they ran"
	} else if steps {
		fs.Caption = fmt.Sprintf("A step, mean of %s, owners in the order in which they ran", Count(int64(n)))
	} else {
		fs.Caption = "The whole window, first to last device operation: no steps were found"
	}
	typical, odd := typicalRows(r)
	add := func(i int, sub, wait string) {
		l := &r.Ledger[i]
		b := r.bar(l, scale, wait)
		b.Name, b.Sub = rowName(r, l), sub
		b.Alt = b.Name + ": " + b.Alt
		fs.Hero = append(fs.Hero, b)
	}
	switch {
	case r.Verdict.Class == "straggler" && r.Verdict.CulpritRank != nil && odd >= 0:
		add(typical, "like the others", fmt.Sprintf("waits for rank %d", *r.Verdict.CulpritRank))
		add(odd, "the late one", "waits")
	case r.Verdict.Class == "hardware" && odd >= 0 && odd != typical:
		add(typical, "typical", "waits for a peer")
		add(odd, "the faulty one", "waits for a peer")
	default:
		add(typical, spreadText(r), "waits for a peer")
	}
}

func rowName(r *Report, l *LedgerRow) string {
	if len(r.Ledger) == 1 {
		return "GPU " + strings.TrimPrefix(l.GPU, "gpu")
	}
	if l.Rank != nil {
		return fmt.Sprintf("Rank %d", *l.Rank)
	}
	return "GPU " + strings.TrimPrefix(l.GPU, "gpu")
}

// typicalRows gives the row of median compute among those that are not to blame, and the blamed one (-1 none).
func typicalRows(r *Report) (typical, odd int) {
	odd = -1
	blamed := ""
	if r.Verdict.Class == "hardware" {
		for _, c := range r.Checks {
			if c.Outcome == "finding" && c.Stage == "hw" && c.Subject.Kind == "gpu" {
				blamed = c.Subject.ID
				break
			}
		}
	}
	var rest []int
	for i := range r.Ledger {
		l := &r.Ledger[i]
		if (r.Verdict.CulpritRank != nil && l.Rank != nil && *l.Rank == *r.Verdict.CulpritRank) || (blamed != "" && l.GPU == blamed) {
			odd = i
			continue
		}
		rest = append(rest, i)
	}
	if len(rest) == 0 {
		return max(odd, 0), odd
	}
	sort.SliceStable(rest, func(i, j int) bool {
		return r.Ledger[rest[i]].Owners["comm.peer-wait"] < r.Ledger[rest[j]].Owners["comm.peer-wait"]
	})
	return rest[len(rest)/2], odd
}

func spreadText(r *Report) string {
	if len(r.Ledger) < 2 {
		return ""
	}
	lo, hi := r.shareOfRow(0), r.shareOfRow(0)
	for i := range r.Ledger {
		s := r.shareOfRow(i)
		lo, hi = min(lo, s), max(hi, s)
	}
	if Pct(lo) == Pct(hi) {
		return fmt.Sprintf("one of %d; all compute %s", len(r.Ledger), Pct(lo))
	}
	return fmt.Sprintf("one of %d; compute %s to %s", len(r.Ledger), Pct(lo), Pct(hi))
}

func (r *Report) shareOfRow(i int) float64 {
	l := &r.Ledger[i]
	if l.WindowNS == 0 {
		return 0
	}
	return float64(l.Owners["compute"]) / float64(l.WindowNS)
}

func (fs *FirstScreen) cost(r *Report) {
	step, steps := r.meanStep()
	v := &r.Verdict
	of := "a step"
	if !steps {
		of = "recorded"
	}
	switch {
	case v.Class == "compute-bound":
		fs.CostBig, fs.CostOf = "0", "of "+Dur(step, 3)+" "+of
		fs.CostText = "No owner other than compute can return 5 % or more."
	case v.RecoverableFrac == nil || step == 0:
		fs.CostBig = "unknown"
		fs.CostText = "A share of samples is a symptom, not a saving."
		if len(r.Ledger) > 0 || len(r.Series) == 0 {
			fs.CostText = "What these files show does not allow a saving to be computed."
		}
	default:
		fs.CostBig, fs.CostOf = Dur(*v.RecoverableFrac*step, 2), "of "+Dur(step, 3)+" "+of
		fs.CostText = fmt.Sprintf("At most %s of the run can return.", Pct(*v.RecoverableFrac))
		if v.Next != nil && *v.Next != "" {
			fs.CostText += " The next limiter would be " + *v.Next + "."
		}
	}
}

func sureText(r *Report) string {
	var parts []string
	ranks, world := map[int]bool{}, 0
	for _, g := range r.GPUs {
		if g.Rank != nil {
			ranks[*g.Rank] = true
		}
	}
	if r.WorldSize != nil {
		world = *r.WorldSize
	}
	if len(r.Ledger) > 0 {
		switch {
		case world > 1:
			parts = append(parts, fmt.Sprintf("Traces of %d of %d ranks.", len(ranks), world))
		default:
			parts = append(parts, fmt.Sprintf("%s of %s %s.", Plural(len(r.Ledger), "A trace", "Traces"), NumberWordLower(len(r.Ledger)), Plural(len(r.Ledger), "GPU", "GPUs")))
		}
		u := r.shareOf(timeline.UnknownOwner)
		s := "The ledger closes"
		if r.SumErrorNS != 0 {
			s = "The ledger does not close: report this as a bug"
		}
		if u == 0 {
			parts = append(parts, s+"; none of it is unknown.")
		} else {
			parts = append(parts, fmt.Sprintf("%s; %s of it is unknown.", s, Pct(u)))
		}
		for _, m := range r.StepMarks {
			if m.How == "none" {
				parts = append(parts, "No steps were found.")
				break
			} else if m.Confidence != "measured" {
				parts = append(parts, "Steps were found by "+strings.ReplaceAll(m.How, "-", " ")+".")
				break
			}
		}
	} else {
		parts = append(parts, "Pattern only. A hint asks for a capture and for nothing else.")
	}
	return strings.Join(parts, " ")
}

// NumberWordLower is a count inside a sentence.
func NumberWordLower(n int) string { return strings.ToLower(NumberWord(n)) }

func (fs *FirstScreen) next(r *Report) {
	v := &r.Verdict
	for _, s := range v.Do {
		lead, text := splitLead(s)
		if text != "" || lead == s {
			lead, text = stopped(lead, text)
		}
		fs.Do = append(fs.Do, Do{Lead: lead, Text: text})
	}
	if c := v.Record; c != nil {
		if v.RecordFor != nil {
			fs.Do[*v.RecordFor].Command = c.Command
		} else {
			fs.Do = append(fs.Do[:min(len(fs.Do), 1)], Do{Lead: "Record " + c.Title, Text: ", " + c.Where + ":", Command: c.Command})
		}
	}
	fs.Dont = v.Dont
	if len(fs.Dont) > 1 {
		fs.Dont = fs.Dont[:1]
	}
	for i, s := range fs.Dont {
		s, _ = stopped(s, "")
		fs.Dont = append([]string{}, fs.Dont...)
		fs.Dont[i] = s
	}
}

// splitLead cuts an advice at its first comma, colon or full stop, so that the imperative stands out.
func splitLead(s string) (lead, text string) {
	s = strings.TrimSpace(s)
	for i, c := range s {
		if i >= 90 {
			break
		}
		if i > 3 && c == ':' || i > 8 && (strings.ContainsRune(",;", c) || c == '(' && s[i-1] == ' ') { // a bracket of its own, not that of a call
			return strings.TrimSpace(s[:i]), s[i:]
		}
		if i > 8 && c == '.' && strings.HasPrefix(s[i+1:], " ") {
			return s[:i+1], s[i+1:]
		}
	}
	if lead, text, ok := strings.Cut(s, ". "); ok {
		return lead + ".", " " + text
	}
	return s, ""
}

// stopped ends an advice with a full stop.
func stopped(lead, text string) (string, string) {
	whole := lead + text
	if whole == "" || strings.ContainsAny(whole[len(whole)-1:], ".:!?") {
		return lead, text
	}
	if text == "" {
		return lead + ".", ""
	}
	return lead, text + "."
}

// nSteps is a count of steps in words.
func nSteps(n int) string { return Count(int64(n)) + " " + Plural(n, "step", "steps") }

// answeredOf says how many of the unknown checks the plan answers.
func answeredOf(n, unknown int) string {
	if n == unknown {
		return fmt.Sprintf("all %d", n)
	}
	return fmt.Sprintf("%d of the %d", n, unknown)
}

func (fs *FirstScreen) unseen(r *Report) {
	out := ruleOutcomes(r)
	unknown := 0
	for _, o := range out {
		if o.Outcome == "unknown" {
			unknown++
		}
	}
	fs.UnseenBig, fs.UnseenOf = itoa(unknown), fmt.Sprintf("of %d checks unknown", len(out))
	fs.UnseenText = unseenText(r)
	if len(r.CapturePlan) > 0 {
		n := answered(r)
		k := len(r.CapturePlan)
		fs.UnseenLink = fmt.Sprintf("%s %s %s", NumberWord(k), Plural(k, "command answers", "commands answer"), answeredOf(n, unknown))
	}
}

// answered counts the unknown rules that the capture plan answers.
func answered(r *Report) int {
	unknown := map[string]bool{}
	for _, o := range ruleOutcomes(r) {
		if o.Outcome == "unknown" {
			unknown[o.ID] = true
		}
	}
	seen := map[string]bool{}
	for _, c := range r.CapturePlan {
		for _, id := range c.Answers {
			if unknown[id] {
				seen[id] = true
			}
		}
	}
	return len(seen)
}

func unseenText(r *Report) string {
	kinds := map[string]bool{}
	for _, in := range r.Inputs {
		if in.Used {
			kinds[in.Format] = true
		}
	}
	var no []string
	if len(r.Summaries) > 0 {
		no = append(no, "Only sums were recorded: no step, no gap and no launch.")
	} else if !kinds["torchprof"] && !kinds["nsys"] && !kinds["nsys-stats"] {
		what := "No step, no kernel and no host thread was recorded."
		if len(r.StepLogs) > 0 {
			what = "No kernel and no host thread was recorded."
		}
		no = append(no, what)
	}
	var clocks, power, temps, reasons, links bool // whatever tool recorded them
	var metrics []string
	for i := range r.Series {
		metrics = append(metrics, r.Series[i].Metric)
	}
	for i := range r.OffAxis {
		metrics = append(metrics, r.OffAxis[i].Metric)
	}
	for _, m := range metrics {
		switch m {
		case timeline.ClockSM.Name, timeline.ClockMem.Name:
			clocks = true
		case timeline.Power.Name:
			power = true
		case timeline.TempGPU.Name, timeline.TempMem.Name, timeline.TempMargin.Name:
			temps = true
		case timeline.Reasons.Name, timeline.ThrottlePower.Name, timeline.ThrottleSWThermal.Name, timeline.ThrottleHWThermal.Name:
			reasons = true
		case timeline.PCIeGen.Name, timeline.PCIeWidth.Name:
			links = true
		}
	}
	none := func(words []string, has ...bool) {
		var miss []string
		for i, ok := range has {
			if !ok {
				miss = append(miss, words[i])
			}
		}
		if n := len(miss); n > 0 {
			text := "No " + miss[n-1] + "."
			if n > 1 {
				text = "No " + strings.Join(miss[:n-1], ", ") + " or " + miss[n-1] + "."
			}
			no = append(no, text)
		}
	}
	none([]string{"clocks", "power", "temperatures"}, clocks, power, temps)
	if clocks || power || temps {
		none([]string{"clock reasons", "link state"}, reasons, links)
	}
	if !kinds["sysstat"] && !kinds["gpureport-record"] {
		no = append(no, "No CPUs and no disks.")
	}
	if !kinds["kernel-log"] {
		no = append(no, "No kernel log.")
	}
	return strings.Join(no, " ")
}

// RuleOutcome is one rule over all its subjects: a finding if any, else unknown if any, else pass if any, else not asked.
type RuleOutcome struct {
	ID, Stage, Outcome string
	Checks             []int // positions in Report.Checks, the one that speaks for the rule first
}

var outcomeRank = map[string]int{"finding": 3, "unknown": 2, "pass": 1, "not-asked": 0}

// ruleOutcomes folds the checks by rule, in checklist order.
func ruleOutcomes(r *Report) []RuleOutcome {
	var out []RuleOutcome
	at := map[string]int{}
	for i := range r.Checks {
		c := &r.Checks[i]
		k, ok := at[c.ID]
		if !ok {
			k = len(out)
			at[c.ID] = k
			out = append(out, RuleOutcome{ID: c.ID, Stage: c.Stage, Outcome: c.Outcome})
		}
		o := &out[k]
		if outcomeRank[c.Outcome] > outcomeRank[o.Outcome] {
			o.Outcome = c.Outcome
		}
		o.Checks = append(o.Checks, i)
	}
	for k := range out {
		o := &out[k]
		sort.SliceStable(o.Checks, func(a, b int) bool {
			x, y := &r.Checks[o.Checks[a]], &r.Checks[o.Checks[b]]
			if outcomeRank[x.Outcome] != outcomeRank[y.Outcome] {
				return outcomeRank[x.Outcome] > outcomeRank[y.Outcome]
			}
			return saving(x) > saving(y)
		})
	}
	return out
}
