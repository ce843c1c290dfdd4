package facts

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

//go:generate go test -count=1 -run ^TestFactsMarkdown$ . -update

// Markdown is FACTS.md: every fact, by subject and name, with its unit, range and capture.
func Markdown() []byte {
	var b bytes.Buffer
	b.WriteString("# Facts\n\nWhat a rule may name. Made from the catalogue by `go generate ./rules/facts`; do not edit.\n" +
		"A rule sees the facts of its subject and of what holds it. Text facts are shown, never judged; flags stand alone in a condition.\n")
	for k := Run; k <= GPU; k++ {
		fmt.Fprintf(&b, "\n## %s\n\n", k)
		rows := 0
		for _, d := range Decls() {
			if d.Per != k {
				continue
			}
			if rows == 0 {
				b.WriteString("| fact | unit | range | capture | what it is |\n| --- | --- | --- | --- | --- |\n")
			}
			rows++
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.ID, d.Unit, legal(d), d.Capture, d.Doc)
		}
		if rows == 0 {
			b.WriteString("None yet.\n")
		}
	}
	b.WriteString("\n## Captures\n\n| id | records | where | command |\n| --- | --- | --- | --- |\n")
	for _, r := range Recipes {
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", r.ID, r.Title, r.Where, bytes.ReplaceAll([]byte(r.Command), []byte("|"), []byte(`\|`)))
	}
	return b.Bytes()
}

func legal(d *Decl) string {
	if d.Min == 0 && d.Max == 0 {
		return ""
	}
	bound := func(x float64) string {
		if math.Abs(x) >= 1e5 {
			return strconv.FormatFloat(x, 'g', 3, 64)
		}
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return bound(d.Min) + " to " + bound(d.Max)
}
