// Package torchprof reads the traces that the PyTorch Profiler (libkineto) writes as Chrome trace JSON.
//
// Versions seen: torch 1.7 (bare arrays of 2020) to 2.9 (2026 keys), CUDA and ROCm, Meta's MTIA; the legacy autograd export
// is read as far as it goes. The format has no version number, so features are looked for, not versions.
//
// Recognised by its top-level keys, or for a bare array by events of known categories. Not ours, though alike: TensorFlow's
// and Ascend's traces, execution traces.
//
// Clock: ts and dur are microseconds with up to three decimals, Unix time either by themselves or after adding
// baseTimeNanoseconds, which applies to stamps under 1e13 us. Grain 1 ns, 1 us before torch 2.3. Traces of one host agree to
// tens of us. A row is an event's number in traceEvents, from 0, metadata events and damaged ones counted.
//
// Kinds come from the category alone, with one exception: until 2021-06 annotations were written as operators, and well-known
// names tell them apart. Device and stream come from args, else from pid and tid. What a device op was launched by is told by
// args.correlation; flow events repeat it and are not stored, nor are counters, memory instants and metadata.
//
// What it cannot tell: which physical GPU a device number is, what other processes did, why a loader was late.
package torchprof

import (
	"bytes"
	"context"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// Format is PyTorch Profiler traces.
var Format = ingest.Format{
	Name:      "torchprof",
	Doc:       "PyTorch Profiler (Kineto) trace: torch.profiler, export_chrome_trace, dynolog",
	Recognise: recognise,
	Read: func(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
		return read(ctx, in, b)
	},
	Bulk: true,
	Asks: []string{"step", "idle", "data", "kernel", "comm", "shape"},
}

var (
	ownKeys   = [][]byte{[]byte(`"schemaVersion"`), []byte(`"deviceProperties"`), []byte(`"computeProperties"`), []byte(`"baseTimeNanoseconds"`), []byte(`"distributedInfo"`), []byte(`"traceName"`)}
	ownCats   = []string{"cpu_op", "Operator", "user_annotation", "kernel", "Kernel", "cuda_runtime", "Runtime", "python_function", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset", "cuda_driver"}
	autograd  = [][]byte{[]byte(`"CPU functions"`), []byte(`"CUDA functions"`)}
	otherKeys = [][]byte{[]byte(`"Task Type"`), []byte(`"async_npu"`), []byte(`"HostToDevice`), []byte(`"viztracer_metadata"`), []byte(`"gpureport`)}
)

func recognise(h ingest.Head) bool {
	t := bytes.TrimLeft(h.Text, " \t\r\n")
	if len(t) == 0 {
		return false
	}
	for _, k := range otherKeys {
		if bytes.Contains(t, k) {
			return false
		}
	}
	switch t[0] {
	case '{':
		first := bytes.TrimLeft(t[1:], " \t\r\n")
		if bytes.HasPrefix(first, []byte(`"schema"`)) {
			return false // an execution trace, a capture of ours
		}
		for _, k := range ownKeys {
			if bytes.Contains(t, k) {
				return true
			}
		}
		return bytes.Contains(t, eventsKey) && hasCategory(t)
	case '[':
		first := bytes.TrimLeft(t[1:], " \t\r\n")
		if len(first) == 0 || first[0] != '{' {
			return false
		}
		for _, k := range autograd {
			if bytes.Contains(t, k) {
				return bytes.Contains(t, []byte(`"ph"`))
			}
		}
		return hasCategory(t) && !stringStamps(t)
	}
	return false
}

// hasCategory looks for "cat": "<one of ours>".
func hasCategory(t []byte) bool {
	key := []byte(`"cat"`)
	for n := 0; n < 256; n++ {
		i := bytes.Index(t, key)
		if i < 0 {
			return false
		}
		t = t[i+len(key):]
		v := bytes.TrimLeft(t, " \t\r\n:")
		for _, c := range ownCats {
			if len(v) > len(c)+1 && v[0] == '"' && string(v[1:1+len(c)]) == c && v[1+len(c)] == '"' {
				return true
			}
		}
	}
	return false
}

// stringStamps tells Ascend's arrays, whose ts are strings.
func stringStamps(t []byte) bool {
	i := bytes.Index(t, []byte(`"ts"`))
	return i >= 0 && bytes.HasPrefix(bytes.TrimLeft(t[i+4:], " \t\r\n:"), []byte(`"`))
}
