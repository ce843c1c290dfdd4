package smiq

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

func recogniseXML(h ingest.Head) bool {
	t := bytes.TrimLeft(h.Text, " \t\r\n")
	return bytes.HasPrefix(t, []byte("<")) && bytes.Contains(t[:min(len(t), 1024)], []byte("nvidia_smi_log"))
}

// documents gives the file as one XML document after another: it ends before each line that begins a new one.
type documents struct {
	ctx   context.Context
	l     *ingest.Lines
	in    *ingest.Input
	line  []byte // what is left of the current line
	held  bool   // the current line begins the next document
	first uint64 // row of the document's first line
	begun bool
	over  bool
}

func prolog(line []byte) bool {
	t := bytes.TrimLeft(line, " \t")
	return bytes.HasPrefix(t, []byte("<?xml"))
}

// next moves to the next document; false at the end of the file.
func (d *documents) next() bool {
	for !d.held && !d.over { // the rest of a damaged document
		d.advance()
	}
	d.begun = false
	return d.held
}

func (d *documents) advance() {
	if d.ctx.Err() != nil || !d.l.Next() {
		d.over = true
		d.line, d.held = nil, false
		return
	}
	if d.l.Long {
		d.in.Report("smiq/long-line", timeline.DataLoss, d.l.Row, "a line of more than 1 MiB: skipped")
		d.line = append(d.line[:0], '\n')
		return
	}
	d.line = append(d.line[:0], d.l.Text...)
	for i, c := range d.line { // the decoder refuses control characters
		if c < ' ' && c != '\t' {
			d.line[i] = ' '
		}
	}
	d.line = bytes.ToValidUTF8(d.line, []byte("?"))
	if d.l.Ended {
		d.line = append(d.line, '\n')
	}
	d.held = prolog(d.line)
}

func (d *documents) Read(p []byte) (int, error) {
	if !d.begun {
		d.begun, d.held, d.first = true, false, d.l.Row
	}
	for len(d.line) == 0 {
		if d.advance(); d.over || d.held {
			return 0, io.EOF
		}
	}
	if d.held {
		return 0, io.EOF
	}
	n := copy(p, d.line)
	d.line = d.line[n:]
	return n, nil
}

func readXML(ctx context.Context, r *reader, l *ingest.Lines) error {
	d := &documents{ctx: ctx, l: l, in: r.in}
	h := r.host("")
	d.advance()
	d.held = !d.over // whatever it begins with
	for d.next() {
		if err := r.document(h, d); err != nil {
			row := l.Row
			if d.over {
				r.in.Report("smiq/cut-document", timeline.DataLoss, row, "the document ends before its end: what lies before it is read")
			} else {
				r.in.Report("smiq/damaged-document", timeline.DataLoss, row, "%v: the rest of this document is left out", err)
			}
		}
	}
	return ctx.Err()
}

// document reads one document. The values of an element count when it is closed.
func (r *reader) document(h *host, d *documents) error {
	x := xml.NewDecoder(d)
	x.Strict = false
	x.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8 by now
	var path []string
	var text []byte
	in := -1 // depth of the current gpu
	begun := false
	defer func() {
		if h.r != nil {
			r.endGPU(h, false)
			r.end(h)
		}
	}()
	for {
		tok, err := x.RawToken()
		if err != nil {
			if errors.Is(err, io.EOF) && (len(path) == 0 && begun) {
				return nil
			}
			return err
		}
		line, _ := x.InputPos()
		row := d.first + uint64(line) - 1
		switch t := tok.(type) {
		case xml.StartElement:
			text = text[:0]
			name := strings.ToLower(t.Name.Local)
			if len(path) >= maxDepth {
				return errors.New("elements nest deeper than in any report")
			}
			path = append(path, name)
			switch {
			case len(path) == 1:
				if name != "nvidia_smi_log" {
					return errors.New("the root is not nvidia_smi_log")
				}
				begun = true
				r.begin(h)
			case len(path) == 2 && name == "gpu":
				in = len(path)
				for _, a := range t.Attr {
					if a.Name.Local == "id" {
						r.gpu(h, a.Value, row)
					}
				}
			case in > 0 && h.b != nil:
				switch strings.Join(path[in:], "/") {
				case "mig_devices/mig_device":
					if h.b.migDevices++; h.b.migDevices == 1 {
						h.b.migRow = row
					}
				case "processes":
					r.beginProcesses(h, row)
				case "processes/process_info":
					r.beginProcess(h, row)
				}
			}
		case xml.CharData:
			text = append(text, t...)
		case xml.EndElement:
			if len(path) == 0 || path[len(path)-1] != strings.ToLower(t.Name.Local) {
				return errors.New("an element ends that did not begin")
			}
			value := string(bytes.TrimSpace(text))
			text = text[:0]
			if in > 0 && len(path) > in && h.b != nil {
				r.element(h, strings.Join(path[in:], "/"), value, row)
			} else if in < 0 && len(path) == 2 && value != "" {
				r.top(h, path[1], value, row)
			}
			path = path[:len(path)-1]
			switch {
			case in > 0 && len(path) < in:
				in = -1
				if h.b != nil {
					r.endGPU(h, true)
				}
			case len(path) == 0:
				r.end(h)
			}
		}
	}
}

// element takes an element of a GPU that has ended.
func (r *reader) element(h *host, path, value string, row uint64) {
	switch {
	case path == "clocks_event_reasons" || path == "clocks_throttle_reasons":
		r.endReasons(h)
	case path == "processes":
		r.endProcesses(h)
	case path == "processes/process_info":
		r.endProcess(h)
	case strings.HasPrefix(path, "processes/process_info/"):
		r.processValue(h, path[len("processes/process_info/"):], value, row)
	case value != "":
		if f := fieldOf(byXML, path); f != nil {
			r.value(h, f, value, row)
		}
	}
}
