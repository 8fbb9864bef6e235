package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// View is the merged view of owner, hosts and procs. Its JSON names are stable.
type View struct {
	Mesh           string          `json:"mesh"`
	Label          string          `json:"label"`
	Extent         string          `json:"extent"`
	Ranks          int             `json:"ranks"`
	Program        string          `json:"program"`
	Phase          string          `json:"phase"`
	Statuses       []StatusRun     `json:"statuses"`
	Failures       []Failure       `json:"failures"`        // of the newest generations, earliest first
	RestartedRanks []RestartedRank `json:"restarted_ranks"` // ranks beyond their first generation
	Hosts          []Host          `json:"hosts"`
	Actors         []ActorMesh     `json:"actors"`
	LeaseLeft      time.Duration   `json:"lease_left"` // until hosts stop the procs without renewal; 0: never
	Owner          Owner           `json:"owner"`
	RestartPolicy  string          `json:"restart_policy"`
	World          *World          `json:"world,omitempty"`        // for a world of the system controller
	NoActors       string          `json:"no_actors"`              // region of running ranks without live actors
	SilentProcs    string          `json:"silent_procs,omitempty"` // region of those that did not list their actors
	Started        *time.Time      `json:"started,omitempty"`      // of the first rank

	Shape   shape.Extent `json:"-"` // the extent
	PerHost int          `json:"-"` // ranks of a host
}

// World is the system controller's view of a world.
type World struct {
	Status         system.Status `json:"status"`
	Reason         string        `json:"reason,omitempty"`
	StatusAge      time.Duration `json:"status_age"`
	StoppingReason string        `json:"stopping_reason,omitempty"`
	EvictionIn     time.Duration `json:"eviction_in,omitempty"` // 0: no eviction is due
}

// Owner is the controller of a mesh with its own data.
type Owner struct {
	ID        string        `json:"id"`
	Answering bool          `json:"answering"`
	Gone      bool          `json:"gone,omitempty"`   // it has ended, or its process; else it may be slow
	Reason    string        `json:"reason,omitempty"` // why it does not answer
	Since     *time.Time    `json:"since,omitempty"`
	Lease     time.Duration `json:"lease"`
	Restarts  int           `json:"restarts"`
	Stalls    int           `json:"stalls"`
	Spares    int           `json:"spares"`
}

