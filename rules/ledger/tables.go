package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Tables are the data files of rules/tables, compiled. They are read-only after LoadTables and safe for concurrent use.
type Tables struct {
	GPUs    []GPU
	Links   Links
	Reasons []Reason
	Xids    []Xid // by code

	classes    []classRule
	inOpt      [nClasses]bool
	tcYes      []string
	tcNo       []string
	layout     []string          // kernels that only change the order of a tensor
	waveFree   []string          // products without a last wave
	whose      *strings.Replacer // takes words out of a kernel's name that do not say what it does
	notFused   []string          // kernels that no compiler makes one of with their neighbours
	modelPhase [][]string        // words of ranges that name what one of several models does
	dtypes     []dtypeRule
	comm       []commRule
	prims      []primRule
	collSpans  []string
	sym        map[string]bool
	busbw      map[string]busFactor
	payload    map[string]string
	elem       map[string]int64
	words      [3]wordList // checkpoint, validation, logging
	annoNot    []string
	loadAnno   []string
	loadFrm    []string
	inStep     []string
	multi      []string
	single     []string
	marks      []string
	step       []string
	stepWords  []stepWord
	optim      []string
	backward   []string   // operators and ranges of backward
	unused     []string   // DDP's search for parameters without a gradient
	tokenWords [][]string // of ranges and operators that turn text into tokens
	tokFrames  []string   // Python frames that do
	tokFrNot   []string
	tokNot     []string // names that hold such a word and mean something else
	gcSpans    []string // ranges and frames of a garbage collection
	starts     []string // words of a frame that starts a process
	calls      callLists
	waits      waitLists
	unlike     []string
	mig        map[string]int
}

// GPU is one row of gpus.yaml. Peaks are dense FLOP/s, bandwidths bytes/s, 0 unknown or none.
type GPU struct {
	ID         string
	Vendor     string
	CC         string
	SMs        int
	FP32, TF32 float64
	FP32Matrix float64 // FP32 on matrix units; 0: the part has none for it, or its rate is FP32's
	Half, FP8  float64 // Half: fp16 and, where BF16, bf16
	BF16       bool
	GB         []int   // sizes of memory it is sold with, decimal GB as in its name
	BW         float64 // device memory
	TDP        float64 // W
	BaseHz     float64
	BoostHz    float64 // the clock behind the peaks
	MaxHz      float64 // what the device shows as its maximum, where that is another
	PCIe       int     // generation, x16
	NVLink     float64 // both directions, bytes/s; 0 none
	NVLinks    int     // links; 0 unknown
	Achievable float64 // best real matmul as a share of Half; 0 nobody measured
	Conf       string  // A, B, C as in the file
	Names      []string
	Exact      bool
}

// Peak is the dense peak of a type by its name in KernelRow.DType, FLOP/s; 0 unknown.
func (g *GPU) Peak(dtype string) float64 {
	switch dtype {
	case "fp32":
		return g.FP32
	case "fp32-matrix":
		return max(g.FP32, g.FP32Matrix)
	case "tf32":
		return g.TF32
	case "fp16":
		return g.Half
	case "bf16":
		if g.BF16 {
			return g.Half
		}
	case "fp8":
		return g.FP8
	}
	return 0
}

// Links is links.yaml. Rates are bytes/s in one direction.
type Links struct {
	PCIeX16     map[int]float64 // by generation
	PCIeHealthy float64         // share of the link that healthy pinned copies of 1 MiB and more reach
	NVLink      []NVLink
	RingFrac    float64 // share of NVLink that a healthy ring all-reduce of GiBs reaches
	NICPer400G  float64
	Curves      []BusCurve
	Models      []BusModel
}

// NVLink is one generation.
type NVLink struct {
	Gen     int
	Rate    float64 // one GPU, one direction
	LinkRaw float64 // what nvidia-smi nvlink -s shows for one link
	Links   int
}

// BusCurve is healthy all-reduce busbw by message size, measured.
type BusCurve struct {
	GPUs         []string // GPU ids
	Ranks, Nodes int
	Bytes, Rate  []float64 // rising sizes, bytes/s
}

