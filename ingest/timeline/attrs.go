package timeline

// The names of attributes. One spelling each, whatever the maker called it; units are those of the name's end, words have none.
const (
	// Of a host.
	AttrHostCPUs      = "cpus_count" // that are online
	AttrHostSockets   = "sockets_count"
	AttrHostNUMANodes = "numa_nodes_count"
	AttrHostNUMACPUs  = "numa_cpus" // "0:0-31,64-95 1:32-63,96-127"
	AttrHostCPUModel  = "cpu_model"
	AttrHostMemory    = "memory_bytes"
	AttrHostKernel    = "kernel"
	AttrHostOS        = "os"
	AttrHostBoot      = "boot_unix_s" // instant of the last boot, Unix seconds
	AttrDriver        = "driver_version"
	AttrCUDA          = "cuda_version"
	AttrCPUQuota      = "cpu_quota_count" // CPUs that the cgroup allows
	AttrCPUSet        = "cpu_set"         // CPUs that the cgroup or the affinity allows, "0-15,32-47"

	// Of a GPU.
	AttrNUMANode      = "numa_node"    // -1: the file says there is none
	AttrCPUAffinity   = "cpu_affinity" // CPUs near it, "0-31,64-95"
	AttrVBIOS         = "vbios_version"
	AttrMIG           = "mig_mode" // enabled, disabled
	AttrECC           = "ecc_mode"
	AttrPersistence   = "persistence_mode"
	AttrComputeMode   = "compute_mode"
	AttrVirtual       = "virtualization_mode"
	AttrPowerLimit    = "power_limit_w" // enforced
	AttrPowerDefault  = "power_default_w"
	AttrPowerMin      = "power_min_w"
	AttrPowerMax      = "power_max_w"
	AttrClockSMMax    = "clock_sm_max_hz"
	AttrClockMemMax   = "clock_mem_max_hz"
	AttrClockApp      = "clock_app_sm_hz" // application clock
	AttrTempSlowdown  = "temp_slowdown_c"
	AttrTempShutdown  = "temp_shutdown_c"
	AttrTempMaxOp     = "temp_max_op_c"
	AttrPCIeGenMax    = "pcie_gen_max_count"    // of the card and its slot
	AttrPCIeGenDevice = "pcie_gen_device_count" // of the card alone
	AttrPCIeGenHost   = "pcie_gen_host_count"   // of the slot
	AttrPCIeWidthMax  = "pcie_width_max_count"
	AttrNVLinks       = "nvlinks_count"      // that the part has
	AttrNVLinkSpeed   = "nvlink_bytes_per_s" // of one link, one direction
	AttrResetRequired = "reset_required"     // 1: yes
	AttrRecovery      = "recovery_action"    // the driver's word: None, Reset, Reboot, Drain P2P
	AttrFabric        = "fabric_state"

	// Of a process.
	AttrProcGPU  = "gpu" // UUID or index of the GPU it uses
	AttrProcRank = "rank_count"
	AttrProcType = "type" // C, G, C+G, M+C
)
