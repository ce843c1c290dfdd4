package timeline

import "gpureport/ingest/unit"

// MemAllocated is the device memory that one process holds by the allocations and releases a trace shows, from the first event on; what
// it held before shows when it is released. Its track is a GPU track with a process.
var MemAllocated = Metric{"mem_allocated_bytes", unit.Byte, Instant, 0}
