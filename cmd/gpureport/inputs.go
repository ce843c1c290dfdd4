package main

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"gpureport/ingest"
)

// inputFlags are what the user may say about the inputs; analyze and inspect share them.
type inputFlags struct {
	tz     string
	as     []string
	set    []string
	memory string
}

func (f *inputFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.tz, "tz", "", "offset of clocks that state no zone, such as +08:00")
	fs.StringArrayVar(&f.as, "as", nil, "FORMAT=GLOB: read the files that match as this format")
	fs.StringArrayVar(&f.set, "set", nil, "KEY=VALUE the files do not say: workers, accumulate, save_every, log_every, eval_every (steps), period (seconds)")
}

var setKeys = map[string]bool{"workers": true, "accumulate": true, "save_every": true, "log_every": true, "eval_every": true, "period": true}

func (f *inputFlags) options() (ingest.Options, error) {
	opt := ingest.Options{TZ: f.tz, Jobs: runtime.NumCPU(), As: map[string]string{}, Set: map[string]string{}}
	for _, a := range f.as {
		k, v, ok := strings.Cut(a, "=")
		if !ok || k == "" || v == "" {
			return opt, fmt.Errorf("--as %s: not FORMAT=GLOB", a)
		}
		opt.As[k] = v
	}
	for _, s := range f.set {
		k, v, ok := strings.Cut(s, "=")
		if !ok || !setKeys[k] {
			return opt, fmt.Errorf("--set %s: not KEY=VALUE with one of workers, accumulate, save_every, log_every, eval_every, period", s)
		}
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
			return opt, fmt.Errorf("--set %s: the value is not a number of 0 or more", s)
		}
		opt.Set[k] = v
	}
	if f.memory != "" {
		n, err := parseSize(f.memory)
		if err != nil {
			return opt, fmt.Errorf("--memory %s: %w", f.memory, err)
		}
		opt.Memory = n
	}
	return opt, nil
}

// parseSize reads 512MB, 4GiB or a plain number of bytes.
func parseSize(s string) (int64, error) {
	units := []struct {
		name  string
		bytes float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"B", 1}}
	mul := 1.0
	num := strings.TrimSpace(s)
	for _, u := range units {
		if strings.HasSuffix(num, u.name) {
			num, mul = strings.TrimSpace(strings.TrimSuffix(num, u.name)), u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || !(v > 0) || v*mul >= math.MaxInt64 {
		return 0, fmt.Errorf("not a size such as 8GB")
	}
	return int64(v * mul), nil
}
