package timeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	mathbits "math/bits"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Pack writes v column by column: of a list of rows all values of the first field, then all of the second, numbers as differences from
// the one before. It goes by the types alone, so a new field is carried without a word here. nil and empty lists stay apart. It panics for
// what a digest cannot hold: interfaces, functions, unexported fields.
func Pack(v any) []byte {
	p := &packer{strings: map[string]uint64{}}
	p.column([]reflect.Value{reflect.ValueOf(v)})
	return p.out
}

// ErrPacked says that bytes are not what Pack wrote for this type.
var ErrPacked = errors.New("not what was packed")

// Unpack fills what v points to with what Pack wrote of a value of its type. What it makes is in proportion to b.
func Unpack(b []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(error)
			if !ok || !errors.Is(e, ErrPacked) {
				panic(r)
			}
			err = e
		}
	}()
	u := &unpacker{in: b}
	u.column([]reflect.Value{reflect.ValueOf(v).Elem()})
	if len(u.in) > 0 {
		return fmt.Errorf("%w: %d bytes are left over", ErrPacked, len(u.in))
	}
	return nil
}

// PackedAs names the layout of v's type: packed bytes are of use only where it is the same.
func PackedAs(v any) string {
	h := fnv.New64a()
	layout(h, reflect.TypeOf(v), nil)
	return fmt.Sprintf("%016x", h.Sum64())
}

func layout(w io.Writer, t reflect.Type, above []reflect.Type) {
	fmt.Fprintf(w, "%s %s(", t.Kind(), t.Name())
	switch {
	case t == segmentsType:
		layout(w, segmentType, above)
	case t == timeType || t == stringsType || slices.Contains(above, t):
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			fmt.Fprint(w, t.Field(i).Name, " ")
			layout(w, t.Field(i).Type, append(above, t))
		}
	case t.Kind() == reflect.Array:
		fmt.Fprint(w, t.Len(), " ")
		layout(w, t.Elem(), append(above, t))
	case t.Kind() == reflect.Map:
		layout(w, t.Key(), append(above, t))
		layout(w, t.Elem(), append(above, t))
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer:
		layout(w, t.Elem(), append(above, t))
	}
	fmt.Fprint(w, ")")
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	stringsType  = reflect.TypeFor[Strings]()
	segmentsType = reflect.TypeFor[Segments]()
	segmentType  = reflect.TypeFor[Segment]()
)

// choices bounds the numbers that stand for a choice: nothing that comes from a file may be none of them.
var choices = map[reflect.Type]uint64{
	reflect.TypeFor[Owner]():      uint64(NOwners),
	reflect.TypeFor[Sub]():        uint64(SubOther) + 1,
	reflect.TypeFor[Confidence](): uint64(Measured) + 1,
	reflect.TypeFor[SpanKind]():   uint64(NSpanKinds),
	reflect.TypeFor[TrackKind]():  uint64(TrackProcess) + 1,
	reflect.TypeFor[MarkKind]():   uint64(MarkOutput) + 1,
	reflect.TypeFor[CopyKind]():   uint64(DirH2H) + 1,
	reflect.TypeFor[MemKind]():    uint64(MemManaged) + 1,
	reflect.TypeFor[Covers]():     uint64(RunningTotal) + 1,
	reflect.TypeFor[Placement]():  uint64(Assumed) + 1,
	reflect.TypeFor[Severity]():   uint64(Error) + 1,
	reflect.TypeFor[TotalsOf]():   uint64(TotalOSWaits) + 1,
}

type packer struct {
	out     []byte
	strings map[string]uint64 // its number; the n-th text that was written has n
	list    []Segment
}

