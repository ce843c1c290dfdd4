package ingest

import (
	"cmp"
	"fmt"
	"time"

	"gpureport/ingest/timeline"
)

// Aside is a capture of a rank that was recorded at the same time as the one that is analysed.
type Aside struct {
	Of  int // the trace that is analysed, by position
	Red *timeline.Reduced
}

// asideReach is how far the clocks of two captures of one process may lie apart and still be compared.
const asideReach = 2 * time.Second

// PlaceAsides holds the clocks of second captures against those of the captures that are analysed, by the activity of the GPUs they share.
// Both state UTC: a profiler's stamps are good to tens of microseconds, but the start of a session is known to about a millisecond only.
// Where they differ by more than can be seen, the axis stays that of the capture whose ledger is analysed, for all that is claimed rests on
// it; the other's readings are moved onto it, and the difference is a problem that is shown.
func PlaceAsides(base *timeline.Timeline, traces []*timeline.Reduced, asides []Aside) {
	p := &placer{base: base}
	for _, a := range asides { // what the host's clock was off by is off the captures' own times already
		for i := range base.Sources {
			if src := timeline.SourceID(i); base.Sources[i].Path == a.Red.Path && a.Red.Shifted != 0 && p.clock(src).Offset == 0 {
				p.clock(src).Why = joinWhy(p.clock(src).Why, a.Red.ShiftWhy)
				p.move(src, a.Red.Shifted)
			}
		}
	}
	for i := range base.Sources {
		src := timeline.SourceID(i)
		file := base.Sources[i].Path
		var best timeline.Lag
		found, of := false, ""
		for _, a := range asides {
			if a.Red.Path != file || !onUnixAxis(a.Red) || !onUnixAxis(traces[a.Of]) {
				continue
			}
			of = cmp.Or(of, traces[a.Of].Path)
			// Of several GPUs and processes the one that tells best: they share the two clocks.
			if l, ok := lagOf(traces[a.Of], a.Red); ok && (!found || l.Clear && !best.Clear || l.Clear == best.Clear && l.R > best.R) {
				best, found, of = l, true, traces[a.Of].Path
			}
		}
		c := p.clock(src)
		switch {
		case of == "":
		case !found:
			c.Why = joinWhy(c.Why, fmt.Sprintf("%s is of the same process, and no GPU's activity is in both, to compare their clocks", of))
		case !best.Clear:
			c.Why = joinWhy(c.Why, fmt.Sprintf("activity agrees with %s of the same process, correlation %.2f at %s, and nearly as well at %s: not compared more closely", of, best.R, millis(best.By), millis(best.Next)))
		case best.By.Abs() <= best.Error:
			c.Error = max(c.Error, best.By.Abs()+best.Error)
			c.Why = joinWhy(c.Why, fmt.Sprintf("activity agrees with %s of the same process, correlation %.2f: %s apart, which is known to %s", of, best.R, millis(best.By), millis(best.Error)))
		default:
			c.How, c.Error = timeline.Matched, best.Error
			c.Why = joinWhy(c.Why, fmt.Sprintf("moved by %s onto the clock of %s of the same process, by the activity of their GPU: correlation %.2f, error %s", millis(best.By), of, best.R, millis(best.Error)))
			p.move(src, timeline.Time(best.By))
			base.Problems = append(base.Problems, timeline.Problem{Code: "ingest/clocks-differ", Severity: timeline.Info, Path: file, Count: 1,
				Message: fmt.Sprintf("its clock and that of %s differ by %s, though both state UTC: the axis is that of %s, whose time ledger is analysed", of, millis(best.By), of)})
		}
	}
}

// lagOf compares the GPU that both know by the same ordinal and that tells most.
func lagOf(y, x *timeline.Reduced) (best timeline.Lag, ok bool) {
	for i := range y.GPUs {
		for j := range x.GPUs {
			a, b := &y.GPUs[i], &x.GPUs[j]
			if a.Device.Ordinal != b.Device.Ordinal {
				continue
			}
			if l, told := timeline.LagOf(&a.Bins, &b.Bins, asideReach); told && (!ok || l.R > best.R) {
				best, ok = l, true
			}
		}
	}
	return best, ok
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
