package render

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
)

func itoa(n int) string { return strconv.Itoa(n) }

// shareOf is the mean over the GPUs of an owner's share of the window; 0 without a ledger.
func (r *Report) shareOf(owners ...timeline.Owner) float64 {
	if len(r.Ledger) == 0 {
		return 0
	}
	var sum float64
	for i := range r.Ledger {
		l := &r.Ledger[i]
		if l.WindowNS == 0 {
			continue
		}
		for _, o := range owners {
			sum += float64(l.Owners[o.String()]) / float64(l.WindowNS)
		}
	}
	return sum / float64(len(r.Ledger))
}

// unit of the ledger for sentences: a step where there are steps, else the whole window.
func (r *Report) meanStep() (ns float64, steps bool) {
	var sum float64
	n := 0
	for i := range r.Ledger {
		if l := &r.Ledger[i]; l.Steps > 0 {
			sum += float64(l.WindowNS) / float64(l.Steps)
			n++
		}
	}
	if n > 0 {
		return sum / float64(n), true
	}
	for i := range r.Ledger {
		sum += float64(r.Ledger[i].WindowNS)
		n++
	}
	if n == 0 {
		return 0, false
	}
	return sum / float64(n), false
}

func (b *builder) verdict() {
	v := b.in.Verdict
	out := Verdict{Class: v.Class, Cause: strOrNil(v.Cause), Confidence: v.Confidence.String(), RecoverableFrac: v.Recoverable, Evidence: v.Evidence, Next: strOrNil(v.Next)}
	if v.Culprit >= 0 {
		n := v.Culprit
		out.CulpritRank = &n
	}
	out.Sentence = b.sentence(v)
	out.Lead = b.lead(v)
	b.asks = b.recipes()
	out.Do, out.Dont = b.advice(v)
	var say string
	out.Record, say = b.record(v, out.Do)
	for i, s := range out.Do {
		if s == say {
			n := i
			out.RecordFor = &n
		}
	}
	b.r.Verdict = out
}

// per says "X a step" or "X of the window" for a share of the ledger's time.
func (b *builder) per(frac float64) string {
	step, steps := b.r.meanStep()
	if steps {
		return Dur(frac*step, 2) + " of " + Dur(step, 3)
	}
	return Dur(frac*step, 2) + " of the " + Dur(step, 3) + " recorded"
}

func (b *builder) top(v engine.Verdict) *Check {
	want := map[string]bool{}
	for _, id := range v.Evidence {
		want[id] = true
	}
	for _, i := range findingsBySaving(b.r) {
		if c := &b.r.Checks[i]; want[c.ID] {
			return c
		}
	}
	return nil
}

func saving(c *Check) float64 {
	if c.RecoverableFrac == nil {
		return 0
	}
	return *c.RecoverableFrac
}

