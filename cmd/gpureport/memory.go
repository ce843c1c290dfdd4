package main

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// freeMemory is what this process may still take, in bytes: what the machine has left or, where that is less, what the limit of its
// control group leaves. 4 GiB where nothing tells.
func freeMemory() int64 { return freeMemoryUnder("/") }

func freeMemoryUnder(root string) int64 {
	free := int64(math.MaxInt64)
	if b, err := os.ReadFile(path.Join(root, "proc/meminfo")); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					free = n << 10
				}
			}
		}
	}
	groups := []struct{ limit, used string }{{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"},
		{"sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"}}
	if b, err := os.ReadFile(path.Join(root, "proc/self/cgroup")); err == nil {
		for line := range strings.Lines(string(b)) {
			// Every group above holds too.
			if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
				for ; p != "/" && p != "." && p != ""; p = path.Dir(p) {
					dir := path.Join("sys/fs/cgroup", p)
					groups = append(groups, struct{ limit, used string }{path.Join(dir, "memory.max"), path.Join(dir, "memory.current")})
				}
			}
		}
	}
	for _, g := range groups {
		limit, ok := numberIn(path.Join(root, g.limit))
		if !ok {
			continue // "max", or no such file
		}
		// What is used counts files that were read, which make room: never less than a quarter of the limit.
		used, _ := numberIn(path.Join(root, g.used))
		free = min(free, max(limit-used, limit/4))
	}
	if free == math.MaxInt64 {
		return 4 << 30
	}
	return free
}

func numberIn(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n > 0
}
