package ingest

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

const (
	agreeEnough = 0.8 // correlation from which activity proves a placement
	agreeClear  = 0.1 // and by which it must beat the next best
	agreeNone   = 0.2 // under which it speaks against one
	day         = timeline.Time(24 * 3600e9)
	driftAfter  = 10 * time.Minute
	driftPPM    = 50
	maxCurves   = 8
)

// zones are the offsets from UTC in use, in minutes.
var zones = []int{-720, -660, -600, -570, -540, -480, -420, -360, -300, -240, -210, -180, -150, -120, -60, 0, 60, 120, 180, 210, 240, 270, 300, 330, 345,
	360, 390, 420, 480, 525, 540, 570, 600, 630, 660, 720, 765, 780, 825, 840}

var tzForm = regexp.MustCompile(`^([+-])(\d{1,2}):?(\d\d)?$`)

// ParseTZ reads an offset from UTC: +08:00, -0330, +8, Z, UTC.
func ParseTZ(s string) (time.Duration, error) {
	if s == "Z" || strings.EqualFold(s, "UTC") {
		return 0, nil
	}
	m := tzForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("--tz %s: not an offset from UTC: say it like +08:00", s)
	}
	h, _ := strconv.Atoi(m[2])
	mins, _ := strconv.Atoi(m[3])
	if h > 14 || mins > 59 {
		return 0, fmt.Errorf("--tz %s: no place on earth is that far from UTC", s)
	}
	d := time.Duration(h)*time.Hour + time.Duration(mins)*time.Minute
	if m[1] == "-" {
		d = -d
	}
	return d, nil
}

// Place puts each wall-clock log on the axis of the traces, which is Unix time in ns, and moves its readings, marks and coverage there.
// In this order: what the user states, the zone that another input states of the same host or folder, the one zone at which log and traces
// overlap, the one of several at which their activity agrees. Then come logs whose stamps count from boot, and those without any stamp.
// What cannot be decided stays unplaced and says why. The zone of the machine that runs this is never asked.
func Place(base *timeline.Timeline, traces []*timeline.Reduced, opt Options) {
	p := &placer{base: base, opt: opt, logs: logCurves(base), words: zoneWords(base, traces), zoneOf: map[string]timeline.Time{}, apart: map[timeline.SourceID]string{}}
	relative := 0
	for _, t := range traces {
		if !onUnixAxis(t) {
			relative++
			continue
		}
		p.spans = append(p.spans, traceSpan(t))
		for i := range t.GPUs {
			if c := newBusyCurve(&t.GPUs[i].Bins); c != nil {
				p.curves = append(p.curves, c)
			}
		}
	}
	if n := len(p.curves); n > maxCurves { // ranks of one run move alike: a few tell the time
		for i := range maxCurves {
			p.curves[i] = p.curves[i*n/maxCurves]
		}
		p.curves = p.curves[:maxCurves]
	}
	slices.SortFunc(p.spans, func(a, b timeline.Interval) int { return cmp.Compare(a.Start, b.Start) })
	p.relative = relative > 0
	p.followHosts(traces)
	p.years()
	var undecided []timeline.SourceID
	for i := range base.Sources {
		src := timeline.SourceID(i)
		c := p.clock(src)
		if !c.Wall || c.Zoned || c.How != timeline.Unplaced || p.span(src).Empty() {
			continue
		}
		if !p.place(src) {
			undecided = append(undecided, src)
		}
	}
	for _, src := range undecided { // a neighbour of the same folder knows the zone
		c := p.clock(src)
		dir := path.Dir(base.Sources[src].Path)
		why, apart := p.apart[src]
		if z, ok := p.zoneOf[dir]; ok && !strings.HasPrefix(c.Why, DateUnknown) && (!apart || p.beside(src, -z)) {
			if apart {
				c.Why = why
			}
			c.How, c.Error = timeline.Assumed, c.Error+p.drift(src)
			c.Why = fmt.Sprintf("zone %s as for another log of the same folder (assumed); %s", zoneName(z), c.Why)
			p.move(src, -z)
		}
	}
	for i := range base.Sources {
		if c := p.clock(timeline.SourceID(i)); c.Boot && c.How == timeline.Unplaced && !p.span(timeline.SourceID(i)).Empty() {
			p.placeBoot(timeline.SourceID(i))
		}
	}
	for i := range base.Sources {
		if c := p.clock(timeline.SourceID(i)); !c.Wall && !c.Boot && c.How == timeline.Unplaced {
			p.slide(timeline.SourceID(i))
		}
	}
	if base.Epoch.IsZero() && len(base.Series) > 0 {
		base.Epoch = time.Unix(0, 0).UTC()
	}
	base.Marks.Sort()
	base.Window = windowOf(base)
}