func (b *builder) sentence(v engine.Verdict) string {
	r := b.r
	_, steps := r.meanStep()
	every := "Every step"
	if !steps {
		every = "The GPU"
	}
	switch v.Class {
	case "straggler":
		share := r.shareOf(timeline.CommPeerWait)
		step, _ := r.meanStep()
		if v.Culprit < 0 {
			return fmt.Sprintf("The ranks waited %s for each other, and it is not always the same one that is late.", b.per(share))
		}
		n, wait := 0, 0.0
		for i := range r.Ledger {
			l := &r.Ledger[i]
			if l.Rank != nil && *l.Rank == v.Culprit {
				continue
			}
			n++
			if l.WindowNS > 0 {
				wait += float64(l.Owners["comm.peer-wait"]) / float64(l.WindowNS)
			}
		}
		if n > 0 {
			wait /= float64(n)
		}
		return fmt.Sprintf("%s %s waited %s a step for rank %d, and rank %d was %s.", NumberWord(n), Plural(n, "GPU", "GPUs"), Dur(wait*step, 2), v.Culprit, v.Culprit, b.doing(v))
	case "data-pipeline":
		if c := b.top(v); b.beside(v) && c != nil && c.Says != "" {
			return sentence(shortened(c.Says))
		}
		return fmt.Sprintf("%s waits %s for its next batch.", every, b.per(r.shareOf(timeline.HostDataloader)))
	case "transfer":
		h, d := r.shareOf(timeline.CopyH2D), r.shareOf(timeline.CopyD2H)
		if h >= d {
			return fmt.Sprintf("%s waits %s for copies to the GPU.", every, b.per(h))
		}
		return fmt.Sprintf("%s waits %s for copies to the host.", every, b.per(d))
	case "host-bound":
		return b.hostSentence(every)
	case "interruption":
		return fmt.Sprintf("%s interrupted training: %s on average.", b.pauseWord(), b.per(r.shareOf(timeline.HostCheckpoint, timeline.HostValidation, timeline.HostLogging)))
	case "communication":
		return fmt.Sprintf("%s spends %s in collectives that no compute hides.", every, b.per(r.shareOf(timeline.CommTransfer, timeline.CommUndivided)))
	case "hardware", "compute-inefficient":
		if c := b.top(v); c != nil && c.Says != "" {
			return sentence(shortened(c.Says))
		}
		return "The " + v.Class + " findings below hold the largest share of the time."
	case "compute-bound":
		s := fmt.Sprintf("Nothing to blame: the %s %s of %s", computes(len(r.Ledger)), Pct(r.shareOf(timeline.Compute)), map[bool]string{true: "every step", false: "the window"}[steps])
		if b.passed("kernel.gemm-eff") {
			return s + ", and the kernels are near what the part can do."
		}
		return s + ", and no other owner can return 5 % of it."
	}
	return b.insufficient()
}

// beside tells whether input costs most of its time elsewhere than in waits for a batch: between epochs, or in what the main thread does itself.
func (b *builder) beside(v engine.Verdict) bool {
	return v.Recoverable != nil && b.r.shareOf(timeline.HostDataloader) < *v.Recoverable/2
}

func computes(n int) string {
	if n == 1 {
		return "GPU computes"
	}
	return "GPUs compute"
}

// verdictRunes is how long a verdict may be.
const verdictRunes = 110

// shortened leaves out the last sentences and clauses of what is too long.
func shortened(s string) string {
	for utf8.RuneCountInString(s) >= verdictRunes {
		i := max(strings.LastIndex(s, "; "), strings.LastIndex(s, ". "))
		if i < 0 {
			return s
		}
		s = s[:i]
	}
	return s
}

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return s
	}
	s = upperFirst(s)
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

func (b *builder) passed(id string) bool {
	ok := false
	for i := range b.r.Checks {
		if c := &b.r.Checks[i]; c.ID == id {
			if c.Outcome != "pass" {
				return false
			}
			ok = true
		}
	}
	return ok
}

// doing says what the late rank did while the others waited.
func (b *builder) doing(v engine.Verdict) string {
	var owner timeline.Owner = timeline.UnknownOwner
	var most int64
	for _, w := range b.job.Waits {
		if w.Culprit == v.Culprit && w.DurNS > most {
			owner, most = w.Owner, w.DurNS
		}
	}
	switch v.Cause {
	case "data-pipeline":
		return "waiting for its DataLoader"
	case "transfer":
		return "copying between host and GPU"
	case "interruption":
		return "held by " + strings.ToLower(OwnerWord(owner))
	case "hardware":
		return "running the same kernels slower"
	case "uneven-work":
		return "computing more work than the others"
	case "host-bound":
		return "held up by its host (" + strings.ToLower(OwnerWord(owner)) + ")"
	case "communication":
		return "in another group’s collectives"
	case "compute-inefficient":
		return "computing"
	}
	return "late for a reason these files do not show"
}

func (b *builder) pauseWord() string {
	c, e, l := b.r.shareOf(timeline.HostCheckpoint), b.r.shareOf(timeline.HostValidation), b.r.shareOf(timeline.HostLogging)
	switch {
	case c >= e && c >= l:
		return "Checkpoints"
	case e >= l:
		return "Validation"
	}
	return "Logging"
}