// column writes values of one type.
func (p *packer) column(vs []reflect.Value) {
	if len(vs) == 0 {
		return
	}
	t := vs[0].Type()
	switch t {
	case timeType:
		for _, v := range vs {
			at := v.Interface().(time.Time)
			if at.IsZero() {
				p.out = append(p.out, 0)
				continue
			}
			p.out = binary.AppendVarint(append(p.out, 1), at.UnixNano())
		}
		return
	case stringsType:
		lists := make([]reflect.Value, len(vs))
		for i, v := range vs {
			s := v.Interface().(Strings)
			lists[i] = reflect.ValueOf(s.list)
		}
		p.column(lists)
		return
	case segmentsType:
		for _, v := range vs {
			p.segments(v.Interface().(Segments))
		}
		return
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		last := int64(0)
		for _, v := range vs {
			x := v.Int()
			p.out = binary.AppendVarint(p.out, x-last)
			last = x
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		last := uint64(0)
		for _, v := range vs {
			x := v.Uint()
			p.out = binary.AppendVarint(p.out, int64(x-last))
			last = x
		}
	case reflect.Float32, reflect.Float64:
		last := uint64(0)
		for _, v := range vs {
			x := math.Float64bits(v.Float())
			p.out = binary.AppendUvarint(p.out, mathbits.Reverse64(x^last))
			last = x
		}
	case reflect.Bool:
		for _, v := range vs {
			b := byte(0)
			if v.Bool() {
				b = 1
			}
			p.out = append(p.out, b)
		}
	case reflect.String:
		for _, v := range vs {
			p.text(v.String())
		}
	case reflect.Struct:
		p.rows(t, vs)
	case reflect.Array:
		for i := range t.Len() {
			p.column(each(vs, func(v reflect.Value) reflect.Value { return v.Index(i) }))
		}
	case reflect.Slice:
		n := 0
		for _, v := range vs {
			if v.IsNil() {
				p.out = append(p.out, 0)
				continue
			}
			n += v.Len()
			p.out = binary.AppendUvarint(p.out, uint64(v.Len())+1)
		}
		all := make([]reflect.Value, 0, n)
		for _, v := range vs {
			for i := range v.Len() {
				all = append(all, v.Index(i))
			}
		}
		p.column(all)
	case reflect.Map:
		var keys, values []reflect.Value
		for _, v := range vs {
			if v.IsNil() {
				p.out = append(p.out, 0)
				continue
			}
			p.out = binary.AppendUvarint(p.out, uint64(v.Len())+1)
			ks := v.MapKeys()
			slices.SortFunc(ks, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, k := range ks {
				keys, values = append(keys, k), append(values, v.MapIndex(k))
			}
		}
		p.column(keys)
		p.column(values)
	case reflect.Pointer:
		var there []reflect.Value
		for _, v := range vs {
			if v.IsNil() {
				p.out = append(p.out, 0)
				continue
			}
			p.out = append(p.out, 1)
			there = append(there, v.Elem())
		}
		p.column(there)
	default:
		panic(fmt.Sprintf("timeline: a digest cannot hold a %s", t))
	}
}

func each(vs []reflect.Value, f func(reflect.Value) reflect.Value) []reflect.Value {
	out := make([]reflect.Value, len(vs))
	for i, v := range vs {
		out[i] = f(v)
	}
	return out
}

func (p *packer) text(s string) {
	if n, ok := p.strings[s]; ok {
		p.out = binary.AppendUvarint(p.out, n+1)
		return
	}
	p.strings[s] = uint64(len(p.strings))
	p.out = binary.AppendUvarint(append(p.out, 0), uint64(len(s)))
	p.out = append(p.out, s...)
}

func (p *packer) rows(t reflect.Type, vs []reflect.Value) {
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			panic(fmt.Sprintf("timeline: a digest cannot hold %s.%s: it is not exported", t, t.Field(i).Name))
		}
		p.column(each(vs, func(v reflect.Value) reflect.Value { return v.Field(i) }))
	}
}

