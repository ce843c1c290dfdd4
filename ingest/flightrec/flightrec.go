// Package flightrec reads dumps of PyTorch's flight recorder in their JSON form: the ring of a process's last collectives, which a watchdog
// writes when one of them does not end, or dump_nccl_trace_json gives at any time.
//
// Versions seen: 2.1 to 2.10 of the dump. It is recognised by its keys "entries" and "pg_config", "pg_status" or "collective_seq_id"; the
// rank is that of the file's name (nccl_trace_rank_3.json), or of the key "rank". The pickles that the watchdog writes are recognised and
// named; one line of Python turns one into JSON.
//
// Kept: the process with its groups; of each group the last number that was enqueued, started, completed; each operation that was not
// completed, as a mark and an attribute. Stacks are not kept.
//
// Clock: nanoseconds of Unix time, as the process created an operation.
//
// What it cannot tell: durations, unless the recorder timed them, and where a rank is that never came to an operation.
package flightrec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// Format reads dumps in JSON.
var Format = ingest.Format{
	Name:      "flight-recorder",
	Doc:       "PyTorch flight recorder, JSON: the last collectives of a rank, and those that did not end",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"comm"},
}

// Pickle is a dump as the watchdog writes it.
var Pickle = ingest.Format{
	Name: "flight-recorder-pickle",
	Doc:  "PyTorch flight recorder, a pickle",
	Convert: `python3 -c "import json,pickle,sys; json.dump(pickle.load(open(sys.argv[1],'rb')), open(sys.argv[1]+'.json','w'), default=str)" ` +
		`nccl_trace_rank_0`,
	Recognise: IsPickle,
}

var keys = [][]byte{[]byte("pg_config"), []byte("pg_status"), []byte("collective_seq_id"), []byte("time_discovered_completed_ns")}

func hasKey(b []byte) bool {
	for _, k := range keys {
		if bytes.Contains(b, k) {
			return true
		}
	}
	return false
}

// IsPickle tells a dump of the flight recorder among pickles.
func IsPickle(h ingest.Head) bool {
	return len(h.Raw) > 2 && h.Raw[0] == 0x80 && h.Raw[1] >= 2 && h.Raw[1] <= 5 && hasKey(h.Raw)
}

func recognise(h ingest.Head) bool {
	t := bytes.TrimLeft(h.Text, " \t\r\n")
	return len(t) > 0 && t[0] == '{' && hasKey(t) && !bytes.Contains(t, []byte(`"traceEvents"`)) &&
		(bytes.Contains(t, []byte(`"entries"`)) || bytes.Contains(t, []byte(`"pg_status"`)) && bytes.Contains(t, []byte(`"version"`)))
}

const (
	maxEntries = 1 << 20
	maxPending = 256
	maxGroups  = 4096
)

// number takes what the dumps write as a number, as text or as nothing; -1 is not told.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		v = -1
	}
	*n = number(v)
	return nil
}

// ranks takes a list, or a list that is written as text.
type ranks []int

func (r *ranks) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		b = []byte(s)
	}
	var out []int
	if json.Unmarshal(b, &out) == nil {
		*r = out
	}
	return nil
}

type entry struct {
	Group     []any  `json:"process_group"` // name, description
	Seq       number `json:"collective_seq_id"`
	P2P       number `json:"p2p_seq_id"`
	IsP2P     bool   `json:"is_p2p"`
	Name      string `json:"profiling_name"`
	State     string `json:"state"`
	Created   number `json:"time_created_ns"`
	Completed number `json:"time_discovered_completed_ns"`
	Timeout   number `json:"timeout_ms"`
}

type status struct {
	Enqueued  number `json:"last_enqueued_collective"`
	Started   number `json:"last_started_collective"`
	Completed number `json:"last_completed_collective"`
}

type config struct {
	Name  string `json:"name"`
	Desc  string `json:"desc"`
	Ranks ranks  `json:"ranks"`
}

// group is one communicator of the process.
type group struct {
	name, desc                   string
	ranks                        []int
	completed, started, enqueued int64
	row                          uint32
}

type pending struct {
	text string // as the attribute says it
	say  string
	at   timeline.Time
	row  uint32
}

