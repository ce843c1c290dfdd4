package torchprof

import (
	"bytes"

	"gpureport/ingest/timeline"
)

// place says what pid and tid of an event mean.
type place uint8

const (
	onHost   place = iota // process, thread
	onStream              // device, stream
	onOther               // whatever the maker put there
	nowhere               // the event makes no span
)

// category is what a cat means to us.
type category struct {
	kind  timeline.SpanKind
	place place
	args  argsMode
	role  role
}

// argsMode says which arguments are worth reading.
type argsMode uint8

const (
	noArgs argsMode = iota
	deviceArgs
	apiArgs
	opArgs
)

type role uint8

const (
	ordinary role = iota
	oldOperator
	traceWindow // the capture window
	ignored     // counted only
	unknownCat
)

// categories is by lower-case name: all generations, and other accelerators as far as they have what we know.
var categories = map[string]category{
	"cpu_op":              {timeline.KindOp, onHost, opArgs, ordinary},
	"operator":            {timeline.KindOp, onHost, opArgs, oldOperator}, // until 2021-06, annotations too
	"user_annotation":     {timeline.KindAnnotation, onHost, noArgs, ordinary},
	"user":                {timeline.KindAnnotation, onHost, noArgs, ordinary},
	"gpu_user_annotation": {timeline.KindGPUAnno, onStream, deviceArgs, ordinary},
	"kernel":              {timeline.KindKernel, onStream, deviceArgs, ordinary},
	"gpu_memcpy":          {timeline.KindMemcpy, onStream, deviceArgs, ordinary},
	"memcpy":              {timeline.KindMemcpy, onStream, deviceArgs, ordinary},
	"gpu_memset":          {timeline.KindMemset, onStream, deviceArgs, ordinary},
	"memset":              {timeline.KindMemset, onStream, deviceArgs, ordinary},
	"cuda_runtime":        {timeline.KindAPI, onHost, apiArgs, ordinary},
	"runtime":             {timeline.KindAPI, onHost, apiArgs, ordinary},
	"cuda_driver":         {timeline.KindAPI, onHost, apiArgs, ordinary},
	"xpu_runtime":         {timeline.KindAPI, onHost, apiArgs, ordinary},
	"xpu_driver":          {timeline.KindAPI, onHost, apiArgs, ordinary},
	"mtia_runtime":        {timeline.KindAPI, onHost, apiArgs, ordinary},
	"privateuse1_runtime": {timeline.KindAPI, onHost, apiArgs, ordinary},
	"privateuse1_driver":  {timeline.KindAPI, onHost, apiArgs, ordinary},
	"glow_runtime":        {timeline.KindAPI, onHost, apiArgs, ordinary},
	"cuda_sync":           {timeline.KindSync, onStream, deviceArgs, ordinary},
	"xpu_sync":            {timeline.KindSync, onStream, deviceArgs, ordinary},
	"python_function":     {timeline.KindPython, onHost, noArgs, ordinary},
	"overhead":            {timeline.KindOverhead, onHost, noArgs, ordinary},
	"trace":               {timeline.KindOther, nowhere, noArgs, traceWindow},

	"cuda_event":           {timeline.KindOther, nowhere, noArgs, ignored}, // a record on the stream, dur 1
	"external_correlation": {timeline.KindOther, nowhere, noArgs, ignored},

	// Known, and told apart by name only: no rule of ours reads them.
	"cuda_profiler_range": {timeline.KindOther, onOther, noArgs, unknownCat},
	"collective_comm":     {timeline.KindOther, onOther, noArgs, unknownCat},
	"xpu_scope_profiler":  {timeline.KindOther, onOther, noArgs, unknownCat},
	"mtia_ccp_events":     {timeline.KindOther, onOther, noArgs, unknownCat},
	"mtia_insight":        {timeline.KindOther, onOther, noArgs, unknownCat},
	"hpu_op":              {timeline.KindOther, onOther, noArgs, unknownCat},
}

// categoryOf finds a category by its text, whatever the case.
func categoryOf(cat []byte) category {
	if c, ok := categories[string(cat)]; ok {
		return c
	}
	if c, ok := categories[string(bytes.ToLower(cat))]; ok {
		return c
	}
	return category{timeline.KindOther, onOther, noArgs, unknownCat}
}

// annotationNames begin the annotations among old Operator events, which nothing else tells from operators.
var annotationNames = [][]byte{[]byte("ProfilerStep#"), []byte("enumerate(DataLoader)#"), []byte("Optimizer.step#"), []byte("Optimizer.zero_grad#"), []byte("nccl:"), []byte("gloo:")}

func isAnnotation(name []byte) bool {
	for _, p := range annotationNames {
		if bytes.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// copyOf reads direction and memory kinds out of "Memcpy HtoD (Pageable -> Device)". Host says nothing of pinning.
func copyOf(name []byte) (c timeline.Copy) {
	c.Bytes = -1
	if i := bytes.Index(name, []byte("to")); i > 0 && i+2 < len(name) {
		c.Kind = direction(name[i-1], name[i+2])
	}
	open, arrow := bytes.IndexByte(name, '('), bytes.Index(name, []byte("->"))
	if open >= 0 && arrow > open {
		end := len(name)
		if j := bytes.IndexByte(name[arrow:], ')'); j >= 0 {
			end = arrow + j
		}
		c.Src, c.Dst = memory(name[open+1:arrow]), memory(name[arrow+2:end])
	} else if open >= 0 { // Memset (Device)
		end := len(name)
		if j := bytes.IndexByte(name[open:], ')'); j >= 0 {
			end = open + j
		}
		c.Dst = memory(name[open+1 : end])
	}
	return c
}

// direction takes the letters of HtoD; an array is device memory.
func direction(from, to byte) timeline.CopyKind {
	if from == 'A' {
		from = 'D'
	}
	if to == 'A' {
		to = 'D'
	}
	switch string([]byte{from, to}) {
	case "HD":
		return timeline.DirH2D
	case "DH":
		return timeline.DirD2H
	case "DD":
		return timeline.DirD2D
	case "PP":
		return timeline.DirP2P
	case "HH":
		return timeline.DirH2H
	}
	return timeline.DirUnknown
}

func memory(word []byte) timeline.MemKind {
	switch string(bytes.ToLower(bytes.TrimSpace(word))) {
	case "pageable":
		return timeline.MemPageable
	case "pinned":
		return timeline.MemPinned
	case "device", "array", "device static":
		return timeline.MemDevice
	case "managed", "managed static":
		return timeline.MemManaged
	}
	return timeline.MemUnknown
}