func (b *builder) hostSentence(every string) string {
	type part struct {
		o    timeline.Owner
		text string
	}
	parts := []part{{timeline.HostLaunch, "while the host launches kernels"}, {timeline.HostSync, "after the host has waited for the GPU"},
		{timeline.HostPython, "while the host runs Python"}, {timeline.HostCPUOp, "behind operators on the CPU"},
		{timeline.HostAllocator, "in the memory allocator"}, {timeline.HostCompile, "in compilation and module loading"}, {timeline.HostDescheduled, "while the launching thread is off its CPU"}}
	best := 0
	for i := range parts {
		if b.r.shareOf(parts[i].o) > b.r.shareOf(parts[best].o) {
			best = i
		}
	}
	share := b.r.shareOf(parts[best].o)
	if every == "Every step" {
		return fmt.Sprintf("The GPU stands empty %s in every step, %s.", b.per(share), parts[best].text)
	}
	return fmt.Sprintf("The GPU stands empty %s, %s.", b.per(share), parts[best].text)
}

// stepLogSentence says what a training loop's own log alone shows; "" without one.
func (b *builder) stepLogSentence() string {
	const but = "; a log of steps cannot say who held the time."
	f := b.in.Facts
	for i, s := range f.Subjects {
		if n, need := f.Get(i, "rank.step_log_steps_count"); s.Kind != facts.Rank || need != nil || n.Num < 1 {
			continue
		}
		num := func(id facts.ID) float64 { v, _ := f.Get(i, id); return v.Num }
		best, id := 0.0, ""
		for _, x := range []string{"step.changepoint", "step.drift", "step.epoch-boundary", "step.bimodal", "step.periodic", "step.outliers", "step.robust-cv"} {
			if c := b.checkOf(x); c != nil && c.Outcome == "finding" && c.RecoverableFrac != nil && *c.RecoverableFrac > best {
				best, id = *c.RecoverableFrac, x
			}
		}
		switch id {
		case "step.changepoint":
			return fmt.Sprintf("From step %.0f on steps take %s longer, and stay so%s", num("rank.step_shift_at_count"), Pct(num("rank.step_shift_frac")), but)
		case "step.drift":
			return fmt.Sprintf("Steps got %s slower from first to last%s", Pct(num("rank.step_drift_frac")), but)
		case "step.epoch-boundary":
			return fmt.Sprintf("Each epoch begins with a stall of %.0f steps%s", num("rank.epoch_edge_steps_count"), but)
		case "step.bimodal":
			return fmt.Sprintf("Steps have two speeds, one %s of the other%s", Pct(num("rank.step_modes_ratio_frac")), but)
		case "step.periodic":
			v, _ := f.Get(i, "rank.step_period_says")
			return fmt.Sprintf("Every %s a step is slow%s", v.Text, but)
		case "step.outliers":
			return fmt.Sprintf("Slow steps cost %s of all step time%s", Pct(num("rank.step_lost_outliers_frac")), but)
		case "step.robust-cv":
			return fmt.Sprintf("Step time scatters by %s of its median%s", Pct(num("rank.step_robust_cv_frac")), but)
		}
		return "No step stands out" + but
	}
	return ""
}

