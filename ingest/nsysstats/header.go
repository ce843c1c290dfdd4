package nsysstats

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// report is which table it is.
type report uint8

const (
	noReport report = iota
	otherReport
	kernelSum
	kernelGridSum
	gpuSum    // kernels and copies by category
	apiGPUSum // calls too
	rangeKernelSum
	copyTimeSum
	copySizeSum
	callSum // calls of CUDA or of the system: the header is the same
	cudaCallSum
	systemCallSum
	rangeSum
	gpuTrace
	apiTrace
	execTrace
	rangeTrace
	projTrace
)

// reports maps the names of reports, old and new, to what they are.
var reports = map[string]report{
	"cuda_gpu_kern_sum": kernelSum, "gpukernsum": kernelSum, "cuda_gpu_kern_gb_sum": kernelGridSum, "gpukerngbsum": kernelGridSum,
	"cuda_gpu_sum": gpuSum, "gpusum": gpuSum, "cuda_api_gpu_sum": apiGPUSum, "apigpusum": apiGPUSum,
	"cuda_gpu_mem_time_sum": copyTimeSum, "gpumemtimesum": copyTimeSum, "cuda_gpu_mem_size_sum": copySizeSum, "gpumemsizesum": copySizeSum,
	"cuda_api_sum": cudaCallSum, "cudaapisum": cudaCallSum, "osrt_sum": systemCallSum, "osrtsum": systemCallSum, "syscall_sum": systemCallSum,
	"nvtx_sum": rangeSum, "nvtxsum": rangeSum, "nvtx_pushpop_sum": rangeSum, "nvtxppsum": rangeSum, "pushpopsum": rangeSum,
	"nvtx_startend_sum": rangeSum, "nvtxssesum": rangeSum, "nvtx_kern_sum": rangeKernelSum, "nvtxkernsum": rangeKernelSum,
	"cuda_gpu_trace": gpuTrace, "gputrace": gpuTrace, "cuda_api_trace": apiTrace, "cudaapitrace": apiTrace, "apitrace": apiTrace,
	"cuda_kern_exec_trace": execTrace, "kernexectrace": execTrace, "nvtx_pushpop_trace": rangeTrace, "nvtxpptrace": rangeTrace,
	"nvtx_gpu_proj_trace": projTrace, "nvtxgpuproj": projTrace,
	"cuda_kern_exec_sum": otherReport, "kernexecsum": otherReport, "nvtx_gpu_proj_sum": otherReport, "mpi_event_sum": otherReport, "mpi_event_trace": otherReport,
	"mpi_msg_size_sum": otherReport, "openmp_sum": otherReport, "openmpevtsum": otherReport, "openacc_sum": otherReport, "network_congestion": otherReport,
	"um_sum": otherReport, "um_total_sum": otherReport, "um_cpu_page_faults_sum": otherReport, "umcpupagefaults": otherReport, "unifiedmemory": otherReport,
	"unifiedmemorytotals": otherReport, "dx11_pix_sum": otherReport, "dx12_pix_sum": otherReport, "dx12_gpu_marker_sum": otherReport, "khrdebugsum": otherReport,
	"opengl_khr_range_sum": otherReport, "opengl_khr_gpu_range_sum": otherReport, "vulkan_marker_sum": otherReport, "vulkan_api_sum": otherReport,
	"vulkan_gpu_marker_sum": otherReport, "wddm_queue_sum": otherReport, "nvvideo_api_sum": otherReport, "syscall_trace": otherReport, "osrt_trace": otherReport,
}

// cell is what a column holds.
type cell uint8

const (
	cUnknown cell = iota
	cOther        // known, not read
	cPercent
	cTotal
	cTotalTime
	cInstances
	cCalls
	cCount
	cAvg
	cMedian
	cMin
	cMax
	cName
	cRange
	cOperation
	cCategory
	cStyle
	cSource
	cKernelName
	cStart
	cEnd
	cDur
	cCorr
	cGridX
	cGridY
	cGridZ
	cBlockX
	cBlockY
	cBlockZ
	cGrid
	cBlock
	cBytes
	cSrc
	cDst
	cDevice
	cDeviceID
	cStream
	cPID
	cTID
	cThread
	cResult
	cLevel
	cAPIStart
	cAPIDur
	cKernelStart
	cKernelDur
	cAPIName
	cOrigStart
	cOrigDur
	cProjStart
	nCells
)

