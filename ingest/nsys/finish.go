package nsys

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// maxProcs bounds the processes of one file.
const maxProcs = 64

// finish turns what was gathered into the tables of the timeline.
func (r *reader) finish() {
	r.finishOpen()
	r.comms.finish(r)
	r.readThreadNames()
	procs := r.processes()
	first := len(r.b.TL.Procs)
	for _, p := range procs {
		r.b.AddProc(r.process(p, len(procs)))
	}
	r.assignTracks(procs, first)
	r.report(first, len(procs))

	clock := timeline.Clock{Name: r.in.Path, Step: time.Nanosecond, Wall: r.m.wall, Zoned: r.m.wall}
	if r.m.wall {
		clock.How, clock.Why = timeline.Recorded, "stamps count from the session's start, whose UTC is recorded"
		r.b.TL.Epoch = time.Unix(0, 0).UTC()
	} else {
		clock.Why = "stamps count from the session's start, and the file does not say when that was"
		r.in.Report("nsys/no-session-start", timeline.Info, 0, "no table TARGET_INFO_SESSION_START_TIME: the capture cannot be placed by itself; export with nsys 2021.5 or later")
	}
	r.b.AddClock(r.in.Source, clock)
	src := r.b.Source(r.in.Source)
	src.Rows = r.rows
	for _, t := range r.db.order {
		if t.found && t.read > 0 {
			src.Tables = append(src.Tables, timeline.TableRows{Name: t.name, First: t.base})
		}
	}
	slices.SortFunc(src.Tables, func(a, b timeline.TableRows) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Name, b.Name))
	})
}

// processes gives the globalPids of the processes that count as ranks: those with device work; else those with calls; else with ranges;
// else with anything. Launchers, loader workers and the profiler's own helpers have none of the first.
func (r *reader) processes() []int64 {
	type work struct{ device, calls, ranges, rest int64 }
	by := map[int64]*work{}
	for i, t := range r.raw {
		w := by[t.proc]
		if w == nil {
			w = &work{}
			by[t.proc] = w
		}
		n := &r.stats[i]
		w.device += n[timeline.KindKernel] + n[timeline.KindMemcpy] + n[timeline.KindMemset]
		w.calls += n[timeline.KindAPI]
		w.ranges += n[timeline.KindAnnotation] + n[timeline.KindOp]
		w.rest += n[timeline.KindOther] + n[timeline.KindOSWait] + n[timeline.KindOffCPU] + n[timeline.KindOverhead] + n[timeline.KindSync]
	}
	if nobody := by[anyProc]; nobody != nil && len(by) > 1 { // they go to the busiest
		best := r.busiest(func(w timeline.SpanKind) bool { return w == timeline.KindAPI })
		by[best].device += nobody.device
		delete(by, anyProc)
	}
	for _, count := range []func(*work) int64{
		func(w *work) int64 { return w.device }, func(w *work) int64 { return w.calls }, func(w *work) int64 { return w.ranges }, func(w *work) int64 { return w.rest },
	} {
		var out []int64
		for _, p := range slices.Sorted(maps.Keys(by)) {
			if count(by[p]) > 0 {
				out = append(out, p)
			}
		}
		if len(out) > maxProcs {
			r.in.ReportN(int64(len(out)-maxProcs), "nsys/too-many-processes", timeline.DataLoss, 0, "more than %d processes: the others are left out", maxProcs)
			slices.SortStableFunc(out, func(a, b int64) int { return cmp.Compare(count(by[b]), count(by[a])) })
			out = out[:maxProcs]
			slices.Sort(out)
		}
		if len(out) > 0 {
			return out
		}
	}
	return []int64{anyProc}
}

// busiest is the named process with most spans of some kinds; the first by number where none has any.
func (r *reader) busiest(want func(timeline.SpanKind) bool) int64 {
	sum := map[int64]int64{}
	for i, t := range r.raw {
		if t.proc == anyProc {
			continue
		}
		sum[t.proc] += 0
		for k, n := range r.stats[i] {
			if want(timeline.SpanKind(k)) {
				sum[t.proc] += n
			}
		}
	}
	best := int64(anyProc)
	for _, p := range slices.Sorted(maps.Keys(sum)) {
		if best == anyProc || sum[p] > sum[best] {
			best = p
		}
	}
	return best
}

var rankInName = regexp.MustCompile(`(?i)rank[_.-]?(\d{1,6})(?:[^0-9]|$)`)

