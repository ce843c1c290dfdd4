package ingest

import (
	"strings"
	"time"

	"gpureport/ingest/timeline"
)

// DCGMField is what a field of DCGM gives. Its numbers stay the same between versions, its names do not all: both spellings lead here.
type DCGMField struct {
	Metric timeline.Metric
	Scale  float64
	Lo, Hi float64 // what the quantity can be, in DCGM's unit; blank values of DCGM lie outside
	Rank   int     // of several fields for one metric the lowest counts
	Add    bool    // fields for one metric are added up instead
	Xid    bool    // last Xid seen: a code that stays, no quantity
}

// DCGMFieldOf finds a field by its short name in dcgmi dmon (GRACT) or by the name of its macro (DCGM_FI_PROF_GR_ENGINE_ACTIVE).
func DCGMFieldOf(name string) (DCGMField, bool) {
	f, ok := dcgmFields[strings.TrimPrefix(name, "DCGM_FI_")]
	return f, ok
}

const dcgmBig = 1e18 // blanks are 2^63 less a few

func field(m timeline.Metric, scale, lo, hi float64) DCGMField {
	return DCGMField{Metric: m, Scale: scale, Lo: lo, Hi: hi}
}

// profiled is a field of the profiling group: a mean over the sampling period, a second where nothing else is said.
func profiled(m timeline.Metric, hi float64) DCGMField {
	m.Covers, m.Window = timeline.WindowBefore, time.Second
	return field(m, 1, 0, hi)
}

func second(f DCGMField) DCGMField { f.Rank = 1; return f }

func added(f DCGMField) DCGMField { f.Add = true; return f }

