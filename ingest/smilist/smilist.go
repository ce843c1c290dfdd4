// Package smilist reads the list of `nvidia-smi -L`: index, name and UUID of each GPU, with its MIG instances. It joins the sources that
// know a GPU by its index with those that know it by its UUID.
//
// Versions seen: R450 to R595. It is recognised by its first line GPU n: NAME (UUID: ...), followed by another GPU, an instance or nothing.
// There is no time in it.
package smilist

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

// Format reads nvidia-smi -L.
var Format = ingest.Format{
	Name:      "smi-list",
	Doc:       "nvidia-smi -L: index, name and UUID of each GPU, MIG instances",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"hw"},
}

var (
	gpuForm = regexp.MustCompile(`^GPU (\d{1,4}): (.*) \(UUID: ((?:GPU|MIG)-[^)]*)\)$`)
	migForm = regexp.MustCompile(`^MIG (\S+) +Device +(\d{1,3}): +\(UUID: (MIG-[^)]*)\)$`)
)

func recognise(h ingest.Head) bool {
	n := 0
	for line := range bytes.Lines(h.Text) {
		s := string(bytes.TrimSpace(line))
		if s == "" {
			continue
		}
		if n == 1 {
			return gpuForm.MatchString(s) || strings.HasPrefix(s, "MIG ")
		}
		if !gpuForm.MatchString(s) {
			return false
		}
		n++
	}
	return n == 1
}

type gpu struct {
	track    timeline.TrackID
	row      uint64
	profiles []string
	uuids    []string
}

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	var gpus []*gpu
	known := map[string]*gpu{}
	var cur *gpu
	l := ingest.NewLines(f)
	for l.Next() {
		if l.Row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		text := strings.TrimSpace(string(l.Text))
		if m := gpuForm.FindStringSubmatch(text); m != nil {
			key := l.Label + "\x00" + m[1] + "\x00" + m[3]
			if cur = known[key]; cur != nil {
				cur.profiles, cur.uuids = nil, nil // the list again
				continue
			}
			if len(gpus) >= ingest.MaxGPUs {
				in.Report("smi-list/many-gpus", timeline.DataLoss, l.Row, "GPU %s is one more than the %d that one file may have: left out", m[1], ingest.MaxGPUs)
				continue
			}
			name := "GPU " + m[1]
			if l.Label != "" {
				name = l.Label + ": " + name
			}
			d := timeline.Device{Ordinal: -1, Source: in.Source, Proc: -1, Vendor: "nvidia", Name: m[2], UUID: ingest.KnownUUID(m[3])}
			d.Index, _ = strconv.Atoi(m[1])
			cur = &gpu{track: b.GPUTrack(d, name), row: l.Row}
			known[key] = cur
			gpus = append(gpus, cur)
			continue
		}
		if m := migForm.FindStringSubmatch(text); m != nil {
			if cur != nil && len(cur.uuids) < 64 {
				cur.profiles, cur.uuids = append(cur.profiles, m[1]), append(cur.uuids, m[3])
			}
			continue
		}
		if text != "" {
			in.Report("smi-list/stray-line", timeline.Info, l.Row, "neither a GPU nor an instance: %q", text[:min(len(text), 120)])
		}
	}
	if err := l.Err(); err != nil {
		in.Report("smi-list/damaged-file", timeline.DataLoss, l.Row, "%v after line %d: what lies before it is read", err, l.Row)
	}
	if len(gpus) == 0 {
		return fmt.Errorf("no whole line of a GPU: run nvidia-smi -L again")
	}
	for _, g := range gpus {
		b.AddNumber(g.track, timeline.AttrMIGDevices, float64(len(g.uuids)), unit.Count, 0, uint32(g.row))
		if len(g.uuids) > 0 {
			b.AddAttr(g.track, timeline.AttrMIGProfiles, strings.Join(g.profiles, " "), 0, uint32(g.row))
			b.AddAttr(g.track, timeline.AttrMIGUUIDs, strings.Join(g.uuids, " "), 0, uint32(g.row))
		}
	}
	src := &b.TL.Sources[in.Source]
	src.Rows = int64(len(gpus))
	b.AddClock(in.Source, timeline.Clock{Name: src.Path, Why: "a list of GPUs has no time: it holds for the whole run"})
	return nil
}
