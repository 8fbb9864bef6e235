package logfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// punchHole frees the disk space of a part of a file. The first block may remain of an earlier
// hole.
func punchHole(f *os.File, from, to int64) error {
	from -= from % blockSize
	return withFD(f, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	})
}

// nextData returns the first offset from at on outside a hole, or at if unknown.
func nextData(f *os.File, at int64) (data int64) {
	err := withFD(f, func(fd int) (err error) {
		data, err = unix.Seek(fd, at, unix.SEEK_DATA)
		return err
	})
	if err != nil {
		return at
	}
	return data
}

// diskNearlyFull reports whether less than a 32nd of the disk and less than 16 MiB is free.
func diskNearlyFull(f *os.File) (full bool) {
	var s unix.Statfs_t
	err := withFD(f, func(fd int) error { return unix.Fstatfs(fd, &s) })
	return err == nil && nearlyFull(s)
}

func nearlyFull(s unix.Statfs_t) bool {
	return s.Blocks > 0 && s.Bavail < s.Blocks/32 && s.Bavail*uint64(s.Bsize) < 16<<20
}

// CheckDir reports why a directory may lose output.
func CheckDir(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("cannot write to %s: %w", dir, err)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err == nil && nearlyFull(s) {
		return fmt.Errorf("the disk of %s is nearly full: older output is dropped, and new output may be lost", dir)
	}
	return nil
}

func withFD(f *os.File, do func(fd int) error) error {
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
