package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

// terminal shows what a command draws on a pseudo terminal, as a vt102 does.
type terminal struct {
	*testkit.Process
	keyboard *os.File

	mu     sync.Mutex
	cells  [][]rune
	x, y   int
	top    int // first and last line that scroll
	bottom int
	failed error
	modes  map[string]bool // private modes that are on
}

// onTerminal runs the client on a terminal of a size.
func onTerminal(t *testing.T, env []string, width, height int, args ...string) *terminal {
	t.Helper()
	screen, stdio, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(stdio, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}))
	s := &terminal{keyboard: screen, modes: map[string]bool{}}
	s.blank(width, height)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(env, "TERM=vt100")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio, stdio, stdio
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // for news of its size
	s.Process = testkit.Start(t, cmd)
	var drawing sync.WaitGroup
	drawing.Go(s.draw)
	t.Cleanup(func() {
		_ = s.Process.Process.Signal(os.Interrupt) // fails when it has ended
		s.Exit(t)
		stdio.Close()
		screen.Close()
		drawing.Wait()
	})
	return s
}

func (s *terminal) blank(width, height int) {
	s.cells = nil
	for range height {
		s.cells = append(s.cells, []rune(strings.Repeat(" ", width)))
	}
	s.x, s.y, s.top, s.bottom = 0, 0, 0, height-1
}

// resize changes the size, and loses what the terminal shows.
func (s *terminal) resize(t *testing.T, width, height int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blank(width, height)
	require.NoError(t, pty.Setsize(s.keyboard, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}))
}

// press types keys.
func (s *terminal) press(t *testing.T, keys string) {
	t.Helper()
	_, err := s.keyboard.WriteString(keys)
	require.NoError(t, err)
}

// frame is what the terminal shows.
func (s *terminal) frame() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, line := range s.cells {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}

// await waits until the terminal shows a pattern.
func (s *terminal) await(t *testing.T, pattern string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool { return want.MatchString(s.frame()) }, testkit.Patience,
		20*time.Millisecond, "want %s", pattern)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(t, s.failed)
}

// Private modes.
const (
	alternateScreen = "1049"
	visibleCursor   = "25"
)

// awaitMode waits until a mode is on or off.
func (s *terminal) awaitMode(t *testing.T, mode string, on bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.modes[mode] == on
	}, testkit.Patience, 20*time.Millisecond, "mode %s", mode)
}

// draw draws what comes until the terminal closes.
func (s *terminal) draw() {
	read := func() func() (rune, bool) {
		buffer := make([]byte, 4096)
		var text []rune
		var rest []byte
		return func() (rune, bool) {
			for len(text) == 0 {
				n, err := s.keyboard.Read(buffer)
				if err != nil {
					return 0, false
				}
				rest = append(rest, buffer[:n]...)
				whole := len(rest) // without the begin of a character
				for cut := 1; cut < 4 && cut <= whole; cut++ {
					if rest[whole-cut]&0xc0 == 0xc0 {
						whole -= cut
						break
					}
					if rest[whole-cut] < 0x80 {
						break
					}
				}
				text = []rune(string(rest[:whole]))
				rest = append([]byte{}, rest[whole:]...)
			}
			r := text[0]
			text = text[1:]
			return r, true
		}
	}()
	for {
		r, is := read()
		if !is {
			return
		}
		if r != 0x1b {
			s.put(r)
			continue
		}
		r, _ = read()
		if r != '[' {
			s.index(r)
			continue
		}
		var parameters strings.Builder
		for r, is = read(); is && r < 0x40; r, is = read() {
			parameters.WriteRune(r)
		}
		s.control(r, parameters.String())
	}
}

