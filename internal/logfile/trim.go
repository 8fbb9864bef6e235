package logfile

import (
	"bytes"
	"os"
	"time"
)

const (
	// DefaultCap is the default of File.Cap.
	DefaultCap = 64 << 20

	// minCap leaves room for the tail.
	minCap = 2 * tailBytes

	// diskCheckInterval is the interval of disk checks for an idle file: on a full disk no file
	// grows.
	diskCheckInterval = time.Second

	// blockSize is the granularity of holes.
	blockSize = 4 << 10
)

// minKept returns the minimum of bytes to keep.
func (f File) minKept() int64 {
	if f.Cap == 0 {
		return DefaultCap
	}
	return max(f.Cap, minCap)
}

// trimmer bounds a file that other processes append to. It punches a hole into the old part: the
// length and all offsets stay valid, and the hole takes no disk space. Appended data is untouched,
// so no line is lost.
type trimmer struct {
	file          *os.File
	cap           int64 // bytes to keep at least
	start         int64 // start of the kept part
	isDiskFull    func(*os.File) bool
	diskCheckedAt time.Time // time of the last disk check
	restarted     bool      // the file was emptied for lack of holes
}

// trim discards old data in steps of cap: the newest cap bytes stay, plus at most as many older
// ones. On a nearly full disk only the tail stays, and forced is true. All data before at was read.
func (t *trimmer) trim(at int64, now time.Time) (freed int64, forced bool) {
	stay, most := t.cap, 2*t.cap
	if now.Sub(t.diskCheckedAt) >= diskCheckInterval {
		t.diskCheckedAt = now
		if at-t.start > 2*tailBytes && t.isDiskFull(t.file) {
			stay = tailBytes
			most = 2 * tailBytes
			forced = true
		}
	}
	if at-t.start <= most {
		return 0, false
	}
	cut := nextLineStart(t.file, at-stay)
	freed = cut - t.start
	if err := punchHole(t.file, t.start, cut); err != nil {
		return t.truncateFile(at)
	}
	t.start = cut
	return freed, forced
}

// truncateFile restarts a file on a file system without holes. It loses only output written since
// the last read.
func (t *trimmer) truncateFile(at int64) (freed int64, forced bool) {
	if err := t.file.Truncate(0); err != nil {
		return 0, false // not writable: the process goes on without a bound
	}
	freed = at - t.start
	t.start = 0
	t.restarted = true
	return freed, true
}

// nextLineStart returns the start of the first line at or after an offset, if near.
func nextLineStart(f *os.File, at int64) int64 {
	buf := make([]byte, MaxLine)
	n, _ := f.ReadAt(buf, at-1) // unreadable data has no newline
	if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
		return at + int64(i)
	}
	return at
}

// trimHole drops the rest of a hole at the start of a block.
func trimHole(data []byte) []byte { return bytes.TrimLeft(data, "\x00") }
