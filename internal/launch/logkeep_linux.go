package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// punch frees the disk of a part of a file. The block in which the part begins
// may be left of an earlier hole.
func punch(f *os.File, from, to int64) error {
	from -= from % block
	return control(f, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	})
}

// dataFrom is the first offset from at on that is in no hole; at itself where
// that cannot be known.
func dataFrom(f *os.File, at int64) (data int64) {
	err := control(f, func(fd int) (err error) {
		data, err = unix.Seek(fd, at, unix.SEEK_DATA)
		return err
	})
	if err != nil {
		return at
	}
	return data
}

// diskNearlyFull reports whether less than a 32nd of the disk is free, and less
// than 16 MiB.
func diskNearlyFull(f *os.File) (full bool) {
	var s unix.Statfs_t
	err := control(f, func(fd int) error { return unix.Fstatfs(fd, &s) })
	return err == nil && s.Blocks > 0 && s.Bavail < s.Blocks/32 && s.Bavail*uint64(s.Bsize) < 16<<20
}

func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}
