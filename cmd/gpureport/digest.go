package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
	"gpureport/rules/ledger"
)

type digestFlags struct {
	inputFlags
	out, part, steps, title string
	rules                   []string
}

func newDigest() *cobra.Command {
	var f digestFlags
	cmd := &cobra.Command{
		Use:   "digest PATH... -o DIR",
		Short: "reduce each rank's trace to one small file that analyze reads in its place",
		Long: `digest writes one small file for each input: of a trace what outlives its spans, a log whole. analyze makes the same report of these files as of
the inputs themselves, so a cluster can run one digest a node, beside the data, and one analyze at the end.

Give the same PATH to every task of a job array, and --part I/N to each.

Exit: 0 the digests were written; 2 nothing could be digested, or wrong use.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return digest(cmd, &f, args) },
	}
	fs := cmd.Flags()
	f.add(fs)
	fs.StringVarP(&f.out, "out", "o", "", "folder for the digests")
	fs.StringVar(&f.part, "part", "", "I/N: only every N-th input, from the I-th of them")
	fs.StringVar(&f.steps, "steps", "", "regular expression of the names of step ranges")
	fs.StringVar(&f.title, "title", "", "title of the report (default: the input's name)")
	fs.StringArrayVar(&f.rules, "rules", nil, "site rules as for analyze: their tables say how names are classed (repeatable)")
	fs.StringVar(&f.memory, "memory", "", "memory to use at most, such as 8GB; it changes no byte of the result")
	return cmd
}

// saidOf is what was said that changes reductions.
func (f *inputFlags) saidOf(steps string, rules []string) (ingest.Said, error) {
	said := ingest.Said{Version: toolVersion(), Steps: steps, Set: slices.Clone(f.set)}
	slices.Sort(said.Set)
	over, err := ledger.ReadSiteTables(rules)
	if err != nil || len(over) == 0 {
		return said, err
	}
	h := sha256.New()
	var names []string
	for _, t := range over {
		fmt.Fprintf(h, "%d %d ", len(filepath.Base(t.Path)), len(t.Data))
		h.Write([]byte(filepath.Base(t.Path)))
		h.Write(t.Data)
		names = append(names, filepath.Base(t.Path))
	}
	said.Tables = strings.Join(names, " ") + " " + hex.EncodeToString(h.Sum(nil)[:6])
	return said, nil
}

// parsePart reads I/N; "" is 1/1.
func parsePart(s string) (i, n int, err error) {
	if s == "" {
		return 1, 1, nil
	}
	a, b, ok := strings.Cut(s, "/")
	i, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || i < 1 || i > n {
		return 0, 0, fmt.Errorf("--part %s: not I/N with I from 1 to N, such as 3/16", s)
	}
	return i, n, nil
}

func digest(cmd *cobra.Command, f *digestFlags, paths []string) error {
	defer debug.SetGCPercent(debug.SetGCPercent(60))
	if f.out == "" {
		return errors.New("-o DIR: say where the digests go")
	}
	part, parts, err := parsePart(f.part)
	if err != nil {
		return err
	}
	if _, err := regexp.Compile(f.steps); err != nil {
		return fmt.Errorf("--steps %s: %w", f.steps, err)
	}
	opt, err := f.options()
	if err != nil {
		return err
	}
	if opt.Said, err = f.saidOf(f.steps, f.rules); err != nil {
		return err
	}
	opt.NoDigests = true
	tables, _, err := loadRules(f.rules)
	if err != nil {
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
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("-o %s: %w", f.out, err)
	}
	title := f.title
	if title == "" {
		title = titleOf(paths)
	}
	var mine []int
	for k, i := range set.Whole() {
		if k%parts == part-1 {
			mine = append(mine, i)
		}
	}
	done := make([]digested, len(mine))
	job := &job{set: set, tables: tables, opt: opt, lopt: ledger.Options{Steps: f.steps, Set: opt.Set}}
	bar := progressTo(cmd.ErrOrStderr())
	err = job.each(cmd.Context(), mine, bar, func(k, i int) (err error) {
		done[k], err = job.digestOne(cmd.Context(), f.out, title, i)
		return err
	})
	bar.done()
	if err != nil {
		return err
	}
	var sum digested
	for k, d := range done {
		sum.bytes, sum.ranks, sum.steps, sum.read = sum.bytes+d.bytes, sum.ranks+d.ranks, sum.steps+d.steps, sum.read+d.read
		for _, p := range set.Files[mine[k]].Problems {
			if p.Severity == timeline.Error {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", p.Path, p.Message)
			}
		}
	}
	if len(mine) > 0 && sum.read == 0 && parts == 1 {
		return &exitError{code: exitUse, msg: "nothing could be digested: none of the inputs is in a format that is read"}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d of %d inputs, %d ranks, %d steps: %d bytes of digests in %s\n", len(mine), len(set.Whole()), sum.ranks, sum.steps, sum.bytes, f.out)
	return err
}

type digested struct {
	bytes              int64
	ranks, steps, read int
}

// digestOne writes the digest of one file: beside its name, then renamed.
func (j *job) digestOne(ctx context.Context, dir, title string, i int) (d digested, err error) {
	f := j.set.Files[i]
	var reds []*timeline.Reduced
	var sampled *timeline.Timeline
	read := f.Format != nil && f.Format.Read != nil
	switch {
	case read && f.Format.Bulk:
		if reds, sampled, err = j.reduceOne(ctx, i); err != nil {
			return d, err
		}
		read = f.Source.Used
	default:
		if err := j.set.Hash(ctx, i); err != nil && ctx.Err() != nil {
			return d, ctx.Err()
		}
	}
	for _, r := range reds {
		d.ranks++
		d.steps += len(r.Steps.Index)
	}
	if read {
		d.read = 1
	}
	name := filepath.Join(dir, ingest.DigestName(f.Source.Path))
	if was, err := ingest.DigestOf(name); err == nil && (was.Path != f.Source.Path || was.SHA256 != f.Source.SHA256) {
		return d, fmt.Errorf("%s: is the digest of another %s: remove it if the input has changed, or give another folder: inputs of one name from two nodes need one each", name, was.Path)
	}
	t, err := os.CreateTemp(dir, ingest.TempPrefix+"*")
	if err != nil {
		return d, err
	}
	defer os.Remove(t.Name())
	err = j.set.WriteDigest(ctx, t, i, title, reds, sampled)
	if err == nil {
		err = t.Chmod(0o644)
	}
	if st, serr := t.Stat(); serr == nil {
		d.bytes = st.Size()
	}
	err = errors.Join(err, t.Close())
	if err == nil {
		err = os.Rename(t.Name(), name)
	}
	if err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}
