package status

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
)

const (
	redraw = 100 * time.Millisecond // on a terminal
	repeat = time.Second            // elsewhere
	erase  = "\r\x1b[K"
)

// Line is a status line.
type Line struct {
	text     func() string
	terminal bool

	mu  sync.Mutex // guards the output
	out io.Writer

	once sync.Once
	stop chan struct{}
	done chan struct{}
}

// Start shows the result of text until Stop. One goroutine calls text. An empty text shows nothing.
func Start(out io.Writer, text func() string) *Line {
	f, ok := out.(*os.File)
	l := &Line{text: text, terminal: ok && isatty.IsTerminal(f.Fd()), out: out, stop: make(chan struct{}),
		done: make(chan struct{})}
	go l.run()
	return l
}

func (l *Line) run() {
	defer close(l.done)
	every := repeat
	if l.terminal {
		every = redraw
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.draw()
		case <-l.stop:
			return
		}
	}
}

func (l *Line) draw() {
	text := l.text()
	if text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal {
		fmt.Fprint(l.out, erase+text)
	} else {
		fmt.Fprintln(l.out, text)
	}
}

// Print prints a permanent line above the status.
func (l *Line) Print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	fmt.Fprintln(l.out, text)
}

// Stop ends the line and clears it from the terminal. A second call does nothing.
func (l *Line) Stop() {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
}

func (l *Line) erase() {
	if l.terminal {
		fmt.Fprint(l.out, erase)
	}
}

// Bar draws a progress bar of a width in characters.
func Bar(done, of, width int) string {
	full := min(max(done, 0), of) * width / max(of, 1)
	return strings.Repeat("━", full) + strings.Repeat("─", width-full)
}

// Count formats a number with digit groups: 12,345.
func Count(n int) string {
	if n < 0 {
		return "-" + Count(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Count(n/1000), n%1000)
}
