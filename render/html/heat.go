package html

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"gpureport/render"
)

// heatData is a heat map as paths: one a class and row, so that 64 ranks by 240 steps need no script and some hundred kilobytes at most.
type heatData struct {
	Rows  []heatRow
	Ticks []heatTick
	Marks []heatMark
	Fine  bool // cells too narrow for gaps between them
}

type heatRow struct {
	render.HeatRow
	Paths []heatPath
	Hole  bool // some cell is not known
}

type heatPath struct {
	Level int
	D     string
}

type heatTick struct {
	Left template.CSS
	Text string
	End  bool // it stands left of its column
}

type heatMark struct {
	render.Mark
	Style, Word template.CSS
	End         bool
}

func heatView(h render.HeatMap) *heatData {
	v := &heatData{Fine: h.Columns > 160}
	n := max(h.Columns, 1)
	left := func(at int) template.CSS {
		return template.CSS("left:" + strconv.FormatFloat(100*float64(at)/float64(n), 'f', 3, 64) + "%")
	}
	for _, r := range h.Rows {
		row := heatRow{HeatRow: r}
		var paths [6]strings.Builder
		for k := 0; k < len(r.Levels); {
			lev, run := r.Levels[k], 1
			if lev < 0 || lev > 5 {
				row.Hole = row.Hole || lev == -1
				k++
				continue
			}
			for v.Fine && k+run < len(r.Levels) && r.Levels[k+run] == lev {
				run++
			}
			fmt.Fprintf(&paths[lev], "M%d 0h%dv1h-%dz", k, run, run)
			k += run
		}
		for lev := range paths {
			if paths[lev].Len() > 0 {
				row.Paths = append(row.Paths, heatPath{lev, paths[lev].String()})
			}
		}
		row.Levels = nil
		v.Rows = append(v.Rows, row)
	}
	for _, t := range h.Ticks {
		v.Ticks = append(v.Ticks, heatTick{left(t.At), t.Text, false})
	}
	for i, m := range h.Marks {
		css := string(left(m.Column)) + fmt.Sprintf(";width:%.3f%%;top:%.3f%%;height:%.3f%%", 100/float64(n), 100*float64(m.Row)/float64(max(len(h.Rows), 1)), 100*float64(m.Rows)/float64(max(len(h.Rows), 1)))
		end := 2*m.Column > n
		word := left(m.Column)
		if end {
			word = template.CSS(fmt.Sprintf("right:%.3f%%", 100-100*float64(m.Column+1)/float64(n)))
		}
		v.Marks = append(v.Marks, heatMark{m, template.CSS(css), word + template.CSS(fmt.Sprintf(";top:%dpx", 4+18*i)), end})
	}
	return v
}

// dotLines is the path of the expected speeds in a square of 100; a lone one is a dash.
func dotLines(lines [][]render.Dot) string {
	var b strings.Builder
	for _, line := range lines {
		if len(line) == 1 {
			fmt.Fprintf(&b, "M%.2f %.2fh5", 100*clamp(line[0].At)-2.5, 100-100*clamp(line[0].Value))
			continue
		}
		op := "M"
		for _, p := range line {
			fmt.Fprintf(&b, "%s%.2f %.2f", op, 100*clamp(p.At), 100-100*clamp(p.Value))
			op = "L"
		}
	}
	return b.String()
}
