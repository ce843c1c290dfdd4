package recorder

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

const supported = true

// bootNs is CLOCK_BOOTTIME: ns since boot, sleep included.
func bootNs() int64 {
	var ts syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 7, uintptr(unsafe.Pointer(&ts)), 0); e != 0 {
		return none
	}
	return ts.Nano()
}

// ownCPU is the CPU time of this process so far, without its children.
func ownCPU() (user, system time.Duration, maxRSS int64) {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0, 0, none
	}
	return time.Duration(ru.Utime.Nano()), time.Duration(ru.Stime.Nano()), ru.Maxrss << 10
}

// forwarded are the signals that are handed to the command.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// fromTerminal tells whether s comes from the terminal's keyboard, which sends it to the command as well: it must not get it twice.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	var pgrp int32
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&pgrp))); e != 0 {
		return false
	}
	return int(pgrp) == syscall.Getpgrp()
}

// exitCode gives what a shell would: the code, or 128 and the signal.
func exitCode(st *os.ProcessState) (code int, signal string) {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal().String()
	}
	return st.ExitCode(), ""
}