type placer struct {
	base   *timeline.Timeline
	opt    Options
	logs   []*logCurve
	curves []*busyCurve
	spans  []timeline.Interval // of traces
	words  []zoneWord          // what the inputs state of zones
	zoneOf map[string]timeline.Time
	apart  map[timeline.SourceID]string // what overlaps the traces at no zone, and what was known of its clock

	relative bool // some trace does not state when it was recorded
}

func (p *placer) clock(src timeline.SourceID) *timeline.Clock {
	return &p.base.Clocks[p.base.Sources[src].Clock]
}

// span is what the readings and marks of src cover, on its own clock; of a source without readings also what it says that it covers, for
// a log of events may hold none.
func (p *placer) span(src timeline.SourceID) timeline.Interval {
	var iv timeline.Interval
	grow := func(start, end timeline.Time) {
		if iv.Empty() {
			iv = timeline.Interval{Start: start, End: end}
		}
		iv.Start, iv.End = min(iv.Start, start), max(iv.End, end)
	}
	for i := range p.base.Series {
		s := &p.base.Series[i]
		if p.base.Tracks[s.Track].Source != src {
			continue
		}
		grow(s.At[0], s.At[len(s.At)-1]+1)
	}
	if iv.Empty() {
		for _, c := range p.base.Sources[src].Coverage {
			grow(c.Start, c.End)
		}
	}
	for i, t := range p.base.Marks.Track {
		if p.base.Tracks[t].Source == src {
			grow(p.base.Marks.At[i], p.base.Marks.At[i]+1)
		}
	}
	return iv
}

func (p *placer) drift(src timeline.SourceID) time.Duration {
	if d := p.span(src).Dur(); d > driftAfter {
		return d / 1e6 * driftPPM
	}
	return 0
}

// overlaps tells whether the log, moved by delta, meets a trace.
func (p *placer) overlaps(iv timeline.Interval, delta timeline.Time) bool {
	for _, s := range p.spans {
		if iv.Start+delta < s.End && s.Start < iv.End+delta {
			return true
		}
	}
	return false
}

// beside tells whether the log, moved by delta, lies within an hour of a trace.
func (p *placer) beside(src timeline.SourceID, delta timeline.Time) bool {
	const near = timeline.Time(time.Hour)
	iv := p.span(src)
	return p.overlaps(timeline.Interval{Start: iv.Start - near, End: iv.End + near}, delta)
}

// candidate is one way to read a log's clock.
type candidate struct {
	zone  timeline.Time // local minus UTC
	delta timeline.Time // to add to the log's stamps
	best  fit
	said  bool // what activity says of it was said already
}

// fit is the best agreement of the log's devices with the traces' around a delta.
type fit struct {
	told  bool
	r     float64
	pairs int
	lag   timeline.Time
	off   float64 // mean distance of the two curves at no lag
	clear bool    // no other lag is nearly as good
}

