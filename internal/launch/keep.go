package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// lifelineSuffix ends the names of kept children's lifelines in the state
// directory.
const lifelineSuffix = ".lifeline"

// keep prepares a child that outlives its launcher.
func (s *Spec) keep(stateDir string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("to be kept: %w", errors.ErrUnsupported)
	}
	if stateDir == "" {
		return errors.New("to be kept it needs Options.StateDir")
	}
	s.lifeline = filepath.Join(stateDir, s.Name+lifelineSuffix)
	s.deathSignal = 0
	return checkDir("state", stateDir)
}

// openLifeline gives the child the read end and returns the write end. A kept
// child's lifeline is a FIFO, which a later launcher can hold again.
func (p *plumbing) openLifeline(spec *Spec) (*os.File, error) {
	if !spec.Keep {
		return p.openPipe()
	}
	if err := p.makeFIFO(spec.lifeline); err != nil {
		return nil, fmt.Errorf("lifeline: %w", err)
	}
	r, err := os.OpenFile(spec.lifeline, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("lifeline: %w", err)
	}
	p.childEnds = append(p.childEnds, r)
	return openHolder(spec.lifeline)
}

// makeFIFO replaces one that nobody reads.
func (p *plumbing) makeFIFO(path string) error {
	err := unix.Mkfifo(path, 0o600)
	if errors.Is(err, fs.ErrExist) {
		holder, opened := openHolder(path)
		if opened == nil {
			_ = holder.Close()
			return fmt.Errorf("%s: %w", path, ErrKeptAlive)
		}
		if !errors.Is(opened, unix.ENXIO) {
			return opened
		}
		if err = os.Remove(path); err == nil {
			err = unix.Mkfifo(path, 0o600)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	p.created = append(p.created, path)
	return nil
}

// openHolder opens the write end; ENXIO says that nobody reads.
func openHolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Type() != fs.ModeNamedPipe {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("expected a named pipe")}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// hold opens the lifeline of an adopted child and tells it so with a byte: the
// kernel wakes no reader for a mere open.
func hold(path string) (*os.File, error) {
	f, err := openHolder(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write([]byte{1}); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
