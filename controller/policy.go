package controller

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/subjects"
)

// RestartPolicy decides which ranks of a mesh restart. The zero value propagates failures. A
// failure without a remedy is propagated, too: no restart left, or a dead host without a spare.
type RestartPolicy struct {
	// Restart is actor.Transient for failed ranks to restart in their places, as their next
	// generations. With actor.Temporary the mesh continues without them. No rank restarts after a
	// clean stop: actor.Permanent is refused.
	Restart     actor.Restart
	MaxRestarts int           // restarts of one rank within Window; 0: 3
	Window      time.Duration // 0: 1 minute
	Backoff     time.Duration // before a restart; it doubles with each restart within Window; 0: 100 ms
	MaxBackoff  time.Duration // the longest backoff; 0: 10 s
	// Spares are hosts on which the ranks of dead hosts restart. They need actor.Transient.
	Spares []subjects.HostID
}

// Defaults of a RestartPolicy.
const (
	defaultMaxRestarts = 3
	defaultWindow      = time.Minute
	defaultBackoff     = 100 * time.Millisecond
	defaultMaxBackoff  = 10 * time.Second
)

// String describes the policy, with the defaults of its empty fields.
func (p RestartPolicy) String() string {
	if !p.Restarts() {
		return p.Restart.String()
	}
	i := p.intensity()
	s := fmt.Sprintf("%s: each rank at most %d times within %s, backoff %s to %s",
		p.Restart, i.MaxRestarts, i.Window, i.Backoff.First, i.Backoff.Max)
	if len(p.Spares) > 0 {
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
func (p RestartPolicy) Restarts() bool { return p.Restart == actor.Transient }

// intensity returns each rank's restart policy for the supervisor.
func (p RestartPolicy) intensity() supervise.Policy {
	first := cmp.Or(p.Backoff, defaultBackoff)
	return supervise.Policy{
		Restart:     supervise.Transient,
		MaxRestarts: cmp.Or(p.MaxRestarts, defaultMaxRestarts),
		Window:      cmp.Or(p.Window, defaultWindow),
		Backoff:     supervise.Backoff{First: first, Max: cmp.Or(p.MaxBackoff, max(first, defaultMaxBackoff))},
	}
}

// check refuses a policy that does not fit the mesh.
func (p RestartPolicy) check(s Spec) error {
	if err := p.checkMesh(s); err != nil {
		return fmt.Errorf("restart policy: %w", err)
	}
	return p.intensity().Check()
}

func (p RestartPolicy) checkMesh(s Spec) error {
	switch {
	case p.Restart > actor.Transient:
		return fmt.Errorf("%s: want one of %v", p.Restart,
			[]actor.Restart{actor.Propagate, actor.Temporary, actor.Transient})
	case p.Backoff < 0 || p.MaxBackoff < 0:
		return fmt.Errorf("backoff from %s to %s: want 0 or more", p.Backoff, p.MaxBackoff)
	case !p.Restarts() && len(p.Spares) > 0:
		return fmt.Errorf("%s with %s: want %s, or no spares",
			spareHosts(len(p.Spares)), p.Restart, actor.Transient)
	case len(p.Spares) > 0 && s.Actors != nil:
		return fmt.Errorf("%s for actors: want none; actors follow their procs", spareHosts(len(p.Spares)))
	case len(p.Spares) > len(s.Procs.Hosts):
		return fmt.Errorf("%s for a mesh on %d hosts: want at most one for each host",
			spareHosts(len(p.Spares)), len(s.Procs.Hosts))
	case p.Restarts() && s.Actors == nil && s.Procs.PerProcess > 1:
		return fmt.Errorf("%s for procs that share a process: they end together: want %s or %s",
			p.Restart, actor.Propagate, actor.Temporary)
	}
	for i, h := range p.Spares {
		if slices.Contains(s.Procs.Hosts, h) || slices.Contains(p.Spares[:i], h) {
			return fmt.Errorf("spare host %s is already a host of the mesh: want another", h)
		}
	}
	return nil
}
