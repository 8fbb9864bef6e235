package controller

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/subjects"
)

// Recovery is the reaction to a failed rank. A rank that stopped cleanly stays stopped.
type Recovery uint8

const (
	Propagate Recovery = iota // the rank fails, and the mesh's owner gets the failure
	Restart                   // the rank restarts in its place, as its next generation
	Replace                   // as Restart; the ranks of a dead host restart on a spare host
	Drop                      // the mesh continues without the rank, and does not fail
)

var recoveryNames = [...]string{"propagate", "restart", "replace", "drop"}

func (r Recovery) String() string {
	if int(r) >= len(recoveryNames) {
		return fmt.Sprintf("recovery(%d)", uint8(r))
	}
	return recoveryNames[r]
}

// MarshalText writes the recovery's name.
func (r Recovery) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a recovery's name.
func (r *Recovery) UnmarshalText(text []byte) error {
	i := slices.Index(recoveryNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("recovery %q: want one of %v", text, recoveryNames)
	}
	*r = Recovery(i)
	return nil
}

// Policy is the recovery policy of a mesh. The zero value propagates failures. A failure without a
// remedy is propagated, too: no restart left, or a dead host without a spare.
type Policy struct {
	Recovery    Recovery
	MaxRestarts int           // restarts of one rank within Window; 0: 3
	Window      time.Duration // 0: 1 minute
	Backoff     time.Duration // before a restart; it doubles with each restart within Window; 0: 100 ms
	MaxBackoff  time.Duration // the longest backoff; 0: 10 s
	Spares      []subjects.HostID
}

// Defaults of a Policy.
const (
	defaultMaxRestarts = 3
	defaultWindow      = time.Minute
	defaultBackoff     = 100 * time.Millisecond
	defaultMaxBackoff  = 10 * time.Second
)

// String describes the policy, with the defaults of its empty fields.
func (p Policy) String() string {
	if !p.Restarts() {
		return p.Recovery.String()
	}
	i := p.intensity()
	s := fmt.Sprintf("%s: each rank at most %d times within %s, backoff %s to %s",
		p.Recovery, i.MaxRestarts, i.Window, i.Backoff.First, i.Backoff.Max)
	if p.Recovery == Replace {
		s += ", with " + spareHosts(len(p.Spares))
	}
	return s
}

func spareHosts(n int) string {
	if n == 1 {
		return "1 spare host"
	}
	return fmt.Sprintf("%d spare hosts", n)
}

// Restarts reports whether failed ranks restart.
func (p Policy) Restarts() bool { return p.Recovery == Restart || p.Recovery == Replace }

// intensity returns each rank's restart policy for the supervisor.
func (p Policy) intensity() supervise.Policy {
	first := cmp.Or(p.Backoff, defaultBackoff)
	return supervise.Policy{
		When:        supervise.Transient,
		MaxRestarts: cmp.Or(p.MaxRestarts, defaultMaxRestarts),
		Window:      cmp.Or(p.Window, defaultWindow),
		Backoff:     supervise.Backoff{First: first, Max: cmp.Or(p.MaxBackoff, max(first, defaultMaxBackoff))},
	}
}

// check refuses a policy that does not fit the mesh.
func (p Policy) check(s Spec) error {
	if err := p.checkMesh(s); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	return p.intensity().Check()
}

func (p Policy) checkMesh(s Spec) error {
	switch {
	case int(p.Recovery) >= len(recoveryNames):
		return fmt.Errorf("%s: want one of %v", p.Recovery, recoveryNames)
	case p.Backoff < 0 || p.MaxBackoff < 0:
		return fmt.Errorf("backoff from %s to %s: want 0 or more", p.Backoff, p.MaxBackoff)
	case p.Recovery != Replace && len(p.Spares) > 0:
		return fmt.Errorf("%s with recovery %s: want %s, or no spares",
			spareHosts(len(p.Spares)), p.Recovery, Replace)
	case p.Recovery == Replace && s.Actors != nil:
		return fmt.Errorf("recovery %s of actors: want %s; actors follow their replaced procs", Replace, Restart)
	case p.Recovery == Replace && len(p.Spares) == 0:
		return fmt.Errorf("recovery %s without spare hosts: want spare hosts, or recovery %s", Replace, Restart)
	case len(p.Spares) > len(s.Procs.Hosts):
		return fmt.Errorf("%s for a mesh on %d hosts: want at most one for each host",
			spareHosts(len(p.Spares)), len(s.Procs.Hosts))
	case p.Restarts() && s.Actors == nil && s.Procs.PerProcess > 1:
		return fmt.Errorf("recovery %s of procs that share a process: they end together: want %s or %s",
			p.Recovery, Propagate, Drop)
	}
	for i, h := range p.Spares {
		if slices.Contains(s.Procs.Hosts, h) || slices.Contains(p.Spares[:i], h) {
			return fmt.Errorf("spare host %s is already a host of the mesh: want another", h)
		}
	}
	return nil
}
