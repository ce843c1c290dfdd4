package timeline

import (
	"time"

	"gpureport/ingest/unit"
)

// The metrics of a GPU that only nvidia-smi's reports of -q, nvlink and pmon give.
var (
	PowerInstant   = Metric{"power_instant_w", unit.Watt, Instant, 0}
	PowerMem       = Metric{"power_mem_w", unit.Watt, WindowBefore, time.Second} // of the memory alone
	MemReserved    = Metric{"mem_reserved_bytes", unit.Byte, Instant, 0}         // by the driver, not in MemUsed
	RetiredSingle  = Metric{"retired_single_bit_count", unit.Count, RunningTotal, 0}
	RetiredDouble  = Metric{"retired_double_bit_count", unit.Count, RunningTotal, 0}
	ECCVolUnc      = Metric{"ecc_volatile_uncorrected_count", unit.Count, RunningTotal, 0}    // of all memory, since the driver was loaded
	ECCVolSRAMCorr = Metric{"ecc_volatile_sram_corrected_count", unit.Count, RunningTotal, 0} // volatile: since the driver was loaded
	ECCVolSRAMUnc  = Metric{"ecc_volatile_sram_uncorrected_count", unit.Count, RunningTotal, 0}
	ECCVolDRAMCorr = Metric{"ecc_volatile_dram_corrected_count", unit.Count, RunningTotal, 0}
	ECCVolDRAMUnc  = Metric{"ecc_volatile_dram_uncorrected_count", unit.Count, RunningTotal, 0}
	ECCAggSRAMCorr = Metric{"ecc_aggregate_sram_corrected_count", unit.Count, RunningTotal, 0} // aggregate: of the card's life
	ECCAggSRAMUnc  = Metric{"ecc_aggregate_sram_uncorrected_count", unit.Count, RunningTotal, 0}
	ECCAggDRAMCorr = Metric{"ecc_aggregate_dram_corrected_count", unit.Count, RunningTotal, 0}
	ECCAggDRAMUnc  = Metric{"ecc_aggregate_dram_uncorrected_count", unit.Count, RunningTotal, 0}
	NVLinkRxBytes  = Metric{"nvlink_rx_bytes", unit.Byte, RunningTotal, 0} // of all links
	NVLinkTxBytes  = Metric{"nvlink_tx_bytes", unit.Byte, RunningTotal, 0}

	ProcJpgBusy = Metric{"proc_jpg_busy_frac", unit.Frac, WindowBefore, time.Second}
	ProcOfaBusy = Metric{"proc_ofa_busy_frac", unit.Frac, WindowBefore, time.Second}
)
