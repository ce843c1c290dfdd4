package timeline

// Attributes of a GPU that only the reports of nvidia-smi give.
const (
	AttrArchitecture   = "architecture" // Hopper
	AttrGSP            = "gsp_version"  // firmware
	AttrDriverModel    = "driver_model" // WDDM, TCC
	AttrAddressing     = "addressing_mode"
	AttrC2C            = "c2c_mode"
	AttrMIGDevices     = "mig_devices_count"
	AttrMIGProfiles    = "mig_profiles"  // "1g.10gb 1g.10gb 3g.40gb"
	AttrMIGUUIDs       = "mig_uuids"     // in the order of mig_profiles, between blanks
	AttrGPUNUMANode    = "gpu_numa_node" // of the GPU's own memory, where it is one
	AttrPowerRequested = "power_requested_w"
	AttrPowerProfile   = "power_profile"

	AttrClockAppMem        = "clock_app_mem_hz"
	AttrClockAppDefault    = "clock_app_default_sm_hz"
	AttrClockAppDefaultMem = "clock_app_default_mem_hz"
	AttrClockBoost         = "clock_boost_max_hz" // highest that a customer may set

	// Margins of parts that state their limits as a distance to the highest operating temperature, often negative.
	AttrMarginSlowdown = "temp_margin_slowdown_c"
	AttrMarginShutdown = "temp_margin_shutdown_c"
	AttrMarginMaxOp    = "temp_margin_max_op_c"
	AttrMarginMem      = "temp_margin_mem_max_op_c"
	AttrTempMemMaxOp   = "temp_mem_max_op_c"
	AttrTempTarget     = "temp_target_c"

	// Flags: 1 yes.
	AttrDrain         = "drain_recommended"
	AttrChannelRepair = "channel_repair_pending"
	AttrTPCRepair     = "tpc_repair_pending"
	AttrUnrepairable  = "unrepairable_memory"
	AttrSRAMThreshold = "ecc_sram_threshold_exceeded"

	AttrRemapBanksLow  = "remap_banks_low_count"  // banks with few spare rows left
	AttrRemapBanksNone = "remap_banks_none_count" // banks with none left

	AttrFabricStatus = "fabric_status"
	AttrFabricHealth = "fabric_health"

	AttrNVLinkCaps    = "nvlink_caps"              // what every link can do, in the maker's words
	AttrNVLinkPattern = "nvlink_up"                // by link: 1 up, 0 down: "111110111111"
	AttrNVLinkWhy     = "nvlink_state"             // the tool's sentence where it shows no links
	AttrNVLinkTotal   = "nvlink_total_bytes_per_s" // of all links that are up, one direction
)

// AttrP2P of a GPU: whether it may reach the memory of each GPU, by index, in the maker's words: "X OK NS".
const AttrP2P = "p2p_access"

// AttrNameBegins is how the name of a product begins that the tool cut: "NVIDIA GeForce RTX 4080" may be a SUPER.
const AttrNameBegins = "name_begins"
