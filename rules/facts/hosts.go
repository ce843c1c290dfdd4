package facts

import (
	"gpureport/ingest/timeline"
)

// soleHost is the name of the host where readings of a host are there and nobody says whose.
const soleHost = "host"

// hostPart tells whether a track holds readings of a host or a part of it that is no GPU.
func hostPart(k timeline.TrackKind) bool {
	switch k {
	case timeline.TrackHostReadings, timeline.TrackCPU, timeline.TrackDisk, timeline.TrackNIC, timeline.TrackProcess:
		return true
	}
	return false
}

// sourceHosts gives the names that sources with readings of hosts state, in order of the sources, and whether one states none.
func sourceHosts(tl *timeline.Timeline) (names []string, unnamed bool) {
	has := make([]bool, len(tl.Sources))
	for i := range tl.Tracks {
		if t := &tl.Tracks[i]; hostPart(t.Kind) && int(t.Source) < len(has) {
			has[t.Source] = true
		}
	}
	seen := map[string]bool{}
	for i := range tl.Sources {
		switch h := tl.Sources[i].Host; {
		case !has[i]:
		case h == "":
			unnamed = true
		case !seen[h]:
			seen[h] = true
			names = append(names, h)
		}
	}
	return names, unnamed
}

// onHost tells whether what a source holds is of host sub: it says so, or it names none and there is only this host.
func (p *Pass) onHost(sub int, src timeline.SourceID) bool {
	h := p.Base.Sources[src].Host
	return h != "" && h == p.Facts.Subjects[sub].ID || h == "" && len(p.Facts.Of(Host)) == 1
}
