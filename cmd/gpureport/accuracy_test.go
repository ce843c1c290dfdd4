package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gpureport/fixtures/sim"
	"gpureport/ingest/timeline"
	"gpureport/rules/engine"
)

var (
	accuracy      = flag.Bool("accuracy", false, "draw every run of the accuracy matrix and write fixtures/ACCURACY.md")
	accuracyDraws = flag.Int("accuracy-draws", 5, "runs to draw of each kind")
	accuracyOnly  = flag.String("accuracy-only", "", "kinds to draw, by comma; the file is not written")
)

const (
	accuracyFile = "../../fixtures/ACCURACY.md"
	accuracyRun  = "go test ./cmd/gpureport -run 'TestAccuracy$' -accuracy -timeout 60m"
)

// notCovered is what these numbers do not say.
const notCovered = `- The runs are simulated, and the simulator shares our understanding of the machines: how a queue fills, what a driver's call waits for, how a collective ends. Where that is wrong, both are, and these numbers do not show
  it. Only recordings of real machines do; those are in fixtures/REAL.md, and their truth is mostly not known.
- Limits that are a judgement (a share that is worth a finding) are the same in the cases and in the rules.
- A fault is alone in its run, or with the one that the case names. Several unrelated ones at a time are not drawn.
- Jobs are of 1 to 8 ranks; up to 512 are looked at by other tests, for their verdict and not in these tables.
- Traces that were cut, damaged, or written by old versions are the subject of other tests.
`

// Goals of the matrix.
const (
	goalVerdict = 0.98
	goalLedger  = 0.005 // mean error of an owner, and error of any window's length, share of the window
	goalSaving  = 0.05  // of the step, either way
)

// soundDraws is how often a sound kind is drawn where others are n times: so often that half of all analyses are of runs without a fault.
func soundDraws(n int) int { return (9*n + 4) / 5 }

// judged is what one analysis of one drawn run came to.
type judged struct {
	kind, input string
	draw        int
	sound       bool
	list        string // "": a kind of the simulator's own; else the list of told runs that it is in
	source      string // of a public case

	want, got           string // class
	asked, right, cause bool   // a class is asked for; class, culprit and cause are right; the latter two alone
	late                bool   // a culprit or a cause is asked for
	detail              string

	fire, missed      []string // rules that must be findings, and those of them that are none
	silent, forbidden []string // rules that must not be, and those that are
	saving, promised  float64
	saves             bool                 // both are known
	owners            map[string][]float64 // signed error, share of the window, one a rank
	window            float64              // error of the window's length, its worst rank
}

// recordings of a drawn run: what is put in the folder.
func (k *drawnKind) inputs(d *sim.Drawn) []string {
	var out []string
	for _, base := range []string{"traces", "nsys"} {
		if base == "traces" && d.Traces == nil || base == "nsys" && d.SQL == nil {
			continue
		}
		if d.Bare != nil {
			out = append(out, base+" and logs")
		}
		out = append(out, base)
	}
	if len(out) == 0 {
		out = append(out, "logs")
	}
	return out
}

type drawnKind struct{ *sim.Kind }

