// Package steplog reads what training loops print of themselves: a line a step, or a line every so many steps.
//
// It is recognised by lines that hold a step number and how long a step took, or a step number, a loss and a wall clock; by a heading of
// comma, tab or semicolon separated columns that names a step and a time; or by JSON objects, one a line, with such keys. The forms of
// Megatron-LM, torchtitan, DeepSpeed, nanoGPT, NeMo, MaxText, fairseq, PaddlePaddle, mmengine, detectron2, timm and torchvision's references are among them, and the
// progress bars of Hugging Face's Trainer and Lightning, as means of stretches; a loop of one's own needs no more
// than `step=120 time=0.412`.
//
// Columns: step, iter, iteration, global_step, batch; step_time, iter_time, time, dt, elapsed ... with _ms, _s or a unit behind the number;
// seconds where none is stated, unless the wall clock shows that they must be ms. A time that only ever rises is one since the start. it/s and s/it
// are read too. epoch, tokens (of one step), data or data_time, and rank (`[rank3]`, rank=3, a column) are kept.
//
// Clock: wall-clock stamps where lines have them, with or without zone, or epoch seconds; else At is the sum of the steps' times from the first
// line, on an axis of its own.
//
// What it cannot tell: who held the time. Where only every n-th step is logged a line is a mean of n steps (most loops print it so), and what
// repeats within n steps cannot be seen.
package steplog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads the step logs of training loops.
var Format = ingest.Format{
	Name:      "steplog",
	Doc:       "a training loop's own log: step=120 time=0.412, CSV with a heading, JSON lines, Megatron-LM, torchtitan, mmengine ...",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"step"},
}

const (
	num   = `([-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)`
	quote = `["']?`
)

var (
	inEpoch  = regexp.MustCompile(`(?i)\bepoch(?:\(train\))?:?\s*\[(\d+)\]\s*\[\s*(\d+)\s*/\s*(\d+)\]`)
	timm     = regexp.MustCompile(`(?i)\btrain:\s*(\d+)\s*\[\s*(\d+)\s*/\s*(\d+)`)
	overall  = regexp.MustCompile(`(?i)(?:^|[^\w.])(?:global[_ ]?step|num_updates)` + quote + `\s*[:=#]?\s*(\d+)(?:[^\d.]|$)`)
	numbered = regexp.MustCompile(`(?i)(?:^|[^\w.])(?:global[_ ]?step|training[_ ]?step|iteration|iter(?:\(train\))?|steps?|batch)` + quote + `\s*[:=#]?\s*\[?\s*(\d+)(?:\s*/\s*\d+)?(?:[^\d.]|$)`)
	epoch    = regexp.MustCompile(`(?i)(?:^|[^\w.])epoch` + quote + `\s*[:=]?\s*\[?\s*(\d+(?:\.\d+)?)`)
	took     = regexp.MustCompile(`(?i)(?:^|[^\w.])(elapsed time per iteration|train_step_timing in s|timing_s/step|(?:avg_)?batch_cost|(?:train[_ ]?)?step[_ ]?time|iter(?:ation)?[_ ]?time|time[_ ]?per[_ ]?(?:step|iter(?:ation)?)|batch[_ ]?time|dt|elapsed|duration|seconds|time)(?:[_ ]?\(?(ms|msec|s|sec|secs|seconds|us)\)?)?` + quote + `\s*[:=]?\s*` + num + `\s*(ms|msec|us|µs|seconds|secs|sec|s)?(?:[^\w:/.-]|$)`)
	perStep  = regexp.MustCompile(`(?i)(?:^|[^\w.])` + num + `\s*(ms|s|sec)/(?:it|iter|step)\b`)
	perSec   = regexp.MustCompile(`(?i)(?:^|[^\w.])(?:` + num + `\s*(?:it|iters?|steps?)/s(?:ec)?\b|ups[=:]\s*` + num + `)`)
	data     = regexp.MustCompile(`(?i)(?:^|[^\w.])(?:data(?:[_ ]?(?:time|load(?:ing)?(?:[_ ]?time)?))?|(?:avg_)?reader_cost)(?:_(ms|s))?` + quote + `(?:\s*[:=]\s*|\s+)` + num + `\s*(ms|s)?`)
	tokens   = regexp.MustCompile(`(?i)(?:^|[^\w.])(?:num[_ ]?tokens|n[_ ]?tokens|tokens|tokens[_ ]per[_ ]step)` + quote + `\s*[:=]\s*` + num)
	ranked   = regexp.MustCompile(`(?i)(?:^|[^\w.])(?:global[_ ]?)?rank` + quote + `\s*[:=]?\s*(\d+)`)
	loss     = regexp.MustCompile(`(?i)\b(?:\w+_)?loss(?:es)?\b|\bskipped=\d|SamplesPerSec=|\btps:|\bmfu:`)
	oneRank  = regexp.MustCompile(`RunningAvgSamplesPerSec=`) // DeepSpeed prints it on rank 0 and does not say so
	stamped  = regexp.MustCompile(`(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)([.,]\d{1,9})?\s?(Z|[+-]\d\d:?\d\d)?`)
)

