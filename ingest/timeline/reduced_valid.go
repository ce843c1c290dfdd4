package timeline

import "fmt"

// Validate tells the first way in which a reduction that comes from a file breaks its contract; nil if none: what indexes another list
// lies in it, lengths are not negative, and pieces follow one another.
func (r *Reduced) Validate() error {
	steps := len(r.Steps.Index)
	for _, l := range []struct {
		what string
		n    int
	}{{"host intervals", len(r.Steps.Host)}, {"host times", len(r.HostBusy)}, {"loader times", len(r.NextNS)}} {
		if l.n > 0 && l.n != steps {
			return fmt.Errorf("%d %s of %d steps", l.n, l.what, steps)
		}
	}
	for i := range r.GPUs {
		if err := r.GPUs[i].validate(steps); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		switch {
		case c.GPU < 0 || c.GPU >= len(r.GPUs):
			return fmt.Errorf("collective %d: GPU %d of %d", i, c.GPU, len(r.GPUs))
		case c.Exposed0 < 0 || c.ExposedN < 0 || int(c.Exposed0)+int(c.ExposedN) > len(r.Exposed):
			return fmt.Errorf("collective %d: pieces %d+%d of %d", i, c.Exposed0, c.ExposedN, len(r.Exposed))
		case c.Step < -1 || steps > 0 && int(c.Step) >= steps || c.End < c.Start:
			return fmt.Errorf("collective %d: step %d of %d, [%d,%d)", i, c.Step, steps, c.Start, c.End)
		}
	}
	return nil
}

func (g *GPULedger) validate(steps int) error {
	if n := len(g.Steps); n > 0 && n != steps {
		return fmt.Errorf("%d rows of %d steps", n, steps)
	}
	if len(g.Bins.Busy) > 0 && g.Bins.Bin <= 0 {
		return fmt.Errorf("bins of %d ns", g.Bins.Bin)
	}
	at := g.Window.Start
	i := 0
	for s := range g.Segments.All() {
		if s.Dur < 0 || s.Start != at {
			return fmt.Errorf("segment %d of %d ns begins at %d, not at %d", i, s.Dur, s.Start, at)
		}
		at += Time(s.Dur)
		i++
	}
	if i > 0 && at != g.Window.End {
		return fmt.Errorf("segments end at %d, the window at %d", at, g.Window.End)
	}
	return nil
}