// judge records a drawn run in one way, analyses it, and holds that against the truth.
func (k *drawnKind) judge(t *testing.T, d *sim.Drawn, n int, input string) *judged {
	t.Helper()
	dir := t.TempDir()
	put := func(f sim.File) {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	truth := d.Truth
	if strings.HasPrefix(input, "traces") {
		for _, f := range d.Traces {
			put(f)
		}
	}
	if strings.HasPrefix(input, "nsys") {
		for name, sql := range d.SQL {
			database(t, filepath.Join(dir, strings.TrimSuffix(name, ".sql")+".sqlite"), sql)
		}
	}
	if strings.HasSuffix(input, "logs") {
		for _, f := range d.Logs {
			put(f)
		}
	} else if d.Bare != nil {
		truth = d.Bare
	}
	return k.hold(d, truth, diagnose(t, dir), n, input)
}

func (k *drawnKind) hold(d *sim.Drawn, truth *sim.Truth, got *diagnosis, n int, input string) *judged {
	v := &got.verdict
	j := &judged{kind: k.Name, input: input, draw: n, sound: k.Sound, got: v.Class, owners: map[string][]float64{}, fire: truth.Fire, silent: truth.Silent}
	if truth.Class != nil {
		j.asked, j.want = true, *truth.Class
		rank, why := -1, ""
		if truth.CulpritRank != nil {
			rank = *truth.CulpritRank
		}
		if truth.Cause != nil {
			why = *truth.Cause
		}
		j.late = rank >= 0 || why != ""
		j.cause = v.Culprit == rank && v.Cause == why
		j.right = v.Class == j.want && j.cause
		if !j.right {
			j.detail = fmt.Sprintf("%s for %s", verdictText(v.Class, v.Culprit, v.Cause), verdictText(j.want, rank, why))
		}
	}
	found := map[string]bool{}
	for i := range got.checks {
		c := &got.checks[i]
		if c.Outcome != engine.Finding {
			continue
		}
		found[c.Rule.ID] = true
		// Of a sound run nothing at all is wrong, whatever list it stands in.
		bad := slices.Contains(truth.Silent, c.Rule.ID) || k.Sound && c.Severity > engine.Info && !slices.Contains(truth.Fire, c.Rule.ID) && !slices.Contains(d.Allow, c.Rule.ID)
		if bad && !slices.Contains(j.forbidden, c.Rule.ID) {
			j.forbidden = append(j.forbidden, c.Rule.ID)
		}
	}
	for _, id := range truth.Fire {
		if !found[id] {
			j.missed = append(j.missed, id)
		}
	}
	promised := v.Recoverable
	if d.By != "" {
		promised = nil
		for i := range got.checks {
			if c := &got.checks[i]; c.Rule.ID == d.By && c.Outcome == engine.Finding {
				promised = c.Saving
			}
		}
	} else if !j.asked || v.Class != j.want {
		promised = nil
	}
	if d.Saving != nil && promised != nil {
		j.saves, j.saving, j.promised = true, *d.Saving, *promised
	}
	for _, g := range got.in.Job.GPUs {
		red := got.in.Job.Ranks[g.Rank]
		l := &red.GPUs[g.GPU]
		rank := strconv.Itoa(max(0, red.Process.Rank))
		w := float64(truth.WindowNS[rank])
		if w == 0 {
			j.window = 1
			continue
		}
		j.window = max(j.window, math.Abs(float64(l.Window.Dur())-w)/w)
		for o := range l.Owners {
			name := timeline.Owner(o).String()
			if x := truth.OwnersNS[rank][name]; x != 0 || l.Owners[o] != 0 {
				j.owners[name] = append(j.owners[name], float64(l.Owners[o]-x)/w)
			}
		}
	}
	if len(got.in.Job.GPUs) != len(truth.WindowNS) {
		j.window = 1
	}
	return j
}

func verdictText(class string, rank int, cause string) string {
	if rank >= 0 {
		class += fmt.Sprintf(" rank %d", rank)
	}
	if cause != "" {
		class += " " + cause
	}
	return class
}

// drawAll draws the runs of kinds, those of each from one to before another, side by side.
func drawAll(t *testing.T, kinds []*sim.Kind, draws func(k *sim.Kind) (from, to int)) []*judged {
	t.Helper()
	var mu sync.Mutex
	var out []*judged
	t.Run("draw", func(t *testing.T) {
		for _, k := range kinds {
			from, to := draws(k)
			for i := from; i < to; i++ {
				t.Run(fmt.Sprintf("%s/%d", k.Name, i), func(t *testing.T) {
					t.Parallel()
					d, err := k.Draw(i)
					if err != nil {
						t.Fatal(err)
					}
					dk := &drawnKind{k}
					for _, input := range dk.inputs(d) {
						j := dk.judge(t, d, i, input)
						mu.Lock()
						out = append(out, j)
						mu.Unlock()
					}
				})
			}
		}
	})
	order := map[string]int{}
	for i, k := range sim.Kinds() {
		order[k.Name] = i
	}
	slices.SortFunc(out, func(a, b *judged) int {
		return cmp.Or(cmp.Compare(order[a.kind], order[b.kind]), cmp.Compare(a.input, b.input), cmp.Compare(a.draw, b.draw))
	})
	return out
}

// quickKinds are drawn by every test run, which draw of each; -accuracy draws all.
var quickKinds = map[string]int{"loader-starved": 1, "item-sync": 1, "exposed-allreduce": 1, "late-rank": 1, "fp32-gemm": 1, "sound-a100": 1, "sync-that-waits": 1, "sound-west": 1,
	"checkpoint": 4, "iowait-leads": 3, "two-hosts": 3, "sound-no-marks": 3}

// quickTold are the cases and pairs of each test run, in their first draw.
var quickTold = []string{"10", "17", "8", "30", "34", "N2", "37b", "tail", "pipeline-even", "experts-hot", "grids-small", "waves-full", "compiled-once"}

// A drawn run has the verdict, the findings, the ledger and the saving of its truth: a few of each test run, all with -accuracy.
func TestAccuracy(t *testing.T) {
	kinds, runs := sim.Kinds(), toldRuns()
	if *accuracy {
		if *accuracyOnly != "" {
			named := func(name string) bool { return slices.Contains(strings.Split(*accuracyOnly, ","), name) }
			kinds = slices.DeleteFunc(kinds, func(k *sim.Kind) bool { return !named(k.Name) })
			runs = slices.DeleteFunc(runs, func(x *told) bool { return !named(x.name) && !named(x.list) })
		}
		all := drawAll(t, kinds, func(k *sim.Kind) (int, int) {
			if k.Sound {
				return 0, soundDraws(*accuracyDraws)
			}
			return 0, *accuracyDraws
		})
		all = append(all, drawTold(t, runs, 0, *accuracyDraws)...)
		a := sumUp(all)
		text := a.text(*accuracyDraws)
		if *accuracyOnly != "" {
			t.Log("\n" + text)
			return
		}
		if !t.Failed() {
			if err := os.WriteFile(accuracyFile, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range a.unmet() {
			t.Error(x)
		}
		return
	}
	kinds = slices.DeleteFunc(kinds, func(k *sim.Kind) bool { _, ok := quickKinds[k.Name]; return !ok })
	runs = slices.DeleteFunc(runs, func(x *told) bool { return !slices.Contains(quickTold, x.name) })
	if len(kinds) != len(quickKinds) || len(runs) != len(quickTold) {
		t.Fatalf("%d kinds of %v, %d runs of %v", len(kinds), quickKinds, len(runs), quickTold)
	}
	all := drawAll(t, kinds, func(k *sim.Kind) (int, int) { return quickKinds[k.Name], quickKinds[k.Name] + 1 })
	for _, j := range append(all, drawTold(t, runs, 1, 1)...) {
		if j.asked && !j.right {
			t.Errorf("%s, %s: %s", j.kind, j.input, j.detail)
		}
		for _, id := range j.missed {
			t.Errorf("%s, %s: %s is no finding and must be", j.kind, j.input, id)
		}
		for _, id := range j.forbidden {
			t.Errorf("%s, %s: %s is a finding and must not be", j.kind, j.input, id)
		}
		for o, errs := range j.owners {
			for _, e := range errs {
				if math.Abs(e) > goalLedger {
					t.Errorf("%s, %s: %s is off by %.2f %% of the window", j.kind, j.input, o, 100*e)
				}
			}
		}
		if j.window > goalLedger {
			t.Errorf("%s, %s: the window's length is off by %.2f %%", j.kind, j.input, 100*j.window)
		}
		if j.saves && math.Abs(j.promised-j.saving) > j.slack() {
			t.Errorf("%s, %s: %.1f %% of the step promised, %.1f %% is true", j.kind, j.input, 100*j.promised, 100*j.saving)
		}
	}
}

// summary is the whole matrix in numbers.
type summary struct {
	all                     []*judged
	asked, right            int
	late, lateRight         int
	fire, missed            int
	silent, forbidden       int
	saves, near, over       int
	owner                   map[string]*errorOf
	worstOwner, worstWindow float64
}

type errorOf struct {
	sum, max float64
	at       string
	n        int
}

func sumUp(all []*judged) *summary {
	a := &summary{all: all, owner: map[string]*errorOf{}}
	for _, j := range all {
		if j.asked {
			a.asked++
			if j.right {
				a.right++
			}
		}
		if j.late {
			a.late++
			if j.cause {
				a.lateRight++
			}
		}
		a.fire, a.missed = a.fire+len(j.fire), a.missed+len(j.missed)
		a.silent, a.forbidden = a.silent+len(j.silent), a.forbidden+len(j.forbidden)
		if j.saves {
			a.saves++
			switch e := j.promised - j.saving; {
			case math.Abs(e) <= j.slack():
				a.near++
			case e > 0:
				a.over++
			}
		}
		for o, errs := range j.owners {
			x := a.owner[o]
			if x == nil {
				x = &errorOf{}
				a.owner[o] = x
			}
			for _, e := range errs {
				x.n++
				x.sum += math.Abs(e)
				if math.Abs(e) > x.max {
					x.max, x.at = math.Abs(e), fmt.Sprintf("%s, %s, draw %d", j.kind, j.input, j.draw)
				}
			}
		}
		a.worstWindow = max(a.worstWindow, j.window)
	}
	for _, x := range a.owner {
		a.worstOwner = max(a.worstOwner, x.sum/float64(x.n))
	}
	return a
}

// unmet are the goals that are not reached.
func (a *summary) unmet() (out []string) {
	if r := share(a.right, a.asked); r < goalVerdict {
		out = append(out, fmt.Sprintf("the verdict is right in %.1f %% of the analyses, the goal is %.0f %%", 100*r, 100*goalVerdict))
	}
	if a.forbidden > 0 {
		out = append(out, fmt.Sprintf("%d forbidden findings, the goal is none", a.forbidden))
	}
	if a.worstOwner > goalLedger {
		out = append(out, fmt.Sprintf("an owner's mean error is %.2f %% of the window, the goal is %.1f %%", 100*a.worstOwner, 100*goalLedger))
	}
	if a.worstWindow > goalLedger {
		out = append(out, fmt.Sprintf("the length of a window is off by up to %.2f %%, the goal is %.1f %%", 100*a.worstWindow, 100*goalLedger))
	}
	if a.missed > 0 {
		out = append(out, fmt.Sprintf("%d findings of %d that must be there are not", a.missed, a.fire))
	}
	if a.near < a.saves {
		out = append(out, fmt.Sprintf("%d of %d savings are further than %.0f points from the truth", a.saves-a.near, a.saves, 100*goalSaving))
	}
	return out
}

// down is a share in per cent that never reads as all where one is missing.
func down(x float64) string {
	if x == 1 {
		return "100"
	}
	return strconv.FormatFloat(math.Floor(1e4*x)/100, 'f', 2, 64)
}

func share(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

// matrixOf is the line of ACCURACY.md that says of which kinds it is; a test compares it with the current ones.
func matrixOf() string {
	faults, sound := 0, 0
	var names []string
	for _, k := range sim.Kinds() {
		if k.Sound {
			sound++
		} else {
			faults++
		}
		names = append(names, "`"+k.Name+"`")
	}
	lists := map[string]int{}
	var order []string
	for _, x := range toldRuns() {
		if lists[x.list] == 0 {
			order = append(order, x.list)
		}
		lists[x.list]++
	}
	more := ""
	for _, l := range order {
		more += fmt.Sprintf("; %d of %s", lists[l], l)
	}
	return fmt.Sprintf("%d kinds with a fault and %d sound ones: %s%s.", faults, sound, strings.Join(names, ", "), more)
}

func (a *summary) text(draws int) string {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Accuracy\n\nHow often gpureport is right about runs whose truth is known. Written by `%s`; not by hand. `-accuracy-draws N` draws more of each, `-accuracy-only NAME,NAME` some kinds, cases or lists alone and "+
		"prints what comes of them; draw N of a name is the same run on every machine.\n\n", accuracyRun)
	p("## What was drawn\n\nAll runs are made by `fixtures/sim`, which shares no code with the program. Three sorts of them:\n\n")
	p("- Kinds of runs, drawn %d times each, sound ones %d times: draw 0 as shipped, the others with another seed, model size, number of steps (20 to 30) and noise and, where there is a fault, another size of it (up to 30 %% "+
		"either way) and another rank that has it. The simulator works out the truth of each draw: who held each nanosecond, what the same run takes without the fault. Each is analysed as recorded by the PyTorch profiler "+
		"(`traces`) and by Nsight Systems (`nsys`), with the machine's logs beside it and without.\n", draws, soundDraws(draws))
	p("- Public cases, drawn %d times each: draw 0 as rebuilt from the report, the others with other seeds and noise, all lengths up to a tenth longer or shorter, and kernels, collectives, copies and the host's work up to a "+
		"tenth once more, each by itself. Their truth is what the report's author found. Analysed whole, and by their logs of samples alone.\n", draws)
	p("- Pairs that look alike, of which one has a fault: drawn as the public cases are.\n\n")
	count := func(in func(j *judged) bool) (n, sound int) {
		for _, j := range a.all {
			if in(j) {
				n++
				sound += b2i(j.sound)
			}
		}
		return n, sound
	}
	whole, soundOnes := count(func(*judged) bool { return true })
	own, soundKinds := count(func(j *judged) bool { return j.list == "" })
	public, controls := count(func(j *judged) bool { return j.list == publicCases })
	p("%s\n\n", matrixOf())
	p("%d analyses, %d of them (%.0f %%) of runs without a fault: %d of the kinds (%d sound), %d of public cases (%d of controls), %d of pairs (%d of look-alikes).\n\n", whole, soundOnes, 100*share(soundOnes, whole),
		own, soundKinds, public, controls, whole-own-public, soundOnes-soundKinds-controls)
	p("## What this does not cover\n\n%s\n", notCovered)

	p("## In short\n\n| what | measured | goal |\n| --- | --- | --- |\n")
	p("| verdict right: class, late rank and its cause | %d of %d, %s %% | %.0f %% |\n", a.right, a.asked, down(share(a.right, a.asked)), 100*goalVerdict)
	p("| late rank and its cause right, where there is one | %d of %d, %s %% | |\n", a.lateRight, a.late, down(share(a.lateRight, a.late)))
	p("| findings that must be there, found | %d of %d, %s %% | all |\n", a.fire-a.missed, a.fire, down(share(a.fire-a.missed, a.fire)))
	p("| findings that must not be there, raised | %d of %d chances | 0 |\n", a.forbidden, a.silent)
	if held, n := a.held(publicCases); n > 0 {
		p("| public cases held, every draw and input | %d of %d | all |\n", held, n)
	}
	p("| ledger: largest mean error of an owner, share of the window | %.3f %% | %.1f %% |\n", 100*a.worstOwner, 100*goalLedger)
	p("| ledger: largest error of a window's length | %.3f %% | %.1f %% |\n", 100*a.worstWindow, 100*goalLedger)
	p("| saving within %.0f points of the run without the fault, or of what the report measured | %d of %d; %d promise too much, %d too little | all |\n\n", 100*goalSaving, a.near, a.saves, a.over, a.saves-a.near-a.over)

	p("## Verdicts\n\nRows are the truth, columns what was said.\n\n")
	said := map[[2]string]int{}
	seen := map[string]bool{}
	for _, j := range a.all {
		if j.asked && j.want != "" {
			said[[2]string{j.want, j.got}]++
			seen[j.want], seen[j.got] = true, true
		}
	}
	var classes []string
	for _, c := range engine.Classes {
		if seen[c] {
			classes = append(classes, c)
		}
	}
	p("| truth | %s |\n| --- |%s\n", strings.Join(classes, " | "), strings.Repeat(" ---: |", len(classes)))
	for _, w := range classes {
		row, n := "", 0
		for _, g := range classes {
			n += said[[2]string{w, g}]
			row += " |"
			if x := said[[2]string{w, g}]; x > 0 {
				row += fmt.Sprintf(" %d", x)
			}
		}
		if n > 0 {
			p("| %s%s |\n", w, row)
		}
	}

	p("\n## Kinds and inputs\n\n`right`: verdicts, of those asked for; `missed` and `forbidden`: findings over all draws; saving in percent of the step, promised less true, mean and worst of the draws.\n\n")
	p("| kind | input | right | missed | forbidden | true saving | error, mean | error, worst |\n| --- | --- | ---: | --- | --- | ---: | ---: | ---: |\n")
	for from := 0; from < len(a.all) && a.all[from].list == ""; {
		to := from
		for to < len(a.all) && a.all[to].list == "" && a.all[to].kind == a.all[from].kind && a.all[to].input == a.all[from].input {
			to++
		}
		a.row(p, a.all[from:to])
		from = to
	}
	if at := slices.IndexFunc(a.all, func(j *judged) bool { return j.list != "" }); at >= 0 {
		toldText(p, a.all[at:])
	}

	p("\n## Ledger\n\nError of each owner, share of the window, over all ranks of all analyses in which the owner has time.\n\n| owner | ledgers | mean | largest | where |\n| --- | ---: | ---: | ---: | --- |\n")
	for o := range int(timeline.NOwners) {
		if x := a.owner[timeline.Owner(o).String()]; x != nil {
			p("| `%s` | %d | %.3f %% | %.3f %% | %s |\n", timeline.Owner(o), x.n, 100*x.sum/float64(x.n), 100*x.max, x.at)
		}
	}

	p("\n## What is not met, and why\n\n")
	unmet := a.unmet()
	if len(unmet) == 0 {
		p("All goals are met.\n")
	}
	for _, x := range unmet {
		p("- %s.\n", engine.UpperFirst(x))
	}
	a.wrong(p)
	return b.String()
}

func (a *summary) row(p func(string, ...any), js []*judged) {
	asked, right := 0, 0
	missed, forbidden := map[string]int{}, map[string]int{}
	var truth, mean, worst float64
	n := 0
	for _, j := range js {
		if j.asked {
			asked++
			if j.right {
				right++
			}
		}
		for _, id := range j.missed {
			missed[id]++
		}
		for _, id := range j.forbidden {
			forbidden[id]++
		}
		if j.saves {
			n++
			truth += j.saving
			mean += j.promised - j.saving
			if e := j.promised - j.saving; math.Abs(e) > math.Abs(worst) {
				worst = e
			}
		}
	}
	verdicts, save, m, w := "", "", "", ""
	if asked > 0 {
		verdicts = fmt.Sprintf("%d of %d", right, asked)
	}
	if n > 0 {
		save, m, w = fmt.Sprintf("%.1f", 100*truth/float64(n)), fmt.Sprintf("%+.1f", 100*mean/float64(n)), fmt.Sprintf("%+.1f", 100*worst)
	}
	p("| %s | %s | %s | %s | %s | %s | %s | %s |\n", js[0].kind, js[0].input, verdicts, counted(missed), counted(forbidden), save, m, w)
}

// held counts the runs of a list that hold in every draw and input.
func (a *summary) held(list string) (held, n int) {
	bad := map[string]bool{}
	var names []string
	for _, j := range a.all {
		if j.list == list {
			if len(names) == 0 || names[len(names)-1] != j.kind {
				names = append(names, j.kind)
			}
			bad[j.kind] = bad[j.kind] || j.holds() != ""
		}
	}
	for _, name := range names {
		held += 1 - b2i(bad[name])
	}
	return held, len(names)
}

// counted lists ids with how often each was, in order.
func counted(m map[string]int) string {
	var out []string
	for id, n := range m {
		if n > 1 {
			id += fmt.Sprintf(" x%d", n)
		}
		out = append(out, id)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// wrong lists each wrong verdict, alike ones on a line, and what does not hold in every draw with the reason where it is known.
func (a *summary) wrong(p func(string, ...any)) {
	verdicts := map[string]int{}
	off := map[string]bool{}
	var order, names []string
	for _, j := range a.all {
		if j.asked && !j.right {
			s := fmt.Sprintf("`%s`, %s: %s", j.kind, j.input, j.detail)
			if verdicts[s] == 0 {
				order = append(order, s)
			}
			verdicts[s]++
		}
		if !off[j.kind] && j.holds() != "" {
			off[j.kind] = true
			names = append(names, j.kind)
		}
	}
	if len(order) > 0 {
		p("\nWrong verdicts:\n\n")
	}
	for _, s := range order {
		p("- %s (%d)\n", s, verdicts[s])
	}
	var why []string
	for _, name := range names {
		why = append(why, fmt.Sprintf("- `%s`: %s\n", name, cmp.Or(accuracyWhy[name], "the reason is not known.")))
	}
	if len(why) > 0 {
		p("\nWhy:\n\n%s", strings.Join(why, ""))
	}
}

// accuracyWhy says what stands behind what a kind does not reach.
var accuracyWhy = map[string]string{}

// ACCURACY.md is of the kinds that are drawn now, and says of each incident that is none why.
func TestAccuracyIsOfTheCurrentKinds(t *testing.T) {
	if *accuracy {
		t.Skip("it is written now")
	}
	b, err := os.ReadFile(accuracyFile)
	if err != nil {
		t.Fatal(err)
	}
	if want := matrixOf(); !strings.Contains(string(b), want) {
		t.Errorf("fixtures/ACCURACY.md is not of the current kinds: run %s; want in it:\n%s", accuracyRun, want)
	}
	drawn := map[string]bool{}
	sound := 0
	for _, k := range sim.Kinds() {
		if drawn[k.Name] {
			t.Errorf("%s is there twice", k.Name)
		}
		drawn[k.Name] = true
		if k.Sound {
			sound++
		}
		if !strings.Contains(string(b), "| "+k.Name+" | ") {
			t.Errorf("fixtures/ACCURACY.md has no row of %s", k.Name)
		}
	}
	for _, x := range toldRuns() {
		if !strings.Contains(string(b), "| "+x.name+" |") {
			t.Errorf("fixtures/ACCURACY.md has no row of %s, of %s", x.name, x.list)
		}
	}
	if 2*sound < len(drawn)-1 {
		t.Errorf("%d of %d kinds are sound: half should be", sound, len(drawn))
	}
	for _, in := range sim.Incidents() {
		if why := sim.NotDrawn()[in.Name]; drawn[in.Name] == (why != "") {
			t.Errorf("incident %s: drawn %v, and the reason not to is %q", in.Name, drawn[in.Name], why)
		}
	}
}

// The README tells of the matrix what stands in it.
func TestReadmeTellsTheAccuracy(t *testing.T) {
	if *accuracy {
		t.Skip("it is written now")
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	matrix, err := os.ReadFile(accuracyFile)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "\n## How often it is right\n")
	text, _, _ = strings.Cut(text, "\n## ")
	told := regexp.MustCompile(`\d+ of \d+|\d+ simulated runs|\d+ public reports|[\d ]+ chances`).FindAllString(strings.ReplaceAll(text, "\n", " "), -1)
	if len(told) != 6 {
		t.Errorf("it tells %q", told)
	}
	for _, s := range told {
		n, what, _ := strings.Cut(strings.TrimSpace(s), " ")
		switch {
		case strings.HasPrefix(what, "simulated"):
			s = "\n" + n + " analyses"
		case strings.HasPrefix(what, "public"):
			s = "public cases held, every draw and input | " + n + " of " + n
		case strings.HasSuffix(what, "chances"):
			s = " of " + strings.ReplaceAll(strings.TrimSuffix(n+" "+what, " chances"), " ", "") + " chances"
		}
		if !strings.Contains(string(matrix), s) {
			t.Errorf("%q is not in the matrix", s)
		}
	}
}
