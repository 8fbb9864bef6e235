//go:build !linux

package launch

import (
	"errors"
	"time"

	"github.com/rs/zerolog"
)

// cgroups and orphans exist on Linux only.
type cgroups struct {
	name        string
	unavailable error
}

func openCgroups(Options) *cgroups {
	return &cgroups{unavailable: errors.New("this system has no cgroups")}
}

func (g *cgroups) close() {}

func (g *cgroups) create(spec *Spec) (*tree, error) {
	t := new(tree)
	for _, what := range spec.Limits.names() {
		t.addUnenforced(what, errors.New("this system has no such limit for a tree"))
	}
	return t, nil
}

// names lists the requested limits.
func (l *Limits) names() (all []string) {
	if l.Memory > 0 {
		all = append(all, l.memoryName())
	}
	if l.Pids > 0 {
		all = append(all, l.pidsName())
	}
	if l.CPU > 0 {
		all = append(all, l.cpuName())
	}
	if len(l.CPUs) > 0 {
		all = append(all, l.cpusName())
	}
	if l.Files > 0 {
		all = append(all, l.filesName())
	}
	return all
}

func (t *tree) killAndWait(time.Duration) bool      { return true }
func (t *tree) outOfMemory() bool                   { return false }
func (t *tree) remove() error                       { return nil }
func (t *tree) removeWithRetry(time.Duration) error { return nil }

type orphans struct{}

func adoptOrphans(string, zerolog.Logger) *orphans { return nil }

func (o *orphans) stop()                               {}
func (o *orphans) forkChild(_ *Spec, start func() int) { start() }
func (o *orphans) reap(string, time.Duration) bool     { return true }

func bootID() string { return "" }

// BootClock works on Linux only.
func BootClock() (boot string, now time.Duration) { return "", 0 }
func openRecorded(Record) (*handle, error)        { return nil, errors.ErrUnsupported }

// KillLeftovers finds nothing, because there are no cgroups.
func (l *Launcher) KillLeftovers() ([]Leftover, error) { return nil, nil }