// line is what one line says; what it does not say is NaN, -1 for rank, 0 for at.
type line struct {
	step, took, data, tokens, epoch, wall float64
	of                                    float64 // steps of its epoch
	span                                  float64 // s that it speaks of; 0 those of the steps since the line before
	unit                                  string  // of took: "ms", "s", "us"; "" not stated
	rank                                  int
	at                                    timeline.Time
	zoned, whole                          bool // the stamp states its zone; it has no fraction
	row                                   uint32
}

func blank() line {
	n := math.NaN()
	return line{step: n, took: n, data: n, tokens: n, epoch: n, wall: n, of: n, rank: -1}
}

func (l *line) good() bool {
	return !math.IsNaN(l.step) && l.step >= 0 && (!math.IsNaN(l.took) || l.at != 0 || !math.IsNaN(l.wall))
}

func number(s string) float64 {
	v, err := strconv.ParseFloat(strings.NewReplacer(",", "", "_", "").Replace(s), 64)
	if err != nil || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// longest is how much of a line is looked at.
const longest = 4096

// parse reads a line of words and numbers.
func parse(text string) line {
	l := blank()
	text = text[:min(len(text), longest)]
	if m := inEpoch.FindStringSubmatch(text); m != nil {
		l.epoch, l.step, l.of = number(m[1]), number(m[2]), number(m[3])
	} else if m := timm.FindStringSubmatch(text); m != nil {
		l.epoch, l.step, l.of = number(m[1]), number(m[2]), number(m[3])
	} else if m := cmp.Or(match(overall, text), match(numbered, text)); m != nil {
		l.step = number(m.of[1])
		if m := epoch.FindStringSubmatch(text); m != nil {
			l.epoch = number(m[1])
		}
	} else {
		return l
	}
	if m := took.FindStringSubmatch(text); m != nil {
		l.took, l.unit = number(m[3]), unitOf(m[4], m[2])
	} else if m := perStep.FindStringSubmatch(text); m != nil {
		l.took, l.unit = number(m[1]), unitOf(m[2])
	} else if m := perSec.FindStringSubmatch(text); m != nil {
		if v := number(m[1] + m[2]); v > 0 {
			l.took, l.unit = 1/v, "s"
		}
	}
	if m := data.FindStringSubmatch(text); m != nil {
		l.data = number(m[2]) * scale(unitOf(m[3], m[1]))
	}
	if m := tokens.FindStringSubmatch(text); m != nil {
		l.tokens = number(m[1])
	}
	if m := ranked.FindStringSubmatch(text); m != nil {
		if v := number(m[1]); v < 1e6 {
			l.rank = int(v)
		}
	}
	if l.rank < 0 && oneRank.MatchString(text) {
		l.rank = 0
	}
	l.stamp(text)
	return l
}

// found is what an expression found in a text; nil nothing.
type found struct{ of []string }

func match(re *regexp.Regexp, text string) *found {
	if m := re.FindStringSubmatch(text); m != nil {
		return &found{m}
	}
	return nil
}

func (l *line) stamp(text string) {
	m := stamped.FindStringSubmatch(text)
	if m == nil {
		return
	}
	n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v }
	if n(2) < 1 || n(2) > 12 || n(3) < 1 || n(3) > 31 || n(4) > 23 || n(5) > 59 || n(6) > 60 || n(1) < 1980 || n(1) > 2200 {
		return
	}
	at := time.Date(n(1), time.Month(n(2)), n(3), n(4), n(5), n(6), 0, time.UTC).UnixNano()
	if m[7] != "" {
		f, _ := strconv.ParseFloat("0."+m[7][1:], 64)
		at += int64(f * 1e9)
	}
	l.whole = m[7] == ""
	if z := m[8]; z != "" {
		l.zoned = true
		if z != "Z" {
			d := strings.ReplaceAll(z[1:], ":", "")
			h, _ := strconv.Atoi(d[:2])
			mi, _ := strconv.Atoi(d[2:])
			off := int64(h*3600+mi*60) * 1e9
			if z[0] == '-' {
				off = -off
			}
			at -= off
		}
	}
	l.at = timeline.Time(at)
}

