package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxLocalSize is far above the size of a file from WriteLocal.
const maxLocalSize = 64 << 10

// LocalServer is the record of a server on this machine, for programs of the same user.
type LocalServer struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"`
	PID   int    `json:"pid"` // the writer's; the server lives as long as this process

	// TLS of the server, as in Options. CAFile is for programs that know no fingerprints.
	Fingerprint string `json:"fingerprint,omitempty"`
	CAFile      string `json:"ca_file,omitempty"`
	CertFile    string `json:"cert_file,omitempty"`
	KeyFile     string `json:"key_file,omitempty"`
}

// LocalFile is the path of the file: castnet/local.json in XDG_RUNTIME_DIR, or
// castnet-UID/local.json in the directory for temporary files.
func LocalFile(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("bus: XDG_RUNTIME_DIR is %q, expected an absolute path", dir)
		}
		return filepath.Join(dir, "castnet", "local.json"), nil
	}
	return filepath.Join(os.TempDir(), "castnet-"+strconv.Itoa(os.Getuid()), "local.json"), nil
}

// WriteLocal writes or replaces the file, readable by this user only. It creates a missing
// directory.
func WriteLocal(path string, l LocalServer) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("bus: write %s: %w", path, err)
	}
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("bus: write %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("bus: directory of the local file: %w", err)
	}
	if err := checkPrivateDir(dir); err != nil {
		return err
	}
	if err := replaceFile(path, data); err != nil {
		return fmt.Errorf("bus: write the local file: %w", err)
	}
	return nil
}

// replaceFile never shows a reader half a file.
func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".local-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// ReadLocal reads the file. It refuses a file accessible to another user. A missing file, and one
// of a dead writer, is fs.ErrNotExist.
func ReadLocal(path string) (LocalServer, error) {
	l, err := readLocal(path)
	if err != nil {
		return LocalServer{}, err
	}
	if errors.Is(syscall.Kill(l.PID, 0), syscall.ESRCH) {
		return LocalServer{}, fmt.Errorf("bus: local file %s: its process %d is gone: %w", path, l.PID,
			fs.ErrNotExist)
	}
	return l, nil
}

// RemoveLocal removes the file if process pid wrote it.
func RemoveLocal(path string, pid int) error {
	l, err := readLocal(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case l.PID != pid:
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bus: remove the local file: %w", err)
	}
	return nil
}

// readLocal checks the opened file itself, so that it cannot be replaced in between.
func readLocal(path string) (LocalServer, error) {
	if err := checkPrivateDir(filepath.Dir(path)); err != nil {
		return LocalServer{}, err
	}
	// O_NONBLOCK: a FIFO in the file's place must not hang us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return LocalServer{}, fmt.Errorf("bus: local file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return LocalServer{}, fmt.Errorf("bus: local file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return LocalServer{}, fmt.Errorf("bus: local file %s is not a regular file", path)
	}
	if err := checkPrivate(path, info); err != nil {
		return LocalServer{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLocalSize+1))
	if err != nil {
		return LocalServer{}, fmt.Errorf("bus: local file: %w", err)
	}
	l, err := parseLocal(data)
	if err != nil {
		return LocalServer{}, fmt.Errorf("bus: local file %s: %w", path, err)
	}
	return l, nil
}

func parseLocal(data []byte) (LocalServer, error) {
	var l LocalServer
	if len(data) > maxLocalSize {
		return l, fmt.Errorf("want at most %d bytes", maxLocalSize)
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return LocalServer{}, fmt.Errorf("malformed JSON: %w", err)
	}
	if err := l.check(); err != nil {
		return LocalServer{}, err
	}
	return l, nil
}

func (l LocalServer) check() error {
	if _, rest, ok := strings.Cut(l.URL, "://"); !ok || rest == "" {
		return fmt.Errorf("url is %q, expected e.g. %s", stripUserinfo(l.URL), DefaultURL)
	}
	if l.PID <= 0 {
		return fmt.Errorf("pid is %d, expected a process id", l.PID)
	}
	if l.Fingerprint != "" {
		return CheckFingerprint(l.Fingerprint)
	}
	return nil
}

func checkPrivateDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("bus: directory of the local file: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("bus: %s is not a directory", dir)
	}
	return checkPrivate(dir, info)
}

// checkPrivate refuses a file that another user can write, read or replace.
func checkPrivate(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("bus: %s is owned by user %d, expected %d", path, st.Uid, os.Getuid())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("bus: %s has mode %#o, expected no access for others", path, perm)
	}
	return nil
}
