package recorder

// OnTick is called after each tick whose records are in the file; tests of killed recorders count by it.
func OnTick(o *Options, f func(tick int64)) { o.onTick = f }
