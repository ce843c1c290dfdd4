package engine

import (
	"unicode"
	"unicode/utf8"
)

// UpperFirst begins a sentence.
func UpperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || r == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

// LowerFirst lets a sentence go on: "do not" and "Tune NCCL" read on; an abbreviation stays.
func LowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || r == utf8.RuneError || len(s) > n && s[n] >= 'A' && s[n] <= 'Z' {
		return s
	}
	return string(unicode.ToLower(r)) + s[n:]
}
