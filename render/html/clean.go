package html

import (
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpureport/render"
)

const (
	textRunes    = 1200   // a text longer than this is cut in the middle
	commandRunes = 20_000 // a command keeps its ends and its lines
)

// cleanSections copies sections with every text made showable: no control characters, no marks that turn the direction of what follows, no
// text without end, no link out of the page. Names come from files, and files may hold anything.
func cleanSections(in []render.Section) []render.Section {
	out := reflect.New(reflect.TypeOf(in)).Elem()
	cleanValue(out, reflect.ValueOf(in), "")
	return out.Interface().([]render.Section)
}

func cleanValue(dst, src reflect.Value, field string) {
	switch src.Kind() {
	case reflect.String:
		dst.SetString(cleanField(src.String(), field))
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		if k := src.Type().Elem().Kind(); k == reflect.Float64 || k == reflect.Int || k == reflect.Int64 {
			dst.Set(src)
			return
		}
		s := reflect.MakeSlice(src.Type(), src.Len(), src.Len())
		for i := range src.Len() {
			cleanValue(s.Index(i), src.Index(i), field)
		}
		dst.Set(s)
	case reflect.Array:
		dst.Set(src)
	case reflect.Struct:
		for i := range src.NumField() {
			cleanValue(dst.Field(i), src.Field(i), src.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if src.IsNil() {
			return
		}
		p := reflect.New(src.Type().Elem())
		cleanValue(p.Elem(), src.Elem(), field)
		dst.Set(p)
	case reflect.Interface:
		if src.IsNil() {
			return
		}
		v := reflect.New(src.Elem().Type()).Elem()
		cleanValue(v, src.Elem(), field)
		dst.Set(v)
	default:
		dst.Set(src)
	}
}

func cleanField(s, field string) string {
	switch field {
	case "Command":
		return cleanText(s, commandRunes, true)
	case "Link":
		if !strings.HasPrefix(s, "#") {
			return ""
		}
	}
	return cleanText(s, textRunes, false)
}

func cleanText(s string, limit int, lines bool) string {
	clean := func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			if lines {
				return r
			}
			return ' '
		case unicode.IsControl(r), r == '\uFEFF', r >= '\u202A' && r <= '\u202E', r >= '\u2066' && r <= '\u2069', r == '\u200E', r == '\u200F':
			return utf8.RuneError
		}
		return r
	}
	s = strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))
	return cutMiddle(s, limit)
}

// cutMiddle keeps both ends of a text that is too long.
func cutMiddle(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := []rune(s)
	half := limit / 2
	return string(r[:half]) + " … " + string(r[len(r)-half:])
}
