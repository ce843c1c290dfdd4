package timeline

// What NCCL and RCCL log of one host's processes. Ends are of channels: each side of a channel logs its own.
const (
	AttrNCCLVersion  = "nccl_version"  // "2.21.5+cuda12.4"; RCCL's begins with "RCCL "
	AttrNCCLRanks    = "nccl_ranks"    // "8 of 16": processes of this host seen, ranks of the largest communicator
	AttrNCCLNetwork  = "nccl_network"  // as chosen: IB, Socket, AWS Libfabric
	AttrNCCLAdapters = "nccl_adapters" // of the chosen kind, in order: "mlx5_0:1/IB mlx5_1:1/IB"; of sockets the interfaces
	AttrNCCLChannels = "nccl_channels" // "24 coll channels, 16 nvls channels, 32 p2p channels"
	AttrNCCLNVLS     = "nccl_nvls"     // in-switch reduction: available, not available, used
	AttrNCCLP2POff   = "nccl_p2p_off"  // pairs of GPUs without peer access and what the log says of it
	AttrNCCLGDROff   = "nccl_gdr_off"  // adapters, or GPU and adapter, between which direct access is off
	AttrNCCLEnv      = "nccl_env"      // variables of NCCL that were set: "NCCL_IB_DISABLE=1 NCCL_P2P_LEVEL=NVL"
	AttrNCCLSpeed    = "nccl_adapter_bytes_per_s"
	AttrNCCLRDMA     = "nccl_rdma_count" // RDMA adapters that NCCL found; 0: it says that it found none
	AttrNCCLBench    = "nccl_benchmark"  // busbw by size of a nccl-tests table: "all-reduce 16: 8388608=43.1e9 ..."

	AttrNCCLP2PEnds    = "nccl_p2p_ends_count"    // straight between GPUs
	AttrNCCLSHMEnds    = "nccl_shm_ends_count"    // through the host's memory
	AttrNCCLSocketEnds = "nccl_socket_ends_count" // over TCP
	AttrNCCLRDMAEnds   = "nccl_rdma_ends_count"   // over RDMA or a plugin, GDR included
	AttrNCCLGDREnds    = "nccl_gdr_ends_count"    // of them, adapter and GPU reach each other directly
	AttrNCCLWarnings   = "nccl_warnings_count"
)