func (b *builder) insufficient() string {
	r := b.r
	if why := b.in.Verdict.Why; why != "" {
		if ids := b.in.Verdict.Evidence; len(ids) == 1 && strings.HasPrefix(ids[0], "step.") && len(r.Ledger) > 0 && b.checkOf(ids[0]).RecoverableFrac != nil {
			if s := b.stepLogSentence(); s != "" {
				return strings.TrimSuffix(s, "; a log of steps cannot say who held the time.") + "; only a log holds those, and it cannot say who held the time."
			}
		}
		return sentence(why)
	}
	if len(r.Ledger) > 0 {
		u := r.shareOf(timeline.UnknownOwner, timeline.GapQueuedStall)
		if b.in.Facts != nil && r.shareOf(timeline.GapQueuedStall) > r.shareOf(timeline.UnknownOwner) {
			return fmt.Sprintf("Nobody can be blamed for %s of the window: work was queued, yet the trace shows nothing running.", Pct(u))
		}
		return fmt.Sprintf("Nobody can be blamed for %s of the window: %s.", Pct(r.shareOf(timeline.UnknownOwner)), unknownWhy(r))
	}
	if len(b.job.Ranks) > 0 {
		for _, red := range b.job.Ranks {
			if red.NoLedger != "" && slices.ContainsFunc(r.Problems, func(p Problem) bool { return strings.HasSuffix(p.Code, "/truncated") }) {
				return "The trace is cut off, and what could be read of it holds no GPU activity." // not the profiler's fault, as far as one can tell
			}
			if red.NoLedger != "" {
				return sentence(red.NoLedger)
			}
		}
		return "The trace holds no GPU activity, so nobody can be named."
	}
	run := runSubject(b.in.Facts)
	v, need := b.in.Facts.Get(run, "run.sawtooth_period_s")
	swings := slices.ContainsFunc(r.Checks, func(c Check) bool { return c.ID == "idle.sawtooth" && c.Outcome == "finding" }) // noise has periods, of no depth
	if c := b.checkOf("idle.sawtooth"); need != nil && len(r.GPUs) == 1 && c != nil && c.Outcome == "finding" {              // one GPU has no common curve
		for i, s := range b.in.Facts.Subjects {
			if s.ID == r.GPUs[0].ID {
				v, need = b.in.Facts.Get(i, "gpu.sawtooth_period_s")
			}
		}
	}
	if need == nil && swings {
		n := len(r.GPUs)
		who := "The GPU drops"
		if n > 1 {
			who = "The " + itoa(n) + " GPUs drop"
			if c := b.checkOf("idle.cross-gpu"); c != nil && c.Outcome == "finding" {
				who = "All " + strings.ToLower(NumberWord(n)) + " GPUs drop together"
				if n == 2 {
					who = "Both GPUs drop together"
				}
			}
		}
		if n == 1 || who != "" {
			return fmt.Sprintf("%s every %s, and samples alone cannot say who held the time.", who, Dur(v.Num*1e9, 2))
		}
	}
	if len(r.GPUs) == 0 && len(r.Series) > 0 {
		return "Only readings of the host are here: no GPU was seen, so nobody can be named."
	}
	if c := b.checkOf("idle.sawtooth"); c != nil && c.Outcome == "unknown" && len(r.Series) > 0 {
		return "Samples alone cannot say who held the time, and these are too few to show whether it swings."
	}
	if len(r.Series) > 0 {
		return "Samples alone cannot say who held the time; no regular drop was seen in them."
	}
	if s := b.summarySentence(run); s != "" {
		return s
	}
	if s := b.stepLogSentence(); s != "" {
		return s
	}
	return "These inputs hold no GPU activity and no readings, so nothing can be concluded."
}

func (b *builder) checkOf(id string) *Check {
	for i := range b.r.Checks {
		if b.r.Checks[i].ID == id {
			return &b.r.Checks[i]
		}
	}
	return nil
}

func runSubject(set *facts.Set) int {
	for i, s := range set.Subjects {
		if s.Kind == facts.Run {
			return i
		}
	}
	return 0
}

