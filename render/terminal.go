package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"

	"gpureport/ingest/timeline"
)

const termWidth = 76

// File is one written output, as the terminal names it.
type File struct {
	Path  string
	Bytes int64
}

// TerminalOptions say how the summary is printed.
type TerminalOptions struct {
	Bold  bool // on a terminal
	Color bool // NO_COLOR is not set
	Files []File
	Exit  string // the exit reason, last line; "" none
}

// WriteTerminal prints the summary: verdict, two ledger lines, findings, what to do, unknowns with the capture plan, files.
func WriteTerminal(w io.Writer, r *Report, o TerminalOptions) error {
	t := &term{o: o}
	v := &r.Verdict
	head := "VERDICT  " + v.Class
	if v.Cause != nil {
		head += ", cause " + *v.Cause
	}
	t.edge(head, v.Confidence, true)
	t.wrap("  ", "  ", v.Sentence, true)
	t.ledger(r)
	t.findings(r)
	t.next(r)
	t.unknown(r)
	t.files()
	if o.Exit != "" {
		t.line(o.Exit)
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

type term struct {
	b strings.Builder
	o TerminalOptions
}

func (t *term) line(s string) { t.b.WriteString(strings.TrimRight(s, " ") + "\n") }

func (t *term) bold(s string) string {
	if t.o.Bold {
		return "\x1b[1m" + s + "\x1b[0m"
	}
	return s
}

// edge prints left and right text on one line.
func (t *term) edge(left, right string, bold bool) {
	left, right = ascii(left), ascii(right)
	room := termWidth - runewidth.StringWidth(right)
	if room < 20 {
		room = 20
	}
	left = runewidth.Truncate(left, room-1, "...")
	s := left + strings.Repeat(" ", max(1, room-runewidth.StringWidth(left))) + right
	s = strings.TrimRight(s, " ")
	if bold {
		s = t.bold(s)
	}
	t.line(s)
}

// wrap prints text folded at words; a word longer than the line is kept whole.
func (t *term) wrap(first, rest, text string, bold bool) {
	for i, l := range fold(ascii(text), termWidth-len(first)) {
		p := rest
		if i == 0 {
			p = first
		}
		if bold {
			l = t.bold(l)
		}
		t.line(p + l)
	}
}

func fold(s string, width int) []string {
	var out []string
	line := ""
	for _, w := range strings.Fields(s) {
		switch {
		case line == "":
			line = w
		case runewidth.StringWidth(line)+1+runewidth.StringWidth(w) <= width:
			line += " " + w
		default:
			out = append(out, line)
			line = w
		}
	}
	if line != "" || len(out) == 0 {
		out = append(out, line)
	}
	return out
}

func (t *term) ledger(r *Report) {
	if len(r.Ledger) == 0 {
		return
	}
	t.line("")
	step, steps := r.meanStep()
	lead := "  step " + ascii(Dur(step, 3))
	if !steps {
		lead = "  window " + ascii(Dur(step, 3))
	}
	typical, odd := typicalRows(r)
	rows := []int{typical}
	if (r.Verdict.Class == "straggler" || r.Verdict.Class == "hardware") && odd >= 0 && odd != typical {
		rows = append(rows, odd)
	}
	for i, k := range rows {
		l := &r.Ledger[k]
		name := strings.ToLower(rowName(r, l))
		if strings.HasPrefix(name, "gpu") {
			name = rowName(r, l)
		}
		if len(rows) == 1 && len(r.Ledger) > 1 {
			name = fmt.Sprintf("one of %d", len(r.Ledger))
		}
		p := lead
		if i > 0 {
			p = strings.Repeat(" ", len(lead))
		}
		t.line(runewidth.Truncate(p+"   "+name+"   "+ownerLine(r, l), termWidth, "..."))
	}
	if f := r.Verdict.RecoverableFrac; f != nil && *f > 0 {
		s := fmt.Sprintf("At most %s of the run can return.", Pct(*f))
		if r.Verdict.Next != nil && *r.Verdict.Next != "" {
			s += " The next limiter would be " + *r.Verdict.Next + "."
		}
		t.wrap("  ", "  ", s, false)
	}
}

// ownerLine names compute, the two largest others and the rest; the shares add up.
func ownerLine(r *Report, l *LedgerRow) string {
	type part struct {
		label string
		f     float64
	}
	w := float64(max(l.WindowNS, 1))
	parts := []part{{"compute", float64(l.Owners["compute"]) / w}}
	best := [2]timeline.Owner{}
	for k := range best {
		var most int64
		for o := timeline.Owner(1); o < timeline.NOwners; o++ {
			if v := l.Owners[o.String()]; v > most && (k == 0 || o != best[0]) {
				most, best[k] = v, o
			}
		}
		if most > 0 && float64(most)/w >= 0.01 {
			label := shortWord(best[k])
			if best[k] == timeline.CommPeerWait && r.Verdict.CulpritRank != nil {
				label = fmt.Sprintf("wait for rank %d", *r.Verdict.CulpritRank)
			}
			parts = append(parts, part{label, float64(most) / w})
		}
	}
	rest := 1.0
	vals := []float64{}
	for _, p := range parts {
		rest -= p.f
		vals = append(vals, p.f*100)
	}
	vals = append(vals, max(0, rest*100))
	rounded := largestRemainder(vals, 1)
	var out []string
	for i, p := range parts {
		out = append(out, fmt.Sprintf("%s %.0f %%", p.label, rounded[i]))
	}
	if rounded[len(parts)] > 0 {
		out = append(out, fmt.Sprintf("other %.0f %%", rounded[len(parts)]))
	}
	return strings.Join(out, "   ")
}

func (t *term) findings(r *Report) {
	idx := findingsBySaving(r)
	same := sameTime(r)
	t.line("")
	seen := map[string]int{}
	var keep []int
	for _, i := range idx {
		seen[r.Checks[i].ID]++
		if seen[r.Checks[i].ID] == 1 {
			keep = append(keep, i)
		}
	}
	if len(keep) == 0 {
		t.line(t.bold("FINDINGS  none"))
		return
	}
	t.edge(fmt.Sprintf("FINDINGS  %d", len(keep)), "can return at most", true)
	anySame := false
	idWidth := 21
	sevWidth := 8
	for k, i := range keep {
		if k < 14 {
			sevWidth = max(sevWidth, len(severity(&r.Checks[i]))+1)
			idWidth = max(idWidth, len(r.Checks[i].ID))
		}
	}
	for k, i := range keep {
		if k == 14 {
			t.line(fmt.Sprintf("  and %d more, all in the report", len(keep)-k))
			break
		}
		c := &r.Checks[i]
		right := "unknown"
		if severity(c) == "info" {
			right = ""
		}
		if c.RecoverableFrac != nil {
			right = Pct(*c.RecoverableFrac)
			if same[i] {
				right = "same " + right
				anySame = true
			}
		}
		says := strings.TrimSuffix(c.Says, ".")
		if n := seen[c.ID]; n > 1 {
			says = fmt.Sprintf("%d x, worst: %s", n, says)
		}
		sev := fmt.Sprintf("%-*s", sevWidth, severity(c))
		left := "  " + sev + fmt.Sprintf("%-*s ", idWidth, c.ID)
		room := termWidth - len(left) - runewidth.StringWidth(ascii(right)) - 2
		// a whole title says more than half a sentence
		if runewidth.StringWidth(ascii(says)) > room {
			says = c.Title
			if n := seen[c.ID]; n > 1 {
				says = fmt.Sprintf("%s (%d x)", says, n)
			}
		}
		s := runewidth.FillRight(runewidth.Truncate(ascii(says), room, "..."), room)
		line := strings.TrimRight(left+s+"  "+ascii(right), " ")
		if t.o.Color && severity(c) == "critical" {
			line = "\x1b[31m" + line + "\x1b[0m"
		}
		t.line(line)
	}
	if n := len(r.WhatIf); n > 1 {
		w := &r.WhatIf[n-1]
		t.wrap("  ", "  ", fmt.Sprintf("Without %s it would be %s or more, not %s.", andList(w.Fix), Dur(float64(w.StepAfterNS), 3), Dur(float64(w.StepBeforeNS), 3)), false)
	}
	if anySame {
		t.line(`  "same" is time already counted in a line above; it is not added.`)
	}
}

func (t *term) next(r *Report) {
	do := append([]string{}, r.Verdict.Do...)
	if c := r.Verdict.Record; c != nil {
		where := "the command is in the report"
		for i := range r.CapturePlan {
			if r.CapturePlan[i].Command == c.Command {
				where = fmt.Sprintf("command %d below", i+1)
			}
		}
		if k := r.Verdict.RecordFor; k != nil {
			do[*k] += " (" + where + ")"
		} else {
			do = append(do, "Record "+c.Title+" "+c.Where+" ("+where+")")
		}
	}
	if len(do) == 0 {
		return
	}
	t.line("")
	for i, s := range do {
		p := "          "
		if i == 0 {
			p = "NEXT      "
		}
		t.wrap(p, "          ", s, false)
	}
	for _, s := range r.Verdict.Dont {
		t.wrap("  do not  ", "          ", s, false)
	}
}

func (t *term) unknown(r *Report) {
	rules := ruleOutcomes(r)
	n := 0
	for _, o := range rules {
		if o.Outcome == "unknown" {
			n++
		}
	}
	t.line("")
	if n == 0 {
		t.line(t.bold(fmt.Sprintf("UNKNOWN   none of %d checks.", len(rules))))
		return
	}
	t.line(t.bold(fmt.Sprintf("UNKNOWN   %d of %d checks. Nobody looked, so they are not passed.", n, len(rules))))
	if len(r.CapturePlan) == 0 {
		return
	}
	k := len(r.CapturePlan)
	t.line(t.bold(fmt.Sprintf("CAPTURE   %d %s %d of them", k, Plural(k, "command answers", "commands answer"), answered(r))))
	for i, c := range r.CapturePlan {
		if i == 4 {
			t.line(fmt.Sprintf("     and %d more (whole text in the report)", k-i))
			break
		}
		lines := fold(ascii(c.Command), termWidth-7)
		cut := false
		if len(lines) > 2 {
			lines, cut = lines[:2], true
		}
		for j, l := range lines {
			p := "     "
			if j == 0 {
				p = fmt.Sprintf("  %d  ", i+1)
			}
			if runewidth.StringWidth(l) > termWidth-7 {
				l, cut = runewidth.Truncate(l, termWidth-9, "..."), true
			} else if j < len(lines)-1 {
				l += ` \`
			}
			t.line(p + l)
		}
		if cut {
			t.line("     (whole text in the report)")
		}
	}
}

func (t *term) files() {
	if len(t.o.Files) == 0 {
		return
	}
	t.line("")
	wide := 0
	for _, f := range t.o.Files {
		wide = max(wide, runewidth.StringWidth(ascii(f.Path)))
	}
	for i, f := range t.o.Files {
		p := "          "
		if i == 0 {
			p = t.bold("FILES     ")
		}
		s := p + runewidth.FillRight(ascii(f.Path), wide) + "   " + fmt.Sprintf("%-7s", ascii(Bytes(float64(f.Bytes))))
		if strings.HasSuffix(f.Path, ".html") {
			s += "  open this"
		}
		t.line(s)
	}
}
