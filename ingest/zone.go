package ingest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpureport/ingest/timeline"
)

// zoneWord is what one source states of the zone of the machine it was recorded on.
type zoneWord struct {
	host, dir, path string
	zone            timeline.Time // local minus UTC
	at              timeline.Time // when it was so, Unix time; 0 not known
}

// zoneMeta is the key under which a trace keeps the zone of its machine, in seconds east of UTC.
const zoneMeta = "tz_offset_s"

// zoneWords gathers what traces and logs state of zones, sorted by path.
func zoneWords(base *timeline.Timeline, traces []*timeline.Reduced) []zoneWord {
	var out []zoneWord
	add := func(w zoneWord) {
		same := func(o zoneWord) bool { return o.path == w.path && o.host == w.host && o.zone == w.zone }
		if abs(w.zone) <= 14*wallHour && !slices.ContainsFunc(out, same) {
			out = append(out, w)
		}
	}
	process := func(p *timeline.Process, file, host string, at timeline.Time) {
		if s, err := strconv.Atoi(p.Meta[zoneMeta]); err == nil && s > -1e6 && s < 1e6 {
			add(zoneWord{cmp.Or(p.Host, host), path.Dir(file), file, timeline.Time(s) * 1e9, at})
		}
	}
	for _, t := range traces {
		at := timeline.Time(0)
		if onUnixAxis(t) {
			at = traceSpan(t).Start
		}
		process(&t.Process, t.Path, "", at)
	}
	for i := range base.Procs {
		p := &base.Procs[i]
		s, at := &base.Sources[p.Source], p.Recorded.Start
		if at == 0 && len(s.Coverage) > 0 {
			at = s.Coverage[0].Start
		}
		process(p, s.Path, s.Host, at)
	}
	for i := range base.Attrs {
		a := &base.Attrs[i]
		if a.Name != timeline.AttrZone || !(a.Value > -1e6 && a.Value < 1e6) {
			continue
		}
		src := &base.Sources[base.Tracks[a.Track].Source]
		add(zoneWord{src.Host, path.Dir(src.Path), src.Path, timeline.Time(a.Value) * 1e9, a.At})
	}
	slices.SortStableFunc(out, func(a, b zoneWord) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.zone, b.zone)) })
	return out
}

// statedZone is the zone of a log's clock when the log began, as others state it.
type statedZone struct {
	zone   timeline.Time
	byHost bool   // the log names its host, and the other names the same
	why    string // who says so
}

// stated gives what the other inputs state of the zone of log src: those of the host it names, else those of its folder, else the only host
// of the input. why is not "" where they disagree; both nil and "" where nobody says.
func (p *placer) stated(src timeline.SourceID) (z *statedZone, why string) {
	s := &p.base.Sources[src]
	var fit []zoneWord
	how, byHost := "", false
	if s.Host != "" {
		how, byHost = "of host "+s.Host, true
		for _, w := range p.words {
			if w.host != "" && sameHost(w.host, s.Host) {
				fit = append(fit, w)
			}
		}
	}
	other := func(w zoneWord) bool { return s.Host != "" && w.host != "" } // it is another host's
	if len(fit) == 0 {
		how, byHost = "of the same folder", false
		for _, w := range p.words {
			if w.dir == path.Dir(s.Path) && !other(w) {
				fit = append(fit, w)
			}
		}
	}
	if len(fit) == 0 {
		how = "of the only host that states one"
		host := ""
		for _, w := range p.words {
			if other(w) || host != "" && w.host != host {
				return nil, ""
			}
			host = w.host
			fit = append(fit, w)
		}
		if host == "" { // no name: several hosts may be behind it
			return nil, ""
		}
	}
	var zones []timeline.Time
	for _, w := range fit {
		if z, ok := p.atStart(src, w); ok && !slices.Contains(zones, z) {
			zones = append(zones, z)
		}
	}
	switch len(zones) {
	case 0:
		return nil, ""
	case 1:
		return &statedZone{zones[0], byHost, fmt.Sprintf("%s as %s %s states", zoneName(zones[0]), fit[0].path, how)}, ""
	}
	slices.Sort(zones)
	var names []string
	for _, z := range zones {
		names = append(names, zoneName(z))
	}
	return nil, fmt.Sprintf("the other inputs %s state several zones (%s): none is used", how, strings.Join(names, ", "))
}

// atStart turns the zone that w states into that of the log's clock when the log began: in between the clock may have been changed.
func (p *placer) atStart(src timeline.SourceID, w zoneWord) (timeline.Time, bool) {
	type change struct{ at, by timeline.Time }
	var changes []change
	m := &p.base.Marks
	for i, t := range m.Track {
		if m.Kind[i] == timeline.MarkClockStep && m.Code[i] != 0 && p.base.Tracks[t].Source == src {
			changes = append(changes, change{m.At[i], timeline.Time(m.Code[i]) * 1e9})
		}
	}
	if len(changes) == 0 {
		return w.zone, true
	}
	if w.at == 0 {
		return 0, false
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	zone := w.zone
	for k := 0; ; k++ { // k changes lie before the statement
		before := 0
		for _, c := range changes {
			if c.at-zone <= w.at {
				before++
			}
		}
		if before == k {
			return zone, true
		}
		if k == len(changes) {
			return 0, false
		}
		zone -= changes[k].by
	}
}

// sameHost compares host names, of which one may have its domain behind it.
func sameHost(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	short := func(s string) string { s, _, _ = strings.Cut(s, "."); return s }
	return a == b || (!strings.Contains(a, ".") || !strings.Contains(b, ".")) && short(a) == short(b)
}
