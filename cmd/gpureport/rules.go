package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gpureport/rules/engine"
	"gpureport/rules/facts"
	"gpureport/rules/ledger"
)

func newRules() *cobra.Command {
	cmd := &cobra.Command{Use: "rules", Short: "for those who write rules: list, show, check, test, init, schema, facts", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var site []string
	cmd.PersistentFlags().StringArrayVar(&site, "rules", nil, "site rule file or folder, laid over the shipped checklist (repeatable)")
	load := func(extra ...string) (*engine.Rules, error) {
		_, rs, err := loadRules(append(append([]string{}, site...), extra...))
		return rs, err
	}
	cmd.AddCommand(&cobra.Command{Use: "list", Short: "every rule, in checklist order", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		rs, err := load()
		if err != nil {
			return err
		}
		for _, r := range rs.List {
			origin := ""
			if r.Site {
				origin = "  (" + r.Path + ")"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%-26s per %-4s  %s%s\n", r.ID, r.Per, r.Title, origin)
		}
		return nil
	}})
	cmd.AddCommand(&cobra.Command{Use: "show ID", Short: "one rule: condition, limits with sources, advice, the facts it asks", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		rs, err := load()
		if err != nil {
			return err
		}
		for _, r := range rs.List {
			if r.ID == args[0] {
				_, err := cmd.OutOrStdout().Write(engine.MarkdownRule(rs, r))
				return err
			}
		}
		return fmt.Errorf("%s: no such rule: see gpureport rules list", args[0])
	}})
	cmd.AddCommand(&cobra.Command{Use: "check PATH...", Short: "check rule files, all errors at once", Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		rs, err := load(args...)
		if err != nil {
			return err
		}
		n := 0
		for _, r := range rs.List {
			if r.Site {
				n++
			}
		}
		tables, err := ledger.ReadSiteTables(args)
		if err != nil {
			return err
		}
		count := func(n int, of string) string {
			if n != 1 {
				of += "s"
			}
			return fmt.Sprintf("%d %s", n, of)
		}
		what := count(n, "rule")
		if len(tables) > 0 {
			what += ", " + count(len(tables), "table")
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s, no errors\n", what)
		return nil
	}})
	cmd.AddCommand(&cobra.Command{Use: "test [PATH...]", Short: "run the cases of rule files; without a path, of the shipped checklist", RunE: func(cmd *cobra.Command, args []string) error {
		rs, err := load(args...)
		if err != nil {
			return err
		}
		if len(args) > 0 { // only the user's own
			rs = rs.Only(func(r *engine.Rule) bool { return r.Site })
		}
		cases := 0
		for _, r := range rs.List {
			cases += len(r.Cases)
		}
		fails := engine.Test(rs)
		for _, f := range fails {
			fmt.Fprintln(cmd.OutOrStdout(), f.String())
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d rules, %d cases, %d failures\n", len(rs.List), cases, len(fails))
		if len(fails) > 0 {
			return &exitError{code: exitFinding}
		}
		return nil
	}})
	cmd.AddCommand(&cobra.Command{Use: "init DIR", Short: "a folder to start your own rules from: an example rule with cases, a table, a README", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		names, err := initRules(args[0])
		for _, name := range names {
			fmt.Fprintln(cmd.OutOrStdout(), name)
		}
		return err
	}})
	cmd.AddCommand(&cobra.Command{Use: "schema", Short: "the JSON schema of a rule file, for editors", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := cmd.OutOrStdout().Write(engine.Schema(facts.Decls()))
		return err
	}})
	cmd.AddCommand(&cobra.Command{Use: "facts", Short: "every fact a rule may ask: unit, per what, meaning, what records it", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		for _, d := range facts.Decls() {
			capture := d.Capture
			if r, ok := facts.RecipeOf(d.Capture); ok {
				capture = r.Title
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%-38s %-12s per %-4s  %s Recorded by: %s.\n", d.ID, d.Unit, d.Per, strings.TrimSuffix(d.Doc, ".")+".", capture)
		}
		return nil
	}})
	return cmd
}