// StatusRun is a set of ranks with equal status.
type StatusRun struct {
	Region string `json:"region"`
	Ranks  int    `json:"ranks"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Failure is a failed rank.
type Failure struct {
	Rank       int       `json:"rank"`
	Point      string    `json:"point"`
	Host       string    `json:"host"`
	Reason     string    `json:"reason"`
	Root       string    `json:"root,omitempty"` // the end that caused it
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	OOM        bool      `json:"oom,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// RestartedRank is a rank in a later generation, or in a restart.
type RestartedRank struct {
	controller.RankHistory
	Point string `json:"point"`

	Status string `json:"-"` // of the rank
}

// Host is a host of a mesh. State is alive if it answered and its owner knows no better, else the
// owner's view, or silent.
type Host struct {
	ID     string    `json:"id"`
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"` // its last message, if it is not alive

	StoppedBy  string `json:"stopped_by,omitempty"`  // the order that stopped its ranks of a world
	LogTrouble string `json:"log_trouble,omitempty"` // why output of its procs may be lost
}

// ActorMesh is the actors of one name.
type ActorMesh struct {
	Actor    string      `json:"actor"`
	Type     string      `json:"type"`
	Statuses []StatusRun `json:"statuses"`
}

const (
	hostAlive   = "alive"
	hostDead    = "dead"
	hostSilent  = "silent"
	hostMissing = "missing" // no host of the world has the rank
)

// Mesh asks all parties of a live mesh, else of the newest ended one (CLI-C7). missing names the
// silent hosts that may have a live one.
func Mesh(ctx context.Context, conn *mesh.Net, name string) (v View, missing, err error) {
	inv, m, missing, err := FindWithEnded(ctx, conn, name)
	if w, ctl, bare := FindEmptyWorld(ctx, conn, name, err); bare {
		v, err = emptyWorldView(conn, w, ctl, newInspection(conn, inv).liveHosts)
		return v, inv.Err(), err
	}
	if err != nil {
		return View{}, nil, err
	}
	v, err = MeshOf(ctx, conn, inv, m, nil)
	return v, missing, err
}

// newInspection begins with what an Inventory knows of the hosts.
func newInspection(conn *mesh.Net, inv mesh.Inventory) inspection {
	w := inspection{
		net: conn, lastHeard: map[subjects.HostID]time.Time{}, logTrouble: map[subjects.HostID]string{},
	}
	for _, h := range inv.Hosts {
		w.logTrouble[h.ID] = h.LogTrouble
		if h.State == agent.HostAlive {
			w.liveHosts = append(w.liveHosts, h.ID)
		} else if h.Silence > 0 {
			w.lastHeard[h.ID] = time.Now().Add(-h.Silence)
		}
	}
	return w
}

// MeshOf is Mesh with an Inventory that is known already, and the mesh in it. With wanted it asks
// the procs of these ranks alone for actors.
func MeshOf(
	ctx context.Context, conn *mesh.Net, inv mesh.Inventory, m mesh.MeshState, wanted func(rank int) bool,
) (v View, err error) {
	w := newInspection(conn, inv)
	w.desc = m.Procs.Describe()
	// the owner knows more
	m.States = slices.DeleteFunc(slices.Clone(m.States), func(s agent.State) bool { return s.Status.Phase == agent.Unknown })
	var wg sync.WaitGroup
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	wg.Go(func() { w.askOwner(within) })
	wg.Go(func() { w.askActors(within, m, wanted) })
	w.askHosts(within, m.States)
	wg.Wait()
	v = w.view()
	if at := m.Started(); !at.IsZero() {
		v.Started = &at
	}
	return v, ctx.Err()
}

// Running returns the number of running ranks.
func (v View) Running() (n int) {
	for _, r := range v.Statuses {
		if r.Status == agent.Running.String() {
			n += r.Ranks
		}
	}
	return n
}

// overallPhase derives the phase of a mesh from its ranks: the least advanced existing one, or
// NotExist.
func overallPhase(by map[int]agent.Status) agent.Phase {
	least, most := agent.Unknown, agent.NotExist
	for _, s := range by {
		if s.Phase != agent.NotExist {
			least, most = min(least, s.Phase), max(most, s.Phase)
		}
	}
	if most == agent.NotExist || least.Terminal() {
		return most // failed with one failed rank, unknown with one possibly alive
	}
	return least
}

// statusRuns groups items by their status.
func statusRuns[T any](
	base shape.Extent, items []T, rank func(T) int, status func(T) agent.Status,
) []StatusRun {
	runs := []StatusRun{}
	for _, g := range GroupRanks(base, items, rank, status) {
		runs = append(runs, StatusRun{g.Region, len(g.Ranks), g.Outcome.Phase.String(), g.Outcome.Reason})
	}
	return runs
}

// DescribeLease describes what happens without renewal of the lease.
func (v View) DescribeLease() string {
	if v.hasEnded() {
		return "ended with the mesh"
	}
	if v.LeaseLeft == 0 {
		return "none known to a host: live procs run until `castnet stop`"
	}
	return fmt.Sprintf("expires in %s: then the hosts stop its procs", text.Remaining(v.LeaseLeft))
}

// UnhealthyHosts returns the hosts that are not alive.
func (v View) UnhealthyHosts() (out []Host) {
	for _, h := range v.Hosts {
		if h.State != hostAlive {
			out = append(out, h)
		}
	}
	return out
}

// DescribePhase describes the restart of a rank, or returns "".
func (l RestartedRank) DescribePhase() string {
	switch l.RestartPhase {
	case "waiting":
		return "starts in " + text.Remaining(l.NextIn)
	case "held":
		return "waits for its proc, for " + text.Remaining(l.NextIn)
	case "starting":
		return "starting"
	case "leaving":
		return "stopping before its restart"
	}
	return ""
}

// FindWithEnded finds the live mesh, else the newest ended one. missing names the silent hosts that
// may have a live one.
func FindWithEnded(
	ctx context.Context, conn *mesh.Net, name string,
) (inv mesh.Inventory, found mesh.MeshState, missing, err error) {
	inv, p, err := conn.InventoryFor(ctx, name)
	if _, unknown := errors.AsType[*mesh.NotFoundError](err); err != nil && !unknown {
		return inv, found, nil, err
	}
	var newest time.Time
	for _, m := range inv.Meshes {
		id := m.Procs.ID()
		if err == nil && id == p.ID() {
			return inv, m, nil, nil
		}
		if id.String() != name && id.Label() != name {
			continue
		}
		if at := m.Started(); found.States == nil || at.After(newest) {
			found, newest = m, at
		}
	}
	if found.States == nil {
		return inv, found, nil, err
	}
	return inv, found, inv.Err(), nil
}

// Point formats the coordinates of a rank: `host=0,gpu=3`, or "0" in a mesh of one rank.
func Point(e shape.Extent, rank int) string { return shape.DescribeRank(e, rank) }
