package system

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Spec declares a world: a proc mesh with a name, whose hosts may join later.
type Spec struct {
	Name    string       `cbor:"1,keyasint" json:"name"`
	Shape   shape.Extent `cbor:"2,keyasint" json:"shape"`
	PerHost int          `cbor:"3,keyasint" json:"per_host"`
	// an absolute path on the hosts, or agent.Builtin
	Command agent.Command     `cbor:"4,keyasint" json:"command"`
	Labels  map[string]string `cbor:"5,keyasint,omitempty" json:"labels,omitempty"`
	Limits  agent.Limits      `cbor:"6,keyasint,omitzero" json:"limits,omitzero"`
	// procs outlive their hostd: see agent.Mesh
	Keep bool `cbor:"7,keyasint,omitempty" json:"keep,omitempty"`
}

// The bounds of a world.
const (
	MaxProcs      = 1 << 20
	maxLabels     = 64
	maxLabelValue = 256 // bytes of a label's value
)

// Check refuses an impossible world.
func (s Spec) Check() error {
	if err := subjects.CheckLabel("world name", s.Name); err != nil {
		return err
	}
	if err := s.Shape.Err(); err != nil {
		return fmt.Errorf("world %s: %w", s.Name, err)
	}
	switch n := s.Shape.NumRanks(); {
	case n < 1 || n > MaxProcs:
		return fmt.Errorf("world %s: shape %s has %d procs: want 1 to %d", s.Name, s.Shape, n, MaxProcs)
	case s.PerHost < 1 || s.PerHost > agent.MaxPerHost:
		return fmt.Errorf("world %s: %d procs per host: want 1 to %d", s.Name, s.PerHost, agent.MaxPerHost)
	case s.Command.Path == "":
		return fmt.Errorf("world %s: no command: want an absolute path on the hosts, or %q", s.Name, agent.Builtin)
	case s.Command.Path != agent.Builtin && !filepath.IsAbs(s.Command.Path):
		return fmt.Errorf("world %s: command %q: want an absolute path on the hosts, or %q",
			s.Name, s.Command.Path, agent.Builtin)
	}
	for i, e := range s.Command.Env { // values may be secrets
		key, _, ok := strings.Cut(e, "=")
		if !ok || key == "" {
			return fmt.Errorf("world %s: environment entry %d: want KEY=value", s.Name, i+1)
		}
		if slices.Contains(ownEnv[:], key) {
			return fmt.Errorf("world %s: environment entry %d: a host sets %s itself", s.Name, i+1, key)
		}
	}
	if err := cmp.Or(s.Limits.Check(), checkLabels(s.Labels)); err != nil {
		return fmt.Errorf("world %s: %w", s.Name, err)
	}
	return nil
}

// ownEnv are the environment variables of every proc of a world.
var ownEnv = [...]string{
	agent.EnvWorld, agent.EnvProc, agent.EnvRank, agent.EnvPoint, agent.EnvLocalRank, agent.EnvWorldSize,
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fmt.Errorf("%d labels: want at most %d", len(labels), maxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if err := subjects.CheckLabel("label", k); err != nil {
			return err
		}
		if v := labels[k]; len(v) > maxLabelValue || !utf8.ValidString(v) {
			return fmt.Errorf("label %s=%.40q: want text of at most %d bytes", k, v, maxLabelValue)
		}
	}
	return nil
}

// mergeLabels returns the union of has and adds. A key with two values is an error (WORLD-3).
func mergeLabels(of string, has, adds map[string]string) (map[string]string, error) {
	out := maps.Clone(has)
	for _, k := range slices.Sorted(maps.Keys(adds)) {
		if v, ok := has[k]; ok && v != adds[k] {
			return nil, &LabelError{Object: of, Label: k, Current: v, Requested: adds[k]}
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = adds[k]
	}
	return out, nil
}

// changes returns the keys of a world file in which a declaration differs, except labels.
func (s Spec) changes(o Spec) (keys []string, err error) {
	for _, f := range []struct {
		key      string
		old, new any
	}{
		{"shape", s.Shape, o.Shape}, {"per-host", s.PerHost, o.PerHost}, {"command", s.Command, o.Command},
		{"limits", s.Limits, o.Limits}, {"keep", s.Keep, o.Keep},
	} {
		before, berr := agent.Fingerprint(f.old)
		after, aerr := agent.Fingerprint(f.new)
		err = errors.Join(err, berr, aerr)
		if before != after {
			keys = append(keys, f.key)
		}
	}
	return keys, err
}

// share returns the range of ranks for a host rank. The host after the last full one takes the
// remainder; later hosts get none (WORLD-1).
func share(procs, perHost, hostRank int) (first, count int) {
	if hostRank > procs/perHost { // also avoids an overflow of the product
		return 0, 0
	}
	first = hostRank * perHost
	count = min(perHost, procs-first)
	if count == 0 {
		return 0, 0
	}
	return first, count
}