// BusModel is the time that a healthy collective takes over a kind of link where no curve was measured: latency, then bytes at a rate.
type BusModel struct {
	Link     string  // nvlink, pcie, or host for the network adapters of one host together
	CC       string  // how the compute capability begins; "" any
	Latency  float64 // s
	RateFrac float64 // of the link's one direction
	Source   string
}

// Model gives the model of a kind of link on a part.
func (l *Links) Model(link, cc string) (BusModel, bool) {
	for _, m := range l.Models {
		if m.Link == link && strings.HasPrefix(cc, m.CC) {
			return m, true
		}
	}
	return BusModel{}, false
}

// BusBW is the busbw of a collective that moves so many bytes by the busbw convention over a link of so many bytes/s; small where latency
// is more than half of its time, so that it says little of the link.
func (m *BusModel) BusBW(moved, link float64) (rate float64, small bool) {
	t := moved / (link * m.RateFrac)
	return moved / (m.Latency + t), t < m.Latency
}

// Reason is one clock event reason bit.
type Reason struct {
	Bit   uint64
	Name  string
	Means string
	Rule  string // rule id that judges it; "" none
}

// PCIe is the one-direction rate of a link; 0 unknown.
func (l *Links) PCIe(gen, width int) float64 { return l.PCIeX16[gen] * float64(width) / 16 }

// Expect is the healthy all-reduce busbw of a message on a part, by linear interpolation on the
// curve with the same number of nodes; ok is false where nobody measured that part or size (smaller than the first point).
func (l *Links) Expect(gpuID string, nodes int, bytes int64) (rate float64, ok bool) {
	for i := range l.Curves {
		c := &l.Curves[i]
		if c.Nodes != nodes || !contains(c.GPUs, gpuID) {
			continue
		}
		b := float64(bytes)
		n := len(c.Bytes)
		if n == 0 || b < c.Bytes[0] {
			return 0, false
		}
		if b >= c.Bytes[n-1] {
			return c.Rate[n-1], true
		}
		j := sort.SearchFloat64s(c.Bytes, b)
		if c.Bytes[j] == b {
			return c.Rate[j], true
		}
		f := (b - c.Bytes[j-1]) / (c.Bytes[j] - c.Bytes[j-1])
		return c.Rate[j-1] + f*(c.Rate[j]-c.Rate[j-1]), true
	}
	return 0, false
}

type busFactor struct {
	Num   float64 `yaml:"num"`
	Minus float64 `yaml:"minus"`
}

// BusFactor turns bytes/transfer time into busbw for a group of n; ok is false for a primitive without a convention.
func (t *Tables) BusFactor(primitive string, n int) (f float64, ok bool) {
	b, ok := t.busbw[primitive]
	if !ok || n < 1 {
		return 0, false
	}
	if b.Minus == 0 {
		return b.Num, true
	}
	return b.Num * (float64(n) - b.Minus) / float64(n), true
}

// Symmetric tells whether no member can finish before the last came.
func (t *Tables) Symmetric(primitive string) bool { return t.sym[primitive] }

// ReasonBits names the reasons of a bit mask, in bit order; unknown bits as hex.
func (t *Tables) ReasonBits(mask uint64) []string {
	var out []string
	for b := uint64(1); b != 0 && b <= mask; b <<= 1 {
		if mask&b == 0 {
			continue
		}
		name := fmt.Sprintf("0x%x", b)
		for _, r := range t.Reasons {
			if r.Bit == b {
				name = r.Name
			}
		}
		out = append(out, name)
	}
	return out
}

// GPUMatch is what is known of a device by the table.
type GPUMatch struct {
	GPU       *GPU     // nil: not in the table, or ambiguous
	How       string   // name, name and memory, SMs and memory
	Ambiguous []string // ids left when more than one fits
	SMFrac    float64  // share of the full part's SMs (MIG); peaks scale by it
	BWFrac    float64  // share of the full part's bandwidth
}

