package lines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
)

// Serve answers the lines of in on out, one at a time. It returns when in ends, which also ends the
// context of an answer that is being found; the error is one of in or out.
func Serve(in io.Reader, out io.Writer, answer func(ctx context.Context, line string) string) error {
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
		cancel(errors.New("nobody waits for it any more"))
		failed <- scanner.Err()
	}()
	for line := range lines {
		if _, err := fmt.Fprintln(out, answer(ctx, line)); err != nil {
			return err
		}
	}
	return <-failed
}
