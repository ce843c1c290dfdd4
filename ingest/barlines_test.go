package ingest

import (
	"fmt"
	"strings"
	"testing"
)

// A progress bar's states are lines of one row, however long it grows.
func TestBarLines(t *testing.T) {
	shown := func(l *Lines) string {
		var out []string
		for l.Next() {
			if len(l.Text) > 0 {
				out = append(out, fmt.Sprintf("%d:%s", l.Row, l.Text))
			}
		}
		return strings.Join(out, " ")
	}
	text := "start\r\n 1/9\r 2/9\r\x1b[A 3/9\nend"
	if got := shown(NewBarLines(strings.NewReader(text))); got != "1:start 2: 1/9 2: 2/9 2: 3/9 3:end" {
		t.Error(got)
	}
	if got := shown(NewPlainLines(strings.NewReader(text))); got != "1:start 2: 3/9 3:end" {
		t.Errorf("without bars the last state counts: %s", got)
	}
	l := NewBarLines(strings.NewReader(strings.Repeat("0123456789\r", 300_000) + "\n"))
	n := 0
	for l.Next() {
		if string(l.Text) == "0123456789" && l.Row == 1 && !l.Long {
			n++
		}
	}
	if n != 300_000 {
		t.Errorf("%d states", n)
	}
}
