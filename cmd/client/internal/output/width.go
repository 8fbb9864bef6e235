package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// TerminalWidth returns the width of a terminal in columns; 0: unknown.
func TerminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