// segments writes a list as columns, which pack tighter afterwards than the form that is held in memory.
func (p *packer) segments(s Segments) {
	p.list = s.AppendTo(p.list[:0])
	p.out = binary.AppendUvarint(p.out, uint64(len(p.list)))
	column := func(of func(*Segment) int64) {
		last := int64(0)
		for i := range p.list {
			x := of(&p.list[i])
			p.out = binary.AppendVarint(p.out, x-last)
			last = x
		}
	}
	column(func(g *Segment) int64 { return g.Dur })
	column(func(g *Segment) int64 { return int64(g.Row) })
	column(func(g *Segment) int64 { return int64(g.Owner) })
	column(func(g *Segment) int64 { return int64(g.Sub) })
	end := Time(0) // one begins where the one before it ends
	for i := range p.list {
		g := &p.list[i]
		p.out = binary.AppendVarint(p.out, int64(g.Start-end))
		end = g.Start + Time(g.Dur)
	}
}

type unpacker struct {
	in      []byte
	strings []string
	list    []Segment
}

func broken(format string, args ...any) {
	panic(fmt.Errorf("%w: %s", ErrPacked, fmt.Sprintf(format, args...)))
}

func (u *unpacker) varint() int64 {
	x, n := binary.Varint(u.in)
	if n <= 0 {
		broken("it ends early")
	}
	u.in = u.in[n:]
	return x
}

func (u *unpacker) uvarint() uint64 {
	x, n := binary.Uvarint(u.in)
	if n <= 0 {
		broken("it ends early")
	}
	u.in = u.in[n:]
	return x
}

func (u *unpacker) flag() bool {
	if len(u.in) == 0 {
		broken("it ends early")
	}
	b := u.in[0]
	u.in = u.in[1:]
	if b > 1 {
		broken("%d is neither yes nor no", b)
	}
	return b == 1
}

// lengths reads how many elements each of n lists has, -1 for nil. All of them together take leaves bytes an element at least.
func (u *unpacker) lengths(n, leaves int) (out []int, total int) {
	out = make([]int, n)
	for i := range out {
		x := u.uvarint()
		if x > uint64(len(u.in))+1 {
			broken("a list of %d", x-1)
		}
		out[i] = int(x) - 1
		total += max(out[i], 0)
		if total*max(leaves, 1) > len(u.in) {
			broken("lists of %d elements in %d bytes", total, len(u.in))
		}
	}
	return out, total
}

// leavesOf is how many bytes a value of the type takes at least.
func leavesOf(t reflect.Type) int {
	switch {
	case t == timeType || t == stringsType || t == segmentsType:
		return 1
	case t.Kind() == reflect.Struct:
		n := 0
		for i := range t.NumField() {
			n += leavesOf(t.Field(i).Type)
		}
		return n
	case t.Kind() == reflect.Array:
		return t.Len() * leavesOf(t.Elem())
	}
	return 1
}

