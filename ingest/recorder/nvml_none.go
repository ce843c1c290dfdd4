//go:build !cgo || !linux

package recorder

import "errors"

// openNVML: go-nvml loads the driver's library through cgo.
func openNVML() (Driver, error) {
	return nil, errors.New("this gpureport was built without cgo and cannot load the driver's library: build it with CGO_ENABLED=1 and a C compiler")
}