func unitOf(units ...string) string {
	for _, u := range units {
		switch strings.ToLower(u) {
		case "ms", "msec":
			return "ms"
		case "us", "µs":
			return "us"
		case "s", "sec", "secs", "seconds":
			return "s"
		}
	}
	return ""
}

func scale(unit string) float64 {
	switch unit {
	case "ms":
		return 1e-3
	case "us":
		return 1e-6
	}
	return 1
}

// columns names the cells of a heading; ok where it has a step and a time.
func columns(text string) (sep string, names []string, ok bool) {
	for _, sep = range []string{",", "\t", ";"} {
		if strings.Count(text, sep) < 1 || len(text) > 4096 {
			continue
		}
		names = nil
		step, when := false, false
		for _, c := range strings.Split(text, sep) {
			k, _ := key(c)
			step, when = step || k == "step", when || k == "took" || k == "wall" || k == "rate"
			names = append(names, strings.TrimSpace(c))
		}
		if step && when {
			return sep, names, true
		}
	}
	return "", nil, false
}

// key tells what a column or a JSON key holds, and in which unit.
func key(name string) (what, unit string) {
	s := strings.ToLower(strings.Trim(strings.TrimSpace(name), `"'`))
	s = strings.NewReplacer(" ", "_", "-", "_", "(", "_", ")", "", "[", "_", "]", "", "/", "_").Replace(s)
	if i := strings.LastIndexByte(s, '_'); i > 0 {
		if u := unitOf(s[i+1:]); u != "" {
			s, unit = strings.Trim(s[:i], "_"), u
		}
	}
	s = strings.TrimPrefix(strings.TrimPrefix(s, "perf_"), "train_")
	if unit != "" && (s == "step" || s == "iter") { // step_s
		return "took", unit
	}
	switch s {
	case "step", "iter", "iteration", "global_step", "batch", "steps", "training_step", "batch_idx", "num_updates":
		return "step", ""
	case "step_time", "iter_time", "iteration_time", "time", "dt", "elapsed", "elapsed_time", "duration", "batch_time", "time_per_step", "time_per_iter", "sec_per_step", "step_duration", "step_timing", "step_timing_in", "batch_cost":
		return "took", unit
	case "timestamp", "wall_time", "walltime", "datetime", "date", "ts":
		return "wall", unit
	case "seconds":
		return "took", "s"
	case "ups", "it_s", "steps_per_sec", "steps_per_second", "it_per_s":
		return "rate", ""
	case "steps_per":
		return "rate", ""
	case "data", "data_time", "data_load_time", "dataloading_time":
		return "data", unit
	case "tokens", "num_tokens", "ntokens", "tokens_per_step", "n_tokens":
		return "tokens", ""
	case "epoch":
		return "epoch", ""
	case "rank", "global_rank":
		return "rank", ""
	}
	return "", ""
}

