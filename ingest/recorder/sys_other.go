//go:build !linux

package recorder

import (
	"os"
	"time"
)

const supported = false

func bootNs() int64 { return none }

func ownCPU() (user, system time.Duration, maxRSS int64) { return 0, 0, none }

var forwarded = []os.Signal{os.Interrupt}

func fromTerminal(os.Signal) bool { return true }

func exitCode(st *os.ProcessState) (int, string) { return st.ExitCode(), "" }
