package launch

import (
	"bytes"
	"os"
	"time"
)

const (
	// DefaultLogCap is Spec.LogCap where none is given.
	DefaultLogCap = 64 << 20

	// minLogCap leaves room for the tail, which is always kept.
	minLogCap = 2 * tailBytes

	// lookAtDisk is how often the disk of a file that does not grow is looked at:
	// on a full disk no file grows.
	lookAtDisk = time.Second

	// block is the smallest piece of a hole.
	block = 4 << 10
)

// logKeeper bounds a file that others append to, and that cannot be taken from
// them: it cuts a hole into its old part. The file keeps its length, so that
// offsets stay what they are and no writer notices, but what is in the hole
// takes no room on the disk. What is appended meanwhile is never touched: there
// is no moment in which a line could be lost.
type logKeeper struct {
	cap       int64 // what is kept at least; 0 = all
	floor     int64 // where what is kept begins
	full      func(*os.File) bool
	looked    time.Time // at the disk
	restarted bool      // the file was emptied, because it can have no holes
}

// trim lets go of what is older than what is kept, in steps of cap: the newest
// cap bytes stay, and of older ones at most as many. When the disk is nearly
// full only the tail stays: forced says so. All before at was read.
func (k *logKeeper) trim(f *os.File, at int64, now time.Time) (freed int64, forced bool) {
	if k.cap == 0 {
		return 0, false
	}
	stay, most := k.cap, 2*k.cap
	if now.Sub(k.looked) >= lookAtDisk {
		k.looked = now
		if at-k.floor > 2*tailBytes && k.full(f) {
			stay, most, forced = tailBytes, 2*tailBytes, true
		}
	}
	if at-k.floor <= most {
		return 0, false
	}
	cut := lineBegin(f, at-stay)
	freed = cut - k.floor
	if err := punch(f, k.floor, cut); err != nil {
		return k.empty(f, at)
	}
	k.floor = cut
	return freed, forced
}

// empty is for file systems that have no holes: the file begins anew. Only what
// is printed between our last look and this moment is lost.
func (k *logKeeper) empty(f *os.File, at int64) (freed int64, forced bool) {
	if err := f.Truncate(0); err != nil {
		return 0, false // not writable: there is nothing to be done, and the child goes on
	}
	freed, k.floor, k.restarted = at-k.floor, 0, true
	return freed, true
}

// lineBegin is where the first line begins at or after an offset, if that is
// near.
func lineBegin(f *os.File, at int64) int64 {
	buf := make([]byte, MaxLine)
	n, _ := f.ReadAt(buf, at-1) // what cannot be read has no newline
	if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
		return at + int64(i)
	}
	return at
}

// afterHole drops what remains of a hole in the block where it ends.
func afterHole(data []byte) []byte { return bytes.TrimLeft(data, "\x00") }
