package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/castnet-io/castnet/examples/wordcount/counting"
)

const (
	redraw = 100 * time.Millisecond // bar on a terminal
	repeat = 2 * time.Second        // line elsewhere
)

// bar shows the progress of all ranks.
type bar struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// startBar asks and draws until stop. A failed question draws nothing, because the count itself
// reports errors.
func startBar(ctx context.Context, to *os.File, ask func(context.Context) (counting.Done, error)) *bar {
	ctx, cancel := context.WithCancel(ctx)
	b := &bar{cancel: cancel, done: make(chan struct{})}
	terminal := isatty.IsTerminal(to.Fd())
	every := repeat
	if terminal {
		every = redraw
	}
	go func() {
		defer close(b.done)
		began := time.Now()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				erase(to, terminal)
				return
			}
			if done, err := ask(ctx); err == nil && done.Of > 0 {
				draw(to, terminal, done, time.Since(began))
			}
		}
	}()
	return b
}

// stop ends the bar and waits until it is cleared.
func (b *bar) stop() {
	b.cancel()
	<-b.done
}

func draw(to io.Writer, terminal bool, done counting.Done, took time.Duration) {
	text := fmt.Sprintf("%s of %s files, %s files/s", grouped(done.Files), grouped(done.Of),
		grouped(int64(float64(done.Files)/took.Seconds())))
	if !terminal {
		fmt.Fprintf(to, "counting: %s\n", text)
		return
	}
	full := int(done.Files * barWidth / done.Of)
	fmt.Fprintf(to, "\r\x1b[Kcounting %s%s %s", strings.Repeat("━", full),
		strings.Repeat("─", barWidth-full), text)
}

func erase(to io.Writer, terminal bool) {
	if terminal {
		fmt.Fprint(to, "\r\x1b[K")
	}
}
