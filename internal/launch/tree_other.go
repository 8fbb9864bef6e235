//go:build !linux

package launch

import (
	"errors"
	"time"

	"github.com/rs/zerolog"
)

// cgroups and orphans exist on Linux only.
type cgroups struct {
	name string
	why  error
}

func openCgroups(Options) *cgroups {
	return &cgroups{why: errors.New("this system has no cgroups")}
}

func (g *cgroups) close() {}

func (g *cgroups) plant(spec *Spec) (*tree, error) {
	t := new(tree)
	for _, what := range spec.Limits.names() {
		t.unenforced(what, errors.New("this system has no such limit for a tree"))
	}
	return t, nil
}

// names lists the limits that were asked for.
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

func (t *tree) end(time.Duration) bool    { return true }
func (t *tree) outOfMemory() bool         { return false }
func (t *tree) remove() error             { return nil }
func (t *tree) clear(time.Duration) error { return nil }

type orphans struct{}

func adoptOrphans(string, zerolog.Logger) *orphans { return nil }

func (o *orphans) stop()                              {}
func (o *orphans) expect(_ *Spec, start func() int)   { start() }
func (o *orphans) bereave(string, time.Duration) bool { return true }

func bootID() string { return "" }

// BootClock is for Linux.
func BootClock() (boot string, now time.Duration) { return "", 0 }
func find(Record) (*handle, error)                { return nil, errors.ErrUnsupported }

// Census finds nothing: there are no cgroups.
func (l *Launcher) Census() ([]Leftover, error) { return nil, nil }