var dcgmFields = func() map[string]DCGMField {
	m := map[string]DCGMField{}
	for _, f := range []struct {
		names string
		field DCGMField
	}{
		{"SMCLK DEV_SM_CLOCK", field(timeline.ClockSM, 1e6, 0, 1e5)},
		{"MMCLK DEV_MEM_CLOCK", field(timeline.ClockMem, 1e6, 0, 1e5)},
		{"VICLK DEV_VIDEO_CLOCK", field(timeline.ClockVideo, 1e6, 0, 1e5)},
		{"SMMAX DEV_MAX_SM_CLOCK", field(timeline.ClockSMMax, 1e6, 0, 1e5)},
		{"MMMAX DEV_MAX_MEM_CLOCK", field(timeline.ClockMemMax, 1e6, 0, 1e5)},
		{"DVCCTR DEV_CLOCK_THROTTLE_REASONS DEV_CLOCKS_EVENT_REASONS", field(timeline.Reasons, 1, 0, 1<<52)},
		{"MMTMP DEV_MEMORY_TEMP", field(timeline.TempMem, 1, -50, 200)},
		{"TMPTR DEV_GPU_TEMP", field(timeline.TempGPU, 1, -50, 200)},
		{"GTLIMIT DEV_GPU_TEMP_LIMIT", field(timeline.TempMargin, 1, -200, 200)},
		{"POWER DEV_POWER_USAGE", field(timeline.Power, 1, 0, 20000)},
		{"DEV_ENFORCED_POWER_LIMIT", field(timeline.PowerLimit, 1, 0, 20000)},
		{"DEV_POWER_MGMT_LIMIT", second(field(timeline.PowerLimit, 1, 0, 20000))},
		{"DEV_POWER_MGMT_LIMIT_DEF", field(timeline.PowerDefault, 1, 0, 20000)},
		{"TOTEC DEV_TOTAL_ENERGY_CONSUMPTION", field(timeline.Energy, 1e-3, 0, dcgmBig)},
		{"DEV_PSTATE", field(timeline.PState, 1, 0, 32)},
		{"RPCTR DEV_PCIE_REPLAY_COUNTER DEV_PCIE_REPLAY_TOTAL", field(timeline.PCIeReplays, 1, 0, 1e12)},
		{"GPUTL DEV_GPU_UTIL", field(timeline.SMBusy, .01, 0, 100)},
		{"MCUTL DEV_MEM_COPY_UTIL", field(timeline.MemBusy, .01, 0, 100)},
		{"DEV_ENC_UTIL", field(timeline.EncBusy, .01, 0, 100)},
		{"DEV_DEC_UTIL", field(timeline.DecBusy, .01, 0, 100)},
		{"PCILG DEV_PCIE_LINK_GEN", field(timeline.PCIeGen, 1, 0, 16)},
		{"PCILW DEV_PCIE_LINK_WIDTH", field(timeline.PCIeWidth, 1, 0, 64)},
		{"DEV_PCIE_MAX_LINK_GEN", field(timeline.PCIeGenMax, 1, 0, 16)},
		{"DEV_PCIE_MAX_LINK_WIDTH", field(timeline.PCIeWidthMax, 1, 0, 64)},
		{"FBUSD DEV_FB_USED", field(timeline.MemUsed, 1<<20, 0, 1e8)},
		{"DEV_FB_TOTAL", field(timeline.MemTotal, 1<<20, 0, 1e8)},
		{"DEV_ECC_SBE_AGG_TOTAL", field(timeline.ECCCorrected, 1, 0, 1e12)},
		{"DEV_ECC_DBE_AGG_TOTAL", field(timeline.ECCUncorrected, 1, 0, 1e12)},
		{"DEV_ECC_SBE_VOL_TOTAL", second(field(timeline.ECCCorrected, 1, 0, 1e12))},
		{"EDVTL DEV_ECC_DBE_VOL_TOTAL", second(field(timeline.ECCUncorrected, 1, 0, 1e12))},
		{"DEV_UNCORRECTABLE_REMAPPED_ROWS", field(timeline.RemapUncorr, 1, 0, 1e9)},
		{"DEV_CORRECTABLE_REMAPPED_ROWS", field(timeline.RemapCorr, 1, 0, 1e9)},
		{"DEV_ROW_REMAP_FAILURE", field(timeline.RemapFailed, 1, 0, 1)},
		{"RRP DEV_ROW_REMAP_PENDING", field(timeline.RemapPending, 1, 0, 1)},
		{"NFELT DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", added(field(timeline.NVLinkErrors, 1, 0, 1e12))},
		{"DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", added(field(timeline.NVLinkErrors, 1, 0, 1e12))},
		{"DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", added(field(timeline.NVLinkErrors, 1, 0, 1e12))},
		{"DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", added(field(timeline.NVLinkErrors, 1, 0, 1e12))},
		{"XIDER DEV_XID_ERRORS", DCGMField{Xid: true, Scale: 1, Lo: 0, Hi: 1e6}},
		{"GRACT PROF_GR_ENGINE_ACTIVE", profiled(timeline.GRActive, 1)},
		{"SMACT PROF_SM_ACTIVE", profiled(timeline.SMActive, 1)},
		{"SMOCC PROF_SM_OCCUPANCY", profiled(timeline.SMOccupancy, 1)},
		{"TENSO PROF_PIPE_TENSOR_ACTIVE", profiled(timeline.TensorActive, 1)},
		{"DRAMA PROF_DRAM_ACTIVE", profiled(timeline.DRAMActive, 1)},
		{"FP64A PROF_PIPE_FP64_ACTIVE", profiled(timeline.FP64Active, 1)},
		{"FP32A PROF_PIPE_FP32_ACTIVE", profiled(timeline.FP32Active, 1)},
		{"FP16A PROF_PIPE_FP16_ACTIVE", profiled(timeline.FP16Active, 1)},
		{"PCITX PROF_PCIE_TX_BYTES", profiled(timeline.PCIeTx, 130e9)},
		{"PCIRX PROF_PCIE_RX_BYTES", profiled(timeline.PCIeRx, 130e9)},
		{"NVLTX PROF_NVLINK_TX_BYTES", profiled(timeline.NVLinkTx, 2e12)},
		{"NVLRX PROF_NVLINK_RX_BYTES", profiled(timeline.NVLinkRx, 2e12)},
	} {
		for name := range strings.FieldsSeq(f.names) {
			m[name] = f.field
		}
	}
	return m
}()
