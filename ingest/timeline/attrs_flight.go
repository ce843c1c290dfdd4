package timeline

// What a flight recorder holds of a process's collectives, one attribute a group or an operation, parts between blanks, the name last.
const (
	AttrFlightGroup   = "collectives_last"    // last completed, started and enqueued number, name of the group: "41 42 42 default_pg"; -1 not told
	AttrFlightPending = "collectives_pending" // number, state, name of the operation, name of the group: "42 started nccl:all_reduce default_pg"
)
