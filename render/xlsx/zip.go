package xlsx

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"

	"github.com/xuri/excelize/v2"
)

// writeSorted writes the workbook's parts in a fixed order without times, so that the same report gives the same bytes. Charts and sheets
// get what the library cannot write.
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
		switch {
		case strings.HasPrefix(p.Name, "xl/charts/chart"):
			err = mended(out, p, func(dst io.Writer, src io.Reader) error {
				b, err := io.ReadAll(src)
				if err == nil {
					_, err = io.WriteString(dst, chart(string(b)))
				}
				return err
			})
		case p.Name == contentTypes:
			err = mended(out, p, inOrder)
		case strings.HasPrefix(p.Name, "xl/worksheets/sheet"):
			err = mended(out, p, solidBars)
		default:
			err = copied(out, p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return out.Close()
}

const contentTypes = "[Content_Types].xml"

var entry = regexp.MustCompile(`<(?:Default|Override) [^>]*(?:/>|></(?:Default|Override)>)`)

// inOrder sorts the entries of the list of content types: the library gathers them from a map.
func inOrder(dst io.Writer, src io.Reader) error {
	b, err := io.ReadAll(src)
	if err != nil {
		return err
	}
	var list []string
	for _, x := range entry.FindAll(b, -1) {
		list = append(list, string(x))
	}
	sort.Strings(list)
	i := -1
	_, err = dst.Write(entry.ReplaceAllFunc(b, func([]byte) []byte { i++; return []byte(list[i]) }))
	return err
}

// rank puts the content types first, as readers expect.
func rank(name string) string {
	if name == contentTypes {
		return "\x00"
	}
	return name
}

func copied(out *zip.Writer, p *zip.File) error {
	h := &zip.FileHeader{Name: p.Name, Method: p.Method, CRC32: p.CRC32, CompressedSize64: p.CompressedSize64, UncompressedSize64: p.UncompressedSize64}
	dst, err := out.CreateRaw(h)
	if err != nil {
		return err
	}
	src, err := p.OpenRaw()
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return err
}

func mended(out *zip.Writer, p *zip.File, mend func(io.Writer, io.Reader) error) error {
	src, err := p.Open()
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := out.CreateHeader(&zip.FileHeader{Name: p.Name, Method: zip.Deflate})
	if err != nil {
		return err
	}
	return mend(dst, src)
}

// patterns of the textured families: preset, foreground, background. White stands for the paper.
var patterns = map[string][3]string{
	"gap": {"narVert", "FFFFFF", "77889B"}, "sync": {"ltVert", "FFFFFF", "6C0220"}, "python": {"pct10", "FFFFFF", "724719"}, "alloc": {"ltDnDiag", "FFFFFF", "E561C7"},
	"d2h": {"narHorz", "FFFFFF", "077A6E"}, "undivided": {"openDmnd", "5F2D9B", "FFFFFF"}, "unknown": {"dashDnDiag", "626B78", "FFFFFF"}, "peer": {"wdUpDiag", "5F2D9B", "FFFFFF"},
	"pause": {"smGrid", "FFFFFF", "394758"},
}

// onPaperHue outlines what is mostly paper.
var onPaperHue = map[string]string{"undivided": "5F2D9B", "unknown": "626B78", "peer": "5F2D9B"}

// chart gives the owners of a chart their textures, parts every bar of the ledger by an edge, and makes numbers of the x of a scatter.
func chart(xml string) string {
	flat := strings.Contains(xml, `<barDir val="bar">`) && strings.Contains(xml, `<grouping val="stacked">`)
	fill := func(hue string) string {
		return `<a:solidFill><a:srgbClr val="` + hue + `"></a:srgbClr></a:solidFill>`
	}
	edge := func(hue string) string { return `<a:ln w="6350">` + fill(hue) + `</a:ln>` }
	var pairs []string
	for _, key := range sortedKeys(colors) {
		from, to := fill(colors[key]), fill(colors[key])
		if p, ok := patterns[key]; ok {
			to = `<a:pattFill prst="` + p[0] + `"><a:fgClr><a:srgbClr val="` + p[1] + `"></a:srgbClr></a:fgClr><a:bgClr><a:srgbClr val="` + p[2] + `"></a:srgbClr></a:bgClr></a:pattFill>`
		}
		switch {
		case onPaperHue[key] != "":
			to += edge(onPaperHue[key])
		case flat:
			to += edge("FFFFFF")
		}
		pairs = append(pairs, "<spPr>"+from+"</spPr>", "<spPr>"+to+"</spPr>")
	}
	xml = strings.NewReplacer(pairs...).Replace(xml)
	return xOfScatter.ReplaceAllString(xml, `<xVal><numRef>$1</numRef></xVal>`)
}

var xOfScatter = regexp.MustCompile(`<xVal><strRef>(<f>[^<]*</f>)</strRef></xVal>`)

var dataBar = regexp.MustCompile(`<conditionalFormatting sqref="([A-Z0-9:]+)"><cfRule type="dataBar".*?<cfvo type="(num" val="1|max)"></cfvo><color.*?<x14:id>(\{[-0-9A-F]+\})</x14:id>`)

// solidBars ends a streamed sheet with the second half of its data bars, which the library's streams leave out: without it a bar fades
// and a zero has one.
func solidBars(dst io.Writer, src io.Reader) error {
	const keep = 1 << 16 // conditional formats stand well within the end of a sheet
	var tail []byte
	chunk := make([]byte, 1<<18)
	for {
		n, err := src.Read(chunk)
		tail = append(tail, chunk[:n]...)
		if cut := len(tail) - keep; cut > keep || err == io.EOF && cut > 0 {
			if _, err := dst.Write(tail[:cut]); err != nil {
				return err
			}
			tail = append(tail[:0], tail[cut:]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	end := string(tail)
	rules := dataBar.FindAllStringSubmatch(end, -1)
	if body, ok := strings.CutSuffix(end, "</worksheet>"); ok && len(rules) > 0 && !strings.Contains(end, "<x14:conditionalFormattings") {
		var b strings.Builder
		b.WriteString(body + `<extLst><ext uri="{78C0D931-6437-407d-A8EE-F0AAD7539E65}" xmlns:x14="http://schemas.microsoft.com/office/spreadsheetml/2009/9/main"><x14:conditionalFormattings>`)
		for _, r := range rules {
			most := `<x14:cfvo type="max"></x14:cfvo>`
			if r[2] != "max" {
				most = `<x14:cfvo type="num"><xm:f>1</xm:f></x14:cfvo>`
			}
			b.WriteString(`<x14:conditionalFormatting xmlns:xm="http://schemas.microsoft.com/office/excel/2006/main"><x14:cfRule type="dataBar" id="` + r[3] +
				`"><x14:dataBar minLength="0" maxLength="100" gradient="0"><x14:cfvo type="num"><xm:f>0</xm:f></x14:cfvo>` + most + `</x14:dataBar></x14:cfRule><xm:sqref>` +
				r[1] + `</xm:sqref></x14:conditionalFormatting>`)
		}
		b.WriteString(`</x14:conditionalFormattings></ext></extLst></worksheet>`)
		end = b.String()
	}
	_, err := io.WriteString(dst, end)
	return err
}
