//go:build cgo && linux

package recorder

// NewNVML lets tests give go-nvml's mock machines.
var NewNVML = newNVML