// place decides one log; false: several readings of its clock are possible.
func (p *placer) place(src timeline.SourceID) bool {
	c := p.clock(src)
	undated := strings.HasPrefix(c.Why, DateUnknown)
	if tz, err := ParseTZ(p.opt.TZ); p.opt.TZ != "" && err == nil {
		return p.placeAs(src, timeline.Time(tz))
	}
	said, why := p.stated(src)
	if why != "" {
		c.Why = joinWhy(c.Why, why)
	}
	if len(p.spans) == 0 {
		switch {
		case said != nil && !undated:
			c.How, c.Why = timeline.Recorded, joinWhy(said.why, c.Why)
			c.Error += p.drift(src)
			p.zoneOf[path.Dir(p.base.Sources[src].Path)] = said.zone
			p.move(src, -said.zone)
		case p.relative:
			c.Why = joinWhy(c.Why, "the traces do not state when they were recorded: it stays on an axis of its own")
		case undated:
			c.Why = joinWhy(c.Why, "no trace to compare it with: it stays on an axis of its own")
		default:
			c.How, c.Why = timeline.Assumed, joinWhy(c.Why, "no trace to compare it with: shown as if its clock were UTC")
			c.Error += p.drift(src)
		}
		return true
	}
	cands := p.candidates(src, zones)
	if said == nil {
		return p.search(src, cands)
	}
	// What another input states of the host is held against the traces like a guess, and weighs more.
	at := slices.DeleteFunc(slices.Clone(cands), func(cd candidate) bool { return cd.zone != said.zone })
	if !slices.Contains(zones, int(said.zone/60e9)) {
		at = p.candidates(src, []int{int(said.zone / 60e9)})
	}
	slices.SortStableFunc(at, func(a, b candidate) int { return cmp.Compare(score(b.best), score(a.best)) })
	switch {
	case len(at) > 1 && !(at[0].best.told && at[0].best.r >= agreeEnough && score(at[1].best) <= at[0].best.r-agreeClear):
		return p.refuse(src, at)
	case len(at) > 0 && !at[0].best.against():
		how := timeline.Recorded
		if at[0].best.told && at[0].best.r >= agreeEnough {
			how = timeline.Matched
		}
		p.accept(src, at[0], how, said.why)
		return true
	}
	against := "there it does not overlap the traces"
	if len(at) > 0 {
		against = fmt.Sprintf("there its utilisation does not agree with theirs (correlation %.2f over %d readings)", at[0].best.r, at[0].best.pairs)
	}
	others := slices.DeleteFunc(cands, func(cd candidate) bool { return cd.zone == said.zone })
	slices.SortStableFunc(others, func(a, b candidate) int { return cmp.Compare(score(b.best), score(a.best)) })
	switch {
	case len(others) > 0 && proven(others):
		p.accept(src, others[0], timeline.Matched, fmt.Sprintf("%s, but %s, while at %s it does: the log's clock ran in that zone", said.why, against, zoneName(others[0].zone)))
	case said.byHost && !undated: // a clock is not wrong because the log speaks of other GPUs, or of another hour
		cd := candidate{zone: said.zone, delta: -said.zone}
		how := timeline.Recorded
		if len(at) > 0 {
			cd, how = at[0], timeline.Assumed
		}
		cd.said = true
		p.accept(src, cd, how, joinWhy(said.why, against))
	default:
		c.Why = joinWhy(fmt.Sprintf("%s, but %s: not placed; state the zone with --tz", said.why, against), c.Why)
	}
	return true
}

// placeAs places a log by the zone the user states; only of what day it is may be open.
func (p *placer) placeAs(src timeline.SourceID, zone timeline.Time) bool {
	c := p.clock(src)
	undated := strings.HasPrefix(c.Why, DateUnknown)
	if len(p.spans) == 0 {
		switch {
		case p.relative:
			c.Why = joinWhy(c.Why, "the traces do not state when they were recorded: it stays on an axis of its own")
		case undated:
			c.Why = joinWhy(c.Why, "no trace to compare it with: it stays on an axis of its own")
		default:
			c.How, c.Why = timeline.Stated, joinWhy("--tz "+p.opt.TZ, c.Why)
			c.Error += p.drift(src)
			p.move(src, -zone)
		}
		return true
	}
	cands := p.candidates(src, []int{int(zone / 60e9)})
	switch {
	case len(cands) == 0 && !undated: // the user's word stands, even if nothing overlaps
		p.accept(src, candidate{zone: zone, delta: -zone}, timeline.Stated, "--tz "+p.opt.TZ)
		return true
	case len(cands) == 1:
		p.accept(src, cands[0], timeline.Stated, "--tz "+p.opt.TZ)
		return true
	}
	return p.search(src, cands)
}

// candidates are the zones, in minutes, at which the log overlaps a trace, and where its day is unknown the days.
func (p *placer) candidates(src timeline.SourceID, minutes []int) []candidate {
	c, iv := p.clock(src), p.span(src)
	reach, step := reachOf(c)
	var out []candidate
	for _, m := range minutes {
		zone := timeline.Time(m) * 60e9
		days := []timeline.Time{0}
		if strings.HasPrefix(c.Why, DateUnknown) {
			k := (p.spans[0].Start - iv.Start + zone) / day
			days = []timeline.Time{(k - 1) * day, k * day, (k + 1) * day}
		}
		for _, d := range days {
			delta := d - zone
			if p.overlaps(iv, delta) && !slices.ContainsFunc(out, func(o candidate) bool { return o.delta == delta }) {
				out = append(out, candidate{zone: zone, delta: delta, best: p.fit(src, delta, reach, step)})
			}
		}
	}
	return out
}

// reachOf is how far a clock may be off beyond its zone, and in what steps that is looked for.
func reachOf(c *timeline.Clock) (reach, step timeline.Time) {
	if c.Step < time.Second {
		return 1e9, 50e6
	}
	return 5e9, 250e6
}

