package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gpureport/ingest/recorder"
)

type recordFlags struct {
	out, rotate        string
	interval, duration time.Duration
	redact, serial     bool
	noGPU              bool
	proc, sys          string
}

func newRecord() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record [-o FILE] [-- COMMAND...]",
		Short: "record GPUs and host into a capture that analyze reads",
		Long: `record samples every GPU of this machine through NVML and the host through /proc and /sys, until it is interrupted, --duration is over,
or COMMAND has ended; it then returns COMMAND's exit code. Signals are passed on to COMMAND. Run one on every host of the job.

FILE ends in .zst or .gz to be compressed. It is written through after every sample: a killed recorder leaves a file that can be read and
lacks one sample at most. No command line, environment, user name or serial number is written.`,
		Example: "  gpureport record -o node7.jsonl.zst -- torchrun train.py\n  gpureport record --interval 200ms --duration 2m",
		RunE:    func(cmd *cobra.Command, args []string) error { return record(cmd, &f, args) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.out, "out", "o", "", "file to write (default HOST-TIME.gpurec.jsonl.zst)")
	fs.DurationVar(&f.interval, "interval", time.Second, "time between samples, from 100ms")
	fs.DurationVar(&f.duration, "duration", 0, "how long to record (default: until interrupted)")
	fs.StringVar(&f.rotate, "rotate", "", "begin a new file whenever one has reached this size, such as 512MB")
	fs.BoolVar(&f.redact, "redact", false, "hide the host's name and the paths of control groups")
	fs.BoolVar(&f.serial, "serial", false, "write the serial numbers of GPUs")
	fs.BoolVar(&f.noGPU, "no-gpu", false, "record the host alone")
	fs.StringVar(&f.proc, "proc", "/proc", "where the host's /proc is mounted")
	fs.StringVar(&f.sys, "sys", "/sys", "where the host's /sys is mounted")
	return cmd
}

func record(cmd *cobra.Command, f *recordFlags, args []string) error {
	if n := cmd.ArgsLenAtDash(); n > 0 || n < 0 && len(args) > 0 {
		return fmt.Errorf("%s: a command to record stands behind --", args[0])
	}
	var rotate int64
	if f.rotate != "" {
		var err error
		if rotate, err = parseSize(f.rotate); err != nil {
			return fmt.Errorf("--rotate %s: %w", f.rotate, err)
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	say := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "gpureport record: "+line) }
	o := recorder.Options{Path: f.out, Period: f.interval, Duration: f.duration, Rotate: rotate, Command: args, Redact: f.redact, Serial: f.serial, Tool: "gpureport " + toolVersion(),
		Proc: f.proc, Sys: f.sys, NoGPU: f.noGPU, Stdin: os.Stdin, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Say: say}
	if o.Period == 0 {
		return fmt.Errorf("--interval 0: the shortest is %v", recorder.MinPeriod)
	}
	sum, err := recorder.Run(ctx, o)
	if sum.Path != "" {
		printRecorded(cmd.ErrOrStderr(), &sum)
	}
	if sum.Ran {
		if err != nil {
			say(err.Error())
		}
		if sum.ExitCode != 0 {
			return &exitError{code: sum.ExitCode}
		}
		return nil
	}
	return err
}

// printRecorded says what was recorded and what it cost.
func printRecorded(w io.Writer, s *recorder.Summary) {
	what := "host"
	switch s.GPUs {
	case 0:
	case 1:
		what = "1 GPU and host"
	default:
		what = fmt.Sprintf("%d GPUs and host", s.GPUs)
	}
	name := s.Path
	switch n := s.Parts - 1; n {
	case 0:
	case 1:
		name += " and 1 more part"
	default:
		name += fmt.Sprintf(" and %d more parts", n)
	}
	sec := s.Elapsed.Seconds()
	fmt.Fprintf(w, "gpureport record: %s: %s, %d samples in %.1f s, %s\n", name, what, s.Ticks, sec, bytesText(s.Bytes))
	fmt.Fprintf(w, "gpureport record: own cost %.2f s of CPU time (%.2f %% of one CPU), %s/h; %d samples late, the latest by %.0f ms\n", s.CPU.Seconds(), 100*s.CPU.Seconds()/math.Max(sec, 1e-9),
		bytesText(int64(float64(s.Bytes)/math.Max(sec, 1e-9)*3600)), s.Late, float64(s.MaxLate)/1e6)
	if n := len(s.Absent); n > 0 {
		fmt.Fprintf(w, "gpureport record: %d readings are not available on this machine\n", n)
	}
	if len(s.NeedRoot) > 0 {
		fmt.Fprintf(w, "gpureport record: root may read what this user may not: %s\n", strings.Join(s.NeedRoot, ", "))
	}
}

func bytesText(n int64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if float64(n) >= u.size {
			return strconv.FormatFloat(float64(n)/u.size, 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}
