package launch

import (
	"bytes"
	"os"
	"time"
)

const (
	// DefaultLogCap is the default of Spec.LogCap.
	DefaultLogCap = 64 << 20

	// minLogCap leaves room for the tail.
	minLogCap = 2 * tailBytes

	// diskCheckInterval is the interval of disk checks for an idle file: on a full disk no file
	// grows.
	diskCheckInterval = time.Second

	// blockSize is the granularity of holes.
	blockSize = 4 << 10
)

// logKeeper bounds a file that other processes append to. It punches a hole into the old part: the
// length and all offsets stay valid, and the hole takes no disk space. Appended data is untouched,
// so no line is lost.
type logKeeper struct {
	cap           int64 // bytes to keep at least; 0 = all
	start         int64 // start of the kept part
	isDiskFull    func(*os.File) bool
	diskCheckedAt time.Time // time of the last disk check
	restarted     bool      // the file was emptied for lack of holes
}

// trim discards old data in steps of cap: the newest cap bytes stay, plus at most as many older
// ones. On a nearly full disk only the tail stays, and forced is true. All data before at was read.
func (k *logKeeper) trim(f *os.File, at int64, now time.Time) (freed int64, forced bool) {
	if k.cap == 0 {
		return 0, false
	}
	stay, most := k.cap, 2*k.cap
	if now.Sub(k.diskCheckedAt) >= diskCheckInterval {
		k.diskCheckedAt = now
		if at-k.start > 2*tailBytes && k.isDiskFull(f) {
			stay = tailBytes
			most = 2 * tailBytes
			forced = true
		}
	}
	if at-k.start <= most {
		return 0, false
	}
	cut := nextLineStart(f, at-stay)
	freed = cut - k.start
	if err := punchHole(f, k.start, cut); err != nil {
		return k.truncateFile(f, at)
	}
	k.start = cut
	return freed, forced
}

// truncateFile restarts a file on a file system without holes. It loses only output written since
// the last read.
func (k *logKeeper) truncateFile(f *os.File, at int64) (freed int64, forced bool) {
	if err := f.Truncate(0); err != nil {
		return 0, false // not writable: the child goes on without a bound
	}
	freed = at - k.start
	k.start = 0
	k.restarted = true
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
