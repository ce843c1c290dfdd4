// Command gpureport reads what was recorded of a training run and reports who held the GPU's time.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes; see the README.
const (
	exitOK           = 0
	exitFinding      = 1
	exitUse          = 2
	exitInsufficient = 3
)

// exitError carries an exit code; an empty message was printed already.
type exitError struct {
	code int
	msg  string
}

func (e *exitError) Error() string { return e.msg }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var ee *exitError
	if errors.As(err, &ee) {
		if ee.msg != "" {
			fmt.Fprintln(stderr, "gpureport: "+ee.msg)
		}
		return ee.code
	}
	fmt.Fprintln(stderr, "gpureport: "+err.Error())
	return exitUse
}
