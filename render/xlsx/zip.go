package xlsx

import (
	"archive/zip"
	"bytes"
	"io"
	"sort"

	"github.com/xuri/excelize/v2"
)

// writeSorted writes the workbook's parts in a fixed order without times, so that the same report gives the same bytes.
func writeSorted(w io.Writer, f *excelize.File) error {
	var buf bytes.Buffer
	if err := f.Write(&buf); err != nil {
		return err
	}
	in, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		return err
	}
	files := append([]*zip.File{}, in.File...)
	sort.SliceStable(files, func(i, j int) bool { return rank(files[i].Name) < rank(files[j].Name) })
	out := zip.NewWriter(w)
	for _, p := range files {
		h := &zip.FileHeader{Name: p.Name, Method: p.Method, CRC32: p.CRC32, CompressedSize64: p.CompressedSize64, UncompressedSize64: p.UncompressedSize64}
		dst, err := out.CreateRaw(h)
		if err != nil {
			return err
		}
		src, err := p.OpenRaw()
		if err != nil {
			return err
		}
		if _, err := io.Copy(dst, src); err != nil {
			return err
		}
	}
	return out.Close()
}

// rank puts the content types first, as readers expect.
func rank(name string) string {
	if name == "[Content_Types].xml" {
		return "\x00"
	}
	return name
}
