package timeline

// AttrZone is how far a host's wall clock is east of UTC, in seconds, as a file states it.
const AttrZone = "tz_offset_s"
