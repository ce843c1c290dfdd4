package timeline

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fill gives every field below v another value than zero; lists get two elements, so that both differ.
func fill(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	if to, ok := v.Addr().Interface().(*time.Time); ok {
		*to = time.Unix(1_700_000_000, *n).UTC()
		return
	}
	if to, ok := v.Addr().Interface().(*Strings); ok {
		to.IDOf("a name")
		return
	}
	if to, ok := v.Addr().Interface().(*Segments); ok {
		for range 2 {
			var g Segment
			fill(t, reflect.ValueOf(&g).Elem(), n)
			to.Add(g)
		}
		return
	}
	limit, choice := choices[v.Type()]
	switch v.Kind() {
	case reflect.Int8:
		v.SetInt(*n%100 - 110)
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt((*n * 7919 % 30011) - 40000)
		if v.Kind() == reflect.Int16 {
			v.SetInt(*n%1000 - 2000)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		x := uint64(*n%200) + 1
		if choice {
			x = uint64(*n)%(limit-1) + 1
		}
		v.SetUint(x)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) / 4)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("text \xff " + time.Duration(*n).String())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, k, n)
			fill(t, e, n)
			v.SetMapIndex(k, e)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	default:
		t.Fatalf("a %s cannot be packed", v.Type())
	}
}

type packed struct {
	Red      *Reduced
	Source   Source
	Clock    Clock
	Timeline *Timeline
	None     *Reduced
	Empty    []string
	Nil      []string
	Map      map[string]string
}

func filled(t *testing.T) *packed {
	in := &packed{}
	n := int64(0)
	for _, v := range []any{&in.Red, &in.Source, &in.Clock, &in.Timeline} {
		fill(t, reflect.ValueOf(v).Elem(), &n)
	}
	in.Empty, in.Map = []string{}, map[string]string{}
	return in
}

// Every field that there is, and every one that will be, comes back.
func TestPackedCarriesEveryField(t *testing.T) {
	in := filled(t)
	b := Pack(*in)
	var out packed
	if err := Unpack(b, &out); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, &out, cmp.AllowUnexported(Strings{})); d != "" {
		t.Errorf("-packed +unpacked:\n%s", d)
	}
	if string(Pack(out)) != string(b) {
		t.Error("packed again, the bytes differ")
	}
}

func TestPackedLayoutNamesTheType(t *testing.T) {
	type a struct{ X int64 }
	type b struct{ Y int64 }
	if PackedAs(a{}) == PackedAs(b{}) || PackedAs(a{}) == PackedAs(Reduced{}) {
		t.Error("the layout does not follow the fields")
	}
}

// Cut or changed anywhere, packed bytes give an error or a value, never a panic.
func FuzzUnpack(f *testing.F) {
	b := Pack(Reduced{Path: "a", Steps: StepMarks{Index: []int64{1, 2}}, GPUs: []GPULedger{{Segments: PackSegments([]Segment{{Start: 5, Dur: 3, Owner: HostSync}})}}})
	f.Add(b)
	for i := 0; i < len(b); i += 7 {
		f.Add(b[:i])
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Reduced
		if err := Unpack(b, &r); err == nil {
			_ = r.Validate()
		}
	})
}

func TestUnpackRefusesDamage(t *testing.T) {
	b := Pack(*filled(t))
	for i := 0; i < len(b); i += 11 {
		var out packed
		if err := Unpack(b[:i], &out); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", i, len(b))
		}
		c := append([]byte(nil), b...)
		c[i] ^= 0x41
		out = packed{}
		_ = Unpack(c, &out)
	}
}
