package render

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// stages in the order of report and workbook.
var stages = []struct{ id, title, question string }{
	{"step", "Step time", "Is it stable?"},
	{"idle", "Idle", "Compute, or gaps?"},
	{"data", "Data", "Loader and copies to the GPU"},
	{"kernel", "Kernels", "Busy, but usefully?"},
	{"comm", "Communication", "NCCL and network"},
	{"shape", "Shapes", "Batch, padding, fusion, precision"},
	{"hw", "Hardware", "Clocks, links, host"},
}

var stageIndex = func() map[string]int {
	m := map[string]int{}
	for i, s := range stages {
		m[s.id] = i
	}
	return m
}()

func checklistSection(r *Report) (Section, bool) {
	rules := ruleOutcomes(r)
	findings := 0
	var c Checklist
	for i, st := range stages {
		s := Stage{ID: st.id, Title: st.title, Question: st.question, N: i + 1}
		n := map[string]int{}
		var rows []CheckRow
		for _, o := range rules {
			if o.Stage != st.id {
				continue
			}
			n[o.Outcome]++
			s.Cells = append(s.Cells, o.Outcome)
			rows = append(rows, checkRow(r, o))
		}
		findings += n["finding"]
		s.Counts = counts(n)
		// findings, unknown, pass, not asked; each in checklist order
		sort.SliceStable(rows, func(a, b int) bool { return rowRank(rows[a].Outcome) < rowRank(rows[b].Outcome) })
		passes := 0
		var folded []string
		for _, row := range rows {
			if row.Outcome == "pass" {
				passes++
				if passes >= 4 && n["pass"] > 4 {
					s.FoldedRows = append(s.FoldedRows, row)
					folded = append(folded, strings.TrimPrefix(row.ID, st.id+"."))
					continue
				}
			}
			s.Rows = append(s.Rows, row)
		}
		if len(folded) > 0 {
			s.Folded = fmt.Sprintf("%d more pass: %s", len(folded), strings.Join(folded, ", "))
		}
		c.Stages = append(c.Stages, s)
	}
	return Section{ID: "checklist", Title: "Checklist", Count: countOrNone(findings), Lead: fmt.Sprintf(
		"%d checks in the order in which they are asked. Unknown is not pass: nobody looked, and the capture plan says how. “Same time” marks a saving already counted in another finding.", len(rules)),
		Blocks: []Block{c}}, true
}

func countOrNone(n int) string {
	if n == 0 {
		return "–"
	}
	return itoa(n)
}

func counts(n map[string]int) string {
	var p []string
	switch n["finding"] {
	case 0:
		p = append(p, "no finding")
	case 1:
		p = append(p, "1 finding")
	default:
		p = append(p, fmt.Sprintf("%d findings", n["finding"]))
	}
	for _, k := range []string{"unknown", "pass", "not-asked"} {
		if n[k] > 0 {
			p = append(p, fmt.Sprintf("%d %s", n[k], strings.ReplaceAll(k, "-", " ")))
		}
	}
	return strings.Join(p, ", ")
}

func rowRank(o string) int { return 3 - outcomeRank[o] }

// SameTime tells for each finding (position in Checks) whether a larger or equal one before it already claims its time.
func sameTime(r *Report) map[int]bool {
	idx := findingsBySaving(r)
	claimed := map[string]bool{}
	out := map[int]bool{}
	for _, i := range idx {
		c := &r.Checks[i]
		for _, o := range c.Overlaps {
			if claimed[o] && o != c.ID {
				out[i] = true
			}
		}
		if claimed[c.ID] { // the same rule on another GPU: another GPU's time
			continue
		}
		claimed[c.ID] = true
	}
	return out
}

var severityRank = map[string]int{"critical": 5, "high": 4, "medium": 3, "low": 2, "info": 1}

func severity(c *Check) string {
	if c.Severity == nil {
		return ""
	}
	return *c.Severity
}

