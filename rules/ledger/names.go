package ledger

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpureport/ingest/timeline"
)

// KernelInfo is what a kernel's name tells.
type KernelInfo struct {
	Class      Class
	TensorCore int8   // 1 yes, 0 cannot be told, -1 no
	DType      string // "" unknown
	Comm       bool
	Primitive  string // of a communication kernel; unknown where the name does not say
	Layout     bool   // only changes the order of a tensor
	Tiled      bool   // a product whose blocks are tiles of equal work
	Fusable    bool   // of a kind that a compiler makes one kernel of, if several follow each other
}

// maxName bounds what of a name is searched; demangled names reach kilobytes, hostile ones more.
const maxName = 4096

// Kernel classes a kernel's name.
func (t *Tables) Kernel(name string) KernelInfo {
	if len(name) > maxName {
		name = name[:maxName]
	}
	low := strings.ToLower(name)
	for i := range t.comm {
		if t.comm[i].match(low) {
			k := KernelInfo{Class: ClassComm, Comm: true, Primitive: t.comm[i].primitive}
			if k.Primitive == "" {
				k.Primitive = t.Primitive(low)
			}
			k.DType = t.dtype(low)
			return k
		}
	}
	k := KernelInfo{Class: ClassOther}
	does := t.whose.Replace(low)
	for i := range t.classes {
		if t.classes[i].match(does) {
			k.Class = t.classes[i].class
			break
		}
	}
	k.DType = t.dtype(low)
	k.Layout = k.Class == ClassCopyCast && containsAny(low, t.layout)
	k.Tiled = (k.Class == ClassMatmul || k.Class == ClassConv) && !containsAny(low, t.waveFree)
	k.Fusable = fusable(k.Class) && !containsAny(low, t.notFused)
	switch k.Class {
	case ClassMatmul, ClassConv, ClassAttention:
		switch {
		case containsAny(low, t.tcYes):
			k.TensorCore = 1
		case containsAny(low, t.tcNo):
			k.TensorCore = -1
		}
	}
	return k
}

func (t *Tables) dtype(low string) string {
	for i := range t.dtypes {
		if t.dtypes[i].match(low) {
			return t.dtypes[i].dtype
		}
	}
	return ""
}

// Primitive turns a word for a collective (a kernel's name, an argument, an annotation) into a primitive; "unknown" if none is in it.
func (t *Tables) Primitive(word string) string {
	word = strings.ToLower(word)
	for i := range t.prims {
		if t.prims[i].match(word) {
			return t.prims[i].primitive
		}
	}
	return "unknown"
}

// annoWord gives the interruption that a user annotation's words name: evCheckpoint, evValidation, evLogging or evNone.
func (t *Tables) annoWord(name string) evidence {
	if len(name) > maxName {
		name = name[:maxName]
	}
	if containsAny(strings.ToLower(name), t.annoNot) {
		return evNone
	}
	words := splitWords(name)
	for i, ev := range []evidence{evCheckpoint, evValidation, evLogging} {
		for _, w := range t.words[i].words {
			if hasWords(words, w) {
				return ev
			}
		}
	}
	return evNone
}

// namesStep tells whether a range is named after a step: "step 12", "Iteration_5 of 10", "train_step".
func (t *Tables) namesStep(name string) bool {
	if len(name) > 64 {
		return false
	}
	words := splitWords(name)
	if n := len(words); n > 1 && (words[n-1] == "to" || words[n-1] == "of") {
		words = words[:n-1]
	}
	for _, w := range t.stepWords {
		if slices.Equal(words, w.words) && (!w.number || strings.ContainsAny(name, "0123456789")) {
			return true
		}
	}
	return false
}

// hasWords tells whether want stands in words, in a row; want's words may end in *.
func hasWords(words, want []string) bool {
	if len(want) == 0 {
		return false
	}
next:
	for i := 0; i+len(want) <= len(words); i++ {
		for j, w := range want {
			head, star := strings.CutSuffix(w, "*")
			if words[i+j] != w && (!star || !strings.HasPrefix(words[i+j], head)) {
				continue next
			}
		}
		return true
	}
	return false
}