// FindGPU matches a device by name, memory (bytes, 0 unknown), SMs (0 unknown) and compute capability ("" unknown).
func (t *Tables) FindGPU(name string, memory int64, sms int, cc string) GPUMatch {
	m := GPUMatch{SMFrac: 1, BWFrac: 1}
	base, profile, isMIG := strings.Cut(strings.TrimSpace(name), " MIG ")
	if isMIG {
		memory = 0
	}
	low := strings.ToLower(base)
	for _, u := range t.unlike {
		if strings.Contains(low, u) {
			return m
		}
	}
	for i := range t.GPUs {
		g := &t.GPUs[i]
		for _, n := range g.Names {
			if !strings.EqualFold(n, base) {
				continue
			}
			m.GPU, m.How = g, "name"
			if isMIG {
				m.How = "name of the whole card, MIG " + profile
				if s, ok := t.mig[strings.ToLower(profile)]; ok {
					m.BWFrac = float64(s) / 8
				}
			}
			if sms > 0 && g.SMs > 0 && sms < g.SMs {
				m.SMFrac = float64(sms) / float64(g.SMs)
			}
			return m
		}
	}
	// A cut-off name ("NVIDIA A100-SXM...") with the size of its memory.
	if head, cut := strings.CutSuffix(base, "..."); cut && len(head) >= 6 {
		var fit []*GPU
		for i := range t.GPUs {
			g := &t.GPUs[i]
			for _, n := range g.Names {
				if len(n) >= len(head) && strings.EqualFold(n[:len(head)], head) && fitsMemory(g, memory) {
					fit = append(fit, g)
					break
				}
			}
		}
		return pick(m, fit, "beginning of the name and memory")
	}
	return t.byShape(m, memory, sms, cc, strings.Contains(low, "amd") || strings.Contains(low, "radeon") || strings.Contains(low, "instinct"))
}

func pick(m GPUMatch, fit []*GPU, how string) GPUMatch {
	switch len(fit) {
	case 0:
	case 1:
		m.GPU, m.How = fit[0], how
	default:
		for _, g := range fit {
			m.Ambiguous = append(m.Ambiguous, g.ID)
		}
	}
	return m
}

func (t *Tables) byShape(m GPUMatch, memory int64, sms int, cc string, amd bool) GPUMatch {
	if sms == 0 || memory == 0 || (cc == "" && !amd) {
		return m
	}
	var fit []*GPU
	for i := range t.GPUs {
		g := &t.GPUs[i]
		if g.Exact || (g.Vendor == "amd") != amd || g.SMs != sms || !fitsMemory(g, memory) || (!amd && g.CC != cc) {
			continue
		}
		fit = append(fit, g)
	}
	return pick(m, fit, "SMs, memory and compute capability")
}