// put books one named value.
func (l *line) put(name, value string) {
	what, u := key(name)
	value = strings.Trim(strings.TrimSpace(value), `"`)
	switch v := number(value); what {
	case "step":
		l.step = v
	case "took":
		l.took, l.unit = v, u
	case "rate":
		if v > 0 {
			l.took, l.unit = 1/v, "s"
		}
	case "data":
		l.data = v * scale(u)
	case "tokens":
		l.tokens = v
	case "epoch":
		l.epoch = v
	case "rank":
		if v >= 0 && v < 1e6 {
			l.rank = int(v)
		}
	case "wall":
		if l.stamp(value); l.at == 0 {
			l.wall = v * scale(u)
		}
	}
}

func parseJSON(text []byte) line {
	l := blank()
	var m map[string]any
	if json.Unmarshal(text, &m) != nil {
		return l
	}
	for k, v := range m {
		switch v := v.(type) {
		case float64:
			l.put(k, strconv.FormatFloat(v, 'g', -1, 64))
		case string:
			l.put(k, v)
		}
	}
	return l
}

func recognise(h ingest.Head) bool {
	if bytes.Contains(h.Text, []byte(`"Kernel Name"`)) { // a table of Nsight Compute, under which steps take many times as long
		return false
	}
	n, hits := 0, 0
	trains := loss.Match(h.Text)
	bars := map[string]bar{}
	var row uint64
	for ls := ingest.NewBarLines(bytes.NewReader(h.Text)); ls.Next(); {
		text := strings.TrimSpace(string(ls.Text))
		if text == "" {
			continue
		}
		if row != ls.Row {
			n, row = n+1, ls.Row
		}
		if n > 400 {
			return false
		}
		if b, ok := parseBar(text[:min(len(text), longest)]); ok {
			if last, seen := bars[b.group]; seen && b.n > last.n && (trains || b.group == "epoch" || strings.Contains(strings.ToLower(b.group), "train")) {
				hits++
			}
			bars[b.group] = b
			if hits >= 2 {
				return true
			}
			if _, ok := b.exact(); !ok {
				continue
			}
			if hits++; hits >= 2 {
				return true
			}
			continue
		}
		if n <= 3 {
			if _, _, ok := columns(text); ok && !strings.ContainsAny(text, "={") {
				return true
			}
		}
		if text[0] == '{' {
			if l := parseJSON([]byte(text)); l.good() && !math.IsNaN(l.took) {
				hits++
			}
		} else if l := parse(text); l.good() && (!math.IsNaN(l.took) || loss.MatchString(text)) {
			hits++
		}
		if hits >= 2 {
			return true
		}
	}
	return false
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	var rows []line
	var sep string
	var names []string
	walls := map[int]*ingest.WallClock{}
	var bars []bar
	ls := ingest.NewBarLines(f)
	for n := 0; ls.Next(); n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		text := strings.TrimSpace(string(ls.Text))
		if ls.Long {
			in.Report("steplog/long-line", timeline.DataLoss, ls.Row, "a line of more than 1 MiB: skipped")
			continue
		}
		if text == "" {
			continue
		}
		if b, ok := parseBar(text[:min(len(text), longest)]); ok {
			b.row = uint32(ls.Row)
			if l, ok := b.exact(); ok {
				rows = append(rows, l)
			} else if k := len(bars) - 1; k >= 0 && bars[k].group == b.group && bars[k].elapsed == b.elapsed && bars[k].n <= b.n && bars[k].n > 0 {
				bars[k] = b // the last of a second
			} else {
				bars = append(bars, b)
			}
			continue
		}
		var l line
		switch {
		case names != nil && (strings.Contains(text, sep) || text[0] >= '0' && text[0] <= '9'):
			if s, again, ok := columns(text); ok && !strings.ContainsAny(text, "={") {
				sep, names = s, again
				continue
			}
			cells := strings.Split(text, sep)
			if len(cells) != len(names) {
				in.Report("steplog/short-row", timeline.DataLoss, ls.Row, "row has %d cells, the heading %d: the log was cut while writing", len(cells), len(names))
				continue
			}
			l = blank()
			for i, c := range cells {
				l.put(names[i], c)
			}
		case text[0] == '{':
			l = parseJSON([]byte(text))
		default:
			if s, again, ok := columns(text); ok && !strings.ContainsAny(text, "={") {
				sep, names = s, again
				continue
			}
			l = parse(text)
		}
		if !l.good() {
			continue
		}
		if l.took <= 0 {
			in.Report("steplog/no-duration", timeline.Info, ls.Row, "a step of no length: left out")
			continue
		}
		l.row = uint32(ls.Row)
		if l.at != 0 && !l.zoned {
			if walls[l.rank] == nil {
				walls[l.rank] = &ingest.WallClock{}
			}
			l.at, _ = walls[l.rank].At(l.at)
		}
		rows = append(rows, l)
	}
	if err := ls.Err(); err != nil {
		in.Report("steplog/damaged-file", timeline.DataLoss, ls.Row, "%v after line %d: what lies before it is read", err, ls.Row)
	}
	if len(rows) < 2 {
		rows = append(rows, stretches(in, bars)...)
	}
	return finish(in, b, rows)
}

