package cgroup

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
	"time"

	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/failpoint"
)

// None as Options.Root turns cgroups off.
const None = "none"

// Options configure a Manager.
type Options struct {
	// Root is a cgroup v2 directory for the manager's own. Empty means the cgroup of this process.
	// A cgroup that holds processes cannot delegate controllers.
	Root string
	// Owner names the owner over the lives of its managers. With an owner, one manager at a time
	// lives, and kept groups of a dead one are the next one's.
	Owner string
}

const (
	dirPrefix  = "castnet-"
	keptPrefix = "keep."
	stopPrefix = "stop."
)

// Manager holds the cgroup directories of a launcher: one in v2 if available, and one per v1
// hierarchy, made for the first limit there.
type Manager struct {
	owner       string
	name        string            // name of every directory
	ownDirs     map[string]string // of this process, by controller
	unified     *managerDir       // nil: none
	unavailable error
	controllers []string // v2 controllers available to groups
	created     atomic.Int64

	mu     sync.Mutex
	v1Dirs map[string]*managerDir
}

// ownerPrefix returns the common prefix of directory names for one owner.
func ownerPrefix(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return dirPrefix + hex.EncodeToString(sum[:4]) + "-"
}

// Open returns a manager, also on systems without cgroups.
func Open(o Options) *Manager {
	m := &Manager{
		owner: o.Owner, name: ownerPrefix(o.Owner) + strings.ToLower(rand.Text()),
		v1Dirs: make(map[string]*managerDir),
	}
	if o.Root == None {
		m.unavailable = errors.New("cgroups are turned off")
		return m
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	mountinfo, err2 := os.ReadFile("/proc/self/mountinfo")
	m.unavailable = errors.Join(err, err2)
	if m.unavailable != nil {
		return m
	}
	m.ownDirs = ownCgroups(string(membership), string(mountinfo))
	if o.Root != "" {
		m.ownDirs[unifiedKey] = o.Root
	}
	m.unavailable = m.openUnified()
	return m
}

func (m *Manager) openUnified() error {
	base, ok := m.ownDirs[unifiedKey]
	if !ok {
		return errors.New("no cgroup v2 is mounted")
	}
	d, err := createManagerDir(base, m.name)
	if err != nil {
		return fmt.Errorf("cgroup v2: %w", err)
	}
	if _, err := os.Stat(filepath.Join(d.path, "cgroup.kill")); err != nil {
		d.close()
		return fmt.Errorf("cgroup v2 without cgroup.kill (Linux 5.14 or later): %w", err)
	}
	m.unified = d
	m.controllers = enableControllers(d.path, enableControllers(base, "memory", "pids", "cpu")...)
	return nil
}

// Unavailable returns why groups have no tree of processes, or nil.
func (m *Manager) Unavailable() error { return m.unavailable }

// Name returns the unique name of the manager.
func (m *Manager) Name() string { return m.name }

// Close removes the directories. Groups are gone by now, or left to the next KillLeftovers.
func (m *Manager) Close() {
	if m.unified != nil {
		m.unified.close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.v1Dirs {
		d.close()
	}
}

// v1Dir returns the manager's directory in the v1 hierarchy of a controller.
func (m *Manager) v1Dir(controller string) (*managerDir, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.v1Dirs[controller]; d != nil {
		return d, nil
	}
	base, ok := m.ownDirs[controller]
	if !ok && m.ownDirs == nil {
		return nil, m.unavailable
	}
	if !ok {
		return nil, errors.New("no cgroup v1 hierarchy has it")
	}
	d, err := createManagerDir(base, m.name)
	if err != nil {
		return nil, err
	}
	m.v1Dirs[controller] = d
	return d, nil
}

// Create makes the group of one child, before its fork. A kept group outlives its manager. Limits
// that cannot be set are refused, each with its reason.
func (m *Manager) Create(name string, kept bool, limits Limits) (g Group, refused []Refusal, err error) {
	kind := stopPrefix
	if kept {
		kind = keptPrefix
	}
	name = fmt.Sprintf("%s%s.%d", kind, name, m.created.Add(1))
	if m.unified != nil {
		g.Dir = filepath.Join(m.unified.path, name)
		if err := os.Mkdir(g.Dir, 0o755); err != nil {
			return Group{}, nil, fmt.Errorf("cgroup: %w", err)
		}
		if slices.Contains(m.controllers, Memory) {
			g.OOMFile = filepath.Join(g.Dir, "memory.events")
		}
	}
	for _, l := range limits.settings() {
		if err := m.limit(&g, name, l); err != nil {
			refused = append(refused, Refusal{l.controller, err})
		}
	}
	return g, refused, nil
}

// limit sets one limit: in v2 if the controller is delegated, else in v1.
func (m *Manager) limit(g *Group, name string, l controllerLimit) error {
	dir := g.Dir
	settings := l.v2
	oomFile := "memory.events"
	if !slices.Contains(m.controllers, l.controller) {
		d, err := m.v1Dir(l.controller)
		if err != nil {
			return fmt.Errorf("cgroup v2 does not delegate the %s controller, and %w", l.controller, err)
		}
		dir = filepath.Join(d.path, name)
		settings = l.v1
		oomFile = "memory.oom_control"
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		g.V1 = append(g.V1, dir)
	}
	for _, s := range settings {
		if err := writeFile(dir, s.file, s.value); err != nil && !s.optional {
			return err
		}
	}
	if l.controller == Memory {
		g.OOMFile = filepath.Join(dir, oomFile)
		g.Memory = l.bytes
	}
	return nil
}

// Leftover is the tree of a child whose launcher died.
type Leftover struct {
	Name      string // of the child
	Processes int    // killed in it
}

// KillLeftovers kills and removes the groups of dead managers (CGR-1). It spares the given groups.
// Of other owners it kills what is not kept; a manager without an owner leaves them alone. killWait
// bounds the wait for each group.
func (m *Manager) KillLeftovers(spared []Group, killWait time.Duration) (left []Leftover, err error) {
	keep := make(map[string]bool)
	for _, g := range spared {
		for _, dir := range g.dirs() {
			keep[dir] = true
		}
	}
	var errs []error
	for _, base := range m.ownDirs { // a duplicate is harmless
		paths, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
		for _, path := range paths {
			ours := strings.HasPrefix(filepath.Base(path), ownerPrefix(m.owner))
			if filepath.Base(path) == m.name || (m.owner == "" && !ours) {
				continue
			}
			dead, err := lockDeadDir(path, ours && m.owner != "")
			if err != nil {
				continue // its manager lives, or the directory is gone
			}
			found, err := killGroups(path, ours, keep, killWait)
			left = append(left, found...)
			errs = append(errs, err)
			dead.close()
		}
	}
	return left, errors.Join(errs...)
}

// lockDeadDir locks the directory of a dead manager. surely marks one known to be dead, because its
// owner is ours. A forked child holds such a lock until its exec, so lockDeadDir waits.
func lockDeadDir(path string, surely bool) (d *managerDir, err error) {
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(retryInterval) {
		d, err = lockDir(path)
		if !surely || !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return d, err
		}
	}
}

// killGroups ends the groups in a dead manager's directory. ours marks one of this owner.
func killGroups(path string, ours bool, spared map[string]bool,
	wait time.Duration) (left []Leftover, err error) {
	dirs, _ := filepath.Glob(filepath.Join(path, "*.*"))
	var errs []error
	for _, dir := range dirs {
		name, kept := strings.CutPrefix(filepath.Base(dir), keptPrefix)
		name = strings.TrimPrefix(name, stopPrefix)
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			name = name[:i]
		}
		if spared[dir] || (kept && !ours) || !isCgroup(dir) {
			continue
		}
		g := Group{Dir: dir}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil { // v1 groups only limit
			g = Group{V1: []string{dir}}
		} else {
			left = append(left, Leftover{Name: name, Processes: countProcesses(dir)})
			if !g.KillAndWait(wait) {
				errs = append(errs, errors.New("processes of "+dir+" survive SIGKILL"))
			}
			failpoint.Hit("census-killed")
		}
		errs = append(errs, g.Remove(wait))
	}
	return left, errors.Join(errs...)
}

// isCgroup distinguishes a cgroup directory from the files beside it.
func isCgroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

// countProcesses counts the processes of a cgroup and of those below it.
func countProcesses(dir string) int {
	n := len(readFields(filepath.Join(dir, "cgroup.procs")))
	below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, file := range below {
		n += countProcesses(filepath.Dir(file))
	}
	return n
}
