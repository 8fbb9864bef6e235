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

// lifelineSuffix ends the file names of lifelines in the state directory.
const lifelineSuffix = ".lifeline"

// prepareKept prepares the files of a kept child.
func (s *Spec) prepareKept(stateDir string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("cannot keep a process: %w", errors.ErrUnsupported)
	}
	if stateDir == "" {
		return errors.New("a kept process needs Options.StateDir")
	}
	s.lifeline = filepath.Join(stateDir, s.Name+lifelineSuffix)
	s.deathSignal = 0
	return checkDir("state", stateDir)
}

// openLifeline gives the read end to the child and returns the write end. The lifeline of a kept
// child is a FIFO, which a later launcher can reopen.
func (p *childFiles) openLifeline(spec *Spec) (*os.File, error) {
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
	return openLifelineWriter(spec.lifeline)
}

// makeFIFO makes a FIFO. It replaces one without readers.
func (p *childFiles) makeFIFO(path string) error {
	err := unix.Mkfifo(path, 0o600)
	if errors.Is(err, fs.ErrExist) {
		holder, opened := openLifelineWriter(path)
		if opened == nil {
			_ = holder.Close()
			return fmt.Errorf("%s: %w", path, ErrKeptAlive)
		}
		if !errors.Is(opened, unix.ENXIO) {
			return opened
		}
		err = os.Remove(path)
		if err == nil {
			err = unix.Mkfifo(path, 0o600)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	p.created = append(p.created, path)
	return nil
}

// openLifelineWriter opens the write end. ENXIO means no reader.
func openLifelineWriter(path string) (*os.File, error) {
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

// reacquireLifeline opens the lifeline of an adopted child and writes one byte, because an open
// alone wakes no reader.
func reacquireLifeline(path string) (*os.File, error) {
	f, err := openLifelineWriter(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write([]byte{1}); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