// finish makes series of the lines, a track a rank.
func finish(in *ingest.Input, b *timeline.Builder, rows []line) error {
	src := &b.TL.Sources[in.Source]
	by := map[int][]line{}
	var ranks []int
	zoned, timed, whole := 0, 0, true
	for _, l := range rows {
		if by[l.rank] == nil {
			ranks = append(ranks, l.rank)
		}
		by[l.rank] = append(by[l.rank], l)
		if l.at != 0 || !math.IsNaN(l.wall) {
			timed++
			whole = whole && l.whole
		}
		if l.zoned || !math.IsNaN(l.wall) && l.wall > 1e9 {
			zoned++
		}
	}
	slices.Sort(ranks)
	clocked := timed == len(rows) && (zoned == 0 || zoned == len(rows))
	kept := 0
	for _, rank := range ranks {
		kept += track(in, b, rank, by[rank], clocked)
	}
	src.Rows, src.Covers = int64(kept), timeline.WindowBefore.String()
	if kept < 2 {
		return errors.New("fewer than two steps with a time: print the step's number and its seconds on one line, as in step=120 time=0.412")
	}
	c := timeline.Clock{Name: src.Path, Step: time.Millisecond, Error: 50 * time.Millisecond}
	if whole {
		c.Step, c.Error = time.Second, time.Second
	}
	switch {
	case !clocked:
		c.Error = 0
		c.Why = "lines have no wall clock: steps are laid end to end, on an axis of their own"
	case zoned > 0:
		c.Wall, c.Zoned, c.How, c.Why = true, true, timeline.Recorded, "wall clock that states its zone"
	default:
		c.Wall, c.Why = true, "wall clock, zone not stated"
	}
	b.AddClock(in.Source, c)
	return nil
}

