package timeline

import (
	"time"

	"gpureport/ingest/unit"
)

// The metrics of a GPU's own counters that only Nsight Systems samples. Each is a share of the hardware's maximum.
var (
	GPUEngines   = Metric{"gpu_engines_active_frac", unit.Frac, WindowBefore, time.Millisecond} // graphics, compute or a copy engine had work
	SMIssue      = Metric{"sm_issue_frac", unit.Frac, WindowBefore, time.Millisecond}           // cycles in which an instruction was issued
	DRAMRead     = Metric{"dram_read_frac", unit.Frac, WindowBefore, time.Millisecond}
	DRAMWrite    = Metric{"dram_write_frac", unit.Frac, WindowBefore, time.Millisecond}
	PCIeRxFrac   = Metric{"pcie_h2d_frac", unit.Frac, WindowBefore, time.Millisecond}
	PCIeTxFrac   = Metric{"pcie_d2h_frac", unit.Frac, WindowBefore, time.Millisecond}
	NVLinkRxFrac = Metric{"nvlink_rx_frac", unit.Frac, WindowBefore, time.Millisecond} // user and protocol data
	NVLinkTxFrac = Metric{"nvlink_tx_frac", unit.Frac, WindowBefore, time.Millisecond}
	CopySync     = Metric{"copy_engine_sync_frac", unit.Frac, WindowBefore, time.Millisecond}
	CopyAsync    = Metric{"copy_engine_async_frac", unit.Frac, WindowBefore, time.Millisecond} // of the busiest engine listed first
	ClockGPC     = Metric{ClockSM.Name, unit.Hertz, WindowBefore, time.Millisecond}            // the SMs' clock, as a mean
	ClockSys     = Metric{"clock_sys_hz", unit.Hertz, WindowBefore, time.Millisecond}
)
