package nvml

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// num is an integer that may be missing or null. What is no number counts as missing.
type num struct {
	v  int64
	ok bool
}

// UnmarshalJSONFrom keeps 64 bits.
func (n *num) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*n = num{}
	if k := dec.PeekKind(); k != '0' {
		return dec.SkipValue()
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	v, err := tok.Int()
	*n = num{v, err == nil} // a fraction, or past 64 bits: missing
	return nil
}

// word is a text; what is none is "".
type word string

// UnmarshalJSONFrom takes strings only.
func (w *word) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*w = ""
	if k := dec.PeekKind(); k != '"' {
		return dec.SkipValue()
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	*w = word(tok.String())
	return nil
}

// flag is a boolean that may be missing.
type flag struct{ v, ok bool }

// UnmarshalJSONFrom takes true and false only.
func (f *flag) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*f = flag{}
	if k := dec.PeekKind(); k != 't' && k != 'f' {
		return dec.SkipValue()
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	f.v, f.ok = tok.Bool(), true
	return nil
}

// nums is an array of integers; a value that is none leaves it empty. Elements past its end are missing.
type nums []num

// UnmarshalJSONFrom skips what is no array.
func (n *nums) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*n = (*n)[:0]
	if k := dec.PeekKind(); k != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		var v num
		if err := v.UnmarshalJSONFrom(dec); err != nil {
			return err
		}
		*n = append(*n, v)
	}
	_, err := dec.ReadToken()
	return err
}

func (n nums) at(i int) num {
	if i < len(n) {
		return n[i]
	}
	return num{}
}

// list is an array of T; an element that is no T is dropped, and so is a value that is no array.
type list[T any] []T

// UnmarshalJSONFrom skips what is no array.
func (l *list[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*l = nil
	if k := dec.PeekKind(); k != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	*l = list[T]{} // an empty array is not a missing one
	for dec.PeekKind() != ']' {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		var v T
		if json.Unmarshal(raw, &v, lenient) == nil {
			*l = append(*l, v)
		}
	}
	_, err := dec.ReadToken()
	return err
}

// named is an object of arrays, in the file's order.
type named []struct {
	name string
	v    nums
}

// UnmarshalJSONFrom skips what is no object.
func (o *named) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*o = (*o)[:0]
	return object(dec, func(name string) error {
		var v nums
		if err := v.UnmarshalJSONFrom(dec); err != nil {
			return err
		}
		*o = append(*o, struct {
			name string
			v    nums
		}{name, v})
		return nil
	})
}

// counts is an object of integers, in the file's order.
type counts []struct {
	name string
	v    num
}

// UnmarshalJSONFrom skips what is no object.
func (o *counts) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*o = (*o)[:0]
	return object(dec, func(name string) error {
		var v num
		if err := v.UnmarshalJSONFrom(dec); err != nil {
			return err
		}
		*o = append(*o, struct {
			name string
			v    num
		}{name, v})
		return nil
	})
}

func (o counts) of(name string) num {
	for i := range o {
		if o[i].name == name {
			return o[i].v
		}
	}
	return num{}
}

// ratios is an object of numbers, in the file's order.
type ratios []struct {
	name string
	v    float64
}

// UnmarshalJSONFrom skips what is no object.
func (o *ratios) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*o = (*o)[:0]
	return object(dec, func(name string) error {
		if dec.PeekKind() != '0' {
			return dec.SkipValue()
		}
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if v, err := tok.Float(); err == nil {
			*o = append(*o, struct {
				name string
				v    float64
			}{name, v})
		}
		return nil
	})
}

func object(dec *jsontext.Decoder, member func(name string) error) error {
	if k := dec.PeekKind(); k != '{' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := member(tok.String()); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// loads are the three load averages.
type loads []float64

// UnmarshalJSONFrom skips what is no array of numbers.
func (l *loads) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*l = (*l)[:0]
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	var v []float64
	if json.Unmarshal(raw, &v) == nil {
		*l = v
	}
	return nil
}

