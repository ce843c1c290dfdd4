// Package timelinetest makes timelines out of a few lines of text, for tests.
//
// A line is a track, a kind, an interval, a name and key=value pairs, in this order:
//
//	gpu0/s7 kernel 0ms..3ms gemm link=5 grid=8,1,1 block=256,1,1
//	gpu0/s7 h2d 3ms..4ms bytes=1048576 mem=pageable link=6
//	gpu0/s9 kernel 1ms..2ms ncclDevKernel_AllReduce coll=allreduce n=1024 dtype=Float group=0 size=8 ranks=[0,1] seq=3
//	main api 0us..6us cudaLaunchKernel link=5
//	main op 0ms..1ms aten::mm dims=[[8,16],[16,4]] types=["float","float"]
//	main anno 0ms..10ms ProfilerStep#3
//	autograd op 1ms..2ms MmBackward0
//
// Kinds: kernel, h2d, d2h, d2d, p2p, h2h, memset, api, op, anno, gpuanno, sync, overhead, python, other, oswait, offcpu, and
// mark and sample, which take an instant. Units: ns, us, ms, s; a number may have a fraction. A name runs up to the first pair and may hold
// blanks. In values blanks are written _ where the value is not JSON. Text from # at the start of a line is a comment.
//
// A track is gpuN/sM, or any word for a host thread: main is the process's main thread, anything else another one, and
// overhead is no thread at all. A track may be preceded by a process, rank1:gpu0/s7; without one it belongs to the first
// process. A line such as
//
//	proc rank1 rank=1 world=2 host=a backend=nccl
//
// declares a process before its first use, and
//
//	device gpu0 name=A100 sms=108 cc=8.0 vendor=nvidia memory=1000
//	group rank1 0 ranks=0,1 desc=default_pg size=2
//
// describe a device and a process group.
package timelinetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// PID is the process id of the first process; main is the thread of the same number.
const PID = 100

// Parse makes the timeline that text describes, with its rows numbered from 0 by line that gives a span or mark. It
// panics, naming the line, where it does not understand: a test's text is the test's bug.
func Parse(text string) *timeline.Timeline {
	p := &parser{procs: map[string]int{}, devices: map[string]timeline.DeviceID{}, threads: map[string]int64{}}
	p.b.TL.Epoch = time.Unix(0, 0).UTC()
	p.b.TL.Sources = []timeline.Source{{Path: "trace.json", Format: "torchprof", Used: true}}
	p.b.AddClock(0, timeline.Clock{Name: "trace.json", Step: 1, How: timeline.Reference, Wall: true, Zoned: true})
	p.table = p.b.TL.Names.IDOf("traceEvents")
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			panic(fmt.Sprintf("timelinetest: line %d: %s: %v", i+1, line, err))
		}
	}
	p.b.TL.Sources[0].Rows = int64(p.row)
	tl := p.b.Finish()
	if err := tl.Validate(); err != nil {
		panic("timelinetest: " + err.Error())
	}
	return tl
}

type parser struct {
	b       timeline.Builder
	table   timeline.StringID
	procs   map[string]int
	devices map[string]timeline.DeviceID
	threads map[string]int64
	row     uint32
}

var kinds = map[string]timeline.SpanKind{
	"kernel": timeline.KindKernel, "h2d": timeline.KindMemcpy, "d2h": timeline.KindMemcpy, "d2d": timeline.KindMemcpy,
	"p2p": timeline.KindMemcpy, "h2h": timeline.KindMemcpy, "memset": timeline.KindMemset, "api": timeline.KindAPI,
	"op": timeline.KindOp, "anno": timeline.KindAnnotation, "gpuanno": timeline.KindGPUAnno, "sync": timeline.KindSync,
	"overhead": timeline.KindOverhead, "python": timeline.KindPython, "other": timeline.KindOther, "oswait": timeline.KindOSWait, "offcpu": timeline.KindOffCPU,
}