// column reads into values of one type, all of them zero and to be set.
func (u *unpacker) column(vs []reflect.Value) {
	if len(vs) == 0 {
		return
	}
	t := vs[0].Type()
	switch t {
	case timeType:
		for _, v := range vs {
			if u.flag() {
				v.Set(reflect.ValueOf(time.Unix(0, u.varint()).UTC()))
			}
		}
		return
	case stringsType:
		lists := make([][]string, len(vs))
		u.column(elements(reflect.ValueOf(lists)))
		for i, v := range vs {
			to := v.Addr().Interface().(*Strings)
			for k, text := range lists[i] {
				if k > 0 && to.IDOf(text) != StringID(k) {
					broken("name %q stands twice", text)
				}
			}
		}
		return
	case segmentsType:
		for _, v := range vs {
			u.segments(v.Addr().Interface().(*Segments))
		}
		return
	}
	limit, choice := choices[t]
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		last := int64(0)
		for _, v := range vs {
			last += u.varint()
			if v.OverflowInt(last) {
				broken("%d is no %s", last, t)
			}
			v.SetInt(last)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		last := uint64(0)
		for _, v := range vs {
			last += uint64(u.varint())
			if v.OverflowUint(last) || choice && last >= limit {
				broken("%d is no %s", last, t)
			}
			v.SetUint(last)
		}
	case reflect.Float32, reflect.Float64:
		last := uint64(0)
		for _, v := range vs {
			last ^= mathbits.Reverse64(u.uvarint())
			x := math.Float64frombits(last)
			if math.IsNaN(x) || math.IsInf(x, 0) || v.OverflowFloat(x) {
				broken("%v is no number", x)
			}
			v.SetFloat(x)
		}
	case reflect.Bool:
		for _, v := range vs {
			v.SetBool(u.flag())
		}
	case reflect.String:
		for _, v := range vs {
			v.SetString(u.text())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			u.column(each(vs, func(v reflect.Value) reflect.Value { return v.Field(i) }))
		}
	case reflect.Array:
		for i := range t.Len() {
			u.column(each(vs, func(v reflect.Value) reflect.Value { return v.Index(i) }))
		}
	case reflect.Slice:
		ns, total := u.lengths(len(vs), leavesOf(t.Elem()))
		all := make([]reflect.Value, 0, total)
		for i, v := range vs {
			if ns[i] < 0 {
				continue
			}
			v.Set(reflect.MakeSlice(t, ns[i], ns[i]))
			for k := range ns[i] {
				all = append(all, v.Index(k))
			}
		}
		u.column(all)
	case reflect.Map:
		ns, total := u.lengths(len(vs), leavesOf(t.Key())+leavesOf(t.Elem()))
		keys := reflect.MakeSlice(reflect.SliceOf(t.Key()), total, total)
		values := reflect.MakeSlice(reflect.SliceOf(t.Elem()), total, total)
		u.column(elements(keys))
		u.column(elements(values))
		at := 0
		for i, v := range vs {
			if ns[i] < 0 {
				continue
			}
			m := reflect.MakeMapWithSize(t, ns[i])
			for range ns[i] {
				m.SetMapIndex(keys.Index(at), values.Index(at))
				at++
			}
			v.Set(m)
		}
	case reflect.Pointer:
		var there []reflect.Value
		for _, v := range vs {
			if u.flag() {
				v.Set(reflect.New(t.Elem()))
				there = append(there, v.Elem())
			}
		}
		if len(there)*leavesOf(t.Elem()) > len(u.in) {
			broken("%d values in %d bytes", len(there), len(u.in))
		}
		u.column(there)
	default:
		panic(fmt.Sprintf("timeline: a digest cannot hold a %s", t))
	}
}

func (u *unpacker) segments(to *Segments) {
	n := u.uvarint()
	if n > uint64(len(u.in)/5) { // a byte a column at least
		broken("%d segments in %d bytes", n, len(u.in))
	}
	u.list = slices.Grow(u.list[:0], int(n))[:n]
	clear(u.list)
	column := func(limit int64, set func(*Segment, int64)) {
		last := int64(0)
		for i := range u.list {
			if last += u.varint(); limit > 0 && (last < 0 || last >= limit) {
				broken("segment %d: %d of %d", i, last, limit)
			}
			set(&u.list[i], last)
		}
	}
	column(0, func(g *Segment, x int64) { g.Dur = x })
	column(1<<32, func(g *Segment, x int64) { g.Row = uint32(x) })
	column(int64(NOwners), func(g *Segment, x int64) { g.Owner = Owner(x) })
	column(int64(SubOther)+1, func(g *Segment, x int64) { g.Sub = Sub(x) })
	end := Time(0)
	for i := range u.list {
		g := &u.list[i]
		g.Start = end + Time(u.varint())
		end = g.Start + Time(g.Dur)
	}
	*to = PackSegments(u.list)
}

func elements(list reflect.Value) []reflect.Value {
	out := make([]reflect.Value, list.Len())
	for i := range out {
		out[i] = list.Index(i)
	}
	return out
}

func (u *unpacker) text() string {
	n := u.uvarint()
	if n > 0 {
		if n > uint64(len(u.strings)) {
			broken("text %d of %d", n, len(u.strings))
		}
		return u.strings[n-1]
	}
	size := u.uvarint()
	if size > uint64(len(u.in)) {
		broken("a text of %d bytes", size)
	}
	s := string(u.in[:size])
	u.in = u.in[size:]
	u.strings = append(u.strings, s)
	return s
}
