package ingest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// bootWord is an instant of boot that one source states of its host.
type bootWord struct {
	host, dir, path string
	at              timeline.Time
}

const (
	bootGrain  = timeline.Time(2e9) // two statements this near are of one boot
	eventReach = timeline.Time(1e9) // two logs' stamps of one event
	minEvents  = 2
)

// placeBoot places a log whose stamps count from its host's boot: by the instant of boot that another source of the host or folder states,
// else by events that a placed log saw too.
func (p *placer) placeBoot(src timeline.SourceID) {
	c := p.clock(src)
	boots, how := p.bootsOf(src)
	if len(boots) > 1 { // the one after which the log meets the rest
		var meets []bootWord
		iv := p.span(src)
		for _, b := range boots {
			if p.meets(timeline.Interval{Start: iv.Start + b.at, End: iv.End + b.at}) {
				meets = append(meets, b)
			}
		}
		if len(meets) == 1 {
			boots, how = meets, how+", the only one after which it meets the rest"
		}
	}
	switch len(boots) {
	case 0:
		if p.byEvents(src) {
			return
		}
		c.Why = joinWhy(c.Why, "stamps count from boot, and no input states when that was: not placed; record with dmesg --time-format iso, or journalctl -k -o short-iso-precise")
	case 1:
		c.How, c.Error = timeline.Recorded, max(c.Error, time.Second)+p.drift(src)
		c.Why = joinWhy(fmt.Sprintf("stamps count from boot, at %s as %s %s states; time asleep is not counted", utc(boots[0].at), boots[0].path, how), c.Why)
		p.move(src, boots[0].at)
	default:
		var names []string
		for _, b := range boots {
			names = append(names, utc(b.at)+" ("+b.path+")")
		}
		c.Why = joinWhy(c.Why, "stamps count from boot, and the inputs state several: "+strings.Join(names, ", ")+": not placed")
	}
}

func utc(t timeline.Time) string { return time.Unix(0, int64(t)).UTC().Format("2006-01-02T15:04:05Z") }

// joinWhy puts two reasons one behind the other.
func joinWhy(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// bootsOf gives the instants of boot that are stated of src's host, sorted; of its folder where hosts are not named; else of the only
// host of the input.
func (p *placer) bootsOf(src timeline.SourceID) (boots []bootWord, how string) {
	base := p.base
	var all []bootWord
	for i := range base.Attrs {
		a := &base.Attrs[i]
		s := &base.Sources[base.Tracks[a.Track].Source]
		if a.Name == timeline.AttrHostBoot && a.Value > 0 && a.Value < 9e9 {
			all = append(all, bootWord{s.Host, path.Dir(s.Path), s.Path, timeline.Time(a.Value * 1e9)})
		}
	}
	slices.SortStableFunc(all, func(a, b bootWord) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.path, b.path)) })
	me := &base.Sources[src]
	take := func(ok func(b *bootWord) bool) {
		for i := range all {
			if b := &all[i]; ok(b) && (len(boots) == 0 || b.at-boots[len(boots)-1].at > bootGrain) {
				boots = append(boots, *b)
			}
		}
	}
	other := func(b *bootWord) bool { return me.Host != "" && b.host != "" && !sameHost(me.Host, b.host) }
	if me.Host != "" {
		if take(func(b *bootWord) bool { return b.host != "" && sameHost(b.host, me.Host) }); len(boots) > 0 {
			return boots, "of the same host"
		}
	}
	if take(func(b *bootWord) bool { return b.dir == path.Dir(me.Path) && !other(b) }); len(boots) > 0 {
		return boots, "of the same folder"
	}
	for i := range all {
		if other(&all[i]) || all[i].host == "" || all[i].host != all[0].host {
			return nil, ""
		}
	}
	take(func(*bootWord) bool { return true })
	return boots, "of the only host that states it"
}

// meets tells whether iv meets a trace, or else a placed log.
func (p *placer) meets(iv timeline.Interval) bool {
	if len(p.spans) > 0 {
		return p.overlaps(iv, 0)
	}
	for i := range p.base.Sources {
		if s := p.span(timeline.SourceID(i)); p.clock(timeline.SourceID(i)).How != timeline.Unplaced && !s.Empty() && iv.Start < s.End && s.Start < iv.End {
			return true
		}
	}
	return false
}

// byEvents places src by what the driver told both it and a placed log: the shift at which most of its numbered events have one in the
// other. Refused for fewer than two, and where another shift has as many.
func (p *placer) byEvents(src timeline.SourceID) bool {
	m := &p.base.Marks
	type event struct {
		kind timeline.MarkKind
		code int32
		at   timeline.Time
	}
	var mine, theirs []event
	from := map[timeline.SourceID]bool{}
	for i, t := range m.Track {
		if k := m.Kind[i]; k != timeline.MarkXid && k != timeline.MarkSXid && k != timeline.MarkGPULost && k != timeline.MarkOOM {
			continue
		}
		of := p.base.Tracks[t].Source
		e := event{m.Kind[i], m.Code[i], m.At[i]}
		switch {
		case of == src:
			mine = append(mine, e)
		case p.clock(of).How != timeline.Unplaced && !p.hostsDiffer(of, src):
			theirs = append(theirs, e)
			from[of] = true
		}
	}
	const most = 1000 // pairs grow as the square
	if len(mine) > most || len(theirs) > most {
		return false
	}
	type pair struct {
		delta timeline.Time
		i     int
	}
	var pairs []pair
	for i, a := range mine {
		for _, b := range theirs {
			if a.kind == b.kind && a.code == b.code {
				pairs = append(pairs, pair{b.at - a.at, i})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.delta, b.delta), cmp.Compare(a.i, b.i)) })
	type shift struct {
		delta timeline.Time
		n     int // of my events that have one of theirs there
	}
	var shifts []shift
	best := shift{}
	for lo := range pairs {
		hi, seen := lo, map[int]bool{}
		for ; hi < len(pairs) && pairs[hi].delta-pairs[lo].delta <= eventReach; hi++ {
			seen[pairs[hi].i] = true
		}
		s := shift{pairs[lo+(hi-lo-1)/2].delta, len(seen)}
		if shifts = append(shifts, s); s.n > best.n {
			best = s
		}
	}
	if best.n < minEvents {
		return false
	}
	c := p.clock(src)
	if i := slices.IndexFunc(shifts, func(s shift) bool { return s.n == best.n && abs(s.delta-best.delta) > 2*eventReach }); i >= 0 {
		c.Why = joinWhy(c.Why, fmt.Sprintf("stamps count from boot; %d of its events fit those of other logs if that was at %s, and as many if at %s: not placed",
			best.n, utc(best.delta), utc(shifts[i].delta)))
		return true
	}
	var names []string
	for i := range p.base.Sources {
		if from[timeline.SourceID(i)] {
			names = append(names, p.base.Sources[i].Path)
		}
	}
	c.How, c.Error = timeline.Matched, max(c.Error, time.Second)+p.drift(src)
	c.Why = joinWhy(fmt.Sprintf("stamps count from boot; %d of its %d events are those of %s", best.n, len(mine), strings.Join(names, ", ")), c.Why)
	p.move(src, best.delta)
	return true
}

// hostsDiffer tells that two sources name different hosts.
func (p *placer) hostsDiffer(a, b timeline.SourceID) bool {
	x, y := p.base.Sources[a].Host, p.base.Sources[b].Host
	return x != "" && y != "" && !sameHost(x, y)
}
