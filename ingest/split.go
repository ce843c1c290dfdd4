package ingest

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"gpureport/ingest/timeline"
)

// split lists the parts of f that are read. d is the file's text from its beginning.
func (s *Set) split(f *File, d io.Reader, as []string) {
	var unread []string
	parts := 0
	err := f.Format.Split(d, func(name string, text io.Reader) error {
		if s.walk.full || s.walk.ctx.Err() != nil {
			return io.EOF
		}
		name, ok := member(name)
		if !ok {
			return nil
		}
		parts++
		st := stored{path: f.stored.path + "!/" + name, arg: f.stored.arg, depth: f.stored.depth + 1}
		r := bufio.NewReaderSize(text, HeadSize)
		head, _ := r.Peek(HeadSize)
		h := makeHead(st.path, head)
		format, err := s.recognise(display(st.path), h, as)
		if err != nil { // a part is no reason to stop
			s.walk.problem(display(f.stored.path), "ingest/ambiguous-part", timeline.DataLoss, "%v: not read", err)
			return nil
		}
		if format == nil || format.Read == nil || format.Bulk || format.Split != nil {
			unread = append(unread, name)
			return nil
		}
		kept, err := s.walk.spool.keep(r)
		if kept.open == nil {
			return err
		}
		st.open, st.size, st.sum = kept.open, kept.size, kept.sum
		if !s.walk.count(st) {
			return io.EOF
		}
		p := &File{stored: st, whole: f, Format: format, Source: timeline.Source{Path: display(st.path), Bytes: st.size, SHA256: st.sum}}
		s.describe(p, h)
		p.in = &Input{Path: p.Source.Path, Size: st.size, Opt: &s.opt, open: p.open}
		s.Files = append(s.Files, p)
		return err
	})
	if err != nil && err != io.EOF {
		s.walk.problem(display(f.stored.path), "ingest/damaged-file", timeline.DataLoss, "%v: the parts before it are read", err)
	}
	if len(unread) > 0 {
		s.walk.problem(display(f.stored.path), "ingest/unread-parts", timeline.Info, "%d of its %d parts are of no format that is read, %s", len(unread), parts, few(unread))
	}
}

// few shows the first of many names.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}
