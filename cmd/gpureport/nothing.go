package main

import (
	"fmt"
	"slices"

	"gpureport/ingest"
	"gpureport/ingest/formats"
	"gpureport/ingest/timeline"
)

// whyNothing says why none of the inputs could be used: their formats are not read, or they are and each failed.
func whyNothing(base *timeline.Timeline) string {
	failed := 0
	for i := range base.Sources {
		name := base.Sources[i].Format
		if slices.ContainsFunc(formats.List, func(f ingest.Format) bool { return f.Name == name && f.Convert == "" }) {
			failed++
		}
	}
	switch {
	case failed == 0:
		return "none of the inputs is in a format that is read"
	case failed == len(base.Sources):
		return "the inputs are in formats that are read, but nothing in them could be"
	}
	are, them := "are", "them"
	if failed == 1 {
		are, them = "is", "it"
	}
	return fmt.Sprintf("of %d inputs %d %s in a format that is read, but nothing in %s could be", len(base.Sources), failed, are, them)
}
