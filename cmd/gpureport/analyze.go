package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
	"gpureport/render"
	"gpureport/render/html"
	"gpureport/render/xlsx"
	"gpureport/rules"
	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

type analyzeFlags struct {
	inputFlags
	out, format, title, lang, failOn, from, to, steps, now string
	rules                                                  []string
}

func newAnalyze() *cobra.Command {
	var f analyzeFlags
	cmd := &cobra.Command{
		Use:   "analyze PATH...",
		Short: "read files and folders, write the report, print the verdict",
		Long: `analyze reads files, folders (walked), .gz, .zst, .zip, .tar and .tar.gz, and writes report.html, report.xlsx and report.json.

Exit: 0 the report was written; 1 it was written and a finding reached --fail-on; 2 nothing could be analysed, or wrong use;
3 with --fail-on, no finding reached it but the verdict is insufficient-evidence.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return analyze(cmd, &f, args) },
	}
	fs := cmd.Flags()
	f.add(fs)
	fs.StringVarP(&f.out, "out", "o", "gpureport-out", "folder for the report")
	fs.StringVar(&f.format, "format", "html,xlsx,json", "which of html, xlsx, json, md to write")
	fs.StringArrayVar(&f.rules, "rules", nil, "site rule file or folder, laid over the shipped checklist (repeatable)")
	fs.StringVar(&f.from, "from", "", "begin of the analysed window: RFC 3339, or seconds from the window's start")
	fs.StringVar(&f.to, "to", "", "end of the analysed window: RFC 3339, or seconds from the window's start")
	fs.StringVar(&f.failOn, "fail-on", "never", "exit 1 when a finding is at least critical, high, medium or low")
	fs.StringVar(&f.title, "title", "", "title of the report (default: the input's name)")
	fs.StringVar(&f.lang, "lang", "en", "language of the report: en")
	fs.StringVar(&f.steps, "steps", "", "regular expression of the names of step ranges")
	fs.StringVar(&f.memory, "memory", "", "memory to use at most, such as 8GB; it changes no byte of the result")
	fs.StringVar(&f.now, "now", "", "the day waivers expire against, such as 2026-01-31")
	return cmd
}

var failSeverity = map[string]engine.Severity{"critical": engine.Critical, "high": engine.High, "medium": engine.Medium, "low": engine.Low, "never": engine.NoSeverity}

func analyze(cmd *cobra.Command, f *analyzeFlags, paths []string) error {
	// The store is a few large columns: collect later than the default would, but bound what a big trace may take.
	defer debug.SetGCPercent(debug.SetGCPercent(60))
	kinds, err := f.check()
	if err != nil {
		return err
	}
	opt, err := f.options()
	if err != nil {
		return err
	}
	tables, rs, err := loadRules(f.rules)
	if err != nil {
		return err
	}
	if opt.Said, err = f.saidOf(f.steps, f.rules); err != nil {
		return err
	}
	set, err := ingest.OpenContext(cmd.Context(), paths, formats.List, opt)
	if err != nil {
		return err
	}
	defer set.Close()
	if len(set.Files) == 0 {
		return fmt.Errorf("%s: no files in it", strings.Join(paths, ", "))
	}
	if reduced := set.ReducedFiles(); len(reduced) > 0 && f.from+f.to != "" {
		return fmt.Errorf("--from, --to: %s is here as a digest, which cannot be cut: give the trace itself", reduced[0])
	}
	job := &job{set: set, tables: tables, opt: opt, lopt: ledger.Options{Steps: f.steps, Set: opt.Set}}
	in, wall, err := job.read(cmd.Context(), f.from, f.to, progressTo(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	if why := nothingRead(in.Base); why != "" {
		fmt.Fprint(cmd.ErrOrStderr(), why)
		return &exitError{code: exitUse, msg: "nothing could be analysed: " + whyNothing(in.Base)}
	}
	fset, bugs := facts.Derive(in)
	for _, b := range bugs {
		fmt.Fprintln(cmd.ErrOrStderr(), "gpureport: internal: "+b.Error())
	}
	checks := rs.Evaluate(fset)
	title := f.title
	if title == "" {
		title = titleOf(paths)
		if titles, all := set.DigestTitles(); all && len(titles) == 1 {
			title = titles[0]
		}
	}
	r := render.Build(&render.Input{Version: toolVersion(), Title: title, In: in, Facts: fset, Checks: checks, Verdict: engine.Decide(checks, engine.InputOf(fset)), Wall: wall, Said: f.said()})
	files, err := writeAll(f.out, r, kinds)
	if err != nil {
		return err
	}
	ee := exitOf(r, checks, f.failOn)
	o := render.TerminalOptions{Files: files}
	if out, ok := cmd.OutOrStdout().(*os.File); ok && term.IsTerminal(int(out.Fd())) {
		o.Bold, o.Color = true, os.Getenv("NO_COLOR") == ""
	}
	if ee != nil {
		o.Exit = ee.msg
		ee.msg = ""
	}
	if err := render.WriteTerminal(cmd.OutOrStdout(), r, o); err != nil {
		return err
	}
	if ee != nil {
		return ee
	}
	return nil
}

// said lists what the user said in place of the files; the report shows it as the user's word.
func (f *analyzeFlags) said() []string {
	var out []string
	for _, x := range []struct{ flag, value string }{{"--tz", f.tz}, {"--steps", f.steps}} {
		if x.value != "" {
			out = append(out, x.flag+" "+x.value)
		}
	}
	for _, x := range []struct {
		flag   string
		values []string
	}{{"--as", f.as}, {"--set", f.set}} {
		values := slices.Clone(x.values)
		slices.Sort(values)
		for _, v := range values {
			out = append(out, x.flag+" "+v)
		}
	}
	return out
}

func (f *analyzeFlags) check() (kinds []string, err error) {
	for _, k := range strings.Split(f.format, ",") {
		k = strings.TrimSpace(k)
		if !slices.Contains([]string{"html", "xlsx", "json", "md"}, k) {
			return nil, fmt.Errorf("--format %s: not one of html, xlsx, json, md", k)
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	if _, ok := failSeverity[f.failOn]; !ok {
		return nil, fmt.Errorf("--fail-on %s: not one of critical, high, medium, low, never", f.failOn)
	}
	if f.lang != "en" {
		return nil, fmt.Errorf("--lang %s: only en is there", f.lang)
	}
	if f.now != "" {
		if _, err := time.Parse("2006-01-02", f.now); err != nil {
			return nil, fmt.Errorf("--now %s: not a day such as 2026-01-31", f.now)
		}
	}
	for _, s := range []string{f.from, f.to} {
		if _, _, err := parseWhen(s); err != nil {
			return nil, err
		}
	}
	if _, err := regexp.Compile(f.steps); err != nil {
		return nil, fmt.Errorf("--steps %s: %w", f.steps, err)
	}
	return kinds, nil
}

// parseWhen reads RFC 3339 or seconds from the window's start.
func parseWhen(s string) (at time.Time, sec float64, err error) {
	if s == "" {
		return
	}
	if v, e := strconv.ParseFloat(s, 64); e == nil && v > -1e12 && v < 1e12 {
		return time.Time{}, v, nil
	}
	at, e := time.Parse(time.RFC3339Nano, s)
	if e != nil {
		return at, 0, fmt.Errorf("%s: neither RFC 3339 nor seconds from the window's start", s)
	}
	return at, 0, nil
}

func exitOf(r *render.Report, checks []engine.Check, failOn string) *exitError {
	limit := failSeverity[failOn]
	if limit == engine.NoSeverity {
		return nil
	}
	for i := range checks {
		if checks[i].Outcome == engine.Finding && checks[i].Severity >= limit {
			return &exitError{exitFinding, fmt.Sprintf("A finding reached --fail-on %s: exit 1.", failOn)}
		}
	}
	if r.Verdict.Class == "insufficient-evidence" {
		return &exitError{exitInsufficient, fmt.Sprintf("No finding reached --fail-on %s, but the evidence is insufficient: exit 3.", failOn)}
	}
	return nil
}

// titleOf names the inputs by their last parts, sorted: the order of arguments never shows.
func titleOf(paths []string) string {
	var names []string
	for _, p := range paths {
		n := filepath.Base(filepath.Clean(p))
		if n == "." || n == ".." || n == string(filepath.Separator) {
			if abs, err := filepath.Abs(p); err == nil {
				n = filepath.Base(abs)
			}
		}
		names = append(names, n)
	}
	slices.Sort(names)
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	return strings.Join(names, ", ")
}

// loadRules reads the shipped tables and checklist with the site's laid over them. The error holds those of rules and of tables.
func loadRules(site []string) (*ledger.Tables, *engine.Rules, error) {
	over, err := ledger.ReadSiteTables(site)
	if err != nil {
		return nil, nil, err
	}
	src, err := engine.ReadSite(site)
	if err != nil {
		return nil, nil, err
	}
	tables, tablesErr := ledger.LoadTables(rules.FS, over...)
	rs, err := engine.Load(rules.FS, src, facts.Decls())
	if err := errors.Join(err, tablesErr); err != nil {
		return nil, nil, err
	}
	return tables, rs, nil
}

// job reads a set of inputs into what facts are derived from.
type job struct {
	set    *ingest.Set
	tables *ledger.Tables
	opt    ingest.Options
	lopt   ledger.Options
}

func (j *job) read(ctx context.Context, from, to string, p progress) (*facts.Input, bool, error) {
	base, err := j.set.ReadBase(ctx)
	if err != nil {
		return nil, false, err
	}
	reds, sampled, err := j.reduce(ctx, p)
	if err != nil {
		return nil, false, err
	}
	// Seconds count from the window's start, which only the whole input tells: a cut reads the traces a second time.
	if from != "" || to != "" {
		whole := windowOf(base, ledger.Meet(reds, j.tables, j.lopt))
		cut, err := cutWindow(whole, from, to)
		if err != nil {
			return nil, false, err
		}
		j.lopt.Window = cut
		if reds, sampled, err = j.reduce(ctx, p); err != nil {
			return nil, false, err
		}
	}
	p.done()
	for k, i := range j.set.Bulk() {
		j.set.Adopt(base, sampled[k], i)
	}
	j.set.Settle(base)
	met := ledger.Meet(reds, j.tables, j.lopt)
	var asides []ingest.Aside
	for _, a := range met.Asides {
		asides = append(asides, ingest.Aside(a))
	}
	ingest.PlaceAsides(base, met.Ranks, asides)
	ingest.Place(base, met.Ranks, j.opt)
	setAside(base, met)
	for _, r := range met.Ranks {
		for i := range base.Sources {
			if s := &base.Sources[i]; s.Path == r.Path && len(s.Coverage) == 0 && !r.Recorded.Empty() {
				s.Coverage = []timeline.Interval{r.Recorded}
			}
		}
	}
	w := windowOf(base, met)
	if !j.lopt.Window.Empty() {
		w = j.lopt.Window
	}
	cards := ingest.Match(base, met.Ranks, asides...)
	in := &facts.Input{Job: met, Base: base, Window: w, Tables: j.tables, Set: j.opt.Set, Logs: map[string][]timeline.DeviceID{}}
	for _, g := range met.GPUs {
		in.Logs[g.ID] = cards.Of(g.Rank, g.GPU)
	}
	for i, c := range cards.Unclaimed() {
		in.Logs[fmt.Sprintf("gpu%d", len(met.GPUs)+i)] = c.Devices
	}
	return in, wallKnown(base, met), nil
}

// setAside notes on the inputs which of them are not analysed, and why.
func setAside(base *timeline.Timeline, met *ledger.Job) {
	of := map[string]string{}
	for _, a := range met.Asides {
		of[a.Red.Path] = met.Ranks[a.Of].Path
	}
	for i := range base.Sources {
		s := &base.Sources[i]
		if slices.Contains(met.Ignored, s.Path) {
			s.Used = false
			s.Note = "another run: only the run with most ranks, then most steps, is analysed"
		}
		if other, ok := of[s.Path]; ok {
			s.Note = "a second capture of a process that " + other + " shows too: the time ledger is that one's, and this one's readings are used"
		}
	}
}

// reduce reads the traces side by side, as many as there are CPUs and as fit the memory budget, and keeps only what outlives their spans:
// the reductions of all, and the sampled readings of each.
func (j *job) reduce(ctx context.Context, p progress) ([]*timeline.Reduced, []*timeline.Timeline, error) {
	bulk := j.set.Bulk()
	out, sampled := make([][]*timeline.Reduced, len(bulk)), make([]*timeline.Timeline, len(bulk))
	err := j.each(ctx, bulk, p, func(k, i int) (err error) {
		out[k], sampled[k], err = j.reduceOne(ctx, i)
		return err
	})
	return slices.Concat(out...), sampled, err
}

// reduceOne reads one trace or the digest of one. A file that is unusable gives nothing: it is listed as a problem of its own.
func (j *job) reduceOne(ctx context.Context, i int) ([]*timeline.Reduced, *timeline.Timeline, error) {
	if j.set.IsDigest(i) {
		reds, sampled, _ := j.set.ReadDigest(i)
		return reds, sampled, nil
	}
	tl, err := j.set.ReadBulk(ctx, i)
	if err != nil {
		return nil, nil, ctx.Err()
	}
	if tl.Spans.Len() >= 1<<20 {
		// Columns of millions of rows hold no pointers: collecting them is cheap, and what waits for it is a share of them.
		debug.SetGCPercent(25)
	}
	sampled := tl.Sampled()
	reds, err := ledger.Reduce(tl, j.tables, j.lopt)
	if err != nil {
		err = fmt.Errorf("%s: %w", j.set.Files[i].Source.Path, err)
	}
	return reds, sampled, err
}

// each calls do for files, with the position in the list and the file's number: side by side, a CPU each, as long as what they take
// together stays within the memory budget. A file larger than the budget is read alone.
func (j *job) each(ctx context.Context, files []int, p progress, do func(k, i int) error) error {
	p.start(len(files))
	left := j.opt.Memory
	if left <= 0 {
		left = freeMemory() / 2
	}
	var mu sync.Mutex
	done := sync.NewCond(&mu)
	running := 0
	errs := make([]error, len(files))
	for k, i := range files {
		size := j.set.Size(i)
		mu.Lock()
		for running > 0 && (running >= runtime.NumCPU() || size > left) {
			done.Wait()
		}
		running++
		left -= size
		mu.Unlock()
		go func() {
			defer func() {
				mu.Lock()
				running--
				left += size
				mu.Unlock()
				done.Signal()
				p.step()
			}()
			if errs[k] = ctx.Err(); errs[k] == nil {
				errs[k] = do(k, i)
			}
		}()
	}
	mu.Lock()
	for running > 0 {
		done.Wait()
	}
	mu.Unlock()
	return errors.Join(errs...)
}

// windowOf is all that traces and placed logs cover. A log of no placed clock counts where there is nothing else: its axis is its own. A
// snapshot, a series of one reading, counts where nothing longer does: it may have been taken hours away.
func windowOf(base *timeline.Timeline, job *ledger.Job) timeline.Interval {
	var w timeline.Interval
	grow := func(iv timeline.Interval) {
		if iv.Empty() {
			return
		}
		if w.Empty() {
			w = iv
			return
		}
		w.Start, w.End = min(w.Start, iv.Start), max(w.End, iv.End)
	}
	for _, r := range job.Ranks {
		grow(r.Recorded)
		for i := range r.GPUs {
			grow(r.GPUs[i].Window)
		}
	}
	logs := func(placed, lasting bool) {
		for i := range base.Series {
			s := &base.Series[i]
			src := &base.Sources[base.Tracks[s.Track].Source]
			if len(s.At) == 0 || !src.Used || placed != (base.Clocks[src.Clock].How != timeline.Unplaced) || lasting != (len(s.At) > 1) {
				continue
			}
			iv := timeline.Interval{Start: s.At[0], End: s.At[len(s.At)-1] + 1}
			if s.Metric.Covers == timeline.WindowBefore {
				iv.Start -= timeline.Time(s.Metric.Window)
			}
			grow(iv)
		}
	}
	logs(true, true)
	for _, rest := range []struct{ placed, lasting bool }{{true, false}, {false, true}, {false, false}} {
		if w.Empty() && (rest.placed || len(job.Ranks) == 0) {
			logs(rest.placed, rest.lasting)
		}
	}
	return w
}

func cutWindow(w timeline.Interval, from, to string) (timeline.Interval, error) {
	out := w
	for _, e := range []struct {
		s  string
		at *timeline.Time
	}{{from, &out.Start}, {to, &out.End}} {
		if e.s == "" {
			continue
		}
		t, sec, err := parseWhen(e.s)
		if err != nil {
			return out, err
		}
		if !t.IsZero() {
			*e.at = timeline.Time(t.UnixNano())
		} else {
			*e.at = w.Start + timeline.Time(sec*1e9)
		}
	}
	out.Start, out.End = max(out.Start, w.Start), min(out.End, w.End)
	if out.Empty() {
		return out, fmt.Errorf("--from %q --to %q: nothing of the inputs lies between", from, to)
	}
	return out, nil
}

// wallKnown tells whether the axis is UTC: some trace or placed log knows the wall time.
func wallKnown(base *timeline.Timeline, job *ledger.Job) bool {
	for i := range base.Sources {
		s := &base.Sources[i]
		c := &base.Clocks[s.Clock]
		if s.Used && c.Zoned && c.How != timeline.Unplaced {
			return true
		}
		if s.Used && c.Wall && (c.How == timeline.Stated || c.How == timeline.Matched) {
			return true
		}
	}
	return false
}

// nothingRead says why there is nothing to report on; "" if there is.
func nothingRead(base *timeline.Timeline) string {
	var b strings.Builder
	for i := range base.Sources {
		s := &base.Sources[i]
		if s.Used {
			return ""
		}
		switch {
		case s.Format == ingest.Unknown:
			fmt.Fprintf(&b, "%s: none of ours", s.Path)
			if s.Note != "" {
				fmt.Fprintf(&b, ": %s", s.Note)
			}
			if s.Head != "" {
				fmt.Fprintf(&b, "; it begins: %s", s.Head)
			}
		case s.Note == "" && slices.ContainsFunc(base.Problems, func(p timeline.Problem) bool { return p.Severity == timeline.Error && p.Path == s.Path }):
			continue // why is among the problems
		case s.Note == "":
			fmt.Fprintf(&b, "%s: %s: no rows in it", s.Path, s.Format)
		default:
			fmt.Fprintf(&b, "%s: %s: %s", s.Path, s.Format, s.Note)
		}
		b.WriteByte('\n')
	}
	for _, p := range base.Problems {
		if p.Severity == timeline.Error {
			fmt.Fprintf(&b, "%s: %s\n", p.Path, p.Message)
		}
	}
	return b.String()
}

// writeAll writes the outputs beside their names and renames them when all are whole.
func writeAll(dir string, r *render.Report, kinds []string) ([]render.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("--out %s: %w", dir, err)
	}
	writers := map[string]func(io.Writer) error{
		"html": func(w io.Writer) error {
			return html.Write(w, render.Sections(r), html.Meta{Title: r.Title, Version: r.Tool.Version, Footer: render.Footer(r)})
		},
		"xlsx": func(w io.Writer) error { return xlsx.Write(w, r) },
		"json": func(w io.Writer) error { return render.WriteJSON(w, r) },
		"md":   func(w io.Writer) error { return render.WriteMarkdown(w, r) },
	}
	order := []string{}
	for _, k := range []string{"html", "xlsx", "json", "md"} {
		if slices.Contains(kinds, k) {
			order = append(order, k)
		}
	}
	temps := make([]string, len(order))
	errs := make([]error, len(order))
	var wg sync.WaitGroup
	for i, k := range order {
		wg.Add(1)
		go func() {
			defer wg.Done()
			temps[i], errs[i] = writeTemp(dir, k, writers[k])
		}()
	}
	wg.Wait()
	defer func() {
		for _, t := range temps {
			if t != "" {
				os.Remove(t)
			}
		}
	}()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var out []render.File
	for i, k := range order {
		name := filepath.Join(dir, "report."+k)
		if err := os.Rename(temps[i], name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		temps[i] = ""
		st, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		out = append(out, render.File{Path: name, Bytes: st.Size()})
	}
	return out, nil
}

func writeTemp(dir, kind string, write func(io.Writer) error) (name string, err error) {
	t, err := os.CreateTemp(dir, ".report-*."+kind)
	if err != nil {
		return "", err
	}
	err = write(t)
	if cerr := t.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(t.Name(), 0o644)
	}
	if err != nil {
		os.Remove(t.Name())
		return "", fmt.Errorf("%s: %w", filepath.Join(dir, "report."+kind), err)
	}
	return t.Name(), nil
}

// progress shows a bar on a terminal and nothing elsewhere.
type progress struct {
	w   io.Writer
	bar *progressBar
}

type progressBar struct {
	p *mpb.Progress
	b *mpb.Bar
}

func progressTo(w io.Writer) progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return progress{w: w, bar: &progressBar{}}
	}
	return progress{}
}

func (p progress) start(n int) {
	if p.bar == nil || n == 0 {
		return
	}
	p.bar.p = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(40))
	p.bar.b = p.bar.p.AddBar(int64(n), mpb.PrependDecorators(decor.Name("reading traces "), decor.CountersNoUnit("%d/%d")), mpb.BarRemoveOnComplete())
}

func (p progress) step() {
	if p.bar != nil && p.bar.b != nil {
		p.bar.b.Increment()
	}
}

func (p progress) done() {
	if p.bar != nil && p.bar.p != nil {
		p.bar.p.Wait()
	}
}