// search places a log at the one candidate that fits; false where several do.
func (p *placer) search(src timeline.SourceID, cands []candidate) bool {
	c := p.clock(src)
	switch {
	case len(cands) == 0:
		p.apart[src] = c.Why
		c.Why = "at no zone does it overlap the traces: it is of another time, or its clock was wrong; " + c.Why
		return false // a reading taken just before or behind them does not either
	case len(cands) == 1 && cands[0].best.against():
		c.Why = fmt.Sprintf("it overlaps the traces at zone %s only, but its utilisation does not agree with theirs (correlation %.2f over %d readings): not placed; state the zone with --tz; %s",
			zoneName(cands[0].zone), cands[0].best.r, cands[0].best.pairs, c.Why)
		return true
	case len(cands) == 1:
		p.accept(src, cands[0], timeline.Matched, fmt.Sprintf("%s is the only zone at which it overlaps the traces", zoneName(cands[0].zone)))
		return true
	}
	slices.SortStableFunc(cands, func(a, b candidate) int { return cmp.Compare(score(b.best), score(a.best)) })
	if proven(cands) {
		p.accept(src, cands[0], timeline.Matched, fmt.Sprintf("of %d zones at which it overlaps the traces only %s agrees with their activity", len(cands), zoneName(cands[0].zone)))
		return true
	}
	return p.refuse(src, cands)
}

// refuse says between what a log's clock could not be decided.
func (p *placer) refuse(src timeline.SourceID, cands []candidate) bool {
	c := p.clock(src)
	var names []string
	slices.SortFunc(cands, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(a.delta, b.delta)) })
	days := map[timeline.Time]bool{}
	for _, cd := range cands {
		names = append(names, zoneName(cd.zone))
		days[cd.zone] = true
	}
	if len(days) == 1 {
		for i, cd := range cands {
			names[i] = "from " + utc(p.span(src).Start+cd.delta)
		}
		c.Why = fmt.Sprintf("it overlaps the traces on %d days (%s) and activity does not decide between them: not placed; record with -o DT; %s", len(cands), strings.Join(names, ", "), c.Why)
		return false
	}
	c.Why = fmt.Sprintf("it overlaps the traces at %d zones (%s) and activity does not decide between them: not placed; state the zone with --tz; %s", len(cands), strings.Join(names, ", "), c.Why)
	return false
}

// proven tells that activity decides for the first of cands, which are sorted by score.
func proven(cands []candidate) bool {
	a := cands[0].best
	return a.told && a.r >= agreeEnough && (len(cands) == 1 || score(cands[1].best) <= a.r-agreeClear) && everyTold(cands)
}

// against tells that the activity speaks against a placement.
func (f *fit) against() bool {
	return f.told && f.pairs >= 2*minPairs && f.r < agreeNone && f.off > 0.2
}

// score ranks fits; one that says nothing ranks below every other.
func score(f fit) float64 {
	if !f.told {
		return -2
	}
	return f.r
}

// everyTold: a zone at which too few readings meet the traces cannot be ruled out, unless it barely touches them.
func everyTold(cands []candidate) bool {
	for _, c := range cands {
		if !c.best.told && c.best.pairs >= minPairs {
			return false
		}
	}
	return true
}

func zoneName(z timeline.Time) string {
	sign := "+"
	if z < 0 {
		sign, z = "-", -z
	}
	return fmt.Sprintf("UTC%s%02d:%02d", sign, z/3600e9, z/60e9%60)
}

// everything is all time there is.
var everything = timeline.Interval{Start: math.MinInt64 / 2, End: math.MaxInt64 / 2}

// at compares the log, moved by delta, with the part of the traces in iv: for each device of the traces the device of the log that agrees
// best, and the mean of those.
func (p *placer) at(src timeline.SourceID, delta timeline.Time, iv timeline.Interval) fit {
	f := fit{r: -2, off: 1}
	sum, m := 0.0, 0
	for _, c := range p.curves {
		best, ok := -2.0, false
		for _, l := range p.logs {
			if l.source != src {
				continue
			}
			a := l.agreeIn(c, delta, iv)
			f.pairs = max(f.pairs, a.pairs)
			if a.pairs > 0 {
				f.off = min(f.off, a.off)
			}
			if a.told() && a.r > best {
				best, ok = a.r, true
			}
		}
		if ok {
			sum += best
			m++
		}
	}
	if m > 0 {
		f.told, f.r = true, sum/float64(m)
	}
	return f
}

// fit looks for the best lag within reach.
func (p *placer) fit(src timeline.SourceID, delta, reach, step timeline.Time) fit {
	return p.fitIn(src, delta, reach, step, everything)
}

