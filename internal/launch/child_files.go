package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/logfile"
)

// childFiles holds every file that a launch opens, so that undo can remove all of them (LCH-3). All
// are close-on-exec. Only the five childEnds reach the child, and no other child (LCH-1).
type childFiles struct {
	childEnds []*os.File // descriptors 0 to 4 of the child
	payload   *os.File   // write end
	lifeline  *os.File   // write end
	output    logfile.Output
	created   []string // files that did not exist before
}

func openChildFiles(spec *Spec) (*childFiles, error) {
	p := new(childFiles)
	if err := p.open(spec); err != nil {
		p.undo()
		return nil, err
	}
	return p, nil
}

func (p *childFiles) open(spec *Spec) (err error) {
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	p.childEnds = append(p.childEnds, stdin)
	for s := range p.output {
		path := fmt.Sprintf("%s.%s.log", filepath.Join(spec.LogDir, spec.Name), logfile.Stream(s))
		p.output[s], err = p.openLog(path, spec.LogCap)
		if err != nil {
			return err
		}
	}
	p.payload, err = p.openPipe()
	if err != nil {
		return err
	}
	p.lifeline, err = p.openLifeline(spec)
	return err
}

// openLog opens a log file. A pipe would block the child when its reader is slow, and kill it by
// SIGPIPE when the reader is gone. Without space on the disk the child runs without a log.
func (p *childFiles) openLog(path string, limit int64) (logfile.File, error) {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	f, err := os.OpenFile(path, flags|os.O_EXCL, 0o600)
	if err == nil {
		p.created = append(p.created, path)
	} else {
		f, err = os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			err = fmt.Errorf("log file: %w", err)
			if isDiskError(err) {
				return p.openDevNull(err)
			}
			return logfile.File{}, err
		}
	}
	p.childEnds = append(p.childEnds, f)
	info, err := f.Stat()
	if err != nil {
		return logfile.File{}, fmt.Errorf("log file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return logfile.File{}, fmt.Errorf("log file %s: expected a regular file, found mode %v", path, info.Mode())
	}
	return logfile.File{Path: path, Start: info.Size(), Cap: limit}, nil
}

// isDiskError reports whether the disk, and not the launcher, is the cause of a failed create.
func isDiskError(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// openDevNull discards the child's output.
func (p *childFiles) openDevNull(why error) (logfile.File, error) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return logfile.File{}, errors.Join(why, err)
	}
	p.childEnds = append(p.childEnds, f)
	return logfile.File{Err: why}, nil
}

// openPipe gives the read end to the child and returns the write end.
func (p *childFiles) openPipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.childEnds = append(p.childEnds, r)
	return w, nil
}

// descriptors must be called before the fork. Fd sets the read ends of the pipes to blocking mode,
// as programs in any language expect.
func (p *childFiles) descriptors() []uintptr {
	fds := make([]uintptr, len(p.childEnds))
	for i, f := range p.childEnds {
		fds[i] = f.Fd()
	}
	return fds
}

// closeChildEnds closes the launcher's copies after the fork.
func (p *childFiles) closeChildEnds() {
	for _, f := range p.childEnds {
		_ = f.Close() // no writes here
	}
	p.childEnds = nil
}

// undo closes and removes everything.
func (p *childFiles) undo() {
	p.closeChildEnds()
	_ = p.payload.Close() // nil is allowed and returns an error
	_ = p.lifeline.Close()
	for _, path := range p.created {
		_ = os.Remove(path) // best effort: the launch has failed already
	}
}

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
