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
// In this order: what the user states, the one zone at which log and traces overlap, the one of several at which their activity agrees.
// What cannot be decided stays unplaced and says why. The zone of the machine that runs this is never asked.
func Place(base *timeline.Timeline, traces []*timeline.Reduced, opt Options) {
	p := &placer{base: base, opt: opt, logs: logCurves(base), zoneOf: map[string]timeline.Time{}}
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
	p.why = "no trace to compare it with"
	if relative > 0 {
		p.why = "the traces do not state when they were recorded"
	}
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
		if z, ok := p.zoneOf[dir]; ok && !strings.HasPrefix(c.Why, DateUnknown) {
			c.How, c.Error = timeline.Assumed, c.Error+p.drift(src)
			c.Why = fmt.Sprintf("zone %s as for another log of the same folder (assumed); %s", zoneName(z), c.Why)
			p.move(src, -z)
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
	why    string              // why there is no axis
	zoneOf map[string]timeline.Time
}

func (p *placer) clock(src timeline.SourceID) *timeline.Clock {
	return &p.base.Clocks[p.base.Sources[src].Clock]
}

// span is what the readings of src cover, on its own clock.
func (p *placer) span(src timeline.SourceID) timeline.Interval {
	var iv timeline.Interval
	for i := range p.base.Series {
		s := &p.base.Series[i]
		if p.base.Tracks[s.Track].Source != src {
			continue
		}
		one := timeline.Interval{Start: s.At[0], End: s.At[len(s.At)-1] + 1}
		if iv.Empty() {
			iv = one
		}
		iv.Start, iv.End = min(iv.Start, one.Start), max(iv.End, one.End)
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

// candidate is one way to read a log's clock.
type candidate struct {
	zone  timeline.Time // local minus UTC
	delta timeline.Time // to add to the log's stamps
	best  fit
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
	iv := p.span(src)
	undated := strings.HasPrefix(c.Why, DateUnknown)
	stated, tzErr := ParseTZ(p.opt.TZ)
	hasTZ := p.opt.TZ != "" && tzErr == nil
	if len(p.spans) == 0 {
		switch {
		case undated:
			c.Why += "; " + p.why + ": it stays on an axis of its own"
		case hasTZ:
			c.How, c.Why = timeline.Stated, fmt.Sprintf("--tz %s; %s", p.opt.TZ, c.Why)
			c.Error += p.drift(src)
			p.move(src, -timeline.Time(stated))
		default:
			c.How, c.Why = timeline.Assumed, c.Why+"; "+p.why+": shown as if its clock were UTC"
			c.Error += p.drift(src)
		}
		return true
	}
	var cands []candidate
	add := func(zone timeline.Time) {
		days := []timeline.Time{0}
		if undated {
			first := p.spans[0].Start - iv.Start + zone
			k := first / day
			days = []timeline.Time{(k - 1) * day, k * day, (k + 1) * day}
		}
		for _, d := range days {
			delta := d - zone
			if p.overlaps(iv, delta) && !slices.ContainsFunc(cands, func(o candidate) bool { return o.delta == delta }) {
				cands = append(cands, candidate{zone: zone, delta: delta})
			}
		}
	}
	if hasTZ {
		add(timeline.Time(stated))
		if len(cands) == 0 && !undated { // the user's word stands, even if nothing overlaps
			cands = append(cands, candidate{zone: timeline.Time(stated), delta: -timeline.Time(stated)})
		}
	} else {
		for _, z := range zones {
			add(timeline.Time(z) * 60e9)
		}
	}
	reach, step := timeline.Time(5e9), timeline.Time(250e6)
	if c.Step < time.Second {
		reach, step = 1e9, 50e6
	}
	for i := range cands {
		cands[i].best = p.fit(src, cands[i].delta, reach, step)
	}
	switch {
	case len(cands) == 0:
		c.Why = "at no zone does it overlap the traces: it is of another time, or its clock was wrong; " + c.Why
		return true
	case hasTZ && len(cands) == 1:
		p.accept(src, cands[0], timeline.Stated, "--tz "+p.opt.TZ)
		return true
	case len(cands) == 1 && cands[0].best.told && cands[0].best.pairs >= 2*minPairs && cands[0].best.r < agreeNone && cands[0].best.off > 0.2:
		c.Why = fmt.Sprintf("it overlaps the traces at zone %s only, but its utilisation does not agree with theirs (correlation %.2f over %d readings): not placed; state the zone with --tz; %s",
			zoneName(cands[0].zone), cands[0].best.r, cands[0].best.pairs, c.Why)
		return true
	case len(cands) == 1:
		p.accept(src, cands[0], timeline.Matched, fmt.Sprintf("%s is the only zone at which it overlaps the traces", zoneName(cands[0].zone)))
		return true
	}
	slices.SortStableFunc(cands, func(a, b candidate) int { return cmp.Compare(score(b.best), score(a.best)) })
	if a, b := cands[0].best, cands[1].best; a.told && a.r >= agreeEnough && (score(b) <= a.r-agreeClear) && everyTold(cands) {
		p.accept(src, cands[0], timeline.Matched, fmt.Sprintf("of %d zones at which it overlaps the traces only %s agrees with their activity", len(cands), zoneName(cands[0].zone)))
		return true
	}
	var names []string
	slices.SortFunc(cands, func(a, b candidate) int { return cmp.Compare(a.zone, b.zone) })
	for _, cd := range cands {
		names = append(names, zoneName(cd.zone))
	}
	c.Why = fmt.Sprintf("it overlaps the traces at %d zones (%s) and activity does not decide between them: not placed; state the zone with --tz; %s", len(cands), strings.Join(names, ", "), c.Why)
	return false
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

// fit looks for the best lag within reach: for each device of the traces the device of the log that agrees best, and the mean of those.
func (p *placer) fit(src timeline.SourceID, delta, reach, step timeline.Time) fit {
	n := int(2*reach/step) + 1
	rs := make([]float64, n)
	told := make([]bool, n)
	f := fit{r: -2, off: 1}
	for k := range n {
		lag := -reach + timeline.Time(k)*step
		sum, m := 0.0, 0
		for _, c := range p.curves {
			best, ok := -2.0, false
			for _, l := range p.logs {
				if l.source != src {
					continue
				}
				a := l.agree(c, delta+lag)
				if lag == 0 {
					f.pairs = max(f.pairs, a.pairs)
					if a.pairs > 0 {
						f.off = min(f.off, a.off)
					}
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
		if m == 0 {
			continue
		}
		rs[k], told[k] = sum/float64(m), true
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
	switch f := c.best; {
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
	if d := p.drift(src); d > 0 {
		cl.Error += d
		why += fmt.Sprintf("; %d ppm of drift allowed", driftPPM)
	}
	if strings.HasPrefix(cl.Why, DateUnknown) {
		why += "; date taken from the traces"
	}
	cl.How, cl.Why = how, why+"; "+strings.TrimPrefix(cl.Why, DateUnknown+": ")
	p.zoneOf[path.Dir(p.base.Sources[src].Path)] = c.zone
	p.move(src, delta)
}

// move shifts everything of src.
func (p *placer) move(src timeline.SourceID, by timeline.Time) {
	p.clock(src).Offset += time.Duration(by)
	b := p.base
	for i := range b.Series {
		if s := &b.Series[i]; b.Tracks[s.Track].Source == src {
			for j := range s.At {
				s.At[j] += by
			}
		}
	}
	for i, t := range b.Marks.Track {
		if b.Tracks[t].Source == src {
			b.Marks.At[i] += by
		}
	}
	cov := slices.Clone(b.Sources[src].Coverage) // the set's own copy stays on the log's clock
	for i := range cov {
		cov[i].Start += by
		cov[i].End += by
	}
	b.Sources[src].Coverage = cov
}
