package launch

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// tailBytes bounds the part of a log file read for its tail.
const tailBytes = 64 << 10

// tailLines returns at most the last n lines of one child's output, for error messages. It cannot
// fail: it omits unreadable data and replaces bytes other than text.
func tailLines(log logFile, n int) []string {
	f, err := os.Open(log.path)
	if err != nil || n <= 0 {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	if info.Size() < log.start { // the file was restarted
		log.start = 0
	}
	begin := max(log.start, info.Size()-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, begin, tailBytes))
	if err != nil {
		return nil
	}
	kept := trimHole(data)
	return lastLines(kept, begin > log.start && len(kept) == len(data), n)
}

// lastLines splits data into lines. clipped marks an incomplete first line, which is omitted unless
// it is the only one.
func lastLines(data []byte, clipped bool, n int) []string {
	if clipped {
		if _, rest, found := bytes.Cut(data, []byte{'\n'}); found && len(rest) > 0 {
			data = rest
		}
	}
	var all []string
	split := lineSplitter{emit: func(line []byte) {
		all = append(all, strings.ToValidUTF8(string(line), "\uFFFD"))
	}}
	split.feed(data)
	split.flush()
	return all[max(0, len(all)-n):]
}