// fitsMemory compares what a device reports (a little under or over the number in its name, GiB or GB) with a row's sizes.
func fitsMemory(g *GPU, bytes int64) bool {
	for _, gb := range g.GB {
		if f := float64(bytes) / 1e9 / float64(gb); f > 0.90 && f < 1.09 {
			return true
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// ---- loading ----

type matcher struct {
	any, not []string
	re       *regexp.Regexp
}

func (m *matcher) match(low string) bool {
	hit := containsAny(low, m.any) || (m.re != nil && m.re.MatchString(low))
	return hit && !containsAny(low, m.not)
}

func containsAny(s string, list []string) bool {
	for _, w := range list {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

type (
	classRule struct {
		matcher
		class Class
	}
	dtypeRule struct {
		matcher
		dtype string
	}
	commRule struct {
		matcher
		primitive string
	}
	primRule struct {
		matcher
		primitive string
	}
)

// Class is a kernel class.
type Class uint8

// Kernel classes. NoClass is what was never looked at.
const (
	NoClass Class = iota
	ClassMatmul
	ClassConv
	ClassAttention
	ClassElementwise
	ClassReduce
	ClassNorm
	ClassOptimizer
	ClassCopyCast
	ClassComm
	ClassMemset
	ClassOther
	nClasses
)

var classNames = [nClasses]string{"", "matmul", "conv", "attention", "elementwise", "reduce", "norm", "optimizer", "copy-cast", "comm", "memset", "other"}

func (c Class) String() string {
	if c < nClasses {
		return classNames[c]
	}
	return "invalid"
}

func parseClass(s string) (Class, bool) {
	for i, n := range classNames {
		if i > 0 && n == s {
			return Class(i), true
		}
	}
	return 0, false
}

// loader collects every error of every file.
type loader struct {
	fsys fs.FS
	site []SiteTable
	errs []loadErr
}

type loadErr struct {
	file string
	line int
	msg  string
}

func (l *loader) fail(file string, line int, format string, a ...any) {
	l.errs = append(l.errs, loadErr{file, line, fmt.Sprintf(format, a...)})
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// read decodes one file strictly.
func (l *loader) read(name string, v any) {
	b, err := fs.ReadFile(l.fsys, name)
	if err != nil {
		l.fail(name, 1, "cannot be read: %v: the tables folder must hold it", err)
		return
	}
	if l.layered(name, b, v) {
		return
	}
	dec := yaml.NewDecoder(strings.NewReader(string(b)))
	dec.KnownFields(true)
	if err := dec.Decode(v); err != nil {
		l.yamlErr(name, err)
	}
}

// yamlFault reports one message of the YAML library, which begins with its line.
func (l *loader) yamlFault(name, m string) {
	line := 1
	if s := yamlLine.FindStringSubmatch(m); s != nil {
		line, _ = strconv.Atoi(s[1])
		m = s[2]
	}
	l.fail(name, line, "%s", m)
}

// at remembers where a list item stands: yaml nodes are decoded beside the values.
type at[T any] struct {
	V    T
	Line int
}

func (a *at[T]) UnmarshalYAML(n *yaml.Node) error {
	a.Line = n.Line
	if err := knownKeys(n, reflect.TypeOf(a.V)); err != nil {
		return err
	}
	return n.Decode(&a.V)
}

// knownKeys refuses keys that a struct has no field for; KnownFields does not reach through UnmarshalYAML.
func knownKeys(n *yaml.Node, t reflect.Type) error {
	if n.Kind != yaml.MappingNode || t.Kind() != reflect.Struct {
		return nil
	}
	var bad []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		ok := false
		for j := 0; j < t.NumField(); j++ {
			tag, _, _ := strings.Cut(t.Field(j).Tag.Get("yaml"), ",")
			ok = ok || tag == n.Content[i].Value
		}
		if !ok {
			bad = append(bad, fmt.Sprintf("line %d: unknown key %s", n.Content[i].Line, n.Content[i].Value))
		}
	}
	if bad != nil {
		return &yaml.TypeError{Errors: bad}
	}
	return nil
}

type rawRule struct {
	Class     string   `yaml:"class"`
	DType     string   `yaml:"dtype"`
	Primitive string   `yaml:"primitive"`
	Any       []string `yaml:"any"`
	Not       []string `yaml:"not"`
	Re        string   `yaml:"re"`
}

func (l *loader) matcher(file string, r at[rawRule]) matcher {
	m := matcher{any: lower(r.V.Any), not: lower(r.V.Not)}
	if r.V.Re != "" {
		re, err := regexp.Compile(r.V.Re)
		if err != nil {
			l.fail(file, r.Line, "re: %v", err)
		}
		m.re = re
	}
	if len(m.any) == 0 && m.re == nil {
		l.fail(file, r.Line, "the rule matches nothing: give any or re")
	}
	for _, s := range m.any {
		if s == "" {
			l.fail(file, r.Line, "an empty text in any matches every name")
		}
	}
	return m
}

func lower(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.ToLower(s)
	}
	return out
}

// LoadTables reads kernels, collectives, annotations, calls, waits, gpus, links, reasons and xids (.yaml) from fsys or its folder tables. The
// error holds every fault of every file, one a line, as tables/file:line: what. A site's files are laid over those of their names.
func LoadTables(fsys fs.FS, site ...SiteTable) (*Tables, error) {
	if info, err := fs.Stat(fsys, "tables"); err == nil && info.IsDir() {
		if sub, err := fs.Sub(fsys, "tables"); err == nil {
			fsys = sub
		}
	}
	l := &loader{fsys: fsys, site: site}
	t := &Tables{}
	l.strange()
	l.kernels(t)
	l.collectives(t)
	l.annotations(t)
	l.calls(t)
	l.waits(t)
	l.gpus(t)
	l.links(t)
	l.reasons(t)
	l.xids(t)
	if len(l.errs) == 0 {
		return t, nil
	}
	sort.SliceStable(l.errs, func(i, j int) bool {
		a, b := l.errs[i], l.errs[j]
		if a.file != b.file {
			return a.file < b.file
		}
		return a.line < b.line
	})
	var errs []error
	for _, e := range l.errs {
		errs = append(errs, fmt.Errorf("%s: %s", l.placeOf(e.file, e.line), e.msg))
	}
	return nil, errors.Join(errs...)
}

func (l *loader) kernels(t *Tables) {
	const file = "kernels.yaml"
	var raw struct {
		Classes []at[rawRule] `yaml:"classes"`
		InOpt   []at[string]  `yaml:"in_optimizer"`
		TC      struct {
			Yes []string `yaml:"yes"`
			No  []string `yaml:"no"`
		} `yaml:"tensor_core"`
		Layout   []string      `yaml:"layout"`
		WaveFree []string      `yaml:"wave_free"`
		Whose    []string      `yaml:"whose"`
		NotFused []string      `yaml:"not_fused"`
		DTypes   []at[rawRule] `yaml:"dtypes"`
	}
	l.read(file, &raw)
	for _, r := range raw.Classes {
		c, ok := parseClass(r.V.Class)
		if !ok {
			l.fail(file, r.Line, "unknown class %q: one of matmul conv attention elementwise reduce norm optimizer copy-cast other", r.V.Class)
		}
		t.classes = append(t.classes, classRule{l.matcher(file, r), c})
	}
	for _, s := range raw.InOpt {
		c, ok := parseClass(s.V)
		if !ok {
			l.fail(file, s.Line, "unknown class %q", s.V)
			continue
		}
		t.inOpt[c] = true
	}
	t.layout, t.waveFree, t.notFused = lower(raw.Layout), lower(raw.WaveFree), lower(raw.NotFused)
	var out []string
	for _, w := range lower(raw.Whose) {
		out = append(out, w, "")
	}
	t.whose = strings.NewReplacer(out...)
	t.tcYes, t.tcNo = lower(raw.TC.Yes), lower(raw.TC.No)
	for _, r := range raw.DTypes {
		if r.V.DType == "" {
			l.fail(file, r.Line, "dtype is missing")
		}
		t.dtypes = append(t.dtypes, dtypeRule{l.matcher(file, r), r.V.DType})
	}
}

var primitiveNames = []string{"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "send-recv", "all-to-all", "barrier", "other", "unknown"}

func (l *loader) collectives(t *Tables) {
	const file = "collectives.yaml"
	var raw struct {
		Kernels    []at[rawRule]        `yaml:"kernels"`
		Primitives []at[rawRule]        `yaml:"primitives"`
		Spans      []string             `yaml:"spans"`
		Symmetric  []at[string]         `yaml:"symmetric"`
		BusBW      map[string]busFactor `yaml:"busbw"`
		Payload    map[string]string    `yaml:"payload"`
		Elem       map[string]int64     `yaml:"dtype_bytes"`
	}
	l.read(file, &raw)
	prim := func(line int, p string) {
		if !contains(primitiveNames, p) {
			l.fail(file, line, "unknown primitive %q: one of %s", p, strings.Join(primitiveNames, " "))
		}
	}
	for _, r := range raw.Kernels {
		if r.V.Primitive != "" {
			prim(r.Line, r.V.Primitive)
		}
		t.comm = append(t.comm, commRule{l.matcher(file, r), r.V.Primitive})
	}
	for _, r := range raw.Primitives {
		prim(r.Line, r.V.Primitive)
		t.prims = append(t.prims, primRule{l.matcher(file, r), r.V.Primitive})
	}
	t.collSpans = lower(raw.Spans)
	t.sym = map[string]bool{}
	for _, s := range raw.Symmetric {
		prim(s.Line, s.V)
		t.sym[s.V] = true
	}
	t.busbw, t.payload, t.elem = raw.BusBW, raw.Payload, raw.Elem
}

type wordList struct{ words [][]string }

// stepWord is the name of a step's range; with number, only if one is in it.
type stepWord struct {
	words  []string
	number bool
}

func (l *loader) annotations(t *Tables) {
	const file = "annotations.yaml"
	var raw struct {
		Checkpoint []string `yaml:"checkpoint"`
		Validation []string `yaml:"validation"`
		Logging    []string `yaml:"logging"`
		Not        []string `yaml:"not"`
		Loader     struct {
			Annotations []string `yaml:"annotations"`
			Frames      []string `yaml:"frames"`
			Multi       []string `yaml:"multi"`
			Single      []string `yaml:"single"`
		} `yaml:"loader"`
		Inside    []string `yaml:"inside_step"`
		Marks     []string `yaml:"marks"`
		Step      []string `yaml:"step"`
		StepWords []string `yaml:"step_words"`
		Optimizer []string `yaml:"optimizer"`
		Backward  []string `yaml:"backward"`
		Unused    []string `yaml:"unused_search"`
		Phases    []string `yaml:"model_phases"`
		Tokenize  struct {
			Words  []string `yaml:"words"`
			Frames []string `yaml:"frames"`
			FNot   []string `yaml:"frames_not"`
			Not    []string `yaml:"not"`
		} `yaml:"tokenize"`
		Collect []string `yaml:"garbage_collection"`
		Starts  []string `yaml:"process_start"`
	}
	l.read(file, &raw)
	for i, list := range [][]string{raw.Checkpoint, raw.Validation, raw.Logging} {
		for _, w := range list {
			t.words[i].words = append(t.words[i].words, strings.Fields(strings.ToLower(w)))
		}
	}
	t.annoNot = lower(raw.Not)
	t.loadAnno, t.loadFrm = lower(raw.Loader.Annotations), lower(raw.Loader.Frames)
	t.inStep = lower(raw.Inside)
	for _, w := range raw.Phases {
		t.modelPhase = append(t.modelPhase, strings.Fields(strings.ToLower(w)))
	}
	for _, w := range raw.Tokenize.Words {
		t.tokenWords = append(t.tokenWords, strings.Fields(strings.ToLower(w)))
	}
	t.tokFrames, t.tokFrNot, t.tokNot = lower(raw.Tokenize.Frames), lower(raw.Tokenize.FNot), lower(raw.Tokenize.Not)
	t.gcSpans, t.starts = lower(raw.Collect), lower(raw.Starts)
	t.backward, t.unused = lower(raw.Backward), lower(raw.Unused)
	t.multi, t.single = lower(raw.Loader.Multi), lower(raw.Loader.Single)
	t.marks, t.step, t.optim = lower(raw.Marks), lower(raw.Step), lower(raw.Optimizer)
	for _, w := range raw.StepWords {
		head, number := strings.CutSuffix(strings.ToLower(w), " 0")
		t.stepWords = append(t.stepWords, stepWord{strings.Fields(head), number})
	}
}

type callLists struct {
	Sync            []string `yaml:"sync"`
	BlockingCopy    []string `yaml:"blocking_copy"`
	Copy            []string `yaml:"copy"`
	Fill            []string `yaml:"fill"`
	Allocator       []string `yaml:"allocator"`
	ModuleLoad      []string `yaml:"module_load"`
	Launch          []string `yaml:"launch"`
	Graph           []string `yaml:"graph"`
	CompileSpans    []string `yaml:"compile_spans"`
	CompileNot      []string `yaml:"compile_not"`
	OverheadCompile []string `yaml:"overhead_compile"`
	Item            []string `yaml:"item"`
	Cast            []string `yaml:"cast"`
	Matmul          []string `yaml:"matmul"`
	Conv            []string `yaml:"conv"`
	ConvTrials      int      `yaml:"conv_trials"`
	ForwardOps      []string `yaml:"forward_ops"`
	LayoutOps       []string `yaml:"layout_ops"`
}

func (l *loader) calls(t *Tables) {
	l.read("calls.yaml", &t.calls)
	c := &t.calls
	c.CompileSpans, c.CompileNot, c.OverheadCompile = lower(c.CompileSpans), lower(c.CompileNot), lower(c.OverheadCompile)
	if c.ConvTrials < 2 {
		c.ConvTrials = 8
	}
}

type waitLists struct {
	Lock        []string `yaml:"lock"`
	Interpreter []string `yaml:"interpreter"`
	PinThreads  []string `yaml:"pin_threads"`
}

func (l *loader) waits(t *Tables) {
	l.read("waits.yaml", &t.waits)
	t.waits.PinThreads = lower(t.waits.PinThreads)
}

// begins tells whether s begins with one of list, or equals one written with "=".
func begins(s string, list []string) bool {
	for _, w := range list {
		if eq, ok := strings.CutPrefix(w, "="); ok {
			if s == eq {
				return true
			}
		} else if strings.HasPrefix(s, w) {
			return true
		}
	}
	return false
}

func (l *loader) gpus(t *Tables) {
	const file = "gpus.yaml"
	type row struct {
		ID         string   `yaml:"id"`
		Names      []string `yaml:"names"`
		Vendor     string   `yaml:"vendor"`
		Exact      bool     `yaml:"exact"`
		SMs        int      `yaml:"sms"`
		CC         string   `yaml:"cc"`
		FP32       float64  `yaml:"fp32"`
		TF32       float64  `yaml:"tf32"`
		FP32Matrix float64  `yaml:"fp32_matrix"`
		Half       float64  `yaml:"half"`
		FP8        float64  `yaml:"fp8"`
		BF16       *bool    `yaml:"bf16"`
		GB         []int    `yaml:"gb"`
		BW         float64  `yaml:"bw"`
		TDP        float64  `yaml:"tdp"`
		Base       float64  `yaml:"base_mhz"`
		Boost      float64  `yaml:"boost_mhz"`
		Max        float64  `yaml:"max_mhz"`
		PCIe       int      `yaml:"pcie"`
		NVLink     float64  `yaml:"nvlink"`
		Links      int      `yaml:"links"`
		Achievable float64  `yaml:"achievable"`
		Conf       string   `yaml:"conf"`
	}
	var raw struct {
		GPUs   []at[row] `yaml:"gpus"`
		Unlike []string  `yaml:"unlike"`
		MIG    struct {
			Slices map[string]int `yaml:"memory_slices"`
		} `yaml:"mig"`
	}
	l.read(file, &raw)
	seen := map[string]int{}
	for _, r := range raw.GPUs {
		v := r.V
		if v.ID == "" || v.SMs <= 0 || v.FP32 <= 0 || v.Half <= 0 || v.BW <= 0 || len(v.GB) == 0 {
			l.fail(file, r.Line, "a row needs id, sms, fp32, half, gb and bw")
		}
		if v.Conf != "A" && v.Conf != "B" && v.Conf != "C" {
			l.fail(file, r.Line, "conf %q: A, B or C", v.Conf)
		}
		for _, n := range v.Names {
			if at, dup := seen[strings.ToLower(n)]; dup {
				l.fail(file, r.Line, "name %q also in %s", n, l.placeOf(file, at))
			}
			seen[strings.ToLower(n)] = r.Line
		}
		g := GPU{ID: v.ID, Vendor: v.Vendor, CC: v.CC, SMs: v.SMs, FP32: v.FP32 * 1e12, TF32: v.TF32 * 1e12, FP32Matrix: v.FP32Matrix * 1e12, Half: v.Half * 1e12, FP8: v.FP8 * 1e12,
			BF16: v.BF16 == nil || *v.BF16, GB: v.GB, BW: v.BW * 1e9, TDP: v.TDP, BaseHz: v.Base * 1e6, BoostHz: v.Boost * 1e6, MaxHz: v.Max * 1e6,
			PCIe: v.PCIe, NVLink: v.NVLink * 1e9, NVLinks: v.Links, Achievable: v.Achievable, Conf: v.Conf, Names: v.Names, Exact: v.Exact}
		if g.Vendor == "" {
			g.Vendor = "nvidia"
		}
		t.GPUs = append(t.GPUs, g)
	}
	t.unlike = lower(raw.Unlike)
	t.mig = raw.MIG.Slices
}

func (l *loader) links(t *Tables) {
	const file = "links.yaml"
	type pcie struct {
		Gen int     `yaml:"gen"`
		X16 float64 `yaml:"x16_gbs"`
	}
	type nv struct {
		Gen   int     `yaml:"gen"`
		GBs   float64 `yaml:"gbs"`
		Raw   float64 `yaml:"link_raw_gbs"`
		Links int     `yaml:"links"`
	}
	type curve struct {
		GPUs   []string `yaml:"gpus"`
		Ranks  int      `yaml:"ranks"`
		Nodes  int      `yaml:"nodes"`
		Points [][2]any `yaml:"points"`
	}
	type model struct {
		Link    string  `yaml:"link"`
		CC      string  `yaml:"cc"`
		Latency float64 `yaml:"latency_us"`
		Frac    float64 `yaml:"rate_frac"`
		Source  string  `yaml:"source"`
	}
	var raw struct {
		PCIe     []at[pcie]  `yaml:"pcie"`
		PCIeFrac float64     `yaml:"pcie_healthy_frac"`
		NVLink   []at[nv]    `yaml:"nvlink"`
		Ring     float64     `yaml:"nvlink_ring_frac"`
		NIC      float64     `yaml:"nic_gbs_per_400gbit"`
		Curves   []at[curve] `yaml:"busbw_curves"`
		Models   []at[model] `yaml:"busbw_models"`
	}
	l.read(file, &raw)
	t.Links = Links{PCIeX16: map[int]float64{}, PCIeHealthy: raw.PCIeFrac, RingFrac: raw.Ring, NICPer400G: raw.NIC * 1e9}
	for _, p := range raw.PCIe {
		if p.V.Gen <= 0 || p.V.X16 <= 0 {
			l.fail(file, p.Line, "gen and x16_gbs must be above 0")
		}
		t.Links.PCIeX16[p.V.Gen] = p.V.X16 * 1e9
	}
	for _, n := range raw.NVLink {
		t.Links.NVLink = append(t.Links.NVLink, NVLink{n.V.Gen, n.V.GBs * 1e9, n.V.Raw * 1e9, n.V.Links})
	}
	for _, c := range raw.Curves {
		bc := BusCurve{GPUs: c.V.GPUs, Ranks: c.V.Ranks, Nodes: c.V.Nodes}
		for _, p := range c.V.Points {
			size, ok := parseSize(fmt.Sprint(p[0]))
			rate, err := strconv.ParseFloat(fmt.Sprint(p[1]), 64)
			if !ok || err != nil || (len(bc.Bytes) > 0 && size <= bc.Bytes[len(bc.Bytes)-1]) {
				l.fail(file, c.Line, "point %v: want [size, GB/s] with rising sizes such as 64MiB", p)
				continue
			}
			bc.Bytes, bc.Rate = append(bc.Bytes, size), append(bc.Rate, rate*1e9)
		}
		t.Links.Curves = append(t.Links.Curves, bc)
	}
	for _, m := range raw.Models {
		if m.V.Link == "" || m.V.Latency <= 0 || m.V.Frac <= 0 || m.V.Frac > 1 || m.V.Source == "" {
			l.fail(file, m.Line, "a model needs link, latency_us, rate_frac up to 1 and source")
		}
		t.Links.Models = append(t.Links.Models, BusModel{m.V.Link, m.V.CC, m.V.Latency / 1e6, m.V.Frac, m.V.Source})
	}
}

func parseSize(s string) (float64, bool) {
	for _, u := range []struct {
		name string
		mul  float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if head, ok := strings.CutSuffix(s, u.name); ok {
			f, err := strconv.ParseFloat(head, 64)
			return f * u.mul, err == nil && f > 0
		}
	}
	return 0, false
}

func (l *loader) reasons(t *Tables) {
	const file = "reasons.yaml"
	type row struct {
		Bit   uint64 `yaml:"bit"`
		Name  string `yaml:"name"`
		Means string `yaml:"means"`
		Rule  string `yaml:"rule"`
	}
	var raw struct {
		Reasons []at[row] `yaml:"reasons"`
	}
	l.read(file, &raw)
	for _, r := range raw.Reasons {
		if r.V.Bit == 0 || r.V.Bit&(r.V.Bit-1) != 0 || r.V.Name == "" {
			l.fail(file, r.Line, "a reason needs one bit and a name")
		}
		t.Reasons = append(t.Reasons, Reason{r.V.Bit, r.V.Name, r.V.Means, r.V.Rule})
	}
}