var copies = map[string]struct {
	kind timeline.CopyKind
	name string
}{
	"h2d": {timeline.DirH2D, "Memcpy HtoD (%s -> Device)"}, "d2h": {timeline.DirD2H, "Memcpy DtoH (Device -> %s)"},
	"d2d": {timeline.DirD2D, "Memcpy DtoD (Device -> Device)"}, "p2p": {timeline.DirP2P, "Memcpy PtoP (Device -> Device)"},
	"h2h": {timeline.DirH2H, "Memcpy HtoH (%s -> Pageable)"}, "memset": {timeline.DirUnknown, "Memset (Device)"},
}

var memKinds = map[string]struct {
	kind timeline.MemKind
	name string
}{
	"": {timeline.MemUnknown, "Unknown"}, "pageable": {timeline.MemPageable, "Pageable"}, "pinned": {timeline.MemPinned, "Pinned"},
	"device": {timeline.MemDevice, "Device"}, "managed": {timeline.MemManaged, "Managed"},
}

func (p *parser) line(line string) error {
	words := strings.Fields(line)
	switch words[0] {
	case "proc":
		return p.proc(words[1:])
	case "device":
		return p.device(words[1:])
	case "group":
		return p.group(words[1:])
	}
	if len(words) < 3 {
		return fmt.Errorf("want TRACK KIND INTERVAL NAME")
	}
	names, kv, err := pairs(words[3:])
	if err != nil {
		return err
	}
	defer func() { p.row++ }()
	name := strings.Join(names, " ")
	if words[1] == "mark" || words[1] == "sample" {
		at, err := instant(words[2])
		if err != nil {
			return err
		}
		track, err := p.track(words[0], timeline.KindOther)
		if err != nil {
			return err
		}
		kind := timeline.MarkIteration
		if words[1] == "sample" {
			kind = timeline.MarkSample
		}
		p.b.TL.Marks.Append(kind, track, at, 0, p.b.TL.Names.IDOf(name), p.row)
		return nil
	}
	kind, ok := kinds[words[1]]
	if !ok {
		return fmt.Errorf("no kind %q", words[1])
	}
	track, err := p.track(words[0], kind)
	if err != nil {
		return err
	}
	from, to, ok := strings.Cut(words[2], "..")
	if !ok {
		return fmt.Errorf("want an interval such as 0ms..3ms")
	}
	s := timeline.Span{Track: track, Kind: kind, Row: p.row}
	if s.Start, err = instant(from); err != nil {
		return err
	}
	if s.End, err = instant(to); err != nil {
		return err
	}
	if s.End < s.Start {
		return fmt.Errorf("ends before it starts")
	}
	mem, ok := memKinds[kv.get("mem")]
	if !ok {
		return fmt.Errorf("no memory kind")
	}
	if name == "" {
		if c, ok := copies[words[1]]; ok {
			name = strings.ReplaceAll(c.name, "%s", mem.name)
		}
	}
	s.Name = p.b.TL.Names.IDOf(name)
	s.Link = uint32(kv.num("link", 0))
	i := p.b.AddSpan(s)
	p.side(i, words[1], mem.kind, kv)
	return kv.unused()
}

// side adds the side rows that the line asks for.
func (p *parser) side(i int32, kind string, mem timeline.MemKind, kv *keys) {
	sp, names := &p.b.TL.Spans, &p.b.TL.Names
	if c, ok := copies[kind]; ok {
		row := timeline.Copy{Span: i, Kind: c.kind, Src: timeline.MemDevice, Dst: timeline.MemDevice, Bytes: kv.num("bytes", -1)}
		switch c.kind {
		case timeline.DirH2D:
			row.Src = mem
		case timeline.DirD2H:
			row.Dst = mem
		case timeline.DirH2H:
			row.Src, row.Dst = mem, timeline.MemPageable
		case timeline.DirUnknown:
			row.Src = timeline.MemUnknown
		}
		sp.Copies = append(sp.Copies, row)
	}
	grid, block, node := kv.get("grid"), kv.get("block"), kv.num("node", 0)
	if grid != "" || block != "" || node != 0 {
		sp.Kernels = append(sp.Kernels, timeline.KernelArgs{Span: i, Launch: int32(len(sp.Launches))})
		sp.Launches = append(sp.Launches, timeline.Launch{Grid: dim3(grid), Block: dim3(block), GraphNode: uint64(node)})
	}
	if kv.has("coll") {
		n := kv.num("n", -1)
		sp.Comms = append(sp.Comms, timeline.Comm{Span: i, Collective: names.IDOf(kv.get("coll")), DType: names.IDOf(kv.get("dtype")),
			InElems: kv.num("in", n), OutElems: kv.num("out", n), GroupSize: int32(kv.num("size", 0)), Group: names.IDOf(kv.get("group")),
			GroupDesc: names.IDOf(kv.get("desc")), GroupRanks: names.IDOf(kv.get("ranks")), Rank: int32(kv.num("rank", -1)),
			Src: int32(kv.num("src", -1)), Dst: int32(kv.num("dst", -1)), Seq: kv.num("seq", -1)})
	}
	if kv.has("dims") || kv.has("types") {
		sp.Shapes = append(sp.Shapes, timeline.Shape{Span: i, Dims: names.IDOf(json(kv.get("dims"))), Types: names.IDOf(json(kv.get("types"))),
			Concrete: names.IDOf(json(kv.get("concrete")))})
	}
}

