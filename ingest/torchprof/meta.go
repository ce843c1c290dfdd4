package torchprof

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
)

// meta is what stands beside the events.
type meta struct {
	base       int64
	devices    []timeline.Device
	ids        []int
	rank       int // -1 unknown
	rankHow    string
	world      int
	backend    string
	groups     []timeline.ProcessGroup
	host       string
	rocm, cuda bool
	texts      map[string]string
	logs       []string // the profiler's own warnings and errors
	hasRank    bool
}

const maxText = 200

// maxWorld is more ranks than any job has: what states more is damaged.
const maxWorld = 1_000_000

// add takes one top-level member. What does not decode is left out.
func (m *meta) add(key string, v []byte) {
	switch key {
	case "baseTimeNanoseconds":
		if n, ok := decimal(trimQuotes(v), 0); ok {
			m.base = n
		}
	case "deviceProperties", "computeProperties":
		m.addDevices(v)
	case "distributedInfo":
		m.addDistributed(v)
	case "WARNING", "ERROR":
		var lines []string
		if lenient(v, &lines) {
			for _, l := range lines {
				m.logs = append(m.logs, key+": "+logText(l))
			}
		}
	case "INFO", "traceName", "displayTimeUnit", "schemaVersion", "username", "logical_server_subtype":
	case "host_name":
		m.host = string(trimQuotes(v))
	case "rank":
		if n, ok := decimal(trimQuotes(v), 0); ok {
			m.setRank(n, "metadata")
		}
	case "metadata":
		var inner map[string]json.RawMessage
		if lenient(v, &inner) {
			if n, ok := decimal(trimQuotes(inner["rank"]), 0); ok {
				m.setRank(n, "metadata")
			}
		}
	default:
		low := strings.ToLower(key)
		m.rocm = m.rocm || strings.HasPrefix(low, "hip_") || strings.HasPrefix(low, "roctracer") || strings.HasPrefix(low, "rocprof")
		m.cuda = m.cuda || strings.HasPrefix(low, "cupti_") || strings.HasPrefix(low, "cuda_runtime") || strings.HasPrefix(low, "cuda_driver")
		m.addText(key, v)
	}
}

