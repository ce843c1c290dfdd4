package timeline

// Held is what the main thread did inside spans of one sort in the analysed window; of nested ones the outermost counts.
type Held struct {
	Name  string // of the ones that took longest together; "" there is none
	Calls int64
	NS    int64    // inside
	MaxNS int64    // the longest
	GapNS []int64  // of each GPU (same index as GPUs) ns idle meanwhile, held by the host or by nobody known
	Rows  []uint32 // the longest few
}