// json puts the blank after each comma that the profiler writes.
func json(s string) string { return strings.ReplaceAll(s, ",", ", ") }

func (p *parser) proc(words []string) error {
	names, kv, err := pairs(words)
	if err != nil || len(names) != 1 {
		return fmt.Errorf("want proc NAME key=value...: %v", err)
	}
	how := ""
	if kv.has("rank") {
		how = "distributedInfo"
	}
	p.procs[names[0]] = p.b.AddProc(timeline.Process{PID: kv.num("pid", PID+1000*int64(len(p.procs))), Host: kv.get("host"),
		Rank: int(kv.num("rank", -1)), RankHow: how, WorldSize: int(kv.num("world", 0)), Backend: kv.get("backend"), Meta: map[string]string{}})
	return kv.unused()
}

func (p *parser) procOf(name string) (int, error) {
	if i, ok := p.procs[name]; ok {
		return i, nil
	}
	if name != "" {
		return 0, fmt.Errorf("process %s is not declared", name)
	}
	if len(p.procs) == 0 {
		p.procs[""] = p.b.AddProc(timeline.Process{PID: PID, Rank: -1, Meta: map[string]string{}})
	}
	return 0, nil
}

func (p *parser) device(words []string) error {
	names, kv, err := pairs(words)
	if err != nil || len(names) != 1 {
		return fmt.Errorf("want device gpuN key=value...: %v", err)
	}
	id, err := p.deviceOf(names[0])
	if err != nil {
		return err
	}
	d := &p.b.TL.Devices[id]
	d.Name, d.SMs, d.CC = strings.ReplaceAll(kv.get("name"), "_", " "), int(kv.num("sms", 0)), kv.get("cc")
	d.Memory, d.Vendor, d.UUID = kv.num("memory", 0), kv.get("vendor"), kv.get("uuid")
	return kv.unused()
}

func (p *parser) deviceOf(name string) (timeline.DeviceID, error) {
	if id, ok := p.devices[name]; ok {
		return id, nil
	}
	procName, gpu, ok := strings.Cut(name, ":")
	if !ok {
		procName, gpu = "", name
	}
	proc, err := p.procOf(procName)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(gpu, "gpu"))
	if err != nil {
		return 0, fmt.Errorf("want gpuN: %w", err)
	}
	id := p.b.AddDevice(timeline.Device{Index: n, Ordinal: n, Proc: proc})
	p.devices[name] = id
	return id, nil
}

func (p *parser) group(words []string) error {
	names, kv, err := pairs(words)
	if err != nil || len(names) != 2 {
		return fmt.Errorf("want group PROCESS NAME key=value...: %v", err)
	}
	proc, err := p.procOf(names[0])
	if err != nil {
		return err
	}
	g := timeline.ProcessGroup{Name: names[1], Desc: kv.get("desc"), Size: int(kv.num("size", 0))}
	if ranks := kv.get("ranks"); ranks != "" {
		for _, s := range strings.Split(ranks, ",") {
			r, err := strconv.Atoi(s)
			if err != nil {
				return err
			}
			g.Ranks = append(g.Ranks, r)
		}
	}
	pr := &p.b.TL.Procs[proc]
	pr.Groups = append(pr.Groups, g)
	return kv.unused()
}

