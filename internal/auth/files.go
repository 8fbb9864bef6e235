package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

const (
	fileName = "authority.json"
	lockName = "lock"

	// maxFile bounds a file: 10,000 keys and users have 5 MB.
	maxFile = 16 << 20

	// lockTimeout bounds the wait for another writer, which only computes and writes.
	lockTimeout = 5 * time.Second
)

// DefaultDir is castnet/auth in XDG_CONFIG_HOME, or in .config of the home directory.
func DefaultDir(getenv func(string) string) (string, error) {
	base := getenv("XDG_CONFIG_HOME")
	if base == "" && getenv("HOME") != "" {
		base = filepath.Join(getenv("HOME"), ".config")
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("there is no default for --dir: XDG_CONFIG_HOME is %q, want an absolute path", base)
	}
	return filepath.Join(base, "castnet", "auth"), nil
}

// Init makes an Authority in a directory that has none.
func Init(dir string, space subjects.Space) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of credentials: %w", err)
	}
	return locked(dir, func() error {
		if _, err := os.Lstat(filepath.Join(dir, fileName)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has an authority already: remove the directory first, or want another --dir", dir)
		}
		a, err := newAuthority(space)
		if err != nil {
			return err
		}
		return a.write(dir)
	})
}

// Read reads the Authority of a directory.
func Read(dir string) (*Authority, error) {
	path := filepath.Join(dir, fileName)
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no authority in %s: make one with castnet auth init: %w", dir,
			fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	a, err := parseAuthority(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return a, nil
}

func parseAuthority(data []byte) (*Authority, error) {
	a := &Authority{}
	if err := json.Unmarshal(data, a); err != nil {
		return nil, errors.New("malformed JSON") // the decoder's words may have a part of a seed
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	return a, nil
}

// Update changes the Authority of a directory, alone (AUTH-3). An error of change leaves it as it
// was.
func Update(dir string, change func(*Authority) error) error {
	if _, err := Read(dir); err != nil {
		return err
	}
	return locked(dir, func() error {
		a, err := Read(dir)
		if err != nil {
			return err
		}
		if err := change(a); err != nil {
			return err
		}
		a.prune()
		return a.write(dir)
	})
}

func (a *Authority) write(dir string) error {
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return WritePrivate(filepath.Join(dir, fileName), append(data, '\n'))
}

// locked runs f while no other process does for this directory.
func locked(dir string, f func() error) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("cannot lock the directory of credentials: %w", err)
	}
	defer lock.Close()
	for end := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 500) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			return fmt.Errorf("cannot lock %s, which another castnet auth may use: %w", dir, err)
		}
	}
}

// WritePrivate replaces a file by one that only its owner can read. A reader sees the old or the
// new one.
func WritePrivate(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot write %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}

// readPrivate reads a file that only its owner can.
func readPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hang
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %#o, want no access for others: chmod 600 %s", path,
			info.Mode().Perm(), path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: want at most %d bytes", path, maxFile)
	}
	return data, err
}