// splitWords cuts a name at everything that is no letter and at changes of case, and lowers the words: runValLoop is run val loop.
func splitWords(s string) []string {
	var out []string
	start, prev := -1, rune(0)
	flush := func(end int) {
		if start >= 0 && end > start {
			out = append(out, strings.ToLower(s[start:end]))
		}
		start = -1
	}
	for i, r := range s {
		switch {
		case !unicode.IsLetter(r):
			flush(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && !unicode.IsUpper(prev):
			flush(i)
			start = i
		case unicode.IsUpper(prev) && unicode.IsUpper(r):
			// HTTPSave: the last capital before small letters begins a word.
			if next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):]); unicode.IsLower(next) {
				flush(i)
				start = i
			}
		}
		prev = r
	}
	flush(len(s))
	return out
}

// evidence is what a host thread shows at an instant, in the order of precedence of the slice table: the lowest wins.
type evidence uint8

const (
	evProfiler evidence = iota + 1
	evCheckpoint
	evValidation
	evLogging
	evLoader
	evAlloc
	evCompile
	evStaging // inside a pageable or blocking host-to-device copy call
	evSync
	evAPI
	evCopyCall // inside a copy call that does not block
	evOp
	evNone
)

// Call kinds by name.
type callKind uint8

const (
	callOther callKind = iota
	callSync
	callBlockingCopy
	callCopy
	callFill
	callAlloc
	callModule
	callLaunch
)

// Flags of host names.
const (
	flagStep       uint32 = 1 << iota // ProfilerStep#
	flagOptimizer                     // Optimizer.step#
	flagLoader                        // next() of a loader, as annotation or operator
	flagMulti                         // ... of the multi-worker one
	flagSingle                        // ... of the single-process one
	flagLoaderPy                      // the same as a Python frame
	flagMark                          // a range, not work, even where the file calls it an operator
	flagCompile                       // compilation, by the name of an operator, annotation or frame
	flagOverhead                      // overhead that is module loading
	flagItem                          // reads one value back
	flagCast                          // may convert a type
	flagMatmul                        // matrix product
	flagConv                          // convolution
	flagGraph                         // graph launch
	flagCastAlways                    // cast whatever the types say: aten::to and its kin launch kernels only then
	flagColl                          // names a collective: nccl:* ranges and c10d operators
	flagParams                        // record_param_comms
	flagInStep                        // a Python frame that no step lies in
	flagPin                           // pins batches
	flagStepName                      // as an annotation: what a training loop calls a step
	flagBackward                      // backward of an operator or of the model
	flagForward                       // operator of forward that backward's formulas do not use
	flagLayout                        // may change the order of a tensor in memory
	flagUnused                        // DDP looks for parameters without a gradient
	flagTokens                        // turns text into tokens
	flagCollect                       // collects garbage
	flagWorker                        // a Python frame that starts a process
)

type hostInfo struct {
	seen  bool // as the name of a call, operator or annotation
	frame bool // as the name of a Python frame: few flags are set
	call  callKind
	word  evidence
	flags uint32
}

// names caches what the tables say of each interned name: a name is looked at once, however many spans carry it.
type names struct {
	t      *Tables
	tl     *timeline.Timeline
	host   []hostInfo
	kernel []KernelInfo
}

func newNames(t *Tables, tl *timeline.Timeline) *names {
	n := tl.Names.Len()
	return &names{t: t, tl: tl, host: make([]hostInfo, n), kernel: make([]KernelInfo, n)}
}

func (n *names) kernelOf(id timeline.StringID) *KernelInfo {
	k := &n.kernel[id]
	if k.Class == NoClass {
		*k = n.t.Kernel(n.tl.Names.Get(id))
	}
	return k
}

func (n *names) hostOf(id timeline.StringID) *hostInfo {
	h := &n.host[id]
	if h.seen {
		return h
	}
	*h = n.t.hostName(n.tl.Names.Get(id))
	return h
}

// frameOf is hostOf for Python frames, of which there are very many: it looks for little.
func (n *names) frameOf(id timeline.StringID) *hostInfo {
	h := &n.host[id]
	if h.seen || h.frame {
		return h
	}
	name := n.tl.Names.Get(id)
	low := strings.ToLower(name[:min(len(name), maxName)])
	h.frame = true
	if containsAny(low, n.t.loadFrm) {
		h.flags |= flagLoaderPy
	}
	if containsAny(low, n.t.inStep) {
		h.flags |= flagInStep
	}
	if n.t.compiles(low) {
		h.flags |= flagCompile
	}
	h.flags |= n.t.heldFrame(low)
	return h
}