type reader struct {
	in      *ingest.Input
	rows    int64
	rank    int
	version string
	nccl    string
	groups  map[string]*group
	pending []pending
	more    int64
	from    timeline.Time
	to      timeline.Time
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := &reader{in: in, rank: -1, groups: map[string]*group{}, from: -1}
	if err := r.object(ctx, json.NewDecoder(f)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.rows == 0 && len(r.groups) == 0 {
			return fmt.Errorf("not a dump that can be read: %w", err)
		}
		in.Report("flight-recorder/damaged-file", timeline.DataLoss, uint64(r.rows), "%v after operation %d: what lies before it is read", err, r.rows)
	}
	return r.finish(b)
}

// object reads the dump key by key, its entries one by one.
func (r *reader) object(ctx context.Context, d *json.Decoder) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(err, errors.New("it does not begin with an object"))
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case "entries":
			err = r.entries(ctx, d)
		case "pg_config":
			err = r.config(d)
		case "pg_status":
			var all map[string]status
			if err = d.Decode(&all); err == nil {
				for _, k := range slices.Sorted(maps.Keys(all)) {
					s, g := all[k], r.group(k, "")
					g.enqueued, g.started, g.completed = max(g.enqueued, int64(s.Enqueued)), max(g.started, int64(s.Started)), max(g.completed, int64(s.Completed))
				}
			}
		case "rank":
			n := number(-1)
			if err = d.Decode(&n); err == nil && n >= 0 && n < 1<<24 {
				r.rank = int(n)
			}
		case "version", "nccl_version":
			var v any
			if err = d.Decode(&v); err == nil {
				if s := fmt.Sprint(v); t == "version" {
					r.version = clean(s)
				} else {
					r.nccl = clean(s)
				}
			}
		default:
			var skip json.RawMessage
			err = d.Decode(&skip)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// config reads the groups; old dumps nest them by rank.
func (r *reader) config(d *json.Decoder) error {
	var all map[string]json.RawMessage
	if err := d.Decode(&all); err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		var c config
		if json.Unmarshal(all[k], &c) != nil || c.Name == "" && len(c.Ranks) == 0 {
			continue
		}
		g := r.group(k, c.Desc)
		g.ranks = c.Ranks
	}
	return nil
}

func (r *reader) group(name, desc string) *group {
	name = clean(name)
	g := r.groups[name]
	if g == nil {
		g = &group{name: name, completed: -1, started: -1, enqueued: -1}
		if len(r.groups) < maxGroups {
			r.groups[name] = g
		}
	}
	if g.desc == "" {
		g.desc = clean(desc)
	}
	return g
}

func (r *reader) entries(ctx context.Context, d *json.Decoder) error {
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(err, errors.New("its entries are no list"))
	}
	for d.More() {
		if r.rows%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e := entry{Seq: -1, P2P: -1, Created: -1, Completed: -1, Timeout: -1}
		if err := d.Decode(&e); err != nil {
			var wrong *json.UnmarshalTypeError
			if !errors.As(err, &wrong) {
				return err
			}
			r.in.Report("flight-recorder/bad-entry", timeline.DataLoss, uint64(r.rows), "%v: the operation is read as far as it goes", err)
		}
		if r.rows >= maxEntries {
			r.in.Report("flight-recorder/many-entries", timeline.DataLoss, uint64(r.rows), "more than %d operations: the others are left out", maxEntries)
			continue
		}
		r.entry(&e, uint32(r.rows))
		r.rows++
	}
	_, err := d.Token()
	return err
}

func (r *reader) entry(e *entry, row uint32) {
	name, desc := "", ""
	if len(e.Group) > 0 {
		name = fmt.Sprint(e.Group[0])
	}
	if len(e.Group) > 1 {
		desc = fmt.Sprint(e.Group[1])
	}
	g := r.group(name, desc)
	if e.Created > 0 {
		at := timeline.Time(e.Created)
		if r.from < 0 {
			r.from, r.to = at, at
		}
		r.from, r.to = min(r.from, at), max(r.to, at)
		if e.Completed > 0 {
			r.to = max(r.to, timeline.Time(e.Completed))
		}
	}
	seq, what := int64(e.Seq), "collective"
	if e.IsP2P {
		seq, what = int64(e.P2P), "send or receive"
	} else {
		g.enqueued = max(g.enqueued, seq)
		switch e.State {
		case "completed":
			g.started, g.completed = max(g.started, seq), max(g.completed, seq)
		case "started":
			g.started = max(g.started, seq)
		}
	}
	g.row = row
	if e.State == "completed" || e.State == "" {
		return
	}
	if len(r.pending) >= maxPending {
		r.more++
		return
	}
	state, op := clean(e.State), clean(e.Name)
	say := fmt.Sprintf("%s %d, %s of group %s, is %s and not completed", what, seq, op, shown(g), state)
	if e.Timeout > 0 {
		say += fmt.Sprintf("; it may take %s", time.Duration(e.Timeout)*time.Millisecond)
	}
	text := ""
	if !e.IsP2P {
		text = fmt.Sprintf("%d %s %s %s", seq, strings.ReplaceAll(state, " ", "_"), strings.ReplaceAll(op, " ", "_"), shown(g))
	}
	r.pending = append(r.pending, pending{text, say, timeline.Time(max(e.Created, 0)), row})
}

