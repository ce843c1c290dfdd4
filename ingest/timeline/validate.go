package timeline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Validate tells the first few ways in which tl breaks its contract; nil if none. Readers' tests and fuzzers hold to it.
func (tl *Timeline) Validate() error {
	var errs []error
	bad := func(format string, args ...any) bool {
		errs = append(errs, fmt.Errorf(format, args...))
		return len(errs) >= 8
	}
	tl.validateTables(bad)
	tl.validateSpans(bad)
	tl.validateMarks(bad)
	tl.validateSeries(bad)
	return errors.Join(errs...)
}

type badFunc func(format string, args ...any) (enough bool)

func (tl *Timeline) validateTables(bad badFunc) {
	for i := range tl.Sources {
		if c := tl.Sources[i].Clock; c < 0 || int(c) > 0 && int(c) >= len(tl.Clocks) {
			bad("source %d: clock %d of %d", i, c, len(tl.Clocks))
		}
	}
	for i := range tl.Procs {
		if s := tl.Procs[i].Source; s < 0 || int(s) >= len(tl.Sources) {
			bad("process %d: source %d of %d", i, s, len(tl.Sources))
		}
	}
	for i := range tl.Devices {
		d := &tl.Devices[i]
		if d.Source < 0 || int(d.Source) >= len(tl.Sources) || d.Proc < -1 || d.Proc >= len(tl.Procs) {
			bad("device %d: source %d of %d, process %d of %d", i, d.Source, len(tl.Sources), d.Proc, len(tl.Procs))
		}
	}
	for i := range tl.Tracks {
		t := &tl.Tracks[i]
		if t.Source < 0 || int(t.Source) >= len(tl.Sources) {
			bad("track %d: source %d of %d", i, t.Source, len(tl.Sources))
		}
		if t.Proc < -1 || t.Proc >= len(tl.Procs) || t.Device < -1 || int(t.Device) >= len(tl.Devices) {
			bad("track %d: process %d of %d, device %d of %d", i, t.Proc, len(tl.Procs), t.Device, len(tl.Devices))
		}
		if int(t.Table) >= tl.Names.Len() {
			bad("track %d: table %d of %d names", i, t.Table, tl.Names.Len())
		}
	}
	for i := range tl.Problems {
		if p := &tl.Problems[i]; p.Code == "" || p.Count < 1 {
			bad("problem %d: code %q, count %d", i, p.Code, p.Count)
		}
	}
}

func (tl *Timeline) validateSpans(bad badFunc) {
	s := &tl.Spans
	n := s.Len()
	for _, l := range []int{len(s.Track), len(s.Kind), len(s.End), len(s.Name), len(s.Link), len(s.Row)} {
		if l != n {
			bad("spans: columns of %d and %d rows", n, l)
			return
		}
	}
	names := tl.Names.Len()
	for i := range n {
		switch {
		case s.Track[i] < 0 || int(s.Track[i]) >= len(tl.Tracks):
			if bad("span %d: track %d of %d", i, s.Track[i], len(tl.Tracks)) {
				return
			}
		case s.End[i] < s.Start[i]:
			if bad("span %d: ends %d ns before it starts", i, s.Start[i]-s.End[i]) {
				return
			}
		case s.Kind[i] >= NSpanKinds:
			if bad("span %d: kind %d", i, s.Kind[i]) {
				return
			}
		case int(s.Name[i]) >= names:
			if bad("span %d: name %d of %d", i, s.Name[i], names) {
				return
			}
		case i > 0 && spanOrder(s, i-1, i) > 0:
			if bad("span %d: not in order of track, start, longer first, row", i) {
				return
			}
		case s.Start[i] < tl.Window.Start || s.End[i] > tl.Window.End:
			if bad("span %d: outside the window", i) {
				return
			}
		}
	}
	validateSide(bad, "copy", s.Copies, n, func(r *Copy) int32 { return r.Span }, func(r *Copy) bool {
		return r.Bytes >= -1 && r.Kind <= DirH2H && max(r.Src, r.Dst) <= MemManaged &&
			(s.Kind[r.Span] == KindMemcpy || s.Kind[r.Span] == KindMemset)
	})
	validateSide(bad, "kernel args", s.Kernels, n, func(r *KernelArgs) int32 { return r.Span }, func(r *KernelArgs) bool {
		return r.Launch >= 0 && int(r.Launch) < len(s.Launches) && s.Kind[r.Span] == KindKernel
	})
	for i := range s.Launches {
		if l := &s.Launches[i]; min(l.Grid[0], l.Grid[1], l.Grid[2], l.Block[0], l.Block[1], l.Block[2]) < 0 {
			bad("launch %d: %+v", i, *l)
			return
		}
	}
	validateSide(bad, "collective", s.Comms, n, func(r *Comm) int32 { return r.Span }, func(r *Comm) bool {
		return r.InElems >= -1 && r.OutElems >= -1 && r.Rank >= -1 && r.GroupSize >= 0 && r.Seq >= -1 &&
			int(max(r.Collective, r.DType, r.Group, r.GroupDesc, r.GroupRanks, r.InSplits, r.OutSplits)) < names
	})
	validateSide(bad, "shape", s.Shapes, n, func(r *Shape) int32 { return r.Span }, func(r *Shape) bool {
		return int(max(r.Dims, r.Types, r.Concrete)) < names
	})
}

