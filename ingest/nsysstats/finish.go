package nsysstats

import (
	"slices"
	"time"

	"gpureport/ingest/timeline"
)

// finish completes the timeline and says what the tables do not hold.
func (r *reader) finish() {
	s := &r.spans
	r.sums.finish(r)
	if r.b.NSpans() > 0 {
		s.finish()
	}
	seen := &s.seen
	clock := timeline.Clock{Name: r.in.Path, Step: time.Nanosecond, Why: "stamps count from the session's start, and these tables do not say when that was"}
	if r.b.NSpans() == 0 {
		clock.Why = "a summary has no time axis"
	}
	r.b.AddClock(r.in.Source, clock)
	src := r.b.Source(r.in.Source)
	src.Rows, src.Asks = r.rows, r.asks()
	device, calls := seen[gpuTrace] || seen[execTrace], seen[apiTrace] || seen[execTrace]
	switch {
	case r.b.NSpans() == 0 && len(r.b.TL.Totals) > 0:
		r.in.Report("nsys-stats/no-time-axis", timeline.Info, r.first, "sums without a time axis: neither gaps nor steps nor who held them can be told; answer with: %s", export)
	case device && !calls:
		r.in.Report("nsys-stats/no-calls", timeline.Info, r.first, "device work without the calls that launched it: who held the gaps cannot be told. A cuda_api_trace in a file of its own is not joined with this one: print both reports into one file, or answer with: %s", export)
	case !device && r.b.NSpans() > 0:
		r.in.Report("nsys-stats/no-device-work", timeline.Info, r.first, "what the host did, without the device's work: no GPU has a ledger. A cuda_gpu_trace in a file of its own is not joined with this one: print both reports into one file, or answer with: %s", export)
	}
	if r.noise > 0 {
		r.in.ReportN(r.noise, "nsys-stats/other-line", timeline.Info, r.noiseL, "lines outside tables that nsys does not print: passed over")
	}
}

// asks is what these tables let be asked: sums less than spans, ranges alone no more than steps.
func (r *reader) asks() []string {
	switch {
	case r.spans.seen[gpuTrace] || r.spans.seen[execTrace]:
		return nil // all of the format's
	case r.b.NSpans() > 0:
		return []string{"step"}
	}
	out := []string{}
	for _, x := range []struct {
		what  timeline.TotalsOf
		stage string
	}{{timeline.TotalCalls, "idle"}, {timeline.TotalCopyTime, "data"}, {timeline.TotalKernels, "kernel"}} {
		if slices.ContainsFunc(r.b.TL.Totals, func(t timeline.Totals) bool { return t.What == x.what }) {
			out = append(out, x.stage)
		}
	}
	return out
}
