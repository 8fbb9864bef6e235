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
	dirPrefix  = "castnet-"
	keptPrefix = "keep."
	stopPrefix = "stop."
)

// cgroups are the cgroup directories of a launcher: one in v2 if available, and one per v1
// hierarchy, made for the first limit there.
type cgroups struct {
	name        string // name of every directory
	ownDirs     map[string]string
	unified     *cgroupDir // nil: none
	unavailable error
	controllers []string // v2 controllers available to children
	created     atomic.Int64

	mu     sync.Mutex
	v1Dirs map[string]*cgroupDir
}

// namePrefix returns the common prefix of directory names for one state directory.
func namePrefix(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return dirPrefix + hex.EncodeToString(sum[:4]) + "-"
}

func openCgroups(o Options) *cgroups {
	g := &cgroups{
		name: namePrefix(o.StateDir) + strings.ToLower(rand.Text()), v1Dirs: make(map[string]*cgroupDir),
	}
	if o.Cgroup == NoCgroup {
		g.unavailable = errors.New("cgroups are turned off")
		return g
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	mountinfo, err2 := os.ReadFile("/proc/self/mountinfo")
	g.unavailable = errors.Join(err, err2)
	if g.unavailable != nil {
		return g
	}
	g.ownDirs = ownCgroups(string(membership), string(mountinfo))
	if o.Cgroup != "" {
		g.ownDirs[unifiedKey] = o.Cgroup
	}
	g.unavailable = g.openUnified()
	return g
}

func (g *cgroups) openUnified() error {
	base, ok := g.ownDirs[unifiedKey]
	if !ok {
		return errors.New("no cgroup v2 is mounted")
	}
	d, err := createCgroupDir(base, g.name)
	if err != nil {
		return fmt.Errorf("cgroup v2: %w", err)
	}
	if _, err := os.Stat(filepath.Join(d.path, "cgroup.kill")); err != nil {
		d.close()
		return fmt.Errorf("cgroup v2 without cgroup.kill (Linux 5.14 or later): %w", err)
	}
	g.unified = d
	g.controllers = enableControllers(d.path, enableControllers(base, "memory", "pids", "cpu")...)
	return nil
}

// close removes the directories. Trees are gone by now, or left to the next KillLeftovers.
func (g *cgroups) close() {
	if g.unified != nil {
		g.unified.close()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.v1Dirs {
		d.close()
	}
}

// v1Dir returns the directory in the v1 hierarchy of a controller.
func (g *cgroups) v1Dir(controller string) (*cgroupDir, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.v1Dirs[controller]; d != nil {
		return d, nil
	}
	base, ok := g.ownDirs[controller]
	if !ok && g.ownDirs == nil {
		return nil, g.unavailable
	}
	if !ok {
		return nil, errors.New("no cgroup v1 hierarchy has it")
	}
	d, err := createCgroupDir(base, g.name)
	if err != nil {
		return nil, err
	}
	g.v1Dirs[controller] = d
	return d, nil
}

// create makes the cgroups of one child with its limits, before the fork.
func (g *cgroups) create(spec *Spec) (*tree, error) {
	t := new(tree)
	kind := stopPrefix
	if spec.Keep {
		kind = keptPrefix
	}
	name := fmt.Sprintf("%s%s.%d", kind, spec.Name, g.created.Add(1))
	if g.unified != nil {
		dir := filepath.Join(g.unified.path, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		t.unified = dir
		if slices.Contains(g.controllers, "memory") {
			t.oomFile = filepath.Join(dir, "memory.events")
		}
	}
	for _, l := range spec.Limits.byController() {
		if err := g.applyLimit(t, spec, name, l); err != nil {
			t.addUnenforced(l.name, err)
		}
	}
	return t, nil
}

// applyLimit sets one limit: in v2 if the controller is delegated, else in v1.
func (g *cgroups) applyLimit(t *tree, spec *Spec, name string, l controllerLimit) error {
	dir, settings := t.unified, l.v2
	if !slices.Contains(g.controllers, l.controller) {
		d, err := g.v1Dir(l.controller)
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
		if err := writeCgroupFile(dir, s.file, s.value); err != nil && !s.optional {
			return err
		}
	}
	if l.controller == "memory" {
		t.oomFile, t.memoryLimit = filepath.Join(dir, l.oomFile(dir == t.unified)), spec.Limits.Memory
	}
	return nil
}
