package nccllog

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// bench is the table that nccl-tests prints: one row a size, with time and bandwidth out of place and in place.
type bench struct {
	what  string // primitive, "" no table yet
	ranks int
	rows  []string
	row   uint32
}

var (
	benchName = regexp.MustCompile(`\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv)_perf`)
	benchRank = regexp.MustCompile(`^#\s+Rank\s+(\d+)\s.*\bdevice\s+\d+`)
	// size, count, type, operation, root, then time, algbw and busbw.
	benchRow  = regexp.MustCompile(`^\s*(\d{1,16})\s+\d{1,16}\s+[a-z]\w*\s+[a-z]\w*(?:\s+-?\d+)?\s+(\d+(?:\.\d+)?)\s+(\d+\.\d+)\s+(\d+\.\d+)\s`)
	primitive = map[string]string{"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "alltoall": "all-to-all",
		"broadcast": "broadcast", "reduce": "reduce", "sendrecv": "send-recv"}
)

func (b *bench) line(r *reader, text []byte, row uint32) {
	if m := benchName.FindSubmatch(text); m != nil && b.what == "" {
		b.what = primitive[string(m[1])]
	}
	if bytes.HasPrefix(text, []byte("#")) {
		if m := benchRank.FindSubmatch(text); m != nil {
			if n, err := strconv.Atoi(string(m[1])); err == nil && n < 1<<20 {
				b.ranks = max(b.ranks, n+1)
			}
		}
		return
	}
	if len(text) == 0 || text[0] != ' ' && (text[0] < '0' || text[0] > '9') {
		return
	}
	m := benchRow.FindSubmatch(text)
	if m == nil {
		return
	}
	size, err := strconv.ParseInt(string(m[1]), 10, 64)
	gbs, err2 := strconv.ParseFloat(string(m[4]), 64)
	if err != nil || err2 != nil || size < 1<<10 || gbs <= 0 || gbs > 1e5 || len(b.rows) >= 64 {
		return
	}
	r.rows++
	if len(b.rows) == 0 {
		b.row = row
	}
	b.rows = append(b.rows, fmt.Sprintf("%d=%.0f", size, gbs*1e9))
}

// word gives the table as "all-reduce 16: 1048576=43100000000 ..."; a table whose collective or ranks nobody states is none.
func (b *bench) word() word {
	if b.what == "" || b.ranks < 2 || len(b.rows) == 0 {
		return word{}
	}
	return word{fmt.Sprintf("%s %d: %s", b.what, b.ranks, strings.Join(b.rows, " ")), b.row}
}
