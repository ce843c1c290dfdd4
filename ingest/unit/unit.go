// Package unit holds the units of measured quantities, their dimensions and conversion to base units.
package unit

import (
	"fmt"
	"math"
)

// Unit is a spelling of a unit; the zero value is no unit.
type Unit string

// Base units carry facts and report numbers; the others may stand in limits and on pages.
const (
	Second        Unit = "s"
	Byte          Unit = "bytes"
	BytePerSecond Unit = "bytes_per_s"
	Watt          Unit = "w"
	Joule         Unit = "j"
	Celsius       Unit = "c"
	Hertz         Unit = "hz"
	Frac          Unit = "frac"
	Count         Unit = "count"
	FlopPerSecond Unit = "flop_per_s"
	Flag          Unit = "flag" // 0 or 1
	Text          Unit = "text" // shown, never judged
)

type def struct {
	base  Unit
	scale float64
}

var defs = map[Unit]def{
	Second: {Second, 1}, "ms": {Second, 1e-3}, "us": {Second, 1e-6}, "ns": {Second, 1e-9}, "min": {Second, 60},
	Byte: {Byte, 1}, "KiB": {Byte, 1 << 10}, "MiB": {Byte, 1 << 20}, "GiB": {Byte, 1 << 30},
	BytePerSecond: {BytePerSecond, 1}, "MB/s": {BytePerSecond, 1e6}, "GB/s": {BytePerSecond, 1e9},
	Watt: {Watt, 1}, Joule: {Joule, 1}, Celsius: {Celsius, 1},
	Hertz: {Hertz, 1}, "MHz": {Hertz, 1e6},
	Frac: {Frac, 1}, "%": {Frac, 1e-2},
	Count: {Count, 1}, Flag: {Flag, 1}, Text: {Text, 1},
	FlopPerSecond: {FlopPerSecond, 1}, "TFLOP/s": {FlopPerSecond, 1e12},
}

// Base gives the base unit of u's dimension; ok is false for a unit nobody knows.
func Base(u Unit) (base Unit, ok bool) {
	d, ok := defs[u]
	return d.base, ok
}

// ToBase converts v in u to u's base unit.
func ToBase(v float64, u Unit) (float64, Unit, error) {
	d, ok := defs[u]
	if !ok {
		return 0, "", fmt.Errorf("unknown unit %q", u)
	}
	if d.scale < 1 {
		return v / math.Round(1/d.scale), d.base, nil // 70 % is 0.7, where 70 * 0.01 is not
	}
	return v * d.scale, d.base, nil
}
