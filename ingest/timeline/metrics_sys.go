package timeline

import (
	"time"

	"gpureport/ingest/unit"
)

// DiskAwait is how long requests took, reads and writes together, where a tool does not part them.
var DiskAwait = Metric{"disk_await_s", unit.Second, WindowBefore, time.Second}
