package local

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/castnet-io/castnet/bench/local/lines"
)

// Serve measures what the lines of in ask for, on a new system each time, and writes the answers to
// out (package lines). It returns when in ends; the error is one of in or out. The system of a
// Fresh workload is left to the end of the process: to take many actors down may take longer than
// to measure them.
func Serve(in io.Reader, out io.Writer, makeSystem Maker) error {
	return lines.Serve(in, out, func(ctx context.Context, line string) string {
		value, err := respond(ctx, line, makeSystem)
		runtime.GC()
		if err != nil {
			return lines.Failure(err)
		}
		return lines.Values(value)
	})
}

// respond does what a line asks for.
func respond(ctx context.Context, line string, makeSystem Maker) (float64, error) {
	name, n, err := lines.ParseRequest(line)
	w, ok := Find(name)
	if !ok {
		return 0, fmt.Errorf("request %q: there is no workload %q", line, name)
	}
	if err != nil {
		return 0, err
	}
	value, s, err := perform(ctx, w, n, makeSystem)
	if s != nil && !w.Fresh {
		if closing := closeSystem(s); err == nil {
			err = closing
		}
	}
	return value, err
}
