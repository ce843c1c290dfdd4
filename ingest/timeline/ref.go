package timeline

import "strconv"

// String prints the ref the way every error and page does.
func (r Ref) String() string {
	row := strconv.FormatUint(r.Row, 10)
	if r.Table == "" {
		return r.Path + ":" + row
	}
	return r.Path + ": " + r.Table + "[" + row + "]"
}

// SpanRef gives the row a span came from.
func (tl *Timeline) SpanRef(i int) Ref {
	tr := &tl.Tracks[tl.Spans.Track[i]]
	return Ref{Path: tl.Sources[tr.Source].Path, Table: tl.Names.Get(tr.Table), Row: uint64(tl.Spans.Row[i])}
}

// SeriesRef gives the row of reading i of s.
func (tl *Timeline) SeriesRef(s *Series, i int) Ref {
	tr := &tl.Tracks[s.Track]
	return Ref{Path: tl.Sources[tr.Source].Path, Table: tl.Names.Get(tr.Table), Row: uint64(s.Row[i])}
}
