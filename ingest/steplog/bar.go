package steplog

import (
	"math"
	"regexp"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// A progress bar (tqdm: Hugging Face's Trainer, Lightning, NeMo) counts steps and whole seconds, and prints a rate that it has smoothed: what
// one step took it does not tell. Its states become means over stretches of 20 s and more, each right to a twentieth.

const barStretch = 20 // s

var (
	barState = regexp.MustCompile(`^(.*?)(\d+)/(\d+)\s*\[(?:(\d+):)?(\d+):(\d\d)<([^,\]]*)(?:,\s*(?:[\d.]+|\?)\s*([A-Za-z]+)/([A-Za-z]+))?`)
	barMark  = regexp.MustCompile(`\s*\d+%\|.*$`)
	barOther = regexp.MustCompile(`(?i)valid|eval|test|sanity|predict|download|upload|map|filter|load|token|pack|generat|infer|cach|process|index|shard|fetch|extract|convert`)
	barUnits = map[string]bool{"it": true, "iter": true, "iters": true, "step": true, "steps": true, "batch": true, "batches": true, "ba": true}
)

// bar is one state of a progress bar.
type bar struct {
	group      string  // which bar it is
	n, of      float64 // steps done, of how many
	elapsed    float64 // s
	epoch      float64 // that its name says; NaN none
	row        uint32
	afterState string // what stands behind
}

// parseBar reads a state of a bar that may be a training loop's.
func parseBar(text string) (b bar, ok bool) {
	if !strings.Contains(text, "/") || !strings.Contains(text, "<") {
		return b, false
	}
	m := barState.FindStringSubmatch(text)
	if m == nil {
		return b, false
	}
	name := strings.TrimSpace(barMark.ReplaceAllString(m[1], ""))
	if barOther.MatchString(name) {
		return b, false
	}
	if per, of := strings.ToLower(m[8]), strings.ToLower(m[9]); per != "" && !(of == "s" && barUnits[per] || per == "s" && barUnits[of]) {
		return b, false // bytes, examples, files
	}
	b = bar{n: number(m[2]), of: number(m[3]), epoch: math.NaN(), afterState: text[len(m[0]):]}
	b.elapsed = number(m[5])*60 + number(m[6])
	if m[4] != "" {
		b.elapsed += number(m[4]) * 3600
	}
	if e := epoch.FindStringSubmatch(name); e != nil {
		b.epoch, b.group = number(e[1]), "epoch"
	} else {
		b.group = name + " of " + m[3]
	}
	return b, b.of > 0 && b.n <= b.of && !math.IsNaN(b.elapsed)
}

// exact is the line of a state that says itself how long a step took.
func (b *bar) exact() (line, bool) {
	l := blank()
	m := took.FindStringSubmatch(b.afterState)
	if m == nil {
		return l, false
	}
	l.step, l.of, l.epoch, l.row = b.n, b.of, b.epoch, b.row
	l.took, l.unit = number(m[3]), unitOf(m[4], m[2])
	return l, l.took > 0
}

// stretches makes lines of the states of the bar that ran longest.
func stretches(in *ingest.Input, bars []bar) []line {
	ran := map[string]float64{}
	last := map[string]*bar{}
	var order []string
	for i := range bars {
		b := &bars[i]
		if p := last[b.group]; p == nil {
			order = append(order, b.group)
		} else if b.elapsed > p.elapsed && b.n >= p.n {
			ran[b.group] += b.elapsed - p.elapsed
		}
		last[b.group] = b
	}
	best := ""
	for _, g := range order {
		if best == "" || ran[g] > ran[best] {
			best = g
		}
	}
	var out []line
	var from *bar
	for i := range bars {
		b := &bars[i]
		if b.group != best {
			continue
		}
		if from == nil || b.elapsed < from.elapsed || b.n < from.n { // another epoch, another start
			from = b
			continue
		}
		if b.elapsed-from.elapsed < barStretch || b.n == from.n {
			continue
		}
		l := blank()
		l.step, l.of, l.epoch, l.row = b.n, b.of, b.epoch, b.row
		l.span = b.elapsed - from.elapsed
		l.took, l.unit = l.span/(b.n-from.n), "s"
		out = append(out, l)
		from = b
	}
	if len(out) > 0 {
		in.Report("steplog/progress-bar", timeline.Info, uint64(out[0].row), "times are a progress bar's, which counts whole seconds: each is a mean over %d s and more", barStretch)
	}
	return out
}