// process describes one of n processes.
func (r *reader) process(proc int64, n int) timeline.Process {
	m := &r.m
	p := timeline.Process{Source: r.in.Source, PID: pidOf(proc), Rank: -1, Meta: map[string]string{}}
	if proc == anyProc {
		p.PID = -1
	}
	p.Host = m.hosts[proc&^(1<<48-1)]
	if p.Host == "" && len(m.hosts) == 1 {
		for _, h := range m.hosts {
			p.Host = h
		}
	}
	if m.duration > 0 && m.duration >= r.maxAt {
		p.Recorded = timeline.Interval{Start: timeline.Time(m.epoch), End: timeline.Time(m.epoch + m.duration)}
	}
	set := func(key, v string) {
		if v != "" {
			p.Meta[key] = v
		}
	}
	for k, v := range m.env {
		set(k, v)
	}
	set("process_name", m.procs[proc])
	set("tz_offset_s", m.zone)
	set("nsys_version", m.product)
	set("schema_version", m.schema)
	set("traced", strings.Join(m.traced, ", "))
	told, world, launched := m.launched()
	if launched = launched && n == 1; launched {
		p.WorldSize = world
	}
	if rank, ok := r.comms.rank(proc); ok {
		p.Rank, p.RankHow = rank, "NCCL communicator"
	} else if launched {
		p.Rank, p.RankHow = told, "environment"
	} else if n == 1 {
		for _, name := range []string{path.Base(r.in.Path), path.Base(path.Dir(r.in.Path))} {
			if s := rankInName.FindStringSubmatch(name); s != nil {
				if v, err := strconv.Atoi(s[1]); err == nil && v < 1<<16 {
					p.Rank, p.RankHow = v, "file name"
					break
				}
			}
		}
	}
	return p
}

// assignTracks replaces raw tracks by those of the timeline and makes the devices.
func (r *reader) assignTracks(procs []int64, first int) {
	tl := &r.b.TL
	table := func(name string) timeline.StringID { return tl.Names.IDOf(name) }
	nobody := -1 // whose rows of no process are
	if i := slices.Index(procs, r.busiest(func(k timeline.SpanKind) bool { return k == timeline.KindAPI })); i >= 0 {
		nobody = i
	} else if len(procs) == 1 {
		nobody = 0
	}
	index := func(proc int64) int {
		if proc == anyProc {
			return nobody
		}
		return slices.Index(procs, proc)
	}
	// Devices by process and ordinal, those with work first.
	type procDevice struct {
		proc   int
		device int32
	}
	working := map[procDevice]bool{}
	for i, t := range r.raw {
		if p := index(t.proc); t.stream && p >= 0 {
			n := &r.stats[i]
			k := procDevice{p, t.device}
			working[k] = working[k] || n[timeline.KindKernel]+n[timeline.KindMemcpy]+n[timeline.KindMemset] > 0
		}
	}
	keys := slices.SortedFunc(maps.Keys(working), func(a, b procDevice) int {
		return cmp.Or(cmp.Compare(a.proc, b.proc), cmp.Compare(a.device, b.device))
	})
	devices := map[procDevice]timeline.DeviceID{}
	for _, work := range []bool{true, false} {
		for _, k := range keys {
			if working[k] == work {
				d := r.m.device(procs[k.proc], int64(k.device))
				d.Index, d.Ordinal, d.Source, d.Proc = int(k.device), int(k.device), r.in.Source, first+k.proc
				devices[k] = r.b.AddDevice(d)
			}
		}
	}
	if len(devices) == 0 { // nothing ran on them, and yet the file says which there are
		for _, g := range r.m.gpus {
			r.b.AddDevice(g.dev)
		}
	}
	// Tracks in a fixed order, whatever that of the rows.
	order := make([]int, len(r.raw))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &r.raw[a], &r.raw[b]
		side := func(t *rawTrack) int {
			if t.stream {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(side(x), side(y)), cmp.Compare(x.proc, y.proc), cmp.Compare(x.device, y.device), cmp.Compare(x.id, y.id))
	})
	ids := make([]timeline.TrackID, len(r.raw))
	marked := r.marked()
	outside := make([]bool, len(r.raw)) // of a process that is no rank
	for _, i := range order {
		t := r.raw[i]
		if r.stats[i] == ([timeline.NSpanKinds]int64{}) && !marked[i] {
			continue
		}
		p := index(t.proc)
		tr := timeline.Track{Source: r.in.Source, Proc: -1, Device: -1, Thread: t.id}
		switch {
		case t.stream && p >= 0:
			tr.Table, tr.Kind, tr.Proc, tr.Device = table(tKernel), timeline.TrackStream, first+p, devices[procDevice{p, t.device}]
			if t.id < 0 {
				tr.Name = "no stream"
			}
		case p >= 0 && t.id >= 0:
			tr.Table, tr.Kind, tr.Proc, tr.Name = table(tRuntime), timeline.TrackHost, first+p, r.m.threads[t.proc|t.id]
		case p >= 0:
			tr.Table, tr.Kind, tr.Proc, tr.Name = table(tRuntime), timeline.TrackOther, first+p, "no thread"
		default:
			tr.Table, tr.Kind, tr.Name = table(tRuntime), timeline.TrackOther, fmt.Sprintf("process %d, %d", pidOf(t.proc), t.id)
			if name := r.m.procs[t.proc]; name != "" {
				tr.Name += " (" + name + ")"
			}
			tr.Thread, outside[i] = -1, true
		}
		ids[i] = r.b.Track(tr)
	}
	r.b.EachChunk(func(_ int, c *timeline.SpanChunk) {
		for j, t := range c.Track {
			if outside[t] && c.Kind[j] == timeline.KindOverhead {
				c.Kind[j] = timeline.KindOther // held nobody up whom we speak of
			}
			c.Track[j] = ids[t]
		}
	})
	ms := &tl.Marks
	for _, m := range r.marks {
		ms.Append(timeline.MarkOther, ids[m.track], m.at, 0, m.name, m.row)
	}
	r.placeSamples(ids)
	r.placeMemory(func(proc int64, ordinal int32) (timeline.DeviceID, int, bool) {
		p := index(proc)
		d, ok := devices[procDevice{p, ordinal}]
		return d, first + p, ok
	})
	r.placeMetrics()
}