var cells = map[string]cell{
	"time": cPercent, "total time": cTotalTime, "total": cTotal, "instances": cInstances, "kern inst": cInstances, "num calls": cCalls, "calls": cCalls, "count": cCount,
	"operations": cCount, "avg": cAvg, "average": cAvg, "med": cMedian, "median": cMedian, "min": cMin, "minimum": cMin, "max": cMax, "maximum": cMax, "stddev": cOther,
	"name": cName, "range": cRange, "nvtx range": cRange, "operation": cOperation, "category": cCategory, "style": cStyle, "source": cSource, "kernel name": cKernelName,
	"start": cStart, "end": cEnd, "duration": cDur, "corrid": cCorr, "grdx": cGridX, "grdy": cGridY, "grdz": cGridZ, "blkx": cBlockX, "blky": cBlockY, "blkz": cBlockZ,
	"gridxyz": cGrid, "blockxyz": cBlock, "bytes": cBytes, "srcmemkd": cSrc, "dstmemkd": cDst, "device": cDevice, "devid": cDeviceID, "strm": cStream, "pid": cPID,
	"tid": cTID, "thread name": cThread, "result": cResult, "lvl": cLevel, "rangeid": cLevel, "api start": cAPIStart, "api dur": cAPIDur, "kernel start": cKernelStart,
	"kernel dur": cKernelDur, "api function": cAPIName, "orig start": cOrigStart, "orig duration": cOrigDur, "projected start": cProjStart,
	"reg/trd": cOther, "stcsmem": cOther, "dymsmem": cOther, "throughput": cOther, "thru": cOther, "ctx": cOther, "greenctx": cOther, "t-pri": cOther, "durchild": cOther,
	"durnonchild": cOther, "numchild": cOther, "parentid": cOther, "rangestack": cOther, "nametree": cOther, "numgpuops": cOther, "projected duration": cOther,
	"queue start": cOther, "queue dur": cOther, "total dur": cOther, "nvtx inst": cOther, "event": cOther, "qcount": cOther, "total proj time": cOther,
	"total range time": cOther, "range instances": cOther, "tavg": cOther, "api name": cOther, "rank": cOther,
}

// header is the columns of a table.
type header struct {
	report report
	at     [nCells]int // column of each cell, -1 none
	scale  []float64   // of each column: what one of its unit is in ns or bytes
	exp    []int       // of times: decimal places of a ns, -1 where the unit is none of time
	n      int
}

// timeUnits are the places that a unit's ns lie behind its point.
var timeUnits = map[string]int{"ns": 0, "nsec": 0, "nanoseconds": 0, "us": 3, "usec": 3, "µs": 3, "μs": 3, "microseconds": 3, "ms": 6, "msec": 6, "milliseconds": 6, "s": 9, "sec": 9, "seconds": 9}

var sizeUnits = map[string]float64{"b": 1, "byte": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}

// splitUnit takes "Total Time (ns)" apart.
func splitUnit(s string) (name, unit string) {
	s = strings.ToLower(strings.TrimSpace(s))
	if i := strings.LastIndexByte(s, '('); i > 0 && strings.HasSuffix(s, ")") {
		return strings.TrimSpace(s[:i]), strings.TrimSpace(s[i+1 : len(s)-1])
	}
	return s, ""
}

// parseHeader reads the columns; ok is false for a row that is no header of nsys stats. defUnit is the size unit that the title states.
func parseHeader(row []string, defUnit string) (h *header, ok bool) {
	if len(row) < 3 {
		return nil, false
	}
	h = &header{n: len(row), scale: make([]float64, len(row)), exp: make([]int, len(row))}
	for i := range h.at {
		h.at[i] = -1
	}
	known := 0
	last := "" // a unit stands for the columns behind it that state none: 2020 wrote it once
	for i, s := range row {
		name, unit := splitUnit(s)
		c := cells[name]
		if c == cPercent && unit != "%" {
			c = cUnknown
		}
		if c != cUnknown {
			known++
		}
		if c > cOther && h.at[c] < 0 {
			h.at[c] = i
		}
		if unit == "" {
			unit = last
		} else if unit != "%" {
			last = unit
		}
		h.exp[i], h.scale[i] = 0, 1
		if e, ok := timeUnits[unit]; ok {
			h.exp[i] = e
		} else if f, ok := sizeUnits[unit]; ok {
			h.exp[i], h.scale[i] = -1, f
		} else if c == cBytes || h.at[cTotal] >= 0 {
			h.exp[i], h.scale[i] = -1, sizeUnits[strings.ToLower(defUnit)]
		}
	}
	h.report = h.kind()
	return h, h.report != noReport && known*3 >= len(row)*2
}

