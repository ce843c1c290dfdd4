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
	return tl.Sources[tr.Source].Ref(tl.Names.Get(tr.Table), tl.Spans.Row[i])
}

// Ref is row number row of the source; table is its table where the source has no list of them.
func (s *Source) Ref(table string, row uint32) Ref {
	for i := len(s.Tables) - 1; i >= 0; i-- {
		if t := &s.Tables[i]; t.First <= row {
			return Ref{Path: s.Path, Table: t.Name, Row: uint64(row - t.First)}
		}
	}
	return Ref{Path: s.Path, Table: table, Row: uint64(row)}
}

// SeriesRef gives the row of reading i of s.
func (tl *Timeline) SeriesRef(s *Series, i int) Ref {
	tr := &tl.Tracks[s.Track]
	return tl.Sources[tr.Source].Ref(tl.Names.Get(tr.Table), s.Row[i])
}
