package engine

import (
	"math"
	"strconv"

	"gpureport/ingest/unit"
)

// nbsp stands between a number and its unit, so that they stay on one line.
const nbsp = "\u00a0"

type scale struct {
	from float64 // smallest value that uses it
	name string
}

var scales = map[unit.Unit][]scale{
	unit.Second:        {{60, "min"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}},
	unit.Byte:          {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "bytes"}},
	unit.BytePerSecond: {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "bytes/s"}},
	unit.FlopPerSecond: {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}, {1, "FLOP/s"}},
	unit.Joule:         {{1e9, "GJ"}, {1e6, "MJ"}, {1e3, "kJ"}, {1, "J"}},
	unit.Hertz:         {{1e6, "MHz"}, {1e3, "kHz"}, {1, "Hz"}},
}

// Format writes a value in base unit u for a sentence: two significant digits, and the unit that leaves 1 to 999. What people
// read off a device as a whole number (MHz, W, C) and counts stay whole. Thousands are not grouped.
func Format(v float64, u unit.Unit) string {
	switch u {
	case unit.Flag:
		if v != 0 {
			return "yes"
		}
		return "no"
	case unit.Frac:
		return FormatFrac(v)
	case unit.Celsius:
		return strconv.FormatFloat(math.Round(v)+0, 'f', 0, 64) + nbsp + "°C"
	case unit.Watt:
		return whole(v) + nbsp + "W"
	case unit.Hertz:
		if math.Abs(v) >= 1e6 {
			return whole(v/1e6) + nbsp + "MHz"
		}
	}
	list := scales[u]
	if list == nil {
		return whole(v)
	}
	if v == 0 {
		return "0" + nbsp + list[min(1, len(list)-1)].name
	}
	// The largest scale in which the rounded number is still 1 or more; minutes only where seconds need four digits.
	for i, s := range list {
		if i+1 < len(list) && u == unit.Second && s.name == "min" && math.Abs(v) < 999.5 {
			continue
		}
		if x := round(v/s.from, 2); math.Abs(x) >= 1 || i == len(list)-1 {
			return Sig(v/s.from, 2) + nbsp + s.name
		}
	}
	return whole(v)
}

// FormatFrac writes a share as a percentage: under 10 one decimal, else none.
func FormatFrac(v float64) string {
	p := v * 100
	switch a := math.Abs(p); {
	case a == 0:
		return "0" + nbsp + "%" // a sentence needs the unit: waited 0 % of the window
	case a < 0.1 && p > 0:
		return "<0.1" + nbsp + "%"
	case a < 0.1:
		return ">-0.1" + nbsp + "%"
	case math.Round(a*10)/10 < 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + nbsp + "%"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + nbsp + "%"
}

// whole writes a whole number as it is and another with two significant digits.
func whole(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 10 {
		return strconv.FormatFloat(math.Round(v)+0, 'f', 0, 64)
	}
	return Sig(v, 2)
}

// Sig writes v with n significant digits and no exponent.
func Sig(v float64, n int) string {
	if v == 0 {
		return "0"
	}
	r := round(v, n)
	exp := int(math.Floor(math.Log10(math.Abs(r)) + 1e-9))
	return strconv.FormatFloat(r, 'f', max(0, n-1-exp), 64)
}

// round keeps n significant digits.
func round(v float64, n int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64)
	if err != nil {
		return v
	}
	return r
}
