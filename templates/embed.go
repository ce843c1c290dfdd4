// Package templates embeds the page: its template, style and script, the font, and the chart library. Everything goes into the one file of
// a report; nothing is loaded from a network. Licences of what others made are in NOTICE.
package templates

import "embed"

// Pages holds the page template and one template a block kind.
//
//go:embed page.html.tmpl blocks.html.tmpl
var Pages embed.FS

// Style is the page's style sheet without its colours, which render/html writes from the palette.
//
//go:embed style.css
var Style string

// App is the page's one script.
//
//go:embed app.js
var App string

// ECharts is the tree-shaken chart library; vendor/build.sh makes it.
//
//go:embed vendor/echarts.min.js
var ECharts string

// Font is the latin subset of the variable font Inter, weights 100 to 900.
//
//go:embed vendor/inter-latin.woff2
var Font []byte