// marked tells which raw tracks have marks or samples.
func (r *reader) marked() []bool {
	out := make([]bool, len(r.raw))
	for i := range r.marks {
		out[r.marks[i].track] = true
	}
	for i := range r.cpuSamples {
		out[r.cpuSamples[i].track] = true
	}
	return out
}

// report says what the file does not hold.
func (r *reader) report(first, n int) {
	var missing []string
	for _, t := range []struct{ name, what string }{
		{tKernel, "kernels"}, {tGraph, "whole graph launches"}, {tRuntime, "CUDA calls"}, {tMemcpy, "copies"}, {tMemset, "fills"}, {tSync, "waits"}, {tNVTX, "NVTX ranges"},
		{tOSRT, "blocking calls of the system"}, {tCUBLAS, "cuBLAS calls"}, {tCUDNN, "cuDNN calls"}, {tSched, "context switches"}, {tSamples, "CPU samples"}, {tMemory, "allocator events"},
		{tMetrics, "GPU metrics"}, {"TARGET_INFO_GPU_METRICS", "names of GPU metrics"}, {tNIC, "network readings"}, {tOverhead, "overhead of CUDA"}, {tProfiler, "overhead of the profiler"},
		{tDiagnostic, "warnings of the profiler"}, {"TARGET_INFO_GPU", "GPUs"}, {"TARGET_INFO_CUDA_DEVICE", "which GPU a device number means"}, {"TARGET_INFO_SYSTEM_ENV", "host name"},
		{"ANALYSIS_DETAILS", "length of the recording"}, {"PROCESSES", "names of processes"}, {"ThreadNames", "names of threads"}, {"META_DATA_CAPTURE", "what was to be recorded"},
		{"META_DATA_EXPORT", "version of the exporter"},
	} {
		if r.db.tables[t.name] == nil && (t.name != "META_DATA_EXPORT" || r.db.tables["EXPORT_META_DATA"] == nil) {
			missing = append(missing, t.what)
		}
	}
	if r.db.tables[tKernel] == nil && r.db.tables[tGraph] == nil {
		why := "nsys ran without -t cuda"
		if slices.Contains(r.m.traced, "Cuda") {
			why = "CUDA was traced, and no kernel ran in the recording, or its events came too late to be written"
		}
		r.in.Report("nsys/no-kernels", timeline.DataLoss, 0, "no table %s: %s; record with: nsys profile -t cuda,nvtx,osrt --cuda-graph-trace=node", tKernel, why)
	}
	if len(missing) > 0 {
		r.in.Report("nsys/not-recorded", timeline.Info, 0, "not in the file, so not recorded or none happened: %s", strings.Join(missing, ", "))
	}
	for i := first; i < first+n; i++ {
		meta := r.b.TL.Procs[i].Meta
		if len(missing) > 0 {
			meta["not_recorded"] = strings.Join(missing, ", ")
		}
	}
}