func spanOrder(s *Spans, i, j int) int {
	return cmp.Or(cmp.Compare(s.Track[i], s.Track[j]), cmp.Compare(s.Start[i], s.Start[j]),
		cmp.Compare(s.End[j], s.End[i]), cmp.Compare(s.Row[i], s.Row[j]))
}

// validateSide wants side rows in range, at most one a span, in order of spans.
func validateSide[T any](bad badFunc, what string, rows []T, n int, span func(*T) int32, ok func(*T) bool) {
	last := int32(-1)
	for i := range rows {
		p := span(&rows[i])
		if p < 0 || int(p) >= n || p <= last {
			bad("%s %d: span %d after %d, of %d", what, i, p, last, n)
			return
		}
		last = p
		if !ok(&rows[i]) {
			bad("%s %d: %+v", what, i, rows[i])
			return
		}
	}
}

func (tl *Timeline) validateMarks(bad badFunc) {
	m := &tl.Marks
	for _, l := range []int{len(m.Track), len(m.Kind), len(m.Code), len(m.Name), len(m.Row)} {
		if l != len(m.At) {
			bad("marks: columns of %d and %d rows", len(m.At), l)
			return
		}
	}
	for i, at := range m.At {
		if i > 0 && at < m.At[i-1] {
			bad("mark %d: not in order of time", i)
			return
		}
		if m.Track[i] < 0 || int(m.Track[i]) >= len(tl.Tracks) || int(m.Name[i]) >= tl.Names.Len() {
			bad("mark %d: track %d of %d, name %d of %d", i, m.Track[i], len(tl.Tracks), m.Name[i], tl.Names.Len())
			return
		}
	}
}

func (tl *Timeline) validateSeries(bad badFunc) {
	for i := range tl.Series {
		s := &tl.Series[i]
		if s.Track < 0 || int(s.Track) >= len(tl.Tracks) || len(s.Value) != len(s.At) || len(s.Row) != len(s.At) {
			bad("series %d %s: track %d of %d, columns of %d, %d and %d rows", i, s.Metric.Name, s.Track, len(tl.Tracks), len(s.At), len(s.Value), len(s.Row))
			continue
		}
		for j, v := range s.Value {
			if math.IsNaN(v) || math.IsInf(v, 0) || j > 0 && s.At[j] <= s.At[j-1] {
				bad("series %d %s: reading %d: %v at %d", i, s.Metric.Name, j, v, s.At[j])
				break
			}
		}
	}
}
