package timeline

import (
	"reflect"
	"testing"
)

// Every instant of a reduction moves: fields added later must be in Shift too.
func TestShiftMovesEverything(t *testing.T) {
	red := &Reduced{}
	at := reflect.TypeFor[Time]()
	fields := 0
	var fill func(v reflect.Value, name string)
	fill = func(v reflect.Value, name string) {
		switch {
		case v.Type() == at:
			if name != "Shifted" {
				v.SetInt(1000)
				fields++
			}
		case v.Type() == segmentsType:
			v.Addr().Interface().(*Segments).Add(Segment{Start: 1000, Dur: 1})
			fields++
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					fill(v.Field(i), v.Type().Field(i).Name)
				}
			}
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), "")
		case v.Kind() == reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i), "")
			}
		}
	}
	fill(reflect.ValueOf(red).Elem(), "")
	red.Collectives[0].Split = Measured
	red.Shift(-300)
	var look func(v reflect.Value, path string)
	look = func(v reflect.Value, path string) {
		switch {
		case v.Type() == at:
			if want := int64(700); path != ".Shifted" && v.Int() != want {
				t.Errorf("%s is %d, want %d", path, v.Int(), want)
			}
		case v.Type() == segmentsType:
			for _, g := range v.Addr().Interface().(*Segments).List() {
				look(reflect.ValueOf(g.Start), path)
			}
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				look(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
			for i := range v.Len() {
				look(v.Index(i), path)
			}
		}
	}
	look(reflect.ValueOf(red).Elem(), "")
	if fields < 15 || red.Shifted != -300 {
		t.Errorf("%d instants, shifted %d", fields, red.Shifted)
	}
	red.Shift(300)
	if red.Shifted != 0 || red.Recorded.Start != 1000 {
		t.Errorf("not undone: %d, %d", red.Shifted, red.Recorded.Start)
	}
	var none Reduced
	none.Shift(5)
	if none.Recorded != (Interval{}) {
		t.Error("what is not known moved")
	}
}
