package timeline

// Attributes that only a recording of our own gives.
const (
	AttrGovernor      = "cpu_governor" // of CPU 0
	AttrNUMABalancing = "numa_balancing"
	AttrSession       = "recording"      // identity of the recording, the same in all its parts
	AttrPeriod        = "period_s"       // between samples
	AttrOwnCPU        = "recorder_cpu_s" // CPU time that the recorder took
	AttrOwnLate       = "recorder_late_count"

	AttrProcParent  = "parent_count"     // pid of the parent
	AttrProcStart   = "proc_start_s"     // since the host's boot; At is when
	AttrProcCommand = "recorded_command" // flag: it is the command that was recorded
	AttrProcCPUs    = "proc_cpus"        // CPUs that the process may use, "0-15"
	AttrProcNodes   = "proc_nodes"       // NUMA nodes it may take memory from

	AttrNICNode  = "nic_numa_node"
	AttrDiskSpin = "rotational" // flag
)
