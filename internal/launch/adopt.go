package launch

import (
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/logfile"
)

// Record identifies a kept child for adoption by another launcher. Store it before anything relies
// on the child.
type Record struct {
	Name       string
	PID        int
	Ticks      uint64 // field 22 of /proc/PID/stat
	Boot       string // the kernel's boot id
	Started    time.Time
	Kept       bool
	Group      cgroup.Group
	Unenforced []string
	Output     logfile.Output // Follow continues at File.Resume, if set
}

// Record returns the record of a kept child. For other children it is informational.
func (c *Child) Record() Record {
	t := c.handle.tree
	return Record{
		Name: c.name, PID: c.handle.pid, Ticks: c.handle.ticks, Boot: bootID(), Started: c.started,
		Kept: c.lifelinePath != "", Group: t.Group, Unenforced: t.unenforced, Output: c.output,
	}
}

// Adopt takes over a kept child of an earlier launcher. It verifies the process against the record,
// holds its lifeline again and watches it. The error is an *AdoptError; on error no process is
// affected.
//
// From Linux 6.15 the exit status of an adopted child is known. Before, it is known only if its
// parent reaps it slowly, otherwise Exit is Unknown.
//
// Two launchers must not adopt one child: lock the state directory.
func (l *Launcher) Adopt(r Record) (*Child, error) {
	c, err := l.adopt(r)
	if err != nil {
		return nil, &AdoptError{Name: r.Name, PID: r.PID, Err: err}
	}
	c.log.Debug().Msg("child adopted")
	return c, nil
}

// errNoLog is the log error of an adopted child whose output goes to no file.
var errNoLog = errors.New("an earlier launcher could not make its log file")

func (l *Launcher) adopt(r Record) (*Child, error) {
	if err := l.beginLaunch(); err != nil {
		return nil, err
	}
	defer l.launching.Done()
	spec := &Spec{Name: r.Name}
	if !nameRule().MatchString(r.Name) {
		return nil, fmt.Errorf("name %q does not match %s", r.Name, nameRule())
	}
	if !r.Kept {
		return nil, errors.New("the record is not of a kept process")
	}
	if err := spec.prepareKept(l.stateDir); err != nil {
		return nil, err
	}
	if r.Boot != bootID() {
		return nil, ErrOtherBoot
	}
	for _, c := range l.snapshot() {
		if c.name == r.Name && c.lifelinePath != "" {
			return nil, errors.New("it is a child of this launcher")
		}
	}
	h, err := openRecorded(r)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("adopt-verified")
	p := &childFiles{output: r.Output}
	for s, f := range r.Output {
		if f.Path == "" {
			p.output[s].Err = errNoLog
		}
	}
	p.lifeline, err = reacquireLifeline(spec.lifeline)
	if err != nil {
		// The child may have closed its lifeline, or be about to end. It is adopted all the same.
		l.log.Warn().Err(err).Str("child", r.Name).Msg("cannot hold the lifeline of an adopted child")
	}
	failpoint.Hit("adopt-held")
	c := l.newChild(spec, h, p)
	c.started = r.Started
	l.track(c, nil)
	return c, nil
}
