package timeline

import (
	"time"

	"gpureport/ingest/unit"
)

// The metrics that only a recording of our own gives.
var (
	SMBusyFine      = Metric{"sm_busy_fine_frac", unit.Frac, WindowBefore, time.Second / 6} // SMBusy from the driver's ring buffer, several a second
	ThrottleThermal = Metric{"throttle_thermal_s", unit.Second, RunningTotal, 0}            // where the driver does not tell software from hardware
	ThrottleBoard   = Metric{"throttle_board_s", unit.Second, RunningTotal, 0}
	ThrottleLowUse  = Metric{"throttle_low_use_s", unit.Second, RunningTotal, 0}
	ThrottleReliab  = Metric{"throttle_reliability_s", unit.Second, RunningTotal, 0}
	IntegerActive   = Metric{"integer_active_frac", unit.Frac, WindowBefore, time.Second}
	PCIeErrors      = Metric{"pcie_errors_count", unit.Count, RunningTotal, 0} // uncorrectable ones: fatal and not
	PCIeCorrected   = Metric{"pcie_corrected_count", unit.Count, RunningTotal, 0}

	CPUClock     = Metric{"cpu_clock_hz", unit.Hertz, Instant, 0}     // mean of all CPUs
	CPUClockMin  = Metric{"cpu_clock_min_hz", unit.Hertz, Instant, 0} // of the slowest
	Interrupts   = Metric{"interrupts_hz", unit.Hertz, WindowBefore, time.Second}
	PSIIOFull    = Metric{"psi_io_full_frac", unit.Frac, WindowBefore, time.Second} // all tasks waited for a disk
	PSIMemFull   = Metric{"psi_mem_full_frac", unit.Frac, WindowBefore, time.Second}
	MemDirty     = Metric{"mem_dirty_bytes", unit.Byte, Instant, 0} // not yet written to disk
	MemWriteback = Metric{"mem_writeback_bytes", unit.Byte, Instant, 0}
	SwapUsed     = Metric{"swap_used_bytes", unit.Byte, Instant, 0}
	MajorFaults  = Metric{"major_faults_hz", unit.Hertz, WindowBefore, time.Second} // page faults that waited for a disk
	NUMAMisses   = Metric{"numa_misses_hz", unit.Hertz, WindowBefore, time.Second}  // pages that were not to be had on the wanted node
	TCPRetrans   = Metric{"tcp_retransmits_hz", unit.Hertz, WindowBefore, time.Second}
	NUMAFree     = Metric{"numa_free_bytes", unit.Byte, Instant, 0} // of one node: a track of its own, "node0"
	CgroupMem    = Metric{"cgroup_mem_bytes", unit.Byte, Instant, 0}
	CgroupMemMax = Metric{"cgroup_mem_max_bytes", unit.Byte, Instant, 0}

	NetRetries    = Metric{"net_retries_count", unit.Count, RunningTotal, 0}    // RDMA: packets out of order, time-outs, receiver not ready
	NetCongestion = Metric{"net_congestion_count", unit.Count, RunningTotal, 0} // RDMA: packets with a congestion mark, and notifications sent or handled
)