// behind are rules that say that time is lost, with those that say why: these stand ahead of it where they claim half of its time or more.
var behind = map[string][]string{
	"comm.exposed": {"comm.low-busbw", "comm.latency-bound", "comm.no-sync-accum", "comm.ddp-tail", "comm.fsdp-allgather", "comm.on-compute-stream",
		"comm.topology", "comm.nic-affinity", "comm.socket-fallback"},
	"comm.ddp-tail":       {"comm.low-busbw", "comm.no-sync-accum", "comm.topology", "comm.nic-affinity", "comm.socket-fallback"},
	"comm.fsdp-allgather": {"comm.on-compute-stream"},
	"comm.low-busbw":      {"comm.topology", "comm.nic-affinity", "comm.socket-fallback"},
	"comm.straggler-wait": {"shape.rank-tokens", "data.rank-skew"},
	"step.rank-spread":    {"comm.straggler-wait", "shape.rank-tokens", "data.rank-skew"},
	"step.outliers":       {"idle.checkpoint", "idle.eval-log"},
	"step.periodic":       {"idle.checkpoint", "idle.eval-log"},
	"idle.launch-bound":   {"kernel.tiny", "shape.batch-too-small"},
	"idle.dataloader-wait": {"data.zero-workers", "data.worker-throughput", "data.decode-cpu", "data.storage", "data.main-collate", "data.thread-oversub",
		"data.tokenize-inline", "data.epoch-respawn"},
	"data.worker-throughput":    {"data.decode-cpu", "data.storage", "data.main-collate", "data.thread-oversub"},
	"data.copy-bound":           {"data.h2d-pageable", "data.h2d-bandwidth", "data.h2d-blocking", "hw.pcie-link", "hw.numa"},
	"data.h2d-blocking":         {"data.h2d-bandwidth", "hw.pcie-link", "hw.numa"},
	"data.h2d-bandwidth":        {"hw.pcie-link", "hw.numa"},
	"kernel.tensor-core-unused": {"shape.fp32-matmul", "shape.misaligned"},
	"kernel.gemm-eff":           {"hw.gpu-slow"},
	"hw.gpu-slow":               {"hw.thermal", "hw.power-brake", "hw.clock-locked"},
	"hw.power-cap":              {"hw.power-misconfig"},
}

// findingsBySaving orders findings by severity, saving, checklist order. One that says why another's time is lost takes that one's place.
func findingsBySaving(r *Report) []int {
	type at struct{ id, subject string }
	var idx []int
	place := map[at]int{}
	for i := range r.Checks {
		if r.Checks[i].Outcome == "finding" {
			idx = append(idx, i)
			place[at{r.Checks[i].ID, r.Checks[i].Subject.ID}] = i
		}
	}
	as := map[int]int{}   // position in Checks of the finding whose place it takes
	deep := map[int]int{} // how many it explains
	for _, i := range idx {
		as[i] = i
	}
	less := func(a, b *Check) bool {
		if x, y := severityRank[severity(a)], severityRank[severity(b)]; x != y {
			return x < y
		}
		return saving(a) < saving(b)
	}
	for _, i := range idx {
		lost := &r.Checks[i]
		for _, id := range behind[lost.ID] {
			k, ok := place[at{id, lost.Subject.ID}]
			if !ok { // one of the run says it of all its GPUs
				k, ok = place[at{id, "run"}]
			}
			if !ok || saving(&r.Checks[k]) < saving(lost)/2 || saving(&r.Checks[k]) == 0 {
				continue
			}
			deep[k]++
			if less(&r.Checks[as[k]], lost) {
				as[k] = i
			}
		}
	}
	sort.SliceStable(idx, func(a, b int) bool {
		x, y := &r.Checks[as[idx[a]]], &r.Checks[as[idx[b]]]
		if less(x, y) || less(y, x) {
			return less(y, x)
		}
		return deep[idx[a]] > deep[idx[b]]
	})
	return idx
}

// Top is the finding that stands first; nil without findings.
func (r *Report) Top() *Check {
	if idx := findingsBySaving(r); len(idx) > 0 {
		return &r.Checks[idx[0]]
	}
	return nil
}

// sentences begin with a capital.
func sentences(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = upperFirst(s)
	}
	return out
}

