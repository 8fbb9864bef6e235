package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// Serve measures what the lines of in ask for, on a new system each time, and writes the answers to
// out. It returns when in ends; the error is one of in or out. The system of a Fresh workload is
// left to the end of the process: to take many actors down may take longer than to measure them.
func Serve(in io.Reader, out io.Writer, makeSystem Maker) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	lines, failed := make(chan string), make(chan error, 1)
	go func() { // ends with in, which is when Serve does
		defer close(lines)
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
		cancel(errors.New("nobody waits for it any more")) // LOC-5
		failed <- scanner.Err()
	}()
	for line := range lines {
		if _, err := fmt.Fprintln(out, respond(ctx, line, makeSystem)); err != nil {
			return err
		}
	}
	return <-failed
}

// respond does what a line asks for and returns the line that answers it.
func respond(ctx context.Context, line string, makeSystem Maker) string {
	w, n, err := parseRequest(line)
	if err != nil {
		return errorReply(err)
	}
	value, s, err := perform(ctx, w, n, makeSystem)
	if s != nil && !w.Fresh {
		if closing := closeSystem(s); err == nil {
			err = closing
		}
	}
	runtime.GC() // LOC-4
	if err != nil {
		return errorReply(err)
	}
	return valueReply(value)
}
