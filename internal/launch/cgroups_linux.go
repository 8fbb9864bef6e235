package launch

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	denPrefix  = "castnet-"
	keptPrefix = "keep."
	stopPrefix = "stop."
)

// cgroups is what a launcher has of cgroups: a den in v2, where there is one,
// and dens in v1 hierarchies, made when a limit first needs them.
type cgroups struct {
	name        string // of every den
	own         map[string]string
	unified     *den // nil: none
	why         error
	controllers []string // of v2, that children have
	count       atomic.Int64

	mu sync.Mutex
	v1 map[string]*den
}

// owner is the part of a den's name that launchers of one state directory have
// in common.
func owner(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return denPrefix + hex.EncodeToString(sum[:4]) + "-"
}

func openCgroups(o Options) *cgroups {
	g := &cgroups{name: owner(o.StateDir) + strings.ToLower(rand.Text()), v1: make(map[string]*den)}
	if o.Cgroup == NoCgroup {
		g.why = errors.New("cgroups are turned off")
		return g
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	mountinfo, err2 := os.ReadFile("/proc/self/mountinfo")
	if g.why = errors.Join(err, err2); g.why != nil {
		return g
	}
	g.own = ownCgroups(string(membership), string(mountinfo))
	if o.Cgroup != "" {
		g.own[unifiedKey] = o.Cgroup
	}
	g.why = g.openUnified()
	return g
}

func (g *cgroups) openUnified() error {
	base, ok := g.own[unifiedKey]
	if !ok {
		return errors.New("no cgroup v2 is mounted")
	}
	d, err := makeDen(base, g.name)
	if err != nil {
		return fmt.Errorf("cgroup v2: %w", err)
	}
	if _, err := os.Stat(filepath.Join(d.path, "cgroup.kill")); err != nil {
		d.close()
		return fmt.Errorf("cgroup v2 without cgroup.kill (Linux 5.14 or later): %w", err)
	}
	g.unified = d
	g.controllers = enable(d.path, enable(base, "memory", "pids", "cpu")...)
	return nil
}

// close removes the dens. All trees are gone or left to the next census.
func (g *cgroups) close() {
	if g.unified != nil {
		g.unified.close()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.v1 {
		d.close()
	}
}

// legacy returns the den in the v1 hierarchy of a controller.
func (g *cgroups) legacy(controller string) (*den, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.v1[controller]; d != nil {
		return d, nil
	}
	base, ok := g.own[controller]
	if !ok && g.own == nil {
		return nil, g.why
	}
	if !ok {
		return nil, errors.New("no cgroup v1 hierarchy has it")
	}
	d, err := makeDen(base, g.name)
	if err != nil {
		return nil, err
	}
	g.v1[controller] = d
	return d, nil
}

// plant makes the cgroups of one child, with its limits, before it is forked.
func (g *cgroups) plant(spec *Spec) (*tree, error) {
	t := new(tree)
	kind := stopPrefix
	if spec.Keep {
		kind = keptPrefix
	}
	name := fmt.Sprintf("%s%s.%d", kind, spec.Name, g.count.Add(1))
	if g.unified != nil {
		dir := filepath.Join(g.unified.path, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		t.unified = dir
		if slices.Contains(g.controllers, "memory") {
			t.oom = filepath.Join(dir, "memory.events")
		}
	}
	for _, l := range spec.Limits.byController() {
		if err := g.limit(t, spec, name, l); err != nil {
			t.unenforced(l.what, err)
		}
	}
	return t, nil
}

// limit puts one limit in force: in v2 where the controller is ours to give,
// else in v1.
func (g *cgroups) limit(t *tree, spec *Spec, name string, l controlled) error {
	dir, settings := t.unified, l.v2
	if !slices.Contains(g.controllers, l.controller) {
		d, err := g.legacy(l.controller)
		if err != nil {
			return fmt.Errorf("cgroup v2 does not delegate the %s controller, and %w", l.controller, err)
		}
		dir, settings = filepath.Join(d.path, name), l.v1
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		t.legacy = append(t.legacy, dir)
	}
	for _, s := range settings {
		if err := put(dir, s.file, s.value); err != nil && !s.optional {
			return err
		}
	}
	if l.controller == "memory" {
		t.oom, t.memory = filepath.Join(dir, l.oomFile(dir == t.unified)), spec.Limits.Memory
	}
	return nil
}
