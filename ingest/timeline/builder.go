package timeline

// Builder collects what one source gives and turns it into a Timeline. Not safe for concurrent use.
type Builder struct {
	TL Timeline
}