func track(in *ingest.Input, b *timeline.Builder, rank int, rows []line, clocked bool) int {
	for i := range rows {
		if l := &rows[i]; l.at == 0 && !math.IsNaN(l.wall) {
			l.at = timeline.Time(math.Round(l.wall*1e6)) * 1000
		}
	}
	runOn(rows)
	every := stepsApart(rows)
	totals := rising(rows)
	sec := durations(in, rows, clocked, totals)
	name := "steps"
	if rank >= 0 {
		name = fmt.Sprintf("steps of rank %d", rank)
	}
	t := b.Track(timeline.Track{Source: in.Source, Kind: timeline.TrackSteps, Proc: -1, Device: -1, Thread: int64(rank), Name: name})
	n := 0
	var at timeline.Time
	ids := map[string]int{}
	put := func(m timeline.Metric, v float64, row uint32) {
		if math.IsNaN(v) || v < 0 {
			return
		}
		id, ok := ids[m.Name]
		if !ok {
			id = b.SeriesOf(m, t)
			ids[m.Name] = id
		}
		b.Reading(id, at, v, row)
	}
	for i := range rows {
		l := &rows[i]
		if math.IsNaN(sec[i]) || sec[i] <= 0 || sec[i] > 1e7 {
			continue
		}
		next := at + timeline.Time(sec[i]*1e9*max(1, float64(every)))
		switch {
		case clocked:
			next = l.at
		case l.span > 0:
			next = at + timeline.Time(l.span*1e9)
		}
		at = max(next, at+1)
		put(timeline.StepTime, sec[i], l.row)
		put(timeline.StepNumber, l.step, l.row)
		put(timeline.StepEpoch, math.Floor(l.epoch), l.row)
		put(timeline.StepTokens, l.tokens, l.row)
		put(timeline.StepData, l.data, l.row)
		n++
	}
	if n > 0 {
		b.AddNumber(t, timeline.AttrStepEvery, float64(every), unit.Count, at, rows[0].row)
	}
	return n
}

// runOn makes step numbers that begin anew in each epoch run on.
func runOn(rows []line) {
	for i := range rows {
		if l := &rows[i]; !math.IsNaN(l.of) && !math.IsNaN(l.epoch) {
			l.step += l.epoch * l.of
		}
	}
}

// stepsApart is by how much step numbers usually rise from line to line.
func stepsApart(rows []line) int {
	var d []float64
	for i := 1; i < len(rows); i++ {
		if x := rows[i].step - rows[i-1].step; x > 0 {
			d = append(d, x)
		}
	}
	if len(d) == 0 {
		return 1
	}
	slices.Sort(d)
	return int(max(1, d[(len(d)-1)/2]))
}

// rising tells whether times are ones since the start: they only rise, all along, and by far.
func rising(rows []line) bool {
	n := 0
	for i := 1; i < len(rows); i++ {
		if math.IsNaN(rows[i].took) || !(rows[i].took > rows[i-1].took) {
			return false
		}
		n++
	}
	return n >= 8 && (rows[n].took > 2*rows[0].took || n >= 30)
}

// durations gives seconds a step for each line; NaN unknown.
func durations(in *ingest.Input, rows []line, clocked, totals bool) []float64 {
	out := make([]float64, len(rows))
	byWall := make([]float64, len(rows))
	var ratio []float64
	for i := range rows {
		l := &rows[i]
		out[i], byWall[i] = l.took, math.NaN()
		if i == 0 {
			if totals {
				out[i] = math.NaN()
			}
			continue
		}
		ds := l.step - rows[i-1].step
		if clocked && ds > 0 {
			byWall[i] = float64(l.at-rows[i-1].at) / 1e9 / ds
		}
		if totals {
			out[i] = math.NaN()
			if ds > 0 {
				out[i] = (l.took - rows[i-1].took) / ds
			}
		}
		if byWall[i] > 0 && out[i] > 0 {
			ratio = append(ratio, out[i]/byWall[i])
		}
	}
	ms := false
	if slices.Sort(ratio); len(ratio) >= 3 {
		r := ratio[len(ratio)/2]
		ms = r > 250 && r < 4000
	}
	for i := range rows {
		switch {
		case math.IsNaN(rows[i].took):
			out[i] = byWall[i]
		case rows[i].unit != "":
			out[i] *= scale(rows[i].unit)
		case ms:
			out[i] *= 1e-3
		}
	}
	if ms && rows[0].unit == "" {
		in.Report("steplog/unit-assumed", timeline.Info, uint64(rows[0].row), "times state no unit and the wall clock shows that they are ms: read so")
	}
	return out
}
