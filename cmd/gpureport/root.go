package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases.
var version = "dev"

func toolVersion() string {
	if version != "dev" {
		return version
	}
	if bi, ok := debug.ReadBuildInfo(); ok && bi.Main.Version != "" && bi.Main.Version != "(devel)" {
		return bi.Main.Version
	}
	return version
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "gpureport",
		Short:         "who was holding the time when the GPU dropped",
		Long:          "gpureport reads PyTorch Profiler traces and nvidia-smi logs of a training run, offline, and reports who held the GPU's time:\ncompute, the data pipeline, copies, the host, NCCL, a late rank or the hardware.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newAnalyze(), newInspect(), newDigest(), newRecord(), newRules(), &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "gpureport "+toolVersion())
			return err
		},
	})
	return root
}