func (p *parser) track(word string, kind timeline.SpanKind) (timeline.TrackID, error) {
	procName, name, ok := strings.Cut(word, ":")
	if !ok {
		procName, name = "", word
	}
	if strings.HasPrefix(name, "gpu") {
		gpu, stream, ok := strings.Cut(name, "/s")
		if !ok {
			return 0, fmt.Errorf("want a track such as gpu0/s7")
		}
		n, err := strconv.ParseInt(stream, 10, 64)
		if err != nil {
			return 0, err
		}
		if procName != "" {
			gpu = procName + ":" + gpu
		}
		dev, err := p.deviceOf(gpu)
		if err != nil {
			return 0, err
		}
		return p.b.Track(timeline.Track{Table: p.table, Kind: timeline.TrackStream, Proc: p.b.TL.Devices[dev].Proc, Device: dev, Thread: n}), nil
	}
	proc, err := p.procOf(procName)
	if err != nil {
		return 0, err
	}
	thread, ok := p.threads[word]
	if !ok {
		pid := p.b.TL.Procs[proc].PID
		switch {
		case name == "main":
			thread = pid
		case kind == timeline.KindOverhead && name == "overhead":
			thread = -1
		default:
			thread = pid + 1 + int64(len(p.threads))
		}
		p.threads[word] = thread
	}
	return p.b.Track(timeline.Track{Table: p.table, Kind: timeline.TrackHost, Proc: proc, Device: -1, Thread: thread, Name: name}), nil
}

// instant reads 3ms, 1.5us, -2s, 0.
func instant(s string) (timeline.Time, error) {
	unit := int64(1)
	digits := s
	for _, u := range []struct {
		name string
		ns   int64
	}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}} {
		if d, ok := strings.CutSuffix(s, u.name); ok {
			digits, unit = d, u.ns
			break
		}
	}
	if whole, frac, ok := strings.Cut(digits, "."); ok {
		for len(frac) < 9 {
			frac += "0"
		}
		f, err := strconv.ParseInt(frac[:9], 10, 64)
		if err != nil {
			return 0, err
		}
		w, err := strconv.ParseInt(whole, 10, 64)
		if err != nil {
			return 0, err
		}
		if strings.HasPrefix(whole, "-") {
			f = -f
		}
		return timeline.Time(w*unit + f*unit/1e9), nil
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return timeline.Time(n * unit), err
}

func dim3(s string) (d [3]int32) {
	for i, f := range strings.SplitN(s, ",", 3) {
		n, _ := strconv.ParseInt(f, 10, 32)
		d[i] = int32(n)
	}
	return d
}

// keys are the pairs of a line; each must be asked for.
type keys struct {
	m    map[string]string
	used map[string]bool
	err  error
}

var known = []string{"link", "bytes", "mem", "coll", "n", "in", "out", "dtype", "group", "desc", "ranks", "size", "seq", "rank", "src", "dst",
	"grid", "block", "node", "dims", "types", "concrete", "pid", "host", "world", "backend", "name", "sms", "cc", "memory", "vendor", "uuid"}

// pairs splits words at the first known key=.
func pairs(words []string) (names []string, kv *keys, err error) {
	kv = &keys{m: map[string]string{}, used: map[string]bool{}}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		isKey := false
		for _, n := range known {
			isKey = isKey || ok && k == n
		}
		switch {
		case isKey:
			kv.m[k] = v
		case len(kv.m) > 0:
			return nil, nil, fmt.Errorf("%q after the first pair", w)
		default:
			names = append(names, w)
		}
	}
	return names, kv, nil
}

func (k *keys) has(name string) bool { _, ok := k.m[name]; return ok }

func (k *keys) get(name string) string {
	k.used[name] = true
	return k.m[name]
}

func (k *keys) num(name string, absent int64) int64 {
	s := k.get(name)
	if s == "" {
		return absent
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		k.err = fmt.Errorf("%s=%s is not a number", name, s)
	}
	return n
}

func (k *keys) unused() error {
	if k.err != nil {
		return k.err
	}
	for _, n := range known {
		if k.has(n) && !k.used[n] {
			return fmt.Errorf("%s= does not belong here", n)
		}
	}
	return nil
}