func trimQuotes(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

func (m *meta) setRank(n int64, how string) {
	if n < 0 || n >= 1<<24 || m.hasRank && m.rankHow == "distributedInfo" {
		return
	}
	m.rank, m.rankHow, m.hasRank = int(n), how, true
}

// secret words keep a value out of the report, and so does a name that looks like an environment variable of none of the
// libraries we know: people add whole environments as metadata.
var (
	secret   = regexp.MustCompile(`(?i)secret|token|passw|credential|auth|cookie|api_?key|access|private|user|email|home|path|dir$`)
	envLike  = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	knownEnv = regexp.MustCompile(`^(CUDA|NCCL|RCCL|HIP|ROCR?|TORCH|PYTORCH|KINETO|OMP|DISABLE_CUPTI)_`)
)

// addText keeps a short value as text.
func (m *meta) addText(key string, v []byte) {
	if len(key) > 64 || len(v) > maxText || len(v) == 0 || len(m.texts) >= 64 || secret.MatchString(key) || envLike.MatchString(key) && !knownEnv.MatchString(key) {
		return
	}
	text := string(v)
	switch v[0] {
	case '{', '[':
		return
	case '"':
		text = decode(trimQuotes(v))
		if strings.ContainsAny(text, "/\\@") {
			return // a path, an address
		}
	}
	if m.texts == nil {
		m.texts = map[string]string{}
	}
	m.texts[key] = text
}

// logText is a line of the profiler's log without its stamp and place.
func logText(l string) string {
	if i := strings.Index(l, "] "); i >= 0 && i < 120 {
		l = l[i+2:]
	}
	l = strings.ToValidUTF8(strings.TrimSpace(l), "\uFFFD")
	if len(l) > maxText {
		l = strings.ToValidUTF8(l[:maxText], "")
	}
	return l
}

func (m *meta) addDevices(v []byte) {
	var list []struct {
		ID           int     `json:"id"`
		Name         string  `json:"name"`
		Memory       float64 `json:"totalGlobalMem"`
		ComputeMajor *int    `json:"computeMajor"`
		ComputeMinor *int    `json:"computeMinor"`
		Major        *int    `json:"major"`
		Minor        *int    `json:"minor"`
		SMs          int     `json:"numSms"`
		MPs          int     `json:"multiProcessorCount"`
	}
	if !lenient(v, &list) {
		return
	}
	m.devices, m.ids = nil, nil
	for _, p := range list[:min(len(list), 1024)] {
		d := timeline.Device{Name: strings.TrimSpace(p.Name), SMs: max(p.SMs, p.MPs, 0), Vendor: vendor(p.Name)}
		if p.Memory > 0 && p.Memory < 1e18 {
			d.Memory = int64(p.Memory)
		}
		major, minor := p.ComputeMajor, p.ComputeMinor
		if major == nil {
			major, minor = p.Major, p.Minor
		}
		if major != nil && minor != nil {
			d.CC = fmt.Sprintf("%d.%d", *major, *minor)
		}
		m.devices, m.ids = append(m.devices, d), append(m.ids, p.ID)
	}
}

func vendor(name string) string {
	low := strings.ToLower(name)
	for _, w := range []struct{ word, vendor string }{{"amd", "amd"}, {"instinct", "amd"}, {"radeon", "amd"}, {"nvidia", "nvidia"},
		{"tesla", "nvidia"}, {"geforce", "nvidia"}, {"quadro", "nvidia"}, {"titan", "nvidia"}, {"intel", "other"}} {
		if strings.Contains(low, w.word) {
			return w.vendor
		}
	}
	return ""
}

// device gives the properties of the device of an ordinal, as far as the file has them.
func (m *meta) device(ordinal int) timeline.Device {
	var d timeline.Device
	for i, id := range m.ids {
		if id == ordinal {
			d = m.devices[i]
		}
	}
	if d.Vendor == "" {
		switch {
		case m.rocm:
			d.Vendor = "amd"
		case m.cuda:
			d.Vendor = "nvidia"
		}
	}
	return d
}

func (m *meta) addDistributed(v []byte) {
	var info struct {
		Backend string          `json:"backend"`
		Rank    json.RawMessage `json:"rank"`
		World   json.RawMessage `json:"world_size"`
		Version json.RawMessage `json:"nccl_version"`
		Groups  []struct {
			Name  json.RawMessage `json:"pg_name"`
			Desc  string          `json:"pg_desc"`
			Size  int             `json:"pg_size"`
			Ranks json.RawMessage `json:"ranks"`
		} `json:"pg_config"`
	}
	if !lenient(v, &info) {
		var some struct { // the groups may be what does not decode
			Backend string          `json:"backend"`
			Rank    json.RawMessage `json:"rank"`
			World   json.RawMessage `json:"world_size"`
		}
		if !lenient(v, &some) {
			return
		}
		info.Backend, info.Rank, info.World, info.Groups = some.Backend, some.Rank, some.World, nil
	}
	m.backend = info.Backend
	if n, ok := decimal(trimQuotes(info.Rank), 0); ok && n >= 0 && n < maxWorld {
		m.rank, m.rankHow, m.hasRank = int(n), "distributedInfo", true
	}
	if n, ok := decimal(trimQuotes(info.World), 0); ok && n > 0 && n <= maxWorld {
		m.world = int(n)
	}
	m.addText("nccl_version", info.Version)
	m.groups = nil
	for _, g := range info.Groups {
		pg := timeline.ProcessGroup{Name: string(trimQuotes(g.Name)), Desc: g.Desc, Size: max(g.Size, 0), Ranks: rankList(g.Ranks)}
		if pg.Size == 0 {
			pg.Size = len(pg.Ranks)
		}
		m.groups = append(m.groups, pg)
	}
}

// rankList reads a list of ranks, or the string of one that on-demand traces have. An abbreviated one says nothing.
func rankList(v []byte) []int {
	s := strings.Trim(string(trimQuotes(v)), "[] ")
	if s == "" || strings.Contains(s, "...") {
		return nil
	}
	var out []int
	for _, f := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || n < 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

var (
	rankInName  = []*regexp.Regexp{regexp.MustCompile(`(?i)rank[_-]?(\d+)`), regexp.MustCompile(`[_-](\d+)\.(?:pt\.trace\.)?json`), regexp.MustCompile(`(?i)trace[_-]?(\d+)`)}
	workerName  = regexp.MustCompile(`^(.+)_(\d+)\.[^/]*pt\.trace\.json`)
	onDemand    = regexp.MustCompile(`libkineto_activities_\d+`)
	maxNameRank = 1 << 16 // beyond it is a date or a pid
)

// rankOfName finds a rank in the file's or its folder's name; the process's own number is none, unless it is called a rank.
func rankOfName(p string, pid int64) (int, bool) {
	for _, name := range []string{path.Base(p), path.Base(path.Dir(p))} {
		if onDemand.MatchString(name) {
			continue
		}
		for i, re := range rankInName {
			if s := re.FindStringSubmatch(name); s != nil {
				if n, err := strconv.Atoi(s[1]); err == nil && n < maxNameRank && (i == 0 || int64(n) != pid) {
					return n, true
				}
			}
		}
	}
	return 0, false
}

// hostOfName takes the host from <host>_<pid>.<time>.pt.trace.json, if the pid is the trace's.
func hostOfName(p string, pid int64) string {
	s := workerName.FindStringSubmatch(path.Base(p))
	if s == nil || s[2] != strconv.FormatInt(pid, 10) {
		return ""
	}
	return s[1]
}

// describe fills in what the file says of its processes. A rank stated once for a file of several processes is nobody's.
func (k *sink) describe(m *meta, first, n int) {
	var hull timeline.Interval
	for i, w := range k.windows {
		if i == 0 {
			hull = w
		}
		hull.Start, hull.End = min(hull.Start, w.Start), max(hull.End, w.End)
	}
	for i := first; i < first+n; i++ {
		p := &k.b.TL.Procs[i]
		p.WorldSize, p.Backend, p.Groups, p.Recorded = m.world, m.backend, m.groups, hull
		for _, key := range sortedKeys(m.texts) {
			p.Meta[key] = m.texts[key]
		}
		if name, ok := k.threads[threadKey{p.PID, 0, true}]; ok && !strings.ContainsAny(name, "/\\@") {
			p.Meta["process_name"] = name
		}
		if len(m.devices) > 0 {
			p.Meta["devices_visible"] = strconv.Itoa(len(m.devices))
			if m.devices[0].Name != "" {
				p.Meta["device_name"] = m.devices[0].Name
			}
		}
		p.Host = m.host
		if p.Host == "" {
			p.Host = hostOfName(k.in.Path, p.PID)
		}
		switch {
		case m.hasRank && n == 1:
			p.Rank, p.RankHow = m.rank, m.rankHow
		default:
			if r, ok := k.rankOfComms(i, m.world); ok {
				p.Rank, p.RankHow = r, "collective args"
			} else if r, ok := rankOfName(k.in.Path, p.PID); ok && n == 1 {
				p.Rank, p.RankHow = r, "file name"
			}
		}
	}
	s := k.skipped
	k.b.TL.Procs[first].Meta["not_stored"] = fmt.Sprintf("flow %d, metadata %d, counter %d, memory %d, instant %d, event record %d", s.flows, s.metadata, s.counters, s.memory, s.instants, s.ignored)
	for _, l := range m.logs {
		code, sev := "torchprof/profiler-log", timeline.Info
		low := strings.ToLower(l)
		if strings.Contains(low, "drop") || strings.Contains(low, "buffer full") || strings.Contains(low, "out of memory") {
			code, sev = "torchprof/dropped-events", timeline.DataLoss
		}
		k.in.Report(code, sev, 0, "the profiler's own log: %s", l)
	}
}

// rankOfComms takes the rank that all collectives of the whole world state. Without a stated world size the default group
// is the world.
func (k *sink) rankOfComms(proc, world int) (int, bool) {
	rank := int32(-1)
	names := &k.b.TL.Names
	agree := true
	k.b.EachComm(func(c *timeline.Comm) {
		if int(c.Span) < k.first || c.Rank < 0 {
			return
		}
		s := k.b.SpanAt(c.Span)
		if s.Track < 0 || k.b.TL.Tracks[s.Track].Proc != proc {
			return
		}
		whole := world > 0 && int(c.GroupSize) == world
		if world == 0 {
			desc := names.Get(c.GroupDesc)
			whole = c.GroupSize > 0 && (desc == "default_pg" || desc == "" && names.Get(c.Group) == "0")
		}
		if whole {
			agree = agree && (rank < 0 || rank == c.Rank)
			rank = c.Rank
		}
	})
	if !agree {
		return 0, false
	}
	return int(rank), rank >= 0
}
