package engine

import (
	"fmt"
	"sort"
	"strings"
)

// Error is one thing wrong with a rule file: where: what: how to mend.
type Error struct {
	Path      string
	Line, Col int // from 1; 0 where the file as a whole is meant
	Msg       string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Path, e.Line, e.Col, e.Msg)
}

// Errors are all errors of a load, by path and position.
type Errors []*Error

func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// orNil sorts es and gives it as an error; a nil error when there is none.
func (es Errors) orNil() error {
	if len(es) == 0 {
		return nil
	}
	sort.SliceStable(es, func(i, j int) bool {
		a, b := es[i], es[j]
		switch {
		case a.Path != b.Path:
			return a.Path < b.Path
		case a.Line != b.Line:
			return a.Line < b.Line
		case a.Col != b.Col:
			return a.Col < b.Col
		}
		return a.Msg < b.Msg
	})
	return es
}

// hint ends a message about a name nobody knows: the nearest known one, or else where to find the list.
func hint(name string, known []string, list string) string {
	best, bestDist := "", max(2, len(name)/5)+1
	for _, k := range known {
		if d := distance(name, k); d < bestDist {
			best, bestDist = k, d
		}
	}
	for i := 0; best == "" && i < len(known); i++ {
		if len(name) > 3 && strings.HasPrefix(known[i], name) {
			best = known[i]
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	return list
}

// distance is the number of letters to change, add or drop.
func distance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := prev[0]
		prev[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = prev[j]
			prev[j] = min(cost, prev[j]+1, prev[j-1]+1)
		}
	}
	return prev[len(b)]
}
