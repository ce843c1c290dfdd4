package html

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"gpureport/ingest/timeline"
	"gpureport/render"
	"gpureport/templates"
)

// fill is the look of a family of owners; the members are told apart by words.
type fill struct {
	key         string // of render.Families; CSS class and variable
	light, dark string // hue
	tile        string // strokes of the 8 px tile, {h} hue and {p} page; "" solid
	paper       bool   // the hue is drawn on the page with a 1 px outline; otherwise the page is cut out of the hue
	ink         bool   // dark letters in the light theme
}

// fills in palette order.
var fills = []fill{
	{key: "compute", light: "#77889B", dark: "#7189B3", ink: true},
	{key: "gap", light: "#77889B", dark: "#7189B3", tile: uprights},
	{key: "launch", light: "#BA8B00", dark: "#EFD775", ink: true},
	{key: "sync", light: "#6C0220", dark: "#DB216F", tile: uprights},
	{key: "python", light: "#724719", dark: "#A87B3A",
		tile: `<g fill='{p}'><circle cx='2' cy='2' r='1.15'/><circle cx='6' cy='6' r='1.15'/></g>`},
	{key: "alloc", light: "#E561C7", dark: "#F69EE3",
		tile: `<path d='M-2 -2L10 10M-2 2L6 10M2 -2L10 6' stroke='{p}' stroke-width='1.2'/>`},
	{key: "h2d", light: "#077A6E", dark: "#36BA9E"},
	{key: "d2h", light: "#077A6E", dark: "#36BA9E",
		tile: `<path d='M0 2H8M0 6H8' stroke='{p}' stroke-width='1.3'/>`},
	{key: "transfer", light: "#5F2D9B", dark: "#A979E7"},
	{key: "undivided", light: "#5F2D9B", dark: "#A979E7", paper: true,
		tile: `<path d='M-1 -1L9 9M-1 9L9 -1M-1 7L1 9M7 -1L9 1M-1 1L1 -1M7 9L9 7' stroke='{h}' stroke-width='1.5'/>`},
	{key: "unknown", light: "#626B78", dark: "#929BA8", paper: true,
		tile: `<path d='M0 0L8 8M4 -4L12 4M-4 4L4 12' stroke='{h}' stroke-width='1.1' stroke-dasharray='2 1.771' stroke-dashoffset='-0.9'/>`},
	{key: "peer", light: "#5F2D9B", dark: "#A979E7", paper: true,
		tile: `<path d='M-2 10L10 -2M-2 2L2 -2M6 10L10 6' stroke='{h}' stroke-width='3.1'/>`},
	{key: "loader", light: "#C94C0D", dark: "#F47747"},
	{key: "pause", light: "#394758", dark: "#C9D2E0",
		tile: `<path d='M0 4H8M4 0V8' stroke='{p}' stroke-width='1.3'/>`},
}

const uprights = `<path d='M2 0V8M6 0V8' stroke='{p}' stroke-width='1.3'/>`

// familyOf gives the index in render.Families of each owner.
var familyOf = func() (f [timeline.NOwners]int) {
	for i, fam := range render.Families {
		for _, o := range fam.Owners {
			f[o] = i
		}
	}
	return f
}()

// familyByOwner finds an owner's family by the owner's name; what is no owner is unknown.
func familyByOwner(name string) int {
	o, ok := timeline.ParseOwner(name)
	if !ok {
		o = timeline.UnknownOwner
	}
	return familyOf[o]
}

// tokens of the page, light and dark.
var tokens = []struct{ name, light, dark string }{
	{"page", "#FFFFFF", "#14171C"}, {"panel", "#F6F7F9", "#1B1F26"}, {"rule", "#E1E5EA", "#2B313A"}, {"rule2", "#C3CAD3", "#464E5A"},
	{"ink", "#14171C", "#E9EDF3"}, {"ink2", "#454D59", "#B6BECA"}, {"ink3", "#626B78", "#929BA8"}, {"link", "#1D5BB8", "#82B4FF"},
	{"critical", "#B3001B", "#FF6B78"}, {"on-critical", "#FFFFFF", "#14171C"},
}

// tileURI is the 8 px tile as a data URI. The canvas reads the same one from the style sheet, so print, table and chart cannot differ.
func tileURI(f fill, hue, page string) string {
	ground := hue
	if f.paper {
		ground = page
	}
	svg := `<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'><rect width='8' height='8' fill='` + ground + `'/>` +
		strings.NewReplacer("{h}", hue, "{p}", page).Replace(f.tile) + `</svg>`
	return `url("data:image/svg+xml,` + url.PathEscape(svg) + `")`
}

func themeVars(dark bool) string {
	pick := func(light, darkValue string) string {
		if dark {
			return darkValue
		}
		return light
	}
	var b strings.Builder
	scheme := pick("light", "dark")
	fmt.Fprintf(&b, "color-scheme:%s;", scheme)
	for _, t := range tokens {
		fmt.Fprintf(&b, "--%s:%s;", t.name, pick(t.light, t.dark))
	}
	page := pick(tokens[0].light, tokens[0].dark)
	for _, f := range fills {
		hue := pick(f.light, f.dark)
		fmt.Fprintf(&b, "--h-%s:%s;", f.key, hue)
		if f.tile != "" {
			fmt.Fprintf(&b, "--t-%s:%s;", f.key, tileURI(f, hue, page))
		}
		on := "#FFFFFF"
		if dark || f.ink {
			on = "#14171C"
		}
		fmt.Fprintf(&b, "--on-%s:%s;", f.key, on)
	}
	fmt.Fprintf(&b, "--hatch:%s;", tileURI(fills[familyOf[timeline.UnknownOwner]], pick("#626B78", "#929BA8"), page))
	return b.String()
}

// styleSheet is the whole style of the page: font, colours of both themes, fills, rules.
func styleSheet() string {
	var b strings.Builder
	b.WriteString(`@font-face{font-family:Inter;font-style:normal;font-weight:100 900;font-display:block;src:url(data:font/woff2;base64,`)
	b.WriteString(base64.StdEncoding.EncodeToString(templates.Font))
	b.WriteString(`) format("woff2")}` + "\n")
	light, dark := themeVars(false), themeVars(true)
	fmt.Fprintf(&b, ":root{%s}\n", light)
	fmt.Fprintf(&b, "@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){%s}}\n", dark)
	fmt.Fprintf(&b, "@media screen{:root[data-theme=dark]{%s}}\n", dark)
	for _, f := range fills {
		if f.tile == "" {
			fmt.Fprintf(&b, ".f-%s{background:var(--h-%s);color:var(--on-%s)}\n", f.key, f.key, f.key)
			continue
		}
		fmt.Fprintf(&b, ".f-%s{background:var(--t-%s) 0 0/8px 8px}\n", f.key, f.key)
		if f.paper {
			fmt.Fprintf(&b, ".f-%s{box-shadow:inset 0 0 0 1px var(--h-%s)}\n", f.key, f.key)
		}
	}
	b.WriteString(templates.Style)
	return b.String()
}
