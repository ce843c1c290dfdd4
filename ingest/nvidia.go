package ingest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// Cell says what a printed value of the NVIDIA tools is when it is no value.
type Cell uint8

// Kinds of printed values. A word such as None is a value: only its reader knows whether it is one of its words.
const (
	CellValue  Cell = iota
	CellAbsent      // not supported, not permitted, gone from this driver
	CellFailed      // the reading failed: an observation in its own right
	CellLost        // the GPU is lost, or needs a reset
)

// CellOf tells what a value is, with or without brackets.
func CellOf(s string) Cell {
	switch strings.ToLower(strings.TrimSpace(strings.Trim(strings.TrimSpace(s), "[]"))) {
	case "", "-", "n/a", "not supported", "requested functionality has been deprecated", "insufficient permissions", "not available", "not found":
		return CellAbsent
	case "unknown error", "err!", "unknown", "error":
		return CellFailed
	case "gpu is lost", "gpu requires reset", "reset required":
		return CellLost
	}
	return CellValue
}

// BusID turns 00000000:17:00.0 into 0000:17:00.
func BusID(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if i := strings.LastIndexByte(s, '.'); i > 0 {
		s = s[:i]
	}
	dom, rest, ok := strings.Cut(s, ":")
	if !ok || !strings.Contains(rest, ":") {
		return s
	}
	dom = strings.TrimLeft(dom, "0")
	return strings.Repeat("0", max(0, 4-len(dom))) + dom + ":" + rest
}

// KnownUUID gives a printed UUID, and "" for one that somebody masked with zeros.
func KnownUUID(s string) string {
	if strings.Trim(s, "GPUMI-0") == "" {
		return ""
	}
	return s
}

// Program gives the name of a program without its folder and its arguments, which may hold what is nobody's business; "" for no name.
func Program(command string) string {
	s := strings.TrimSpace(command)
	if CellOf(s) != CellValue {
		return ""
	}
	if i := strings.LastIndexByte(s, '\\'); i >= 0 { // Windows: names hold blanks
		s = s[i+1:]
		if j := strings.Index(strings.ToLower(s), ".exe "); j >= 0 {
			s = s[:j+4]
		}
		return s
	}
	s, _, _ = strings.Cut(s, " ")
	return s[strings.LastIndexByte(s, '/')+1:]
}

// ParseCTime reads the stamp above the tools' reports, Tue Jul 14 08:12:53 2026: local time, zone not stated.
func ParseCTime(s string) (timeline.Time, bool) {
	t, err := time.Parse(time.ANSIC, strings.TrimSpace(s))
	if err != nil || t.Year() < 1990 || t.Year() > 2200 {
		return 0, false
	}
	return timeline.Time(t.UnixNano()), true
}

// ComputeOnly tells a process that only computes by the type that the tools print: C, or M+C of MPS. Desktop programs are G or C+G.
func ComputeOnly(kind string) bool { return kind == "C" || kind == "M+C" || kind == "M" }

// ParseQueryStamp reads the timestamp column of the query tools, 2026/07/14 08:12:53.123: local time, zone not stated.
func ParseQueryStamp(s string) (timeline.Time, bool) {
	t, err := time.Parse("2006/01/02 15:04:05.999999999", strings.TrimSpace(s))
	if err != nil || t.Year() < 1990 || t.Year() > 2200 {
		return 0, false
	}
	return timeline.Time(t.UnixNano()), true
}

// Period is the distance of the samples of a log that states no times, by --set period; a second if the user does not say it.
func (o *Options) Period() (timeline.Time, error) {
	p, ok := o.Set["period"]
	if !ok {
		return 1e9, nil
	}
	d, err := strconv.ParseFloat(p, 64)
	if err != nil || !(d > 0 && d < 1e6) {
		return 0, fmt.Errorf("--set period=%s: not a number of seconds: say --set period=1", p)
	}
	return timeline.Time(d * 1e9), nil
}

// HeldMemory is how many bytes in use on a GPU show that some process holds them: a CUDA context takes more, an idle driver less.
const HeldMemory = 256 << 20
