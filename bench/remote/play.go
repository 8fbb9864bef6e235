package remote

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/local/lines"
)

// The parts there are, by the first argument of the program that plays one.
const (
	ReceivePart = "receive"
	SendPart    = "send" // with the receiver's address as the second argument
)

const (
	// readyLine is what a sender says before it answers anything.
	readyLine = "ready"
	// meetPause is how long a sender waits before it tries again to be answered at all.
	meetPause = 10 * time.Millisecond
)

// Play is the life of a program that plays the part its arguments name: it ends when in does.
func Play(args []string, in io.Reader, out io.Writer, l Library) error {
	if len(args) == 1 && args[0] == ReceivePart {
		return receive(in, out, l)
	}
	if len(args) == 2 && args[0] == SendPart {
		return send(in, out, l, args[1])
	}
	return fmt.Errorf("arguments are %q, want %s, or %s and an address", args, ReceivePart, SendPart)
}

func receive(in io.Reader, out io.Writer, l Library) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), local.Patience)
	defer cancel()
	r, err := l.Receive(ctx)
	if err != nil {
		return err
	}
	defer closing(r.Close, &err)
	if _, err := fmt.Fprintln(out, r.Address()); err != nil {
		return err
	}
	return lines.Serve(in, out, AnswerUsage)
}

func send(in io.Reader, out io.Writer, l Library, address string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), local.Patience)
	defer cancel()
	s, err := l.Send(ctx, address)
	if err != nil {
		return err
	}
	defer closing(s.Close, &err)
	if err := meet(ctx, s); err != nil {
		return fmt.Errorf("meet the receiver at %s: %w", address, err)
	}
	if _, err := fmt.Fprintln(out, readyLine); err != nil {
		return err
	}
	return lines.Serve(in, out, func(ctx context.Context, line string) string {
		if line == UsageRequest {
			return AnswerUsage(ctx, line)
		}
		values, err := respond(ctx, s, line)
		if err != nil {
			return lines.Failure(err)
		}
		return lines.Values(values...)
	})
}

// meet waits until the receiver answers: where there are several servers, they have to hear of it
// from each other first.
func meet(ctx context.Context, s Sender) error {
	for {
		_, err := s.Ask(ctx, nil)
		if err == nil {
			return nil
		}
		if wait(ctx, meetPause) != nil {
			return err
		}
	}
}

// closing closes at the end of a function whose error it joins.
func closing(end func(context.Context) error, err *error) {
	ctx, cancel := context.WithTimeout(context.Background(), local.Patience)
	defer cancel()
	if failed := end(ctx); *err == nil {
		*err = failed
	}
}

// wait is a pause that ends with ctx, which is the error then.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
