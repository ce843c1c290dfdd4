package ingest

import (
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// hostShift is how far the times of one host were moved onto the clock of another, by the collectives that their ranks share.
type hostShift struct {
	by    timeline.Time
	err   time.Duration
	why   string
	mixed bool // traces that are taken together were moved differently: it says nothing
}

// followHosts moves what was read of a host as its traces were moved already: the readings of the traces themselves, and the host's logs that
// state a wall clock, which is the clock that its traces show. A log belongs to the host it names, else to that of the traces in its folder.
func (p *placer) followHosts(traces []*timeline.Reduced) {
	byHost, byDir, byPath := map[string]*hostShift{}, map[string]*hostShift{}, map[string]*hostShift{}
	put := func(m map[string]*hostShift, key string, r *timeline.Reduced) {
		s := m[key]
		if s == nil {
			m[key] = &hostShift{r.Shifted, time.Duration(r.ShiftErrorNS), r.ShiftWhy, false}
			return
		}
		s.mixed = s.mixed || s.by != r.Shifted
	}
	any := false
	for _, r := range traces {
		any = any || r.Shifted != 0
		put(byPath, r.Path, r)
		put(byDir, path.Dir(r.Path), r)
		if r.Process.Host != "" {
			put(byHost, shortHost(r.Process.Host), r)
		}
	}
	if !any {
		return
	}
	for i := range p.base.Sources {
		src := timeline.SourceID(i)
		s := &p.base.Sources[i]
		c := p.clock(src)
		if t := byPath[s.Path]; t != nil {
			if t.by != 0 && !t.mixed {
				c.How, c.Error = timeline.Matched, c.Error+t.err
				c.Why = joinWhy(c.Why, fmt.Sprintf("moved by %s onto the clock of another host: %s", millis(time.Duration(t.by)), t.why))
				p.move(src, t.by)
			}
			continue
		}
		if !c.Wall {
			continue
		}
		var t *hostShift
		of := "of its host"
		if s.Host != "" {
			t = byHost[shortHost(s.Host)]
		} else {
			t, of = byDir[path.Dir(s.Path)], "in its folder"
		}
		if t == nil || t.by == 0 || t.mixed {
			continue
		}
		c.Error += t.err
		c.Why = joinWhy(c.Why, fmt.Sprintf("moved by %s with the traces %s", millis(time.Duration(t.by)), of))
		if c.How != timeline.Unplaced {
			c.How = timeline.Matched
		}
		p.move(src, t.by)
	}
}

// shortHost is a host's name without its domain; an address stays whole.
func shortHost(h string) string {
	h = strings.ToLower(h)
	if _, err := netip.ParseAddr(h); err == nil {
		return h
	}
	h, _, _ = strings.Cut(h, ".")
	return h
}