// kindOf gives k and t, which stand first in what the recorder writes, and anywhere in what others do.
func kindOf(line []byte) (kind string, ok bool) {
	if rest, fast := bytes.CutPrefix(line, []byte(`{"k":"`)); fast {
		if i := bytes.IndexByte(rest, '"'); i >= 0 && i < 16 && bytes.IndexByte(rest[:i], '\\') < 0 {
			return string(rest[:i]), true
		}
	}
	var r struct {
		K word `json:"k"`
	}
	if json.Unmarshal(line, &r, lenient) != nil {
		return "", false
	}
	return string(r.K), r.K != ""
}

type hdrRec struct {
	Schema   word `json:"schema"`
	V        num  `json:"v"`
	Tool     word `json:"tool"`
	Host     word `json:"host"`
	Boot     word `json:"boot_id"`
	PID      num  `json:"pid"`
	Part     num  `json:"part"`
	Start    num  `json:"start_unix_ns"`
	Zone     num  `json:"tz_offset_s"`
	Period   num  `json:"period_ns"`
	Wide     num  `json:"wide_ns"`
	Slow     num  `json:"slow_ns"`
	HZ       num  `json:"hz"`
	Driver   word `json:"driver"`
	CUDA     word `json:"cuda"`
	Redacted flag `json:"redacted"`
	Xids     flag `json:"xids"` // the driver promised to tell those of every GPU
}

type clkRec struct {
	T    num `json:"t"`
	Unix num `json:"unix_ns"`
	Boot num `json:"boot_ns"`
	Unc  num `json:"unc_ns"`
}

type hostRec struct {
	T         num        `json:"t"`
	CPUs      num        `json:"cpus"`
	Sockets   num        `json:"sockets"`
	Model     word       `json:"model"`
	Governor  word       `json:"governor"`
	Mem       num        `json:"mem"`
	BTime     num        `json:"btime"`
	Kernel    word       `json:"kernel"`
	OS        word       `json:"os"`
	Balancing word       `json:"numa_balancing"`
	Set       word       `json:"set"`
	Nodes     list[node] `json:"nodes"`
	Disks     list[disk] `json:"disks"`
	NICs      list[nic]  `json:"nics"`
}

type node struct {
	ID   num  `json:"id"`
	CPUs word `json:"cpus"`
	Mem  num  `json:"mem"`
}

type disk struct {
	Name       word `json:"name"`
	Rotational num  `json:"rotational"`
}

type nic struct {
	Name word `json:"name"`
	PCI  word `json:"pci"`
	NUMA num  `json:"numa"`
	IB   flag `json:"ib"`
	Anc  nums `json:"anc"`
}

type gpuRec struct {
	T         num  `json:"t"`
	I         num  `json:"i"`
	UUID      word `json:"uuid"`
	PCI       word `json:"pci"`
	Name      word `json:"name"`
	VBIOS     word `json:"vbios"`
	CPUs      word `json:"cpus"`
	CC        nums `json:"cc"`
	MemTotal  num  `json:"mem_total"`
	SMMax     num  `json:"sm_max"`
	MemMax    num  `json:"mem_max"`
	SMApp     num  `json:"sm_app"`
	PL        num  `json:"pl"`
	PLDef     num  `json:"pl_def"`
	PLMin     num  `json:"pl_min"`
	PLMax     num  `json:"pl_max"`
	TShut     num  `json:"t_shut"`
	TSlow     num  `json:"t_slow"`
	TMem      num  `json:"t_mem"`
	TMax      num  `json:"t_max"`
	TLShut    num  `json:"tl_shut"`
	TLSlow    num  `json:"tl_slow"`
	TLMem     num  `json:"tl_mem"`
	TLMax     num  `json:"tl_max"`
	PCIeMax   nums `json:"pcie_max"`
	PCIeDev   num  `json:"pcie_dev"`
	NVLinks   num  `json:"nvlinks"`
	NVLinkBps num  `json:"nvlink_bps"`
	MIG       flag `json:"mig"`
	ECC       flag `json:"ecc"`
	Persist   flag `json:"persist"`
	Mode      num  `json:"mode"`
	Virt      num  `json:"virt"`
	NUMA      num  `json:"numa"`
	Fabric    nums `json:"fabric"`
}

type topoRec struct {
	T    num        `json:"t"`
	GPU  list[nums] `json:"gpu"`
	P2P  list[nums] `json:"p2p"`
	NVL  list[nums] `json:"nvl"`
	NICs list[nic]  `json:"nics"`
}

