package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What may be taken is the least of what the machine and every control group above leave.
func TestFreeMemory(t *testing.T) {
	const gib = 1 << 30
	meminfo := "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n" // 8 GiB
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing tells", nil, 4 * gib},
		{"the machine", map[string]string{"proc/meminfo": meminfo}, 8 * gib},
		{"no limit", map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "max\n"}, 8 * gib},
		{"a limit", map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "4294967296\n", "sys/fs/cgroup/memory.current": "1073741824\n"}, 3 * gib},
		{"read files fill it", map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "4294967296\n", "sys/fs/cgroup/memory.current": "4294967296\n"}, gib},
		{"a limit above what is left", map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "68719476736\n"}, 8 * gib},
		{"the first version", map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824\n"}, gib},
		{"a group above", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job/step\n", "sys/fs/cgroup/job/memory.max": "2147483648\n",
			"sys/fs/cgroup/job/step/memory.max": "max\n"}, 2 * gib},
		{"its own group", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job/step\n", "sys/fs/cgroup/job/memory.max": "4294967296\n",
			"sys/fs/cgroup/job/step/memory.max": "1073741824\n"}, gib},
		{"damaged", map[string]string{"proc/meminfo": "MemAvailable: many kB\n", "sys/fs/cgroup/memory.max": "-5\n"}, 4 * gib},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := freeMemoryUnder(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestParsePart(t *testing.T) {
	for _, c := range []struct {
		s    string
		i, n int
		ok   bool
	}{
		{"", 1, 1, true}, {"1/1", 1, 1, true}, {"3/16", 3, 16, true}, {"16/16", 16, 16, true},
		{"0/4", 0, 0, false}, {"5/4", 0, 0, false}, {"-1/4", 0, 0, false}, {"1/0", 0, 0, false}, {"3", 0, 0, false}, {"/", 0, 0, false},
		{"1/", 0, 0, false}, {"/4", 0, 0, false}, {"1/2/3", 0, 0, false}, {"a/b", 0, 0, false}, {" 1/2", 0, 0, false},
	} {
		i, n, err := parsePart(c.s)
		if i != c.i || n != c.n || (err == nil) != c.ok {
			t.Errorf("%q: %d of %d, %v", c.s, i, n, err)
		}
	}
}
