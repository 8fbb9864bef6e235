package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

const (
	// tempDirPrefix begins the names of temporary run directories.
	tempDirPrefix = "castnet-"
	// tempDirMark is a file in them. A directory without it is somebody else's.
	tempDirMark = ".hostd"
)

// runDir is the directory for output files, locked by its host.
type runDir struct {
	path string
	temp bool     // it ends with the host
	lock *os.File // nil: its file system has no locks
}

// errDirInUse refuses a directory of another host.
var errDirInUse = errors.New("another hostd uses it")

// openRunDir makes and locks the directory for the output of procs. Without a path it is a
// temporary one, and those of killed hosts are removed.
func openRunDir(path, label string, log zerolog.Logger) (d runDir, err error) {
	if path != "" {
		d.path, err = filepath.Abs(path)
		if err == nil {
			err = os.MkdirAll(d.path, 0o700)
		}
		if err == nil {
			d.lock, err = lockDir(d.path, deadLockTimeout)
		}
	} else {
		removeDeadTempDirs(log)
		d, err = makeTempDir(label)
	}
	if errors.Is(err, errDirInUse) {
		err = fmt.Errorf("%s: %w: want a --log-dir for each", d.path, err)
	}
	if err != nil {
		return d, fmt.Errorf(
			"cannot open the directory for the output of procs (--log-dir, else below --state-dir): %w", err)
	}
	return d, nil
}

// makeTempDir makes a temporary directory. Another host may remove it before it is locked.
func makeTempDir(label string) (d runDir, err error) {
	d.temp = true
	for range 3 {
		d.path, err = os.MkdirTemp("", tempDirPrefix+label+"-")
		if err != nil {
			return runDir{}, err
		}
		d.lock, err = lockDir(d.path, 0)
		if err == nil {
			err = os.WriteFile(filepath.Join(d.path, tempDirMark), nil, 0o600)
		}
		if err == nil || errors.Is(err, syscall.ENOSPC) { // on a full disk it stays after a kill
			return d, nil
		}
		_ = d.lock.Close() // nil is allowed
	}
	return runDir{}, err
}

// lockDir locks a directory for as long as the file is open. A forked child of a dead host shares
// its lock until its exec, so lockDir waits. A file system without locks yields nil.
func lockDir(path string, wait time.Duration) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(deadLockTimeout / 100) {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = dir.Close()
			return nil, nil
		}
		if !time.Now().Before(deadline) {
			_ = dir.Close()
			return nil, errDirInUse
		}
	}
}

// removeDeadTempDirs removes the temporary directories of killed hosts of this user.
func removeDeadTempDirs(log zerolog.Logger) {
	entries, _ := os.ReadDir(os.TempDir()) // without it no host works
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), tempDirPrefix) || !isOwnFile(info) {
			continue
		}
		path := filepath.Join(os.TempDir(), e.Name())
		if _, err := os.Lstat(filepath.Join(path, tempDirMark)); err != nil {
			continue
		}
		lock, err := lockDir(path, 0)
		if err != nil || lock == nil {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			log.Warn().Err(err).Msg("cannot remove the temporary directory of a killed hostd")
		}
		_ = lock.Close()
	}
}

// close removes a temporary directory and unlocks it.
func (d runDir) close() (err error) {
	if d.temp {
		err = os.RemoveAll(d.path)
	}
	_ = d.lock.Close() // nil is allowed
	return err
}
