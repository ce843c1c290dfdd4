package ingest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// YearUnknown starts Clock.Why of a log that states day and time and no year. Its stamps are of BaseYear, and of the years after it where
// the log runs past a new year.
const YearUnknown = "year unknown"

// BaseYear stands where a log states no year: a leap year, so that every date exists.
const BaseYear = 2000

// years moves logs that state no year to the one year in which they come within a day of a trace, or else of a log that states its date.
// One that meets nothing stays unplaced.
func (p *placer) years() {
	var dated []timeline.Interval
	for i := range p.base.Sources {
		src := timeline.SourceID(i)
		if c, iv := p.clock(src), p.span(src); c.Wall && !iv.Empty() && !strings.HasPrefix(c.Why, YearUnknown) && !strings.HasPrefix(c.Why, DateUnknown) {
			dated = append(dated, iv)
		}
	}
	for i := range p.base.Sources {
		src := timeline.SourceID(i)
		c, iv := p.clock(src), p.span(src)
		if !strings.HasPrefix(c.Why, YearUnknown) || iv.Empty() {
			continue
		}
		c.Why = strings.TrimPrefix(strings.TrimPrefix(c.Why, YearUnknown), ": ")
		years := nearYears(iv, p.spans)
		if len(p.spans) == 0 {
			years = nearYears(iv, dated)
		}
		if len(years) != 1 {
			c.Wall = false // nothing but an order
			c.Why = joinWhy(c.Why, fmt.Sprintf("%d years fit the dates of the other inputs: not placed; record with journalctl -k -o short-iso-precise", len(years)))
			continue
		}
		c.Why = joinWhy(c.Why, fmt.Sprintf("year %d, the only one in which it comes near the other inputs", years[0]))
		p.remap(src, func(at timeline.Time) timeline.Time { return inYear(at, years[0]) })
	}
}

// nearYears gives the years in which iv, whose stamps are of BaseYear, comes within a day of one of refs: no zone is farther off.
func nearYears(iv timeline.Interval, refs []timeline.Interval) []int {
	var out []int
	for _, ref := range refs {
		y := time.Unix(0, int64(ref.Start)).UTC().Year()
		last := time.Unix(0, int64(ref.End)).UTC().Year()
		for y--; y <= last+1; y++ {
			if inYear(iv.Start, y) < ref.End+day && ref.Start-day < inYear(iv.End, y) && !slices.Contains(out, y) {
				out = append(out, y)
			}
		}
	}
	return out
}

// inYear gives the instant of the same date and time with year in place of BaseYear.
func inYear(at timeline.Time, year int) timeline.Time {
	t := time.Unix(0, int64(at)).UTC()
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	moved := time.Date(t.Year()+year-BaseYear, t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	return at + timeline.Time(moved.Unix()-midnight.Unix())*1e9
}

// remap gives everything of src other instants, in the same order.
func (p *placer) remap(src timeline.SourceID, to func(timeline.Time) timeline.Time) {
	b := p.base
	for i := range b.Series {
		if s := &b.Series[i]; b.Tracks[s.Track].Source == src {
			for j := range s.At {
				s.At[j] = to(s.At[j])
			}
		}
	}
	for i, t := range b.Marks.Track {
		if b.Tracks[t].Source == src {
			b.Marks.At[i] = to(b.Marks.At[i])
		}
	}
	cov := slices.Clone(b.Sources[src].Coverage)
	for i := range cov {
		cov[i] = timeline.Interval{Start: to(cov[i].Start), End: to(cov[i].End)}
	}
	b.Sources[src].Coverage = cov
}
