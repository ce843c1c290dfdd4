package ingest

import "gpureport/ingest/unit"

// UnitOf gives our unit for a unit as the NVIDIA tools print it.
func UnitOf(maker string) (unit.Unit, bool) {
	switch maker {
	case "W":
		return unit.Watt, true
	case "C":
		return unit.Celsius, true
	case "":
		return "", false
	}
	_, ok := unit.Base(unit.Unit(maker))
	return unit.Unit(maker), ok
}
