package timeline

// WorkTable is what the kernels of one GPU's window tell of their work, beyond the sums of KernelRow. ns of device time.
type WorkTable struct {
	Rows     []WorkRow // operators of known shapes that are no matrix products, longest first; at most 2000
	ProductT int64     // ns of convolution and attention kernels
	ShapedT  int64     // of them: of those whose arithmetic follows from recorded shapes

	UnfusedNS   int64 // matrix product, softmax, matrix product in a row: attention that no fused kernel does
	Unfused     int64
	UnfusedRows []uint32
	LayoutNS    int64 // kernels that only change the order of a tensor in memory
	LayoutRows  []uint32

	GridNS    int64 // kernels whose grid is known, on a part whose SMs are
	SmallNS   int64 // of them: with fewer blocks than SMs
	SmallRows []uint32

	// The kernel name that loses most to its last wave: tiled products with more blocks than SMs.
	WaveKernel     string
	WaveNS, WaveLT int64 // its time, and what of it the empty part of the last wave is
	WaveRows       []uint32

	// Kernels that ran half or more under a collective, and the same ones (name, grid, shapes) alone.
	OverlapNS       int64 // all of them
	ComparedNS      int64 // those that have a like which ran alone
	AloneNS         int64 // what ComparedNS would take alone, by medians
	OverlapRows     []uint32
	CommSeen        bool
	BackwardNS      int64 // kernels that backward launched
	RecomputeNS     int64 // of them: operators of forward, with kernels that forward launched too
	RecomputeRows   []uint32
	Launches        int64         // kernels, collectives left out
	Sequences       []SequenceRow // repeated rows of kernels that could be one, most launches saved first; at most 20
	SequencesSaved  int64         // launches that fusing all of them leaves out, the ones not listed included
	SequencesKernNS int64         // time of their kernels
}

// WorkRow is an operator of one shape and type.
type WorkRow struct {
	Kind       string // conv, attention, memory: one that only moves data
	Op         string
	DType      string
	TensorCore int8
	FLOP       float64 // a call
	Bytes      float64 // a call: inputs and output once
	Count      int64
	Dur        int64
	Row        uint32
}

// SequenceRow is kernels that follow each other on one stream, again and again.
type SequenceRow struct {
	Names []string
	Count int64
	Dur   int64
	Saved int64 // launches that one kernel in their place leaves out
	Row   uint32
}

// PhaseShare is time of the host's window inside ranges that name the same phase: rollout, generator.
type PhaseShare struct {
	Name string
	NS   int64
}