// lead corrects the wrong reading that the curve invites.
func (b *builder) lead(v engine.Verdict) string {
	r := b.r
	comm := r.shareOf(timeline.CommPeerWait, timeline.CommTransfer, timeline.CommUndivided)
	hidden := 0.0
	for i := range r.Ledger {
		if w := r.Ledger[i].WindowNS; w > 0 {
			hidden += float64(r.Ledger[i].Side.HiddenNext) / float64(w) / float64(len(r.Ledger))
		}
	}
	switch v.Class {
	case "straggler":
		return "The waiting GPUs read as busy in nvidia-smi, because a collective’s kernel spins while it waits: utilisation cannot show who is late."
	case "communication":
		return "A GPU inside a collective reads as busy in nvidia-smi, so the utilisation curve does not show this time."
	case "data-pipeline":
		if b.beside(v) {
			return "The GPU is not the slow part: it waits for what is done before a step."
		}
		return "The GPU is not the slow part: it computes " + Pct(r.shareOf(timeline.Compute)) + " of the time and is empty until the batch is there."
	case "host-bound":
		return "A faster GPU or a faster loader would not help: the host decides when the next kernel starts."
	case "interruption":
		return "Between the interruptions the steps are as fast as the rest of this report says; the pauses are what the curve shows."
	case "compute-inefficient":
		return "Utilisation reads high, but it only says that some kernel was resident, not that it used the part well."
	case "compute-bound":
		var parts []string
		if comm > 0 {
			parts = append(parts, "communication that nothing hides takes "+Pct(comm))
		}
		if hidden > 0.01 {
			parts = append(parts, "the loader works "+Pct(hidden)+" of the time behind a busy GPU, which costs nothing")
		}
		if len(parts) == 0 {
			return "This is no statement about hardware that was not recorded: see what was not seen."
		}
		return sentence(strings.Join(parts, "; "))
	case "insufficient-evidence":
		if len(r.Summaries) > 0 && len(r.Series) == 0 {
			return "The percentages in such tables are shares of the rows listed, not of the time that passed: a GPU that was idle for hours has the same."
		}
		if len(r.Ledger) == 0 && len(r.Series) > 0 {
			return "nvidia-smi counts any resident kernel as busy and reads once in a window, so it sees neither a step nor who waited."
		}
	}
	return ""
}

// advice gives at most two things to do and the do-nots, from the findings the verdict rests on.
func (b *builder) advice(v engine.Verdict) (do, dont []string) {
	want := map[string]bool{}
	for _, id := range v.Evidence {
		want[id] = true
	}
	var list []*Check
	reason := map[*Check]int{} // of what says why others' time is lost, how many of them
	cause := map[*Check]bool{} // what the late rank itself suffers from: that is to be mended, not the wait
	for _, i := range findingsBySaving(b.r) {
		c := &b.r.Checks[i]
		if v.Cause != "" && b.in.Checks[i].Rule.Class == v.Cause && c.Subject.Rank != nil && *c.Subject.Rank == v.Culprit {
			cause[c] = true
		}
		reason[c] = b.r.explains(c, v.Evidence)
		if want[c.ID] || cause[c] || reason[c] > 0 {
			list = append(list, c)
		}
	}
	ofLateRank := func(c *Check) bool { return v.Class == "straggler" && want[c.ID] && c.Stage != "comm" }
	sort.SliceStable(list, func(i, j int) bool {
		// a rule that sets the late rank against the others comes before what any rank with that trouble would be told
		if x, y := ofLateRank(list[i]), ofLateRank(list[j]); x != y {
			return x
		}
		if x, y := cause[list[i]], cause[list[j]]; x != y {
			return x
		}
		if x, y := reason[list[i]], reason[list[j]]; x != y {
			return x > y
		}
		if v.Class != engine.InsufficientEvidence {
			return false // the order of the findings
		}
		if x, y := saving(list[i]), saving(list[j]); x != y {
			return x > y
		}
		return stageIndex[list[i].Stage] > stageIndex[list[j].Stage] // of what has no price the later stage is more to the point
	})
	seen := map[string]bool{}
	asks, asked := b.asks, map[string]int{} // recipe -> the advice in do that asks for it
	for _, c := range list {
		for _, s := range c.Do {
			if seen[s] {
				continue
			}
			seen[s] = true
			s = upperFirst(s)
			// another recording answers the same, from what is there already
			if v.Class == "insufficient-evidence" && asks[s] != "" && len(b.r.CapturePlan) > 0 && !b.planned(asks[s]) {
				continue
			}
			if k, ok := asked[asks[s]]; ok && asks[s] != "" { // one recording is asked for once; of hints by the text that says more
				if v.Class == "insufficient-evidence" && len(s) > len(do[k]) {
					do[k] = s
				}
				continue
			}
			if len(do) < 2 {
				asked[asks[s]] = len(do)
				do = append(do, s)
			}
		}
		for _, s := range c.Dont {
			if key, _, _ := strings.Cut(s, ":"); len(dont) < 2 && !seen[key] { // the same mistake, told twice
				seen[key] = true
				dont = append(dont, engine.LowerFirst(s))
			}
		}
	}
	return do, dont
}

