package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
	"gpureport/render"
)

func newInspect() *cobra.Command {
	var f inputFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "what each file is, its rows, clock, GPUs and ranks, what it lets be asked; no analysis",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := f.options()
			if err != nil {
				return err
			}
			set, err := ingest.OpenContext(cmd.Context(), args, formats.List, opt)
			if err != nil {
				return err
			}
			defer set.Close()
			base, err := set.ReadBase(cmd.Context())
			if err != nil {
				return err
			}
			for _, i := range set.Bulk() {
				if _, err := set.ReadBulk(cmd.Context(), i); err != nil && cmd.Context().Err() != nil {
					return err
				}
			}
			set.Settle(base)
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetEscapeHTML(false)
				enc.SetIndent("", " ")
				return enc.Encode(map[string]any{"inputs": render.Inputs(base, base.Window)})
			}
			for i, file := range set.Files {
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				inspectFile(cmd.OutOrStdout(), file, &base.Clocks[i])
			}
			return nil
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the inputs list of report.json")
	return cmd
}

func inspectFile(w io.Writer, f *ingest.File, clock *timeline.Clock) {
	s := &f.Source
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "  %-9s %s\n", label, render.Plain(fmt.Sprintf(format, args...)))
	}
	doc := "none of ours"
	if f.Format != nil {
		doc = f.Format.Name + ": " + f.Format.Doc
	}
	fmt.Fprintln(w, render.Plain(s.Path))
	line("format", "%s", doc)
	line("size", "%s", render.Bytes(float64(s.Bytes)))
	if f.Format == nil {
		line("begins", "%s", s.Head)
	}
	if s.Note != "" {
		line("note", "%s", s.Note)
	}
	if f.Read {
		line("rows", "%d", s.Rows)
		word := "states no time"
		switch {
		case clock.Zoned:
			word = "UTC"
		case clock.Wall:
			word = "wall clock without a zone (say it with --tz)"
		}
		if clock.Step > 0 {
			word += ", grain " + clock.Step.String()
		}
		line("clock", "%s", word)
		if len(s.Coverage) > 0 {
			iv := timeline.Interval{Start: s.Coverage[0].Start, End: s.Coverage[len(s.Coverage)-1].End}
			covers := render.Dur(float64(iv.Dur()), 3)
			if iv.Dur() <= 1 {
				covers = "one reading"
			}
			line("covers", "%s", covers)
		}
		var gpus []string
		for i := range f.Devices {
			d := &f.Devices[i]
			name := d.Name
			if name == "" {
				name = "GPU"
				if id := cmp.Or(d.Bus, d.UUID); id != "" && d.Index < 0 && d.Ordinal < 0 { // nothing else tells it from others
					name += " " + id
				}
			}
			if d.Index >= 0 {
				name = fmt.Sprintf("%d: %s", d.Index, name)
			} else if d.Ordinal >= 0 {
				name = fmt.Sprintf("%d: %s", d.Ordinal, name)
			}
			gpus = append(gpus, name)
		}
		if len(gpus) > 0 {
			line("GPUs", "%s", strings.Join(slices.Compact(gpus), ", "))
		}
		for i := range f.Procs {
			p := &f.Procs[i]
			rank := "not stated"
			if p.Rank >= 0 {
				rank = fmt.Sprintf("%d", p.Rank)
				if p.WorldSize > 0 {
					rank += fmt.Sprintf(" of %d", p.WorldSize)
				}
				rank += " (" + p.RankHow + ")"
			}
			if i == 8 {
				line("rank", "and %d more processes", len(f.Procs)-i)
				break
			}
			line("rank", "%s", rank)
		}
	}
	if asks := f.Asks(); len(asks) > 0 {
		line("asks", "%s", strings.Join(asks, ", "))
	}
	for i, p := range f.Problems {
		if i == 6 {
			line("problem", "and %d more kinds", len(f.Problems)-i)
			break
		}
		line("problem", "%s at %d: %s (%d times)", p.Code, p.Row, p.Message, p.Count)
	}
}
