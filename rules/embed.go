// Package rules holds what an operator may read and change: the checklist, its order, the gates and the tables. It imports nothing
// of the program.
package rules

import "embed"

// FS is the shipped folder.
//
//go:embed *.yaml tables checklist
var FS embed.FS
