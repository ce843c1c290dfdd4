package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A loader ends its workers and begins others between two slow ticks: the others are looked for as soon as the first are gone.
func TestNewChildrenAreLookedForOnceOthersHaveEnded(t *testing.T) {
	proc := filepath.Join(t.TempDir(), "proc")
	write := func(pid, ppid int, comm string, start int) {
		dir := filepath.Join(proc, fmt.Sprint(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 1 0 7 0 10 5 0 0 20 0 1 0 %d 1000000 25 1 1 1 1 1 1 1 1 1 1 0 0 0 17 0 0 0 33\n", pid, comm, ppid, start)
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(40, 1, "python", 100)
	write(41, 40, "pt_data_worker", 200)
	h := newHost(proc, proc)
	h.procs.command = 40
	var l lines
	tick := func(at int64) string {
		l.b = l.b[:0]
		if h.procs.due(at) {
			h.procs.find(h)
			h.procs.describe(h, &l, at)
		}
		h.procs.sample(h, &l, at)
		return string(l.b)
	}
	h.procs.find(h)
	h.procs.describe(h, &l, 1e9)
	if s := tick(2e9); !strings.Contains(s, "[[40,") || !strings.Contains(s, "[41,") || h.procs.due(3e9) {
		t.Errorf("nothing has ended: %s", s)
	}
	if err := os.RemoveAll(filepath.Join(proc, "41")); err != nil {
		t.Fatal(err)
	}
	if s := tick(3e9); strings.Contains(s, "[41,") {
		t.Errorf("an ended process is read: %s", s)
	}
	write(41, 40, "pt_data_worker", 300) // the same pid again
	write(57, 40, "pt_data_worker", 301)
	if s := tick(4e9); !strings.Contains(s, `"pid":41,"ppid":40,"comm":"pt_data_worker","start":300`) || !strings.Contains(s, `"pid":57`) || !strings.Contains(s, "[57,") {
		t.Errorf("the new workers are not described: %s", s)
	}
	if !h.procs.due(12e9) || h.procs.due(14e9) {
		t.Error("it looks for as long as it says")
	}
}