func (h *header) has(cs ...cell) bool {
	for _, c := range cs {
		if h.at[c] < 0 {
			return false
		}
	}
	return true
}

func (h *header) kind() report {
	switch {
	case h.has(cAPIStart, cKernelStart, cKernelDur):
		return execTrace
	case h.has(cName, cOrigStart, cOrigDur):
		return projTrace
	case h.has(cStart, cDur, cName, cCorr) && (h.has(cGridX) || h.has(cDevice) || h.has(cStream)):
		return gpuTrace
	case h.has(cStart, cDur, cName) && (h.has(cResult) || h.has(cCorr)):
		return apiTrace
	case h.has(cStart, cName, cLevel) && (h.has(cDur) || h.has(cEnd)):
		return rangeTrace
	case h.has(cStart, cEnd, cDur):
		return otherReport
	case h.has(cTotalTime, cCategory, cOperation):
		return gpuSum
	case h.has(cRange, cTotalTime, cKernelName):
		return rangeKernelSum
	case h.has(cTotalTime, cSource), h.has(cTotalTime, cInstances, cKernelName):
		return otherReport
	case h.has(cTotalTime, cInstances, cRange):
		return rangeSum
	case h.has(cTotalTime, cOperation):
		return copyTimeSum
	case h.has(cTotal, cOperation):
		return copySizeSum
	case h.has(cTotalTime, cInstances, cName) && h.has(cGrid):
		return kernelGridSum
	case h.has(cTotalTime, cInstances, cName):
		return kernelSum
	case h.has(cTotalTime, cCalls, cName), h.has(cTotalTime, cCount, cName):
		return callSum
	}
	return noReport
}

// ns is the time in a cell.
func (h *header) ns(row [][]byte, c cell) (int64, bool) {
	i := h.at[c]
	if i < 0 || h.exp[i] < 0 {
		return 0, false
	}
	return decimal(row[i], h.exp[i])
}

// value is a time in ns or a size in bytes, as the column's unit says.
func (h *header) value(row [][]byte, c cell) (int64, bool) {
	i := h.at[c]
	if i < 0 {
		return 0, false
	}
	if h.exp[i] >= 0 {
		return decimal(row[i], h.exp[i])
	}
	v, err := strconv.ParseFloat(string(bytes.ReplaceAll(row[i], []byte(","), nil)), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v*h.scale[i]) > 1e18 || h.scale[i] == 0 {
		return 0, false
	}
	return int64(math.Round(v * h.scale[i])), true
}

func (h *header) count(row [][]byte, c cell) (int64, bool) {
	if h.at[c] < 0 {
		return 0, false
	}
	return decimal(row[h.at[c]], 0)
}

func (h *header) text(row [][]byte, c cell) []byte {
	if h.at[c] < 0 {
		return nil
	}
	return row[h.at[c]]
}

// decimal reads a number as an integer of 10^-places, rounded: "1331082.1" with places 0 is 1331082, "1.5" with 6 is 1500000. Commas between
// digits are those of thousands.
func decimal(b []byte, places int) (int64, bool) {
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, b = b[0] == '-', b[1:]
	}
	var n int64
	digits, frac := 0, -1
	round := false
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			digits++
			if frac >= 0 {
				if frac++; frac > places {
					round = round || frac == places+1 && c >= '5'
					continue
				}
			}
			if n > (math.MaxInt64-9)/10 {
				return 0, false
			}
			n = n*10 + int64(c-'0')
		case c == '.' && frac < 0:
			frac = 0
		case c == ',' && frac < 0 && i > 0:
		case c == 'e' || c == 'E':
			v, err := strconv.ParseFloat(string(bytes.ReplaceAll(b, []byte(","), nil)), 64)
			v = math.Round(v * math.Pow10(places))
			if err != nil || math.IsNaN(v) || v > 1e18 {
				return 0, false
			}
			n, frac, round, digits = int64(v), places, false, 1
			return sign(n, neg), true
		default:
			return 0, false
		}
	}
	if digits == 0 {
		return 0, false
	}
	for f := max(frac, 0); f < places; f++ {
		if n > math.MaxInt64/10 {
			return 0, false
		}
		n *= 10
	}
	if round {
		n++
	}
	return sign(n, neg), true
}

func sign(n int64, neg bool) int64 {
	if neg {
		return -n
	}
	return n
}
