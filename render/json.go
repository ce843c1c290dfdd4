package render

import (
	"bytes"
	"encoding/json"
	"io"
)

// WriteJSON writes report.json: one list item a line would be long to read for steps, so lists of plain rows stay compact.
func WriteJSON(w io.Writer, r *Report) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	_, err := w.Write(buf.Bytes())
	return err
}
