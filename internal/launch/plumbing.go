package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// plumbing is every file a launch opens, so that one place can take it all
// back (LCH-3). All of them are close-on-exec; only the five in childEnds reach
// the child, and only those of its own launch (LCH-2).
type plumbing struct {
	childEnds []*os.File // descriptors 0 to 4 of the child
	payload   *os.File   // write end
	lifeline  *os.File   // write end
	stdout    logFile
	stderr    logFile
	created   []string // files that did not exist before
}

// logFile is where one stream of one child goes. The file may hold output of
// an earlier child of the same name; ours begins at from.
type logFile struct {
	path   string
	from   int64
	told   int64 // an earlier launcher has told what is before
	cap    int64 // Spec.LogCap
	unkept error // why there is no file, and the stream goes nowhere
}

// keep is how much of the file stays at least.
func (l logFile) keep() int64 {
	if l.cap == 0 {
		return DefaultLogCap
	}
	return max(l.cap, minLogCap)
}

func openPlumbing(spec *Spec) (*plumbing, error) {
	p := new(plumbing)
	if err := p.open(spec); err != nil {
		p.undo()
		return nil, err
	}
	return p, nil
}

func (p *plumbing) open(spec *Spec) (err error) {
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	p.childEnds = append(p.childEnds, stdin)
	base := filepath.Join(spec.LogDir, spec.Name)
	if p.stdout, err = p.openLog(base+".stdout.log", spec.LogCap); err != nil {
		return err
	}
	if p.stderr, err = p.openLog(base+".stderr.log", spec.LogCap); err != nil {
		return err
	}
	if p.payload, err = p.openPipe(); err != nil {
		return err
	}
	p.lifeline, err = p.openLifeline(spec)
	return err
}

// openLog opens a file rather than a pipe: a pipe would block the child when
// its reader is slow and kill it by SIGPIPE when its reader is gone. When the
// disk takes none, the child runs without: a log is not worth a proc.
func (p *plumbing) openLog(path string, limit int64) (logFile, error) {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	f, err := os.OpenFile(path, flags|os.O_EXCL, 0o600)
	if err == nil {
		p.created = append(p.created, path)
	} else if f, err = os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600); err != nil {
		err = fmt.Errorf("log file: %w", err)
		if diskRefuses(err) {
			return p.openNowhere(err)
		}
		return logFile{}, err
	}
	p.childEnds = append(p.childEnds, f)
	info, err := f.Stat()
	if err != nil {
		return logFile{}, fmt.Errorf("log file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return logFile{}, fmt.Errorf("log file %s: expected a regular file, found mode %v", path, info.Mode())
	}
	return logFile{path: path, from: info.Size(), cap: limit}, nil
}

// diskRefuses reports whether a file cannot be made, for a reason that lies with
// the disk and not with us.
func diskRefuses(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// openNowhere drops what the child prints.
func (p *plumbing) openNowhere(why error) (logFile, error) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return logFile{}, errors.Join(why, err)
	}
	p.childEnds = append(p.childEnds, f)
	return logFile{unkept: why}, nil
}

// openPipe gives the child the read end and returns the write end.
func (p *plumbing) openPipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.childEnds = append(p.childEnds, r)
	return w, nil
}

// descriptors must be called before the fork: Fd puts the read ends of the
// pipes into blocking mode, which is what a child in any language expects.
func (p *plumbing) descriptors() []uintptr {
	fds := make([]uintptr, len(p.childEnds))
	for i, f := range p.childEnds {
		fds[i] = f.Fd()
	}
	return fds
}

// closeChildEnds is called once the child has its own copies.
func (p *plumbing) closeChildEnds() {
	for _, f := range p.childEnds {
		_ = f.Close() // nothing was written through it here
	}
	p.childEnds = nil
}

// undo closes and removes everything.
func (p *plumbing) undo() {
	p.closeChildEnds()
	_ = p.payload.Close() // nil is allowed and says so
	_ = p.lifeline.Close()
	for _, path := range p.created {
		_ = os.Remove(path) // best effort: the launch has failed already
	}
}