func checkRow(r *Report, o RuleOutcome) CheckRow {
	i := o.Checks[0]
	c := &r.Checks[i]
	row := CheckRow{Anchor: c.ID, ID: c.ID, Outcome: c.Outcome, Says: c.Says, LooksLike: c.LooksLike, Do: sentences(c.Do), Dont: sentences(c.Dont), Refs: c.Refs}
	if c.Confidence != nil && c.Outcome != "unknown" {
		row.Confidence = *c.Confidence
	}
	switch c.Outcome {
	case "finding":
		row.Tag = severity(c)
		row.Open = slices.Contains(r.Verdict.Evidence, c.ID)
		same := sameTime(r)[i]
		switch {
		case c.RecoverableFrac == nil:
			row.Saving = "unknown"
			if severity(c) == "info" {
				row.Saving = ""
			}
		case *c.RecoverableFrac == 0:
			row.Saving = "0"
			if severity(c) == "info" {
				row.Saving = ""
			}
		case same:
			row.Saving, row.SavingHollow, row.SavingFrac = "same time", true, *c.RecoverableFrac
		default:
			row.Saving, row.SavingFrac = "≤"+nbsp+Pct(*c.RecoverableFrac), *c.RecoverableFrac
		}
		if c.RecoverableFrac != nil && *c.RecoverableFrac > 0 {
			if step, steps := r.meanStep(); steps {
				row.SavingText = fmt.Sprintf("At most %s of %s a step (%s).", Dur(*c.RecoverableFrac*step, 3), Dur(step, 3), Pct(*c.RecoverableFrac))
			} else {
				row.SavingText = fmt.Sprintf("At most %s of the window.", Pct(*c.RecoverableFrac))
			}
		}
		if len(c.Overlaps) > 0 {
			row.OverlapText = "Same time as " + strings.Join(c.Overlaps, ", ") + ". Not added."
		}
	case "not-asked":
		row.Tag = "not asked"
	default:
		row.Tag = c.Outcome
	}
	row.Numbers = numberRows(r, c)
	for _, w := range c.Withheld {
		row.Withheld = append(row.Withheld, WithheldRow{w.Say, w.Gate, w.Why, w.Capture})
	}
	for _, m := range c.Missing { // one entry for all facts that wait for the same
		k := slices.IndexFunc(row.Missing, func(x MissingRow) bool { return x.Why == m.Why && x.Command == m.Capture })
		if k >= 0 {
			row.Missing[k].Fact += ", " + m.Fact
			continue
		}
		row.Missing = append(row.Missing, MissingRow{m.Fact, m.Why, m.Capture})
	}
	if len(o.Checks) > 1 {
		row.Subject = subjectWords(r, o)
		for n, k := range o.Checks { // the telling ones first
			if n == maxSubjects {
				row.Subjects = append(row.Subjects, SubjectRow{Name: fmt.Sprintf("%d more", len(o.Checks)-n), Says: "in the workbook"})
				break
			}
			s := &r.Checks[k]
			sr := SubjectRow{Name: subjectLabel(r, s), Outcome: strings.ReplaceAll(s.Outcome, "-", " "), Says: s.Says}
			if s.Outcome == "finding" {
				sr.Outcome = severity(s)
				if s.RecoverableFrac != nil {
					sr.Saving = "≤" + nbsp + Pct(*s.RecoverableFrac)
				}
			}
			row.Subjects = append(row.Subjects, sr)
		}
	}
	if n := c.NRefs; n > len(c.Refs) && len(c.Refs) > 0 {
		row.RefsFoot = fmt.Sprintf("%d of %s rows.", len(c.Refs), Count(int64(n)))
	}
	if c.Outcome == "finding" && len(r.Ledger) > 0 {
		row.Jump = "timeline"
		if n := slowestStep(r, c); n >= 0 {
			row.Jump = fmt.Sprintf("step-%d", n)
		}
	}
	return row
}

// slowestStep is the number of the slowest step of the check's GPU, or of any; -1 without steps.
func slowestStep(r *Report, c *Check) int64 {
	best, n := int64(-1), int64(-1)
	for i := range r.Steps {
		s := &r.Steps[i]
		if (c.Subject.Kind != "gpu" || s.GPU == c.Subject.ID) && s.DurNS > best {
			best, n = s.DurNS, s.Index
		}
	}
	return n
}

// maxSubjects is how many subjects of a rule the page lists.
const maxSubjects = 12