// explains is how many findings that the verdict rests on lose their time for what this one says: it claims half of that or more, or has no
// price.
func (r *Report) explains(c *Check, evidence []string) (n int) {
	for i := range r.Checks {
		lost := &r.Checks[i]
		if lost.Outcome == "finding" && slices.Contains(evidence, lost.ID) && slices.Contains(behind[lost.ID], c.ID) &&
			(lost.Subject.ID == c.Subject.ID || c.Subject.ID == "run") && (c.RecoverableFrac == nil && severity(c) != "info" || saving(c) > 0 && saving(c) >= saving(lost)/2) {
			n++
		}
	}
	return n
}

// planned tells whether the capture plan holds a recipe.
func (b *builder) planned(id string) bool {
	rec, ok := facts.RecipeOf(id)
	return ok && slices.ContainsFunc(b.r.CapturePlan, func(c Capture) bool { return c.Command == rec.Command })
}

// recipes gives for each advice that asks for a recording its recipe.
func (b *builder) recipes() map[string]string {
	asks := map[string]string{}
	for i := range b.in.Checks {
		for _, a := range b.in.Checks[i].Do {
			asks[upperFirst(a.Say)] = a.Capture
		}
	}
	return asks
}

// record picks the next command, and the advice it belongs to: what the evidence's own advice or its withheld advice asks for; else the first of the plan where that
// answers enough to be worth it.
func (b *builder) record(v engine.Verdict, do []string) (c *Capture, say string) {
	pick := func(id string) *Capture {
		rec, ok := facts.RecipeOf(id)
		if !ok {
			return nil
		}
		for i := range b.r.CapturePlan {
			if b.r.CapturePlan[i].Command == rec.Command {
				return &b.r.CapturePlan[i]
			}
		}
		return &Capture{Command: rec.Command, Where: rec.Where, Title: rec.Title, Note: rec.Note, Answers: []string{}}
	}
	// Where the inputs cannot tell, what answers most is to be recorded.
	worth := func(p *Capture) bool {
		plan := b.r.CapturePlan
		return p != nil && (v.Class != "insufficient-evidence" || len(plan) == 0 || 2*len(p.Answers) >= len(plan[0].Answers))
	}
	for _, s := range do {
		if p := pick(b.asks[s]); worth(p) {
			return p, s
		}
	}
	for _, withheld := range []bool{false, true} {
		for _, id := range v.Evidence {
			for i := range b.in.Checks {
				c := &b.in.Checks[i]
				if c.Rule.ID != id || c.Outcome != engine.Finding {
					continue
				}
				if !withheld {
					for _, a := range c.Do {
						if p := pick(a.Capture); worth(p) {
							return p, upperFirst(a.Say)
						}
					}
					continue
				}
				for _, w := range c.Withheld {
					if p := pick(w.Capture); p != nil {
						return p, ""
					}
				}
			}
		}
	}
	if len(b.r.CapturePlan) > 0 && (v.Class == "insufficient-evidence" || len(b.r.CapturePlan[0].Answers) >= worthRecording) {
		return &b.r.CapturePlan[0], ""
	}
	return nil, ""
}

// worthRecording is how many checks a command must answer to be the next thing to do when the verdict does not ask for it.
const worthRecording = 4

// upperFirst begins a sentence, unless it begins with a name in code.
func upperFirst(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if s == "" || strings.ContainsAny(strings.TrimRight(first, ",:;."), "._=(/-") { // a name in code
		return s
	}
	return engine.UpperFirst(s)
}
