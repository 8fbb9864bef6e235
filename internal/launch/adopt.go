package launch

import (
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/internal/failpoint"
)

// A Record is what another launcher has to know to adopt a kept child. Write it
// down before anybody relies on the child.
type Record struct {
	Name       string
	PID        int
	Ticks      uint64 // field 22 of /proc/PID/stat
	Boot       string // the kernel's boot id
	Started    time.Time
	Kept       bool
	Cgroup     string   // in cgroup v2; "" = none
	Legacy     []string // in v1 hierarchies
	OOM        string   // the file that counts kills for want of memory
	Memory     int64    // the limit in force
	Unenforced []string
	Stdout     LogMark
	Stderr     LogMark
}

// A LogMark is where one child's output begins in a log file.
type LogMark struct {
	Path string
	From int64
	Told int64 // where following goes on (Following.Told); 0: at From
}

// Record describes a kept child. For one that is not kept it is only good to
// look at.
func (c *Child) Record() Record {
	t := c.h.tree
	return Record{
		Name: c.name, PID: c.h.pid, Ticks: c.h.ticks, Boot: bootID(), Started: c.started, Kept: c.fifo != "",
		Cgroup: t.unified, Legacy: t.legacy, OOM: t.oom, Memory: t.memory, Unenforced: t.missing,
		Stdout: LogMark{Path: c.stdout.path, From: c.stdout.from}, Stderr: LogMark{Path: c.stderr.path, From: c.stderr.from},
	}
}

// Adopt takes over a kept child of an earlier launcher: it makes sure that the
// process is the one in the record, holds its lifeline again and watches it. The
// error is an *AdoptError; whatever it says, nothing was done to any process.
// How an adopted child ends is known from Linux 6.15 on; before, only if its
// parent takes its time to reap it, else its exit is Unknown.
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

func (l *Launcher) adopt(r Record) (*Child, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.launching.Done()
	spec := &Spec{Name: r.Name}
	switch {
	case !nameRule.MatchString(r.Name):
		return nil, fmt.Errorf("name %q does not match %s", r.Name, nameRule)
	case !r.Kept:
		return nil, errors.New("it was not to be kept")
	}
	if err := spec.keep(l.stateDir); err != nil {
		return nil, err
	}
	if r.Boot != bootID() {
		return nil, ErrOtherBoot
	}
	for _, c := range l.snapshot() {
		if c.name == r.Name && c.fifo != "" {
			return nil, errors.New("it is a child of this launcher")
		}
	}
	h, err := find(r)
	if err != nil {
		return nil, err
	}
	h.tree.foreign = true
	failpoint.Hit("adopt-verified")
	p := &plumbing{
		stdout: logFile{path: r.Stdout.Path, from: r.Stdout.From, told: r.Stdout.Told},
		stderr: logFile{path: r.Stderr.Path, from: r.Stderr.From, told: r.Stderr.Told},
	}
	if p.lifeline, err = hold(spec.lifeline); err != nil {
		// It may have let go of it, or be about to end: it is ours all the same.
		l.log.Warn().Err(err).Str("child", r.Name).Msg("lifeline of an adopted child cannot be held")
	}
	failpoint.Hit("adopt-held")
	c := l.newChild(spec, h, p)
	c.started = r.Started
	l.own(c, nil)
	return c, nil
}