func (p *placer) fitIn(src timeline.SourceID, delta, reach, step timeline.Time, iv timeline.Interval) fit {
	n := int(2*reach/step) + 1
	rs := make([]float64, n)
	told := make([]bool, n)
	f := fit{r: -2, off: 1}
	for k := range n {
		lag := -reach + timeline.Time(k)*step
		a := p.at(src, delta+lag, iv)
		if lag == 0 {
			f.pairs, f.off = a.pairs, a.off
		}
		if !a.told {
			continue
		}
		rs[k], told[k] = a.r, true
		// Of equals the smallest shift.
		if !f.told || rs[k] > f.r+1e-9 || math.Abs(rs[k]-f.r) <= 1e-9 && abs(lag) < abs(f.lag) {
			f.told, f.r, f.lag = true, rs[k], lag
		}
	}
	if !f.told {
		return f
	}
	f.clear = f.r >= agreeEnough
	near := reach * 3 / 10 // half width of the peak itself: 1.5 s of 5 s
	for k := range n {
		lag := -reach + timeline.Time(k)*step
		peak := told[k] && (k == 0 || !told[k-1] || rs[k] >= rs[k-1]) && (k == n-1 || !told[k+1] || rs[k] >= rs[k+1])
		if peak && abs(lag-f.lag) > near && rs[k] > f.r-agreeClear {
			f.clear = false // a periodic pattern fits at every period
		}
	}
	if f.lag == -reach || f.lag == reach {
		f.clear = false // the peak lies outside
	}
	return f
}

func abs(t timeline.Time) timeline.Time {
	if t < 0 {
		return -t
	}
	return t
}

// accept places src at c, moved by its lag where that is proven.
func (p *placer) accept(src timeline.SourceID, c candidate, how timeline.Placement, why string) {
	cl := p.clock(src)
	delta := c.delta
	line, drifts := p.lagLine(src, c.delta)
	switch f := c.best; {
	case c.said:
	case drifts:
		cl.Error = max(cl.Step, 300*time.Millisecond)
		why += "; " + line.String()
		delta += line.mid
	case f.told && f.clear:
		delta += f.lag
		cl.Error = max(cl.Step, 300*time.Millisecond) // what a stamp's grain leaves
		why += fmt.Sprintf("; activity agrees, correlation %.2f over %d readings, moved by %+.2f s", f.r, f.pairs, float64(f.lag)/1e9)
	case f.told && f.r >= agreeEnough:
		why += fmt.Sprintf("; activity agrees, correlation %.2f over %d readings, but so does another shift: not refined", f.r, f.pairs)
	case f.told:
		why += fmt.Sprintf("; activity does not prove it, correlation %.2f over %d readings", f.r, f.pairs)
	default:
		why += "; too few readings inside the traces, or too even, to verify it by activity"
	}
	if d := p.drift(src); d > 0 && (!drifts || c.said) {
		cl.Error += d
		why += fmt.Sprintf("; %d ppm of drift allowed", driftPPM)
	} else if d > 0 {
		cl.Error += line.beyond(p.span(src), delta)
	}
	if strings.HasPrefix(cl.Why, DateUnknown) {
		why += "; date taken from the traces"
	}
	cl.How, cl.Why = how, why+"; "+strings.TrimPrefix(cl.Why, DateUnknown+": ")
	p.zoneOf[path.Dir(p.base.Sources[src].Path)] = c.zone
	if drifts && !c.said && line.slope != 0 {
		p.stretch(src, line, c.delta)
	}
	p.move(src, delta)
}

// move shifts everything of src.
func (p *placer) move(src timeline.SourceID, by timeline.Time) {
	p.clock(src).Offset += time.Duration(by)
	p.shift(src, func(timeline.Time) timeline.Time { return by })
}

// shift adds to each instant of src what by says of it.
func (p *placer) shift(src timeline.SourceID, by func(at timeline.Time) timeline.Time) {
	b := p.base
	for i := range b.Series {
		if s := &b.Series[i]; b.Tracks[s.Track].Source == src {
			for j := range s.At {
				s.At[j] += by(s.At[j])
			}
		}
	}
	for i, t := range b.Marks.Track {
		if b.Tracks[t].Source == src {
			b.Marks.At[i] += by(b.Marks.At[i])
		}
	}
	for i := range b.Attrs {
		if a := &b.Attrs[i]; a.At != 0 && b.Tracks[a.Track].Source == src {
			a.At += by(a.At)
		}
	}
	cov := slices.Clone(b.Sources[src].Coverage) // the set's own copy stays on the log's clock
	for i := range cov {
		cov[i].Start += by(cov[i].Start)
		cov[i].End += by(cov[i].End)
	}
	b.Sources[src].Coverage = cov
}
