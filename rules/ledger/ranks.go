package ledger

import (
	"path"
	"slices"
	"strconv"

	"gpureport/ingest/timeline"
)

// membersOf are the members of the groups of a rank's collectives, each list once, in the order of their first use.
func membersOf(r *timeline.Reduced) [][]int {
	var out [][]int
	var last *int
	seen := map[*int]bool{}
	for i := range r.Collectives {
		g := r.Collectives[i].GroupRanks
		if len(g) == 0 || &g[0] == last {
			continue
		}
		last = &g[0]
		if !seen[last] {
			seen[last] = true
			out = append(out, g)
		}
	}
	return out
}

// numberRanks gives ranks of a run that state no number the one that is left to them: the only rank that is a member of all groups they take
// part in, then the numbers in their files' names, if these count the ranks from 0 and nothing speaks against it.
func numberRanks(reds []*timeline.Reduced) {
	taken := map[int]bool{}
	var open []*timeline.Reduced
	may := map[*timeline.Reduced][]int{}
	for _, r := range reds {
		if r.Process.Rank >= 0 {
			taken[r.Process.Rank] = true
			continue
		}
		open = append(open, r)
		for i, g := range membersOf(r) {
			if i == 0 {
				may[r] = slices.Clone(g)
				continue
			}
			may[r] = slices.DeleteFunc(may[r], func(n int) bool { return !slices.Contains(g, n) })
		}
	}
	for again := true; again; {
		again = false
		for _, r := range open {
			if r.Process.Rank >= 0 {
				continue
			}
			left := slices.DeleteFunc(slices.Clone(may[r]), func(n int) bool { return taken[n] })
			if len(left) == 1 {
				r.Process.Rank, r.Process.RankHow = left[0], "members of its groups"
				taken[left[0]] = true
				again = true
			}
		}
	}
	open = slices.DeleteFunc(open, func(r *timeline.Reduced) bool { return r.Process.Rank >= 0 })
	if len(open) < 2 {
		return
	}
	world := len(reds)
	for _, r := range reds {
		world = max(world, r.Process.WorldSize)
	}
	names := make([][]int, len(open))
	for i, r := range open {
		names[i] = numbersIn(path.Base(r.Path))
		if digitless(path.Base(r.Path)) != digitless(path.Base(open[0].Path)) || len(names[i]) != len(names[0]) {
			return
		}
	}
next:
	for k := range names[0] {
		used := map[int]bool{}
		for i, r := range open {
			n := names[i][k]
			if n < 0 || n >= world || used[n] || taken[n] || len(may[r]) > 0 && !slices.Contains(may[r], n) {
				continue next
			}
			used[n] = true
		}
		for i, r := range open {
			r.Process.Rank, r.Process.RankHow = names[i][k], "file name"
		}
		return
	}
}

// numbersIn are the runs of digits in a name; -1 too long to count ranks.
func numbersIn(s string) []int {
	var out []int
	for i := 0; i < len(s); {
		if s[i] < '0' || s[i] > '9' {
			i++
			continue
		}
		k := i
		for k < len(s) && s[k] >= '0' && s[k] <= '9' {
			k++
		}
		n, err := strconv.Atoi(s[i:k])
		if err != nil || k-i > 6 {
			n = -1
		}
		out = append(out, n)
		i = k
	}
	return out
}
