package timeline

import (
	"time"

	"gpureport/ingest/unit"
)

// The metrics of a host and its parts. Rates and shares cover the time since the reading before; a reader that knows the interval sets
// Window to it. Tracks: TrackHostReadings for a whole host, TrackCPU, TrackDisk, TrackNIC, TrackProcess for its parts.
var (
	CPUBusy     = Metric{"cpu_busy_frac", unit.Frac, WindowBefore, time.Second} // of all CPUs of the track, not idle and not iowait
	CPUUser     = Metric{"cpu_user_frac", unit.Frac, WindowBefore, time.Second} // user and nice
	CPUSystem   = Metric{"cpu_system_frac", unit.Frac, WindowBefore, time.Second}
	CPUIOWait   = Metric{"cpu_iowait_frac", unit.Frac, WindowBefore, time.Second}
	CPUSteal    = Metric{"cpu_steal_frac", unit.Frac, WindowBefore, time.Second}
	CPUIRQ      = Metric{"cpu_irq_frac", unit.Frac, WindowBefore, time.Second} // interrupts, hard and soft
	RunQueue    = Metric{"run_queue_count", unit.Count, Instant, 0}            // tasks that run or could
	Blocked     = Metric{"blocked_count", unit.Count, Instant, 0}              // tasks waiting for a disk (state D)
	Load1       = Metric{"load1_count", unit.Count, Instant, 0}
	CtxSwitches = Metric{"context_switches_hz", unit.Hertz, WindowBefore, time.Second}
	MemFree     = Metric{"mem_available_bytes", unit.Byte, Instant, 0}
	PageCache   = Metric{"page_cache_bytes", unit.Byte, Instant, 0}
	SwapIn      = Metric{"swap_in_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	SwapOut     = Metric{"swap_out_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	PSICPU      = Metric{"psi_cpu_frac", unit.Frac, WindowBefore, time.Second} // some task waited for a CPU
	PSIIO       = Metric{"psi_io_frac", unit.Frac, WindowBefore, time.Second}
	PSIMem      = Metric{"psi_mem_frac", unit.Frac, WindowBefore, time.Second}
	Throttled   = Metric{"cgroup_throttled_frac", unit.Frac, WindowBefore, time.Second} // enforcement periods in which the CPU quota ran out
	CPUQuota    = Metric{"cgroup_quota_count", unit.Count, Instant, 0}                  // CPUs that the quota allows

	DiskRead    = Metric{"disk_read_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	DiskWrite   = Metric{"disk_write_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	DiskReads   = Metric{"disk_reads_hz", unit.Hertz, WindowBefore, time.Second}
	DiskWrites  = Metric{"disk_writes_hz", unit.Hertz, WindowBefore, time.Second}
	DiskBusy    = Metric{"disk_busy_frac", unit.Frac, WindowBefore, time.Second} // %util: some request was in flight
	DiskAwaitRd = Metric{"disk_read_await_s", unit.Second, WindowBefore, time.Second}
	DiskAwaitWr = Metric{"disk_write_await_s", unit.Second, WindowBefore, time.Second}
	DiskQueue   = Metric{"disk_queue_count", unit.Count, WindowBefore, time.Second}

	NetRx     = Metric{"net_rx_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	NetTx     = Metric{"net_tx_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	NetErrors = Metric{"net_errors_count", unit.Count, RunningTotal, 0} // errors and drops, both directions
	NetWait   = Metric{"net_send_wait_hz", unit.Hertz, WindowBefore, time.Second}
	NetState  = Metric{"net_link_up", unit.Flag, Instant, 0}
	NetSpeed  = Metric{"net_link_bytes_per_s", unit.BytePerSecond, Instant, 0}

	ProcCPU        = Metric{"proc_cpu_count", unit.Count, WindowBefore, time.Second} // CPUs it kept busy: 1.5 is 150 %
	ProcSystem     = Metric{"proc_system_count", unit.Count, WindowBefore, time.Second}
	ProcRSS        = Metric{"proc_rss_bytes", unit.Byte, Instant, 0}
	ProcThreads    = Metric{"proc_threads_count", unit.Count, Instant, 0}
	ProcBlocked    = Metric{"proc_io_wait_frac", unit.Frac, WindowBefore, time.Second} // share of time it waited for a disk
	ProcRunWait    = Metric{"proc_run_wait_frac", unit.Frac, WindowBefore, time.Second}
	ProcPreempted  = Metric{"proc_preempted_hz", unit.Hertz, WindowBefore, time.Second} // switches it did not ask for
	ProcRead       = Metric{"proc_read_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	ProcWrite      = Metric{"proc_write_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	ProcGPUMem     = Metric{"proc_gpu_mem_bytes", unit.Byte, Instant, 0}
	ProcSMBusy     = Metric{"proc_sm_busy_frac", unit.Frac, WindowBefore, time.Second}
	ProcMemBusy    = Metric{"proc_mem_busy_frac", unit.Frac, WindowBefore, time.Second}
	ProcGPUEncBusy = Metric{"proc_enc_busy_frac", unit.Frac, WindowBefore, time.Second}
	ProcGPUDecBusy = Metric{"proc_dec_busy_frac", unit.Frac, WindowBefore, time.Second}
)

// The metrics of a GPU that only NVML, DCGM or Nsight Systems give. Shares of the hardware's maximum are never shares of time.
var (
	Energy        = Metric{"energy_j", unit.Joule, RunningTotal, 0}
	GRActive      = Metric{"gr_active_frac", unit.Frac, WindowBefore, time.Second}     // share of time the graphics or compute engine had work
	SMActive      = Metric{"sm_active_frac", unit.Frac, WindowBefore, time.Second}     // mean share of SMs with a warp resident
	SMOccupancy   = Metric{"sm_occupancy_frac", unit.Frac, WindowBefore, time.Second}  // resident warps of the most there can be
	TensorActive  = Metric{"tensor_active_frac", unit.Frac, WindowBefore, time.Second} // share of cycles the tensor pipe was busy
	DRAMActive    = Metric{"dram_active_frac", unit.Frac, WindowBefore, time.Second}   // share of cycles device memory moved data
	FP64Active    = Metric{"fp64_active_frac", unit.Frac, WindowBefore, time.Second}
	FP32Active    = Metric{"fp32_active_frac", unit.Frac, WindowBefore, time.Second}
	FP16Active    = Metric{"fp16_active_frac", unit.Frac, WindowBefore, time.Second}
	NVLinkRx      = Metric{"nvlink_rx_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	NVLinkTx      = Metric{"nvlink_tx_bytes_per_s", unit.BytePerSecond, WindowBefore, time.Second}
	NVLinkUp      = Metric{"nvlink_up_count", unit.Count, Instant, 0}          // links that are active
	NVLinkErrors  = Metric{"nvlink_errors_count", unit.Count, RunningTotal, 0} // replay, recovery and CRC errors of all links
	RemapPending  = Metric{"remap_pending", unit.Flag, Instant, 0}             // a row remap waits for a reset
	RemapFailed   = Metric{"remap_failed", unit.Flag, Instant, 0}              // a row could not be remapped
	RemapCorr     = Metric{"remapped_corrected_count", unit.Count, Instant, 0} // rows remapped for corrected errors
	RemapUncorr   = Metric{"remapped_uncorrected_count", unit.Count, Instant, 0}
	RetirePending = Metric{"retire_pending", unit.Flag, Instant, 0}       // page retirement waits for a reboot
	GPUProcesses  = Metric{"gpu_processes_count", unit.Count, Instant, 0} // compute processes on it
	ClockVideo    = Metric{"clock_video_hz", unit.Hertz, Instant, 0}
)
