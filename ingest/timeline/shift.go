package timeline

// Shift moves everything of a reduction by the same time, and remembers it.
func (r *Reduced) Shift(by Time) {
	if by == 0 {
		return
	}
	r.Shifted += by
	r.Recorded.shift(by)
	r.Process.Recorded.shift(by)
	for i := range r.Steps.Host {
		r.Steps.Host[i].shift(by)
	}
	r.Steps.First.shift(by)
	for i := range r.Exposed {
		r.Exposed[i].shift(by)
	}
	for i := range r.Collectives {
		c := &r.Collectives[i]
		c.Start += by
		c.End += by
		if c.Split != NoConfidence {
			c.Latest += by
		}
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.Window.shift(by)
		g.Idle.shift(by)
		g.Bins.Start += by
		for k := range g.Steps {
			g.Steps[k].Start += by
		}
		g.Segments.Shift(by)
		for k := range g.Phases {
			g.Phases[k].Start += by
			g.Phases[k].End += by
		}
	}
}

// shift moves an interval; one that says nothing stays.
func (iv *Interval) shift(by Time) {
	if *iv != (Interval{}) {
		iv.Start += by
		iv.End += by
	}
}