func shown(g *group) string {
	if g.desc != "" && g.desc != "undefined" {
		return g.desc
	}
	if g.name == "" {
		return "default_pg"
	}
	return g.name
}

var rankForm = regexp.MustCompile(`rank[_-]?(\d{1,7})`)

func (r *reader) finish(b *timeline.Builder) error {
	src := &b.TL.Sources[r.in.Source]
	src.Rows = r.rows
	if r.rows == 0 && len(r.groups) == 0 {
		return errors.New("a dump without an operation: the recorder was off; set TORCH_FR_BUFFER_SIZE=2000 (older PyTorch: TORCH_NCCL_TRACE_BUFFER_SIZE) and run again")
	}
	how := "dump"
	if r.rank < 0 {
		how = "file name"
		if m := rankForm.FindStringSubmatch(path.Base(r.in.Path)); m != nil {
			r.rank, _ = strconv.Atoi(m[1])
		}
	}
	p := timeline.Process{Source: r.in.Source, PID: -1, Rank: r.rank, Backend: "nccl", Meta: map[string]string{}}
	if r.rank >= 0 {
		p.RankHow = how
	}
	if r.nccl != "" {
		p.Meta["nccl_version"] = r.nccl
	}
	names := slices.Sorted(maps.Keys(r.groups))
	for _, k := range names {
		g := r.groups[k]
		p.WorldSize = max(p.WorldSize, len(g.ranks))
		p.Groups = append(p.Groups, timeline.ProcessGroup{Name: g.name, Desc: g.desc, Ranks: g.ranks, Size: len(g.ranks)})
	}
	if p.WorldSize <= p.Rank {
		p.WorldSize = 0 // its widest group is not the whole job
	}
	b.AddProc(p)
	t := b.Track(timeline.Track{Source: r.in.Source, Table: b.TL.Names.IDOf("entries"), Kind: timeline.TrackOther, Proc: 0, Device: -1, Thread: -1, Name: fmt.Sprintf("rank %d", r.rank)})
	clock := timeline.Clock{Name: src.Path, Step: time.Nanosecond, Why: "no operation states when it was created"}
	if r.from > 0 {
		src.Covers, src.Coverage = timeline.Instant.String(), []timeline.Interval{{Start: r.from, End: r.to + 1}}
		clock.Wall, clock.Zoned, clock.How, clock.Why = true, true, timeline.Recorded, "nanoseconds of Unix time at which each operation was created"
	}
	for _, k := range names {
		if g := r.groups[k]; g.enqueued >= 0 {
			b.AddAttr(t, timeline.AttrFlightGroup, fmt.Sprintf("%d %d %d %s", g.completed, g.started, g.enqueued, shown(g)), r.to, g.row)
		}
	}
	for _, q := range r.pending {
		if q.text != "" {
			b.AddAttr(t, timeline.AttrFlightPending, q.text, q.at, q.row)
		}
		say := q.say
		if r.rank >= 0 {
			say = fmt.Sprintf("rank %d: %s", r.rank, q.say)
		}
		b.AddEvent(timeline.MarkOutput, t, q.at, 0, say, q.row)
	}
	r.in.ReportN(r.more, "flight-recorder/many-pending", timeline.Info, 1, "more than %d operations that were not completed: the later ones are left out", maxPending)
	b.AddClock(r.in.Source, clock)
	return nil
}

func clean(s string) string {
	s = strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < 0x20 || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "?")))
	const most = 120
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