func subjectLabel(r *Report, c *Check) string {
	switch c.Subject.Kind {
	case "gpu":
		return gpuLabel(r, c.Subject.ID)
	case "rank":
		if c.Subject.Rank != nil {
			return fmt.Sprintf("rank %d", *c.Subject.Rank)
		}
	}
	return c.Subject.ID
}

// subjectWords says on how many of its subjects a rule came out as it did.
func subjectWords(r *Report, o RuleOutcome) string {
	n := 0
	for _, k := range o.Checks {
		if r.Checks[k].Outcome == o.Outcome {
			n++
		}
	}
	kind := r.Checks[o.Checks[0]].Subject.Kind
	noun := map[string]string{"gpu": "GPUs", "rank": "ranks", "host": "hosts"}[kind]
	if n == len(o.Checks) {
		return fmt.Sprintf("all %d %s", n, noun)
	}
	return fmt.Sprintf("%d of %d %s", n, len(o.Checks), noun)
}

// numberRows sets each number against the limit it was compared with; limits that no number claims follow.
func numberRows(r *Report, c *Check) []NumberRow {
	limitOf, claimed := map[string]string{}, map[string]bool{}
	for _, cl := range c.Clauses {
		words := strings.FieldsFunc(cl.Text, func(ch rune) bool {
			return !(ch == '.' || ch == '_' || ch == '-' || ch >= '0' && ch <= '9' || ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z')
		})
		fact, limit := "", ""
		for _, w := range words {
			if _, ok := c.Numbers[w]; ok && fact == "" {
				fact = w
			}
			if _, ok := c.Limits[w]; ok && limit == "" {
				limit = w
			}
		}
		if fact != "" && limit != "" && limitOf[fact] == "" {
			limitOf[fact], claimed[limit] = limit, true
		}
	}
	var ids []string
	for id := range c.Numbers {
		ids = append(ids, id)
	}
	// those with a limit first: they decided
	sort.Slice(ids, func(i, j int) bool {
		if a, b := limitOf[ids[i]] != "", limitOf[ids[j]] != ""; a != b {
			return a
		}
		return ids[i] < ids[j]
	})
	var out []NumberRow
	for _, id := range ids {
		v := c.Numbers[id]
		if v == nil {
			continue
		}
		row := NumberRow{Name: id, Value: factText(id, *v)}
		for i := range r.Facts {
			if r.Facts[i].ID == id {
				row.Name = strings.TrimSuffix(r.Facts[i].Doc, ".")
				row.ID = id
			}
		}
		if l := limitOf[id]; l != "" {
			row.Limit, row.Source = "limit "+factText(id, c.Limits[l]), c.LimitSources[l]
		}
		out = append(out, row)
	}
	var names []string
	for n := range c.Limits {
		if !claimed[n] {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		out = append(out, NumberRow{Name: "limit " + n, Value: plain(c.Limits[n]), Source: c.LimitSources[n]})
	}
	return out
}

// factText prints a fact by the unit at the end of its name.
func factText(id string, v float64) string {
	switch {
	case strings.HasSuffix(id, "_bytes_per_s"):
		return Bytes(v) + "/s"
	case strings.HasSuffix(id, "_flop_per_s"):
		return digits(v/1e12, 3, "") + nbsp + "TFLOP/s"
	case strings.HasSuffix(id, "_frac"):
		return Pct(v)
	case strings.HasSuffix(id, "_s"):
		return Dur(v*1e9, 3)
	case strings.HasSuffix(id, "_bytes"):
		return Bytes(v)
	case strings.HasSuffix(id, "_hz"):
		return digits(v/1e6, 4, "") + nbsp + "MHz"
	case strings.HasSuffix(id, "_w"):
		return digits(v, 3, "") + nbsp + "W"
	case strings.HasSuffix(id, "_c"):
		return digits(v, 3, "") + nbsp + "°C"
	case strings.HasSuffix(id, "_flag"):
		if v != 0 {
			return "yes"
		}
		return "no"
	}
	return plain(v)
}

// plain prints a number without a unit: a count as it is, another with four digits.
func plain(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return Count(int64(v))
	}
	return digits(v, 4, "\u202f")
}