type gRec struct {
	T   num    `json:"t"`
	I   num    `json:"i"`
	U   nums   `json:"u"`
	C   nums   `json:"c"`
	R   num    `json:"r"`
	P   num    `json:"p"`
	PA  num    `json:"pa"`
	PI  num    `json:"pi"`
	EN  num    `json:"en"`
	TC  nums   `json:"T"`
	TM  num    `json:"tm"`
	PS  num    `json:"ps"`
	M   nums   `json:"m"`
	TV  counts `json:"tv"`
	PX  nums   `json:"px"`
	PR  nums   `json:"pr"`
	NV  nums   `json:"nv"`
	GPM ratios `json:"gpm"`
	E   counts `json:"e"`
}

type gsRec struct {
	T  num        `json:"t"`
	I  num        `json:"i"`
	Ty num        `json:"ty"`
	S  list[nums] `json:"s"`
}

type glRec struct {
	T     num        `json:"t"`
	I     num        `json:"i"`
	LK    nums       `json:"lk"`
	RP    num        `json:"rp"`
	PE    counts     `json:"pe"`
	NVS   nums       `json:"nvs"`
	NVE   list[nums] `json:"nve"`
	ECC   nums       `json:"ecc"`
	ECCD  nums       `json:"eccd"`
	RR    nums       `json:"rr"`
	RPend num        `json:"rpend"`
	RPg   nums       `json:"rpg"`
	PL    num        `json:"pl"`
	Act   num        `json:"act"`
	B1    nums       `json:"b1"`
	Fan   num        `json:"fan"`
	ED    nums       `json:"ed"`
	PIDs  list[nums] `json:"pids"`
	E     counts     `json:"e"`
}

type puRec struct {
	T num        `json:"t"`
	I num        `json:"i"`
	P list[nums] `json:"p"`
}

type hRec struct {
	T       num        `json:"t"`
	CPU     nums       `json:"cpu"`
	CPUs    list[nums] `json:"cpus"`
	Run     num        `json:"run"`
	Blk     num        `json:"blk"`
	Ctx     num        `json:"ctx"`
	Intr    num        `json:"intr"`
	Load    loads      `json:"load"`
	PSI     named      `json:"psi"`
	Mem     nums       `json:"mem"`
	VM      counts     `json:"vm"`
	Retrans num        `json:"retrans"`
	Dsk     named      `json:"dsk"`
	Net     named      `json:"net"`
}

type hlRec struct {
	T    num        `json:"t"`
	Freq nums       `json:"freq"`
	NUMA list[nums] `json:"numa"`
	Link named      `json:"link"`
}

type cgroupRec struct {
	T     num  `json:"t"`
	ID    num  `json:"id"`
	Quota nums `json:"quota"`
	Set   word `json:"set"`
}

type cgRec struct {
	T     num  `json:"t"`
	ID    num  `json:"id"`
	Quota nums `json:"quota"`
	Thr   nums `json:"thr"`
	Mem   nums `json:"mem"`
	OOM   num  `json:"oom"`
}

type procRec struct {
	T     num  `json:"t"`
	PID   num  `json:"pid"`
	PPID  num  `json:"ppid"`
	Comm  word `json:"comm"`
	Start num  `json:"start"`
	CPUs  word `json:"cpus"`
	Mems  word `json:"mems"`
	CG    num  `json:"cg"`
	GPU   nums `json:"gpu"`
	Cmd   flag `json:"cmd"`
}

type prRec struct {
	T num        `json:"t"`
	P list[nums] `json:"p"`
}

type ibRec struct {
	T    num    `json:"t"`
	Dev  word   `json:"dev"`
	Port num    `json:"port"`
	X    counts `json:"x"`
	Rate word   `json:"rate"`
	St   word   `json:"st"`
}

type evRec struct {
	T    num  `json:"t"`
	Ty   word `json:"ty"`
	I    num  `json:"i"`
	Code num  `json:"code"`
	PID  num  `json:"pid"`
	Txt  word `json:"txt"`
}

type againRec struct {
	T  num  `json:"t"`
	On flag `json:"on"`
}

type endRec struct {
	T       num  `json:"t"`
	Why     word `json:"why"`
	Ticks   num  `json:"ticks"`
	Late    num  `json:"late"`
	CPUUser num  `json:"cpu_user_ns"`
	CPUSys  num  `json:"cpu_sys_ns"`
}