// put draws one character.
func (s *terminal) put(r rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r == '\r':
		s.x = 0
	case r == '\n':
		s.down()
	case r == '\b':
		s.x = max(0, s.x-1)
	case r == '\t':
		s.x = min(s.x/8*8+8, len(s.cells[0])-1)
	case r < ' ':
	case s.x < len(s.cells[s.y]):
		if line := s.cells[s.y]; s.modes["4"] { // insert
			copy(line[s.x+1:], line[s.x:])
		}
		s.cells[s.y][s.x] = r
		s.x++
	}
}

// down moves the cursor a line down. At the last line of the region, the region scrolls.
func (s *terminal) down() {
	if s.y == s.bottom {
		s.deleteLine(s.top)
		return
	}
	s.y = min(s.y+1, len(s.cells)-1)
}

// deleteLine removes a line of the region; those below it move up.
func (s *terminal) deleteLine(y int) {
	line := s.cells[y]
	copy(s.cells[y:], s.cells[y+1:s.bottom+1])
	s.cells[s.bottom] = line
	clearCells(line)
}

// insertLine adds a blank line to the region; those below it move down.
func (s *terminal) insertLine(y int) {
	line := s.cells[s.bottom]
	copy(s.cells[y+1:], s.cells[y:s.bottom])
	s.cells[y] = line
	clearCells(line)
}

// index obeys ESC D and ESC M, which move a line down or up and scroll.
func (s *terminal) index(r rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r == 'D':
		s.down()
	case r == 'M' && s.y == s.top:
		s.insertLine(s.top)
	case r == 'M':
		s.y = max(0, s.y-1)
	}
}

func clearCells(cells []rune) {
	for x := range cells {
		cells[x] = ' '
	}
}

// control obeys one control sequence. An unknown one fails the test.
func (s *terminal) control(final rune, parameters string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n []int
	for p := range strings.SplitSeq(parameters, ";") {
		v, _ := strconv.Atoi(p)
		n = append(n, v)
	}
	blank := func(y, from, to int) { clearCells(s.cells[y][from:to]) }
	width, height := len(s.cells[0]), len(s.cells)
	step := max(1, n[0])
	switch {
	case final == 'h' || final == 'l':
		s.modes[strings.TrimPrefix(parameters, "?")] = final == 'h'
	case final == 'm' || strings.ContainsAny(parameters, "?>=<$ !"):
	case final == 'H' || final == 'f':
		s.y, s.x = min(step, height)-1, 0
		if len(n) > 1 {
			s.x = min(max(1, n[1]), width) - 1
		}
	case final == 'r':
		s.top, s.bottom, s.x, s.y = step-1, height-1, 0, 0
		if len(n) > 1 {
			s.bottom = min(n[1], height) - 1
		}
	case final == 'L' || final == 'M':
		for range min(step, s.bottom-s.y+1) {
			if final == 'L' {
				s.insertLine(s.y)
			} else {
				s.deleteLine(s.y)
			}
		}
	case final == 'A':
		s.y = max(0, s.y-step)
	case final == 'B':
		s.y = min(height-1, s.y+step)
	case final == 'C':
		s.x = min(width-1, s.x+step)
	case final == 'D':
		s.x = max(0, min(s.x, width-1)-step)
	case final == 'J' && n[0] == 2:
		for y := range s.cells {
			blank(y, 0, width)
		}
	case final == 'J' && n[0] == 0:
		blank(s.y, min(s.x, width), width)
		for y := s.y + 1; y < height; y++ {
			blank(y, 0, width)
		}
	case final == 'P':
		line, from := s.cells[s.y], min(s.x, width)
		left := copy(line[from:], line[min(from+step, width):])
		blank(s.y, from+left, width)
	case final == 'K' && n[0] == 0:
		blank(s.y, min(s.x, width), width)
	case final == 'K' && n[0] == 1:
		blank(s.y, 0, min(s.x+1, width))
	case final == 'K' && n[0] == 2:
		blank(s.y, 0, width)
	default:
		s.failed = fmt.Errorf("a vt102 does not know CSI %s %c", parameters, final)
	}
}
