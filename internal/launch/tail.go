package launch

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// tailBytes bounds how much of a log file's end is read.
const tailBytes = 64 << 10

// tail returns at most the last n lines of one child's output. It is made for
// error messages, which must not fail: what cannot be read is left out, and
// bytes that are not text are replaced.
func tail(log logFile, n int) []string {
	f, err := os.Open(log.path)
	if err != nil || n <= 0 {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	if info.Size() < log.from { // it began anew
		log.from = 0
	}
	begin := max(log.from, info.Size()-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, begin, tailBytes))
	if err != nil {
		return nil
	}
	kept := afterHole(data)
	return lastLines(kept, begin > log.from && len(kept) == len(data), n)
}

// lastLines splits data; clipped says that its first line may lack its
// beginning, and is left out unless it is the only one.
func lastLines(data []byte, clipped bool, n int) []string {
	if clipped {
		if _, rest, found := bytes.Cut(data, []byte{'\n'}); found && len(rest) > 0 {
			data = rest
		}
	}
	var all []string
	split := lines{emit: func(line []byte) {
		all = append(all, strings.ToValidUTF8(string(line), "\uFFFD"))
	}}
	split.feed(data)
	split.flush()
	return all[max(0, len(all)-n):]
}