// compiles tells whether the name of an operator, annotation or frame is compilation.
func (t *Tables) compiles(low string) bool {
	return containsAny(low, t.calls.CompileSpans) && !containsAny(low, t.calls.CompileNot)
}

func (t *Tables) hostName(name string) hostInfo {
	if len(name) > maxName {
		name = name[:maxName]
	}
	c := &t.calls
	low := strings.ToLower(name)
	h := hostInfo{seen: true}
	switch {
	case begins(name, c.Sync):
		h.call = callSync
	case begins(name, c.BlockingCopy):
		h.call = callBlockingCopy
	case begins(name, c.Copy):
		h.call = callCopy
	case begins(name, c.Fill):
		h.call = callFill
	case begins(name, c.Allocator):
		h.call = callAlloc
	case begins(name, c.ModuleLoad):
		h.call = callModule
	case begins(name, c.Launch):
		h.call = callLaunch
	}
	set := func(f uint32, on bool) {
		if on {
			h.flags |= f
		}
	}
	set(flagGraph, begins(name, c.Graph))
	set(flagStep, startsAny(low, t.step))
	set(flagOptimizer, startsAny(low, t.optim))
	set(flagLoader, containsAny(low, t.loadAnno))
	set(flagMulti, containsAny(low, t.multi))
	set(flagSingle, containsAny(low, t.single))
	set(flagLoaderPy, containsAny(low, t.loadFrm))
	set(flagInStep, containsAny(low, t.inStep))
	set(flagMark, startsAny(low, t.marks))
	set(flagCompile, t.compiles(low))
	set(flagOverhead, containsAny(low, c.OverheadCompile))
	set(flagItem, begins(name, c.Item))
	set(flagCast, begins(name, c.Cast))
	set(flagCastAlways, begins(name, c.Cast) && name != "aten::copy_")
	set(flagMatmul, begins(name, c.Matmul))
	set(flagConv, begins(name, c.Conv))
	set(flagColl, startsAny(low, t.collSpans))
	set(flagForward, begins(name, c.ForwardOps) && !strings.Contains(low, "backward"))
	set(flagLayout, begins(name, c.LayoutOps))
	set(flagParams, name == "record_param_comms")
	set(flagStepName, t.namesStep(name))
	set(flagPin, containsAny(low, t.waits.PinThreads))
	set(flagBackward, containsAny(low, t.backward) && !strings.Contains(low, "forward")) // one range around both says nothing
	set(flagUnused, containsAny(low, t.unused))
	set(flagTokens, t.tokenizes(name, low))
	set(flagCollect, containsAny(low, t.gcSpans))
	h.flags |= t.heldFrame(low) &^ flagTokens // a name may be a range here and a frame there
	h.word = t.annoWord(name)
	return h
}

func startsAny(s string, list []string) bool {
	for _, w := range list {
		if strings.HasPrefix(s, w) {
			return true
		}
	}
	return false
}

// evidenceOf is what a span on a host thread shows while it is open; evNone: nothing.
func evidenceOf(kind timeline.SpanKind, h *hostInfo) evidence {
	switch kind {
	case timeline.KindOverhead:
		if h.flags&flagOverhead != 0 {
			return evCompile
		}
		return evProfiler
	case timeline.KindAnnotation:
		switch {
		case h.flags&flagLoader != 0:
			return evLoader
		case h.word != evNone:
			return h.word
		case h.flags&flagCompile != 0:
			return evCompile
		}
	case timeline.KindOp:
		switch {
		case h.flags&flagLoader != 0:
			return evLoader
		case h.flags&flagMark != 0:
			return evNone
		case h.flags&flagCompile != 0:
			return evCompile
		}
		return evOp
	case timeline.KindPython:
		switch {
		case h.flags&flagLoaderPy != 0:
			return evLoader
		case h.flags&flagCompile != 0:
			return evCompile
		}
	case timeline.KindAPI:
		switch h.call {
		case callSync:
			return evSync
		case callBlockingCopy, callCopy:
			return evCopyCall
		case callAlloc:
			return evAlloc
		case callModule:
			return evCompile
		}
		return evAPI
	}
	return evNone
}
