package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// childFiles holds every file that a launch opens, so that undo can remove all of them (LCH-3). All
// are close-on-exec. Only the five childEnds reach the child, and no other child (LCH-2).
type childFiles struct {
	childEnds []*os.File // descriptors 0 to 4 of the child
	payload   *os.File   // write end
	lifeline  *os.File   // write end
	stdout    logFile
	stderr    logFile
	created   []string // files that did not exist before
}

// logFile is the destination of one stream of one child. Output of an earlier child of that name
// may come before offset from.
type logFile struct {
	path     string
	start    int64
	resumeAt int64 // earlier output was reported by an earlier launcher
	cap      int64 // Spec.LogCap
	err      error // why the stream has no file
}

// minKept returns the minimum of bytes to keep.
func (l logFile) minKept() int64 {
	if l.cap == 0 {
		return DefaultLogCap
	}
	return max(l.cap, minLogCap)
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
	base := filepath.Join(spec.LogDir, spec.Name)
	p.stdout, err = p.openLog(base+".stdout.log", spec.LogCap)
	if err != nil {
		return err
	}
	p.stderr, err = p.openLog(base+".stderr.log", spec.LogCap)
	if err != nil {
		return err
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
func (p *childFiles) openLog(path string, limit int64) (logFile, error) {
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
			return logFile{}, err
		}
	}
	p.childEnds = append(p.childEnds, f)
	info, err := f.Stat()
	if err != nil {
		return logFile{}, fmt.Errorf("log file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return logFile{}, fmt.Errorf("log file %s: expected a regular file, found mode %v", path, info.Mode())
	}
	return logFile{path: path, start: info.Size(), cap: limit}, nil
}

// isDiskError reports whether the disk, and not the launcher, is the cause of a failed create.
func isDiskError(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// openDevNull discards the child's output.
func (p *childFiles) openDevNull(why error) (logFile, error) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return logFile{}, errors.Join(why, err)
	}
	p.childEnds = append(p.childEnds, f)
	return logFile{err: why}, nil
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
